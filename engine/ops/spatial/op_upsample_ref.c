/* SPDX-License-Identifier: Apache-2.0
 *
 * Double-precision reference and cases of upsample, by PyTorch's formulas in floating point; the kernels
 * compute positions in integers. Knows formulas only. */
#include <math.h>

#include "engine/ops/case.h"
#include "engine/ops/spatial/spatial.h"

typedef struct scaling {
    clt_spatial s; /* out: the sizes of y */
    bool linear, corners;
} scaling;

static scaling scaling_of(const clt_ref_call *call)
{
    scaling u = {.s = clt_spatial_of(call->node, &call->in[0].shape, false),
                 .linear = clt_node_attr(call->node, "mode")->choice == 1,
                 .corners = clt_node_attr(call->node, "align_corners")->b};
    for (int i = 0; i < CLT_SPATIAL_MAX; i++) {
        int at = i - (CLT_SPATIAL_MAX - u.s.dims);
        u.s.out[i] = at < 0 ? 1 : call->out[0].shape.dim[2 + at];
    }
    return u;
}

/* Finds, in one dimension, the two elements of x from which output o is computed, and their weights. */
static void neighbours(const scaling *u, int dim, int64_t o, int64_t at[2], double weight[2])
{
    int64_t in = u->s.in[dim], out = u->s.out[dim];
    double scale = (double)in / (double)out;
    if (!u->linear) {
        at[0] = at[1] = o * in / out;
        weight[0] = 1;
        weight[1] = 0;
        return;
    }
    double from = u->corners ? (out > 1 ? (double)o * (double)(in - 1) / (double)(out - 1) : 0)
                             : fmax(0, ((double)o + 0.5) * scale - 0.5);
    at[0] = (int64_t)floor(from + 1e-9);
    at[1] = at[0] + (at[0] < in - 1);
    weight[1] = fmax(0, from - (double)at[0]);
    weight[0] = 1 - weight[1];
}

/* If dx is NULL, returns output `o` of a channel, computed from x; else adds that output's gradient dy to
 * dx. */
static double visit(const scaling *u, int64_t o, const double *x, double *dx, double dy)
{
    int64_t at[CLT_SPATIAL_MAX][2];
    double weight[CLT_SPATIAL_MAX][2], sum = 0;
    for (int d = CLT_SPATIAL_MAX - 1; d >= 0; d--) {
        neighbours(u, d, o % u->s.out[d], at[d], weight[d]);
        o /= u->s.out[d];
    }
    for (int corner = 0; corner < 8; corner++) {
        int i = corner >> 2, j = corner >> 1 & 1, k = corner & 1;
        int64_t place = (at[0][i] * u->s.in[1] + at[1][j]) * u->s.in[2] + at[2][k];
        double w = weight[0][i] * weight[1][j] * weight[2][k];
        if (dx)
            dx[place] += w * dy;
        else
            sum += w * x[place];
    }
    return sum;
}

static void upsample_forward(clt_ref_call *call)
{
    scaling u = scaling_of(call);
    int64_t in = clt_spatial_volume(u.s.in), out = clt_spatial_volume(u.s.out);
    for (int64_t c = 0; c < u.s.n * u.s.channels; c++)
        for (int64_t o = 0; o < out; o++)
            call->out[0].data[c * out + o] = visit(&u, o, call->in[0].data + c * in, NULL, 0);
}

static void upsample_backward(clt_ref_call *call)
{
    scaling u = scaling_of(call);
    int64_t in = clt_spatial_volume(u.s.in), out = clt_spatial_volume(u.s.out);
    for (int64_t c = 0; call->din[0].data && c < u.s.n * u.s.channels; c++)
        for (int64_t o = 0; o < out; o++)
            (void)visit(&u, o, NULL, call->din[0].data + c * in, call->dout[0].data[c * out + o]);
}

#define LINEAR ",\"mode\":\"linear\""
static const clt_op_case upsample_cases[] = {
    CLT_CASE("nearest", "{\"scale\":2}", CLT_SMALL | CLT_EXACT, CLT_CASE_F32(2, 19, 5, 4)),
    CLT_CASE("nearest_uneven", "{\"scale\":[3,1]}", CLT_EXACT, CLT_CASE_F32(2, 16, 4, 7)),
    CLT_CASE("nearest_volume", "{\"scale\":[1,2,3]}", CLT_SMALL | CLT_EXACT, CLT_CASE_F32(2, 18, 3, 2, 4)),
    CLT_CASE("nearest_f16", "{\"scale\":2}", CLT_SMALL, CLT_CASE_FLOAT(CLT_F16, 2, 17, 3, 5)),
    CLT_CASE("bilinear", "{\"scale\":2" LINEAR "}", CLT_SMALL, CLT_CASE_F32(2, 19, 5, 4)),
    CLT_CASE("bilinear_exact", "{\"scale\":4" LINEAR "}", CLT_EXACT, CLT_CASE_F32(2, 16, 3, 5)),
    CLT_CASE("bilinear_uneven", "{\"scale\":[3,5]" LINEAR "}", 0, CLT_CASE_F32(2, 33, 4, 3)),
    CLT_CASE("bilinear_corners", "{\"scale\":[2,3]" LINEAR ",\"align_corners\":true}", CLT_SMALL,
             CLT_CASE_F32(2, 18, 4, 5)),
    CLT_CASE("bilinear_thin", "{\"scale\":[3,2]" LINEAR ",\"align_corners\":true}", 0,
             CLT_CASE_F32(2, 3, 1, 5)),
    CLT_CASE("trilinear", "{\"scale\":2" LINEAR "}", CLT_SMALL, CLT_CASE_F32(2, 17, 3, 4, 2)),
    CLT_CASE("trilinear_corners", "{\"scale\":[2,1,3]" LINEAR ",\"align_corners\":true}", 0,
             CLT_CASE_F32(2, 16, 3, 4, 2)),
    CLT_CASE("bilinear_one", "{\"scale\":1" LINEAR "}", CLT_EXACT, CLT_CASE_F32(2, 5, 3, 4)),
    CLT_CASE("bilinear_f16", "{\"scale\":2" LINEAR "}", CLT_SMALL, CLT_CASE_FLOAT(CLT_F16, 2, 19, 3, 4)),
    CLT_CASE("bilinear_bf16", "{\"scale\":2" LINEAR "}", 0, CLT_CASE_FLOAT(CLT_BF16, 2, 32, 3, 4)),
    CLT_CASE("blocks", "{\"scale\":2" LINEAR "}", 0, CLT_CASE_F32(2, 48, 17, 19)),
};
static const clt_op_case upsample_timed[] = {
    CLT_CASE("nearest_large", "{\"scale\":2}", 0, CLT_CASE_F32(8, 64, 56, 56)),
    CLT_CASE("bilinear_large", "{\"scale\":2" LINEAR "}", 0, CLT_CASE_F32(8, 64, 56, 56)),
    CLT_CASE("trilinear_large", "{\"scale\":2" LINEAR "}", 0, CLT_CASE_F32(2, 32, 32, 48, 48)),
};
CLT_OP_REF(upsample, upsample_forward, upsample_backward, upsample_cases, .tolerance = 16,
           CLT_TIMED(upsample_timed));
