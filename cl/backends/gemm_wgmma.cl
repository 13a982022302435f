/* SPDX-License-Identifier: Apache-2.0
 *
 * GEMM backend `wgmma`, for compute capability 9.0: A and B of one 16-bit type, f32 sums. A work-group
 * computes a BM x BN tile of C, each group of four warps a WM x WN part of it. Tiles of 64 steps of k go
 * through STAGES slots of local memory: asynchronous copies bring them, and the matrix units read them from
 * there, not from registers (wgmma.clh). Any layout and any size. Chunks of 16 bytes must start at multiples
 * of 16 bytes in global memory, as they do in every row whose length is a multiple of eight; `mma` computes
 * other products, because their elements would go through registers one by one and gain nothing from faster
 * units. A or B may be the matrix of windows of an image, which is never stored (WINDOWS,
 * gemm_window_tiles.clh). Host side: cl/backends/gemm_wgmma.c. Must not know what the matrices mean.
 *
 * Edges. Tiles at the edges and the last steps of k are copied with zeros for what does not exist, in the
 * same loop: copies with a size cost about 18 instructions each. That is much for `mma` and little here,
 * because one instruction multiplies for 128 clocks.
 *
 * Slots. With four, one batch of products is left in flight when a step ends, so that the units always have
 * the next batch waiting. The slot read two steps before is then free, and copies are two steps ahead. With
 * two or three slots copies need all of them, and a step ends when its products end. If the unit has room
 * for a second work-group, this one fills the gap.
 *
 * Registers. 64 x 256 or 128 x 128 sums of a group of four warps are 128 registers an item; 256 items may
 * have 255 registers each, 384 items 168. Speed is bound by the bytes from the second-level cache for each
 * multiply-add: 128 x 256 needs three quarters of the bytes of 128 x 128, and 192 x 256 (384 items, 256 of
 * them copy) seven twelfths.
 *
 * Sums of A's lines (LINE_SUMS) are products of A with ones, eight columns wide. Each costs an eighth of the
 * product that it accompanies, because A must be read again. So groups with the same lines take turns if k
 * is divided into parts (gemm_tiles.clh); otherwise only the first group of a row of tiles computes the
 * sums.
 *
 * Stream-k (STREAM, gemm_tiles.clh). A group computes parts of one tile after the other, and runs the whole
 * loop over the steps for each. Its copies for the next tile start only after the sums of the last one were
 * read from local memory, because the sums take all of this memory, or all but a slot (192 x 256 with four
 * slots: sums 198 KiB, slots 224, device 227), and all registers that copies would need.
 *
 * C. Sums go through local memory, 64 rows of every group of four warps at a time, so that an item finishes
 * VC neighbours of a row, as in gemm_mma.cl (gemm_tiles.clh). Sums run over k in steps of 16; within a step
 * the hardware chooses the order. */
#include "common.clh"
#include "lanes.clh"

#pragma option DTA f16 /* one type for A and B: bf16 with MMA_BF16, else f16 */
#pragma option DTB DTA
#include "gemm_epilogue.clh"
#include "gemm_operands.clh"
#include "gemm_packed.clh"

#pragma option BM 64 /* tile of C; powers of two, and 192 */
#pragma option BN 64
#define BK 64
#pragma option WM 64 /* part of C of a warpgroup: 64 x 64, 64 x 128, 64 x 256 or 128 x 128 */
#pragma option WN 64
#pragma option STAGES 4 /* 2, 3, 4 */
#include "gemm_tiles.clh"
#include "mma.clh"
#define WGMMA_M WM
#define WGMMA_N WN
#if TA /* A is stored k x m: neighbouring elements belong to neighbouring lines */
#define WGMMA_TRANSPOSE_A 1
#else
#define WGMMA_TRANSPOSE_A 0
#endif
#if TB
#define WGMMA_TRANSPOSE_B 0
#else
#define WGMMA_TRANSPOSE_B 1
#endif
#include "wgmma.clh"

/* Three numbers as literals: batches of products that may be pending at the end of a step, steps by which
 * copies are ahead, batches of copies that may be pending while a tile is multiplied. */
#if STAGES == 4
#define PRODUCTS_LEFT 1
#define STEPS_AHEAD 2
#define COPIES_LEFT 1
#elif STAGES == 3
#define PRODUCTS_LEFT 0
#define STEPS_AHEAD 2
#define COPIES_LEFT 1
#else
#define PRODUCTS_LEFT 0
#define STEPS_AHEAD 1
#define COPIES_LEFT 0
#endif
#define GROUPS_DOWN (BM / WM) /* warpgroups along m */
#define GROUPS_ACROSS (BN / WN)
#define ITEMS (GROUPS_DOWN * GROUPS_ACROSS * 128)
#define CHUNK 8                   /* elements */
#define ROW 64                    /* elements of a row of local memory */
#define SLOT_A (BM * ROW / CHUNK) /* chunks; a tile has as many rows as lines */
#define SLOT_B (BN * ROW / CHUNK)
#define SLOT (SLOT_A + SLOT_B)
#define ONES_CHUNKS (LINE_SUMS ? 64 : 0) /* the tile of ones, after everything else in local memory */
/* floats from one row of sums to the next in local memory, so that eight rows of pairs are in different
 * banks */
#define LINE_FLOATS (BN + 8)
#define SLAB_FLOATS (GROUPS_DOWN * 64 * LINE_FLOATS)
#if STAGES * SLOT > SLAB_FLOATS / 4
#define LOCAL_CHUNKS (STAGES * SLOT)
#else
#define LOCAL_CHUNKS (SLAB_FLOATS / 4)
#endif
#if ITEMS > 256 /* number of items that copy; with more items the rows could not be divided evenly */
#define COPIERS 256
#else
#define COPIERS ITEMS
#endif
/* Rows that these items copy together: a multiple of eight, so that an item's swizzle stays the same. */
#define PASS_ROWS (COPIERS / (ROW / CHUNK))
#define PASSES(lines) ((lines) / PASS_ROWS)
/* If B is a matrix of windows, items copy whole steps: the number of chunks of a step, and the number of
 * steps that they copy together (ocl_wgmma_window_steps). */
#define STEP_CHUNKS (BN / CHUNK)
#define STEPS_TOGETHER (ITEMS / STEP_CHUNKS)
#define COPIES_TOGETHER (BK / STEPS_TOGETHER < 8 ? BK / STEPS_TOGETHER : 8)

/* Element of a slot at which an item's first chunk lies; its other chunks follow PASS_ROWS rows apart. */
static inline uint first_place(uint lid)
{
    uint row = lid / (ROW / CHUNK), chunk = lid & (ROW / CHUNK - 1);
    return row * ROW + CHUNK * (chunk ^ (row & 7));
}

/* DEFINE_TILE(name, tile_lines, transposed) defines what an item does for a tile of A or B; transposed: lines
 * are neighbours in memory.
 *   start_NAME(base, ld, lid): address of its first chunk of the tile at `base` in global memory
 *   bring_NAME(memory, to, from, ld): copies its chunks of a whole tile from `from` on to local memory at
 *       element `to`
 *   bring_edge_NAME(memory, to, from, ld, any, lines, left, lid): the same for a tile of which `lines` lines
 *       and `left` steps exist; `any` is a valid address for copies of 0 bytes */
#define DEFINE_TILE(name, tile_lines, transposed)                                                            \
    static inline __global const ushort *start_##name(__global const ushort *base, ulong ld, uint lid)       \
    {                                                                                                        \
        uint row = lid / (ROW / CHUNK), chunk = lid & (ROW / CHUNK - 1);                                     \
        return base + row * ld + CHUNK * chunk;                                                              \
    }                                                                                                        \
    static inline ulong pass_##name(uint i, ulong ld)                                                        \
    {                                                                                                        \
        return (transposed) ? (i * PASS_ROWS & (BK - 1)) * ld + i * PASS_ROWS / BK * ROW                     \
                            : i * PASS_ROWS * ld;                                                            \
    }                                                                                                        \
    CLT_INLINE void bring_##name(__local ushort *memory, uint to, __global const ushort *from, ulong ld)     \
    {                                                                                                        \
        UNROLL_FOR (uint i = 0; i < PASSES(tile_lines); i++)                                                 \
            MMA_COPY_ALL(memory, to + i * PASS_ROWS * ROW, from + pass_##name(i, ld));                       \
    }                                                                                                        \
    CLT_INLINE void bring_edge_##name(__local ushort *memory, uint to, __global const ushort *from,          \
                                      ulong ld, __global const ushort *any, int lines, int left, uint lid)   \
    {                                                                                                        \
        UNROLL_FOR (uint i = 0; i < PASSES(tile_lines); i++) {                                               \
            int row = (int)(lid / (ROW / CHUNK) + i * PASS_ROWS);                                            \
            int chunk = (int)(lid & (ROW / CHUNK - 1));                                                      \
            int wide = (transposed) ? lines - row / BK * ROW : left;                                         \
            int have = (transposed ? (row & (BK - 1)) < left : row < lines)                                  \
                           ? clamp(wide - CHUNK * chunk, 0, CHUNK)                                           \
                           : 0;                                                                              \
            MMA_COPY(memory, to + i * PASS_ROWS * ROW, have > 0 ? from + pass_##name(i, ld) : any,           \
                     2 * (uint)have);                                                                        \
        }                                                                                                    \
    }
#if WINDOWS == 1
#define WINDOWS_PASSES PASSES(BM)
#define WINDOWS_WIDE CHUNK
#include "gemm_window_tiles.clh"
/* The same for A as a matrix of windows (gemm_window_tiles.clh), where every chunk has a separate address
 * and no tile needs a special case at edges. The tile begins in row `first` and in `column`; `rows` and
 * `columns` exist. Chunks outside the image are copies of 0 bytes from `any`. */
static inline void start_a(clt_window_tile *tile, __global const ushort **from, const clt_windows *w,
                           __global const ushort *base, uint first, uint rows, uint column, uint columns)
{
    uint row = (uint)get_local_id(0) / (ROW / CHUNK), chunk = (uint)get_local_id(0) & (ROW / CHUNK - 1);
    WINDOWS_START(tile, from, w, base, first + row + i * PASS_ROWS, rows, column + CHUNK * chunk, columns);
}
CLT_INLINE void bring_a(__local ushort *memory, uint to, __global const ushort *const *from,
                        const clt_window_tile *tile, __global const ushort *any)
{
    UNROLL_FOR (uint i = 0; i < PASSES(BM); i++) {
        bool inside = WINDOW_INSIDE(tile, i);
        MMA_COPY(memory, to + i * PASS_ROWS * ROW, inside ? from[i] : any, inside ? 16 : 0);
    }
}
#define BRING_A(to) bring_a(memory, to, from_a, &window_tile, any_a)
#define BRING_EDGE_A(to, left) BRING_A(to)
#define ADVANCE_A() ADVANCE_WINDOWS(&window_tile, from_a, &walk)
#else
DEFINE_TILE(a, BM, TA)
#define BRING_A(to) bring_a(memory, to, from_a, pitch_a)
#define BRING_EDGE_A(to, left) bring_edge_a(memory, to, from_a, pitch_a, any_a, lines_a, left, lid)
#define ADVANCE_A() from_a += TA ? BK * pitch_a : BK
#endif
#if WINDOWS == 2
/* B as a matrix of windows, in rows of steps of k. An item brings the same eight columns of every
 * STEPS_TOGETHER-th step, and its counter advances by STEPS_TOGETHER steps with every copy. So it needs one
 * counter and one pointer for any size of tile, and at the end of a tile they point to the next one.
 *   start_b(tile, from, w, base, row, rows, column, columns): the tile begins in that row and column of the
 *       matrix, of which `rows` and `columns` exist; the image is at `base`
 *   place_b(): position of an item's first chunk in a slot, in elements
 *   bring_b(memory, to, from, tile, walk, any, left): copies its chunks of the tile (`left` steps exist);
 *       `any` is a valid address for copies of 0 bytes */
#define WINDOWS_PASSES 1
#define WINDOWS_WIDE CHUNK
#include "gemm_window_tiles.clh"
static inline void start_b(clt_window_tile *tile, __global const ushort **from, const clt_windows *w,
                           __global const ushort *base, uint first, uint rows, uint column, uint columns)
{
    uint step = (uint)get_local_id(0) / STEP_CHUNKS, chunk = (uint)get_local_id(0) & (STEP_CHUNKS - 1);
    WINDOWS_START(tile, from, w, base, first + step, rows, column + CHUNK * chunk, columns);
}
static inline uint place_b(void)
{
    uint step = (uint)get_local_id(0) / STEP_CHUNKS, chunk = (uint)get_local_id(0) & (STEP_CHUNKS - 1);
    uint block = chunk / (ROW / CHUNK), in_row = chunk & (ROW / CHUNK - 1);
    return (block * BK + step) * ROW + CHUNK * (in_row ^ (step & 7));
}
CLT_INLINE void bring_b(__local ushort *memory, uint to, __global const ushort **from, clt_window_tile *tile,
                        const clt_walk *walk, __global const ushort *any, int left)
{
    int step = (int)((uint)get_local_id(0) / STEP_CHUNKS);
    /* not unrolled completely, because sixteen copies would have more addresses than there are registers */
    _Pragma("unroll 1") for (uint first = 0; first < BK; first += COPIES_TOGETHER * STEPS_TOGETHER)
    {
        UNROLL_FOR (uint i = 0; i < COPIES_TOGETHER; i++) {
            uint on = first + i * STEPS_TOGETHER;
            /* steps fewer than eight apart differ in their swizzle */
            uint at = (to ^ CHUNK * (i * STEPS_TOGETHER & 7)) + on * ROW;
            bool inside = step + (int)on < left && WINDOW_INSIDE(tile, 0);
            MMA_COPY(memory, at, inside ? from[0] : any, inside ? 16 : 0);
            ADVANCE_WINDOWS(tile, from, walk);
        }
    }
}
#define BRING_B(to)
#define BRING_EDGE_B(to, left)
#define BRING_WINDOWS(s, fill)                                                                               \
    do {                                                                                                     \
        if ((s) < steps)                                                                                     \
            bring_b(memory, to_b + CHUNK * (fill), from_b, &window_tile, &walk, any_b,                       \
                    (int)min(depth - (s)*BK, (uint)BK));                                                     \
    } while (0)
#define ADVANCE_B()
#else
DEFINE_TILE(b, BN, !(TB))
#define BRING_B(to) bring_b(memory, to, from_b, pitch_b)
#define BRING_EDGE_B(to, left) bring_edge_b(memory, to, from_b, pitch_b, any_b, lines_b, left, lid)
#define BRING_WINDOWS(s, fill)
#define ADVANCE_B() from_b += TB ? BK : BK * pitch_b
#endif

/* Starts the copies of the tiles of step s to the slot that begins at chunk `fill`. */
#define BRING(s, fill)                                                                                       \
    do {                                                                                                     \
        uint to_ = to + CHUNK * (fill);                                                                      \
        if (COPIERS < ITEMS && lid >= COPIERS) {                                                             \
        } else if ((s) < whole) {                                                                            \
            BRING_A(to_);                                                                                    \
            BRING_B(to_ + CHUNK * SLOT_A);                                                                   \
        } else if ((s) < steps) {                                                                            \
            int left_ = (int)min(depth - (s)*BK, (uint)BK);                                                  \
            BRING_EDGE_A(to_, left_);                                                                        \
            BRING_EDGE_B(to_ + CHUNK * SLOT_A, left_);                                                       \
        }                                                                                                    \
        BRING_WINDOWS(s, fill);                                                                              \
        ADVANCE_A();                                                                                         \
        ADVANCE_B();                                                                                         \
        MMA_COPIES_END();                                                                                    \
    } while (0)
#define NEXT_SLOT(at) ((at) == (STAGES - 1) * SLOT ? 0 : (at) + SLOT)
#define SLOT_TO_FILL(now)                                                                                    \
    ((now) + STEPS_AHEAD * SLOT - ((now) < (STAGES - STEPS_AHEAD) * SLOT ? 0 : STAGES * SLOT))

/* The variables from which an item computes its positions in tiles. With STREAM the kernel computes them
 * again inside its loops: otherwise compilers compute all positions before these loops and keep them in
 * registers, of which there are too few. */
#if STREAM
#define PLACES_ANEW                                                                                          \
    uint none = 0;                                                                                           \
    CLT_FORGET(none);                                                                                        \
    uint lid = (uint)get_local_id(0) + none;                                                                 \
    ulong pitch_a = lda + none, pitch_b = ldb + none
#else
#define PLACES_ANEW                                                                                          \
    uint lid = (uint)get_local_id(0);                                                                        \
    ulong pitch_a = lda, pitch_b = ldb
#endif

/* Writes one part of this item's sums to rows of LINE_FLOATS floats; the rows of its warpgroup start at
 * `to`. */
CLT_INLINE void spread_sums(__local float *to, const float *sums)
{
    uint warp = (uint)get_local_id(0) / 32 & 3;
    __local float *pairs = to + (16 * warp + (MMA_LANE >> 2)) * LINE_FLOATS + 2 * (MMA_LANE & 3);
    UNROLL_FOR (uint j = 0; j < WN / 8; j++) {
        *(__local float2 *)(pairs + 8 * j) = (float2)(sums[4 * j], sums[4 * j + 1]);
        *(__local float2 *)(pairs + 8 * LINE_FLOATS + 8 * j) = (float2)(sums[4 * j + 2], sums[4 * j + 3]);
    }
}

/* gemm_fwd_wgmma: one group per tile of C and part of k, numbered in one dimension, or with STREAM per share
 * of all steps (gemm_tiles.clh). */
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void gemm_fwd_wgmma(TILES_PARAMS LOCAL_PARAM)
{
    WGMMA_MEMORY(slots, 16 * (LOCAL_CHUNKS + ONES_CHUNKS));
    __local ushort *memory = (__local ushort *)slots;
    uint group = (uint)get_local_id(0) / 128;
    uint row = group / GROUPS_ACROSS * WM, column = (group & (GROUPS_ACROSS - 1)) * WN;
#if LINE_SUMS
    ulong ones = WGMMA_DESCRIPTOR(slots + LOCAL_CHUNKS);
    for (uint i = (uint)get_local_id(0); i < 4 * ONES_CHUNKS; i += ITEMS)
        ((__local uint *)(slots + LOCAL_CHUNKS))[i] = WGMMA_ONES;
#endif
#if WINDOWS
    WINDOWS_OF_KERNEL;
#endif
    TILES_SHARES(share)
    {
        uint i0 = share.i0, j0 = share.j0, z = share.z, k0 = share.k0, depth = share.depth, item = share.item;
        (void)item;
        PLACES_ANEW;
        int lines_a = (int)min(m - i0, (uint)BM), lines_b = (int)min(n - j0, (uint)BN);
        __global const ushort *any_a = (__global const ushort *)a + a_at,
                              *any_b = (__global const ushort *)b + b_at;
#if WINDOWS == 1
        __global const ushort *from_a[PASSES(BM)];
        start_a(&window_tile, from_a, &windows, any_a + z * stride_a, i0, m, k0, k);
#else
        __global const ushort *from_a =
            start_a(any_a + z * stride_a + (TA ? k0 * pitch_a + i0 : i0 * pitch_a + k0), pitch_a, lid);
#endif
#if WINDOWS == 2
        __global const ushort *from_b[1];
        uint to_b = place_b() + CHUNK * SLOT_A;
        start_b(&window_tile, from_b, &windows, any_b + z * stride_b, k0, k, j0, n);
#else
        __global const ushort *from_b =
            start_b(any_b + z * stride_b + (TB ? j0 * pitch_b + k0 : k0 * pitch_b + j0), pitch_b, lid);
#endif

        float sums[WGMMA_PARTS][WN / 2];
        UNROLL_FOR (uint i = 0; i < WGMMA_PARTS; i++) {
            UNROLL_FOR (uint j = 0; j < WN / 2; j++)
                sums[i][j] = 0.0f;
        }

#if LINE_SUMS
        float line_sums[WGMMA_PARTS][4];
        uint turn = column == 0 ? LINE_SUMS_TURN(j0) : LINE_SUMS_NEVER;
        UNROLL_FOR (uint i = 0; i < WGMMA_PARTS; i++) {
            UNROLL_FOR (uint j = 0; j < 4; j++)
                line_sums[i][j] = 0.0f;
        }
#endif

        bool whole_a = WINDOWS == 1 || lines_a == BM, whole_b = WINDOWS == 2 || lines_b == BN;
        uint steps = (depth + BK - 1) / BK, whole = whole_a && whole_b ? depth / BK : 0;
        /* now, fill: the slots that are multiplied and filled, in chunks */
        uint to = first_place(lid), now = 0, fill = 0;
        ulong left = WGMMA_DESCRIPTOR(slots + row * (ROW / CHUNK)),
              right = WGMMA_DESCRIPTOR(slots + SLOT_A + column * (ROW / CHUNK));
        UNROLL_FOR (uint s = 0; s < STEPS_AHEAD; s++) {
            BRING(s, fill);
            fill += SLOT;
        }
#pragma unroll 1
        for (uint t = 0; t < steps; t++) {
#if STREAM
            PLACES_ANEW;
            fill = SLOT_TO_FILL(now); /* recomputed, to save a register */
#endif
            MMA_COPIES_WAIT(COPIES_LEFT);
            WGMMA_SEE();
            /* Tile t has arrived, and all warps have ended the products of the slot to fill. */
            barrier(CLK_LOCAL_MEM_FENCE);
#if LINE_SUMS
            if (turn == 0)
                WGMMA_START_LINES(line_sums, left + now, ones);
            turn = turn == 0 ? LINE_SUMS_TURNS(n) - 1 : turn - 1;
#endif
            WGMMA_START(sums, left + now, right + now);
            BRING(t + STEPS_AHEAD, fill);
            WGMMA_LEAVE(PRODUCTS_LEFT);
            now = NEXT_SLOT(now);
            fill = NEXT_SLOT(fill);
        }
        WGMMA_FINISH(sums);
        MMA_COPIES_WAIT(0);
#if STREAM
        gemm_stream_again(&share, &stream, m, n, batch, own_parts);
        i0 = share.i0, j0 = share.j0, item = share.item;
#endif
#if LINE_SUMS
        WGMMA_FINISH_LINES(line_sums);
        UNROLL_FOR (uint i = 0; i < 2 * WGMMA_PARTS; i++) {
            uint line = i0 + row + 64 * (i / 2) + 16 * (lid / 32 & 3) + (MMA_LANE >> 2) + 8 * (i & 1);
            if (column == 0 && (MMA_LANE & 3) == 0 && line < m)
                PUT_LINE_SUM(line, j0, line_sums[i / 2][i & 1 ? 2 : 0]);
        }
#endif

        __local float *lines = (__local float *)slots;
        MOMENTS_BEGIN;
        UNROLL_FOR (uint i = 0; i < WGMMA_PARTS; i++) {
            barrier(CLK_LOCAL_MEM_FENCE);
            spread_sums(lines + group / GROUPS_ACROSS * 64 * LINE_FLOATS + column, sums[i]);
            barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll 1
            for (uint e = lid * VC; e < GROUPS_DOWN * 64 * BN; e += ITEMS * VC) {
                uint line = e / BN, at = e & (BN - 1);
                uint ci = i0 + line / 64 * WM + 64 * i + (line & 63), cj = j0 + at;
                if (ci < m)
                    PUT_SUMS(ci, cj, lines + line * LINE_FLOATS + at);
            }
        }
        MOMENTS_STORE(lines);
#if STREAM
        barrier(CLK_LOCAL_MEM_FENCE); /* the sums have been read, so copies may take their place */
#endif
    }
}
