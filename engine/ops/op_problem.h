/* SPDX-License-Identifier: Apache-2.0
 *
 * One call of an op as it can be built again without its plan: what the families of ops hand to the tuner
 * (ocl_family.describe). */
#ifndef ENGINE_OPS_OP_PROBLEM_H
#define ENGINE_OPS_OP_PROBLEM_H

#include "engine/ops/op.h"

#define CLT_OP_PROBLEM_ATTRS 1024

typedef struct clt_op_problem {
    const clt_op *op;
    bool backward;
    bool narrow;     /* gradients have the types of their tensors, as in half-precision runs; else f32 */
    uint32_t wanted; /* backward: inputs whose gradient is wanted, bit i = input i */
    int n_in;
    clt_case_input in[CLT_MAX_IN]; /* integers: below 2, until the op says more */
    char attrs[CLT_OP_PROBLEM_ATTRS];
} clt_op_problem;

clt_status clt_op_describe(const clt_call *call, bool backward, clt_op_problem *out);

#endif
