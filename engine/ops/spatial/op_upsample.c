/* SPDX-License-Identifier: Apache-2.0
 *
 * The op upsample: enlarges images and volumes by whole factors. Knows grids, no model. */
#include "engine/ops/emit_util.h"
#include "engine/ops/spatial/pool.h"

/* upsample: y (scale times as large) = x repeated, or interpolated between neighbouring elements
 * shapes  x (N,C,H,W) or (N,C,D,H,W) -> y (N,C,scale*sizes...)
 * dtypes  x,y f32|f16|bf16; computes in f32              units   none
 * grads   dx = sum over the outputs computed from the element: write or accumulate; gathered, no atomics
 * memory  no workspace
 * errors  CLT_ESHAPE: an integer x, other dimensions, align_corners with mode nearest
 * source  torch.nn.Upsample with scale_factor. Output o is at (o + 0.5) / scale - 0.5 of the input, or with
 *         align_corners at o (in - 1) / (out - 1); nearest takes element floor(o / scale)
 * tested  verify -t 'upsample*', tol 16, or exact; golden values of PyTorch in test_golden_spatial */

enum { UPSAMPLE_NEAREST, UPSAMPLE_LINEAR };
static const clt_attr_spec upsample_attrs[] = {
    CLT_SPEC_NEEDED(INTS, "scale", 1, 1024, "factor of the size in each spatial dimension, or one for all"),
    CLT_SPEC_CHOICE("mode", UPSAMPLE_NEAREST, "nearest|linear",
                    "repeat elements, or interpolate linearly in every dimension (bilinear, trilinear)"),
    CLT_SPEC_BOOL(
        "align_corners", false,
        "linear: the outermost elements of x and y lie on each other; otherwise the edges of the image do"),
};

/* in: the sizes of x; out: the sizes of y; kernel and stride: the factors. */
static clt_spatial sizes_of(const clt_node *node, const clt_shape *in)
{
    clt_spatial s = clt_spatial_of(node, in, false);
    clt_spatial_list(node, "scale", s.dims, 1, s.kernel);
    for (int i = 0; i < CLT_SPATIAL_MAX; i++) {
        s.stride[i] = s.kernel[i];
        s.out[i] = s.in[i] * s.kernel[i];
    }
    return s;
}

static clt_status upsample_infer(clt_infer *ctx)
{
    CLT_TRY(clt_spatial_check(ctx, 0));
    const clt_tensor *x = clt_infer_in(ctx, 0);
    clt_dtype dtype = x->dtype;
    if (clt_node_attr(ctx->node, "align_corners")->b &&
        clt_node_attr(ctx->node, "mode")->choice == UPSAMPLE_NEAREST)
        return clt_infer_fail(ctx, "align_corners has no meaning with mode nearest; remove align_corners, or "
                                   "give \"mode\": \"linear\"");
    clt_spatial s = sizes_of(ctx->node, &x->shape);
    clt_shape shape = clt_spatial_shape(&s, s.channels, s.out);
    return clt_infer_out(ctx, dtype, &shape);
}

/* --- nearest: each element of x is a window of y --- */

static clt_pool windows_of(const clt_spatial *s)
{
    clt_pool pool = {.s = *s, .share = 1.0f};
    for (int i = 0; i < CLT_SPATIAL_MAX; i++) {
        pool.s.in[i] = s->out[i];
        pool.s.out[i] = s->in[i];
    }
    return pool;
}

/* --- linear --- */

static uint64_t elements_of(const clt_spatial *s, const int64_t sizes[CLT_SPATIAL_MAX])
{
    return (uint64_t)(s->n * s->channels * clt_spatial_volume(sizes));
}

/* Adds the sizes and positions of the dimensions (upsample.cl) as arguments; returns the product of the
 * divisors. */
static double arg_axes(ocl_emitter *e, const clt_spatial *s, bool corners)
{
    double product = 1.0;
    for (int i = 0; i < CLT_SPATIAL_MAX; i++) {
        int64_t multiply = corners ? s->in[i] - 1 : 2, add = corners ? 0 : 1 - s->kernel[i],
                divide = !corners        ? 2 * s->kernel[i]
                         : s->out[i] > 1 ? s->out[i] - 1
                                         : 1;
        clt_check_size32(e, (s->in[i] + 1) * divide, "positions between the elements of a dimension");
        ocl_arg_i32(e, (int32_t)s->in[i]);
        ocl_arg_i32(e, (int32_t)s->out[i]);
        ocl_arg_i32(e, (int32_t)multiply);
        ocl_arg_i32(e, (int32_t)add);
        ocl_arg_i32(e, (int32_t)divide);
        product *= (double)divide;
    }
    return product;
}

static void emit_linear(ocl_emitter *e, const clt_call *call, const clt_spatial *s, clt_style style)
{
    clt_places places = clt_places_of(s, s->out, (double)elements_of(s, s->out));
    clt_dtype type = clt_call_dtype(call, call->in[0]);
    clt_places_begin(e, &places, "upsample", "upsample_fwd", style, type, false);
    ocl_define(e, "DEEP", s->kernel[0] > 1);
    clt_define_dtype(e, "DT", type);
    clt_arg_out_of(e, call, call->out[0], elements_of(s, s->out));
    clt_arg_in_of(e, call, call->in[0], elements_of(s, s->in));
    (void)arg_axes(e, s, clt_node_attr(call->node, "align_corners")->b);
    clt_places_end(e, &places, style, (s->kernel[0] > 1 ? 21.0 : 9.0) * (double)elements_of(s, s->out));
}

static void emit_linear_bwd(ocl_emitter *e, const clt_call *call, const clt_spatial *s, clt_style style)
{
    clt_places places = clt_places_of(s, s->in, (double)elements_of(s, s->out));
    clt_places_begin(e, &places, "upsample", "upsample_bwd", style, clt_call_dtype(call, call->din[0]),
                     call->din_accumulate[0]);
    clt_define_type_of(e, "DYT", call, call->dout[0]);
    clt_define_type_of(e, "GT", call, call->din[0]);
    clt_arg_grad_of(e, call, call->din[0], elements_of(s, s->in), call->din_accumulate[0]);
    clt_arg_in_of(e, call, call->dout[0], elements_of(s, s->out));
    double product = arg_axes(e, s, clt_node_attr(call->node, "align_corners")->b);
    ocl_arg_f32(e, (float)(1.0 / product));
    clt_places_end(e, &places, style, (s->kernel[0] > 1 ? 16.0 : 8.0) * (double)elements_of(s, s->out));
}

static clt_status upsample_forward(ocl_emitter *e, const clt_call *call, clt_style style)
{
    const clt_tensor *x = clt_call_tensor(call, call->in[0]);
    clt_spatial s = sizes_of(call->node, &x->shape);
    if (clt_node_attr(call->node, "mode")->choice == UPSAMPLE_LINEAR) {
        emit_linear(e, call, &s, style);
        return CLT_OK;
    }
    clt_pool pool = windows_of(&s);
    clt_pool_launch l = {.y = call->out[0], .x = call->in[0], .y_type = x->dtype, .x_type = x->dtype};
    clt_emit_pool_spread(e, &pool, &l, style);
    return CLT_OK;
}

static clt_status upsample_backward(ocl_emitter *e, const clt_call *call, clt_style style)
{
    if (call->din[0] < 0)
        return CLT_OK;
    clt_spatial s = sizes_of(call->node, &clt_call_tensor(call, call->in[0])->shape);
    if (clt_node_attr(call->node, "mode")->choice == UPSAMPLE_LINEAR) {
        emit_linear_bwd(e, call, &s, style);
        return CLT_OK;
    }
    clt_pool pool = windows_of(&s);
    clt_pool_launch l = {.y = call->din[0],
                         .x = call->dout[0],
                         .y_type = clt_call_dtype(call, call->din[0]),
                         .x_type = clt_call_dtype(call, call->dout[0]),
                         .accumulate = call->din_accumulate[0]};
    clt_emit_pool_sum(e, &pool, &l, style);
    return CLT_OK;
}
CLT_ELEMENTWISE_VARIANTS(upsample_forward)
CLT_ELEMENTWISE_VARIANTS(upsample_backward)

CLT_OP_DOC(
    upsample,
    .text = "Makes images and volumes larger, for instance on the way up of a U-Net or in a generator.",
    .inputs = "x: (N,C,H,W) or (N,C,D,H,W), f32, f16 or bf16",
    .output = "y: (N,C,scale * sizes...), type of x",
    .example = "{\"op\": \"upsample\", \"scale\": 2, \"mode\": \"linear\"}",
    .before = "{\"op\": \"reshape\", \"shape\": [1, 28, 28]}, {\"op\": \"max_pool\", \"kernel\": 4}, ",
    CLT_DOC_CLASSES_AFTER);

CLT_OP_DEFINE(upsample, "y = x made larger, by repeating elements or by linear interpolation", 1, 1,
              CLT_OP_ATTRS(upsample_attrs), .infer = upsample_infer, CLT_OP_VARIANTS(upsample),
              .layout = clt_spatial_layout);
