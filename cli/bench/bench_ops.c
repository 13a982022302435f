/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain bench ops: times ops and optimizers at realistic sizes and prints their speed, also in percent of
 * the device's measured limits. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/bench/bench.h"
#include "cli/screen/terminal.h"
#include "engine/verify/speed/speed.h"

typedef struct ops_run {
    clt_json_writer writer;
    bool kernels;          /* also print a line for each command */
    double at_least;       /* percent; 0: no check */
    int streams, too_slow; /* number of results that memory limits; number of these below `at_least` */
} ops_run;

static const table_column columns[] = {{"case", 28, 16, 0, false}, {"direction", 9, 0, 0, false},
                                       {"ms", 10, 0, 0, true},     {"GB/s", 8, 0, 1, true},
                                       {"GFLOP/s", 9, 0, 2, true}, {"stream", 7, 0, 0, true},
                                       {"", 8, 8, 0, false}};
#define N_COLUMNS ((int)(sizeof columns / sizeof columns[0]))

/* "93%": share of a plain stream; "93%n": of a stream with non-temporal stores; "(93%)": caches or
 * arithmetic, not memory, limit the result. */
static const char *share_text(const clt_speed_result *r, char *text, size_t size)
{
    snprintf(text, size, "-");
    if (!isnan(r->share))
        snprintf(text, size, r->streams ? "%.0f%%%s" : "(%.0f%%%s)", 100.0 * r->share,
                 r->nontemporal ? "n" : "");
    return text;
}

static void print_row(const char *name, const clt_speed_result *r, const char *judgement)
{
    char ms[32], gbs[32], gflops[32], share[32];
    snprintf(ms, sizeof ms, "%.4f", r->ms);
    snprintf(gbs, sizeof gbs, "%.2f", r->gbs);
    snprintf(gflops, sizeof gflops, "%.2f", r->gflops);
    const char *cells[N_COLUMNS] = {name,   r->kernel ? "" : r->direction,      ms,       gbs,
                                    gflops, share_text(r, share, sizeof share), judgement};
    bench_line(columns, N_COLUMNS, cells);
}

static void on_limits(void *context, const ocl_device_desc *desc, const ocl_limits *limits)
{
    ops_run *run = context;
    terminal_say("device %s: %.1f GFLOP/s, stream %.1f GB/s, %.1f with plain stores\n", desc->name,
                 limits->fma_peak_gflops, limits->stream_gbs, limits->plain_stream_gbs);
    bench_titles(columns, N_COLUMNS);
    clt_jw_kstring(&run->writer, "device", desc->name);
    clt_jw_kstring(&run->writer, "driver", desc->driver);
    clt_jw_kdouble(&run->writer, "fma_peak_gflops", limits->fma_peak_gflops);
    clt_jw_kdouble(&run->writer, "stream_gbs", limits->stream_gbs);
    clt_jw_kdouble(&run->writer, "plain_stream_gbs", limits->plain_stream_gbs);
    clt_jw_karray(&run->writer, "rows");
}

static void on_result(void *context, const clt_speed_result *r)
{
    ops_run *run = context;
    char name[120];
    if (r->refusal) {
        CLT_SCOPED(clt_str) line = {0};
        clt_str lines = {0};
        clt_str_printf(&line, "%-28s  skipped: %s", r->name, r->refusal);
        if (clt_str_check(&line) == CLT_OK)
            text_wrap(line.text, 0, 30, terminal_columns(), &lines);
        table_print(&lines);
        return;
    }
    if (r->kernel) {
        snprintf(name, sizeof name, "  %s", r->kernel);
        if (run->kernels)
            print_row(name, r, "");
        return;
    }
    bool slow = run->at_least > 0.0 && clt_speed_too_slow(r, run->at_least);
    print_row(r->name, r, slow ? "TOO SLOW" : "");
    run->streams += r->streams;
    run->too_slow += slow;
    clt_jw_object(&run->writer);
    clt_jw_kstring(&run->writer, "name", r->name);
    clt_jw_kstring(&run->writer, "direction", r->direction);
    clt_jw_kdouble(&run->writer, "ms", r->ms);
    clt_jw_kdouble(&run->writer, "gbs", r->gbs);
    clt_jw_kdouble(&run->writer, "gflops", r->gflops);
    clt_jw_kdouble(&run->writer, "stream_share", r->share);
    clt_jw_kbool(&run->writer, "streams", r->streams);
    clt_jw_kbool(&run->writer, "nontemporal", r->nontemporal);
    clt_jw_end_object(&run->writer);
}

static clt_status check(const ops_run *run)
{
    if (run->at_least <= 0.0)
        return CLT_OK;
    terminal_say("%d of %d memory-bound directions reach less than %g %% of the stream\n", run->too_slow,
                 run->streams, run->at_least);
    if (run->too_slow > 0)
        CLT_FAIL(CLT_ECHECK,
                 "bench ops: %d of %d memory-bound directions reach less than %g %% of the stream",
                 run->too_slow, run->streams, run->at_least);
    return CLT_OK;
}

clt_status bench_ops(cmd_context *unused, int argc, char **argv)
{
    (void)unused;
    bench_common common = {0};
    ops_run run = {.kernels = false};
    const char *pattern = NULL;
    double seconds = 0.3;
    const args_option options[] = {
        BENCH_OPTIONS(common),
        ARGS_TEXT("-t", "PATTERN", pattern, "only cases whose name matches: 'gelu*', '*.large'"),
        ARGS_FLOAT("--seconds", "S", seconds, 0.001, 600, "about how long to measure each direction (0.3)"),
        ARGS_FLAG("--kernels", run.kernels, "also show every kernel"),
        ARGS_FLOAT("--at-least", "PERCENT", run.at_least, 0, 1000,
                   "exit code 1 if a memory-bound direction reaches less than this percentage of the stream"),
        ARGS_END};
    const args_usage usage = ARGS_USAGE("bench ops", "", 0, 0, options,
                                        "Times ops and optimizers at the sizes of real work. The memory's "
                                        "speed (a stream) is measured before and after each.");
    args_result r;
    CLT_SCOPED(clt_str) json = {0};
    CLT_TRY(args_parse(&usage, argc, argv, &r));
    if (r.help)
        return CLT_OK;
    CLT_TRY(bench_begin(&common));
    run.writer = bench_record(&json, "ops");
    clt_speed_options speed = {.pattern = pattern,
                               .device_spec = common.device,
                               .caps_mask = common.caps_mask,
                               .seconds = seconds,
                               .limits = on_limits,
                               .result = on_result,
                               .context = &run};
    CLT_TRY(clt_speed_run(&speed));
    clt_jw_end_array(&run.writer);
    bench_record_end(&run.writer, &json);
    CLT_TRY(bench_finish(&common, &json));
    return check(&run);
}
