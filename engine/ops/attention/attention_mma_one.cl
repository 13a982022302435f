/* SPDX-License-Identifier: Apache-2.0
 *
 * The backward pass of attention in one kernel with five products; the two kernels of attention_mma.cl need
 * seven. Sizes, masks and the walk over tiles of queries are the same. A work-group holds a block of keys
 * and values, computes S and dP of each tile of queries once, and from them dv, dk and the block's part of
 * dq. It is used only where a tuning record chooses it; otherwise the two kernels are used. attention.clh
 * and attention_mma.clh list the defines.
 *
 * The sum of dq. The parts of a tile come from all blocks of keys that its queries attend to, and are added
 * in a fixed order, so that every run gives the same bits. If one group for each head walked over all keys,
 * the order would be fixed, but there are fewer heads than compute units. A copy of dq for each block would
 * write and read 4 (T / ROWS) bytes for each element, and need another kernel to add them. Here the groups
 * of a head form a chain for each tile (group_chain.clh): a group takes the f32 sum that the group before it
 * left, adds its part and passes the sum on; the last group stores dq. A tile of 32 x 64 is then 8 KiB read
 * and written for each 128 keys, in the items' own order, so that every sector is whole: for 1024 tokens,
 * 1.8 MiB for each head pass through the second-level cache, about as much as the other kernel read of keys
 * and values.
 *
 * Progress. A group gets its number when it starts (clt_next_tile), and the numbers of a head run from its
 * last block of keys to its first one, as its chains do. So a group waits only for groups that have started,
 * which never wait for one that has not. Each group walks from the first query that attends to its keys:
 * with causal masks the group for which it waits began ROWS queries further on, so groups that advance in
 * step never wait. The groups with the most work start last, so compute units idle in the last round. A
 * command before the kernel sets the counters to 0, because other kernels use the workspace in between, and
 * an interrupted run leaves any value in it.
 *
 * Local memory. It holds the keys, which are read as rows and as columns, and dS^T (16 bits, COLS queries
 * for each key), because every warp needs all keys for dq of a tile; values are fragments in registers. That
 * is 46.5 KiB with 128 rows of 64 elements, less than the 48 KiB that a program may declare. ROWS is at most
 * 4 COLS, the number of rows of both slots, because the values are loaded through the slots.
 *
 * Counts of NVIDIA's compiler and the executor (tests/ptx) for a head of 64, 1024 tokens, causal, one kernel
 * against two: 92160 products of a warp instead of 124416, 640 thousand instructions instead of 787, 250
 * thousand passes over the banks instead of 299; 240 registers, 254 with heads of 128, without spills. Its
 * cost: one more barrier in each tile, and the time between reading the counter and having the sums, which
 * only the other group of the unit can hide. */
#include "attention_mma.clh"
#include "group_chain.clh"
#include "tile_counter.clh"

#define SLOPE_PITCH (COLS + 8)         /* row pitch of dS^T; avoids bank conflicts like PITCH */
#define TILE_WARPS (WARPS * 16 / COLS) /* warps that share the 16 queries of an m16 tile of dq */
#define PARTS ((STEPS + TILE_WARPS - 1) / TILE_WARPS) /* n16 tiles of dq of a warp */
#define LEAVES (ITEMS - 32) /* the item that passes a tile on; it is not in the warp that waits */
#define QUERY_TILES ((tq + COLS - 1) / COLS)

/* --- dq of a tile --- */

/* Stores dS^T of 16 queries from column c of the tile on, for the product with the keys. */
CLT_INLINE void store_slopes(__local ushort *slopes, const uint4 ds[M_TILES], uint c)
{
    uint warp = (uint)get_local_id(0) / 32, line = warp * (16 * M_TILES) + (MMA_LANE >> 2);
    __local uint *to = (__local uint *)(slopes + line * SLOPE_PITCH + 2 * (MMA_LANE & 3) + c);
    MMA_UNROLL_FOR (uint i = 0; i < M_TILES; i++) {
        __local uint *at = to + 8 * i * SLOPE_PITCH;
        at[0] = ds[i].x;
        at[4 * SLOPE_PITCH] = ds[i].y;
        at[4] = ds[i].z;
        at[4 * SLOPE_PITCH + 4] = ds[i].w;
    }
}

/* part += dS times the block's keys: 16 queries of the tile and every TILE_WARPS-th n16 tile of a head. */
CLT_INLINE void multiply_slopes(float4 part[PARTS][2], __local const ushort *slopes,
                                __local const ushort *key, uint steps, __local uint *scratch)
{
    uint warp = (uint)get_local_id(0) / 32, lane = MMA_LANE, own = warp % TILE_WARPS;
    uint at = (8 * (lane >> 4) + (lane & 7)) * SLOPE_PITCH + (lane & 8) + 16 * (warp / TILE_WARPS);
    MMA_UNROLL_FOR (uint s = 0; s < ROWS / 16; s++) {
        uint4 left = MMA_LOAD_T(slopes, at + 16 * s * SLOPE_PITCH, scratch);
        MMA_UNROLL_FOR (uint k = 0; k < PARTS; k++) {
            if (STEPS % TILE_WARPS != 0 && own + k * TILE_WARPS >= STEPS)
                break;
            uint4 both = MMA_LOAD_T(key, steps + 16 * s * PITCH + 16 * (own + k * TILE_WARPS), scratch);
            MMA_UNROLL_FOR (uint e = 0; e < 2; e++) {
                uint2 right = half_of(both, e);
                MMA_MULTIPLY(part[k][e], left, right, scratch);
            }
        }
    }
}

/* The item's sums of a tile of dq in memory. The sums of a warp are contiguous, so that only whole sectors
 * are moved. */
static inline __global float4 *sums_of_tile(__global float *sums, ulong tile)
{
    uint lid = (uint)get_local_id(0);
    return (__global float4 *)sums + ((tile * WARPS + lid / 32) * (2 * PARTS * 32) + (lid & 31));
}

/* Stores two neighbouring results of a row; only the first `have` of them exist. */
static inline void store_pair_f32(__global float *to, float2 sum, int have, int accumulate)
{
    if (WHOLE) {
        *(__global float2 *)to = accumulate ? *(__global const float2 *)to + sum : sum;
        return;
    }
    if (have > 0)
        to[0] = accumulate ? to[0] + sum.x : sum.x;
    if (have > 1)
        to[1] = accumulate ? to[1] + sum.y : sum.y;
}
#define DEFINE_STORE_PAIR(dt)                                                                                \
    static inline void CLT_CAT(store_pair_, dt)(__global ushort * to, float2 sum, int have, int accumulate)  \
    {                                                                                                        \
        if (accumulate && (WHOLE || have > 0))                                                               \
            sum.x += LOAD(dt, to, 0);                                                                        \
        if (accumulate && (WHOLE || have > 1))                                                               \
            sum.y += LOAD(dt, to, 1);                                                                        \
        if (WHOLE) {                                                                                         \
            *(__global uint *)to = MMA_PACK(sum.x, sum.y);                                                   \
            return;                                                                                          \
        }                                                                                                    \
        if (have > 0)                                                                                        \
            STORE(dt, to, 0, sum.x);                                                                         \
        if (have > 1)                                                                                        \
            STORE(dt, to, 1, sum.y);                                                                         \
    }
DEFINE_STORE_PAIR(f16)
DEFINE_STORE_PAIR(bf16)

/* The first `rows` rows of the tile of dq (+)= part * factor. */
CLT_INLINE void store_part(__global STORAGE(GT) * dq, uint ld, float4 part[PARTS][2], float factor, uint rows,
                           int accumulate)
{
    uint warp = (uint)get_local_id(0) / 32, up = 16 * (warp / TILE_WARPS) + (MMA_LANE >> 2);
    MMA_UNROLL_FOR (uint k = 0; k < PARTS; k++) {
        MMA_UNROLL_FOR (uint e = 0; e < 2; e++) {
            uint d = 16 * (warp % TILE_WARPS + k * TILE_WARPS) + 8 * e + 2 * (MMA_LANE & 3);
            __global STORAGE(GT) *to = dq + ((ulong)up * ld + d);
            float4 sum = part[k][e] * factor;
            if (d < HEAD_SIZE && up < rows)
                CLT_CAT(store_pair_, GT)(to, sum.xy, HEAD_SIZE - (int)d, accumulate);
            if (d < HEAD_SIZE && up + 8 < rows)
                CLT_CAT(store_pair_, GT)(to + 8 * (ulong)ld, sum.zw, HEAD_SIZE - (int)d, accumulate);
        }
    }
}

#if HAS_LENGTHS
/* Sets dq = 0 in `rows` rows of the heads that share a key head, for queries that attend to no key. */
CLT_INLINE void clear_rows(__global STORAGE(GT) * dq, uint ld, uint rows)
{
    for (uint h = 0; h < SHARING; h++)
        for (uint i = 0; i < rows; i++)
            for (uint d = (uint)get_local_id(0); d < HEAD_SIZE; d += ITEMS)
                STORE(GT, dq, (ulong)i * ld + h * HEAD_SIZE + d, 0.0f);
}
#endif

/* PASSES_ON: the group passes the sums of a tile of queries on to another group. IS_LAST: it is the last
 * group of the tile's chain, because its block has the first key that any of the tile's queries attends to
 * (without INTERVALS key 0). */
#if INTERVALS
#define CHAIN_BEGIN bool passes_on = false; /* PASSES_ON for the tile before the current one */
#define FIRST_BLOCK_OF_TILE passes_on = j0 / ROWS > attention_low(i0, tq, keys SPANS) / ROWS;
#define PASSES_ON passes_on
#define IS_LAST !passes_on
#else
#define CHAIN_BEGIN
#define FIRST_BLOCK_OF_TILE
#define PASSES_ON j0 > 0
#define IS_LAST j0 == 0
#endif

/* Computes dq, dk and dv; one group per block of keys of a key head. order: the number of the next group,
 * then a counter for each tile of queries of each head; all 0 at the start. */
GROUP void attention_bwd_mma_one(__global STORAGE(GT) * dq, ulong dq0, uint lddq, int accumulate_q,
                                 __global STORAGE(GT) * dk, ulong dk0, uint lddk, int accumulate_k,
                                 __global STORAGE(GT) * dv, ulong dv0, uint lddv, int accumulate_v,
                                 __global float *sums, ulong sums0, __global uint *order, ulong order0,
                                 __global const STORAGE(DYT) * dy, ulong dy0, __global const float *lse,
                                 ulong lse0, __global const float *delta, ulong delta0, ATTENTION_INPUTS,
                                 ATTENTION_SIZES)
{
    MEMORY(ROWS);
    SCRATCH;
    __local float stats[4 * COLS]; /* for each slot: lse (in units of log 2) and delta of its queries */
    __local uint4 slope_memory[ROWS * SLOPE_PITCH / 8];
    __local ushort *slots = (__local ushort *)memory, *slopes = (__local ushort *)slope_memory;
    /* lies in `stats`, which is not used yet */
    volatile __local uint *turn = (volatile __local uint *)stats;
    order += order0;
    if (get_local_id(0) == 0)
        *turn = clt_next_tile((volatile __global uint *)order);
    barrier(CLK_LOCAL_MEM_FENCE);
    BLOCK_OF_KEYS(*turn, blocks - 1 - nth);
    __local ushort *key = slots + 2 * SLOT;
    uint4 value[M_TILES][STEPS];
    float4 sum_k[M_TILES][CHUNKS], sum_v[M_TILES][CHUNKS];
    ZERO_SUMS(sum_k)
    ZERO_SUMS(sum_v)
    LOAD_TILE(DT, key, k + k0 + row * ldk + g * HEAD_SIZE, ldk, 0, held, ROWS);
    LOAD_TILE(DT, slots, v + v0 + row * ldv + g * HEAD_SIZE, ldv, 0, held, ROWS);
    MMA_COPIES_END();
    MMA_COPIES_WAIT(0);
    barrier(CLK_LOCAL_MEM_FENCE);
    CLEAR_UNSEEN(slots, key)
    load_fragments(value, slots, scratch);
    barrier(CLK_LOCAL_MEM_FENCE);
    dq += dq0 + (ulong)n * tq * lddq;
    sums += sums0;
#if HAS_LENGTHS
    if (j0 == 0 && !accumulate_q)
        clear_rows(dq + g * (SHARING * HEAD_SIZE), lddq, held > 0 ? min(first, tq) : tq);
#endif
    WALK_OVER_QUERIES;
    __global uint *counter = order; /* counter of the tile before the current one */
    uint before = 0;
    CHAIN_BEGIN
#pragma unroll 1
    for (uint tile = 0; tile <= tiles; tile++) {
        LOAD_QUERIES(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
        if (lid == LEAVES && tile > 1 && PASSES_ON)
            clt_chain_leave(counter, before + 1);
        MMA_TOGETHER();
#pragma unroll 1
        for (uint c = tile > 0 ? 0 : COLS; c < COLS; c += 16) {
            float4 score[M_TILES][2], slope[M_TILES][2];
            uint4 weights[M_TILES], ds[M_TILES];
            multiply_nt_local(score, key, slot, columns + c * PITCH, scratch);
            multiply_nt(slope, value, slot + COLS * PITCH, columns + c * PITCH, scratch);
            SOFTMAX_OF_KEYS;
            store_slopes(slopes, ds, c);
            multiply_nn(sum_v, weights, slot + COLS * PITCH, steps + c * PITCH, scratch);
            multiply_nn(sum_k, ds, slot, steps + c * PITCH, scratch);
        }
        if (tile > 0) {
            uint rows = min(tq - i0, (uint)COLS);
            ulong number = ((ulong)n * HEADS + h) * QUERY_TILES + i0 / COLS;
            before = (attention_visible(i0 + rows - 1, tq, keys SPANS) - 1) / ROWS - j0 / ROWS;
            FIRST_BLOCK_OF_TILE
            counter = order + (1 + number);
            if (lid == 0 && before > 0)
                clt_chain_wait(counter, before);
            MMA_TOGETHER();
            barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE); /* dS and the sums so far are in memory */
            __global float4 *sum = sums_of_tile(sums, number);
            float4 part[PARTS][2];
            MMA_UNROLL_FOR (uint k = 0; k < PARTS; k++) {
                MMA_UNROLL_FOR (uint e = 0; e < 2; e++)
                    part[k][e] = before > 0 ? sum[32 * (2 * k + e)] : (float4)(0.0f);
            }
            multiply_slopes(part, slopes, key, steps, scratch);
            if (IS_LAST) {
                store_part(dq + ((ulong)i0 * lddq + h * HEAD_SIZE), lddq, part, scale, rows, accumulate_q);
            } else {
                MMA_UNROLL_FOR (uint k = 0; k < PARTS; k++) {
                    MMA_UNROLL_FOR (uint e = 0; e < 2; e++)
                        sum[32 * (2 * k + e)] = part[k][e];
                }
            }
        }
        QUERIES_END;
    }
    MMA_COPIES_WAIT(0);
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (lid == LEAVES && tiles > 0 && PASSES_ON)
        clt_chain_leave(counter, before + 1);
    dk += dk0 + row * lddk + g * HEAD_SIZE;
    dv += dv0 + row * lddv + g * HEAD_SIZE;
    STORE_ROWS(GT, dk, lddk, sum_k, (float2)(scale), have, accumulate_k)
    STORE_ROWS(GT, dv, lddv, sum_v, (float2)(1.0f), have, accumulate_v)
}
