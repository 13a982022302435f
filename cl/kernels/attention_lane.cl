/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention, the form for CPU devices: one work-item per work-group, panels of BK keys copied into private
 * memory (keys and values also transposed, so that sixteen lanes are sixteen keys), and products of panels
 * with sixteen accumulators in registers. Forward: an item has BQ queries of one head and takes the keys
 * panel by panel, softmax on line. Backward: an item has all keys of one key head; the scores are made once
 * for dq, dk and dv, dq growing in memory from panel to panel. Everything is added in a fixed order by one
 * item: no atomics. Same results as attention.cl up to rounding. Defines: attention.clh; gradients are f32.
 */
#include "common.clh"
#include "lanes.clh"
#include "attention.clh"

#ifndef BQ /* queries of an item, forward */
#define BQ 64
#endif
#define BK 64                                           /* keys of a panel */
#define QB 16                                           /* queries of a block, backward */
#define ROWS 8                                          /* rows of a product in registers */
#define WIDTH ((HEAD_SIZE + LANES - 1) / LANES * LANES) /* of a row-major panel, zeros behind the head */
#define ITEM __kernel __attribute__((reqd_work_group_size(1, 1, 1)))

/* c[ROWS][n] += sum over k of a(row, k) * b[k][n], n a multiple of LANES; a(row, k) = a[row * a_row + k *
 * a_k]. */
static inline void rows_product(float *c, uint ldc, const float *a, uint a_row, uint a_k, const float *b,
                                uint ldb, uint n, uint count)
{
    uint at = 0;
    for (; at + 2 * LANES <= n; at += 2 * LANES) {
        float16 left[ROWS], right[ROWS];
#pragma unroll
        for (uint r = 0; r < ROWS; r++) {
            left[r] = vload16(0, c + r * ldc + at);
            right[r] = vload16(0, c + r * ldc + at + LANES);
        }
        for (uint p = 0; p < count; p++) {
            float16 w0 = vload16(0, b + p * ldb + at), w1 = vload16(0, b + p * ldb + at + LANES);
#pragma unroll
            for (uint r = 0; r < ROWS; r++) {
                float16 s = (float16)(a[r * a_row + p * a_k]);
                left[r] = fma(s, w0, left[r]);
                right[r] = fma(s, w1, right[r]);
            }
        }
#pragma unroll
        for (uint r = 0; r < ROWS; r++) {
            vstore16(left[r], 0, c + r * ldc + at);
            vstore16(right[r], 0, c + r * ldc + at + LANES);
        }
    }
    if (at < n) {
        float16 left[ROWS];
#pragma unroll
        for (uint r = 0; r < ROWS; r++)
            left[r] = vload16(0, c + r * ldc + at);
        for (uint p = 0; p < count; p++) {
            float16 w0 = vload16(0, b + p * ldb + at);
#pragma unroll
            for (uint r = 0; r < ROWS; r++)
                left[r] = fma((float16)(a[r * a_row + p * a_k]), w0, left[r]);
        }
#pragma unroll
        for (uint r = 0; r < ROWS; r++)
            vstore16(left[r], 0, c + r * ldc + at);
    }
}

static inline void clear(float *panel, uint count)
{
    for (uint i = 0; i < count; i += LANES)
        vstore16((float16)(0.0f), 0, panel + i);
}

/* Rows of a head times `factor` as a panel of WIDTH columns; rows from `have` to `rows` become zero. */
#define DEFINE_PACK(dt)                                                                                      \
    static inline void CLT_CAT(pack_, dt)(float *panel, __global const STORAGE(dt) * x, ulong ld, uint have, \
                                          uint rows, float factor)                                           \
    {                                                                                                        \
        for (uint r = 0; r < have; r++) {                                                                    \
            uint d = 0;                                                                                      \
            for (; d + LANES <= HEAD_SIZE; d += LANES)                                                       \
                vstore16(LOAD16(dt, x, r *ld + d) * factor, 0, panel + r * WIDTH + d);                       \
            for (; d < HEAD_SIZE; d++)                                                                       \
                panel[r * WIDTH + d] = LOAD(dt, x, r * ld + d) * factor;                                     \
            for (; d < WIDTH; d++)                                                                           \
                panel[r * WIDTH + d] = 0.0f;                                                                 \
        }                                                                                                    \
        clear(panel + have * WIDTH, (rows - have) * WIDTH);                                                  \
    }
DEFINE_PACK(f32)
DEFINE_PACK(f16)
DEFINE_PACK(bf16)
#define PACK(dt, ...) CLT_CAT(pack_, dt)(__VA_ARGS__)

/* turned[d][key] = panel[key][d] */
static inline void turn(float *turned, const float *panel)
{
    for (uint d = 0; d < HEAD_SIZE; d++)
        for (uint key = 0; key < BK; key++)
            turned[d * BK + key] = panel[key * WIDTH + d];
}

#define LANE_NUMBERS (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)

static inline uint up_to_lanes(uint n)
{
    return (n + LANES - 1) / LANES * LANES;
}

#if DROPOUT
/* Factors of `count` probabilities from `number` on; four share a block of the generator. */
static inline void keep_factors(float *keep, __global const uint *sb, uint op, ulong number, uint count,
                                float p_drop, float keep_scale)
{
    uint lead = (uint)(number % 4);
    for (uint block = 0; block * 4 < lead + count; block++) {
        uint word[4];
        vstore4(clt_rng_block(sb, RNG_DROPOUT, op, number / 4 + block), 0, word);
        for (uint w = 0; w < 4; w++) {
            uint at = block * 4 + w - lead; /* wraps before the first */
            if (at < count)
                keep[at] = clt_uniform(word[w]) >= p_drop ? keep_scale : 0.0f;
        }
    }
}
#endif

/* Scores of one row become exp(score - top) where a key is seen and 0 elsewhere; returns the factor by which
 * earlier sums shrink. */
static inline float soften(float *score, uint cols, uint seen, float *top, float *total)
{
    float16 most = (float16)(-INFINITY), sum = (float16)(0.0f);
    for (uint c = 0; c < cols; c += LANES) {
        float16 s = select((float16)(-INFINITY), vload16(0, score + c), LANE_NUMBERS + (int)c < (int)seen);
        vstore16(s, 0, score + c);
        most = fmax(most, s);
    }
    float before = *top, now = fmax(before, clt_max16(most));
    for (uint c = 0; c < cols; c += LANES) {
        float16 e = exp(vload16(0, score + c) - now);
        vstore16(e, 0, score + c);
        sum += e;
    }
    float shrink = now > before ? exp(before - now) : 1.0f;
    *top = now;
    *total = *total * shrink + clt_sum16(sum);
    return shrink;
}

/* Panels of one item of the forward kernel. */
typedef struct forward_panels {
    float query[BQ * WIDTH], key[BK * WIDTH], turned[HEAD_SIZE * BK], value[BK * WIDTH], sum[BQ * WIDTH];
    float score[ROWS * BK], top[BQ], total[BQ];
} forward_panels;

/* What ROWS queries from row r0 of the item (query i0) on see of the panel of keys from j0 on; `number` is
 * that of the probability of query i0 and key j0. */
static inline void forward_rows(forward_panels *b, uint r0, uint last, uint i0, uint j0, uint tq, uint tk,
                                uint keys, __global const uint *sb, uint op, ulong number, float p_drop,
                                float keep_scale)
{
    uint end = attention_visible(i0 + last - 1, tq, keys);
    if (end <= j0)
        return;
    uint reach = min(end - j0, (uint)BK), cols = up_to_lanes(reach);
    clear(b->score, ROWS * BK);
    rows_product(b->score, BK, b->query + r0 * WIDTH, WIDTH, 1, b->turned, BK, cols, HEAD_SIZE);
    for (uint r = r0; r < r0 + ROWS; r++) {
        uint seen = r < last ? attention_visible(i0 + r, tq, keys) : 0;
        float *row = b->score + (r - r0) * BK, *sum = b->sum + r * WIDTH;
        if (seen <= j0) {
            clear(row, cols);
            continue;
        }
        float shrink = soften(row, cols, min(seen - j0, (uint)BK), b->top + r, b->total + r);
#if DROPOUT
        float keep[BK];
        keep_factors(keep, sb, op, number + (ulong)r * tk, cols, p_drop, keep_scale);
        for (uint c = 0; c < cols; c += LANES)
            vstore16(vload16(0, row + c) * vload16(0, keep + c), 0, row + c);
#endif
        for (uint d = 0; d < WIDTH && shrink != 1.0f; d += LANES)
            vstore16(vload16(0, sum + d) * shrink, 0, sum + d);
    }
    rows_product(b->sum + r0 * WIDTH, WIDTH, b->score, BK, 1, b->value, WIDTH, WIDTH, reach);
}

/* y and lse of the item's rows. */
static inline void forward_finish(forward_panels *b, __global STORAGE(DT) * y, __global float *lse, uint rows,
                                  uint i0, uint tq, uint keys)
{
    for (uint r = 0; r < rows; r++) {
        bool any = attention_visible(i0 + r, tq, keys) > 0;
        float norm = any ? 1.0f / b->total[r] : 0.0f;
        ulong at = (ulong)r * (HEADS * HEAD_SIZE);
        uint d = 0;
        lse[r] = any ? b->top[r] + log(b->total[r]) : 0.0f;
        for (; d + LANES <= HEAD_SIZE; d += LANES)
            STORE16(DT, y, at + d, vload16(0, b->sum + r * WIDTH + d) * norm);
        for (; d < HEAD_SIZE; d++)
            STORE(DT, y, at + d, b->sum[r * WIDTH + d] * norm);
    }
}

/* One item per BQ queries of a head; items of a head are neighbours. */
ITEM void attention_fwd_lane(__global STORAGE(DT) * y, ulong y0, __global float *lse, ulong lse0,
                             ATTENTION_INPUTS, ATTENTION_SIZES)
{
    uint blocks = (tq + BQ - 1) / BQ;
    ulong item = get_group_id(0), head = item / blocks;
    /* remainders by multiplication: see attention.cl */
    uint i0 = (uint)(item - head * blocks) * BQ, n = (uint)(head / HEADS),
         h = (uint)(head - (ulong)n * HEADS);
    uint rows = min(tq - i0, (uint)BQ), keys = KEYS_OF(n);
    uint visible = attention_visible(i0 + rows - 1, tq, keys);
    ulong number = attention_number(sb + sb0, n, h, i0, tq, tk);
    forward_panels b;
    k += k0 + (ulong)n * tk * ldk + h / SHARING * HEAD_SIZE;
    v += v0 + (ulong)n * tk * ldv + h / SHARING * HEAD_SIZE;
    PACK(DT, b.query, q + q0 + ((ulong)n * tq + i0) * ldq + h * HEAD_SIZE, ldq, rows, BQ, scale);
    clear(b.sum, BQ * WIDTH);
    for (uint r = 0; r < BQ; r++) {
        b.top[r] = -INFINITY;
        b.total[r] = 0.0f;
    }
    for (uint j0 = 0; j0 < visible; j0 += BK) {
        uint have = min(visible - j0, (uint)BK);
        PACK(DT, b.key, k + (ulong)j0 * ldk, ldk, have, BK, 1.0f);
        PACK(DT, b.value, v + (ulong)j0 * ldv, ldv, have, BK, 1.0f);
        turn(b.turned, b.key);
        for (uint r0 = 0; r0 < rows; r0 += ROWS)
            forward_rows(&b, r0, min(r0 + ROWS, rows), i0, j0, tq, tk, keys, sb + sb0, op, number + j0,
                         p_drop, keep_scale);
    }
    forward_finish(&b, y + y0 + (((ulong)n * tq + i0) * HEADS + h) * HEAD_SIZE, lse + lse0 + head * tq + i0,
                   rows, i0, tq, keys);
}

/* x rows (+)= panel rows * factor */
static inline void put_rows(__global float *x, ulong ld, const float *panel, uint rows, float factor,
                            int accumulate)
{
    for (uint r = 0; r < rows; r++) {
        uint d = 0;
        for (; d + LANES <= HEAD_SIZE; d += LANES)
            STORE16_GRAD(f32, x, r * ld + d, vload16(0, panel + r * WIDTH + d) * factor, accumulate);
        for (; d < HEAD_SIZE; d++)
            STORE_GRAD(f32, x, r * ld + d, panel[r * WIDTH + d] * factor, accumulate);
    }
}

/* Panels of one item of the backward kernel. */
typedef struct backward_panels {
    float key[BK * WIDTH], key_turned[HEAD_SIZE * BK], value_turned[HEAD_SIZE * BK];
    float dk[BK * WIDTH], dv[BK * WIDTH];
    float query[QB * WIDTH], given[QB * WIDTH], dq[QB * WIDTH];
    float p[QB * BK], ds[QB * BK];
} backward_panels;

/* From scores (in p) and dP (in ds) of one row to keep * P and dS. */
static inline void row_slopes(float *p, float *ds, uint cols, uint seen, float lse, float delta,
                              const float *keep)
{
    for (uint c = 0; c < cols; c += LANES) {
        float16 e = exp(vload16(0, p + c) - lse);
        e = select((float16)(0.0f), e, LANE_NUMBERS + (int)c < (int)seen);
#if DROPOUT
        float16 factor = vload16(0, keep + c);
        vstore16(e * factor, 0, p + c);
        vstore16(e * fma(vload16(0, ds + c), factor, (float16)(-delta)), 0, ds + c);
#else
        vstore16(e, 0, p + c);
        vstore16(e * (vload16(0, ds + c) - delta), 0, ds + c);
#endif
    }
}

/* P, dS and dq of the QB queries from i0 on against the panel of keys from j0 on, of which they see less than
 * `cols`; lse and delta begin at query i0, `number` is that of the probability of query i0 and key j0. */
static inline void block_slopes(backward_panels *b, uint rows, uint cols, uint i0, uint j0, uint tq, uint tk,
                                uint keys, __global const float *lse, __global const float *delta,
                                __global const uint *sb, uint op, ulong number, float p_drop,
                                float keep_scale)
{
    clear(b->p, QB * BK);
    clear(b->ds, QB * BK);
    clear(b->dq, QB * WIDTH);
    for (uint r0 = 0; r0 < QB; r0 += ROWS) {
        rows_product(b->p + r0 * BK, BK, b->query + r0 * WIDTH, WIDTH, 1, b->key_turned, BK, cols, HEAD_SIZE);
        rows_product(b->ds + r0 * BK, BK, b->given + r0 * WIDTH, WIDTH, 1, b->value_turned, BK, cols,
                     HEAD_SIZE);
        for (uint r = r0; r < r0 + ROWS; r++) {
            uint seen = r < rows ? attention_visible(i0 + r, tq, keys) : 0;
            float keep[BK];
#if DROPOUT
            keep_factors(keep, sb, op, number + (ulong)r * tk, cols, p_drop, keep_scale);
#endif
            row_slopes(b->p + r * BK, b->ds + r * BK, cols, attention_beyond(seen, j0),
                       r < rows ? lse[r] : 0.0f, r < rows ? delta[r] : 0.0f, keep);
        }
        rows_product(b->dq + r0 * WIDTH, WIDTH, b->ds + r0 * BK, BK, 1, b->key, WIDTH, WIDTH, cols);
    }
}

/* One item per key head: all its keys, and the queries of the heads that share it. */
ITEM void attention_bwd_lane(__global float *dq, ulong dq0, uint lddq, int accumulate_q, __global float *dk,
                             ulong dk0, uint lddk, int accumulate_k, __global float *dv, ulong dv0, uint lddv,
                             int accumulate_v, __global const STORAGE(DYT) * dy, ulong dy0,
                             __global const float *lse, ulong lse0, __global const float *delta, ulong delta0,
                             ATTENTION_INPUTS, ATTENTION_SIZES)
{
    ulong item = get_group_id(0);
    uint n = (uint)(item / KV_HEADS), g = (uint)(item - (ulong)n * KV_HEADS), keys = KEYS_OF(n);
    backward_panels b;
    for (uint j0 = 0; j0 < tk; j0 += BK) {
        uint have = min(tk - j0, (uint)BK), held = min(attention_beyond(keys, j0), (uint)BK);
        ulong key_row = (ulong)n * tk + j0;
        PACK(DT, b.key, v + v0 + key_row * ldv + g * HEAD_SIZE, ldv, held, BK, 1.0f);
        turn(b.value_turned, b.key);
        PACK(DT, b.key, k + k0 + key_row * ldk + g * HEAD_SIZE, ldk, held, BK, 1.0f);
        turn(b.key_turned, b.key);
        clear(b.dk, BK * WIDTH);
        clear(b.dv, BK * WIDTH);
        /* the first panel writes dq, so it meets every query, also those that see no key */
        uint first = j0 == 0 ? 0 : attention_first_query(j0, tq, keys) / QB * QB;
        for (uint h = g * SHARING; h < (g + 1) * SHARING; h++) {
            for (uint i0 = first; i0 < tq; i0 += QB) {
                uint rows = min(tq - i0, (uint)QB), end = attention_visible(i0 + rows - 1, tq, keys);
                uint cols = up_to_lanes(min(attention_beyond(end, j0), (uint)BK));
                ulong row = (ulong)n * tq + i0, line = ((ulong)n * HEADS + h) * tq + i0;
                PACK(DT, b.query, q + q0 + row * ldq + h * HEAD_SIZE, ldq, rows, QB, scale);
                PACK(DYT, b.given, dy + dy0 + (row * HEADS + h) * HEAD_SIZE, HEADS * HEAD_SIZE, rows, QB,
                     1.0f);
                block_slopes(&b, rows, cols, i0, j0, tq, tk, keys, lse + lse0 + line, delta + delta0 + line,
                             sb + sb0, op, attention_number(sb + sb0, n, h, i0, tq, tk) + j0, p_drop,
                             keep_scale);
                for (uint c = 0; c < cols; c += ROWS) {
                    rows_product(b.dv + c * WIDTH, WIDTH, b.p + c, 1, BK, b.given, WIDTH, WIDTH, QB);
                    rows_product(b.dk + c * WIDTH, WIDTH, b.ds + c, 1, BK, b.query, WIDTH, WIDTH, QB);
                }
                put_rows(dq + dq0 + row * lddq + h * HEAD_SIZE, lddq, b.dq, rows, scale,
                         accumulate_q || j0 > 0);
            }
        }
        put_rows(dk + dk0 + key_row * lddk + g * HEAD_SIZE, lddk, b.dk, have, 1.0f, accumulate_k);
        put_rows(dv + dv0 + key_row * lddv + g * HEAD_SIZE, lddv, b.dv, have, 1.0f, accumulate_v);
    }
}
