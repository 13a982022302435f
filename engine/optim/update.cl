/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernels of an update that do not depend on the optimizer: the gradient norm in deterministic stages
 * (chunks, spans of partial sums, total), the finite check with the clip factor, and the average of the
 * parameters. Styles: see update.clh. Knows chunks of CHUNK elements and the words of the state block.
 *
 * -DWG, -DWORKING, -DDTW: see update.clh  -DNORM_CHUNKS=chunks of one partial sum, group style
 * -DSPAN=partial sums of a span  -DDYNAMIC=1: update_finish adjusts the loss scale */
#include "update.clh"
#include "spike.clh"

#pragma option NORM_CHUNKS 8
#pragma option SPAN 256
#pragma option DYNAMIC 0

#if WG == 1
/* partial[chunk] = sum of g^2 over the chunk: 16 running sums, which are then added as a tree. */
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

/* span[i] = sum of SPAN partial sums, in sixteen compensated running sums. This leaves few numbers for the
 * single work-item of update_finish. */
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
#else
/* partial[group] = sum of g^2 over NORM_CHUNKS chunks: four running sums per work-item, then a tree over the
 * work-items. */
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

/* span[group] = sum of SPAN partial sums. */
KERNEL void update_span(__global const float *partial, ulong po, __global float *span, ulong so, uint count)
{
    __local float scratch[WG];
    uint group = (uint)get_group_id(0), first = group * SPAN;
    float total = group_total(scratch, partial + po + first, min(count - first, (uint)SPAN));
    if (get_local_id(0) == 0)
        span[so + group] = total;
}
#endif

/* x times the double-precision factor high + low, rounded once. */
static inline float product(float x, float high, float low)
{
    float p = x * high;
    return isfinite(p) ? p + fma(x, low, fma(x, high, -p)) : p;
}

/* Run by one work-item or one group: total norm, finite check, clip factor, counters, and this update's
 * entry of the schedule. */
KERNEL void update_finish(__global const float *partial, ulong po, uint count, __global const float *losses,
                          ulong lo, uint n_losses, __global const float *schedule, ulong so, uint entries,
                          __global uint *state, ulong to, float max_norm, float loss_limit, float norm_limit,
                          uint window, uint skip_spikes
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
    uint skip = good ? ST_SKIP_NONE : ST_SKIP_NONFINITE;
    st[ST_LOSS_Z] = st[ST_NORM_Z] = 0u;
    if (good && window > 0u && spike_judge(st, loss, norm, loss_limit, norm_limit, window) && skip_spikes)
        skip = ST_SKIP_SPIKE;
    st[ST_SKIP] = skip;
    st[ST_SKIPPED] += skip ? 1u : 0u;
    st[ST_SKIPPED_ROW] = good ? 0u : st[ST_SKIPPED_ROW] + 1u;
    st[ST_GRAD_NORM] = as_uint(norm);
    st[ST_CLIP] = as_uint(inverse * clip);
    st[ST_LR] = as_uint(schedule[so + 4 * (ulong)line]);
    st[ST_CORRECTION1] = as_uint(schedule[so + 4 * (ulong)line + 1]);
    st[ST_CORRECTION2] = as_uint(schedule[so + 4 * (ulong)line + 2]);
    st[ST_UPDATE] = update + (skip ? 0u : 1u);
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

/* average += rest * (p - average), with rest = 1 - decay; the first update copies the parameter. */
KERNEL void update_average(__global const float *p, ulong po, __global float *average, ulong ao,
                           WORKING_PARAM __global const uint *state, ulong so, uint chunks, float rest)
{
    uint chunk = OWN_CHUNK;
    if (chunk >= chunks || state[so + ST_SKIP])
        return;
    bool first = state[so + ST_UPDATE] == 1u;
    ulong base = (ulong)chunk * CHUNK;
    FOR_CHUNK(i)
    {
        REALS value = GET(p, po + base + i);
        REALS old = GET(average, ao + base + i);
        if (!first)
            value = fma((REALS)(rest), value - old, old);
        PUT(average, ao + base + i, value);
        PUT_WORKING(base + i, value);
    }
}
