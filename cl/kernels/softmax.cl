/* SPDX-License-Identifier: Apache-2.0
 *
 * Softmax and log-softmax over rows: y = exp(x - max) / sum, or y = x - max - log(sum). Forms: group (one
 * work-group per row), row (one item per row, sixteen lanes). A NaN in a row makes the whole row NaN. Knows
 * rows and columns only.
 *
 * -DLOG=0|1  -DDT=type of x and y  -DDYT=type of dy  -DGT=type of dx  -DWG=work-group size of the group form
 * -DKEEP_EXP=0|1: exponentials of long rows are kept in y, which f32 holds exactly  -DNT: see lanes.clh, of
 * the gradient; rows are then whole vectors */
#include "common.clh"
#include "lanes.clh"
#include "groups.clh"

#ifndef LOG
#define LOG 0
#endif
#ifndef DT
#define DT f32
#endif
#ifndef DYT
#define DYT f32
#endif
#ifndef GT
#define GT f32
#endif
#ifndef KEEP_EXP /* f32 holds them exactly */
#define KEEP_EXP 1
#endif

#include "softmax.clh"
/* Last step of forward, `norm` being 1/sum or log(sum), and the terms of backward; name: ONE or SIXTEEN. */
#define ONE(name) name
#define SIXTEEN(name) name##16
#if LOG
#define NORM(name, sum) name(clt_log)(sum)
#define FINISH(name, centred, norm) ((centred) - (norm))
#define DOT_TERM(dy, y) (dy)
#define GRADIENT(name, dy, y, dot) ((dy)-name(clt_exp_down)(y) * (dot))
#else
#define NORM(name, sum) (1.0f / (sum))
#define FINISH(name, centred, norm) (name(clt_exp_down)(centred) * (norm))
#define DOT_TERM(dy, y) ((dy) * (y))
#define GRADIENT(name, dy, y, dot) ((y) * ((dy) - (dot)))
#endif

static inline void softmax_store_tail(__global STORAGE(DT) *restrict y, uint c, uint cols, float16 v)
{
    float tail[LANES];
    vstore16(v, 0, tail);
    for (uint i = 0; c + i < cols; i++)
        STORE(DT, y, c + i, tail[i]);
}

/* Rows of up to ROW_NEAR elements go through three stages, some rows at a time ("chunk"): maximum;
 * exponentials and their sum; result. One loop does the last stage of a chunk, the second of the next one and
 * the first of the one after that, so that memory is never idle. */
#define CHUNK_ELEMENTS 1024

#if LOG /* the result needs x itself again */
#define KEEP(at, e)
#define RESULT(x, at, top, norm) (((x) - (top)) - (norm))
#else
#define KEEP(at, e) vstore16(e, 0, kept + (at))
#define RESULT(x, at, top, norm) (vload16(0, kept + (at)) * (norm))
#endif

#if LOG
#define KEEP_FAR(c, e)
#define RESULT_FAR(c, top, norm) (LOAD16(DT, x, c) - (top) - (norm))
#elif KEEP_EXP
#define KEEP_FAR(c, e) STORE16(DT, y, c, e)
#define RESULT_FAR(c, top, norm) (LOAD16(DT, y, c) * (norm))
#else
#define KEEP_FAR(c, e)
#define RESULT_FAR(c, top, norm) (clt_exp_down16(LOAD16(DT, x, c) - (top)) * (norm))
#endif

/* Of the rows of one chunk. */
typedef struct softmax_chunk {
    float top[LANES], norm[LANES];
} softmax_chunk;

/* Stage three of one row, whose exponentials are at `kept`. */
static inline void softmax_result(__global STORAGE(DT) *restrict y, __global const STORAGE(DT) *restrict x,
                                  const float *kept, uint cols, float top, float norm)
{
    uint c = 0;
    for (; c + LANES <= cols; c += LANES)
        STORE16(DT, y, c, RESULT(LOAD16(DT, x, c), c, top, norm));
    if (c < cols)
        softmax_store_tail(y, c, cols, RESULT(clt_row_tail(x, c, cols), c, top, norm));
}

/* Stage two of the `rows` rows at x, stage one of as many as there are of the `ahead` rows behind them, stage
 * three of the chunk before unless this is the first one. */
static inline void softmax_round(softmax_chunk *before, float *next, __global STORAGE(DT) *restrict y,
                                 __global const STORAGE(DT) *restrict x, float *kept, uint chunk, uint rows,
                                 uint ahead, uint cols, uint stride, bool first)
{
    float sums[LANES * LANES], tops[LANES * LANES];
    for (uint r = 0; r < rows; r++) {
        __global const STORAGE(DT) *x_ahead = r < ahead ? x + chunk * cols : x;
        float top = next[r], old_top = before->top[r], old_norm = before->norm[r];
        float16 sum = 0.0f, most = -INFINITY;
        uint c = 0;
        for (; c + LANES <= cols; c += LANES) {
            most = clt_row_larger(most, LOAD16(DT, x_ahead, c));
            if (!first)
                STORE16(DT, y - chunk * cols, c,
                        RESULT(LOAD16(DT, x - chunk * cols, c), c, old_top, old_norm));
            float16 e = clt_exp_down16(LOAD16(DT, x, c) - top);
            KEEP(c, e);
            sum += e;
        }
        if (c < cols) {
            most = clt_row_larger(most, clt_row_tail(x_ahead, c, cols));
            if (!first)
                softmax_store_tail(y - chunk * cols, c, cols,
                                   RESULT(clt_row_tail(x - chunk * cols, c, cols), c, old_top, old_norm));
            float16 e = clt_exp_down16(clt_row_tail(x, c, cols) - top);
            KEEP(c, e);
            sum += e;
        }
        vstore16(sum, r, sums);
        vstore16(most, r, tops);
        before->top[r] = top;
        x += cols;
        y += cols;
        kept += stride;
    }
    for (uint r = 0; r < rows; r++) {
        before->norm[r] = clt_sum16(vload16(r, sums));
        next[r] = clt_row_most(vload16(r, tops));
    }
    vstore16(NORM(SIXTEEN, vload16(0, before->norm)), 0, before->norm);
}

static inline void softmax_near(__global STORAGE(DT) *restrict y, __global const STORAGE(DT) *restrict x,
                                uint rows, uint cols)
{
    float kept[LOG ? 1 : ROW_NEAR], next[LANES];
    softmax_chunk before;
    uint chunk = min((uint)LANES, max(CHUNK_ELEMENTS / cols, 1u)),
         stride = (cols + LANES - 1) / LANES * LANES;
    uint now = min(chunk, rows);
    vstore16((float16)(1.0f), 0, before.norm); /* of rows that are not there */
    for (uint r = 0; r < now; r++)
        next[r] = clt_row_top(x + r * cols, cols);
    for (uint done = 0; done < rows; done += chunk) {
        now = min(chunk, rows - done);
        for (uint r = now; done > 0 && r < chunk; r++)
            softmax_result(y - (chunk - r) * cols, x - (chunk - r) * cols, kept + r * stride, cols,
                           before.top[r], before.norm[r]);
        softmax_round(&before, next, y, x, kept, chunk, now, min(chunk, rows - done - now), cols, stride,
                      done == 0);
        x += chunk * cols;
        y += chunk * cols;
    }
    for (uint r = 0; r < now; r++)
        softmax_result(y - (chunk - r) * cols, x - (chunk - r) * cols, kept + r * stride, cols, before.top[r],
                       before.norm[r]);
}

/* Longer rows: the maximum of the next row is found while this one's exponentials are summed. */
static inline void softmax_far(__global STORAGE(DT) *restrict y, __global const STORAGE(DT) *restrict x,
                               uint rows, uint cols)
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
            KEEP_FAR(c, e);
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
            STORE16(DT, y, c, RESULT_FAR(c, top, norm));
        if (c < cols)
            softmax_store_tail(y, c, cols, LOG ? clt_row_tail(x, c, cols) - top - norm : rest * norm);
    }
}

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
    float top = -INFINITY, sum = 0.0f;
    for (uint c = lane; c < cols; c += WG)
        top = fmax(top, LOAD(DT, x, c));
    top = clt_group_max(scratch, top);
    for (uint c = lane; c < cols; c += WG)
        sum += clt_exp_down(LOAD(DT, x, c) - top);
    float norm = NORM(ONE, clt_group_sum(scratch, sum));
    for (uint c = lane; c < cols; c += WG)
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

/* The dot product from that of the row's whole vectors. */
static inline float softmax_dot_end(__global const STORAGE(DYT) * dy, __global const STORAGE(DT) * y,
                                    uint cols, float16 dot16)
{
    float dot = 0.0f;
    for (uint c = cols / LANES * LANES; c < cols; c++)
        dot += DOT_TERM(LOAD(DYT, dy, c), LOAD(DT, y, c));
    return dot + clt_sum16(dot16);
}

/* dy, y (rows,cols) -> dx (rows,cols). An item has per_item rows: the dot product of the next row is taken
 * while this one's result is written, so that memory is never idle. */
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
    float dot = 0.0f;
    for (uint c = lane; c < cols; c += WG)
        dot += DOT_TERM(LOAD(DYT, dy, c), LOAD(DT, y, c));
    dot = clt_group_sum(scratch, dot);
    for (uint c = lane; c < cols; c += WG)
        STORE_GRAD(GT, dx, c, GRADIENT(ONE, LOAD(DYT, dy, c), LOAD(DT, y, c), dot), accumulate);
}
