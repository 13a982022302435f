/* SPDX-License-Identifier: Apache-2.0
 *
 * The trainer's loop: steps, evaluations, checkpoints, interruption, and the policy on non-finite steps.
 * Results of a step arrive one or more steps late, by the reporter. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/span.h"
#include "engine/base/text.h"
#include "engine/base/thread.h"
#include "engine/files/fileio.h"
#include "engine/report/write/rundir_config.h"
#include "engine/train/eval/eval_metrics.h"
#include "engine/train/inspect/startup.h"
#include "engine/train/job/tuned.h"
#include "engine/train/loop/trainer.h"
#include "engine/train/loop/trainer_loop.h"
#include "engine/train/saved/known_table.h"

static void tell_spike(const clt_loop *l, const clt_step_metrics *m)
{
    char text[224];
    snprintf(
        text, sizeof text,
        "step %lld is a spike: loss %.3g and gradient norm %.3g standard deviations above the mean of recent "
        "steps; %s",
        (long long)m->step, m->loss_z, m->grad_norm_z,
        l->run->job->update.spike.action == CLT_SPIKE_SKIP ? "the update was skipped"
                                                           : "train.on_spike is warn");
    clt_tell_warning(l, text);
}

/* Steps after which the gradients are first looked at. The gradients of an adapter's A are zero in the first
 * step, and in the second step, too, if the schedule begins with a rate of 0. */
#define FIRST_LOOK 3
#define WARM_UP 2      /* first steps, which do not count in a rank's speed */
#define EARLY_STEPS 20 /* the speeds of the ranks are first reported after this many steps */

/* Handles the result of one finished step. */
static clt_status digest(clt_loop *l, const clt_step_result *r)
{
    clt_step_metrics m;
    char text[160];
    CLT_TRY(clt_sync_take(l->run->sync, r->step, &l->heard[r->step % CLT_HEARD_STEPS]));
    l->finished = r->step + 1;
    if (l->failed)
        return CLT_OK;
    clt_tell_fill(l, r, &m);
    l->result->steps = m.step;
    l->result->updates = m.update;
    l->result->skipped = m.skipped;
    l->result->last_loss = m.loss;
    clt_deadline_step(&l->deadline, m.step, m.step_ms / 1e3);
    CLT_TRY(clt_tell_step(l, &m));
    clt_gauges_look(l, &m);
    if (m.nonfinite && l->reports) {
        snprintf(text, sizeof text,
                 "step %lld: loss or gradients are not finite; the update was skipped (%u in a row)",
                 (long long)m.step, r->state.skipped_row);
        clt_tell_warning(l, text);
    }
    if (m.spike && l->reports)
        tell_spike(l, &m);
    if (r->step - l->run->first_step >= WARM_UP) {
        l->own_ms += m.step_ms - m.comm_exposed_ms;
        l->own_steps++;
    }
    const bool updated = r->state.skip == ST_SKIP_NONE && r->state.grad_norm > 0;
    l->updated_twice = updated && l->updated;
    l->updated = updated;
    l->step_scale = l->loss_scale;
    l->failed = (int64_t)r->state.skipped_row >= l->max_nonfinite;
    if (l->failed)
        l->bad = *r;
    else
        l->loss_scale = r->state.loss_scale;
    return CLT_OK;
}

/* Handles all results that have arrived; `all`: first waits for every step to finish. */
static clt_status drain(clt_loop *l, bool all)
{
    clt_step_result result;
    bool have = true;
    CLT_TRY(all ? clt_sync_settle(l->run->sync) : CLT_OK); /* the caller may read parameters */
    while (have) {
        CLT_TRY(clt_reporter_take(l->run->reporter, all, &result, &have));
        if (have)
            CLT_TRY(digest(l, &result));
    }
    return CLT_OK;
}

/* Handles results until `steps` steps have finished; waits for them. */
static clt_status await(clt_loop *l, int64_t steps)
{
    clt_step_result result;
    bool have = true;
    while (l->finished < steps && have) {
        CLT_TRY(clt_reporter_take(l->run->reporter, true, &result, &have));
        if (have)
            CLT_TRY(digest(l, &result));
    }
    return CLT_OK;
}

/* Keeps the host from queueing more than LEAD_SECONDS of work, so that a stop takes effect soon. */
#define LINE_SECONDS 0.5 /* least time between two step lines, unless train.log_every is given */
#define LEAD_SECONDS 0.5
static clt_status hold_back(clt_loop *l)
{
    double seconds = l->step_seconds > 0 ? l->step_seconds : LEAD_SECONDS / 2;
    int allowed = (int)(LEAD_SECONDS / seconds);
    int64_t more = clt_reporter_in_flight(l->run->reporter) - (allowed < 2 ? 2 : allowed) + 1;
    return more > 0 ? await(l, l->finished + more) : CLT_OK;
}

static clt_status save(clt_loop *l, int64_t step, clt_save_reason reason)
{
    double begin = clt_now();
    clt_watch_break(l->watch, false);
    CLT_TRY(clt_keeper_save(&l->keeper, step, reason));
    l->last_done = l->saved_at = clt_now();
    clt_meter_saving(l, begin, l->last_done);
    l->saved_step = step;
    l->save_asked = false;
    clt_spans_add(l->run->train->spans, CLT_TRACK_HOST, "save", step, begin, l->last_done);
    return CLT_OK;
}

static bool due(int64_t every, int64_t step)
{
    return every > 0 && step % every == 0;
}

/* *save_it: this evaluation is the best so far, and the config asks to save the best. */
static clt_status evaluate(clt_loop *l, int64_t step, bool *save_it)
{
    clt_eval_metrics m;
    bool best;
    double begin = clt_now();
    *save_it = false;
    clt_watch_break(l->watch, true);
    l->keeper.state.owes = true; /* if it fails by its data, the step that is saved then says so */
    CLT_TRY(clt_run_evaluate(l->run, step, clt_config_int(l->options->config, "train.eval_batches"), &m));
    l->keeper.state.owes = false;
    if (m.samples == 0)
        return CLT_OK;
    l->evaluated = step;
    clt_keeper_note(&l->keeper, &m, due(clt_config_int(l->options->config, "train.eval_every"), step), &best);
    l->result->best_eval_loss = l->keeper.state.best_eval_loss;
    l->result->final_eval = m;
    CLT_TRY(clt_tell_eval(l, &m));
    l->last_done = clt_now(); /* evaluation is not part of the next step's time */
    clt_meter_note(&l->meter.before.longest.evaluation_s, l->last_done - begin);
    clt_spans_add(l->run->train->spans, CLT_TRACK_HOST, "evaluate", step, begin, l->last_done);
    *save_it = best && clt_config_choice(l->options->config, "checkpoint.best") != CLT_BEST_NONE;
    l->early = clt_keeper_ends(&l->keeper);
    return CLT_OK;
}

/* Does the evaluation that was due when an earlier session reached its budget, or that failed by its data. */
static clt_status evaluate_owed(clt_loop *l)
{
    bool best;
    if (!l->keeper.state.owes)
        return CLT_OK;
    CLT_TRY(evaluate(l, l->run->first_step, &best));
    return best ? save(l, l->run->first_step, CLT_SAVE_BEST) : CLT_OK;
}

/* Evaluates after step `done`, unless the budget is reached or the evaluation would reach it: then the run
 * owes the evaluation. */
static clt_status evaluate_in_budget(clt_loop *l, int64_t done, clt_decision *d, bool *best)
{
    if (!d->stop)
        CLT_TRY(clt_meter_stops(l, done, true, &d->stop));
    l->keeper.state.owes = d->stop && l->stop == CLT_STOP_BUDGET;
    return l->keeper.state.owes ? CLT_OK : evaluate(l, done, best);
}

/* Evaluates and saves after step `done` if the config or the clock asks for it. */
static clt_status between_steps(clt_loop *l, int64_t done, clt_decision *d)
{
    const clt_config *c = l->options->config;
    bool eval = due(clt_config_int(c, "train.eval_every"), done) && done < l->last_step, best = false,
         keep = due(clt_config_int(c, "checkpoint.every"), done) && done < l->last_step,
         save_it = keep || (d->save && done < l->last_step && !d->stop), look = clt_histograms_due(l, done),
         write = clt_sample_due(l, done), dead = clt_gradients_due(l, done);
    bool meets = eval || save_it || look || write || dead || d->fail;
    if (meets) {
        clt_deadline_pause(&l->deadline, done);
        clt_say_phase(l->options->comm, "evaluating or saving after it", done);
        CLT_TRY(drain(l, true));
        clt_rundir_poll(l->dir);
    }
    /* only here: after other steps, ranks may learn of a failure at different times */
    d->fail = d->fail || (l->failed && (meets || l->run->ranks.ranks == 1));
    if (look && !d->fail)
        CLT_TRY(clt_tell_histograms(l, done));
    if (dead && !d->fail)
        CLT_TRY(clt_tell_gradients(l, done));
    if (eval && !d->fail)
        CLT_TRY(evaluate_in_budget(l, done, d, &best));
    if (write && !d->fail && !d->stop)
        clt_tell_sample(l, done);
    if ((save_it || best) && !d->fail)
        CLT_TRY(save(l, done, keep ? CLT_SAVE_INTERVAL : best ? CLT_SAVE_BEST : CLT_SAVE_TIME));
    return CLT_OK;
}

/* Publishes the number of the step after which the run ends if a stop is requested before `step` begins. */
static void say_step(const clt_loop *l, int64_t step)
{
    int64_t ends = step + clt_decision_lag(l);
    if (l->options->at_step)
        atomic_store(l->options->at_step, ends < l->last_step ? ends : l->last_step);
}

static clt_status run_steps(clt_loop *l, bool *stopped)
{
    clt_decision d = {0};
    l->start = l->last_done = l->saved_at = clt_now();
    CLT_TRY(evaluate_owed(l));
    say_step(l, l->run->first_step + 1);
    for (int64_t step = l->run->first_step; step < l->last_step && !d.stop && !d.fail && !l->early; step++) {
        int64_t done = step + 1;
        CLT_TRY(clt_reporter_room(l->run->reporter));
        CLT_TRY(drain(l, false));
        CLT_TRY(hold_back(l));
        if (l->failed && l->run->ranks.ranks == 1)
            break;
        CLT_TRY(clt_keeper_poll(&l->keeper, CLT_SAVER_LOOK));
        clt_watch_begin(l->watch, step);
        clt_say_phase(l->options->comm, "forward and backward", done);
        clt_send_requests(l);
        CLT_TRY(clt_step(l->run, step));
        l->enqueued = done;
        clt_watch_end(l->watch, step);
        clt_say_phase(l->options->comm, "waiting for results of earlier steps", done);
        CLT_TRY(await(l, clt_decision_needs(l, done)));
        clt_look_for_notices(l);
        clt_hooks_look(l);
        clt_upload_look(l);
        d = clt_decide(l, step);
        if (l->near_budget && !d.stop && done < l->last_step) {
            CLT_TRY(await(l, done));
            CLT_TRY(clt_meter_stops(l, done, false, &d.stop));
        }
        if (d.meet) {
            l->met_step = done;
            CLT_TRY(clt_keeper_poll(&l->keeper, CLT_SAVER_MEET));
        }
        if (d.words) {
            l->words_shared_step = done;
            CLT_TRY(clt_share_notice(l));
        }
        if (done == l->last_step)
            d.stop = false; /* the run is complete anyway */
        else if (!d.stop)
            say_step(l, done + 1);
        if (done - l->run->first_step == EARLY_STEPS && !d.stop && !d.fail)
            CLT_TRY(clt_tell_ranks(l, CLT_RANKS_EARLY));
        CLT_TRY(between_steps(l, done, &d));
    }
    *stopped = d.stop;
    CLT_TRY(drain(l, true));
    if (!l->failed)
        return CLT_OK;
    if (clt_keeper_poll(&l->keeper, CLT_SAVER_WAIT) != CLT_OK) /* the run ends for another reason */
        clt_error_clear();
    return clt_too_many_nonfinite(l);
}

/* Handles a stop that came before the first step: there is nothing to save. */
static clt_status stopped_before(clt_loop *l)
{
    const char *why = clt_stop_reason(l->stop);
    if (l->stop == CLT_STOP_BUDGET)
        return clt_meter_refuse(l);
    CLT_TRY(clt_tell_end(l, true));
    l->discard = true;
    if (l->run->first_step > 0)
        CLT_FAIL(CLT_EINTERRUPTED,
                 "stopped before the first step of this start (%s); the run is still at step %lld", why,
                 (long long)l->run->first_step);
    CLT_FAIL(CLT_EINTERRUPTED, "stopped before the first step (%s); nothing was lost", why);
}

static clt_status prepare(clt_loop *l)
{
    clt_run *run = l->run;
    int depth = clt_reporter_depth(run->job->train);
    l->last_step = clt_steps_now(l->options, run->job);
    if (l->last_step < run->first_step) /* a resumed run that has made more steps than it is given now */
        l->last_step = run->first_step;
    clt_feed_options feed = clt_run_feed_options(run, run->first_step, l->last_step);
    clt_state_block state;
    l->finished = l->enqueued = run->first_step;
    l->look_at = run->first_step == 0 ? FIRST_LOOK : 0;
    clt_deadline_open(&l->deadline, run->ranks.ranks > 1 ? l->options->comm : NULL, l->options->config,
                      run->first_step);
    clt_watch_options watch = {.profile = l->options->profile,
                               .trace = l->dir != NULL,
                               .trace_from = l->options->trace_from - 1,
                               .first_step = run->first_step,
                               .last_step = l->last_step,
                               .depth = depth,
                               .workers = feed.workers};
    CLT_TRY(clt_watch_create(run, &watch, &l->watch));
    CLT_TRY(clt_reporter_create(run->train, depth, &run->reporter));
    CLT_TRY(clt_store_get_state(run->store, &state));
    l->loss_scale = state.loss_scale;
    l->spiked = state.spiked;
    return clt_feed_create(&feed, &run->feed);
}

/* Loads the checkpoint that the run resumes from, if there is one. */
static clt_status resume(clt_loop *l)
{
    if (!l->run->from.path[0])
        return CLT_OK;
    clt_run_progress(l->run, "loading the checkpoint", 0, 0);
    CLT_TRY(clt_run_resume(l->run, &l->keeper.state));
    clt_run_progress(l->run, "loading the checkpoint", 0, -1);
    l->result->steps = l->run->first_step;
    snprintf(l->result->checkpoint, sizeof l->result->checkpoint, "%s", l->run->from.path);
    return CLT_OK;
}

/* Removes metrics of steps after the checkpoint. */
static clt_status tell_resumed(clt_loop *l)
{
    char text[1200];
    CLT_TRY(clt_meter_open(l));
    if (l->dir && l->run->from.name[0]) {
        CLT_TRY(clt_rundir_truncate(l->dir, l->run->first_step));
        CLT_TRY(clt_resolved_config_update(clt_rundir_path(l->dir), l->options->config));
    }
    clt_runlog_attach(l->log, l->dir);
    snprintf(text, sizeof text, "resumed from %s at step %lld", l->run->from.path,
             (long long)l->run->first_step);
    if (l->reports && l->run->from.path[0])
        clt_tell(l, text);
    return clt_tell_continuation(l);
}

/* Opens the run folder, once nothing else can fail any more. Rank 0 tells the other ranks whether the run
 * has one, because all ranks save. */
static clt_status open_folder(clt_loop *l)
{
    const clt_run_options *o = l->options;
    int64_t saves;
    /* the folder takes its own lock, and fails if another run has taken it in between */
    clt_lock_release(CLT_TAKE(l->lock));
    if (o->out_dir && l->reports)
        CLT_TRY(clt_rundir_open(o->out_dir, o->config, clt_continues(o), &l->dir));
    saves = l->dir != NULL;
    if (l->run->ranks.ranks > 1)
        CLT_TRY(comm_broadcast(o->comm, &saves, sizeof saves, 0));
    return saves ? clt_keeper_open(&l->keeper, l->run, l->dir ? clt_rundir_checkpoints(l->dir) : NULL)
                 : CLT_OK;
}

static clt_status finish(clt_loop *l, bool stopped)
{
    clt_deadline_pause(&l->deadline, l->last_step);
    clt_say_phase(l->options->comm, "evaluation and checkpoint at the end", 0);
    l->result->seconds = clt_now() - l->start;
    l->result->device_bytes = ocl_device_peak_bytes(l->run->device);
    const clt_config *c = l->options->config;
    bool final = clt_config_bool(c, "checkpoint.final"), best = false;
    bool regular = due(clt_config_int(c, "checkpoint.every"), l->result->steps);
    bool early = l->early && !stopped && l->result->steps < l->last_step;
    if (!stopped && l->evaluated != l->result->steps)
        CLT_TRY(evaluate(l, l->result->steps, &best));
    l->result->early = early;
    if (early)
        CLT_TRY(clt_tell_early(l));
    clt_save_reason reason = stopped          ? CLT_SAVE_STOP
                             : final || early ? CLT_SAVE_FINAL
                             : regular        ? CLT_SAVE_INTERVAL
                                              : CLT_SAVE_BEST;
    double saving = clt_now();
    clt_run_progress(l->run, "saving", 0, 0);
    CLT_TRY(final || regular || stopped || best || early
                ? clt_keeper_finish(&l->keeper, l->result->steps, reason)
                : clt_keeper_poll(&l->keeper, CLT_SAVER_WAIT));
    clt_run_progress(l->run, "saving", 0, -1);
    clt_meter_saving(l, saving, clt_now());
    CLT_TRY(clt_tell_ranks(l, CLT_RANKS_END));
    clt_gauges_finish(l);
    clt_gauges_tell(l);
    clt_tell_profile(l);
    CLT_TRY(clt_tell_advice(l));
    if (stopped && l->stop == CLT_STOP_BUDGET && l->reports)
        clt_tell(l, CLT_REASON_BUDGET "; a larger one lets the run continue");
    CLT_TRY(clt_tell_end(l, stopped));
    if (stopped)
        CLT_FAIL(CLT_EINTERRUPTED, "stopped after step %lld of %lld%s%s", (long long)l->result->steps,
                 (long long)l->last_step, l->dir ? "; saved in " : "", l->dir ? l->result->checkpoint : "");
    return CLT_OK;
}

/* If data or storage has failed, but not the device: saves what the run has learned since the last save,
 * then lets it end. Returns the failure. With several ranks nothing is saved, because the other ranks wait
 * for something else. */
static clt_status save_before_end(clt_loop *l, clt_status failure)
{
    bool alone = l->run->ranks.ranks == 1, new = l->enqueued > l->run->first_step;
    bool gave_up = l->keeper.failures >= CLT_KEEPER_FAILURES;
    if ((failure != CLT_EDATA && failure != CLT_ESTORAGE) || !alone || !new || gave_up || !l->keeper.saver)
        return failure;
    CLT_KEEP_ERROR();
    if (l->run->micro && clt_graph_buffers(l->run->job->train->graph) > 0)
        clt_tell_warning(l, "running statistics, such as the ones of batch norm, include a part of the step "
                            "that was not finished");
    clt_status saved = drain(l, true);
    const double begin = clt_now();
    if (saved == CLT_OK)
        saved = clt_keeper_finish(&l->keeper, l->enqueued, CLT_SAVE_ERROR);
    clt_meter_saving(l, begin, clt_now());
    if (saved != CLT_OK)
        clt_tell_warning(l, clt_error_text());
    return failure;
}

static clt_status train(clt_loop *l)
{
    bool stopped;
    l->keeper = (clt_keeper){.run = l->run,
                             .state = CLT_SAVED_STATE_NEW,
                             .result = l->result,
                             .saved = clt_tell_saved,
                             .warn = clt_tell_keeper_warning,
                             .context = l};
    int best_by = clt_config_choice(l->options->config, "checkpoint.best");
    l->keeper.state.best = best_by == CLT_BEST_NONE ? CLT_BEST_LOSS : best_by;
    l->evaluated = -1;
    CLT_TRY(clt_run_take_init(l->run));
    CLT_TRY(resume(l));
    if (l->run->ranks.ranks > 1) /* create no folder while another rank may still fail to start */
        CLT_TRY(comm_barrier(l->options->comm));
    if (l->options->observer.ready)
        l->options->observer.ready(l->options->observer.context);
    CLT_TRY(open_folder(l));
    CLT_TRY(tell_resumed(l));
    CLT_TRY(clt_best_begin(l));
    CLT_TRY(prepare(l));
    clt_sampler_open(l);
    l->meter.startup_s = clt_now() - l->meter.began;
    CLT_TRY(clt_tell_start(l));
    clt_startup_over(l);
    if (!l->run->job->eval_source && l->reports)
        clt_tell_warning(l, "there is no evaluation data, so that overfitting will not show; data.eval_path "
                            "names some (text also takes data.split)");
    CLT_TRY(clt_tell_ranks(l, CLT_RANKS_START));
    const char *complete = clt_complete(l->options, l->run->job, l->run->first_step, &l->keeper.state);
    if (complete) {
        CLT_TRY(clt_upload_begin(l));
        l->result->early = l->run->first_step < l->last_step;
        if (l->reports && !l->run->told_complete)
            clt_tell(l, complete);
        else
            clt_rundir_log(l->dir, "%s", complete);
        return clt_tell_end(l, false);
    }
    bool stop;
    if (l->notices)
        clt_rundir_log(l->dir, "watching for notices of %s", clt_notices_providers(l->notices));
    CLT_TRY(clt_stop_before(l, &stop));
    /* a run that ends before its first step is removed here, so nothing of it is uploaded */
    if (!stop || l->run->first_step > 0)
        CLT_TRY(clt_upload_begin(l));
    if (stop)
        return stopped_before(l);
    CLT_TRY(clt_gauges_open(l));
    clt_status status = run_steps(l, &stopped);
    if (status == CLT_OK)
        status = finish(l, stopped);
    return status == CLT_OK ? status : save_before_end(l, status);
}

/* Opens the log. A run folder that is in use is refused here, before anything is built or measured. In the
 * folder of a resumed run, the remains of a killed save are repaired, because this process holds the
 * folder's lock. */
static clt_status open_log(clt_loop *l)
{
    const clt_run_options *o = l->options;
    CLT_TRY(clt_check_folder(o, &l->lock));
    if (l->lock) {
        CLT_FREED char *checkpoints = NULL;
        CLT_TRY(clt_path_join(o->out_dir, "checkpoints", &checkpoints));
        clt_checkpoint_tidy(checkpoints);
    }
    return o->out_dir && clt_first_rank(o) ? clt_runlog_begin(o->config, &l->log) : CLT_OK;
}

static clt_status run_all(clt_loop *l)
{
    const clt_run_options *o = l->options;
    CLT_TRY(clt_meter_check(o));
    CLT_TRY(clt_gauges_check(o));
    CLT_TRY(clt_watch_notices(l)); /* building kernels may take longer than the time that a notice leaves */
    CLT_TRY(open_log(l));
    CLT_TRY(clt_startup_begin(l));
    CLT_TRY(clt_uploader_open(l));
    CLT_TRY(clt_run_create_training(o, &l->found, &l->run));
    l->reports = l->run->ranks.rank == 0;
    l->pace.every = clt_config_int(o->config, "train.log_every");
    l->pace.apart = clt_config_is_set(o->config, "train.log_every") ? 0 : LINE_SECONDS;
    l->max_nonfinite = clt_config_int(o->config, "train.max_nonfinite");
    l->result->build_seconds = l->run->build_seconds;
    l->result->parameters = (uint64_t)clt_graph_param_elements(l->run->job->train->graph);
    clt_status status = train(l);
    if (status != CLT_OK && status != CLT_EINTERRUPTED)
        clt_tell_failed(l, clt_gauges_explain(l, status));
    status = clt_upload_finish(l, status);
    clt_hooks_settle(l, status);
    return status;
}

static void close_all(clt_loop *l)
{
    CLT_KEEP_ERROR();
    clt_notices_close(l->notices);
    clt_startup_leave(l);
    clt_gauges_close(l);
    clt_sampler_close(l);
    clt_keeper_close(&l->keeper); /* before the uploader and the run, which its saver uses */
    clt_uploader_close(CLT_TAKE(l->uploader));
    clt_checkpoint_close(l->found);
    clt_watch_destroy(l->watch);
    clt_run_destroy(l->run);
    clt_runlog_end(l->log);
    if (l->discard)
        clt_rundir_discard(l->dir);
    else
        clt_rundir_close(l->dir);
    clt_lock_release(l->lock);
    clt_str_free(&l->meter.tags);
}

clt_status clt_train(const clt_run_options *options, clt_run_result *result)
{
    clt_log_set_first(clt_first_rank(options));
    clt_log_forget();
    memset(result, 0, sizeof *result);
    result->last_loss = result->best_eval_loss = NAN;
    CLT_SCOPED(clt_hooks) *hooks = NULL;
    CLT_TRY(clt_hooks_open(options, &hooks));
    if (options->dry_run)
        return clt_dry_run(options, result);
    clt_loop l = {
        .reports = true, .options = options, .result = result, .meter = {.began = clt_now()}, .hooks = hooks};
    clt_status status = run_all(&l);
    close_all(&l);
    l = (clt_loop){.reports = true, .options = options, .result = result, .hooks = hooks};
    clt_hook_exit(&l, status);
    return status;
}
