/* SPDX-License-Identifier: Apache-2.0
 *
 * The start-up table: describes a run before its first step. */
#ifndef ENGINE_TRAIN_INSPECT_STARTUP_H
#define ENGINE_TRAIN_INSPECT_STARTUP_H

#include "engine/train/run/run.h"

#define CLT_STARTUP_ROWS 20
/* Makes the rows that are known before a device allocates anything, for a dry run; returns their number.
 * resumed: the run that would be resumed, whose step time is then shown; NULL: none. taken: the result of
 * clt_weights_check for --init; NULL: --init was not given. */
int clt_startup_job_rows(const clt_job *job, const char *resumed, const clt_weights_taken *taken,
                         clt_table_row rows[CLT_STARTUP_ROWS]);
/* The row "optimizer" alone: its name, learning rate (with optimizer.base_batch also how it follows from the
 * batch), schedule, weight decay and clipping. */
const char *clt_startup_optimizer(const clt_job *job, char *text, size_t size);
/* "parameters 1.0 MiB, gradients ...": the parts of memory on the device, which add up to its sum. */
#define CLT_MEMORY_TEXT 256
const char *clt_startup_memory(const clt_memory_report *memory, char text[CLT_MEMORY_TEXT]);
/* The row "steps" alone: number of steps, tokens per step and in all, passes through the data. */
const char *clt_startup_steps(const clt_job *job, char *text, size_t size);
int clt_startup_rows(const clt_run *run, const char *run_dir, clt_table_row rows[CLT_STARTUP_ROWS]);

#endif
