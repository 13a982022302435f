/* SPDX-License-Identifier: Apache-2.0
 *
 * Double-precision reference and test cases of cross_entropy. */
#include <math.h>

#include "engine/ops/case.h"

typedef struct ce_row {
    bool counts, correct, in_range;
    int64_t target, second;
    double share; /* weight of `target` in the mix; the weight of `second` is 1 - share */
    double top, sum, log_sum;
    double spread; /* mean over the classes of w log p, which smoothing adds */
} ce_row;

static double ce_weight(const clt_ref_call *call, int64_t c)
{
    const clt_attr *weights = clt_node_attr(call->node, "class_weights");
    return weights->set && c >= 0 && c < weights->n_list ? (double)(float)weights->number[c] : 1;
}

/* ce_channels: the classes are dimension 1. ce_stride: number of logits of a row; the first ce_cols of them
 * are classes. */
static bool ce_channels(const clt_ref_call *call)
{
    return clt_node_attr(call->node, "axis")->i == 1 && call->in[0].shape.ndim > 2;
}
static int64_t ce_stride(const clt_ref_call *call)
{
    return ce_channels(call) ? call->in[0].shape.dim[1] : clt_shape_last(&call->in[0].shape);
}
static int64_t ce_rows(const clt_ref_call *call)
{
    return clt_shape_elements(&call->in[0].shape) / ce_stride(call);
}
/* The index of logit c of row r. */
static int64_t ce_at(const clt_ref_call *call, int64_t r, int64_t c)
{
    int64_t positions = ce_rows(call) / call->in[0].shape.dim[0];
    return ce_channels(call) ? (r / positions * ce_stride(call) + c) * positions + r % positions
                             : r * ce_stride(call) + c;
}
static int64_t ce_cols(const clt_ref_call *call)
{
    int64_t classes = clt_node_attr(call->node, "classes")->i;
    return classes > 0 ? classes : ce_stride(call);
}

static ce_row ce_look(const clt_ref_call *call, int64_t r)
{
    int64_t cols = ce_cols(call), per = ce_rows(call) / call->in[0].shape.dim[0];
    const clt_attr *ignore = clt_node_attr(call->node, "ignore_index");
    const double *x = call->in[0].data;
    ce_row row = {.target = (int64_t)call->in[1].data[r], .top = x[ce_at(call, r, 0)], .share = 1};
    row.second = row.target;
    if (call->n_in > 2) {
        row.second = (int64_t)call->in[2].data[r];
        row.second = ignore->set && row.second == ignore->i ? row.target : row.second;
        row.share = call->in[3].data[r / per];
    }
    row.in_range = row.target >= 0 && row.target < cols && row.second >= 0 && row.second < cols;
    row.counts = r / per < call->valid_samples && !(ignore->set && row.target == ignore->i);
    int64_t best = 0;
    for (int64_t c = 1; c < cols; c++) {
        if (x[ce_at(call, r, c)] > row.top) {
            row.top = x[ce_at(call, r, c)];
            best = c;
        }
    }
    for (int64_t c = 0; c < cols; c++)
        row.sum += exp(x[ce_at(call, r, c)] - row.top);
    row.log_sum = log(row.sum);
    for (int64_t c = 0; c < cols; c++)
        row.spread += ce_weight(call, c) * (x[ce_at(call, r, c)] - row.top - row.log_sum) / (double)cols;
    row.correct = best == row.target && row.in_range;
    return row;
}

static void ce_forward(clt_ref_call *call)
{
    int64_t rows = ce_rows(call);
    double s = clt_node_attr(call->node, "label_smoothing")->f,
           weight = clt_node_attr(call->node, "weight")->f;
    double loss = 0.0, terms = 0.0, counted = 0.0, correct = 0.0;
    for (int64_t r = 0; r < rows; r++) {
        ce_row row = ce_look(call, r);
        if (call->n_saved > 0 && call->saved[0].data) {
            call->saved[0].data[2 * r] = row.counts ? row.top : 0.0;
            call->saved[0].data[2 * r + 1] = row.counts ? row.sum : 0.0;
        }
        if (!row.counts)
            continue;
        const double *x = call->in[0].data;
        double first = row.share * ce_weight(call, row.target),
               second = (1 - row.share) * ce_weight(call, row.second);
        /* w log p of the two targets, which have opposite signs if the share of one is negative */
        double one = (double)NAN, other = (double)NAN;
        if (row.in_range) {
            one = first * (x[ce_at(call, r, row.target)] - row.top - row.log_sum);
            other = second * (x[ce_at(call, r, row.second)] - row.top - row.log_sum);
        }
        loss -= (1.0 - s) * (one + other) + s * row.spread;
        terms += (1.0 - s) * (fabs(one) + fabs(other)) + s * fabs(row.spread);
        counted += 1.0;
        correct += row.correct ? 1.0 : 0.0;
    }
    call->loss_record[0] += loss * weight * call->loss_norm;
    call->loss_record[1] += loss;
    call->loss_terms[0] += terms * weight * call->loss_norm;
    call->loss_terms[1] += terms;
    call->loss_record[2] += counted;
    call->loss_record[3] += correct;
}

/* w q of class c: its weight times its probability in the target distribution. */
static double ce_weighted(const clt_ref_call *call, const ce_row *row, int64_t c)
{
    double s = clt_node_attr(call->node, "label_smoothing")->f;
    double q = s / (double)ce_cols(call) + (c == row->target ? (1.0 - s) * row->share : 0.0) +
               (c == row->second ? (1.0 - s) * (1 - row->share) : 0.0);
    return row->in_range ? ce_weight(call, c) * q : (double)NAN;
}

static void ce_backward(clt_ref_call *call)
{
    int64_t rows = ce_rows(call), cols = ce_cols(call);
    double scale = clt_node_attr(call->node, "weight")->f * call->loss_norm * call->loss_scale;
    if (!call->din[0].data)
        return;
    for (int64_t r = 0; r < rows; r++) {
        ce_row row = ce_look(call, r);
        double sum = 0;
        for (int64_t c = 0; c < cols; c++)
            sum += ce_weighted(call, &row, c);
        for (int64_t c = 0; row.counts && c < cols; c++) {
            double p = exp(call->in[0].data[ce_at(call, r, c)] - row.top - row.log_sum);
            call->din[0].data[ce_at(call, r, c)] += scale * (p * sum - ce_weighted(call, &row, c));
        }
    }
}

/* Thirty-seven weights. */
#define CE_9 "0.5,1,2,0.25,3,1.5,0,1,0.125"
#define CE_37 CE_9 "," CE_9 "," CE_9 "," CE_9 ",2"

/* exp and log of the device have errors of up to 3 ulp; sums over C terms and over R rows are made in
 * blocks. Errors of the record are relative to the record itself. */
static const clt_op_case ce_cases[] = {
    CLT_CASE("ties", NULL, CLT_SMALL, CLT_CASE_WHOLE(CLT_F32, 150, 9), CLT_CASE_INDEX(CLT_U8, 9, 150)),
    CLT_CASE("ties_far", NULL, CLT_SMALL, CLT_CASE_WHOLE(CLT_F32, 90, 37), CLT_CASE_INDEX(CLT_U16, 37, 90)),
    CLT_CASE("blocks", NULL, CLT_SMALL, CLT_CASE_WIDE(CLT_F32, 3, 601), CLT_CASE_INDEX(CLT_U16, 601, 3)),
    CLT_CASE("peaks", NULL, CLT_SMALL, CLT_CASE_PEAKS(CLT_F32, 601, 30, 601),
             CLT_CASE_INDEX(CLT_U16, 601, 30)),
    CLT_CASE("bf16", NULL, CLT_SMALL, CLT_CASE_FLOAT(CLT_BF16, 5, 36), CLT_CASE_INDEX(CLT_U16, 36, 5)),
    CLT_CASE("f16_smooth", "{\"classes\":61,\"label_smoothing\":0.1,\"ignore_index\":3,\"weight\":0.5}",
             CLT_SMALL, CLT_CASE_WIDE(CLT_F16, 7, 67), CLT_CASE_INDEX(CLT_I32, 61, 7)),
    CLT_CASE("one_class", NULL, CLT_SMALL, CLT_CASE_F32(1, 1), CLT_CASE_INDEX(CLT_U8, 1, 1)),
    CLT_CASE("odd", NULL, CLT_SMALL, CLT_CASE_F32(5, 7), CLT_CASE_INDEX(CLT_U8, 7, 5)),
    CLT_CASE("two_classes", NULL, CLT_SMALL, CLT_CASE_F32(9, 2), CLT_CASE_INDEX(CLT_I32, 2, 9)),
    CLT_CASE("tail", NULL, CLT_SMALL, CLT_CASE_F32(3, 4, 37), CLT_CASE_INDEX(CLT_U16, 37, 3, 4)),
    CLT_CASE("out_of_range", NULL, CLT_SMALL, CLT_CASE_F32(31, 21), CLT_CASE_STRAY(CLT_I32, 21, 31)),
    CLT_CASE("ignore", "{\"ignore_index\":2}", CLT_SMALL, CLT_CASE_F32(11, 5),
             CLT_CASE_INDEX(CLT_I32, 5, 11)),
    CLT_CASE("padded", "{\"classes\":5,\"ignore_index\":-1}", CLT_SMALL, CLT_CASE_F32(7, 8),
             CLT_CASE_INDEX(CLT_I32, 5, 7)),
    CLT_CASE("padded_wide", "{\"classes\":37,\"label_smoothing\":0.1}", 0, CLT_CASE_F32(3, 5, 64),
             CLT_CASE_INDEX(CLT_U16, 37, 3, 5)),
    CLT_CASE("smooth", "{\"label_smoothing\":0.1}", CLT_SMALL, CLT_CASE_F32(6, 19),
             CLT_CASE_INDEX(CLT_U8, 19, 6)),
    CLT_CASE("smooth_ignore_weight", "{\"label_smoothing\":0.25,\"ignore_index\":0,\"weight\":0.5}", 0,
             CLT_CASE_F32(4, 8, 33), CLT_CASE_INDEX(CLT_U8, 33, 4, 8)),
    CLT_CASE("mask", NULL, CLT_SMALL, CLT_CASE_F32(3, 5, 4, 7), CLT_CASE_INDEX(CLT_U8, 5, 3, 4, 7)),
    CLT_CASE("mask_volume", "{\"ignore_index\":1,\"label_smoothing\":0.1,\"weight\":0.5}", CLT_SMALL,
             CLT_CASE_F32(2, 3, 4, 3, 5), CLT_CASE_INDEX(CLT_I32, 3, 2, 4, 3, 5)),
    CLT_CASE("mask_wide_bf16", NULL, CLT_SMALL, CLT_CASE_FLOAT(CLT_BF16, 2, 37, 3, 4),
             CLT_CASE_INDEX(CLT_U8, 37, 2, 3, 4)),
    CLT_CASE("mask_cube", "{\"axis\":1}", CLT_SMALL, CLT_CASE_F32(2, 4, 4, 4),
             CLT_CASE_INDEX(CLT_I32, 4, 2, 4, 4)),
    CLT_CASE("rows_cube", NULL, CLT_SMALL, CLT_CASE_F32(2, 4, 4, 4), CLT_CASE_INDEX(CLT_I32, 4, 2, 4, 4)),
    CLT_CASE("mixed", NULL, CLT_SMALL, CLT_CASE_F32(13, 19), CLT_CASE_INDEX(CLT_I32, 19, 13),
             CLT_CASE_INDEX(CLT_I32, 19, 13), CLT_CASE_F32(13)),
    CLT_CASE("mixed_smooth", "{\"label_smoothing\":0.1,\"ignore_index\":2}", CLT_SMALL, CLT_CASE_F32(37, 5),
             CLT_CASE_INDEX(CLT_U8, 5, 37), CLT_CASE_INDEX(CLT_U8, 5, 37), CLT_CASE_F32(37)),
    CLT_CASE("mixed_mask_f16", NULL, 0, CLT_CASE_FLOAT(CLT_F16, 3, 35, 2, 3),
             CLT_CASE_INDEX(CLT_U8, 35, 3, 2, 3), CLT_CASE_INDEX(CLT_U8, 35, 3, 2, 3), CLT_CASE_F32(3)),
    CLT_CASE("mixed_stray", NULL, CLT_SMALL, CLT_CASE_F32(31, 21), CLT_CASE_INDEX(CLT_I32, 21, 31),
             CLT_CASE_STRAY(CLT_I32, 21, 31), CLT_CASE_F32(31)),
    CLT_CASE("weights", "{\"class_weights\":[1,0.25,3,0,2]}", CLT_SMALL, CLT_CASE_F32(37, 5),
             CLT_CASE_INDEX(CLT_U8, 5, 37)),
    CLT_CASE("weights_smooth",
             "{\"class_weights\":[1,0.25,3,0,2,1.5,0.1],\"label_smoothing\":0.2,\"ignore_index\":3,"
             "\"weight\":0.5}",
             CLT_SMALL, CLT_CASE_F32(31, 7), CLT_CASE_INDEX(CLT_I32, 7, 31)),
    CLT_CASE("weights_mask", "{\"class_weights\":[0.1,2,5],\"ignore_index\":-1}", CLT_SMALL,
             CLT_CASE_F32(2, 3, 4, 3, 5), CLT_CASE_INDEX(CLT_I32, 3, 2, 4, 3, 5)),
    CLT_CASE("weights_mask_bf16", "{\"class_weights\":[0.1,2,5,1],\"label_smoothing\":0.1}", CLT_SMALL,
             CLT_CASE_FLOAT(CLT_BF16, 2, 4, 3, 5), CLT_CASE_INDEX(CLT_U8, 4, 2, 3, 5)),
    CLT_CASE("weights_f16", "{\"class_weights\":[0.1,2,5,1]}", 0, CLT_CASE_FLOAT(CLT_F16, 35, 4),
             CLT_CASE_INDEX(CLT_U16, 4, 35)),
    CLT_CASE("weights_mixed", "{\"class_weights\":[0.1,2,5,1,0.5]}", CLT_SMALL, CLT_CASE_F32(37, 5),
             CLT_CASE_INDEX(CLT_U8, 5, 37), CLT_CASE_INDEX(CLT_U8, 5, 37), CLT_CASE_F32(37)),
    CLT_CASE("weights_mixed_smooth",
             "{\"class_weights\":[0.1,2,5,1,0.5],\"label_smoothing\":0.1,\"ignore_index\":2}", CLT_SMALL,
             CLT_CASE_F32(3, 5, 2, 3), CLT_CASE_INDEX(CLT_U8, 5, 3, 2, 3), CLT_CASE_INDEX(CLT_U8, 5, 3, 2, 3),
             CLT_CASE_F32(3)),
    CLT_CASE("weights_wide", "{\"class_weights\":[" CE_37 "],\"label_smoothing\":0.1,\"classes\":37}", 0,
             CLT_CASE_F32(9, 41), CLT_CASE_INDEX(CLT_U8, 37, 9)),
    CLT_CASE("weights_stray", "{\"class_weights\":[1,2,3]}", CLT_SMALL, CLT_CASE_F32(31, 3),
             CLT_CASE_STRAY(CLT_I32, 3, 31)),
    CLT_CASE("digits", NULL, 0, CLT_CASE_F32(200, 10), CLT_CASE_INDEX(CLT_U8, 10, 200)),
    CLT_CASE("bytes", NULL, 0, CLT_CASE_F32(8, 33, 256), CLT_CASE_INDEX(CLT_U8, 256, 8, 33)),
    CLT_CASE("vocabulary", NULL, 0, CLT_CASE_F32(3, 50257), CLT_CASE_INDEX(CLT_U16, 50257, 3)),
    CLT_CASE("many_rows", NULL, 0, CLT_CASE_F32(5003, 3), CLT_CASE_INDEX(CLT_U8, 3, 5003)),
    CLT_CASE("many_parts", NULL, 0, CLT_CASE_F32(70003, 2), CLT_CASE_INDEX(CLT_U8, 2, 70003)),
};

static const clt_op_case ce_timed[] = {
    CLT_CASE("gpt2", "{\"classes\":50257}", 0, CLT_CASE_F32(4, 64, 50304),
             CLT_CASE_INDEX(CLT_U16, 50257, 4, 64)),
    CLT_CASE("large", "{\"classes\":50257}", 0, CLT_CASE_F32(16, 64, 50304),
             CLT_CASE_INDEX(CLT_U16, 50257, 16, 64)),
};

CLT_OP_REF(cross_entropy, ce_forward, ce_backward, ce_cases, .tolerance = 8, CLT_TIMED(ce_timed));
