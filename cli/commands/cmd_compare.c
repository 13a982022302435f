/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain compare RUN_A RUN_B...: a table of runs, the differences of their configs, and where their losses
 * diverge. */
#include "engine/report/read/compare.h"

#include <math.h>
#include <stdio.h>
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
#include "engine/sweep/sweep.h"

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
    pair pairs[MAX_RUNS]; /* pairs[0] is not used */
} comparison;

/* Lists the runs to compare. For a sweep these are the best trials, up to the number that fits into the
 * list. */
static clt_status list_runs(const args_result *r, clt_file_list *list)
{
    CLT_TRY(clt_fail_prefix(clt_sweep_runs(r->operands, r->n_operands, MAX_RUNS, list), "cltrain compare"));
    if (list->count < 2)
        CLT_FAIL(CLT_EUSAGE, "cltrain compare: give at least two runs; only one is given");
    return CLT_OK;
}

static clt_status read_all(const args_result *r, comparison *c)
{
    CLT_SCOPED(clt_file_list) list = {0};
    CLT_TRY(list_runs(r, &list));
    for (; c->count < (int)list.count; c->count++) {
        CLT_TRY(clt_run_record_load(list.name[c->count], &c->runs[c->count]));
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
    for (int i = 0; c && i < MAX_RUNS; i++) {
        clt_run_record_free(c->runs[i]);
        clt_run_differences_free(&c->pairs[i].differences);
    }
    free(c);
}
CLT_SCOPED_POINTER(comparison, free_all)

/* --- as text --- */

static bool is_shown(const comparison *c, clt_fact fact)
{
    const clt_column *column = &clt_fact_columns[fact];
    bool any = column->always;
    for (int i = 0; i < c->count; i++)
        any |= !isnan(c->facts[i].value[fact]);
    /* every run has its speed in two units; the unit of the first run is shown, even if that run's speed is
     * unknown */
    bool speed = fact == CLT_FACT_TOKENS_PER_S || fact == CLT_FACT_SAMPLES_PER_S;
    return column->head && clt_run_shows(c->runs[0], fact) && (any || speed);
}

#define LOSS_INDENT 2

/* Adds a row for each loss of a run with several losses, below the run's row. facts[k]: the fact in column
 * k. */
static void put_run_losses(const clt_run_record *run, const table *t, const clt_fact *facts, clt_str *out)
{
    for (int i = 0; i < run->loss_count; i++) {
        const clt_run_facts f = clt_run_facts_of_loss(&run->losses[i]);
        char name[LOSS_INDENT + CLT_LINE_LOSS_NAME], text[TABLE_COLUMNS][CLT_CELL_TEXT];
        const char *cells[TABLE_COLUMNS] = {name};
        (void)snprintf(name, sizeof name, "%*s%s", LOSS_INDENT, "", run->losses[i].name);
        for (int k = 1; k < t->count - 1; k++)
            if (facts[k] >= CLT_FACT_LOSS && facts[k] <= CLT_FACT_LAST_OF_LOSS)
                cells[k] = clt_cell_text(&clt_fact_columns[facts[k]], f.value[facts[k]], text[k]);
        table_row(t, cells, out);
    }
}

static void put_runs(const comparison *c, int screen, clt_str *out)
{
    table t;
    int longest = 3, n = 1;
    clt_fact facts[TABLE_COLUMNS] = {0};
    for (int i = 0; i < c->count; i++) {
        int columns = text_columns(c->runs[i]->name);
        longest = columns > longest ? columns : longest;
        for (int k = 0; k < c->runs[i]->loss_count; k++) {
            columns = LOSS_INDENT + text_columns(c->runs[i]->losses[k].name);
            longest = columns > longest ? columns : longest;
        }
    }
    /* the first column is the run's name, the last one its state */
    table_column columns[TABLE_COLUMNS] = {{"run", longest, 10, 0, false}};
    for (clt_fact f = 0; f < CLT_FACT_COUNT; f++)
        if (is_shown(c, f)) {
            facts[n] = f;
            columns[n++] = (table_column){clt_fact_columns[f].head, 6, 0, clt_fact_columns[f].rank, true};
        }
    columns[n] = (table_column){"state", 8, 0, 8, false};
    table_make(&t, columns, n + 1, screen);
    table_head(&t, out);
    for (int i = 0; i < c->count; i++) {
        char text[TABLE_COLUMNS][CLT_CELL_TEXT];
        const char *cells[TABLE_COLUMNS] = {c->runs[i]->name};
        for (int k = 1; k < n; k++)
            cells[k] = clt_cell_text(&clt_fact_columns[facts[k]], c->facts[i].value[facts[k]], text[k]);
        cells[n] = clt_run_verdict_text(c->runs[i]->verdict);
        table_row(&t, cells, out);
        put_run_losses(c->runs[i], &t, facts, out);
    }
}

static void put_losses(const comparison *c, const clt_divergence *p, clt_str *out)
{
    if (p->common == 0) {
        clt_str_append(out, "the runs have no step in common");
        return;
    }
    if (p->first_different < 0) {
        clt_str_printf(out, "equal in all %lld common step%s", (long long)p->common, CLT_PLURAL(p->common));
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
    CLT_SCOPED(clt_str) losses = {0}, line = {0};
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
    clt_jw_key(w, key);
    clt_jw_value(w, clt_json_get(clt_json_root(start), key));
}

static void json_step(clt_json_writer *w, const char *key, int64_t step)
{
    clt_jw_key(w, key);
    if (step >= 0)
        clt_jw_int(w, step);
    else
        clt_jw_null(w);
}

/* Writes the facts of each of several losses, under the loss's name. */
static void json_losses(clt_json_writer *w, const clt_run_record *run)
{
    if (run->loss_count == 0)
        return;
    clt_jw_kobject(w, "losses");
    for (int i = 0; i < run->loss_count; i++) {
        const clt_run_facts facts = clt_run_facts_of_loss(&run->losses[i]);
        clt_jw_kobject(w, run->losses[i].name);
        for (clt_fact f = CLT_FACT_LOSS; f <= CLT_FACT_LAST_OF_LOSS; f++)
            clt_cell_json(&clt_fact_columns[f], facts.value[f], w);
        clt_jw_end_object(w);
    }
    clt_jw_end_object(w);
}

static void json_run(clt_json_writer *w, const comparison *c, int index)
{
    const clt_run_record *run = c->runs[index];
    static const char *const members[] = {"device", "driver", "precision", "ranks", "host", "version"};
    clt_jw_object(w);
    clt_jw_kstring(w, "name", run->name);
    clt_jw_kstring(w, "folder", run->folder);
    clt_jw_kstring(w, "state", clt_run_verdict_text(run->verdict));
    clt_jw_kstring(w, "cause", run->cause);
    clt_jw_kint(w, "steps_total", run->steps_total);
    for (clt_fact f = 0; f < CLT_FACT_COUNT; f++)
        if (clt_fact_is_told(f, c->facts, c->count))
            clt_cell_json(&clt_fact_columns[f], c->facts[index].value[f], w);
    json_losses(w, run);
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
    CLT_SCOPED(clt_str) out = {0};
    clt_json_writer w = clt_json_writer_make(&out, 1);
    clt_jw_object(&w);
    clt_jw_karray(&w, "runs");
    for (int i = 0; i < c->count; i++)
        json_run(&w, c, i);
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
    return cmd_write_line("-", &out);
}

/* --- as CSV --- */

/* True if no earlier difference, of this or an earlier run, has the same key: each key gets one column. */
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
    return d->a; /* this run has the first run's value, too */
}

/* Appends the columns of differing keys. row 0: their titles; else the values of run `row` - 1. */
static void csv_keys(const comparison *c, int row, clt_str *out)
{
    for (int i = 1; i < c->count; i++)
        for (size_t k = 0; k < c->pairs[i].differences.count; k++)
            if (first_to_differ(c, i, k)) {
                const clt_difference *d = &c->pairs[i].differences.items[k];
                clt_csv_text(out, row == 0 ? d->key : value_in(c, row - 1, d));
            }
}

/* True if no earlier run has a loss with that name: each name gets one group of columns. */
static bool first_with_loss(const comparison *c, int run, const char *name)
{
    for (int i = 0; i < run; i++)
        if (clt_run_loss_named(c->runs[i], name))
            return false;
    return true;
}

/* Appends the columns of each of several losses, as csv_keys does. A title is the path to the value in
 * JSON. */
static void csv_losses(const comparison *c, int row, clt_str *out)
{
    for (int i = 0; i < c->count; i++)
        for (int k = 0; k < c->runs[i]->loss_count; k++) {
            const char *name = c->runs[i]->losses[k].name;
            const clt_run_loss *loss = row > 0 ? clt_run_loss_named(c->runs[row - 1], name) : NULL;
            for (clt_fact f = CLT_FACT_LOSS; first_with_loss(c, i, name) && f <= CLT_FACT_LAST_OF_LOSS; f++) {
                char title[CLT_LINE_LOSS_NAME + 40];
                (void)snprintf(title, sizeof title, "losses.%s.%s", name, clt_fact_columns[f].key);
                if (row == 0)
                    clt_csv_text(out, title);
                else
                    clt_csv_number(out, loss ? clt_run_facts_of_loss(loss).value[f] : NAN);
            }
        }
}

static clt_status print_csv(const comparison *c)
{
    CLT_SCOPED(clt_str) out = {0};
    clt_csv_text(&out, "run");
    clt_csv_text(&out, "state");
    for (clt_fact f = 0; f < CLT_FACT_COUNT; f++)
        if (clt_fact_is_told(f, c->facts, c->count))
            clt_csv_text(&out, clt_fact_columns[f].key);
    csv_losses(c, 0, &out);
    csv_keys(c, 0, &out);
    for (int i = 0; i < c->count; i++) {
        clt_str_append(&out, "\n");
        clt_csv_text(&out, c->runs[i]->name);
        clt_csv_text(&out, clt_run_verdict_text(c->runs[i]->verdict));
        for (clt_fact f = 0; f < CLT_FACT_COUNT; f++)
            if (clt_fact_is_told(f, c->facts, c->count))
                clt_csv_number(&out, c->facts[i].value[f]);
        csv_losses(c, i + 1, &out);
        csv_keys(c, i + 1, &out);
    }
    return cmd_write_line("-", &out);
}

clt_status cmd_compare(cmd_context *context, int argc, char **argv)
{
    (void)context;
    bool json = false, csv = false;
    double tolerance = 100 * CLT_COMPARE_TOLERANCE;
    const args_option options[] = {ARGS_FLOAT("--tolerance", "PERCENT", tolerance, 0, 100,
                                              "losses count as apart if they differ by more than this (1)"),
                                   ARGS_JSON(json), ARGS_FLAG("--csv", csv, "as CSV: a row for each run"),
                                   ARGS_END};
    const args_usage usage = ARGS_USAGE(
        "compare", "RUN_A RUN_B ...", 1, MAX_RUNS, options,
        "Compares runs: results, config keys that differ, and where their losses diverge. All are compared "
        "with the first. For the folder of a sweep its trials are compared, the best one first.");
    args_result r;
    CLT_SCOPED(comparison) *c = NULL;
    ARGS_PARSE(&usage, argc, argv, &r);
    if (json && csv)
        CLT_FAIL(CLT_EUSAGE, "cltrain compare: give --json or --csv, not both");
    CLT_TRY(clt_alloc(&c, 1, sizeof *c, "the comparison of runs"));
    c->tolerance = tolerance / 100;
    CLT_TRY(read_all(&r, c));
    return json ? print_json(c) : csv ? print_csv(c) : print_text(c);
}
