/* SPDX-License-Identifier: Apache-2.0
 *
 * A run for TensorBoard: what goes into metrics.jsonl, as an event file in the run folder.
 * docs/tensorboard.md lists the tags. A session of the run writes one file, which begins with its first step:
 * what an earlier session wrote for steps from there on does not count any more. Nothing here ends a run:
 * what goes wrong is kept as a text to be said once. One thread at a time. */
#ifndef ENGINE_REPORT_BOARD_H
#define ENGINE_REPORT_BOARD_H

#include "engine/config/config.h"
#include "engine/report/histogram.h"
#include "engine/report/metrics.h"

typedef struct clt_board clt_board;

/* *out is NULL unless the config's log.tensorboard is set; the other functions do nothing then. The config
 * and the folder's name are copied. CLT_ENOMEM. */
clt_status clt_board_create(const char *folder, const clt_config *config, clt_board **out);
void clt_board_close(clt_board *board);

/* The file is made, for the steps after `step` (0: for all of them). Events from before wait for this. */
void clt_board_start(clt_board *board, int64_t step);
void clt_board_step(clt_board *board, const clt_step_metrics *metrics);
void clt_board_eval(clt_board *board, const clt_eval_metrics *metrics, double time);
/* Text under the tag "events", or another one: a headline, and lines that are shown as they are. "end" marks
 * the run as successful. time: seconds since 1970. */
void clt_board_event(clt_board *board, const char *event, int64_t step, double time, const char *lines);
void clt_board_histogram(clt_board *board, const char *tag, int64_t step, const clt_histogram *histogram);
void clt_board_flush(clt_board *board);
/* Removes the file of this session, if there is one; nothing more is to be told. */
void clt_board_discard(clt_board *board);
/* What went wrong, once; false: nothing new. */
bool clt_board_trouble(clt_board *board, char *text, size_t size);

#endif
