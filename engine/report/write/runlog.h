/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies the lines that the library logs during a run (warnings; with log.level debug also refused variants
 * and the like) into the run's log.txt. Lines that are logged before there is a run folder wait for it. Knows
 * the run folder, not what a run does. */
#ifndef ENGINE_REPORT_WRITE_RUNLOG_H
#define ENGINE_REPORT_WRITE_RUNLOG_H

#include "engine/report/write/rundir.h"

typedef struct clt_runlog clt_runlog;

/* Begins to collect the lines of the config's log.level and more urgent ones. There is one log per process.
 * CLT_ENOMEM. */
clt_status clt_runlog_begin(const clt_config *config, clt_runlog **out);
/* Writes the waiting lines and all further ones to the folder's log.txt. dir NULL: lines wait again. */
void clt_runlog_attach(clt_runlog *log, clt_rundir *dir); /* log NULL: does nothing */
void clt_runlog_end(clt_runlog *log);                     /* before the folder is closed; NULL is fine */

#endif
