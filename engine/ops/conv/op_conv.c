/* SPDX-License-Identifier: Apache-2.0
 *
 * The ops conv2d and conv3d, and conv_transpose2d and conv_transpose3d, which are their gradients.
 * Attributes, shapes and the choice of an algorithm; what an algorithm does is in its own file. Knows images
 * and volumes, no model. */
#include <math.h>
#include <stdio.h>

#include "engine/ops/conv/conv.h"
#include "engine/ops/elementwise/bias.h"
#include "engine/ops/emit_util.h"
#include "engine/ops/linear/linear.h"
#include "engine/ops/op_problem.h"

/* conv2d, conv3d: y[n,k,o] = b[k] + sum over c, t of w[k,c,t] x[n, c, o stride - padding + t dilation]
 * shapes  x (N,C,in...), w (K,window...,C/groups) in memory, (K,C/groups,window...) in files, b (K)
 *         -> y (N,K,out...), out = floor((in + 2 padding - dilation (kernel - 1) - 1) / stride) + 1
 * dtypes  x,y,w f32|f16|bf16; accumulates f32
 * grads   dx, dw, db: write or accumulate                units   init_std: unit of the weights
 * memory  variant matrix: at most 64 MiB of windows unless a row alone is larger; db: see bias
 * errors  CLT_ESHAPE for an integer x, another number of dimensions, a window that does not fit, channels
 *         that groups do not divide
 * source  torch.nn.Conv2d, Conv3d (sizes, initial values)
 * tested  verify -t 'conv*', tol 32, exact on integers; test_golden_conv
 *
 * conv_transpose2d, conv_transpose3d: y = the gradient of such a convolution with respect to its image, for
 * the gradient x of its result, plus b
 * shapes  x (N,K,in...), w (K,window...,C/groups), b (C) -> y (N,C,out...),
 *         out = (in - 1) stride - 2 padding + dilation (kernel - 1) + output_padding + 1
 * errors  besides: CLT_ESHAPE for an output_padding that is not below stride or dilation
 * source  torch.nn.ConvTranspose2d, ConvTranspose3d */

/* Follows the choices of linear's attribute `init`. */
#define INIT_KAIMING_NORMAL_OUT (CLT_LINEAR_ZEROS + 1)

#define CONV_ATTRS                                                                                           \
    CLT_SPEC_NEEDED(INT, "out", 1, INT32_MAX, "output channels"), CLT_SPATIAL_KERNEL,                        \
        CLT_SPATIAL_STRIDE("1"), CLT_SPATIAL_PADDING("zeros"), CLT_SPATIAL_DILATION,                         \
        CLT_SPEC_INT(                                                                                        \
            "groups", 1, 1, INT32_MAX,                                                                       \
            "groups of channels that are convolved separately; one group for each channel: depthwise"),      \
        CLT_SPEC_BOOL("bias", true, "add a number to each output channel"),                                  \
        CLT_SPEC_CHOICE("init", CLT_LINEAR_KAIMING_UNIFORM, CLT_LINEAR_INITS "|kaiming_normal_out",          \
                        "weights at the start; kaiming_uniform is torch's default, its bias "                \
                        "U(+-1/sqrt(fan_in)), else zero; kaiming_normal_out: N(0, sqrt(2/fan_out)), as in "  \
                        "ResNets"),                                                                          \
        CLT_SPEC_FLOAT("init_std", 0.02, 0, 1000, "standard deviation of init normal")

static const clt_attr_spec conv_attrs[] = {CONV_ATTRS};
static const clt_attr_spec transpose_attrs[] = {
    CONV_ATTRS, CLT_SPEC_OPEN(INTS, "output_padding", 0, 65536,
                              "added to the output's size at one side in each spatial dimension, or one "
                              "number for all; not set: 0")};

static bool is_transposed(const clt_node *node)
{
    return node->op->attrs == transpose_attrs;
}

/* fan_in and fan_out as torch counts them: from the first two dimensions of a weight in a file. */
static clt_init conv_weight_init(const clt_node *node, int64_t fan_in, int64_t fan_out)
{
    clt_init init = clt_linear_init(node);
    init.fan_in = fan_in;
    init.fan_out = fan_out;
    if (clt_node_attr(node, "init")->choice == INIT_KAIMING_NORMAL_OUT) {
        init.kind = CLT_INIT_NORMAL;
        init.scale = (float)sqrt(2.0 / (double)fan_out);
    }
    return init;
}

/* Declares the weight (first, window..., per_group) and the bias of `out` channels. */
static clt_status conv_params(clt_infer *ctx, const clt_spatial *s, int64_t first, int64_t per_group,
                              int64_t out)
{
    clt_shape w = {.ndim = s->dims + 2, .dim = {first}}, b = clt_shape1(out);
    for (int i = 0; i < s->dims; i++)
        w.dim[1 + i] = s->kernel[CLT_SPATIAL_MAX - s->dims + i];
    w.dim[s->dims + 1] = per_group;
    int64_t taps = clt_spatial_volume(s->kernel), fan_in = per_group * taps;
    CLT_TRY(clt_infer_param(ctx, "weight", &w, conv_weight_init(ctx->node, fan_in, first * taps)));
    ctx->graph->params[ctx->node->param[0]].file_transposed = s->dims;
    if (!clt_node_attr(ctx->node, "bias")->b)
        return CLT_OK;
    clt_init bias = {CLT_INIT_ZEROS, 0.0f, 0, 0};
    if (clt_node_attr(ctx->node, "init")->choice == CLT_LINEAR_KAIMING_UNIFORM)
        bias = (clt_init){CLT_INIT_UNIFORM, (float)(1.0 / sqrt((double)fan_in)), 0, 0};
    return clt_infer_param(ctx, "bias", &b, bias);
}

static clt_status check_groups(const clt_infer *ctx, int64_t in, int64_t out)
{
    int64_t groups = clt_node_attr(ctx->node, "groups")->i;
    if (in % groups != 0 || out % groups != 0)
        return clt_infer_fail(ctx,
                              "%lld input and %lld output channels cannot both be divided into %lld groups",
                              (long long)in, (long long)out, (long long)groups);
    return CLT_OK;
}

static clt_status conv_infer(clt_infer *ctx, int dims)
{
    CLT_TRY(clt_spatial_check(ctx, dims));
    const clt_tensor *x = clt_infer_in(ctx, 0);
    clt_spatial s = clt_spatial_of(ctx->node, &x->shape, false);
    int64_t out = clt_node_attr(ctx->node, "out")->i, groups = clt_node_attr(ctx->node, "groups")->i;
    CLT_TRY(clt_spatial_fits(ctx, &s));
    CLT_TRY(check_groups(ctx, s.channels, out));
    clt_shape y = clt_spatial_shape(&s, out, s.out);
    CLT_TRY(clt_infer_out(ctx, x->dtype, &y));
    return conv_params(ctx, &s, out, s.channels / groups, out);
}

static clt_status conv2d_infer(clt_infer *ctx)
{
    return conv_infer(ctx, 2);
}

static clt_status conv3d_infer(clt_infer *ctx)
{
    return conv_infer(ctx, 3);
}

static clt_status transpose_infer(clt_infer *ctx, int dims)
{
    CLT_TRY(clt_spatial_check(ctx, dims));
    const clt_tensor *x = clt_infer_in(ctx, 0);
    clt_spatial s = clt_spatial_of(ctx->node, &x->shape, false);
    int64_t out = clt_node_attr(ctx->node, "out")->i, groups = clt_node_attr(ctx->node, "groups")->i;
    int64_t extra[CLT_SPATIAL_MAX], sizes[CLT_SPATIAL_MAX];
    const clt_attr *given = clt_node_attr(ctx->node, "output_padding");
    if (given->set && given->n_list != 1 && given->n_list != dims)
        return clt_infer_fail(ctx, "attribute 'output_padding' has %d values; give one, or %d", given->n_list,
                              dims);
    clt_spatial_list(ctx->node, "output_padding", dims, 0, extra);
    CLT_TRY(check_groups(ctx, s.channels, out));
    for (int i = 0; i < CLT_SPATIAL_MAX; i++) {
        sizes[i] =
            (s.in[i] - 1) * s.stride[i] - 2 * s.padding[i] + s.dilation[i] * (s.kernel[i] - 1) + extra[i] + 1;
        if (extra[i] >= s.stride[i] && extra[i] >= s.dilation[i])
            return clt_infer_fail(ctx,
                                  "an output_padding of %lld must be smaller than the stride %lld or the "
                                  "dilation %lld",
                                  (long long)extra[i], (long long)s.stride[i], (long long)s.dilation[i]);
        if (sizes[i] < 1)
            return clt_infer_fail(ctx, "the padding %lld is so large that the output is empty; use less",
                                  (long long)s.padding[i]);
    }
    clt_shape y = clt_spatial_shape(&s, out, sizes);
    CLT_TRY(clt_infer_out(ctx, x->dtype, &y));
    return conv_params(ctx, &s, s.channels, out / groups, out);
}

static clt_status conv_transpose2d_infer(clt_infer *ctx)
{
    return transpose_infer(ctx, 2);
}

static clt_status conv_transpose3d_infer(clt_infer *ctx)
{
    return transpose_infer(ctx, 3);
}

/* --- the variants: an algorithm for a direction --- */

static bool accepts(const clt_conv_algorithm *a, const clt_conv *c, const ocl_device_desc *device,
                    char *reason, size_t size)
{
    return !a->accepts || a->accepts(c, device, reason, size);
}

static bool accepts_forward(const clt_conv_algorithm *a, const clt_call *call, const ocl_device_desc *device,
                            char *reason, size_t size)
{
    clt_conv c = clt_conv_forward_of(call, is_transposed(call->node));
    return accepts(a, &c, device, reason, size);
}

static bool accepts_backward(const clt_conv_algorithm *a, const clt_call *call, const ocl_device_desc *device,
                             char *reason, size_t size)
{
    bool transposed = is_transposed(call->node);
    if (call->din[0] >= 0) {
        clt_conv c = clt_conv_data_of(call, transposed);
        if (!accepts(a, &c, device, reason, size))
            return false;
    }
    if (call->dparam[0] >= 0) {
        clt_conv c = clt_conv_weight_of(call, transposed);
        return accepts(a, &c, device, reason, size);
    }
    return true;
}

static clt_status emit_forward(const clt_conv_algorithm *a, ocl_emitter *e, const clt_call *call)
{
    clt_conv c = clt_conv_forward_of(call, is_transposed(call->node));
    return a->emit(e, &c);
}

static clt_status emit_backward(const clt_conv_algorithm *a, ocl_emitter *e, const clt_call *call)
{
    bool transposed = is_transposed(call->node);
    if (call->din[0] >= 0) {
        clt_conv c = clt_conv_data_of(call, transposed);
        CLT_TRY(a->emit(e, &c));
    }
    if (call->dparam[0] >= 0) {
        clt_conv c = clt_conv_weight_of(call, transposed);
        CLT_TRY(a->emit(e, &c));
    }
    if (call->node->n_param > 1 && call->dparam[1] >= 0) {
        const clt_shape *y = &clt_call_tensor(call, call->dout[0])->shape;
        clt_emit_bias_grad(e, call, call->dparam[1], call->dparam_accumulate[1], call->dout[0],
                           clt_shape_elements(y) / y->dim[1], y->dim[1]);
    }
    return ocl_emit_status(e);
}

#define CONV_VARIANT(way, word, algorithm, ...)                                                              \
    static bool way##_##word##_accepts(const void *call, const ocl_device_desc *device, char *reason,        \
                                       size_t size)                                                          \
    {                                                                                                        \
        return accepts_##way(&algorithm, call, device, reason, size);                                        \
    }                                                                                                        \
    static clt_status way##_##word##_emit(ocl_emitter *e, const void *call)                                  \
    {                                                                                                        \
        return emit_##way(&algorithm, e, call);                                                              \
    }                                                                                                        \
    static const ocl_variant way##_##word = {                                                                \
        .name = #word, .accepts = way##_##word##_accepts, .emit = way##_##word##_emit, __VA_ARGS__}

static const ocl_tunable matrix_tunables[] = {{"rows", 4, {0, 256, 2048, 16384}}, {0}};
CONV_VARIANT(forward, matrix, clt_conv_matrix, .tunables = matrix_tunables);
CONV_VARIANT(backward, matrix, clt_conv_matrix, .tunables = matrix_tunables);

static const ocl_tunable winograd_tunables[] = {
    {"tile", 2, {4, 2}}, {"chunk_mb", 5, {0, 4, 8, 32, 128}}, {0}};
CONV_VARIANT(forward, winograd, clt_conv_winograd, .tunables = winograd_tunables);
CONV_VARIANT(backward, winograd, clt_conv_winograd, .tunables = winograd_tunables);

CONV_VARIANT(forward, implicit, clt_conv_implicit, .tunables = NULL);
CONV_VARIANT(backward, implicit, clt_conv_implicit, .tunables = NULL);

CONV_VARIANT(forward, depthwise, clt_conv_depthwise, .tunables = NULL);
CONV_VARIANT(backward, depthwise, clt_conv_depthwise, .tunables = NULL);

static const ocl_variant *const forward_variants[] = {&forward_depthwise, &forward_winograd,
                                                      &forward_implicit, &forward_matrix, NULL};
static const ocl_variant *const backward_variants[] = {&backward_depthwise, &backward_winograd,
                                                       &backward_implicit, &backward_matrix, NULL};

/* --- the standard choice --- */

/* With few channels the transforms of Winograd's algorithm cost more than it saves. The same is true of few
 * tiles: 36 numbers are read for each window of 9, and in training they mostly have to be computed first
 * (engine/plan/derived.c). Measured on ResNet-50's last layers: as fast as implicit products at 8 tiles if
 * transformed windows are kept, and at 16 if not. */
#define WINOGRAD_CHANNELS 16
#define WINOGRAD_TILES 8
#define WINOGRAD_TILES_TRAINING 16

/* Implicit products come before the matrix of windows wherever a backend reads windows. Both multiply the
 * same numbers, in kernels with the same tiles. But the matrix is as large as the image times the number of
 * elements of a window. It is written and read again, and for the gradient of the image its elements are
 * then added up. Implicit products spend 25 to 45 instructions on each step of a tile instead. With matrix
 * units these fit between the multiplications, which leave issue slots idle (cl/backends/gemm_mma.cl); the
 * backend `tile` has no such slots, because its multiplications are instructions themselves. On GPUs this
 * order follows only from these counts; it has not been measured there. The tuner measures both.
 *
 * Winograd's algorithm, which accepts f32 only, saves up to three quarters of the multiplications of 3 x 3
 * windows, so it comes before both, except with precision.matmul tf32 on a device that has units for it.
 * There multiplications are the cheap part, the transforms write and read several times the bytes of image
 * and result, and the transformed values would be rounded to 10 bits, with about ten times the error of
 * rounding the operands themselves. This, too, follows from counting bytes and was not measured on a GPU. */
static const char *choose(const clt_conv *c, const clt_call *call, const ocl_device_desc *device)
{
    char reason[160];
    int64_t least = c->s.channels < c->results ? c->s.channels : c->results;
    bool few = clt_conv_tiles(c) < (call->training ? WINOGRAD_TILES_TRAINING : WINOGRAD_TILES);
    if (accepts(&clt_conv_depthwise, c, device, reason, sizeof reason))
        return "depthwise";
    bool implicit = accepts(&clt_conv_implicit, c, device, reason, sizeof reason);
    if (implicit && c->tf32 && clt_conv_implicit_on_units(c, device))
        return "implicit";
    if (least >= WINOGRAD_CHANNELS && !few && accepts(&clt_conv_winograd, c, device, reason, sizeof reason))
        return "winograd";
    return implicit ? "implicit" : "matrix";
}

static const char *standard_forward(const void *problem, const ocl_device_desc *device)
{
    const clt_call *call = problem;
    clt_conv c = clt_conv_forward_of(call, is_transposed(call->node));
    return choose(&c, call, device);
}

static const char *standard_backward(const void *problem, const ocl_device_desc *device)
{
    const clt_call *call = problem;
    bool transposed = is_transposed(call->node);
    clt_conv c;
    if (call->din[0] >= 0)
        c = clt_conv_data_of(call, transposed);
    else if (call->dparam[0] >= 0)
        c = clt_conv_weight_of(call, transposed);
    else
        return "matrix"; /* only the bias's gradient */
    return choose(&c, call, device);
}

/* --- the families --- */

static clt_conv backward_of(const clt_call *call)
{
    bool transposed = is_transposed(call->node);
    return call->din[0] >= 0 ? clt_conv_data_of(call, transposed) : clt_conv_weight_of(call, transposed);
}

static const char *forward_problem(const void *call, char *buffer, size_t size)
{
    clt_conv c = clt_conv_forward_of(call, is_transposed(((const clt_call *)call)->node));
    return clt_conv_text(&c, buffer, size);
}

static const char *backward_problem(const void *problem, char *buffer, size_t size)
{
    const clt_call *call = problem;
    if (call->din[0] < 0 && call->dparam[0] < 0) {
        snprintf(buffer, size, "bias");
        return buffer;
    }
    clt_conv c = backward_of(call);
    return clt_conv_text(&c, buffer, size);
}

static double forward_flops(const void *call)
{
    clt_conv c = clt_conv_forward_of(call, is_transposed(((const clt_call *)call)->node));
    return clt_conv_flops(&c);
}

static double backward_flops(const void *problem)
{
    const clt_call *call = problem;
    if (call->din[0] < 0 && call->dparam[0] < 0)
        return 0.0;
    clt_conv c = backward_of(call);
    return clt_conv_flops(&c);
}

#define CONV_FAMILY(word, direction, way)                                                                    \
    {                                                                                                        \
        .variants = direction##_variants, .name = #word "." #direction, .sources = "conv",                   \
        .variable = "CLTRAIN_CONV", .problem = direction##_problem, .flops = direction##_flops,              \
        .standard = standard_##direction, .describe = clt_op_##way##_describe                                \
    }

/* --- the ops --- */

#define CONV_OP(word, formula, table)                                                                        \
    CLT_OP_DEFINE(word, formula, 1, 1, CLT_OP_ATTRS(table), .flags = CLT_OP_SPLIT_BACKWARD,                  \
                  .infer = word##_infer, .forward = CONV_FAMILY(word, forward, fwd),                         \
                  .backward = CONV_FAMILY(word, backward, bwd), .layout = clt_spatial_layout,                \
                  .narrow_params = 1, .inexact_variant = "winograd", .inexact_tolerance = 128)

#define WEIGHT_TEXT " In memory the weight's channels come last; files have torch's order."

CLT_OP_DOC(
    conv2d,
    .text =
        "A convolution of images: every output channel is a weighted sum over a window of all input channels "
        "(with groups: the input channels of its group), which slides over height and width." WEIGHT_TEXT,
    .inputs = "x: (N,C,H,W), f32, f16 or bf16",
    .output =
        "y: (N,out,H',W'), type of x; H' = floor((H + 2 padding - dilation (kernel - 1) - 1) / stride) + 1",
    .params = "weight: (out,C/groups,kernel,kernel); bias: (out) unless bias is false",
    .example = "{\"op\": \"conv2d\", \"out\": 8, \"kernel\": 3, \"stride\": 2, \"padding\": 1}",
    .before = "{\"op\": \"reshape\", \"shape\": [1, 28, 28]}, ", CLT_DOC_CLASSES_AFTER);
CLT_OP_DOC(conv3d,
           .text = "A convolution of volumes: as conv2d, with a window that slides over depth, height and "
                   "width." WEIGHT_TEXT,
           .inputs = "x: (N,C,D,H,W), f32, f16 or bf16",
           .output = "y: (N,out,D',H',W'), type of x; sizes as of conv2d",
           .params = "weight: (out,C/groups,kernel,kernel,kernel); bias: (out) unless bias is false",
           .example = "{\"op\": \"conv3d\", \"out\": 4, \"kernel\": [1, 3, 3], \"padding\": [0, 1, 1]}",
           .before = "{\"op\": \"reshape\", \"shape\": [1, 4, 14, 14]}, ", CLT_DOC_CLASSES_AFTER);
CLT_OP_DOC(conv_transpose2d,
           .text = "The transposed convolution of images, which makes them larger. It computes what the "
                   "backward pass of conv2d computes for its input. With stride 2 and kernel 2 it doubles "
                   "height and width." WEIGHT_TEXT,
           .inputs = "x: (N,C,H,W), f32, f16 or bf16",
           .output = "y: (N,out,H',W'), type of x; H' = (H - 1) stride - 2 padding + dilation (kernel - 1) + "
                     "output_padding + 1",
           .params = "weight: (C,out/groups,kernel,kernel); bias: (out) unless bias is false",
           .example = "{\"op\": \"conv_transpose2d\", \"out\": 2, \"kernel\": 2, \"stride\": 2}",
           .before = "{\"op\": \"reshape\", \"shape\": [4, 14, 14]}, ", CLT_DOC_CLASSES_AFTER);
CLT_OP_DOC(conv_transpose3d,
           .text = "The transposed convolution of volumes: see conv_transpose2d." WEIGHT_TEXT,
           .inputs = "x: (N,C,D,H,W), f32, f16 or bf16",
           .output = "y: (N,out,D',H',W'), type of x; sizes as of conv_transpose2d",
           .params = "weight: (C,out/groups,kernel,kernel,kernel); bias: (out) unless bias is false",
           .example = "{\"op\": \"conv_transpose3d\", \"out\": 1, \"kernel\": 2, \"stride\": 2}",
           .before = "{\"op\": \"reshape\", \"shape\": [4, 4, 7, 7]}, ", CLT_DOC_CLASSES_AFTER);

CONV_OP(conv2d, "y = conv(x, w) + b over height and width", conv_attrs);
CONV_OP(conv3d, "y = conv(x, w) + b over depth, height and width", conv_attrs);
CONV_OP(conv_transpose2d, "y = the transposed convolution of x, + b", transpose_attrs);
CONV_OP(conv_transpose3d, "y = the transposed convolution of x, + b", transpose_attrs);
