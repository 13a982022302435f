/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention, the variant group, for GPUs: a work-group of 64 items, eight by eight, works on a block of
 * BLOCK queries (y, dq) or keys (dk, dv). It moves the other side (keys or queries) block by block through
 * local memory. Each item keeps a small tile of the scores and of the result in registers. Sums run in a
 * fixed order without atomics; every exchange through local memory has a barrier, so warps need not run in
 * lock-step. Same results as attention.cl up to rounding. attention.clh and this file list the defines.
 *
 * The bandwidth of local memory limits the products, so it is read in vectors: of four elements of a head
 * for scores, of VEC columns for results. Rows lie WIDTH + 4 floats apart, an odd number of vectors of four,
 * so that vectors of eight rows lie in different banks. */
#include "common.clh"
#include "attention.clh"

#pragma option BLOCK 16 /* 8, 16 or 32 */
/* clt_attention_kernel: 1: forward, 2: dq, 3: dk and dv, 4: delta; 0: all, for syntax checks */
#pragma option KERNEL 0
#define SIDE 8 /* items along each edge of the group */
#define ITEMS (SIDE * SIDE)
#define TILE (BLOCK / SIDE)     /* an item computes TILE x TILE scores */
#define SHARE (ITEMS / BLOCK)   /* items that share the softmax of one row */
#define COLUMNS (BLOCK / SHARE) /* columns of scores that each of these items handles */
#if HEAD_SIZE % 32 == 0
#define VEC 4 /* adjacent result columns in one vector of an item */
#else
#define VEC 2
#endif
#define VECTOR CLT_CAT(float, VEC)
#define PARTS ((HEAD_SIZE + SIDE * VEC - 1) / (SIDE * VEC)) /* vectors of an item in a row of the result */
/* row length of blocks in local memory: a head and zeros after it */
#define WIDTH (PARTS * SIDE * VEC)
#define PITCH (WIDTH + 4)
#define SCORES (BLOCK + 4)       /* row pitch of a block of scores */
#define TOPS (SIDE + 4)          /* row pitch of the maxima that the items find in their parts of a row */
#define NO_TOP -3.402823466e+38f /* finite, so that exp(-INFINITY - NO_TOP) is 0 and not NaN */
#define GROUP __kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))

/* --- moving rows between global and local memory --- */

/* Loads elements at .. at + 3 of a row of a head; elements beyond its end are zero. If HEAD_SIZE is a
 * multiple of four, rows are aligned to four elements and one vector load suffices. */
#define DEFINE_FOUR(dt)                                                                                      \
    static inline float4 CLT_CAT(four_, dt)(__global const STORAGE(dt) * row, uint at)                       \
    {                                                                                                        \
        float part[4];                                                                                       \
        if (HEAD_SIZE % 4 == 0 && at < HEAD_SIZE)                                                            \
            return CLT_CAT(widen_, dt)(*(__global const CLT_CAT(STORAGE(dt), 4) *)(row + at));               \
        UNROLL_FOR (uint i = 0; i < 4; i++)                                                                  \
            part[i] = at + i < HEAD_SIZE ? LOAD(dt, row, at + i) : 0.0f;                                     \
        return (float4)(part[0], part[1], part[2], part[3]);                                                 \
    }
static inline float4 widen_f32(float4 x)
{
    return x;
}
static inline float4 widen_f16(ushort4 x)
{
    const ushort part[4] = {x.x, x.y, x.z, x.w};
    return vload_half4(0, (const half *)part);
}
static inline float4 widen_bf16(ushort4 x)
{
    return (float4)(clt_bf16_load(x.x), clt_bf16_load(x.y), clt_bf16_load(x.z), clt_bf16_load(x.w));
}
DEFINE_FOUR(f32)
DEFINE_FOUR(f16)
DEFINE_FOUR(bf16)
#define LOAD_FOUR(dt, row, at) CLT_CAT(four_, dt)(row, at)

#if KERNEL != 4

/* Copies rows of a head, times `factor`, to local memory; rows from `have` on and columns after the head are
 * zero.
 */
#define DEFINE_FETCH(dt)                                                                                     \
    CLT_INLINE void CLT_CAT(fetch_, dt)(__local float *block, __global const STORAGE(dt) * x, ulong ld,      \
                                        uint have, float factor)                                             \
    {                                                                                                        \
        for (uint at = (uint)get_local_id(0); at < BLOCK * (WIDTH / 4); at += ITEMS) {                       \
            uint r = at / (WIDTH / 4), d = 4 * (at - r * (WIDTH / 4));                                       \
            float4 value = 0.0f;                                                                             \
            if (r < have)                                                                                    \
                value = LOAD_FOUR(dt, x + r * ld, d) * factor;                                               \
            *(__local float4 *)(block + r * PITCH + d) = value;                                              \
        }                                                                                                    \
    }
DEFINE_FETCH(f32)
DEFINE_FETCH(f16)
DEFINE_FETCH(bf16)
#define FETCH(dt, block, x, ld, have, factor) CLT_CAT(fetch_, dt)(block, x, ld, have, factor)

/* Row of an item's result, and the first column of its vector `part`. */
#define ROW(r) (down * TILE + (r))
#define COLUMN(part) (VEC * (across + (part)*SIDE))

/* Rows of x (+)= sum * factor: each item stores its part of the result; rows from `have` on do not exist. */
#define STORE_ROWS(dt, x, ld, sum, factor, have, accumulate)                                                 \
    UNROLL_FOR (uint r_ = 0; r_ < TILE; r_++) {                                                              \
        UNROLL_FOR (uint p_ = 0; p_ < PARTS; p_++) {                                                         \
            VECTOR value_ = (sum)[r_][p_] * (factor);                                                        \
            if (ROW(r_) < (have) && COLUMN(p_) < HEAD_SIZE)                                                  \
                CLT_CAT(store_rows_, dt)                                                                     \
            ((x) + ((ulong)ROW(r_) * (ld) + COLUMN(p_)), COLUMN(p_), value_, accumulate);                    \
        }                                                                                                    \
    }

/* Stores VEC elements of a row from `column` on, except elements beyond the head. */
#define DEFINE_STORE_ROWS(dt)                                                                                \
    static inline void CLT_CAT(store_rows_, dt)(__global STORAGE(dt) * to, uint column, VECTOR value,        \
                                                int accumulate)                                              \
    {                                                                                                        \
        float part[VEC];                                                                                     \
        CLT_CAT(vstore, VEC)(value, 0, part);                                                                \
        UNROLL_FOR (uint i = 0; i < VEC; i++)                                                                \
            if (column + i < HEAD_SIZE)                                                                      \
                STORE_GRAD(dt, to, i, part[i], accumulate);                                                  \
    }
DEFINE_STORE_ROWS(f16)
DEFINE_STORE_ROWS(bf16)
#if HEAD_SIZE % VEC == 0
static inline void store_rows_f32(__global float *to, uint column, VECTOR value, int accumulate)
{
    __global VECTOR *at = (__global VECTOR *)to;
    *at = accumulate ? *at + value : value;
}
#else
DEFINE_STORE_ROWS(f32)
#endif

/* --- products --- */

/* tile[r][c] = dot product of row ROW(r) of a and row (across + c * SIDE) of b */
CLT_INLINE void multiply_nt(float tile[TILE][TILE], __local const float *a, __local const float *b, uint down,
                            uint across)
{
    UNROLL_FOR (uint r = 0; r < TILE; r++)
        UNROLL_FOR (uint c = 0; c < TILE; c++)
            tile[r][c] = 0.0f;
    for (uint d = 0; d < HEAD_SIZE; d += 4) {
        float4 left[TILE], right[TILE];
        UNROLL_FOR (uint t = 0; t < TILE; t++) {
            left[t] = *(__local const float4 *)(a + ROW(t) * PITCH + d);
            right[t] = *(__local const float4 *)(b + (across + t * SIDE) * PITCH + d);
        }
        UNROLL_FOR (uint r = 0; r < TILE; r++)
            UNROLL_FOR (uint c = 0; c < TILE; c++) {
                float sum = fma(left[r].x, right[c].x, tile[r][c]);
                sum = fma(left[r].y, right[c].y, sum);
                sum = fma(left[r].z, right[c].z, sum);
                tile[r][c] = fma(left[r].w, right[c].w, sum);
            }
    }
}

/* sum[r] += left[r] * the item's vectors of one row of a block */
CLT_INLINE void multiply_row(VECTOR sum[TILE][PARTS], const float left[TILE], __local const float *row,
                             uint across)
{
    UNROLL_FOR (uint p = 0; p < PARTS; p++) {
        VECTOR right = *(__local const VECTOR *)(row + COLUMN(p));
        UNROLL_FOR (uint r = 0; r < TILE; r++)
            sum[r][p] = fma((VECTOR)(left[r]), right, sum[r][p]);
    }
}

/* sum[r] += sum over t of weights(row r, t) * block row t */
CLT_INLINE void multiply_nn(VECTOR sum[TILE][PARTS], __local const float *weights, __local const float *block,
                            uint down, uint across)
{
    for (uint t = 0; t < BLOCK; t += 4) {
        float left[4][TILE];
        UNROLL_FOR (uint r = 0; r < TILE; r++) {
            float4 four = *(__local const float4 *)(weights + ROW(r) * SCORES + t);
            left[0][r] = four.x;
            left[1][r] = four.y;
            left[2][r] = four.z;
            left[3][r] = four.w;
        }
        UNROLL_FOR (uint k = 0; k < 4; k++)
            multiply_row(sum, left[k], block + (t + k) * PITCH, across);
    }
}

/* The same with the transposed weights: sum[r] += sum over t of weights(t, row r) * block row t */
CLT_INLINE void multiply_tn(VECTOR sum[TILE][PARTS], __local const float *weights, __local const float *block,
                            uint down, uint across)
{
    for (uint t = 0; t < BLOCK; t++) {
        float left[TILE];
        UNROLL_FOR (uint r = 0; r < TILE; r++)
            left[r] = weights[t * SCORES + ROW(r)];
        multiply_row(sum, left, block + t * PITCH, across);
    }
}

#define CLEAR(sum)                                                                                           \
    UNROLL_FOR (uint r_ = 0; r_ < TILE; r_++)                                                                \
        UNROLL_FOR (uint p_ = 0; p_ < PARTS; p_++)                                                           \
    (sum)[r_][p_] = 0.0f

#endif
#if KERNEL == 0 || KERNEL == 1

/* --- forward --- */

/* Writes the item's scores, and the largest one of each of its rows, to local memory. Masked scores become
 * -INFINITY: row r of the block attends to the first seen[r] keys of the block. With INTERVALS, UNSEEN times
 * the number of these first keys that are too early for the row is added to seen[r]. */
#define UNSEEN 0x10000u
CLT_INLINE void store_rows_scores(__local float *score, __local float *tops, float tile[TILE][TILE],
                                  __local const uint *seen, uint down, uint across)
{
    UNROLL_FOR (uint r = 0; r < TILE; r++) {
        uint sees = seen[ROW(r)];
        float top = -INFINITY;
#if INTERVALS
        uint unseen = sees / UNSEEN;
        sees %= UNSEEN;
#endif
        UNROLL_FOR (uint c = 0; c < TILE; c++) {
            float s = across + c * SIDE < sees ? tile[r][c] : -INFINITY;
#if INTERVALS
            s = across + c * SIDE < unseen ? -INFINITY : s;
#endif
            top = fmax(top, s);
            score[ROW(r) * SCORES + across + c * SIDE] = s;
        }
        tops[ROW(r) * TOPS + across] = top;
    }
}

/* One step of the online softmax for COLUMNS scores of a row; SHARE items work on a row together. The scores
 * become exp(score - top) (times the dropout factor), and their sum without dropout is added to the item's
 * `total`. `top` becomes the largest score of the row so far and is the same in all items of the row.
 * Returns the factor by which earlier sums must be multiplied. */
CLT_INLINE float online_softmax(__local float *score, __local const float *tops, float *top, float *total,
                                __global const uint *sb, uint op, ulong number, float p_drop,
                                float keep_scale)
{
    float before = *top, now = before, sum = 0.0f;
    UNROLL_FOR (uint k = 0; k < SIDE; k++)
        now = fmax(now, tops[k]);
    UNROLL_FOR (uint c = 0; c < COLUMNS; c++) {
        float e = exp(score[c] - now);
        sum += e;
        score[c] = e * attention_keep(sb, op, number + c, p_drop, keep_scale);
    }
    float shrink = exp(before - now);
    *top = now;
    *total = *total * shrink + sum;
    return shrink;
}

/* Computes y and lse; one group per block of queries of a head. */
GROUP void attention_fwd_group(__global STORAGE(DT) * y, ulong y0, __global float *lse, ulong lse0,
                               ATTENTION_INPUTS, ATTENTION_SIZES)
{
    __local float query[BLOCK * PITCH] __attribute__((aligned(16)));
    __local float key[BLOCK * PITCH] __attribute__((aligned(16)));
    __local float value[BLOCK * PITCH] __attribute__((aligned(16)));
    __local float score[BLOCK * SCORES] __attribute__((aligned(16)));
    __local float tops[BLOCK * TOPS], shrink[BLOCK], totals[ITEMS];
    __local uint seen[BLOCK];
    uint blocks = (tq + BLOCK - 1) / BLOCK, lid = (uint)get_local_id(0);
    uint down = lid / SIDE, across = lid - down * SIDE;
    ulong item = get_group_id(0), head = item / blocks;
    uint i0 = (uint)(item - head * blocks) * BLOCK;
    uint n = (uint)(head / HEADS), h = (uint)(head - (ulong)n * HEADS), keys = KEYS_OF(n);
    SPANS_OF(n)
    uint rows = min(tq - i0, (uint)BLOCK), visible = attention_visible(i0 + rows - 1, tq, keys SPANS);
    /* in the softmax the item works on row `line`, columns from `first` on; that query attends to `mine`
     * keys */
    uint line = lid / SHARE, first = COLUMNS * (lid - line * SHARE);
    uint mine = line < rows ? attention_visible(i0 + line, tq, keys SPANS) : 0;
#if INTERVALS
    uint low = line < rows ? attention_low(i0 + line, tq, keys SPANS) : 0;
#endif
    ulong number = attention_number(sb + sb0, n, h, i0 + line, tq, tk) + first;
    float top = NO_TOP, total = 0.0f, tile[TILE][TILE];
    VECTOR sum[TILE][PARTS];
    CLEAR(sum);
    FETCH(DT, query, q + q0 + ((ulong)n * tq + i0) * ldq + h * HEAD_SIZE, ldq, rows, scale);
    for (uint j0 = FIRST_KEY(i0, keys); j0 < visible; j0 += BLOCK) {
        uint have = min(visible - j0, (uint)BLOCK);
        ulong row = (ulong)n * tk + j0;
        FETCH(DT, key, k + k0 + row * ldk + h / SHARING * HEAD_SIZE, ldk, have, 1.0f);
        FETCH(DT, value, v + v0 + row * ldv + h / SHARING * HEAD_SIZE, ldv, have, 1.0f);
        if (first == 0)
#if INTERVALS
            seen[line] = min(attention_beyond(mine, j0), (uint)BLOCK) +
                         UNSEEN * min(attention_beyond(low, j0), (uint)BLOCK);
#else
            seen[line] = attention_beyond(mine, j0);
#endif
        barrier(CLK_LOCAL_MEM_FENCE);
        multiply_nt(tile, query, key, down, across);
        store_rows_scores(score, tops, tile, seen, down, across);
        barrier(CLK_LOCAL_MEM_FENCE);
        float factor = online_softmax(score + line * SCORES + first, tops + line * TOPS, &top, &total,
                                      sb + sb0, op, number + j0, p_drop, keep_scale);
        if (first == 0)
            shrink[line] = factor;
        barrier(CLK_LOCAL_MEM_FENCE);
        UNROLL_FOR (uint r = 0; r < TILE; r++)
            UNROLL_FOR (uint p = 0; p < PARTS; p++)
                sum[r][p] *= shrink[ROW(r)];
        multiply_nn(sum, score, value, down, across);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    totals[lid] = total;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (first == 0) {
        for (uint k = 1; k < SHARE; k++)
            total += totals[lid + k];
        shrink[line] = mine > 0 ? 1.0f / total : 0.0f;
        if (line < rows)
            lse[lse0 + head * tq + i0 + line] = mine > 0 ? top + log(total) : 0.0f;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    UNROLL_FOR (uint r = 0; r < TILE; r++)
        UNROLL_FOR (uint p = 0; p < PARTS; p++)
            sum[r][p] *= shrink[ROW(r)];
    y += y0 + (((ulong)n * tq + i0) * HEADS + h) * HEAD_SIZE;
    STORE_ROWS(DT, y, HEADS * HEAD_SIZE, sum, 1.0f, rows, 0);
}

#endif
#if KERNEL == 0 || KERNEL == 2 || KERNEL == 3

/* --- backward --- */

/* Recomputes P of the item's tile from lse and writes dS = P * (keep * dP - delta), and with `weights` also
 * keep * P, to local memory. Queries begin at i0, keys at j0. `norm` holds lse and `mean` delta of the
 * block's queries. */
CLT_INLINE void score_gradients(bool weights, __local float *p, __local float *ds, __local const float *query,
                                __local const float *key, __local const float *dy_block,
                                __local const float *value, __local const float *norm,
                                __local const float *mean, uint down, uint across, uint i0, uint rows,
                                uint j0, uint tq, uint tk, uint keys, __global const uint *sb, uint op,
                                ulong number, float p_drop, float keep_scale SPANS_PARAM)
{
    float score[TILE][TILE], slope[TILE][TILE];
    multiply_nt(score, query, key, down, across);
    multiply_nt(slope, dy_block, value, down, across);
    UNROLL_FOR (uint r = 0; r < TILE; r++) {
        uint row = ROW(r), seen = row < rows ? attention_visible(i0 + row, tq, keys SPANS) : 0;
#if INTERVALS
        uint low = row < rows ? attention_low(i0 + row, tq, keys SPANS) : 0;
#endif
        UNROLL_FOR (uint c = 0; c < TILE; c++) {
            uint column = across + c * SIDE;
            float weight = 0.0f, keep = 0.0f, change = 0.0f;
#if INTERVALS
            if (j0 + column >= low && j0 + column < seen) {
#else
            if (j0 + column < seen) {
#endif
                weight = exp(score[r][c] - norm[row]);
                keep = attention_keep(sb, op, number + (ulong)row * tk + column, p_drop, keep_scale);
                change = weight * (slope[r][c] * keep - mean[row]);
            }
            if (weights)
                p[row * SCORES + column] = weight * keep;
            ds[row * SCORES + column] = change;
        }
    }
}

/* Copies lse and delta of a block's queries to local memory. */
CLT_INLINE void fetch_rows(__local float *norm, __local float *mean, __global const float *lse,
                           __global const float *delta, uint rows)
{
    uint lid = (uint)get_local_id(0);
    if (lid < BLOCK) {
        norm[lid] = lid < rows ? lse[lid] : 0.0f;
        mean[lid] = lid < rows ? delta[lid] : 0.0f;
    }
}

#endif
#if KERNEL == 0 || KERNEL == 2

/* Computes dq; one group per block of queries of a head. */
GROUP void attention_bwd_q_group(__global STORAGE(GT) * dq, ulong dq0, uint lddq, int accumulate,
                                 __global const STORAGE(DYT) * dy, ulong dy0, __global const float *lse,
                                 ulong lse0, __global const float *delta, ulong delta0, ATTENTION_INPUTS,
                                 ATTENTION_SIZES)
{
    __local float query[BLOCK * PITCH] __attribute__((aligned(16)));
    __local float key[BLOCK * PITCH] __attribute__((aligned(16)));
    __local float value[BLOCK * PITCH] __attribute__((aligned(16)));
    __local float dy_block[BLOCK * PITCH] __attribute__((aligned(16)));
    __local float ds[BLOCK * SCORES] __attribute__((aligned(16)));
    __local float norm[BLOCK], mean[BLOCK];
    uint blocks = (tq + BLOCK - 1) / BLOCK, lid = (uint)get_local_id(0);
    uint down = lid / SIDE, across = lid - down * SIDE;
    ulong item = get_group_id(0), head = item / blocks;
    uint i0 = (uint)(item - head * blocks) * BLOCK;
    uint n = (uint)(head / HEADS), h = (uint)(head - (ulong)n * HEADS), keys = KEYS_OF(n);
    SPANS_OF(n)
    uint rows = min(tq - i0, (uint)BLOCK), visible = attention_visible(i0 + rows - 1, tq, keys SPANS);
    ulong line = (ulong)n * tq + i0;
    VECTOR sum[TILE][PARTS];
    CLEAR(sum);
    FETCH(DT, query, q + q0 + line * ldq + h * HEAD_SIZE, ldq, rows, scale);
    FETCH(DYT, dy_block, dy + dy0 + (line * HEADS + h) * HEAD_SIZE, HEADS * HEAD_SIZE, rows, 1.0f);
    fetch_rows(norm, mean, lse + lse0 + head * tq + i0, delta + delta0 + head * tq + i0, rows);
    for (uint j0 = FIRST_KEY(i0, keys); j0 < visible; j0 += BLOCK) {
        uint have = min(visible - j0, (uint)BLOCK);
        ulong row = (ulong)n * tk + j0;
        FETCH(DT, key, k + k0 + row * ldk + h / SHARING * HEAD_SIZE, ldk, have, 1.0f);
        FETCH(DT, value, v + v0 + row * ldv + h / SHARING * HEAD_SIZE, ldv, have, 1.0f);
        barrier(CLK_LOCAL_MEM_FENCE);
        score_gradients(false, ds, ds, query, key, dy_block, value, norm, mean, down, across, i0, rows, j0,
                        tq, tk, keys, sb + sb0, op, attention_number(sb + sb0, n, h, i0, tq, tk) + j0, p_drop,
                        keep_scale SPANS);
        barrier(CLK_LOCAL_MEM_FENCE);
        multiply_nn(sum, ds, key, down, across);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    dq += dq0 + line * lddq + h * HEAD_SIZE;
    STORE_ROWS(GT, dq, lddq, sum, scale, rows, accumulate);
}

#endif
#if KERNEL == 0 || KERNEL == 3

/* Computes dk and dv; one group per block of keys of a key head. */
GROUP void attention_bwd_kv_group(__global STORAGE(GT) * dk, ulong dk0, uint lddk, int accumulate_k,
                                  __global STORAGE(GT) * dv, ulong dv0, uint lddv, int accumulate_v,
                                  __global const STORAGE(DYT) * dy, ulong dy0, __global const float *lse,
                                  ulong lse0, __global const float *delta, ulong delta0, ATTENTION_INPUTS,
                                  ATTENTION_SIZES)
{
    __local float query[BLOCK * PITCH] __attribute__((aligned(16)));
    __local float key[BLOCK * PITCH] __attribute__((aligned(16)));
    __local float value[BLOCK * PITCH] __attribute__((aligned(16)));
    __local float dy_block[BLOCK * PITCH] __attribute__((aligned(16)));
    __local float p[BLOCK * SCORES], ds[BLOCK * SCORES], norm[BLOCK], mean[BLOCK];
    uint blocks = (tk + BLOCK - 1) / BLOCK, lid = (uint)get_local_id(0);
    uint down = lid / SIDE, across = lid - down * SIDE;
    ulong item = get_group_id(0), head = item / blocks;
    uint j0 = (uint)(item - head * blocks) * BLOCK;
    uint n = (uint)(head / KV_HEADS), g = (uint)(head - (ulong)n * KV_HEADS), keys = KEYS_OF(n);
    SPANS_OF(n)
    uint have = min(tk - j0, (uint)BLOCK), held = min(attention_beyond(keys, j0), (uint)BLOCK);
    uint first = attention_first_query(j0, tq, keys SPANS) / BLOCK * BLOCK;
    LAST_QUERY(j0 + max(held, 1u) - 1, keys)
    ulong row = (ulong)n * tk + j0;
    VECTOR sum_k[TILE][PARTS], sum_v[TILE][PARTS];
    CLEAR(sum_k);
    CLEAR(sum_v);
    FETCH(DT, key, k + k0 + row * ldk + g * HEAD_SIZE, ldk, held, 1.0f);
    FETCH(DT, value, v + v0 + row * ldv + g * HEAD_SIZE, ldv, held, 1.0f);
    for (uint h = g * SHARING; h < (g + 1) * SHARING; h++) {
        for (uint i0 = held > 0 ? first : tq; i0 < LAST_QUERY_END; i0 += BLOCK) {
            uint rows = min(tq - i0, (uint)BLOCK);
            ulong line = (ulong)n * tq + i0, at = ((ulong)n * HEADS + h) * tq + i0;
            FETCH(DT, query, q + q0 + line * ldq + h * HEAD_SIZE, ldq, rows, scale);
            FETCH(DYT, dy_block, dy + dy0 + (line * HEADS + h) * HEAD_SIZE, HEADS * HEAD_SIZE, rows, 1.0f);
            fetch_rows(norm, mean, lse + lse0 + at, delta + delta0 + at, rows);
            barrier(CLK_LOCAL_MEM_FENCE);
            score_gradients(true, p, ds, query, key, dy_block, value, norm, mean, down, across, i0, rows, j0,
                            tq, tk, keys, sb + sb0, op, attention_number(sb + sb0, n, h, i0, tq, tk) + j0,
                            p_drop, keep_scale SPANS);
            barrier(CLK_LOCAL_MEM_FENCE);
            multiply_tn(sum_v, p, dy_block, down, across);
            multiply_tn(sum_k, ds, query, down, across);
            barrier(CLK_LOCAL_MEM_FENCE);
        }
    }
    dk += dk0 + row * lddk + g * HEAD_SIZE;
    dv += dv0 + row * lddv + g * HEAD_SIZE;
    STORE_ROWS(GT, dk, lddk, sum_k, 1.0f, have, accumulate_k);
    STORE_ROWS(GT, dv, lddv, sum_v, 1.0f, have, accumulate_v);
}

#endif
#if KERNEL == 0 || KERNEL == 4

/* --- delta --- */

#define ROW_ITEMS (HEAD_SIZE > 64 ? 16 : HEAD_SIZE > 32 ? 8 : HEAD_SIZE > 16 ? 4 : HEAD_SIZE > 8 ? 2 : 1)

/* delta (batch,HEADS,tq) = sum over a head of dy * y; ROW_ITEMS neighbouring items share a row; each reads
 * every ROW_ITEMS-th vector of four elements. */
GROUP void attention_bwd_delta_group(__global float *delta, ulong delta0, __global const STORAGE(DYT) * dy,
                                     ulong dy0, __global const STORAGE(DT) * y, ulong y0, uint batch, uint tq)
{
    __local float parts[ITEMS];
    uint lid = (uint)get_local_id(0), line = lid / ROW_ITEMS, share = lid - line * ROW_ITEMS;
    ulong total = (ulong)batch * HEADS * tq, first = get_group_id(0) * (ITEMS / ROW_ITEMS);
    ulong row = first + line, head = row / tq;
    float4 sum = 0.0f;
    if (row < total) {
        uint n = (uint)(head / HEADS), h = (uint)(head - (ulong)n * HEADS);
        ulong at = (((ulong)n * tq + (uint)(row - head * tq)) * HEADS + h) * HEAD_SIZE;
        for (uint d = 4 * share; d < HEAD_SIZE; d += 4 * ROW_ITEMS)
            sum = fma(LOAD_FOUR(DYT, dy + (dy0 + at), d), LOAD_FOUR(DT, y + (y0 + at), d), sum);
    }
    parts[lid] = (sum.x + sum.y) + (sum.z + sum.w);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lid < ITEMS / ROW_ITEMS && first + lid < total) {
        float all = parts[lid * ROW_ITEMS];
        for (uint k = 1; k < ROW_ITEMS; k++)
            all += parts[lid * ROW_ITEMS + k];
        delta[delta0 + first + lid] = all;
    }
}
#endif
