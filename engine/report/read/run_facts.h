/* SPDX-License-Identifier: Apache-2.0
 *
 * Facts about a run for a comparison: one number each. Every view of runs (the table on the screen, the page,
 * JSON, CSV) is made of this list, so that a new fact is a line here. */
#ifndef ENGINE_REPORT_READ_RUN_FACTS_H
#define ENGINE_REPORT_READ_RUN_FACTS_H

#include "engine/report/read/run_record.h"

typedef enum clt_fact_form {
    CLT_FORM_STEP,   /* a whole number */
    CLT_FORM_NUMBER, /* 2.302 */
    CLT_FORM_COUNT,  /* 49.7k */
    CLT_FORM_SHARE,  /* a fraction: 0.5 is shown as 50 % */
    CLT_FORM_BYTES,
    CLT_FORM_SECONDS
} clt_fact_form;

/* Which value is the better one of runs whose losses measure the same. */
typedef enum clt_fact_better { CLT_BETTER_NEITHER, CLT_BETTER_LESS, CLT_BETTER_MORE } clt_fact_better;

/* X(enumerator, key in JSON and CSV, title, form, better).
 * LOSS is the loss of the last step, MEAN_LOSS the mean over the last fiftieth of the run. ACCURACY is the
 * best of all evaluations; without evaluations, of the last training steps. Peak memory is what the
 * device's buffers took, or what the plan says. */
#define CLT_FACT_MAP(X)                                                                                      \
    X(STEPS, "steps", "steps", STEP, NEITHER)                                                                \
    X(LOSS, "loss", "loss", NUMBER, LESS)                                                                    \
    X(MEAN_LOSS, "mean_loss", "training loss", NUMBER, LESS)                                                 \
    X(EVAL_LOSS, "eval_loss", "eval loss", NUMBER, LESS)                                                     \
    X(BEST_EVAL_LOSS, "best_eval_loss", "best eval loss", NUMBER, LESS)                                      \
    X(BEST_EVAL_STEP, "best_eval_step", "best step", STEP, NEITHER)                                          \
    X(PERPLEXITY, "best_perplexity", "best perplexity", NUMBER, LESS)                                        \
    X(ACCURACY, "accuracy", "best accuracy", SHARE, MORE)                                                    \
    X(MAE, "best_mae", "best MAE", NUMBER, LESS)                                                             \
    X(RMSE, "best_rmse", "best RMSE", NUMBER, LESS)                                                          \
    X(R2, "best_r2", "best R2", NUMBER, MORE)                                                                \
    X(TOKENS_PER_S, "tokens_per_s", "tokens/s", COUNT, MORE)                                                 \
    X(SAMPLES_PER_S, "samples_per_s", "samples/s", COUNT, MORE)                                              \
    X(DEVICE_BUSY, "device_busy", "device busy", SHARE, NEITHER)                                             \
    X(DEVICE_BYTES, "device_bytes", "peak memory", BYTES, NEITHER)                                           \
    X(SECONDS, "seconds", "time", SECONDS, NEITHER)                                                          \
    X(PARAMETERS, "parameters", "parameters", COUNT, NEITHER)

typedef enum clt_fact {
#define CLT_FACT_ENUM(name, key, title, form, better) CLT_FACT_##name,
    CLT_FACT_MAP(CLT_FACT_ENUM)
#undef CLT_FACT_ENUM
        CLT_FACT_COUNT
} clt_fact;

typedef struct clt_fact_column {
    const char *key, *title;
    clt_fact_form form;
    clt_fact_better better;
} clt_fact_column;
extern const clt_fact_column clt_fact_columns[CLT_FACT_COUNT];

typedef struct clt_run_facts {
    double value[CLT_FACT_COUNT]; /* NAN: unknown */
} clt_run_facts;
clt_run_facts clt_run_facts_of(const clt_run_record *record);

/* The fact with the run's speed: CLT_FACT_TOKENS_PER_S or CLT_FACT_SAMPLES_PER_S. */
clt_fact clt_run_speed_fact(const clt_run_record *record);

#endif
