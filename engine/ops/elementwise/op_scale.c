/* SPDX-License-Identifier: Apache-2.0
 *
 * The ops scale and cast: affine maps; cast also converts from the storage type of a batch field. Knows flat
 * arrays, no model. */
#include "engine/ops/elementwise/elementwise.h"

#include <math.h>

#include "engine/ops/emit_util.h"

/* scale: y = x * value + shift
 * shapes  x any -> y as x                                dtypes  x,y f32|f16|bf16; arithmetic f32
 * grads   dx = dy * value: write or accumulate           units   value: y per x; shift: unit of y
 * memory  no workspace                                   errors  CLT_ESHAPE for an integer x
 * source  -                                              tested  verify -t 'scale*', tol 2, or exact */

/* cast: y = (x * scale - mean) / std, with one mean and std, or with one of them for each channel
 * shapes  x any -> y as x                                dtypes  x u8|u16|i32|u32|f32|f16|bf16; y f32
 * grads   dx = dy * scale / std for floats: write or accumulate
 * units   mean, std: unit of x * scale
 * memory  no workspace
 * errors  CLT_ESHAPE for an x of 64-bit type, for lists whose length is not the size of x's dimension 1
 * source  -
 * tested  verify -t 'cast*', tol 4; exact by default */

static const clt_attr_spec scale_attrs[] = {
    CLT_SPEC_FLOAT("value", 1, 0, 0, "factor"),
    CLT_SPEC_FLOAT("shift", 0, 0, 0, "added after the factor"),
};
static const clt_attr_spec cast_attrs[] = {
    CLT_SPEC_FLOAT("scale", 1, 0, 0, "factor of the stored number: 1/255 for pixels"),
    CLT_SPEC_FLOATS("mean", 0, 0, 0, "subtracted after the factor; a list: one for each channel"),
    CLT_SPEC_FLOATS("std", 1, 1e-30, 1e30,
                    "divisor after the mean has been subtracted; a list: one for each channel"),
};

/* y = (x - centre) * factor + shift; factor and shift are computed in double and rounded once. centre: 0;
 * or, for integers that f32 may not hold exactly, the integer nearest to the x that is mapped to 0. */
typedef struct affine {
    int64_t centre;
    float factor, shift;
} affine;

/* True for integer types whose numbers, or whose products with a factor, f32 cannot hold exactly; bytes are
 * exact enough. */
static bool is_wide(clt_dtype dtype)
{
    return dtype == CLT_U16 || dtype == CLT_I32 || dtype == CLT_U32;
}

/* Returns the map y = (x - centre) * factor + shift of the op cast, for one mean and std. */
static affine centred(double scale, double mean, double std)
{
    const double least = -0x1p31, most = 0x1p32;
    double zero = mean / scale;
    zero = zero < least ? least : zero > most ? most : zero;
    int64_t centre = isfinite(zero) ? llround(zero) : 0;
    return (affine){centre, (float)(scale / std), (float)(((double)centre * scale - mean) / std)};
}

/* Number of channels that have their own constants; 1: all channels have the same ones. */
static int channels_of(const clt_node *node)
{
    if (node->op->attrs == scale_attrs)
        return 1;
    int means = clt_node_attr(node, "mean")->n_list, stds = clt_node_attr(node, "std")->n_list;
    return means > stds ? means : stds;
}

/* Returns the map of a channel; dtype: the type of x. */
static affine affine_of(const clt_node *node, clt_dtype dtype, int channel)
{
    if (node->op->attrs == scale_attrs)
        return (affine){0, (float)clt_node_attr(node, "value")->f, (float)clt_node_attr(node, "shift")->f};
    const clt_attr *mean = clt_node_attr(node, "mean"), *std = clt_node_attr(node, "std");
    double divisor = std->number[channel < std->n_list ? channel : 0],
           minus = mean->number[channel < mean->n_list ? channel : 0],
           scale = clt_node_attr(node, "scale")->f;
    if (is_wide(dtype))
        return centred(scale, minus, divisor);
    return (affine){0, (float)(scale / divisor), (float)(-minus / divisor)};
}

/* Whether any channel has a centre. */
static bool is_centred(const clt_node *node, clt_dtype dtype)
{
    for (int c = 0; c < channels_of(node); c++)
        if (affine_of(node, dtype, c).centre != 0)
            return true;
    return false;
}

static bool only_converts(const clt_node *node)
{
    affine a = affine_of(node, CLT_F32, 0);
    return channels_of(node) == 1 && a.factor == 1.0f && a.shift == 0.0f;
}

static clt_status scale_infer(clt_infer *ctx)
{
    CLT_TRY(clt_infer_need_float(ctx, 0));
    clt_shape shape = clt_infer_in(ctx, 0)->shape;
    return clt_infer_out(ctx, clt_infer_in(ctx, 0)->dtype, &shape);
}

static clt_status cast_infer(clt_infer *ctx)
{
    const clt_tensor *x = clt_infer_in(ctx, 0);
    clt_shape shape = x->shape;
    if (x->dtype == CLT_I64 || x->dtype == CLT_F64)
        return clt_infer_fail(
            ctx,
            "input '%s' has type %s; 64-bit fields cannot be converted on the device, store them as "
            "f32 or i32",
            x->name, clt_dtype_name(x->dtype));
    const clt_node *node = ctx->node;
    int means = clt_node_attr(node, "mean")->n_list, stds = clt_node_attr(node, "std")->n_list;
    int64_t channels = shape.ndim > 1 ? shape.dim[1] : 1;
    if (means > CLT_MAX_NUMBERS || stds > CLT_MAX_NUMBERS)
        return clt_infer_fail(ctx, "mean has %d numbers and std %d; there may be up to %d", means, stds,
                              CLT_MAX_NUMBERS);
    if ((means > 1 && means != channels) || (stds > 1 && stds != channels))
        return clt_infer_fail(ctx,
                              "mean has %d numbers and std %d, but '%s' has %lld channels (its dimension 1); "
                              "give one number, or one for each channel",
                              means, stds, x->name, (long long)channels);
    return clt_infer_out(ctx, CLT_F32, &shape);
}

/* Emits a kernel with constants for each channel. */
static void emit_channels(ocl_emitter *e, const clt_call *call, clt_style style, uint64_t n, bool backward)
{
    int32_t to = backward ? call->din[0] : call->out[0], from = backward ? call->dout[0] : call->in[0];
    bool accumulate = backward && call->din_accumulate[0];
    const clt_tensor *x = clt_call_tensor(call, call->in[0]);
    int channels = channels_of(call->node);
    bool by_centre = !backward && is_centred(call->node, x->dtype);
    /* elements in memory between two channels of a sample */
    int64_t inner = 1;
    for (int d = 2; d < x->shape.ndim && x->layout == CLT_LAYOUT_ROW_MAJOR; d++)
        inner *= x->shape.dim[d];
    clt_elementwise_begin(e, "channels", by_centre ? "channels_centred" : "channels_affine", style);
    if (!by_centre)
        ocl_define(e, "SHIFTED", !backward);
    ocl_define(e, "CHANNELS", channels);
    clt_define_type_of(e, "DT", call, from);
    clt_define_type_of(e, "GT", call, to);
    if (by_centre)
        clt_arg_out_of(e, call, to, n);
    else
        clt_arg_grad_of(e, call, to, n, accumulate);
    clt_arg_in_of(e, call, from, n);
    clt_arg_size32(e, inner, "elements of a channel");
    for (int c = 0; c < CLT_MAX_NUMBERS; c++) {
        affine a = affine_of(call->node, x->dtype, c < channels ? c : 0);
        if (by_centre)
            ocl_arg_u64(e, (uint64_t)a.centre);
        ocl_arg_f32(e, a.factor);
        ocl_arg_f32(e, a.shift);
    }
    clt_elementwise_end(e, n, (2 + accumulate) * (double)n, style);
}

static void emit_centred(ocl_emitter *e, const clt_call *call, clt_style style, uint64_t n, const affine *a)
{
    clt_elementwise_begin(e, "elementwise", "elementwise_fwd_centred", style);
    clt_define_type_of(e, "DT", call, call->in[0]);
    clt_define_type_of(e, "GT", call, call->out[0]);
    clt_arg_out_of(e, call, call->out[0], n);
    clt_arg_in_of(e, call, call->in[0], n);
    ocl_arg_u64(e, (uint64_t)a->centre);
    ocl_arg_f32(e, a->factor);
    ocl_arg_f32(e, a->shift);
    clt_elementwise_end(e, n, 3.0 * (double)n, style);
}

static clt_status affine_forward(ocl_emitter *e, const clt_call *call, clt_style style)
{
    uint64_t n = (uint64_t)clt_call_elements(call, call->in[0]);
    if (channels_of(call->node) > 1) {
        emit_channels(e, call, style, n, false);
        return CLT_OK;
    }
    affine a = affine_of(call->node, clt_call_dtype(call, call->in[0]), 0);
    if (a.centre != 0)
        emit_centred(e, call, style, n, &a);
    else
        clt_emit_affine(e, call->out[0], clt_call_dtype(call, call->out[0]), call->in[0],
                        clt_call_dtype(call, call->in[0]), n, a.factor, a.shift, style);
    return CLT_OK;
}

static clt_status affine_backward(ocl_emitter *e, const clt_call *call, clt_style style)
{
    if (call->din[0] < 0)
        return CLT_OK;
    uint64_t n = (uint64_t)clt_call_elements(call, call->in[0]);
    if (channels_of(call->node) > 1) {
        emit_channels(e, call, style, n, true);
        return CLT_OK;
    }
    clt_elementwise_begin(e, "elementwise", "elementwise_bwd_affine", style);
    clt_define_type_of(e, "DT", call, call->dout[0]);
    clt_define_type_of(e, "GT", call, call->din[0]);
    clt_define_stores(e, style, clt_call_dtype(call, call->din[0]), n, call->din_accumulate[0]);
    clt_arg_grad_of(e, call, call->din[0], n, call->din_accumulate[0]);
    clt_arg_in_of(e, call, call->dout[0], n);
    ocl_arg_f32(e, affine_of(call->node, clt_call_dtype(call, call->in[0]), 0).factor);
    clt_elementwise_end(e, n, (1 + call->din_accumulate[0]) * (double)n, style);
    return CLT_OK;
}
CLT_ELEMENTWISE_VARIANTS(affine_forward)
CLT_ELEMENTWISE_VARIANTS(affine_backward)

CLT_OP_DOC(scale, .text = "Multiplies by a constant and adds another one; nothing is learned.",
           .inputs = "x: any shape, f32, f16 or bf16", .output = "y: shape and type of x",
           .example = "{\"op\": \"scale\", \"value\": 0.5}", CLT_DOC_LINEAR_BEFORE);

CLT_OP_DOC(
    cast,
    .text = "Makes numbers of stored integers. Where a layer needs numbers and gets integers, the model puts "
            "one there itself, for the field x with data.scale, data.mean and data.std.",
    .inputs = "x: any shape, u8, u16, i32, u32, f32, f16 or bf16; channels are its dimension 1",
    .output = "y: shape of x, f32",
    .example = "{\"op\": \"cast\", \"scale\": 0.00392156862745098, \"mean\": 0.1307, \"std\": 0.3081}",
    .before = "", CLT_DOC_CLASSES_AFTER);

CLT_OP_DEFINE(scale, "y = x * value + shift", 1, 1, CLT_OP_ATTRS(scale_attrs),
              .flags = CLT_OP_CHEAP | CLT_OP_CONVERTS | CLT_OP_ANY_LAYOUT, .infer = scale_infer,
              CLT_OP_VARIANTS(affine), .only_converts = only_converts);
CLT_OP_DEFINE(cast, "y = (x * scale - mean) / std as f32, from any 8 to 32-bit type", 1, 1,
              CLT_OP_ATTRS(cast_attrs), .flags = CLT_OP_CHEAP | CLT_OP_CONVERTS | CLT_OP_ANY_LAYOUT,
              .infer = cast_infer, CLT_OP_VARIANTS(affine), .only_converts = only_converts);
