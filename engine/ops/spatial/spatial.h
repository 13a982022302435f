/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes of windows that slide over the spatial dimensions of images (N,C,H,W) and volumes (N,C,D,H,W), read
 * from the attributes kernel, stride, padding and dilation. All sizes are kept in three dimensions: an image
 * is a volume whose first spatial dimension is 1. Knows no op. */
#ifndef ENGINE_OPS_SPATIAL_SPATIAL_H
#define ENGINE_OPS_SPATIAL_SPATIAL_H

#include "engine/ops/infer.h"
#include "engine/ops/op.h"

#define CLT_SPATIAL_MAX 3

/* Sizes per spatial dimension, in the order depth, height, width. */
typedef struct clt_spatial {
    int dims; /* 2: images, 3: volumes */
    int64_t n, channels;
    int64_t in[CLT_SPATIAL_MAX], out[CLT_SPATIAL_MAX];
    int64_t kernel[CLT_SPATIAL_MAX], stride[CLT_SPATIAL_MAX], padding[CLT_SPATIAL_MAX];
    int64_t dilation[CLT_SPATIAL_MAX];
} clt_spatial;

/* Rows of an op's table of attributes; a list of one value holds for all spatial dimensions. */
#define CLT_SPATIAL_KERNEL                                                                                   \
    CLT_SPEC_NEEDED(INTS, "kernel", 1, 65536, "size of the window in each spatial dimension, or one for all")
#define CLT_SPATIAL_STRIDE(standard)                                                                         \
    CLT_SPEC_OPEN(INTS, "stride", 1, 65536,                                                                  \
                  "steps of the window in each spatial dimension, or one for all; without it " standard)
#define CLT_SPATIAL_PADDING(with)                                                                            \
    CLT_SPEC_OPEN(INTS, "padding", 0, 65536,                                                                 \
                  with " added on both sides of each spatial dimension, or one for all; without it 0")
#define CLT_SPATIAL_DILATION                                                                                 \
    CLT_SPEC_OPEN(INTS, "dilation", 1, 65536,                                                                \
                  "distance between neighbouring elements of the window, or one for all; without it 1")

/* Checks that the node's first input is an image or a volume (dims 2 or 3; 0: either) of a floating type, and
 * that lists of sizes have one value or one for each spatial dimension. CLT_ESHAPE otherwise. */
clt_status clt_spatial_check(const clt_infer *ctx, int dims);
/* The value of an attribute, or NULL if the op does not have it. */
const clt_attr *clt_spatial_attr(const clt_node *node, const char *name);
/* Reads the values of a list attribute for a tensor with `dims` spatial dimensions. Dimensions that it lacks
 * get `absent`; all get it if the attribute is not set or the op does not have it. */
void clt_spatial_list(const clt_node *node, const char *name, int dims, int64_t absent,
                      int64_t out[CLT_SPATIAL_MAX]);
/* All sizes for an input of shape `in`, which clt_spatial_check has accepted. out is the size for sliding
 * windows: floor((in + 2 padding - dilation (kernel - 1) - 1) / stride) + 1; 0 or less if the window does
 * not fit. kernel_stride: the stride is the kernel's size unless it is set. */
clt_spatial clt_spatial_of(const clt_node *node, const clt_shape *in, bool kernel_stride);
/* Fails with CLT_ESHAPE unless the window fits into the padded input in every dimension. */
clt_status clt_spatial_fits(const clt_infer *ctx, const clt_spatial *s);
/* (n, channels, sizes...) with s->dims sizes. */
clt_shape clt_spatial_shape(const clt_spatial *s, int64_t channels, const int64_t sizes[CLT_SPATIAL_MAX]);
static inline int64_t clt_spatial_volume(const int64_t sizes[CLT_SPATIAL_MAX])
{
    return sizes[0] * sizes[1] * sizes[2];
}
/* clt_op.layout of spatial ops: channels-last, on every device. */
clt_layout clt_spatial_layout(const clt_node *node, const ocl_device_desc *device);

#endif
