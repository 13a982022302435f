/* SPDX-License-Identifier: Apache-2.0
 *
 * Hands moments from one work to the next, for the select pass. A norm over the batch needs the mean and
 * variance of each channel of its input, and the work that writes this input already holds every value. So
 * where a training norm follows, that work is asked for moments (clt_call.moments). If the variant that was
 * chosen for it leaves them, the norm gets them; otherwise the norm makes a pass over its input. Nothing
 * else needs planning: moments are workspaces of the first work that live until the norm. Recomputed work
 * needs none, since norms save their statistics. Knows flags of ops, no op.
 *
 * It saves time wherever it is possible, so there is no choice to make. On a CPU (ResNet-50, batch 8, two
 * cores) the passes take 8 ms of a step. With moments instead, products and Winograd's transforms take up to
 * 0.5 ms longer in sum, and the norms, which find less of their input in caches, 0.5 to 1 ms. On GPUs the
 * pass reads as many bytes as the result has, while moments are 2 numbers for each column of a tile of 32 to
 * 256 rows. */
#include <stdlib.h>

#include "engine/plan/plan_internal.h"

/* Whether a work normalises its first input by moments of the batch. */
static bool takes_moments(const clt_plan *plan, const clt_work *work)
{
    return work->kind == CLT_WORK_FORWARD && !work->again && (work->node->op->flags & CLT_OP_TAKES_MOMENTS) &&
           clt_node_updates_buffers(plan->graph, work->node);
}

clt_status clt_moments_open(clt_plan *plan)
{
    if (plan->options.mode != CLT_PLAN_TRAIN || plan->options.no_fuse)
        return CLT_OK;
    size_t tensors = plan->graph->n_tensors;
    CLT_TRY(clt_alloc(&plan->moments, tensors, sizeof *plan->moments, "moments"));
    for (size_t w = 0; w < plan->n_forward; w++)
        if (takes_moments(plan, &plan->work[w]))
            plan->moments[plan->work[w].node->in[0]].wanted = true;
    plan->n_moments = tensors;
    return CLT_OK;
}

void clt_moments_close(clt_plan *plan)
{
    free(plan->moments);
    plan->moments = NULL;
    plan->n_moments = 0;
}

void clt_moments_pass(const clt_plan *plan, const clt_work *work, clt_call *call)
{
    const clt_node *node = work->node;
    if (plan->n_moments == 0 || work->kind != CLT_WORK_FORWARD || work->again)
        return;
    if (node->n_out > 0 && plan->moments[node->out[0]].wanted)
        call->moments = &plan->moments[node->out[0]].moments;
    if (takes_moments(plan, work) && plan->moments[node->in[0]].moments.blocks > 0)
        call->moments_of_input = &plan->moments[node->in[0]].moments;
}
