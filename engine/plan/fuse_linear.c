/* SPDX-License-Identifier: Apache-2.0
 *
 * Fusing a linear layer's neighbours into its GEMM: forward, the activation that follows and the residual
 * that is added to it; backward, the derivative of the activation whose output's gradient the GEMM makes. The
 * arithmetic is that of the separate kernels, in the same order, so results keep their bits (f32). Knows the
 * names of the ops that a GEMM's epilogue can stand for. */
#include "engine/ops/elementwise/elementwise.h"
#include "engine/plan/fuse.h"

ocl_activation clt_fuse_activation_of(const clt_node *node)
{
    if (clt_fuse_is(node, "relu"))
        return OCL_ACT_RELU;
    if (clt_fuse_is(node, "gelu"))
        return clt_node_attr(node, "approximate")->choice == CLT_GELU_TANH ? OCL_ACT_GELU_TANH
                                                                           : OCL_ACT_GELU_ERF;
    return OCL_ACT_NONE;
}

static const clt_tensor *tensor_of(const clt_plan *plan, int32_t id)
{
    return clt_graph_tensor(plan->graph, id);
}

/* --- derivative, backward --- */

/* din[0] of these ops comes from one GEMM. */
static bool makes_dx(const clt_node *node)
{
    return clt_fuse_is(node, "linear") || clt_fuse_is(node, "linear_cross_entropy");
}

/* The one work that makes a gradient from nothing, if it is the dX of a linear layer; CLT_NO_WORK if others
 * contribute or read it before `reader` does. */
static size_t linear_source(const clt_plan *plan, int32_t gradient, size_t reader)
{
    size_t source = CLT_NO_WORK;
    for (size_t w = plan->n_forward; w < plan->n_work; w++) {
        const clt_work *work = &plan->work[w];
        if (clt_fuse_dead(work) || w == reader)
            continue;
        if (work->kind == CLT_WORK_ADD) {
            if (clt_fuse_same(plan, work->add_to, gradient) || clt_fuse_same(plan, work->add_from, gradient))
                return CLT_NO_WORK;
            continue;
        }
        for (int i = 0; i < work->node->n_out; i++)
            if (clt_fuse_same(plan, work->dout[i], gradient))
                return CLT_NO_WORK;
        for (int i = 0; i < work->node->n_in; i++) {
            if (!clt_fuse_same(plan, work->din[i], gradient))
                continue;
            if (source != CLT_NO_WORK || !makes_dx(work->node) || i != 0 || work->din[i] != gradient ||
                work->din_accumulate[i] || work->epilogue.dact >= 0)
                return CLT_NO_WORK;
            source = w;
        }
    }
    return source < reader ? source : CLT_NO_WORK;
}

/* True when a work between the two touches the gradient: then it cannot be made earlier. */
static bool touched_between(const clt_plan *plan, int32_t gradient, size_t after, size_t before)
{
    for (size_t w = after + 1; w < before; w++) {
        const clt_work *work = &plan->work[w];
        if (clt_fuse_dead(work))
            continue;
        if (work->kind == CLT_WORK_ADD) {
            if (clt_fuse_same(plan, work->add_to, gradient) || clt_fuse_same(plan, work->add_from, gradient))
                return true;
            continue;
        }
        for (int i = 0; i < work->node->n_in; i++)
            if (clt_fuse_same(plan, work->din[i], gradient))
                return true;
        for (int i = 0; i < work->node->n_out; i++)
            if (clt_fuse_same(plan, work->dout[i], gradient))
                return true;
    }
    return false;
}

/* The backward work of an activation becomes part of the GEMM that makes its output's gradient. */
static void fold_derivative(clt_plan *plan, size_t at)
{
    clt_work *work = &plan->work[at];
    ocl_activation activation = clt_fuse_activation_of(work->node);
    int32_t x = work->node->in[0], y = work->node->out[0];
    if (activation == OCL_ACT_NONE || work->din[0] < 0 ||
        tensor_of(plan, x)->dtype != tensor_of(plan, work->din[0])->dtype)
        return;
    size_t source = linear_source(plan, work->dout[0], at);
    if (source == CLT_NO_WORK || touched_between(plan, work->din[0], source, at))
        return;
    clt_work *linear = &plan->work[source];
    linear->din[0] = work->din[0];
    linear->din_accumulate[0] = work->din_accumulate[0];
    linear->epilogue.activation = activation;
    /* the sign of relu's output is that of its input, so that the input need not be kept */
    linear->epilogue.dact = activation == OCL_ACT_RELU ? y : x;
    clt_fuse_note(linear, work->node);
    clt_fuse_kill(work);
}

/* --- activation and residual, forward --- */

/* The activation that reads the layer's output, and nothing else but views in between. */
static size_t find_activation(const clt_plan *plan, int32_t out)
{
    for (size_t w = 0; w < plan->n_forward; w++)
        if (!clt_fuse_dead(&plan->work[w]) && plan->work[w].node->in[0] == out &&
            clt_fuse_activation_of(plan->work[w].node) != OCL_ACT_NONE && plan->work[w].node->n_in == 1)
            return w;
    return CLT_NO_WORK;
}

/* True when some backward work reads the activation's input by way of that layer's node, or a derivative. */
static bool backward_reads(const clt_plan *plan, const clt_node *activation, int32_t x)
{
    if (clt_fuse_backward_of(plan, activation) != CLT_NO_WORK)
        return true;
    for (size_t w = plan->n_forward; w < plan->n_work; w++)
        if (!clt_fuse_dead(&plan->work[w]) && plan->work[w].epilogue.dact == x)
            return true;
    return false;
}

static clt_status fuse_activation(clt_plan *plan, clt_work *linear, int32_t *result)
{
    int32_t x = *result;
    size_t at = find_activation(plan, x), only;
    if (at == CLT_NO_WORK)
        return CLT_OK;
    const clt_node *node = plan->work[at].node;
    linear->epilogue.activation = clt_fuse_activation_of(node);
    clt_fuse_note(linear, node);
    *result = node->out[0];
    clt_fuse_kill(&plan->work[at]);
    bool others = clt_fuse_readers(plan, x, &only) > 0 || clt_fuse_kept(plan, x);
    size_t back = clt_fuse_backward_of(plan, node);
    if (!others && back != CLT_NO_WORK && linear->epilogue.activation == OCL_ACT_RELU) {
        clt_node *from_output;
        CLT_TRY(clt_fuse_clone(plan, node, &from_output));
        from_output->in[0] = node->out[0];
        plan->work[back].node = from_output;
        return CLT_OK;
    }
    if (others || backward_reads(plan, node, x))
        linear->epilogue.pre = x;
    return CLT_OK;
}

static clt_status fuse_forward(clt_plan *plan, size_t at)
{
    int32_t result = plan->work[at].node->out[0];
    CLT_TRY(fuse_activation(plan, &plan->work[at], &result));
    clt_fuse_residual(plan, at, &result);
    return clt_fuse_yield(plan, at, result);
}

clt_status clt_fuse_linear(clt_plan *plan)
{
    for (size_t w = plan->n_forward; w < plan->n_work; w++)
        if (!clt_fuse_dead(&plan->work[w]) && plan->work[w].kind == CLT_WORK_BACKWARD)
            fold_derivative(plan, w);
    for (size_t w = 0; w < plan->n_forward; w++)
        if (!clt_fuse_dead(&plan->work[w]) && clt_fuse_is(plan->work[w].node, "linear"))
            CLT_TRY(fuse_forward(plan, w));
    return CLT_OK;
}
