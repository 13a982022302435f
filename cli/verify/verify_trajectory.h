/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain verify --trajectory: trains five small models for 50 steps, each in f32, f16 and bf16, and compares
 * losses and norms of gradients with recorded ones, step by step. Each training is a check with a name such
 * as "gpt.f16/trajectory", and runs in a child process. */
#ifndef CLI_VERIFY_VERIFY_TRAJECTORY_H
#define CLI_VERIFY_VERIFY_TRAJECTORY_H

#include "cli/verify/verify_report.h"

/* The bit of the mode among CLT_VERIFY_*, which the checker of the engine does not know. */
enum { VERIFY_TRAJECTORY = 1 << 16 };

/* True if a check with this name is a training. */
bool verify_is_training(const char *name);
/* The number of trainings that pattern and modes select, including shards. */
uint64_t verify_trajectory_count(const clt_verify_options *options);
/* Runs the trainings that pattern and shard select, one after the other (with CLT_VERIFY_LIST: only lists
 * them). Each may take `limit` seconds once its device is open. Results go to options->result, with indices
 * from `first`. Losses and norms go to the report, which must be the one to which `result` adds. `first`
 * must be larger than the index of any other check. CLT_ECHECK: a training differs by more than the promise
 * between devices, or did not end. */
clt_status verify_trajectory(const clt_verify_options *options, const char *caps, double limit,
                             uint64_t first, verify_report *report);

#endif
