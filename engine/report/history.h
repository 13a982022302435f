/* SPDX-License-Identifier: Apache-2.0
 *
 * The history of a run: its metrics.jsonl, line by line, in bounded memory, however long it is. What a crash
 * or an editor left in it (a torn last line, garbage) is counted and passed over. Where steps were computed
 * again after a resume, only the newer ones are given. The file may grow while it is read: asked again, the
 * reader goes on with the lines that are new. */
#ifndef ENGINE_REPORT_HISTORY_H
#define ENGINE_REPORT_HISTORY_H

#include "engine/report/metrics_line.h"

typedef struct clt_history clt_history;

typedef struct clt_history_counts {
    uint64_t bytes;      /* read so far */
    int64_t lines;       /* whole lines so far, of any kind */
    int64_t garbage;     /* lines that are no metrics, among them lines longer than CLT_HISTORY_MAX_LINE */
    int64_t replaced;    /* lines of steps that a resumed run computed again */
    bool torn;           /* the file does not end with an end of line */
    int64_t first, last; /* steps of training lines in the file when it was opened; -1: none */
    int64_t steps;       /* training lines in the file when it was opened */
} clt_history_counts;

#define CLT_HISTORY_MAX_LINE (4u << 20)

/* `path` is a metrics.jsonl. CLT_EDATA: it cannot be opened or is no regular file. */
clt_status clt_history_open(const char *path, clt_history **out);
void clt_history_close(clt_history *history);

/* The next line, or *more = false at the end of what is there (later there may be more). *text and *length
 * (may be NULL) give the line as it stands in the file, until the next call. */
clt_status clt_history_next(clt_history *history, clt_metrics_line *line, const char **text, size_t *length,
                            bool *more);
const clt_history_counts *clt_history_counted(const clt_history *history);
/* Should the file be opened anew? It was replaced or cut, as a resumed run does. */
bool clt_history_is_stale(const clt_history *history);

/* The metrics.jsonl of what a user names: a run folder, its checkpoints/, a checkpoint in it, or the file
 * itself. *folder (may be NULL) gets the run folder. Both must be freed. CLT_EUSAGE: there is none, with what
 * is there instead. */
clt_status clt_history_find(const char *operand, char **path, char **folder);

#endif
