/* SPDX-License-Identifier: Apache-2.0
 *
 * Double-precision reference and test cases of bias. */
#include "engine/ops/case.h"

static void bias_forward(clt_ref_call *call)
{
    int64_t rows = clt_shape_rows(&call->in[0].shape), cols = clt_shape_last(&call->in[0].shape);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++)
            call->out[0].data[r * cols + c] = call->in[0].data[r * cols + c] + call->param[0].data[c];
}

static void bias_backward(clt_ref_call *call)
{
    int64_t rows = clt_shape_rows(&call->in[0].shape), cols = clt_shape_last(&call->in[0].shape);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < cols; c++) {
            double g = call->dout[0].data[r * cols + c];
            if (call->din[0].data)
                call->din[0].data[r * cols + c] += g;
            if (call->dparam[0].data)
                call->dparam[0].data[c] += g;
        }
    }
}

static const clt_op_case bias_cases[] = {
    CLT_CASE("bf16", NULL, CLT_SMALL | CLT_EXACT, CLT_CASE_FLOAT(CLT_BF16, 70, 36)),
    CLT_CASE("f16", NULL, CLT_SMALL | CLT_EXACT, CLT_CASE_FLOAT(CLT_F16, 9, 37)),
    CLT_CASE("one", NULL, CLT_SMALL | CLT_EXACT, CLT_CASE_F32(1, 1)),
    CLT_CASE("odd", NULL, CLT_SMALL | CLT_EXACT, CLT_CASE_F32(5, 7)),
    CLT_CASE("tail", NULL, CLT_SMALL | CLT_EXACT, CLT_CASE_F32(3, 37)),
    CLT_CASE("two_stage", NULL, CLT_SMALL | CLT_EXACT, CLT_CASE_F32(67, 18)),
    CLT_CASE("three_dims", NULL, CLT_EXACT, CLT_CASE_F32(3, 50, 33)),
    CLT_CASE("tall", NULL, CLT_EXACT, CLT_CASE_F32(1031, 10)),
    CLT_CASE("vectors", NULL, CLT_SMALL | CLT_EXACT, CLT_CASE_FLOAT(CLT_BF16, 519, 260)),
    CLT_CASE("vectors_780", NULL, CLT_EXACT, CLT_CASE_FLOAT(CLT_F16, 2048, 780)),
    CLT_CASE("vectors_768", NULL, CLT_EXACT, CLT_CASE_FLOAT(CLT_BF16, 2048, 768)),
    CLT_CASE("wide", NULL, CLT_EXACT, CLT_CASE_F32(2, 4099)),
    CLT_CASE("many_columns", NULL, CLT_EXACT, CLT_CASE_F32(20, 16405)),
    CLT_CASE_DEEP("equal", NULL, CLT_CASE_F32(1200000, 1)),
    CLT_CASE("slabs", NULL, CLT_EXACT, CLT_CASE_F32(70001, 3)),
};

static const clt_op_case bias_timed[] = {
    CLT_TIMED_3072("", NULL),
};

/* Two additions per element forward; db is summed in stages of at most about sqrt(rows) terms, whose rounding
 * errors grow like a random walk. */
CLT_OP_REF(bias, bias_forward, bias_backward, bias_cases, .tolerance = 16, CLT_TIMED(bias_timed));
