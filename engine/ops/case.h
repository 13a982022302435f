/* SPDX-License-Identifier: Apache-2.0
 *
 * Short forms for the test cases of op_<name>_ref.c. */
#ifndef ENGINE_OPS_CASE_H
#define ENGINE_OPS_CASE_H

#include "engine/ops/op.h"

#define CLT_CASE_NDIM(...) (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
#define CLT_CASE_DIMS(...)                                                                                   \
    CLT_CASE_NDIM(__VA_ARGS__),                                                                              \
    {                                                                                                        \
        __VA_ARGS__                                                                                          \
    }
/* Inputs of a case; the dimensions begin with the micro-batch. */
#define CLT_CASE_F32(...)                                                                                    \
    {                                                                                                        \
        CLT_F32, CLT_FILL_NORMAL, 0, CLT_CASE_DIMS(__VA_ARGS__)                                              \
    }
#define CLT_CASE_FLOAT(dtype, ...)                                                                           \
    {                                                                                                        \
        dtype, CLT_FILL_NORMAL, 0, CLT_CASE_DIMS(__VA_ARGS__)                                                \
    }
#define CLT_CASE_INDEX(dtype, limit, ...)                                                                    \
    {                                                                                                        \
        dtype, CLT_FILL_INDEX, limit, CLT_CASE_DIMS(__VA_ARGS__)                                             \
    }
#define CLT_CASE_BINARY(dtype, ...)                                                                          \
    {                                                                                                        \
        dtype, CLT_FILL_BINARY, 0, CLT_CASE_DIMS(__VA_ARGS__)                                                \
    }
/* Whole numbers from -3 to 3: several elements of a row are its largest. */
#define CLT_CASE_WHOLE(dtype, ...)                                                                           \
    {                                                                                                        \
        dtype, CLT_FILL_WHOLE, 0, CLT_CASE_DIMS(__VA_ARGS__)                                                 \
    }
/* Normal numbers times eight: the far ends of a function. */
#define CLT_CASE_WIDE(dtype, ...)                                                                            \
    {                                                                                                        \
        dtype, CLT_FILL_WIDE, 0, CLT_CASE_DIMS(__VA_ARGS__)                                                  \
    }
/* Indices below the limit, some out of range: a kernel answers NaN and reads nothing out of bounds. No finite
 * differences. */
#define CLT_CASE_STRAY(dtype, limit, ...)                                                                    \
    {                                                                                                        \
        dtype, CLT_FILL_STRAY, limit, CLT_CASE_DIMS(__VA_ARGS__)                                             \
    }
/* Normal numbers, some of them NaN, which must not get lost. No finite differences. */
#define CLT_CASE_NAN(dtype, ...)                                                                             \
    {                                                                                                        \
        dtype, CLT_FILL_NAN, 0, CLT_CASE_DIMS(__VA_ARGS__)                                                   \
    }
/* Normal numbers, one in `every` 120 more: a largest one that was looked for in a part of a row alone gives
 * infinity. No finite differences. */
#define CLT_CASE_PEAKS(dtype, every, ...)                                                                    \
    {                                                                                                        \
        dtype, CLT_FILL_PEAKS, every, CLT_CASE_DIMS(__VA_ARGS__)                                             \
    }
#define CLT_CASE_COUNT(cases) (int)(sizeof(cases) / sizeof((cases)[0]))

#endif
