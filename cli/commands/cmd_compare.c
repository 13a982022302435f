/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain compare RUN_A RUN_B...: a table of runs, the differences of their configs, and where their losses
 * diverge. */
#include "engine/report/read/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/screen/args.h"
#include "cli/screen/cmd.h"
#include "cli/screen/console.h"
#include "cli/screen/table.h"
#include "cli/screen/terminal.h"
#include "engine/base/text.h"
#include "engine/report/read/run_facts.h"
#include "engine/report/write/lines.h"

#define MAX_RUNS 32

/* The comparison of a run with the first one. */
typedef struct pair {
    clt_divergence divergence;
    clt_differences differences;
} pair;

typedef struct comparison {
    int count;
    double tolerance;
    clt_run_record *runs[MAX_RUNS];
    clt_run_facts facts[MAX_RUNS];
    pair pairs[MAX_RUNS]; /* [0] is not used */
} comparison;

static clt_status read_all(const args_result *r, comparison *c)
{
    for (; c->count < r->n_operands; c->count++) {
        CLT_TRY(clt_run_record_load(r->operands[c->count], &c->runs[c->count]));
        c->facts[c->count] = clt_run_facts_of(c->runs[c->count]);
    }
    CLT_TRY(clt_run_names(c->runs, c->count));
    for (int i = 1; i < c->count; i++) {
        CLT_TRY(clt_compare_losses(c->runs[0], c->runs[i], c->tolerance, &c->pairs[i].divergence));
        CLT_TRY(clt_run_differences(c->runs[0], c->runs[i], &c->pairs[i].differences));
    }
    return CLT_OK;
}

static void free_all(comparison *c)
{
    for (int i = 0; i < MAX_RUNS; i++) {
        clt_run_record_free(c->runs[i]);
        clt_run_differences_free(&c->pairs[i].differences);
    }
    free(c);
}

/* --- as text --- */

#define CELL_TEXT 40

/* A column of the table of runs. Without `always` it is left out if no run has a value. */
typedef struct fact_column {
    clt_fact fact;
    const char *title;
    int decimals, rank;
    bool always;
} fact_column;

static const fact_column fact_columns[] = {{CLT_FACT_STEPS, "steps", 0, 3, true},
                                           {CLT_FACT_LOSS, "loss", 4, 0, true},
                                           {CLT_FACT_EVAL_LOSS, "eval loss", 4, 0, false},
                                           {CLT_FACT_BEST_EVAL_LOSS, "best", 4, 0, false},
                                           {CLT_FACT_PERPLEXITY, "perplexity", 2, 6, false},
                                           {CLT_FACT_ACCURACY, "accuracy", 2, 4, false},
                                           {CLT_FACT_MAE, "MAE", 4, 7, false},
                                           {CLT_FACT_RMSE, "RMSE", 4, 6, false},
                                           {CLT_FACT_R2, "R2", 4, 4, false},
                                           {CLT_FACT_TOKENS_PER_S, "tok/s", 0, 2, false},
                                           {CLT_FACT_SAMPLES_PER_S, "samples/s", 0, 2, false},
                                           {CLT_FACT_SECONDS, "time", 0, 5, true}};
#define FACT_COLUMNS ((int)(sizeof fact_columns / sizeof fact_columns[0]))
#define COLUMNS (FACT_COLUMNS + 2) /* the run's name first, its state last */

static const char *cell_of(const fact_column *column, double value, char *cell)
{
    if (isnan(value))
        return "-";
    switch (clt_fact_columns[column->fact].form) {
    case CLT_FORM_NUMBER:
        return clt_value_text(value, column->decimals, cell, CELL_TEXT);
    case CLT_FORM_COUNT:
        return console_count(value, cell, CELL_TEXT);
    case CLT_FORM_SECONDS:
        return console_time(value, cell, CELL_TEXT);
    case CLT_FORM_SHARE:
        snprintf(cell, CELL_TEXT, "%.*f%%", column->decimals, 100 * value);
        return cell;
    case CLT_FORM_STEP:
    case CLT_FORM_BYTES:
        break;
    }
    snprintf(cell, CELL_TEXT, "%.0f", value);
    return cell;
}

static bool is_shown(const comparison *c, const fact_column *column)
{
    bool any = column->always;
    if (column->fact == CLT_FACT_TOKENS_PER_S || column->fact == CLT_FACT_SAMPLES_PER_S)
        return column->fact == clt_run_speed_fact(c->runs[0]);
    for (int i = 0; i < c->count; i++)
        any |= !isnan(c->facts[i].value[column->fact]);
    return any;
}

static void table_line(const comparison *c, const table *t, int run, clt_str *out)
{
    char cell[FACT_COLUMNS][CELL_TEXT];
    const char *cells[COLUMNS] = {c->runs[run]->name};
    for (int i = 0; i < FACT_COLUMNS; i++)
        cells[1 + i] = cell_of(&fact_columns[i], c->facts[run].value[fact_columns[i].fact], cell[i]);
    cells[COLUMNS - 1] = clt_run_verdict_text(c->runs[run]->verdict);
    table_row(t, cells, out);
}

static void put_runs(const comparison *c, int screen, clt_str *out)
{
    table t;
    int longest = 3;
    for (int i = 0; i < c->count; i++) {
        int columns = text_columns(c->runs[i]->name);
        longest = columns > longest ? columns : longest;
    }
    table_column columns[COLUMNS] = {{"run", longest, 10, 0, false},
                                     [COLUMNS - 1] = {"state", 8, 0, 8, false}};
    for (int i = 0; i < FACT_COLUMNS; i++) {
        const fact_column *f = &fact_columns[i];
        /* a column without values is left out on any screen, so table_make must count it out first */
        columns[1 + i] = (table_column){f->title, 6, 0, is_shown(c, f) ? f->rank : 99, true};
    }
    table_make(&t, columns, COLUMNS, screen);
    for (int i = 0; i < COLUMNS; i++)
        if (columns[i].rank == 99)
            t.width[i] = 0;
    table_head(&t, out);
    for (int i = 0; i < c->count; i++)
        table_line(c, &t, i, out);
}

static void put_losses(const comparison *c, const clt_divergence *p, clt_str *out)
{
    if (p->common == 0) {
        clt_str_append(out, "the runs have no step in common");
        return;
    }
    if (p->first_different < 0) {
        clt_str_printf(out, "equal in all %lld common steps", (long long)p->common);
        return;
    }
    const char *by = "apart by more than their noise and by more than";
    clt_str_printf(out, "differ from step %lld on", (long long)p->first_different);
    if (p->largest_step >= 0)
        clt_str_printf(out, ", at most by %.3g, at step %lld", p->largest, (long long)p->largest_step);
    if (p->apart_from >= 0)
        clt_str_printf(out, "; from step %lld on they stay %s %g %%", (long long)p->apart_from, by,
                       100 * c->tolerance);
    else if (p->apart_once >= 0)
        clt_str_printf(out, "; from step %lld on they are %s %g %% for a while, but not at the end",
                       (long long)p->apart_once, by, 100 * c->tolerance);
    else
        clt_str_printf(out, "; they are never apart by more than their noise and by more than %g %%",
                       100 * c->tolerance);
    if (p->end_a > 0 && isfinite(p->end_b) && p->apart_from >= 0)
        clt_str_printf(out, " (%+.2f %% at step %lld)", 100 * (p->end_b / p->end_a - 1),
                       (long long)p->last_common);
}

static void put_pair(const comparison *c, int run, int screen, clt_str *out)
{
    const pair *p = &c->pairs[run];
    clt_str losses = {0}, line = {0};
    char name[256], first[256];
    bool config = false;
    text_clean(c->runs[run]->name, name, sizeof name);
    text_clean(c->runs[0]->name, first, sizeof first);
    clt_str_printf(out, "\n%s%s%s against %s\n", terminal_begin(1, INK_STRONG), name,
                   terminal_end(1, INK_STRONG), first);
    for (size_t i = 0; i < p->differences.count; i++) {
        const clt_difference *d = &p->differences.items[i];
        config |= !d->environment;
        line.length = 0;
        clt_str_printf(&line, "%s: %s, was %s", d->key, d->b ? d->b : "not set", d->a ? d->a : "not set");
        clt_str_append(out, "  ");
        text_wrap(line.text ? line.text : "", 2, 6, screen, out);
    }
    if (!config)
        clt_str_append(out, c->runs[0]->config && c->runs[run]->config ? "  config: the same\n"
                                                                       : "  config: unknown\n");
    put_losses(c, &p->divergence, &losses);
    clt_str_append(out, "  losses: ");
    text_wrap(losses.text ? losses.text : "", 10, 6, screen, out);
    out->failed = out->failed || losses.failed || line.failed;
    clt_str_free(&losses);
    clt_str_free(&line);
}

static clt_status print_text(const comparison *c)
{
    clt_str out = {0};
    int screen = terminal_columns();
    put_runs(c, screen, &out);
    for (int i = 1; i < c->count; i++)
        put_pair(c, i, screen, &out);
    clt_status status = clt_str_check(&out);
    table_print(&out);
    return status;
}

/* --- as JSON --- */

static void json_member(clt_json_writer *w, const clt_run_record *run, const char *key)
{
    const clt_json_doc *start = clt_run_start(run);
    const clt_json *value = start ? clt_json_get(clt_json_root(start), key) : NULL;
    clt_jw_key(w, key);
    if (value)
        clt_jw_value(w, value);
    else
        clt_jw_null(w);
}

static void json_step(clt_json_writer *w, const char *key, int64_t step)
{
    clt_jw_key(w, key);
    if (step >= 0)
        clt_jw_int(w, step);
    else
        clt_jw_null(w);
}

static void json_run(clt_json_writer *w, const clt_run_record *run, const clt_run_facts *f)
{
    static const char *const members[] = {"device", "driver", "precision", "ranks", "host", "version"};
    clt_jw_object(w);
    clt_jw_kstring(w, "name", run->name);
    clt_jw_kstring(w, "folder", run->folder);
    clt_jw_kstring(w, "state", clt_run_verdict_text(run->verdict));
    clt_jw_kstring(w, "cause", run->cause);
    clt_jw_kint(w, "steps_total", run->steps_total);
    for (int i = 0; i < CLT_FACT_COUNT; i++)
        if (clt_fact_columns[i].form == CLT_FORM_STEP)
            json_step(w, clt_fact_columns[i].key, isnan(f->value[i]) ? -1 : (int64_t)f->value[i]);
        else
            clt_jw_kdouble(w, clt_fact_columns[i].key, f->value[i]);
    clt_jw_kint(w, "skipped", run->skipped);
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        json_member(w, run, members[i]);
    clt_jw_end_object(w);
}

static void json_differences(clt_json_writer *w, const pair *p, bool environment)
{
    clt_jw_kobject(w, environment ? "environment" : "config");
    for (size_t i = 0; i < p->differences.count; i++) {
        const clt_difference *d = &p->differences.items[i];
        if (d->environment != environment)
            continue;
        clt_jw_karray(w, d->key);
        clt_jw_string(w, d->a);
        clt_jw_string(w, d->b);
        clt_jw_end_array(w);
    }
    clt_jw_end_object(w);
}

static clt_status print_json(const comparison *c)
{
    clt_str out = {0};
    clt_json_writer w = clt_json_writer_make(&out, 1);
    clt_jw_object(&w);
    clt_jw_karray(&w, "runs");
    for (int i = 0; i < c->count; i++)
        json_run(&w, c->runs[i], &c->facts[i]);
    clt_jw_end_array(&w);
    clt_jw_kdouble(&w, "tolerance", c->tolerance);
    clt_jw_karray(&w, "against_first");
    for (int i = 1; i < c->count; i++) {
        const clt_divergence *p = &c->pairs[i].divergence;
        clt_jw_object(&w);
        clt_jw_kstring(&w, "run", c->runs[i]->name);
        json_differences(&w, &c->pairs[i], false);
        json_differences(&w, &c->pairs[i], true);
        clt_jw_kint(&w, "common_steps", p->common);
        json_step(&w, "first_different_step", p->first_different);
        clt_jw_kdouble(&w, "largest_difference", p->largest);
        json_step(&w, "largest_difference_step", p->largest_step);
        json_step(&w, "apart_from_step", p->apart_from);
        json_step(&w, "apart_once_from_step", p->apart_once);
        clt_jw_kdouble(&w, "end_loss_first", p->end_a);
        clt_jw_kdouble(&w, "end_loss", p->end_b);
        clt_jw_end_object(&w);
    }
    clt_jw_end_array(&w);
    clt_jw_end_object(&w);
    clt_str_append(&out, "\n");
    clt_status status = clt_str_check(&out);
    if (status == CLT_OK)
        fputs(out.text, stdout);
    clt_str_free(&out);
    return status;
}

/* --- as CSV --- */

static void csv_text(clt_str *out, const char *text)
{
    clt_str_append(out, ",\"");
    for (const char *p = text ? text : ""; *p; p++)
        clt_str_append_n(out, *p == '"' ? "\"\"" : p, *p == '"' ? 2 : 1);
    clt_str_append(out, "\"");
}

static void csv_number(clt_str *out, double value)
{
    char text[CLT_NUMBER_TEXT];
    clt_str_printf(out, ",%s", isfinite(value) ? clt_double_text(value, text) : "");
}

/* True if no earlier difference, of this run or one before it, has the same key: one column for each key. */
static bool first_to_differ(const comparison *c, int run, size_t index)
{
    const char *key = c->pairs[run].differences.items[index].key;
    for (int i = 1; i <= run; i++)
        for (size_t k = 0; k < (i == run ? index : c->pairs[i].differences.count); k++)
            if (strcmp(c->pairs[i].differences.items[k].key, key) == 0)
                return false;
    return true;
}

static const char *value_in(const comparison *c, int run, const clt_difference *d)
{
    for (size_t k = 0; run > 0 && k < c->pairs[run].differences.count; k++)
        if (strcmp(c->pairs[run].differences.items[k].key, d->key) == 0)
            return c->pairs[run].differences.items[k].b;
    return d->a; /* the value of the first run, which this run shares */
}

/* Appends the columns of differing keys. row 0: their titles; else the values of run `row` - 1. */
static void csv_keys(const comparison *c, int row, clt_str *out)
{
    for (int i = 1; i < c->count; i++)
        for (size_t k = 0; k < c->pairs[i].differences.count; k++)
            if (first_to_differ(c, i, k)) {
                const clt_difference *d = &c->pairs[i].differences.items[k];
                csv_text(out, row == 0 ? d->key : value_in(c, row - 1, d));
            }
}

static clt_status print_csv(const comparison *c)
{
    clt_str out = {0};
    clt_str_append(&out, "\"run\",\"state\"");
    for (int k = 0; k < CLT_FACT_COUNT; k++)
        csv_text(&out, clt_fact_columns[k].key);
    csv_keys(c, 0, &out);
    for (int i = 0; i < c->count; i++) {
        clt_str name = {0};
        csv_text(&name, c->runs[i]->name);
        clt_str_printf(&out, "\n%s", name.text ? name.text + 1 : "");
        out.failed = out.failed || name.failed;
        clt_str_free(&name);
        csv_text(&out, clt_run_verdict_text(c->runs[i]->verdict));
        for (int k = 0; k < CLT_FACT_COUNT; k++)
            csv_number(&out, c->facts[i].value[k]);
        csv_keys(c, i + 1, &out);
    }
    clt_str_append(&out, "\n");
    clt_status status = clt_str_check(&out);
    if (status == CLT_OK)
        fputs(out.text, stdout);
    clt_str_free(&out);
    return status;
}

clt_status cmd_compare(cmd_context *context, int argc, char **argv)
{
    (void)context;
    bool json = false, csv = false;
    double tolerance = 100 * CLT_COMPARE_TOLERANCE;
    const args_option options[] = {ARGS_FLOAT("--tolerance", "PERCENT", tolerance, 0, 100,
                                              "losses that differ by less are not called apart (1)"),
                                   ARGS_JSON(json), ARGS_FLAG("--csv", csv, "as CSV: a row for each run"),
                                   ARGS_END};
    const args_usage usage = {.command = "compare",
                              .operands = "RUN_A RUN_B ...",
                              .summary = "Compares runs: results, config keys that differ, and where their "
                                         "losses diverge. All are compared with the first.",
                              .options = options,
                              .min_operands = 2,
                              .max_operands = MAX_RUNS};
    args_result r;
    comparison *c;
    ARGS_PARSE(&usage, argc, argv, &r);
    if (json && csv)
        CLT_FAIL(CLT_EUSAGE, "cltrain compare: give --json or --csv, not both");
    CLT_TRY(clt_alloc(&c, 1, sizeof *c, "the comparison of runs"));
    c->tolerance = tolerance / 100;
    clt_status status = read_all(&r, c);
    if (status == CLT_OK && json)
        status = print_json(c);
    else if (status == CLT_OK && csv)
        status = print_csv(c);
    else if (status == CLT_OK)
        status = print_text(c);
    free_all(c);
    return status;
}
