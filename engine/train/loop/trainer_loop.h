/* SPDX-License-Identifier: Apache-2.0
 *
 * Declarations that the trainer's files share: trainer.c (the loop) and trainer_*.c (decisions, reports). */
#ifndef ENGINE_TRAIN_LOOP_TRAINER_LOOP_H
#define ENGINE_TRAIN_LOOP_TRAINER_LOOP_H

#include "engine/cloud/notice.h"
#include "engine/monitor/monitor.h"
#include "engine/report/read/run_cost.h"
#include "engine/report/write/lines.h"
#include "engine/report/write/rundir.h"
#include "engine/report/write/runlog.h"
#include "engine/train/inspect/watch.h"
#include "engine/train/loop/keeper.h"
#include "engine/train/ranks/deadline.h"
#include "engine/train/ranks/sync.h"

/* Why a run ends before its last step. If ranks have different reasons, the greatest number counts.
 * Numbers from 1 to 999 are signals. */
enum { CLT_STOP_NONE = 0, CLT_STOP_FILE = 1000, CLT_STOP_NOTICE, CLT_STOP_BUDGET, CLT_STOP_FAILED };

/* Steps from when a rank says something until all ranks act on it. */
#define CLT_HEARD_LAG 2
#define CLT_HEARD_STEPS (CLT_HEARD_LAG + 1)

/* The decision after a step, the same on all ranks. */
typedef struct clt_decision {
    bool stop, fail, save; /* save: checkpoint.minutes have passed since the last one */
    bool words;            /* another host has a notice, whose words rank 0 must receive */
    bool meet;             /* all ranks have finished a round of the checkpoint that they write (saver.h) */
} clt_decision;

/* Notes how long the start-up of a resumed run has taken (trainer_startup.c). */
typedef struct clt_startup clt_startup;

/* Counts what the run costs: on rank 0 with a price. */
typedef struct clt_meter {
    bool on;
    clt_cost before;               /* the earlier sessions' sums, and the terms of this one */
    double began;                  /* when this program began to train; its cost counts from then on */
    double startup_s;              /* seconds from `began` to the first step; 0 before that step */
    double saving_s;               /* seconds of this session in which steps waited for checkpoints */
    double saved_until;            /* time up to which saving_s counts */
    int64_t starts_cut;            /* sessions since the last that trained; each ended in its start-up */
    double cut_seconds, cut_total; /* duration of these sessions in seconds, and their cost */
    clt_startup *startup;          /* NULL: no cost could be lost */
    double budget;                 /* 0: none */
    clt_str tags;
} clt_meter;

/* Programs of the user that run beside the training (trainer_hooks.c). */
enum { CLT_HOOK_NOTICE, CLT_HOOK_SAVE, CLT_HOOK_EXIT, CLT_HOOKS };
typedef struct clt_hooks clt_hooks;
/* The file for Prometheus (trainer_exporter.c). */
typedef struct clt_exporter clt_exporter;
/* Uploads to object storage (trainer_upload.c). */
typedef struct clt_remote clt_remote;
typedef struct clt_uploader clt_uploader;

/* Figures of this rank's device and host (monitor.*). */
typedef struct clt_gauges {
    clt_monitor *monitor; /* NULL: monitoring is off */
    double seconds;
    double share;                    /* this rank's share of the device's energy: ranks may share a device */
    double value[CLT_MONITOR_COUNT]; /* the newest figures */
    double energy;                   /* latest reading of this rank's device, in J since the start; 0: none */
    double energy_before;            /* energy in earlier sessions, in J */
    double heard_energy;             /* energy of all ranks in this session, in J */
    bool reported;                   /* the event "monitor" is written */
    int xid;                         /* newest error number of NVIDIA's driver; 0: none */
    double xid_at;                   /* time when it was reported */
    char named[16];                  /* address that the environment gives the device; "": none */
    clt_exporter *exporter;          /* NULL: no file for Prometheus */
} clt_gauges;

typedef struct clt_loop {
    clt_run *run;
    const clt_run_options *options;
    clt_rundir *dir; /* rank 0 with a run folder, else NULL */
    clt_runlog *log; /* log of the run, on the same rank as dir; opened earlier */
    clt_lock *lock;  /* lock of a resumed run's folder, until dir is opened; NULL: none is held */
    clt_keeper keeper;
    clt_watch *watch;
    clt_notice_options notice_options; /* options of `notices`; NULL where nothing is watched */
    clt_notices *notices;
    clt_hooks *hooks;            /* on the first rank of each host, else NULL */
    clt_uploader *uploader;      /* on rank 0 with checkpoint.upload, else NULL */
    clt_checkpoint *found;       /* the folder's checkpoint, open for the uploader until the run takes it */
    bool noticed;                /* a notice that ends the run has been reported */
    clt_notice unshared_notice;  /* on other ranks than 0: a notice that has not been sent to rank 0 yet */
    int64_t words_shared_step;   /* steps done when ranks last sent each other notices */
    bool save_asked;             /* a notice asks for a checkpoint, and none has begun since */
    struct clt_sampler *sampler; /* rank 0 if texts are sampled during training; else NULL */
    clt_run_result *result;
    clt_meter meter;
    clt_gauges gauges;
    bool near_budget;  /* on all ranks: a step waits for the end of the previous one, to know its cost */
    int64_t last_step; /* the run ends when this many steps are done */
    int64_t max_nonfinite;
    double start, last_done, waited;
    /* times and words of the ranks in the newest finished steps; index: step modulo CLT_HEARD_STEPS */
    clt_sync_result heard[CLT_HEARD_STEPS];
    int64_t finished; /* steps that have finished, from 0 on */
    int64_t enqueued; /* steps whose commands are all enqueued; later reads see their updates */
    clt_deadline deadline;
    double own_ms;       /* sum over finished steps of the time without waiting for other ranks */
    int64_t own_steps;   /* number of steps in own_ms */
    double step_seconds; /* duration of the newest finished step */
    uint32_t spiked;     /* spikes up to the newest finished step */
    float loss_scale;    /* loss scale for the step after the newest finished one */
    float step_scale;    /* loss scale of the newest finished step */
    bool updated; /* the newest finished step has updated parameters, by gradients that are not all zero */
    bool updated_twice; /* this holds for the two newest steps */
    int64_t look_at;    /* steps done when the gradients are looked at next; 0: never again */
    bool failed;        /* too many consecutive steps were not finite; `bad` is the last of them */
    clt_step_result bad;
    clt_line_pace pace;
    int64_t evaluated;    /* steps done at the newest evaluation; -1: there was none */
    bool early;           /* the training ends before its last step: evaluations stopped improving */
    bool ended;           /* metrics.jsonl has its last line, "end", "stopped" or "failed" */
    bool discard;         /* stopped before the first step: files made for this run are removed */
    double saved_at;      /* time when the last checkpoint was begun; without one, when the run began */
    int64_t saved_step;   /* steps done at that time */
    int64_t met_step;     /* steps done when ranks last ended a round of that checkpoint */
    int64_t own_stop;     /* why this rank wants to stop; 0: it does not */
    int64_t stop;         /* why the run ends early: one of CLT_STOP_*, or the number of a signal */
    bool reports;         /* this rank tells the user: rank 0, or each rank until the run knows its ranks */
    bool classes_missing; /* classes.json could not be written after the newest evaluation */
} clt_loop;

/* trainer_start.c. clt_continues: true if the run to resume is in the same folder, which is then written;
 * any other folder is only read. clt_first_rank: the process has rank 0. */
bool clt_continues(const clt_run_options *options);
bool clt_first_rank(const clt_run_options *options);
/* On rank 0: refuses a run folder that cannot be made, is in use, or holds another run. Writes nothing but
 * the lock of a resumed run's folder, which *lock receives; NULL: there is no such folder yet. */
clt_status clt_check_folder(const clt_run_options *options, clt_lock **lock);
/* The step after which this start ends: the last step of the job, or options->max_steps. */
int64_t clt_steps_now(const clt_run_options *options, const clt_job *job);
/* A line for the user if no step is left after `step`, or if the evaluations have ended the training early;
 * else NULL, and NULL if the run owes an evaluation of `step`. */
const char *clt_complete(const clt_run_options *options, const clt_job *job, int64_t step,
                         const clt_saved_state *state);
/* Plans, checks data, memory and the checkpoint to resume from, reports what a training would report of
 * them, and returns. */
clt_status clt_dry_run(const clt_run_options *options, clt_run_result *result);
/* trainer_notice.c. watch: at the start, on the first rank of each host, begins to watch for notices of the
 * cloud, if the config or the machine says where. look: after each step, tells the user of new ones. end:
 * after a notice has ended the run, tells the user of it, also if only another host received it. */
clt_status clt_watch_notices(clt_loop *loop);
void clt_look_for_notices(clt_loop *loop);
void clt_end_by_notice(clt_loop *loop);
/* Sends to rank 0 a notice that another host has received. Collective. */
clt_status clt_share_notice(clt_loop *loop);
/* trainer_hooks.c. open: on the first rank of each host, else *out is NULL; CLT_ECONFIG: the program of a
 * hook is missing. look: after each step, tells how hooks have ended, and ends the ones that have run for
 * too long. settle: waits for the end of all hooks, each of which has its limit. notice, saved: start a hook
 * for an event; while the hook still runs for an earlier one, the newest event waits. exit: when the run is
 * closed, runs the last hook, with the error of this thread, which is kept. If this rank has failed and
 * other ranks do not know it yet, hooks are started, but nothing waits for them. */
clt_status clt_hooks_open(const clt_run_options *options, clt_hooks **out);
void clt_hooks_close(clt_hooks *hooks); /* NULL is fine */
CLT_SCOPED_POINTER(clt_hooks, clt_hooks_close)
void clt_hooks_look(clt_loop *loop);
void clt_hooks_settle(clt_loop *loop, clt_status ended);
void clt_hook_notice(clt_loop *loop, const char *provider, const clt_notice *notice);
void clt_hook_saved(clt_loop *loop, const clt_save_result *result, const char *reason);
void clt_hook_exit(clt_loop *loop, clt_status ended);
/* trainer_best.c. begin: call it when the checkpoint is loaded and the run folder is open. Makes sure that
 * the best checkpoint so far is in the run folder or in its bucket, or begins the search for the best one
 * again, with a warning; collective. preview: the same warning for a dry run; from: the checkpoint that
 * would be resumed. */
clt_status clt_best_begin(clt_loop *loop);
clt_status clt_best_preview(const clt_run_options *options, const char *from, const clt_saved_state *state);
/* trainer_fetch.c: downloads the newest complete checkpoint of object storage if it is newer than the local
 * ones, with the texts that a run folder has beside its checkpoints; else leaves the newest local one that
 * verifies open in loop->found. *due: the newest step that is only local; else unchanged. */
clt_status clt_upload_fetch(clt_loop *loop, clt_remote *remote, int64_t *due);
/* Lists the steps of the run folder, up to the one that the run resumes from, that were not complete in
 * object storage when that was listed. *steps is to be freed in any case. */
clt_status clt_upload_only_here(const clt_loop *loop, int64_t **steps, size_t *count);
/* trainer_upload.c. open: at the start, before the checkpoint to resume from is searched for; with
 * checkpoint.upload lists object storage, and fetches the newest checkpoint for a resumed run; collective.
 * begin: when the run folder is open and the keeper knows what is kept; nothing is uploaded before that.
 * saved: a checkpoint is complete and is to be uploaded. look: after each step, tells of uploads that have
 * ended. settle: before the last line of metrics.jsonl, waits for checkpoints and tells of them. finish: at
 * the end, waits for the texts as well. It returns CLT_ESTORAGE if the run ended well but uploads failed,
 * else `ended`. */
clt_status clt_uploader_open(clt_loop *loop);
void clt_uploader_close(clt_uploader *uploader); /* NULL is fine */
CLT_SCOPED_POINTER(clt_uploader, clt_uploader_close)
clt_status clt_upload_begin(clt_loop *loop);
/* True if a step was complete in object storage at the start; false without checkpoint.upload. */
bool clt_upload_has(const clt_loop *loop, int64_t step);
/* The newest best evaluation before `step` whose checkpoint was complete in object storage at the start; its
 * step is -1 if there is none. */
clt_status clt_upload_best_before(const clt_loop *loop, int64_t step, clt_best_evaluation *out);
void clt_upload_saved(clt_loop *loop, const clt_save_result *result);
void clt_upload_look(clt_loop *loop);
void clt_upload_settle(clt_loop *loop);
clt_status clt_upload_finish(clt_loop *loop, clt_status ended);
/* trainer_nonfinite.c: the failure that ends a run after too many steps in a row that were not finite;
 * collective. */
clt_status clt_too_many_nonfinite(clt_loop *loop);
/* trainer_decide.c. clt_stop_before: whether a rank was asked to stop before the first step; collective.
 * clt_send_requests: before a step is enqueued, tells the other ranks whether this one wants to stop or to
 * save. clt_decide: decides what follows when step `step` (from 0) has been enqueued. needs: how many steps
 * must have finished before the decision after `steps` steps; 0 with one rank, which must not wait for the
 * device after each step. */
clt_status clt_stop_before(clt_loop *loop, bool *stop);
void clt_send_requests(clt_loop *loop);
int clt_decision_lag(const clt_loop *loop);
int64_t clt_decision_needs(const clt_loop *loop, int64_t steps);
clt_decision clt_decide(clt_loop *loop, int64_t step);
/* trainer_cost.c. check: refuses an invalid price, and a budget without a price. open: the sums of the
 * earlier sessions, before lines of metrics.jsonl are removed. at: the sums at a time of clt_now. */
clt_status clt_meter_check(const clt_run_options *options);
clt_status clt_meter_open(clt_loop *loop);
clt_cost clt_meter_at(const clt_loop *loop, double now);
/* The fields of the member "cost" of an event: the sums, and with `terms` also what the session pays. Returns
 * their number, 0 without a price. They borrow from the loop and from `cost`. */
enum { CLT_METER_SUMS = 9, CLT_METER_FIELDS = 18 };
int clt_meter_fields(const clt_loop *loop, const clt_cost *cost, bool terms,
                     clt_event_field fields[CLT_METER_FIELDS]);
/* Notes that steps waited for a checkpoint between two times. Time that several calls contain counts once.
 * The `to` of successive calls must not decrease. */
void clt_meter_saving(clt_loop *loop, double from, double to);
/* trainer_startup.c. A session that ends before its event "start" leaves nothing in metrics.jsonl. So a file
 * in the folder of a resumed run counts what such sessions have cost. begin: reads it, and adds the cost of
 * this session until clt_startup_over. leave: at the end; keeps the file if clt_startup_over was not called.
 * If the file cannot be written, the log says so and the run continues. */
clt_status clt_startup_begin(clt_loop *loop);
void clt_startup_over(clt_loop *loop);
void clt_startup_leave(clt_loop *loop);
/* near: on rank 0, whether the budget will soon be reached. stops: after step `done`, whether the budget is
 * reached, or would be by one more step or an evaluation, followed by the end of the run, as far as these
 * times have been measured; collective, and false without a budget. refuse: the error of a start whose
 * budget is used up before its first step. note: a time of clt_cost_longest that was measured. */
bool clt_meter_near(const clt_loop *loop);
clt_status clt_meter_stops(clt_loop *loop, int64_t done, bool evaluates, bool *stop);
void clt_meter_note(double *longest, double seconds);
clt_status clt_meter_refuse(const clt_loop *loop);
/* The row of the start-up table, and the line at the end. */
const char *clt_meter_row(const clt_loop *loop, char *text, size_t size);
void clt_meter_line(const clt_loop *loop, const clt_cost *cost, char *text, size_t size);
/* trainer_monitor.c. check: refuses invalid values of environment variables. open: before the first step.
 * energy: what this rank counts of its device's energy in this session, in J; 0: unknown. fill: adds the
 * device's figures to a step, if there are new ones. look: after a step, reports what the monitor has found
 * and passes the step to the exporter. */
clt_status clt_gauges_check(const clt_run_options *options);
clt_status clt_gauges_open(clt_loop *loop);
void clt_gauges_close(clt_loop *loop);
double clt_gauges_energy(const clt_loop *loop);
void clt_gauges_fill(clt_loop *loop, clt_step_metrics *metrics);
void clt_gauges_look(clt_loop *loop, const clt_step_metrics *metrics);
/* For the end, when no step follows. renew: takes a last sample. finish: does the same and notes in the file
 * for Prometheus that the run has ended. tell: the line for the user. fields: the members of "monitor" of
 * the last event; returns their number. explain: finishes for a run that fails; if the device is lost, names
 * the errors that the driver has reported. */
void clt_gauges_renew(clt_loop *loop);
void clt_gauges_finish(clt_loop *loop);
void clt_gauges_tell(const clt_loop *loop);
/* Mean of this session; NAN: unknown. */
double clt_gauges_utilization(const clt_loop *loop);
enum { CLT_GAUGES_FIELDS = 10 };
int clt_gauges_fields(const clt_loop *loop, clt_event_field fields[CLT_GAUGES_FIELDS]);
clt_status clt_gauges_explain(clt_loop *loop, clt_status status);
/* trainer_exporter.c; for all but `open` the exporter may be NULL. open: starts the thread that writes the
 * file; *out is NULL without monitor.prometheus. step, figures: set the values of the next pages. tell: a
 * warning, once, if a page could not be written. close: ends the thread; a last page says that the run has
 * ended. */
clt_status clt_exporter_open(const clt_loop *loop, clt_exporter **out);
void clt_exporter_step(clt_exporter *exporter, const clt_step_metrics *metrics);
void clt_exporter_figures(clt_exporter *exporter, const double figures[CLT_MONITOR_COUNT]);
void clt_exporter_tell(clt_loop *loop, clt_exporter *exporter);
void clt_exporter_close(clt_exporter *exporter);
/* Sends a message to the observer and to log.txt. */
void clt_tell(const clt_loop *loop, const char *text);
/* Logs a warning, which is copied to log.txt and, as an event, to metrics.jsonl. After the run's end it is
 * only a message, without an event. */
void clt_tell_warning(const clt_loop *loop, const char *text);
/* For the keeper, which gets the loop as context. */
void clt_tell_keeper_warning(void *context, const char *text);
void clt_tell_saved(void *context, const clt_save_result *result, clt_save_reason reason);
/* Reports, in the log and as an event, a checkpoint that is completely uploaded to checkpoint.upload. */
void clt_tell_uploaded(const clt_loop *loop, int64_t step, double seconds, uint64_t bytes);
/* Fills in the metrics of a step that has ended. */
void clt_tell_fill(clt_loop *loop, const clt_step_result *result, clt_step_metrics *metrics);
/* Reports a step to the observer, to metrics.jsonl and, if its line stays, to the log. */
clt_status clt_tell_step(clt_loop *loop, const clt_step_metrics *metrics);
clt_status clt_tell_eval(clt_loop *loop, const clt_eval_metrics *metrics);
/* Says why the training ends early (train.early_stop_evals). */
clt_status clt_tell_early(const clt_loop *loop);
/* Reports the start-up table and the event "start", right before the first step. */
clt_status clt_tell_start(const clt_loop *loop);
/* Reports how a resumed run differs from the run that it resumes: its new length, data in another place. */
clt_status clt_tell_continuation(const clt_loop *loop);
/* trainer_ranks.c, with several ranks: reports a table of the ranks, at the start without and later with
 * their speeds, and names the slowest. Collective. */
typedef enum clt_ranks_when { CLT_RANKS_START, CLT_RANKS_EARLY, CLT_RANKS_END } clt_ranks_when;
clt_status clt_tell_ranks(clt_loop *loop, clt_ranks_when when);
/* Reports one line of advice at the end. Rank 0's advice holds for all ranks, because they wait for the same
 * things. */
clt_status clt_tell_advice(const clt_loop *loop);
/* Writes profile.txt, profile.json and trace.json into the run folder. */
void clt_tell_profile(const clt_loop *loop);
/* trainer_histograms.c: due: whether histograms for TensorBoard are to be written after `step` steps; the
 * same on all ranks. tell: writes histograms of the newest step's gradients and of the parameters; all
 * steps must have finished. */
bool clt_histograms_due(const clt_loop *loop, int64_t step);
clt_status clt_tell_histograms(clt_loop *loop, int64_t step);
/* trainer_gradients.c: due: whether to look, after `step` steps, for trained parameters whose gradients are
 * zero; the same on all ranks. tell: looks, and warns of them; all steps must have finished. It happens once,
 * early in a new run. Collective if ranks divide the gradients. */
bool clt_gradients_due(const clt_loop *loop, int64_t step);
clt_status clt_tell_gradients(clt_loop *loop, int64_t step);
/* trainer_sample.c: sample texts during training (log.sample_prompt, log.sample_every). They use their own
 * device objects and change nothing in the training. If there is no memory for them or no tokenizer, this is
 * reported once. open: before the first step. due: the same on all ranks. */
void clt_sampler_open(clt_loop *loop);
void clt_sampler_close(clt_loop *loop);
bool clt_sample_due(const clt_loop *loop, int64_t step);
void clt_tell_sample(clt_loop *loop, int64_t step); /* all steps must have finished */
/* Names why the run ends early, by the number of the reason: "SIGTERM", "a file STOP in the run folder". */
const char *clt_stop_reason(int64_t stop);
/* Writes the last line of metrics.jsonl: "end", or "stopped" with its reason. CLT_ESTORAGE: lines of the
 * file could not be written. */
clt_status clt_tell_end(clt_loop *loop, bool stopped);
/* Reports that the run ends with the error of this thread, which is kept. */
void clt_tell_failed(clt_loop *loop, clt_status status);

#endif
