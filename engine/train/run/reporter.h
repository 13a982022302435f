/* SPDX-License-Identifier: Apache-2.0
 *
 * The reporter: reads the state block and the loss records of each step without blocking the host, and
 * returns them when they have arrived, one or more steps late. It also limits how far the host runs ahead of
 * the device. */
#ifndef ENGINE_TRAIN_RUN_REPORTER_H
#define ENGINE_TRAIN_RUN_REPORTER_H

#include "cl/command/memory.h"
#include "engine/graph/step_block.h"
#include "engine/plan/realize.h"

typedef struct clt_step_result {
    int64_t step;
    clt_state_block state;
    float loss[CLT_MAX_LOSSES][4];
    double done_at; /* clt_now() when the device finished the step */
} clt_step_result;

/* How many steps the host may be ahead of the device: about 500 commands, at least two steps. */
int clt_reporter_depth(const clt_plan *plan);

typedef struct clt_reporter clt_reporter;
/* depth: how many steps the host may be ahead of the device. */
clt_status clt_reporter_create(const clt_realized *realized, int depth, clt_reporter **out);
void clt_reporter_destroy(clt_reporter *reporter);
CLT_SCOPED_POINTER(clt_reporter, clt_reporter_destroy)
/* Enqueues the reads of step `step`. Needs a free entry, so call clt_reporter_room first. */
clt_status clt_reporter_post(clt_reporter *reporter, int64_t step);
/* Number of steps posted whose results have not been taken. */
int clt_reporter_in_flight(clt_reporter *reporter);
/* Sleeps until an entry is free. CLT_EDEVLOST: a command failed, so that this might never happen. */
clt_status clt_reporter_room(clt_reporter *reporter);
/* Takes the oldest result if it is ready. wait: sleeps until it is; *have is false only if nothing is
 * posted. */
clt_status clt_reporter_take(clt_reporter *reporter, bool wait, clt_step_result *result, bool *have);

#endif
