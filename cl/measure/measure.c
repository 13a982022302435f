/* SPDX-License-Identifier: Apache-2.0
 *
 * Measured limits of a device: FMA peak, memory streams (cl/measure/stream.c), transfers, launches. They are
 * the denominators of every reported "percent of peak", so each is the best of several short runs of the
 * fastest of several kernels. This file must not know what is compared with them. */
#include <string.h>

#include "cl/command/faults_internal.h"
#include "cl/measure/stream.h"
#include "engine/base/thread.h"

#define MIN_RUNS 3

typedef struct bench {
    ocl_device *device;
    cl_command_queue queue;
    ocl_stream *stream; /* other measurements use its arrays, too */
    ocl_pinned *pinned;
} bench;

/* Enqueues one run without waiting. */
typedef clt_status (*run_fn)(const bench *b, const void *what);

static double seconds_of(const bench *b, run_fn run, const void *what, clt_status *status)
{
    double start = clt_now();
    *status = run(b, what);
    if (*status != CLT_OK)
        return 0.0;
    cl_int code = clFinish(b->queue);
    if (code != CL_SUCCESS)
        *status = ocl_fail(code, __FILE__, __LINE__, "waiting for a measurement on device %s '%s'",
                           b->device->desc.spec, b->device->desc.name);
    return clt_now() - start;
}

/* The shortest time of a run, after a warm-up: makes at least MIN_RUNS runs, and more until the time budget
 * is used up. */
static clt_status best_seconds(const bench *b, run_fn run, const void *what, double budget, double *best)
{
    clt_status status;
    (void)seconds_of(b, run, what, &status);
    CLT_TRY(status);
    double until = clt_now() + budget;
    *best = 0.0;
    for (int i = 0; i < MIN_RUNS || clt_now() < until; i++) {
        double seconds = seconds_of(b, run, what, &status);
        CLT_TRY(status);
        if (i == 0 || seconds < *best)
            *best = seconds;
    }
    *best = *best > 1e-9 ? *best : 1e-9;
    return CLT_OK;
}

static clt_status make_kernel(const ocl_program *program, const char *name, cl_kernel *out)
{
    cl_int code;
    *out = clCreateKernel(program->program, name, &code);
    OCL_CHECK(code, "creating kernel %s", name);
    return CLT_OK;
}

typedef struct launch {
    cl_kernel kernel;
    size_t global, local;
    bool keeps; /* the event is kept, as an executor keeps it */
} launch;

static clt_status run_launch(const bench *b, const void *what)
{
    const launch *l = what;
    cl_event event = NULL;
    OCL_CHECK(clEnqueueNDRangeKernel(b->queue, l->kernel, 1, NULL, &l->global, &l->local, 0, NULL,
                                     l->keeps ? &event : NULL),
              "running a measurement on device %s '%s'", b->device->desc.spec, b->device->desc.name);
    if (!l->keeps)
        return CLT_OK;
    clt_status status = ocl_faults_add_one(b->device, "a measurement", "", event);
    clReleaseEvent(event);
    return status;
}

/* FMA peak */

typedef struct fma_candidate {
    const char *kernel;
    bool lane;
    double flops; /* flops of one work-item and round */
} fma_candidate;

/* Vector width x number of chains. Together they should fill the registers but not exceed them: sixteen
 * registers of 256 bits hold 8 x 12 or 16 x 6; thirty-two registers of 512 bits hold 16 x 12 and more, of
 * 128 bits 4 x 12 or 8 x 12. */
#define FMA_LANE(width, count)                                                                               \
    {                                                                                                        \
        "measure_fma_lane_" #width "x" #count, true, 2.0 * width *count                                      \
    }
static const fma_candidate fma_candidates[] = {
    FMA_LANE(4, 12),
    FMA_LANE(8, 8),
    FMA_LANE(8, 12),
    FMA_LANE(8, 14),
    FMA_LANE(16, 6),
    FMA_LANE(16, 12),
    FMA_LANE(16, 16),
    {"measure_fma_group_8", false, 2 * 8},
    {"measure_fma_group_16", false, 2 * 16},
};
#define LOOK_SECONDS 1e-3 /* duration of one run while all candidates are compared */
/* duration of one run of the best candidate: long compared with a launch and with disturbances */
#define RUN_SECONDS 5e-3

/* Finds the number of rounds with which a run takes at least `least` seconds. */
static clt_status calibrate(const bench *b, const launch *l, double least, cl_uint *rounds)
{
    clt_status status;
    for (*rounds = 16; *rounds < 1u << 28; *rounds *= 2) {
        CLT_TRY(ocl_stream_bind_fma(b->stream, l->kernel, *rounds));
        double first = seconds_of(b, run_launch, l, &status), second = 0.0;
        if (status == CLT_OK)
            second = seconds_of(b, run_launch, l, &status);
        CLT_TRY(status);
        if ((first < second ? first : second) > least)
            break;
    }
    return CLT_OK;
}

static clt_status measure_fma_one(const bench *b, const fma_candidate *c, double least, double budget,
                                  double *gflops)
{
    const ocl_device_desc *desc = &b->device->desc;
    /* Several groups per compute unit, so that an interrupted unit does not delay all others. */
    size_t groups = (size_t)desc->compute_units * (c->lane ? 8 : 32);
    launch l = {0};
    cl_uint rounds;
    double seconds;
    clt_status status;
    CLT_TRY(make_kernel(b->stream->program, c->kernel, &l.kernel));
    l.local = c->lane ? 1 : ocl_kernel_items(b->device, l.kernel, 256);
    l.global = groups * l.local;
    CLT_TRY_GOTO(calibrate(b, &l, least, &rounds), done);
    CLT_TRY_GOTO(best_seconds(b, run_launch, &l, budget, &seconds), done);
    double reached = c->flops * (double)rounds * (double)l.global / seconds * 1e-9;
    if (reached > *gflops)
        *gflops = reached;
done:
    clReleaseKernel(l.kernel);
    return status;
}

/* Tries every candidate briefly, and spends the rest of the time on the fastest. */
static clt_status measure_fma(const bench *b, double budget, ocl_limits *out)
{
    const size_t n = sizeof fma_candidates / sizeof fma_candidates[0];
    size_t best = 0;
    CLT_TRY(ocl_stream_write_starts(b->stream));
    for (size_t i = 0; i < n; i++) {
        double gflops = 0.0;
        CLT_TRY(measure_fma_one(b, &fma_candidates[i], LOOK_SECONDS, 0.0, &gflops));
        if (gflops > out->fma_peak_gflops) {
            out->fma_peak_gflops = gflops;
            best = i;
        }
    }
    return measure_fma_one(b, &fma_candidates[best], RUN_SECONDS, 0.8 * budget, &out->fma_peak_gflops);
}

/* Streams */

/* Bandwidth of the fastest form of one kind of stream. Most of the time goes to the forms that suit the
 * device's capabilities. Other forms are first tried on a small part of the arrays, where caches make them
 * look faster rather than slower. *plain: of the fastest form with plain stores. */
static clt_status measure_stream(const bench *b, ocl_stream_kind kind, double budget, double *plain,
                                 double *best)
{
    ocl_stream_form favoured = ocl_stream_plain_form(b->stream);
    double gbs;
    *plain = *best = 0.0;
    CLT_TRY(ocl_stream_best(b->stream, kind, favoured, 1, MIN_RUNS + 1, 0.4 * budget, plain));
    for (ocl_stream_form form = OCL_STREAM_LANE; form < OCL_STREAM_FORMS; form++) {
        if (form == favoured || !ocl_stream_has(b->stream, form) ||
            (form == OCL_STREAM_LANE_NT && kind == OCL_STREAM_READ))
            continue;
        if (form != OCL_STREAM_LANE_NT) {
            CLT_TRY(ocl_stream_best(b->stream, kind, form, 32, MIN_RUNS + 1, 0.0, &gbs));
            if (gbs < *plain)
                continue;
        }
        CLT_TRY(ocl_stream_best(b->stream, kind, form, 1, MIN_RUNS + 1, 0.4 * budget, &gbs));
        if (form == OCL_STREAM_LANE_NT)
            *best = gbs;
        else if (gbs > *plain)
            *plain = gbs;
    }
    *best = *best > *plain ? *best : *plain;
    return CLT_OK;
}

/* Transfers and launches */

#define TRANSFER_BYTES (UINT64_C(64) << 20)

static uint64_t transfer_bytes(const bench *b)
{
    return b->stream->bytes < TRANSFER_BYTES ? b->stream->bytes : TRANSFER_BYTES;
}

static clt_status run_h2d(const bench *b, const void *what)
{
    (void)what;
    return ocl_write_async(OCL_QUEUE_COMPUTE, b->stream->array[0], 0, ocl_pinned_data(b->pinned),
                           transfer_bytes(b), NULL, NULL);
}

static clt_status run_d2h(const bench *b, const void *what)
{
    (void)what;
    return ocl_read_async(OCL_QUEUE_COMPUTE, b->stream->array[0], 0, ocl_pinned_data(b->pinned),
                          transfer_bytes(b), NULL, NULL);
}

static clt_status measure_transfers(bench *b, double budget, ocl_limits *out)
{
    double seconds;
    CLT_TRY(ocl_pinned_create(b->device, transfer_bytes(b), "the transfer measurement", &b->pinned));
    memset(ocl_pinned_data(b->pinned), 1, (size_t)transfer_bytes(b));
    CLT_TRY(best_seconds(b, run_h2d, NULL, 0.5 * budget, &seconds));
    out->h2d_gbs = (double)transfer_bytes(b) / seconds * 1e-9;
    CLT_TRY(best_seconds(b, run_d2h, NULL, 0.5 * budget, &seconds));
    out->d2h_gbs = (double)transfer_bytes(b) / seconds * 1e-9;
    return CLT_OK;
}

#define LAUNCHES_IN_A_ROW 200

static clt_status run_launches(const bench *b, const void *what)
{
    for (int i = 0; i < LAUNCHES_IN_A_ROW; i++)
        CLT_TRY(run_launch(b, what));
    return ocl_finish(b->device, OCL_QUEUE_COMPUTE); /* checks the events that were kept */
}

/* Times empty kernels, one alone and many in a row, from enqueueing until the host knows that they have
 * ended. */
static clt_status measure_launches(const bench *b, cl_kernel kernel, cl_mem mem, double budget,
                                   ocl_launch_times *out)
{
    launch l = {.kernel = kernel, .global = 1, .local = 1};
    double seconds = 0.0;
    OCL_CHECK(clSetKernelArg(kernel, 0, sizeof(cl_mem), &mem), "binding measure_nothing");
    CLT_TRY(best_seconds(b, run_launch, &l, 0.4 * budget, &seconds));
    out->alone_us = seconds * 1e6;
    CLT_TRY(best_seconds(b, run_launches, &l, 0.3 * budget, &seconds));
    out->in_row_us = seconds / LAUNCHES_IN_A_ROW * 1e6;
    l.keeps = true;
    CLT_TRY(best_seconds(b, run_launches, &l, 0.3 * budget, &seconds));
    out->in_row_event_us = seconds / LAUNCHES_IN_A_ROW * 1e6;
    return CLT_OK;
}

clt_status ocl_measure_launches(ocl_device *device, double seconds, ocl_launch_times *out)
{
    bench b = {.device = device, .queue = device->queue[OCL_QUEUE_COMPUTE]};
    ocl_program *program;
    ocl_buffer *buffer = NULL;
    cl_kernel kernel = NULL;
    clt_status status = CLT_OK;
    memset(out, 0, sizeof *out);
    CLT_TRY(ocl_stream_program(device, &program));
    CLT_TRY(ocl_buffer_create(device, 4096, "a measurement", &buffer));
    CLT_TRY_GOTO(make_kernel(program, "measure_nothing", &kernel), done);
    status = measure_launches(&b, kernel, buffer->mem, seconds, out);
done:
    (void)clFinish(b.queue); /* before the buffer is released; enqueueing has reported failures */
    if (kernel != NULL)
        clReleaseKernel(kernel);
    ocl_buffer_destroy(buffer);
    return clt_fail_prefix(status, "measuring launches on device %s '%s': ", device->desc.spec,
                           device->desc.name);
}

/* All together */

static clt_status measure_all(bench *b, double seconds, ocl_limits *out)
{
    double plain;
    ocl_launch_times launches;
    CLT_TRY(ocl_stream_create(b->device, &b->stream));
    CLT_TRY(measure_fma(b, 0.35 * seconds, out));
    CLT_TRY(measure_stream(b, OCL_STREAM_TRIAD, 0.25 * seconds, &out->plain_stream_gbs, &out->stream_gbs));
    CLT_TRY(measure_stream(b, OCL_STREAM_COPY, 0.1 * seconds, &plain, &out->copy_gbs));
    CLT_TRY(measure_stream(b, OCL_STREAM_READ, 0.1 * seconds, &plain, &out->read_gbs));
    CLT_TRY(measure_transfers(b, 0.1 * seconds, out));
    CLT_TRY(ocl_measure_launches(b->device, 0.1 * seconds, &launches));
    out->launch_us = launches.alone_us;
    return CLT_OK;
}

clt_status ocl_measure_limits(ocl_device *device, double seconds, ocl_limits *out)
{
    bench b = {.device = device, .queue = device->queue[OCL_QUEUE_COMPUTE]};
    memset(out, 0, sizeof *out);
    clt_status status = measure_all(&b, seconds, out);
    if (status != CLT_OK)
        clt_fail_prefix(status, "measuring the limits of device %s '%s': ", device->desc.spec,
                        device->desc.name);
    (void)clFinish(b.queue); /* before the arrays are released; enqueueing has reported failures */
    ocl_pinned_destroy(b.pinned);
    ocl_stream_destroy(b.stream);
    return status;
}
