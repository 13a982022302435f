/* SPDX-License-Identifier: Apache-2.0
 *
 * The declarations that an op can make while its shapes are inferred: outputs, views, parameters, saved
 * tensors, losses. */
#ifndef ENGINE_OPS_INFER_H
#define ENGINE_OPS_INFER_H

#include "engine/graph/graph.h"

typedef struct clt_infer {
    clt_graph *graph;
    clt_node *node;
} clt_infer;
const clt_tensor *clt_infer_in(const clt_infer *ctx, int index);
clt_status clt_infer_out(clt_infer *ctx, clt_dtype dtype, const clt_shape *shape);
/* Declares an output that shares the bytes of input `input`. */
clt_status clt_infer_view(clt_infer *ctx, int input, const clt_shape *shape);
/* Declares the parameter "<node>.<suffix>", or uses the parameter of the node it shares with, if the shapes
 * are equal. */
clt_status clt_infer_param(clt_infer *ctx, const char *suffix, const clt_shape *shape, clt_init init);
/* Declares the buffer "<node>.<suffix>", f32 (see clt_param). The node's forward work writes it if
 * clt_call.update_buffers is set. averaged: after each step the buffer becomes its mean over the ranks. */
clt_status clt_infer_buffer(clt_infer *ctx, const char *suffix, const clt_shape *shape, clt_init init,
                            bool averaged);
clt_status clt_infer_saved(clt_infer *ctx, const char *suffix, clt_dtype dtype, const clt_shape *shape);
/* Gives the node its constant (clt_call.constant) of n f32 numbers; a node has at most one. */
clt_status clt_infer_constant(clt_infer *ctx, const char *suffix, const double *values, int64_t n);
/* Makes the node a loss. Input `target_input` must be a batch field, whose targets the normaliser counts. */
clt_status clt_infer_loss(clt_infer *ctx, double weight, int target_input, bool has_ignore,
                          int64_t ignore_index, int64_t targets_per_sample);
/* Makes the last declared output persistent: it keeps its content between runs. */
void clt_infer_persist(clt_infer *ctx);
/* Declares that input `input`, if it is a batch field or a view of one, holds indices below `bound`. */
void clt_infer_bound(clt_infer *ctx, int input, int64_t bound, bool has_ignore, int64_t ignore);
/* Fails with CLT_ESHAPE and the message "layer 'fc1' (linear): <message>". */
clt_status clt_infer_fail(const clt_infer *ctx, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
