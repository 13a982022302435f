/* SPDX-License-Identifier: Apache-2.0
 *
 * Double-precision reference of the losses that are a sum over elements. */
#include <math.h>

#include "engine/ops/case.h"
#include "engine/ops/loss/pointwise_loss.h"

static double pointwise_value(clt_pointwise_kind kind, double x, double y)
{
    switch (kind) {
    case CLT_POINTWISE_MSE:
        return (x - y) * (x - y);
    case CLT_POINTWISE_L1:
        return fabs(x - y);
    default:
        return (x > 0 ? x : 0.0) - x * y + log1p(exp(-fabs(x)));
    }
}

static double pointwise_slope(clt_pointwise_kind kind, double x, double y)
{
    switch (kind) {
    case CLT_POINTWISE_MSE:
        return 2.0 * (x - y);
    case CLT_POINTWISE_L1:
        return x > y ? 1.0 : x < y ? -1.0 : x - y; /* NaN stays NaN */
    default:
        return 1.0 / (1.0 + exp(-x)) - y;
    }
}

static int64_t pointwise_counted(const clt_ref_call *call)
{
    const clt_shape *shape = &call->in[0].shape;
    return clt_shape_elements(shape) / shape->dim[0] * call->valid_samples;
}

void clt_pointwise_loss_ref_forward(clt_ref_call *call, clt_pointwise_kind kind)
{
    int64_t counted = pointwise_counted(call);
    double loss = 0.0, terms = 0.0, correct = 0.0, weight = clt_node_attr(call->node, "weight")->f;
    for (int64_t i = 0; i < counted; i++) {
        double x = call->in[0].data[i], y = call->in[1].data[i];
        loss += pointwise_value(kind, x, y);
        terms += fabs(pointwise_value(kind, x, y));
        correct += kind == CLT_POINTWISE_BCE && (x > 0) == (y > 0.5) ? 1.0 : 0.0;
    }
    call->loss_record[0] += loss * weight * call->loss_norm;
    call->loss_record[1] += loss;
    call->loss_terms[0] += terms * weight * call->loss_norm;
    call->loss_terms[1] += terms;
    call->loss_record[2] += (double)counted;
    call->loss_record[3] += correct;
}

void clt_pointwise_loss_ref_backward(clt_ref_call *call, clt_pointwise_kind kind)
{
    int64_t counted = pointwise_counted(call);
    double scale = clt_node_attr(call->node, "weight")->f * call->loss_norm * call->loss_scale;
    if (!call->din[0].data)
        return;
    for (int64_t i = 0; i < counted; i++)
        call->din[0].data[i] += scale * pointwise_slope(kind, call->in[0].data[i], call->in[1].data[i]);
}

const clt_op_case clt_pointwise_cases[CLT_POINTWISE_CASES] = {
    CLT_POINTWISE_CASE_LIST(CLT_CASE_F32),
    CLT_CASE("nan", NULL, CLT_SMALL, CLT_CASE_NAN(CLT_F32, 5, 7), CLT_CASE_F32(5, 7)),
};
const clt_op_case clt_pointwise_timed[1] = {
    CLT_CASE("large", NULL, 0, CLT_CASE_F32(4096, 8192), CLT_CASE_F32(4096, 8192))};
