/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of ops, made from ops.def: clt_op_<name> is defined in op_<name>.c. Knows only names of ops. */
#include <stddef.h>
#include <string.h>

#include "engine/ops/op.h"

static const clt_op *const op_table[] = {
#define CLT_OP(name) &clt_op_##name,
#include "engine/ops/ops.def"
#undef CLT_OP
    NULL};

const clt_op *const *clt_op_list(int *count)
{
    *count = (int)(sizeof op_table / sizeof op_table[0]) - 1;
    return op_table;
}

const clt_op *clt_op_find(const char *name)
{
    for (const clt_op *const *op = op_table; *op; op++)
        if (strcmp((*op)->name, name) == 0)
            return *op;
    return NULL;
}

const clt_attr *clt_node_attr(const clt_node *node, const char *name)
{
    static const clt_attr none;
    for (int i = 0; i < node->op->n_attrs; i++)
        if (strcmp(node->op->attrs[i].name, name) == 0)
            return &node->attr[i];
    return &none;
}
