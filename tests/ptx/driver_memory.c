/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffers of the simulated device, and commands that move bytes; each command runs when it is enqueued. A
 * kernel never sees a host address: in a kernel, buffer n begins at n << PTX_BUFFER_SHIFT. */
#include <stdlib.h>
#include <string.h>

#include "tests/ptx/driver.h"

#define MOST_BUFFERS 4096

static ptx_buffer buffers[MOST_BUFFERS]; /* number 0 is not used, so that no buffer has the address 0 */

ptx_buffer *ptx_buffers(size_t *count)
{
    *count = MOST_BUFFERS;
    return buffers;
}

static void release_data(cl_mem mem)
{
    if (mem->owned)
        free(mem->data);
    free(buffers[mem->number].shadow);
    memset(&buffers[mem->number], 0, sizeof buffers[0]);
    free(mem);
}

/* Uninitialised memory holds NaN, as numbers of any width. */
static bool fill_in(cl_mem mem, cl_mem_flags flags, void *host)
{
    mem->owned = !(flags & CL_MEM_USE_HOST_PTR);
    mem->data = mem->owned ? aligned_alloc(4096, (mem->bytes + 4095) / 4096 * 4096) : host;
    if (!mem->data)
        return false;
    if (flags & CL_MEM_COPY_HOST_PTR)
        memcpy(mem->data, host, mem->bytes);
    else if (mem->owned)
        memset(mem->data, 0xff, mem->bytes);
    return true;
}

static cl_mem CL_API_CALL create_buffer(cl_context context, cl_mem_flags flags, size_t bytes, void *host,
                                        cl_int *code)
{
    cl_int ignored;
    cl_mem mem = calloc(1, sizeof *mem);
    (void)context;
    code = code ? code : &ignored;
    *code = bytes == 0 ? CL_INVALID_BUFFER_SIZE : CL_MEM_OBJECT_ALLOCATION_FAILURE;
    if (!mem || bytes == 0) {
        free(mem);
        return NULL;
    }
    *mem = (struct _cl_mem){.dispatch = &ptx_dispatch, .references = 1, .bytes = bytes};
    pthread_mutex_lock(&ptx_lock);
    uint32_t number = 1;
    while (number < MOST_BUFFERS && buffers[number].used)
        number++;
    ptx_shadow *shadow = number < MOST_BUFFERS ? calloc(bytes / 4 + 1, sizeof *shadow) : NULL;
    if (shadow && fill_in(mem, flags, host)) {
        mem->number = number;
        buffers[number] = (ptx_buffer){mem->data, bytes, shadow, true};
        *code = CL_SUCCESS;
    } else {
        free(shadow);
        free(mem);
        mem = NULL;
    }
    pthread_mutex_unlock(&ptx_lock);
    return mem;
}

static cl_int CL_API_CALL retain_mem(cl_mem mem)
{
    pthread_mutex_lock(&ptx_lock);
    mem->references++;
    pthread_mutex_unlock(&ptx_lock);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL release_mem(cl_mem mem)
{
    pthread_mutex_lock(&ptx_lock);
    if (--mem->references == 0)
        release_data(mem);
    pthread_mutex_unlock(&ptx_lock);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL mem_info(cl_mem mem, cl_mem_info what, size_t size, void *out, size_t *needed)
{
    if (what == CL_MEM_SIZE)
        return ptx_answer(&mem->bytes, sizeof mem->bytes, size, out, needed);
    if (what == CL_MEM_REFERENCE_COUNT)
        return ptx_answer(&mem->references, sizeof mem->references, size, out, needed);
    return CL_INVALID_VALUE;
}

/* CL_SUCCESS, or the code with which a command on these bytes is refused. */
static cl_int refusal(const struct _cl_mem *mem, size_t offset, size_t bytes)
{
    bool outside = offset > mem->bytes || bytes > mem->bytes - offset || bytes == 0;
    return outside ? CL_INVALID_VALUE : ptx_lasting_failure();
}

static cl_int CL_API_CALL read_buffer(cl_command_queue queue, cl_mem mem, cl_bool wait, size_t offset,
                                      size_t bytes, void *to, cl_uint n, const cl_event *before,
                                      cl_event *event)
{
    cl_ulong start = ptx_now();
    cl_int code = refusal(mem, offset, bytes);
    (void)wait;
    if (code != CL_SUCCESS)
        return code;
    ptx_await(n, before);
    pthread_mutex_lock(&ptx_lock);
    memcpy(to, mem->data + offset, bytes);
    pthread_mutex_unlock(&ptx_lock);
    ptx_event(queue, CL_COMMAND_READ_BUFFER, start, event);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL write_buffer(cl_command_queue queue, cl_mem mem, cl_bool wait, size_t offset,
                                       size_t bytes, const void *from, cl_uint n, const cl_event *before,
                                       cl_event *event)
{
    cl_ulong start = ptx_now();
    cl_int code = refusal(mem, offset, bytes);
    (void)wait;
    if (code != CL_SUCCESS)
        return code;
    ptx_await(n, before);
    pthread_mutex_lock(&ptx_lock);
    memcpy(mem->data + offset, from, bytes);
    pthread_mutex_unlock(&ptx_lock);
    ptx_event(queue, CL_COMMAND_WRITE_BUFFER, start, event);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL copy_buffer(cl_command_queue queue, cl_mem from, cl_mem to, size_t from_offset,
                                      size_t to_offset, size_t bytes, cl_uint n, const cl_event *before,
                                      cl_event *event)
{
    cl_ulong start = ptx_now();
    cl_int code = refusal(from, from_offset, bytes), other = refusal(to, to_offset, bytes);
    if (code != CL_SUCCESS || other != CL_SUCCESS)
        return code != CL_SUCCESS ? code : other;
    if (from == to && from_offset < to_offset + bytes && to_offset < from_offset + bytes)
        return CL_MEM_COPY_OVERLAP;
    ptx_await(n, before);
    pthread_mutex_lock(&ptx_lock);
    memcpy(to->data + to_offset, from->data + from_offset, bytes);
    pthread_mutex_unlock(&ptx_lock);
    ptx_event(queue, CL_COMMAND_COPY_BUFFER, start, event);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL fill_buffer(cl_command_queue queue, cl_mem mem, const void *pattern, size_t unit,
                                      size_t offset, size_t bytes, cl_uint n, const cl_event *before,
                                      cl_event *event)
{
    cl_ulong start = ptx_now();
    cl_int code = refusal(mem, offset, bytes);
    if (unit == 0 || offset % unit || bytes % unit)
        return CL_INVALID_VALUE;
    if (code != CL_SUCCESS)
        return code;
    ptx_await(n, before);
    pthread_mutex_lock(&ptx_lock);
    for (size_t at = 0; at < bytes; at += unit)
        memcpy(mem->data + offset + at, pattern, unit);
    pthread_mutex_unlock(&ptx_lock);
    ptx_event(queue, CL_COMMAND_FILL_BUFFER, start, event);
    return CL_SUCCESS;
}

static void *CL_API_CALL map_buffer(cl_command_queue queue, cl_mem mem, cl_bool wait, cl_map_flags flags,
                                    size_t offset, size_t bytes, cl_uint n, const cl_event *before,
                                    cl_event *event, cl_int *code)
{
    (void)wait, (void)flags;
    cl_int refused = refusal(mem, offset, bytes);
    if (code)
        *code = refused;
    if (refused != CL_SUCCESS)
        return NULL;
    ptx_await(n, before);
    ptx_event(queue, CL_COMMAND_MAP_BUFFER, ptx_now(), event);
    return mem->data + offset;
}

static cl_int CL_API_CALL unmap(cl_command_queue queue, cl_mem mem, void *mapped, cl_uint n,
                                const cl_event *before, cl_event *event)
{
    (void)mem, (void)mapped;
    ptx_await(n, before);
    ptx_event(queue, CL_COMMAND_UNMAP_MEM_OBJECT, ptx_now(), event);
    return CL_SUCCESS;
}

void ptx_memory_entries(cl_icd_dispatch *d)
{
    d->clCreateBuffer = create_buffer;
    d->clRetainMemObject = retain_mem;
    d->clReleaseMemObject = release_mem;
    d->clGetMemObjectInfo = mem_info;
    d->clEnqueueReadBuffer = read_buffer;
    d->clEnqueueWriteBuffer = write_buffer;
    d->clEnqueueCopyBuffer = copy_buffer;
    d->clEnqueueFillBuffer = fill_buffer;
    d->clEnqueueMapBuffer = map_buffer;
    d->clEnqueueUnmapMemObject = unmap;
}
