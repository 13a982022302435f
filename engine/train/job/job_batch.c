/* SPDX-License-Identifier: Apache-2.0
 *
 * Computes a job's batch: micro-batches of a step, which ones each rank computes, and the number of
 * steps. */
#include "engine/train/job/job.h"

#include <float.h>
#include <math.h>

#include "engine/base/log.h"
#include "engine/base/text.h"

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

clt_status clt_job_steps(const clt_config *config, int64_t samples, int64_t global_batch, int64_t *out)
{
    *out = clt_config_int(config, "train.steps");
    if (*out == 0) {
        /* 0.29 epochs of 100 samples must be 29 steps, though 0.29 is a little less than that in binary */
        double steps = clt_config_float(config, "train.epochs") * (double)samples / (double)global_batch *
                       (1 + 4 * DBL_EPSILON);
        *out = steps < 1 ? 1 : steps > (double)(INT64_C(1) << 53) ? INT64_C(1) << 53 : (int64_t)floor(steps);
    }
    if (*out > (INT64_C(1) << 24))
        CLT_FAIL(CLT_ECONFIG, "train.steps: %lld; at most 16777216 steps are possible in one run",
                 (long long)*out);
    return CLT_OK;
}

/* Passes over text are counted in tokens, because shuffled windows of text overlap. */
clt_job_amount clt_job_reads(const clt_job *job)
{
    const clt_source *source = job->train_source;
    double samples = (double)job->steps * (double)job->global_batch;
    clt_job_amount a = {0};
    if (clt_source_type_of(job->config)->target_bytes) { /* text */
        a.step_tokens = job->global_batch * clt_graph_tokens(job->model);
        a.tokens = (double)job->steps * (double)a.step_tokens;
    }
    if (!job->data_missing[0] && source->samples > 0)
        a.passes = source->tokens > 0 && a.tokens > 0 ? a.tokens / (double)source->tokens
                                                      : samples / (double)source->samples;
    return a;
}

static void warn_if_shorter(const clt_job *job, const char *key, int64_t is)
{
    int64_t given = clt_config_int(job->config, key);
    if (is < given)
        CLT_WARN_ONCE(
            "%s is %lld instead of %lld, since the run has only %lld step%s: train.epochs=%g of %lld "
            "samples in batches of %lld",
            key, (long long)is, (long long)given, (long long)job->steps, CLT_PLURAL(job->steps),
            clt_config_float(job->config, "train.epochs"), (long long)job->train_source->samples,
            (long long)job->global_batch);
}

void clt_job_warn_of_length(const clt_job *job)
{
    bool trains = job->kind == CLT_JOB_TRAIN || job->kind == CLT_JOB_DESCRIBE;
    if (!trains || job->rank != 0 || job->data_missing[0] || job->train_source->samples < 1)
        return;
    int64_t samples = job->train_source->samples, least = job->global_batch / samples;
    warn_if_shorter(job, "schedule.warmup", job->schedule.warmup);
    warn_if_shorter(job, "schedule.decay_steps", job->schedule.decay_steps);
    if (job->global_batch > samples)
        CLT_WARN_ONCE(
            "a batch has %lld sample%s, and the training data only %lld: each step takes every sample %lld%s "
            "times; a smaller data.micro_batch or data.global_batch makes more steps of an epoch",
            (long long)job->global_batch, CLT_PLURAL(job->global_batch), (long long)samples, (long long)least,
            job->global_batch % samples == 0 ? "" : " or one more");
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

int32_t clt_job_ranks_with_max(const clt_job *job)
{
    int64_t more = job->global_batch / job->micro_batch % job->ranks;
    return more > 0 ? (int32_t)more : job->ranks;
}

int32_t clt_job_max_micro_batches(const clt_job *job)
{
    int64_t first;
    return clt_job_share(job, 0, &first);
}

/* With parallel.rank_invariant a binary tree adds gradients over all micro-batches of a step. Every rank
 * computes an equal part of the tree, so the numbers of ranks and of micro-batches must be powers of two. */
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
                 "and this is %d; give a larger data.micro_batch or more ranks",
                 1 << CLT_MAX_LEVELS, job->accumulation);
    return CLT_OK;
}

/* True if a step can have `parts` micro-batches. */
static bool allows_parts(const clt_job *job, int64_t parts)
{
    bool tree = clt_config_bool(job->config, "parallel.rank_invariant") && job->kind != CLT_JOB_EVAL;
    return (parts >= job->ranks || job->kind == CLT_JOB_EVAL) && !(tree && (parts & (parts - 1)) != 0);
}

bool clt_job_allows_micro_batch(const clt_job *job, int64_t micro)
{
    return job->given_global == 0 ||
           (micro > 0 && job->given_global % micro == 0 && allows_parts(job, job->given_global / micro));
}

int64_t clt_job_micro_batch_limit(const clt_job *job)
{
    const clt_source *source = job->kind == CLT_JOB_EVAL ? job->eval_source : job->train_source;
    int64_t most = INT64_C(1) << 24;
    if (job->auto_micro && source && source->samples / job->ranks < most)
        most = source->samples / job->ranks;
    return most > 1 ? most : 1;
}

int64_t clt_job_next_micro_batch(const clt_job *job, int64_t below)
{
    int64_t global = job->given_global;
    if (global == 0) {
        int64_t micro = 1, most = clt_job_micro_batch_limit(job);
        while (micro * 2 < below && micro * 2 <= most)
            micro *= 2;
        return micro < below ? micro : 0;
    }
    int64_t parts = below > global ? 1 : global / below;
    for (; parts <= global; parts++)
        if (global % parts == 0 && global / parts < below && allows_parts(job, parts))
            return global / parts;
    return 0;
}

clt_status clt_job_check_batch(clt_job *job)
{
    if (job->global_batch % job->micro_batch != 0)
        CLT_FAIL(
            CLT_ECONFIG,
            "batch: data.global_batch %lld is not a multiple of data.micro_batch %lld; change one of them",
            (long long)job->global_batch, (long long)job->micro_batch);
    int64_t all = job->global_batch / job->micro_batch;
    if (all < job->ranks && job->kind != CLT_JOB_EVAL)
        CLT_FAIL(
            CLT_ERANKS,
            "batch: data.global_batch %lld has %lld micro-batch%s (data.micro_batch %lld), too few for %d "
            "ranks; give a smaller data.micro_batch, a larger data.global_batch or fewer ranks",
            (long long)job->global_batch, (long long)all, CLT_PLURAL_ES(all), (long long)job->micro_batch,
            job->ranks);
    job->accumulation = clt_job_max_micro_batches(job);
    return clt_config_bool(job->config, "parallel.rank_invariant") && job->kind != CLT_JOB_EVAL
               ? check_tree(job, all)
               : CLT_OK;
}

/* A resumed run whose config gives no global batch keeps the saved run's, if its ranks can share it. */
static void keep_global(clt_job *job)
{
    int64_t kept = job->recorded_global;
    if (job->given_global == 0 && kept > 0 && kept % job->micro_batch == 0 &&
        allows_parts(job, kept / job->micro_batch))
        job->given_global = kept;
}

/* The value that data.micro_batch=auto assumes before a device is known: the micro-batch of the run that is
 * resumed, else the largest that divides the given global batch, else 1024. */
static void begin_auto(clt_job *job)
{
    const int64_t any = 1024;
    job->auto_micro = true;
    if (job->given_global == 0 && job->kind != CLT_JOB_EVAL) /* a resumed run keeps its global batch */
        job->given_global =
            job->recorded_global > 0 ? job->recorded_global : job->recorded_micro * job->ranks;
    if (job->recorded_micro > 0 && clt_job_allows_micro_batch(job, job->recorded_micro))
        job->micro_batch = job->recorded_micro;
    else if (job->given_global > 0)
        job->micro_batch = clt_job_next_micro_batch(job, INT64_MAX);
    else
        job->micro_batch = any;
    if (job->micro_batch == 0) /* no size is allowed: clt_job_check_batch reports that */
        job->micro_batch = job->given_global;
}

clt_status clt_job_read_batch(clt_job *job)
{
    const clt_config *c = job->config;
    job->micro_batch = clt_config_int(c, "data.micro_batch");
    job->given_global = clt_config_int(c, "data.global_batch");
    if (job->micro_batch < 0)
        begin_auto(job);
    else
        keep_global(job);
    job->global_batch = job->given_global > 0 ? job->given_global : job->micro_batch * job->ranks;
    return clt_job_check_batch(job);
}
