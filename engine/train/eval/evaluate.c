/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluation: one pass over the evaluation data with the evaluation plan on the same store. Every rank
 * processes its part; sums are kept in double and added up over the ranks. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl/command/faults.h"
#include "engine/base/log.h"
#include "engine/base/text.h"
#include "engine/base/thread.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/saved_run.h"
#include "engine/data/open/data_paths.h"
#include "engine/files/fileio.h"
#include "engine/models/models.h"
#include "engine/train/eval/eval_answers.h"
#include "engine/train/eval/eval_metrics.h"
#include "engine/train/eval/eval_regression.h"
#include "engine/train/eval/eval_volumes.h"
#include "engine/train/eval/evaluate.h"
#include "engine/train/run/run.h"

#define FLUSH_EVERY 32 /* micro-batches in flight before the host waits */

typedef struct eval_sums {
    double record[CLT_MAX_LOSSES][4];
    double class_weights[CLT_MAX_LOSSES]; /* sums over the targets, for losses that have class weights */
    double samples, left_out;             /* left_out: bad samples, not counted in `samples` */
    double bytes;                         /* length of the text that the target tokens represent */
} eval_sums;

/* Values that stay the same in all micro-batches of an evaluation. */
typedef struct eval_pass {
    clt_eval_volumes *volumes; /* or NULL */
    eval_sums *sums;
    ocl_buffer *losses; /* the loss records on the device: `floats` numbers from `offset` on */
    uint64_t offset;
    size_t floats;
    int loss;   /* see language_loss */
    bool bytes; /* see counts_bytes */
} eval_pass;

/* The number of micro-batches that this rank evaluates, out of the first `batches` (0: out of all). They are
 * dealt to the ranks in turn, so the evaluated samples do not depend on the number of ranks. */
static int64_t micro_batches(const clt_run *run, int64_t batches)
{
    int64_t each = run->job->micro_batch, rank = run->ranks.rank, ranks = run->ranks.ranks;
    int64_t all = (run->job->eval_source->samples + each - 1) / each;
    all = batches > 0 && batches < all ? batches : all;
    return all > rank ? (all - rank + ranks - 1) / ranks : 0;
}

/* Index of the only loss that sums -log(probability) over tokens. -1 if there is none, or several: then
 * perplexity and bits per byte have no meaning. */
static int language_loss(const clt_run *run)
{
    const clt_graph *graph = run->eval->plan->graph;
    bool language = clt_model_family_of(run->options->config)->part->language;
    int found = -1;
    if (!language && !run->job->eval_source->tokens)
        return -1;
    for (int i = 0; i < graph->n_losses; i++) {
        const clt_node *node = graph->nodes[graph->losses[i].node];
        if (strcmp(node->op->name, "cross_entropy") != 0 &&
            strcmp(node->op->name, "linear_cross_entropy") != 0)
            continue;
        if (found >= 0 || node->constant >= 0 || clt_node_attr(node, "label_smoothing")->f > 0)
            return -1;
        found = i;
    }
    return found;
}

static double bytes_of_batch(const clt_run *run, int loss, const clt_fed *fed)
{
    const clt_source *source = run->job->eval_source;
    const clt_loss *l = &run->eval->plan->graph->losses[loss];
    double bytes = 0;
    for (int64_t i = 0; i < fed->valid_samples; i++)
        bytes += (double)source->type->target_bytes(source, fed->step * run->job->micro_batch + i,
                                                    l->has_ignore ? l->ignore_index : INT64_MIN);
    clt_map_unpin();
    return bytes;
}

/* True if the data is text, and the bytes that its tokens represent are known. */
static bool counts_bytes(const clt_run *run, int loss)
{
    const clt_source *source = run->job->eval_source;
    return loss >= 0 && source->type->target_bytes && source->tokenizer &&
           strcmp(run->eval->plan->graph->losses[loss].target_field, "y") == 0;
}

void clt_eval_language(double nats, double targets, double bytes, clt_eval_metrics *m)
{
    m->perplexity = targets > 0 ? exp(nats / targets) : NAN;
    m->bits_per_byte = bytes > 0 ? nats / log(2) / bytes : NAN;
}

/* Enqueues the micro-batch that has been fed, with a read of its loss record. waiting: number of samples of
 * the previous micro-batch, whose predictions are still on the device. */
static clt_status run_batch(clt_run *run, const eval_pass *p, const clt_fed *fed, int64_t waiting,
                            float *record)
{
    if (p->volumes)
        CLT_TRY(clt_eval_volumes_read(p->volumes, waiting));
    CLT_TRY(clt_realized_run(run->eval, CLT_PHASE_FORWARD));
    CLT_TRY(ocl_read_async(OCL_QUEUE_COMPUTE, p->losses, p->offset, record, p->floats * sizeof *record, NULL,
                           NULL));
    CLT_TRY(clt_eval_classes_take(run, fed->valid_samples));
    CLT_TRY(clt_eval_regression_take(run, fed->valid_samples));
    CLT_TRY(clt_eval_answers_take(run, fed->step * run->job->micro_batch, fed->valid_samples));
    if (p->bytes) /* the host counts while the device computes */
        p->sums->bytes += bytes_of_batch(run, p->loss, fed);
    return p->volumes ? clt_eval_volumes_add(p->volumes) : CLT_OK;
}

/* Runs `all` micro-batches and adds up their loss records. volumes: receives predictions if not NULL. */
static clt_status sum_batches(clt_run *run, clt_feed *feed, int64_t all, clt_eval_volumes *volumes,
                              eval_sums *sums)
{
    const clt_plan *plan = run->eval->plan;
    size_t floats = (size_t)plan->graph->n_losses * 4;
    float *got;
    clt_fed fed = {0};
    eval_pass pass = {.volumes = volumes, .sums = sums, .loss = language_loss(run), .floats = floats};
    pass.bytes = counts_bytes(run, pass.loss);
    CLT_TRY(clt_realized_resolve(run->eval, plan->losses, &pass.losses, &pass.offset));
    CLT_TRY(clt_alloc(&got, FLUSH_EVERY * floats, sizeof *got, "evaluation"));
    clt_status status = CLT_OK;
    int64_t waiting = 0;
    clt_run_progress(run, "evaluating", 0, all);
    for (int64_t done = 0; status == CLT_OK && !fed.end && done < all;) {
        size_t n = 0;
        for (; n < FLUSH_EVERY && status == CLT_OK && done < all; n++, done++) {
            status = clt_feed_next(feed, &fed);
            if (status != CLT_OK || fed.end)
                break;
            sums->samples += (double)fed.valid_samples;
            sums->left_out += (double)fed.left_out;
            for (int k = 0; k < plan->graph->n_losses; k++)
                sums->class_weights[k] += fed.class_weights[k];
            status = run_batch(run, &pass, &fed, waiting, got + n * floats);
            waiting = fed.valid_samples;
        }
        clt_status finished = ocl_finish(run->device, OCL_QUEUE_COMPUTE);
        status = status == CLT_OK ? finished : status;
        for (size_t i = 0; i < n * floats; i++)
            sums->record[i % floats / 4][i % 4] += (double)got[i];
        clt_run_progress(run, "evaluating", done, all);
    }
    if (volumes && status == CLT_OK)
        status = clt_eval_volumes_read(volumes, waiting);
    if (volumes && status == CLT_OK)
        status = clt_eval_volumes_add(volumes);
    clt_run_progress(run, "evaluating", 0, -1);
    if (!ocl_commands_failed(run->device)) /* otherwise pending reads may still write into `got` */
        free(got);
    return status;
}

/* Number of targets of loss `at`, less those that an earlier loss on the same target field has counted. */
static int64_t new_targets(const clt_graph *graph, const eval_sums *sums, int at)
{
    double counted = 0;
    for (int i = 0; i < at; i++)
        if (strcmp(graph->losses[i].target_field, graph->losses[at].target_field) == 0)
            counted = fmax(counted, sums->record[i][2]);
    return (int64_t)fmax(sums->record[at][2] - counted, 0);
}

static void mean_over_targets(const clt_run *run, const eval_sums *sums, clt_eval_metrics *m)
{
    const clt_graph *graph = run->eval->plan->graph;
    double correct = 0, correct_targets = 0;
    m->loss = 0;
    m->n_losses = graph->n_losses;
    for (int i = 0; i < graph->n_losses; i++) {
        const double *record = sums->record[i];
        double divisor = graph->losses[i].class_weights ? sums->class_weights[i] : record[2];
        double mean = divisor > 0 ? record[1] / divisor : NAN;
        snprintf(m->loss_name[i], sizeof m->loss_name[i], "%s", graph->losses[i].name);
        snprintf(m->loss_op[i], sizeof m->loss_op[i], "%s", graph->nodes[graph->losses[i].node]->op->name);
        m->loss_value[i] = mean;
        m->loss += (double)graph->losses[i].weight * mean;
        m->targets += new_targets(graph, sums, i);
        if (graph->nodes[graph->losses[i].node]->op->flags & CLT_OP_CORRECT) {
            correct += record[3];
            correct_targets += record[2];
        }
    }
    m->accuracy = correct_targets > 0 ? correct / correct_targets : NAN;
    m->perplexity = m->bits_per_byte = NAN;
    int language = language_loss(run);
    if (language >= 0)
        clt_eval_language(sums->record[language][1], sums->record[language][2], sums->bytes, m);
    m->samples = (int64_t)sums->samples;
    m->left_out = (int64_t)sums->left_out;
    m->available = run->job->eval_source->samples;
}

/* Sends the data of this rank through the evaluation plan. */
static clt_status feed_batches(clt_run *run, int64_t batches, clt_eval_volumes *volumes, eval_sums *sums)
{
    const clt_config *config = run->options->config;
    int64_t workers = clt_config_int(config, "data.workers"), micro = run->job->micro_batch;
    int64_t all = micro_batches(run, batches);
    clt_feed_options options = {.realized = run->eval,
                                .source = run->job->eval_source,
                                .global_batch = micro * run->ranks.ranks,
                                .accumulation = 1,
                                .rank = run->ranks.rank,
                                .ranks = run->ranks.ranks,
                                .seed = run->job->seed,
                                .evaluation = true,
                                .workers = workers < 0 ? clt_loader_auto_workers(run->ranks.core_ranks)
                                                       : (int)workers,
                                .prefetch = (int)clt_config_int(config, "data.prefetch")};
    if (volumes) { /* the source holds this rank's volumes only: no further division among ranks */
        options.source = clt_eval_volumes_source(volumes);
        options.global_batch = micro;
        options.rank = 0;
        options.ranks = 1;
        all = (options.source->samples + micro - 1) / micro;
    }
    CLT_TRY(clt_eval_classes_begin(run));
    CLT_TRY(clt_eval_regression_begin(run));
    CLT_TRY(clt_eval_answers_begin(run));
    if (options.source->samples == 0)
        return CLT_OK;
    CLT_SCOPED(clt_feed) *feed = NULL;
    CLT_TRY(clt_feed_create(&options, &feed));
    return sum_batches(run, feed, all, volumes, sums);
}

clt_status clt_run_evaluate(clt_run *run, int64_t step, int64_t batches, clt_eval_metrics *metrics)
{
    memset(metrics, 0, sizeof *metrics);
    metrics->step = step;
    metrics->on_train = run->job->on_train;
    metrics->accuracy = metrics->perplexity = metrics->bits_per_byte = NAN;
    metrics->top_k_accuracy = metrics->f1 = metrics->dice = NAN;
    if (!run->eval)
        return CLT_OK;
    double start = clt_now();
    eval_sums sums = {0};
    CLT_SCOPED(clt_eval_volumes) *volumes = NULL;
    CLT_TRY(clt_eval_volumes_begin(run, batches, &volumes));
    CLT_TRY(feed_batches(run, batches, volumes, &sums));
    if (run->ranks.ranks > 1)
        CLT_TRY(comm_all_reduce(run->options->comm, &sums, (int64_t)(sizeof sums / sizeof(double)), COMM_F64,
                                COMM_SUM));
    if (sums.left_out > 0 && sums.samples < 1)
        CLT_FAIL(CLT_EDATA, "evaluating: none of the %lld sample%s can be read; each was named above",
                 (long long)sums.left_out, CLT_PLURAL(sums.left_out));
    if (volumes)
        CLT_TRY(clt_eval_volumes_end(volumes, metrics));
    mean_over_targets(run, &sums, metrics);
    CLT_TRY(clt_eval_classes_end(run, metrics));
    CLT_TRY(clt_eval_regression_end(run, metrics));
    CLT_TRY(clt_eval_answers_end(run, metrics));
    if (metrics->volumes > 0) /* report the Dice of whole volumes, not of windows */
        metrics->dice = metrics->volume_dice;
    metrics->seconds = clt_now() - start;
    return CLT_OK;
}

/* Warns if the content of the data has changed since the run was saved. Data that the command line names is
 * meant to differ, so there is no warning for it. */
static void warn_of_other_data(const clt_run *run)
{
    const clt_saved_run *saved = run->options->saved;
    const clt_config *config = run->options->config;
    char now[CLT_HASH64_TEXT];
    if (!saved || saved->config != config || !saved->has_facts || run->ranks.rank != 0 ||
        strcmp(clt_config_origin(config, "data.path"), "override") == 0 ||
        strcmp(clt_config_origin(config, "data.eval_path"), "override") == 0)
        return;
    const char *then = run->job->on_train ? saved->facts.fingerprint : saved->facts.eval_fingerprint;
    CLT_KEEP_ERROR();
    if (*then &&
        clt_data_paths_compare(&saved->facts, config, run->job->eval_source, !run->job->on_train, now) ==
            CLT_OK &&
        *now && strcmp(now, then) != 0)
        CLT_WARN("the %s data has changed since '%s' was saved: its files have other content",
                 run->job->on_train ? "training" : "evaluation", saved->path);
}

clt_status clt_evaluate(const clt_run_options *options, clt_eval_metrics *result)
{
    CLT_SCOPED(clt_run) *run = NULL;
    if (options->classes)
        *options->classes = NULL;
    CLT_TRY(clt_run_create(options, CLT_JOB_EVAL, &run));
    warn_of_other_data(run);
    if (options->init)
        CLT_TRY(clt_run_take_init(run));
    else if (options->saved)
        CLT_TRY(clt_run_load_saved(run, options->saved->checkpoint, options->saved->path));
    else
        CLT_FAIL(CLT_EUSAGE, "eval: no parameters; give a run folder or --init PATH");
    CLT_TRY(clt_run_evaluate(run, -1, clt_config_int(options->config, "train.eval_batches"), result));
    if (options->classes)
        *options->classes = clt_eval_classes_release(run);
    return CLT_OK;
}
