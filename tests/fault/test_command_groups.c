/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups of commands that share one event: how many events an executor asks for, and that a failing command
 * without its own event is reported with its group. This file defines the OpenCL functions that enqueue
 * kernels and markers: a command with a given number is accepted and fails.
 * ctest-labels: quick */
#include "tests/unit/cl/cl_test.h"

#include "cl/command/faults.h"
#include "cl/command/record.h"
#include "cl/device/internal.h"

#include <dlfcn.h>

#define ITEMS 64
#define KERNELS 40
#define HOST_AT 20 /* a host command is before this kernel */

/* The driver */

static struct {
    int launches, events, markers; /* so far; events: of launches and markers together */
    int fails, refused;            /* number of the launch that fails, or is refused; 0: none */
    bool lasts;                    /* after the failure, every later command fails ... */
    bool refuses;                  /* ... and is refused already when it is enqueued */
    bool failed;
} simulated;

static void *find(const char *name)
{
    void *real = dlsym(RTLD_NEXT, name);
    assert_non_null(real);
    return real;
}

static cl_int failing(cl_command_queue queue, cl_event *event)
{
    cl_context context = NULL;
    if (event == NULL)
        return CL_SUCCESS;
    assert_int_equal(clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof context, &context, NULL), 0);
    *event = clCreateUserEvent(context, NULL);
    return clSetUserEventStatus(*event, CL_OUT_OF_RESOURCES);
}

__attribute__((visibility("default"))) cl_int CL_API_CALL clEnqueueNDRangeKernel(
    cl_command_queue queue, cl_kernel kernel, cl_uint dim, const size_t *offset, const size_t *global,
    const size_t *local, cl_uint n, const cl_event *wait, cl_event *event)
{
    if (simulated.failed && simulated.refuses)
        return CL_INVALID_COMMAND_QUEUE;
    int number = ++simulated.launches;
    if (number == simulated.refused)
        return CL_INVALID_WORK_GROUP_SIZE;
    simulated.events += event != NULL;
    bool fails = number == simulated.fails || (simulated.failed && simulated.lasts);
    simulated.failed = simulated.failed || fails;
    return fails ? failing(queue, event)
                 : ((__typeof__(&clEnqueueNDRangeKernel))(uintptr_t)find("clEnqueueNDRangeKernel"))(
                       queue, kernel, dim, offset, global, local, n, wait, event);
}

__attribute__((visibility("default"))) cl_int CL_API_CALL clEnqueueMarkerWithWaitList(cl_command_queue queue,
                                                                                      cl_uint n,
                                                                                      const cl_event *wait,
                                                                                      cl_event *event)
{
    if (simulated.failed && simulated.refuses)
        return CL_INVALID_COMMAND_QUEUE;
    simulated.markers++;
    simulated.events += event != NULL;
    return simulated.failed && simulated.lasts ? failing(queue, event)
                                               : ((__typeof__(&clEnqueueMarkerWithWaitList))(uintptr_t)find(
                                                     "clEnqueueMarkerWithWaitList"))(queue, n, wait, event);
}

/* The device and the list: kernels c00 to c39, and a host command before c20 */

static struct {
    ocl_device *device;
    ocl_buffer *slab;
    ocl_command_list list;
    ocl_emitter e;
    test_tensors tensors;
    ocl_exec *exec;
    int events_at_host;
} f;

static clt_status on_host(void *context, const ocl_command *command)
{
    (void)context;
    (void)command;
    f.events_at_host = simulated.events;
    return CLT_OK;
}

/* lasting: after a failure, all later commands of the device fail. */
static void open_with(bool lasting)
{
    static char labels[KERNELS][8];
    char folder[64];
    memset(&f, 0, sizeof f);
    test_kernel_folder(folder);
    test_write_source(
        folder, "add.cl",
        "__kernel void add_one(__global float *x, ulong o) { x[o + get_global_id(0)] += 1; }\n"
        "__kernel void add_two(__global float *x, ulong o) { x[o + get_global_id(0)] += 2; }\n");
    f.device = test_open(true);
    f.device->desc.quirks &= ~(uint32_t)OCL_QUIRK_LASTING_FAILURES;
    f.device->desc.quirks |= lasting ? OCL_QUIRK_LASTING_FAILURES : 0;
    assert_ok(ocl_buffer_create(f.device, ITEMS * 4, "slab", &f.slab));
    assert_ok(ocl_fill_zero(f.slab, 0, ITEMS * 4));
    assert_ok(clt_arena_create(&f.list.arena));
    f.tensors.buffer[0] = f.slab;
    f.e = (ocl_emitter){.list = &f.list, .device = ocl_device_describe(f.device), .node = -1};
    for (int i = 0; i < KERNELS; i++) {
        snprintf(labels[i], sizeof labels[i], "c%02d", i);
        f.e.label = labels[i];
        if (i == HOST_AT) {
            ocl_host_begin(&f.e, 1);
            ocl_host_end(&f.e);
        }
        ocl_kernel_begin(&f.e, "add", i % 2 ? "add_two" : "add_one");
        ocl_arg_inout(&f.e, 0, CLT_F32, ITEMS);
        ocl_kernel_end_1d(&f.e, ITEMS, 0, ITEMS);
    }
    assert_ok(ocl_emit_status(&f.e));
    ocl_exec_options options = {.resolve = test_resolve, .resolve_context = &f.tensors, .host = on_host};
    assert_ok(ocl_exec_create(f.device, &f.list, &options, &f.exec));
    assert_ok(ocl_finish(f.device, OCL_QUEUE_COMPUTE));
    memset(&simulated, 0, sizeof simulated);
    simulated.lasts = lasting;
}

static void shut(void)
{
    clt_arena *arena = f.list.arena;
    ocl_exec_destroy(f.exec);
    ocl_emitter_free(&f.e);
    ocl_command_list_free(&f.list);
    clt_arena_destroy(arena);
    ocl_buffer_destroy(f.slab);
    ocl_device_close(f.device);
    unsetenv("CLTRAIN_KERNEL_DIR");
    clt_error_clear();
}

/* Runs the whole list without failure, checks what it computed, and returns the number of events. */
static int events_of_run(void)
{
    float x[ITEMS];
    assert_ok(ocl_fill_zero(f.slab, 0, ITEMS * 4));
    simulated.events = simulated.launches = 0;
    assert_ok(ocl_exec_run(f.exec, NULL));
    assert_int_equal(simulated.launches, KERNELS);
    int events = simulated.events;
    assert_ok(ocl_read(f.slab, 0, x, sizeof x));
    assert_true(x[0] == 60.0f && x[ITEMS - 1] == 60.0f);
    return events;
}

/* Launch number `fails` of the commands [first, last) fails. Returns the message of the check after that. */
static const char *failure(int fails, size_t first, size_t last)
{
    simulated.fails = fails;
    assert_false(ocl_commands_failed(f.device));
    assert_ok(ocl_exec_run_range(f.exec, first, last, NULL));
    assert_int_equal(ocl_finish(f.device, OCL_QUEUE_COMPUTE), CLT_EDEVLOST);
    clt_error_clear();
    assert_true(ocl_commands_failed(f.device));
    assert_int_equal(ocl_commands_check(f.device, ocl_commands_enqueued(f.device)), CLT_EDEVLOST);
    return clt_error_text();
}

TEST(test_each)
{
    open_with(false);
    assert_int_equal(events_of_run(), KERNELS);
    simulated.launches = 0;
    const char *text = failure(5, 0, f.list.count);
    assert_int_equal(simulated.markers, 0);
    assert_contains(text,
                    "' accepted command 'c04', kernel add_one, which then failed: CL_OUT_OF_RESOURCES (-5); "
                    "do not trust results since then");
    shut();
}

/* Groups of 16 end early before the host command and at the end of the range. */
TEST(test_groups)
{
    open_with(true);
    assert_int_equal(events_of_run(), 4); /* 16 and 4, 16 and 4 */
    assert_int_equal(f.events_at_host, 2);
    assert_int_equal(simulated.markers, 0);
    simulated.launches = 0;
    const char *text = failure(23, 0, f.list.count);
    assert_contains(
        text, "' accepted commands 'c20' to 'c35' (16 commands, kernels add_one to add_two), one of which "
              "then failed: CL_OUT_OF_RESOURCES (-5); ");
    assert_contains(text, "CLTRAIN_EVENTS=each");
    shut();
}

/* A group of a single command is named like a command. */
TEST(test_short_range)
{
    open_with(true);
    assert_contains(failure(1, 3, 4), "' accepted command 'c03', kernel add_two, which then failed");
    assert_int_equal(simulated.events, 1);
    shut();
}

TEST(test_switch)
{
    setenv("CLTRAIN_EVENTS", "each", 1);
    open_with(true);
    unsetenv("CLTRAIN_EVENTS");
    assert_int_equal(events_of_run(), KERNELS);
    simulated.launches = 0;
    assert_contains(failure(23, 0, f.list.count),
                    "' accepted command 'c22', kernel add_one, which then failed");
    shut();
}

/* A recorder needs the times of certain commands: a group ends at each of them. */
TEST(test_recorded)
{
    open_with(true);
    assert_ok(ocl_record_start(f.device, 2 * KERNELS));
    ocl_record_set(f.device, OCL_RECORD_ALL, 1);
    assert_int_equal(events_of_run(), KERNELS);
    ocl_record_set(f.device, OCL_RECORD_EDGES, 2);
    assert_int_equal(events_of_run(), 6); /* 1, 16 and 3 on either side of the host command */
    shut();
}

/* The driver refuses every command after the failure: the message names the failed group, not the refused
 * command. */
TEST(test_refused_after_failure)
{
    open_with(true);
    simulated.fails = 23;
    simulated.refuses = true;
    assert_int_equal(ocl_exec_run(f.exec, NULL), CLT_EDEVLOST);
    assert_contains(clt_error_text(),
                    "' accepted commands 'c20' to 'c22' (3 commands, kernels add_one to add_one), "
                    "one of which then failed: CL_INVALID_COMMAND_QUEUE (-36)");
    assert_true(ocl_commands_failed(f.device));
    shut();
}

/* A command is refused for another reason: a marker waits for the commands before it. */
TEST(test_refused)
{
    open_with(true);
    simulated.refused = 23;
    clt_status status = ocl_exec_run(f.exec, NULL);
    assert_true(status != CLT_OK && status != CLT_EDEVLOST);
    assert_contains(clt_error_text(), "'c22'");
    clt_error_clear();
    assert_int_equal(simulated.events, 3);
    assert_int_equal(simulated.markers, 1);
    assert_ok(ocl_finish(f.device, OCL_QUEUE_COMPUTE));
    assert_false(ocl_commands_failed(f.device));
    shut();
}

TEST_PROGRAM(.device = true);
