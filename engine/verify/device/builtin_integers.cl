/* SPDX-License-Identifier: Apache-2.0
 *
 * Built-in functions and operators on integers, and conversions between types, one at a time, for the
 * checker. The function is an argument, so that one program serves all of them.
 *
 *   -DWIDTH=1: words of 64 bits; 4 and 16: vectors with words of 32 bits
 *   -DSHUFFLES=1: with the shuffles of vectors */
#include "common.clh"
#include "builtins_shared.clh"

#pragma option WIDTH 1
#pragma option SHUFFLES 1 /* 0: the driver's shuffles are unreliable */

#if WIDTH == 1

typedef ulong words;
#define LOADS(p) (p)[0]
#define STORES(v, p) (p)[0] = (v)

static inline ulong products(uint which, ulong a, ulong b)
{
    switch (which) {
    case BUILTIN_MUL_HI_UINT:
        return mul_hi((uint)a, (uint)b);
    case BUILTIN_MUL_HI_ULONG:
        return mul_hi(a, b);
    case BUILTIN_MULTIPLY_UINT:
        return (ulong)((uint)a * (uint)b);
    case BUILTIN_MULTIPLY_WIDE:
        return (ulong)(uint)a * (uint)b;
    case BUILTIN_DIVIDE_UINT:
        return (uint)a / (uint)b;
    case BUILTIN_MODULO_UINT:
        return (uint)a % (uint)b;
    case BUILTIN_DIVIDE_INT:
        return (ulong)((int)a / (int)b);
    case BUILTIN_MODULO_INT:
        return (ulong)((int)a % (int)b);
    case BUILTIN_DIVIDE_ULONG:
        return a / b;
    case BUILTIN_MODULO_ULONG:
        return a % b;
    default:
        return a * b;
    }
}

static inline ulong shifts(uint which, ulong a, ulong b)
{
    switch (which) {
    case BUILTIN_SHIFT_LEFT_UINT:
        return (uint)a << (uint)b;
    case BUILTIN_SHIFT_RIGHT_UINT:
        return (uint)a >> (uint)b;
    case BUILTIN_SHIFT_RIGHT_INT:
        return (ulong)((int)a >> (uint)b);
    case BUILTIN_SHIFT_LEFT_ULONG:
        return a << b;
    default:
        return a >> b;
    }
}

static inline ulong orders(uint which, ulong a, ulong b, ulong c)
{
    switch (which) {
    case BUILTIN_LESS_INT:
        return (int)a < (int)b;
    case BUILTIN_LESS_ULONG:
        return a < b;
    case BUILTIN_LESS_LONG:
        return (long)a < (long)b;
    case BUILTIN_MIN_UINT:
        return min((uint)a, (uint)b);
    case BUILTIN_MAX_UINT:
        return max((uint)a, (uint)b);
    case BUILTIN_MIN_INT:
        return (ulong)min((int)a, (int)b);
    case BUILTIN_MAX_INT:
        return (ulong)max((int)a, (int)b);
    case BUILTIN_MIN_ULONG:
        return min(a, b);
    case BUILTIN_CLAMP_INT:
        return (ulong)clamp((int)a, (int)b, (int)c);
    case BUILTIN_CLAMP_ULONG:
        return clamp(a, b, c);
    case BUILTIN_CLAMP_LONG:
        return (ulong)clamp((long)a, (long)b, (long)c);
    default:
        return select((uint)a, (uint)b, (uint)c);
    }
}

static inline ulong conversions(uint which, ulong a)
{
    switch (which) {
    case BUILTIN_UINT_TO_FLOAT:
        return as_uint((float)(uint)a);
    case BUILTIN_INT_TO_FLOAT:
        return as_uint((float)(int)a);
    case BUILTIN_ULONG_TO_FLOAT:
        return as_uint((float)a);
    case BUILTIN_LONG_TO_FLOAT:
        return as_uint((float)(long)a);
    case BUILTIN_FLOAT_TO_UINT:
        return (uint)as_float((uint)a);
    case BUILTIN_FLOAT_TO_INT:
        return (ulong)(int)as_float((uint)a);
    default:
        return (ushort)a;
    }
}

static inline ulong function(uint which, ulong a, ulong b, ulong c)
{
    if (which <= BUILTIN_MODULO_ULONG)
        return products(which, a, b);
    if (which <= BUILTIN_SHIFT_RIGHT_ULONG)
        return shifts(which, a, b);
    if (which <= BUILTIN_CLAMP_LONG || which == BUILTIN_SELECT_UINT)
        return orders(which, a, b, c);
    return conversions(which, a);
}

#else

#define BY_WIDTH(name) CLT_CAT(name, WIDTH)
typedef BY_WIDTH(uint) words;
typedef BY_WIDTH(int) integers;
#define LOADS(p) BY_WIDTH(vload)(0, p)
#define STORES(v, p) BY_WIDTH(vstore)(v, 0, p)
#define AS_INTEGERS BY_WIDTH(as_int)
#define AS_WORDS BY_WIDTH(as_uint)
#define TO_REALS BY_WIDTH(convert_float)
#define TO_SHORTS BY_WIDTH(convert_ushort)
#define TO_BYTES BY_WIDTH(convert_uchar)
#define TO_WORDS BY_WIDTH(convert_uint)

static inline words any_width(uint which, words a, words b, words c)
{
    switch (which) {
    case BUILTIN_MUL_HI_UINT:
        return mul_hi(a, b);
    case BUILTIN_MULTIPLY_UINT:
        return a * b;
    case BUILTIN_SHIFT_LEFT_UINT:
        return a << b;
    case BUILTIN_SHIFT_RIGHT_UINT:
        return a >> b;
    case BUILTIN_SHIFT_RIGHT_INT:
        return AS_WORDS(AS_INTEGERS(a) >> AS_INTEGERS(b));
    case BUILTIN_UINT_TO_FLOAT:
        return AS_WORDS(TO_REALS(a));
    case BUILTIN_INT_TO_FLOAT:
        return AS_WORDS(TO_REALS(AS_INTEGERS(a)));
    case BUILTIN_USHORT_TO_FLOAT:
        return AS_WORDS(TO_REALS(TO_SHORTS(a)));
    case BUILTIN_UCHAR_TO_FLOAT:
        return AS_WORDS(TO_REALS(TO_BYTES(a)));
    case BUILTIN_USHORT_TO_UINT:
        return TO_WORDS(TO_SHORTS(a)) << 1;
    case BUILTIN_UINT_TO_USHORT:
        return TO_WORDS(TO_SHORTS(a));
    default:
        return select(a, b, AS_INTEGERS(c));
    }
}

#if WIDTH == 16
/* The indices that shuffles use: all words in reverse order; alternating pairs of words of a and of b. */
#define REVERSED (uint16)(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define PAIRS (ulong8)(0, 8, 2, 10, 5, 13, 7, 15)

static inline uint16 some_width(uint which, uint16 a, uint16 b, uint16 c)
{
    switch (which) {
    case BUILTIN_MULTIPLY_WIDE: /* as Philox does */
        return convert_uint16((convert_ulong16(a) * convert_ulong16(b)) >> 32);
    case BUILTIN_USHORT_TO_INT:
        return as_uint16(convert_int16(convert_ushort16(a)) - 32768);
    case BUILTIN_UINT_TO_UCHAR:
        return convert_uint16(convert_uchar16(as_int16(a)));
    case BUILTIN_ULONG_TO_INT:
        return as_uint16(convert_int16(convert_ulong16(a) << 1));
    case BUILTIN_ANY:
        return (uint16)(any(as_int16(a & b)) ? 1u : 0u);
#if SHUFFLES
    case BUILTIN_SHUFFLE:
        return shuffle(a, REVERSED);
    case BUILTIN_SHUFFLE2:
        return as_uint16(shuffle2(as_ulong8(a), as_ulong8(b), PAIRS));
#endif
    default:
        return any_width(which, a, b, c);
    }
}
#define function some_width
#else
#define function any_width
#endif
#endif

/* y (n,WIDTH) = the function number `which` of x, three planes of (n,WIDTH). */
#if WIDTH == 1
#define WORD ulong
#else
#define WORD uint
#endif
__kernel void builtin_integers(__global WORD *y, ulong y0, __global const WORD *x, ulong x0, uint n,
                               uint which)
{
    size_t i = get_global_id(0), plane = (size_t)n * WIDTH;
    if (i >= n)
        return;
    x += x0 + WIDTH * i;
    words value = function(which, LOADS(x), LOADS(x + plane), LOADS(x + 2 * plane));
    STORES(value, y + y0 + WIDTH * i);
}
