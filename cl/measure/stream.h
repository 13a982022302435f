/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of cl/measure/stream.c for cl/measure/ only: every kind of stream, style and kind of store. */
#ifndef CL_MEASURE_STREAM_H
#define CL_MEASURE_STREAM_H

#include "cl/command/memory.h"
#include "cl/device/internal.h"
#include "cl/measure/limits.h"
#include "cl/program/program_internal.h"

typedef enum ocl_stream_kind { OCL_STREAM_TRIAD, OCL_STREAM_COPY, OCL_STREAM_READ } ocl_stream_kind;

/* How a stream is implemented: lane style (one work-item per group streams a long part, with plain or
 * non-temporal stores) or group style (all items of the grid advance together). */
typedef enum ocl_stream_form {
    OCL_STREAM_LANE,
    OCL_STREAM_LANE_NT,
    OCL_STREAM_GROUP,
    OCL_STREAM_FORMS
} ocl_stream_form;

struct ocl_stream {
    ocl_device *device;
    struct ocl_program *program;
    ocl_buffer *array[3];
    uint64_t bytes; /* bytes of each array */
};

typedef struct ocl_stream_launch {
    cl_kernel kernel;
    size_t global, local;
    double moved; /* bytes */
} ocl_stream_launch;
/* Creates a stream over the first 1/part of the arrays. what: "triad", "copy", "read" or "fill". The caller
 * releases the kernel. */
clt_status ocl_stream_launch_make(const ocl_stream *stream, const char *what, ocl_stream_form form, int part,
                                  ocl_stream_launch *out);
/* Runs the stream once and waits. *seconds: its duration, by `clock`. */
clt_status ocl_stream_launch_run(const ocl_stream *stream, const ocl_stream_launch *launch,
                                 double (*clock)(void), double *seconds);
/* Binds the arguments of an FMA kernel, which writes to the first array and starts with numbers from the
 * second one. */
clt_status ocl_stream_bind_fma(const ocl_stream *stream, cl_kernel kernel, cl_uint rounds);
/* Writes different numbers near 1 to the beginning of the second array, so that no compiler can know them. */
clt_status ocl_stream_write_starts(const ocl_stream *stream);

/* The program of all measurements. */
clt_status ocl_stream_program(ocl_device *device, ocl_program **out);
bool ocl_stream_has(const ocl_stream *stream, ocl_stream_form form);
/* The form with plain stores that suits the device's capabilities. */
ocl_stream_form ocl_stream_plain_form(const ocl_stream *stream);
/* Bandwidth in GB/s, from the shortest run over the first 1/part of the arrays. Makes `runs` runs, or fewer
 * (at least two) if they take 0.25 s, then further ones until the budget of seconds is spent. Counts the
 * bytes that the kernel accesses; a cache that reads lines before they are written (write-allocate) moves
 * more. */
clt_status ocl_stream_best(const ocl_stream *stream, ocl_stream_kind kind, ocl_stream_form form, int part,
                           int runs, double budget, double *gbs);

#endif
