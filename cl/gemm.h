/* SPDX-License-Identifier: Apache-2.0
 *
 * GEMM: one contract for every backend, row-major. C = epilogue(alpha * op(A) op(B) + beta * C), op(A) is m x
 * k, op(B) k x n, C m x n; batched with strides. Storage type per operand, f32 accumulation. */
#ifndef CL_GEMM_H
#define CL_GEMM_H

#include "cl/command.h"
#include "cl/memory.h"
#include "cl/variant.h"
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
} ocl_gemm;

/* Ordered list of backends, NULL-terminated; the last one (simple) accepts everything. problem = const
 * ocl_gemm *. */
extern const ocl_variant *const ocl_gemm_variants[];
/* Sensible defaults: batch 1, tight strides, alpha 1, beta 0, f32, no epilogue. */
ocl_gemm ocl_gemm_make(int64_t m, int64_t n, int64_t k, bool ta, bool tb);
/* CLT_ESHAPE with the reason when sizes, strides or types are inconsistent. */
clt_status ocl_gemm_check(const ocl_gemm *gemm);
/* Chooses a variant (see ocl_variant_select) and emits its commands. `force` names a backend, which then must
 * accept, or is NULL; the environment variable CLTRAIN_GEMM names one that is preferred where it accepts. An
 * empty C emits nothing. */
clt_status ocl_gemm_emit(ocl_emitter *emitter, const ocl_gemm *gemm, const char *force);
double ocl_gemm_flops(const ocl_gemm *gemm); /* 2*m*n*k*batch */

/* Elements that each operand spans from its first to behind its last one; false when that overflows. */
bool ocl_gemm_spans(const ocl_gemm *gemm, int64_t *a, int64_t *b, int64_t *c);
/* Writes "gemm NT m=4 n=8 k=16 batch=2 f32*f32->f32"; returns buffer. */
const char *ocl_gemm_text(const ocl_gemm *gemm, char *buffer, size_t size);
#define OCL_GEMM_TEXT 192

extern const ocl_variant ocl_gemm_clblast; /* cl/blas_clblast.c, where the build has it */
/* Runs a CLBlast call on the compute queue (cl/blas_clblast.c; used by the executor). */
clt_status ocl_clblast_run(ocl_device *device, const ocl_gemm *gemm, ocl_buffer *a, ocl_buffer *b,
                           ocl_buffer *c, ocl_event **done);
/* Frees CLBlast's caches; called when the last device closes. */
void ocl_clblast_clear(void);
/* For tests: largest element index that CLBlast is trusted with (normally 2^31-1). */
void ocl_clblast_set_index_limit(int64_t limit);

#endif
