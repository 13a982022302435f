/* SPDX-License-Identifier: Apache-2.0
 *
 * Double-precision reference and cases of swiglu. Knows formulas only. */
#include <math.h>

#include "engine/ops/case.h"

static void swiglu_forward(clt_ref_call *call)
{
    int64_t n = clt_shape_elements(&call->out[0].shape);
    for (int64_t i = 0; i < n; i++) {
        double gate = call->in[0].data[i];
        call->out[0].data[i] = gate / (1 + exp(-gate)) * call->in[1].data[i];
    }
}

static void swiglu_backward(clt_ref_call *call)
{
    int64_t n = clt_shape_elements(&call->in[0].shape);
    for (int64_t i = 0; i < n; i++) {
        double gate = call->in[0].data[i], dy = call->dout[0].data[i], s = 1 / (1 + exp(-gate));
        if (call->din[0].data)
            call->din[0].data[i] += dy * call->in[1].data[i] * s * (1 + gate * (1 - s));
        if (call->din[1].data)
            call->din[1].data[i] += dy * gate * s;
    }
}

static const clt_op_case swiglu_cases[] = {
    CLT_CASE("one", NULL, CLT_SMALL, CLT_CASE_F32(1, 1), CLT_CASE_F32(1, 1)),
    CLT_CASE("tail", NULL, CLT_SMALL, CLT_CASE_F32(3, 17), CLT_CASE_F32(3, 17)),
    CLT_CASE("far", NULL, CLT_SMALL, CLT_CASE_WIDE(CLT_F32, 3, 67), CLT_CASE_F32(3, 67)),
    CLT_CASE("bf16", NULL, CLT_SMALL, CLT_CASE_FLOAT(CLT_BF16, 3, 29), CLT_CASE_FLOAT(CLT_BF16, 3, 29)),
    CLT_CASE("f16", NULL, CLT_SMALL, CLT_CASE_FLOAT(CLT_F16, 5, 33), CLT_CASE_FLOAT(CLT_F16, 5, 33)),
    CLT_CASE("nan", NULL, CLT_SMALL, CLT_CASE_NAN(CLT_F32, 3, 31), CLT_CASE_F32(3, 31)),
    CLT_CASE("large", NULL, 0, CLT_CASE_F32(2, 3, 41, 67), CLT_CASE_F32(2, 3, 41, 67)),
};

static const clt_op_case swiglu_timed[] = {
    CLT_CASE("llama_135m", NULL, 0, CLT_CASE_F32(4, 256, 1536), CLT_CASE_F32(4, 256, 1536)),
};

/* exp within 1 ulp, a division, and two or three products. */
CLT_OP_REF(swiglu, swiglu_forward, swiglu_backward, swiglu_cases, .tolerance = 16, CLT_TIMED(swiglu_timed));
