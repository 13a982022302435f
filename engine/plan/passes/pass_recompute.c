/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass 7, recompute: trades time for memory. A value that backward needs is computed again shortly before it
 * is used, into another tensor (its recomputed copy), so that the memory of the original is free after its
 * last forward use. The same kernels on the same inputs give the same bits. This holds for dropout, too,
 * whose masks are a function of step, op and element. Losses are never recomputed. The memory pass makes use
 * of the shorter lifetimes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/plan/passes/fuse.h"
#include "engine/plan/passes/recompute.h"

clt_status clt_again_tensor(clt_again *a, int32_t tensor)
{
    const clt_tensor *t = clt_graph_tensor(a->plan->graph, tensor);
    char name[300];
    int32_t id;
    if (a->second[tensor] >= 0)
        return CLT_OK;
    snprintf(name, sizeof name, "%s again", t->name);
    CLT_TRY(clt_graph_new_tensor(a->plan->graph, name, t->dtype, &t->shape, t->cls, &id));
    clt_graph_tensor(a->plan->graph, id)->producer = t->producer;
    clt_graph_tensor(a->plan->graph, id)->layout = t->layout;
    a->second[tensor] = id;
    return CLT_OK;
}

/* Replaces *tensor by its recomputed copy, or by a view of that copy, if its owner has one. */
static clt_status map_tensor(clt_again *a, int32_t *tensor)
{
    if (*tensor < 0 || (size_t)*tensor >= a->n)
        return CLT_OK;
    int32_t owner = clt_plan_owner(a->plan, *tensor);
    if (a->second[owner] < 0)
        return CLT_OK;
    if (owner != *tensor && a->second[*tensor] < 0) {
        CLT_TRY(clt_again_tensor(a, *tensor));
        clt_graph_tensor(a->plan->graph, a->second[*tensor])->view_of = a->second[owner];
    }
    *tensor = a->second[*tensor];
    return CLT_OK;
}

/* Maps an output of recomputed work. */
static clt_status map_output(clt_again *a, int32_t *tensor)
{
    int32_t kept = *tensor;
    CLT_TRY(map_tensor(a, tensor));
    if (kept < 0 || *tensor != kept)
        return CLT_OK;
    CLT_TRY(clt_again_tensor(a, kept));
    *tensor = a->second[kept];
    a->second[kept] = -1; /* the original stays in use */
    return CLT_OK;
}

clt_status clt_again_push(clt_again *a, const clt_work *work, bool repeat)
{
    CLT_TRY(clt_grow(&a->list, &a->capacity, a->count + 1, sizeof *a->list, "work list"));
    clt_work *copy = &a->list[a->count];
    clt_node *node = clt_arena_alloc(a->plan->graph->arena, sizeof *node);
    if (!node)
        return CLT_ENOMEM;
    *copy = *work;
    *node = *work->node;
    copy->node = node;
    for (int i = 0; i < node->n_in; i++)
        CLT_TRY(map_tensor(a, &node->in[i]));
    for (int i = 0; i < node->n_out; i++)
        CLT_TRY(repeat ? map_output(a, &node->out[i]) : map_tensor(a, &node->out[i]));
    bool saves = repeat && !(node->op->flags & CLT_OP_REPEATS_BY_SAVED);
    for (int i = 0; i < node->n_saved; i++)
        CLT_TRY(saves ? map_output(a, &node->saved[i]) : map_tensor(a, &node->saved[i]));
    CLT_TRY(map_tensor(a, &copy->epilogue.residual));
    CLT_TRY(map_tensor(a, &copy->epilogue.dact));
    CLT_TRY(repeat ? map_output(a, &copy->epilogue.pre) : map_tensor(a, &copy->epilogue.pre));
    copy->again = repeat;
    a->count++;
    return CLT_OK;
}

/* The works that name a tensor: the position of one, and whether there are others. */
typedef struct named_by {
    size_t work;
    bool once, others;
} named_by;

static void name_tensor(const clt_plan *plan, named_by *by_owner, int32_t tensor, size_t at)
{
    if (tensor < 0)
        return;
    named_by *n = &by_owner[clt_plan_owner(plan, tensor)];
    n->others |= n->once && n->work != at;
    n->work = n->once ? n->work : at;
    n->once = true;
}

static void name_tensors(const clt_again *a, named_by *by_owner)
{
    for (size_t w = 0; w < a->count; w++) {
        const clt_work *work = &a->list[w];
        for (int i = 0; i < work->node->n_in; i++)
            name_tensor(a->plan, by_owner, work->node->in[i], w);
        for (int i = 0; i < work->node->n_out; i++)
            name_tensor(a->plan, by_owner, work->node->out[i], w);
        name_tensor(a->plan, by_owner, work->epilogue.residual, w);
        name_tensor(a->plan, by_owner, work->epilogue.dact, w);
    }
}

/* Lets forward no longer store the input of an activation if backward reads it only from its recomputed
 * copy. */
static clt_status drop_unread(clt_again *a, size_t n_forward)
{
    CLT_FREED bool *kept = NULL;
    CLT_FREED named_by *by_owner = NULL;
    CLT_TRY(clt_plan_kept(a->plan, &kept));
    CLT_TRY(clt_alloc(&by_owner, a->plan->graph->n_tensors, sizeof *by_owner, "recomputation"));
    name_tensors(a, by_owner);
    for (size_t w = 0; w < n_forward; w++) {
        int32_t pre = a->list[w].epilogue.pre, owner = pre < 0 ? -1 : clt_plan_owner(a->plan, pre);
        bool used = pre >= 0 && by_owner[owner].once && (by_owner[owner].others || by_owner[owner].work != w);
        if (pre >= 0 && !used && !kept[owner])
            a->list[w].epilogue.pre = -1;
    }
    return CLT_OK;
}

static clt_status again_open(clt_again *a, clt_plan *plan)
{
    CLT_TRY(clt_plan_make_records(plan));
    a->plan = plan;
    a->n = plan->graph->n_tensors;
    CLT_TRY(clt_alloc(&a->touched, plan->n_work, sizeof *a->touched, "recomputation"));
    CLT_TRY(clt_alloc(&a->second, a->n, sizeof *a->second, "recomputation"));
    memset(a->second, 0xff, a->n * sizeof *a->second);
    for (size_t w = 0; w < plan->n_work; w++)
        CLT_TRY(clt_work_touches(plan, &plan->work[w], &a->touched[w]));
    return CLT_OK;
}

static void clt_again_end_scope(clt_again *a)
{
    for (size_t w = 0; a->touched && w < a->n_work; w++)
        clt_touched_free(&a->touched[w]);
    free(a->touched);
    free(a->second);
    free(a->list);
}

clt_status clt_pass_recompute(clt_plan *plan)
{
    CLT_SCOPED(clt_again) again = {.n_work = plan->n_work};
    clt_recompute tier = plan->options.recompute;
    if (plan->options.mode != CLT_PLAN_TRAIN || tier == CLT_RECOMPUTE_NONE)
        return CLT_OK;
    CLT_TRY(again_open(&again, plan));
    for (size_t w = 0; w < plan->n_forward; w++)
        CLT_TRY(clt_again_push(&again, &plan->work[w], false));
    CLT_TRY(tier == CLT_RECOMPUTE_GELU ? clt_recompute_cheap(&again) : clt_recompute_blocks(&again));
    CLT_TRY(drop_unread(&again, plan->n_forward));
    free(plan->work);
    plan->work = CLT_TAKE(again.list);
    plan->n_work = again.count;
    plan->work_capacity = again.capacity;
    return CLT_OK;
}
