/* SPDX-License-Identifier: Apache-2.0
 *
 * Loss records: every loss of a graph has a record of four floats in the `losses` tensor:
 *   [0] sum over counted targets of loss * weight / normaliser (what training minimises)
 *   [1] sum over counted targets of loss (not weighted, not normalised)
 *   [2] number of counted targets
 *   [3] correct predictions (the target's logit is the largest; BCE: the sign is right; others: 0)
 * Forward kernels write per-row values; one deterministic reduction adds them up: micro-batch 0 writes the
 * record, later ones add. The normaliser's inverse comes from the step block (SB_NORM + loss index). The
 * gradient is d[0] times the loss scale. */
#ifndef ENGINE_OPS_LOSS_LOSS_H
#define ENGINE_OPS_LOSS_LOSS_H

#include "engine/ops/op.h"

#define CLT_LOSS_RECORD 4

/* Emits the reduction of rows (R,3) f32 = {loss, counted (0, 1 or a count), correct (0 or 1)} to the loss
 * record. */
void clt_emit_loss_record(ocl_emitter *e, const clt_call *call, int32_t rows_tensor, int64_t rows);

/* The attribute for weights of classes. */
#define CLT_CLASS_WEIGHTS "class_weights"
/* Makes the node's list of class weights, if it has one, the node's constant. CLT_ESHAPE unless it has one
 * number for each class and a number that is not 0. */
clt_status clt_infer_class_weights(clt_infer *ctx, int64_t classes);

#endif
