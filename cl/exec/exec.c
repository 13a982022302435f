/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a command list that is ready: it enqueues. Everything that builds, creates or binds is in
 * cl/exec/exec_create.c; nothing here may call a build, create, set-argument or wait function. This file
 * must not know what the commands compute. */
#include "cl/command/faults_internal.h"
#include "cl/command/record_internal.h"
#include "cl/exec/exec_internal.h"
#include "engine/base/thread.h"

/* State of enqueueing one range of commands. */
typedef struct run_state {
    cl_event before; /* the event for which the next device command must wait; NULL: none */
    ocl_group group; /* commands without an event, since the last one with an event */
    ocl_counters tally;
} run_state;

/* A range of commands to enqueue: [first, last), except those whose `derives` has a bit of `without`. */
typedef struct run_range {
    size_t first, last;
    uint32_t without;
} run_range;

static cl_uint waits(const run_state *run)
{
    return run->before != NULL ? 1 : 0;
}

static const cl_event *wait_list(const run_state *run)
{
    return run->before != NULL ? &run->before : NULL;
}

static void drop(cl_event event)
{
    if (event != NULL)
        clReleaseEvent(event);
}

static clt_status run_kernel(ocl_exec *exec, size_t index, run_state *run, cl_event *done)
{
    const ocl_command *c = &exec->list->commands[index];
    const exec_entry *entry = &exec->entries[index];
    cl_int code;
    OCL_METERED(exec->device, code,
                clEnqueueNDRangeKernel(exec->queue, entry->kernel, c->work_dim, NULL, c->global, entry->local,
                                       waits(run), wait_list(run), done));
    OCL_CHECK(code, "enqueueing kernel %s of '%s'", c->kernel, c->label);
    run->tally.kernels_enqueued++;
    return CLT_OK;
}

static clt_status run_copy(ocl_exec *exec, size_t index, run_state *run, cl_event *done)
{
    const exec_entry *entry = &exec->entries[index];
    cl_int code;
    OCL_METERED(exec->device, code,
                clEnqueueCopyBuffer(exec->queue, entry->source, entry->target, entry->source_offset,
                                    entry->target_offset, entry->bytes, waits(run), wait_list(run), done));
    OCL_CHECK(code, "enqueueing a copy of '%s'", exec->list->commands[index].label);
    run->tally.copies++;
    return CLT_OK;
}

static clt_status run_fill(ocl_exec *exec, size_t index, run_state *run, cl_event *done)
{
    const exec_entry *entry = &exec->entries[index];
    cl_int code;
    if (entry->kernel != NULL) /* a fill by a kernel (quirk fill_by_kernel) */
        OCL_METERED(exec->device, code,
                    clEnqueueNDRangeKernel(exec->queue, entry->kernel, 1, NULL, &entry->fill_items,
                                           entry->local, waits(run), wait_list(run), done));
    else
        OCL_METERED(exec->device, code,
                    clEnqueueFillBuffer(exec->queue, entry->target, &entry->pattern, entry->pattern_bytes,
                                        entry->target_offset, entry->bytes, waits(run), wait_list(run),
                                        done));
    OCL_CHECK(code, "enqueueing a fill of '%s'", exec->list->commands[index].label);
    run->tally.fills++;
    return CLT_OK;
}

/* Library calls and host code accept no wait list. A barrier before them makes the in-order queue wait. */
static clt_status wait_before(ocl_exec *exec, run_state *run, size_t index)
{
    if (run->before == NULL)
        return CLT_OK;
    OCL_CHECK(clEnqueueBarrierWithWaitList(exec->queue, 1, &run->before, NULL),
              "enqueueing a barrier before '%s'", exec->list->commands[index].label);
    run->before = NULL;
    return CLT_OK;
}

static clt_status run_gemm(ocl_exec *exec, size_t index, run_state *run, cl_event *start, cl_event *done)
{
    CLT_TRY(wait_before(exec, run, index));
    const exec_entry *entry = &exec->entries[index];
    ocl_event *event = NULL;
    clt_status status;
    /* A library call may run several kernels, and its event belongs to the last one. So a marker before the
     * call gives the start time. */
    if (start != NULL)
        OCL_CHECK(clEnqueueMarkerWithWaitList(exec->queue, 0, NULL, start), "enqueueing a marker");
    OCL_METERED(exec->device, status, entry->library->run(entry->call, done != NULL ? &event : NULL));
    CLT_TRY(status);
    if (done != NULL)
        *done = ocl_event_raw(event);
    run->tally.library_calls++;
    return CLT_OK;
}

static clt_status run_host(ocl_exec *exec, size_t index, run_state *run)
{
    const ocl_command *c = &exec->list->commands[index];
    CLT_TRY(wait_before(exec, run, index));
    return clt_fail_prefix(exec->options.host(exec->options.host_context, c),
                           "host command %d of '%s': ", c->host_code, c->label);
}

/* Adds the event of a group's last command to the list of commands under way and, if `record` is set, to the
 * recorder. Takes ownership of both events. */
static clt_status hand_over(ocl_exec *exec, size_t index, uint32_t edges, run_state *run, bool record,
                            cl_event start, cl_event end)
{
    clt_status status = CLT_OK;
    if (end != NULL)
        status = ocl_faults_add(exec->device, &run->group, end);
    if (record && end != NULL) {
        ocl_span span = {.kind = OCL_SPAN_COMMAND,
                         .queue = OCL_QUEUE_COMPUTE,
                         .flags = edges,
                         .command = &exec->list->commands[index]};
        ocl_record_add(exec->device, &span, start, end);
        return status;
    }
    drop(start);
    drop(end);
    return status;
}

static clt_status run_one(ocl_exec *exec, size_t index, uint32_t edges, run_state *run)
{
    ocl_record_level level = ocl_record_level_of(exec->device);
    bool record = level == OCL_RECORD_ALL || (level == OCL_RECORD_EDGES && edges != 0);
    bool ends = (edges & OCL_SPAN_CLOSES) || run->group.count + 1 >= ocl_faults_group(exec->device);
    const ocl_command *c = &exec->list->commands[index];
    cl_event start = NULL, end = NULL, *done = record || ends ? &end : NULL;
    clt_status status = CLT_OK;
    switch (c->kind) {
    case OCL_CMD_KERNEL:
        status = run_kernel(exec, index, run, done);
        break;
    case OCL_CMD_COPY:
        status = run_copy(exec, index, run, done);
        break;
    case OCL_CMD_FILL:
        status = run_fill(exec, index, run, done);
        break;
    case OCL_CMD_GEMM:
        status = run_gemm(exec, index, run, record ? &start : NULL, done);
        break;
    case OCL_CMD_HOST:
        return run_host(exec, index, run);
    }
    if (status == CLT_OK) {
        run->before = NULL;
        ocl_group_add(&run->group, c->label, c->kind == OCL_CMD_KERNEL ? c->kernel : "");
    }
    clt_status kept = hand_over(exec, index, edges, run, record, start, end);
    return status == CLT_OK ? kept : status;
}

/* The next command of the range in this direction that is not skipped; NULL: there is none. */
static const ocl_command *neighbour(const ocl_exec *exec, const run_range *range, size_t index, int direction)
{
    const ocl_command *commands = exec->list->commands;
    for (size_t i = index; direction < 0 ? i > range->first : i + 1 < range->last;) {
        i = direction < 0 ? i - 1 : i + 1;
        if (!(commands[i].derives & range->without))
            return &commands[i];
    }
    return NULL;
}

/* Returns flags that say whether a command opens or closes a stretch (cl/command/record.h). Stretches end at
 * host commands and at the ends of the range. */
static uint32_t edges_of(const ocl_exec *exec, const run_range *range, size_t index)
{
    const ocl_command *before = neighbour(exec, range, index, -1), *next = neighbour(exec, range, index, 1);
    bool first = before == NULL;
    if (first && range->first > 0)
        before = &exec->list->commands[range->first - 1];
    bool after = before != NULL && before->kind == OCL_CMD_HOST, opens = first || after;
    bool closes = next == NULL || next->kind == OCL_CMD_HOST;
    return (opens ? (uint32_t)OCL_SPAN_OPENS : 0) | (closes ? (uint32_t)OCL_SPAN_CLOSES : 0) |
           (after && before->host_waits ? (uint32_t)OCL_SPAN_AFTER_WAIT : 0);
}

static void add_tally(ocl_device *device, const ocl_counters *tally)
{
    CLT_LOCKED(&device->lock);
    device->counters.kernels_enqueued += tally->kernels_enqueued;
    device->counters.library_calls += tally->library_calls;
    device->counters.copies += tally->copies;
    device->counters.fills += tally->fills;
}

void ocl_exec_watch(ocl_device *device, const ocl_exec_watcher *watcher)
{
    device->watcher = watcher;
}

const size_t *ocl_exec_local(const ocl_exec *exec, size_t command)
{
    return exec->entries[command].local;
}

clt_status ocl_exec_tell(const ocl_exec *exec, const ocl_exec *ready, size_t first, size_t last,
                         uint32_t without)
{
    const ocl_exec_watcher *watcher = exec->device->watcher;
    const ocl_exec_event event = {.list = exec->list,
                                  .first = first,
                                  .last = last,
                                  .without = without,
                                  .exec = ready,
                                  .resolve = exec->options.resolve,
                                  .resolve_context = exec->options.resolve_context};
    return watcher ? watcher->watch(watcher->context, &event) : CLT_OK;
}

clt_status ocl_exec_run_without(ocl_exec *exec, size_t first, size_t last, uint32_t derives, ocl_event *wait)
{
    const run_range range = {first, last, derives};
    run_state run = {.before = ocl_event_raw(wait)};
    clt_status status = CLT_OK;
    if (first > last || last > exec->list->count)
        CLT_FAIL(CLT_EINTERNAL, "running commands %zu to %zu of a list of %zu", first, last,
                 exec->list->count);
    CLT_TRY(ocl_exec_tell(exec, exec, first, last, derives));
    for (size_t i = first; i < last && status == CLT_OK; i++)
        if (!(exec->list->commands[i].derives & derives))
            status = run_one(exec, i, edges_of(exec, &range, i), &run);
    add_tally(exec->device, &run.tally);
    /* the last command of a range has an event, so a group is still open only if a command was refused */
    CLT_TRY(ocl_faults_close(exec->device, exec->queue, &run.group));
    CLT_TRY(status);
    return ocl_flush(exec->device, OCL_QUEUE_COMPUTE); /* PoCL starts no command before a flush */
}

clt_status ocl_exec_run_range(ocl_exec *exec, size_t first, size_t last, ocl_event *wait)
{
    return ocl_exec_run_without(exec, first, last, 0, wait);
}

clt_status ocl_exec_run(ocl_exec *exec, ocl_event *wait)
{
    return ocl_exec_run_range(exec, 0, exec->list->count, wait);
}
