/* SPDX-License-Identifier: Apache-2.0
 *
 * Double-precision references and cases of the activations, from the table in op_activation.h. Knows formulas
 * only. */
#include <math.h>

#include "engine/ops/case.h"
#include "engine/ops/elementwise/op_activation.h"

static double activation_dsilu(double x)
{
    double s = 1 / (1 + exp(-x));
    return s * (1 + x * (1 - s));
}

/* Sizes around the chunk lengths of both styles: less than one chunk, exactly one, several and a tail. NaN
 * stays NaN in every vector width and in the rest that no vector covers. exact: CLT_EXACT or 0. */
#define ACTIVATION_CASES(text, exact)                                                                        \
    CLT_CASE("one", text, CLT_SMALL | exact, CLT_CASE_F32(1, 1)),                                            \
        CLT_CASE("tail", text, CLT_SMALL | exact, CLT_CASE_F32(3, 17)),                                      \
        CLT_CASE("chunk", text, CLT_SMALL | exact, CLT_CASE_F32(1, 256)),                                    \
        CLT_CASE("bf16", text, CLT_SMALL | exact, CLT_CASE_FLOAT(CLT_BF16, 3, 29)),                          \
        CLT_CASE("f16", text, CLT_SMALL | exact, CLT_CASE_FLOAT(CLT_F16, 5, 33)),                            \
        CLT_CASE("sweep", text, CLT_SMALL | exact, CLT_CASE_SWEEP(CLT_F32, 31, 31)),                         \
        CLT_CASE("nan", text, CLT_SMALL | exact, CLT_CASE_NAN(CLT_F32, 3, 31)),                              \
        CLT_CASE("odd", text, exact, CLT_CASE_F32(3, 11, 33)),                                               \
        CLT_CASE("large", text, exact, CLT_CASE_F32(2, 3, 41, 67))

#define ACTIVATION_REF(name, formula, says, fn, dfn, from_output, fwd, bwd, epilogue, value, derivative,     \
                       tol, is_exact)                                                                        \
    static void name##_forward(clt_ref_call *call)                                                           \
    {                                                                                                        \
        int64_t n = clt_shape_elements(&call->in[0].shape);                                                  \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            double x = call->in[0].data[i];                                                                  \
            call->out[0].data[i] = value;                                                                    \
        }                                                                                                    \
    }                                                                                                        \
    static void name##_backward(clt_ref_call *call)                                                          \
    {                                                                                                        \
        if (!call->din[0].data)                                                                              \
            return;                                                                                          \
        int64_t n = clt_shape_elements(&call->in[0].shape);                                                  \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            double x = call->in[0].data[i], y = call->out[0].data[i];                                        \
            (void)x, (void)y;                                                                                \
            call->din[0].data[i] += call->dout[0].data[i] * (derivative);                                    \
        }                                                                                                    \
    }                                                                                                        \
    static const clt_op_case name##_cases[] = {ACTIVATION_CASES(NULL, (is_exact ? CLT_EXACT : 0))};          \
    static const clt_op_case name##_timed[] = {CLT_TIMED_3072("", NULL)};                                    \
    CLT_OP_REF(name, name##_forward, name##_backward, name##_cases, .tolerance = tol,                        \
               CLT_TIMED(name##_timed));
CLT_ACTIVATION_MAP(ACTIVATION_REF)

static double gelu_value(double x, int tanh_form, double *slope)
{
    const double pi = 3.14159265358979323846;
    if (!tanh_form) {
        double cdf = 0.5 * erfc(-x * sqrt(0.5));
        *slope = cdf + x * exp(-0.5 * x * x) / sqrt(2 * pi);
        return x * cdf;
    }
    double c = sqrt(2 / pi), t = tanh(c * (x + 0.044715 * x * x * x));
    *slope = 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
    return 0.5 * x * (1 + t);
}

static void gelu_forward(clt_ref_call *call)
{
    int tanh_form = clt_node_attr(call->node, "approximate")->choice;
    int64_t n = clt_shape_elements(&call->in[0].shape);
    double slope;
    for (int64_t i = 0; i < n; i++)
        call->out[0].data[i] = gelu_value(call->in[0].data[i], tanh_form, &slope);
}

static void gelu_backward(clt_ref_call *call)
{
    if (!call->din[0].data)
        return;
    int tanh_form = clt_node_attr(call->node, "approximate")->choice;
    int64_t n = clt_shape_elements(&call->in[0].shape);
    double slope;
    for (int64_t i = 0; i < n; i++) {
        gelu_value(call->in[0].data[i], tanh_form, &slope);
        call->din[0].data[i] += call->dout[0].data[i] * slope;
    }
}

static const clt_op_case gelu_cases[] = {
    CLT_CASE("far", NULL, CLT_SMALL, CLT_CASE_WIDE(CLT_F32, 3, 67)),
    CLT_CASE("tanh_far", "{\"approximate\":\"tanh\"}", CLT_SMALL, CLT_CASE_WIDE(CLT_F32, 3, 67)),
    CLT_CASE("tanh_sweep", "{\"approximate\":\"tanh\"}", CLT_SMALL, CLT_CASE_SWEEP(CLT_F32, 31, 31)),
    ACTIVATION_CASES(NULL, 0),
    CLT_CASE("stages", NULL, CLT_SMALL,
             CLT_CASE_F32(3, 183)), /* two whole stages of 256 elements, and a rest */
    CLT_CASE("tanh_tail", "{\"approximate\":\"tanh\"}", CLT_SMALL, CLT_CASE_F32(3, 17)),
    CLT_CASE("tanh_large", "{\"approximate\":\"tanh\"}", 0, CLT_CASE_F32(5, 61, 33)),
};

static const clt_op_case gelu_timed[] = {
    CLT_TIMED_3072("erf_", NULL),
    CLT_TIMED_3072("tanh_", "{\"approximate\":\"tanh\"}"),
};

/* For negative x, 1 + erf has an error of up to 3 ulp of 1 by cancellation, times |x|/2. tanh has 5 ulp, and
 * its argument, a cubic, a few more, which the derivative multiplies by x again. */
CLT_OP_REF(gelu, gelu_forward, gelu_backward, gelu_cases, .tolerance = 32, CLT_TIMED(gelu_timed));
