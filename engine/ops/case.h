/* SPDX-License-Identifier: Apache-2.0
 *
 * Short forms for the cases of op_<name>_ref.c: those that are checked and those that are timed. */
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
/* The last members of a clt_op_ref: the sizes at which the op is timed. */
#define CLT_TIMED(cases) .timed = cases, .n_timed = CLT_CASE_COUNT(cases)

/* Timed cases of one f32 input: of GPT-2 124M with 4 x 64 tokens, which fits into the caches of most CPUs,
 * and far larger than any cache. 768 columns are the model's width, 3072 that of its hidden layer. */
#define CLT_TIMED_ONE(case_name, text, ...)                                                                  \
    {                                                                                                        \
        .name = case_name, .attrs = text, .n_inputs = 1, .inputs = { __VA_ARGS__ }                           \
    }
#define CLT_TIMED_TWO(case_name, text, ...)                                                                  \
    {                                                                                                        \
        .name = case_name, .attrs = text, .n_inputs = 2, .inputs = { __VA_ARGS__ }                           \
    }
#define CLT_TIMED_768(word, text)                                                                            \
    CLT_TIMED_ONE(word "gpt2", text, CLT_CASE_F32(4, 64, 768)),                                              \
        CLT_TIMED_ONE(word "large", text, CLT_CASE_F32(64, 512, 768))
#define CLT_TIMED_3072(word, text)                                                                           \
    CLT_TIMED_ONE(word "gpt2", text, CLT_CASE_F32(4, 64, 3072)),                                             \
        CLT_TIMED_ONE(word "large", text, CLT_CASE_F32(16, 512, 3072))

#endif
