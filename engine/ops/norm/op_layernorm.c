/* SPDX-License-Identifier: Apache-2.0
 *
 * The op layernorm over the last dimension. Knows rows and columns, no model. */
#include "engine/ops/infer.h"
#include "engine/ops/norm/norm.h"

/* layernorm: y = (x - mean) * rstd * w + b, rstd = 1 / sqrt(var + eps), var the mean of (x - mean)^2
 * shapes  x (N,...,C), w (C), b (C) -> y (N,...,C); saves mean (R), rstd (R), R = N*...
 * dtypes  x,y f32|f16|bf16, not always the same; w,b any of them; mean,rstd f32
 * grads   dx, dw, db: write or accumulate                units   eps: square of x's unit
 * memory  workspace of dw and db: 4*C*blocks bytes each, blocks <= 32768 (column_sums.h)
 * errors  CLT_ESHAPE for an integer x or one without a dimension after the batch
 * source  Ba, Kiros & Hinton 2016, arXiv:1607.06450
 * tested  verify -t 'layernorm*', tol 32, more for rows of a few elements */

static const clt_attr_spec layernorm_attrs[] = {
    CLT_NORM_EPS,
    CLT_SPEC_BOOL("affine", true, "learn a factor per column"),
    CLT_SPEC_BOOL("bias", true, "learn a shift per column; needs affine"),
};

static clt_status layernorm_infer(clt_infer *ctx)
{
    const clt_attr *bias = clt_node_attr(ctx->node, "bias");
    bool affine = clt_node_attr(ctx->node, "affine")->b;
    if (!affine && bias->set && bias->b)
        return clt_infer_fail(
            ctx, "\"bias\": true needs \"affine\": true; to learn only a shift, add a 'bias' layer");
    clt_shape row, stats;
    CLT_TRY(clt_norm_infer(ctx, &row, &stats));
    if (affine)
        CLT_TRY(clt_infer_param(ctx, "weight", &row, (clt_init){CLT_INIT_ONES, 0.0f, 0, 0}));
    if (affine && bias->b)
        CLT_TRY(clt_infer_param(ctx, "bias", &row, (clt_init){CLT_INIT_ZEROS, 0.0f, 0, 0}));
    CLT_TRY(clt_infer_saved(ctx, "mean", CLT_F32, &stats));
    return clt_infer_saved(ctx, "rstd", CLT_F32, &stats);
}

CLT_OP_DOC(
    layernorm,
    .text = "Gives every row the mean 0 and the variance 1, then a learned factor and shift for each column.",
    .inputs = "x: (N,...,C), f32, f16 or bf16", .output = "y: shape and type of x",
    .params = "weight: (C) unless affine is false; bias: (C) unless bias or affine is false",
    .example = "{\"op\": \"layernorm\"}", CLT_DOC_LINEAR_BEFORE);

CLT_OP_DEFINE(layernorm, "y = (x - mean) / sqrt(var + eps) * w + b over the last dimension", 1, 1,
              CLT_OP_ATTRS(layernorm_attrs), .flags = CLT_OP_CHEAP | CLT_OP_RETYPES, .infer = layernorm_infer,
              .forward = CLT_NORM_FORWARD("layernorm"), .backward = CLT_NORM_BACKWARD("layernorm"));
