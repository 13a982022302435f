/* SPDX-License-Identifier: Apache-2.0
 *
 * The matrix of windows of a convolution (conv_matrix.c), and its gradient, the sum over windows. Images are
 * (N, in0, in1, in2, channels), the matrix is (groups, rows, taps, per_group): row m of the kernels'
 * arguments is position `first` + m of the result. Positions outside of the image are zero. Knows no
 * weights.
 *
 * Geometry: in lane style an item has PLACES neighbouring positions with all their channels, in flat style
 * one position and one channel, so that neighbouring items access neighbouring channels.
 *
 * -DLS=items of a group, 1 in the lane form  -DDT=type of image and matrix (conv_windows)
 * -DGT=type of the image's gradient (conv_gather); the matrix is f32 there  -DHAS_BIAS=0|1 */
#include "common.clh"
#include "lanes.clh"
#include "types.clh"

#pragma option LS 1
#pragma option PLACES 64
#pragma option HAS_BIAS 0

#define CONV_PARAMS                                                                                          \
    uint in0, uint in1, uint in2, uint out0, uint out1, uint out2, uint kernel0, uint kernel1, uint kernel2, \
        uint stride0, uint stride1, uint stride2, uint padding0, uint padding1, uint padding2,               \
        uint dilation0, uint dilation1, uint dilation2, uint channels, uint per_group, ulong first,          \
        ulong rows
#define TAPS (kernel0 * kernel1 * kernel2)

/* place: index of the position in the image that element `tap` of window `row` covers. inside: false if that
 * position is outside of the image; negative coordinates wrap to values larger than every size. */
#define COVERED(row, tap, place, inside)                                                                     \
    do {                                                                                                     \
        ulong r1_ = (row) / out2, r0_ = r1_ / out1, n_ = r0_ / out0;                                         \
        uint t1_ = (tap) / kernel2, t0_ = t1_ / kernel1;                                                     \
        uint i2_ = (uint)((row)-r1_ * out2) * stride2 + ((tap)-t1_ * kernel2) * dilation2 - padding2;        \
        uint i1_ = (uint)(r1_ - r0_ * out1) * stride1 + (t1_ - t0_ * kernel1) * dilation1 - padding1;        \
        uint i0_ = (uint)(r0_ - n_ * out0) * stride0 + t0_ * dilation0 - padding0;                           \
        inside = i0_ < in0 && i1_ < in1 && i2_ < in2;                                                        \
        place = ((n_ * in0 + i0_) * in1 + i1_) * in2 + i2_;                                                  \
    } while (0)

/* matrix (groups, rows, taps, per_group) = the windows of image. */
__kernel __attribute__((reqd_work_group_size(LS, 1, 1))) void conv_windows(
    __global STORAGE(DT) *restrict matrix, ulong matrix0, __global const STORAGE(DT) *restrict image,
    ulong image0, CONV_PARAMS)
{
    matrix += matrix0;
    image += image0;
#if LS == 1
    ulong at = (ulong)get_group_id(0) * PLACES, end = min(at + PLACES, rows * TAPS);
    for (; at < end; at++) {
        ulong row = at / TAPS, place;
        uint tap = (uint)(at - row * TAPS);
        bool inside;
        COVERED(first + row, tap, place, inside);
        for (uint group = 0; group * per_group < channels; group++) {
            __global STORAGE(DT) *to = matrix + (((ulong)group * rows + row) * TAPS + tap) * per_group;
            __global const STORAGE(DT) *from = image + place * channels + group * per_group;
            uint c = 0;
            for (; c + 16 <= per_group; c += 16)
                STORE16(DT, to, c, inside ? LOAD16(DT, from, c) : (float16)(0.0f));
            for (; c < per_group; c++)
                STORE(DT, to, c, inside ? LOAD(DT, from, c) : 0.0f);
        }
    }
#else
    ulong item = get_global_id(0), at = item / channels;
    if (at >= rows * TAPS)
        return;
    uint channel = (uint)(item - at * channels), group = channel / per_group;
    ulong row = at / TAPS, place;
    uint tap = (uint)(at - row * TAPS);
    bool inside;
    COVERED(first + row, tap, place, inside);
    ulong to = (((ulong)group * rows + row) * TAPS + tap) * per_group + (channel - group * per_group);
    STORE(DT, matrix, to, inside ? LOAD(DT, image, place * channels + channel) : 0.0f);
#endif
}

/* row: the row of the result whose window covers position (n, i0, i1, i2) of the image with its element
 * `tap`. found: false if there is none. */
#define COVERING(n, i0, i1, i2, tap, row, found)                                                             \
    do {                                                                                                     \
        uint t1_ = (tap) / kernel2, t0_ = t1_ / kernel1;                                                     \
        uint p0_ = (i0) + padding0 - t0_ * dilation0, o0_ = p0_ / stride0;                                   \
        uint p1_ = (i1) + padding1 - (t1_ - t0_ * kernel1) * dilation1, o1_ = p1_ / stride1;                 \
        uint p2_ = (i2) + padding2 - ((tap)-t1_ * kernel2) * dilation2, o2_ = p2_ / stride2;                 \
        found = o0_ < out0 && o1_ < out1 && o2_ < out2 && o0_ * stride0 == p0_ && o1_ * stride1 == p1_ &&    \
                o2_ * stride2 == p2_;                                                                        \
        row = (((n)*out0 + o0_) * out1 + o1_) * out2 + o2_;                                                  \
    } while (0)

#define PLACE_OF(place)                                                                                      \
    ulong p1 = (place) / in2, p0 = p1 / in1, n = p0 / in0;                                                   \
    uint i2 = (uint)((place)-p1 * in2), i1 = (uint)(p1 - p0 * in1), i0 = (uint)(p0 - n * in0)

/* image (places, channels) (+)= the sum, for each of the positions `from` to from + places - 1 of an image
 * (N, in...), of the elements of the matrix that cover it, in the order of the taps. Only the windows of rows
 * first to first + rows - 1 count. */
__kernel __attribute__((reqd_work_group_size(LS, 1, 1))) void conv_gather(
    __global STORAGE(GT) *restrict image, ulong image0, int accumulate, __global const float *restrict matrix,
    ulong matrix0,
#if HAS_BIAS
    __global const float *restrict bias, ulong bias0,
#endif
    CONV_PARAMS, ulong from, ulong places)
{
    image += image0;
    matrix += matrix0;
#if HAS_BIAS
    bias += bias0;
#define START(type, LOAD_BIAS) LOAD_BIAS
#else
#define START(type, LOAD_BIAS) (type)(0.0f)
#endif
#if LS == 1
    ulong place = (ulong)get_group_id(0) * PLACES, end = min(place + PLACES, places);
    for (; place < end; place++) {
        PLACE_OF(from + place);
        __global STORAGE(GT) *to = image + place * channels;
        for (uint group = 0; group * per_group < channels; group++) {
            uint c = 0, base = group * per_group;
            for (; c < per_group;) {
                bool whole = c + 16 <= per_group, found;
                float16 sum = (float16)(0.0f);
                float one = START(float, bias[base + c]);
                if (whole)
                    sum = START(float16, vload16(0, bias + base + c));
                for (uint tap = 0; tap < TAPS; tap++) {
                    ulong row;
                    COVERING(n, i0, i1, i2, tap, row, found);
                    if (!found || row < first || row >= first + rows)
                        continue;
                    __global const float *from =
                        matrix + (((ulong)group * rows + (row - first)) * TAPS + tap) * per_group + c;
                    if (whole)
                        sum += vload16(0, from);
                    else
                        one += *from;
                }
                if (whole)
                    STORE16_GRAD(GT, to, base + c, sum, accumulate);
                else
                    STORE_GRAD(GT, to, base + c, one, accumulate);
                c += whole ? 16 : 1;
            }
        }
    }
#else
    ulong item = get_global_id(0), place = item / channels;
    if (place >= places)
        return;
    uint channel = (uint)(item - place * channels), group = channel / per_group;
    PLACE_OF(from + place);
    float sum = START(float, bias[channel]);
    for (uint tap = 0; tap < TAPS; tap++) {
        ulong row;
        bool found;
        COVERING(n, i0, i1, i2, tap, row, found);
        if (found && row >= first && row < first + rows)
            sum += matrix[(((ulong)group * rows + (row - first)) * TAPS + tap) * per_group +
                          (channel - group * per_group)];
    }
    STORE_GRAD(GT, image, item, sum, accumulate);
#endif
}
