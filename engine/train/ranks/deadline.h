/* SPDX-License-Identifier: Apache-2.0
 *
 * How long ranks wait for each other in a collective before the run ends with code 9, and what each rank says
 * that it is doing. Around work whose duration differs between ranks (start, evaluation, checkpoints, samples)
 * parallel.start_deadline counts, in plain steps parallel.deadline or what follows from their duration. */
#ifndef ENGINE_TRAIN_DEADLINE_H
#define ENGINE_TRAIN_DEADLINE_H

#include "comm/comm.h"
#include "engine/config/config.h"

#define CLT_DEADLINE_STEPS 31

typedef struct clt_deadline {
    comm *comm;                        /* NULL: one rank, nothing to do */
    double asked, start;               /* the two keys, in seconds; asked 0: it follows from the steps */
    double recent[CLT_DEADLINE_STEPS]; /* seconds of the newest steps */
    int64_t steps;                     /* number of steps noted */
    int64_t pause_ends;                /* when this step has finished, plain steps begin */
} clt_deadline;

/* Sets the deadline of the start; ranks may be NULL. The run begins after step `first`. */
void clt_deadline_open(clt_deadline *d, comm *ranks, const clt_config *config, int64_t first);
/* To be called on every rank when step `step` has been enqueued and other work follows. */
void clt_deadline_pause(clt_deadline *d, int64_t step);
/* Step `step` (from 1) has finished and took so many seconds. */
void clt_deadline_step(clt_deadline *d, int64_t step, double seconds);
/* The deadline in plain steps: what is asked for, or max(60, 20 times the median step), in seconds. */
double clt_deadline_plain(const clt_deadline *d);
/* Says what this rank is doing, for the messages of late ranks. step > 0: and at which step. ranks may be NULL. */
void clt_say_phase(comm *ranks, const char *what, int64_t step);

#endif
