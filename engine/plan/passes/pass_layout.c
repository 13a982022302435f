/* SPDX-License-Identifier: Apache-2.0
 *
 * Pass 2, layout: decides in which order the elements of each tensor lie in memory. An op that needs another
 * order than row-major says so (clt_op.layout). Ops that work on elements one by one accept any order
 * (CLT_OP_ANY_LAYOUT), and so do ops that look at their tensors' layout (CLT_OP_ALL_ONE_LAYOUT); all others
 * read and write row-major tensors. Where the orders differ a transposition is inserted, once per tensor.
 * Values that are kept from run to run are row-major, and so are tensors that the caller writes or reads,
 * unless the caller has set another layout for them in the graph. Knows layouts and flags of ops, no op. */
#include <stdio.h>
#include <stdlib.h>

#include "engine/plan/passes/insert.h"
#include "engine/plan/plan.h"

typedef struct layouts {
    clt_plan *plan;
    clt_graph *graph;
    int32_t *other; /* by tensor id: the same values in the other layout, -1 none yet */
    clt_inserter *in;
} layouts;

static bool any_wish(const clt_graph *graph)
{
    for (size_t k = 0; k < graph->n_nodes; k++)
        if (graph->nodes[k]->op->layout)
            return true;
    return false;
}

/* An op that works on elements one by one, on inputs of one shape, works channels-last if one of them is
 * channels-last. An op that looks at layouts does so on inputs of any shapes. */
static clt_layout layout_of(const layouts *l, const clt_node *node)
{
    bool follows = node->op->flags & (CLT_OP_ANY_LAYOUT | CLT_OP_ALL_ONE_LAYOUT);
    clt_layout layout = CLT_LAYOUT_ROW_MAJOR;
    if (node->op->layout)
        return node->op->layout(node, &l->plan->device);
    for (int i = 0; i < node->n_in && follows; i++) {
        const clt_tensor *t = clt_graph_tensor(l->graph, node->in[i]);
        if (!(node->op->flags & CLT_OP_ALL_ONE_LAYOUT) &&
            !clt_shape_equal(&t->shape, &clt_graph_tensor(l->graph, node->in[0])->shape))
            return CLT_LAYOUT_ROW_MAJOR;
        layout = t->layout == CLT_LAYOUT_CHANNELS_LAST ? t->layout : layout;
    }
    return layout;
}

/* True if the layouts of the tensor differ: for matrices and vectors they are all the same. */
static bool has_layouts(const clt_tensor *t)
{
    return t->shape.ndim > 2;
}

/* Adds a node that computes `tensor` in the other layout. */
static clt_status turn(layouts *l, const clt_node *near, int32_t tensor, clt_node **out)
{
    const clt_tensor *t = clt_graph_tensor(l->graph, tensor);
    bool to_last = t->layout == CLT_LAYOUT_ROW_MAJOR;
    int ndim = t->shape.ndim;
    int64_t perm[CLT_MAX_DIMS] = {0}; /* a permutation of the dimensions in memory order */
    char name[280];
    for (int i = 1; i < ndim; i++)
        perm[i] = to_last ? (i + 1 < ndim ? i + 1 : 1) : (i == 1 ? ndim - 1 : i - 1);
    snprintf(name, sizeof name, "%s.%s", t->name, to_last ? "channels_last" : "row_major");
    CLT_TRY(clt_inserter_add(l->in, near, "transpose", name, CLT_ATTRS(CLT_A_INTS("perm", perm, ndim)),
                             tensor, out));
    clt_tensor *turned = clt_graph_tensor(l->graph, (*out)->out[0]);
    turned->shape = t->shape;
    turned->layout = to_last ? CLT_LAYOUT_CHANNELS_LAST : CLT_LAYOUT_ROW_MAJOR;
    return CLT_OK;
}

/* Replaces *tensor by a tensor with the same values in layout `need`. */
static clt_status in_layout(layouts *l, const clt_node *node, clt_layout need, int32_t *tensor)
{
    const clt_tensor *t = clt_graph_tensor(l->graph, *tensor);
    clt_node *turned;
    if (!has_layouts(t) || t->layout == need)
        return CLT_OK;
    if (l->other[*tensor] < 0) {
        CLT_TRY(turn(l, node, *tensor, &turned));
        l->other[*tensor] = turned->out[0];
    }
    *tensor = l->other[*tensor];
    return CLT_OK;
}

/* For an output that is read outside of the graph: lets the node write a new tensor, which is transposed
 * into the output. */
static clt_status give_row_major(layouts *l, clt_node *node, int output)
{
    int32_t kept = node->out[output];
    const clt_tensor *t = clt_graph_tensor(l->graph, kept);
    clt_node *turned;
    char name[280];
    snprintf(name, sizeof name, "%s.made", t->name);
    CLT_TRY(clt_graph_new_tensor(l->graph, name, t->dtype, &t->shape, t->cls, &node->out[output]));
    clt_tensor *made = clt_graph_tensor(l->graph, node->out[output]);
    made->layout = CLT_LAYOUT_CHANNELS_LAST;
    made->producer = node->id;
    made->requires_grad = t->requires_grad;
    CLT_TRY(turn(l, node, made->id, &turned));
    turned->out[0] = kept;
    l->other[kept] = made->id;
    return CLT_OK;
}

static clt_status set_node(layouts *l, clt_node *node)
{
    clt_layout need = layout_of(l, node);
    for (int i = 0; i < node->n_in; i++) {
        int32_t was = node->in[i];
        /* indices and targets have no channels */
        bool plain = (node->op->no_grad_inputs >> i) & 1;
        CLT_TRY(in_layout(l, node, plain ? CLT_LAYOUT_ROW_MAJOR : need, &node->in[i]));
        for (int k = 0; k < node->n_out; k++) /* keep it a view of the tensor that the node reads */
            if (clt_graph_tensor(l->graph, node->out[k])->view_of == was)
                clt_graph_tensor(l->graph, node->out[k])->view_of = node->in[i];
    }
    CLT_TRY(clt_inserter_place(l->in, node));
    for (int i = 0; i < node->n_out && need != CLT_LAYOUT_ROW_MAJOR; i++) {
        clt_tensor *t = clt_graph_tensor(l->graph, node->out[i]);
        if (!has_layouts(t))
            continue;
        if ((t->is_output || t->persistent) && t->layout != need)
            CLT_TRY(give_row_major(l, node, i));
        else
            t->layout = need;
    }
    return CLT_OK;
}

clt_status clt_pass_layout(clt_plan *plan)
{
    CLT_FREED int32_t *other = NULL;
    size_t nodes = plan->graph->n_nodes;
    /* each input of a node may be transposed, and each output may be replaced and transposed */
    size_t most = plan->graph->n_tensors + nodes * (CLT_MAX_IN + 2 * CLT_MAX_OUT);
    if (!any_wish(plan->graph))
        return CLT_OK;
    CLT_TRY(clt_alloc(&other, most, sizeof *other, "layouts"));
    for (size_t i = 0; i < most; i++)
        other[i] = -1;
    CLT_SCOPED(clt_inserter) in = {.graph = plan->graph};
    layouts l = {.plan = plan, .graph = plan->graph, .other = other, .in = &in};
    for (size_t k = 0; k < nodes; k++)
        CLT_TRY(set_node(&l, plan->graph->nodes[k]));
    return clt_inserter_finish(&in);
}
