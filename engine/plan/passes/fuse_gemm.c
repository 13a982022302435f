/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuses a GEMM with its neighbours, whose work its epilogue then does. Forward: the activation that follows,
 * and the residual that is added to it. Backward: the derivative of the activation whose output's gradient
 * the GEMM computes. Arithmetic and order are the same as in separate kernels, so f32 results are the same
 * bit for bit. Each op declares its role in an epilogue (engine/ops/op.h). */
#include "engine/plan/passes/fuse.h"

static const clt_tensor *tensor_of(const clt_fuse *f, int32_t id)
{
    return clt_graph_tensor(f->plan->graph, id);
}

/* --- derivative, backward --- */

/* True when a work adds a gradient to another one, or reads it as the gradient of an output. */
static bool takes_gradient(const clt_plan *plan, const clt_work *work, int32_t gradient)
{
    if (work->kind == CLT_WORK_ADD)
        return clt_fuse_same(plan, work->add_to, gradient) || clt_fuse_same(plan, work->add_from, gradient);
    for (int i = 0; i < work->node->n_out; i++)
        if (clt_fuse_same(plan, work->dout[i], gradient))
            return true;
    return false;
}

/* The one work that writes a gradient, if that is a GEMM with an epilogue; CLT_NO_WORK if other works add to
 * the gradient, or read it before `reader` does. */
static size_t gemm_source(const clt_fuse *f, int32_t gradient, size_t reader)
{
    const clt_plan *plan = f->plan;
    size_t source = CLT_NO_WORK, w;
    CLT_FOR_MENTIONS (f, gradient, w) {
        const clt_work *work = &plan->work[w];
        if (w < plan->n_forward || clt_fuse_dead(work) || w == reader)
            continue;
        if (takes_gradient(plan, work, gradient))
            return CLT_NO_WORK;
        for (int i = 0; work->kind != CLT_WORK_ADD && i < work->node->n_in; i++) {
            if (!clt_fuse_same(plan, work->din[i], gradient))
                continue;
            if (source != CLT_NO_WORK || !(work->node->op->flags & CLT_OP_GEMM_DX) || i != 0 ||
                work->din[i] != gradient || work->din_accumulate[i] || work->epilogue.dact >= 0)
                return CLT_NO_WORK;
            source = w;
        }
    }
    return source < reader ? source : CLT_NO_WORK;
}

/* True when a work between the two reads or writes the gradient, so that it cannot be computed earlier. */
static bool touched_between(const clt_fuse *f, int32_t gradient, size_t after, size_t before)
{
    const clt_plan *plan = f->plan;
    size_t w;
    CLT_FOR_MENTIONS (f, gradient, w) {
        const clt_work *work = &plan->work[w];
        if (w <= after || w >= before || clt_fuse_dead(work))
            continue;
        if (takes_gradient(plan, work, gradient))
            return true;
        for (int i = 0; work->kind != CLT_WORK_ADD && i < work->node->n_in; i++)
            if (clt_fuse_same(plan, work->din[i], gradient))
                return true;
    }
    return false;
}

/* Makes the backward work of an activation part of the GEMM that computes the gradient of the activation's
 * output. */
static clt_status fold_derivative(clt_fuse *f, size_t at)
{
    clt_work *work = &f->plan->work[at];
    ocl_activation activation = clt_fuse_activation_of(work->node);
    int32_t x = work->node->in[0], y = work->node->out[0];
    if (activation == OCL_ACT_NONE || work->din[0] < 0 ||
        tensor_of(f, x)->dtype != tensor_of(f, work->din[0])->dtype)
        return CLT_OK;
    size_t source = gemm_source(f, work->dout[0], at);
    if (source == CLT_NO_WORK || touched_between(f, work->din[0], source, at))
        return CLT_OK;
    clt_work *gemm = &f->plan->work[source];
    gemm->din[0] = work->din[0];
    gemm->din_accumulate[0] = work->din_accumulate[0];
    gemm->epilogue.activation = activation;
    /* relu's output has the sign of its input, so the input need not be kept */
    gemm->epilogue.dact = activation == OCL_ACT_RELU ? y : x;
    clt_fuse_note(gemm, work->node);
    clt_fuse_kill(work);
    return clt_fuse_changed(f, source);
}

/* --- activation and residual, forward --- */

/* The position of the first activation that reads the GEMM's output; CLT_NO_WORK: there is none. */
static size_t find_activation(const clt_fuse *f, int32_t out)
{
    size_t found = CLT_NO_WORK, w;
    CLT_FOR_MENTIONS (f, out, w) {
        const clt_work *work = &f->plan->work[w];
        if (w < found && w < f->plan->n_forward && !clt_fuse_dead(work) && work->node->in[0] == out &&
            clt_fuse_activation_of(work->node) != OCL_ACT_NONE && work->node->n_in == 1)
            found = w;
    }
    return found;
}

/* True when a backward work reads the activation's input: the activation's own, or a GEMM that has the
 * derivative in its epilogue. */
static bool backward_reads(const clt_fuse *f, const clt_node *activation, int32_t x)
{
    size_t w;
    if (clt_fuse_backward_of(f, activation) != CLT_NO_WORK)
        return true;
    CLT_FOR_MENTIONS (f, x, w)
        if (w >= f->plan->n_forward && !clt_fuse_dead(&f->plan->work[w]) &&
            f->plan->work[w].epilogue.dact == x)
            return true;
    return false;
}

static clt_status fuse_activation(clt_fuse *f, clt_work *gemm, int32_t *result)
{
    clt_plan *plan = f->plan;
    int32_t x = *result;
    size_t at = find_activation(f, x), only;
    if (at == CLT_NO_WORK)
        return CLT_OK;
    const clt_node *node = plan->work[at].node;
    gemm->epilogue.activation = clt_fuse_activation_of(node);
    clt_fuse_note(gemm, node);
    *result = node->out[0];
    clt_fuse_kill(&plan->work[at]);
    bool others = clt_fuse_readers(f, x, &only) > 0 || clt_fuse_kept(f, x);
    size_t back = clt_fuse_backward_of(f, node);
    if (!others && back != CLT_NO_WORK && gemm->epilogue.activation == OCL_ACT_RELU) {
        clt_node *from_output;
        CLT_TRY(clt_fuse_clone(f, node, &from_output));
        from_output->in[0] = node->out[0];
        plan->work[back].node = from_output;
        return clt_fuse_changed(f, back);
    }
    if (others || backward_reads(f, node, x))
        gemm->epilogue.pre = x;
    return CLT_OK;
}

static clt_status fuse_forward(clt_fuse *f, size_t at)
{
    int32_t result = f->plan->work[at].node->out[0];
    CLT_TRY(fuse_activation(f, &f->plan->work[at], &result));
    CLT_TRY(clt_fuse_residual(f, at, &result));
    return clt_fuse_yield(f, at, result);
}

clt_status clt_fuse_gemms(clt_fuse *f)
{
    const clt_plan *plan = f->plan;
    for (size_t w = plan->n_forward; w < plan->n_work; w++)
        if (!clt_fuse_dead(&plan->work[w]) && plan->work[w].kind == CLT_WORK_BACKWARD)
            CLT_TRY(fold_derivative(f, w));
    for (size_t w = 0; w < plan->n_forward; w++)
        if (!clt_fuse_dead(&plan->work[w]) && (plan->work[w].node->op->flags & CLT_OP_GEMM))
            CLT_TRY(fuse_forward(f, w));
    return CLT_OK;
}
