/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass 1, precision: decides the storage type of every tensor. With precision.mode = f32, the only mode of
 * this release, every float tensor is stored as f32, which this pass proves instead of assuming. */
#include "engine/plan/plan.h"

clt_status clt_pass_precision(clt_plan *plan)
{
    /* The checker, which alone wants guard zones, has cases of every type, for evaluation too. */
    bool checked = plan->options.mode == CLT_PLAN_CHECK || plan->options.guard_bytes > 0;
    for (size_t i = 0; i < plan->graph->n_tensors; i++) {
        const clt_tensor *t = clt_graph_tensor(plan->graph, (int32_t)i);
        bool field = t->cls == CLT_TC_FIELD || t->cls == CLT_TC_STEP;
        if (!checked && !field && clt_dtype_is_float(t->dtype) && t->dtype != CLT_F32)
            CLT_FAIL(CLT_EUNSUPPORTED,
                     "planning: tensor '%s' is stored as %s; precision.mode f32 stores f32 only", t->name,
                     clt_dtype_name(t->dtype));
    }
    return CLT_OK;
}
