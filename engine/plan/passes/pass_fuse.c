/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass 6, fuse: lets one kernel do the work of neighbouring nodes, and removes work that does nothing
 * (views; dropout in evaluation). With options.no_fuse nothing is fused, so that tests can compare. The
 * checker's plans are never fused, because they test single ops. */
#include "engine/plan/passes/fuse.h"

/* Makes the output y of dropout a view of x in evaluation, where y = x. */
static void drop_identities(clt_plan *plan)
{
    for (size_t w = 0; w < plan->n_forward; w++) {
        const clt_node *node = plan->work[w].node;
        if (clt_fuse_dead(&plan->work[w]) || !(node->op->flags & CLT_OP_EVAL_IDENTITY))
            continue;
        clt_graph_tensor(plan->graph, node->out[0])->view_of = node->in[0];
        clt_fuse_kill(&plan->work[w]);
    }
}

static void drop_views(clt_plan *plan)
{
    for (size_t w = 0; w < plan->n_forward; w++)
        if (!clt_fuse_dead(&plan->work[w]) && (plan->work[w].node->op->flags & CLT_OP_VIEW))
            clt_fuse_kill(&plan->work[w]);
}

void clt_fuse_sweep(clt_plan *plan)
{
    size_t kept = 0, forward = 0;
    for (size_t w = 0; w < plan->n_work; w++) {
        if (clt_fuse_dead(&plan->work[w]))
            continue;
        forward += w < plan->n_forward;
        plan->work[kept++] = plan->work[w];
    }
    plan->n_work = kept;
    plan->n_forward = forward;
}

static clt_status fuse_all(clt_plan *plan)
{
    CLT_SCOPED(clt_fuse) fuse = {0};
    CLT_TRY(clt_fuse_open(plan, &fuse));
    CLT_TRY(clt_fuse_head(&fuse));
    CLT_TRY(clt_fuse_gemms(&fuse));
    return plan->options.mode == CLT_PLAN_TRAIN ? clt_fuse_sums(&fuse) : CLT_OK;
}

clt_status clt_pass_fuse(clt_plan *plan)
{
    drop_views(plan);
    if (plan->options.mode != CLT_PLAN_CHECK && !plan->options.no_fuse) {
        if (plan->options.mode == CLT_PLAN_EVAL)
            drop_identities(plan);
        CLT_TRY(fuse_all(plan));
    }
    clt_fuse_sweep(plan);
    return CLT_OK;
}
