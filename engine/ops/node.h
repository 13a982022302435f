/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes: a graph is built by adding one op after the other. */
#ifndef ENGINE_OPS_NODE_H
#define ENGINE_OPS_NODE_H

#include "engine/graph/graph.h"

/* clt_graph_add: adds a node. `attrs` is a JSON object with attribute values (NULL: defaults); keys "op",
 * "name", "inputs", "share" in it are ignored. name NULL: "<op><n>". Checks attributes, input count, shapes.
 * CLT_ECONFIG / CLT_ESHAPE name the layer, what is wrong, and the nearest valid word. `doc` (may be NULL)
 * gives positions for messages. out: the node. */
clt_status clt_graph_add(clt_graph *graph, const char *op, const char *name, const clt_json *attrs,
                         const clt_json_doc *doc, const int32_t *inputs, int n_inputs, const char *share,
                         clt_node **out);
/* The same with the attributes as JSON text ("{\"out\":10}"), for code and tests. */
clt_status clt_graph_add_text(clt_graph *graph, const char *op, const char *name, const char *attrs,
                              const int32_t *inputs, int n_inputs, clt_node **out);

/* Fills node->attr from a JSON object (or NULL) and the op's attribute list: unknown keys, wrong types and
 * values out of range are CLT_ECONFIG, all of them in one message. */
clt_status clt_attrs_parse(clt_graph *graph, clt_node *node, const clt_json *attrs, const clt_json_doc *doc);

#endif
