/* SPDX-License-Identifier: Apache-2.0
 *
 * One call of an op on a device, for all code that times it: random operands, runs of one direction. Uses
 * the checker's plan of a case, but does not check results. */
#ifndef ENGINE_VERIFY_SPEED_OP_BENCH_H
#define ENGINE_VERIFY_SPEED_OP_BENCH_H

#include "engine/verify/verify_internal.h"

/* Plans a case with the description `desc`, realises it and fills inputs, parameters and gradients. */
clt_status clt_op_bench_create(ocl_device *device, const ocl_device_desc *desc,
                               const clt_verify_subject *subject, const clt_verify_setup *setup,
                               uint32_t phases, clt_verify_bench **out);

/* Random data that is not compared with a reference: the same CLT_BENCH_BLOCK elements repeated. */
#define CLT_BENCH_BLOCK 65536
typedef struct clt_bench_fill {
    clt_dtype dtype;
    clt_fill fill;
    int64_t max;     /* CLT_FILL_INDEX */
    double scale;    /* of floating-point numbers */
    uint32_t stream; /* each number gives different data */
} clt_bench_fill;
clt_status clt_bench_write(ocl_buffer *buffer, uint64_t offset, uint64_t elements,
                           const clt_bench_fill *fill);

/* A phase of a realised plan as the tuner times it. */
typedef struct clt_phase_trial {
    clt_realized *realized;
    clt_phase phase;
    int runs; /* in one timed batch; 0: not timed yet */
} clt_phase_trial;
/* Runs the phase `runs` times and waits for the end. */
clt_status clt_phase_trial_run(const clt_phase_trial *trial, int runs);
/* Nanoseconds of one run. */
clt_status clt_phase_trial_time(clt_phase_trial *trial, double *ns);

/* True if two results agree: no element differs by more than tolerance * the largest magnitude of `want`.
 * Otherwise `why` says which one differs. */
bool clt_bench_equal(const float *got, const float *want, size_t n, double tolerance, const char *what,
                     char *why, size_t size);

/* The bench of the families of ops, for the tuner. */
extern const ocl_family_bench clt_op_family_bench;

#endif
