/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files and tests of this room share: the members of a group, messages with a deadline, and sums.
 * Other rooms use comm.h only. */
#ifndef COMM_COMM_INTERNAL_H
#define COMM_COMM_INTERNAL_H

#include "comm/comm.h"
#include "comm/engine.h"

/* --- groups --- */

typedef struct comm_segment comm_segment;
typedef struct comm_algorithm comm_algorithm;

struct comm {
    comm_engine *engine;
    comm *parent; /* NULL: this is the group of the whole job */
    comm_info info;
    int *member;      /* for each rank of the group: its number in the job */
    int *local;       /* for each local rank: its number in the group; ascending */
    int *node, *seat; /* for each rank of the group: the number of its host, and its local rank there */
    int tag;          /* tag of the group's messages */
    /* How many local ranks of each host own a slice of a sum in two levels: the least number of ranks on a
     * host. 0: no sums in two levels, because the ranks of a host cannot share memory or each is alone on
     * its host. */
    int lanes;
    /* ranks with this local_rank, one of each host; NULL: there is one host, or this rank owns no slice */
    comm *across;
    comm_segment *segment; /* memory shared by the local ranks, or NULL */
    /* the next piece takes the slot with the number `slot` % COMM_SLOTS */
    int64_t slot;
    int64_t slot_bytes;              /* of each slot */
    const comm_algorithm *algorithm; /* the algorithm that was asked for or measured; NULL: the usual one */
    comm_order order;
    bool half_between; /* comm_set_half_between */
};

/* comm_create on a transport of the caller's choice. */
clt_status comm_create_with(const comm_transport *transport, comm **out);

/* --- messages between ranks of a group (link.c); communication thread only --- */

/* Yields or sleeps until a message has arrived or was taken. *turns begins at 0. */
clt_status comm_wait_message(comm *c, comm_message *message, int *turns);
/* Sends and receives at the same time, any number of bytes; `to` = -1: only receives, `from` = -1: only
 * sends. */
clt_status comm_exchange(comm *c, const void *send, int64_t send_bytes, int to, void *receive,
                         int64_t receive_bytes, int from);

/* Messages that are under way together. Both ranks of a pair start the messages between them in the same
 * order. */
typedef struct comm_pending {
    comm_message *message; /* has room for all messages that are started */
    int started, ended;
} comm_pending;
/* Sends nothing if `bytes` is 0; bytes <= transport->message_bytes. */
clt_status comm_pending_start(comm *c, comm_pending *f, void *data, int64_t bytes, int rank, bool receive);
clt_status comm_pending_finish(comm *c, comm_pending *f);
void comm_pending_drop(comm *c, comm_pending *f); /* drops the messages that have not ended */

/* --- sums (sums.c) --- */

/* Writes the sum of part[p][i] over all parts p to out[k][i], for each of the `outs` outputs k. COMM_F32,
 * COMM_F16 and COMM_BF16 are added in f32, as a binary tree over the parts' numbers, ((0+1)+(2+3))+..., and
 * rounded once. An output may be one of the parts. */
void comm_sum_parts(const void *const *part, int parts, int64_t count, comm_type type, void *const *out,
                    int outs);
/* comm_sum_parts without the rounding. */
void comm_sum_parts_f32(const void *const *part, int parts, int64_t count, comm_type type, float *out);
void comm_round(const float *values, int64_t count, comm_type type, void *out);
/* into[i] = into[i] op other[i]; not of 16-bit types. */
void comm_combine(void *into, const void *other, int64_t count, comm_type type, comm_op op);

/* --- sums by messages in pieces (pieces.c); communication thread only --- */

#define COMM_PIECES_ALIVE 5 /* pieces under way at the same time */

typedef struct comm_piece {
    void *part, *sum; /* this rank's part, and where the sum is written; may be the same */
    int64_t count;    /* elements; the same on every rank */
} comm_piece;

typedef struct comm_pieces {
    comm_type type;
    bool wide; /* `type` has 16 bits, but the parts, which are sums of several ranks, are f32 */
    /* false: sends no messages; begin and end are called in the same order as with messages */
    bool sends_messages;
    /* Other ranks of the host send messages. begin and end contain barriers with them, so both are called in
     * the same turns as on those ranks. */
    bool others_send;
    int64_t count;        /* pieces; the same on every rank */
    int64_t max_elements; /* elements of a piece */
    void *context;
    /* Makes piece k; `wide` has room for its part in f32. */
    clt_status (*begin)(void *context, int64_t k, float *wide, comm_piece *piece);
    /* The sum of piece k is complete. Called after `begin` of piece k + COMM_PIECES_ALIVE - 1, or, where no
     * rank of the host sends messages, after `begin` of piece k + 2; in both cases if there is such a
     * piece. */
    clt_status (*end)(void *context, int64_t k, const comm_piece *piece);
} comm_pieces;
clt_status comm_run_pieces(comm *group, const comm_pieces *pieces);
/* Elements of a piece for this number of ranks: few enough that the next piece is ready in time, enough that
 * the message with a rank's share is not small. */
int64_t comm_piece_elements(int ranks, comm_type type);

/* --- algorithms (algorithms.c, algorithm_nodes.c); communication thread only --- */

/* Slots of c->slot_bytes in c->segment for each local rank: one for each piece under way, and one to write
 * to while others may still read the oldest. */
#define COMM_SLOTS (COMM_PIECES_ALIVE + 1)
#define COMM_SLOT_BYTES ((int64_t)2 << 20)
#define COMM_SMALL_SLOT_BYTES ((int64_t)64 << 10) /* in groups for little data */
#define COMM_MOST_LOCAL 256

struct comm_memory {
    comm *group;
    comm_segment *segment; /* NULL: `own` is ordinary memory of this rank alone */
    bool shared;           /* on all hosts, local ranks (if several) see each other's memory */
    void *own;
    int64_t bytes;
};
/* Sums the data at `offset` in each local rank's memory, in place: afterwards every owner's slice
 * (comm_memory_slice) holds the sum, or with `everywhere` all of the memory does. */
clt_status comm_run_memory_sum(comm_memory *m, const comm_call *call);

struct comm_algorithm {
    const char *name;
    /* NULL: the algorithm suits; otherwise a text that says why not. */
    const char *(*unsuited)(const comm *c, comm_type type, comm_op op);
    /* True: it adds in the order of comm_sum_parts, a binary tree over the ranks. */
    bool (*is_tree)(const comm *c);
    clt_status (*all_reduce)(comm *c, void *data, int64_t count, comm_type type, comm_op op);
};
/* True if the data has 16 bits but a host's sums go to other hosts as f32. */
bool comm_widens(const comm *c, comm_type type);
bool comm_always_tree(const comm *c);
bool comm_never_tree(const comm *c);
extern const comm_algorithm comm_algorithm_tree, comm_algorithm_halving, comm_algorithm_ring,
    comm_algorithm_slices, comm_algorithm_nodes, comm_algorithm_native;
const comm_algorithm *comm_algorithm_at(size_t index); /* NULL after the last */
/* NULL: the group may use the algorithm; otherwise a text that says why its order forbids it. */
const char *comm_algorithm_forbidden(const comm *c, const comm_algorithm *algorithm);
/* The algorithm for an all-reduce of `bytes` bytes. */
const comm_algorithm *comm_algorithm_for(const comm *c, int64_t bytes, comm_type type, comm_op op);
clt_status comm_run_all_reduce(comm *c, void *data, int64_t count, comm_type type, comm_op op);
/* True if sums of `bytes` bytes use the algorithm `nodes`. */
bool comm_in_two_levels(const comm *c, int64_t bytes, comm_type type);
clt_status comm_run_broadcast(comm *c, void *data, int64_t bytes, int root);
clt_status comm_run_barrier(comm *c);

/* --- shares (shares.c); communication thread only --- */

typedef struct comm_shares {
    bool sums;       /* true: a reduce-scatter; false: an all-gather */
    bool two_levels; /* shared memory inside hosts; false: messages between all ranks */
    void *data;
    void *const *part; /* each local rank's data, if all of them can access it; NULL: they cannot */
    int64_t count, grain;
    comm_type type;
} comm_shares;
clt_status comm_run_shares(comm *c, const comm_shares *what);
clt_status comm_run_reduce_scatter(comm *c, void *data, int64_t count, int64_t grain, comm_type type);
clt_status comm_run_all_gather(comm *c, void *data, int64_t count, int64_t grain, comm_type type);
/* A reduce-scatter or all-gather in memory for collectives; no rank writes into the memory of another. */
clt_status comm_run_memory_shares(comm_memory *m, const comm_call *call);

/* --- memory that the local ranks share (segment.c); communication thread only --- */

/* A collective call of the local ranks: makes a part of `bytes` for each of them, aligned to a page. *out is
 * NULL with CLT_OK, on all of them, if this host does not allow it. */
clt_status comm_segment_create(comm *c, int64_t bytes, comm_segment **out);
void comm_segment_destroy(comm_segment *s);
void *comm_segment_part(const comm_segment *s, int local_rank);
/* A barrier of the local ranks; needs c->segment. */
clt_status comm_segment_barrier(comm *c);

/* --- the module (comm_launch.c) --- */

/* Tries COMM_MODULE_FILE in each folder in turn. A module stays loaded until the process ends: MPI can
 * neither be initialised twice nor be unloaded safely. */
clt_status comm_load_module(const char *const *folders, size_t count, const comm_transport **out);
/* The module from the folders named in comm.h. */
clt_status comm_load_mpi(const comm_transport **out);
/* Number of processes according to the launcher's environment; 0 if it does not say. */
int comm_launcher_ranks(void);

#endif
