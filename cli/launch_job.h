/* SPDX-License-Identifier: Apache-2.0
 *
 * One start of the ranks of a job on this host: `mpirun ... cltrain train ...`, or the command itself for one rank.
 * Signals to this process are passed on as SIGUSR2, which makes all ranks save and end. Knows nothing of restarts. */
#ifndef CLI_LAUNCH_JOB_H
#define CLI_LAUNCH_JOB_H

#include "cli/cmd.h"
#include "cli/launch_report.h"

/* The full path of mpirun: beside the program, as in a bundle, or from PATH; free() it. CLT_EUNSUPPORTED: it is not
 * installed. */
clt_status launch_find_mpirun(const char *program, char **out);

/* The command line of a job with so many ranks. */
typedef struct launch_line {
    const char **words; /* ends with NULL */
    int count, capacity;
    char ranks[16], slots[32];
} launch_line;
clt_status launch_line_add(launch_line *line, const char *word);
void launch_line_free(launch_line *line);
/* mpirun with its options; the program and its arguments are to be added. cpu: the ranks share CPU devices. */
clt_status launch_line_mpirun(launch_line *line, const char *mpirun, int ranks, bool cpu);

/* How the job ended. */
typedef struct launch_end {
    int code; /* exit code; of a job that a signal ended 128 plus its number */
    int rank; /* signal != 0: the rank that was ended by this signal */
    int signal;
    char host[64];
} launch_end;
/* Runs the job and waits for its end. It ends when this process does. */
clt_status launch_run(const cmd_context *context, const launch_line *line, launch_end *end);

#endif
