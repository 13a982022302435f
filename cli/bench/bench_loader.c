/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain bench loader: measures how fast the data of a config is read, decoded and augmented. */
#include <stdio.h>

#include "cli/bench/bench.h"
#include "cli/screen/terminal.h"
#include "engine/base/text.h"
#include "engine/train/inspect/loader_rates.h"

enum { THREADS, SAMPLES, MEGABYTES, BATCH, BUSY, COLUMNS };
static const table_column columns[COLUMNS] = {{"threads", 7, 0, 0, true},
                                              {"samples/s", 11, 0, 0, true},
                                              {"MB/s", 9, 0, 1, true},
                                              {"ms/micro-batch", 14, 0, 1, true},
                                              {"cores busy", 10, 0, 2, true}};

static void begin(void *unused, const clt_source *source)
{
    clt_str text = {0};
    (void)unused;
    text_wrap(source->description ? source->description : source->type->format->name, 0, 0,
              terminal_columns(), &text);
    table_print(&text);
    bench_titles(columns, COLUMNS);
}

static void each(void *context, const clt_loader_rate *rate)
{
    clt_json_writer *w = context;
    char cell[COLUMNS][24], name[32];
    double samples = (double)(rate->micro_batch * rate->batches), per_second = samples / rate->seconds,
           busy = rate->cpu_seconds / rate->seconds, ms = 1e3 * rate->seconds / (double)rate->batches;
    const char *cells[COLUMNS] = {cell[0], cell[1], cell[2], cell[3], cell[4]};
    snprintf(cell[THREADS], sizeof cell[0], "%d", rate->workers);
    snprintf(cell[SAMPLES], sizeof cell[0], per_second < 100 ? "%.2f" : "%.0f", per_second);
    snprintf(cell[MEGABYTES], sizeof cell[0], "%.1f", 1e-6 * per_second * (double)rate->sample_bytes);
    snprintf(cell[BATCH], sizeof cell[0], "%.3f", ms);
    snprintf(cell[BUSY], sizeof cell[0], "%.2f", busy);
    bench_line(columns, COLUMNS, cells);
    snprintf(name, sizeof name, "%d thread%s", rate->workers, CLT_PLURAL(rate->workers));
    clt_jw_object(w);
    clt_jw_kstring(w, "name", name);
    clt_jw_kstring(w, "unit", "samples/s");
    clt_jw_kdouble(w, "value", per_second);
    clt_jw_kint(w, "threads", rate->workers);
    clt_jw_kint(w, "micro_batch", rate->micro_batch);
    clt_jw_kint(w, "sample_bytes", (int64_t)rate->sample_bytes);
    clt_jw_kdouble(w, "cores_busy", busy);
    clt_jw_end_object(w);
}

static clt_status measure(const bench_common *common, clt_bench_loader_options *bench)
{
    CLT_SCOPED(clt_str) json = {0};
    clt_json_writer w = bench_record(&json, "loader");
    bench->context = &w;
    clt_jw_karray(&w, "rows");
    CLT_TRY(clt_bench_loader(bench));
    clt_jw_end_array(&w);
    bench_record_end(&w, &json);
    return bench_finish(common, &json);
}

clt_status bench_loader(cmd_context *unused, int argc, char **argv)
{
    (void)unused;
    bench_common common = {0};
    double seconds = 2;
    CLT_SCOPED(clt_config) *config = NULL;
    args_result r;
    const args_option options[] = {
        BENCH_RECORDS(common),
        ARGS_FLOAT("--seconds", "S", seconds, 0.01, 600, "about how long to measure each (2)"), ARGS_END};
    const args_usage usage = ARGS_USAGE("bench loader", "CONFIG [section.key=value ...]", 1, 1, options,
                                        "Measures how fast a config's training data is read, decoded and "
                                        "augmented, by 1, 2, 4 ... threads up to "
                                        "the cores, or by data.workers of them. Needs no device. The first "
                                        "pass reads from the disk, later ones from the system's cache.");
    CLT_TRY(args_parse(&usage, argc, argv, &r));
    if (r.help)
        return CLT_OK;
    CLT_TRY(bench_begin(&common));
    CLT_TRY(cmd_load_config(&r, &(clt_start){.training = true}, &config));
    clt_bench_loader_options bench = {.config = config, .seconds = seconds, .begin = begin, .each = each};
    return measure(&common, &bench);
}
