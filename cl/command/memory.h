/* SPDX-License-Identifier: Apache-2.0
 *
 * Device memory as slabs (one cl_mem each, no larger than the device's limit) and pinned host memory, and
 * the transfers between them. A tensor is (slab, byte offset); there are no sub-buffers. */
#ifndef CL_COMMAND_MEMORY_H
#define CL_COMMAND_MEMORY_H

#include "engine/base/scope.h"
#include "cl/device/device.h"

typedef struct ocl_buffer ocl_buffer; /* one cl_mem */

/* Creates a buffer; messages name it `what` ("activations slab 0"). CLT_EDEVMEM when the device refuses, or
 * when the sum of all open buffers would pass desc.usable_bytes (checked before the call). */
clt_status ocl_buffer_create(ocl_device *device, uint64_t bytes, const char *what, ocl_buffer **out);
/* The same, filled with zeros, which all commands enqueued on the compute queue from now on see. */
clt_status ocl_buffer_create_zeroed(ocl_device *device, uint64_t bytes, const char *what, ocl_buffer **out);
/* On CPU devices: makes the caller's `memory` (whole pages that outlive the buffer) a buffer, so that
 * commands work directly on memory that ranks of this host share, without copies. CLT_EDEVMEM on other
 * devices. */
clt_status ocl_buffer_create_over(ocl_device *device, void *memory, uint64_t bytes, const char *what,
                                  ocl_buffer **out);
/* Whether the device works directly on the caller's memory, as CPU devices should. Finds out by mapping a
 * buffer over host memory. Blocks. */
bool ocl_computes_on_host(ocl_device *device);
void ocl_buffer_destroy(ocl_buffer *buffer);
CLT_SCOPED_POINTER(ocl_buffer, ocl_buffer_destroy)
uint64_t ocl_buffer_bytes(const ocl_buffer *buffer);
/* Bytes of all buffers of this device, now and at their maximum since it was opened. */
uint64_t ocl_device_bytes(const ocl_device *device);
uint64_t ocl_device_peak_bytes(const ocl_device *device);

/* Pinned host memory (CL_MEM_ALLOC_HOST_PTR, mapped once). */
typedef struct ocl_pinned ocl_pinned;
clt_status ocl_pinned_create(ocl_device *device, uint64_t bytes, const char *what, ocl_pinned **out);
void ocl_pinned_destroy(ocl_pinned *pinned);
void *ocl_pinned_data(ocl_pinned *pinned);

/* An event that the caller owns; all functions accept NULL. */
void ocl_event_release(ocl_event *event);
CLT_SCOPED_POINTER(ocl_event, ocl_event_release)
/* fn is called once, from a driver thread, when the command has ended (ok = false: it failed). It must not
 * call OpenCL. */
typedef void (*ocl_event_fn)(void *context, bool ok);
clt_status ocl_event_callback(ocl_event *event, ocl_event_fn fn, void *context);
/* Asks whether the command has ended, without blocking (for drivers with the quirk poll_events). Fails if
 * the command failed. */
clt_status ocl_event_poll(ocl_event *event, bool *ended);
/* Blocks the host (not allowed inside a step). */
clt_status ocl_event_wait(ocl_event *event);

/* Blocking transfers, for set-up, checkpoints and tests. */
clt_status ocl_write(ocl_buffer *dst, uint64_t offset, const void *src, uint64_t bytes);
clt_status ocl_read(ocl_buffer *src, uint64_t offset, void *dst, uint64_t bytes);
clt_status ocl_fill_zero(ocl_buffer *dst, uint64_t offset, uint64_t bytes); /* enqueued, not waited for */
/* Non-blocking transfers on a queue; host memory must stay valid until `done`. wait may be NULL. *done may
 * be NULL. */
clt_status ocl_write_async(ocl_queue queue, ocl_buffer *dst, uint64_t offset, const void *src, uint64_t bytes,
                           ocl_event *wait, ocl_event **done);
clt_status ocl_read_async(ocl_queue queue, ocl_buffer *src, uint64_t offset, void *dst, uint64_t bytes,
                          ocl_event *wait, ocl_event **done);
clt_status ocl_copy_async(ocl_queue queue, ocl_buffer *src, uint64_t src_offset, ocl_buffer *dst,
                          uint64_t dst_offset, uint64_t bytes, ocl_event *wait, ocl_event **done);
/* For a buffer over the caller's memory: when `done` has ended, the host may use this range. Commands may
 * use it again after ocl_unmap_async with the same `offset`. */
clt_status ocl_map_async(ocl_queue queue, ocl_buffer *buffer, uint64_t offset, uint64_t bytes,
                         ocl_event *wait, ocl_event **done);
clt_status ocl_unmap_async(ocl_queue queue, ocl_buffer *buffer, uint64_t offset, ocl_event *wait,
                           ocl_event **done);
/* A marker that completes when everything enqueued before it on the queue has completed. */
clt_status ocl_marker(ocl_device *device, ocl_queue queue, ocl_event **done);
/* Commands that are enqueued on the queue from now on wait for the event. NULL: nothing to wait for. */
clt_status ocl_wait_on_device(ocl_device *device, ocl_queue queue, ocl_event *before);
/* An event that the host completes by one call of ocl_user_event_complete, from any thread. The call cannot
 * fail, so commands that wait for the event always start. The caller releases the event afterwards. */
clt_status ocl_user_event_create(ocl_device *device, ocl_event **out);
void ocl_user_event_complete(ocl_event *event);
clt_status ocl_flush(ocl_device *device, ocl_queue queue); /* clFlush: never blocks */
/* Blocks until the queue is empty. Does not block if a command has failed, because commands that wait for
 * it may never end. */
clt_status ocl_finish(ocl_device *device, ocl_queue queue);

#endif
