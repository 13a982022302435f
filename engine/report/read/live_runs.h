/* SPDX-License-Identifier: Apache-2.0
 *
 * The runs that train on this host now: processes that hold the lock of a run folder, as far as this user
 * may look at them, with the newest line of a step. Reads only the end of a file. */
#ifndef ENGINE_REPORT_READ_LIVE_RUNS_H
#define ENGINE_REPORT_READ_LIVE_RUNS_H

#include "engine/base/scope.h"
#include "engine/report/write/metrics_line.h"

#define CLT_LIVE_RUNS 64 /* most runs that are found */

typedef struct clt_live_run {
    int64_t process;
    char folder[1024];
    clt_metrics_line newest; /* newest line of a step; step -1: there is none yet */
    double quiet_s;          /* seconds since metrics.jsonl was last written */
} clt_live_run;

/* Fills in at most CLT_LIVE_RUNS runs, ordered by process; returns their number. */
int clt_live_runs(clt_live_run runs[CLT_LIVE_RUNS]);

#endif
