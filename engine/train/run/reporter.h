/* SPDX-License-Identifier: Apache-2.0
 *
 * The reporter: reads the state block and the loss records of each step without making the host wait, and
 * hands them over when they have arrived, a step or more late. It also keeps the host from running too far
 * ahead. */
#ifndef ENGINE_TRAIN_REPORTER_H
#define ENGINE_TRAIN_REPORTER_H

#include "cl/device/memory.h"
#include "engine/plan/realize.h"
#include "engine/graph/step_block.h"

typedef struct clt_step_result {
    int64_t step;
    clt_state_block state;
    float loss[CLT_MAX_LOSSES][4];
    double done_at; /* clt_now() when the device had finished the step */
} clt_step_result;

/* Steps the host may be ahead of the device: about 500 commands, and at least two. */
int clt_reporter_depth(const clt_plan *plan);

typedef struct clt_reporter clt_reporter;
/* depth: steps the host may be ahead of the device. */
clt_status clt_reporter_create(const clt_realized *realized, int depth, clt_reporter **out);
void clt_reporter_destroy(clt_reporter *reporter);
/* Enqueues the reads of step `step`. Needs a free entry: call clt_reporter_room first. */
clt_status clt_reporter_post(clt_reporter *reporter, int64_t step);
/* Results posted and not yet taken. */
int clt_reporter_in_flight(clt_reporter *reporter);
/* Sleeps until an entry is free for posting. CLT_EDEVLOST: a command failed, so that none may ever be. */
clt_status clt_reporter_room(clt_reporter *reporter);
/* Takes the oldest finished result, if any. wait: sleeps until the oldest one has finished; *have false when
 * nothing is posted. */
clt_status clt_reporter_take(clt_reporter *reporter, bool wait, clt_step_result *result, bool *have);

#endif
