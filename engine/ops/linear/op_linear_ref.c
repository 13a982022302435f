/* SPDX-License-Identifier: Apache-2.0
 *
 * Double-precision reference and test cases of linear. */
#include "engine/ops/case.h"

static void linear_forward(clt_ref_call *call)
{
    int64_t rows = clt_shape_rows(&call->in[0].shape), in = clt_shape_last(&call->in[0].shape);
    int64_t out = call->param[0].shape.dim[0];
    for (int64_t r = 0; r < rows; r++) {
        const double *x = call->in[0].data + r * in;
        for (int64_t o = 0; o < out; o++) {
            const double *w = call->param[0].data + o * in;
            double sum = call->n_param > 1 ? call->param[1].data[o] : 0.0;
            for (int64_t i = 0; i < in; i++)
                sum += x[i] * w[i];
            call->out[0].data[r * out + o] = sum;
        }
    }
}

static void linear_backward(clt_ref_call *call)
{
    int64_t rows = clt_shape_rows(&call->in[0].shape), in = clt_shape_last(&call->in[0].shape);
    int64_t out = call->param[0].shape.dim[0];
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t o = 0; o < out; o++) {
            double g = call->dout[0].data[r * out + o];
            if (call->din[0].data)
                for (int64_t i = 0; i < in; i++)
                    call->din[0].data[r * in + i] += g * call->param[0].data[o * in + i];
            if (call->dparam[0].data)
                for (int64_t i = 0; i < in; i++)
                    call->dparam[0].data[o * in + i] += g * call->in[0].data[r * in + i];
            if (call->n_param > 1 && call->dparam[1].data)
                call->dparam[1].data[o] += g;
        }
    }
}

/* The rounding errors of a sum of K products grow like a random walk, to about eps * sqrt(K) of the result's
 * magnitude. K is at most 1025 here, so 32 is enough for any order in which a GEMM backend may add. */
static const clt_op_case linear_cases[] = {
    CLT_CASE("one", "{\"out\":1}", CLT_SMALL | CLT_EXACT, CLT_CASE_F32(1, 1)),
    CLT_CASE("odd", "{\"out\":3}", CLT_SMALL | CLT_EXACT, CLT_CASE_F32(5, 7)),
    CLT_CASE("no_bias", "{\"out\":5,\"bias\":false}", CLT_SMALL | CLT_EXACT, CLT_CASE_F32(4, 9)),
    CLT_CASE("single_row", "{\"out\":33}", CLT_EXACT, CLT_CASE_F32(1, 65)),
    CLT_CASE("single_output", "{\"out\":1}", CLT_EXACT, CLT_CASE_F32(33, 65)),
    CLT_CASE("single_input", "{\"out\":17}", CLT_EXACT, CLT_CASE_F32(65, 1)),
    CLT_CASE("three_dims", "{\"out\":12}", CLT_SMALL | CLT_EXACT, CLT_CASE_F32(3, 5, 6)),
    CLT_CASE("tails", "{\"out\":67}", CLT_EXACT, CLT_CASE_F32(129, 71)),
    CLT_CASE("blocks", "{\"out\":64}", CLT_EXACT, CLT_CASE_F32(128, 256)),
    CLT_CASE("deep", "{\"out\":10}", CLT_EXACT, CLT_CASE_F32(64, 1025)),
};

static const clt_op_case linear_timed[] = {
    CLT_CASE("gpt2", "{\"out\":3072}", 0, CLT_CASE_F32(4, 64, 768)),
};

CLT_OP_REF(linear, linear_forward, linear_backward, linear_cases, .tolerance = 32, CLT_TIMED(linear_timed));
