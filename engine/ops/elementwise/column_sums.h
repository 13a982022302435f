/* SPDX-License-Identifier: Apache-2.0
 *
 * Deterministic sums down the columns of a matrix (colsum.cl): gradients of biases, norms and broadcast
 * inputs. The division of rows into blocks, and so the result, depends only on the matrix's size, never on
 * the device. */
#ifndef ENGINE_OPS_ELEMENTWISE_COLUMN_SUMS_H
#define ENGINE_OPS_ELEMENTWISE_COLUMN_SUMS_H

#include "engine/ops/elementwise/elementwise.h"

/* The sums; a tensor id of -1: the tensor is absent, or the sum is not wanted.
 *   x absent:             q = sum over rows of dy
 *   x, no stats:          p = sum of dy * x,                     q = sum of dy
 *   x and rstd:           p = sum of dy * x * rstd,              q = sum of dy
 *   x and mean, rstd:     p = sum of dy * (x - mean) * rstd,     q = sum of dy */
typedef struct clt_column_sums {
    int32_t dy, x, mean, rstd;
    int32_t p, q;
    bool p_accumulate, q_accumulate;
    int64_t rows, cols;
} clt_column_sums;

/* `count` blocks of `rows` rows each (the last may have fewer). */
typedef struct clt_column_blocks {
    uint64_t count, rows;
} clt_column_blocks;
clt_column_blocks clt_column_blocks_of(int64_t rows, int64_t cols);
/* Defines CHAINS=1 for a kernel whose blocks have more than SUM_STEPS rows: it adds their sums in chains.
 * Other kernels are built without that code, which would cost registers. */
void clt_define_chains(ocl_emitter *e, const clt_column_blocks *blocks);
/* Number of columns of an item in lane style; smaller if there would be too few items for the device.
 * Results do not depend on it. */
uint64_t clt_column_tile(const ocl_device_desc *device, uint64_t cols, uint64_t blocks);

/* Emits all stages. Workspace in bytes for each of p and q: 4*cols*blocks plus 1/180 of that. There are at
 * most 256 blocks; for more than 65536 rows there are rows/256, at most 32768. A single block needs no
 * workspace. */
void clt_emit_column_sums(ocl_emitter *e, const clt_call *call, const clt_column_sums *sums, clt_style style);
/* Emits the sums of one matrix: out (cols) (+)= sum over rows of dy (rows,cols). */
void clt_emit_column_sum(ocl_emitter *e, const clt_call *call, int32_t out, bool accumulate, int32_t dy,
                         int64_t rows, int64_t cols, clt_style style);
/* Emits the stages after the first: p (cols) (+)= sum over blocks of part_p (blocks,cols) f32; q from
 * part_q. */
void clt_emit_column_blocks(ocl_emitter *e, const clt_call *call, const clt_column_sums *sums, int32_t part_p,
                            int32_t part_q, uint64_t blocks, clt_style style);

#endif
