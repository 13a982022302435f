/* SPDX-License-Identifier: Apache-2.0
 *
 * Filters the error stream of Open MPI's mpirun: lines of the ranks, and mpirun's own reports between two
 * dashed lines. The lines of ranks are passed on. Reports that only repeat how the job ended are not passed
 * on; they say which rank was ended by which signal. Pure; knows nothing of processes. */
#ifndef CLI_LAUNCH_LAUNCH_REPORT_H
#define CLI_LAUNCH_LAUNCH_REPORT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct launch_report {
    int rank, signal; /* signal != 0: the first rank that a signal ended */
    char host[64];    /* the host of this rank; "": unknown */
    /* the text that has not been passed on yet */
    char line[4096], block[8192];
    size_t in_line, in_block;
    bool inside; /* between two dashed lines */
    void (*pass)(void *context, const char *text, size_t length);
    void *context;
} launch_report;

/* Takes the next bytes of the stream. */
void launch_report_add(launch_report *report, const char *bytes, size_t count);
/* Call it at the end of the stream: passes on the rest of the text. */
void launch_report_end(launch_report *report);

#endif
