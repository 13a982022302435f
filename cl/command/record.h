/* SPDX-License-Identifier: Apache-2.0
 *
 * The recorder finds out when the commands of a device ran, without waiting for any of them. It keeps the
 * events of enqueued commands in a ring of fixed size, and reports their times when the caller knows that
 * the commands have ended. The meter measures the processor time that the main thread spends inside OpenCL
 * calls. Only the thread that enqueues may use them. Only the owner knows what a tag means. */
#ifndef CL_COMMAND_RECORD_H
#define CL_COMMAND_RECORD_H

#include "cl/command/command.h"

typedef enum ocl_record_level {
    OCL_RECORD_OFF,
    OCL_RECORD_EDGES, /* records transfers, and the first and last command of each stretch (below) */
    OCL_RECORD_ALL    /* records transfers and every command */
} ocl_record_level;

typedef enum ocl_span_kind {
    OCL_SPAN_COMMAND, /* a command of an executor's list */
    OCL_SPAN_H2D,     /* ocl_write_async */
    OCL_SPAN_D2H,     /* ocl_read_async */
    OCL_SPAN_COPY     /* ocl_copy_async */
} ocl_span_kind;

/* A stretch is a sequence of commands that an executor enqueues without host commands in between. Its first
 * command has the flag OPENS and its last one CLOSES; a single command has both. AFTER_WAIT: the executor's
 * list has a host command before this one that makes the device wait. */
enum { OCL_SPAN_OPENS = 1, OCL_SPAN_CLOSES = 2, OCL_SPAN_AFTER_WAIT = 4 };

typedef struct ocl_span {
    int64_t tag;
    ocl_span_kind kind;
    ocl_queue queue;
    uint32_t flags;             /* OCL_SPAN_OPENS ... */
    bool all;                   /* recorded at OCL_RECORD_ALL */
    const ocl_command *command; /* COMMAND */
    uint64_t bytes;             /* transfers */
    double host_at;             /* clt_now() right after the command was enqueued */
    /* device clock, ns; all 0 if the device reports no times. queued_ns: only at OCL_RECORD_ALL */
    uint64_t queued_ns, start_ns, end_ns;
} ocl_span;

/* Makes a recorder for `capacity` commands in flight, at the level OFF. CLT_EUNSUPPORTED when the device's
 * queues report no times. */
clt_status ocl_record_start(ocl_device *device, size_t capacity);
/* Ends recording and drops commands not yet taken by ocl_record_take. ocl_device_close calls it too. */
void ocl_record_stop(ocl_device *device);
/* Commands enqueued from now on are recorded at this level with this tag. Tags must not decrease. */
void ocl_record_set(ocl_device *device, ocl_record_level level, int64_t tag);
/* Calls fn, in the order of enqueueing, for the commands of all tags up to `tag`, which must have ended.
 * Returns how many commands of these tags were lost since the last call because the ring was full. */
typedef void (*ocl_span_fn)(void *context, const ocl_span *span);
uint64_t ocl_record_take(ocl_device *device, int64_t tag, ocl_span_fn fn, void *context);

/* Processor time of the main thread inside the OpenCL calls of executors and transfers while the meter is
 * on. Reading the clock twice per call costs about as much as the call itself, and half of that cost is
 * counted as inside. To correct for it, time the same work without the meter. */
typedef struct ocl_meter_reading {
    double inside; /* seconds */
    uint64_t calls;
} ocl_meter_reading;
void ocl_meter(ocl_device *device, bool on);
ocl_meter_reading ocl_meter_read(const ocl_device *device);

#endif
