/* SPDX-License-Identifier: Apache-2.0
 *
 * Judges results: limits of errors, percentiles, results that prove nothing because they are zero, bytes
 * that must not change. Works on plain arrays, so that tests can insert faults. Knows nothing of ops or
 * devices. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/hash.h"
#include "engine/verify/verify_internal.h"

#define PERCENTILE_MIN 100 /* from this many elements on, the 99th percentile has a limit, too */
#define TRUST_MIN 16
/* From this many elements on, the mean squared error relative to the mean square of the reference has a
 * limit, too. It detects relative errors of small results (softmax over many columns). */
#define NMSE_MIN 16
#define NMSE_LIMIT 1e-10
/* A result may be the small difference of large terms. Their rounding may add this many units of eps32,
 * relative to the terms, to the error that the limit of the mean squared error allows. */
#define TERM_UNITS 4.0

bool clt_verify_bad(const clt_verify_outcome *outcome)
{
    return outcome->state != CLT_VERIFY_PASS;
}

void clt_verify_set(clt_verify_outcome *outcome, clt_verify_state state, const char *format, ...)
{
    va_list args;
    if (clt_verify_bad(outcome))
        return;
    outcome->state = state;
    va_start(args, format);
    vsnprintf(outcome->reason, sizeof outcome->reason, format, args);
    va_end(args);
}

/* Largest finite |value|. */
static double largest(const double *v, size_t n)
{
    double top = 0.0;
    for (size_t i = 0; i < n; i++)
        if (isfinite(v[i]) && fabs(v[i]) > top)
            top = fabs(v[i]);
    return top;
}

static double square(double v)
{
    return v * v;
}

typedef struct judgement {
    double worst; /* largest error in units of its bound */
    double want;  /* reference value of the element with that error */
    size_t worst_at, loose;
    double error, size; /* sums of squares */
    double left;        /* sum of squares of the errors that the rounding of terms explains */
    double *kept;       /* NULL, or for a reducer: n reference values, n bounds, n roundings */
    size_t n;
} judgement;

static void judgement_end_scope(judgement *j)
{
    free(j->kept);
}

/* Begins a judgement of n values. Their limits are kept if the check has a reducer and there is memory. */
static judgement judgement_of(const clt_verify_outcome *o, size_t n)
{
    return (judgement){.n = n, .kept = o->reducer ? calloc(3 * n + 1, sizeof(double)) : NULL};
}

/* The error of one element in units of its bound, after subtracting what rounding to the storage type
 * explains: 0 is exact, above 1 is wrong. */
static double judge(double got, double want, double bound, double storage)
{
    if (isnan(want))
        return isnan(got) ? 0.0 : (double)INFINITY;
    if (isinf(want))
        return isinf(got) && signbit(got) == signbit(want) ? 0.0 : (double)INFINITY;
    if (!isfinite(got))
        return INFINITY;
    double error = fabs(got - want) - storage;
    if (error <= 0.0)
        return 0.0;
    return bound > 0.0 ? error / bound : (double)INFINITY;
}

static void add_judgement(judgement *j, size_t i, double got, double want, double bound, double storage)
{
    double ratio = judge(got, want, bound, storage);
    if (j->kept) {
        j->kept[i] = want;
        j->kept[j->n + i] = bound;
        j->kept[2 * j->n + i] = storage;
    }
    double error = fmax(0.0, fabs(got - want) - storage);
    if (isfinite(error) && isfinite(want)) {
        j->error += error * error;
        j->size += want * want;
    }
    j->loose += ratio > 0.5;
    if (ratio > j->worst || (i == 0 && ratio == 0.0)) {
        j->worst = ratio;
        j->worst_at = i;
        j->want = want;
    }
}

void clt_verify_add_bits(clt_verify_outcome *o, const void *got, size_t bytes)
{
    const uint64_t both[2] = {o->bits, clt_hash64(got, bytes)};
    o->bits = clt_hash64(both, sizeof both);
}

static void tell(clt_verify_outcome *o, const char *what, const judgement *j, const double *got, double mean)
{
    if (j->kept)
        clt_verify_report_wrong(o, &(clt_verify_wrong){.what = what,
                                                       .n = j->n,
                                                       .at = j->worst_at,
                                                       .got = got,
                                                       .want = j->kept,
                                                       .bound = j->kept + j->n,
                                                       .storage = j->kept + 2 * j->n,
                                                       .together = true,
                                                       .mean_limit = mean,
                                                       .left = j->left});
}

static void judge_all(clt_verify_outcome *o, const char *what, const judgement *j, const double *got,
                      size_t n, double limit, double nmse_limit)
{
    size_t at = j->worst_at;
    clt_verify_add_bits(o, got, n * sizeof *got);
    if (clt_verify_bad(o))
        return;
    /* Reports the worst comparison so far, relative to its own limit. An exact comparison has the limit 0
     * and is always reported. */
    if (o->limit <= 0.0 || (limit > 0.0 && j->worst > o->error / o->limit)) {
        o->error = limit > 0.0 ? j->worst * limit : j->worst;
        o->limit = limit;
    }
    if (!(j->worst <= 1.0)) {
        o->error = limit > 0.0 ? j->worst * limit : fabs(got[at] - j->want);
        o->limit = limit;
        clt_verify_set(o, CLT_VERIFY_FAIL, "%s: element %zu of %zu is %.9g, the reference %.9g%s", what, at,
                       n, got[at], j->want, limit > 0.0 ? "" : "; this case must be exact");
    } else if (n >= PERCENTILE_MIN && j->loose > n / 100) {
        clt_verify_set(
            o, CLT_VERIFY_FAIL,
            "%s: %zu of %zu elements use more than half of the error limit (worst: element %zu, %.9g, "
            "the reference %.9g); 1 in 100 may",
            what, j->loose, n, at, got[at], j->want);
    } else if (n >= NMSE_MIN && j->size > 1e-12 * (double)n && j->error > nmse_limit * j->size + j->left) {
        clt_verify_set(
            o, CLT_VERIFY_FAIL,
            "%s: the mean squared error is %.3g of the reference's mean square; at most %.3g (worst: "
            "element %zu, %.9g, the reference %.9g)",
            what, j->error / j->size, nmse_limit + j->left / j->size, at, got[at], j->want);
    }
    if (clt_verify_bad(o))
        tell(o, what, j, got, nmse_limit);
}

/* Judges and counts a comparison. Clears its source, which is not valid for the next comparison. */
static void conclude(clt_verify_outcome *o, const char *what, const judgement *j, const double *got, size_t n,
                     double limit, double nmse_limit)
{
    judge_all(o, what, j, got, n, limit, nmse_limit);
    o->located = false;
}

void clt_verify_compare_bounds(clt_verify_outcome *outcome, const char *what, const double *got,
                               const double *reference, const double *bound, size_t n, clt_dtype dtype,
                               double relative)
{
    CLT_SCOPED(judgement) j = judgement_of(outcome, n);
    for (size_t i = 0; i < n; i++)
        add_judgement(&j, i, got[i], reference[i], bound[i], clt_dtype_rounding(dtype, reference[i]));
    conclude(outcome, what, &j, got, n, 1.0, NMSE_LIMIT + relative * relative);
}

void clt_verify_compare(clt_verify_outcome *outcome, const char *what, const double *got,
                        const double *reference, size_t n, const clt_verify_rule *rule)
{
    clt_verify_compare_rounded(outcome, what, got, reference, n, rule, 0.0);
}

/* `value` as stored in `dtype`, rounded once. */
static double stored(clt_dtype dtype, double value)
{
    union {
        double d;
        uint64_t u;
    } cell;
    if (dtype != CLT_F16 && dtype != CLT_BF16)
        return value;
    clt_dtype_store(dtype, &cell, 0, value);
    return clt_dtype_load(dtype, &cell, 0);
}

void clt_verify_compare_rounded(clt_verify_outcome *outcome, const char *what, const double *got,
                                const double *reference, size_t n, const clt_verify_rule *rule,
                                double relative)
{
    CLT_SCOPED(judgement) j = judgement_of(outcome, n);
    double tolerance = rule->exact ? 0.0 : rule->tolerance + relative / CLT_VERIFY_EPS;
    double bound = tolerance * CLT_VERIFY_EPS * fmax(1.0, largest(reference, n));
    for (size_t i = 0; i < n; i++) {
        double storage = rule->exact ? 0.0 : clt_dtype_rounding(rule->dtype, reference[i]);
        double want = rule->exact ? stored(rule->dtype, reference[i]) : reference[i];
        add_judgement(&j, i, got[i], want, bound, storage);
        if (rule->terms && isfinite(rule->terms[i]))
            j.left += square(TERM_UNITS * CLT_VERIFY_EPS * rule->terms[i]);
    }
    conclude(outcome, what, &j, got, n, tolerance, NMSE_LIMIT + relative * relative);
}

void clt_verify_trust(clt_verify_outcome *outcome, const char *what, const double *got, size_t n,
                      double share)
{
    size_t nonzero = 0;
    for (size_t i = 0; i < n; i++)
        nonzero += got[i] != 0.0;
    if (n >= TRUST_MIN && (nonzero == 0 || (double)nonzero < share * (double)n))
        clt_verify_set(outcome, CLT_VERIFY_MISTRUST,
                       "%s: only %zu of %zu elements are not zero, which proves too little; the case needs "
                       "better data",
                       what, nonzero, n);
}

bool clt_verify_changed(const uint8_t *before, const uint8_t *after, const uint8_t *writable, size_t n,
                        size_t *where)
{
    for (size_t i = 0; i < n;) {
        size_t end = n - i < 64 ? n : i + 64;
        bool equal = memcmp(before + i, after + i, end - i) == 0;
        for (size_t k = i; !equal && k < end; k++) {
            if (before[k] != after[k] && !(writable && writable[k])) {
                *where = k;
                return true;
            }
        }
        i = end;
    }
    return false;
}
