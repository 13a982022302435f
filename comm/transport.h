/* SPDX-License-Identifier: Apache-2.0
 *
 * The interface of a transport: messages that do not block, and a test whether one has arrived. Collectives
 * are made of messages (algorithms.c), so a transport knows nothing of sums, groups or deadlines. `self` is
 * built in; `mpi` is a module that is loaded only under a launcher, so that a single process never needs MPI.
 * */
#ifndef COMM_TRANSPORT_H
#define COMM_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "comm/comm.h"

#define COMM_ABI_VERSION 6
#define COMM_MODULE_FILE "cltrain_comm_mpi.so"
#define COMM_MODULE_SYMBOL "comm_transport_entry"

/* Functions that the program gives a transport. A transport module is not linked against the library, so it
 * can call back only through this table. */
typedef struct comm_host {
    int abi_version;
    /* Records the message of a failure for this thread (file must be a string constant) and returns
     * CLT_ECOMM. */
    clt_status (*failed)(const char *file, int line, const char *text);
} comm_host;

/* A message under way; `space` belongs to the transport and need not be cleared before use. */
typedef struct comm_message {
    _Alignas(16) unsigned char space[64];
} comm_message;

/* A module exports it as the object `comm_transport_entry`. All functions are called from the communication
 * thread only; the exception is `abort`, which another thread calls if that thread is stuck. Ranks are
 * numbered in the whole job. Messages with the same sender, receiver and tag arrive in the order in which
 * they were sent; tags are 0 to COMM_MAX_TAG. */
#define COMM_MAX_TAG 32000
typedef struct comm_transport {
    int abi_version; /* first member in every version */
    const char *name;
    int64_t message_bytes; /* most bytes of one message */
    /* *description is a name and version for users; it lives as long as the transport. */
    clt_status (*init)(const comm_host *host, int *rank, int *ranks, const char **description);
    /* The name of this rank's host; NULL: the system's host name. */
    const char *(*host)(void);
    /* send, receive: start a message of at most message_bytes; `data` must not change until `test` says
     * done. Sender and receiver name the same number of bytes. */
    clt_status (*send)(const void *data, int64_t bytes, int to, int tag, comm_message *message);
    clt_status (*receive)(void *data, int64_t bytes, int from, int tag, comm_message *message);
    clt_status (*test)(comm_message *message, bool *done);
    void (*drop)(comm_message *message); /* gives up a message that has not ended */
    /* Starts the library's own all-reduce over all ranks of the job, in place, of at most COMM_REDUCED_COUNT
     * elements, which must not have 16 bits; `test` of the message says when it has ended. If `message` is
     * NULL the call blocks until then. The function is NULL if the library has none. */
    clt_status (*all_reduce)(void *data, int64_t count, comm_type type, comm_op op, comm_message *message);
    void (*abort)(int exit_code); /* ends every rank */
    void (*finalize)(void);
} comm_transport;
#define COMM_REDUCED_COUNT ((int64_t)1 << 24)

extern const comm_transport comm_transport_self;

#endif
