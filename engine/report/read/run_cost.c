/* SPDX-License-Identifier: Apache-2.0
 *
 * Adds up the cost of sessions, and reads the sums back from events and lines. Knows no clock. */
#include "engine/report/read/run_cost.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/report/read/history.h"

#define MOST_PRICE 1e9 /* largest price of a machine for an hour */
#define HOUR 3600.0
#define MOST 1e15 /* larger numbers in a file are not a run's */

clt_status clt_cost_price(const clt_config *config, double *out)
{
    const char *text = getenv(CLT_PRICE_VARIABLE);
    char *end;
    *out = clt_config_float(config, "cost.per_hour");
    if (*out > 0 || !text || !*text)
        return CLT_OK;
    *out = clt_strtod(text, &end);
    if (end == text || *end || !(*out >= 0 && *out <= MOST_PRICE))
        CLT_FAIL(CLT_ECONFIG, CLT_PRICE_VARIABLE " is '%.40s': it must be a number from 0 to %g", text,
                 MOST_PRICE);
    return CLT_OK;
}

double clt_cost_rate(const clt_cost_terms *t)
{
    return t->per_hour * (double)(t->machines > 1 ? t->machines : 1) / HOUR;
}

double clt_cost_goodput(const clt_cost_sums *s)
{
    double idle = s->startup_s + s->repeated_s + s->saving_s;
    return s->seconds > 0 ? fmax(0, 1 - idle / s->seconds) : NAN;
}

double clt_cost_of(const clt_cost *c, double units, double per_step)
{
    double done = (double)c->paid_steps * per_step;
    return c->sums.total > 0 && units > 0 && done > 0 ? c->sums.total / done * units : NAN;
}

double clt_cost_interval(double save_s, double apart_s)
{
    return save_s > 0 && apart_s > 0 && isfinite(save_s) && isfinite(apart_s) ? sqrt(2 * save_s * apart_s)
                                                                              : NAN;
}

void clt_cost_add(clt_cost *c, double seconds, double startup_s, double saving_s)
{
    double rate = clt_cost_rate(&c->terms);
    c->sums.seconds += seconds;
    c->sums.startup_s += startup_s;
    c->sums.saving_s += saving_s;
    c->sums.total += rate * seconds;
    c->sums.lost += rate * (startup_s + saving_s);
}

void clt_cost_cut(clt_cost *c, double seconds, double total)
{
    c->sums.seconds += seconds;
    c->sums.startup_s += seconds;
    c->sums.total += total;
    c->sums.lost += total;
}

void clt_cost_repeat(clt_cost *c, double seconds)
{
    c->sums.repeated_s += seconds;
    c->sums.lost += clt_cost_rate(&c->terms) * seconds;
}

/* --- reading --- */

static void take(const clt_json *from, const char *key, double *out)
{
    double number = clt_json_number_or(clt_json_get(from, key), NAN);
    if (number >= 0 && number < MOST)
        *out = number;
}

static void take_whole(const clt_json *from, const char *key, int64_t *out)
{
    double number = NAN;
    take(from, key, &number);
    if (!isnan(number))
        *out = (int64_t)number;
}

void clt_cost_take_energy(clt_cost *c, double told)
{
    if (told > c->sums.energy_j && told < MOST)
        c->sums.energy_j = told;
}

void clt_cost_take_event(clt_cost *c, const clt_json_doc *event)
{
    const clt_json *from = clt_json_get(clt_json_root(event), "monitor");
    double energy = NAN;
    take(from, "energy_j", &energy);
    clt_cost_take_energy(c, energy);
    from = clt_json_get(clt_json_root(event), "cost");
    if (clt_json_typeof(from) != CLT_JSON_OBJECT)
        return;
    const clt_json *currency = clt_json_get(from, "currency");
    if (clt_json_typeof(currency) == CLT_JSON_STRING)
        (void)snprintf(c->terms.currency, sizeof c->terms.currency, "%s", clt_json_string(currency));
    take(from, "per_hour", &c->terms.per_hour);
    take(from, "on_demand_per_hour", &c->terms.on_demand);
    take_whole(from, "machines", &c->terms.machines);
    take_whole(from, "step_tokens", &c->terms.step_tokens);
    take_whole(from, "step_samples", &c->terms.step_samples);
    take(from, "epoch_steps", &c->terms.epoch_steps);
    take(from, "total", &c->sums.total);
    take(from, "lost", &c->sums.lost);
    take(from, "seconds", &c->sums.seconds);
    take(from, "startup_s", &c->sums.startup_s);
    take(from, "repeated_s", &c->sums.repeated_s);
    take(from, "saving_s", &c->sums.saving_s);
    take(from, "longest_save_s", &c->longest.save_s);
    take(from, "longest_upload_s", &c->longest.upload_s);
    take(from, "longest_evaluation_s", &c->longest.evaluation_s);
}

void clt_cost_take_step(clt_cost *c, int64_t step, double told)
{
    double rate = clt_cost_rate(&c->terms), more = told - c->sums.total;
    if (!isnan(told) && step > c->last_paid) {
        c->paid_steps++;
        c->last_paid = step;
    }
    if (!(rate > 0 && more > 0 && told < MOST))
        return;
    c->sums.total = told;
    c->sums.seconds += more / rate;
}

static clt_status take_event_line(clt_cost *c, const char *text, size_t length, bool *start)
{
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    clt_status status = clt_json_parse(text, length, "metrics.jsonl", CLT_EDATA, &doc);
    if (status == CLT_EDATA) { /* a damaged line tells nothing */
        clt_error_clear();
        return CLT_OK;
    }
    CLT_TRY(status);
    *start = clt_json_is(clt_json_get(clt_json_root(doc), "event"), "start");
    clt_cost_take_event(c, doc);
    return CLT_OK;
}

clt_status clt_cost_read(const char *metrics_path, int64_t kept, clt_cost *out)
{
    CLT_SCOPED(clt_history) *history = NULL;
    clt_metrics_line line;
    const char *text;
    size_t length;
    bool more = true;
    double again = 0; /* seconds of steps that will be removed */
    *out = (clt_cost){0};
    CLT_TRY(clt_history_open(metrics_path, &history));
    for (;;) {
        bool start = false;
        CLT_TRY(clt_history_next(history, &line, &text, &length, &more));
        if (!more)
            break;
        if (line.kind == CLT_LINE_EVENT)
            CLT_TRY(take_event_line(out, text, length, &start));
        else if (line.kind == CLT_LINE_STEP) {
            const clt_cost before = *out;
            clt_cost_take_step(out, line.step, line.value[CLT_METRIC_COST]);
            if (line.step > kept) { /* the line will be removed */
                out->paid_steps = before.paid_steps;
                out->last_paid = before.last_paid;
            }
            clt_cost_take_energy(out, line.value[CLT_METRIC_ENERGY]);
        }
        if (line.kind == CLT_LINE_STEP && line.step > kept && line.value[CLT_METRIC_STEP_MS] > 0)
            again += line.value[CLT_METRIC_STEP_MS] / 1e3;
        if (start && line.step == 0) /* began again without a checkpoint: the sums have these steps */
            again = 0;
    }
    if (out->terms.per_hour > 0)
        clt_cost_repeat(out, again);
    return CLT_OK;
}

const char *clt_money_text(double money, const char *currency, char text[CLT_MONEY_TEXT])
{
    (void)snprintf(text, CLT_MONEY_TEXT, money < 10 ? "%.4g%s%s" : "%.2f%s%s", money, *currency ? " " : "",
                   currency);
    return text;
}
