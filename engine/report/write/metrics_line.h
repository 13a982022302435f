/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads one line of metrics.jsonl into numbers. A file can contain anything, so lines that no run would write
 * are refused. A hand-written scanner reads the lines of steps, of which a long run has millions; the strict
 * reader of engine/json/json.h reads lines that the scanner does not expect. */
#ifndef ENGINE_REPORT_WRITE_METRICS_LINE_H
#define ENGINE_REPORT_WRITE_METRICS_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"

/* X(name of the enumerator, key in the line), in the order in which a run writes the keys. */
#define CLT_METRIC_MAP(X)                                                                                    \
    X(LOSS, "loss")                                                                                          \
    X(ACCURACY, "accuracy")                                                                                  \
    X(GRAD_NORM, "grad_norm")                                                                                \
    X(LR, "lr")                                                                                              \
    X(LOSS_SCALE, "loss_scale")                                                                              \
    X(SKIPPED, "skipped")                                                                                    \
    X(STEP_MS, "step_ms")                                                                                    \
    X(SAMPLES_PER_S, "samples_per_s")                                                                        \
    X(TOKENS_PER_S, "tokens_per_s")                                                                          \
    X(DATA_MS, "data_ms")                                                                                    \
    X(COMM_MS, "comm_ms")                                                                                    \
    X(COMM_EXPOSED_MS, "comm_exposed_ms")                                                                    \
    X(DEVICE_BUSY, "device_busy")                                                                            \
    X(DEVICE_BYTES, "device_bytes")                                                                          \
    X(COST, "cost")                                                                                          \
    X(ENERGY, "energy_j")                                                                                    \
    X(DEVICE_UTILIZATION, "device_utilization")                                                              \
    X(DEVICE_MEMORY_USED, "device_memory_used")                                                              \
    X(DEVICE_POWER, "device_power_w")                                                                        \
    X(DEVICE_TEMPERATURE, "device_temperature_c")                                                            \
    X(DEVICE_THROTTLED, "device_throttled")                                                                  \
    X(TIME, "time")                                                                                          \
    X(EVAL_LOSS, "eval_loss")                                                                                \
    X(EVAL_ACCURACY, "eval_accuracy")                                                                        \
    X(EVAL_PERPLEXITY, "eval_perplexity")                                                                    \
    X(EVAL_BITS_PER_BYTE, "eval_bits_per_byte")                                                              \
    X(EVAL_TOP_K, "eval_top_k_accuracy")                                                                     \
    X(EVAL_F1, "eval_f1")                                                                                    \
    X(EVAL_DICE, "eval_dice")                                                                                \
    X(EVAL_MAE, "eval_mae")                                                                                  \
    X(EVAL_RMSE, "eval_rmse")                                                                                \
    X(EVAL_R2, "eval_r2")                                                                                    \
    X(EVAL_ENTITY_F1, "eval_entity_f1")                                                                      \
    X(EVAL_PEARSON, "eval_pearson")                                                                          \
    X(EVAL_SPEARMAN, "eval_spearman")                                                                        \
    X(EVAL_VOLUME_DICE, "eval_volume_dice")

typedef enum clt_metric {
#define CLT_METRIC_ENUM(name, key) CLT_METRIC_##name,
    CLT_METRIC_MAP(CLT_METRIC_ENUM)
#undef CLT_METRIC_ENUM
        CLT_METRIC_COUNT
} clt_metric;

typedef enum clt_line_kind {
    CLT_LINE_STEP,  /* has "loss" */
    CLT_LINE_EVAL,  /* has "eval_loss" */
    CLT_LINE_EVENT, /* has "event"; the caller reads the event's own members */
    CLT_LINE_OTHER  /* unknown to this program; to be ignored */
} clt_line_kind;

#define CLT_LINE_LOSSES 16    /* as many as a graph may have; further ones are ignored */
#define CLT_LINE_LOSS_NAME 64 /* most bytes of a name; longer names are cut */

/* One of a model's several losses. */
typedef struct clt_line_loss {
    char name[CLT_LINE_LOSS_NAME];
    double value; /* NAN where it is null */
} clt_line_loss;

typedef struct clt_metrics_line {
    clt_line_kind kind;
    int64_t step; /* 0 or more */
    /* the line says that it writes null for numbers that were not finite */
    bool nonfinite;
    uint64_t present;               /* bit m: the line has metric m */
    double value[CLT_METRIC_COUNT]; /* NAN where it is absent or null */
    /* the members of "losses" of a step or of "eval_losses" of an evaluation; 0: the model has one loss */
    int n_losses;
    clt_line_loss losses[CLT_LINE_LOSSES];
} clt_metrics_line;

static inline bool clt_line_has(const clt_metrics_line *line, clt_metric metric)
{
    return line->present >> metric & 1u;
}

/* Reads one line without its newline. CLT_EDATA, without an error text: it is not a line of metrics (no JSON
 * object, no "step", a step below 0 or above CLT_METRICS_MAX_STEP). CLT_ENOMEM. */
#define CLT_METRICS_MAX_STEP ((int64_t)1 << 52)
clt_status clt_metrics_line_read(const char *text, size_t length, clt_metrics_line *out);

/* Reads a line with the strict reader only; tests compare the scanner with it. */
clt_status clt_metrics_line_read_strict(const char *text, size_t length, clt_metrics_line *out);

#endif
