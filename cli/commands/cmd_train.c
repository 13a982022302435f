/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain train CONFIG, or --resume RUN: chooses the run folder, runs the trainer, shows its progress on the
 * console and prints the result and the next commands. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands/next_commands.h"
#include "cli/screen/console.h"
#include "cli/screen/table.h"
#include "cli/screen/terminal.h"
#include "cli/screen/train_args.h"
#include "engine/base/text.h"
#include "engine/checkpoint/saved_run.h"
#include "engine/files/fileio.h"
#include "engine/train/loop/trainer.h"

clt_status train_default_folder(const char *config, char *base, size_t size)
{
    const char *slash = strrchr(config, '/');
    const char *name = slash ? slash + 1 : config;
    const char *dot = strrchr(name, '.');
    int length = dot && dot > name ? (int)(dot - name) : (int)strlen(name);
    if ((size_t)snprintf(base, size, "runs/%.*s", length, name) >= size)
        CLT_FAIL(CLT_EUSAGE, "the config's name is too long to name a run folder after it; give --out DIR");
    return CLT_OK;
}

/* Rank 0 searches for an unused folder name and sends it to the others. */
static clt_status choose_folder(const cmd_context *context, const char *config, char *folder, size_t size)
{
    CLT_FREED char *chosen = NULL;
    char base[512];
    memset(folder, 0, size);
    if (cmd_prints(context)) {
        CLT_TRY(train_default_folder(config, base, sizeof base));
        CLT_TRY(cmd_free_folder(base, &chosen));
        snprintf(folder, size, "%s", chosen);
    }
    return context->comm ? comm_broadcast(context->comm, folder, (int64_t)size, 0) : CLT_OK;
}

static void print_result(const clt_run_result *r, const char *folder, bool dry_run)
{
    char time[32], language[96], path[2048];
    CLT_SCOPED(clt_str) done = {0}, lines = {0};
    if (dry_run) {
        terminal_say(
            "dry run: config and plan are good; data was opened, not read (cltrain data verify reads it); "
            "nothing was trained\n");
        return;
    }
    clt_str_printf(&done, "done: %lld step%s in %s", (long long)r->steps, CLT_PLURAL(r->steps),
                   console_time(r->seconds, time, sizeof time));
    if (r->skipped > 0)
        clt_str_printf(&done, ", %lld update%s skipped", (long long)r->skipped, CLT_PLURAL(r->skipped));
    if (isfinite(r->last_loss))
        clt_str_printf(&done, ", last loss %.4f", r->last_loss);
    if (r->final_eval.samples > 0) {
        clt_str_printf(&done, ", eval loss %.4f%s", r->final_eval.loss,
                       clt_language_text(&r->final_eval, ", ", language, sizeof language));
        if (isfinite(r->final_eval.accuracy))
            clt_str_printf(&done, ", accuracy %.2f%%", 100 * r->final_eval.accuracy);
    }
    if (clt_str_check(&done) == CLT_OK)
        text_wrap(done.text, 0, 2, terminal_columns(), &lines);
    table_print(&lines);
    if (r->checkpoint[0])
        terminal_say("checkpoint: %s\n", text_clean(r->checkpoint, path, sizeof path));
    if (folder)
        terminal_say("run folder: %s\n", text_clean(folder, path, sizeof path));
}

typedef struct train_view {
    console console;
    atomic_llong at_step;
} train_view;

static void on_ready(void *context)
{
    (void)context;
    cmd_signals_ready();
}

static void on_stop(void *context, int number)
{
    train_view *v = context;
    console_stopping(&v->console, number, atomic_load(&v->at_step));
}

static clt_status train(cmd_context *context, const train_args *a, const clt_config *config,
                        const char *folder)
{
    train_view v = {.at_step = 0};
    clt_run_result result = {0};
    uint32_t caps;
    CLT_TRY(cmd_caps(a->caps, &caps));
    console_init(&v.console, context);
    clt_run_options options = {.config = config,
                               .config_is_saved = a->config_is_saved,
                               .out_dir = folder,
                               .init = a->config_is_saved ? NULL : clt_start_weights(config),
                               .init_skip = a->init_skip ? a->init_skip : "",
                               .adapter = a->adapter,
                               .resume = a->resume,
                               .device_spec = a->device,
                               .caps_mask = caps,
                               .max_steps = a->max_steps,
                               .dry_run = a->dry_run,
                               .profile = a->profile || a->trace_from > 0,
                               .trace_from = a->trace_from,
                               .comm = context->comm,
                               .stop = context->stop,
                               .at_step = &v.at_step,
                               .observer = console_observer(&v.console)};
    options.observer.ready = on_ready;
    if (cmd_prints(context))
        cmd_signals_listen(on_stop, &v);
    clt_status status = clt_train(&options, &result);
    cmd_signals_listen(NULL, NULL);
    console_close(&v.console);
    if (status == CLT_OK && cmd_prints(context))
        print_result(&result, folder, a->dry_run);
    const next_run next = {
        .folder = folder,
        .device = a->device,
        .caps = a->caps,
        .result = &result,
        .ended = status == CLT_OK && (a->max_steps == 0 || result.steps < a->max_steps),
        .epochs = clt_config_int(config, "train.steps") > 0 ? 0 : clt_config_float(config, "train.epochs")};
    CLT_KEEP_ERROR(); /* keeps the message of an interrupted run */
    if ((status == CLT_OK || status == CLT_EINTERRUPTED) && cmd_prints(context) && !a->dry_run)
        print_next_commands(context, &next);
    return status;
}

/* The folder of the resumed run: --out, or the run folder itself if its newest checkpoint is resumed.
 * Resuming an older checkpoint in the same folder would destroy the newer ones. */
static clt_status choose_saved_folder(const clt_saved_run *saved, const train_args *a, const char **folder)
{
    CLT_SCOPED(clt_checkpoint) *newest = NULL;
    *folder = a->out ? a->out : saved->folder;
    if (a->out)
        return CLT_OK;
    if (!saved->folder[0])
        CLT_FAIL(
            CLT_EUSAGE,
            "cltrain train: '%s' is not in a run folder; give a folder for the resumed run with --out DIR",
            saved->path);
    CLT_TRY(clt_checkpoint_peek(saved->folder, &newest));
    if (newest->step != saved->step)
        CLT_FAIL(CLT_EUSAGE,
                 "cltrain train: '%s' is not the newest checkpoint of '%s', which is step_%lld; to resume "
                 "from step %lld give a new run folder with --out DIR",
                 saved->path, saved->folder, (long long)newest->step, (long long)saved->step);
    return CLT_OK;
}

/* Returns an error that names the process if the run in the folder has not ended. */
static clt_status check_ended(const char *run)
{
    CLT_FREED char *path = NULL;
    CLT_SCOPED(clt_lock) *lock = NULL;
    CLT_TRY(clt_path_join(run, "lock", &path));
    clt_status status = clt_file_exists(path) ? clt_lock_acquire(path, &lock) : CLT_OK;
    return clt_fail_prefix(status, "the run in '%s' is still training", run);
}

/* Returns an error if the run has no checkpoint, because it cannot be resumed. */
static clt_status check_saved_anything(const char *run)
{
    CLT_FREED char *config = NULL;
    CLT_TRY(clt_path_join(run, "config.resolved.json", &config));
    if (!clt_file_exists(config) || clt_checkpoint_exists(run))
        return CLT_OK;
    CLT_TRY(check_ended(run));
    CLT_FAIL(CLT_ECHECKPOINT,
             "'%s' holds a run that ended before its first checkpoint, so there is nothing to resume from; "
             "begin again with 'cltrain train %s/config.resolved.json --out %s --resume auto'",
             run, run, run);
}

static clt_status refuse_init(const char *what)
{
    CLT_FAIL(CLT_EUSAGE,
             "cltrain train: --resume RUN resumes with the run's own weights; %s not go together with it",
             what);
}

/* --resume RUN without a config: uses the config of the run. */
static clt_status train_saved(cmd_context *context, const train_args *a, const args_result *r)
{
    CLT_SCOPED(clt_saved_run) *saved = NULL;
    train_args own = *a;
    const char *folder;
    if (!a->resume || strcmp(a->resume, "none") == 0)
        CLT_FAIL(CLT_EUSAGE,
                 "cltrain train: missing argument: usage: cltrain train CONFIG [section.key=value ...], or "
                 "cltrain train --resume RUN to resume a run; see 'cltrain train --help'");
    if (strcmp(a->resume, "auto") == 0)
        CLT_FAIL(CLT_EUSAGE,
                 "cltrain train: --resume auto looks into the run folder of a CONFIG, and none is given; "
                 "--resume RUN names the run folder and needs no CONFIG");
    if (a->init)
        return refuse_init("--init FILE does");
    if (a->init_skip || a->adapter)
        return refuse_init(a->adapter ? "--adapter does" : "--init-skip does");
    CLT_TRY(check_saved_anything(a->resume));
    clt_saved_run_options options = {
        .overrides = r->overrides, .n_overrides = r->n_overrides, .training = true, .newest_config = true};
    CLT_TRY(clt_saved_run_open(a->resume, &options, &saved));
    if (strcmp(clt_config_origin(saved->config, "model.init"), "override") == 0)
        return refuse_init("model.init does");
    cmd_use_log_level(saved->config);
    CLT_TRY(choose_saved_folder(saved, a, &folder));
    CLT_TRY(clt_saved_run_need_data(saved, false, "resuming"));
    if (clt_source_has_eval(saved->config))
        CLT_TRY(clt_saved_run_need_data(saved, true, "resuming"));
    own.resume = a->out || !saved->folder[0] ? a->resume : saved->folder;
    own.config_is_saved = true;
    return train(context, &own, saved->config, folder);
}

clt_start train_start(const train_args *a)
{
    return (clt_start){.init = a->init,
                       .init_skip = a->init_skip,
                       .adapter = a->adapter,
                       .training = true,
                       .may_be_gone = a->resume && strcmp(a->resume, "none") != 0};
}

clt_status train_check_args(const train_args *a)
{
    if (a->init_skip && a->init_skip[0] == '\0')
        CLT_FAIL(CLT_EUSAGE, "--init-skip: the pattern is empty; it names the parameters that --init PATH "
                             "leaves out, such as 'fc.*'");
    return CLT_OK;
}

clt_status cmd_train(cmd_context *context, int argc, char **argv)
{
    train_args a = {0};
    const args_option options[] = {TRAIN_OPTIONS(a), ARGS_END};
    const args_usage usage =
        ARGS_USAGE("train", "CONFIG [section.key=value ...]", 0, 1, options,
                   "Trains the model of a config; without CONFIG, --resume RUN resumes a run as it is, and "
                   "train.steps=MORE makes it longer. SIGTERM, SIGINT, SIGUSR2, SIGHUP, a notice of the "
                   "cloud (cloud.provider), cost.budget or a file STOP in the run folder: finishes the step, "
                   "saves, exits with 75.");
    args_result r;
    char folder[1024];
    CLT_SCOPED(clt_config) *config = NULL;
    ARGS_PARSE(&usage, argc, argv, &r);
    CLT_TRY(train_check_args(&a));
    if (!context->comm) /* with several ranks, no rank may end alone */
        cmd_signals_starting();
    if (r.n_operands == 0)
        return train_saved(context, &a, &r);
    if (clt_is_directory(r.operands[0]) && clt_checkpoint_exists(r.operands[0]))
        CLT_FAIL(
            CLT_EUSAGE,
            "cltrain train: '%s' is a folder with a trained run; 'cltrain train --resume %s' resumes it, "
            "a new run needs a CONFIG file",
            r.operands[0], r.operands[0]);
    const clt_start start = train_start(&a);
    CLT_TRY(cmd_load_config(&r, &start, &config));
    bool automatic = a.resume && strcmp(a.resume, "auto") == 0;
    if (!a.out && automatic) /* --resume auto must find the same folder every time, so no number is added */
        CLT_TRY(train_default_folder(r.operands[0], folder, sizeof folder));
    else if (!a.out && !a.dry_run)
        CLT_TRY(choose_folder(context, r.operands[0], folder, sizeof folder));
    /* a dry run writes nothing, and only checks a folder that is named */
    return train(context, &a, config, a.out ? a.out : a.dry_run && !automatic ? NULL : folder);
}
