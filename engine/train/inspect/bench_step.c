/* SPDX-License-Identifier: Apache-2.0
 *
 * bench step: real training steps on random data of the config's shapes, enqueued ahead of the device as the
 * trainer does. First plain steps, for step time and host time; then a few whose OpenCL calls are timed
 * (metered); with --profile a few with every command timed; at the end the phases one by one, waiting for
 * each. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cl/measure/timing.h"
#include "cl/program/programs.h"
#include "engine/base/text.h"
#include "engine/base/thread.h"
#include "engine/train/inspect/bench_step.h"
#include "engine/train/inspect/watch.h"
#include "engine/train/run/run.h"

#define METERED_PHASE_STEPS 50 /* steps, fewer when a step has many commands; every second step is metered */
#define MOST_PROFILED_STEPS 10 /* most steps profiled */
#define MOST_WAITED_STEPS 5

typedef struct bench {
    clt_run *run;
    clt_watch *watch;
    int warmup, steps, rounds, metered, profiled;
    bool profile, trace;
    double *ms;     /* time of each measured step */
    double host_ms; /* the main thread's CPU time per step */
    double inside_ms, outside_ms, calls;
    double busy, h2d_gbs, d2h_gbs;    /* NAN: unknown */
    double phase_ms[CLT_PHASE_COUNT]; /* time of each phase per step */
    double feed_ms;
    int64_t next; /* number of the step to enqueue next */
} bench;

/* Takes the results of finished steps; all: waits for every step. Stores the times of the steps from `first`
 * on in `ms`, unless it is NULL. */
static clt_status take(bench *b, bool all, int64_t first, double *last, double *ms)
{
    clt_step_result result;
    clt_step_metrics m;
    bool have = true;
    while (have) {
        CLT_TRY(clt_reporter_take(b->run->reporter, all, &result, &have));
        if (!have)
            break;
        memset(&m, 0, sizeof m);
        clt_watch_digest(b->watch, result.step, &m);
        if (isfinite(m.h2d_gbs))
            b->h2d_gbs = m.h2d_gbs;
        if (isfinite(m.d2h_gbs))
            b->d2h_gbs = m.d2h_gbs;
        if (ms && result.step >= first)
            ms[result.step - first] = (result.done_at - *last) * 1e3;
        *last = result.done_at;
    }
    return CLT_OK;
}

/* Enqueues n steps and waits for the last one. */
static clt_status run_steps(bench *b, int64_t n, int64_t first, double *ms, double *cpu)
{
    double last = clt_now();
    for (int64_t i = 0; i < n; i++, b->next++) {
        CLT_TRY(clt_reporter_room(b->run->reporter));
        CLT_TRY(take(b, false, first, &last, ms));
        if (cpu && b->next == first)
            *cpu = clt_thread_cpu();
        clt_watch_begin(b->watch, b->next);
        CLT_TRY(clt_step(b->run, b->next));
        clt_watch_end(b->watch, b->next);
    }
    return take(b, true, first, &last, ms);
}

static clt_status timed_steps(bench *b)
{
    double cpu = 0;
    clt_watch_mode(b->watch, false, 0);
    CLT_TRY(run_steps(b, b->warmup + b->steps, b->warmup, b->ms, &cpu));
    b->host_ms = (clt_thread_cpu() - cpu) * 1e3 / b->steps;
    b->busy = clt_watch_busy(b->watch);
    clt_watch_mode(b->watch, false, 2);
    CLT_TRY(run_steps(b, b->metered, 0, NULL, NULL));
    clt_watch_mode(b->watch, b->profile, 0);
    clt_watch_begin(b->watch, b->next); /* ends the last metered step */
    clt_watch_host(b->watch, &b->inside_ms, &b->outside_ms, &b->calls);
    return b->profile ? run_steps(b, b->profiled, 0, NULL, NULL) : CLT_OK;
}

static clt_status timed_phase(bench *b, clt_phase phase)
{
    double start = clt_now();
    CLT_TRY(clt_realized_run(b->run->train, phase));
    CLT_TRY(ocl_finish(b->run->device, OCL_QUEUE_COMPUTE));
    b->phase_ms[phase] += (clt_now() - start) * 1e3;
    return CLT_OK;
}

static clt_status timed_phases(bench *b)
{
    clt_fed fed;
    clt_watch_break(b->watch, true);
    for (int i = 0; i < b->rounds; i++) {
        for (int32_t micro = 0; micro < b->run->job->accumulation; micro++) {
            double start = clt_now();
            CLT_TRY(clt_feed_next(b->run->feed, &fed));
            CLT_TRY(ocl_finish(b->run->device, OCL_QUEUE_COMPUTE));
            b->feed_ms += (clt_now() - start) * 1e3;
            CLT_TRY(timed_phase(b, CLT_PHASE_FORWARD));
            CLT_TRY(timed_phase(b, clt_plan_backward(b->run->train->plan, micro)));
            CLT_TRY(micro + 1 < b->run->job->accumulation ? timed_phase(b, CLT_PHASE_ROWS) : CLT_OK);
        }
        CLT_TRY(timed_phase(b, CLT_PHASE_UPDATE));
    }
    for (int p = 0; p < CLT_PHASE_COUNT; p++)
        b->phase_ms[p] /= b->rounds;
    b->feed_ms /= b->rounds;
    return CLT_OK;
}

static void write_text(const bench *b, double step_ms, double samples, clt_str *text)
{
    const clt_run *run = b->run;
    const ocl_device_desc *d = ocl_device_describe(run->device);
    clt_str_printf(text, "device %s, driver %s\n", d->name, d->driver);
    clt_str_printf(text, "step %.3f ms (median of %d), %.1f samples/s, %.2f GFLOP/s", step_ms, b->steps,
                   samples, clt_plan_flops(run->job->train) / step_ms * 1e-6);
    if (isfinite(b->busy))
        clt_str_printf(text, ", device busy %.1f %%", 100 * b->busy);
    clt_str_printf(text,
                   "\nhost %.3f ms per step (metered: %.3f outside OpenCL calls, %.3f inside %.0f of them), "
                   "%zu command%s, %.1f MiB on the device, build %.2f s\n",
                   b->host_ms, b->outside_ms, b->inside_ms, b->calls, clt_plan_commands(run->job->train),
                   CLT_PLURAL(clt_plan_commands(run->job->train)),
                   (double)ocl_device_peak_bytes(run->device) / 1048576.0, run->build_seconds);
    for (int p = 0; p < CLT_PHASE_COUNT; p++)
        if (run->job->train->phase[p].count > 0)
            clt_str_printf(text, "  %-13s %9.3f ms\n", clt_phase_name((clt_phase)p), b->phase_ms[p]);
}

/* Writes how long building the programs took: in total, and for each program on its thread. */
static clt_status write_programs(const clt_run *run, clt_json_writer *w)
{
    CLT_FREED ocl_program_info *list = NULL;
    size_t count;
    ocl_counters counters = ocl_device_counters(run->device);
    CLT_TRY(ocl_device_programs(run->device, &list, &count));
    clt_jw_kobject(w, "programs");
    int64_t loaded = 0;
    double seconds = 0.0;
    for (size_t i = 0; i < count; i++) {
        loaded += list[i].from_cache;
        seconds += list[i].seconds;
    }
    clt_jw_kint(w, "built", (int64_t)count); /* number that includes programs of the probes */
    clt_jw_kint(w, "from_cache", loaded);
    clt_jw_kint(w, "binaries_refused", (int64_t)counters.binaries_refused);
    clt_jw_kdouble(w, "seconds", seconds);
    clt_jw_karray(w, "list");
    for (size_t i = 0; i < count; i++) {
        clt_jw_object(w);
        clt_jw_kstring(w, "family", list[i].family);
        clt_jw_kstring(w, "options", list[i].options);
        clt_jw_kdouble(w, "seconds", list[i].seconds);
        clt_jw_kstring(w, "from", list[i].from_cache ? "cache" : "source");
        clt_jw_end_object(w);
    }
    clt_jw_end_array(w);
    clt_jw_end_object(w);
    return CLT_OK;
}

static clt_status write_json(const bench *b, double step_ms, double samples, clt_json_writer *w)
{
    const clt_run *run = b->run;
    const clt_job *job = run->job;
    const ocl_device_desc *d = ocl_device_describe(run->device);
    clt_jw_kstring(w, "device", d->name);
    clt_jw_kstring(w, "driver", d->driver);
    clt_jw_kstring(w, "version", CLT_VERSION);
    clt_jw_kdouble(w, "step_ms", step_ms);
    clt_jw_kint(w, "steps", b->steps);
    clt_jw_kdouble(w, "samples_per_s", samples);
    if (clt_graph_tokens(job->train->graph) > 1)
        clt_jw_kdouble(w, "tokens_per_s", samples * (double)clt_graph_tokens(job->train->graph));
    clt_jw_kdouble(w, "gflops", clt_plan_flops(job->train) / step_ms * 1e-6);
    clt_jw_kdouble(w, "device_busy", b->busy);
    clt_jw_kdouble(w, "h2d_gbs", b->h2d_gbs);
    clt_jw_kdouble(w, "d2h_gbs", b->d2h_gbs);
    clt_jw_kint(w, "device_bytes", (int64_t)ocl_device_peak_bytes(run->device));
    clt_jw_kint(w, "commands", (int64_t)clt_plan_commands(job->train));
    clt_jw_kdouble(w, "host_ms", b->host_ms);
    clt_jw_kdouble(w, "host_outside_opencl_ms", b->outside_ms);
    clt_jw_kdouble(w, "host_inside_opencl_ms", b->inside_ms);
    clt_jw_kdouble(w, "build_s", run->build_seconds);
    clt_jw_kint(w, "parameters", clt_graph_param_elements(job->train->graph));
    clt_jw_kint(w, "micro_batch", job->micro_batch);
    clt_jw_kint(w, "accumulation", job->accumulation);
    clt_jw_kobject(w, "phases");
    clt_jw_kdouble(w, "feed", b->feed_ms);
    for (int p = 0; p < CLT_PHASE_COUNT; p++)
        if (job->train->phase[p].count > 0)
            clt_jw_kdouble(w, clt_phase_name((clt_phase)p), b->phase_ms[p]);
    clt_jw_end_object(w);
    return write_programs(run, w);
}

static clt_status write_result(const bench *b, clt_str *text, clt_str *json, clt_str *trace)
{
    double step_ms = ocl_median(b->ms, b->steps), samples = (double)b->run->job->global_batch / step_ms * 1e3;
    int64_t first, last;
    write_text(b, step_ms, samples, text);
    clt_json_writer w = clt_json_writer_make(json, 2);
    clt_jw_object(&w);
    CLT_TRY(write_json(b, step_ms, samples, &w));
    if (b->profile) {
        clt_watch_measure_limits(b->watch);
        clt_str_append(text, "\n");
        CLT_TRY(clt_profile_text(clt_watch_profile(b->watch), text));
        clt_jw_key(&w, "profile");
        CLT_TRY(clt_profile_json(clt_watch_profile(b->watch), &w));
    }
    if (trace && clt_watch_trace_window(b->watch, &first, &last))
        CLT_TRY(clt_watch_trace(b->watch, trace));
    clt_jw_end_object(&w);
    clt_str_append(json, "\n");
    CLT_TRY(clt_str_check(text));
    return clt_str_check(json);
}

static clt_status measure(bench *b, clt_str *text, clt_str *json, clt_str *trace)
{
    clt_run *run = b->run;
    int64_t workers = clt_config_int(run->options->config, "data.workers");
    int depth = clt_reporter_depth(run->job->train);
    b->metered = clt_plan_commands(run->job->train) < 250 ? METERED_PHASE_STEPS : 4;
    int64_t profiled_from = b->warmup + b->steps + b->metered, last = profiled_from + b->profiled;
    clt_feed_options feed = {.realized = run->train,
                             .source = run->job->train_source,
                             .global_batch = run->job->global_batch,
                             .accumulation = run->job->accumulation,
                             .ranks = 1,
                             .seed = run->job->seed,
                             .last_step = last + b->rounds,
                             .workers = workers < 0 ? clt_loader_auto_workers(1) : (int)workers,
                             .prefetch = (int)clt_config_int(run->options->config, "data.prefetch")};
    clt_watch_options watch = {.profile = b->profile,
                               .trace = trace != NULL,
                               .trace_from = b->profiled > 2 ? profiled_from + 2 : profiled_from,
                               .last_step = last,
                               .depth = depth,
                               .workers = feed.workers};
    CLT_TRY(clt_watch_create(run, &watch, &b->watch));
    CLT_TRY(clt_reporter_create(run->train, depth, &run->reporter));
    CLT_TRY(clt_feed_create(&feed, &run->feed));
    CLT_TRY(timed_steps(b));
    CLT_TRY(timed_phases(b));
    return write_result(b, text, json, trace);
}

static void bench_free(bench *b)
{
    clt_watch_destroy(b->watch);
    clt_run_destroy(b->run);
    free(b->ms);
}
CLT_SCOPED_VALUE(bench, bench_free)

clt_status clt_bench_step(const clt_bench_options *options, clt_str *text, clt_str *json, clt_str *trace)
{
    clt_run_options run = {.config = options->config,
                           .device_spec = options->device_spec,
                           .caps_mask = options->caps_mask,
                           .profile = options->profile,
                           .observer = options->observer};
    int steps = options->steps > 0 ? options->steps : 1;
    int profiled = steps < MOST_PROFILED_STEPS ? steps : MOST_PROFILED_STEPS;
    CLT_SCOPED(bench) b = {.profile = options->profile,
                           .warmup = options->warmup > 0 ? options->warmup : 1,
                           .steps = steps,
                           .rounds = steps < MOST_WAITED_STEPS ? steps : MOST_WAITED_STEPS,
                           .profiled = options->profile ? profiled : 0,
                           .busy = NAN,
                           .h2d_gbs = NAN,
                           .d2h_gbs = NAN};
    CLT_TRY(clt_run_create(&run, CLT_JOB_SYNTHETIC, &b.run));
    CLT_TRY(clt_alloc(&b.ms, (size_t)b.steps, sizeof *b.ms, "bench"));
    return measure(&b, text, json, options->profile ? trace : NULL);
}
