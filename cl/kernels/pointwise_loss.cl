/* SPDX-License-Identifier: Apache-2.0
 *
 * Losses that are a sum over elements: squared error, absolute error, binary cross entropy with logits. A
 * "row" of the record's reduction is a block of BLOCK consecutive elements. Elements of samples beyond the
 * step block's valid count do not count.
 *
 * -DKIND=0 squared error, 1 absolute error, 2 binary cross entropy  -DDT=type of predictions  -DGT=type of
 * their gradient -DTT=type of targets  -DHAS_SCALE=0|1: a loss scale follows  -DBLOCK=elements per row
 * -DWG=work-group size */
#include "common.clh"
#include "lanes.clh"
#include "groups.clh"

#ifndef KIND
#define KIND 0
#endif
#ifndef DT
#define DT f32
#endif
#ifndef GT
#define GT f32
#endif
#ifndef TT
#define TT f32
#endif
#ifndef HAS_SCALE
#define HAS_SCALE 0
#endif
#ifndef BLOCK
#define BLOCK 1024
#endif

/* Loss of one element, or of sixteen (the same text for both widths). The terms with x keep a NaN in x alive:
 * fmax alone would swallow it. */
#if KIND == 0
#define LOSS_OF(x, y) (((x) - (y)) * ((x) - (y)))
#elif KIND == 1
#define LOSS_OF(x, y) (fabs((x) - (y)))
#else
#define LOSS_OF(x, y) (fmax((x), 0.0f) - (x) * (y) + log1p(exp(-fabs(x))))
#endif

static inline float pointwise_loss_hit(float x, float y)
{
#if KIND == 2
    return (x > 0.0f) == (y > 0.5f) ? 1.0f : 0.0f;
#else
    return 0.0f;
#endif
}

static inline float pointwise_loss_slope(float x, float y)
{
    float d = x - y;
#if KIND == 0
    return 2.0f * d;
#elif KIND == 1
    return isnan(d) ? d : sign(d);
#else
    d = clt_sigmoid(x) - y;
    return d;
#endif
}

/* x, y (total) -> out (blocks,3) {loss, counted, hits}; one work-group per block. */
__kernel void pointwise_loss_fwd_group(__global float *out, ulong out0, __global const STORAGE(DT) * x,
                                       ulong x0, __global const STORAGE(TT) * y, ulong y0,
                                       __global const uint *sb, ulong sb0, ulong total, ulong per_sample)
{
    __local float scratch[WG];
    ulong block = get_group_id(0);
    uint lane = (uint)get_local_id(0);
    ulong counted = min(total, per_sample * sb[sb0 + SB_VALID]);
    ulong first = block * BLOCK, end = min(first + BLOCK, counted);
    x += x0;
    y += y0;
    float loss = 0.0f, hits = 0.0f;
    for (ulong i = first + lane; i < end; i += WG) {
        float p = LOAD(DT, x, i), t = LOAD(TT, y, i);
        loss += LOSS_OF(p, t);
        hits += pointwise_loss_hit(p, t);
    }
    loss = clt_group_sum(scratch, loss);
    hits = clt_group_sum(scratch, hits);
    if (lane == 0) {
        out += out0 + 3 * block;
        out[0] = loss;
        out[1] = end > first ? (float)(end - first) : 0.0f;
        out[2] = hits;
    }
}

/* One item per block, sixteen elements at a time. */
__kernel void pointwise_loss_fwd_row(__global float *out, ulong out0, __global const STORAGE(DT) * x,
                                     ulong x0, __global const STORAGE(TT) * y, ulong y0,
                                     __global const uint *sb, ulong sb0, ulong total, ulong per_sample)
{
    ulong block = get_global_id(0), first = block * BLOCK;
    if (first >= total)
        return;
    ulong counted = min(total, per_sample * sb[sb0 + SB_VALID]);
    ulong end = min(first + BLOCK, counted);
    x += x0;
    y += y0;
    float16 sum = 0.0f;
    float hits = 0.0f;
    ulong i = first;
    for (; i + LANES <= end; i += LANES) {
        float16 p = LOAD16(DT, x, i), t = LOAD16(TT, y, i);
        sum += LOSS_OF(p, t);
    }
    float loss = clt_sum16(sum);
    for (; i < end; i++) {
        float p = LOAD(DT, x, i), t = LOAD(TT, y, i);
        loss += LOSS_OF(p, t);
    }
#if KIND == 2
    for (i = first; i < end; i++)
        hits += pointwise_loss_hit(LOAD(DT, x, i), LOAD(TT, y, i));
#endif
    out += out0 + 3 * block;
    out[0] = loss;
    out[1] = end > first ? (float)(end - first) : 0.0f;
    out[2] = hits;
}

#if HAS_SCALE
#define SCALE_ARGS , __global const float *loss_scale, ulong loss_scale0
#define SCALE_VALUE loss_scale[loss_scale0]
#else
#define SCALE_ARGS
#define SCALE_VALUE 1.0f
#endif

/* dx (total) (+)= scale * d loss / d x; one item per element. */
__kernel void pointwise_loss_bwd_flat(__global STORAGE(GT) * dx, ulong dx0, int accumulate,
                                      __global const STORAGE(DT) * x, ulong x0,
                                      __global const STORAGE(TT) * y, ulong y0, __global const uint *sb,
                                      ulong sb0 SCALE_ARGS, ulong total, ulong per_sample, float weight,
                                      uint loss_index)
{
    ulong i = get_global_id(0);
    if (i >= total)
        return;
    sb += sb0;
    float g = 0.0f;
    if (i < per_sample * sb[SB_VALID]) {
        float scale = (weight * as_float(sb[SB_NORM + loss_index])) * SCALE_VALUE;
        g = scale * pointwise_loss_slope(LOAD(DT, x + x0, i), LOAD(TT, y + y0, i));
    }
    STORE_GRAD(GT, dx + dx0, i, g, accumulate);
}
