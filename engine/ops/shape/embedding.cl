/* SPDX-License-Identifier: Apache-2.0
 *
 * Table lookup y = w[index] and its gradient without float atomics: positions are sorted by index (stably),
 * then each table row is the sum over its positions in ascending order; long sums are added in chains
 * (long_sum.clh). So the result is the same in every run. The loader refuses indices out of range. Any that
 * remains is clamped, so that nothing is read out of bounds, and gives NaN, so that the error is noticed.
 *
 * -DDT=type of y  -DWT=type of w  -DGT=type of dw  -DIT=type of the indices  -DWIDE=1: 64-bit element indices
 * -DNT, -DAHEAD: see lanes.clh */
#include "common.clh"
#include "lanes.clh"
#include "long_sum.clh"
#include "groups.clh"
#include "types.clh"

#pragma option IT i32
#pragma option WIDE 0
#if WIDE
#define INDEX ulong
#else
#define INDEX uint
#endif

/* The index at position p, clamped to [0, vocab). */
static inline uint embedding_index(__global const STORAGE(IT) * index, ulong p, uint vocab)
{
    long v = (long)index[p];
    return (uint)clamp(v, 0L, (long)vocab - 1);
}

/* Whether the index at position p is in range. It is compared with the clamped index, not with 0, because
 * the compiler of Mesa 22 assumes that an int widened to long is never negative. */
static inline bool embedding_in_range(__global const STORAGE(IT) * index, ulong p, uint vocab)
{
    return (long)embedding_index(index, p, vocab) == (long)index[p];
}

/* index (positions), w (vocab,dim) -> y (positions,dim); one item per element. */
__kernel void embedding_fwd_flat(__global STORAGE(DT) * y, ulong y0, __global const STORAGE(IT) * index,
                                 ulong index0, __global const STORAGE(WT) * w, ulong w0, ulong positions,
                                 uint vocab, uint dim)
{
    INDEX i = (INDEX)get_global_id(0);
    if (i >= (INDEX)positions * dim)
        return;
    INDEX p = i / dim;
    uint d = (uint)(i - p * dim);
    ulong row = embedding_index(index + index0, p, vocab);
    float v = LOAD(WT, w + w0, row * dim + d);
    STORE(DT, y + y0, i, embedding_in_range(index + index0, p, vocab) ? v : NAN);
}

/* One item per position. */
__kernel void embedding_fwd_row(__global STORAGE(DT) * y, ulong y0, __global const STORAGE(IT) * index,
                                ulong index0, __global const STORAGE(WT) * w, ulong w0, ulong positions,
                                uint vocab, uint dim)
{
    ulong p = get_global_id(0);
    if (p >= positions)
        return;
#if AHEAD
    __global const STORAGE(WT) *next =
        w + w0 + (ulong)embedding_index(index + index0, min(p + ROWS_AHEAD, positions - 1), vocab) * dim;
#endif
    w += w0 + (ulong)embedding_index(index + index0, p, vocab) * dim;
    y += y0 + p * dim;
    uint d = 0;
    if (!embedding_in_range(index + index0, p, vocab)) {
        for (; d < dim; d++)
            STORE(DT, y, d, NAN);
        return;
    }
    for (; d + LANES <= dim; d += LANES) {
        ASK_FOR(next + d);
        STREAM16(DT, y, d, LOAD16(WT, w, d));
    }
    for (; d < dim; d++)
        STORE(DT, y, d, LOAD(WT, w, d));
}

/* Clamps a position that an earlier kernel of the sort wrote: if that kernel failed, the memory may hold any
 * number, and no number may cause accesses out of bounds. */
#define POSITION(p) min(p, positions - 1)

/* Counting sort by one work-item: start (vocab+1) = first slot of each row; order (positions) = positions
 * sorted by index, ascending within a row. */
__kernel void embedding_bwd_w_sort_row(__global uint *start, ulong start0, __global uint *order, ulong order0,
                                       __global const STORAGE(IT) * index, ulong index0, uint positions,
                                       uint vocab)
{
    if (get_global_id(0) != 0)
        return;
    start += start0;
    order += order0;
    index += index0;
    for (uint v = 0; v <= vocab; v++)
        start[v] = 0;
    for (uint p = 0; p < positions; p++)
        start[embedding_index(index, p, vocab)]++;
    uint sum = 0;
    for (uint v = 0; v <= vocab; v++) {
        uint count = start[v];
        start[v] = sum;
        sum += count;
    }
    for (uint p = 0; p < positions; p++)
        order[start[embedding_index(index, p, vocab)]++] = p;
    /* each start[v] now is the end of row v, which is the start of row v + 1: shift by one row */
    for (uint v = vocab; v > 0; v--)
        start[v] = start[v - 1];
    start[0] = 0;
}

/* The parallel counting sort has four kernels. count (vocab) arrives zeroed. Counts by integer atomics are
 * exact, but the order in which slots are assigned varies between runs; the last kernel restores a fixed
 * order by ranking the positions of each row. */
__kernel void embedding_bwd_w_count_group(__global uint *count, ulong count0,
                                          __global const STORAGE(IT) * index, ulong index0, uint positions,
                                          uint vocab)
{
    uint p = (uint)get_global_id(0);
    if (p < positions)
        atomic_inc(count + count0 + embedding_index(index + index0, p, vocab));
}

/* start (vocab+1) = exclusive prefix sums of count (vocab); cursor (vocab) = a copy, from which slots are
 * assigned. One work-group. */
__kernel void embedding_bwd_w_scan_group(__global uint *start, ulong start0, __global uint *cursor,
                                         ulong cursor0, __global const uint *count, ulong count0, uint vocab)
{
    __local uint sums[WG];
    uint lane = (uint)get_local_id(0);
    uint chunk = (vocab + WG - 1) / WG;
    uint first = min(lane * chunk, vocab), end = min(first + chunk, vocab);
    start += start0;
    cursor += cursor0;
    count += count0;
    uint sum = 0;
    for (uint v = first; v < end; v++)
        sum += count[v];
    sums[lane] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    uint base = 0;
    for (uint i = 0; i < lane; i++)
        base += sums[i];
    for (uint v = first; v < end; v++) {
        start[v] = base;
        cursor[v] = base;
        base += count[v];
    }
    if (lane == WG - 1)
        start[vocab] = base;
}

__kernel void embedding_bwd_w_scatter_group(__global uint *slots, ulong slots0, __global uint *cursor,
                                            ulong cursor0, __global const STORAGE(IT) * index, ulong index0,
                                            uint positions, uint vocab)
{
    uint p = (uint)get_global_id(0);
    if (p >= positions)
        return;
    uint slot = atomic_inc(cursor + cursor0 + embedding_index(index + index0, p, vocab));
    if (slot < positions)
        slots[slots0 + slot] = p;
}

/* order[first + rank] = position; rank: how many positions of the same row are smaller. */
__kernel void embedding_bwd_w_rank_group(__global uint *order, ulong order0, __global const uint *slots,
                                         ulong slots0, __global const uint *start, ulong start0,
                                         __global const STORAGE(IT) * index, ulong index0, uint positions,
                                         uint vocab)
{
    uint i = (uint)get_global_id(0);
    if (i >= positions)
        return;
    slots += slots0;
    uint p = POSITION(slots[i]);
    uint v = embedding_index(index + index0, p, vocab);
    uint first = start[start0 + v], end = min(start[start0 + v + 1], positions), rank = 0;
    for (uint j = first; j < end; j++)
        rank += slots[j] < p ? 1u : 0u;
    order[order0 + POSITION(first + rank)] = p;
}

/* dw (vocab,dim) (+)= sums of dy (positions,dim); one item per element of dw. Rows without a position become
 * zero unless gradients are accumulated. */
__kernel void embedding_bwd_w_group(__global STORAGE(GT) * dw, ulong dw0, int accumulate,
                                    __global const STORAGE(DT) * dy, ulong dy0, __global const uint *start,
                                    ulong start0, __global const uint *order, ulong order0, uint positions,
                                    uint vocab, uint dim, uint padding)
{
    INDEX i = (INDEX)get_global_id(0);
    if (i >= (INDEX)vocab * dim)
        return;
    INDEX v = i / dim;
    uint d = (uint)(i - v * dim);
    uint all = min(start[start0 + v + 1], positions), j = v == padding ? all : min(start[start0 + v], all);
    if (accumulate && j == all)
        return;
    dy += dy0 + d;
    order += order0;
    float sum = 0.0f, rest = 0.0f;
    while (j < all) {
        uint end = j + min(all - j, (uint)(4 * SUM_STEPS));
        float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
        for (; j + 4 <= end; j += 4) {
            s0 += LOAD(DT, dy, (ulong)POSITION(order[j]) * dim);
            s1 += LOAD(DT, dy, (ulong)POSITION(order[j + 1]) * dim);
            s2 += LOAD(DT, dy, (ulong)POSITION(order[j + 2]) * dim);
            s3 += LOAD(DT, dy, (ulong)POSITION(order[j + 3]) * dim);
        }
        for (; j < end; j++)
            s0 += LOAD(DT, dy, (ulong)POSITION(order[j]) * dim);
        LONG_SUM_ADD(float, sum, rest, (s0 + s1) + (s2 + s3));
    }
    STORE_GRAD(GT, dw + dw0, i, sum, accumulate);
}

/* One item per table row, sixteen columns at a time. */
__kernel void embedding_bwd_w_row(__global STORAGE(GT) * dw, ulong dw0, int accumulate,
                                  __global const STORAGE(DT) * dy, ulong dy0, __global const uint *start,
                                  ulong start0, __global const uint *order, ulong order0, uint positions,
                                  uint vocab, uint dim, uint padding)
{
    uint v = (uint)get_global_id(0);
    if (v >= vocab)
        return;
    uint all = min(start[start0 + v + 1], positions);
    uint first = v == padding ? all : min(start[start0 + v], all);
    if (accumulate && first == all)
        return;
    dw += dw0 + (ulong)v * dim;
    dy += dy0;
    order += order0;
    uint d = 0;
#if AHEAD
    uint last = min(start[start0 + vocab], positions) - 1; /* not used if there are no positions */
#endif
    for (; d + LANES <= dim; d += LANES) {
        float16 sum = 0.0f, rest = 0.0f;
        for (uint j = first; j < all;) {
            uint end = j + min(all - j, (uint)(2 * SUM_STEPS));
            float16 s0 = 0.0f, s1 = 0.0f;
            for (; j + 2 <= end; j += 2) {
                ASK_FOR(dy + (ulong)POSITION(order[min(j + ROWS_AHEAD, last)]) * dim + d);
                ASK_FOR(dy + (ulong)POSITION(order[min(j + 1 + ROWS_AHEAD, last)]) * dim + d);
                s0 += LOAD16(DT, dy, (ulong)POSITION(order[j]) * dim + d);
                s1 += LOAD16(DT, dy, (ulong)POSITION(order[j + 1]) * dim + d);
            }
            if (j < end) {
                ASK_FOR(dy + (ulong)POSITION(order[min(j + ROWS_AHEAD, last)]) * dim + d);
                s0 += LOAD16(DT, dy, (ulong)POSITION(order[j]) * dim + d);
                j++;
            }
            LONG_SUM_ADD(float16, sum, rest, s0 + s1);
        }
        STREAM16_GRAD(GT, dw, d, sum, accumulate);
    }
    for (; d < dim; d++) {
        float sum = 0.0f, rest = 0.0f;
        for (uint j = first; j < all;) {
            uint end = j + min(all - j, (uint)SUM_STEPS);
            float s = 0.0f;
            for (; j < end; j++)
                s += LOAD(DT, dy, (ulong)POSITION(order[j]) * dim + d);
            LONG_SUM_ADD(float, sum, rest, s);
        }
        STORE_GRAD(GT, dw, d, sum, accumulate);
    }
}
