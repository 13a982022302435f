/* SPDX-License-Identifier: Apache-2.0
 *
 * Measuring one matrix product on a device, for the tuner: operands with small whole numbers (so that every
 * sum is exact and any right backend gives the same bits), a reference, candidates that are built, timed and
 * compared. It knows nothing of searching. */
#ifndef CL_TUNER_BENCH_H
#define CL_TUNER_BENCH_H

#include "cl/gemm/gemm.h"

typedef struct ocl_gemm_bench ocl_gemm_bench;
typedef struct ocl_gemm_ready ocl_gemm_ready; /* a candidate, built */

/* Operands and the reference result, computed by the backend `simple` and checked in double precision on the
 * host: CLT_ECHECK when even that one is wrong. A problem that would take too long or too much memory is made
 * smaller; times are scaled back. */
clt_status ocl_gemm_bench_create(ocl_device *device, const ocl_device_desc *desc, const ocl_gemm *gemm,
                                 ocl_gemm_bench **out);
void ocl_gemm_bench_destroy(ocl_gemm_bench *bench);
const ocl_gemm *ocl_gemm_bench_problem(const ocl_gemm_bench *bench); /* as measured */

/* candidate: taken as it is; NULL: `force` names a backend, NULL: the engine's choice. desc: which records
 * hold. asked may be NULL. */
clt_status ocl_gemm_ready_create(ocl_gemm_bench *bench, const ocl_device_desc *desc,
                                 const ocl_choice *candidate, const char *force, ocl_choice *asked,
                                 ocl_gemm_ready **out);
void ocl_gemm_ready_destroy(ocl_gemm_ready *ready);
/* Nanoseconds of one product of the full size; warm: runs once before, untimed. */
clt_status ocl_gemm_ready_time(ocl_gemm_ready *ready, bool warm, double *ns);
clt_status ocl_gemm_ready_check(ocl_gemm_ready *ready, bool *right, char *why, size_t size);

#endif
