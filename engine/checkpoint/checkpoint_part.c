/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes and reads a process's part of the tensor files of a checkpoint. The place of every byte follows
 * from names and shapes, so each process writes what it has; the checksums of the parts add up to the files'
 * (crc64.h). */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/checkpoint/checkpoint_internal.h"
#include "engine/files/crc64.h"
#include "engine/files/fileio_error.h"

#define TILE ((uint64_t)1 << 18) /* elements that are transposed at a time */
#define READ_GRAIN ((uint64_t)1 << 20)

clt_status clt_tensor_file_make(const clt_checkpoint_content *content, int index, clt_tensor_file *out)
{
    /* other readers of the format look for "pt": tensors are row-major and named as in PyTorch */
    static const char *const metadata[] = {"format", "pt"};
    *out = (clt_tensor_file){.name = index ? CLT_OPTIMIZER_FILE : CLT_MODEL_FILE,
                             .tensors = index ? content->optimizer : content->model,
                             .count = index ? content->n_optimizer : content->n_model};
    if (index && out->count == 0)
        return CLT_OK;
    CLT_TRY(clt_safetensors_head(out->name, out->tensors, out->count, metadata, 1, &out->head));
    out->size = out->head.length + clt_named_tensors_bytes(out->tensors, out->count);
    return CLT_OK;
}

void clt_tensor_file_free(clt_tensor_file *file)
{
    clt_str_free(&file->head);
}

void clt_part_add(clt_part *part, const clt_part *other)
{
    for (int i = 0; i < 2; i++) {
        part->bytes[i] += other->bytes[i];
        part->share[i] ^= other->share[i];
    }
}

/* --- writing --- */

/* A file that this process writes to. */
typedef struct part_file {
    clt_tensor_file plan;
    int fd; /* -1: not opened yet */
    char *path;
    uint64_t *begin;       /* where each tensor's data begins, in bytes */
    uint64_t bytes, share; /* see clt_part */
    float *tile;
} part_file;

/* The checksum of runs of bytes of a file, in ascending order. */
typedef struct run_sum {
    uint64_t value, end; /* the checksum; the end of the last run, in bytes */
    uint64_t delta, step;
} run_sum;

static void add_run(run_sum *sum, const void *data, uint64_t bytes, uint64_t offset)
{
    uint64_t delta = offset + bytes - sum->end;
    if (delta != sum->delta) { /* `delta` is mostly the same as for the previous run */
        sum->delta = delta;
        sum->step = clt_crc64_step(delta);
    }
    sum->value = clt_crc64_times(sum->value, sum->step) ^ clt_crc64_part(data, (size_t)bytes);
    sum->end = offset + bytes;
}

static clt_status write_run(part_file *f, run_sum *sum, const void *data, uint64_t bytes, uint64_t offset)
{
    add_run(sum, data, bytes, offset);
    f->bytes += bytes;
    return clt_fd_write_at(f->fd, data, (size_t)bytes, offset, f->path);
}

static void end_runs(part_file *f, const run_sum *sum)
{
    f->share ^= clt_crc64_move(sum->value, f->plan.size - sum->end);
}

/* A rectangle of a transposed matrix. Rows and columns are as in memory; in the file they are swapped. */
typedef struct block {
    uint64_t row, rows, column, columns;
    uint64_t length[2]; /* elements of a row in memory, of a row in the file */
    uint64_t offset;    /* where the matrix begins in the file, in bytes */
} block;

static clt_status write_block(part_file *f, const block *b, const float *values)
{
    run_sum sum = {0};
    uint64_t most = TILE / b->rows;
    for (uint64_t c = 0; c < b->columns; c += most) {
        uint64_t columns = b->columns - c < most ? b->columns - c : most;
        uint64_t at = b->offset + ((b->column + c) * b->length[1] + b->row) * sizeof(float);
        for (uint64_t i = 0; i < b->rows; i++)
            for (uint64_t j = 0; j < columns; j++)
                f->tile[j * b->rows + i] = values[i * b->length[0] + c + j];
        if (b->rows == b->length[1]) { /* whole rows of the file */
            CLT_TRY(write_run(f, &sum, f->tile, columns * b->rows * sizeof(float), at));
            continue;
        }
        for (uint64_t j = 0; j < columns; j++)
            CLT_TRY(write_run(f, &sum, f->tile + j * b->rows, b->rows * sizeof(float),
                              at + j * b->length[1] * sizeof(float)));
    }
    end_runs(f, &sum);
    return CLT_OK;
}

/* Rows and columns in memory of the matrices of a transposed tensor. shape: the tensor's, in the file. */
static void matrix_of(const clt_tensor_piece *piece, const clt_shape *shape, uint64_t *rows,
                      uint64_t *columns)
{
    *rows = 1;
    for (int i = 0; i < piece->transposed; i++)
        *rows *= (uint64_t)shape->dim[shape->ndim - 1 - i];
    *columns = (uint64_t)shape->dim[shape->ndim - 1 - piece->transposed];
}

static clt_status write_transposed(part_file *f, const clt_tensor_piece *piece,
                                   const clt_named_tensor *tensor, uint64_t offset)
{
    const clt_shape *shape = &tensor->shape;
    const float *values = piece->data;
    if (shape->ndim <= piece->transposed || tensor->dtype != CLT_F32)
        CLT_FAIL(CLT_EINTERNAL, "tensor \"%s\" cannot be transposed", tensor->name);
    uint64_t rows, columns;
    matrix_of(piece, shape, &rows, &columns);
    uint64_t matrix = rows * columns;
    if (!f->tile)
        CLT_TRY(clt_alloc(&f->tile, TILE, sizeof *f->tile, "a transposed tensor"));
    for (uint64_t at = piece->first, left = piece->count, n; left > 0; at += n, values += n, left -= n) {
        uint64_t row = at % matrix / columns, column = at % columns, whole = left / columns;
        block b = {.row = row, .rows = 1, .column = column, .length = {columns, rows}};
        b.offset = offset + at / matrix * matrix * sizeof(float);
        b.columns = columns - column < left ? columns - column : left;
        if (column == 0 && whole > 0) {
            b.rows = whole < rows - row ? whole : rows - row;
            b.rows = b.rows < TILE ? b.rows : TILE;
        }
        n = b.rows * b.columns;
        CLT_TRY(write_block(f, &b, values));
    }
    return CLT_OK;
}

static clt_status write_piece(part_file *f, const clt_tensor_piece *piece, int index)
{
    const clt_named_tensor *tensor = &f->plan.tensors[index];
    uint64_t width = clt_dtype_bytes(tensor->dtype), all = (uint64_t)clt_shape_elements(&tensor->shape);
    run_sum sum = {0};
    if (piece->first > all || piece->count > all - piece->first)
        CLT_FAIL(CLT_EINTERNAL, "tensor \"%s\" is shorter than a piece of it", tensor->name);
    if (piece->transposed)
        return write_transposed(f, piece, tensor, f->begin[index]);
    CLT_TRY(write_run(f, &sum, piece->data, piece->count * width, f->begin[index] + piece->first * width));
    end_runs(f, &sum);
    return CLT_OK;
}

static clt_status open_part(part_file *f, const char *folder, int flags)
{
    if (f->fd >= 0)
        return CLT_OK;
    CLT_TRY(clt_path_join(folder, f->plan.name, &f->path));
    CLT_TRY(clt_alloc(&f->begin, (size_t)f->plan.count + 1, sizeof *f->begin, "a checkpoint's tensors"));
    f->begin[0] = f->plan.head.length;
    for (int i = 0; i < f->plan.count; i++)
        f->begin[i + 1] = f->begin[i] + clt_named_tensors_bytes(&f->plan.tensors[i], 1);
    f->fd = open(f->path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | flags, 0666);
    if (f->fd < 0)
        return clt_fail_errno(CLT_ESTORAGE, errno, "%s '%s'", flags ? "creating" : "opening", f->path);
    return CLT_OK;
}

static clt_status write_head(part_file *f, const char *folder)
{
    run_sum sum = {0};
    if (!f->plan.head.length)
        return CLT_OK;
    CLT_TRY(open_part(f, folder, O_CREAT | O_EXCL));
    if (ftruncate(f->fd, (off_t)f->plan.size) != 0)
        return clt_fail_errno(CLT_ESTORAGE, errno, "giving '%s' its size", f->path);
    CLT_TRY(write_run(f, &sum, f->plan.head.text, f->plan.head.length, 0));
    end_runs(f, &sum);
    return CLT_OK;
}

static clt_status close_part(part_file *f, clt_status status)
{
    if (f->fd >= 0 && status == CLT_OK && fsync(f->fd) != 0)
        status = clt_fail_errno(CLT_ESTORAGE, errno, "making '%s' durable (fsync)", f->path);
    if (f->fd >= 0 && close(f->fd) != 0 && status == CLT_OK)
        status = clt_fail_errno(CLT_ESTORAGE, errno, "closing '%s'", f->path);
    clt_tensor_file_free(&f->plan);
    free(f->path);
    free(f->begin);
    free(f->tile);
    return status;
}

static void add_written(const part_file *f, int index, clt_part *part)
{
    part->bytes[index] += f->bytes;
    part->share[index] ^= f->share;
}

clt_status clt_tensor_files_create(const char *folder, const clt_checkpoint_content *content, clt_part *part)
{
    clt_status status = CLT_OK;
    for (int k = 0; k < 2 && status == CLT_OK; k++) {
        part_file file = {.fd = -1};
        status = clt_tensor_file_make(content, k, &file.plan);
        if (status == CLT_OK)
            status = write_head(&file, folder);
        status = close_part(&file, status);
        add_written(&file, k, part);
    }
    return status;
}

/* Checks the values of a piece; the error names the element by its number in the file. */
static clt_status check_finite(const clt_named_tensor *tensor, const clt_tensor_piece *piece)
{
    const clt_named_tensor values = {tensor->name, tensor->dtype, clt_shape1((int64_t)piece->count),
                                     piece->data};
    const char *what;
    int64_t at = clt_find_nonfinite(&values, &what);
    if (at < 0)
        return CLT_OK;
    at += (int64_t)piece->first;
    if (piece->transposed) {
        uint64_t rows, columns;
        matrix_of(piece, &tensor->shape, &rows, &columns);
        uint64_t in = (uint64_t)at % (rows * columns);
        at += (int64_t)(in % columns * rows + in / columns) - (int64_t)in;
    }
    CLT_FAIL(CLT_ENUMERIC, "tensor \"%s\" holds %s at element %" PRId64 " of %" PRId64, tensor->name, what,
             at, clt_shape_elements(&tensor->shape));
}

clt_status clt_checkpoint_write_part(const char *folder, const char *tag,
                                     const clt_checkpoint_content *content, const clt_tensor_piece *pieces,
                                     int n, clt_part *part)
{
    part_file file[2] = {{.fd = -1}, {.fd = -1}};
    CLT_FREED char *temporary = NULL;
    clt_status status = clt_checkpoint_temporary(folder, content->step, tag, &temporary);
    for (int i = 0; i < n && status == CLT_OK; i++) {
        int index = pieces[i].tensor - content->n_model;
        status = check_finite(index < 0 ? content->model + pieces[i].tensor : content->optimizer + index,
                              &pieces[i]);
    }
    for (int k = 0; k < 2 && status == CLT_OK; k++)
        status = clt_tensor_file_make(content, k, &file[k].plan);
    for (int i = 0; i < n && status == CLT_OK; i++) {
        int k = pieces[i].tensor >= content->n_model, index = pieces[i].tensor - k * content->n_model;
        status = open_part(&file[k], temporary, 0);
        if (status == CLT_OK)
            status = clt_fail_prefix(write_piece(&file[k], &pieces[i], index), "tensor \"%s\"",
                                     file[k].plan.tensors[index].name);
    }
    for (int k = 0; k < 2; k++) {
        status = close_part(&file[k], status);
        add_written(&file[k], k, part);
    }
    return clt_fail_prefix(status, "saving the checkpoint of step %" PRId64, content->step);
}

/* --- reading back --- */

/* Adds bytes [from, to) of a file to the checksum. Reads them: a mapping counts as the process's memory. */
static clt_status sum_bytes(int fd, const char *path, uint64_t from, uint64_t to, run_sum *sum)
{
    CLT_FREED uint8_t *buffer = NULL;
    CLT_TRY(clt_alloc(&buffer, READ_GRAIN, 1, "a part of a checkpoint"));
    while (from < to) {
        ssize_t n = pread(fd, buffer, to - from < READ_GRAIN ? to - from : READ_GRAIN, (off_t)from);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return clt_fail_errno(CLT_ECHECKPOINT, errno, "reading '%s'", path);
        if (n == 0)
            CLT_FAIL(CLT_ECHECKPOINT, "%s: ends at byte %" PRIu64, path, from);
        add_run(sum, buffer, (uint64_t)n, from);
        from += (uint64_t)n;
    }
    return CLT_OK;
}

static clt_status read_file_part(const char *folder, const clt_tensor_file *plan, int index, int parts,
                                 uint64_t *bytes, uint64_t *share)
{
    CLT_FREED char *path = NULL;
    run_sum sum = {0};
    uint64_t grains = clt_div_up(plan->size, READ_GRAIN);
    uint64_t from = grains * (uint64_t)index / (uint64_t)parts * READ_GRAIN,
             to = grains * ((uint64_t)index + 1) / (uint64_t)parts * READ_GRAIN;
    to = to < plan->size ? to : plan->size;
    if (from >= to)
        return CLT_OK;
    CLT_TRY(clt_path_join(folder, plan->name, &path));
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    clt_status status = fd < 0 ? clt_fail_errno(CLT_ECHECKPOINT, errno, "opening '%s'", path)
                               : sum_bytes(fd, path, from, to, &sum);
    if (fd >= 0)
        (void)close(fd);
    *bytes = to - from;
    *share = clt_crc64_move(sum.value, plan->size - to);
    return status;
}

clt_status clt_checkpoint_read_part(const char *folder, const clt_checkpoint_content *content, int index,
                                    int parts, clt_part *part)
{
    CLT_FREED char *step = NULL;
    *part = (clt_part){0};
    CLT_TRY(clt_checkpoint_folder(folder, content->step, &step));
    for (int k = 0; k < 2; k++) {
        CLT_SCOPED(clt_tensor_file) plan = {0};
        CLT_TRY(clt_tensor_file_make(content, k, &plan));
        CLT_TRY(read_file_part(step, &plan, index, parts, &part->bytes[k], &part->share[k]));
    }
    return CLT_OK;
}
