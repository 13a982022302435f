/* SPDX-License-Identifier: Apache-2.0
 *
 * GEMM: one contract for every backend, row-major. C = epilogue(alpha * op(A) op(B) + beta * C), op(A) is m x
 * k, op(B) k x n, C m x n; batched with strides. Storage type per operand, f32 accumulation.
 *
 * Order of the epilogue, which all backends share (cl/gemm/gemm_epilogue.clh):
 *   forward    value = alpha * sum (+ beta * C) -> + bias -> stored in pre -> activation -> + residual -> C
 *   backward   value = alpha * sum -> * activation'(dact) -> (+ beta * C) -> C */
#ifndef CL_GEMM_H
#define CL_GEMM_H

#include "cl/command/command.h"
#include "cl/device/memory.h"
#include "cl/tune/family.h"
#include "engine/base/dtype.h"

typedef enum ocl_activation {
    OCL_ACT_NONE,
    OCL_ACT_RELU,
    OCL_ACT_GELU_ERF,
    OCL_ACT_GELU_TANH
} ocl_activation;

typedef struct ocl_gemm {
    int64_t m, n, k;
    bool ta, tb;                          /* A stored k x m when ta, B stored n x k when tb */
    int64_t lda, ldb, ldc;                /* row strides in elements, as stored */
    int64_t batch;                        /* >= 1 */
    int64_t stride_a, stride_b, stride_c; /* elements between batch items; 0 = shared (A, B only) */
    float alpha, beta;                    /* beta 0: C is not read, NaN in it does not matter */
    clt_dtype type_a, type_b, type_c;
    ocl_tensor_ref a, b, c;  /* tensor + byte offset */
    ocl_tensor_ref bias;     /* (n) f32 added to every row; OCL_NO_TENSOR: none */
    ocl_tensor_ref residual; /* m x n, ld = ldc, type_c, added after the activation; OCL_NO_TENSOR: none */
    ocl_activation activation;
    ocl_tensor_ref pre; /* m x n, ld = ldc, type_c: receives what goes into the activation, which must exist;
                           OCL_NO_TENSOR: not kept. Neither C nor the residual */
    ocl_tensor_ref
        dact;  /* m x n, ld = ldc, type_c: what went into `activation` in the forward pass; C receives
                  the gradient before it. Excludes bias, residual and pre; may be C. OCL_NO_TENSOR */
    bool tf32; /* f32 A and B may be rounded to 10 bits of mantissa (precision.matmul) */
    /* Set by backends alone: the kernel takes bias, residual and pre also where there are none, so that
     * problems which differ in nothing else share a program. */
    bool optional_operands;
} ocl_gemm;

/* Ordered list of backends, NULL-terminated; the last one (simple) accepts everything. problem = const
 * ocl_gemm *. */
extern const ocl_variant *const ocl_gemm_variants[];
#define OCL_GEMM_FAMILY "gemm"
extern const ocl_family ocl_gemm_family;
/* Sensible defaults: batch 1, tight strides, alpha 1, beta 0, f32, no epilogue. */
ocl_gemm ocl_gemm_make(int64_t m, int64_t n, int64_t k, bool ta, bool tb);
/* CLT_ESHAPE with the reason when sizes, strides or types are inconsistent. */
clt_status ocl_gemm_check(const ocl_gemm *gemm);
/* Chooses a backend and emits its commands, as ocl_family_emit does for every family; the environment
 * variable is CLTRAIN_GEMM. An empty C emits nothing. */
clt_status ocl_gemm_emit(ocl_emitter *emitter, const ocl_gemm *gemm, const char *force);

/* A problem's text in tuning records: "NT m=4 n=8 k=16 batch=2 f32*f32->f32 +bias"; returns buffer. */
const char *ocl_gemm_problem(const ocl_gemm *gemm, char *buffer, size_t size);
/* Adds the problem as it would be emitted; the log's data is an ocl_gemm. log NULL: does nothing. */
clt_status ocl_gemm_log(ocl_tuning_log *log, const ocl_gemm *gemm);
double ocl_gemm_flops(const ocl_gemm *gemm); /* 2*m*n*k*batch */

/* Elements that each operand spans from its first to behind its last one; false when that overflows. */
bool ocl_gemm_spans(const ocl_gemm *gemm, int64_t *a, int64_t *b, int64_t *c);
/* Writes "gemm NT m=4 n=8 k=16 batch=2 f32*f32->f32 +bias +gelu_tanh +pre"; returns buffer. */
const char *ocl_gemm_text(const ocl_gemm *gemm, char *buffer, size_t size);
#define OCL_GEMM_TEXT 192
const char *ocl_gemm_activation_text(const ocl_gemm *gemm); /* " +relu", "" without one */
/* Emits nothing but part of an open kernel command: the defines (DTC among them) and the tensor arguments
 * that cl/gemm/gemm_epilogue.clh expects, in its order. */
void ocl_gemm_epilogue_defines(ocl_emitter *emitter, const ocl_gemm *gemm);
void ocl_gemm_epilogue_args(ocl_emitter *emitter, const ocl_gemm *gemm);
/* The same for what the kernels of all backends begin with (cl/gemm/gemm_operands.clh): the defines of A
 * and B; the arguments GEMM_PARAMS, those of the epilogue among them; GEMM_PART_PARAMS, for kernels that
 * leave sums in `floats` elements of `part`; C alone. */
void ocl_gemm_operand_defines(ocl_emitter *emitter, const ocl_gemm *gemm);
void ocl_gemm_operand_args(ocl_emitter *emitter, const ocl_gemm *gemm);
void ocl_gemm_part_args(ocl_emitter *emitter, const ocl_gemm *gemm, int32_t part, uint64_t floats);
void ocl_gemm_result_arg(ocl_emitter *emitter, const ocl_gemm *gemm);

extern const ocl_variant ocl_gemm_lane;    /* cl/gemm/gemm_lane.c */
extern const ocl_variant ocl_gemm_wgmma;   /* cl/gemm/gemm_wgmma.c */
extern const ocl_variant ocl_gemm_mma;     /* cl/gemm/gemm_mma.c */
extern const ocl_variant ocl_gemm_tile;    /* cl/gemm/gemm_tile.c */
extern const ocl_variant ocl_gemm_clblast; /* cl/gemm/blas_clblast.c, where the build has it */
extern const ocl_library ocl_clblast;
/* The library of this build, or NULL. */
const ocl_library *ocl_gemm_library(void);
/* For tests: largest element index that CLBlast is trusted with (normally 2^31-1). */
void ocl_clblast_set_index_limit(int64_t limit);

/* A command that has a library compute the product, which is copied. */
void ocl_emit_library_gemm(ocl_emitter *e, const ocl_gemm *gemm, const ocl_library *library);

#endif
