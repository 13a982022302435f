/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies of a window of one dimension, treated as (outer, run), with a row stride for x and one for y:
 * slices, concatenations and their gradients. Knows element sizes only.
 *
 * -DDT=type of both  -DGRAD=1: `accumulate` adds to the output  -DWIDE=1: 64-bit element indices
 * -DNT: see lanes.clh; windows then begin and end at whole vectors  -DAHEAD: see lanes.clh */
#include "common.clh"
#include "lanes.clh"
#include "shape_shared.clh"
#include "types.clh"

#pragma option GRAD 0
#pragma option WIDE 0
#if WIDE
#define INDEX ulong
#else
#define INDEX uint
#endif

#if GRAD
#define ACCUMULATE_ARG , int accumulate
#define PUT(p, i, q, j)                                                                                      \
    if (accumulate)                                                                                          \
        STORE(DT, p, i, LOAD(DT, p, i) + LOAD(DT, q, j));                                                    \
    else                                                                                                     \
        (p)[i] = (q)[j]
#else
#define ACCUMULATE_ARG
#define PUT(p, i, q, j) (p)[i] = (q)[j]
#endif

#define CHUNK WINDOW_CHUNK

#define VECTOR CLT_CAT(STORAGE(DT), 16)
#if NT
#define PUT16(p, v) __builtin_nontemporal_store((v), (__global VECTOR *)(p))
#else
#define PUT16(p, v) vstore16((v), 0, (p))
#endif

/* y[0..n) = x[0..n); prefetches x `ahead` elements in advance. */
static inline void window_copy(__global STORAGE(DT) * y, __global const STORAGE(DT) * x, ulong n, ulong ahead)
{
    ulong k = 0;
    for (; k + LANES <= n; k += LANES) {
        ASK_FOR(x + k + ahead);
        PUT16(y + k, vload16(0, x + k));
    }
    for (; k < n; k++)
        y[k] = x[k];
}
static inline void window_clear(__global STORAGE(DT) * y, ulong n)
{
    ulong k = 0;
    for (; k + LANES <= n; k += LANES)
        PUT16(y + k, (VECTOR)(0));
    for (; k < n; k++)
        y[k] = 0;
}

/* y[y0 + y1 + o * y_stride + k] = x[x0 + x1 + o * x_stride + k] for k < run, o < outer: y1 and x1 are where
 * the windows begin in each row. One item per element. */
__kernel void window_fwd_flat(__global STORAGE(DT) * y, ulong y0 ACCUMULATE_ARG,
                              __global const STORAGE(DT) * x, ulong x0, ulong outer, ulong run,
                              ulong y_stride, ulong y1, ulong x_stride, ulong x1)
{
    INDEX i = (INDEX)get_global_id(0);
    if (i >= (INDEX)outer * (INDEX)run)
        return;
    INDEX o = i / (INDEX)run, k = i - o * (INDEX)run;
    y += y0 + y1;
    x += x0 + x1;
    PUT(y, o * (INDEX)y_stride + k, x, o * (INDEX)x_stride + k);
}

/* One item per CHUNK of a row of the window. */
__kernel void window_fwd_row(__global STORAGE(DT) * y, ulong y0 ACCUMULATE_ARG,
                             __global const STORAGE(DT) * x, ulong x0, ulong outer, ulong run, ulong y_stride,
                             ulong y1, ulong x_stride, ulong x1)
{
    ulong chunks = (run + CHUNK - 1) / CHUNK;
    ulong o = get_global_id(0) / chunks, first = (get_global_id(0) - o * chunks) * CHUNK;
    if (o >= outer)
        return;
    y += y0 + y1 + o * y_stride;
    x += x0 + x1 + o * x_stride;
    ulong end = min(first + CHUNK, run);
#if GRAD && !NT
    if (accumulate) {
        ulong k = first;
        for (; k + LANES <= end; k += LANES)
            STORE16(DT, y, k, LOAD16(DT, y, k) + LOAD16(DT, x, k));
        for (; k < end; k++)
            STORE(DT, y, k, LOAD(DT, y, k) + LOAD(DT, x, k));
        return;
    }
#endif
    window_copy(y + first, x + first, end - first, o + ROWS_AHEAD < outer ? ROWS_AHEAD * x_stride : 0);
}

/* Gradient of a window, zero outside of it: y[o * y_stride + k] = x[o * run + k - y1] inside, 0 outside. One
 * item per element of y. */
__kernel void window_bwd_flat(__global STORAGE(DT) * y, ulong y0, __global const STORAGE(DT) * x, ulong x0,
                              ulong outer, ulong run, ulong y_stride, ulong y1)
{
    INDEX i = (INDEX)get_global_id(0);
    if (i >= (INDEX)outer * (INDEX)y_stride)
        return;
    INDEX o = i / (INDEX)y_stride, k = i - o * (INDEX)y_stride;
    bool inside = k >= (INDEX)y1 && k < (INDEX)(y1 + run);
    STORAGE(DT) v = 0;
    if (inside)
        v = x[x0 + o * (INDEX)run + (k - (INDEX)y1)];
    y[y0 + i] = v;
}

/* One item per CHUNK of a row of y. */
__kernel void window_bwd_row(__global STORAGE(DT) * y, ulong y0, __global const STORAGE(DT) * x, ulong x0,
                             ulong outer, ulong run, ulong y_stride, ulong y1)
{
    ulong chunks = (y_stride + CHUNK - 1) / CHUNK;
    ulong o = get_global_id(0) / chunks, k = (get_global_id(0) - o * chunks) * CHUNK;
    if (o >= outer)
        return;
    y += y0 + o * y_stride;
    x += x0 + o * run;
    /* zeros up to `start`, the window up to `stop`, zeros up to `end` */
    ulong end = min(k + CHUNK, y_stride), start = clamp(y1, k, end), stop = clamp(y1 + run, start, end);
    window_clear(y + k, start - k);
    window_copy(y + start, x + start - y1, stop - start, 0);
    window_clear(y + stop, end - stop);
}
