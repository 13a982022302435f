/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the losses of two runs part: the first step at which they are not the very same numbers, and the step
 * from which on they are further apart than their own noise. */
#ifndef ENGINE_REPORT_COMPARE_H
#define ENGINE_REPORT_COMPARE_H

#include "engine/report/run_record.h"

typedef struct clt_parting {
    int64_t common;          /* steps that both runs have; 0: there is nothing to compare */
    int64_t last_common;     /* the last of them, -1 without */
    int64_t first_different; /* first common step whose losses differ at all; -1: none */
    int64_t apart_from;  /* from here on, to the last common step, they stay apart; -1: they end together */
    int64_t apart_once;  /* first step from which they were apart for a while; -1: never */
    double end_a, end_b; /* mean losses over the last part of the common steps */
} clt_parting;

#define CLT_COMPARE_TOLERANCE 0.01

/* Compares the losses of training steps, read once from each file. Apart means, over a stretch of steps (a
 * hundredth of the run), that the mean losses differ by more than `tolerance` of the greater one and by more
 * than three times what the scatter of the steps explains. CLT_EDATA: a file cannot be read. */
clt_status clt_compare_losses(const clt_run_record *a, const clt_run_record *b, double tolerance,
                              clt_parting *out);

/* --- what a comparison tells of each run --- */

typedef struct clt_run_facts {
    int64_t steps;          /* -1: none */
    double loss, mean_loss; /* of the last step; mean over the last fiftieth of the run */
    double eval_loss, best_eval_loss;
    int64_t best_eval_step; /* -1 without evaluation */
    double perplexity;      /* of the best evaluation loss; NAN where losses are no log-likelihoods */
    double accuracy;        /* best of the evaluations, else of the last training steps */
    double tokens_per_s, samples_per_s, device_busy, device_bytes, seconds, parameters;
} clt_run_facts;
/* NAN for whatever is unknown. */
clt_run_facts clt_run_facts_of(const clt_run_record *record);

/* A key of the config, or of the environment (device, driver, precision, host, ranks, version), with
 * different values in two runs; NULL: the run has no such key. */
typedef struct clt_difference {
    char *key, *a, *b;
    bool environment;
} clt_difference;
typedef struct clt_differences {
    clt_difference *items;
    size_t count, capacity;
} clt_differences;
clt_status clt_run_differences(const clt_run_record *a, const clt_run_record *b, clt_differences *out);
void clt_run_differences_free(clt_differences *list);

#endif
