/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of each sample by their numbers, and the gradient, which adds each row of y to its row of x. For each
 * row of x, the gradient kernel looks for the row's number among the indices of its sample. So no two
 * work-items write the same element, and the order of each sum is fixed. The loader refuses indices out of
 * range; one that remains gives NaN.
 *
 * -DDT=type of x and y (backward: of dy)  -DGT=type of dx  -DIT=type of the indices */
#include "common.clh"
#include "lanes.clh"
#include "types.clh"

#pragma option IT i32

/* Number of the row of x that row `place` of y copies; `t` if the index is out of range. */
static inline uint gather_row(__global const STORAGE(IT) * index, ulong place, uint t)
{
    long v = (long)index[place];
    return v < 0 || v >= (long)t ? t : (uint)v;
}

/* x (N,t,c), index (N,p) -> y (N,p,c), `rows` = N*p; one item per element. */
__kernel void gather_fwd_flat(__global STORAGE(DT) * y, ulong y0, __global const STORAGE(DT) * x, ulong x0,
                              __global const STORAGE(IT) * index, ulong index0, ulong rows, uint t, uint p,
                              uint c)
{
    ulong i = get_global_id(0), place = i / c, n = place / p;
    if (place >= rows)
        return;
    uint row = gather_row(index + index0, place, t);
    float v = row < t ? LOAD(DT, x + x0, (n * t + row) * c + (i - place * c)) : NAN;
    STORE(DT, y + y0, i, v);
}

/* One item per row of y. */
__kernel void gather_fwd_row(__global STORAGE(DT) * y, ulong y0, __global const STORAGE(DT) * x, ulong x0,
                             __global const STORAGE(IT) * index, ulong index0, ulong rows, uint t, uint p,
                             uint c)
{
    ulong place = get_global_id(0);
    if (place >= rows)
        return;
    uint row = gather_row(index + index0, place, t), d = 0;
    x += x0 + (place / p * t + min(row, t - 1)) * c;
    y += y0 + place * c;
    for (; row < t && d + LANES <= c; d += LANES)
        STORE16(DT, y, d, LOAD16(DT, x, d));
    for (; d < c; d++)
        STORE(DT, y, d, row < t ? LOAD(DT, x, d) : NAN);
}

/* dx (N,t,c) (+)= rows of dy (N,p,c) by index (N,p), `rows` = N*t; one item per element. */
__kernel void gather_bwd_flat(__global STORAGE(GT) * dx, ulong dx0, int accumulate,
                              __global const STORAGE(DT) * dy, ulong dy0, __global const STORAGE(IT) * index,
                              ulong index0, ulong rows, uint t, uint p, uint c)
{
    ulong i = get_global_id(0), row = i / c, n = row / t;
    if (row >= rows)
        return;
    float sum = 0.0f;
    index += index0;
    for (uint k = 0; k < p; k++)
        if (gather_row(index, n * p + k, t) == (uint)(row - n * t))
            sum += LOAD(DT, dy + dy0, (n * p + k) * c + (i - row * c));
    STORE_GRAD(GT, dx + dx0, i, sum, accumulate);
}

/* One item per row of x. */
__kernel void gather_bwd_row(__global STORAGE(GT) * dx, ulong dx0, int accumulate,
                             __global const STORAGE(DT) * dy, ulong dy0, __global const STORAGE(IT) * index,
                             ulong index0, ulong rows, uint t, uint p, uint c)
{
    ulong row = get_global_id(0), n = row / t;
    if (row >= rows)
        return;
    uint at = (uint)(row - n * t), first = 0, d = 0;
    index += index0 + n * p;
    dy += dy0 + n * p * c;
    dx += dx0 + row * c;
    while (first < p && gather_row(index, first, t) != at)
        first++;
    if (first == p && accumulate)
        return;
    for (; d + LANES <= c; d += LANES) {
        float16 sum = 0.0f;
        for (uint k = first; k < p; k++)
            if (gather_row(index, k, t) == at)
                sum += LOAD16(DT, dy, (ulong)k * c + d);
        STORE16_GRAD(GT, dx, d, sum, accumulate);
    }
    for (; d < c; d++) {
        float sum = 0.0f;
        for (uint k = first; k < p; k++)
            if (gather_row(index, k, t) == at)
                sum += LOAD(DT, dy, (ulong)k * c + d);
        STORE_GRAD(GT, dx, d, sum, accumulate);
    }
}
