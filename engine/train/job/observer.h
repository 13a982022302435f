/* SPDX-License-Identifier: Apache-2.0
 *
 * The observer: receives everything that a run reports. Nothing in the engine prints. */
#ifndef ENGINE_TRAIN_JOB_OBSERVER_H
#define ENGINE_TRAIN_JOB_OBSERVER_H

#include "engine/report/write/metrics.h"

/* A row of the start-up table. */
typedef struct clt_table_row {
    char label[32];
    char value[400];
    bool technical; /* shown in the log only; most users do not need it on the screen */
} clt_table_row;

/* Any member may be NULL. Called on rank 0 only (message: on every rank). */
typedef struct clt_observer {
    void *context;
    /* Called on every rank when the start is almost over, before the run folder is created: from now on the
     * trainer handles a request to stop. */
    void (*ready)(void *context);
    void (*start)(void *context, const clt_table_row *rows, int count);
    /* Work that may take long is in progress: `done` of `total` units (0: unknown). `what` names it, for
     * instance "building kernels" or "building kernels: gemm"; the part after ": " is the unit that comes
     * next. The work ends with done == total, with total < 0, or with any other call of the observer. */
    void (*progress)(void *context, const char *what, int64_t done, int64_t total);
    void (*step)(void *context, const clt_step_metrics *metrics);
    void (*eval)(void *context, const clt_eval_metrics *metrics);
    void (*saved)(void *context, int64_t step, const char *path, double seconds);
    void (*message)(void *context, const char *line);
} clt_observer;
/* Calls `progress`, if it is set. */
static inline void clt_progress(const clt_observer *observer, const char *what, int64_t done, int64_t total)
{
    if (observer->progress)
        observer->progress(observer->context, what, done, total);
}

#endif
