/* SPDX-License-Identifier: Apache-2.0
 *
 * Learning-rate schedules: linear warm-up, then constant, linear, cosine, step, WSD, or the powers of the
 * published recipe for BERT with LAMB, which count from the first update. */
#include "engine/train/job/schedule.h"

#include <math.h>

/* Position of update u between the end of warm-up and the horizon, in [0,1]. */
static double progress(const clt_schedule *s, int64_t u)
{
    int64_t span = s->horizon - s->warmup;
    if (span <= 0)
        return 1.0;
    double p = (double)(u - s->warmup) / (double)span;
    return p > 1.0 ? 1.0 : p;
}

static double wsd_rate(const clt_schedule *s, int64_t u)
{
    int64_t decay = s->decay_steps > 0 ? s->decay_steps : (s->horizon + 4) / 5;
    int64_t start = s->horizon - decay;
    if (u < start)
        return s->peak;
    double p = decay > 0 ? (double)(u - start) / (double)decay : 1.0;
    return s->min + (s->peak - s->min) * (1.0 - sqrt(p > 1.0 ? 1.0 : p));
}

/* The rate of the t-th update, counted from 1; the last one of the horizon has the rate `min`. */
static double poly_rate(const clt_schedule *s, int64_t t)
{
    double left = t < s->horizon ? 1.0 - (double)t / (double)s->horizon : 0.0;
    double rate = s->peak * pow(left, s->power);
    return rate > s->min ? rate : s->min;
}

void clt_schedule_span(clt_schedule *s, int64_t steps)
{
    int64_t tenth = steps < 20 ? 1 : steps / 10, decay = s->type == CLT_SCHEDULE_WSD ? s->decay_steps : 0;
    s->horizon = steps;
    if (s->warmup <= steps && decay <= steps - s->warmup)
        return;
    s->warmup = s->warmup < tenth ? s->warmup : tenth;
    if (decay > 0)
        s->decay_steps = decay < tenth ? decay : tenth;
}

double clt_schedule_rate(const clt_schedule *s, int64_t u)
{
    if (u < s->warmup)
        return s->peak * (double)(u + 1) / (double)s->warmup;
    switch (s->type) {
    case CLT_SCHEDULE_CONSTANT:
        return s->peak;
    case CLT_SCHEDULE_LINEAR:
        return s->peak + (s->min - s->peak) * progress(s, u);
    case CLT_SCHEDULE_COSINE:
        return s->min + 0.5 * (s->peak - s->min) * (1.0 + cos(3.14159265358979323846 * progress(s, u)));
    case CLT_SCHEDULE_STEP: {
        double rate = s->peak * pow(s->factor, (double)((u - s->warmup) / (s->every > 0 ? s->every : 1)));
        return rate > s->min ? rate : s->min;
    }
    case CLT_SCHEDULE_POLY:
        return poly_rate(s, u + 1);
    case CLT_SCHEDULE_WSD:
        return wsd_rate(s, u);
    }
    return s->peak;
}
