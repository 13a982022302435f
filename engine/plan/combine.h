/* SPDX-License-Identifier: Apache-2.0
 *
 * The two commands of combine.cl, which add up the results of a step's micro-batches as a binary tree.
 * emit_combine.c emits them for a plan; the checker runs them on its own arrays. */
#ifndef ENGINE_PLAN_COMBINE_H
#define ENGINE_PLAN_COMBINE_H

#include "engine/ops/elementwise/elementwise.h"

/* Arrays of `elements` numbers of type f32, and the step block, whose word SB_MICRO is the number of the
 * micro-batch. */
typedef struct clt_tree_sums {
    ocl_tensor_ref value, step;
    const ocl_tensor_ref *level; /* `levels` arrays: level n holds the sum of 2^n micro-batches */
    int32_t levels;
    uint64_t elements;
} clt_tree_sums;

/* Adds `value` to the sums that wait on the levels. After the last micro-batch `value` is `factor` times the
 * sum of all. */
void clt_tree_emit_sums(ocl_emitter *e, const clt_tree_sums *sums, float factor, clt_style style);
/* Emits the start of a micro-batch: the first one copies `value` to `start`, the others copy `start` to
 * `value`. */
void clt_tree_emit_start(ocl_emitter *e, const clt_tree_sums *sums, ocl_tensor_ref start, clt_style style);

#endif
