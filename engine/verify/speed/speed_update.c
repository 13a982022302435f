/* SPDX-License-Identifier: Apache-2.0
 *
 * Speed of the update: gradient norm, finite check and optimizer on a store with one matrix. */
#include <string.h>

#include "engine/verify/speed/speed_internal.h"
#include "engine/verify/speed/update_bench.h"

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

static clt_status measure(const clt_speed_session *s, const update_case *c)
{
    clt_update_bench_setup setup = {.spec = {.optimizer = c->optimizer, .weight_decay = 0.1, .clip = 1.0f},
                                    .rows = c->rows,
                                    .cols = c->cols};
    CLT_SCOPED(clt_verify_bench) *bench = NULL;
    memcpy(setup.spec.value, c->value, sizeof c->value);
    CLT_TRY(clt_update_bench_create(s->device, &s->desc, &setup, &bench));
    CLT_TRY(clt_realized_run(bench->realized, CLT_PHASE_UPDATE));
    return clt_speed_phase(s, bench->realized, CLT_PHASE_UPDATE, c->name);
}

clt_status clt_speed_updates(clt_speed_session *s)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (clt_speed_wants(s, cases[i].name))
            CLT_TRY(clt_speed_end(s, cases[i].name, measure(s, &cases[i])));
    return CLT_OK;
}
