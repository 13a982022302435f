/* SPDX-License-Identifier: Apache-2.0
 *
 * What the trainer's files share: trainer.c (the loop) and trainer_tell.c (what is told about it). */
#ifndef ENGINE_TRAIN_TRAINER_LOOP_H
#define ENGINE_TRAIN_TRAINER_LOOP_H

#include "engine/report/rundir.h"
#include "engine/report/runlog.h"
#include "engine/train/run/keeper.h"
#include "engine/train/inspect/watch.h"

/* Why a run ends before its last step; the greatest one known on any rank counts. A smaller number: the
 * signal that asked for it. */
enum { CLT_STOP_NONE = 0, CLT_STOP_FILE = 1000, CLT_STOP_FAILED };

/* Seconds of a step's sums over ranks. */
typedef struct clt_step_comm {
    double inside; /* the least of all ranks: that of the one that comes last, and waits for nobody */
    double waited; /* from this rank's gradients being there until their sums were */
} clt_step_comm;
#define CLT_COMM_STEPS 512 /* more than are ever in flight (reporter.h) */

typedef struct clt_loop {
    clt_run *run;
    const clt_run_options *options;
    clt_rundir *dir; /* rank 0 with a run folder, else NULL */
    clt_runlog *log; /* as dir, from the beginning on */
    clt_keeper keeper;
    clt_watch *watch;
    struct clt_sampler *sampler; /* rank 0 with samples on the way; else NULL */
    clt_run_result *result;
    int64_t last_step; /* this run ends before it */
    int64_t max_nonfinite;
    double start, last_done, waited;
    clt_step_comm comm_total;           /* of the steps enqueued so far */
    clt_step_comm comm[CLT_COMM_STEPS]; /* of a step, by its number modulo CLT_COMM_STEPS */
    double own_ms;       /* sum over finished steps of their time without waiting for other ranks */
    int64_t own_steps;   /* of how many */
    double step_seconds; /* of the newest finished step */
    float loss_scale;    /* of the step after the newest finished one */
    float step_scale;    /* of the newest finished one */
    bool failed;         /* the limit of steps in a row that were not finite was reached, by `bad` */
    clt_step_result bad;
    int64_t log_every;
    bool discard;    /* stopped before the first step: what was made for this run goes away */
    double saved_at; /* the last checkpoint was begun, or the run was */
    int64_t stop;    /* why it ends early: one of CLT_STOP_*, or the number of a signal */
    bool quiet;      /* another rank does the talking */
    bool repin;      /* to be created again with the tuning choices of the checkpoint resumed from */
} clt_loop;

/* To the observer and the log. warn: to metrics.jsonl too, as an event. */
void clt_tell(const clt_loop *loop, const char *text);
void clt_tell_warning(const clt_loop *loop, const char *text);
/* For the keeper, whose context is the loop. */
void clt_tell_keeper_warning(void *context, const char *text);
void clt_tell_saved(void *context, const clt_save_result *result, clt_save_reason reason);
/* The numbers of a step that has ended. */
void clt_tell_fill(clt_loop *loop, const clt_step_result *result, clt_step_metrics *metrics);
/* To the observer, metrics.jsonl and, one step in train.log_every, the log. */
clt_status clt_tell_step(clt_loop *loop, const clt_step_metrics *metrics);
clt_status clt_tell_eval(const clt_loop *loop, const clt_eval_metrics *metrics);
/* The run is about to make its first step: the start-up table, and the event "start". */
clt_status clt_tell_start(const clt_loop *loop);
/* How a resumed run differs from the run before: its new length, data that lies elsewhere. */
clt_status clt_tell_continuation(const clt_loop *loop);
/* trainer_ranks.c, with several ranks: a table of them, at the start without and later with their speeds, the
 * slowest named. Collective. */
typedef enum clt_ranks_when { CLT_RANKS_START, CLT_RANKS_EARLY, CLT_RANKS_END } clt_ranks_when;
clt_status clt_tell_ranks(clt_loop *loop, clt_ranks_when when);
/* One line of advice at the end. Rank 0 speaks for all: the others' devices wait for the same things. */
clt_status clt_tell_advice(const clt_loop *loop);
/* profile.txt, profile.json and trace.json in the run folder. */
clt_status clt_tell_profile(const clt_loop *loop);
/* trainer_histograms.c: are histograms for TensorBoard wanted after `step` steps? All ranks say the same.
 * Writes those of the newest step's gradients and of the parameters; all steps must have finished. */
bool clt_histograms_due(const clt_loop *loop, int64_t step);
clt_status clt_tell_histograms(clt_loop *loop, int64_t step);
/* trainer_sample.c: texts on the way (log.sample_prompt, log.sample_every), on device objects of their own,
 * which the training does not notice. That there is no room for them or no tokenizer is said once. open:
 * before the first step. due: all ranks say the same. */
void clt_sampler_open(clt_loop *loop);
void clt_sampler_close(clt_loop *loop);
bool clt_sample_due(const clt_loop *loop, int64_t step);
void clt_tell_sample(clt_loop *loop, int64_t step); /* all steps must have finished */
/* The last line of metrics.jsonl: "stopped" with its reason or "end". CLT_ESTORAGE: lines of the file could
 * not be written. */
clt_status clt_tell_end(const clt_loop *loop, bool stopped);
/* The run ends with an error of this thread, which stays what it is. */
void clt_tell_failed(const clt_loop *loop, clt_status status);

#endif
