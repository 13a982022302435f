/* SPDX-License-Identifier: Apache-2.0
 *
 * GEMM backend `tile`, for GPUs: a work-group computes a BM x BN tile of C. It walks k in steps of BK. Two
 * pairs of tiles of A and B are in local memory: while the items multiply one pair, the next one is loaded
 * from global memory to registers. Every item keeps TM x TN sums in registers. Any layout, any size, storage
 * types f32, f16 and bf16 with f32 arithmetic. A or B may be the matrix of windows of an image, which is
 * never stored (WINDOWS, gemm_window_tiles.clh). Host side: cl/backends/gemm_tile.c. Must not know what the
 * matrices mean.
 *
 * Every sum runs over k in order with fma and ends with the last product. So no choice of tile changes a
 * bit, and the backends `lane` and `simple` (in the layouts NN, TN and TT) give the same bits. With splits,
 * k is cut into parts whose sums gemm_sum_tile (gemm_sum.cl) adds in order: every run gives the same bits,
 * but another number of parts gives other bits.
 *
 * Why these tile sizes. Local memory limits the multiplications: an item reads TM + TN floats for TM * TN
 * multiply-adds. An NVIDIA SM of Ampere or Hopper (64 or 128 multiply-adds and 32 floats of local memory a
 * clock), an AMD CU (64 or 128, and 32) and an Intel Xe core (128, and 32) therefore need 8 x 8 sums an
 * item, with which the 4-wide reads of 8 x 4 neighbouring items access 96 distinct floats for 2048
 * multiply-adds. 4 x 4 sums run at about 60 % of that speed, and are for problems too small to give every
 * unit a large tile. 16-bit elements are converted once, when they are stored to local memory: keeping them
 * in 16 bits would save no time there, and cost every item 16 conversions for 64 multiply-adds. A 128 x 128
 * tile of f32 reads 1/16 byte of global memory for a multiply-add; second-level caches deliver 1/6.
 *
 * Occupancy. 8 x 8 sums an item take 130 to 180 registers (64 sums, 32 operands of this and the next step, 8
 * to 24 on their way from global memory, addresses; ptxas, tests/e2e/test_gemm_ptx.sh). An NVIDIA SM has 64
 * Ki registers: room for one work-group of the 128 x 128 form with 256 items (8 warps), but for three of the
 * 128 x 64 and 64 x 128 forms with 128 items (12 warps), which read more from global memory and wait less at
 * barriers. A CDNA CU has 128 Ki registers, enough for three work-groups of the 128 x 128 form, and its 64
 * KiB of LDS suffice too: two pairs of tiles of 128 x 128 x 8 take 16.3 KiB. BK 16 needs twice the memory
 * and half of the barriers; with BK 8 an item does 512 multiply-adds between barriers. Lines of 16-bit
 * elements along k are read with BK 16 where as many work-groups still fit on a unit: 8 elements are 16
 * bytes, half of the 32 that memory delivers together, so that with BK 8 every sector would be fetched
 * twice.
 *
 * Local memory: 2 * (TILE_A + TILE_B) floats, afterwards SLAB rows of C. Offsets inside tiles are 32-bit
 * (WIDE_OFFSETS 0), bases 64-bit. */
#include "common.clh"
#include "lanes.clh"

#include "gemm_epilogue.clh"
#include "gemm_operands.clh"
#include "gemm_packed.clh"

#pragma option BM 64 /* tile of C; all sizes are powers of two */
#pragma option BN 64
#pragma option BK 16 /* 8 or more */
#pragma option TM 4  /* TM x TN sums of an item: 2, 4 or 8 each */
#pragma option TN 4
#pragma option VA 4 /* vector width of loads of A and of B: 1, 2, 4, for 16-bit types also 8 */
#pragma option VB 4
#pragma option WIDE_OFFSETS 0 /* 1: an offset inside a tile needs more than 32 bits */
#define ACROSS (BN / TN)      /* items along the edges of a tile */
#define DOWN (BM / TM)
#define ITEMS (ACROSS * DOWN)
#if WIDE_OFFSETS
#define OFFSET ulong
#else
#define OFFSET uint
#endif

#include "gemm_stage.clh"
#include "gemm_tiles.clh"

#define ALONG_A (!(TA))
#define ALONG_B (TB)
#define TILE_A STAGE_FLOATS(ALONG_A, BM, VA)
#define TILE_B STAGE_FLOATS(ALONG_B, BN, VB)
#define TILES_FLOATS (2 * (TILE_A + TILE_B))
#if MOMENT_FLOATS > TILES_FLOATS /* happens only in small tiles, by at most a line */
#define LOCAL_FLOATS MOMENT_FLOATS
#else
#define LOCAL_FLOATS TILES_FLOATS
#endif

#if WINDOWS == 1
#define WINDOWS_PASSES STAGE_COUNT(BM, VA)
#define WINDOWS_WIDE VA
#include "gemm_window_tiles.clh"
DEFINE_WINDOW_FETCH(a, DTA, VA, BM, ALONG_A)
#else
DEFINE_FETCH(a, DTA, VA, BM, ALONG_A)
#endif
#if WINDOWS == 2
#define WINDOWS_PASSES STAGE_COUNT(BN, VB)
#define WINDOWS_WIDE VB
#include "gemm_window_tiles.clh"
DEFINE_WINDOW_FETCH(b, DTB, VB, BN, ALONG_B)
#else
DEFINE_FETCH(b, DTB, VB, BN, ALONG_B)
#endif
DEFINE_PUT(a, DTA, VA, BM, ALONG_A)
DEFINE_PUT(b, DTB, VB, BN, ALONG_B)

/* Loads the tiles of A and B to registers (`left` steps of them exist), and moves on to the next tiles. */
#if WINDOWS == 1
#define FETCH_A(left)                                                                                        \
    do {                                                                                                     \
        fetch_a(raw_a, window_from, &window_tile, left);                                                     \
        ADVANCE_WINDOWS(&window_tile, window_from, &walk);                                                   \
    } while (0)
#else
#define FETCH_A(left)                                                                                        \
    do {                                                                                                     \
        fetch_a(raw_a, a, (OFFSET)lda, lines_a, left);                                                       \
        a += step_a;                                                                                         \
    } while (0)
#endif
#if WINDOWS == 2
#define FETCH_B(left)                                                                                        \
    do {                                                                                                     \
        fetch_b(raw_b, window_from, &window_tile, left);                                                     \
        ADVANCE_WINDOWS(&window_tile, window_from, &walk);                                                   \
    } while (0)
#else
#define FETCH_B(left)                                                                                        \
    do {                                                                                                     \
        fetch_b(raw_b, b, (OFFSET)ldb, lines_b, left);                                                       \
        b += step_b;                                                                                         \
    } while (0)
#endif

/* An item's sums are in chunks of up to 4 x 4, spread over the tile so that neighbouring items read
 * neighbouring vectors. */
#define MV (TM < 4 ? TM : 4)
#define NV (TN < 4 ? TN : 4)
#define WIDE_TYPE_(type, width) type##width
#define WIDE_TYPE(type, width) WIDE_TYPE_(type, width)
#if TM < 4
#define FLOATM float2
#define STORE_M vstore2
#else
#define FLOATM float4
#define STORE_M vstore4
#endif
#if TN < 4
#define FLOATN float2
#else
#define FLOATN float4
#endif
#define CHUNKS (TN / NV)
/* The row of the tile to which the item's row r of sums belongs. */
#define ROW(down, r) ((r) / MV * (BM / (TM / MV)) + (down)*MV + ((r) & (MV - 1)))
#define COLUMN(across, q) ((q) * (BN / CHUNKS) + (across)*NV) /* first column of chunk q */
#define STEPS 8 /* unrolling of the loop over k, a multiple of VA and VB */

/* Adds the outer product of one step of k to the item's sums. */
#define MULTIPLY(at_a, at_b)                                                                                 \
    do {                                                                                                     \
        float left_[TM];                                                                                     \
        FLOATN right_[CHUNKS];                                                                               \
        UNROLL_FOR (uint r_ = 0; r_ < TM / MV; r_++)                                                         \
            STORE_M(*(__local const FLOATM *)((at_a) + ROW(0, r_ * MV)), r_, left_);                         \
        UNROLL_FOR (uint q_ = 0; q_ < CHUNKS; q_++)                                                          \
            right_[q_] = *(__local const FLOATN *)((at_b) + COLUMN(0, q_));                                  \
        UNROLL_FOR (uint r_ = 0; r_ < TM; r_++)                                                              \
            UNROLL_FOR (uint q_ = 0; q_ < CHUNKS; q_++)                                                      \
                sums[r_][q_] = fma((FLOATN)(left_[r_]), right_[q_], sums[r_][q_]);                           \
    } while (0)

/* All BK steps of a pair of tiles. */
CLT_INLINE void multiply_tile(FLOATN sums[TM][CHUNKS], __local const float *a, __local const float *b)
{
#pragma unroll 1
    for (uint p = 0; p < BK; p += STEPS) {
#pragma unroll
        for (uint s = 0; s < STEPS; s++)
            MULTIPLY(a + STAGE_AT(ALONG_A, BM, VA, s), b + STAGE_AT(ALONG_B, BN, VB, s));
        a += STAGE_AT(ALONG_A, BM, VA, STEPS);
        b += STAGE_AT(ALONG_B, BN, VB, STEPS);
    }
}

/* Only the first `left` steps: the rest of the tiles is zero, but adding its products would change the
 * result, because -0 + 0 is +0. */
CLT_INLINE void multiply_rest(FLOATN sums[TM][CHUNKS], __local const float *a, __local const float *b,
                              uint left)
{
#pragma unroll 1
    for (uint p = 0; p < left; p++)
        MULTIPLY(a + STAGE_AT(ALONG_A, BM, VA, p), b + STAGE_AT(ALONG_B, BN, VB, p));
}

/* The number of rows of each item's sums that fit into local memory together. */
#if TM * DOWN * BN <= LOCAL_FLOATS
#define SLAB TM
#elif TM / 2 * DOWN * BN <= LOCAL_FLOATS
#define SLAB (TM / 2)
#elif TM / 4 * DOWN * BN <= LOCAL_FLOATS && TM >= 4
#define SLAB (TM / 4)
#else
#define SLAB 1
#endif

/* gemm_fwd_tile: one group per tile of C and part of k, numbered in one dimension (gemm_tiles.clh). */
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void gemm_fwd_tile(TILES_PARAMS)
{
    __local float tiles[LOCAL_FLOATS] __attribute__((aligned(16)));
    uint lid = (uint)get_local_id(0);
#if ACROSS >= 8 && DOWN >= 4 /* 32 consecutive items, a warp, make a block of 8 by 4 */
    uint block = lid / 32;
    uint down = block / (ACROSS / 8) * 4 + (lid & 31) / 8,
         across = (block & (ACROSS / 8 - 1)) * 8 + (lid & 7);
#else
    uint down = lid / ACROSS, across = lid & (ACROSS - 1);
#endif
    gemm_share share;
    TILES_SHARE(share);
    uint i0 = share.i0, j0 = share.j0, z = share.z, k0 = share.k0, depth = share.depth, item = share.item;
    (void)item;
#if WINDOWS
    WINDOWS_OF_KERNEL;
#endif
#if WINDOWS == 1
    __global const STORAGE(DTA) * window_from[STAGE_COUNT(BM, VA)];
    start_a(&window_tile, window_from, &windows, a + a_at + z * stride_a, i0, m, k0, k);
#else
    uint lines_a = min(m - i0, (uint)BM);
    ulong step_a = TA ? BK * lda : BK;
    a += a_at + z * stride_a + (TA ? k0 * lda + i0 : i0 * lda + k0);
#endif
#if WINDOWS == 2
    __global const STORAGE(DTB) * window_from[STAGE_COUNT(BN, VB)];
    start_b(&window_tile, window_from, &windows, b + b_at + z * stride_b, k0, k, j0, n);
#else
    uint lines_b = min(n - j0, (uint)BN);
    ulong step_b = TB ? BK : BK * ldb;
    b += b_at + z * stride_b + (TB ? j0 * ldb + k0 : k0 * ldb + j0);
#endif

    FLOATN sums[TM][CHUNKS];
#pragma unroll
    for (uint r = 0; r < TM; r++)
#pragma unroll
        for (uint q = 0; q < CHUNKS; q++)
            sums[r][q] = (FLOATN)(0.0f);

    RAW(DTA, VA) raw_a[STAGE_COUNT(BM, VA)];
    RAW(DTB, VB) raw_b[STAGE_COUNT(BN, VB)];
    uint whole = depth / BK, rest = depth & (BK - 1), steps = whole + (rest != 0);
    __local const float *from_a = tiles + ROW(down, 0), *from_b = tiles + 2 * TILE_A + COLUMN(across, 0);
    /* Software pipeline: iteration t loads pair t of tiles and multiplies pair t - 1. */
#pragma unroll 1
    for (uint t = 0; t <= whole; t++) {
        uint next = t & 1, now = next ^ 1;
        if (t < steps) {
            FETCH_A(depth - t * BK);
            FETCH_B(depth - t * BK);
        }
        if (t > 0)
            multiply_tile(sums, from_a + now * TILE_A, from_b + now * TILE_B);
        if (t < steps) {
            put_a(tiles + next * TILE_A, raw_a);
            put_b(tiles + 2 * TILE_A + next * TILE_B, raw_b);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (rest != 0) /* the last, incomplete pair */
        multiply_rest(sums, from_a + (whole & 1) * TILE_A, from_b + (whole & 1) * TILE_B, rest);

    /* The sums go through local memory, so that rows of C are written by neighbouring items (coalesced), and
     * the code of the epilogue exists only once. */
    MOMENTS_BEGIN;
#pragma unroll 1
    for (uint r0 = 0; r0 < TM; r0 += SLAB) {
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
        for (uint r = 0; r < TM; r++)
            if (r >= r0 && r < r0 + SLAB)
#pragma unroll
                for (uint q = 0; q < CHUNKS; q++)
                    *(__local FLOATN *)(tiles + ((r - r0) * DOWN + down) * BN + COLUMN(across, q)) =
                        sums[r][q];
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll 1
        for (uint e = lid * VC; e < SLAB * DOWN * BN; e += ITEMS * VC) {
            uint line = e / BN, j = j0 + (e & (BN - 1)), r = r0 + line / DOWN;
            uint i = i0 + ROW(line & (DOWN - 1), r);
            if (i < m)
                PUT_SUMS(i, j, tiles + e);
        }
    }
    MOMENTS_STORE(tiles);
}
