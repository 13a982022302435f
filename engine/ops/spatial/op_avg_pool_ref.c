/* SPDX-License-Identifier: Apache-2.0
 *
 * Double-precision references and cases of avg_pool and adaptive_avg_pool. Knows formulas only. */
#include "engine/ops/case.h"
#include "engine/ops/spatial/pool_ref.h"

/* The divisor of a window's sum: its elements in the input, or in the input and its padding. */
static double divisor(const clt_ref_call *call, const clt_ref_pool *p,
                      const clt_ref_window w[CLT_SPATIAL_MAX])
{
    const clt_attr *pad = clt_spatial_attr(call->node, "count_include_pad");
    double product = 1;
    for (int d = 0; d < CLT_SPATIAL_MAX; d++) {
        int64_t before = pad && pad->b ? p->s.padding[d] : 0, count = 0;
        for (int64_t k = 0; k < w[d].count; k++)
            count += w[d].begin + k >= -before && w[d].begin + k < p->s.in[d] + before;
        product *= (double)count;
    }
    return product;
}

/* If dx is NULL, returns the sum of x over the window; else adds the window's gradient dy to dx. */
static double visit(const clt_ref_pool *p, const clt_ref_window w[CLT_SPATIAL_MAX], const double *x,
                    double *dx, double dy)
{
    double sum = 0;
    for (int64_t i = 0; i < w[0].count; i++)
        for (int64_t j = 0; j < w[1].count; j++)
            for (int64_t k = 0; k < w[2].count; k++) {
                int64_t place = clt_ref_place(p, w, i, j, k);
                if (place >= 0 && dx)
                    dx[place] += dy;
                else if (place >= 0)
                    sum += x[place];
            }
    return sum;
}

static void avg_pool_forward(clt_ref_call *call)
{
    clt_ref_pool p = clt_ref_pool_of(call);
    int64_t in = clt_spatial_volume(p.s.in), out = clt_spatial_volume(p.s.out);
    clt_ref_window w[CLT_SPATIAL_MAX];
    for (int64_t c = 0; c < p.s.n * p.s.channels; c++)
        for (int64_t o = 0; o < out; o++) {
            clt_ref_windows(&p, o, w);
            double sum = visit(&p, w, call->in[0].data + c * in, NULL, 0);
            call->out[0].data[c * out + o] = sum / divisor(call, &p, w);
        }
}

static void avg_pool_backward(clt_ref_call *call)
{
    clt_ref_pool p = clt_ref_pool_of(call);
    int64_t in = clt_spatial_volume(p.s.in), out = clt_spatial_volume(p.s.out);
    clt_ref_window w[CLT_SPATIAL_MAX];
    for (int64_t c = 0; call->din[0].data && c < p.s.n * p.s.channels; c++)
        for (int64_t o = 0; o < out; o++) {
            clt_ref_windows(&p, o, w);
            (void)visit(&p, w, NULL, call->din[0].data + c * in,
                        call->dout[0].data[c * out + o] / divisor(call, &p, w));
        }
}

static const clt_op_case avg_pool_cases[] = {
    CLT_CASE("halves", "{\"kernel\":2}", CLT_SMALL | CLT_EXACT, CLT_CASE_F32(2, 19, 8, 6)),
    CLT_CASE("overlapping", "{\"kernel\":[3,2],\"stride\":[2,1],\"padding\":1}", CLT_SMALL,
             CLT_CASE_F32(2, 18, 9, 7)),
    CLT_CASE("without_pad", "{\"kernel\":3,\"stride\":2,\"padding\":1,\"count_include_pad\":false}",
             CLT_SMALL, CLT_CASE_F32(2, 21, 7, 9)),
    CLT_CASE("ceil", "{\"kernel\":3,\"stride\":2,\"padding\":1,\"ceil_mode\":true}", 0,
             CLT_CASE_F32(2, 5, 8, 6)),
    CLT_CASE("ceil_without_pad",
             "{\"kernel\":[2,3],\"stride\":[3,2],\"padding\":[1,0],\"ceil_mode\":true,\"count_include_pad\":"
             "false}",
             0, CLT_CASE_F32(2, 16, 6, 6)),
    CLT_CASE("gaps", "{\"kernel\":2,\"stride\":3}", CLT_EXACT, CLT_CASE_F32(2, 3, 8, 7)),
    CLT_CASE("volume", "{\"kernel\":[2,3,1],\"stride\":[1,2,2],\"padding\":[1,1,0]}", CLT_SMALL,
             CLT_CASE_F32(2, 17, 5, 7, 4)),
    CLT_CASE("whole", "{\"kernel\":[5,7]}", 0, CLT_CASE_F32(3, 33, 5, 7)),
    CLT_CASE("f16", "{\"kernel\":3,\"stride\":2,\"padding\":1}", CLT_SMALL,
             CLT_CASE_FLOAT(CLT_F16, 2, 19, 7, 8)),
    CLT_CASE("bf16", "{\"kernel\":2}", CLT_EXACT, CLT_CASE_FLOAT(CLT_BF16, 2, 32, 6, 8)),
    CLT_CASE("blocks", "{\"kernel\":3,\"stride\":1,\"padding\":1}", 0, CLT_CASE_F32(3, 48, 17, 19)),
    CLT_CASE("tiles", "{\"kernel\":2}", 0, CLT_CASE_F32(2, 1117, 4, 5)),
};
static const clt_op_case avg_pool_timed[] = {
    CLT_CASE("large", "{\"kernel\":2}", 0, CLT_CASE_F32(8, 256, 56, 56)),
    CLT_CASE("volume", "{\"kernel\":2}", 0, CLT_CASE_F32(2, 32, 64, 96, 96)),
};
CLT_OP_REF(avg_pool, avg_pool_forward, avg_pool_backward, avg_pool_cases, .tolerance = 16,
           CLT_TIMED(avg_pool_timed));

static const clt_op_case adaptive_cases[] = {
    CLT_CASE("global", NULL, CLT_SMALL, CLT_CASE_F32(2, 19, 7, 7)),
    CLT_CASE("global_quarters", NULL, CLT_EXACT, CLT_CASE_F32(3, 35, 8, 4)),
    CLT_CASE("global_volume", NULL, CLT_SMALL, CLT_CASE_F32(2, 18, 7, 9, 5)),
    CLT_CASE("global_large", NULL, 0, CLT_CASE_F32(2, 3, 41, 37, 29)),
    CLT_CASE("global_stages", NULL, 0, CLT_CASE_F32(1, 1, 1100, 1100)),
    CLT_CASE("global_f16", NULL, CLT_SMALL, CLT_CASE_FLOAT(CLT_F16, 2, 33, 7, 6)),
    CLT_CASE("uneven", "{\"output\":[3,5]}", CLT_SMALL, CLT_CASE_F32(2, 18, 7, 11)),
    CLT_CASE("even", "{\"output\":[4,2]}", CLT_EXACT, CLT_CASE_F32(2, 16, 8, 4)),
    CLT_CASE("larger", "{\"output\":[5,4]}", CLT_EXACT, CLT_CASE_F32(2, 3, 3, 4)),
    CLT_CASE("volume", "{\"output\":[2,3,1]}", 0, CLT_CASE_F32(2, 17, 5, 7, 6)),
    CLT_CASE("bf16", "{\"output\":3}", 0, CLT_CASE_FLOAT(CLT_BF16, 2, 16, 7, 8)),
};
/* The global pooling of ResNet-50, and of a volume. */
static const clt_op_case adaptive_timed[] = {
    CLT_CASE("resnet_global", NULL, 0, CLT_CASE_F32(8, 2048, 7, 7)),
    CLT_CASE("global_large", NULL, 0, CLT_CASE_F32(64, 2048, 7, 7)),
    CLT_CASE("global_volume", NULL, 0, CLT_CASE_F32(1, 32, 64, 128, 128)),
};
CLT_OP_REF(adaptive_avg_pool, avg_pool_forward, avg_pool_backward, adaptive_cases, .tolerance = 16,
           CLT_TIMED(adaptive_timed));
