/* SPDX-License-Identifier: Apache-2.0
 *
 * Double-precision reference and test cases of positional. */
#include "engine/ops/case.h"

static void positional_forward(clt_ref_call *call)
{
    const clt_shape *x = &call->in[0].shape;
    int64_t sample = x->dim[1] * x->dim[2];
    for (int64_t i = 0; i < x->dim[0] * sample; i++)
        call->out[0].data[i] = call->in[0].data[i] + call->param[0].data[i % sample];
}

static void positional_backward(clt_ref_call *call)
{
    const clt_shape *x = &call->in[0].shape;
    int64_t sample = x->dim[1] * x->dim[2];
    for (int64_t i = 0; i < x->dim[0] * sample; i++) {
        if (call->din[0].data)
            call->din[0].data[i] += call->dout[0].data[i];
        if (call->dparam[0].data)
            call->dparam[0].data[i % sample] += call->dout[0].data[i];
    }
}

/* One addition forward; backward a sum of at most 131 values: sqrt(131) = 11. */
static const clt_op_case positional_cases[] = {
    CLT_CASE("bf16", "{\"positions\":9}", CLT_SMALL | CLT_EXACT, CLT_CASE_FLOAT(CLT_BF16, 5, 7, 20)),
    CLT_CASE("one", "{\"positions\":1}", CLT_SMALL | CLT_EXACT, CLT_CASE_F32(1, 1, 1)),
    CLT_CASE("odd", "{\"positions\":7}", CLT_SMALL | CLT_EXACT, CLT_CASE_F32(3, 7, 5)),
    CLT_CASE("shorter", "{\"positions\":19}", CLT_SMALL | CLT_EXACT, CLT_CASE_F32(4, 6, 17)),
    CLT_CASE("many_samples", "{\"positions\":9}", CLT_EXACT, CLT_CASE_F32(131, 9, 3)),
    CLT_CASE("characters", "{\"positions\":64}", CLT_EXACT, CLT_CASE_F32(12, 64, 128)),
};

static const clt_op_case positional_timed[] = {
    CLT_TIMED_768("", "{\"positions\":512}"),
};

CLT_OP_REF(positional, positional_forward, positional_backward, positional_cases, .tolerance = 16,
           CLT_TIMED(positional_timed));
