/* SPDX-License-Identifier: Apache-2.0
 *
 * One line about a step, an evaluation or a checkpoint, as the console shows it and log.txt keeps it. Pure
 * functions: they know neither terminals nor files. */
#ifndef ENGINE_REPORT_LINES_H
#define ENGINE_REPORT_LINES_H

#include "engine/report/metrics.h"

#define CLT_LINE_SIZE 512

/* "49.7k", "1.2 GiB", "3m21s"; all return buffer, of which 32 bytes are enough. */
const char *clt_count_text(double value, char *buffer, size_t size);
const char *clt_bytes_text(uint64_t bytes, char *buffer, size_t size);
const char *clt_duration_text(double seconds, char *buffer, size_t size);

/* With so many decimals; from 100000 on, where they say nothing, with four digits: "1.234e+08". */
const char *clt_value_text(double value, int decimals, char *buffer, size_t size);

/* A step. columns: no more than that many characters, 0: everything. Loss and speed are always there; then
 * come, as long as there is room, the time left, skipped updates, learning rate, time of the step, accuracy,
 * gradient norm, communication, loss scale, and with `bar` a bar. Returns buffer. */
const char *clt_step_line(const clt_step_metrics *m, int columns, bool bar, char buffer[CLT_LINE_SIZE]);
/* What stands behind the loss of a language model, "" elsewhere: " | perplexity 61.87 | 5.951 bits/byte" with
 * the separator " | "; buffer of 96 bytes. Returns buffer. */
const char *clt_language_text(const clt_eval_metrics *m, const char *separator, char *buffer, size_t size);
/* An evaluation; "eval at step N" when it belongs to a step. Returns buffer. */
const char *clt_eval_line(const clt_eval_metrics *m, char buffer[CLT_LINE_SIZE]);
/* Something that takes a while: "building kernels 6/10 | 12s | about 8s left". total 0: nobody knows;
 * seconds: since it began; since_change: since `done` became what it is. Returns buffer. */
const char *clt_progress_line(const char *what, int64_t done, int64_t total, double seconds,
                              double since_change, int columns, char buffer[CLT_LINE_SIZE]);

#endif
