/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes of sliding windows from attributes and shapes, and their checks, for all ops on images and
 * volumes. */
#include "engine/ops/spatial/spatial.h"

#include <string.h>

#include "engine/ops/emit_util.h"

const clt_attr *clt_spatial_attr(const clt_node *node, const char *name)
{
    for (int i = 0; i < node->op->n_attrs; i++)
        if (strcmp(node->op->attrs[i].name, name) == 0)
            return &node->attr[i];
    return NULL;
}

clt_status clt_spatial_check(const clt_infer *ctx, int dims)
{
    static const char *const lists[] = {"kernel", "stride", "padding", "dilation", "output", "scale"};
    CLT_TRY(clt_infer_need_float(ctx, 0));
    const clt_shape *shape = &clt_infer_in(ctx, 0)->shape;
    char text[CLT_SHAPE_TEXT];
    clt_shape_text(shape, text, sizeof text);
    int have = shape->ndim - 2;
    if ((dims != 0 && have != dims) || have < 2 || have > 3)
        return clt_infer_fail(ctx, "the input %s is not %s; the first dimension is the batch", text,
                              dims == 2 ? "(samples, channels, height, width)"
                              : dims == 3
                                  ? "(samples, channels, depth, height, width)"
                                  : "(samples, channels, height, width) or (samples, channels, depth, "
                                    "height, width)");
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        const clt_attr *attr = clt_spatial_attr(ctx->node, lists[i]);
        if (attr && attr->set && attr->n_list != 1 && attr->n_list != have)
            return clt_infer_fail(ctx,
                                  "attribute '%s' has %d values, and the input %s has %d spatial dimensions; "
                                  "give one value, or one for each of them",
                                  lists[i], (int)attr->n_list, text, have);
    }
    return CLT_OK;
}

void clt_spatial_list(const clt_node *node, const char *name, int dims, int64_t absent,
                      int64_t out[CLT_SPATIAL_MAX])
{
    const clt_attr *attr = clt_spatial_attr(node, name);
    for (int i = 0; i < CLT_SPATIAL_MAX; i++) {
        int at = i - (CLT_SPATIAL_MAX - dims);
        out[i] = at < 0 || !attr || !attr->set ? absent : attr->n_list == 1 ? attr->list[0] : attr->list[at];
    }
}

clt_spatial clt_spatial_of(const clt_node *node, const clt_shape *in, bool kernel_stride)
{
    clt_spatial s = {.dims = in->ndim - 2, .n = in->dim[0], .channels = in->dim[1]};
    const clt_attr *stride = clt_spatial_attr(node, "stride");
    clt_spatial_list(node, "kernel", s.dims, 1, s.kernel);
    clt_spatial_list(node, kernel_stride && !(stride && stride->set) ? "kernel" : "stride", s.dims, 1,
                     s.stride);
    clt_spatial_list(node, "padding", s.dims, 0, s.padding);
    clt_spatial_list(node, "dilation", s.dims, 1, s.dilation);
    for (int i = 0; i < CLT_SPATIAL_MAX; i++) {
        int at = i - (CLT_SPATIAL_MAX - s.dims);
        s.in[i] = at < 0 ? 1 : in->dim[2 + at];
        int64_t room = s.in[i] + 2 * s.padding[i] - s.dilation[i] * (s.kernel[i] - 1) - 1;
        s.out[i] = room < 0 ? 0 : room / s.stride[i] + 1;
    }
    return s;
}

clt_status clt_spatial_fits(const clt_infer *ctx, const clt_spatial *s)
{
    static const char *const names[CLT_SPATIAL_MAX] = {"depth", "height", "width"};
    for (int i = 0; i < CLT_SPATIAL_MAX; i++)
        if (s->out[i] < 1)
            return clt_infer_fail(ctx,
                                  "a window of %lld in the %s does not fit into %lld with padding %lld on "
                                  "both sides; give more padding or a smaller kernel",
                                  (long long)(s->dilation[i] * (s->kernel[i] - 1) + 1), names[i],
                                  (long long)s->in[i], (long long)s->padding[i]);
    return CLT_OK;
}

clt_shape clt_spatial_shape(const clt_spatial *s, int64_t channels, const int64_t sizes[CLT_SPATIAL_MAX])
{
    clt_shape shape = {.ndim = s->dims + 2, .dim = {s->n, channels}};
    for (int i = 0; i < s->dims; i++)
        shape.dim[2 + i] = sizes[CLT_SPATIAL_MAX - s->dims + i];
    return shape;
}

clt_layout clt_spatial_layout(const clt_node *node, const ocl_device_desc *device)
{
    (void)node;
    (void)device;
    return CLT_LAYOUT_CHANNELS_LAST;
}
