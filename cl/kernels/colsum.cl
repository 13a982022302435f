/* SPDX-License-Identifier: Apache-2.0
 *
 * Deterministic sums of products down the columns of a matrix, for parameter gradients and for inputs that
 * were broadcast: first one partial sum per block of rows, then the blocks in order. A single block is
 * written straight to the result. Plain column sums are in bias.cl. Knows rows and columns only.
 *
 * -DNORM=0: p = sum dy * x  -DNORM=1: p = sum dy * (x - mean) * rstd, q = sum dy  -DHAVE_P, -DHAVE_Q: which
 * are wanted -DDT=type of x  -DDYT=type of dy  -DGT=type written (f32 for partial sums)  -DLS=items of a
 * group  -DTC=columns of an item */
#include "common.clh"

#ifndef NORM
#define NORM 1
#endif
#ifndef HAVE_P
#define HAVE_P 1
#endif
#ifndef HAVE_Q
#define HAVE_Q 1
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
#ifndef LS
#define LS 1
#endif
#ifndef TC
#define TC 64
#endif

/* Runs `statement` for the item's columns j*LS; the full tile has a constant trip count, so that its sums
 * stay in registers. */
#define FOR_TILE(width, statement)                                                                           \
    if ((width) == TC) {                                                                                     \
        for (uint j = 0; j < TC; j++) {                                                                      \
            statement;                                                                                       \
        }                                                                                                    \
    } else {                                                                                                 \
        for (uint j = 0; j < (width); j++) {                                                                 \
            statement;                                                                                       \
        }                                                                                                    \
    }

/* Columns of this item: first one, and how many (0 beyond the end). */
static inline uint tile_begin(void)
{
    return (uint)get_group_id(0) * (LS * TC) + (uint)get_local_id(0);
}
static inline uint tile_width(uint begin, uint cols)
{
    return begin >= cols ? 0u : min((cols - begin + LS - 1) / LS, (uint)TC);
}

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
#if HAVE_P && NORM
#define STATS_ARG                                                                                            \
    , __global const float *restrict mean, ulong mean0, __global const float *restrict rstd, ulong rstd0
#else
#define STATS_ARG
#endif

/* dy (rows,cols), x (rows,cols), mean (rows), rstd (rows) -> p (blocks,cols), q (blocks,cols). */
__kernel __attribute__((reqd_work_group_size(LS, 1, 1))) void colsum_bwd_w_part(
    P_ARG Q_ARG __global const STORAGE(DYT) *restrict dy, ulong dy0 X_ARG STATS_ARG, ulong rows, uint cols,
    ulong block_rows)
{
    uint begin = tile_begin(), width = tile_width(begin, cols);
    ulong block = get_group_id(1), row = block * block_rows, end = min(rows, row + block_rows);
    dy += dy0 + row * cols + begin;
#if HAVE_P
    float sum_p[TC];
    FOR_TILE(TC, sum_p[j] = 0.0f)
    x += x0 + row * cols + begin;
#endif
#if HAVE_Q
    float sum_q[TC];
    FOR_TILE(TC, sum_q[j] = 0.0f)
#endif
    for (; row < end; row++, dy += cols) {
#if HAVE_P && NORM
        float centre = mean[mean0 + row], scale = rstd[rstd0 + row];
        FOR_TILE(width, sum_p[j] += LOAD(DYT, dy, j * LS) * ((LOAD(DT, x, j * LS) - centre) * scale))
#elif HAVE_P
        FOR_TILE(width, sum_p[j] += LOAD(DYT, dy, j * LS) * LOAD(DT, x, j * LS))
#endif
#if HAVE_P
        x += cols;
#endif
#if HAVE_Q
        FOR_TILE(width, sum_q[j] += LOAD(DYT, dy, j * LS))
#endif
    }
#if HAVE_P
    p += p0 + block * cols + begin;
    for (uint j = 0; j < width; j++)
        STORE_GRAD(GT, p, j * LS, sum_p[j], p_accumulate);
#endif
#if HAVE_Q
    q += q0 + block * cols + begin;
    for (uint j = 0; j < width; j++)
        STORE_GRAD(GT, q, j * LS, sum_q[j], q_accumulate);
#endif
}

/* part (blocks,cols) -> out (cols), blocks in order. */
__kernel __attribute__((reqd_work_group_size(LS, 1, 1))) void colsum_bwd_w(
    __global STORAGE(GT) *restrict out, ulong out0, int accumulate, __global const float *restrict part,
    ulong part0, uint blocks, uint cols)
{
    uint begin = tile_begin(), width = tile_width(begin, cols);
    float sum[TC];
    FOR_TILE(TC, sum[j] = 0.0f)
    part += part0 + begin;
    for (uint b = 0; b < blocks; b++, part += cols)
        FOR_TILE(width, sum[j] += part[j * LS])
    out += out0 + begin;
    for (uint j = 0; j < width; j++)
        STORE_GRAD(GT, out, j * LS, sum[j], accumulate);
}
