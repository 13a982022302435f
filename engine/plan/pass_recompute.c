/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass 5, recompute: trades memory for time. train.recompute = none, the only value of this release, keeps
 * every activation that backward reads, so the work list passes unchanged. */
#include "engine/plan/plan.h"

clt_status clt_pass_recompute(clt_plan *plan)
{
    (void)plan;
    return CLT_OK;
}
