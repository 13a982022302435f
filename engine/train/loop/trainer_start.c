/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides what training and dry run need to know before the first step: whether they resume, whether the run
 * folder is free, whether a step is left. Also contains the dry run. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/files/fileio.h"
#include "engine/train/eval/eval_metrics.h"
#include "engine/train/inspect/startup.h"
#include "engine/train/job/tuned.h"
#include "engine/train/loop/trainer_loop.h"
#include "engine/train/ranks/preflight.h"
#include "engine/train/saved/known_table.h"
#include "engine/train/saved/resume_preview.h"

bool clt_continues(const clt_run_options *o)
{
    return o->resume && strcmp(o->resume, "none") != 0 &&
           (strcmp(o->resume, "auto") == 0 || (o->out_dir && clt_same_folder(o->resume, o->out_dir)));
}

bool clt_first_rank(const clt_run_options *o)
{
    return !o->comm || comm_describe(o->comm)->rank == 0;
}

/* Paths of checkpoints in the run folder must fit into 1024 bytes wherever they are kept. */
#define LONGEST_PATH 880
clt_status clt_check_folder(const clt_run_options *o, clt_lock **lock)
{
    CLT_FREED char *path = NULL, *config = NULL;
    *lock = NULL;
    if (!o->out_dir || !clt_first_rank(o))
        return CLT_OK;
    if (strlen(o->out_dir) > LONGEST_PATH)
        CLT_FAIL(CLT_EUSAGE, "the path of the run folder has %zu bytes; it may have at most %d",
                 strlen(o->out_dir), LONGEST_PATH);
    CLT_TRY(clt_mkdir_possible(o->out_dir));
    if (!clt_continues(o))
        return clt_rundir_check_free(o->out_dir);
    CLT_TRY(clt_path_join(o->out_dir, "lock", &path));
    CLT_TRY(clt_path_join(o->out_dir, "config.resolved.json", &config));
    return clt_file_exists(config) ? clt_lock_acquire(path, lock) : CLT_OK; /* else not a run's folder */
}

int64_t clt_steps_now(const clt_run_options *o, const clt_job *job)
{
    return o->max_steps > 0 && o->max_steps < job->steps ? o->max_steps : job->steps;
}

const char *clt_complete(const clt_run_options *o, const clt_job *job, int64_t step,
                         const clt_saved_state *state)
{
    if (state->owes)
        return NULL;
    if (step >= job->steps)
        return clt_config_int(o->config, "train.steps") > 0
                   ? "the run is complete: there is no step left; a larger train.steps makes it longer"
                   : "the run is complete: there is no step left; a larger train.epochs makes it longer";
    if (step >= clt_steps_now(o, job))
        return "the run is complete up to --max-steps; a larger one, or none, lets it continue";
    if (clt_state_ends(o->config, state))
        return "the run is complete: it has ended early (train.early_stop_evals); a larger "
               "train.early_stop_evals, or 0, lets it continue";
    return NULL;
}

/* --- the dry run --- */

static void tell(const clt_run_options *options, const char *text)
{
    if (options->observer.message)
        options->observer.message(options->observer.context, text);
}

/* Reports what a resumed training says before its start-up table. */
static void tell_resumed(const clt_run_options *options, const clt_job *job, const clt_resume_preview *p)
{
    char text[1200];
    bool warning;
    if (!p->from.saved)
        return;
    snprintf(text, sizeof text, "would resume from %s at step %lld", p->from.path, (long long)p->step);
    tell(options, text);
    for (int i = 0;
         clt_continuation_line(&p->continuation, job, p->step, p->update, i, &warning, text, sizeof text);
         i++)
        tell(options, text);
    const char *complete = clt_complete(options, job, p->step, &p->state);
    if (complete)
        tell(options, complete);
}

/* Reports the part of the start-up table that is known without a run. */
static void tell_table(const clt_run_options *options, const clt_job *job, const clt_resume_preview *p,
                       const clt_weights_taken *taken)
{
    clt_table_row rows[CLT_STARTUP_ROWS];
    int count = clt_startup_job_rows(job, p->from.saved ? p->from.name : NULL, taken, rows);
    if (options->observer.start)
        options->observer.start(options->observer.context, rows, count);
}

/* Describes the device that would train the job on this rank, with this rank's share of its memory. Refuses
 * what the run would refuse about its ranks. Collective. */
static clt_status describe_device(const clt_run_options *options, clt_job *job, ocl_device_desc *desc)
{
    clt_run run = {.job = job};
    clt_nearness near;
    int sharing;
    CLT_SCOPED(ocl_device) *device = NULL;
    clt_run_begin(&run, options);
    CLT_TRY(clt_preflight_config(&run));
    CLT_TRY(clt_run_open_device(&run));
    device = run.device;
    clt_find_near_cores(&run, &near);
    CLT_TRY(clt_preflight(&run, &near, &sharing));
    *desc = *ocl_device_describe(device);
    return CLT_OK;
}

clt_status clt_dry_run(const clt_run_options *options, clt_run_result *result)
{
    const clt_update_order order = {0};
    bool first = clt_first_rank(options);
    clt_weights_taken taken = {0};
    ocl_device_desc desc;
    CLT_SCOPED(clt_lock) *lock = NULL; /* refuses a run that still trains, as resuming would */
    CLT_SCOPED(clt_resume_preview) preview = {.state = CLT_SAVED_STATE_NEW};
    CLT_SCOPED(ocl_tuning) *set = NULL; /* the job's plans borrow its records */
    CLT_SCOPED(clt_job) *job = NULL;
    CLT_TRY(clt_meter_check(options));
    CLT_TRY(clt_gauges_check(options));
    CLT_TRY(clt_check_folder(options, &lock));
    CLT_TRY(clt_resumed_open(options, NULL, &preview.from));
    CLT_TRY(clt_known_job(options, &preview.from, CLT_JOB_TRAIN, &job));
    CLT_TRY(clt_eval_classes_check(job));
    if (!preview.from.path[0])
        CLT_TRY(clt_run_check_init(options, job, &taken));
    CLT_TRY(clt_resume_preview_check(&preview, job));
    CLT_TRY(describe_device(options, job, &desc));
    CLT_TRY(clt_tuned_describe(options->config, &desc, &set));
    CLT_TRY(clt_job_choose_micro_batch(job, &desc, &order));
    CLT_TRY(clt_job_plan(job, &desc, &order));
    result->parameters = (uint64_t)clt_graph_param_elements(job->train->graph);
    result->device_bytes = clt_plan_memory(job->train, job->eval).total;
    clt_resume_preview_warn(&preview, job, first);
    if (first) {
        CLT_TRY(clt_best_preview(options, preview.from.path, &preview.state));
        tell_resumed(options, job, &preview);
        tell_table(options, job, &preview, &taken);
    }
    return clt_job_check_memory(job);
}
