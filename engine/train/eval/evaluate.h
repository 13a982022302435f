/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluating a model on data, without training it. */
#ifndef ENGINE_TRAIN_EVAL_EVALUATE_H
#define ENGINE_TRAIN_EVAL_EVALUATE_H

#include "engine/train/job/run_options.h"

/* Evaluates the parameters of options->init or else options->saved; CLT_EUSAGE if there are neither. */
clt_status clt_evaluate(const clt_run_options *options, clt_eval_metrics *result);
/* Perplexity and bits per byte from `nats`, the loss summed over `targets` tokens that represent `bytes`
 * bytes of text (0: unknown); NAN if a figure cannot be computed. */
void clt_eval_language(double nats, double targets, double bytes, clt_eval_metrics *metrics);

#endif
