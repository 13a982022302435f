/* SPDX-License-Identifier: Apache-2.0
 *
 * Emission of pool.cl: sums over windows, their gradients, and maxima. Knows windows; averages, maxima and
 * upsampling by repetition use it. */
#ifndef ENGINE_OPS_SPATIAL_POOL_H
#define ENGINE_OPS_SPATIAL_POOL_H

#include "engine/ops/spatial/places.h"

/* The windows of a pooling op; s.in and s.out are the sizes before and after it. */
typedef struct clt_pool {
    clt_spatial s;
    bool adaptive;  /* windows divide the input; s.kernel is the size of the largest one */
    bool own_size;  /* sums of different windows have different divisors */
    bool count_pad; /* the divisor counts padding, too */
    float share;    /* unless own_size: the factor of every sum */
} clt_pool;

/* The attribute `ceil_mode`, and `output` of adaptive ops. */
#define CLT_POOL_CEIL                                                                                        \
    CLT_SPEC_BOOL(                                                                                           \
        "ceil_mode", false,                                                                                  \
        "round output sizes up: a last window may reach over the end, as long as it starts before it")
#define CLT_POOL_OUTPUT                                                                                      \
    CLT_SPEC_OPEN(INTS, "output", 1, 65536,                                                                  \
                  "size of the output in each spatial dimension, or one for all; not set: 1, one window "    \
                  "over everything")

/* The members that the records of all pooling ops, and their descriptions, have in common. variants_: prefix
 * of the names of the op's two lists of variants. */
#define CLT_POOL_OP(infer_, variants_)                                                                       \
    .infer = infer_, CLT_OP_VARIANTS(variants_), .layout = clt_spatial_layout
#define CLT_POOL_DOC                                                                                         \
    .inputs = "x: (N,C,H,W) or (N,C,D,H,W), f32, f16 or bf16",                                               \
    .before = "{\"op\": \"reshape\", \"shape\": [1, 28, 28]}, ", CLT_DOC_CLASSES_AFTER

/* The windows of a node for an input of shape `in`: by its attributes kernel, stride, padding, dilation and
 * ceil_mode, or `output`. Each sum is divided by the number of elements of its window, as count_include_pad
 * says. */
clt_pool clt_pool_of(const clt_node *node, const clt_shape *in);
/* Checks the input and the attributes of a pooling op, and declares its output. CLT_ESHAPE if a window does
 * not fit, or if the padding is more than half of the kernel: windows that contain only padding have no
 * maximum and no average. */
clt_status clt_pool_infer(clt_infer *ctx);

/* Emits y (+)= sums of x over the windows. */
typedef struct clt_pool_launch {
    int32_t y, x;
    clt_dtype y_type, x_type;
    bool accumulate;
} clt_pool_launch;
void clt_emit_pool_sum(ocl_emitter *e, const clt_pool *pool, const clt_pool_launch *launch, clt_style style);
/* Emits the reverse of these sums: element i of y, which has the sizes `in`, (+)= the sum of x, which has
 * the sizes `out`, over the windows that contain i. */
void clt_emit_pool_spread(ocl_emitter *e, const clt_pool *pool, const clt_pool_launch *launch,
                          clt_style style);
/* Emits y = the maxima of the windows; index = each maximum's number within its window, of the type
 * clt_pool_index_type; `index` -1: not wanted. */
clt_dtype clt_pool_index_type(const clt_pool *pool);
void clt_emit_pool_max(ocl_emitter *e, const clt_pool *pool, const clt_pool_launch *launch, int32_t index,
                       clt_style style);
/* Emits the backward pass. launch->x: gradient of the maxima; launch->y: gradient of the input. */
void clt_emit_pool_max_bwd(ocl_emitter *e, const clt_pool *pool, const clt_pool_launch *launch, int32_t index,
                           clt_style style);

#endif
