/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks and collectives over host memory, in three layers: the interface (this file), the algorithms of an
 * all-reduce (algorithms.c: ring, halving, slices, nodes ...), and messages (transport.h). One communication
 * thread runs all collectives of a process in the order in which they were posted; it alone calls the
 * transport. This room knows nothing of OpenCL or models. */
#ifndef COMM_COMM_H
#define COMM_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/scope.h"
#include "engine/base/status.h"

typedef enum comm_op { COMM_SUM, COMM_MAX, COMM_MIN } comm_op;
/* F16 and BF16 support COMM_SUM only: summed in f32, rounded once. */
typedef enum comm_type { COMM_F32, COMM_F64, COMM_I64, COMM_U8, COMM_F16, COMM_BF16 } comm_type;
int64_t comm_type_bytes(comm_type type);

/* Ranks that work together: all ranks of the job (comm_create), or some of them (comm_split). Local ranks
 * are the ranks of the group that run on this rank's host: the same host name and the same running
 * kernel. */
typedef struct comm comm;
typedef struct comm_info {
    int rank, ranks, local_rank, local_ranks;
    int core_ranks;  /* local ranks, including this one, that may run on this rank's cores */
    int nodes;       /* hosts on which the group has ranks */
    bool even_nodes; /* every host has local_ranks ranks, with consecutive numbers */
    char host[64];
    const char *transport;   /* "self", "mpi" */
    const char *description; /* "Open MPI v4.1.4" */
} comm_info;

/* True when the environment says that a launcher (mpirun, srun with PMI or PMIx) started this process. */
bool comm_under_launcher(void);
/* The number of processes that srun started without PMI or PMIx: they cannot find each other, so each of
 * them does the whole work. Otherwise 1. */
int comm_tasks_alone(void);
/* Warns if comm_tasks_alone() > 1, and names the option that srun needs. comm_create calls this function. A
 * program that calls comm_create only under a launcher calls this function when there is no launcher. */
void comm_warn_if_alone(void);
/* Finds a file in the folders that comm_create searches for its module. False: no folder has it, or its path
 * needs more than `size` bytes. */
bool comm_module_file(const char *name, char *path, size_t size);
/* The name of the library that keeps the ports of a local job's mpirun on the loopback address
 * (loopback.c). */
#define COMM_LOOPBACK_FILE "cltrain_loopback.so"
/* comm_create: takes the transport `self` unless a launcher started this process. Under a launcher it loads
 * cltrain_comm_mpi.so from $CLTRAIN_MODULE_DIR, the folder of the program, its ../lib/cltrain, or the
 * install folder. CLT_ECOMM says which files were tried and why each failed. */
clt_status comm_create(comm **out);
/* A collective call of all ranks of `parent`: ranks with the same colour become a group, numbered by key and
 * then by their rank in parent. A rank with a negative colour joins no group: *out is NULL. */
clt_status comm_split(comm *parent, int colour, int key, comm **out);
/* comm_split for little data, such as records of a few KB: the group takes 384 KiB of shared memory for each
 * local rank instead of 12 MiB. Larger data is cut into more pieces. */
clt_status comm_split_small(comm *parent, int colour, int key, comm **out);
/* Bytes of shared memory that a group takes for each rank, on hosts with several ranks. `small`: for a group
 * made by comm_split_small. */
int64_t comm_group_bytes(bool small);
/* Frees a group; NULL is fine. The group of the whole job is freed last, which also finalizes the transport.
 * Requests that were not waited for are dropped, so nothing may call comm_request_ready for them afterwards.
 * After a failed collective the transport is not finalized, because the ranks no longer agree on which
 * collective comes next and finalizing could block for ever; the launcher ends the other ranks when this
 * process ends. */
void comm_destroy(comm *c);
const comm_info *comm_describe(const comm *c);

/* Every collective must end within `seconds` on every rank (600 until this is called). One that does not
 * fails with CLT_ECOMM on all ranks that still answer. The message names the late ranks and says what each
 * of them (if it answers) and this rank were doing, and for how long. Collectives fail in the same way when
 * the process of another rank on this host has ended. */
void comm_set_deadline(comm *c, double seconds);
/* What the process is doing, for the message of a late collective: "step 17, backward". */
void comm_set_phase(comm *c, const char *text);

/* Blocking collectives: they hand the work to the communication thread and wait. After a failure every later
 * collective fails. */
clt_status comm_all_reduce(comm *c, void *data, int64_t count, comm_type type, comm_op op);
clt_status comm_broadcast(comm *c, void *data, int64_t bytes, int root);
/* Sends rank 0's text to all ranks: the others get it, terminated by NUL, in *text, which the caller frees;
 * if rank 0's text is NULL, theirs is, too. `what` names the text in the message if memory runs out. */
clt_status comm_share_text(comm *c, char **text, size_t *length, const char *what);
clt_status comm_barrier(comm *c);
/* `data` has `count` elements, divided into shares of whole grains of `grain` elements (comm_share). After a
 * reduce-scatter a rank's own share holds the sum, with the bits of an all-reduce by `nodes` or, where
 * `nodes` does not suit, by `slices`; the rest of `data` is undefined. Before an all-gather every rank has
 * filled its own share. */
clt_status comm_reduce_scatter(comm *c, void *data, int64_t count, int64_t grain, comm_type type);
clt_status comm_all_gather(comm *c, void *data, int64_t count, int64_t grain, comm_type type);
/* The share of rank `rank`: elements [*first, *first + *length). Shares lie in the order of the ranks, as
 * equal as grains allow; rank 0 has the longest, others may be empty. */
void comm_share(int64_t count, int64_t grain, int ranks, int rank, int64_t *first, int64_t *length);

/* A posted collective may start once comm_request_ready has been called for it: once, from any thread, such
 * as an event callback; ok = false makes the wait fail. Requests of all groups of the process run in the
 * order in which they were posted, so a blocking collective also waits for all requests posted before it.
 * Urgent requests are the exception: among themselves they keep the order of posting, but each runs as soon
 * as it is ready, even in the middle of another request, so that a device need not wait for little data
 * until much data has been sent. Urgent requests need a group of their own (comm_split). An urgent request
 * must become ready without waiting for a request that is not urgent, unless that one is done before the
 * urgent request becomes ready on any rank. */
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
    /* If not NULL, the data lies `offset` bytes into this memory, not at `data`; not for a broadcast or a
     * barrier. The sum of COMM_ALL_REDUCE is spread over the local ranks' memory (comm_memory_slice), or
     * with `everywhere` it is written into every rank's. A reduce-scatter writes only the rank's own share,
     * into its own memory. */
    struct comm_memory *memory;
    int64_t offset;
    bool everywhere;
    int root; /* broadcast */
    /* Called on the communication thread when the call has ended, before any waiter wakes; it must neither
     * block nor call functions of this room. May be NULL. */
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
/* How long a request took on this rank, in seconds */
typedef struct comm_times {
    /* time in which it ran, including the wait for ranks that join later; 0: it did not run */
    double inside;
    double since_ready; /* from comm_request_ready until it was done */
} comm_times;
clt_status comm_request_wait_timed(comm_request *request, comm_times *times); /* frees the request, too */

/* Memory for collectives: `bytes` for each rank of a group. All ranks of the group create theirs in the same
 * order. Where local ranks can map each other's memory, each adds up one slice, without copies in between.
 * The sum is then either written into the memory of all local ranks (comm_call.everywhere: for devices that
 * compute on it), or each slice stays in the memory of one local rank, where the others read it. In the
 * second case no rank may write there before all have read. No other synchronisation is needed if ranks
 * alternate between two memories and each reads the sums of one step before it posts the sums of the
 * next. */
typedef struct comm_memory comm_memory;
clt_status comm_memory_create(comm *c, int64_t bytes, comm_memory **out);
void comm_memory_destroy(comm_memory *m); /* NULL is fine; while no call uses it */
CLT_SCOPED_POINTER(comm_memory, comm_memory_destroy)
void *comm_memory_own(comm_memory *m);
/* After a sum of `count` elements at `offset` without `everywhere`: finds the slice [*first, *first +
 * *length) that is in the memory of `local_rank`, and its address, *data. All slices together are the whole
 * sum. */
void comm_memory_slice(const comm_memory *m, int64_t offset, int64_t count, comm_type type, int local_rank,
                       const void **data, int64_t *first, int64_t *length);

/* The requirement on the order of additions in an all-reduce. */
typedef enum comm_order {
    COMM_ANY_ORDER,
    COMM_REPEATED, /* every run with the same ranks on the same hosts gets the same bits: only algorithms that
                    * give equal bits may be chosen */
    COMM_TREE      /* a binary tree over the ranks; one rank with several parts can compute a subtree */
} comm_order;
/* Sets the algorithm of this group's all-reduces: a name of comm_algorithm_name, or "auto": the usual one
 * until comm_measure_algorithms chooses the fastest. CLT_ECONFIG: no algorithm has that name, or it does not
 * suit the group or the order; the message lists the algorithms that do. Call it on all ranks. */
clt_status comm_set_algorithm(comm *c, const char *name, comm_order order);
/* A host's sums of 16-bit data travel to other hosts as f32, so that everything is rounded once. With `half`
 * they are rounded before they are sent, too, and travel as 16 bits: two thirds of the bytes. Call it on all
 * ranks. */
void comm_set_half_between(comm *c, bool half);
const char *comm_algorithm_name(size_t index); /* NULL after the last */
const char *comm_chosen_algorithm(const comm *c);
/* Sums `bytes` of data of a type by every algorithm that suits the group and the order, a few times each, and
 * chooses the algorithm whose slowest rank was fastest. With the order COMM_REPEATED only algorithms that
 * give the same bits take part. seconds[i]: the time of algorithm i; 0: it did not take part. Collective. */
clt_status comm_measure_algorithms(comm *c, int64_t bytes, comm_type type, double *seconds, size_t capacity);

/* Sums by the blocking all-reduce of the transport's library, for comparisons. The deadline does not apply
 * during this call. CLT_ECONFIG: the library has no all-reduce, or cannot sum over these ranks or this
 * type. */
clt_status comm_native_sum(comm *c, void *data, int64_t count, comm_type type);

/* Checks that all ranks hold the same bytes (config, seeds, versions). Otherwise CLT_ERANKS on every rank;
 * the message names `what` and the first rank that differs from rank 0. Collective. */
clt_status comm_check_equal(comm *c, const void *data, int64_t bytes, const char *what);
/* Sends a block of bytes around the ring of ranks and compares what arrives: CLT_ECOMM names the link that
 * does not work. Collective. */
clt_status comm_check_links(comm *c);
/* Ends all ranks immediately with the exit code of `status`; with one rank, or with c NULL, it only returns
 * true. False: the transport did not end this process within seconds, because the network is gone; the
 * process then must end itself, without comm_destroy. */
bool comm_abort(comm *c, clt_status status);

#endif
