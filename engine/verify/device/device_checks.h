/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the checks of the device without ops: sizes of vectors, arguments for functions on f32, and
 * errors in ulp. Only this room and its tests include it. */
#ifndef ENGINE_VERIFY_DEVICE_DEVICE_CHECKS_H
#define ENGINE_VERIFY_DEVICE_DEVICE_CHECKS_H

#include "engine/verify/device/builtins_shared.clh"
#include "engine/verify/verify_internal.h"

/* False, with outcome SKIP, if vectors of `width` numbers must not be tested on this device. */
bool clt_device_has_width(const clt_verify_session *session, uint32_t width, clt_verify_outcome *outcome);

/* The arguments of one function: three planes, one after the other, with `count` numbers each (a multiple of
 * 16). */
typedef struct clt_real_samples {
    float *x; /* free() it */
    uint32_t count;
} clt_real_samples;
/* Makes arguments for a function of `arguments` arguments: edges of f32, all numbers of f16, numbers around
 * multiples of 1/4 and around 1, a stride through all bit patterns, and random patterns; with several
 * arguments all pairs of edges, and sums that cancel. dense: millions of patterns. */
clt_status clt_real_samples_make(uint64_t seed, int arguments, bool dense, clt_real_samples *out);

/* The exact value of a function of BUILTIN_REALS, with an error far below an ulp of f32; if its limit is
 * 0.5, the correctly rounded value. */
long double clt_real_exact(int which, float a, float b, float c);
/* The error of `got` in ulp as OpenCL C defines it; INFINITY if only one of the two is NaN or infinite. If
 * `exact` is finite but too large for f32, `got` may be infinite. */
double clt_real_error(float got, long double exact);
/* The error in ulp of a function's result `got`. If the device flushes numbers below 2^-126 to 0, each such
 * argument may count as 0, and so may a result that is such a number before or after rounding. *exact: the
 * exact value for the arguments as they are. */
double clt_real_function_error(int which, const float arguments[3], float got, bool flushes,
                               long double *exact);
/* The error in ulp of sinpi and cospi of a driver that multiplies x by pi in f64 without reducing x before
 * (OCL_QUIRK_PLAIN_TURNS): the rounding error of that product, up to |x| 2^-50, is subtracted. */
double clt_real_turns_error(int which, float x, float got);

#endif
