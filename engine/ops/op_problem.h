/* SPDX-License-Identifier: Apache-2.0
 *
 * A description of one call of an op, from which the call can be built again without its plan: families of
 * ops pass it to the tuner (ocl_family.describe). */
#ifndef ENGINE_OPS_OP_PROBLEM_H
#define ENGINE_OPS_OP_PROBLEM_H

#include "engine/ops/op.h"

#define CLT_OP_PROBLEM_ATTRS 1024

typedef struct clt_op_problem {
    const clt_op *op;
    bool backward;
    bool narrow;     /* gradients have the types of their tensors, as in half-precision runs; else f32 */
    bool tf32;       /* products of f32 may round their operands to 10 bits of mantissa */
    uint32_t wanted; /* backward: inputs whose gradient is wanted, bit i = input i */
    bool no_params;  /* backward: no gradients of parameters are wanted */
    int n_in;
    /* values of integer inputs are below 2, unless the op declares another bound */
    clt_case_input in[CLT_MAX_IN];
    char attrs[CLT_OP_PROBLEM_ATTRS];
} clt_op_problem;

/* ocl_family.describe for forward and backward; the data is a clt_op_problem. */
clt_status clt_op_fwd_describe(const void *call, void **data, size_t *size);
clt_status clt_op_bwd_describe(const void *call, void **data, size_t *size);

/* ocl_family.problem of ops that work on the rows of their first input: rows, columns, types, parameters
 * and, for backward, the wanted gradients. */
const char *clt_rows_fwd_problem(const void *call, char *buffer, size_t size);
const char *clt_rows_bwd_problem(const void *call, char *buffer, size_t size);
/* ocl_family.flops of such ops, in either direction: eight for each element of the input. */
double clt_rows_flops(const void *call);

/* Initializer of a family for one direction of such an op: CLT_ROWS_FAMILY("softmax", "softmax",
 * "CLTRAIN_SOFTMAX", fwd, "forward", list), or bwd and "backward"; more members may follow. */
#define CLT_ROWS_FAMILY(op, files, environment, way, direction, ...)                                         \
    {                                                                                                        \
        .variants = __VA_ARGS__, .name = op "." direction, .sources = files, .variable = environment,        \
        .problem = clt_rows_##way##_problem, .flops = clt_rows_flops, .describe = clt_op_##way##_describe    \
    }

#endif
