/* SPDX-License-Identifier: Apache-2.0
 *
 * A flight: one collective that runs while the device computes. Data is read from the device, then the
 * communication thread runs the collective, then the result is written back (sync.h shows the queues).
 * Only clt_flight_end waits. This file knows neither what the data means nor when it is needed. */
#ifndef ENGINE_TRAIN_RANKS_FLIGHT_H
#define ENGINE_TRAIN_RANKS_FLIGHT_H

#include <pthread.h>

#include "cl/command/memory.h"
#include "comm/comm.h"

struct clt_run;

/* What the flights of a run share. */
typedef struct clt_flights {
    struct clt_run *run;
    pthread_mutex_t lock;
    pthread_cond_t told; /* a flight's `got` is known */
    /* a command has failed, so collectives may end later than the run and its device; under lock */
    bool gone;
    double last_end[2]; /* when the last collective ended, [1]: urgent one; for the communication thread */
} clt_flights;

typedef struct clt_flight {
    clt_flights *shared;
    comm_request *request; /* NULL: not started, or it was ended */
    const char *what;      /* a string constant: "gradients" */
    int64_t step;
    bool urgent;        /* see comm_call */
    bool asked;         /* clt_flight_take has asked the device when it comes to the result */
    double ready;       /* when its data was ready */
    double ended;       /* when the collective ended; under lock */
    double got;         /* when the device came to the result, 0: not yet; under lock */
    double waited;      /* seconds that the device then waited; known after clt_flight_end */
    ocl_event *summed;  /* completed on the communication thread */
    ocl_event *written; /* NULL: the device already waits for it */
} clt_flight;

/* Where the data of a flight comes from and where the result goes, on the device and on the host. */
typedef struct clt_route {
    bool later;  /* clt_flight_take writes the result */
    bool mapped; /* the host computes in the device's memory `from`, mapped meanwhile */
    ocl_buffer *from, *to;
    uint64_t from_at, from_bytes, to_at, to_bytes;
    void *from_host;
    const void *to_host;
} clt_route;

void clt_flights_init(clt_flights *shared, struct clt_run *run);
void clt_flights_free(clt_flights *shared);
/* Waits for all queues of the device. If a command has failed, flights may never end: sets `gone`. */
void clt_flights_drain(clt_flights *shared);

/* Posts the collective, and enqueues the read after all commands so far and, unless route->later, the
 * write after the collective. The reads of all flights share a queue, and so do the writes. f->what and
 * f->step must be set; done, context and what of `call` are set here. */
clt_status clt_flight_start(clt_flight *f, comm *group, comm_call call, const clt_route *route);
/* Lets the compute queue wait for the result. */
clt_status clt_flight_wait(clt_flight *f);
/* For a route with `later`: enqueues the write on the compute queue; it waits for this collective only. */
clt_status clt_flight_take(clt_flight *f, const clt_route *route);
/* Waits for the collective and forgets it; if the results of its step have arrived, it has ended. *times
 * is zero if none was started. */
clt_status clt_flight_end(clt_flight *f, comm_times *times);

#endif
