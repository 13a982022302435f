/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolution of 3 x 3 windows with stride 1 by Winograd's transforms (kernels in conv_winograd.cl). For
 * each tile of OUT x OUT positions, matrix products over channels make (OUT + 2)^2 multiplications instead
 * of 9 OUT^2: 2.25 times fewer with OUT 2, 4 times fewer with OUT 4, where the transformed values round more
 * (about ten times). The gradient of the image is the same computation with the window rotated by 180
 * degrees. Volumes are computed slice by slice where the window is 1 deep. Tiles are computed in chunks of
 * about CHUNK_BYTES of transformed values, so that these stay in caches. f32 only. */
#include "engine/ops/conv/conv.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/emit_util.h"

#include <stdio.h>

#define CHUNK_BYTES (UINT64_C(16) << 20)

typedef struct winograd {
    const clt_conv *c;
    clt_style style;
    uint64_t items;                /* of a group */
    int out, in;                   /* side length of a tile of the result, and of the source that it needs */
    int64_t from, to;              /* channels of the source and of the result */
    int64_t height, width;         /* of the result, or of the gradient of the image */
    int64_t source[2], padding[2]; /* the source's sizes, and how far the first window extends beyond it */
    int64_t down, across, tiles;   /* tiles of one image, and of all images */
    int64_t first, count;          /* tiles of a chunk */
} winograd;

static bool winograd_accepts(const clt_conv *c, const ocl_device_desc *device, char *reason, size_t size)
{
    const clt_spatial *s = &c->s;
    (void)device;
    const char *why = NULL;
    if (c->type_image != CLT_F32 || c->type_weight != CLT_F32 || c->type_result != CLT_F32)
        why = "it takes f32 only";
    else if (s->kernel[0] != 1 || s->kernel[1] != 3 || s->kernel[2] != 3)
        why = "the window is not 3 x 3";
    else if (s->stride[0] != 1 || s->stride[1] != 1 || s->stride[2] != 1)
        why = "the stride is not 1";
    else if (s->dilation[1] != 1 || s->dilation[2] != 1)
        why = "the window is dilated";
    else if (s->padding[0] != 0 || s->padding[1] > 2 || s->padding[2] > 2)
        why = "the padding is larger than 2";
    else if (s->in[0] != s->out[0])
        why = "image and result have different depths";
    else if (c->groups != 1)
        why = "the channels are in groups";
    if (why)
        (void)snprintf(reason, size, "%s", why);
    return why == NULL;
}

int64_t clt_conv_tiles(const clt_conv *c)
{
    const int64_t *size = c->kind == CLT_CONV_IMAGE ? c->s.in : c->s.out;
    return c->s.n * size[0] * ((size[1] + 3) / 4) * ((size[2] + 3) / 4);
}

static winograd measure(const ocl_emitter *e, const clt_conv *c)
{
    const clt_spatial *s = &c->s;
    bool back = c->kind == CLT_CONV_IMAGE;
    winograd w = {.c = c, .style = clt_style_of(e->device), .out = ocl_tuned(e, "tile", 4)};
    w.in = w.out + 2;
    w.from = back ? c->results : s->channels;
    w.to = back ? s->channels : c->results;
    w.height = back ? s->in[1] : s->out[1];
    w.width = back ? s->in[2] : s->out[2];
    for (int i = 0; i < 2; i++) {
        w.source[i] = back ? s->out[1 + i] : s->in[1 + i];
        w.padding[i] = back ? 2 - s->padding[1 + i] : s->padding[1 + i];
    }
    w.down = (w.height + w.out - 1) / w.out;
    w.across = (w.width + w.out - 1) / w.out;
    w.tiles = s->n * s->in[0] * w.down * w.across;
    return w;
}

static void begin(ocl_emitter *e, winograd *w, const char *kernel)
{
    ocl_kernel_begin(e, "conv_winograd", kernel);
    w->items = clt_define_group(e, w->style);
    ocl_define(e, "OUT", w->out);
}

/* Ends a kernel that has an item for each row, or in flat style for each row and channel. */
static void end(ocl_emitter *e, const winograd *w, int64_t rows, int64_t channels, double flops)
{
    uint64_t items = (uint64_t)rows * (w->style == CLT_STYLE_LANE ? 1 : (uint64_t)channels);
    ocl_kernel_end_1d(e, clt_div_up(items, w->items) * w->items, w->items,
                      flops * (double)rows * (double)channels);
}

static void arg_tiles(ocl_emitter *e, const winograd *w, int64_t height, int64_t width, int64_t channels)
{
    clt_arg_size32(e, height, "rows of an image");
    clt_arg_size32(e, width, "columns of an image");
    clt_arg_size32(e, channels, "channels");
    clt_arg_size32(e, w->down, "tiles");
    clt_arg_size32(e, w->across, "tiles");
    ocl_arg_u64(e, (uint64_t)w->first);
    ocl_arg_u64(e, (uint64_t)w->count);
}

static uint64_t transformed(const winograd *w, int64_t rows, int64_t channels)
{
    return (uint64_t)(w->in * w->in) * (uint64_t)rows * (uint64_t)channels;
}

static void emit_source(ocl_emitter *e, winograd *w, int32_t v, int32_t from)
{
    int64_t images = w->c->s.n * w->c->s.in[0];
    begin(e, w, "winograd_source");
    ocl_arg_out(e, v, CLT_F32, transformed(w, w->count, w->from));
    ocl_arg_in(e, from, CLT_F32, (uint64_t)(images * w->source[0] * w->source[1] * w->from));
    arg_tiles(e, w, w->source[0], w->source[1], w->from);
    clt_arg_size32(e, w->padding[0], "padding");
    clt_arg_size32(e, w->padding[1], "padding");
    end(e, w, w->count, w->from, 12.0 * w->in);
}

static void emit_window(ocl_emitter *e, winograd *w, int32_t u)
{
    const clt_conv *c = w->c;
    begin(e, w, "winograd_window");
    ocl_define(e, "ROTATED", c->kind == CLT_CONV_IMAGE);
    ocl_arg_out(e, u, CLT_F32, transformed(w, c->results, c->s.channels));
    ocl_arg_in(e, c->weight, CLT_F32, (uint64_t)(9 * c->results * c->s.channels));
    ocl_arg_u64(e, (uint64_t)c->results);
    clt_arg_size32(e, c->s.channels, "channels");
    end(e, w, c->results, c->s.channels, 60.0);
}

/* Returns the tensor of transformed windows. They depend only on the weight, so the plan may keep them until
 * the weight changes. */
static int32_t derive_windows(ocl_emitter *e, winograd *w)
{
    const clt_conv *c = w->c;
    bool make, back = c->kind == CLT_CONV_IMAGE;
    uint64_t weights = (uint64_t)(c->results * c->s.channels);
    ocl_derivation derivation = {.source = c->weight,
                                 .form = w->out == 4 ? back ? "winograd 4 turned" : "winograd 4"
                                         : back      ? "winograd 2 turned"
                                                     : "winograd 2",
                                 .dtype = CLT_F32,
                                 .elements = transformed(w, c->results, c->s.channels),
                                 .name = "transformed windows",
                                 .flops =
                                     2.0 * (double)w->tiles * (double)transformed(w, 1, 1) * (double)weights};
    derivation.bytes = (derivation.elements + 9 * weights) * sizeof(float);
    int32_t u = ocl_derive_begin(e, &derivation, &make);
    if (make)
        emit_window(e, w, u);
    ocl_derive_end(e);
    return u;
}

/* Adds an argument: the part of a tensor of moments that belongs to the chunk's tiles. */
static void arg_moments(ocl_emitter *e, const winograd *w, int32_t of, int64_t channels)
{
    ocl_tensor_ref first = {of, (uint64_t)(w->first * channels) * sizeof(float)};
    ocl_arg_tensor(e, OCL_WRITE, first, CLT_F32, (uint64_t)(w->count * channels));
}

static void emit_result(ocl_emitter *e, winograd *w, int32_t m, int32_t to)
{
    const clt_conv *c = w->c;
    int64_t images = c->s.n * c->s.in[0];
    begin(e, w, "winograd_result");
    ocl_define(e, "HAS_BIAS", c->bias >= 0);
    if (c->moments != NULL)
        ocl_define(e, "MOMENTS", 1);
    ocl_arg_grad(e, to, CLT_F32, (uint64_t)(images * w->height * w->width * w->to), c->accumulate);
    ocl_arg_in(e, m, CLT_F32, transformed(w, w->count, w->to));
    if (c->bias >= 0)
        ocl_arg_in(e, c->bias, CLT_F32, (uint64_t)w->to);
    if (c->moments != NULL) {
        arg_moments(e, w, c->moments->count, 1);
        arg_moments(e, w, c->moments->mean, w->to);
        arg_moments(e, w, c->moments->square, w->to);
    }
    arg_tiles(e, w, w->height, w->width, w->to);
    end(e, w, w->count, w->to, 12.0 * w->in);
}

/* Number of tiles of a chunk: as many as the limit allows for the transformed values of source and result,
 * but at least 64. */
static int64_t chunk_of(const ocl_emitter *e, const winograd *w)
{
    int mb = ocl_tuned(e, "chunk_mb", 0);
    uint64_t limit = mb > 0 ? (uint64_t)mb << 20 : CHUNK_BYTES;
    int64_t fit = (int64_t)(limit / (transformed(w, 1, w->from + w->to) * sizeof(float)));
    int64_t chunks = w->tiles / (fit > 0 ? fit : 1) + 1, even = (w->tiles + chunks - 1) / chunks;
    return even > 64 ? even : w->tiles < 64 ? w->tiles : 64;
}

/* Emits the products of a chunk: m (in*in, count, to) = v * u or v * u'. */
static clt_status emit_products(ocl_emitter *e, const winograd *w, int32_t m, int32_t v, int32_t u)
{
    bool back = w->c->kind == CLT_CONV_IMAGE;
    ocl_gemm g = ocl_gemm_make(w->count, w->to, w->from, false, !back);
    g.a = ocl_ref(v), g.b = ocl_ref(u), g.c = ocl_ref(m);
    g.batch = w->in * w->in;
    return ocl_gemm_emit(e, &g, NULL);
}

static clt_status emit_values(ocl_emitter *e, winograd *w, int32_t from, int32_t to)
{
    int64_t most = chunk_of(e, w);
    int32_t u = derive_windows(e, w);
    int32_t v = ocl_workspace(e, CLT_F32, transformed(w, most, w->from), "transformed source");
    int32_t m = ocl_workspace(e, CLT_F32, transformed(w, most, w->to), "transformed result");
    if (w->c->moments != NULL) /* moments of tiles, whose values winograd_result already holds */
        *w->c->moments = (ocl_moments){
            .blocks = (uint64_t)w->tiles,
            .count = ocl_workspace(e, CLT_F32, (uint64_t)w->tiles, "places of tiles"),
            .mean = ocl_workspace(e, CLT_F32, (uint64_t)(w->tiles * w->to), "means of tiles"),
            .square = ocl_workspace(e, CLT_F32, (uint64_t)(w->tiles * w->to), "squares of tiles"),
        };
    for (w->first = 0; w->first < w->tiles; w->first += most) {
        w->count = w->tiles - w->first < most ? w->tiles - w->first : most;
        emit_source(e, w, v, from);
        CLT_TRY(emit_products(e, w, m, v, u));
        emit_result(e, w, m, to);
    }
    return ocl_emit_status(e);
}

static clt_status emit_weight(ocl_emitter *e, winograd *w)
{
    const clt_conv *c = w->c;
    int64_t most = chunk_of(e, w), images = c->s.n * c->s.in[0];
    int32_t u = ocl_workspace(e, CLT_F32, transformed(w, c->results, c->s.channels), "transformed windows");
    int32_t v = ocl_workspace(e, CLT_F32, transformed(w, most, w->from), "transformed source");
    int32_t s = ocl_workspace(e, CLT_F32, transformed(w, most, w->to), "transformed gradient");
    for (w->first = 0; w->first < w->tiles; w->first += most) {
        w->count = w->tiles - w->first < most ? w->tiles - w->first : most;
        emit_source(e, w, v, c->image);
        begin(e, w, "winograd_spread");
        ocl_arg_out(e, s, CLT_F32, transformed(w, w->count, w->to));
        ocl_arg_in(e, c->result, CLT_F32, (uint64_t)(images * w->height * w->width * w->to));
        arg_tiles(e, w, w->height, w->width, w->to);
        end(e, w, w->count, w->to, 12.0 * w->in);
        ocl_gemm g = ocl_gemm_make(c->results, c->s.channels, w->count, true, false);
        g.a = ocl_ref(s), g.b = ocl_ref(v), g.c = ocl_ref(u);
        g.batch = w->in * w->in;
        g.beta = w->first > 0 ? 1.0f : 0.0f;
        CLT_TRY(ocl_gemm_emit(e, &g, NULL));
    }
    begin(e, w, "winograd_gather");
    ocl_arg_grad(e, c->weight, CLT_F32, (uint64_t)(9 * c->results * c->s.channels), c->accumulate);
    ocl_arg_in(e, u, CLT_F32, transformed(w, c->results, c->s.channels));
    ocl_arg_u64(e, (uint64_t)c->results);
    clt_arg_size32(e, c->s.channels, "channels");
    end(e, w, c->results, c->s.channels, 60.0);
    return ocl_emit_status(e);
}

static clt_status winograd_emit(ocl_emitter *e, const clt_conv *c)
{
    winograd w = measure(e, c);
    if (c->kind == CLT_CONV_WEIGHT)
        return emit_weight(e, &w);
    bool back = c->kind == CLT_CONV_IMAGE;
    return emit_values(e, &w, back ? c->result : c->image, back ? c->image : c->result);
}

const clt_conv_algorithm clt_conv_winograd = {.accepts = winograd_accepts, .emit = winograd_emit};
