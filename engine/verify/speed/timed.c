/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of cases that are timed, and their benches. */
#include "engine/verify/speed/timed.h"

#include <string.h>

#include "engine/verify/speed/op_bench.h"
#include "engine/verify/speed/update_bench.h"

typedef struct clt_timed_update {
    const char *name;
    const clt_optimizer *optimizer;
    double value[CLT_OPTIMIZER_VALUES];
    int64_t rows, cols;
} clt_timed_update;

static const clt_timed_update updates[] = {
    {"sgd_large", &clt_optimizer_sgd, {0}, 4096, 4096},
    {"momentum_large", &clt_optimizer_sgd, {0.9}, 4096, 4096},
    {"adam_large", &clt_optimizer_adam, {0.9, 0.95, 1e-8}, 4096, 4096},
    {"lars_large", &clt_optimizer_lars, {0.9, 0, 0.001, 1e-8}, 4096, 4096},
    {"lamb_large", &clt_optimizer_lamb, {0.9, 0.95, 1e-6}, 4096, 4096},
    {"lion_large", &clt_optimizer_lion, {0.9, 0.99}, 4096, 4096},
    {"adamw_small", &clt_optimizer_adamw, {0.9, 0.95, 1e-8}, 256, 784},
    {"adamw_large", &clt_optimizer_adamw, {0.9, 0.95, 1e-8}, 4096, 4096},
};

bool clt_timed_at(int i, clt_timed *out)
{
    int count, n_updates = (int)(sizeof updates / sizeof updates[0]);
    const clt_op *const *ops = clt_op_list(&count);
    for (int op = 0; op < count; op++) {
        const clt_op_ref *ref = ops[op]->ref;
        if (ref && i < ref->n_timed) {
            *out = (clt_timed){ops[op]->name, ref->timed[i].name, ops[op], &ref->timed[i], NULL};
            return true;
        }
        i -= ref ? ref->n_timed : 0;
    }
    if (i >= n_updates)
        return false;
    *out = (clt_timed){.subject = "update", .name = updates[i].name, .update = &updates[i]};
    return true;
}

static clt_status create_update(ocl_device *device, const clt_timed_update *u, clt_verify_bench **out)
{
    clt_update_bench_setup setup = {.spec = {.optimizer = u->optimizer, .weight_decay = 0.1, .clip = 1.0f},
                                    .rows = u->rows,
                                    .cols = u->cols};
    memcpy(setup.spec.value, u->value, sizeof u->value);
    return clt_update_bench_create(device, ocl_device_describe(device), &setup, out);
}

clt_status clt_timed_create(ocl_device *device, const clt_timed *timed, clt_verify_bench **out)
{
    CLT_SCOPED(clt_verify_bench) *bench = NULL;
    *out = NULL;
    if (timed->update) {
        CLT_TRY(create_update(device, timed->update, &bench));
        CLT_TRY(clt_realized_run(bench->realized, CLT_PHASE_UPDATE));
    } else {
        const clt_verify_subject subject = {timed->op, timed->op_case, NULL};
        CLT_TRY(clt_op_bench_create(device, ocl_device_describe(device), &subject, &CLT_VERIFY_SINGLE, 0,
                                    &bench));
        CLT_TRY(clt_realized_prime(bench->realized, NULL, NULL, NULL));
    }
    *out = CLT_TAKE(bench);
    return CLT_OK;
}
