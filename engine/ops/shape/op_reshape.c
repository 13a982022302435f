/* SPDX-License-Identifier: Apache-2.0
 *
 * The ops reshape and flatten: the same bytes under another shape. Knows no model. */
#include "engine/ops/emit_util.h"

/* reshape: y = x under another shape, the batch kept
 * shapes  x (N,...) -> y (N, shape...), one entry of shape may be -1: what is left
 * dtypes  any                                                   units   none
 * grads   dx: copy of dy, write or accumulate                   memory  y has the bytes of x
 * errors  CLT_ESHAPE: element counts differ, two entries -1     source  -
 * tested  verify -t 'reshape*', exact */

/* flatten: y (N, everything else) = x (N,...)
 * shapes  x (N,...) -> y (N,F)                                  dtypes  any
 * grads   dx: copy of dy, write or accumulate                   units   none
 * memory  y has the bytes of x                                  errors  none of its own
 * source  -                                                     tested  verify -t 'flatten*', exact */

static const clt_attr_spec reshape_attrs[] = {
    CLT_SPEC_NEEDED(INTS, "shape", -1, 9e15,
                    "dimensions without the batch; one may be -1: computed from the other sizes"),
};

static clt_status reshape_infer(clt_infer *ctx)
{
    clt_shape x = clt_infer_in(ctx, 0)->shape;
    const clt_attr *shape = clt_node_attr(ctx->node, "shape");
    int64_t elements = x.dim[0] ? clt_shape_elements(&x) / x.dim[0] : 0, known = 1;
    char xs[CLT_SHAPE_TEXT], ys[CLT_SHAPE_TEXT];
    int free_dim = -1;
    clt_shape y = {.ndim = shape->n_list + 1, .dim = {x.dim[0]}};
    if (y.ndim > CLT_MAX_DIMS)
        return clt_infer_fail(ctx, "shape has %d dimensions; with the batch at most %d are supported",
                              (int)shape->n_list, CLT_MAX_DIMS);
    for (int i = 0; i < shape->n_list; i++) {
        int64_t d = shape->list[i];
        if (d == 0 || (d < 0 && free_dim >= 0))
            return clt_infer_fail(ctx, "entry %d of shape is %lld; sizes are positive and only one may be -1",
                                  i, (long long)d);
        if (d < 0)
            free_dim = i + 1;
        else if (known > elements / d)
            known = elements + 1; /* too large to fit; stops before the product overflows */
        else
            known *= d;
        y.dim[i + 1] = d;
    }
    if (free_dim >= 0 && known > 0 && elements % known == 0 && known <= elements)
        y.dim[free_dim] = elements / known;
    else if (free_dim >= 0 || known != elements)
        return clt_infer_fail(ctx, "input %s has %lld elements per sample, which do not fill the shape %s",
                              clt_shape_text(&x, xs, sizeof xs), (long long)elements,
                              clt_shape_text(&y, ys, sizeof ys));
    return clt_infer_view(ctx, 0, &y);
}

static clt_status flatten_infer(clt_infer *ctx)
{
    clt_shape x = clt_infer_in(ctx, 0)->shape;
    clt_shape y = clt_shape2(x.dim[0], x.dim[0] ? clt_shape_elements(&x) / x.dim[0] : 0);
    return clt_infer_view(ctx, 0, &y);
}

static clt_status bwd_copy_gradient(ocl_emitter *e, const void *problem)
{
    const clt_call *call = problem;
    if (call->din[0] < 0)
        return CLT_OK;
    clt_emit_copy_grad(e, call->din[0], call->dout[0], clt_call_dtype(call, call->din[0]),
                       (uint64_t)clt_call_elements(call, call->din[0]), call->din_accumulate[0]);
    return CLT_OK;
}

static const ocl_variant bwd_copy = {.name = "copy", .emit = bwd_copy_gradient};
static const ocl_variant *const bwd_variants[] = {&bwd_copy, NULL};

CLT_OP_DOC(reshape,
           .text = "The same numbers under another shape; the batch dimension is kept and not named.",
           .inputs = "x: (N,...), any type", .output = "y: (N, shape...), type of x",
           .example = "{\"op\": \"reshape\", \"shape\": [7, -1]}", .before = "", CLT_DOC_CLASSES_AFTER);

CLT_OP_DEFINE(reshape, "y = x under another shape, the batch kept", 1, 1, CLT_OP_ATTRS(reshape_attrs),
              .flags = CLT_OP_VIEW | CLT_OP_MOVE, .infer = reshape_infer,
              .backward = {.variants = bwd_variants}, .same_grad_inputs = 1);

CLT_OP_DOC(
    flatten,
    .text = "All dimensions but the batch become one: images become rows of numbers, as linear layers of a "
            "classifier take them.",
    .inputs = "x: (N,...), any type", .output = "y: (N,F), F the product of the other dimensions, type of x",
    .example = "{\"op\": \"flatten\"}", .before = "",
    .after = ", {\"op\": \"linear\", \"out\": 10}, {\"op\": \"cross_entropy\"}");

CLT_OP_DEFINE(flatten, "y (N, everything else) = x (N,...)", 1, 1, .flags = CLT_OP_VIEW | CLT_OP_MOVE,
              .infer = flatten_infer, .backward = {.variants = bwd_variants}, .same_grad_inputs = 1);
