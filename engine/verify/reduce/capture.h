/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands that a device ran last, as data: programs, launches with all arguments, and the content of
 * the buffers before. Also the values that were found wrong afterwards. */
#ifndef ENGINE_VERIFY_REDUCE_CAPTURE_H
#define ENGINE_VERIFY_REDUCE_CAPTURE_H

#include "cl/exec/exec.h"
#include "engine/verify/verify_internal.h"

typedef struct clt_captured_buffer {
    const ocl_buffer *buffer; /* identifies the buffer, which may be destroyed by now */
    uint64_t bytes;
    uint8_t *before; /* content; NULL: never read, since no command had been enqueued */
} clt_captured_buffer;

typedef struct clt_captured_command {
    ocl_command command;       /* with copies of its texts; `layer`, `made_by` and `gemm` are not copied */
    size_t local[3];           /* local size with which it was enqueued */
    int buffer[OCL_MAX_ARGS];  /* number of each tensor argument's buffer; -1: none */
    uint64_t at[OCL_MAX_ARGS]; /* where each tensor argument begins in its buffer, in bytes */
    bool kept;                 /* needed for the wrong values (clt_capture_slice) */
} clt_captured_command;

/* Wrong values, with their own memory. */
typedef struct clt_captured_values {
    int buffer; /* -1: nothing was found wrong */
    clt_dtype dtype;
    char what[256];
    size_t n, at;
    uint64_t *element; /* index of each value, in elements of `dtype` from the buffer's start */
    double *want, *bound, *storage;
    double got; /* the result at index `at` */
    bool together;
    double mean_limit, left;
} clt_captured_values;

typedef struct clt_capture {
    clt_arena *arena; /* memory of the members below; created anew for each run */
    clt_captured_command *commands;
    size_t n_commands;
    clt_captured_buffer *buffers;
    int n_buffers;
    bool built; /* false: the commands were about to be built, and none was enqueued */
    clt_captured_values wrong;
    clt_status trouble; /* not CLT_OK: the last run could not be captured; `error` says why */
    clt_error error;
} clt_capture;

/* Most bytes that all buffers of a run may have. */
#define CLT_CAPTURE_BYTES (UINT64_C(256) << 20)

/* Replaces what was captured before. Reads every buffer of the commands if they are about to be enqueued.
 * Errors are left in `trouble`. */
void clt_capture_event(clt_capture *capture, const ocl_exec_event *event);
void clt_capture_wrong(clt_capture *capture, const clt_verify_wrong *wrong);
/* Marks the commands on which the wrong values depend. Marks all commands if there are no wrong values, only
 * a single one, or if no command writes them. CLT_EUNSUPPORTED: OpenCL alone cannot repeat a marked
 * command. */
clt_status clt_capture_slice(clt_capture *capture);
void clt_capture_free(clt_capture *capture);
CLT_SCOPED_VALUE(clt_capture, clt_capture_free)

#endif
