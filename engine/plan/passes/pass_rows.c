/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass 4, rows: with several ranks, decides which gradients of embeddings travel as rows. The gradient of a
 * table is a sum of rows, one for each position of the micro-batch, which are added to the table's rows that
 * the indices name. Where the positions of all ranks are at most the table's rows, gathering rows and
 * indices takes at most half the bytes of summing tables. Besides, the gradient of a table that is also the
 * matrix of the last layer (tied) can be summed as soon as that layer has added to it, at the beginning of
 * the backward pass instead of at its end. Every rank then adds the rows of all ranks to the sum, in the
 * same order. The works that make such gradients are moved after all others, so that later passes know that
 * rows and indices are needed until then. */
#include <stdlib.h>

#include "engine/ops/op.h"
#include "engine/plan/plan_internal.h"

static bool is_embedding(const clt_work *work)
{
    return work->kind == CLT_WORK_BACKWARD && (work->node->op->flags & CLT_OP_ROWS) && work->dparam[0] >= 0;
}

static int64_t positions_of(const clt_plan *plan, const clt_node *node)
{
    return clt_shape_elements(&clt_graph_tensor(plan->graph, node->in[0])->shape);
}

/* True if other work also computes part of a table's gradient: the table is then summed as well. */
static bool has_dense_part(const clt_plan *plan, int32_t param)
{
    bool any = plan->options.accumulation > 1;
    for (size_t w = plan->n_forward; w < plan->n_work && !any; w++) {
        const clt_work *work = &plan->work[w];
        for (int i = 0; work->kind == CLT_WORK_BACKWARD && i < work->node->n_param; i++)
            any |= work->node->param[i] == param && work->dparam[i] >= 0 && !is_embedding(work);
    }
    return any;
}

/* True if the gradient of this table is to travel as rows: if the options say so, or if the positions of all
 * ranks, over all works that contribute rows, are at most the table's rows. If the table is summed as well,
 * they may be at most a quarter of its rows, so that gathering takes at most an eighth of the bytes of the
 * sum. */
static bool wanted(const clt_plan *plan, int32_t param)
{
    int64_t positions = 0, most = plan->graph->params[param].shape.dim[0];
    for (size_t w = plan->n_forward; w < plan->n_work; w++)
        if (is_embedding(&plan->work[w]) && plan->work[w].node->param[0] == param)
            positions += positions_of(plan, plan->work[w].node);
    if (has_dense_part(plan, param))
        most /= 4;
    return plan->options.embeddings == CLT_EMBEDDINGS_ROWS || positions * plan->options.ranks <= most;
}

/* Moves the works with rows after the others; both keep their order. */
static clt_status move_last(clt_plan *plan)
{
    clt_work *works;
    size_t n = 0;
    CLT_TRY(clt_alloc(&works, plan->work_capacity, sizeof *works, "work list"));
    for (int rows = 0; rows < 2; rows++)
        for (size_t w = 0; w < plan->n_work; w++)
            if (plan->work[w].rows == (rows == 1))
                works[n++] = plan->work[w];
    free(plan->work);
    plan->work = works;
    return CLT_OK;
}

/* Sets which work writes a gradient and which add to it, in the new order. */
static void set_accumulate(clt_plan *plan, int32_t param)
{
    bool written = false;
    for (size_t w = plan->n_forward; w < plan->n_work; w++) {
        clt_work *work = &plan->work[w];
        for (int i = 0; work->kind == CLT_WORK_BACKWARD && i < work->node->n_param; i++) {
            if (work->node->param[i] != param || work->dparam[i] < 0)
                continue;
            /* the gradient already has rows of earlier micro-batches, of this rank or of another one */
            work->dparam_accumulate[i] = written || (work->rows && plan->options.accumulation > 1);
            written = true;
        }
    }
}

bool clt_rows_any(const clt_plan *plan, int32_t param)
{
    bool any = false;
    for (size_t w = plan->n_forward; w < plan->n_work && !any; w++)
        any = plan->work[w].rows && plan->work[w].node->param[0] == param;
    return any;
}

bool clt_rows_alone(const clt_plan *plan, int32_t param)
{
    for (size_t w = plan->n_forward; w < plan->n_work; w++) {
        const clt_work *work = &plan->work[w];
        for (int i = 0; work->kind == CLT_WORK_BACKWARD && i < work->node->n_param; i++)
            if (work->node->param[i] == param && work->dparam[i] >= 0 && !work->rows)
                return false;
    }
    return clt_rows_any(plan, param);
}

clt_status clt_pass_rows(clt_plan *plan)
{
    const clt_plan_options *o = &plan->options;
    if (o->mode != CLT_PLAN_TRAIN || o->ranks <= 1 || o->tree || o->embeddings == CLT_EMBEDDINGS_DENSE ||
        o->update.order.dense)
        return CLT_OK;
    for (size_t w = plan->n_forward; w < plan->n_work; w++)
        if (is_embedding(&plan->work[w]))
            plan->work[w].rows = wanted(plan, plan->work[w].node->param[0]);
    CLT_TRY(move_last(plan));
    for (size_t w = plan->n_forward; w < plan->n_work; w++)
        if (plan->work[w].rows)
            set_accumulate(plan, plan->work[w].node->param[0]);
    return CLT_OK;
}
