/* SPDX-License-Identifier: Apache-2.0
 *
 * The history of a run: reads its metrics.jsonl line by line, in bounded memory for any length. Damaged lines
 * (a torn last line after a crash, garbage) are counted and skipped. If a resumed run repeated steps, only
 * their newest lines are returned. The file may grow while it is read: a call after its end has been reached
 * returns new lines. */
#ifndef ENGINE_REPORT_READ_HISTORY_H
#define ENGINE_REPORT_READ_HISTORY_H

#include "engine/base/scope.h"
#include "engine/report/write/metrics_line.h"

typedef struct clt_history clt_history;

typedef struct clt_history_counts {
    uint64_t bytes;      /* bytes read so far */
    int64_t lines;       /* complete lines of any kind so far */
    int64_t garbage;     /* lines that are not metrics, or are longer than CLT_HISTORY_MAX_LINE */
    int64_t replaced;    /* lines skipped because a resumed run repeated their steps */
    bool torn;           /* the file does not end with a newline */
    int64_t first, last; /* first and last step of training lines when the file was opened; -1: none */
    int64_t steps;       /* number of training lines when the file was opened */
} clt_history_counts;

#define CLT_HISTORY_MAX_LINE (4u << 20)

/* `path` is a metrics.jsonl. CLT_EDATA: it cannot be opened or is not a regular file. */
clt_status clt_history_open(const char *path, clt_history **out);
void clt_history_close(clt_history *history);
CLT_SCOPED_POINTER(clt_history, clt_history_close)

/* Reads the next line; *more = false at the current end of the file. *text and *length (may be NULL) receive
 * the line as it is in the file, valid until the next call. */
clt_status clt_history_next(clt_history *history, clt_metrics_line *line, const char **text, size_t *length,
                            bool *more);
const clt_history_counts *clt_history_counted(const clt_history *history);
/* True if the file has been replaced or truncated, as by a resumed run: it must be opened again. */
bool clt_history_is_stale(const clt_history *history);

/* Finds the metrics.jsonl for a path that a user gives: a run folder, its checkpoints folder, a checkpoint in
 * it, or the file itself. *folder (may be NULL) receives the run folder. The caller frees both. CLT_EUSAGE:
 * there is no such file; the message says what is there instead. */
clt_status clt_history_find(const char *operand, char **path, char **folder);

#endif
