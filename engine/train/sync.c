/* SPDX-License-Identifier: Apache-2.0
 *
 * The SYNC phase's host side: each gradient slab goes to pinned memory, is summed over all ranks, and goes
 * back. The loss normaliser already counts the whole global batch, so the sum is the mean gradient. */
#include <stdio.h>

#include "engine/base/thread.h"
#include "engine/train/run.h"

clt_status clt_sync_prepare(clt_run *run)
{
    const clt_store_layout *layout = run->job->train->layout;
    if (run->ranks.ranks <= 1)
        return CLT_OK;
    for (int32_t s = 0; s < layout->n_slabs; s++) {
        uint64_t bytes = clt_store_slab_bytes(layout, CLT_ARENA_GRAD, s);
        if (bytes)
            CLT_TRY(ocl_pinned_create(run->device, bytes, "gradient staging", &run->sync_memory[s]));
    }
    return CLT_OK;
}

static void read_done(void *context, bool ok)
{
    comm_request_ready(context, ok);
}

clt_status clt_sync_host(void *context, const ocl_command *command)
{
    clt_run *run = context;
    int32_t slab = command->host_code;
    const clt_store_layout *layout = run->job->train->layout;
    uint64_t bytes = clt_store_slab_bytes(layout, CLT_ARENA_GRAD, slab);
    ocl_buffer *buffer = run->store->slab[CLT_ARENA_GRAD][slab];
    void *host = ocl_pinned_data(run->sync_memory[slab]);
    double start = clt_now();
    ocl_event *done = NULL;
    comm_request *request;
    CLT_TRY(comm_all_reduce_post(run->options->comm, host, (int64_t)(bytes / sizeof(float)), COMM_F32,
                                 COMM_SUM, &request));
    clt_status status = ocl_read_async(OCL_QUEUE_COMPUTE, buffer, 0, host, bytes, NULL, &done);
    if (status == CLT_OK)
        status = ocl_event_callback(done, read_done, request);
    if (status == CLT_OK)
        status = ocl_flush(run->device, OCL_QUEUE_COMPUTE);
    else
        comm_request_ready(request, false); /* the request still has to be waited for */
    ocl_event_release(done);
    clt_error error;
    clt_error_take(status, &error);
    clt_status waited = comm_request_wait(request);
    if (status != CLT_OK)
        return clt_error_put(&error);
    CLT_TRY(waited);
    run->comm_seconds += clt_now() - start;
    return ocl_write_async(OCL_QUEUE_COMPUTE, buffer, 0, host, bytes, NULL, NULL);
}
