/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass 9, buckets: with several ranks, cuts the gradients into buckets. When a gradient is ready follows from
 * the writes that the commands of the backward phase declare. */
#include <stdlib.h>

#include "engine/plan/plan_internal.h"

clt_phase clt_plan_last_backward(const clt_plan *plan)
{
    return plan->options.accumulation > 1 ? CLT_PHASE_BACKWARD_ADD : CLT_PHASE_BACKWARD;
}

/* ready: by parameter, how many commands there are up to the last one that writes its gradient. */
static void find_ready(const clt_plan *plan, size_t *ready)
{
    const ocl_command_list *list = &plan->phase[clt_plan_last_backward(plan)];
    for (size_t c = 0; c < list->count; c++)
        for (int a = 0; a < list->commands[c].n_args; a++) {
            const ocl_arg *arg = &list->commands[c].args[a];
            if (arg->kind != OCL_ARG_TENSOR || arg->ref.tensor < 0 || !(arg->access & OCL_WRITE))
                continue;
            const clt_tensor *t = clt_graph_tensor(plan->graph, clt_plan_owner(plan, arg->ref.tensor));
            if (t->cls == CLT_TC_PARAM_GRAD && t->param >= 0)
                ready[t->param] = c + 1;
        }
}

clt_status clt_pass_buckets(clt_plan *plan)
{
    size_t *ready;
    if (plan->options.mode != CLT_PLAN_TRAIN || plan->options.ranks <= 1)
        return CLT_OK;
    CLT_TRY(clt_alloc(&ready, plan->graph->n_params + 1, sizeof *ready, "gradient buckets"));
    find_ready(plan, ready);
    clt_status status =
        clt_buckets_make(plan->store, ready, plan->options.buckets, &plan->buckets, &plan->n_buckets);
    free(ready);
    return status;
}
