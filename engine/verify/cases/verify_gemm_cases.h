/* SPDX-License-Identifier: Apache-2.0
 *
 * The description of a case with which every GEMM backend is checked. The list of cases, plain data in
 * verify_gemm_cases.c, shows what is covered. */
#ifndef ENGINE_VERIFY_CASES_VERIFY_GEMM_CASES_H
#define ENGINE_VERIFY_CASES_VERIFY_GEMM_CASES_H

#include "cl/gemm/gemm.h"

typedef enum clt_gemm_form {
    FORM_TIGHT,  /* dense operands at the start of their tensors */
    FORM_PADDED, /* offsets, row strides and batch strides of odd size */
    FORM_SHARED, /* padded, and all items of a batch use the same B */
    FORM_HEADS,  /* items of a batch lie side by side in the rows, as heads of attention do */
    FORM_ALIGNED /* offsets and strides are multiples of 16 bytes, and rows are longer than necessary */
} clt_gemm_form;

/* Where an operand of the epilogue with C's shape lies. */
typedef enum clt_gemm_extra { EXTRA_NONE, EXTRA_OWN, EXTRA_C } clt_gemm_extra;

/* Sums of A's lines: not wanted, stored, or added to the values in memory. */
typedef enum clt_gemm_line_sums { LINE_SUMS_NONE, LINE_SUMS_STORED, LINE_SUMS_ADDED } clt_gemm_line_sums;

/* The operand A or B is the matrix of the windows of `n` images. Windows in A determine the product's m and
 * k, windows in B its k and n: the case leaves these two sizes 0 and sets only the third. With groups, each
 * batch item is a group of channels. */
typedef struct clt_gemm_windows {
    int operand;                                                     /* OCL_WINDOWS_... */
    int64_t n, in[3], kernel[3], stride[3], dilation[3], padding[3]; /* stride, dilation 0 mean 1 */
    /* size of the result; 0: the largest that fits with equal padding on both sides */
    int64_t out[3];
    int64_t channels, groups; /* channels: of a group; groups 0 means 1 */
} clt_gemm_windows;

typedef struct clt_gemm_case {
    const char *name;
    int64_t m, n, k;
    bool ta, tb, small;
    bool equal;      /* all elements of A and B are one number: one chain of k additions would be wrong */
    bool forms;      /* also checked with every tile of backends that have a list of tiles */
    bool lane_forms; /* also checked with blocks of the backend `lane` that small products do not get */
    int64_t batch;   /* 0 means 1 */
    clt_gemm_form form;
    float alpha, beta; /* alpha 0 means 1 */
    clt_dtype type[3]; /* of A, B, C; 0 is f32 */
    ocl_activation activation;
    bool bias, pre;
    float apart; /* added to every number of the bias: how far the columns of C are from 0 */
    bool moments;
    clt_gemm_line_sums line_sums;
    clt_gemm_extra residual, dact;
    clt_gemm_windows windows;
    /* emulated matrix units: a case with windows counts as small only in checks with this label */
    const char *unit;
    bool tf32; /* set by the checks of matrix units: operands are rounded to 10 bits of mantissa */
    int units; /* set by the checks of stream-k: compute units of the device; 0: its real number */
} clt_gemm_case;

extern const clt_gemm_case clt_gemm_cases[]; /* ends with a NULL name */

#endif
