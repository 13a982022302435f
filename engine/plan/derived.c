/* SPDX-License-Identifier: Apache-2.0
 *
 * Derived tensors that a plan keeps: functions of one parameter and nothing else, such as the transformed
 * windows of Winograd's algorithm. Their commands are placed at the first work that reads them, after the
 * wait for gathered parameters. They are skipped while their results are valid (realize.c): in training for
 * the rest of a step, in evaluation and prediction until the end. 16-bit copies of parameters (arenas.h) are
 * not made here: the update already holds the values and writes them itself. */
#include <string.h>

#include "engine/plan/plan_internal.h"

/* A tensor is kept if its commands take at least 1 / LEAST of the time of the work that reads it; otherwise
 * keeping it is not worth the memory. Measured on a CPU with 512-bit vectors: transforming the windows of
 * ResNet-50 moves 29 GB/s while products compute 400 GFLOP/s, so a byte takes as long as BALANCE
 * operations. */
#define BALANCE 14.0
#define LEAST 64.0

/* The fraction of a derived tensor's computations that is saved if the tensor is kept. */
static double saved(const clt_plan *plan, const clt_param *param)
{
    bool changes = plan->options.mode == CLT_PLAN_TRAIN && clt_param_is_trained(param);
    return changes ? 1.0 - 1.0 / plan->options.accumulation : 1.0;
}

static bool pays(const clt_plan *plan, const ocl_derivation *d, const clt_param *param)
{
    double time = saved(plan, param) * (double)d->bytes * BALANCE;
    return time > 0 && time * LEAST >= d->flops;
}

static const clt_plan_derived *find(const clt_plan *plan, const ocl_derivation *d)
{
    for (size_t i = 0; i < plan->n_derived; i++)
        if (plan->derived[i].source == d->source && strcmp(plan->derived[i].form, d->form) == 0)
            return &plan->derived[i];
    return NULL;
}

static clt_status add(clt_plan *plan, const ocl_derivation *d, int32_t *tensor)
{
    size_t n = plan->n_derived, capacity = n;
    clt_shape shape = clt_shape1((int64_t)d->elements);
    CLT_TRY(clt_grow(&plan->derived, &capacity, n + 1, sizeof *plan->derived, "derived tensors"));
    clt_plan_derived *derived = &plan->derived[n];
    *derived = (clt_plan_derived){.source = d->source, .form = clt_arena_strdup(plan->graph->arena, d->form)};
    if (!derived->form)
        return CLT_ENOMEM;
    CLT_TRY(clt_graph_new_tensor(plan->graph, d->name, d->dtype, &shape, CLT_TC_WORKSPACE, tensor));
    clt_graph_tensor(plan->graph, *tensor)->persistent = true;
    derived->tensor = *tensor;
    plan->n_derived++;
    return CLT_OK;
}

clt_status clt_plan_derive(void *owner, const ocl_derivation *d, ocl_derived *out)
{
    clt_plan *plan = owner;
    const clt_tensor *source = clt_graph_tensor(plan->graph, d->source);
    const clt_plan_derived *derived = find(plan, d);
    if (derived) {
        *out = (ocl_derived){.tensor = derived->tensor, .there = true};
        return CLT_OK;
    }
    const clt_param *param =
        source->cls == CLT_TC_PARAM && source->param >= 0 ? &plan->graph->params[source->param] : NULL;
    /* the checker, whose plans have guard zones, fills the parameters as it likes */
    bool checked = plan->options.mode == CLT_PLAN_CHECK || plan->options.guard_bytes > 0;
    if (checked || plan->options.transient || !param || param->buffer || !pays(plan, d, param))
        return CLT_OK;
    out->derives = clt_param_is_trained(param) ? CLT_DERIVES_TRAINED : CLT_DERIVES_FROZEN;
    return add(plan, d, &out->tensor);
}
