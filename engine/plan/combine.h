/* SPDX-License-Identifier: Apache-2.0
 *
 * The two commands of combine.cl, which add what the micro-batches of a step compute as a binary tree.
 * emit_combine.c emits them for a plan; the checker runs them on arrays of its own. */
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
/* The first micro-batch copies `value` to `start`, every other one copies `start` to `value`. */
void clt_tree_emit_start(ocl_emitter *e, const clt_tree_sums *sums, ocl_tensor_ref start, clt_style style);

#endif
