/* SPDX-License-Identifier: Apache-2.0
 *
 * Softmax and log-softmax over rows: y = exp(x - max) / sum, or y = x - max - log(sum). Forms: group (one
 * work-group per row), row (one item per row, sixteen lanes). A NaN in a row makes the whole row NaN. Knows
 * rows and columns only.
 *
 * -DLOG=0|1  -DDT=type of x and y  -DDYT=type of dy  -DGT=type of dx  -DWG=work-group size of the group form
 * -DKEEP_EXP=0|1: exponentials of long rows are kept in y, which f32 holds exactly, unless with LOG
 * -DNT: see lanes.clh; rows then consist of whole vectors; with LOG, rows longer than ROW_NEAR need not */
#include "common.clh"
#include "lanes.clh"
#include "groups.clh"
#include "quad_functions.clh"
#include "quads.clh"
#include "types.clh"

#pragma option LOG 0
#pragma option KEEP_EXP 1 /* f32 y can hold the exponentials between the passes */

#include "softmax.clh"
/* restrict only in kernels: Oclgrind 21.10 does not support it in functions that are inlined into a loop. */

/* The last step of forward, where `norm` is 1/sum or log(sum), and the terms of backward. ONE, FOUR and
 * SIXTEEN work on vectors of one, four and sixteen elements. */
#define ONE(name) name
#define SIXTEEN(name) name##16
#define FOUR(name) name##4
#if LOG
#define NORM(name, sum) name(clt_log)(sum)
#define FINISH(name, centred, norm) ((centred) - (norm))
#define FINISH_TWO(centred, norm)                                                                            \
    do {                                                                                                     \
        (centred)[0] -= (norm);                                                                              \
        (centred)[1] -= (norm);                                                                              \
    } while (0)
#define DOT_TERM(dy, y) (dy)
#define GRADIENT(name, dy, y, dot) ((dy)-name(clt_exp_down)(y) * (dot))
#else
#define NORM(name, sum) (1.0f / (sum))
#define FINISH(name, centred, norm) (name(clt_exp_down)(centred) * (norm))
#define FINISH_TWO(centred, norm)                                                                            \
    do {                                                                                                     \
        clt_exp_down_two16(centred);                                                                         \
        (centred)[0] *= (norm);                                                                              \
        (centred)[1] *= (norm);                                                                              \
    } while (0)
#define DOT_TERM(dy, y) ((dy) * (y))
#define GRADIENT(name, dy, y, dot) ((y) * ((dy) - (dot)))
#endif

static inline void softmax_store_tail(__global STORAGE(DT) * y, uint c, uint cols, float16 v)
{
    float tail[LANES];
    vstore16(v, 0, tail);
    for (uint i = 0; c + i < cols; i++)
        STORE(DT, y, c + i, tail[i]);
}

/* Rows of up to ROW_NEAR elements go through three stages, a chunk of rows at a time: maximum; exponentials
 * and their sum; result. The stages are software-pipelined: one loop does the last stage of a chunk, the
 * second stage of the next and the first stage of the one after that, so that memory is never idle. The size
 * of a chunk is not a power of two, so that the three addresses differ in their offset within a page;
 * otherwise loads would be held back as if they depended on pending stores (4K aliasing). */
#define CHUNK_ELEMENTS 768

/* KEEP_LOG, KEEP: keep a value of the second stage for the third: d = x - maximum for log_softmax, else e =
 * exp(d). RESULT: the result from the kept value. */
#if LOG
#define KEEP_LOG(at, d) vstore16(d, 0, kept + (at))
#define KEEP(at, e)
#define RESULT(kept, norm) ((kept) - (norm))
#else
#define KEEP_LOG(at, d)
#define KEEP(at, e) vstore16(e, 0, kept + (at))
#define RESULT(kept, norm) ((kept) * (norm))
#endif

/* Computes stage three (the result) of one row. */
static inline void softmax_result(__global STORAGE(DT) * y, const float *kept, uint cols, float norm)
{
    uint c = 0;
    for (; c + LANES <= cols; c += LANES)
        STREAM16(DT, y, c, RESULT(vload16(0, kept + c), norm));
    if (c < cols)
        softmax_store_tail(y, c, cols, RESULT(vload16(0, kept + c), norm));
}

/* One iteration of the pipeline: stage two for the `rows` rows at x, whose maxima are in `tops`; stage one
 * for the `ahead` rows of the next chunk; stage three for the previous chunk, whose norms are in `norms`,
 * unless this is the first one. Afterwards `tops` belongs to the next chunk and `norms` to this one. */
static inline void softmax_round(float *norms, float *tops, __global STORAGE(DT) * y,
                                 __global const STORAGE(DT) * x, float *kept, uint chunk, uint rows,
                                 uint ahead, uint cols, uint stride, bool first)
{
    float sums[LANES * LANES], mosts[LANES * LANES];
    y -= chunk * cols;
    for (uint r = 0; r < rows; r++, x += cols, y += cols, kept += stride) {
        __global const STORAGE(DT) *x_ahead = r < ahead ? x + chunk * cols : x;
        float top = tops[r], norm = norms[r];
        float16 sum = 0.0f, most = -INFINITY;
        uint c = 0;
        for (; c + 2 * LANES <= cols; c += 2 * LANES) {
            most = clt_row_larger(most, LOAD16(DT, x_ahead, c));
            most = clt_row_larger(most, LOAD16(DT, x_ahead, c + LANES));
            if (!first) {
                STREAM16(DT, y, c, RESULT(vload16(0, kept + c), norm));
                STREAM16(DT, y, c + LANES, RESULT(vload16(0, kept + c + LANES), norm));
            }
            float16 e[2] = {LOAD16(DT, x, c) - top, LOAD16(DT, x, c + LANES) - top};
            KEEP_LOG(c, e[0]);
            KEEP_LOG(c + LANES, e[1]);
            clt_exp_down_two16(e);
            KEEP(c, e[0]);
            KEEP(c + LANES, e[1]);
            sum += e[0];
            sum += e[1];
        }
        for (; c < cols; c += LANES) {
            bool whole = c + LANES <= cols;
            most = clt_row_larger(most, whole ? LOAD16(DT, x_ahead, c) : clt_row_tail(x_ahead, c, cols));
            if (!first && whole)
                STREAM16(DT, y, c, RESULT(vload16(0, kept + c), norm));
            else if (!first)
                softmax_store_tail(y, c, cols, RESULT(vload16(0, kept + c), norm));
            float16 e = (whole ? LOAD16(DT, x, c) : clt_row_tail(x, c, cols)) - top;
            KEEP_LOG(c, e);
            e = clt_exp_down16(e);
            KEEP(c, e);
            sum += e;
        }
        vstore16(sum, r, sums);
        vstore16(most, r, mosts);
    }
    for (uint r = 0; r < rows; r++) {
        norms[r] = clt_sum16(vload16(r, sums));
        tops[r] = clt_row_most(vload16(r, mosts));
    }
    vstore16(NORM(SIXTEEN, vload16(0, norms)), 0, norms);
}

static inline void softmax_near(__global STORAGE(DT) * y, __global const STORAGE(DT) * x, uint rows,
                                uint cols)
{
    float kept[ROW_NEAR], tops[LANES], norms[LANES];
    uint chunk = min((uint)LANES, max(CHUNK_ELEMENTS / cols, 1u)),
         stride = (cols + LANES - 1) / LANES * LANES;
    uint now = min(chunk, rows);
    vstore16((float16)(1.0f), 0, norms); /* values for rows that do not exist */
    for (uint r = 0; r < now; r++)
        tops[r] = clt_row_top(x + r * cols, cols);
    for (uint done = 0; done < rows; done += chunk) {
        now = min(chunk, rows - done);
        for (uint r = now; done > 0 && r < chunk; r++)
            softmax_result(y - (chunk - r) * cols, kept + r * stride, cols, norms[r]);
        softmax_round(norms, tops, y, x, kept, chunk, now, min(chunk, rows - done - now), cols, stride,
                      done == 0);
        x += chunk * cols;
        y += chunk * cols;
    }
    for (uint r = 0; r < now; r++)
        softmax_result(y - (chunk - r) * cols, kept + r * stride, cols, norms[r]);
}

#if KEEP_EXP && !LOG
/* Computes longer rows: the maximum of the next row is found while the exponentials of this one are summed;
 * the exponentials are kept in y. */
static inline void softmax_far(__global STORAGE(DT) * y, __global const STORAGE(DT) * x, uint rows, uint cols)
{
    float next = clt_row_top(x, cols);
    for (uint r = 0; r < rows; r++, x += cols, y += cols) {
        __global const STORAGE(DT) *ahead = r + 1 < rows ? x + cols : x;
        float top = next;
        float16 sum = 0.0f, most = -INFINITY, rest = 0.0f;
        uint c = 0;
        for (; c + LANES <= cols; c += LANES) {
            most = clt_row_larger(most, LOAD16(DT, ahead, c));
            float16 e = clt_exp_down16(LOAD16(DT, x, c) - top);
            STORE16(DT, y, c, e);
            sum += e;
        }
        if (c < cols) {
            most = clt_row_larger(most, clt_row_tail(ahead, c, cols));
            rest = clt_exp_down16(clt_row_tail(x, c, cols) - top);
            sum += rest;
        }
        next = clt_row_most(most);
        float norm = NORM(ONE, clt_sum16(sum));
        for (c = 0; c + LANES <= cols; c += LANES)
            STORE16(DT, y, c, LOAD16(DT, y, c) * norm);
        if (c < cols)
            softmax_store_tail(y, c, cols, rest * norm);
    }
}
#else
/* Number of elements before the first address that is aligned for non-temporal stores of vectors. */
static inline uint softmax_head(__global STORAGE(DT) * y)
{
#if NT
    return (uint)(-(size_t)y / sizeof(STORAGE(DT))) % LANES;
#else
    return 0;
#endif
}

/* Writes the result of the whole vectors among the columns [c, end). Returns the next column. */
static inline uint softmax_far_result(__global STORAGE(DT) * y, __global const STORAGE(DT) * x, uint c,
                                      uint end, float top, float norm)
{
    for (; c + 2 * LANES <= end; c += 2 * LANES) {
        float16 d[2] = {LOAD16(DT, x, c) - top, LOAD16(DT, x, c + LANES) - top};
        FINISH_TWO(d, norm);
        STREAM16(DT, y, c, d[0]);
        STREAM16(DT, y, c + LANES, d[1]);
    }
    if (c + LANES <= end) {
        STREAM16(DT, y, c, FINISH(SIXTEEN, LOAD16(DT, x, c) - top, norm));
        c += LANES;
    }
    return c;
}

/* Computes longer rows whose exponentials are not kept. The exponentials are computed once for their sum,
 * block by block while the result of the previous row is written, and once more for the result if the result
 * needs them. */
static inline void softmax_far(__global STORAGE(DT) * y, __global const STORAGE(DT) * x, uint rows, uint cols)
{
    uint whole = cols / LANES * LANES;
    float sum, top = clt_row_of(x, cols, &sum);
    for (uint r = 0; r < rows; r++, x += cols, y += cols) {
        bool more = r + 1 < rows;
        __global const STORAGE(DT) *next = more ? x + cols : x;
        float norm = NORM(ONE, sum);
        clt_row_sums s = clt_row_begin(next, cols);
        uint head = softmax_head(y), c = 0;
        for (; c < head; c++)
            STORE(DT, y, c, FINISH(ONE, LOAD(DT, x, c) - top, norm));
        for (uint b = 0; b < whole; b += ROW_BLOCK) {
            if (more)
                clt_row_block(&s, next, b, whole);
            c = softmax_far_result(y, x, c, min(head + b + ROW_BLOCK, cols), top, norm);
        }
        for (; c < cols; c++)
            STORE(DT, y, c, FINISH(ONE, LOAD(DT, x, c) - top, norm));
        top = clt_row_end(&s, next, cols, &sum);
    }
}
#endif

/* x (rows,cols) -> y (rows,cols). */
__kernel void softmax_fwd_row(__global STORAGE(DT) *restrict y, ulong y0,
                              __global const STORAGE(DT) *restrict x, ulong x0, ulong rows, uint cols,
                              uint per_item)
{
    ulong row = get_global_id(0) * per_item;
    if (row >= rows)
        return;
    y += y0 + row * cols;
    x += x0 + row * cols;
    rows = min(rows - row, (ulong)per_item);
    if (cols <= ROW_NEAR)
        softmax_near(y, x, (uint)rows, cols);
    else
        softmax_far(y, x, (uint)rows, cols);
}

__kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void softmax_fwd_group(
    __global STORAGE(DT) *restrict y, ulong y0, __global const STORAGE(DT) *restrict x, ulong x0, ulong rows,
    uint cols)
{
    __local float scratch[WG];
    ulong row = get_group_id(0);
    uint lane = (uint)get_local_id(0);
    y += y0 + row * cols;
    x += x0 + row * cols;
    uint whole = WHOLE_QUADS(cols, QUADS(DT, x) && QUADS(DT, y));
    float top = -INFINITY, sum = 0.0f;
    float4 top4 = -INFINITY, sum4 = 0.0f;
    FOR_QUADS(c, whole)
    top4 = fmax(top4, LOAD4(DT, x, c));
    FOR_SINGLES(c, whole, cols)
    top = fmax(top, LOAD(DT, x, c));
    top = clt_group_max(scratch, fmax(top, clt_max4(top4)));
    FOR_QUADS(c, whole)
    sum4 += clt_exp_down4(LOAD4(DT, x, c) - top);
    FOR_SINGLES(c, whole, cols)
    sum += clt_exp_down(LOAD(DT, x, c) - top);
    float norm = NORM(ONE, clt_group_sum(scratch, sum + clt_sum4(sum4)));
    FOR_QUADS(c, whole)
    STORE4(DT, y, c, FINISH(FOUR, LOAD4(DT, x, c) - top, norm));
    FOR_SINGLES(c, whole, cols)
    STORE(DT, y, c, FINISH(ONE, LOAD(DT, x, c) - top, norm));
}

/* Adds the terms of the whole vectors in [c, end) to a row's dot product. */
static inline float16 softmax_dot(__global const STORAGE(DYT) * dy, __global const STORAGE(DT) * y, uint c,
                                  uint end, float16 dot)
{
    for (; c + LANES <= end; c += LANES)
        dot += DOT_TERM(LOAD16(DYT, dy, c), LOAD16(DT, y, c));
    return dot;
}

/* Completes the dot product: `dot16` has the sums of the row's whole vectors. */
static inline float softmax_dot_end(__global const STORAGE(DYT) * dy, __global const STORAGE(DT) * y,
                                    uint cols, float16 dot16)
{
    float dot = 0.0f;
    for (uint c = cols / LANES * LANES; c < cols; c++)
        dot += DOT_TERM(LOAD(DYT, dy, c), LOAD(DT, y, c));
    return dot + clt_sum16(dot16);
}

/* dy, y (rows,cols) -> dx (rows,cols). An item has per_item rows; it computes the dot product of the next
 * row while it writes the result of this one, so that memory is never idle. */
__kernel void softmax_bwd_row(__global STORAGE(GT) *restrict dx, ulong dx0, int accumulate,
                              __global const STORAGE(DYT) *restrict dy, ulong dy0,
                              __global const STORAGE(DT) *restrict y, ulong y0, ulong rows, uint cols,
                              uint per_item)
{
    ulong row = get_global_id(0) * per_item;
    if (row >= rows)
        return;
    dx += dx0 + row * cols;
    dy += dy0 + row * cols;
    y += y0 + row * cols;
    float dot = softmax_dot_end(dy, y, cols, softmax_dot(dy, y, 0, cols, (float16)(0.0f)));
    for (ulong left = min(rows - row, (ulong)per_item); left > 0; left--, dx += cols, dy += cols, y += cols) {
        float16 next = (float16)(0.0f);
        uint c = 0;
        for (uint first = 0; first < cols; first += ROW_BLOCK) {
            uint end = min(first + ROW_BLOCK, cols);
            if (left > 1)
                next = softmax_dot(dy + cols, y + cols, first, end, next);
            for (; c + LANES <= end; c += LANES)
                STREAM16_GRAD(GT, dx, c, GRADIENT(SIXTEEN, LOAD16(DYT, dy, c), LOAD16(DT, y, c), dot),
                              accumulate);
        }
        for (; c < cols; c++)
            STORE_GRAD(GT, dx, c, GRADIENT(ONE, LOAD(DYT, dy, c), LOAD(DT, y, c), dot), accumulate);
        if (left > 1)
            dot = softmax_dot_end(dy + cols, y + cols, cols, next);
    }
}

__kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void softmax_bwd_group(
    __global STORAGE(GT) *restrict dx, ulong dx0, int accumulate, __global const STORAGE(DYT) *restrict dy,
    ulong dy0, __global const STORAGE(DT) *restrict y, ulong y0, ulong rows, uint cols)
{
    __local float scratch[WG];
    ulong row = get_group_id(0);
    uint lane = (uint)get_local_id(0);
    dx += dx0 + row * cols;
    dy += dy0 + row * cols;
    y += y0 + row * cols;
    uint whole = WHOLE_QUADS(cols, QUADS(GT, dx) && QUADS(DYT, dy) && QUADS(DT, y));
    float dot = 0.0f;
    float4 dot4 = 0.0f;
    FOR_QUADS(c, whole)
    dot4 += DOT_TERM(LOAD4(DYT, dy, c), LOAD4(DT, y, c));
    FOR_SINGLES(c, whole, cols)
    dot += DOT_TERM(LOAD(DYT, dy, c), LOAD(DT, y, c));
    dot = clt_group_sum(scratch, dot + clt_sum4(dot4));
    FOR_QUADS(c, whole)
    STORE4_GRAD(GT, dx, c, GRADIENT(FOUR, LOAD4(DYT, dy, c), LOAD4(DT, y, c), dot), accumulate);
    FOR_SINGLES(c, whole, cols)
    STORE_GRAD(GT, dx, c, GRADIENT(ONE, LOAD(DYT, dy, c), LOAD(DT, y, c), dot), accumulate);
}
