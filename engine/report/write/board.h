/* SPDX-License-Identifier: Apache-2.0
 *
 * A run for TensorBoard: writes what goes into metrics.jsonl to an event file in the run folder as well.
 * docs/tensorboard.md lists the tags. Each session of a run writes its own file, which replaces what earlier
 * sessions wrote about the same steps and later ones. Nothing here ends a run: a problem is kept as a text
 * and reported once. Only one thread may call at a time. */
#ifndef ENGINE_REPORT_WRITE_BOARD_H
#define ENGINE_REPORT_WRITE_BOARD_H

#include "engine/config/config.h"
#include "engine/report/write/histogram.h"
#include "engine/report/write/metrics.h"

typedef struct clt_board clt_board;

/* *out is NULL unless the config's log.tensorboard is set; with NULL the other functions do nothing. The
 * config and the folder's name are copied. CLT_ENOMEM. */
clt_status clt_board_create(const char *folder, const clt_config *config, clt_board **out);
void clt_board_close(clt_board *board);
CLT_SCOPED_POINTER(clt_board, clt_board_close)

/* Creates the file for the steps after `step` (0: for all). Events that came before are written now. */
void clt_board_start(clt_board *board, int64_t step);
void clt_board_step(clt_board *board, const clt_step_metrics *metrics);
void clt_board_eval(clt_board *board, const clt_eval_metrics *metrics, double time);
/* Writes a text with the tag "events", or another one: a headline, and lines that are shown verbatim. The
 * event "end" marks the run as successful. time: seconds since 1970. */
void clt_board_event(clt_board *board, const char *event, int64_t step, double time, const char *lines);
void clt_board_histogram(clt_board *board, const char *tag, int64_t step, const clt_histogram *histogram);
void clt_board_flush(clt_board *board);
/* Removes the file of this session, if there is one. Nothing may be written afterwards. */
void clt_board_discard(clt_board *board);
/* Copies the description of a new problem to `text`, once; false: there is no new problem. */
bool clt_board_trouble(clt_board *board, char *text, size_t size);

#endif
