/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums over ranks by the paths that gradients can take: either memory that the ranks of a host share (a CPU
 * device computes in it directly, other devices copy to and from it), or a rank's own host memory. */
#include "cli/bench/allreduce_run.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/thread.h"

#define GRAIN 64 /* elements */

void allreduce_share(const allreduce_run *r, int64_t count, int rank, int64_t *first, int64_t *length)
{
    comm_share(count, GRAIN, r->info->ranks, rank, first, length);
}

static void *host_memory(const allreduce_run *r)
{
    return r->own_memory ? r->plain : comm_memory_own(r->memory[r->turn]);
}

clt_status allreduce_open(allreduce_run *r, const ocl_open_options *open)
{
    if (r->own_memory) {
        CLT_TRY(clt_pages_create((uint64_t)r->bytes, "the data of bench allreduce", &r->plain));
    } else {
        CLT_TRY(comm_memory_create(r->c, r->bytes, &r->memory[0]));
        CLT_TRY(comm_memory_create(r->c, r->bytes, &r->memory[1]));
    }
    if (!r->staging)
        return CLT_OK;
    CLT_TRY(ocl_device_open(open, &r->device));
    r->zero_copy = !r->own_memory && ocl_device_describe(r->device)->is_cpu;
    if (r->zero_copy)
        return ocl_buffer_create_over(r->device, comm_memory_own(r->memory[0]), (uint64_t)r->bytes,
                                      "bench allreduce", &r->buffer);
    return ocl_buffer_create(r->device, (uint64_t)r->bytes, "bench allreduce", &r->buffer);
}

void allreduce_close(allreduce_run *r)
{
    ocl_buffer_destroy(r->buffer);
    ocl_device_close(r->device);
    comm_memory_destroy(r->memory[0]);
    comm_memory_destroy(r->memory[1]);
    clt_pages_destroy(r->plain, (uint64_t)r->bytes);
}

/* --- sums --- */

static clt_status sum_memory(allreduce_run *r, int64_t count, bool everywhere)
{
    comm_request *request = NULL;
    CLT_TRY(comm_post(r->c,
                      &(comm_call){.kind = r->kind,
                                   .grain = GRAIN,
                                   .memory = r->memory[r->turn],
                                   .everywhere = everywhere,
                                   .count = count,
                                   .type = r->type,
                                   .what = "all-reduce"},
                      &request));
    comm_request_ready(request, true);
    return comm_request_wait(request);
}

/* The device computes in the memory that is summed, so that mapping replaces copies. */
static clt_status sum_zero_copy(allreduce_run *r, int64_t count)
{
    uint64_t bytes = (uint64_t)(count * comm_type_bytes(r->type));
    ocl_event *mapped = NULL;
    CLT_TRY(ocl_map_async(OCL_QUEUE_COPY, r->buffer, 0, bytes, NULL, &mapped));
    clt_status status = ocl_event_wait(mapped);
    ocl_event_release(mapped);
    CLT_TRY(status);
    CLT_TRY(sum_memory(r, count, true));
    CLT_TRY(ocl_unmap_async(OCL_QUEUE_COPY, r->buffer, 0, NULL, NULL));
    return ocl_finish(r->device, OCL_QUEUE_COPY);
}

/* give: reads this rank's contribution from the device; otherwise writes the result to the device. The
 * contribution to an all-gather and the result of a reduce-scatter are only this rank's shard. */
static clt_status transfer(allreduce_run *r, char *host, int64_t count, bool give)
{
    int64_t size = comm_type_bytes(r->type), first = 0, length = count;
    if (r->kind == (give ? COMM_ALL_GATHER : COMM_REDUCE_SCATTER))
        allreduce_share(r, count, r->info->rank, &first, &length);
    uint64_t at = (uint64_t)(first * size), bytes = (uint64_t)(length * size);
    return give ? ocl_read(r->buffer, at, host + at, bytes) : ocl_write(r->buffer, at, host + at, bytes);
}

/* Sums for a device that has its own memory: writes each slice of the sum to the device, from the memory of
 * the local rank that holds the slice. */
static clt_status sum_of_device(allreduce_run *r, int64_t count)
{
    int64_t size = comm_type_bytes(r->type), first, length;
    const void *slice;
    r->turn ^= 1; /* other ranks may still read the previous sum */
    comm_memory *m = r->memory[r->turn];
    CLT_TRY(transfer(r, comm_memory_own(m), count, true));
    CLT_TRY(sum_memory(r, count, false));
    if (r->kind != COMM_ALL_REDUCE)
        return transfer(r, comm_memory_own(m), count, false);
    for (int l = 0; l < r->info->local_ranks; l++) {
        comm_memory_slice(m, 0, count, r->type, l, &slice, &first, &length);
        CLT_TRY(ocl_write_async(OCL_QUEUE_COPY, r->buffer, (uint64_t)(first * size), slice,
                                (uint64_t)(length * size), NULL, NULL));
    }
    return ocl_finish(r->device, OCL_QUEUE_COPY);
}

clt_status allreduce_sum(allreduce_run *r, int64_t count)
{
    if (!r->own_memory)
        return !r->staging    ? sum_memory(r, count, true)
               : r->zero_copy ? sum_zero_copy(r, count)
                              : sum_of_device(r, count);
    CLT_TRY(r->staging ? transfer(r, r->plain, count, true) : CLT_OK);
    CLT_TRY(r->kind == COMM_REDUCE_SCATTER ? comm_reduce_scatter(r->c, r->plain, count, GRAIN, r->type)
            : r->kind == COMM_ALL_GATHER   ? comm_all_gather(r->c, r->plain, count, GRAIN, r->type)
                                           : comm_all_reduce(r->c, r->plain, count, r->type, COMM_SUM));
    return r->staging ? transfer(r, r->plain, count, false) : CLT_OK;
}

clt_status allreduce_native(allreduce_run *r, int64_t count)
{
    return comm_native_sum(r->c, host_memory(r), count, r->type);
}

clt_status allreduce_put(allreduce_run *r, const void *values, int64_t count)
{
    uint64_t bytes = (uint64_t)(count * comm_type_bytes(r->type));
    if (r->staging && !r->zero_copy)
        return ocl_write(r->buffer, 0, values, bytes);
    memcpy(host_memory(r), values, bytes);
    return CLT_OK;
}

clt_status allreduce_get(allreduce_run *r, void *values, int64_t count)
{
    uint64_t bytes = (uint64_t)(count * comm_type_bytes(r->type));
    if (r->staging && !r->zero_copy)
        return ocl_read(r->buffer, 0, values, bytes);
    memcpy(values, host_memory(r), bytes);
    return CLT_OK;
}

/* --- the least time of a sum --- */

double allreduce_bytes_moved(const allreduce_run *r, int64_t count)
{
    double bytes = (double)(count * comm_type_bytes(r->type)), n = r->info->local_ranks;
    bool device = r->staging && !r->zero_copy;
    switch (r->kind) {
    case COMM_REDUCE_SCATTER: /* host: reads all, writes a shard; device: writes all, reads a shard */
        return bytes * (1 + 1 / n + (device ? 1 + 1 / n : 0));
    case COMM_ALL_GATHER: /* host: reads and writes the others' shards; device: writes a shard, reads all */
        return bytes * (2 - 2 / n + (device ? 1 / n + 1 : 0));
    /* host alone: reads and writes all; with a device: the device writes all, the host reads all and writes
     * a slice, and the device reads all */
    default:
        return bytes * (device ? 1 + 1 + 1 / n + 1 : 2);
    }
}

clt_status allreduce_pass(allreduce_run *r, int64_t bytes, bool alone, double *seconds)
{
    float *data = host_memory(r);
    CLT_TRY(comm_barrier(r->c));
    double begin = clt_now();
    for (int64_t i = 0; (!alone || r->info->rank == 0) && i < bytes / 4; i++)
        data[i] += 1.0F;
    if (!alone)
        CLT_TRY(comm_barrier(r->c));
    *seconds = clt_now() - begin;
    return comm_broadcast(r->c, seconds, sizeof *seconds, 0);
}
