/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass 4, fuse: the place where neighbouring work becomes one kernel. The cross-entropy op is fused with
 * softmax by itself; this release fuses nothing further, so the pass only removes work that has become empty
 * (forward of views). */
#include "engine/plan/plan.h"

clt_status clt_pass_fuse(clt_plan *plan)
{
    size_t kept = 0, forward = 0;
    for (size_t i = 0; i < plan->n_work; i++) {
        const clt_work *work = &plan->work[i];
        if (work->kind == CLT_WORK_FORWARD && (plan->graph->nodes[work->node]->op->flags & CLT_OP_VIEW))
            continue;
        forward += work->kind == CLT_WORK_FORWARD;
        plan->work[kept++] = *work;
    }
    plan->n_work = kept;
    plan->n_forward = forward;
    return CLT_OK;
}
