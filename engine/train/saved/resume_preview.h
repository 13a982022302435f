/* SPDX-License-Identifier: Apache-2.0
 *
 * Previews resuming for a dry run, which has a job but no device objects (resume.c). The checkpoint is
 * opened and verified, and compared with the job as clt_run_resume compares it; no value is loaded. */
#ifndef ENGINE_TRAIN_SAVED_RESUME_PREVIEW_H
#define ENGINE_TRAIN_SAVED_RESUME_PREVIEW_H

#include "engine/train/run/run.h"
#include "engine/train/saved/saver.h"

typedef struct clt_resume_preview {
    clt_resumed from;
    int64_t step;
    uint32_t update;
    clt_continuation continuation;
    clt_saved_state state;
} clt_resume_preview;

/* Refuses what clt_run_resume refuses; sets step, update and continuation. Needs the job's data, no plan. */
clt_status clt_resume_preview_check(clt_resume_preview *preview, const clt_job *job);
/* Sets the members of `state` that tell of the best checkpoint, as clt_run_resume would. With `tells` it also
 * logs the warnings that clt_run_resume would log. The job must have its plans. */
void clt_resume_preview_warn(clt_resume_preview *preview, const clt_job *job, bool tells);
void clt_resume_preview_close(clt_resume_preview *preview);
CLT_SCOPED_VALUE(clt_resume_preview, clt_resume_preview_close)

#endif
