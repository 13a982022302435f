/* SPDX-License-Identifier: Apache-2.0
 *
 * The op rmsnorm over the last dimension. Knows rows and columns, no model. */
#include "engine/ops/infer.h"
#include "engine/ops/norm/norm.h"

/* rmsnorm: y = x * rstd * w, rstd = 1 / sqrt(mean(x^2) + eps)
 * shapes  x (N,...,C), w (C) -> y (N,...,C); saves rstd (R), R = N*...
 * dtypes  x,y f32|f16|bf16, not always the same; w any of them; rstd f32
 * grads   dx, dw: write or accumulate                    units   eps: square of x's unit
 * memory  workspace of dw: 4*C*blocks bytes, blocks <= 32768 (column_sums.h)
 * errors  CLT_ESHAPE for an integer x or one without a dimension after the batch
 * source  Zhang & Sennrich 2019, arXiv:1910.07467
 * tested  verify -t 'rmsnorm*', tol 32, more for rows of a few elements */

static const clt_attr_spec rmsnorm_attrs[] = {
    CLT_NORM_EPS,
    CLT_SPEC_BOOL("affine", true, "learn a factor per column"),
};

static clt_status rmsnorm_infer(clt_infer *ctx)
{
    clt_shape row, stats;
    CLT_TRY(clt_norm_infer(ctx, &row, &stats));
    if (clt_node_attr(ctx->node, "affine")->b)
        CLT_TRY(clt_infer_param(ctx, "weight", &row, (clt_init){CLT_INIT_ONES, 0.0f, 0, 0}));
    return clt_infer_saved(ctx, "rstd", CLT_F32, &stats);
}

CLT_OP_DOC(
    rmsnorm,
    .text = "Divides every row by its root mean square, then a learned factor for each column. Cheaper than "
            "layernorm: nothing is subtracted and nothing is added.",
    .inputs = "x: (N,...,C), f32, f16 or bf16", .output = "y: shape and type of x",
    .params = "weight: (C) unless affine is false", .example = "{\"op\": \"rmsnorm\"}",
    CLT_DOC_LINEAR_BEFORE);

CLT_OP_DEFINE(rmsnorm, "y = x / sqrt(mean(x^2) + eps) * w over the last dimension", 1, 1,
              CLT_OP_ATTRS(rmsnorm_attrs), .flags = CLT_OP_CHEAP | CLT_OP_RETYPES, .infer = rmsnorm_infer,
              .forward = CLT_NORM_FORWARD("rmsnorm"), .backward = CLT_NORM_BACKWARD("rmsnorm"));
