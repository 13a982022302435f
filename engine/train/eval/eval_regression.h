/* SPDX-License-Identifier: Apache-2.0
 *
 * Figures of a regression beside its loss: mean absolute error, root of the mean squared error, R2, and the
 * correlations of Pearson and Spearman between predictions and targets. The two errors are in the unit of
 * the data's targets even if the model computes in another one. The host computes all figures in double from
 * the predictions of each micro-batch, which it reads from the device. */
#ifndef ENGINE_TRAIN_EVAL_EVAL_REGRESSION_H
#define ENGINE_TRAIN_EVAL_EVAL_REGRESSION_H

#include "engine/report/write/metrics.h"
#include "engine/train/run/run.h"

/* To be called after the job is opened and before it is planned. Decides whether evaluations give these
 * figures: they do if the first loss is a regression's; during training only if a sample has at most 1024
 * targets. The plan then keeps the prediction. */
clt_status clt_eval_regression_prepare(clt_run *run);
/* begin: before an evaluation. take: after each micro-batch, whose first `valid_samples` samples count. end:
 * adds up the sums of all ranks and fills in the metrics. All do nothing in a run without these figures. */
clt_status clt_eval_regression_begin(clt_run *run);
clt_status clt_eval_regression_take(clt_run *run, int64_t valid_samples);
clt_status clt_eval_regression_end(clt_run *run, clt_eval_metrics *metrics);
void clt_eval_regression_free(clt_run *run);

/* Correlations between predictions and targets; if they do not exist, they are NAN and `none` says why;
 * otherwise `none` is NULL. spearman: Pearson's correlation of the ranks, where equal values share the mean
 * of their ranks. */
typedef struct clt_correlation {
    double pearson, spearman;
    const char *none;
} clt_correlation;
/* Computes the correlations of n pairs in double; overwrites both lists. Source: Spearman 1904, and
 * scipy.stats.pearsonr and spearmanr. CLT_ENOMEM. */
clt_status clt_correlations(double *predictions, double *targets, int64_t n, clt_correlation *out);

#endif
