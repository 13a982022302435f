/* SPDX-License-Identifier: Apache-2.0
 *
 * Rotary position embedding: pairs of elements of a head are rotated by an angle that is proportional to the
 * position in the sequence, y = (a cos - b sin, a sin + b cos); the gradient is rotated in the opposite
 * direction. Angles are 64-bit fractions of a turn, so that they are as accurate at position 10^6 as at 1.
 * Kernels: flat (an item for a pair of all heads of a position, coalesced), row (an item for a position,
 * sixteen pairs at a time). Knows positions, heads and pairs only.
 *
 *   -DDT=type of x  -DYT=type of y
 *   -DINTERLEAVED=1: a pair is two neighbours, 0: element i of the first and of the second half
 *   -DOFFSETS=1: the position of each sample's first row is an argument, 2: the position of every row is
 *   -DSCALING=1, 2: angles are reduced, by the index of the pair (1) or by its frequency (2)
 *   -DNT: see lanes.clh
 * Arguments of both kernels: sign 1: forward, -1: gradient  accumulate 1: the result is added to y
 *   dim: elements of a head  pairs: pairs of a head that are rotated
 *   heads: heads of a position, of which the first `turned` are rotated and the others copied */
#include "common.clh"
#include "lanes.clh"
#include "types.clh"

#pragma option YT f32
#pragma option INTERLEAVED 0
#pragma option OFFSETS 0
#pragma option SCALING 0

#if INTERLEAVED
#define FIRST(i) (2 * (i))
#define SECOND(i) (2 * (i) + 1)
#else
#define FIRST(i) (i)
#define SECOND(i) ((i) + pairs)
#endif
#if OFFSETS
#define OFFSETS_ARG , __global const int *restrict offsets, ulong offsets0
#define OFFSET(at) (uint) max(offsets[offsets0 + (at)], 0)
#else
#define OFFSETS_ARG
#define OFFSET(at) 0u
#endif
#if OFFSETS == 2
#define POSITION(row) OFFSET(row)
#else
#define POSITION(row) (uint)((row) % places) + OFFSET((row) / places)
#endif

/* Parameters of a scaling. Pairs up to number scale_first, or angles from `high` on, stay as they are; from
 * pair number scale_last on, or from the angle `low` down, angles are multiplied by `least` / 2^64; between
 * them the factor changes linearly, `step` and `scale` being the reciprocals of the distances. */
#if SCALING == 1
#define SCALING_ARG , ulong least, int scale_first, uint scale_last, ulong scale_step
#define SCALED(power, i) rotary_scaled(power, i, least, scale_first, scale_last, scale_step)
#elif SCALING == 2
#define SCALING_ARG , ulong least, ulong low, ulong high, ulong scale, uint shift
#define SCALED(power, i) rotary_scaled(power, least, low, high, scale, shift)
#else
#define SCALING_ARG
#define SCALED(power, i) (power)
#endif

/* 2^64 / (2 pi): converts radians to turns in 64-bit fixed point. */
#define TURNS_OF_A_RADIAN 0x28BE60DB9391054AUL

/* The angle between neighbouring positions of a pair (2^64: a radian), reduced for texts that are longer
 * than the texts of earlier training. It is a 64-bit fraction, since an error of the angle grows with the
 * position. low, high: 2^61 for a radian. */
#if SCALING == 1
static inline ulong rotary_scaled(ulong power, uint i, ulong least, int first, uint last, ulong step)
{
    if ((int)i <= first)
        return power;
    ulong kept = i < last ? (last - i) * step : 0;
    return mul_hi(power, least + mul_hi(0 - least, kept));
}
#elif SCALING == 2
static inline ulong rotary_scaled(ulong power, ulong least, ulong low, ulong high, ulong scale, uint shift)
{
    ulong angle = power >> 3;
    if (angle >= high)
        return power;
    ulong kept = angle > low ? mul_hi((angle - low) << shift, scale) << 1 : 0;
    return mul_hi(power, least + mul_hi(0 - least, kept));
}
#endif

/* base^(-i / pairs) as a 64-bit fixed-point fraction. ratio: 2^64 * base^(-1 / pairs). A product of fractions
 * is the upper half of the 128-bit product. */
static inline ulong rotary_power(uint i, ulong ratio)
{
    ulong power = ~0UL;
    for (; i; i >>= 1, ratio = mul_hi(ratio, ratio))
        if (i & 1)
            power = mul_hi(power, ratio);
    return power;
}

/* The angle in half turns, from -1 to 1, at position `place`; power: the angle between neighbouring
 * positions, 2^64 for a radian. Multiplying by `place` modulo 2^64 drops whole turns. */
static inline float rotary_angle(uint place, ulong power)
{
    return (float)(long)((ulong)place * mul_hi(power, TURNS_OF_A_RADIAN)) * 0x1p-63f;
}

/* x, y (samples * places, heads * dim). */
__kernel void rotary_flat(__global STORAGE(YT) *restrict y, ulong y0, int accumulate,
                          __global const STORAGE(DT) *restrict x, ulong x0 OFFSETS_ARG, ulong items,
                          uint places, uint heads, uint turned, uint dim, uint pairs, float sign,
                          ulong ratio SCALING_ARG)
{
    ulong item = get_global_id(0);
    if (item >= items)
        return;
    ulong row = item / (dim - pairs);
    uint i = (uint)(item - row * (dim - pairs));
    y += y0 + row * heads * dim;
    x += x0 + row * heads * dim;
    if (i >= pairs) {
        uint c = i + pairs;
        for (uint h = 0; h < heads; h++, c += dim)
            STORE_GRAD(YT, y, c, LOAD(DT, x, c), accumulate);
        return;
    }
    ulong power = SCALED(rotary_power(i, ratio), i);
    float angle = rotary_angle(POSITION(row), power);
    float c = cospi(angle), s = sign * sinpi(angle);
    for (uint h = 0; h < heads; h++, x += dim, y += dim) {
        float a = LOAD(DT, x, FIRST(i)), b = LOAD(DT, x, SECOND(i));
        bool turns = h < turned;
        STORE_GRAD(YT, y, FIRST(i), turns ? a * c - b * s : a, accumulate);
        STORE_GRAD(YT, y, SECOND(i), turns ? a * s + b * c : b, accumulate);
    }
}

/* One item per row: for each sixteen pairs it computes cosines and sines once and rotates these pairs of
 * every head. */
__kernel void rotary_row(__global STORAGE(YT) *restrict y, ulong y0, int accumulate,
                         __global const STORAGE(DT) *restrict x, ulong x0 OFFSETS_ARG, ulong rows,
                         uint places, uint heads, uint turned, uint dim, uint pairs, float sign,
                         ulong ratio SCALING_ARG)
{
    ulong row = get_global_id(0);
    if (row >= rows)
        return;
    y += y0 + row * heads * dim;
    x += x0 + row * heads * dim;
    uint place = POSITION(row);
    for (uint first = 0; first < pairs; first += LANES) {
        uint count = min((uint)LANES, pairs - first);
        float angle[LANES], cosine[LANES], sine[LANES];
        for (uint i = 0; i < LANES; i++)
            angle[i] =
                i < count ? rotary_angle(place, SCALED(rotary_power(first + i, ratio), first + i)) : 0.0f;
        float16 angles = vload16(0, angle), c = cospi(angles), s = sign * sinpi(angles);
        vstore16(c, 0, cosine);
        vstore16(s, 0, sine);
        for (uint h = 0; h < turned; h++) {
            __global const STORAGE(DT) *from = x + (ulong)h * dim;
            __global STORAGE(YT) *to = y + (ulong)h * dim;
#if !INTERLEAVED
            if (count == LANES) {
                float16 a = LOAD16(DT, from, first), b = LOAD16(DT, from, first + pairs);
                STREAM16_GRAD(YT, to, first, a * c - b * s, accumulate);
                STREAM16_GRAD(YT, to, first + pairs, a * s + b * c, accumulate);
                continue;
            }
#endif
            for (uint i = 0; i < count; i++) {
                float a = LOAD(DT, from, FIRST(first + i)), b = LOAD(DT, from, SECOND(first + i));
                STORE_GRAD(YT, to, FIRST(first + i), a * cosine[i] - b * sine[i], accumulate);
                STORE_GRAD(YT, to, SECOND(first + i), a * sine[i] + b * cosine[i], accumulate);
            }
        }
    }
    for (uint h = 0; h < turned; h++)
        for (uint c = 2 * pairs; c < dim; c++)
            STORE_GRAD(YT, y, h * dim + c, LOAD(DT, x, h * dim + c), accumulate);
    ulong c = (ulong)turned * dim, end = (ulong)heads * dim;
    for (; c + LANES <= end; c += LANES)
        STREAM16_GRAD(YT, y, c, LOAD16(DT, x, c), accumulate);
    for (; c < end; c++)
        STORE_GRAD(YT, y, c, LOAD(DT, x, c), accumulate);
}
