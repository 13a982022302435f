/* SPDX-License-Identifier: Apache-2.0
 *
 * Resuming a saved run: what may differ between the run that saved a checkpoint and the run that resumes
 * from it. Keys that only affect where and how fast it runs may differ; the run may get longer, and its
 * schedule with it; the data may be in another place if its content is the same. Any other difference is
 * an error. */
#ifndef ENGINE_TRAIN_JOB_CONTINUATION_H
#define ENGINE_TRAIN_JOB_CONTINUATION_H

#include "engine/base/hash.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/train/job/job.h"

/* The checkpoint that a training resumes from. It is opened and verified once, before anything is
 * planned. */
typedef struct clt_resumed {
    const char *name;      /* the folder as the options name it; "": nothing is resumed */
    char path[1024];       /* the checkpoint's folder, the same on all ranks; "": none, the run is new */
    clt_checkpoint *saved; /* open until its values are loaded; NULL: none */
    int64_t micro_batch;   /* size that data.micro_batch auto chose in the run that is resumed; 0: unknown */
    int64_t global_batch;  /* samples per step in the run that is resumed; 0: unknown */
} clt_resumed;

typedef struct clt_continuation {
    /* learning rate and weight decay of the config before and now; valid if `rate_changed` */
    bool rate_changed;
    double rate_before, rate_now, decay_before, decay_now;
    int64_t micro_before; /* micro-batch of the saved run; 0: unknown */
    /* number of samples over which batch norms take their statistics: a micro-batch, or with
     * parallel.sync_batch_norm the micro-batches of all ranks; norm_before 0: unknown */
    int64_t norm_before, norm_now;
    bool longer; /* the run was to end after steps_before and is now to end after steps_now */
    int64_t steps_before, steps_now;
    clt_schedule schedule_before; /* schedule of the saved run; valid if `longer` */
    bool data_moved;              /* the config names other files with the same content */
    bool data_changed;            /* the config names the same files, but their content has changed */
    bool eval_changed;            /* the content of the evaluation data has changed */
    bool eval_other; /* evaluations give another figure for checkpoint.best: the data or keys have changed */
    char fingerprint[CLT_HASH64_TEXT], eval_fingerprint[CLT_HASH64_TEXT]; /* of the data now; "": unknown */
} clt_continuation;

/* Compares a checkpoint with the job that is to resume from it; the job's data is open. CLT_ECONFIG lists
 * the keys that have changed but must not; CLT_EDATA: other training data, or another tokenizer. If the
 * config of a checkpoint is not known (an old one that was moved out of its run folder), keys are not
 * compared. */
clt_status clt_continuation_check(const clt_checkpoint *saved, const clt_job *job, clt_continuation *out);

/* Writes line `index` of what the user should know, without a newline; *warning: the line is a warning.
 * Returns false if there is no such line. update: number of updates so far. */
bool clt_continuation_line(const clt_continuation *c, const clt_job *job, int64_t step, uint32_t update,
                           int index, bool *warning, char *text, size_t size);

#endif
