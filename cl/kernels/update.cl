/* SPDX-License-Identifier: Apache-2.0
 *
 * The update: gradient norm in deterministic stages (chunks, spans of chunks, total), finite check and clip
 * factor, and one optimizer kernel over all parameters of a store slab. A work-item owns one chunk of CHUNK elements; gaps between parameters hold zeros and stay zero.
 * State words: engine/train/step_block.h. */
#include "common.clh"
#include "lanes.clh"

#ifndef CHUNK
#define CHUNK 1024
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
#if WORKING
#define WORKING_PARAM __global STORAGE(DTW) * w, ulong wo,
#define PUT_WORKING(at, value) STORE16(DTW, w, wo + (at), value)
#else
#define WORKING_PARAM
#define PUT_WORKING(at, value)
#endif

#define ST_UPDATE 0
#define ST_SKIPPED 1
#define ST_SKIPPED_ROW 2
#define ST_SKIP 3
#define ST_LOSS_SCALE 4
#define ST_GROWTH 5
#define ST_GRAD_NORM 6
#define ST_CLIP 7
#define ST_LR 8
#define ST_CORRECTION1 9
#define ST_CORRECTION2 10

/* partial[chunk] = sum of g^2 over the chunk, 16 running sums added as a tree. */
__kernel void update_norm(__global const float *g, ulong go, __global float *partial, ulong po, uint chunks)
{
    uint chunk = (uint)get_global_id(0);
    if (chunk >= chunks)
        return;
    __global const float *p = g + go + (ulong)chunk * CHUNK;
    float16 sum = (float16)(0.0f);
    for (uint i = 0; i < CHUNK; i += 16) {
        float16 v = vload16(0, p + i);
        sum = fma(v, v, sum);
    }
    partial[po + chunk] = clt_sum16(sum);
}

inline float compensated_sum(__global const float *x, uint n)
{
    float sum = 0.0f, rest = 0.0f;
    for (uint i = 0; i < n; i++) {
        float y = x[i] - rest;
        float t = sum + y;
        rest = (t - sum) - y;
        sum = t;
    }
    return sum;
}

/* span[i] = sum of SPAN partial sums in sixteen compensated lanes: what is left for the one work-item of
 * update_finish is short. */
__kernel void update_span(__global const float *partial, ulong po, __global float *span, ulong so, uint chunks)
{
    uint i = (uint)get_global_id(0), first = i * SPAN;
    if (first >= chunks)
        return;
    uint n = min(chunks - first, (uint)SPAN), c = 0;
    partial += po + first;
    float16 sum = (float16)(0.0f), rest = (float16)(0.0f);
    for (; c + LANES <= n; c += LANES) {
        float16 y = vload16(0, partial + c) - rest;
        float16 t = sum + y;
        rest = (t - sum) - y;
        sum = t;
    }
    span[so + i] = clt_sum16(sum) + compensated_sum(partial + c, n - c);
}

/* x times the factor of double precision that high + low stand for, rounded once. */
inline float product(float x, float high, float low)
{
    float p = x * high;
    return isfinite(p) ? p + fma(x, low, fma(x, high, -p)) : p;
}

/* One work-item: total norm, finite check, clip factor, counters, this update's line of the schedule. */
__kernel void update_finish(__global const float *partial, ulong po, uint count, __global const float *losses, ulong lo,
                            uint n_losses, __global const float *schedule, ulong so, uint entries, __global uint *state,
                            ulong to, float max_norm
#if DYNAMIC
                            ,
                            float growth, float growth_rest, float backoff, float backoff_rest, float minimum,
                            uint interval
#endif
)
{
    if (get_global_id(0) != 0)
        return;
    __global uint *st = state + to;
    float scale = as_float(st[ST_LOSS_SCALE]);
    float inverse = 1.0f / scale;
    float norm = sqrt(compensated_sum(partial + po, count)) * inverse;
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

/* SGD as in torch.optim.SGD: g += decay*p; buf = momentum*buf + g (the first update: buf = g, as buf starts at 0 with dampening 0);
 * p -= lr * (nesterov ? g + momentum*buf : buf). The unused arguments keep one list for both optimizers. */
__kernel void update_sgd(__global float *p, ulong po, WORKING_PARAM __global const float *g, ulong go,
#if MOMENTUM
                         __global float *m, ulong mo,
#endif
                         __global const float *table, ulong to, __global const uint *state, ulong so, uint chunks,
                         float momentum, float unused1, float unused2, float unused3)
{
    uint chunk = (uint)get_global_id(0);
    __global const uint *st = state + so;
    if (chunk >= chunks || st[ST_SKIP])
        return;
    float clip = as_float(st[ST_CLIP]);
    float decay = table[to + 2 * (ulong)chunk];
    float lr = as_float(st[ST_LR]) * table[to + 2 * (ulong)chunk + 1];
    ulong base = (ulong)chunk * CHUNK;
    for (uint i = 0; i < CHUNK; i += 16) {
        float16 value = vload16(0, p + po + base + i);
        float16 d = fma((float16)(decay), value, vload16(0, g + go + base + i) * clip);
#if MOMENTUM
        float16 buf = fma((float16)(momentum), vload16(0, m + mo + base + i), d);
        vstore16(buf, 0, m + mo + base + i);
#if NESTEROV
        d = fma((float16)(momentum), buf, d);
#else
        d = buf;
#endif
#endif
        value = fma((float16)(-lr), d, value);
        vstore16(value, 0, p + po + base + i);
        PUT_WORKING(base + i, value);
    }
}

/* Adam and AdamW (DECOUPLED) as in torch.optim: p *= 1 - lr*decay; m = m + (1-b1)(g-m); v = b2 v + (1-b2) g^2;
 * p -= lr/c1 * m / (sqrt(v)/sqrt(c2) + eps). Plain Adam adds decay*p to g instead. rest = 1 - beta. */
__kernel void update_adam(__global float *p, ulong po, WORKING_PARAM __global const float *g, ulong go, __global float *m, ulong mo,
                          __global float *v, ulong vo, __global const float *table, ulong to,
                          __global const uint *state, ulong so, uint chunks, float rest1,
                          float beta2, float rest2, float eps)
{
    uint chunk = (uint)get_global_id(0);
    __global const uint *st = state + so;
    if (chunk >= chunks || st[ST_SKIP])
        return;
    float clip = as_float(st[ST_CLIP]);
    float decay = table[to + 2 * (ulong)chunk];
    float lr = as_float(st[ST_LR]) * table[to + 2 * (ulong)chunk + 1];
    float step = lr / as_float(st[ST_CORRECTION1]);
    float root2 = sqrt(as_float(st[ST_CORRECTION2]));
    ulong base = (ulong)chunk * CHUNK;
    for (uint i = 0; i < CHUNK; i += 16) {
        float16 value = vload16(0, p + po + base + i);
        float16 d = vload16(0, g + go + base + i) * clip;
#if DECOUPLED
        value *= 1.0f - lr * decay;
#else
        d = fma((float16)(decay), value, d);
#endif
        float16 m1 = vload16(0, m + mo + base + i);
        float16 v1 = vload16(0, v + vo + base + i);
        m1 = fma((float16)(rest1), d - m1, m1);
        v1 = fma((float16)(rest2), d * d, beta2 * v1);
        vstore16(m1, 0, m + mo + base + i);
        vstore16(v1, 0, v + vo + base + i);
        value -= step * (m1 / (sqrt(v1) / root2 + eps));
        vstore16(value, 0, p + po + base + i);
        PUT_WORKING(base + i, value);
    }
}
