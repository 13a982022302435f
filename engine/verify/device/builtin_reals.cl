/* SPDX-License-Identifier: Apache-2.0
 *
 * Built-in functions and operators on f32, one at a time, for the checker. The function is an argument, so
 * that one program serves all of them.
 *
 *   -DWIDTH=1, 4 or 16: numbers of an item; 4 and 16: a vector */
#include "common.clh"
#include "builtins_shared.clh"

#pragma option WIDTH 1

#if WIDTH == 1
typedef float reals;
typedef int truths;
#define LOADS(p) (p)[0]
#define STORES(v, p) (p)[0] = (v)
#else
#define BY_WIDTH(name) CLT_CAT(name, WIDTH)
typedef BY_WIDTH(float) reals;
typedef BY_WIDTH(int) truths;
#define LOADS(p) BY_WIDTH(vload)(0, p)
#define STORES(v, p) BY_WIDTH(vstore)(v, 0, p)
#endif
/* A comparison as a number. */
#define TRUTH(relation) select((reals)(0.0f), (reals)(1.0f), relation)

/* The functions that kernels use with this width. */
static inline reals any_width(uint which, reals a, reals b, reals c)
{
    switch (which) {
    case BUILTIN_SQRT:
        return sqrt(a);
    case BUILTIN_DIVIDE:
        return a / b;
    case BUILTIN_ADD:
        return a + b;
    case BUILTIN_SUBTRACT:
        return a - b;
    case BUILTIN_MULTIPLY:
        return a * b;
    case BUILTIN_FMA:
        return fma(a, b, c);
    case BUILTIN_FABS:
        return fabs(a);
    case BUILTIN_FMAX:
        return fmax(a, b);
    default:
        return select(a, b, c < (reals)(0.0f));
    }
}

#if WIDTH == 1
static inline float some_width(uint which, float a, float b, float c)
{
    switch (which) {
    case BUILTIN_EXP:
        return exp(a);
    case BUILTIN_EXP2:
        return exp2(a);
    case BUILTIN_LOG:
        return log(a);
    case BUILTIN_LOG2:
        return log2(a);
    case BUILTIN_SINPI:
        return sinpi(a);
    case BUILTIN_COSPI:
        return cospi(a);
    case BUILTIN_CEIL:
        return ceil(a);
    case BUILTIN_FMIN:
        return fmin(a, b);
    case BUILTIN_CLAMP:
        return clamp(a, -fabs(b), fabs(b));
    case BUILTIN_LESS:
        return a < b ? 1.0f : 0.0f;
    case BUILTIN_ISEQUAL:
        return isequal(a, b) ? 1.0f : 0.0f;
    case BUILTIN_ISFINITE:
        return isfinite(a) ? 1.0f : 0.0f;
    default:
        return any_width(which, a, b, c);
    }
}
#elif WIDTH == 16
static inline reals some_width(uint which, reals a, reals b, reals c)
{
    switch (which) {
    case BUILTIN_SINPI:
        return sinpi(a);
    case BUILTIN_COSPI:
        return cospi(a);
    case BUILTIN_ISEQUAL:
        return TRUTH(isequal(a, b));
    default:
        return any_width(which, a, b, c);
    }
}
#else
#define some_width any_width
#endif

/* y (n,WIDTH) = the function number `which` of x, three planes of (n,WIDTH). */
__kernel void builtin_reals(__global float *y, ulong y0, __global const float *x, ulong x0, uint n,
                            uint which)
{
    size_t i = get_global_id(0), plane = (size_t)n * WIDTH;
    if (i >= n)
        return;
    x += x0 + WIDTH * i;
    reals value = some_width(which, LOADS(x), LOADS(x + plane), LOADS(x + 2 * plane));
    STORES(value, y + y0 + WIDTH * i);
}
