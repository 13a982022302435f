/* SPDX-License-Identifier: Apache-2.0
 *
 * Queries of the work list for the parts of the fuse pass, and edits of the list. */
#include "engine/plan/passes/fuse.h"

#include <stdlib.h>
#include <string.h>

#include "engine/plan/plan_internal.h"

/* --- which works name a tensor --- */

int32_t clt_fuse_first(const clt_fuse *f, int32_t tensor)
{
    return tensor < 0 ? -1 : f->first[clt_plan_owner(f->plan, tensor)];
}

/* Adds a mention, unless the work has one. New mentions are put first, so while the index is being built, a
 * mention of the current work, if there is one, is the first. */
static clt_status mention(clt_fuse *f, int32_t tensor, size_t at)
{
    size_t work;
    if (tensor < 0)
        return CLT_OK;
    CLT_FOR_MENTIONS (f, tensor, work) {
        if (work == at)
            return CLT_OK;
        if (!f->opened)
            break;
    }
    if (f->n == f->room)
        CLT_TRY(clt_grow(&f->mention, &f->room, f->n + 1, sizeof *f->mention, "mentions of tensors"));
    int32_t owner = clt_plan_owner(f->plan, tensor);
    f->mention[f->n] = (clt_mention){at, f->first[owner]};
    f->first[owner] = (int32_t)f->n++;
    return CLT_OK;
}

clt_status clt_fuse_changed(clt_fuse *f, size_t at)
{
    const clt_work *work = &f->plan->work[at];
    if (clt_fuse_dead(work))
        return CLT_OK;
    for (int i = 0; i < work->node->n_in; i++) {
        CLT_TRY(mention(f, work->node->in[i], at));
        CLT_TRY(mention(f, work->din[i], at));
    }
    for (int i = 0; i < work->node->n_out; i++) {
        CLT_TRY(mention(f, work->node->out[i], at));
        CLT_TRY(mention(f, work->dout[i], at));
    }
    CLT_TRY(mention(f, work->epilogue.residual, at));
    CLT_TRY(mention(f, work->epilogue.dact, at));
    if (work->kind == CLT_WORK_ADD) {
        CLT_TRY(mention(f, work->add_to, at));
        CLT_TRY(mention(f, work->add_from, at));
    }
    if (work->kind == CLT_WORK_BACKWARD)
        f->backward[work->node->id] = at;
    return CLT_OK;
}

clt_status clt_fuse_open(clt_plan *plan, clt_fuse *f)
{
    const clt_graph *graph = plan->graph;
    *f = (clt_fuse){.plan = plan};
    CLT_TRY(clt_plan_kept(plan, &f->kept));
    CLT_TRY(clt_alloc(&f->first, graph->n_tensors, sizeof *f->first, "mentions of tensors"));
    CLT_TRY(clt_alloc(&f->backward, graph->n_nodes + 1, sizeof *f->backward, "backward work"));
    for (size_t i = 0; i < graph->n_tensors; i++)
        f->first[i] = -1;
    for (size_t i = 0; i < graph->n_nodes; i++)
        f->backward[i] = CLT_NO_WORK;
    for (size_t w = plan->n_work; w-- > 0;)
        CLT_TRY(clt_fuse_changed(f, w));
    f->opened = true;
    return CLT_OK;
}

void clt_fuse_close(clt_fuse *f)
{
    free(f->kept);
    free(f->first);
    free(f->backward);
    free(f->mention);
    *f = (clt_fuse){0};
}

/* --- questions --- */

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

ocl_activation clt_fuse_activation_of(const clt_node *node)
{
    return node->op->activation ? node->op->activation(node) : OCL_ACT_NONE;
}

size_t clt_fuse_producer(const clt_fuse *f, int32_t tensor)
{
    size_t made = CLT_NO_WORK, w;
    CLT_FOR_MENTIONS (f, tensor, w) {
        const clt_work *work = &f->plan->work[w];
        for (int i = 0; w < f->plan->n_forward && !clt_fuse_dead(work) && i < work->node->n_out; i++)
            if (w < made && clt_fuse_same(f->plan, work->node->out[i], tensor))
                made = w;
    }
    return made;
}

/* True if the work at `at` reads the tensor in its forward part. A loss that is fused with its linear layer
 * no longer has forward work. Its backward work reads the tensors that this layer read. */
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

int clt_fuse_readers(const clt_fuse *f, int32_t tensor, size_t *only)
{
    int readers = 0;
    size_t w;
    *only = 0;
    CLT_FOR_MENTIONS (f, tensor, w)
        if (reads(f->plan, w, tensor)) {
            readers++;
            *only = w > *only ? w : *only;
        }
    return readers;
}

size_t clt_fuse_backward_of(const clt_fuse *f, const clt_node *node)
{
    size_t at = f->backward[node->id];
    if (at == CLT_NO_WORK || clt_fuse_dead(&f->plan->work[at]) || f->plan->work[at].node->id != node->id)
        return CLT_NO_WORK;
    return at;
}

bool clt_fuse_kept(const clt_fuse *f, int32_t tensor)
{
    return f->kept[clt_plan_owner(f->plan, tensor)];
}

/* --- editing --- */

clt_status clt_fuse_clone(clt_fuse *f, const clt_node *node, clt_node **out)
{
    *out = clt_arena_alloc(f->plan->graph->arena, sizeof **out);
    if (!*out)
        return CLT_ENOMEM;
    **out = *node;
    return CLT_OK;
}

clt_status clt_fuse_yield(clt_fuse *f, size_t at, int32_t result)
{
    clt_node *node;
    if (f->plan->work[at].node->out[0] == result)
        return CLT_OK;
    CLT_TRY(clt_fuse_clone(f, f->plan->work[at].node, &node));
    node->out[0] = result;
    f->plan->work[at].node = node;
    return clt_fuse_changed(f, at);
}
