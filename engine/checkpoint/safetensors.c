/* SPDX-License-Identifier: Apache-2.0
 *
 * Safetensors reader: maps a file, and uses no number of its header before it has been checked against the
 * size of the file. This file must not know what the tensors are for. */
#include "engine/checkpoint/weight_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine/files/file_kind.h"

#define HEADER_MAX 100000000ULL
#define METADATA_KEY "__metadata__"

typedef struct entry {
    clt_named_tensor tensor;
    uint64_t begin, end; /* bytes in the buffer that follows the header */
    const char *type;    /* the type's name in the file */
    int order;           /* position in the header, which decides the order of empty tensors */
} entry;

#define REFUSE(...) CLT_FAIL(CLT_ECHECKPOINT, __VA_ARGS__)

/* A type that the engine cannot store is no error of the file: it matters only if the tensor is needed. */
static clt_status read_dtype(const char *path, const clt_json *value, entry *e)
{
    const clt_json *dtype = clt_json_get(value, "dtype");
    if (clt_json_typeof(dtype) != CLT_JSON_STRING)
        REFUSE("%s: tensor \"%s\" has no \"dtype\" text", path, e->tensor.name);
    e->type = clt_json_string(dtype);
    if (!clt_dtype_from_safetensors(e->type, &e->tensor.dtype))
        e->tensor.dtype = CLT_DTYPE_COUNT;
    return CLT_OK;
}

static bool is_stored(const clt_named_tensor *tensor)
{
    return (int)tensor->dtype < (int)CLT_DTYPE_COUNT;
}

static clt_status read_shape(const char *path, const clt_json *value, clt_named_tensor *tensor,
                             uint64_t *bytes)
{
    const clt_json *shape = clt_json_get(value, "shape");
    if (clt_json_typeof(shape) != CLT_JSON_ARRAY)
        REFUSE("%s: tensor \"%s\" has no \"shape\" array", path, tensor->name);
    int64_t dims[CLT_MAX_DIMS] = {0}, extent;
    int ndim = 0;
    bool empty = false;
    /* A dimension of 0 must not hide an overflow of the others, because strides are products of all of
     * them. */
    uint64_t product = is_stored(tensor) ? clt_dtype_bytes(tensor->dtype) : 1;
    for (const clt_json *dim = clt_json_first(shape); dim; dim = clt_json_next(dim), ndim++) {
        if (!clt_json_int(dim, &extent))
            REFUSE("%s: tensor \"%s\": dimension %d of its shape is not a whole number that fits 63 bits",
                   path, tensor->name, ndim);
        if (extent < 0)
            REFUSE("%s: tensor \"%s\" has the negative dimension %" PRId64, path, tensor->name, extent);
        if (extent > 0 && (!clt_mul_u64(product, (uint64_t)extent, &product) || product > INT64_MAX))
            REFUSE("%s: tensor \"%s\": the product of its shape overflows 63 bits", path, tensor->name);
        empty = empty || extent == 0;
        if (ndim < CLT_MAX_DIMS)
            dims[ndim] = extent;
    }
    tensor->shape =
        clt_shape_make(ndim, dims); /* if there are more dimensions than supported, no parameter fits */
    *bytes = empty ? 0 : product;
    return CLT_OK;
}

static clt_status read_offsets(const char *path, const clt_json *value, uint64_t buffer_bytes, entry *e)
{
    const clt_json *offsets = clt_json_get(value, "data_offsets");
    int64_t range[2] = {0, 0};
    const clt_json *first = clt_json_first(offsets);
    if (clt_json_typeof(offsets) != CLT_JSON_ARRAY || clt_json_count(offsets) != 2 ||
        !clt_json_int(first, &range[0]) || !clt_json_int(clt_json_next(first), &range[1]))
        REFUSE("%s: tensor \"%s\": \"data_offsets\" is not an array of two whole numbers", path,
               e->tensor.name);
    if (range[0] < 0 || range[1] < range[0])
        REFUSE("%s: tensor \"%s\": data offsets [%" PRId64 ", %" PRId64 "] are not a range", path,
               e->tensor.name, range[0], range[1]);
    e->begin = (uint64_t)range[0];
    e->end = (uint64_t)range[1];
    if (e->end > buffer_bytes)
        REFUSE("%s: tensor \"%s\" ends at byte %" PRIu64 " of the data, past the end of the file (%" PRIu64
               " bytes of data); the file may be truncated",
               path, e->tensor.name, e->end, buffer_bytes);
    return CLT_OK;
}

static clt_status read_entry(const char *path, const clt_json *value, const uint8_t *buffer,
                             uint64_t buffer_bytes, entry *e)
{
    e->tensor.name = clt_json_key(value);
    if (clt_json_typeof(value) != CLT_JSON_OBJECT)
        REFUSE("%s: the header entry of tensor \"%s\" is not an object", path, e->tensor.name);
    if (clt_json_count(value) != 3)
        REFUSE("%s: the header entry of tensor \"%s\" must have \"dtype\", \"shape\" and \"data_offsets\" "
               "and nothing else",
               path, e->tensor.name);
    uint64_t bytes = 0;
    CLT_TRY(read_dtype(path, value, e));
    CLT_TRY(read_shape(path, value, &e->tensor, &bytes));
    CLT_TRY(read_offsets(path, value, buffer_bytes, e));
    if (is_stored(&e->tensor) && e->end - e->begin != bytes) {
        char shape[CLT_SHAPE_TEXT];
        REFUSE("%s: tensor \"%s\" is %s %s, which is %" PRIu64 " bytes, but its data offsets span %" PRIu64,
               path, e->tensor.name, clt_dtype_safetensors(e->tensor.dtype),
               clt_shape_text(&e->tensor.shape, shape, sizeof shape), bytes, e->end - e->begin);
    }
    e->tensor.data = buffer + e->begin;
    return CLT_OK;
}

static int compare_entries(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* Sorts the entries by offset and checks that each begins where the previous one ends and that the last ends
 * at the end of the file. */
static clt_status check_tiling(const char *path, entry *entries, int count, uint64_t buffer_bytes)
{
    qsort(entries, (size_t)count, sizeof *entries, compare_entries);
    uint64_t end = 0;
    for (int i = 0; i < count; i++) {
        const entry *e = &entries[i];
        if (e->begin < end)
            REFUSE("%s: the data of tensors \"%s\" and \"%s\" overlap", path, entries[i - 1].tensor.name,
                   e->tensor.name);
        if (e->begin > end)
            REFUSE("%s: there is a hole of %" PRIu64 " bytes before the data of tensor \"%s\"", path,
                   e->begin - end, e->tensor.name);
        end = e->end;
    }
    if (end != buffer_bytes)
        REFUSE("%s: %" PRIu64 " bytes follow the data of the last tensor", path, buffer_bytes - end);
    return CLT_OK;
}

static clt_status check_metadata(const char *path, const clt_json *metadata)
{
    if (clt_json_typeof(metadata) != CLT_JSON_OBJECT)
        REFUSE("%s: \"" METADATA_KEY "\" is not an object", path);
    for (const clt_json *value = clt_json_first(metadata); value; value = clt_json_next(value))
        if (clt_json_typeof(value) != CLT_JSON_STRING)
            REFUSE("%s: metadata \"%s\" is %s, not text", path, clt_json_key(value),
                   clt_json_type_name(clt_json_typeof(value)));
    return CLT_OK;
}

static clt_status read_header(const char *path, const clt_mapping *map, clt_json_doc **doc,
                              uint64_t *data_begin)
{
    if (map->size < 8)
        REFUSE("%s: has %zu bytes, too few for a safetensors file", path, map->size);
    uint64_t length = 0;
    memcpy(&length, map->data, sizeof length);
    if (length > HEADER_MAX)
        REFUSE("%s: its header claims %" PRIu64
               " bytes, more than the format allows (%llu); is it a safetensors file?",
               path, length, HEADER_MAX);
    if (length > map->size - 8)
        REFUSE("%s: its header claims %" PRIu64 " bytes, but only %zu follow; the file may be truncated",
               path, length, map->size - 8);
    const char *text = (const char *)map->data + 8;
    if (length < 2 || text[0] != '{')
        REFUSE("%s: its header does not start with '{'; is it a safetensors file?", path);
    CLT_TRY(clt_json_parse(text, (size_t)length, path, CLT_ECHECKPOINT, doc));
    *data_begin = 8 + length;
    return CLT_OK;
}

static clt_status read_entries(const char *path, clt_safetensors *file, uint64_t data_begin)
{
    const clt_json *root = clt_json_root(file->header);
    if (clt_json_count(root) > INT32_MAX)
        REFUSE("%s: has too many tensors", path);
    const uint64_t buffer_bytes = file->mapping.size - data_begin;
    CLT_FREED entry *entries = NULL;
    CLT_TRY(
        clt_alloc(&entries, clt_json_count(root), sizeof *entries, "the tensor table of a safetensors file"));
    int count = 0;
    for (const clt_json *value = clt_json_first(root); value; value = clt_json_next(value)) {
        if (strcmp(clt_json_key(value), METADATA_KEY) == 0) {
            file->metadata = value;
            CLT_TRY(check_metadata(path, value));
            continue;
        }
        entries[count].order = count;
        CLT_TRY(read_entry(path, value, file->mapping.data + data_begin, buffer_bytes, &entries[count]));
        count++;
    }
    CLT_TRY(check_tiling(path, entries, count, buffer_bytes));
    CLT_TRY(clt_weight_file_tables(file, count));
    for (int i = 0; i < count; i++)
        clt_weight_file_add(file, &entries[i].tensor, entries[i].type);
    const char *twice; /* strict JSON has no key twice */
    clt_weight_file_sort(file, &twice);
    return CLT_OK;
}

clt_status clt_safetensors_open(const char *path, clt_safetensors **out)
{
    CLT_SCOPED(clt_safetensors) *file = NULL;
    uint64_t data_begin = 0;
    *out = NULL;
    CLT_TRY(clt_alloc(&file, 1, sizeof *file, "a safetensors file"));
    CLT_TRY(clt_map_open(path, CLT_ECHECKPOINT, &file->mapping));
    CLT_TRY(clt_fail_prefix(
        clt_refuse_pointer(file->mapping.data, file->mapping.size, "the weights themselves", CLT_ECHECKPOINT),
        "reading '%s'", path));
    CLT_TRY(read_header(path, &file->mapping, &file->header, &data_begin));
    CLT_TRY(read_entries(path, file, data_begin));
    *out = CLT_TAKE(file);
    return CLT_OK;
}
