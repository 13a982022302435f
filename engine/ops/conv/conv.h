/* SPDX-License-Identifier: Apache-2.0
 *
 * The declarations that all convolutions share. A convolution maps an image (N,C,in...) to a result
 * (N,K,out...); a transposed convolution is the gradient of a convolution with respect to its image. So
 * three problems cover both, forward and backward, in two and three dimensions: the result, the gradient of
 * the image, the gradient of the weight. An image is treated as a volume of depth 1. Activations are
 * channels-last in memory. The weight is stored as (K, window..., C/groups), which files hold as (K,
 * C/groups, window...). Knows no op; each algorithm has its own file. */
#ifndef ENGINE_OPS_CONV_CONV_H
#define ENGINE_OPS_CONV_CONV_H

#include "engine/ops/spatial/spatial.h"

typedef enum clt_conv_kind {
    CLT_CONV_RESULT, /* result = image * weight + bias */
    CLT_CONV_IMAGE,  /* the gradient of the image, from the gradient of the result */
    CLT_CONV_WEIGHT  /* the gradient of the weight */
} clt_conv_kind;

/* One of the three problems, chosen by `kind`, with its sizes and tensors. */
typedef struct clt_conv {
    clt_conv_kind kind;
    clt_spatial s;           /* s.channels: C */
    int64_t results, groups; /* K; C and K are multiples of groups */
    int32_t image, weight, result;
    int32_t bias; /* RESULT: f32 (K); IMAGE: f32 (C), of a transposed convolution; -1: none */
    clt_dtype type_image, type_weight, type_result;
    bool accumulate; /* adds to the tensor that the kind computes, instead of overwriting it */
    bool tf32;       /* all types are f32, and products may round their operands to 10 bits of mantissa */
    /* RESULT only, may be NULL: an algorithm that can compute the moments of the result's channels stores
     * them here (clt_call) */
    ocl_moments *moments;
} clt_conv;

static inline int64_t clt_conv_taps(const clt_conv *c) /* elements of a window in one channel */
{
    return clt_spatial_volume(c->s.kernel);
}
static inline int64_t clt_conv_rows(const clt_conv *c) /* positions of the result: N * out */
{
    return c->s.n * clt_spatial_volume(c->s.out);
}
static inline int64_t clt_conv_pixels(const clt_conv *c) /* positions of the image: N * in */
{
    return c->s.n * clt_spatial_volume(c->s.in);
}
/* True if the image itself is the matrix of all windows, because windows have one element, the stride is 1
 * and there is no padding. */
bool clt_conv_is_pointwise(const clt_conv *c);
/* Number of floating-point operations by the definition, whichever algorithm is used. */
double clt_conv_flops(const clt_conv *c);
/* Writes the problem as words, for tuning records and messages; returns buffer. */
const char *clt_conv_text(const clt_conv *c, char *buffer, size_t size);

/* An algorithm. accepts: true if it can compute a problem, otherwise it writes the reason; NULL: it can
 * compute every problem. emit: emits its commands. */
typedef struct clt_conv_algorithm {
    bool (*accepts)(const clt_conv *c, const ocl_device_desc *device, char *reason, size_t size);
    clt_status (*emit)(ocl_emitter *e, const clt_conv *c);
} clt_conv_algorithm;

/* True if clt_conv_implicit, which must accept the problem, computes all of it on matrix units of the
 * device. */
bool clt_conv_implicit_on_units(const clt_conv *c, const ocl_device_desc *device);
extern const clt_conv_algorithm clt_conv_matrix, clt_conv_implicit, clt_conv_winograd, clt_conv_depthwise;

/* Number of tiles of 4 x 4 positions into which Winograd's algorithm would divide the result (for the
 * gradient of the image: the image). */
int64_t clt_conv_tiles(const clt_conv *c);

/* The problem of a call of conv2d and conv3d, or of conv_transpose2d and conv_transpose3d: forward, or
 * backward for one of the gradients that are wanted. */
clt_conv clt_conv_forward_of(const clt_call *call, bool transposed);
clt_conv clt_conv_data_of(const clt_call *call, bool transposed);   /* gradient of the op's input */
clt_conv clt_conv_weight_of(const clt_call *call, bool transposed); /* gradient of the weight */

#endif
