/* SPDX-License-Identifier: Apache-2.0
 *
 * Double-precision references and cases of scale and cast. Knows formulas only. */
#include "engine/ops/case.h"

static void affine(clt_ref_call *call, double factor, double shift)
{
    int64_t n = clt_shape_elements(&call->in[0].shape);
    for (int64_t i = 0; i < n; i++)
        call->out[0].data[i] = call->in[0].data[i] * factor + shift;
}

static void affine_gradient(clt_ref_call *call, double factor)
{
    int64_t n = clt_shape_elements(&call->in[0].shape);
    for (int64_t i = 0; call->din[0].data && i < n; i++)
        call->din[0].data[i] += call->dout[0].data[i] * factor;
}

static void scale_forward(clt_ref_call *call)
{
    affine(call, clt_node_attr(call->node, "value")->f, clt_node_attr(call->node, "shift")->f);
}
static void scale_backward(clt_ref_call *call)
{
    affine_gradient(call, clt_node_attr(call->node, "value")->f);
}

/* The mean or std of element i of x, whose channels are dimension 1. */
static double of_channel(const clt_ref_call *call, const char *name, int64_t i)
{
    const clt_attr *attr = clt_node_attr(call->node, name);
    int64_t inner = 1;
    for (int d = 2; d < call->in[0].shape.ndim; d++)
        inner *= call->in[0].shape.dim[d];
    return attr->n_list == 1 ? attr->number[0] : attr->number[i / inner % call->in[0].shape.dim[1]];
}

static void cast_forward(clt_ref_call *call)
{
    int64_t n = clt_shape_elements(&call->in[0].shape);
    for (int64_t i = 0; i < n; i++)
        call->out[0].data[i] =
            (call->in[0].data[i] * clt_node_attr(call->node, "scale")->f - of_channel(call, "mean", i)) /
            of_channel(call, "std", i);
}
static void cast_backward(clt_ref_call *call)
{
    int64_t n = clt_shape_elements(&call->in[0].shape);
    for (int64_t i = 0; call->din[0].data && i < n; i++)
        call->din[0].data[i] +=
            call->dout[0].data[i] * clt_node_attr(call->node, "scale")->f / of_channel(call, "std", i);
}

static const clt_op_case scale_cases[] = {
    CLT_CASE("bf16", "{\"value\":0.37,\"shift\":0.1}", CLT_SMALL, CLT_CASE_FLOAT(CLT_BF16, 3, 83)),
    CLT_CASE("f16", "{\"value\":2,\"shift\":-3}", CLT_SMALL | CLT_EXACT, CLT_CASE_FLOAT(CLT_F16, 3, 28)),
    CLT_CASE("one", "{\"value\":-0.3}", CLT_SMALL, CLT_CASE_F32(1, 1)),
    CLT_CASE("tail", "{\"value\":2,\"shift\":-3}", CLT_SMALL | CLT_EXACT, CLT_CASE_F32(3, 17)),
    CLT_CASE("odd", "{\"value\":0.125,\"shift\":0.1}", 0, CLT_CASE_F32(5, 31, 33)),
    CLT_CASE("default", NULL, CLT_EXACT, CLT_CASE_F32(2, 1000)),
};

static const clt_op_case cast_cases[] = {
    CLT_CASE("u8", "{\"scale\":0.00392156862745098,\"mean\":0.1307,\"std\":0.3081}", CLT_SMALL,
             CLT_CASE_INDEX(CLT_U8, 256, 3, 5, 7)),
    CLT_CASE("u8_large", "{\"scale\":0.00392156862745098}", 0, CLT_CASE_INDEX(CLT_U8, 256, 17, 784)),
    CLT_CASE("u16", "{\"scale\":0.5,\"mean\":4}", 0, CLT_CASE_INDEX(CLT_U16, 65536, 3, 333)),
    /* integers below 2^24 convert exactly */
    CLT_CASE("i32", NULL, CLT_SMALL | CLT_EXACT, CLT_CASE_INDEX(CLT_I32, 1 << 24, 1, 33)),
    /* integers that f32 cannot hold exactly, while it can hold their differences from the mean */
    CLT_CASE("i32_offset", "{\"mean\":16777216}", CLT_SMALL | CLT_EXACT,
             CLT_CASE_INDEX(CLT_I32, 1 << 25, 3, 37)),
    CLT_CASE("u32_offset", "{\"scale\":0.25,\"mean\":4194304,\"std\":0.5}", CLT_EXACT,
             CLT_CASE_INDEX(CLT_U32, 1 << 25, 5, 1333)),
    CLT_CASE("channels_offset", "{\"mean\":[16777216,16777215,16777216],\"std\":[1,2,0.25]}",
             CLT_SMALL | CLT_EXACT, CLT_CASE_INDEX(CLT_I32, 1 << 25, 2, 3, 5, 7)),
    CLT_CASE("i32_far", "{\"mean\":1073741824.5,\"std\":0.3}", CLT_SMALL,
             CLT_CASE_INDEX(CLT_I32, 2147483647, 7, 333)),
    CLT_CASE("u16_far", "{\"scale\":0.001,\"mean\":60.0003,\"std\":0.0001}", CLT_SMALL,
             CLT_CASE_INDEX(CLT_U16, 65536, 5, 333)),
    CLT_CASE("f32", "{\"scale\":3,\"mean\":0.5,\"std\":0.25}", CLT_SMALL, CLT_CASE_F32(2, 33, 17)),
    CLT_CASE("channels",
             "{\"scale\":0.00392156862745098,\"mean\":[0.485,0.456,0.406],\"std\":[0.229,0.224,0.225]}",
             CLT_SMALL, CLT_CASE_INDEX(CLT_U8, 256, 2, 3, 5, 7)),
    CLT_CASE("channels_large", "{\"mean\":[1,2,3,4,5],\"std\":0.5}", CLT_EXACT,
             CLT_CASE_INDEX(CLT_U8, 256, 3, 5, 31, 67)),
    /* two items; the second one begins inside a channel and goes on in others */
    CLT_CASE("channels_f32", "{\"scale\":3,\"mean\":0.5,\"std\":[0.25,4]}", CLT_SMALL,
             CLT_CASE_F32(9, 2, 257)),
    CLT_CASE("channels_vector", "{\"mean\":[0.5,3],\"std\":[0.25,4]}", CLT_SMALL, CLT_CASE_F32(3, 2)),
};

static const clt_op_case scale_timed[] = {
    CLT_TIMED_3072("", "{\"value\":0.5}"),
};
static const clt_op_case cast_timed[] = {
    CLT_CASE("bf16_large", NULL, 0, CLT_CASE_FLOAT(CLT_BF16, 16, 512, 3072)),
    CLT_CASE("f16_large", NULL, 0, CLT_CASE_FLOAT(CLT_F16, 16, 512, 3072)),
    CLT_CASE("u8_large", NULL, 0, CLT_CASE_INDEX(CLT_U8, 256, 16, 512, 3072)),
};

/* One rounded factor, one rounded shift, one fused rounding. */
CLT_OP_REF(scale, scale_forward, scale_backward, scale_cases, .tolerance = 2, CLT_TIMED(scale_timed));
/* As for scale; after subtracting the mean, the result may be a few times smaller than the rounded
 * product. */
CLT_OP_REF(cast, cast_forward, cast_backward, cast_cases, .tolerance = 4, CLT_TIMED(cast_timed));
