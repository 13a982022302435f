/* SPDX-License-Identifier: Apache-2.0
 *
 * What a user may want to do with a run that has just ended, as commands that can be pasted. */
#ifndef CLI_NEXT_COMMANDS_H
#define CLI_NEXT_COMMANDS_H

#include "cli/cmd.h"
#include "engine/train/run/trainer.h"

/* The run: its folder, its result, and what was asked for beside the config (either may be NULL). */
typedef struct next_run {
    const char *folder, *device, *caps;
    const clt_run_result *result;
    bool ended;    /* all its steps are made */
    double epochs; /* train.epochs of the config */
} next_run;

/* Prints them; nothing for a run that left no checkpoint. */
void print_next_commands(const cmd_context *context, const next_run *run);

#endif
