/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs one probe kernel and turns its result into an answer. This file must not know the questions. */
#include "cl/probes/probes_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cl/kernels/program_source.h"
#include "cl/program/program_internal.h"
#include "engine/base/thread.h"

void ocl_probe_release(ocl_probe_objects *o)
{
    if (o->kernel != NULL)
        clReleaseKernel(o->kernel);
    if (o->in != NULL)
        clReleaseMemObject(o->in);
    if (o->out != NULL)
        clReleaseMemObject(o->out);
}

/* No driver promises local memory of this size, so every error code counts as a refusal, unless the queue
 * has stopped working. */
static clt_status local_refused(const ocl_device *device, const ocl_probe *run, cl_int code)
{
    if (code == CL_SUCCESS)
        return CLT_OK;
    OCL_CHECK(clFinish(device->queue[OCL_QUEUE_COMPUTE]), "waiting after %s was refused", run->kernel);
    CLT_FAIL(CLT_EUNSUPPORTED, "the driver refuses %zu bytes of local memory as an argument of %s: %s (%d)",
             run->local_bytes, run->kernel, ocl_error_name(code), code);
}

clt_status ocl_probe_create(ocl_device *device, const ocl_probe *run, ocl_probe_objects *o)
{
    ocl_program *program;
    cl_int code;
    const char *family = ocl_source_length(run->kernel) > 0 ? run->kernel : "probe";
    CLT_TRY(ocl_program_try(device, family, run->options, &program));
    o->kernel = clCreateKernel(program->program, run->kernel, &code);
    OCL_CHECK(code, "creating kernel %s", run->kernel);
    o->in = clCreateBuffer(device->context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, run->in_bytes,
                           (void *)(uintptr_t)run->in, &code);
    OCL_CHECK(code, "creating the input of %s", run->kernel);
    o->out = clCreateBuffer(device->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, run->out_bytes,
                            run->out, &code);
    OCL_CHECK(code, "creating the output of %s", run->kernel);
    OCL_CHECK(clSetKernelArg(o->kernel, 0, sizeof o->in, &o->in), "setting argument 0 of %s", run->kernel);
    OCL_CHECK(clSetKernelArg(o->kernel, 1, sizeof o->out, &o->out), "setting argument 1 of %s", run->kernel);
    OCL_CHECK(clSetKernelArg(o->kernel, 2, sizeof run->n, &run->n), "setting argument 2 of %s", run->kernel);
    if (run->local_bytes > 0)
        CLT_TRY(local_refused(device, run, clSetKernelArg(o->kernel, 3, run->local_bytes, NULL)));
    OCL_CHECK(clGetKernelWorkGroupInfo(o->kernel, device->id, CL_KERNEL_WORK_GROUP_SIZE, sizeof o->limit,
                                       &o->limit, NULL),
              "asking for the work-group limit of %s", run->kernel);
    if (o->limit > device->desc.max_work_group) /* when --caps limits work-groups */
        o->limit = (size_t)device->desc.max_work_group;
    if (run->local > o->limit && run->local > device->desc.larger_groups)
        CLT_FAIL(CLT_EUNSUPPORTED, "kernel %s runs at most %zu work-items a group, not %zu", run->kernel,
                 o->limit, run->local);
    return CLT_OK;
}

clt_status ocl_probe_launch(ocl_device *device, const ocl_probe *run, const ocl_probe_objects *o)
{
    cl_command_queue queue = device->queue[OCL_QUEUE_COMPUTE];
    size_t local = run->local ? run->local : 64;
    while (local > 1 && run->local == 0 && (local > o->limit || run->global % local != 0))
        local /= 2;
    cl_int code = clEnqueueNDRangeKernel(queue, o->kernel, 1, NULL, &run->global, &local, 0, NULL, NULL);
    if (run->local_bytes > 0)
        CLT_TRY(local_refused(device, run, code));
    OCL_CHECK(code, "running %s", run->kernel);
    OCL_CHECK(clFinish(queue), "waiting for %s", run->kernel);
    return CLT_OK;
}

clt_status ocl_probe_run(ocl_device *device, const ocl_probe *run)
{
    CLT_SCOPED(ocl_probe_objects) o = {0};
    CLT_TRY(ocl_probe_create(device, run, &o));
    CLT_TRY(ocl_probe_launch(device, run, &o));
    OCL_CHECK(clEnqueueReadBuffer(device->queue[OCL_QUEUE_COMPUTE], o.out, CL_TRUE, 0, run->out_bytes,
                                  run->out, 0, NULL, NULL),
              "reading the result of %s", run->kernel);
    return CLT_OK;
}

/* --- answers --- */

clt_status ocl_answer_yes(ocl_item *item, uint64_t value)
{
    item->answer = OCL_ANSWER_YES;
    item->value = value;
    return CLT_OK;
}

clt_status ocl_answer_with(ocl_item *item, ocl_answer what, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(item->reason, sizeof item->reason, format, args);
    va_end(args);
    item->answer = what;
    return CLT_OK;
}

#define ABSENT 0x0ab5e17au /* the value that a probe writes everywhere if its compiler lacks the feature */

static bool all_absent(const void *out, size_t bytes)
{
    const cl_uint *words = out;
    for (size_t i = 0; i < bytes / sizeof *words; i++)
        if (words[i] != ABSENT)
            return false;
    return true;
}

clt_status ocl_answer_wrong(ocl_item *item, const void *out, size_t bytes)
{
    if (all_absent(out, bytes))
        return ocl_answer_with(item, OCL_ANSWER_NO, "the device's compiler does not offer this feature");
    return ocl_answer_with(item, OCL_ANSWER_WRONG, "the probe kernel computed wrong results");
}

clt_status ocl_probe_time(ocl_device *device, const ocl_probe *run, double *best)
{
    CLT_SCOPED(ocl_probe_objects) o = {0};
    CLT_TRY(ocl_probe_create(device, run, &o));
    CLT_TRY(ocl_probe_launch(device, run, &o));
    *best = 1e9;
    for (int i = 0; i < 3; i++) {
        double start = clt_now();
        CLT_TRY(ocl_probe_launch(device, run, &o));
        double seconds = clt_now() - start;
        *best = seconds < *best ? seconds : *best;
    }
    return CLT_OK;
}
