/* SPDX-License-Identifier: Apache-2.0
 *
 * The recorder's ring and the meter. Nothing here waits: when the caller takes the times of commands, it
 * knows that they have ended. A command whose event still has no times is reported without times. */
#include "cl/command/record_internal.h"

#include <stdlib.h>
#include <string.h>

typedef struct record_entry {
    cl_event start, end; /* start: NULL unless the command consists of several device commands */
    ocl_span span;
} record_entry;

/* Number of commands of a tag that were lost because the ring was full. */
typedef struct record_loss {
    int64_t tag;
    uint64_t count;
} record_loss;

/* Number of tags whose losses are counted separately; callers never have commands of more tags under way.
 * When all are in use, the last entry counts for all newer tags. */
#define LOSSES 64

struct ocl_recorder {
    ocl_record_level level;
    int64_t tag;
    record_entry *ring;
    size_t capacity, oldest, count;
    record_loss lost[LOSSES]; /* sorted by tag */
    int n_lost;
};

clt_status ocl_record_start(ocl_device *device, size_t capacity)
{
    CLT_FREED struct ocl_recorder *r = NULL;
    if (!device->profiling)
        CLT_FAIL(CLT_EUNSUPPORTED,
                 "recording times: device %s '%s' was opened without time stamps, or its driver gives none",
                 device->desc.spec, device->desc.name);
    ocl_record_stop(device);
    CLT_TRY(clt_alloc(&r, 1, sizeof *r, "a recorder"));
    r->capacity = capacity > 0 ? capacity : 1;
    CLT_TRY(clt_alloc(&r->ring, r->capacity, sizeof *r->ring, "a recorder's events"));
    device->recorder = CLT_TAKE(r);
    return CLT_OK;
}

static void release(const record_entry *e)
{
    if (e->start != NULL)
        clReleaseEvent(e->start);
    if (e->end != NULL)
        clReleaseEvent(e->end);
}

void ocl_record_stop(ocl_device *device)
{
    struct ocl_recorder *r = device->recorder;
    if (r == NULL)
        return;
    for (size_t i = 0; i < r->count; i++)
        release(&r->ring[(r->oldest + i) % r->capacity]);
    free(r->ring);
    free(r);
    device->recorder = NULL;
}

void ocl_record_set(ocl_device *device, ocl_record_level level, int64_t tag)
{
    if (device->recorder == NULL)
        return;
    device->recorder->level = level;
    device->recorder->tag = tag;
}

ocl_record_level ocl_record_level_of(const ocl_device *device)
{
    return device->recorder != NULL ? device->recorder->level : OCL_RECORD_OFF;
}

static void lose(struct ocl_recorder *r)
{
    if (r->n_lost == 0 || (r->lost[r->n_lost - 1].tag != r->tag && r->n_lost < LOSSES))
        r->lost[r->n_lost++] = (record_loss){r->tag, 0};
    r->lost[r->n_lost - 1].tag = r->tag;
    r->lost[r->n_lost - 1].count++;
}

void ocl_record_add(ocl_device *device, const ocl_span *span, cl_event start, cl_event end)
{
    struct ocl_recorder *r = device->recorder;
    record_entry e = {start, end, *span};
    if (r->count == r->capacity) {
        lose(r);
        release(&e);
        return;
    }
    e.span.tag = r->tag;
    e.span.all = r->level == OCL_RECORD_ALL;
    e.span.host_at = clt_now();
    r->ring[(r->oldest + r->count++) % r->capacity] = e;
}

static bool stamp(cl_event event, cl_profiling_info what, uint64_t *out)
{
    cl_ulong value = 0;
    if (event == NULL || clGetEventProfilingInfo(event, what, sizeof value, &value, NULL) != CL_SUCCESS)
        return false;
    *out = value;
    return true;
}

static void read_times(const record_entry *e, ocl_span *span)
{
    uint64_t first = 0;
    bool known = stamp(e->end, CL_PROFILING_COMMAND_START, &span->start_ns) &&
                 stamp(e->end, CL_PROFILING_COMMAND_END, &span->end_ns);
    if (known && span->all)
        known = stamp(e->end, CL_PROFILING_COMMAND_QUEUED, &span->queued_ns);
    /* a marker precedes the first device command; the marker's end is when this command could begin */
    if (known && e->start != NULL && stamp(e->start, CL_PROFILING_COMMAND_END, &first) &&
        first < span->start_ns)
        span->start_ns = first;
    if (!known || span->end_ns == 0 || span->end_ns < span->start_ns)
        span->queued_ns = span->start_ns = span->end_ns = 0;
}

/* Returns the sum of the losses of tags up to `tag`, and removes them; losses of later tags stay. */
static uint64_t take_losses(struct ocl_recorder *r, int64_t tag)
{
    uint64_t count = 0;
    int taken = 0;
    while (taken < r->n_lost && r->lost[taken].tag <= tag)
        count += r->lost[taken++].count;
    r->n_lost -= taken;
    memmove(r->lost, r->lost + taken, (size_t)r->n_lost * sizeof r->lost[0]);
    return count;
}

uint64_t ocl_record_take(ocl_device *device, int64_t tag, ocl_span_fn fn, void *context)
{
    struct ocl_recorder *r = device->recorder;
    if (r == NULL)
        return 0;
    while (r->count > 0 && r->ring[r->oldest].span.tag <= tag) {
        record_entry e = r->ring[r->oldest];
        r->oldest = (r->oldest + 1) % r->capacity;
        r->count--;
        read_times(&e, &e.span);
        release(&e);
        fn(context, &e.span);
    }
    return take_losses(r, tag);
}

/* The meter */

void ocl_meter(ocl_device *device, bool on)
{
    device->meter.on = on;
}

ocl_meter_reading ocl_meter_read(const ocl_device *device)
{
    return (ocl_meter_reading){device->meter.seconds, device->meter.calls};
}
