/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes any one OpenCL call of a program fail. Loaded with LD_PRELOAD, it counts the calls of the functions
 * below and lets the call with a given number fail as a driver would. driver_shim.c simulates drivers with a
 * particular fault; this file is for sweeps over all calls. It must not use anything of the engine.
 *
 *   CLT_CALL_SHIM = N           the N-th call returns an error and does nothing
 *                   event=N     the N-th command that is enqueued is accepted but does nothing, and its
 *                               event ends with an error; a call that asks for no event is passed on
 *                   log=FILE;   before either of them: FILE receives the name of the function that was hit */
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))(uintptr_t)dlsym(RTLD_NEXT, #name))
#define VISIBLE __attribute__((visibility("default")))

static atomic_long calls, commands;

static long wanted(bool event, char *log, size_t size)
{
    const char *text = getenv("CLT_CALL_SHIM");
    log[0] = '\0';
    if (text == NULL)
        return 0;
    if (strncmp(text, "log=", 4) == 0) {
        size_t n = strcspn(text + 4, ";");
        snprintf(log, size, "%.*s", (int)n, text + 4);
        text += 4 + n + (text[4 + n] == ';');
    }
    bool is_event = strncmp(text, "event=", 6) == 0;
    return is_event == event ? atol(is_event ? text + 6 : text) : 0;
}

static bool strikes(bool event, const char *name)
{
    char log[512], line[128];
    long number = wanted(event, log, sizeof log);
    if (atomic_fetch_add(event ? &commands : &calls, 1) + 1 != number)
        return false;
    int n = snprintf(line, sizeof line, "%s\n", name), fd = -1;
    if (log[0] != '\0')
        fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (fd >= 0 && write(fd, line, (size_t)n) != n)
        abort();
    if (fd >= 0)
        close(fd);
    return true;
}

/* A function that returns a code. */
#define CODE(name, error, parameters, arguments)                                                             \
    VISIBLE cl_int CL_API_CALL name parameters                                                               \
    {                                                                                                        \
        return strikes(false, #name) ? (error) : REAL(name) arguments;                                       \
    }
/* A function that returns an object; its last parameter is `code`. */
#define OBJECT(type, name, error, parameters, arguments)                                                     \
    VISIBLE type CL_API_CALL name parameters                                                                 \
    {                                                                                                        \
        if (!strikes(false, #name))                                                                          \
            return REAL(name) arguments;                                                                     \
        if (code != NULL)                                                                                    \
            *code = (error);                                                                                 \
        return NULL;                                                                                         \
    }
/* A command: `q` is its queue, `e` its event. */
static cl_int fail_later(cl_command_queue q, cl_event *e)
{
    cl_context context = NULL;
    REAL(clGetCommandQueueInfo)(q, CL_QUEUE_CONTEXT, sizeof context, &context, NULL);
    *e = REAL(clCreateUserEvent)(context, NULL);
    return REAL(clSetUserEventStatus)(*e, CL_OUT_OF_RESOURCES);
}
#define COMMAND(name, parameters, arguments)                                                                 \
    VISIBLE cl_int CL_API_CALL name parameters                                                               \
    {                                                                                                        \
        if (strikes(false, #name))                                                                           \
            return CL_OUT_OF_RESOURCES;                                                                      \
        bool later = e != NULL && strikes(true, #name);                                                      \
        return later ? fail_later(q, e) : REAL(name) arguments;                                              \
    }

typedef void(CL_CALLBACK *program_notify)(cl_program, void *);
typedef void(CL_CALLBACK *context_notify)(const char *, const void *, size_t, void *);
typedef void(CL_CALLBACK *event_notify)(cl_event, cl_int, void *);
typedef void(CL_CALLBACK *memory_notify)(cl_mem, void *);

CODE(clGetPlatformIDs, CL_OUT_OF_HOST_MEMORY, (cl_uint n, cl_platform_id *p, cl_uint *count), (n, p, count))
CODE(clGetPlatformInfo, CL_OUT_OF_HOST_MEMORY,
     (cl_platform_id p, cl_platform_info what, size_t s, void *v, size_t *r), (p, what, s, v, r))
CODE(clGetDeviceIDs, CL_OUT_OF_HOST_MEMORY,
     (cl_platform_id p, cl_device_type t, cl_uint n, cl_device_id *d, cl_uint *count), (p, t, n, d, count))
CODE(clGetDeviceInfo, CL_OUT_OF_HOST_MEMORY,
     (cl_device_id d, cl_device_info what, size_t s, void *v, size_t *r), (d, what, s, v, r))
OBJECT(cl_context, clCreateContext, CL_OUT_OF_RESOURCES,
       (const cl_context_properties *p, cl_uint n, const cl_device_id *d, context_notify f, void *u,
        cl_int *code),
       (p, n, d, f, u, code))
OBJECT(cl_command_queue, clCreateCommandQueue, CL_OUT_OF_RESOURCES,
       (cl_context c, cl_device_id d, cl_command_queue_properties p, cl_int *code), (c, d, p, code))
OBJECT(cl_program, clCreateProgramWithSource, CL_OUT_OF_HOST_MEMORY,
       (cl_context c, cl_uint n, const char **s, const size_t *l, cl_int *code), (c, n, s, l, code))
OBJECT(cl_program, clCreateProgramWithBinary, CL_INVALID_BINARY,
       (cl_context c, cl_uint n, const cl_device_id *d, const size_t *l, const unsigned char **b, cl_int *st,
        cl_int *code),
       (c, n, d, l, b, st, code))
CODE(clBuildProgram, CL_OUT_OF_HOST_MEMORY,
     (cl_program p, cl_uint n, const cl_device_id *d, const char *o, program_notify f, void *u),
     (p, n, d, o, f, u))
CODE(clGetProgramBuildInfo, CL_OUT_OF_HOST_MEMORY,
     (cl_program p, cl_device_id d, cl_program_build_info what, size_t s, void *v, size_t *r),
     (p, d, what, s, v, r))
CODE(clGetProgramInfo, CL_OUT_OF_HOST_MEMORY,
     (cl_program p, cl_program_info what, size_t s, void *v, size_t *r), (p, what, s, v, r))
OBJECT(cl_kernel, clCreateKernel, CL_OUT_OF_HOST_MEMORY, (cl_program p, const char *n, cl_int *code),
       (p, n, code))
CODE(clGetKernelInfo, CL_OUT_OF_HOST_MEMORY, (cl_kernel k, cl_kernel_info what, size_t s, void *v, size_t *r),
     (k, what, s, v, r))
CODE(clGetKernelWorkGroupInfo, CL_OUT_OF_HOST_MEMORY,
     (cl_kernel k, cl_device_id d, cl_kernel_work_group_info what, size_t s, void *v, size_t *r),
     (k, d, what, s, v, r))
CODE(clSetKernelArg, CL_OUT_OF_HOST_MEMORY, (cl_kernel k, cl_uint i, size_t s, const void *v), (k, i, s, v))
OBJECT(cl_mem, clCreateBuffer, CL_MEM_OBJECT_ALLOCATION_FAILURE,
       (cl_context c, cl_mem_flags f, size_t s, void *h, cl_int *code), (c, f, s, h, code))
CODE(clSetMemObjectDestructorCallback, CL_OUT_OF_HOST_MEMORY, (cl_mem m, memory_notify f, void *u), (m, f, u))
CODE(clGetEventInfo, CL_OUT_OF_HOST_MEMORY, (cl_event e, cl_event_info what, size_t s, void *v, size_t *r),
     (e, what, s, v, r))
CODE(clGetEventProfilingInfo, CL_OUT_OF_HOST_MEMORY,
     (cl_event e, cl_profiling_info what, size_t s, void *v, size_t *r), (e, what, s, v, r))
CODE(clSetEventCallback, CL_OUT_OF_HOST_MEMORY, (cl_event e, cl_int type, event_notify f, void *u),
     (e, type, f, u))
CODE(clRetainEvent, CL_OUT_OF_HOST_MEMORY, (cl_event e), (e))
CODE(clWaitForEvents, CL_OUT_OF_RESOURCES, (cl_uint n, const cl_event *e), (n, e))
CODE(clFlush, CL_OUT_OF_RESOURCES, (cl_command_queue q), (q))
CODE(clFinish, CL_OUT_OF_RESOURCES, (cl_command_queue q), (q))
COMMAND(clEnqueueReadBuffer,
        (cl_command_queue q, cl_mem m, cl_bool b, size_t o, size_t s, void *h, cl_uint n, const cl_event *w,
         cl_event *e),
        (q, m, b, o, s, h, n, w, e))
COMMAND(clEnqueueWriteBuffer,
        (cl_command_queue q, cl_mem m, cl_bool b, size_t o, size_t s, const void *h, cl_uint n,
         const cl_event *w, cl_event *e),
        (q, m, b, o, s, h, n, w, e))
COMMAND(clEnqueueCopyBuffer,
        (cl_command_queue q, cl_mem a, cl_mem b, size_t oa, size_t ob, size_t s, cl_uint n, const cl_event *w,
         cl_event *e),
        (q, a, b, oa, ob, s, n, w, e))
COMMAND(clEnqueueFillBuffer,
        (cl_command_queue q, cl_mem m, const void *p, size_t ps, size_t o, size_t s, cl_uint n,
         const cl_event *w, cl_event *e),
        (q, m, p, ps, o, s, n, w, e))
COMMAND(clEnqueueNDRangeKernel,
        (cl_command_queue q, cl_kernel k, cl_uint d, const size_t *o, const size_t *g, const size_t *l,
         cl_uint n, const cl_event *w, cl_event *e),
        (q, k, d, o, g, l, n, w, e))
COMMAND(clEnqueueMarkerWithWaitList, (cl_command_queue q, cl_uint n, const cl_event *w, cl_event *e),
        (q, n, w, e))
COMMAND(clEnqueueBarrierWithWaitList, (cl_command_queue q, cl_uint n, const cl_event *w, cl_event *e),
        (q, n, w, e))
COMMAND(clEnqueueUnmapMemObject,
        (cl_command_queue q, cl_mem m, void *p, cl_uint n, const cl_event *w, cl_event *e),
        (q, m, p, n, w, e))
OBJECT(void *, clEnqueueMapBuffer, CL_MAP_FAILURE,
       (cl_command_queue q, cl_mem m, cl_bool b, cl_map_flags f, size_t o, size_t s, cl_uint n,
        const cl_event *w, cl_event *e, cl_int *code),
       (q, m, b, f, o, s, n, w, e, code))
