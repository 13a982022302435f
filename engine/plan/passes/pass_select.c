/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass 9, select: chooses a variant for every piece of work and lets it emit its commands into the lists
 * of the phases. Each command gets a time: the position of its work, and its place within the work.
 * BACKWARD and BACKWARD_ADD are two versions of the same work, so their commands have the same times. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "engine/plan/plan.h"
#include "engine/plan/plan_internal.h"

static int32_t plan_workspace(void *owner, clt_dtype dtype, uint64_t elements, const char *name)
{
    clt_plan *plan = owner;
    clt_shape shape = clt_shape1((int64_t)(elements ? elements : 1));
    int32_t id;
    return clt_graph_new_tensor(plan->graph, name, dtype, &shape, CLT_TC_WORKSPACE, &id) == CLT_OK
               ? id
               : OCL_NO_TENSOR_ID;
}

/* Workspace that both versions of the backward phase share: they never run at the same time, so a piece of
 * work gets the same tensor in both. */
typedef struct shared_space {
    clt_plan *plan;
    struct {
        size_t work;
        int32_t tensor;
    } * at;
    size_t n, capacity;
    size_t work, next; /* work being emitted; where to search for its next tensor */
    bool again;        /* the second version is being emitted */
} shared_space;

static void shared_space_end_scope(shared_space *space)
{
    free(space->at);
}

static int32_t shared_workspace(void *owner, clt_dtype dtype, uint64_t elements, const char *name)
{
    shared_space *s = owner;
    for (; s->again && s->next < s->n && s->at[s->next].work <= s->work; s->next++) {
        const clt_tensor *t = clt_graph_tensor(s->plan->graph, s->at[s->next].tensor);
        if (s->at[s->next].work == s->work && t->dtype == dtype &&
            clt_shape_elements(&t->shape) == (int64_t)(elements ? elements : 1))
            return s->at[s->next++].tensor;
    }
    int32_t id = plan_workspace(s->plan, dtype, elements, name);
    if (s->again || id < 0)
        return id;
    if (clt_grow(&s->at, &s->capacity, s->n + 1, sizeof *s->at, "workspaces of a plan") != CLT_OK)
        return OCL_NO_TENSOR_ID;
    s->at[s->n].work = s->work;
    s->at[s->n++].tensor = id;
    return id;
}

ocl_emitter clt_emitter_make(clt_plan *plan, clt_phase phase)
{
    plan->phase[phase].arena = plan->graph->arena;
    return (ocl_emitter){.list = &plan->phase[phase],
                         .device = &plan->device,
                         .node = -1,
                         .workspace = plan_workspace,
                         .owner = plan,
                         .derive = clt_plan_derive,
                         .deriver = plan,
                         .log = &plan->tuning,
                         .tf32 = plan->options.tf32,
                         .record = plan->options.candidate,
                         .asked = plan->options.asked,
                         .label = "",
                         .variant = ""};
}

static void call_common(const clt_plan *plan, const clt_node *node, clt_call *call)
{
    memset(call, 0xff, sizeof *call); /* sets every tensor id to -1 */
    call->graph = plan->graph;
    call->node = node;
    call->device = &plan->device;
    call->training = plan->options.mode != CLT_PLAN_EVAL;
    for (int i = 0; i < node->n_in; i++)
        call->in[i] = node->in[i];
    for (int i = 0; i < node->n_out; i++)
        call->out[i] = node->out[i];
    for (int i = 0; i < node->n_param; i++)
        call->param[i] = plan->graph->params[node->param[i]].tensor;
    for (int i = 0; i < node->n_saved; i++)
        call->saved[i] = node->saved[i];
    call->step = plan->graph->step;
    call->constant = node->constant;
    call->losses = plan->losses;
    call->loss_scale = plan->loss_scale;
    call->ranks = plan->options.sync_norms ? plan->options.ranks : 1;
    call->present = plan->options.present;
    call->tf32 = plan->options.tf32;
    call->moments = NULL;
    call->moments_of_input = NULL;
    call->record = call->update_buffers = call->again = call->absent = false;
    memset(call->din_accumulate, 0, sizeof call->din_accumulate);
    memset(call->dparam_accumulate, 0, sizeof call->dparam_accumulate);
}

static void call_backward(const clt_work *work, bool add, clt_call *call)
{
    const clt_node *node = call->node;
    for (int i = 0; i < node->n_out; i++)
        call->dout[i] = work->dout[i];
    for (int i = 0; i < node->n_in; i++) {
        call->din[i] = work->din[i];
        call->din_accumulate[i] = work->din_accumulate[i];
    }
    for (int i = 0; i < node->n_param; i++) {
        call->dparam[i] = work->dparam[i];
        call->dparam_accumulate[i] = add || work->dparam_accumulate[i];
    }
}

/* Splits a call into its problems: the call itself, or first the gradients of its inputs, then the gradients
 * of its parameters. Returns their number. */
static int split_call(const clt_call *call, bool backward, clt_call part[2])
{
    bool inputs = false, params = false;
    for (int i = 0; i < call->node->n_in; i++)
        inputs = inputs || call->din[i] >= 0;
    for (int i = 0; i < call->node->n_param; i++)
        params = params || call->dparam[i] >= 0;
    part[0] = part[1] = *call;
    if (!backward || !(call->node->op->flags & CLT_OP_SPLIT_BACKWARD) || !inputs || !params)
        return 1;
    for (int i = 0; i < call->node->n_param; i++)
        part[0].dparam[i] = -1;
    for (int i = 0; i < call->node->n_in; i++)
        part[1].din[i] = -1;
    return 2;
}

bool clt_plan_call(const clt_plan *plan, const clt_op *op, bool backward, clt_call *call)
{
    clt_work_kind kind = backward ? CLT_WORK_BACKWARD : CLT_WORK_FORWARD;
    for (size_t w = 0; w < plan->n_work; w++) {
        if (plan->work[w].kind != kind || plan->work[w].node->op != op)
            continue;
        call_common(plan, plan->work[w].node, call);
        if (backward)
            call_backward(&plan->work[w], false, call);
        return true;
    }
    return false;
}

const char *clt_forced_variant(const clt_plan *plan, const ocl_variant *const *list)
{
    for (size_t i = 0; plan->options.force_variant && list[i]; i++)
        if (strcmp(list[i]->name, plan->options.force_variant) == 0)
            return list[i]->name;
    return NULL;
}

/* The name of the work's node, joined with the names of nodes that were folded or fused into it:
 * "fc1+act1". */
static const char *layer_of(const clt_plan *plan, const clt_work *work)
{
    const char *name = work->node->name;
    for (int i = 0; name && i < CLT_MAX_FOLDED && work->node->folded[i]; i++)
        name = clt_arena_printf(plan->graph->arena, "%s+%s", name, work->node->folded[i]->name);
    for (int i = 0; name && i < CLT_MAX_FUSED && work->fused[i]; i++)
        name = clt_arena_printf(plan->graph->arena, "%s+%s", name, work->fused[i]->name);
    return name;
}

/* True if the work may write buffers: forward work of training may, once for each micro-batch; recomputed
 * work may not. */
static bool may_write_buffers(const clt_plan *plan, const clt_work *work)
{
    return work->kind == CLT_WORK_FORWARD && !work->again && plan->options.mode != CLT_PLAN_EVAL &&
           clt_node_updates_buffers(plan->graph, work->node);
}

/* Fails if work writes a parameter, or a buffer that it may not write. */
static clt_status check_writes(const clt_plan *plan, const clt_work *work, const ocl_command_list *list,
                               size_t first)
{
    for (size_t c = first; c < list->count; c++)
        for (int a = 0; a < list->commands[c].n_args; a++) {
            const ocl_arg *arg = &list->commands[c].args[a];
            const clt_tensor *t =
                arg->kind == OCL_ARG_TENSOR ? clt_graph_tensor(plan->graph, arg->ref.tensor) : NULL;
            if (!t || t->cls != CLT_TC_PARAM || t->param < 0 || !(arg->access & OCL_WRITE))
                continue;
            if (!plan->graph->params[t->param].buffer || !may_write_buffers(plan, work))
                CLT_FAIL(CLT_EINTERNAL, "planning: layer '%s' (%s): kernel %s writes '%s', which it may not",
                         work->node->name, work->node->op->name, list->commands[c].kernel, t->name);
        }
    return CLT_OK;
}

/* Emits the commands of a piece of work. absent: emits only this rank's part of the exchanges with ranks
 * that have a micro-batch. */
static clt_status emit_work(clt_plan *plan, ocl_emitter *emitter, const clt_work *work, bool add, bool absent)
{
    const clt_node *node = work->node;
    bool forward = work->kind == CLT_WORK_FORWARD;
    clt_call call;
    size_t first = emitter->list->count;
    call_common(plan, node, &call);
    call.update_buffers = may_write_buffers(plan, work);
    call.again = work->again;
    call.absent = absent;
    call.epilogue = work->epilogue;
    call.record = work->record;
    if (!forward)
        call_backward(work, add, &call);
    clt_moments_pass(plan, work, &call);
    emitter->label = clt_arena_printf(plan->graph->arena, "%s.%s", node->name,
                                      !forward      ? "backward"
                                      : work->again ? "recompute"
                                                    : "forward");
    emitter->layer = layer_of(plan, work);
    if (!emitter->label || !emitter->layer)
        return CLT_ENOMEM;
    emitter->node = node->id;
    const ocl_family *family = forward ? &node->op->forward : &node->op->backward;
    clt_call part[2];
    int parts = split_call(&call, !forward, part);
    for (int i = 0; i < parts; i++)
        CLT_TRY(ocl_family_emit(emitter, family, &part[i], emitter->label,
                                clt_forced_variant(plan, family->variants)));
    CLT_TRY(ocl_emit_status(emitter));
    return check_writes(plan, work, emitter->list, first);
}

clt_status clt_select_work(clt_plan *plan, ocl_emitter *emitter, const clt_work *work, bool add)
{
    return emit_work(plan, emitter, work, add, false);
}

static clt_status select_add(clt_plan *plan, ocl_emitter *emitter, const clt_work *work)
{
    const clt_tensor *to = clt_graph_tensor(plan->graph, work->add_to);
    emitter->label = clt_arena_printf(plan->graph->arena, "%s.backward", work->node->name);
    emitter->layer = work->node->name;
    if (!emitter->label)
        return CLT_ENOMEM;
    emitter->node = work->node->id;
    emitter->variant = "add";
    emitter->made_by = NULL;
    clt_emit_copy_grad(emitter, work->add_to, work->add_from, to->dtype,
                       (uint64_t)clt_shape_elements(&to->shape), true);
    return ocl_emit_status(emitter);
}

clt_status clt_plan_stamp(clt_plan *plan, clt_phase phase, size_t from, size_t work, size_t *capacity)
{
    const ocl_command_list *list = &plan->phase[phase];
    CLT_TRY(
        clt_grow(&plan->time[phase], capacity, list->count + 1, sizeof *plan->time[phase], "command times"));
    for (size_t c = from; c < list->count; c++) {
        size_t sub = c - from < CLT_TIME_SUB - 1 ? c - from : CLT_TIME_SUB - 1;
        plan->time[phase][c] = (uint32_t)(work * CLT_TIME_SUB + sub);
    }
    return CLT_OK;
}

static clt_status select_phase(clt_plan *plan, clt_phase phase, size_t first, size_t last,
                               shared_space *space)
{
    CLT_SCOPED(ocl_emitter) emitter = clt_emitter_make(plan, phase);
    size_t capacity = 0;
    if (space) {
        emitter.workspace = shared_workspace;
        emitter.owner = space;
        space->next = 0;
        space->again = phase == CLT_PHASE_BACKWARD_ADD;
    }
    CLT_TRY(phase == CLT_PHASE_FORWARD    ? clt_combine_emit_start(plan, &emitter)
            : phase == CLT_PHASE_BACKWARD ? clt_rows_emit_start(plan, &emitter)
                                          : CLT_OK);
    CLT_TRY(clt_plan_stamp(plan, phase, 0, first, &capacity));
    for (size_t w = first; w < last; w++) {
        size_t from = plan->phase[phase].count;
        const clt_work *work = &plan->work[w];
        if (work->rows)
            continue;
        if (space)
            space->work = w;
        CLT_TRY(work->kind == CLT_WORK_ADD
                    ? select_add(plan, &emitter, work)
                    : clt_select_work(plan, &emitter, work, phase == CLT_PHASE_BACKWARD_ADD));
        CLT_TRY(clt_plan_stamp(plan, phase, from, w, &capacity));
    }
    /* with several ranks, pass_sync.c emits these sums bucket by bucket */
    if (phase == CLT_PHASE_BACKWARD && plan->store && plan->options.ranks <= 1) {
        size_t from = plan->phase[phase].count;
        CLT_TRY(clt_combine_emit(plan, &emitter));
        CLT_TRY(clt_plan_stamp(plan, phase, from, last, &capacity));
    }
    return CLT_OK;
}

static clt_status select_rows(clt_plan *plan, ocl_emitter *emitter)
{
    for (size_t w = plan->n_forward; w < plan->n_work; w++)
        if (plan->work[w].rows)
            CLT_TRY(clt_select_work(plan, emitter, &plan->work[w], false));
    return CLT_OK;
}

/* Emits, for a rank that may have one micro-batch fewer than others, its part of the exchanges in the
 * others' first micro-batch. */
static clt_status select_absent(clt_plan *plan, ocl_emitter *emitter)
{
    const clt_plan_options *options = &plan->options;
    for (size_t w = 0; w < plan->n_work && options->sync_norms && options->present < options->ranks; w++) {
        const clt_work *work = &plan->work[w];
        if (work->kind != CLT_WORK_ADD && !work->again && (work->node->op->flags & CLT_OP_EXCHANGES))
            CLT_TRY(emit_work(plan, emitter, work, false, true));
    }
    return CLT_OK;
}

/* Emits the ROWS, UPDATE or ABSENT phase. Its times come after the times of all other work. */
static clt_status select_after_work(clt_plan *plan, clt_phase phase)
{
    CLT_SCOPED(ocl_emitter) emitter = clt_emitter_make(plan, phase);
    size_t capacity = 0;
    CLT_TRY(phase == CLT_PHASE_ROWS     ? select_rows(plan, &emitter)
            : phase == CLT_PHASE_ABSENT ? select_absent(plan, &emitter)
                                        : clt_update_emit(plan, &emitter));
    CLT_TRY(ocl_emit_status(&emitter));
    return clt_plan_stamp(plan, phase, 0, plan->n_work + (size_t)phase, &capacity);
}

clt_status clt_plan_make_records(clt_plan *plan)
{
    if (plan->losses >= 0)
        return CLT_OK;
    clt_shape shape = clt_shape2(plan->graph->n_losses > 0 ? plan->graph->n_losses : 1, 4);
    CLT_TRY(clt_graph_new_tensor(plan->graph, "loss records", CLT_F32, &shape, CLT_TC_STATE, &plan->losses));
    clt_graph_tensor(plan->graph, plan->losses)->is_output = true;
    if (plan->options.mode == CLT_PLAN_CHECK && plan->options.update.scaling.on) {
        shape = clt_shape1(1);
        return clt_graph_new_tensor(plan->graph, "loss scale", CLT_F32, &shape, CLT_TC_FIELD,
                                    &plan->loss_scale);
    }
    if (plan->options.mode != CLT_PLAN_TRAIN)
        return CLT_OK;
    shape = clt_shape1(ST_WORDS);
    CLT_TRY(clt_graph_new_tensor(plan->graph, "state block", CLT_U32, &shape, CLT_TC_STATE, &plan->state));
    if (!plan->options.update.scaling.on)
        return CLT_OK;
    return clt_plan_store_tensor(plan, "loss scale", CLT_F32, 1, CLT_ARENA_STATE, 0,
                                 offsetof(clt_state_block, loss_scale), &plan->loss_scale);
}

static clt_status select_backward(clt_plan *plan)
{
    CLT_SCOPED(shared_space) space = {.plan = plan};
    CLT_TRY(select_phase(plan, CLT_PHASE_BACKWARD, plan->n_forward, plan->n_work, &space));
    return plan->options.accumulation > 1 && plan->options.mode != CLT_PLAN_EVAL && !plan->options.tree
               ? select_phase(plan, CLT_PHASE_BACKWARD_ADD, plan->n_forward, plan->n_work, &space)
               : CLT_OK;
}

clt_status clt_pass_select(clt_plan *plan)
{
    CLT_TRY(clt_plan_make_records(plan));
    clt_status status = clt_moments_open(plan);
    if (status == CLT_OK)
        status = select_phase(plan, CLT_PHASE_FORWARD, 0, plan->n_forward, NULL);
    clt_moments_close(plan);
    CLT_TRY(status);
    CLT_TRY(select_backward(plan));
    if (plan->options.mode != CLT_PLAN_TRAIN)
        return CLT_OK;
    CLT_TRY(select_after_work(plan, CLT_PHASE_ROWS));
    CLT_TRY(select_after_work(plan, CLT_PHASE_ABSENT));
    return select_after_work(plan, CLT_PHASE_UPDATE);
}
