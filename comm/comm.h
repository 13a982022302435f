/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks and collectives over host memory. A transport is a table of functions; `self` is built in, `mpi` is a
 * module that is loaded only under a launcher, so that a single process never needs MPI. One thread of ours
 * owns all MPI calls from init to finalize. This room knows nothing of OpenCL or models. */
#ifndef COMM_COMM_H
#define COMM_COMM_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/status.h"

typedef enum comm_op { COMM_SUM, COMM_MAX, COMM_MIN } comm_op;
/* F16 and BF16 support sums only. They are added in f32, in the order of the ranks, and rounded once
 * (comm_half.c). */
typedef enum comm_type { COMM_F32, COMM_F64, COMM_I64, COMM_U8, COMM_F16, COMM_BF16 } comm_type;

/* Local ranks are those that share this rank's memory and host name. */
typedef struct comm_info {
    int rank, ranks, local_rank, local_ranks;
    char host[64];
    const char *transport;   /* "self", "mpi" */
    const char *description; /* "Open MPI v4.1.4" */
} comm_info;

/* Functions that the program hands to a transport. A transport module is not linked against the library, so
 * it can call back only through this table. */
#define COMM_ABI_VERSION 2
typedef struct comm_host {
    int abi_version;
    /* Records the message of a failure for this thread (file must be a string constant) and returns
     * CLT_ECOMM. */
    clt_status (*failed)(const char *file, int line, const char *text);
} comm_host;

/* A transport. A module exports it as the object `comm_transport_entry`. All functions are called from the
 * communication thread only; the exception is `abort`, which another thread calls if that thread is stuck
 * inside a collective. */
typedef struct comm_transport {
    int abi_version; /* first member in every version */
    const char *name;
    /* Fills all of info but `transport`; its strings live as long as the transport. */
    clt_status (*init)(const comm_host *host, comm_info *info);
    /* In place. Never called with a 16-bit type. */
    clt_status (*all_reduce)(void *data, int64_t count, comm_type type, comm_op op);
    /* `send` holds one block of `bytes` bytes for each rank, in the order of the ranks; `recv` gets one block
     * from each rank, in the same order. */
    clt_status (*all_to_all)(const void *send, void *recv, int64_t bytes);
    /* In place. `data` holds one block of `bytes` bytes for each rank, of which this rank has filled its
     * own. */
    clt_status (*all_gather)(void *data, int64_t bytes);
    clt_status (*broadcast)(void *data, int64_t bytes, int root);
    clt_status (*barrier)(void);
    void (*abort)(int exit_code); /* ends every rank */
    void (*finalize)(void);
} comm_transport;

typedef struct comm comm;

/* True when the environment says that a launcher (mpirun, srun with PMI or PMIx) started this process. */
bool comm_under_launcher(void);
/* comm_create: takes the transport `self` unless a launcher started this process. Under a launcher it loads
 * cltrain_comm_mpi.so from $CLTRAIN_MODULE_DIR, the folder of the program, its ../lib/cltrain, or the install
 * folder. CLT_ECOMM says which files were tried and why each failed. */
clt_status comm_create(comm **out);
/* Finalizes the transport and frees everything; NULL is fine. Requests that were not waited for are dropped,
 * so nothing may call comm_request_ready for them afterwards. After a failed collective the transport is not
 * finalized, because the ranks no longer agree on which collective comes next and finalizing could block for
 * ever; the launcher ends the other ranks when this process ends. */
void comm_destroy(comm *c);
const comm_info *comm_describe(const comm *c);

/* Blocking collectives (hand the work to the communication thread and wait). After a failure every later one
 * fails. */
clt_status comm_all_reduce(comm *c, void *data, int64_t count, comm_type type, comm_op op);
clt_status comm_broadcast(comm *c, void *data, int64_t bytes, int root);
clt_status comm_barrier(comm *c);
/* A posted collective starts when comm_request_ready is called for it, which happens once and from any
 * thread, such as an event callback; ok = false makes the wait fail. Requests run in the order in which they
 * were posted, so a blocking collective also waits for all requests that were posted before it. */
typedef struct comm_request comm_request;
clt_status comm_all_reduce_post(comm *c, void *data, int64_t count, comm_type type, comm_op op,
                                comm_request **out);
void comm_request_ready(comm_request *request, bool ok);
clt_status comm_request_wait(comm_request *request); /* frees the request */
/* How long a request took on this rank, in seconds. */
typedef struct comm_times {
    /* in the transport, including the wait for ranks that join later; 0: it did not run */
    double inside;
    double since_ready; /* from comm_request_ready until it was done */
} comm_times;
clt_status comm_request_wait_timed(comm_request *request, comm_times *times); /* frees the request, too */
/* All ranks must hold the same bytes (config, seeds, versions): CLT_ERANKS, on every rank, names `what` and
 * the first rank that differs from rank 0. */
clt_status comm_check_equal(comm *c, const void *data, int64_t bytes, const char *what);
/* Ends all ranks at once with the exit code of `status`; with one rank it only returns. */
void comm_abort(comm *c, clt_status status);

#endif
