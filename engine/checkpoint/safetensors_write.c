/* SPDX-License-Identifier: Apache-2.0
 *
 * Safetensors writer. The bytes of a file depend on the arguments only. Data is written from the tensors' own
 * memory, so that a large tensor is never copied. This file must not know what the tensors are for. */
#include "engine/checkpoint/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/mem.h"
#include "engine/base/text.h"
#include "engine/checkpoint/checkpoint_internal.h"
#include "engine/files/fileio_error.h"

#define DATA_ALIGNMENT 8
#define METADATA_KEY "__metadata__"

static uint64_t tensor_bytes(const clt_named_tensor *tensor)
{
    return (uint64_t)clt_shape_elements(&tensor->shape) * clt_dtype_bytes(tensor->dtype);
}

uint64_t clt_named_tensors_bytes(const clt_named_tensor *tensors, int count)
{
    uint64_t bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += tensor_bytes(&tensors[i]);
    return bytes;
}

/* --- finite values --- */

static double element(const clt_named_tensor *tensor, int64_t i)
{
    const uint8_t *at = (const uint8_t *)tensor->data + (size_t)i * clt_dtype_bytes(tensor->dtype);
    float single;
    double wide;
    uint16_t half;
    switch (tensor->dtype) {
    case CLT_F32:
        memcpy(&single, at, sizeof single);
        return (double)single;
    case CLT_F64:
        memcpy(&wide, at, sizeof wide);
        return wide;
    case CLT_F16:
    case CLT_BF16:
        memcpy(&half, at, sizeof half);
        return (double)(tensor->dtype == CLT_F16 ? clt_f16_to_f32(half) : clt_bf16_to_f32(half));
    default:
        return 0;
    }
}

/* Only NaN and infinity have an exponent field of all ones. f32 is tested by its bits, in one loop that a
 * compiler can vectorise, because checking must not take longer than writing. */
static bool f32_all_finite(const uint8_t *at, int64_t n)
{
    uint32_t bad = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, at + 4 * i, sizeof bits);
        bad |= (bits & 0x7f800000U) == 0x7f800000U;
    }
    return bad == 0;
}

int64_t clt_find_nonfinite(const clt_named_tensor *tensor, const char **what)
{
    const int64_t n = clt_shape_elements(&tensor->shape);
    if (!clt_dtype_is_float(tensor->dtype) || (tensor->dtype == CLT_F32 && f32_all_finite(tensor->data, n)))
        return -1;
    for (int64_t i = 0; i < n; i++) {
        double value = element(tensor, i);
        *what = isnan(value) ? "a NaN" : "an infinity";
        if (!isfinite(value))
            return i;
    }
    return -1;
}

clt_status clt_named_tensors_check_finite(const clt_named_tensor *tensors, int count)
{
    const char *what;
    for (int t = 0; t < count; t++) {
        const int64_t i = clt_find_nonfinite(&tensors[t], &what);
        if (i >= 0)
            CLT_FAIL(CLT_ENUMERIC, "tensor \"%s\" holds %s at element %" PRId64 " of %" PRId64,
                     tensors[t].name, what, i, clt_shape_elements(&tensors[t].shape));
    }
    return CLT_OK;
}

/* --- header --- */

static clt_status check_tensor(const char *path, const clt_named_tensor *tensor)
{
    const clt_shape *shape = &tensor->shape;
    int64_t elements = clt_shape_elements(shape);
    if (shape->ndim < 0 || elements < 0 || elements > INT64_MAX / 8)
        CLT_FAIL(CLT_EINTERNAL, "writing %s: tensor \"%s\" has an impossible shape", path, tensor->name);
    /* The JSON writer would replace bytes that are not UTF-8 and so change the tensor's name. */
    size_t left = strlen(tensor->name);
    for (const char *at = tensor->name; left > 0;) {
        size_t size = clt_utf8_size(at, left);
        if (size == 0)
            CLT_FAIL(CLT_EINTERNAL, "writing %s: the tensor name \"%s\" is not UTF-8", path, tensor->name);
        at += size;
        left -= size;
    }
    if (strcmp(tensor->name, METADATA_KEY) == 0)
        CLT_FAIL(CLT_EINTERNAL, "writing %s: \"" METADATA_KEY "\" cannot be the name of a tensor", path);
    return CLT_OK;
}

static void write_entry(clt_json_writer *w, const clt_named_tensor *tensor, uint64_t begin)
{
    clt_jw_kobject(w, tensor->name);
    clt_jw_kstring(w, "dtype", clt_dtype_safetensors(tensor->dtype));
    clt_jw_karray(w, "shape");
    for (int i = 0; i < tensor->shape.ndim; i++)
        clt_jw_int(w, tensor->shape.dim[i]);
    clt_jw_end_array(w);
    clt_jw_karray(w, "data_offsets");
    clt_jw_int(w, (int64_t)begin);
    clt_jw_int(w, (int64_t)(begin + tensor_bytes(tensor)));
    clt_jw_end_array(w);
    clt_jw_end_object(w);
}

static clt_status make_header(const char *path, const clt_named_tensor *tensors, int count,
                              const char *const *metadata, int n_metadata, clt_str *header)
{
    clt_json_writer w = clt_json_writer_make(header, 0);
    clt_jw_object(&w);
    if (n_metadata > 0) {
        clt_jw_kobject(&w, METADATA_KEY);
        for (int i = 0; i < n_metadata; i++)
            clt_jw_kstring(&w, metadata[2 * i], metadata[2 * i + 1]);
        clt_jw_end_object(&w);
    }
    uint64_t begin = 0;
    for (int i = 0; i < count; i++) {
        CLT_TRY(check_tensor(path, &tensors[i]));
        write_entry(&w, &tensors[i], begin);
        begin += tensor_bytes(&tensors[i]);
    }
    clt_jw_end_object(&w);
    CLT_TRY(clt_str_check(header));
    /* parsing the header again finds names that are used twice */
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    CLT_TRY(clt_fail_prefix(clt_json_parse(header->text, header->length, "its header", CLT_EINTERNAL, &doc),
                            "writing %s", path));
    while ((8 + header->length) % DATA_ALIGNMENT != 0)
        clt_str_append(header, " ");
    return clt_str_check(header);
}

clt_status clt_safetensors_head(const char *path, const clt_named_tensor *tensors, int count,
                                const char *const *metadata, int n_metadata, clt_str *out)
{
    CLT_SCOPED(clt_str) header = {0};
    CLT_TRY(make_header(path, tensors, count, metadata, n_metadata, &header));
    const uint64_t length = header.length;
    clt_str_append_n(out, (const char *)&length, sizeof length);
    clt_str_append_n(out, header.text, header.length);
    return clt_str_check(out);
}

/* --- file --- */

static clt_status put(int fd, clt_hash64_state *hash, const void *data, uint64_t bytes, const char *path)
{
    if (bytes == 0)
        return CLT_OK;
    clt_hash64_add(hash, data, (size_t)bytes);
    return clt_fd_write(fd, data, (size_t)bytes, path);
}

/* The parts of a safetensors file. */
typedef struct parts {
    const clt_str *head;
    const clt_named_tensor *tensors;
    int count;
    uint64_t hash;
} parts;

static clt_status put_all(void *context, int fd, const char *path)
{
    parts *p = context;
    clt_hash64_state state;
    clt_hash64_begin(&state);
    CLT_TRY(put(fd, &state, p->head->text, p->head->length, path));
    for (int i = 0; i < p->count; i++)
        CLT_TRY(clt_fail_prefix(put(fd, &state, p->tensors[i].data, tensor_bytes(&p->tensors[i]), path),
                                "tensor \"%s\"", p->tensors[i].name));
    p->hash = clt_hash64_end(&state);
    return CLT_OK;
}

clt_status clt_safetensors_write(const char *path, const clt_named_tensor *tensors, int count,
                                 const char *const *metadata, int n_metadata, uint64_t *hash)
{
    CLT_SCOPED(clt_str) head = {0};
    parts p = {.head = &head, .tensors = tensors, .count = count};
    for (int i = 0; i < count; i++)
        if (clt_named_tensors_bytes(&tensors[i], 1) > 0 && !tensors[i].data)
            CLT_FAIL(CLT_EINTERNAL, "writing %s: tensor \"%s\" has no data", path, tensors[i].name);
    CLT_TRY(clt_safetensors_head(path, tensors, count, metadata, n_metadata, &head));
    CLT_TRY(clt_file_write_by(path, put_all, &p));
    if (hash)
        *hash = p.hash;
    return CLT_OK;
}
