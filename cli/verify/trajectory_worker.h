/* SPDX-License-Identifier: Apache-2.0
 *
 * The child process that computes one training of verify --trajectory. It writes lines:
 *
 *   device IS_CPU SPEC<tab>NAME<tab>DRIVER<tab>PLATFORM
 *   step STEP LOSS NORM                                    after each step, the numbers as %a
 *   done
 *   error STATUS MESSAGE                                   in place of done */
#ifndef CLI_VERIFY_TRAJECTORY_WORKER_H
#define CLI_VERIFY_TRAJECTORY_WORKER_H

#include "cli/screen/cmd.h"

/* name: the training's name. folder: the folder in which trajectory_data has made the data. device: a SPEC,
 * or NULL. */
clt_status trajectory_work(const char *name, const char *folder, const char *device, uint32_t caps_mask);

#endif
