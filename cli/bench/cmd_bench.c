/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain bench: dispatches to its parts and implements the two short ones, memory and step. The others have
 * a file each, such as `bench_gemm.c`. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cl/measure/limits.h"
#include "cl/program/binary.h"
#include "cl/program/programs.h"
#include "cli/bench/bench.h"
#include "cli/screen/console.h"
#include "cli/screen/terminal.h"
#include "engine/json/json.h"
#include "engine/train/inspect/bench_step.h"

static const args_part parts[] = {
    {"gemm", "matrix products against the device's measured limits", bench_gemm},
    {"ops", "the checker's cases of every op, timed", bench_ops},
    {"memory", "arithmetic, memory and transfer limits of the device", bench_memory},
    {"step", "a training step of a config, on synthetic input", bench_step},
    {"build", "the programs of a config: seconds, registers and spills of each", bench_build},
    {"loader", "the threads that read and decode a config's data", bench_loader},
    {"allreduce", "sums over ranks, in the form of nccl-tests", bench_allreduce},
    {NULL, NULL, NULL},
};

clt_status cmd_bench(cmd_context *context, int argc, char **argv)
{
    const args_option options[] = {ARGS_END};
    const args_usage usage =
        ARGS_USAGE("bench", "PART ...", 0, 0, options, "Measures this device.", .parts = parts);
    return args_dispatch(&usage, context, argc, argv);
}

static void memory_row(clt_json_writer *w, const char *name, double value, const char *unit)
{
    printf("%-22s %10.2f %s\n", name, value, unit);
    clt_jw_object(w);
    clt_jw_kstring(w, "name", name);
    clt_jw_kstring(w, "unit", unit);
    clt_jw_kdouble(w, "value", value);
    clt_jw_end_object(w);
}

typedef struct memory_results {
    ocl_limits limits;
    ocl_launch_times stamped, plain; /* with and without time stamps (device.timestamps) */
    char binary[OCL_BINARY_TEXT];    /* kind of binary that the driver's compiler produces */
} memory_results;

static void memory_record(const ocl_device_desc *d, const memory_results *m, clt_str *out)
{
    const ocl_limits *l = &m->limits;
    clt_json_writer w = bench_record(out, "memory");
    clt_jw_kstring(&w, "device", d->name);
    clt_jw_kstring(&w, "driver", d->driver);
    clt_jw_kstring(&w, "binary", m->binary);
    clt_jw_kint(&w, "local_bytes", (int64_t)d->local_bytes);
    clt_jw_kint(&w, "local_proven_bytes", (int64_t)d->local_proven_bytes);
    clt_jw_kint(&w, "local_retargeted_bytes", (int64_t)d->local_retargeted_bytes);
    clt_jw_kint(&w, "local_argument_bytes", (int64_t)d->local_argument_bytes);
    clt_jw_kdouble(&w, "fma_peak_gflops", l->fma_peak_gflops);
    clt_jw_kdouble(&w, "stream_gbs", l->stream_gbs);
    clt_jw_kdouble(&w, "plain_stream_gbs", l->plain_stream_gbs);
    clt_jw_kdouble(&w, "launch_us", l->launch_us);
    clt_jw_karray(&w, "rows");
    memory_row(&w, "fma_peak", l->fma_peak_gflops, "GFLOP/s");
    memory_row(&w, "stream", l->stream_gbs, "GB/s");
    memory_row(&w, "plain_stream", l->plain_stream_gbs, "GB/s");
    memory_row(&w, "copy", l->copy_gbs, "GB/s");
    memory_row(&w, "read", l->read_gbs, "GB/s");
    memory_row(&w, "host_to_device", l->h2d_gbs, "GB/s");
    memory_row(&w, "device_to_host", l->d2h_gbs, "GB/s");
    clt_jw_end_array(&w);
    /* an array of its own, since --compare takes larger values in `rows` as better, but these are times */
    clt_jw_karray(&w, "launches");
    memory_row(&w, "launch", m->plain.alone_us, "us");
    memory_row(&w, "launch_stamped", m->stamped.alone_us, "us");
    memory_row(&w, "launch_in_row", m->plain.in_row_us, "us");
    memory_row(&w, "launch_in_row_event", m->plain.in_row_event_us, "us");
    memory_row(&w, "launch_in_row_stamped", m->stamped.in_row_us, "us");
    clt_jw_end_array(&w);
    bench_record_end(&w, out);
    terminal_say("%-22s %s\n", "binary", m->binary[0] ? m->binary : "none given");
    printf("%-22s %" PRIu64 " of %" PRIu64 " B reported\n", "local memory proven", d->local_proven_bytes,
           d->local_bytes);
    if (d->local_retargeted_bytes > d->local_proven_bytes)
        printf("%-22s %" PRIu64 " B by programs for sm_90a\n", "", d->local_retargeted_bytes);
    if (d->local_argument_bytes > d->local_proven_bytes)
        printf("%-22s %" PRIu64 " B as an argument\n", "", d->local_argument_bytes);
}

/* Measures the limits, and kernel launches with and without time stamps; opens the device once for each. */
static clt_status measure_memory(ocl_open_options options, double seconds, ocl_device_desc *desc,
                                 memory_results *out)
{
    CLT_SCOPED(ocl_device) *device = NULL;
    ocl_program *program;
    options.profiling = true;
    CLT_TRY(ocl_device_open(&options, &device));
    *desc = *ocl_device_describe(device);
    terminal_say("device %s\n", desc->name);
    CLT_TRY(ocl_measure_limits(device, 0.9 * seconds, &out->limits));
    CLT_TRY(ocl_measure_launches(device, 0.05 * seconds, &out->stamped));
    CLT_TRY(ocl_program_get(device, "fill", "", &program));
    ocl_program_describe(program, out->binary);
    ocl_device_close(device);
    device = NULL;
    options.profiling = false;
    CLT_TRY(ocl_device_open(&options, &device));
    return ocl_measure_launches(device, 0.05 * seconds, &out->plain);
}

clt_status bench_memory(cmd_context *unused, int argc, char **argv)
{
    (void)unused;
    bench_common common = {0};
    double seconds = 3;
    const args_option options[] = {
        BENCH_OPTIONS(common), ARGS_FLOAT("--seconds", "S", seconds, 0.1, 600, "about how long to measure"),
        ARGS_END};
    const args_usage usage =
        ARGS_USAGE("bench memory", "", 0, 0, options, "Measures the limits of a device.");
    args_result r;
    ocl_device_desc desc;
    memory_results results = {0};
    CLT_SCOPED(clt_str) json = {0};
    CLT_TRY(args_parse(&usage, argc, argv, &r));
    if (r.help)
        return CLT_OK;
    CLT_TRY(bench_begin(&common));
    ocl_open_options open = {.spec = common.device, .caps_mask = common.caps_mask};
    CLT_TRY(measure_memory(open, seconds, &desc, &results));
    memory_record(&desc, &results, &json);
    return bench_finish(&common, &json);
}

clt_status bench_step(cmd_context *unused, int argc, char **argv)
{
    (void)unused;
    bench_common common = {0};
    int64_t steps = 20, warmup = 5;
    const char *trace_path = NULL;
    bool profile = false;
    cmd_context context = {0};
    console c;
    const args_option options[] = {
        BENCH_OPTIONS(common),
        ARGS_INT("--steps", "N", steps, 1, 1e6, "measured steps (20)"),
        ARGS_INT("--warmup", "N", warmup, 0, 1e6, "steps before the measured ones (5)"),
        ARGS_FLAG("--profile", profile,
                  "also the time of every command on the device, as a share of "
                  "what the device allows"),
        ARGS_TEXT("--trace", "FILE", trace_path,
                  "--profile, and a trace of up to 8 of its steps for Perfetto"),
        ARGS_END};
    const args_usage usage =
        ARGS_USAGE("bench step", "CONFIG [section.key=value ...]", 1, 1, options,
                   "Measures a training step with synthetic input of the config's shapes.");
    args_result r;
    CLT_SCOPED(clt_config) *config = NULL;
    CLT_SCOPED(clt_str) text = {0}, json = {0}, trace = {0};
    CLT_TRY(args_parse(&usage, argc, argv, &r));
    if (r.help)
        return CLT_OK;
    CLT_TRY(bench_begin(&common));
    CLT_TRY(cmd_can_write(trace_path));
    CLT_TRY(cmd_load_config(&r, &(clt_start){.training = true}, &config));
    console_init(&c, &context);
    clt_observer observer = {
        .context = &c, .progress = console_observer(&c).progress, .message = console_observer(&c).message};
    clt_bench_options bench = {.config = config,
                               .device_spec = common.device,
                               .caps_mask = common.caps_mask,
                               .warmup = (int)warmup,
                               .steps = (int)steps,
                               .profile = profile || trace_path,
                               .observer = observer};
    clt_status status = clt_bench_step(&bench, &text, &json, trace_path ? &trace : NULL);
    console_close(&c);
    CLT_TRY(status);
    if (text.text)
        terminal_say("%s", text.text);
    if (trace.text)
        CLT_TRY(cmd_write_text(trace_path, trace.text));
    return bench_finish(&common, &json);
}
