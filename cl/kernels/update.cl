/* SPDX-License-Identifier: Apache-2.0
 *
 * The update: gradient norm in deterministic stages (chunks, spans of partial sums, total), finite check and clip factor,
 * and one optimizer kernel over all parameters of a store slab. Gaps between parameters hold zeros and stay zero. Knows
 * chunks of CHUNK elements and the words of the state block.
 *
 * Two styles. lane (WG 1): a work-item owns a chunk and walks it sixteen elements at a time. group (WG > 1): a work-group
 * owns a chunk, and neighbouring items have neighbouring vectors of four elements, so that a GPU moves whole cache lines.
 * Each element is computed by the same operations in both. Sums are taken in another order, fixed in each style.
 *
 * -DWG=items of a group  -DNORM_CHUNKS=chunks of one partial sum, group style  -DSPAN=partial sums of a span */
#include "common.clh"
#include "step_block.clh"
#include "chunk.clh"

#ifndef WG
#define WG 1
#endif
#if WG == 1
#include "lanes.clh"
#else
#include "groups.clh"
#include "quads.clh"
#endif

#define CHUNK CLT_STORE_CHUNK
#ifndef NORM_CHUNKS
#define NORM_CHUNKS 8
#endif
#ifndef SPAN
#define SPAN 256
#endif
#ifndef MOMENTUM
#define MOMENTUM 1
#endif
#ifndef NESTEROV
#define NESTEROV 0
#endif
#ifndef DECOUPLED
#define DECOUPLED 1
#endif

#ifndef DYNAMIC /* 1: update_finish moves the loss scale */
#define DYNAMIC 0
#endif
#ifndef WORKING /* 1: the new parameters are stored in DTW, too */
#define WORKING 0
#endif
#ifndef DTW
#define DTW f16
#endif

/* A kernel's chunk, and FOR_CHUNK(i), which runs its statement for each vector of it that the work-item has. */
#if WG == 1
#define KERNEL __kernel
#define OWN_CHUNK ((uint)get_global_id(0))
#define REALS float16
#define GET(p, i) vload16(0, (p) + (i))
#define PUT(p, i, v) vstore16((v), 0, (p) + (i))
#define PUT_STORAGE(dt, p, i, v) STORE16(dt, p, i, v)
#define FOR_CHUNK(i) for (uint i = 0; i < CHUNK; i += 16)
#else
#define KERNEL __kernel __attribute__((reqd_work_group_size(WG, 1, 1)))
#define OWN_CHUNK ((uint)get_group_id(0))
#define REALS float4
#define GET(p, i) LOAD4(f32, p, i)
#define PUT(p, i, v) STORE4(f32, p, i, v)
#define PUT_STORAGE(dt, p, i, v) STORE4(dt, p, i, v)
#define FOR_CHUNK(i) for (uint i = 4 * (uint)get_local_id(0); i < CHUNK; i += 4 * WG)
#endif

/* `next`, but where it is the same number as `now` the bits of `now`: a zero keeps its sign, also where the driver's fma of
 * zeros has the sign of the product (Mesa's rusticl). */
#define KEPT(next, now) select((next), (now), (next) == (now))

#if WORKING
#define WORKING_PARAM __global STORAGE(DTW) * w, ulong wo,
#define PUT_WORKING(at, value) PUT_STORAGE(DTW, w, wo + (at), value)
#else
#define WORKING_PARAM
#define PUT_WORKING(at, value)
#endif

/* x[0], x[step], x[2 * step] ... x[< n], with the rounding error of each addition carried along (Kahan). */
static inline float compensated_sum(__global const float *x, uint n, uint step)
{
    float sum = 0.0f, rest = 0.0f;
    for (uint i = 0; i < n; i += step) {
        float y = x[i] - rest;
        float t = sum + y;
        rest = (t - sum) - y;
        sum = t;
    }
    return sum;
}

#if WG == 1
/* partial[chunk] = sum of g^2 over the chunk, 16 running sums added as a tree. */
KERNEL void update_norm(__global const float *g, ulong go, __global float *partial, ulong po, uint chunks)
{
    uint chunk = OWN_CHUNK;
    if (chunk >= chunks)
        return;
    __global const float *p = g + go + (ulong)chunk * CHUNK;
    float16 sum = (float16)(0.0f);
    FOR_CHUNK(i)
    {
        float16 v = GET(p, i);
        sum = fma(v, v, sum);
    }
    partial[po + chunk] = clt_sum16(sum);
}

/* span[i] = sum of SPAN partial sums in sixteen compensated lanes: what is left for the one work-item of
 * update_finish is short. */
KERNEL void update_span(__global const float *partial, ulong po, __global float *span, ulong so, uint count)
{
    uint i = (uint)get_global_id(0), first = i * SPAN;
    if (first >= count)
        return;
    uint n = min(count - first, (uint)SPAN), c = 0;
    partial += po + first;
    float16 sum = (float16)(0.0f), rest = (float16)(0.0f);
    for (; c + LANES <= n; c += LANES) {
        float16 y = vload16(0, partial + c) - rest;
        float16 t = sum + y;
        rest = (t - sum) - y;
        sum = t;
    }
    span[so + i] = clt_sum16(sum) + compensated_sum(partial + c, n - c, 1);
}

#define TOTAL(x, n) compensated_sum(x, n, 1)
#else
/* partial[group] = sum of g^2 over NORM_CHUNKS chunks: four running sums an item, then a tree over the items. */
KERNEL void update_norm(__global const float *g, ulong go, __global float *partial, ulong po, uint chunks)
{
    __local float scratch[WG];
    uint group = (uint)get_group_id(0), first = group * NORM_CHUNKS, end = min(chunks, first + NORM_CHUNKS);
    float4 sum = (float4)(0.0f);
    for (uint chunk = first; chunk < end; chunk++) {
        __global const float *p = g + go + (ulong)chunk * CHUNK;
        FOR_CHUNK(i)
        {
            float4 v = GET(p, i);
            sum = fma(v, v, sum);
        }
    }
    float total = clt_group_sum(scratch, clt_sum4(sum));
    if (get_local_id(0) == 0)
        partial[po + group] = total;
}

/* The sum of n numbers by all items of a group: each adds every WG-th one, then a tree over the items. */
static inline float group_total(__local float *scratch, __global const float *x, uint n)
{
    uint lane = (uint)get_local_id(0);
    return clt_group_sum(scratch, lane < n ? compensated_sum(x + lane, n - lane, WG) : 0.0f);
}

/* span[group] = sum of SPAN partial sums. */
KERNEL void update_span(__global const float *partial, ulong po, __global float *span, ulong so, uint count)
{
    __local float scratch[WG];
    uint group = (uint)get_group_id(0), first = group * SPAN;
    float total = group_total(scratch, partial + po + first, min(count - first, (uint)SPAN));
    if (get_local_id(0) == 0)
        span[so + group] = total;
}

#define TOTAL(x, n) group_total(scratch, x, n)
#endif

/* x times the factor of double precision that high + low stand for, rounded once. */
static inline float product(float x, float high, float low)
{
    float p = x * high;
    return isfinite(p) ? p + fma(x, low, fma(x, high, -p)) : p;
}

/* One work-item, or one group: total norm, finite check, clip factor, counters, this update's line of the schedule. */
KERNEL void update_finish(__global const float *partial, ulong po, uint count, __global const float *losses, ulong lo,
                            uint n_losses, __global const float *schedule, ulong so, uint entries, __global uint *state,
                            ulong to, float max_norm
#if DYNAMIC
                            ,
                            float growth, float growth_rest, float backoff, float backoff_rest, float minimum,
                            uint interval
#endif
)
{
#if WG > 1
    __local float scratch[WG];
#endif
    float squares = TOTAL(partial + po, count);
    if (get_global_id(0) != 0)
        return;
    __global uint *st = state + to;
    float scale = as_float(st[ST_LOSS_SCALE]);
    float inverse = 1.0f / scale;
    float norm = sqrt(squares) * inverse;
    float loss = 0.0f;
    for (uint i = 0; i < n_losses; i++)
        loss += losses[lo + 4 * i];
    bool good = isfinite(norm) && isfinite(loss);
    uint update = st[ST_UPDATE];
    uint line = min(update, entries - 1u);
    float clip = 1.0f;
    if (max_norm > 0.0f)
        clip = fmin(max_norm / (norm + 1e-6f), 1.0f);
    st[ST_SKIP] = good ? 0u : 1u;
    st[ST_SKIPPED] += good ? 0u : 1u;
    st[ST_SKIPPED_ROW] = good ? 0u : st[ST_SKIPPED_ROW] + 1u;
    st[ST_GRAD_NORM] = as_uint(norm);
    st[ST_CLIP] = as_uint(inverse * clip);
    st[ST_LR] = as_uint(schedule[so + 4 * (ulong)line]);
    st[ST_CORRECTION1] = as_uint(schedule[so + 4 * (ulong)line + 1]);
    st[ST_CORRECTION2] = as_uint(schedule[so + 4 * (ulong)line + 2]);
    st[ST_UPDATE] = update + (good ? 1u : 0u);
#if DYNAMIC
    uint row = good ? st[ST_GROWTH] + 1u : 0u;
    if (!good)
        scale = fmax(product(scale, backoff, backoff_rest), minimum);
    if (row == interval) {
        float grown = product(scale, growth, growth_rest);
        scale = isfinite(grown) ? grown : scale;
        row = 0u;
    }
    st[ST_GROWTH] = row;
    st[ST_LOSS_SCALE] = as_uint(scale);
#endif
}

/* SGD as in torch.optim.SGD: g += decay*p; buf = momentum*buf + g (the first update: buf = g, as buf starts at 0 with
 * dampening 0); * p -= lr * (nesterov ? g + momentum*buf : buf). */
KERNEL void update_sgd(__global float *p, ulong po, WORKING_PARAM __global const float *g, ulong go,
#if MOMENTUM
                       __global float *m, ulong mo,
#endif
                       __global const float *table, ulong to, __global const uint *state, ulong so, uint chunks
#if MOMENTUM
                       ,
                       float momentum
#endif
)
{
    uint chunk = OWN_CHUNK;
    __global const uint *st = state + so;
    if (chunk >= chunks || st[ST_SKIP])
        return;
    float clip = as_float(st[ST_CLIP]);
    float decay = table[to + 2 * (ulong)chunk];
    float lr = as_float(st[ST_LR]) * table[to + 2 * (ulong)chunk + 1];
    ulong base = (ulong)chunk * CHUNK;
    FOR_CHUNK(i)
    {
        REALS value = GET(p, po + base + i);
        REALS d = fma((REALS)(decay), value, GET(g, go + base + i) * clip);
#if MOMENTUM
        REALS buf = fma((REALS)(momentum), GET(m, mo + base + i), d);
        PUT(m, mo + base + i, buf);
#if NESTEROV
        d = fma((REALS)(momentum), buf, d);
#else
        d = buf;
#endif
#endif
        value = KEPT(fma((REALS)(-lr), d, value), value);
        PUT(p, po + base + i, value);
        PUT_WORKING(base + i, value);
    }
}

/* Adam and AdamW (DECOUPLED) as in torch.optim: p *= 1 - lr*decay; m = m + (1-b1)(g-m); v = b2 v + (1-b2) g^2;
 * p -= lr/c1 * m / (sqrt(v)/sqrt(c2) + eps). Plain Adam adds decay*p to g instead. rest = 1 - beta. */
KERNEL void update_adam(__global float *p, ulong po, WORKING_PARAM __global const float *g, ulong go,
                        __global float *m, ulong mo, __global float *v, ulong vo, __global const float *table,
                        ulong to, __global const uint *state, ulong so, uint chunks, float rest1, float beta2,
                        float rest2, float eps)
{
    uint chunk = OWN_CHUNK;
    __global const uint *st = state + so;
    if (chunk >= chunks || st[ST_SKIP])
        return;
    float clip = as_float(st[ST_CLIP]);
    float decay = table[to + 2 * (ulong)chunk];
    float lr = as_float(st[ST_LR]) * table[to + 2 * (ulong)chunk + 1];
    float step = lr / as_float(st[ST_CORRECTION1]);
    float root2 = sqrt(as_float(st[ST_CORRECTION2]));
    ulong base = (ulong)chunk * CHUNK;
    FOR_CHUNK(i)
    {
        REALS value = GET(p, po + base + i);
        REALS d = GET(g, go + base + i) * clip;
#if DECOUPLED
        value *= 1.0f - lr * decay;
#else
        d = fma((REALS)(decay), value, d);
#endif
        REALS m1 = GET(m, mo + base + i);
        REALS v1 = GET(v, vo + base + i);
        m1 = fma((REALS)(rest1), d - m1, m1);
        v1 = fma((REALS)(rest2), d * d, beta2 * v1);
        PUT(m, mo + base + i, m1);
        PUT(v, vo + base + i, v1);
        value -= step * (m1 / (sqrt(v1) / root2 + eps));
        PUT(p, po + base + i, value);
        PUT_WORKING(base + i, value);
    }
}
