/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of storage types, exact float conversions in integer arithmetic (the same on every host), and
 * shapes. Knows nothing of tensors or devices. */
#include "engine/base/dtype.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct dtype_row {
    const char *name, *safetensors;
    size_t bytes;
} dtype_row;

static const dtype_row dtype_rows[CLT_DTYPE_COUNT] = {
#define DTYPE_ROW(id, name, bytes, st) [id] = {#name, st, bytes},
    CLT_DTYPE_MAP(DTYPE_ROW)
#undef DTYPE_ROW
};

static const dtype_row *row_of(clt_dtype dtype)
{
    static const dtype_row unknown = {"?", "?", 0};
    return (int)dtype >= 0 && (int)dtype < (int)CLT_DTYPE_COUNT ? &dtype_rows[dtype] : &unknown;
}

size_t clt_dtype_bytes(clt_dtype dtype)
{
    return row_of(dtype)->bytes;
}

const char *clt_dtype_name(clt_dtype dtype)
{
    return row_of(dtype)->name;
}

const char *clt_dtype_safetensors(clt_dtype dtype)
{
    return row_of(dtype)->safetensors;
}

bool clt_dtype_from_name(const char *name, clt_dtype *out)
{
    for (int i = 0; name && i < (int)CLT_DTYPE_COUNT; i++) {
        if (strcmp(name, dtype_rows[i].name) == 0) {
            *out = (clt_dtype)i;
            return true;
        }
    }
    return false;
}

bool clt_dtype_from_safetensors(const char *name, clt_dtype *out)
{
    for (int i = 0; name && i < (int)CLT_DTYPE_COUNT; i++) {
        if (strcmp(name, dtype_rows[i].safetensors) == 0) {
            *out = (clt_dtype)i;
            return true;
        }
    }
    return false;
}

bool clt_dtype_is_float(clt_dtype dtype)
{
    return dtype == CLT_F32 || dtype == CLT_F16 || dtype == CLT_BF16 || dtype == CLT_F64;
}

static uint32_t bits_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

float clt_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t exponent = (h >> 10) & 0x1fu;
    uint32_t mantissa = h & 0x3ffu;
    if (exponent == 0x1f) {
        /* A NaN keeps its payload and becomes quiet, as the conversion instructions do. */
        uint32_t quiet = mantissa ? 0x400000u : 0;
        return float_of(sign | 0x7f800000u | quiet | (mantissa << 13));
    }
    if (exponent == 0) {
        if (mantissa == 0)
            return float_of(sign);
        /* Subnormal half, normal float: shift the leading one into its implicit place. */
        uint32_t shift = 0;
        while (!(mantissa & 0x400u)) {
            mantissa <<= 1;
            shift++;
        }
        return float_of(sign | ((113 - shift) << 23) | ((mantissa & 0x3ffu) << 13));
    }
    return float_of(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

uint16_t clt_f32_to_f16(float f)
{
    uint32_t bits = bits_of(f);
    uint32_t sign = (bits >> 16) & 0x8000u;
    uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
    if (magnitude >= 0x477ff000u) /* 65520 and more round to infinity */
        return (uint16_t)(sign | 0x7c00u);
    if (magnitude >= 0x38800000u) { /* normal half: 2^-14 and more */
        uint32_t odd = (magnitude >> 13) & 1u;
        return (uint16_t)(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
    }
    if (magnitude <= 0x33000000u) /* 2^-25 is half of the least subnormal: the tie goes to zero */
        return (uint16_t)sign;
    /* Subnormal half: count of 2^-24 steps, rounded to nearest even. */
    uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
    uint32_t shift = 126 - (magnitude >> 23);
    uint32_t whole = mantissa >> shift;
    uint32_t rest = mantissa & ((1u << shift) - 1);
    uint32_t middle = 1u << (shift - 1);
    if (rest > middle || (rest == middle && (whole & 1u)))
        whole++;
    return (uint16_t)(sign | whole);
}

float clt_bf16_to_f32(uint16_t h)
{
    uint32_t bits = (uint32_t)h << 16;
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        bits |= 0x400000u;
    return float_of(bits);
}

uint16_t clt_f32_to_bf16(float f)
{
    uint32_t bits = bits_of(f);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)((bits >> 16) | 0x40u);
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float clt_dtype_rounded(clt_dtype dtype, float value)
{
    return dtype == CLT_F16    ? clt_f16_to_f32(clt_f32_to_f16(value))
           : dtype == CLT_BF16 ? clt_bf16_to_f32(clt_f32_to_bf16(value))
                               : value;
}

void clt_dtype_store(clt_dtype dtype, void *image, size_t i, double value)
{
    switch (dtype) {
    case CLT_F32:
        ((float *)image)[i] = (float)value;
        break;
    case CLT_F16:
        ((uint16_t *)image)[i] = clt_f32_to_f16((float)value);
        break;
    case CLT_BF16:
        ((uint16_t *)image)[i] = clt_f32_to_bf16((float)value);
        break;
    case CLT_I32:
        ((int32_t *)image)[i] = (int32_t)value;
        break;
    case CLT_U32:
        ((uint32_t *)image)[i] = (uint32_t)value;
        break;
    case CLT_U16:
        ((uint16_t *)image)[i] = (uint16_t)value;
        break;
    case CLT_U8:
        ((uint8_t *)image)[i] = (uint8_t)value;
        break;
    case CLT_I64:
        ((int64_t *)image)[i] = (int64_t)value;
        break;
    default:
        ((double *)image)[i] = value;
        break;
    }
}

double clt_dtype_load(clt_dtype dtype, const void *image, size_t i)
{
    switch (dtype) {
    case CLT_F32:
        return (double)((const float *)image)[i];
    case CLT_F16:
        return (double)clt_f16_to_f32(((const uint16_t *)image)[i]);
    case CLT_BF16:
        return (double)clt_bf16_to_f32(((const uint16_t *)image)[i]);
    case CLT_I32:
        return (double)((const int32_t *)image)[i];
    case CLT_U32:
        return (double)((const uint32_t *)image)[i];
    case CLT_U16:
        return (double)((const uint16_t *)image)[i];
    case CLT_U8:
        return (double)((const uint8_t *)image)[i];
    case CLT_I64:
        return (double)((const int64_t *)image)[i];
    default:
        return ((const double *)image)[i];
    }
}

double clt_dtype_rounding(clt_dtype dtype, double value)
{
    if ((dtype != CLT_F16 && dtype != CLT_BF16) || !isfinite(value))
        return 0.0;
    /* exponent of the smallest normal number; subnormals are spaced like the normal numbers from 2^least
     * on */
    int least = dtype == CLT_F16 ? -14 : -126;
    int exponent = value == 0.0 ? least : ilogb(value);
    return ldexp(1.0, (exponent < least ? least : exponent) - (dtype == CLT_F16 ? 11 : 8));
}

clt_shape clt_shape_make(int ndim, const int64_t *dims)
{
    clt_shape shape = {.ndim = ndim};
    if (ndim < 0 || ndim > CLT_MAX_DIMS) {
        shape.ndim = -1;
        return shape;
    }
    for (int i = 0; i < ndim; i++)
        shape.dim[i] = dims[i];
    return shape;
}

clt_shape clt_shape1(int64_t a)
{
    return clt_shape_make(1, (int64_t[]){a});
}

clt_shape clt_shape2(int64_t a, int64_t b)
{
    return clt_shape_make(2, (int64_t[]){a, b});
}

clt_shape clt_shape3(int64_t a, int64_t b, int64_t c)
{
    return clt_shape_make(3, (int64_t[]){a, b, c});
}

clt_shape clt_shape4(int64_t a, int64_t b, int64_t c, int64_t d)
{
    return clt_shape_make(4, (int64_t[]){a, b, c, d});
}

/* Product of dimensions; 0 if any dimension is 0. On overflow it is INT64_MAX, so that a shape that is too
 * large to allocate stays too large. */
static int64_t product(const int64_t *dims, int count)
{
    for (int i = 0; i < count; i++)
        if (dims[i] == 0)
            return 0;
    int64_t total = 1;
    for (int i = 0; i < count; i++)
        if (__builtin_mul_overflow(total, dims[i], &total))
            return INT64_MAX;
    return total;
}

int64_t clt_shape_elements(const clt_shape *shape)
{
    return shape->ndim < 0 ? 0 : product(shape->dim, shape->ndim);
}

int64_t clt_shape_rows(const clt_shape *shape)
{
    return shape->ndim < 0 ? 0 : product(shape->dim, shape->ndim - 1);
}

int64_t clt_shape_last(const clt_shape *shape)
{
    return shape->ndim > 0 ? shape->dim[shape->ndim - 1] : 1;
}

bool clt_shape_equal(const clt_shape *a, const clt_shape *b)
{
    if (a->ndim != b->ndim)
        return false;
    for (int i = 0; i < a->ndim; i++)
        if (a->dim[i] != b->dim[i])
            return false;
    return true;
}

const char *clt_shape_text(const clt_shape *shape, char *buffer, size_t size)
{
    if (size == 0)
        return buffer;
    size_t used = 0;
    if (shape->ndim < 0) {
        (void)snprintf(buffer, size, "(more than %d dimensions)", CLT_MAX_DIMS);
        return buffer;
    }
    for (int i = 0; i < shape->ndim; i++) {
        int n = snprintf(buffer + used, size - used, "%s%" PRId64, i ? "," : "(", shape->dim[i]);
        if (n < 0 || (size_t)n >= size - used)
            return buffer;
        used += (size_t)n;
    }
    (void)snprintf(buffer + used, size - used, shape->ndim > 0 ? ")" : "()");
    return buffer;
}
