/* SPDX-License-Identifier: Apache-2.0
 *
 * Collectives that run while the device computes: the events and callbacks that connect the device's
 * queues with the communication thread. */
#include "engine/train/ranks/async.h"

#include "cl/command/faults.h"
#include "engine/base/span.h"
#include "engine/base/thread.h"
#include "engine/train/run/run.h"

void clt_async_shared_init(clt_async_shared *shared, clt_run *run)
{
    *shared = (clt_async_shared){.run = run};
    pthread_mutex_init(&shared->lock, NULL);
    pthread_cond_init(&shared->told, NULL);
}

void clt_async_shared_free(clt_async_shared *shared)
{
    pthread_cond_destroy(&shared->told);
    pthread_mutex_destroy(&shared->lock);
}

void clt_async_drain(clt_async_shared *shared)
{
    CLT_KEEP_ERROR();
    for (int q = OCL_QUEUE_COMPUTE; q < OCL_QUEUE_COUNT; q++)
        (void)ocl_finish(shared->run->device, (ocl_queue)q);
    if (ocl_commands_failed(shared->run->device)) {
        pthread_mutex_lock(&shared->lock);
        shared->gone = true;
        pthread_mutex_unlock(&shared->lock);
    }
}

static void data_ready(void *context, bool ok)
{
    clt_async *f = context;
    f->ready = clt_now();
    comm_request_ready(f->request, ok);
}

/* The device has run all that it could without the result. */
static void device_came(void *context, bool ok)
{
    clt_async *f = context;
    (void)ok;
    pthread_mutex_lock(&f->shared->lock);
    f->got = clt_now();
    pthread_cond_broadcast(&f->shared->told);
    pthread_mutex_unlock(&f->shared->lock);
}

/* Called on the communication thread. In the trace a collective begins when its data is ready, but not
 * before the previous collective has ended. Urgent collectives may run during others, so each of the two
 * kinds has its own previous one. */
static void ended(void *context, bool ok)
{
    clt_async *f = context;
    clt_async_shared *s = f->shared;
    double now = clt_now(), *last = &s->last_end[f->urgent];
    pthread_mutex_lock(&s->lock);
    if (!s->gone && !ok)
        ocl_commands_spoil(s->run->device, CLT_ECOMM, clt_error_text());
    else if (!s->gone)
        clt_spans_add(s->run->train->spans, CLT_TRACK_SUMS, f->what, f->step + 1,
                      f->ready > *last ? f->ready : *last, now);
    *last = f->ended = now;
    pthread_mutex_unlock(&s->lock);
    ocl_user_event_complete(f->summed);
}

static clt_status hand_out(const clt_route *r, ocl_event *made, ocl_event **out)
{
    if (r->mapped)
        return ocl_map_async(OCL_QUEUE_OUT, r->from, r->from_at, r->from_bytes, made, out);
    return ocl_read_async(OCL_QUEUE_OUT, r->from, r->from_at, r->from_host, r->from_bytes, made, out);
}

static clt_status take_back(const clt_route *r, ocl_event *done, ocl_event **back)
{
    if (r->mapped)
        return ocl_unmap_async(OCL_QUEUE_IN, r->from, r->from_at, done, back);
    return ocl_write_async(OCL_QUEUE_IN, r->to, r->to_at, r->to_host, r->to_bytes, done, back);
}

/* Enqueues the read after all commands so far. The end of the read starts the collective (*announced).
 * Unless route->later, also enqueues the write back after the collective. */
static clt_status enqueue(clt_async *f, const clt_route *route, bool *announced)
{
    CLT_SCOPED(ocl_event) *made = NULL, *read = NULL;
    CLT_TRY(ocl_marker(f->shared->run->device, OCL_QUEUE_COMPUTE, &made));
    CLT_TRY(hand_out(route, made, &read));
    CLT_TRY(ocl_event_callback(read, data_ready, f));
    *announced = true;
    return route->later ? CLT_OK : take_back(route, f->summed, &f->written);
}

clt_status clt_async_start(clt_async *f, comm *group, comm_call call, const clt_route *route)
{
    bool announced = false;
    CLT_TRY(ocl_user_event_create(f->shared->run->device, &f->summed));
    call.done = ended;
    call.context = f;
    call.what = f->what;
    f->urgent = call.urgent;
    f->asked = false;
    f->got = f->waited = 0;
    clt_status status = comm_post(group, &call, &f->request);
    if (status != CLT_OK) {
        ocl_user_event_complete(f->summed);
        return status;
    }
    status = enqueue(f, route, &announced);
    if (!announced) /* the other ranks wait for this collective */
        comm_request_ready(f->request, false);
    return status;
}

clt_status clt_async_wait(clt_async *f)
{
    if (!f->written)
        CLT_FAIL(CLT_EINTERNAL, "waiting for a collective of %s that was not posted",
                 f->what ? f->what : "?");
    clt_status status = ocl_wait_on_device(f->shared->run->device, OCL_QUEUE_COMPUTE, f->written);
    ocl_event_release(f->written);
    f->written = NULL;
    return status;
}

clt_status clt_async_take(clt_async *f, const clt_route *route)
{
    ocl_device *device = f->shared->run->device;
    CLT_SCOPED(ocl_event) *came = NULL;
    if (!f->request || f->asked)
        CLT_FAIL(CLT_EINTERNAL, "a collective of %s is taken and was not posted", f->what ? f->what : "?");
    CLT_TRY(ocl_marker(device, OCL_QUEUE_COMPUTE, &came));
    CLT_TRY(ocl_event_callback(came, device_came, f));
    f->asked = true;
    return ocl_write_async(OCL_QUEUE_COMPUTE, route->to, route->to_at, route->to_host, route->to_bytes,
                           f->summed, NULL);
}

/* Waits for device_came, which the driver may call a moment after later commands have ended. */
static void find_waited(clt_async *f)
{
    pthread_mutex_lock(&f->shared->lock);
    while (f->got == 0)
        pthread_cond_wait(&f->shared->told, &f->shared->lock);
    f->waited = f->ended > f->got ? f->ended - f->got : 0;
    pthread_mutex_unlock(&f->shared->lock);
    f->asked = false;
}

clt_status clt_async_end(clt_async *f, comm_times *times)
{
    clt_status status = CLT_OK;
    *times = (comm_times){0};
    if (f->request)
        status = comm_request_wait_timed(f->request, times);
    f->waited = 0;
    if (f->asked)
        find_waited(f);
    ocl_event_release(f->summed);
    ocl_event_release(f->written);
    f->request = NULL;
    f->summed = f->written = NULL;
    return status;
}
