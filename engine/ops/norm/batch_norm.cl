/* SPDX-License-Identifier: Apache-2.0
 *
 * Batch normalisation: every column of a matrix (rows, cols) gets the mean 0 and the variance 1 over the
 * rows. A column is a channel; the rows are samples or, for images and volumes (channels-last), the pixels
 * of all samples. The rows are cut into blocks. Each block gives the mean of its rows and the sum of squared
 * distances from that mean; mean and variance of all rows follow from these without cancellation (Chan,
 * Golub & LeVeque 1979). Where the kernel that wrote the matrix has already computed moments of blocks
 * (ocl_moments in cl/gemm/gemm.h), these are used instead. Many blocks are first combined in parts of `span`
 * blocks each. A separate kernel updates the running statistics. The backward pass needs two sums for each
 * column, by blocks again. Group normalisation is the same with a segment of rows for each sample, where
 * columns are combined as well. Where several ranks share statistics, each makes a record of its rows, and
 * all combine the records of all ranks in the same order, as blocks are combined. Knows matrices only.
 *
 * Geometry: groups (tiles of columns, blocks of rows); kernels that work on channels, not rows, have one
 * block. In lane style an item owns a tile of columns, sixteen at a time; in flat style one column.
 *
 * -DLS=items of a group, 1 in the lane form  -DDT=type of x and y  -DDYT=type of dy  -DGT=type of dx
 * -DAFFINE=0|1: w and b exist  -DBATCH=0|1: mean and rstd depend on x and are not constants
 * -DHAVE_DW=0|1  -DHAVE_DB=0|1: gradients of w and b are wanted  -DNT=1: y and dx bypass the caches
 * -DRESIDUAL=0|1: a residual is added to the result  -DRELU=0|1: then negative numbers become zero
 * -DMASK=how backward knows which elements relu let pass (norm_shared.clh)
 * -DCOUNTED=0|1: moments come from another kernel, whose block b has counts[b] rows
 * -DRECORD=0|1: batch_norm_bwd_total writes a record for other ranks
 * -DSUMS=0|1: batch_norm_bwd_sums computes the sums  -DHAVE_DR=0|1: it writes the gradient of the residual
 * -DRT=type of that gradient  -DCHAINS=0|1: a block has more than SUM_STEPS rows
 * -DGROUPED=0|1: channels share statistics with others, so that backward sums w * dy instead of dy */
#include "common.clh"
#include "lanes.clh"
#include "kernel_shared.clh"
#include "norm_shared.clh"
#include "reduce_shared.clh"
#include "types.clh"

#pragma option LS 1
#pragma option AFFINE 1
#pragma option BATCH 1
#pragma option RESIDUAL 1
#pragma option RELU 1
#pragma option MASK MASK_NONE
#pragma option SUMS 1
#pragma option HAVE_DR 0
#pragma option GROUPED 0
#pragma option RECORD 0
#pragma option COUNTED 0
#pragma option CHAINS 0
#pragma option RT f32
#pragma option HAVE_DW 1
#pragma option HAVE_DB 1

#include "batch_norm_columns.clh"

/* --- forward --- */

/* x (rows,cols) -> mean, square (blocks,cols): mean of the block's rows, sum of squared distances from it.
 * Both come from the distances to the block's first row. The square of that row's distance to the mean is
 * one term of the sum of squares. So the terms that cancel are at most about as large as the result times
 * the number of rows in a block. */
KERNEL batch_norm_moments(OUT(mean), OUT(square), IN_OF(DT, x), ulong rows, ulong cols, ulong block_rows,
                          uint tile)
{
    COLUMNS;
    ROWS;
    float sum[MOST_COLUMNS], squares[MOST_COLUMNS];
    WHOLE_SUMS(all_sum, all_squares)
    float count = (float)(end - row);
    x += x0 + begin;
    ulong start = row * cols;
    mean += mean0 + block * cols + begin;
    square += square0 + block * cols + begin;
#define CLEAR(type, N, n)                                                                                    \
    KEEP##N(sum, (type)(0.0f));                                                                              \
    KEEP##N(squares, (type)(0.0f));                                                                          \
    CLEAR_WHOLE(type, N, all_sum)                                                                            \
    CLEAR_WHOLE(type, N, all_squares)
    STEPS(CLEAR, 1)
#define ADD(type, N, n)                                                                                      \
    type first = LOAD##N(DT, x, start + c), s = KEPT##N(sum), q = KEPT##N(squares);                          \
    UNROLL_FOR (uint k = 0; k < (n); k++) {                                                                  \
        type d = LOAD##N(DT, x, AT(k)) - first;                                                              \
        s += d;                                                                                              \
        q = fma(d, d, q);                                                                                    \
    }                                                                                                        \
    KEEP##N(sum, s);                                                                                         \
    KEEP##N(squares, q);
#define FOLD_MOMENTS(type, N, n)                                                                             \
    FOLD_INTO(type, N, all_sum, sum)                                                                         \
    FOLD_INTO(type, N, all_squares, squares)
    OVER_CHAINS(ADD, FOLD_MOMENTS)
#define STORE_MOMENTS(type, N, n)                                                                            \
    type s = WHOLE(N, all_sum, sum), off = s / count;                                                        \
    STORE##N(f32, mean, c, LOAD##N(DT, x, start + c) + off);                                                 \
    STORE##N(f32, square, c, WHOLE(N, all_squares, squares) - s * off);
    STEPS(STORE_MOMENTS, 1)
}

/* Moments of the rows of the blocks first to last - 1. A block has block_rows rows, the last block of the
 * matrix possibly fewer; COUNTED: it has counts[b] rows. middle: the mean, from the distances of means to
 * the first one, so that a mean far from 0 costs no digits; squares: the sum of squared distances from
 * it. */
#define ROWS_OF_BLOCK(b) ((float)min(block_rows, rows - (b)*block_rows))
#if COUNTED
#define COUNTS_ARG , IN(counts)
#define BLOCK_SIZE(b) counts[counts0 + (b)]
#define COUNT_ROWS(first, last)                                                                              \
    float count = 0.0f;                                                                                      \
    for (ulong b = (first); b < (last); b++)                                                                 \
    count += BLOCK_SIZE(b)
#else
#define COUNTS_ARG
#define BLOCK_SIZE(b) ROWS_OF_BLOCK(b)
#define COUNT_ROWS(first, last) float count = (float)(min(rows, (last)*block_rows) - (first)*block_rows)
#endif
#define COMBINE(type, N, first, last)                                                                        \
    type origin = LOAD##N(f32, part, (first)*cols + c), sum = (type)(0.0f), squares = (type)(0.0f);          \
    for (ulong b = (first); b < (last); b++)                                                                 \
        sum += BLOCK_SIZE(b) * (LOAD##N(f32, part, b * cols + c) - origin);                                  \
    type middle = origin + sum / count;                                                                      \
    for (ulong b = (first); b < (last); b++) {                                                               \
        type d = LOAD##N(f32, part, b * cols + c) - middle;                                                  \
        squares += LOAD##N(f32, square, b * cols + c) + BLOCK_SIZE(b) * d * d;                               \
    }

#if COUNTED
#define SUMS_OF_COUNTS , OUT(sum_count)
#else
#define SUMS_OF_COUNTS
#endif
/* part, square (blocks,cols) -> mean, sum_square (parts,cols): the moments of `span` blocks each; COUNTED:
 * counts (blocks) -> their sums (parts). */
KERNEL batch_norm_combine(OUT(mean), OUT(sum_square) SUMS_OF_COUNTS, IN(part), IN(square) COUNTS_ARG,
                          ulong rows, ulong cols, ulong block_rows, ulong blocks, ulong span, uint tile)
{
    COLUMNS;
    ulong at = BLOCK, from = at * span, to = min(blocks, from + span);
    COUNT_ROWS(from, to);
#if COUNTED
    if (begin == 0)
        sum_count[sum_count0 + at] = count;
#endif
    part += part0 + begin;
    square += square0 + begin;
    mean += mean0 + at * cols + begin;
    sum_square += sum_square0 + at * cols + begin;
#define COMBINE_PART(type, N, n)                                                                             \
    COMBINE(type, N, from, to)                                                                               \
    STORE##N(f32, mean, c, middle);                                                                          \
    STORE##N(f32, sum_square, c, squares);
    STEPS(COMBINE_PART, 1)
}

/* Combines the moments of the blocks into mean, var (biased) and rstd (cols) of the batch. */
KERNEL batch_norm_stats(OUT(mean), OUT(rstd), OUT(var), IN(part), IN(square) COUNTS_ARG, ulong rows,
                        ulong cols, ulong block_rows, ulong blocks, uint tile, float eps)
{
    COLUMNS;
    COUNT_ROWS(0, blocks);
    part += part0 + begin;
    square += square0 + begin;
    mean += mean0 + begin;
    rstd += rstd0 + begin;
    var += var0 + begin;
#define STATISTICS(type, N, n)                                                                               \
    COMBINE(type, N, 0, blocks)                                                                              \
    type spread = squares / count;                                                                           \
    STORE##N(f32, mean, c, middle);                                                                          \
    STORE##N(f32, var, c, spread);                                                                           \
    STORE##N(f32, rstd, c, (type)(1.0f) / sqrt(spread + eps));
    STEPS(STATISTICS, 1)
}

/* A record (2 * cols + 1): two numbers for each channel, then the number of rows. */
#define RECORD_WORDS (2 * cols + 1)
#define RECORD_AT(r) ((r)*RECORD_WORDS)
#define RECORD_ROWS(r) records[records0 + RECORD_AT(r) + 2 * cols]
#define RECORD_FIRST(N, r) LOAD##N(f32, records, records0 + begin + RECORD_AT(r) + c)
#define RECORD_SECOND(N, r) LOAD##N(f32, records, records0 + begin + RECORD_AT(r) + cols + c)

/* part, square (blocks,cols) -> record: mean of this rank's rows, sum of squared distances from it. */
KERNEL batch_norm_record(OUT(record), IN(part), IN(square) COUNTS_ARG, ulong rows, ulong cols,
                         ulong block_rows, ulong blocks, uint tile)
{
    COLUMNS;
    COUNT_ROWS(0, blocks);
    part += part0 + begin;
    square += square0 + begin;
    record += record0;
    if (begin == 0) {
        record[2 * cols] = (float)rows;
    }
    record += begin;
#define COMBINE_RECORD(type, N, n)                                                                           \
    COMBINE(type, N, 0, blocks)                                                                              \
    STORE##N(f32, record, c, middle);                                                                        \
    STORE##N(f32, record, cols + c, squares);
    STEPS(COMBINE_RECORD, 1)
}

/* records (ranks) -> mean and rstd (cols) of the rows of all ranks, and their unbiased variance. A record of
 * no rows holds zeros. */
KERNEL batch_norm_records_stats(OUT(mean), OUT(rstd), OUT(var), IN(records), ulong cols, uint ranks,
                                uint tile, float eps)
{
    COLUMNS;
    float count = 0.0f;
    mean += mean0 + begin;
    rstd += rstd0 + begin;
    var += var0 + begin;
    for (uint r = 0; r < ranks; r++)
        count += RECORD_ROWS(r);
#define STATISTICS_OF_RECORDS(type, N, n)                                                                    \
    type sum = (type)(0.0f), squares = (type)(0.0f);                                                         \
    for (uint r = 0; r < ranks; r++)                                                                         \
        sum += RECORD_ROWS(r) * RECORD_FIRST(N, r);                                                          \
    type middle = sum / count;                                                                               \
    for (uint r = 0; r < ranks; r++) {                                                                       \
        type d = RECORD_FIRST(N, r) - middle;                                                                \
        squares += RECORD_SECOND(N, r) + RECORD_ROWS(r) * d * d;                                             \
    }                                                                                                        \
    STORE##N(f32, mean, c, middle);                                                                          \
    STORE##N(f32, var, c, squares / fmax(count - 1.0f, 1.0f));                                               \
    STORE##N(f32, rstd, c, (type)(1.0f) / sqrt(squares / count + eps));
    STEPS(STATISTICS_OF_RECORDS, 1)
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
#define MOVE(type, N, n)                                                                                     \
    type m = LOAD##N(f32, running_mean, c), v = LOAD##N(f32, running_var, c);                                \
    type new_m = LOAD##N(f32, mean, c), new_v = LOAD##N(f32, var, c) * unbiased;                             \
    type zero = (new_m - new_m) + (new_v - new_v); /* NaN if either is not finite */                         \
    new_m = momentum * new_m + (1.0f - momentum) * m;                                                        \
    new_v = momentum * new_v + (1.0f - momentum) * v;                                                        \
    STORE##N(f32, running_mean, c, select(m, new_m, zero == (type)(0.0f)));                                  \
    STORE##N(f32, running_var, c, select(v, new_v, zero == (type)(0.0f)));
    STEPS(MOVE, 1)
}

/* Evaluation: mean and rstd (cols) come from the running statistics. */
KERNEL batch_norm_constants(OUT(mean), OUT(rstd), IN(running_mean), IN(running_var), ulong cols, uint tile,
                            float eps)
{
    COLUMNS;
    running_mean += running_mean0 + begin;
    running_var += running_var0 + begin;
    mean += mean0 + begin;
    rstd += rstd0 + begin;
#define TAKE(type, N, n)                                                                                     \
    STORE##N(f32, mean, c, LOAD##N(f32, running_mean, c));                                                   \
    STORE##N(f32, rstd, c, (type)(1.0f) / sqrt(LOAD##N(f32, running_var, c) + eps));
    STEPS(TAKE, 1)
}

#if AFFINE
#define WEIGHT_ARG , IN(w)
#define BIAS_ARG , IN(b)
#define WEIGHT(type, N) type factor = LOAD##N(f32, w, w0 + begin + c);
#define BIAS(type, N) type shift = LOAD##N(f32, b, b0 + begin + c);
#define SCALED(v) ((v)*factor)
#define SHIFTED(v) ((v) + shift)
#else
#define WEIGHT_ARG
#define BIAS_ARG
#define WEIGHT(type, N)
#define BIAS(type, N)
#define SCALED(v) (v)
#define SHIFTED(v) (v)
#endif
#define STATS_OF(type, N) type centre = LOAD##N(f32, mean, c), scale = LOAD##N(f32, rstd, c);
#define NORMALISED(N, at) ((LOAD##N(DT, x, at) - centre) * scale)

#if RESIDUAL
#define RESIDUAL_ARG , IN_OF(DT, residual)
#define WITH_RESIDUAL(N, v, at) ((v) + LOAD##N(DT, residual, residual0 + begin + (at)))
#else
#define RESIDUAL_ARG
#define WITH_RESIDUAL(N, v, at) (v)
#endif
#if RELU
#define ACTIVATED(type, v) select(v, (type)(0.0f), (v) < (type)(0.0f)) /* NaN stays NaN */
#else
#define ACTIVATED(type, v) (v)
#endif

/* x (rows,cols), mean, rstd, w, b (cols), residual (rows,cols) -> y (rows,cols). */
KERNEL batch_norm_fwd(OUT_OF(DT, y), IN_OF(DT, x) RESIDUAL_ARG, IN(mean), IN(rstd) WEIGHT_ARG BIAS_ARG,
                      ulong rows, ulong cols, ulong block_rows, uint tile)
{
    COLUMNS;
    ROWS;
    x += x0 + begin;
    y += y0 + begin;
    mean += mean0 + stats_at;
    rstd += rstd0 + stats_at;
#define NORMALISE(type, N, n)                                                                                \
    STATS_OF(type, N)                                                                                        \
    WEIGHT(type, N)                                                                                          \
    BIAS(type, N)                                                                                            \
    UNROLL_FOR (uint k = 0; k < (n); k++) {                                                                  \
        type v = WITH_RESIDUAL(N, SHIFTED(SCALED(NORMALISED(N, AT(k)))), AT(k));                             \
        PUT##N(DT, y, AT(k), ACTIVATED(type, v));                                                            \
    }
    OVER_ROWS(NORMALISE)
}

/* --- backward --- */

/* The gradient before the activation: dy where relu let its input pass, else 0. Whether it did is recomputed
 * from x, with the arithmetic of forward, or follows from the sign of y. */
#if MASK == MASK_BY_X
#define MASK_ARG
#define SHIFT_ARG WEIGHT_ARG BIAS_ARG
#define MASK_OF(type, N)                                                                                     \
    WEIGHT(type, N)                                                                                          \
    BIAS(type, N)
#define PASSED(N, at) SHIFTED(SCALED(NORMALISED(N, at)))
#elif MASK == MASK_BY_Y
#define MASK_ARG , IN_OF(DT, y)
#define SHIFT_ARG
#define MASK_OF(type, N)
#define PASSED(N, at) LOAD##N(DT, y, y0 + begin + (at))
#else
#define MASK_ARG
#define SHIFT_ARG
#define MASK_OF(type, N)
#endif
#if MASK == MASK_NONE
#define ARRIVES(type, N, at) LOAD##N(DYT, dy, at)
#else
#define ARRIVES(type, N, at)                                                                                 \
    (LOAD##N(DYT, dy, at) * select((type)(0.0f), (type)(1.0f), PASSED(N, at) > (type)(0.0f)))
#endif
#if SUMS
#define SUMS_ARG OUT(sum), OUT(product),
#define SUMS_DO(statements) statements
#else
#define SUMS_ARG
#define SUMS_DO(statements)
#endif
#if HAVE_DR
#define DR_ARG GRAD_OF(RT, dr),
#define STORE_DR(N, at, v) STORE##N##_GRAD(RT, dr, dr0 + begin + (at), v, dr_accumulate);
#else
#define DR_ARG
#define STORE_DR(N, at, v)
#endif

/* With g, the gradient before the activation: sum, product (blocks,cols): sums of g, and of g times the
 * normalised x, over the block's rows; dr (rows,cols) (+)= g. */
KERNEL batch_norm_bwd_sums(SUMS_ARG DR_ARG IN_OF(DYT, dy) MASK_ARG, IN_OF(DT, x), IN(mean),
                           IN(rstd) SHIFT_ARG, ulong rows, ulong cols, ulong block_rows, uint tile)
{
    COLUMNS;
    ROWS;
    SUMS_DO(float sums[MOST_COLUMNS]; float products[MOST_COLUMNS];)
    SUMS_DO(WHOLE_SUMS(all_sums, all_products))
    dy += dy0 + begin;
    x += x0 + begin;
    mean += mean0 + stats_at;
    rstd += rstd0 + stats_at;
#if SUMS
    sum += sum0 + block * cols + begin;
    product += product0 + block * cols + begin;
#define CLEAR_BOTH(type, N, n)                                                                               \
    KEEP##N(sums, (type)(0.0f));                                                                             \
    KEEP##N(products, (type)(0.0f));                                                                         \
    CLEAR_WHOLE(type, N, all_sums)                                                                           \
    CLEAR_WHOLE(type, N, all_products)
    STEPS(CLEAR_BOTH, 1)
#endif
#define ADD_BOTH(type, N, n)                                                                                 \
    STATS_OF(type, N)                                                                                        \
    MASK_OF(type, N)                                                                                         \
    SUMS_DO(type s = KEPT##N(sums); type p = KEPT##N(products);)                                             \
    UNROLL_FOR (uint k = 0; k < (n); k++) {                                                                  \
        type g = ARRIVES(type, N, AT(k));                                                                    \
        STORE_DR(N, AT(k), g)                                                                                \
        SUMS_DO(s += g; p = fma(g, NORMALISED(N, AT(k)), p);)                                                \
    }                                                                                                        \
    SUMS_DO(KEEP##N(sums, s); KEEP##N(products, p);)
#if SUMS
#define FOLD_BOTH(type, N, n)                                                                                \
    FOLD_INTO(type, N, all_sums, sums)                                                                       \
    FOLD_INTO(type, N, all_products, products)
    OVER_CHAINS(ADD_BOTH, FOLD_BOTH)
#define STORE_BOTH(type, N, n)                                                                               \
    STORE##N(f32, sum, c, WHOLE(N, all_sums, sums));                                                         \
    STORE##N(f32, product, c, WHOLE(N, all_products, products));
    STEPS(STORE_BOTH, 1)
#else
    OVER_ROWS(ADD_BOTH)
#endif
}

/* Declares s and p: part_sum and part_product, added over blocks first to last - 1. */
#define TOTAL(type, N, first, last)                                                                          \
    type s = (type)(0.0f), p = (type)(0.0f);                                                                 \
    for (ulong b = (first); b < (last); b++) {                                                               \
        s += LOAD##N(f32, part_sum, b * cols + c);                                                           \
        p += LOAD##N(f32, part_product, b * cols + c);                                                       \
    }

/* part_sum, part_product (blocks,cols) -> sum, product (parts,cols) of `span` blocks each. */
KERNEL batch_norm_bwd_part(OUT(sum), OUT(product), IN(part_sum), IN(part_product), ulong blocks, ulong cols,
                           ulong span, uint tile)
{
    COLUMNS;
    ulong at = BLOCK, from = at * span, to = min(blocks, from + span);
    part_sum += part_sum0 + begin;
    part_product += part_product0 + begin;
    sum += sum0 + at * cols + begin;
    product += product0 + at * cols + begin;
#define TOTAL_PART(type, N, n)                                                                               \
    TOTAL(type, N, from, to)                                                                                 \
    STORE##N(f32, sum, c, s);                                                                                \
    STORE##N(f32, product, c, p);
    STEPS(TOTAL_PART, 1)
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

#if RECORD
#define ROWS_ARG , ulong rows
#else
#define ROWS_ARG
#endif

/* Adds up the sums of the blocks; the totals (cols) are also the gradients of b and w. With RECORD they
 * begin a record, and its last number, the number of rows, follows them. */
KERNEL batch_norm_bwd_total(OUT(sum), OUT(product), DW_ARG DB_ARG IN(part_sum), IN(part_product),
                            ulong blocks, ulong cols, uint tile ROWS_ARG)
{
    COLUMNS;
#if RECORD
    if (begin == 0) {
        product[product0 + cols] = (float)rows;
    }
#endif
    part_sum += part_sum0 + begin;
    part_product += part_product0 + begin;
    sum += sum0 + begin;
    product += product0 + begin;
#define TOTAL_ALL(type, N, n)                                                                                \
    TOTAL(type, N, 0, blocks)                                                                                \
    STORE##N(f32, sum, c, s);                                                                                \
    STORE##N(f32, product, c, p);                                                                            \
    STORE_DW(N, p)                                                                                           \
    STORE_DB(N, s)
    STEPS(TOTAL_ALL, 1)
}

/* records (ranks) of such totals -> sum, product (cols): the means over the rows of all ranks. */
KERNEL batch_norm_records_sums(OUT(sum), OUT(product), IN(records), ulong cols, uint ranks, uint tile)
{
    COLUMNS;
    float count = 0.0f;
    sum += sum0 + begin;
    product += product0 + begin;
    for (uint r = 0; r < ranks; r++)
        count += RECORD_ROWS(r);
#define MEANS_OF_RECORDS(type, N, n)                                                                         \
    type s = (type)(0.0f), p = (type)(0.0f);                                                                 \
    for (uint r = 0; r < ranks; r++) {                                                                       \
        s += RECORD_FIRST(N, r);                                                                             \
        p += RECORD_SECOND(N, r);                                                                            \
    }                                                                                                        \
    STORE##N(f32, sum, c, s / count);                                                                        \
    STORE##N(f32, product, c, p / count);
    STEPS(MEANS_OF_RECORDS, 1)
}

#define NEEDS_X (BATCH || MASK == MASK_BY_X)
#if NEEDS_X
#define X_ARG , IN_OF(DT, x), IN(mean), IN(rstd)
#else
#define X_ARG , IN(rstd)
#endif
#if BATCH
#define TOTALS_ARG , IN(sum), IN(product)
#define TOTALS_OF(type, N)                                                                                   \
    type all = LOAD##N(f32, sum, sum0 + stats_at + c), along = LOAD##N(f32, product, product0 + stats_at + c);
#define CENTRED(N, g, at) ((g)-share * (all + NORMALISED(N, at) * along))
#else
#define TOTALS_ARG
#define TOTALS_OF(type, N)
#define CENTRED(N, g, at) (g)
#endif
#if MASK == MASK_BY_X
#define WEIGHTS_ARG WEIGHT_ARG BIAS_ARG
#define WEIGHTS_OF(type, N) MASK_OF(type, N)
#else
#define WEIGHTS_ARG WEIGHT_ARG
#define WEIGHTS_OF(type, N) WEIGHT(type, N)
#endif

#if GROUPED
#define DX(N, g, at) (CENTRED(N, SCALED(g), at) * scale)
#else
#define DX(N, g, at) SCALED(CENTRED(N, g, at) * scale)
#endif

/* dx (rows,cols) (+)= rstd * w * (g - (sum + normalised x * product) * share); share: 1 / rows, or 1 where
 * sum and product are means; g: as above. */
KERNEL batch_norm_bwd(GRAD_OF(GT, dx), IN_OF(DYT, dy) MASK_ARG X_ARG TOTALS_ARG WEIGHTS_ARG, ulong rows,
                      ulong cols, ulong block_rows, uint tile, float share)
{
    COLUMNS;
    ROWS;
    dx += dx0 + begin;
    dy += dy0 + begin;
    rstd += rstd0 + stats_at;
#if NEEDS_X
    x += x0 + begin;
    mean += mean0 + stats_at;
#define CENTRE_OF(type, N) type centre = LOAD##N(f32, mean, c);
#else
#define CENTRE_OF(type, N)
#endif
#define GRADIENT(type, N, n)                                                                                 \
    CENTRE_OF(type, N)                                                                                       \
    type scale = LOAD##N(f32, rstd, c);                                                                      \
    TOTALS_OF(type, N)                                                                                       \
    WEIGHTS_OF(type, N)                                                                                      \
    UNROLL_FOR (uint k = 0; k < (n); k++) {                                                                  \
        type g = ARRIVES(type, N, AT(k));                                                                    \
        PUT##N##_GRAD(GT, dx, AT(k), DX(N, g, AT(k)), dx_accumulate);                                        \
    }
    OVER_ROWS(GRADIENT)
}

#include "batch_norm_groups.clh"
