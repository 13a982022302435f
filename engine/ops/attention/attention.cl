/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention, the variant for any device: one work-item per query (y, dq) or per key (dk, dv), WIDTH elements
 * of a head at a time, online softmax. Forward keeps the log of each row's sum of exponentials (lse);
 * backward recomputes the probabilities from it, and needs delta = sum(dy * y) of each row. Each gradient is
 * summed by one item in a fixed order, without atomics. A query without keys gives zeros. attention.clh
 * lists the defines. */
#include "common.clh"
#include "lanes.clh"
#include "attention.clh"

/* clt_attention_kernel: 1: forward, 2: dq, 3: dk and dv, 4: delta; 0: all, for syntax checks */
#pragma option KERNEL 0

#pragma option WIDTH 16 /* elements of a vector: 16, or 4 for compilers that do not handle sixteen well */
#if WIDTH == 16
#define REALS float16
#define LOAD_REALS(dt, p, i) LOAD16(dt, p, i)
#define STORE_REALS_GRAD(dt, p, i, v, accumulate) STORE16_GRAD(dt, p, i, v, accumulate)
#define SUM_REALS(v) clt_sum16(v)
#define GATHER(p) vload16(0, p)
#define SCATTER(v, p) vstore16((v), 0, p)
#else
#include "quads.clh"
#define REALS float4
/* Loads and stores at addresses that need not be aligned. */
#define ANY_LOAD4_f32(p, i) vload4(0, (p) + (i))
#define ANY_LOAD4_f16(p, i) vload_half4(0, (const __global half *)((p) + (i)))
#define ANY_LOAD4_bf16(p, i) as_float4(convert_uint4(vload4(0, (p) + (i))) << 16)
#define ANY_STORE4_f32(p, i, v) vstore4((v), 0, (p) + (i))
#define ANY_STORE4_f16(p, i, v) vstore_half4_rte((v), 0, (__global half *)((p) + (i)))
#define ANY_STORE4_bf16(p, i, v) vstore4(clt_bf16_round4(v), 0, (p) + (i))
#define LOAD_REALS(dt, p, i) CLT_CAT(ANY_LOAD4_, dt)(p, i)
#define STORE_REALS_GRAD(dt, p, i, v, accumulate)                                                            \
    CLT_CAT(ANY_STORE4_, dt)(p, i, (accumulate) ? LOAD_REALS(dt, p, i) + (v) : (v))
#define SUM_REALS(v) clt_sum4(v)
#define GATHER(p) vload4(0, p)
#define SCATTER(v, p) vstore4((v), 0, p)
#endif

#define PARTS ((HEAD_SIZE + WIDTH - 1) / WIDTH) /* vectors that hold a row of a head */
#define TAIL (HEAD_SIZE % WIDTH)

/* Loads vector `part` of a row; elements beyond the row's end are zero. */
#define DEFINE_LOAD_PART(dt)                                                                                 \
    static inline REALS CLT_CAT(load_part_, dt)(__global const STORAGE(dt) * row, uint part)                 \
    {                                                                                                        \
        float lane[WIDTH];                                                                                   \
        if (TAIL == 0 || part + 1 < PARTS)                                                                   \
            return LOAD_REALS(dt, row, part * WIDTH);                                                        \
        for (uint i = 0; i < WIDTH; i++)                                                                     \
            lane[i] = i < TAIL ? LOAD(dt, row, part * WIDTH + i) : 0.0f;                                     \
        return GATHER(lane);                                                                                 \
    }
DEFINE_LOAD_PART(f32)
DEFINE_LOAD_PART(f16)
DEFINE_LOAD_PART(bf16)
#define LOAD_PART(dt, row, part) CLT_CAT(load_part_, dt)(row, part)

/* Stores, or adds, vector `part` of a row, without the elements beyond the row's end. */
#define STORE_PART(dt, row, part, value, accumulate)                                                         \
    do {                                                                                                     \
        if (TAIL == 0 || (part) + 1 < PARTS) {                                                               \
            STORE_REALS_GRAD(dt, row, (part)*WIDTH, value, accumulate);                                      \
        } else {                                                                                             \
            float lane_[WIDTH];                                                                              \
            SCATTER(value, lane_);                                                                           \
            for (uint i_ = 0; i_ < TAIL; i_++)                                                               \
                STORE_GRAD(dt, row, (part)*WIDTH + i_, lane_[i_], accumulate);                               \
        }                                                                                                    \
    } while (0)

static inline float dot_parts(const REALS *a, const REALS *b)
{
    REALS sum = a[0] * b[0];
    for (uint p = 1; p < PARTS; p++)
        sum = fma(a[p], b[p], sum);
    return SUM_REALS(sum);
}

#if KERNEL == 0 || KERNEL == 1

/* q (batch,tq,HEADS), k, v (batch,tk,KV_HEADS) -> y (batch,tq,HEADS), lse (batch,HEADS,tq). One item per
 * query and head. */
__kernel void attention_fwd_row(__global STORAGE(DT) * y, ulong y0, __global float *lse, ulong lse0,
                                ATTENTION_INPUTS, ATTENTION_SIZES)
{
    ulong item = get_global_id(0);
    if (item >= (ulong)batch * HEADS * tq)
        return;
    /* remainders by multiplication: for x/y next to x%y the compiler emits `freeze`, which interpreters may
     * not know */
    ulong head = item / tq;
    uint i = (uint)(item - head * tq), n = (uint)(head / HEADS), h = (uint)(head - (ulong)n * HEADS);
    SPANS_OF(n)
    uint visible = attention_visible(i, tq, KEYS_OF(n) SPANS);
    ulong number = attention_number(sb + sb0, n, h, i, tq, tk);
    q += q0 + ((ulong)n * tq + i) * ldq + h * HEAD_SIZE;
    k += k0 + (ulong)n * tk * ldk + h / SHARING * HEAD_SIZE;
    v += v0 + (ulong)n * tk * ldv + h / SHARING * HEAD_SIZE;
    REALS query[PARTS], row[PARTS], sum[PARTS];
    float top = -INFINITY, total = 0.0f;
    for (uint p = 0; p < PARTS; p++) {
        query[p] = LOAD_PART(DT, q, p) * scale;
        sum[p] = 0.0f;
    }
    for (uint j = FIRST_KEY(i, KEYS_OF(n)); j < visible; j++) {
        for (uint p = 0; p < PARTS; p++)
            row[p] = LOAD_PART(DT, k + (ulong)j * ldk, p);
        float score = dot_parts(query, row);
        if (score > top) {
            float shrink = exp(top - score);
            total *= shrink;
            for (uint p = 0; p < PARTS; p++)
                sum[p] *= shrink;
            top = score;
        }
        float weight = exp(score - top);
        total += weight;
        weight *= attention_keep(sb + sb0, op, number + j, p_drop, keep_scale);
        for (uint p = 0; p < PARTS; p++)
            sum[p] = fma((REALS)(weight), LOAD_PART(DT, v + (ulong)j * ldv, p), sum[p]);
    }
    lse[lse0 + item] = visible ? top + log(total) : 0.0f;
    float norm = visible ? 1.0f / total : 0.0f;
    y += y0 + (((ulong)n * tq + i) * HEADS + h) * HEAD_SIZE;
    for (uint p = 0; p < PARTS; p++)
        STORE_PART(DT, y, p, sum[p] * norm, 0);
}

#endif
#if KERNEL == 0 || KERNEL == 4

/* delta (batch,HEADS,tq) = sum over a head of dy * y. */
__kernel void attention_bwd_delta(__global float *delta, ulong delta0, __global const STORAGE(DYT) * dy,
                                  ulong dy0, __global const STORAGE(DT) * y, ulong y0, uint batch, uint tq)
{
    ulong item = get_global_id(0);
    if (item >= (ulong)batch * HEADS * tq)
        return;
    /* remainders by multiplication: for x/y next to x%y the compiler emits `freeze`, which interpreters may
     * not know */
    ulong head = item / tq;
    uint i = (uint)(item - head * tq), n = (uint)(head / HEADS), h = (uint)(head - (ulong)n * HEADS);
    ulong at = (((ulong)n * tq + i) * HEADS + h) * HEAD_SIZE;
    REALS sum = 0.0f;
    for (uint p = 0; p < PARTS; p++)
        sum = fma(LOAD_PART(DYT, dy + dy0 + at, p), LOAD_PART(DT, y + y0 + at, p), sum);
    delta[delta0 + item] = SUM_REALS(sum);
}

#endif
#if KERNEL == 0 || KERNEL == 2

/* dq (+)= scale * sum over keys of P (dP - delta) k; one item per query and head. */
__kernel void attention_bwd_q_row(__global STORAGE(GT) * dq, ulong dq0, uint lddq, int accumulate,
                                  __global const STORAGE(DYT) * dy, ulong dy0, __global const float *lse,
                                  ulong lse0, __global const float *delta, ulong delta0, ATTENTION_INPUTS,
                                  ATTENTION_SIZES)
{
    ulong item = get_global_id(0);
    if (item >= (ulong)batch * HEADS * tq)
        return;
    /* remainders by multiplication: for x/y next to x%y the compiler emits `freeze`, which interpreters may
     * not know */
    ulong head = item / tq;
    uint i = (uint)(item - head * tq), n = (uint)(head / HEADS), h = (uint)(head - (ulong)n * HEADS);
    SPANS_OF(n)
    uint visible = attention_visible(i, tq, KEYS_OF(n) SPANS);
    ulong number = attention_number(sb + sb0, n, h, i, tq, tk);
    q += q0 + ((ulong)n * tq + i) * ldq + h * HEAD_SIZE;
    k += k0 + (ulong)n * tk * ldk + h / SHARING * HEAD_SIZE;
    v += v0 + (ulong)n * tk * ldv + h / SHARING * HEAD_SIZE;
    dy += dy0 + (((ulong)n * tq + i) * HEADS + h) * HEAD_SIZE;
    REALS query[PARTS], given[PARTS], row[PARTS], sum[PARTS];
    float norm = lse[lse0 + item], mean = delta[delta0 + item];
    for (uint p = 0; p < PARTS; p++) {
        query[p] = LOAD_PART(DT, q, p) * scale;
        given[p] = LOAD_PART(DYT, dy, p);
        sum[p] = 0.0f;
    }
    for (uint j = FIRST_KEY(i, KEYS_OF(n)); j < visible; j++) {
        for (uint p = 0; p < PARTS; p++)
            row[p] = LOAD_PART(DT, v + (ulong)j * ldv, p);
        float slope = dot_parts(given, row) * attention_keep(sb + sb0, op, number + j, p_drop, keep_scale);
        for (uint p = 0; p < PARTS; p++)
            row[p] = LOAD_PART(DT, k + (ulong)j * ldk, p);
        float ds = exp(dot_parts(query, row) - norm) * (slope - mean);
        for (uint p = 0; p < PARTS; p++)
            sum[p] = fma((REALS)(ds), row[p], sum[p]);
    }
    dq += dq0 + ((ulong)n * tq + i) * lddq + h * HEAD_SIZE;
    for (uint p = 0; p < PARTS; p++)
        STORE_PART(GT, dq, p, sum[p] * scale, accumulate);
}

#endif
#if KERNEL == 0 || KERNEL == 3

/* dk (+)= scale * sum over queries of P (dP - delta) q, dv (+)= sum of P dy; one item per key. */
__kernel void attention_bwd_kv_row(__global STORAGE(GT) * dk, ulong dk0, uint lddk, int accumulate_k,
                                   __global STORAGE(GT) * dv, ulong dv0, uint lddv, int accumulate_v,
                                   __global const STORAGE(DYT) * dy, ulong dy0, __global const float *lse,
                                   ulong lse0, __global const float *delta, ulong delta0, ATTENTION_INPUTS,
                                   ATTENTION_SIZES)
{
    ulong item = get_global_id(0);
    if (item >= (ulong)batch * KV_HEADS * tk)
        return;
    ulong head = item / tk;
    uint j = (uint)(item - head * tk), n = (uint)(head / KV_HEADS), g = (uint)(head - (ulong)n * KV_HEADS);
    SPANS_OF(n)
    uint first = attention_first_query(j, tq, KEYS_OF(n) SPANS);
    LAST_QUERY(j, KEYS_OF(n))
    REALS key[PARTS], value[PARTS], query[PARTS], given[PARTS], sum_k[PARTS], sum_v[PARTS];
    for (uint p = 0; p < PARTS; p++) {
        key[p] = LOAD_PART(DT, k + k0 + ((ulong)n * tk + j) * ldk + g * HEAD_SIZE, p) * scale;
        value[p] = LOAD_PART(DT, v + v0 + ((ulong)n * tk + j) * ldv + g * HEAD_SIZE, p);
        sum_k[p] = sum_v[p] = 0.0f;
    }
    for (uint h = g * SHARING; h < (g + 1) * SHARING; h++) {
        for (uint i = first; i < LAST_QUERY_END; i++) {
            ulong row = ((ulong)n * HEADS + h) * tq + i;
            for (uint p = 0; p < PARTS; p++) {
                query[p] = LOAD_PART(DT, q + q0 + ((ulong)n * tq + i) * ldq + h * HEAD_SIZE, p);
                given[p] = LOAD_PART(DYT, dy + dy0 + (((ulong)n * tq + i) * HEADS + h) * HEAD_SIZE, p);
            }
            float keep = attention_keep(sb + sb0, op, attention_number(sb + sb0, n, h, i, tq, tk) + j, p_drop,
                                        keep_scale);
            float weight = exp(dot_parts(query, key) - lse[lse0 + row]);
            float ds = weight * (dot_parts(given, value) * keep - delta[delta0 + row]);
            weight *= keep;
            for (uint p = 0; p < PARTS; p++) {
                sum_v[p] = fma((REALS)(weight), given[p], sum_v[p]);
                sum_k[p] = fma((REALS)(ds), query[p], sum_k[p]);
            }
        }
    }
    dk += dk0 + ((ulong)n * tk + j) * lddk + g * HEAD_SIZE;
    dv += dv0 + ((ulong)n * tk + j) * lddv + g * HEAD_SIZE;
    for (uint p = 0; p < PARTS; p++) {
        STORE_PART(GT, dk, p, sum_k[p] * scale, accumulate_k);
        STORE_PART(GT, dv, p, sum_v[p], accumulate_v);
    }
}
#endif
