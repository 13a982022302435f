/* SPDX-License-Identifier: Apache-2.0
 *
 * With options.tree the gradients of a step's micro-batches are added as a binary tree over their numbers,
 * ((0+1)+(2+3))+..., instead of one after the other. Ranks with neighbouring micro-batches compute subtrees
 * of it, and comm/ adds these in the same order (comm/sums.c): the same bits for 1, 2, 4 ... ranks. BACKWARD
 * writes the gradient of each micro-batch, then the commands of this file add it to the sums that wait on
 * the levels of the tree (combine.cl). These commands are part of BACKWARD: with several ranks they come
 * just before the sum of their bucket is posted (pass_sync.c), otherwise at the end. Loss records are added
 * in the same way. Buffers that ranks average become the mean over the micro-batches, which all start from
 * the same values. */
#include "engine/plan/combine.h"
#include "engine/plan/plan_internal.h"

static void begin(ocl_emitter *e, const char *kernel, const clt_tree_sums *sums, clt_style style)
{
    clt_elementwise_begin(e, "combine", kernel, style);
    ocl_define(e, "LEVELS", sums->levels);
    ocl_arg_tensor(e, OCL_READ_WRITE, sums->value, CLT_F32, sums->elements);
}

void clt_tree_emit_sums(ocl_emitter *e, const clt_tree_sums *sums, float factor, clt_style style)
{
    begin(e, "combine", sums, style);
    ocl_arg_tensor(e, OCL_READ, sums->step, CLT_U32, SB_WORDS);
    for (int32_t n = 0; n < sums->levels; n++)
        ocl_arg_tensor(e, OCL_READ_WRITE, sums->level[n], CLT_F32, sums->elements);
    ocl_arg_f32(e, factor);
    clt_elementwise_end(e, sums->elements, (double)sums->elements, style);
}

void clt_tree_emit_start(ocl_emitter *e, const clt_tree_sums *sums, ocl_tensor_ref start, clt_style style)
{
    begin(e, "combine_start", sums, style);
    ocl_arg_tensor(e, OCL_READ_WRITE, start, CLT_F32, sums->elements);
    ocl_arg_tensor(e, OCL_READ, sums->step, CLT_U32, SB_WORDS);
    clt_elementwise_end(e, sums->elements, 0, style);
}

int32_t clt_plan_levels(const clt_plan *plan)
{
    int32_t levels = 0;
    while (plan->options.tree && levels < CLT_MAX_LEVELS && 1 << levels < plan->options.accumulation)
        levels++;
    return plan->options.mode == CLT_PLAN_TRAIN ? levels : 0;
}

static void emit(clt_plan *plan, ocl_emitter *e, int32_t value, const int32_t *level, uint64_t elements,
                 float factor)
{
    ocl_tensor_ref refs[CLT_MAX_LEVELS];
    for (int32_t n = 0; n < plan->store->levels; n++)
        refs[n] = ocl_ref(level[n]);
    clt_tree_sums sums = {ocl_ref(value), ocl_ref(plan->graph->step), refs, plan->store->levels, elements};
    clt_tree_emit_sums(e, &sums, factor, clt_style_of(e->device));
}

/* Adds tensors for the same elements of each level; `offset` is in bytes from the start of a slab. */
static clt_status find_levels(clt_plan *plan, int32_t slab, uint64_t offset, uint64_t elements,
                              int32_t level[CLT_MAX_LEVELS])
{
    for (int32_t n = 0; n < plan->store->levels; n++) {
        clt_arena_kind arena = (clt_arena_kind)(CLT_ARENA_LEVEL1 + n);
        CLT_TRY(clt_plan_store_tensor(plan, clt_arenas[arena].name, CLT_F32, (int64_t)elements, arena, slab,
                                      offset, &level[n]));
    }
    return CLT_OK;
}

clt_status clt_combine_gradients(clt_plan *plan, ocl_emitter *e, const clt_range *range)
{
    uint64_t offset = range->first * sizeof(float);
    int32_t value, level[CLT_MAX_LEVELS];
    if (!plan->store->levels || !range->elements)
        return CLT_OK;
    CLT_TRY(clt_plan_store_tensor(plan, "sums of gradients", CLT_F32, (int64_t)range->elements,
                                  CLT_ARENA_GRAD, range->slab, offset, &value));
    CLT_TRY(find_levels(plan, range->slab, offset, range->elements, level));
    e->label = "combine";
    emit(plan, e, value, level, range->elements, 1.0f);
    return CLT_OK;
}

/* Adds up the loss records, which lie after the gradients of the last slab. */
clt_status clt_combine_losses(clt_plan *plan, ocl_emitter *e)
{
    const clt_store_layout *store = plan->store;
    const clt_tensor *losses = clt_graph_tensor(plan->graph, plan->losses);
    uint64_t elements = (uint64_t)clt_shape_elements(&losses->shape);
    int32_t last = store->n_slabs - 1, level[CLT_MAX_LEVELS];
    if (!store->levels)
        return CLT_OK;
    CLT_TRY(find_levels(plan, last, store->trainable_elements[last] * sizeof(float), elements, level));
    e->label = "combine";
    emit(plan, e, plan->losses, level, elements, 1.0f);
    return CLT_OK;
}

clt_status clt_plan_buffers(clt_plan *plan, int32_t slab, uint64_t *elements, int32_t *buffers)
{
    const clt_store_layout *store = plan->store;
    *elements = store->averaged_elements[slab];
    *buffers = -1;
    uint64_t first = store->slab_elements[slab] - *elements;
    return *elements ? clt_plan_store_tensor(plan, "buffers", CLT_F32, (int64_t)*elements, CLT_ARENA_PARAM,
                                             slab, first * sizeof(float), buffers)
                     : CLT_OK;
}

/* Adds a tensor for part `number` of the slab in the BUFFERS arena: part 0 holds the values from the start
 * of the step, part n + 1 is level n of the tree. */
static clt_status find_kept(clt_plan *plan, int32_t slab, int32_t number, uint64_t elements, int32_t *id)
{
    return clt_plan_store_tensor(plan, clt_arenas[CLT_ARENA_BUFFERS].name, CLT_F32, (int64_t)elements,
                                 CLT_ARENA_BUFFERS, slab, (uint64_t)number * elements * sizeof(float), id);
}

clt_status clt_combine_buffers(clt_plan *plan, ocl_emitter *e, int32_t slab)
{
    uint64_t elements;
    int32_t value, level[CLT_MAX_LEVELS];
    CLT_TRY(clt_plan_buffers(plan, slab, &elements, &value));
    if (!elements || !plan->store->levels)
        return CLT_OK;
    for (int32_t n = 0; n < plan->store->levels; n++)
        CLT_TRY(find_kept(plan, slab, n + 1, elements, &level[n]));
    e->label = "combine";
    emit(plan, e, value, level, elements, 1.0f / (float)(1 << plan->store->levels));
    return CLT_OK;
}

clt_status clt_combine_emit(clt_plan *plan, ocl_emitter *e)
{
    CLT_TRY(clt_combine_losses(plan, e));
    for (int32_t s = 0; s < plan->store->n_slabs; s++) {
        clt_range all = {s, 0, plan->store->trainable_elements[s]};
        CLT_TRY(clt_combine_gradients(plan, e, &all));
        CLT_TRY(clt_combine_buffers(plan, e, s));
    }
    return ocl_emit_status(e);
}

clt_status clt_combine_emit_start(clt_plan *plan, ocl_emitter *e)
{
    e->label = "combine.start";
    for (int32_t s = 0; plan->store && s < plan->store->n_slabs && plan->store->levels; s++) {
        uint64_t elements;
        int32_t value, start;
        CLT_TRY(clt_plan_buffers(plan, s, &elements, &value));
        if (elements == 0)
            continue;
        CLT_TRY(find_kept(plan, s, 0, elements, &start));
        clt_tree_sums sums = {ocl_ref(value), ocl_ref(plan->graph->step), NULL, plan->store->levels,
                              elements};
        clt_tree_emit_start(e, &sums, ocl_ref(start), clt_style_of(e->device));
    }
    return ocl_emit_status(e);
}
