/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows over the spatial dimensions of channels-last images and volumes: sums over windows, the reverse of
 * sums, and maxima. A window of the sliding rule starts at o * stride - padding and has `window` elements,
 * `dilation` apart; a window of the adaptive rule goes from floor(o * in / out) to ceil((o + 1) * in / out).
 * Elements outside of the input count as zero in sums and as -inf in maxima. Everything is gathered: one
 * item computes each result in a fixed order, so that neither atomics nor the division of the work among
 * items affect it. Knows windows, no op: averages, maxima and upsampling by repetition use these kernels.
 *
 * Geometry: places.clh, over the grid of the results.
 *
 * -DDT=type read  -DGT=type written  -DDYT=type of dy  -DIT=type of the index: u8, u16 or i32
 * -DSTRIDE_D, -DSTRIDE_H, -DSTRIDE_W: strides, constants because they are divisors  -DADAPTIVE=0|1: the rule
 * -DDILATED=0|1: whether a dilation is not 1  -DINDEX=0|1: whether maxima store their numbers
 * -DOWN_SIZE=0|1: whether each sum is divided by its window's number of elements; otherwise the argument
 * share is the factor  -DCOUNT_PAD=0|1: whether that number counts padding  -DLS, -DNT, -DAHEAD */
#include "common.clh"
#include "lanes.clh"
#include "types.clh"
#include "places.clh"

#pragma option STRIDE_D 1
#pragma option STRIDE_H 1
#pragma option STRIDE_W 1
#pragma option ADAPTIVE 0
#pragma option DILATED 0
#pragma option OWN_SIZE 0
#pragma option COUNT_PAD 1
#pragma option INDEX 1
#pragma option IT u8

/* One spatial dimension. */
typedef struct pool_axis {
    int in, out, window, padding, dilation;
    uint stride;
} pool_axis;
#define AXIS_ARGS(a) int a##_in, int a##_out, int a##_window, int a##_padding, int a##_dilation
#define AXIS_OF(a, stride)                                                                                   \
    {                                                                                                        \
        a##_in, a##_out, a##_window, a##_padding, a##_dilation, stride                                       \
    }
#define AXES_ARGS AXIS_ARGS(d), AXIS_ARGS(h), AXIS_ARGS(w)
#define AXES                                                                                                 \
    const pool_axis deep = AXIS_OF(d, STRIDE_D), high = AXIS_OF(h, STRIDE_H), wide = AXIS_OF(w, STRIDE_W)

#if DILATED
#define APART(a) ((a).dilation)
#else
#define APART(a) 1
#endif

/* A window's span in one dimension: its first element inside of the input, how many elements of the window
 * lie before that, how many lie inside, and the divisor of a sum. */
typedef struct pool_span {
    int first, before, count, size;
} pool_span;

static inline pool_span pool_span_of(int o, pool_axis a)
{
    pool_span s;
#if ADAPTIVE
    uint in = (uint)a.in, out = (uint)a.out;
    s.first = (int)((uint)o * in / out);
    s.before = 0;
    s.count = (int)((((uint)o + 1) * in + out - 1) / out) - s.first;
    s.size = s.count;
#else
    int start = o * (int)a.stride - a.padding;
    s.before = start < 0 ? (APART(a) - 1 - start) / APART(a) : 0;
    s.first = start + s.before * APART(a);
    s.count = s.first < a.in ? min(a.window - s.before, (a.in - 1 - s.first) / APART(a) + 1) : 0;
    s.size = COUNT_PAD ? min(start + a.window, a.in + a.padding) - start : s.count;
#endif
    return s;
}

/* Range of the windows that may contain element i; empty if last < first. */
typedef struct pool_reach {
    int first, last;
} pool_reach;

static inline pool_reach pool_reach_of(int i, pool_axis a)
{
    pool_reach r;
#if ADAPTIVE
    uint in = (uint)a.in, out = (uint)a.out;
    r.first = (int)((uint)i * out / in);
    r.last = (int)((((uint)i + 1) * out + in - 1) / in) - 1;
#else
    int before = i + a.padding - (a.window - 1) * APART(a); /* the first element of the first window */
    r.first = before > 0 ? (int)(((uint)before + a.stride - 1) / a.stride) : 0;
    r.last = min(a.out - 1, (int)((uint)(i + a.padding) / a.stride));
#endif
    return r;
}

/* The number of element i within window o, -1 if element i lies between two elements of the window. */
static inline int pool_number(int i, int o, pool_axis a)
{
#if ADAPTIVE
    return i - (int)((uint)o * (uint)a.in / (uint)a.out);
#else
    int from = i + a.padding - o * (int)a.stride;
#if DILATED
    return from % a.dilation == 0 ? from / a.dilation : -1;
#else
    return from;
#endif
#endif
}

/* Distances in elements between neighbouring planes and rows, of the inputs (in) or of the results of
 * pooling (out). */
#define STEPS_OF(size)                                                                                       \
    const ulong row_step = (ulong)wide.size * channels, plane_step = (ulong)high.size * row_step
#define AT(size, i, j, k)                                                                                    \
    ((sample * (uint)deep.size + (uint)(i)) * plane_step + (uint)(j)*row_step + (ulong)(uint)(k)*channels)

/* --- sums --- */

/* y (N,OD,OH,OW,C) (+)= sum of x (N,D,H,W,C) over the window * factor. */
KERNEL pool_sum(GRAD_OF(GT, y), IN_OF(DT, x), AXES_ARGS, float share, PLACES_ARGS)
{
    AXES;
    GRID(out);
    x += x0;
    y += y0;
#define SUM_ROW pool_span by_d = pool_span_of(d, deep), by_h = pool_span_of(h, high)
#define SUM(type, N, V)                                                                                      \
    type sum[V];                                                                                             \
    EACH(V)                                                                                                  \
    sum[q] = (type)(0.0f);                                                                                   \
    for (int i = 0; i < by_d.count; i++)                                                                     \
        for (int j = 0; j < by_h.count; j++) {                                                               \
            ulong at = first + (uint)i * plane_step + (uint)j * row_step;                                    \
            for (int k = 0; k < by_w.count; k++, at += channels)                                             \
                EACH(V)                                                                                      \
                {                                                                                            \
                    ASK_FOR(x + at + CHANNEL(q) + DISTANCE);                                                 \
                    sum[q] += LOAD##N(DT, x, at + CHANNEL(q));                                               \
                }                                                                                            \
        }                                                                                                    \
    EACH(V)                                                                                                  \
    STREAM##N##_GRAD(GT, y, here + CHANNEL(q), sum[q] * factor, y_accumulate);
#define SUM_PLACE                                                                                            \
    pool_span by_w = pool_span_of(w, wide);                                                                  \
    const float factor = OWN_SIZE ? 1.0f / (float)(by_d.size * by_h.size * by_w.size) : share;               \
    const ulong first = AT(in, by_d.first, by_h.first, by_w.first);                                          \
    STEPS(SUM)
    STEPS_OF(in);
    FOR_PLACES(SUM_ROW, SUM_PLACE)
}

/* y (N,D,H,W,C) (+)= sum of x (N,OD,OH,OW,C) * the window's factor over all windows with this element. */
KERNEL pool_spread(GRAD_OF(GT, y), IN_OF(DT, x), AXES_ARGS, float share, PLACES_ARGS)
{
    AXES;
    GRID(in);
    x += x0;
    y += y0;
#define REACH_ROW pool_reach by_d = pool_reach_of(d, deep), by_h = pool_reach_of(h, high)
#if OWN_SIZE
#define SIZE(o, axis) pool_span_of(o, axis).size
#define FACTOR(k) (1.0f / (float)(size * SIZE(k, wide)))
#else
#define SIZE(o, axis) 1
#define FACTOR(k) share
#endif
#define SPREAD(type, N, V)                                                                                   \
    type sum[V];                                                                                             \
    EACH(V)                                                                                                  \
    sum[q] = (type)(0.0f);                                                                                   \
    for (int i = by_d.first; i <= by_d.last; i++)                                                            \
        for (int j = by_h.first; j <= by_h.last; j++) {                                                      \
            const int size = SIZE(i, deep) * SIZE(j, high);                                                  \
            ulong at = first + (uint)(i - by_d.first) * plane_step + (uint)(j - by_h.first) * row_step;      \
            (void)size;                                                                                      \
            for (int k = by_w.first; k <= by_w.last; k++, at += channels) {                                  \
                const float factor = FACTOR(k);                                                              \
                EACH(V)                                                                                      \
                sum[q] = fma(LOAD##N(DT, x, at + CHANNEL(q)), (type)(factor), sum[q]);                       \
            }                                                                                                \
        }                                                                                                    \
    EACH(V)                                                                                                  \
    STREAM##N##_GRAD(GT, y, here + CHANNEL(q), sum[q], y_accumulate);
#define SPREAD_PLACE                                                                                         \
    pool_reach by_w = pool_reach_of(w, wide);                                                                \
    const ulong first = AT(out, by_d.first, by_h.first, by_w.first);                                         \
    STEPS(SPREAD)
    STEPS_OF(out);
    FOR_PLACES(REACH_ROW, SPREAD_PLACE)
}

/* --- maxima --- */

/* The number of an element within its window, which is the index: (i * height of the kernel + j) * its width
 * + k. */
#define CODE(i, j, k) (((i)*high.window + (j)) * wide.window + (k))
#define INTS int
#define INTS16 int16
#define INDEX_AT(p, i) ((int)(p)[i])
#define INDEX_AT16_u8(p, i) convert_int16(LOAD16_BYTE(__global, (p) + (i)))
#define INDEX_AT16_u16(p, i) convert_int16(LOAD16_SHORT(__global, (p) + (i)))
#define INDEX_AT16_i32(p, i) vload16(0, (p) + (i))
#define INDEX_AT16(p, i) CLT_CAT(INDEX_AT16_, IT)(p, i)
#define PUT_INDEX(p, i, v) ((p)[i] = (STORAGE(IT))(v))
#define PUT_INDEX16_u8(p, i, v) STORE16_BYTE(__global, (p) + (i), convert_uchar16(v))
#define PUT_INDEX16_u16(p, i, v) STORE16_SHORT(__global, (p) + (i), convert_ushort16(v))
#define PUT_INDEX16_i32(p, i, v) vstore16((v), 0, (p) + (i))
#define PUT_INDEX16(p, i, v) CLT_CAT(PUT_INDEX16_, IT)(p, i, v)
#if INDEX
#define INDEX_ARG , OUT_OF(IT, index)
#define GIVE_INDEX(N, i, v) PUT_INDEX##N(index, index0 + (i), v);
#else
#define INDEX_ARG
#define GIVE_INDEX(N, i, v) (void)(v);
#endif

/* y, index (N,OD,OH,OW,C): the largest element of the window (the first of equal ones) and its number. NaN
 * is larger than everything. A window without an element inside gives -inf and a number that no element of
 * the input has. */
KERNEL pool_max_fwd(OUT_OF(DT, y) INDEX_ARG, IN_OF(DT, x), AXES_ARGS, PLACES_ARGS)
{
    AXES;
    GRID(out);
    x += x0;
    y += y0;
#define MAX_ROW pool_span by_d = pool_span_of(d, deep), by_h = pool_span_of(h, high)
#define LARGEST(type, N, V)                                                                                  \
    type top[V];                                                                                             \
    INTS##N best[V];                                                                                         \
    EACH(V)                                                                                                  \
    {                                                                                                        \
        top[q] = (type)(-INFINITY);                                                                          \
        best[q] = (INTS##N)(CODE(by_d.before, by_h.before, by_w.before));                                    \
    }                                                                                                        \
    for (int i = 0; i < by_d.count; i++)                                                                     \
        for (int j = 0; j < by_h.count; j++) {                                                               \
            ulong at = first + (uint)i * plane_apart + (uint)j * row_apart;                                  \
            int code = CODE(by_d.before + i, by_h.before + j, by_w.before);                                  \
            for (int k = 0; k < by_w.count; k++, code++, at += step)                                         \
                EACH(V)                                                                                      \
                {                                                                                            \
                    ASK_FOR(x + at + CHANNEL(q) + DISTANCE);                                                 \
                    const type v = LOAD##N(DT, x, at + CHANNEL(q));                                          \
                    const INTS##N larger = (v > top[q]) | (v != v);                                          \
                    top[q] = larger ? v : top[q];                                                            \
                    best[q] = larger ? (INTS##N)(code) : best[q];                                            \
                }                                                                                            \
        }                                                                                                    \
    EACH(V)                                                                                                  \
    {                                                                                                        \
        STREAM##N(DT, y, here + CHANNEL(q), top[q]);                                                         \
        GIVE_INDEX(N, here + CHANNEL(q), best[q])                                                            \
    }
#define MAX_PLACE                                                                                            \
    pool_span by_w = pool_span_of(w, wide);                                                                  \
    const ulong first = AT(in, by_d.first, by_h.first, by_w.first);                                          \
    STEPS(LARGEST)
    STEPS_OF(in);
    const ulong step = (ulong)APART(wide) * channels, row_apart = APART(high) * row_step,
                plane_apart = APART(deep) * plane_step;
    FOR_PLACES(MAX_ROW, MAX_PLACE)
}

/* dx (N,D,H,W,C) (+)= sum of dy over the windows that have this element as the largest. */
KERNEL pool_max_bwd(GRAD_OF(GT, dx), IN_OF(DYT, dy), IN_OF(IT, index), AXES_ARGS, PLACES_ARGS)
{
    AXES;
    GRID(in);
    dx += dx0;
    dy += dy0;
    index += index0;
#if DILATED
#define LEAVE_OUT(number)                                                                                    \
    if ((number) < 0)                                                                                        \
        continue;
#else
#define LEAVE_OUT(number)
#endif
#define CHOSEN(type, N, V)                                                                                   \
    type sum[V];                                                                                             \
    EACH(V)                                                                                                  \
    sum[q] = (type)(0.0f);                                                                                   \
    for (int i = by_d.first; i <= by_d.last; i++) {                                                          \
        const int in_d = pool_number(d, i, deep);                                                            \
        LEAVE_OUT(in_d)                                                                                      \
        for (int j = by_h.first; j <= by_h.last; j++) {                                                      \
            const int in_h = pool_number(h, j, high);                                                        \
            LEAVE_OUT(in_h)                                                                                  \
            ulong at = first + (uint)(i - by_d.first) * plane_step + (uint)(j - by_h.first) * row_step;      \
            for (int k = by_w.first; k <= by_w.last; k++, at += channels) {                                  \
                const int in_w = pool_number(w, k, wide), code = CODE(in_d, in_h, in_w);                     \
                ASK_FOR(index + at + c + DISTANCE);                                                          \
                LEAVE_OUT(in_w)                                                                              \
                EACH(V)                                                                                      \
                {                                                                                            \
                    ASK_FOR(dy + at + CHANNEL(q) + DISTANCE);                                                \
                    const INTS##N mine = INDEX_AT##N(index, at + CHANNEL(q)) == code;                        \
                    sum[q] += mine ? LOAD##N(DYT, dy, at + CHANNEL(q)) : (type)(0.0f);                       \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    EACH(V)                                                                                                  \
    STREAM##N##_GRAD(GT, dx, here + CHANNEL(q), sum[q], dx_accumulate);
#define CHOSEN_PLACE                                                                                         \
    pool_reach by_w = pool_reach_of(w, wide);                                                                \
    const ulong first = AT(out, by_d.first, by_h.first, by_w.first);                                         \
    STEPS(CHOSEN)
    STEPS_OF(out);
    FOR_PLACES(REACH_ROW, CHOSEN_PLACE)
}
