/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints commands, ready to be pasted, that may be useful after a run has ended. */
#ifndef CLI_COMMANDS_NEXT_COMMANDS_H
#define CLI_COMMANDS_NEXT_COMMANDS_H

#include "cli/screen/cmd.h"
#include "engine/train/loop/trainer.h"

/* A run that has ended or was interrupted. `device` and `caps` are the values of the options --device and
 * --caps, or NULL. */
typedef struct next_run {
    const char *folder, *device, *caps;
    const clt_run_result *result;
    bool ended;    /* the run made all its steps */
    double epochs; /* the config's train.epochs */
} next_run;

/* Prints nothing for a run that left no checkpoint. */
void print_next_commands(const cmd_context *context, const next_run *run);

#endif
