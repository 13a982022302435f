/* SPDX-License-Identifier: Apache-2.0
 *
 * Depthwise convolutions, which have as many groups as channels, computed directly: every channel has its
 * own window, so there is no matrix product, and memory is the limit (kernels in conv_depthwise.cl). */
#include "engine/ops/conv/conv.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/emit_util.h"

#include <stdio.h>

#define MOST_TAPS 64 /* equal to MOST_TAPS of the kernels */
/* Number of blocks into which the result's rows are divided for the weight's gradient. It is the same on
 * every device. If a block would have more than MANY_ROWS rows, there are more blocks, up to MOST_BLOCKS. */
#define BLOCKS 64
#define MOST_BLOCKS 256
#define MANY_ROWS 1024

static bool depthwise_accepts(const clt_conv *c, const ocl_device_desc *device, char *reason, size_t size)
{
    (void)device;
    if (c->groups != c->s.channels || c->results != c->s.channels) {
        (void)snprintf(reason, size, "the number of groups is not the number of channels");
        return false;
    }
    if (clt_conv_taps(c) > MOST_TAPS) {
        (void)snprintf(reason, size, "the window has more than %d elements", MOST_TAPS);
        return false;
    }
    return true;
}

static clt_style begin(ocl_emitter *e, const clt_conv *c, const char *kernel, uint64_t *items)
{
    clt_style style = clt_style_of(e->device);
    ocl_kernel_begin(e, "conv_depthwise", kernel);
    *items = clt_define_group(e, style);
    clt_define_dtype(e, "XT", c->type_image);
    clt_define_dtype(e, "WT", c->type_weight);
    clt_define_dtype(e, "YT", c->type_result);
    return style;
}

static void arg_sizes(ocl_emitter *e, const clt_conv *c)
{
    const int64_t *lists[] = {c->s.in, c->s.out, c->s.kernel, c->s.stride, c->s.padding, c->s.dilation};
    for (size_t l = 0; l < sizeof lists / sizeof lists[0]; l++)
        for (int i = 0; i < CLT_SPATIAL_MAX; i++)
            clt_arg_size32(e, lists[l][i], "elements of a spatial dimension");
    clt_arg_size32(e, c->s.channels, "channels");
}

static void end(ocl_emitter *e, uint64_t all, uint64_t items, double flops)
{
    ocl_kernel_end_1d(e, clt_div_up(all, items) * items, items, flops);
}

/* Emits the kernel that computes the result, or the gradient of the image. The two differ only in the
 * tensors that they read and write. */
static void emit_places(ocl_emitter *e, const clt_conv *c)
{
    bool back = c->kind == CLT_CONV_IMAGE;
    uint64_t items, channels = (uint64_t)c->s.channels;
    uint64_t image = (uint64_t)clt_conv_pixels(c) * channels, result = (uint64_t)clt_conv_rows(c) * channels;
    const int64_t *places = back ? c->s.in : c->s.out;
    clt_style style = begin(e, c, back ? "depthwise_image" : "depthwise_result", &items);
    ocl_define(e, "HAS_BIAS", c->bias >= 0);
    if (back) {
        ocl_arg_grad(e, c->image, c->type_image, image, c->accumulate);
        ocl_arg_in(e, c->result, c->type_result, result);
    } else {
        ocl_arg_grad(e, c->result, c->type_result, result, c->accumulate);
        ocl_arg_in(e, c->image, c->type_image, image);
    }
    ocl_arg_in(e, c->weight, c->type_weight, (uint64_t)clt_conv_taps(c) * channels);
    if (c->bias >= 0)
        ocl_arg_in(e, c->bias, CLT_F32, channels);
    arg_sizes(e, c);
    clt_arg_size32(e, c->s.n, "images");
    uint64_t rows = (uint64_t)(c->s.n * places[0] * places[1]);
    end(e, style == CLT_STYLE_LANE ? rows : rows * (uint64_t)places[2] * channels, items, clt_conv_flops(c));
}

static void emit_weight(ocl_emitter *e, const clt_conv *c)
{
    uint64_t items, channels = (uint64_t)c->s.channels, taps = (uint64_t)clt_conv_taps(c);
    int64_t rows = c->s.n * c->s.out[0] * c->s.out[1];
    int64_t block_rows = (rows + BLOCKS - 1) / BLOCKS;
    if (block_rows > MANY_ROWS) {
        int64_t least = (rows + MOST_BLOCKS - 1) / MOST_BLOCKS;
        block_rows = least > MANY_ROWS ? least : MANY_ROWS;
    }
    int64_t blocks = (rows + block_rows - 1) / block_rows;
    uint64_t parts = (uint64_t)blocks * taps * channels;
    int32_t part = ocl_workspace(e, CLT_F32, parts, "sums of blocks");
    clt_style style = begin(e, c, "depthwise_weight", &items);
    ocl_define(e, "TAPS", (int64_t)taps);
    ocl_arg_out(e, part, CLT_F32, parts);
    ocl_arg_in(e, c->image, c->type_image, (uint64_t)clt_conv_pixels(c) * channels);
    ocl_arg_in(e, c->result, c->type_result, (uint64_t)clt_conv_rows(c) * channels);
    arg_sizes(e, c);
    clt_arg_size32(e, rows, "rows of the result");
    clt_arg_size32(e, blocks, "blocks");
    clt_arg_size32(e, block_rows, "rows of a block");
    end(e, (uint64_t)blocks * (style == CLT_STYLE_LANE ? 1 : channels), items, clt_conv_flops(c));
    begin(e, c, "depthwise_total", &items);
    ocl_arg_grad(e, c->weight, c->type_weight, taps * channels, c->accumulate);
    ocl_arg_in(e, part, CLT_F32, parts);
    clt_arg_size32(e, c->s.channels, "channels");
    clt_arg_size32(e, (int64_t)taps, "elements of a window");
    clt_arg_size32(e, blocks, "blocks");
    end(e, taps * channels, items, (double)parts);
}

static clt_status depthwise_emit(ocl_emitter *e, const clt_conv *c)
{
    if (c->kind == CLT_CONV_WEIGHT)
        emit_weight(e, c);
    else
        emit_places(e, c);
    return ocl_emit_status(e);
}

const clt_conv_algorithm clt_conv_depthwise = {.accepts = depthwise_accepts, .emit = depthwise_emit};
