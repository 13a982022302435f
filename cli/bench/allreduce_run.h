/* SPDX-License-Identifier: Apache-2.0
 *
 * The measurements of `cltrain bench allreduce`: a sum over ranks, or one of its halves (reduce-scatter,
 * all-gather), by several paths; and how fast the ranks' cores read and write memory at the same time. */
#ifndef CLI_BENCH_ALLREDUCE_RUN_H
#define CLI_BENCH_ALLREDUCE_RUN_H

#include "cl/command/memory.h"
#include "comm/comm.h"

/* The state of all sums: buffers as large as the largest sum, and how sums are made. */
typedef struct allreduce_run {
    comm *c;
    const comm_info *info;
    comm_type type;
    comm_kind kind;  /* COMM_ALL_REDUCE, COMM_REDUCE_SCATTER or COMM_ALL_GATHER */
    int64_t bytes;   /* the largest size */
    bool staging;    /* a sum begins and ends in device memory */
    bool own_memory; /* sums do not use memory that local ranks share */
    ocl_device *device;
    ocl_buffer *buffer; /* with staging: the data in device memory */
    bool zero_copy;     /* `buffer` is `memory[0]` itself: the device is a CPU */
    comm_memory *memory[2];
    /* index of the `memory` that a sum uses; sums whose slices stay in the ranks' memory alternate between
     * the two */
    int turn;
    void *plain;
} allreduce_run;

/* The caller has set c, info, type, kind, bytes, staging and own_memory. Opens a device if `staging`. */
clt_status allreduce_open(allreduce_run *r, const ocl_open_options *open);
void allreduce_close(allreduce_run *r);

/* The first element and the length of a rank's shard of `count` elements. */
void allreduce_share(const allreduce_run *r, int64_t count, int rank, int64_t *first, int64_t *length);
/* Runs the collective `kind` on the first `count` elements in place, in the way that training does. */
clt_status allreduce_sum(allreduce_run *r, int64_t count);
/* Sums with the transport's own all-reduce, which blocks; always in host memory, even with `staging`. */
clt_status allreduce_native(allreduce_run *r, int64_t count);
/* put: copies values to the memory in which a sum begins. get: copies them from the memory in which it
 * ends. */
clt_status allreduce_put(allreduce_run *r, const void *values, int64_t count);
clt_status allreduce_get(allreduce_run *r, void *values, int64_t count);

/* Bytes that a host's memory must read and write for one sum, divided by the local ranks: for the sum in
 * shared memory and, if the device has its own memory, for the transfers. */
double allreduce_bytes_moved(const allreduce_run *r, int64_t count);
/* Collective. Seconds to read `bytes` of host memory and write them back in place. alone: the core of rank 0
 * does it while the others wait; otherwise every rank does it for its own memory, and the slowest counts. */
clt_status allreduce_pass(allreduce_run *r, int64_t bytes, bool alone, double *seconds);

#endif
