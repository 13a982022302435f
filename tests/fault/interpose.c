/* SPDX-License-Identifier: Apache-2.0
 *
 * The counted OpenCL functions. Each calls the real one, found with dlsym(RTLD_NEXT). They must be visible to
 * the dynamic linker, so that CLBlast calls them, too. */
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include "tests/fault/interpose.h"

#include <CL/cl.h>
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef CLT_HAVE_CLBLAST
#include <clblast_c.h>
#endif

static atomic_uint_fast64_t own[CALL_KIND_COUNT], library[CALL_KIND_COUNT];
static _Thread_local int inside_library;

static const char *const names[CALL_KIND_COUNT] = {"program builds",  "kernel creations", "memory creations",
                                                   "other creations", "releases",         "argument settings",
                                                   "waits",           "blocking calls",   "maps",
                                                   "kernels",         "copies",           "fills",
                                                   "reads",           "writes",           "markers",
                                                   "events",          "flushes",          "library calls"};

const char *call_name(call_kind kind)
{
    return names[kind];
}

call_counts calls_now(void)
{
    call_counts c;
    for (int i = 0; i < CALL_KIND_COUNT; i++) {
        c.own[i] = atomic_load(&own[i]);
        c.library[i] = atomic_load(&library[i]);
    }
    return c;
}

call_counts calls_since(const call_counts *start)
{
    call_counts c = calls_now();
    for (int i = 0; i < CALL_KIND_COUNT; i++) {
        c.own[i] -= start->own[i];
        c.library[i] -= start->library[i];
    }
    return c;
}

static void count(call_kind kind)
{
    atomic_fetch_add(inside_library ? &library[kind] : &own[kind], 1);
}

static void *find(const char *name)
{
    void *real = dlsym(RTLD_NEXT, name);
    if (!real) {
        fprintf(stderr, "interpose: no '%s' behind this program\n", name);
        abort();
    }
    return real;
}

/* A function that counts the call and passes it on. */
#define COUNTED_WITH(counting, result, name, parameters, arguments)                                          \
    __attribute__((visibility("default"))) result CL_API_CALL name parameters                                \
    {                                                                                                        \
        static result(CL_API_CALL *_Atomic real) parameters;                                                 \
        if (!real)                                                                                           \
            real = (result(CL_API_CALL *) parameters)find(#name);                                            \
        counting;                                                                                            \
        return real arguments;                                                                               \
    }
#define COUNTED(kind, result, name, parameters, arguments)                                                   \
    COUNTED_WITH(count(kind), result, name, parameters, arguments)
/* A command, whose event is `e`. */
#define COMMAND(kind, name, parameters, arguments)                                                           \
    COUNTED_WITH(count_command(kind, e), cl_int, name, parameters, arguments)

static void count_command(call_kind kind, const cl_event *event)
{
    count(kind);
    if (event)
        count(CALL_EVENT);
}

typedef void(CL_CALLBACK *program_notify)(cl_program, void *);
typedef void(CL_CALLBACK *context_notify)(const char *, const void *, size_t, void *);

COUNTED(CALL_BUILD, cl_int, clBuildProgram,
        (cl_program p, cl_uint n, const cl_device_id *d, const char *o, program_notify f, void *u),
        (p, n, d, o, f, u))
COUNTED(CALL_BUILD, cl_int, clCompileProgram,
        (cl_program p, cl_uint n, const cl_device_id *d, const char *o, cl_uint nh, const cl_program *h,
         const char **hn, program_notify f, void *u),
        (p, n, d, o, nh, h, hn, f, u))
COUNTED(CALL_BUILD, cl_program, clLinkProgram,
        (cl_context c, cl_uint n, const cl_device_id *d, const char *o, cl_uint np, const cl_program *p,
         program_notify f, void *u, cl_int *e),
        (c, n, d, o, np, p, f, u, e))
COUNTED(CALL_BUILD, cl_program, clCreateProgramWithSource,
        (cl_context c, cl_uint n, const char **s, const size_t *l, cl_int *e), (c, n, s, l, e))
COUNTED(CALL_BUILD, cl_program, clCreateProgramWithBinary,
        (cl_context c, cl_uint n, const cl_device_id *d, const size_t *l, const unsigned char **b, cl_int *s,
         cl_int *e),
        (c, n, d, l, b, s, e))
COUNTED(CALL_CREATE_KERNEL, cl_kernel, clCreateKernel, (cl_program p, const char *n, cl_int *e), (p, n, e))
COUNTED(CALL_CREATE_KERNEL, cl_int, clCreateKernelsInProgram,
        (cl_program p, cl_uint n, cl_kernel *k, cl_uint *r), (p, n, k, r))
COUNTED(CALL_CREATE_MEMORY, cl_mem, clCreateBuffer,
        (cl_context c, cl_mem_flags f, size_t s, void *h, cl_int *e), (c, f, s, h, e))
COUNTED(CALL_CREATE_MEMORY, cl_mem, clCreateSubBuffer,
        (cl_mem m, cl_mem_flags f, cl_buffer_create_type t, const void *i, cl_int *e), (m, f, t, i, e))
COUNTED(CALL_CREATE_MEMORY, cl_mem, clCreateImage,
        (cl_context c, cl_mem_flags f, const cl_image_format *m, const cl_image_desc *d, void *h, cl_int *e),
        (c, f, m, d, h, e))
COUNTED(CALL_CREATE_OTHER, cl_context, clCreateContext,
        (const cl_context_properties *p, cl_uint n, const cl_device_id *d, context_notify f, void *u,
         cl_int *e),
        (p, n, d, f, u, e))
COUNTED(CALL_CREATE_OTHER, cl_command_queue, clCreateCommandQueue,
        (cl_context c, cl_device_id d, cl_command_queue_properties p, cl_int *e), (c, d, p, e))
COUNTED(CALL_CREATE_OTHER, cl_event, clCreateUserEvent, (cl_context c, cl_int *e), (c, e))
COUNTED(CALL_RELEASE, cl_int, clReleaseMemObject, (cl_mem m), (m))
COUNTED(CALL_RELEASE, cl_int, clReleaseKernel, (cl_kernel k), (k))
COUNTED(CALL_RELEASE, cl_int, clReleaseProgram, (cl_program p), (p))
COUNTED(CALL_RELEASE, cl_int, clReleaseCommandQueue, (cl_command_queue q), (q))
COUNTED(CALL_RELEASE, cl_int, clReleaseContext, (cl_context c), (c))
COUNTED(CALL_SET_ARG, cl_int, clSetKernelArg, (cl_kernel k, cl_uint i, size_t s, const void *v), (k, i, s, v))
COUNTED(CALL_WAIT, cl_int, clWaitForEvents, (cl_uint n, const cl_event *e), (n, e))
COUNTED(CALL_WAIT, cl_int, clFinish, (cl_command_queue q), (q))
COUNTED(CALL_FLUSH, cl_int, clFlush, (cl_command_queue q), (q))
COMMAND(blocking ? CALL_BLOCKING : CALL_READ, clEnqueueReadBuffer,
        (cl_command_queue q, cl_mem m, cl_bool blocking, size_t o, size_t s, void *h, cl_uint n,
         const cl_event *w, cl_event *e),
        (q, m, blocking, o, s, h, n, w, e))
COMMAND(blocking ? CALL_BLOCKING : CALL_WRITE, clEnqueueWriteBuffer,
        (cl_command_queue q, cl_mem m, cl_bool blocking, size_t o, size_t s, const void *h, cl_uint n,
         const cl_event *w, cl_event *e),
        (q, m, blocking, o, s, h, n, w, e))
COUNTED(blocking ? CALL_BLOCKING : CALL_MAP, void *, clEnqueueMapBuffer,
        (cl_command_queue q, cl_mem m, cl_bool blocking, cl_map_flags f, size_t o, size_t s, cl_uint n,
         const cl_event *w, cl_event *e, cl_int *c),
        (q, m, blocking, f, o, s, n, w, e, c))
COUNTED(CALL_MAP, cl_int, clEnqueueUnmapMemObject,
        (cl_command_queue q, cl_mem m, void *p, cl_uint n, const cl_event *w, cl_event *e),
        (q, m, p, n, w, e))
COMMAND(CALL_KERNEL, clEnqueueNDRangeKernel,
        (cl_command_queue q, cl_kernel k, cl_uint d, const size_t *o, const size_t *g, const size_t *l,
         cl_uint n, const cl_event *w, cl_event *e),
        (q, k, d, o, g, l, n, w, e))
COMMAND(CALL_COPY, clEnqueueCopyBuffer,
        (cl_command_queue q, cl_mem a, cl_mem b, size_t oa, size_t ob, size_t s, cl_uint n, const cl_event *w,
         cl_event *e),
        (q, a, b, oa, ob, s, n, w, e))
COMMAND(CALL_FILL, clEnqueueFillBuffer,
        (cl_command_queue q, cl_mem m, const void *p, size_t ps, size_t o, size_t s, cl_uint n,
         const cl_event *w, cl_event *e),
        (q, m, p, ps, o, s, n, w, e))

COMMAND(CALL_MARKER, clEnqueueMarkerWithWaitList,
        (cl_command_queue q, cl_uint n, const cl_event *w, cl_event *e), (q, n, w, e))

#ifdef CLT_HAVE_CLBLAST
/* The only function of CLBlast that the engine calls: calls inside it count as the library's. */
__attribute__((visibility("default"))) CLBlastStatusCode CLBlastSgemm(
    const CLBlastLayout layout, const CLBlastTranspose ta, const CLBlastTranspose tb, const size_t m,
    const size_t n, const size_t k, const float alpha, const cl_mem a, const size_t oa, const size_t lda,
    const cl_mem b, const size_t ob, const size_t ldb, const float beta, cl_mem c, const size_t oc,
    const size_t ldc, cl_command_queue *queue, cl_event *event)
{
    static __typeof__(&CLBlastSgemm) _Atomic real;
    if (!real)
        real = (__typeof__(&CLBlastSgemm))find("CLBlastSgemm");
    count_command(CALL_LIBRARY, event);
    inside_library++;
    CLBlastStatusCode code =
        real(layout, ta, tb, m, n, k, alpha, a, oa, lda, b, ob, ldb, beta, c, oc, ldc, queue, event);
    inside_library--;
    return code;
}
#endif
