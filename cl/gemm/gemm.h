/* SPDX-License-Identifier: Apache-2.0
 *
 * GEMM: one contract for every backend, row-major. C = epilogue(alpha * op(A) op(B) + beta * C), op(A) is m x
 * k, op(B) k x n, C m x n; batched with strides. Storage type per operand, f32 accumulation.
 *
 * Order of the epilogue, which all backends share (cl/gemm/gemm_epilogue.clh):
 *   forward    value = alpha * sum (+ beta * C) -> + bias -> stored in pre -> activation -> + residual -> C
 *   backward   value = alpha * sum -> * activation'(dact) -> (+ beta * C) -> C
 * Behind it, if asked for, come the moments of the columns of C, of the values as they were stored (ocl_moments). */
#ifndef CL_GEMM_H
#define CL_GEMM_H

#include "cl/command/command.h"
#include "cl/command/memory.h"
#include "cl/tune/family.h"
#include "engine/base/dtype.h"

typedef enum ocl_activation {
    OCL_ACT_NONE,
    OCL_ACT_RELU,
    OCL_ACT_GELU_ERF,
    OCL_ACT_GELU_TANH
} ocl_activation;

/* An operand that is the matrix of all windows of an image, which is channels-last: row m is the window of place m of
 * a convolution's result, columns are (window..., channels). Sizes are below 2^20; padding may be negative. The
 * backends `lane`, `tile`, `mma` and `wgmma` read it where it lies; others refuse (cl/gemm/gemm_windows.h). */
typedef struct ocl_windows {
    enum { OCL_WINDOWS_NONE, OCL_WINDOWS_A, OCL_WINDOWS_B } operand;
    int64_t in[3], out[3], kernel[3], stride[3], dilation[3], padding[3];
    int64_t channels; /* that a window has of each place */
    int64_t place;    /* elements between neighbouring places */
    int64_t elements; /* of the image */
} ocl_windows;

/* Moments of columns, by blocks of rows: of how many rows a block is, and for each column the mean of their values and
 * the sum of squared distances from it. Blocks are combined without cancellation (Chan, Golub & LeVeque 1979). */
typedef struct ocl_moments {
    uint64_t blocks;      /* 0: they were not made */
    int32_t count;        /* f32 (blocks) */
    int32_t mean, square; /* f32 (blocks, columns) */
} ocl_moments;

/* Sums over k of the lines of A (rows of op(A)): the gradient of a bias, where A is the transpose of dy. */
typedef struct ocl_line_sums {
    int32_t out; /* f32 (m) */
    bool accumulate;
    bool made; /* set by the backend */
} ocl_line_sums;

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
    /* Pre-activation, m x n, ld = ldc, type_c: gets the input of the activation, which must not be
     * OCL_ACT_NONE. It may be neither C nor the residual. OCL_NO_TENSOR: not stored. */
    ocl_tensor_ref pre;
    /* For backward, m x n, ld = ldc, type_c: the input of `activation` in the forward pass; C gets the
     * product times the activation's derivative there. Excludes bias, residual and pre; may be C.
     * OCL_NO_TENSOR: none. */
    ocl_tensor_ref dact;
    /* Not NULL: the moments of C's columns are wanted, with those of batch items, which then lie side by side, one
     * after the other. A backend whose chosen form can make them does so in workspaces and leaves here which; from the
     * others blocks is 0. They are an addition to a problem and no part of it: choices do not depend on them. */
    ocl_moments *moments;
    /* Not NULL: the sums of A's lines are wanted; batch must be 1. Like moments they are an addition: a
     * backend whose chosen form can make them does so and sets `made`; the others leave it false. */
    ocl_line_sums *line_sums;
    ocl_windows windows; /* then lda or ldb has no meaning */
    bool tf32;           /* f32 A and B may be rounded to 10 bits of mantissa (precision.matmul) */
    /* Set by backends only: the kernel takes bias, residual and pre as optional pointers, so that problems
     * which differ only in these share a program. */
    bool optional_operands;
} ocl_gemm;

/* The backends in order, NULL-terminated; the last one (simple) accepts everything without windows.
 * problem = const ocl_gemm *. */
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
/* Whether any backend takes the product on this device; else the reason of the backend that takes most problems
 * there is written. */
bool ocl_gemm_is_possible(const ocl_gemm *gemm, const ocl_device_desc *device, char *reason, size_t size);

/* Whether the standard choice for the product computes it on matrix units of the device. */
bool ocl_gemm_is_on_units(const ocl_gemm *gemm, const ocl_device_desc *device);

static inline bool ocl_has_windows(const ocl_gemm *gemm)
{
    return gemm->windows.operand != OCL_WINDOWS_NONE;
}
/* Whether A (B) is the matrix of windows. */
static inline bool ocl_is_windows(const ocl_gemm *gemm, bool of_a)
{
    return gemm->windows.operand == (of_a ? OCL_WINDOWS_A : OCL_WINDOWS_B);
}
/* Whether the windows fit the product: the layouts NN and NT for A and TN for B, sizes in their ranges, as many rows and
 * columns as the windows have, and an image of enough elements; else the reason is written. True for products without
 * windows. ocl_gemm_check asks it, so that backends take it as given (cl/gemm/gemm_windows.c). */
bool ocl_windows_layout(const ocl_gemm *gemm, char *reason, size_t size);

/* A problem's text in tuning records: "NT m=4 n=8 k=16 batch=2 f32*f32->f32 +bias"; returns buffer. */
const char *ocl_gemm_problem(const ocl_gemm *gemm, char *buffer, size_t size);
/* Adds the problem to the log; the log's data is an ocl_gemm. log NULL: does nothing. */
clt_status ocl_gemm_log(ocl_tuning_log *log, const ocl_gemm *gemm);
double ocl_gemm_flops(const ocl_gemm *gemm); /* 2*m*n*k*batch */
double ocl_gemm_moment_flops(
    const ocl_gemm *gemm); /* of its moments, where it makes them; 0 where it does not */

/* Number of elements from the first to the last one of each operand; false on overflow. */
bool ocl_gemm_spans(const ocl_gemm *gemm, int64_t *a, int64_t *b, int64_t *c);
/* Writes "gemm NT m=4 n=8 k=16 batch=2 f32*f32->f32 +bias +gelu_tanh +pre"; returns buffer. */
const char *ocl_gemm_text(const ocl_gemm *gemm, char *buffer, size_t size);
#define OCL_GEMM_TEXT 192
const char *ocl_gemm_activation_text(const ocl_gemm *gemm); /* " +relu", "" without one */
/* Parts of an open kernel command: the defines (including DTC) and the tensor arguments that
 * cl/gemm/gemm_epilogue.clh expects, in its order. */
void ocl_gemm_epilogue_defines(ocl_emitter *emitter, const ocl_gemm *gemm);
void ocl_gemm_epilogue_args(ocl_emitter *emitter, const ocl_gemm *gemm);
/* For backends, before they open the command that makes the moments of so many blocks: creates them. Returns whether they
 * are wanted; then the functions above give them to the kernel. */
bool ocl_gemm_make_moments(ocl_emitter *emitter, const ocl_gemm *gemm, uint64_t blocks);
/* The same for cl/gemm/gemm_operands.clh, with which the kernels of all backends begin: the defines of A and
 * B; the arguments GEMM_PARAMS, including those of the epilogue; GEMM_PART_PARAMS, for kernels that leave
 * partial sums in `floats` elements of `part`; the argument C alone. */
void ocl_gemm_operand_defines(ocl_emitter *emitter, const ocl_gemm *gemm);
void ocl_gemm_operand_args(ocl_emitter *emitter, const ocl_gemm *gemm);
void ocl_gemm_part_args(ocl_emitter *emitter, const ocl_gemm *gemm, int32_t part, uint64_t floats);
void ocl_gemm_result_arg(ocl_emitter *emitter, const ocl_gemm *gemm);

extern const ocl_variant ocl_gemm_lane;    /* cl/backends/gemm_lane.c */
extern const ocl_variant ocl_gemm_wgmma;   /* cl/backends/gemm_wgmma.c */
extern const ocl_variant ocl_gemm_mma;     /* cl/backends/gemm_mma.c */
extern const ocl_variant ocl_gemm_tile;    /* cl/backends/gemm_tile.c */
extern const ocl_variant ocl_gemm_clblast; /* cl/backends/blas_clblast.c, where the build has it */
extern const ocl_library ocl_clblast;
/* The library of this build, or NULL. */
const ocl_library *ocl_gemm_library(void);
/* For tests: sets the largest element index that is passed to CLBlast (normally 2^31-1). */
void ocl_clblast_set_index_limit(int64_t limit);

/* Emits a command by which a library computes the product; *gemm is copied. */
void ocl_emit_library_gemm(ocl_emitter *e, const ocl_gemm *gemm, const ocl_library *library);

#endif
