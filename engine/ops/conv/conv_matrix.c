/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolution by matrix products over a matrix of windows (im2col): row m holds the window of position m of
 * the result, as (window..., C/groups) numbers for each group. A pointwise convolution needs no such matrix:
 * its image already is one. Otherwise the matrix is made in chunks of rows that fit into CHUNK_BYTES. The
 * image's gradient is made sample by sample, or for as many samples as fit, because windows of neighbouring
 * rows overlap: its sums over several chunks are f32. Works on every device and with every type, on any
 * backend of matrix products. */
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

/* Adds the sizes of the window as kernel arguments, in the order of CONV_PARAMS (conv.cl). first: number of
 * the chunk's first row, counted from the sample with which the kernel's image begins. */
static void arg_sizes(ocl_emitter *e, const chunk *k, int64_t first)
{
    const clt_spatial *s = &k->c->s;
    const int64_t *lists[] = {s->in, s->out, s->kernel, s->stride, s->padding, s->dilation};
    for (size_t l = 0; l < sizeof lists / sizeof lists[0]; l++)
        for (int i = 0; i < CLT_SPATIAL_MAX; i++)
            clt_arg_size32(e, lists[l][i], "elements of a spatial dimension");
    clt_arg_size32(e, s->channels, "channels");
    clt_arg_size32(e, s->channels / k->c->groups, "channels");
    ocl_arg_u64(e, (uint64_t)first);
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
    arg_sizes(e, k, k->first);
    end(e, k, (uint64_t)(k->rows * clt_conv_taps(c)), items, style, 0.0);
}

/* The samples whose image a chunk or several chunks make. */
typedef struct samples {
    int64_t first, count;
    ocl_tensor_ref image; /* of the first sample; or an f32 sum that is rounded to the image later */
    clt_dtype type;       /* of `image` */
    bool accumulate;
    int64_t written; /* planes (see plane_dim) that earlier chunks wrote */
} samples;

/* Chunks divide a sample along its outermost dimension; a plane is one position in that dimension. An image
 * has depth 1. */
static int plane_dim(const clt_spatial *s)
{
    return s->in[0] > 1 || s->out[0] > 1 ? 0 : 1;
}

static int64_t in_plane(const clt_spatial *s, const int64_t *sizes)
{
    int64_t n = 1;
    for (int i = plane_dim(s) + 1; i < CLT_SPATIAL_MAX; i++)
        n *= sizes[i];
    return n;
}

/* Emits: image (+)= the sum of the windows' elements, at each position of planes `begin` to end - 1. */
static void emit_gather(ocl_emitter *e, const chunk *k, const samples *to, int64_t begin_plane,
                        int64_t end_plane, bool add)
{
    const clt_conv *c = k->c;
    clt_style style = clt_style_of(e->device);
    int64_t plane = in_plane(&c->s, c->s.in);
    uint64_t items, elements = (uint64_t)(k->rows * per_group(c) * c->groups);
    uint64_t from = (uint64_t)(begin_plane * plane), places = (uint64_t)((end_plane - begin_plane) * plane);
    uint64_t channels = (uint64_t)c->s.channels;
    bool bias = c->bias >= 0 && !add;
    ocl_tensor_ref image = {to->image.tensor, to->image.offset + from * channels * clt_dtype_bytes(to->type)};
    begin(e, "conv_gather", style, &items);
    clt_define_dtype(e, "GT", to->type);
    ocl_define(e, "PLACES", LANE_PLACES);
    ocl_define(e, "HAS_BIAS", bias);
    ocl_arg_grad_part(e, image, to->type, places * channels, add || to->accumulate);
    ocl_arg_in(e, k->matrix, CLT_F32, elements);
    if (bias)
        ocl_arg_in(e, c->bias, CLT_F32, channels);
    arg_sizes(e, k, k->first - to->first * clt_spatial_volume(c->s.out));
    ocl_arg_u64(e, from);
    ocl_arg_u64(e, places);
    end(e, k, places, items, style, (double)elements);
}

static int64_t within(int64_t value, int64_t least, int64_t most)
{
    return value < least ? least : value > most ? most : value;
}

/* Adds a chunk to the planes that it shares with earlier chunks, and writes the planes after them: up to the
 * last one that its windows cover, or up to the end if it is the last chunk. */
static void gather_chunk(ocl_emitter *e, const chunk *k, samples *to)
{
    const clt_spatial *s = &k->c->s;
    int d = plane_dim(s);
    int64_t sample = clt_spatial_volume(s->out), plane = in_plane(s, s->out), planes = to->count * s->in[d];
    int64_t first = k->first - to->first * sample, end = first + k->rows;
    int64_t start = within(first / plane * s->stride[d] - s->padding[d], 0, planes);
    int64_t covered =
        (end - 1) / plane * s->stride[d] - s->padding[d] + (s->kernel[d] - 1) * s->dilation[d] + 1;
    covered = end == to->count * sample ? planes : within(covered, start, planes);
    if (start < to->written)
        emit_gather(e, k, to, start, covered < to->written ? covered : to->written, true);
    if (covered > to->written)
        emit_gather(e, k, to, to->written, covered, false), to->written = covered;
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

/* Sets the matrix, and returns the number of its rows: as many as fit, or as tuning asks for; for the image's
 * gradient rounded down to whole samples or whole planes. */
static int64_t make_matrix(ocl_emitter *e, chunk *k)
{
    const clt_conv *c = k->c;
    clt_dtype type = c->kind == CLT_CONV_IMAGE ? CLT_F32 : c->type_image;
    int64_t width = per_group(c) * c->groups, rows = clt_conv_rows(c);
    int64_t sample = clt_spatial_volume(c->s.out), plane = in_plane(&c->s, c->s.out);
    int64_t fit = (int64_t)(CHUNK_BYTES / ((uint64_t)width * clt_dtype_bytes(type)));
    int64_t asked = ocl_tuned(e, "rows", 0), most = asked > 0 ? asked : fit < 1 ? 1 : fit;
    if (c->kind == CLT_CONV_IMAGE && most >= plane)
        most -= most % (most >= sample ? sample : plane);
    most = most < rows ? most : rows;
    k->matrix = ocl_workspace(e, type, (uint64_t)(most * width), "windows");
    return most;
}

/* Whether several chunks of `rows` rows add to the same elements of the image. */
static bool chunks_overlap(const clt_spatial *s, int64_t rows)
{
    int d = plane_dim(s);
    return rows < clt_spatial_volume(s->out) &&
           (rows < in_plane(s, s->out) || (s->kernel[d] - 1) * s->dilation[d] >= s->stride[d]);
}

/* Emits the gradient of the image, for whole samples: several in a chunk, or one in several chunks. */
static clt_status emit_image(ocl_emitter *e, chunk *k)
{
    const clt_conv *c = k->c;
    int64_t sample = clt_spatial_volume(c->s.out), most = make_matrix(e, k);
    int64_t together = most > sample ? most / sample : 1;
    uint64_t one = (uint64_t)(clt_spatial_volume(c->s.in) * c->s.channels);
    bool apart = c->type_image != CLT_F32 && chunks_overlap(&c->s, most);
    int32_t sum = apart ? ocl_workspace(e, CLT_F32, one, "sum of windows") : -1;
    for (int64_t n = 0; n < c->s.n; n += together) {
        int64_t count = c->s.n - n < together ? c->s.n - n : together, end = (n + count) * sample;
        ocl_tensor_ref image = {c->image, (uint64_t)n * one * clt_dtype_bytes(c->type_image)};
        samples to = {n, count, image, c->type_image, c->accumulate, 0};
        if (apart)
            to.image = ocl_ref(sum), to.type = CLT_F32, to.accumulate = false;
        for (k->first = n * sample; k->first < end; k->first += most) {
            k->rows = end - k->first < most ? end - k->first : most;
            CLT_TRY(emit_products(e, k, false));
            gather_chunk(e, k, &to);
        }
        if (apart)
            clt_emit_copy_to(e, image, c->type_image, sum, CLT_F32, one, c->accumulate);
    }
    return ocl_emit_status(e);
}

static clt_status matrix_emit(ocl_emitter *e, const clt_conv *c)
{
    chunk k = {.c = c, .pointwise = clt_conv_is_pointwise(c), .matrix = c->image};
    int64_t rows = clt_conv_rows(c), most = rows;
    if (!k.pointwise && c->kind == CLT_CONV_IMAGE)
        return emit_image(e, &k);
    if (!k.pointwise)
        most = make_matrix(e, &k);
    for (k.first = 0; k.first < rows; k.first += most) {
        k.rows = rows - k.first < most ? rows - k.first : most;
        if (!k.pointwise)
            emit_windows(e, &k);
        CLT_TRY(emit_products(e, &k, k.first > 0));
    }
    return ocl_emit_status(e);
}

const clt_conv_algorithm clt_conv_matrix = {.emit = matrix_emit};
