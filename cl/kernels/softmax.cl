/* SPDX-License-Identifier: Apache-2.0
 *
 * Softmax and log-softmax over rows: y = exp(x - max) / sum, or y = x - max - log(sum). Forms: group (one
 * work-group per row), row (one item per row, sixteen lanes). A NaN in a row makes the whole row NaN. Knows
 * rows and columns only.
 *
 * -DLOG=0|1  -DDT=type of x and y  -DDYT=type of dy  -DGT=type of dx  -DWG=work-group size of the group form
 */
#include "common.clh"
#include "lanes.clh"
#include "groups.clh"

#ifndef LOG
#define LOG 0
#endif
#ifndef DT
#define DT f32
#endif
#ifndef DYT
#define DYT f32
#endif
#ifndef GT
#define GT f32
#endif

/* Last step of forward, `norm` being 1/sum or log(sum), and the terms of backward; T is float or float16. */
#if LOG
#define FINISH(centred, norm) ((centred) - (norm))
#define DOT_TERM(dy, y) (dy)
#define GRADIENT(dy, y, dot) ((dy)-exp(y) * (dot))
#else
#define FINISH(centred, norm) (exp(centred) * (norm))
#define DOT_TERM(dy, y) ((dy) * (y))
#define GRADIENT(dy, y, dot) ((y) * ((dy) - (dot)))
#endif
static inline float softmax_norm(float sum)
{
#if LOG
    return log(sum);
#else
    return 1.0f / sum;
#endif
}

/* x (rows,cols) -> y (rows,cols). */
__kernel void softmax_fwd_row(__global STORAGE(DT) *restrict y, ulong y0,
                              __global const STORAGE(DT) *restrict x, ulong x0, ulong rows, uint cols)
{
    ulong row = get_global_id(0);
    if (row >= rows)
        return;
    y += y0 + row * cols;
    x += x0 + row * cols;
    uint c = 0;
    float top = -INFINITY;
    float16 top16 = (float16)(-INFINITY);
    for (; c + LANES <= cols; c += LANES)
        top16 = fmax(top16, LOAD16(DT, x, c));
    for (; c < cols; c++)
        top = fmax(top, LOAD(DT, x, c));
    top = fmax(top, clt_max16(top16));
    float sum = 0.0f;
    float16 sum16 = (float16)(0.0f);
    for (c = 0; c + LANES <= cols; c += LANES)
        sum16 += exp(LOAD16(DT, x, c) - top);
    for (; c < cols; c++)
        sum += exp(LOAD(DT, x, c) - top);
    float norm = softmax_norm(sum + clt_sum16(sum16));
    for (c = 0; c + LANES <= cols; c += LANES)
        STORE16(DT, y, c, FINISH(LOAD16(DT, x, c) - top, norm));
    for (; c < cols; c++)
        STORE(DT, y, c, FINISH(LOAD(DT, x, c) - top, norm));
}

__kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void softmax_fwd_group(
    __global STORAGE(DT) *restrict y, ulong y0, __global const STORAGE(DT) *restrict x, ulong x0, ulong rows,
    uint cols)
{
    __local float scratch[WG];
    ulong row = get_group_id(0);
    uint lane = (uint)get_local_id(0);
    y += y0 + row * cols;
    x += x0 + row * cols;
    float top = -INFINITY, sum = 0.0f;
    for (uint c = lane; c < cols; c += WG)
        top = fmax(top, LOAD(DT, x, c));
    top = clt_group_max(scratch, top);
    for (uint c = lane; c < cols; c += WG)
        sum += exp(LOAD(DT, x, c) - top);
    float norm = softmax_norm(clt_group_sum(scratch, sum));
    for (uint c = lane; c < cols; c += WG)
        STORE(DT, y, c, FINISH(LOAD(DT, x, c) - top, norm));
}

/* dy, y (rows,cols) -> dx (rows,cols). */
__kernel void softmax_bwd_row(__global STORAGE(GT) *restrict dx, ulong dx0, int accumulate,
                              __global const STORAGE(DYT) *restrict dy, ulong dy0,
                              __global const STORAGE(DT) *restrict y, ulong y0, ulong rows, uint cols)
{
    ulong row = get_global_id(0);
    if (row >= rows)
        return;
    dx += dx0 + row * cols;
    dy += dy0 + row * cols;
    y += y0 + row * cols;
    uint c = 0;
    float dot = 0.0f;
    float16 dot16 = (float16)(0.0f);
    for (; c + LANES <= cols; c += LANES)
        dot16 += DOT_TERM(LOAD16(DYT, dy, c), LOAD16(DT, y, c));
    for (; c < cols; c++)
        dot += DOT_TERM(LOAD(DYT, dy, c), LOAD(DT, y, c));
    dot += clt_sum16(dot16);
    for (c = 0; c + LANES <= cols; c += LANES)
        STORE16_GRAD(GT, dx, c, GRADIENT(LOAD16(DYT, dy, c), LOAD16(DT, y, c), dot), accumulate);
    for (; c < cols; c++)
        STORE_GRAD(GT, dx, c, GRADIENT(LOAD(DYT, dy, c), LOAD(DT, y, c), dot), accumulate);
}

__kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void softmax_bwd_group(
    __global STORAGE(GT) *restrict dx, ulong dx0, int accumulate, __global const STORAGE(DYT) *restrict dy,
    ulong dy0, __global const STORAGE(DT) *restrict y, ulong y0, ulong rows, uint cols)
{
    __local float scratch[WG];
    ulong row = get_group_id(0);
    uint lane = (uint)get_local_id(0);
    dx += dx0 + row * cols;
    dy += dy0 + row * cols;
    y += y0 + row * cols;
    float dot = 0.0f;
    for (uint c = lane; c < cols; c += WG)
        dot += DOT_TERM(LOAD(DYT, dy, c), LOAD(DT, y, c));
    dot = clt_group_sum(scratch, dot);
    for (uint c = lane; c < cols; c += WG)
        STORE_GRAD(GT, dx, c, GRADIENT(LOAD(DYT, dy, c), LOAD(DT, y, c), dot), accumulate);
}
