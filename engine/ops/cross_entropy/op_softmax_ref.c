/* SPDX-License-Identifier: Apache-2.0
 *
 * Double-precision references and cases of softmax and log_softmax. Knows formulas only. */
#include <math.h>

#include "engine/ops/case.h"

/* Sets y to the log probabilities of one row. */
static void log_row(const double *x, double *y, int64_t cols)
{
    double top = -INFINITY, sum = 0;
    for (int64_t c = 0; c < cols; c++)
        top = fmax(top, x[c]);
    for (int64_t c = 0; c < cols; c++)
        sum += exp(x[c] - top);
    for (int64_t c = 0; c < cols; c++)
        y[c] = x[c] - top - log(sum);
}

static void log_softmax_forward(clt_ref_call *call)
{
    int64_t rows = clt_shape_rows(&call->in[0].shape), cols = clt_shape_last(&call->in[0].shape);
    for (int64_t r = 0; r < rows; r++)
        log_row(call->in[0].data + r * cols, call->out[0].data + r * cols, cols);
}

static void softmax_forward(clt_ref_call *call)
{
    int64_t n = clt_shape_elements(&call->in[0].shape);
    log_softmax_forward(call);
    for (int64_t i = 0; i < n; i++)
        call->out[0].data[i] = exp(call->out[0].data[i]);
}

static void softmax_backward(clt_ref_call *call)
{
    int64_t rows = clt_shape_rows(&call->in[0].shape), cols = clt_shape_last(&call->in[0].shape);
    for (int64_t r = 0; call->din[0].data && r < rows; r++) {
        const double *y = call->out[0].data + r * cols, *dy = call->dout[0].data + r * cols;
        double dot = 0, size = 0;
        for (int64_t c = 0; c < cols; c++) {
            dot += dy[c] * y[c];
            size += fabs(dy[c] * y[c]);
        }
        for (int64_t c = 0; c < cols; c++)
            call->din[0].data[r * cols + c] += y[c] * (dy[c] - dot);
        /* where one probability is nearly 1, the dot product nearly cancels that element of dy */
        for (int64_t c = 0; call->din_terms[0] && c < cols; c++)
            call->din_terms[0][r * cols + c] += y[c] * (fabs(dy[c]) + size);
    }
}

static void log_softmax_backward(clt_ref_call *call)
{
    int64_t rows = clt_shape_rows(&call->in[0].shape), cols = clt_shape_last(&call->in[0].shape);
    for (int64_t r = 0; call->din[0].data && r < rows; r++) {
        const double *y = call->out[0].data + r * cols, *dy = call->dout[0].data + r * cols;
        double sum = 0;
        for (int64_t c = 0; c < cols; c++)
            sum += dy[c];
        for (int64_t c = 0; c < cols; c++)
            call->din[0].data[r * cols + c] += dy[c] - exp(y[c]) * sum;
    }
}

/* Covered: rows below, at and just above sixteen lanes, and rows that take a work-group several
 * iterations. */
static const clt_op_case softmax_cases[] = {
    CLT_CASE("bf16", NULL, CLT_SMALL, CLT_CASE_FLOAT(CLT_BF16, 3, 5, 36)),
    CLT_CASE("f16", NULL, CLT_SMALL, CLT_CASE_FLOAT(CLT_F16, 5, 67)),
    CLT_CASE("far_ends", NULL, CLT_SMALL, CLT_CASE_WIDE(CLT_F32, 3, 83)),
    CLT_CASE("bf16_far", NULL, 0, CLT_CASE_FLOAT(CLT_BF16, 20, 2104)),
    CLT_CASE("one", NULL, CLT_SMALL, CLT_CASE_F32(3, 1)),
    CLT_CASE("two", NULL, CLT_SMALL, CLT_CASE_F32(1, 2)),
    CLT_CASE("odd", NULL, CLT_SMALL, CLT_CASE_F32(3, 5, 17)),
    CLT_CASE("lanes", NULL, CLT_SMALL, CLT_CASE_F32(5, 16)),
    CLT_CASE("tail", NULL, CLT_SMALL, CLT_CASE_F32(33, 33)),
    CLT_CASE("digits", NULL, 0, CLT_CASE_F32(64, 10)),
    CLT_CASE("wide", NULL, 0, CLT_CASE_F32(2, 3, 257)),
    CLT_CASE("wider", NULL, CLT_SMALL, CLT_CASE_F32(2, 3, 1030)), /* chunks of one row */
    CLT_CASE("blocks", NULL, CLT_SMALL, CLT_CASE_F32(48, 301)),
    /* rows too long for chunks, with the last value of forward's tunables: one item has all rows */
    {.name = "far_row",
     .n_inputs = 1,
     .inputs = {CLT_CASE_F32(3, 2053)},
     .small = true,
     .tuned = 4,
     .tuned_forward = true},
    CLT_CASE("nan", NULL, CLT_SMALL, CLT_CASE_NAN(CLT_F32, 40, 5)),
    CLT_CASE("peaks", NULL, CLT_SMALL, CLT_CASE_PEAKS(CLT_F32, 40, 60, 67)),
    /* rows with and without a peak; rounding is relative to the sum of the gradient over a row */
    {.name = "far_peaks",
     .n_inputs = 1,
     .inputs = {CLT_CASE_PEAKS(CLT_F32, 6000, 12, 2053)},
     .tolerance = 64,
     .small = true},
    /* several rows and several chunks of rows for each item, the last ones incomplete; then rows too long
     * for that */
    CLT_CASE("chunks", NULL, CLT_SMALL, CLT_CASE_F32(1203, 17)),
    CLT_CASE("near", NULL, 0, CLT_CASE_F32(203, 500)),
    /* an even and an odd number of whole vectors, whose stores may bypass the caches */
    CLT_CASE("vectors", NULL, 0, CLT_CASE_F32(301, 64)),
    CLT_CASE("vectors_odd", NULL, 0, CLT_CASE_F32(77, 80)),
    CLT_CASE("far", NULL, 0, CLT_CASE_F32(50, 2101)),
};

static const clt_op_case softmax_timed[] = {
    CLT_TIMED_768("", NULL),
    CLT_CASE("short_large", NULL, 0, CLT_CASE_F32(64, 12, 512, 64)),
    CLT_CASE("wide_large", NULL, 0, CLT_CASE_F32(512, 50257)),
};
static const clt_op_case log_softmax_timed[] = {
    CLT_TIMED_768("", NULL),
};

/* exp is within 3 ulp; its argument, up to 8, is rounded too; then two more roundings and a division of 2.5
 * ulp. */
CLT_OP_REF(softmax, softmax_forward, softmax_backward, softmax_cases, .tolerance = 16,
           CLT_TIMED(softmax_timed));
/* As for softmax; log is within 3 ulp of a result below 11. */
CLT_OP_REF(log_softmax, log_softmax_forward, log_softmax_backward, softmax_cases, .tolerance = 16,
           CLT_TIMED(log_softmax_timed));
