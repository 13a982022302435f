/* SPDX-License-Identifier: Apache-2.0
 *
 * GEMM: one contract for every backend, row-major. C = epilogue(alpha * op(A) op(B) + beta * C), where op(A)
 * is m x k, op(B) is k x n and C is m x n; batched with strides. Storage type per operand, f32 accumulation.
 *
 * Order of the epilogue, which all backends share (cl/gemm/gemm_epilogue.clh):
 *   forward    value = alpha * sum (+ beta * C) -> + bias -> stored in pre -> activation -> + residual -> C
 *   backward   value = alpha * sum -> * activation'(dact) -> (+ beta * C) -> C
 * Then the moments of the columns of C, if wanted, are computed from the values as stored (ocl_moments). */
#ifndef CL_GEMM_GEMM_H
#define CL_GEMM_GEMM_H

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

/* Describes an operand that is the matrix of all windows of a channels-last image. Row m is the window of
 * pixel m of a convolution's result; columns are (window..., channels). A pixel is called a place in names
 * of this code, because it may be a voxel. Sizes are below 2^20; padding may be negative. The backends
 * `lane`, `tile`, `mma` and `wgmma` read the windows directly from the image; other backends refuse the
 * product (cl/gemm/gemm_windows.h). */
typedef struct ocl_windows {
    enum { OCL_WINDOWS_NONE, OCL_WINDOWS_A, OCL_WINDOWS_B } operand;
    int64_t in[3], out[3], kernel[3], stride[3], dilation[3], padding[3];
    int64_t channels; /* channels of each pixel that a window reads */
    int64_t place;    /* elements between neighbouring pixels */
    int64_t elements; /* elements of the image */
} ocl_windows;

/* Moments of the columns of C, one set for each block of rows: the block's number of rows and, for each
 * column, the mean of its values and the sum of squared distances from that mean. Blocks are combined
 * without cancellation (Chan, Golub & LeVeque 1979). */
typedef struct ocl_moments {
    uint64_t blocks;      /* 0: not computed */
    int32_t count;        /* f32 (blocks) */
    int32_t mean, square; /* f32 (blocks, columns) */
} ocl_moments;

/* Sums over k of the lines of A (rows of op(A)). Where A is the transpose of dy they are the gradient of a
 * bias. */
typedef struct ocl_line_sums {
    int32_t out; /* f32 (m) */
    bool accumulate;
    bool made; /* set by the backend: it computes the sums */
} ocl_line_sums;

typedef struct ocl_gemm {
    int64_t m, n, k;
    bool ta, tb;                          /* A is stored k x m if ta, B is stored n x k if tb */
    int64_t lda, ldb, ldc;                /* row strides in elements, as stored */
    int64_t batch;                        /* >= 1 */
    int64_t stride_a, stride_b, stride_c; /* elements between batch items; 0 = shared (A, B only) */
    float alpha, beta;                    /* beta 0: C is not read, so NaN in it does not matter */
    clt_dtype type_a, type_b, type_c;
    ocl_tensor_ref a, b, c;  /* tensor and byte offset */
    ocl_tensor_ref bias;     /* (n) f32 added to every row; OCL_NO_TENSOR: none */
    ocl_tensor_ref residual; /* m x n, ld = ldc, type_c, added after the activation; OCL_NO_TENSOR: none */
    ocl_activation activation;
    /* Pre-activation, m x n, ld = ldc, type_c: gets the input of the activation, which must not be
     * OCL_ACT_NONE. It may be neither C nor the residual. OCL_NO_TENSOR: not stored. */
    ocl_tensor_ref pre;
    /* For a backward pass, m x n, ld = ldc, type_c: the input of `activation` in the forward pass. C becomes
     * the product times the activation's derivative at this input. Excludes bias, residual and pre; may be
     * C. OCL_NO_TENSOR: none. */
    ocl_tensor_ref dact;
    /* Not NULL: the caller can use the moments of C's columns. Batch items then lie side by side, so that
     * their columns follow each other. A backend whose chosen form can compute moments creates workspaces
     * for them and fills in this struct; others set blocks = 0. As moments are optional, the choice of a
     * backend does not depend on them. */
    ocl_moments *moments;
    /* Not NULL: the caller can use the sums of A's lines; batch must be 1. A backend whose chosen form can
     * compute them sets `made`; others leave it false. */
    ocl_line_sums *line_sums;
    ocl_windows windows; /* the operand of windows has no lda or ldb */
    bool tf32;           /* f32 A and B may be rounded to 10 bits of mantissa (precision.matmul) */
    /* Set by backends only: the kernel takes bias, residual and pre as optional pointers, so that problems
     * that differ only in these operands share a program. */
    bool optional_operands;
} ocl_gemm;

/* Properties of a backend on which the checker relies. */
enum {
    OCL_GEMM_CHAINS = 1,  /* long sums are added in chains of SUM_STEPS (long_sum.clh) */
    OCL_GEMM_MOMENTS = 2, /* moments are computed whenever the caller wants them */
    OCL_GEMM_ALL = 4      /* every product without windows is accepted */
};
uint32_t ocl_gemm_promises(const ocl_variant *backend); /* OCL_GEMM_... bits */
/* The backends in order, NULL-terminated; the last one (simple) accepts everything without windows. Their
 * `problem` is a const ocl_gemm *. */
extern const ocl_variant *const ocl_gemm_variants[];
#define OCL_GEMM_FAMILY "gemm"
extern const ocl_family ocl_gemm_family;
/* A product with defaults: batch 1, tight strides, alpha 1, beta 0, f32, no epilogue. */
ocl_gemm ocl_gemm_make(int64_t m, int64_t n, int64_t k, bool ta, bool tb);
/* Checks sizes, strides and types; CLT_ESHAPE says which are inconsistent. */
clt_status ocl_gemm_check(const ocl_gemm *gemm);
/* Chooses a backend and emits its commands, as ocl_family_emit does for every family. The environment
 * variable CLTRAIN_GEMM names a backend to use. Emits nothing if C is empty. */
clt_status ocl_gemm_emit(ocl_emitter *emitter, const ocl_gemm *gemm, const char *force);
/* Whether any backend accepts the product on this device. If not, `reason` gets the reason of the backend
 * that accepts most problems on such devices. */
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
/* Whether the windows fit the product: layout NN or NT if A is the matrix of windows, TN if B is; sizes in
 * their ranges; as many rows and columns as the windows have; an image of enough elements. If not, `reason`
 * says why. True for products without windows. ocl_gemm_check calls this, so backends need not
 * (cl/gemm/gemm_windows.c). */
bool ocl_windows_layout(const ocl_gemm *gemm, char *reason, size_t size);

/* A problem's text in tuning records: "NT m=4 n=8 k=16 batch=2 f32*f32->f32 +bias"; returns buffer. */
const char *ocl_gemm_problem(const ocl_gemm *gemm, char *buffer, size_t size);
/* Adds the problem, an ocl_gemm, to the log. log NULL: does nothing. */
clt_status ocl_gemm_log(ocl_tuning_log *log, const ocl_gemm *gemm);
double ocl_gemm_flops(const ocl_gemm *gemm); /* 2*m*n*k*batch */
double ocl_gemm_moment_flops(
    const ocl_gemm *gemm); /* operations for the moments that it computes; 0 if it computes none */

/* Whether an optional operand is present. */
static inline bool ocl_given(ocl_tensor_ref ref)
{
    return ref.tensor != OCL_NO_TENSOR_ID;
}

/* A or B as it is stored: in each batch item, rows of `columns` elements that begin `ld` elements apart. */
typedef struct ocl_stored_matrix {
    int64_t rows, columns, ld, stride;
} ocl_stored_matrix;
static inline ocl_stored_matrix ocl_gemm_stored(const ocl_gemm *g, bool of_a)
{
    return of_a ? (ocl_stored_matrix){g->ta ? g->k : g->m, g->ta ? g->m : g->k, g->lda, g->stride_a}
                : (ocl_stored_matrix){g->tb ? g->n : g->k, g->tb ? g->k : g->n, g->ldb, g->stride_b};
}
/* Number of elements from the first to the last one of each operand; false if a number overflows. */
bool ocl_gemm_spans(const ocl_gemm *gemm, int64_t *a, int64_t *b, int64_t *c);
/* Writes "gemm NT m=4 n=8 k=16 batch=2 f32*f32->f32 +bias +gelu_tanh +pre"; returns buffer. */
const char *ocl_gemm_text(const ocl_gemm *gemm, char *buffer, size_t size);
#define OCL_GEMM_TEXT 192
const char *ocl_gemm_activation_text(const ocl_gemm *gemm); /* such as " +relu", or "" */
/* Add parts of an open kernel command: the defines (including DTC), and the tensor arguments that
 * cl/gemm/gemm_epilogue.clh expects, in its order. */
void ocl_gemm_epilogue_defines(ocl_emitter *emitter, const ocl_gemm *gemm);
void ocl_gemm_epilogue_args(ocl_emitter *emitter, const ocl_gemm *gemm);
/* Called by a backend before it opens the command that computes moments of `blocks` blocks. Creates
 * workspaces for the moments. Returns whether the caller wants moments; if so, the two functions above pass
 * them to the kernel. */
bool ocl_gemm_make_moments(ocl_emitter *emitter, const ocl_gemm *gemm, uint64_t blocks);
/* The same for cl/gemm/gemm_operands.clh, which the kernels of all backends include. They add the defines of
 * A and B; the arguments GEMM_PARAMS, including the epilogue's; GEMM_PART_PARAMS, for kernels that store
 * partial sums in the `floats` elements of `part`; the argument C alone. */
void ocl_gemm_operand_defines(ocl_emitter *emitter, const ocl_gemm *gemm);
void ocl_gemm_operand_args(ocl_emitter *emitter, const ocl_gemm *gemm);
void ocl_gemm_part_args(ocl_emitter *emitter, const ocl_gemm *gemm, int32_t part, uint64_t floats);
void ocl_gemm_result_arg(ocl_emitter *emitter, const ocl_gemm *gemm);

extern const ocl_variant ocl_gemm_lane;    /* cl/backends/gemm_lane.c */
extern const ocl_variant ocl_gemm_tile;    /* cl/backends/gemm_tile.c */
extern const ocl_variant ocl_gemm_clblast; /* cl/backends/blas_clblast.c, where the build has it */
extern const ocl_library ocl_clblast;
#define OCL_UNIT(name, caps) extern const ocl_variant ocl_gemm_##name;
#include "cl/device/matrix_units.def"
/* The library that this build has, or NULL. */
const ocl_library *ocl_gemm_library(void);
/* For tests: sets the largest element index that is passed to CLBlast (normally 2^31-1). */
void ocl_clblast_set_index_limit(int64_t limit);

/* Emits a command that lets a library compute the product; *gemm is copied. */
void ocl_emit_library_gemm(ocl_emitter *e, const ocl_gemm *gemm, const ocl_library *library);

#endif
