/* SPDX-License-Identifier: Apache-2.0
 *
 * Depthwise convolutions: every channel has its own window (conv_depthwise.c). Images are (n, in...,
 * channels), weights (channels, taps). Sums run over the taps in order. Sums of the weight's gradient run
 * over blocks of the result's rows in order, SUM_STEPS positions at a time.
 *
 * Geometry: in lane style an item has one row of positions (of the result, or of the image) with all
 * channels, sixteen at a time; in flat style one position and one channel. In the weight's gradient an item
 * has a block of rows of the result, with all channels or with one.
 *
 * -DLS=items of a group, 1 in the lane form -DXT=type of the image -DWT=type of the weight -DYT=type of the
 * result
 * -DHAS_BIAS=0|1  -DTAPS=elements of a window (the weight's gradient) */
#include "common.clh"
#include "lanes.clh"
#include "kernel_shared.clh"
#include "long_sum.clh"

#pragma option LS 1
#pragma option XT f32
#pragma option WT f32
#pragma option YT f32
#pragma option HAS_BIAS 0
#pragma option TAPS 9

#define KERNEL __kernel __attribute__((reqd_work_group_size(LS, 1, 1))) void
#define SIZES                                                                                                \
    uint in0, uint in1, uint in2, uint out0, uint out1, uint out2, uint kernel0, uint kernel1, uint kernel2, \
        uint stride0, uint stride1, uint stride2, uint padding0, uint padding1, uint padding2,               \
        uint dilation0, uint dilation1, uint dilation2, uint channels

#define LOAD1(dt, p, i) LOAD(dt, p, i)
#define STORE1(dt, p, i, v) STORE(dt, p, i, v)
#define STORE1_GRAD(dt, p, i, v, accumulate) STORE_GRAD(dt, p, i, v, accumulate)

/* WEIGHTS16(t), WEIGHTS1(t): the weights of tap t for sixteen channels from c on, or for channel c. PLACES
 * runs WORK(type, N) for the item's positions, N channels at a time; WEIGHT_OF(N, t): the weights of tap
 * t. */
static inline float16 weights16(__global const STORAGE(WT) * weight, uint c, uint t, uint taps)
{
    float w[16];
    for (uint i = 0; i < 16; i++)
        w[i] = LOAD(WT, weight, (ulong)(c + i) * taps + t);
    return vload16(0, w);
}
#define WEIGHTS16(t) weights16(weight, c, t, taps)
#define WEIGHTS1(t) LOAD(WT, weight, (ulong)c *taps + (t))

#if LS == 1
/* A row of positions is one (n, first two spatial indices). The weights of sixteen channels are read once
 * for a row. */
#define PLACES(count0, count1, count2, WORK)                                                                 \
    ulong row = get_group_id(0), r0 = row / (count1), n = r0 / (count0);                                     \
    uint q1 = (uint)(row - r0 * (count1)), q0 = (uint)(r0 - n * (count0));                                   \
    uint c = 0;                                                                                              \
    for (; c + 16 <= channels; c += 16) {                                                                    \
        float16 w[MOST_TAPS];                                                                                \
        for (uint t = 0; t < taps; t++)                                                                      \
            w[t] = WEIGHTS16(t);                                                                             \
        for (uint q2 = 0; q2 < (count2); q2++) {                                                             \
            WORK(float16, 16)                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    for (; c < channels; c++) {                                                                              \
        float w[MOST_TAPS];                                                                                  \
        for (uint t = 0; t < taps; t++)                                                                      \
            w[t] = WEIGHTS1(t);                                                                              \
        for (uint q2 = 0; q2 < (count2); q2++) {                                                             \
            WORK(float, 1)                                                                                   \
        }                                                                                                    \
    }
#define WEIGHT_OF(N, t) w[t]
#else
#define PLACES(count0, count1, count2, WORK)                                                                 \
    ulong item = get_global_id(0), place = item / channels;                                                  \
    uint c = (uint)(item - place * channels);                                                                \
    ulong p1 = place / (count2), p0 = p1 / (count1), n = p0 / (count0);                                      \
    uint q2 = (uint)(place - p1 * (count2)), q1 = (uint)(p1 - p0 * (count1)),                                \
         q0 = (uint)(p0 - n * (count0));                                                                     \
    if (n < images) {                                                                                        \
        WORK(float, 1)                                                                                       \
    }
#define WEIGHT_OF(N, t) WEIGHTS1(t)
#endif
#define MOST_TAPS 64

#if HAS_BIAS
#define BIAS_ARG __global const float *restrict bias, ulong bias0,
#define START(type, N) CLT_CAT(BIAS, N)
#define BIAS16 vload16(0, bias + bias0 + c)
#define BIAS1 bias[bias0 + c]
#else
#define BIAS_ARG
#define START(type, N) (type)(0.0f)
#endif

/* y (+)= x * w (+ bias) */
KERNEL depthwise_result(__global STORAGE(YT) *restrict y, ulong y0, int accumulate,
                        __global const STORAGE(XT) *restrict x, ulong x0,
                        __global const STORAGE(WT) *restrict weight, ulong weight0, BIAS_ARG SIZES,
                        uint images)
{
    uint taps = kernel0 * kernel1 * kernel2;
    x += x0;
    y += y0;
    weight += weight0;
#define RESULT(type, N)                                                                                      \
    type sum = START(type, N);                                                                               \
    uint t = 0;                                                                                              \
    for (uint t0 = 0; t0 < kernel0; t0++)                                                                    \
        for (uint t1 = 0; t1 < kernel1; t1++)                                                                \
            for (uint t2 = 0; t2 < kernel2; t2++, t++) {                                                     \
                uint i0 = q0 * stride0 + t0 * dilation0 - padding0,                                          \
                     i1 = q1 * stride1 + t1 * dilation1 - padding1;                                          \
                uint i2 = q2 * stride2 + t2 * dilation2 - padding2;                                          \
                if (i0 < in0 && i1 < in1 && i2 < in2)                                                        \
                    sum = fma(LOAD##N(XT, x, (((n * in0 + i0) * in1 + i1) * in2 + i2) * channels + c),       \
                              WEIGHT_OF(N, t), sum);                                                         \
            }                                                                                                \
    STORE##N##_GRAD(YT, y, (((n * out0 + q0) * out1 + q1) * out2 + q2) * channels + c, sum, accumulate);
    PLACES(out0, out1, out2, RESULT)
}

/* x (+)= the gradient of the image, computed from y, the gradient of the result (+ bias) */
KERNEL depthwise_image(__global STORAGE(XT) *restrict x, ulong x0, int accumulate,
                       __global const STORAGE(YT) *restrict y, ulong y0,
                       __global const STORAGE(WT) *restrict weight, ulong weight0, BIAS_ARG SIZES,
                       uint images)
{
    uint taps = kernel0 * kernel1 * kernel2;
    x += x0;
    y += y0;
    weight += weight0;
#define IMAGE(type, N)                                                                                       \
    type sum = START(type, N);                                                                               \
    uint t = 0;                                                                                              \
    for (uint t0 = 0; t0 < kernel0; t0++)                                                                    \
        for (uint t1 = 0; t1 < kernel1; t1++)                                                                \
            for (uint t2 = 0; t2 < kernel2; t2++, t++) {                                                     \
                uint a0 = q0 + padding0 - t0 * dilation0, o0 = a0 / stride0;                                 \
                uint a1 = q1 + padding1 - t1 * dilation1, o1 = a1 / stride1;                                 \
                uint a2 = q2 + padding2 - t2 * dilation2, o2 = a2 / stride2;                                 \
                if (o0 < out0 && o1 < out1 && o2 < out2 && o0 * stride0 == a0 && o1 * stride1 == a1 &&       \
                    o2 * stride2 == a2)                                                                      \
                    sum = fma(LOAD##N(YT, y, (((n * out0 + o0) * out1 + o1) * out2 + o2) * channels + c),    \
                              WEIGHT_OF(N, t), sum);                                                         \
            }                                                                                                \
    STORE##N##_GRAD(XT, x, (((n * in0 + q0) * in1 + q1) * in2 + q2) * channels + c, sum, accumulate);
    PLACES(in0, in1, in2, IMAGE)
}

#if LS == 1
#define CHANNELS(WORK)                                                                                       \
    uint block = (uint)get_group_id(0), c = 0;                                                               \
    for (; c + 16 <= channels; c += 16) {                                                                    \
        WORK(float16, 16)                                                                                    \
    }                                                                                                        \
    for (; c < channels; c++) {                                                                              \
        WORK(float, 1)                                                                                       \
    }
#else
#define CHANNELS(WORK)                                                                                       \
    uint block = (uint)(get_global_id(0) / channels),                                                        \
         c = (uint)(get_global_id(0) - (ulong)block * channels);                                             \
    if (block < blocks) {                                                                                    \
        WORK(float, 1)                                                                                       \
    }
#endif
#define PART16(v) vstore16((v), 0, part + ((ulong)block * TAPS + t) * channels + c)
#define PART1(v) part[((ulong)block * TAPS + t) * channels + c] = (v)

/* part (blocks, TAPS, channels): the weight's gradient from a block of `block_rows` rows of positions (n,
 * out0, out1). */
KERNEL depthwise_weight(__global float *restrict part, ulong part0, __global const STORAGE(XT) *restrict x,
                        ulong x0, __global const STORAGE(YT) *restrict y, ulong y0, SIZES, uint rows,
                        uint blocks, uint block_rows)
{
    x += x0;
    y += y0;
    part += part0;
#define WEIGHT(type, N)                                                                                      \
    type sum[TAPS], all[TAPS];                                                                               \
    uint places = 0;                                                                                         \
    for (uint t = 0; t < TAPS; t++)                                                                          \
        sum[t] = all[t] = (type)(0.0f);                                                                      \
    for (uint row = block * block_rows, end = min(row + block_rows, rows); row < end; row++) {               \
        uint r0 = row / out1, n = r0 / out0, q1 = row - r0 * out1, q0 = r0 - n * out0;                       \
        for (uint q2 = 0; q2 < out2; q2++) {                                                                 \
            if (places++ == SUM_STEPS) {                                                                     \
                for (uint t = 0; t < TAPS; t++) {                                                            \
                    all[t] += sum[t];                                                                        \
                    sum[t] = (type)(0.0f);                                                                   \
                }                                                                                            \
                places = 1;                                                                                  \
            }                                                                                                \
            type g = LOAD##N(YT, y, ((ulong)row * out2 + q2) * channels + c);                                \
            uint t = 0;                                                                                      \
            for (uint t0 = 0; t0 < kernel0; t0++)                                                            \
                for (uint t1 = 0; t1 < kernel1; t1++)                                                        \
                    for (uint t2 = 0; t2 < kernel2; t2++, t++) {                                             \
                        uint i0 = q0 * stride0 + t0 * dilation0 - padding0;                                  \
                        uint i1 = q1 * stride1 + t1 * dilation1 - padding1;                                  \
                        uint i2 = q2 * stride2 + t2 * dilation2 - padding2;                                  \
                        if (i0 < in0 && i1 < in1 && i2 < in2)                                                \
                            sum[t] =                                                                         \
                                fma(LOAD##N(XT, x,                                                           \
                                            ((((ulong)n * in0 + i0) * in1 + i1) * in2 + i2) * channels + c), \
                                    g, sum[t]);                                                              \
                    }                                                                                        \
        }                                                                                                    \
    }                                                                                                        \
    for (uint t = 0; t < TAPS; t++)                                                                          \
        PART##N(all[t] + sum[t]);
    CHANNELS(WEIGHT)
}

/* weight (channels, taps) (+)= the sum of the blocks of part. An item computes one number. */
KERNEL depthwise_total(__global STORAGE(WT) *restrict weight, ulong weight0, int accumulate,
                       __global const float *restrict part, ulong part0, uint channels, uint taps,
                       uint blocks)
{
    ulong item = get_global_id(0);
    uint c = (uint)(item / taps), t = (uint)(item - (ulong)c * taps);
    float sum = 0.0f, rest = 0.0f;
    if (c >= channels)
        return;
    for (uint b = 0; b < blocks; b++)
        LONG_SUM_ADD(float, sum, rest, part[part0 + ((ulong)b * taps + t) * channels + c]);
    STORE_GRAD(WT, weight, weight0 + item, sum, accumulate);
}
