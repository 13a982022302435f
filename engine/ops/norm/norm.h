/* SPDX-License-Identifier: Apache-2.0
 *
 * Emission of the kernels of layernorm.cl, shared by the ops that normalise rows, layernorm and rmsnorm.
 * They differ in the node: its parameters are none, a factor, or a factor and a shift for each column; it
 * saves mean and rstd of each row where the mean is subtracted (layernorm), or rstd alone (rmsnorm). */
#ifndef ENGINE_OPS_NORM_NORM_H
#define ENGINE_OPS_NORM_NORM_H

#include "engine/ops/op_problem.h"

/* Variants: one group for each row, one item for each row, one group for each block of rows. Workspace of
 * the gradients of the factor and the shift: 4*C*blocks bytes each, blocks <= 32768 (column_sums.h). */
extern const ocl_variant *const clt_norm_forward[];
extern const ocl_variant *const clt_norm_backward[];
const char *clt_norm_forward_standard(const void *problem, const ocl_device_desc *device);
const char *clt_norm_backward_standard(const void *problem, const ocl_device_desc *device);

#define CLT_NORM_FORWARD(op)                                                                                 \
    CLT_ROWS_FAMILY(op, "layernorm", "CLTRAIN_NORM", fwd, "forward", clt_norm_forward,                       \
                    .standard = clt_norm_forward_standard)
#define CLT_NORM_BACKWARD(op)                                                                                \
    CLT_ROWS_FAMILY(op, "layernorm", "CLTRAIN_NORM", bwd, "backward", clt_norm_backward,                     \
                    .standard = clt_norm_backward_standard)

/* The attribute eps, which both ops have. */
#define CLT_NORM_EPS CLT_SPEC_FLOAT("eps", 1e-5, 1e-12, 1, "added under the root, in the square of x's unit")

/* Checks that the input has a floating type and a dimension after the batch, and declares the output. *row:
 * the shape of parameters with one element per column; *stats: of statistics with one element per row. */
clt_status clt_norm_infer(clt_infer *ctx, clt_shape *row, clt_shape *stats);

#endif
