/* SPDX-License-Identifier: Apache-2.0
 *
 * The UPDATE phase: sums of squares of the gradients, a deterministic total with the finite check and the
 * clip factor, then one optimizer kernel per store slab over all its parameters. A step whose loss or
 * gradients are not finite leaves parameters and optimizer state unchanged and is counted; all of that
 * happens on the device. The kernels come in two styles (engine/optim/update.clh), between which the
 * device's capabilities decide. With several ranks the sums of squares of a bucket are computed in the SYNC
 * phase, as soon as its sum over the ranks has arrived. */
#include <stdio.h>
#include <stdlib.h>

#include "engine/ops/emit_util.h"
#include "engine/plan/plan_internal.h"

/* How the kernels of the update are launched in one of the two styles. */
typedef struct update_style {
    bool group;           /* true: a work-group owns a chunk; false: a work-item does */
    uint64_t items;       /* work-items of a work-group; 0: the number that the device prefers */
    bool exact;           /* see clt_update_order */
    uint64_t norm_chunks; /* chunks in one partial sum of the norm */
    uint64_t span;        /* partial sums that one item or group adds up in the second stage */
    uint64_t max_direct;  /* with at most this many partial sums the second stage is skipped */
} update_style;

static const update_style lane_style = {.norm_chunks = 1, .span = 256, .max_direct = 512};
static const update_style group_style = {.group = true, .norm_chunks = 8, .span = 1024, .max_direct = 1024};

/* The properties of a kernel of the update, apart from its style. */
enum {
    BY_OPTIMIZER = 1,  /* the program is the optimizer's own, and so are its defines */
    STORES_WORKING = 2 /* it also writes the 16-bit copy of its result, if the store has one */
};

static void begin(ocl_emitter *e, const clt_plan *plan, const update_style *style, const char *kernel,
                  unsigned depends)
{
    const clt_optimizer *optimizer = plan->options.update.optimizer;
    clt_dtype working = plan->store->working;
    ocl_kernel_begin(e, depends & BY_OPTIMIZER ? optimizer->program : "update", kernel);
    if (style->group)
        ocl_define(e, "WG", (int64_t)style->items);
    if ((depends & BY_OPTIMIZER) && optimizer->define)
        optimizer->define(e, plan->options.update.value);
    if ((depends & STORES_WORKING) && working != CLT_F32) {
        ocl_define(e, "WORKING", 1);
        ocl_define_text(e, "DTW", clt_dtype_name(working));
    }
    if (style->exact)
        ocl_build_option(e, "-cl-fp32-correctly-rounded-divide-sqrt");
}

/* owners: number of work-items, or of work-groups in group style, to launch. */
static void end(ocl_emitter *e, const update_style *style, uint64_t owners, double flops)
{
    if (style->group)
        ocl_kernel_end_1d(e, owners * style->items, style->items, flops);
    else
        ocl_kernel_end_1d(
            e, owners,
            style->items && style->items <= owners ? style->items : clt_local_rows(e->device, owners), flops);
}

/* Adds a tensor for a range of elements of a store's arena. */
static clt_status find(clt_plan *plan, clt_arena_kind arena, clt_dtype dtype, int32_t slab, uint64_t first,
                       uint64_t elements, int32_t *id)
{
    return clt_plan_store_tensor(plan, clt_arenas[arena].name, dtype, (int64_t)elements, arena, slab,
                                 first * clt_dtype_bytes(dtype), id);
}

/* Number of partial sums of the norm of `elements` elements. */
static uint64_t norm_partials(const update_style *style, uint64_t elements)
{
    return clt_div_up(elements / CLT_STORE_CHUNK, style->norm_chunks);
}

/* Number of partial sums of all slabs before this one. */
static uint64_t partials_before(const clt_plan *plan, const update_style *style, int32_t slab)
{
    uint64_t count = 0;
    for (int32_t s = 0; s < slab; s++)
        count += norm_partials(style, plan->store->trainable_elements[s]);
    return count;
}

/* Emits partial[i] = sum of squares of a chunk, or of several chunks in group style; `partial` has the
 * partial sums of all slabs, one slab after the other. `range` must begin at the first chunk of a partial
 * sum. */
static clt_status emit_norm(clt_plan *plan, ocl_emitter *e, const update_style *style, const clt_range *range,
                            int32_t partial)
{
    uint64_t n = norm_partials(style, range->elements);
    uint64_t at = partials_before(plan, style, range->slab) + norm_partials(style, range->first);
    int32_t grads;
    CLT_TRY(find(plan, CLT_ARENA_GRAD, CLT_F32, range->slab, range->first, range->elements, &grads));
    begin(e, plan, style, "update_norm", 0);
    if (style->group)
        ocl_define(e, "NORM_CHUNKS", (int64_t)style->norm_chunks);
    ocl_arg_in(e, grads, CLT_F32, range->elements);
    ocl_tensor_ref out = {partial, at * sizeof(float)};
    ocl_arg_tensor(e, OCL_WRITE, out, CLT_F32, n);
    ocl_arg_u32(e, (uint32_t)(range->elements / CLT_STORE_CHUNK));
    if (!style->group)
        ocl_arg_is_bound(e);
    end(e, style, n, 2.0 * (double)range->elements);
    return CLT_OK;
}

/* Emits the sums of squares of all gradients: one command for each slab, or in the SYNC phase one for each
 * bucket; buckets to which rows of embeddings are added come last in that phase. A rank that updates shares
 * has zeros in place of the other ranks' partial sums, and the arrays of all ranks are added. */
static clt_status emit_norms(clt_plan *plan, ocl_emitter *e, const update_style *style, int32_t partial,
                             uint64_t count)
{
    ocl_command_list *update = e->list;
    clt_status status = CLT_OK;
    e->label = "update.norm";
    for (int32_t s = 0; s < plan->store->n_slabs && plan->n_buckets == 0; s++) {
        clt_range all = {s, 0, plan->store->trainable_elements[s]};
        CLT_TRY(all.elements ? emit_norm(plan, e, style, &all, partial) : CLT_OK);
    }
    if (plan->n_buckets) {
        e->list = &plan->phase[CLT_PHASE_SYNC];
        e->list->arena = update->arena;
    }
    if (plan->store->sharded)
        ocl_emit_fill(e, ocl_ref(partial), count * sizeof(float), 0);
    for (int rows = 0; rows < 2; rows++)
        for (size_t b = 0; b < plan->n_buckets && status == CLT_OK; b++)
            if (plan->buckets[b].rows == (rows == 1) && plan->buckets[b].own.elements)
                status = emit_norm(plan, e, style, &plan->buckets[b].own, partial);
    e->list = update;
    CLT_TRY(status);
    return plan->store->sharded ? clt_sync_gather(plan, e, partial, 0) : CLT_OK;
}

/* Emits the second stage, which adds partial sums in spans; *partial and *count then describe the sums of
 * the spans. */
static void emit_spans(const clt_plan *plan, ocl_emitter *e, const update_style *style, int32_t *partial,
                       uint64_t *count)
{
    uint64_t spans = clt_div_up(*count, style->span);
    if (*count <= style->max_direct)
        return;
    int32_t span = ocl_workspace(e, CLT_F32, spans, "norm spans");
    begin(e, plan, style, "update_span", 0);
    ocl_define(e, "SPAN", (int64_t)style->span);
    ocl_arg_in(e, *partial, CLT_F32, *count);
    ocl_arg_out(e, span, CLT_F32, spans);
    ocl_arg_u32(e, (uint32_t)*count);
    end(e, style, spans, 4.0 * (double)*count);
    *partial = span;
    *count = spans;
}

/* Passes a double as two floats, high and low part. */
static void arg_double(ocl_emitter *e, double value)
{
    ocl_arg_f32(e, (float)value);
    ocl_arg_f32(e, (float)(value - (double)(float)value));
}

static clt_status emit_finish(clt_plan *plan, ocl_emitter *e, const update_style *style, int32_t partial,
                              uint64_t count)
{
    const clt_update_spec *spec = &plan->options.update;
    int32_t table;
    CLT_TRY(clt_plan_store_tensor(plan, "schedule", CLT_F32, (int64_t)plan->store->schedule_entries * 4,
                                  CLT_ARENA_STATE, 0, CLT_STATE_TABLE_OFFSET, &table));
    begin(e, plan, style, "update_finish", 0);
    ocl_define(e, "DYNAMIC", spec->scaling.dynamic);
    ocl_arg_in(e, partial, CLT_F32, count);
    ocl_arg_u32(e, (uint32_t)count);
    ocl_arg_in(e, plan->losses, CLT_F32, 4 * (uint64_t)plan->graph->n_losses);
    ocl_arg_u32(e, (uint32_t)plan->graph->n_losses);
    ocl_arg_in(e, table, CLT_F32, 4);
    ocl_arg_u32(e, (uint32_t)plan->store->schedule_entries);
    ocl_arg_inout(e, plan->state, CLT_U32, ST_WORDS);
    ocl_arg_f32(e, spec->clip);
    bool judged = spec->spike.action != CLT_SPIKE_OFF;
    ocl_arg_f32(e, judged ? spec->spike.loss : 0.0f);
    ocl_arg_f32(e, judged ? spec->spike.gradient : 0.0f);
    ocl_arg_u32(e, spec->spike.window);
    ocl_arg_u32(e, spec->spike.action == CLT_SPIKE_SKIP);
    if (spec->scaling.dynamic) {
        arg_double(e, spec->scaling.growth);
        arg_double(e, spec->scaling.backoff);
        ocl_arg_f32(e, spec->scaling.minimum);
        ocl_arg_u32(e, spec->scaling.interval);
    }
    end(e, style, 1, 4.0 * (double)count);
    return CLT_OK;
}

/* The tensors of a range of a slab that the optimizer's kernels use. */
typedef struct range_tensors {
    uint64_t first, elements, chunks;
    int32_t params, working, grads, state[CLT_OPTIMIZER_STATES], table;
    int32_t spans, partial, ratio; /* only with an optimizer that needs norms of each parameter */
} range_tensors;

/* *id: the tensor derived from a range of `source` that the same kernel writes; -1: there is none. */
static clt_status find_derived(clt_plan *plan, clt_arena_kind source, int32_t slab, uint64_t first,
                               uint64_t elements, int32_t *id)
{
    const clt_derived *derived = clt_derived_from(plan->store, source);
    *id = -1;
    return derived ? find(plan, derived->arena, plan->store->working, slab, first, elements, id) : CLT_OK;
}

static clt_status find_tensors(clt_plan *plan, ocl_emitter *e, int32_t slab, range_tensors *t)
{
    const clt_store_layout *store = plan->store;
    uint64_t first = t->first, n = t->elements, table = 2 * (first / CLT_STORE_CHUNK);
    CLT_TRY(find(plan, CLT_ARENA_PARAM, CLT_F32, slab, first, n, &t->params));
    CLT_TRY(find_derived(plan, CLT_ARENA_PARAM, slab, first, n, &t->working));
    CLT_TRY(find(plan, CLT_ARENA_GRAD, CLT_F32, slab, first, n, &t->grads));
    CLT_TRY(find(plan, CLT_ARENA_TABLE, CLT_F32, slab, table, 2 * t->chunks, &t->table));
    if (!store->norms)
        return CLT_OK;
    t->partial = ocl_workspace(e, CLT_F32, 2 * t->chunks, "norms of chunks");
    t->ratio = ocl_workspace(e, CLT_F32, t->chunks, "trust ratios");
    return find(plan, CLT_ARENA_SPANS, CLT_U32, slab, table, 2 * t->chunks, &t->spans);
}

/* Emits the optimizer's own kernel, or the kernel before it that computes norms of chunks. */
static void emit_optimizer(clt_plan *plan, ocl_emitter *e, const update_style *style, const range_tensors *t,
                           bool norms)
{
    const clt_update_spec *spec = &plan->options.update;
    if (norms)
        begin(e, plan, style, spec->optimizer->norms, BY_OPTIMIZER);
    else
        begin(e, plan, style, spec->optimizer->kernel, BY_OPTIMIZER | STORES_WORKING);
    ocl_arg_tensor(e, norms ? OCL_READ : OCL_READ_WRITE, ocl_ref(t->params), CLT_F32, t->elements);
    if (t->working >= 0 && !norms)
        ocl_arg_out(e, t->working, plan->store->working, t->elements);
    ocl_arg_in(e, t->grads, CLT_F32, t->elements);
    for (int k = 0; k < plan->store->opt_states; k++)
        ocl_arg_inout(e, t->state[k], CLT_F32, t->elements);
    ocl_arg_in(e, t->table, CLT_F32, 2 * t->chunks);
    ocl_arg_in(e, plan->state, CLT_U32, ST_WORDS);
    ocl_arg_u32(e, (uint32_t)t->chunks);
    ocl_arg_is_bound(e);
    if (norms) {
        ocl_arg_out(e, t->partial, CLT_F32, 2 * t->chunks);
        ocl_arg_in(e, t->spans, CLT_U32, 2 * t->chunks);
    } else if (plan->store->norms) {
        ocl_arg_in(e, t->ratio, CLT_F32, t->chunks);
        ocl_arg_in(e, t->spans, CLT_U32, 2 * t->chunks);
    }
    spec->optimizer->arguments(e, spec->value);
    end(e, style, t->chunks, spec->optimizer->flops * (double)t->elements);
}

/* Computes the trust ratio of each parameter from the norms of its chunks. */
static void emit_ratio(clt_plan *plan, ocl_emitter *e, const update_style *style, const range_tensors *t)
{
    const clt_update_spec *spec = &plan->options.update;
    begin(e, plan, style, spec->optimizer->ratio, BY_OPTIMIZER);
    ocl_arg_in(e, t->partial, CLT_F32, 2 * t->chunks);
    ocl_arg_in(e, t->spans, CLT_U32, 2 * t->chunks);
    ocl_arg_in(e, t->table, CLT_F32, 2 * t->chunks);
    ocl_arg_in(e, plan->state, CLT_U32, ST_WORDS);
    ocl_arg_out(e, t->ratio, CLT_F32, t->chunks);
    ocl_arg_u32(e, (uint32_t)t->chunks);
    ocl_arg_is_bound(e);
    spec->optimizer->arguments(e, spec->value);
    end(e, style, t->chunks, 4.0 * (double)t->chunks);
}

/* The work memory of a group of matrices. */
typedef struct group_tensors {
    const clt_matrix_group *group;
    uint64_t chunks, elements;
    int32_t places; /* places of its chunks in the store */
    clt_matrix_batch batch;
} group_tensors;

static clt_status find_group(clt_plan *plan, ocl_emitter *e, const clt_matrix_group *group, group_tensors *m)
{
    m->group = group;
    m->chunks = (uint64_t)group->count * group->chunks;
    m->elements = m->chunks * CLT_STORE_CHUNK;
    m->batch = (clt_matrix_batch){.rows = group->rows,
                                  .cols = group->cols,
                                  .count = group->count,
                                  .stride = (int64_t)(group->chunks * CLT_STORE_CHUNK),
                                  .x = ocl_workspace(e, CLT_F32, m->elements, "matrices"),
                                  .y = ocl_workspace(e, CLT_F32, m->elements, "matrices"),
                                  .plain = plan->options.update.order.plain != 0};
    return find(plan, CLT_ARENA_MATRICES, CLT_U32, group->slab, 2 * group->first, 2 * m->chunks, &m->places);
}

/* Computes the chunks of the matrices that this rank updates, from gradients and states. Other chunks become
 * zeros. */
static void emit_gather(clt_plan *plan, ocl_emitter *e, const update_style *style, const range_tensors *t,
                        const group_tensors *m)
{
    const clt_update_spec *spec = &plan->options.update;
    uint64_t kept = plan->store->own_elements[m->group->slab];
    begin(e, plan, style, spec->optimizer->gather, BY_OPTIMIZER);
    ocl_arg_out(e, m->batch.x, CLT_F32, m->elements);
    ocl_arg_out(e, m->batch.y, CLT_F32, m->elements);
    ocl_arg_in(e, t->grads, CLT_F32, m->elements);
    for (int k = 0; k < plan->store->opt_states; k++)
        ocl_arg_in(e, t->state[k], CLT_F32, kept);
    ocl_arg_in(e, t->table, CLT_F32, 2 * m->chunks);
    ocl_arg_in(e, plan->state, CLT_U32, ST_WORDS);
    ocl_arg_u32(e, (uint32_t)m->chunks);
    ocl_arg_is_bound(e);
    ocl_arg_in(e, t->ratio, CLT_F32, m->chunks);
    ocl_arg_in(e, t->spans, CLT_U32, 2 * m->chunks);
    ocl_arg_in(e, m->places, CLT_U32, 2 * m->chunks);
    spec->optimizer->arguments(e, spec->value);
    end(e, style, m->chunks, 4.0 * (double)m->elements);
}

static void emit_apply(clt_plan *plan, ocl_emitter *e, const update_style *style, const range_tensors *t,
                       const group_tensors *m, int32_t result, double factor)
{
    const clt_update_spec *spec = &plan->options.update;
    begin(e, plan, style, spec->optimizer->apply, BY_OPTIMIZER | STORES_WORKING);
    ocl_arg_inout(e, t->params, CLT_F32, m->elements);
    if (t->working >= 0)
        ocl_arg_out(e, t->working, plan->store->working, m->elements);
    ocl_arg_in(e, result, CLT_F32, m->elements);
    ocl_arg_in(e, t->table, CLT_F32, 2 * m->chunks);
    ocl_arg_in(e, plan->state, CLT_U32, ST_WORDS);
    ocl_arg_u32(e, (uint32_t)m->chunks);
    ocl_arg_is_bound(e);
    ocl_arg_in(e, m->places, CLT_U32, 2 * m->chunks);
    ocl_arg_f32(e,
                (float)(factor * spec->optimizer->matrix_rate(spec->value, m->group->rows, m->group->cols)));
    end(e, style, m->chunks, 4.0 * (double)m->elements);
}

/* Updates the slab's matrices, one shape after the other. */
static clt_status emit_matrices(clt_plan *plan, ocl_emitter *e, const update_style *style, int32_t slab,
                                const range_tensors *t)
{
    const clt_store_layout *store = plan->store;
    for (int32_t i = 0; i < store->n_matrices; i++) {
        group_tensors m;
        int32_t result;
        double factor;
        if (store->matrices[i].slab != slab)
            continue;
        CLT_TRY(find_group(plan, e, &store->matrices[i], &m));
        emit_gather(plan, e, style, t, &m);
        if (store->sharded)
            CLT_TRY(clt_sync_gather(plan, e, m.batch.x, 0));
        CLT_TRY(plan->options.update.optimizer->orthogonalise(e, &m.batch, &result, &factor));
        emit_apply(plan, e, style, t, &m, result, factor);
    }
    return CLT_OK;
}

static clt_status emit_average(clt_plan *plan, ocl_emitter *e, const update_style *style,
                               const clt_range *range)
{
    uint64_t first = range->first, elements = range->elements, chunks = elements / CLT_STORE_CHUNK;
    int32_t params, average, narrow;
    CLT_TRY(find(plan, CLT_ARENA_PARAM, CLT_F32, range->slab, first, elements, &params));
    CLT_TRY(find_derived(plan, CLT_ARENA_EMA, range->slab, first, elements, &narrow));
    CLT_TRY(find(plan, CLT_ARENA_EMA, CLT_F32, range->slab, first, elements, &average));
    begin(e, plan, style, "update_average", STORES_WORKING);
    ocl_arg_in(e, params, CLT_F32, elements);
    ocl_arg_inout(e, average, CLT_F32, elements);
    if (narrow >= 0)
        ocl_arg_out(e, narrow, plan->store->working, elements);
    ocl_arg_in(e, plan->state, CLT_U32, ST_WORDS);
    ocl_arg_u32(e, (uint32_t)chunks);
    ocl_arg_is_bound(e);
    ocl_arg_f32(e, (float)(1.0 - plan->options.update.ema));
    end(e, style, chunks, 3.0 * (double)elements);
    return CLT_OK;
}

/* Computes the tensors that are derived from a bucket of parameters, after the bucket has arrived. */
static clt_status emit_take(clt_plan *plan, ocl_emitter *e, const update_style *style, const clt_range *range,
                            int32_t params)
{
    int32_t working;
    e->label = "take";
    CLT_TRY(find_derived(plan, CLT_ARENA_PARAM, range->slab, range->first, range->elements, &working));
    if (working >= 0)
        clt_emit_convert(e, working, plan->store->working, params, CLT_F32, range->elements);
    return plan->store->ema ? emit_average(plan, e, style, range) : CLT_OK;
}

/* Gives the other ranks this rank's updated share of a bucket and gets their shares. */
static clt_status emit_give(clt_plan *plan, ocl_emitter *e, const update_style *style, const clt_range *range)
{
    ocl_command_list *update = e->list, *take = &plan->phase[CLT_PHASE_TAKE];
    const char *label = e->label;
    int32_t params;
    clt_sum *sum;
    CLT_TRY(find(plan, CLT_ARENA_PARAM, CLT_F32, range->slab, range->first, range->elements, &params));
    CLT_TRY(clt_sync_give(plan, e, params, range->slab, &sum));
    sum->take_first = take->count;
    take->arena = update->arena;
    e->list = take;
    clt_status status = emit_take(plan, e, style, range, params);
    e->list = update;
    e->label = label;
    sum->take_last = take->count;
    return status;
}

/* Copies the norms of a piece's chunks to their place among the norms of the slab. */
static void emit_place_norms(ocl_emitter *e, const range_tensors *own, const range_tensors *all)
{
    uint64_t plane = all->chunks * sizeof(float), bytes = own->chunks * sizeof(float);
    uint64_t at = own->first / CLT_STORE_CHUNK * sizeof(float);
    for (uint64_t i = 0; i < 2; i++)
        ocl_emit_copy(e, (ocl_tensor_ref){all->partial, i * plane + at},
                      (ocl_tensor_ref){own->partial, i * bytes}, bytes);
}

/* Emits the trust ratios of a slab's parameters, from the norms of all chunks. A rank computes the norms of
 * its own pieces and has zeros in place of the others; then the arrays of all ranks are added. */
static clt_status emit_trust(clt_plan *plan, ocl_emitter *e, const update_style *style, range_tensors *own,
                             size_t pieces, const range_tensors *all)
{
    bool sharded = plan->store->sharded;
    if (sharded)
        ocl_emit_fill(e, ocl_ref(all->partial), 2 * all->chunks * sizeof(float), 0);
    for (size_t k = 0; k < pieces; k++) {
        emit_optimizer(plan, e, style, &own[k], true);
        if (sharded)
            emit_place_norms(e, &own[k], all);
        own[k].ratio = all->ratio;
    }
    if (sharded)
        CLT_TRY(clt_sync_gather(plan, e, all->partial, 0));
    emit_ratio(plan, e, style, all);
    return CLT_OK;
}

/* Finds the pieces of a slab that this rank updates; a small slab may have none for this rank. The caller
 * frees *own. */
static clt_status find_own(clt_plan *plan, ocl_emitter *e, int32_t slab, range_tensors **own, size_t *pieces)
{
    const clt_store_layout *store = plan->store;
    size_t capacity = 0;
    clt_range piece;
    uint64_t at;
    for (*pieces = 0; clt_store_own(store, slab, *pieces, &piece, &at); (*pieces)++) {
        CLT_TRY(clt_grow(own, &capacity, *pieces + 1, sizeof **own, "pieces of a slab"));
        range_tensors *t = &(*own)[*pieces];
        *t = (range_tensors){
            .first = piece.first, .elements = piece.elements, .chunks = piece.elements / CLT_STORE_CHUNK};
        CLT_TRY(find_tensors(plan, e, slab, t));
        for (int k = 0; k < store->opt_states; k++)
            CLT_TRY(find(plan, (clt_arena_kind)(CLT_ARENA_OPT1 + k), CLT_F32, slab, at, t->elements,
                         &t->state[k]));
    }
    return CLT_OK;
}

/* *all: the tensors of a whole slab, for computations of all ranks together; it is own[0] if this rank
 * updates the whole slab. Its states are the states of this rank's pieces, side by side; a rank without
 * pieces does not read them. */
static clt_status find_all(clt_plan *plan, ocl_emitter *e, int32_t slab, const range_tensors *own,
                           range_tensors *all)
{
    const clt_store_layout *store = plan->store;
    uint64_t kept = store->own_elements[slab];
    *all = (range_tensors){.elements = store->trainable_elements[slab]};
    all->chunks = all->elements / CLT_STORE_CHUNK;
    if (!store->sharded)
        *all = own[0];
    else if (store->norms)
        CLT_TRY(find_tensors(plan, e, slab, all));
    for (int k = 0; k < store->opt_states && store->sharded && store->norms; k++) {
        all->state[k] = all->grads;
        if (kept)
            CLT_TRY(find(plan, (clt_arena_kind)(CLT_ARENA_OPT1 + k), CLT_F32, slab, 0, kept, &all->state[k]));
    }
    return CLT_OK;
}

/* Updates this rank's pieces of a slab and gives their buckets to the other ranks, one after the other, in
 * the order in which the next forward pass needs them: roughly the reverse of backward order. Muon's
 * matrices must be finished before any bucket. */
static clt_status emit_shares(clt_plan *plan, ocl_emitter *e, const update_style *style, int32_t slab,
                              const range_tensors *own, size_t pieces, const range_tensors *all)
{
    bool together = plan->store->n_matrices > 0;
    for (size_t k = pieces; together && k-- > 0;)
        emit_optimizer(plan, e, style, &own[k], false);
    CLT_TRY(emit_matrices(plan, e, style, slab, all));
    for (size_t b = plan->n_buckets; b-- > 0;) {
        const clt_bucket *bucket = &plan->buckets[b];
        if (bucket->range.slab != slab)
            continue;
        if (!together && bucket->own.elements)
            emit_optimizer(plan, e, style, &own[--pieces], false);
        CLT_TRY(emit_give(plan, e, style, &bucket->range));
    }
    return CLT_OK;
}

/* Updates this rank's pieces of a slab. Trust ratios and whole matrices are computed by all ranks
 * together. */
static clt_status emit_pieces(clt_plan *plan, ocl_emitter *e, const update_style *style, int32_t slab,
                              range_tensors *own, size_t pieces)
{
    range_tensors all;
    clt_range range = {slab, 0, plan->store->trainable_elements[slab]};
    CLT_TRY(find_all(plan, e, slab, own, &all));
    if (plan->store->norms)
        CLT_TRY(emit_trust(plan, e, style, own, pieces, &all));
    if (plan->store->sharded)
        return emit_shares(plan, e, style, slab, own, pieces, &all);
    emit_optimizer(plan, e, style, &own[0], false);
    CLT_TRY(emit_matrices(plan, e, style, slab, &all));
    return plan->store->ema ? emit_average(plan, e, style, &range) : CLT_OK;
}

static clt_status emit_slab(clt_plan *plan, ocl_emitter *e, const update_style *style, int32_t slab)
{
    CLT_FREED range_tensors *own = NULL;
    size_t pieces = 0;
    if (!plan->store->trainable_elements[slab])
        return CLT_OK;
    CLT_TRY(find_own(plan, e, slab, &own, &pieces));
    return emit_pieces(plan, e, style, slab, own, pieces);
}

/* Uses the tunables of a tuning record, or values that suit the device. If ranks have agreed on an order,
 * its number of work-items replaces the device's; a record that asks for another order is
 * CLT_EUNSUPPORTED. */
static clt_status tuned_style(ocl_emitter *e, const clt_update_order *order, update_style *style)
{
    uint64_t standard = order->items ? order->items : clt_local_group(e->device, CLT_STORE_CHUNK);
    uint64_t chunks = style->norm_chunks;
    style->exact = order->exact != 0;
    if (!style->group) {
        return clt_tuned_items(e, "local", 0, &style->items);
    }
    CLT_TRY(clt_tuned_items(e, "items", standard, &style->items));
    style->norm_chunks = (uint64_t)ocl_tuned(e, "norm_chunks", (int)chunks);
    if (CLT_BUCKET_CHUNKS % style->norm_chunks)
        CLT_FAIL(CLT_EUNSUPPORTED, "partial sums of %llu chunks do not fit into buckets of %d chunks",
                 (unsigned long long)style->norm_chunks, CLT_BUCKET_CHUNKS);
    if (order->items && (style->items != standard || style->norm_chunks != chunks))
        CLT_FAIL(CLT_EUNSUPPORTED, "the ranks agreed on another order of sums");
    return CLT_OK;
}

static clt_status emit_update(ocl_emitter *e, const void *problem, const update_style *kind)
{
    clt_plan *plan = ((const clt_update_problem *)problem)->plan;
    update_style own = *kind, *style = &own;
    CLT_TRY(tuned_style(e, &plan->options.update.order, style));
    uint64_t count = partials_before(plan, style, plan->store->n_slabs);
    int32_t partial = ocl_workspace(e, CLT_F32, count, "norm partials");
    CLT_TRY(emit_norms(plan, e, style, partial, count));
    emit_spans(plan, e, style, &partial, &count);
    e->label = "update.finish";
    CLT_TRY(emit_finish(plan, e, style, partial, count));
    e->label = "update.optimizer";
    for (int32_t s = 0, n = plan->store->n_slabs; s < n; s++)
        CLT_TRY(emit_slab(plan, e, style, plan->store->sharded ? n - 1 - s : s));
    return CLT_OK;
}

clt_status clt_update_emit_group(ocl_emitter *e, const void *problem)
{
    return emit_update(e, problem, &group_style);
}

clt_status clt_update_emit_lane(ocl_emitter *e, const void *problem)
{
    return emit_update(e, problem, &lane_style);
}
