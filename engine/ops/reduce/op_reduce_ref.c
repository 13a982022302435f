/* SPDX-License-Identifier: Apache-2.0
 *
 * Double-precision reference and cases of reduce. Knows formulas only: it visits every element and finds its
 * output. */
#include <math.h>
#include <stdlib.h>

#include "engine/ops/case.h"

enum { KIND_SUM, KIND_MEAN, KIND_MAX };

static bool reduced(const clt_ref_call *call, int d)
{
    const clt_attr *axes = clt_node_attr(call->node, "axes");
    if (axes->n_list == 0)
        return d > 0;
    for (int i = 0; i < axes->n_list; i++)
        if (axes->list[i] == d || axes->list[i] + call->in[0].shape.ndim == d)
            return true;
    return false;
}

/* The place of an element of x: its output, its index among the elements of that output, and the number of
 * these elements. */
typedef struct place {
    int64_t output, index, count;
} place;

static place locate(const clt_ref_call *call, int64_t i)
{
    const clt_shape *shape = &call->in[0].shape;
    int64_t at[CLT_MAX_DIMS];
    for (int d = shape->ndim - 1; d >= 0; d--) {
        at[d] = i % shape->dim[d];
        i /= shape->dim[d];
    }
    place p = {0, 0, 1};
    for (int d = 0; d < shape->ndim; d++) {
        if (reduced(call, d)) {
            p.index = p.index * shape->dim[d] + at[d];
            p.count *= shape->dim[d];
        } else {
            p.output = p.output * shape->dim[d] + at[d];
        }
    }
    return p;
}

static void reduce_forward(clt_ref_call *call)
{
    int kind = clt_node_attr(call->node, "kind")->choice;
    int64_t n = clt_shape_elements(&call->in[0].shape), outputs = clt_shape_elements(&call->out[0].shape);
    double *y = call->out[0].data, *index = call->n_saved ? call->saved[0].data : NULL;
    for (int64_t o = 0; o < outputs; o++) {
        y[o] = kind == KIND_MAX ? -INFINITY : 0;
        if (index)
            index[o] = 0; /* where all elements are -infinity */
    }
    for (int64_t i = 0; i < n; i++) {
        place p = locate(call, i);
        double x = call->in[0].data[i];
        if (kind != KIND_MAX) {
            y[p.output] += kind == KIND_MEAN ? x / (double)p.count : x;
        } else if (x > y[p.output] ||
                   (isnan(x) && !isnan(y[p.output]))) { /* elements are visited in the order of their index */
            y[p.output] = x;
            if (index)
                index[p.output] = (double)p.index;
        }
    }
}

static bool same(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

static void reduce_backward(clt_ref_call *call)
{
    int kind = clt_node_attr(call->node, "kind")->choice;
    int64_t n = clt_shape_elements(&call->in[0].shape), outputs = clt_shape_elements(&call->out[0].shape);
    bool *taken = calloc((size_t)outputs + 1, sizeof *taken);
    for (int64_t i = 0; taken && call->din[0].data && i < n; i++) {
        place p = locate(call, i);
        double dy = call->dout[0].data[p.output];
        if (kind == KIND_SUM) {
            call->din[0].data[i] += dy;
        } else if (kind == KIND_MEAN) {
            call->din[0].data[i] += dy / (double)p.count;
        } else if (!taken[p.output] && same(call->in[0].data[i], call->out[0].data[p.output])) {
            taken[p.output] = true;
            call->din[0].data[i] += dy;
        }
    }
    free(taken);
}

#define SUM_MEAN_MAX(word, axes, small, ...)                                                                 \
    CLT_CASE("sum_" word, "{\"kind\":\"sum\"" axes "}", CLT_EXACT | small, CLT_CASE_F32(__VA_ARGS__)),       \
        CLT_CASE("mean_" word, "{\"kind\":\"mean\"" axes "}", small, CLT_CASE_F32(__VA_ARGS__)),             \
        CLT_CASE("max_" word, "{\"kind\":\"max\"" axes "}", CLT_EXACT | small, CLT_CASE_F32(__VA_ARGS__))

/* The cases cover every pattern of kept and reduced dimensions that the kernels distinguish, and a size of 1
 * in every position. */
static const clt_op_case reduce_cases[] = {
    SUM_MEAN_MAX("all", "", CLT_SMALL, 3, 5, 17),
    CLT_CASE("mean_bf16", "{\"kind\":\"mean\",\"axes\":[1]}", CLT_SMALL, CLT_CASE_FLOAT(CLT_BF16, 3, 37, 36)),
    CLT_CASE("max_f16", "{\"kind\":\"max\",\"axes\":[-1]}", CLT_SMALL | CLT_EXACT,
             CLT_CASE_FLOAT(CLT_F16, 3, 5, 67)),
    CLT_CASE("max_nan", "{\"kind\":\"max\",\"axes\":[-1]}", CLT_SMALL | CLT_EXACT,
             CLT_CASE_NAN(CLT_F32, 9, 37)),
    CLT_CASE("max_nan_middle", "{\"kind\":\"max\",\"axes\":[1]}", CLT_SMALL | CLT_EXACT,
             CLT_CASE_NAN(CLT_F32, 3, 7, 35)),
    CLT_CASE("max_lowest", "{\"kind\":\"max\",\"axes\":[-1]}", CLT_SMALL | CLT_EXACT,
             CLT_CASE_LOWEST(CLT_F32, 37, 3)),
    CLT_CASE("max_lowest_middle", "{\"kind\":\"max\",\"axes\":[1]}", CLT_SMALL | CLT_EXACT,
             CLT_CASE_LOWEST(CLT_F32, 3, 3, 35)),
    SUM_MEAN_MAX("last", ",\"axes\":[-1],\"keepdims\":true", CLT_SMALL, 2, 7, 33),
    SUM_MEAN_MAX("wide", ",\"axes\":[1]", 0, 5, 1030),
    SUM_MEAN_MAX("middle", ",\"axes\":[1]", CLT_SMALL, 3, 9, 67),
    SUM_MEAN_MAX("outer", ",\"axes\":[1,3]", 0, 3, 5, 7, 33),
    SUM_MEAN_MAX("inner_kept", ",\"axes\":[1,3]", CLT_SMALL, 2, 3, 5, 7, 19),
    SUM_MEAN_MAX("alternate", ",\"axes\":[1,3,5]", CLT_SMALL, 2, 3, 2, 5, 3, 17),
    SUM_MEAN_MAX("ones", ",\"axes\":[1,3],\"keepdims\":true", CLT_SMALL, 1, 1, 3, 1),
    SUM_MEAN_MAX("single", "", CLT_SMALL, 1, 1),
    /* more outputs than a dimension of a launch may have groups */
    CLT_CASE("sum_samples", "{\"kind\":\"sum\",\"axes\":[1]}", CLT_EXACT, CLT_CASE_F32(66001, 2, 3)),
    CLT_CASE("max_samples", "{\"kind\":\"max\",\"axes\":[1,3]}", CLT_EXACT, CLT_CASE_F32(16501, 2, 5, 2)),
    CLT_CASE_DEEP("equal_inner", "{\"kind\":\"mean\"}", CLT_CASE_F32(2, 300000)),
    CLT_CASE_DEEP("equal_outer", "{\"axes\":[1]}", CLT_CASE_F32(1, 40001, 18)),
    CLT_CASE_DEEP("equal_planes", "{\"axes\":[1,3]}", CLT_CASE_F32(1, 5003, 2, 3, 19)),
    SUM_MEAN_MAX("tall", ",\"axes\":[1]", 0, 1, 257, 130),
};

static const clt_op_case reduce_timed[] = {
    CLT_CASE("rows_large", "{\"axes\":[2]}", 0, CLT_CASE_F32(64, 1024, 1024)),
    CLT_CASE("columns_large", "{\"axes\":[1]}", 0, CLT_CASE_F32(64, 1024, 1024)),
    CLT_CASE("max_large", "{\"kind\":\"max\",\"axes\":[2]}", 0, CLT_CASE_F32(64, 1024, 1024)),
};

/* A sum of n terms, in order or in lanes, has an error of about eps * sqrt(n) of the largest partial sum; n
 * <= 1030 gives less than half of this tolerance. */
CLT_OP_REF(reduce, reduce_forward, reduce_backward, reduce_cases, .tolerance = 16, CLT_TIMED(reduce_timed));
