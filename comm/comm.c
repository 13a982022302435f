/* SPDX-License-Identifier: Apache-2.0
 *
 * The communicator: one thread that makes every call of the transport from init to finalize, the ordered list
 * of requests that feeds it, and the blocking calls on top. It must not know which transport it drives. */
#include "comm/comm_internal.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/hash.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/thread.h"

typedef enum request_kind { REQUEST_ALL_REDUCE, REQUEST_BROADCAST, REQUEST_BARRIER } request_kind;

struct comm_request {
    comm *owner;
    request_kind kind;
    void *data;
    int64_t count; /* elements of `type`; for a broadcast: bytes */
    comm_type type;
    comm_op op;
    int root;
    bool ready, ok, done;
    bool on_heap; /* false: lives on the stack of a blocking call */
    clt_error error;
    double ready_at; /* clt_now() */
    comm_times times;
    comm_request *previous, *next;
};

typedef enum abort_state { ABORT_NONE, ABORT_ASKED, ABORT_TAKEN, ABORT_RETURNED } abort_state;

/* The mutex guards every member except transport, info and thread. The communication thread writes info
 * before it sets `started`, and nobody changes it afterwards. */
struct comm {
    const comm_transport *transport;
    comm_info info;
    clt_thread *thread;
    pthread_mutex_t mutex;
    pthread_cond_t work;       /* wakes the communication thread */
    pthread_cond_t change;     /* wakes the threads that wait for a request, for the start or for an abort */
    comm_request *head, *tail; /* posted and not yet waited for, in the order of posting */
    comm_request *cursor;      /* the next to run */
    bool started, stop;
    bool broken; /* a collective failed here: this rank is out of step with the others */
    abort_state abort;
    int abort_code;
    clt_error start_error;
    char first_failure[512];
};

static clt_status host_failed(const char *file, int line, const char *text)
{
    return clt_fail(CLT_ECOMM, file, line, "%s", text);
}

static const comm_host host_table = {.abi_version = COMM_ABI_VERSION, .failed = host_failed};

/* --- the communication thread --- */

static clt_status run_collective(const comm_request *r)
{
    const comm_transport *transport = r->owner->transport;
    switch (r->kind) {
    case REQUEST_ALL_REDUCE:
        if (r->type == COMM_F16 || r->type == COMM_BF16)
            return comm_half_all_reduce(transport, &r->owner->info, r->data, r->count, r->type);
        return transport->all_reduce(r->data, r->count, r->type, r->op);
    case REQUEST_BROADCAST:
        return transport->broadcast(r->data, r->count, r->root);
    case REQUEST_BARRIER:
        return transport->barrier();
    }
    CLT_FAIL(CLT_EINTERNAL, "communication request of unknown kind %d", (int)r->kind);
}

/* Called with the mutex held; releases it while the collective runs. */
static void run_next(comm *c)
{
    comm_request *r = c->cursor;
    c->cursor = r->next;
    clt_status status = CLT_OK;
    if (c->broken) {
        status = clt_fail(CLT_ECOMM, __FILE__, __LINE__,
                          "rank %d: this collective was not started, because an earlier one failed (%s)",
                          c->info.rank, c->first_failure);
    } else if (!r->ok) {
        status = clt_fail(
            CLT_ECOMM, __FILE__, __LINE__,
            "rank %d (%s): a collective was not started, because the device work that makes its data "
            "failed; the first message about the device names the cause",
            c->info.rank, c->info.host);
    } else {
        pthread_mutex_unlock(&c->mutex);
        double begin = clt_now();
        status = run_collective(r);
        double end = clt_now();
        pthread_mutex_lock(&c->mutex);
        r->times = (comm_times){.inside = end - begin, .since_ready = end - r->ready_at};
        status = clt_fail_prefix(status, "rank %d (%s)", c->info.rank, c->info.host);
    }
    if (status != CLT_OK && !c->broken) {
        c->broken = true;
        (void)snprintf(c->first_failure, sizeof c->first_failure, "%.500s", clt_error_text());
    }
    clt_error_take(status, &r->error);
    r->done = true;
    pthread_cond_broadcast(&c->change);
}

static void serve(comm *c)
{
    for (;;) {
        while (c->abort != ABORT_ASKED && !c->stop && !(c->cursor && c->cursor->ready))
            pthread_cond_wait(&c->work, &c->mutex);
        if (c->abort == ABORT_ASKED) {
            c->abort = ABORT_TAKEN;
            pthread_mutex_unlock(&c->mutex);
            c->transport->abort(c->abort_code);
            pthread_mutex_lock(&c->mutex);
            c->abort = ABORT_RETURNED;
            pthread_cond_broadcast(&c->change);
        } else if (c->stop) {
            return;
        } else {
            run_next(c);
        }
    }
}

static void *comm_thread(void *context)
{
    comm *c = context;
    clt_status status = c->transport->init(&host_table, &c->info);
    pthread_mutex_lock(&c->mutex);
    clt_error_take(status, &c->start_error);
    c->started = true;
    pthread_cond_broadcast(&c->change);
    if (status == CLT_OK)
        serve(c);
    /* If a request never ran here, the other ranks still wait inside that collective, and finalizing would
     * block until they join. So the transport is finalized only when no collective failed and none is left
     * over. */
    bool in_step = !c->broken && !c->cursor && c->abort == ABORT_NONE;
    pthread_mutex_unlock(&c->mutex);
    if (status == CLT_OK && (in_step || c->info.ranks == 1))
        c->transport->finalize();
    return NULL;
}

/* --- create and destroy --- */

static clt_status init_locks(comm *c)
{
    pthread_condattr_t attributes;
    if (pthread_condattr_init(&attributes) != 0)
        CLT_FAIL(CLT_ENOMEM, "creating a communicator: no memory for a condition variable");
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    bool good = pthread_mutex_init(&c->mutex, NULL) == 0;
    good = pthread_cond_init(&c->work, &attributes) == 0 && good;
    good = pthread_cond_init(&c->change, &attributes) == 0 && good;
    pthread_condattr_destroy(&attributes);
    if (!good)
        CLT_FAIL(CLT_ENOMEM, "creating a communicator: no memory for a lock");
    return CLT_OK;
}

static clt_status wait_for_start(comm *c)
{
    pthread_mutex_lock(&c->mutex);
    while (!c->started)
        pthread_cond_wait(&c->change, &c->mutex);
    pthread_mutex_unlock(&c->mutex);
    return clt_fail_prefix(clt_error_put(&c->start_error), "starting the %s transport", c->transport->name);
}

clt_status comm_create_with(const comm_transport *transport, comm **out)
{
    *out = NULL;
    comm *c = NULL;
    CLT_TRY(clt_alloc(&c, 1, sizeof *c, "a communicator"));
    c->transport = transport;
    clt_status status = init_locks(c);
    if (status != CLT_OK) {
        free(c);
        return status;
    }
    CLT_TRY_GOTO(clt_thread_start(&c->thread, "comm", comm_thread, c), fail);
    CLT_TRY_GOTO(wait_for_start(c), fail);
    c->info.transport = transport->name;
    *out = c;
    return CLT_OK;
fail:
    comm_destroy(c);
    return status;
}

/* Processes that srun started without PMI cannot find each other; each of them would train the whole job
 * alone. */
static void warn_if_srun_without_pmi(void)
{
    const char *tasks = getenv("SLURM_STEP_NUM_TASKS");
    if (getenv("SLURM_PROCID") && tasks && strtol(tasks, NULL, 10) > 1)
        CLT_WARN("srun started %s tasks without PMI, so each one runs alone; to let them work together use "
                 "srun --mpi=pmix (or pmi2)",
                 tasks);
}

clt_status comm_create(comm **out)
{
    *out = NULL;
    if (!comm_under_launcher()) {
        warn_if_srun_without_pmi();
        return comm_create_with(&comm_transport_self, out);
    }
    const comm_transport *transport = NULL;
    CLT_TRY(comm_load_mpi(&transport));
    CLT_TRY(comm_create_with(transport, out));
    int promised = comm_launcher_ranks();
    int found = (*out)->info.ranks;
    if (promised > 0 && promised != found) {
        clt_status status =
            clt_fail(CLT_ECOMM, __FILE__, __LINE__,
                     "the launcher started %d processes, but the MPI library of the module (%s) sees %d: "
                     "start with the mpirun that belongs to this library, or build cltrain with the MPI "
                     "of your launcher",
                     promised, (*out)->info.description, found);
        comm_destroy(*out);
        *out = NULL;
        return status;
    }
    return CLT_OK;
}

void comm_destroy(comm *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&c->mutex);
    c->stop = true;
    pthread_cond_signal(&c->work);
    pthread_mutex_unlock(&c->mutex);
    clt_thread_join(c->thread);
    while (c->head) {
        comm_request *next = c->head->next;
        if (c->head->on_heap)
            free(c->head);
        c->head = next;
    }
    pthread_cond_destroy(&c->change);
    pthread_cond_destroy(&c->work);
    pthread_mutex_destroy(&c->mutex);
    free(c);
}

const comm_info *comm_describe(const comm *c)
{
    return &c->info;
}

/* --- requests --- */

static void post(comm *c, comm_request *r)
{
    r->owner = c;
    pthread_mutex_lock(&c->mutex);
    r->previous = c->tail;
    if (c->tail)
        c->tail->next = r;
    else
        c->head = r;
    c->tail = r;
    if (!c->cursor)
        c->cursor = r;
    if (r->ready)
        pthread_cond_signal(&c->work);
    pthread_mutex_unlock(&c->mutex);
}

static clt_status wait_and_unlink(comm_request *r)
{
    comm *c = r->owner;
    pthread_mutex_lock(&c->mutex);
    while (!r->done)
        pthread_cond_wait(&c->change, &c->mutex);
    if (r->previous)
        r->previous->next = r->next;
    else
        c->head = r->next;
    if (r->next)
        r->next->previous = r->previous;
    else
        c->tail = r->previous;
    pthread_mutex_unlock(&c->mutex);
    return clt_error_put(&r->error);
}

static clt_status run_blocking(comm *c, comm_request *r)
{
    r->ready = r->ok = true;
    post(c, r);
    return wait_and_unlink(r);
}

static clt_status check_type(comm_type type, comm_op op)
{
    if (op != COMM_SUM && (type == COMM_F16 || type == COMM_BF16))
        CLT_FAIL(CLT_EINTERNAL, "an all-reduce of a 16-bit type was asked for something else than the sum");
    return CLT_OK;
}

static clt_status check_count(int64_t count, const void *data, const char *what)
{
    if (count < 0 || (count > 0 && !data))
        CLT_FAIL(CLT_EINTERNAL, "%s was asked for %lld elements at %p", what, (long long)count, data);
    return CLT_OK;
}

clt_status comm_all_reduce(comm *c, void *data, int64_t count, comm_type type, comm_op op)
{
    CLT_TRY(check_count(count, data, "an all-reduce"));
    CLT_TRY(check_type(type, op));
    comm_request r = {.kind = REQUEST_ALL_REDUCE, .data = data, .count = count, .type = type, .op = op};
    return run_blocking(c, &r);
}

clt_status comm_broadcast(comm *c, void *data, int64_t bytes, int root)
{
    CLT_TRY(check_count(bytes, data, "a broadcast"));
    if (root < 0 || root >= c->info.ranks)
        CLT_FAIL(CLT_EINTERNAL, "a broadcast from rank %d was asked for; there are %d ranks", root,
                 c->info.ranks);
    comm_request r = {.kind = REQUEST_BROADCAST, .data = data, .count = bytes, .root = root};
    return run_blocking(c, &r);
}

clt_status comm_barrier(comm *c)
{
    comm_request r = {.kind = REQUEST_BARRIER};
    return run_blocking(c, &r);
}

clt_status comm_all_reduce_post(comm *c, void *data, int64_t count, comm_type type, comm_op op,
                                comm_request **out)
{
    *out = NULL;
    CLT_TRY(check_count(count, data, "an all-reduce"));
    CLT_TRY(check_type(type, op));
    comm_request *r = NULL;
    CLT_TRY(clt_alloc(&r, 1, sizeof *r, "a communication request"));
    r->kind = REQUEST_ALL_REDUCE;
    r->data = data;
    r->count = count;
    r->type = type;
    r->op = op;
    r->on_heap = true;
    post(c, r);
    *out = r;
    return CLT_OK;
}

void comm_request_ready(comm_request *request, bool ok)
{
    /* As soon as the mutex is released, the request may run, and its waiter may free it: from here on only
     * the local `c` is used. */
    comm *c = request->owner;
    pthread_mutex_lock(&c->mutex);
    request->ready = true;
    request->ready_at = clt_now();
    request->ok = ok;
    pthread_cond_signal(&c->work);
    pthread_mutex_unlock(&c->mutex);
}

clt_status comm_request_wait_timed(comm_request *request, comm_times *times)
{
    clt_status status = wait_and_unlink(request);
    *times = request->times;
    free(request);
    return status;
}

clt_status comm_request_wait(comm_request *request)
{
    comm_times unused;
    return comm_request_wait_timed(request, &unused);
}

/* --- agreement and the end of the job --- */

clt_status comm_check_equal(comm *c, const void *data, int64_t bytes, const char *what)
{
    CLT_TRY(check_count(bytes, data, "a comparison between ranks"));
    const comm_info *info = &c->info;
    const int64_t mine[2] = {(int64_t)clt_hash64(data, (size_t)bytes), bytes};
    int64_t first[2] = {mine[0], mine[1]};
    CLT_TRY(comm_broadcast(c, first, sizeof first, 0));
    int64_t differs = memcmp(first, mine, sizeof mine) != 0 ? info->rank : info->ranks;
    CLT_TRY(comm_all_reduce(c, &differs, 1, COMM_I64, COMM_MIN));
    if (differs == info->ranks)
        return CLT_OK;
    char host[sizeof info->host];
    memcpy(host, info->host, sizeof host);
    CLT_TRY(comm_broadcast(c, host, sizeof host, (int)differs));
    CLT_FAIL(CLT_ERANKS,
             "the ranks do not agree on %s: rank %lld of %d (on %s) is the first that differs from rank 0; "
             "start every rank "
             "with the same program, configuration and data",
             what, (long long)differs, info->ranks, host);
}

static struct timespec seconds_from_now(int seconds)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += seconds;
    return at;
}

/* The communication thread calls the transport's abort if it can. It cannot while it is blocked in a
 * collective that a dead or slow rank has not joined; then this thread makes the call itself. The job ends
 * either way. */
void comm_abort(comm *c, clt_status status)
{
    enum { SECONDS_TO_TAKE = 1, SECONDS_TO_END = 10 };
    if (!c || c->info.ranks < 2)
        return;
    int code = clt_status_exit_code(status != CLT_OK ? status : CLT_EINTERNAL);
    pthread_mutex_lock(&c->mutex);
    c->abort_code = code;
    if (c->abort == ABORT_NONE)
        c->abort = ABORT_ASKED;
    pthread_cond_signal(&c->work);
    struct timespec deadline = seconds_from_now(SECONDS_TO_TAKE);
    while (c->abort == ABORT_ASKED && pthread_cond_timedwait(&c->change, &c->mutex, &deadline) != ETIMEDOUT)
        continue;
    bool taken = c->abort != ABORT_ASKED;
    deadline = seconds_from_now(SECONDS_TO_END);
    while (c->abort == ABORT_TAKEN && pthread_cond_timedwait(&c->change, &c->mutex, &deadline) != ETIMEDOUT)
        continue;
    if (!taken)
        c->abort = ABORT_TAKEN;
    pthread_mutex_unlock(&c->mutex);
    if (!taken)
        c->transport->abort(code);
}
