/* SPDX-License-Identifier: Apache-2.0
 *
 * The communication thread: it makes every call of the transport from init to finalize and runs the requests
 * of all groups, in the order of posting, each within a deadline. Urgent requests have an order of their own
 * and run inside other requests while these wait. When a deadline passes, the ranks that still answer call
 * the roll (roll.c), so that the message names the ranks that do not. It must not know what a request does,
 * nor which transport it drives. */
#include "comm/engine.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/thread.h"

typedef enum abort_state { ABORT_NONE, ABORT_ASKED, ABORT_TAKEN, ABORT_RETURNED } abort_state;

/* `mutex` guards everything except transport, rank, ranks, description and the members that only the
 * communication thread uses; rank, ranks and description are written before `started`. */
struct comm_engine {
    const comm_transport *transport;
    int rank, ranks;
    const char *description;
    char host[64];
    clt_thread *thread;
    pthread_mutex_t mutex;
    pthread_cond_t work;       /* wakes the communication thread */
    pthread_cond_t change;     /* wakes the threads that wait for a request, for the start or for an abort */
    comm_request *head, *tail; /* posted and not yet waited for, in the order of posting */
    comm_request *cursor;      /* the next to run that is not urgent */
    comm_request *urgent;      /* the next urgent one to run */
    bool started, stop;
    bool broken; /* a collective failed here: this rank is out of step with the others */
    abort_state abort;
    int abort_code;
    clt_error start_error;
    char first_failure[512];
    int last_tag;            /* the largest tag that a group uses; only for the thread that makes groups */
    _Atomic bool pressing;   /* an urgent request can run; written under mutex */
    _Atomic double deadline; /* seconds for each request */
    bool crowded;            /* see comm_engine_set_crowded; set once */
    char phase[96];          /* what the process is doing */
    double phase_began;

    /* members that only the communication thread uses */
    comm_roll *roll;
    const char *what; /* what the running request is, for messages */
    double begun;
    bool within;       /* the running request is urgent */
    uint64_t count[2]; /* numbers of requests that have begun: all but urgent ones; [1]: urgent ones */
    void *scratch[2];
    int64_t scratch_bytes[2];
};

static clt_status host_failed(const char *file, int line, const char *text)
{
    return clt_fail(CLT_ECOMM, file, line, "%s", text);
}

static const comm_host host_table = {.abi_version = COMM_ABI_VERSION, .failed = host_failed};

/* --- the communication thread --- */

/* Called with the mutex held; releases it while the request runs. Time spent here does not count for the
 * request that this one interrupts. */
static clt_status run_body(comm_engine *e, comm_request *r)
{
    const char *interrupted = e->what;
    double begun = e->begun, start = clt_now();
    e->what = r->what;
    e->begun = start;
    e->within = r->urgent;
    e->count[r->urgent]++;
    pthread_mutex_unlock(&e->mutex);
    clt_status status = r->body(r->context);
    double end = clt_now();
    pthread_mutex_lock(&e->mutex);
    r->times = (comm_times){.inside = end - e->begun, .since_ready = end - r->ready_at};
    e->what = interrupted;
    e->begun = begun + (end - start);
    e->within = false;
    return clt_fail_prefix(status, "rank %d (%s)", e->rank, e->host);
}

static comm_request **cursor_of(comm_engine *e, const comm_request *r)
{
    return r->urgent ? &e->urgent : &e->cursor;
}

/* Called with the mutex held whenever an urgent request was posted, has become ready, or was begun. */
static void note_urgent(comm_engine *e)
{
    atomic_store_explicit(&e->pressing, e->urgent && e->urgent->ready, memory_order_relaxed);
}

/* Runs a request, unless an earlier one failed or its data is missing. */
static clt_status run_if_possible(comm_engine *e, comm_request *r)
{
    if (e->broken)
        CLT_FAIL(CLT_ECOMM, "rank %d: this collective was not started, because an earlier one failed (%s)",
                 e->rank, e->first_failure);
    if (!r->ok)
        CLT_FAIL(CLT_ECOMM,
                 "rank %d (%s): a collective was not started, because the device work that makes its data "
                 "failed; the first message about the device names the cause",
                 e->rank, e->host);
    return run_body(e, r);
}

/* Called with the mutex held. */
static void run_next(comm_engine *e, comm_request *r)
{
    comm_request *next = r->next;
    while (next && next->urgent != r->urgent)
        next = next->next;
    *cursor_of(e, r) = next;
    note_urgent(e);
    clt_status status = run_if_possible(e, r);
    if (status != CLT_OK && !e->broken) {
        e->broken = true;
        (void)snprintf(e->first_failure, sizeof e->first_failure, "%.500s", clt_error_text());
    }
    if (r->ended) {
        pthread_mutex_unlock(&e->mutex);
        r->ended(r->context, status == CLT_OK);
        pthread_mutex_lock(&e->mutex);
    }
    clt_error_take(status, &r->error);
    r->done = true;
    pthread_cond_broadcast(&e->change);
}

clt_status comm_engine_give_way(comm_engine *e)
{
    if (e->within || !atomic_load_explicit(&e->pressing, memory_order_relaxed))
        return CLT_OK;
    pthread_mutex_lock(&e->mutex);
    while (e->urgent && e->urgent->ready)
        run_next(e, e->urgent);
    bool broken = e->broken;
    pthread_mutex_unlock(&e->mutex);
    if (broken)
        CLT_FAIL(CLT_ECOMM, "this collective was given up, because another one failed (%s)",
                 e->first_failure);
    return CLT_OK;
}

static comm_word own_word(comm_engine *e, bool inside)
{
    comm_word own = {.number = (int64_t)e->count[0],
                     .urgent = (int64_t)e->count[1],
                     .within = inside && e->within,
                     .inside = inside};
    double now = clt_now();
    CLT_LOCKED(&e->mutex);
    (void)snprintf(own.phase, sizeof own.phase, "%s", e->phase[0] ? e->phase : "unnamed work");
    own.seconds = now - (inside ? e->begun : e->phase_began);
    return own;
}

/* Called with the mutex held, while no request can run: checks whether another rank has given up waiting for
 * this one. */
static void listen_for_the_roll(comm_engine *e)
{
    enum { NANOSECONDS = 200000000 };
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += NANOSECONDS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    if (pthread_cond_timedwait(&e->work, &e->mutex, &until) != ETIMEDOUT || e->broken)
        return;
    pthread_mutex_unlock(&e->mutex);
    bool called = comm_roll_was_heard(e->roll);
    if (called) {
        comm_word own = own_word(e, false);
        comm_roll_answer(e->roll, &own);
        CLT_WARN("another rank has given up waiting; rank %d (%s) has been in %s for %.1f s", e->rank,
                 e->host, own.phase, own.seconds);
    }
    pthread_mutex_lock(&e->mutex);
    if (called) {
        e->broken = true;
        (void)snprintf(e->first_failure, sizeof e->first_failure, "another rank has given up waiting");
    }
}

static void serve(comm_engine *e)
{
    for (;;) {
        while (e->abort != ABORT_ASKED && !e->stop && !(e->cursor && e->cursor->ready) &&
               !(e->urgent && e->urgent->ready)) {
            if (e->roll && !e->broken)
                listen_for_the_roll(e);
            else
                pthread_cond_wait(&e->work, &e->mutex);
        }
        if (e->abort == ABORT_ASKED) {
            e->abort = ABORT_TAKEN;
            pthread_mutex_unlock(&e->mutex);
            e->transport->abort(e->abort_code);
            pthread_mutex_lock(&e->mutex);
            e->abort = ABORT_RETURNED;
            pthread_cond_broadcast(&e->change);
        } else if (e->stop) {
            return;
        } else {
            run_next(e, e->urgent && e->urgent->ready ? e->urgent : e->cursor);
        }
    }
}

static clt_status start(comm_engine *e)
{
    CLT_TRY(e->transport->init(&host_table, &e->rank, &e->ranks, &e->description));
    return comm_roll_create(e->transport, e->rank, e->ranks, &e->roll);
}

static void *engine_thread(void *context)
{
    comm_engine *e = context;
    clt_status status = start(e);
    pthread_mutex_lock(&e->mutex);
    clt_error_take(status, &e->start_error);
    e->started = true;
    pthread_cond_broadcast(&e->change);
    if (status == CLT_OK)
        serve(e);
    /* If a request never ran here, the other ranks still wait in that collective, and finalizing would block
     * until they join. So the transport is finalized only if no collective failed, none is left and no other
     * rank has given up. */
    bool in_step = !e->broken && !e->cursor && !e->urgent && e->abort == ABORT_NONE;
    pthread_mutex_unlock(&e->mutex);
    in_step = in_step && status == CLT_OK && !comm_roll_was_called(e->roll);
    comm_roll_destroy(e->roll, in_step);
    if (status == CLT_OK && (in_step || e->ranks == 1))
        e->transport->finalize();
    return NULL;
}

clt_status comm_engine_scratch(comm_engine *e, int64_t bytes, void **out)
{
    int own = e->within;
    *out = NULL;
    if (bytes > e->scratch_bytes[own]) {
        free(e->scratch[own]);
        e->scratch[own] = NULL;
        e->scratch_bytes[own] = 0;
        CLT_TRY(clt_alloc(&e->scratch[own], (size_t)bytes, 1, "gradients of other ranks"));
        e->scratch_bytes[own] = bytes;
    }
    *out = e->scratch[own];
    return CLT_OK;
}

/* --- waiting with a deadline --- */

static clt_status too_late(comm_engine *e)
{
    char late[1024];
    comm_word own = own_word(e, true);
    comm_roll_call(e->roll, &own, late, sizeof late);
    CLT_FAIL(CLT_ECOMM,
             "a collective did not end: %s. This rank was in collective %llu (%s) for %.1f s, during %s; the "
             "limit is %.3g s (parallel.deadline)",
             late, (unsigned long long)e->count[e->within], e->what ? e->what : "unnamed", own.seconds,
             own.phase, e->deadline);
}

clt_status comm_engine_wait_turn(comm_engine *e, int *turns)
{
    /* short rests: 10 ms in all, or 2 ms where cores are crowded */
    enum { SPINS = 200, YIELDS = 1000, RESTS = 200, FEW_RESTS = 40, LOOK_EVERY = 64 };
    CLT_TRY(comm_engine_give_way(e));
    int turn = (*turns)++, first_rest = e->crowded ? SPINS : YIELDS;
    if (turn < SPINS)
        return CLT_OK;
    if (turn < first_rest) {
        sched_yield();
    } else {
        struct timespec rest = {0, turn < first_rest + (e->crowded ? FEW_RESTS : RESTS) ? 50000 : 500000};
        (void)nanosleep(&rest, NULL);
    }
    if (turn % LOOK_EVERY != 0)
        return CLT_OK;
    if (clt_now() - e->begun > e->deadline || comm_roll_was_called(e->roll))
        return too_late(e);
    return CLT_OK;
}

void comm_engine_set_deadline(comm_engine *e, double seconds)
{
    e->deadline = seconds;
}

void comm_engine_set_crowded(comm_engine *e, bool crowded)
{
    e->crowded = crowded;
}

void comm_engine_set_phase(comm_engine *e, const char *text)
{
    CLT_LOCKED(&e->mutex);
    (void)snprintf(e->phase, sizeof e->phase, "%s", text);
    e->phase_began = clt_now();
}

/* --- create and destroy --- */

static clt_status init_locks(comm_engine *e)
{
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes) != 0)
        CLT_FAIL(CLT_ENOMEM, "creating a communicator: no memory for a condition variable");
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    bool good = pthread_mutex_init(&e->mutex, NULL) == 0;
    good = pthread_cond_init(&e->work, &attributes) == 0 && good;
    good = pthread_cond_init(&e->change, &attributes) == 0 && good;
    pthread_condattr_destroy(&attributes);
    if (!good)
        CLT_FAIL(CLT_ENOMEM, "creating a communicator: no memory for a lock");
    return CLT_OK;
}

static clt_status wait_for_start(comm_engine *e)
{
    pthread_mutex_lock(&e->mutex);
    while (!e->started)
        pthread_cond_wait(&e->change, &e->mutex);
    pthread_mutex_unlock(&e->mutex);
    return clt_fail_prefix(clt_error_put(&e->start_error), "starting the %s transport", e->transport->name);
}

clt_status comm_engine_create(const comm_transport *transport, comm_engine **out)
{
    *out = NULL;
    CLT_FREED comm_engine *bare = NULL;
    CLT_TRY(clt_alloc(&bare, 1, sizeof *bare, "a communicator"));
    bare->transport = transport;
    bare->deadline = COMM_DEADLINE;
    bare->phase_began = clt_now();
    CLT_TRY(init_locks(bare));
    CLT_SCOPED(comm_engine) *e = CLT_TAKE(bare);
    CLT_TRY(clt_thread_start(&e->thread, "comm", engine_thread, e));
    CLT_TRY(wait_for_start(e));
    *out = CLT_TAKE(e);
    return CLT_OK;
}

void comm_engine_destroy(comm_engine *e)
{
    if (!e)
        return;
    pthread_mutex_lock(&e->mutex);
    e->stop = true;
    pthread_cond_signal(&e->work);
    pthread_mutex_unlock(&e->mutex);
    clt_thread_join(e->thread);
    while (e->head) {
        comm_request *next = e->head->next;
        if (e->head->on_heap)
            free(e->head);
        e->head = next;
    }
    pthread_cond_destroy(&e->change);
    pthread_cond_destroy(&e->work);
    pthread_mutex_destroy(&e->mutex);
    free(e->scratch[0]);
    free(e->scratch[1]);
    free(e);
}

const comm_transport *comm_engine_transport(const comm_engine *e)
{
    return e->transport;
}

int comm_engine_rank(const comm_engine *e)
{
    return e->rank;
}

int comm_engine_ranks(const comm_engine *e)
{
    return e->ranks;
}

const char *comm_engine_description(const comm_engine *e)
{
    return e->description;
}

int comm_engine_last_tag(const comm_engine *e)
{
    return e->last_tag;
}

void comm_engine_watch(comm_engine *e, int rank, int64_t process)
{
    comm_roll_watch(e->roll, rank, process);
}

void comm_engine_use_tag(comm_engine *e, int tag)
{
    e->last_tag = tag;
}

void comm_engine_set_host(comm_engine *e, const char *host)
{
    CLT_LOCKED(&e->mutex);
    (void)snprintf(e->host, sizeof e->host, "%s", host);
}

/* --- requests --- */

void comm_engine_post(comm_engine *e, comm_request *r)
{
    r->engine = e;
    CLT_LOCKED(&e->mutex);
    r->previous = e->tail;
    if (e->tail)
        e->tail->next = r;
    else
        e->head = r;
    e->tail = r;
    if (!*cursor_of(e, r))
        *cursor_of(e, r) = r;
    note_urgent(e);
    if (r->ready)
        pthread_cond_signal(&e->work);
}

clt_status comm_engine_finish(comm_request *r)
{
    comm_engine *e = r->engine;
    pthread_mutex_lock(&e->mutex);
    while (!r->done)
        pthread_cond_wait(&e->change, &e->mutex);
    if (r->previous)
        r->previous->next = r->next;
    else
        e->head = r->next;
    if (r->next)
        r->next->previous = r->previous;
    else
        e->tail = r->previous;
    pthread_mutex_unlock(&e->mutex);
    return clt_error_put(&r->error);
}

clt_status comm_engine_run(comm_engine *e, const char *what, clt_status (*body)(void *), void *context)
{
    comm_request r = {.body = body, .context = context, .what = what, .ready = true, .ok = true};
    r.ready_at = clt_now();
    comm_engine_post(e, &r);
    return comm_engine_finish(&r);
}

void comm_request_ready(comm_request *request, bool ok)
{
    /* As soon as the mutex is released, the request may run, and its waiter may free it: from here on only
     * the local `e` is used. */
    comm_engine *e = request->engine;
    CLT_LOCKED(&e->mutex);
    request->ready = true;
    request->ready_at = clt_now();
    request->ok = ok;
    note_urgent(e);
    pthread_cond_signal(&e->work);
}

/* --- the end of the job --- */

static struct timespec seconds_from_now(int seconds)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += seconds;
    return at;
}

/* The communication thread calls the transport's abort, unless it is blocked inside the transport; then this
 * thread makes the call itself. MPI's abort may not return when the network is gone. */
bool comm_engine_abort(comm_engine *e, int code)
{
    enum { SECONDS_TO_TAKE = 1, SECONDS_TO_END = 5 };
    pthread_mutex_lock(&e->mutex);
    e->abort_code = code;
    if (e->abort == ABORT_NONE)
        e->abort = ABORT_ASKED;
    pthread_cond_signal(&e->work);
    struct timespec until = seconds_from_now(SECONDS_TO_TAKE);
    while (e->abort == ABORT_ASKED && pthread_cond_timedwait(&e->change, &e->mutex, &until) != ETIMEDOUT)
        continue;
    bool taken = e->abort != ABORT_ASKED;
    until = seconds_from_now(SECONDS_TO_END);
    while (e->abort == ABORT_TAKEN && pthread_cond_timedwait(&e->change, &e->mutex, &until) != ETIMEDOUT)
        continue;
    bool stuck = e->abort == ABORT_TAKEN;
    if (!taken)
        e->abort = ABORT_TAKEN;
    pthread_mutex_unlock(&e->mutex);
    if (!taken)
        e->transport->abort(code);
    return !stuck;
}
