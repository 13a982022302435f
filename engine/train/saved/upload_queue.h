/* SPDX-License-Identifier: Apache-2.0
 *
 * The checkpoints that wait to be uploaded: which one is the next, and which ones wait no longer since newer
 * ones are there. Of the waiting ones only the newest, and the ones that stay in the bucket for good, keep
 * waiting, so that the queue does not grow with the run. An upload that fails is tried again after all others
 * have been tried, so that none waits for one that never succeeds. The queue has no lock. */
#ifndef ENGINE_TRAIN_SAVED_UPLOAD_QUEUE_H
#define ENGINE_TRAIN_SAVED_UPLOAD_QUEUE_H

#include "engine/base/mem.h"

typedef struct clt_due_upload {
    int64_t step;
    bool tried; /* it has failed since the newest upload that succeeded, or the newest pause */
    bool told;  /* it has failed, and a warning has said so */
} clt_due_upload;

typedef struct clt_upload_queue {
    clt_due_upload *due; /* in ascending order of steps */
    size_t count, capacity;
    /* the newest step that is complete in the bucket; -1: none, or only some after which the run goes on */
    int64_t newest;
    int64_t best;  /* the best step in the run folder; -1: none */
    int64_t major; /* checkpoint.major */
} clt_upload_queue;

#define CLT_UPLOAD_QUEUE_EMPTY                                                                               \
    {                                                                                                        \
        .newest = -1, .best = -1                                                                             \
    }

/* Whether an uploaded step stays in the bucket, however many newer ones there are. */
bool clt_upload_stays(const clt_upload_queue *queue, int64_t step);
/* Makes an upload wait. One that stays neither as the newest nor for good is forgotten. */
clt_status clt_upload_queue_add(clt_upload_queue *queue, const clt_due_upload *due);
/* The upload that is tried next, of the ones that have not been tried: the newest, since a run goes on from
 * it, else the best, else the oldest. NULL: all that wait have been tried, or none waits. */
const clt_due_upload *clt_upload_queue_next(const clt_upload_queue *queue);
/* Takes it off the queue; false: there is none. */
bool clt_upload_queue_take(clt_upload_queue *queue, clt_due_upload *out);
/* An upload has succeeded: all that wait may be tried again. */
void clt_upload_queue_arrived(clt_upload_queue *queue, int64_t step);
/* All that wait may be tried again. */
void clt_upload_queue_again(clt_upload_queue *queue);
/* Whether a warning has told of the failure of one that still waits. */
bool clt_upload_queue_told(const clt_upload_queue *queue);
void clt_upload_queue_free(clt_upload_queue *queue);
CLT_SCOPED_VALUE(clt_upload_queue, clt_upload_queue_free)

#endif
