/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of engine/graph share: attribute parsing and the size of the step block. */
#ifndef ENGINE_GRAPH_GRAPH_INTERNAL_H
#define ENGINE_GRAPH_GRAPH_INTERNAL_H

#include "engine/graph/graph.h"
#include "engine/graph/step_block.h"

/* Fills node->attr from a JSON object (or NULL) and the op's attribute list: unknown keys, wrong types and
 * values out of range are CLT_ECONFIG, all of them in one message. */
clt_status clt_attrs_parse(clt_graph *graph, clt_node *node, const clt_json *attrs, const clt_json_doc *doc);

#endif
