/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps the times of checks of mode perf, and judges them. Knows no device. */
#include "cli/verify/verify_speed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"

#define NOTICED 1.05      /* a ratio of times up to this is not judged as slower */
#define PROMISED 1.10     /* a time that grows by this ratio must be noticed, else the judgement is unsure */
#define SIGNIFICANT 5.0   /* a change must exceed this multiple of the noise */
#define CONTRADICTS 2.0   /* a way contradicts if it is this many times its noise below NOTICED */
#define LEAST_NOISE 0.005 /* least noise of the times of one process */
enum { WAYS = 3 };

static verify_speed *find(verify_speed *speeds, int count, const char *what)
{
    for (int i = 0; i < count; i++)
        if (strcmp(speeds[i].what, what) == 0)
            return &speeds[i];
    return NULL;
}

clt_status verify_speeds_add(verify_speed **speeds, int *count, const clt_verify_speed *measured, int n)
{
    if (n == 0)
        return CLT_OK;
    verify_speed *grown = realloc(*speeds, (size_t)(*count + n) * sizeof **speeds);
    if (!grown)
        CLT_FAIL(CLT_ENOMEM, "keeping the times of checks: out of host memory");
    *speeds = grown;
    for (int i = 0; i < n; i++) {
        verify_speed *s = find(*speeds, *count, measured[i].what);
        if (!s) {
            s = &(*speeds)[(*count)++];
            memset(s, 0, sizeof *s);
            snprintf(s->what, sizeof s->what, "%s", measured[i].what);
        }
        if (s->n == VERIFY_MOST_PROCESSES)
            continue;
        s->ns[s->n] = measured[i].ns;
        s->bytes[s->n] = measured[i].bytes;
        s->flops[s->n++] = measured[i].flops;
    }
    return CLT_OK;
}

/* --- JSON --- */

static const char *const members[WAYS] = {"ns", "bytes", "flops"};

static double *way(verify_speed *s, int w)
{
    return w == 0 ? s->ns : w == 1 ? s->bytes : s->flops;
}

void verify_speeds_json(clt_json_writer *w, const verify_speed *speeds, int count)
{
    clt_jw_karray(w, "speeds");
    for (int i = 0; i < count; i++) {
        verify_speed s = speeds[i];
        clt_jw_object(w);
        clt_jw_kstring(w, "what", s.what);
        for (int m = 0; m < WAYS; m++) {
            clt_jw_karray(w, members[m]);
            for (int p = 0; p < s.n; p++)
                clt_jw_double(w, way(&s, m)[p]);
            clt_jw_end_array(w);
        }
        clt_jw_end_object(w);
    }
    clt_jw_end_array(w);
}

static bool read_numbers(const clt_json *array, double *out, int *n)
{
    *n = 0;
    if (clt_json_typeof(array) != CLT_JSON_ARRAY)
        return false;
    for (const clt_json *v = clt_json_first(array); v; v = clt_json_next(v)) {
        if (*n == VERIFY_MOST_PROCESSES || clt_json_typeof(v) != CLT_JSON_NUMBER || clt_json_number(v) < 0.0)
            return false;
        out[(*n)++] = clt_json_number(v);
    }
    return *n > 0;
}

static bool read_speed(const clt_json *value, verify_speed *s)
{
    const clt_json *what = clt_json_get(value, "what");
    if (clt_json_typeof(what) != CLT_JSON_STRING)
        return false;
    snprintf(s->what, sizeof s->what, "%s", clt_json_string(what));
    for (int m = 0; m < WAYS; m++) {
        int n;
        if (!read_numbers(clt_json_get(value, members[m]), way(s, m), &n) || (m > 0 && n != s->n))
            return false;
        s->n = n;
    }
    return true;
}

bool verify_speeds_read(const clt_json *value, verify_speed **speeds, int *count)
{
    *speeds = NULL;
    *count = 0;
    if (!value)
        return true;
    if (clt_json_typeof(value) != CLT_JSON_ARRAY || clt_json_count(value) > CLT_VERIFY_SPEEDS ||
        clt_alloc(speeds, CLT_VERIFY_SPEEDS, sizeof **speeds, "times of checks") != CLT_OK)
        return false;
    for (const clt_json *v = clt_json_first(value); v; v = clt_json_next(v))
        if (!read_speed(v, &(*speeds)[(*count)++])) {
            free(*speeds);
            *speeds = NULL;
            *count = 0;
            return false;
        }
    return true;
}

/* --- the rule --- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median_of(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, by_value);
    return 0.5 * (values[(n - 1) / 2] + values[n / 2]);
}

/* Computes the median of the logarithms of n > 0 values, and estimates their standard deviation from the
 * median distance to it, as for normal numbers: a single disturbed process hardly changes this estimate. */
static void look_at(const double *values, int n, double *median, double *deviation)
{
    double logs[VERIFY_MOST_PROCESSES];
    for (int i = 0; i < n; i++)
        logs[i] = log(values[i] > 1e-9 ? values[i] : 1e-9);
    *median = median_of(logs, n);
    for (int i = 0; i < n; i++)
        logs[i] = fabs(logs[i] - *median);
    *deviation = n > 2 ? 1.4826 * n / (n - 0.8) * median_of(logs, n) : INFINITY;
}

/* Computes the logarithm of the ratio of the medians, and its standard error. A median of normal numbers
 * varies 1.2533 times as much as their mean. */
static void compare_way(const verify_speed *then, const verify_speed *now, int w, double *change,
                        double *noise)
{
    double median[2], deviation[2];
    look_at(way((verify_speed *)then, w), then->n, &median[0], &deviation[0]);
    look_at(way((verify_speed *)now, w), now->n, &median[1], &deviation[1]);
    *change = median[1] - median[0];
    *noise =
        1.2533 * fmax(fmax(deviation[0], deviation[1]), LEAST_NOISE) * sqrt(1.0 / then->n + 1.0 / now->n);
}

/* True if way `best` shows a change in the direction `sign` (1: slower) and no other way contradicts it. */
static bool is_change(const double change[WAYS], const double noise[WAYS], int best, int sign,
                      double significant)
{
    for (int w = 0; w < WAYS; w++)
        if (sign * change[w] < log(NOTICED) - CONTRADICTS * noise[w])
            return false;
    return sign * change[best] > fmax(log(NOTICED), significant * noise[best]);
}

/* Compares all ways, and returns the one with the least noise. */
static int compare_ways(const verify_speed *then, const verify_speed *now, double change[WAYS],
                        double noise[WAYS])
{
    int best = 0;
    for (int w = 0; w < WAYS; w++) {
        compare_way(then, now, w, &change[w], &noise[w]);
        if (noise[w] < noise[best])
            best = w;
    }
    return best;
}

/* The factor by which the noise changes if VERIFY_MOST_PROCESSES processes measure, as for checks that seem
 * to be slower. */
static double gain_of_more(int then, int now)
{
    return sqrt((1.0 / then + 1.0 / VERIFY_MOST_PROCESSES) / (1.0 / then + 1.0 / now));
}

verify_pace verify_pace_of(const verify_speed *then, const verify_speed *now)
{
    double change[WAYS], noise[WAYS];
    int best = compare_ways(then, now, change, noise);
    verify_pace pace = {VERIFY_PACE_SAME, exp(change[best]), noise[best]};
    if (is_change(change, noise, best, 1, SIGNIFICANT))
        pace.kind = VERIFY_PACE_SLOWER;
    else if (is_change(change, noise, best, -1, SIGNIFICANT))
        pace.kind = VERIFY_PACE_FASTER;
    else if (!(SIGNIFICANT * noise[best] * gain_of_more(then->n, now->n) <= log(PROMISED)))
        pace.kind = VERIFY_PACE_UNSURE;
    return pace;
}

bool verify_seems_slower(const verify_speed *then, int n_then, const verify_speed *now, int n_now)
{
    for (int i = 0; i < n_now; i++) {
        double change[WAYS], noise[WAYS];
        const verify_speed *old = find((verify_speed *)then, n_then, now[i].what);
        int best = old ? compare_ways(old, &now[i], change, noise) : 0;
        if (old && is_change(change, noise, best, 1, 0.0))
            return true;
    }
    return false;
}

const verify_speed *verify_slowest(const verify_speed *then, int n_then, const verify_speed *now, int n_now,
                                   verify_pace *slowest, int *unsure)
{
    const verify_speed *found = NULL;
    for (int i = 0; i < n_now; i++) {
        const verify_speed *old = find((verify_speed *)then, n_then, now[i].what);
        verify_pace pace = {VERIFY_PACE_SAME, 1.0, 0.0};
        if (old)
            pace = verify_pace_of(old, &now[i]);
        *unsure += pace.kind == VERIFY_PACE_UNSURE;
        if (pace.kind == VERIFY_PACE_SLOWER && (!found || pace.ratio > slowest->ratio)) {
            found = &now[i];
            *slowest = pace;
        }
    }
    return found;
}

bool verify_has_faster(const verify_speed *then, int n_then, const verify_speed *now, int n_now)
{
    for (int i = 0; i < n_now; i++) {
        const verify_speed *old = find((verify_speed *)then, n_then, now[i].what);
        if (old && verify_pace_of(old, &now[i]).kind == VERIFY_PACE_FASTER)
            return true;
    }
    return false;
}
