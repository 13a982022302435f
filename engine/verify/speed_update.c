/* SPDX-License-Identifier: Apache-2.0
 *
 * Speed of the update: gradient norm, finite check and optimizer over a store that holds one matrix. Knows
 * plans and stores; the matrix belongs to a net of one layer, which is never run. */
#include <stdio.h>
#include <string.h>

#include "engine/ops/node.h"
#include "engine/state/store.h"
#include "engine/verify/op_bench.h"
#include "engine/verify/speed_internal.h"

typedef struct update_case {
    const char *name;
    const clt_optimizer *optimizer;
    double value[CLT_OPTIMIZER_VALUES];
    int64_t rows, cols;
} update_case;

static const update_case cases[] = {
    {"update.sgd_large", &clt_optimizer_sgd, {0}, 4096, 4096},
    {"update.momentum_large", &clt_optimizer_sgd, {0.9}, 4096, 4096},
    {"update.adam_large", &clt_optimizer_adam, {0.9, 0.95, 1e-8}, 4096, 4096},
    {"update.lars_large", &clt_optimizer_lars, {0.9, 0, 0.001, 1e-8}, 4096, 4096},
    {"update.lamb_large", &clt_optimizer_lamb, {0.9, 0.95, 1e-6}, 4096, 4096},
    {"update.lion_large", &clt_optimizer_lion, {0.9, 0.99}, 4096, 4096},
    {"update.adamw_small", &clt_optimizer_adamw, {0.9, 0.95, 1e-8}, 256, 784},
    {"update.adamw_large", &clt_optimizer_adamw, {0.9, 0.95, 1e-8}, 4096, 4096},
};

static clt_status make_graph(const update_case *c, clt_graph **out)
{
    clt_graph *graph;
    clt_node *layer;
    clt_shape in = clt_shape1(c->cols), target = clt_shape1(c->rows);
    int32_t x, y;
    char attrs[64];
    clt_status status;
    *out = NULL;
    CLT_TRY(clt_graph_create(2, &graph));
    snprintf(attrs, sizeof attrs, "{\"out\":%lld,\"bias\":false}", (long long)c->rows);
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

static clt_status make_plan(const clt_speed_session *s, const update_case *c, clt_plan **out)
{
    clt_graph *graph;
    clt_plan_options options = {
        .mode = CLT_PLAN_TRAIN,
        .accumulation = 1,
        .ranks = 1,
        .update = {.optimizer = c->optimizer, .weight_decay = 0.1, .clip = 1.0f, .schedule_entries = 1}};
    memcpy(options.update.value, c->value, sizeof c->value);
    CLT_TRY(make_graph(c, &graph));
    return clt_plan_compute(graph, &s->desc, &options, out);
}

/* Values whose squares stay positive numbers for as many updates as a measurement makes. */
static clt_status fill_store(clt_store *store)
{
    static const float schedule[4] = {1e-4f, 0.1f, 0.05f, 0.0f};
    const clt_state_block state = {.loss_scale = 1.0f};
    for (int a = 0; a < CLT_ARENA_COUNT; a++) {
        if (clt_arenas[a].cls == CLT_TC_STATE)
            continue;
        clt_bench_fill fill = {.dtype = CLT_F32,
                               .fill = a == CLT_ARENA_OPT2 ? CLT_FILL_POSITIVE : CLT_FILL_NORMAL,
                               .scale = 1e-2};
        for (int32_t slab = 0; slab < store->layout->n_slabs; slab++)
            if (store->slab[a][slab])
                CLT_TRY(
                    clt_bench_write(store->slab[a][slab], 0, store->layout->trainable_elements[slab], &fill));
    }
    CLT_TRY(clt_store_set_groups(store, 0.1f));
    CLT_TRY(clt_store_set_schedule(store, schedule));
    return clt_store_set_state(store, &state);
}

static clt_status measure(const clt_speed_session *s, const update_case *c)
{
    clt_plan *plan = NULL;
    clt_store *store = NULL;
    clt_slab_pool *pool = NULL;
    clt_realized *realized = NULL;
    clt_status status;
    CLT_TRY(make_plan(s, c, &plan));
    const clt_plan *plans[1] = {plan};
    CLT_TRY_GOTO(clt_store_create(s->device, plan->store, true, &store), done);
    CLT_TRY_GOTO(clt_pool_create(s->device, plans, 1, &pool), done);
    clt_realize_options options = {.store = store, .pool = pool, .phases = 1u << CLT_PHASE_UPDATE};
    CLT_TRY_GOTO(clt_plan_realize(plan, s->device, &options, &realized), done);
    CLT_TRY_GOTO(fill_store(store), done);
    CLT_TRY_GOTO(clt_realized_run(realized, CLT_PHASE_UPDATE), done);
    status = clt_speed_phase(s, realized, CLT_PHASE_UPDATE, c->name);
done:
    clt_realized_destroy(realized);
    clt_pool_destroy(pool);
    clt_store_destroy(store);
    clt_plan_destroy(plan);
    return status;
}

clt_status clt_speed_updates(clt_speed_session *s)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (!clt_speed_wants(s, cases[i].name))
            continue;
        clt_status status = measure(s, &cases[i]);
        if (status == CLT_EDEVMEM) {
            clt_speed_refuse(s, cases[i].name, clt_error_text());
            clt_error_clear();
        } else if (status != CLT_OK) {
            return clt_fail_prefix(status, "timing %s: ", cases[i].name);
        }
    }
    return CLT_OK;
}
