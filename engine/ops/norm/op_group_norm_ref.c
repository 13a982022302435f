/* SPDX-License-Identifier: Apache-2.0
 *
 * Double-precision reference and cases of group_norm and instance_norm. Knows formulas only. */
#include <math.h>
#include <string.h>

#include "engine/ops/case.h"

/* A group of a sample: `size` elements from `first` on, side by side in row-major order. */
typedef struct group {
    int64_t first, size, channels, positions, channel; /* channel: the group's first one */
    double mean, rstd;
} group;

static int64_t groups_of(const clt_ref_call *call)
{
    return strcmp(call->node->op->name, "group_norm") == 0 ? clt_node_attr(call->node, "groups")->i
                                                           : call->in[0].shape.dim[1];
}

static group group_at(const clt_ref_call *call, int64_t n, int64_t g)
{
    const clt_shape *x = &call->in[0].shape;
    int64_t all = clt_shape_elements(x) / x->dim[0];
    group s = {.size = all / groups_of(call), .channels = x->dim[1] / groups_of(call)};
    double var = 0;
    s.first = n * all + g * s.size;
    s.positions = s.size / s.channels;
    s.channel = g * s.channels;
    for (int64_t i = 0; i < s.size; i++)
        s.mean += call->in[0].data[s.first + i] / (double)s.size;
    for (int64_t i = 0; i < s.size; i++) {
        double d = call->in[0].data[s.first + i] - s.mean;
        var += d * d / (double)s.size;
    }
    s.rstd = 1 / sqrt(var + clt_node_attr(call->node, "eps")->f);
    return s;
}

static void norm_forward(clt_ref_call *call)
{
    for (int64_t n = 0; n < call->in[0].shape.dim[0]; n++)
        for (int64_t g = 0; g < groups_of(call); g++) {
            group s = group_at(call, n, g);
            for (int64_t i = 0; i < s.size; i++) {
                int64_t c = s.channel + i / s.positions;
                double w = call->n_param ? call->param[0].data[c] : 1,
                       b = call->n_param ? call->param[1].data[c] : 0;
                call->out[0].data[s.first + i] = (call->in[0].data[s.first + i] - s.mean) * s.rstd * w + b;
            }
            for (int64_t c = s.channel; c < s.channel + s.channels; c++) {
                call->saved[0].data[n * call->in[0].shape.dim[1] + c] = s.mean;
                call->saved[1].data[n * call->in[0].shape.dim[1] + c] = s.rstd;
            }
        }
}

static void group_backward(clt_ref_call *call, const group *s)
{
    const double *x = call->in[0].data + s->first, *dy = call->dout[0].data + s->first;
    double sum = 0, product = 0;
    for (int64_t i = 0; i < s->size; i++) {
        int64_t c = s->channel + i / s->positions;
        double w = call->n_param ? call->param[0].data[c] : 1, normalised = (x[i] - s->mean) * s->rstd;
        sum += w * dy[i];
        product += w * dy[i] * normalised;
        if (call->n_param && call->dparam[0].data)
            call->dparam[0].data[c] += dy[i] * normalised;
        if (call->n_param && call->dparam[1].data)
            call->dparam[1].data[c] += dy[i];
    }
    for (int64_t i = 0; call->din[0].data && i < s->size; i++) {
        double w = call->n_param ? call->param[0].data[s->channel + i / s->positions] : 1;
        double normalised = (x[i] - s->mean) * s->rstd;
        call->din[0].data[s->first + i] +=
            s->rstd * (w * dy[i] - (sum + normalised * product) / (double)s->size);
    }
}

static void norm_backward(clt_ref_call *call)
{
    for (int64_t n = 0; n < call->in[0].shape.dim[0]; n++)
        for (int64_t g = 0; g < groups_of(call); g++) {
            group s = group_at(call, n, g);
            group_backward(call, &s);
        }
}

static const clt_op_case group_norm_cases[] = {
    CLT_CASE("image", "{\"groups\":3}", CLT_SMALL, CLT_CASE_F32(3, 21, 5, 4)),
    CLT_CASE("volume", "{\"groups\":4,\"eps\":0.01}", CLT_SMALL, CLT_CASE_F32(2, 16, 3, 4, 5)),
    CLT_CASE("features", "{\"groups\":2}", CLT_SMALL, CLT_CASE_F32(5, 38)),
    CLT_CASE("one_group", "{\"groups\":1}", CLT_SMALL, CLT_CASE_F32(2, 7, 3, 3)),
    CLT_CASE("one_pixel", "{\"groups\":2}", CLT_SMALL, CLT_CASE_F32(3, 34, 1, 1)),
    CLT_CASE("plain_bf16", "{\"groups\":8,\"affine\":false}", CLT_SMALL,
             CLT_CASE_FLOAT(CLT_BF16, 2, 32, 4, 3)),
    CLT_CASE("f16", "{\"groups\":5}", 0, CLT_CASE_FLOAT(CLT_F16, 2, 35, 4, 3)),
    CLT_CASE("one_sample", "{\"groups\":2}", 0, CLT_CASE_F32(1, 6, 5, 7)),
    CLT_CASE("blocks", "{\"groups\":6}", 0, CLT_CASE_F32(3, 18, 23, 31)),
    CLT_CASE("samples", "{\"groups\":2}", 0, CLT_CASE_F32(66001, 6)),
    CLT_CASE("long_blocks", "{\"groups\":2}", 0, CLT_CASE_F32(2, 4, 263, 257)),
    /* two values may be close to each other; with the usual eps, rstd is then up to 316 and multiplies
     * rounding errors */
    CLT_CASE("two", "{\"groups\":2,\"eps\":0.1}", 0, CLT_CASE_F32(3, 4)),
};
static const clt_op_case instance_norm_cases[] = {
    CLT_CASE("image", NULL, CLT_SMALL, CLT_CASE_F32(3, 19, 5, 4)),
    CLT_CASE("volume", "{\"affine\":true}", CLT_SMALL, CLT_CASE_F32(2, 17, 3, 4, 5)),
    CLT_CASE("line", NULL, CLT_SMALL, CLT_CASE_F32(2, 3, 13)),
    CLT_CASE("one_channel", "{\"affine\":true}", CLT_SMALL, CLT_CASE_F32(2, 1, 6, 3)),
    CLT_CASE("bf16", "{\"affine\":true}", CLT_SMALL, CLT_CASE_FLOAT(CLT_BF16, 2, 33, 4, 3)),
    CLT_CASE("f16", NULL, 0, CLT_CASE_FLOAT(CLT_F16, 2, 16, 4, 5)),
    CLT_CASE("blocks", NULL, 0, CLT_CASE_F32(2, 18, 21, 37)),
    CLT_CASE("chains", "{\"affine\":true}", 0, CLT_CASE_F32(1, 1, 1100, 1100)),
};
static const clt_op_case group_norm_timed[] = {
    CLT_CASE("volume", "{\"groups\":8}", 0, CLT_CASE_F32(2, 32, 64, 64, 64)),
};
static const clt_op_case instance_norm_timed[] = {
    CLT_CASE("volume", NULL, 0, CLT_CASE_F32(2, 32, 64, 64, 64)),
};

CLT_OP_REF(group_norm, norm_forward, norm_backward, group_norm_cases, .tolerance = 64,
           CLT_TIMED(group_norm_timed));
CLT_OP_REF(instance_norm, norm_forward, norm_backward, instance_norm_cases, .tolerance = 64,
           CLT_TIMED(instance_norm_timed));
