/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass 11, sync: with several ranks, decides which tensors are summed over them in a step, and when. The
 * loss records come first, then indices of embeddings, the buffers that are averaged, the gradients bucket
 * by bucket, and rows of embeddings. A host command posts each sum as soon as the backward pass no longer
 * uses the tensor, which follows from the reads and writes that its commands declare. Another one, in the
 * phase SYNC, lets the device wait for the result. Commands of the update that work on a single bucket come
 * after that wait. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/emit_util.h"
#include "engine/plan/plan_internal.h"

/* --- when tensors are ready --- */

/* Number of commands of a backward phase up to the last one that uses a parameter's gradient (by parameter),
 * the loss records, and averaged buffers. */
typedef struct last_uses {
    size_t *gradient, losses, buffers;
} last_uses;

static void find_last_uses(const clt_plan *plan, clt_phase phase, last_uses *last)
{
    const ocl_command_list *list = &plan->phase[phase];
    for (size_t c = 0; c < list->count; c++)
        for (int a = 0; a < list->commands[c].n_args; a++) {
            const ocl_arg *arg = &list->commands[c].args[a];
            if (arg->kind != OCL_ARG_TENSOR || arg->ref.tensor < 0)
                continue;
            const clt_tensor *t = clt_graph_tensor(plan->graph, clt_plan_owner(plan, arg->ref.tensor));
            if (t->cls == CLT_TC_PARAM_GRAD && t->param >= 0)
                last->gradient[t->param] = c + 1;
            if (t->id == plan->losses)
                last->losses = c + 1;
            if (t->cls == CLT_TC_PARAM && t->param >= 0 && plan->graph->params[t->param].averaged)
                last->buffers = c + 1;
        }
}

/* --- sums --- */

static clt_status add_sum(clt_plan *plan, size_t *capacity, clt_sum sum)
{
    CLT_TRY(clt_grow(&plan->sums, capacity, plan->n_sums + 1, sizeof *plan->sums, "sums over ranks"));
    plan->sums[plan->n_sums++] = sum;
    return CLT_OK;
}

static clt_status add_buckets(clt_plan *plan, size_t *capacity)
{
    clt_dtype wire = plan->options.wire;
    clt_arena_kind arena = wire == CLT_F32 ? CLT_ARENA_GRAD : CLT_ARENA_WIRE;
    for (size_t b = 0; b < plan->n_buckets; b++) {
        const clt_range *bucket = &plan->buckets[b].range;
        uint64_t elements = clt_rows_summed(plan, bucket);
        if (!elements)
            continue;
        clt_sum sum = {.kind = CLT_SUM_GRADIENTS,
                       .slab = bucket->slab,
                       .grain = plan->store->sharded ? CLT_BUCKET_CHUNKS * CLT_STORE_CHUNK : 0,
                       .bucket = b};
        CLT_TRY(clt_plan_store_tensor(plan, "gradients to sum", wire, (int64_t)elements, arena, bucket->slab,
                                      bucket->first * clt_dtype_bytes(wire), &sum.tensor));
        CLT_TRY(add_sum(plan, capacity, sum));
    }
    return CLT_OK;
}

static clt_status add_rows(clt_plan *plan, size_t *capacity, ocl_emitter *e, clt_sum_kind kind)
{
    clt_sum sum;
    for (size_t w = plan->n_forward; w < plan->n_work; w++)
        if (plan->work[w].rows) {
            CLT_TRY(clt_rows_gather(plan, e, kind, w, &sum));
            CLT_TRY(add_sum(plan, capacity, sum));
        }
    return CLT_OK;
}

/* Adds the sums that make buffers their mean over the micro-batches of all ranks: each rank multiplies its
 * buffers by its fraction of the micro-batches, then the products are summed. */
static clt_status add_buffers(clt_plan *plan, size_t *capacity, ocl_emitter *e)
{
    for (int32_t s = 0; s < plan->store->n_slabs; s++) {
        uint64_t elements = plan->store->averaged_elements[s];
        clt_sum sum = {.kind = CLT_SUM_BUFFERS, .slab = s};
        if (!elements)
            continue;
        sum.tensor = ocl_workspace(e, CLT_F32, elements, "shares of buffers");
        CLT_TRY(add_sum(plan, capacity, sum));
    }
    return ocl_emit_status(e);
}

/* --- commands --- */

static uint64_t elements_of(const clt_plan *plan, int32_t tensor)
{
    return (uint64_t)clt_shape_elements(&clt_graph_tensor(plan->graph, tensor)->shape);
}

static void host_tensor(clt_plan *plan, ocl_emitter *e, ocl_access access, int32_t tensor)
{
    ocl_arg_tensor(e, access, ocl_ref(tensor), clt_graph_tensor(plan->graph, tensor)->dtype,
                   elements_of(plan, tensor));
}

/* Emits the host command that posts a sum or waits for it. Both name all memory of the sum, which is in use
 * from the first to the second. */
static void emit_host(clt_plan *plan, ocl_emitter *e, size_t k, const clt_sum *sum, clt_host_code code)
{
    bool rows = clt_sum_of_rows(sum);
    ocl_access access = rows ? OCL_WRITE : code == CLT_HOST_POST ? OCL_READ : OCL_READ_WRITE;
    ocl_host_begin(e, code);
    if (code == CLT_HOST_WAIT)
        ocl_host_waits(e);
    host_tensor(plan, e, access, sum->tensor);
    ocl_arg_u32(e, (uint32_t)k);
    if (rows)
        host_tensor(plan, e, OCL_READ, sum->own);
    ocl_host_end(e);
}

/* Converts between f32 gradients and their copy in the communication dtype: the whole range that is summed
 * (`send`), or the part of the sum that this rank gets. */
static clt_status emit_casts(clt_plan *plan, ocl_emitter *e, const clt_sum *sum, bool send)
{
    clt_range r = send ? plan->buckets[sum->bucket].range : plan->buckets[sum->bucket].own;
    uint64_t summed = elements_of(plan, sum->tensor);
    clt_dtype wire = plan->options.wire;
    int32_t gradients, narrow;
    r.elements = r.elements < summed ? r.elements : summed;
    if (wire == CLT_F32 || r.elements == 0)
        return CLT_OK;
    CLT_TRY(clt_plan_store_tensor(plan, "gradients", CLT_F32, (int64_t)r.elements, CLT_ARENA_GRAD, r.slab,
                                  r.first * sizeof(float), &gradients));
    CLT_TRY(clt_plan_store_tensor(plan, "gradients to sum", wire, (int64_t)r.elements, CLT_ARENA_WIRE, r.slab,
                                  r.first * clt_dtype_bytes(wire), &narrow));
    if (send)
        clt_emit_convert(e, narrow, wire, gradients, CLT_F32, r.elements);
    else
        clt_emit_convert(e, gradients, CLT_F32, narrow, wire, r.elements);
    return CLT_OK;
}

static clt_status emit_shares(clt_plan *plan, ocl_emitter *e, const clt_sum *sum, bool send)
{
    uint64_t elements;
    int32_t buffers, shares = sum->tensor;
    CLT_TRY(clt_plan_buffers(plan, sum->slab, &elements, &buffers));
    if (send)
        clt_emit_affine(e, shares, CLT_F32, buffers, CLT_F32, elements, plan->options.part, 0.0f,
                        clt_style_of(e->device));
    else
        clt_emit_convert(e, buffers, CLT_F32, shares, CLT_F32, elements);
    return CLT_OK;
}

/* Commands that were appended to a phase of `count` commands and must run earlier: appended command i is
 * moved to just after the first `after[i]` commands of the phase. */
typedef struct insertion {
    clt_phase phase;
    size_t count;
    size_t *after; /* by appended command; values never decrease */
    size_t n, capacity;
} insertion;

static void insertion_end_scope(insertion *in)
{
    free(in->after);
}

/* Notes that the commands appended since the last call will be inserted after the first `after` commands. */
static clt_status insert_after(const clt_plan *plan, insertion *in, size_t after)
{
    size_t n = plan->phase[in->phase].count - in->count;
    CLT_TRY(clt_grow(&in->after, &in->capacity, n + 1, sizeof *in->after, "sums over ranks"));
    while (in->n < n)
        in->after[in->n++] = after;
    return CLT_OK;
}

/* Moves the appended commands. Each gets the time of the command that then precedes it. */
static clt_status merge(clt_plan *plan, const insertion *in)
{
    ocl_command_list *list = &plan->phase[in->phase];
    uint32_t *time = plan->time[in->phase];
    CLT_FREED ocl_command *commands = NULL;
    CLT_FREED uint32_t *times = NULL;
    size_t n = 0, next = 0;
    CLT_TRY(clt_alloc(&commands, list->count + 1, sizeof *commands, "commands"));
    CLT_TRY(clt_alloc(&times, list->count + 1, sizeof *times, "command times"));
    for (size_t c = 0; c <= in->count; c++) {
        for (; next < in->n && in->after[next] <= c; next++) {
            times[n] = time[c > 0 ? c - 1 : 0];
            commands[n++] = list->commands[in->count + next];
        }
        if (c < in->count) {
            times[n] = time[c];
            commands[n++] = list->commands[c];
        }
    }
    free(list->commands);
    free(time);
    list->commands = CLT_TAKE(commands);
    list->capacity = list->count + 1;
    plan->time[in->phase] = CLT_TAKE(times);
    return CLT_OK;
}

static clt_status emit_sum(clt_plan *plan, ocl_emitter *e, const clt_sum *sum, bool send)
{
    switch (sum->kind) {
    case CLT_SUM_GRADIENTS:
        return emit_casts(plan, e, sum, send);
    case CLT_SUM_ROWS:
        return send ? clt_rows_emit_send(plan, e, sum) : clt_rows_emit_add(plan, e, sum);
    case CLT_SUM_BUFFERS:
        return emit_shares(plan, e, sum, send);
    default:
        return CLT_OK;
    }
}

/* Emits the commands of SEND that make each sum's tensor, or the commands of SYNC that wait for it and take
 * the result. The commands of SYNC are inserted before the update's commands for the bucket, which are
 * already in the list (emit_update.c). */
static clt_status emit_sums(clt_plan *plan, ocl_emitter *e, bool send, insertion *in)
{
    size_t begun = plan->store->sharded; /* number of commands of the norm that come before the sum */
    e->label = "sync";
    for (size_t k = 0; k < plan->n_sums; k++) {
        clt_sum *sum = &plan->sums[k];
        if (send)
            sum->send_first = e->list->count;
        else
            emit_host(plan, e, k, sum, CLT_HOST_WAIT);
        CLT_TRY(emit_sum(plan, e, sum, send));
        if (send)
            sum->send_last = e->list->count;
        else
            CLT_TRY(insert_after(plan, in, begun));
        begun += sum->kind == CLT_SUM_GRADIENTS && !plan->buckets[sum->bucket].rows &&
                 plan->buckets[sum->bucket].own.elements > 0;
    }
    return ocl_emit_status(e);
}

/* Number of commands up to the last one, among the first `count`, that writes the tensor; 0: none does. */
static size_t written_at(const clt_plan *plan, clt_phase phase, size_t count, int32_t tensor)
{
    const ocl_command_list *list = &plan->phase[phase];
    int32_t owner = clt_plan_owner(plan, tensor);
    for (size_t c = count; c > 0; c--)
        for (int a = 0; a < list->commands[c - 1].n_args; a++) {
            const ocl_arg *arg = &list->commands[c - 1].args[a];
            if (arg->kind == OCL_ARG_TENSOR && arg->ref.tensor >= 0 && (arg->access & OCL_WRITE) &&
                clt_plan_owner(plan, arg->ref.tensor) == owner)
                return c;
        }
    return 0;
}

static size_t ready_of(const clt_plan *plan, clt_phase phase, size_t count, const clt_sum *sum,
                       const last_uses *last)
{
    const clt_work *work = &plan->work[sum->work];
    switch (sum->kind) {
    case CLT_SUM_LOSSES:
        return last->losses;
    case CLT_SUM_INDICES:
        return written_at(plan, phase, count, work->node->in[0]);
    case CLT_SUM_GRADIENTS:
        return plan->buckets[sum->bucket].ready;
    case CLT_SUM_ROWS:
        return written_at(plan, phase, count, work->dout[0]);
    case CLT_SUM_BUFFERS:
        return last->buffers;
    default:
        return count;
    }
}

/* Adds this micro-batch's part of a sum to the sums of earlier micro-batches (options.tree). */
static clt_status emit_joined(clt_plan *plan, ocl_emitter *e, const clt_sum *sum)
{
    return sum->kind == CLT_SUM_LOSSES ? clt_combine_losses(plan, e)
           : sum->kind == CLT_SUM_GRADIENTS
               ? clt_combine_gradients(plan, e, &plan->buckets[sum->bucket].range)
           : sum->kind == CLT_SUM_BUFFERS ? clt_combine_buffers(plan, e, sum->slab)
                                          : CLT_OK;
}

/* Emits the host commands that post the sums. A sum that is ready before its predecessor is still posted
 * after it, because all ranks sum in one order. */
static clt_status emit_posts(clt_plan *plan, ocl_emitter *e, const last_uses *last, insertion *in)
{
    size_t after = 0;
    for (size_t k = 0; k < plan->n_sums; k++) {
        const clt_sum *sum = &plan->sums[k];
        size_t ready = ready_of(plan, in->phase, in->count, sum, last);
        after = ready > after ? ready : after;
        CLT_TRY(emit_joined(plan, e, sum));
        e->label = "sync";
        emit_host(plan, e, k, sum, CLT_HOST_POST);
        CLT_TRY(insert_after(plan, in, after));
    }
    return ocl_emit_status(e);
}

static clt_status insert_posts(clt_plan *plan, clt_phase phase, const last_uses *last)
{
    CLT_SCOPED(insertion) in = {.phase = phase, .count = plan->phase[phase].count};
    CLT_SCOPED(ocl_emitter) emitter = clt_emitter_make(plan, phase);
    CLT_TRY(emit_posts(plan, &emitter, last, &in));
    return merge(plan, &in);
}

/* --- tensors that the update gathers --- */

static clt_status add_gather(clt_plan *plan, ocl_emitter *emitter, clt_sum sum)
{
    size_t k = plan->n_gathered, capacity = k;
    CLT_TRY(clt_grow(&plan->gathered, &capacity, k + 1, sizeof *plan->gathered, "sums over ranks"));
    plan->gathered[plan->n_gathered++] = sum;
    emit_host(plan, emitter, k, &plan->gathered[k], CLT_HOST_POST);
    return ocl_emit_status(emitter);
}

clt_status clt_sync_gather(clt_plan *plan, ocl_emitter *emitter, int32_t tensor, int64_t grain)
{
    CLT_TRY(add_gather(plan, emitter, (clt_sum){.kind = CLT_SUM_GATHERED, .tensor = tensor, .grain = grain}));
    emit_host(plan, emitter, plan->n_gathered - 1, &plan->gathered[plan->n_gathered - 1], CLT_HOST_WAIT);
    return ocl_emit_status(emitter);
}

clt_status clt_sync_give(clt_plan *plan, ocl_emitter *emitter, int32_t tensor, int32_t slab, clt_sum **sum)
{
    CLT_TRY(add_gather(plan, emitter,
                       (clt_sum){.kind = CLT_SUM_PARAMETERS,
                                 .tensor = tensor,
                                 .slab = slab,
                                 .grain = CLT_BUCKET_CHUNKS * CLT_STORE_CHUNK}));
    *sum = &plan->gathered[plan->n_gathered - 1];
    return CLT_OK;
}

/* Appends plan->gathered to the sums, and corrects the numbers in the update's host commands. */
static clt_status add_gathered(clt_plan *plan)
{
    size_t capacity = plan->n_sums;
    const ocl_command_list *list = &plan->phase[CLT_PHASE_UPDATE];
    uint32_t before = (uint32_t)plan->n_sums;
    for (size_t k = 0; k < plan->n_gathered; k++)
        CLT_TRY(add_sum(plan, &capacity, plan->gathered[k]));
    for (size_t c = 0; c < list->count; c++)
        if (list->commands[c].kind == OCL_CMD_HOST)
            list->commands[c].args[1].value.u32 += before;
    return CLT_OK;
}

/* --- waiting for parameters --- */

/* True if a command uses parameters of a range of a slab, in any form. */
static bool uses(const clt_plan *plan, const ocl_command *command, const clt_range *range)
{
    for (int a = 0; a < command->n_args; a++) {
        const ocl_arg *arg = &command->args[a];
        if (arg->kind != OCL_ARG_TENSOR || arg->ref.tensor < 0)
            continue;
        const clt_tensor *t = clt_graph_tensor(plan->graph, clt_plan_owner(plan, arg->ref.tensor));
        if (t->cls != CLT_TC_PARAM || t->param < 0)
            continue;
        const clt_store_slot *slot = &plan->store->slots[t->param];
        if (slot->trainable && slot->slab == range->slab && slot->offset < range->first + range->elements &&
            range->first < slot->offset + slot->elements)
            return true;
    }
    return false;
}

static size_t first_use(const clt_plan *plan, const clt_sum *sum)
{
    const ocl_command_list *list = &plan->phase[CLT_PHASE_FORWARD];
    const clt_place *place = &plan->place[sum->tensor];
    clt_range range = {sum->slab, place->offset / sizeof(float), place->bytes / sizeof(float)};
    size_t c = 0;
    while (c < list->count && !uses(plan, &list->commands[c], &range))
        c++;
    return c;
}

/* Emits the waits in the order of the posts, each before the first use of the parameters of its sum or a
 * later one. */
static clt_status emit_waits(clt_plan *plan, ocl_emitter *e, insertion *in)
{
    size_t before = plan->n_sums - plan->n_gathered;
    CLT_FREED size_t *use = NULL;
    CLT_TRY(clt_alloc(&use, plan->n_gathered + 1, sizeof *use, "sums over ranks"));
    e->label = "sync";
    for (size_t g = plan->n_gathered, next = in->count; g-- > 0;) {
        if (plan->gathered[g].kind != CLT_SUM_PARAMETERS)
            continue;
        use[g] = first_use(plan, &plan->gathered[g]);
        next = use[g] = use[g] < next ? use[g] : next;
    }
    for (size_t g = 0; g < plan->n_gathered; g++) {
        if (plan->gathered[g].kind != CLT_SUM_PARAMETERS)
            continue;
        emit_host(plan, e, before + g, &plan->gathered[g], CLT_HOST_WAIT);
        CLT_TRY(insert_after(plan, in, use[g]));
    }
    return ocl_emit_status(e);
}

static clt_status wait_in_forward(clt_plan *plan)
{
    size_t capacity = 0;
    CLT_SCOPED(insertion) in = {.phase = CLT_PHASE_FORWARD, .count = plan->phase[CLT_PHASE_FORWARD].count};
    CLT_SCOPED(ocl_emitter) emitter = clt_emitter_make(plan, CLT_PHASE_FORWARD);
    CLT_TRY(emit_waits(plan, &emitter, &in));
    CLT_TRY(merge(plan, &in));
    return clt_plan_stamp(plan, CLT_PHASE_TAKE, 0, plan->n_work + (size_t)CLT_PHASE_TAKE, &capacity);
}

/* --- the pass --- */

static clt_status emit_phase(clt_plan *plan, clt_phase phase)
{
    size_t capacity = 0;
    CLT_SCOPED(insertion) in = {.phase = phase, .count = plan->phase[phase].count};
    CLT_SCOPED(ocl_emitter) emitter = clt_emitter_make(plan, phase);
    CLT_TRY(emit_sums(plan, &emitter, phase == CLT_PHASE_SEND, &in));
    CLT_TRY(clt_plan_stamp(plan, phase, 0, plan->n_work + (size_t)phase, &capacity));
    return phase == CLT_PHASE_SYNC ? merge(plan, &in) : CLT_OK;
}

static clt_status make_sums(clt_plan *plan)
{
    CLT_SCOPED(ocl_emitter) emitter = clt_emitter_make(plan, CLT_PHASE_SEND);
    size_t capacity = 0;
    CLT_TRY(add_sum(plan, &capacity, (clt_sum){.kind = CLT_SUM_LOSSES, .tensor = plan->losses}));
    CLT_TRY(add_rows(plan, &capacity, &emitter, CLT_SUM_INDICES));
    CLT_TRY(add_buffers(plan, &capacity, &emitter));
    CLT_TRY(add_buckets(plan, &capacity));
    return add_rows(plan, &capacity, &emitter, CLT_SUM_ROWS);
}

static clt_status post_in(clt_plan *plan, clt_phase phase)
{
    CLT_FREED size_t *gradient = NULL;
    CLT_TRY(clt_alloc(&gradient, plan->graph->n_params + 1, sizeof *gradient, "sums over ranks"));
    last_uses last = {.gradient = gradient};
    find_last_uses(plan, phase, &last);
    clt_buckets_set_ready(plan->store, gradient, plan->buckets, plan->n_buckets);
    return insert_posts(plan, phase, &last);
}

clt_status clt_pass_sync(clt_plan *plan)
{
    if (plan->options.mode != CLT_PLAN_TRAIN || plan->options.ranks <= 1)
        return CLT_OK;
    CLT_TRY(make_sums(plan));
    CLT_TRY(emit_phase(plan, CLT_PHASE_SEND));
    CLT_TRY(emit_phase(plan, CLT_PHASE_SYNC));
    if (plan->options.accumulation > 1 && !plan->options.tree)
        CLT_TRY(post_in(plan, CLT_PHASE_BACKWARD_ADD));
    CLT_TRY(post_in(plan, CLT_PHASE_BACKWARD));
    CLT_TRY(add_gathered(plan));
    return plan->store->sharded ? wait_in_forward(plan) : CLT_OK;
}
