/* SPDX-License-Identifier: Apache-2.0
 *
 * Rotary position embedding: pairs of elements of a head are rotated by an angle that is proportional to the
 * position in the sequence, y = (a cos - b sin, a sin + b cos); the gradient is rotated in the opposite
 * direction. Angles are 64-bit fractions of a turn, so that they are as accurate at position 10^6 as at 1.
 * Kernels: flat (an item for a pair of all heads of a position, coalesced), row (an item for a position,
 * sixteen pairs at a time). Knows positions, heads and pairs only.
 *
 *   -DDT=type of x  -DYT=type of y  -DSIGN=1: forward, -1: gradient  -DGRAD=1: y may be accumulated
 *   -DINTERLEAVED=1: a pair is two neighbours, 0: element i of the first and of the second half
 *   -DOFFSETS=1: the position of each sample's first row is an argument, 2: the position of every row is
 *   -DSCALING=1, 2: angles are reduced, by the index of the pair (1) or by its frequency (2)
 *   -DDIM=elements of a head  -DTURNED=elements of a head that are rotated  -DNT: see lanes.clh */
#include "common.clh"
#include "lanes.clh"
#include "types.clh"

#pragma option YT f32
#pragma option SIGN 1
#pragma option GRAD 0
#pragma option INTERLEAVED 0
#pragma option OFFSETS 0
#pragma option SCALING 0
#pragma option DIM 64
#pragma option TURNED DIM

#define PAIRS (TURNED / 2)
#define REST (DIM - TURNED)
#if INTERLEAVED
#define FIRST(i) (2 * (i))
#define SECOND(i) (2 * (i) + 1)
#else
#define FIRST(i) (i)
#define SECOND(i) ((i) + PAIRS)
#endif
#if GRAD
#define ACCUMULATE_ARG , int accumulate
#else
#define ACCUMULATE_ARG
#define accumulate 0
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

/* The angle between neighbouring positions of a pair (2^64: a radian), reduced for texts longer than in the
 * training before. In 64-bit fractions, since an error of the angle grows with the position. low, high: 2^61
 * for a radian. */
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

/* base^(-i / PAIRS) as a 64-bit fixed-point fraction. ratio: 2^64 * base^(-1 / PAIRS). A product of fractions
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

/* x, y (samples * places, width); width is DIM times the number of heads. The first `turned` heads are
 * rotated, the others are copied. */
__kernel void rotary_flat(__global STORAGE(YT) *restrict y, ulong y0 ACCUMULATE_ARG,
                          __global const STORAGE(DT) *restrict x, ulong x0 OFFSETS_ARG, ulong items,
                          uint places, uint heads, uint turned, ulong ratio SCALING_ARG)
{
    ulong item = get_global_id(0);
    if (item >= items)
        return;
    ulong row = item / (PAIRS + REST);
    uint i = (uint)(item % (PAIRS + REST));
    y += y0 + row * heads * DIM;
    x += x0 + row * heads * DIM;
    if (i >= PAIRS) {
        uint c = i + PAIRS;
        for (uint h = 0; h < heads; h++, c += DIM)
            STORE_GRAD(YT, y, c, LOAD(DT, x, c), accumulate);
        return;
    }
    ulong power = SCALED(rotary_power(i, ratio), i);
    float angle = rotary_angle(POSITION(row), power);
    float c = cospi(angle), s = SIGN * sinpi(angle);
    for (uint h = 0; h < heads; h++, x += DIM, y += DIM) {
        float a = LOAD(DT, x, FIRST(i)), b = LOAD(DT, x, SECOND(i));
        bool turns = h < turned;
        STORE_GRAD(YT, y, FIRST(i), turns ? a * c - b * s : a, accumulate);
        STORE_GRAD(YT, y, SECOND(i), turns ? a * s + b * c : b, accumulate);
    }
}

/* One item per row: for each sixteen pairs it computes cosines and sines once and rotates these pairs of
 * every head. */
__kernel void rotary_row(__global STORAGE(YT) *restrict y, ulong y0 ACCUMULATE_ARG,
                         __global const STORAGE(DT) *restrict x, ulong x0 OFFSETS_ARG, ulong rows,
                         uint places, uint heads, uint turned, ulong ratio SCALING_ARG)
{
    ulong row = get_global_id(0);
    if (row >= rows)
        return;
    y += y0 + row * heads * DIM;
    x += x0 + row * heads * DIM;
    uint place = POSITION(row);
    for (uint first = 0; first < PAIRS; first += LANES) {
        uint count = min((uint)LANES, (uint)PAIRS - first);
        float angle[LANES], cosine[LANES], sine[LANES];
        for (uint i = 0; i < LANES; i++)
            angle[i] =
                i < count ? rotary_angle(place, SCALED(rotary_power(first + i, ratio), first + i)) : 0.0f;
        float16 angles = vload16(0, angle), c = cospi(angles), s = SIGN * sinpi(angles);
        vstore16(c, 0, cosine);
        vstore16(s, 0, sine);
        for (uint h = 0; h < turned; h++) {
            __global const STORAGE(DT) *from = x + (ulong)h * DIM;
            __global STORAGE(YT) *to = y + (ulong)h * DIM;
#if !INTERLEAVED
            if (count == LANES) {
                float16 a = LOAD16(DT, from, first), b = LOAD16(DT, from, first + PAIRS);
                STREAM16_GRAD(YT, to, first, a * c - b * s, accumulate);
                STREAM16_GRAD(YT, to, first + PAIRS, a * s + b * c, accumulate);
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
#if REST
    for (uint h = 0; h < turned; h++)
        for (uint c = TURNED; c < DIM; c++)
            STORE_GRAD(YT, y, h * DIM + c, LOAD(DT, x, h * DIM + c), accumulate);
#endif
    ulong c = (ulong)turned * DIM, end = (ulong)heads * DIM;
    for (; c + LANES <= end; c += LANES)
        STREAM16_GRAD(YT, y, c, LOAD16(DT, x, c), accumulate);
    for (; c < end; c++)
        STORE_GRAD(YT, y, c, LOAD(DT, x, c), accumulate);
}
