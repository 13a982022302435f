/* SPDX-License-Identifier: Apache-2.0
 *
 * Double-precision reference and cases of rmsnorm. Knows formulas only. */
#include <math.h>

#include "engine/ops/case.h"

static double row_rstd(const double *x, int64_t cols, double eps)
{
    double square = 0;
    for (int64_t c = 0; c < cols; c++)
        square += x[c] * x[c];
    return 1 / sqrt(square / (double)cols + eps);
}

static double weight(const clt_ref_call *call, int64_t c)
{
    return call->n_param > 0 ? call->param[0].data[c] : 1;
}

static void rmsnorm_forward(clt_ref_call *call)
{
    int64_t rows = clt_shape_rows(&call->in[0].shape), cols = clt_shape_last(&call->in[0].shape);
    for (int64_t r = 0; r < rows; r++) {
        const double *x = call->in[0].data + r * cols;
        double rstd = row_rstd(x, cols, clt_node_attr(call->node, "eps")->f);
        for (int64_t c = 0; c < cols; c++)
            call->out[0].data[r * cols + c] = x[c] * rstd * weight(call, c);
        if (call->n_saved > 0 && call->saved[0].data)
            call->saved[0].data[r] = rstd;
    }
}

static void rmsnorm_backward(clt_ref_call *call)
{
    int64_t rows = clt_shape_rows(&call->in[0].shape), cols = clt_shape_last(&call->in[0].shape);
    for (int64_t r = 0; r < rows; r++) {
        const double *x = call->in[0].data + r * cols, *dy = call->dout[0].data + r * cols;
        double rstd = row_rstd(x, cols, clt_node_attr(call->node, "eps")->f), dot = 0;
        for (int64_t c = 0; c < cols; c++) {
            dot += dy[c] * weight(call, c) * x[c];
            if (call->n_param > 0 && call->dparam[0].data)
                call->dparam[0].data[c] += dy[c] * x[c] * rstd;
        }
        for (int64_t c = 0; call->din[0].data && c < cols; c++)
            call->din[0].data[r * cols + c] +=
                rstd * (dy[c] * weight(call, c) - x[c] * rstd * rstd * dot / (double)cols);
    }
}

/* A row of few elements may be near zero. With the usual eps, rstd is then up to 316 and multiplies rounding
 * errors; FLAT bounds it by 3.2. */
#define FLAT "{\"eps\":0.1}"
static const clt_op_case rmsnorm_cases[] = {
    CLT_CASE("bf16", NULL, CLT_SMALL, CLT_CASE_FLOAT(CLT_BF16, 3, 7, 36)),
    CLT_CASE("f16", NULL, CLT_SMALL, CLT_CASE_FLOAT(CLT_F16, 5, 67)),
    CLT_CASE("one", FLAT, CLT_SMALL, CLT_CASE_F32(3, 1)),
    CLT_CASE("three", FLAT, CLT_SMALL, CLT_CASE_F32(5, 3)),
    CLT_CASE("odd", NULL, CLT_SMALL, CLT_CASE_F32(3, 5, 17)),
    CLT_CASE("plain", "{\"affine\":false}", CLT_SMALL, CLT_CASE_F32(7, 33)),
    CLT_CASE("eps", "{\"eps\":0.01}", 0, CLT_CASE_F32(3, 11, 32)),
    CLT_CASE("nan", NULL, CLT_SMALL, CLT_CASE_NAN(CLT_F32, 29, 5)),
    CLT_CASE_RETYPED("f32_bf16", NULL, CLT_F32, CLT_BF16, 5, 57, 68),
    CLT_CASE_RETYPED("f32_f16", NULL, CLT_F32, CLT_F16, 75, 260),
    CLT_CASE_RETYPED("f16_f32", NULL, CLT_F16, CLT_F32, 5, 67),
    CLT_CASE("blocks", NULL, CLT_SMALL, CLT_CASE_F32(5, 57, 67)),
    CLT_CASE("vectors", NULL, CLT_SMALL, CLT_CASE_F32(5, 57, 68)),
    CLT_CASE("vectors_bf16", NULL, 0, CLT_CASE_FLOAT(CLT_BF16, 75, 2052)),
    CLT_CASE("wide", NULL, 0, CLT_CASE_F32(2, 5, 1030)),
};

static const clt_op_case rmsnorm_timed[] = {
    CLT_TIMED_768("", NULL),
};

/* As for layernorm: sums of C terms in sixteen lanes add eps * sqrt(C/16). */
CLT_OP_REF(rmsnorm, rmsnorm_forward, rmsnorm_backward, rmsnorm_cases, .tolerance = 32,
           CLT_TIMED(rmsnorm_timed));
