/* SPDX-License-Identifier: Apache-2.0
 *
 * Emission of kernels built on elements.clh: launch geometry of the two styles, sums and products of
 * tensors, pairs of variants of elementwise ops. Knows emitters and element counts, no op in particular. */
#ifndef ENGINE_OPS_ELEMENTWISE_ELEMENTWISE_H
#define ENGINE_OPS_ELEMENTWISE_ELEMENTWISE_H

#include "engine/ops/op.h"

/* Styles of elementwise kernels. flat (GPUs): groups of 64 items, neighbouring items have neighbouring
 * elements. lane (CPUs): groups of one item, which processes a long run of elements with vectors. */
typedef enum clt_style { CLT_STYLE_FLAT, CLT_STYLE_LANE } clt_style;

/* The device's style, for helper commands, which have no list of variants to choose from. */
clt_style clt_style_of(const ocl_device_desc *device);
/* Defines LS, the number of items of a group in this style, and returns it. */
uint64_t clt_define_group(ocl_emitter *e, clt_style style);
/* Defines NT=1 (non-temporal stores) for a kernel in lane style that writes `elements` of `dtype` with
 * STREAM16 (lanes.clh) at aligned addresses. It does so if the device has such stores, and the result is
 * larger than the caches and not accumulated. Only for kernels with little arithmetic: others are faster
 * with ordinary stores. */
void clt_define_stores(ocl_emitter *e, clt_style style, clt_dtype dtype, uint64_t elements, bool accumulate);
/* Whether NT was defined for the command. */
bool clt_stores_past_caches(const ocl_command *command);
/* Begins a kernel that uses elements.clh; defines LS and VEC. */
void clt_elementwise_begin(ocl_emitter *e, const char *family, const char *kernel, clt_style style);
/* Adds the last argument, ulong count, and ends the kernel. */
void clt_elementwise_end(ocl_emitter *e, uint64_t count, double flops, clt_style style);
/* Defines `name` as the type of tensor `id`. */
void clt_define_type_of(ocl_emitter *e, const char *name, const clt_call *call, int32_t id);
/* Adds tensor `id` as an argument with its own type; the kernel reads, or writes, `elements` of its
 * elements. */
void clt_arg_in_of(ocl_emitter *e, const clt_call *call, int32_t id, uint64_t elements);
void clt_arg_out_of(ocl_emitter *e, const clt_call *call, int32_t id, uint64_t elements);
void clt_arg_grad_of(ocl_emitter *e, const clt_call *call, int32_t id, uint64_t elements, bool accumulate);

/* Makes the list fn_variants = {flat, lane, NULL} from a function `clt_status fn(ocl_emitter *, const
 * clt_call *, clt_style)`. */
#define CLT_ELEMENTWISE_VARIANTS(fn)                                                                         \
    CLT_TWO_VARIANTS(fn, flat, CLT_STYLE_FLAT, 0, NULL, lane, CLT_STYLE_LANE, NULL)                          \
    CLT_TWO_LISTED(fn, flat, lane)

/* Choices of gelu's attribute `approximate`. */
typedef enum clt_gelu_approximate { CLT_GELU_NONE, CLT_GELU_TANH } clt_gelu_approximate;

/* Emits dst (+)= src, for a part of a tensor; types may differ. */
void clt_emit_copy_to(ocl_emitter *e, ocl_tensor_ref dst, clt_dtype dst_type, int32_t src, clt_dtype src_type,
                      uint64_t elements, bool accumulate);

/* Emits dst = src * factor + shift. */
void clt_emit_affine(ocl_emitter *e, int32_t dst, clt_dtype dst_type, int32_t src, clt_dtype src_type,
                     uint64_t elements, float factor, float shift, clt_style style);

/* One launch of binary.cl: y (+)= in[0] + in[1] + ..., or in[0] * in[1]; the last input has `period` elements
 * and is broadcast along the others. y may be one of the inputs that are not broadcast. */
typedef struct clt_binary_launch {
    const char *kernel; /* "binary_fwd" or "binary_bwd" */
    bool multiply, accumulate;
    int32_t y, in[4];
    int n_in;
    uint64_t elements, period;
} clt_binary_launch;
void clt_emit_binary(ocl_emitter *e, const clt_call *call, const clt_binary_launch *launch, clt_style style);

#endif
