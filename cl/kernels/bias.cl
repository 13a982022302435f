/* SPDX-License-Identifier: Apache-2.0
 *
 * Bias over the last dimension: y = x + b, and its gradient, a deterministic column sum in two stages (slabs
 * of rows, then the slabs in order). Used by the ops bias and linear; knows rows and columns only.
 *
 * -DDT=type of x and y  -DWT=type of b  -DGT=type of db  -DPT=type the second stage reads  -DWIDE=1: 64-bit
 * element indices */
#include "common.clh"
#include "lanes.clh"

#ifndef DT
#define DT f32
#endif
#ifndef WT
#define WT f32
#endif
#ifndef GT
#define GT f32
#endif
#ifndef PT
#define PT f32
#endif
#ifndef WIDE
#define WIDE 0
#endif
#if WIDE
#define INDEX ulong
#else
#define INDEX uint
#endif

/* x (rows,cols), b (cols) -> y (rows,cols); one item per element. y may alias x. */
__kernel void bias_fwd_flat(__global STORAGE(DT) * y, ulong y0, __global const STORAGE(DT) * x, ulong x0,
                            __global const STORAGE(WT) * b, ulong b0, ulong rows, uint cols)
{
    INDEX i = (INDEX)get_global_id(0);
    if (i >= (INDEX)rows * cols)
        return;
    STORE(DT, y + y0, i, LOAD(DT, x + x0, i) + LOAD(WT, b + b0, i % cols));
}

/* One item per row, sixteen columns at a time. */
__kernel void bias_fwd_row(__global STORAGE(DT) * y, ulong y0, __global const STORAGE(DT) * x, ulong x0,
                           __global const STORAGE(WT) * b, ulong b0, ulong rows, uint cols)
{
    ulong r = get_global_id(0);
    if (r >= rows)
        return;
    y += y0 + r * cols;
    x += x0 + r * cols;
    b += b0;
    uint c = 0;
    for (; c + LANES <= cols; c += LANES)
        STORE16(DT, y, c, LOAD16(DT, x, c) + LOAD16(WT, b, c));
    for (; c < cols; c++)
        STORE(DT, y, c, LOAD(DT, x, c) + LOAD(WT, b, c));
}

/* Stage one: part (slabs,cols) f32 = sums of dy (rows,cols) over slabs of `slab_rows` rows; items (column,
 * slab). */
__kernel void bias_bwd_w_part_flat(__global float *part, ulong part0, __global const STORAGE(DT) * dy,
                                   ulong dy0, ulong rows, uint cols, ulong slab_rows)
{
    uint c = (uint)get_global_id(0);
    ulong slab = get_global_id(1);
    if (c >= cols)
        return;
    ulong r = slab * slab_rows, end = min(r + slab_rows, rows);
    dy += dy0 + c;
    float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
    for (; r + 4 <= end; r += 4) {
        s0 += LOAD(DT, dy, r * cols);
        s1 += LOAD(DT, dy, (r + 1) * cols);
        s2 += LOAD(DT, dy, (r + 2) * cols);
        s3 += LOAD(DT, dy, (r + 3) * cols);
    }
    for (; r < end; r++)
        s0 += LOAD(DT, dy, r * cols);
    part[part0 + slab * cols + c] = (s0 + s1) + (s2 + s3);
}

/* The same for items (block of 16 columns, slab). */
__kernel void bias_bwd_w_part_row(__global float *part, ulong part0, __global const STORAGE(DT) * dy,
                                  ulong dy0, ulong rows, uint cols, ulong slab_rows)
{
    uint c = (uint)get_global_id(0) * LANES;
    ulong slab = get_global_id(1);
    if (c >= cols)
        return;
    ulong first = slab * slab_rows, end = min(first + slab_rows, rows);
    dy += dy0 + c;
    part += part0 + slab * cols + c;
    if (c + LANES <= cols) {
        float16 s0 = 0.0f, s1 = 0.0f;
        ulong r = first;
        for (; r + 2 <= end; r += 2) {
            s0 += LOAD16(DT, dy, r * cols);
            s1 += LOAD16(DT, dy, (r + 1) * cols);
        }
        for (; r < end; r++)
            s0 += LOAD16(DT, dy, r * cols);
        vstore16(s0 + s1, 0, part);
        return;
    }
    for (uint j = 0; j < cols - c; j++) {
        float s = 0.0f;
        for (ulong r = first; r < end; r++)
            s += LOAD(DT, dy, r * cols + j);
        part[j] = s;
    }
}

/* Stage two: db (cols) (+)= sum over rows of part (rows,cols) of type PT, one item per column. */
__kernel void bias_bwd_w(__global STORAGE(GT) * db, ulong db0, int accumulate,
                         __global const STORAGE(PT) * part, ulong part0, uint rows, uint cols)
{
    uint c = (uint)get_global_id(0);
    if (c >= cols)
        return;
    part += part0 + c;
    float s = 0.0f;
    for (uint r = 0; r < rows; r++)
        s += LOAD(PT, part, (ulong)r * cols);
    STORE_GRAD(GT, db + db0, c, s, accumulate);
}
