/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams through memory: triad, copy and read over arrays that are too large for any cache. Their
 * bandwidths are the denominators of every "share of the memory's speed". This file must not know what is
 * compared with them. */
#include "cl/measure/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cl/kernels/kernel_shared.clh"
#include "engine/base/thread.h"

static const char *const form_names[OCL_STREAM_FORMS] = {"lane", "lane_nt", "group"};

bool ocl_stream_has(const ocl_stream *stream, ocl_stream_form form)
{
    return form != OCL_STREAM_LANE_NT || (stream->device->desc.caps & OCL_CAP_NONTEMPORAL) != 0;
}

ocl_stream_form ocl_stream_plain_form(const ocl_stream *stream)
{
    return ocl_prefers_lanes(&stream->device->desc) ? OCL_STREAM_LANE : OCL_STREAM_GROUP;
}

clt_status ocl_stream_launch_make(const ocl_stream *s, const char *what, ocl_stream_form form, int part,
                                  ocl_stream_launch *out)
{
    static const struct {
        const char *what;
        double arrays;
    } moved[] = {{"triad", 3.0}, {"copy", 2.0}, {"read", 1.0}, {"fill", 3.0}};
    const ocl_device_desc *desc = &s->device->desc;
    bool lane = form != OCL_STREAM_GROUP;
    uint64_t bytes = clt_align_up(s->bytes / (uint64_t)part, 64);
    cl_ulong vectors = bytes / (lane ? 64 : 16);
    char name[64];
    cl_int code;
    snprintf(name, sizeof name, "measure_%s_%s", what, form_names[form]);
    out->moved = 0.0;
    for (size_t i = 0; i < sizeof moved / sizeof moved[0]; i++)
        if (strcmp(moved[i].what, what) == 0)
            out->moved = moved[i].arrays * (double)bytes;
    out->kernel = clCreateKernel(s->program->program, name, &code);
    OCL_CHECK(code, "creating kernel %s", name);
    /* Many groups per compute unit, so that an interrupted unit does not delay all others. */
    out->local = lane ? 1 : ocl_kernel_items(s->device, out->kernel, 256);
    out->global = (size_t)desc->compute_units * (lane ? 64 : 16 * out->local);
    for (cl_uint i = 0; i < 3 && code == CL_SUCCESS; i++)
        code = clSetKernelArg(out->kernel, i, sizeof(cl_mem), &s->array[i]->mem);
    if (code == CL_SUCCESS)
        code = clSetKernelArg(out->kernel, 3, sizeof vectors, &vectors);
    if (code == CL_SUCCESS)
        return CLT_OK;
    clReleaseKernel(out->kernel);
    return ocl_fail(code, __FILE__, __LINE__, "binding %s", name);
}

clt_status ocl_stream_launch_run(const ocl_stream *s, const ocl_stream_launch *l, double (*clock)(void),
                                 double *seconds)
{
    const ocl_device_desc *desc = &s->device->desc;
    cl_command_queue queue = s->device->queue[OCL_QUEUE_COMPUTE];
    double start = clock();
    OCL_CHECK(clEnqueueNDRangeKernel(queue, l->kernel, 1, NULL, &l->global, &l->local, 0, NULL, NULL),
              "running a stream on device %s '%s'", desc->spec, desc->name);
    OCL_CHECK(clFinish(queue), "waiting for a stream on device %s '%s'", desc->spec, desc->name);
    *seconds = clock() - start;
    *seconds = *seconds > 1e-9 ? *seconds : 1e-9;
    return CLT_OK;
}

/* Once its runs (at least two) have taken this many seconds together, best_of ignores `runs`, because
 * disturbances are short compared with this. The first run does not count, because a driver may still
 * compile in it. */
#define ENOUGH_SECONDS 0.25

static clt_status best_of(const ocl_stream *s, const ocl_stream_launch *l, int runs, double budget,
                          double *best)
{
    double start = clt_now(), spent = 0.0, seconds = 0.0;
    const int least = runs < 2 ? runs : 2;
    for (int i = 0; i < least || (i < runs && spent < ENOUGH_SECONDS) || spent < budget; i++) {
        CLT_TRY(ocl_stream_launch_run(s, l, clt_now, &seconds));
        if (i == 0 || seconds < *best)
            *best = seconds;
        if (i == 0)
            start = clt_now();
        spent = clt_now() - start;
    }
    return CLT_OK;
}

clt_status ocl_stream_best(const ocl_stream *stream, ocl_stream_kind kind, ocl_stream_form form, int part,
                           int runs, double budget, double *gbs)
{
    static const char *const names[] = {"triad", "copy", "read"};
    ocl_stream_launch l;
    double seconds = 1.0;
    CLT_TRY(ocl_stream_launch_make(stream, names[kind], form, part, &l));
    clt_status status = best_of(stream, &l, runs, budget, &seconds);
    clReleaseKernel(l.kernel);
    *gbs = l.moved / seconds * 1e-9;
    return status;
}

/* First touch: on NUMA systems, pages are placed near the core that first writes them, so kernels write the
 * arrays once in the order in which they stream later. */
static clt_status first_touch(const ocl_stream *s)
{
    ocl_stream_launch l;
    double seconds;
    CLT_TRY(ocl_stream_launch_make(s, "fill", ocl_stream_plain_form(s), 1, &l));
    clt_status status = ocl_stream_launch_run(s, &l, clt_now, &seconds);
    clReleaseKernel(l.kernel);
    return status;
}

/* The three arrays together are at least four times as large as the last-level cache, so that no pass finds
 * data of the previous pass in the cache, and large enough for a pass to be long compared with a launch; but
 * at most a quarter of the memory. */
static uint64_t array_bytes(const ocl_device *device)
{
    const ocl_device_desc *desc = &device->desc;
    uint64_t total = desc->is_cpu ? UINT64_C(192) << 20 : UINT64_C(3) << 30, held = ocl_device_bytes(device);
    uint64_t room = desc->usable_bytes > held ? (desc->usable_bytes - held) / 4 : 0;
    total = 4 * desc->cache_bytes > total ? 4 * desc->cache_bytes : total;
    total = total > room ? room : total;
    uint64_t bytes = total / 3 < desc->max_alloc_bytes ? total / 3 : desc->max_alloc_bytes;
    /* at least the size that the FMA kernels of cl/measure/measure.c write to */
    uint64_t least = (uint64_t)desc->compute_units * 32 * 256 * 4;
    bytes = bytes < least ? least : bytes;
    return clt_align_up(bytes, 4096);
}

clt_status ocl_stream_program(ocl_device *device, ocl_program **out)
{
    bool nontemporal = (device->desc.caps & OCL_CAP_NONTEMPORAL) != 0;
    return ocl_program_get(device, "measure", nontemporal ? "-DNONTEMPORAL=1" : "", out);
}

clt_status ocl_stream_create(ocl_device *device, ocl_stream **out)
{
    CLT_SCOPED(ocl_stream) *s = NULL;
    *out = NULL;
    CLT_TRY(clt_alloc(&s, 1, sizeof *s, "a stream"));
    s->device = device;
    s->bytes = array_bytes(device);
    CLT_TRY(ocl_stream_program(device, &s->program));
    for (int i = 0; i < 3; i++)
        CLT_TRY(ocl_buffer_create(device, s->bytes, "a measurement array", &s->array[i]));
    CLT_TRY(first_touch(s));
    *out = CLT_TAKE(s);
    return CLT_OK;
}

clt_status ocl_stream_triad(const ocl_stream *stream, bool nontemporal, double *gbs)
{
    ocl_stream_form form = ocl_stream_plain_form(stream);
    if (nontemporal && ocl_stream_has(stream, OCL_STREAM_LANE_NT))
        form = OCL_STREAM_LANE_NT;
    return ocl_stream_best(stream, OCL_STREAM_TRIAD, form, 1, 1, 0.0, gbs);
}

clt_status ocl_stream_bind_fma(const ocl_stream *s, cl_kernel kernel, cl_uint rounds)
{
    const cl_float factor = 0.999f, add = 0.001f;
    OCL_CHECK(clSetKernelArg(kernel, 0, sizeof(cl_mem), &s->array[0]->mem), "binding a measurement");
    OCL_CHECK(clSetKernelArg(kernel, 1, sizeof(cl_mem), &s->array[1]->mem), "binding a measurement");
    OCL_CHECK(clSetKernelArg(kernel, 2, sizeof rounds, &rounds), "binding a measurement");
    OCL_CHECK(clSetKernelArg(kernel, 3, sizeof factor, &factor), "binding a measurement");
    OCL_CHECK(clSetKernelArg(kernel, 4, sizeof add, &add), "binding a measurement");
    return CLT_OK;
}

clt_status ocl_stream_write_starts(const ocl_stream *s)
{
    cl_float start[START_FLOATS];
    for (int i = 0; i < START_FLOATS; i++)
        start[i] = 1.0f + (float)i / START_FLOATS;
    OCL_CHECK(clEnqueueWriteBuffer(s->device->queue[OCL_QUEUE_COMPUTE], s->array[1]->mem, CL_TRUE, 0,
                                   sizeof start, start, 0, NULL, NULL),
              "writing the numbers that a measurement starts from");
    return CLT_OK;
}

void ocl_stream_destroy(ocl_stream *stream)
{
    if (stream == NULL)
        return;
    (void)clFinish(stream->device->queue[OCL_QUEUE_COMPUTE]); /* enqueueing has reported failures */
    for (int i = 0; i < 3; i++)
        ocl_buffer_destroy(stream->array[i]);
    free(stream);
}
