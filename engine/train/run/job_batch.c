/* SPDX-License-Identifier: Apache-2.0
 *
 * The batch of a job: micro-batches of a step, and which of them each rank computes. */
#include "engine/train/run/job.h"

clt_decay_counts clt_job_decay(const clt_job *job)
{
    const clt_store_layout *layout = job->train->store;
    clt_decay_counts n = {0};
    for (int32_t i = 0; i < layout->n_slots; i++) {
        const clt_store_slot *slot = &layout->slots[i];
        bool decays = slot->trainable && slot->group == CLT_GROUP_DECAY;
        n.elements += decays ? (int64_t)slot->elements : 0;
        n.all_elements += slot->trainable ? (int64_t)slot->elements : 0;
        n.tensors += decays;
        n.all_tensors += slot->trainable;
    }
    return n;
}

int32_t clt_job_share(const clt_job *job, int rank, int64_t *first)
{
    int64_t all = job->global_batch / job->micro_batch, each = all / job->ranks, more = all % job->ranks;
    *first = each * rank + (rank < more ? rank : more);
    return (int32_t)(each + (rank < more));
}

float clt_job_part(const clt_job *job)
{
    int64_t first;
    return (float)((double)clt_job_share(job, job->rank, &first) * (double)job->micro_batch /
                   (double)job->global_batch);
}

int32_t clt_job_most(const clt_job *job)
{
    int64_t first;
    return clt_job_share(job, 0, &first);
}

/* Equal parts of a binary tree over all micro-batches. */
static clt_status check_tree(const clt_job *job, int64_t micro_batches)
{
    if ((micro_batches & (micro_batches - 1)) != 0)
        CLT_FAIL(
            CLT_ECONFIG,
            "batch: with parallel.rank_invariant the number of micro-batches in a step must be a power of "
            "two, and data.global_batch %lld is %lld times data.micro_batch %lld",
            (long long)job->global_batch, (long long)micro_batches, (long long)job->micro_batch);
    if ((job->ranks & (job->ranks - 1)) != 0)
        CLT_FAIL(CLT_ERANKS,
                 "batch: with parallel.rank_invariant the number of ranks must be a power of two, and there "
                 "are %d",
                 job->ranks);
    if (job->accumulation > 1 << CLT_MAX_LEVELS)
        CLT_FAIL(CLT_ERANKS,
                 "batch: with parallel.rank_invariant a rank can have at most %d micro-batches in a step, "
                 "and this is "
                 "%d; give a larger data.micro_batch or more ranks",
                 1 << CLT_MAX_LEVELS, job->accumulation);
    return CLT_OK;
}

clt_status clt_job_read_batch(clt_job *job)
{
    const clt_config *c = job->config;
    job->micro_batch = clt_config_int(c, "data.micro_batch");
    job->global_batch = clt_config_int(c, "data.global_batch");
    if (job->global_batch == 0)
        job->global_batch = job->micro_batch * job->ranks;
    if (job->global_batch % job->micro_batch != 0)
        CLT_FAIL(
            CLT_ECONFIG,
            "batch: data.global_batch %lld is not a multiple of data.micro_batch %lld; change one of them",
            (long long)job->global_batch, (long long)job->micro_batch);
    int64_t all = job->global_batch / job->micro_batch;
    if (all < job->ranks && job->kind != CLT_JOB_EVAL)
        CLT_FAIL(
            CLT_ERANKS,
            "batch: data.global_batch %lld has %lld micro-batches (data.micro_batch %lld), too few for %d "
            "ranks; give a smaller data.micro_batch, a larger data.global_batch or fewer ranks",
            (long long)job->global_batch, (long long)all, (long long)job->micro_batch, job->ranks);
    job->accumulation = clt_job_most(job);
    return clt_config_bool(c, "parallel.rank_invariant") && job->kind != CLT_JOB_EVAL ? check_tree(job, all)
                                                                                      : CLT_OK;
}
