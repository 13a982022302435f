/* SPDX-License-Identifier: Apache-2.0
 *
 * One collective of a step, beside the device: data is read from the device, the communication thread runs the
 * collective, and the result is written back, each behind the one before (sync.h shows the queues). Nothing here
 * waits but clt_flight_end. Knows neither what the data means nor when it is wanted. */
#ifndef ENGINE_TRAIN_FLIGHT_H
#define ENGINE_TRAIN_FLIGHT_H

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
    double last_end[2]; /* of a collective, [1]: of an urgent one; the communication thread's own */
} clt_flights;

typedef struct clt_flight {
    clt_flights *shared;
    comm_request *request; /* NULL: not started, or it was ended */
    const char *what;      /* a string constant: "gradients" */
    int64_t step;
    bool urgent;        /* see comm_call */
    bool asked;         /* clt_flight_take has asked the device when it comes to the result */
    double ready;       /* when its data was */
    double ended;       /* when the collective did; under lock */
    double got;         /* when the device came to the result, 0: not yet; under lock */
    double waited;      /* then it waited so long for the collective; known after clt_flight_end */
    ocl_event *summed;  /* completed on the communication thread */
    ocl_event *written; /* NULL: the device already waits for it */
} clt_flight;

/* Where its data comes from and where the result goes, on the device and on the host. */
typedef struct clt_route {
    bool later;  /* clt_flight_take writes the result */
    bool mapped; /* the host computes in the device's memory: `from`, which is mapped meanwhile */
    ocl_buffer *from, *to;
    uint64_t from_at, from_bytes, to_at, to_bytes;
    void *from_host;
    const void *to_host;
} clt_route;

void clt_flights_init(clt_flights *shared, struct clt_run *run);
void clt_flights_free(clt_flights *shared);
/* Waits for all queues of the device; where a command of it has failed, flights may never end. */
void clt_flights_drain(clt_flights *shared);

/* Posts the collective and enqueues the read behind all commands so far, and the write behind the collective, each on a
 * queue in which it stands behind those of earlier flights. f->what and f->step are set; done, context and what of `call`
 * are set here. */
clt_status clt_flight_start(clt_flight *f, comm *group, comm_call call, const clt_route *route);
/* Lets the compute queue wait for the result. */
clt_status clt_flight_wait(clt_flight *f);
/* Of a route that says `later`: enqueues the write on the compute queue, where it waits for this collective alone. */
clt_status clt_flight_take(clt_flight *f, const clt_route *route);
/* Waits for the collective, which has ended if its step's results have arrived, and forgets it; zeros if there is none. */
clt_status clt_flight_end(clt_flight *f, comm_times *times);

#endif
