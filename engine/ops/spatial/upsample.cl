/* SPDX-License-Identifier: Apache-2.0
 *
 * Linear interpolation between the elements of channels-last images and volumes, and its gradient. Output o
 * lies at position max(0, o * multiply + add) / divide of the input, a fraction of integers. So rounding
 * affects neither the choice of its two neighbours nor their weights. Gradients are gathered: each element
 * of the input adds up the contributions of the outputs around it. Knows grids, no op.
 *
 * Geometry: places.clh, over the grid of the results.
 *
 * -DDT=type of x and y  -DDYT=type of dy  -DGT=type of dx  -DDEEP=0|1: whether the depth is interpolated
 * -DLS, -DNT, -DAHEAD */
#include "common.clh"
#include "lanes.clh"
#include "types.clh"
#include "places.clh"

#pragma option DEEP 1

/* One spatial dimension. */
typedef struct upsample_axis {
    int in, out, multiply, add, divide;
} upsample_axis;
#define AXIS_ARGS(a) int a##_in, int a##_out, int a##_multiply, int a##_add, int a##_divide
#define AXIS_OF(a)                                                                                           \
    {                                                                                                        \
        a##_in, a##_out, a##_multiply, a##_add, a##_divide                                                   \
    }
#define AXES_ARGS AXIS_ARGS(d), AXIS_ARGS(h), AXIS_ARGS(w)
#define AXES const upsample_axis deep = AXIS_OF(d), high = AXIS_OF(h), wide = AXIS_OF(w)

/* An output's two neighbours in the input and their weights. */
typedef struct upsample_pair {
    int first, second;
    float weight_first, weight_second;
} upsample_pair;

static inline upsample_pair upsample_pair_of(int o, upsample_axis a)
{
    upsample_pair p;
    uint at = (uint)max(0, o * a.multiply + a.add), divide = (uint)a.divide;
    uint whole = at / divide, rest = at - whole * divide;
    p.first = (int)whole;
    p.second = min(p.first + 1, a.in - 1);
    p.weight_first = (float)(divide - rest) / (float)divide;
    p.weight_second = (float)rest / (float)divide;
    return p;
}

/* Range of the outputs that lie between the two neighbours of element i. */
typedef struct upsample_reach {
    int first, last;
} upsample_reach;

static inline upsample_reach upsample_reach_of(int i, upsample_axis a)
{
    upsample_reach r = {0, a.out - 1};
    if (i > 0)
        r.first = ((i - 1) * a.divide - a.add) / a.multiply + 1;
    if (i < a.in - 1)
        r.last = min(r.last, ((i + 1) * a.divide - a.add - 1) / a.multiply);
    return r;
}

/* The weight of element i in output o, times `divide`. Outputs beyond the first or the last element depend
 * only on that element. */
static inline float upsample_weight(int i, int o, upsample_axis a)
{
    int at = clamp(o * a.multiply + a.add, 0, (a.in - 1) * a.divide);
    int off = at - i * a.divide;
    return (float)max(0, a.divide - max(off, -off));
}

#define X_AT(i, j, k)                                                                                        \
    ((((sample * (uint)deep.in + (uint)(i)) * (uint)high.in + (uint)(j)) * (uint)wide.in + (uint)(k)) *      \
     channels)
#define Y_AT(i, j, k)                                                                                        \
    ((((sample * (uint)deep.out + (uint)(i)) * (uint)high.out + (uint)(j)) * (uint)wide.out + (uint)(k)) *   \
     channels)

/* x (N,D,H,W,C) -> y (N,OD,OH,OW,C). */
KERNEL upsample_fwd(OUT_OF(DT, y), IN_OF(DT, x), AXES_ARGS, PLACES_ARGS)
{
    AXES;
    GRID(out);
    x += x0;
    y += y0;
#define PAIR_ROW const upsample_pair by_d = upsample_pair_of(d, deep), by_h = upsample_pair_of(h, high)
#define X(N, i, j, k) LOAD##N(DT, x, X_AT(i, j, k) + CHANNEL(q))
#define IN_WIDTH(N, i, j)                                                                                    \
    (by_w.weight_first * X(N, i, j, by_w.first) + by_w.weight_second * X(N, i, j, by_w.second))
#define IN_HEIGHT(N, i)                                                                                      \
    (by_h.weight_first * IN_WIDTH(N, i, by_h.first) + by_h.weight_second * IN_WIDTH(N, i, by_h.second))
#if DEEP
#define IN_DEPTH(N)                                                                                          \
    (by_d.weight_first * IN_HEIGHT(N, by_d.first) + by_d.weight_second * IN_HEIGHT(N, by_d.second))
#else
#define IN_DEPTH(N) IN_HEIGHT(N, by_d.first)
#endif
#define BETWEEN(type, N, V) EACH(V) STREAM##N(DT, y, here + CHANNEL(q), IN_DEPTH(N));
#define PAIR_PLACE                                                                                           \
    const upsample_pair by_w = upsample_pair_of(w, wide);                                                    \
    STEPS(BETWEEN)
    FOR_PLACES(PAIR_ROW, PAIR_PLACE)
}

/* dx (N,D,H,W,C) (+)= sum of dy times weight; share: 1 / the product of the divisors. */
KERNEL upsample_bwd(GRAD_OF(GT, dx), IN_OF(DYT, dy), AXES_ARGS, float share, PLACES_ARGS)
{
    AXES;
    GRID(in);
    dx += dx0;
    dy += dy0;
#define REACH_ROW const upsample_reach by_d = upsample_reach_of(d, deep), by_h = upsample_reach_of(h, high)
#define GATHER(type, N, V)                                                                                   \
    type sum[V];                                                                                             \
    EACH(V)                                                                                                  \
    sum[q] = (type)(0.0f);                                                                                   \
    for (int i = by_d.first; i <= by_d.last; i++)                                                            \
        for (int j = by_h.first; j <= by_h.last; j++) {                                                      \
            const float other = upsample_weight(d, i, deep) * upsample_weight(h, j, high) * share;           \
            ulong at = Y_AT(i, j, by_w.first);                                                               \
            for (int k = by_w.first; k <= by_w.last; k++, at += channels) {                                  \
                const float weight = other * upsample_weight(w, k, wide);                                    \
                EACH(V)                                                                                      \
                {                                                                                            \
                    ASK_FOR(dy + at + CHANNEL(q) + DISTANCE);                                                \
                    sum[q] = fma(LOAD##N(DYT, dy, at + CHANNEL(q)), (type)(weight), sum[q]);                 \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
    EACH(V)                                                                                                  \
    STREAM##N##_GRAD(GT, dx, here + CHANNEL(q), sum[q], dx_accumulate);
#define GATHER_PLACE                                                                                         \
    const upsample_reach by_w = upsample_reach_of(w, wide);                                                  \
    STEPS(GATHER)
    FOR_PLACES(REACH_ROW, GATHER_PLACE)
}
