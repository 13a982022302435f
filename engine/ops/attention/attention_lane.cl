/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention, the variant lane, for CPU devices: one work-item per work-group, with tiles of queries and keys
 * in private memory. A product of tiles keeps all its accumulators in registers: ROWS rows of VECTORS
 * float16 vectors. Each step adds an outer product to them: one element for each row, times a row of
 * vectors. Forward: an item has BQ queries of one head. Each lane of a vector belongs to one query, so that
 * the online softmax needs no reduction across lanes and keys and values need no transposition; the item
 * loops over tiles of keys. Backward: an item has a share of the key tiles of one key head; scores are
 * recomputed once for dq, dk and dv; dq is accumulated in memory over the tiles, in one copy per share,
 * which attention_bwd_sum_lane adds up. Each sum is made by one item in a fixed order: no atomics. Tiles
 * that are masked as a whole are skipped. Same results as attention.cl up to rounding. Gradients are f32.
 * attention.clh and attention_lane.clh list the defines. */
#include "attention_lane.clh"

#if KERNEL == 0 || KERNEL == 1

/* --- forward --- */

#define KEY_ROWS UP_TO(BK, ROWS)
#define QUERY_ROWS UP_TO(BQ, ROWS)

typedef struct __attribute__((aligned(64))) forward_tiles {
    float query[HEAD_SIZE * BQ]; /* transposed: [d][query] */
    float key[KEY_ROWS * WIDTH], value[BK * WIDTH], sum[QUERY_ROWS * WIDTH];
    float p[(KEY_ROWS + ROWS) * WEIGHTS]; /* [key][query]: scores, then their exponentials */
    float top[BQ], total[BQ], shrink[WEIGHTS];
} forward_tiles;

/* With INTERVALS: which keys of a tile are too early for the queries of a strip. The first `for_all` keys
 * are too early for all of these queries, the first `for_some` keys for at least one of them. */
#if INTERVALS
typedef struct early_keys {
    uint for_all, for_some;
    int16 lane[VECTORS]; /* early_for() of each query */
} early_keys;
#define EARLY_PARAM , const early_keys *early
#define EARLY_ARG , &early
#define FIRST_OF_STRIP early->for_all
#define FIRST_WEIGHT early.for_all
#define NO_TILE_BEFORE at->j0 == at->start
#define A_TILE_BEFORE at->j0 > at->start
#else
#define EARLY_PARAM
#define EARLY_ARG
#define FIRST_OF_STRIP 0
#define FIRST_WEIGHT 0
#define NO_TILE_BEFORE at->j0 == 0
#define A_TILE_BEFORE at->j0 > 0
#endif

/* Computes QKᵀ for the queries of columns c .. c + STRIP - 1 and the first `cols` keys; masked scores become
 * -INFINITY. top: the largest score of each query so far. All queries attend to the first `all` keys. */
CLT_INLINE void scores(forward_tiles *t, uint c, uint cols, uint all, const SEEN *seen,
                       float16 *top EARLY_PARAM)
{
    for (uint k = FIRST_OF_STRIP; k < cols; k += ROWS) {
        float16 sum[ROWS][VECTORS];
        EACH_SUM sum[r][v] = ZERO;
        multiply(sum, t->key + k * WIDTH, WIDTH, 1, t->query + c, BQ, HEAD_SIZE);
        if (k + ROWS > all)
            EACH_SUM sum[r][v] = mask_score(sum[r][v], seen[v], k + r);
#if INTERVALS
        if (k < early->for_some)
            EACH_SUM sum[r][v] = select(sum[r][v], (float16)(-INFINITY), early->lane[v] > (int)(k + r));
#endif
        EACH_SUM
        {
            top[v] = select(top[v], sum[r][v], sum[r][v] > top[v]);
            vstore16(sum[r][v], v, t->p + (k + r) * WEIGHTS + c);
        }
    }
}

/* One step of the online softmax for the queries of columns c .. c + STRIP - 1 over `cols` keys. */
CLT_INLINE void online_softmax(forward_tiles *t, const tile_pair *at, uint c, uint cols,
                               const drop_mask *mask)
{
    SEEN seen[VECTORS];
    float16 before[VECTORS], top[VECTORS], base[VECTORS], total[VECTORS];
    EACH_VECTOR
    {
        seen[v] = seen_by_lanes(at, c + v * LANES);
        before[v] = top[v] = vload16(v, t->top + c);
        total[v] = ZERO;
    }
#if INTERVALS
    early_keys early = {min(early_for(at, c), cols) / ROWS * ROWS,
                        early_for(at, min(c + STRIP, at->rows) - 1)};
    EACH_VECTOR early.lane[v] = early_for_lanes(at, c + v * LANES);
    for (uint k = 0; k < early.for_all; k++)
        EACH_VECTOR vstore16(ZERO, v, t->p + k * WEIGHTS + c);
#endif
    scores(t, c, cols, seen_by(at, c), seen, top EARLY_ARG);
    /* a query without any key so far: avoid -INFINITY - -INFINITY */
    EACH_VECTOR base[v] = select(top[v], ZERO, top[v] == (float16)(-INFINITY));
    for (uint k = FIRST_WEIGHT; k < cols; k++) {
        EACH_VECTOR
        {
            float16 e = clt_exp16(vload16(v, t->p + k * WEIGHTS + c) - base[v]); /* masked scores give 0 */
            vstore16(e, v, t->p + k * WEIGHTS + c);
            total[v] += e;
        }
    }
    /* a block of ROWS queries may extend into the next columns, whose queries attend to more keys: clear the
     * rows of these keys */
    for (uint k = cols; k < cols + ROWS - 1; k++)
        EACH_VECTOR vstore16(ZERO, v, t->p + k * WEIGHTS + c);
    EACH_VECTOR
    {
        float16 shrink = clt_exp16(before[v] - base[v]);
        vstore16(shrink, v, t->shrink + c);
        vstore16(fma(vload16(v, t->total + c), shrink, total[v]), v, t->total + c);
        vstore16(top[v], v, t->top + c);
#if DROPOUT
        drop_lanes(mask, c + v * LANES, t->p + c + v * LANES, cols);
#endif
    }
}

/* Computes PV: sum = sum * shrink + P V; for the first tile of keys sum = P V. */
CLT_INLINE void add_values(forward_tiles *t, const tile_pair *at)
{
    for (uint q = 0; q < at->rows; q += ROWS) {
        uint reach = min(seen_by_some(at, q, ROWS), (uint)BK);
#if INTERVALS
        uint from = min(early_for(at, q), reach);
        if (from == reach && A_TILE_BEFORE)
            continue;
#else
        if (reach == 0 && A_TILE_BEFORE)
            continue;
#endif
        for (uint d = 0; d < WIDTH; d += STRIP) {
            float *to = t->sum + q * WIDTH + d;
            float16 sum[ROWS][VECTORS];
            if (NO_TILE_BEFORE)
                EACH_SUM sum[r][v] = ZERO;
            else
                EACH_SUM sum[r][v] = vload16(v, to + r * WIDTH) * (float16)(t->shrink[q + r]);
#if INTERVALS
            multiply(sum, t->p + q + from * WEIGHTS, 1, WEIGHTS, t->value + d + from * WIDTH, WIDTH,
                     reach - from);
#else
            multiply(sum, t->p + q, 1, WEIGHTS, t->value + d, WIDTH, reach);
#endif
            EACH_SUM vstore16(sum[r][v], v, to + r * WIDTH);
        }
    }
}

/* Writes y and lse of the item's queries; zeros for queries without any key. */
CLT_INLINE void finish(forward_tiles *t, const tile_pair *at, __global STORAGE(DT) * y, __global float *lse)
{
    for (uint c = 0; c < at->rows; c += LANES) {
        float16 total = vload16(0, t->total + c), top = vload16(0, t->top + c);
        int16 blind = top == (float16)(-INFINITY);
        vstore16(select(top + clt_log16(total), ZERO, blind), 0, t->top + c);
        vstore16(select((float16)(1.0f) / total, ZERO, blind), 0, t->total + c);
    }
    for (uint r = 0; r < at->rows; r++) {
        float norm = t->total[r];
        ulong to = (ulong)r * (HEADS * HEAD_SIZE);
        lse[r] = t->top[r];
#pragma unroll
        for (uint d = 0; d + LANES <= HEAD_SIZE; d += LANES)
            STORE16(DT, y, to + d, vload16(0, t->sum + r * WIDTH + d) * norm);
        for (uint d = HEAD_SIZE / LANES * LANES; d < HEAD_SIZE; d++)
            STORE(DT, y, to + d, t->sum[r * WIDTH + d] * norm);
    }
}

/* One item per BQ queries of a head. The last queries of a head, which attend to the most keys, are started
 * first. */
ITEM void attention_fwd_lane(__global STORAGE(DT) * y, ulong y0, __global float *lse, ulong lse0,
                             ATTENTION_INPUTS, ATTENTION_SIZES)
{
    uint blocks = (tq + BQ - 1) / BQ;
    ulong item = get_group_id(0), head = item / blocks;
    /* remainders by multiplication: see attention.cl */
    uint i0 = (blocks - 1 - (uint)(item - head * blocks)) * BQ, n = (uint)(head / HEADS),
         h = (uint)(head - (ulong)n * HEADS);
    SPANS_OF(n)
    tile_pair at = {i0, 0, min(tq - i0, (uint)BQ), tq, KEYS_OF(n) START_ARG SPANS};
    drop_mask mask = {sb + sb0, attention_number(sb + sb0, n, h, i0, tq, tk), op, tk, p_drop, keep_scale};
    uint visible = seen_by(&at, at.rows - 1);
    forward_tiles t;
    k += k0 + (ulong)n * tk * ldk + h / SHARING * HEAD_SIZE;
    v += v0 + (ulong)n * tk * ldv + h / SHARING * HEAD_SIZE;
    TURN(DT, t.query, BQ, q + q0 + ((ulong)n * tq + i0) * ldq + h * HEAD_SIZE, ldq, at.rows);
    for (uint c = 0; c < BQ; c += LANES) {
        vstore16((float16)(-INFINITY), 0, t.top + c);
        vstore16(ZERO, 0, t.total + c);
    }
    /* the last block of ROWS queries may be incomplete: clear the columns of queries that do not exist */
    for (uint k = 0; k < KEY_ROWS + ROWS; k++)
        vstore16(ZERO, 0, t.p + k * WEIGHTS + UP_TO(at.rows, STRIP));
    vstore16(ZERO, 0, t.shrink + UP_TO(at.rows, STRIP));
    if (visible == 0)
        clear(t.sum, QUERY_ROWS * WIDTH);
#if INTERVALS
    at.j0 = at.start = early_for(&at, 0);
    mask.number += at.j0;
#endif
    for (; at.j0 < visible; at.j0 += BK, mask.number += BK) {
        uint have = min(visible - at.j0, (uint)BK);
        PACK(DT, t.key, k + (ulong)at.j0 * ldk, ldk, have, UP_TO(have, ROWS), scale);
        PACK(DT, t.value, v + (ulong)at.j0 * ldv, ldv, have, have, 1.0f);
        for (uint c = 0; c < at.rows; c += STRIP)
            online_softmax(&t, &at, c, min(seen_by_some(&at, c, STRIP), (uint)BK), &mask);
        add_values(&t, &at);
    }
    finish(&t, &at, y + y0 + (((ulong)n * tq + i0) * HEADS + h) * HEAD_SIZE, lse + lse0 + head * tq + i0);
}

#endif
#if KERNEL == 0 || KERNEL == 5

/* --- backward --- */

#undef KEY_ROWS
#undef QUERY_ROWS
#define KEY_ROWS UP_TO(KB, ROWS)
#define QUERY_ROWS UP_TO(QB, ROWS)

typedef struct __attribute__((aligned(64))) backward_tiles {
    float key_turned[HEAD_SIZE * KB], value_turned[HEAD_SIZE * KB];
    float key[KB * WIDTH], dk[KEY_ROWS * WIDTH], dv[KEY_ROWS * WIDTH];
    float query[QUERY_ROWS * WIDTH], dy[QUERY_ROWS * WIDTH];       /* rows of q and of dy */
    float p[QUERY_ROWS * KB + LANES], ds[QUERY_ROWS * KB + LANES]; /* [query][key] */
    /* norm: lse; mean: delta, the sum of dy * y */
    float norm[QUERY_ROWS], mean[QUERY_ROWS];
#if DROPOUT
    float keep[ROWS * KEEP_ROW];
#endif
} backward_tiles;

/* Computes P and dS of ROWS queries from q on and the keys of columns c .. c + STRIP - 1. masked: some of
 * these queries do not attend to all of these keys. keep: dropout factors, a row for each query. */
CLT_INLINE void score_gradients(backward_tiles *t, const tile_pair *at, uint q, uint c, bool masked,
                                const float *const *keep)
{
    float16 sum[ROWS][VECTORS];
    float *p = t->p + q * KB + c, *ds = t->ds + q * KB + c;
    EACH_SUM sum[r][v] = ZERO;
    multiply(sum, t->query + q * WIDTH, WIDTH, 1, t->key_turned + c, KB, HEAD_SIZE);
    EACH_SUM vstore16(sum[r][v], v, p + r * KB);
    EACH_SUM sum[r][v] = ZERO;
    multiply(sum, t->dy + q * WIDTH, WIDTH, 1, t->value_turned + c, KB, HEAD_SIZE);
    EACH_SUM vstore16(sum[r][v], v, ds + r * KB);
    for (uint r = 0; r < ROWS; r++) {
        EACH_VECTOR
        {
            float16 e = clt_exp16(vload16(v, p + r * KB) - (float16)(t->norm[q + r]));
            float16 slope = vload16(v, ds + r * KB), mean = (float16)(t->mean[q + r]);
            if (masked)
                e = select(ZERO, e, LANE_NUMBERS + (int)(c + v * LANES) < (int)seen_by(at, q + r));
#if INTERVALS
            if (masked) {
                int16 late = LANE_NUMBERS + (int)(c + v * LANES) >= (int)early_for(at, q + r);
                e = select(ZERO, e, late);
                /* a key that no query attends to may hold NaN or infinity, and 0 times these is not 0 */
                slope = select(ZERO, slope, late);
            }
#endif
#if DROPOUT
            float16 factor = vload16(v, keep[r] + c);
            vstore16(e * factor, v, p + r * KB);
            vstore16(e * fma(slope, factor, -mean), v, ds + r * KB);
#else
            vstore16(e, v, p + r * KB);
            vstore16(e * (slope - mean), v, ds + r * KB);
#endif
        }
    }
}

/* x (+)= sum * factor: the first `rows` rows and `columns` columns. */
CLT_INLINE void store_product(__global float *x, ulong ld, float16 sum[ROWS][VECTORS], uint rows,
                              uint columns, float factor, bool accumulate)
{
    if (rows >= ROWS && columns >= STRIP) {
        if (accumulate)
            EACH_SUM sum[r][v] = fma(sum[r][v], (float16)(factor), vload16(v, x + r * ld));
        else
            EACH_SUM sum[r][v] *= factor;
        EACH_SUM vstore16(sum[r][v], v, x + r * ld);
        return;
    }
    float tile[ROWS * STRIP];
    EACH_SUM vstore16(sum[r][v], v, tile + r * STRIP);
    for (uint r = 0; r < min(rows, (uint)ROWS); r++)
        for (uint d = 0; d < min(columns, (uint)STRIP); d++)
            x[r * ld + d] = fma(tile[r * STRIP + d], factor, accumulate ? x[r * ld + d] : 0.0f);
}

#if INTERVALS
#define OR_EARLY || c < most_early
#else
#define OR_EARLY
#endif

/* Computes P and dS of the tiles, and dq (+)= scale * dS K. */
CLT_INLINE void query_gradients(backward_tiles *t, const tile_pair *at, __global float *dq, ulong lddq,
                                float scale, bool accumulate, const drop_mask *mask)
{
    /* a block of ROWS keys may extend beyond the last key that any query attends to */
    uint most = min(seen_by(at, at->rows - 1) + ROWS - 1, (uint)KB);
    for (uint q = 0; q < at->rows; q += ROWS) {
        uint reach = min(seen_by_some(at, q, ROWS), (uint)KB), all = seen_by(at, q), c = 0;
        const float *keep[ROWS];
#if INTERVALS
        uint from = min(early_for(at, q), reach), most_early = early_for(at, min(q + ROWS, at->rows) - 1);
        for (; c + STRIP <= from; c += STRIP) {
            EACH_SUM vstore16(ZERO, v, t->p + (q + r) * KB + c);
            EACH_SUM vstore16(ZERO, v, t->ds + (q + r) * KB + c);
        }
#endif
#if DROPOUT
        for (uint r = 0; r < ROWS; r++)
            keep[r] = keep_row(mask, q + r, t->keep + r * KEEP_ROW, UP_TO(reach, STRIP));
#endif
        for (; c < reach; c += STRIP)
            score_gradients(t, at, q, c, c + STRIP > all OR_EARLY, keep);
        for (; c < most; c += STRIP) {
            EACH_SUM vstore16(ZERO, v, t->p + (q + r) * KB + c);
            EACH_SUM vstore16(ZERO, v, t->ds + (q + r) * KB + c);
        }
        for (uint d = 0; d < WIDTH; d += STRIP) {
            float16 sum[ROWS][VECTORS];
            EACH_SUM sum[r][v] = ZERO;
#if INTERVALS
            multiply(sum, t->ds + q * KB + from, KB, 1, t->key + d + from * WIDTH, WIDTH, reach - from);
#else
            multiply(sum, t->ds + q * KB, KB, 1, t->key + d, WIDTH, reach);
#endif
            store_product(dq + q * lddq + d, lddq, sum, at->rows - q, HEAD_SIZE - d, scale, accumulate);
        }
    }
}

#if INTERVALS
#define QUERIES_END end
#else
#define QUERIES_END at->rows
#endif

/* Computes dv += P^T dy and dk += dS^T q for the tile's `have` keys; fresh: the first contribution, which is
 * stored, not added. */
CLT_INLINE void key_gradients(backward_tiles *t, const tile_pair *at, bool fresh, uint have)
{
    /* the last block of ROWS keys may read beyond the end of the last row */
    vstore16(ZERO, 0, t->p + at->rows * KB);
    vstore16(ZERO, 0, t->ds + at->rows * KB);
    for (uint k = 0; k < have; k += ROWS) {
        uint q = attention_beyond(attention_first_query(at->j0 + k, at->tq, at->keys AT_SPANS), at->i0);
        q = min(q, at->rows);
        if (q == at->rows && !fresh)
            break;
#if INTERVALS
        uint last = at->j0 + min(k + ROWS, have) - 1;
        uint end = attention_beyond(attention_end_query(last, at->tq, at->keys AT_SPANS), at->i0);
        end = max(min(end, at->rows), q);
        if (end == q && !fresh)
            continue;
#endif
        for (uint d = 0; d < WIDTH; d += STRIP) {
            uint to = k * WIDTH + d, weight = q * KB + k, row = q * WIDTH + d;
            add_product(t->dv + to, fresh, t->p + weight, KB, t->dy + row, QUERIES_END - q);
            add_product(t->dk + to, fresh, t->ds + weight, KB, t->query + row, QUERIES_END - q);
        }
    }
}

/* For the tile's queries: copies lse to t->norm and computes delta into t->mean. */
CLT_INLINE void row_values(backward_tiles *t, __global const STORAGE(DT) * y, __global const float *lse,
                           uint rows)
{
    for (uint r = 0; r < QUERY_ROWS; r++) {
        float part[LANES], sum = 0.0f;
        uint from = min(r, rows - 1);
        ulong at = (ulong)from * (HEADS * HEAD_SIZE);
        const float *dy = t->dy + from * WIDTH;
        float16 sums = ZERO;
#pragma unroll
        for (uint d = 0; d + LANES <= HEAD_SIZE; d += LANES)
            sums = fma(LOAD16(DT, y, at + d), vload16(0, dy + d), sums);
        vstore16(sums, 0, part);
        for (uint d = HEAD_SIZE / LANES * LANES; d < HEAD_SIZE; d++)
            sum = fma(LOAD(DT, y, at + d), dy[d], sum);
        vstore8(vload8(0, part) + vload8(1, part), 0, part);
        for (uint i = 0; i < 4; i++)
            part[i] += part[i + 4];
        t->mean[r] = ((part[0] + part[2]) + (part[1] + part[3])) + sum;
        t->norm[r] = lse[from];
    }
}

/* Rows of x (+)= rows of the tile * factor. */
CLT_INLINE void put_rows(__global float *x, ulong ld, const float *tile, uint rows, float factor,
                         bool accumulate)
{
    for (uint r = 0; r < rows; r++) {
        __global float *to = x + r * ld;
        const float *row = tile + r * WIDTH;
        if (accumulate) {
#pragma unroll
            for (uint d = 0; d + LANES <= HEAD_SIZE; d += LANES)
                vstore16(fma(vload16(0, row + d), (float16)(factor), vload16(0, to + d)), 0, to + d);
        } else {
#pragma unroll
            for (uint d = 0; d + LANES <= HEAD_SIZE; d += LANES)
                vstore16(vload16(0, row + d) * factor, 0, to + d);
        }
        for (uint d = HEAD_SIZE / LANES * LANES; d < HEAD_SIZE; d++)
            to[d] = fma(row[d], factor, accumulate ? to[d] : 0.0f);
    }
}

#if INTERVALS
#define AND_NOT_EARLY &&early_for(&at, 0) < have
#else
#define AND_NOT_EARLY
#endif

/* One item per key head and share of its key tiles, with all queries of the heads that use this key head.
 * Share number `share` has the tiles share, 2 * shares - 1 - share, 2 * shares + share and so on, which
 * gives all shares about the same amount of work with causal masks. With several shares dq is a workspace
 * with a copy for each. */
ITEM void attention_bwd_lane(__global float *dq, ulong dq0, uint lddq, int accumulate_q, __global float *dk,
                             ulong dk0, uint lddk, int accumulate_k, __global float *dv, ulong dv0, uint lddv,
                             int accumulate_v, __global const STORAGE(DYT) * dy, ulong dy0,
                             __global const STORAGE(DT) * y, ulong y0, __global const float *lse, ulong lse0,
                             uint shares, ATTENTION_INPUTS, ATTENTION_SIZES)
{
    uint tiles = (tk + KB - 1) / KB, share, n, g;
    ulong item = get_group_id(0), head = item / shares;
    share = (uint)(item - head * shares);
    n = (uint)(head / KV_HEADS);
    g = (uint)(head - (ulong)n * KV_HEADS);
    SPANS_OF(n)
    tile_pair at = {0, 0, 0, tq, KEYS_OF(n) START_ARG SPANS};
    backward_tiles t;
    dq += dq0 + (ulong)share * batch * tq * lddq;
    for (uint round = 0; round * shares < tiles; round++) {
        uint tile = round * shares + (round & 1 ? shares - 1 - share : share);
        if (tile >= tiles)
            break;
        at.j0 = tile * KB;
        uint have = min(tk - at.j0, (uint)KB), held = min(attention_beyond(at.keys, at.j0), (uint)KB);
        ulong key_row = (ulong)n * tk + at.j0;
        /* values and then keys go through the same tile, so that the transposition is compiled only once */
        for (uint pass = 0; pass < 2 && held > 0; pass++) {
            __global const STORAGE(DT) *x = pass ? k + k0 + key_row * ldk : v + v0 + key_row * ldv;
            PACK(DT, t.key, x + g * HEAD_SIZE, pass ? ldk : ldv, held, KB, 1.0f);
            turn_tile(pass ? t.key_turned : t.value_turned, KB, t.key, WIDTH, KB);
        }
        bool fresh = true;
        /* the first tile initialises dq, so it visits all queries, even those that attend to none of its
         * keys */
        uint first = round == 0 ? 0 : attention_first_query(at.j0, tq, at.keys SPANS) / QB * QB;
#if INTERVALS
        uint query_end = attention_end_query(at.j0 + max(held, 1u) - 1, tq, at.keys SPANS);
        query_end = round == 0 ? tq : query_end;
#endif
        for (uint h = g * SHARING; h < (g + 1) * SHARING; h++) {
            for (at.i0 = first; at.i0 < LAST_QUERY_END; at.i0 += QB) {
                at.rows = min(tq - at.i0, (uint)QB);
                ulong row = (ulong)n * tq + at.i0, line = ((ulong)n * HEADS + h) * tq + at.i0,
                      from = (row * HEADS + h) * HEAD_SIZE;
                drop_mask mask = {sb + sb0, attention_number(sb + sb0, n, h, at.i0, tq, tk) + at.j0,
                                  op,       tk,
                                  p_drop,   keep_scale};
                __global float *to = dq + row * lddq + h * HEAD_SIZE;
                bool add = accumulate_q || round > 0;
                if (seen_by(&at, at.rows - 1) > 0 AND_NOT_EARLY) {
                    PACK(DT, t.query, q + q0 + row * ldq + h * HEAD_SIZE, ldq, at.rows, QUERY_ROWS, scale);
                    PACK(DYT, t.dy, dy + dy0 + from, HEADS * HEAD_SIZE, at.rows, QUERY_ROWS, 1.0f);
                    row_values(&t, y + y0 + from, lse + lse0 + line, at.rows);
                    query_gradients(&t, &at, to, lddq, scale, add, &mask);
                    key_gradients(&t, &at, fresh, have);
                    fresh = false;
                } else if (!add) {
                    clear(t.query, QUERY_ROWS * WIDTH);
                    put_rows(to, lddq, t.query, at.rows, 1.0f, false);
                }
            }
        }
        for (uint i = 0; i < KEY_ROWS * WIDTH && fresh; i += LANES) {
            vstore16(ZERO, 0, t.dk + i);
            vstore16(ZERO, 0, t.dv + i);
        }
        put_rows(dk + dk0 + key_row * lddk + g * HEAD_SIZE, lddk, t.dk, have, 1.0f, accumulate_k);
        put_rows(dv + dv0 + key_row * lddv + g * HEAD_SIZE, lddv, t.dv, have, 1.0f, accumulate_v);
    }
}

#endif
#if KERNEL == 0 || KERNEL == 6

#define SUM_ROWS 4 /* rows of an item in the next kernel */

/* A gradient of type GT (+)= the sum of its copies, in their order; HEADS is its number of heads. */
ITEM void attention_bwd_sum_lane(__global STORAGE(GT) * dq, ulong dq0, uint lddq, int accumulate,
                                 __global const float *copies, ulong copies0, ulong rows, uint shares)
{
    const uint width = HEADS * HEAD_SIZE;
    ulong row = get_group_id(0) * SUM_ROWS, end = min(row + SUM_ROWS, rows);
    for (; row < end; row++) {
        __global const float *part = copies + copies0 + row * width;
        __global STORAGE(GT) *x = dq + dq0 + row * lddq;
        uint d = 0;
        for (; d + LANES <= width; d += LANES) {
            float16 sum = vload16(0, part + d);
            for (uint s = 1; s < shares; s++)
                sum += vload16(0, part + s * rows * width + d);
            STORE16_GRAD(GT, x, d, sum, accumulate);
        }
        for (; d < width; d++) {
            float sum = part[d];
            for (uint s = 1; s < shares; s++)
                sum += part[s * rows * width + d];
            STORE_GRAD(GT, x, d, sum, accumulate);
        }
    }
}
#endif
