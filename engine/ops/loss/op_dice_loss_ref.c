/* SPDX-License-Identifier: Apache-2.0
 *
 * Double-precision reference and test cases of dice_loss. */
#include <math.h>
#include <stdlib.h>

#include "engine/ops/case.h"

typedef struct dice_sizes {
    int64_t samples, classes, voxels, first;
    bool sigmoid, squared;
    double smooth, weight;
} dice_sizes;

static dice_sizes sizes_of(const clt_ref_call *call)
{
    const clt_shape *x = &call->in[0].shape;
    dice_sizes d = {.samples = x->dim[0],
                    .classes = x->dim[1],
                    .first = clt_node_attr(call->node, "include_background")->b ? 0 : 1,
                    .sigmoid = clt_node_attr(call->node, "activation")->choice == 1,
                    .squared = clt_node_attr(call->node, "squared_pred")->b,
                    .smooth = clt_node_attr(call->node, "smooth")->f,
                    .weight = clt_node_attr(call->node, "weight")->f};
    d.voxels = clt_shape_elements(x) / (d.samples * d.classes);
    return d;
}

/* Weight of one class in the sample's loss. */
static double share_of(const clt_ref_call *call, const dice_sizes *d, int64_t c)
{
    const clt_attr *weights = clt_node_attr(call->node, "class_weights");
    double weight = weights->set ? (double)(float)weights->number[c] : 1;
    return c < d->first ? 0 : weight / (double)(d->classes - d->first);
}

static int64_t at(const dice_sizes *d, int64_t n, int64_t c, int64_t v)
{
    return (n * d->classes + c) * d->voxels + v;
}

/* Probability of class c at a voxel. */
static double probability(const clt_ref_call *call, const dice_sizes *d, int64_t n, int64_t c, int64_t v)
{
    const double *x = call->in[0].data;
    double sum = 0;
    if (d->sigmoid)
        return 1 / (1 + exp(-x[at(d, n, c, v)]));
    for (int64_t k = 0; k < d->classes; k++)
        sum += exp(x[at(d, n, k, v)] - x[at(d, n, c, v)]);
    return 1 / sum;
}

/* 1: the voxel is of class c; 0: it is not; -1: the voxel does not count. */
static int is_class(const clt_ref_call *call, const dice_sizes *d, int64_t n, int64_t c, int64_t v)
{
    const clt_attr *ignore = clt_node_attr(call->node, "ignore_index");
    int64_t t = (int64_t)call->in[1].data[n * d->voxels + v];
    if (ignore->set && t == ignore->i)
        return -1;
    return d->classes == 1 ? t == 1 : t == c;
}

static bool has_stray(const clt_ref_call *call, const dice_sizes *d, int64_t n)
{
    int64_t most = d->classes == 1 ? 2 : d->classes;
    for (int64_t v = 0; v < d->voxels; v++) {
        double t = call->in[1].data[n * d->voxels + v];
        if (is_class(call, d, n, 0, v) >= 0 && (t < 0 || t >= (double)most))
            return true;
    }
    return false;
}

typedef struct overlap {
    double both, below; /* 2 sum(p t) + smooth, sum(p) + sum(t) + smooth */
} overlap;

static overlap overlap_of(const clt_ref_call *call, const dice_sizes *d, int64_t n, int64_t c)
{
    overlap o = {d->smooth, d->smooth};
    for (int64_t v = 0; v < d->voxels; v++) {
        int t = is_class(call, d, n, c, v);
        double p = probability(call, d, n, c, v);
        if (t < 0)
            continue;
        o.both += 2 * p * t;
        o.below += (d->squared ? p * p : p) + t;
    }
    if (has_stray(call, d, n))
        o.both = (double)NAN;
    return o;
}

static void dice_loss_forward(clt_ref_call *call)
{
    const dice_sizes d = sizes_of(call);
    for (int64_t n = 0; n < d.samples && n < call->valid_samples; n++) {
        double loss = 0, terms = 0;
        for (int64_t c = d.first; c < d.classes; c++) {
            overlap o = overlap_of(call, &d, n, c);
            loss += (1 - o.both / o.below) * share_of(call, &d, c);
            terms += (1 + fabs(o.both / o.below)) * fabs(share_of(call, &d, c));
        }
        call->loss_record[0] += loss * d.weight * call->loss_norm;
        call->loss_record[1] += loss;
        call->loss_terms[0] += terms * d.weight * call->loss_norm;
        call->loss_terms[1] += terms;
        call->loss_record[2] += 1;
    }
}

/* Adds to the gradient of a voxel's logits; g: the gradient of its probabilities. */
static void add_gradient(clt_ref_call *call, const dice_sizes *d, int64_t n, int64_t v, const double *g)
{
    double scale = d->weight * call->loss_norm * call->loss_scale, mean = 0;
    for (int64_t c = 0; c < d->classes; c++)
        mean += g[c] * probability(call, d, n, c, v);
    for (int64_t c = 0; c < d->classes; c++) {
        double p = probability(call, d, n, c, v);
        call->din[0].data[at(d, n, c, v)] += scale * p * (d->sigmoid ? g[c] * (1 - p) : g[c] - mean);
    }
}

static void dice_loss_backward(clt_ref_call *call)
{
    const dice_sizes d = sizes_of(call);
    double *g = calloc((size_t)d.classes, sizeof *g);
    overlap *o = calloc((size_t)d.classes, sizeof *o);
    for (int64_t n = 0; g && o && call->din[0].data && n < d.samples && n < call->valid_samples; n++) {
        for (int64_t c = 0; c < d.classes; c++)
            o[c] = overlap_of(call, &d, n, c);
        for (int64_t v = 0; v < d.voxels; v++) {
            for (int64_t c = 0; c < d.classes; c++) {
                double p = probability(call, &d, n, c, v);
                g[c] =
                    share_of(call, &d, c) * (o[c].both / (o[c].below * o[c].below) * (d.squared ? 2 * p : 1) -
                                             2 / o[c].below * is_class(call, &d, n, c, v));
            }
            if (is_class(call, &d, n, 0, v) >= 0)
                add_gradient(call, &d, n, v, g);
        }
    }
    free(g);
    free(o);
}

static const clt_op_case dice_loss_cases[] = {
    CLT_CASE("image", NULL, CLT_SMALL, CLT_CASE_F32(3, 5, 4, 7), CLT_CASE_INDEX(CLT_U8, 5, 3, 4, 7)),
    CLT_CASE("volume", "{\"include_background\":false,\"weight\":0.5}", CLT_SMALL,
             CLT_CASE_F32(2, 3, 4, 3, 5), CLT_CASE_INDEX(CLT_I32, 3, 2, 4, 3, 5)),
    CLT_CASE("squared", "{\"squared_pred\":true,\"smooth\":1}", CLT_SMALL, CLT_CASE_F32(2, 4, 3, 5),
             CLT_CASE_INDEX(CLT_U16, 4, 2, 3, 5)),
    CLT_CASE("sigmoid", "{\"activation\":\"sigmoid\"}", CLT_SMALL, CLT_CASE_F32(2, 3, 5, 4),
             CLT_CASE_INDEX(CLT_U8, 3, 2, 5, 4)),
    CLT_CASE("one_channel", "{\"activation\":\"sigmoid\",\"squared_pred\":true}", CLT_SMALL,
             CLT_CASE_F32(3, 1, 6, 3), CLT_CASE_INDEX(CLT_U8, 2, 3, 6, 3)),
    CLT_CASE("ignore", "{\"ignore_index\":2}", CLT_SMALL, CLT_CASE_F32(2, 3, 4, 5),
             CLT_CASE_INDEX(CLT_U8, 3, 2, 4, 5)),
    CLT_CASE("weights", "{\"class_weights\":[0.25,2,0,1,3]}", CLT_SMALL, CLT_CASE_F32(3, 5, 4, 7),
             CLT_CASE_INDEX(CLT_U8, 5, 3, 4, 7)),
    CLT_CASE("weights_foreground",
             "{\"class_weights\":[9,2,0.5],\"include_background\":false,\"squared_pred\":true,\"weight\":0.5,"
             "\"ignore_index\":1}",
             CLT_SMALL, CLT_CASE_F32(2, 3, 4, 3, 5), CLT_CASE_INDEX(CLT_I32, 3, 2, 4, 3, 5)),
    CLT_CASE("weights_sigmoid_bf16", "{\"class_weights\":[0.25,2,3],\"activation\":\"sigmoid\"}", CLT_SMALL,
             CLT_CASE_FLOAT(CLT_BF16, 2, 3, 5, 4), CLT_CASE_INDEX(CLT_U8, 3, 2, 5, 4)),
    CLT_CASE("one_pixel", NULL, CLT_SMALL, CLT_CASE_F32(4, 3, 1, 1), CLT_CASE_INDEX(CLT_U8, 3, 4, 1, 1)),
    CLT_CASE("stray", NULL, CLT_SMALL, CLT_CASE_F32(23, 3, 1, 2), CLT_CASE_STRAY(CLT_I32, 3, 23, 1, 2)),
    CLT_CASE("bf16", NULL, CLT_SMALL, CLT_CASE_FLOAT(CLT_BF16, 2, 4, 3, 5),
             CLT_CASE_INDEX(CLT_U8, 4, 2, 3, 5)),
    CLT_CASE("f16", "{\"activation\":\"sigmoid\",\"include_background\":false}", 0,
             CLT_CASE_FLOAT(CLT_F16, 2, 4, 3, 5), CLT_CASE_INDEX(CLT_U8, 4, 2, 3, 5)),
    CLT_CASE("blocks", NULL, 0, CLT_CASE_F32(2, 2, 37, 41), CLT_CASE_INDEX(CLT_U8, 2, 2, 37, 41)),
    CLT_CASE("chains", NULL, 0, CLT_CASE_F32(1, 2, 1100, 1100), CLT_CASE_INDEX(CLT_U8, 2, 1, 1100, 1100)),
};

static const clt_op_case dice_loss_timed[] = {
    CLT_CASE("volume", NULL, 0, CLT_CASE_F32(2, 4, 96, 96, 96), CLT_CASE_INDEX(CLT_U8, 4, 2, 96, 96, 96)),
};

/* exp and sums as in cross_entropy; sums over few voxels are small, so quotients by them are large. */
CLT_OP_REF(dice_loss, dice_loss_forward, dice_loss_backward, dice_loss_cases, .tolerance = 64,
           CLT_TIMED(dice_loss_timed));
