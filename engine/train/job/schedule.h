/* SPDX-License-Identifier: Apache-2.0
 *
 * Learning-rate schedules as pure functions of the update number. */
#ifndef ENGINE_TRAIN_JOB_SCHEDULE_H
#define ENGINE_TRAIN_JOB_SCHEDULE_H

#include <stdint.h>

#include "engine/base/status.h"
#include "engine/config/choices.h"

typedef struct clt_schedule {
    clt_schedule_type type;
    double peak, min;    /* learning rates */
    int64_t warmup;      /* updates: lr = peak * (u+1)/warmup for u < warmup */
    int64_t horizon;     /* number of updates in the whole run */
    int64_t every;       /* STEP: updates between two changes of the rate */
    double factor;       /* STEP: the rate is multiplied by it at each change */
    double power;        /* POLY: exponent of the decay */
    int64_t decay_steps; /* WSD: updates in the final decay; 0: a fifth of the horizon */
} clt_schedule;

/* Sets the horizon to the steps of the run. Warm-up and final decay that are longer are shortened to a tenth
 * of the steps, at least 1, so that the rate reaches its peak. */
void clt_schedule_span(clt_schedule *schedule, int64_t steps);
/* Learning rate of update u (from 0). After the horizon it stays at the last value. */
double clt_schedule_rate(const clt_schedule *schedule, int64_t u);

#endif
