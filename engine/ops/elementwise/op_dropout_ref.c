/* SPDX-License-Identifier: Apache-2.0
 *
 * Double-precision reference and cases of dropout; the mask comes from the host's generator. Knows formulas
 * only. */
#include "engine/base/rng.h"
#include "engine/ops/case.h"

/* The dropout factor of element i of the micro-batch. */
static double dropout_factor(const clt_ref_call *call, int64_t i)
{
    const clt_shape *shape = &call->in[0].shape;
    double p = clt_node_attr(call->node, "p")->f;
    if (!call->training)
        return 1;
    int64_t n = clt_shape_elements(shape);
    uint64_t per_sample = (uint64_t)(shape->ndim ? n / shape->dim[0] : n);
    uint64_t index = call->sample_base * per_sample + (uint64_t)i;
    uint32_t word = clt_rng_u32(call->seed, CLT_RNG_DROPOUT, call->op_id, call->step, index);
    return clt_rng_uniform(word) >= (float)p ? 1 / (1 - p) : 0;
}

static void dropout_forward(clt_ref_call *call)
{
    int64_t n = clt_shape_elements(&call->in[0].shape);
    for (int64_t i = 0; i < n; i++)
        call->out[0].data[i] = call->in[0].data[i] * dropout_factor(call, i);
}

static void dropout_backward(clt_ref_call *call)
{
    int64_t n = clt_shape_elements(&call->in[0].shape);
    for (int64_t i = 0; call->din[0].data && i < n; i++)
        call->din[0].data[i] += call->dout[0].data[i] * dropout_factor(call, i);
}

static const clt_op_case dropout_cases[] = {
    {.name = "odd",
     .attrs = "{\"p\":0.3}",
     .n_inputs = 1,
     .inputs = {CLT_CASE_F32(5, 17)},
     .small = true,
     .four_starts = true},
    CLT_CASE("half", "{\"p\":0.5}", CLT_SMALL | CLT_EXACT, CLT_CASE_F32(3, 7, 11)),
    CLT_CASE("none", "{\"p\":0}", CLT_EXACT, CLT_CASE_F32(3, 5)),
    /* some blocks remain after the vectors of eight blocks, and the last block is partial */
    {.name = "edge",
     .attrs = "{\"p\":0.5}",
     .n_inputs = 1,
     .inputs = {CLT_CASE_F32(5, 19)},
     .exact = true,
     .small = true,
     .four_starts = true},
    CLT_CASE("most", "{\"p\":0.9}", 0, CLT_CASE_F32(2, 1000)),
    CLT_CASE("blocks", "{\"p\":0.5}", CLT_EXACT, CLT_CASE_F32(5, 4100)),
    CLT_CASE("groups", "{\"p\":0.5}", CLT_EXACT, CLT_CASE_F32(3, 11003)),
    CLT_CASE("bf16", "{\"p\":0.2}", CLT_SMALL, CLT_CASE_FLOAT(CLT_BF16, 3, 131)),
    CLT_CASE("f16", "{\"p\":0.2}", CLT_SMALL, CLT_CASE_FLOAT(CLT_F16, 3, 132)),
    CLT_CASE("large", "{\"p\":0.1}", 0, CLT_CASE_F32(3, 33, 257)),
};

static const clt_op_case dropout_timed[] = {
    CLT_TIMED_3072("", "{\"p\":0.1}"),
};

/* A rounded factor and one product. */
CLT_OP_REF(dropout, dropout_forward, dropout_backward, dropout_cases, .tolerance = 2,
           CLT_TIMED(dropout_timed));
