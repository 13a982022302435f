/* SPDX-License-Identifier: Apache-2.0
 *
 * GEMM backend `mma`, for GPUs with matrix units: A and B of one 16-bit type, or f32 rounded to 10 bits of
 * mantissa (MMA_TF32); f32 sums. A work-group makes a BM x BN tile of C, each of its warps a WM x WN part.
 * Tiles of A and B of BK steps of k go through STAGES slots of local memory: while one is multiplied, the
 * next STAGES - 1 are on their way from global memory. Any layout, any size, any stride. Host side:
 * cl/gemm_mma.c. Must not know what the matrices mean.
 *
 * Lines and steps. A tile lies in local memory as it lies in global memory, in rows of which as many
 * neighbouring elements as fill 16 bytes are a chunk: rows are lines of the matrix when k runs along them (A
 * plain, B transposed), steps of k otherwise, and the fragment loads turn it where they must. Chunk c of row
 * r is in place c ^ SWIZZLE(r): eight rows of one chunk, which a fragment load reads at once, then lie in
 * eight different groups of four banks. f32 rows of steps of k cannot be turned by a fragment load: there an
 * item reads its values one by one, 4 rows of 8 neighbours at a time, which two chunks of distance per row
 * send to 32 banks. Volta's loads do not know about swizzles: there a row is a chunk longer instead.
 *
 * Why these forms. A warp reads (WM + WN) * 32 bytes for 16 * WM * WN multiply-adds: with 64 x 32 that is
 * 10.7 a byte, where an SM of Ampere (1024 a clock, 128 bytes a clock of local memory) needs 8 and one of
 * Hopper, with these instructions, about 10. A 128 x 128 x 32 tile is 16 KiB, three of them the 48 KiB that a
 * work-group may have; 256 x 128 has room for two. f32 elements take BK 16 for the same bytes.
 *
 * Occupancy. 64 x 32 sums of a warp are 64 registers an item, fragments 24, addresses and copies under way
 * the rest of about 125 (ptxas, tests/e2e/test_gemm_ptx.sh): two work-groups of 256 items on an SM with 64 Ki
 * registers. 64 x 64 (the 256 x 128 and 128 x 256 forms) takes 128 for the sums alone, 212 to 254 with all
 * else: one work-group of 256 items, 8 warps, on an SM. It has as many sums there as two of the smaller form,
 * and a step of 16 is 64 independent multiplications of a warp, enough to hide what it waits for, behind a
 * quarter fewer bytes of fragments and of global memory for each. tf32 takes up to 165 registers with 64 x 32
 * where rows are turned, for the addresses of single values and for rounding: one work-group of 256 items, or
 * three of 128; its multiplications take twice as long for the same bytes, so that half of the warps hide as
 * much. So it is with wmma (up to 165).
 *
 * C. Sums go by way of local memory, sixteen rows of every warp at a time, so that an item finishes VC
 * neighbours of a row: C and what its elements meet are read and written 16 bytes at a time where they lie so
 * (gemm_tiles.clh).
 *
 * Sums run over k in steps of 16 (f32: 8), within a step as the hardware adds: the same bits in every run,
 * other ones than the other backends'. What lies behind the last step of k is 0 in both tiles. */
#include "common.clh"
#include "lanes.clh"

#ifndef DTA /* both the same: bf16 with MMA_BF16, f32 with MMA_TF32, else f16 */
#define DTA f16
#endif
#ifndef DTB
#define DTB DTA
#endif
#include "gemm_epilogue.clh"
#include "gemm_operands.clh"
#include "gemm_packed.clh"

#ifndef BM /* tile of C; all sizes are powers of two */
#define BM 64
#endif
#ifndef BN
#define BN 64
#endif
#ifndef BK /* two chunks or more */
#define BK 32
#endif
#ifndef WM /* of a warp: 16 or more, 16 or more */
#define WM 32
#endif
#ifndef WN
#define WN 32
#endif
#ifndef STAGES /* 2 or more */
#define STAGES 3
#endif
#ifndef ALIGNED_A /* 1: every chunk of A, of B, starts at a multiple of 16 bytes */
#define ALIGNED_A 1
#endif
#ifndef ALIGNED_B
#define ALIGNED_B 1
#endif
#include "gemm_tiles.clh"
#include "mma.clh"

/* STAGES - 2 as a literal: batches of copies that may be under way while a tile is multiplied. */
#if STAGES == 3
#define STAGES_LEFT 1
#elif STAGES == 4
#define STAGES_LEFT 2
#else
#define STAGES_LEFT 0
#endif
#define WARPS_DOWN (BM / WM)
#define WARPS_ACROSS (BN / WN)
#define ITEMS (WARPS_DOWN * WARPS_ACROSS * 32)
#define MI (WM / 16) /* fragments of a warp */
#define FRAGMENT_COLUMNS (MMA_SM >= 75 ? 8 : 16)
#define NI (WN / FRAGMENT_COLUMNS)
#if MMA_SM >= 75
#define SUMS float4
#else
#define SUMS float8
#endif
#if defined(__NV_CL_C_VERSION)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("unroll 1") /* without matrix units every primitive is long */
#endif
#if MMA_TF32
#define CHUNK 4 /* elements */
#define PACK_CHUNK(e) as_uint4(vload4(0, e))
#else
#define CHUNK 8
#define PACK_CHUNK(e) as_uint4(vload8(0, e))
#endif

#define ALONG_A (!(TA)) /* k runs along the rows */
#define ALONG_B (TB)
#define PADDED (MMA_SM < 75)
#define ROW_CHUNKS(along, lines) ((along) ? BK / CHUNK : (lines) / CHUNK)
#define ROWS(along, lines) ((along) ? (lines) : BK)
#define PITCH(along, lines) (ROW_CHUNKS(along, lines) + PADDED)
#define SWIZZLE_ROWS(row, per) ((per) >= 8 ? (row)&7 : (row) / (8 / ((per) > 8 ? 8 : (per))) & ((per)-1))
#define SWIZZLE(row, along, per) (MMA_TF32 && !(along) ? 2 * ((row)&3) & ((per)-1) : SWIZZLE_ROWS(row, per))
/* Where a chunk is, in chunks. */
#define PLACE(row, chunk, along, lines)                                                                                            \
    (PADDED ? (row) * PITCH(along, lines) + (chunk)                                                                                \
            : (row) * ROW_CHUNKS(along, lines) + ((chunk) ^ (SWIZZLE(row, along, ROW_CHUNKS(along, lines)))))
#define SLOT_A (ROWS(ALONG_A, BM) * PITCH(ALONG_A, BM)) /* chunks */
#define SLOT_B (ROWS(ALONG_B, BN) * PITCH(ALONG_B, BN))
#define SLOT (SLOT_A + SLOT_B)
#define LINE_FLOATS (BN + 8) /* of sums on their way to C: eight rows of pairs in different banks */
#define SLAB_FLOATS (WARPS_DOWN * 16 * LINE_FLOATS)
#if STAGES * SLOT > SLAB_FLOATS / 4
#define LOCAL_CHUNKS (STAGES * SLOT)
#else
#define LOCAL_CHUNKS (SLAB_FLOATS / 4)
#endif

/* DEFINE_TILE(name, lines_of_tile, along, aligned) defines, for the tile at `base` of which `lines` lines and `left` steps exist,
 *   bring_NAME(slot, raw, base, ld, lines, left): starts to bring it, by copies or into registers
 *   land_NAME(slot, raw): puts into local memory what is in registers. */
#define TILE_CHUNKS(tile_lines) ((tile_lines)*BK / CHUNK)
#define ITEM_CHUNKS(tile_lines) ((TILE_CHUNKS(tile_lines) + ITEMS - 1) / ITEMS)
#define DEFINE_TILE(name, tile_lines, along, aligned)                                                                              \
    static inline void bring_##name(__local uint4 *slot, uint4 *raw, __global const STORAGE(DTA) * base, ulong ld, int lines,      \
                                    int left)                                                                                      \
    {                                                                                                                              \
        _Pragma("unroll") for (uint i = 0; i < ITEM_CHUNKS(tile_lines); i++)                                                       \
        {                                                                                                                          \
            uint v = (uint)get_local_id(0) + i * ITEMS;                                                                            \
            if (TILE_CHUNKS(tile_lines) % ITEMS != 0 && v >= TILE_CHUNKS(tile_lines))                                              \
                break;                                                                                                             \
            uint row = v / ROW_CHUNKS(along, tile_lines), chunk = v & (ROW_CHUNKS(along, tile_lines) - 1);                         \
            int rows = (along) ? lines : left, wide = (along) ? left : lines;                                                      \
            int have = (int)row < rows ? clamp(wide - CHUNK * (int)chunk, 0, CHUNK) : 0;                                           \
            __global const STORAGE(DTA) *from = have > 0 ? base + row * ld + CHUNK * chunk : base;                                 \
            if ((aligned) && MMA_ASYNCHRONOUS) {                                                                                   \
                MMA_COPY((__local ushort *)slot, 8 * (PLACE(row, chunk, along, tile_lines)), (__global const ushort *)from,        \
                         16 / CHUNK * (uint)have);                                                                                 \
            } else if ((aligned) && have == CHUNK) {                                                                               \
                raw[i] = *(__global const uint4 *)from;                                                                            \
            } else {                                                                                                               \
                STORAGE(DTA) e[CHUNK];                                                                                             \
                _Pragma("unroll") for (int j = 0; j < CHUNK; j++)                                                                  \
                {                                                                                                                  \
                    e[j] = 0;                                                                                                      \
                    if (j < have)                                                                                                  \
                        e[j] = from[j];                                                                                            \
                }                                                                                                                  \
                raw[i] = PACK_CHUNK(e);                                                                                            \
            }                                                                                                                      \
        }                                                                                                                          \
    }                                                                                                                              \
    static inline void land_##name(__local uint4 *slot, const uint4 *raw)                                                          \
    {                                                                                                                              \
        if ((aligned) && MMA_ASYNCHRONOUS)                                                                                         \
            return;                                                                                                                \
        _Pragma("unroll") for (uint i = 0; i < ITEM_CHUNKS(tile_lines); i++)                                                       \
        {                                                                                                                          \
            uint v = (uint)get_local_id(0) + i * ITEMS;                                                                            \
            if (TILE_CHUNKS(tile_lines) % ITEMS != 0 && v >= TILE_CHUNKS(tile_lines))                                              \
                break;                                                                                                             \
            uint row = v / ROW_CHUNKS(along, tile_lines), chunk = v & (ROW_CHUNKS(along, tile_lines) - 1);                         \
            slot[PLACE(row, chunk, along, tile_lines)] = raw[i];                                                                   \
        }                                                                                                                          \
    }
DEFINE_TILE(a, BM, ALONG_A, ALIGNED_A)
DEFINE_TILE(b, BN, ALONG_B, ALIGNED_B)

#if MMA_SM >= 75

/* Fragments of 16 lines of A, of B, from line `line` and chunk `step` of k on: four 8 x 8 matrices (of f32:
 * 8 x 4), 1 and 2 of A the lower left and the upper right one, of B those of more steps and of more columns.
 * An item says where its row of one of them starts, or reads what it needs of each. */
#define DEFINE_FRAGMENT(name, tile_lines, along, lines_first)                                                                      \
    static inline uint4 fragment_##name(__local const uint4 *slot, uint line, uint step, __local uint *scratch)                    \
    {                                                                                                                              \
        uint lane = MMA_LANE, low = lane & 7, odd = (lane >> 3) & 1, late = lane >> 4;                                             \
        uint more_lines = (lines_first) ? odd : late, more_steps = (lines_first) ? late : odd;                                     \
        __local const ushort *tile = (__local const ushort *)slot;                                                                 \
        if (along)                                                                                                                 \
            return ROUND(MMA_LOAD(tile, 8 * (PLACE(line + 8 * more_lines + low, step + more_steps, along, tile_lines)), scratch)); \
        return ROUND(TURNED(tile_lines, lines_first));                                                                             \
    }
#if MMA_TF32
static inline uint4 round_words(uint4 r)
{
    return (uint4)(MMA_ROUND(r.x), MMA_ROUND(r.y), MMA_ROUND(r.z), MMA_ROUND(r.w));
}
#define ROUND(r) round_words(r)
/* Of each matrix an item needs step t of line g. */
#define ONE(tile_lines, g8, t4)                                                                                                    \
    ((__local const uint *)(slot + (PLACE(CHUNK * (step + t4) + (lane & 3), (line + 8 * g8 + (lane >> 2)) / CHUNK, false,         \
                                          tile_lines))))[lane >> 2 & (CHUNK - 1)]
#define TURNED(tile_lines, lines_first)                                                                                            \
    (uint4)(ONE(tile_lines, 0, 0), (lines_first) ? ONE(tile_lines, 1, 0) : ONE(tile_lines, 0, 1),                                  \
            (lines_first) ? ONE(tile_lines, 0, 1) : ONE(tile_lines, 1, 0), ONE(tile_lines, 1, 1))
#else
#define ROUND(r) (r)
#define TURNED(tile_lines, lines_first)                                                                                            \
    MMA_LOAD_T(tile, 8 * (PLACE(CHUNK * (step + more_steps) + low, line / CHUNK + more_lines, false, tile_lines)), scratch)
#endif
DEFINE_FRAGMENT(a, BM, ALONG_A, true)
DEFINE_FRAGMENT(b, BN, ALONG_B, false)

/* All BK steps of a pair of tiles, for the warp whose part starts at (row, column) of the tile. */
static inline void multiply_slot(SUMS sums[MI][NI], __local const uint4 *a, __local const uint4 *b, uint row, uint column,
                                 __local uint *scratch)
{
    UNROLL for (uint step = 0; step < BK / CHUNK; step += 2)
    {
        uint4 left[MI];
        uint2 right[NI];
        UNROLL for (uint i = 0; i < MI; i++) left[i] = fragment_a(a, row + 16 * i, step, scratch);
        UNROLL for (uint j = 0; j < NI; j += 2)
        {
            uint4 pair = fragment_b(b, column + 8 * j, step, scratch);
            right[j] = (uint2)(pair.x, pair.y);
            right[j + 1] = (uint2)(pair.z, pair.w);
        }
        UNROLL for (uint i = 0; i < MI; i++)
        {
            UNROLL for (uint j = 0; j < NI; j++)
                MMA_MULTIPLY(sums[i][j], left[i], right[j], scratch);
        }
    }
}

/* Sixteen rows of every warp's sums, fragments i, into `to`: this warp's rows and columns of LINE_FLOATS a row. */
static inline void spread_sums(__local float *to, SUMS sums[MI][NI], uint i)
{
    __local float *pairs = to + (MMA_LANE >> 2) * LINE_FLOATS + 2 * (MMA_LANE & 3);
    UNROLL for (uint j = 0; j < NI; j++)
    {
        *(__local float2 *)(pairs + 8 * j) = (float2)(sums[i][j].x, sums[i][j].y);
        *(__local float2 *)(pairs + 8 * LINE_FLOATS + 8 * j) = (float2)(sums[i][j].z, sums[i][j].w);
    }
}

#else

static inline void multiply_slot(SUMS sums[MI][NI], __local const uint4 *a, __local const uint4 *b, uint row, uint column,
                                 __local uint *scratch)
{
    __local const ushort *tile_a = (__local const ushort *)a, *tile_b = (__local const ushort *)b;
    UNROLL for (uint step = 0; step < BK; step += 16)
    {
        uint8 right[NI];
        UNROLL for (uint j = 0; j < NI; j++)
        {
            uint line = column + 16 * j, ld = CHUNK * PITCH(ALONG_B, BN);
            right[j] = WMMA_LOAD_B(tile_b, ALONG_B ? line * ld + step : step * ld + line, ld, !(ALONG_B));
        }
        UNROLL for (uint i = 0; i < MI; i++)
        {
            uint line = row + 16 * i, ld = CHUNK * PITCH(ALONG_A, BM);
            uint8 left = WMMA_LOAD_A(tile_a, ALONG_A ? line * ld + step : step * ld + line, ld, !(ALONG_A));
            UNROLL for (uint j = 0; j < NI; j++)
                WMMA_MULTIPLY(sums[i][j], left, right[j], !(ALONG_A), !(ALONG_B), scratch);
        }
    }
}

static inline void spread_sums(__local float *to, SUMS sums[MI][NI], uint i)
{
    UNROLL for (uint j = 0; j < NI; j++) WMMA_STORE(to + 16 * j, LINE_FLOATS, sums[i][j]);
}

#endif

/* gemm_fwd_mma: one group per tile of C and part of k, numbered in one dimension (gemm_tiles.clh). */
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void
gemm_fwd_mma(TILES_PARAMS)
{
    __local uint4 memory[LOCAL_CHUNKS] __attribute__((aligned(128)));
#if MMA_SCRATCH
    __local uint scratches[ITEMS / 32 * MMA_SCRATCH];
    __local uint *scratch = scratches + (uint)get_local_id(0) / 32 * MMA_SCRATCH;
#else
    __local uint *scratch = (__local uint *)memory; /* nobody looks */
#endif
    uint lid = (uint)get_local_id(0), warp = lid / 32;
    uint row = warp / WARPS_ACROSS * WM, column = (warp & (WARPS_ACROSS - 1)) * WN;
    gemm_share share;
    TILES_SHARE(share);
    uint i0 = share.i0, j0 = share.j0, z = share.z, k0 = share.k0, depth = share.depth, item = share.item;
    (void)item;
    int lines_a = (int)min(m - i0, (uint)BM), lines_b = (int)min(n - j0, (uint)BN);
    ulong step_a = TA ? BK * lda : BK, step_b = TB ? BK : BK * ldb;
    a += a_at + z * stride_a + (TA ? k0 * lda + i0 : i0 * lda + k0);
    b += b_at + z * stride_b + (TB ? j0 * ldb + k0 : k0 * ldb + j0);

    SUMS sums[MI][NI];
    UNROLL for (uint i = 0; i < MI; i++)
    {
        UNROLL for (uint j = 0; j < NI; j++)
            sums[i][j] = (SUMS)(0.0f);
    }

    uint steps = (depth + BK - 1) / BK;
    uint4 raw_a[ITEM_CHUNKS(BM)], raw_b[ITEM_CHUNKS(BN)];
#pragma unroll 1
    for (uint t = 0; t < STAGES - 1; t++) {
        if (t < steps) {
            int left = (int)min(depth - t * BK, (uint)BK);
            bring_a(memory + t * SLOT, raw_a, a, lda, lines_a, left);
            bring_b(memory + t * SLOT + SLOT_A, raw_b, b, ldb, lines_b, left);
            land_a(memory + t * SLOT, raw_a);
            land_b(memory + t * SLOT + SLOT_A, raw_b);
            a += step_a;
            b += step_b;
        }
        MMA_COPIES_END();
    }
    uint now = 0, next = STAGES - 1; /* slots */
#pragma unroll 1
    for (uint t = 0; t < steps; t++) {
        bool more = t + STAGES - 1 < steps;
        MMA_COPIES_WAIT(STAGES_LEFT);
        barrier(CLK_LOCAL_MEM_FENCE); /* tile t is there, and nobody reads slot `next` any more */
        if (more) {
            int left = (int)min(depth - (t + STAGES - 1) * BK, (uint)BK);
            bring_a(memory + next * SLOT, raw_a, a, lda, lines_a, left);
            bring_b(memory + next * SLOT + SLOT_A, raw_b, b, ldb, lines_b, left);
            a += step_a;
            b += step_b;
        }
        MMA_COPIES_END();
        multiply_slot(sums, memory + now * SLOT, memory + now * SLOT + SLOT_A, row, column, scratch);
        if (more) {
            land_a(memory + next * SLOT, raw_a);
            land_b(memory + next * SLOT + SLOT_A, raw_b);
        }
        now = now + 1 == STAGES ? 0 : now + 1;
        next = next + 1 == STAGES ? 0 : next + 1;
    }
    MMA_COPIES_WAIT(0);

    /* By way of local memory every row of C is written by neighbouring items: sixteen rows of every warp at a time. */
    __local float *lines = (__local float *)memory;
    UNROLL for (uint i = 0; i < MI; i++)
    {
        barrier(CLK_LOCAL_MEM_FENCE);
        spread_sums(lines + warp / WARPS_ACROSS * 16 * LINE_FLOATS + column, sums, i);
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll 1
        for (uint e = lid * VC; e < WARPS_DOWN * 16 * BN; e += ITEMS * VC) {
            uint line = e / BN, at = e & (BN - 1);
            uint ci = i0 + line / 16 * WM + 16 * i + (line & 15), cj = j0 + at;
            if (ci < m)
                PUT_SUMS(ci, cj, lines + line * LINE_FLOATS + at);
        }
    }
}
