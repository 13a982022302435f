/* SPDX-License-Identifier: Apache-2.0
 *
 * Going on with a saved run: what may differ between the run that saved a checkpoint and the one that resumes
 * from it. Keys that only change where and how fast it runs may; the length may grow, and the schedule with
 * it; the data may lie elsewhere if its content is the same. Everything else would be another run. */
#ifndef ENGINE_TRAIN_CONTINUATION_H
#define ENGINE_TRAIN_CONTINUATION_H

#include "engine/checkpoint/checkpoint.h"
#include "engine/train/run/job.h"

typedef struct clt_continuation {
    bool longer; /* the run was to end after steps_before, and now goes on to steps_now */
    int64_t steps_before, steps_now;
    clt_schedule schedule_before; /* of the saved run; valid when `longer` */
    bool data_moved;              /* the config names other files, whose content is the same */
    bool data_changed;            /* the config names the same files, whose content is another one */
    bool eval_changed;            /* the evaluation data is another one */
} clt_continuation;

/* Compares a checkpoint with a job that is to go on from it; the job's data is open. CLT_ECONFIG lists the
 * keys that have changed and must not; CLT_EDATA: other training data, or another tokenizer. A checkpoint of
 * which no config is known (an older one, moved out of its run folder) is taken as it is. */
clt_status clt_continuation_check(const clt_checkpoint *saved, const clt_job *job, clt_continuation *out);

/* What to tell the user, a line each without its end; *warning: something is not as it should be. Returns
 * false when there is no line `index`. update: updates made so far. */
bool clt_continuation_line(const clt_continuation *c, const clt_job *job, int64_t step, uint32_t update,
                           int index, bool *warning, char *text, size_t size);

#endif
