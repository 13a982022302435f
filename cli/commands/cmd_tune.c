/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain tune: measures which variants of kernels are fastest on a device, prints the results, and lists or
 * deletes tuning records. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cl/tune/tuning_store.h"
#include "cli/screen/args.h"
#include "cli/screen/console.h"
#include "cli/screen/table.h"
#include "cli/screen/terminal.h"
#include "engine/base/text.h"
#include "engine/json/json.h"
#include "engine/train/job/tuned.h"

typedef struct tune_args {
    const char *device, *caps, *json;
    double seconds;
    bool list, clear;
} tune_args;

typedef struct tune_view {
    console *console;
    clt_json_writer writer;
    int problems, measured;
    bool masked;     /* capabilities were masked or emulated, so nothing is saved */
    double log_gain; /* sum of the logarithms of the speed-ups */
} tune_view;

/* --- tables --- */

static const table_column measured_columns[] = {{"problem", 58, 26, 0, false}, {"default", 14, 6, 2, false},
                                                {"ms", 12, 8, 1, true},        {"fastest", 38, 12, 0, false},
                                                {"ms", 12, 8, 0, true},        {"speed-up", 9, 8, 0, true},
                                                {"", 15, 15, 3, false}};
static const table_column kept_columns[] = {{"family", 8, 0, 2, false},    {"problem", 58, 26, 0, false},
                                            {"fastest", 38, 12, 0, false}, {"ms", 12, 8, 0, true},
                                            {"speed-up", 9, 8, 0, true},   {"", 15, 15, 3, false}};
#define COLUMNS(list) ((int)(sizeof(list) / sizeof(list)[0]))

static void header(void)
{
    table t;
    clt_str text = {0};
    table_make(&t, measured_columns, COLUMNS(measured_columns), terminal_columns());
    table_head(&t, &text);
    table_print(&text);
}

static double gain(const ocl_choice *c)
{
    return c->ns > 0 && c->default_ns > 0 ? c->default_ns / c->ns : 1.0;
}

/* The fastest variant and its tunables, "lane kc=512", or "=" if the default is the fastest. */
static const char *fastest(const ocl_choice *c, const char *standard, char *text, size_t size)
{
    if (c->n_values == 0 && strcmp(c->variant, standard) == 0)
        snprintf(text, size, "=");
    else
        ocl_choice_text(c, text, size);
    return text;
}

static void print_row(const ocl_choice *c, const char *standard)
{
    char text[OCL_CHOICE_TEXT], name[OCL_TUNE_PROBLEM + OCL_TUNE_NAME], before[24], after[24], speed[24];
    table t;
    clt_str row = {0};
    snprintf(name, sizeof name, "%s%s%s", strcmp(c->family, OCL_GEMM_FAMILY) == 0 ? "" : c->family,
             strcmp(c->family, OCL_GEMM_FAMILY) == 0 ? "" : " ", c->problem);
    snprintf(before, sizeof before, "%.4f", c->default_ns * 1e-6);
    snprintf(after, sizeof after, "%.4f", c->ns * 1e-6);
    snprintf(speed, sizeof speed, "%.2fx", gain(c));
    const char *cells[] = {name,
                           standard,
                           before,
                           fastest(c, standard, text, sizeof text),
                           after,
                           speed,
                           c->complete ? "" : "(not all tried)"};
    table_make(&t, measured_columns, COLUMNS(measured_columns), terminal_columns());
    table_row(&t, cells, &row);
    table_print(&row);
}

static void write_row(clt_json_writer *w, const ocl_tune_row *row)
{
    const ocl_tune_result *r = row->result;
    clt_jw_object(w);
    clt_jw_kstring(w, "family", row->family);
    clt_jw_kstring(w, "problem", row->problem);
    clt_jw_kint(w, "calls", row->calls);
    clt_jw_kdouble(w, "flops", row->flops);
    clt_jw_kstring(w, "default", r->standard);
    clt_jw_kdouble(w, "default_ns", r->choice.default_ns);
    clt_jw_kstring(w, "variant", r->choice.variant);
    clt_jw_kobject(w, "values");
    for (int i = 0; i < r->choice.n_values; i++)
        clt_jw_kint(w, r->choice.values[i].name, r->choice.values[i].value);
    clt_jw_end_object(w);
    clt_jw_kdouble(w, "ns", r->choice.ns);
    clt_jw_kdouble(w, "speed_up", gain(&r->choice));
    clt_jw_kint(w, "tried", r->tried);
    clt_jw_kint(w, "abandoned", r->abandoned);
    clt_jw_kint(w, "impossible", r->failed);
    clt_jw_kint(w, "wrong", r->wrong);
    clt_jw_kbool(w, "complete", r->complete);
    clt_jw_end_object(w);
}

/* --- progress of the tuner --- */

static void on_device(void *context, const ocl_device_desc *d, int problems)
{
    tune_view *v = context;
    v->problems = problems;
    v->masked = ocl_is_masked(d) || d->emulated_caps != 0;
    terminal_say("device %s (%s), driver %s, %u compute unit%s: %d problem%s\n", d->name, d->spec, d->driver,
                 d->compute_units, CLT_PLURAL(d->compute_units), problems, CLT_PLURAL(problems));
    header();
    clt_jw_kstring(&v->writer, "bench", "tune");
    clt_jw_kstring(&v->writer, "device", d->name);
    clt_jw_kstring(&v->writer, "driver", d->driver);
    clt_jw_kint(&v->writer, "compute_units", d->compute_units);
    clt_jw_karray(&v->writer, "rows");
}

static void on_row(void *context, const ocl_tune_row *row)
{
    tune_view *v = context;
    console_clear(v->console);
    if (!row->result->found) {
        terminal_say("%-58s could not be measured\n", row->problem);
        return;
    }
    print_row(&row->result->choice, row->result->standard);
    fflush(stdout);
    write_row(&v->writer, row);
    v->measured++;
    v->log_gain += log(gain(&row->result->choice));
}

/* Progress is only shown on terminals; elsewhere the rows are enough. */
static void on_progress(void *context, const char *what, int64_t done, int64_t total)
{
    tune_view *v = context;
    if (v->console->tty)
        console_observer(v->console).progress(v->console, what, done, total);
}

static void on_message(void *context, const char *line)
{
    tune_view *v = context;
    console_observer(v->console).message(v->console, line);
}

/* --- measuring --- */

static clt_status summary(const tune_view *v, const tune_args *a, const ocl_tuning *records)
{
    CLT_FREED char *folder = NULL;
    /* number of problems that were not measured, or have no alternative */
    int left = v->problems - (int)records->count;
    if (v->measured > 0)
        terminal_say("%d problem%s measured, %.2fx the default's speed in geometric mean\n", v->measured,
                     CLT_PLURAL(v->measured), exp(v->log_gain / v->measured));
    CLT_TRY(ocl_tuning_folder(&folder));
    if (records->count > 0 && !v->masked)
        terminal_say("%zu record%s kept in %s\n", records->count, CLT_PLURAL(records->count), folder);
    if (left > 0)
        terminal_say("%d problems keep their defaults, because they were not measured or have no "
                     "alternative; more time than --seconds %g measures more\n",
                     left, a->seconds);
    return CLT_OK;
}

static clt_status measure(cmd_context *context, const tune_args *a, const clt_config *config)
{
    console c;
    CLT_SCOPED(clt_str) json = {0};
    CLT_SCOPED(ocl_tuning) *records = NULL;
    tune_view v = {.console = &c, .writer = clt_json_writer_make(&json, 2)};
    clt_tune_options options = {.config = config,
                                .device_spec = a->device,
                                .seconds = a->seconds,
                                .stop = context->stop,
                                .observer = {.context = &v, .progress = on_progress, .message = on_message},
                                .device = on_device,
                                .row = on_row,
                                .context = &v};
    CLT_TRY(cmd_caps(a->caps, &options.caps_mask));
    CLT_TRY(cmd_can_write(a->json));
    console_init(&c, context);
    clt_jw_object(&v.writer);
    clt_status status = clt_tune(&options, &records);
    console_close(&c);
    CLT_TRY(status);
    clt_jw_end_array(&v.writer);
    clt_jw_end_object(&v.writer);
    CLT_TRY(clt_str_check(&json));
    CLT_TRY(summary(&v, a, records));
    if (a->json)
        CLT_TRY(cmd_write_line(a->json, &json));
    if (context->stop && atomic_load(context->stop) != 0)
        CLT_FAIL(CLT_EINTERRUPTED, "stopped; what was measured is kept");
    return CLT_OK;
}

/* --- saved records --- */

/* Appends a row; its lines are indented by two spaces. */
static void append_kept(const table *columns, const ocl_choice *r, clt_str *rows)
{
    char text[OCL_CHOICE_TEXT], ms[32], speed[24];
    clt_str row = {0};
    snprintf(ms, sizeof ms, "%.4f ms", r->ns * 1e-6);
    snprintf(speed, sizeof speed, "%.2fx", gain(r));
    const char *cells[] = {r->family, r->problem, ocl_choice_text(r, text, sizeof text),
                           ms,        speed,      r->complete ? "" : "(not all tried)"};
    table_row(columns, cells, &row);
    for (const char *line = row.text; line && *line; line += strcspn(line, "\n") + 1)
        clt_str_printf(rows, "  %.*s\n", (int)strcspn(line, "\n"), line);
    clt_str_free(&row);
}

static void list_file(void *context, const char *path, const ocl_tuning *t, int outdated, const char *defect)
{
    int *files = context, screen = terminal_columns();
    (*files)++;
    terminal_say("%s\n", path);
    if (defect) {
        terminal_say("  ignored: %s\n", defect);
        return;
    }
    terminal_say("  device %s, driver %s, %u compute unit%s: %zu record%s", t->key.device, t->key.driver,
                 t->key.compute_units, CLT_PLURAL(t->key.compute_units), t->count, CLT_PLURAL(t->count));
    if (outdated)
        terminal_say(", and %d measured with other kernels, which are ignored", outdated);
    terminal_say("\n");
    table columns;
    clt_str rows = {0};
    table_make(&columns, kept_columns, COLUMNS(kept_columns), screen > 0 ? screen - 2 : 0);
    for (size_t i = 0; i < t->count; i++)
        append_kept(&columns, &t->records[i], &rows);
    table_print(&rows);
}

static clt_status list(void)
{
    int files = 0;
    CLT_FREED char *folder = NULL;
    CLT_TRY(ocl_tuning_folder(&folder));
    CLT_TRY(ocl_tuning_list(list_file, &files));
    if (files == 0)
        terminal_say("%s holds no tuning records\n", folder);
    return CLT_OK;
}

static clt_status forget(const tune_args *a)
{
    ocl_device_desc desc;
    uint32_t caps;
    bool removed;
    CLT_TRY(cmd_caps(a->caps, &caps));
    CLT_TRY(cmd_describe_device(a->device, caps, &desc));
    CLT_TRY(ocl_tuning_clear(&desc, &removed));
    terminal_say(removed ? "the tuning records of device %s were deleted\n"
                         : "there are no tuning records of device %s\n",
                 desc.name);
    return CLT_OK;
}

clt_status cmd_tune(cmd_context *context, int argc, char **argv)
{
    tune_args a = {.seconds = 60};
    const args_option options[] = {
        ARGS_DEVICE(a.device),
        ARGS_CAPS(a.caps),
        ARGS_FLOAT("--seconds", "S", a.seconds, 0.1, 86400, "about how long to measure (60)"),
        ARGS_TEXT("--json", "FILE", a.json, "write the table as JSON; - for the standard output"),
        ARGS_FLAG("--list", a.list, "show all saved records"),
        ARGS_FLAG("--clear", a.clear, "delete the records of the device"),
        ARGS_END};
    const args_usage usage =
        ARGS_USAGE("tune", "[CONFIG [section.key=value ...]]", 0, 1, options,
                   "Measures which variants of the kernels of a config's training (without "
                   "one: products of squares and of GPT-2 124M) are fastest on this device, "
                   "checks their results, and saves the best for later runs (device.tune).");
    args_result r;
    CLT_SCOPED(clt_config) *config = NULL;
    ARGS_PARSE(&usage, argc, argv, &r);
    if ((a.list || a.clear) && (r.n_operands > 0 || a.json || (a.list && a.clear)))
        CLT_FAIL(CLT_EUSAGE, "cltrain tune: --list and --clear can only be combined with --device");
    if (r.n_overrides > 0 && r.n_operands == 0)
        CLT_FAIL(CLT_EUSAGE, "cltrain tune: '%s' changes a config, and none is given", r.overrides[0]);
    if (a.list)
        return list();
    if (a.clear)
        return forget(&a);
    if (r.n_operands > 0)
        CLT_TRY(cmd_load_config(&r, &(clt_start){.training = true}, &config));
    return measure(context, &a, config);
}
