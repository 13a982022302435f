/* SPDX-License-Identifier: Apache-2.0
 *
 * The op linear: a GEMM over all rows of the input, and a bias. Knows matrices, no model. */
#include <math.h>

#include "engine/ops/bias.h"
#include "engine/ops/emit_util.h"

/* linear: y = x W^T + b
 * shapes  x (N,...,I), W (O,I), b (O) -> y (N,...,O)
 * dtypes  x,y,W f32|f16|bf16; accumulates f32
 * grads   dx = dy W, dW = dy^T x, db: write or accumulate       units   init_std: unit of the weights
 * memory  workspace of db: see bias                             errors  CLT_ESHAPE for an integer x
 * source  initialisation as torch.nn.Linear
 * tested  verify -t 'linear*', tol 32, exact on integers */

enum { INIT_KAIMING_UNIFORM, INIT_KAIMING_NORMAL, INIT_XAVIER, INIT_NORMAL, INIT_ZEROS };

static const clt_attr_spec linear_attrs[] = {
    {.name = "out",
     .type = CLT_ATTR_INT,
     .required = true,
     .min = 1,
     .max = INT32_MAX,
     .help = "output features"},
    {.name = "bias",
     .type = CLT_ATTR_BOOL,
     .default_value = 1,
     .min = 0,
     .max = 1,
     .help = "add a bias vector"},
    {.name = "init",
     .type = CLT_ATTR_CHOICE,
     .default_value = INIT_KAIMING_UNIFORM,
     .choices = "kaiming_uniform|kaiming_normal|xavier|normal|zeros",
     .help = "weights at the start; kaiming_uniform is torch's default, its bias U(+-1/sqrt(in)), else zero"},
    {.name = "init_std",
     .type = CLT_ATTR_FLOAT,
     .default_value = 0.02,
     .min = 0,
     .max = 1000,
     .help = "standard deviation of init normal"},
};

static clt_init linear_weight_init(const clt_node *node)
{
    clt_init init = {CLT_INIT_ZEROS, 0.0f, 0, 0};
    switch (clt_node_attr(node, "init")->choice) {
    case INIT_KAIMING_UNIFORM:
        init.kind = CLT_INIT_KAIMING_UNIFORM;
        init.scale = sqrtf(5.0f);
        break;
    case INIT_KAIMING_NORMAL:
        init.kind = CLT_INIT_KAIMING_NORMAL;
        break;
    case INIT_XAVIER:
        init.kind = CLT_INIT_XAVIER_UNIFORM;
        break;
    case INIT_NORMAL:
        init.kind = CLT_INIT_NORMAL;
        init.scale = (float)clt_node_attr(node, "init_std")->f;
        break;
    default:
        break;
    }
    return init;
}

static clt_status linear_infer(clt_infer *ctx)
{
    CLT_TRY(clt_infer_need_float(ctx, 0));
    const clt_tensor *x = clt_infer_in(ctx, 0);
    clt_shape shape = x->shape;
    clt_dtype dtype = x->dtype;
    char text[CLT_SHAPE_TEXT];
    int64_t in = clt_shape_last(&shape), out = clt_node_attr(ctx->node, "out")->i;
    if (shape.ndim < 2 || in < 1)
        return clt_infer_fail(ctx, "the input %s needs a feature dimension after the batch",
                              clt_shape_text(&shape, text, sizeof text));
    shape.dim[shape.ndim - 1] = out;
    clt_shape w = clt_shape2(out, in), b = clt_shape1(out);
    CLT_TRY(clt_infer_out(ctx, dtype, &shape));
    CLT_TRY(clt_infer_param(ctx, "weight", &w, linear_weight_init(ctx->node)));
    if (!clt_node_attr(ctx->node, "bias")->b)
        return CLT_OK;
    clt_init bias = {CLT_INIT_ZEROS, 0.0f, 0, 0};
    if (clt_node_attr(ctx->node, "init")->choice == INIT_KAIMING_UNIFORM)
        bias = (clt_init){CLT_INIT_UNIFORM, (float)(1.0 / sqrt((double)in)), 0, 0};
    return clt_infer_param(ctx, "bias", &b, bias);
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
    CLT_TRY(ocl_gemm_emit(e, &g, NULL));
    if (call->node->n_param > 1)
        clt_emit_bias(e, call, call->out[0], call->out[0], call->param[1], rows, out);
    return CLT_OK;
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
        CLT_TRY(ocl_gemm_emit(e, &g, NULL));
    }
    if (call->dparam[0] >= 0) {
        ocl_gemm g = ocl_gemm_make(out, in, rows, true, false);
        g.type_a = dy->dtype;
        g.type_b = x->dtype;
        g.type_c = clt_call_dtype(call, call->dparam[0]);
        g.a = ocl_ref(call->dout[0]);
        g.b = ocl_ref(call->in[0]);
        g.c = ocl_ref(call->dparam[0]);
        g.beta = call->dparam_accumulate[0] ? 1.0f : 0.0f;
        CLT_TRY(ocl_gemm_emit(e, &g, NULL));
    }
    if (call->node->n_param > 1 && call->dparam[1] >= 0)
        clt_emit_bias_grad(e, call, call->dparam[1], call->dparam_accumulate[1], call->dout[0], rows, out);
    return CLT_OK;
}

static const ocl_variant forward_gemm = {"gemm", 0, NULL, NULL, linear_forward};
static const ocl_variant *const forward_variants[] = {&forward_gemm, NULL};
static const ocl_variant backward_gemm = {"gemm", 0, NULL, NULL, linear_backward};
static const ocl_variant *const backward_variants[] = {&backward_gemm, NULL};

extern const clt_op_ref clt_op_linear_ref;
extern const clt_op clt_op_linear;
const clt_op clt_op_linear = {
    .name = "linear",
    .summary = "y = x W^T + b",
    .attrs = linear_attrs,
    .n_attrs = sizeof linear_attrs / sizeof linear_attrs[0],
    .min_in = 1,
    .max_in = 1,
    .infer = linear_infer,
    .forward = forward_variants,
    .backward = backward_variants,
    .ref = &clt_op_linear_ref,
};
