/* SPDX-License-Identifier: Apache-2.0
 *
 * The host's part of the SYNC phase: each tensor that a command names is read into pinned memory, summed over
 * all ranks and written back. The loss is divided by the size of the whole global batch, so the sum is the
 * mean gradient. */
#include <stdio.h>

#include "engine/train/run/run.h"

static uint64_t bytes_of(const clt_run *run, int32_t tensor)
{
    const clt_tensor *t = clt_graph_tensor(run->job->train->graph, tensor);
    return (uint64_t)clt_shape_elements(&t->shape) * clt_dtype_bytes(t->dtype);
}

/* Allocates pinned memory for the largest tensor. */
clt_status clt_sync_prepare(clt_run *run)
{
    const ocl_command_list *sync = &run->job->train->phase[CLT_PHASE_SYNC];
    uint64_t most = 0;
    for (size_t c = 0; c < sync->count; c++) {
        uint64_t bytes =
            sync->commands[c].kind == OCL_CMD_HOST ? bytes_of(run, sync->commands[c].args[0].ref.tensor) : 0;
        most = bytes > most ? bytes : most;
        run->comm_bytes += bytes;
    }
    return most ? ocl_pinned_create(run->device, most, "gradient staging", &run->sync_memory) : CLT_OK;
}

static void read_done(void *context, bool ok)
{
    comm_request_ready(context, ok);
}

/* Posts the request, which then waits for the tensor to be read. */
static clt_status post_sum(clt_run *run, const clt_tensor *t, ocl_buffer *buffer, uint64_t offset,
                           comm_request **request)
{
    comm_type type = t->dtype == CLT_F16 ? COMM_F16 : t->dtype == CLT_BF16 ? COMM_BF16 : COMM_F32;
    void *host = ocl_pinned_data(run->sync_memory);
    ocl_event *done = NULL;
    CLT_TRY(comm_all_reduce_post(run->options->comm, host, clt_shape_elements(&t->shape), type, COMM_SUM,
                                 request));
    clt_status status =
        ocl_read_async(OCL_QUEUE_COMPUTE, buffer, offset, host, bytes_of(run, t->id), NULL, &done);
    if (status == CLT_OK)
        status = ocl_event_callback(done, read_done, *request);
    if (status == CLT_OK)
        status = ocl_flush(run->device, OCL_QUEUE_COMPUTE);
    else
        /* the other ranks wait for this request, so it must still be made */
        comm_request_ready(*request, false);
    ocl_event_release(done);
    return status;
}

clt_status clt_sync_host(void *context, const ocl_command *command)
{
    clt_run *run = context;
    const clt_tensor *t = clt_graph_tensor(run->job->train->graph, command->args[0].ref.tensor);
    comm_times times = {0};
    ocl_buffer *buffer;
    uint64_t offset;
    comm_request *request = NULL;
    CLT_TRY(clt_realized_resolve(run->train, t->id, &buffer, &offset));
    clt_status status = post_sum(run, t, buffer, offset, &request);
    clt_error error;
    clt_error_take(status, &error);
    clt_status waited = request ? comm_request_wait_timed(request, &times) : CLT_OK;
    if (status != CLT_OK)
        return clt_error_put(&error);
    CLT_TRY(waited);
    run->comm_seconds += times.inside;
    run->comm_waited += times.since_ready;
    return ocl_write_async(OCL_QUEUE_COMPUTE, buffer, offset, ocl_pinned_data(run->sync_memory),
                           bytes_of(run, t->id), NULL, NULL);
}
