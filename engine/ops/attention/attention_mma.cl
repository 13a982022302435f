/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention, the variant mma, for GPUs with matrix units: 16-bit storage, f32 sums, scores and probabilities
 * that never leave registers. A work-group holds ROWS rows of one side (queries for y and dq, keys for dk
 * and dv); each of its warps holds M_TILES tiles of 16 rows as operands A. It moves the other side, COLS
 * rows at a time, through two slots of local memory: while one is multiplied, asynchronous copies fill the
 * other. The accumulators of scores, once packed, are the operand A of the next product (mma_registers.clh).
 * This holds for dk and dv, too, because there scores are computed transposed. Tiles that are masked for the
 * whole block are never loaded; tiles in which nothing is masked skip the mask. Sums run in a fixed order
 * without atomics. Same results as attention.cl up to rounding, except that P and dS are rounded to the
 * storage type before a product, as the matrix units need them. attention.clh, attention_mma.clh and this
 * file list the defines.
 *
 * Local memory. A row has HEAD elements, HEAD_SIZE padded with zeros to a multiple of 16, and rows lie PITCH
 * = HEAD + 8 elements apart: an odd number of 16-byte words, so that the eight rows that one fragment load
 * or eight copies access together are in different banks, for every head size and without swizzling
 * addresses. Four tiles of COLS rows are 36 KiB with 64 rows of 64 elements, 34 KiB with 32 rows of 128; a
 * group may have 48.
 *
 * Why these tile sizes. A warp reads a streamed tile once for its 16 M_TILES rows: 8 M_TILES multiply-adds
 * for each byte, where an SM of Ampere needs 8 and one of Hopper 10 (gemm_mma.cl). Two m16 tiles fit the
 * registers up to HEAD 64, one up to 128; larger heads use attention_group.cl.
 * engine/ops/attention/attention_mma.c chooses.
 *
 * Forward takes 64 keys at a time where they fit. The work per tile (a barrier, a wait, copies, the maximum
 * of every row and its exchange between four items) is then done half as often as with 32: for the 128
 * products of 64 keys ptxas emits 558 instructions for sm_80 instead of 640; 192 of them are exponentials
 * and their arguments. FlashAttention-2 uses 64 to 128.
 *
 * Occupancy. A group has 128 items. Registers of an item by ptxas for sm_75 to sm_120
 * (tests/e2e/test_attention_ptx.sh), without spills: with two m16 tiles 246 in forward, 232 for dq, 252 for
 * dk and dv, so that an SM runs two groups (eight warps); with one m16 tile and heads of 64 up to 168, so
 * that it runs three groups. More than 128 registers are worth it, because two thirds of them hold operands
 * and sums that would otherwise be read from local memory, whose bandwidth is the limit here: each warp has
 * 4 M_TILES independent products in flight, which hide the latency of one another, and the other group of
 * the SM fills the time of the exponentials. */
#include "attention_mma.clh"

#if KERNEL == 0 || KERNEL == 1

/* --- forward --- */

/* The largest score of a row of m16 tile i; four items hold a part of the row each. */
CLT_INLINE float row_max(float4 score[COLS / 16][M_TILES][2], uint i, bool lower, __local uint *scratch)
{
    float top = -INFINITY;
    MMA_UNROLL_FOR (uint c = 0; c < COLS / 8; c++) {
        float4 s = score[c / 2][i][c & 1];
        top = fmax(top, lower ? fmax(s.z, s.w) : fmax(s.x, s.y));
    }
    top = fmax(top, MMA_SHUFFLE_XOR(top, 1, scratch));
    return fmax(top, MMA_SHUFFLE_XOR(top, 2, scratch));
}

/* Online softmax. The exponentials of a row are relative to `top`, which need not be the largest score: any
 * number near it is good enough, since the result is divided by the sum of the exponentials in the end. So
 * `top` is raised to the largest score only when that exceeds it by more than SLACK (in units of log 2), and
 * in most tiles the earlier sums need no rescaling. The decision depends only on the row's own scores, not
 * on the rows of other items. Exponentials are then at most 2^SLACK, which 16-bit types represent with the
 * same relative error as 1. */
#define SLACK 8.0f
#define NO_TOP -3.402823466e+38f /* finite, so that exp2(-INFINITY - NO_TOP) is 0 and not NaN */

/* Raises `top` of the rows of m16 tile i whose largest score (in units of log 2) exceeds it by more than
 * SLACK, and rescales their earlier sums and totals. */
static inline void rescale(float2 *top, float2 *total, float4 sum[CHUNKS], float2 largest)
{
    float2 next = (float2)(largest.x > top->x + SLACK ? largest.x : top->x,
                           largest.y > top->y + SLACK ? largest.y : top->y);
    if (next.x == top->x && next.y == top->y)
        return;
    float2 shrink = (float2)(MMA_EXP2(top->x - next.x), MMA_EXP2(top->y - next.y));
    *top = next;
    *total *= shrink;
    MMA_UNROLL_FOR (uint n = 0; n < CHUNKS; n++)
        sum[n] *= shrink.xxyy;
}

/* Replaces the scores of m16 tile i by exponentials relative to `top`, and adds them to the item's part of
 * the rows' totals. */
static inline void exponentials(float4 score[COLS / 16][M_TILES][2], uint i, float unit, float2 top,
                                float2 *total)
{
    MMA_UNROLL_FOR (uint c = 0; c < COLS / 8; c++) {
        float4 s = score[c / 2][i][c & 1];
        s.x = MMA_EXP2(fma(s.x, unit, -top.x));
        s.y = MMA_EXP2(fma(s.y, unit, -top.x));
        s.z = MMA_EXP2(fma(s.z, unit, -top.y));
        s.w = MMA_EXP2(fma(s.w, unit, -top.y));
        total->x += s.x + s.y;
        total->y += s.z + s.w;
        score[c / 2][i][c & 1] = s;
    }
}

#if DROPOUT
/* The dropout mask of a tile: bit 4 c + e is set if element e of the item's fragment of columns 8 c .. 8 c +
 * 7 is kept. `number` is the index of the item's first element. */
static inline uint keep_tile(__global const uint *sb, uint op, ulong number, uint tk, float p_drop)
{
    uint bits = 0;
#pragma unroll 1
    for (uint c = 0; c < COLS / 8; c++) {
        float2 up = keep_pair(sb, op, number + 8 * c, 1, p_drop, 1.0f);
        float2 low = keep_pair(sb, op, number + 8 * (ulong)tk + 8 * c, 1, p_drop, 1.0f);
        uint digit = (up.x > 0.0f) | (up.y > 0.0f) << 1 | (low.x > 0.0f) << 2 | (low.y > 0.0f) << 3;
        bits |= digit << 4 * c;
    }
    return bits;
}

static inline float4 drop_weights(float4 p, uint bits)
{
    return (float4)(bits & 1 ? p.x : 0.0f, bits & 2 ? p.y : 0.0f, bits & 4 ? p.z : 0.0f,
                    bits & 8 ? p.w : 0.0f);
}
#endif

/* Computes y and lse; one group per block of queries of a head. The last block, which attends to the most
 * keys, is started first. */
GROUP void attention_fwd_mma(__global STORAGE(DT) * y, ulong y0, __global float *lse, ulong lse0,
                             ATTENTION_INPUTS, ATTENTION_SIZES)
{
    MEMORY(0);
    SCRATCH;
    __local ushort *slots = (__local ushort *)memory;
    BLOCK_OF_QUERIES;
    uint4 query[M_TILES][STEPS];
    float4 sum[M_TILES][CHUNKS];
    float2 top[M_TILES], total[M_TILES];
    ZERO_SUMS(sum)
    MMA_UNROLL_FOR (uint i = 0; i < M_TILES; i++) {
        top[i] = (float2)(NO_TOP);
        total[i] = (float2)(0.0f);
    }
    k += k0 + (ulong)n * tk * ldk + h / SHARING * HEAD_SIZE;
    v += v0 + (ulong)n * tk * ldv + h / SHARING * HEAD_SIZE;
    /* the queries pass through the second slot, which the first tile does not use, or, if they need both
     * slots, before that tile is loaded */
    __local ushort *block = ROWS > 2 * COLS ? slots : slots + SLOT;
    LOAD_TILE(DT, block, q + q0 + (ulong)n * tq * ldq + h * HEAD_SIZE, ldq, i0, rows, ROWS);
    if (ROWS > 2 * COLS) {
        MMA_COPIES_END();
        MMA_COPIES_WAIT(0);
        barrier(CLK_LOCAL_MEM_FENCE);
        load_fragments(query, block, scratch);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    LOAD_TILE(DT, slots, k, ldk, BLOCK_LOW, min(KEYS_LEFT, (uint)COLS), COLS);
    LOAD_TILE(DT, slots + COLS * PITCH, v, ldv, BLOCK_LOW, min(KEYS_LEFT, (uint)COLS), COLS);
    MMA_COPIES_END();
    if (ROWS <= 2 * COLS) {
        MMA_COPIES_WAIT(0);
        barrier(CLK_LOCAL_MEM_FENCE);
        load_fragments(query, block, scratch);
    }
    uint now = 0, columns = place_columns(), steps = COLS * PITCH + place_steps();
#pragma unroll 1
    for (uint j0 = BLOCK_LOW; j0 < visible; j0 += COLS, now = SLOT - now) {
        __local ushort *slot = slots + now, *other = slots + (SLOT - now);
        MMA_COPIES_WAIT(0);
        barrier(CLK_LOCAL_MEM_FENCE); /* the tile has arrived, and the other slot is no longer read */
        uint next = j0 + COLS;
        if (next < visible) {
            LOAD_TILE(DT, other, k, ldk, next, min(visible - next, (uint)COLS), COLS);
            LOAD_TILE(DT, other + COLS * PITCH, v, ldv, next, min(visible - next, (uint)COLS), COLS);
        }
        MMA_COPIES_END();
#if DROPOUT
        uint kept[M_TILES]; /* computed before the scores, which need the registers */
        MMA_UNROLL_FOR (uint i = 0; i < M_TILES; i++) {
            ulong number = attention_number(sb + sb0, n, h, mine + 16 * i, tq, tk) + j0 + pair;
            kept[i] = keep_tile(sb + sb0, op, number, tk, p_drop);
        }
#endif
        float4 score[COLS / 16][M_TILES][2];
        MMA_UNROLL_FOR (uint c = 0; c < COLS / 16; c++)
            multiply_nt(score[c], query, slot, columns + 16 * c * PITCH, scratch);
        if ((int)(j0 + COLS) > clear) {
            MMA_UNROLL_FOR (uint i = 0; i < M_TILES; i++) {
                int seen_up = seen_by(mine + 16 * i, tq, keys SPANS);
                int seen_low = seen_by(mine + 16 * i + 8, tq, keys SPANS);
                MMA_UNROLL_FOR (uint c = 0; c < COLS / 8; c++)
                    score[c / 2][i][c & 1] =
                        mask_scores(score[c / 2][i][c & 1], (int)(j0 + 8 * c + pair), seen_up, seen_low);
            }
        }
#if INTERVALS
        if ((int)j0 < low_clear) {
            MMA_UNROLL_FOR (uint i = 0; i < M_TILES; i++) {
                int up = low_of(mine + 16 * i, tq, keys SPANS),
                    down = low_of(mine + 16 * i + 8, tq, keys SPANS);
                MMA_UNROLL_FOR (uint c = 0; c < COLS / 8; c++) {
                    int key = (int)(j0 + 8 * c + pair);
                    score[c / 2][i][c & 1] =
                        mask_early(score[c / 2][i][c & 1], (int4)(key, key + 1, key, key + 1),
                                   (int4)(up, up, down, down));
                }
            }
        }
#endif
        MMA_UNROLL_FOR (uint i = 0; i < M_TILES; i++) {
            float2 largest = (float2)(row_max(score, i, false, scratch), row_max(score, i, true, scratch));
            rescale(&top[i], &total[i], sum[i], largest * unit);
            exponentials(score, i, unit, top[i], &total[i]);
#if DROPOUT
            MMA_UNROLL_FOR (uint c = 0; c < COLS / 8; c++)
                score[c / 2][i][c & 1] = drop_weights(score[c / 2][i][c & 1], kept[i] >> 4 * c);
#endif
        }
        MMA_TOGETHER(); /* rows branch on their own scores: reconverge */
        MMA_UNROLL_FOR (uint c = 0; c < COLS / 16; c++) {
            uint4 weights[M_TILES];
            MMA_UNROLL_FOR (uint i = 0; i < M_TILES; i++)
                weights[i] = operand(score[c][i][0], score[c][i][1]);
            multiply_nn(sum, weights, slot, steps + 16 * c * PITCH, scratch);
        }
    }
    MMA_COPIES_WAIT(0);
    y += y0 + (((ulong)n * tq + i0) * HEADS + h) * HEAD_SIZE;
    lse += lse0 + head * tq;
    float2 norm[M_TILES];
    MMA_UNROLL_FOR (uint i = 0; i < M_TILES; i++) {
        float up = total[i].x + MMA_SHUFFLE_XOR(total[i].x, 1, scratch);
        float low = total[i].y + MMA_SHUFFLE_XOR(total[i].y, 1, scratch);
        up += MMA_SHUFFLE_XOR(up, 2, scratch);
        low += MMA_SHUFFLE_XOR(low, 2, scratch);
        norm[i] = (float2)(up == 0.0f ? 0.0f : 1.0f / up, low == 0.0f ? 0.0f : 1.0f / low);
#if DROPOUT
        norm[i] *= keep_scale;
#endif
        uint row = mine + 16 * i;
        if (pair == 0 && row < tq)
            lse[row] = up == 0.0f ? 0.0f : (top[i].x + log2(up)) * LN2;
        if (pair == 0 && row + 8 < tq)
            lse[row + 8] = low == 0.0f ? 0.0f : (top[i].y + log2(low)) * LN2;
    }
    STORE_ROWS(DT, y, HEADS * HEAD_SIZE, sum, norm[i_], rows, 0)
}

#endif

/* --- backward --- */

#if KERNEL == 0 || KERNEL == 2

/* Computes dq; one group per block of queries of a head, as in forward. */
GROUP void attention_bwd_q_mma(__global STORAGE(GT) * dq, ulong dq0, uint lddq, int accumulate,
                               __global const STORAGE(DYT) * dy, ulong dy0, __global const float *lse,
                               ulong lse0, __global const float *delta, ulong delta0, ATTENTION_INPUTS,
                               ATTENTION_SIZES)
{
    MEMORY(0);
    SCRATCH;
    __local ushort *slots = (__local ushort *)memory;
    BLOCK_OF_QUERIES;
    uint4 query[M_TILES][STEPS], dy_rows[M_TILES][STEPS];
    float4 sum[M_TILES][CHUNKS], norm[M_TILES], mean[M_TILES];
    ZERO_SUMS(sum)
    lse += lse0 + head * tq;
    delta += delta0 + head * tq;
    MMA_UNROLL_FOR (uint i = 0; i < M_TILES; i++) {
        uint up = min(mine + 16 * i, tq - 1), low = min(mine + 16 * i + 8, tq - 1);
        norm[i] = (float4)(lse[up], lse[up], lse[low], lse[low]) * LOG2E;
        mean[i] = (float4)(delta[up], delta[up], delta[low], delta[low]);
    }
    ulong line = (ulong)n * tq + i0;
    k += k0 + (ulong)n * tk * ldk + h / SHARING * HEAD_SIZE;
    v += v0 + (ulong)n * tk * ldv + h / SHARING * HEAD_SIZE;
    LOAD_TILE(DT, slots, q + q0 + line * ldq + h * HEAD_SIZE, ldq, 0, rows, ROWS);
    dy += dy0 + (line * HEADS + h) * HEAD_SIZE;
    LOAD_TILE(DYT, slots + ROWS * PITCH, dy, HEADS * HEAD_SIZE, 0, rows, ROWS);
    MMA_COPIES_END();
    MMA_COPIES_WAIT(0);
    barrier(CLK_LOCAL_MEM_FENCE);
    load_fragments(query, slots, scratch);
    load_fragments(dy_rows, slots + ROWS * PITCH, scratch);
    barrier(CLK_LOCAL_MEM_FENCE);
    LOAD_TILE(DT, slots, k, ldk, BLOCK_LOW, min(KEYS_LEFT, (uint)COLS), COLS);
    LOAD_TILE(DT, slots + COLS * PITCH, v, ldv, BLOCK_LOW, min(KEYS_LEFT, (uint)COLS), COLS);
    MMA_COPIES_END();
    uint now = 0, columns = place_columns(), steps = place_steps();
#pragma unroll 1
    for (uint j0 = BLOCK_LOW; j0 < visible; j0 += COLS) {
        __local ushort *slot = slots + now, *other = slots + (SLOT - now);
        MMA_COPIES_WAIT(0);
        barrier(CLK_LOCAL_MEM_FENCE);
        uint next = j0 + COLS;
        if (next < visible) {
            LOAD_TILE(DT, other, k, ldk, next, min(visible - next, (uint)COLS), COLS);
            LOAD_TILE(DT, other + COLS * PITCH, v, ldv, next, min(visible - next, (uint)COLS), COLS);
        }
        MMA_COPIES_END();
#pragma unroll 1
        for (uint c = 0; c < COLS; c += 16) {
            if (MMA_SCRATCH == 0 && (int)(j0 + c) >= seen)
                /* All keys from here on are masked for this warp. (Where matrix units are emulated, all
                 * warps must take part in each product.) */
                break;
#if INTERVALS
            if (MMA_SCRATCH == 0 && (int)(j0 + c + 16) <= low_seen)
                continue; /* these keys are too early for all queries of the warp */
#endif
            float4 score[M_TILES][2], slope[M_TILES][2];
            uint4 ds[M_TILES];
            multiply_nt(score, query, slot, columns + c * PITCH, scratch);
            multiply_nt(slope, dy_rows, slot + COLS * PITCH, columns + c * PITCH, scratch);
            if ((int)(j0 + c + 16) > clear) {
                MMA_UNROLL_FOR (uint i = 0; i < M_TILES; i++) {
                    int up = seen_by(mine + 16 * i, tq, keys SPANS),
                        low = seen_by(mine + 16 * i + 8, tq, keys SPANS);
                    MMA_UNROLL_FOR (uint e = 0; e < 2; e++)
                        score[i][e] = mask_scores(score[i][e], (int)(j0 + c + 8 * e + pair), up, low);
                }
            }
#if INTERVALS
            if ((int)(j0 + c) < low_clear) {
                MMA_UNROLL_FOR (uint i = 0; i < M_TILES; i++) {
                    int up = low_of(mine + 16 * i, tq, keys SPANS),
                        down = low_of(mine + 16 * i + 8, tq, keys SPANS);
                    MMA_UNROLL_FOR (uint e = 0; e < 2; e++) {
                        int key = (int)(j0 + c + 8 * e + pair);
                        score[i][e] = mask_early(score[i][e], (int4)(key, key + 1, key, key + 1),
                                                 (int4)(up, up, down, down));
                    }
                }
            }
#endif
            MMA_UNROLL_FOR (uint i = 0; i < M_TILES; i++) {
                MMA_UNROLL_FOR (uint e = 0; e < 2; e++) {
                    float4 keep = (float4)(1.0f);
#if DROPOUT
                    ulong number =
                        attention_number(sb + sb0, n, h, mine + 16 * i, tq, tk) + j0 + c + 8 * e + pair;
                    float2 up = keep_pair(sb + sb0, op, number, 1, p_drop, keep_scale);
                    float2 low = keep_pair(sb + sb0, op, number + 8 * (ulong)tk, 1, p_drop, keep_scale);
                    keep = (float4)(up.x, up.y, low.x, low.y);
#endif
                    softmax_backward(&score[i][e], &slope[i][e], unit, norm[i], mean[i], keep);
                }
                ds[i] = operand(slope[i][0], slope[i][1]);
            }
            multiply_nn(sum, ds, slot, steps + c * PITCH, scratch);
        }
        now = SLOT - now;
    }
    MMA_COPIES_WAIT(0);
    dq += dq0 + line * lddq + h * HEAD_SIZE;
    STORE_ROWS(GT, dq, lddq, sum, (float2)(scale), rows, accumulate)
}

#endif
#if KERNEL == 0 || KERNEL == 3

/* Computes dk and dv; one group per block of keys of a key head. Scores are transposed: rows are keys. The
 * accumulators of dk and dv and the keys fill the registers, so the block's values stay in local memory. */
GROUP void attention_bwd_kv_mma(__global STORAGE(GT) * dk, ulong dk0, uint lddk, int accumulate_k,
                                __global STORAGE(GT) * dv, ulong dv0, uint lddv, int accumulate_v,
                                __global const STORAGE(DYT) * dy, ulong dy0, __global const float *lse,
                                ulong lse0, __global const float *delta, ulong delta0, ATTENTION_INPUTS,
                                ATTENTION_SIZES)
{
    MEMORY(ROWS);
    SCRATCH;
    __local float stats[4 * COLS]; /* for each slot: lse (in units of log 2) and delta of its queries */
    __local ushort *slots = (__local ushort *)memory;
    BLOCK_OF_KEYS(get_group_id(0), nth);
    uint4 key[M_TILES][STEPS];
    __local ushort *value = slots + 2 * SLOT;
    float4 sum_k[M_TILES][CHUNKS], sum_v[M_TILES][CHUNKS];
    ZERO_SUMS(sum_k)
    ZERO_SUMS(sum_v)
    LOAD_TILE(DT, slots, k + k0 + row * ldk + g * HEAD_SIZE, ldk, 0, held, ROWS);
    LOAD_TILE(DT, value, v + v0 + row * ldv + g * HEAD_SIZE, ldv, 0, held, ROWS);
    MMA_COPIES_END();
    MMA_COPIES_WAIT(0);
    barrier(CLK_LOCAL_MEM_FENCE);
    CLEAR_UNSEEN(slots, value)
    load_fragments(key, slots, scratch);
    barrier(CLK_LOCAL_MEM_FENCE);
    WALK_OVER_QUERIES;
#pragma unroll 1
    for (uint tile = 0; tile <= tiles; tile++) {
        LOAD_QUERIES(CLK_LOCAL_MEM_FENCE);
#pragma unroll 1
        for (uint c = tile > 0 ? 0 : COLS; c < COLS; c += 16) {
            float4 score[M_TILES][2], slope[M_TILES][2];
            uint4 weights[M_TILES], ds[M_TILES];
            multiply_nt(score, key, slot, columns + c * PITCH, scratch);
            multiply_nt_local(slope, value, slot + COLS * PITCH, columns + c * PITCH, scratch);
            SOFTMAX_OF_KEYS;
            multiply_nn(sum_v, weights, slot + COLS * PITCH, steps + c * PITCH, scratch);
            multiply_nn(sum_k, ds, slot, steps + c * PITCH, scratch);
        }
        QUERIES_END;
    }
    MMA_COPIES_WAIT(0);
    dk += dk0 + row * lddk + g * HEAD_SIZE;
    dv += dv0 + row * lddv + g * HEAD_SIZE;
    STORE_ROWS(GT, dk, lddk, sum_k, (float2)(scale), have, accumulate_k)
    STORE_ROWS(GT, dv, lddv, sum_v, (float2)(1.0f), have, accumulate_v)
}
#endif
