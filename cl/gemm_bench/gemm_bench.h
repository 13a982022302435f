/* SPDX-License-Identifier: Apache-2.0
 *
 * One matrix product on a device, for all code that checks or times products (the checker, the tuner,
 * `cltrain bench gemm`, unit tests): operands with guard zones and values, a backend's commands for them,
 * runs, and a reference in double precision. Knows the contract of cl/gemm/gemm.h, no backend. */
#ifndef CL_GEMM_BENCH_GEMM_BENCH_H
#define CL_GEMM_BENCH_GEMM_BENCH_H

#include "cl/exec/exec.h"
#include "cl/gemm/gemm.h"

/* Operands, which are also the tensor ids of the bench's product. */
enum {
    OCL_GEMM_A,
    OCL_GEMM_B,
    OCL_GEMM_C,
    OCL_GEMM_BIAS,
    OCL_GEMM_RESIDUAL,
    OCL_GEMM_PRE,
    OCL_GEMM_DACT,
    OCL_GEMM_LINE_SUMS,
    OCL_GEMM_OPERANDS
};
#define OCL_GEMM_GUARD 128 /* elements of each of the two guard zones, before and after an operand */
#define OCL_GEMM_MAX_WORKSPACES 8

typedef struct ocl_gemm_array {
    clt_dtype type;
    size_t elements; /* elements of the buffer, guards included; 0: the product has no such operand */
    size_t first;    /* index of the element of the buffer where the operand starts */
    uint8_t *image;  /* content of the buffer before a run */
} ocl_gemm_array;

/* The operands' values. If all members are NULL and false, values are small whole numbers, whose sums are
 * exact. */
typedef struct ocl_gemm_fill {
    /* Writes the values of elements first to first + n - 1 of an operand's buffer, guards included. */
    void (*values)(void *context, int operand, clt_dtype type, size_t first, double *out, size_t n);
    void *context;
    /* the values are whole numbers so small that every sum is exact in f32 (always true if `values` is
     * NULL) */
    bool whole;
    /* gaps between the matrices of A and B are filled with NaN, so that reading them is noticed */
    bool gaps;
} ocl_gemm_fill;

typedef struct ocl_gemm_bench {
    ocl_device *device;
    ocl_gemm gemm; /* its operands are the tensors OCL_GEMM_A to OCL_GEMM_DACT */
    bool whole;
    ocl_moments moments;     /* gemm.moments points to it if moments are wanted */
    ocl_line_sums line_sums; /* likewise for gemm.line_sums; they go to tensor OCL_GEMM_LINE_SUMS */
    int copies;
    ocl_gemm_array array[OCL_GEMM_OPERANDS];
    ocl_buffer *(*buffer)[OCL_GEMM_OPERANDS]; /* buffers of each copy */
} ocl_gemm_bench;

/* Creates the operands of a product. Of gemm->bias, residual, pre and dact, those whose tensor is
 * OCL_NO_TENSOR_ID are absent; residual and dact are C itself if their tensor is OCL_GEMM_C. Offsets are
 * used unchanged. C and pre are filled with NaN where the product must not read them. Of gemm->moments only
 * whether it is NULL is used; of gemm->line_sums also `accumulate`. copies: number of sets of buffers. */
clt_status ocl_gemm_bench_create(ocl_device *device, const ocl_gemm *gemm, const ocl_gemm_fill *fill,
                                 int copies, ocl_gemm_bench **out);
void ocl_gemm_bench_destroy(ocl_gemm_bench *bench);
CLT_SCOPED_POINTER(ocl_gemm_bench, ocl_gemm_bench_destroy)
size_t ocl_gemm_array_bytes(const ocl_gemm_array *array);

/* A product with its commands built. */
typedef struct ocl_gemm_ready {
    ocl_gemm_bench *bench;
    ocl_emitter emitter;
    ocl_command_list list;
    size_t first_end; /* end of the commands of the first copy */
    ocl_exec *exec;
    ocl_gemm_array workspace[OCL_GEMM_MAX_WORKSPACES]; /* their `image` is NULL */
    ocl_buffer *workspace_buffer[OCL_GEMM_MAX_WORKSPACES];
    int workspaces, next_workspace;
    int runs; /* runs in one timed batch */
} ocl_gemm_ready;

/* Emits the product for every copy. how: an emitter of which only the device description, label, record,
 * asked and log are used, because this function sets list and workspaces. force: as in ocl_gemm_emit.
 * CLT_EUNSUPPORTED when the backend refuses. */
clt_status ocl_gemm_ready_create(ocl_gemm_bench *bench, const ocl_emitter *how, const char *force,
                                 ocl_gemm_ready **out);
/* Builds the programs. CLT_EUNSUPPORTED when the device cannot run the product although the backend accepted
 * it. */
clt_status ocl_gemm_ready_build(ocl_gemm_ready *ready);
void ocl_gemm_ready_destroy(ocl_gemm_ready *ready);
CLT_SCOPED_POINTER(ocl_gemm_ready, ocl_gemm_ready_destroy)
/* Resets the first copy to its initial values, runs it once and waits. */
clt_status ocl_gemm_ready_run(ocl_gemm_ready *ready);
/* Reads an operand's buffer of the first copy to *out. If *out is NULL, it is allocated, and the caller
 * frees it with free(). */
clt_status ocl_gemm_ready_read(ocl_gemm_ready *ready, int operand, uint8_t **out);
/* Combines in double precision the moments that the first copy computed (bench->moments.blocks > 0): *rows
 * is the number of rows; mean[] and square[] get the mean of every column (of all batch items) and the sum
 * of squared distances from it. */
clt_status ocl_gemm_ready_moments(ocl_gemm_ready *ready, double *rows, double *mean, double *square);
/* Checks that the run changed only elements of C and pre, and the inside of workspaces. If not, *right
 * becomes false and `why` says where. */
clt_status ocl_gemm_ready_guards(ocl_gemm_ready *ready, bool *right, char *why, size_t size);
/* Runs the product, checks the guards, and compares C and pre with the reference: all elements or, if
 * `sample` is not 0, about that many, spread over the whole result. */
clt_status ocl_gemm_ready_check(ocl_gemm_ready *ready, int64_t sample, bool *right, char *why, size_t size);
/* A batch for ocl_time (cl/measure/timing.h); context: the ocl_gemm_ready. One run computes all copies. */
clt_status ocl_gemm_ready_batch(void *ready, int runs, double *seconds);

/* --- the reference: gemm_reference.c --- */

/* Expected values of one element of C and of pre, and bounds for the rounding errors of a correct result.
 * Values and bounds do not include rounding to the stored type (clt_dtype_rounding), except for whole
 * numbers, where the values are the stored ones. */
typedef struct ocl_gemm_value {
    double c, pre, bound_c, bound_pre;
} ocl_gemm_value;
/* Computes the expected values of elements j to j + n - 1 of row i of batch item z. */
clt_status ocl_gemm_expect(const ocl_gemm_bench *bench, int64_t z, int64_t i, int64_t j, int64_t n,
                           ocl_gemm_value *out);
/* Whether the result must be exact, because all values are whole numbers. */
bool ocl_gemm_exact(const ocl_gemm_bench *bench);
/* Compares `c` (the content of C's buffer) and `pre` (of pre's buffer; NULL: not compared) with the
 * reference. If an element is wrong, *right becomes false and `why` names it. sample: as in
 * ocl_gemm_ready_check. worst (may be NULL): gets the largest ratio of an error to its bound. */
clt_status ocl_gemm_compare(const ocl_gemm_bench *bench, const void *c, const void *pre, int64_t sample,
                            double *worst, bool *right, char *why, size_t size);
double ocl_activation_value(ocl_activation activation, double x);
double ocl_activation_slope(ocl_activation activation, double x);

#endif
