/* SPDX-License-Identifier: Apache-2.0
 *
 * Records with the numbers of a step and of an evaluation. The trainer fills them in; lines, files and pages
 * are made from them. */
#ifndef ENGINE_REPORT_WRITE_METRICS_H
#define ENGINE_REPORT_WRITE_METRICS_H

#include "engine/graph/graph.h"
#include "engine/monitor/monitor.h"

#define CLT_METRIC_CLASSES 256 /* most classes of a volume's mask */

/* The numbers of a step, which become a line of metrics.jsonl. Times are in ms; unknown values are NAN. */
typedef struct clt_step_metrics {
    int64_t step, update, skipped; /* skipped: number of skipped updates so far */
    double loss, grad_norm, lr, loss_scale;
    /* The single losses, if there are several, whose weighted sum is `loss`; otherwise n_losses is 1. */
    int n_losses;
    const char *loss_name[CLT_MAX_LOSSES];
    double loss_value[CLT_MAX_LOSSES];
    double accuracy; /* fraction of this step's targets that were predicted correctly, NAN if meaningless */
    double step_ms, samples_per_s, tokens_per_s, data_ms, comm_ms, comm_exposed_ms;
    double device_busy;      /* fraction of the step in which the compute queue ran a command */
    double h2d_gbs, d2h_gbs; /* GB/s while a transfer ran */
    uint64_t device_bytes;
    uint64_t comm_bytes; /* bytes of gradients and losses that this rank contributed to sums over ranks */
    bool stays;          /* a line about it stays on the console and in log.txt (clt_line_stays) */
    bool nonfinite;      /* loss or gradients were not finite: the update was skipped */
    /* With train.on_spike, else NAN: how many standard deviations loss and gradient norm lie above the mean
     * of recent steps. spike: they lie so far above it that the step counts as a spike. */
    double loss_z, grad_norm_z;
    bool spike;
    /* With a price (cost.per_hour), else 0: what the run has cost so far, and the share of its time that
     * trained. */
    double cost, goodput;
    /* sampled: the devices were sampled since the previous step (monitor.h). `monitor` has the figures of
     * the sample, energy_j the energy of all ranks in all sessions in J, 0 if unknown. */
    bool sampled;
    double monitor[CLT_MONITOR_COUNT], energy_j;
    double eta_s;
    int64_t steps_total;
    double time; /* when the step ended, in seconds since 1970; 0: now */
} clt_step_metrics;

typedef struct clt_eval_metrics {
    int64_t step;    /* training step it belongs to; -1 for the command `eval` */
    double loss;     /* weighted mean over the targets of all losses that count */
    double accuracy; /* NAN if meaningless */
    /* For language models, else NAN: exp of the mean loss per token; and the total loss in bits per byte of
     * the text, which is comparable between models with different vocabularies. */
    double perplexity, bits_per_byte;
    /* Figures of classes (class_counts.h), if they were counted; else `classes` is 0 and they are NAN. */
    int64_t classes;
    int32_t top_k; /* 0: no top_k_accuracy */
    double top_k_accuracy, f1, dice;
    /* Figures of a regression, in the unit of the targets. values: number of targets; 0: no regression. r2:
     * the mean over the targets of a sample; NAN if there is a single sample. pearson, spearman: likewise,
     * between predictions and targets; NAN if there is none, and no_correlation says why. */
    int64_t values;
    double mae, rmse, r2, pearson, spearman;
    const char *no_correlation; /* "all predictions are equal"; NULL: there are correlations */
    /* Answers to questions. answers: number of questions; 0: the data holds no questions. exact: the share
     * that equals an answer of the data; answer_f1: mean F1 of the words. */
    int64_t answers;
    double exact, answer_f1;
    /* Entities of words with BIO labels (entities.h). entities: their number in the data; 0: none. */
    int64_t entities;
    double entity_precision, entity_recall, entity_f1;
    bool on_train; /* the evaluation ran on the training data */
    int64_t samples, targets;
    int64_t left_out;  /* samples that cannot be read and were skipped (data.on_bad_sample skip) */
    int64_t available; /* samples in the data: more than `samples` if train.eval_batches leaves some out */
    /* Segmentation of volumes, which are evaluated whole; else `volumes` is 0 and the members below mean
     * nothing. The Dice of a class is the mean over the volumes that contain it, NAN if none does;
     * volume_dice is the mean over the classes without the background, class 0. */
    int64_t volumes;
    double volume_dice;
    int32_t volume_classes;
    double volume_dice_of[CLT_METRIC_CLASSES];
    double seconds;
    int n_losses;
    char loss_name[CLT_MAX_LOSSES][64];
    char loss_op[CLT_MAX_LOSSES][32]; /* the op that computes the loss, such as "dice_loss"; "": not known */
    double loss_value[CLT_MAX_LOSSES];
} clt_eval_metrics;

#endif
