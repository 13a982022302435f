/* SPDX-License-Identifier: Apache-2.0
 *
 * Permutation of dimensions. The host merges dimensions that stay together, so at most six are left, padded
 * with ones on the left. Forms: flat (one item per element), tile (a group moves a tile through local
 * memory), lane and cells (one item moves a tile, whose cache lines it reads and writes whole). Knows
 * element sizes and strides only.
 *
 * -DDT=type of both  -DGRAD=1: `accumulate` adds to the output  -DWIDE=1: 64-bit element indices
 * -DPREFETCH=1: see below  -DSHUFFLES, -DNT: see lanes.clh */
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
#define ACCUMULATE_PASS , accumulate
#define PUT(p, i, q, j)                                                                                      \
    if (accumulate)                                                                                          \
        STORE(DT, p, i, LOAD(DT, p, i) + LOAD(DT, q, j));                                                    \
    else                                                                                                     \
        (p)[i] = (q)[j]
#else
#define ACCUMULATE_ARG
#define ACCUMULATE_PASS
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

/* --- lane forms ---
 *
 * Two dimensions of the permutation are walked in tiles: P, the innermost dimension of y, and Q, the
 * innermost dimension of x. A cell of `cell` elements (1 in the form lane) is contiguous in both. At most
 * four other dimensions are outer loops. A group is one tile; neighbouring groups follow the rows of x, so
 * that reads are long streams of whole cache lines, and stores write whole lines too. */
#define LANE_ARGS                                                                                            \
    uint p_size, uint q_size, uint tile_p, uint tile_q, uint cell, ulong p_stride_x, ulong q_stride_y,       \
        uint o1, uint o2, uint o3, ulong xs0, ulong xs1, ulong xs2, ulong xs3, ulong ys0, ulong ys1,         \
        ulong ys2, ulong ys3

/* Moves x and y to the first element of this group's tile, of width_p x width_q cells. */
#define LANE_TILE                                                                                            \
    uint tiles_p = (p_size + tile_p - 1) / tile_p, tiles_q = (q_size + tile_q - 1) / tile_q;                 \
    ulong rest = get_group_id(0), next = rest / tiles_q;                                                     \
    uint q0 = (uint)(rest - next * tiles_q) * tile_q;                                                        \
    rest = next;                                                                                             \
    next = rest / tiles_p;                                                                                   \
    uint first_p = (uint)(rest - next * tiles_p) * tile_p;                                                   \
    uint width_q = min(tile_q, q_size - q0), width_p = min(tile_p, p_size - first_p);                        \
    x += x0 + first_p * p_stride_x + (ulong)q0 * cell;                                                       \
    y += y0 + q0 * q_stride_y + (ulong)first_p * cell;                                                       \
    rest = next;                                                                                             \
    next = rest / o3;                                                                                        \
    x += (rest - next * o3) * xs3;                                                                           \
    y += (rest - next * o3) * ys3;                                                                           \
    rest = next;                                                                                             \
    next = rest / o2;                                                                                        \
    x += (rest - next * o2) * xs2;                                                                           \
    y += (rest - next * o2) * ys2;                                                                           \
    rest = next;                                                                                             \
    next = rest / o1;                                                                                        \
    x += (rest - next * o1) * xs1 + next * xs0;                                                              \
    y += (rest - next * o1) * ys1 + next * ys0

/* Gradients are converted to f32, because they may be accumulated; everything else is copied unchanged.
 * SHORT: elements of two bytes. */
#define SHORT_f32 0
#define SHORT_i32 0
#define SHORT_u32 0
#define SHORT_u8 0
#define SHORT_f16 1
#define SHORT_bf16 1
#define SHORT_u16 1
#define SHORT (!GRAD && CLT_CAT(SHORT_, DT))
#if GRAD
#define CELL float
#define GET8(p, i) LANES_LOAD8(DT, p, i)
#define GET(p, i) LOAD(DT, p, i)
#define SET16(p, i, v) STREAM16_GRAD(DT, p, i, v, accumulate)
#define SET(p, i, v) STORE_GRAD(DT, p, i, v, accumulate)
#else
#define CELL STORAGE(DT)
#define GET(p, i) (p)[i]
#if SHORT
#define GET8(p, i) LOAD8_SHORT(__global, (p) + (i))
#else
#define GET8(p, i) vload8(0, (p) + (i))
#endif
/* Stored as floats, because compilers split vectors of smaller elements. */
#if NT && SHORT
#define SET16(p, i, v) __builtin_nontemporal_store(as_float8(v), (__global float8 *)((p) + (i)))
#elif NT
#define SET16(p, i, v) __builtin_nontemporal_store((v), (__global CLT_CAT(CELL, 16) *)((p) + (i)))
#elif SHORT
#define SET16(p, i, v) STORE16_SHORT(__global, (p) + (i), v)
#else
#define SET16(p, i, v) vstore16((v), 0, (p) + (i))
#endif
#define SET(p, i, v) (p)[i] = (v)
#endif
#define CELL8 CLT_CAT(CELL, 8)
#if SHORT
#define TURNED16(p) LOAD16_SHORT(__private, p)
#else
#define TURNED16(p) vload16(0, p)
#endif

#if SHORT && SHUFFLES
/* TURN8 for elements of two bytes. The first steps interleave whole vectors, where TURN8 for four bytes
 * interleaves halves. */
#define WOVEN_LOW1(a, b) a.s0, b.s0, a.s1, b.s1, a.s2, b.s2, a.s3, b.s3
#define WOVEN_HIGH1(a, b) a.s4, b.s4, a.s5, b.s5, a.s6, b.s6, a.s7, b.s7
#define WOVEN_LOW2(a, b) a.s0, a.s1, b.s0, b.s1, a.s2, a.s3, b.s2, b.s3
#define WOVEN_HIGH2(a, b) a.s4, a.s5, b.s4, b.s5, a.s6, a.s7, b.s6, b.s7
static inline void turn8_short(CELL *turned, uint ld, const CELL8 *rows)
{
    CELL8 a[8], b[8];
#pragma unroll
    for (uint i = 0; i < 8; i += 2) {
        a[i] = (CELL8)(WOVEN_LOW1(rows[i], rows[i + 1]));
        a[i + 1] = (CELL8)(WOVEN_HIGH1(rows[i], rows[i + 1]));
    }
#pragma unroll
    for (uint i = 0; i < 4; i++) {
        uint first = i / 2 * 4, odd = i & 1; /* rows 0 to 3 or 4 to 7; b[first + n]: columns 2n, 2n + 1 */
        b[first + 2 * odd] = (CELL8)(WOVEN_LOW2(a[first + odd], a[first + odd + 2]));
        b[first + 2 * odd + 1] = (CELL8)(WOVEN_HIGH2(a[first + odd], a[first + odd + 2]));
    }
#pragma unroll
    for (uint i = 0; i < 4; i++) {
        STORE8_SHORT(__private, turned + 2 * i * ld, (CELL8)(TURN8_LOW4(b[i], b[i + 4])));
        STORE8_SHORT(__private, turned + (2 * i + 1) * ld, (CELL8)(TURN8_HIGH4(b[i], b[i + 4])));
    }
}
#else
#define turn8_short(turned, ld, rows) TURN8(CELL, turned, ld, rows)
#endif

/* turned[q * ld + p] = x[p * stride + q] for p and q in 0..7 */
static inline void turn8(CELL *turned, uint ld, __global const STORAGE(DT) * x, ulong stride)
{
    CELL8 rows[8];
#pragma unroll
    for (uint p = 0; p < 8; p++)
        rows[p] = GET8(x, p * stride);
#if SHORT
    turn8_short(turned, ld, rows);
#else
    TURN8(CELL, turned, ld, rows);
#endif
}

#pragma option PREFETCH 0 /* 1: prefetch the next tile's cache lines, if the compiler has a builtin */
#if PREFETCH && defined(__clang__)
#define FETCH_LINE(p) __builtin_prefetch((const void *)(size_t)(p), 0, 2)
#else
#define FETCH_LINE(p)
#endif
#define LINE (64 / sizeof(STORAGE(DT))) /* elements of x in a cache line */

/* Moves a tile of up to AREA elements, transposed in the first-level cache. Rows of x are far apart, so the
 * hardware prefetcher does not foresee the next tile. */
#define AREA TRANSPOSE_AREA
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void transpose_fwd_lane(
    __global STORAGE(DT) *restrict y, ulong y0 ACCUMULATE_ARG, __global const STORAGE(DT) *restrict x,
    ulong x0, LANE_ARGS)
{
    CELL turned[AREA];
    LANE_TILE;
    uint p = 0;
    for (; p + 8 <= width_p; p += 8) {
        uint q = 0;
        for (uint i = p; i < p + 8; i++)
            for (uint ahead = tile_q; ahead < 2 * tile_q; ahead += LINE)
                FETCH_LINE(x + i * p_stride_x + ahead);
        for (; q + 8 <= width_q; q += 8)
            turn8(turned + q * tile_p + p, tile_p, x + p * p_stride_x + q, p_stride_x);
        for (; q < width_q; q++)
            for (uint i = p; i < p + 8; i++)
                turned[q * tile_p + i] = GET(x, i * p_stride_x + q);
    }
    for (; p < width_p; p++)
        for (uint q = 0; q < width_q; q++)
            turned[q * tile_p + p] = GET(x, p * p_stride_x + q);
    for (uint q = 0; q < width_q; q++, y += q_stride_y) {
        uint i = 0;
        for (; i + LANES <= width_p; i += LANES)
            SET16(y, i, TURNED16(turned + q * tile_p + i));
        for (; i < width_p; i++)
            SET(y, i, turned[q * tile_p + i]);
    }
}

#if GRAD
#define GET16(p, i) LOAD16(DT, p, i)
#elif SHORT
#define GET16(p, i) LOAD16_SHORT(__global, (p) + (i))
#else
#define GET16(p, i) vload16(0, (p) + (i))
#endif
static inline void move_cell(__global STORAGE(DT) *restrict y ACCUMULATE_ARG,
                             __global const STORAGE(DT) *restrict x, uint cell)
{
    uint i = 0;
    for (; i + LANES <= cell; i += LANES)
        SET16(y, i, GET16(x, i));
    for (; i < cell; i++)
        SET(y, i, GET(x, i));
}

/* Moves a tile whose cells have more than one element. The longer dimension is the outer loop, so that x and
 * y are accessed in few parallel streams. */
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void transpose_fwd_cells(
    __global STORAGE(DT) *restrict y, ulong y0 ACCUMULATE_ARG, __global const STORAGE(DT) *restrict x,
    ulong x0, LANE_ARGS)
{
    LANE_TILE;
    if (width_p < width_q) {
        for (uint q = 0; q < width_q; q++)
            for (uint p = 0; p < width_p; p++)
                move_cell(y + q * q_stride_y + (ulong)p * cell ACCUMULATE_PASS,
                          x + p * p_stride_x + (ulong)q * cell, cell);
    } else {
        for (uint p = 0; p < width_p; p++)
            for (uint q = 0; q < width_q; q++)
                move_cell(y + q * q_stride_y + (ulong)p * cell ACCUMULATE_PASS,
                          x + p * p_stride_x + (ulong)q * cell, cell);
    }
}

/* Swaps the last two of three merged dimensions through local memory, so that reads and writes both run
 * along rows: y (d0,d2,d1) = x (d0,d1,d2). A work-group of TILE x ROWS items moves a tile of TILE x TILE
 * elements. */
#define TILE TRANSPOSE_TILE
#define ROWS TRANSPOSE_ROWS
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
