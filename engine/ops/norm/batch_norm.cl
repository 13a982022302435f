/* SPDX-License-Identifier: Apache-2.0
 *
 * Batch normalisation of features: every column of a matrix (rows, cols) gets the mean 0 and the variance 1
 * over the rows. The rows are cut into blocks. Each block gives the mean of its rows and the sum of squared
 * distances from that mean; those of all rows follow from them without cancellation (Chan, Golub & LeVeque
 * 1979). A separate kernel updates the running statistics. The backward pass needs two sums for each column,
 * by blocks again. What belongs to a channel (mean, rstd, sums) is an array of cols numbers: inputs with more
 * dimensions need other kernels for the passes over x alone. Knows matrices only.
 *
 * Geometry: groups (tiles of columns, blocks of rows); kernels that work on channels alone have one block. An
 * item of the lane form owns a tile of columns, sixteen at a time; an item of the flat form owns one column.
 *
 * -DLS=items of a group, 1 in the lane form  -DDT=type of x and y  -DDYT=type of dy  -DGT=type of dx
 * -DAFFINE=0|1: w and b are there  -DBATCH=0|1: mean and rstd depend on x, they are no constants
 * -DHAVE_DW=0|1  -DHAVE_DB=0|1: gradients of w and b are wanted */
#include "common.clh"
#include "lanes.clh"
#include "reduce_shared.clh"
#include "types.clh"

#ifndef LS
#define LS 1
#endif
#ifndef AFFINE
#define AFFINE 1
#endif
#ifndef BATCH
#define BATCH 1
#endif
#ifndef HAVE_DW
#define HAVE_DW 1
#endif
#ifndef HAVE_DB
#define HAVE_DB 1
#endif

#define KERNEL __kernel __attribute__((reqd_work_group_size(LS, 1, 1))) void
#define IN_OF(dt, name) __global const STORAGE(dt) *restrict name, ulong name##0
#define IN(name) IN_OF(f32, name)
#define OUT_OF(dt, name) __global STORAGE(dt) *restrict name, ulong name##0
#define OUT(name) OUT_OF(f32, name)
#define IN_OUT(name) __global float *name, ulong name##0
#define GRAD_OF(dt, name) __global STORAGE(dt) * name, ulong name##0, int name##_accumulate

/* The item has `width` columns from `begin` on. STEPS(STEP) runs STEP(type, N) for its columns c = 0 to width
 * - 1, sixteen at a time (N = 16) and then one by one; LOAD##N, KEPT##N and so on access as many columns.
 * KEPT and KEEP access private arrays with one number for each column of the item. */
#define KEPT(array) ((array)[c])
#define KEEP(array, v) ((array)[c] = (v))
#if LS == 1
#define MOST_COLUMNS MAX_TILE
#define COLUMNS                                                                                              \
    ulong begin = (ulong)get_group_id(0) * tile;                                                             \
    uint width = (uint)min((ulong)tile, cols - begin)
#define KEPT16(array) vload16(0, (array) + c)
#define KEEP16(array, v) vstore16((v), 0, (array) + c)
#define STEPS(STEP)                                                                                          \
    {                                                                                                        \
        uint c = 0;                                                                                          \
        for (; c + LANES <= width; c += LANES) {                                                             \
            STEP(float16, 16)                                                                                \
        }                                                                                                    \
        for (; c < width; c++) {                                                                             \
            STEP(float, )                                                                                    \
        }                                                                                                    \
    }
#else
#define MOST_COLUMNS 1
#define COLUMNS                                                                                              \
    ulong begin = get_global_id(0);                                                                          \
    if (begin >= cols) {                                                                                     \
        return;                                                                                              \
    }                                                                                                        \
    (void)tile
#define STEPS(STEP)                                                                                          \
    {                                                                                                        \
        const uint c = 0;                                                                                    \
        STEP(float, )                                                                                        \
    }
#endif
#define ROWS ulong block = get_group_id(1), row = block * block_rows, end = min(rows, row + block_rows)

/* --- forward --- */

/* x (rows,cols) -> mean, square (blocks,cols): mean of the block's rows, sum of squared distances from it. */
KERNEL batch_norm_moments(OUT(mean), OUT(square), IN_OF(DT, x), ulong rows, ulong cols, ulong block_rows,
                          uint tile)
{
    COLUMNS;
    ROWS;
    float middle[MOST_COLUMNS], sum[MOST_COLUMNS];
    float count = (float)(end - row);
    x += x0 + begin;
    mean += mean0 + block * cols + begin;
    square += square0 + block * cols + begin;
#define CLEAR(type, N) KEEP##N(sum, (type)(0.0f));
    STEPS(CLEAR)
    for (ulong r = row; r < end; r++) {
#define ADD(type, N) KEEP##N(sum, KEPT##N(sum) + LOAD##N(DT, x, r * cols + c));
        STEPS(ADD)
    }
#define MEAN(type, N)                                                                                        \
    KEEP##N(middle, KEPT##N(sum) / count);                                                                   \
    KEEP##N(sum, (type)(0.0f));
    STEPS(MEAN)
    for (ulong r = row; r < end; r++) {
#define ADD_SQUARE(type, N)                                                                                  \
    type d = LOAD##N(DT, x, r * cols + c) - KEPT##N(middle);                                                 \
    KEEP##N(sum, fma(d, d, KEPT##N(sum)));
        STEPS(ADD_SQUARE)
    }
#define STORE_MOMENTS(type, N)                                                                               \
    STORE##N(f32, mean, c, KEPT##N(middle));                                                                 \
    STORE##N(f32, square, c, KEPT##N(sum));
    STEPS(STORE_MOMENTS)
}

/* Combines the moments of the blocks to mean, var (biased) and rstd (cols) of the batch. */
KERNEL batch_norm_stats(OUT(mean), OUT(rstd), OUT(var), IN(part), IN(square), ulong rows, ulong cols,
                        ulong block_rows, uint tile, float eps)
{
    COLUMNS;
    part += part0 + begin;
    square += square0 + begin;
    mean += mean0 + begin;
    rstd += rstd0 + begin;
    var += var0 + begin;
#define BLOCKS(b, n) /* n: number of rows in block b */                                                      \
    for (ulong b = 0, r_ = 0; r_ < rows; b++, r_ += block_rows)                                              \
        for (float n = (float)min(block_rows, rows - r_), once_ = 1.0f; once_ > 0.0f; once_ = 0.0f)
#define COMBINE(type, N)                                                                                     \
    type sum = (type)(0.0f), squares = (type)(0.0f);                                                         \
    BLOCKS(b, n)                                                                                             \
    sum += n * LOAD##N(f32, part, b * cols + c);                                                             \
    type middle = sum / (float)rows;                                                                         \
    BLOCKS(b, n)                                                                                             \
    {                                                                                                        \
        type d = LOAD##N(f32, part, b * cols + c) - middle;                                                  \
        squares += LOAD##N(f32, square, b * cols + c) + n * d * d;                                           \
    }                                                                                                        \
    type spread = squares / (float)rows;                                                                     \
    STORE##N(f32, mean, c, middle);                                                                          \
    STORE##N(f32, var, c, spread);                                                                           \
    STORE##N(f32, rstd, c, (type)(1.0f) / sqrt(spread + eps));
    STEPS(COMBINE)
}

/* running += momentum * (batch - running); unbiased: n / (n - 1). Statistics that are not finite change
 * nothing. */
KERNEL batch_norm_running(IN_OUT(running_mean), IN_OUT(running_var), IN(mean), IN(var), ulong cols, uint tile,
                          float momentum, float unbiased)
{
    COLUMNS;
    running_mean += running_mean0 + begin;
    running_var += running_var0 + begin;
    mean += mean0 + begin;
    var += var0 + begin;
#define MOVE(type, N)                                                                                        \
    type m = LOAD##N(f32, running_mean, c), v = LOAD##N(f32, running_var, c);                                \
    type new_m = LOAD##N(f32, mean, c), new_v = LOAD##N(f32, var, c) * unbiased;                             \
    type zero = (new_m - new_m) + (new_v - new_v); /* NaN if either is not finite */                         \
    new_m = momentum * new_m + (1.0f - momentum) * m;                                                        \
    new_v = momentum * new_v + (1.0f - momentum) * v;                                                        \
    STORE##N(f32, running_mean, c, select(m, new_m, zero == (type)(0.0f)));                                  \
    STORE##N(f32, running_var, c, select(v, new_v, zero == (type)(0.0f)));
    STEPS(MOVE)
}

/* Evaluation: mean and rstd (cols) are those of the running statistics. */
KERNEL batch_norm_constants(OUT(mean), OUT(rstd), IN(running_mean), IN(running_var), ulong cols, uint tile,
                            float eps)
{
    COLUMNS;
    running_mean += running_mean0 + begin;
    running_var += running_var0 + begin;
    mean += mean0 + begin;
    rstd += rstd0 + begin;
#define TAKE(type, N)                                                                                        \
    STORE##N(f32, mean, c, LOAD##N(f32, running_mean, c));                                                   \
    STORE##N(f32, rstd, c, (type)(1.0f) / sqrt(LOAD##N(f32, running_var, c) + eps));
    STEPS(TAKE)
}

#if AFFINE
#define WEIGHT_ARG , IN(w)
#define BIAS_ARG , IN(b)
#define SCALED(N, v) ((v)*LOAD##N(f32, w, w0 + begin + c))
#define SHIFTED(N, v) ((v) + LOAD##N(f32, b, b0 + begin + c))
#else
#define WEIGHT_ARG
#define BIAS_ARG
#define SCALED(N, v) (v)
#define SHIFTED(N, v) (v)
#endif
#define NORMALISED(N, at) ((LOAD##N(DT, x, at) - LOAD##N(f32, mean, c)) * LOAD##N(f32, rstd, c))

/* x (rows,cols), mean, rstd, w, b (cols) -> y (rows,cols). */
KERNEL batch_norm_fwd(OUT_OF(DT, y), IN_OF(DT, x), IN(mean), IN(rstd) WEIGHT_ARG BIAS_ARG, ulong rows,
                      ulong cols, ulong block_rows, uint tile)
{
    COLUMNS;
    ROWS;
    x += x0 + begin;
    y += y0 + begin;
    mean += mean0 + begin;
    rstd += rstd0 + begin;
    for (ulong r = row; r < end; r++) {
#define NORMALISE(type, N) STORE##N(DT, y, r *cols + c, SHIFTED(N, SCALED(N, NORMALISED(N, r * cols + c))));
        STEPS(NORMALISE)
    }
}

/* --- backward --- */

/* sum, product (blocks,cols): sums of dy, and of dy times the normalised x, over the block's rows. */
KERNEL batch_norm_bwd_sums(OUT(sum), OUT(product), IN_OF(DYT, dy), IN_OF(DT, x), IN(mean), IN(rstd),
                           ulong rows, ulong cols, ulong block_rows, uint tile)
{
    COLUMNS;
    ROWS;
    float sums[MOST_COLUMNS], products[MOST_COLUMNS];
    dy += dy0 + begin;
    x += x0 + begin;
    mean += mean0 + begin;
    rstd += rstd0 + begin;
    sum += sum0 + block * cols + begin;
    product += product0 + block * cols + begin;
#define CLEAR_BOTH(type, N)                                                                                  \
    KEEP##N(sums, (type)(0.0f));                                                                             \
    KEEP##N(products, (type)(0.0f));
    STEPS(CLEAR_BOTH)
    for (ulong r = row; r < end; r++) {
#define ADD_BOTH(type, N)                                                                                    \
    type g = LOAD##N(DYT, dy, r * cols + c);                                                                 \
    KEEP##N(sums, KEPT##N(sums) + g);                                                                        \
    KEEP##N(products, fma(g, NORMALISED(N, r *cols + c), KEPT##N(products)));
        STEPS(ADD_BOTH)
    }
#define STORE_BOTH(type, N)                                                                                  \
    STORE##N(f32, sum, c, KEPT##N(sums));                                                                    \
    STORE##N(f32, product, c, KEPT##N(products));
    STEPS(STORE_BOTH)
}

#if HAVE_DW
#define DW_ARG GRAD_OF(f32, dw),
#define STORE_DW(N, v) STORE##N##_GRAD(f32, dw, dw0 + begin + c, v, dw_accumulate);
#else
#define DW_ARG
#define STORE_DW(N, v)
#endif
#if HAVE_DB
#define DB_ARG GRAD_OF(f32, db),
#define STORE_DB(N, v) STORE##N##_GRAD(f32, db, db0 + begin + c, v, db_accumulate);
#else
#define DB_ARG
#define STORE_DB(N, v)
#endif

/* Adds up the sums of the blocks; the totals (cols) are also the gradients of b and w. */
KERNEL batch_norm_bwd_total(OUT(sum), OUT(product), DW_ARG DB_ARG IN(part_sum), IN(part_product),
                            ulong blocks, ulong cols, uint tile)
{
    COLUMNS;
    part_sum += part_sum0 + begin;
    part_product += part_product0 + begin;
    sum += sum0 + begin;
    product += product0 + begin;
#define TOTAL(type, N)                                                                                       \
    type s = (type)(0.0f), p = (type)(0.0f);                                                                 \
    for (ulong b = 0; b < blocks; b++) {                                                                     \
        s += LOAD##N(f32, part_sum, b * cols + c);                                                           \
        p += LOAD##N(f32, part_product, b * cols + c);                                                       \
    }                                                                                                        \
    STORE##N(f32, sum, c, s);                                                                                \
    STORE##N(f32, product, c, p);                                                                            \
    STORE_DW(N, p)                                                                                           \
    STORE_DB(N, s)
    STEPS(TOTAL)
}

#if BATCH
#define X_ARG , IN_OF(DT, x), IN(mean), IN(rstd), IN(sum), IN(product)
#define CENTRED(N, g)                                                                                        \
    ((g)-share * (LOAD##N(f32, sum, sum0 + begin + c) +                                                      \
                  NORMALISED(N, r * cols + c) * LOAD##N(f32, product, product0 + begin + c)))
#else
#define X_ARG , IN(rstd)
#define CENTRED(N, g) (g)
#endif

/* dx (rows,cols) (+)= rstd * w * (dy - (sum + normalised x * product) / rows); share: 1 / rows. */
KERNEL batch_norm_bwd(GRAD_OF(GT, dx), IN_OF(DYT, dy) X_ARG WEIGHT_ARG, ulong rows, ulong cols,
                      ulong block_rows, uint tile, float share)
{
    COLUMNS;
    ROWS;
    dx += dx0 + begin;
    dy += dy0 + begin;
    rstd += rstd0 + begin;
#if BATCH
    x += x0 + begin;
    mean += mean0 + begin;
#endif
    for (ulong r = row; r < end; r++) {
#define GRADIENT(type, N)                                                                                    \
    type g = CENTRED(N, LOAD##N(DYT, dy, r * cols + c)) * LOAD##N(f32, rstd, c);                             \
    STORE##N##_GRAD(GT, dx, r *cols + c, SCALED(N, g), dx_accumulate);
        STEPS(GRADIENT)
    }
}
