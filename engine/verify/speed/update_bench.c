/* SPDX-License-Identifier: Apache-2.0
 *
 * Updates of a store with one matrix, and the bench with which the tuner measures them. After one update it
 * compares parameters and optimizer states with the results of the list's last variant, which accepts
 * everything. The matrix belongs to a net of one layer, which is never run. Knows plans and stores. */
#include "engine/verify/speed/update_bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl/measure/timing.h"
#include "engine/base/thread.h"
#include "engine/ops/node.h"
#include "engine/verify/speed/op_bench.h"

/* --- one matrix --- */

static clt_status make_graph(int64_t rows, int64_t cols, clt_graph **out)
{
    clt_graph *graph;
    clt_node *layer;
    clt_shape in = clt_shape1(cols), target = clt_shape1(rows);
    int32_t x, y;
    char attrs[64];
    clt_status status;
    *out = NULL;
    CLT_TRY(clt_graph_create(2, &graph));
    snprintf(attrs, sizeof attrs, "{\"out\":%lld,\"bias\":false}", (long long)rows);
    CLT_TRY_GOTO(clt_graph_field(graph, "x", CLT_F32, &in, &x), fail);
    CLT_TRY_GOTO(clt_graph_field(graph, "y", CLT_F32, &target, &y), fail);
    CLT_TRY_GOTO(clt_graph_add_text(graph, "linear", "layer", attrs, &x, 1, &layer), fail);
    int32_t loss_in[2] = {layer->out[0], y};
    CLT_TRY_GOTO(clt_graph_add_text(graph, "mse", "loss", NULL, loss_in, 2, &layer), fail);
    *out = graph;
    return CLT_OK;
fail:
    clt_graph_destroy(graph);
    return status;
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

clt_status clt_update_bench_fill(clt_update_bench *bench, float learning_rate)
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

void clt_update_bench_destroy(clt_update_bench *bench)
{
    if (bench == NULL)
        return;
    clt_realized_destroy(bench->realized);
    clt_pool_destroy(bench->pool);
    clt_store_destroy(bench->store);
    clt_plan_destroy(bench->plan);
    free(bench);
}

clt_status clt_update_bench_create(ocl_device *device, const ocl_device_desc *desc,
                                   const clt_update_bench_setup *setup, clt_update_bench **out)
{
    clt_update_bench *bench;
    clt_status status;
    *out = NULL;
    CLT_TRY(clt_alloc(&bench, 1, sizeof *bench, "an update's bench"));
    CLT_TRY_GOTO(clt_update_bench_plan(desc, setup, &bench->plan), fail);
    const clt_plan *plans[1] = {bench->plan};
    CLT_TRY_GOTO(clt_store_create(device, bench->plan->store, true, &bench->store), fail);
    CLT_TRY_GOTO(clt_pool_create(device, plans, 1, &bench->pool), fail);
    clt_realize_options options = {
        .store = bench->store, .pool = bench->pool, .phases = 1u << CLT_PHASE_UPDATE};
    CLT_TRY_GOTO(clt_plan_realize(bench->plan, device, &options, &bench->realized), fail);
    CLT_TRY_GOTO(clt_update_bench_fill(bench, 1e-4f), fail);
    *out = bench;
    return CLT_OK;
fail:;
    clt_error error;
    clt_error_take(status, &error);
    clt_update_bench_destroy(bench);
    return clt_error_put(&error);
}

/* --- the bench for the tuner --- */

#define MOST_CHUNKS 8192 /* 32 MiB per arena: more than caches hold, enough work for any device */

static const clt_arena_kind compared[] = {CLT_ARENA_PARAM, CLT_ARENA_OPT1, CLT_ARENA_OPT2, CLT_ARENA_EMA};
enum { COMPARED = sizeof compared / sizeof compared[0] };

typedef struct update_trial {
    clt_update_bench *bench;
    clt_phase_trial update;
} update_trial;

typedef struct update_tuning {
    ocl_device *device;
    clt_update_bench_setup setup;
    double factor; /* time of the full problem divided by that of the measured, smaller one */
    update_trial *reference;
    clt_update_problem problem;
    float *want[COMPARED];
} update_tuning;

static void release(void *tuning, void *trial)
{
    update_trial *t = trial;
    (void)tuning;
    if (t != NULL)
        clt_update_bench_destroy(t->bench);
    free(t);
}

static clt_status make_trial(update_tuning *t, const ocl_device_desc *desc, const char *variant,
                             const ocl_choice *candidate, ocl_choice *asked, update_trial **out)
{
    clt_update_bench_setup setup = t->setup;
    setup.variant = variant;
    setup.candidate = candidate;
    setup.asked = asked;
    CLT_TRY(clt_alloc(out, 1, sizeof **out, "a candidate of the tuner"));
    clt_status status = clt_update_bench_create(t->device, desc, &setup, &(*out)->bench);
    if (status != CLT_OK) {
        free(*out);
        *out = NULL;
        return status;
    }
    (*out)->update = (clt_phase_trial){.realized = (*out)->bench->realized, .phase = CLT_PHASE_UPDATE};
    return CLT_OK;
}

/* Runs one update from the values of clt_update_bench_fill, with a learning rate that changes every
 * parameter, and reads the results; *out is NULL for an arena that does not exist. */
static clt_status update_once(update_trial *t, float *out[COMPARED])
{
    const clt_store *store = t->bench->store;
    const clt_store_slot *slot = &store->layout->slots[0];
    CLT_TRY(clt_update_bench_fill(t->bench, 1.0f));
    CLT_TRY(clt_phase_trial_run(&t->update, 1));
    for (int a = 0; a < COMPARED; a++) {
        if (store->slab[compared[a]][slot->slab] == NULL)
            continue;
        CLT_TRY(clt_alloc(&out[a], slot->elements, sizeof **out, "a result of the tuner"));
        CLT_TRY(clt_store_read(store, compared[a], slot, out[a]));
    }
    return CLT_OK;
}

static void free_all(float *values[COMPARED])
{
    for (int a = 0; a < COMPARED; a++)
        free(values[a]);
}

static void destroy(void *tuning)
{
    update_tuning *t = tuning;
    if (t == NULL)
        return;
    release(t, t->reference);
    free_all(t->want);
    free(t);
}

static clt_status create(ocl_device *device, const ocl_device_desc *desc, const void *data, void **out)
{
    const clt_update_described *d = data;
    const ocl_variant *const *list = clt_update_family.variants;
    uint64_t chunks = d->chunks < MOST_CHUNKS ? d->chunks : MOST_CHUNKS;
    update_tuning *t;
    size_t last = 0;
    while (list[last + 1] != NULL)
        last++;
    *out = NULL;
    CLT_TRY(clt_alloc(&t, 1, sizeof *t, "a tuner's problem"));
    t->device = device;
    t->factor = (double)d->chunks / (double)chunks;
    t->setup = (clt_update_bench_setup){
        .spec = d->spec, .storage = d->working, .rows = (int64_t)chunks, .cols = CLT_STORE_CHUNK};
    clt_status status = make_trial(t, desc, list[last]->name, NULL, NULL, &t->reference);
    if (status == CLT_OK)
        status = update_once(t->reference, t->want);
    if (status != CLT_OK) {
        clt_error error;
        clt_error_take(status, &error);
        destroy(t);
        return clt_error_put(&error);
    }
    t->problem.plan = t->reference->bench->plan;
    *out = t;
    return CLT_OK;
}

static const void *problem(const void *tuning, bool measured)
{
    (void)measured;
    return &((const update_tuning *)tuning)->problem;
}

static clt_status ready(void *tuning, const ocl_device_desc *desc, const ocl_choice *candidate,
                        ocl_choice *asked, void **out)
{
    update_trial *trial;
    clt_status status = make_trial(tuning, desc, NULL, candidate, asked, &trial);
    *out = trial;
    return status;
}

static clt_status time_one(void *tuning, void *trial, double *ns)
{
    CLT_TRY(clt_phase_trial_time(&((update_trial *)trial)->update, ns));
    *ns *= ((const update_tuning *)tuning)->factor;
    return CLT_OK;
}

/* Allows for a norm summed in another order, so that steps differ in their last bits. */
#define TOLERANCE 1e-5

static clt_status check(void *tuning, void *trial, bool *right, char *why, size_t size)
{
    update_tuning *t = tuning;
    float *got[COMPARED] = {NULL};
    size_t n = t->reference->bench->store->layout->slots[0].elements;
    *right = true;
    clt_status status = update_once(trial, got);
    for (int a = 0; a < COMPARED && status == CLT_OK && *right; a++)
        if (t->want[a] != NULL)
            *right =
                clt_bench_equal(got[a], t->want[a], n, TOLERANCE, clt_arenas[compared[a]].name, why, size);
    free_all(got);
    return status;
}

const ocl_family_bench clt_update_family_bench = {.create = create,
                                                  .destroy = destroy,
                                                  .problem = problem,
                                                  .ready = ready,
                                                  .release = release,
                                                  .time = time_one,
                                                  .check = check};
