/* SPDX-License-Identifier: Apache-2.0
 *
 * Simulates a bad OpenCL driver in a program that knows nothing of it. Loaded with LD_PRELOAD, its functions
 * come before the loader's, so that the calls of the engine and of CLBlast both pass through it. It must not
 * use anything of the engine. An environment variable says what goes wrong:
 *
 *   CLT_SHIM = entry;entry;...
 *   entry    = CALL:MATCH:ACTION[:nth=N | :from=N | :every=N]   or   log=FILE   or   platform=NAME
 *              or   largest=BYTES   or   memory=BYTES   or   devices=NAME/NAME/...   or   builtin=NAME/ULPS
 *
 * CALL
 *   build       clBuildProgram
 *   kernel      clCreateKernel
 *   group       clGetKernelWorkGroupInfo(CL_KERNEL_WORK_GROUP_SIZE)
 *   local       clGetKernelWorkGroupInfo(CL_KERNEL_LOCAL_MEM_SIZE)
 *   launch      clEnqueueNDRangeKernel
 *   read        clEnqueueReadBuffer
 *
 * MATCH: *, or tests joined by '+', all of which must hold; '!' before a test negates it
 *   NAME          the kernel's name or the program's source file contains NAME (in a build: the file)
 *   kernel=NAME   the kernel's name contains NAME (in a build: the source contains it)
 *   family=NAME   the program's source file is NAME.cl; "foreign": it is not the engine's (CLBlast)
 *   source=TEXT   the program's source (or binary) contains TEXT
 *   option=TEXT   the build options contain TEXT
 *   bytes=N       a read of exactly N bytes
 *   threads=N     a build while N - 1 other threads build
 *
 * ACTION
 *   abort, segfault    the process ends by that signal inside the call
 *   hang               the call does not return; of a launch: the command never ends
 *   error=CODE         the call fails with that OpenCL code (a build: -11 and a log; others: -5)
 *   silent=CODE        build: -11 and an empty log
 *   limit=N            group: the kernel's limit is reported as N, and launches above it are refused
 *   understate=N       group: the same, but launches above it run
 *   times=N            local: N times as much is reported
 *   dead=CODE          launch: accepted, but from then on every command and wait of that context fails
 *                      (-36), as after an illegal address
 *   garbage=FRACTION   launch: that part of the words that the kernel changed (at least one of each buffer;
 *                      1: all of them) gets wrong values
 *   group=N            launch: of at least N groups: what one group in N of them writes is wrong
 *   far=BYTES          launch: everything that is written from this offset of a buffer on is wrong
 *   event=CODE         launch: accepted and not run; its event, or the next marker's, ends with CODE (-5)
 *   idle=MICROSECONDS  launch: takes that long and computes nothing, as an accelerator does that needs no
 *                      core of the host
 *   groups=N           launch: of larger groups than N, which no query tells: refused (-54)
 *   flip, nan          read: one bit of what is delivered is wrong; its first word is a NaN
 *
 * nth=N, from=N, every=N: only the N-th matching call of a process, only from the N-th on, only each N-th.
 * The built-in function NAME(x) of OpenCL C gives results that are wrong by about ULPS units in the last
 * place of an f32. FILE receives one line,
 * "PID CALL FAMILY KERNEL ACTION NUMBER", for each call that was hit, before it happens. NAME is what every
 * platform says that it is called; the devices of a platform are called the NAMEs in their order. No device
 * has buffers of more than BYTES (largest), and says so; buffers of more than BYTES (memory) are refused for
 * lack of memory, and nobody knows before. driver_shim_rules.c reads all that. */
#include "tests/fault/driver_shim.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))(uintptr_t)dlsym(RTLD_NEXT, #name))
#define VISIBLE __attribute__((visibility("default")))

typedef struct program_record {
    cl_program id;
    char *source; /* or binary */
    size_t length;
    char family[64], options[2048];
    bool failed, silent;
} program_record;

enum { MAX_ARGS = 64 };

typedef struct kernel_record {
    cl_kernel id;
    cl_program program;
    char name[128];
    cl_mem arg[MAX_ARGS]; /* buffers among the arguments */
} kernel_record;

static struct {
    pthread_mutex_t lock;
    program_record *programs;
    kernel_record *kernels;
    struct {
        cl_mem id;
        size_t bytes;
    } * buffers;
    struct {
        cl_context id;
        cl_int code;
    } dead[8];
    struct {
        cl_command_queue id;
        cl_int code;
    } failed[8];     /* the next marker of this queue ends with that code */
    size_t building; /* threads in clBuildProgram */
    size_t n_programs, n_kernels, n_buffers, n_dead, n_failed;
} shim = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *grow(void *list, size_t count, size_t size)
{
    void *bigger = (count & (count - 1)) == 0 ? realloc(list, (count ? 2 * count : 1) * size) : list;
    if (!bigger)
        shim_stop("no memory", "");
    return bigger;
}

/* What a call is about */

static program_record *find_program(cl_program id)
{
    for (size_t i = 0; i < shim.n_programs; i++)
        if (shim.programs[i].id == id)
            return &shim.programs[i];
    return NULL;
}

static kernel_record *find_kernel(cl_kernel id)
{
    for (size_t i = 0; i < shim.n_kernels; i++)
        if (shim.kernels[i].id == id)
            return &shim.kernels[i];
    return NULL;
}

static subject of_program(cl_program id)
{
    const program_record *p = find_program(id);
    return p ? (subject){p->family, "", p->options, p->source, p->length, 0}
             : (subject){"", "", "", "", 0, 0};
}

static subject of_kernel(cl_kernel id)
{
    const kernel_record *k = find_kernel(id);
    subject s = of_program(k ? k->program : NULL);
    s.kernel = k ? k->name : "";
    return s;
}

static void sleep_for_ever(void)
{
    for (;;)
        pause();
}

/* Lock not held. Ends the process for the actions that do the same in every call; a launch hangs in its own
 * way. */
static void strike(call c, action a)
{
    if (a == ABORT)
        abort();
    if (a == SEGFAULT) {
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
    }
    if (a == HANG && c != LAUNCH)
        sleep_for_ever();
}

/* Programs */

static void add_program(cl_program id, const char *source, size_t length)
{
    pthread_mutex_lock(&shim.lock);
    shim_read_rules();
    program_record *p = find_program(id);
    if (!p) {
        shim.programs = grow(shim.programs, shim.n_programs, sizeof *p);
        p = &shim.programs[shim.n_programs++];
    } else {
        free(p->source); /* the driver reused an old handle */
    }
    *p = (program_record){.id = id, .source = malloc(length + 1), .length = length};
    if (!p->source)
        shim_stop("no memory", "");
    memcpy(p->source, source, length);
    p->source[length] = '\0';
    if (sscanf(p->source, "#line 1 \"%63[^.\"]", p->family) != 1)
        strcpy(p->family, "foreign");
    pthread_mutex_unlock(&shim.lock);
}

VISIBLE cl_program CL_API_CALL clCreateProgramWithSource(cl_context context, cl_uint count,
                                                         const char **strings, const size_t *lengths,
                                                         cl_int *code)
{
    char *all = NULL, wrong[1024];
    size_t total = 0;
    for (cl_uint i = 0; i < count; i++) {
        size_t length = lengths && lengths[i] ? lengths[i] : strlen(strings[i]);
        char *bigger = realloc(all, total + length + 1);
        if (!bigger)
            shim_stop("no memory", "");
        all = bigger;
        memcpy(all + total, strings[i], length);
        total += length;
    }
    pthread_mutex_lock(&shim.lock);
    shim_read_rules();
    bool spoilt = shim_builtin(wrong, sizeof wrong);
    pthread_mutex_unlock(&shim.lock);
    const char *with[2] = {wrong, all ? all : ""};
    const size_t sizes[2] = {strlen(wrong), total};
    cl_program id = spoilt ? REAL(clCreateProgramWithSource)(context, 2, with, sizes, code)
                           : REAL(clCreateProgramWithSource)(context, count, strings, lengths, code);
    if (id)
        add_program(id, all ? all : "", total);
    free(all);
    return id;
}

VISIBLE cl_program CL_API_CALL clCreateProgramWithBinary(cl_context context, cl_uint count,
                                                         const cl_device_id *devices, const size_t *lengths,
                                                         const unsigned char **binaries, cl_int *status,
                                                         cl_int *code)
{
    cl_program id = REAL(clCreateProgramWithBinary)(context, count, devices, lengths, binaries, status, code);
    if (id && count)
        add_program(id, (const char *)binaries[0], lengths[0]);
    return id;
}

VISIBLE cl_int CL_API_CALL clBuildProgram(cl_program program, cl_uint count, const cl_device_id *devices,
                                          const char *options, void(CL_CALLBACK *notify)(cl_program, void *),
                                          void *context)
{
    double value = 0;
    pthread_mutex_lock(&shim.lock);
    shim_read_rules();
    program_record *p = find_program(program);
    if (p)
        snprintf(p->options, sizeof p->options, "%s", options ? options : "");
    subject s = of_program(program);
    s.threads = ++shim.building;
    action a = shim_judge(BUILD, &s, &value);
    if (p)
        p->failed = a == ERROR || a == SILENT, p->silent = a == SILENT;
    pthread_mutex_unlock(&shim.lock);
    strike(BUILD, a);
    cl_int code = a == ERROR || a == SILENT
                      ? (cl_int)value
                      : REAL(clBuildProgram)(program, count, devices, options, notify, context);
    pthread_mutex_lock(&shim.lock);
    shim.building--;
    pthread_mutex_unlock(&shim.lock);
    return code;
}

static cl_int answer(const void *from, size_t bytes, size_t size, void *value, size_t *needed)
{
    if (needed)
        *needed = bytes;
    if (value && size < bytes)
        return CL_INVALID_VALUE;
    if (value)
        memcpy(value, from, bytes);
    return CL_SUCCESS;
}

VISIBLE cl_int CL_API_CALL clGetProgramBuildInfo(cl_program program, cl_device_id device,
                                                 cl_program_build_info what, size_t size, void *value,
                                                 size_t *needed)
{
    static const char log[] = "shim.cl:1:1: error: the driver's compiler refuses this program\n";
    pthread_mutex_lock(&shim.lock);
    const program_record *p = find_program(program);
    bool failed = p && p->failed, silent = p && p->silent;
    pthread_mutex_unlock(&shim.lock);
    cl_build_status status = CL_BUILD_ERROR;
    if (failed && what == CL_PROGRAM_BUILD_LOG)
        return silent ? answer("", 1, size, value, needed) : answer(log, sizeof log, size, value, needed);
    if (failed && what == CL_PROGRAM_BUILD_STATUS)
        return answer(&status, sizeof status, size, value, needed);
    return REAL(clGetProgramBuildInfo)(program, device, what, size, value, needed);
}

/* Kernels */

VISIBLE cl_kernel CL_API_CALL clCreateKernel(cl_program program, const char *name, cl_int *code)
{
    double value = 0;
    cl_int own = CL_SUCCESS;
    pthread_mutex_lock(&shim.lock);
    shim_read_rules();
    const program_record *p = find_program(program);
    bool failed = p && p->failed;
    subject s = of_program(program);
    s.kernel = name;
    action a = shim_judge(KERNEL, &s, &value);
    pthread_mutex_unlock(&shim.lock);
    strike(KERNEL, a);
    if (!code)
        code = &own;
    if (failed || a == ERROR) {
        *code = failed ? CL_INVALID_PROGRAM_EXECUTABLE : (cl_int)value;
        return NULL;
    }
    cl_kernel id = REAL(clCreateKernel)(program, name, code);
    if (!id)
        return id;
    pthread_mutex_lock(&shim.lock);
    kernel_record *k = find_kernel(id);
    if (!k) {
        shim.kernels = grow(shim.kernels, shim.n_kernels, sizeof *k);
        k = &shim.kernels[shim.n_kernels++];
    }
    *k = (kernel_record){.id = id, .program = program};
    snprintf(k->name, sizeof k->name, "%s", name);
    pthread_mutex_unlock(&shim.lock);
    return id;
}

VISIBLE cl_int CL_API_CALL clGetKernelWorkGroupInfo(cl_kernel kernel, cl_device_id device,
                                                    cl_kernel_work_group_info what, size_t size, void *value,
                                                    size_t *needed)
{
    double number = 0;
    action a = NOTHING;
    cl_int code = REAL(clGetKernelWorkGroupInfo)(kernel, device, what, size, value, needed);
    call c = what == CL_KERNEL_LOCAL_MEM_SIZE ? LOCAL : GROUP;
    if ((c == GROUP && what != CL_KERNEL_WORK_GROUP_SIZE) || code != CL_SUCCESS)
        return code;
    pthread_mutex_lock(&shim.lock);
    shim_read_rules();
    subject s = of_kernel(kernel);
    a = shim_judge(c, &s, &number);
    pthread_mutex_unlock(&shim.lock);
    strike(c, a);
    size_t limit;
    cl_ulong bytes;
    if (a == TIMES && value && size >= sizeof bytes) {
        memcpy(&bytes, value, sizeof bytes);
        bytes *= (cl_ulong)number;
        memcpy(value, &bytes, sizeof bytes);
    }
    if ((a == LIMIT || a == UNDERSTATE) && value && size >= sizeof limit) {
        memcpy(&limit, value, sizeof limit);
        limit = limit < (size_t)number ? limit : (size_t)number;
        memcpy(value, &limit, sizeof limit);
    }
    return a == ERROR ? (cl_int)number : code;
}

VISIBLE cl_int CL_API_CALL clSetKernelArg(cl_kernel kernel, cl_uint index, size_t size, const void *value)
{
    pthread_mutex_lock(&shim.lock);
    kernel_record *k = find_kernel(kernel);
    if (k && index < MAX_ARGS) {
        cl_mem mem = NULL;
        k->arg[index] = NULL;
        if (size == sizeof mem && value)
            memcpy(&mem, value, sizeof mem);
        for (size_t i = 0; mem && i < shim.n_buffers; i++)
            if (shim.buffers[i].id == mem)
                k->arg[index] = mem;
    }
    pthread_mutex_unlock(&shim.lock);
    return REAL(clSetKernelArg)(kernel, index, size, value);
}

/* Buffers */

VISIBLE cl_mem CL_API_CALL clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size, void *host,
                                          cl_int *code)
{
    pthread_mutex_lock(&shim.lock);
    shim_read_rules();
    bool refused = size > shim_largest_buffer(), lacks = size > shim_memory();
    pthread_mutex_unlock(&shim.lock);
    if ((refused || lacks) && code)
        *code = refused ? CL_INVALID_BUFFER_SIZE : CL_MEM_OBJECT_ALLOCATION_FAILURE;
    if (refused || lacks)
        return NULL;
    cl_mem id = REAL(clCreateBuffer)(context, flags, size, host, code);
    pthread_mutex_lock(&shim.lock);
    size_t i = 0;
    while (i < shim.n_buffers && shim.buffers[i].id != id)
        i++;
    if (id && i == shim.n_buffers) {
        shim.buffers = grow(shim.buffers, shim.n_buffers, sizeof *shim.buffers);
        shim.n_buffers++;
    }
    if (id) {
        shim.buffers[i].id = id;
        shim.buffers[i].bytes = size;
    }
    pthread_mutex_unlock(&shim.lock);
    return id;
}

VISIBLE cl_int CL_API_CALL clReleaseMemObject(cl_mem mem)
{
    cl_uint count = 0;
    REAL(clGetMemObjectInfo)(mem, CL_MEM_REFERENCE_COUNT, sizeof count, &count, NULL);
    pthread_mutex_lock(&shim.lock);
    for (size_t i = 0; i < shim.n_buffers && count == 1; i++)
        if (shim.buffers[i].id == mem)
            shim.buffers[i].bytes = 0;
    pthread_mutex_unlock(&shim.lock);
    return REAL(clReleaseMemObject)(mem);
}

/* Contexts that died, and commands that failed */

static cl_context context_of(cl_command_queue queue)
{
    cl_context context = NULL;
    REAL(clGetCommandQueueInfo)(queue, CL_QUEUE_CONTEXT, sizeof context, &context, NULL);
    return context;
}

/* CL_SUCCESS: the context is alive. */
static cl_int dead_context(cl_context context)
{
    cl_int code = CL_SUCCESS;
    pthread_mutex_lock(&shim.lock);
    for (size_t i = 0; i < shim.n_dead; i++)
        if (shim.dead[i].id == context)
            code = shim.dead[i].code;
    pthread_mutex_unlock(&shim.lock);
    return code;
}

static cl_int dead_queue(cl_command_queue queue)
{
    return shim.n_dead ? dead_context(context_of(queue)) : CL_SUCCESS;
}

static void kill_context(cl_context context, cl_int code)
{
    pthread_mutex_lock(&shim.lock);
    if (shim.n_dead < sizeof shim.dead / sizeof shim.dead[0]) {
        shim.dead[shim.n_dead].id = context;
        shim.dead[shim.n_dead++].code = code;
    }
    pthread_mutex_unlock(&shim.lock);
}

/* An event that has ended with an error. */
static cl_event failed_event(cl_command_queue queue, cl_int code)
{
    cl_event event = REAL(clCreateUserEvent)(context_of(queue), NULL);
    REAL(clSetUserEventStatus)(event, code);
    return event;
}

static cl_int accept_and_fail(cl_command_queue queue, cl_int code, cl_event *event)
{
    if (event) {
        *event = failed_event(queue, code);
        return CL_SUCCESS;
    }
    pthread_mutex_lock(&shim.lock);
    if (shim.n_failed < sizeof shim.failed / sizeof shim.failed[0]) {
        shim.failed[shim.n_failed].id = queue;
        shim.failed[shim.n_failed++].code = code;
    }
    pthread_mutex_unlock(&shim.lock);
    return CL_SUCCESS;
}

/* The code of a failed command before this marker; the marker reports it, once. */
static cl_int failure_before(cl_command_queue queue)
{
    cl_int code = CL_SUCCESS;
    pthread_mutex_lock(&shim.lock);
    for (size_t i = 0; i < shim.n_failed; i++)
        if (shim.failed[i].id == queue) {
            code = shim.failed[i].code;
            shim.failed[i] = shim.failed[--shim.n_failed];
            break;
        }
    pthread_mutex_unlock(&shim.lock);
    return code;
}

VISIBLE cl_int CL_API_CALL clEnqueueMarkerWithWaitList(cl_command_queue queue, cl_uint n,
                                                       const cl_event *wait, cl_event *event)
{
    cl_int code = dead_queue(queue);
    if (code != CL_SUCCESS)
        return code;
    if (n == 0 && event && shim.n_failed && (code = failure_before(queue)) != CL_SUCCESS) {
        *event = failed_event(queue, code);
        return CL_SUCCESS;
    }
    return REAL(clEnqueueMarkerWithWaitList)(queue, n, wait, event);
}

/* The functions that fail in a dead context and otherwise call the driver. */
#define MORTAL(name, parameters, arguments)                                                                  \
    VISIBLE cl_int CL_API_CALL name parameters                                                               \
    {                                                                                                        \
        cl_int code = dead_queue(queue);                                                                     \
        return code != CL_SUCCESS ? code : REAL(name) arguments;                                             \
    }

MORTAL(clFinish, (cl_command_queue queue), (queue))
MORTAL(clFlush, (cl_command_queue queue), (queue))
MORTAL(clEnqueueBarrierWithWaitList, (cl_command_queue queue, cl_uint n, const cl_event *w, cl_event *e),
       (queue, n, w, e))
MORTAL(clEnqueueWriteBuffer,
       (cl_command_queue queue, cl_mem m, cl_bool b, size_t o, size_t s, const void *h, cl_uint n,
        const cl_event *w, cl_event *e),
       (queue, m, b, o, s, h, n, w, e))
MORTAL(clEnqueueCopyBuffer,
       (cl_command_queue queue, cl_mem a, cl_mem b, size_t oa, size_t ob, size_t s, cl_uint n,
        const cl_event *w, cl_event *e),
       (queue, a, b, oa, ob, s, n, w, e))
MORTAL(clEnqueueFillBuffer,
       (cl_command_queue queue, cl_mem m, const void *p, size_t ps, size_t o, size_t s, cl_uint n,
        const cl_event *w, cl_event *e),
       (queue, m, p, ps, o, s, n, w, e))
VISIBLE void *CL_API_CALL clEnqueueMapBuffer(cl_command_queue queue, cl_mem mem, cl_bool blocking,
                                             cl_map_flags flags, size_t offset, size_t size, cl_uint n,
                                             const cl_event *wait, cl_event *event, cl_int *code)
{
    cl_int dead = dead_queue(queue);
    if (dead == CL_SUCCESS)
        return REAL(clEnqueueMapBuffer)(queue, mem, blocking, flags, offset, size, n, wait, event, code);
    if (code)
        *code = dead;
    return NULL;
}

MORTAL(clEnqueueUnmapMemObject,
       (cl_command_queue queue, cl_mem m, void *p, cl_uint n, const cl_event *w, cl_event *e),
       (queue, m, p, n, w, e))

VISIBLE cl_int CL_API_CALL clWaitForEvents(cl_uint n, const cl_event *events)
{
    cl_context context = NULL;
    if (n && shim.n_dead)
        REAL(clGetEventInfo)(events[0], CL_EVENT_CONTEXT, sizeof context, &context, NULL);
    cl_int code = context ? dead_context(context) : CL_SUCCESS;
    return code != CL_SUCCESS ? code : REAL(clWaitForEvents)(n, events);
}

/* Launches */

/* The distinct buffers of a kernel, without their contents. */
static int buffers_of(cl_kernel kernel, shim_copy list[MAX_ARGS])
{
    int n = 0;
    pthread_mutex_lock(&shim.lock);
    const kernel_record *k = find_kernel(kernel);
    for (int i = 0; k && i < MAX_ARGS; i++) {
        int seen = 0;
        while (seen < n && list[seen].id != k->arg[i])
            seen++;
        for (size_t b = 0; k->arg[i] && seen == n && b < shim.n_buffers; b++)
            if (shim.buffers[b].id == k->arg[i] && shim.buffers[b].bytes >= 4) {
                list[n++] = (shim_copy){k->arg[i], shim.buffers[b].bytes / 4 * 4, NULL};
                break;
            }
    }
    pthread_mutex_unlock(&shim.lock);
    return n;
}

typedef struct launch {
    cl_command_queue queue;
    cl_kernel kernel;
    cl_uint dim;
    const size_t *offset, *global, *local;
    cl_uint n;
    const cl_event *wait;
    cl_event *event;
} launch;

static cl_int real_launch(const launch *l)
{
    return REAL(clEnqueueNDRangeKernel)(l->queue, l->kernel, l->dim, l->offset, l->global, l->local, l->n,
                                        l->wait, l->event);
}

/* Launches, and spoils the kernel's results as the action says. */
static cl_int launch_wrong(const launch *l, action a, double value)
{
    shim_copy list[MAX_ARGS];
    size_t groups = 1;
    for (cl_uint i = 0; i < l->dim; i++)
        groups *= l->global[i] / (l->local ? l->local[i] : 1);
    if (a == GROUP_WRONG && groups < (size_t)value)
        return real_launch(l);
    if (l->n)
        REAL(clWaitForEvents)(l->n, l->wait);
    int n = buffers_of(l->kernel, list);
    for (int i = 0; i < n; i++)
        list[i].words = shim_contents(l->queue, &list[i]);
    cl_int code = real_launch(l);
    for (int i = 0; i < n; i++) {
        if (code == CL_SUCCESS)
            shim_spoil(l->queue, &list[i], a, value, groups);
        free(list[i].words);
    }
    return code;
}

/* After a command that never ends, no command of the queue runs. */
static cl_int launch_hanging(const launch *l)
{
    cl_event never = REAL(clCreateUserEvent)(context_of(l->queue), NULL);
    REAL(clEnqueueBarrierWithWaitList)(l->queue, 1, &never, NULL);
    return real_launch(l);
}

/* The driver runs this in the order of the queue. If the previous command has just ended, the time counts
 * from its end, so that late wake-ups by the operating system do not add up. */
static void CL_CALLBACK idle(void *arguments)
{
    static int64_t busy_until; /* nanoseconds */
    int64_t us, now;
    struct timespec t;
    memcpy(&us, arguments, sizeof us);
    clock_gettime(CLOCK_MONOTONIC, &t);
    now = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
    pthread_mutex_lock(&shim.lock);
    busy_until = (now - busy_until > 1000000 ? now : busy_until) + 1000 * us;
    t = (struct timespec){busy_until / 1000000000, busy_until % 1000000000};
    pthread_mutex_unlock(&shim.lock);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
        continue;
}

static cl_int launch_idle(const launch *l, double microseconds)
{
    int64_t us = (int64_t)microseconds;
    return REAL(clEnqueueNativeKernel)(l->queue, idle, &us, sizeof us, 0, NULL, NULL, l->n, l->wait,
                                       l->event);
}

VISIBLE cl_int CL_API_CALL clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dim,
                                                  const size_t *offset, const size_t *global,
                                                  const size_t *local, cl_uint n, const cl_event *wait,
                                                  cl_event *event)
{
    launch l = {queue, kernel, dim, offset, global, local, n, wait, event};
    double value = 0;
    size_t items = 1;
    cl_int code = dead_queue(queue);
    if (code != CL_SUCCESS)
        return code;
    for (cl_uint i = 0; local && i < dim; i++)
        items *= local[i];
    pthread_mutex_lock(&shim.lock);
    shim_read_rules();
    subject s = of_kernel(kernel);
    bool too_large = items > shim_limit_of(&s);
    action a = shim_judge(LAUNCH, &s, &value);
    pthread_mutex_unlock(&shim.lock);
    strike(LAUNCH, a);
    if (too_large)
        return CL_INVALID_WORK_GROUP_SIZE;
    switch (a) {
    case ERROR:
        return (cl_int)value;
    case HANG:
        return launch_hanging(&l);
    case DEAD:
        kill_context(context_of(queue), (cl_int)value);
        return accept_and_fail(queue, (cl_int)value, event);
    case EVENT:
        return accept_and_fail(queue, (cl_int)value, event);
    case GARBAGE:
    case GROUP_WRONG:
    case FAR_WRONG:
        return launch_wrong(&l, a, value);
    case IDLE:
        return launch_idle(&l, value);
    case GROUPS:
        return items > (size_t)value ? CL_INVALID_WORK_GROUP_SIZE : real_launch(&l);
    default:
        return real_launch(&l);
    }
}

/* A read with wrong data: the waiting caller sees it, so the read is made blocking. */
VISIBLE cl_int CL_API_CALL clEnqueueReadBuffer(cl_command_queue queue, cl_mem mem, cl_bool blocking,
                                               size_t offset, size_t size, void *host, cl_uint n,
                                               const cl_event *wait, cl_event *event)
{
    double value = 0;
    cl_int code = dead_queue(queue);
    if (code != CL_SUCCESS)
        return code;
    pthread_mutex_lock(&shim.lock);
    shim_read_rules();
    subject s = {"", "", "", "", 0, size};
    action a = shim_judge(READ, &s, &value);
    pthread_mutex_unlock(&shim.lock);
    strike(READ, a);
    if (a == ERROR)
        return (cl_int)value;
    code =
        REAL(clEnqueueReadBuffer)(queue, mem, blocking || a != NOTHING, offset, size, host, n, wait, event);
    const uint32_t nan = 0x7fc00000u;
    if (a == FLIP && size)
        ((unsigned char *)host)[size / 2] ^= 0x10;
    if (a == NOT_A_NUMBER && size >= sizeof nan)
        memcpy(host, &nan, sizeof nan);
    return code;
}

/* Platforms */

/* The name that the device must report, by its index on its platform; false: its own name. */
static bool simulated_name(cl_device_id device, char *name, size_t size)
{
    cl_platform_id platform;
    cl_device_id all[16];
    cl_uint count = 0;
    if (!shim_device_name(0, name, size) ||
        REAL(clGetDeviceInfo)(device, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL) != CL_SUCCESS ||
        REAL(clGetDeviceIDs)(platform, CL_DEVICE_TYPE_ALL, 16, all, &count) != CL_SUCCESS)
        return false;
    for (cl_uint i = 0; i < count && i < 16; i++)
        if (all[i] == device)
            return shim_device_name(i, name, size);
    return false;
}

VISIBLE cl_int CL_API_CALL clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t size, void *value,
                                           size_t *needed)
{
    char name[256];
    pthread_mutex_lock(&shim.lock);
    shim_read_rules();
    cl_ulong largest = shim_largest_buffer();
    pthread_mutex_unlock(&shim.lock);
    if (what == CL_DEVICE_NAME && simulated_name(device, name, sizeof name))
        return answer(name, strlen(name) + 1, size, value, needed);
    cl_int code = REAL(clGetDeviceInfo)(device, what, size, value, needed);
    cl_ulong own;
    if (what == CL_DEVICE_MAX_MEM_ALLOC_SIZE && code == CL_SUCCESS && value) {
        memcpy(&own, value, sizeof own);
        memcpy(value, own < largest ? &own : &largest, sizeof own);
    }
    return code;
}

VISIBLE cl_int CL_API_CALL clGetPlatformInfo(cl_platform_id platform, cl_platform_info what, size_t size,
                                             void *value, size_t *needed)
{
    pthread_mutex_lock(&shim.lock);
    shim_read_rules();
    const char *name = shim_platform();
    pthread_mutex_unlock(&shim.lock);
    return what == CL_PLATFORM_NAME && name ? answer(name, strlen(name) + 1, size, value, needed)
                                            : REAL(clGetPlatformInfo)(platform, what, size, value, needed);
}
