/* SPDX-License-Identifier: Apache-2.0
 *
 * Double-precision references and cases of max_pool and adaptive_max_pool. Knows formulas only. */
#include <math.h>

#include "engine/ops/case.h"
#include "engine/ops/spatial/pool_ref.h"

/* The largest element of a window: its index within the channel (-1: there is none), its number within the
 * window, and its value. */
typedef struct largest {
    int64_t place, number;
    double value;
} largest;

/* The number of elements of the largest window along dimension `dim`. largest.number numbers the elements of
 * every window as if it were that large. */
static int64_t most_elements(const clt_ref_pool *p, int dim)
{
    int64_t most = 0;
    for (int64_t o = 0; o < p->s.out[dim]; o++) {
        int64_t count = clt_ref_window_of(p, dim, o).count;
        most = count > most ? count : most;
    }
    return most;
}

static largest largest_of(const clt_ref_pool *p, const double *channel, int64_t output)
{
    clt_ref_window w[CLT_SPATIAL_MAX];
    int64_t high = most_elements(p, 1), wide = most_elements(p, 2);
    largest l = {-1, 0, -(double)INFINITY};
    bool any = false;
    clt_ref_windows(p, output, w);
    for (int64_t i = 0; i < w[0].count; i++)
        for (int64_t j = 0; j < w[1].count; j++)
            for (int64_t k = 0; k < w[2].count; k++) {
                int64_t place = clt_ref_place(p, w, i, j, k);
                if (place < 0 || (any && !(channel[place] > l.value) && !isnan(channel[place])))
                    continue;
                any = true;
                l = (largest){place, (i * high + j) * wide + k, channel[place]};
            }
    return l;
}

static void max_pool_forward(clt_ref_call *call)
{
    clt_ref_pool p = clt_ref_pool_of(call);
    int64_t in = clt_spatial_volume(p.s.in), out = clt_spatial_volume(p.s.out), channels = p.s.channels;
    for (int64_t n = 0; n < p.s.n; n++)
        for (int64_t c = 0; c < channels; c++)
            for (int64_t o = 0; o < out; o++) {
                largest l = largest_of(&p, call->in[0].data + (n * channels + c) * in, o);
                call->out[0].data[(n * channels + c) * out + o] = l.value;
                call->saved[0].data[(n * out + o) * channels + c] = (double)l.number; /* channels-last */
            }
}

static void max_pool_backward(clt_ref_call *call)
{
    clt_ref_pool p = clt_ref_pool_of(call);
    int64_t in = clt_spatial_volume(p.s.in), out = clt_spatial_volume(p.s.out);
    for (int64_t c = 0; call->din[0].data && c < p.s.n * p.s.channels; c++)
        for (int64_t o = 0; o < out; o++) {
            largest l = largest_of(&p, call->in[0].data + c * in, o);
            if (l.place >= 0)
                call->din[0].data[c * in + l.place] += call->dout[0].data[c * out + o];
        }
}

static const clt_op_case max_pool_cases[] = {
    CLT_CASE("stem", "{\"kernel\":3,\"stride\":2,\"padding\":1}", CLT_SMALL | CLT_EXACT,
             CLT_CASE_F32(2, 19, 9, 12)),
    CLT_CASE("halves", "{\"kernel\":2}", CLT_EXACT, CLT_CASE_F32(3, 16, 8, 6)),
    CLT_CASE("uneven", "{\"kernel\":[3,2],\"stride\":[1,3],\"padding\":[1,0]}", CLT_EXACT,
             CLT_CASE_F32(2, 5, 7, 11)),
    CLT_CASE("ceil", "{\"kernel\":3,\"stride\":2,\"ceil_mode\":true}", CLT_EXACT, CLT_CASE_F32(2, 35, 8, 6)),
    CLT_CASE("ceil_padded", "{\"kernel\":2,\"stride\":3,\"padding\":1,\"ceil_mode\":true}", CLT_EXACT,
             CLT_CASE_F32(2, 3, 6, 5)),
    CLT_CASE("gaps", "{\"kernel\":[1,2],\"stride\":3}", CLT_EXACT, CLT_CASE_F32(2, 3, 8, 7)),
    CLT_CASE("dilated", "{\"kernel\":[2,3],\"stride\":[2,1],\"padding\":[1,1],\"dilation\":[3,2]}",
             CLT_SMALL | CLT_EXACT, CLT_CASE_F32(2, 18, 9, 10)),
    CLT_CASE("volume", "{\"kernel\":3,\"stride\":2,\"padding\":1}", CLT_SMALL | CLT_EXACT,
             CLT_CASE_F32(2, 20, 5, 7, 4)),
    CLT_CASE("volume_uneven",
             "{\"kernel\":[1,2,3],\"stride\":[1,2,2],\"padding\":[0,1,1],\"dilation\":[1,1,2]}", CLT_EXACT,
             CLT_CASE_F32(2, 7, 3, 6, 9)),
    /* every property differs between the dimensions */
    CLT_CASE("distinct", "{\"kernel\":[2,4,3],\"stride\":[3,1,2],\"padding\":[1,2,0],\"dilation\":[1,2,3]}",
             CLT_SMALL | CLT_EXACT, CLT_CASE_F32(2, 18, 5, 8, 9)),
    CLT_CASE("wide_index", "{\"kernel\":17,\"stride\":5,\"padding\":8}", CLT_EXACT,
             CLT_CASE_F32(1, 17, 20, 19)),
    CLT_CASE("nan", "{\"kernel\":3,\"stride\":2,\"padding\":1}", CLT_SMALL | CLT_EXACT,
             CLT_CASE_NAN(CLT_F32, 2, 17, 9, 8)),
    CLT_CASE("lowest", "{\"kernel\":3,\"stride\":2,\"padding\":1}", CLT_SMALL | CLT_EXACT,
             CLT_CASE_LOWEST(CLT_F32, 2, 17, 9, 8)),
    CLT_CASE("f16", "{\"kernel\":3,\"stride\":2,\"padding\":1}", CLT_SMALL | CLT_EXACT,
             CLT_CASE_FLOAT(CLT_F16, 2, 21, 7, 8)),
    CLT_CASE("bf16", "{\"kernel\":2,\"stride\":2}", CLT_EXACT, CLT_CASE_PEAKS(CLT_BF16, 5, 2, 32, 6, 8)),
    CLT_CASE("channel", "{\"kernel\":2}", 0, CLT_CASE_F32(2, 1, 4, 6, 40)),
    CLT_CASE("many_rows", "{\"kernel\":[2,2,1]}", 0,
             CLT_CASE_F32(3, 1, 150, 150, 2)), /* more rows than groups in a launch */
    CLT_CASE("blocks", "{\"kernel\":3,\"stride\":2,\"padding\":1}", 0, CLT_CASE_F32(3, 48, 31, 33)),
};
/* The stem of ResNet-50 on images of 224 x 224, and the first pooling of a 3-D network. */
static const clt_op_case max_pool_timed[] = {
    CLT_CASE("resnet_stem", "{\"kernel\":3,\"stride\":2,\"padding\":1}", 0, CLT_CASE_F32(8, 64, 112, 112)),
    CLT_CASE("volume", "{\"kernel\":2}", 0, CLT_CASE_F32(2, 32, 64, 96, 96)),
};
/* An element's gradient is the sum of the gradients of up to sixteen windows, namely all whose largest
 * element it is; each addition rounds. */
CLT_OP_REF(max_pool, max_pool_forward, max_pool_backward, max_pool_cases, .tolerance = 4,
           CLT_TIMED(max_pool_timed));

static const clt_op_case adaptive_cases[] = {
    CLT_CASE("global", NULL, CLT_EXACT, CLT_CASE_F32(2, 19, 5, 7)),
    CLT_CASE("uneven", "{\"output\":[3,5]}", CLT_SMALL | CLT_EXACT, CLT_CASE_F32(2, 18, 7, 11)),
    CLT_CASE("larger", "{\"output\":[5,4]}", CLT_EXACT, CLT_CASE_F32(2, 3, 3, 4)),
    CLT_CASE("volume", "{\"output\":[2,3,2]}", CLT_EXACT, CLT_CASE_F32(2, 17, 5, 7, 6)),
    CLT_CASE("wide_index", "{\"output\":2}", CLT_EXACT, CLT_CASE_F32(1, 5, 37, 41)),
    CLT_CASE("bf16", "{\"output\":3}", CLT_EXACT, CLT_CASE_PEAKS(CLT_BF16, 5, 2, 16, 7, 8)),
};
static const clt_op_case adaptive_timed[] = {
    CLT_CASE("large", "{\"output\":28}", 0, CLT_CASE_F32(8, 64, 112, 112)),
};
CLT_OP_REF(adaptive_max_pool, max_pool_forward, max_pool_backward, adaptive_cases, .tolerance = 4,
           CLT_TIMED(adaptive_timed));
