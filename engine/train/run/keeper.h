/* SPDX-License-Identifier: Apache-2.0
 *
 * The keeper: when checkpoints are made and what happens when one cannot be written. Training goes on after a
 * failed save, with a message and the older checkpoints in place; three failures in a row end the run. */
#ifndef ENGINE_TRAIN_KEEPER_H
#define ENGINE_TRAIN_KEEPER_H

#include "engine/train/run/run_options.h"
#include "engine/train/saved/saver.h"

#define CLT_KEEPER_FAILURES 3

/* Why a checkpoint is made. */
typedef enum clt_save_reason {
    CLT_SAVE_INTERVAL, /* checkpoint.every */
    CLT_SAVE_TIME,     /* checkpoint.minutes */
    CLT_SAVE_BEST,     /* checkpoint.best */
    CLT_SAVE_FINAL,    /* the run is complete */
    CLT_SAVE_STOP      /* the run was asked to stop */
} clt_save_reason;
const char *clt_save_reason_name(clt_save_reason reason); /* "interval" */

typedef struct clt_keeper {
    clt_run *run;
    clt_saver *saver; /* NULL: this rank writes nothing */
    clt_saved_state state;
    int64_t newest;         /* step of the newest save that was begun and has not failed; -1 */
    int failures;           /* in a row */
    clt_save_reason reason; /* of that save */
    clt_run_result *result;
    /* A checkpoint is complete; one could not be written and the run goes on. */
    void (*saved)(void *context, const clt_save_result *result, clt_save_reason reason);
    void (*warn)(void *context, const char *text);
    void *context; /* of both */
} clt_keeper;

/* folder NULL: nothing is ever written. */
clt_status clt_keeper_open(clt_keeper *keeper, clt_run *run, const char *folder);
void clt_keeper_close(clt_keeper *keeper);
/* Starts a checkpoint of the parameters as they are after `step`, unless there is one already. */
clt_status clt_keeper_save(clt_keeper *keeper, int64_t step, clt_save_reason reason);
/* Looks at saves that have finished; wait: until there is none in flight. CLT_ESTORAGE after three failures
 * in a row; CLT_ENUMERIC when parameters are not finite. */
clt_status clt_keeper_poll(clt_keeper *keeper, bool wait);
/* The last checkpoint of a run: tries until `step` is saved or three saves in a row have failed. */
clt_status clt_keeper_finish(clt_keeper *keeper, int64_t step, clt_save_reason reason);
/* Takes note of an evaluation; *best: it is the best so far. */
void clt_keeper_note(clt_keeper *keeper, const clt_eval_metrics *metrics, bool *best);

#endif
