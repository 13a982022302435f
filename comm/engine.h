/* SPDX-License-Identifier: Apache-2.0
 *
 * The communication thread and its list of requests, and the roll call that finds late ranks. Below groups and
 * collectives: a request is a function to run. */
#ifndef COMM_ENGINE_H
#define COMM_ENGINE_H

#include "comm/comm.h"
#include "comm/transport.h"
#include "engine/base/thread.h"

#define COMM_DEADLINE 600.0 /* seconds, until comm_set_deadline */

typedef struct comm_engine comm_engine;

struct comm_request {
    comm_engine *engine;
    clt_status (*body)(void *context); /* on the communication thread */
    void *context;
    const char *what;
    void (*ended)(void *context, bool ok); /* after body, also when it did not run; or NULL */
    bool ready, ok, done;
    bool urgent;  /* see comm_call */
    bool on_heap; /* false: lives on the stack of a blocking call */
    clt_error error;
    double ready_at; /* clt_now() */
    comm_times times;
    comm_request *previous, *next;
};

/* Starts the communication thread, which starts the transport. */
clt_status comm_engine_create(const comm_transport *transport, comm_engine **out);
void comm_engine_destroy(comm_engine *e);
const comm_transport *comm_engine_transport(const comm_engine *e);
/* Of the job; known when comm_engine_create has returned. */
int comm_engine_rank(const comm_engine *e);
int comm_engine_ranks(const comm_engine *e);
const char *comm_engine_description(const comm_engine *e);
void comm_engine_set_host(comm_engine *e, const char *host); /* for messages */
void comm_engine_set_deadline(comm_engine *e, double seconds);
/* Whether each rank has fewer than two of the cores to itself. Then waiting yields to nobody: a thread that yields
 * a core on which another one computes gets it back milliseconds later, after the other's whole slice of time,
 * while one that sleeps is woken at once. */
void comm_engine_set_crowded(comm_engine *e, bool crowded);
void comm_engine_set_phase(comm_engine *e, const char *text);

/* Appends a request. body, context, what and on_heap are set, ready as well where it may run at once. */
void comm_engine_post(comm_engine *e, comm_request *r);
/* Waits until it has run, and takes it out of the list. */
clt_status comm_engine_finish(comm_request *r);
/* Runs body(context) on the communication thread, in turn, and returns what it returns. */
clt_status comm_engine_run(comm_engine *e, const char *what, clt_status (*body)(void *), void *context);
/* Tags of groups: the last one in use. */
int comm_engine_last_tag(const comm_engine *e);
void comm_engine_use_tag(comm_engine *e, int tag);
bool comm_engine_abort(comm_engine *e, int exit_code);

/* For the communication thread. Memory that stays until the next call with a larger size; urgent requests have their
 * own. */
clt_status comm_engine_scratch(comm_engine *e, int64_t bytes, void **out);
/* Called between the parts of a long request: runs urgent ones that are ready. CLT_ECOMM when one of them failed. */
clt_status comm_engine_give_way(comm_engine *e);
/* The same, called again and again by whatever waits on the communication thread: yields the core, after a while sleeps.
 * CLT_ECOMM when the request's deadline has passed here or on another rank. *turns begins at 0. */
clt_status comm_engine_wait_turn(comm_engine *e, int *turns);

/* Another rank, of this host and name space of process numbers: when its process ends, collectives fail soon after.
 * Communication thread only. */
void comm_engine_watch(comm_engine *e, int rank, int64_t process);

/* The roll (roll.c): a rank whose deadline has passed tells all others what it is doing, and they answer with
 * what they are doing. Communication thread only. */
typedef struct comm_roll comm_roll;
typedef struct comm_word {
    int64_t number;  /* of the collective that it is in, or was in last, of those that are not urgent */
    int64_t urgent;  /* the same of urgent ones, which have numbers of their own */
    int64_t within;  /* 1: the collective that it is in is urgent */
    int64_t inside;  /* 1: it is in a collective, 0: it runs none */
    double seconds;  /* in that collective, or in its phase */
    char phase[104]; /* "step 17 (forward and backward)" */
} comm_word;
clt_status comm_roll_create(const comm_transport *transport, int rank, int ranks, comm_roll **out);
void comm_roll_destroy(comm_roll *roll, bool in_step);
void comm_roll_watch(comm_roll *roll, int rank, int64_t process);
/* Another rank has called. */
bool comm_roll_was_heard(comm_roll *roll);
/* The same, or the process of a watched rank has ended a while ago. */
bool comm_roll_was_called(comm_roll *roll);
/* Tells all ranks what this one does, without waiting for answers. */
void comm_roll_answer(comm_roll *roll, const comm_word *own);
/* Tells them, waits a moment for their answers and writes who is late: "no answer from rank 3", "rank 2 was late: it
 * has been in step 17 (forward and backward) for 61.2 s", "the process of rank 1 has ended". */
void comm_roll_call(comm_roll *roll, const comm_word *own, char *late, size_t size);

#endif
