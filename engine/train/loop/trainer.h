/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a whole training, from its options to its result; with options->dry_run only plans and checks it.
 * CLT_EINTERRUPTED: it was asked to stop. Collective. */
#ifndef ENGINE_TRAIN_LOOP_TRAINER_H
#define ENGINE_TRAIN_LOOP_TRAINER_H

#include "engine/train/job/run_options.h"

clt_status clt_train(const clt_run_options *options, clt_run_result *result);

#endif
