/* SPDX-License-Identifier: Apache-2.0
 *
 * Arguments for the checks of functions on f32. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "engine/verify/device/device_checks.h"

/* Numbers at which functions change their behaviour; each is used with both signs. */
static const float edges[] = {0.0f,
                              0x1p-149f,        /* the smallest subnormal number */
                              0x1.fffffcp-127f, /* the largest */
                              FLT_MIN,
                              0x1.000002p-126f,
                              0x1p-64f,
                              0x1p-24f,
                              0x1.fffffep-2f,
                              0.5f,
                              0.75f,
                              0x1.fffffep-1f,
                              1.0f,
                              0x1.000002p+0f,
                              1.5f,
                              2.0f,
                              2.5f,
                              3.1415927f,
                              10.0f,
                              87.33654f, /* exp: the smallest normal and the largest result */
                              88.72283f,
                              88.72284f,
                              103.97208f, /* exp: the smallest subnormal result, and 0 */
                              103.97209f,
                              126.0f, /* exp2: the smallest subnormal result, and 0 */
                              0x1.fffffep+6f,
                              128.0f,
                              149.0f,
                              150.0f,
                              150.00002f,
                              8388607.5f, /* the last number with a fraction */
                              16777216.0f,
                              2147483648.0f,
                              0x1p+64f,
                              0x1p+126f,
                              FLT_MAX,
                              INFINITY,
                              NAN};
#define EDGES (2 * (sizeof edges / sizeof edges[0]))
#define HALVES 65536u
#define QUARTERS 1024u
#define AROUND_ONE 1024u
#define LANES 16u

static float edge(uint32_t i)
{
    return i % 2 ? -edges[i / 2 % (EDGES / 2)] : edges[i / 2 % (EDGES / 2)];
}

/* Makes every NaN a quiet one, since functions may treat signalling NaNs in any way. */
static float of_bits(uint32_t bits)
{
    float f;
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        bits |= 0x00400000u;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static uint32_t bits_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* Numbers of samples of each kind. */
typedef struct counts {
    uint32_t crossed, stride, random;
} counts;

/* The first argument of sample i, not counting the crossed edges, which come before. */
static float first_argument(const counts *n, const clt_verify_stream *stream, uint32_t i)
{
    uint32_t step = (uint32_t)((UINT64_C(1) << 32) / n->stride);
    if (i < HALVES)
        return clt_f16_to_f32((uint16_t)i);
    i -= HALVES;
    if (i < QUARTERS) /* multiples of 1/4, and two numbers around each */
        return of_bits(bits_of(0.25f * (float)(i / 8)) + i % 4 - 1) * (i & 4 ? -1.0f : 1.0f);
    i -= QUARTERS;
    if (i < AROUND_ONE)
        return of_bits(bits_of(1.0f) - AROUND_ONE / 2 + i);
    i -= AROUND_ONE;
    if (i < n->stride)
        return of_bits(clt_verify_word(stream, 0) % step + i * step);
    return of_bits(clt_verify_word(stream, i));
}

/* Chooses the second and third argument for a: random patterns, and numbers of similar size, whose sums
 * cancel. */
static void other_arguments(const clt_verify_stream *stream, uint32_t i, float a, float *b, float *c)
{
    uint32_t r = clt_verify_word(stream, UINT64_C(0x200000000) + i),
             s = clt_verify_word(stream, UINT64_C(0x300000000) + i);
    *b = of_bits(r);
    *c = of_bits(s);
    if (i % 4 == 1) /* some units in the last place, or some powers of two, from a */
        *b = of_bits((bits_of(a) ^ (r & 0x80000000u)) + (r % 8 - 4) * (r & 8 ? 1u : 0x00800000u));
    else if (i % 4 == 2)
        *b = 1.0f + 0x1p-20f * (float)(r % 4096);
    if (i % 2 == 1) { /* c is nearly -a b */
        float product = -(a * *b);
        *c = isfinite(product) && product != 0.0f ? of_bits(bits_of(product) + s % 5 - 2) : *c;
    }
}

clt_status clt_real_samples_make(uint64_t seed, int arguments, bool dense, clt_real_samples *out)
{
    const uint32_t pairs = (uint32_t)(EDGES * EDGES);
    counts n = {arguments == 1   ? EDGES
                : arguments == 2 ? pairs
                                 : 3 * pairs,
                dense ? 1u << 21 : 1u << 13, dense ? 1u << 16 : 1u << 12};
    uint32_t count = n.crossed + HALVES + QUARTERS + AROUND_ONE + n.stride + n.random;
    clt_verify_stream stream = clt_verify_stream_make(seed, "builtins", (uint32_t)arguments);
    count = (count + LANES - 1) / LANES * LANES;
    CLT_TRY(clt_alloc(&out->x, 3 * (size_t)count, sizeof *out->x, "numbers for built-in functions"));
    out->count = count;
    float *a = out->x, *b = a + count, *c = b + count;
    for (uint32_t i = 0; i < count; i++) {
        if (i < n.crossed) {
            a[i] = edge(i % (uint32_t)EDGES);
            b[i] = edge(i / (uint32_t)EDGES);
            c[i] = edge((i % 7 * 11 + i / pairs * 23 + i / (uint32_t)EDGES) % (uint32_t)EDGES);
        } else {
            a[i] = first_argument(&n, &stream, i - n.crossed);
            other_arguments(&stream, i, a[i], &b[i], &c[i]);
        }
    }
    return CLT_OK;
}
