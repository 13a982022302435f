/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures the speed of ops: runs cases of realistic sizes (clt_op_ref.timed) on the device, one phase after
 * the other, and a stream (a memory bandwidth test) before and after each timing. Knows plans, and for each
 * command its bytes, its operations and its kind of stores. */
#include "engine/verify/speed/speed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl/command/command_times.h"
#include "cl/measure/timing.h"
#include "engine/base/thread.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/verify/speed/speed_internal.h"
#include "engine/verify/speed/timed.h"

#define LEAST_ROUNDS 5
#define MAX_ROUNDS 99

typedef struct speed_session {
    const clt_speed_options *options;
    ocl_device *device;
    ocl_device_desc desc;
    ocl_limits limits;
    ocl_stream *stream;
    int matched;
} speed_session;

/* --- one phase --- */

/* Results of all rounds for one command, or for the whole phase. */
typedef struct speed_track {
    double ns[MAX_ROUNDS], share[MAX_ROUNDS];
} speed_track;

typedef struct speed_rounds {
    clt_realized *realized;
    ocl_command_times *times;
    size_t first, count; /* the commands of the phase */
    bool large;          /* the phase's data does not fit into any cache */
    speed_track *tracks; /* count + 1: the last one is for the whole phase */
    uint64_t *before;    /* count: total_ns of each command before this round */
    int rounds;
    double stream[2][MAX_ROUNDS + 1]; /* GB/s of plain and nontemporal streams, before and after each round */
} speed_rounds;

static void rounds_destroy(speed_rounds *r)
{
    if (r == NULL)
        return;
    ocl_command_times_stop(r->times);
    free(r->tracks);
    free(r->before);
    free(r);
}
CLT_SCOPED_POINTER(speed_rounds, rounds_destroy)

static double middle(const double *values, int n)
{
    double sorted[MAX_ROUNDS];
    memcpy(sorted, values, (size_t)n * sizeof *sorted);
    return ocl_median(sorted, n);
}

static clt_status run_streams(const speed_session *s, speed_rounds *r, int at)
{
    CLT_TRY(ocl_stream_triad(s->stream, false, &r->stream[0][at]));
    return ocl_stream_triad(s->stream, true, &r->stream[1][at]);
}

/* Runs the phase between two streams. The first stream evicts data that would fit into the caches, so the
 * phase is run once before it is timed. */
static clt_status run_round(const speed_session *s, clt_phase phase, speed_rounds *r)
{
    const ocl_command_time *times = r->times->at;
    int i = r->rounds;
    speed_track *whole = &r->tracks[r->count];
    double streamed = 0.0;
    if (!r->large) {
        CLT_TRY(clt_realized_run(r->realized, phase));
        CLT_TRY(ocl_command_times_collect(r->times));
    }
    for (size_t c = 0; c < r->count; c++)
        r->before[c] = times[r->first + c].total_ns;
    CLT_TRY(clt_realized_run(r->realized, phase));
    CLT_TRY(ocl_command_times_collect(r->times));
    CLT_TRY(run_streams(s, r, i + 1));
    whole->ns[i] = 0.0;
    for (size_t c = 0; c < r->count; c++) {
        const ocl_command *command = &r->realized->all.commands[r->first + c];
        const double *gbs = r->stream[clt_stores_past_caches(command)];
        double ns = (double)(times[r->first + c].total_ns - r->before[c]);
        double share = clt_speed_share((double)ocl_command_bytes(command), ns, gbs[i], gbs[i + 1]);
        r->tracks[c].ns[i] = ns;
        r->tracks[c].share[i] = share;
        whole->ns[i] += ns;
        streamed += share * fmax(ns, 1.0);
    }
    whole->share[i] = streamed / fmax(whole->ns[i], 1.0);
    r->rounds++;
    return CLT_OK;
}

static bool is_large(const ocl_device_desc *desc, double bytes)
{
    /* drivers of GPUs report only first-level caches; second-level caches have up to 72 MB */
    double cache =
        desc->is_cpu && desc->cache_bytes ? (double)desc->cache_bytes : fmax(64e6, (double)desc->cache_bytes);
    return bytes > 4.0 * cache;
}

double clt_speed_share(double bytes, double ns, double gbs_before, double gbs_after)
{
    return bytes / (0.5 * (gbs_before + gbs_after)) / fmax(ns, 1.0);
}

bool clt_speed_streams(const ocl_device_desc *desc, const ocl_limits *limits, double bytes, double flops)
{
    return is_large(desc, bytes) && flops / limits->fma_peak_gflops < bytes / limits->stream_gbs;
}

bool clt_speed_too_slow(const clt_speed_result *result, double percent)
{
    return !result->refusal && result->streams && !(100.0 * result->share >= percent);
}

static void report(const speed_session *s, const speed_rounds *r, clt_phase phase, const char *name)
{
    double bytes = 0.0, flops = 0.0;
    bool all_nontemporal = r->count > 0;
    for (size_t c = 0; c < r->count; c++) {
        const ocl_command *command = &r->realized->all.commands[r->first + c];
        bytes += (double)ocl_command_bytes(command);
        flops += command->flops;
        all_nontemporal = all_nontemporal && clt_stores_past_caches(command);
    }
    for (size_t c = 0; c <= r->count; c++) {
        const ocl_command *command =
            c > 0 ? &r->realized->all.commands[r->first + c - 1] : NULL; /* 0 is the whole phase */
        const speed_track *t = &r->tracks[c > 0 ? c - 1 : r->count];
        double ns = middle(t->ns, r->rounds), b = command ? (double)ocl_command_bytes(command) : bytes,
               f = command ? command->flops : flops;
        clt_speed_result result = {.name = name,
                                   .direction = clt_phase_name(phase),
                                   .ms = ns * 1e-6,
                                   .gbs = b / fmax(ns, 1.0),
                                   .gflops = f / fmax(ns, 1.0),
                                   .share = b > 0.0 ? middle(t->share, r->rounds) : NAN,
                                   .streams = clt_speed_streams(&s->desc, &s->limits, b, f),
                                   .nontemporal =
                                       command ? clt_stores_past_caches(command) : all_nontemporal};
        if (command)
            result.kernel = command->kernel ? command->kernel : ocl_command_kind_name(command->kind);
        s->options->result(s->options->context, &result);
    }
}

/* Times a phase and reports the results of the phase and of its commands. */
static clt_status measure_phase(const speed_session *s, clt_realized *realized, clt_phase phase,
                                const char *name)
{
    CLT_SCOPED(speed_rounds) *r = NULL;
    if (realized->first[phase] == realized->last[phase])
        return CLT_OK;
    CLT_TRY(clt_alloc(&r, 1, sizeof *r, "a speed measurement"));
    r->realized = realized;
    r->first = realized->first[phase];
    r->count = realized->last[phase] - r->first;
    double bytes = 0.0;
    for (size_t c = 0; c < r->count; c++)
        bytes += (double)ocl_command_bytes(&realized->all.commands[r->first + c]);
    r->large = is_large(&s->desc, bytes);
    CLT_TRY(clt_alloc(&r->tracks, r->count + 1, sizeof *r->tracks, "a speed measurement"));
    CLT_TRY(clt_alloc(&r->before, r->count, sizeof *r->before, "a speed measurement"));
    CLT_TRY(ocl_command_times_start(s->device, &realized->all, 1, &r->times));
    CLT_TRY(run_streams(s, r, 0));
    for (double until = clt_now() + s->options->seconds;
         r->rounds < LEAST_ROUNDS || (r->rounds < MAX_ROUNDS && clt_now() < until);)
        CLT_TRY(run_round(s, phase, r));
    report(s, r, phase, name);
    return CLT_OK;
}

/* --- one case --- */

static clt_status measure_case(speed_session *s, const clt_timed *timed, const char *name)
{
    static const clt_phase phases[] = {CLT_PHASE_FORWARD, CLT_PHASE_BACKWARD, CLT_PHASE_UPDATE};
    CLT_SCOPED(clt_verify_bench) *bench = NULL;
    CLT_TRY(clt_timed_create(s->device, timed, &bench));
    for (size_t p = 0; p < sizeof phases / sizeof phases[0]; p++)
        CLT_TRY(measure_phase(s, bench->realized, phases[p], name));
    return CLT_OK;
}

/* A case that does not fit into the machine's memory is reported and skipped. */
static clt_status run_case(speed_session *s, const clt_timed *timed)
{
    char name[128];
    snprintf(name, sizeof name, "%s.%s", timed->subject, timed->name);
    if (!clt_verify_match(s->options->pattern, name))
        return CLT_OK;
    s->matched++;
    clt_status status = measure_case(s, timed, name);
    if (status != CLT_EDEVMEM)
        return status == CLT_OK ? CLT_OK : clt_fail_prefix(status, "timing %s: ", name);
    s->options->result(s->options->context, &(clt_speed_result){.name = name, .refusal = clt_error_text()});
    clt_error_clear();
    return CLT_OK;
}

/* --- the run --- */

static clt_status run(speed_session *s)
{
    CLT_SCOPED(ocl_device) *device = NULL;
    CLT_SCOPED(ocl_stream) *stream = NULL;
    ocl_open_options open = {
        .spec = s->options->device_spec, .caps_mask = s->options->caps_mask, .profiling = true};
    CLT_TRY(ocl_device_open(&open, &device));
    s->device = device;
    s->desc = *ocl_device_describe(device);
    CLT_TRY(ocl_measure_limits(device, 1.0, &s->limits));
    CLT_TRY(ocl_stream_create(device, &stream));
    s->stream = stream;
    s->options->limits(s->options->context, &s->desc, &s->limits);
    clt_timed timed;
    for (int i = 0; clt_timed_at(i, &timed); i++)
        CLT_TRY(run_case(s, &timed));
    return CLT_OK;
}

clt_status clt_speed_run(const clt_speed_options *options)
{
    speed_session session = {.options = options};
    CLT_TRY(run(&session));
    if (session.matched == 0)
        CLT_FAIL(CLT_EUSAGE, "bench ops: no case matches '%s'; a name is 'gelu.large', 'update.adamw_large'",
                 options->pattern ? options->pattern : "");
    return CLT_OK;
}
