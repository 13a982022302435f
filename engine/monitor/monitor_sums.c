/* SPDX-License-Identifier: Apache-2.0
 *
 * Arithmetic on samples: means, smallest and largest values, energy. Knows no clock and no device. */
#include <math.h>
#include <string.h>

#include "engine/monitor/monitor_source.h"

static const clt_monitor_fold folds[CLT_MONITOR_COUNT] = {
#define FOLD(name, key, tag, exported, fold, parts, help) CLT_MONITOR_##fold,
    CLT_MONITOR_MAP(FOLD)
#undef FOLD
};

void clt_monitor_sample_clear(clt_monitor_sample *s, double now)
{
    memset(s, 0, sizeof *s);
    s->at = now;
    s->energy = NAN;
    for (int i = 0; i < CLT_MONITOR_COUNT; i++)
        s->value[i] = NAN;
}

static void add(clt_monitor_span *span, double value)
{
    if (!isfinite(value))
        return;
    span->samples++;
    if (span->samples == 1)
        *span = (clt_monitor_span){1, value, value, value, value};
    span->mean += (value - span->mean) / (double)span->samples;
    span->least = fmin(span->least, value);
    span->most = fmax(span->most, value);
    span->last = value;
}

void clt_monitor_add(clt_monitor_sums *sums, clt_monitor_sample *s)
{
    double *power = &s->value[CLT_MONITOR_POWER], seconds = s->at - sums->at;
    double more = s->energy - sums->counter; /* NAN unless both are known */
    if (sums->any && seconds > 0) {
        if (isnan(*power) && more >= 0)
            *power = more / seconds;
        if (more >= 0) /* else the driver was reloaded and counts from 0: energy unknown */
            sums->energy += more;
        else if (isnan(s->energy) && !isnan(*power) && !isnan(sums->power))
            sums->energy += (*power + sums->power) / 2 * seconds;
    }
    if (!isnan(s->energy) || !isnan(*power))
        s->value[CLT_MONITOR_ENERGY] = sums->energy;
    sums->at = s->at;
    sums->counter = s->energy;
    sums->power = *power;
    sums->any = true;
    for (int i = 0; i < CLT_MONITOR_COUNT; i++) {
        add(&sums->since[i], s->value[i]);
        add(&sums->all[i], s->value[i]);
    }
}

void clt_monitor_fold_since(clt_monitor_sums *sums, double value[CLT_MONITOR_COUNT])
{
    for (int i = 0; i < CLT_MONITOR_COUNT; i++) {
        const clt_monitor_span *span = &sums->since[i];
        value[i] = span->samples == 0             ? NAN
                   : folds[i] == CLT_MONITOR_MEAN ? span->mean
                   : folds[i] == CLT_MONITOR_MOST ? span->most
                                                  : span->last;
    }
    memset(sums->since, 0, sizeof sums->since);
}
