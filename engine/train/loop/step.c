/* SPDX-License-Identifier: Apache-2.0
 *
 * One training step, from top to bottom. Every call enqueues commands; nothing here builds, allocates or
 * waits for the device. */
#include "engine/train/ranks/sync.h"
#include "engine/train/run/run.h"

/* Phase absent: if other ranks have one micro-batch more, this rank takes part in the exchanges of their
 * first one. Before that it waits for all parameters that are still being gathered, as the others do in
 * their forward pass: an exchange during a gather would wait for ranks that wait for this one. */
static clt_status take_part(clt_run *run)
{
    if (run->micro_batches == clt_job_max_micro_batches(run->job) ||
        run->job->train->phase[CLT_PHASE_ABSENT].count == 0)
        return CLT_OK;
    CLT_TRY(clt_sync_settle(run->sync));
    return clt_realized_run(run->train, CLT_PHASE_ABSENT);
}

clt_status clt_step(clt_run *run, int64_t step)
{
    clt_fed fed;

    CLT_TRY(clt_sync_begin(run->sync, step));
    CLT_TRY(take_part(run));
    for (int32_t micro = 0; micro < run->micro_batches; micro++) {
        bool last = micro + 1 == run->micro_batches;
        /* data: upload on the copy queue, then a device copy to the plan's inputs */
        run->micro = micro;
        CLT_TRY(clt_feed_next(run->feed, &fed));
        /* forward: activations and loss records */
        CLT_TRY(clt_realized_run(run->train, CLT_PHASE_FORWARD));
        /* backward: the first micro-batch writes parameter gradients, the others add to them. In the last
         * one, sums over the ranks, if there are several, are posted as gradients become ready. With
         * parallel.rank_invariant every micro-batch writes, and a binary tree adds the gradients */
        if (last)
            clt_sync_last(run->sync, step);
        CLT_TRY(clt_realized_run(run->train, clt_plan_backward(run->train->plan, micro)));
        /* rows: gradients of embeddings that ranks gather as rows; phase sync adds the last micro-batch's */
        CLT_TRY(last ? CLT_OK : clt_realized_run(run->train, CLT_PHASE_ROWS));
    }
    /* sync: the device waits for the sums over the ranks, and takes them */
    CLT_TRY(clt_realized_run(run->train, CLT_PHASE_SYNC));
    /* clip and optimizer: norm, finite check, clip factor, update */
    CLT_TRY(clt_realized_run(run->train, CLT_PHASE_UPDATE));
    clt_sync_end(run->sync);
    run->micro = 0;
    /* report: state and loss records, read by the host when they have arrived */
    CLT_TRY(clt_reporter_post(run->reporter, step));
    return ocl_flush(run->device, OCL_QUEUE_COMPUTE);
}
