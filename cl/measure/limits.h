/* SPDX-License-Identifier: Apache-2.0
 *
 * Measurements of a device: its arithmetic and memory peaks, the cost of a launch, and a stream to compare
 * other measurements with. */
#ifndef CL_MEASURE_LIMITS_H
#define CL_MEASURE_LIMITS_H

#include "cl/device/device.h"
#include "engine/base/scope.h"

/* Measured limits (cl/measure/measure.c): FMA peak in GFLOP/s, bandwidths in GB/s, best of several runs.
 * stream_gbs: triad with the faster kind of stores; plain_stream_gbs: triad with plain stores; copy_gbs,
 * read_gbs: also with the faster kind. seconds: approximate time budget. */
typedef struct ocl_limits {
    double fma_peak_gflops, stream_gbs, plain_stream_gbs, copy_gbs, read_gbs, h2d_gbs, d2h_gbs, launch_us;
} ocl_limits;
clt_status ocl_measure_limits(ocl_device *device, double seconds, ocl_limits *out);

/* The cost of launching an empty kernel, in microseconds. alone_us: one launch, until the host knows that it
 * has ended. in_row_us: one of many launches in a row, as in a step, without events. in_row_event_us: the
 * same with an event for each launch, which is kept and checked. The times include time stamps if the device
 * was opened with them (ocl_open_options.profiling). */
typedef struct ocl_launch_times {
    double alone_us, in_row_us, in_row_event_us;
} ocl_launch_times;
clt_status ocl_measure_launches(ocl_device *device, double seconds, ocl_launch_times *out);

/* A STREAM benchmark over three arrays far larger than the caches (cl/measure/stream.c), for comparison with
 * other measurements. The bandwidth of memory that is shared with other programs varies from second to
 * second, so a measurement is compared with streams that run just before and after it. A device without
 * non-temporal stores uses plain stores instead. Blocks. */
typedef struct ocl_stream ocl_stream;
clt_status ocl_stream_create(ocl_device *device, ocl_stream **out);
clt_status ocl_stream_triad(const ocl_stream *stream, bool nontemporal, double *gbs);
void ocl_stream_destroy(ocl_stream *stream);
CLT_SCOPED_POINTER(ocl_stream, ocl_stream_destroy)

#endif
