/* SPDX-License-Identifier: Apache-2.0
 *
 * Questions that the parts of the fuse pass put to the work list. */
#include "engine/plan/fuse.h"

#include <string.h>

bool clt_fuse_same(const clt_plan *plan, int32_t a, int32_t b)
{
    return a >= 0 && b >= 0 && clt_plan_owner(plan, a) == clt_plan_owner(plan, b);
}

bool clt_fuse_dead(const clt_work *work)
{
    return work->node == NULL;
}

void clt_fuse_kill(clt_work *work)
{
    work->node = NULL;
}

void clt_fuse_note(clt_work *work, const clt_node *node)
{
    for (int i = 0; i < CLT_MAX_FUSED; i++)
        if (!work->fused[i]) {
            work->fused[i] = node;
            return;
        }
}

bool clt_fuse_is(const clt_node *node, const char *op)
{
    return strcmp(node->op->name, op) == 0;
}

size_t clt_fuse_producer(const clt_plan *plan, int32_t tensor)
{
    for (size_t w = 0; w < plan->n_forward; w++)
        for (int i = 0; !clt_fuse_dead(&plan->work[w]) && i < plan->work[w].node->n_out; i++)
            if (clt_fuse_same(plan, plan->work[w].node->out[i], tensor))
                return w;
    return CLT_NO_WORK;
}

/* A loss that is fused with its linear layer has no forward work any more, yet reads what that layer read. */
static bool reads(const clt_plan *plan, size_t at, int32_t tensor)
{
    const clt_work *work = &plan->work[at];
    if (clt_fuse_dead(work) || (at >= plan->n_forward && !work->record))
        return false;
    if (clt_fuse_same(plan, work->epilogue.residual, tensor))
        return true;
    for (int i = 0; i < work->node->n_in; i++)
        if (clt_fuse_same(plan, work->node->in[i], tensor))
            return true;
    return false;
}

int clt_fuse_readers(const clt_plan *plan, int32_t tensor, size_t *only)
{
    int readers = 0;
    for (size_t w = 0; w < plan->n_work; w++)
        if (reads(plan, w, tensor)) {
            readers++;
            *only = w;
        }
    return readers;
}

size_t clt_fuse_backward_of(const clt_plan *plan, const clt_node *node)
{
    for (size_t w = plan->n_forward; w < plan->n_work; w++)
        if (plan->work[w].kind == CLT_WORK_BACKWARD && !clt_fuse_dead(&plan->work[w]) &&
            plan->work[w].node->id == node->id)
            return w;
    return CLT_NO_WORK;
}

bool clt_fuse_kept(const clt_plan *plan, int32_t tensor)
{
    for (size_t i = 0; i < plan->graph->n_tensors; i++) {
        const clt_tensor *t = clt_graph_tensor(plan->graph, (int32_t)i);
        if ((t->is_output || t->persistent) && clt_fuse_same(plan, t->id, tensor))
            return true;
    }
    return false;
}

clt_status clt_fuse_clone(clt_plan *plan, const clt_node *node, clt_node **out)
{
    *out = clt_arena_alloc(plan->graph->arena, sizeof **out);
    if (!*out)
        return CLT_ENOMEM;
    **out = *node;
    return CLT_OK;
}

clt_status clt_fuse_yield(clt_plan *plan, size_t at, int32_t result)
{
    clt_node *node;
    if (plan->work[at].node->out[0] == result)
        return CLT_OK;
    CLT_TRY(clt_fuse_clone(plan, plan->work[at].node, &node));
    node->out[0] = result;
    plan->work[at].node = node;
    return CLT_OK;
}

void clt_fuse_residual(clt_plan *plan, size_t at, int32_t *result)
{
    size_t reader;
    int32_t y = *result;
    if (clt_fuse_readers(plan, y, &reader) != 1 || clt_fuse_kept(plan, y))
        return;
    const clt_node *add = plan->work[reader].node;
    if (!clt_fuse_is(add, "add") || add->n_in != 2)
        return;
    int side = add->in[1] == y ? 1 : 0;
    int32_t residual = add->in[1 - side];
    if (add->in[side] != y || clt_fuse_same(plan, residual, y) ||
        !clt_shape_equal(&clt_graph_tensor(plan->graph, residual)->shape,
                         &clt_graph_tensor(plan->graph, y)->shape) ||
        clt_graph_tensor(plan->graph, residual)->dtype != clt_graph_tensor(plan->graph, y)->dtype)
        return;
    size_t made = clt_fuse_producer(plan, residual);
    if (made != CLT_NO_WORK && made >= at)
        return; /* it comes into being after this layer */
    /* a derivative taken from the output needs the output */
    for (size_t w = plan->n_forward; w < plan->n_work; w++)
        if (!clt_fuse_dead(&plan->work[w]) && plan->work[w].epilogue.dact == y)
            return;
    size_t back = plan->work[at].epilogue.activation == OCL_ACT_RELU ? plan->n_forward : plan->n_work;
    for (; back < plan->n_work; back++)
        if (!clt_fuse_dead(&plan->work[back]) &&
            clt_fuse_activation_of(plan->work[back].node) == OCL_ACT_RELU &&
            plan->work[back].node->out[0] == y)
            return;
    plan->work[at].epilogue.residual = residual;
    clt_fuse_note(&plan->work[at], add);
    *result = add->out[0];
    clt_fuse_kill(&plan->work[reader]);
}
