/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts what a training costs while it runs (cost.*), adding this session to the earlier ones, and stops
 * all ranks after the same step when the budget is reached. Rank 0 counts. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/base/thread.h"
#include "engine/files/fileio.h"
#include "engine/train/loop/trainer_loop.h"

/* When less time or fewer steps than this are left until the budget is reached, each step waits for the
 * results of the previous step. */
#define NEAR_SECONDS 30.0
#define NEAR_STEPS 20.0

clt_status clt_meter_check(const clt_run_options *o)
{
    double per_hour;
    if (!clt_first_rank(o))
        return CLT_OK;
    CLT_TRY(clt_cost_price(o->config, &per_hour));
    if (clt_config_float(o->config, "cost.budget") > 0 && !(per_hour > 0))
        CLT_FAIL(CLT_ECONFIG, "cost.budget needs a price: set cost.per_hour, or " CLT_PRICE_VARIABLE
                              " in the environment");
    return CLT_OK;
}

static clt_status join_tags(const clt_config *config, clt_str *out)
{
    for (int i = 0; i < clt_config_list_count(config, "cost.tags"); i++)
        clt_str_printf(out, "%s%s", i ? ", " : "", clt_config_list_string(config, "cost.tags", i));
    return clt_str_check(out);
}

clt_status clt_meter_open(clt_loop *l)
{
    clt_meter *m = &l->meter;
    const clt_config *config = l->options->config;
    const clt_job *job = l->run->job;
    double per_hour;
    if (!l->reports)
        return CLT_OK;
    if (l->dir && clt_continues(l->options)) {
        CLT_FREED char *path = NULL;
        CLT_TRY(clt_path_join(clt_rundir_path(l->dir), "metrics.jsonl", &path));
        CLT_TRY(clt_cost_read(path, l->run->first_step, &m->before));
        clt_cost_cut(&m->before, m->cut_seconds, m->cut_total);
    }
    l->gauges.energy_before = m->before.sums.energy_j;
    CLT_TRY(clt_cost_price(config, &per_hour));
    if (!(per_hour > 0))
        return CLT_OK;
    const clt_job_amount reads = clt_job_reads(job);
    m->before.terms =
        (clt_cost_terms){.per_hour = per_hour,
                         .on_demand = clt_config_float(config, "cost.on_demand_per_hour"),
                         .machines = l->run->ranks.nodes > 1 ? l->run->ranks.nodes : 1,
                         .step_tokens = reads.step_tokens,
                         .step_samples = job->global_batch,
                         .epoch_steps = reads.passes > 0 ? (double)job->steps / reads.passes : 0};
    snprintf(m->before.terms.currency, sizeof m->before.terms.currency, "%s",
             clt_config_string(config, "cost.currency"));
    CLT_TRY(join_tags(config, &m->tags));
    m->budget = clt_config_float(config, "cost.budget");
    m->on = true;
    return CLT_OK;
}

clt_cost clt_meter_at(const clt_loop *l, double now)
{
    const clt_meter *m = &l->meter;
    clt_cost cost = m->before;
    if (m->on) {
        clt_cost_add(&cost, now - m->began, m->startup_s > 0 ? m->startup_s : now - m->began, m->saving_s);
        cost.paid_steps += l->result->steps - l->run->first_step;
    }
    return cost;
}

void clt_meter_saving(clt_loop *l, double from, double to)
{
    clt_meter *m = &l->meter;
    const double begin = fmax(from, m->saved_until);
    m->saving_s += fmax(0, to - begin);
    m->saved_until = fmax(m->saved_until, to);
}

int clt_meter_fields(const clt_loop *l, const clt_cost *c, bool terms,
                     clt_event_field fields[CLT_METER_FIELDS])
{
    const clt_cost_terms *t = &c->terms;
    const clt_cost_sums *s = &c->sums;
    const clt_event_field all[CLT_METER_FIELDS] = {
        CLT_FIELD_NUMBER("total", s->total),
        CLT_FIELD_NUMBER("lost", s->lost),
        CLT_FIELD_NUMBER("seconds", s->seconds),
        CLT_FIELD_NUMBER("startup_s", s->startup_s),
        CLT_FIELD_NUMBER("repeated_s", s->repeated_s),
        CLT_FIELD_NUMBER("saving_s", s->saving_s),
        CLT_FIELD_NUMBER("longest_save_s", c->longest.save_s),
        CLT_FIELD_NUMBER("longest_upload_s", c->longest.upload_s),
        CLT_FIELD_NUMBER("longest_evaluation_s", c->longest.evaluation_s),
        CLT_FIELD_NUMBER("per_hour", t->per_hour),
        CLT_FIELD_NUMBER("on_demand_per_hour", t->on_demand),
        CLT_FIELD_INT("machines", t->machines),
        CLT_FIELD_TEXT("currency", t->currency),
        CLT_FIELD_TEXT("tags", l->meter.tags.text),
        CLT_FIELD_NUMBER("budget", l->meter.budget),
        CLT_FIELD_INT("step_tokens", t->step_tokens),
        CLT_FIELD_INT("step_samples", t->step_samples),
        CLT_FIELD_NUMBER("epoch_steps", t->epoch_steps),
    };
    memcpy(fields, all, sizeof all);
    return !l->meter.on ? 0 : terms ? CLT_METER_FIELDS : CLT_METER_SUMS;
}

/* --- the budget --- */

static bool has_budget(const clt_loop *l)
{
    return l->meter.on && l->meter.budget > 0;
}

void clt_meter_note(double *longest, double seconds)
{
    *longest = fmax(*longest, seconds);
}

/* Seconds that one more step after step `done`, and then the end of the run, will take, as far as measured.
 * At its end the run saves and uploads; if that step is the last one, it also evaluates. */
static double reserve(const clt_loop *l, int64_t done)
{
    const clt_cost_longest *longest = &l->meter.before.longest;
    double seconds = l->step_seconds + longest->save_s;
    if (l->uploader)
        seconds += longest->upload_s;
    return done + 1 >= l->last_step ? seconds + longest->evaluation_s : seconds;
}

bool clt_meter_near(const clt_loop *l)
{
    if (!has_budget(l) || !(l->step_seconds > 0))
        return has_budget(l);
    clt_cost cost = clt_meter_at(l, clt_now());
    double left = (l->meter.budget - cost.sums.total) / clt_cost_rate(&cost.terms);
    return left < fmax(NEAR_SECONDS, NEAR_STEPS * l->step_seconds) + reserve(l, l->last_step);
}

clt_status clt_meter_stops(clt_loop *l, int64_t done, bool evaluates, bool *stop)
{
    double ahead = reserve(l, done) + (evaluates ? l->meter.before.longest.evaluation_s : 0);
    int64_t spent = has_budget(l) && clt_meter_at(l, clt_now() + ahead).sums.total >= l->meter.budget;
    if (!(clt_config_float(l->options->config, "cost.budget") > 0))
        return CLT_OK;
    if (l->run->ranks.ranks > 1)
        CLT_TRY(comm_all_reduce(l->options->comm, &spent, 1, COMM_I64, COMM_MAX));
    *stop = spent;
    if (spent)
        l->stop = CLT_STOP_BUDGET;
    return CLT_OK;
}

clt_status clt_meter_refuse(const clt_loop *l)
{
    char money[3][CLT_MONEY_TEXT], end[96] = "";
    clt_cost cost = clt_meter_at(l, clt_now());
    const double more = clt_cost_rate(&cost.terms) * reserve(l, l->run->first_step);
    if (more > 0)
        snprintf(end, sizeof end, ", and finishing the run costs about %s more",
                 clt_money_text(more, cost.terms.currency, money[2]));
    if (!l->reports)
        CLT_FAIL(CLT_ECONFIG, "cost.budget is used up before the first step of this start");
    CLT_FAIL(CLT_ECONFIG,
             "cost.budget of %s is used up before the first step of this start: the run has cost %s%s; with "
             "a larger cost.budget the same command continues the run",
             clt_money_text(l->meter.budget, cost.terms.currency, money[0]),
             clt_money_text(cost.sums.total, cost.terms.currency, money[1]), end);
}

/* --- lines --- */

const char *clt_meter_row(const clt_loop *l, char *text, size_t size)
{
    const clt_cost *c = &l->meter.before;
    char money[3][CLT_MONEY_TEXT], machines[48] = "", so_far[96] = "", budget[96] = "";
    if (c->terms.machines > 1)
        snprintf(machines, sizeof machines, " for each of %lld machines", (long long)c->terms.machines);
    if (c->sums.total > 0)
        snprintf(so_far, sizeof so_far, ", %s in earlier sessions",
                 clt_money_text(c->sums.total, c->terms.currency, money[1]));
    if (l->meter.budget > 0)
        snprintf(budget, sizeof budget, ", at most %s (cost.budget)",
                 clt_money_text(l->meter.budget, c->terms.currency, money[2]));
    snprintf(text, size, "%s an hour%s%s%s", clt_money_text(c->terms.per_hour, c->terms.currency, money[0]),
             machines, so_far, budget);
    return text;
}

void clt_meter_line(const clt_loop *l, const clt_cost *c, char *text, size_t size)
{
    const clt_cost_terms *t = &c->terms;
    const clt_cost_sums *s = &c->sums;
    const int64_t steps = l->result->steps;
    double goodput = clt_cost_goodput(s);
    double unit = t->step_tokens > 0 ? clt_cost_of(c, 1e6, (double)t->step_tokens)
                                     : clt_cost_of(c, 1e3, (double)t->step_samples);
    double epoch = clt_cost_of(c, t->epoch_steps, 1);
    double done = (double)(steps - l->run->first_step), left = (double)(l->last_step - steps);
    double rest = done > 0 ? left * l->result->seconds / done * clt_cost_rate(t) : NAN;
    char money[5][CLT_MONEY_TEXT], units[96] = "", epochs[96] = "", finish[96] = "", took[32], parts[3][32];
    if (!isnan(unit))
        snprintf(units, sizeof units, ", %s for %s", clt_money_text(unit, "", money[1]),
                 t->step_tokens > 0 ? "a million tokens" : "1000 samples");
    if (!isnan(epoch))
        snprintf(epochs, sizeof epochs, ", %s for an epoch", clt_money_text(epoch, "", money[2]));
    if (rest > 0)
        snprintf(finish, sizeof finish, ", about %s to finish", clt_money_text(rest, "", money[4]));
    snprintf(
        text, size,
        "cost: %s for %s%s%s%s; goodput %.1f %%: %s went into start-up %s, repeated steps %s and saving %s",
        clt_money_text(s->total, t->currency, money[0]), clt_duration_text(s->seconds, took, sizeof took),
        units, epochs, finish, 100 * goodput, clt_money_text(s->lost, "", money[3]),
        clt_duration_text(s->startup_s, parts[0], sizeof parts[0]),
        clt_duration_text(s->repeated_s, parts[1], sizeof parts[1]),
        clt_duration_text(s->saving_s, parts[2], sizeof parts[2]));
}
