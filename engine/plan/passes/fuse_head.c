/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuses a GEMM with the loss that is the only reader of its outputs, if the loss names an op that does both.
 * In training the backward phase then does the work of both, the loss record included: logits are computed
 * some rows at a time and their gradient replaces them. In evaluation fusing pays only if there are several
 * such chunks of rows. */
#include <string.h>

#include "engine/ops/cross_entropy/linear_cross_entropy.h"
#include "engine/plan/passes/fuse.h"

typedef struct head {
    size_t linear, loss;           /* forward works */
    size_t linear_back, loss_back; /* backward works, CLT_NO_WORK in evaluation */
} head;

static bool chunked(const clt_plan *plan, int32_t logits)
{
    const clt_tensor *t = clt_graph_tensor(plan->graph, logits);
    int64_t rows = clt_shape_rows(&t->shape), row = clt_shape_last(&t->shape);
    return clt_head_chunk(rows, row * (int64_t)clt_dtype_bytes(t->dtype)) < rows;
}

/* True if only the loss writes the gradient of the logits, and only the linear layer reads it. */
static bool gradients_match(const clt_plan *plan, const head *h)
{
    if (h->linear_back == CLT_NO_WORK || h->loss_back == CLT_NO_WORK || h->loss_back > h->linear_back)
        return false;
    const clt_work *loss = &plan->work[h->loss_back], *linear = &plan->work[h->linear_back];
    return loss->din[0] >= 0 && !loss->din_accumulate[0] &&
           clt_fuse_same(plan, loss->din[0], linear->dout[0]);
}

/* Finds the linear layer at `at` and its loss. False: they cannot be fused. */
static bool find_head(const clt_fuse *f, size_t at, head *h)
{
    const clt_plan *plan = f->plan;
    const clt_node *linear = plan->work[at].node;
    int32_t logits = linear->out[0];
    h->linear = at;
    if (!(linear->op->flags & CLT_OP_GEMM) || clt_fuse_readers(f, logits, &h->loss) != 1 ||
        clt_fuse_kept(f, logits))
        return false;
    const clt_node *loss = plan->work[h->loss].node;
    /* the fused op has rows of logits, the classes last, one target for each, and no weights of classes */
    if (!loss->op->with_gemm || loss->n_in != 2 || loss->constant >= 0 ||
        clt_graph_tensor(plan->graph, logits)->layout != CLT_LAYOUT_ROW_MAJOR ||
        !clt_fuse_same(plan, loss->in[0], logits) ||
        clt_shape_last(&clt_graph_tensor(plan->graph, loss->in[0])->shape) !=
            clt_shape_last(&clt_graph_tensor(plan->graph, logits)->shape))
        return false;
    h->linear_back = clt_fuse_backward_of(f, linear);
    h->loss_back = clt_fuse_backward_of(f, loss);
    return plan->options.mode == CLT_PLAN_EVAL ? chunked(plan, logits) : gradients_match(plan, h);
}

/* Copies the attribute values of the fused op from the attributes of the two nodes that have the same
 * name. */
static void copy_attrs(clt_node *node, const clt_node *linear, const clt_node *loss)
{
    for (int i = 0; i < node->op->n_attrs; i++) {
        const char *name = node->op->attrs[i].name;
        const clt_node *from[2] = {linear, loss};
        memset(&node->attr[i], 0, sizeof node->attr[i]);
        for (int k = 0; k < 2; k++)
            for (int a = 0; a < from[k]->op->n_attrs; a++)
                if (strcmp(from[k]->op->attrs[a].name, name) == 0)
                    node->attr[i] = from[k]->attr[a];
    }
}

static clt_status make_node(clt_fuse *f, const head *h, clt_node **out)
{
    const clt_plan *plan = f->plan;
    const clt_node *linear = plan->work[h->linear].node, *loss = plan->work[h->loss].node;
    clt_node *node;
    CLT_TRY(clt_fuse_clone(f, loss, &node));
    node->op = loss->op->with_gemm;
    node->name = clt_arena_printf(plan->graph->arena, "%s+%s", linear->name, loss->name);
    if (!node->name)
        return CLT_ENOMEM;
    copy_attrs(node, linear, loss);
    node->in[0] = linear->in[0];
    node->n_saved = 0;
    node->n_param = linear->n_param;
    memcpy(node->param, linear->param, sizeof node->param);
    *out = node;
    return CLT_OK;
}

static clt_status fuse(clt_fuse *f, const head *h)
{
    clt_plan *plan = f->plan;
    clt_node *node;
    CLT_TRY(make_node(f, h, &node));
    if (plan->options.mode == CLT_PLAN_EVAL) {
        plan->work[h->loss].node = node;
    } else {
        clt_work *back = &plan->work[h->linear_back];
        back->node = node;
        back->dout[0] = -1;
        back->record = true;
        clt_fuse_kill(&plan->work[h->loss_back]);
        clt_fuse_kill(&plan->work[h->loss]);
    }
    clt_fuse_kill(&plan->work[h->linear]);
    return clt_fuse_changed(f, plan->options.mode == CLT_PLAN_EVAL ? h->loss : h->linear_back);
}

clt_status clt_fuse_head(clt_fuse *f)
{
    for (size_t w = 0; w < f->plan->n_forward; w++) {
        head h;
        if (!clt_fuse_dead(&f->plan->work[w]) && find_head(f, w, &h))
            CLT_TRY(fuse(f, &h));
    }
    return CLT_OK;
}
