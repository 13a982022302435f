/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies a window of one dimension between two tensors, which are treated as `outer` rows of `run` elements,
 * for slice and concat. */
#ifndef ENGINE_OPS_SHAPE_WINDOW_H
#define ENGINE_OPS_SHAPE_WINDOW_H

#include "engine/ops/op.h"

/* A window of `outer` rows of `run` elements. In y it begins at element y_start of each row of y_stride
 * elements, in x at element x_start of each row of x_stride elements. */
typedef struct clt_window {
    int64_t outer, run, y_stride, y_start, x_stride, x_start;
} clt_window;

/* Copies the window of x to the window of y. grad: x and y are gradients, and `accumulate` adds instead.
 * by_row: uses the kernel for CPUs. */
void clt_emit_window(ocl_emitter *e, int32_t y, int32_t x, clt_dtype dtype, const clt_window *w, bool grad,
                     bool accumulate, bool by_row);
/* Emits y = x inside the window and zero outside; x holds only the window. */
void clt_emit_window_pad(ocl_emitter *e, int32_t y, int32_t x, clt_dtype dtype, const clt_window *w,
                         bool by_row);
/* Product of the dimensions after (inner) and before (outer) `axis`. */
int64_t clt_window_inner(const clt_shape *shape, int axis);
int64_t clt_window_outer(const clt_shape *shape, int axis);

#endif
