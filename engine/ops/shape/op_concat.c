/* SPDX-License-Identifier: Apache-2.0
 *
 * The op concat: joins tensors along one dimension. Moves elements of any type; knows no model. */
#include "engine/ops/emit_util.h"
#include "engine/ops/shape/window.h"

/* concat: y = inputs joined along one axis, in order
 * shapes  x_i (N,...,A_i,...) -> y (N,...,sum A_i,...)          dtypes  any of 1, 2 or 4 bytes, all the same
 * grads   dx_i: write or accumulate                             units   none
 * memory  no workspace; all inputs and y in the same layout, any
 * errors  CLT_ESHAPE: batch axis, shapes or types differ
 * source  -                                                     tested  verify -t 'concat*', exact */

static const clt_attr_spec concat_attrs[] = {
    CLT_SPEC_INT("axis", -1, -CLT_MAX_DIMS, CLT_MAX_DIMS - 1,
                 "dimension, 0 being the batch (not allowed), -1 the last"),
};

static clt_status concat_infer(clt_infer *ctx)
{
    clt_shape y = clt_infer_in(ctx, 0)->shape;
    clt_dtype dtype = clt_infer_in(ctx, 0)->dtype;
    char first[CLT_SHAPE_TEXT], other[CLT_SHAPE_TEXT];
    int axis = 0;
    CLT_TRY(clt_infer_axis(ctx, clt_node_attr(ctx->node, "axis")->i, y.ndim, &axis));
    clt_shape_text(&y, first, sizeof first);
    if (clt_dtype_bytes(dtype) > 4)
        return clt_infer_fail(ctx, "64-bit types are not supported, the inputs have type %s",
                              clt_dtype_name(dtype));
    for (int i = 1; i < ctx->node->n_in; i++) {
        const clt_tensor *x = clt_infer_in(ctx, i);
        if (x->dtype != dtype)
            return clt_infer_fail(ctx, "input %d has type %s, but input 0 has type %s", i,
                                  clt_dtype_name(x->dtype), clt_dtype_name(dtype));
        bool fits = x->shape.ndim == y.ndim;
        for (int d = 0; fits && d < y.ndim; d++)
            fits = d == axis || x->shape.dim[d] == y.dim[d];
        if (!fits)
            return clt_infer_fail(ctx, "input %d %s does not fit input 0 %s: only dimension %d may differ", i,
                                  clt_shape_text(&x->shape, other, sizeof other), first, axis);
        y.dim[axis] += x->shape.dim[axis];
    }
    return clt_infer_out(ctx, dtype, &y);
}

/* The position of the axis among the dimensions in memory order. */
static int concat_axis(const clt_call *call)
{
    const clt_tensor *y = clt_call_tensor(call, call->out[0]);
    int64_t given = clt_node_attr(call->node, "axis")->i;
    int ndim = y->shape.ndim, axis = (int)(given < 0 ? given + ndim : given);
    if (y->layout == CLT_LAYOUT_ROW_MAJOR)
        return axis;
    return axis == 1 ? ndim - 1 : axis - 1;
}

/* The window of y that input `index` fills; *start: its first element in a row of y, advanced to the next
 * window. */
static clt_window concat_window(const clt_call *call, int index, int64_t *start)
{
    clt_shape x = clt_tensor_memory_shape(clt_call_tensor(call, call->in[index]));
    clt_shape y = clt_tensor_memory_shape(clt_call_tensor(call, call->out[0]));
    int axis = concat_axis(call);
    int64_t inner = clt_window_inner(&y, axis), run = x.dim[axis] * inner;
    clt_window w = {.outer = clt_window_outer(&y, axis),
                    .run = run,
                    .y_stride = y.dim[axis] * inner,
                    .y_start = *start,
                    .x_stride = run,
                    .x_start = 0};
    *start += run;
    return w;
}

static clt_status concat_forward(ocl_emitter *e, const clt_call *call, bool by_row)
{
    int64_t start = 0;
    for (int i = 0; i < call->node->n_in; i++) {
        clt_window w = concat_window(call, i, &start);
        clt_emit_window(e, call->out[0], call->in[i], clt_call_dtype(call, call->out[0]), &w, false, false,
                        by_row);
    }
    return CLT_OK;
}

static clt_status concat_backward(ocl_emitter *e, const clt_call *call, bool by_row)
{
    int64_t start = 0;
    for (int i = 0; i < call->node->n_in; i++) {
        clt_window f = concat_window(call, i, &start);
        clt_window w = {f.outer, f.run, f.x_stride, 0, f.y_stride, f.y_start};
        if (call->din[i] >= 0)
            clt_emit_window(e, call->din[i], call->dout[0], clt_call_dtype(call, call->din[i]), &w, true,
                            call->din_accumulate[i], by_row);
    }
    return CLT_OK;
}

CLT_FLAT_ROW_VARIANTS(concat_forward)
CLT_FLAT_ROW_VARIANTS(concat_backward)

CLT_OP_DOC(concat, .text = "Joins up to 16 tensors along one dimension, in the order of the inputs.",
           .inputs = "x0, x1, ...: equal shapes but for axis, one type of 1, 2 or 4 bytes",
           .output = "y: their shape with the sizes along axis added up",
           .example = "{\"op\": \"concat\", \"inputs\": [\"a\", \"b\"]}",
           .before =
               "{\"op\": \"flatten\", \"name\": \"flat\"}, {\"op\": \"linear\", \"name\": \"a\", \"out\": "
               "32}, {\"op\": \"linear\", \"name\": \"b\", \"inputs\": [\"flat\"], \"out\": 16}, ");

CLT_OP_DEFINE(concat, "y = inputs joined along one axis, in order", 1, CLT_MAX_IN, CLT_OP_ATTRS(concat_attrs),
              .flags = CLT_OP_MOVE | CLT_OP_ALL_ONE_LAYOUT, .infer = concat_infer, CLT_OP_VARIANTS(concat));
