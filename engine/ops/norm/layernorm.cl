/* SPDX-License-Identifier: Apache-2.0
 *
 * Normalisation of rows, and the gradient of x. Layer normalisation (-DCENTRE=1): y = (x - mean) * rstd *
 * w + b; the variance is the mean square of the centred values (a second pass over the row), so that large
 * means cost no accuracy. Root mean square normalisation (-DCENTRE=0): the same with a mean of zero, which
 * is neither computed, nor kept, nor differentiated. Gradients of w and b are column sums: see colsum.cl.
 * Forms: group (one work-group per row), row (one item per row, sixteen lanes), block (backward: one item
 * per block of rows, column sums included), blocks (one work-group per block of rows, backward with column
 * sums). Knows rows and columns only.
 *
 *   -DCENTRE=0|1: see above  -DAFFINE=0|1: there is w  -DBIAS=0|1: there is b
 *   -DSTATS=0|1: mean and rstd are stored
 *   -DDT=type of x  -DYT=type of y  -DWT=type of w and b  -DDYT=type of dy  -DGT=type of dx
 *   -DWG=work-group size of the kernels group and blocks
 *   -DPARTS=column sums of the kernels block and blocks: 1 of dy * n, 2 of dy, 3 both  -DNT: see lanes.clh
 *   -DITEM_QUADS=vectors of four columns an item of the kernel blocks has  -DROWS=rows it has in flight */
#include "common.clh"
#include "lanes.clh"
#include "groups.clh"
#include "quads.clh"
#include "types.clh"

#pragma option YT f32
#pragma option CENTRE 1
#pragma option AFFINE 1
#pragma option BIAS 1
#pragma option STATS 1
#pragma option PARTS 3
#pragma option ITEM_QUADS 1
#pragma option ROWS 8

#if AFFINE
#define W_ARG , __global const STORAGE(WT) *restrict w, ulong w0
#define SCALED(load, v, c) ((v)*load(WT, w, w0 + (c)))
#define W_QUADS &&QUADS(WT, w + w0)
#else
#define W_ARG
#define SCALED(load, v, c) (v)
#define W_QUADS
#endif
#if BIAS
#define B_ARG , __global const STORAGE(WT) *restrict b, ulong b0
#define SHIFTED(load, v, c) ((v) + load(WT, b, b0 + (c)))
#define B_QUADS &&QUADS(WT, b + b0)
#else
#define B_ARG
#define SHIFTED(load, v, c) (v)
#define B_QUADS
#endif
/* IF_CENTRE(s) is s (a statement, or a part of an expression) for layernorm, and nothing for rmsnorm, which
 * has no mean. */
#if CENTRE
#define IF_CENTRE(s) s
#define MEAN_OUT , __global float *restrict mean_out, ulong mean0
#define MEAN_IN , __global const float *restrict mean_in, ulong mean_in0
#else
#define IF_CENTRE(s)
#define MEAN_OUT
#define MEAN_IN
#endif
#if STATS
#define STATS_ARG MEAN_OUT, __global float *restrict rstd_out, ulong rstd0
#define KEEP_STATS(row, mean, rstd)                                                                          \
    IF_CENTRE(mean_out[mean0 + (row)] = (mean);)                                                             \
    rstd_out[rstd0 + (row)] = (rstd)
#else
#define STATS_ARG
#define KEEP_STATS(row, mean, rstd)
#endif

#define MINUS_MEAN(load, c) (load(DT, x, c) IF_CENTRE(-mean))
#define NORMALISED(load, c) SHIFTED(load, SCALED(load, MINUS_MEAN(load, c) * rstd, c), c)

/* x (rows,cols), w (cols), b (cols) -> y (rows,cols), mean (rows), rstd (rows). */
__kernel void layernorm_fwd_row(__global STORAGE(YT) *restrict y, ulong y0 STATS_ARG,
                                __global const STORAGE(DT) *restrict x, ulong x0 W_ARG B_ARG, ulong rows,
                                uint cols, float eps)
{
    ulong row = get_global_id(0);
    if (row >= rows)
        return;
    y += y0 + row * cols;
    x += x0 + row * cols;
    uint c = 0;
    float tail = 0.0f;
    float16 sum = (float16)(0.0f);
#if CENTRE
    for (; c + LANES <= cols; c += LANES)
        sum += LOAD16(DT, x, c);
    for (; c < cols; c++)
        tail += LOAD(DT, x, c);
    float mean = (clt_sum16(sum) + tail) / (float)cols;
    tail = 0.0f;
    sum = (float16)(0.0f);
#endif
    for (c = 0; c + LANES <= cols; c += LANES) {
        float16 d = MINUS_MEAN(LOAD16, c);
        sum = fma(d, d, sum);
    }
    for (; c < cols; c++) {
        float d = MINUS_MEAN(LOAD, c);
        tail = fma(d, d, tail);
    }
    float rstd = 1.0f / sqrt((clt_sum16(sum) + tail) / (float)cols + eps);
    for (c = 0; c + LANES <= cols; c += LANES)
        STORE16(YT, y, c, NORMALISED(LOAD16, c));
    for (; c < cols; c++)
        STORE(YT, y, c, NORMALISED(LOAD, c));
    KEEP_STATS(row, mean, rstd);
}

__kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void layernorm_fwd_group(
    __global STORAGE(YT) *restrict y, ulong y0 STATS_ARG, __global const STORAGE(DT) *restrict x,
    ulong x0 W_ARG B_ARG, ulong rows, uint cols, float eps)
{
    __local float scratch[WG];
    ulong row = get_group_id(0);
    uint lane = (uint)get_local_id(0);
    y += y0 + row * cols;
    x += x0 + row * cols;
    uint whole = WHOLE_QUADS(cols, QUADS(YT, y) && QUADS(DT, x) W_QUADS B_QUADS);
    float sum = 0.0f;
    float4 sum4 = 0.0f;
#if CENTRE
    FOR_QUADS(c, whole)
    sum4 += LOAD4(DT, x, c);
    FOR_SINGLES_OF(DT, x, c, whole, cols)
    sum += LOAD(DT, x, c);
    float mean = clt_group_sum(scratch, sum + clt_sum4(sum4)) / (float)cols;
    sum = 0.0f;
    sum4 = 0.0f;
#endif
    FOR_QUADS(c, whole)
    {
        float4 d = MINUS_MEAN(LOAD4, c);
        sum4 = fma(d, d, sum4);
    }
    FOR_SINGLES_OF(DT, x, c, whole, cols)
    {
        float d = MINUS_MEAN(LOAD, c);
        sum = fma(d, d, sum);
    }
    float rstd = 1.0f / sqrt(clt_group_sum(scratch, sum + clt_sum4(sum4)) / (float)cols + eps);
    FOR_QUADS(c, whole)
    STORE4(YT, y, c, NORMALISED(LOAD4, c));
    FOR_SINGLES_OF(DT, x, c, whole, cols)
    STORE(YT, y, c, NORMALISED(LOAD, c));
    if (lane == 0) {
        KEEP_STATS(row, mean, rstd);
    }
}

/* From here on, sixteen floats are loaded through a vector pointer. Compilers build vload16 from smaller
 * loads, and split it again where a value is used several times. */
typedef float16 layernorm_floats __attribute__((aligned(4)));
#undef LOAD16_f32
#undef STORE16_f32
#define LOAD16_f32(p, i) (*(const __global layernorm_floats *)((p) + (i)))
#define STORE16_f32(p, i, v) (*(__global layernorm_floats *)((p) + (i)) = (v))

#define SCALED_DY(load, c) SCALED(load, load(DYT, dy, c), c)
#define CENTRED(load, c) (MINUS_MEAN(load, c) * rstd)
#define DX(load, c) ((SCALED_DY(load, c) IF_CENTRE(-s1) - CENTRED(load, c) * s2) * rstd)

/* Computes the sums over a row that dx needs: in sixteen lanes and then one by one. `also(load, c)` runs in
 * the same pass. */
#define ROW_SUMS(also)                                                                                       \
    uint c = 0;                                                                                              \
    IF_CENTRE(float tail1 = 0.0f; float16 sum1 = (float16)(0.0f);)                                           \
    float tail2 = 0.0f;                                                                                      \
    float16 sum2 = (float16)(0.0f);                                                                          \
    for (; c + LANES <= cols; c += LANES) {                                                                  \
        float16 g = SCALED_DY(LOAD16, c);                                                                    \
        IF_CENTRE(sum1 += g;)                                                                                \
        sum2 = fma(g, CENTRED(LOAD16, c), sum2);                                                             \
        also(LOAD16, STORE16, c);                                                                            \
    }                                                                                                        \
    for (; c < cols; c++) {                                                                                  \
        float g = SCALED_DY(LOAD, c);                                                                        \
        IF_CENTRE(tail1 += g;)                                                                               \
        tail2 = fma(g, CENTRED(LOAD, c), tail2);                                                             \
        also(LOAD, STORE, c);                                                                                \
    }                                                                                                        \
    IF_CENTRE(float s1 = (clt_sum16(sum1) + tail1) / (float)cols;)                                           \
    float s2 = (clt_sum16(sum2) + tail2) / (float)cols
#define NOTHING(load, store, c)
#define ROW_DX                                                                                               \
    for (c = 0; c + LANES <= cols; c += LANES)                                                               \
        STREAM16_GRAD(GT, dx, c, DX(LOAD16, c), accumulate);                                                 \
    for (; c < cols; c++)                                                                                    \
    STORE_GRAD(GT, dx, c, DX(LOAD, c), accumulate)

/* With g = dy * w and n = (x - mean) * rstd: dx = rstd * (g - mean(g) - n * mean(g n)); without a mean of x
 * there is no mean(g) either. */
__kernel void layernorm_bwd_row(__global STORAGE(GT) *restrict dx, ulong dx0, int accumulate,
                                __global const STORAGE(DYT) *restrict dy, ulong dy0,
                                __global const STORAGE(DT) *restrict x, ulong x0 MEAN_IN,
                                __global const float *restrict rstd_in, ulong rstd0 W_ARG, ulong rows,
                                uint cols)
{
    ulong row = get_global_id(0);
    if (row >= rows)
        return;
    dx += dx0 + row * cols;
    dy += dy0 + row * cols;
    x += x0 + row * cols;
    IF_CENTRE(float mean = mean_in[mean_in0 + row];)
    float rstd = rstd_in[rstd0 + row];
    ROW_SUMS(NOTHING);
    ROW_DX;
}

/* Computes dx (see above) in an item with a block of rows. It also computes the column sums over its block
 * that the gradients of w and b need: part_p, part_q (blocks,cols) = sums of dy * n and of dy. Blocks and
 * order are as in colsum.cl, whose second stage adds up the blocks. */
#if PARTS & 1
#define PART_P_ARG , __global float *restrict part_p, ulong p0
#define ADD_P(load, store, c)                                                                                \
    store(f32, part_p, c, load(f32, part_p, c) + load(DYT, dy, c) * CENTRED(load, c))
#else
#define PART_P_ARG
#define ADD_P(load, store, c)
#endif
#if PARTS & 2
#define PART_Q_ARG , __global float *restrict part_q, ulong q0
#define ADD_Q(load, store, c) store(f32, part_q, c, load(f32, part_q, c) + load(DYT, dy, c))
#else
#define PART_Q_ARG
#define ADD_Q(load, store, c)
#endif
#define ADD_PARTS(load, store, c)                                                                            \
    ADD_P(load, store, c);                                                                                   \
    ADD_Q(load, store, c)

__kernel void layernorm_bwd_block(__global STORAGE(GT) *restrict dx, ulong dx0,
                                  int accumulate PART_P_ARG PART_Q_ARG,
                                  __global const STORAGE(DYT) *restrict dy, ulong dy0,
                                  __global const STORAGE(DT) *restrict x, ulong x0 MEAN_IN,
                                  __global const float *restrict rstd_in, ulong rstd0 W_ARG, ulong rows,
                                  uint cols, ulong block_rows)
{
    ulong block = get_global_id(0), row = block * block_rows, end = min(rows, row + block_rows);
    if (row >= rows)
        return;
    dx += dx0 + row * cols;
    dy += dy0 + row * cols;
    x += x0 + row * cols;
#if PARTS & 1
    part_p += p0 + block * cols;
    for (uint c = 0; c < cols; c++)
        part_p[c] = 0.0f;
#endif
#if PARTS & 2
    part_q += q0 + block * cols;
    for (uint c = 0; c < cols; c++)
        part_q[c] = 0.0f;
#endif
    for (; row < end; row++) {
        IF_CENTRE(float mean = mean_in[mean_in0 + row];)
        float rstd = rstd_in[rstd0 + row];
        ROW_SUMS(ADD_PARTS);
        ROW_DX;
        dx += cols;
        dy += cols;
        x += cols;
    }
}

__kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void layernorm_bwd_group(
    __global STORAGE(GT) *restrict dx, ulong dx0, int accumulate, __global const STORAGE(DYT) *restrict dy,
    ulong dy0, __global const STORAGE(DT) *restrict x, ulong x0 MEAN_IN,
    __global const float *restrict rstd_in, ulong rstd0 W_ARG, ulong rows, uint cols)
{
    __local float scratch[WG];
    ulong row = get_group_id(0);
    uint lane = (uint)get_local_id(0);
    dx += dx0 + row * cols;
    dy += dy0 + row * cols;
    x += x0 + row * cols;
    IF_CENTRE(float mean = mean_in[mean_in0 + row]; float s1 = 0.0f; float4 sum1 = 0.0f;)
    float rstd = rstd_in[rstd0 + row], s2 = 0.0f;
    uint whole = WHOLE_QUADS(cols, QUADS(GT, dx) && QUADS(DYT, dy) && QUADS(DT, x) W_QUADS);
    float4 sum2 = 0.0f;
    FOR_QUADS(c, whole)
    {
        float4 g = SCALED_DY(LOAD4, c);
        IF_CENTRE(sum1 += g;)
        sum2 = fma(g, CENTRED(LOAD4, c), sum2);
    }
    FOR_SINGLES_OF(DT, x, c, whole, cols)
    {
        float g = SCALED_DY(LOAD, c);
        IF_CENTRE(s1 += g;)
        s2 = fma(g, CENTRED(LOAD, c), s2);
    }
    IF_CENTRE(s1 = clt_group_sum(scratch, s1 + clt_sum4(sum1)) / (float)cols;)
    s2 = clt_group_sum(scratch, s2 + clt_sum4(sum2)) / (float)cols;
    FOR_QUADS(c, whole)
    STORE4_GRAD(GT, dx, c, DX(LOAD4, c), accumulate);
    FOR_SINGLES_OF(DT, x, c, whole, cols)
    STORE_GRAD(GT, dx, c, DX(LOAD, c), accumulate);
}

/* Computes `count` sums over the items of a group, one or two for each row. The terms are in local memory,
 * STRIDE floats for each sum: eight items each add up every eighth term of a sum, and one item adds the
 * eight results. STRIDE keeps the eight items of four sums in different banks. */
#define ROW_SUMS_EACH (1 IF_CENTRE(+1))
#define STRIDE (WG + 8)

CLT_INLINE void layernorm_group_sums(const __local float *terms, __local float *eighths, __local float *sums,
                                     uint count)
{
    uint lane = (uint)get_local_id(0);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint t = lane; t < 8 * count; t += WG) {
        float sum = 0.0f;
        for (uint i = 0; i < WG; i += 8)
            sum += terms[(t >> 3) * STRIDE + (t & 7) + i];
        eighths[t] = sum;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint t = lane; t < count; t += WG) {
        const __local float *e = eighths + 8 * t;
        sums[t] = ((e[0] + e[1]) + (e[2] + e[3])) + ((e[4] + e[5]) + (e[6] + e[7]));
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

#if AFFINE
#define BY_W(v, j) ((v)*w4[j])
#else
#define BY_W(v, j) (v)
#endif
#if BIAS
#define PLUS_B(v, j) ((v) + b4[j])
#else
#define PLUS_B(v, j) (v)
#endif
#if PARTS & 1
#define IF_PART_P(s) s
#else
#define IF_PART_P(s)
#endif
#if PARTS & 2
#define IF_PART_Q(s) s
#else
#define IF_PART_Q(s)
#endif
/* The item's vectors j and their first columns c. IN_ROW(c): the same for loads, where vectors beyond the
 * last column repeat the last vector. */
#define FOR_VECTORS(j, c) _Pragma("unroll") for (uint j = 0, c = 4 * lane; j < ITEM_QUADS; j++, c += 4 * WG)
#define IN_ROW(c) min(c, cols - 4)
#define FOR_ROWS(k) _Pragma("unroll") for (uint k = 0; k < ROWS; k++)
/* A group for a block of rows. Its items keep their w and b in registers. ROWS rows are in flight at the
 * same time, and are read once; rows of a step that are beyond the block repeat its last row and are not
 * written. cols is a multiple of four, at most 4 * WG * ITEM_QUADS; tensors begin at multiples of 16
 * bytes. */
__kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void layernorm_fwd_blocks(
    __global STORAGE(YT) *restrict y, ulong y0 STATS_ARG, __global const STORAGE(DT) *restrict x,
    ulong x0 W_ARG B_ARG, ulong rows, uint cols, float eps, ulong block_rows)
{
    __local float terms[ROWS * STRIDE], eighths[8 * ROWS], sums[ROWS];
    uint lane = (uint)get_local_id(0);
    ulong row = get_group_id(0) * block_rows, end = min(rows, row + block_rows);
    y += y0;
    x += x0;
#if AFFINE
    float4 w4[ITEM_QUADS];
    FOR_VECTORS(j, c)
    w4[j] = LOAD4(WT, w, w0 + IN_ROW(c));
#endif
#if BIAS
    float4 b4[ITEM_QUADS];
    FOR_VECTORS(j, c)
    b4[j] = LOAD4(WT, b, b0 + IN_ROW(c));
#endif
    for (; row < end; row += ROWS) {
        uint count = (uint)min((ulong)ROWS, end - row);
        float4 of_x[ROWS][ITEM_QUADS];
        FOR_ROWS(k)
        FOR_VECTORS(j, c)
        of_x[k][j] = LOAD4(DT, x, (row + min(k, count - 1)) * cols + IN_ROW(c));
#if CENTRE
        float means[ROWS];
        FOR_ROWS(k)
        {
            float4 sum4 = 0.0f;
            FOR_VECTORS(j, c)
            sum4 += clt_keep4(of_x[k][j], c, cols);
            terms[k * STRIDE + lane] = clt_sum4(sum4);
        }
        layernorm_group_sums(terms, eighths, sums, ROWS);
        FOR_ROWS(k)
        means[k] = sums[k] / (float)cols;
#endif
        FOR_ROWS(k)
        {
            float4 sum4 = 0.0f;
            FOR_VECTORS(j, c)
            {
                float4 d = clt_keep4(of_x[k][j] IF_CENTRE(-means[k]), c, cols);
                of_x[k][j] = d;
                sum4 = fma(d, d, sum4);
            }
            terms[k * STRIDE + lane] = clt_sum4(sum4);
        }
        layernorm_group_sums(terms, eighths, sums, ROWS);
        FOR_ROWS(k)
        if (k < count) {
            float rstd = 1.0f / sqrt(sums[k] / (float)cols + eps);
            FOR_VECTORS(j, c)
            if (c < cols)
                STORE4(YT, y, (row + k) * cols + c, PLUS_B(BY_W(of_x[k][j] * rstd, j), j));
            if (lane == 0) {
                KEEP_STATS(row + k, means[k], rstd);
            }
        }
    }
}

/* A group for a block of rows: dx, and the sums down its columns that the gradients of w and b need (see the
 * kernel block). ROWS rows are in flight at the same time, and are read once; rows of a step that are beyond
 * the block repeat its last row and are not counted. cols is a multiple of four, at most 4 * WG *
 * ITEM_QUADS; tensors begin at multiples of 16 bytes. */
__kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void layernorm_bwd_blocks(
    __global STORAGE(GT) *restrict dx, ulong dx0, int accumulate PART_P_ARG PART_Q_ARG,
    __global const STORAGE(DYT) *restrict dy, ulong dy0, __global const STORAGE(DT) *restrict x,
    ulong x0 MEAN_IN, __global const float *restrict rstd_in, ulong rstd0 W_ARG, ulong rows, uint cols,
    ulong block_rows)
{
    __local float terms[ROWS * ROW_SUMS_EACH * STRIDE], eighths[8 * ROWS * ROW_SUMS_EACH];
    __local float sums[ROWS * ROW_SUMS_EACH];
    uint lane = (uint)get_local_id(0);
    ulong block = get_group_id(0), row = block * block_rows, end = min(rows, row + block_rows);
    dx += dx0;
    dy += dy0;
    x += x0;
#if AFFINE
    float4 w4[ITEM_QUADS];
    FOR_VECTORS(j, c)
    w4[j] = LOAD4(WT, w, w0 + IN_ROW(c));
#endif
    IF_PART_P(float4 sum_p[ITEM_QUADS];)
    IF_PART_Q(float4 sum_q[ITEM_QUADS];)
    FOR_VECTORS(j, c)
    {
        IF_PART_P(sum_p[j] = 0.0f;)
        IF_PART_Q(sum_q[j] = 0.0f;)
    }
    for (; row < end; row += ROWS) {
        uint count = (uint)min((ulong)ROWS, end - row);
        float4 of_dy[ROWS][ITEM_QUADS], of_x[ROWS][ITEM_QUADS], old[ROWS][ITEM_QUADS];
        float rstd[ROWS];
        IF_CENTRE(float means[ROWS];)
        FOR_ROWS(k)
        {
            ulong at = row + min(k, count - 1);
            rstd[k] = rstd_in[rstd0 + at];
            IF_CENTRE(means[k] = mean_in[mean_in0 + at];)
            FOR_VECTORS(j, c)
            {
                of_dy[k][j] = LOAD4(DYT, dy, at * cols + IN_ROW(c));
                of_x[k][j] = LOAD4(DT, x, at * cols + IN_ROW(c));
            }
        }
        if (accumulate) {
            FOR_ROWS(k)
            FOR_VECTORS(j, c)
            old[k][j] = LOAD4(GT, dx, (row + min(k, count - 1)) * cols + IN_ROW(c));
        }
        FOR_ROWS(k)
        {
            float4 sum2 = 0.0f;
            IF_CENTRE(float4 sum1 = 0.0f;)
            FOR_VECTORS(j, c)
            {
                float4 n = (of_x[k][j] IF_CENTRE(-means[k])) * rstd[k];
                float4 g = clt_keep4(BY_W(of_dy[k][j], j), c, cols);
                IF_PART_P(sum_p[j] += clt_keep4(of_dy[k][j] * n, k, count);)
                IF_PART_Q(sum_q[j] += clt_keep4(of_dy[k][j], k, count);)
                of_dy[k][j] = g;
                of_x[k][j] = n;
                IF_CENTRE(sum1 += g;)
                sum2 = fma(g, n, sum2);
            }
            terms[k * ROW_SUMS_EACH * STRIDE + lane] = clt_sum4(sum2);
            IF_CENTRE(terms[(2 * k + 1) * STRIDE + lane] = clt_sum4(sum1);)
        }
        layernorm_group_sums(terms, eighths, sums, ROWS * ROW_SUMS_EACH);
        FOR_ROWS(k)
        {
            float s2 = sums[k * ROW_SUMS_EACH] / (float)cols;
            IF_CENTRE(float s1 = sums[2 * k + 1] / (float)cols;)
            FOR_VECTORS(j, c)
            if (k < count && c < cols) {
                float4 v = (of_dy[k][j] IF_CENTRE(-s1) - of_x[k][j] * s2) * rstd[k];
                if (accumulate)
                    v += old[k][j];
                STORE4(GT, dx, (row + k) * cols + c, v);
            }
        }
    }
    FOR_VECTORS(j, c)
    if (c < cols) {
        IF_PART_P(STORE4(f32, part_p, p0 + block * cols + c, sum_p[j]);)
        IF_PART_Q(STORE4(f32, part_q, q0 + block * cols + c, sum_q[j]);)
    }
}
