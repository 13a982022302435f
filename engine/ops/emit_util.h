/* SPDX-License-Identifier: Apache-2.0
 *
 * Small helpers for emitting many ops: work-group sizes for a device, refusals, index widths, checks of
 * arguments. Knows device descriptions and emitters, no op in particular. */
#ifndef ENGINE_OPS_EMIT_UTIL_H
#define ENGINE_OPS_EMIT_UTIL_H

#include <stdio.h>

#include "engine/ops/infer.h"
#include "engine/ops/op.h"

static inline uint64_t clt_group_limit(const ocl_device_desc *device)
{
    uint64_t probed = device->caps & OCL_CAP_WG256 ? 256 : 64, limit = ocl_group_limit(device);
    return limit < probed ? limit : probed;
}

/* Work-group size of kernels with one light item per element. It is large for CPUs (devices that prefer
 * vectors), which pay for each group. */
static inline uint64_t clt_local_flat(const ocl_device_desc *device)
{
    if (ocl_prefers_lanes(device) && device->max_work_group && ocl_group_limit(device) >= 512)
        return 512;
    return clt_group_limit(device);
}

/* Work-group size of kernels with one heavy item per row: small enough that every compute unit gets several
 * groups. */
static inline uint64_t clt_local_rows(const ocl_device_desc *device, uint64_t rows)
{
    uint64_t limit = clt_group_limit(device), local = 1;
    uint64_t units = device->compute_units ? device->compute_units : 1;
    if (limit > 64)
        limit = 64;
    while (local * 2 <= limit && local * 2 * units * 4 <= rows)
        local *= 2;
    return local;
}

/* Work-group size (a power of two) of kernels where the items of one group share `elements` elements. */
static inline uint64_t clt_local_group(const ocl_device_desc *device, uint64_t elements)
{
    uint64_t limit = clt_group_limit(device), local = limit < 32 ? 1 : 32;
    while (local * 2 <= limit && local * 4 <= elements)
        local *= 2;
    return local;
}

/* *items: the group size from the tuning record if that gives one, else `standard`. CLT_EUNSUPPORTED if the
 * device cannot run groups of this size. Call it before the first emission. */
static inline clt_status clt_tuned_items(ocl_emitter *e, const char *name, uint64_t standard, uint64_t *items)
{
    *items = (uint64_t)ocl_tuned(e, name, (int)standard);
    if (*items > clt_group_limit(e->device))
        CLT_FAIL(CLT_EUNSUPPORTED, "groups of %llu work-items are more than the device runs",
                 (unsigned long long)*items);
    return CLT_OK;
}
/* Tunable group sizes and the values to try: ITEMS where a group works on one row, LOCAL where every item
 * has its own row. */
#define CLT_TUNABLE_ITEMS                                                                                    \
    {                                                                                                        \
        "items", 4,                                                                                          \
        {                                                                                                    \
            32, 64, 128, 256                                                                                 \
        }                                                                                                    \
    }
#define CLT_TUNABLE_LOCAL                                                                                    \
    {                                                                                                        \
        "local", 5,                                                                                          \
        {                                                                                                    \
            1, 4, 16, 64, 256                                                                                \
        }                                                                                                    \
    }

/* Defines WIDE if element indices need 64 bits: from 2^31 elements on, because the global size is rounded
 * up. */
static inline void clt_define_wide(ocl_emitter *e, uint64_t elements)
{
    ocl_define(e, "WIDE", elements >= (1ull << 31));
}

/* Defines AHEAD=1 (software prefetch, lanes.clh) where the device supports it. */
static inline void clt_define_ahead(ocl_emitter *e)
{
    if (e->device->caps & OCL_CAP_PREFETCH) {
        ocl_define(e, "AHEAD", 1);
        ocl_kernel_needs(e, OCL_CAP_PREFETCH);
    }
}

/* Fails the emission if `value`, which kernels count in 32 bits, does not fit. */
static inline void clt_check_size32(ocl_emitter *e, int64_t value, const char *what)
{
    if (value < 0 || value > INT32_MAX)
        ocl_emit_fail(
            e, clt_fail(CLT_EUNSUPPORTED, __FILE__, __LINE__,
                        "emitting %s: the number of %s is %lld, the kernels take at most %d; use smaller "
                        "micro-batches or dimensions",
                        e->label ? e->label : "a command", what, (long long)value, INT32_MAX));
}

/* Adds a size as a 32-bit argument after clt_check_size32. */
static inline void clt_arg_size32(ocl_emitter *e, int64_t value, const char *what)
{
    clt_check_size32(e, value, what);
    ocl_arg_u32(e, (uint32_t)value);
}

static inline clt_dtype clt_call_dtype(const clt_call *call, int32_t id)
{
    return clt_call_tensor(call, id)->dtype;
}
static inline int64_t clt_call_elements(const clt_call *call, int32_t id)
{
    return clt_shape_elements(&clt_call_tensor(call, id)->shape);
}

/* Adds the step block as an argument that is read. */
static inline void clt_arg_step(ocl_emitter *e, const clt_call *call)
{
    ocl_arg_in(e, call->step, CLT_U32, (uint64_t)clt_call_elements(call, call->step));
}

/* Adds the loss scale as the arguments LOSS_SCALE_ARGS. Without a scale, the step block is passed as its
 * pointer, and the kernel does not read it. */
static inline void clt_arg_loss_scale(ocl_emitter *e, const clt_call *call)
{
    bool has_scale = call->loss_scale >= 0;
    ocl_arg_in(e, has_scale ? call->loss_scale : call->step, CLT_F32, 1);
    ocl_arg_i32(e, has_scale);
}

/* Resolves an axis attribute: 0 is the batch dimension, which is an error; negative values count from the
 * end. */
static inline clt_status clt_infer_axis(const clt_infer *ctx, int64_t given, int ndim, int *axis)
{
    int64_t a = given < 0 ? given + ndim : given;
    if (a == 0)
        return clt_infer_fail(ctx,
                              "axis %lld is the batch dimension, which layers cannot touch; valid: 1 to %d",
                              (long long)given, ndim - 1);
    if (a < 0 || a >= ndim)
        return clt_infer_fail(ctx, "axis %lld does not exist: the input has %d dimensions (0 is the batch)",
                              (long long)given, ndim);
    *axis = (int)a;
    return CLT_OK;
}

/* Fails unless input `index` has a floating type. */
static inline clt_status clt_infer_need_float(const clt_infer *ctx, int index)
{
    const clt_tensor *t = clt_infer_in(ctx, index);
    if (clt_dtype_is_float(t->dtype) && t->dtype != CLT_F64)
        return CLT_OK;
    return clt_infer_fail(
        ctx, "input %d ('%s') has type %s; it must be f32, f16 or bf16 (a 'cast' layer converts)", index,
        t->name, clt_dtype_name(t->dtype));
}

#endif
