/* SPDX-License-Identifier: Apache-2.0
 *
 * Emission of a bias (a vector added to every row) and its gradient, for the ops bias, linear and
 * positional. */
#ifndef ENGINE_OPS_ELEMENTWISE_BIAS_H
#define ENGINE_OPS_ELEMENTWISE_BIAS_H

#include "engine/ops/elementwise/elementwise.h"

/* Emits y (rows,cols) = x (rows,cols) + b (cols); y may be x. */
void clt_emit_bias(ocl_emitter *e, const clt_call *call, int32_t y, int32_t x, int32_t b, int64_t rows,
                   int64_t cols, clt_style style);
/* Emits db (cols) (+)= column sums of dy (rows,cols), in a fixed order and in the device's style: see
 * column_sums.h. */
void clt_emit_bias_grad(ocl_emitter *e, const clt_call *call, int32_t db, bool accumulate, int32_t dy,
                        int64_t rows, int64_t cols);
/* Returns `sums` for ocl_gemm.line_sums, so that the product dW = dy^T x may also compute db; NULL if db is
 * not wanted (sums->out < 0) or is not f32. */
ocl_line_sums *clt_bias_sums(const clt_call *call, ocl_line_sums *sums);

#endif
