/* SPDX-License-Identifier: Apache-2.0
 *
 * Layer normalisation over rows: y = (x - mean) * rstd * w + b, and the gradient of x. The variance is the
 * mean square of the centred values (a second pass over the row), so that large means cost no accuracy.
 * Gradients of w and b are column sums: see colsum.cl. Forms: group (one work-group per row), row (one item
 * per row, sixteen lanes). Knows rows and columns only.
 *
 * -DAFFINE=0|1: w is there  -DBIAS=0|1: b is there  -DSTATS=0|1: keep mean and rstd  -DDT=type of x and y
 * -DWT=type of w and b -DDYT=type of dy  -DGT=type of dx  -DWG=work-group size of the group form */
#include "common.clh"
#include "lanes.clh"
#include "groups.clh"

#ifndef AFFINE
#define AFFINE 1
#endif
#ifndef BIAS
#define BIAS 1
#endif
#ifndef STATS
#define STATS 1
#endif
#ifndef DT
#define DT f32
#endif
#ifndef WT
#define WT f32
#endif
#ifndef DYT
#define DYT f32
#endif
#ifndef GT
#define GT f32
#endif

#if AFFINE
#define W_ARG , __global const STORAGE(WT) *restrict w, ulong w0
#define SCALED(load, v, c) ((v)*load(WT, w, w0 + (c)))
#else
#define W_ARG
#define SCALED(load, v, c) (v)
#endif
#if BIAS
#define B_ARG , __global const STORAGE(WT) *restrict b, ulong b0
#define SHIFTED(load, v, c) ((v) + load(WT, b, b0 + (c)))
#else
#define B_ARG
#define SHIFTED(load, v, c) (v)
#endif
#if STATS
#define STATS_ARG                                                                                            \
    , __global float *restrict mean_out, ulong mean0, __global float *restrict rstd_out, ulong rstd0
#define KEEP_STATS(row, mean, rstd)                                                                          \
    mean_out[mean0 + (row)] = (mean);                                                                        \
    rstd_out[rstd0 + (row)] = (rstd)
#else
#define STATS_ARG
#define KEEP_STATS(row, mean, rstd)
#endif

#define NORMALISED(load, c) SHIFTED(load, SCALED(load, (load(DT, x, c) - mean) * rstd, c), c)

/* x (rows,cols), w (cols), b (cols) -> y (rows,cols), mean (rows), rstd (rows). */
__kernel void layernorm_fwd_row(__global STORAGE(DT) *restrict y, ulong y0 STATS_ARG,
                                __global const STORAGE(DT) *restrict x, ulong x0 W_ARG B_ARG, ulong rows,
                                uint cols, float eps)
{
    ulong row = get_global_id(0);
    if (row >= rows)
        return;
    y += y0 + row * cols;
    x += x0 + row * cols;
    uint c = 0;
    float tail = 0.0f;
    float16 sum = (float16)(0.0f);
    for (; c + LANES <= cols; c += LANES)
        sum += LOAD16(DT, x, c);
    for (; c < cols; c++)
        tail += LOAD(DT, x, c);
    float mean = (clt_sum16(sum) + tail) / (float)cols;
    tail = 0.0f;
    sum = (float16)(0.0f);
    for (c = 0; c + LANES <= cols; c += LANES) {
        float16 d = LOAD16(DT, x, c) - mean;
        sum = fma(d, d, sum);
    }
    for (; c < cols; c++) {
        float d = LOAD(DT, x, c) - mean;
        tail = fma(d, d, tail);
    }
    float rstd = 1.0f / sqrt((clt_sum16(sum) + tail) / (float)cols + eps);
    for (c = 0; c + LANES <= cols; c += LANES)
        STORE16(DT, y, c, NORMALISED(LOAD16, c));
    for (; c < cols; c++)
        STORE(DT, y, c, NORMALISED(LOAD, c));
    KEEP_STATS(row, mean, rstd);
}

__kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void layernorm_fwd_group(
    __global STORAGE(DT) *restrict y, ulong y0 STATS_ARG, __global const STORAGE(DT) *restrict x,
    ulong x0 W_ARG B_ARG, ulong rows, uint cols, float eps)
{
    __local float scratch[WG];
    ulong row = get_group_id(0);
    uint lane = (uint)get_local_id(0);
    y += y0 + row * cols;
    x += x0 + row * cols;
    float sum = 0.0f;
    for (uint c = lane; c < cols; c += WG)
        sum += LOAD(DT, x, c);
    float mean = clt_group_sum(scratch, sum) / (float)cols;
    sum = 0.0f;
    for (uint c = lane; c < cols; c += WG) {
        float d = LOAD(DT, x, c) - mean;
        sum = fma(d, d, sum);
    }
    float rstd = 1.0f / sqrt(clt_group_sum(scratch, sum) / (float)cols + eps);
    for (uint c = lane; c < cols; c += WG)
        STORE(DT, y, c, NORMALISED(LOAD, c));
    if (lane == 0) {
        KEEP_STATS(row, mean, rstd);
    }
}

#define SCALED_DY(load, c) SCALED(load, load(DYT, dy, c), c)
#define CENTRED(load, c) ((load(DT, x, c) - mean) * rstd)
#define DX(load, c) ((SCALED_DY(load, c) - s1 - CENTRED(load, c) * s2) * rstd)

/* With g = dy * w and n = (x - mean) * rstd: dx = rstd * (g - mean(g) - n * mean(g n)). */
__kernel void layernorm_bwd_row(__global STORAGE(GT) *restrict dx, ulong dx0, int accumulate,
                                __global const STORAGE(DYT) *restrict dy, ulong dy0,
                                __global const STORAGE(DT) *restrict x, ulong x0,
                                __global const float *restrict mean_in, ulong mean0,
                                __global const float *restrict rstd_in, ulong rstd0 W_ARG, ulong rows,
                                uint cols)
{
    ulong row = get_global_id(0);
    if (row >= rows)
        return;
    dx += dx0 + row * cols;
    dy += dy0 + row * cols;
    x += x0 + row * cols;
    float mean = mean_in[mean0 + row], rstd = rstd_in[rstd0 + row];
    uint c = 0;
    float tail1 = 0.0f, tail2 = 0.0f;
    float16 sum1 = (float16)(0.0f), sum2 = (float16)(0.0f);
    for (; c + LANES <= cols; c += LANES) {
        float16 g = SCALED_DY(LOAD16, c);
        sum1 += g;
        sum2 = fma(g, CENTRED(LOAD16, c), sum2);
    }
    for (; c < cols; c++) {
        float g = SCALED_DY(LOAD, c);
        tail1 += g;
        tail2 = fma(g, CENTRED(LOAD, c), tail2);
    }
    float s1 = (clt_sum16(sum1) + tail1) / (float)cols, s2 = (clt_sum16(sum2) + tail2) / (float)cols;
    for (c = 0; c + LANES <= cols; c += LANES)
        STORE16_GRAD(GT, dx, c, DX(LOAD16, c), accumulate);
    for (; c < cols; c++)
        STORE_GRAD(GT, dx, c, DX(LOAD, c), accumulate);
}

__kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void layernorm_bwd_group(
    __global STORAGE(GT) *restrict dx, ulong dx0, int accumulate, __global const STORAGE(DYT) *restrict dy,
    ulong dy0, __global const STORAGE(DT) *restrict x, ulong x0, __global const float *restrict mean_in,
    ulong mean0, __global const float *restrict rstd_in, ulong rstd0 W_ARG, ulong rows, uint cols)
{
    __local float scratch[WG];
    ulong row = get_group_id(0);
    uint lane = (uint)get_local_id(0);
    dx += dx0 + row * cols;
    dy += dy0 + row * cols;
    x += x0 + row * cols;
    float mean = mean_in[mean0 + row], rstd = rstd_in[rstd0 + row], s1 = 0.0f, s2 = 0.0f;
    for (uint c = lane; c < cols; c += WG) {
        float g = SCALED_DY(LOAD, c);
        s1 += g;
        s2 = fma(g, CENTRED(LOAD, c), s2);
    }
    s1 = clt_group_sum(scratch, s1) / (float)cols;
    s2 = clt_group_sum(scratch, s2) / (float)cols;
    for (uint c = lane; c < cols; c += WG)
        STORE_GRAD(GT, dx, c, DX(LOAD, c), accumulate);
}
