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

#define ACTIVATION_CASE(word, text, is_exact, is_small, ...)                                                 \
    {                                                                                                        \
        .name = word, .attrs = text, .n_inputs = 1, .inputs = {CLT_CASE_F32(__VA_ARGS__)},                   \
        .exact = is_exact, .small = is_small                                                                 \
    }
#define ACTIVATION_CASE_16(word, dtype, text, is_exact, ...)                                                 \
    {                                                                                                        \
        .name = word, .attrs = text, .n_inputs = 1, .inputs = {CLT_CASE_FLOAT(dtype, __VA_ARGS__)},          \
        .exact = is_exact, .small = true                                                                     \
    }
/* NaN stays NaN in every vector width and in the rest that no vector covers. */
#define ACTIVATION_CASE_NAN(text, is_exact)                                                                  \
    {                                                                                                        \
        .name = "nan", .attrs = text, .n_inputs = 1, .inputs = {CLT_CASE_NAN(CLT_F32, 3, 31)},               \
        .exact = is_exact, .small = true                                                                     \
    }
/* Sizes around the chunk lengths of both styles: less than one chunk, exactly one, several and a tail. */
#define ACTIVATION_CASES(text, is_exact)                                                                     \
    ACTIVATION_CASE("one", text, is_exact, true, 1, 1),                                                      \
        ACTIVATION_CASE("tail", text, is_exact, true, 3, 17),                                                \
        ACTIVATION_CASE("chunk", text, is_exact, true, 1, 256),                                              \
        ACTIVATION_CASE_16("bf16", CLT_BF16, text, is_exact, 3, 29),                                         \
        ACTIVATION_CASE_16("f16", CLT_F16, text, is_exact, 5, 33), ACTIVATION_CASE_NAN(text, is_exact),      \
        ACTIVATION_CASE("odd", text, is_exact, false, 3, 11, 33),                                            \
        ACTIVATION_CASE("large", text, is_exact, false, 2, 3, 41, 67)

#define ACTIVATION_REF(name, text, fn, dfn, from_output, fwd, bwd, epilogue, value, derivative, tol,         \
                       is_exact)                                                                             \
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
    static const clt_op_case name##_cases[] = {ACTIVATION_CASES(NULL, is_exact)};                            \
    static const clt_op_case name##_timed[] = {CLT_TIMED_3072("", NULL)};                                    \
    const clt_op_ref clt_op_##name##_ref = {                                                                 \
        name##_forward,         name##_backward, name##_cases, CLT_CASE_COUNT(name##_cases), tol,            \
        CLT_TIMED(name##_timed)};
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

#define GELU_WIDE(word, text)                                                                                \
    {                                                                                                        \
        .name = word, .attrs = text, .n_inputs = 1, .inputs = {CLT_CASE_WIDE(CLT_F32, 3, 67)}, .small = true \
    }
static const clt_op_case gelu_cases[] = {
    GELU_WIDE("far", NULL),
    GELU_WIDE("tanh_far", "{\"approximate\":\"tanh\"}"),
    ACTIVATION_CASES(NULL, false),
    ACTIVATION_CASE("stages", NULL, false, true, 3, 183), /* two whole stages of 256 elements, and a rest */
    ACTIVATION_CASE("tanh_tail", "{\"approximate\":\"tanh\"}", false, true, 3, 17),
    ACTIVATION_CASE("tanh_large", "{\"approximate\":\"tanh\"}", false, false, 5, 61, 33),
};

static const clt_op_case gelu_timed[] = {
    CLT_TIMED_3072("erf_", NULL),
    CLT_TIMED_3072("tanh_", "{\"approximate\":\"tanh\"}"),
};

/* For negative x, 1 + erf has an error of up to 3 ulp of 1 by cancellation, times |x|/2. tanh has 5 ulp, and
 * its argument, a cubic, a few more, which the derivative multiplies by x again. */
const clt_op_ref clt_op_gelu_ref = {
    gelu_forward, gelu_backward, gelu_cases, CLT_CASE_COUNT(gelu_cases), 32, CLT_TIMED(gelu_timed)};
