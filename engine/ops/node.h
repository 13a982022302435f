/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes: a graph is built by adding one node after another. */
#ifndef ENGINE_OPS_NODE_H
#define ENGINE_OPS_NODE_H

#include "engine/ops/op.h"

/* An attribute given by code instead of JSON. */
typedef struct clt_attr_given {
    const char *name; /* NULL ends a list of them */
    clt_attr_type type;
    int64_t i;           /* INT, BOOL */
    double f;            /* FLOAT */
    const char *word;    /* CHOICE, STRING */
    const int64_t *list; /* INTS */
    int n_list;
    const double *numbers; /* FLOATS, n_list of them */
} clt_attr_given;

#define CLT_A(kind, key, ...)                                                                                \
    {                                                                                                        \
        .name = key, .type = CLT_ATTR_##kind, __VA_ARGS__                                                    \
    }
#define CLT_A_INT(key, value) CLT_A(INT, key, .i = value)
#define CLT_A_FLOAT(key, value) CLT_A(FLOAT, key, .f = value)
#define CLT_A_BOOL(key, value) CLT_A(BOOL, key, .i = value)
#define CLT_A_WORD(key, value) CLT_A(CHOICE, key, .word = value)
#define CLT_A_INTS(key, values, count) CLT_A(INTS, key, .list = values, .n_list = count)
#define CLT_A_FLOATS(key, values, count) CLT_A(FLOATS, key, .numbers = values, .n_list = count)
/* A list of attributes: CLT_ATTRS(CLT_A_INT("out", 10), CLT_A_BOOL("bias", false)) */
#define CLT_ATTRS(...)                                                                                       \
    (const clt_attr_given[])                                                                                 \
    {                                                                                                        \
        __VA_ARGS__,                                                                                         \
        {                                                                                                    \
            .name = NULL                                                                                     \
        }                                                                                                    \
    }

/* Adds a node. op: its name; name: of the node (NULL: "<op><n>"); share: the layer whose parameters it uses
 * (NULL: none); attrs: NULL: defaults. Checks attributes, the number of inputs and shapes: CLT_ECONFIG or
 * CLT_ESHAPE, with a message that names the layer, the fault and the nearest valid word. *out: the node,
 * owned by the graph. */
clt_status clt_graph_add_op(clt_graph *graph, const char *op, const char *name, const char *share,
                            const int32_t *inputs, int n_inputs, const clt_attr_given *attrs, clt_node **out);

/* clt_graph_add: the same for layers that users write. `attrs` is a JSON object of attributes (NULL:
 * defaults); its keys "op", "name", "inputs" and "share" are ignored. `doc` (may be NULL) gives positions
 * for messages. */
clt_status clt_graph_add(clt_graph *graph, const char *op, const char *name, const clt_json *attrs,
                         const clt_json_doc *doc, const int32_t *inputs, int n_inputs, const char *share,
                         clt_node **out);
/* Adds a node like clt_graph_add, with the attributes as JSON text ("{\"out\":10}"), for tables of cases and
 * tests. */
clt_status clt_graph_add_text(clt_graph *graph, const char *op, const char *name, const char *attrs,
                              const int32_t *inputs, int n_inputs, clt_node **out);

/* Fills node->attr from a JSON object (or NULL) by the op's list of attributes. Unknown keys, wrong types
 * and values out of range are CLT_ECONFIG; one message names all of them. */
clt_status clt_attrs_parse(clt_graph *graph, clt_node *node, const clt_json *attrs, const clt_json_doc *doc);
/* Fills node->attr from attributes given by code; a name or type that the op does not have is
 * CLT_EINTERNAL. */
clt_status clt_attrs_take(clt_graph *graph, clt_node *node, const clt_attr_given *attrs);

#endif
