/* SPDX-License-Identifier: Apache-2.0
 *
 * Fills a buffer, by the driver's command or, where that is wrong (OCL_QUIRK_FILL_BY_KERNEL), by a
 * kernel. */
#include "cl/program/program_internal.h"

size_t ocl_fill_items(uint64_t count)
{
    uint64_t items = clt_align_up(count, 64);
    return items < (1u << 20) ? (size_t)items : 1u << 20;
}

/* Called with the device's lock held. */
static clt_status fill_kernel(ocl_device *device, ocl_program *program, bool words, cl_kernel *out)
{
    cl_kernel *slot = words ? &device->fill_kernel : &device->fill_byte_kernel;
    cl_int code = CL_SUCCESS;
    if (*slot == NULL) {
        *slot = clCreateKernel(program->program, words ? "fill_u32" : "fill_u8", &code);
        OCL_CHECK(code, "creating the fill kernel");
        device->counters.kernels_created++;
    }
    *out = *slot;
    return CLT_OK;
}

static clt_status fill_by_kernel(ocl_device *device, cl_command_queue queue, cl_mem mem, uint64_t offset,
                                 uint64_t bytes, bool words, uint32_t pattern, cl_event *done)
{
    ocl_program *program;
    cl_kernel kernel = NULL;
    CLT_TRY(ocl_program_get(device, "fill", "", &program));
    cl_ulong unit = words ? 4 : 1, first = offset / unit, count = bytes / unit;
    cl_uint value = pattern;
    size_t global = ocl_fill_items(count), local = 1;
    cl_int code = CL_SUCCESS;
    pthread_mutex_lock(&device->lock); /* the lock keeps arguments and launch together */
    clt_status status = fill_kernel(device, program, words, &kernel);
    if (status == CLT_OK) {
        local = ocl_kernel_items(device, kernel, 64);
        code = clSetKernelArg(kernel, 0, sizeof mem, &mem);
        code = code ? code : clSetKernelArg(kernel, 1, sizeof first, &first);
        code = code ? code : clSetKernelArg(kernel, 2, sizeof count, &count);
        code = code ? code : clSetKernelArg(kernel, 3, sizeof value, &value);
        code = code ? code : clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &global, &local, 0, NULL, done);
    }
    pthread_mutex_unlock(&device->lock);
    CLT_TRY(status);
    OCL_CHECK(code, "filling %llu bytes by kernel", (unsigned long long)bytes);
    return CLT_OK;
}

clt_status ocl_enqueue_fill(ocl_device *device, cl_command_queue queue, cl_mem mem, uint64_t offset,
                            uint64_t bytes, uint32_t pattern, cl_event *done)
{
    bool words = offset % 4 == 0 && bytes % 4 == 0;
    cl_uchar byte = (cl_uchar)pattern;
    if (device->desc.quirks & OCL_QUIRK_FILL_BY_KERNEL)
        return fill_by_kernel(device, queue, mem, offset, bytes, words, pattern, done);
    OCL_CHECK(clEnqueueFillBuffer(queue, mem, words ? (const void *)&pattern : &byte, words ? 4 : 1,
                                  (size_t)offset, (size_t)bytes, 0, NULL, done),
              "filling %llu bytes", (unsigned long long)bytes);
    return CLT_OK;
}
