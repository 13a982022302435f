/* SPDX-License-Identifier: Apache-2.0
 *
 * A worker: takes trials by leases, trains each in its own process, `cltrain train`, and writes its result.
 * Any process may be killed at any moment: another worker takes over the lease of a dead one, and the next
 * training resumes from the run folder's newest checkpoint. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/thread.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/files/fileio.h"
#include "engine/files/fileio_error.h"
#include "engine/host/child.h"
#include "engine/host/dependent.h"
#include "engine/host/find_program.h"
#include "engine/report/write/rundir.h"
#include "engine/sweep/sweep_internal.h"
#include "engine/sweep/sweep_lease.h"

#define TURN_US 50000   /* microseconds between two checks of the trainings */
#define LOOK_S 1.0      /* seconds between two checks of the folder for work */
#define BUDGET_SHARE 20 /* reading the costs of the trials takes at most a twentieth of the time */
#define MOST_FAILED 2   /* a trial that has failed this number of times by itself is not tried again */
#define MOST_KILLED                                                                                          \
    10 /* the same limit for trials that were killed, as when memory is short, or whose machine failed */

/* A training, or the place for one. */
typedef struct slot {
    int trial;             /* -1: none */
    pid_t process;         /* 0: the training waits for the run folder to become free */
    bool waiting_reported; /* it was reported that the training waits */
    bool asked_to_end;
    bool killed;     /* the training was asked to end, and killed because it did not */
    double asked_at; /* time when the training was asked to end */
    double renewed;
    int64_t output_from; /* where the output of this training begins in its file */
    char *lease;         /* path of the lease */
    const char *device;
} slot;

typedef struct worker {
    const clt_sweep *sweep;
    const clt_sweep_options *options;
    clt_sweep_table table;
    clt_lease leases[CLT_SWEEP_TRIALS]; /* leases of the trials in the rung `rung` */
    int rung;
    slot *slots;
    char *program, *config;
    char **environment;
    double looked; /* time of the last look for work */
    bool closing;  /* no further trial is begun */
    bool waits;    /* it was reported that other workers have all trials that are left */
    clt_error end; /* why */
    clt_sweep_spending spending;
    double next_look; /* time of the next look at what is spent */
    bool began;       /* the worker has begun a training */
    bool checked;     /* the machine is fit for trainings */
    bool ending;      /* trainings are to save and end, since the budget is spent or there is no metric */
} worker;

static void free_worker(worker *w)
{
    for (int i = 0; w && w->slots && i < w->options->workers; i++)
        free(w->slots[i].lease);
    if (!w)
        return;
    clt_sweep_table_free(&w->table);
    clt_sweep_spending_free(&w->spending);
    free(w->slots);
    free(w->program);
    free(w->config);
    free(w->environment);
    free(w);
}
CLT_SCOPED_POINTER(worker, free_worker)

__attribute__((format(printf, 2, 3))) static void tell(const worker *w, const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    w->options->tell(w->options->context, line);
}

/* Begins no further trial, because of the thread's error. The first reason counts. */
static void close_by(worker *w, clt_status status)
{
    if (w->closing)
        clt_error_clear();
    else
        clt_error_take(status, &w->end);
    w->closing = true;
}

/* --- the training of a trial --- */

static clt_status trial_path(const worker *w, int trial, char **out)
{
    char name[CLT_SWEEP_NAME];
    return clt_path_join(w->options->folder, clt_sweep_trial_name(w->sweep, trial, name), out);
}

static clt_status open_output(const worker *w, int trial, int flags, int *fd)
{
    CLT_SCOPED(clt_str) path = {0};
    char name[CLT_SWEEP_NAME];
    clt_str_printf(&path, "%s/output/%s.txt", w->options->folder,
                   clt_sweep_trial_name(w->sweep, trial, name));
    CLT_TRY(clt_str_check(&path));
    *fd = open(path.text, flags | O_CLOEXEC, 0666);
    return *fd >= 0 ? CLT_OK : clt_fail_errno(CLT_ESTORAGE, errno, "opening '%s'", path.text);
}

/* Finds out whether a dead worker's training is still saving, or ending, in the run folder. */
static clt_status folder_is_taken(const char *run, bool *taken)
{
    CLT_FREED char *path = NULL;
    CLT_TRY(clt_path_join(run, "lock", &path));
    return clt_lock_is_taken(path, taken);
}

static void tell_begin(const worker *w, const slot *at)
{
    CLT_SCOPED(clt_str) text = {0}, shown = {0};
    char name[CLT_SWEEP_NAME];
    int64_t steps = w->sweep->rung_steps[w->rung];
    clt_str_append(&text, clt_sweep_trial_name(w->sweep, at->trial, name));
    if (steps > 0)
        clt_str_printf(&text, " to step %lld", (long long)steps);
    else if (w->sweep->rungs > 1)
        clt_str_append(&text, " to the end");
    for (int k = 0; k < w->sweep->key_count; k++)
        clt_str_printf(&text, "%s %s=%s", k ? "," : ":", w->sweep->keys[k].path,
                       clt_sweep_shown(w->sweep, at->trial, k, &shown));
    tell(w, "%s", text.failed ? name : text.text);
}

/* Starts the training of a slot, unless its folder is still in use. */
static clt_status start(worker *w, slot *at)
{
    CLT_FREED char *run = NULL;
    CLT_SCOPED(clt_arena) *arena = NULL;
    CLT_CLOSED int output = -1;
    bool taken;
    char name[CLT_SWEEP_NAME];
    CLT_TRY(trial_path(w, at->trial, &run));
    CLT_TRY(folder_is_taken(run, &taken));
    if (taken) {
        if (!at->waiting_reported)
            tell(w, "%s: an earlier training in its folder is still ending",
                 clt_sweep_trial_name(w->sweep, at->trial, name));
        at->waiting_reported = true;
        return CLT_OK;
    }
    at->waiting_reported = false;
    CLT_TRY(clt_arena_create(&arena));
    clt_sweep_command c = {.arena = arena, .program = w->program};
    CLT_TRY(clt_sweep_make_command(w->sweep, at->trial, w->rung, w->config, run, at->device, &c));
    CLT_TRY(open_output(w, at->trial, O_WRONLY | O_CREAT | O_APPEND, &output));
    at->output_from = lseek(output, 0, SEEK_END);
    tell_begin(w, at);
    w->began = true;
    return clt_dependent_start(&(clt_dependent){c.words, w->environment, .output = output, .errors = output},
                               &at->process);
}

/* --- its end --- */

/* Records a failure. again: another training may do better. */
static clt_status record_failure(worker *w, const slot *at, bool killed, bool again, const char *reason)
{
    clt_trial_failures f;
    char name[CLT_SWEEP_NAME];
    CLT_TRY(clt_sweep_read_failures(w->sweep, w->options->folder, at->trial, w->rung, &f));
    f.killed += killed;
    f.failed += !killed;
    f.given_up = !again || f.failed >= MOST_FAILED || f.killed >= MOST_KILLED;
    snprintf(f.reason, sizeof f.reason, "%s", reason);
    tell(w, "%s failed: %s; %s", clt_sweep_trial_name(w->sweep, at->trial, name), reason,
         f.given_up ? "it is not tried again" : "it is tried again");
    return clt_sweep_write_failures(w->sweep, w->options->folder, at->trial, w->rung, &f);
}

/* The step of the newest checkpoint of a run and its folder; -1: the run has none. */
static clt_status newest_step(const char *run, int64_t *step, char **path)
{
    CLT_SCOPED(clt_checkpoint) *newest = NULL;
    *step = -1;
    *path = NULL;
    if (!clt_checkpoint_exists(run))
        return CLT_OK;
    CLT_TRY(clt_checkpoint_peek(run, &newest));
    *step = newest->step;
    return clt_path_join("", newest->path, path);
}

/* The state of a trial as its run folder shows it after the training. */
typedef enum outcome {
    HAS_RESULT,
    HAS_GAP,     /* another training computes the missing lines */
    IS_INFINITE, /* the metric, or the loss */
    HAS_NO_METRIC
} outcome;

/* Tells why the metric is not finite, if it is not: a training may continue after its loss has become
 * infinite. */
static outcome judge_metric(const clt_run_record *record, double value)
{
    const clt_curve *curve = record->curve;
    if (isfinite(value))
        return HAS_RESULT;
    return !isnan(value) || curve[CLT_METRIC_EVAL_LOSS].bad > 0 || curve[CLT_METRIC_LOSS].bad > 0
               ? IS_INFINITE
               : HAS_NO_METRIC;
}

/* Takes the result from the run folder. It has a gap if lines up to the newest checkpoint are missing,
 * because the training was killed after it had saved and before it wrote them: the holder of the lease
 * removes that checkpoint, so that another training computes these steps again. */
static clt_status read_run(worker *w, const slot *at, const char *run, clt_trial_result *out, outcome *what)
{
    CLT_SCOPED(clt_run_record) *record = NULL;
    CLT_FREED char *newest = NULL;
    clt_lease *lease = &w->leases[at->trial];
    int64_t step;
    CLT_TRY(clt_run_record_load(run, &record));
    clt_run_facts facts = clt_run_facts_of(record);
    *out = (clt_trial_result){.done = true,
                              .rung = w->rung,
                              .value = facts.value[w->sweep->metric],
                              .steps = record->last_step,
                              .seconds = facts.value[CLT_FACT_SECONDS],
                              .cost = facts.value[CLT_FACT_COST]};
    CLT_TRY(newest_step(run, &step, &newest));
    *what = judge_metric(record, out->value);
    if (record->last_step >= step)
        return CLT_OK;
    *what = HAS_GAP;
    if (lease->held)
        clt_lease_renew(at->lease, clt_now(), w->options->lease_seconds, lease);
    return lease->held ? clt_remove_tree(newest) : CLT_OK;
}

/* No trial will have the metric: trainings end, and trials wait until sweep.json names another one. */
static void end_without_metric(worker *w, const char *name)
{
    const char *metric = clt_fact_columns[w->sweep->metric].key;
    tell(w, "%s is complete and has no %s", name, metric);
    close_by(
        w, clt_fail(CLT_ECONFIG, __FILE__, __LINE__,
                    "%s is complete and has no %s, by which the trials are compared: name another \"metric\" "
                    "in the sweep's file; the same command then continues without training it again",
                    name, metric));
    w->ending = true;
}

/* The training is complete. A result counts even if another worker has taken the trial over meanwhile: it has
 * the same bits, and only one is kept. */
static clt_status finish(worker *w, const slot *at)
{
    CLT_FREED char *run = NULL;
    clt_trial_result result;
    outcome what = HAS_GAP;
    bool created;
    const char *metric = clt_fact_columns[w->sweep->metric].key;
    char name[CLT_SWEEP_NAME], number[CLT_CELL_TEXT], reason[400];
    (void)clt_sweep_trial_name(w->sweep, at->trial, name);
    snprintf(reason, sizeof reason, "the lines of the last steps are missing in metrics.jsonl");
    CLT_TRY(trial_path(w, at->trial, &run));
    if (read_run(w, at, run, &result, &what) != CLT_OK) {
        snprintf(reason, sizeof reason, "%s", clt_error_text());
        clt_error_clear();
        what = HAS_GAP;
    }
    if (what == HAS_NO_METRIC) {
        CLT_TRY(clt_sweep_table_read(&w->table, w->options->folder));
        if (w->table.best < 0) { /* no trial has had the metric */
            end_without_metric(w, name);
            return CLT_OK;
        }
        snprintf(reason, sizeof reason, "the training is complete and has no %s", metric);
    }
    if (what == IS_INFINITE)
        snprintf(reason, sizeof reason, "the training is complete, and its %s is not finite", metric);
    if (what != HAS_RESULT)
        return w->leases[at->trial].held ? record_failure(w, at, false, what == HAS_GAP, reason) : CLT_OK;
    CLT_TRY(clt_sweep_write_result(w->sweep, w->options->folder, at->trial, w->rung, &result, &created));
    if (created)
        tell(w, "%s is done: %s %s", name, metric, clt_sweep_metric_text(w->sweep, result.value, number));
    return CLT_OK;
}

/* The reason why an interrupted training is to end for good: its budget is used up, or somebody has put a
 * file STOP into its folder. NULL: the training is to continue. */
static const char *ended_for_good(const worker *w, const slot *at)
{
    static const char *const reasons[] = {CLT_REASON_BUDGET, CLT_REASON_STOP_FILE};
    CLT_SCOPED(clt_run_record) *record = NULL;
    CLT_FREED char *run = NULL;
    bool known = trial_path(w, at->trial, &run) == CLT_OK && clt_run_record_load(run, &record) == CLT_OK;
    clt_error_clear();
    for (size_t i = 0; known && i < sizeof reasons / sizeof *reasons; i++)
        if (record->verdict == CLT_RUN_INTERRUPTED && strstr(record->cause, reasons[i]))
            return reasons[i];
    return NULL;
}

/* True if the training was ended by a harmless signal: it came before the training could handle signals. */
static bool was_stopped(const worker *w, int signal)
{
    return atomic_load(w->options->stop) != 0 || signal == SIGTERM || signal == SIGINT || signal == SIGUSR2 ||
           signal == SIGHUP;
}

/* The status of an exit code that says that trainings cannot continue on this machine; else CLT_OK. */
static clt_status machine_status(int code)
{
    static const clt_status list[] = {CLT_EDATA, CLT_EDEVICE, CLT_ESTORAGE, CLT_EDEVLOST};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (clt_status_exit_code(list[i]) == code)
            return list[i];
    return CLT_OK;
}

/* A message without the text of its status, which the worker's own message begins with. */
static const char *without_status(const char *words, clt_status status)
{
    const size_t length = strlen(clt_status_text(status));
    bool begins = strncmp(words, clt_status_text(status), length) == 0 && words[length] == ':';
    return begins ? words + length + 1 + (words[length + 1] == ' ') : words;
}

/* Decides what a training that ended with a code other than 0 means for the trial and for the worker. */
static clt_status judge(worker *w, const slot *at, int state)
{
    CLT_CLOSED int output = -1;
    static const char program[] = "cltrain: "; /* begins the messages of trainings */
    char text[400] = "", name[CLT_SWEEP_NAME];
    (void)clt_sweep_trial_name(w->sweep, at->trial, name);
    if (open_output(w, at->trial, O_RDONLY, &output) == CLT_OK)
        clt_child_last_line(output, at->output_from, text, sizeof text);
    clt_error_clear();
    const char *words = text + (strncmp(text, program, strlen(program)) == 0 ? strlen(program) : 0);
    if (WIFSIGNALED(state)) {
        char reason[128];
        snprintf(reason, sizeof reason, "ended by signal %d (%s)", WTERMSIG(state),
                 strsignal(WTERMSIG(state)));
        if (!at->killed && !was_stopped(w, WTERMSIG(state)))
            return record_failure(w, at, WTERMSIG(state) == SIGKILL, true, reason);
        tell(w, "%s was interrupted and can be resumed", name);
        close_by(w, clt_fail(CLT_EINTERRUPTED, __FILE__, __LINE__, "%s was %s", name, reason));
        return CLT_OK;
    }
    int code = WEXITSTATUS(state);
    if (code == clt_status_exit_code(CLT_EINTERRUPTED)) {
        const char *end = ended_for_good(w, at);
        if (end)
            return record_failure(w, at, false, false, end);
        tell(w, "%s was interrupted and can be resumed", name);
        close_by(w, clt_fail(CLT_EINTERRUPTED, __FILE__, __LINE__, "%s was interrupted: %s", name,
                             without_status(words, CLT_EINTERRUPTED)));
        return CLT_OK;
    }
    const clt_status machine = machine_status(code);
    if (machine != CLT_OK) {
        if (machine != CLT_EDEVICE) /* if there is a device, the trial may be the reason */
            CLT_TRY(record_failure(w, at, true, true, words));
        tell(w, "%s ended with code %d and can be resumed on another machine", name, code);
        close_by(w, clt_fail(machine, __FILE__, __LINE__, "%s: %s", name, without_status(words, machine)));
        return CLT_OK;
    }
    bool again = code != clt_status_exit_code(CLT_ENUMERIC) && code != clt_status_exit_code(CLT_ECONFIG);
    return record_failure(w, at, false, again, words[0] ? words : "it printed nothing");
}

/* The slot is free again. A lease that another worker has taken over is not given back. */
static clt_status leave(worker *w, slot *at)
{
    clt_lease *lease = &w->leases[at->trial];
    clt_status status = lease->held ? clt_lease_release(at->lease, lease) : CLT_OK;
    free(CLT_TAKE(at->lease));
    at->trial = -1;
    at->process = 0;
    at->waiting_reported = at->asked_to_end = at->killed = false;
    w->looked = w->next_look = 0; /* count the trial's cost before another trial is begun */
    return status;
}

/* A training has ended. */
static clt_status end_training(worker *w, slot *at, int state)
{
    if (WIFEXITED(state) && WEXITSTATUS(state) == 0)
        CLT_TRY(finish(w, at));
    else if (w->leases[at->trial].held)
        CLT_TRY(judge(w, at, state));
    return leave(w, at);
}

/* --- the loop --- */

/* Tells a training to save and end, and kills it when it has not ended in time, as one that hangs in a
 * driver does not. The trial later resumes from its newest checkpoint. */
static void end_process(const worker *w, slot *at, double now)
{
    char name[CLT_SWEEP_NAME];
    if (!at->asked_to_end) {
        at->asked_to_end = true;
        at->asked_at = now;
        (void)kill(at->process, SIGTERM);
    } else if (!at->killed &&
               now - at->asked_at > w->options->grace_seconds + clt_sweep_end_seconds(w->sweep, at->trial)) {
        at->killed = true;
        tell(w, "%s: its training did not end within %.0f s after it was asked to, so it is killed",
             clt_sweep_trial_name(w->sweep, at->trial, name), now - at->asked_at);
        (void)kill(-at->process, SIGKILL); /* its process group, which may have hooks */
    }
}

/* Checks a slot: has its training ended, is its lease still held, may its training begin now? */
static clt_status attend(worker *w, slot *at, double now)
{
    clt_lease *lease = &w->leases[at->trial];
    char name[CLT_SWEEP_NAME];
    int state;
    if (at->process > 0 && waitpid(at->process, &state, WNOHANG) == at->process)
        return end_training(w, at, state);
    if (lease->held && now - at->renewed > w->options->lease_seconds / 5) {
        clt_lease_renew(at->lease, now, w->options->lease_seconds, lease);
        at->renewed = now;
        if (!lease->held)
            tell(w, "%s: another worker has taken it over", clt_sweep_trial_name(w->sweep, at->trial, name));
    }
    bool ends = !lease->held || w->ending || atomic_load(w->options->stop) != 0;
    if (at->process == 0)
        return ends || w->closing ? leave(w, at) : start(w, at);
    if (ends)
        end_process(w, at, now);
    return CLT_OK;
}

/* Before the first trial: is the machine fit for trainings? */
static clt_status check_machine(worker *w)
{
    const char *unchecked = NULL;
    if (!w->checked)
        CLT_TRY(clt_sweep_check_machine(w->sweep, &unchecked));
    w->checked = true;
    if (unchecked)
        tell(w, "the data is first opened by the trainings, since %s", unchecked);
    return CLT_OK;
}

/* Tries to take a trial for a free slot. */
static clt_status take(worker *w, slot *at, double now)
{
    for (int i = 0; i < w->table.member_count; i++) {
        int trial = w->table.members[i];
        clt_lease *lease = &w->leases[trial];
        CLT_FREED char *path = NULL;
        if (w->table.trials[trial].state != CLT_TRIAL_WAITING || lease->held)
            continue;
        CLT_TRY(check_machine(w));
        CLT_TRY(clt_sweep_record_path(w->sweep, w->options->folder, "lease", trial, w->rung, "", &path));
        CLT_TRY(clt_lease_take(path, now, w->options->lease_seconds, lease));
        if (!lease->held)
            continue;
        at->trial = trial;
        at->lease = CLT_TAKE(path);
        at->renewed = now;
        /* somebody may have trained it between the look at the records and now */
        CLT_TRY(clt_sweep_table_read(&w->table, w->options->folder));
        if (w->table.rung == w->rung && w->table.trials[trial].state == CLT_TRIAL_WAITING)
            return start(w, at);
        CLT_TRY(leave(w, at));
        return CLT_OK;
    }
    return CLT_OK;
}

/* A start that can begin no training has its own error code, so that no script repeats it for ever. */
static clt_status code_when_spent(const worker *w)
{
    return w->began ? CLT_EINTERRUPTED : CLT_ECONFIG;
}

/* Looks at what the trials have cost, but only so often that reading it stays cheap. */
static clt_status look_at_budget(worker *w, double now)
{
    if (!w->spending.trials || w->ending || now < w->next_look)
        return CLT_OK;
    CLT_TRY(clt_sweep_spending_read(w->sweep, w->options->folder, &w->spending));
    double pause = BUDGET_SHARE * (clt_now() - now);
    w->next_look = clt_now() + (pause > LOOK_S ? pause : LOOK_S);
    clt_status status = clt_sweep_check_budget(w->options, &w->spending, code_when_spent(w));
    w->ending = status != CLT_OK;
    if (w->ending && w->closing) /* the first reason counts, and this one tells why trainings end now */
        tell(w, "%s", clt_error_text());
    if (w->ending)
        close_by(w, status);
    return CLT_OK;
}

/* Looks for work, from time to time. *over: there will be none any more. */
static clt_status look_for_work(worker *w, double now, bool *over)
{
    bool busy = false;
    if (now - w->looked < LOOK_S)
        return CLT_OK;
    w->looked = now;
    for (int i = 0; i < w->options->workers; i++)
        busy = busy || w->slots[i].trial >= 0;
    CLT_TRY(clt_sweep_table_read(&w->table, w->options->folder));
    if (w->table.rung != w->rung && !busy) { /* leases[] is of one rung */
        memset(w->leases, 0, sizeof w->leases);
        w->rung = w->table.rung;
    }
    *over = w->table.unsettled == 0 && w->table.rung == w->sweep->rungs - 1 && !busy;
    if (!*over)
        CLT_TRY(look_at_budget(w, now));
    clt_status room = *over || w->ending
                          ? CLT_OK
                          : clt_sweep_check_start_affordable(w->options, &w->spending, code_when_spent(w));
    const bool begins = !w->ending && room == CLT_OK;
    for (int i = 0; i < w->options->workers && w->rung == w->table.rung && begins; i++)
        if (w->slots[i].trial < 0)
            CLT_TRY(take(w, &w->slots[i], now));
    bool idle = true;
    for (int i = 0; i < w->options->workers; i++)
        idle = idle && w->slots[i].trial < 0;
    if (room != CLT_OK && idle)
        close_by(w, room);
    else if (room != CLT_OK)
        clt_error_clear(); /* trainings continue */
    else if (idle && !*over && !w->waits && !w->ending)
        tell(w, "other workers train the trials that are left; waiting for them");
    w->waits = idle;
    return CLT_OK;
}

static clt_status work(worker *w)
{
    for (bool over = false; !over;) {
        double now = clt_now();
        int busy = 0;
        bool stopped = atomic_load(w->options->stop) != 0;
        for (int i = 0; i < w->options->workers; i++) {
            if (w->slots[i].trial >= 0)
                CLT_TRY(attend(w, &w->slots[i], now));
            busy += w->slots[i].trial >= 0;
        }
        if (busy == 0 && stopped)
            CLT_FAIL(CLT_EINTERRUPTED, "stopped; the same command continues the sweep");
        if (busy == 0 && w->closing)
            return clt_error_put(&w->end);
        if (!stopped && w->closing) /* the remaining trainings may take long */
            CLT_TRY(look_at_budget(w, now));
        else if (!stopped)
            CLT_TRY(look_for_work(w, now, &over));
        if (!over)
            (void)usleep(TURN_US);
    }
    return CLT_OK;
}

clt_status clt_sweep_work(const clt_sweep *sweep, const clt_sweep_options *options)
{
    CLT_SCOPED(worker) *w = NULL;
    CLT_TRY(clt_sweep_check_price(sweep, options));
    CLT_TRY(clt_sweep_prepare(sweep, options->folder));
    if (options->again)
        CLT_TRY(clt_sweep_forget_failures(sweep, options->folder));
    CLT_TRY(clt_alloc(&w, 1, sizeof *w, "a worker of a sweep"));
    w->sweep = sweep;
    w->options = options;
    CLT_TRY(clt_alloc(&w->slots, (size_t)options->workers, sizeof *w->slots, "a worker of a sweep"));
    for (int i = 0; i < options->workers; i++)
        w->slots[i] =
            (slot){.trial = -1,
                   .device = options->device_count ? options->devices[i % options->device_count] : NULL};
    CLT_TRY(clt_sweep_table_make(sweep, &w->table));
    if (options->budget > 0 || options->hours > 0)
        CLT_TRY(clt_sweep_spending_make(sweep, &w->spending));
    CLT_TRY(clt_program_find(&w->program));
    CLT_TRY(clt_path_join(options->folder, "config.json", &w->config));
    CLT_TRY(clt_child_environment(&w->environment));
    return work(w);
}
