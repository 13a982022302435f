/* SPDX-License-Identifier: Apache-2.0
 *
 * The saver: writes checkpoints while training goes on. A snapshot consists of device reads enqueued after
 * the optimizer of step N; a writer thread waits for them, checks that every value is finite, and writes the
 * files. One save is in flight at a time.
 *
 * With several ranks each of them writes its part (saved_part.h), in rounds:
 *
 *   write     every rank writes its part into the files of a temporary folder, and syncs
 *   place     rank 0 adds the rest and gives the folder its name
 *   verify    every rank reads an equal part of the files, if older checkpoints are to be deleted
 *   retain    rank 0 deletes older checkpoints
 *
 * The writer threads do not communicate. A round ends when all ranks have reported that they have finished
 * it: with the words that ranks exchange in each step (trainer_decide.c), or because all of them wait for
 * the save. */
#ifndef ENGINE_TRAIN_SAVED_SAVER_H
#define ENGINE_TRAIN_SAVED_SAVER_H

#include "engine/checkpoint/checkpoint.h"
#include "engine/train/run/run.h"

typedef struct clt_saver clt_saver;

/* State that a resumed run needs besides tensors and the state block. */
typedef struct clt_saved_state {
    double best_eval_loss; /* NAN: none yet */
    /* The best evaluation so far: the figure it was chosen by (checkpoint.best; NONE: loss), its value, and
     * its step; -1: none. */
    int best;
    double best_value;
    int64_t best_step;
    /* Early stop: the figure to improve on by more than train.early_stop_delta (NAN: none yet), and how many
     * evaluations in a row have not done so. */
    double stop_value;
    int64_t stop_evals;
    /* The evaluation due at this step was skipped, because the budget was reached. The resumed run does it
     * first. */
    bool owes;
} clt_saved_state;
/* The state before the first evaluation. */
#define CLT_SAVED_STATE_NEW                                                                                  \
    {                                                                                                        \
        .best_eval_loss = NAN, .best_value = NAN, .best_step = -1, .stop_value = NAN                         \
    }

typedef struct clt_save_result {
    int64_t step;
    double seconds;
    double begun, read; /* clt_now() when the device's queue became busy with the save, and free again */
    char path[1024];
    clt_error error; /* the same error on all ranks. CLT_OK: the checkpoint is complete and synced to disk */
} clt_save_result;

/* folder: the checkpoints folder on rank 0; others pass NULL. Collective, as are begin and poll. */
clt_status clt_saver_create(clt_run *run, const char *folder, clt_saver **out);
/* To be called before the first save. uploading: returns the step whose files an upload needs, which must
 * not be deleted meanwhile; 0: none. The writer's thread calls it. */
void clt_saver_ask(clt_saver *saver, int64_t (*uploading)(void *context), void *context);
/* Waits for this rank's part of the save in flight, if any. With several ranks that save is lost: its files
 * stay until the next save or run removes them, because other ranks may still write. */
void clt_saver_destroy(clt_saver *saver);
CLT_SCOPED_POINTER(clt_saver, clt_saver_destroy)
/* Enqueues the snapshot of step `step`. No save may be in flight (call poll first). If the save cannot
 * begin, the next poll gives its error. */
clt_status clt_saver_begin(clt_saver *saver, int64_t step, const clt_saved_state *state,
                           const clt_retention *retention);
/* True if this rank has finished its part of a round that the ranks have not ended together yet. */
bool clt_saver_waits(clt_saver *saver);
/* Takes the result of a save, if there is one. LOOK: never waits. MEET: all ranks have finished a round, so
 * they end it and begin the next one. WAIT: sleeps until no save is in flight. Fails if communication
 * fails. */
typedef enum clt_saver_poll_kind { CLT_SAVER_LOOK, CLT_SAVER_MEET, CLT_SAVER_WAIT } clt_saver_poll_kind;
clt_status clt_saver_poll(clt_saver *saver, clt_saver_poll_kind kind, clt_save_result *result, bool *have);

#endif
