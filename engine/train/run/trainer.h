/* SPDX-License-Identifier: Apache-2.0
 *
 * A training, from options to result. */
#ifndef ENGINE_TRAIN_TRAINER_H
#define ENGINE_TRAIN_TRAINER_H

#include "engine/train/run/run_options.h"

typedef struct clt_run_result {
    int64_t steps, updates, skipped;
    double last_loss, best_eval_loss;
    clt_eval_metrics final_eval; /* samples == 0: there was none */
    double seconds, build_seconds;
    uint64_t device_bytes, parameters;
    char checkpoint[1024]; /* last saved folder, "" if none */
} clt_run_result;

clt_status clt_train(const clt_run_options *options, clt_run_result *result);

#endif
