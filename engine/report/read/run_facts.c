/* SPDX-License-Identifier: Apache-2.0
 *
 * Takes the facts about a run from the curves of its metrics and from its first event. Knows nothing of
 * presentation. */
#include "engine/report/read/run_facts.h"

#include <math.h>

#define JOULES_PER_KWH 3.6e6

const clt_column clt_fact_columns[CLT_FACT_COUNT] = {
#define CLT_FACT_COLUMN(name, key, title, form, better, ...)                                                 \
    [CLT_FACT_##name] = {key, title, CLT_FORM_##form, CLT_BETTER_##better, __VA_ARGS__},
    CLT_FACT_MAP(CLT_FACT_COLUMN)
#undef CLT_FACT_COLUMN
};

static double last(const clt_curve *curve)
{
    return curve->values ? curve->last : NAN;
}

static double least(const clt_curve *curve)
{
    return curve->values ? curve->low : NAN;
}

static double greatest(const clt_curve *curve)
{
    return curve->values ? curve->high : NAN;
}

bool clt_run_shows(const clt_run_record *r, clt_fact fact)
{
    bool tokens = clt_run_speed_metric(r) == CLT_METRIC_TOKENS_PER_S;
    return fact != (tokens ? CLT_FACT_SAMPLES_PER_S : CLT_FACT_TOKENS_PER_S);
}

bool clt_fact_is_told(clt_fact fact, const clt_run_facts *facts, int count)
{
    bool any = fact < CLT_FACT_COST;
    for (int i = 0; i < count; i++)
        any |= !isnan(facts[i].value[fact]);
    return any;
}

static void add_cost(clt_run_facts *f, const clt_run_record *r)
{
    const clt_cost_terms *t = &r->cost.terms;
    const clt_cost_sums *s = &r->cost.sums;
    double step_s = clt_curve_tail(&r->curve[CLT_METRIC_STEP_MS], 0.1) / 1e3;
    for (int i = CLT_FACT_COST; i < CLT_FACT_COUNT; i++)
        f->value[i] = NAN;
    if (!(t->per_hour > 0))
        return;
    f->value[CLT_FACT_COST] = s->total;
    f->value[CLT_FACT_COST_MILLION] = clt_cost_of(&r->cost, 1e6, (double)t->step_tokens);
    if (t->step_tokens == 0)
        f->value[CLT_FACT_COST_THOUSAND] = clt_cost_of(&r->cost, 1e3, (double)t->step_samples);
    f->value[CLT_FACT_COST_EPOCH] = clt_cost_of(&r->cost, t->epoch_steps, 1);
    if (r->verdict != CLT_RUN_FINISHED && r->steps_total > r->last_step)
        f->value[CLT_FACT_COST_TO_FINISH] =
            (double)(r->steps_total - r->last_step) * step_s * clt_cost_rate(t);
    f->value[CLT_FACT_COST_LOST] = s->lost;
    f->value[CLT_FACT_GOODPUT] = clt_cost_goodput(s);
    if (t->on_demand > 0)
        f->value[CLT_FACT_SPOT_SAVING] = 1 - t->per_hour / t->on_demand;
}

static void add_loss(clt_run_facts *f, const clt_curve *train, const clt_curve *eval)
{
    f->value[CLT_FACT_LOSS] = last(train);
    f->value[CLT_FACT_MEAN_LOSS] = clt_curve_tail(train, 0.02);
    f->value[CLT_FACT_EVAL_LOSS] = last(eval);
    f->value[CLT_FACT_BEST_EVAL_LOSS] = least(eval);
    f->value[CLT_FACT_BEST_EVAL_STEP] = eval->values ? (double)eval->low_step : NAN;
}

clt_run_facts clt_run_facts_of_loss(const clt_run_loss *loss)
{
    clt_run_facts f;
    for (int i = 0; i < CLT_FACT_COUNT; i++)
        f.value[i] = NAN;
    add_loss(&f, &loss->train, &loss->eval);
    return f;
}

clt_run_facts clt_run_facts_of(const clt_run_record *r)
{
    const clt_curve *curve = r->curve, *eval = &curve[CLT_METRIC_EVAL_LOSS];
    const clt_curve *bytes = &curve[CLT_METRIC_DEVICE_BYTES];
    clt_run_facts f = {
        .value = {[CLT_FACT_STEPS] = r->last_step >= 0 ? (double)r->last_step : NAN,
                  [CLT_FACT_PERPLEXITY] = r->loss_count > 0 ? least(&curve[CLT_METRIC_EVAL_PERPLEXITY])
                                                            : clt_run_perplexity(r, least(eval)),
                  [CLT_FACT_ACCURACY] = greatest(&curve[CLT_METRIC_EVAL_ACCURACY]),
                  [CLT_FACT_MAE] = least(&curve[CLT_METRIC_EVAL_MAE]),
                  [CLT_FACT_RMSE] = least(&curve[CLT_METRIC_EVAL_RMSE]),
                  [CLT_FACT_R2] = greatest(&curve[CLT_METRIC_EVAL_R2]),
                  [CLT_FACT_TOKENS_PER_S] = clt_curve_median(&curve[CLT_METRIC_TOKENS_PER_S]),
                  [CLT_FACT_SAMPLES_PER_S] = clt_curve_median(&curve[CLT_METRIC_SAMPLES_PER_S]),
                  [CLT_FACT_DEVICE_BUSY] = clt_curve_median(&curve[CLT_METRIC_DEVICE_BUSY]),
                  [CLT_FACT_DEVICE_BYTES] = greatest(bytes),
                  [CLT_FACT_SECONDS] = clt_run_seconds(r),
                  [CLT_FACT_PARAMETERS] = clt_run_number(clt_run_start(r), "parameters")}};
    add_loss(&f, &curve[CLT_METRIC_LOSS], eval);
    if (!(f.value[CLT_FACT_DEVICE_BYTES] > 0))
        f.value[CLT_FACT_DEVICE_BYTES] = clt_run_number(clt_run_start(r), "memory_bytes");
    if (isnan(f.value[CLT_FACT_ACCURACY]) && curve[CLT_METRIC_ACCURACY].values > 0)
        f.value[CLT_FACT_ACCURACY] = clt_curve_tail(&curve[CLT_METRIC_ACCURACY], 0.02);
    add_cost(&f, r);
    if (curve[CLT_METRIC_DEVICE_UTILIZATION].values > 0)
        f.value[CLT_FACT_UTILIZATION] = clt_curve_mean(&curve[CLT_METRIC_DEVICE_UTILIZATION], 0, INFINITY);
    if (r->cost.sums.energy_j > 0)
        f.value[CLT_FACT_ENERGY] = r->cost.sums.energy_j / JOULES_PER_KWH;
    return f;
}

double clt_run_save_interval(const clt_run_record *r)
{
    const bool over = r->verdict != CLT_RUN_RUNNING && r->session_count > 0;
    const double saves = (double)r->event_total[CLT_RUN_EVENT_SAVED];
    double unwanted_ends = (double)r->unwanted_ends;
    unwanted_ends += over && !r->sessions[r->session_count - 1].ended_as_wanted;
    return clt_cost_interval(r->cost.sums.saving_s / saves, r->cost.sums.seconds / unwanted_ends);
}
