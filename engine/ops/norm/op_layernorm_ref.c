/* SPDX-License-Identifier: Apache-2.0
 *
 * Double-precision reference and cases of layernorm. Knows formulas only. */
#include <math.h>

#include "engine/ops/case.h"

/* Computes mean and rstd of a row. */
static void row_stats(const double *x, int64_t cols, double eps, double *mean, double *rstd)
{
    double sum = 0, square = 0;
    for (int64_t c = 0; c < cols; c++)
        sum += x[c];
    *mean = sum / (double)cols;
    for (int64_t c = 0; c < cols; c++)
        square += (x[c] - *mean) * (x[c] - *mean);
    *rstd = 1 / sqrt(square / (double)cols + eps);
}

static double weight(const clt_ref_call *call, int64_t c)
{
    return call->n_param > 0 ? call->param[0].data[c] : 1;
}

static void layernorm_forward(clt_ref_call *call)
{
    int64_t rows = clt_shape_rows(&call->in[0].shape), cols = clt_shape_last(&call->in[0].shape);
    double eps = clt_node_attr(call->node, "eps")->f, mean, rstd;
    for (int64_t r = 0; r < rows; r++) {
        const double *x = call->in[0].data + r * cols;
        row_stats(x, cols, eps, &mean, &rstd);
        for (int64_t c = 0; c < cols; c++)
            call->out[0].data[r * cols + c] =
                (x[c] - mean) * rstd * weight(call, c) + (call->n_param > 1 ? call->param[1].data[c] : 0);
        if (call->n_saved > 1 && call->saved[0].data && call->saved[1].data) {
            call->saved[0].data[r] = mean;
            call->saved[1].data[r] = rstd;
        }
    }
}

static void backward_row(clt_ref_call *call, int64_t r, int64_t cols, double mean, double rstd)
{
    const double *x = call->in[0].data + r * cols, *dy = call->dout[0].data + r * cols;
    double s1 = 0, s2 = 0;
    for (int64_t c = 0; c < cols; c++) {
        double g = dy[c] * weight(call, c), n = (x[c] - mean) * rstd;
        s1 += g / (double)cols;
        s2 += g * n / (double)cols;
        if (call->n_param > 0 && call->dparam[0].data)
            call->dparam[0].data[c] += dy[c] * n;
        if (call->n_param > 1 && call->dparam[1].data)
            call->dparam[1].data[c] += dy[c];
    }
    for (int64_t c = 0; call->din[0].data && c < cols; c++)
        call->din[0].data[r * cols + c] += rstd * (dy[c] * weight(call, c) - s1 - (x[c] - mean) * rstd * s2);
}

static void layernorm_backward(clt_ref_call *call)
{
    int64_t rows = clt_shape_rows(&call->in[0].shape), cols = clt_shape_last(&call->in[0].shape);
    double eps = clt_node_attr(call->node, "eps")->f, mean, rstd;
    for (int64_t r = 0; r < rows; r++) {
        row_stats(call->in[0].data + r * cols, cols, eps, &mean, &rstd);
        backward_row(call, r, cols, mean, rstd);
    }
}

/* A row of few elements may have a variance near zero. With the usual eps, rstd is then up to 316 and
 * multiplies the rounding errors of x - mean and of dx, which is a difference of nearly equal terms; FLAT
 * bounds it by 3.2. */
#define FLAT "{\"eps\":0.1}"
static const clt_op_case layernorm_cases[] = {
    CLT_CASE("bf16", NULL, CLT_SMALL, CLT_CASE_FLOAT(CLT_BF16, 3, 7, 36)),
    CLT_CASE("f16", NULL, CLT_SMALL, CLT_CASE_FLOAT(CLT_F16, 5, 67)),
    CLT_CASE("f16_wider", NULL, 0, CLT_CASE_FLOAT(CLT_F16, 2, 5, 1032)),
    CLT_CASE("one", NULL, CLT_SMALL, CLT_CASE_F32(3, 1)),
    CLT_CASE("three", FLAT, CLT_SMALL, CLT_CASE_F32(5, 3)),
    CLT_CASE("odd", NULL, CLT_SMALL, CLT_CASE_F32(3, 5, 17)),
    CLT_CASE("lanes", NULL, CLT_SMALL, CLT_CASE_F32(1, 64)),
    CLT_CASE("plain", "{\"affine\":false}", CLT_SMALL, CLT_CASE_F32(7, 33)),
    CLT_CASE("nobias", "{\"bias\":false,\"eps\":0.001}", CLT_SMALL, CLT_CASE_F32(3, 11, 33)),
    CLT_CASE_RETYPED("f32_bf16", NULL, CLT_F32, CLT_BF16, 5, 57, 68),
    CLT_CASE_RETYPED("f32_f16", NULL, CLT_F32, CLT_F16, 75, 260),
    CLT_CASE_RETYPED("f16_f32", NULL, CLT_F16, CLT_F32, 5, 67),
    CLT_CASE("blocks", NULL, CLT_SMALL, CLT_CASE_F32(5, 57, 67)),
    CLT_CASE("vectors", NULL, CLT_SMALL, CLT_CASE_F32(5, 57, 68)),
    CLT_CASE("vectors_bf16", NULL, CLT_SMALL, CLT_CASE_FLOAT(CLT_BF16, 75, 260)),
    CLT_CASE("vectors_f16", "{\"bias\":false}", 0, CLT_CASE_FLOAT(CLT_F16, 2, 67, 1028)),
    CLT_CASE("vectors_4092", NULL, 0, CLT_CASE_F32(2, 17, 4092)),
    CLT_CASE("vectors_768", NULL, 0, CLT_CASE_FLOAT(CLT_BF16, 2, 96, 768)),
    CLT_CASE("nan", NULL, CLT_SMALL, CLT_CASE_NAN(CLT_F32, 29, 5)),
    CLT_CASE("blocks_nobias", "{\"bias\":false}", CLT_SMALL, CLT_CASE_F32(3, 40, 49)),
    CLT_CASE("wide", NULL, 0, CLT_CASE_F32(2, 3, 257)),
    CLT_CASE("wider", NULL, 0, CLT_CASE_F32(2, 5, 1030)),
};

static const clt_op_case layernorm_timed[] = {
    CLT_TIMED_768("", NULL),
};

/* x - mean is rounded relative to x, rstd is within a few ulp, then two products; sums of C terms in sixteen
 * lanes add eps * sqrt(C/16). */
CLT_OP_REF(layernorm, layernorm_forward, layernorm_backward, layernorm_cases, .tolerance = 32,
           CLT_TIMED(layernorm_timed));
