/* SPDX-License-Identifier: Apache-2.0
 *
 * Short forms for the test cases and timed cases of op_<name>_ref.c. */
#ifndef ENGINE_OPS_CASE_H
#define ENGINE_OPS_CASE_H

#include "engine/ops/op.h"

#define CLT_CASE_NDIM(...) (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
/* Inputs of a case; their dimensions begin with the micro-batch. */
#define CLT_CASE_INPUT(dtype, fill, limit, ...)                                                              \
    {                                                                                                        \
        dtype, fill, limit, CLT_CASE_NDIM(__VA_ARGS__),                                                      \
        {                                                                                                    \
            __VA_ARGS__                                                                                      \
        }                                                                                                    \
    }
#define CLT_CASE_F32(...) CLT_CASE_INPUT(CLT_F32, CLT_FILL_NORMAL, 0, __VA_ARGS__)
#define CLT_CASE_FLOAT(dtype, ...) CLT_CASE_INPUT(dtype, CLT_FILL_NORMAL, 0, __VA_ARGS__)
#define CLT_CASE_INDEX(dtype, limit, ...) CLT_CASE_INPUT(dtype, CLT_FILL_INDEX, limit, __VA_ARGS__)
/* Whole numbers in runs of equal ones, which are `mean` elements long on average. */
#define CLT_CASE_RUNS(dtype, mean, ...) CLT_CASE_INPUT(dtype, CLT_FILL_RUNS, mean, __VA_ARGS__)
#define CLT_CASE_BINARY(dtype, ...) CLT_CASE_INPUT(dtype, CLT_FILL_BINARY, 0, __VA_ARGS__)
/* Whole numbers from -3 to 3, so that the maximum of a row occurs several times. */
#define CLT_CASE_WHOLE(dtype, ...) CLT_CASE_INPUT(dtype, CLT_FILL_WHOLE, 0, __VA_ARGS__)
/* Normal numbers times eight, to reach the saturated ends of a function. */
#define CLT_CASE_WIDE(dtype, ...) CLT_CASE_INPUT(dtype, CLT_FILL_WIDE, 0, __VA_ARGS__)
/* The inputs below are not checked by finite differences. STRAY: indices below the limit and some out of
 * range, for which a kernel must write NaN without reading out of bounds. NAN: normal numbers and some NaN,
 * which must propagate. LOWEST: normal numbers, and minus infinity in half of the elements, so that whole
 * windows and short rows consist of it. PEAKS: normal numbers; one in `every` has 120 added: exp overflows if
 * a row's maximum is taken over only a part of the row. */
#define CLT_CASE_STRAY(dtype, limit, ...) CLT_CASE_INPUT(dtype, CLT_FILL_STRAY, limit, __VA_ARGS__)
#define CLT_CASE_NAN(dtype, ...) CLT_CASE_INPUT(dtype, CLT_FILL_NAN, 0, __VA_ARGS__)
#define CLT_CASE_LOWEST(dtype, ...) CLT_CASE_INPUT(dtype, CLT_FILL_LOWEST, 0, __VA_ARGS__)
#define CLT_CASE_PEAKS(dtype, every, ...) CLT_CASE_INPUT(dtype, CLT_FILL_PEAKS, every, __VA_ARGS__)
/* From -120 to 120 in steps of 1/4: both ends of a function, and arguments whose exp overflows. */
#define CLT_CASE_SWEEP(dtype, ...) CLT_CASE_INPUT(dtype, CLT_FILL_SWEEP, 0, __VA_ARGS__)
#define CLT_CASE_COUNT(cases) (int)(sizeof(cases) / sizeof((cases)[0]))
/* Defines the reference of an op: its two directions and its table of cases; the rest are members of
 * clt_op_ref. CLT_TIMED: the sizes at which the op is timed. */
#define CLT_OP_REF(op, forwards, backwards, table, ...)                                                      \
    const clt_op_ref clt_op_##op##_ref = {.forward = forwards,                                               \
                                          .backward = backwards,                                             \
                                          .cases = table,                                                    \
                                          .n_cases = CLT_CASE_COUNT(table),                                  \
                                          __VA_ARGS__}
#define CLT_TIMED(table) .timed = table, .n_timed = CLT_CASE_COUNT(table)

/* A case of a clt_op_ref: its name, its attributes as in a config (or NULL), flags for the checker, its
 * inputs. */
enum { CLT_SMALL = 1, CLT_EXACT = 2 }; /* members `small` and `exact` of clt_op_case */
#define CLT_CASE(case_name, text, flags, ...)                                                                \
    {                                                                                                        \
        .name = case_name, .attrs = text, .inputs = {__VA_ARGS__}, .small = ((flags)&CLT_SMALL) != 0,        \
        .exact = ((flags)&CLT_EXACT) != 0,                                                                   \
        .n_inputs = (int)(sizeof((clt_case_input[]){__VA_ARGS__}) / sizeof(clt_case_input))                  \
    }

/* A small case of one input of type `from`, whose output has type `to`. */
#define CLT_CASE_RETYPED(case_name, text, from, to, ...)                                                     \
    {                                                                                                        \
        .name = case_name, .attrs = text, .n_inputs = 1, .inputs = {CLT_CASE_FLOAT(from, __VA_ARGS__)},      \
        .small = true, .retyped = 1 + (to)                                                                   \
    }

/* A case that sums many equal numbers, where a single chain of f32 additions would be too inexact. The bound
 * is 5e-5 of the result for any size. */
#define CLT_CASE_DEEP(case_name, text, ...)                                                                  \
    {                                                                                                        \
        .name = case_name, .attrs = text, .inputs = {__VA_ARGS__}, .tolerance = 200.0, .rounding = 2e-5,     \
        .equal = true, .n_inputs = (int)(sizeof((clt_case_input[]){__VA_ARGS__}) / sizeof(clt_case_input))   \
    }

/* Timed cases of one f32 input. "gpt2": 4 x 64 tokens of GPT-2 124M, which fit into the caches of most CPUs;
 * "large": far larger than any cache. 768 is the width of the model, 3072 the width of its hidden layer. */
#define CLT_TIMED_768(word, text)                                                                            \
    CLT_CASE(word "gpt2", text, 0, CLT_CASE_F32(4, 64, 768)),                                                \
        CLT_CASE(word "large", text, 0, CLT_CASE_F32(64, 512, 768))
#define CLT_TIMED_3072(word, text)                                                                           \
    CLT_CASE(word "gpt2", text, 0, CLT_CASE_F32(4, 64, 3072)),                                               \
        CLT_CASE(word "large", text, 0, CLT_CASE_F32(16, 512, 3072))

#endif
