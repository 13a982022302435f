/* SPDX-License-Identifier: Apache-2.0
 *
 * Launches and events. A launch is reported with the rule that it violated, or with its counters. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/ptx/driver.h"

cl_ulong ptx_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (cl_ulong)now.tv_sec * 1000000000u + (cl_ulong)now.tv_nsec;
}

/* --- reports --- */

static void append(const char *setting, const char *format, const char *first, const char *second)
{
    const char *path = getenv(setting);
    FILE *file = path && path[0] ? fopen(path, "ab") : NULL;
    if (!file)
        return;
    fprintf(file, format, first, second);
    fclose(file);
}

/* Sums over the instructions of one kind and space. */
static void add_counts(const ptx_kernel *k, ptx_kind kind, ptx_space space, ptx_counts *sum)
{
    for (size_t i = 0; i < k->n_code; i++)
        if (k->code[i].kind == kind && (kind == PTX_WARP || k->code[i].space == space)) {
            sum->moved += k->code[i].counts.moved;
            sum->ideal += k->code[i].counts.ideal;
        }
}

static void count_matrix(const ptx_kernel *k, uint64_t *all, uint64_t *matrix)
{
    for (size_t i = 0; i < k->n_code; i++) {
        *all += k->code[i].counts.executed;
        if (strncmp(k->code[i].text, "mma.", 4) == 0 || strncmp(k->code[i].text, "wmma.mma", 8) == 0 ||
            strncmp(k->code[i].text, "wgmma.mma", 9) == 0)
            *matrix += k->code[i].counts.executed;
    }
}

static void write_counts(const ptx_kernel *k, const char *options)
{
    const char *path = getenv("CLTRAIN_PTX_COUNTS");
    ptx_counts read = {0}, write = {0}, load = {0}, store = {0}, matrix = {0};
    uint64_t all = 0, products = 0;
    FILE *file = path && path[0] ? fopen(path, "ab") : NULL;
    if (!file)
        return;
    add_counts(k, PTX_LOAD, PTX_GLOBAL, &read);
    add_counts(k, PTX_STORE, PTX_GLOBAL, &write);
    add_counts(k, PTX_LOAD, PTX_SHARED, &load);
    add_counts(k, PTX_STORE, PTX_SHARED, &store);
    add_counts(k, PTX_WARP, PTX_SHARED, &matrix);
    add_counts(k, PTX_COPY, PTX_GENERIC, &matrix);
    count_matrix(k, &all, &products);
#define PAIR(c) (unsigned long long)(c).moved, (unsigned long long)(c).ideal
    fprintf(
        file,
        "%s instructions %llu products %llu read %llu %llu write %llu %llu load %llu %llu store %llu %llu "
        "matrix %llu %llu options %s\n",
        k->name, (unsigned long long)all, (unsigned long long)products, PAIR(read), PAIR(write), PAIR(load),
        PAIR(store), PAIR(matrix), options);
    fclose(file);
}

static void write_listing(const ptx_kernel *k)
{
    const char *path = getenv("CLTRAIN_PTX_LISTING");
    FILE *file = path && path[0] ? fopen(path, "ab") : NULL;
    if (!file)
        return;
    fprintf(file, "%s\n", k->name);
    for (size_t i = 0; i < k->n_code; i++) {
        const ptx_counts *c = &k->code[i].counts;
        fprintf(file, "%10llu %10llu %10llu  %s\n", (unsigned long long)c->executed,
                (unsigned long long)c->moved, (unsigned long long)c->ideal, k->code[i].text);
    }
    fclose(file);
}

static void forget_counts(ptx_kernel *k)
{
    for (size_t i = 0; i < k->n_code; i++)
        k->code[i].counts = (ptx_counts){0, 0, 0};
}

/* --- launches --- */

/* Chooses the work-group size if the caller leaves it to the driver: powers of two, up to 256 items. */
static void choose_group(const size_t *global, uint32_t group[3])
{
    group[0] = 256;
    while (global[0] % group[0] != 0)
        group[0] /= 2;
    group[1] = group[2] = 1;
}

static cl_int shape(const ptx_kernel *k, cl_uint dims, const size_t *global, const size_t *local,
                    ptx_launch *launch)
{
    uint64_t items = 1;
    for (cl_uint d = 0; d < 3; d++) {
        launch->group[d] = local && d < dims ? (uint32_t)local[d] : 1;
        launch->grid[d] = 1;
    }
    if (!local && k->group[0])
        memcpy(launch->group, k->group, sizeof launch->group);
    else if (!local)
        choose_group(global, launch->group);
    for (cl_uint d = 0; d < 3; d++) {
        if (launch->group[d] == 0 || (k->group[0] && launch->group[d] != k->group[d]))
            return CL_INVALID_WORK_GROUP_SIZE;
        if (d < dims && global[d] % launch->group[d] != 0)
            return CL_INVALID_WORK_GROUP_SIZE;
        launch->grid[d] = d < dims ? (uint32_t)(global[d] / launch->group[d]) : 1;
        items *= launch->group[d];
    }
    if (launch->grid[1] > 65535 || launch->grid[2] > 65535)
        return CL_INVALID_GLOBAL_WORK_SIZE;
    return items > 1024 ? CL_INVALID_WORK_GROUP_SIZE : CL_SUCCESS;
}

/* __local parameters come after the kernel's own arrays, each aligned for vectors. */
static uint32_t place_shared(cl_kernel kernel)
{
    uint32_t at = (kernel->code->shared_bytes + 127) / 128 * 128;
    for (size_t i = 0; i < kernel->code->n_params; i++) {
        if (kernel->code->params[i].kind != PTX_SHARED_BUFFER)
            continue;
        uint64_t address = PTX_SHARED_FIRST + at;
        memcpy(kernel->params + kernel->code->params[i].offset, &address, kernel->code->params[i].bytes);
        at += (kernel->shared[i] + 127) / 128 * 128;
    }
    return at - kernel->code->shared_bytes;
}

/* True if the __local parameters and the arrays of a kernel fit into local memory together. */
static bool has_room(cl_kernel kernel)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < kernel->code->n_params; i++)
        bytes += kernel->shared[i];
    return bytes == 0 || bytes + kernel->code->shared_bytes <= ptx_local_argument();
}

static bool run(cl_kernel kernel, ptx_launch *launch)
{
    static uint64_t launches;
    char message[PTX_TEXT] = "";
    launch->kernel = kernel->code;
    launch->params = kernel->params;
    launch->dynamic_shared = place_shared(kernel);
    launch->buffers = ptx_buffers(&launch->n_buffers);
    launch->seed = strtoull(ptx_setting("CLTRAIN_PTX_SEED", "1"), NULL, 0) * 1000003u + launches++;
    launch->count = getenv("CLTRAIN_PTX_COUNTS") || getenv("CLTRAIN_PTX_LISTING");
    launch->poison = (uint32_t)strtoul(ptx_setting("CLTRAIN_PTX_POISON", "0"), NULL, 0);
    bool ok = ptx_run(launch, message);
    if (!ok) {
        fprintf(stderr, "PTX executor: %s\n", message);
        append("CLTRAIN_PTX_REPORT", "%s; options %s\n", message, kernel->program->options);
    } else if (launch->count) {
        write_counts(kernel->code, kernel->program->options);
        write_listing(kernel->code);
    }
    forget_counts(kernel->code);
    return ok;
}

#define ILLEGAL_ACCESS (-9999) /* NVIDIA's */

static cl_int lasting = CL_SUCCESS; /* guarded by ptx_lock */

cl_int ptx_lasting_failure(void)
{
    pthread_mutex_lock(&ptx_lock);
    cl_int code = lasting;
    pthread_mutex_unlock(&ptx_lock);
    return code;
}

static cl_int CL_API_CALL enqueue_kernel(cl_command_queue queue, cl_kernel kernel, cl_uint dims,
                                         const size_t *offset, const size_t *global, const size_t *local,
                                         cl_uint n, const cl_event *before, cl_event *event)
{
    ptx_launch launch = {0};
    cl_ulong start = ptx_now();
    if (kernel->code->error[0]) {
        fprintf(stderr, "PTX executor: %s cannot run: %s\n", kernel->code->name, kernel->code->error);
        append("CLTRAIN_PTX_REPORT", "%s cannot run: %s\n", kernel->code->name, kernel->code->error);
        return CL_INVALID_OPERATION;
    }
    for (size_t i = 0; i < kernel->code->n_params; i++)
        if (!kernel->is_set[i])
            return CL_INVALID_KERNEL_ARGS;
    if (offset && (offset[0] || (dims > 1 && offset[1]) || (dims > 2 && offset[2])))
        return CL_INVALID_GLOBAL_OFFSET; /* the engine never passes one */
    if ((kernel->code->products && ptx_refuses("launch")) || !has_room(kernel))
        return CL_OUT_OF_RESOURCES;
    cl_int code = shape(kernel->code, dims, global, local, &launch);
    if (code == CL_SUCCESS)
        code = ptx_lasting_failure();
    if (code != CL_SUCCESS)
        return code;
    ptx_await(n, before);
    pthread_mutex_lock(&ptx_lock);
    bool ok = run(kernel, &launch);
    if (!ok && ptx_is_card())
        lasting = CL_OUT_OF_RESOURCES;
    pthread_mutex_unlock(&ptx_lock);
    if (!ok && !ptx_is_card())
        return CL_INVALID_OPERATION; /* not a code that means lack of memory to the caller */
    ptx_event(queue, CL_COMMAND_NDRANGE_KERNEL, start, event);
    return CL_SUCCESS;
}

/* --- events --- */

void ptx_event(cl_command_queue queue, cl_command_type type, cl_ulong start, cl_event *out)
{
    if (!out)
        return;
    *out = calloc(1, sizeof **out);
    cl_int status = ptx_lasting_failure() == CL_SUCCESS ? CL_COMPLETE : ILLEGAL_ACCESS;
    if (*out)
        **out = (struct _cl_event){&ptx_dispatch, 1, type, queue, queue->context, status, start, ptx_now()};
}

/* Signals that a user event has ended; guarded by ptx_lock. */
static pthread_cond_t completed = PTHREAD_COND_INITIALIZER;

void ptx_await(cl_uint n, const cl_event *events)
{
    pthread_mutex_lock(&ptx_lock);
    for (cl_uint i = 0; i < n; i++)
        while (events[i]->status > CL_COMPLETE)
            pthread_cond_wait(&completed, &ptx_lock);
    pthread_mutex_unlock(&ptx_lock);
}

static cl_event CL_API_CALL create_user_event(cl_context context, cl_int *code)
{
    cl_event event = calloc(1, sizeof *event);
    if (event)
        *event =
            (struct _cl_event){&ptx_dispatch, 1, CL_COMMAND_USER, NULL, context, CL_SUBMITTED, ptx_now(), 0};
    if (code)
        *code = event ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
    return event;
}

/* The engine never cancels a command that waits for a user event. */
static cl_int CL_API_CALL set_user_event(cl_event event, cl_int status)
{
    if (status != CL_COMPLETE)
        return CL_INVALID_VALUE;
    pthread_mutex_lock(&ptx_lock);
    bool again = event->status == CL_COMPLETE;
    event->status = status;
    pthread_cond_broadcast(&completed);
    pthread_mutex_unlock(&ptx_lock);
    return again ? CL_INVALID_OPERATION : CL_SUCCESS;
}

static cl_int CL_API_CALL retain_event(cl_event event)
{
    pthread_mutex_lock(&ptx_lock);
    event->references++;
    pthread_mutex_unlock(&ptx_lock);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL release_event(cl_event event)
{
    pthread_mutex_lock(&ptx_lock);
    bool last = --event->references == 0;
    pthread_mutex_unlock(&ptx_lock);
    if (last)
        free(event);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL event_info(cl_event event, cl_event_info what, size_t size, void *out,
                                     size_t *needed)
{
    switch (what) {
    case CL_EVENT_COMMAND_EXECUTION_STATUS:
        return ptx_answer(&event->status, sizeof event->status, size, out, needed);
    case CL_EVENT_COMMAND_TYPE:
        return ptx_answer(&event->type, sizeof event->type, size, out, needed);
    case CL_EVENT_COMMAND_QUEUE:
        return ptx_answer(&event->queue, sizeof event->queue, size, out, needed);
    case CL_EVENT_CONTEXT:
        return ptx_answer(&event->context, sizeof event->context, size, out, needed);
    default:
        return CL_INVALID_VALUE;
    }
}

static cl_int CL_API_CALL event_times(cl_event event, cl_profiling_info what, size_t size, void *out,
                                      size_t *needed)
{
    bool end = what == CL_PROFILING_COMMAND_END;
    return ptx_answer(end ? &event->end : &event->start, sizeof event->start, size, out, needed);
}

static cl_int CL_API_CALL set_callback(cl_event event, cl_int type,
                                       void(CL_CALLBACK *notify)(cl_event, cl_int, void *), void *data)
{
    notify(event, event->status < 0 ? event->status : type, data);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL wait_events(cl_uint n, const cl_event *events)
{
    ptx_await(n, events);
    for (cl_uint i = 0; i < n; i++)
        if (events[i]->status < 0)
            return CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL enqueue_marker(cl_command_queue queue, cl_uint n, const cl_event *before,
                                         cl_event *event)
{
    ptx_await(n, before);
    ptx_event(queue, CL_COMMAND_MARKER, ptx_now(), event);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL enqueue_barrier(cl_command_queue queue, cl_uint n, const cl_event *before,
                                          cl_event *event)
{
    ptx_await(n, before);
    ptx_event(queue, CL_COMMAND_BARRIER, ptx_now(), event);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL flush(cl_command_queue queue)
{
    (void)queue;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL finish(cl_command_queue queue)
{
    (void)queue;
    return ptx_lasting_failure();
}

void ptx_command_entries(cl_icd_dispatch *d)
{
    d->clEnqueueNDRangeKernel = enqueue_kernel;
    d->clRetainEvent = retain_event;
    d->clReleaseEvent = release_event;
    d->clGetEventInfo = event_info;
    d->clGetEventProfilingInfo = event_times;
    d->clCreateUserEvent = create_user_event;
    d->clSetUserEventStatus = set_user_event;
    d->clSetEventCallback = set_callback;
    d->clWaitForEvents = wait_events;
    d->clEnqueueMarkerWithWaitList = enqueue_marker;
    d->clEnqueueBarrierWithWaitList = enqueue_barrier;
    d->clFlush = flush;
    d->clFinish = finish;
}
