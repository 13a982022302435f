/* SPDX-License-Identifier: Apache-2.0
 *
 * Double-precision reference and cases of batch_norm. Knows formulas only. */
#include <math.h>

#include "engine/ops/case.h"

/* The channels are dimension 1. Element r of channel c, where r counts samples and positions, is number
 * at(...) in row-major order. */
static int64_t channels(const clt_ref_call *call)
{
    return call->in[0].shape.dim[1];
}
static int64_t per_channel(const clt_ref_call *call)
{
    return clt_shape_elements(&call->in[0].shape) / channels(call);
}
static int64_t at(const clt_ref_call *call, int64_t r, int64_t c)
{
    int64_t positions = per_channel(call) / call->in[0].shape.dim[0];
    return (r / positions * channels(call) + c) * positions + r % positions;
}

/* True if the op has weight and bias before its other parameters, running_mean and running_var. */
static bool is_affine(const clt_ref_call *call)
{
    return call->n_param > 2;
}
static int running(const clt_ref_call *call)
{
    return is_affine(call) ? 2 : 0;
}

/* --- other ranks --- */

/* How many rows another rank has: some more than this one, or none. */
static int64_t rows_of(const clt_ref_call *call, int rank)
{
    return rank == call->rank ? per_channel(call) : rank % 3 == 2 ? 0 : per_channel(call) + 5 * rank + 3;
}

/* A number of another rank's record, in sixteenths, which f32 holds exactly: mean and sum of squared
 * distances of its rows; in the backward pass the sums of its gradients and of their products with the
 * normalised x. */
static double peer_value(const clt_ref_call *call, bool backward, int rank, int64_t c, bool second)
{
    double wave = (double)((7 * c + 5 * rank + 3 * second) % 32 - 16) / 16;
    int64_t rows = rows_of(call, rank);
    if (rows == 0 || (backward && call->peers_quiet))
        return 0;
    return !backward && second ? (double)rows * (1.25 + wave / 2) : backward ? 4 * wave : wave;
}

/* Records are laid out as in batch_norm.cl: two numbers for each channel, then the number of rows. */
static double batch_norm_peer(const clt_ref_call *call, bool backward, int rank, int64_t element)
{
    int64_t cols = channels(call);
    return element == 2 * cols ? (double)rows_of(call, rank)
                               : peer_value(call, backward, rank, element % cols, element >= cols);
}

static double all_rows(const clt_ref_call *call)
{
    double n = 0;
    for (int rank = 0; rank < call->ranks; rank++)
        n += (double)rows_of(call, rank);
    return n;
}

/* Replaces mean and variance of this rank's rows by mean and variance of the rows of all ranks. */
static void add_peers(const clt_ref_call *call, int64_t c, double *mean, double *var)
{
    double own = *mean, own_rows = (double)per_channel(call), n = all_rows(call), sum = own * own_rows;
    for (int rank = 0; rank < call->ranks; rank++)
        if (rank != call->rank)
            sum += peer_value(call, false, rank, c, false) * (double)rows_of(call, rank);
    *mean = sum / n;
    double squares = (*var + (own - *mean) * (own - *mean)) * own_rows;
    for (int rank = 0; rank < call->ranks; rank++) {
        double d = peer_value(call, false, rank, c, false) - *mean;
        if (rank != call->rank)
            squares += peer_value(call, false, rank, c, true) + d * d * (double)rows_of(call, rank);
    }
    *var = squares / n;
}

/* Computes mean and variance with which channel c is normalised. */
static void statistics(const clt_ref_call *call, int64_t c, double *mean, double *var)
{
    int64_t rows = per_channel(call);
    *mean = call->param[running(call)].data[c];
    *var = call->param[running(call) + 1].data[c];
    if (!call->training)
        return;
    *mean = *var = 0;
    for (int64_t r = 0; r < rows; r++)
        *mean += call->in[0].data[at(call, r, c)] / (double)rows;
    for (int64_t r = 0; r < rows; r++) {
        double d = call->in[0].data[at(call, r, c)] - *mean;
        *var += d * d / (double)rows;
    }
    if (call->ranks > 1)
        add_peers(call, c, mean, var);
}

static void move_running(clt_ref_call *call, int64_t c, double mean, double var)
{
    double momentum = clt_node_attr(call->node, "momentum")->f;
    double n = call->ranks > 1 ? all_rows(call) : (double)per_channel(call);
    double batch[2] = {mean, var * n / (n - 1)};
    bool finite = isfinite(mean) && isfinite(batch[1]); /* if not, the running statistics stay */
    for (int i = 0; i < 2; i++) {
        int k = running(call) + i;
        double now = call->param[k].data[c];
        call->buffer[k].data[c] = finite ? (1 - momentum) * now + momentum * batch[i] : now;
    }
}

static bool has_relu(const clt_ref_call *call)
{
    return clt_node_attr(call->node, "activation")->choice == 1;
}

/* The gradient before the activation. */
static double arrives(const clt_ref_call *call, int64_t e)
{
    return has_relu(call) && !(call->out[0].data[e] > 0) ? 0 : call->dout[0].data[e];
}

static void batch_norm_forward(clt_ref_call *call)
{
    int64_t rows = per_channel(call), cols = channels(call);
    for (int64_t c = 0; c < cols; c++) {
        double mean, var, w = 1, b = 0;
        statistics(call, c, &mean, &var);
        double rstd = 1 / sqrt(var + clt_node_attr(call->node, "eps")->f);
        if (is_affine(call)) {
            w = call->param[0].data[c];
            b = call->param[1].data[c];
        }
        for (int64_t r = 0; r < rows; r++) {
            int64_t e = at(call, r, c);
            double y = (call->in[0].data[e] - mean) * rstd * w + b;
            y += call->n_in > 1 ? call->in[1].data[e] : 0;
            call->out[0].data[e] = has_relu(call) && y < 0 ? 0 : y;
        }
        call->saved[0].data[c] = mean;
        call->saved[1].data[c] = rstd;
        if (call->training)
            move_running(call, c, mean, var);
    }
}

/* Sums for one channel: of dy, and of dy times the normalised x. */
typedef struct channel_sums {
    double mean, rstd, dy, product;
} channel_sums;

static channel_sums sums_of(const clt_ref_call *call, int64_t c)
{
    int64_t rows = per_channel(call);
    channel_sums s = {0};
    double var;
    statistics(call, c, &s.mean, &var);
    s.rstd = 1 / sqrt(var + clt_node_attr(call->node, "eps")->f);
    for (int64_t r = 0; r < rows; r++) {
        double dy = arrives(call, at(call, r, c));
        s.dy += dy;
        s.product += dy * (call->in[0].data[at(call, r, c)] - s.mean) * s.rstd;
    }
    return s;
}

static void batch_norm_backward(clt_ref_call *call)
{
    int64_t rows = per_channel(call), cols = channels(call);
    for (int64_t c = 0; c < cols; c++) {
        channel_sums s = sums_of(call, c), all = s; /* sums of this rank, and of all ranks */
        double w = is_affine(call) ? call->param[0].data[c] : 1, n = (double)rows;
        for (int rank = 0; call->training && call->ranks > 1 && rank < call->ranks; rank++)
            if (rank != call->rank) {
                all.dy += peer_value(call, true, rank, c, false);
                all.product += peer_value(call, true, rank, c, true);
                n = all_rows(call);
            }
        for (int64_t r = 0; call->din[0].data && r < rows; r++) {
            double normalised = (call->in[0].data[at(call, r, c)] - s.mean) * s.rstd;
            double mean = call->training ? (all.dy + normalised * all.product) / n : 0;
            call->din[0].data[at(call, r, c)] += s.rstd * w * (arrives(call, at(call, r, c)) - mean);
        }
        for (int64_t r = 0; call->n_in > 1 && call->din[1].data && r < rows; r++)
            call->din[1].data[at(call, r, c)] += arrives(call, at(call, r, c));
        if (is_affine(call) && call->dparam[0].data)
            call->dparam[0].data[c] += s.product;
        if (is_affine(call) && call->dparam[1].data)
            call->dparam[1].data[c] += s.dy;
    }
}

/* The values of two rows may be close to each other. With the usual eps, rstd is then up to 316 and
 * multiplies rounding errors; FLAT bounds it by 3.2. */
#define FLAT "{\"eps\":0.1}"
static const clt_op_case batch_norm_cases[] = {
    CLT_CASE("bf16", NULL, CLT_SMALL, CLT_CASE_FLOAT(CLT_BF16, 19, 36)),
    CLT_CASE("f16", NULL, CLT_SMALL, CLT_CASE_FLOAT(CLT_F16, 21, 67)),
    CLT_CASE("two", FLAT, CLT_SMALL, CLT_CASE_F32(2, 3)),
    CLT_CASE("one_channel", NULL, CLT_SMALL, CLT_CASE_F32(33, 1)),
    CLT_CASE("odd", NULL, CLT_SMALL, CLT_CASE_F32(37, 19)),
    CLT_CASE("plain", "{\"affine\":false}", CLT_SMALL, CLT_CASE_F32(31, 33)),
    CLT_CASE("attributes", "{\"eps\":0.01,\"momentum\":0.75}", 0, CLT_CASE_F32(23, 48)),
    CLT_CASE("blocks", NULL, CLT_SMALL, CLT_CASE_F32(283, 70)),
    CLT_CASE("tiles", NULL, 0, CLT_CASE_F32(41, 1117)),
    CLT_CASE("line", NULL, CLT_SMALL, CLT_CASE_F32(3, 5, 7)),
    CLT_CASE("image", NULL, CLT_SMALL, CLT_CASE_F32(3, 19, 5, 4)),
    CLT_CASE("volume", "{\"momentum\":0.3}", CLT_SMALL, CLT_CASE_F32(2, 17, 3, 4, 5)),
    CLT_CASE("one_sample", NULL, CLT_SMALL, CLT_CASE_F32(1, 16, 6, 7)),
    CLT_CASE("one_pixel", NULL, CLT_SMALL, CLT_CASE_F32(29, 35, 1, 1)),
    CLT_CASE("one_channel_volume", NULL, 0, CLT_CASE_F32(2, 1, 4, 5, 3)),
    CLT_CASE("image_plain_bf16", "{\"affine\":false}", CLT_SMALL, CLT_CASE_FLOAT(CLT_BF16, 2, 33, 6, 3)),
    CLT_CASE("volume_f16", NULL, 0, CLT_CASE_FLOAT(CLT_F16, 2, 48, 3, 4, 5)),
    CLT_CASE("relu", "{\"activation\":\"relu\"}", CLT_SMALL, CLT_CASE_F32(37, 19)),
    CLT_CASE("relu_plain", "{\"activation\":\"relu\",\"affine\":false}", CLT_SMALL,
             CLT_CASE_F32(5, 33, 3, 4)),
    CLT_CASE("relu_bf16", "{\"activation\":\"relu\"}", 0, CLT_CASE_FLOAT(CLT_BF16, 3, 32, 4, 5)),
    /* seven rows: a column without NaN whose values all lie close to each other is unlikely */
    CLT_CASE("relu_nan", "{\"activation\":\"relu\"}", CLT_SMALL, CLT_CASE_NAN(CLT_F32, 7, 35)),
    CLT_CASE("residual", NULL, CLT_SMALL, CLT_CASE_F32(3, 18, 4, 5), CLT_CASE_F32(3, 18, 4, 5)),
    CLT_CASE("residual_relu", "{\"activation\":\"relu\"}", CLT_SMALL, CLT_CASE_F32(3, 35, 5, 3),
             CLT_CASE_F32(3, 35, 5, 3)),
    CLT_CASE("residual_relu_volume", "{\"activation\":\"relu\",\"affine\":false}", 0,
             CLT_CASE_F32(2, 16, 3, 4, 5), CLT_CASE_F32(2, 16, 3, 4, 5)),
    CLT_CASE("residual_relu_f16", "{\"activation\":\"relu\"}", CLT_SMALL,
             CLT_CASE_FLOAT(CLT_F16, 3, 21, 4, 4), CLT_CASE_FLOAT(CLT_F16, 3, 21, 4, 4)),
    CLT_CASE("residual_relu_parts", "{\"activation\":\"relu\"}", 0, CLT_CASE_F32(2, 17, 143, 121),
             CLT_CASE_F32(2, 17, 143, 121)),
    CLT_CASE("parts", NULL, 0, CLT_CASE_F32(3, 5, 131, 89)),
    /* ranks that share their statistics */
    {.name = "ranks", .n_inputs = 1, .inputs = {CLT_CASE_F32(37, 19)}, .ranks = 3, .small = true},
    {.name = "ranks_image",
     .attrs = "{\"activation\":\"relu\"}",
     .n_inputs = 2,
     .inputs = {CLT_CASE_F32(3, 35, 5, 3), CLT_CASE_F32(3, 35, 5, 3)},
     .ranks = 2,
     .small = true},
    {.name = "ranks_one_row",
     .attrs = "{\"affine\":false}",
     .n_inputs = 1,
     .inputs = {CLT_CASE_F32(1, 33)},
     .ranks = 2,
     .small = true},
    {.name = "ranks_f16",
     .attrs = "{\"momentum\":0.3}",
     .n_inputs = 1,
     .inputs = {CLT_CASE_FLOAT(CLT_F16, 2, 48, 3, 4, 5)},
     .ranks = 5},
    {.name = "ranks_parts", .n_inputs = 1, .inputs = {CLT_CASE_F32(3, 5, 131, 89)}, .ranks = 4},
};

static const clt_op_case batch_norm_timed[] = {
    CLT_CASE("features", NULL, 0, CLT_CASE_F32(256, 768)),
    CLT_CASE("large", NULL, 0, CLT_CASE_F32(32768, 768)),
    CLT_CASE("resnet_stem", NULL, 0, CLT_CASE_F32(8, 64, 112, 112)),
    CLT_CASE("resnet_relu", "{\"activation\":\"relu\"}", 0, CLT_CASE_F32(8, 64, 112, 112)),
    CLT_CASE("resnet_residual", "{\"activation\":\"relu\"}", 0, CLT_CASE_F32(8, 256, 56, 56),
             CLT_CASE_F32(8, 256, 56, 56)),
    CLT_CASE("resnet_deep", NULL, 0, CLT_CASE_F32(8, 2048, 7, 7)),
};

/* The tolerance of layernorm. */
CLT_OP_REF(batch_norm, batch_norm_forward, batch_norm_backward, batch_norm_cases, .tolerance = 32,
           CLT_TIMED(batch_norm_timed), .peer = batch_norm_peer);
