/* SPDX-License-Identifier: Apache-2.0
 *
 * Emission of window copies. Knows element counts and strides, no op. */
#include "engine/ops/shape/window.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/emit_util.h"
#include "engine/ops/shape/shape_shared.clh"

int64_t clt_window_inner(const clt_shape *shape, int axis)
{
    int64_t inner = 1;
    for (int i = axis + 1; i < shape->ndim; i++)
        inner *= shape->dim[i];
    return inner;
}

int64_t clt_window_outer(const clt_shape *shape, int axis)
{
    int64_t outer = 1;
    for (int i = 0; i < axis; i++)
        outer *= shape->dim[i];
    return outer;
}

static void window_end(ocl_emitter *e, uint64_t outer, uint64_t length, bool by_row)
{
    uint64_t items = by_row ? outer * clt_div_up(length, WINDOW_CHUNK) : outer * length;
    ocl_kernel_end_items(e, items, by_row ? clt_local_rows(e->device, items) : clt_local_flat(e->device),
                         0.0);
}

/* Defines NT (non-temporal stores, lanes.clh) for the row kernels, if all that they write are whole, aligned
 * vectors of 16. written: number of elements written. */
static void define_stores(ocl_emitter *e, const clt_window *w, clt_dtype dtype, uint64_t written,
                          bool accumulate, bool by_row)
{
    if (by_row && (w->run | w->y_stride | w->y_start) % 16 == 0)
        clt_define_stores(e, CLT_STYLE_LANE, dtype, written, accumulate);
}

void clt_emit_window(ocl_emitter *e, int32_t y, int32_t x, clt_dtype dtype, const clt_window *w, bool grad,
                     bool accumulate, bool by_row)
{
    uint64_t moved = (uint64_t)(w->outer * w->run);
    int64_t longest = w->y_stride > w->x_stride ? w->y_stride : w->x_stride;
    if (moved == 0)
        return;
    ocl_kernel_begin(e, "window", by_row ? "window_fwd_row" : "window_fwd_flat");
    clt_define_dtype(e, "DT", dtype);
    ocl_define(e, "GRAD", grad);
    clt_define_wide(e, (uint64_t)(w->outer * longest));
    define_stores(e, w, dtype, moved, accumulate, by_row);
    if (by_row)
        clt_define_ahead(e);
    if (grad)
        ocl_arg_grad(e, y, dtype, moved, accumulate);
    else
        ocl_arg_out(e, y, dtype, moved);
    ocl_arg_in(e, x, dtype, moved);
    ocl_arg_u64(e, (uint64_t)w->outer);
    ocl_arg_u64(e, (uint64_t)w->run);
    ocl_arg_u64(e, (uint64_t)w->y_stride);
    ocl_arg_u64(e, (uint64_t)w->y_start);
    ocl_arg_u64(e, (uint64_t)w->x_stride);
    ocl_arg_u64(e, (uint64_t)w->x_start);
    window_end(e, (uint64_t)w->outer, (uint64_t)w->run, by_row);
}

void clt_emit_window_pad(ocl_emitter *e, int32_t y, int32_t x, clt_dtype dtype, const clt_window *w,
                         bool by_row)
{
    uint64_t written = (uint64_t)(w->outer * w->y_stride);
    ocl_kernel_begin(e, "window", by_row ? "window_bwd_row" : "window_bwd_flat");
    clt_define_dtype(e, "DT", dtype);
    clt_define_wide(e, written);
    define_stores(e, w, dtype, written, false, by_row);
    ocl_arg_out(e, y, dtype, written);
    ocl_arg_in(e, x, dtype, (uint64_t)(w->outer * w->run));
    ocl_arg_u64(e, (uint64_t)w->outer);
    ocl_arg_u64(e, (uint64_t)w->run);
    ocl_arg_u64(e, (uint64_t)w->y_stride);
    ocl_arg_u64(e, (uint64_t)w->y_start);
    window_end(e, (uint64_t)w->outer, (uint64_t)w->y_stride, by_row);
}
