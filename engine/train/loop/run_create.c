/* SPDX-License-Identifier: Apache-2.0
 *
 * Creates and destroys runs: makes the decisions that precede the device objects (run_objects.c), and sets
 * initial values. */
#include "engine/train/run/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cl/command/faults.h"
#include "engine/base/log.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/saved_run.h"
#include "engine/pretrained/peft.h"
#include "engine/pretrained/pretrained.h"
#include "engine/train/eval/eval_metrics.h"
#include "engine/train/eval/eval_answers.h"
#include "engine/train/eval/eval_regression.h"
#include "engine/train/job/tuned.h"
#include "engine/train/ranks/agreement.h"
#include "engine/train/ranks/deadline.h"
#include "engine/train/ranks/preflight.h"
#include "engine/train/ranks/sync.h"
#include "engine/train/loop/trainer_loop.h"
#include "engine/train/saved/known_table.h"
#include "engine/train/saved/resume_preview.h"

static clt_status initialise(clt_run *run)
{
    const clt_job *job = run->job;
    if (!job->train)
        return CLT_OK;
    CLT_TRY(clt_store_init(run->store, job->train->graph, job->seed));
    CLT_TRY(clt_store_set_groups(run->store, (float)job->update.weight_decay));
    CLT_FREED float *table = NULL;
    CLT_TRY(clt_alloc(&table, (size_t)job->steps * 4, sizeof *table, "schedule"));
    clt_job_table(job, table);
    CLT_TRY(clt_store_set_schedule(run->store, table));
    clt_state_block state = {.loss_scale = job->update.scaling.on ? job->loss_scale : 1.0f};
    return clt_store_set_state(run->store, &state);
}

/* Notes in the log when each part of the start began; evaluations and checkpoints are logged elsewhere. */
static void note_phase(clt_run *run, const char *what)
{
    char name[sizeof run->phase];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(what, ":"), what);
    if (run->reporter || strcmp(name, run->phase) == 0)
        return;
    memcpy(run->phase, name, sizeof name);
    clt_log_note(name);
}

void clt_run_progress(clt_run *run, const char *what, int64_t done, int64_t total)
{
    if (total >= 0)
        clt_say_phase(run->options->comm, what, 0);
    if (run->ranks.rank != 0)
        return;
    if (total >= 0)
        note_phase(run, what);
    clt_progress(&run->options->observer, what, done, total);
}

/* Chooses the algorithm of the all-reduce. On one host, memory that the ranks share is fastest.
 * Otherwise all algorithms are measured with the bytes of a bucket, at most 4 MiB. */
static clt_status choose_algorithm(clt_run *run)
{
    static const comm_type types[] = {
        [CLT_GRADIENTS_F32] = COMM_F32, [CLT_GRADIENTS_BF16] = COMM_BF16, [CLT_GRADIENTS_F16] = COMM_F16};
    const clt_config *config = run->options->config;
    comm *c = run->options->comm;
    if (run->ranks.ranks <= 1)
        return CLT_OK;
    comm_order order = clt_config_bool(config, "parallel.rank_invariant")  ? COMM_TREE
                       : clt_config_bool(config, "parallel.deterministic") ? COMM_REPEATED
                                                                           : COMM_ANY_ORDER;
    comm_set_half_between(c, clt_config_bool(config, "parallel.half_between_hosts") &&
                                 clt_config_choice(config, "parallel.gradients") != CLT_GRADIENTS_F32);
    clt_status status = comm_set_algorithm(c, clt_config_string(config, "parallel.allreduce"), order);
    CLT_TRY(clt_fail_prefix(status, "parallel.allreduce"));
    if (clt_config_choice(config, "parallel.allreduce") != CLT_ALLREDUCE_AUTO ||
        (run->ranks.nodes == 1 && strcmp(comm_chosen_algorithm(c), "nodes") == 0))
        return CLT_OK;
    clt_run_progress(run, "measuring sums over the ranks", 0, 0);
    const double most = 4 << 20, bucket = clt_config_float(config, "parallel.bucket_mb") * (1 << 20);
    double seconds[16];
    CLT_TRY(comm_measure_algorithms(c, (int64_t)(bucket < most ? bucket : most),
                                    types[clt_config_choice(config, "parallel.gradients")], seconds, 16));
    for (size_t i = 0; comm_algorithm_name(i) && i < 16; i++)
        if (seconds[i] > 0)
            CLT_DEBUG("all-reduce by %s: %.3f ms", comm_algorithm_name(i), seconds[i] * 1e3);
    return CLT_OK;
}

/* A resumed run uses its checkpoint's style of kernels, and all ranks use rank 0's: the faster style is
 * found by timing, which may have another result this time. */
static clt_status keep_style(clt_run *run)
{
    ocl_style wanted = run->tuned->style, now = clt_tuned_style(&run->tuned->desc);
    char line[400];
    if (wanted == OCL_STYLE_ASKED || wanted == now)
        return CLT_OK;
    if (now != OCL_STYLE_ASKED && !getenv("CLTRAIN_STYLE")) {
        run->style = wanted;
        ocl_device_close(run->device);
        run->device = NULL;
        CLT_TRY(clt_run_open_device(run));
        clt_tuned_move(run->tuned, ocl_device_describe(run->device));
    }
    if (wanted == clt_tuned_style(&run->tuned->desc) || !run->options->observer.message)
        return CLT_OK;
    snprintf(
        line, sizeof line,
        "device: %s in style '%s', which this run cannot or may not use: sums may be rounded differently "
        "%s",
        run->ranks.rank ? "rank 0 computes" : "the checkpoint was computed", ocl_style_name(wanted),
        run->ranks.rank ? "on this rank" : "from here on");
    run->options->observer.message(run->options->observer.context, line);
    return CLT_OK;
}

/* Joins the tensors of --adapter to the opened file of --init. */
static clt_status join_adapter(const clt_run_options *o, clt_safetensors **file)
{
    CLT_SCOPED(clt_peft) *adapter = NULL;
    CLT_TRY(clt_peft_open(o->adapter, &adapter));
    CLT_INFO("adapter '%s': %s", o->adapter, clt_peft_words(adapter));
    return clt_peft_join(adapter, file);
}

/* Opens the weights of --init and --adapter and compares every tensor with the model. */
static clt_status open_weights(const clt_run_options *o, const clt_graph *graph, clt_weights_taken *taken,
                               clt_safetensors **out)
{
    CLT_SCOPED(clt_safetensors) *file = NULL;
    CLT_SCOPED(clt_str) name = {0};
    clt_str_printf(&name, "%s%s%s", o->init, o->adapter ? "' with the adapter '" : "",
                   o->adapter ? o->adapter : "");
    CLT_TRY(clt_str_check(&name));
    CLT_TRY(clt_weights_open(o->init, &file));
    CLT_TRY(clt_fail_prefix(clt_weights_take_off_prefix(graph, file, o->init_skip ? o->init_skip : "", taken),
                            "%s", o->init));
    if (o->adapter)
        CLT_TRY(join_adapter(o, &file));
    CLT_TRY(clt_weights_check(graph, file, name.text, o->init_skip, taken));
    size_t used = strlen(taken->notes);
    if (o->adapter)
        snprintf(taken->notes + used, sizeof taken->notes - used, "%sadapter from %.200s", used ? "; " : "",
                 o->adapter);
    *out = CLT_TAKE(file);
    return CLT_OK;
}

/* Compares the weights to start from with the model before a device is opened. The file stays open until its
 * values are loaded. */
static clt_status open_init(clt_run *run)
{
    const clt_saved_run *saved = run->options->saved;
    if (saved && saved->checkpoint->model && !run->options->init)
        return clt_weights_check(run->job->model, saved->checkpoint->model, saved->path, NULL, NULL);
    if (!run->options->init || run->from.path[0]) /* a resumed run has its own weights */
        return CLT_OK;
    return open_weights(run->options, run->job->model, &run->taken, &run->init);
}

clt_status clt_run_check_init(const clt_run_options *options, const clt_job *job, clt_weights_taken *taken)
{
    CLT_SCOPED(clt_safetensors) *file = NULL;
    if (!options->init)
        return CLT_OK;
    CLT_TRY(clt_pretrained_check_tokenizer(options->init, options->config));
    return open_weights(options, job->model, taken, &file);
}

clt_status clt_run_set_micro_batch(clt_run *run, int64_t micro)
{
    CLT_TRY(clt_job_set_micro_batch(run->job, micro));
    run->micro_batches = clt_job_share(run->job, run->ranks.rank, &run->first_micro);
    return CLT_OK;
}

/* data.micro_batch auto: the largest that fits the device of every rank. */
static clt_status find_micro_batch(clt_run *run)
{
    int64_t micro;
    if (!run->job->auto_micro)
        return CLT_OK;
    CLT_TRY(clt_job_find_micro_batch(run->job, &run->tuned->desc, &run->order, &micro));
    if (run->ranks.ranks > 1)
        CLT_TRY(comm_all_reduce(run->options->comm, &micro, 1, COMM_I64, COMM_MIN));
    return clt_run_set_micro_batch(run, micro);
}

static clt_status compare_ranks(clt_run *run)
{
    clt_nearness near;
    int sharing;
    clt_find_near_cores(run, &near);
    CLT_TRY(clt_preflight(run, &near, &sharing));
    clt_bind_near_device(run, &near, sharing);
    return CLT_OK;
}

/* Tells the user that a resumed run is already complete, before kernels are built, because building takes
 * long. With data.micro_batch auto this may not be known yet. */
static void tell_complete(clt_run *run)
{
    clt_resume_preview preview = {.from = run->from, /* borrows the checkpoint */
                                  .continuation = run->continuation,
                                  .state = CLT_SAVED_STATE_NEW};
    const clt_observer *told = &run->options->observer;
    if (!run->from.saved || run->job->auto_micro)
        return;
    int64_t step = clt_checkpoint_int(run->from.saved, "step", 0);
    if (step > run->job->steps) /* an error, which loading the checkpoint will report */
        return;
    clt_resume_preview_warn(&preview, run->job, false);
    const char *complete = clt_complete(run->options, run->job, step, &preview.state);
    run->told_complete = complete != NULL;
    if (complete && run->ranks.rank == 0 && told->message)
        told->message(told->context, complete);
}

/* Opens checkpoint, data and weights, and decides all that needs no device. */
static clt_status decide(clt_run *run, clt_job_kind kind, clt_checkpoint **found)
{
    const clt_run_options *o = run->options;
    CLT_TRY(clt_preflight_config(run));
    CLT_TRY(choose_algorithm(run));
    clt_run_progress(run, "opening the data", 0, 0);
    if (kind == CLT_JOB_TRAIN)
        CLT_TRY(clt_resumed_open(o, found, &run->from));
    if (o->init && !run->from.path[0])
        CLT_TRY(clt_pretrained_check_tokenizer(o->init, o->config));
    CLT_TRY(clt_known_job(o, &run->from, kind, &run->job));
    run->job->rank = run->ranks.rank;
    CLT_TRY(clt_eval_classes_prepare(run));
    CLT_TRY(clt_eval_regression_prepare(run));
    CLT_TRY(clt_eval_answers_prepare(run));
    if (kind != CLT_JOB_DECODE)
        run->micro_batches = clt_job_share(run->job, run->ranks.rank, &run->first_micro);
    CLT_TRY(open_init(run));
    if (run->from.saved)
        CLT_TRY(clt_continuation_check(run->from.saved, run->job, &run->continuation));
    tell_complete(run);
    return CLT_OK;
}

static clt_status create(clt_run *run, clt_job_kind kind, clt_checkpoint **found)
{
    const clt_run_options *o = run->options;
    bool changed;
    if (o->comm)
        comm_set_deadline(o->comm, clt_config_float(o->config, "parallel.start_deadline"));
    CLT_TRY(decide(run, kind, found));
    clt_run_progress(run, "testing what the device can do", 0, 0);
    CLT_TRY(clt_run_open_device(run));
    clt_run_progress(run, "comparing the ranks", 0, 0);
    CLT_TRY(compare_ranks(run));
    CLT_TRY(clt_tuned_open(o->config, run->device, o->comm, &run->from, &o->observer, &run->tuned));
    CLT_TRY(keep_style(run));
    clt_recall_unsupported(run);
    CLT_TRY(clt_agree_on_update(run, &changed));
    clt_run_progress(run, "planning", 0, 0);
    CLT_TRY(find_micro_batch(run));
    CLT_TRY(clt_job_plan(run->job, &run->tuned->desc, &run->order));
    if (run->job->train)
        CLT_TRY(
            clt_tuned_measure(run->tuned, run->device, o->config, o->comm, &o->observer, o->stop, run->job));
    CLT_TRY(clt_run_make_objects(run));
    clt_run_progress(run, "setting the parameters", 0, 0);
    CLT_TRY(initialise(run));
    clt_run_progress(run, "setting the parameters", 0, -1);
    return run->job->train ? clt_sync_create(run, &run->sync) : CLT_OK;
}

void clt_run_begin(clt_run *run, const clt_run_options *options)
{
    run->options = options;
    run->ranks = (comm_info){
        .rank = 0, .ranks = 1, .local_rank = 0, .local_ranks = 1, .core_ranks = 1, .transport = "self"};
    if (options->comm)
        run->ranks = *comm_describe(options->comm);
    else if (gethostname(run->ranks.host, sizeof run->ranks.host - 1) != 0)
        run->ranks.host[0] = '\0';
}

static clt_status make(const clt_run_options *options, clt_job_kind kind, clt_checkpoint **found,
                       clt_run **out)
{
    CLT_SCOPED(clt_run) *run = NULL;
    *out = NULL;
    CLT_TRY(clt_alloc(&run, 1, sizeof *run, "run"));
    clt_run_begin(run, options);
    clt_log_set_first(run->ranks.rank == 0);
    CLT_TRY(create(run, kind, found));
    *out = CLT_TAKE(run);
    return CLT_OK;
}

clt_status clt_run_create(const clt_run_options *options, clt_job_kind kind, clt_run **out)
{
    return make(options, kind, NULL, out);
}

clt_status clt_run_create_training(const clt_run_options *options, clt_checkpoint **found, clt_run **out)
{
    return make(options, CLT_JOB_TRAIN, found, out);
}

clt_feed_options clt_run_feed_options(const clt_run *run, int64_t first_step, int64_t last_step)
{
    const clt_config *c = run->options->config;
    int64_t workers = clt_config_int(c, "data.workers");
    return (clt_feed_options){.realized = run->train,
                              .source = run->job->train_source,
                              .global_batch = run->job->global_batch,
                              .accumulation = run->micro_batches,
                              .first_micro = run->first_micro,
                              .rank = run->ranks.rank,
                              .ranks = run->ranks.ranks,
                              .seed = run->job->seed,
                              .shuffle = clt_config_bool(c, "data.shuffle"),
                              .first_step = first_step,
                              .last_step = last_step,
                              .workers =
                                  workers < 0 ? clt_loader_auto_workers(run->ranks.core_ranks) : (int)workers,
                              .prefetch = (int)clt_config_int(c, "data.prefetch")};
}

void clt_run_destroy(clt_run *run)
{
    if (!run)
        return;
    clt_feed_destroy(run->feed);
    clt_reporter_destroy(run->reporter);
    clt_sync_destroy(run->sync);
    clt_run_drop_objects(run);
    /* after a failed command, other commands may still use the shared memory */
    bool lost = run->device && ocl_commands_failed(run->device);
    ocl_device_close(run->device);
    if (!lost)
        comm_memory_destroy(run->shared_gradients);
    if (!lost)
        comm_memory_destroy(run->shared_parameters);
    clt_eval_classes_free(run);
    clt_eval_regression_free(run);
    clt_eval_answers_free(run);
    clt_job_destroy(run->job);
    clt_safetensors_close(run->init);
    clt_resumed_close(&run->from);
    clt_tuned_close(run->tuned); /* the job's plans borrowed its records */
    free(run);
}
