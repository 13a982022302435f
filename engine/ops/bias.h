/* SPDX-License-Identifier: Apache-2.0
 *
 * Adding a vector to every row, and its gradient, for the ops that have a bias (bias, linear). */
#ifndef ENGINE_OPS_BIAS_H
#define ENGINE_OPS_BIAS_H

#include "engine/ops/op.h"

/* y (rows,cols) = x (rows,cols) + b (cols); y may be x. Picks the variant for the device. */
void clt_emit_bias(ocl_emitter *e, const clt_call *call, int32_t y, int32_t x, int32_t b, int64_t rows,
                   int64_t cols);
/* db (cols) (+)= column sums of dy (rows,cols), in a fixed order. Workspace: slabs*cols*4 bytes, slabs <=
 * 256. */
void clt_emit_bias_grad(ocl_emitter *e, const clt_call *call, int32_t db, bool accumulate, int32_t dy,
                        int64_t rows, int64_t cols);

#endif
