/* SPDX-License-Identifier: Apache-2.0
 *
 * The matrix products that every GEMM backend is checked with: plain data, apart from the checks so that a
 * reader sees what is covered. */
#ifndef ENGINE_VERIFY_GEMM_CASES_H
#define ENGINE_VERIFY_GEMM_CASES_H

#include "cl/gemm/gemm.h"

typedef enum clt_gemm_form {
    FORM_TIGHT,  /* dense operands at the start of their tensors */
    FORM_PADDED, /* offsets, row strides and batch strides of odd size */
    FORM_SHARED, /* padded, and all batch items use one B */
    FORM_HEADS,  /* batch items side by side in the rows: attention */
    FORM_ALIGNED /* offsets and strides of whole 16 bytes, rows that are longer than they need */
} clt_gemm_form;

/* Where an operand of C's shape lies. */
typedef enum clt_gemm_extra { EXTRA_NONE, EXTRA_OWN, EXTRA_C } clt_gemm_extra;

typedef struct clt_gemm_case {
    const char *name;
    int64_t m, n, k;
    bool ta, tb, small;
    bool forms;      /* looked at with every form of the backend that has forms, too */
    bool lane_forms; /* and with blocks of the backend `lane` that small products do not get */
    int64_t batch;   /* 0: 1 */
    clt_gemm_form form;
    float alpha, beta; /* alpha 0: 1 */
    clt_dtype type[3]; /* A, B, C; f32 is 0 */
    ocl_activation activation;
    bool bias, pre;
    clt_gemm_extra residual, dact;
    bool tf32; /* set by the checker of `mma`: operands are rounded to 10 bits of mantissa */
} clt_gemm_case;

extern const clt_gemm_case clt_gemm_cases[]; /* name NULL ends */

#endif
