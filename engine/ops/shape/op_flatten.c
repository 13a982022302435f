/* SPDX-License-Identifier: Apache-2.0
 *
 * The op flatten: the same bytes under another shape. Knows no model. */
#include "engine/ops/emit_util.h"

/* flatten: y (N, everything else) = x (N,...)
 * shapes  x (N,...) -> y (N,F)                                  dtypes  any
 * grads   dx: copy of dy, write or accumulate                   units   none
 * memory  y has the bytes of x                                  errors  none of its own
 * source  -                                                     tested  verify -t 'flatten*', exact */

static clt_status flatten_infer(clt_infer *ctx)
{
    clt_shape x = clt_infer_in(ctx, 0)->shape;
    clt_shape y = clt_shape2(x.dim[0], x.dim[0] ? clt_shape_elements(&x) / x.dim[0] : 0);
    return clt_infer_view(ctx, 0, &y);
}

static clt_status flatten_bwd_copy(ocl_emitter *e, const void *problem)
{
    const clt_call *call = problem;
    if (call->din[0] < 0)
        return CLT_OK;
    clt_emit_copy_grad(e, call->din[0], call->dout[0], clt_call_dtype(call, call->din[0]),
                       (uint64_t)clt_call_elements(call, call->din[0]), call->din_accumulate[0]);
    return CLT_OK;
}

static const ocl_variant bwd_copy = {.name = "copy", .emit = flatten_bwd_copy};
static const ocl_variant *const bwd_variants[] = {&bwd_copy, NULL};

CLT_OP_DOC(
    flatten,
    .text = "All dimensions but the batch become one: images become rows of numbers, as linear layers of a "
            "classifier take them.",
    .inputs = "x: (N,...), any type", .output = "y: (N,F), F the product of the other dimensions, type of x",
    .example = "{\"op\": \"flatten\"}", .before = "",
    .after = ", {\"op\": \"linear\", \"out\": 10}, {\"op\": \"cross_entropy\"}");

CLT_OP_DEFINE(flatten, "y (N, everything else) = x (N,...)", 1, 1, .flags = CLT_OP_VIEW | CLT_OP_MOVE,
              .infer = flatten_infer, .backward = {.variants = bwd_variants}, .same_grad_inputs = 1);
