/* SPDX-License-Identifier: Apache-2.0
 *
 * One update on a device, for all that time it: the UPDATE phase over a store of one matrix, filled with
 * values that many updates leave as they should be. What is right is the checker's business. */
#ifndef ENGINE_VERIFY_UPDATE_BENCH_H
#define ENGINE_VERIFY_UPDATE_BENCH_H

#include "cl/tune/family.h"
#include "engine/plan/realize.h"
#include "engine/state/store.h"

typedef struct clt_update_bench {
    clt_plan *plan;
    clt_store *store;
    clt_slab_pool *pool;
    clt_realized *realized;
} clt_update_bench;

/* variant, candidate, asked: as in clt_plan_options. The spec's schedule_entries are the bench's own. */
typedef struct clt_update_bench_setup {
    clt_update_spec spec;
    clt_dtype storage;
    int64_t rows, cols;
    const char *variant;
    const ocl_choice *candidate;
    ocl_choice *asked;
} clt_update_bench_setup;

/* The plan alone, for a device of that description. */
clt_status clt_update_bench_plan(const ocl_device_desc *desc, const clt_update_bench_setup *setup,
                                 clt_plan **out);
clt_status clt_update_bench_create(ocl_device *device, const ocl_device_desc *desc,
                                   const clt_update_bench_setup *setup, clt_update_bench **out);
void clt_update_bench_destroy(clt_update_bench *bench); /* NULL is fine */
/* Values whose squares stay positive numbers for as many updates as a measurement makes, and that learning
 * rate for the next update. */
clt_status clt_update_bench_fill(clt_update_bench *bench, float learning_rate);

/* By which the tuner measures the family of the update (engine/plan/update_family.c). */
extern const ocl_family_bench clt_update_family_bench;

#endif
