/* SPDX-License-Identifier: Apache-2.0
 *
 * Double-precision references and cases of conv2d, conv3d and their transposed forms: the definition, one
 * product at a time. Images and results are (N,C,sizes...), weights (K,window...,C/groups). Knows formulas
 * only. */
#include "engine/ops/case.h"
#include "engine/ops/spatial/spatial.h"

typedef enum target { TO_RESULT, TO_IMAGE, TO_WEIGHT } target;

typedef struct convolution {
    clt_spatial s; /* s.channels: of the image */
    int64_t results, groups;
    double *image, *weight, *result;
    target to;
} convolution;

/* For one position of the result and one pair of channels: adds the product for each element of the window
 * to the tensor that `to` names. */
static void add_window(const convolution *d, int64_t n, int64_t k, int64_t c, const int64_t o[3])
{
    const clt_spatial *s = &d->s;
    int64_t per_group = s->channels / d->groups, t = 0;
    int64_t at = (((n * d->results + k) * s->out[0] + o[0]) * s->out[1] + o[1]) * s->out[2] + o[2];
    for (int64_t t0 = 0; t0 < s->kernel[0]; t0++)
        for (int64_t t1 = 0; t1 < s->kernel[1]; t1++)
            for (int64_t t2 = 0; t2 < s->kernel[2]; t2++, t++) {
                int64_t i0 = o[0] * s->stride[0] - s->padding[0] + t0 * s->dilation[0];
                int64_t i1 = o[1] * s->stride[1] - s->padding[1] + t1 * s->dilation[1];
                int64_t i2 = o[2] * s->stride[2] - s->padding[2] + t2 * s->dilation[2];
                if (i0 < 0 || i0 >= s->in[0] || i1 < 0 || i1 >= s->in[1] || i2 < 0 || i2 >= s->in[2])
                    continue;
                int64_t i = (((n * s->channels + c) * s->in[0] + i0) * s->in[1] + i1) * s->in[2] + i2;
                int64_t w = (k * clt_spatial_volume(s->kernel) + t) * per_group + c % per_group;
                if (d->to == TO_RESULT)
                    d->result[at] += d->image[i] * d->weight[w];
                else if (d->to == TO_IMAGE)
                    d->image[i] += d->result[at] * d->weight[w];
                else
                    d->weight[w] += d->result[at] * d->image[i];
            }
}

static void add_all(const convolution *d)
{
    const clt_spatial *s = &d->s;
    int64_t per_group = s->channels / d->groups, per_result = d->results / d->groups, o[3];
    for (int64_t n = 0; n < s->n; n++)
        for (int64_t k = 0; k < d->results; k++)
            for (int64_t c = k / per_result * per_group; c < (k / per_result + 1) * per_group; c++)
                for (o[0] = 0; o[0] < s->out[0]; o[0]++)
                    for (o[1] = 0; o[1] < s->out[1]; o[1]++)
                        for (o[2] = 0; o[2] < s->out[2]; o[2]++)
                            add_window(d, n, k, c, o);
}

static convolution measure(const clt_ref_call *call, const clt_shape *image, const clt_shape *result)
{
    convolution d = {.s = clt_spatial_of(call->node, image, false),
                     .results = result->dim[1],
                     .groups = clt_node_attr(call->node, "groups")->i};
    for (int i = CLT_SPATIAL_MAX - d.s.dims; i < CLT_SPATIAL_MAX; i++)
        d.s.out[i] = result->dim[2 + i - (CLT_SPATIAL_MAX - d.s.dims)];
    return d;
}

/* Overwrites y with the bias, or with zeros. */
static void start(clt_ref_call *call)
{
    const clt_shape *y = &call->out[0].shape;
    int64_t places = clt_shape_elements(y) / (y->dim[0] * y->dim[1]);
    for (int64_t i = 0; i < clt_shape_elements(y); i++)
        call->out[0].data[i] = call->n_param > 1 ? call->param[1].data[i / places % y->dim[1]] : 0.0;
}

static void bias_backward(clt_ref_call *call)
{
    const clt_shape *y = &call->dout[0].shape;
    int64_t places = clt_shape_elements(y) / (y->dim[0] * y->dim[1]);
    if (call->n_param > 1 && call->dparam[1].data)
        for (int64_t i = 0; i < clt_shape_elements(y); i++)
            call->dparam[1].data[i / places % y->dim[1]] += call->dout[0].data[i];
}

static void conv_forward(clt_ref_call *call)
{
    convolution d = measure(call, &call->in[0].shape, &call->out[0].shape);
    start(call);
    d.image = call->in[0].data, d.weight = call->param[0].data, d.result = call->out[0].data;
    d.to = TO_RESULT;
    add_all(&d);
}

static void conv_backward(clt_ref_call *call)
{
    convolution d = measure(call, &call->in[0].shape, &call->dout[0].shape);
    d.result = call->dout[0].data;
    if (call->din[0].data) {
        d.image = call->din[0].data, d.weight = call->param[0].data, d.to = TO_IMAGE;
        add_all(&d);
    }
    if (call->dparam[0].data) {
        d.image = call->in[0].data, d.weight = call->dparam[0].data, d.to = TO_WEIGHT;
        add_all(&d);
    }
    bias_backward(call);
}

static void transpose_forward(clt_ref_call *call)
{
    convolution d = measure(call, &call->out[0].shape, &call->in[0].shape);
    start(call);
    d.image = call->out[0].data, d.weight = call->param[0].data, d.result = call->in[0].data;
    d.to = TO_IMAGE;
    add_all(&d);
}

static void transpose_backward(clt_ref_call *call)
{
    convolution d = measure(call, &call->dout[0].shape, &call->in[0].shape);
    d.image = call->dout[0].data;
    if (call->din[0].data) {
        d.result = call->din[0].data, d.weight = call->param[0].data, d.to = TO_RESULT;
        add_all(&d);
    }
    if (call->dparam[0].data) {
        d.result = call->in[0].data, d.weight = call->dparam[0].data, d.to = TO_WEIGHT;
        add_all(&d);
    }
    bias_backward(call);
}

#define SMALL (CLT_SMALL | CLT_EXACT)
/* Gradients that use the second value of every tunable: the matrix of windows in chunks of 256 rows;
 * Winograd's tiles of 2 x 2, in chunks of as many tiles as fit into 4 MB. */
#define CHUNKS(case_name, attributes, is_small, ...)                                                         \
    {                                                                                                        \
        .name = case_name, .attrs = attributes, .n_inputs = 1, .inputs = {__VA_ARGS__}, .small = is_small,   \
        .exact = true, .tuned = 2                                                                            \
    }
#define CHUNK_ATTRS "{\"out\":16,\"kernel\":3,\"padding\":1}"
static const clt_op_case conv2d_cases[] = {
    CLT_CASE("one", "{\"out\":1,\"kernel\":1}", SMALL, CLT_CASE_F32(1, 1, 1, 1)),
    CLT_CASE("odd", "{\"out\":5,\"kernel\":3,\"padding\":1}", SMALL, CLT_CASE_F32(2, 3, 5, 7)),
    CLT_CASE("pointwise", "{\"out\":19,\"kernel\":1}", SMALL, CLT_CASE_F32(3, 21, 5, 4)),
    CLT_CASE("pointwise_groups", "{\"out\":6,\"kernel\":1,\"groups\":3}", SMALL, CLT_CASE_F32(2, 9, 3, 5)),
    CLT_CASE("stride", "{\"out\":4,\"kernel\":3,\"stride\":2,\"padding\":1,\"bias\":false}", SMALL,
             CLT_CASE_F32(2, 6, 8, 9)),
    CLT_CASE("pointwise_stride", "{\"out\":7,\"kernel\":1,\"stride\":2}", SMALL, CLT_CASE_F32(2, 18, 7, 6)),
    CLT_CASE("uneven", "{\"out\":3,\"kernel\":[2,5],\"stride\":[3,1],\"padding\":[1,2],\"dilation\":[2,1]}",
             SMALL, CLT_CASE_F32(2, 4, 11, 6)),
    CLT_CASE("dilation", "{\"out\":17,\"kernel\":3,\"padding\":2,\"dilation\":2}", CLT_EXACT,
             CLT_CASE_F32(2, 16, 9, 8)),
    CLT_CASE("groups", "{\"out\":8,\"kernel\":3,\"padding\":1,\"groups\":2}", SMALL,
             CLT_CASE_F32(2, 6, 5, 6)),
    CLT_CASE("depthwise", "{\"out\":35,\"kernel\":3,\"padding\":1,\"groups\":35}", SMALL,
             CLT_CASE_F32(2, 35, 6, 5)),
    CLT_CASE("depthwise_twice", "{\"out\":12,\"kernel\":[3,5],\"stride\":2,\"padding\":2,\"groups\":6}",
             SMALL, CLT_CASE_F32(1, 6, 9, 8)),
    CLT_CASE(
        "depthwise_uneven",
        "{\"out\":17,\"kernel\":[2,3],\"stride\":[1,2],\"padding\":[1,3],\"dilation\":[3,2],\"groups\":17}",
        SMALL, CLT_CASE_F32(2, 17, 8, 9)),
    CLT_CASE("depthwise_bf16", "{\"out\":34,\"kernel\":[3,2],\"padding\":[0,1],\"groups\":17,\"bias\":false}",
             CLT_EXACT, CLT_CASE_FLOAT(CLT_BF16, 2, 17, 6, 5)),
    /* Winograd's tiles with another padding in each dimension; vectors of channels, and a rest */
    CLT_CASE("uneven_padding", "{\"out\":33,\"kernel\":3,\"padding\":[0,2]}", SMALL,
             CLT_CASE_F32(2, 5, 9, 9)),
    CHUNKS("chunks", CHUNK_ATTRS, true, CLT_CASE_F32(2, 3, 19, 17)),
    CHUNKS("more_chunks", CHUNK_ATTRS, false, CLT_CASE_F32(2, 16, 64, 66)),
    /* sums above 256, which bf16 must round once only; several samples in a chunk, and several chunks for a
     * sample */
    CHUNKS("chunks_bf16", "{\"out\":256,\"kernel\":3,\"padding\":1}", false,
           CLT_CASE_FLOAT(CLT_BF16, 2, 3, 19, 17)),
    CHUNKS("samples_bf16", "{\"out\":256,\"kernel\":3,\"padding\":1}", false,
           CLT_CASE_FLOAT(CLT_BF16, 7, 3, 8, 10)),
    CLT_CASE("large_window", "{\"out\":2,\"kernel\":7,\"stride\":2,\"padding\":3,\"bias\":false}", CLT_EXACT,
             CLT_CASE_F32(2, 3, 17, 15)),
    CLT_CASE("whole_image", "{\"out\":5,\"kernel\":[4,6]}", SMALL, CLT_CASE_F32(3, 2, 4, 6)),
    CLT_CASE("wide_padding", "{\"out\":3,\"kernel\":2,\"padding\":3}", SMALL, CLT_CASE_F32(1, 2, 2, 3)),
    CLT_CASE("vectors", "{\"out\":48,\"kernel\":3,\"padding\":1}", CLT_EXACT, CLT_CASE_F32(2, 32, 10, 9)),
    /* Winograd's tiles of 4 places: the last ones end one place beyond the image */
    CLT_CASE("multiples_of_4", "{\"out\":33,\"kernel\":3,\"padding\":1}", 0, CLT_CASE_F32(2, 34, 12, 12)),
    CLT_CASE("tails", "{\"out\":37,\"kernel\":3,\"padding\":1}", CLT_EXACT, CLT_CASE_F32(3, 41, 13, 11)),
    CLT_CASE("groups_plain", "{\"out\":12,\"kernel\":3,\"padding\":1,\"groups\":2,\"bias\":false}", SMALL,
             CLT_CASE_F32(2, 8, 5, 6)),
    CLT_CASE(
        "phases",
        "{\"out\":20,\"kernel\":[3,4],\"stride\":[2,3],\"padding\":[1,2],\"dilation\":[3,2],\"bias\":false}",
        SMALL, CLT_CASE_F32(2, 19, 14, 13)),
    CLT_CASE("empty_phases", "{\"out\":17,\"kernel\":1,\"stride\":[2,3],\"bias\":false}", SMALL,
             CLT_CASE_F32(2, 24, 5, 7)),
    CLT_CASE("f16", "{\"out\":24,\"kernel\":3,\"stride\":2,\"padding\":1,\"bias\":false}", SMALL,
             CLT_CASE_FLOAT(CLT_F16, 2, 16, 11, 10)),
    CLT_CASE("f16_odd", "{\"out\":17,\"kernel\":[3,2],\"stride\":[1,2],\"padding\":[2,0],\"dilation\":[2,1]}",
             SMALL, CLT_CASE_FLOAT(CLT_F16, 2, 5, 7, 9)),
    CLT_CASE("f16_vectors", "{\"out\":20,\"kernel\":3,\"padding\":1}",
             SMALL, /* vectors that begin at any element */
             CLT_CASE_FLOAT(CLT_F16, 2, 18, 6, 7)),
    CLT_CASE("bf16", "{\"out\":16,\"kernel\":3,\"padding\":1}", SMALL, CLT_CASE_FLOAT(CLT_BF16, 2, 24, 6, 7)),
    CLT_CASE("bf16_groups", "{\"out\":24,\"kernel\":3,\"padding\":1,\"groups\":3,\"bias\":false}", CLT_EXACT,
             CLT_CASE_FLOAT(CLT_BF16, 2, 24, 6, 7)),
    CLT_CASE_DEEP("equal", "{\"out\":5,\"kernel\":1}", CLT_CASE_F32(1, 4, 200, 101)),
    CLT_CASE_DEEP("equal_column", "{\"out\":2,\"kernel\":1}", CLT_CASE_F32(1, 3, 200, 101)),
    CLT_CASE_DEEP("equal_windows", "{\"out\":4,\"kernel\":3}", CLT_CASE_F32(1, 4, 200, 101)),
    CLT_CASE_DEEP("equal_depthwise", "{\"out\":2,\"kernel\":3,\"groups\":2}", CLT_CASE_F32(1, 2, 66, 16386)),
    CLT_CASE_DEEP("equal_depthwise_rows", "{\"out\":2,\"kernel\":[2,1],\"groups\":2}",
                  CLT_CASE_F32(1, 2, 66003, 1)),
    CLT_CASE("deep", "{\"out\":20,\"kernel\":3,\"stride\":2,\"padding\":1}", CLT_EXACT,
             CLT_CASE_F32(2, 96, 7, 7)),
};
#define DISTINCT "\"kernel\":[2,3,4],\"stride\":[3,2,1],\"padding\":[1,0,2],\"dilation\":[3,1,2]"
static const clt_op_case conv3d_cases[] = {
    CLT_CASE("odd", "{\"out\":5,\"kernel\":3,\"padding\":1}", SMALL, CLT_CASE_F32(2, 3, 3, 5, 4)),
    CLT_CASE("pointwise", "{\"out\":9,\"kernel\":1}", SMALL, CLT_CASE_F32(2, 5, 3, 2, 4)),
    CLT_CASE("uneven",
             "{\"out\":4,\"kernel\":[1,3,2],\"stride\":[1,2,3],\"padding\":[0,1,2],\"dilation\":[1,2,1]}",
             SMALL, CLT_CASE_F32(2, 6, 2, 7, 5)),
    CLT_CASE("groups", "{\"out\":6,\"kernel\":[2,3,3],\"padding\":[1,0,2],\"groups\":3,\"bias\":false}",
             SMALL, CLT_CASE_F32(1, 9, 4, 4, 5)),
    CLT_CASE("depthwise", "{\"out\":16,\"kernel\":3,\"padding\":1,\"groups\":16}", SMALL,
             CLT_CASE_F32(1, 16, 3, 4, 3)),
    /* chunks of some planes of a sample: windows that overlap, and windows with gaps between them */
    CHUNKS("chunks", "{\"out\":5,\"kernel\":3,\"padding\":1}", false, CLT_CASE_F32(2, 3, 7, 9, 8)),
    CHUNKS("chunks_bf16", "{\"out\":96,\"kernel\":[3,2,3],\"padding\":[2,0,1],\"dilation\":[2,1,1]}", false,
           CLT_CASE_FLOAT(CLT_BF16, 2, 3, 8, 9, 8)),
    CHUNKS("gaps", "{\"out\":4,\"kernel\":2,\"stride\":3}", false, CLT_CASE_F32(1, 2, 24, 22, 22)),
    /* every property differs between the dimensions */
    CLT_CASE("distinct", "{\"out\":5," DISTINCT "}", SMALL, CLT_CASE_F32(2, 3, 8, 6, 5)),
    CLT_CASE("distinct_depthwise", "{\"out\":17,\"groups\":17," DISTINCT "}", SMALL,
             CLT_CASE_F32(2, 17, 8, 6, 5)),
    CLT_CASE("stride", "{\"out\":33,\"kernel\":3,\"stride\":2,\"padding\":1}", CLT_EXACT,
             CLT_CASE_F32(2, 17, 6, 7, 9)),
    CLT_CASE("f16", "{\"out\":16,\"kernel\":3,\"padding\":1,\"bias\":false}", CLT_EXACT,
             CLT_CASE_FLOAT(CLT_F16, 1, 16, 4, 5, 6)),
};
static const clt_op_case transpose2d_cases[] = {
    CLT_CASE("f16", "{\"out\":8,\"kernel\":2,\"stride\":2,\"bias\":false}", SMALL,
             CLT_CASE_FLOAT(CLT_F16, 2, 16, 3, 4)),
    CLT_CASE("double", "{\"out\":3,\"kernel\":2,\"stride\":2}", SMALL, CLT_CASE_F32(2, 5, 3, 4)),
    CLT_CASE("pointwise", "{\"out\":7,\"kernel\":1}", SMALL, CLT_CASE_F32(2, 4, 3, 5)),
    CLT_CASE("uneven",
             "{\"out\":4,\"kernel\":[3,4],\"stride\":[2,3],\"padding\":[1,2],\"output_padding\":[1,2]}",
             SMALL, CLT_CASE_F32(2, 6, 4, 3)),
    CLT_CASE("dilation", "{\"out\":18,\"kernel\":3,\"dilation\":[2,3],\"bias\":false}", CLT_EXACT,
             CLT_CASE_F32(1, 17, 4, 5)),
    CLT_CASE("groups", "{\"out\":6,\"kernel\":3,\"stride\":2,\"padding\":1,\"groups\":2}", SMALL,
             CLT_CASE_F32(2, 4, 5, 4)),
    CLT_CASE("wide_groups", "{\"out\":36,\"kernel\":3,\"stride\":2,\"padding\":1,\"groups\":2}", CLT_EXACT,
             CLT_CASE_F32(2, 32, 5, 4)),
    CLT_CASE(
        "depthwise_uneven",
        "{\"out\":17,\"kernel\":[2,3],\"stride\":[1,2],\"padding\":[1,3],\"dilation\":[3,2],\"groups\":17}",
        SMALL, CLT_CASE_F32(2, 17, 6, 5)),
    CLT_CASE("three_groups", "{\"out\":48,\"kernel\":2,\"stride\":2,\"groups\":3}", SMALL,
             CLT_CASE_F32(1, 51, 3, 5)),
    CLT_CASE("wider_output", "{\"out\":5,\"kernel\":1,\"dilation\":2,\"output_padding\":1,\"bias\":false}",
             SMALL, CLT_CASE_F32(2, 6, 3, 4)),
    {.name = "chunks_bf16",
     .attrs = "{\"out\":3,\"kernel\":3,\"padding\":1}",
     .n_inputs = 1,
     .inputs = {CLT_CASE_FLOAT(CLT_BF16, 2, 256, 19, 17)},
     .exact = true,
     .tuned = 2,
     .tuned_forward = true},
    CLT_CASE("patches", "{\"out\":4,\"kernel\":[9,10],\"stride\":[9,10]}", CLT_EXACT,
             CLT_CASE_F32(2, 5, 3, 2)),
};
static const clt_op_case transpose3d_cases[] = {
    CLT_CASE("distinct", "{\"out\":5," DISTINCT "}", SMALL, CLT_CASE_F32(2, 3, 3, 4, 5)),
    CLT_CASE("distinct_depthwise", "{\"out\":17,\"groups\":17," DISTINCT "}", SMALL,
             CLT_CASE_F32(2, 17, 3, 4, 5)),
    CLT_CASE("deeper_output",
             "{\"out\":16,\"kernel\":[1,3,3],\"dilation\":[2,1,1],\"output_padding\":[1,0,0],\"bias\":false}",
             CLT_EXACT, CLT_CASE_F32(2, 16, 2, 5, 5)),
    CLT_CASE("double", "{\"out\":3,\"kernel\":2,\"stride\":2}", SMALL, CLT_CASE_F32(2, 4, 2, 3, 2)),
    CLT_CASE("wide_groups", "{\"out\":32,\"kernel\":[1,3,2],\"stride\":2,\"groups\":2}", CLT_EXACT,
             CLT_CASE_F32(1, 34, 2, 3, 3)),
    CLT_CASE("uneven", "{\"out\":17,\"kernel\":[1,3,2],\"stride\":[1,2,1],\"padding\":[0,1,0]}", CLT_EXACT,
             CLT_CASE_F32(2, 16, 2, 4, 3)),
    {.name = "chunks_f16",
     .attrs = "{\"out\":17,\"kernel\":2,\"stride\":2}",
     .n_inputs = 1,
     .inputs = {CLT_CASE_FLOAT(CLT_F16, 2, 8, 9, 8, 7)},
     .exact = true,
     .tuned = 2,
     .tuned_forward = true},
};

/* Layers of ResNet-50, with eight images of 224 x 224. */
static const clt_op_case conv2d_timed[] = {
    CLT_CASE("stem", "{\"out\":64,\"kernel\":7,\"stride\":2,\"padding\":3,\"bias\":false}", 0,
             CLT_CASE_F32(8, 3, 224, 224)),
    CLT_CASE("56_3x3", "{\"out\":64,\"kernel\":3,\"padding\":1,\"bias\":false}", 0,
             CLT_CASE_F32(8, 64, 56, 56)),
    CLT_CASE("56_expand", "{\"out\":256,\"kernel\":1,\"bias\":false}", 0, CLT_CASE_F32(8, 64, 56, 56)),
    CLT_CASE("56_stride", "{\"out\":128,\"kernel\":3,\"stride\":2,\"padding\":1,\"bias\":false}", 0,
             CLT_CASE_F32(8, 128, 56, 56)),
    CLT_CASE("28_3x3", "{\"out\":128,\"kernel\":3,\"padding\":1,\"bias\":false}", 0,
             CLT_CASE_F32(8, 128, 28, 28)),
    CLT_CASE("28_shortcut", "{\"out\":1024,\"kernel\":1,\"stride\":2,\"bias\":false}", 0,
             CLT_CASE_F32(8, 512, 28, 28)),
    CLT_CASE("14_3x3", "{\"out\":256,\"kernel\":3,\"padding\":1,\"bias\":false}", 0,
             CLT_CASE_F32(8, 256, 14, 14)),
    CLT_CASE("14_reduce", "{\"out\":256,\"kernel\":1,\"bias\":false}", 0, CLT_CASE_F32(8, 1024, 14, 14)),
    CLT_CASE("7_3x3", "{\"out\":512,\"kernel\":3,\"padding\":1,\"bias\":false}", 0,
             CLT_CASE_F32(8, 512, 7, 7)),
    CLT_CASE("depthwise", "{\"out\":256,\"kernel\":3,\"padding\":1,\"groups\":256,\"bias\":false}", 0,
             CLT_CASE_F32(8, 256, 28, 28)),
};
static const clt_op_case conv3d_timed[] = {
    CLT_CASE("volume", "{\"out\":32,\"kernel\":3,\"padding\":1,\"bias\":false}", 0,
             CLT_CASE_F32(1, 32, 64, 64, 64)),
};
static const clt_op_case transpose2d_timed[] = {
    CLT_CASE("double", "{\"out\":64,\"kernel\":2,\"stride\":2}", 0, CLT_CASE_F32(2, 128, 64, 64)),
};
static const clt_op_case transpose3d_timed[] = {
    CLT_CASE("double", "{\"out\":32,\"kernel\":2,\"stride\":2}", 0, CLT_CASE_F32(1, 64, 32, 32, 32)),
};

#define CONV_REF(word, way, list)                                                                            \
    CLT_OP_REF(word, way##_forward, way##_backward, list##_cases, .tolerance = 32, CLT_TIMED(list##_timed))
CONV_REF(conv2d, conv, conv2d);
CONV_REF(conv3d, conv, conv3d);
CONV_REF(conv_transpose2d, transpose, transpose2d);
CONV_REF(conv_transpose3d, transpose, transpose3d);
