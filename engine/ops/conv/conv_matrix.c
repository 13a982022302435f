/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolution by matrix products over a matrix of windows (im2col): row m holds the window of position m of
 * the result, as (window..., C/groups) numbers for each group. A pointwise convolution needs no such matrix:
 * its image already is one. Otherwise the matrix is made in chunks of rows that fit into CHUNK_BYTES. Works
 * on every device and with every type, on any backend of matrix products. */
#include "engine/ops/conv/conv.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/emit_util.h"

#define CHUNK_BYTES (UINT64_C(64) << 20)

/* The rows [first, first + rows) of the matrix of windows. */
typedef struct chunk {
    const clt_conv *c;
    int64_t first, rows;
    bool pointwise;
    int32_t matrix; /* (groups, rows, taps * C/groups); for a pointwise convolution, the image */
} chunk;

static int64_t per_group(const clt_conv *c) /* numbers of a window in one group */
{
    return clt_conv_taps(c) * (c->s.channels / c->groups);
}

/* Adds the sizes of the window as kernel arguments, in the order of CONV_PARAMS (conv.cl). */
static void arg_sizes(ocl_emitter *e, const chunk *k)
{
    const clt_spatial *s = &k->c->s;
    const int64_t *lists[] = {s->in, s->out, s->kernel, s->stride, s->padding, s->dilation};
    for (size_t l = 0; l < sizeof lists / sizeof lists[0]; l++)
        for (int i = 0; i < CLT_SPATIAL_MAX; i++)
            clt_arg_size32(e, lists[l][i], "elements of a spatial dimension");
    clt_arg_size32(e, s->channels, "channels");
    clt_arg_size32(e, s->channels / k->c->groups, "channels");
    ocl_arg_u64(e, (uint64_t)k->first);
    ocl_arg_u64(e, (uint64_t)k->rows);
}

static void begin(ocl_emitter *e, const char *kernel, clt_style style, uint64_t *items)
{
    ocl_kernel_begin(e, "conv", kernel);
    *items = clt_define_group(e, style);
}

/* The work of one item: LANE_PLACES neighbouring positions in lane style, otherwise one position and
 * channel. */
#define LANE_PLACES 64

static void end(ocl_emitter *e, const chunk *k, uint64_t places, uint64_t items, clt_style style,
                double flops)
{
    uint64_t channels = (uint64_t)k->c->s.channels;
    if (style == CLT_STYLE_LANE)
        ocl_kernel_end_1d(e, clt_div_up(places, LANE_PLACES), 1, flops);
    else
        ocl_kernel_end_1d(e, clt_div_up(places * channels, items) * items, items, flops);
}

static void emit_windows(ocl_emitter *e, const chunk *k)
{
    const clt_conv *c = k->c;
    clt_style style = clt_style_of(e->device);
    uint64_t items, elements = (uint64_t)(k->rows * per_group(c) * c->groups);
    begin(e, "conv_windows", style, &items);
    clt_define_dtype(e, "DT", c->type_image);
    ocl_define(e, "PLACES", LANE_PLACES);
    ocl_arg_out(e, k->matrix, c->type_image, elements);
    ocl_arg_in(e, c->image, c->type_image, (uint64_t)(clt_conv_pixels(c) * c->s.channels));
    arg_sizes(e, k);
    end(e, k, (uint64_t)(k->rows * clt_conv_taps(c)), items, style, 0.0);
}

/* Emits: image (+)= the sum of the windows' elements at each of its positions. */
static void emit_gather(ocl_emitter *e, const chunk *k, bool accumulate, bool bias)
{
    const clt_conv *c = k->c;
    clt_style style = clt_style_of(e->device);
    uint64_t items, elements = (uint64_t)(k->rows * per_group(c) * c->groups);
    uint64_t image = (uint64_t)(clt_conv_pixels(c) * c->s.channels);
    begin(e, "conv_gather", style, &items);
    clt_define_dtype(e, "GT", c->type_image);
    ocl_define(e, "PLACES", LANE_PLACES);
    ocl_define(e, "HAS_BIAS", bias);
    ocl_arg_grad(e, c->image, c->type_image, image, accumulate);
    ocl_arg_in(e, k->matrix, CLT_F32, elements);
    if (bias)
        ocl_arg_in(e, c->bias, CLT_F32, (uint64_t)c->s.channels);
    arg_sizes(e, k);
    ocl_arg_u64(e, (uint64_t)clt_conv_pixels(c));
    end(e, k, (uint64_t)clt_conv_pixels(c), items, style, (double)elements);
}

/* Emits the product of a chunk for the given problem; `group` < 0: all groups in one batch. */
static clt_status emit_product(ocl_emitter *e, const chunk *k, int64_t group, bool later)
{
    const clt_conv *c = k->c;
    int64_t inner = c->results / c->groups, width = per_group(c), all = group < 0 ? c->groups : 1;
    int64_t g0 = group < 0 ? 0 : group;
    ocl_tensor_ref result = {c->result, (uint64_t)(k->first * c->results + g0 * inner) *
                                            clt_dtype_bytes(c->type_result)};
    ocl_tensor_ref weight = {c->weight, (uint64_t)(g0 * inner * width) * clt_dtype_bytes(c->type_weight)};
    clt_dtype type_matrix = k->pointwise || c->kind != CLT_CONV_IMAGE ? c->type_image : CLT_F32;
    int64_t ld = k->pointwise ? c->s.channels : width;
    int64_t between = k->pointwise ? width : k->rows * width;
    ocl_tensor_ref matrix = {k->matrix, (uint64_t)(g0 * between + (k->pointwise ? k->first * ld : 0)) *
                                            clt_dtype_bytes(type_matrix)};
    ocl_gemm g;
    if (c->kind == CLT_CONV_RESULT) {
        g = ocl_gemm_make(k->rows, inner, width, false, true);
        g.type_a = type_matrix, g.type_b = c->type_weight, g.type_c = c->type_result;
        g.a = matrix, g.b = weight, g.c = result;
        g.lda = ld, g.ldc = c->results;
        g.stride_a = between, g.stride_c = inner;
        if (c->bias >= 0)
            g.bias = (ocl_tensor_ref){c->bias, (uint64_t)(g0 * inner) * sizeof(float)};
        g.beta = c->accumulate ? 1.0f : 0.0f;
    } else if (c->kind == CLT_CONV_IMAGE) {
        g = ocl_gemm_make(k->rows, width, inner, false, false);
        g.type_a = c->type_result, g.type_b = c->type_weight, g.type_c = type_matrix;
        g.a = result, g.b = weight, g.c = matrix;
        g.lda = c->results, g.ldc = ld;
        g.stride_a = inner, g.stride_c = between;
        if (k->pointwise && c->bias >= 0)
            g.bias = (ocl_tensor_ref){c->bias, (uint64_t)(g0 * width) * sizeof(float)};
        g.beta = k->pointwise && c->accumulate ? 1.0f : 0.0f;
    } else {
        g = ocl_gemm_make(inner, width, k->rows, true, false);
        g.type_a = c->type_result, g.type_b = type_matrix, g.type_c = c->type_weight;
        g.a = result, g.b = matrix, g.c = weight;
        g.lda = c->results, g.ldb = ld;
        g.stride_a = inner, g.stride_b = between;
        g.beta = c->accumulate || later ? 1.0f : 0.0f;
    }
    g.batch = all;
    /* only if this product is the whole result: a product of some rows or groups would give a part of the
     * moments */
    g.moments = k->rows == clt_conv_rows(c) && all == c->groups ? c->moments : NULL;
    return ocl_gemm_emit(e, &g, NULL);
}

/* Emits the products of a chunk. A product's bias is one vector for all items of its batch, so with a bias
 * each group is a separate product. */
static clt_status emit_products(ocl_emitter *e, const chunk *k, bool later)
{
    const clt_conv *c = k->c;
    bool has_bias = c->bias >= 0 && (c->kind == CLT_CONV_RESULT || k->pointwise);
    if (c->groups == 1 || !has_bias)
        return emit_product(e, k, -1, later);
    for (int64_t g = 0; g < c->groups; g++)
        CLT_TRY(emit_product(e, k, g, later));
    return CLT_OK;
}

static clt_status matrix_emit(ocl_emitter *e, const clt_conv *c)
{
    chunk k = {.c = c, .pointwise = clt_conv_is_pointwise(c), .matrix = c->image};
    int64_t rows = clt_conv_rows(c), most = rows;
    clt_dtype type = c->kind == CLT_CONV_IMAGE ? CLT_F32 : c->type_image;
    if (!k.pointwise) {
        uint64_t row = (uint64_t)(per_group(c) * c->groups) * clt_dtype_bytes(type);
        uint64_t fit = CHUNK_BYTES / row;
        int64_t asked = ocl_tuned(e, "rows", 0);
        most = asked > 0 ? asked : fit < 1 ? 1 : (int64_t)fit;
        most = most < rows ? most : rows;
        k.matrix = ocl_workspace(e, type, (uint64_t)(most * per_group(c) * c->groups), "windows");
    }
    for (k.first = 0; k.first < rows; k.first += most) {
        bool later = k.first > 0;
        k.rows = rows - k.first < most ? rows - k.first : most;
        if (!k.pointwise && c->kind != CLT_CONV_IMAGE)
            emit_windows(e, &k);
        CLT_TRY(emit_products(e, &k, later));
        if (!k.pointwise && c->kind == CLT_CONV_IMAGE)
            emit_gather(e, &k, c->accumulate || later, c->bias >= 0 && !later);
    }
    return ocl_emit_status(e);
}

const clt_conv_algorithm clt_conv_matrix = {.emit = matrix_emit};
