/* SPDX-License-Identifier: Apache-2.0
 *
 * Double-precision references and cases of add and multiply. Knows formulas only. */
#include "engine/ops/case.h"

static int64_t elements_of(const clt_ref_tensor *t)
{
    return clt_shape_elements(&t->shape);
}

static void add_forward(clt_ref_call *call)
{
    int64_t n = elements_of(&call->out[0]);
    for (int64_t i = 0; i < n; i++) {
        double sum = 0;
        for (int k = 0; k < call->n_in; k++)
            sum += call->in[k].data[i % elements_of(&call->in[k])];
        call->out[0].data[i] = sum;
    }
}

static void add_backward(clt_ref_call *call)
{
    int64_t n = elements_of(&call->out[0]);
    for (int k = 0; k < call->n_in; k++)
        for (int64_t i = 0; call->din[k].data && i < n; i++)
            call->din[k].data[i % elements_of(&call->in[k])] += call->dout[0].data[i];
}

static void multiply_forward(clt_ref_call *call)
{
    int64_t n = elements_of(&call->in[0]), period = elements_of(&call->in[1]);
    for (int64_t i = 0; i < n; i++)
        call->out[0].data[i] = call->in[0].data[i] * call->in[1].data[i % period];
}

static void multiply_backward(clt_ref_call *call)
{
    int64_t n = elements_of(&call->in[0]), period = elements_of(&call->in[1]);
    for (int64_t i = 0; i < n; i++) {
        if (call->din[0].data)
            call->din[0].data[i] += call->dout[0].data[i] * call->in[1].data[i % period];
        if (call->din[1].data)
            call->din[1].data[i % period] += call->dout[0].data[i] * call->in[0].data[i];
    }
}

#define SEVEN(type)                                                                                          \
    CLT_CASE_FLOAT(type, 9, 13), CLT_CASE_FLOAT(type, 9, 13), CLT_CASE_FLOAT(type, 13),                      \
        CLT_CASE_FLOAT(type, 9, 13), CLT_CASE_FLOAT(type, 9, 13), CLT_CASE_FLOAT(type, 13),                  \
        CLT_CASE_FLOAT(type, 9, 13)
static const clt_op_case add_cases[] = {
    CLT_CASE("bf16", NULL, CLT_SMALL | CLT_EXACT, CLT_CASE_FLOAT(CLT_BF16, 5, 55),
             CLT_CASE_FLOAT(CLT_BF16, 5, 55)),
    CLT_CASE("f16_row", NULL, CLT_SMALL | CLT_EXACT, CLT_CASE_FLOAT(CLT_F16, 70, 67),
             CLT_CASE_FLOAT(CLT_F16, 67)),
    CLT_CASE("one", NULL, CLT_SMALL | CLT_EXACT, CLT_CASE_F32(1, 1), CLT_CASE_F32(1, 1)),
    CLT_CASE("odd", NULL, CLT_SMALL | CLT_EXACT, CLT_CASE_F32(3, 5, 17), CLT_CASE_F32(3, 5, 17)),
    CLT_CASE("row", NULL, CLT_SMALL | CLT_EXACT, CLT_CASE_F32(3, 5, 17), CLT_CASE_F32(17)),
    CLT_CASE("matrix", NULL, CLT_EXACT, CLT_CASE_F32(5, 31, 33), CLT_CASE_F32(31, 33)),
    CLT_CASE("long_row", NULL, CLT_EXACT, CLT_CASE_F32(257, 70), CLT_CASE_F32(70)),
    CLT_CASE("single", NULL, CLT_EXACT, CLT_CASE_F32(3, 33, 1), CLT_CASE_F32(1)),
    CLT_CASE("three", NULL, CLT_EXACT, CLT_CASE_F32(1, 1030), CLT_CASE_F32(1, 1030), CLT_CASE_F32(1030)),
    CLT_CASE("seven", NULL, CLT_SMALL | CLT_EXACT, CLT_CASE_F32(9, 13), CLT_CASE_F32(9, 13), CLT_CASE_F32(13),
             CLT_CASE_F32(9, 13), CLT_CASE_F32(9, 13), CLT_CASE_F32(13), CLT_CASE_F32(9, 13)),
    /* several launches, whose partial sums must not be rounded to 16 bits */
    CLT_CASE("seven_bf16", NULL, CLT_SMALL | CLT_EXACT, SEVEN(CLT_BF16)),
    CLT_CASE("seven_f16", NULL, CLT_EXACT, SEVEN(CLT_F16)),
    CLT_CASE("two_rows_f16", NULL, CLT_EXACT, CLT_CASE_FLOAT(CLT_F16, 70, 67), CLT_CASE_FLOAT(CLT_F16, 67),
             CLT_CASE_FLOAT(CLT_F16, 67)),
};

/* Column sums of R rows, in blocks: errors stay below eps * sqrt(R) of the sum's size, at most about 16 eps
 * here. */
static const clt_op_case multiply_cases[] = {
    CLT_CASE("bf16", NULL, CLT_SMALL | CLT_EXACT, CLT_CASE_FLOAT(CLT_BF16, 5, 55),
             CLT_CASE_FLOAT(CLT_BF16, 5, 55)),
    CLT_CASE("f16_row", NULL, CLT_SMALL | CLT_EXACT, CLT_CASE_FLOAT(CLT_F16, 70, 67),
             CLT_CASE_FLOAT(CLT_F16, 67)),
    CLT_CASE("one", NULL, CLT_SMALL | CLT_EXACT, CLT_CASE_F32(1, 1), CLT_CASE_F32(1, 1)),
    CLT_CASE("odd", NULL, CLT_SMALL | CLT_EXACT, CLT_CASE_F32(3, 5, 17), CLT_CASE_F32(3, 5, 17)),
    CLT_CASE("large", NULL, 0, CLT_CASE_F32(17, 1000), CLT_CASE_F32(17, 1000)),
    CLT_CASE("row", NULL, CLT_SMALL | CLT_EXACT, CLT_CASE_F32(3, 5, 17), CLT_CASE_F32(17)),
    {.name = "blocks",
     .n_inputs = 2,
     .inputs = {CLT_CASE_F32(7, 33, 67), CLT_CASE_F32(67)},
     .tolerance = 32,
     .exact = true},
    CLT_CASE("matrix", NULL, CLT_EXACT, CLT_CASE_F32(5, 31, 33), CLT_CASE_F32(31, 33)),
};

#define SAME_SIZES                                                                                           \
    CLT_CASE("gpt2", NULL, 0, CLT_CASE_F32(4, 64, 768), CLT_CASE_F32(4, 64, 768)),                           \
        CLT_CASE("large", NULL, 0, CLT_CASE_F32(64, 512, 768), CLT_CASE_F32(64, 512, 768))
static const clt_op_case add_timed[] = {
    SAME_SIZES,
    CLT_CASE("rows_large", NULL, 0, CLT_CASE_F32(64, 512, 768), CLT_CASE_F32(512, 768)),
};
static const clt_op_case multiply_timed[] = {
    SAME_SIZES,
    CLT_CASE("rows_large", NULL, 0, CLT_CASE_F32(64, 512, 768), CLT_CASE_F32(768)),
};

/* Up to seven rounded additions, and column sums (see above). */
CLT_OP_REF(add, add_forward, add_backward, add_cases, .tolerance = 16, CLT_TIMED(add_timed));
/* One rounded product, except for column sums. */
CLT_OP_REF(multiply, multiply_forward, multiply_backward, multiply_cases, .tolerance = 16,
           CLT_TIMED(multiply_timed));
