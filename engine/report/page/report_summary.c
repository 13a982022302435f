/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the report's main figures: tiles for one run, a table for several. */
#include <math.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/report/page/report_internal.h"
#include "engine/report/read/run_facts.h"

typedef void (*writer)(clt_str *out, double value);

static void tile(clt_str *out, const char *name, writer write, double value, const char *note)
{
    if (isnan(value))
        return;
    clt_str_append(out, "<div class=\"tile\"><span>");
    clt_html_text(out, name);
    clt_str_append(out, "</span><b>");
    write(out, value);
    clt_str_printf(out, "</b><small>%s</small></div>\n", note ? note : "");
}

static void loss_tiles(clt_str *out, const clt_run_record *run, const clt_run_facts *f)
{
    const clt_curve *train = &run->curve[CLT_METRIC_LOSS], *eval = &run->curve[CLT_METRIC_EVAL_LOSS];
    clt_str note = {0};
    if (train->values > 0) {
        clt_str_append(&note, "last step: ");
        clt_html_number(&note, train->last);
        tile(out, "training loss", clt_html_number, f->value[CLT_FACT_MEAN_LOSS], note.text);
    }
    note.length = 0;
    if (eval->values > 0) {
        clt_str_append(&note, "best: ");
        clt_html_number(&note, eval->low);
        clt_str_printf(&note, " at step %lld", (long long)eval->low_step);
        tile(out, "evaluation loss", clt_html_number, eval->last, note.text);
    }
    note.length = 0;
    if (clt_run_is_language(run)) {
        const clt_curve *bits = &run->curve[CLT_METRIC_EVAL_BITS_PER_BYTE];
        bool measured = !isnan(f->value[CLT_FACT_PERPLEXITY]);
        if (bits->values > 0) {
            clt_html_number(&note, bits->low);
            clt_str_append(&note, " bits per byte");
        }
        tile(out, measured ? "best perplexity" : "perplexity", clt_html_number,
             measured ? f->value[CLT_FACT_PERPLEXITY] : clt_run_perplexity(run, f->value[CLT_FACT_MEAN_LOSS]),
             note.text);
    }
    report_release(out, &note);
}

/* Writes a tile for each of several losses, by its name. */
static void named_loss_tiles(clt_str *out, const clt_run_record *run)
{
    for (int i = 0; i < run->loss_count; i++) {
        const clt_run_facts f = clt_run_facts_of_loss(&run->losses[i]);
        double train = f.value[CLT_FACT_MEAN_LOSS], eval = f.value[CLT_FACT_EVAL_LOSS];
        clt_str note = {0};
        if (!isnan(eval))
            clt_str_append(&note, "evaluation");
        if (!isnan(eval) && !isnan(train)) {
            clt_str_append(&note, ": ");
            clt_html_number(&note, eval);
        }
        tile(out, run->losses[i].name, clt_html_number, isnan(train) ? eval : train, note.text);
        report_release(out, &note);
    }
}

static void accuracy_tile(clt_str *out, const clt_run_record *run)
{
    const clt_curve *eval = &run->curve[CLT_METRIC_EVAL_ACCURACY], *train = &run->curve[CLT_METRIC_ACCURACY];
    clt_str note = {0};
    if (eval->values > 0) {
        clt_str_append(&note, "best: ");
        clt_html_share(&note, eval->high);
        tile(out, "evaluation accuracy", clt_html_share, eval->last, note.text);
    } else if (train->values > 0 && !clt_run_is_language(run)) {
        tile(out, "training accuracy", clt_html_share, clt_curve_tail(train, 0.02), "");
    }
    report_release(out, &note);
}

static void regression_tile(clt_str *out, const clt_run_record *run, const clt_run_facts *f)
{
    const clt_curve *r2 = &run->curve[CLT_METRIC_EVAL_R2], *rmse = &run->curve[CLT_METRIC_EVAL_RMSE];
    clt_str note = {0};
    if (r2->values > 0) {
        clt_str_append(&note, "best: ");
        clt_html_number(&note, f->value[CLT_FACT_R2]);
        tile(out, "evaluation R2", clt_html_number, r2->last, note.text);
    }
    note.length = 0;
    if (rmse->values > 0) {
        clt_str_append(&note, "mean absolute error: ");
        clt_html_number(&note, run->curve[CLT_METRIC_EVAL_MAE].last);
        tile(out, "evaluation RMSE", clt_html_number, rmse->last, note.text);
    }
    report_release(out, &note);
}

static void cost_tiles(clt_str *out, const clt_run_record *run, const clt_run_facts *f)
{
    clt_str note = {0};
    clt_html_text_cut(&note, run->cost.terms.currency, CLT_CURRENCY_TEXT);
    if (!isnan(f->value[CLT_FACT_COST_TO_FINISH])) {
        clt_str_append(&note, note.length ? ", " : "");
        clt_html_number(&note, f->value[CLT_FACT_COST_TO_FINISH]);
        clt_str_append(&note, " to finish");
    }
    tile(out, "cost", clt_html_number, f->value[CLT_FACT_COST], note.text);
    note.length = 0;
    clt_html_number(&note, f->value[CLT_FACT_COST_LOST]);
    clt_str_append(&note, " paid for start-up, repeated steps and saving");
    tile(out, "goodput", clt_html_share, f->value[CLT_FACT_GOODPUT], note.text);
    report_release(out, &note);
}

/* Writes tiles of the driver's figures; a tile without a value is skipped. */
static void device_tiles(clt_str *out, const clt_run_record *run, const clt_run_facts *f)
{
    const clt_curve *power = &run->curve[CLT_METRIC_DEVICE_POWER];
    clt_str note = {0};
    clt_str_append(&note, "");
    tile(out, "device used", clt_html_share, f->value[CLT_FACT_UTILIZATION],
         "of the time, as its driver counts");
    if (power->values > 0) {
        clt_html_number(&note, clt_curve_mean(power, 0, INFINITY));
        clt_str_append(&note, " W on average");
    }
    tile(out, "energy in kWh", clt_html_number, f->value[CLT_FACT_ENERGY], note.text);
    report_release(out, &note);
}

void report_tiles(const report_page *page, const clt_run_record *run)
{
    clt_str *out = page->out;
    clt_metric speed = clt_run_speed_metric(run);
    clt_str note = {0};
    const clt_run_facts f = clt_run_facts_of(run);
    clt_str_append(out, "<section class=\"tiles\">\n");
    loss_tiles(out, run, &f);
    named_loss_tiles(out, run);
    accuracy_tile(out, run);
    regression_tile(out, run, &f);
    clt_str_append(&note, "");
    if (run->curve[CLT_METRIC_STEP_MS].values > 0) {
        clt_html_number(&note, clt_curve_median(&run->curve[CLT_METRIC_STEP_MS]));
        clt_str_append(&note, " ms a step");
    }
    tile(out, speed == CLT_METRIC_TOKENS_PER_S ? "tokens/s" : "samples/s", clt_html_count,
         clt_curve_median(&run->curve[speed]), note.text);
    tile(out, "device busy", clt_html_share, f.value[CLT_FACT_DEVICE_BUSY], "of each step");
    tile(out, "peak device memory", clt_html_bytes, f.value[CLT_FACT_DEVICE_BYTES], "");
    note.length = 0;
    clt_str_printf(&note, "%lld", (long long)(run->last_step > 0 ? run->last_step : 0));
    if (run->steps_total > 0)
        clt_str_printf(&note, " of %lld", (long long)run->steps_total);
    clt_str_printf(&note, " step%s", CLT_PLURAL(run->steps_total > 0 ? run->steps_total : run->last_step));
    tile(out, "time", clt_html_duration, f.value[CLT_FACT_SECONDS], note.text);
    tile(out, "parameters", clt_html_count, f.value[CLT_FACT_PARAMETERS], "");
    device_tiles(out, run, &f);
    cost_tiles(out, run, &f);
    if (run->skipped > 0)
        tile(out, "skipped updates", clt_html_count, (double)run->skipped, "");
    clt_str_append(out, "</section>\n");
    report_release(out, &note);
}

/* --- several runs --- */

static void write_step(clt_str *out, double value)
{
    clt_str_printf(out, "%.0f", value);
}

static const writer writers[] = {[CLT_FORM_STEP] = write_step,      [CLT_FORM_NUMBER] = clt_html_number,
                                 [CLT_FORM_COUNT] = clt_html_count, [CLT_FORM_SHARE] = clt_html_share,
                                 [CLT_FORM_BYTES] = clt_html_bytes, [CLT_FORM_SECONDS] = clt_html_duration};

/* A fact for which at least one run has a value, with the values by run. */
typedef struct column {
    const clt_column *fact;
    double value[CLT_REPORT_RUNS];
} column;

static void number_cell(clt_str *out, const clt_column *fact, double value, bool best)
{
    clt_str_append(out, best ? "<td class=\"n best\">" : "<td class=\"n\">");
    if (isnan(value))
        clt_str_append(out, "\xe2\x80\x93");
    else
        writers[fact->form](out, value);
    clt_str_append(out, "</td>");
}

/* A row for each of a run's several losses, below the run's own. */
static void loss_rows(clt_str *out, const clt_run_record *run, const column *columns, int n)
{
    for (int i = 0; i < run->loss_count; i++) {
        const clt_run_facts f = clt_run_facts_of_loss(&run->losses[i]);
        clt_str_append(out, "<tr><td>");
        clt_html_text(out, run->losses[i].name);
        clt_str_append(out, "</td><td></td>");
        for (int c = 0; c < n; c++) {
            clt_fact fact = (clt_fact)(columns[c].fact - clt_fact_columns);
            if (fact >= CLT_FACT_LOSS && fact <= CLT_FACT_LAST_OF_LOSS)
                number_cell(out, columns[c].fact, f.value[fact], false);
            else
                clt_str_append(out, "<td></td>");
        }
        clt_str_append(out, "</tr>\n");
    }
}

/* kind[i]: what the loss of run i measures, as a number. Only runs of equal kind are compared: the best of
 * them is marked, unless all of them are equal. */
static void column_cell(clt_str *out, const column *c, const int *kind, int count, int run)
{
    bool best = clt_cell_is_best(c->fact, c->value, kind, count, run);
    number_cell(out, c->fact, c->value[run], best);
}

/* Gives runs whose losses can be compared the same number. */
static void number_kinds(const report_page *page, int *kind)
{
    char mine[256], other[256];
    for (int i = 0; i < page->count; i++) {
        kind[i] = i;
        clt_run_loss_kind(page->runs[i], mine, sizeof mine);
        for (int k = i - 1; k >= 0; k--)
            if (strcmp(mine, clt_run_loss_kind(page->runs[k], other, sizeof other)) == 0)
                kind[i] = kind[k];
    }
}

/* Fills the columns that have values. Returns their number. */
static int fill_columns(const report_page *page, column *columns)
{
    int n = 0;
    clt_run_facts facts[CLT_REPORT_RUNS];
    for (int i = 0; i < page->count; i++)
        facts[i] = clt_run_facts_of(page->runs[i]);
    for (clt_fact f = 0; f < CLT_FACT_COUNT; f++) {
        bool used = false;
        columns[n].fact = &clt_fact_columns[f];
        for (int i = 0; i < page->count; i++) {
            columns[n].value[i] = clt_run_shows(page->runs[i], f) ? facts[i].value[f] : NAN;
            used |= !isnan(columns[n].value[i]);
        }
        n += used && clt_fact_columns[f].on_page;
    }
    return n;
}

void report_runs_table(const report_page *page)
{
    column columns[CLT_FACT_COUNT];
    int kind[CLT_REPORT_RUNS];
    clt_str *out = page->out;
    number_kinds(page, kind);
    int n = fill_columns(page, columns);
    clt_str_append(out, "<section class=\"card\"><h3>Runs</h3><div class=\"scroll\"><table "
                        "class=\"runs\"><thead><tr><th>run</th>"
                        "<th>state</th>");
    for (int c = 0; c < n; c++)
        clt_str_printf(out, "<th>%s</th>", columns[c].fact->title);
    clt_str_append(out, "</tr></thead><tbody>\n");
    for (int i = 0; i < page->count; i++) {
        clt_str_printf(out, "<tr><th><i class=\"sw c%d\"></i>", i);
        clt_html_text_cut(out, page->runs[i]->name, 80);
        clt_str_printf(out, "</th><td>%s</td>", clt_run_verdict_text(page->runs[i]->verdict));
        for (int c = 0; c < n; c++)
            column_cell(out, &columns[c], kind, page->count, i);
        clt_str_append(out, "</tr>\n");
        loss_rows(out, page->runs[i], columns, n);
    }
    clt_str_append(out, "</tbody></table></div></section>\n");
}
