/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention, the form for GPUs: a work-group of 64 items, eight by eight, works on a block of BLOCK queries
 * (y, dq) or keys (dk, dv) and takes the other side block by block through local memory; each item keeps a
 * small tile of the scores and of the result in registers. Sums run in a fixed order without atomics, every
 * exchange through local memory has its barrier, and no lock-step is assumed. Same results as attention.cl up
 * to rounding. Defines: attention.clh, and -DBLOCK=8, 16 or 32. */
#include "common.clh"
#include "attention.clh"

#ifndef BLOCK
#define BLOCK 16
#endif
#define SIDE 8 /* items along each edge of the group */
#define ITEMS (SIDE * SIDE)
#define TILE (BLOCK / SIDE)                   /* rows and columns of scores of an item */
#define PARTS ((HEAD_SIZE + SIDE - 1) / SIDE) /* columns of a result of an item */
#define PITCH (PARTS * SIDE + 1) /* of a block's rows in local memory; odd against bank conflicts */
#define SCORES (BLOCK + 1)       /* pitch of a block of scores */
#define UNROLL _Pragma("unroll") /* sums are registers only where every index is a constant */
#define GROUP __kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))

/* Rows of a head times `factor` into local memory; rows from `have` on and columns behind the head are zero.
 */
#define DEFINE_FETCH(dt)                                                                                     \
    static inline void CLT_CAT(fetch_, dt)(__local float *block, __global const STORAGE(dt) * x, ulong ld,   \
                                           uint have, float factor)                                          \
    {                                                                                                        \
        for (uint at = (uint)get_local_id(0); at < BLOCK * (PITCH - 1); at += ITEMS) {                       \
            uint r = at / (PITCH - 1), d = at - r * (PITCH - 1);                                             \
            float value = 0.0f;                                                                              \
            if (r < have && d < HEAD_SIZE)                                                                   \
                value = LOAD(dt, x, r * ld + d) * factor;                                                    \
            block[r * PITCH + d] = value;                                                                    \
        }                                                                                                    \
    }
DEFINE_FETCH(f32)
DEFINE_FETCH(f16)
DEFINE_FETCH(bf16)
#define FETCH(dt, ...) CLT_CAT(fetch_, dt)(__VA_ARGS__)

/* tile[r][c] = a row (ROW r) . b row (COLUMN c) */
static inline void dots(float tile[TILE][TILE], __local const float *a, __local const float *b, uint down,
                        uint across)
{
    UNROLL for (uint r = 0; r < TILE; r++)
        UNROLL for (uint c = 0; c < TILE; c++)
            tile[r][c] = 0.0f;
    for (uint d = 0; d < HEAD_SIZE; d++) {
        float left[TILE], right[TILE];
        UNROLL for (uint t = 0; t < TILE; t++) {
            left[t] = a[(down * TILE + t) * PITCH + d];
            right[t] = b[(across + t * SIDE) * PITCH + d];
        }
        UNROLL for (uint r = 0; r < TILE; r++)
            UNROLL for (uint c = 0; c < TILE; c++)
                tile[r][c] = fma(left[r], right[c], tile[r][c]);
    }
}

/* sum[r][p] += sum over rows t of weights(row r, t) * block[t][column p]; turned: weights(row r, t) lie in
 * column r. */
static inline void mix(float sum[TILE][PARTS], __local const float *weights, bool turned,
                       __local const float *block, uint down, uint across)
{
    for (uint t = 0; t < BLOCK; t++) {
        float left[TILE];
        UNROLL for (uint r = 0; r < TILE; r++)
            left[r] =
                turned ? weights[t * SCORES + down * TILE + r] : weights[(down * TILE + r) * SCORES + t];
        UNROLL for (uint p = 0; p < PARTS; p++) {
            float right = block[t * PITCH + across + p * SIDE];
            UNROLL for (uint r = 0; r < TILE; r++)
                sum[r][p] = fma(left[r], right, sum[r][p]);
        }
    }
}

/* x rows (+)= sum * factor, by the items that hold them; rows from `have` on do not exist. */
#define PUT(dt, x, ld, sum, factor, have, accumulate)                                                        \
    UNROLL for (uint r_ = 0; r_ < TILE; r_++)                                                                \
    {                                                                                                        \
        UNROLL for (uint p_ = 0; p_ < PARTS; p_++)                                                           \
        {                                                                                                    \
            uint row_ = down * TILE + r_, d_ = across + p_ * SIDE;                                           \
            if (row_ < (have) && d_ < HEAD_SIZE)                                                             \
                STORE_GRAD(dt, x, (ulong)row_ *(ld) + d_, (sum)[r_][p_] * (factor), accumulate);             \
        }                                                                                                    \
    }

/* Softmax on line of one row of scores of the keys from j0 on; returns the factor by which earlier sums
 * shrink. */
static inline float soften(__local float *row, uint seen, float *top, float *total, __global const uint *sb,
                           uint op, ulong number, float p_drop, float keep_scale)
{
    float before = *top, now = before, sum = 0.0f;
    for (uint c = 0; c < seen; c++)
        now = fmax(now, row[c]);
    for (uint c = 0; c < seen; c++) {
        float e = exp(row[c] - now);
        sum += e;
        row[c] = e * attention_keep(sb, op, number + c, p_drop, keep_scale);
    }
    for (uint c = seen; c < BLOCK; c++)
        row[c] = 0.0f;
    float shrink = seen > 0 && now > before ? exp(before - now) : 1.0f;
    *top = now;
    *total = *total * shrink + sum;
    return shrink;
}

/* y and lse; one group per block of queries of a head. */
GROUP void attention_fwd_group(__global STORAGE(DT) * y, ulong y0, __global float *lse, ulong lse0,
                               ATTENTION_INPUTS, ATTENTION_SIZES)
{
    __local float query[BLOCK * PITCH], key[BLOCK * PITCH], value[BLOCK * PITCH], score[BLOCK * SCORES];
    __local float shrink[BLOCK], norm[BLOCK];
    uint blocks = (tq + BLOCK - 1) / BLOCK, lid = (uint)get_local_id(0);
    uint down = lid / SIDE, across = lid - down * SIDE;
    ulong item = get_group_id(0), head = item / blocks;
    uint i0 = (uint)(item - head * blocks) * BLOCK;
    uint n = (uint)(head / HEADS), h = (uint)(head - (ulong)n * HEADS), keys = KEYS_OF(n);
    uint rows = min(tq - i0, (uint)BLOCK), visible = attention_visible(i0 + rows - 1, tq, keys);
    /* items 0..BLOCK-1 look after one row's softmax each */
    uint mine = lid < rows ? attention_visible(i0 + lid, tq, keys) : 0;
    ulong number = attention_number(sb + sb0, n, h, i0 + lid, tq, tk);
    float top = -INFINITY, total = 0.0f, tile[TILE][TILE], sum[TILE][PARTS];
    UNROLL for (uint r = 0; r < TILE; r++)
        UNROLL for (uint p = 0; p < PARTS; p++)
            sum[r][p] = 0.0f;
    FETCH(DT, query, q + q0 + ((ulong)n * tq + i0) * ldq + h * HEAD_SIZE, ldq, rows, scale);
    for (uint j0 = 0; j0 < visible; j0 += BLOCK) {
        uint have = min(visible - j0, (uint)BLOCK);
        ulong row = (ulong)n * tk + j0;
        FETCH(DT, key, k + k0 + row * ldk + h / SHARING * HEAD_SIZE, ldk, have, 1.0f);
        FETCH(DT, value, v + v0 + row * ldv + h / SHARING * HEAD_SIZE, ldv, have, 1.0f);
        barrier(CLK_LOCAL_MEM_FENCE);
        dots(tile, query, key, down, across);
        UNROLL for (uint r = 0; r < TILE; r++)
            UNROLL for (uint c = 0; c < TILE; c++)
                score[(down * TILE + r) * SCORES + across + c * SIDE] = tile[r][c];
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lid < BLOCK)
            shrink[lid] = soften(score + lid * SCORES, min(attention_beyond(mine, j0), (uint)BLOCK), &top,
                                 &total, sb + sb0, op, number + j0, p_drop, keep_scale);
        barrier(CLK_LOCAL_MEM_FENCE);
        UNROLL for (uint r = 0; r < TILE; r++)
            UNROLL for (uint p = 0; p < PARTS; p++)
                sum[r][p] *= shrink[down * TILE + r];
        mix(sum, score, false, value, down, across);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (lid < BLOCK)
        norm[lid] = mine > 0 ? 1.0f / total : 0.0f;
    if (lid < rows)
        lse[lse0 + head * tq + i0 + lid] = mine > 0 ? top + log(total) : 0.0f;
    barrier(CLK_LOCAL_MEM_FENCE);
    UNROLL for (uint r = 0; r < TILE; r++)
        UNROLL for (uint p = 0; p < PARTS; p++)
            sum[r][p] *= norm[down * TILE + r];
    y += y0 + (((ulong)n * tq + i0) * HEADS + h) * HEAD_SIZE;
    PUT(DT, y, HEADS * HEAD_SIZE, sum, 1.0f, rows, 0);
}

/* keep * P and dS of the item's tile of scores into local memory; query rows begin at i0, keys at j0. `given`
 * holds dy, `norm` lse and `mean` delta of the block's queries. */
static inline void slopes(__local float *p, __local float *ds, __local const float *query,
                          __local const float *key, __local const float *given, __local const float *value,
                          __local const float *norm, __local const float *mean, uint down, uint across,
                          uint i0, uint rows, uint j0, uint tq, uint tk, uint keys, __global const uint *sb,
                          uint op, ulong number, float p_drop, float keep_scale)
{
    float score[TILE][TILE], slope[TILE][TILE];
    dots(score, query, key, down, across);
    dots(slope, given, value, down, across);
    UNROLL for (uint r = 0; r < TILE; r++) {
        uint row = down * TILE + r, seen = row < rows ? attention_visible(i0 + row, tq, keys) : 0;
        UNROLL for (uint c = 0; c < TILE; c++) {
            uint column = across + c * SIDE;
            float weight = 0.0f, keep = 0.0f, change = 0.0f;
            if (j0 + column < seen) {
                weight = exp(score[r][c] - norm[row]);
                keep = attention_keep(sb, op, number + (ulong)row * tk + column, p_drop, keep_scale);
                change = weight * (slope[r][c] * keep - mean[row]);
            }
            p[row * SCORES + column] = weight * keep;
            ds[row * SCORES + column] = change;
        }
    }
}

/* lse and delta of a block's queries. */
static inline void fetch_rows(__local float *norm, __local float *mean, __global const float *lse,
                              __global const float *delta, uint rows)
{
    uint lid = (uint)get_local_id(0);
    if (lid < BLOCK) {
        norm[lid] = lid < rows ? lse[lid] : 0.0f;
        mean[lid] = lid < rows ? delta[lid] : 0.0f;
    }
}

/* dq; one group per block of queries of a head. */
GROUP void attention_bwd_q_group(__global STORAGE(GT) * dq, ulong dq0, uint lddq, int accumulate,
                                 __global const STORAGE(DYT) * dy, ulong dy0, __global const float *lse,
                                 ulong lse0, __global const float *delta, ulong delta0, ATTENTION_INPUTS,
                                 ATTENTION_SIZES)
{
    __local float query[BLOCK * PITCH], key[BLOCK * PITCH], value[BLOCK * PITCH], given[BLOCK * PITCH];
    __local float p[BLOCK * SCORES], ds[BLOCK * SCORES], norm[BLOCK], mean[BLOCK];
    uint blocks = (tq + BLOCK - 1) / BLOCK, lid = (uint)get_local_id(0);
    uint down = lid / SIDE, across = lid - down * SIDE;
    ulong item = get_group_id(0), head = item / blocks;
    uint i0 = (uint)(item - head * blocks) * BLOCK;
    uint n = (uint)(head / HEADS), h = (uint)(head - (ulong)n * HEADS), keys = KEYS_OF(n);
    uint rows = min(tq - i0, (uint)BLOCK), visible = attention_visible(i0 + rows - 1, tq, keys);
    ulong line = (ulong)n * tq + i0;
    float sum[TILE][PARTS];
    UNROLL for (uint r = 0; r < TILE; r++)
        UNROLL for (uint c = 0; c < PARTS; c++)
            sum[r][c] = 0.0f;
    FETCH(DT, query, q + q0 + line * ldq + h * HEAD_SIZE, ldq, rows, scale);
    FETCH(DYT, given, dy + dy0 + (line * HEADS + h) * HEAD_SIZE, HEADS * HEAD_SIZE, rows, 1.0f);
    fetch_rows(norm, mean, lse + lse0 + head * tq + i0, delta + delta0 + head * tq + i0, rows);
    for (uint j0 = 0; j0 < visible; j0 += BLOCK) {
        uint have = min(visible - j0, (uint)BLOCK);
        ulong row = (ulong)n * tk + j0;
        FETCH(DT, key, k + k0 + row * ldk + h / SHARING * HEAD_SIZE, ldk, have, 1.0f);
        FETCH(DT, value, v + v0 + row * ldv + h / SHARING * HEAD_SIZE, ldv, have, 1.0f);
        barrier(CLK_LOCAL_MEM_FENCE);
        slopes(p, ds, query, key, given, value, norm, mean, down, across, i0, rows, j0, tq, tk, keys,
               sb + sb0, op, attention_number(sb + sb0, n, h, i0, tq, tk) + j0, p_drop, keep_scale);
        barrier(CLK_LOCAL_MEM_FENCE);
        mix(sum, ds, false, key, down, across);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    dq += dq0 + line * lddq + h * HEAD_SIZE;
    PUT(GT, dq, lddq, sum, scale, rows, accumulate);
}

/* dk and dv; one group per block of keys of a key head. */
GROUP void attention_bwd_kv_group(__global STORAGE(GT) * dk, ulong dk0, uint lddk, int accumulate_k,
                                  __global STORAGE(GT) * dv, ulong dv0, uint lddv, int accumulate_v,
                                  __global const STORAGE(DYT) * dy, ulong dy0, __global const float *lse,
                                  ulong lse0, __global const float *delta, ulong delta0, ATTENTION_INPUTS,
                                  ATTENTION_SIZES)
{
    __local float query[BLOCK * PITCH], key[BLOCK * PITCH], value[BLOCK * PITCH], given[BLOCK * PITCH];
    __local float p[BLOCK * SCORES], ds[BLOCK * SCORES], norm[BLOCK], mean[BLOCK];
    uint blocks = (tk + BLOCK - 1) / BLOCK, lid = (uint)get_local_id(0);
    uint down = lid / SIDE, across = lid - down * SIDE;
    ulong item = get_group_id(0), head = item / blocks;
    uint j0 = (uint)(item - head * blocks) * BLOCK;
    uint n = (uint)(head / KV_HEADS), g = (uint)(head - (ulong)n * KV_HEADS), keys = KEYS_OF(n);
    uint have = min(tk - j0, (uint)BLOCK), held = min(attention_beyond(keys, j0), (uint)BLOCK);
    uint first = attention_first_query(j0, tq, keys) / BLOCK * BLOCK;
    ulong row = (ulong)n * tk + j0;
    float sum_k[TILE][PARTS], sum_v[TILE][PARTS];
    UNROLL for (uint r = 0; r < TILE; r++)
        UNROLL for (uint c = 0; c < PARTS; c++)
            sum_k[r][c] = sum_v[r][c] = 0.0f;
    FETCH(DT, key, k + k0 + row * ldk + g * HEAD_SIZE, ldk, held, 1.0f);
    FETCH(DT, value, v + v0 + row * ldv + g * HEAD_SIZE, ldv, held, 1.0f);
    for (uint h = g * SHARING; h < (g + 1) * SHARING; h++) {
        for (uint i0 = held > 0 ? first : tq; i0 < tq; i0 += BLOCK) {
            uint rows = min(tq - i0, (uint)BLOCK);
            ulong line = (ulong)n * tq + i0, at = ((ulong)n * HEADS + h) * tq + i0;
            FETCH(DT, query, q + q0 + line * ldq + h * HEAD_SIZE, ldq, rows, scale);
            FETCH(DYT, given, dy + dy0 + (line * HEADS + h) * HEAD_SIZE, HEADS * HEAD_SIZE, rows, 1.0f);
            fetch_rows(norm, mean, lse + lse0 + at, delta + delta0 + at, rows);
            barrier(CLK_LOCAL_MEM_FENCE);
            slopes(p, ds, query, key, given, value, norm, mean, down, across, i0, rows, j0, tq, tk, keys,
                   sb + sb0, op, attention_number(sb + sb0, n, h, i0, tq, tk) + j0, p_drop, keep_scale);
            barrier(CLK_LOCAL_MEM_FENCE);
            mix(sum_v, p, true, given, down, across);
            mix(sum_k, ds, true, query, down, across);
            barrier(CLK_LOCAL_MEM_FENCE);
        }
    }
    dk += dk0 + row * lddk + g * HEAD_SIZE;
    dv += dv0 + row * lddv + g * HEAD_SIZE;
    PUT(GT, dk, lddk, sum_k, 1.0f, have, accumulate_k);
    PUT(GT, dv, lddv, sum_v, 1.0f, have, accumulate_v);
}
