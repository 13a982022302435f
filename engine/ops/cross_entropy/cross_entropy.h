/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts that the losses cross_entropy and linear_cross_entropy share: attributes, checks of the target,
 * and the kernels over some rows of a micro-batch. Implemented in op_cross_entropy.c. */
#ifndef ENGINE_OPS_CROSS_ENTROPY_CROSS_ENTROPY_H
#define ENGINE_OPS_CROSS_ENTROPY_CROSS_ENTROPY_H

#include "engine/ops/op.h"

#define CLT_CROSS_ENTROPY_ATTRS                                                                              \
    CLT_SPEC_OPEN(INT, "ignore_index", -INT32_MAX, INT32_MAX,                                                \
                  "targets of this value do not count; not set: all count"),                                 \
        CLT_SPEC_FLOAT("label_smoothing", 0, 0, 0.999999, "probability spread evenly over the classes"),     \
        CLT_SPEC_FLOAT("weight", 1, 0, 1e6, "factor of this loss"),                                          \
        CLT_SPEC_INT("classes", 0, 0, INT32_MAX,                                                             \
                     "logits that are classes, the rest of a row being padding; 0: all"),                    \
        CLT_SPEC_OPEN(INT, "axis", -1, CLT_MAX_DIMS - 1,                                                     \
                      "dimension of the classes: 1, or -1 for the last; not set: found from the targets' "   \
                      "shape; -1 if both fit")

/* A range of rows of a micro-batch's logits. */
typedef struct clt_cross_entropy {
    const clt_call *call;  /* call of a node that has the attributes above */
    int32_t logits;        /* its first element is the first logit of row `first` */
    int32_t target;        /* targets of the whole micro-batch */
    int32_t second, share; /* of mixed targets: second targets, shares of the first ones; -1: none */
    int32_t out;           /* (R,3) f32 for the whole micro-batch: {loss, counted, correct} */
    int32_t stats;         /* (rows,2) f32 {max, sum exp(x - max)} of these rows */
    uint64_t first, rows;  /* the range of rows */
    uint64_t cols, stride; /* a row has `stride` logits; the first `cols` are classes */
    int64_t per_sample;    /* rows of a sample */
    int32_t weights;       /* (cols) f32 of the classes; -1: none */
    float mean_weight;
    clt_dtype dtype, target_dtype;
} clt_cross_entropy;

/* The shape of logits as they lie in memory, with the classes as the last dimension. The node must have been
 * inferred, which sets its attribute axis to 1 or -1. */
clt_shape clt_cross_entropy_shape(const clt_node *node, const clt_shape *logits);
/* Checks the targets for logits of the shape `logits` and declares the loss; input 1 holds the targets.
 * Inputs 2 and 3, if there are any, are the second targets and the share of the first target. */
clt_status clt_cross_entropy_infer(clt_infer *ctx, const clt_shape *logits);
/* Describes all rows of a micro-batch's logits, which have the shape `logits` (classes last) and the type
 * `dtype`. Logits and targets are the call's inputs 0 and 1. */
clt_cross_entropy clt_cross_entropy_make(const clt_call *call, const clt_shape *logits, clt_dtype dtype);
/* Emits forward: out and stats from logits. */
void clt_emit_cross_entropy(ocl_emitter *e, const clt_cross_entropy *rows, bool group);
/* Emits forward and backward together: out from logits, which are then overwritten by their gradient. */
void clt_emit_cross_entropy_in_place(ocl_emitter *e, const clt_cross_entropy *rows, bool group);

#endif
