/* SPDX-License-Identifier: Apache-2.0
 *
 * Losses that are a sum over elements: squared error, absolute error, binary cross entropy with logits. A
 * "row" of the record's reduction is a block of BLOCK consecutive elements. Elements of samples beyond the
 * step block's valid count do not count.
 *
 *   -DKIND=the loss, see loss_shared.clh
 *   -DDT=type of predictions  -DGT=type of their gradient  -DTT=type of targets
 *   -DBLOCK=elements per row  -DWG=work-group size
 *   -DLS, -DVEC: see elements.clh  -DNT: see lanes.clh */
#include "common.clh"
#include "loss_scale.clh"
#include "step_block.clh"
#include "elements.clh"
#include "groups.clh"
#include "loss_shared.clh"
#include "types.clh"

#pragma option KIND POINTWISE_MSE
#pragma option TT f32
#pragma option BLOCK 1024

/* Loss, correct (1 or 0) and slope of one element, or of sixteen. The terms with x propagate a NaN in x;
 * fmax would drop it. */
#if KIND == POINTWISE_MSE
#define LOSS_OF(type, name, x, y) ((x - y) * (x - y))
#define HIT_OF(type, name, x, y) ((type)(0.0f))
#define SLOPE_OF(type, name, x, y) ((type)(2.0f) * (x - y))
#elif KIND == POINTWISE_L1
#define LOSS_OF(type, name, x, y) fabs(x - y)
#define HIT_OF(type, name, x, y) ((type)(0.0f))
#define SLOPE_OF(type, name, x, y) name(pointwise_sign)(x - y)
#else
#define LOSS_OF(type, name, x, y)                                                                            \
    (fmax(x, (type)(0.0f)) - x * y + name(clt_log1p)(name(clt_exp_down)(-fabs(x))))
#define HIT_OF(type, name, x, y) select((type)(0.0f), (type)(1.0f), (x > (type)(0.0f)) == (y > (type)(0.5f)))
#define SLOPE_OF(type, name, x, y) (name(clt_sigmoid)(x) - y)
#endif
#define POINTWISE_FUNCTIONS(type, name)                                                                      \
    static inline type name(pointwise_sign)(type d)                                                          \
    {                                                                                                        \
        type s = select((type)(0.0f), (type)(1.0f), d > (type)(0.0f));                                       \
        s = select(s, (type)(-1.0f), d < (type)(0.0f));                                                      \
        return select(s, d, d != d);                                                                         \
    }                                                                                                        \
    static inline type name(pointwise_loss)(type x, type y)                                                  \
    {                                                                                                        \
        return LOSS_OF(type, name, x, y);                                                                    \
    }                                                                                                        \
    static inline type name(pointwise_correct)(type x, type y)                                               \
    {                                                                                                        \
        return HIT_OF(type, name, x, y);                                                                     \
    }                                                                                                        \
    static inline type name(pointwise_slope)(type x, type y)                                                 \
    {                                                                                                        \
        return SLOPE_OF(type, name, x, y);                                                                   \
    }
#define ONE(name) name
#define SIXTEEN(name) name##16
POINTWISE_FUNCTIONS(float, ONE)
POINTWISE_FUNCTIONS(float16, SIXTEEN)
#if LS != 1
POINTWISE_FUNCTIONS(REALS, VECTOR)
#endif

/* x, y (total) -> out (blocks,3) {loss, counted, correct}; one work-group per block. */
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
    float loss = 0.0f, correct = 0.0f;
    for (ulong i = first + lane; i < end; i += WG) {
        float p = LOAD(DT, x, i), t = LOAD(TT, y, i);
        loss += pointwise_loss(p, t);
        correct += pointwise_correct(p, t);
    }
    loss = clt_group_sum(scratch, loss);
    correct = clt_group_sum(scratch, correct);
    if (lane == 0) {
        out += out0 + 3 * block;
        out[0] = loss;
        out[1] = end > first ? (float)(end - first) : 0.0f;
        out[2] = correct;
    }
}

/* An item's sums over its block, computed in sixteen lanes. Binary cross entropy takes a single logarithm
 * per lane: of the product of all 1 + exp(-|x|). It stores the product minus 1, so that small losses lose no
 * digits. */
typedef struct pointwise_sums {
    float16 loss, product;
    uint16 misses;
} pointwise_sums;
#define STAGE 128 /* elements whose exponentials are computed ahead of their use (functions.clh) */
#if KIND == POINTWISE_BCE
#if BLOCK > 127 * LANES
#error "a product of factors up to 2 must not overflow"
#endif
/* max(x, 0) - x y is computed as x (1/2 - y) + |x| / 2. A prediction is correct if x > 0 exactly when y >
 * 1/2, which compares two signs. */
static inline void pointwise_take(pointwise_sums *s, __global const STORAGE(DT) * x,
                                  __global const STORAGE(TT) * y, uint n)
{
    float rests[STAGE];
    for (uint i = 0; i < n; i += LANES)
        vstore16(clt_exp_minus16(fabs(LOAD16(DT, x, i))), 0, rests + i);
    for (uint i = 0; i < n; i += LANES) {
        float16 p = LOAD16(DT, x, i), h = 0.5f - LOAD16(TT, y, i), rest = vload16(0, rests + i);
        s->loss += fma(p, h, 0.5f * fabs(p));
        s->product = fma(s->product, rest, s->product + rest);
        s->misses += (as_uint16(0.0f - p) ^ as_uint16(h)) >> 31;
    }
}
#define CORRECT(count, misses) ((float)(count)-clt_sum16(convert_float16(misses)))
#else
static inline void pointwise_take(pointwise_sums *s, __global const STORAGE(DT) * x,
                                  __global const STORAGE(TT) * y, uint n)
{
    for (uint i = 0; i < n; i += LANES)
        s->loss += pointwise_loss16(LOAD16(DT, x, i), LOAD16(TT, y, i));
}
#define CORRECT(count, misses) 0.0f
#endif

/* One item per block, sixteen elements at a time. */
__kernel void pointwise_loss_fwd_row(__global float *out, ulong out0, __global const STORAGE(DT) * x,
                                     ulong x0, __global const STORAGE(TT) * y, ulong y0,
                                     __global const uint *sb, ulong sb0, ulong total, ulong per_sample)
{
    ulong block = get_global_id(0), first = block * BLOCK;
    if (first >= total)
        return;
    ulong counted = min(total, per_sample * sb[sb0 + SB_VALID]);
    uint count = counted > first ? (uint)min(counted - first, (ulong)BLOCK) : 0u, i = 0;
    x += x0 + first;
    y += y0 + first;
    pointwise_sums s = {.loss = 0.0f, .product = 0.0f, .misses = 0};
    for (uint n; i + LANES <= count; i += n) {
        n = min((count - i) / LANES * LANES, (uint)STAGE);
        pointwise_take(&s, x + i, y + i, n);
    }
    float loss = clt_sum16(KIND == POINTWISE_BCE ? s.loss + clt_log1p_any16(s.product) : s.loss);
    float correct = CORRECT(i, s.misses);
    for (; i < count; i++) {
        float p = LOAD(DT, x, i), t = LOAD(TT, y, i);
        loss += pointwise_loss(p, t);
        correct += pointwise_correct(p, t);
    }
    out += out0 + 3 * block;
    out[0] = loss;
    out[1] = (float)count;
    out[2] = correct;
}

/* dx (total) (+)= scale * d loss / d x, 0 where an element does not count. */
ELEMENTWISE void pointwise_loss_bwd(__global STORAGE(GT) *restrict dx, ulong dx0, int accumulate,
                                    __global const STORAGE(DT) *restrict x, ulong x0,
                                    __global const STORAGE(TT) *restrict y, ulong y0,
                                    __global const uint *restrict sb, ulong sb0 LOSS_SCALE_ARGS,
                                    ulong per_sample, float weight, uint loss_index, ulong count)
{
    ulong base = clt_chunk_base();
    uint size = clt_chunk_size(base, count);
    sb += sb0;
    dx += dx0 + base;
    x += x0 + base;
    y += y0 + base;
    ulong counted = per_sample * sb[SB_VALID];
    uint end = counted > base ? (uint)min(counted - base, (ulong)size) : 0u;
    float scale = (weight * as_float(sb[SB_NORM + loss_index])) * LOSS_SCALE;
    FOR_VECTORS(k, end, QUADS(GT, dx) && QUADS(DT, x) && QUADS(TT, y))
    STREAMV_GRAD(GT, dx, k, scale * VECTOR(pointwise_slope)(LOADV(DT, x, k), LOADV(TT, y, k)), accumulate);
    FOR_REST(k, end)
    STORE_GRAD(GT, dx, k, scale * pointwise_slope(LOAD(DT, x, k), LOAD(TT, y, k)), accumulate);
    FOR_MORE(k, size)
    STORE_GRAD(GT, dx, k, 0.0f, accumulate);
}
