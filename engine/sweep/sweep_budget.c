/* SPDX-License-Identifier: Apache-2.0
 *
 * Computes what all trials of a sweep have cost, and how long they were trained, from the metrics in their
 * run folders. A file is read again when it has changed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/text.h"
#include "engine/report/read/run_cost.h"
#include "engine/sweep/sweep_internal.h"

#define HOUR 3600.0

typedef struct clt_trial_spending {
    struct timespec changed; /* modification time of its metrics.jsonl, when that was read */
    off_t size;
    double cost, hours;
    double startup_s, startup_cost; /* start-up of its newest session; 0: unknown */
} clt_trial_spending;

clt_status clt_sweep_spending_make(const clt_sweep *s, clt_sweep_spending *out)
{
    *out = (clt_sweep_spending){0};
    return clt_alloc(&out->trials, (size_t)s->trials, sizeof *out->trials, "the budget of a sweep");
}

void clt_sweep_spending_free(clt_sweep_spending *spending)
{
    free(spending->trials);
    *spending = (clt_sweep_spending){0};
}

static double number(double value)
{
    return value > 0 ? value : 0; /* 0 for NAN */
}

static clt_status read_trial(const char *run, clt_trial_spending *t)
{
    CLT_SCOPED(clt_run_record) *record = NULL;
    CLT_FREED char *path = NULL;
    struct stat info;
    CLT_TRY(clt_path_join(run, "metrics.jsonl", &path));
    if (stat(path, &info) != 0 || (info.st_size == t->size && info.st_mtim.tv_sec == t->changed.tv_sec &&
                                   info.st_mtim.tv_nsec == t->changed.tv_nsec))
        return CLT_OK;
    clt_status status = clt_run_record_load(run, &record);
    if (status != CLT_OK) { /* the training may still be writing it */
        clt_error_clear();
        return status == CLT_ENOMEM ? status : CLT_OK;
    }
    *t = (clt_trial_spending){.changed = info.st_mtim,
                              .size = info.st_size,
                              .cost = number(record->cost.sums.total),
                              .hours = number(clt_run_seconds(record)) / HOUR,
                              .startup_s = number(clt_run_number(clt_run_start(record), "startup_s"))};
    t->startup_cost = t->startup_s * clt_cost_rate(&record->cost.terms);
    return CLT_OK;
}

static void take_least(double value, double *least)
{
    if (value > 0 && (*least <= 0 || value < *least))
        *least = value;
}

clt_status clt_sweep_spending_read(const clt_sweep *s, const char *folder, clt_sweep_spending *spending)
{
    spending->cost = spending->hours = spending->startup_s = spending->startup_cost = 0;
    for (int i = 0; i < s->trials; i++) {
        CLT_FREED char *run = NULL;
        char name[CLT_SWEEP_NAME];
        CLT_TRY(clt_path_join(folder, clt_sweep_trial_name(s, i, name), &run));
        CLT_TRY(read_trial(run, &spending->trials[i]));
        spending->cost += spending->trials[i].cost;
        spending->hours += spending->trials[i].hours;
        take_least(spending->trials[i].startup_s, &spending->startup_s);
        take_least(spending->trials[i].startup_cost, &spending->startup_cost);
    }
    return CLT_OK;
}

/* Finds out whether every trial has a price above 0. If the sweep varies cost.per_hour, a trial's own value
 * is its price; otherwise all trials have the price of the config or the environment. */
static clt_status are_priced(const clt_sweep *s, bool *out)
{
    double price = 0;
    for (int k = 0; k < s->key_count; k++)
        if (strcmp(s->keys[k].path, "cost.per_hour") == 0) {
            *out = true;
            for (int t = 0; t < s->trials; t++)
                *out = *out && clt_strtod(s->values[t * s->key_count + k], NULL) > 0;
            return CLT_OK;
        }
    CLT_TRY(clt_cost_price(s->config, &price));
    *out = price > 0;
    return CLT_OK;
}

clt_status clt_sweep_check_price(const clt_sweep *s, const clt_sweep_options *o)
{
    static const clt_fact paid[] = {CLT_FACT_COST,       CLT_FACT_COST_MILLION, CLT_FACT_COST_THOUSAND,
                                    CLT_FACT_COST_EPOCH, CLT_FACT_COST_LOST,    CLT_FACT_GOODPUT};
    const bool budget = o->budget > 0;
    bool needed = budget, priced;
    for (size_t i = 0; i < sizeof paid / sizeof *paid; i++)
        needed = needed || s->metric == paid[i];
    if (!needed)
        return CLT_OK;
    CLT_TRY(are_priced(s, &priced));
    if (!priced)
        CLT_FAIL(CLT_ECONFIG,
                 "%s%s needs a price above 0: set cost.per_hour in the config, or " CLT_PRICE_VARIABLE
                 " in the environment",
                 budget ? "--budget" : "the metric ", budget ? "" : clt_fact_columns[s->metric].key);
    return CLT_OK;
}

clt_status clt_sweep_check_budget(const clt_sweep_options *o, const clt_sweep_spending *spending,
                                  clt_status code)
{
    char money[2][CLT_MONEY_TEXT];
    if (o->budget > 0 && spending->cost >= o->budget)
        CLT_FAIL(code,
                 "the trials have cost %s, and --budget is %s; the same command with a larger --budget "
                 "resumes the sweep",
                 clt_money_text(spending->cost, "", money[0]), clt_money_text(o->budget, "", money[1]));
    if (o->hours > 0 && spending->hours >= o->hours)
        CLT_FAIL(code,
                 "the trials were trained for %.4g hours, and --hours is %g; the same command with more "
                 "--hours resumes the sweep",
                 spending->hours, o->hours);
    return CLT_OK;
}

clt_status clt_sweep_check_start_affordable(const clt_sweep_options *o, const clt_sweep_spending *spending,
                                            clt_status code)
{
    char money[3][CLT_MONEY_TEXT];
    if (o->budget > 0 && spending->startup_cost > 0 && o->budget - spending->cost <= spending->startup_cost)
        CLT_FAIL(code,
                 "the trials have cost %s of the %s of --budget, and just the start of a trial costs %s; the "
                 "same command with a larger --budget resumes the sweep",
                 clt_money_text(spending->cost, "", money[0]), clt_money_text(o->budget, "", money[1]),
                 clt_money_text(spending->startup_cost, "", money[2]));
    if (o->hours > 0 && spending->startup_s > 0 && (o->hours - spending->hours) * HOUR <= spending->startup_s)
        CLT_FAIL(code,
                 "the trials were trained for %.4g of the %g hours of --hours, and just the start of a trial "
                 "takes %.3g s; the same command with more --hours resumes the sweep",
                 spending->hours, o->hours, spending->startup_s);
    return CLT_OK;
}
