/* SPDX-License-Identifier: Apache-2.0
 *
 * The deadlines of collectives while a run trains. They change at steps, never by the clock, so that all
 * ranks change them at the same collective or nearly so. */
#include "engine/train/ranks/deadline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEAST 60.0    /* seconds */
#define STEPS_LONG 20 /* median steps in a deadline */
#define SETTLING 2    /* steps after a pause that keep its deadline: ranks come back at different times */

static void apply(const clt_deadline *d, double seconds)
{
    if (d->comm)
        comm_set_deadline(d->comm, seconds);
}

void clt_deadline_open(clt_deadline *d, comm *ranks, const clt_config *config, int64_t first)
{
    *d = (clt_deadline){.comm = ranks,
                        .asked = clt_config_float(config, "parallel.deadline"),
                        .start = clt_config_float(config, "parallel.start_deadline")};
    clt_deadline_pause(d, first);
}

void clt_deadline_pause(clt_deadline *d, int64_t step)
{
    d->pause_ends = step + SETTLING;
    apply(d, d->start);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

double clt_deadline_plain(const clt_deadline *d)
{
    double sorted[CLT_DEADLINE_STEPS];
    size_t n = d->steps < CLT_DEADLINE_STEPS ? (size_t)d->steps : CLT_DEADLINE_STEPS;
    if (d->asked > 0 || n == 0)
        return d->asked > 0 ? d->asked : d->start;
    memcpy(sorted, d->recent, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_size);
    double seconds = STEPS_LONG * sorted[n / 2];
    return seconds > LEAST ? seconds : LEAST;
}

void clt_deadline_step(clt_deadline *d, int64_t step, double seconds)
{
    d->recent[d->steps++ % CLT_DEADLINE_STEPS] = seconds;
    if (step >= d->pause_ends)
        apply(d, clt_deadline_plain(d));
}

void clt_say_phase(comm *ranks, const char *what, int64_t step)
{
    char text[96];
    if (!ranks)
        return;
    if (step > 0)
        (void)snprintf(text, sizeof text, "step %lld (%s)", (long long)step, what);
    else
        (void)snprintf(text, sizeof text, "%s", what);
    comm_set_phase(ranks, text);
}
