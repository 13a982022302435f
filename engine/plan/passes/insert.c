/* SPDX-License-Identifier: Apache-2.0
 *
 * Places the nodes of a graph in a new order, inserts new ones, and numbers all of them anew. */
#include "engine/plan/passes/insert.h"

#include <stdlib.h>

clt_status clt_inserter_place(clt_inserter *in, clt_node *node)
{
    CLT_TRY(clt_grow(&in->order, &in->capacity, in->n + 1, sizeof *in->order, "node order"));
    in->order[in->n++] = node;
    return CLT_OK;
}

clt_status clt_inserter_add(clt_inserter *in, const clt_node *near, const char *op, const char *name,
                            const clt_attr_given *attrs, int32_t tensor, clt_node **out)
{
    CLT_TRY(clt_graph_add_op(in->graph, op, name, NULL, &tensor, 1, attrs, out));
    in->graph->n_nodes--; /* it was appended to the graph, but its place is in in->order */
    (*out)->block = near->block;
    return clt_inserter_place(in, *out);
}

/* Gives every node its position as its number. Tensors whose nodes have been removed have no producer. */
static clt_status renumber(clt_inserter *in)
{
    clt_graph *graph = in->graph;
    CLT_FREED int32_t *now = NULL;
    size_t old = graph->n_nodes;
    CLT_TRY(clt_alloc(&now, (in->n > old ? in->n : old) + 1, sizeof *now, "node order"));
    for (size_t k = 0; k < old; k++)
        now[k] = -1;
    for (size_t k = 0; k < in->n; k++) /* inserted nodes have numbers after all others */
        if ((size_t)in->order[k]->id < old && graph->nodes[in->order[k]->id] == in->order[k])
            now[in->order[k]->id] = (int32_t)k;
    CLT_TRY(clt_grow(&graph->nodes, &graph->nodes_capacity, in->n + 1, sizeof *graph->nodes, "node table"));
    for (size_t i = 0; i < graph->n_tensors; i++) {
        clt_tensor *t = clt_graph_tensor(graph, (int32_t)i);
        if (t->producer >= 0)
            t->producer = now[t->producer];
    }
    for (int32_t i = 0; i < graph->n_losses; i++)
        graph->losses[i].node = now[graph->losses[i].node];
    for (size_t k = 0; k < in->n; k++) {
        clt_node *node = in->order[k];
        if (node->share >= 0)
            node->share = now[node->share];
        node->id = (int32_t)k;
        graph->nodes[k] = node;
        for (int i = 0; i < node->n_out; i++)
            clt_graph_tensor(graph, node->out[i])->producer = (int32_t)k;
    }
    graph->n_nodes = in->n;
    return CLT_OK;
}

clt_status clt_inserter_finish(clt_inserter *in)
{
    return in->n == in->graph->n_nodes ? CLT_OK : renumber(in);
}

void clt_inserter_free(clt_inserter *in)
{
    free(in->order);
    in->order = NULL;
}
