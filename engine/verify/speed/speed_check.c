/* SPDX-License-Identifier: Apache-2.0
 *
 * The checker's mode `perf`: times every command of the timed cases with ocl_work_clock, between two runs of
 * a yardstick. Judges nothing: the times are compared with a later run's. */
#include <stdio.h>
#include <string.h>

#include "cl/command/command_times.h"
#include "cl/measure/timing.h"
#include "cl/measure/yardstick.h"
#include "engine/base/thread.h"
#include "engine/verify/speed/timed.h"

#define LEAST_ROUNDS 5
#define MAX_ROUNDS 31
#define PHASE_SECONDS 0.3   /* seconds for all rounds of a phase */
#define SAMPLE_SECONDS 2e-3 /* about the seconds for which a command is repeated, up to MAX_REPEATS times */
#define MAX_REPEATS 1000
#define LEAST_TIME_SHARE                                                                                     \
    0.05 /* share of the phase's time: commands that take less are not timed separately */

/* The measurements of one command, or of the whole phase: one value for each round. */
typedef struct track {
    double ns[MAX_ROUNDS], bytes[MAX_ROUNDS], flops[MAX_ROUNDS];
    double now;  /* ns, of the current round */
    int repeats; /* runs of a command in a round */
} track;

typedef struct rounds {
    ocl_device *device;
    const clt_realized *realized;
    const ocl_yardstick *yardstick;
    ocl_command_times *times; /* NULL: the process's CPU time is the clock */
    size_t first, count;      /* the commands of the phase */
    track *tracks;            /* count + 1: the last one is for the whole phase */
    int n;
} rounds;

/* Runs a command `repeats` times. *ns: nanoseconds of one run. */
static clt_status time_command(const rounds *r, size_t c, int repeats, double *ns)
{
    double (*clock)(void) = ocl_work_clock(ocl_device_describe(r->device));
    uint64_t before = r->times ? r->times->at[c].total_ns : 0;
    double start = clock();
    for (int i = 0; i < repeats; i++) {
        CLT_TRY(ocl_exec_run_range(r->realized->exec, c, c + 1, NULL));
        if (r->times)
            CLT_TRY(ocl_command_times_collect(r->times));
    }
    CLT_TRY(ocl_finish(r->device, OCL_QUEUE_COMPUTE));
    *ns = (clock() - start) * 1e9 / repeats;
    if (r->times)
        *ns = (double)(r->times->at[c].total_ns - before) / repeats;
    return CLT_OK;
}

/* Finds how many times each command is run in a round. */
static clt_status set_repeats(const rounds *r)
{
    for (size_t c = 0; c < r->count; c++) {
        double ns;
        CLT_TRY(time_command(r, r->first + c, 1, &ns)); /* fills the caches */
        CLT_TRY(time_command(r, r->first + c, 3, &ns));
        double repeats = SAMPLE_SECONDS * 1e9 / (ns > 1.0 ? ns : 1.0);
        r->tracks[c].repeats = repeats < 1.0 ? 1 : repeats > MAX_REPEATS ? MAX_REPEATS : (int)repeats;
    }
    return CLT_OK;
}

static void keep(track *t, int round, double gbs, double gflops)
{
    t->ns[round] = t->now;
    t->bytes[round] = t->now * gbs;
    t->flops[round] = t->now * gflops;
}

/* Runs every command of the phase between two readings of the yardstick; the caller has taken the first
 * reading. */
static clt_status run_round(rounds *r, double *gbs, double *gflops)
{
    double sum = 0.0, gbs_after, gflops_after;
    for (size_t c = 0; c < r->count; c++) {
        CLT_TRY(time_command(r, r->first + c, r->tracks[c].repeats, &r->tracks[c].now));
        sum += r->tracks[c].now;
    }
    r->tracks[r->count].now = sum;
    CLT_TRY(ocl_yardstick_run(r->yardstick, &gbs_after, &gflops_after));
    for (size_t c = 0; c <= r->count; c++)
        keep(&r->tracks[c], r->n, 0.5 * (*gbs + gbs_after), 0.5 * (*gflops + gflops_after));
    *gbs = gbs_after;
    *gflops = gflops_after;
    r->n++;
    return CLT_OK;
}

static const char *work_of(const ocl_command *command)
{
    return command->kernel ? command->kernel : ocl_command_kind_name(command->kind);
}

/* "backward" for the whole phase, "backward/gemm_fwd_lane" or "backward/gemm_fwd_lane#2" for a command. */
static void name_command(const rounds *r, clt_phase phase, size_t at, char *out, size_t size)
{
    const ocl_command *commands = &r->realized->all.commands[r->first];
    int same = 1;
    if (at == r->count) {
        snprintf(out, size, "%s", clt_phase_name(phase));
        return;
    }
    const char *kernel = work_of(&commands[at]);
    for (size_t c = 0; c < at; c++)
        same += strcmp(work_of(&commands[c]), kernel) == 0;
    snprintf(out, size, same > 1 ? "%s/%s#%d" : "%s/%s", clt_phase_name(phase), kernel, same);
}

static void tell_phase(rounds *r, clt_phase phase, clt_verify_outcome *outcome)
{
    double whole = ocl_median(r->tracks[r->count].ns, r->n);
    outcome->ms += whole * 1e-6;
    for (size_t c = r->count + 1; c-- > 0;) { /* the whole phase first */
        track *t = &r->tracks[c];
        double ns = ocl_median(t->ns, r->n);
        if (outcome->n_speeds == CLT_VERIFY_SPEEDS ||
            (c < r->count && (r->count == 1 || ns < LEAST_TIME_SHARE * whole)))
            continue;
        clt_verify_speed *speed = &outcome->speeds[outcome->n_speeds++];
        *speed = (clt_verify_speed){
            .ns = ns, .bytes = ocl_median(t->bytes, r->n), .flops = ocl_median(t->flops, r->n)};
        name_command(r, phase, c, speed->what, sizeof speed->what);
    }
}

static clt_status time_phase(clt_verify_session *session, const ocl_yardstick *yardstick,
                             const clt_realized *realized, clt_phase phase, clt_verify_outcome *outcome)
{
    CLT_SCOPED(ocl_command_times) *times = NULL;
    CLT_FREED track *tracks = NULL;
    rounds r = {.device = session->device,
                .realized = realized,
                .yardstick = yardstick,
                .first = realized->first[phase],
                .count = realized->last[phase] - realized->first[phase]};
    double gbs, gflops;
    if (r.count == 0)
        return CLT_OK;
    CLT_TRY(clt_alloc(&tracks, r.count + 1, sizeof *tracks, "times of commands"));
    r.tracks = tracks;
    if (!session->desc.is_cpu)
        CLT_TRY(ocl_command_times_start(session->device, &realized->all, 1, &times));
    r.times = times;
    CLT_TRY(set_repeats(&r));
    CLT_TRY(ocl_yardstick_run(yardstick, &gbs, &gflops));
    for (double until = clt_now() + PHASE_SECONDS;
         r.n < LEAST_ROUNDS || (r.n < MAX_ROUNDS && clt_now() < until);)
        CLT_TRY(run_round(&r, &gbs, &gflops));
    tell_phase(&r, phase, outcome);
    return CLT_OK;
}

static clt_status time_case(clt_verify_session *session, const clt_timed *timed, clt_verify_outcome *outcome)
{
    static const clt_phase phases[] = {CLT_PHASE_FORWARD, CLT_PHASE_BACKWARD, CLT_PHASE_UPDATE};
    CLT_SCOPED(ocl_yardstick) *yardstick = NULL;
    CLT_SCOPED(clt_verify_bench) *bench = NULL;
    CLT_TRY(ocl_yardstick_create(session->device, &yardstick));
    CLT_TRY(clt_timed_create(session->device, timed, &bench));
    for (size_t p = 0; p < sizeof phases / sizeof phases[0]; p++)
        CLT_TRY(time_phase(session, yardstick, bench->realized, phases[p], outcome));
    return CLT_OK;
}

clt_status clt_verify_speeds(clt_verify_session *session)
{
    clt_timed timed;
    for (int i = 0; clt_timed_at(i, &timed); i++) {
        clt_verify_item item = {timed.subject, timed.name, NULL, CLT_VERIFY_PERF, true, false};
        clt_verify_outcome outcome;
        if (clt_verify_wants(session, &item, &outcome))
            CLT_TRY(clt_verify_finish(session, &outcome, time_case(session, &timed, &outcome)));
    }
    return CLT_OK;
}
