/* SPDX-License-Identifier: Apache-2.0
 *
 * The op positional: adds a learned row to each position of a sequence. It is a bias over all features of a
 * sample and uses the commands of bias. Knows sequences and features, no model. */
#include "engine/ops/elementwise/bias.h"
#include "engine/ops/elementwise/column_sums.h"
#include "engine/ops/emit_util.h"

/* positional: y[n,t] = x[n,t] + w[t]
 * shapes  x (N,T,C), w (positions,C), T <= positions -> y (N,T,C)
 * dtypes  x,y f32|f16|bf16; w any of them; accumulates f32
 * grads   dx: copy of dy; dw: sum over the batch in a fixed order, rows from T on zero; write or accumulate
 * units   none                                      memory  workspace of dw: see bias
 * errors  CLT_ESHAPE for an integer x, other dimensions than three, T > positions
 * source  GPT-2's wpe                               tested  verify -t 'positional*', exact on integers */

static const clt_attr_spec positional_attrs[] = {
    CLT_SPEC_NEEDED(INT, "positions", 1, INT32_MAX, "rows of the table: the longest sequence"),
    CLT_SPEC_FLOAT("init_std", 0.02, 0, 1000, "standard deviation of the table at the start"),
};

static clt_status positional_infer(clt_infer *ctx)
{
    CLT_TRY(clt_infer_need_float(ctx, 0));
    const clt_tensor *x = clt_infer_in(ctx, 0);
    clt_shape shape = x->shape;
    clt_dtype dtype = x->dtype;
    char text[CLT_SHAPE_TEXT];
    int64_t positions = clt_node_attr(ctx->node, "positions")->i;
    if (shape.ndim != 3 || shape.dim[1] > positions)
        return clt_infer_fail(ctx, "the input %s must be (N, T, features) with T at most %lld",
                              clt_shape_text(&shape, text, sizeof text), (long long)positions);
    clt_shape w = clt_shape2(positions, shape.dim[2]);
    clt_init init = {CLT_INIT_NORMAL, (float)clt_node_attr(ctx->node, "init_std")->f, 0, 0};
    CLT_TRY(clt_infer_out(ctx, dtype, &shape));
    return clt_infer_param(ctx, "weight", &w, init);
}

static clt_status positional_forward(ocl_emitter *e, const clt_call *call, clt_style style)
{
    const clt_shape *x = &clt_call_tensor(call, call->in[0])->shape;
    clt_emit_bias(e, call, call->out[0], call->in[0], call->param[0], x->dim[0], x->dim[1] * x->dim[2],
                  style);
    return CLT_OK;
}

static clt_status positional_backward(ocl_emitter *e, const clt_call *call, clt_style style)
{
    const clt_tensor *dy = clt_call_tensor(call, call->dout[0]);
    int64_t used = dy->shape.dim[1] * dy->shape.dim[2];
    if (call->din[0] >= 0)
        clt_emit_copy_grad(e, call->din[0], call->dout[0], dy->dtype,
                           (uint64_t)clt_shape_elements(&dy->shape), call->din_accumulate[0]);
    if (call->dparam[0] < 0)
        return CLT_OK;
    clt_emit_column_sum(e, call, call->dparam[0], call->dparam_accumulate[0], call->dout[0], dy->shape.dim[0],
                        used, style);
    int64_t unused = clt_call_elements(call, call->dparam[0]) - used;
    if (unused > 0 && !call->dparam_accumulate[0])
        clt_emit_zero(e, call->dparam[0], (uint64_t)used, clt_call_dtype(call, call->dparam[0]),
                      (uint64_t)unused);
    return CLT_OK;
}

CLT_ELEMENTWISE_VARIANTS(positional_forward)
CLT_ELEMENTWISE_VARIANTS(positional_backward)

CLT_OP_DOC(positional,
           .text = "Adds a learned row to each place of a sequence, so that attention can tell places apart.",
           .inputs = "x: (N,T,C), T at most positions, f32, f16 or bf16", .output = "y: shape and type of x",
           .params = "weight: (positions,C)", .example = "{\"op\": \"positional\", \"positions\": 64}",
           .before = "{\"op\": \"embedding\", \"vocab\": 256, \"dim\": 32}, ",
           .after = ", {\"op\": \"linear\", \"out\": 256}, {\"op\": \"cross_entropy\"}",
           .data = CLT_DOC_TEXT);

CLT_OP_DEFINE(positional, "y[n,t] = x[n,t] + w[t]: a learned row for each place of a sequence", 1, 1,
              CLT_OP_ATTRS(positional_attrs), .flags = CLT_OP_FOLLOWS, .infer = positional_infer,
              CLT_OP_VARIANTS(positional), .same_grad_inputs = 1);
