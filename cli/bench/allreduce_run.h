/* SPDX-License-Identifier: Apache-2.0
 *
 * What `cltrain bench allreduce` measures: one sum over ranks, or its halves, a reduce-scatter and an all-gather, by several paths, and how fast the ranks' cores can
 * read and write memory at the same time. */
#ifndef CLI_BENCH_ALLREDUCE_RUN_H
#define CLI_BENCH_ALLREDUCE_RUN_H

#include "cl/command/memory.h"
#include "comm/comm.h"

/* Buffers of one size for sums, of the largest size. */
typedef struct allreduce_run {
    comm *c;
    const comm_info *info;
    comm_type type;
    comm_kind kind;  /* COMM_ALL_REDUCE, COMM_REDUCE_SCATTER or COMM_ALL_GATHER */
    int64_t bytes;   /* the largest size */
    bool staging;    /* a sum begins and ends in device memory */
    bool own_memory; /* it does not use memory that local ranks share */
    ocl_device *device;
    ocl_buffer *buffer; /* of a device with staging */
    bool zero_copy;     /* which is `memory` itself */
    comm_memory *memory[2];
    int turn; /* sums that stay spread alternate between the two */
    void *plain;
} allreduce_run;

/* c, info, type, bytes, staging and own_memory are set; opens the device where one is needed. */
clt_status allreduce_open(allreduce_run *r, const ocl_open_options *open);
void allreduce_close(allreduce_run *r);

/* The elements of a rank's share. */
void allreduce_share(const allreduce_run *r, int64_t count, int rank, int64_t *first, int64_t *length);
/* Sums the first `count` elements in place, as gradients go; or of a reduce-scatter or all-gather, as shares do. */
clt_status allreduce_sum(allreduce_run *r, int64_t count);
/* The same numbers by the transport's own all-reduce, which blocks: from and to host memory, also with staging. */
clt_status allreduce_native(allreduce_run *r, int64_t count);
/* The values that are summed, for filling and checking: from and to where a sum begins and ends. */
clt_status allreduce_put(allreduce_run *r, const void *values, int64_t count);
clt_status allreduce_get(allreduce_run *r, void *values, int64_t count);

/* Bytes that the memory of a host must read and write for one sum, for each local rank: those of the sum alone
 * on memory that is shared, and of the transfers where a device has memory of its own. */
double allreduce_bytes_moved(const allreduce_run *r, int64_t count);
/* Seconds in which `bytes` of each rank are read and written back in place: with `alone` by the core of rank 0
 * while the others wait, else by those of all ranks at the same time, until the slowest is done. Collective. */
clt_status allreduce_pass(allreduce_run *r, int64_t bytes, bool alone, double *seconds);

#endif
