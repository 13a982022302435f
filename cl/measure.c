/* SPDX-License-Identifier: Apache-2.0
 *
 * Measured limits of a device: FMA peak, memory streams, transfers, launch round trip. They are the
 * denominators of every "percent of peak" that is reported, so each is the best of several short runs, in the
 * better of two kernel styles. It must not know what is compared with them. */
#include "cl/internal.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/thread.h"

#define MIN_RUNS 3

typedef struct bench {
    ocl_device *device;
    cl_command_queue queue;
    struct ocl_program *program;
    ocl_buffer *array[3];
    ocl_pinned *pinned;
    uint64_t bytes; /* of each array */
    bool lane;
} bench;

/* One kind of run: enqueues work, does not wait. */
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

/* Shortest time of at least MIN_RUNS runs after one that warms up, until the budget is spent. */
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

static clt_status make_kernel(const bench *b, const char *name, cl_kernel *out)
{
    cl_int code;
    *out = clCreateKernel(b->program->program, name, &code);
    OCL_CHECK(code, "creating kernel %s", name);
    return CLT_OK;
}

typedef struct launch {
    cl_kernel kernel;
    size_t global, local; /* local 0: the driver chooses */
} launch;

static clt_status run_launch(const bench *b, const void *what)
{
    const launch *l = what;
    OCL_CHECK(clEnqueueNDRangeKernel(b->queue, l->kernel, 1, NULL, &l->global, l->local ? &l->local : NULL, 0,
                                     NULL, NULL),
              "running a measurement on device %s '%s'", b->device->desc.spec, b->device->desc.name);
    return CLT_OK;
}

/* FMA peak */

typedef struct fma_candidate {
    const char *kernel;
    bool lane;
    double flops; /* of one work-item and round */
} fma_candidate;

static const fma_candidate fma_candidates[] = {
    {"measure_fma_lane_6", true, 2 * 16 * 6},   {"measure_fma_lane_12", true, 2 * 16 * 12},
    {"measure_fma_lane_16", true, 2 * 16 * 16}, {"measure_fma_group_8", false, 2 * 8},
    {"measure_fma_group_16", false, 2 * 16},
};

static clt_status set_fma_args(const bench *b, cl_kernel kernel, cl_uint rounds)
{
    const cl_float factor = 0.999f, add = 0.001f;
    OCL_CHECK(clSetKernelArg(kernel, 0, sizeof(cl_mem), &b->array[0]->mem), "binding a measurement");
    OCL_CHECK(clSetKernelArg(kernel, 1, sizeof rounds, &rounds), "binding a measurement");
    OCL_CHECK(clSetKernelArg(kernel, 2, sizeof factor, &factor), "binding a measurement");
    OCL_CHECK(clSetKernelArg(kernel, 3, sizeof add, &add), "binding a measurement");
    return CLT_OK;
}

/* Rounds that make a run last about 5 ms: long against a launch, short against what else a machine does. */
static clt_status calibrate(const bench *b, const launch *l, cl_uint *rounds)
{
    clt_status status;
    for (*rounds = 1024; *rounds < 1u << 28; *rounds *= 2) {
        CLT_TRY(set_fma_args(b, l->kernel, *rounds));
        double first = seconds_of(b, run_launch, l, &status), second = 0.0;
        if (status == CLT_OK)
            second = seconds_of(b, run_launch, l, &status);
        CLT_TRY(status);
        if ((first < second ? first : second) > 5e-3)
            break;
    }
    return CLT_OK;
}

static clt_status measure_fma_one(const bench *b, const fma_candidate *c, double budget, double *gflops)
{
    const ocl_device_desc *desc = &b->device->desc;
    size_t group = c->lane ? 1 : desc->max_work_group < 256 ? (desc->max_work_group < 64 ? 1 : 64) : 256;
    /* Several groups a unit, so that a unit that was interrupted does not hold up the rest. */
    size_t groups = (size_t)desc->compute_units * (c->lane ? 8 : 32);
    launch l = {.global = groups * group, .local = group};
    cl_uint rounds;
    double seconds;
    clt_status status;
    CLT_TRY(make_kernel(b, c->kernel, &l.kernel));
    CLT_TRY_GOTO(calibrate(b, &l, &rounds), done);
    CLT_TRY_GOTO(best_seconds(b, run_launch, &l, budget, &seconds), done);
    double reached = c->flops * (double)rounds * (double)l.global / seconds * 1e-9;
    if (reached > *gflops)
        *gflops = reached;
done:
    clReleaseKernel(l.kernel);
    return status;
}

/* A short look at every candidate, the rest of the time for the best one. */
static clt_status measure_fma(const bench *b, double budget, ocl_limits *out)
{
    const size_t n = sizeof fma_candidates / sizeof fma_candidates[0];
    size_t best = 0;
    for (size_t i = 0; i < n; i++) {
        double gflops = 0.0;
        CLT_TRY(measure_fma_one(b, &fma_candidates[i], 0.05 * budget, &gflops));
        if (gflops > out->fma_peak_gflops) {
            out->fma_peak_gflops = gflops;
            best = i;
        }
    }
    return measure_fma_one(b, &fma_candidates[best], 0.75 * budget, &out->fma_peak_gflops);
}

/* Streams */

static clt_status stream_launch(const bench *b, const char *what, bool lane, uint64_t bytes, launch *out)
{
    char name[64];
    cl_ulong vectors = bytes / (lane ? 64 : 16);
    const ocl_device_desc *desc = &b->device->desc;
    snprintf(name, sizeof name, "measure_%s_%s", what, lane ? "lane" : "group");
    out->local = lane ? 1 : desc->max_work_group < 256 ? 1 : 256;
    out->global = (size_t)desc->compute_units * (lane ? 8 : 16 * out->local);
    CLT_TRY(make_kernel(b, name, &out->kernel));
    for (cl_uint i = 0; i < 3; i++)
        OCL_CHECK(clSetKernelArg(out->kernel, i, sizeof(cl_mem), &b->array[i]->mem), "binding %s", name);
    OCL_CHECK(clSetKernelArg(out->kernel, 3, sizeof vectors, &vectors), "binding %s", name);
    return CLT_OK;
}

static clt_status stream_style(const bench *b, const char *what, bool lane, uint64_t bytes, double budget,
                               double *seconds)
{
    launch l = {0};
    clt_status status = stream_launch(b, what, lane, bytes, &l);
    if (status == CLT_OK)
        status = best_seconds(b, run_launch, &l, budget, seconds);
    if (l.kernel != NULL)
        clReleaseKernel(l.kernel);
    return status;
}

/* Bytes counted are those that the kernel names: a cache that reads a line before it is written moves more.
 * The style that the probes favour gets the time. The other one has to show promise first, on a small part,
 * which caches only flatter. */
static clt_status measure_stream(const bench *b, const char *what, int arrays, double budget, double *gbs)
{
    double seconds, part = 1.0 / 32.0, moved = (double)arrays * (double)b->bytes * 1e-9;
    CLT_TRY(stream_style(b, what, b->lane, b->bytes, 0.8 * budget, &seconds));
    *gbs = moved / seconds;
    CLT_TRY(stream_style(b, what, !b->lane, b->bytes / 32, 0.0, &seconds));
    if (part * moved / seconds < *gbs)
        return CLT_OK;
    CLT_TRY(stream_style(b, what, !b->lane, b->bytes, 0.2 * budget, &seconds));
    *gbs = moved / seconds > *gbs ? moved / seconds : *gbs;
    return CLT_OK;
}

/* Memory belongs to whoever touches it first: the kernels do, in the order in which they stream. */
static clt_status touch(const bench *b)
{
    launch l = {0};
    clt_status status = stream_launch(b, "fill", b->lane, b->bytes, &l);
    if (status == CLT_OK)
        (void)seconds_of(b, run_launch, &l, &status);
    if (l.kernel != NULL)
        clReleaseKernel(l.kernel);
    return status;
}

/* Transfers and launches */

#define TRANSFER_BYTES (UINT64_C(64) << 20)

static uint64_t transfer_bytes(const bench *b)
{
    return b->bytes < TRANSFER_BYTES ? b->bytes : TRANSFER_BYTES;
}

static clt_status run_h2d(const bench *b, const void *what)
{
    (void)what;
    return ocl_write_async(OCL_QUEUE_COMPUTE, b->array[0], 0, ocl_pinned_data(b->pinned), transfer_bytes(b),
                           NULL, NULL);
}

static clt_status run_d2h(const bench *b, const void *what)
{
    (void)what;
    return ocl_read_async(OCL_QUEUE_COMPUTE, b->array[0], 0, ocl_pinned_data(b->pinned), transfer_bytes(b),
                          NULL, NULL);
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

/* From enqueueing a kernel that does nothing to knowing that it ended. */
static clt_status measure_launch(const bench *b, double budget, ocl_limits *out)
{
    launch l = {.global = 1, .local = 1};
    double seconds = 0.0;
    CLT_TRY(make_kernel(b, "measure_nothing", &l.kernel));
    cl_int code = clSetKernelArg(l.kernel, 0, sizeof(cl_mem), &b->array[0]->mem);
    clt_status status = code == CL_SUCCESS ? best_seconds(b, run_launch, &l, budget, &seconds)
                                           : ocl_fail(code, __FILE__, __LINE__, "binding measure_nothing");
    clReleaseKernel(l.kernel);
    out->launch_us = seconds * 1e6;
    return status;
}

/* All together */

/* The three arrays are four times the last cache, so that nothing of one pass is left for the next, or enough
 * for a pass to be long against a launch; a quarter of the memory at most. */
static uint64_t array_bytes(const ocl_device *device)
{
    const ocl_device_desc *desc = &device->desc;
    cl_ulong cache = 0;
    if (clGetDeviceInfo(device->id, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE, sizeof cache, &cache, NULL) !=
        CL_SUCCESS)
        cache = 0;
    uint64_t total = desc->is_cpu ? UINT64_C(192) << 20 : UINT64_C(3) << 30, held = ocl_device_bytes(device);
    uint64_t room = desc->usable_bytes > held ? (desc->usable_bytes - held) / 4 : 0;
    total = 4 * cache > total ? 4 * cache : total;
    total = total > room ? room : total;
    uint64_t bytes = total / 3 < desc->max_alloc_bytes ? total / 3 : desc->max_alloc_bytes;
    /* at least what the FMA kernels write */
    uint64_t least = (uint64_t)desc->compute_units * 32 * 256 * 4;
    bytes = bytes < least ? least : bytes;
    return clt_align_up(bytes, 4096);
}

static clt_status measure_all(bench *b, double seconds, ocl_limits *out)
{
    CLT_TRY(ocl_program_get(b->device, "measure", "", &b->program));
    for (int i = 0; i < 3; i++)
        CLT_TRY(ocl_buffer_create(b->device, b->bytes, "a measurement array", &b->array[i]));
    CLT_TRY(touch(b));
    CLT_TRY(measure_fma(b, 0.35 * seconds, out));
    CLT_TRY(measure_stream(b, "triad", 3, 0.25 * seconds, &out->stream_gbs));
    CLT_TRY(measure_stream(b, "copy", 2, 0.1 * seconds, &out->copy_gbs));
    CLT_TRY(measure_stream(b, "read", 1, 0.1 * seconds, &out->read_gbs));
    CLT_TRY(measure_transfers(b, 0.15 * seconds, out));
    return measure_launch(b, 0.05 * seconds, out);
}

clt_status ocl_measure_limits(ocl_device *device, double seconds, ocl_limits *out)
{
    bench b = {.device = device,
               .queue = device->queue[OCL_QUEUE_COMPUTE],
               .bytes = array_bytes(device),
               .lane = (device->desc.caps & OCL_CAP_WIDE_VECTORS) != 0};
    memset(out, 0, sizeof *out);
    clt_status status = measure_all(&b, seconds, out);
    if (status != CLT_OK)
        clt_fail_prefix(status, "measuring the limits of device %s '%s': ", device->desc.spec,
                        device->desc.name);
    (void)clFinish(b.queue); /* before the arrays go; a failure was reported by whoever enqueued */
    ocl_pinned_destroy(b.pinned);
    for (int i = 0; i < 3; i++)
        ocl_buffer_destroy(b.array[i]);
    return status;
}
