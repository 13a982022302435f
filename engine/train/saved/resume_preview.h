/* SPDX-License-Identifier: Apache-2.0
 *
 * What resuming would do, for a dry run, which has a job but no device objects (resume.c). The checkpoint is
 * opened and verified, and compared with the job as clt_run_resume compares it; no value is loaded. */
#ifndef ENGINE_TRAIN_SAVED_RESUME_PREVIEW_H
#define ENGINE_TRAIN_SAVED_RESUME_PREVIEW_H

#include "engine/train/run/run.h"
#include "engine/train/saved/saver.h"

typedef struct clt_resume_preview {
    struct clt_checkpoint *saved; /* NULL: there is nothing to resume, the run would begin at step 0 */
    char from[1024];              /* the folder that options->resume refers to; "" without a checkpoint */
    int64_t micro_batch; /* what data.micro_batch auto chose in the run that is resumed; 0: unknown */
    int64_t step;
    uint32_t update;
    clt_continuation continuation;
    clt_saved_state state;
} clt_resume_preview;

/* Finds and opens the checkpoint. The caller closes the preview, also after a failure. */
clt_status clt_resume_preview_open(const clt_run_options *options, clt_resume_preview *out);
/* Refuses what clt_run_resume refuses; sets step, update and continuation. Needs the job's data, no plan. */
clt_status clt_resume_preview_check(clt_resume_preview *preview, const clt_job *job);
/* tells: logs the warnings of clt_run_resume. Sets state. The job is planned. */
void clt_resume_preview_warn(clt_resume_preview *preview, const clt_job *job, bool tells);
void clt_resume_preview_close(clt_resume_preview *preview);

#endif
