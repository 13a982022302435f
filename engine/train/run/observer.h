/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run has to say goes through the observer; nothing in the engine prints. */
#ifndef ENGINE_TRAIN_OBSERVER_H
#define ENGINE_TRAIN_OBSERVER_H

#include "engine/report/metrics.h"

/* The start-up table: label and value per row, in order. */
typedef struct clt_table_row {
    char label[32];
    char value[400];
    bool technical; /* for the log; of no use to most people on a screen */
} clt_table_row;

/* Any member may be NULL. Called on rank 0 only (message: on every rank). */
typedef struct clt_observer {
    void *context;
    /* The start is over but for what takes no time, and the run folder is about to be made: from here on a
     * stop is the trainer's to answer. On every rank. */
    void (*ready)(void *context);
    void (*start)(void *context, const clt_table_row *rows, int count);
    /* Something that may last is under way: `done` of `total` (0: nobody knows) of what `what` names, such as
     * "building kernels" or "building kernels: gemm", whose part after ": " is the piece that comes next. It
     * ends with done == total, with total < 0, or when something else is told. */
    void (*progress)(void *context, const char *what, int64_t done, int64_t total);
    void (*step)(void *context, const clt_step_metrics *metrics);
    void (*eval)(void *context, const clt_eval_metrics *metrics);
    void (*saved)(void *context, int64_t step, const char *path, double seconds);
    void (*message)(void *context, const char *line);
} clt_observer;
/* Tells `progress`, if there is one. */
static inline void clt_progress(const clt_observer *observer, const char *what, int64_t done, int64_t total)
{
    if (observer->progress)
        observer->progress(observer->context, what, done, total);
}

#endif
