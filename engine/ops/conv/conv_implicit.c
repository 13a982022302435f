/* SPDX-License-Identifier: Apache-2.0
 *
 * Convolution as one matrix product whose operand, the matrix of windows, is never written: the product's
 * kernel reads the windows directly from the image (ocl_gemm.windows in cl/gemm/gemm.h). The gradient of the
 * image is such a product, too: of windows of the result's gradient with the reordered weight. With a stride
 * the positions of the image are divided into phases, by their remainder modulo the stride: each phase uses
 * different elements of the window, and is a separate product. */
#include "engine/ops/conv/conv.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/emit_util.h"

#include <stdio.h>

/* One phase of the gradient of the image. Along each dimension it has the positions begin + stride * j, j <
 * size, and the elements first + step * m, m < count, of the window. Element m belongs to the result's
 * position from + j + m * apart, which ascends with m. */
typedef struct phase {
    int64_t begin[3], size[3], count[3], first[3], step[3], from[3], apart[3];
} phase;

static int64_t gcd(int64_t a, int64_t b)
{
    return b ? gcd(b, a % b) : a;
}

/* Returns false if the phase has no positions. */
static bool find_phase(const clt_conv *c, const int64_t begin[3], phase *out)
{
    const clt_spatial *s = &c->s;
    for (int i = 0; i < CLT_SPATIAL_MAX; i++) {
        int64_t stride = s->stride[i], dilation = s->dilation[i], common = gcd(stride, dilation);
        out->begin[i] = begin[i];
        out->size[i] = begin[i] < s->in[i] ? (s->in[i] - begin[i] - 1) / stride + 1 : 0;
        out->count[i] = 0;
        out->step[i] = -(stride / common);
        out->apart[i] = dilation / common;
        for (int64_t t = 0; t < s->kernel[i]; t++)
            if ((begin[i] + s->padding[i] - t * dilation) % stride == 0) {
                out->count[i]++;
                out->first[i] = t; /* the last one is the largest t; step < 0 leads to smaller t */
                out->from[i] = (begin[i] + s->padding[i] - t * dilation) / stride;
            }
        if (out->size[i] == 0)
            return false;
    }
    return true;
}

static void set_windows(ocl_windows *w, const int64_t in[3], const int64_t out[3], const int64_t kernel[3])
{
    for (int i = 0; i < 3; i++) {
        w->in[i] = in[i];
        w->out[i] = out[i];
        w->kernel[i] = kernel[i];
    }
}

/* The product that computes the result, or the weight's gradient, for all groups. */
static ocl_gemm plain_product(const clt_conv *c)
{
    const clt_spatial *s = &c->s;
    int64_t inner = c->results / c->groups, per_group = s->channels / c->groups;
    int64_t width = clt_conv_taps(c) * per_group, rows = clt_conv_rows(c);
    ocl_gemm g;
    if (c->kind == CLT_CONV_RESULT) {
        g = ocl_gemm_make(rows, inner, width, false, true);
        g.a = ocl_ref(c->image), g.b = ocl_ref(c->weight), g.c = ocl_ref(c->result);
        g.type_a = c->type_image, g.type_b = c->type_weight, g.type_c = c->type_result;
        g.ldc = c->results;
        g.stride_a = per_group, g.stride_c = inner;
        g.bias = c->bias >= 0 ? ocl_ref(c->bias) : OCL_NO_TENSOR;
        g.windows.operand = OCL_WINDOWS_A;
    } else {
        g = ocl_gemm_make(inner, width, rows, true, false);
        g.a = ocl_ref(c->result), g.b = ocl_ref(c->image), g.c = ocl_ref(c->weight);
        g.type_a = c->type_result, g.type_b = c->type_image, g.type_c = c->type_weight;
        g.lda = c->results;
        g.stride_a = inner, g.stride_b = per_group;
        g.windows.operand = OCL_WINDOWS_B;
    }
    g.batch = c->groups;
    g.tf32 = c->tf32;
    g.beta = c->accumulate ? 1.0f : 0.0f;
    set_windows(&g.windows, s->in, s->out, s->kernel);
    for (int i = 0; i < 3; i++) {
        g.windows.stride[i] = s->stride[i];
        g.windows.dilation[i] = s->dilation[i];
        g.windows.padding[i] = s->padding[i];
    }
    g.windows.channels = per_group;
    g.windows.place = s->channels;
    g.windows.elements = clt_conv_pixels(c) * s->channels;
    return g;
}

/* The product that computes a phase of the image's gradient. Its result, in tensor `to`, has rows of
 * c.s.channels numbers of the type `type`. */
static ocl_gemm phase_product(const clt_conv *c, const phase *p, int32_t turned, int32_t to, clt_dtype type)
{
    const clt_spatial *s = &c->s;
    int64_t inner = c->results / c->groups, per_group = s->channels / c->groups;
    int64_t width = clt_spatial_volume(p->count) * inner;
    ocl_gemm g = ocl_gemm_make(s->n * clt_spatial_volume(p->size), per_group, width, false, false);
    g.a = ocl_ref(c->result), g.b = ocl_ref(turned), g.c = ocl_ref(to);
    g.type_a = c->type_result, g.type_b = c->type_weight, g.type_c = type;
    g.ldc = s->channels;
    g.batch = c->groups;
    g.tf32 = c->tf32;
    g.stride_a = inner, g.stride_c = per_group;
    g.windows.operand = OCL_WINDOWS_A;
    set_windows(&g.windows, s->out, p->size, p->count);
    for (int i = 0; i < 3; i++) {
        g.windows.stride[i] = 1;
        g.windows.dilation[i] = p->apart[i];
        g.windows.padding[i] = -p->from[i];
    }
    g.windows.channels = inner;
    g.windows.place = c->results;
    g.windows.elements = clt_conv_rows(c) * c->results;
    return g;
}

static void next_begin(const clt_conv *c, int64_t begin[3])
{
    for (int i = 2; i >= 0; i--) {
        if (++begin[i] < c->s.stride[i] || i == 0)
            return;
        begin[i] = 0;
    }
}

/* With more phases than this, each product has too little work. */
#define MOST_PHASES 64

/* True if a row of positions has more elements than kernels can count in 32 bits. */
static bool is_wide(const clt_conv *c)
{
    const clt_spatial *s = &c->s;
    int64_t around = s->padding[2] + s->dilation[2] * s->kernel[2];
    int64_t image = (s->in[2] + around) * s->channels, result = (s->out[2] + around) * c->results;
    return image > INT32_MAX || result > INT32_MAX;
}

typedef bool product_test(const ocl_gemm *g, const ocl_device_desc *device, char *reason, size_t size);

/* Whether every product of the problem passes the test; else the test has written its reason. */
static bool all_products(const clt_conv *c, product_test *test, const ocl_device_desc *device, char *reason,
                         size_t size)
{
    if (c->kind != CLT_CONV_IMAGE) {
        ocl_gemm g = plain_product(c);
        return test(&g, device, reason, size);
    }
    for (int64_t begin[3] = {0}; begin[0] < c->s.stride[0]; next_begin(c, begin)) {
        phase p;
        if (!find_phase(c, begin, &p) || clt_spatial_volume(p.count) == 0)
            continue;
        ocl_gemm g = phase_product(c, &p, c->weight, c->image, CLT_F32);
        if (!test(&g, device, reason, size))
            return false;
    }
    return true;
}

static bool is_on_units(const ocl_gemm *g, const ocl_device_desc *device, char *reason, size_t size)
{
    (void)reason, (void)size;
    return ocl_gemm_is_on_units(g, device);
}

bool clt_conv_implicit_on_units(const clt_conv *c, const ocl_device_desc *device)
{
    return all_products(c, is_on_units, device, NULL, 0);
}

/* True if each product of the problem is accepted by some backend. */
static bool implicit_accepts(const clt_conv *c, const ocl_device_desc *device, char *reason, size_t size)
{
    const int64_t limit = INT64_C(1) << 20;
    if (clt_conv_is_pointwise(c)) {
        (void)snprintf(reason, size, "the windows have one element: the image itself is their matrix");
        return false;
    }
    if (c->bias >= 0 && (c->groups > 1 || c->kind == CLT_CONV_IMAGE)) {
        (void)snprintf(reason, size, "the product cannot add this bias (groups, or a gradient of the image)");
        return false;
    }
    for (int i = 0; i < 3; i++)
        if (c->s.in[i] >= limit || c->s.out[i] >= limit || c->s.dilation[i] * c->s.kernel[i] >= limit ||
            c->s.padding[i] >= limit || clt_conv_rows(c) > INT32_MAX || clt_conv_pixels(c) > INT32_MAX ||
            is_wide(c)) {
            (void)snprintf(reason, size, "the image is too large");
            return false;
        }
    if (c->kind == CLT_CONV_IMAGE && c->s.stride[0] * c->s.stride[1] * c->s.stride[2] > MOST_PHASES) {
        (void)snprintf(reason, size, "there are more than %d phases", MOST_PHASES);
        return false;
    }
    return all_products(c, ocl_gemm_is_possible, device, reason, size);
}

static void end(ocl_emitter *e, int64_t rows, int64_t channels, uint64_t items, clt_style style, double flops)
{
    uint64_t all = (uint64_t)rows * (style == CLT_STYLE_LANE ? 1 : (uint64_t)channels);
    ocl_kernel_end_1d(e, clt_div_up(all, items) * items, items, flops);
}

static int32_t emit_turned(ocl_emitter *e, const clt_conv *c, const phase *p)
{
    clt_style style = clt_style_of(e->device);
    int64_t inner = c->results / c->groups, per_group = c->s.channels / c->groups;
    int64_t taps = clt_spatial_volume(p->count), rows = c->groups * taps * inner;
    int32_t turned = ocl_workspace(e, c->type_weight, (uint64_t)(rows * per_group), "turned weight");
    ocl_kernel_begin(e, "conv_implicit", "conv_turn");
    uint64_t items = clt_define_group(e, style);
    clt_define_dtype(e, "DT", c->type_weight);
    ocl_arg_out(e, turned, c->type_weight, (uint64_t)(rows * per_group));
    ocl_arg_in(e, c->weight, c->type_weight, (uint64_t)(c->results * clt_conv_taps(c) * per_group));
    clt_arg_size32(e, c->groups, "groups");
    clt_arg_size32(e, inner, "channels");
    clt_arg_size32(e, per_group, "channels");
    for (int i = 0; i < 3; i++)
        clt_arg_size32(e, p->count[i], "elements of a window");
    for (int i = 0; i < 3; i++)
        ocl_arg_i32(e, (int32_t)p->first[i]);
    for (int i = 0; i < 3; i++)
        ocl_arg_i32(e, (int32_t)p->step[i]);
    for (int i = 0; i < 3; i++)
        clt_arg_size32(e, c->s.kernel[i], "elements of a window");
    end(e, rows, per_group, items, style, 0.0);
    return turned;
}

/* Emits the kernel that stores a phase, the tensor `from`, in the image; from < 0: no element of the window
 * belongs to the phase. */
static void emit_scatter(ocl_emitter *e, const clt_conv *c, const phase *p, int32_t from)
{
    clt_style style = clt_style_of(e->device);
    int64_t places = c->s.n * clt_spatial_volume(p->size), channels = c->s.channels;
    ocl_kernel_begin(e, "conv_implicit", "conv_scatter");
    uint64_t items = clt_define_group(e, style);
    clt_define_dtype(e, "GT", c->type_image);
    ocl_define(e, "EMPTY", from < 0);
    ocl_arg_grad(e, c->image, c->type_image, (uint64_t)(places * channels), c->accumulate);
    if (from >= 0)
        ocl_arg_in(e, from, CLT_F32, (uint64_t)(places * channels));
    ocl_arg_u64(e, (uint64_t)places);
    clt_arg_size32(e, channels, "channels");
    const int64_t *lists[] = {p->size, p->begin, c->s.stride, c->s.in};
    for (int l = 0; l < 4; l++)
        for (int i = 0; i < 3; i++)
            clt_arg_size32(e, lists[l][i], "places");
    end(e, places, channels, items, style, 0.0);
}

static clt_status emit_image(ocl_emitter *e, const clt_conv *c)
{
    bool single = c->s.stride[0] * c->s.stride[1] * c->s.stride[2] == 1;
    for (int64_t begin[3] = {0}; begin[0] < c->s.stride[0]; next_begin(c, begin)) {
        phase p;
        int32_t to = c->image;
        if (!find_phase(c, begin, &p))
            continue;
        if (clt_spatial_volume(p.count) == 0) {
            if (!c->accumulate)
                emit_scatter(e, c, &p, -1);
            continue;
        }
        if (!single)
            to = ocl_workspace(e, CLT_F32, (uint64_t)(c->s.n * clt_spatial_volume(p.size) * c->s.channels),
                               "a phase");
        int32_t turned = emit_turned(e, c, &p);
        ocl_gemm g = phase_product(c, &p, turned, to, single ? c->type_image : CLT_F32);
        g.beta = single && c->accumulate ? 1.0f : 0.0f;
        CLT_TRY(ocl_gemm_emit(e, &g, NULL));
        if (!single)
            emit_scatter(e, c, &p, to);
    }
    return ocl_emit_status(e);
}

static clt_status implicit_emit(ocl_emitter *e, const clt_conv *c)
{
    if (c->kind == CLT_CONV_IMAGE)
        return emit_image(e, c);
    ocl_gemm g = plain_product(c);
    g.moments = c->moments;
    return ocl_gemm_emit(e, &g, NULL);
}

const clt_conv_algorithm clt_conv_implicit = {.accepts = implicit_accepts, .emit = implicit_emit};
