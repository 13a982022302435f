/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors of PyTorch's files: views of storages with an offset, sizes and strides, all counted in elements.
 * A view in row-major order is used where it lies; another one (transposed, expanded) is copied. */
#include "engine/checkpoint/pytorch_internal.h"

#include <inttypes.h>
#include <string.h>

#include "engine/base/text.h"

#define REFUSE(...) CLT_FAIL(CLT_ECHECKPOINT, __VA_ARGS__)
#define COPY_ALWAYS ((uint64_t)1 << 20) /* bytes that may be copied whatever the size of the file */

/* True if PyTorch rebuilds a dense tensor by this function, given at least the arguments that it needs. */
static bool is_rebuild(const char *function, size_t arguments)
{
    return function && ((strcmp(function, "torch._utils _rebuild_tensor_v2") == 0 && arguments >= 6) ||
                        (strcmp(function, "torch._utils _rebuild_tensor_v3") == 0 && arguments >= 7) ||
                        (strcmp(function, "torch._utils _rebuild_tensor") == 0 && arguments == 4));
}

/* The arguments (storage, offset, sizes, strides, ...) of a tensor, which may be wrapped as a parameter. */
static const clt_pickle_value *arguments_of(const clt_pickle_value *value, const char **function)
{
    for (int depth = 0; depth < 4; depth++) { /* a parameter within a parameter may contain itself */
        if (value->kind != CLT_PICKLE_CALL || value->count != 2)
            return NULL;
        const clt_pickle_value *arguments = value->items[1];
        *function = clt_pickle_called(value);
        if (!*function || arguments->kind != CLT_PICKLE_TUPLE)
            return NULL;
        if (strcmp(*function, "torch._tensor _rebuild_from_type_v2") == 0 && arguments->count == 4) {
            *function = arguments->items[0]->kind == CLT_PICKLE_GLOBAL ? arguments->items[0]->text : NULL;
            arguments = arguments->items[2];
            if (arguments->kind != CLT_PICKLE_TUPLE)
                return NULL;
        }
        if (is_rebuild(*function, arguments->count))
            return arguments;
        if (!*function || strncmp(*function, "torch._utils _rebuild_parameter", 31) != 0 ||
            arguments->count < 1)
            return NULL;
        value = arguments->items[0];
    }
    return NULL;
}

bool clt_pytorch_is_tensor(const clt_pickle_value *value, size_t *dims)
{
    const char *function;
    const clt_pickle_value *arguments = arguments_of(value, &function);
    *dims = arguments ? arguments->items[2]->count : 0;
    return arguments != NULL;
}

/* A view of a storage. Sizes and strides beyond CLT_MAX_DIMS are checked and not kept. */
typedef struct view {
    clt_shape shape;
    int64_t stride[CLT_MAX_DIMS];
    uint64_t offset, elements;
    uint64_t last; /* the highest element of the storage that the view contains */
    bool dense;    /* row-major without gaps */
} view;

static clt_status read_dimension(const char *path, const char *name, const clt_pickle_value *sizes,
                                 const clt_pickle_value *strides, size_t d, view *v)
{
    if (sizes->items[d]->kind != CLT_PICKLE_INT || strides->items[d]->kind != CLT_PICKLE_INT)
        REFUSE("%s: tensor \"%s\": dimension %zu has no whole number as size and stride", path, name, d);
    int64_t size = sizes->items[d]->integer, stride = strides->items[d]->integer;
    if (size < 0 || stride < 0)
        REFUSE("%s: tensor \"%s\": dimension %zu has the size %" PRId64 " and the stride %" PRId64
               "; neither may be negative",
               path, name, d, size, stride);
    uint64_t reach;
    if (size > 0 && (!clt_mul_u64((uint64_t)(size - 1), (uint64_t)stride, &reach) ||
                     !clt_add_u64(v->last, reach, &v->last) || v->last > INT64_MAX))
        REFUSE("%s: tensor \"%s\": size and stride of dimension %zu overflow 63 bits", path, name, d);
    if (size > 1 && (uint64_t)stride != v->elements)
        v->dense = false;
    uint64_t factor = size > 0 ? (uint64_t)size : 1;
    if (!clt_mul_u64(v->elements, factor, &v->elements) || v->elements > INT64_MAX)
        REFUSE("%s: tensor \"%s\": the product of its shape overflows 63 bits", path, name);
    if (d < CLT_MAX_DIMS) {
        v->shape.dim[d] = size;
        v->stride[d] = stride;
    }
    return CLT_OK;
}

static clt_status read_view(const char *path, const char *name, const clt_pickle_value *arguments, view *v)
{
    const clt_pickle_value *offset = arguments->items[1], *sizes = arguments->items[2],
                           *strides = arguments->items[3];
    if (offset->kind != CLT_PICKLE_INT || offset->integer < 0 || sizes->kind != CLT_PICKLE_TUPLE ||
        strides->kind != CLT_PICKLE_TUPLE || sizes->count != strides->count)
        REFUSE("%s: tensor \"%s\" has no offset, sizes and strides as PyTorch writes them", path, name);
    *v = (view){.offset = (uint64_t)offset->integer, .elements = 1, .dense = true};
    v->last = v->offset;
    bool empty = false;
    for (size_t d = sizes->count; d-- > 0;) {
        CLT_TRY(read_dimension(path, name, sizes, strides, d, v));
        empty = empty || sizes->items[d]->integer == 0;
    }
    int ndim = sizes->count <= CLT_MAX_DIMS ? (int)sizes->count : -1;
    v->shape = clt_shape_make(ndim, v->shape.dim);
    if (empty)
        v->elements = 0;
    return CLT_OK;
}

/* Refuses a tensor that stands for the conjugate or the negative of its stored values. */
static clt_status check_bits(const char *path, const char *name, const clt_pickle_value *bits)
{
    for (size_t i = 1; bits->kind == CLT_PICKLE_DICT && i < bits->count; i += 2)
        if (bits->items[i]->kind != CLT_PICKLE_BOOL || bits->items[i]->integer)
            REFUSE("%s: tensor \"%s\" is the conjugate or the negative of the stored values, which cltrain "
                   "does not read",
                   path, name);
    return CLT_OK;
}

/* Copies one row of elements that lie `stride` elements apart. */
static void copy_row(uint8_t *to, const uint8_t *from, int64_t count, int64_t stride, size_t bytes)
{
    for (int64_t i = 0; i < count; i++, to += bytes, from += (size_t)stride * bytes)
        switch (bytes) {
        case 2:
            memcpy(to, from, 2);
            break;
        case 4:
            memcpy(to, from, 4);
            break;
        default:
            memcpy(to, from, bytes);
        }
}

static void copy_view(uint8_t *to, const uint8_t *from, const view *v, size_t bytes)
{
    int64_t at[CLT_MAX_DIMS] = {0};
    const int last = v->shape.ndim - 1; /* `last` is at least 0, because a scalar is dense */
    for (uint64_t done = 0; done < v->elements; done += (uint64_t)v->shape.dim[last]) {
        uint64_t begin = 0;
        for (int d = 0; d < last; d++)
            begin += (uint64_t)at[d] * (uint64_t)v->stride[d];
        copy_row(to, from + begin * bytes, v->shape.dim[last], v->stride[last], bytes);
        to += (size_t)v->shape.dim[last] * bytes;
        for (int d = last - 1; d >= 0 && ++at[d] == v->shape.dim[d]; d--)
            at[d] = 0;
    }
}

/* Copies the values of a view in row-major order. An expanded view may have more values than the file has
 * bytes, so the size of the file limits the total size of all copies. */
static clt_status copy_values(clt_pytorch *p, const char *name, const uint8_t *first, const view *v,
                              size_t bytes, const void **out)
{
    uint64_t size, limit = p->file->mapping.size + COPY_ALWAYS;
    uint8_t *copy;
    if (!clt_mul_u64(v->elements, bytes, &size) || size > limit - p->copied)
        REFUSE("%s: tensor \"%s\" of %" PRIu64 " elements: views that are not in row-major order would take "
               "more memory than the file has bytes",
               p->path, name, v->elements);
    CLT_TRY(clt_scratch_alloc(&p->file->copies, &copy, (size_t)size, 1, "a tensor's values in order"));
    p->copied += size;
    copy_view(copy, first, v, bytes);
    *out = copy;
    return CLT_OK;
}

clt_status clt_pytorch_add_tensor(clt_pytorch *p, const char *name, const clt_pickle_value *value)
{
    const char *function;
    const clt_pickle_value *arguments = arguments_of(value, &function);
    const bool third = strcmp(function, "torch._utils _rebuild_tensor_v3") == 0;
    const size_t bits = third ? 7 : 6;
    clt_pytorch_storage storage;
    const clt_pytorch_type *type;
    clt_named_tensor tensor = {.name = name, .dtype = CLT_DTYPE_COUNT};
    view v;
    if (arguments->items[0]->kind != CLT_PICKLE_PERSISTENT)
        REFUSE("%s: tensor \"%s\" has no storage", p->path, name);
    CLT_TRY(clt_pytorch_find_storage(p, arguments->items[0], &storage, &type));
    CLT_TRY(read_view(p->path, name, arguments, &v));
    if (arguments->count > bits)
        CLT_TRY(check_bits(p->path, name, arguments->items[bits]));
    if (third)
        type = clt_pytorch_dtype(arguments->items[6]);
    if (!type)
        REFUSE("%s: tensor \"%s\" has a type of elements that is not known", p->path, name);
    if (v.elements > 0 && v.last >= storage.bytes / type->bytes)
        REFUSE("%s: tensor \"%s\" uses element %" PRIu64 " of storage '%s', which has %" PRIu64, p->path,
               name, v.last, storage.key, storage.bytes / type->bytes);
    if (!clt_dtype_from_safetensors(type->name, &tensor.dtype))
        tensor.dtype = CLT_DTYPE_COUNT;
    tensor.shape = v.shape;
    tensor.data = v.elements > 0 ? storage.data + v.offset * type->bytes : storage.data;
    if (!v.dense && v.elements > 0 && v.shape.ndim > 0)
        CLT_TRY(copy_values(p, name, tensor.data, &v, type->bytes, &tensor.data));
    clt_weight_file_add(p->file, &tensor, type->name);
    return CLT_OK;
}
