/* SPDX-License-Identifier: Apache-2.0
 *
 * What the library logs during a run (warnings; refused backends and the like with log.level debug) goes into
 * the run's log.txt too, from the first line on: lines wait until there is a run folder. It knows the run
 * folder, not what a run does. */
#ifndef ENGINE_REPORT_RUNLOG_H
#define ENGINE_REPORT_RUNLOG_H

#include "engine/report/rundir.h"

typedef struct clt_runlog clt_runlog;

/* Takes the lines up to the config's log.level from here on. There is one in a process. CLT_ENOMEM. */
clt_status clt_runlog_begin(const clt_config *config, clt_runlog **out);
/* What waits goes into the folder's log.txt, and so does what follows. dir NULL: lines wait again. */
void clt_runlog_attach(clt_runlog *log, clt_rundir *dir); /* log NULL: does nothing */
void clt_runlog_end(clt_runlog *log);                     /* before the folder is closed; NULL is fine */

#endif
