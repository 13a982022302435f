/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks and collectives over host memory. Three layers: what is asked for (this file), which way it goes (ways.c:
 * ring, halving, slices, nodes ...), and how bytes travel (transport.h). One thread of ours runs all collectives
 * of a process, in the order in which they were posted, and owns every call of the transport. This room knows
 * nothing of OpenCL or models. */
#ifndef COMM_COMM_H
#define COMM_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"

typedef enum comm_op { COMM_SUM, COMM_MAX, COMM_MIN } comm_op;
/* F16 and BF16 know sums only: in f32, rounded once. */
typedef enum comm_type { COMM_F32, COMM_F64, COMM_I64, COMM_U8, COMM_F16, COMM_BF16 } comm_type;
int64_t comm_type_bytes(comm_type type);

/* Ranks that work together: all of the job (comm_create), or some of them (comm_split). Local ranks are those
 * of the group that share this rank's host: the same host name and the same running kernel. */
typedef struct comm comm;
typedef struct comm_info {
    int rank, ranks, local_rank, local_ranks;
    int core_ranks; /* local ranks that may run on cores of this rank, this one included: 1 if it is bound to its own */
    int nodes;       /* hosts that the group's ranks are on */
    bool even_nodes; /* every host has local_ranks of them, neighbours in number */
    char host[64];
    const char *transport;   /* "self", "mpi" */
    const char *description; /* "Open MPI v4.1.4" */
} comm_info;

/* True when the environment says that a launcher (mpirun, srun with PMI or PMIx) started this process. */
bool comm_under_launcher(void);
/* The number of processes that srun started without PMI or PMIx, so that they cannot find each other and each of them
 * does the whole work; 1: this is no such process. */
int comm_tasks_alone(void);
/* Warns of such processes, and says what srun needs. comm_create does it; a program that calls that only under a launcher
 * calls this otherwise. */
void comm_warn_if_alone(void);
/* comm_create: takes the transport `self` unless a launcher started this process. Under a launcher it loads
 * cltrain_comm_mpi.so from $CLTRAIN_MODULE_DIR, the folder of the program, its ../lib/cltrain, or the install
 * folder. CLT_ECOMM says which files were tried and why each failed. */
clt_status comm_create(comm **out);
/* A collective call of all ranks of `parent`: those with the same colour become a group, numbered by key and
 * then by their rank in parent. A negative colour takes no part: *out is NULL. */
clt_status comm_split(comm *parent, int colour, int key, comm **out);
/* The same for little data, such as records of a few KB: it takes 384 KiB of shared memory for each local rank instead of
 * 12 MiB. Larger data goes through it in more pieces. */
clt_status comm_split_small(comm *parent, int colour, int key, comm **out);
/* Bytes of shared memory that a group takes for each rank of a host that has several; small: of comm_split_small. */
int64_t comm_group_bytes(bool small);
/* Frees a group; NULL is fine. The group of the whole job comes last, and with it the transport is finalized.
 * Requests that were not waited for are dropped, so nothing may call comm_request_ready for them afterwards.
 * After a failed collective the transport is not finalized, because the ranks no longer agree on which
 * collective comes next and finalizing could block for ever; the launcher ends the other ranks when this process
 * ends. */
void comm_destroy(comm *c);
const comm_info *comm_describe(const comm *c);

/* Every collective must end within so many seconds, on every rank (600 until this is called). When one does
 * not, it fails with CLT_ECOMM on all ranks that still answer; the message names the ranks that were late, and what
 * these, if they answer, and this rank were doing and for how long. The same when the process of a rank of this
 * host has ended. */
void comm_set_deadline(comm *c, double seconds);
/* What the process is doing, for that message: "step 17, backward". */
void comm_set_phase(comm *c, const char *text);

/* Blocking collectives (hand the work to the communication thread and wait). After a failure every later one
 * fails. */
clt_status comm_all_reduce(comm *c, void *data, int64_t count, comm_type type, comm_op op);
clt_status comm_broadcast(comm *c, void *data, int64_t bytes, int root);
clt_status comm_barrier(comm *c);
/* `count` elements in shares of whole grains (comm_share). After a reduce-scatter a rank's own share is the sum, with the
 * bits of an all-reduce by `nodes` or, where that does not suit, by `slices`; the rest of `data` is undefined. Before an
 * all-gather every rank has filled its own share. */
clt_status comm_reduce_scatter(comm *c, void *data, int64_t count, int64_t grain, comm_type type);
clt_status comm_all_gather(comm *c, void *data, int64_t count, int64_t grain, comm_type type);
/* The elements [*first, *first + *length) of rank `rank`: as equal as grains allow, in the order of the ranks; that of
 * rank 0 is the longest, others may be empty. */
void comm_share(int64_t count, int64_t grain, int ranks, int rank, int64_t *first, int64_t *length);

/* A posted collective starts when comm_request_ready is called for it, which happens once and from any
 * thread, such as an event callback; ok = false makes the wait fail. Requests of all groups of the process run
 * in the order in which they were posted, so a blocking collective also waits for all requests that were posted
 * before it. Urgent ones are the exception: they run in the order among themselves as soon as they are ready, also
 * in the middle of another one, so that little data that a device waits for does not queue behind much data that it
 * does not need yet. They need a group of their own (comm_split), and what makes them ready must not wait for a
 * request that is not urgent and was not done when the same one of another rank became ready. */
typedef enum comm_kind {
    COMM_ALL_REDUCE,
    COMM_REDUCE_SCATTER,
    COMM_ALL_GATHER,
    COMM_BROADCAST,
    COMM_BARRIER
} comm_kind;
typedef struct comm_call {
    comm_kind kind;
    void *data;
    int64_t count; /* elements */
    int64_t grain; /* reduce-scatter, all-gather */
    comm_type type;
    comm_op op;
    /* Instead of `data`, at `offset` bytes of memory that all ranks made, or NULL; not of a broadcast. The sum of
     * COMM_ALL_REDUCE is spread over it (comm_memory_slice), or with `everywhere` lies in the own memory of every
     * rank. A reduce-scatter writes only a rank's share in its own memory. */
    struct comm_memory *memory;
    int64_t offset;
    bool everywhere;
    int root; /* broadcast */
    /* Called on the communication thread when the call has ended, before those who wait for it know; it must
     * not block nor call this room. NULL: nobody. */
    void (*done)(void *context, bool ok);
    void *context;
    const char *what; /* a string constant for messages, or NULL: "gradients" */
    bool urgent;
} comm_call;
typedef struct comm_request comm_request;
clt_status comm_post(comm *c, const comm_call *call, comm_request **out);
clt_status comm_all_reduce_post(comm *c, void *data, int64_t count, comm_type type, comm_op op,
                                comm_request **out);
void comm_request_ready(comm_request *request, bool ok);
clt_status comm_request_wait(comm_request *request); /* frees the request */
/* How long a request took on this rank, in seconds. */
typedef struct comm_times {
    double inside;      /* running, waiting for ranks that join later included; 0: it did not run */
    double since_ready; /* from comm_request_ready until it was done */
} comm_times;
clt_status comm_request_wait_timed(comm_request *request, comm_times *times); /* frees the request, too */

/* Memory for collectives, `bytes` of each rank, of a group whose ranks all make it in the same order. Where the
 * local ranks can see each other's, each adds up one slice and nothing is copied in between. Then a sum either
 * is written into the memory of all of them (comm_call.everywhere: for devices that compute on it), or each
 * slice stays in the memory of one local rank, from where the others read it. In that case nobody may write
 * there before all have read: ranks that take two memories in turns need no other agreement, when each reads the
 * sums of one step before it gives those of the next. */
typedef struct comm_memory comm_memory;
clt_status comm_memory_create(comm *c, int64_t bytes, comm_memory **out);
void comm_memory_destroy(comm_memory *m); /* NULL is fine; while no call uses it */
void *comm_memory_own(comm_memory *m);
/* After a sum of `count` elements at `offset` that is not everywhere: the slice [*first, *first + *length) of it that lies with the
 * local rank. All slices together are the whole sum. */
void comm_memory_slice(const comm_memory *m, int64_t offset, int64_t count, comm_type type, int local_rank,
                       const void **data, int64_t *first, int64_t *length);

/* What may decide in which order an all-reduce adds up. */
typedef enum comm_order {
    COMM_ANY_ORDER,
    COMM_REPEATED, /* the same ranks on the same hosts get the same bits again, whichever way was fastest */
    COMM_TREE      /* a binary tree over the ranks, of which one rank with more parts can compute a subtree */
} comm_order;
/* Which way the all-reduces of this group go: a name of comm_way_name, or "auto": the usual one, or that which
 * comm_measure_ways finds fastest. CLT_ECONFIG: there is none of that name here, or it does not suit the group or
 * the order; the message lists those that do. Call it on all ranks. */
clt_status comm_set_way(comm *c, const char *name, comm_order order);
/* What the ranks of a host have added up of 16-bit data travels to other hosts as f32, so that everything is rounded
 * once; with half = true as 16 bits, rounded there as well: two thirds of the bytes. Call it on all ranks. */
void comm_set_half_between(comm *c, bool half);
const char *comm_way_name(size_t index); /* NULL behind the last */
const char *comm_chosen_way(const comm *c);
/* Sums `bytes` of a type by every way that suits the group and the order, a few times each, and chooses the one whose
 * slowest rank was fastest. Where the order is COMM_REPEATED only ways with the same bits take part. seconds[i]: of
 * way i, 0: it did not take part. Collective. */
clt_status comm_measure_ways(comm *c, int64_t bytes, comm_type type, double *seconds, size_t capacity);

/* Sums by the blocking all-reduce of the transport's library, to compare with: meanwhile nobody looks at the
 * deadline. CLT_ECONFIG: it has none, not over these ranks or not of this type. */
clt_status comm_native_sum(comm *c, void *data, int64_t count, comm_type type);

/* All ranks must hold the same bytes (config, seeds, versions): CLT_ERANKS, on every rank, names `what` and
 * the first rank that differs from rank 0. */
clt_status comm_check_equal(comm *c, const void *data, int64_t bytes, const char *what);
/* Sends a block of bytes around the ring of ranks and compares what arrives: CLT_ECOMM names the link that does not
 * work. Collective. */
clt_status comm_check_links(comm *c);
/* Ends all ranks at once with the exit code of `status`; with one rank, or NULL, it only returns true. False: the
 * transport has not ended this process within seconds, because the network is gone; it then must end itself, without
 * comm_destroy. */
bool comm_abort(comm *c, clt_status status);

#endif
