/* SPDX-License-Identifier: Apache-2.0
 *
 * One start of the ranks of a job: `mpirun ... cltrain train ...`, or the command itself for one rank.
 * Signals to this process are passed on as SIGUSR2, which makes all ranks save and end. Knows nothing of restarts. */
#ifndef CLI_LAUNCH_LAUNCH_JOB_H
#define CLI_LAUNCH_LAUNCH_JOB_H

#include "cli/launch/launch_report.h"
#include "cli/screen/cmd.h"

/* The full path of mpirun: beside the program, as in a bundle, or from PATH; free() it. CLT_EUNSUPPORTED: it is not
 * installed. */
clt_status launch_find_mpirun(const char *program, char **out);

/* The command line of a job with so many ranks. */
typedef struct launch_line {
    const char **words; /* ends with NULL */
    int count, capacity;
    char ranks[16];
    clt_str exports; /* names of environment variables, each followed by a zero byte */
} launch_line;
clt_status launch_line_add(launch_line *line, const char *word);
void launch_line_free(launch_line *line);
/* Where ranks run. */
typedef struct launch_where {
    const char *hosts;   /* "a:4,b:4", as mpirun's --host */
    const char *network; /* between hosts: an interface or 10.0.0.0/24; NULL: Open MPI chooses */
    int ranks, most;     /* all; on the host with the most */
    bool far;            /* not on this host alone */
    bool cpu;            /* they share CPU devices */
} launch_where;
/* mpirun with its options; the program and its arguments are to be added. `where` lives as long as the line. */
clt_status launch_line_mpirun(launch_line *line, const char *mpirun, const launch_where *where);

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
