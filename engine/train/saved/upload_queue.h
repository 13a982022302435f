/* SPDX-License-Identifier: Apache-2.0
 *
 * The checkpoints that wait to be uploaded: which one is next, and which ones are dropped because newer ones
 * wait. Only the newest one and the ones that stay in the bucket for good keep waiting, so that the
 * queue does not grow with the run. A failed upload is retried after all others have been tried, so that
 * none waits for one that never succeeds. The queue has no lock. */
#ifndef ENGINE_TRAIN_SAVED_UPLOAD_QUEUE_H
#define ENGINE_TRAIN_SAVED_UPLOAD_QUEUE_H

#include "engine/base/mem.h"

typedef struct clt_due_upload {
    int64_t step;
    bool tried; /* the upload has failed since the newest one that succeeded, or the newest pause */
    bool told;  /* the upload has failed, and a warning has said so */
} clt_due_upload;

typedef struct clt_upload_queue {
    clt_due_upload *due; /* uploads in ascending order of steps */
    size_t count, capacity;
    /* the newest step that is complete in the bucket; -1: none, or (at the start) it comes after the step
     * that the run resumed from */
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
/* Queues an upload. A step that is neither the newest nor stays for good is forgotten. */
clt_status clt_upload_queue_add(clt_upload_queue *queue, const clt_due_upload *due);
/* Returns the upload to try next, among those that have not been tried: the newest, because a run resumes
 * from it, else the best, else the oldest. NULL: all that wait have been tried, or none waits. */
const clt_due_upload *clt_upload_queue_next(const clt_upload_queue *queue);
/* Takes that upload off the queue; false: there is none. */
bool clt_upload_queue_take(clt_upload_queue *queue, clt_due_upload *out);
/* An upload has succeeded: all that wait may be tried again. */
void clt_upload_queue_arrived(clt_upload_queue *queue, int64_t step);
/* Allows all uploads that wait to be tried again. */
void clt_upload_queue_again(clt_upload_queue *queue);
/* True if an upload still waits whose failure was reported by a warning. */
bool clt_upload_queue_told(const clt_upload_queue *queue);
void clt_upload_queue_free(clt_upload_queue *queue);
CLT_SCOPED_VALUE(clt_upload_queue, clt_upload_queue_free)

#endif
