/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the report's tables: sessions, samples, environment, events, config. All text is escaped as it is
 * written. */
#include <math.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/report/page/report_internal.h"
#include "engine/report/read/run_facts.h"

#define MAX_SAMPLES 24
#define MAX_EVENT_ROWS 300
#define MAX_TEXT 4000 /* most characters of one text */

/* --- small parts --- */

static void cell(clt_str *out, const char *text)
{
    clt_str_append(out, "<td>");
    if (text && *text)
        clt_html_text_cut(out, text, MAX_TEXT);
    else
        clt_str_append(out, "\xe2\x80\x93");
    clt_str_append(out, "</td>");
}

static void member_cell(clt_str *out, const clt_json_doc *doc, const char *key)
{
    clt_str text = {0};
    clt_run_member(doc, key, &text);
    cell(out, text.text);
    report_release(out, &text);
}

static void step_cell(clt_str *out, int64_t step)
{
    clt_str_printf(out, step >= 0 ? "<td class=\"n\">%lld</td>" : "<td class=\"n\">\xe2\x80\x93</td>",
                   (long long)step);
}

static void time_cell(clt_str *out, double time)
{
    clt_str_append(out, "<td class=\"t\">");
    clt_html_time(out, time);
    clt_str_append(out, "</td>");
}

/* kind: the class of the table in the page's style, or "". */
static void open_table(clt_str *out, const char *kind, const char *const *heads, size_t count)
{
    clt_str_printf(out, "<div class=\"scroll\"><table class=\"%s\"><thead><tr>", kind);
    for (size_t i = 0; i < count; i++)
        clt_str_printf(out, "<th>%s</th>", heads[i]);
    clt_str_append(out, "</tr></thead><tbody>\n");
}

static void close_table(clt_str *out)
{
    clt_str_append(out, "</tbody></table></div>\n");
}

#define HEADS(list) list, sizeof list / sizeof list[0]

/* --- the caller's table --- */

void report_given_table(const report_page *page)
{
    const clt_report_table *t = page->table;
    clt_str *out = page->out;
    if (!t || t->rows == 0)
        return;
    clt_str_append(out, "<section class=\"card\"><h3>");
    clt_html_text_cut(out, t->title, MAX_TEXT);
    clt_html_in(out, " <small>", t->note, MAX_TEXT, "</small></h3>");
    clt_str_append(out, "<div class=\"scroll\"><table class=\"given\"><thead><tr>");
    for (int c = 0; c < t->columns; c++)
        clt_html_in(out, "<th>", t->heads[c], MAX_TEXT, "</th>");
    clt_str_append(out, "</tr></thead><tbody>\n");
    for (int i = 0; i < t->rows; i++) {
        clt_str_append(out, "<tr>");
        for (int c = 0; c < t->columns; c++)
            cell(out, t->cells[i * t->columns + c]);
        clt_str_append(out, "</tr>\n");
    }
    close_table(out);
    clt_str_append(out, "</section>\n");
}

/* --- sessions --- */

static void ended_cell(clt_str *out, const clt_run_record *run, size_t index)
{
    static const char *const texts[CLT_RUN_EVENT_KINDS] = {[CLT_RUN_EVENT_END] = "finished",
                                                           [CLT_RUN_EVENT_STOPPED] = "stopped",
                                                           [CLT_RUN_EVENT_FAILED] = "failed"};
    bool last = index + 1 == run->session_count;
    const char *known = texts[run->sessions[index].ended];
    cell(out, known                                     ? known
              : last && run->verdict == CLT_RUN_RUNNING ? "running"
              : run->event_count > 0                    ? "ended without a message"
                                                        : NULL);
}

void report_sessions(const report_page *page, const clt_run_record *run)
{
    static const char *const heads[] = {"",     "started", "steps",   "lasted", "device",
                                        "host", "ranks",   "version", "ended"};
    clt_str *out = page->out;
    if (run->session_count == 0 || (run->session_count == 1 && !run->sessions[0].start))
        return;
    clt_str_append(out, "<section class=\"card\"><h3>Sessions <small>each start and resume</small></h3>");
    open_table(out, "sessions", HEADS(heads));
    for (size_t i = 0; i < run->session_count; i++) {
        const clt_run_session *s = &run->sessions[i];
        clt_str_printf(out, "<tr><td class=\"n\">%zu</td>", i + 1);
        time_cell(out, s->first_time);
        if (s->first_step >= 0)
            clt_str_printf(out, "<td class=\"n\">%lld \xe2\x80\x93 %lld</td>", (long long)s->first_step,
                           (long long)s->last_step);
        else
            step_cell(out, -1);
        clt_str_append(out, "<td class=\"n\">");
        clt_html_duration(out, s->last_time - s->first_time);
        clt_str_append(out, "</td>");
        member_cell(out, s->start, "device");
        member_cell(out, s->start, "host");
        member_cell(out, s->start, "ranks");
        member_cell(out, s->start, "version");
        ended_cell(out, run, i);
        clt_str_append(out, "</tr>\n");
    }
    close_table(out);
    if (run->session_total > (int64_t)run->session_count)
        clt_str_printf(out, "<p class=\"note\">%lld session%s in all; not all are listed.</p>",
                       (long long)run->session_total, CLT_PLURAL(run->session_total));
    clt_str_append(out, "</section>\n");
}

/* --- cost --- */

static void money_row(clt_str *out, const char *title, double money, const char *currency)
{
    char text[CLT_MONEY_TEXT];
    if (isnan(money) || !(money > 0))
        return;
    clt_str_printf(out, "<tr><td>%s</td>", title);
    cell(out, clt_money_text(money, currency, text));
    clt_str_append(out, "</tr>\n");
}

static void share_row(clt_str *out, const char *title, double share)
{
    if (isnan(share))
        return;
    clt_str_printf(out, "<tr><td>%s</td><td>", title);
    clt_html_share(out, share);
    clt_str_append(out, "</td></tr>\n");
}

static void seconds_row(clt_str *out, const char *title, double seconds)
{
    if (isnan(seconds))
        return;
    clt_str_printf(out, "<tr><td>%s</td><td>", title);
    clt_html_duration(out, seconds);
    clt_str_append(out, "</td></tr>\n");
}

void report_cost(const report_page *page, const clt_run_record *run)
{
    static const char *const heads[] = {"", ""};
    static const clt_fact of_work[] = {CLT_FACT_COST_MILLION, CLT_FACT_COST_THOUSAND, CLT_FACT_COST_EPOCH,
                                       CLT_FACT_COST_TO_FINISH, CLT_FACT_COST_LOST};
    const clt_cost_terms *t = &run->cost.terms;
    const clt_cost_sums *s = &run->cost.sums;
    const clt_run_facts f = clt_run_facts_of(run);
    const clt_json_doc *start = clt_run_start(run);
    const clt_json *told = clt_json_get(clt_json_root(start), "cost");
    const clt_json *tags = clt_json_get(told, "tags");
    clt_str *out = page->out;
    if (!(t->per_hour > 0))
        return;
    clt_str_append(out, "<section class=\"card\"><h3>Cost <small>of all sessions</small></h3>");
    open_table(out, "cost", HEADS(heads));
    money_row(out, "cost", s->total, t->currency);
    for (size_t i = 0; i < sizeof of_work / sizeof of_work[0]; i++)
        money_row(out, clt_fact_columns[of_work[i]].title, f.value[of_work[i]], t->currency);
    money_row(out, "price of a machine for an hour", t->per_hour, t->currency);
    clt_str_printf(out, "<tr><td>machines</td><td>%lld</td></tr>\n", (long long)t->machines);
    share_row(out, "saved against the price on demand", f.value[CLT_FACT_SPOT_SAVING]);
    seconds_row(out, "wall time", s->seconds);
    share_row(out, "goodput: share of it that trained", f.value[CLT_FACT_GOODPUT]);
    seconds_row(out, "start-up", s->startup_s);
    seconds_row(out, "steps computed again", s->repeated_s);
    seconds_row(out, "waiting for checkpoints", s->saving_s);
    seconds_row(out, "checkpoint interval that would lose least", clt_run_save_interval(run));
    if (clt_json_typeof(tags) == CLT_JSON_STRING) {
        clt_str_append(out, "<tr><td>tags</td>");
        cell(out, clt_json_string(tags));
        clt_str_append(out, "</tr>\n");
    }
    close_table(out);
    clt_str_append(out, "</section>\n");
}

/* --- samples --- */

static void sample(clt_str *out, const clt_run_event *e)
{
    clt_str prompt = {0}, text = {0};
    clt_run_member(e->doc, "prompt", &prompt);
    clt_run_member(e->doc, "text", &text);
    clt_str_printf(out, "<figure class=\"sample\"><figcaption>step %lld</figcaption><pre>",
                   (long long)e->step);
    /* HTML drops a newline right after <pre>, so something must precede the text */
    clt_html_in(out, "<b>", prompt.text, MAX_TEXT, "</b>");
    size_t n = prompt.length;
    bool repeats = n > 0 && text.length >= n && memcmp(text.text, prompt.text, n) == 0;
    clt_html_text_cut(out, text.text ? text.text + (repeats ? n : 0) : NULL, MAX_TEXT);
    clt_str_append(out, "</pre></figure>\n");
    report_release(out, &prompt);
    report_release(out, &text);
}

void report_samples(const report_page *page, const clt_run_record *run)
{
    size_t total = 0, index = 0, shown = 0;
    for (size_t i = 0; i < run->event_count; i++)
        total += run->events[i].kind == CLT_RUN_EVENT_SAMPLE;
    if (total == 0)
        return;
    size_t most = total < MAX_SAMPLES ? total : MAX_SAMPLES;
    clt_str_append(page->out,
                   "<section class=\"card\"><h3>Samples <small>what the model wrote on the way</small></h3>"
                   "<div class=\"samples\">\n");
    for (size_t i = 0; i < run->event_count; i++) {
        if (run->events[i].kind != CLT_RUN_EVENT_SAMPLE)
            continue;
        /* samples are chosen evenly, including the first and the last */
        size_t wanted = most > 1 ? shown * (total - 1) / (most - 1) : total - 1;
        if (index++ == wanted && shown < most) {
            sample(page->out, &run->events[i]);
            shown++;
        }
    }
    clt_str_append(page->out, "</div></section>\n");
}

/* --- environment --- */

void report_environment(const report_page *page, const clt_run_record *run)
{
    const clt_json_doc *start = clt_run_start(run);
    clt_str *out = page->out;
    if (!start)
        return;
    clt_str_append(
        out, "<details class=\"card\"><summary>Environment</summary><div class=\"scroll\"><table><tbody>\n");
    for (const clt_json *v = clt_json_first(clt_json_root(start)); v; v = clt_json_next(v)) {
        const char *key = clt_json_key(v);
        if (strcmp(key, "event") == 0 || strcmp(key, "time") == 0 || strcmp(key, "step") == 0)
            continue;
        clt_html_in(out, "<tr><th>", key, 100, "</th>");
        member_cell(out, start, key);
        clt_str_append(out, "</tr>\n");
    }
    clt_str_append(out, "</tbody></table></div></details>\n");
}

/* --- events --- */

/* The text of an event: its main member, or else all members that have no column of their own. */
static void event_text(const clt_run_event *e, clt_str *out)
{
    static const char *const main_member[CLT_RUN_EVENT_KINDS] = {
        [CLT_RUN_EVENT_ADVICE] = "text",    [CLT_RUN_EVENT_WARNING] = "text",
        [CLT_RUN_EVENT_NOTICE] = "text",    [CLT_RUN_EVENT_SAMPLE] = "text",
        [CLT_RUN_EVENT_STOPPED] = "reason", [CLT_RUN_EVENT_FAILED] = "message",
        [CLT_RUN_EVENT_START] = "device"};
    if (main_member[e->kind]) {
        clt_run_member(e->doc, main_member[e->kind], out);
        return;
    }
    for (const clt_json *v = clt_json_first(clt_json_root(e->doc)); v; v = clt_json_next(v)) {
        const char *key = clt_json_key(v);
        if (strcmp(key, "event") == 0 || strcmp(key, "step") == 0 || strcmp(key, "time") == 0)
            continue;
        clt_str_printf(out, "%s%s ", out->length ? ", " : "", key);
        if (strcmp(key, "seconds") == 0 && clt_json_typeof(v) == CLT_JSON_NUMBER)
            clt_html_number(out, clt_json_number(v));
        else
            clt_run_member(e->doc, key, out);
    }
}

static void event_row(clt_str *out, const clt_run_event *e)
{
    clt_str text = {0}, name = {0};
    clt_run_member(e->doc, "event", &name);
    event_text(e, &text);
    clt_str_append(out, "<tr>");
    step_cell(out, e->step);
    time_cell(out, e->time);
    cell(out, name.text);
    cell(out, text.text);
    clt_str_append(out, "</tr>\n");
    report_release(out, &text);
    report_release(out, &name);
}

void report_events(const report_page *page, const clt_run_record *run)
{
    static const char *const heads[] = {"step", "time", "event", ""};
    clt_str *out = page->out;
    int64_t total = 0;
    size_t shown = 0, skip = 0;
    for (int k = 0; k < CLT_RUN_EVENT_KINDS; k++)
        total += k == CLT_RUN_EVENT_SAMPLE ? 0 : run->event_total[k];
    if (total == 0)
        return;
    for (size_t i = 0; i < run->event_count; i++)
        skip += run->events[i].kind != CLT_RUN_EVENT_SAMPLE;
    skip = skip > MAX_EVENT_ROWS ? skip - MAX_EVENT_ROWS : 0;
    clt_str_printf(out, "<details class=\"card\"><summary>Events <small>%lld</small></summary>\n",
                   (long long)total);
    open_table(out, "events", HEADS(heads));
    for (size_t i = 0; i < run->event_count; i++) {
        if (run->events[i].kind == CLT_RUN_EVENT_SAMPLE || (skip > 0 && skip--))
            continue;
        event_row(out, &run->events[i]);
        shown++;
    }
    close_table(out);
    if (total > (int64_t)shown)
        clt_str_printf(out, "<p class=\"note\">%lld more are in metrics.jsonl.</p>",
                       (long long)total - (long long)shown);
    clt_str_append(out, "</details>\n");
}

/* --- config --- */

static void config_rows(clt_str *out, const clt_config_entries *entries, bool changed)
{
    for (size_t i = 0; i < entries->count; i++) {
        const clt_config_entry *e = &entries->items[i];
        if (e->changed != changed)
            continue;
        clt_html_in(out, "<tr><th>", e->key, 200, "</th><td><code>");
        clt_html_text_cut(out, e->value, MAX_TEXT);
        clt_str_append(out, "</code></td><td class=\"m\">");
        if (changed && e->preset) {
            clt_html_in(out, "default <code>", e->preset, 200, "</code>");
        }
        clt_str_append(out, "</td></tr>\n");
    }
}

void report_config(const report_page *page, int run)
{
    const clt_config_entries *entries = &page->configs[run];
    clt_str *out = page->out;
    size_t changed = 0;
    for (size_t i = 0; i < entries->count; i++)
        changed += entries->items[i].changed;
    clt_str_append(out, "<details class=\"card\"><summary>Config");
    if (entries->count == 0) {
        clt_str_append(out, "</summary><p class=\"note\">");
        clt_html_text(out, page->runs[run]->config_problem ? page->runs[run]->config_problem : "unknown");
        clt_str_append(out, "</p></details>\n");
        return;
    }
    clt_str_printf(out, " <small>%zu key%s from %s default%s</small></summary>\n", changed,
                   changed == 1 ? " differs" : "s differ", changed == 1 ? "its" : "their",
                   CLT_PLURAL(changed));
    clt_str_append(out, "<div class=\"scroll\"><table class=\"config\"><tbody>\n");
    config_rows(out, entries, true);
    clt_str_append(out, "</tbody></table></div><details><summary>keys with their defaults</summary>"
                        "<div class=\"scroll\"><table class=\"config\"><tbody>\n");
    config_rows(out, entries, false);
    clt_str_append(out, "</tbody></table></div></details></details>\n");
}

static bool differs(const report_page *page, const char *key)
{
    const char *first = clt_run_config_value(&page->configs[0], key);
    for (int i = 1; i < page->count; i++) {
        const char *value = clt_run_config_value(&page->configs[i], key);
        if (!first != !value || (first && strcmp(first, value) != 0))
            return true;
    }
    return false;
}

/* Appends one row for each config key that differs between any two runs, at most 200 rows. */
static void difference_rows(const report_page *page, size_t *rows)
{
    clt_str *out = page->out;
    for (int run = 0; run < page->count; run++)
        for (size_t i = 0; i < page->configs[run].count; i++) {
            const char *key = page->configs[run].items[i].key;
            bool earlier = false;
            for (int k = 0; k < run; k++)
                earlier |= clt_run_config_value(&page->configs[k], key) != NULL;
            if (earlier || !differs(page, key) || *rows >= 200)
                continue;
            clt_html_in(out, "<tr><th>", key, 200, "</th>");
            for (int k = 0; k < page->count; k++)
                cell(out, clt_run_config_value(&page->configs[k], key));
            clt_str_append(out, "</tr>\n");
            ++*rows;
        }
}

void report_config_differences(const report_page *page)
{
    clt_str *out = page->out;
    size_t rows = 0;
    clt_str_append(out, "<section class=\"card\"><h3>Config <small>keys that differ</small></h3>"
                        "<div class=\"scroll\"><table><thead><tr><th></th>");
    for (int i = 0; i < page->count; i++) {
        clt_html_in(out, "<th>", page->runs[i]->name, 60, "</th>");
    }
    clt_str_append(out, "</tr></thead><tbody>\n");
    difference_rows(page, &rows);
    close_table(out);
    if (rows == 0)
        clt_str_append(out, "<p class=\"note\">None: all runs have the same config.</p>");
    clt_str_append(out, "</section>\n");
}
