/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures how fast the device is at the time of another measurement, by the same clock: bytes of a stream
 * and operations of chains of multiply-adds. This file must not know what is measured. */
#include <stdlib.h>

#include "cl/measure/stream.h"
#include "cl/measure/yardstick.h"
#include "engine/base/thread.h"

#define LEAST_SECONDS 2e-3 /* duration of a run of the multiply-adds: long compared with a launch */

struct ocl_yardstick {
    ocl_stream *stream;
    ocl_stream_launch triad, fma;
    double flops; /* flops of one run of `fma` */
};

double (*ocl_work_clock(const ocl_device_desc *desc))(void)
{
    return desc->is_cpu ? clt_process_cpu : clt_now;
}

static clt_status run(const ocl_yardstick *y, const ocl_stream_launch *launch, double *seconds)
{
    return ocl_stream_launch_run(y->stream, launch, ocl_work_clock(ocl_device_describe(y->stream->device)),
                                 seconds);
}

/* Creates the launch of the multiply-adds, and finds the number of rounds with which it takes
 * LEAST_SECONDS. */
static clt_status make_fma(ocl_yardstick *y)
{
    ocl_device *device = y->stream->device;
    const ocl_device_desc *desc = ocl_device_describe(device);
    bool lane = ocl_prefers_lanes(desc);
    cl_int code;
    double seconds = 0.0;
    y->fma.kernel = clCreateKernel(y->stream->program->program,
                                   lane ? "measure_fma_lane_16x12" : "measure_fma_group_16", &code);
    OCL_CHECK(code, "creating a kernel of multiply-adds");
    y->fma.local = lane ? 1 : ocl_kernel_items(device, y->fma.kernel, 256);
    y->fma.global = (size_t)desc->compute_units * (lane ? 8 : 32) * y->fma.local;
    CLT_TRY(ocl_stream_write_starts(y->stream));
    for (cl_uint rounds = 1024; rounds < 1u << 28 && seconds < LEAST_SECONDS; rounds *= 2) {
        CLT_TRY(ocl_stream_bind_fma(y->stream, y->fma.kernel, rounds));
        CLT_TRY(run(y, &y->fma, &seconds)); /* in the first run the driver may compile */
        CLT_TRY(run(y, &y->fma, &seconds));
        y->flops = 2.0 * (lane ? 16 * 12 : 16) * (double)rounds * (double)y->fma.global;
    }
    return CLT_OK;
}

clt_status ocl_yardstick_create(ocl_device *device, ocl_yardstick **out)
{
    CLT_SCOPED(ocl_yardstick) *y = NULL;
    *out = NULL;
    CLT_TRY(clt_alloc(&y, 1, sizeof *y, "a yardstick"));
    CLT_TRY(ocl_stream_create(device, &y->stream));
    CLT_TRY(ocl_stream_launch_make(y->stream, "triad", ocl_stream_plain_form(y->stream), 1, &y->triad));
    CLT_TRY(make_fma(y));
    *out = CLT_TAKE(y);
    return CLT_OK;
}

clt_status ocl_yardstick_run(const ocl_yardstick *y, double *gbs, double *gflops)
{
    double seconds;
    CLT_TRY(run(y, &y->triad, &seconds));
    *gbs = y->triad.moved / seconds * 1e-9;
    CLT_TRY(run(y, &y->fma, &seconds));
    *gflops = y->flops / seconds * 1e-9;
    return CLT_OK;
}

void ocl_yardstick_destroy(ocl_yardstick *y)
{
    if (!y)
        return;
    if (y->triad.kernel)
        clReleaseKernel(y->triad.kernel);
    if (y->fma.kernel)
        clReleaseKernel(y->fma.kernel);
    ocl_stream_destroy(y->stream);
    free(y);
}
