/* SPDX-License-Identifier: Apache-2.0
 *
 * Creates the device objects of a run: the open device, store, slabs and executors; all commands are run
 * once. If the driver refuses a command, the run gives up the capability or variant that the command needed
 * (cl/command/fallback.h) and plans again with what is left; ranks with equal devices do so together. This
 * file must not know what a plan computes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl/command/fallback.h"
#include "engine/base/log.h"
#include "engine/base/thread.h"
#include "engine/train/job/unsupported.h"
#include "engine/train/job/tuned.h"
#include "engine/train/ranks/agreement.h"
#include "engine/train/ranks/sync.h"
#include "engine/train/saved/checksum.h"

/* "running each kernel once: gemm" */
static void tell_progress(clt_run *run, const char *stage, int done, int total, const char *what)
{
    char text[160];
    snprintf(text, sizeof text, "%s%s%s", stage, what && *what ? ": " : "", what ? what : "");
    clt_run_progress(run, text, done, total);
}

static void on_build(void *context, int done, int total, const char *what)
{
    clt_run *run = context;
    bool first = ocl_device_counters(run->device).programs_new > 0;
    tell_progress(run, first ? "building kernels, once on this machine" : "building kernels", done, total,
                  what);
}

/* Progress of priming: when a kernel runs first, drivers finish its compilation and touch its memory. */
static void on_prime(void *context, int done, int total, const char *what)
{
    tell_progress(context, "running each kernel once", done, total, what);
}

clt_status clt_run_open_device(clt_run *run)
{
    const clt_run_options *o = run->options;
    const char *spec =
        o->device_spec && *o->device_spec ? o->device_spec : clt_config_string(o->config, "device.spec");
    bool asked = clt_config_is_set(o->config, "device.timestamps");
    bool stamps = clt_config_bool(o->config, "device.timestamps");
    ocl_open_options open = {.spec = *spec ? spec : NULL,
                             .caps_mask = o->caps_mask,
                             .profiling = o->profile || (asked && stamps),
                             .profiling_on_cpu = stamps,
                             .local_rank = run->ranks.local_rank,
                             .style = run->style};
    CLT_TRY(ocl_device_open(&open, &run->device));
    ocl_device_share(run->device, run->on_gpu);
    return CLT_OK;
}

/* With data.micro_batch auto: tries to allocate memory for the staging rings (feed.c), because the rings are
 * made later, when it is too late to take a smaller micro-batch. */
static clt_status try_staging(const clt_run *run)
{
    const clt_plan *plans[2] = {run->job->train, run->job->eval};
    CLT_SCOPED(ocl_buffer) *train = NULL, *eval = NULL;
    ocl_buffer **ring[2] = {&train, &eval};
    for (int i = 0; i < 2 && run->job->auto_micro; i++) {
        uint64_t stride = plans[i] ? clt_align_up(plans[i]->input_bytes, plans[i]->device.align_bytes) : 0;
        if (stride > 0)
            CLT_TRY(ocl_buffer_create(run->device, stride * CLT_STAGING_SLOTS, "staging ring", ring[i]));
    }
    return CLT_OK;
}

static clt_status realize(clt_run *run, ocl_refusal *refusal)
{
    const clt_plan *plans[2] = {run->job->train, run->job->eval};
    const clt_plan *any = plans[0] ? plans[0] : plans[1];
    clt_store_over over = {0};
    if (run->shared_parameters)
        over.memory[CLT_ARENA_PARAM] = comm_memory_own(run->shared_parameters);
    if (run->shared_gradients)
        over.memory[clt_sync_arena(any->store)] = comm_memory_own(run->shared_gradients);
    CLT_TRY(clt_store_create_over(run->device, any->store, plans[0] != NULL, &over, &run->store));
    CLT_TRY(clt_pool_create(run->device, plans, 2, &run->pool));
    CLT_TRY(try_staging(run));
    clt_realize_options options = {.store = run->store,
                                   .pool = run->pool,
                                   .host = clt_sync_host,
                                   .host_context = run,
                                   .progress = on_build,
                                   .progress_context = run,
                                   .refusal = refusal};
    /* the saver's buffers are created when the run folder is opened */
    clt_realized *made[2];
    CLT_SCOPED(clt_checksums) *sums = NULL;
    if (plans[0] && run->options->out_dir) {
        CLT_TRY(clt_checksums_plan(run->store, &run->tuned->desc, NULL, &sums));
        options.ahead = clt_checksums_ahead(sums);
    }
    CLT_TRY(clt_plans_realize(plans, run->device, &options, made));
    run->train = made[0];
    run->eval = made[1];
    if (run->train)
        CLT_TRY(clt_realized_prime(run->train, on_prime, run, refusal));
    if (run->eval)
        CLT_TRY(clt_realized_prime(run->eval, on_prime, run, refusal));
    clt_run_progress(run, "running each kernel once", 0, -1);
    return clt_store_zero(run->store);
}

void clt_run_drop_objects(clt_run *run)
{
    clt_realized_destroy(run->train);
    clt_realized_destroy(run->eval);
    clt_store_destroy(run->store);
    clt_pool_destroy(run->pool);
    run->train = run->eval = NULL;
    run->store = NULL;
    run->pool = NULL;
}

/* precision.mode auto may choose different storage on different devices. That is an error, because their
 * gradients must not be added up: only some of them carry a loss scale. */
static clt_status check_precision(clt_run *run)
{
    const char *name = clt_dtype_name(run->job->storage);
    if (run->ranks.ranks <= 1)
        return CLT_OK;
    clt_status status = comm_check_equal(run->options->comm, name, (int64_t)strlen(name),
                                         "what precision.mode auto chooses on their devices");
    return clt_fail_prefix(status, "set precision.mode to one type");
}

/* A refusal as one rank sends it to the others. */
typedef struct refusal_message {
    clt_device_identity device;
    int32_t variant;     /* number of the refused variant, in place of its pointer; -1: none */
    ocl_refusal refusal; /* all ranks run the same program (preflight.h), so its layout is the same */
} refusal_message;

static void tell(const ocl_device_desc *desc, const ocl_refusal *r, refusal_message *out)
{
    clt_identify_device(desc, &out->device);
    out->variant = r->variant ? clt_variant_number(r->variant) : -1;
    out->refusal = *r;
}

static void hear(const refusal_message *message, ocl_refusal *r)
{
    bool lost = r->lost;
    *r = message->refusal;
    r->lost = lost;
    r->variant = clt_variant_at(message->variant);
}

/* The refusal of the first rank that has one counts for all ranks with the same device and driver. *any:
 * some rank plans again. Collective. */
static clt_status agree(clt_run *run, ocl_refusal *refusal, bool *any)
{
    comm *ranks = run->options->comm;
    const ocl_device_desc *desc = &run->tuned->desc;
    refusal_message message = {0};
    int64_t first = refusal->refused ? run->ranks.rank : run->ranks.ranks;
    *any = refusal->refused;
    if (run->ranks.ranks <= 1)
        return CLT_OK;
    CLT_TRY(comm_all_reduce(ranks, &first, 1, COMM_I64, COMM_MIN));
    *any = first < run->ranks.ranks;
    if (!*any)
        return CLT_OK;
    if (first == run->ranks.rank)
        tell(desc, refusal, &message);
    CLT_TRY(comm_broadcast(ranks, &message, sizeof message, (int)first));
    if (first != run->ranks.rank && clt_is_device(&message.device, desc))
        hear(&message, refusal);
    return CLT_OK;
}

static size_t choices_used(const clt_run *run)
{
    return run->tuned->used ? run->tuned->used->count : 0;
}

static clt_status plan_again(clt_run *run)
{
    size_t before = choices_used(run);
    CLT_TRY(clt_job_replan(run->job, &run->tuned->desc));
    CLT_TRY(clt_tuned_note(run->tuned, run->job));
    if (choices_used(run) < before)
        CLT_WARN("%zu tuning choice(s)%s use a feature that the driver refused and are ignored",
                 before - choices_used(run), run->tuned->pinned ? " of the checkpoint" : "");
    return clt_job_check_memory(run->job);
}

/* The error of an attempt, with result `status`, after the device's context was lost with the error `lost`.
 * If it failed, too, returns `lost` as the cause: some drivers fail until the process ends. */
static clt_status after_loss(clt_status status, const clt_error *lost, const clt_run *run)
{
    if (status == CLT_OK || lost->status == CLT_OK || !(run->tuned->desc.quirks & OCL_QUIRK_LASTING_FAILURES))
        return status;
    CLT_FAIL(lost->status, "%.2600s\n  and after that: %.1000s", lost->text, clt_error_text());
}

/* Gives up what the refused command needed, and plans without it. `cause`: the error of the refusal; CLT_OK
 * on a rank that follows another one. */
static clt_status plan_without(clt_run *run, const ocl_refusal *refusal, const clt_error *cause)
{
    ocl_device_desc *desc = &run->tuned->desc;
    char what[240];
    if (!ocl_give_up(desc, refusal, what, sizeof what))
        return cause->status != CLT_OK
                   ? clt_error_put(cause)
                   : clt_fail(CLT_EUNSUPPORTED, __FILE__, __LINE__,
                              "preparing '%s': another rank's device refused it and there is no alternative",
                              refusal->label);
    CLT_WARN("device %s '%s': this run continues without %s, which '%s' needed%s%.1200s", desc->spec,
             desc->name, what, refusal->label, cause->status != CLT_OK ? ": " : " on another rank",
             cause->status != CLT_OK ? cause->text : "");
    clt_run_drop_objects(run);
    if (refusal->lost) {
        ocl_device_close(run->device);
        run->device = NULL;
        CLT_TRY(after_loss(clt_run_open_device(run), cause, run));
    }
    /* the order may need a variant that is now gone; ranks agree again when all have planned */
    run->order = run->job->order = (clt_update_order){0};
    clt_status status = plan_again(run);
    if (status != CLT_EUNSUPPORTED || cause->status == CLT_OK)
        return status;
    CLT_FAIL(cause->status, "%.2600s\n  and there is no alternative: %.1000s", cause->text, clt_error_text());
}

/* When a rank has planned again, the ranks agree again on what they must have in common. */
static clt_status agree_again(clt_run *run)
{
    bool changed;
    CLT_TRY(check_precision(run));
    CLT_TRY(clt_agree_on_update(run, &changed));
    if (!changed)
        return CLT_OK;
    run->job->order = run->order;
    clt_run_drop_objects(run);
    return plan_again(run);
}

/* True for a refusal that would be repeated in the next run: a program that the compiler rejects, a launch
 * that the kernel does not allow. False for lack of memory, a device that is busy, a command that failed
 * while it ran, or a lost context. */
static bool is_lasting(clt_status status, bool lost)
{
    return !lost && (status == CLT_EBUILD || status == CLT_EUNSUPPORTED);
}

/* data.micro_batch auto: if the device of a rank refused memory although the plan should have fitted, all
 * ranks continue with the next smaller micro-batch. *again: they do; else `status` stays the rank's error.
 * Collective. */
static clt_status take_less(clt_run *run, clt_status status, bool *again)
{
    int64_t lacks = status == CLT_EDEVMEM, any = lacks;
    clt_error own;
    *again = false;
    if (!run->job->auto_micro)
        return CLT_OK;
    clt_error_take(status, &own);
    if (run->ranks.ranks > 1)
        CLT_TRY(comm_all_reduce(run->options->comm, &any, 1, COMM_I64, COMM_MAX));
    int64_t was = run->job->micro_batch, next = any ? clt_job_next_micro_batch(run->job, was) : 0;
    if (!any || (next == 0 && lacks)) {
        (void)clt_error_put(&own);
        return CLT_OK;
    }
    if (next == 0)
        CLT_FAIL(CLT_EDEVMEM,
                 "data.micro_batch auto: another rank's device has no memory for the smallest micro-batch");
    if (run->ranks.rank == 0)
        CLT_WARN("data.micro_batch auto: a device refused the memory for micro-batches of %lld; this run "
                 "continues with %lld",
                 (long long)was, (long long)next);
    clt_run_drop_objects(run);
    CLT_TRY(clt_run_set_micro_batch(run, next));
    *again = true;
    return plan_again(run);
}

clt_status clt_run_make_objects(clt_run *run)
{
    double start = clt_now();
    uint32_t caps = run->tuned->desc.caps;
    int given_up = run->tuned->desc.n_given_up; /* given up earlier: by the checkpoint or by earlier runs */
    bool gave_up = false, lasting = true;
    clt_error lost = {.status = CLT_OK};
    CLT_TRY(check_precision(run));
    CLT_TRY(clt_tuned_note(run->tuned, run->job));
    CLT_TRY(clt_job_check_memory(run->job));
    CLT_TRY(clt_sync_share(run));
    for (bool any = true; any;) {
        ocl_refusal refusal = {0};
        clt_error cause = {.status = CLT_OK};
        bool again;
        clt_status status = run->store ? CLT_OK : realize(run, &refusal);
        CLT_TRY(take_less(run, refusal.refused ? CLT_OK : status, &again));
        if (again)
            continue;
        if (status != CLT_OK && !refusal.refused)
            return after_loss(status, &lost, run);
        clt_error_take(status, &cause);
        refusal.lasting = is_lasting(status, refusal.lost);
        CLT_TRY(agree(run, &refusal, &any));
        if (refusal.refused)
            CLT_TRY(plan_without(run, &refusal, &cause));
        if (refusal.refused && refusal.lost)
            lost = cause;
        gave_up = gave_up || refusal.refused;
        lasting = lasting && (refusal.lasting || !refusal.refused);
        if (any)
            CLT_TRY(agree_again(run));
    }
    if (gave_up && lasting)
        clt_note_unsupported(run, caps, given_up);
    run->build_seconds = clt_now() - start;
    return CLT_OK;
}
