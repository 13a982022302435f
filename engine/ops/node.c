/* SPDX-License-Identifier: Apache-2.0
 *
 * Adds a node to a graph: finds its op, checks its inputs and attributes, infers its shapes. */
#include "engine/ops/infer.h"
#include "engine/ops/node.h"

#include <stdio.h>
#include <string.h>

#include "engine/ops/op.h"

static clt_status find_op(const char *op_name, const char *name, const clt_op **out)
{
    *out = clt_op_find(op_name);
    if (*out)
        return CLT_OK;
    char hint[256];
    CLT_FAIL(CLT_ECONFIG, "layer '%s': there is no op '%s'%s", name ? name : "?", op_name,
             clt_op_hint(op_name, hint, sizeof hint));
}

static clt_status check_inputs(const clt_graph *graph, const clt_node *node)
{
    const clt_op *op = node->op;
    if (node->n_in < op->min_in || node->n_in > op->max_in) {
        char expected[48];
        if (op->min_in == op->max_in)
            snprintf(expected, sizeof expected, "%d", op->min_in);
        else
            snprintf(expected, sizeof expected, "%d to %d", op->min_in, op->max_in);
        CLT_FAIL(CLT_ECONFIG, "layer '%s' (%s): takes %s inputs, got %d", node->name, op->name, expected,
                 node->n_in);
    }
    for (int i = 0; i < node->n_in; i++)
        if (!clt_graph_tensor(graph, node->in[i]))
            CLT_FAIL(CLT_EINTERNAL, "layer '%s' (%s): input %d is tensor %d, which does not exist",
                     node->name, op->name, i, node->in[i]);
    return CLT_OK;
}

static clt_status new_node(clt_graph *graph, const clt_op *op, const char *name, const char *share,
                           clt_node **out)
{
    clt_node *node = clt_arena_alloc(graph->arena, sizeof *node);
    if (!node)
        return CLT_ENOMEM;
    node->id = node->stream = (int32_t)graph->n_nodes;
    node->op = op;
    node->loss = node->share = node->constant = -1;
    node->block = graph->block;
    node->name = name ? clt_arena_strdup(graph->arena, name)
                      : clt_arena_printf(graph->arena, "%s%zu", op->name, graph->n_nodes);
    if (!node->name)
        return CLT_ENOMEM;
    if (clt_graph_find(graph, node->name))
        CLT_FAIL(CLT_ECONFIG, "layer '%s' (%s): another layer has this name; give one of them another",
                 node->name, op->name);
    if (share) {
        const clt_node *owner = clt_graph_find(graph, share);
        if (!owner)
            CLT_FAIL(CLT_ECONFIG, "layer '%s' (%s): 'share' names '%s', which is not an earlier layer",
                     node->name, op->name, share);
        node->share = owner->id;
    }
    *out = node;
    return CLT_OK;
}

/* Makes a node with its inputs; its attributes come next, and it is not in the graph yet. */
static clt_status begin_node(clt_graph *graph, const char *op_name, const char *name, const char *share,
                             const int32_t *inputs, int n_inputs, clt_node **out)
{
    const clt_op *op = NULL;
    CLT_TRY(find_op(op_name, name, &op));
    CLT_TRY(new_node(graph, op, name, share, out));
    clt_node *node = *out;
    if (n_inputs > CLT_MAX_IN)
        CLT_FAIL(CLT_ECONFIG, "layer '%s' (%s): %d inputs; at most %d fit", node->name, op->name, n_inputs,
                 CLT_MAX_IN);
    node->n_in = n_inputs;
    memcpy(node->in, inputs, (size_t)n_inputs * sizeof *inputs);
    return check_inputs(graph, node);
}

/* Infers shapes and puts the node into the graph. */
static clt_status finish_node(clt_graph *graph, clt_node *node)
{
    clt_infer ctx = {graph, node};
    CLT_TRY(node->op->infer(&ctx));
    CLT_TRY(clt_grow(&graph->nodes, &graph->nodes_capacity, graph->n_nodes + 1, sizeof *graph->nodes,
                     "node table"));
    graph->nodes[graph->n_nodes++] = node;
    return clt_names_add(&graph->node_names, node->name, (uintptr_t)node);
}

clt_status clt_graph_add_op(clt_graph *graph, const char *op, const char *name, const char *share,
                            const int32_t *inputs, int n_inputs, const clt_attr_given *attrs, clt_node **out)
{
    clt_node *node = NULL;
    CLT_TRY(begin_node(graph, op, name, share, inputs, n_inputs, &node));
    CLT_TRY(clt_attrs_take(graph, node, attrs));
    CLT_TRY(finish_node(graph, node));
    *out = node;
    return CLT_OK;
}

clt_status clt_graph_add(clt_graph *graph, const char *op, const char *name, const clt_json *attrs,
                         const clt_json_doc *doc, const int32_t *inputs, int n_inputs, const char *share,
                         clt_node **out)
{
    clt_node *node = NULL;
    CLT_TRY(begin_node(graph, op, name, share, inputs, n_inputs, &node));
    CLT_TRY(clt_attrs_parse(graph, node, attrs, doc));
    CLT_TRY(finish_node(graph, node));
    *out = node;
    return CLT_OK;
}

clt_status clt_graph_add_text(clt_graph *graph, const char *op, const char *name, const char *attrs,
                              const int32_t *inputs, int n_inputs, clt_node **out)
{
    clt_json_doc *doc = NULL;
    if (attrs)
        CLT_TRY(clt_json_parse(attrs, strlen(attrs), name ? name : op, CLT_ECONFIG, &doc));
    clt_status status = clt_graph_add(graph, op, name, clt_json_root(doc), doc, inputs, n_inputs, NULL, out);
    clt_json_destroy(doc);
    return status;
}
