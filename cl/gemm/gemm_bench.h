/* SPDX-License-Identifier: Apache-2.0
 *
 * One matrix product on a device, for everything that checks or times products (the checker, the tuner,
 * `cltrain bench gemm`, unit tests): operands with guard zones and values, the commands of a backend built
 * for them, runs, and a reference in double precision. It knows the contract of cl/gemm/gemm.h and no
 * backend. */
#ifndef CL_GEMM_BENCH_H
#define CL_GEMM_BENCH_H

#include "cl/command/exec.h"
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
    OCL_GEMM_OPERANDS
};
#define OCL_GEMM_GUARD 128 /* elements on both sides of an operand that belong to nobody */
#define OCL_GEMM_MAX_WORKSPACES 8

typedef struct ocl_gemm_array {
    clt_dtype type;
    size_t elements; /* of the buffer, guards included; 0: the product has no such operand */
    size_t first;    /* element of the buffer where the operand starts */
    uint8_t *image;  /* what the buffer holds before a run */
} ocl_gemm_array;

/* Where values come from. All NULL and false: small whole numbers, whose sums are exact. */
typedef struct ocl_gemm_fill {
    /* Values of elements first to first + n of an operand's buffer, guards included. */
    void (*values)(void *context, int operand, clt_dtype type, size_t first, double *out, size_t n);
    void *context;
    bool whole; /* the values are whole numbers so small that every sum is exact in f32 (always so without
                   `values`) */
    bool gaps;  /* whatever of A and B is no element of a matrix becomes NaN, so that reading it shows */
} ocl_gemm_fill;

typedef struct ocl_gemm_bench {
    ocl_device *device;
    ocl_gemm gemm; /* its operands are tensors OCL_GEMM_A to OCL_GEMM_DACT */
    bool whole;
    int copies;
    ocl_gemm_array array[OCL_GEMM_OPERANDS];
    ocl_buffer *(*buffer)[OCL_GEMM_OPERANDS]; /* of each copy */
} ocl_gemm_bench;

/* The operands of a product. In gemm->bias, residual, pre and dact a tensor other than OCL_NO_TENSOR_ID says
 * that there is one; residual and dact that name OCL_GEMM_C lie in C. Offsets hold. C and pre hold NaN where
 * the product must not read them. copies: as many sets of buffers. */
clt_status ocl_gemm_bench_create(ocl_device *device, const ocl_gemm *gemm, const ocl_gemm_fill *fill,
                                 int copies, ocl_gemm_bench **out);
void ocl_gemm_bench_destroy(ocl_gemm_bench *bench);
size_t ocl_gemm_array_bytes(const ocl_gemm_array *array);

/* A product with its commands built. */
typedef struct ocl_gemm_ready {
    ocl_gemm_bench *bench;
    ocl_emitter emitter;
    ocl_command_list list;
    size_t first_end; /* commands of the first copy */
    ocl_exec *exec;
    ocl_gemm_array workspace[OCL_GEMM_MAX_WORKSPACES]; /* without images */
    ocl_buffer *workspace_buffer[OCL_GEMM_MAX_WORKSPACES];
    int workspaces, next_workspace;
    int runs; /* of one timed batch */
} ocl_gemm_ready;

/* Emits the product for every copy. how: the device's description, label, record, asked and log of the
 * emitter; its list and workspaces are set here. force: as in ocl_gemm_emit. CLT_EUNSUPPORTED when the
 * backend refuses. */
clt_status ocl_gemm_ready_create(ocl_gemm_bench *bench, const ocl_emitter *how, const char *force,
                                 ocl_gemm_ready **out);
/* Builds what was emitted. CLT_EUNSUPPORTED when the device cannot run it although the backend accepted. */
clt_status ocl_gemm_ready_build(ocl_gemm_ready *ready);
void ocl_gemm_ready_destroy(ocl_gemm_ready *ready);
/* Runs the first copy once from its starting values and waits. */
clt_status ocl_gemm_ready_run(ocl_gemm_ready *ready);
/* What an operand's buffer of the first copy holds now. */
clt_status ocl_gemm_ready_read(ocl_gemm_ready *ready, int operand, void *out);
/* *right false, and `why` says where, when anything changed that is not an element of C or pre or the inside
 * of a workspace. */
clt_status ocl_gemm_ready_guards(ocl_gemm_ready *ready, bool *right, char *why, size_t size);
/* Runs, looks at the guards, and compares C and pre with the reference: all elements, or about `sample` of
 * them, spread over the whole result, when it is not 0. */
clt_status ocl_gemm_ready_check(ocl_gemm_ready *ready, int64_t sample, bool *right, char *why, size_t size);
/* A batch for ocl_time (cl/measure/timing.h); context: the ocl_gemm_ready. One run does all copies. */
clt_status ocl_gemm_ready_batch(void *ready, int runs, double *seconds);

/* --- the reference: gemm_reference.c --- */

/* One element of C and of pre, and how far rounding may take a right result off; what storing the result
 * changes comes on top (clt_dtype_rounding). Of whole numbers the values are those that are stored. */
typedef struct ocl_gemm_value {
    double c, pre, bound_c, bound_pre;
} ocl_gemm_value;
/* Elements j to j + n of row i of item z. */
clt_status ocl_gemm_expect(const ocl_gemm_bench *bench, int64_t z, int64_t i, int64_t j, int64_t n,
                           ocl_gemm_value *out);
/* True when a result of whole numbers must be exact. */
bool ocl_gemm_exact(const ocl_gemm_bench *bench);
/* *right false, and `why` says which element, when one of c (C's buffer) or pre (pre's, NULL: not looked at)
 * is not as expected. sample: as in ocl_gemm_ready_check. worst (may be NULL): the largest error over its
 * bound. */
clt_status ocl_gemm_compare(const ocl_gemm_bench *bench, const void *c, const void *pre, int64_t sample,
                            double *worst, bool *right, char *why, size_t size);
double ocl_activation_value(ocl_activation activation, double x);
double ocl_activation_slope(ocl_activation activation, double x);

#endif
