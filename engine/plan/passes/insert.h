/* SPDX-License-Identifier: Apache-2.0
 *
 * Inserting nodes into a graph: a pass walks over the nodes in order, places each of them, and adds
 * conversions before nodes that take their inputs in another form. Knows nodes, not why they are
 * inserted. */
#ifndef ENGINE_PLAN_PASSES_INSERT_H
#define ENGINE_PLAN_PASSES_INSERT_H

#include "engine/ops/node.h"

typedef struct clt_inserter {
    clt_graph *graph;
    clt_node **order;   /* the old nodes and the inserted ones, in order of execution */
    size_t n, capacity; /* of order */
} clt_inserter;

clt_status clt_inserter_place(clt_inserter *in, clt_node *node);
/* Adds and places an op with one input. `near` is the node that needs it. */
clt_status clt_inserter_add(clt_inserter *in, const clt_node *near, const char *op, const char *name,
                            const clt_attr_given *attrs, int32_t tensor, clt_node **out);
/* Gives the graph the new order; the number of each node becomes its position. To be called when every node
 * that remains has been placed. */
clt_status clt_inserter_finish(clt_inserter *in);
void clt_inserter_free(clt_inserter *in);
CLT_SCOPED_VALUE(clt_inserter, clt_inserter_free)

#endif
