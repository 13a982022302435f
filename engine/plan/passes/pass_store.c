/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass 5, store: gives parameters their places in the store. Values, gradients and optimizer state have the
 * same order, in which gradients become ready, so that a bucket or a shard is a range. Each parameter starts
 * at a whole chunk, and a slab never passes the device's largest buffer. */
#include <stdlib.h>

#include "comm/comm.h"
#include "engine/plan/plan_internal.h"

/* ready: for each parameter, the number of works up to the last one that adds to its gradient, not counting
 * rows. Without accumulation, a gradient that consists only of rows is not summed and comes last; with
 * accumulation it comes first, because the rows of earlier micro-batches are summed. */
static void find_ready(const clt_plan *plan, size_t *ready)
{
    for (size_t p = 0; p < plan->graph->n_params; p++)
        if (plan->options.accumulation == 1 && clt_rows_alone(plan, (int32_t)p))
            ready[p] = SIZE_MAX;
    for (size_t w = 0; w < plan->n_work; w++) {
        const clt_work *work = &plan->work[w];
        if (work->kind != CLT_WORK_BACKWARD || work->rows)
            continue;
        const clt_node *node = work->node;
        for (int i = 0; i < node->n_param; i++)
            if (work->dparam[i] >= 0)
                ready[node->param[i]] = w + 1;
    }
}

/* The parts of a slab, in their order. */
typedef enum slab_part { PART_TRAINED, PART_FROZEN, PART_BUFFER, PART_AVERAGED } slab_part;

static slab_part part_of(const clt_store_slot *slot)
{
    return slot->trainable ? PART_TRAINED
           : !slot->buffer ? PART_FROZEN
                           : (slot->averaged ? PART_AVERAGED : PART_BUFFER);
}

typedef struct order_key {
    size_t ready;
    int32_t index;
    slab_part part;
} order_key;

static int compare_order(const void *a, const void *b)
{
    const order_key *x = a, *y = b;
    if (x->part != y->part)
        return x->part < y->part ? -1 : 1;
    if (x->ready != y->ready)
        return x->ready < y->ready ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

/* matrix, by parameter: true for weight matrices of hidden layers, which only products read (so no embedding
 * tables) and which are not in the last layer before a loss. */
static clt_status find_matrices(const clt_plan *plan, bool *matrix)
{
    const clt_graph *graph = plan->graph;
    CLT_FREED bool *predicts = NULL; /* by tensor: no product with a parameter follows before the loss */
    CLT_TRY(clt_alloc(&predicts, graph->n_tensors, sizeof *predicts, "last layers"));
    for (size_t i = 0; i < graph->n_params; i++)
        matrix[i] = graph->params[i].shape.ndim == 2 && !graph->params[i].elementwise;
    for (size_t n = graph->n_nodes; n-- > 0;) {
        const clt_node *node = graph->nodes[n];
        bool loss = node->op->flags & CLT_OP_LOSS, product = node->op->flags & CLT_OP_GEMM, last = loss;
        for (int k = 0; k < node->n_out; k++)
            last |= predicts[node->out[k]];
        for (int k = 0; k < node->n_param; k++)
            matrix[node->param[k]] &= product && !last;
        for (int k = 0; k < (loss ? 1 : node->n_in) && last && !(product && node->n_param); k++)
            predicts[node->in[k]] = true;
    }
    return CLT_OK;
}

/* True if ranks exchange the statistics from which a layer computes this buffer, so that all have the same
 * values. */
static bool is_exchanged(const clt_plan *plan, size_t param)
{
    const clt_graph *graph = plan->graph;
    for (size_t n = 0; n < graph->n_nodes && plan->options.sync_norms; n++)
        for (int k = 0; k < graph->nodes[n]->n_param; k++)
            if (graph->nodes[n]->param[k] == (int32_t)param &&
                (graph->nodes[n]->op->flags & CLT_OP_EXCHANGES))
                return true;
    return false;
}

static clt_status fill_slots(const clt_plan *plan, clt_store_layout *layout)
{
    const clt_graph *graph = plan->graph;
    const clt_update_spec *update = &plan->options.update;
    layout->n_slots = (int32_t)graph->n_params;
    layout->base = CLT_F32;
    layout->slots = clt_arena_alloc(layout->arena, graph->n_params * sizeof *layout->slots + 1);
    layout->order = clt_arena_alloc(layout->arena, graph->n_params * sizeof *layout->order + 1);
    if (!layout->slots || !layout->order)
        return CLT_ENOMEM;
    for (size_t i = 0; i < graph->n_params; i++) {
        const clt_param *param = &graph->params[i];
        clt_store_slot *slot = &layout->slots[i];
        slot->name = clt_arena_strdup(layout->arena, param->name);
        if (!slot->name)
            return CLT_ENOMEM;
        CLT_TRY(clt_names_add(&layout->names, slot->name, i));
        slot->shape = param->shape;
        slot->trainable = clt_param_is_trained(param);
        slot->buffer = param->buffer;
        slot->narrow = param->frozen && param->kept != CLT_F32 &&
                       clt_graph_tensor(graph, param->tensor)->dtype == param->kept;
        layout->base = slot->narrow ? param->kept : layout->base;
        slot->averaged = param->buffer && param->averaged && !param->frozen && !is_exchanged(plan, i);
        slot->group = update->decay_all ? CLT_GROUP_DECAY : param->group;
        slot->lr_scale = param->lr_scale;
        slot->elements = (uint64_t)clt_shape_elements(&param->shape);
    }
    return CLT_OK;
}

/* Places the parameters that are kept in 16 bits in separate slabs. A chunk of checksums has as many words
 * as two chunks of such parameters have elements, so each parameter starts at a multiple of two chunks. */
static clt_status place_base(const clt_plan *plan, clt_store_layout *layout)
{
    uint64_t limit = plan->device.max_alloc_bytes / sizeof(uint16_t) / CLT_STORE_CHUNK * CLT_STORE_CHUNK;
    int32_t slab = 0;
    for (int32_t i = 0; i < layout->n_slots; i++) {
        clt_store_slot *slot = &layout->slots[layout->order[i]];
        uint64_t size = clt_align_up(slot->elements, 2 * CLT_STORE_CHUNK);
        if (!slot->narrow)
            continue;
        if (size > limit)
            CLT_FAIL(CLT_EDEVMEM,
                     "planning: parameter '%s' needs %llu bytes in one buffer; device '%s' allows %llu; use "
                     "a smaller layer or another device",
                     slot->name, (unsigned long long)(size * 2), plan->device.name,
                     (unsigned long long)plan->device.max_alloc_bytes);
        slab += layout->base_elements[slab] + size > limit;
        if (slab == CLT_MAX_STORE_SLABS)
            CLT_FAIL(CLT_EDEVMEM,
                     "planning: the parameters need more than %d buffers on device '%s'; use a smaller model "
                     "or another device",
                     CLT_MAX_STORE_SLABS, plan->device.name);
        slot->slab = slab;
        slot->offset = layout->base_elements[slab];
        layout->base_elements[slab] += size;
    }
    layout->n_slabs = slab >= layout->n_slabs ? slab + 1 : layout->n_slabs;
    return CLT_OK;
}

/* Places the parameters in slabs. Trainable ones come first, so the trainable part of a slab is its
 * beginning; buffers that ranks average come last. */
static clt_status place_slots(const clt_plan *plan, clt_store_layout *layout)
{
    uint64_t limit = plan->device.max_alloc_bytes / sizeof(float) / CLT_STORE_CHUNK * CLT_STORE_CHUNK;
    /* leave room for the loss records */
    limit = limit > 2 * CLT_STORE_CHUNK ? limit - CLT_STORE_CHUNK : limit;
    layout->n_slabs = 1;
    for (int32_t i = 0; i < layout->n_slots; i++) {
        clt_store_slot *slot = &layout->slots[layout->order[i]];
        uint64_t size = clt_align_up(slot->elements, CLT_STORE_CHUNK);
        int32_t slab = layout->n_slabs - 1;
        if (slot->narrow)
            continue;
        if (size > limit)
            CLT_FAIL(CLT_EDEVMEM,
                     "planning: parameter '%s' needs %llu bytes in one buffer; device '%s' allows %llu; use "
                     "a smaller layer or another device",
                     slot->name, (unsigned long long)(size * 4), plan->device.name,
                     (unsigned long long)plan->device.max_alloc_bytes);
        if (layout->slab_elements[slab] + size > limit) {
            if (layout->n_slabs == CLT_MAX_STORE_SLABS)
                CLT_FAIL(CLT_EDEVMEM,
                         "planning: the parameters need more than %d buffers on device '%s'; use a smaller "
                         "model or another device",
                         CLT_MAX_STORE_SLABS, plan->device.name);
            slab = layout->n_slabs++;
        }
        slot->slab = slab;
        slot->offset = layout->slab_elements[slab];
        layout->slab_elements[slab] += size;
        if (slot->trainable)
            layout->trainable_elements[slab] = layout->slab_elements[slab];
        if (slot->averaged)
            layout->averaged_elements[slab] += size;
    }
    return CLT_OK;
}

static void add_own(clt_store_layout *layout, clt_range own)
{
    if (own.elements == 0)
        return;
    layout->own[layout->n_own++] = own;
    layout->own_elements[own.slab] += own.elements;
}

/* Sets the parts of the parameters that this rank updates: every slab, or its share of every bucket. */
static clt_status take_share(clt_plan *plan, clt_store_layout *layout)
{
    const clt_plan_options *o = &plan->options;
    size_t most = (size_t)layout->n_slabs > plan->n_buckets ? (size_t)layout->n_slabs : plan->n_buckets;
    layout->sharded = o->shard && plan->n_buckets > 0;
    layout->own = clt_arena_alloc(layout->arena, most * sizeof *layout->own);
    if (!layout->own)
        return CLT_ENOMEM;
    for (int32_t s = 0; s < layout->n_slabs && !layout->sharded; s++)
        add_own(layout, (clt_range){s, 0, layout->trainable_elements[s]});
    for (size_t b = 0; b < plan->n_buckets && layout->sharded; b++) {
        plan->buckets[b].own = clt_bucket_share(&plan->buckets[b], o->ranks, o->rank);
        add_own(layout, plan->buckets[b].own);
    }
    return CLT_OK;
}

/* Groups the matrices of one shape, in the order of the first matrix of each group. */
static clt_status group_matrices(clt_store_layout *layout)
{
    uint64_t used[CLT_MAX_STORE_SLABS] = {0};
    layout->matrices =
        clt_arena_alloc(layout->arena, ((size_t)layout->n_slots + 1) * sizeof *layout->matrices);
    if (!layout->matrices)
        return CLT_ENOMEM;
    for (int32_t i = 0; i < layout->n_slots; i++) {
        const clt_store_slot *slot = &layout->slots[layout->order[i]];
        int32_t g = 0;
        if (!slot->adapts || !slot->trainable)
            continue;
        while (g < layout->n_matrices && !clt_store_in_group(slot, &layout->matrices[g]))
            g++;
        if (g == layout->n_matrices)
            layout->matrices[layout->n_matrices++] =
                (clt_matrix_group){.slab = slot->slab,
                                   .rows = slot->shape.dim[0],
                                   .cols = slot->shape.dim[1],
                                   .chunks = clt_div_up(slot->elements, CLT_STORE_CHUNK)};
        layout->matrices[g].count++;
    }
    for (int32_t g = 0; g < layout->n_matrices; g++) {
        clt_matrix_group *group = &layout->matrices[g];
        group->first = used[group->slab];
        used[group->slab] += (uint64_t)group->count * group->chunks;
    }
    return CLT_OK;
}

/* Sets the layout's facts for the optimizer: number of states, norms, and the parameters that it adapts
 * to. */
static clt_status take_optimizer(const clt_plan *plan, clt_store_layout *layout)
{
    const clt_update_spec *update = &plan->options.update;
    const clt_optimizer *optimizer = update->optimizer;
    CLT_FREED bool *matrix = NULL;
    if (!optimizer) /* a separate evaluation has no optimizer */
        return CLT_OK;
    layout->opt_states = optimizer->states(update->value);
    layout->norms = optimizer->norms != NULL;
    for (int32_t i = 0; i < layout->n_slots; i++)
        layout->slots[i].states = layout->opt_states;
    if (!optimizer->adapts)
        return CLT_OK;
    CLT_TRY(clt_alloc(&matrix, plan->graph->n_params, sizeof *matrix, "matrices"));
    CLT_TRY(find_matrices(plan, matrix));
    for (int32_t i = 0; i < layout->n_slots; i++) {
        clt_store_slot *slot = &layout->slots[i];
        slot->adapts = optimizer->adapts(update->value, slot->group == CLT_GROUP_DECAY, matrix[i]);
        if (slot->adapts && optimizer->orthogonalise)
            slot->states = optimizer->matrix_states;
    }
    return CLT_OK;
}

/* Orders the parameters by the time at which their gradients are ready, and places them. */
static clt_status order_slots(clt_plan *plan, clt_store_layout *layout)
{
    size_t n = plan->graph->n_params;
    const clt_optimizer *optimizer = plan->options.update.optimizer;
    CLT_FREED size_t *ready = NULL;
    CLT_FREED order_key *keys = NULL;
    CLT_TRY(clt_alloc(&ready, n, sizeof *ready, "store order"));
    CLT_TRY(clt_alloc(&keys, n, sizeof *keys, "store order"));
    find_ready(plan, ready);
    for (size_t i = 0; i < n; i++)
        keys[i] = (order_key){ready[i], (int32_t)i, part_of(&layout->slots[i])};
    qsort(keys, n, sizeof *keys, compare_order);
    for (size_t i = 0; i < n; i++)
        layout->order[i] = keys[i].index;
    CLT_TRY(place_slots(plan, layout));
    CLT_TRY(place_base(plan, layout));
    return optimizer && optimizer->orthogonalise ? group_matrices(layout) : CLT_OK;
}

static clt_status make_layout(clt_plan *plan)
{
    clt_store_layout *layout;
    CLT_TRY(clt_alloc(&layout, 1, sizeof *layout, "store layout"));
    plan->layout = layout;
    plan->store = layout;
    CLT_TRY(clt_arena_create(&layout->arena));
    CLT_TRY(fill_slots(plan, layout));
    const clt_update_spec *update = &plan->options.update;
    CLT_TRY(take_optimizer(plan, layout));
    layout->levels = clt_plan_levels(plan);
    layout->ema = update->ema > 0;
    layout->working = plan->options.storage;
    layout->wire = plan->options.ranks > 1 ? plan->options.wire : CLT_F32;
    layout->schedule_entries = (uint64_t)plan->options.update.schedule_entries;
    if (clt_store_slab_bytes(layout, CLT_ARENA_STATE, 0) > plan->device.max_alloc_bytes)
        CLT_FAIL(CLT_EDEVMEM,
                 "planning: the schedule's table of %llu updates needs %llu bytes in one buffer; device '%s' "
                 "allows %llu; use fewer train.steps",
                 (unsigned long long)layout->schedule_entries,
                 (unsigned long long)clt_store_slab_bytes(layout, CLT_ARENA_STATE, 0), plan->device.name,
                 (unsigned long long)plan->device.max_alloc_bytes);
    return order_slots(plan, layout);
}

/* Checks the layout of the training plan, which an evaluation plan uses: it must have every parameter with
 * the same shape. */
static clt_status check_layout(const clt_plan *plan)
{
    char a[CLT_SHAPE_TEXT], b[CLT_SHAPE_TEXT];
    for (size_t i = 0; i < plan->graph->n_params; i++) {
        const clt_param *param = &plan->graph->params[i];
        const clt_store_slot *slot = clt_store_layout_find(plan->store, param->name);
        if (!slot || !clt_shape_equal(&slot->shape, &param->shape))
            CLT_FAIL(CLT_EINTERNAL,
                     "planning evaluation: parameter '%s' has shape %s in the graph and %s in the store",
                     param->name, clt_shape_text(&param->shape, a, sizeof a),
                     slot ? clt_shape_text(&slot->shape, b, sizeof b) : "is missing");
    }
    return CLT_OK;
}

static clt_status make_buckets(clt_plan *plan)
{
    const clt_store_layout *layout = plan->layout;
    CLT_TRY(clt_buckets_make(layout, plan->options.buckets, &plan->buckets, &plan->n_buckets));
    for (int32_t i = 0; i < layout->n_slots; i++) {
        const clt_store_slot *slot = &layout->slots[i];
        for (size_t b = 0; b < plan->n_buckets && clt_rows_any(plan, i); b++) {
            const clt_range *range = &plan->buckets[b].range;
            plan->buckets[b].rows |= slot->slab == range->slab &&
                                     slot->offset < range->first + range->elements &&
                                     range->first < slot->offset + slot->elements;
        }
    }
    return CLT_OK;
}

clt_status clt_pass_store(clt_plan *plan)
{
    if (plan->options.mode == CLT_PLAN_CHECK)
        return CLT_OK;
    if (!plan->options.layout) {
        CLT_TRY(make_layout(plan));
        if (plan->options.mode == CLT_PLAN_TRAIN && plan->options.ranks > 1)
            CLT_TRY(make_buckets(plan));
        return take_share(plan, plan->layout);
    }
    plan->store = plan->options.layout;
    return check_layout(plan);
}
