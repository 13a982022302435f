/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares a checkpoint with the job that resumes from it: keys, length and schedule, training data, scale
 * and tokenizer. Puts the differences that are allowed into words. */
#include "engine/train/job/continuation.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/checkpoint/saved_run.h"
#include "engine/config/part.h"
#include "engine/data/open/data_paths.h"
#include "engine/data/tokenizer/tokenizer.h"
#include "engine/files/fileio.h"

typedef struct comparison {
    const clt_checkpoint *saved;
    const clt_job *job;
    clt_config *was;
    bool has_facts;
    clt_data_facts facts;
    clt_continuation *out;
} comparison;

/* --- what the checkpoint says --- */

/* Reads the text of the checkpoint's config. *path: where it was found. *text: NULL if it is not known. */
static clt_status config_text(const clt_checkpoint *saved, char **text, char **path)
{
    size_t size;
    CLT_TRY(clt_path_join(saved->path, CLT_SAVED_CONFIG_FILE, path));
    CLT_TRY(clt_checkpoint_text(saved, CLT_SAVED_CONFIG_FILE, text, &size));
    if (*text)
        return CLT_OK;
    free(*path);
    *path = NULL;
    CLT_TRY(clt_path_join(saved->path, "../../config.resolved.json", path));
    return clt_file_exists(*path) ? clt_file_read(*path, false, 0, CLT_ECONFIG, text, &size) : CLT_OK;
}

static clt_status read_facts(comparison *c)
{
    CLT_FREED char *text = NULL;
    size_t size;
    CLT_TRY(clt_checkpoint_text(c->saved, CLT_DATA_FACTS_FILE, &text, &size));
    if (text)
        CLT_TRY(clt_fail_prefix(clt_data_facts_parse(text, size, CLT_DATA_FACTS_FILE, &c->facts),
                                "resuming from '%s'", c->saved->path));
    c->has_facts = text != NULL;
    return CLT_OK;
}

/* --- keys --- */

static clt_status refuse(const comparison *c, const char *why, const clt_str *diff)
{
    CLT_FAIL(CLT_ECONFIG, "resuming from '%s': %s\n%s", c->saved->path, why, diff->text);
}

/* --- length and schedule --- */

static clt_status check_length(const comparison *c, const char *was)
{
    clt_continuation *out = c->out;
    CLT_SCOPED(clt_str) diff = {0};
    int64_t samples = c->has_facts ? c->facts.samples : c->job->train_source->samples;
    out->steps_now = c->job->steps;
    CLT_TRY(clt_job_steps(c->was, samples, c->job->global_batch, &out->steps_before));
    CLT_TRY(clt_config_diff(was, c->job->config, CLT_KEYS_LENGTH, &diff));
    out->longer = diff.length && out->steps_now > out->steps_before;
    if (out->longer)
        out->schedule_before = clt_job_schedule(c->was, out->steps_before, c->job->global_batch);
    else if (diff.length && out->steps_now < out->steps_before)
        CLT_FAIL(CLT_ECONFIG,
                 "resuming from '%s': the run is %" PRId64 " step%s long and cannot become shorter (%" PRId64
                 "). If it was made longer after this config was written: give train.steps=%" PRId64
                 ", or resume with 'cltrain train --resume RUN' without a CONFIG, which takes the run's own "
                 "config. To end it early give --max-steps N\n%s",
                 c->saved->path, out->steps_before, CLT_PLURAL(out->steps_before), out->steps_now,
                 out->steps_before, diff.text);
    else if (diff.length && strstr(diff.text, "schedule."))
        return refuse(c,
                      "the schedule can change only when the run becomes longer: give a larger train.steps "
                      "or train.epochs, or undo it",
                      &diff);
    return CLT_OK;
}

static clt_status check_rate(const comparison *c, const char *was)
{
    clt_continuation *out = c->out;
    CLT_SCOPED(clt_str) diff = {0};
    CLT_TRY(clt_config_diff(was, c->job->config, CLT_KEYS_RATE, &diff));
    out->rate_changed = diff.length > 0;
    out->rate_before = clt_config_float(c->was, "optimizer.learning_rate");
    out->rate_now = clt_config_float(c->job->config, "optimizer.learning_rate");
    out->decay_before = clt_config_float(c->was, "optimizer.weight_decay");
    out->decay_now = clt_config_float(c->job->config, "optimizer.weight_decay");
    return CLT_OK;
}

/* --- data --- */

static clt_status check_moved(const comparison *c, const clt_str *diff, const char *now)
{
    const clt_source *source = c->job->train_source;
    if (!c->has_facts || !c->facts.fingerprint[0])
        return refuse(c,
                      "the config has changed, and the checkpoint has no fingerprint of its training data "
                      "(an older cltrain saved it), so it is not known whether the data is the same; undo "
                      "that, or start a new run with --init",
                      diff);
    if (strcmp(c->facts.fingerprint, now) != 0)
        CLT_FAIL(
            CLT_EDATA,
            "resuming from '%s': the data at the new place is not what the run was trained on (%" PRId64
            " sample%s, %" PRId64 " bytes, fingerprint %s; there: %" PRId64 " sample%s, %" PRId64
            " bytes, fingerprint %s); give the place of the same data, or start a new run on other data with "
            "--init\n%s",
            c->saved->path, c->facts.samples, CLT_PLURAL(c->facts.samples), c->facts.bytes,
            c->facts.fingerprint, source->samples, CLT_PLURAL(source->samples), source->bytes, now,
            diff->text);
    c->out->data_moved = true;
    return CLT_OK;
}

static clt_status check_tokenizer(const comparison *c)
{
    const clt_tokenizer *tokenizer = c->job->train_source->tokenizer;
    if (!c->has_facts || !c->facts.tokenizer[0] || !tokenizer ||
        clt_tokenizer_hash(tokenizer) == c->facts.tokenizer_hash)
        return CLT_OK;
    CLT_FAIL(CLT_EDATA,
             "resuming from '%s': the tokenizer (%s) is not the one that the run was trained with, so tokens "
             "would mean something else; the run's own is %s",
             c->saved->path, clt_tokenizer_description(tokenizer),
             strcmp(c->facts.tokenizer, "bytes") == 0
                 ? "data.tokenizer=bytes"
                 : "the tokenizer.json of the checkpoint (data.tokenizer=…)");
}

/* Refuses a changed data.joined, which turns the same files into other tokens; called when the data
 * differs. */
static clt_status check_joined(const comparison *c)
{
    const char *key = "data.joined";
    bool was, is;
    if (!clt_config_part_has(clt_config_chosen(c->was, "data.type"), key) ||
        !clt_config_part_has(clt_config_chosen(c->job->config, "data.type"), key))
        return CLT_OK;
    was = clt_config_bool(c->was, key);
    is = clt_config_bool(c->job->config, key);
    if (was == is)
        return CLT_OK;
    CLT_FAIL(
        CLT_EDATA,
        "resuming from '%s': the run was trained with %s=%s, and with %s=%s its text becomes other tokens%s; "
        "give %s=%s",
        c->saved->path, key, was ? "true" : "false", key, is ? "true" : "false",
        was ? ", since the end-of-text token stands between files now, and older versions put none there"
            : "",
        key, was ? "true" : "false");
}

/* Returns data.scale of a config. If it is left to the data: 1, or for a standardised table 0, which differs
 * from any scale that can be given. */
static double given_scale(const comparison *c, const clt_config *config)
{
    double scale = clt_config_float(config, "data.scale");
    bool standardised = c->facts.table && clt_config_bool(c->was, "data.standardize");
    return scale != 0 || standardised ? scale : 1;
}

/* data.scale 0 leaves the scale to the data. For bytes the source and the saved facts have the scale; a
 * run of an older version was trained with 1. Other numbers are scaled when they are read, and their
 * source->scale is 1, so the keys are compared. */
static clt_status check_scale(const comparison *c)
{
    const clt_source *source = c->job->train_source;
    bool bytes = source->n_fields > 0 && source->fields[0].dtype == CLT_U8,
         bytes_then = c->has_facts ? c->facts.n_fields > 0 && c->facts.fields[0].dtype == CLT_U8
                                   : bytes && clt_config_float(c->was, "data.scale") == 0;
    char was[CLT_NUMBER_TEXT], is[CLT_NUMBER_TEXT];
    double now = bytes ? source->scale : given_scale(c, c->job->config);
    double then = !bytes_then ? given_scale(c, c->was) : c->has_facts ? c->facts.scale : source->scale;
    if (fabs(then - now) <= 1e-6 * fabs(now))
        return CLT_OK;
    clt_double_text(then, was);
    CLT_FAIL(CLT_ECONFIG,
             "resuming from '%s': the config has changed: the run was trained with data.scale=%s, and now it "
             "is %s; give data.scale=%s, or start a new run with --init",
             c->saved->path, was, clt_double_text(now, is), was);
}

/* True if the value of a key has changed on which the figure of checkpoint.best depends. */
static bool figure_differs(const clt_config *was, const clt_config *is)
{
    int best = clt_config_choice(is, "checkpoint.best");
    bool differs =
        clt_config_int(was, "train.eval_batches") != clt_config_int(is, "train.eval_batches") ||
        clt_config_float(was, "data.window_overlap") != clt_config_float(is, "data.window_overlap") ||
        strcmp(clt_config_string(was, "data.window_weights"), clt_config_string(is, "data.window_weights")) !=
            0;
    if (best == CLT_BEST_TOP_K)
        differs =
            differs || clt_config_int(was, "train.eval_top_k") != clt_config_int(is, "train.eval_top_k");
    if (best == CLT_BEST_F1 || best == CLT_BEST_DICE)
        differs = differs || clt_config_bool(was, "train.eval_background") !=
                                 clt_config_bool(is, "train.eval_background");
    return differs;
}

static clt_status check_data(const comparison *c, const char *was)
{
    char now[CLT_HASH64_TEXT], eval[CLT_HASH64_TEXT] = "";
    CLT_SCOPED(clt_str) diff = {0};
    CLT_TRY(check_scale(c));
    const clt_data_facts *facts = c->has_facts ? &c->facts : NULL;
    CLT_TRY(clt_data_paths_compare(facts, c->job->config, c->job->train_source, false, now));
    if (c->job->eval_source)
        CLT_TRY(clt_data_paths_compare(facts, c->job->config, c->job->eval_source, true, eval));
    memcpy(c->out->fingerprint, now, sizeof now);
    memcpy(c->out->eval_fingerprint, eval, sizeof eval);
    CLT_TRY(clt_config_diff(was, c->job->config, CLT_KEYS_DATA, &diff));
    bool other = c->has_facts && c->facts.fingerprint[0] && strcmp(c->facts.fingerprint, now) != 0;
    c->out->eval_changed = c->has_facts && c->facts.eval_fingerprint[0] && eval[0] &&
                           strcmp(c->facts.eval_fingerprint, eval) != 0;
    c->out->eval_other = c->out->eval_changed || figure_differs(c->was, c->job->config);
    if (other || c->out->eval_changed)
        CLT_TRY(check_joined(c));
    if (diff.length)
        CLT_TRY(check_moved(c, &diff, now));
    else
        c->out->data_changed = other;
    return check_tokenizer(c);
}

/* --- all of it --- */

static void comparison_free(comparison *c)
{
    if (c) {
        clt_config_destroy(c->was);
        clt_data_facts_free(&c->facts);
    }
    free(c);
}
CLT_SCOPED_POINTER(comparison, comparison_free)

static int64_t norm_samples(const clt_config *config, int64_t micro_batch, int64_t ranks)
{
    return clt_config_bool(config, "parallel.sync_batch_norm") ? micro_batch * ranks : micro_batch;
}

clt_status clt_continuation_check(const clt_checkpoint *saved, const clt_job *job, clt_continuation *out)
{
    CLT_FREED char *text = NULL, *path = NULL;
    CLT_SCOPED(comparison) *c = NULL;
    memset(out, 0, sizeof *out);
    CLT_TRY(clt_alloc(&c, 1, sizeof *c, "comparing configs"));
    *c = (comparison){.saved = saved, .job = job, .out = out};
    CLT_TRY(config_text(saved, &text, &path));
    if (text) {
        CLT_TRY(clt_config_check_fixed(text, job->config, saved->path));
        CLT_TRY(clt_fail_prefix(clt_config_parse(text, path, NULL, 0, &c->was), "resuming from '%s'",
                                saved->path));
    }
    out->micro_before = clt_checkpoint_int(saved, "micro_batch", 0);
    out->norm_before =
        norm_samples(c->was ? c->was : job->config, out->micro_before, clt_checkpoint_int(saved, "ranks", 1));
    out->norm_now = norm_samples(job->config, job->micro_batch, job->ranks);
    CLT_TRY(read_facts(c));
    if (!text || !job->train_source)
        return CLT_OK;
    CLT_TRY(check_length(c, text));
    CLT_TRY(check_rate(c, text));
    return check_data(c, text);
}

/* --- as text --- */

static void tell_longer(const clt_continuation *c, const clt_job *job, int64_t step, uint32_t update,
                        char *text, size_t size)
{
    static const char *const names[] = {CLT_SCHEDULE_TYPES(CLT_CHOICE_WORD)};
    double next = clt_schedule_rate(&job->schedule, update);
    char before[96] = "";
    if (update > 0)
        snprintf(before, sizeof before, "from %.4g at step %" PRId64 " to ",
                 clt_schedule_rate(&c->schedule_before, (int64_t)update - 1), step);
    snprintf(text, size,
             "the run was %" PRId64 " step%s long and is now %" PRId64
             "; learning rate: %s%.4g at step %" PRId64 " (schedule %s%s over %" PRId64 " step%s)",
             c->steps_before, CLT_PLURAL(c->steps_before), c->steps_now, before, next, step + 1,
             names[job->schedule.type],
             c->schedule_before.type == job->schedule.type ? "" : ", which is new,", job->schedule.horizon,
             CLT_PLURAL(job->schedule.horizon));
}

static void tell_rate(const clt_continuation *c, int64_t step, char *text, size_t size)
{
    char was[CLT_NUMBER_TEXT], is[CLT_NUMBER_TEXT];
    bool rate = c->rate_before != c->rate_now, decay = c->decay_before != c->decay_now;
    int n = 0;
    if (rate)
        n = snprintf(text, size, "learning rate: was %s, is %s from step %" PRId64 "%s",
                     clt_double_text(c->rate_before, was), clt_double_text(c->rate_now, is), step + 1,
                     decay ? "; " : "");
    if (decay && n >= 0 && (size_t)n < size)
        snprintf(text + n, size - (size_t)n, "weight decay: was %s, is %s from step %" PRId64,
                 clt_double_text(c->decay_before, was), clt_double_text(c->decay_now, is), step + 1);
}

static void tell_batch(const clt_continuation *c, const clt_job *job, char *text, size_t size)
{
    snprintf(text, size,
             "a step takes %" PRId64 " sample%s as before, now in micro-batches of %" PRId64
             ", before of %" PRId64 "; results are the same except for rounding",
             job->global_batch, CLT_PLURAL(job->global_batch), job->micro_batch, c->micro_before);
}

/* True if the model has norms that take statistics over a micro-batch. */
static bool has_batch_norm(const clt_job *job)
{
    for (size_t i = 0; i < job->model->n_nodes; i++)
        if (strcmp(job->model->nodes[i]->op->name, "batch_norm") == 0)
            return true;
    return false;
}

bool clt_continuation_line(const clt_continuation *c, const clt_job *job, int64_t step, uint32_t update,
                           int index, bool *warning, char *text, size_t size)
{
    bool micro = c->micro_before > 0 && c->micro_before != job->micro_batch;
    bool norms = c->norm_before > 0 && c->norm_before != c->norm_now && has_batch_norm(job);
    const bool there[] = {
        c->longer, c->rate_changed, micro && !norms, c->data_moved, c->data_changed, c->eval_changed, norms};
    const int lines = (int)(sizeof there / sizeof *there);
    int line = 0;
    for (; line < lines; line++)
        if (there[line] && index-- == 0)
            break;
    *warning = line >= 4;
    if (line == 0)
        tell_longer(c, job, step, update, text, size);
    else if (line == 1)
        tell_rate(c, step, text, size);
    else if (line == 2)
        tell_batch(c, job, text, size);
    else if (line == 3)
        snprintf(text, size, "the data's files are in another place; their content is the same");
    else if (line == 4)
        snprintf(text, size,
                 "the training data is not what it was when step %" PRId64
                 " was saved: the files have other content, so training continues, but with other results",
                 step);
    else if (line == 5)
        snprintf(text, size,
                 "the evaluation data is not what it was when step %" PRId64
                 " was saved: losses of evaluations before and after it cannot be compared",
                 step);
    else if (line == 6 && !micro)
        snprintf(text, size,
                 "batch_norm takes its statistics over %" PRId64 " samples, before over %" PRId64
                 " (parallel.sync_batch_norm, number of ranks): training continues, but with other results",
                 c->norm_now, c->norm_before);
    else if (line == 6)
        snprintf(text, size,
                 "a step takes %" PRId64 " sample%s as before, now in micro-batches of %" PRId64
                 ", before of %" PRId64
                 ", over which batch_norm takes its statistics: training continues, but "
                 "with other results",
                 job->global_batch, CLT_PLURAL(job->global_batch), job->micro_batch, c->micro_before);
    return line < lines;
}
