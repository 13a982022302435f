/* SPDX-License-Identifier: Apache-2.0
 *
 * GEMM backend `mma`, for GPUs with matrix units: A and B of one 16-bit type, or f32 rounded to 10 bits of
 * mantissa (MMA_TF32); f32 sums. A work-group computes a BM x BN tile of C, each of its warps a WM x WN
 * part. Tiles of A and B of BK steps of k go through STAGES slots of local memory: while one slot is
 * multiplied, the next STAGES - 1 are being filled from global memory. Any layout, any size, any stride; A
 * or B may be the matrix of windows of an image, which is never stored (WINDOWS, gemm_window_tiles.clh).
 * Host side: cl/backends/gemm_mma.c, which gives the reasons for the tile sizes. Must not know what the
 * matrices mean.
 *
 * Instructions. A scheduler issues one instruction a clock, and a matrix multiplication occupies the matrix
 * unit for 8 clocks (Ampere) or about 6.5 (Hopper), so all other instructions of a step must fit in between.
 * Steps whose tiles are whole therefore have a separate loop: its copies need no zero-filling (a copy with a
 * size is about 18 instructions), an item's pointers and local addresses are advanced by constants instead
 * of being computed again, the first fragments are loaded before the copies start, and the copies are issued
 * between the multiplications. A second loop computes tiles at the edges, the last steps of k and unaligned
 * operands. A step of 128 x 128 x 32 has 77 to 87 instructions for 32 multiplications on sm_80, 78 to 91 on
 * sm_90, while 256 and about 208 can be issued in that time. A step of f32, 128 x 128 x 16, has about 141 on
 * sm_80, 108 to 120 on sm_90 (docs/results.md). f32 is rounded once, by the item that copied it, before the
 * barrier that makes it visible; if fragments were rounded, every warp that reads them would round again.
 *
 * Lines and steps. A tile has the same order in local as in global memory: rows of chunks. A chunk is the
 * neighbouring elements that fill 16 bytes. Where k runs along the rows (A plain, B transposed), a row is a
 * line of the matrix, which is a row of A or a column of B; otherwise a row is a step of k. Fragment loads
 * transpose where needed. Chunk c of row r is stored at chunk c ^ SWIZZLE(r): eight rows of one chunk, which
 * a fragment load reads together, are then in eight different groups of four banks. Volta's loads (wmma)
 * cannot use a swizzle, so there rows are padded by one chunk instead.
 *
 * Pairs of steps. No fragment load can transpose f32 elements in rows that are steps of k. For such a tile
 * an item copies the same four lines of steps r and r + 4. When it rounds them, it writes them back in the
 * order in which items multiply them: steps r and r + 4 of two lines, then of the other two. So an item
 * loads its part of a fragment by one load of 16 bytes. This part holds neighbouring lines, while the
 * instruction assumes lines that are 8 apart (A) or in different fragments (B). The rows or columns of the
 * sums therefore belong to other lines, which LINE_OF_ROW and spread_sums compute; the values of the sums do
 * not change.
 *
 * C. Sums go through local memory, sixteen rows of every warp at a time, so that an item finishes VC
 * neighbours of a row: C and the operands of the epilogue are read and written 16 bytes at a time where they
 * are aligned (gemm_tiles.clh).
 *
 * Sums run over k in steps of 16 (f32: 8); within a step the hardware chooses the order. Every run gives the
 * same bits, but other backends give different ones. Elements after the last step of k are 0 in both
 * tiles. */
#include "common.clh"
#include "lanes.clh"

#pragma option DTA f16 /* one type for A and B: bf16 with MMA_BF16, f32 with MMA_TF32, else f16 */
#pragma option DTB DTA
#include "gemm_epilogue.clh"
#include "gemm_operands.clh"
#include "gemm_packed.clh"

#pragma option BM 64 /* tile of C; all sizes are powers of two */
#pragma option BN 64
#pragma option BK 32 /* at least two chunks */
#pragma option WM 32 /* the part of C of one warp: WM and WN at least 16 */
#pragma option WN 32
#pragma option STAGES 3    /* at least 2 */
#pragma option ALIGNED_A 1 /* 1: every chunk of A (of B) is aligned to 16 bytes */
#pragma option ALIGNED_B 1
#include "gemm_tiles.clh"
#include "local_argument.clh"
#include "mma.clh"

/* STAGES - 2 as a literal: number of batches of copies that may be pending while a tile is multiplied. */
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
#define MI (WM / 16) /* fragments of a warp along m */
#define FRAGMENT_COLUMNS (MMA_SM >= 75 ? 8 : 16)
#define NI (WN / FRAGMENT_COLUMNS)
#if MMA_SM >= 75
#define SUMS float4
#else
#define SUMS float8
#endif
#if MMA_TF32
#define CHUNK 4 /* elements */
#define PACK_CHUNK(e) as_uint4(vload4(0, e))
#else
#define CHUNK 8
#define PACK_CHUNK(e) pack_16_8(e)
#endif

#define ALONG_A (!(TA)) /* rows run along k */
#define ALONG_B (TB)
#define PADDED (MMA_SM < 75)
#define ROW_CHUNKS(along, lines) ((along) ? BK / CHUNK : (lines) / CHUNK)
#define ROWS(along, lines) ((along) ? (lines) : BK)
#define PITCH(along, lines) (ROW_CHUNKS(along, lines) + PADDED)
#define SWIZZLE_ROWS(row, per) ((per) >= 8 ? (row)&7 : (row) / (8 / ((per) > 8 ? 8 : (per))) & ((per)-1))
#define PAIRED(along) (MMA_TF32 && !(along))
#define SWIZZLE_PAIRS(row, per) ((2 * ((row)&3) | ((per) > 8 ? 0 : (row) >> 2 & 1)) & ((per)-1))
#define SWIZZLE(row, along, per) (PAIRED(along) ? SWIZZLE_PAIRS(row, per) : SWIZZLE_ROWS(row, per))
/* Position of a chunk in a slot, in chunks. */
#define PLACE(row, chunk, along, lines)                                                                      \
    (PADDED ? (row)*PITCH(along, lines) + (chunk)                                                            \
            : (row)*ROW_CHUNKS(along, lines) + ((chunk) ^ (SWIZZLE(row, along, ROW_CHUNKS(along, lines)))))
#define SLOT_A (ROWS(ALONG_A, BM) * PITCH(ALONG_A, BM)) /* chunks */
#define SLOT_B (ROWS(ALONG_B, BN) * PITCH(ALONG_B, BN))
#define SLOT (SLOT_A + SLOT_B)
/* Floats from one row of sums to the next in local memory, so that eight rows of pairs, or two rows of four
 * vectors of four, are in different banks. */
#define LINE_FLOATS (BN + (!PAIRED(ALONG_B) ? 8 : WN < 32 ? 16 : 4))
#define SLAB_FLOATS (WARPS_DOWN * 16 * LINE_FLOATS)
#define MOMENT_CHUNKS ((MOMENT_FLOATS + 3) / 4)
#if MOMENT_CHUNKS > STAGES * SLOT && MOMENT_CHUNKS > SLAB_FLOATS / 4 /* by a line at most, in small tiles */
#define LOCAL_CHUNKS MOMENT_CHUNKS
#elif STAGES * SLOT > SLAB_FLOATS / 4
#define LOCAL_CHUNKS (STAGES * SLOT)
#else
#define LOCAL_CHUNKS (SLAB_FLOATS / 4)
#endif

/* A place is an address in local memory, in bytes. With NVIDIA's compiler it is the 32-bit address that
 * instructions for local memory take; otherwise it is relative to the start of the slots. The slots are
 * aligned to 128 bytes. */
#ifdef __NV_CL_C_VERSION
#define FIRST_PLACE(memory) ((uint)(size_t)(memory))
#define AT(memory, place) ((__local uchar *)(size_t)(place))
#define LOAD_AT(memory, place, scratch) mma_load(place)
#define LOAD_T_AT(memory, place, scratch) mma_load_t(place)
#else
#define FIRST_PLACE(memory) 0
#define AT(memory, place) ((__local uchar *)(memory) + (place))
#define LOAD_AT(memory, place, scratch) MMA_LOAD((__local const ushort *)(memory), (place) / 2, scratch)
#define LOAD_T_AT(memory, place, scratch) MMA_LOAD_T((__local const ushort *)(memory), (place) / 2, scratch)
#endif

#include "gemm_mma_copies.clh"

#if WINDOWS == 1
#define WINDOWS_PASSES ITEM_CHUNKS(ALONG_A, BM)
#define WINDOWS_WIDE CHUNK
#include "gemm_window_tiles.clh"
DEFINE_WINDOW_TILE(a, BM, ALONG_A, ALIGNED_A)
#else
DEFINE_TILE(a, BM, ALONG_A, ALIGNED_A)
#endif
#if WINDOWS == 2
#define WINDOWS_PASSES ITEM_CHUNKS(ALONG_B, BN)
#define WINDOWS_WIDE CHUNK
#include "gemm_window_tiles.clh"
DEFINE_WINDOW_TILE(b, BN, ALONG_B, ALIGNED_B)
#else
DEFINE_TILE(b, BN, ALONG_B, ALIGNED_B)
#endif
DEFINE_PLACES(a, BM, ALONG_A, ALIGNED_A, PAIR_A)
DEFINE_PLACES(b, BN, ALONG_B, ALIGNED_B, PAIR_B)

/* The operations that differ between a matrix in memory and one of windows: PASS copies chunk p of the next
 * tile of A (of B), BRING copies the whole tile with all checks, ADVANCE moves on to the tile after that. */
#if WINDOWS == 1
#define PASS_A(p) pass_a(memory, to_left, raw_a, from_left[p], p, WINDOW_INSIDE(&window_tile, p), a)
#define BRING_A(left) bring_a(memory, to_left, raw_a, from_left, &windows, &window_tile, left, a)
#define ADVANCE_A() ADVANCE_WINDOWS(&window_tile, from_left, &walk)
#else
#define PASS_A(p) pass_a(memory, to_left, raw_a, from_left[p], p)
#define BRING_A(left) bring_a(memory, to_left, raw_a, from_left, a, lines_a, left)
#define ADVANCE_A()                                                                                          \
    do {                                                                                                     \
        UNROLL_FOR (uint p = 0; p < ITEM_CHUNKS(ALONG_A, BM); p++)                                           \
            from_left[p] = ALONG_A ? from_left[p] + BK : MMA_ROWS_ON(from_left[p], BK, lda);                 \
    } while (0)
#endif
#if WINDOWS == 2
#define PASS_B(p) pass_b(memory, to_right, raw_b, from_right[p], p, WINDOW_INSIDE(&window_tile, p), b)
#define BRING_B(left) bring_b(memory, to_right, raw_b, from_right, &windows, &window_tile, left, b)
#define ADVANCE_B() ADVANCE_WINDOWS(&window_tile, from_right, &walk)
#else
#define PASS_B(p) pass_b(memory, to_right, raw_b, from_right[p], p)
#define BRING_B(left) bring_b(memory, to_right, raw_b, from_right, b, lines_b, left)
#define ADVANCE_B()                                                                                          \
    do {                                                                                                     \
        UNROLL_FOR (uint p = 0; p < ITEM_CHUNKS(ALONG_B, BN); p++)                                           \
            from_right[p] = ALONG_B ? from_right[p] + BK : MMA_ROWS_ON(from_right[p], BK, ldb);              \
    } while (0)
#endif

#if MMA_SM >= 75

/* Fragments of 16 lines of A, of B: four matrices of 8 x 8 elements (f32: 8 x 4). For A, matrix 1 is the
 * lower left one and 2 the upper right one; for B, matrix 1 has later steps, and 2 more columns. An item
 * passes the address of its row of one of the matrices. With pairs of steps it reads its own part instead:
 * lane 4 g + t reads steps t and t + 4 of two of the four lines from 4 g on, every 32 lines, or, in parts of
 * 16 lines, of two of the four lines from 4 (g / 2) on.
 *   at_NAME(line): the item's address for the fragment of the first steps, if the warp's part starts at line
 *       `line` of the tile
 *   fragment_NAME(memory, at, i, step): fragment i of the warp, from chunk `step` of k on. Its address
 *       differs from `at` by constants: moving by 16 lines or two chunks changes only bits that the swizzle
 *       does not change, or changes equally for both addresses. */
#define DEFINE_FRAGMENT(name, tile_lines, along, lines_first, part)                                          \
    static inline uint at_##name(uint line)                                                                  \
    {                                                                                                        \
        uint lane = MMA_LANE, low = lane & 7, odd = (lane >> 3) & 1, late = lane >> 4;                       \
        uint more_lines = (lines_first) ? odd : late, more_steps = (lines_first) ? late : odd;               \
        if (along)                                                                                           \
            return 16 * (PLACE(line + 8 * more_lines + low, more_steps, along, tile_lines));                 \
        return TRANSPOSED_AT(tile_lines, part);                                                              \
    }                                                                                                        \
    CLT_INLINE uint4 fragment_##name(__local const uint4 *memory, uint at, uint i, uint step,                \
                                     __local uint *scratch)                                                  \
    {                                                                                                        \
        if (along)                                                                                           \
            return LOAD_AT(memory, (at ^ (16 * step)) + 256 * i * ROW_CHUNKS(along, tile_lines), scratch);   \
        return TRANSPOSED(tile_lines);                                                                       \
    }
#if MMA_TF32
#define TRANSPOSED_AT(tile_lines, part)                                                                      \
    ((part) < 32                                                                                             \
         ? 16 * (PLACE((lane & 3) + 4 * (lane >> 2 & 1), line / CHUNK + (lane >> 3), false, tile_lines))     \
         : 16 * (PLACE(lane & 3, line / CHUNK + (lane >> 2), false, tile_lines)))
#define TRANSPOSED(tile_lines)                                                                               \
    (*(__local const uint4 *)(AT(memory,                                                                     \
                                 at ^ (16 * (SWIZZLE(4 * (i & 1), false, ROW_CHUNKS(false, tile_lines))))) + \
                              16 * (CHUNK * step + 4 * (i & 1)) * ROW_CHUNKS(false, tile_lines) +            \
                              128 * (i / 2)))
#else
#define TRANSPOSED_AT(tile_lines, part)                                                                      \
    (16 * (PLACE(8 * more_steps + low, line / CHUNK + more_lines, false, tile_lines)))
#define TRANSPOSED(tile_lines)                                                                               \
    LOAD_T_AT(memory, (at ^ (32 * i)) + 16 * CHUNK * step * ROW_CHUNKS(false, tile_lines), scratch)
#endif
DEFINE_FRAGMENT(a, BM, ALONG_A, true, WM)
DEFINE_FRAGMENT(b, BN, ALONG_B, false, WN)

/* MULTIPLY_SLOT(between): this warp multiplies all BK steps of the tiles in the current slot; between(row)
 * is executed after each row of fragments of the first steps. */
#define MULTIPLY_SLOT(between)                                                                               \
    MMA_UNROLL_FOR (uint step = 0; step < BK / CHUNK; step += 2) {                                           \
        uint4 left[MI];                                                                                      \
        uint2 right[NI];                                                                                     \
        MMA_UNROLL_FOR (uint j = 0; j < NI; j += 2) {                                                        \
            uint4 pair = fragment_b(memory, at_right, j / 2, step, scratch);                                 \
            right[j] = (uint2)(pair.x, pair.y);                                                              \
            right[j + 1] = (uint2)(pair.z, pair.w);                                                          \
        }                                                                                                    \
        MMA_UNROLL_FOR (uint i = 0; i < MI; i++)                                                             \
            left[i] = fragment_a(memory, at_left, i, step, scratch);                                         \
        MMA_UNROLL_FOR (uint i = 0; i < MI; i++) {                                                           \
            MMA_UNROLL_FOR (uint j = 0; j < NI; j++)                                                         \
                MMA_MULTIPLY(sums[i][j], left[i], right[j], scratch);                                        \
            if (step == 0) {                                                                                 \
                between(i);                                                                                  \
            }                                                                                                \
        }                                                                                                    \
    }

/* Writes sixteen rows of this warp's sums (fragments i) to local memory at `to`, with LINE_FLOATS floats per
 * row. With pairs of steps, columns g of four fragments are columns 4 g to 4 g + 3 of C (with two fragments,
 * their columns 2 t and 2 t + 1 are columns 4 t to 4 t + 3), and an item has columns 2 t and 2 t + 1 of each
 * fragment. */
CLT_INLINE void spread_sums(__local float *to, SUMS sums[MI][NI], uint i)
{
    __local float *rows = to + (MMA_LANE >> 2) * LINE_FLOATS;
    uint t = MMA_LANE & 3;
#if MMA_TF32 && !ALONG_B && WN < 32
    *(__local float4 *)(rows + 4 * t) = (float4)(sums[i][0].x, sums[i][0].y, sums[i][1].x, sums[i][1].y);
    *(__local float4 *)(rows + 8 * LINE_FLOATS + 4 * t) =
        (float4)(sums[i][0].z, sums[i][0].w, sums[i][1].z, sums[i][1].w);
#elif MMA_TF32 && !ALONG_B
    MMA_UNROLL_FOR (uint j = 0; j < NI; j += 4) {
        __local float4 *to4 = (__local float4 *)(rows + 8 * j + 8 * t), *low4 = to4 + 8 * LINE_FLOATS / 4;
        to4[0] = (float4)(sums[i][j].x, sums[i][j + 2].x, sums[i][j + 1].x, sums[i][j + 3].x);
        to4[1] = (float4)(sums[i][j].y, sums[i][j + 2].y, sums[i][j + 1].y, sums[i][j + 3].y);
        low4[0] = (float4)(sums[i][j].z, sums[i][j + 2].z, sums[i][j + 1].z, sums[i][j + 3].z);
        low4[1] = (float4)(sums[i][j].w, sums[i][j + 2].w, sums[i][j + 1].w, sums[i][j + 3].w);
    }
#else
    MMA_UNROLL_FOR (uint j = 0; j < NI; j++) {
        *(__local float2 *)(rows + 2 * t + 8 * j) = (float2)(sums[i][j].x, sums[i][j].y);
        *(__local float2 *)(rows + 8 * LINE_FLOATS + 2 * t + 8 * j) = (float2)(sums[i][j].z, sums[i][j].w);
    }
#endif
}

#else

static inline uint at_a(uint line)
{
    return 2 * (ALONG_A ? line * CHUNK * PITCH(ALONG_A, BM) : line);
}
static inline uint at_b(uint line)
{
    return 2 * (ALONG_B ? line * CHUNK * PITCH(ALONG_B, BN) : line);
}
#define MULTIPLY_SLOT(between)                                                                               \
    MMA_UNROLL_FOR (uint step = 0; step < BK; step += 16) {                                                  \
        __local const ushort *tile_a = (__local const ushort *)AT(memory, at_left);                          \
        __local const ushort *tile_b = (__local const ushort *)AT(memory, at_right);                         \
        const uint ld_a = CHUNK * PITCH(ALONG_A, BM), ld_b = CHUNK * PITCH(ALONG_B, BN);                     \
        uint8 right[NI];                                                                                     \
        MMA_UNROLL_FOR (uint j = 0; j < NI; j++)                                                             \
            right[j] = WMMA_LOAD_B(tile_b, ALONG_B ? 16 * j * ld_b + step : step * ld_b + 16 * j, ld_b,      \
                                   !(ALONG_B));                                                              \
        MMA_UNROLL_FOR (uint i = 0; i < MI; i++) {                                                           \
            uint8 left = WMMA_LOAD_A(tile_a, ALONG_A ? 16 * i * ld_a + step : step * ld_a + 16 * i, ld_a,    \
                                     !(ALONG_A));                                                            \
            MMA_UNROLL_FOR (uint j = 0; j < NI; j++)                                                         \
                WMMA_MULTIPLY(sums[i][j], left, right[j], !(ALONG_A), !(ALONG_B), scratch);                  \
            if (step == 0) {                                                                                 \
                between(i);                                                                                  \
            }                                                                                                \
        }                                                                                                    \
    }

CLT_INLINE void spread_sums(__local float *to, SUMS sums[MI][NI], uint i)
{
    MMA_UNROLL_FOR (uint j = 0; j < NI; j++)
        WMMA_STORE(to + 16 * j, LINE_FLOATS, sums[i][j]);
}

#endif

/* STEP(whole): one step of the main loop: multiplies slot `now` and starts to copy the tiles of the step
 * STAGES - 1 steps later into the slot that was multiplied in the step before. For whole tiles, an item's
 * copies are spread between the first multiplications; other tiles are copied with all checks before the
 * multiplications. Addresses advance by the same number in every step or, for a matrix of windows, as the
 * item's counter says (ADVANCE_WINDOWS). */
#define ITEM_COPIES (ITEM_CHUNKS(ALONG_A, BM) + ITEM_CHUNKS(ALONG_B, BN))
#define COPIES_BEFORE(row) ((row)*ITEM_COPIES / MI)
#define COPY_ONE(p)                                                                                          \
    do {                                                                                                     \
        if ((p) < ITEM_CHUNKS(ALONG_A, BM))                                                                  \
            PASS_A(p);                                                                                       \
        else                                                                                                 \
            PASS_B((p)-ITEM_CHUNKS(ALONG_A, BM));                                                            \
    } while (0)
#define COPY_SOME(row)                                                                                       \
    if (now_whole) {                                                                                         \
        UNROLL_FOR (uint p = 0; p < ITEM_COPIES; p++) {                                                      \
            if (p >= COPIES_BEFORE(row) && p < COPIES_BEFORE((row) + 1))                                     \
                COPY_ONE(p);                                                                                 \
        }                                                                                                    \
    }
#define STEP(whole)                                                                                          \
    do {                                                                                                     \
        const bool now_whole = (whole), more = now_whole || t + STAGES - 1 < steps;                          \
        uint on = now == (STAGES - 1) * 16 * SLOT ? (uint) - (STAGES - 1) * 16 * SLOT : 16 * SLOT;           \
        MMA_COPIES_WAIT(STAGES_LEFT);                                                                        \
        ROUND_OWN();                                                                                         \
        barrier(CLK_LOCAL_MEM_FENCE); /* tile t has arrived, and the slot before it is no longer read */     \
        if (!now_whole && more)                                                                              \
            BRING(t + STAGES - 1);                                                                           \
        MULTIPLY_SLOT(COPY_SOME);                                                                            \
        MMA_COPIES_END();                                                                                    \
        if (more)                                                                                            \
            LAND();                                                                                          \
        ADVANCE();                                                                                           \
        to_left += ahead;                                                                                    \
        to_right += ahead;                                                                                   \
        at_left += on;                                                                                       \
        at_right += on;                                                                                      \
        now += on;                                                                                           \
        ahead = on;                                                                                          \
    } while (0)
/* Starts the copies of the tiles of step s, parts of which may not exist. */
#define BRING(s)                                                                                             \
    do {                                                                                                     \
        int left_ = (int)min(depth - (s)*BK, (uint)BK);                                                      \
        BRING_A(left_);                                                                                      \
        BRING_B(left_);                                                                                      \
    } while (0)
#define LAND()                                                                                               \
    do {                                                                                                     \
        land_a(memory, to_left, raw_a);                                                                      \
        land_b(memory, to_right, raw_b);                                                                     \
    } while (0)
#define ADVANCE()                                                                                            \
    do {                                                                                                     \
        ADVANCE_A();                                                                                         \
        ADVANCE_B();                                                                                         \
    } while (0)
#if MMA_TF32 /* every item rounds the elements that it copied itself, which it can read before the barrier */
#define ROUND_OWN()                                                                                          \
    do {                                                                                                     \
        uint4 own_a[ITEM_CHUNKS(ALONG_A, BM)], own_b[ITEM_CHUNKS(ALONG_B, BN)];                              \
        get_a(memory, to_left + ahead, own_a);                                                               \
        get_b(memory, to_right + ahead, own_b);                                                              \
        put_rounded_a(memory, to_left + ahead, own_a);                                                       \
        put_rounded_b(memory, to_right + ahead, own_b);                                                      \
    } while (0)
#else
#define ROUND_OWN()
#endif

/* The line of a warp's part of A to which row r of fragments i belongs. */
#if MMA_TF32 && !ALONG_A && WM < 32
#define LINE_OF_ROW(i, r) (2 * ((r)&7) + (r) / 8)
#elif MMA_TF32 && !ALONG_A
#define LINE_OF_ROW(i, r) (32 * ((i) / 2) + 4 * ((r)&7) + 2 * ((i)&1) + (r) / 8)
#else
#define LINE_OF_ROW(i, r) (16 * (i) + (r))
#endif

/* gemm_fwd_mma: one group per tile of C and part of k, numbered in one dimension (gemm_tiles.clh). */
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void gemm_fwd_mma(TILES_PARAMS LOCAL_PARAM)
{
    LOCAL_ARRAY(slots, LOCAL_CHUNKS, 128);
#if MMA_SCRATCH
    /* batch is never 0, so this adds nothing. Without it PoCL 3.1 allocates the array twice when only
     * functions use its address. */
    __local uint4 *memory = slots + (batch == 0);
    __local uint scratches[ITEMS / 32 * MMA_SCRATCH];
    __local uint *scratch = scratches + (uint)get_local_id(0) / 32 * MMA_SCRATCH;
#else
    __local uint4 *memory = slots;
    __local uint *scratch = (__local uint *)slots; /* unused */
#endif
    uint lid = (uint)get_local_id(0), warp = lid / 32;
    uint row = warp / WARPS_ACROSS * WM, column = (warp & (WARPS_ACROSS - 1)) * WN;
    gemm_share share;
    TILES_SHARE(share);
    uint i0 = share.i0, j0 = share.j0, z = share.z, k0 = share.k0, depth = share.depth, item = share.item;
    (void)item;
    int lines_a = (int)min(m - i0, (uint)BM), lines_b = (int)min(n - j0, (uint)BN);
    a += a_at;
    b += b_at;
    __global const STORAGE(DTA) * from_left[ITEM_CHUNKS(ALONG_A, BM)];
    __global const STORAGE(DTB) * from_right[ITEM_CHUNKS(ALONG_B, BN)];
#if WINDOWS
    WINDOWS_OF_KERNEL;
#endif
#if WINDOWS == 1
    start_a(&window_tile, from_left, &windows, a + z * stride_a, i0, m, k0, k);
#else
    start_a(from_left, a + z * stride_a + (TA ? k0 * lda + i0 : i0 * lda + k0), lda);
#endif
#if WINDOWS == 2
    start_b(&window_tile, from_right, &windows, b + z * stride_b, k0, k, j0, n);
#else
    start_b(from_right, b + z * stride_b + (TB ? j0 * ldb + k0 : k0 * ldb + j0), ldb);
#endif

    SUMS sums[MI][NI];
    MMA_UNROLL_FOR (uint i = 0; i < MI; i++) {
        MMA_UNROLL_FOR (uint j = 0; j < NI; j++)
            sums[i][j] = (SUMS)(0.0f);
    }

    uint steps = (depth + BK - 1) / BK, t = 0;
    uint to_left = FIRST_PLACE(memory) + to_a(), to_right = FIRST_PLACE(memory) + to_b() + 16 * SLOT_A;
    uint at_left = FIRST_PLACE(memory) + at_a(row),
         at_right = FIRST_PLACE(memory) + at_b(column) + 16 * SLOT_A;
    uint4 raw_a[ITEM_CHUNKS(ALONG_A, BM)], raw_b[ITEM_CHUNKS(ALONG_B, BN)];
#pragma unroll 1
    for (uint s = 0; s < STAGES - 1; s++) {
        if (s < steps) {
            BRING(s);
            LAND();
        }
        ADVANCE();
        to_left += 16 * SLOT;
        to_right += 16 * SLOT;
        MMA_COPIES_END();
    }
    /* Number of steps whose tiles are whole. */
    bool whole_a = WINDOWS == 1 || lines_a == BM, whole_b = WINDOWS == 2 || lines_b == BN;
    uint whole = ALIGNED_A && ALIGNED_B && whole_a && whole_b ? depth / BK : 0;
    /* In bytes: the distance of the slot that is multiplied from slot 0, and from the slot to fill. */
    uint now = 0, ahead = (uint) - (STAGES - 1) * 16 * SLOT;
#if defined(__NV_CL_C_VERSION)
    whole = whole > STAGES - 1 ? whole - (STAGES - 1) : 0;
#pragma unroll 1
    for (; t < whole; t++)
        STEP(true);
#pragma unroll 1
    for (; t < steps; t++)
        STEP(false);
#else
    /* not written as a saturating subtraction, which becomes an intrinsic function that Oclgrind lacks */
    for (; t < steps; t++)
        STEP(t + STAGES - 1 < whole);
#endif
    MMA_COPIES_WAIT(0);

    /* The sums go through local memory, sixteen rows of every warp at a time, so that rows of C are written
     * by neighbouring items (coalesced). */
    __local float *lines = (__local float *)memory;
    MOMENTS_BEGIN;
    MMA_UNROLL_FOR (uint i = 0; i < MI; i++) {
        barrier(CLK_LOCAL_MEM_FENCE);
        spread_sums(lines + warp / WARPS_ACROSS * 16 * LINE_FLOATS + column, sums, i);
        barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll 1
        for (uint e = lid * VC; e < WARPS_DOWN * 16 * BN; e += ITEMS * VC) {
            uint line = e / BN, at = e & (BN - 1);
            uint ci = i0 + line / 16 * WM + LINE_OF_ROW(i, line & 15), cj = j0 + at;
            if (ci < m)
                PUT_SUMS(ci, cj, lines + line * LINE_FLOATS + at);
        }
    }
    MOMENTS_STORE(lines);
}
