/* SPDX-License-Identifier: Apache-2.0
 *
 * Figures of a regression's evaluation beside its loss: mean absolute error, root of the mean squared error and R2, in the
 * unit of the data's targets, whatever unit the model computes in. They are summed up on the host, in double, from the
 * predictions of each micro-batch, which are read from the device. */
#ifndef ENGINE_TRAIN_EVAL_REGRESSION_H
#define ENGINE_TRAIN_EVAL_REGRESSION_H

#include "engine/report/write/metrics.h"
#include "engine/train/run/run.h"

/* To be called when the job is open and not planned: decides whether evaluations give these figures, for which the plan
 * must keep the prediction: where the first loss is that of a regression; in a training only for up to 1024 targets a
 * sample. */
clt_status clt_eval_regression_prepare(clt_run *run);
/* Before an evaluation; after each of its micro-batches, of which so many samples count; and at its end, which adds up the
 * sums of all ranks and fills in the metrics. All do nothing in a run without these figures. */
clt_status clt_eval_regression_begin(clt_run *run);
clt_status clt_eval_regression_take(clt_run *run, int64_t valid_samples);
clt_status clt_eval_regression_end(clt_run *run, clt_eval_metrics *metrics);
void clt_eval_regression_free(clt_run *run);

#endif
