/* SPDX-License-Identifier: Apache-2.0
 *
 * GEMM backend `simple`: any layout, any storage type, any device, epilogue included. One work-item keeps a
 * tile of C in registers and walks k once, in order, with explicit fma, in chains whose sums are added with
 * compensation (long_sum.clh); no local memory. It is the last resort and the reference for the other
 * backends, so correctness comes first, speed second. Host side: cl/gemm/gemm.c.
 *
 * Three of the four layouts have one operand that is contiguous along an edge of C (`wide`: B for NN and TN,
 * A for TT); the other one (`narrow`) is broadcast: acc[r] += narrow(r,k) * wide(k, 0..NV*VW-1). In NT both
 * are contiguous along k: there are VW partial sums per element of C, added up as a balanced tree at a
 * chain's end (gemm_fwd_dot).
 *
 * Tiles are numbered in one dimension, so that no device's limit on the others matters. Tile bases are
 * 64-bit. */
#include "common.clh"
#include "lanes.clh"
#include "long_sum.clh"
#include "gemm_epilogue.clh"
#include "gemm_operands.clh"

#pragma option VW 4   /* vector width: 4, 8 or 16 */
#pragma option NV 1   /* vectors along the wide side of a tile */
#pragma option TILE 4 /* narrow side of a tile of the wide form; both sides of a tile of the dot form */
#pragma option LANE 0 /* 1: a work-group is one work-item */

#define WIDE_TYPE_(type, width) type##width
#define WIDE_TYPE(type, width) WIDE_TYPE_(type, width)
#define FLOATV WIDE_TYPE(float, VW)
#define LOADV_f32(p) WIDE_TYPE(vload, VW)(0, p)
#define LOADV_f16(p) clt_f16_loadv(WIDE_TYPE(vload, VW)(0, p))
#define LOADV_bf16(p) WIDE_TYPE(as_float, VW)(WIDE_TYPE(convert_uint, VW)(WIDE_TYPE(vload, VW)(0, p)) << 16)
#define LOADV(dt, p) CLT_CAT(LOADV_, dt)(p)
static inline FLOATV clt_f16_loadv(WIDE_TYPE(ushort, VW) h) /* as in lanes.clh */
{
    return WIDE_TYPE(vload_half, VW)(0, (const half *)&h);
}

#if LANE
#define GROUP_SHAPE __attribute__((reqd_work_group_size(1, 1, 1)))
#else
#define GROUP_SHAPE
#endif

#if !(TB && !TA)

#if TA && TB /* TT: the tile's rows are columns of C, and vectors run along m */
#define WIDE_DT DTA
#define NARROW_DT DTB
#else
#define WIDE_DT DTB
#define NARROW_DT DTA
#endif
#define WIDE_TILE (NV * VW)
#define EACH_WIDE                                                                                            \
    UNROLL_FOR (uint r = 0; r < TILE; r++)                                                                   \
        UNROLL_FOR (uint v = 0; v < NV; v++)
/* One step along k: multiplies w[] by the current column of the narrow operand, then advances both. */
#define ACCUMULATE()                                                                                         \
    do {                                                                                                     \
        UNROLL_FOR (uint r = 0; r < TILE; r++) {                                                             \
            FLOATV s = (FLOATV)(LOAD(NARROW_DT, narrow, row[r]));                                            \
            UNROLL_FOR (uint v = 0; v < NV; v++)                                                             \
                acc[r][v] = fma(s, w[v], acc[r][v]);                                                         \
        }                                                                                                    \
        wide += wide_ld;                                                                                     \
        narrow += k_step;                                                                                    \
    } while (0)

/* gemm_fwd_simple: layouts NN, TN and TT; one work-item per tile of TILE x NV*VW (TT: NV*VW x TILE). */
GROUP_SHAPE __kernel void gemm_fwd_simple(GEMM_PARAMS)
{
#if TA && TB
    uint wide_size = m, narrow_size = n;
    ulong wide_ld = lda, row_step = ldb, k_step = 1;
#elif TA
    uint wide_size = n, narrow_size = m;
    ulong wide_ld = ldb, row_step = 1, k_step = lda;
#else
    uint wide_size = n, narrow_size = m;
    ulong wide_ld = ldb, row_step = lda, k_step = 1;
#endif
    uint wide_tiles = (wide_size + WIDE_TILE - 1) / WIDE_TILE, narrow_tiles = (narrow_size + TILE - 1) / TILE;
    ulong tile = get_global_id(0), per_item = (ulong)wide_tiles * narrow_tiles;
    if (tile >= per_item * batch)
        return;
    /* x%y is computed as x - x/y*y: for x/y next to x%y the compiler emits `freeze`, which interpreters may
     * not know */
    uint z = (uint)(tile / per_item);
    ulong in_item = tile - z * per_item;
#if LANE /* neighbouring items share the wide panel, which stays in a core's cache */
    uint w = (uint)(in_item / narrow_tiles);
    uint r0 = (uint)(in_item - (ulong)w * narrow_tiles) * TILE, w0 = w * WIDE_TILE;
#else /* neighbouring items read neighbouring vectors (coalesced) */
    uint r = (uint)(in_item / wide_tiles);
    uint r0 = r * TILE, w0 = (uint)(in_item - (ulong)r * wide_tiles) * WIDE_TILE;
#endif
    __global const STORAGE(DTA) *item_a = a + a_at + (ulong)z * stride_a;
    __global const STORAGE(DTB) *item_b = b + b_at + (ulong)z * stride_b;
#if TA && TB
    __global const STORAGE(WIDE_DT) *wide = item_a;
    __global const STORAGE(NARROW_DT) *narrow = item_b;
#else
    __global const STORAGE(WIDE_DT) *wide = item_b;
    __global const STORAGE(NARROW_DT) *narrow = item_a;
#endif
    /* Rows and columns beyond C's edge repeat the last one; FINISH does not store them. */
    ulong row[TILE];
#pragma unroll
    for (uint r = 0; r < TILE; r++)
        row[r] = (ulong)min(r0 + r, narrow_size - 1) * row_step;
    FLOATV acc[TILE][NV], sum[TILE][NV], rest[TILE][NV];
    EACH_WIDE sum[r][v] = rest[r][v] = (FLOATV)(0.0f);
    bool whole = w0 + WIDE_TILE <= wide_size;
    if (whole)
        wide += w0;
    for (uint left = k; left > 0;) {
        uint steps = min(left, (uint)SUM_STEPS);
        left -= steps;
        EACH_WIDE acc[r][v] = (FLOATV)(0.0f);
        if (whole) {
            for (uint p = 0; p < steps; p++) {
                FLOATV w[NV];
#pragma unroll
                for (uint v = 0; v < NV; v++)
                    w[v] = LOADV(WIDE_DT, wide + v * VW);
                ACCUMULATE();
            }
        } else {
            for (uint p = 0; p < steps; p++) {
                float edge[WIDE_TILE];
                FLOATV w[NV];
#pragma unroll
                for (uint v = 0; v < WIDE_TILE; v++)
                    edge[v] = LOAD(WIDE_DT, wide, min(w0 + v, wide_size - 1));
#pragma unroll
                for (uint v = 0; v < NV; v++)
                    w[v] = WIDE_TYPE(vload, VW)(v, edge);
                ACCUMULATE();
            }
        }
        EACH_WIDE LONG_SUM_ADD(FLOATV, sum[r][v], rest[r][v], acc[r][v]);
    }
    float sums[TILE][WIDE_TILE];
    EACH_WIDE WIDE_TYPE(vstore, VW)(sum[r][v], v, sums[r]);
    uint rows = min(narrow_size - r0, (uint)TILE), width = min(wide_size - w0, (uint)WIDE_TILE);
    for (uint r = 0; r < rows; r++) {
#if VW == LANES && !(TA && TB)
        if (width == WIDE_TILE) {
            for (uint v = 0; v < NV; v++)
                FINISH16(r0 + r, w0 + v * LANES, vload16(v, sums[r]));
            continue;
        }
#endif
        for (uint v = 0; v < width; v++) {
#if TA && TB
            FINISH(w0 + v, r0 + r, sums[r][v]);
#else
            FINISH(r0 + r, w0 + v, sums[r][v]);
#endif
        }
    }
}

#else

#define SUMS (TILE * TILE)
#define EACH_PAIR                                                                                            \
    UNROLL_FOR (uint r = 0; r < TILE; r++)                                                                   \
        UNROLL_FOR (uint s = 0; s < TILE; s++)

/* gemm_fwd_dot: layout NT; one work-item per tile of TILE x TILE. */
GROUP_SHAPE __kernel void gemm_fwd_dot(GEMM_PARAMS)
{
    uint row_tiles = (m + TILE - 1) / TILE, column_tiles = (n + TILE - 1) / TILE;
    ulong tile = get_global_id(0), per_item = (ulong)row_tiles * column_tiles;
    if (tile >= per_item * batch)
        return;
    /* x%y is computed as x - x/y*y: for x/y next to x%y the compiler emits `freeze`, which interpreters may
     * not know */
    uint z = (uint)(tile / per_item);
    ulong in_item = tile - z * per_item;
#if LANE
    uint j = (uint)(in_item / row_tiles);
    uint i0 = (uint)(in_item - (ulong)j * row_tiles) * TILE, j0 = j * TILE;
#else
    uint i = (uint)(in_item / column_tiles);
    uint i0 = i * TILE, j0 = (uint)(in_item - (ulong)i * column_tiles) * TILE;
#endif
    __global const STORAGE(DTA) *pa = a + a_at + (ulong)z * stride_a;
    __global const STORAGE(DTB) *pb = b + b_at + (ulong)z * stride_b;
    ulong row[TILE], column[TILE];
    float sum[SUMS], rest[SUMS];
#pragma unroll
    for (uint r = 0; r < TILE; r++) {
        row[r] = (ulong)min(i0 + r, m - 1) * lda;
        column[r] = (ulong)min(j0 + r, n - 1) * ldb;
    }
    EACH_PAIR sum[r * TILE + s] = rest[r * TILE + s] = 0.0f;
    uint p = 0;
    while (p < k) {
        FLOATV acc[TILE][TILE];
        uint last = p + min(k - p, (uint)(SUM_STEPS * VW));
        EACH_PAIR acc[r][s] = (FLOATV)(0.0f);
        for (; p + VW <= last; p += VW) {
            FLOATV av[TILE], bv[TILE];
#pragma unroll
            for (uint r = 0; r < TILE; r++) {
                av[r] = LOADV(DTA, pa + row[r]);
                bv[r] = LOADV(DTB, pb + column[r]);
            }
            EACH_PAIR acc[r][s] = fma(av[r], bv[s], acc[r][s]);
            pa += VW;
            pb += VW;
        }
        if (p < last) { /* the last, partial step is filled with zeros */
            float tail_a[TILE][VW], tail_b[TILE][VW];
            for (uint r = 0; r < TILE; r++) {
                for (uint v = 0; v < VW; v++) {
                    tail_a[r][v] = p + v < k ? LOAD(DTA, pa + row[r], v) : 0.0f;
                    tail_b[r][v] = p + v < k ? LOAD(DTB, pb + column[r], v) : 0.0f;
                }
            }
            EACH_PAIR acc[r][s] =
                fma(WIDE_TYPE(vload, VW)(0, tail_a[r]), WIDE_TYPE(vload, VW)(0, tail_b[s]), acc[r][s]);
            p = last;
        }
        /* lanes are added as a balanced tree through an array, because interpreters cannot track values in
         * shuffles */
        float sums[SUMS][VW];
#pragma unroll
        for (uint i = 0; i < SUMS; i++)
            WIDE_TYPE(vstore, VW)(acc[i / TILE][i % TILE], 0, sums[i]);
#pragma unroll
        for (uint half_size = VW / 2; half_size > 0; half_size >>= 1)
#pragma unroll
            for (uint i = 0; i < SUMS; i++)
#pragma unroll
                for (uint v = 0; v < half_size; v++)
                    sums[i][v] += sums[i][v + half_size];
        UNROLL_FOR (uint i = 0; i < SUMS; i++)
            LONG_SUM_ADD(float, sum[i], rest[i], sums[i][0]);
    }
    uint rows = min(m - i0, (uint)TILE), columns = min(n - j0, (uint)TILE);
    for (uint r = 0; r < rows; r++)
        for (uint s = 0; s < columns; s++)
            FINISH(i0 + r, j0 + s, sum[r * TILE + s]);
}

#endif
