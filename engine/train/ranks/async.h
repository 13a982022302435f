/* SPDX-License-Identifier: Apache-2.0
 *
 * An asynchronous collective: one that runs while the device computes. Data is read from the device, then the
 * communication thread runs the collective, then the result is written back (sync.h shows the queues).
 * Only clt_async_end waits. This file knows neither what the data means nor when it is needed. */
#ifndef ENGINE_TRAIN_RANKS_ASYNC_H
#define ENGINE_TRAIN_RANKS_ASYNC_H

#include <pthread.h>

#include "cl/command/memory.h"
#include "comm/comm.h"

struct clt_run;

/* State that the asynchronous collectives of a run share. */
typedef struct clt_async_shared {
    struct clt_run *run;
    pthread_mutex_t lock;
    pthread_cond_t told; /* signalled when the `got` of a collective is known */
    /* a command has failed, so collectives may end later than the run and its device; under lock */
    bool gone;
    /* when the last collective ended, [1]: the last urgent one; used by the communication thread only */
    double last_end[2];
} clt_async_shared;

typedef struct clt_async {
    clt_async_shared *shared;
    comm_request *request; /* NULL: not started, or it was ended */
    const char *what;      /* a string constant: "gradients" */
    int64_t step;
    bool urgent;        /* see comm_call */
    bool asked;         /* clt_async_take has asked the device to report when it reaches the result */
    double ready;       /* when its data was ready */
    double ended;       /* when the collective ended; under lock */
    double got;         /* time when the device reached the result, 0: not yet; under lock */
    double waited;      /* seconds that the device waited for the result; known after clt_async_end */
    ocl_event *summed;  /* completed on the communication thread */
    ocl_event *written; /* NULL: the device already waits for it */
} clt_async;

/* The source of a collective's data and the destination of its result, on the device and on the host. */
typedef struct clt_route {
    bool later;  /* clt_async_take writes the result */
    bool mapped; /* the host computes in the device's memory `from`, mapped meanwhile */
    ocl_buffer *from, *to;
    uint64_t from_at, from_bytes, to_at, to_bytes;
    void *from_host;
    const void *to_host;
} clt_route;

void clt_async_shared_init(clt_async_shared *shared, struct clt_run *run);
void clt_async_shared_free(clt_async_shared *shared);
/* Waits for all queues of the device. If a command has failed, collectives may never end: sets `gone`. */
void clt_async_drain(clt_async_shared *shared);

/* Posts the collective, and enqueues the read after all commands so far and, unless route->later, the
 * write after the collective. The reads of all collectives share a queue, and so do the writes. f->what and
 * f->step must be set; done, context and what of `call` are set here. */
clt_status clt_async_start(clt_async *f, comm *group, comm_call call, const clt_route *route);
/* Lets the compute queue wait for the result. */
clt_status clt_async_wait(clt_async *f);
/* For a route with `later`: enqueues the write on the compute queue; it waits for this collective only. */
clt_status clt_async_take(clt_async *f, const clt_route *route);
/* Waits for the collective and forgets it; if the results of its step have arrived, there is nothing to wait
 * for. *times is zero if none was started. */
clt_status clt_async_end(clt_async *f, comm_times *times);

#endif
