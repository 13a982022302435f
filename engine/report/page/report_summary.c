/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the report's main figures: tiles for one run, a table for several. */
#include <math.h>
#include <string.h>

#include "engine/report/page/report_internal.h"
#include "engine/report/read/compare.h"

typedef void (*writer)(clt_str *out, double value);

static void tile(clt_str *out, const char *name, writer write, double value, const char *note)
{
    if (isnan(value))
        return;
    clt_str_printf(out, "<div class=\"tile\"><span>%s</span><b>", name);
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
        tile(out, "training loss", clt_html_number, f->mean_loss, note.text);
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
        bool measured = !isnan(f->perplexity);
        if (bits->values > 0) {
            clt_html_number(&note, bits->low);
            clt_str_append(&note, " bits per byte");
        }
        tile(out, measured ? "best perplexity" : "perplexity", clt_html_number,
             measured ? f->perplexity : exp(f->mean_loss), note.text);
    }
    report_release(out, &note);
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

void report_tiles(const report_page *page, const clt_run_record *run)
{
    clt_str *out = page->out;
    clt_metric speed = clt_run_speed_metric(run);
    clt_str note = {0};
    const clt_run_facts f = clt_run_facts_of(run);
    clt_str_append(out, "<section class=\"tiles\">\n");
    loss_tiles(out, run, &f);
    accuracy_tile(out, run);
    clt_str_append(&note, "");
    if (run->curve[CLT_METRIC_STEP_MS].values > 0) {
        clt_html_number(&note, clt_curve_median(&run->curve[CLT_METRIC_STEP_MS]));
        clt_str_append(&note, " ms a step");
    }
    tile(out, speed == CLT_METRIC_TOKENS_PER_S ? "tokens/s" : "samples/s", clt_html_count,
         clt_curve_median(&run->curve[speed]), note.text);
    tile(out, "device busy", clt_html_share, f.device_busy, "of each step");
    tile(out, "peak device memory", clt_html_bytes, f.device_bytes, "");
    note.length = 0;
    clt_str_printf(&note, "%lld", (long long)(run->last_step > 0 ? run->last_step : 0));
    if (run->steps_total > 0)
        clt_str_printf(&note, " of %lld", (long long)run->steps_total);
    clt_str_append(&note, " steps");
    tile(out, "time", clt_html_duration, f.seconds, note.text);
    tile(out, "parameters", clt_html_count, f.parameters, "");
    if (run->skipped > 0)
        tile(out, "skipped updates", clt_html_count, (double)run->skipped, "");
    clt_str_append(out, "</section>\n");
    report_release(out, &note);
}

/* --- several runs --- */

typedef struct column {
    const char *head;
    writer write;
    bool least_is_best, none_is_best;
    double value[CLT_REPORT_RUNS];
} column;

static void write_step(clt_str *out, double value)
{
    clt_str_printf(out, "%.0f", value);
}

/* kind[i]: what the loss of run i measures, as a number. Only runs of equal kind are compared: the best of
 * them is marked, unless all of them are equal. */
static void column_cell(clt_str *out, const column *c, const int *kind, int count, int run)
{
    double best = NAN;
    int equal = 0, values = 0;
    for (int i = 0; i < count; i++)
        if (kind[i] == kind[run] &&
            (isnan(best) || (c->least_is_best ? c->value[i] < best : c->value[i] > best)))
            best = c->value[i];
    for (int i = 0; i < count; i++) {
        values += kind[i] == kind[run] && !isnan(c->value[i]);
        equal += kind[i] == kind[run] && c->value[i] == best;
    }
    bool is_best = !c->none_is_best && c->value[run] == best && equal < values;
    clt_str_append(out, is_best ? "<td class=\"n best\">" : "<td class=\"n\">");
    if (isnan(c->value[run]))
        clt_str_append(out, "\xe2\x80\x93");
    else
        c->write(out, c->value[run]);
    clt_str_append(out, "</td>");
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

void report_runs_table(const report_page *page)
{
    column columns[] = {{"steps", write_step, false, true, {0}},
                        {"training loss", clt_html_number, true, false, {0}},
                        {"eval loss", clt_html_number, true, false, {0}},
                        {"best eval loss", clt_html_number, true, false, {0}},
                        {"best perplexity", clt_html_number, true, false, {0}},
                        {"best accuracy", clt_html_share, false, false, {0}},
                        {"tokens/s", clt_html_count, false, false, {0}},
                        {"samples/s", clt_html_count, false, false, {0}},
                        {"device busy", clt_html_share, false, true, {0}},
                        {"peak memory", clt_html_bytes, true, true, {0}},
                        {"time", clt_html_duration, true, true, {0}}};
    const int n = (int)(sizeof columns / sizeof columns[0]);
    int kind[CLT_REPORT_RUNS];
    bool used[sizeof columns / sizeof columns[0]] = {false};
    clt_str *out = page->out;
    for (int i = 0; i < page->count; i++) {
        const clt_run_facts f = clt_run_facts_of(page->runs[i]);
        bool tokens =
            clt_run_speed_metric(page->runs[i]) == CLT_METRIC_TOKENS_PER_S; /* one of the two is shown */
        const double values[] = {f.steps >= 0 ? (double)f.steps : NAN,
                                 f.mean_loss,
                                 f.eval_loss,
                                 f.best_eval_loss,
                                 f.perplexity,
                                 f.accuracy,
                                 tokens ? f.tokens_per_s : NAN,
                                 tokens ? NAN : f.samples_per_s,
                                 f.device_busy,
                                 f.device_bytes,
                                 f.seconds};
        for (int c = 0; c < n; c++) {
            columns[c].value[i] = values[c];
            used[c] |= !isnan(values[c]);
        }
    }
    number_kinds(page, kind);
    clt_str_append(out, "<section class=\"card\"><h3>Runs</h3><div class=\"scroll\"><table "
                        "class=\"runs\"><thead><tr><th>run</th>"
                        "<th>state</th>");
    for (int c = 0; c < n; c++)
        if (used[c])
            clt_str_printf(out, "<th>%s</th>", columns[c].head);
    clt_str_append(out, "</tr></thead><tbody>\n");
    for (int i = 0; i < page->count; i++) {
        clt_str_printf(out, "<tr><th><i class=\"sw c%d\"></i>", i);
        clt_html_text_cut(out, page->runs[i]->name, 80);
        clt_str_printf(out, "</th><td>%s</td>", clt_run_verdict_text(page->runs[i]->verdict));
        for (int c = 0; c < n; c++)
            if (used[c])
                column_cell(out, &columns[c], kind, page->count, i);
        clt_str_append(out, "</tr>\n");
    }
    clt_str_append(out, "</tbody></table></div></section>\n");
}
