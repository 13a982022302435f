/* SPDX-License-Identifier: Apache-2.0
 *
 * One update on a device, for all code that times it: the UPDATE phase on a store with one matrix, whose
 * values stay normal numbers over many updates. Results are not checked here. */
#ifndef ENGINE_VERIFY_SPEED_UPDATE_BENCH_H
#define ENGINE_VERIFY_SPEED_UPDATE_BENCH_H

#include "engine/verify/verify_internal.h"

/* variant, candidate, asked: as in clt_plan_options. spec.schedule_entries is replaced. */
typedef struct clt_update_bench_setup {
    clt_update_spec spec;
    clt_dtype storage;
    int64_t rows, cols;
    const char *variant;
    const ocl_choice *candidate;
    ocl_choice *asked;
} clt_update_bench_setup;

/* Makes only the plan, for a device with the description `desc`. */
clt_status clt_update_bench_plan(const ocl_device_desc *desc, const clt_update_bench_setup *setup,
                                 clt_plan **out);
clt_status clt_update_bench_create(ocl_device *device, const ocl_device_desc *desc,
                                   const clt_update_bench_setup *setup, clt_verify_bench **out);
/* Fills in values whose squares stay positive numbers over all updates of a measurement, and sets the
 * learning rate of the next update. */
clt_status clt_update_bench_fill(clt_verify_bench *bench, float learning_rate);

/* The bench of the family of updates (engine/plan/update_family.c), for the tuner. */
extern const ocl_family_bench clt_update_family_bench;

#endif
