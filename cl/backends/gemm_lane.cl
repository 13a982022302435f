/* SPDX-License-Identifier: Apache-2.0
 *
 * GEMM backend `lane`, for CPU devices: a work-group is one work-item, which computes blocks of C as a
 * blocked matrix product does on one core. It walks k in blocks of kc; per block it packs NR columns of
 * op(B) at a time into local memory (a micro-panel: converted to f32, transposed where the layout needs it;
 * MICRO_PANELS of them together). It multiplies the micro-panel, now in the first-level cache, with all rows
 * of A of the block, MR at a time, in MR x NV accumulators of sixteen lanes. An A of f32 may be read in
 * place; otherwise A is packed once per block of k. The data that packing will read next, and the lines of C
 * that a tile will write, are prefetched.
 *
 * Every sum runs over k in order with fma, in chains of SUM_STEPS steps whose sums are added with
 * compensation (long_sum.clh), for all sizes of blocks: no choice of MR, NV, kc, mt or nt changes a bit, and
 * backend `simple` gives the same bits in the layouts NN, TN and TT. Host side: cl/backends/gemm_lane.c.
 *
 * Moments (MOMENTS) are computed tile by tile while the rows are in registers. A block of moments is
 * MOMENT_TILES tiles, or fewer where a unit of work may end, so that the result does not depend on the units
 * of work.
 *
 * Local memory: panel_b has MICRO_PANELS*kc*NR floats, panel_a mt*kc*MRP (PACK_A). The sums have mt*nt tiles
 * of MR*NR floats when k > kc, otherwise one tile, and three times as many when k > SUM_STEPS: sums of the
 * current chain, totals of the chains before it, and the rounding errors of these totals. Offsets inside
 * blocks are 32-bit, bases 64-bit. */
#include "common.clh"
#include "lanes.clh"
#include "long_sum.clh"
#include "tile_counter.clh"

#include "gemm_epilogue.clh"
#include "gemm_operands.clh"

/* 1: A, 2: B is a matrix of windows of an image (gemm_windows.clh); only in layouts NT, NN and TN */
#pragma option WINDOWS 0
#if WINDOWS
#include "gemm_windows.clh"
#include "gemm_window_runs.clh"
#else
#define WINDOWS_PARAMS
#endif

#pragma option MR 6       /* rows of a tile */
#pragma option NV 1       /* float16 vectors along a tile's columns */
#pragma option PACK_A 0   /* needed if A is not f32, is windows, or has fewer than MR rows */
#pragma option PREFETCH 0 /* 1: software prefetch, where the compiler has a builtin for it */

#pragma option MICRO_PANELS 4 /* micro-panels of B that are packed together, a power of two */

/* unrolling of the loop over k: with packed A a step is short, and the loop overhead matters */
#define STEPS 4
#define AHEAD_STEPS (PACK_A || TA ? 16 : 32) /* steps of k between prefetches */

#pragma option MOMENT_ROWS 128 /* rows of a block of moments */
#define MOMENT_TILES (MOMENT_ROWS / MR)

#pragma option CHAINS 0 /* 1: k > SUM_STEPS; this code would make other products slower */
/* 1: whole tiles are finished directly from registers, which needs MR * NV copies of the epilogue's code */
#pragma option DIRECT 0

#define NR (LANES * NV) /* columns of a tile */
#if TA /* floats from one column of a packed tile of A to the next; TRANSPOSE8 writes eight at a time */
#define MRP MR
#else
#define MRP ((MR + 7) / 8 * 8)
#endif

#define EACH_VECTOR UNROLL_FOR (uint v = 0; v < NV; v++)
#define EACH_SUM                                                                                             \
    UNROLL_FOR (uint r = 0; r < MR; r++)                                                                     \
    EACH_VECTOR

/* Loads MR elements (MR is even and at most 14) as floats. */
#define LOAD4_f32(p) vload4(0, p)
#define LOAD4_f16(p) vload_half4(0, (const __global half *)(p))
#define LOAD4_bf16(p) as_float4(convert_uint4(vload4(0, p)) << 16)
#define LOAD4(dt, p) CLT_CAT(LOAD4_, dt)(p)
#define LOAD2_f32(p) vload2(0, p)
#define LOAD2_f16(p) vload_half2(0, (const __global half *)(p))
#define LOAD2_bf16(p) as_float2(convert_uint2(vload2(0, p)) << 16)
#define LOAD2(dt, p) CLT_CAT(LOAD2_, dt)(p)
#define COPY_ROWS(dt, from, out)                                                                             \
    do {                                                                                                     \
        if (MR & 8)                                                                                          \
            vstore8(LANES_LOAD8(dt, from, 0), 0, out);                                                       \
        if (MR & 4)                                                                                          \
            vstore4(LOAD4(dt, (from) + (MR & 8)), 0, (out) + (MR & 8));                                      \
        if (MR & 2)                                                                                          \
            vstore2(LOAD2(dt, (from) + (MR & 12)), 0, (out) + (MR & 12));                                    \
    } while (0)

/* out[q*step + r] = source[row(r) + q] for r, q in 0..7; `row` is a macro. */
#define TRANSPOSE8(dt, source, row, out, step)                                                               \
    do {                                                                                                     \
        float8 rows_[8];                                                                                     \
        UNROLL_FOR (uint r_ = 0; r_ < 8; r_++)                                                               \
            rows_[r_] = LANES_LOAD8(dt, source, row(r_));                                                    \
        TURN8(float, out, step, rows_);                                                                      \
    } while (0)

#include "gemm_lane_pack_b.clh"
#include "gemm_lane_ahead.clh"

#if PACK_A
/* Packs rows i0.. of op(A), `tiles` tiles of MR, columns k0..k0+kn-1, into panel[(tile*kn + k)*MRP + i].
 * Rows from m on repeat the last one. */
CLT_INLINE void pack_a(__global const STORAGE(DTA) * a, ulong lda, uint m, ulong k0, uint kn, uint i0,
                       uint tiles, __local float *panel)
{
#if TA
    /* packs eight tiles at a time, which reads whole cache lines of A's rows without too many streams of
     * writes */
    for (uint first = 0; first < tiles; first += 8) {
        uint i = i0 + first * MR, count = min(tiles - first, 8u), whole = min(count, (m - i) / MR);
        __global const STORAGE(DTA) *column = a + k0 * lda + i;
        for (uint k = 0; k < kn; k++) {
            __global const STORAGE(DTA) *from = column;
            __local float *out = panel + (first * kn + k) * MRP;
            for (uint tile = 0; tile < whole; tile++) {
                COPY_ROWS(DTA, from, out);
                from += MR;
                out += kn * MRP;
            }
            for (uint r = 0; whole < count && r < MR; r++)
                out[r] = LOAD(DTA, column, min(whole * MR + r, m - 1 - i));
            column += lda;
        }
    }
#else
    for (uint tile = 0; tile < tiles; tile++) {
        for (uint v = 0; v < MRP; v += 8) {
            uint i = i0 + tile * MR + v, k = 0;
            __local float *out = panel + tile * kn * MRP + v;
#define ROW_A(r) (ulong) min(i + (r), m - 1) * lda
            for (; k + 8 <= kn; k += 8) {
                __global const STORAGE(DTA) *source = a + k0 + k;
                TRANSPOSE8(DTA, source, ROW_A, out, MRP);
                out += 8 * MRP;
            }
            for (; k < kn; k++) {
                for (uint r = 0; r < 8; r++)
                    out[r] = LOAD(DTA, a, ROW_A(r) + k0 + k);
                out += MRP;
            }
        }
    }
#endif
}

#if WINDOWS == 1
/* pack_a for a matrix of windows: run by run, eight rows at a time. */
CLT_INLINE void pack_windows_a(__global const STORAGE(DTA) * a, const clt_windows *w, uint m, uint k0,
                               uint kn, uint i0, uint tiles, __local float *panel)
{
    for (uint part = 0; part < tiles * (MRP / 8); part++) {
        uint tile = part / (MRP / 8), v = (part - tile * (MRP / 8)) * 8;
        __local float *out = panel + tile * kn * MRP + v;
        clt_window window[8];
        for (uint r = 0; r < 8; r++)
            window[r] = window_of(w, min(i0 + tile * MR + v + r, m - 1));
        clt_run_place place = run_place_of(w, k0);
        int left = (int)kn;
        while (left > 0) {
            int q = place.q, end = min(w->run, q + left);
            bool whole = true;
            clt_run run[8];
            left -= end - q;
            for (uint r = 0; r < 8; r++) {
                run[r] = run_of(w, &window[r], &place);
                whole = whole && run[r].lo <= q && end <= run[r].hi;
            }
            if (whole) {
                for (; q + 8 <= end; q += 8) {
                    float8 rows[8];
                    UNROLL_FOR (uint r = 0; r < 8; r++)
                        rows[r] = LANES_LOAD8(DTA, a, run[r].from + q);
                    TURN8(float, out, MRP, rows);
                    out += 8 * MRP;
                }
            } else {
                for (; q + 8 <= end; q += 8) {
                    float edge[64];
                    float8 rows[8];
                    ROLLED_FOR(uint r = 0; r < 8; r++)
                    vstore8(windows_load8(a, &run[r], q), r, edge);
                    UNROLL_FOR (uint r = 0; r < 8; r++)
                        rows[r] = vload8(r, edge);
                    TURN8(float, out, MRP, rows);
                    out += 8 * MRP;
                }
            }
            for (; q < end; q++) {
                ROLLED_FOR(uint r = 0; r < 8; r++)
                out[r] = RUN_ELEMENT(DTA, a, run[r], q);
                out += MRP;
            }
            next_run(w, &place);
        }
    }
}
#endif
#define A_SPACE __local const float
#define A_COLUMN MRP /* elements of A from one step of k to the next */
#else
#define A_SPACE __global const float
#define A_COLUMN a_column
#endif

/* Distance from a row of A to the next, in elements. If it is 1, the addresses of a step are one register
 * plus constants. */
#if TA || PACK_A
#define A_ROW 1
#else
#define A_ROW a_row
#endif

/* One step of k, `at` steps after the position to which `a` and `panel` point. */
#define STEP(at)                                                                                             \
    do {                                                                                                     \
        float16 w_[NV];                                                                                      \
        EACH_VECTOR w_[v] = vload16(v, panel + (at)*NR);                                                     \
        UNROLL_FOR (uint r = 0; r < MR; r++) {                                                               \
            float16 s_ = (float16)(a[r * A_ROW + (at)*A_COLUMN]);                                            \
            EACH_VECTOR acc[r][v] = fma(s_, w_[v], acc[r][v]);                                               \
        }                                                                                                    \
    } while (0)

/* acc += a tile of A times the packed micro-panel; a_row, a_column: elements from one row, or column, of an
 * unpacked A to the next. Prefetches are spread over the work, because many issued together would wait for
 * each other. */
CLT_INLINE void multiply(float16 acc[MR][NV], A_SPACE *a, ulong a_row, ulong a_column,
                         __local const float *panel, uint kn, clt_ahead *ahead, clt_ahead *ahead_a)
{
    for (uint k = 0; k < kn;) {
        uint end = min(kn, k + AHEAD_STEPS);
        fetch_ahead(ahead);
        if (PACK_A || TA)
            fetch_ahead(ahead_a);
/* where A lies along k, unrolling gains nothing, because the rows' addresses are computed in every step */
#if PACK_A || TA
        for (; k + STEPS <= end; k += STEPS) {
#pragma unroll
            for (uint at = 0; at < STEPS; at++)
                STEP(at);
            a += STEPS * A_COLUMN;
            panel += STEPS * NR;
        }
#endif
        for (; k < end; k++) {
            STEP(0);
            a += A_COLUMN;
            panel += NR;
        }
    }
}

#include "gemm_lane_moments.clh"

/* The order of the work: blocks of mt x nt tiles, along rows first, then columns, then batch items. The
 * first `whole` blocks are one unit of work each; each of the others is cut into `parts` pieces of rows,
 * each of them a unit. A variable named `tile` is the number of a unit. */
typedef struct clt_grid {
    uint mt, nt, parts, row_tiles, column_tiles, row_blocks;
    /* per_item: blocks of a batch item; whole: blocks that are not cut; tiles: units of work */
    ulong per_item, whole, tiles;
} clt_grid;

typedef struct clt_place {
    uint z, first_row, rows, first_column, columns; /* z: batch item; the others count tiles */
} clt_place;

/* The position of a unit of work. The last piece of a block may have no rows. */

static inline clt_place place_of(const clt_grid *grid, ulong tile)
{
    ulong block = tile;
    uint part = 0, mt = grid->mt;
    if (tile >= grid->whole) {
        ulong piece = tile - grid->whole, cut_block = piece / grid->parts;
        part = (uint)(piece - cut_block * grid->parts);
        block = grid->whole + cut_block;
        mt = (mt + grid->parts - 1) / grid->parts;
    }
    clt_place place;
    place.z = (uint)(block / grid->per_item);
    ulong in_item = block - place.z * grid->per_item;
    uint column_block = (uint)(in_item / grid->row_blocks);
    uint row_block = (uint)(in_item - (ulong)column_block * grid->row_blocks);
    uint until = min((row_block + 1) * grid->mt, grid->row_tiles);
    place.first_row = min(row_block * grid->mt + part * mt, until);
    place.rows = min(mt, until - place.first_row);
    place.first_column = column_block * grid->nt;
    place.columns = min(grid->nt, grid->column_tiles - place.first_column);
    return place;
}

/* The number of steps of k that are packed together from step k0 on. No block of k crosses the end of a
 * chain of sums. */
static inline uint block_steps(ulong k0, ulong k, uint kc)
{
#if CHAINS
    kc = min(kc, SUM_STEPS - ((uint)k0 & (SUM_STEPS - 1)));
#endif
    return (uint)min((ulong)kc, k - k0);
}

#if CHAINS
/* Adds the chain in acc to `total`, whose rounding error is `lost`, and leaves the sum in acc. Also stores
 * the sum, unless this is the last chain. */
CLT_INLINE void add_chain(float16 acc[MR][NV], __local float *total, __local float *lost, bool first,
                          bool last)
{
    EACH_SUM
    {
        float16 sum = (float16)(0.0f), rest = (float16)(0.0f);
        if (!first) {
            sum = vload16(0, total + r * NR + v * LANES);
            rest = vload16(0, lost + r * NR + v * LANES);
        }
        LONG_SUM_ADD(float16, sum, rest, acc[r][v]);
        acc[r][v] = sum;
        if (!last) {
            vstore16(sum, 0, total + r * NR + v * LANES);
            vstore16(rest, 0, lost + r * NR + v * LANES);
        }
    }
}
#endif

/* gemm_fwd_lane: computes C in blocks of mt x nt tiles; each of the last `cut` blocks is cut into `parts`
 * pieces. Groups take `share` units of work at a time from the tile counter until none is left, so that a
 * slow core delays the end by at most one piece. Results do not depend on which group computes a block.
 * While whole blocks are left, a group takes its next units early, to prefetch their operands. If share > 1,
 * no blocks are cut. The hint says that the code is already vectorised. Without it Intel's compiler also
 * makes a kernel for several work-items at a time, which groups of one item never use, and takes 5 s instead
 * of 0.3 s. */
__attribute__((vec_type_hint(float16))) __attribute__((reqd_work_group_size(1, 1, 1))) __kernel void
gemm_fwd_lane(GEMM_PARAMS WINDOWS_PARAMS, uint mt, uint nt, uint kc, volatile __global uint *tile_counter,
              uint share, uint cut, uint parts, __local float *panel_b,
#if PACK_A
              __local float *panel_a,
#endif
              __local float *block_sums)
{
    clt_grid grid;
    grid.mt = mt;
    grid.nt = nt;
    grid.parts = parts;
    grid.row_tiles = (m + MR - 1) / MR;
    grid.column_tiles = (n + NR - 1) / NR;
    grid.row_blocks = (grid.row_tiles + mt - 1) / mt;
    grid.per_item = (ulong)grid.row_blocks * ((grid.column_tiles + nt - 1) / nt);
    grid.whole = grid.per_item * batch - cut;
    grid.tiles = grid.whole + (ulong)cut * parts;
    a += a_at;
    b += b_at;
#if WINDOWS
    const clt_windows windows = windows_of(WINDOWS_ARGS);
#endif
#if MOMENTS
    const uint least = cut > 0 ? (mt + parts - 1) / parts : mt; /* tiles of the smallest unit of work */
#endif
    ulong tile = clt_next_tile(tile_counter) * (ulong)share, until = tile + share;
    while (tile < grid.tiles) {
        clt_place place = place_of(&grid, tile);
        ulong next = tile + 1;
        bool known = next < until;
        uint z = place.z, rows = place.rows, columns = rows > 0 ? place.columns : 0;
        uint i0 = place.first_row * MR, j0 = place.first_column * NR;
#if MOMENTS
        uint row_block = place.first_row / mt, in_block = place.first_row - row_block * mt;
#endif
        __global const STORAGE(DTA) *item_a = a + z * stride_a;
        __global const STORAGE(DTB) *item_b = b + z * stride_b;
        ulong k0 = 0;
        clt_ahead ahead, ahead_a;
        ahead_a.rows = 0;
        do {
            uint kn = block_steps(k0, k, kc);
            uint pieces = max((kn + AHEAD_STEPS - 1) / AHEAD_STEPS, 1u);
            bool last = k0 + kn == k, starts = k0 == 0;
#if CHAINS
            starts = ((uint)k0 & (SUM_STEPS - 1)) == 0;
            bool ends = last || ((uint)(k0 + kn) & (SUM_STEPS - 1)) == 0;
#endif
            if (last && !known && tile + get_num_groups(0) < grid.whole) {
                next = clt_next_tile(tile_counter) * (ulong)share;
                until = next + share;
                known = true;
            }
            /* The data to prefetch: the next block of k, or the first one of the next block of C, or
             * nothing. */
            clt_place after = place;
            ulong after_k0 = k0 + kn;
            uint after_kn = block_steps(after_k0, k, kc);
            if (last && known && next < grid.tiles) {
                after = place_of(&grid, next);
                after_k0 = 0;
                after_kn = block_steps(0, k, kc);
            }
#if PACK_A
#if WINDOWS == 1
            pack_windows_a(item_a, &windows, m, (uint)k0, kn, i0, rows, panel_a);
#else
            pack_a(item_a, lda, m, k0, kn, i0, rows, panel_a);
#endif
#endif
            for (uint jt = 0; jt < columns; jt++) {
                uint j = j0 + jt * NR, width = min(n - j, (uint)NR), micro_panel = jt & (MICRO_PANELS - 1);
                __local const float *panel = panel_b + micro_panel * kn * NR;
                if (micro_panel == 0) {
                    uint left = columns - jt, count = min(left, (uint)MICRO_PANELS), step = jt + count;
#if WINDOWS == 2
                    pack_windows_b(item_b, &windows, n, (uint)k0, kn, j, count, panel_b);
#else
                    pack_b(item_b, ldb, n, k0, kn, j, count, panel_b);
#endif
                    if (step < columns) {
                        uint from = j0 + step * NR, wide = min(left - count, (uint)MICRO_PANELS) * NR;
                        ahead = plan_b(item_b, ldb, k0, kn, from, min(wide, n - from), rows * count * pieces);
                    } else {
                        uint from = after.first_column * NR,
                             wide = min(after.columns, (uint)MICRO_PANELS) * NR;
                        ahead = plan_b(b + after.z * stride_b, ldb, after_k0, after_kn, from,
                                       min(wide, n - from), rows * count * pieces);
                    }
                    if ((PACK_A || TA) && left <= 2 * MICRO_PANELS && (jt == 0 || left > MICRO_PANELS)) {
                        uint from = after.first_row * MR;
                        ahead_a = plan_a(a + after.z * stride_a, lda, after_k0, after_kn, from,
                                         min(after.rows * MR, m - from), rows * left * pieces);
                    }
                }
#if MOMENTS
                float16 origin[NV], sum[NV], square[NV];
                float seen = 0.0f;
#endif
                for (uint it = 0; it < rows; it++) {
                    __local float *sums = block_sums + (k > kc ? (jt * rows + it) * (MR * NR) : 0);
                    uint i = i0 + it * MR, skip = 0, height = min(m - i, (uint)MR);
                    float16 acc[MR][NV];
                    if (last)
                        FETCH_RESULTS(i, j);
                    if (starts)
                        EACH_SUM acc[r][v] = (float16)(0.0f);
                    else
                        EACH_SUM acc[r][v] = vload16(0, sums + r * NR + v * LANES);
#if PACK_A
                    multiply(acc, panel_a + it * kn * MRP, 1, MRP, panel, kn, &ahead, &ahead_a);
#else
                    /* The last rows of C are computed as a full tile that ends there and overlaps the tile
                     * before it. Only its new rows are stored. */
                    skip = MR - height;
                    i -= skip;
                    height = MR;
#if TA
                    multiply(acc, item_a + k0 * lda + i, 1, lda, panel, kn, &ahead, &ahead_a);
#else
                    multiply(acc, item_a + i * lda + k0, lda, 1, panel, kn, &ahead, &ahead_a);
#endif
#endif
#if CHAINS
                    if (ends) {
                        __local float *total = sums + mt * nt * (MR * NR);
                        add_chain(acc, total, total + mt * nt * (MR * NR), k0 < SUM_STEPS, last);
                        if (!last)
                            continue;
                    }
#endif
#if DIRECT
                    if (last && skip == 0 && height == MR && width == NR) {
                        EACH_SUM FINISH16_KEEP(i + r, j + v * LANES, acc[r][v], KEEP_REGISTER);
                        MOMENTS_OF_TILE(0, MR);
                        continue;
                    }
#endif
                    EACH_SUM vstore16(acc[r][v], 0, sums + r * NR + v * LANES);
                    if (!last)
                        continue;
                    if (width == NR) {
                        for (uint r = skip; r < height; r++)
                            EACH_VECTOR FINISH16_KEEP(i + r, j + v * LANES, vload16(v, sums + r * NR),
                                                      KEEP_VECTOR);
                    } else {
                        for (uint r = skip; r < height; r++)
                            for (uint q = 0; q < width; q++)
                                FINISH_KEEP(i + r, j + q, sums[r * NR + q], KEEP_ELEMENT);
                    }
                    MOMENTS_OF_EDGE(skip, height);
                }
            }
            k0 += kn;
        } while (k0 < k);
        if (!known) {
            next = clt_next_tile(tile_counter) * (ulong)share;
            until = next + share;
        }
        tile = next;
    }
    clt_end_tiles(tile_counter);
}
