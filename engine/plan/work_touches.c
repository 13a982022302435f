/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the tensors that a piece of work reads and writes. Ops do not declare them; they follow from the
 * commands, so the work is emitted into a list that is thrown away. */
#include <stdlib.h>

#include "engine/plan/plan_internal.h"

void clt_touched_free(clt_touched *touched)
{
    free(touched->tensor);
    free(touched->access);
    *touched = (clt_touched){0};
}

bool clt_touched_has(const clt_touched *touched, int32_t owner, uint32_t access)
{
    for (size_t i = 0; i < touched->n; i++)
        if (touched->tensor[i] == owner && (touched->access[i] & access))
            return true;
    return false;
}

static clt_status note(clt_touched *out, int32_t owner, uint32_t access)
{
    for (size_t i = 0; i < out->n; i++)
        if (out->tensor[i] == owner) {
            out->access[i] |= access;
            return CLT_OK;
        }
    CLT_TRY(clt_grow(&out->tensor, &out->capacity, out->n + 1, sizeof *out->tensor, "planning"));
    CLT_TRY(clt_grow(&out->access, &out->access_capacity, out->n + 1, sizeof *out->access, "planning"));
    out->tensor[out->n] = owner;
    out->access[out->n++] = access;
    return CLT_OK;
}

static clt_status note_commands(const clt_plan *plan, const ocl_command_list *list, size_t tensors,
                                clt_touched *out)
{
    for (size_t c = 0; c < list->count; c++)
        for (int a = 0; a < list->commands[c].n_args; a++) {
            const ocl_arg *arg = &list->commands[c].args[a];
            if (arg->kind == OCL_ARG_TENSOR && arg->ref.tensor >= 0 && (size_t)arg->ref.tensor < tensors)
                CLT_TRY(note(out, clt_plan_owner(plan, arg->ref.tensor), (uint32_t)arg->access));
        }
    return CLT_OK;
}

clt_status clt_work_touches(clt_plan *plan, const clt_work *work, clt_touched *out)
{
    size_t tensors = plan->graph->n_tensors;
    CLT_SCOPED(ocl_command_list) list = {.arena = plan->graph->arena};
    *out = (clt_touched){0};
    if (work->kind == CLT_WORK_ADD) {
        CLT_TRY(note(out, clt_plan_owner(plan, work->add_from), OCL_READ));
        return note(out, clt_plan_owner(plan, work->add_to), OCL_READ_WRITE);
    }
    CLT_SCOPED(ocl_emitter) emitter = clt_emitter_make(plan, CLT_PHASE_FORWARD);
    emitter.list = &list;
    emitter.derive = NULL;
    emitter.log = NULL; /* these commands never run, so the tuner must not see their problems */
    clt_status status = clt_select_work(plan, &emitter, work, false);
    if (status == CLT_OK)
        status = note_commands(plan, &list, tensors, out);
    plan->graph->n_tensors = tensors; /* drops the workspace that the commands requested */
    if (status != CLT_OK)
        clt_touched_free(out);
    return status;
}
