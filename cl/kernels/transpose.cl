/* SPDX-License-Identifier: Apache-2.0
 *
 * Permutation of dimensions as a strided gather. The host merges dimensions that stay together, so that what
 * arrives here has at most six, left-padded with ones. Knows element sizes and strides only.
 *
 * -DDT=type of both  -DGRAD=1: the output is added to on request  -DWIDE=1: 64-bit element indices */
#include "common.clh"

#ifndef DT
#define DT f32
#endif
#ifndef GRAD
#define GRAD 0
#endif
#ifndef WIDE
#define WIDE 0
#endif
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
#define DIM_ARGS uint d0, uint d1, uint d2, uint d3, uint d4, uint d5
#define STRIDE_ARGS ulong s0, ulong s1, ulong s2, ulong s3, ulong s4, ulong s5

/* y of dims d0..d5 (row-major) = x at strides s0..s5; one item per element. */
__kernel void transpose_fwd_flat(__global STORAGE(DT) * y, ulong y0 ACCUMULATE_ARG,
                                 __global const STORAGE(DT) * x, ulong x0, ulong total, DIM_ARGS, STRIDE_ARGS)
{
    INDEX i = (INDEX)get_global_id(0);
    if (i >= (INDEX)total)
        return;
    INDEX rest = i, j, next;
    next = rest / d5;
    j = (rest - next * d5) * (INDEX)s5;
    rest = next;
    next = rest / d4;
    j += (rest - next * d4) * (INDEX)s4;
    rest = next;
    next = rest / d3;
    j += (rest - next * d3) * (INDEX)s3;
    rest = next;
    next = rest / d2;
    j += (rest - next * d2) * (INDEX)s2;
    rest = next;
    next = rest / d1;
    j += (rest - next * d1) * (INDEX)s1 + next * (INDEX)s0;
    y += y0;
    x += x0;
    PUT(y, i, x, j);
}

/* One item per row of the last dimension. */
__kernel void transpose_fwd_row(__global STORAGE(DT) * y, ulong y0 ACCUMULATE_ARG,
                                __global const STORAGE(DT) * x, ulong x0, ulong total, DIM_ARGS, STRIDE_ARGS)
{
    ulong r = get_global_id(0);
    if (r * d5 >= total)
        return;
    ulong rest = r, next;
    next = rest / d4;
    ulong j = (rest - next * d4) * s4;
    rest = next;
    next = rest / d3;
    j += (rest - next * d3) * s3;
    rest = next;
    next = rest / d2;
    j += (rest - next * d2) * s2;
    rest = next;
    next = rest / d1;
    j += (rest - next * d1) * s1 + next * s0;
    y += y0 + r * d5;
    x += x0 + j;
    if (s5 == 1) {
        for (uint k = 0; k < d5; k++) {
            PUT(y, k, x, k);
        }
    } else {
        for (uint k = 0; k < d5; k++) {
            PUT(y, k, x, k * s5);
        }
    }
}

/* Swap of the last two of three merged dimensions through local memory, so that reads and writes both run
 * along rows: y (d0,d2,d1) = x (d0,d1,d2); work-groups of TILE x ROWS items move tiles of TILE x TILE. */
#define TILE 16
#define ROWS 4
#if GRAD
#define TILE_TYPE float
#define TILE_GET(p, i) LOAD(DT, p, i)
#define TILE_PUT(p, i, v) STORE_GRAD(DT, p, i, v, accumulate)
#else
#define TILE_TYPE STORAGE(DT)
#define TILE_GET(p, i) (p)[i]
#define TILE_PUT(p, i, v) (p)[i] = (v)
#endif
__kernel void transpose_fwd_tile(__global STORAGE(DT) * y, ulong y0 ACCUMULATE_ARG,
                                 __global const STORAGE(DT) * x, ulong x0, uint d0, uint d1, uint d2)
{
    __local TILE_TYPE tile[TILE * (TILE + 1)];
    uint lane = (uint)get_local_id(0), lx = lane % TILE, ly = lane / TILE;
    uint tiles1 = (d1 + TILE - 1) / TILE, tiles2 = (d2 + TILE - 1) / TILE;
    ulong group = get_group_id(0), rows = group / tiles2, matrix = rows / tiles1;
    uint t2 = (uint)(group - rows * tiles2) * TILE, t1 = (uint)(rows - matrix * tiles1) * TILE;
    ulong base = matrix * d1 * d2;
    x += x0 + base;
    y += y0 + base;
    for (uint k = ly; k < TILE; k += ROWS)
        if (t1 + k < d1 && t2 + lx < d2)
            tile[k * (TILE + 1) + lx] = TILE_GET(x, (ulong)(t1 + k) * d2 + t2 + lx);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint k = ly; k < TILE; k += ROWS)
        if (t2 + k < d2 && t1 + lx < d1)
            TILE_PUT(y, (ulong)(t2 + k) * d1 + t1 + lx, tile[lx * (TILE + 1) + k]);
}
