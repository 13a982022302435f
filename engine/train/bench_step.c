/* SPDX-License-Identifier: Apache-2.0
 *
 * bench step: real steps on random data of the config's shapes. First unprofiled steps for step time and host
 * time, then the phases one by one, each waited for, for the time per phase. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/thread.h"
#include "engine/report/profile.h"
#include "engine/train/run.h"

typedef struct bench {
    clt_run *run;
    int warmup, steps, rounds;
    bool profile;
    double *ms;                       /* per counted step */
    double host_ms;                   /* main thread's CPU time per step */
    double phase_ms[CLT_PHASE_COUNT]; /* per step */
    double feed_ms;
} bench;

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static clt_status timed_steps(bench *b)
{
    clt_step_result result;
    bool have;
    double last = 0, cpu = 0;
    for (int i = 0; i < b->warmup + b->steps; i++) {
        if (i == b->warmup)
            cpu = clt_thread_cpu();
        CLT_TRY(clt_step(b->run, i));
        CLT_TRY(clt_reporter_take(b->run->reporter, true, &result, &have));
        if (i >= b->warmup)
            b->ms[i - b->warmup] = (result.done_at - last) * 1e3;
        last = result.done_at;
    }
    b->host_ms = (clt_thread_cpu() - cpu) * 1e3 / b->steps;
    return CLT_OK;
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
    b->rounds = b->steps < 5 ? b->steps : 5;
    clt_fed fed;
    ocl_exec_profile(b->run->train->exec, b->profile);
    for (int i = 0; i < b->rounds; i++) {
        for (int32_t micro = 0; micro < b->run->job->accumulation; micro++) {
            double start = clt_now();
            CLT_TRY(clt_feed_next(b->run->feed, &fed));
            CLT_TRY(ocl_finish(b->run->device, OCL_QUEUE_COMPUTE));
            b->feed_ms += (clt_now() - start) * 1e3;
            CLT_TRY(timed_phase(b, CLT_PHASE_FORWARD));
            CLT_TRY(timed_phase(b, micro == 0 ? CLT_PHASE_BACKWARD : CLT_PHASE_BACKWARD_ADD));
        }
        CLT_TRY(timed_phase(b, CLT_PHASE_UPDATE));
        if (b->profile)
            CLT_TRY(ocl_exec_collect(b->run->train->exec));
    }
    for (int p = 0; p < CLT_PHASE_COUNT; p++)
        b->phase_ms[p] /= b->rounds;
    b->feed_ms /= b->rounds;
    return CLT_OK;
}

static double median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, by_value);
    return n % 2 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
}

static double step_flops(const clt_plan *plan)
{
    double forward = 0, backward = 0, update = 0;
    for (size_t i = 0; i < plan->phase[CLT_PHASE_FORWARD].count; i++)
        forward += plan->phase[CLT_PHASE_FORWARD].commands[i].flops;
    for (size_t i = 0; i < plan->phase[CLT_PHASE_BACKWARD].count; i++)
        backward += plan->phase[CLT_PHASE_BACKWARD].commands[i].flops;
    for (size_t i = 0; i < plan->phase[CLT_PHASE_UPDATE].count; i++)
        update += plan->phase[CLT_PHASE_UPDATE].commands[i].flops;
    return (forward + backward) * plan->options.accumulation + update;
}

static clt_status write_result(const bench *b, double step_ms, clt_str *text, clt_str *json)
{
    const clt_run *run = b->run;
    const clt_job *job = run->job;
    const ocl_device_desc *d = ocl_device_describe(run->device);
    double samples = (double)job->global_batch / step_ms * 1e3;
    double tokens = samples * (double)job->train->graph->losses[0].targets_per_sample;
    clt_str_printf(text, "device %s, driver %s\n", d->name, d->driver);
    clt_str_printf(text, "step %.3f ms (median of %d), %.1f samples/s, %.2f GFLOP/s\n", step_ms, b->steps,
                   samples, step_flops(job->train) / step_ms * 1e-6);
    clt_str_printf(text, "host %.3f ms per step, %zu commands, %.1f MiB on the device, build %.2f s\n",
                   b->host_ms, clt_plan_commands(job->train),
                   (double)ocl_device_peak_bytes(run->device) / 1048576.0, run->build_seconds);
    clt_json_writer w = clt_json_writer_make(json, 2);
    clt_jw_object(&w);
    clt_jw_kstring(&w, "device", d->name);
    clt_jw_kstring(&w, "driver", d->driver);
    clt_jw_kstring(&w, "version", CLT_VERSION);
    clt_jw_kdouble(&w, "step_ms", step_ms);
    clt_jw_kint(&w, "steps", b->steps);
    clt_jw_kdouble(&w, "samples_per_s", samples);
    clt_jw_kdouble(&w, "tokens_per_s", tokens);
    clt_jw_kdouble(&w, "gflops", step_flops(job->train) / step_ms * 1e-6);
    clt_jw_kint(&w, "device_bytes", (int64_t)ocl_device_peak_bytes(run->device));
    clt_jw_kint(&w, "commands", (int64_t)clt_plan_commands(job->train));
    clt_jw_kdouble(&w, "host_ms", b->host_ms);
    clt_jw_kdouble(&w, "build_s", run->build_seconds);
    clt_jw_kint(&w, "parameters", clt_graph_param_elements(job->train->graph));
    clt_jw_kint(&w, "micro_batch", job->micro_batch);
    clt_jw_kint(&w, "accumulation", job->accumulation);
    clt_jw_key(&w, "phases");
    clt_jw_object(&w);
    clt_jw_kdouble(&w, "feed", b->feed_ms);
    for (int p = 0; p < CLT_PHASE_COUNT; p++) {
        if (job->train->phase[p].count == 0)
            continue;
        clt_str_printf(text, "  %-13s %9.3f ms\n", clt_phase_name((clt_phase)p), b->phase_ms[p]);
        clt_jw_kdouble(&w, clt_phase_name((clt_phase)p), b->phase_ms[p]);
    }
    clt_jw_end_object(&w);
    if (b->profile) {
        CLT_TRY(clt_profile_text(run->train, b->rounds, text));
        clt_jw_key(&w, "profile");
        CLT_TRY(clt_profile_json(run->train, b->rounds, &w));
    }
    clt_jw_end_object(&w);
    clt_str_append(json, "\n");
    return clt_str_check(json);
}

static clt_status measure(bench *b, clt_str *text, clt_str *json)
{
    clt_run *run = b->run;
    int64_t workers = clt_config_int(run->options->config, "data.workers");
    clt_feed_options feed = {.realized = run->train,
                             .source = run->job->train_source,
                             .global_batch = run->job->global_batch,
                             .accumulation = run->job->accumulation,
                             .ranks = 1,
                             .seed = run->job->seed,
                             .last_step = b->warmup + b->steps + 5,
                             .workers = workers < 0 ? clt_loader_auto_workers(1) : (int)workers,
                             .prefetch = (int)clt_config_int(run->options->config, "data.prefetch")};
    CLT_TRY(clt_reporter_create(run->train, 4, &run->reporter));
    CLT_TRY(clt_feed_create(&feed, &run->feed));
    CLT_TRY(timed_steps(b));
    CLT_TRY(timed_phases(b));
    return write_result(b, median(b->ms, b->steps), text, json);
}

clt_status clt_bench_step(const clt_bench_options *options, clt_str *text, clt_str *json)
{
    clt_run_options run = {.config = options->config,
                           .device_spec = options->device_spec,
                           .caps_mask = options->caps_mask,
                           .profile = options->profile,
                           .observer = options->observer};
    bench b = {.profile = options->profile,
               .warmup = options->warmup > 0 ? options->warmup : 1,
               .steps = options->steps > 0 ? options->steps : 1};
    CLT_TRY(clt_run_create(&run, CLT_JOB_SYNTHETIC, &b.run));
    clt_status status = clt_alloc(&b.ms, (size_t)b.steps, sizeof *b.ms, "bench");
    if (status == CLT_OK)
        status = measure(&b, text, json);
    clt_run_destroy(b.run);
    free(b.ms);
    return status;
}
