/* SPDX-License-Identifier: Apache-2.0
 *
 * The op slice: a range of one dimension. Moves elements of any type; knows no model. */
#include "engine/ops/emit_util.h"
#include "engine/ops/shape/window.h"

/* slice: y = x[..., start:stop, ...] along one axis
 * shapes  x (N,...,A,...) -> y (N,...,stop-start,...)           dtypes  any of 1, 2 or 4 bytes
 * grads   dx: write (zero outside the range) or accumulate      units   none
 * memory  no workspace
 * errors  CLT_ESHAPE: batch axis, range outside x
 * source  -                                                     tested  verify -t 'slice*', exact */

static const clt_attr_spec slice_attrs[] = {
    CLT_SPEC_NEEDED(INT, "axis", -CLT_MAX_DIMS, CLT_MAX_DIMS - 1,
                    "dimension, 0 being the batch (not allowed), -1 the last"),
    CLT_SPEC_INT("start", 0, 0, 9e15, "first element kept"),
    CLT_SPEC_INT("stop", 0, 0, 9e15, "element after the last one kept; 0: the end"),
};

static clt_status slice_infer(clt_infer *ctx)
{
    const clt_tensor *x = clt_infer_in(ctx, 0);
    clt_shape shape = x->shape;
    int axis = 0;
    CLT_TRY(clt_infer_axis(ctx, clt_node_attr(ctx->node, "axis")->i, shape.ndim, &axis));
    int64_t start = clt_node_attr(ctx->node, "start")->i, stop = clt_node_attr(ctx->node, "stop")->i;
    if (clt_dtype_bytes(x->dtype) > 4)
        return clt_infer_fail(ctx, "input '%s' has type %s; 64-bit types are not supported", x->name,
                              clt_dtype_name(x->dtype));
    if (stop == 0)
        stop = shape.dim[axis];
    if (start >= stop || stop > shape.dim[axis])
        return clt_infer_fail(ctx,
                              "range %lld:%lld does not lie inside dimension %d, which has %lld elements",
                              (long long)start, (long long)stop, axis, (long long)shape.dim[axis]);
    shape.dim[axis] = stop - start;
    return clt_infer_out(ctx, x->dtype, &shape);
}

/* The window of x that y holds; y has no other elements. */
static clt_window slice_window(const clt_call *call)
{
    const clt_shape *shape = &clt_call_tensor(call, call->in[0])->shape;
    int64_t given = clt_node_attr(call->node, "axis")->i, start = clt_node_attr(call->node, "start")->i;
    int64_t stop = clt_node_attr(call->node, "stop")->i;
    int axis = (int)(given < 0 ? given + shape->ndim : given);
    int64_t inner = clt_window_inner(shape, axis), length = (stop ? stop : shape->dim[axis]) - start;
    clt_window w = {.outer = clt_window_outer(shape, axis),
                    .run = length * inner,
                    .y_stride = length * inner,
                    .y_start = 0,
                    .x_stride = shape->dim[axis] * inner,
                    .x_start = start * inner};
    return w;
}

static clt_status slice_forward(ocl_emitter *e, const clt_call *call, bool by_row)
{
    clt_window w = slice_window(call);
    clt_emit_window(e, call->out[0], call->in[0], clt_call_dtype(call, call->out[0]), &w, false, false,
                    by_row);
    return CLT_OK;
}

static clt_status slice_backward(ocl_emitter *e, const clt_call *call, bool by_row)
{
    if (call->din[0] < 0)
        return CLT_OK;
    clt_window f = slice_window(call);
    clt_window w = {f.outer, f.run, f.x_stride, f.x_start, f.y_stride, 0};
    clt_dtype dtype = clt_call_dtype(call, call->din[0]);
    if (call->din_accumulate[0])
        clt_emit_window(e, call->din[0], call->dout[0], dtype, &w, true, true, by_row);
    else
        clt_emit_window_pad(e, call->din[0], call->dout[0], dtype, &w, by_row);
    return CLT_OK;
}

CLT_FLAT_ROW_VARIANTS(slice_forward)
CLT_FLAT_ROW_VARIANTS(slice_backward)

CLT_OP_DOC(slice, .text = "A range of one dimension.", .inputs = "x: (N,...), any type of 1, 2 or 4 bytes",
           .output = "y: (N,...,stop-start,...), type of x",
           .example = "{\"op\": \"slice\", \"axis\": 1, \"start\": 4, \"stop\": 24}", .before = "",
           CLT_DOC_CLASSES_AFTER);

CLT_OP_DEFINE(slice, "y = x[..., start:stop, ...] along one axis", 1, 1, CLT_OP_ATTRS(slice_attrs),
              .flags = CLT_OP_MOVE, .infer = slice_infer, CLT_OP_VARIANTS(slice));
