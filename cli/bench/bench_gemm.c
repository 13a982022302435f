/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain bench gemm: times the matrix products of one or all backends on a device, after checking results
 * against double precision, and measures the device's limits in the same run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl/gemm_bench/gemm_bench.h"
#include "cl/measure/limits.h"
#include "cl/measure/timing.h"
#include "cl/tune/tuning_store.h"
#include "cli/bench/bench.h"
#include "cli/screen/terminal.h"

#define MAX_SIZES 64
#define CHECKED 256 /* elements of a result that are compared with the reference */
#define BATCHES 7   /* number of timed batches of runs; their median and their minimum are shown */
/* Seconds of untimed runs before each measurement. The first product of a process gets more, because
 * threads, clocks and memory pages are cold; so its position in the list does not matter. */
#define FIRST_WARM_UP 0.5
#define WARM_UP 0.05

typedef struct gemm_size {
    int64_t m, n, k;
} gemm_size;

typedef struct gemm_bench {
    ocl_device *device;
    gemm_size sizes[MAX_SIZES];
    int n_sizes;
    const char *backend; /* NULL: the engine's choice; "all"; a name */
    const char *layout;  /* "nn", "nt", "tn" or "tt"; NULL: the three layouts that training uses */
    clt_dtype dtype;
    double seconds;
    bool untuned;
    ocl_device_desc desc; /* the device's description with its tuning records, unless --untuned */
    clt_json_writer writer;
    int measured;
} gemm_bench;

static clt_status parse_sizes(const char *text, gemm_bench *b)
{
    static const gemm_size preset[] = {{128, 128, 128},    {256, 256, 256}, {512, 512, 512},
                                       {1024, 1024, 1024}, {128, 256, 784}, {128, 10, 256}};
    if (!text) {
        memcpy(b->sizes, preset, sizeof preset);
        b->n_sizes = sizeof preset / sizeof preset[0];
        return CLT_OK;
    }
    do {
        long long v[3];
        int used = 0, n = 0;
        char word[64];
        snprintf(word, sizeof word, "%.*s", (int)strcspn(text, ","), text);
        if (sscanf(word, "%lldx%lldx%lld%n", &v[0], &v[1], &v[2], &used) == 3 && word[used] == '\0')
            n = 3;
        else if (sscanf(word, "%lld%n", &v[0], &used) == 1 && word[used] == '\0')
            n = 1;
        for (int i = 0; i < n; i++)
            if (v[i] < 1 || v[i] > 65536)
                n = 0;
        if (n == 0 || b->n_sizes == MAX_SIZES)
            CLT_FAIL(CLT_EUSAGE,
                     "cltrain bench gemm: --sizes: '%s': expected up to %d sizes such as 512 or 128x256x784 "
                     "(m x n x k), each from 1 to 65536, with commas between them",
                     word, MAX_SIZES);
        b->sizes[b->n_sizes++] = n == 3 ? (gemm_size){v[0], v[1], v[2]} : (gemm_size){v[0], v[0], v[0]};
        text += strcspn(text, ",");
        text += *text == ',';
    } while (*text);
    return CLT_OK;
}

/* --- rows --- */

/* The tunables of the tuning record that was used: "kc=256 mr=6"; "" if the backend chose its own. */
static const char *choice_of(const ocl_tuning_log *log, char *text, size_t size)
{
    for (size_t i = 0; i < log->count; i++) {
        if (!log->at[i].tuned || strcmp(log->at[i].family, OCL_GEMM_FAMILY) != 0)
            continue;
        ocl_choice_text(&log->at[i].record, text, size);
        return text + strcspn(text, " ") + (strchr(text, ' ') != NULL);
    }
    return "";
}

static const table_column columns[] = {{"m", 6, 0, 0, true},       {"n", 6, 0, 0, true},
                                       {"k", 6, 0, 0, true},       {"layout", 6, 0, 0, false},
                                       {"dtype", 5, 0, 3, false},  {"backend", 10, 7, 0, false},
                                       {"time", 15, 11, 1, true},  {"speed", 18, 13, 0, true},
                                       {"best", 14, 12, 4, false}, {"choice", 36, 12, 5, false}};
#define N_COLUMNS ((int)(sizeof columns / sizeof columns[0]))

/* Prints a backend's refusal in full if the screen has no room for the column `choice`, which shows the
 * reason. */
static void refused_row(const char *m, const char *n, const char *k, const char *layout, const char *backend,
                        const char *reason)
{
    CLT_SCOPED(clt_str) line = {0};
    clt_str out = {0};
    clt_str_printf(&line, "%6s  %6s  %6s  %s %s %s", m, n, k, layout, backend, reason);
    if (clt_str_check(&line) == CLT_OK)
        text_wrap(line.text, 0, 24, terminal_columns(), &out);
    table_print(&out);
}

/* choice: tunables of the tuning record; or why the backend refused, if `time` is "". */
static void print_row(const gemm_bench *b, const ocl_gemm *g, const char *backend, const char *time,
                      const char *speed, const char *best, const char *choice)
{
    char m[24], n[24], k[24], layout[3] = {g->ta ? 't' : 'n', g->tb ? 't' : 'n', '\0'};
    table t;
    snprintf(m, sizeof m, "%lld", (long long)g->m);
    snprintf(n, sizeof n, "%lld", (long long)g->n);
    snprintf(k, sizeof k, "%lld", (long long)g->k);
    const char *cells[N_COLUMNS] = {m,       n,    k,     layout, clt_dtype_name(b->dtype),
                                    backend, time, speed, best,   choice};
    table_make(&t, columns, N_COLUMNS, terminal_columns());
    if (!*time && t.width[N_COLUMNS - 1] == 0)
        refused_row(m, n, k, layout, backend, choice);
    else
        bench_line(columns, N_COLUMNS, cells);
}

static void write_row(gemm_bench *b, const ocl_gemm *g, const ocl_tuning_log *log, const char *backend,
                      const ocl_timing *timing)
{
    double ms = timing->median * 1e3, best = timing->best * 1e3;
    double gflops = ocl_gemm_flops(g) / (ms * 1e6);
    clt_json_writer *w = &b->writer;
    char text[OCL_CHOICE_TEXT];
    const char *choice = choice_of(log, text, sizeof text);
    char time[32], speed[40], most[40];
    snprintf(time, sizeof time, "%.4f ms", ms);
    snprintf(speed, sizeof speed, "%.1f GFLOP/s", gflops);
    snprintf(most, sizeof most, "best %.1f", ocl_gemm_flops(g) / (best * 1e6));
    print_row(b, g, backend, time, speed, most, choice);
    clt_jw_object(w);
    clt_jw_kint(w, "m", g->m);
    clt_jw_kint(w, "n", g->n);
    clt_jw_kint(w, "k", g->k);
    clt_jw_kbool(w, "ta", g->ta);
    clt_jw_kbool(w, "tb", g->tb);
    clt_jw_kstring(w, "dtype", clt_dtype_name(b->dtype));
    clt_jw_kstring(w, "backend", backend);
    clt_jw_kstring(w, "choice", choice);
    clt_jw_kdouble(w, "ms", ms);
    clt_jw_kdouble(w, "best_ms", best);
    clt_jw_kdouble(w, "gflops", gflops);
    clt_jw_end_object(w);
    b->measured++;
}

/* The backend that computed the product: the variant of the last command that has one (copies and fills have
 * none). */
static const char *backend_of(const ocl_command_list *list)
{
    for (size_t i = list->count; i-- > 0;)
        if (*list->commands[i].variant)
            return list->commands[i].variant;
    return "?";
}

static clt_status measure_ready(gemm_bench *b, ocl_gemm_ready *ready, const char *force)
{
    const ocl_gemm *g = &ready->bench->gemm;
    ocl_timing timing;
    char why[200];
    bool right;
    CLT_TRY(ocl_gemm_ready_check(ready, CHECKED, &right, why, sizeof why));
    if (!right)
        CLT_FAIL(CLT_ECHECK, "bench gemm: %lldx%lldx%lld: %s", (long long)g->m, (long long)g->n,
                 (long long)g->k, why);
    CLT_TRY(ocl_time(ocl_gemm_ready_batch, ready, b->measured == 0 ? FIRST_WARM_UP : WARM_UP, b->seconds,
                     BATCHES, &timing));
    write_row(b, g, ready->emitter.log, force ? force : backend_of(&ready->list), &timing);
    return CLT_OK;
}

/* force: the backend; NULL: the engine's choice. With --backend all, a backend that refuses is reported and
 * skipped. */
static clt_status measure_backend(gemm_bench *b, ocl_gemm_bench *bench, const char *force)
{
    CLT_SCOPED(ocl_tuning_log) log = {0}; /* receives the tuning record that is used */
    ocl_emitter how = {.device = &b->desc, .label = "gemm", .log = &log};
    CLT_SCOPED(ocl_gemm_ready) *ready = NULL;
    clt_status status = ocl_gemm_ready_create(bench, &how, force, &ready);
    if (status == CLT_OK)
        status = ocl_gemm_ready_build(ready);
    if (status == CLT_EUNSUPPORTED && force && strcmp(b->backend, "all") == 0) {
        char reason[600];
        snprintf(reason, sizeof reason, "refused: %s", clt_error_text());
        clt_error_clear();
        print_row(b, &bench->gemm, force, "", "", "", reason);
        return CLT_OK;
    }
    CLT_TRY(status);
    return measure_ready(b, ready, force);
}

static clt_status measure_layout(gemm_bench *b, const gemm_size *size, bool ta, bool tb)
{
    char layout[3] = {ta ? 't' : 'n', tb ? 't' : 'n', '\0'};
    if (b->layout ? strcmp(b->layout, layout) != 0 : ta && tb)
        return CLT_OK;
    ocl_gemm g = ocl_gemm_make(size->m, size->n, size->k, ta, tb);
    CLT_SCOPED(ocl_gemm_bench) *bench = NULL;
    g.type_a = g.type_b = b->dtype;
    CLT_TRY(ocl_gemm_bench_create(b->device, &g, &(ocl_gemm_fill){0}, 1, &bench));
    if (!b->backend || strcmp(b->backend, "all") != 0)
        return measure_backend(b, bench, b->backend);
    for (const ocl_variant *const *v = ocl_gemm_variants; *v; v++)
        CLT_TRY(measure_backend(b, bench, (*v)->name));
    return CLT_OK;
}

static clt_status run_all(gemm_bench *b, clt_str *json)
{
    const ocl_device_desc *d = ocl_device_describe(b->device);
    ocl_limits limits;
    terminal_say("device %s\n", d->name);
    CLT_TRY(ocl_measure_limits(b->device, 2.0, &limits));
    terminal_say("limits: %.1f GFLOP/s FMA, %.1f GB/s streaming\n", limits.fma_peak_gflops,
                 limits.stream_gbs);
    bench_titles(columns, N_COLUMNS);
    b->writer = bench_record(json, "gemm");
    clt_jw_kstring(&b->writer, "device", d->name);
    clt_jw_kstring(&b->writer, "driver", d->driver);
    clt_jw_kdouble(&b->writer, "fma_peak_gflops", limits.fma_peak_gflops);
    clt_jw_kdouble(&b->writer, "stream_gbs", limits.stream_gbs);
    clt_jw_karray(&b->writer, "rows");
    for (int i = 0; i < b->n_sizes; i++)
        for (int layout = 0; layout < 4; layout++)
            CLT_TRY(measure_layout(b, &b->sizes[i], (layout & 2) != 0, (layout & 1) != 0));
    clt_jw_end_array(&b->writer);
    bench_record_end(&b->writer, json);
    return CLT_OK;
}

static clt_status check_words(gemm_bench *b, const char *dtype)
{
    const char *names[16];
    size_t count = 0;
    bool known = !b->backend || strcmp(b->backend, "all") == 0;
    for (const ocl_variant *const *v = ocl_gemm_variants; *v && count < 16; v++) {
        names[count++] = (*v)->name;
        known = known || strcmp((*v)->name, b->backend) == 0;
    }
    if (!known) {
        const char *near = clt_nearest_name(b->backend, names, count);
        CLT_FAIL(CLT_EUSAGE, "cltrain bench gemm: unknown backend '%s'%s%s%s", b->backend,
                 near ? "; did you mean '" : "", near ? near : "",
                 near ? "'?" : "; 'all' measures every one");
    }
    if (!clt_dtype_from_name(dtype, &b->dtype) ||
        (b->dtype != CLT_F32 && b->dtype != CLT_F16 && b->dtype != CLT_BF16))
        CLT_FAIL(CLT_EUSAGE, "cltrain bench gemm: --dtype %s: valid: f32, f16, bf16", dtype);
    if (b->layout && strcmp(b->layout, "nn") != 0 && strcmp(b->layout, "nt") != 0 &&
        strcmp(b->layout, "tn") != 0 && strcmp(b->layout, "tt") != 0)
        CLT_FAIL(CLT_EUSAGE,
                 "cltrain bench gemm: --layout %s: valid: nn, nt, tn, tt (t: that operand is transposed)",
                 b->layout);
    return CLT_OK;
}

static clt_status run(gemm_bench *b, bench_common *common)
{
    CLT_SCOPED(clt_str) json = {0};
    CLT_SCOPED(ocl_device) *device = NULL;
    CLT_SCOPED(ocl_tuning) *tuning = NULL;
    CLT_TRY(bench_begin(common));
    ocl_open_options open = {.spec = common->device, .caps_mask = common->caps_mask};
    CLT_TRY(ocl_device_open(&open, &device));
    b->device = device;
    b->desc = *ocl_device_describe(device);
    if (!b->untuned)
        CLT_TRY(ocl_tuning_load(&b->desc, &tuning));
    b->desc.tuning = tuning;
    CLT_TRY(run_all(b, &json));
    return bench_finish(common, &json);
}

clt_status bench_gemm(cmd_context *unused, int argc, char **argv)
{
    (void)unused;
    bench_common common = {0};
    gemm_bench b = {.seconds = 0.3};
    const char *sizes = NULL, *dtype = "f32";
    const args_option options[] = {
        BENCH_OPTIONS(common),
        ARGS_TEXT("--sizes", "LIST", sizes, "512,128x256x784: squares or m x n x k"),
        ARGS_TEXT("--backend", "NAME", b.backend, "one backend, or all (default: the engine's choice)"),
        ARGS_TEXT("--dtype", "f32|f16|bf16", dtype, "storage of a and b"),
        ARGS_TEXT("--layout", "XY", b.layout, "nn, nt, tn or tt (default: the three of training)"),
        ARGS_FLOAT("--seconds", "S", b.seconds, 0.01, 60, "about how long to measure each (0.3)"),
        ARGS_FLAG("--untuned", b.untuned, "without the records of 'cltrain tune'"),
        ARGS_END};
    const args_usage usage =
        ARGS_USAGE("bench gemm", "", 0, 0, options, "Measures matrix products; results are checked first.");
    args_result r;
    CLT_TRY(args_parse(&usage, argc, argv, &r));
    if (r.help)
        return CLT_OK;
    CLT_TRY(check_words(&b, dtype));
    CLT_TRY(parse_sizes(sizes, &b));
    return run(&b, &common);
}
