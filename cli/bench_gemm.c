/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain bench gemm: times matrix products of each backend on the device, after checking their results
 * against double precision, next to the device's limits measured in the same run. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl/command/exec.h"
#include "cl/gemm/gemm.h"
#include "cl/tune/tuning_store.h"
#include "cli/bench.h"
#include "cli/table.h"
#include "cli/terminal.h"
#include "engine/base/json.h"
#include "engine/base/rng.h"
#include "engine/base/thread.h"

#define MAX_SIZES 64
#define MAX_BUFFERS 16 /* a, b, c, then workspaces */
#define CHECKED 256    /* elements of a result that are checked */

typedef struct gemm_size {
    int64_t m, n, k;
} gemm_size;

typedef struct gemm_bench {
    ocl_device *device;
    gemm_size sizes[MAX_SIZES];
    int n_sizes;
    const char *backend; /* NULL: the engine's choice; "all"; a name */
    const char *layout;  /* "nn", "nt", "tn", "tt" or NULL: the three that training uses */
    clt_dtype dtype;
    double seconds;
    bool untuned;
    ocl_tuning *tuning;   /* the device's records, NULL with --untuned */
    ocl_device_desc desc; /* with them */
    clt_json_writer writer;
    int measured;
} gemm_bench;

/* One product on the device. */
typedef struct product {
    gemm_bench *bench;
    ocl_gemm gemm;
    clt_arena *arena;
    ocl_command_list list;
    ocl_emitter emitter;
    ocl_tuning_log log; /* the record that was in force */
    ocl_exec *exec;
    ocl_buffer *buffer[MAX_BUFFERS];
    int n_buffers;
    float *a, *b, *c; /* host values, as f32 */
} product;

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
                     "(m x n x k), "
                     "each from 1 to 65536, with commas between them",
                     word, MAX_SIZES);
        b->sizes[b->n_sizes++] = n == 3 ? (gemm_size){v[0], v[1], v[2]} : (gemm_size){v[0], v[0], v[0]};
        text += strcspn(text, ",");
        text += *text == ',';
    } while (*text);
    return CLT_OK;
}

/* --- one product --- */

static clt_status resolve(void *context, int32_t tensor, ocl_buffer **buffer, uint64_t *offset)
{
    product *p = context;
    if (tensor < 0 || tensor >= p->n_buffers)
        CLT_FAIL(CLT_EINTERNAL, "bench gemm: there is no tensor %d", tensor);
    *buffer = p->buffer[tensor];
    *offset = 0;
    return CLT_OK;
}

static int32_t workspace(void *owner, clt_dtype dtype, uint64_t elements, const char *name)
{
    product *p = owner;
    clt_status status = CLT_OK;
    if (p->n_buffers == MAX_BUFFERS)
        status = clt_fail(CLT_EINTERNAL, __FILE__, __LINE__, "bench gemm: too many workspaces");
    else
        status = ocl_buffer_create(p->bench->device, elements * clt_dtype_bytes(dtype), name,
                                   &p->buffer[p->n_buffers]);
    if (status != CLT_OK) {
        ocl_emit_fail(&p->emitter, status);
        return OCL_NO_TENSOR_ID;
    }
    return p->n_buffers++;
}

/* Values in steps of 1/4 from -1 to 1 are exact in every storage type. */
static float value_at(uint32_t operand, int64_t index)
{
    return (float)((int)(clt_rng_u32(1, CLT_RNG_VERIFY, operand, 0, (uint64_t)index) % 9u) - 4) * 0.25f;
}

static clt_status upload(product *p, int64_t count, uint32_t operand, clt_dtype dtype, const char *name,
                         float **host)
{
    void *stored = NULL;
    size_t bytes = clt_dtype_bytes(dtype);
    CLT_TRY(clt_alloc(host, (size_t)count, sizeof **host, name));
    CLT_TRY(clt_alloc(&stored, (size_t)count, bytes, name));
    for (int64_t i = 0; i < count; i++) {
        float v = (*host)[i] = operand == 2 ? 0.0f : value_at(operand, i);
        if (dtype == CLT_F32)
            ((float *)stored)[i] = v;
        else
            ((uint16_t *)stored)[i] = dtype == CLT_F16 ? clt_f32_to_f16(v) : clt_f32_to_bf16(v);
    }
    clt_status status =
        ocl_buffer_create(p->bench->device, (uint64_t)count * bytes, name, &p->buffer[p->n_buffers]);
    if (status == CLT_OK)
        status = ocl_write(p->buffer[p->n_buffers++], 0, stored, (uint64_t)count * bytes);
    free(stored);
    return status;
}

static clt_status product_build(product *p, const char *backend)
{
    ocl_gemm *g = &p->gemm;
    clt_dtype type = p->bench->dtype;
    CLT_TRY(clt_arena_create(&p->arena));
    CLT_TRY(upload(p, g->m * g->k, 0, type, "matrix a", &p->a));
    CLT_TRY(upload(p, g->k * g->n, 1, type, "matrix b", &p->b));
    CLT_TRY(upload(p, g->m * g->n, 2, CLT_F32, "matrix c", &p->c));
    g->type_a = g->type_b = type;
    g->a = ocl_ref(0);
    g->b = ocl_ref(1);
    g->c = ocl_ref(2);
    p->list.arena = p->arena;
    p->emitter = (ocl_emitter){.list = &p->list,
                               .device = &p->bench->desc,
                               .label = "gemm",
                               .variant = "",
                               .node = -1,
                               .workspace = workspace,
                               .owner = p,
                               .log = &p->log};
    CLT_TRY(ocl_gemm_emit(&p->emitter, g, backend));
    CLT_TRY(ocl_emit_status(&p->emitter));
    ocl_exec_options options = {.resolve = resolve, .resolve_context = p};
    return ocl_exec_create(p->bench->device, &p->list, &options, &p->exec);
}

static void product_free(product *p)
{
    ocl_exec_destroy(p->exec);
    ocl_emitter_free(&p->emitter);
    ocl_tuning_log_free(&p->log);
    ocl_command_list_free(&p->list);
    for (int i = 0; i < p->n_buffers; i++)
        ocl_buffer_destroy(p->buffer[i]);
    clt_arena_destroy(p->arena);
    free(p->a);
    free(p->b);
    free(p->c);
}

/* Runs once and compares elements spread over the whole result. */
static clt_status product_check(product *p)
{
    const ocl_gemm *g = &p->gemm;
    int64_t total = g->m * g->n;
    CLT_TRY(ocl_exec_run(p->exec, NULL));
    CLT_TRY(ocl_finish(p->bench->device, OCL_QUEUE_COMPUTE));
    CLT_TRY(ocl_read(p->buffer[2], 0, p->c, (uint64_t)total * sizeof(float)));
    int64_t count = total < CHECKED ? total : CHECKED;
    for (int64_t i = 0; i < count; i++) {
        int64_t at = total <= CHECKED ? i : i * (total - 1) / (CHECKED - 1);
        int64_t row = at / g->n, column = at % g->n;
        double sum = 0, magnitude = 0;
        for (int64_t k = 0; k < g->k; k++) {
            double x = (double)(g->ta ? p->a[k * g->m + row] : p->a[row * g->k + k]);
            double y = (double)(g->tb ? p->b[column * g->k + k] : p->b[k * g->n + column]);
            sum += x * y;
            magnitude += fabs(x * y);
        }
        double limit = 8 * 1.2e-7 * (magnitude + 1);
        if (!(fabs((double)p->c[at] - sum) <= limit))
            CLT_FAIL(CLT_ECHECK, "bench gemm: %lldx%lldx%lld: element (%lld,%lld) is %.9g, it should be %.9g",
                     (long long)g->m, (long long)g->n, (long long)g->k, (long long)row, (long long)column,
                     (double)p->c[at], sum);
    }
    return CLT_OK;
}

static clt_status batch_seconds(product *p, int runs, double *seconds)
{
    double start = clt_now();
    for (int i = 0; i < runs; i++)
        CLT_TRY(ocl_exec_run(p->exec, NULL));
    CLT_TRY(ocl_finish(p->bench->device, OCL_QUEUE_COMPUTE));
    *seconds = clt_now() - start;
    return CLT_OK;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Threads, clocks and pages that were idle: the first product of a process gets longer, so that its figure is
 * that of any other place in the list. */
#define FIRST_WARM_UP 0.5 /* seconds */
#define WARM_UP 0.05

static clt_status warm_up(product *p)
{
    double seconds = 0, until = clt_now() + (p->bench->measured == 0 ? FIRST_WARM_UP : WARM_UP);
    do
        CLT_TRY(batch_seconds(p, 1, &seconds));
    while (clt_now() < until);
    return CLT_OK;
}

/* Median over batches, each long enough that the clock and the last wait do not count; and the shortest,
 * which is what the device can do where other work takes part of it for a while. */
static clt_status product_time(product *p, double *ms, double *best)
{
    enum { BATCHES = 7 };
    double seconds = 0, each[BATCHES];
    int runs = 1;
    CLT_TRY(warm_up(p));
    CLT_TRY(batch_seconds(p, 1, &seconds));
    double wanted = p->bench->seconds / BATCHES;
    while (seconds < wanted / 2 && runs < 100000) {
        runs = seconds > 0 && wanted / seconds < 100 ? (int)((double)runs * wanted / seconds) + 1 : runs * 10;
        CLT_TRY(batch_seconds(p, runs, &seconds));
    }
    for (int i = 0; i < BATCHES; i++) {
        CLT_TRY(batch_seconds(p, runs, &seconds));
        each[i] = seconds / runs * 1e3;
    }
    qsort(each, BATCHES, sizeof each[0], by_value);
    *ms = each[BATCHES / 2];
    *best = each[0];
    return CLT_OK;
}

/* --- rows --- */

/* The values of the tuning record in force: "kc=256 mr=6"; "" when the backend decided by itself. */
static const char *choice_of(const product *p, char *text, size_t size)
{
    for (size_t i = 0; i < p->log.count; i++) {
        if (!p->log.at[i].tuned || strcmp(p->log.at[i].family, OCL_GEMM_FAMILY) != 0)
            continue;
        ocl_choice_text(&p->log.at[i].record, text, size);
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

static void print_titles(void)
{
    table t;
    clt_str text = {0};
    table_make(&t, columns, N_COLUMNS, terminal_columns());
    table_head(&t, &text);
    table_print(&text);
}

/* Without a column for the reason, which must be read all the same. */
static void refused_row(const char *m, const char *n, const char *k, const char *layout, const char *backend,
                        const char *reason, clt_str *out)
{
    clt_str line = {0};
    clt_str_printf(&line, "%6s  %6s  %6s  %s %s %s", m, n, k, layout, backend, reason);
    if (clt_str_check(&line) == CLT_OK)
        table_wrap(line.text, 0, 24, terminal_columns(), out);
    clt_str_free(&line);
}

/* choice: of the tuning record; or why the backend refused, with no time and no speed. */
static void print_row(const gemm_bench *b, const ocl_gemm *g, const char *backend, const char *time,
                      const char *speed, const char *best, const char *choice)
{
    char m[24], n[24], k[24], layout[3] = {g->ta ? 't' : 'n', g->tb ? 't' : 'n', '\0'};
    table t;
    clt_str text = {0};
    snprintf(m, sizeof m, "%lld", (long long)g->m);
    snprintf(n, sizeof n, "%lld", (long long)g->n);
    snprintf(k, sizeof k, "%lld", (long long)g->k);
    const char *cells[N_COLUMNS] = {m,       n,    k,     layout, clt_dtype_name(b->dtype),
                                    backend, time, speed, best,   choice};
    table_make(&t, columns, N_COLUMNS, terminal_columns());
    if (!*time && t.width[N_COLUMNS - 1] == 0)
        refused_row(m, n, k, layout, backend, choice, &text);
    else
        table_row(&t, cells, &text);
    table_print(&text);
}

static void write_row(gemm_bench *b, const product *p, const char *backend, double ms, double best)
{
    const ocl_gemm *g = &p->gemm;
    double gflops = ocl_gemm_flops(g) / (ms * 1e6);
    clt_json_writer *w = &b->writer;
    char text[OCL_CHOICE_TEXT];
    const char *choice = choice_of(p, text, sizeof text);
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

/* The backend that did the product: the last command that is no copy or fill. */
static const char *backend_of(const product *p)
{
    for (size_t i = p->list.count; i-- > 0;)
        if (*p->list.commands[i].variant)
            return p->list.commands[i].variant;
    return "?";
}

/* force NULL: the engine's choice. A backend that refuses is told and left out when all were asked for. */
static clt_status measure(gemm_bench *b, const gemm_size *size, bool ta, bool tb, const char *force)
{
    product p = {.bench = b, .gemm = ocl_gemm_make(size->m, size->n, size->k, ta, tb)};
    double ms = 0, best = 0;
    clt_status status = product_build(&p, force);
    if (status == CLT_EUNSUPPORTED && force && strcmp(b->backend, "all") == 0) {
        char reason[600];
        snprintf(reason, sizeof reason, "refused: %s", clt_error_text());
        print_row(b, &p.gemm, force, "", "", "", reason);
        product_free(&p);
        return CLT_OK;
    }
    if (status == CLT_OK)
        status = product_check(&p);
    if (status == CLT_OK)
        status = product_time(&p, &ms, &best);
    if (status == CLT_OK)
        write_row(b, &p, force ? force : backend_of(&p), ms, best);
    clt_error error;
    clt_error_take(status, &error);
    product_free(&p);
    return clt_error_put(&error);
}

static clt_status measure_layout(gemm_bench *b, const gemm_size *size, bool ta, bool tb)
{
    char layout[3] = {ta ? 't' : 'n', tb ? 't' : 'n', '\0'};
    if (b->layout ? strcmp(b->layout, layout) != 0 : ta && tb)
        return CLT_OK;
    if (!b->backend || strcmp(b->backend, "all") != 0)
        return measure(b, size, ta, tb, b->backend);
    for (const ocl_variant *const *v = ocl_gemm_variants; *v; v++)
        CLT_TRY(measure(b, size, ta, tb, (*v)->name));
    return CLT_OK;
}

static clt_status run_all(gemm_bench *b, clt_str *json)
{
    const ocl_device_desc *d = ocl_device_describe(b->device);
    ocl_limits limits;
    printf("device %s\n", d->name);
    CLT_TRY(ocl_measure_limits(b->device, 2.0, &limits));
    printf("limits: %.1f GFLOP/s FMA, %.1f GB/s streaming\n", limits.fma_peak_gflops, limits.stream_gbs);
    print_titles();
    b->writer = clt_json_writer_make(json, 2);
    clt_jw_object(&b->writer);
    clt_jw_kstring(&b->writer, "bench", "gemm");
    clt_jw_kstring(&b->writer, "device", d->name);
    clt_jw_kstring(&b->writer, "driver", d->driver);
    clt_jw_kdouble(&b->writer, "fma_peak_gflops", limits.fma_peak_gflops);
    clt_jw_kdouble(&b->writer, "stream_gbs", limits.stream_gbs);
    clt_jw_key(&b->writer, "rows");
    clt_jw_array(&b->writer);
    for (int i = 0; i < b->n_sizes; i++)
        for (int layout = 0; layout < 4; layout++)
            CLT_TRY(measure_layout(b, &b->sizes[i], (layout & 2) != 0, (layout & 1) != 0));
    clt_jw_end_array(&b->writer);
    clt_jw_end_object(&b->writer);
    clt_str_append(json, "\n");
    return CLT_OK;
}

static clt_status check_words(const gemm_bench *b, const char *dtype)
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
    if (b->dtype != CLT_F32 && b->dtype != CLT_F16 && b->dtype != CLT_BF16)
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
    clt_str json = {0};
    CLT_TRY(bench_begin(common));
    ocl_open_options open = {.spec = common->device, .caps_mask = common->caps_mask};
    CLT_TRY(ocl_device_open(&open, &b->device));
    b->desc = *ocl_device_describe(b->device);
    clt_status status = b->untuned ? CLT_OK : ocl_tuning_load(&b->desc, &b->tuning);
    b->desc.tuning = b->tuning;
    if (status == CLT_OK)
        status = run_all(b, &json);
    if (status == CLT_OK)
        status = bench_finish(common, &json);
    clt_str_free(&json);
    ocl_tuning_destroy(b->tuning);
    ocl_device_close(b->device);
    return status;
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
    const args_usage usage = {.command = "bench gemm",
                              .operands = "",
                              .summary = "Measures matrix products; results are checked first.",
                              .options = options};
    args_result r;
    CLT_TRY(args_parse(&usage, argc, argv, &r));
    if (r.help)
        return CLT_OK;
    if (!clt_dtype_from_name(dtype, &b.dtype))
        CLT_FAIL(CLT_EUSAGE, "cltrain bench gemm: --dtype %s: valid: f32, f16, bf16", dtype);
    CLT_TRY(check_words(&b, dtype));
    CLT_TRY(parse_sizes(sizes, &b));
    return run(&b, &common);
}
