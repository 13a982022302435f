/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages about ops, made from their records: what 'cltrain ops' and docs/ops.md say. Knows records, prints to
 * strings only. */
#ifndef ENGINE_OPS_OP_PAGE_H
#define ENGINE_OPS_OP_PAGE_H

#include "engine/base/mem.h"
#include "engine/ops/op.h"

#define CLT_ATTR_TEXT 160

/* "integer, 1 to 65536", "none, tanh"; returns buffer. */
const char *clt_attr_valid_text(const clt_attr_spec *spec, char buffer[CLT_ATTR_TEXT]);
/* "required", "0.5", "true", "none"; "" where leaving it out means something of its own. */
const char *clt_attr_default_text(const clt_attr_spec *spec, char buffer[CLT_ATTR_TEXT]);
/* What is special about the op, in a sentence or two: a loss, no cost, random; "" if nothing is. */
const char *clt_op_notes(const clt_op *op, char buffer[CLT_ATTR_TEXT * 2]);
/* A whole model.layers in which the example is valid; nothing for ops that are not for configs. */
clt_status clt_op_example_list(const clt_op *op, clt_str *out);

/* All ops, or the one: docs/ops.md, and JSON for programs. */
clt_status clt_ops_print_markdown(clt_str *out);
clt_status clt_ops_print_json(const clt_op *only, clt_str *out);

#endif
