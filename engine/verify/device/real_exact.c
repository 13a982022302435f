/* SPDX-License-Identifier: Apache-2.0
 *
 * Exact values of the built-in functions on f32, and errors in ulp. */
#include <float.h>
#include <math.h>

#include "engine/verify/device/device_checks.h"

/* sin(pi x), or cos(pi x) with `quarter`: the argument is reduced exactly to a quarter of a turn. */
static long double sine_of_turns(double x, bool quarter)
{
    const long double pi = 3.14159265358979323846264338327950288L;
    if (!isfinite(x))
        return NAN;
    double r = fmod(fabs(x), 2.0), sign = x < 0.0 && !quarter ? -1.0 : 1.0;
    if (quarter) /* cos(pi r) = sin(pi (1/2 - r)), and r is symmetric about 1 */
        r = r > 1.0 ? r - 1.5 : 0.5 - r;
    else if (r > 1.0) {
        r -= 1.0;
        sign = -sign;
    }
    if (!quarter && r > 0.5)
        r = 1.0 - r;
    return sign * sinl(pi * (long double)r);
}

static float smaller(float a, float b)
{
    return isnan(a) || b < a ? b : a;
}

static float larger(float a, float b)
{
    return isnan(a) || b > a ? b : a;
}

/* Functions whose result is correctly rounded or equals one of the arguments. */
static float rounded(int which, float a, float b, float c)
{
    switch (which) {
    case BUILTIN_ADD:
        return a + b;
    case BUILTIN_SUBTRACT:
        return a - b;
    case BUILTIN_MULTIPLY:
        return a * b;
    case BUILTIN_FMA:
        return fmaf(a, b, c);
    case BUILTIN_FABS:
        return fabsf(a);
    case BUILTIN_CEIL:
        return ceilf(a);
    case BUILTIN_FMIN:
        return smaller(a, b);
    case BUILTIN_FMAX:
        return larger(a, b);
    case BUILTIN_CLAMP:
        return smaller(larger(a, -fabsf(b)), fabsf(b));
    case BUILTIN_SELECT:
        return c < 0.0f ? b : a;
    case BUILTIN_LESS:
        return a < b;
    case BUILTIN_ISEQUAL:
        return a == b;
    default:
        return isfinite(a) ? 1.0f : 0.0f;
    }
}

long double clt_real_exact(int which, float a, float b, float c)
{
    switch (which) {
    case BUILTIN_EXP:
        return (long double)exp((double)a);
    case BUILTIN_EXP2:
        return (long double)exp2((double)a);
    case BUILTIN_LOG:
        return (long double)log((double)a);
    case BUILTIN_LOG2:
        return (long double)log2((double)a);
    case BUILTIN_SINPI:
        return sine_of_turns((double)a, false);
    case BUILTIN_COSPI:
        return sine_of_turns((double)a, true);
    case BUILTIN_SQRT:
        return (long double)sqrt((double)a);
    case BUILTIN_DIVIDE:
        return (long double)a / (long double)b;
    default:
        return (long double)rounded(which, a, b, c);
    }
}

/* The unit in the last place of the exact value x. At a power of two it is the distance to the smaller
 * neighbour; below 2^-126 the distance of subnormal numbers. */
static long double ulp_of(long double x)
{
    int exponent = 0;
    long double fraction = frexpl(fabsl(x), &exponent); /* |x| = fraction 2^exponent, fraction from 1/2 on */
    exponent -= fraction == 0.5L ? 2 : 1;
    if (x == 0.0L || exponent < FLT_MIN_EXP - 1)
        exponent = FLT_MIN_EXP - 1;
    return ldexpl(1.0L, exponent - (FLT_MANT_DIG - 1));
}

double clt_real_error(float got, long double exact)
{
    const long double beyond = 0x1p128L; /* the first number too large for f32 */
    if (isnan(exact) || isnan(got))
        return isnan(exact) && isnan(got) ? 0.0 : (double)INFINITY;
    long double value = isinf(got) ? (got < 0.0f ? -beyond : beyond) : (long double)got;
    if (fabsl(exact) > beyond) /* too large for f32, whether finite or infinite */
        exact = exact < 0.0L ? -beyond : beyond;
    if (value == exact)
        return 0.0;
    return (double)(fabsl(value - exact) / ulp_of(exact));
}

static bool is_subnormal(float f)
{
    return f != 0.0f && fabsf(f) < FLT_MIN;
}

/* True if the exact result of a multiplication or fma is below 2^-126 before it is rounded to `exact`. A
 * number slightly below 2^-126 rounds to it, and a device may flush before it rounds or after. */
static bool is_tiny_before(int which, float a, float b, float c, long double exact)
{
    if (fabsl(exact) != (long double)FLT_MIN || (which != BUILTIN_MULTIPLY && which != BUILTIN_FMA))
        return false;
    long double product = (long double)a * (long double)b; /* exact: 48 bits */
    long double addend = which == BUILTIN_FMA ? (long double)c : 0.0L;
    long double sum = product + addend, back = sum - product;
    long double lost = (product - (sum - back)) + (addend - back); /* sum + lost is exact */
    if (fabsl(sum) == (long double)FLT_MIN)
        return sum > 0.0L ? lost < 0.0L : lost > 0.0L;
    return fabsl(sum) < (long double)FLT_MIN;
}

/* The error for one choice of arguments. */
static double error_of(int which, float a, float b, float c, float got, bool flushes)
{
    long double exact = clt_real_exact(which, a, b, c);
    if ((which == BUILTIN_FMIN || which == BUILTIN_FMAX) && a == 0.0f && b == 0.0f && got == 0.0f)
        return 0.0; /* either zero */
    if (flushes && got == 0.0f &&
        (fabsl(exact) < (long double)FLT_MIN || is_tiny_before(which, a, b, c, exact)))
        return 0.0;
    if ((which == BUILTIN_FABS || which == BUILTIN_SELECT) && exact == 0.0L && got == 0.0f &&
        (signbit(exact) != 0) != (signbit(got) != 0))
        return (double)INFINITY;
    return clt_real_error(got, exact);
}

double clt_real_function_error(int which, const float x[3], float got, bool flushes, long double *exact)
{
    double least = error_of(which, x[0], x[1], x[2], got, flushes);
    *exact = clt_real_exact(which, x[0], x[1], x[2]);
    if (which == BUILTIN_CLAMP && (isnan(x[0]) || isnan(x[1])))
        return 0.0; /* not defined */
    for (unsigned flushed = 1; flushes && least > 0.0 && flushed < 8; flushed++) {
        float y[3];
        for (unsigned k = 0; k < 3; k++)
            y[k] = (flushed >> k & 1u) && is_subnormal(x[k]) ? copysignf(0.0f, x[k]) : x[k];
        double error = error_of(which, y[0], y[1], y[2], got, flushes);
        least = error < least ? error : least;
    }
    return least;
}

double clt_real_turns_error(int which, float x, float got)
{
    long double exact = clt_real_exact(which, x, 0.0f, 0.0f);
    if (!isfinite(x) || !(fabsf(got) <= 1.0f))
        return clt_real_error(got, exact);
    long double off = fabsl((long double)got - exact) - 0x1p-50L * fabsl((long double)x);
    return off > 0.0L ? (double)(off / ulp_of(exact)) : 0.0;
}
