/* SPDX-License-Identifier: Apache-2.0
 *
 * Updates of a store with one matrix, and the bench with which the tuner measures them. After one update it
 * compares parameters and optimizer states with the results of the list's last variant, which accepts
 * everything. The matrix belongs to a net of one layer, which is never run. Knows plans and stores. */
#include "engine/verify/speed/update_bench.h"

#include <stdio.h>

#include "engine/ops/node.h"
#include "engine/verify/speed/op_bench.h"
#include "engine/verify/speed/phase_tuning.h"

/* --- one matrix --- */

static clt_status make_graph(int64_t rows, int64_t cols, clt_graph **out)
{
    CLT_SCOPED(clt_graph) *graph = NULL;
    clt_node *layer;
    clt_shape in = clt_shape1(cols), target = clt_shape1(rows);
    int32_t x, y;
    char attrs[64];
    *out = NULL;
    CLT_TRY(clt_graph_create(2, &graph));
    snprintf(attrs, sizeof attrs, "{\"out\":%lld,\"bias\":false}", (long long)rows);
    CLT_TRY(clt_graph_field(graph, "x", CLT_F32, &in, &x));
    CLT_TRY(clt_graph_field(graph, "y", CLT_F32, &target, &y));
    CLT_TRY(clt_graph_add_text(graph, "linear", "layer", attrs, &x, 1, &layer));
    int32_t loss_in[2] = {layer->out[0], y};
    CLT_TRY(clt_graph_add_text(graph, "mse", "loss", NULL, loss_in, 2, &layer));
    *out = CLT_TAKE(graph);
    return CLT_OK;
}

clt_status clt_update_bench_plan(const ocl_device_desc *desc, const clt_update_bench_setup *setup,
                                 clt_plan **out)
{
    clt_graph *graph;
    clt_plan_options options = {.mode = CLT_PLAN_TRAIN,
                                .accumulation = 1,
                                .ranks = 1,
                                .update = setup->spec,
                                .storage = setup->storage,
                                .force_variant = setup->variant,
                                .candidate = setup->candidate,
                                .asked = setup->asked};
    options.update.schedule_entries = 1;
    CLT_TRY(make_graph(setup->rows, setup->cols, &graph));
    return clt_plan_compute(graph, desc, &options, out);
}

clt_status clt_update_bench_fill(clt_verify_bench *bench, float learning_rate)
{
    const clt_store_layout *layout = bench->store->layout;
    const float schedule[4] = {learning_rate, 0.1f, 0.05f, 0.0f}, losses[4] = {1.0f, 0.0f, 1.0f, 0.0f};
    const clt_state_block state = {.loss_scale = 1.0f};
    for (int a = 0; a < CLT_ARENA_COUNT; a++) {
        if (clt_arenas[a].cls == CLT_TC_STATE)
            continue;
        clt_bench_fill fill = {.dtype = CLT_F32,
                               .fill = a == CLT_ARENA_OPT2 ? CLT_FILL_POSITIVE : CLT_FILL_NORMAL,
                               .scale = 1e-2};
        for (int32_t slab = 0; slab < layout->n_slabs; slab++)
            if (bench->store->slab[a][slab])
                CLT_TRY(
                    clt_bench_write(bench->store->slab[a][slab], 0, layout->trainable_elements[slab], &fill));
    }
    CLT_TRY(clt_store_set_groups(bench->store, 0.1f));
    CLT_TRY(clt_store_set_schedule(bench->store, schedule));
    CLT_TRY(clt_store_set_state(bench->store, &state));
    return clt_realized_write(bench->realized, bench->plan->losses, losses);
}

clt_status clt_update_bench_create(ocl_device *device, const ocl_device_desc *desc,
                                   const clt_update_bench_setup *setup, clt_verify_bench **out)
{
    CLT_SCOPED(clt_verify_bench) *bench = NULL;
    *out = NULL;
    CLT_TRY(clt_alloc(&bench, 1, sizeof *bench, "an update's bench"));
    bench->device = device;
    CLT_TRY(clt_update_bench_plan(desc, setup, &bench->plan));
    CLT_TRY(clt_verify_realise(bench, 1u << CLT_PHASE_UPDATE));
    CLT_TRY(clt_update_bench_fill(bench, 1e-4f));
    *out = CLT_TAKE(bench);
    return CLT_OK;
}

/* --- the bench for the tuner --- */

#define MOST_CHUNKS 8192 /* 32 MiB per arena: more than caches hold, enough work for any device */

typedef struct update_tuning {
    clt_phase_tuning tuning; /* first member: the tuner's functions cast its address to update_tuning */
    clt_update_bench_setup setup;
    clt_update_problem problem;
} update_tuning;

static clt_status make(const clt_phase_tuning *tuning, const ocl_device_desc *desc, const char *variant,
                       const ocl_choice *candidate, ocl_choice *asked, clt_verify_bench **out)
{
    clt_update_bench_setup setup = ((const update_tuning *)tuning)->setup;
    setup.variant = variant;
    setup.candidate = candidate;
    setup.asked = asked;
    return clt_update_bench_create(tuning->device, desc, &setup, out);
}

/* A learning rate that changes every parameter. */
static clt_status refill(clt_verify_bench *bench)
{
    return clt_update_bench_fill(bench, 1.0f);
}

static clt_status read_results(const clt_phase_tuning *tuning, const clt_verify_bench *bench,
                               clt_tuning_results *out)
{
    static const clt_arena_kind arenas[] = {CLT_ARENA_PARAM, CLT_ARENA_OPT1, CLT_ARENA_OPT2, CLT_ARENA_EMA};
    const clt_store *store = bench->store;
    const clt_store_slot *slot = &store->layout->slots[0];
    (void)tuning;
    for (size_t a = 0; a < sizeof arenas / sizeof arenas[0]; a++) {
        float *values;
        if (store->slab[arenas[a]][slot->slab] == NULL)
            continue;
        CLT_TRY(clt_tuning_add(out, clt_arenas[arenas[a]].name, slot->elements, &values));
        CLT_TRY(clt_store_read(store, arenas[a], slot, values));
    }
    return CLT_OK;
}

/* Allowed error: if a norm is summed in another order, steps differ in their last bits. */
#define TOLERANCE 1e-5

static clt_status create(ocl_device *device, const ocl_device_desc *desc, const void *data, void **out)
{
    static const clt_phase_family family = {make, refill, read_results};
    const clt_update_described *d = data;
    uint64_t chunks = d->chunks < MOST_CHUNKS ? d->chunks : MOST_CHUNKS;
    update_tuning *t;
    *out = NULL;
    CLT_TRY(clt_alloc(&t, 1, sizeof *t, "a tuner's problem"));
    CLT_SCOPED(clt_phase_tuning) *tuning = &t->tuning;
    t->setup = (clt_update_bench_setup){
        .spec = d->spec, .storage = d->working, .rows = (int64_t)chunks, .cols = CLT_STORE_CHUNK};
    *tuning = (clt_phase_tuning){.family = &family,
                                 .variants = clt_update_family.variants,
                                 .device = device,
                                 .phase = CLT_PHASE_UPDATE,
                                 .factor = (double)d->chunks / (double)chunks,
                                 .tolerance = TOLERANCE,
                                 .problem = &t->problem};
    CLT_TRY(clt_phase_tuning_begin(tuning, desc));
    t->problem.plan = tuning->reference->bench->plan;
    *out = CLT_TAKE(tuning);
    return CLT_OK;
}

const ocl_family_bench clt_update_family_bench = CLT_PHASE_BENCH(create);
