/* SPDX-License-Identifier: Apache-2.0
 *
 * Emission helpers that many ops share: storage types as text, gradient copies, the geometry of elementwise
 * kernels, sums and products. Knows emitters and the kernel families elementwise and binary, no op in
 * particular.
 */
#include "engine/ops/elementwise/elementwise.h"

#include <string.h>

#include "engine/ops/emit_util.h"

/* Elements of one item: in lane style enough to amortise the cost of a group on CPUs, in flat style few
 * enough to fill all compute units of a GPU. */
#define LANE_CHUNK 4096
#define FLAT_CHUNK 4
#define FLAT_GROUP 64

void clt_define_dtype(ocl_emitter *e, const char *name, clt_dtype dtype)
{
    ocl_define_text(e, name, clt_dtype_name(dtype));
}

void clt_define_type_of(ocl_emitter *e, const char *name, const clt_call *call, int32_t id)
{
    clt_define_dtype(e, name, clt_call_dtype(call, id));
}

void clt_arg_in_of(ocl_emitter *e, const clt_call *call, int32_t id, uint64_t elements)
{
    ocl_arg_in(e, id, clt_call_dtype(call, id), elements);
}

void clt_arg_out_of(ocl_emitter *e, const clt_call *call, int32_t id, uint64_t elements)
{
    ocl_arg_out(e, id, clt_call_dtype(call, id), elements);
}

void clt_arg_grad_of(ocl_emitter *e, const clt_call *call, int32_t id, uint64_t elements, bool accumulate)
{
    ocl_arg_grad(e, id, clt_call_dtype(call, id), elements, accumulate);
}

clt_style clt_style_of(const ocl_device_desc *device)
{
    return ocl_prefers_lanes(device) ? CLT_STYLE_LANE : CLT_STYLE_FLAT;
}

static uint64_t group_items(const ocl_emitter *e, clt_style style)
{
    uint64_t limit = clt_group_limit(e->device);
    if (style == CLT_STYLE_LANE)
        return 1;
    return limit < FLAT_GROUP ? limit : FLAT_GROUP;
}

uint64_t clt_define_group(ocl_emitter *e, clt_style style)
{
    uint64_t items = group_items(e, style);
    ocl_define(e, "LS", (int64_t)items);
    return items;
}

void clt_define_stores(ocl_emitter *e, clt_style style, clt_dtype dtype, uint64_t elements, bool accumulate)
{
    const ocl_device_desc *d = e->device;
    if (style == CLT_STYLE_LANE && !accumulate && (d->caps & OCL_CAP_NONTEMPORAL) && d->cache_bytes > 0 &&
        (dtype == CLT_F32 || dtype == CLT_BF16) && elements * clt_dtype_bytes(dtype) > d->cache_bytes) {
        ocl_define(e, "NT", 1);
        ocl_kernel_needs(e, OCL_CAP_NONTEMPORAL);
    }
}

bool clt_stores_past_caches(const ocl_command *command)
{
    return command->kind == OCL_CMD_KERNEL && command->options && strstr(command->options, "-DNT=1");
}

void clt_elementwise_begin(ocl_emitter *e, const char *family, const char *kernel, clt_style style)
{
    ocl_kernel_begin(e, family, kernel);
    clt_define_group(e, style);
    ocl_define(e, "VEC", style == CLT_STYLE_LANE ? LANE_CHUNK : FLAT_CHUNK);
}

void clt_elementwise_end(ocl_emitter *e, uint64_t count, double flops, clt_style style)
{
    uint64_t items = group_items(e, style);
    uint64_t chunk = items * (style == CLT_STYLE_LANE ? LANE_CHUNK : FLAT_CHUNK);
    ocl_arg_u64(e, count);
    ocl_kernel_end_1d(e, clt_div_up(count, chunk) * items, items, flops);
}

void clt_emit_copy_to(ocl_emitter *e, ocl_tensor_ref dst, clt_dtype dst_type, int32_t src, clt_dtype src_type,
                      uint64_t elements, bool accumulate)
{
    clt_style style = clt_style_of(e->device);
    clt_elementwise_begin(e, "elementwise", "elementwise_bwd_copy", style);
    clt_define_dtype(e, "DT", src_type);
    clt_define_dtype(e, "GT", dst_type);
    if (dst.offset % (16 * clt_dtype_bytes(dst_type)) == 0)
        clt_define_stores(e, style, dst_type, elements, accumulate);
    ocl_arg_grad_part(e, dst, dst_type, elements, accumulate);
    ocl_arg_in(e, src, src_type, elements);
    clt_elementwise_end(e, elements, accumulate ? (double)elements : 0.0, style);
}

void clt_emit_convert(ocl_emitter *e, int32_t dst, clt_dtype dst_type, int32_t src, clt_dtype src_type,
                      uint64_t elements)
{
    clt_emit_copy_to(e, ocl_ref(dst), dst_type, src, src_type, elements, false);
}

void clt_emit_copy_grad(ocl_emitter *e, int32_t dst, int32_t src, clt_dtype dtype, uint64_t elements,
                        bool accumulate)
{
    clt_emit_copy_to(e, ocl_ref(dst), dtype, src, dtype, elements, accumulate);
}

void clt_emit_affine(ocl_emitter *e, int32_t dst, clt_dtype dst_type, int32_t src, clt_dtype src_type,
                     uint64_t elements, float factor, float shift, clt_style style)
{
    clt_elementwise_begin(e, "elementwise", "elementwise_fwd_affine", style);
    clt_define_dtype(e, "DT", src_type);
    clt_define_dtype(e, "GT", dst_type);
    clt_define_stores(e, style, dst_type, elements, false);
    ocl_arg_out(e, dst, dst_type, elements);
    ocl_arg_in(e, src, src_type, elements);
    ocl_arg_f32(e, factor);
    ocl_arg_f32(e, shift);
    clt_elementwise_end(e, elements, 2.0 * (double)elements, style);
}

void clt_emit_zero(ocl_emitter *e, int32_t dst, uint64_t first, clt_dtype dtype, uint64_t elements)
{
    clt_style style = clt_style_of(e->device);
    ocl_tensor_ref rest = {dst, first * clt_dtype_bytes(dtype)};
    clt_elementwise_begin(e, "elementwise", "elementwise_bwd_zero", style);
    clt_define_dtype(e, "GT", dtype);
    if (first % 16 == 0)
        clt_define_stores(e, style, dtype, elements, false);
    ocl_arg_tensor(e, OCL_WRITE, rest, dtype, elements);
    clt_elementwise_end(e, elements, 0.0, style);
}

void clt_emit_binary(ocl_emitter *e, const clt_call *call, const clt_binary_launch *l, clt_style style)
{
    clt_elementwise_begin(e, "binary", l->kernel, style);
    ocl_define(e, "MUL", l->multiply);
    ocl_define(e, "NIN", l->n_in);
    ocl_define(e, "BCAST", l->period != l->elements);
    clt_define_type_of(e, "DT", call, l->in[0]);
    clt_define_type_of(e, "BT", call, l->in[l->n_in - 1]);
    clt_define_type_of(e, "GT", call, l->y);
    clt_define_stores(e, style, clt_call_dtype(call, l->y), l->elements,
                      /* aligned vectors need a period of whole vectors */
                      l->accumulate || l->period % 16 != 0);
    clt_arg_grad_of(e, call, l->y, l->elements, l->accumulate);
    for (int i = 0; i + 1 < l->n_in; i++)
        clt_arg_in_of(e, call, l->in[i], l->elements);
    clt_arg_in_of(e, call, l->in[l->n_in - 1], l->period);
    if (l->period != l->elements)
        clt_arg_size32(e, (int64_t)l->period, "elements of a repeated input");
    clt_elementwise_end(e, l->elements, (l->n_in - 1 + l->accumulate) * (double)l->elements, style);
}
