/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain verify --run RUN: trains the steps of a recorded run again, on this device, and compares. */
#ifndef CLI_VERIFY_VERIFY_REPLAY_H
#define CLI_VERIFY_VERIFY_REPLAY_H

#include "cli/screen/cmd.h"

typedef struct verify_replay_args {
    const char *run; /* a run folder: replays from the beginning; a folder step_N: from that step */
    const char *device, *caps, *json;
    int64_t steps;    /* number of steps; 0: up to the next checkpoint if it is near, else 20 */
    double tolerance; /* relative limit for losses; 0: depends on the type of the values */
} verify_replay_args;

/* CLT_ECHECK: losses or norms of gradients differ by more than the tolerance; CLT_EUSAGE: the run cannot be
 * replayed from there. */
clt_status verify_replay(const cmd_context *context, const verify_replay_args *args);

#endif
