/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuses the forward work of an op with the residual sum that follows it: one kernel runs instead of two, and
 * the op's own result is not stored. Backward does not change, because the gradient of a sum is the gradient
 * of both inputs. The arithmetic is the same as in separate kernels, so f32 results are the same bit for
 * bit; with 16-bit storage the sum is rounded once instead of twice. A cast between the op and the sum,
 * which the precision pass puts there, becomes part of the op as well: it then writes the type of the sum.
 * Knows no op by name. */
#include "engine/plan/passes/fuse.h"

/* The works that follow an op: a cast of its result (or CLT_NO_WORK), and then a sum. */
typedef struct sum_after {
    size_t cast, sum;
} sum_after;

/* The output of the cast that reads y, if nothing else reads y; otherwise y. An op with an activation in its
 * epilogue may store that activation's input, which has the type of y, and thus keeps y's type. */
static int32_t after_cast(const clt_fuse *f, size_t at, int32_t y, size_t *cast)
{
    size_t reader;
    *cast = CLT_NO_WORK;
    if (f->plan->work[at].epilogue.activation != OCL_ACT_NONE || clt_fuse_readers(f, y, &reader) != 1 ||
        clt_fuse_kept(f, y))
        return y;
    const clt_node *node = f->plan->work[reader].node;
    if (!node->op->only_converts || !node->op->only_converts(node))
        return y;
    *cast = reader;
    return node->out[0];
}

/* The node that adds two tensors and is the only reader of y, or of y in another type, as its input *side;
 * NULL: there is none that can be fused. */
static const clt_node *find_sum(const clt_fuse *f, size_t at, int32_t y, sum_after *found, int *side)
{
    const clt_plan *plan = f->plan;
    size_t *reader = &found->sum;
    y = after_cast(f, at, y, &found->cast);
    if (clt_fuse_readers(f, y, reader) != 1 || clt_fuse_kept(f, y))
        return NULL;
    const clt_node *sum = plan->work[*reader].node;
    if (!(sum->op->flags & CLT_OP_SUM) || sum->n_in != 2)
        return NULL;
    *side = sum->in[1] == y ? 1 : 0;
    int32_t residual = sum->in[1 - *side];
    const clt_tensor *x = clt_graph_tensor(plan->graph, residual), *own = clt_graph_tensor(plan->graph, y);
    if (sum->in[*side] != y || clt_fuse_same(plan, residual, y) || !clt_shape_equal(&x->shape, &own->shape) ||
        x->dtype != own->dtype)
        return NULL;
    size_t made = clt_fuse_producer(f, residual);
    /* the other input must exist before this work runs */
    return made == CLT_NO_WORK || made < at ? sum : NULL;
}

/* True when a backward work needs the op's output, which then must be stored. */
static bool backward_reads_output(const clt_fuse *f, size_t at, int32_t y)
{
    const clt_plan *plan = f->plan;
    bool relu = plan->work[at].epilogue.activation == OCL_ACT_RELU;
    size_t w;
    CLT_FOR_MENTIONS (f, y, w) {
        const clt_work *work = &plan->work[w];
        if (w < plan->n_forward || clt_fuse_dead(work))
            continue;
        if (work->epilogue.dact == y)
            return true;
        if (relu && clt_fuse_activation_of(work->node) == OCL_ACT_RELU && work->node->out[0] == y)
            return true;
    }
    return false;
}

clt_status clt_fuse_residual(clt_fuse *f, size_t at, int32_t *result)
{
    sum_after after;
    int side;
    clt_work *work = &f->plan->work[at];
    if (!work->node->op->takes_residual || !work->node->op->takes_residual(work->node))
        return CLT_OK;
    const clt_node *sum = find_sum(f, at, *result, &after, &side);
    if (!sum || backward_reads_output(f, at, *result))
        return CLT_OK;
    work->epilogue.residual = sum->in[1 - side];
    clt_fuse_note(work, sum);
    *result = sum->out[0];
    clt_fuse_kill(&f->plan->work[after.sum]);
    if (after.cast != CLT_NO_WORK)
        clt_fuse_kill(&f->plan->work[after.cast]);
    return clt_fuse_changed(f, at);
}

clt_status clt_fuse_sums(clt_fuse *f)
{
    for (size_t w = 0; w < f->plan->n_forward; w++) {
        const clt_node *node = f->plan->work[w].node;
        if (clt_fuse_dead(&f->plan->work[w]) || (node->op->flags & CLT_OP_GEMM))
            continue;
        int32_t result = node->out[0];
        CLT_TRY(clt_fuse_residual(f, w, &result));
        CLT_TRY(clt_fuse_yield(f, w, result));
    }
    return CLT_OK;
}
