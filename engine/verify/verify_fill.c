/* SPDX-License-Identifier: Apache-2.0
 *
 * Random data of the checker. Every array has its own stream, keyed by seed, case and number of the array,
 * so that a case that runs alone gets the same data as in a full run. Values are representable in the
 * storage type. Knows nothing of ops. */
#include <math.h>
#include <string.h>

#include "engine/base/hash.h"
#include "engine/base/rng.h"
#include "engine/verify/verify_internal.h"

clt_verify_stream clt_verify_stream_make(uint64_t seed, const char *text, uint32_t number)
{
    return (clt_verify_stream){
        .seed = seed, .key = (uint32_t)clt_hash64(text, strlen(text)), .number = number};
}

uint32_t clt_verify_word(const clt_verify_stream *s, uint64_t index)
{
    return clt_rng_u32(s->seed, CLT_RNG_VERIFY, s->number, s->key, index);
}

#define PEAK 120.0 /* exp of this number overflows f32 */

static double below(const clt_verify_stream *stream, size_t i, int64_t limit)
{
    return (double)(((uint64_t)clt_verify_word(stream, i) * (uint64_t)limit) >> 32);
}

static double fill_one(const clt_verify_filler *f, const clt_verify_stream *s, size_t i)
{
    double v;
    uint32_t choice = clt_verify_word(s, i) % 8;
    switch (f->fill) {
    case CLT_FILL_STRAY:
        if (choice < 2)
            return choice == 0 && f->dtype == CLT_I32 ? -1.0 : (double)f->max;
        return below(s, i, f->max);
    case CLT_FILL_INDEX:
        return below(s, i, f->max > 0 ? f->max : 1);
    case CLT_FILL_BINARY:
        return below(s, i, 2);
    case CLT_FILL_RUNS:
        while (i > 0 && below(s, i, f->max) > 0)
            i--;
        return (double)i;
    case CLT_FILL_POSITIVE:
        if (f->integers)
            return 1.0 + below(s, i, 3);
        return 0.1 + fabs(clt_rng_normal(s->seed, CLT_RNG_VERIFY, s->number, s->key, i));
    default:
        break;
    }
    if (f->fill == CLT_FILL_NAN && choice == 0)
        return (double)NAN;
    if (f->fill == CLT_FILL_LOWEST && choice < 4)
        return -(double)INFINITY;
    if (!clt_dtype_is_float(f->dtype))
        return below(s, i, 100);
    if (f->equal)
        return f->integers ? 1.0 : CLT_VERIFY_EQUAL;
    if (f->integers || f->fill == CLT_FILL_WHOLE)
        return below(s, i, 7) - 3.0;
    v = clt_rng_normal(s->seed, CLT_RNG_VERIFY, s->number, s->key, i);
    if (f->fill == CLT_FILL_PEAKS)
        return below(s, i, f->max) < 1.0 ? v + PEAK : v;
    if (f->fill == CLT_FILL_SWEEP)
        return 0.25 * (double)(i % (8 * (size_t)PEAK + 1)) - PEAK;
    return f->fill == CLT_FILL_WIDE ? 8.0 * v : v;
}

void clt_verify_fill(double *out, size_t n, const clt_verify_filler *filler, const clt_verify_stream *stream)
{
    union {
        double d;
        uint64_t u;
    } cell;
    for (size_t i = 0; i < n; i++) {
        double value = fill_one(filler, stream, stream->first + i);
        clt_dtype_store(filler->dtype, &cell, 0, value);
        out[i] = filler->unrounded && clt_dtype_is_float(filler->dtype)
                     ? value
                     : clt_dtype_load(filler->dtype, &cell, 0);
    }
}
