/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds what fits into a device's memory: tries micro-batches by planning with them, and keeps derived
 * tensors where there is room for them. */
#include "engine/train/job/job.h"

static uint64_t need(const clt_job *job)
{
    return clt_plan_memory(job->train, job->eval).total;
}

static clt_status plan_both(clt_job *job, bool train, bool eval)
{
    if (train)
        CLT_TRY(clt_job_plan_train(job));
    return eval ? clt_job_plan_eval(job) : CLT_OK;
}

clt_status clt_job_plan_both(clt_job *job, bool train, bool eval)
{
    job->transient = false;
    CLT_TRY(plan_both(job, train, eval));
    bool keeps = (job->train && job->train->n_derived) || (job->eval && job->eval->n_derived);
    if (!keeps || need(job) <= job->desc.usable_bytes)
        return CLT_OK;
    clt_plan_destroy(job->eval); /* first: it borrows the training plan's layout */
    clt_plan_destroy(job->train);
    job->train = job->eval = NULL;
    job->transient = true;
    return plan_both(job, train, eval);
}

/* The plans that a job has, or would have if they fitted into memory. */
typedef struct wanted_plans {
    bool train, eval;
} wanted_plans;

/* Plans again with another micro-batch; *fits is false when that plan does not fit into the device's memory.
 * Fails only if the host lacks memory. */
static clt_status micro_batch_fits(const clt_job *job, wanted_plans wanted, int64_t micro, bool *fits)
{
    clt_job trial = *job;
    trial.micro_batch = micro;
    trial.accumulation = clt_job_max_micro_batches(&trial);
    trial.train = trial.eval = NULL;
    clt_error kept;
    clt_error_save(&kept);
    clt_status status = clt_job_plan_both(&trial, wanted.train, wanted.eval);
    *fits = status == CLT_OK && need(&trial) <= job->desc.usable_bytes;
    clt_plan_destroy(trial.eval);
    clt_plan_destroy(trial.train);
    if (status == CLT_ENOMEM)
        return status;
    clt_error_restore(&kept);
    return CLT_OK;
}

/* *best: the largest micro-batch that fits; 0: none. If the global batch is given, *best divides it and
 * leaves every rank something to do; otherwise it is a power of two, and with data.micro_batch auto not
 * more than the samples per rank. */
static clt_status largest_micro_batch(const clt_job *job, wanted_plans wanted, int64_t *best)
{
    bool fits = true;
    *best = 0;
    if (job->given_global > 0) {
        for (int64_t micro = clt_job_next_micro_batch(job, INT64_MAX); micro > 0 && *best == 0;
             micro = clt_job_next_micro_batch(job, micro)) {
            CLT_TRY(micro_batch_fits(job, wanted, micro, &fits));
            *best = fits ? micro : 0;
        }
        return CLT_OK;
    }
    clt_job trial = *job;
    int64_t most = clt_job_micro_batch_limit(job);
    for (int64_t micro = 1; micro <= most && fits; micro *= 2) {
        trial.global_batch = micro * job->ranks;
        CLT_TRY(micro_batch_fits(&trial, wanted, micro, &fits));
        *best = fits ? micro : *best;
    }
    return CLT_OK;
}

clt_status clt_job_fits(const clt_job *job, int64_t micro_batch, int64_t global_batch, bool *fits)
{
    clt_job trial = *job;
    trial.global_batch = global_batch;
    return micro_batch_fits(&trial, (wanted_plans){job->train != NULL, job->eval != NULL}, micro_batch, fits);
}

clt_status clt_job_activations(const clt_job *job, clt_recompute tier, uint64_t *bytes)
{
    clt_job trial = *job;
    trial.recompute = tier;
    trial.train = NULL;
    CLT_TRY(clt_job_plan_train(&trial));
    *bytes = clt_plan_memory(trial.train, job->eval).activations;
    clt_plan_destroy(trial.train);
    return CLT_OK;
}

clt_status clt_job_largest_micro_batch(const clt_job *job, int64_t *out)
{
    return largest_micro_batch(job, (wanted_plans){job->train != NULL, job->eval != NULL}, out);
}

/* The plans that the job is to have. */
static wanted_plans wanted_of(const clt_job *job)
{
    return (wanted_plans){job->kind != CLT_JOB_EVAL, job->eval_source != NULL};
}

/* Adds a micro-batch that would fit to the error, which says that the device lacks memory. */
clt_status clt_job_name_what_fits(const clt_job *job)
{
    clt_error error;
    int64_t fits;
    clt_error_take(CLT_EDEVMEM, &error);
    CLT_TRY(largest_micro_batch(job, wanted_of(job), &fits));
    if (fits > 0)
        CLT_FAIL(CLT_EDEVMEM, "%.3900s; data.micro_batch=%lld fits", error.text, (long long)fits);
    CLT_FAIL(CLT_EDEVMEM, "%.3900s; no data.micro_batch fits: use a smaller model or a larger device",
             error.text);
}

clt_status clt_job_find_micro_batch(clt_job *job, const ocl_device_desc *desc, const clt_update_order *order,
                                    int64_t *out)
{
    int64_t recorded = job->recorded_micro;
    bool fits = false;
    *out = job->micro_batch;
    if (!job->auto_micro)
        return CLT_OK;
    clt_job_see(job, desc, order);
    if (recorded > 0 && clt_job_allows_micro_batch(job, recorded))
        CLT_TRY(micro_batch_fits(job, wanted_of(job), recorded, &fits));
    if (!fits)
        CLT_TRY(largest_micro_batch(job, wanted_of(job), &recorded));
    if (recorded == 0) /* nothing fits: planning with the smallest size reports what is missing */
        for (int64_t next = INT64_MAX; (next = clt_job_next_micro_batch(job, next)) > 0;)
            recorded = next;
    *out = recorded;
    return CLT_OK;
}

clt_status clt_job_choose_micro_batch(clt_job *job, const ocl_device_desc *desc,
                                      const clt_update_order *order)
{
    int64_t micro;
    CLT_TRY(clt_job_find_micro_batch(job, desc, order, &micro));
    return job->auto_micro ? clt_job_set_micro_batch(job, micro) : CLT_OK;
}

clt_status clt_job_check_memory(const clt_job *job)
{
    clt_memory_report r = clt_plan_memory(job->train, job->eval);
    if (r.total <= job->desc.usable_bytes)
        return CLT_OK;
    const char *largest = "activations";
    uint64_t most = r.activations;
    if (r.params > most)
        largest = "parameters", most = r.params;
    if (r.optimizer > most)
        largest = "optimizer state", most = r.optimizer;
    int64_t fits;
    CLT_TRY(clt_job_largest_micro_batch(job, &fits));
    CLT_FAIL(CLT_EDEVMEM,
             "planning: the run needs %.1f MiB but device '%s' can give %.1f MiB (largest part: %s, %.1f "
             "MiB); %s%.0lld%s",
             (double)r.total / 1048576.0, job->desc.name, (double)job->desc.usable_bytes / 1048576.0, largest,
             (double)most / 1048576.0,
             fits ? "data.micro_batch=" : "no micro-batch fits: use a smaller model or a larger device",
             (long long)fits, fits ? " fits" : "");
}
