/* SPDX-License-Identifier: Apache-2.0
 *
 * Replays steps of a recorded run in a temporary folder, and compares losses and gradient norms step by
 * step, and the weights if the run has a checkpoint of the last step. */
#include "cli/verify/verify_replay.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/screen/console.h"
#include "cli/screen/terminal.h"
#include "cli/verify/step_differences.h"
#include "engine/checkpoint/saved_run.h"
#include "engine/checkpoint/tensor_compare.h"
#include "engine/files/fileio.h"
#include "engine/json/json.h"
#include "engine/report/read/compare.h"
#include "engine/train/loop/trainer.h"

enum { STEPS = 20, NEAR_STEPS = 200 };

typedef struct replay {
    const verify_replay_args *args;
    clt_saved_run *saved; /* the checkpoint whose config is used */
    char from[1024];      /* the checkpoint given as an operand, from which a replay of later steps starts */
    clt_run_record *recorded, *again;
    char *folder;        /* folder of the replay; NULL: there is none yet */
    int64_t first, last; /* the steps after `first`, up to `last` */
    int64_t compared, same;
    step_differences differences;
    /* weights: */
    bool weighed;
    int tensors, same_tensors;
    char name[256]; /* name of the tensor with the largest relative difference */
    clt_tensor_difference weights;
} replay;

static void free_replay(replay *r)
{
    clt_saved_run_close(r->saved);
    clt_run_record_free(r->recorded);
    clt_run_record_free(r->again);
    cmd_remove_temporary(r->folder);
}
CLT_SCOPED_VALUE(replay, free_replay)

/* --- what is replayed --- */

static bool is_16_bits(const clt_run_record *record)
{
    CLT_SCOPED(clt_str) type = {0};
    const clt_json_doc *start = clt_run_start(record);
    if (start)
        clt_run_member(start, "precision", &type);
    return type.text && (strcmp(type.text, "f16") == 0 || strcmp(type.text, "bf16") == 0);
}

/* A run that began with weights of a file can be replayed only from a checkpoint, which holds them. */
static clt_status check_beginning(const replay *r)
{
    const clt_json *init = clt_json_get(clt_json_root(r->saved->checkpoint->state), "init");
    if (r->first == 0 && init)
        CLT_FAIL(CLT_EUSAGE,
                 "cltrain verify: '%s' began with the weights of a file (--init); name a checkpoint of it, "
                 "step_N, to replay from there",
                 r->args->run);
    return CLT_OK;
}

/* The session (from a start or resume to the next one) that recorded the first step of the replay; NULL:
 * there is none. A resume may have changed the config, so a replay ends with its session. */
static const clt_run_session *find_session(const replay *r)
{
    for (size_t i = r->recorded->session_count; i-- > 0;) {
        const clt_run_session *s = &r->recorded->sessions[i];
        if (s->first_step >= 0 && s->first_step <= r->first + 1 && s->last_step > r->first)
            return s;
    }
    return NULL;
}

/* The first checkpoint after the beginning of the replay, up to the end of the session: its path, which the
 * list owns, or NULL. */
static const char *next_checkpoint(const replay *r, const clt_file_list *steps, const clt_run_session *s,
                                   int64_t *step)
{
    for (size_t i = 0; i < steps->count; i++) {
        *step = strtoll(strrchr(steps->name[i], '_') + 1, NULL, 10);
        if (*step > r->first)
            return *step <= s->last_step ? steps->name[i] : NULL;
    }
    return NULL;
}

/* Chooses the last step, and opens the config with which the session trained: the next checkpoint has it. */
static clt_status choose_steps(replay *r)
{
    const clt_saved_run_options options = {.training = true};
    const clt_run_session *s = find_session(r);
    CLT_SCOPED(clt_file_list) steps = {0};
    int64_t at = 0;
    if (!s)
        CLT_FAIL(CLT_EUSAGE,
                 "cltrain verify: '%s' has no recorded steps after step %" PRId64 " to compare with",
                 r->args->run, r->first);
    CLT_TRY(clt_checkpoint_list(r->saved->folder, &steps));
    const char *next = next_checkpoint(r, &steps, s, &at);
    bool is_near = next && at <= r->first + NEAR_STEPS,
         is_newest = s == &r->recorded->sessions[r->recorded->session_count - 1];
    r->last = r->args->steps > 0 ? r->first + r->args->steps : is_near ? at : r->first + STEPS;
    r->last = r->last > s->last_step ? s->last_step : r->last;
    if (!next && !is_newest)
        CLT_FAIL(CLT_EUSAGE,
                 "cltrain verify: '%s' was resumed after step %" PRId64
                 ", and no checkpoint records the config with which it was trained before; name a later "
                 "checkpoint, step_N, to replay from there",
                 r->args->run, s->last_step);
    if (!next)
        return CLT_OK;
    clt_saved_run_close(r->saved);
    r->saved = NULL;
    return clt_saved_run_open(next, &options, &r->saved);
}

static clt_status open_run(replay *r)
{
    const clt_saved_run_options options = {.training = true};
    const char *run = r->args->run;
    CLT_SCOPED(clt_file_list) steps = {0};
    CLT_TRY(clt_saved_run_open(run, &options, &r->saved));
    if (!r->saved->folder[0])
        CLT_FAIL(CLT_EUSAGE,
                 "cltrain verify: '%s' is not in a run folder, which has the record to compare with", run);
    CLT_TRY(clt_checkpoint_list(run, &steps)); /* empty if the operand is itself a checkpoint */
    r->first = steps.count > 0 ? 0 : r->saved->step;
    snprintf(r->from, sizeof r->from, "%s", r->saved->path);
    CLT_TRY(clt_run_record_load(r->saved->folder, &r->recorded));
    r->differences = step_differences_make(!is_16_bits(r->recorded), r->args->tolerance, r->first);
    CLT_TRY(check_beginning(r));
    CLT_TRY(choose_steps(r));
    return clt_saved_run_need_data(r->saved, false, "replaying");
}

/* --- the replay --- */

static clt_status train_again(replay *r, const cmd_context *context)
{
    console c;
    clt_run_result result = {0};
    CLT_FREED char *path = NULL;
    clt_run_options options = {.config = r->saved->config,
                               .resume = r->first > 0 ? r->from : NULL,
                               .init_skip = "",
                               .device_spec = r->args->device,
                               .max_steps = r->last,
                               .comm = context->comm,
                               .stop = context->stop};
    CLT_TRY(cmd_caps(r->args->caps, &options.caps_mask));
    CLT_TRY(cmd_temporary_folder("replay", &r->folder));
    CLT_TRY(clt_path_join(r->folder, "run", &path));
    options.out_dir = path;
    options.observer = console_begin_result(&c, context);
    clt_status status = clt_train(&options, &result);
    console_close(&c);
    CLT_TRY(clt_fail_prefix(status, "replaying '%s'", r->args->run));
    return clt_run_record_load(path, &r->again);
}

/* --- comparing --- */

static void compare_step(void *context, const clt_metrics_line *a, const clt_metrics_line *b)
{
    replay *r = context;
    if (a->step <= r->first || a->step > r->last)
        return;
    const double x[] = {a->value[CLT_METRIC_LOSS], a->value[CLT_METRIC_GRAD_NORM]};
    const double y[] = {b->value[CLT_METRIC_LOSS], b->value[CLT_METRIC_GRAD_NORM]};
    r->compared++;
    r->same += x[STEP_LOSS] == y[STEP_LOSS];
    step_differences_add(&r->differences, a->step, x, y);
}

static clt_status compare_tensors(replay *r, const clt_safetensors *a, const clt_safetensors *b)
{
    for (int i = 0; i < clt_safetensors_count(a); i++) {
        const clt_named_tensor *x = clt_safetensors_at(a, i), *y = clt_safetensors_find(b, x->name);
        if (!y || !clt_shape_equal(&x->shape, &y->shape))
            CLT_FAIL(
                CLT_ECHECKPOINT,
                "cltrain verify: tensor '%s' of '%s' is missing in the replay, or has another shape there",
                x->name, r->args->run);
        clt_tensor_difference d = clt_tensor_compare(x, y);
        r->tensors++;
        r->same_tensors += d.same_bits;
        if (!d.same_bits && d.relative >= r->weights.relative) {
            r->weights = d;
            snprintf(r->name, sizeof r->name, "%s", x->name);
        }
    }
    return CLT_OK;
}

/* Compares the weights after the last step, if the recorded run has them. */
static clt_status compare_weights(replay *r)
{
    char path[1200];
    CLT_SCOPED(clt_checkpoint) *a = NULL, *b = NULL;
    int n = snprintf(path, sizeof path, "%s/checkpoints/step_%" PRId64, r->saved->folder, r->last);
    if (n < 0 || (size_t)n >= sizeof path || !clt_checkpoint_named(path))
        return CLT_OK;
    CLT_TRY(clt_checkpoint_open(path, &a));
    CLT_TRY(clt_checkpoint_open(r->again->folder, &b));
    CLT_TRY(compare_tensors(r, a->model, b->model));
    r->weighed = true;
    return CLT_OK;
}

/* --- report --- */

static void say_number(const replay *r, const char *what, int number, int later)
{
    const step_difference *w = &r->differences.largest[number][later];
    int64_t early = step_differences_early(&r->differences);
    int64_t from = later ? early + 1 : r->first + 1, to = later || r->last < early ? r->last : early;
    double limit = step_differences_limit(&r->differences, number, later);
    if (from > to)
        return;
    terminal_say("%-14s steps %" PRId64 " to %" PRId64 ": ", what, from, to);
    if (w->step < 0)
        terminal_say("equal\n");
    else
        terminal_say("differ by %.2g at most (%.9g, here %.9g, at step %" PRId64 "); %.2g %s\n", w->relative,
                     w->a, w->b, w->step, limit, w->relative > limit ? "is EXCEEDED" : "is allowed");
}

static void say(const replay *r)
{
    CLT_SCOPED(clt_str) there = {0}, here = {0};
    const clt_json_doc *starts[2] = {clt_run_start(r->recorded), clt_run_start(r->again)};
    clt_str *names[2] = {&there, &here};
    for (int i = 0; i < 2; i++) {
        if (starts[i])
            clt_run_member(starts[i], "device", names[i]);
        clt_str_append(names[i], ", driver ");
        if (starts[i])
            clt_run_member(starts[i], "driver", names[i]);
    }
    terminal_say("recorded on %s\nreplayed on %s\n", there.text ? there.text : "?",
                 here.text ? here.text : "?");
    for (int later = 0; later < 2; later++)
        say_number(r, "loss", STEP_LOSS, later);
    for (int later = 0; later < 2; later++)
        say_number(r, "gradient norm", STEP_NORM, later);
    if (!r->weighed)
        terminal_say("weights        not compared: the run has no checkpoint of step %" PRId64 "\n", r->last);
    else if (r->same_tensors == r->tensors)
        terminal_say("weights        after step %" PRId64 ": all %d tensors have the same bits\n", r->last,
                     r->tensors);
    else
        terminal_say("weights        after step %" PRId64
                     ": %d of %d tensors have the same bits; '%s' differs by "
                     "%.2g of its largest value, %.4g ULP, cosine %.9f\n",
                     r->last, r->same_tensors, r->tensors, r->name, r->weights.relative, r->weights.ulp,
                     r->weights.cosine);
}

static void json_number(clt_json_writer *w, const char *key, const step_differences *d, int number)
{
    clt_jw_karray(w, key);
    for (int later = 0; later < 2; later++) {
        clt_jw_object(w);
        clt_jw_kstring(w, "steps", later ? "later" : "first ten");
        clt_jw_kdouble(w, "relative", d->largest[number][later].relative);
        clt_jw_kdouble(w, "allowed", step_differences_limit(d, number, later));
        clt_jw_kint(w, "step", d->largest[number][later].step);
        clt_jw_end_object(w);
    }
    clt_jw_end_array(w);
}

static clt_status write_json(const replay *r)
{
    CLT_SCOPED(clt_str) out = {0};
    clt_json_writer w = clt_json_writer_make(&out, 2);
    if (!r->args->json)
        return CLT_OK;
    clt_jw_object(&w);
    clt_jw_kstring(&w, "run", r->saved->folder);
    clt_jw_kint(&w, "from_step", r->first);
    clt_jw_kint(&w, "to_step", r->last);
    clt_jw_kint(&w, "steps_compared", r->compared);
    clt_jw_kint(&w, "steps_with_equal_loss", r->same);
    clt_jw_kbool(&w, "within_tolerance", !step_differences_apart(&r->differences));
    json_number(&w, "loss", &r->differences, STEP_LOSS);
    json_number(&w, "gradient_norm", &r->differences, STEP_NORM);
    if (r->weighed) {
        clt_jw_kobject(&w, "weights");
        clt_jw_kint(&w, "tensors", r->tensors);
        clt_jw_kint(&w, "same_bits", r->same_tensors);
        clt_jw_kstring(&w, "worst", r->name);
        clt_jw_kdouble(&w, "relative", r->weights.relative);
        clt_jw_kdouble(&w, "ulp", r->weights.ulp);
        clt_jw_kdouble(&w, "cosine", r->same_tensors == r->tensors ? 1 : r->weights.cosine);
        clt_jw_end_object(&w);
    }
    clt_jw_end_object(&w);
    return cmd_write_line(r->args->json, &out);
}

clt_status verify_replay(const cmd_context *context, const verify_replay_args *args)
{
    CLT_SCOPED(replay) r = {.args = args};
    CLT_TRY(cmd_can_write(args->json));
    CLT_TRY(open_run(&r));
    terminal_say("replaying steps %" PRId64 " to %" PRId64 " of %s\n", r.first + 1, r.last, r.saved->folder);
    CLT_TRY(train_again(&r, context));
    CLT_TRY(clt_compare_steps(r.recorded, r.again, compare_step, &r));
    if (r.compared == 0)
        CLT_FAIL(CLT_EDATA, "cltrain verify: '%s' records none of the steps %" PRId64 " to %" PRId64,
                 args->run, r.first + 1, r.last);
    CLT_TRY(compare_weights(&r));
    say(&r);
    CLT_TRY(write_json(&r));
    if (step_differences_apart(&r.differences))
        CLT_FAIL(CLT_ECHECK, "verify: this device does not train '%s' as it was trained", args->run);
    return CLT_OK;
}
