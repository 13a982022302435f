/* SPDX-License-Identifier: Apache-2.0
 *
 * The COMBINE phase. With options.tree the gradients of the micro-batches of a step are added up as a binary
 * tree over their numbers, ((0+1)+(2+3))+..., where other runs add one after the other. Ranks with neighbouring
 * micro-batches compute subtrees of it, and comm/ adds those up in the same order (comm/sums.c): the same bits
 * for 1, 2, 4 ... ranks. BACKWARD writes the gradient of each micro-batch, then this phase adds it to the sums
 * that wait on the levels (combine.cl). Loss records, which lie behind the gradients, are added with them.
 * Buffers that ranks average become the mean over the micro-batches, which all start from the same values. */
#include "engine/ops/elementwise/elementwise.h"
#include "engine/plan/plan_internal.h"

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
    int32_t levels = plan->store->levels;
    clt_style style = clt_style_of(e->device);
    clt_elementwise_begin(e, "combine", "combine", style);
    ocl_define(e, "LEVELS", levels);
    ocl_arg_inout(e, value, CLT_F32, elements);
    ocl_arg_in(e, plan->graph->step, CLT_U32, SB_WORDS);
    for (int32_t n = 0; n < levels; n++)
        ocl_arg_inout(e, level[n], CLT_F32, elements);
    ocl_arg_f32(e, factor);
    clt_elementwise_end(e, elements, (double)elements, style);
}

/* A slab of gradients; the last one with the loss records at its end. */
static clt_status combine_gradients(clt_plan *plan, ocl_emitter *e, int32_t slab)
{
    uint64_t elements = clt_store_slab_bytes(plan->store, CLT_ARENA_GRAD, slab) / sizeof(float);
    int32_t value, level[CLT_MAX_LEVELS];
    if (elements == 0)
        return CLT_OK;
    CLT_TRY(clt_plan_store_tensor(plan, "gradient slab", CLT_F32, (int64_t)elements, CLT_ARENA_GRAD, slab, 0,
                                  &value));
    for (int32_t n = 0; n < plan->store->levels; n++) {
        clt_arena_kind arena = (clt_arena_kind)(CLT_ARENA_LEVEL1 + n);
        CLT_TRY(clt_plan_store_tensor(plan, clt_arenas[arena].name, CLT_F32, (int64_t)elements, arena, slab,
                                      0, &level[n]));
    }
    emit(plan, e, value, level, elements, 1.0f);
    return CLT_OK;
}

static clt_status find_buffers(clt_plan *plan, int32_t slab, uint64_t *elements, int32_t *value)
{
    const clt_store_layout *store = plan->store;
    *elements = store->averaged_elements[slab];
    uint64_t first = store->slab_elements[slab] - *elements;
    return *elements ? clt_plan_store_tensor(plan, "buffers", CLT_F32, (int64_t)*elements, CLT_ARENA_PARAM,
                                             slab, first * sizeof(float), value)
                     : CLT_OK;
}

/* Part `number` of the slab's part of the BUFFERS arena: the values of the start, then the levels. */
static clt_status find_kept(clt_plan *plan, int32_t slab, int32_t number, uint64_t elements, int32_t *id)
{
    return clt_plan_store_tensor(plan, clt_arenas[CLT_ARENA_BUFFERS].name, CLT_F32, (int64_t)elements,
                                 CLT_ARENA_BUFFERS, slab, (uint64_t)number * elements * sizeof(float), id);
}

static clt_status combine_buffers(clt_plan *plan, ocl_emitter *e, int32_t slab)
{
    uint64_t elements;
    int32_t value, level[CLT_MAX_LEVELS];
    CLT_TRY(find_buffers(plan, slab, &elements, &value));
    for (int32_t n = 0; n < plan->store->levels && elements; n++)
        CLT_TRY(find_kept(plan, slab, n + 1, elements, &level[n]));
    if (elements)
        emit(plan, e, value, level, elements, 1.0f / (float)(1 << plan->store->levels));
    return CLT_OK;
}

clt_status clt_combine_emit(clt_plan *plan, ocl_emitter *emitter)
{
    emitter->label = "combine";
    for (int32_t s = 0; s < plan->store->n_slabs && plan->store->levels; s++) {
        CLT_TRY(combine_gradients(plan, emitter, s));
        CLT_TRY(combine_buffers(plan, emitter, s));
    }
    return CLT_OK;
}

clt_status clt_combine_emit_start(clt_plan *plan, ocl_emitter *e)
{
    clt_style style = clt_style_of(e->device);
    e->label = "combine.start";
    for (int32_t s = 0; plan->store && s < plan->store->n_slabs && plan->store->levels; s++) {
        uint64_t elements;
        int32_t value, start;
        CLT_TRY(find_buffers(plan, s, &elements, &value));
        if (elements == 0)
            continue;
        CLT_TRY(find_kept(plan, s, 0, elements, &start));
        clt_elementwise_begin(e, "combine", "combine_start", style);
        ocl_define(e, "LEVELS", plan->store->levels);
        ocl_arg_inout(e, value, CLT_F32, elements);
        ocl_arg_inout(e, start, CLT_F32, elements);
        ocl_arg_in(e, plan->graph->step, CLT_U32, SB_WORDS);
        clt_elementwise_end(e, elements, 0, style);
    }
    return ocl_emit_status(e);
}
