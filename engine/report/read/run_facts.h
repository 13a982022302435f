/* SPDX-License-Identifier: Apache-2.0
 *
 * Facts about a run for a comparison: one number each. Every view of runs (the table on the screen, the page,
 * JSON, CSV) is made of this list, so that a new fact is a line here. */
#ifndef ENGINE_REPORT_READ_RUN_FACTS_H
#define ENGINE_REPORT_READ_RUN_FACTS_H

#include "engine/report/read/run_record.h"
#include "engine/report/read/sheet.h"

/* X(enumerator, then the members of clt_column: key, title, form, better, on_page, head, decimals, rank,
 * always). From LOSS to BEST_EVAL_STEP: facts that each of several losses has, too. LOSS is the loss of
 * the last step, MEAN_LOSS the mean over the last fiftieth of the run. ACCURACY is the best of all
 * evaluations; without evaluations, of the last training steps. Peak memory is what the device's buffers
 * took, or what the plan says. From COST on: facts of runs with a price (run_cost.h); what tokens, samples
 * and an epoch cost includes the time that trained nothing. UTILIZATION and ENERGY: facts of runs whose
 * devices were monitored (monitor.h). */
#define CLT_FACT_MAP(X)                                                                                      \
    X(STEPS, "steps", "steps", STEP, NEITHER, true, "steps", 0, 3, true)                                     \
    X(LOSS, "loss", "loss", NUMBER, LESS, false, "loss", 4, 0, true)                                         \
    X(MEAN_LOSS, "mean_loss", "training loss", NUMBER, LESS, true, NULL, 0, 0, false)                        \
    X(EVAL_LOSS, "eval_loss", "eval loss", NUMBER, LESS, true, "eval loss", 4, 0, false)                     \
    X(BEST_EVAL_LOSS, "best_eval_loss", "best eval loss", NUMBER, LESS, true, "best", 4, 0, false)           \
    X(BEST_EVAL_STEP, "best_eval_step", "best step", STEP, NEITHER, false, NULL, 0, 0, false)                \
    X(PERPLEXITY, "best_perplexity", "best perplexity", NUMBER, LESS, true, "perplexity", 2, 6, false)       \
    X(ACCURACY, "accuracy", "best accuracy", SHARE, MORE, true, "accuracy", 2, 4, false)                     \
    X(MAE, "best_mae", "best MAE", NUMBER, LESS, true, "MAE", 4, 7, false)                                   \
    X(RMSE, "best_rmse", "best RMSE", NUMBER, LESS, true, "RMSE", 4, 6, false)                               \
    X(R2, "best_r2", "best R2", NUMBER, MORE, true, "R2", 4, 4, false)                                       \
    X(TOKENS_PER_S, "tokens_per_s", "tokens/s", COUNT, MORE, true, "tok/s", 0, 2, false)                     \
    X(SAMPLES_PER_S, "samples_per_s", "samples/s", COUNT, MORE, true, "samples/s", 0, 2, false)              \
    X(DEVICE_BUSY, "device_busy", "device busy", SHARE, NEITHER, true, NULL, 0, 0, false)                    \
    X(DEVICE_BYTES, "device_bytes", "peak memory", BYTES, NEITHER, true, NULL, 0, 0, false)                  \
    X(SECONDS, "seconds", "time", SECONDS, NEITHER, true, "time", 0, 5, true)                                \
    X(PARAMETERS, "parameters", "parameters", COUNT, NEITHER, false, NULL, 0, 0, false)                      \
    X(COST, "cost", "cost", NUMBER, LESS, true, "cost", 4, 4, false)                                         \
    X(COST_MILLION, "cost_per_million_tokens", "cost of 1M tokens", NUMBER, LESS, true, "1M tok", 4, 5,      \
      false)                                                                                                 \
    X(COST_THOUSAND, "cost_per_thousand_samples", "cost of 1000 samples", NUMBER, LESS, true, "1k samples",  \
      4, 5, false)                                                                                           \
    X(COST_EPOCH, "cost_per_epoch", "cost of an epoch", NUMBER, LESS, true, NULL, 0, 0, false)               \
    X(COST_TO_FINISH, "cost_to_finish", "cost to finish", NUMBER, NEITHER, true, NULL, 0, 0, false)          \
    X(COST_LOST, "cost_lost", "cost without training", NUMBER, LESS, true, NULL, 0, 0, false)                \
    X(GOODPUT, "goodput", "goodput", SHARE, MORE, true, "goodput", 1, 6, false)                              \
    X(SPOT_SAVING, "spot_saving", "spot saving", SHARE, NEITHER, true, NULL, 0, 0, false)                    \
    X(UTILIZATION, "device_utilization", "device used", SHARE, NEITHER, true, NULL, 0, 0, false)             \
    X(ENERGY, "energy_kwh", "kWh", NUMBER, LESS, true, "kWh", 4, 7, false)

typedef enum clt_fact {
#define CLT_FACT_ENUM(name, ...) CLT_FACT_##name,
    CLT_FACT_MAP(CLT_FACT_ENUM)
#undef CLT_FACT_ENUM
        CLT_FACT_COUNT
} clt_fact;

extern const clt_column clt_fact_columns[CLT_FACT_COUNT];

typedef struct clt_run_facts {
    double value[CLT_FACT_COUNT]; /* NAN: unknown */
} clt_run_facts;
clt_run_facts clt_run_facts_of(const clt_run_record *record);
/* The facts of one of a run's several losses, from CLT_FACT_LOSS to CLT_FACT_LAST_OF_LOSS. */
#define CLT_FACT_LAST_OF_LOSS CLT_FACT_BEST_EVAL_STEP
clt_run_facts clt_run_facts_of_loss(const clt_run_loss *loss);

/* False for facts of cost and of monitoring if none of the runs has it: JSON and CSV then leave it out. */
bool clt_fact_is_told(clt_fact fact, const clt_run_facts *facts, int count);

/* Seconds between checkpoints with which the run would have lost least time (clt_cost_interval). They follow
 * from the time that its checkpoints took, and from how often something other than its user ended a session;
 * NAN if nothing did. */
double clt_run_save_interval(const clt_run_record *record);

/* False for the one of CLT_FACT_TOKENS_PER_S and CLT_FACT_SAMPLES_PER_S in which the run does not count its
 * speed. */
bool clt_run_shows(const clt_run_record *record, clt_fact fact);

#endif
