/* SPDX-License-Identifier: Apache-2.0
 *
 * A picture on the terminal that is redrawn until the user quits, for commands that follow a run or
 * devices. */
#ifndef CLI_COMMANDS_FOLLOW_H
#define CLI_COMMANDS_FOLLOW_H

#include "cli/screen/cmd.h"

/* The terminal's size; without a terminal the size in the environment, or 80 by 24. */
void follow_size(int *columns, int *rows);
/* begin: switches to the alternate screen, where the terminal delivers keys immediately. end: switches
 * back. */
void follow_begin(void);
void follow_end(void);
/* Replaces the picture on the screen. */
clt_status follow_show(const clt_str *picture);
/* Waits for `seconds` and, on the screen, for keys. True: the user wants to quit, or a signal has come. */
bool follow_wait(const cmd_context *context, double seconds);

#endif
