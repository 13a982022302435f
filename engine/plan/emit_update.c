/* SPDX-License-Identifier: Apache-2.0
 *
 * The SYNC and UPDATE phases. UPDATE: sums of squares per chunk, a deterministic total with the finite
 * check and the clip factor, then one optimizer kernel per store slab over all its parameters. A step whose
 * loss or gradients are not finite leaves parameters and optimizer state alone and is counted; all of that
 * happens on the device. */
#include "engine/ops/emit_util.h"
#include "engine/plan/plan_internal.h"

int clt_update_states(const clt_update_spec *spec)
{
    if (spec->type == CLT_OPT_SGD)
        return spec->momentum > 0 ? 1 : 0;
    return 2;
}

static void emit_sum(ocl_emitter *e, int32_t tensor, clt_dtype dtype, uint64_t elements)
{
    ocl_host_begin(e, 0);
    ocl_arg_tensor(e, OCL_READ_WRITE, ocl_ref(tensor), dtype, elements);
    ocl_host_end(e);
}

/* Gradients that travel in 16 bits are rounded on the device, so that no link carries more. */
static clt_status sync_narrow(clt_plan *plan, ocl_emitter *e, int32_t slab)
{
    clt_dtype wire = plan->options.wire;
    uint64_t elements = plan->store->trainable_elements[slab];
    int32_t grads;
    if (!elements)
        return CLT_OK;
    CLT_TRY(clt_plan_store_tensor(plan, "gradients", CLT_F32, (int64_t)elements, CLT_ARENA_GRAD, slab, 0,
                                  &grads));
    int32_t narrow = ocl_workspace(e, wire, elements, "16-bit gradients");
    clt_emit_convert(e, narrow, wire, grads, CLT_F32, elements);
    emit_sum(e, narrow, wire, elements);
    clt_emit_convert(e, grads, CLT_F32, narrow, wire, elements);
    return CLT_OK;
}

/* A host command sums its tensor over the ranks: a gradient slab, whose last one has the loss records as its
 * tail, or these records by themselves. */
clt_status clt_sync_emit(clt_plan *plan, ocl_emitter *emitter)
{
    bool narrow = plan->options.wire != CLT_F32;
    if (plan->options.ranks <= 1)
        return CLT_OK;
    emitter->label = "sync";
    for (int32_t s = 0; s < plan->store->n_slabs; s++) {
        uint64_t elements = clt_store_slab_bytes(plan->store, CLT_ARENA_GRAD, s) / sizeof(float);
        int32_t grads;
        if (narrow)
            CLT_TRY(sync_narrow(plan, emitter, s));
        if (narrow || elements == 0)
            continue;
        CLT_TRY(clt_plan_store_tensor(plan, "gradient slab", CLT_F32, (int64_t)elements, CLT_ARENA_GRAD, s, 0,
                                      &grads));
        emit_sum(emitter, grads, CLT_F32, elements);
    }
    if (narrow)
        emit_sum(emitter, plan->losses, CLT_F32, 4 * (uint64_t)plan->graph->n_losses);
    return CLT_OK;
}

/* partial[chunk] = sum of squares of one chunk. */
static clt_status emit_norm(clt_plan *plan, ocl_emitter *e, int32_t partial, uint64_t *chunks)
{
    *chunks = 0;
    for (int32_t s = 0; s < plan->store->n_slabs; s++) {
        uint64_t elements = plan->store->trainable_elements[s];
        uint64_t n = elements / CLT_STORE_CHUNK;
        int32_t grads;
        if (!n)
            continue;
        CLT_TRY(clt_plan_store_tensor(plan, "gradients", CLT_F32, (int64_t)elements, CLT_ARENA_GRAD, s, 0,
                                      &grads));
        ocl_kernel_begin(e, "update", "update_norm");
        ocl_arg_in(e, grads, CLT_F32, elements);
        ocl_tensor_ref out = {partial, *chunks * sizeof(float)};
        ocl_arg_tensor(e, OCL_WRITE, out, CLT_F32, n);
        ocl_arg_u32(e, (uint32_t)n);
        ocl_kernel_end_1d(e, n, 0, 2.0 * (double)elements);
        *chunks += n;
    }
    return CLT_OK;
}

/* Partial sums added up by each work-item of the second stage, for which there must be several. */
#define SPAN 256

/* The second stage: *partial and *count become its spans. */
static void emit_spans(ocl_emitter *e, int32_t *partial, uint64_t *count)
{
    uint64_t spans = clt_div_up(*count, SPAN);
    if (*count <= 2 * SPAN)
        return;
    int32_t span = ocl_workspace(e, CLT_F32, spans, "norm spans");
    ocl_kernel_begin(e, "update", "update_span");
    ocl_define(e, "SPAN", SPAN);
    ocl_arg_in(e, *partial, CLT_F32, *count);
    ocl_arg_out(e, span, CLT_F32, spans);
    ocl_arg_u32(e, (uint32_t)*count);
    ocl_kernel_end_1d(e, spans, clt_local_rows(e->device, spans), 4.0 * (double)*count);
    *partial = span;
    *count = spans;
}

/* As two floats. */
static void arg_double(ocl_emitter *e, double value)
{
    ocl_arg_f32(e, (float)value);
    ocl_arg_f32(e, (float)(value - (double)(float)value));
}

static clt_status emit_finish(clt_plan *plan, ocl_emitter *e, int32_t partial, uint64_t count)
{
    const clt_update_spec *spec = &plan->options.update;
    int32_t table;
    CLT_TRY(clt_plan_store_tensor(plan, "schedule", CLT_F32, (int64_t)plan->store->schedule_entries * 4,
                                  CLT_ARENA_STATE, 0, CLT_STATE_TABLE_OFFSET, &table));
    ocl_kernel_begin(e, "update", "update_finish");
    ocl_define(e, "DYNAMIC", spec->scaling.dynamic);
    ocl_arg_in(e, partial, CLT_F32, count);
    ocl_arg_u32(e, (uint32_t)count);
    ocl_arg_in(e, plan->losses, CLT_F32, 4 * (uint64_t)plan->graph->n_losses);
    ocl_arg_u32(e, (uint32_t)plan->graph->n_losses);
    ocl_arg_in(e, table, CLT_F32, 4);
    ocl_arg_u32(e, (uint32_t)plan->store->schedule_entries);
    ocl_arg_inout(e, plan->state, CLT_U32, CLT_STATE_WORDS);
    ocl_arg_f32(e, spec->clip);
    if (spec->scaling.dynamic) {
        arg_double(e, spec->scaling.growth);
        arg_double(e, spec->scaling.backoff);
        ocl_arg_f32(e, spec->scaling.minimum);
        ocl_arg_u32(e, spec->scaling.interval);
    }
    ocl_kernel_end_1d(e, 1, 1, 4.0 * (double)count);
    return CLT_OK;
}

static clt_status emit_slab(clt_plan *plan, ocl_emitter *e, int32_t slab)
{
    const clt_update_spec *spec = &plan->options.update;
    uint64_t elements = plan->store->trainable_elements[slab], chunks = elements / CLT_STORE_CHUNK;
    int32_t params, grads, table, opt, working;
    clt_dtype narrow = plan->store->working;
    if (!chunks)
        return CLT_OK;
    CLT_TRY(clt_plan_store_tensor(plan, "parameters", CLT_F32, (int64_t)elements, CLT_ARENA_PARAM, slab, 0,
                                  &params));
    CLT_TRY(clt_plan_store_tensor(plan, "gradients", CLT_F32, (int64_t)elements, CLT_ARENA_GRAD, slab, 0,
                                  &grads));
    CLT_TRY(clt_plan_store_tensor(plan, "groups", CLT_F32, (int64_t)chunks * 2, CLT_ARENA_TABLE, slab, 0,
                                  &table));
    bool sgd = spec->type == CLT_OPT_SGD;
    ocl_kernel_begin(e, "update", sgd ? "update_sgd" : "update_adam");
    if (sgd) {
        ocl_define(e, "MOMENTUM", spec->momentum > 0);
        ocl_define(e, "NESTEROV", spec->nesterov);
    } else {
        ocl_define(e, "DECOUPLED", spec->type == CLT_OPT_ADAMW);
    }
    ocl_define(e, "WORKING", narrow != CLT_F32);
    if (narrow != CLT_F32)
        ocl_define_text(e, "DTW", clt_dtype_name(narrow));
    ocl_arg_inout(e, params, CLT_F32, elements);
    if (narrow != CLT_F32) {
        CLT_TRY(clt_plan_store_tensor(plan, "16-bit parameters", narrow, (int64_t)elements, CLT_ARENA_WORK,
                                      slab, 0, &working));
        ocl_arg_out(e, working, narrow, elements);
    }
    ocl_arg_in(e, grads, CLT_F32, elements);
    for (int k = 0; k < clt_update_states(spec); k++) {
        CLT_TRY(clt_plan_store_tensor(plan, k ? "second moment" : "first moment", CLT_F32, (int64_t)elements,
                                      k ? CLT_ARENA_OPT2 : CLT_ARENA_OPT1, slab, 0, &opt));
        ocl_arg_inout(e, opt, CLT_F32, elements);
    }
    ocl_arg_in(e, table, CLT_F32, 2 * chunks);
    ocl_arg_in(e, plan->state, CLT_U32, CLT_STATE_WORDS);
    ocl_arg_u32(e, (uint32_t)chunks);
    /* 1 - beta is taken in double: 1.0f - 0.999f is off by 1e-5 of its value */
    ocl_arg_f32(e, (float)(sgd ? spec->momentum : 1.0 - spec->beta1));
    ocl_arg_f32(e, (float)spec->beta2);
    ocl_arg_f32(e, (float)(1.0 - spec->beta2));
    ocl_arg_f32(e, (float)spec->eps);
    ocl_kernel_end_1d(e, chunks, 0, (sgd ? 4.0 : 14.0) * (double)elements);
    return CLT_OK;
}

clt_status clt_update_emit(clt_plan *plan, ocl_emitter *e)
{
    uint64_t total = 0, chunks;
    for (int32_t s = 0; s < plan->store->n_slabs; s++)
        total += plan->store->trainable_elements[s] / CLT_STORE_CHUNK;
    if (!total)
        CLT_FAIL(CLT_ECONFIG, "planning: the model has no trainable parameter; nothing can be trained");
    if (total > UINT32_MAX)
        CLT_FAIL(CLT_EUNSUPPORTED, "planning: %llu chunks of parameters; at most 2^32 fit",
                 (unsigned long long)total);
    e->label = "update.norm";
    int32_t partial = ocl_workspace(e, CLT_F32, total, "norm partials");
    CLT_TRY(emit_norm(plan, e, partial, &chunks));
    emit_spans(e, &partial, &chunks);
    e->label = "update.finish";
    CLT_TRY(emit_finish(plan, e, partial, chunks));
    e->label = "update.optimizer";
    for (int32_t s = 0; s < plan->store->n_slabs; s++)
        CLT_TRY(emit_slab(plan, e, s));
    return CLT_OK;
}
