/* SPDX-License-Identifier: Apache-2.0
 *
 * One matrix product for the tuner: made small enough to measure, with operands that rotate through memory
 * as in a training step, and a cheap reference: the values are whole numbers, for which every correct
 * backend gives the same bits. It knows nothing of the search. */
#ifndef CL_GEMM_BENCH_GEMM_TUNE_H
#define CL_GEMM_BENCH_GEMM_TUNE_H

#include "cl/gemm_bench/gemm_bench.h"

typedef struct ocl_tune_bench ocl_tune_bench;

/* Creates the operands and the reference result. The host computes it or, for large problems, the backend
 * `simple` (for windows of an image: the standard backend), with a sample checked on the host; CLT_ECHECK if
 * even that is wrong. A problem that would take too long or too much memory is made smaller, and times are
 * scaled accordingly. */
clt_status ocl_tune_bench_create(ocl_device *device, const ocl_device_desc *desc, const ocl_gemm *gemm,
                                 ocl_tune_bench **out);
void ocl_tune_bench_destroy(ocl_tune_bench *bench);
const ocl_gemm *ocl_tune_bench_problem(const ocl_tune_bench *bench); /* as measured */

/* candidate: a variant with tunables, emitted exactly; if NULL, `force` names a backend, or NULL leaves the
 * choice to the engine. desc: contains the tuning records. asked may be NULL. */
clt_status ocl_tune_bench_ready(ocl_tune_bench *bench, const ocl_device_desc *desc,
                                const ocl_choice *candidate, const char *force, ocl_choice *asked,
                                ocl_gemm_ready **out);
/* Nanoseconds of one product of the full size; the first call for a candidate also runs it once before,
 * untimed. */
clt_status ocl_tune_bench_time(const ocl_tune_bench *bench, ocl_gemm_ready *ready, double *ns);
clt_status ocl_tune_bench_check(const ocl_tune_bench *bench, ocl_gemm_ready *ready, bool *right, char *why,
                                size_t size);

/* The bench in the form that the tuner uses. */
extern const ocl_family_bench ocl_gemm_family_bench;

/* The problems that `cltrain tune` takes without a config: squares from 512 to 4096, and the products of
 * GPT-2 124M (forward, input gradient, weight gradient) at 256 and 4096 tokens. */
clt_status ocl_gemm_log_builtin(ocl_tuning_log *log);

#endif
