/* SPDX-License-Identifier: Apache-2.0
 *
 * Collectives while the device works: the result of an urgent one does not wait for sums that were posted
 * before it, commands in between run meanwhile, and the time for which the device waited is known. There is
 * one rank, whose communication thread is held up by a request. ctest-labels: quick ctest-cost: 3 */
#include "tests/unit/test.h"

#include <stdatomic.h>

#include "comm/comm_internal.h"
#include "engine/train/ranks/async.h"
#include "engine/train/run/run.h"

#define BYTES 4096

static ocl_device *device;
static comm *all, *own;
static clt_realized realized;
static clt_run run;
static clt_async_shared shared;
static atomic_bool released;
static atomic_int reached; /* 1: all commands ended, -1: one failed, 0: not yet */

/* Holds up everything that is not urgent. */
static clt_status hold(void *context)
{
    int turns = 0;
    (void)context;
    while (!atomic_load(&released))
        CLT_TRY(comm_engine_wait_turn(all->engine, &turns));
    return CLT_OK;
}

static void note(void *context, bool ok)
{
    (void)context;
    atomic_store(&reached, ok ? 1 : -1);
}

/* Sets `reached` when all commands on the compute queue have ended. */
static void watch_compute(void)
{
    ocl_event *end = NULL;
    atomic_store(&reached, 0);
    must(ocl_marker(device, OCL_QUEUE_COMPUTE, &end), "marker");
    must(ocl_event_callback(end, note, NULL), "callback");
    must(ocl_flush(device, OCL_QUEUE_OUT), "flush");
    must(ocl_flush(device, OCL_QUEUE_IN), "flush");
    must(ocl_flush(device, OCL_QUEUE_COMPUTE), "flush");
    ocl_event_release(end);
}

static bool await_compute(void)
{
    while (atomic_load(&reached) == 0)
        usleep(1000);
    return atomic_load(&reached) == 1;
}

typedef struct memory {
    ocl_buffer *from, *to;
    ocl_pinned *host;
} memory;

static memory new_memory(char fill)
{
    memory m;
    char data[BYTES];
    memset(data, fill, sizeof data);
    must(ocl_buffer_create(device, BYTES, "record", &m.from), "buffer");
    must(ocl_buffer_create(device, BYTES, "records", &m.to), "buffer");
    must(ocl_pinned_create(device, BYTES, "staging", &m.host), "staging");
    must(ocl_write(m.from, 0, data, BYTES), "write");
    memset(data, 0, sizeof data);
    must(ocl_write(m.to, 0, data, BYTES), "write");
    return m;
}

static void free_memory(memory *m)
{
    ocl_buffer_destroy(m->from);
    ocl_buffer_destroy(m->to);
    ocl_pinned_destroy(m->host);
}

static void start(clt_async *f, const memory *m, bool urgent, clt_route *route)
{
    *f = (clt_async){.shared = &shared, .what = urgent ? "records" : "gradients"};
    *route = (clt_route){.later = urgent,
                         .from = m->from,
                         .to = m->to,
                         .from_bytes = BYTES,
                         .to_bytes = BYTES,
                         .from_host = ocl_pinned_data(m->host),
                         .to_host = ocl_pinned_data(m->host)};
    comm_call call = {.kind = COMM_ALL_GATHER,
                      .data = route->from_host,
                      .count = BYTES,
                      .grain = BYTES,
                      .type = COMM_U8,
                      .urgent = urgent};
    must(clt_async_start(f, urgent ? own : all, call, route), "start");
}

static void check_result(const memory *m, char fill)
{
    char data[BYTES];
    must(ocl_read(m->to, 0, data, BYTES), "read");
    for (int i = 0; i < BYTES; i++)
        assert_int_equal(data[i], fill);
}

TEST(test_urgent_results_do_not_queue)
{
    clt_async bucket, record;
    clt_route route;
    comm_times times;
    comm_request slow = {.body = hold, .what = "a slow sum"};
    memory sums = new_memory(3), records = new_memory(7);
    atomic_store(&released, false);
    comm_engine_post(all->engine, &slow);
    comm_request_ready(&slow, true);
    start(&bucket, &sums, false, &route);
    start(&record, &records, true, &route);
    must(clt_async_take(&record, &route), "take");
    watch_compute();
    bool ended = await_compute();
    pthread_mutex_lock(&shared.lock);
    bool held = bucket.ended == 0;
    pthread_mutex_unlock(&shared.lock);
    must(clt_async_wait(&bucket), "wait");
    watch_compute();
    usleep(50000); /* time in which the device could wrongly continue */
    int early = atomic_load(&reached);
    atomic_store(&released, true);
    assert_true(ended); /* the device has the records */
    assert_true(held);  /* and the bucket, posted before, is not summed yet */
    assert_int_equal(early, 0);
    assert_true(await_compute());
    must(comm_engine_finish(&slow), "slow");
    must(clt_async_end(&bucket, &times), "bucket");
    must(clt_async_end(&record, &times), "record");
    check_result(&records, 7);
    check_result(&sums, 3);
    free_memory(&sums);
    free_memory(&records);
}

/* A request that is posted before the record holds it up: a device with nothing else to do waits for the
 * record, one that is busy for longer does not. */
TEST(test_waited_time)
{
    enum { LATE = 40 }; /* ms */
    for (int busy = 0; busy < 2; busy++) {
        clt_async record;
        clt_route route;
        comm_times times;
        comm_request slow = {.body = hold, .what = "a late rank", .urgent = true};
        memory records = new_memory(9);
        ocl_event *work = NULL;
        double begin = clt_now();
        atomic_store(&released, false);
        comm_engine_post(all->engine, &slow);
        comm_request_ready(&slow, true);
        start(&record, &records, true, &route);
        if (busy) { /* commands after the record, which run meanwhile */
            must(ocl_user_event_create(device, &work), "work");
            must(ocl_wait_on_device(device, OCL_QUEUE_COMPUTE, work), "work");
        }
        must(clt_async_take(&record, &route), "take");
        must(ocl_flush(device, OCL_QUEUE_OUT), "flush");
        must(ocl_flush(device, OCL_QUEUE_COMPUTE), "flush");
        if (!busy) { /* the wait begins when the device has come to the record */
            pthread_mutex_lock(&shared.lock);
            while (record.got == 0)
                pthread_cond_wait(&shared.told, &shared.lock);
            pthread_mutex_unlock(&shared.lock);
        }
        double come = clt_now();
        usleep(LATE * 1000);
        double late = clt_now() - come;
        atomic_store(&released, true);
        if (busy) { /* the result arrives before the device needs it */
            must(comm_request_wait_timed(record.request, &times), "record");
            record.request = NULL;
            ocl_user_event_complete(work);
        }
        watch_compute();
        assert_true(await_compute());
        must(clt_async_end(&record, &times), "record");
        double whole = clt_now() - begin;
        must(comm_engine_finish(&slow), "slow");
        if (busy)
            assert_true(record.waited == 0);
        else
            assert_true(record.waited >= late && record.waited <= whole);
        ocl_event_release(work);
        check_result(&records, 9);
        free_memory(&records);
    }
}

FIXTURE(set_up)
{
    ocl_open_options options = {.caps_mask = OCL_CAPS_ALL};
    assert_ok(ocl_device_open(&options, &device));
    assert_ok(ocl_device_open_queue(device, OCL_QUEUE_OUT));
    assert_ok(ocl_device_open_queue(device, OCL_QUEUE_IN));
    assert_ok(comm_create_with(&comm_transport_self, &all));
    assert_ok(comm_split(all, 0, 0, &own));
    run.device = device;
    run.train = &realized;
    clt_async_shared_init(&shared, &run);
    return 0;
}

FIXTURE(tear_down)
{
    clt_async_shared_free(&shared);
    comm_destroy(own);
    comm_destroy(all);
    ocl_device_close(device);
    return 0;
}

TEST_PROGRAM(.device = true, .set_up = set_up, .tear_down = tear_down);
