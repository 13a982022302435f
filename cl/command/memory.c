/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffers with accounting, pinned host memory, events, and transfers. Sizes are checked here before the
 * driver allocates, and every message names the buffer. This file must not know what a buffer holds. */
#include "cl/command/faults_internal.h"
#include "cl/command/memory.h"
#include "cl/command/record_internal.h"
#include "engine/base/thread.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB 1048576.0

/* Buffers */

static clt_status check_room(ocl_device *device, uint64_t bytes, const char *what)
{
    const ocl_device_desc *desc = &device->desc;
    if (bytes > desc->max_alloc_bytes && !(desc->quirks & OCL_QUIRK_MAX_ALLOC_SOFT))
        CLT_FAIL(CLT_EDEVMEM,
                 "allocating '%s': %.1f MiB is more than the largest single buffer of device %s '%s' (%.1f "
                 "MiB); split it or choose another device",
                 what, (double)bytes / MIB, desc->spec, desc->name, (double)desc->max_alloc_bytes / MIB);
    pthread_mutex_lock(&device->lock);
    uint64_t held = device->bytes;
    char biggest[sizeof device->buffers->what] = "none";
    uint64_t biggest_bytes = 0;
    for (const ocl_buffer *b = device->buffers; b != NULL; b = b->next) {
        if (b->bytes > biggest_bytes) {
            biggest_bytes = b->bytes;
            memcpy(biggest, b->what, sizeof biggest);
        }
    }
    pthread_mutex_unlock(&device->lock);
    if (bytes > desc->usable_bytes || held > desc->usable_bytes - bytes)
        CLT_FAIL(CLT_EDEVMEM,
                 "allocating '%s' of %.1f MiB on device %s '%s': %.1f MiB are usable and %.1f MiB are held "
                 "(the largest buffer is '%s', %.1f MiB); reduce the largest buffer or choose a device with "
                 "more memory",
                 what, (double)bytes / MIB, desc->spec, desc->name, (double)desc->usable_bytes / MIB,
                 (double)held / MIB, biggest_bytes > bytes ? biggest : what,
                 (double)(biggest_bytes > bytes ? biggest_bytes : bytes) / MIB);
    return CLT_OK;
}

typedef struct ocl_pages {
    void *data;
    uint64_t bytes;
} ocl_pages;

static void link_buffer(ocl_device *device, ocl_buffer *buffer)
{
    CLT_LOCKED(&device->lock);
    buffer->next = device->buffers;
    if (buffer->next != NULL)
        buffer->next->previous = buffer;
    device->buffers = buffer;
    device->bytes += buffer->bytes;
    if (device->bytes > device->peak_bytes)
        device->peak_bytes = device->bytes;
    device->counters.buffers_created++;
}

/* Device memory of a CPU device is host memory: buffers of at least this many bytes get huge pages, which
 * drivers' own allocations do not request. */
#define OWN_PAGES_FROM (UINT64_C(8) << 20)

static void CL_CALLBACK free_pages(cl_mem mem, void *data)
{
    ocl_pages *pages = data;
    (void)mem; /* the buffer has been destroyed, so no command uses the memory any more */
    clt_pages_destroy(pages->data, pages->bytes);
    free(pages);
}

/* Creates a buffer on pages that we allocate and that hold zeros. zeroed: the pages are prefaulted now
 * (clt_pages_prefault), as a fill would do. */
static cl_mem create_on_pages(ocl_device *device, uint64_t bytes, bool zeroed, const char *what, void **data,
                              cl_int *code)
{
    ocl_pages *pages = calloc(1, sizeof *pages);
    cl_mem mem = NULL;
    if (pages != NULL && clt_pages_create(bytes, what, &pages->data) == CLT_OK) {
        pages->bytes = bytes;
        *data = pages->data;
        if (zeroed)
            clt_pages_prefault(pages->data, bytes);
        mem = clCreateBuffer(device->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, (size_t)bytes,
                             pages->data, code);
        if (mem != NULL && clSetMemObjectDestructorCallback(mem, free_pages, pages) == CL_SUCCESS)
            return mem;
        if (mem != NULL)
            clReleaseMemObject(mem);
        clt_pages_destroy(pages->data, bytes);
    }
    clt_error_clear();
    free(pages);
    *data = NULL;
    return NULL;
}

/* over: memory of the caller to use for the buffer, or NULL. */
static cl_mem create_mem(ocl_device *device, uint64_t bytes, bool zeroed, void *over, const char *what,
                         void **pages, cl_int *code)
{
    cl_mem mem = NULL;
    *pages = NULL;
    if (over != NULL)
        return clCreateBuffer(device->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, (size_t)bytes, over,
                              code);
    if (device->desc.is_cpu && bytes >= OWN_PAGES_FROM)
        mem = create_on_pages(device, bytes, zeroed, what, pages, code);
    if (mem != NULL)
        return mem;
    /* A kernel argument needs a buffer even for an empty tensor. */
    return clCreateBuffer(device->context, CL_MEM_READ_WRITE, bytes < 64 ? 64 : (size_t)bytes, NULL, code);
}

static clt_status create_buffer(ocl_device *device, uint64_t bytes, bool zeroed, void *over, const char *what,
                                ocl_buffer **out)
{
    CLT_FREED ocl_buffer *buffer = NULL;
    cl_int code;
    *out = NULL;
    CLT_TRY(check_room(device, bytes, what));
    CLT_TRY(clt_alloc(&buffer, 1, sizeof *buffer, "a buffer record"));
    buffer->device = device;
    buffer->bytes = bytes;
    snprintf(buffer->what, sizeof buffer->what, "%s", what);
    buffer->over = over;
    buffer->mem = create_mem(device, bytes, zeroed, over, what, &buffer->pages, &code);
    OCL_CHECK(code, "allocating '%s' of %.1f MiB on device %s '%s'", what, (double)bytes / MIB,
              device->desc.spec, device->desc.name);
    link_buffer(device, buffer);
    *out = CLT_TAKE(buffer);
    return CLT_OK;
}

clt_status ocl_buffer_create(ocl_device *device, uint64_t bytes, const char *what, ocl_buffer **out)
{
    return create_buffer(device, bytes, false, NULL, what, out);
}

clt_status ocl_buffer_create_over(ocl_device *device, void *memory, uint64_t bytes, const char *what,
                                  ocl_buffer **out)
{
    *out = NULL;
    if (!device->desc.is_cpu)
        CLT_FAIL(CLT_EDEVMEM, "'%s': device %s '%s' has its own memory and does not compute in the host's",
                 what, device->desc.spec, device->desc.name);
    return create_buffer(device, bytes, false, memory, what, out);
}

clt_status ocl_buffer_create_zeroed(ocl_device *device, uint64_t bytes, const char *what, ocl_buffer **out)
{
    CLT_SCOPED(ocl_buffer) *buffer = NULL;
    *out = NULL;
    CLT_TRY(create_buffer(device, bytes, true, NULL, what, &buffer));
    if (buffer->pages == NULL)
        CLT_TRY(ocl_fill_zero(buffer, 0, bytes));
    *out = CLT_TAKE(buffer);
    return CLT_OK;
}

void ocl_buffer_destroy(ocl_buffer *buffer)
{
    if (buffer == NULL)
        return;
    ocl_device *device = buffer->device;
    pthread_mutex_lock(&device->lock);
    if (buffer->next != NULL)
        buffer->next->previous = buffer->previous;
    if (buffer->previous != NULL)
        buffer->previous->next = buffer->next;
    else
        device->buffers = buffer->next;
    device->bytes -= buffer->bytes;
    pthread_mutex_unlock(&device->lock);
    clReleaseMemObject(buffer->mem);
    free(buffer);
}

uint64_t ocl_buffer_bytes(const ocl_buffer *buffer)
{
    return buffer->bytes;
}

static uint64_t read_locked(const ocl_device *device, const uint64_t *value)
{
    ocl_device *own = (ocl_device *)(uintptr_t)device; /* the cast only removes const for the lock */
    CLT_LOCKED(&own->lock);
    return *value;
}

uint64_t ocl_device_bytes(const ocl_device *device)
{
    return read_locked(device, &device->bytes);
}

uint64_t ocl_device_peak_bytes(const ocl_device *device)
{
    return read_locked(device, &device->peak_bytes);
}

/* Pinned host memory */

struct ocl_pinned {
    ocl_device *device;
    cl_mem mem;
    void *data;
};

clt_status ocl_pinned_create(ocl_device *device, uint64_t bytes, const char *what, ocl_pinned **out)
{
    CLT_FREED ocl_pinned *pinned = NULL;
    cl_int code;
    size_t size = bytes < 64 ? 64 : (size_t)bytes;
    *out = NULL;
    CLT_TRY(clt_alloc(&pinned, 1, sizeof *pinned, "a pinned memory record"));
    pinned->device = device;
    pinned->mem =
        clCreateBuffer(device->context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, size, NULL, &code);
    if (code == CL_SUCCESS)
        pinned->data = clEnqueueMapBuffer(device->queue[OCL_QUEUE_COPY], pinned->mem, CL_TRUE,
                                          CL_MAP_READ | CL_MAP_WRITE, 0, size, 0, NULL, NULL, &code);
    if (code != CL_SUCCESS && pinned->mem != NULL)
        clReleaseMemObject(pinned->mem);
    OCL_CHECK(code, "allocating '%s': %.1f MiB of pinned host memory for device %s '%s'", what,
              (double)bytes / MIB, device->desc.spec, device->desc.name);
    *out = CLT_TAKE(pinned);
    return CLT_OK;
}

void ocl_pinned_destroy(ocl_pinned *pinned)
{
    if (pinned == NULL)
        return;
    cl_command_queue queue = pinned->device->queue[OCL_QUEUE_COPY];
    if (ocl_commands_failed(pinned->device))
        return;
    clEnqueueUnmapMemObject(queue, pinned->mem, pinned->data, 0, NULL, NULL);
    clFinish(queue);
    clReleaseMemObject(pinned->mem);
    free(pinned);
}

void *ocl_pinned_data(ocl_pinned *pinned)
{
    return pinned->data;
}

/* Events */

/* Called after the host has waited: fails if an ended command has failed. */
static clt_status all_well(ocl_device *device)
{
    return ocl_commands_check(device, ocl_commands_enqueued(device));
}

void ocl_event_release(ocl_event *event)
{
    if (event != NULL)
        clReleaseEvent(ocl_event_raw(event));
}

typedef struct callback_record {
    ocl_event_fn fn;
    void *context;
} callback_record;

static void CL_CALLBACK event_ended(cl_event event, cl_int status, void *user)
{
    (void)event;
    callback_record record = *(callback_record *)user;
    free(user);
    record.fn(record.context, status >= 0);
}

static ocl_device *device_of(cl_event event)
{
    cl_command_queue queue = NULL;
    if (clGetEventInfo(event, CL_EVENT_COMMAND_QUEUE, sizeof queue, &queue, NULL) != CL_SUCCESS)
        return NULL;
    return ocl_device_of_queue(queue);
}

/* Whether the event has ended, on a device whose driver loses callbacks of ended events (poll_events). */
static bool ended_by_poll(ocl_event *event)
{
    const ocl_device *device = device_of(ocl_event_raw(event));
    bool ended = false;
    return device != NULL && (device->desc.quirks & OCL_QUIRK_POLL_EVENTS) &&
           ocl_event_poll(event, &ended) == CLT_OK && ended;
}

clt_status ocl_event_callback(ocl_event *event, ocl_event_fn fn, void *context)
{
    CLT_FREED callback_record *record = NULL;
    if (event == NULL || ended_by_poll(event)) {
        fn(context, true);
        return CLT_OK;
    }
    CLT_TRY(clt_alloc(&record, 1, sizeof *record, "an event callback"));
    record->fn = fn;
    record->context = context;
    OCL_CHECK(clSetEventCallback(ocl_event_raw(event), CL_COMPLETE, event_ended, record),
              "setting an event callback");
    record = NULL; /* event_ended frees it */
    return CLT_OK;
}

clt_status ocl_event_poll(ocl_event *event, bool *ended)
{
    cl_int state = CL_COMPLETE;
    *ended = true;
    if (event == NULL)
        return CLT_OK;
    OCL_CHECK(
        clGetEventInfo(ocl_event_raw(event), CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL),
        "asking for the state of a command");
    OCL_CHECK(state < 0 ? state : CL_SUCCESS, "a command failed on the device");
    *ended = state == CL_COMPLETE;
    return CLT_OK;
}

clt_status ocl_event_wait(ocl_event *event)
{
    if (event == NULL)
        return CLT_OK;
    cl_event raw = ocl_event_raw(event);
    bool ended;
    ocl_count_host_wait(device_of(raw));
    cl_int code = clWaitForEvents(1, &raw);
    if (code == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)
        CLT_TRY(ocl_event_poll(event, &ended)); /* fails with the failed command's own code */
    OCL_CHECK(code, "waiting for a command");
    ocl_device *device = device_of(raw);
    return device != NULL ? all_well(device) : CLT_OK;
}

/* Transfers */

static clt_status check_range(const ocl_buffer *buffer, uint64_t offset, uint64_t bytes, const char *doing)
{
    if (offset > buffer->bytes || bytes > buffer->bytes - offset)
        CLT_FAIL(CLT_EINTERNAL, "%s '%s': bytes %llu to %llu lie outside its %llu bytes", doing, buffer->what,
                 (unsigned long long)offset, (unsigned long long)(offset + bytes),
                 (unsigned long long)buffer->bytes);
    return CLT_OK;
}

clt_status ocl_write(ocl_buffer *dst, uint64_t offset, const void *src, uint64_t bytes)
{
    CLT_TRY(check_range(dst, offset, bytes, "writing to"));
    if (bytes == 0)
        return CLT_OK;
    ocl_count_host_wait(dst->device);
    OCL_CHECK(clEnqueueWriteBuffer(dst->device->queue[OCL_QUEUE_COMPUTE], dst->mem, CL_TRUE, (size_t)offset,
                                   (size_t)bytes, src, 0, NULL, NULL),
              "writing %llu bytes to '%s'", (unsigned long long)bytes, dst->what);
    return all_well(dst->device);
}

clt_status ocl_read(ocl_buffer *src, uint64_t offset, void *dst, uint64_t bytes)
{
    CLT_TRY(check_range(src, offset, bytes, "reading from"));
    if (bytes == 0)
        return CLT_OK;
    ocl_count_host_wait(src->device);
    OCL_CHECK(clEnqueueReadBuffer(src->device->queue[OCL_QUEUE_COMPUTE], src->mem, CL_TRUE, (size_t)offset,
                                  (size_t)bytes, dst, 0, NULL, NULL),
              "reading %llu bytes from '%s'", (unsigned long long)bytes, src->what);
    return all_well(src->device);
}

static clt_status fill_zero(ocl_buffer *dst, uint64_t offset, uint64_t bytes)
{
    CLT_SCOPED(cl_event) done = NULL;
    CLT_TRY(ocl_enqueue_fill(dst->device, dst->device->queue[OCL_QUEUE_COMPUTE], dst->mem, offset, bytes, 0,
                             &done));
    return ocl_faults_add_one(dst->device, dst->what, "", done);
}

clt_status ocl_fill_zero(ocl_buffer *dst, uint64_t offset, uint64_t bytes)
{
    CLT_TRY(check_range(dst, offset, bytes, "clearing"));
    if (bytes == 0 ||
        dst->device->gathered != NULL) /* while programs are only gathered, no kernel reads memory */
        return CLT_OK;
    return clt_fail_prefix(fill_zero(dst, offset, bytes), "clearing '%s': ", dst->what);
}

/* Called after each asynchronous command. Flushes a queue other than the compute queue, because commands of
 * other queues wait for its commands. Flushes any queue if the caller gets the event (PoCL starts no command
 * before a flush). */
static clt_status after_enqueue(ocl_device *device, ocl_queue queue, cl_event raw, ocl_event **done)
{
    if (done != NULL)
        *done = ocl_event_wrap(raw);
    if (done != NULL || queue != OCL_QUEUE_COMPUTE)
        return ocl_flush(device, queue);
    return CLT_OK;
}

/* Adds a transfer's event to the list of commands under way, and gives it to the caller and the recorder if
 * they want it. */
static clt_status after_transfer(ocl_device *device, const ocl_span *span, const char *what, cl_event raw,
                                 ocl_event **done)
{
    clt_status status = ocl_faults_add_one(device, what, "", raw);
    if (status == CLT_OK && ocl_record_level_of(device) != OCL_RECORD_OFF &&
        clRetainEvent(raw) == CL_SUCCESS) /* if this fails, only a time is missing */
        ocl_record_add(device, span, NULL, raw);
    if (done == NULL || status != CLT_OK)
        clReleaseEvent(raw);
    CLT_TRY(status);
    return after_enqueue(device, span->queue, raw, done);
}

/* A transfer of 0 bytes: a marker, so that the order of events stays the same. */
static clt_status empty_transfer(ocl_device *device, ocl_queue queue, ocl_event *wait, ocl_event **done)
{
    cl_event raw = NULL, before = ocl_event_raw(wait);
    if (done != NULL)
        *done = NULL;
    OCL_CHECK(clEnqueueMarkerWithWaitList(device->queue[queue], wait ? 1 : 0, wait ? &before : NULL,
                                          done ? &raw : NULL),
              "enqueueing an empty transfer");
    return after_enqueue(device, queue, raw, done);
}

/* Checks a transfer's range; messages call the transfer `what` ("writing to"). Sets *done to NULL. */
static clt_status begin_transfer(const ocl_buffer *buffer, uint64_t offset, uint64_t bytes, const char *what,
                                 ocl_event **done)
{
    if (done != NULL)
        *done = NULL;
    return check_range(buffer, offset, bytes, what);
}

clt_status ocl_write_async(ocl_queue queue, ocl_buffer *dst, uint64_t offset, const void *src, uint64_t bytes,
                           ocl_event *wait, ocl_event **done)
{
    cl_event raw = NULL, before = ocl_event_raw(wait);
    cl_int code;
    CLT_TRY(begin_transfer(dst, offset, bytes, "writing to", done));
    if (bytes == 0)
        return empty_transfer(dst->device, queue, wait, done);
    OCL_METERED(dst->device, code,
                clEnqueueWriteBuffer(dst->device->queue[queue], dst->mem, CL_FALSE, (size_t)offset,
                                     (size_t)bytes, src, wait ? 1 : 0, wait ? &before : NULL, &raw));
    OCL_CHECK(code, "writing %llu bytes to '%s'", (unsigned long long)bytes, dst->what);
    ocl_span span = {.kind = OCL_SPAN_H2D, .queue = queue, .bytes = bytes};
    return after_transfer(dst->device, &span, dst->what, raw, done);
}

clt_status ocl_read_async(ocl_queue queue, ocl_buffer *src, uint64_t offset, void *dst, uint64_t bytes,
                          ocl_event *wait, ocl_event **done)
{
    cl_event raw = NULL, before = ocl_event_raw(wait);
    cl_int code;
    CLT_TRY(begin_transfer(src, offset, bytes, "reading from", done));
    if (bytes == 0)
        return empty_transfer(src->device, queue, wait, done);
    OCL_METERED(src->device, code,
                clEnqueueReadBuffer(src->device->queue[queue], src->mem, CL_FALSE, (size_t)offset,
                                    (size_t)bytes, dst, wait ? 1 : 0, wait ? &before : NULL, &raw));
    OCL_CHECK(code, "reading %llu bytes from '%s'", (unsigned long long)bytes, src->what);
    ocl_span span = {.kind = OCL_SPAN_D2H, .queue = queue, .bytes = bytes};
    return after_transfer(src->device, &span, src->what, raw, done);
}

clt_status ocl_copy_async(ocl_queue queue, ocl_buffer *src, uint64_t src_offset, ocl_buffer *dst,
                          uint64_t dst_offset, uint64_t bytes, ocl_event *wait, ocl_event **done)
{
    cl_event raw = NULL, before = ocl_event_raw(wait);
    cl_int code;
    CLT_TRY(begin_transfer(src, src_offset, bytes, "copying from", done));
    CLT_TRY(check_range(dst, dst_offset, bytes, "copying to"));
    if (bytes == 0)
        return empty_transfer(dst->device, queue, wait, done);
    OCL_METERED(dst->device, code,
                clEnqueueCopyBuffer(dst->device->queue[queue], src->mem, dst->mem, (size_t)src_offset,
                                    (size_t)dst_offset, (size_t)bytes, wait ? 1 : 0, wait ? &before : NULL,
                                    &raw));
    OCL_CHECK(code, "copying %llu bytes from '%s' to '%s'", (unsigned long long)bytes, src->what, dst->what);
    ocl_span span = {.kind = OCL_SPAN_COPY, .queue = queue, .bytes = bytes};
    return after_transfer(dst->device, &span, dst->what, raw, done);
}

clt_status ocl_map_async(ocl_queue queue, ocl_buffer *buffer, uint64_t offset, uint64_t bytes,
                         ocl_event *wait, ocl_event **done)
{
    cl_event raw = NULL, before = ocl_event_raw(wait);
    cl_int code, refusal;
    void *at;
    CLT_TRY(begin_transfer(buffer, offset, bytes, "mapping", done));
    OCL_METERED(buffer->device, code,
                (at = clEnqueueMapBuffer(buffer->device->queue[queue], buffer->mem, CL_FALSE,
                                         CL_MAP_READ | CL_MAP_WRITE, (size_t)offset, (size_t)bytes,
                                         wait ? 1 : 0, wait ? &before : NULL, &raw, &refusal),
                 refusal));
    OCL_CHECK(code, "mapping %llu bytes of '%s'", (unsigned long long)bytes, buffer->what);
    ocl_span span = {.kind = OCL_SPAN_D2H, .queue = queue}; /* 0 bytes to move */
    CLT_TRY(after_transfer(buffer->device, &span, buffer->what, raw, done));
    if (at != (char *)buffer->over + offset)
        CLT_FAIL(CLT_EDEVICE, "mapping '%s': the driver of %s '%s' gives a copy of the caller's memory",
                 buffer->what, buffer->device->desc.spec, buffer->device->desc.name);
    return CLT_OK;
}

clt_status ocl_unmap_async(ocl_queue queue, ocl_buffer *buffer, uint64_t offset, ocl_event *wait,
                           ocl_event **done)
{
    cl_event raw = NULL, before = ocl_event_raw(wait);
    cl_int code;
    CLT_TRY(begin_transfer(buffer, offset, 0, "unmapping", done));
    OCL_METERED(buffer->device, code,
                clEnqueueUnmapMemObject(buffer->device->queue[queue], buffer->mem,
                                        (char *)buffer->over + offset, wait ? 1 : 0, wait ? &before : NULL,
                                        &raw));
    OCL_CHECK(code, "unmapping '%s'", buffer->what);
    ocl_span span = {.kind = OCL_SPAN_H2D, .queue = queue};
    return after_transfer(buffer->device, &span, buffer->what, raw, done);
}

static clt_status map_and_unmap(ocl_device *device, void *memory, uint64_t bytes)
{
    CLT_SCOPED(ocl_buffer) *buffer = NULL;
    CLT_SCOPED(ocl_event) *mapped = NULL, *unmapped = NULL;
    CLT_TRY(ocl_buffer_create_over(device, memory, bytes, "memory of the host, to try it", &buffer));
    CLT_TRY(ocl_map_async(OCL_QUEUE_COMPUTE, buffer, 0, bytes, NULL, &mapped));
    CLT_TRY(ocl_unmap_async(OCL_QUEUE_COMPUTE, buffer, 0, NULL, &unmapped));
    return ocl_event_wait(unmapped);
}

bool ocl_computes_on_host(ocl_device *device)
{
    enum { PAGE = 4096 };
    void *memory;
    if (!device->desc.is_cpu || posix_memalign(&memory, PAGE, PAGE) != 0)
        return false;
    CLT_KEEP_ERROR();
    bool does = map_and_unmap(device, memory, PAGE) == CLT_OK;
    if (!ocl_commands_failed(device))
        free(memory);
    return does;
}

clt_status ocl_marker(ocl_device *device, ocl_queue queue, ocl_event **done)
{
    return empty_transfer(device, queue, NULL, done);
}

clt_status ocl_wait_on_device(ocl_device *device, ocl_queue queue, ocl_event *before)
{
    cl_event raw = ocl_event_raw(before);
    if (before != NULL)
        OCL_CHECK(clEnqueueBarrierWithWaitList(device->queue[queue], 1, &raw, NULL), "enqueueing a barrier");
    return CLT_OK;
}

clt_status ocl_user_event_create(ocl_device *device, ocl_event **out)
{
    cl_int code;
    *out = NULL;
    cl_event raw = clCreateUserEvent(device->context, &code);
    OCL_CHECK(code, "creating an event of the host on device %s", device->desc.spec);
    *out = ocl_event_wrap(raw);
    return CLT_OK;
}

void ocl_user_event_complete(ocl_event *event)
{
    /* the call fails only if `event` is not a user event or was completed before */
    (void)clSetUserEventStatus(ocl_event_raw(event), CL_COMPLETE);
}

clt_status ocl_flush(ocl_device *device, ocl_queue queue)
{
    bool finish = (device->desc.quirks & OCL_QUIRK_FLUSH_IS_FINISH) != 0;
    cl_int code;
    OCL_METERED(device, code, finish ? clFinish(device->queue[queue]) : clFlush(device->queue[queue]));
    OCL_CHECK(code, "flushing a queue of device %s", device->desc.spec);
    return CLT_OK;
}

clt_status ocl_finish(ocl_device *device, ocl_queue queue)
{
    ocl_count_host_wait(device);
    if (device->queue[queue] == NULL)
        return CLT_OK;
    if (ocl_commands_failed(device)) /* commands that wait for a failed command may never end (PoCL 3.1) */
        return all_well(device);
    OCL_CHECK(clFinish(device->queue[queue]), "waiting for a queue of device %s '%s'", device->desc.spec,
              device->desc.name);
    return all_well(device);
}
