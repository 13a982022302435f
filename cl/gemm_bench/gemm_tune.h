/* SPDX-License-Identifier: Apache-2.0
 *
 * One matrix product for the tuner: made small enough to measure, with operands that rotate through memory
 * as in a training step, and a cheap reference: the values are whole numbers, for which every correct
 * backend gives the same bits. This file must not know how the tuner searches. */
#ifndef CL_GEMM_BENCH_GEMM_TUNE_H
#define CL_GEMM_BENCH_GEMM_TUNE_H

#include "cl/gemm_bench/gemm_bench.h"

/* Problems are products (ocl_gemm). The host computes the reference result. For large problems the backend
 * `simple` computes it (for windows of an image: the standard backend), and the host checks a sample of it;
 * CLT_ECHECK if the sample is wrong. A problem that would take too long or too much memory is made smaller,
 * and times are scaled accordingly. */
extern const ocl_family_bench ocl_gemm_family_bench;

/* Adds the problems that `cltrain tune` measures without a config: squares from 512 to 4096, and the
 * products of GPT-2 124M (forward, input gradient, weight gradient) at 256 and 4096 tokens. */
clt_status ocl_gemm_log_builtin(ocl_tuning_log *log);

#endif
