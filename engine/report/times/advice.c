/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules of the advice. The device idles for three causes: there are no data, it waits for other ranks, or
 * the host cannot enqueue short commands fast enough. The largest cause decides. */
#include "engine/report/times/advice.h"

#include <math.h>
#include <stdio.h>

/* Threads that wait for a disk do not occupy a core, so a few threads per core are useful. */
#define THREADS_PER_CPU 4
#define MOST_PREFETCH 64 /* largest value of data.prefetch in the schema */

static double idle_of(const clt_advice_facts *f)
{
    return f->idle_input_ms + f->idle_comm_ms + f->idle_host_ms;
}

#define SPAN 24
/* A time in the unit that needs no exponent, with two digits or more: "41 ms", "35 us", "1.3 s". */
static const char *span(double ms, char text[SPAN])
{
    double value = ms < 1 ? ms * 1e3 : ms < 1000 ? ms : ms * 1e-3;
    const char *unit = ms < 1 ? "us" : ms < 1000 ? "ms" : "s";
    (void)snprintf(text, SPAN, "%.*f %s", value < 10 ? 1 : 0, value, unit);
    return text;
}

/* "the device idled 62 % of the time (41 ms of 66 ms a step)" */
static int opening(const clt_advice_facts *f, char *text, size_t size)
{
    char idle[SPAN], step[SPAN];
    if (f->counted)
        return snprintf(
            text, size,
            "advice: the device was used %.0f %% of the time, as its driver counts (about %s of %s a "
            "step idle)",
            100 - 100 * idle_of(f) / f->step_ms, span(idle_of(f), idle), span(f->step_ms, step));
    return snprintf(text, size, "advice: the device idled %.0f %% of the time (%s of %s a step)",
                    100 * idle_of(f) / f->step_ms, span(idle_of(f), idle), span(f->step_ms, step));
}

/* Number of loader threads that would keep up with the device if it never had to wait. */
static int threads_needed(const clt_advice_facts *f)
{
    double device_ms = (f->step_ms - idle_of(f)) / (f->accumulation > 0 ? f->accumulation : 1);
    double needed = device_ms > 0 ? ceil(f->load_ms / device_ms) : 1024;
    return needed < 1 ? 1 : needed > 1024 ? 1024 : (int)needed;
}

static clt_advice_kind about_data(const clt_advice_facts *f, char *text, size_t size)
{
    int needed = threads_needed(f), most = THREADS_PER_CPU * (f->cpus > 0 ? f->cpus : 1);
    int target = needed < most ? needed : most;
    int n = opening(f, text, size);
    char *rest = text + n, load[SPAN];
    size_t left = size - (size_t)n;
    span(f->load_ms, load);
    if (target > f->workers) {
        snprintf(rest, left,
                 " waiting for data: a thread loads a micro-batch in %s; try data.workers=%d (now %d)", load,
                 target, f->workers);
        return CLT_ADVICE_WORKERS;
    }
    if (f->prefetch < MOST_PREFETCH && needed <= f->workers) {
        int wanted = 2 * f->prefetch;
        snprintf(rest, left,
                 " waiting for data although %d threads load fast enough on average; try data.prefetch=%d "
                 "(now %d) to bridge slow moments",
                 f->workers, wanted < MOST_PREFETCH ? wanted : MOST_PREFETCH, f->prefetch);
        return CLT_ADVICE_PREFETCH;
    }
    snprintf(rest, left,
             " waiting for data: a thread loads a micro-batch in %s, and %d threads run on %d cores; more "
             "data.workers will not help: store the data in a form that is faster to read",
             load, f->workers, f->cpus);
    return CLT_ADVICE_DATA;
}

static clt_advice_kind about_comm(const clt_advice_facts *f, char *text, size_t size)
{
    int n = opening(f, text, size);
    snprintf(
        text + n, size - (size_t)n,
        " waiting for the other ranks' gradients; try data.global_batch=%lld (now %lld): %d micro-batches "
        "instead of %d between two sums; it changes the batch that a step learns from",
        (long long)(2 * f->global_batch), (long long)f->global_batch, 2 * f->accumulation, f->accumulation);
    return CLT_ADVICE_ACCUMULATE;
}

void clt_advice_count(clt_advice_facts *f, double utilization, double comm_ms)
{
    double idle = utilization >= 0 && utilization < CLT_ADVICE_USED ? (1 - utilization) * f->step_ms : 0;
    f->counted = true;
    f->idle_input_ms = fmin(f->data_ms, idle);
    f->idle_comm_ms = f->ranks > 1 && comm_ms > 0 ? fmin(comm_ms, idle - f->idle_input_ms) : 0;
    f->idle_host_ms = idle - f->idle_input_ms - f->idle_comm_ms;
}

bool clt_advice_halves(const clt_advice_facts *f)
{
    return f->accumulation % 2 == 0 && f->global_batch == f->micro_batch * f->accumulation * f->ranks;
}

static clt_advice_kind about_host(const clt_advice_facts *f, char *text, size_t size)
{
    double run = f->commands ? (f->step_ms - idle_of(f)) / (double)f->commands : 0;
    char each[SPAN];
    long long micro = (long long)f->micro_batch, global = (long long)f->global_batch;
    int n = opening(f, text, size);
    n += snprintf(text + n, size - (size_t)n, " between %zu commands of %s on average", f->commands,
                  span(run, each));
    char *rest = text + n;
    size_t left = size - (size_t)n;
    if (!f->double_misfits && clt_advice_halves(f)) {
        snprintf(rest, left,
                 "; try data.micro_batch=%lld (now %lld): half the number of commands, each larger, for the "
                 "same data.global_batch",
                 2 * micro, micro);
        return CLT_ADVICE_MICRO_BATCH;
    }
    if (!f->double_misfits) {
        snprintf(rest, left,
                 "; try data.micro_batch=%lld data.global_batch=%lld (now %lld and %lld): more work per "
                 "command; it changes the batch that a step learns from",
                 2 * micro, 2 * global, micro, global);
        return CLT_ADVICE_MICRO_BATCH;
    }
    snprintf(rest, left,
             ", and twice data.micro_batch does not fit; try data.global_batch=%lld (now %lld): one update "
             "for twice the number of micro-batches; this changes the batch that a step learns from",
             2 * global, global);
    return CLT_ADVICE_ACCUMULATE;
}

clt_advice_kind clt_advice(const clt_advice_facts *f, char *text, size_t size)
{
    double idle = idle_of(f);
    text[0] = '\0';
    if (f->steps < CLT_ADVICE_STEPS || !(f->step_ms > 0) || !(idle >= CLT_ADVICE_IDLE * f->step_ms) ||
        idle * (double)f->steps < CLT_ADVICE_TOTAL_MS)
        return CLT_ADVICE_NONE;
    /* If the host waits for data while the device has queued work, that costs nothing: only time counts in
     * which the device was idle as well. */
    double data = fmin(f->data_ms, f->idle_input_ms), comm = f->ranks > 1 ? f->idle_comm_ms : 0;
    double host = idle - data - comm;
    if (data >= comm && data >= host)
        return about_data(f, text, size);
    if (comm >= host)
        return about_comm(f, text, size);
    return about_host(f, text, size);
}
