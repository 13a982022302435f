/* SPDX-License-Identifier: Apache-2.0
 *
 * Fusing dropout with the residual sum behind it, forward: one kernel instead of two, and the result of
 * dropout alone is never stored. Backward is as it was: a sum hands its gradient on. The arithmetic is that
 * of the separate kernels, so results keep their bits in f32; in 16-bit storage the sum is rounded once
 * instead of twice. Knows the op dropout, no kernel. */
#include "engine/plan/fuse.h"

static clt_status fuse_one(clt_plan *plan, size_t at)
{
    int32_t result = plan->work[at].node->out[0];
    clt_fuse_residual(plan, at, &result);
    return clt_fuse_yield(plan, at, result);
}

clt_status clt_fuse_dropout(clt_plan *plan)
{
    for (size_t w = 0; w < plan->n_forward; w++) {
        const clt_node *node = plan->work[w].node;
        if (!clt_fuse_dead(&plan->work[w]) && clt_fuse_is(node, "dropout") &&
            clt_node_attr(node, "p")->f > 0.0)
            CLT_TRY(fuse_one(plan, w));
    }
    return CLT_OK;
}
