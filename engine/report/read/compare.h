/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds where the losses of two runs diverge: the first step at which they are not bitwise equal, and the
 * step from which on they differ by more than their own noise. */
#ifndef ENGINE_REPORT_READ_COMPARE_H
#define ENGINE_REPORT_READ_COMPARE_H

#include "engine/report/read/run_record.h"

typedef struct clt_divergence {
    int64_t common;          /* number of steps that both runs have; 0: they cannot be compared */
    int64_t last_common;     /* the last of these steps, -1 none */
    int64_t first_different; /* first common step with different losses; -1: none */
    double largest;          /* largest difference of finite losses of a common step, 0: none */
    int64_t largest_step;    /* step of that difference, -1: none */
    /* the losses are apart from this step to the last common step; -1: they agree at the end */
    int64_t apart_from;
    int64_t apart_once;  /* first step of any range in which they were apart; -1: never */
    double end_a, end_b; /* mean losses over the last range of common steps */
} clt_divergence;

/* Calls `each` for every training step that both runs have, in their order; reads each file once. CLT_EDATA:
 * a file cannot be read. */
typedef void (*clt_step_pair)(void *context, const clt_metrics_line *a, const clt_metrics_line *b);
clt_status clt_compare_steps(const clt_run_record *a, const clt_run_record *b, clt_step_pair each,
                             void *context);

#define CLT_COMPARE_TOLERANCE 0.01

/* Compares the losses of training steps. Over a range of steps (a hundredth of the
 * run) losses are apart if their means differ by more than `tolerance` of the greater one and by more than
 * three times what the scatter of the steps explains. CLT_EDATA: a file cannot be read. */
clt_status clt_compare_losses(const clt_run_record *a, const clt_run_record *b, double tolerance,
                              clt_divergence *out);

/* A key of the config or of the environment (device, driver, precision, host, ranks, version) with different
 * values in two runs. A value is NULL if the run does not have the key. */
typedef struct clt_difference {
    char *key, *a, *b;
    bool environment;
} clt_difference;
typedef struct clt_differences {
    clt_difference *items;
    size_t count, capacity;
} clt_differences;
/* After an error, too, the caller frees the list. */
clt_status clt_run_differences(const clt_run_record *a, const clt_run_record *b, clt_differences *out);
void clt_run_differences_free(clt_differences *list);
CLT_SCOPED_VALUE(clt_differences, clt_run_differences_free)

#endif
