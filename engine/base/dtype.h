/* SPDX-License-Identifier: Apache-2.0
 *
 * Storage types and shapes, shared by every room. Kernels convert storage to f32 for arithmetic. */
#ifndef ENGINE_BASE_DTYPE_H
#define ENGINE_BASE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* name, bytes, safetensors name */
#define CLT_DTYPE_MAP(X)                                                                                     \
    X(CLT_F32, f32, 4, "F32")                                                                                \
    X(CLT_F16, f16, 2, "F16")                                                                                \
    X(CLT_BF16, bf16, 2, "BF16")                                                                             \
    X(CLT_I32, i32, 4, "I32")                                                                                \
    X(CLT_U32, u32, 4, "U32")                                                                                \
    X(CLT_U16, u16, 2, "U16")                                                                                \
    X(CLT_U8, u8, 1, "U8")                                                                                   \
    X(CLT_I64, i64, 8, "I64")                                                                                \
    X(CLT_F64, f64, 8, "F64")

typedef enum clt_dtype {
#define CLT_DTYPE_ENUM(id, name, bytes, st) id,
    CLT_DTYPE_MAP(CLT_DTYPE_ENUM)
#undef CLT_DTYPE_ENUM
        CLT_DTYPE_COUNT
} clt_dtype;

size_t clt_dtype_bytes(clt_dtype dtype);
const char *clt_dtype_name(clt_dtype dtype);        /* "f32" */
const char *clt_dtype_safetensors(clt_dtype dtype); /* "F32" */
bool clt_dtype_from_name(const char *name, clt_dtype *out);
bool clt_dtype_from_safetensors(const char *name, clt_dtype *out);
bool clt_dtype_is_float(clt_dtype dtype);

/* IEEE half and bfloat16, round to nearest even, on the host. A NaN stays a NaN: quiet, with the upper bits
 * of its payload. */
float clt_f16_to_f32(uint16_t h);
uint16_t clt_f32_to_f16(float f);
float clt_bf16_to_f32(uint16_t h);
uint16_t clt_f32_to_bf16(float f);
/* The nearest number of f16 or bf16; for other types `value` itself. */
float clt_dtype_rounded(clt_dtype dtype, float value);

/* Write and read one element of an array of any type. For a floating type, writing rounds to the nearest
 * number of that type. */
void clt_dtype_store(clt_dtype dtype, void *array, size_t index, double value);
double clt_dtype_load(clt_dtype dtype, const void *array, size_t index);
/* Half a unit in the last place of `value` in a 16-bit floating type: the largest error of rounding to
 * nearest. Rounding towards zero has up to twice this error. 0 for other types. */
double clt_dtype_rounding(clt_dtype dtype, double value);

#define CLT_MAX_DIMS 6

/* Row-major logical shape; ndim 0 is a scalar of one element. A dimension of 0 makes an empty tensor. */
typedef struct clt_shape {
    int32_t ndim;
    int64_t dim[CLT_MAX_DIMS];
} clt_shape;

/* If `ndim` is outside 0..CLT_MAX_DIMS, the shape has ndim -1 and no elements, and no graph accepts it. */
clt_shape clt_shape_make(int ndim, const int64_t *dims);
clt_shape clt_shape1(int64_t a);
clt_shape clt_shape2(int64_t a, int64_t b);
clt_shape clt_shape3(int64_t a, int64_t b, int64_t c);
clt_shape clt_shape4(int64_t a, int64_t b, int64_t c, int64_t d);
int64_t clt_shape_elements(const clt_shape *shape); /* product, INT64_MAX if it overflows */
int64_t clt_shape_rows(const clt_shape *shape);     /* product of all but the last dimension */
int64_t clt_shape_last(const clt_shape *shape);     /* last dimension, 1 for a scalar */
bool clt_shape_equal(const clt_shape *a, const clt_shape *b);
/* Writes "(2,3,4)"; returns buffer. */
const char *clt_shape_text(const clt_shape *shape, char *buffer, size_t size);
#define CLT_SHAPE_TEXT 128

#endif
