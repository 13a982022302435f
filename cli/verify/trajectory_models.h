/* SPDX-License-Identifier: Apache-2.0
 *
 * The trainings of verify --trajectory: five small models, each in f32, f16 and bf16, on data that the
 * program makes. Models, data and random numbers are the same on every device, so devices differ only in how
 * sums are rounded. Models and learning rates were chosen so that rounding errors do not grow from step to
 * step: in f32 two orders of summation differ by less than 1e-5 of the loss after all steps. */
#ifndef CLI_VERIFY_TRAJECTORY_MODELS_H
#define CLI_VERIFY_TRAJECTORY_MODELS_H

#include "engine/config/config.h"

enum { TRAJECTORY_STEPS = 50, TRAJECTORY_MODELS = 5, TRAJECTORY_TYPES = 3, TRAJECTORY_NAME = 32 };
enum { TRAJECTORIES = TRAJECTORY_MODELS * TRAJECTORY_TYPES };

/* Writes the name of a training (0 to TRAJECTORIES - 1), such as "gpt.f16". */
void trajectory_name(int number, char name[TRAJECTORY_NAME]);
/* The number of the training with this name; -1: there is none. */
int trajectory_find(const char *name);
/* True if the training computes in f32, not in 16 bits. */
bool trajectory_is_wide(int number);
/* Makes the files that the trainings read in an existing folder: a text, and volumes with masks. */
clt_status trajectory_data(const char *folder);
/* Makes the config of a training whose data are in `folder`. */
clt_status trajectory_config(int number, const char *folder, clt_config **out);

#endif
