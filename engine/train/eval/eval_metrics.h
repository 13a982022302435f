/* SPDX-License-Identifier: Apache-2.0
 *
 * Metrics of an evaluation beyond its loss: counts by class (engine/report/write/class_counts.h), made on the host from the
 * predictions of each micro-batch, which are read from the device. Runs that ask for none pay nothing. */
#ifndef ENGINE_TRAIN_EVAL_METRICS_H
#define ENGINE_TRAIN_EVAL_METRICS_H

#include "engine/report/write/class_counts.h"
#include "engine/train/run/run.h"

/* Where the logits of a model and their targets are. They belong to the first loss. */
typedef struct clt_class_view {
    int32_t logits, target; /* tensors of the evaluation plan's graph */
    int64_t classes;
    bool spatial, language;
    clt_class_batch batch; /* one micro-batch: all but the pointers */
} clt_class_view;

/* False: the model does not predict classes, and `why` says so. */
bool clt_class_view_of(const clt_config *config, const clt_graph *graph, clt_class_view *view,
                       const char **why);

/* CLT_ECONFIG: the config of a training asks for figures that its model or its data cannot have. */
clt_status clt_eval_classes_check(const clt_job *job);
/* To be called when the job is open and not planned: checks that, and decides whether evaluations count by class, for which
 * the plan must keep the prediction. */
clt_status clt_eval_classes_prepare(clt_run *run);
/* Before an evaluation; after each of its micro-batches, of which so many samples count; and at its end, which adds up the
 * counts of all ranks and fills in the metrics. All do nothing in a run that does not count. */
clt_status clt_eval_classes_begin(clt_run *run);
clt_status clt_eval_classes_take(clt_run *run, int64_t valid_samples);
clt_status clt_eval_classes_end(clt_run *run, clt_eval_metrics *metrics);
void clt_eval_classes_free(clt_run *run);
/* The counts of the newest evaluation, NULL: there are none. release: the caller frees them. */
const clt_class_counts *clt_eval_classes(const clt_run *run);
clt_class_counts *clt_eval_classes_release(clt_run *run);

/* The figure that checkpoint.best (a clt_best) names, NAN if there is none; NONE counts as LOSS. And whether a is better than
 * b by more than delta: anything is better than NAN, and NAN than nothing. */
double clt_eval_figure(const clt_eval_metrics *metrics, int best);
bool clt_eval_better(int best, double a, double b, double delta);
const char *clt_eval_figure_name(int best); /* "loss", "mean Dice" */

#endif
