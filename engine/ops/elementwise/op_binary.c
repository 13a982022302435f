/* SPDX-License-Identifier: Apache-2.0
 *
 * The ops add and multiply. Inputs after the first may lack leading dimensions, along which they are
 * repeated. Knows flat arrays, no model. */
#include "engine/ops/elementwise/column_sums.h"
#include "engine/ops/emit_util.h"

/* add: y = x0 + x1 + ...; multiply: y = x0 * x1
 * shapes  x0 (D0,...,Dn), xi as x0 or the last dimensions of x0 -> y as x0
 * dtypes  f32|f16|bf16, all equal; arithmetic f32
 * grads   dxi: write or accumulate; the gradient of a repeated input is summed over its repetitions, in a
 *         fixed order
 * units   none                                           errors  CLT_ESHAPE with both shapes
 * memory  workspace for gradients of repeated inputs: at most 256 times their size as f32; for an f16 or bf16
 *         sum of more than four inputs, or of two repeated ones: y as f32
 * source  -                                              tested  verify -t 'add*', 'multiply*', or exact */

static clt_status binary_infer(clt_infer *ctx)
{
    CLT_TRY(clt_infer_need_float(ctx, 0));
    clt_shape shape = clt_infer_in(ctx, 0)->shape;
    clt_dtype dtype = clt_infer_in(ctx, 0)->dtype;
    char a[CLT_SHAPE_TEXT], b[CLT_SHAPE_TEXT];
    for (int i = 1; i < ctx->node->n_in; i++) {
        const clt_tensor *t = clt_infer_in(ctx, i);
        int lead = shape.ndim - t->shape.ndim;
        bool fits = lead >= 0;
        for (int d = 0; fits && d < t->shape.ndim; d++)
            fits = t->shape.dim[d] == shape.dim[lead + d];
        if (!fits)
            return clt_infer_fail(
                ctx,
                "input %d ('%s') has shape %s, which is neither the first input's %s nor its last "
                "dimensions; put the larger input first, or reshape",
                i, t->name, clt_shape_text(&t->shape, a, sizeof a), clt_shape_text(&shape, b, sizeof b));
        if (t->dtype != dtype)
            return clt_infer_fail(ctx,
                                  "input %d ('%s') has type %s and the first one %s; a 'cast' layer converts",
                                  i, t->name, clt_dtype_name(t->dtype), clt_dtype_name(dtype));
    }
    return clt_infer_out(ctx, dtype, &shape);
}

/* A launch takes at most four inputs, only one of which may be repeated. Further launches add to its sum,
 * which is f32 until all inputs are added. */
static clt_status add_forward(ocl_emitter *e, const clt_call *call, clt_style style)
{
    uint64_t elements = (uint64_t)clt_call_elements(call, call->out[0]);
    int32_t full[CLT_MAX_IN], repeated[CLT_MAX_IN];
    int n_full = 0, n_repeated = 0, at_full = 0, at_repeated = 0;
    for (int i = 0; i < call->node->n_in; i++) {
        if ((uint64_t)clt_call_elements(call, call->in[i]) == elements)
            full[n_full++] = call->in[i];
        else
            repeated[n_repeated++] = call->in[i];
    }
    clt_dtype type = clt_call_dtype(call, call->out[0]);
    bool apart = type != CLT_F32 && (call->node->n_in > 4 || n_repeated > 1);
    int32_t sum = apart ? ocl_workspace(e, CLT_F32, elements, "sum of inputs") : call->out[0];
    while (at_full < n_full || at_repeated < n_repeated) {
        clt_binary_launch l = {.kernel = "binary_fwd", .y = sum, .elements = elements, .period = elements};
        l.accumulate = at_full > 0;
        while (l.n_in < 4 && at_full < n_full)
            l.in[l.n_in++] = full[at_full++];
        if (l.n_in < 4 && at_repeated < n_repeated) {
            l.period = (uint64_t)clt_call_elements(call, repeated[at_repeated]);
            l.in[l.n_in++] = repeated[at_repeated++];
        }
        clt_emit_binary(e, call, &l, style);
    }
    if (apart)
        clt_emit_convert(e, call->out[0], type, sum, CLT_F32, elements);
    return CLT_OK;
}

static clt_status add_backward(ocl_emitter *e, const clt_call *call, clt_style style)
{
    int64_t elements = clt_call_elements(call, call->dout[0]);
    for (int i = 0; i < call->node->n_in; i++) {
        if (call->din[i] < 0)
            continue;
        int64_t cols = clt_call_elements(call, call->din[i]);
        if (cols == elements)
            clt_emit_copy_grad(e, call->din[i], call->dout[0], clt_call_dtype(call, call->din[i]),
                               (uint64_t)elements, call->din_accumulate[i]);
        else
            clt_emit_column_sum(e, call, call->din[i], call->din_accumulate[i], call->dout[0],
                                elements / cols, cols, style);
    }
    return CLT_OK;
}

static clt_status multiply_forward(ocl_emitter *e, const clt_call *call, clt_style style)
{
    clt_binary_launch l = {.kernel = "binary_fwd",
                           .multiply = true,
                           .y = call->out[0],
                           .in = {call->in[0], call->in[1]},
                           .n_in = 2,
                           .elements = (uint64_t)clt_call_elements(call, call->in[0]),
                           .period = (uint64_t)clt_call_elements(call, call->in[1])};
    clt_emit_binary(e, call, &l, style);
    return CLT_OK;
}

static clt_status multiply_backward(ocl_emitter *e, const clt_call *call, clt_style style)
{
    int64_t elements = clt_call_elements(call, call->in[0]), period = clt_call_elements(call, call->in[1]);
    for (int i = 0; i < 2; i++) {
        if (call->din[i] < 0)
            continue;
        if (i == 0 || period == elements) {
            clt_binary_launch l = {.kernel = "binary_bwd",
                                   .multiply = true,
                                   .accumulate = call->din_accumulate[i],
                                   .y = call->din[i],
                                   .in = {call->dout[0], call->in[1 - i]},
                                   .n_in = 2,
                                   .elements = (uint64_t)elements,
                                   .period = (uint64_t)period};
            clt_emit_binary(e, call, &l, style);
        } else {
            clt_column_sums s = {.dy = call->dout[0],
                                 .x = call->in[0],
                                 .mean = -1,
                                 .rstd = -1,
                                 .p = call->din[1],
                                 .q = -1,
                                 .p_accumulate = call->din_accumulate[1],
                                 .rows = elements / period,
                                 .cols = period};
            clt_emit_column_sums(e, call, &s, style);
        }
    }
    return CLT_OK;
}
CLT_ELEMENTWISE_VARIANTS(add_forward)
CLT_ELEMENTWISE_VARIANTS(add_backward)
CLT_ELEMENTWISE_VARIANTS(multiply_forward)
CLT_ELEMENTWISE_VARIANTS(multiply_backward)

CLT_OP_DOC(
    add,
    .text = "The sum of up to 16 tensors: residual connections. A later input may lack leading dimensions "
            "and is then repeated along them.",
    .inputs =
        "x0: any shape, f32, f16 or bf16\nx1, ...: the shape of x0 or its last dimensions, the type of x0",
    .output = "y: shape and type of x0", .example = "{\"op\": \"add\", \"inputs\": [\"in\", \"mid\"]}",
    .before = "{\"op\": \"flatten\"}, {\"op\": \"linear\", \"name\": \"in\", \"out\": 64}, {\"op\": "
              "\"relu\"}, {\"op\": \"linear\", \"name\": \"mid\", \"out\": 64}, ");

CLT_OP_DOC(
    multiply,
    .text = "The product of two tensors, element by element: gates. The second one may lack leading "
            "dimensions and is then repeated along them.",
    .inputs = "x0: any shape, f32, f16 or bf16\nx1: the shape of x0 or its last dimensions, the type of x0",
    .output = "y: shape and type of x0",
    .example = "{\"op\": \"multiply\", \"inputs\": [\"value\", \"gate\"]}",
    .before = "{\"op\": \"flatten\", \"name\": \"flat\"}, {\"op\": \"linear\", \"name\": \"value\", \"out\": "
              "32}, {\"op\": \"linear\", \"name\": \"raw\", \"inputs\": [\"flat\"], \"out\": 32}, {\"op\": "
              "\"sigmoid\", \"name\": \"gate\"}, ");

CLT_OP_DEFINE(add, "y = x0 + x1 + ..., later inputs repeated along missing leading dimensions", 2, CLT_MAX_IN,
              .flags = CLT_OP_SUM | CLT_OP_ANY_LAYOUT | CLT_OP_FOLLOWS, .same_grad_inputs = UINT32_MAX,
              .infer = binary_infer, CLT_OP_VARIANTS(add));
CLT_OP_DEFINE(multiply, "y = x0 * x1, x1 repeated along missing leading dimensions", 2, 2,
              .flags = CLT_OP_ANY_LAYOUT, .infer = binary_infer, CLT_OP_VARIANTS(multiply));
