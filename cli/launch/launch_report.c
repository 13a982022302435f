/* SPDX-License-Identifier: Apache-2.0
 *
 * Separates the ranks' lines from mpirun's own reports on its error stream. The reports say which rank a
 * signal ended. */
#include "cli/launch/launch_report.h"

#include <stdio.h>
#include <string.h>

/* True if the line is at least 40 dashes and nothing else. */
static bool is_dashes(const char *line, size_t length)
{
    while (length > 0 && (line[length - 1] == '\n' || line[length - 1] == '\r'))
        length--;
    return length >= 40 && strspn(line, "-") >= length;
}

/* Reads "mpirun noticed that process rank 1 with PID 0 on node h1 exited on signal 9 (Killed)." In Open MPI 5
 * the name is prterun, and the sentence is broken into lines. */
static bool read_signal(launch_report *r, const char *text)
{
    int rank, signal;
    char host[64];
    const char *at = strstr(text, "noticed that process rank ");
    if (!at || sscanf(at, "noticed that process rank %d", &rank) != 1)
        return false;
    const char *node = strstr(at, "on node "), *number = strstr(at, "on signal ");
    if (!number || sscanf(number, "on signal %d", &signal) != 1)
        return false;
    if (r->signal)
        return true;
    r->rank = rank;
    r->signal = signal;
    if (node && sscanf(node, "on node %63s", host) == 1)
        (void)snprintf(r->host, sizeof r->host, "%s", host);
    return true;
}

/* True for reports of mpirun that only repeat messages of the ranks or of `cltrain launch`. */
static bool is_known(launch_report *r, const char *text)
{
    static const char *const known[] = {
        "MPI_ABORT was invoked on rank", "calling \"abort\". This may have caused",
        "Per user-direction, the job has been", "processes exited with non-zero status"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strstr(text, known[i]))
            return true;
    return read_signal(r, text);
}

/* Passes on lines of ranks inside a block: a rank may write a line while mpirun writes its report. */
static void pass_ranks_lines(launch_report *r)
{
    for (const char *at = r->block; *at != '\0';) {
        size_t length = strcspn(at, "\n");
        length += at[length] == '\n';
        if (strncmp(at, "[rank ", 6) == 0)
            r->pass(r->context, at, length);
        at += length;
    }
}

/* True if the block is one of the reports of is_known, wherever its lines break. */
static bool is_known_block(launch_report *r)
{
    char text[sizeof r->block];
    memcpy(text, r->block, r->in_block + 1);
    for (char *at = text; (at = strchr(at, '\n')) != NULL;)
        *at = ' ';
    return is_known(r, text);
}

static void end_block(launch_report *r)
{
    r->block[r->in_block] = '\0';
    if (r->in_block > 0 && is_known_block(r))
        pass_ranks_lines(r);
    else if (r->in_block > 0)
        r->pass(r->context, r->block, r->in_block);
    r->in_block = 0;
    r->inside = false;
}

/* True for the lines that mpirun adds after a report, or prints when it passes a signal on. */
static bool is_remark(const char *line)
{
    return strstr(line, "sent help message help-mpi-api.txt") ||
           strstr(line, "Set MCA parameter \"orte_base_help_aggregate\" to 0") ||
           strncmp(line, "mpirun: Forwarding signal ", 26) == 0;
}

static void take_line(launch_report *r)
{
    bool dashes = is_dashes(r->line, r->in_line);
    if (r->in_block + r->in_line >= sizeof r->block)
        end_block(r); /* too long for a report of mpirun */
    if (!dashes && !r->inside) {
        r->line[r->in_line] = '\0';
        if (!is_remark(r->line))
            r->pass(r->context, r->line, r->in_line);
    } else {
        memcpy(r->block + r->in_block, r->line, r->in_line);
        r->in_block += r->in_line;
        if (dashes && r->inside)
            end_block(r);
        else
            r->inside = true;
    }
    r->in_line = 0;
}

void launch_report_add(launch_report *r, const char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        r->line[r->in_line++] = bytes[i];
        if (bytes[i] == '\n' || r->in_line + 1 == sizeof r->line)
            take_line(r);
    }
}

void launch_report_end(launch_report *r)
{
    if (r->in_line > 0)
        take_line(r);
    end_block(r);
}
