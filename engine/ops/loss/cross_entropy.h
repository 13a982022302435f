/* SPDX-License-Identifier: Apache-2.0
 *
 * What the losses cross_entropy and linear_cross_entropy share: attributes, checks of the target, and the
 * kernels over some rows of a micro-batch. Implemented in op_cross_entropy.c. */
#ifndef ENGINE_OPS_CROSS_ENTROPY_H
#define ENGINE_OPS_CROSS_ENTROPY_H

#include "engine/ops/op.h"

#define CLT_CROSS_ENTROPY_ATTRS                                                                              \
    {.name = "ignore_index",                                                                                 \
     .type = CLT_ATTR_INT,                                                                                   \
     .min = -INT32_MAX,                                                                                      \
     .max = INT32_MAX,                                                                                       \
     .help = "targets of this value do not count; left out: all count",                                      \
     .no_default = true},                                                                                    \
        CLT_SPEC_FLOAT("label_smoothing", 0, 0, 0.999999, "probability spread evenly over the classes"),     \
        CLT_SPEC_FLOAT("weight", 1, 0, 1e6, "factor of this loss"),                                          \
        CLT_SPEC_INT("classes", 0, 0, INT32_MAX,                                                             \
                     "logits that are classes, the rest of a row being padding; 0: all")

/* Some rows of logits of a micro-batch. */
typedef struct clt_cross_entropy {
    const clt_call *call;  /* of a node with the attributes above */
    int32_t logits;        /* its element 0 is the first logit of row `first` */
    int32_t target;        /* of the whole micro-batch */
    int32_t out;           /* (R,3) f32 of the whole micro-batch: {loss, counted, correct} */
    int32_t stats;         /* (rows,2) f32 {max, sum exp(x - max)} of these rows */
    uint64_t first, rows;  /* these rows */
    uint64_t cols, stride; /* cols of the stride logits of a row are classes */
    int64_t per_sample;    /* rows of a sample */
    clt_dtype dtype, target_dtype;
} clt_cross_entropy;

/* Checks targets of logits of that shape and declares the loss; input 1 holds the targets. */
clt_status clt_cross_entropy_infer(clt_infer *ctx, const clt_shape *logits);
/* All rows of logits of that shape and type; tensors of it are the call's inputs 0 and 1. */
clt_cross_entropy clt_cross_entropy_make(const clt_call *call, const clt_shape *logits, clt_dtype dtype);
/* out and stats from logits. */
void clt_emit_cross_entropy(ocl_emitter *e, const clt_cross_entropy *rows, bool group);
/* out from logits, and the gradient in their place. */
void clt_emit_cross_entropy_in_place(ocl_emitter *e, const clt_cross_entropy *rows, bool group);

#endif
