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
    {.name = "bf16",
     .attrs = "{\"positions\":9}",
     .n_inputs = 1,
     .inputs = {CLT_CASE_FLOAT(CLT_BF16, 5, 7, 20)},
     .exact = true,
     .small = true},
    {.name = "one",
     .attrs = "{\"positions\":1}",
     .n_inputs = 1,
     .inputs = {CLT_CASE_F32(1, 1, 1)},
     .exact = true,
     .small = true},
    {.name = "odd",
     .attrs = "{\"positions\":7}",
     .n_inputs = 1,
     .inputs = {CLT_CASE_F32(3, 7, 5)},
     .exact = true,
     .small = true},
    {.name = "shorter",
     .attrs = "{\"positions\":19}",
     .n_inputs = 1,
     .inputs = {CLT_CASE_F32(4, 6, 17)},
     .exact = true,
     .small = true},
    {.name = "many_samples",
     .attrs = "{\"positions\":9}",
     .n_inputs = 1,
     .inputs = {CLT_CASE_F32(131, 9, 3)},
     .exact = true},
    {.name = "characters",
     .attrs = "{\"positions\":64}",
     .n_inputs = 1,
     .inputs = {CLT_CASE_F32(12, 64, 128)},
     .exact = true},
};

static const clt_op_case positional_timed[] = {
    CLT_TIMED_768("", "{\"positions\":512}"),
};

extern const clt_op_ref clt_op_positional_ref;
const clt_op_ref clt_op_positional_ref = {
    positional_forward,         positional_backward, positional_cases, CLT_CASE_COUNT(positional_cases), 16,
    CLT_TIMED(positional_timed)};
