/* SPDX-License-Identifier: Apache-2.0
 *
 * Double-precision reference and cases of rotary. Knows formulas only. */
#include <math.h>

#include "engine/ops/attention/rotary.h"
#include "engine/ops/case.h"

/* The place of row r of all samples' rows. A position below 0 counts as 0. */
static double place_of(const clt_ref_call *call, int64_t r)
{
    int64_t samples = call->in[0].shape.dim[0], places = call->in[0].shape.dim[1];
    if (call->n_in < 2)
        return (double)(r % places);
    if (clt_shape_elements(&call->in[1].shape) == samples)
        return (double)(r % places) + fmax(call->in[1].data[r / places], 0);
    return fmax(call->in[1].data[r], 0);
}

/* The frequency w after scaling, by the definitions of the published models. */
static double scaled(const clt_node *node, double w, int64_t i, int64_t rotary)
{
    const double pi = acos(-1), factor = clt_node_attr(node, "factor")->f;
    double original = (double)clt_node_attr(node, "original")->i, low = clt_node_attr(node, "low")->f;
    double high = clt_node_attr(node, "high")->f, length = 2 * pi / w, base = clt_node_attr(node, "base")->f;
    int64_t scaling = clt_node_attr(node, "scaling")->choice;
    if (scaling == CLT_ROTARY_LINEAR)
        return w / factor;
    if (scaling == CLT_ROTARY_LLAMA3) {
        high = high > 0 ? high : 4;
        double smooth = (original / length - low) / (high - low);
        return length < original / high  ? w
               : length > original / low ? w / factor
                                         : (1 - smooth) * w / factor + smooth * w;
    }
    if (scaling == CLT_ROTARY_YARN) {
        high = high > 0 ? high : 32;
        double width = (double)rotary / (2 * log(base));
        double first = fmax(floor(width * log(original / (high * 2 * pi))), 0);
        double last = fmin(ceil(width * log(original / (low * 2 * pi))), (double)rotary - 1);
        double ramp = fmin(fmax(((double)i - first) / fmax(last - first, 0.001), 0), 1);
        return w / factor * ramp + w * (1 - ramp);
    }
    return w;
}

/* Adds to `to` the array `from` with every pair rotated; sign -1: rotated in the opposite direction. */
static void turn(const clt_ref_call *call, const double *from, double *to, double sign)
{
    const clt_shape *shape = &call->in[0].shape;
    int64_t dim = clt_node_attr(call->node, "head")->i, rotary = clt_node_attr(call->node, "rotary")->i;
    int64_t turned = clt_node_attr(call->node, "heads")->i, heads = shape->dim[2] / dim;
    bool interleaved = clt_node_attr(call->node, "interleaved")->b;
    double base = clt_node_attr(call->node, "base")->f;
    rotary = rotary ? rotary : dim;
    turned = turned ? turned : heads;
    for (int64_t r = 0; r < shape->dim[0] * shape->dim[1]; r++)
        for (int64_t h = 0; h < heads; h++) {
            int64_t at = (r * heads + h) * dim;
            double place = place_of(call, r);
            for (int64_t c = h < turned ? rotary : 0; c < dim; c++)
                to[at + c] += from[at + c];
            for (int64_t i = 0; h < turned && i < rotary / 2; i++) {
                int64_t p = at + (interleaved ? 2 * i : i), q = interleaved ? p + 1 : p + rotary / 2;
                double w = pow(base, -2.0 * (double)i / (double)rotary);
                double angle = sign * place * scaled(call->node, w, i, rotary);
                to[p] += from[p] * cos(angle) - from[q] * sin(angle);
                to[q] += from[p] * sin(angle) + from[q] * cos(angle);
            }
        }
}

static void rotary_forward(clt_ref_call *call)
{
    int64_t n = clt_shape_elements(&call->out[0].shape);
    for (int64_t i = 0; i < n; i++)
        call->out[0].data[i] = 0;
    turn(call, call->in[0].data, call->out[0].data, 1);
}

static void rotary_backward(clt_ref_call *call)
{
    if (call->din[0].data)
        turn(call, call->dout[0].data, call->din[0].data, -1);
}

#define POSITION(n)                                                                                          \
    {                                                                                                        \
        .dtype = CLT_I32, .fill = CLT_FILL_INDEX, .fill_max = 1000000, .ndim = 1, .dim = { n }               \
    }
static const clt_op_case rotary_cases[] = {
    CLT_CASE("odd", "{\"head\":6}", CLT_SMALL, CLT_CASE_F32(3, 7, 30)),
    CLT_CASE("lanes", "{\"head\":64}", CLT_SMALL, CLT_CASE_F32(2, 5, 128)),
    CLT_CASE("tail", "{\"head\":40}", CLT_SMALL, CLT_CASE_F32(2, 3, 80)),
    CLT_CASE("neighbours", "{\"head\":36,\"interleaved\":true,\"base\":500}", CLT_SMALL,
             CLT_CASE_F32(2, 5, 108)),
    CLT_CASE("part", "{\"head\":10,\"rotary\":4,\"heads\":2}", CLT_SMALL, CLT_CASE_F32(3, 11, 40)),
    CLT_CASE("packed", "{\"head\":34,\"heads\":2,\"rotary\":32}", CLT_SMALL, CLT_CASE_F32(2, 9, 102)),
    CLT_CASE("two", "{\"head\":2}", CLT_SMALL, CLT_CASE_F32(1, 13, 2)),
    CLT_CASE("far", "{\"head\":12,\"base\":1000000}", CLT_SMALL, CLT_CASE_F32(5, 4, 24), POSITION(5)),
    /* a position below 0 counts as 0 */
    CLT_CASE("stray", "{\"head\":12}", CLT_SMALL, CLT_CASE_F32(19, 3, 24), CLT_CASE_STRAY(CLT_I32, 9, 19)),
    CLT_CASE("rows", "{\"head\":32}", CLT_SMALL, CLT_CASE_F32(3, 7, 64),
             CLT_CASE_INDEX(CLT_I32, 1000000, 3, 7)),
    CLT_CASE("rows_stray", "{\"head\":10,\"rotary\":4,\"heads\":2}", CLT_SMALL, CLT_CASE_F32(3, 11, 40),
             CLT_CASE_STRAY(CLT_I32, 5, 3, 11)),
    CLT_CASE("rows_f16", "{\"head\":64,\"interleaved\":true}", 0, CLT_CASE_FLOAT(CLT_F16, 2, 33, 128),
             CLT_CASE_INDEX(CLT_I32, 40, 2, 33)),
    CLT_CASE("bf16", "{\"head\":32,\"heads\":1}", CLT_SMALL, CLT_CASE_FLOAT(CLT_BF16, 3, 6, 64), POSITION(3)),
    CLT_CASE("linear", "{\"head\":40,\"scaling\":\"linear\",\"factor\":4}", CLT_SMALL,
             CLT_CASE_F32(2, 90, 80)),
    CLT_CASE("llama3", "{\"head\":64,\"base\":500000,\"scaling\":\"llama3\",\"factor\":32,\"original\":8192}",
             CLT_SMALL, CLT_CASE_F32(3, 70, 128), POSITION(3)),
    CLT_CASE("llama3_short",
             "{\"head\":18,\"scaling\":\"llama3\",\"factor\":8,\"original\":16,\"low\":0.5,\"high\":4,"
             "\"interleaved\":true}",
             CLT_SMALL, CLT_CASE_F32(2, 130, 36)),
    CLT_CASE("yarn", "{\"head\":128,\"base\":1000000,\"scaling\":\"yarn\",\"factor\":4,\"original\":32768}",
             CLT_SMALL, CLT_CASE_F32(2, 40, 128), POSITION(2)),
    CLT_CASE("yarn_short", "{\"head\":10,\"scaling\":\"yarn\",\"factor\":16,\"original\":100,\"high\":9}",
             CLT_SMALL, CLT_CASE_F32(1, 201, 20)),
    CLT_CASE("f16", "{\"head\":8}", CLT_SMALL, CLT_CASE_FLOAT(CLT_F16, 3, 5, 24)),
    CLT_CASE("long", "{\"head\":64,\"heads\":4}", 0, CLT_CASE_F32(1, 600, 384)),
};

static const clt_op_case rotary_timed[] = {
    CLT_CASE("gpt2", "{\"head\":64,\"heads\":24}", 0, CLT_CASE_F32(4, 64, 2304)),
    CLT_CASE("large", "{\"head\":64,\"heads\":24}", 0, CLT_CASE_F32(16, 512, 2304)),
};

/* The angle is within one ulp and its cosine and sine within a few; two products and a sum follow. */
CLT_OP_REF(rotary, rotary_forward, rotary_backward, rotary_cases, .tolerance = 16, CLT_TIMED(rotary_timed));
