/* SPDX-License-Identifier: Apache-2.0
 *
 * Exact matches and F1 of the answers that a bert with model.head span finds, counted during an evaluation:
 * the host reads the logits of each micro-batch and keeps the best answer of each record. */
#ifndef ENGINE_TRAIN_EVAL_EVAL_ANSWERS_H
#define ENGINE_TRAIN_EVAL_EVAL_ANSWERS_H

#include "engine/report/write/metrics.h"
#include "engine/train/run/run.h"

/* To be called after the job is opened and before it is planned: if the data are questions with answers in
 * texts, evaluations give these figures, and the plan keeps the prediction. */
clt_status clt_eval_answers_prepare(clt_run *run);
/* begin: before an evaluation. take: after a micro-batch that holds `count` samples from number `first` on.
 * end: joins the answers of all ranks and fills in the metrics. All do nothing in a run without these
 * figures. */
clt_status clt_eval_answers_begin(clt_run *run);
clt_status clt_eval_answers_take(clt_run *run, int64_t first, int64_t count);
clt_status clt_eval_answers_end(clt_run *run, clt_eval_metrics *metrics);
void clt_eval_answers_free(clt_run *run);

#endif
