/* SPDX-License-Identifier: Apache-2.0
 *
 * Takes the facts about a run from the curves of its metrics and from its first event. Knows nothing of
 * presentation. */
#include "engine/report/read/run_facts.h"

#include <math.h>

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

clt_run_facts clt_run_facts_of(const clt_run_record *r)
{
    const clt_curve *curve = r->curve, *eval = &curve[CLT_METRIC_EVAL_LOSS];
    const clt_curve *bytes = &curve[CLT_METRIC_DEVICE_BYTES];
    clt_run_facts f = {
        .value = {[CLT_FACT_STEPS] = r->last_step >= 0 ? (double)r->last_step : NAN,
                  [CLT_FACT_LOSS] = last(&curve[CLT_METRIC_LOSS]),
                  [CLT_FACT_MEAN_LOSS] = clt_curve_tail(&curve[CLT_METRIC_LOSS], 0.02),
                  [CLT_FACT_EVAL_LOSS] = last(eval),
                  [CLT_FACT_BEST_EVAL_LOSS] = least(eval),
                  [CLT_FACT_BEST_EVAL_STEP] = eval->values ? (double)eval->low_step : NAN,
                  [CLT_FACT_PERPLEXITY] = clt_run_is_language(r) ? exp(least(eval)) : NAN,
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
    if (!(f.value[CLT_FACT_DEVICE_BYTES] > 0))
        f.value[CLT_FACT_DEVICE_BYTES] = clt_run_number(clt_run_start(r), "memory_bytes");
    if (isnan(f.value[CLT_FACT_ACCURACY]) && curve[CLT_METRIC_ACCURACY].values > 0)
        f.value[CLT_FACT_ACCURACY] = clt_curve_tail(&curve[CLT_METRIC_ACCURACY], 0.02);
    return f;
}
