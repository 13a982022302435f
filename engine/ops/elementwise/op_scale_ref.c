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

static void cast_forward(clt_ref_call *call)
{
    double std = clt_node_attr(call->node, "std")->f;
    affine(call, clt_node_attr(call->node, "scale")->f / std, -clt_node_attr(call->node, "mean")->f / std);
}
static void cast_backward(clt_ref_call *call)
{
    affine_gradient(call, clt_node_attr(call->node, "scale")->f / clt_node_attr(call->node, "std")->f);
}

static const clt_op_case scale_cases[] = {
    {.name = "bf16",
     .attrs = "{\"value\":0.37,\"shift\":0.1}",
     .n_inputs = 1,
     .inputs = {CLT_CASE_FLOAT(CLT_BF16, 3, 83)},
     .small = true},
    {.name = "f16",
     .attrs = "{\"value\":2,\"shift\":-3}",
     .n_inputs = 1,
     .inputs = {CLT_CASE_FLOAT(CLT_F16, 3, 28)},
     .exact = true,
     .small = true},
    {.name = "one",
     .attrs = "{\"value\":-0.3}",
     .n_inputs = 1,
     .inputs = {CLT_CASE_F32(1, 1)},
     .small = true},
    {.name = "tail",
     .attrs = "{\"value\":2,\"shift\":-3}",
     .n_inputs = 1,
     .inputs = {CLT_CASE_F32(3, 17)},
     .exact = true,
     .small = true},
    {.name = "odd",
     .attrs = "{\"value\":0.125,\"shift\":0.1}",
     .n_inputs = 1,
     .inputs = {CLT_CASE_F32(5, 31, 33)}},
    {.name = "default", .n_inputs = 1, .inputs = {CLT_CASE_F32(2, 1000)}, .exact = true},
};

static const clt_op_case cast_cases[] = {
    {.name = "u8",
     .attrs = "{\"scale\":0.00392156862745098,\"mean\":0.1307,\"std\":0.3081}",
     .n_inputs = 1,
     .inputs = {CLT_CASE_INDEX(CLT_U8, 256, 3, 5, 7)},
     .small = true},
    {.name = "u8_large",
     .attrs = "{\"scale\":0.00392156862745098}",
     .n_inputs = 1,
     .inputs = {CLT_CASE_INDEX(CLT_U8, 256, 17, 784)}},
    {.name = "u16",
     .attrs = "{\"scale\":0.5,\"mean\":4}",
     .n_inputs = 1,
     .inputs = {CLT_CASE_INDEX(CLT_U16, 65536, 3, 333)}},
    /* Numbers below 2^24 convert exactly. */
    {.name = "i32",
     .n_inputs = 1,
     .inputs = {CLT_CASE_INDEX(CLT_I32, 1 << 24, 1, 33)},
     .exact = true,
     .small = true},
    {.name = "f32",
     .attrs = "{\"scale\":3,\"mean\":0.5,\"std\":0.25}",
     .n_inputs = 1,
     .inputs = {CLT_CASE_F32(2, 33, 17)},
     .small = true},
};

static const clt_op_case scale_timed[] = {
    CLT_TIMED_3072("", "{\"value\":0.5}"),
};
static const clt_op_case cast_timed[] = {
    CLT_TIMED_ONE("bf16_large", NULL, CLT_CASE_FLOAT(CLT_BF16, 16, 512, 3072)),
    CLT_TIMED_ONE("f16_large", NULL, CLT_CASE_FLOAT(CLT_F16, 16, 512, 3072)),
    CLT_TIMED_ONE("u8_large", NULL, CLT_CASE_INDEX(CLT_U8, 256, 16, 512, 3072)),
};

/* One rounded factor, one rounded shift, one fused rounding. */
const clt_op_ref clt_op_scale_ref = {
    scale_forward, scale_backward, scale_cases, CLT_CASE_COUNT(scale_cases), 2, CLT_TIMED(scale_timed)};
/* As scale; products of large fields may be a few times the result they are measured against, after the mean
 * is taken off. */
const clt_op_ref clt_op_cast_ref = {
    cast_forward, cast_backward, cast_cases, CLT_CASE_COUNT(cast_cases), 4, CLT_TIMED(cast_timed)};
