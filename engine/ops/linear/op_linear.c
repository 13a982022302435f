/* SPDX-License-Identifier: Apache-2.0
 *
 * The op linear: a GEMM over all rows of the input, whose epilogue adds the bias and the neighbouring work
 * that the plan has fused into it. Knows matrices, no model. */
#include <math.h>

#include "engine/ops/elementwise/bias.h"
#include "engine/ops/emit_util.h"
#include "engine/ops/linear/linear.h"

/* linear: y = x W^T + b
 * shapes  x (N,...,I), W (O,I), b (O) -> y (N,...,O)
 * dtypes  x,y,W f32|f16|bf16; accumulates f32
 * grads   dx = dy W, dW = dy^T x, db: write or accumulate       units   init_std: unit of the weights
 * memory  workspace of db: see bias                             errors  CLT_ESHAPE for an integer x
 * source  initialisation as torch.nn.Linear
 * tested  verify -t 'linear*', tol 32, exact on integers */

static const clt_attr_spec linear_attrs[] = {CLT_LINEAR_ATTRS};

clt_init clt_linear_init(const clt_node *node)
{
    clt_init init = {CLT_INIT_ZEROS, 0.0f, 0, 0};
    switch (clt_node_attr(node, "init")->choice) {
    case CLT_LINEAR_KAIMING_UNIFORM:
        init.kind = CLT_INIT_KAIMING_UNIFORM;
        init.scale = sqrtf(5.0f);
        break;
    case CLT_LINEAR_KAIMING_NORMAL:
        init.kind = CLT_INIT_KAIMING_NORMAL;
        break;
    case CLT_LINEAR_XAVIER:
        init.kind = CLT_INIT_XAVIER_UNIFORM;
        break;
    case CLT_LINEAR_NORMAL:
        init.kind = CLT_INIT_NORMAL;
        init.scale = (float)clt_node_attr(node, "init_std")->f;
        break;
    default:
        break;
    }
    return init;
}

clt_status clt_linear_shape(clt_infer *ctx, clt_shape *out)
{
    CLT_TRY(clt_infer_need_float(ctx, 0));
    const clt_tensor *x = clt_infer_in(ctx, 0);
    char text[CLT_SHAPE_TEXT];
    *out = x->shape;
    if (out->ndim < 2 || clt_shape_last(out) < 1)
        return clt_infer_fail(ctx, "the input %s needs a feature dimension after the batch",
                              clt_shape_text(out, text, sizeof text));
    out->dim[out->ndim - 1] = clt_node_attr(ctx->node, "out")->i;
    return CLT_OK;
}

clt_status clt_linear_params(clt_infer *ctx)
{
    int64_t in = clt_shape_last(&clt_infer_in(ctx, 0)->shape), out = clt_node_attr(ctx->node, "out")->i;
    clt_shape w = clt_shape2(out, in), b = clt_shape1(out);
    CLT_TRY(clt_infer_param(ctx, "weight", &w, clt_linear_init(ctx->node)));
    if (!clt_node_attr(ctx->node, "bias")->b)
        return CLT_OK;
    clt_init bias = {CLT_INIT_ZEROS, 0.0f, 0, 0};
    if (clt_node_attr(ctx->node, "init")->choice == CLT_LINEAR_KAIMING_UNIFORM)
        bias = (clt_init){CLT_INIT_UNIFORM, (float)(1.0 / sqrt((double)in)), 0, 0};
    return clt_infer_param(ctx, "bias", &b, bias);
}

static clt_status linear_infer(clt_infer *ctx)
{
    clt_shape shape;
    CLT_TRY(clt_linear_shape(ctx, &shape));
    CLT_TRY(clt_infer_out(ctx, clt_infer_in(ctx, 0)->dtype, &shape));
    return clt_linear_params(ctx);
}

static clt_status linear_forward(ocl_emitter *e, const void *problem)
{
    const clt_call *call = problem;
    const clt_tensor *x = clt_call_tensor(call, call->in[0]), *y = clt_call_tensor(call, call->out[0]);
    int64_t rows = clt_shape_rows(&x->shape), in = clt_shape_last(&x->shape), out = clt_shape_last(&y->shape);
    ocl_gemm g = ocl_gemm_make(rows, out, in, false, true);
    g.type_a = x->dtype;
    g.type_b = clt_call_dtype(call, call->param[0]);
    g.type_c = y->dtype;
    g.a = ocl_ref(call->in[0]);
    g.b = ocl_ref(call->param[0]);
    g.c = ocl_ref(call->out[0]);
    if (call->node->n_param > 1)
        g.bias = ocl_ref(call->param[1]);
    g.activation = call->epilogue.activation;
    g.pre = ocl_ref(call->epilogue.pre);
    g.residual = ocl_ref(call->epilogue.residual);
    return ocl_gemm_emit(e, &g, NULL);
}

static clt_status linear_backward(ocl_emitter *e, const void *problem)
{
    const clt_call *call = problem;
    const clt_tensor *x = clt_call_tensor(call, call->in[0]), *dy = clt_call_tensor(call, call->dout[0]);
    int64_t rows = clt_shape_rows(&x->shape), in = clt_shape_last(&x->shape),
            out = clt_shape_last(&dy->shape);
    if (call->din[0] >= 0) {
        ocl_gemm g = ocl_gemm_make(rows, in, out, false, false);
        g.type_a = dy->dtype;
        g.type_b = clt_call_dtype(call, call->param[0]);
        g.type_c = clt_call_dtype(call, call->din[0]);
        g.a = ocl_ref(call->dout[0]);
        g.b = ocl_ref(call->param[0]);
        g.c = ocl_ref(call->din[0]);
        g.beta = call->din_accumulate[0] ? 1.0f : 0.0f;
        g.activation = call->epilogue.activation;
        g.dact = ocl_ref(call->epilogue.dact);
        CLT_TRY(ocl_gemm_emit(e, &g, NULL));
    }
    bool bias = call->node->n_param > 1 && call->dparam[1] >= 0;
    ocl_line_sums sums = {.out = bias ? call->dparam[1] : -1, .accumulate = call->dparam_accumulate[1]};
    if (call->dparam[0] >= 0) {
        ocl_gemm g = ocl_gemm_make(out, in, rows, true, false);
        g.type_a = dy->dtype;
        g.type_b = x->dtype;
        g.type_c = clt_call_dtype(call, call->dparam[0]);
        g.a = ocl_ref(call->dout[0]);
        g.b = ocl_ref(call->in[0]);
        g.c = ocl_ref(call->dparam[0]);
        g.beta = call->dparam_accumulate[0] ? 1.0f : 0.0f;
        g.line_sums = clt_bias_sums(call, &sums);
        CLT_TRY(ocl_gemm_emit(e, &g, NULL));
    }
    if (bias && !sums.made)
        clt_emit_bias_grad(e, call, call->dparam[1], call->dparam_accumulate[1], call->dout[0], rows, out);
    return CLT_OK;
}

static const ocl_variant forward_gemm = {.name = "gemm", .emit = linear_forward};
static const ocl_variant *const forward_variants[] = {&forward_gemm, NULL};
static const ocl_variant backward_gemm = {.name = "gemm", .emit = linear_backward};
static const ocl_variant *const backward_variants[] = {&backward_gemm, NULL};

CLT_OP_DOC(
    linear,
    .text = "A fully connected layer: every output is a weighted sum of all features of the last dimension. "
            "Dimensions before the last one are rows, each treated alike.",
    .inputs = "x: (N,...,I), f32, f16 or bf16", .output = "y: (N,...,out), type of x",
    .params = "weight: (out,I); bias: (out) unless bias is false",
    .example = "{\"op\": \"linear\", \"out\": 64}", .before = "{\"op\": \"flatten\"}, ");

static bool linear_takes_residual(const clt_node *node)
{
    (void)node;
    return true;
}

CLT_OP_DEFINE(linear, "y = x W^T + b", 1, 1, CLT_OP_ATTRS(linear_attrs),
              .flags = CLT_OP_GEMM | CLT_OP_GEMM_DX, .infer = linear_infer,
              .forward = {.variants = forward_variants}, .backward = {.variants = backward_variants},
              .narrow_params = 1, .takes_residual = linear_takes_residual);
