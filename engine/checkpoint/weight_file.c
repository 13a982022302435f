/* SPDX-License-Identifier: Apache-2.0
 *
 * The tensors of open weight files by name, and several files as one. Knows nothing of formats. */
#include "engine/checkpoint/weight_file.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/text.h"

#define REFUSE(...) CLT_FAIL(CLT_ECHECKPOINT, __VA_ARGS__)

static int compare_names(const void *a, const void *b)
{
    const clt_named_tensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

clt_status clt_weight_file_tables(clt_safetensors *file, int64_t count)
{
    CLT_TRY(clt_alloc(&file->tensors, (size_t)count, sizeof *file->tensors, "the tensors of a weight file"));
    CLT_TRY(clt_alloc(&file->types, (size_t)count, sizeof *file->types, "the types of a weight file"));
    return clt_alloc(&file->by_name, (size_t)count, sizeof *file->by_name, "the names of a weight file");
}

void clt_weight_file_add(clt_safetensors *file, const clt_named_tensor *tensor, const char *type)
{
    file->tensors[file->count] = *tensor;
    file->types[file->count] = type;
    file->by_name[file->count] = &file->tensors[file->count];
    file->count++;
}

void clt_weight_file_sort(clt_safetensors *file, const char **twice)
{
    qsort(file->by_name, (size_t)file->count, sizeof *file->by_name, compare_names);
    *twice = NULL;
    for (int i = 1; i < file->count && !*twice; i++)
        if (strcmp(file->by_name[i - 1]->name, file->by_name[i]->name) == 0)
            *twice = file->by_name[i]->name;
}

void clt_safetensors_close(clt_safetensors *file)
{
    if (!file)
        return;
    for (int i = 0; i < file->n_parts; i++)
        clt_safetensors_close(file->parts[i]);
    free(file->parts);
    clt_json_destroy(file->header);
    clt_arena_destroy(file->arena);
    clt_scratch_free(&file->copies);
    clt_map_close(&file->mapping);
    free(file->by_name);
    free(file->types);
    free(file->tensors);
    free(file);
}

/* Lists the tensors of all parts in the tables of the joined file. */
static clt_status list_parts(clt_safetensors *file, const char *paths)
{
    const char *twice;
    int64_t count = 0;
    for (int p = 0; p < file->n_parts; p++)
        count += file->parts[p]->count;
    if (count > INT32_MAX)
        REFUSE("%s: the files hold too many tensors", paths);
    CLT_TRY(clt_weight_file_tables(file, count));
    for (int p = 0; p < file->n_parts; p++)
        for (int i = 0; i < file->parts[p]->count; i++)
            clt_weight_file_add(file, &file->parts[p]->tensors[i], file->parts[p]->types[i]);
    clt_weight_file_sort(file, &twice);
    if (twice)
        REFUSE("%s and the files beside it: tensor \"%s\" is in two of them", paths, twice);
    return CLT_OK;
}

clt_status clt_safetensors_open_parts(const char *const *paths, int count, clt_safetensors **out)
{
    CLT_SCOPED(clt_safetensors) *file = NULL;
    *out = NULL;
    CLT_TRY(clt_alloc(&file, 1, sizeof *file, "a safetensors file"));
    CLT_TRY(clt_alloc(&file->parts, (size_t)count, sizeof *file->parts, "safetensors files"));
    for (; file->n_parts < count; file->n_parts++)
        CLT_TRY(clt_weights_open_file(paths[file->n_parts], &file->parts[file->n_parts]));
    CLT_TRY(list_parts(file, paths[0]));
    *out = CLT_TAKE(file);
    return CLT_OK;
}

clt_status clt_safetensors_join(clt_safetensors **file, clt_safetensors *more, const char *names)
{
    CLT_SCOPED(clt_safetensors) *both = NULL;
    clt_status status = clt_alloc(&both, 1, sizeof *both, "safetensors files");
    if (status == CLT_OK)
        status = clt_alloc(&both->parts, 2, sizeof *both->parts, "safetensors files");
    if (status != CLT_OK) {
        clt_safetensors_close(more);
        return status;
    }
    both->parts[0] = CLT_TAKE(*file);
    both->parts[1] = more;
    both->n_parts = 2;
    CLT_TRY(list_parts(both, names));
    *file = CLT_TAKE(both);
    return CLT_OK;
}

static void add_to_hash(const clt_safetensors *file, clt_hash64_state *state)
{
    for (int i = 0; i < file->n_parts; i++)
        add_to_hash(file->parts[i], state);
    if (file->n_parts == 0)
        clt_hash64_add(state, file->mapping.data, file->mapping.size);
}

uint64_t clt_safetensors_hash(const clt_safetensors *file)
{
    clt_hash64_state state;
    if (file->n_parts == 0)
        return clt_hash64(file->mapping.data, file->mapping.size);
    clt_hash64_begin(&state);
    add_to_hash(file, &state);
    return clt_hash64_end(&state);
}

clt_status clt_safetensors_whole(const clt_safetensors *file)
{
    if (!file)
        return CLT_OK;
    for (int i = 0; i < file->n_parts; i++)
        CLT_TRY(clt_safetensors_whole(file->parts[i]));
    return clt_map_check_one(&file->mapping);
}

int clt_safetensors_count(const clt_safetensors *file)
{
    return file->count;
}

int clt_safetensors_files(const clt_safetensors *file)
{
    return file->n_parts > 0 ? file->n_parts : 1;
}

const clt_named_tensor *clt_safetensors_at(const clt_safetensors *file, int index)
{
    return index >= 0 && index < file->count ? &file->tensors[index] : NULL;
}

const clt_named_tensor *clt_safetensors_find(const clt_safetensors *file, const char *name)
{
    int low = 0, high = file->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        int order = strcmp(name, file->by_name[middle]->name);
        if (order == 0)
            return file->by_name[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

const char *clt_safetensors_type(const clt_safetensors *file, const clt_named_tensor *tensor)
{
    return file->types[tensor - file->tensors];
}

clt_status clt_safetensors_strip_prefix(clt_safetensors *file, const char *prefix)
{
    size_t length = strlen(prefix);
    const char *twice;
    for (int i = 0; i < file->count; i++)
        if (strncmp(file->tensors[i].name, prefix, length) == 0)
            file->tensors[i].name += length;
    clt_weight_file_sort(file, &twice);
    if (twice)
        REFUSE(
            "tensor \"%s\" is there with the prefix '%s' and without it, so it is unclear which one is meant",
            twice, prefix);
    return CLT_OK;
}

void clt_safetensors_remove_if(clt_safetensors *file, bool (*leaves)(const void *context, const char *name),
                               const void *context)
{
    const char *twice;
    int kept = 0;
    for (int i = 0; i < file->count; i++) {
        if (leaves(context, file->tensors[i].name))
            continue;
        file->tensors[kept] = file->tensors[i];
        file->types[kept] = file->types[i];
        file->by_name[kept] = &file->tensors[kept];
        kept++;
    }
    file->count = kept;
    clt_weight_file_sort(file, &twice);
}

const char *clt_safetensors_metadata(const clt_safetensors *file, const char *key)
{
    const clt_json *value = clt_json_get(file->metadata, key);
    return value ? clt_json_string(value) : NULL;
}

bool clt_named_tensor_is_zero(const clt_named_tensor *t)
{
    const unsigned char *bytes = t->data;
    size_t size = (size_t)clt_shape_elements(&t->shape) * clt_dtype_bytes(t->dtype);
    for (size_t i = 0; i < size; i++)
        if (bytes[i])
            return false;
    return true;
}

clt_status clt_named_tensor_to_f32(const clt_named_tensor *tensor, float *out)
{
    const uint8_t *at = tensor->data;
    const int64_t n = clt_shape_elements(&tensor->shape);
    uint16_t half;
    double wide;
    switch (tensor->dtype) {
    case CLT_F32:
        if (n > 0)
            memcpy(out, at, (size_t)n * sizeof *out);
        return CLT_OK;
    case CLT_F16:
    case CLT_BF16:
        for (int64_t i = 0; i < n; i++) {
            memcpy(&half, at + 2 * i, sizeof half);
            out[i] = tensor->dtype == CLT_F16 ? clt_f16_to_f32(half) : clt_bf16_to_f32(half);
        }
        return CLT_OK;
    case CLT_F64:
        for (int64_t i = 0; i < n; i++) {
            memcpy(&wide, at + 8 * i, sizeof wide);
            out[i] = (float)wide;
        }
        return CLT_OK;
    default:
        REFUSE("tensor \"%s\" is %s; floating-point values (F32, F16, BF16, F64) are needed", tensor->name,
               clt_dtype_safetensors(tensor->dtype));
    }
}
