/* SPDX-License-Identifier: Apache-2.0
 *
 * The ops avg_pool and adaptive_avg_pool: means of windows over images and volumes. Knows windows, no
 * model. */
#include "engine/ops/elementwise/column_sums.h"
#include "engine/ops/emit_util.h"
#include "engine/ops/spatial/pool.h"

/* avg_pool, adaptive_avg_pool: y = sum of each window / number of its elements
 * shapes  x (N,C,H,W) or (N,C,D,H,W) -> y (N,C,sizes...)
 * dtypes  x,y f32|f16|bf16; accumulates f32              units   none
 * grads   dx = sum of dy / window's number of elements over windows with the element: write or accumulate
 * memory  global pooling adds up blocks of places, so that many work-items share the work and rounding errors
 *         stay small: a workspace of 4*N*C*blocks bytes, blocks <= 32768 (column_sums.h); else none
 * errors  CLT_ESHAPE: an integer x, other dimensions, windows that do not fit, padding > kernel / 2
 * source  torch.nn.AvgPool2d, AvgPool3d, AdaptiveAvgPool2d, AdaptiveAvgPool3d: the same results
 * tested  verify -t '*avg_pool*', tol 16, or exact; golden values of PyTorch in test_golden_spatial */

static const clt_attr_spec avg_pool_attrs[] = {
    CLT_SPATIAL_KERNEL,
    CLT_SPATIAL_STRIDE("the size of the kernel"),
    CLT_SPATIAL_PADDING("zeros"),
    CLT_POOL_CEIL,
    CLT_SPEC_BOOL("count_include_pad", true, "count padding among the elements of a window"),
};
static const clt_attr_spec adaptive_attrs[] = {CLT_POOL_OUTPUT};

static bool is_global(const clt_spatial *s)
{
    for (int i = 0; i < CLT_SPATIAL_MAX; i++)
        if (s->out[i] != 1 || s->kernel[i] != s->in[i] || s->padding[i] != 0)
            return false;
    return true;
}

/* Adjacent windows of `size` places in a row of `places` places. */
static clt_pool in_a_row(const clt_spatial *s, int64_t places, int64_t size, float share)
{
    return (clt_pool){.s = {.dims = 2,
                            .n = s->n,
                            .channels = s->channels,
                            .in = {1, 1, places},
                            .out = {1, 1, (places + size - 1) / size},
                            .kernel = {1, 1, size},
                            .stride = {1, 1, size},
                            .dilation = {1, 1, 1}},
                      .share = share};
}

#define MOST_IN_A_ROW 256 /* sums of blocks that are added in one stage */

/* Treats a sample as one row; adds blocks of places, then blocks of these sums, until one is left. */
static void emit_global(ocl_emitter *e, const clt_pool *pool, const clt_pool_launch *l, clt_style style)
{
    const clt_spatial *s = &pool->s;
    int64_t places = clt_spatial_volume(s->in);
    clt_pool_launch from = *l;
    clt_column_blocks b = clt_column_blocks_of(places, s->n * s->channels);
    while (b.count > 1) {
        uint64_t sums = (uint64_t)(s->n * s->channels) * b.count;
        int32_t part = ocl_workspace(e, CLT_F32, sums, "sums of blocks");
        clt_pool blocks = in_a_row(s, places, (int64_t)b.rows, 1.0f);
        clt_pool_launch to = {.y = part, .x = from.x, .y_type = CLT_F32, .x_type = from.x_type};
        clt_emit_pool_sum(e, &blocks, &to, style);
        from.x = part;
        from.x_type = CLT_F32;
        places = (int64_t)b.count;
        b = places > MOST_IN_A_ROW ? clt_column_blocks_of(places, s->n * s->channels)
                                   : (clt_column_blocks){1, b.count};
    }
    clt_pool rest = in_a_row(s, places, places, pool->share);
    clt_emit_pool_sum(e, &rest, &from, style);
}

static clt_status avg_pool_forward(ocl_emitter *e, const clt_call *call, clt_style style)
{
    const clt_tensor *x = clt_call_tensor(call, call->in[0]);
    clt_pool pool = clt_pool_of(call->node, &x->shape);
    clt_pool_launch l = {.y = call->out[0], .x = call->in[0], .y_type = x->dtype, .x_type = x->dtype};
    if (is_global(&pool.s))
        emit_global(e, &pool, &l, style);
    else
        clt_emit_pool_sum(e, &pool, &l, style);
    return CLT_OK;
}

static clt_status avg_pool_backward(ocl_emitter *e, const clt_call *call, clt_style style)
{
    if (call->din[0] < 0)
        return CLT_OK;
    clt_pool pool = clt_pool_of(call->node, &clt_call_tensor(call, call->in[0])->shape);
    clt_pool_launch l = {.y = call->din[0],
                         .x = call->dout[0],
                         .y_type = clt_call_dtype(call, call->din[0]),
                         .x_type = clt_call_dtype(call, call->dout[0]),
                         .accumulate = call->din_accumulate[0]};
    clt_emit_pool_spread(e, &pool, &l, style);
    return CLT_OK;
}
CLT_ELEMENTWISE_VARIANTS(avg_pool_forward)
CLT_ELEMENTWISE_VARIANTS(avg_pool_backward)

CLT_OP_DOC(avg_pool, .text = "The mean of each window that slides over an image or a volume.",
           .output = "y: (N,C,sizes...), type of x; a size is floor((in + 2 padding - kernel) / stride) + 1",
           .example = "{\"op\": \"avg_pool\", \"kernel\": 2}", CLT_POOL_DOC);
CLT_OP_DOC(adaptive_avg_pool,
           .text = "One mean for each element of the output, each over a window; the windows divide the "
                   "image or the volume, whatever its size. Without attributes it is global average pooling: "
                   "one mean for each channel, with which classifiers of images end.",
           .output = "y: (N,C,output...), type of x",
           .example = "{\"op\": \"adaptive_avg_pool\", \"output\": [7, 7]}", CLT_POOL_DOC);

CLT_OP_DEFINE(avg_pool, "y = mean of each window", 1, 1, CLT_OP_ATTRS(avg_pool_attrs),
              CLT_POOL_OP(clt_pool_infer, avg_pool));
CLT_OP_DEFINE(adaptive_avg_pool,
              "y = mean of each window from floor(i * in / out) to ceil((i + 1) * in / out)", 1, 1,
              CLT_OP_ATTRS(adaptive_attrs), CLT_POOL_OP(clt_pool_infer, avg_pool));
