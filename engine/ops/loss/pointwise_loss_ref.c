/* SPDX-License-Identifier: Apache-2.0
 *
 * Double-precision references and cases of the losses that are a sum over elements. */
#include <math.h>

#include "engine/ops/case.h"
#include "engine/ops/loss/pointwise_loss.h"

static double pointwise_value(int kind, double x, double y)
{
    switch (kind) {
    case POINTWISE_MSE:
        return (x - y) * (x - y);
    case POINTWISE_L1:
        return fabs(x - y);
    default:
        return (x > 0 ? x : 0.0) - x * y + log1p(exp(-fabs(x)));
    }
}

static double pointwise_slope(int kind, double x, double y)
{
    switch (kind) {
    case POINTWISE_MSE:
        return 2.0 * (x - y);
    case POINTWISE_L1:
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

static void pointwise_loss_forward(clt_ref_call *call)
{
    int kind = clt_pointwise_kind(call->node);
    int64_t counted = pointwise_counted(call);
    double loss = 0.0, terms = 0.0, correct = 0.0, weight = clt_node_attr(call->node, "weight")->f;
    for (int64_t i = 0; i < counted; i++) {
        double x = call->in[0].data[i], y = call->in[1].data[i];
        loss += pointwise_value(kind, x, y);
        terms += fabs(pointwise_value(kind, x, y));
        correct += kind == POINTWISE_BCE && (x > 0) == (y > 0.5) ? 1.0 : 0.0;
    }
    call->loss_record[0] += loss * weight * call->loss_norm;
    call->loss_record[1] += loss;
    call->loss_terms[0] += terms * weight * call->loss_norm;
    call->loss_terms[1] += terms;
    call->loss_record[2] += (double)counted;
    call->loss_record[3] += correct;
}

static void pointwise_loss_backward(clt_ref_call *call)
{
    int kind = clt_pointwise_kind(call->node);
    int64_t counted = pointwise_counted(call);
    double scale = clt_node_attr(call->node, "weight")->f * call->loss_norm * call->loss_scale;
    if (!call->din[0].data)
        return;
    for (int64_t i = 0; i < counted; i++)
        call->din[0].data[i] += scale * pointwise_slope(kind, call->in[0].data[i], call->in[1].data[i]);
}

/* TARGET(dims...) is the input of f32 targets. "zeros" has so many blocks that in bce the products of some
 * lanes lie between 2^24 and 2^25, where adding 1 is rounded. */
#define CASES_OF_ALL(TARGET)                                                                                 \
    CLT_CASE("one", NULL, CLT_SMALL, CLT_CASE_F32(1, 1), TARGET(1, 1)),                                      \
        CLT_CASE("scalar_per_sample", NULL, CLT_SMALL, CLT_CASE_F32(7, 1), TARGET(7)),                       \
        CLT_CASE("bf16", NULL, CLT_SMALL, CLT_CASE_FLOAT(CLT_BF16, 5, 36), TARGET(5, 36)),                   \
        CLT_CASE("odd", NULL, CLT_SMALL, CLT_CASE_F32(5, 7), TARGET(5, 7)),                                  \
        CLT_CASE("byte_targets", NULL, CLT_SMALL, CLT_CASE_F32(3, 11), CLT_CASE_BINARY(CLT_U8, 3, 11)),      \
        CLT_CASE("zeros", NULL, CLT_SMALL, CLT_CASE_WHOLE(CLT_F32, 3, 3700),                                 \
                 CLT_CASE_BINARY(CLT_F32, 3, 3700)),                                                         \
        CLT_CASE("weight", "{\"weight\":2.5}", CLT_SMALL, CLT_CASE_F32(4, 3, 5), TARGET(4, 3, 5)),           \
        CLT_CASE("one_block", NULL, 0, CLT_CASE_F32(2, 512), TARGET(2, 512)),                                \
        CLT_CASE("block_tail", NULL, CLT_SMALL, CLT_CASE_F32(3, 1371), TARGET(3, 1371)),                     \
        CLT_CASE("two_stage", NULL, CLT_SMALL, CLT_CASE_F32(70, 1001), TARGET(70, 1001))

static const clt_op_case error_cases[] = {
    CASES_OF_ALL(CLT_CASE_F32),
    CLT_CASE("nan", NULL, CLT_SMALL, CLT_CASE_NAN(CLT_F32, 5, 7), CLT_CASE_F32(5, 7)),
};
static const clt_op_case error_timed[] = {
    CLT_CASE("large", NULL, 0, CLT_CASE_F32(4096, 8192), CLT_CASE_F32(4096, 8192)),
};
#define BITS(...) CLT_CASE_BINARY(CLT_F32, __VA_ARGS__)
static const clt_op_case bce_cases[] = {
    CASES_OF_ALL(BITS), CLT_CASE("far", NULL, CLT_SMALL, CLT_CASE_WIDE(CLT_F32, 3, 37), BITS(3, 37)),
    CLT_CASE("soft", NULL, CLT_SMALL, CLT_CASE_F32(5, 37), CLT_CASE_F32(5, 37)), /* targets around 1/2, too */
};
static const clt_op_case bce_timed[] = {
    CLT_CASE("large", NULL, 0, CLT_CASE_F32(4096, 8192), BITS(4096, 8192)),
};

/* Each term of mse and l1 is rounded up to three times; exp and log1p of the device have errors of up to 3
 * ulp. Sums run in blocks of 16 lanes and 1024 elements. */
#define POINTWISE_REF(op, table)                                                                             \
    CLT_OP_REF(op, pointwise_loss_forward, pointwise_loss_backward, table##_cases, .tolerance = 8,           \
               CLT_TIMED(table##_timed))
POINTWISE_REF(mse, error);
POINTWISE_REF(l1, error);
POINTWISE_REF(bce_with_logits, bce);
