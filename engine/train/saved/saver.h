/* SPDX-License-Identifier: Apache-2.0
 *
 * The saver: writes checkpoints while training goes on. A snapshot consists of device reads enqueued after
 * the optimizer of step N; a writer thread waits for them, checks that every value is finite, and writes the
 * files. One save is in flight at a time. */
#ifndef ENGINE_TRAIN_SAVER_H
#define ENGINE_TRAIN_SAVER_H

#include "engine/checkpoint/checkpoint.h"
#include "engine/train/run/run.h"

typedef struct clt_saver clt_saver;

/* What a resumed run needs besides tensors and the state block. */
typedef struct clt_saved_state {
    double best_eval_loss; /* NAN: none yet */
    int64_t best_step;     /* -1 */
} clt_saved_state;

typedef struct clt_save_result {
    int64_t step;
    double seconds;
    char path[1024];
    clt_error error; /* status CLT_OK: the checkpoint is complete and synced to disk */
} clt_save_result;

clt_status clt_saver_create(clt_run *run, const char *folder, clt_saver **out);
/* Waits for the save in flight, if any. */
void clt_saver_destroy(clt_saver *saver);
/* Enqueues the snapshot of step `step`. Sleeps while an earlier save is being written (call poll first to get
 * its result). */
clt_status clt_saver_begin(clt_saver *saver, int64_t step, const clt_saved_state *state,
                           const clt_retention *retention);
/* Takes the result of a finished save. wait: sleeps until the save in flight is done. */
void clt_saver_poll(clt_saver *saver, bool wait, clt_save_result *result, bool *have);

#endif
