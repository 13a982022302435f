/* SPDX-License-Identifier: Apache-2.0
 *
 * The communication thread with its list of requests, and the roll call that finds late ranks. It is a layer
 * below groups and collectives: a request is just a function to run. */
#ifndef COMM_ENGINE_H
#define COMM_ENGINE_H

#include "comm/comm.h"
#include "comm/transport.h"
#include "engine/base/scope.h"
#include "engine/base/thread.h"

#define COMM_DEADLINE 600.0 /* seconds; valid until comm_set_deadline is called */

typedef struct comm_engine comm_engine;

struct comm_request {
    comm_engine *engine;
    clt_status (*body)(void *context); /* runs on the communication thread */
    void *context;
    const char *what;
    void (*ended)(void *context, bool ok); /* called after body, or instead of it; may be NULL */
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
CLT_SCOPED_POINTER(comm_engine, comm_engine_destroy)
const comm_transport *comm_engine_transport(const comm_engine *e);
/* In the job; known once comm_engine_create has returned. */
int comm_engine_rank(const comm_engine *e);
int comm_engine_ranks(const comm_engine *e);
const char *comm_engine_description(const comm_engine *e);
void comm_engine_set_host(comm_engine *e, const char *host); /* for messages */
void comm_engine_set_deadline(comm_engine *e, double seconds);
/* True if each rank has fewer than two cores to itself. Waiting then sleeps instead of yielding: a thread
 * that yields its core to a computing thread gets it back only when that thread's time slice ends,
 * milliseconds later; a sleeping thread is woken immediately. */
void comm_engine_set_crowded(comm_engine *e, bool crowded);
void comm_engine_set_phase(comm_engine *e, const char *text);

/* Appends a request. The caller has set body, context, what and on_heap, and also `ready` if the request may
 * run immediately. */
void comm_engine_post(comm_engine *e, comm_request *r);
/* Waits until request `r` has run, and takes it out of the list. */
clt_status comm_engine_finish(comm_request *r);
/* Runs body(context) on the communication thread, when its turn comes, and returns the result. */
clt_status comm_engine_run(comm_engine *e, const char *what, clt_status (*body)(void *), void *context);
/* The largest tag that any group uses. */
int comm_engine_last_tag(const comm_engine *e);
void comm_engine_use_tag(comm_engine *e, int tag);
bool comm_engine_abort(comm_engine *e, int exit_code);

/* For the communication thread: memory that stays until the next call with a larger size. Urgent requests
 * have a block of their own. */
clt_status comm_engine_scratch(comm_engine *e, int64_t bytes, void **out);
/* Called between the parts of a long request: runs the urgent requests that are ready. CLT_ECOMM when one of
 * them failed. */
clt_status comm_engine_give_way(comm_engine *e);
/* comm_engine_give_way for loops that wait on the communication thread: also yields the core and, after a
 * while, sleeps. CLT_ECOMM when the request's deadline has passed here or on another rank. *turns begins at
 * 0. */
clt_status comm_engine_wait_turn(comm_engine *e, int *turns);

/* Watches the process of another rank of this host, in the same name space of process numbers: when it ends,
 * collectives fail soon after. Communication thread only. */
void comm_engine_watch(comm_engine *e, int rank, int64_t process);

/* The roll (roll.c): a rank whose deadline has passed tells all others what it is doing, and they answer
 * with what they are doing. Communication thread only. */
typedef struct comm_roll comm_roll;
typedef struct comm_word {
    int64_t number;  /* number of the rank's present or last collective, urgent ones not counted */
    int64_t urgent;  /* the same among urgent collectives, which are counted separately */
    int64_t within;  /* 1: the collective that the rank is in is urgent */
    int64_t inside;  /* 1: the rank is in a collective, 0: it runs none */
    double seconds;  /* time spent in that collective, or in the phase */
    char phase[104]; /* "step 17 (forward and backward)" */
} comm_word;
clt_status comm_roll_create(const comm_transport *transport, int rank, int ranks, comm_roll **out);
void comm_roll_destroy(comm_roll *roll, bool in_step);
void comm_roll_watch(comm_roll *roll, int rank, int64_t process);
/* True if another rank has called the roll. */
bool comm_roll_was_heard(comm_roll *roll);
/* True if comm_roll_was_heard, or if the process of a watched rank ended some time ago. */
bool comm_roll_was_called(comm_roll *roll);
/* Tells all ranks what this one is doing, without waiting for answers. */
void comm_roll_answer(comm_roll *roll, const comm_word *own);
/* Tells all ranks, waits a moment for their answers and writes into `late` who is late: "no answer from rank
 * 3", "rank 2 was late: it has been in step 17 (forward and backward) for 61.2 s", "the process of rank 1
 * has ended". */
void comm_roll_call(comm_roll *roll, const comm_word *own, char *late, size_t size);

#endif
