/* SPDX-License-Identifier: Apache-2.0
 *
 * Documentation of ops, made from their records: `cltrain ops` and docs/ops.md. Prints to strings only. */
#ifndef ENGINE_OPS_OP_PAGE_H
#define ENGINE_OPS_OP_PAGE_H

#include "engine/base/mem.h"
#include "engine/ops/op.h"

#define CLT_ATTR_TEXT 160

/* The valid values as text: "integer, 1 to 65536", "none, tanh". Returns buffer. */
const char *clt_attr_valid_text(const clt_attr_spec *spec, char buffer[CLT_ATTR_TEXT]);
/* The default: "required", "0.5", "true", "none"; "" if leaving the attribute out has its own meaning
 * (clt_attr_spec.no_default). */
const char *clt_attr_default_text(const clt_attr_spec *spec, char buffer[CLT_ATTR_TEXT]);
/* Notes about the op in one or two sentences (it is a loss, costs nothing, has no gradient), or "". */
const char *clt_op_notes(const clt_op *op, char buffer[CLT_ATTR_TEXT * 2]);
/* Writes a complete model.layers with the op's example; nothing for ops that are not available in
 * configs. */
clt_status clt_op_example_list(const clt_op *op, clt_str *out);

/* Print the documentation as Markdown (docs/ops.md, all ops) and as JSON (all ops, or only one). */
clt_status clt_ops_print_markdown(clt_str *out);
clt_status clt_ops_print_json(const clt_op *only, clt_str *out);

#endif
