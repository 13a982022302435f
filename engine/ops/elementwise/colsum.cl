/* SPDX-License-Identifier: Apache-2.0
 *
 * Deterministic sums down the columns of a matrix, for gradients of parameters and of broadcast inputs. Each
 * column is summed separately: the rows of a block in order, then the blocks in order (a second launch of
 * the same kernel), so that a result depends neither on the width of a tile nor on the device. A single
 * block is written straight to the result. Knows rows and columns only.
 *
 * An item of the lane form owns many columns, whose running sums stay in the first-level cache while it
 * reads ROWS rows side by side: one row if rows follow each other in memory, which is one long stream;
 * several if its columns are a part of each row. An item of the flat form owns four neighbouring columns, or
 * one, and loads the elements of many rows before it adds the first, because no other item hides the latency
 * of memory.
 *
 * -DHAVE_P=terms of p, PRODUCT_* of reduce_shared.clh; q = sum dy
 * -DHAVE_Q=0|1  -DDT=type of x  -DDYT=type of dy  -DGT=type written (f32 for partial sums)
 * -DLS=items of a group, 1 in the lane form  -DROWS=rows side by side in the lane form
 * -DVECTORS=1: an item of the flat form owns four columns; tensors begin at multiples of 16 bytes, and cols
 * is a multiple of four */
#include "common.clh"
#include "lanes.clh"
#include "quads.clh"
#include "reduce_shared.clh"
#include "types.clh"

#pragma option HAVE_P PRODUCT_DY_NORMALISED
#pragma option HAVE_Q 1
#pragma option LS 1

#pragma option ROWS 1

#pragma option VECTORS 0

#if HAVE_P
#define P_ARG __global STORAGE(GT) * p, ulong p0, int p_accumulate,
#define X_ARG , __global const STORAGE(DT) *restrict x, ulong x0
#else
#define P_ARG
#define X_ARG
#endif
#if HAVE_Q
#define Q_ARG __global STORAGE(GT) * q, ulong q0, int q_accumulate,
#else
#define Q_ARG
#endif
#if HAVE_P == PRODUCT_DY_NORMALISED
#define STATS_ARG                                                                                            \
    , __global const float *restrict mean, ulong mean0, __global const float *restrict rstd, ulong rstd0
#define STATS_OF_ROWS(n) float centres[n], scales[n];
#define LOAD_STATS(k, row) (centres[k] = mean[mean0 + (row)], scales[k] = rstd[rstd0 + (row)]);
#define TAKE_STATS(k) float centre = centres[k], scale = scales[k];
#define PRODUCT_OF(dy, x) ((dy) * (((x)-centre) * scale))
#elif HAVE_P == PRODUCT_DY_SCALED
#define STATS_ARG , __global const float *restrict rstd, ulong rstd0
#define STATS_OF_ROWS(n) float scales[n];
#define LOAD_STATS(k, row) scales[k] = rstd[rstd0 + (row)];
#define TAKE_STATS(k) float scale = scales[k];
#define PRODUCT_OF(dy, x) ((dy) * ((x)*scale))
#elif HAVE_P == PRODUCT_DY_X
#define PRODUCT_OF(dy, x) ((dy) * (x))
#else
#define PRODUCT_OF(dy, x) (x)
#endif
#if HAVE_P != PRODUCT_DY_NORMALISED && HAVE_P != PRODUCT_DY_SCALED
#define STATS_ARG
#define STATS_OF_ROWS(n)
#define LOAD_STATS(k, row)
#define TAKE_STATS(k)
#endif
#define STATS_OF(row) STATS_OF_ROWS(1) LOAD_STATS(0, row) TAKE_STATS(0)
#define TERM_P(load, i) PRODUCT_OF(load(DYT, dy, i), load(DT, x, i))
#define TERM_Q(load, i) load(DYT, dy, i)

/* IF_P(s), IF_Q(s): the statement s if that sum is wanted, else nothing. */
#if HAVE_P
#define IF_P(s) s
#else
#define IF_P(s)
#endif
#if HAVE_Q
#define IF_Q(s) s
#else
#define IF_Q(s)
#endif

#if LS == 1
/* sums[c] += the terms of `count` rows from `row` on, sixteen columns at a time. A constant count lets the
 * compiler unroll the loop. */
#define ADD_ROWS(count)                                                                                      \
    for (uint c = 0; c + LANES <= width; c += LANES) {                                                       \
        IF_P(float16 sp = vload16(0, sum_p + c);)                                                            \
        IF_Q(float16 sq = vload16(0, sum_q + c);)                                                            \
        for (uint r = 0; r < (count); r++) {                                                                 \
            STATS_OF(row + r)                                                                                \
            IF_P(sp += TERM_P(LOAD16, r * cols + c);)                                                        \
            IF_Q(sq += TERM_Q(LOAD16, r * cols + c);)                                                        \
        }                                                                                                    \
        IF_P(vstore16(sp, 0, sum_p + c);)                                                                    \
        IF_Q(vstore16(sq, 0, sum_q + c);)                                                                    \
    }                                                                                                        \
    for (uint r = 0; r < (count); r++) {                                                                     \
        STATS_OF(row + r)                                                                                    \
        for (uint c = width / LANES * LANES; c < width; c++) {                                               \
            IF_P(sum_p[c] += TERM_P(LOAD, r * cols + c);)                                                    \
            IF_Q(sum_q[c] += TERM_Q(LOAD, r * cols + c);)                                                    \
        }                                                                                                    \
    }
#else
/* MOST: rows whose loads are in flight at the same time; FEW: rows that are loaded together after the last
 * full MOST. */
#define FEW (MOST / 4)
#if VECTORS
#define MOST (HAVE_P ? 8 : 16)
#define REAL float4
#define LOADC(dt, p, i) LOAD4(dt, p, i)
#define STOREC(p, c, v, accumulate) STORE4_GRAD(GT, p, c, v, accumulate)
#define KEEP(v, k, count) clt_keep4(v, k, count)
#else
#define MOST (HAVE_P ? 16 : 32)
#define REAL float
#define LOADC(dt, p, i) LOAD(dt, p, i)
#define STOREC(p, c, v, accumulate) STORE_GRAD(GT, p, c, v, accumulate)
#define KEEP(v, k, count) clt_keep(v, k, count)
#endif

/* sum_p, sum_q += the terms of `count` rows from row r of the block on, in their order. Loads of rows
 * `count` to `most` repeat the last row, so that they are in flight together as well. */
#define ADD_DOWN(most, count)                                                                                \
    {                                                                                                        \
        REAL of_dy[most];                                                                                    \
        IF_P(REAL of_x[most];)                                                                               \
        STATS_OF_ROWS(most)                                                                                  \
        _Pragma("unroll") for (uint k = 0; k < (most); k++)                                                  \
        {                                                                                                    \
            ulong at = r + min(k, (uint)(count)-1);                                                          \
            LOAD_STATS(k, row + at)                                                                          \
            of_dy[k] = LOADC(DYT, dy, at * cols + c);                                                        \
            IF_P(of_x[k] = LOADC(DT, x, at * cols + c);)                                                     \
        }                                                                                                    \
        _Pragma("unroll") for (uint k = 0; k < (most); k++)                                                  \
        {                                                                                                    \
            TAKE_STATS(k)                                                                                    \
            IF_P(sum_p += KEEP(PRODUCT_OF(of_dy[k], of_x[k]), k, count);)                                    \
            IF_Q(sum_q += KEEP(of_dy[k], k, count);)                                                         \
        }                                                                                                    \
    }
#endif

/* dy, x (rows,cols), mean, rstd (rows) -> p, q (blocks,cols); groups (tiles, blocks). */
__kernel __attribute__((reqd_work_group_size(LS, 1, 1))) void colsum_bwd_w(
    P_ARG Q_ARG __global const STORAGE(DYT) *restrict dy, ulong dy0 X_ARG STATS_ARG, ulong rows, ulong cols,
    ulong block_rows, uint tile)
{
    ulong begin = (ulong)get_group_id(0) * tile, block = get_group_id(1);
    ulong row = block * block_rows, end = min(rows, row + block_rows);
    dy += dy0 + row * cols + begin;
    IF_P(x += x0 + row * cols + begin;)
    IF_P(p += p0 + block * cols + begin;)
    IF_Q(q += q0 + block * cols + begin;)
#if LS == 1
    uint width = (uint)min((ulong)tile, cols - begin);
    IF_P(float sum_p[MAX_TILE];)
    IF_Q(float sum_q[MAX_TILE];)
    for (uint c = 0; c < width; c++) {
        IF_P(sum_p[c] = 0.0f;)
        IF_Q(sum_q[c] = 0.0f;)
    }
    for (; row + ROWS <= end; row += ROWS) {
        ADD_ROWS(ROWS)
        dy += ROWS * cols;
        IF_P(x += ROWS * cols;)
    }
    uint left = (uint)(end - row);
    ADD_ROWS(left)
    for (uint c = 0; c < width; c++) {
        IF_P(STORE_GRAD(GT, p, c, sum_p[c], p_accumulate);)
        IF_Q(STORE_GRAD(GT, q, c, sum_q[c], q_accumulate);)
    }
#else
#if VECTORS
    uint c = 4 * (uint)get_local_id(0);
#else
    uint c = (uint)get_local_id(0);
#endif
    if (c >= cols - begin)
        return;
    IF_P(REAL sum_p = 0.0f;)
    IF_Q(REAL sum_q = 0.0f;)
    uint r = 0, height = (uint)(end - row);
    for (; r + MOST <= height; r += MOST)
        ADD_DOWN(MOST, MOST)
    for (; r < height; r += FEW)
        ADD_DOWN(FEW, min(height - r, (uint)FEW))
    IF_P(STOREC(p, c, sum_p, p_accumulate);)
    IF_Q(STOREC(q, c, sum_q, q_accumulate);)
#endif
}
