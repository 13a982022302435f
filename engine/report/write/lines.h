/* SPDX-License-Identifier: Apache-2.0
 *
 * A line about a step, an evaluation or a checkpoint, for the console and log.txt. Pure functions, which know
 * neither terminals nor files. */
#ifndef ENGINE_REPORT_WRITE_LINES_H
#define ENGINE_REPORT_WRITE_LINES_H

#include "engine/base/mem.h"
#include "engine/report/write/metrics.h"

#define CLT_LINE_SIZE 512

/* "49.7k", "1.2 GiB", "3m21s"; each returns buffer, which needs 32 bytes. */
const char *clt_count_text(double value, char *buffer, size_t size);
const char *clt_bytes_text(uint64_t bytes, char *buffer, size_t size);
const char *clt_duration_text(double seconds, char *buffer, size_t size);

/* `value` with `decimals` digits after the point; from 100000 on in four significant digits: "1.234e+08". */
const char *clt_value_text(double value, int decimals, char *buffer, size_t size);

/* A text in quotes, as a cell of CSV (RFC 4180). */
void clt_csv_quoted(clt_str *out, const char *text);

/* The line of a step. columns: most characters, 0: no limit. Step, loss and speed are always shown; then,
 * while there is room: time left, skipped updates, learning rate, time of the step, each of several
 * losses, accuracy, gradient norm, communication, loss scale and, with `bar`, a progress bar. Returns
 * buffer. */
const char *clt_step_line(const clt_step_metrics *m, int columns, bool bar, char buffer[CLT_LINE_SIZE]);
/* Decides which steps get a line that stays on the console. */
typedef struct clt_line_pace {
    int64_t every; /* one step in `every` gets a line */
    double apart;  /* least seconds between two lines; 0: no limit */
    bool any;      /* there was a line; `told`: its time in seconds */
    double told;
} clt_line_pace;
/* True if the step that ended at `now` gets a line; the first and the last step always do. */
bool clt_line_stays(clt_line_pace *pace, int64_t step, bool last, double now);
/* The text after the loss of a language model: " | perplexity 61.87 | 5.951 bits/byte" with the separator
 * " | "; "" for other models. buffer needs 96 bytes. Returns buffer. */
const char *clt_language_text(const clt_eval_metrics *m, const char *separator, char *buffer, size_t size);
/* The line of an evaluation; begins with "eval at step N" if it belongs to a training step.
 * Returns buffer. */
const char *clt_eval_line(const clt_eval_metrics *m, char buffer[CLT_LINE_SIZE]);
/* The line of some work in progress: "building kernels 6/10 | 12s | about 8s left". total: 0 if unknown.
 * seconds: time since the work began. since_change: time since `done` last changed. Returns buffer. */
const char *clt_progress_line(const char *what, int64_t done, int64_t total, double seconds,
                              double since_change, int columns, char buffer[CLT_LINE_SIZE]);

#endif
