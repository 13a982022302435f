/* SPDX-License-Identifier: Apache-2.0
 *
 * GEMM backend `mma`, for GPUs with matrix units: A and B of one 16-bit type, f32 sums. A work-group makes a BM x BN tile of C,
 * each of its warps a WM x WN part. Tiles of A and B of BK steps of k go through STAGES slots of local memory: while one is
 * multiplied, the next STAGES - 1 are on their way from global memory. Any layout, any size, any stride. Host side:
 * cl/gemm_mma.c. Must not know what the matrices mean.
 *
 * Lines and steps. A tile lies in local memory as it lies in global memory, in rows of which 8 neighbouring elements (16 bytes)
 * are a chunk: rows are lines of the matrix when k runs along them (A plain, B transposed), steps of k otherwise, and the
 * fragment loads turn it where they must. Chunk c of row r is in place c ^ SWIZZLE(r): eight rows of one chunk, which a
 * fragment load reads at once, then lie in eight different groups of four banks.
 *
 * Why these forms. A warp reads (WM + WN) * 32 bytes for 16 * WM * WN multiply-adds: with 64 x 32 that is 10.7 a byte, where an SM of
 * Ampere (1024 a clock, 128 bytes a clock of local memory) needs 8 and one of Hopper, with these instructions, about 10. A
 * 128 x 128 x 32 tile is 16 KiB, three of them the 48 KiB that a work-group may have; 256 x 128 has room for two.
 *
 * Occupancy. 64 x 32 sums of a warp are 64 registers an item, fragments 24, addresses and copies under way the rest of about
 * 128 (ptxas, tests/e2e/test_gemm_ptx.sh): two work-groups of 256 items on an SM with 64 Ki registers. 64 x 64 takes 128 for
 * the sums alone, one work-group of 256 items; it reads a third less local memory.
 *
 * Sums run over k in steps of 16, within a step as the hardware adds: the same bits in every run, other ones than the other backends'.
 * What lies behind the last step of k is 0 in both tiles. */
#include "common.clh"
#include "lanes.clh"

#ifndef DTA /* both the same: bf16 with MMA_BF16, else f16 */
#define DTA f16
#endif
#ifndef DTB
#define DTB DTA
#endif
#include "gemm_epilogue.clh"
#include "gemm_operands.clh"

#ifndef BM /* tile of C; all sizes are powers of two */
#define BM 64
#endif
#ifndef BN
#define BN 64
#endif
#ifndef BK /* 16, 32 or 64 */
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
#ifndef PARTIAL /* 1: sums of a part of k go to a workspace */
#define PARTIAL 0
#endif
#ifndef BAND /* tiles of C are numbered in bands of this height, so that groups at work together share A and B */
#define BAND 8
#endif

#include "mma.clh"

#define WARPS_DOWN (BM / WM)
#define WARPS_ACROSS (BN / WN)
#define ITEMS (WARPS_DOWN * WARPS_ACROSS * 32)
#define MI (WM / 16) /* fragments of a warp */
#define NI (WN / 8)
#if defined(__NV_CL_C_VERSION)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("unroll 1") /* without matrix units every primitive is long */
#endif

#define ALONG_A (!(TA)) /* k runs along the rows */
#define ALONG_B (TB)
#define ROW_CHUNKS(along, lines) ((along) ? BK / 8 : (lines) / 8)
#define ROWS(along, lines) ((along) ? (lines) : BK)
#define SWIZZLE(row, per) ((per) >= 8 ? (row)&7 : (row) / (8 / ((per) > 8 ? 8 : (per))) & ((per)-1))
#define PLACE(row, chunk, per) (((row) * (per) + ((chunk) ^ (SWIZZLE(row, per)))) * 8)
#define SLOT_A (BM * BK) /* elements */
#define SLOT_B (BN * BK)
#define SLOT (SLOT_A + SLOT_B)
#define LINE_FLOATS (BN + 8) /* of sums on their way to C: eight rows of pairs in different banks */
#define SLAB_FLOATS (WARPS_DOWN * 16 * LINE_FLOATS)
#if STAGES * SLOT > 2 * SLAB_FLOATS
#define LOCAL_CHUNKS (STAGES * SLOT / 8)
#else
#define LOCAL_CHUNKS (2 * SLAB_FLOATS / 8)
#endif

/* DEFINE_TILE(name, lines_of_tile, along, aligned) defines, for the tile at `base` of which `lines` lines and `left` steps exist,
 *   bring_NAME(slot, raw, base, ld, lines, left): starts to bring it, by copies or into registers
 *   land_NAME(slot, raw): puts into local memory what is in registers. */
#define TILE_CHUNKS(tile_lines) ((tile_lines)*BK / 8)
#define ITEM_CHUNKS(tile_lines) ((TILE_CHUNKS(tile_lines) + ITEMS - 1) / ITEMS)
#define DEFINE_TILE(name, tile_lines, along, aligned)                                                                              \
    static inline void bring_##name(__local ushort *slot, uint4 *raw, __global const ushort *base, ulong ld, int lines, int left)  \
    {                                                                                                                              \
        _Pragma("unroll") for (uint i = 0; i < ITEM_CHUNKS(tile_lines); i++)                                                       \
        {                                                                                                                          \
            uint v = (uint)get_local_id(0) + i * ITEMS;                                                                            \
            if (TILE_CHUNKS(tile_lines) % ITEMS != 0 && v >= TILE_CHUNKS(tile_lines))                                              \
                break;                                                                                                             \
            uint row = v / ROW_CHUNKS(along, tile_lines), chunk = v & (ROW_CHUNKS(along, tile_lines) - 1);                         \
            int rows = (along) ? lines : left, wide = (along) ? left : lines;                                                      \
            int have = (int)row < rows ? clamp(wide - 8 * (int)chunk, 0, 8) : 0;                                                   \
            __global const ushort *from = have > 0 ? base + row * ld + 8 * chunk : base;                                           \
            if ((aligned) && MMA_ASYNCHRONOUS) {                                                                                   \
                MMA_COPY(slot, PLACE(row, chunk, ROW_CHUNKS(along, tile_lines)), from, 2 * (uint)have);                            \
            } else if ((aligned) && have == 8) {                                                                                   \
                raw[i] = *(__global const uint4 *)from;                                                                            \
            } else {                                                                                                               \
                ushort e[8];                                                                                                       \
                _Pragma("unroll") for (int j = 0; j < 8; j++)                                                                      \
                {                                                                                                                  \
                    e[j] = 0;                                                                                                      \
                    if (j < have)                                                                                                  \
                        e[j] = from[j];                                                                                            \
                }                                                                                                                  \
                raw[i] = as_uint4(vload8(0, e));                                                                                   \
            }                                                                                                                      \
        }                                                                                                                          \
    }                                                                                                                              \
    static inline void land_##name(__local ushort *slot, const uint4 *raw)                                                         \
    {                                                                                                                              \
        if ((aligned) && MMA_ASYNCHRONOUS)                                                                                         \
            return;                                                                                                                \
        _Pragma("unroll") for (uint i = 0; i < ITEM_CHUNKS(tile_lines); i++)                                                       \
        {                                                                                                                          \
            uint v = (uint)get_local_id(0) + i * ITEMS;                                                                            \
            if (TILE_CHUNKS(tile_lines) % ITEMS != 0 && v >= TILE_CHUNKS(tile_lines))                                              \
                break;                                                                                                             \
            uint row = v / ROW_CHUNKS(along, tile_lines), chunk = v & (ROW_CHUNKS(along, tile_lines) - 1);                         \
            *(__local uint4 *)(slot + PLACE(row, chunk, ROW_CHUNKS(along, tile_lines))) = raw[i];                                  \
        }                                                                                                                          \
    }
DEFINE_TILE(a, BM, ALONG_A, ALIGNED_A)
DEFINE_TILE(b, BN, ALONG_B, ALIGNED_B)

/* Where this item's row of the four 8 x 8 matrices of a fragment load starts. Matrices 1 and 2 of A are the lower left and the
 * upper right one, of B those of more steps and of more columns. */
static inline uint place_a(uint line, uint step)
{
    uint lane = MMA_LANE, low = lane & 7, odd = (lane >> 3) & 1, late = lane >> 4;
    if (ALONG_A)
        return PLACE(line + 8 * odd + low, step / 8 + late, ROW_CHUNKS(ALONG_A, BM));
    return PLACE(step + 8 * late + low, line / 8 + odd, ROW_CHUNKS(ALONG_A, BM));
}
static inline uint place_b(uint line, uint step)
{
    uint lane = MMA_LANE, low = lane & 7, odd = (lane >> 3) & 1, late = lane >> 4;
    if (ALONG_B)
        return PLACE(line + 8 * late + low, step / 8 + odd, ROW_CHUNKS(ALONG_B, BN));
    return PLACE(step + 8 * odd + low, line / 8 + late, ROW_CHUNKS(ALONG_B, BN));
}

/* All BK steps of a pair of tiles, for the warp whose part starts at (row, column) of the tile. */
static inline void multiply_slot(float4 sums[MI][NI], __local const ushort *a, __local const ushort *b, uint row, uint column,
                                 __local uint *scratch)
{
    UNROLL for (uint step = 0; step < BK; step += 16)
    {
        uint4 left[MI];
        uint2 right[NI];
        UNROLL for (uint i = 0; i < MI; i++)
        {
            if (ALONG_A)
                left[i] = MMA_LOAD(a, place_a(row + 16 * i, step), scratch);
            else
                left[i] = MMA_LOAD_T(a, place_a(row + 16 * i, step), scratch);
        }
        UNROLL for (uint j = 0; j < NI; j += 2)
        {
            uint4 pair;
            if (ALONG_B)
                pair = MMA_LOAD(b, place_b(column + 8 * j, step), scratch);
            else
                pair = MMA_LOAD_T(b, place_b(column + 8 * j, step), scratch);
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

#if PARTIAL
#define PARAMS GEMM_PART_PARAMS, uint splits, uint k_part
#define PUT_SUM(i, j, sum) part[part_at + ((ulong)item * m + (i)) * n + (j)] = (sum)
#else
#define PARAMS GEMM_PARAMS
#define PUT_SUM(i, j, sum) FINISH(i, j, sum)
#endif

/* gemm_fwd_mma: one group per tile of C and part of k, numbered in one dimension. PARTIAL: the sums of tile (i, j) of part s
 * of batch item z go to part[((z * splits + s) * m + i) * n + j], which gemm_sum_tile (gemm_tile.cl) adds. */
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void
gemm_fwd_mma(PARAMS)
{
    __local uint4 memory[LOCAL_CHUNKS] __attribute__((aligned(128)));
#if MMA_SCRATCH
    __local uint scratches[ITEMS / 32 * MMA_SCRATCH];
    __local uint *scratch = scratches + (uint)get_local_id(0) / 32 * MMA_SCRATCH;
#else
    __local uint *scratch = (__local uint *)memory; /* nobody looks */
#endif
    __local ushort *slots = (__local ushort *)memory;
    uint lid = (uint)get_local_id(0), warp = lid / 32;
    uint row = warp / WARPS_ACROSS * WM, column = (warp & (WARPS_ACROSS - 1)) * WN;
    /* remainders by multiplication: the compiler turns x/y beside x%y into `freeze`, which interpreters may not know */
    uint tiles_down = (m + BM - 1) / BM, tiles_across = (n + BN - 1) / BN;
    ulong group = get_group_id(0), per_item = (ulong)tiles_down * tiles_across;
    uint item = (uint)(group / per_item);
    ulong in_item = group - item * per_item, per_band = (ulong)tiles_across * BAND;
    uint band = (uint)(in_item / per_band);
    uint in_band = (uint)(in_item - band * per_band), height = min(tiles_down - band * BAND, (uint)BAND);
    uint tile_j = in_band / height, tile_i = band * BAND + in_band - tile_j * height;
    uint i0 = tile_i * BM, j0 = tile_j * BN;
#if PARTIAL
    uint z = item / splits, k0 = (item - z * splits) * k_part, depth = min(k - k0, k_part);
#else
    uint z = item, k0 = 0, depth = k;
#endif
    int lines_a = (int)min(m - i0, (uint)BM), lines_b = (int)min(n - j0, (uint)BN);
    ulong step_a = TA ? BK * lda : BK, step_b = TB ? BK : BK * ldb;
    a += a_at + z * stride_a + (TA ? k0 * lda + i0 : i0 * lda + k0);
    b += b_at + z * stride_b + (TB ? j0 * ldb + k0 : k0 * ldb + j0);

    float4 sums[MI][NI];
    UNROLL for (uint i = 0; i < MI; i++)
    {
        UNROLL for (uint j = 0; j < NI; j++)
            sums[i][j] = (float4)(0.0f);
    }

    uint steps = (depth + BK - 1) / BK;
    uint4 raw_a[ITEM_CHUNKS(BM)], raw_b[ITEM_CHUNKS(BN)];
#pragma unroll 1
    for (uint t = 0; t < STAGES - 1; t++) {
        if (t < steps) {
            int left = (int)min(depth - t * BK, (uint)BK);
            bring_a(slots + t * SLOT, raw_a, a, lda, lines_a, left);
            bring_b(slots + t * SLOT + SLOT_A, raw_b, b, ldb, lines_b, left);
            land_a(slots + t * SLOT, raw_a);
            land_b(slots + t * SLOT + SLOT_A, raw_b);
            a += step_a;
            b += step_b;
        }
        MMA_COPIES_END();
    }
    uint now = 0, next = STAGES - 1; /* slots */
#pragma unroll 1
    for (uint t = 0; t < steps; t++) {
        bool more = t + STAGES - 1 < steps;
        MMA_COPIES_WAIT(STAGES - 2);
        barrier(CLK_LOCAL_MEM_FENCE); /* tile t is there, and nobody reads slot `next` any more */
        if (more) {
            int left = (int)min(depth - (t + STAGES - 1) * BK, (uint)BK);
            bring_a(slots + next * SLOT, raw_a, a, lda, lines_a, left);
            bring_b(slots + next * SLOT + SLOT_A, raw_b, b, ldb, lines_b, left);
            a += step_a;
            b += step_b;
        }
        MMA_COPIES_END();
        multiply_slot(sums, slots + now * SLOT, slots + now * SLOT + SLOT_A, row, column, scratch);
        if (more) {
            land_a(slots + next * SLOT, raw_a);
            land_b(slots + next * SLOT + SLOT_A, raw_b);
        }
        now = now + 1 == STAGES ? 0 : now + 1;
        next = next + 1 == STAGES ? 0 : next + 1;
    }
    MMA_COPIES_WAIT(0);

    /* By way of local memory every row of C is written by neighbouring items: sixteen rows of every warp at a time. */
    __local float *lines = (__local float *)memory;
    uint g = MMA_LANE >> 2, pair = 2 * (lid & 3);
    UNROLL for (uint i = 0; i < MI; i++)
    {
        barrier(CLK_LOCAL_MEM_FENCE);
        __local float *to = lines + (warp / WARPS_ACROSS * 16 + g) * LINE_FLOATS + column + pair;
        UNROLL for (uint j = 0; j < NI; j++)
        {
            *(__local float2 *)(to + 8 * j) = (float2)(sums[i][j].x, sums[i][j].y);
            *(__local float2 *)(to + 8 * LINE_FLOATS + 8 * j) = (float2)(sums[i][j].z, sums[i][j].w);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll 1
        for (uint e = lid; e < WARPS_DOWN * 16 * BN; e += ITEMS) {
            uint line = e / BN, at = e & (BN - 1);
            uint ci = i0 + line / 16 * WM + 16 * i + (line & 15), cj = j0 + at;
            if (ci < m && cj < n)
                PUT_SUM(ci, cj, lines[line * LINE_FLOATS + at]);
        }
    }
}
