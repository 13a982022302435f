/* SPDX-License-Identifier: Apache-2.0
 *
 * The records of a run: the numbers of a step and of an evaluation. The trainer fills them; lines, files and
 * pages are made of them. */
#ifndef ENGINE_REPORT_METRICS_H
#define ENGINE_REPORT_METRICS_H

#include "engine/graph/graph.h"

/* One line of metrics.jsonl. Times in ms; NAN where a value is unknown. */
typedef struct clt_step_metrics {
    int64_t step, update, skipped; /* skipped: total so far */
    double loss, grad_norm, lr, loss_scale;
    double accuracy; /* share of correct predictions in this step's targets, NAN if meaningless */
    double step_ms, samples_per_s, tokens_per_s, data_ms, comm_ms, comm_exposed_ms;
    double device_busy;      /* share of the step in which the compute queue ran a command */
    double h2d_gbs, d2h_gbs; /* while a transfer ran, GB/s */
    uint64_t device_bytes;
    uint64_t comm_bytes; /* of gradients and losses that this rank gave to the sums over ranks */
    bool nonfinite;      /* loss or gradients were not finite: the update was skipped */
    double eta_s;
    int64_t steps_total;
    double time; /* when the step was done, in seconds since 1970; 0: now */
} clt_step_metrics;

typedef struct clt_eval_metrics {
    int64_t step;    /* training step it belongs to, -1 for `eval` */
    double loss;     /* mean over counted targets of all losses, weighted */
    double accuracy; /* NAN if meaningless */
    /* Of a language model, NAN otherwise: exp of the mean loss of a token, and the loss of the whole text in
     * bits over its bytes, which compares models of different vocabularies. */
    double perplexity, bits_per_byte;
    bool on_train; /* of the training data */
    int64_t samples, targets;
    int64_t
        available; /* samples that the data has; more than `samples` when train.eval_batches left some out */
    double seconds;
    int n_losses;
    char loss_name[CLT_MAX_LOSSES][64];
    double loss_value[CLT_MAX_LOSSES];
} clt_eval_metrics;

#endif
