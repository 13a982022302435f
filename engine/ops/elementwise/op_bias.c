/* SPDX-License-Identifier: Apache-2.0
 *
 * The op bias, and the commands for a bias that other ops share: a broadcast addition and a column sum.
 * Knows rows and columns, no model. */
#include "engine/ops/elementwise/bias.h"
#include "engine/ops/elementwise/column_sums.h"
#include "engine/ops/emit_util.h"

/* bias: y = x + b over the last dimension
 * shapes  x (N,...,C), b (C) -> y (N,...,C)
 * dtypes  x,y f32|f16|bf16; b any of them; accumulates f32
 * grads   dx: copy of dy; db: write or accumulate               units   none
 * memory  workspace of db: blocks*C*4 bytes, blocks <= 32768      errors  CLT_ESHAPE for an integer x
 * source  -
 * tested  verify -t 'bias*', exact on integers */

void clt_emit_bias(ocl_emitter *e, const clt_call *call, int32_t y, int32_t x, int32_t b, int64_t rows,
                   int64_t cols, clt_style style)
{
    clt_binary_launch l = {.kernel = "binary_fwd",
                           .y = y,
                           .in = {x, b},
                           .n_in = 2,
                           .elements = (uint64_t)(rows * cols),
                           .period = (uint64_t)cols};
    clt_emit_binary(e, call, &l, style);
}

void clt_emit_bias_grad(ocl_emitter *e, const clt_call *call, int32_t db, bool accumulate, int32_t dy,
                        int64_t rows, int64_t cols)
{
    clt_emit_column_sum(e, call, db, accumulate, dy, rows, cols, clt_style_of(e->device));
}

ocl_line_sums *clt_bias_sums(const clt_call *call, ocl_line_sums *sums)
{
    return sums->out >= 0 && clt_call_dtype(call, sums->out) == CLT_F32 ? sums : NULL;
}

static clt_status bias_infer(clt_infer *ctx)
{
    CLT_TRY(clt_infer_need_float(ctx, 0));
    const clt_tensor *x = clt_infer_in(ctx, 0);
    clt_shape shape = x->shape;
    clt_dtype dtype = x->dtype;
    if (shape.ndim < 2)
        return clt_infer_fail(ctx, "the input needs a feature dimension after the batch");
    clt_shape b = clt_shape1(clt_shape_last(&shape));
    CLT_TRY(clt_infer_out(ctx, dtype, &shape));
    return clt_infer_param(ctx, "bias", &b, (clt_init){CLT_INIT_ZEROS, 0.0f, 0, 0});
}

static clt_status bias_forward(ocl_emitter *e, const clt_call *call, clt_style style)
{
    const clt_shape *shape = &clt_call_tensor(call, call->in[0])->shape;
    clt_emit_bias(e, call, call->out[0], call->in[0], call->param[0], clt_shape_rows(shape),
                  clt_shape_last(shape), style);
    return CLT_OK;
}

static clt_status bias_backward(ocl_emitter *e, const clt_call *call, clt_style style)
{
    const clt_tensor *dy = clt_call_tensor(call, call->dout[0]);
    if (call->din[0] >= 0)
        clt_emit_copy_grad(e, call->din[0], call->dout[0], dy->dtype,
                           (uint64_t)clt_shape_elements(&dy->shape), call->din_accumulate[0]);
    if (call->dparam[0] >= 0)
        clt_emit_column_sum(e, call, call->dparam[0], call->dparam_accumulate[0], call->dout[0],
                            clt_shape_rows(&dy->shape), clt_shape_last(&dy->shape), style);
    return CLT_OK;
}
CLT_ELEMENTWISE_VARIANTS(bias_forward)
CLT_ELEMENTWISE_VARIANTS(bias_backward)

CLT_OP_DOC(bias, .text = "Adds a learned vector to every row. A linear layer already has such a vector.",
           .inputs = "x: (N,...,C), f32, f16 or bf16", .output = "y: shape and type of x",
           .params = "bias: (C), zero at the start", .example = "{\"op\": \"bias\"}",
           .before = "{\"op\": \"flatten\"}, {\"op\": \"linear\", \"out\": 32, \"bias\": false}, ");

CLT_OP_DEFINE(bias, "y = x + b over the last dimension", 1, 1, .infer = bias_infer, CLT_OP_VARIANTS(bias),
              .same_grad_inputs = 1);
