/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass 3, automatic differentiation: turns nodes into a list of work, forward then backward. There is no
 * backward work where a node depends on no trainable parameter (or checked input), or where no loss depends
 * on the node. The first contributor to a gradient writes it and the others add to it, so no gradient has to
 * be cleared, and a tensor with several readers needs no extra work. The gradient of a view's input is a
 * view of the gradient of its output. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/plan/plan.h"

typedef struct autodiff {
    clt_plan *plan;
    clt_graph *graph;
    size_t n;      /* tensors of the model */
    bool *needs;   /* by tensor: it depends on a trainable parameter or a checked input */
    bool *reaches; /* by tensor: a loss or a seed depends on it */
    int32_t *uses; /* by tensor: number of contributions to its gradient */
    bool *written; /* by tensor: its gradient has been written by work so far in the list */
    bool *param_written;
} autodiff;

static bool takes_gradient(const clt_op *op, int input)
{
    return !(op->no_grad_inputs & (1u << input));
}

static bool node_needs(const autodiff *ad, const clt_node *node)
{
    for (int i = 0; i < node->n_in; i++)
        if (takes_gradient(node->op, i) && ad->needs[node->in[i]])
            return true;
    for (int i = 0; i < node->n_param; i++)
        if (clt_param_is_trained(&ad->graph->params[node->param[i]]))
            return true;
    return false;
}

static bool node_reaches(const autodiff *ad, const clt_node *node)
{
    if (node->op->flags & CLT_OP_LOSS)
        return ad->plan->options.mode == CLT_PLAN_TRAIN || ad->plan->options.mode == CLT_PLAN_CHECK;
    for (int i = 0; i < node->n_out; i++)
        if (ad->reaches[node->out[i]])
            return true;
    return false;
}

static clt_status push_work(clt_plan *plan, clt_work **out)
{
    CLT_TRY(clt_grow(&plan->work, &plan->work_capacity, plan->n_work + 1, sizeof *plan->work, "work list"));
    clt_work *work = &plan->work[plan->n_work++];
    memset(work, 0, sizeof *work);
    for (int i = 0; i < CLT_MAX_IN; i++)
        work->din[i] = -1;
    for (int i = 0; i < CLT_MAX_NODE_PARAMS; i++)
        work->dparam[i] = -1;
    for (int i = 0; i < CLT_MAX_OUT; i++)
        work->dout[i] = -1;
    work->epilogue = CLT_NO_EPILOGUE;
    *out = work;
    return CLT_OK;
}

static clt_status new_gradient(autodiff *ad, int32_t of, const char *prefix, int32_t *id)
{
    const clt_tensor *t = clt_graph_tensor(ad->graph, of);
    char name[300];
    snprintf(name, sizeof name, "%s%s", prefix, t->name);
    clt_tensor_class cls = t->cls == CLT_TC_PARAM ? CLT_TC_PARAM_GRAD : CLT_TC_GRADIENT;
    /* f32: gradients of parameters, for the optimizer, and of inputs that the checker compares */
    const clt_plan_options *options = &ad->plan->options;
    bool wide = cls == CLT_TC_PARAM_GRAD || (options->storage == CLT_F32 && !options->narrow_gradients);
    CLT_TRY(clt_graph_new_tensor(ad->graph, name, wide ? CLT_F32 : t->dtype, &t->shape, cls, id));
    clt_graph_tensor(ad->graph, *id)->param = t->param;
    clt_graph_tensor(ad->graph, *id)->layout = t->layout;
    return CLT_OK;
}

/* Marks tensors that need a gradient and tensors that reach a loss, and counts contributions. */
static void analyse(autodiff *ad)
{
    clt_graph *graph = ad->graph;
    for (size_t i = 0; i < ad->n; i++) {
        const clt_tensor *t = clt_graph_tensor(graph, (int32_t)i);
        ad->needs[i] = t->requires_grad && (t->param < 0 || clt_param_is_trained(&graph->params[t->param]));
    }
    for (size_t k = 0; k < graph->n_nodes; k++)
        for (int i = 0; i < graph->nodes[k]->n_out && node_needs(ad, graph->nodes[k]); i++)
            ad->needs[graph->nodes[k]->out[i]] = true;
    for (int s = 0; s < ad->plan->options.n_seeds; s++)
        ad->reaches[ad->plan->options.seed_tensor[s]] = true;
    for (size_t k = graph->n_nodes; k-- > 0;) {
        const clt_node *node = graph->nodes[k];
        if (!node_reaches(ad, node))
            continue;
        for (int i = 0; i < node->n_in; i++)
            if (takes_gradient(node->op, i)) {
                ad->reaches[node->in[i]] = true;
                ad->uses[node->in[i]] += node_needs(ad, node) && ad->needs[node->in[i]];
            }
    }
}

/* If a view is the only reader of its input x, lets their gradients share bytes, as x and the view do. */
static clt_status alias_view(autodiff *ad, const clt_node *node, bool *done)
{
    int32_t x = node->in[0], dy = ad->plan->gradient[node->out[0]];
    *done = false;
    if (!(node->op->flags & CLT_OP_VIEW) || ad->uses[x] != 1 || ad->written[x] || ad->plan->gradient[x] >= 0)
        return CLT_OK;
    CLT_TRY(new_gradient(ad, x, "d ", &ad->plan->gradient[x]));
    clt_graph_tensor(ad->graph, ad->plan->gradient[x])->view_of = dy;
    ad->written[x] = true;
    *done = true;
    return CLT_OK;
}

/* Creates the gradients of one node's inputs. If a node reads a tensor twice, a kernel may write both
 * gradients in one pass, so the second gradient gets its own tensor and is added to the first afterwards. */
static clt_status input_gradients(autodiff *ad, const clt_node *node, size_t index)
{
    clt_plan *plan = ad->plan;
    for (int i = 0; i < node->n_in; i++) {
        int32_t x = node->in[i];
        if (!takes_gradient(node->op, i) || !ad->needs[x])
            continue;
        bool twice = false;
        for (int j = 0; j < i; j++)
            twice |= node->in[j] == x && takes_gradient(node->op, j);
        if (twice) {
            int32_t second;
            clt_work *add;
            CLT_TRY(new_gradient(ad, x, "second d ", &second));
            plan->work[index].din[i] = second;
            CLT_TRY(push_work(plan, &add));
            add->kind = CLT_WORK_ADD;
            add->node = node;
            add->add_to = plan->gradient[x];
            add->add_from = second;
            continue;
        }
        if (plan->gradient[x] < 0)
            CLT_TRY(new_gradient(ad, x, "d ", &plan->gradient[x]));
        plan->work[index].din[i] = plan->gradient[x];
        plan->work[index].din_accumulate[i] = ad->written[x];
        ad->written[x] = true;
    }
    return CLT_OK;
}

static clt_status param_gradients(autodiff *ad, const clt_node *node, clt_work *work)
{
    for (int i = 0; i < node->n_param; i++) {
        const clt_param *param = &ad->graph->params[node->param[i]];
        if (!clt_param_is_trained(param))
            continue;
        int32_t *gradient = &ad->plan->gradient[param->tensor];
        if (*gradient < 0)
            CLT_TRY(new_gradient(ad, param->tensor, "d ", gradient));
        work->dparam[i] = *gradient;
        work->dparam_accumulate[i] = ad->param_written[param->index];
        ad->param_written[param->index] = true;
    }
    return CLT_OK;
}

static clt_status backward_node(autodiff *ad, const clt_node *node)
{
    bool arrives = (node->op->flags & CLT_OP_LOSS) != 0;
    for (int i = 0; i < node->n_out; i++)
        arrives |= ad->plan->gradient[node->out[i]] >= 0;
    if (!arrives || !node_needs(ad, node))
        return CLT_OK;
    bool done;
    CLT_TRY(alias_view(ad, node, &done));
    if (done)
        return CLT_OK;
    if (!node->op->backward.variants)
        CLT_FAIL(CLT_EUNSUPPORTED,
                 "layer '%s' (%s): this op has no gradient, but it uses results of layers with trainable "
                 "parameters",
                 node->name, node->op->name);
    clt_work *work;
    CLT_TRY(push_work(ad->plan, &work));
    size_t index = ad->plan->n_work - 1;
    work->kind = CLT_WORK_BACKWARD;
    work->node = node;
    for (int i = 0; i < node->n_out; i++)
        work->dout[i] = ad->plan->gradient[node->out[i]];
    CLT_TRY(param_gradients(ad, node, work));
    return input_gradients(ad, node, index);
}

static clt_status build_work(autodiff *ad)
{
    clt_plan *plan = ad->plan;
    clt_graph *graph = ad->graph;
    for (size_t k = 0; k < graph->n_nodes; k++) {
        clt_work *work;
        CLT_TRY(push_work(plan, &work));
        work->kind = CLT_WORK_FORWARD;
        work->node = graph->nodes[k];
    }
    plan->n_forward = plan->n_work;
    if (plan->options.mode == CLT_PLAN_EVAL)
        return CLT_OK;
    for (int s = 0; s < plan->options.n_seeds; s++) {
        plan->gradient[plan->options.seed_tensor[s]] = plan->options.seed_gradient[s];
        ad->written[plan->options.seed_tensor[s]] = true;
    }
    for (size_t k = graph->n_nodes; k-- > 0;)
        CLT_TRY(backward_node(ad, graph->nodes[k]));
    for (size_t i = 0; i < graph->n_params && plan->options.mode == CLT_PLAN_TRAIN; i++)
        if (clt_param_is_trained(&graph->params[i]) && !ad->param_written[i])
            CLT_FAIL(CLT_ECONFIG,
                     "parameter '%s' gets no gradient: no loss depends on its layer; remove the layer or "
                     "use its output",
                     graph->params[i].name);
    return CLT_OK;
}

clt_status clt_pass_autodiff(clt_plan *plan)
{
    CLT_SCOPED(clt_scratch) scratch = {0};
    autodiff ad = {.plan = plan, .graph = plan->graph, .n = plan->graph->n_tensors};
    plan->n_gradient = ad.n;
    CLT_TRY(clt_alloc(&plan->gradient, ad.n, sizeof *plan->gradient, "gradient table"));
    for (size_t i = 0; i < ad.n; i++)
        plan->gradient[i] = -1;
    CLT_TRY(clt_scratch_alloc(&scratch, &ad.needs, ad.n, sizeof *ad.needs, "autodiff"));
    CLT_TRY(clt_scratch_alloc(&scratch, &ad.reaches, ad.n, sizeof *ad.reaches, "autodiff"));
    CLT_TRY(clt_scratch_alloc(&scratch, &ad.uses, ad.n, sizeof *ad.uses, "autodiff"));
    CLT_TRY(clt_scratch_alloc(&scratch, &ad.written, ad.n, sizeof *ad.written, "autodiff"));
    CLT_TRY(clt_scratch_alloc(&scratch, &ad.param_written, plan->graph->n_params, sizeof *ad.param_written,
                              "autodiff"));
    analyse(&ad);
    return build_work(&ad);
}
