/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain watch RUN: follows a run from another terminal. It reads the lines that the run appends to its
 * files and does not slow the run down. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands/follow.h"
#include "cli/screen/args.h"
#include "cli/screen/cmd.h"
#include "cli/screen/console.h"
#include "cli/screen/table.h"
#include "cli/screen/terminal.h"
#include "engine/base/thread.h"
#include "engine/files/remote_files.h"
#include "engine/report/read/run_facts.h"
#include "engine/report/read/text_plot.h"
#include "engine/report/write/lines.h"
#include "engine/sweep/sweep.h"

#define LOOK_SECONDS 0.5  /* interval at which files are read */
#define LINE_SECONDS 10.0 /* interval of lines without a terminal */
#define QUIET_SECONDS 15.0
#define EVENTS_SHOWN 4

typedef struct watch {
    const char *operand;
    const cmd_context *context;
    clt_run_record *run; /* NULL: the run does not exist yet */
    clt_history *history;
    bool unicode, news;
} watch;

/* --- reading --- */

static void forget(watch *w)
{
    clt_history_close(w->history);
    clt_run_record_free(w->run);
    w->history = NULL;
    w->run = NULL;
}

static clt_status open_run(watch *w)
{
    CLT_TRY(clt_run_record_open(w->operand, &w->run));
    clt_status status = clt_history_open(w->run->metrics_path, &w->history);
    if (status != CLT_OK)
        forget(w);
    return status;
}

/* Reads new lines; or all lines, if the file was truncated or replaced, as a resumed run does. */
static clt_status look(watch *w)
{
    clt_metrics_line line;
    const char *text;
    size_t length;
    bool more = true;
    if (w->history && clt_history_is_stale(w->history))
        forget(w);
    if (!w->run)
        CLT_TRY(open_run(w));
    for (;;) {
        CLT_TRY(clt_history_next(w->history, &line, &text, &length, &more));
        if (!more)
            break;
        w->news = true;
        CLT_TRY(clt_run_record_add(w->run, &line, text, length));
    }
    return clt_run_record_settle(w->run, clt_history_counted(w->history));
}

/* --- the screen --- */

static void put_head(const watch *w, int columns, clt_str *out)
{
    const clt_run_record *r = w->run;
    CLT_SCOPED(clt_str) line = {0};
    char eta[32];
    clt_str_printf(&line, "%s: %s", r->folder, clt_run_verdict_text(r->verdict));
    if (r->last_step >= 0)
        clt_str_printf(&line, ", step %lld", (long long)r->last_step);
    if (r->steps_total > 0 && r->last_step >= 0)
        clt_str_printf(&line, " of %lld (%.0f %%)", (long long)r->steps_total,
                       100.0 * (double)r->last_step / (double)r->steps_total);
    double step_ms = clt_curve_tail(&r->curve[CLT_METRIC_STEP_MS], 0.1);
    if (r->verdict == CLT_RUN_RUNNING && r->steps_total > r->last_step && step_ms > 0)
        clt_str_printf(
            &line, ", eta %s",
            console_time((double)(r->steps_total - r->last_step) * step_ms / 1000, eta, sizeof eta));
    double quiet = clt_wall_time() - r->modified;
    if (r->verdict == CLT_RUN_RUNNING && quiet > QUIET_SECONDS)
        clt_str_printf(&line, ", nothing new for %s", console_time(quiet, eta, sizeof eta));
    if (r->cause && *r->cause)
        clt_str_printf(&line, ": %s", r->cause);
    text_wrap(line.text ? line.text : "", 0, 2, columns, out);
    out->failed = out->failed || line.failed;
}

static void value(clt_str *out, const char *name, double x, int decimals)
{
    char text[32];
    if (!isnan(x))
        clt_str_printf(out, "%s%s %s", out->length ? " | " : "", name,
                       clt_value_text(x, decimals, text, sizeof text));
}

static void value_in(clt_str *out, const char *format, double x)
{
    if (!isnan(x))
        clt_str_printf(out, out->length ? " | " : ""), clt_str_printf(out, format, x);
}

/* Appends each of several losses with its name: its value in the last step, and in the last evaluation. */
static void put_each_loss(const clt_run_record *r, clt_str *out)
{
    for (int i = 0; i < r->loss_count; i++) {
        const clt_run_facts f = clt_run_facts_of_loss(&r->losses[i]);
        double train = f.value[CLT_FACT_LOSS], eval = f.value[CLT_FACT_EVAL_LOSS];
        char name[CLT_LINE_LOSS_NAME], text[32];
        clt_str_printf(out, "%s%s", out->length ? " | " : "",
                       text_clean(r->losses[i].name, name, sizeof name));
        if (!isnan(train))
            clt_str_printf(out, " %s", clt_value_text(train, 4, text, sizeof text));
        if (!isnan(eval))
            clt_str_printf(out, "%s eval %s", isnan(train) ? "" : ",",
                           clt_value_text(eval, 4, text, sizeof text));
    }
}

static void put_cost(const clt_run_record *r, const clt_run_facts *f, clt_str *out)
{
    char money[CLT_MONEY_TEXT], currency[CLT_CURRENCY_TEXT];
    double cost = f->value[CLT_FACT_COST], rest = f->value[CLT_FACT_COST_TO_FINISH];
    if (isnan(cost))
        return;
    text_clean(r->cost.terms.currency, currency, sizeof currency);
    clt_str_printf(out, "%scost %s", out->length ? " | " : "", clt_money_text(cost, currency, money));
    if (!isnan(rest))
        clt_str_printf(out, ", %s to finish", clt_money_text(rest, "", money));
    value_in(out, "goodput %.1f%%", 100 * f->value[CLT_FACT_GOODPUT]);
}

static void put_device(const clt_run_record *r, const clt_run_facts *f, clt_str *out)
{
    const clt_curve *c = r->curve;
    value_in(out, "device used %.0f%%", 100 * clt_curve_tail(&c[CLT_METRIC_DEVICE_UTILIZATION], 0.1));
    value_in(out, "%.0f W", clt_curve_tail(&c[CLT_METRIC_DEVICE_POWER], 0.1));
    value_in(out, "%.0f C", clt_curve_tail(&c[CLT_METRIC_DEVICE_TEMPERATURE], 0.1));
    value_in(out, "%.4g kWh", f->value[CLT_FACT_ENERGY]);
}

static void put_values(const watch *w, int columns, clt_str *out)
{
    const clt_run_record *r = w->run;
    const clt_run_facts f = clt_run_facts_of(r);
    double eval = f.value[CLT_FACT_EVAL_LOSS], best = f.value[CLT_FACT_BEST_EVAL_LOSS];
    clt_metric speed = clt_run_speed_metric(r);
    CLT_SCOPED(clt_str) line = {0};
    char rate[32];
    const clt_curve *accuracy = &r->curve[CLT_METRIC_EVAL_ACCURACY], *lr = &r->curve[CLT_METRIC_LR];
    value(&line, "loss", f.value[CLT_FACT_LOSS], 4);
    value(&line, "eval", eval, 4);
    if (best < eval)
        clt_str_printf(&line, " (best %s at step %.0f)", clt_value_text(best, 4, rate, sizeof rate),
                       f.value[CLT_FACT_BEST_EVAL_STEP]);
    put_each_loss(r, &line);
    value(&line, "perplexity", clt_run_perplexity(r, eval), 2);
    value_in(&line, "accuracy %.2f%%", accuracy->values ? 100 * accuracy->last : NAN);
    value(&line, "R2", r->curve[CLT_METRIC_EVAL_R2].values ? r->curve[CLT_METRIC_EVAL_R2].last : NAN, 4);
    value_in(&line, "lr %.2e", lr->values ? lr->last : NAN);
    double per_s = clt_curve_tail(&r->curve[speed], 0.1);
    if (per_s > 0)
        clt_str_printf(&line, " | %s %s", console_count(per_s, rate, sizeof rate),
                       speed == CLT_METRIC_TOKENS_PER_S ? "tok/s" : "samples/s");
    value_in(&line, "%.1f ms", clt_curve_tail(&r->curve[CLT_METRIC_STEP_MS], 0.1));
    value_in(&line, "device busy %.0f%%", 100 * clt_curve_tail(&r->curve[CLT_METRIC_DEVICE_BUSY], 0.1));
    put_device(r, &f, &line);
    if (r->skipped > 0)
        clt_str_printf(&line, " | skipped %lld", (long long)r->skipped);
    put_cost(r, &f, &line);
    text_wrap(line.text ? line.text : "no step yet", 0, 2, columns, out);
    out->failed = out->failed || line.failed;
}

typedef struct plot_kind {
    clt_metric line, marks;
    const char *title;
} plot_kind;

static clt_status put_plot(const watch *w, const plot_kind *kind, int columns, int rows, clt_str *out)
{
    const clt_run_record *r = w->run;
    const clt_curve *line = &r->curve[kind->line], *marks = &r->curve[kind->marks];
    CLT_FREED clt_point *points = NULL;
    if (line->values + marks->values == 0)
        return CLT_OK;
    size_t wide = (size_t)columns * 2;
    CLT_TRY(clt_alloc(&points, 2 * wide, sizeof *points, "a plot"));
    double low = line->values ? line->low : marks->low, high = line->values ? line->high : marks->high;
    clt_text_plot plot = {.columns = columns,
                          .rows = rows - 1,
                          .unicode = w->unicode,
                          .logarithmic = high > 30 * low,
                          .first = r->counts.first > 0 ? (double)r->counts.first : 0,
                          .last = (double)(r->last_step > 0 ? r->last_step : 1),
                          .line = points,
                          .line_count = line->values < 60 ? clt_curve_points(line, wide, points)
                                                          : clt_curve_smooth(line, 0.012, wide, points),
                          .marks = points + wide};
    plot.mark_count = kind->marks != kind->line ? clt_curve_points(marks, wide, points + wide) : 0;
    clt_str_printf(out, "%s%s%s\n", kind->title, plot.mark_count ? ", o: evaluation" : "",
                   plot.logarithmic && low > 0 ? " (logarithmic)" : "");
    return clt_text_plot_draw(&plot, out);
}

static void put_event(const clt_run_event *e, int columns, clt_str *out)
{
    static const char *const members[] = {"text", "message", "reason", "path", "device"};
    CLT_SCOPED(clt_str) line = {0};
    clt_str_printf(&line, "step %lld  ", (long long)e->step);
    clt_run_member(e->doc, "event", &line);
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        size_t before = line.length;
        clt_str_append(&line, "  ");
        clt_run_member(e->doc, members[i], &line);
        if (line.length == before + 2 && line.text)
            line.text[line.length = before] = '\0';
    }
    char clean[512];
    text_clean(line.text ? line.text : "", clean, sizeof clean);
    size_t fit = columns > 0 ? text_fit(clean, columns - 2) : strlen(clean);
    clt_str_printf(out, "  %.*s\n", (int)fit, clean);
    out->failed = out->failed || line.failed;
}

static void put_events(const watch *w, int most, int columns, clt_str *out)
{
    size_t shown = w->run->event_count < (size_t)most ? w->run->event_count : (size_t)most;
    for (size_t i = w->run->event_count - shown; i < w->run->event_count; i++)
        put_event(&w->run->events[i], columns, out);
}

static int count_lines(const clt_str *text)
{
    int count = 0;
    for (size_t i = 0; i < text->length; i++)
        count += text->text[i] == '\n';
    return count;
}

/* Draws the whole screen with at most `rows` lines. */
static clt_status draw(const watch *w, int columns, int rows, clt_str *out)
{
    static const plot_kind kinds[] = {{CLT_METRIC_LOSS, CLT_METRIC_EVAL_LOSS, "loss"},
                                      {CLT_METRIC_ACCURACY, CLT_METRIC_EVAL_ACCURACY, "accuracy"}};
    int events = rows > 20 ? EVENTS_SHOWN : rows > 14 ? 2 : 0;
    put_head(w, columns, out);
    put_values(w, columns, out);
    int known = (int)w->run->event_count < events ? (int)w->run->event_count : events;
    int left = rows - count_lines(out) - known - 1;
    bool both = left >= 28 && w->run->curve[CLT_METRIC_ACCURACY].values > 0;
    int high = both ? left / 2 : left;
    if (high >= 6)
        CLT_TRY(put_plot(w, &kinds[0], columns, high < 24 ? high : 24, out));
    if (both)
        CLT_TRY(put_plot(w, &kinds[1], columns, high < 24 ? high : 24, out));
    put_events(w, known, columns, out);
    return clt_str_check(out);
}

/* --- terminals --- */

static bool shows_unicode(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *set = getenv(names[i]);
        if (set && *set) /* the first variable that is set decides */
            return strcasestr(set, "UTF-8") || strcasestr(set, "UTF8");
    }
    return false;
}

static bool has_ended(const watch *w)
{
    return w->run && w->run->verdict != CLT_RUN_RUNNING;
}

static clt_status print_once(watch *w)
{
    CLT_SCOPED(clt_str) picture = {0};
    int columns, rows;
    follow_size(&columns, &rows);
    CLT_TRY(look(w));
    CLT_TRY(draw(w, columns, rows, &picture));
    table_print(&picture);
    return CLT_OK;
}

/* Reads the run's files. It is not an error if the run does not exist yet. */
static clt_status look_or_wait(watch *w)
{
    clt_status status = look(w);
    if (status != CLT_EUSAGE)
        return status;
    clt_error_clear();
    return CLT_OK;
}

static clt_status show(const watch *w, clt_str *picture)
{
    int columns, rows;
    follow_size(&columns, &rows);
    picture->length = 0;
    if (w->run)
        CLT_TRY(draw(w, columns - 1, rows - 1, picture));
    else
        clt_str_printf(picture, "waiting for a run in %s\n", w->operand);
    return follow_show(picture);
}

/* Redraws the alternate screen until the run ends, then prints the last picture on the normal screen. */
static clt_status follow_on_screen(watch *w)
{
    CLT_SCOPED(clt_str) picture = {0};
    clt_status status;
    follow_begin();
    do {
        status = look_or_wait(w);
        if (status == CLT_OK)
            status = show(w, &picture);
    } while (status == CLT_OK && !has_ended(w) && !follow_wait(w->context, LOOK_SECONDS));
    follow_end();
    return status == CLT_OK && w->run ? print_once(w) : status;
}

/* Without a terminal: prints a line from time to time, and the whole screen at the end. */
static clt_status follow_in_lines(watch *w)
{
    double told = -1e9;
    bool waits = false;
    do {
        CLT_SCOPED(clt_str) line = {0};
        CLT_TRY(look_or_wait(w));
        if (w->run && w->news && clt_now() - told >= LINE_SECONDS) {
            put_head(w, 0, &line);
            put_values(w, 0, &line);
            CLT_TRY(clt_str_check(&line));
            table_print(&line);
            told = clt_now();
            w->news = false;
        } else if (!w->run && !waits) {
            terminal_say("waiting for a run in %s\n", w->operand);
            fflush(stdout);
            waits = true;
        }
    } while (!has_ended(w) && !follow_wait(w->context, LOOK_SECONDS));
    return w->run ? print_once(w) : CLT_OK;
}

clt_status cmd_watch(cmd_context *context, int argc, char **argv)
{
    bool once = false;
    const args_option options[] = {
        ARGS_FLAG("--once", once, "print one picture of the run as it is now, and end"), ARGS_END};
    const args_usage usage =
        ARGS_USAGE("watch", "RUN", 1, 1, options,
                   "Follows a run from another terminal: its losses as a curve, the newest "
                   "values, the time left, events. Waits if there is no run yet; ends with "
                   "the run, or with q or Ctrl-C, which do not affect the run.");
    args_result r;
    ARGS_PARSE(&usage, argc, argv, &r);
    if (clt_sweep_is_folder(r.operands[0]))
        CLT_FAIL(
            CLT_EUSAGE,
            "cltrain watch: '%s' is the folder of a sweep: watch one of its trials, such as %s/trial-01; "
            "cltrain sweep %s --table shows them all",
            r.operands[0], r.operands[0], r.operands[0]);
    watch w = {.operand = r.operands[0], .context = context, .unicode = shows_unicode()};
    context->keeps_work = false;
    /* a bucket holds only the files that the run has uploaded, and does not tell which lines are new */
    clt_status status = once || clt_is_remote(w.operand) ? print_once(&w)
                        : terminal_rewrites()            ? follow_on_screen(&w)
                                                         : follow_in_lines(&w);
    forget(&w);
    return status;
}
