/* SPDX-License-Identifier: Apache-2.0
 *
 * The keeper: the policy on checkpoints. It decides when they are saved, and what happens when one cannot be
 * written: training continues with a warning, and older checkpoints stay; three failures in a row end the
 * run. Every rank has a keeper, and all decide the same. */
#ifndef ENGINE_TRAIN_LOOP_KEEPER_H
#define ENGINE_TRAIN_LOOP_KEEPER_H

#include "engine/train/job/run_options.h"
#include "engine/train/saved/saver.h"

#define CLT_KEEPER_FAILURES 3

/* The reason for a checkpoint. */
typedef enum clt_save_reason {
    CLT_SAVE_INTERVAL, /* checkpoint.every */
    CLT_SAVE_TIME,     /* checkpoint.minutes */
    CLT_SAVE_BEST,     /* checkpoint.best */
    CLT_SAVE_FINAL,    /* the run is complete */
    CLT_SAVE_STOP,     /* the run was asked to stop */
    CLT_SAVE_ERROR     /* the run ends because its data or its storage has failed */
} clt_save_reason;
const char *clt_save_reason_name(clt_save_reason reason); /* "interval" */

/* A best evaluation. */
typedef struct clt_best_evaluation {
    int64_t step; /* -1: none */
    double value;
} clt_best_evaluation;

typedef struct clt_keeper {
    clt_run *run;
    clt_saver *saver; /* NULL: nothing is ever saved */
    /* With checkpoint.best its best evaluation has a checkpoint that is complete, being saved, or about to
     * be saved. If that save fails, the previous best evaluation takes its place again. */
    clt_saved_state state;
    clt_best_evaluation kept;  /* the best one whose checkpoint is complete */
    clt_best_evaluation tried; /* the best evaluation that the newest save is made for; step -1: none */
    int64_t newest;            /* step of the newest save that has begun and not failed; -1 none */
    int failures;              /* consecutive failed saves */
    clt_save_reason reason;    /* reason of the newest save */
    clt_run_result *result;
    /* saved: called when a checkpoint is complete. warn: when one could not be written and training
     * continues. */
    void (*saved)(void *context, const clt_save_result *result, clt_save_reason reason);
    void (*warn)(void *context, const char *text);
    void *context; /* context for both functions */
} clt_keeper;

/* folder: the checkpoints folder on rank 0; NULL on the other ranks. The keeper begins with the state of the
 * resumed checkpoint, if a run is resumed. Collective. */
clt_status clt_keeper_open(clt_keeper *keeper, clt_run *run, const char *folder);
void clt_keeper_close(clt_keeper *keeper);
/* Begins a checkpoint of the parameters after `step`, unless that step has been saved. */
clt_status clt_keeper_save(clt_keeper *keeper, int64_t step, clt_save_reason reason);
/* Handles saves that have finished (clt_saver_poll). CLT_ESTORAGE after three failures in a row;
 * CLT_ENUMERIC when parameters are not finite. */
clt_status clt_keeper_poll(clt_keeper *keeper, clt_saver_poll_kind kind);
/* True if this rank has finished its part of a round of a save and waits for the others
 * (clt_saver_waits). */
bool clt_keeper_waits(const clt_keeper *keeper);
/* Makes the last checkpoint of a run: tries until `step` is saved or three saves in a row have failed. */
clt_status clt_keeper_finish(clt_keeper *keeper, int64_t step, clt_save_reason reason);
/* To be called when the best evaluation's checkpoint is lost: `best` takes its place; step -1: none does. */
void clt_keeper_replace_best(clt_keeper *keeper, const clt_best_evaluation *best);
/* To be called after an evaluation. *best: this evaluation is the best so far by checkpoint.best (none: by
 * its loss). counts: train.early_stop_evals counts it, because it was due by train.eval_every. */
void clt_keeper_note(clt_keeper *keeper, const clt_eval_metrics *metrics, bool counts, bool *best);
/* True if training must end: train.early_stop_evals evaluations in a row were no better than the best. */
bool clt_keeper_ends(const clt_keeper *keeper);
/* The same for a saved state. */
bool clt_state_ends(const clt_config *config, const clt_saved_state *state);

#endif
