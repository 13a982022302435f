/* SPDX-License-Identifier: Apache-2.0
 *
 * One start of the ranks of a job: `mpirun ... cltrain train ...`, or the command itself for one rank.
 * Signals to this process are passed on as SIGUSR2, which makes all ranks save and end. Knows nothing of
 * restarts. */
#ifndef CLI_LAUNCH_LAUNCH_JOB_H
#define CLI_LAUNCH_LAUNCH_JOB_H

#include "cli/launch/launch_report.h"
#include "cli/screen/cmd.h"

/* Finds the full path of mpirun: beside the program, as in a bundle, or in PATH. The caller frees it.
 * CLT_EUNSUPPORTED: mpirun is not installed. */
clt_status launch_find_mpirun(const char *program, char **out);

/* The command line of a job. */
typedef struct launch_line {
    const char **words; /* ends with NULL */
    int count, capacity;
    char ranks[16];
    clt_str exports;          /* names of environment variables, each followed by a zero byte */
    clt_str preload;          /* "LD_PRELOAD=..." for mpirun, or nothing */
    const char **environment; /* environment of mpirun, ends with NULL; NULL: this process's environment */
} launch_line;
clt_status launch_line_add(launch_line *line, const char *word);
void launch_line_free(launch_line *line);
CLT_SCOPED_VALUE(launch_line, launch_line_free)
/* Where ranks run. */
typedef struct launch_where {
    const char *hosts;   /* "a:4,b:4", as mpirun's --host */
    const char *network; /* network between hosts: an interface or 10.0.0.0/24; NULL: Open MPI chooses */
    int ranks, most;     /* number of ranks: in all; on the host that has the most */
    bool far;            /* the job may use other hosts than this one */
    bool cpu;            /* some ranks share CPU devices */
} launch_where;
/* Begins the line with mpirun and its options; the caller adds the program and its arguments. `where` must
 * live as long as the line. */
clt_status launch_line_mpirun(launch_line *line, const char *mpirun, const launch_where *where);

/* How the job ended. */
typedef struct launch_end {
    int code; /* exit code; 128 plus the signal's number if a signal ended the job */
    int rank; /* the rank that was ended by `signal`, if that is not 0 */
    int signal;
    char host[64];
} launch_end;
/* Runs the job and waits for its end. If this process dies, the job ends, too. */
clt_status launch_run(const cmd_context *context, const launch_line *line, launch_end *end);

#endif
