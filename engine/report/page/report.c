/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the report's page from top to bottom. */
#include "engine/report/page/report.h"

#include <math.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/report/page/report_internal.h"

void report_open_page(clt_str *out, const char *title, const char *more_style)
{
    clt_str_append(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    clt_str_printf(
        out,
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
        "'unsafe-inline'; img-src data:; script-src 'sha256-%s'; base-uri 'none'; form-action 'none'\">\n",
        clt_report_script_sha256);
    clt_str_append(out, "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                        "<meta name=\"color-scheme\" content=\"light dark\">\n"
                        "<meta name=\"generator\" content=\"cltrain " CLT_VERSION "\">\n<title>");
    clt_html_text_cut(out, title, 300);
    clt_str_printf(out, "</title>\n<style>\n%s%s</style>\n</head>\n<body>\n<main>\n", clt_report_style,
                   more_style);
}

void report_close_page(clt_str *out, double now, bool script)
{
    clt_str_append(out, "<footer>written by cltrain " CLT_VERSION);
    if (now > 0) {
        clt_str_append(out, " on ");
        clt_html_time(out, now);
    }
    clt_str_append(out, "</footer>\n</main>\n");
    if (script)
        clt_str_printf(out, "<script>%s</script>\n", clt_report_script);
    clt_str_append(out, "</body>\n</html>\n");
}

/* --- head --- */

static void verdict(const report_page *page, const clt_run_record *run)
{
    static const char *const classes[] = {"good", "mid", "poor", "live", "mid"};
    static const char *const signs[] = {"\xe2\x9c\x93", "\xe2\x80\x96", "\xe2\x9c\x95", "\xe2\x97\x8f",
                                        "\xe2\x80\x96"};
    clt_str_printf(page->out, "<span class=\"verdict %s\">%s %s</span>", classes[run->verdict],
                   signs[run->verdict], clt_run_verdict_text(run->verdict));
    if (run->cause && *run->cause) {
        clt_html_in(page->out, " <span class=\"cause\">", run->cause, 1000, "</span>");
    }
}

/* Writes a list item with the member `key` of the run's start event, if the event has it. */
static void told(clt_str *out, const clt_json_doc *start, const char *before, const char *key,
                 const char *after)
{
    clt_str text = {0};
    clt_run_member(start, key, &text);
    if (text.length) {
        clt_str_printf(out, "<li>%s", before);
        clt_html_text_cut(out, text.text, 200);
        clt_str_printf(out, "%s</li>", after);
    }
    report_release(out, &text);
}

static void facts(const report_page *page, const clt_run_record *run)
{
    const clt_json_doc *start = clt_run_start(run);
    clt_str *out = page->out;
    clt_str_append(out, "<ul class=\"facts\">");
    told(out, start, "<b>", "device", "</b>");
    told(out, start, "driver ", "driver", "");
    told(out, start, "", "precision", "");
    double ranks = clt_run_number(start, "ranks");
    if (ranks > 0)
        clt_str_printf(out, "<li>%.0f rank%s</li>", ranks, CLT_PLURAL(ranks));
    told(out, start, "model ", "model", "");
    told(out, start, "global batch ", "global_batch", "");
    told(out, start, "cltrain ", "version", "");
    if (run->session_count > 0 && isfinite(run->sessions[0].first_time)) {
        clt_str_append(out, "<li>started ");
        clt_html_time(out, run->sessions[0].first_time);
        clt_str_append(out, "</li>");
    }
    if (run->session_total > 1)
        clt_str_printf(out, "<li>%lld sessions</li>", (long long)run->session_total);
    clt_str_append(out, "</ul>\n");
}

/* Says what was wrong with the run's files. */
static void remarks(const report_page *page, const clt_run_record *run)
{
    const clt_history_counts *c = &run->counts;
    clt_str *out = page->out;
    if (c->garbage > 0)
        clt_str_printf(
            out, "<p class=\"note\">%lld line%s of metrics.jsonl could not be read and %s skipped.</p>\n",
            (long long)c->garbage, CLT_PLURAL(c->garbage), c->garbage == 1 ? "is" : "are");
    if (c->torn && run->verdict != CLT_RUN_RUNNING)
        clt_str_append(out,
                       "<p class=\"note\">The last line of metrics.jsonl is torn, as after a crash.</p>\n");
    if (c->replaced > 0)
        clt_str_printf(
            out,
            "<p class=\"note\">%lld line%s of steps that were computed again after a resume %s left "
            "out.</p>\n",
            (long long)c->replaced, CLT_PLURAL(c->replaced), c->replaced == 1 ? "is" : "are");
    if (run->last_step < 0)
        clt_str_append(out, "<p class=\"note\">No training step is recorded yet.</p>\n");
}

static void run_head(const report_page *page, const clt_run_record *run, const char *title)
{
    clt_html_in(page->out, "<header><h1>", title, 300, "</h1><p>");
    verdict(page, run);
    clt_str_append(page->out, "</p>\n");
    facts(page, run);
    remarks(page, run);
    clt_str_append(page->out, "</header>\n");
}

static clt_status run_details(const report_page *page, int index)
{
    const clt_run_record *run = page->runs[index];
    CLT_TRY(report_classes(page, run));
    report_samples(page, run);
    report_sessions(page, run);
    report_cost(page, run);
    report_config(page, index);
    report_environment(page, run);
    report_events(page, run);
    return CLT_OK;
}

static clt_status one_run(const report_page *page, const char *title)
{
    run_head(page, page->runs[0], title);
    report_given_table(page);
    report_tiles(page, page->runs[0]);
    CLT_TRY(report_charts(page));
    return run_details(page, 0);
}

static clt_status several_runs(const report_page *page, const char *title)
{
    clt_str *out = page->out;
    clt_html_in(out, "<header><h1>", title, 300, "</h1></header>\n");
    report_given_table(page);
    report_runs_table(page);
    report_config_differences(page);
    CLT_TRY(report_charts(page));
    for (int i = 0; i < page->count; i++) {
        clt_str_printf(out, "<details class=\"run\"><summary><i class=\"sw c%d\"></i>", i);
        clt_html_text_cut(out, page->runs[i]->name, 100);
        clt_str_append(out, "</summary><p>");
        verdict(page, page->runs[i]);
        clt_str_append(out, "</p>\n");
        facts(page, page->runs[i]);
        remarks(page, page->runs[i]);
        report_tiles(page, page->runs[i]);
        CLT_TRY(run_details(page, i));
        clt_str_append(out, "</details>\n");
    }
    return CLT_OK;
}

static void join_names(const report_page *page, clt_str *title)
{
    for (int i = 0; i < page->count; i++)
        clt_str_printf(title, "%s%s",
                       i == 0                 ? ""
                       : i + 1 == page->count ? " and "
                                              : ", ",
                       page->runs[i]->name);
}

static void free_page(report_page *page)
{
    for (int i = 0; i < page->count; i++)
        clt_run_config_entries_free(&page->configs[i]);
}
CLT_SCOPED_VALUE(report_page, free_page)

clt_status clt_report_html(clt_run_record *const *records, int count, const clt_report_options *options,
                           clt_str *out)
{
    CLT_SCOPED(clt_str) title = {0};
    if (count < 1 || count > CLT_REPORT_RUNS)
        CLT_FAIL(CLT_EUSAGE, "a report shows 1 to %d runs, not %d", CLT_REPORT_RUNS, count);
    CLT_SCOPED(report_page) page = {.runs = records, .count = count, .table = options->table, .out = out};
    page.points = count <= 2 ? CLT_CURVE_POINTS : (size_t)(2 * CLT_CURVE_POINTS / count);
    for (int i = 0; i < count; i++)
        CLT_TRY(clt_run_config_entries(records[i], &page.configs[i]));
    if (options->title)
        clt_str_append(&title, options->title);
    else
        join_names(&page, &title);
    CLT_TRY(clt_str_check(&title));
    report_open_page(page.out, title.text, "");
    CLT_TRY(count == 1 ? one_run(&page, title.text) : several_runs(&page, title.text));
    report_close_page(page.out, options->now, true);
    return clt_str_check(out);
}
