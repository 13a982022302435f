/* SPDX-License-Identifier: Apache-2.0
 *
 * Sets how long ranks wait for each other in a collective before the run ends with code 9, and what each
 * rank reports as its work. Around work whose duration differs between ranks (start, evaluation,
 * checkpoints, samples) the deadline is parallel.start_deadline; in plain steps it is parallel.deadline, or
 * follows from the duration of steps. */
#ifndef ENGINE_TRAIN_RANKS_DEADLINE_H
#define ENGINE_TRAIN_RANKS_DEADLINE_H

#include "comm/comm.h"
#include "engine/config/config.h"

#define CLT_DEADLINE_STEPS 31

typedef struct clt_deadline {
    comm *comm;          /* NULL: one rank, nothing to do */
    double asked, start; /* the two keys, in seconds; asked 0: the deadline follows from steps */
    double recent[CLT_DEADLINE_STEPS]; /* seconds of the newest steps */
    int64_t steps;                     /* number of steps noted */
    int64_t pause_ends;                /* when this step has finished, plain steps begin */
} clt_deadline;

/* Sets the deadline of the start; ranks may be NULL. The run begins after step `first`. */
void clt_deadline_open(clt_deadline *d, comm *ranks, const clt_config *config, int64_t first);
/* To be called on every rank when step `step` has been enqueued and other work follows. */
void clt_deadline_pause(clt_deadline *d, int64_t step);
/* To be called when step `step` (from 1) has finished, which took `seconds` seconds. */
void clt_deadline_step(clt_deadline *d, int64_t step, double seconds);
/* The deadline in plain steps, in seconds: parallel.deadline, or max(60, 20 times the median step). */
double clt_deadline_plain(const clt_deadline *d);
/* Sets what messages about late ranks report of this rank. step > 0: the step that the rank is at. ranks may
 * be NULL. */
void clt_say_phase(comm *ranks, const char *what, int64_t step);

#endif
