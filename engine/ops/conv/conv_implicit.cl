/* SPDX-License-Identifier: Apache-2.0
 *
 * Two kernels that run before and after the implicit products of convolutions (conv_implicit.c): one brings
 * the weight into another order, the other stores one phase of a strided gradient to its positions in the
 * image.
 *
 * Geometry: in lane style an item has one position (one row of the weight) with all its channels, in flat
 * style one position and one channel.
 *
 * -DLS=items of a group, 1 in the lane form  -DDT=type of the weight  -DGT=type of the image */
#include "common.clh"
#include "lanes.clh"
#include "types.clh"

#pragma option LS 1
#pragma option EMPTY 0 /* 1: no element of the window belongs to the phase */

#if LS == 1
#define ITEM(count)                                                                                          \
    ulong item = get_group_id(0);                                                                            \
    if (item >= (count))                                                                                     \
        return;                                                                                              \
    uint c = 0
#define EACH_CHANNEL(WORK)                                                                                   \
    for (; c + 16 <= channels; c += 16) {                                                                    \
        WORK(16)                                                                                             \
    }                                                                                                        \
    for (; c < channels; c++) {                                                                              \
        WORK(1)                                                                                              \
    }
#else
#define ITEM(count)                                                                                          \
    ulong item = get_global_id(0) / channels;                                                                \
    if (item >= (count))                                                                                     \
        return;                                                                                              \
    uint c = (uint)(get_global_id(0) - item * channels)
#define EACH_CHANNEL(WORK) WORK(1)
#endif
#define LOAD1(dt, p, i) LOAD(dt, p, i)
#define STORE1(dt, p, i, v) STORE(dt, p, i, v)
#define STORE1_GRAD(dt, p, i, v, accumulate) STORE_GRAD(dt, p, i, v, accumulate)
#define ZERO16 ((float16)(0.0f))
#define ZERO1 0.0f

#define KERNEL __kernel __attribute__((reqd_work_group_size(LS, 1, 1))) void

/* to (groups, taps, per_group, channels) of weight (groups * per_group, kernel..., channels): tap (m0, m1,
 * m2) of count0 x count1 x count2 is element (first + m step) of the window. */
KERNEL conv_turn(__global STORAGE(DT) *restrict to, ulong to0, __global const STORAGE(DT) *restrict weight,
                 ulong weight0, uint groups, uint per_group, uint channels, uint count0, uint count1,
                 uint count2, int first0, int first1, int first2, int step0, int step1, int step2,
                 uint kernel0, uint kernel1, uint kernel2)
{
    uint taps = count0 * count1 * count2;
    ITEM((ulong)groups * taps * per_group);
    uint k = (uint)(item % per_group);
    ulong behind = item / per_group;
    uint tap = (uint)(behind % taps), group = (uint)(behind / taps);
    uint m1 = tap / count2, m2 = tap - m1 * count2, m0 = m1 / count1;
    m1 -= m0 * count1;
    uint t0 = (uint)(first0 + (int)m0 * step0), t1 = (uint)(first1 + (int)m1 * step1);
    uint t2 = (uint)(first2 + (int)m2 * step2);
    ulong row = ((ulong)group * per_group + k) * kernel0 * kernel1 * kernel2;
    __global const STORAGE(DT) *from =
        weight + weight0 + (row + (t0 * kernel1 + t1) * kernel2 + t2) * channels;
    to += to0 + item * channels;
#define TURN(N) STORE##N(DT, to, c, LOAD##N(DT, from, c));
    EACH_CHANNEL(TURN)
}

/* image (n, in..., channels) (+)= phase (n, size..., channels) at the positions begin + stride * p, where p
 * is a position in the phase. EMPTY: these positions become 0, or stay unchanged with `accumulate`. */
KERNEL conv_scatter(__global STORAGE(GT) *restrict image, ulong image0, int accumulate,
#if !EMPTY
                    __global const float *restrict phase, ulong phase0,
#endif
                    ulong places, uint channels, uint size0, uint size1, uint size2, uint begin0, uint begin1,
                    uint begin2, uint stride0, uint stride1, uint stride2, uint in0, uint in1, uint in2)
{
    ITEM(places);
    ulong p1 = item / size2, p0 = p1 / size1, n = p0 / size0;
    uint i2 = begin2 + (uint)(item - p1 * size2) * stride2, i1 = begin1 + (uint)(p1 - p0 * size1) * stride1;
    uint i0 = begin0 + (uint)(p0 - n * size0) * stride0;
    image += image0 + (((n * in0 + i0) * in1 + i1) * in2 + i2) * channels;
#if EMPTY
#define SCATTER(N) STORE##N##_GRAD(GT, image, c, ZERO##N, accumulate);
#else
    phase += phase0 + item * channels;
#define SCATTER(N) STORE##N##_GRAD(GT, image, c, LOAD##N(f32, phase, c), accumulate);
#endif
    EACH_CHANNEL(SCATTER)
}
