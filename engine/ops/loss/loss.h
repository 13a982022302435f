/* SPDX-License-Identifier: Apache-2.0
 *
 * Loss records. Every loss of a graph has a record of four floats in the `losses` tensor:
 *   [0] sum over counted targets of loss * weight / normaliser (what training minimises)
 *   [1] sum over counted targets of loss (not weighted, not normalised)
 *   [2] number of counted targets
 *   [3] predictions that are correct (the largest logit is the target's, or sign for BCE; 0 where the word has no meaning)
 * Forward kernels write per-row values; one deterministic reduction adds them up: micro-batch 0 writes the
 * record, later ones add. The normaliser's inverse comes from the step block (SB_NORM + loss index). The
 * gradient is d[0] times the loss scale. */
#ifndef ENGINE_OPS_LOSS_H
#define ENGINE_OPS_LOSS_H

#include "engine/ops/op.h"

#define CLT_LOSS_RECORD 4

/* Emits the reduction of per-row loss and correct values: rows (R, 3) f32 = {loss, counted 0/1 (or count), correct
 * 0/1}. */
void clt_emit_loss_record(ocl_emitter *e, const clt_call *call, int32_t rows_tensor, int64_t rows);

/* The attribute for weights of classes. */
#define CLT_CLASS_WEIGHTS "class_weights"
/* Makes its list, if the node has one, the node's constant; CLT_ESHAPE unless it has a number for each class and one
 * that is not 0. */
clt_status clt_infer_class_weights(clt_infer *ctx, int64_t classes);

#endif
