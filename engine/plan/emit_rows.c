/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands for gradients of embeddings that travel as rows (pass_rows.c): they clear the gradients at the
 * start of BACKWARD, gather the rows of all ranks, and add these rows to the gradient. */
#include "engine/ops/op.h"
#include "engine/plan/plan_internal.h"

clt_status clt_rows_emit_start(clt_plan *plan, ocl_emitter *e)
{
    const clt_graph *graph = plan->graph;
    e->label = "rows";
    for (size_t p = 0; p < graph->n_params && plan->options.accumulation > 1; p++)
        if (clt_rows_alone(plan, (int32_t)p))
            clt_emit_zero(e, plan->gradient[graph->params[p].tensor], 0, CLT_F32,
                          (uint64_t)clt_shape_elements(&graph->params[p].shape));
    return ocl_emit_status(e);
}

uint64_t clt_rows_summed(const clt_plan *plan, const clt_range *bucket)
{
    uint64_t elements = bucket->elements;
    bool before = false; /* other gradients of the bucket come before such tables */
    for (int32_t i = 0; i < plan->store->n_slots && plan->options.accumulation == 1; i++) {
        const clt_store_slot *slot = &plan->store->slots[i];
        uint64_t end = slot->offset + slot->elements;
        if (!slot->trainable || slot->slab != bucket->slab || end <= bucket->first)
            continue;
        uint64_t first = slot->offset > bucket->first ? slot->offset - bucket->first : 0;
        if (clt_rows_alone(plan, i))
            elements = first < elements ? first : elements;
        else
            before |= first < bucket->elements;
    }
    /* ranks that divide the update have shares of whole buckets, so the bucket is not cut */
    return before && plan->options.shard ? bucket->elements : elements;
}

clt_status clt_rows_gather(clt_plan *plan, ocl_emitter *e, clt_sum_kind kind, size_t at, clt_sum *sum)
{
    const clt_work *work = &plan->work[at];
    bool rows = kind == CLT_SUM_ROWS;
    *sum = (clt_sum){.kind = kind, .work = at, .own = rows ? work->dout[0] : work->node->in[0]};
    const clt_tensor *t = clt_graph_tensor(plan->graph, sum->own);
    uint64_t own = (uint64_t)clt_shape_elements(&t->shape);
    clt_dtype type = rows && t->dtype == CLT_F32 ? plan->options.wire : t->dtype;
    if (type != t->dtype)
        sum->own = ocl_workspace(e, type, own, "rows to gather");
    sum->tensor = ocl_workspace(e, type, own * (uint64_t)plan->options.ranks,
                                rows ? "rows of all ranks" : "indices of all ranks");
    return ocl_emit_status(e);
}

clt_status clt_rows_emit_send(clt_plan *plan, ocl_emitter *e, const clt_sum *sum)
{
    const clt_tensor *from = clt_graph_tensor(plan->graph, plan->work[sum->work].dout[0]);
    if (sum->own != from->id)
        clt_emit_convert(e, sum->own, plan->options.wire, from->id, from->dtype,
                         (uint64_t)clt_shape_elements(&from->shape));
    return ocl_emit_status(e);
}

clt_status clt_rows_emit_add(clt_plan *plan, ocl_emitter *e, const clt_sum *sum)
{
    clt_work work = plan->work[sum->work];
    const clt_sum *indices = plan->sums;
    clt_node *node = clt_arena_alloc(plan->graph->arena, sizeof *node);
    if (!node)
        return CLT_ENOMEM;
    while (indices->kind != CLT_SUM_INDICES || indices->work != sum->work)
        indices++;
    *node = *work.node;
    node->in[0] = indices->tensor;
    work.node = node;
    work.dout[0] = sum->tensor;
    const char *label = e->label;
    clt_status status = clt_select_work(plan, e, &work, false);
    e->label = label;
    return status;
}
