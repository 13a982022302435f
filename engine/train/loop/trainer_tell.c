/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports about a training run: to the observer, to log.txt, and as events in metrics.jsonl. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/hash.h"
#include "engine/base/log.h"
#include "engine/base/text.h"
#include "engine/base/thread.h"
#include "engine/files/fileio.h"
#include "engine/report/write/lines.h"
#include "engine/train/eval/eval_metrics.h"
#include "engine/train/inspect/startup.h"
#include "engine/train/loop/trainer_loop.h"

#define COUNT(fields) (sizeof(fields) / sizeof(fields)[0])

void clt_tell(const clt_loop *l, const char *text)
{
    if (l->options->observer.message)
        l->options->observer.message(l->options->observer.context, text);
    clt_rundir_log(l->dir, "%s", text);
}

/* Writes an event. An error is ignored here: metrics that cannot be written end the run at the next step. */
static void note(const clt_loop *l, const char *event, int64_t step, const clt_event_field *fields,
                 size_t count)
{
    if (clt_rundir_event(l->dir, event, step, fields, count) != CLT_OK)
        clt_error_clear();
}

void clt_tell_warning(const clt_loop *l, const char *text)
{
    char line[CLT_ERROR_TEXT_SIZE + 128];
    if (!l->ended) {
        CLT_WARN("%s", text); /* the run's log copies it to log.txt and as an event to metrics.jsonl */
        return;
    }
    /* no event: other commands look for the end in the last line of metrics.jsonl */
    snprintf(line, sizeof line, "warning: %s", text);
    clt_tell(l, line);
}

void clt_tell_keeper_warning(void *context, const char *text)
{
    const clt_loop *l = context;
    if (l->reports)
        clt_tell_warning(l, text);
}

void clt_tell_saved(void *context, const clt_save_result *r, clt_save_reason reason)
{
    clt_loop *l = context;
    const clt_observer *o = &l->options->observer;
    if (!l->reports)
        return;
    clt_meter_saving(l, r->begun, r->read);
    clt_meter_note(&l->meter.before.longest.save_s, r->seconds);
    const clt_cost now = clt_meter_at(l, clt_now());
    clt_event_field cost[CLT_METER_FIELDS];
    const int paid = clt_meter_fields(l, &now, false, cost);
    const clt_event_field fields[] = {
        CLT_FIELD_TEXT("path", r->path), CLT_FIELD_NUMBER("seconds", r->seconds),
        CLT_FIELD_TEXT("reason", clt_save_reason_name(reason)), CLT_FIELD_OBJECT("cost", cost, (size_t)paid)};
    if (o->saved)
        o->saved(o->context, r->step, r->path, r->seconds);
    clt_rundir_log(l->dir, "saved step %lld to %s (%.1f s, %s)", (long long)r->step, r->path, r->seconds,
                   clt_save_reason_name(reason));
    note(l, "saved", r->step, fields, COUNT(fields));
    clt_upload_saved(l, r);
    clt_hook_saved(l, r, clt_save_reason_name(reason));
}

void clt_tell_uploaded(const clt_loop *l, int64_t step, double seconds, uint64_t bytes)
{
    const clt_event_field fields[] = {CLT_FIELD_NUMBER("seconds", seconds), CLT_FIELD_INT("bytes", bytes)};
    clt_rundir_log(l->dir, "uploaded step %lld to %s (%.1f s)", (long long)step,
                   clt_config_string(l->options->config, "checkpoint.upload"), seconds);
    if (!l->ended)
        note(l, "uploaded", step, fields, COUNT(fields));
}

void clt_tell_fill(clt_loop *l, const clt_step_result *r, clt_step_metrics *m)
{
    const clt_run *run = l->run;
    const clt_graph *graph = run->job->train->graph;
    double correct = 0, targets = 0;
    memset(m, 0, sizeof *m);
    m->step = r->step + 1;
    m->update = r->state.update;
    m->skipped = r->state.skipped;
    m->nonfinite = r->state.skip == ST_SKIP_NONFINITE;
    bool judged = run->job->update.spike.action != CLT_SPIKE_OFF;
    m->loss_z = judged ? (double)r->state.loss_z : NAN;
    m->grad_norm_z = judged ? (double)r->state.norm_z : NAN;
    m->spike = r->state.spiked > l->spiked;
    l->spiked = r->state.spiked;
    m->grad_norm = (double)r->state.grad_norm;
    m->lr = (double)r->state.lr;
    m->loss_scale = (double)r->state.loss_scale;
    m->n_losses = graph->n_losses;
    for (int i = 0; i < graph->n_losses; i++) {
        double weight = (double)graph->losses[i].weight, share = (double)r->loss[i][0];
        m->loss += share;
        m->loss_name[i] = graph->losses[i].name;
        m->loss_value[i] = weight > 0 ? share / weight : NAN;
        if (graph->nodes[graph->losses[i].node]->op->flags & CLT_OP_CORRECT) {
            correct += (double)r->loss[i][3];
            targets += (double)r->loss[i][2];
        }
    }
    m->accuracy = targets > 0 ? correct / targets : NAN;
    m->step_ms = (r->done_at - l->last_done) * 1e3;
    l->last_done = r->done_at;
    m->time = clt_rundir_time(l->dir, r->done_at);
    l->step_seconds = m->step_ms * 1e-3;
    m->samples_per_s = m->step_ms > 0 ? (double)run->job->global_batch / m->step_ms * 1e3 : NAN;
    m->tokens_per_s = clt_graph_tokens(graph) > 1 ? m->samples_per_s * (double)clt_graph_tokens(graph) : NAN;
    double waited = clt_feed_wait_seconds(run->feed);
    m->data_ms = (waited - l->waited) * 1e3;
    l->waited = waited;
    const clt_sync_result *sums = &l->heard[r->step % CLT_HEARD_STEPS];
    m->comm_ms = sums->inside * 1e3;
    m->comm_exposed_ms = sums->waited * 1e3; /* replaced by the watch's figure if it has one */
    m->comm_bytes = clt_sync_bytes(run->sync);
    clt_watch_digest(l->watch, r->step, m);
    /* the end of a step is when its callback came, which can be late on a busy host */
    m->comm_exposed_ms = fmin(m->comm_exposed_ms, fmax(m->step_ms, 0));
    m->device_bytes = ocl_device_peak_bytes(run->device);
    m->steps_total = l->last_step;
    if (l->meter.on) {
        clt_cost cost = clt_meter_at(l, r->done_at);
        m->cost = cost.sums.total;
        m->goodput = clt_cost_goodput(&cost.sums);
    }
    clt_gauges_fill(l, m);
    m->stays = clt_line_stays(&l->pace, m->step, m->step >= l->last_step, r->done_at);
    m->eta_s =
        (double)(l->last_step - m->step) * (r->done_at - l->start) / (double)(m->step - run->first_step);
}

clt_status clt_tell_step(clt_loop *l, const clt_step_metrics *m)
{
    char line[CLT_LINE_SIZE];
    const clt_observer *o = &l->options->observer;
    if (l->dir)
        CLT_TRY(clt_rundir_step(l->dir, m));
    if (l->reports && o->step)
        o->step(o->context, m);
    if (l->dir && m->stays)
        clt_rundir_log_at(l->dir, m->time, clt_step_line(m, 0, false, line));
    return CLT_OK;
}

static clt_status write_text(const clt_loop *l, const char *name, const clt_str *text)
{
    CLT_FREED char *path = NULL;
    CLT_TRY(clt_str_check(text));
    CLT_TRY(clt_path_join(clt_rundir_path(l->dir), name, &path));
    return clt_own_file_write(path, text->text, text->length);
}

/* Warns if a file could not be written. Only reports read the file, so this never ends a training. */
static void tell_missing(const clt_loop *l, const char *name, clt_status status)
{
    char text[CLT_ERROR_TEXT_SIZE + 64];
    if (status == CLT_OK)
        return;
    snprintf(text, sizeof text, "%s could not be written, training continues: %s", name, clt_error_text());
    clt_error_clear();
    clt_tell_warning(l, text);
}

/* Writes classes.json: the counts by class of the newest evaluation. */
static void write_classes(clt_loop *l, const clt_eval_metrics *m)
{
    CLT_SCOPED(clt_str) text = {0};
    clt_json_writer w = clt_json_writer_make(&text, 2);
    clt_jw_object(&w);
    clt_jw_kint(&w, "step", m->step);
    clt_jw_kint(&w, "samples", m->samples);
    clt_class_counts_write(clt_eval_classes(l->run), &w);
    clt_jw_end_object(&w);
    clt_str_append(&text, "\n");
    clt_status status = write_text(l, CLT_CLASSES_FILE, &text);
    if (l->classes_missing) /* already reported */
        clt_error_clear();
    else
        tell_missing(l, CLT_CLASSES_FILE, status);
    l->classes_missing = status != CLT_OK;
}

clt_status clt_tell_eval(clt_loop *l, const clt_eval_metrics *m)
{
    char line[CLT_LINE_SIZE];
    const clt_observer *o = &l->options->observer;
    if (l->dir)
        CLT_TRY(clt_rundir_eval(l->dir, m));
    if (l->reports && o->eval)
        o->eval(o->context, m);
    if (l->dir)
        clt_rundir_log(l->dir, "%s", clt_eval_line(m, line));
    if (l->dir && clt_eval_classes(l->run))
        write_classes(l, m);
    return CLT_OK;
}

clt_status clt_tell_early(const clt_loop *l)
{
    static const char *const words[] = {CLT_BESTS(CLT_CHOICE_WORD)};
    const clt_saved_state *s = &l->keeper.state;
    char text[320], best[32];
    const clt_event_field fields[] = {
        CLT_FIELD_TEXT("by", words[s->best]), CLT_FIELD_INT("evaluations", s->stop_evals),
        CLT_FIELD_NUMBER("best_value", s->best_value), CLT_FIELD_INT("best_step", s->best_step)};
    const char *figure = clt_eval_figure_name(s->best);
    char found[96];
    if (s->best_step < 0)
        snprintf(found, sizeof found, "no %s was finite", figure);
    else
        snprintf(found, sizeof found, "the best %s so far is %s, of step %lld", figure,
                 clt_value_text(s->best_value, 4, best, sizeof best), (long long)s->best_step);
    snprintf(text, sizeof text,
             "early end after step %lld of %lld: %lld evaluation%s in a row were no better; %s",
             (long long)l->result->steps, (long long)l->last_step, (long long)s->stop_evals,
             CLT_PLURAL(s->stop_evals), found);
    if (l->reports)
        clt_tell(l, text);
    return clt_rundir_event(l->dir, "early_end", l->result->steps, fields, COUNT(fields));
}

static void show_table(const clt_loop *l)
{
    clt_table_row rows[CLT_STARTUP_ROWS];
    int count = clt_startup_rows(l->run, l->dir ? clt_rundir_path(l->dir) : NULL, rows);
    if (l->meter.on) {
        snprintf(rows[count].label, sizeof rows[count].label, "cost");
        clt_meter_row(l, rows[count++].value, sizeof rows->value);
    }
    for (int i = 0; i < count; i++)
        clt_rundir_log(l->dir, "%-16s %s", rows[i].label, rows[i].value);
    if (l->reports && l->options->observer.start)
        l->options->observer.start(l->options->observer.context, rows, count);
}

static clt_status start_event(const clt_loop *l)
{
    const clt_run *run = l->run;
    const clt_job *job = run->job;
    const ocl_device_desc *d = ocl_device_describe(run->device);
    const char *from = run->from.path[0] ? run->from.path : NULL;
    char hash[CLT_HASH64_TEXT];
    const clt_cost now = clt_meter_at(l, clt_now());
    clt_event_field cost[CLT_METER_FIELDS];
    const int paid = clt_meter_fields(l, &now, true, cost);
    /* the energy of steps that are computed again was removed with their lines */
    const clt_event_field energy[] = {CLT_FIELD_NUMBER("energy_j", l->gauges.energy_before)};
    const clt_meter *m = &l->meter;
    const clt_event_field cut[] = {CLT_FIELD_INT("count", m->starts_cut),
                                   CLT_FIELD_NUMBER("seconds", m->cut_seconds)};
    const clt_event_field init[] = {CLT_FIELD_TEXT("file", run->taken.file),
                                    CLT_FIELD_INT("tensors", run->taken.tensors),
                                    CLT_FIELD_INT("new_parameters", run->taken.kept),
                                    CLT_FIELD_TEXT("hash", clt_hash64_text(run->taken.hash, hash))};
    const clt_event_field fields[] = {
        CLT_FIELD_TEXT("version", CLT_VERSION),
        CLT_FIELD_TEXT("host", run->ranks.host),
        CLT_FIELD_TEXT("device", d->name),
        CLT_FIELD_TEXT("spec", d->spec),
        CLT_FIELD_TEXT("platform", d->platform),
        CLT_FIELD_TEXT("driver", d->driver),
        CLT_FIELD_TEXT("precision", clt_dtype_name(job->storage)),
        CLT_FIELD_TEXT("model", clt_config_string(l->options->config, "model.type")),
        CLT_FIELD_INT("parameters", clt_graph_param_elements(job->train->graph)),
        CLT_FIELD_INT("ranks", run->ranks.ranks),
        CLT_FIELD_TEXT("allreduce", run->ranks.ranks > 1 ? comm_chosen_algorithm(l->options->comm) : NULL),
        CLT_FIELD_INT("global_batch", job->global_batch),
        CLT_FIELD_INT("micro_batch", job->micro_batch),
        CLT_FIELD_NUMBER("peak_lr", job->schedule.peak),
        CLT_FIELD_NUMBER("lr_factor", clt_job_rate_factor(job->config, job->global_batch)),
        CLT_FIELD_INT("steps_total", l->last_step),
        CLT_FIELD_NUMBER("startup_s", m->startup_s),
        CLT_FIELD_OBJECT("starts_cut_short", cut, m->starts_cut > 0 ? COUNT(cut) : 0),
        CLT_FIELD_INT("memory_bytes", clt_plan_memory(job->train, job->eval).total),
        CLT_FIELD_TEXT("resumed_from", from),
        CLT_FIELD_OBJECT("init", init, run->taken.file[0] ? COUNT(init) : 0),
        CLT_FIELD_OBJECT("monitor", energy, l->gauges.energy_before > 0 ? 1 : 0),
        CLT_FIELD_OBJECT("cost", cost, (size_t)paid),
    };
    return clt_rundir_event(l->dir, "start", run->first_step, fields, COUNT(fields));
}

clt_status clt_tell_continuation(const clt_loop *l)
{
    const clt_run *run = l->run;
    clt_state_block state;
    char text[600];
    bool warning;
    CLT_TRY(clt_store_get_state(run->store, &state));
    for (int i = 0; l->reports && clt_continuation_line(&run->continuation, run->job, run->first_step,
                                                        state.update, i, &warning, text, sizeof text);
         i++) {
        if (warning)
            clt_tell_warning(l, text);
        else
            clt_tell(l, text);
    }
    const clt_event_field fields[] = {CLT_FIELD_INT("steps_before", run->continuation.steps_before),
                                      CLT_FIELD_INT("steps_total", run->continuation.steps_now)};
    if (run->continuation.longer)
        note(l, "extended", run->first_step, fields, COUNT(fields));
    const clt_continuation *c = &run->continuation;
    const clt_event_field rates[] = {CLT_FIELD_NUMBER("learning_rate_before", c->rate_before),
                                     CLT_FIELD_NUMBER("learning_rate", c->rate_now),
                                     CLT_FIELD_NUMBER("weight_decay_before", c->decay_before),
                                     CLT_FIELD_NUMBER("weight_decay", c->decay_now)};
    if (c->rate_changed)
        note(l, "rate", run->first_step, rates, COUNT(rates));
    return CLT_OK;
}

clt_status clt_tell_start(const clt_loop *l)
{
    show_table(l);
    return start_event(l);
}

/* Three lines, for the console and for the top of profile.txt. */
static clt_status tell_summary(const clt_loop *l, const clt_profile *profile, clt_str *text)
{
    char lines[CLT_SUMMARY_LINES][CLT_SUMMARY_SIZE], advice[512];
    clt_watch_advice(l->watch, NAN, advice, sizeof advice);
    CLT_TRY(clt_profile_summary(profile, advice, lines));
    for (int i = 0; i < CLT_SUMMARY_LINES; i++) {
        clt_tell(l, lines[i]);
        clt_str_printf(text, "%s\n", lines[i]);
    }
    clt_str_append(text, "\n");
    return CLT_OK;
}

static clt_status write_profile(const clt_loop *l)
{
    CLT_SCOPED(clt_str) text = {0}, json = {0}, trace = {0};
    char line[512], window[96] = "";
    int64_t first, last;
    clt_watch_measure_limits(l->watch);
    const clt_profile *profile = clt_watch_profile(l->watch);
    clt_json_writer w = clt_json_writer_make(&json, 2);
    CLT_TRY(tell_summary(l, profile, &text));
    CLT_TRY(clt_profile_text(profile, &text));
    CLT_TRY(write_text(l, "profile.txt", &text));
    CLT_TRY(clt_profile_json(profile, &w));
    CLT_TRY(write_text(l, "profile.json", &json));
    if (clt_watch_trace_window(l->watch, &first, &last)) {
        CLT_TRY(clt_watch_trace(l->watch, &trace));
        CLT_TRY(write_text(l, "trace.json", &trace));
        snprintf(window, sizeof window, ", trace.json (steps %lld to %lld)", (long long)first + 1,
                 (long long)last + 1);
    } else {
        snprintf(window, sizeof window, " (no trace: the run ended before step %lld)",
                 (long long)l->options->trace_from);
    }
    snprintf(line, sizeof line, "profile: profile.txt, profile.json%s in %.300s", window,
             clt_rundir_path(l->dir));
    clt_tell(l, line);
    if (trace.length) {
        snprintf(line, sizeof line, "look at it: open %.300s/trace.json at ui.perfetto.dev",
                 clt_rundir_path(l->dir));
        clt_tell(l, line);
    }
    return CLT_OK;
}

void clt_tell_profile(const clt_loop *l)
{
    if (l->options->profile && l->dir && l->result->steps > l->run->first_step)
        tell_missing(l, "the profile", write_profile(l));
}

clt_status clt_tell_advice(const clt_loop *l)
{
    char line[512];
    const clt_event_field fields[] = {CLT_FIELD_TEXT("text", line)};
    clt_watch_advice(l->watch, clt_gauges_utilization(l), line, sizeof line);
    if (!line[0] || !l->reports)
        return CLT_OK;
    /* a profile's summary already ends with the advice, and a run of several sessions shows it only once */
    if (!l->dir || (!l->options->profile && !clt_rundir_advised(l->dir)))
        clt_tell(l, line);
    return clt_rundir_event(l->dir, "advice", l->result->steps, fields, COUNT(fields));
}

const char *clt_stop_reason(int64_t stop)
{
    switch (stop) {
    case SIGTERM:
        return "SIGTERM";
    case SIGINT:
        return "SIGINT";
    case SIGUSR2:
        return "SIGUSR2";
    case SIGHUP:
        return "SIGHUP";
    case CLT_STOP_FILE:
        return CLT_REASON_STOP_FILE;
    case CLT_STOP_BUDGET:
        return CLT_REASON_BUDGET;
    case CLT_STOP_NOTICE:
        return CLT_REASON_NOTICE;
    default:
        return CLT_REASON_PROGRAM;
    }
}

clt_status clt_tell_end(clt_loop *l, bool stopped)
{
    clt_upload_settle(l);
    const clt_cost now = clt_meter_at(l, clt_now());
    clt_event_field cost[CLT_METER_FIELDS];
    clt_event_field seen[CLT_GAUGES_FIELDS];
    const int paid = clt_meter_fields(l, &now, false, cost), known = clt_gauges_fields(l, seen);
    const clt_event_field end[] = {CLT_FIELD_NUMBER("seconds", l->result->seconds),
                                   CLT_FIELD_OBJECT("cost", cost, (size_t)paid),
                                   CLT_FIELD_OBJECT("monitor", seen, (size_t)known)},
                          stop[] = {CLT_FIELD_TEXT("reason", clt_stop_reason(l->stop)),
                                    CLT_FIELD_OBJECT("cost", cost, (size_t)paid),
                                    CLT_FIELD_OBJECT("monitor", seen, (size_t)known)};
    char line[512];
    if (paid) {
        clt_meter_line(l, &now, line, sizeof line);
        clt_tell(l, line);
    }
    if (stopped && l->stop == CLT_STOP_NOTICE)
        clt_end_by_notice(l);
    l->ended = true;
    if (!l->dir)
        return CLT_OK;
    if (stopped)
        clt_rundir_log(l->dir, "stopped after step %lld of %lld (%s)", (long long)l->result->steps,
                       (long long)l->last_step, clt_stop_reason(l->stop));
    else
        clt_rundir_log(l->dir, "the end, after %.1f s of training", l->result->seconds);
    CLT_TRY(clt_rundir_event(l->dir, stopped ? "stopped" : "end", l->result->steps, stopped ? stop : end,
                             COUNT(end)));
    return clt_rundir_flush(l->dir);
}

void clt_tell_failed(clt_loop *l, clt_status status)
{
    clt_error error;
    clt_upload_settle(l);
    clt_error_save(&error);
    clt_rundir_log(l->dir, "%s: %s", clt_status_text(status), error.text);
    const clt_cost now = clt_meter_at(l, clt_now());
    clt_event_field cost[CLT_METER_FIELDS];
    clt_event_field seen[CLT_GAUGES_FIELDS];
    const int paid = clt_meter_fields(l, &now, false, cost), known = clt_gauges_fields(l, seen);
    const clt_event_field fields[] = {
        CLT_FIELD_INT("code", clt_status_exit_code(status)), CLT_FIELD_TEXT("message", error.text),
        CLT_FIELD_OBJECT("cost", cost, (size_t)paid), CLT_FIELD_OBJECT("monitor", seen, (size_t)known)};
    note(l, "failed", -1, fields, COUNT(fields));
    l->ended = true;
    clt_error_restore(&error);
}
