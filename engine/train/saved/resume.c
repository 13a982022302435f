/* SPDX-License-Identifier: Apache-2.0
 *
 * Resuming: restores parameters, optimizer state and state block from a checkpoint, bit by bit. Data order,
 * dropout and the schedule are pure functions of the step, so nothing else has to be restored. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/text.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/train/job/tuned.h"
#include "engine/train/run/run.h"
#include "engine/train/saved/resume_preview.h"
#include "engine/train/saved/saver.h"

static clt_status load_state_tensor(clt_run *run, const clt_checkpoint *saved, const clt_param *param,
                                    clt_arena_kind arena)
{
    char name[300];
    snprintf(name, sizeof name, "%s%s", param->file_name, clt_arenas[arena].suffix);
    const clt_named_tensor *tensor = saved->optimizer ? clt_safetensors_find(saved->optimizer, name) : NULL;
    if (!tensor)
        CLT_FAIL(CLT_ECHECKPOINT,
                 "resuming from '%s': the optimizer state has no tensor '%s'; was it trained with another "
                 "optimizer.type?",
                 saved->path, name);
    return clt_run_load_tensor(run, param, arena, tensor, saved->path);
}

static clt_status get_int(const clt_checkpoint *saved, const char *key, int64_t most, int64_t *out)
{
    if (!clt_json_int_within(clt_json_get(clt_json_root(saved->state), key), 0, most, out))
        CLT_FAIL(CLT_ECHECKPOINT, "resuming from '%s': state.json has no valid '%s'", saved->path, key);
    return CLT_OK;
}

static clt_status get_count(const clt_checkpoint *saved, const char *key, uint32_t *out)
{
    int64_t value;
    CLT_TRY(get_int(saved, key, UINT32_MAX, &value));
    *out = (uint32_t)value;
    return CLT_OK;
}

/* Reads a member; false if it is not an integer from 0 to `most`. */
static bool member_int(const clt_json *object, const char *key, int64_t most, int64_t *out)
{
    return clt_json_int_within(clt_json_get(object, key), 0, most, out);
}

/* Writes the config overrides with which a step of this job takes `samples` samples. */
static void name_batch(const clt_job *job, int64_t samples, char *text, size_t size)
{
    int64_t micro = samples / job->ranks;
    if (micro > job->micro_batch)
        micro = job->micro_batch;
    while (micro > 1 && samples % micro != 0)
        micro--;
    if (micro > 0)
        snprintf(text, size, "data.micro_batch=%" PRId64 " data.global_batch=%" PRId64, micro, samples);
    else
        snprintf(text, size, "at most %" PRId64 " ranks", samples);
}

/* The checkpoint must have been trained with the same global batch. If the config does not set it,
 * clt_job_read_batch keeps the checkpoint's where the micro-batch and the ranks allow it. */
static clt_status check_batch(const clt_job *job, const clt_checkpoint *saved, int64_t step)
{
    int64_t samples, batch = job->global_batch;
    char give[96];
    CLT_TRY(get_int(saved, "samples", INT64_MAX, &samples));
    if (step <= INT64_MAX / batch && samples == step * batch)
        return CLT_OK;
    if (step == 0 || samples % step != 0)
        CLT_FAIL(CLT_ECHECKPOINT, "resuming from '%s': state.json has no valid 'samples'", saved->path);
    name_batch(job, samples / step, give, sizeof give);
    CLT_FAIL(CLT_ECONFIG,
             "resuming from '%s': its %" PRId64 " step%s took %" PRId64
             " samples each, this run takes %" PRId64 " a step; give %s",
             saved->path, step, CLT_PLURAL(step), samples / step, batch, give);
}

static clt_status check_end(const clt_job *job, const clt_checkpoint *saved, int64_t step)
{
    if (step > job->steps)
        CLT_FAIL(CLT_ECHECKPOINT,
                 "resuming from '%s': it is at step %" PRId64 ", past the end of this run (%" PRId64
                 " step%s)",
                 saved->path, step, job->steps, CLT_PLURAL(job->steps));
    return CLT_OK;
}

/* True if checkpoint and job have the same storage type; a checkpoint that names none counts as having the
 * job's. With precision.mode auto another device may choose another type; `tells`: warns of that. */
static bool same_storage(const clt_job *job, const clt_checkpoint *saved, bool tells)
{
    const char *now = clt_dtype_name(job->storage);
    const char *then = clt_json_string_or(clt_json_get(clt_json_root(saved->state), "storage"), now);
    bool same = strcmp(now, then) == 0;
    if (!same && tells)
        CLT_WARN(
            "resuming from '%s': it was trained with %s storage, and precision.mode auto takes %s on device "
            "'%s'; training continues from the same parameters, but with other results than before",
            saved->path, then, now, job->desc.name);
    return same;
}

/* Restores the loss scale and its counter if the storage type is the same; else both start again. */
static void restore_scale(const clt_run *run, const clt_checkpoint *saved, clt_state_block *state)
{
    const clt_loss_scaling *scaling = &run->job->update.scaling;
    bool same = same_storage(run->job, saved, run->ranks.rank == 0);
    double scale = clt_json_number_or(clt_json_get(clt_json_root(saved->state), "loss_scale"), 1.0);
    bool kept = scaling->on && scaling->dynamic && same && scale > 0 && isfinite((float)scale);
    state->loss_scale = !scaling->on ? 1.0f : kept ? (float)scale : run->job->loss_scale;
    if (!kept)
        state->growth = 0;
}

/* Restores the statistics that steps are compared with to detect spikes. If the checkpoint has none, they
 * begin again. */
static void restore_spikes(const clt_run *run, const clt_checkpoint *saved, clt_state_block *state)
{
    const clt_json *spikes = clt_json_get(clt_json_root(saved->state), "spikes");
    const clt_spike_rule *rule = &run->job->update.spike;
    int64_t judged, spiked;
    double value[4];
    int n = 0;
    if (!member_int(spikes, "judged", UINT32_MAX, &judged) ||
        !member_int(spikes, "spikes", UINT32_MAX, &spiked))
        return;
#define CLT_GET(name)                                                                                        \
    value[n] = clt_json_number_or(clt_json_get(spikes, #name), NAN);                                         \
    if (!isfinite((float)value[n++]))                                                                        \
        return;
    CLT_SPIKE_STATISTICS(CLT_GET)
#undef CLT_GET
    n = 0;
#define CLT_SET(name) state->name = (float)value[n++];
    CLT_SPIKE_STATISTICS(CLT_SET)
#undef CLT_SET
    state->judged = (uint32_t)(judged < rule->window ? judged : rule->window);
    state->spiked = (uint32_t)spiked;
}

/* Restores the record of the weights file that the run once started from. */
static void restore_init(clt_run *run, const clt_checkpoint *saved)
{
    const clt_json *init = clt_json_get(clt_json_root(saved->state), "init");
    const clt_json *file = clt_json_get(init, "file"), *hash = clt_json_get(init, "hash");
    int64_t count = 0, n_kept = 0;
    memset(&run->taken, 0, sizeof run->taken);
    if (!file || !hash || !clt_json_int(clt_json_get(init, "tensors"), &count))
        return;
    snprintf(run->taken.file, sizeof run->taken.file, "%s", clt_json_string(file));
    run->taken.tensors = (int)count;
    (void)clt_json_int(clt_json_get(init, "new_parameters"), &n_kept);
    run->taken.kept = (int)n_kept;
    run->taken.hash = strtoull(clt_json_string(hash), NULL, 16);
}

#define BEGINS_AGAIN "the best evaluation so far and the count of train.early_stop_evals begin again"

/* Restores the best evaluation so far and the count of evaluations without improvement. Both begin again if
 * the config now names another figure, or evaluations measure something else (`other`); `tells`: warns of
 * that. Checkpoints of older versions have only the lowest loss. */
static void restore_best(const clt_config *config, const clt_checkpoint *saved, bool other, bool tells,
                         clt_saved_state *extra)
{
    static const char *const words[] = {CLT_BESTS(CLT_CHOICE_WORD)};
    const clt_json *root = clt_json_root(saved->state), *by = clt_json_get(root, "best_by");
    const char *was = by ? clt_json_string(by) : words[CLT_BEST_LOSS];
    int best = clt_config_choice(config, "checkpoint.best");
    int64_t step, evals;
    extra->best = best == CLT_BEST_NONE ? CLT_BEST_LOSS : best;
    extra->best_eval_loss = other ? NAN : clt_json_number_or(clt_json_get(root, "best_eval_loss"), NAN);
    extra->owes = member_int(root, "owes_evaluation", 1, &evals) && evals == 1;
    if (strcmp(was, words[extra->best]) != 0) {
        if (tells)
            CLT_WARN("resuming from '%s': it chose the best checkpoint by %s, and this run does so by "
                     "%s: " BEGINS_AGAIN,
                     saved->path, was, words[extra->best]);
        return;
    }
    if (other && (clt_json_get(root, "best_step") || clt_json_get(root, "stop_evals"))) {
        if (tells)
            CLT_WARN(
                "resuming from '%s': its evaluations had other data, or other values of train.eval_batches, "
                "train.eval_top_k, train.eval_background, data.window_overlap or "
                "data.window_weights: " BEGINS_AGAIN,
                saved->path);
        return;
    }
    if (member_int(root, "best_step", INT64_MAX, &step)) {
        extra->best_step = step;
        extra->best_value = clt_json_number_or(clt_json_get(root, "best_value"), extra->best_eval_loss);
    }
    if (member_int(root, "stop_evals", INT64_MAX, &evals)) {
        extra->stop_evals = evals;
        extra->stop_value = clt_json_number_or(clt_json_get(root, "stop_value"), NAN);
    }
}

static clt_status load_state(clt_run *run, const clt_checkpoint *saved, clt_saved_state *extra)
{
    int64_t step;
    clt_state_block state = {0};
    CLT_TRY(get_int(saved, "step", INT64_MAX, &step));
    CLT_TRY(check_batch(run->job, saved, step));
    CLT_TRY(get_count(saved, "update", &state.update));
    CLT_TRY(get_count(saved, "skipped", &state.skipped));
    CLT_TRY(get_count(saved, "skipped_in_a_row", &state.skipped_row));
    CLT_TRY(get_count(saved, "growth", &state.growth));
    restore_spikes(run, saved, &state);
    restore_scale(run, saved, &state);
    restore_init(run, saved);
    restore_best(run->options->config, saved, run->continuation.eval_other, run->ranks.rank == 0, extra);
    run->first_step = step;
    return clt_store_set_state(run->store, &state);
}

/* --- the checkpoint --- */

const char *clt_resumed_name(const clt_run_options *o)
{
    if (!o->resume || strcmp(o->resume, "none") == 0)
        return "";
    if (strcmp(o->resume, "auto") != 0)
        return o->resume;
    return o->out_dir ? o->out_dir : "";
}

/* With "auto" a run folder without checkpoints is no error: the run begins at step 0. */
static clt_status open_named(const clt_run_options *o, const char *name, bool peek, clt_checkpoint **out)
{
    bool automatic = strcmp(o->resume, "auto") == 0;
    if (automatic && !clt_checkpoint_exists(name))
        return CLT_OK;
    return peek ? clt_checkpoint_peek(name, out) : clt_checkpoint_open(name, out);
}

/* Rank 0 chooses the checkpoint and tells the others its path. peek: without reading its tensors, unless
 * it is open already. */
static clt_status choose(const clt_run_options *o, bool peek, clt_resumed *out)
{
    struct {
        clt_error error;
        char path[sizeof out->path];
    } told = {.path = ""};
    if (comm_describe(o->comm)->rank == 0) {
        clt_error_take(out->saved ? CLT_OK : open_named(o, out->name, peek, &out->saved), &told.error);
        snprintf(told.path, sizeof told.path, "%s", out->saved ? out->saved->path : "");
        told.error.file = NULL; /* it points to a constant of this process */
    }
    CLT_TRY(comm_broadcast(o->comm, &told, sizeof told, 0));
    memcpy(out->path, told.path, sizeof out->path);
    if (told.error.status != CLT_OK || (out->saved && !out->saved->model)) /* only peeked at */
        clt_resumed_close(out);
    return clt_error_put(&told.error);
}

/* All ranks read and verify the newest checkpoint at the same time. If one of them cannot, rank 0 looks for
 * one that verifies, which may be older. */
static clt_status open_together(const clt_run_options *o, clt_resumed *out)
{
    clt_status status = choose(o, true, out);
    if (status == CLT_OK && out->path[0] && !out->saved)
        status = clt_checkpoint_open(out->path, &out->saved);
    int64_t failed = status != CLT_OK;
    CLT_TRY(comm_all_reduce(o->comm, &failed, 1, COMM_I64, COMM_MAX));
    if (!failed)
        return CLT_OK;
    clt_error_clear();
    clt_resumed_close(out);
    CLT_TRY(choose(o, false, out));
    return out->saved || !out->path[0] ? CLT_OK : clt_checkpoint_open(out->path, &out->saved);
}

clt_status clt_resumed_open(const clt_run_options *o, clt_checkpoint **found, clt_resumed *out)
{
    *out = (clt_resumed){.name = clt_resumed_name(o), .saved = found ? CLT_TAKE(*found) : NULL};
    if (!out->name[0])
        return CLT_OK;
    if (o->comm && comm_describe(o->comm)->ranks > 1)
        CLT_TRY(open_together(o, out));
    else if (!out->saved)
        CLT_TRY(open_named(o, out->name, false, &out->saved));
    if (!out->saved)
        return CLT_OK;
    snprintf(out->path, sizeof out->path, "%s", out->saved->path);
    int64_t step = clt_checkpoint_int(out->saved, "step", 0),
            samples = clt_checkpoint_int(out->saved, "samples", 0);
    out->global_batch = step > 0 && samples % step == 0 ? samples / step : 0;
    if (clt_config_int(o->config, "data.micro_batch") <= 0)
        out->micro_batch = clt_checkpoint_int(out->saved, "micro_batch", 0);
    return CLT_OK;
}

void clt_resumed_close(clt_resumed *resumed)
{
    clt_checkpoint_close(resumed->saved);
    resumed->saved = NULL;
}

clt_status clt_run_resume(clt_run *run, clt_saved_state *extra)
{
    const clt_graph *graph = run->job->train->graph;
    const clt_checkpoint *saved = run->from.saved;
    if (run->job->auto_micro) /* again: the micro-batch decides the number of steps */
        CLT_TRY(clt_continuation_check(saved, run->job, &run->continuation));
    CLT_TRY(clt_run_load_file(run, saved->model, saved->path));
    for (size_t i = 0; i < graph->n_params; i++)
        for (int arena = 0; arena < CLT_ARENA_COUNT; arena++)
            if (clt_store_saves(run->store, (clt_arena_kind)arena, &graph->params[i]))
                CLT_TRY(load_state_tensor(run, saved, &graph->params[i], (clt_arena_kind)arena));
    CLT_TRY(clt_safetensors_whole(saved->optimizer));
    CLT_TRY(load_state(run, saved, extra));
    CLT_TRY(check_end(run->job, saved, run->first_step));
    clt_resumed_close(&run->from);
    return CLT_OK;
}

/* --- a dry run --- */

clt_status clt_resume_preview_check(clt_resume_preview *p, const clt_job *job)
{
    const clt_checkpoint *saved = p->from.saved;
    if (!saved)
        return CLT_OK;
    CLT_TRY(clt_continuation_check(saved, job, &p->continuation));
    CLT_TRY(clt_weights_check(job->model, saved->model, saved->path, NULL, NULL));
    CLT_TRY(get_int(saved, "step", INT64_MAX, &p->step));
    CLT_TRY(get_count(saved, "update", &p->update));
    CLT_TRY(check_batch(job, saved, p->step));
    return check_end(job, saved, p->step);
}

void clt_resume_preview_warn(clt_resume_preview *p, const clt_job *job, bool tells)
{
    if (!p->from.saved)
        return;
    (void)same_storage(job, p->from.saved, tells);
    restore_best(job->config, p->from.saved, p->continuation.eval_other, tells, &p->state);
}

void clt_resume_preview_close(clt_resume_preview *p)
{
    clt_resumed_close(&p->from);
}
