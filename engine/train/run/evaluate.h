/* SPDX-License-Identifier: Apache-2.0
 *
 * The evaluation of a model on data, without training it. */
#ifndef ENGINE_TRAIN_EVALUATE_H
#define ENGINE_TRAIN_EVALUATE_H

#include "engine/train/run/run_options.h"

clt_status clt_evaluate(const clt_run_options *options, clt_eval_metrics *result);
/* Perplexity and bits per byte of `nats` summed over `targets` tokens that stand for `bytes` bytes of text
 * (0: unknown); NAN where there is none. */
void clt_eval_language(double nats, double targets, double bytes, clt_eval_metrics *metrics);

#endif
