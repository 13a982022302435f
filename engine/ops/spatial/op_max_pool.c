/* SPDX-License-Identifier: Apache-2.0
 *
 * The ops max_pool and adaptive_max_pool: the largest element of windows over images and volumes. Knows
 * windows, no model. */
#include "engine/ops/emit_util.h"
#include "engine/ops/spatial/pool.h"

/* max_pool, adaptive_max_pool: y = largest element of each window, the first of equal ones in the order
 * depth, height, width; NaN is larger than everything, and the gradient goes to the last NaN of a window
 * shapes  x (N,C,H,W) or (N,C,D,H,W) -> y (N,C,sizes...); saves the number of each largest element within its
 *         window, (N,sizes...,C) u8, or u16 or i32 for windows of more than 256 or 65536 elements
 * dtypes  x,y f32|f16|bf16                               units   none
 * grads   dx = sum of dy over the windows whose largest element it is: write or accumulate. Each element
 *         gathers from the windows that contain it, so overlapping windows need no atomics
 * memory  the saved numbers: one byte for each output, in training. To find the largest elements again in
 *         backward would read x, which is 4 to 16 times as many bytes, and keep it until then
 * errors  CLT_ESHAPE: an integer x, other dimensions, windows that do not fit, padding > kernel / 2
 * source  torch.nn.MaxPool2d, MaxPool3d, AdaptiveMaxPool2d, AdaptiveMaxPool3d: the same results
 * tested  verify -t '*max_pool*', exact; golden values of PyTorch in test_golden_spatial */

static const clt_attr_spec max_pool_attrs[] = {
    CLT_SPATIAL_KERNEL,
    CLT_SPATIAL_STRIDE("the size of the kernel"),
    CLT_SPATIAL_PADDING("elements of minus infinity"),
    CLT_SPATIAL_DILATION,
    CLT_POOL_CEIL,
};
static const clt_attr_spec adaptive_attrs[] = {CLT_POOL_OUTPUT};

static clt_status max_pool_infer(clt_infer *ctx)
{
    CLT_TRY(clt_pool_infer(ctx));
    clt_pool pool = clt_pool_of(ctx->node, &clt_infer_in(ctx, 0)->shape);
    const clt_spatial *s = &pool.s;
    if (clt_spatial_volume(s->kernel) > INT32_MAX)
        return clt_infer_fail(
            ctx, "a window of %lld elements is more than can be numbered, %d; give a smaller kernel",
            (long long)clt_spatial_volume(s->kernel), INT32_MAX);
    clt_shape saved = {.ndim = s->dims + 2, .dim = {s->n}};
    for (int i = 0; i < s->dims; i++)
        saved.dim[1 + i] = s->out[CLT_SPATIAL_MAX - s->dims + i];
    saved.dim[1 + s->dims] = s->channels;
    return clt_infer_saved(ctx, "index", clt_pool_index_type(&pool), &saved);
}

static clt_status max_pool_forward(ocl_emitter *e, const clt_call *call, clt_style style)
{
    const clt_tensor *x = clt_call_tensor(call, call->in[0]);
    clt_pool pool = clt_pool_of(call->node, &x->shape);
    clt_pool_launch l = {.y = call->out[0], .x = call->in[0], .y_type = x->dtype, .x_type = x->dtype};
    /* plans without backward may not save the index */
    clt_emit_pool_max(e, &pool, &l, call->saved[0], style);
    return CLT_OK;
}

static clt_status max_pool_backward(ocl_emitter *e, const clt_call *call, clt_style style)
{
    if (call->din[0] < 0)
        return CLT_OK;
    clt_pool pool = clt_pool_of(call->node, &clt_call_tensor(call, call->in[0])->shape);
    clt_pool_launch l = {.y = call->din[0],
                         .x = call->dout[0],
                         .y_type = clt_call_dtype(call, call->din[0]),
                         .x_type = clt_call_dtype(call, call->dout[0]),
                         .accumulate = call->din_accumulate[0]};
    clt_emit_pool_max_bwd(e, &pool, &l, call->saved[0], style);
    return CLT_OK;
}
CLT_ELEMENTWISE_VARIANTS(max_pool_forward)
CLT_ELEMENTWISE_VARIANTS(max_pool_backward)

CLT_OP_DOC(
    max_pool,
    .text =
        "The largest element of each window that slides over an image or a volume. A gradient goes to that "
        "element, the first one if several are equal.",
    .output = "y: (N,C,sizes...), type of x; a size is floor((in + 2 padding - dilation (kernel - 1) - 1) / "
              "stride) + 1",
    .example = "{\"op\": \"max_pool\", \"kernel\": 3, \"stride\": 2, \"padding\": 1}", CLT_POOL_DOC);
CLT_OP_DOC(adaptive_max_pool,
           .text = "One maximum for each element of the output, each over a window; the windows divide the "
                   "image or the volume, whatever its size.",
           .output = "y: (N,C,output...), type of x",
           .example = "{\"op\": \"adaptive_max_pool\", \"output\": [4, 4]}", CLT_POOL_DOC);

CLT_OP_DEFINE(max_pool, "y = largest element of each window", 1, 1, CLT_OP_ATTRS(max_pool_attrs),
              CLT_POOL_OP(max_pool_infer, max_pool));
CLT_OP_DEFINE(adaptive_max_pool,
              "y = largest element of each window from floor(i * in / out) to ceil((i + 1) * in / out)", 1, 1,
              CLT_OP_ATTRS(adaptive_attrs), CLT_POOL_OP(max_pool_infer, max_pool));
