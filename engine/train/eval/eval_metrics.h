/* SPDX-License-Identifier: Apache-2.0
 *
 * Metrics of an evaluation beyond its loss, from counts by class (engine/report/write/class_counts.h). The
 * host counts the predictions of each micro-batch, which it reads from the device. Runs that ask for none of
 * these metrics read nothing, unless their labels of words name entities, which are always counted. */
#ifndef ENGINE_TRAIN_EVAL_EVAL_METRICS_H
#define ENGINE_TRAIN_EVAL_EVAL_METRICS_H

#include "engine/report/write/class_counts.h"
#include "engine/train/run/run.h"

/* The tensors of a model's first loss: logits and targets. */
typedef struct clt_class_view {
    int32_t logits, target; /* tensors of the evaluation plan's graph */
    int64_t classes;
    bool spatial, language;
    clt_class_batch batch; /* layout of one micro-batch; its pointers are not set */
} clt_class_view;

/* Fills in `view`. False: the model does not predict classes, and `why` says so. */
bool clt_class_view_of(const clt_config *config, const clt_graph *graph, clt_class_view *view,
                       const char **why);

/* CLT_ECONFIG if the config of a training asks for figures that its model or its data cannot give. */
clt_status clt_eval_classes_check(const clt_job *job);
/* To be called after the job is opened and before it is planned. Calls the check above for a training, and
 * decides whether evaluations count by class; if so, the plan keeps the prediction. */
clt_status clt_eval_classes_prepare(clt_run *run);
/* begin: before an evaluation. take: after each micro-batch, whose first `valid_samples` samples count. end:
 * adds up the counts of all ranks and fills in the metrics, which are NAN in a run that does not count. */
clt_status clt_eval_classes_begin(clt_run *run);
clt_status clt_eval_classes_take(clt_run *run, int64_t valid_samples);
clt_status clt_eval_classes_end(clt_run *run, clt_eval_metrics *metrics);
void clt_eval_classes_free(clt_run *run);
/* The counts of the latest evaluation; NULL: there are none. release: the caller owns them from then on. */
const clt_class_counts *clt_eval_classes(const clt_run *run);
clt_class_counts *clt_eval_classes_release(clt_run *run);

/* clt_eval_figure: the figure that `best` (a clt_best) names, NAN if it is unknown; CLT_BEST_NONE means the
 * loss. clt_eval_better: true if a is better than b by more than delta. A finite number is better than NAN;
 * NAN is never better. */
double clt_eval_figure(const clt_eval_metrics *metrics, int best);
bool clt_eval_better(int best, double a, double b, double delta);
const char *clt_eval_figure_name(int best); /* "loss", "mean Dice" */

#endif
