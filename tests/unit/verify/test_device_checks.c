/* SPDX-License-Identifier: Apache-2.0
 *
 * The checks of the device alone: errors in ulp as OpenCL C defines them, numbers that a device may flush,
 * and what the samples hold. ctest-labels: quick */
#include "tests/unit/test.h"

#include <float.h>
#include <math.h>

#include "engine/verify/device/device_checks.h"

TEST(test_errors_in_ulp)
{
    const long double ulp = 0x1p-23L; /* for numbers from 1 to 2 */
    assert_true(clt_real_error(1.5f, 1.5L) == 0.0);
    assert_true(clt_real_error(1.5f, 1.5L + 0.25L * ulp) == 0.25);
    assert_true(clt_real_error(1.5f, 1.5L - 3.0L * ulp) == 3.0);
    assert_true(clt_real_error(-1.5f, -1.5L - 2.0L * ulp) == 2.0);
    /* at a power of two the smaller of the two distances counts */
    assert_true(clt_real_error(1.0f + 0x1p-23f, 1.0L) == 2.0);
    assert_true(clt_real_error(1.0f, 1.0L + ulp) == 1.0);
    /* below 2^-126 all numbers are equally far apart */
    assert_true(clt_real_error(0x1p-149f, 0.0L) == 1.0);
    assert_true(clt_real_error(0.0f, 0x3p-150L) == 1.5);
    assert_true(clt_real_error(FLT_MIN, (long double)FLT_MIN - 0x1p-149L) == 1.0);
}

TEST(test_errors_beyond_f32)
{
    const long double top = 0x1p128L, ulp = 0x1p104L;
    assert_true(clt_real_error(INFINITY, 1e40L) == 0.0);
    assert_true(clt_real_error(INFINITY, (long double)INFINITY) == 0.0);
    assert_true(clt_real_error(-INFINITY, 1e40L) > 1e6);
    assert_true(clt_real_error(INFINITY, top - 2.0L * ulp) == 2.0);
    assert_true(clt_real_error(FLT_MAX, 1e40L) > 0.9); /* one unit below the first number that overflows */
    assert_true(isinf(clt_real_error(NAN, 1.0L)) && isinf(clt_real_error(1.0f, (long double)NAN)));
    assert_true(clt_real_error(NAN, (long double)NAN) == 0.0);
}

static double error_of(int which, float a, float b, float c, float got, bool flushes)
{
    const float x[3] = {a, b, c};
    long double exact;
    return clt_real_function_error(which, x, got, flushes, &exact);
}

TEST(test_flushed_numbers)
{
    const float tiny = 0x1p-140f;
    assert_true(error_of(BUILTIN_ADD, tiny, tiny, 0.0f, 2.0f * tiny, false) == 0.0);
    assert_true(error_of(BUILTIN_ADD, tiny, tiny, 0.0f, 0.0f, false) > 0.0);
    assert_true(error_of(BUILTIN_ADD, tiny, tiny, 0.0f, 0.0f, true) == 0.0);
    /* either argument is flushed, or none */
    assert_true(error_of(BUILTIN_ADD, tiny, FLT_MIN, 0.0f, FLT_MIN, true) == 0.0);
    assert_true(error_of(BUILTIN_ADD, tiny, FLT_MIN, 0.0f, FLT_MIN + tiny, true) == 0.0);
    assert_true(error_of(BUILTIN_ADD, tiny, FLT_MIN, 0.0f, FLT_MIN, false) > 0.0);
    assert_true(isinf(error_of(BUILTIN_LOG, tiny, 0.0f, 0.0f, -INFINITY, true)) == 0);
    assert_true(error_of(BUILTIN_LOG, tiny, 0.0f, 0.0f, -INFINITY, false) > 1e6);
}

/* A result below 2^-126 that rounds to 2^-126 may be flushed; an exact 2^-126 may not. */
TEST(test_flushed_before_rounding)
{
    const float down = nextafterf(1.0f, 0.0f), up = nextafterf(1.0f, 2.0f);
    for (int sign = -1; sign <= 1; sign += 2) {
        const float least = (float)sign * FLT_MIN;
        assert_true(error_of(BUILTIN_MULTIPLY, least, down, 0.0f, least, true) == 0.0);
        assert_true(error_of(BUILTIN_MULTIPLY, least, down, 0.0f, 0.0f, true) == 0.0);
        assert_true(error_of(BUILTIN_MULTIPLY, least, down, 0.0f, 0.0f, false) > 1e6);
        assert_true(error_of(BUILTIN_MULTIPLY, least, up, 0.0f, 0.0f, true) > 1e6);
        assert_true(error_of(BUILTIN_MULTIPLY, least, 1.0f, 0.0f, 0.0f, true) > 1e6);
        assert_true(error_of(BUILTIN_FMA, FLT_MIN, (float)-sign * 0x1p-24f, least, 0.0f, true) == 0.0);
        /* the difference is too small for a long double */
        assert_true(error_of(BUILTIN_FMA, FLT_MIN, (float)-sign * 0x1p-80f, least, 0.0f, true) == 0.0);
        assert_true(error_of(BUILTIN_FMA, FLT_MIN, (float)sign * 0x1p-80f, least, 0.0f, true) > 1e6);
        assert_true(error_of(BUILTIN_FMA, 0.0f, 1.0f, least, 0.0f, true) > 1e6);
        assert_true(error_of(BUILTIN_FMA, FLT_MIN, (float)-sign * 0x1p-24f, least, 0.0f, false) > 1e6);
    }
}

/* A driver that computes sinpi(x) as sin(pi x) in f64 is wrong where pi x is rounded, and right
 * elsewhere. */
TEST(test_turns_without_reduction)
{
    const double pi = 3.14159265358979323846;
    for (float x = 0.0f; x < 1e6f; x = x * 1.37f + 0.25f) {
        assert_true(clt_real_turns_error(BUILTIN_SINPI, x, (float)sin(pi * (double)x)) <= 1.0);
        assert_true(clt_real_turns_error(BUILTIN_COSPI, -x, (float)cos(pi * (double)x)) <= 1.0);
    }
    assert_true(clt_real_turns_error(BUILTIN_SINPI, 1.0f, 1.2246468e-16f) == 0.0);
    assert_true(clt_real_error(1.2246468e-16f, 0.0L) > 1e20);
    assert_true(clt_real_turns_error(BUILTIN_SINPI, 0x1p90f, 0.9f) == 0.0);
    assert_true(clt_real_turns_error(BUILTIN_SINPI, 1.0f, 1e-14f) > 4.0);
    assert_true(clt_real_turns_error(BUILTIN_COSPI, 0.0f, 0.9999999f) > 1.0);
    assert_true(clt_real_turns_error(BUILTIN_SINPI, 0x1p90f, 1.5f) > 4.0);
    assert_true(isinf(clt_real_turns_error(BUILTIN_SINPI, 0x1p90f, NAN)));
    assert_true(isinf(clt_real_turns_error(BUILTIN_SINPI, INFINITY, 0.5f)));
}

TEST(test_zeros)
{
    assert_true(error_of(BUILTIN_FMAX, 0.0f, -0.0f, 0.0f, -0.0f, false) == 0.0); /* either one */
    assert_true(isinf(error_of(BUILTIN_FABS, -0.0f, 0.0f, 0.0f, -0.0f, false)));
    assert_true(isinf(error_of(BUILTIN_SELECT, -0.0f, 1.0f, 1.0f, 0.0f, false)));
    assert_true(error_of(BUILTIN_SELECT, -0.0f, 1.0f, 1.0f, -0.0f, false) == 0.0);
}

/* Values known independently of the code under test. */
TEST(test_exact_values)
{
    assert_true(clt_real_exact(BUILTIN_SINPI, 0.5f, 0, 0) == 1.0L);
    assert_true(clt_real_exact(BUILTIN_SINPI, 8388607.0f, 0, 0) == 0.0L);
    assert_true(clt_real_exact(BUILTIN_SINPI, -1.5f, 0, 0) == 1.0L);
    assert_true(clt_real_exact(BUILTIN_COSPI, 0.5f, 0, 0) == 0.0L);
    assert_true(clt_real_exact(BUILTIN_COSPI, 1.0f, 0, 0) == -1.0L);
    assert_true(clt_real_exact(BUILTIN_COSPI, -1.5f, 0, 0) == 0.0L);
    assert_true(clt_real_exact(BUILTIN_COSPI, 0x1p+30f, 0, 0) == 1.0L);
    assert_true(fabsl(clt_real_exact(BUILTIN_SINPI, 0.16666667f, 0, 0) - 0.5L) < 1e-7L);
    assert_true(fabsl(clt_real_exact(BUILTIN_COSPI, 1.3333334f, 0, 0) + 0.5L) < 1e-6L);
    assert_true(clt_real_exact(BUILTIN_EXP2, 10.0f, 0, 0) == 1024.0L);
    assert_true(clt_real_exact(BUILTIN_LOG2, 0x1p-149f, 0, 0) == -149.0L);
    assert_true(clt_real_exact(BUILTIN_FMA, 0x1.000002p+0f, 0x1.000002p+0f, -0x1.000004p+0f) == 0x1p-46L);
    assert_true(clt_real_exact(BUILTIN_FMIN, NAN, 2.0f, 0) == 2.0L);
    assert_true(clt_real_exact(BUILTIN_FMAX, 2.0f, NAN, 0) == 2.0L);
    assert_true(clt_real_exact(BUILTIN_CLAMP, -9.0f, 2.0f, 0) == -2.0L);
}

/* Counts of what a set of samples contains. */
typedef struct seen {
    bool half[65536];
    uint32_t subnormal, infinite, nan, signalling, cancelling;
} seen;

static void look(const clt_real_samples *s, seen *out)
{
    for (uint32_t i = 0; i < s->count; i++) {
        float a = s->x[i], b = s->x[s->count + i], c = s->x[2 * s->count + i];
        uint32_t bits;
        memcpy(&bits, &a, sizeof bits);
        if (clt_f16_to_f32(clt_f32_to_f16(a)) == a || isnan(a))
            out->half[clt_f32_to_f16(a)] = true;
        out->subnormal += a != 0.0f && fabsf(a) < FLT_MIN;
        out->infinite += isinf(a) != 0;
        out->nan += isnan(a);
        out->signalling += isnan(a) && !(bits & 0x00400000u);
        out->cancelling += isfinite(c) && c != 0.0f && fabsf(fmaf(a, b, c)) < fabsf(c) * 0x1p-20f;
    }
}

TEST(test_samples)
{
    static seen one, three;
    CLT_FREED float *first = NULL, *second = NULL;
    clt_real_samples s;
    assert_ok(clt_real_samples_make(7, 1, false, &s));
    first = s.x;
    look(&s, &one);
    assert_int_equal(s.count % 16, 0);
    for (uint32_t h = 0; h < 65536; h++)
        if ((h & 0x7fffu) <= 0x7c00u)
            assert_true(one.half[h]);
    assert_true(one.subnormal > 50 && one.infinite >= 2 && one.nan > 50);
    assert_int_equal(one.signalling, 0);
    assert_ok(clt_real_samples_make(7, 3, false, &s));
    second = s.x;
    look(&s, &three);
    assert_true(three.cancelling > 10000);
}
