/* SPDX-License-Identifier: Apache-2.0
 *
 * Executors: what was emitted is what runs, errors name the kernel, and running neither builds nor creates
 * nor waits. ctest-labels: quick */
#include "cl/command/command_times.h"
#include "tests/unit/cl/cl_test.h"

#include "cl/gemm/gemm.h"
#include "cl/device/internal.h"

static char folder[64];

#define COUNT 1000

/* A device, a list being emitted, three tensors of COUNT floats at odd places of two slabs. */
typedef struct fixture {
    ocl_device *device;
    ocl_buffer *slab[2];
    test_tensors tensors;
    ocl_command_list list;
    ocl_emitter e;
    ocl_exec_options options;
    int host_calls[8], n_host_calls;
    clt_status host_status;
    int progress_done[8], progress_total[8], n_progress;
} fixture;

static clt_status on_host(void *context, const ocl_command *command)
{
    fixture *f = context;
    f->host_calls[f->n_host_calls++ % 8] = command->host_code;
    if (f->host_status != CLT_OK)
        CLT_FAIL(f->host_status, "the peer is gone");
    return CLT_OK;
}

static void on_progress(void *context, int done, int total, const char *what)
{
    fixture *f = context;
    assert_non_null(what);
    f->progress_done[f->n_progress % 8] = done;
    f->progress_total[f->n_progress++ % 8] = total;
}

static int begin_with(void **state, bool profiling)
{
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->device = test_open(profiling);
    assert_ok(ocl_buffer_create(f->device, 16384, "slab 0", &f->slab[0]));
    assert_ok(ocl_buffer_create(f->device, 16384, "slab 1", &f->slab[1]));
    f->tensors = (test_tensors){.buffer = {f->slab[0], f->slab[1], f->slab[0]}, .offset = {256, 512, 8192}};
    assert_ok(clt_arena_create(&f->list.arena));
    f->e = (ocl_emitter){.list = &f->list, .device = ocl_device_describe(f->device), .label = "test"};
    f->options = (ocl_exec_options){.resolve = test_resolve,
                                    .resolve_context = &f->tensors,
                                    .host = on_host,
                                    .host_context = f,
                                    .progress = on_progress,
                                    .progress_context = f};
    *state = f;
    return 0;
}

static int begin(void **state)
{
    return begin_with(state, false);
}

static int begin_profiling(void **state)
{
    return begin_with(state, true);
}

static int end(void **state)
{
    CLT_FREED fixture *f = *state;
    ocl_emitter_free(&f->e);
    clt_arena *arena = f->list.arena;
    ocl_command_list_free(&f->list);
    clt_arena_destroy(arena);
    ocl_buffer_destroy(f->slab[0]);
    ocl_buffer_destroy(f->slab[1]);
    ocl_device_close(f->device);
    return 0;
}

/* y = a * TIMES * x + y over n elements; x starts `skip` floats into the tensor */
static void emit_axpy(fixture *f, int32_t y, int32_t x, uint32_t skip, uint32_t n, float a, int times)
{
    ocl_kernel_begin(&f->e, "axpy", "axpy");
    ocl_define(&f->e, "TIMES", times);
    ocl_arg_inout(&f->e, y, CLT_F32, n);
    ocl_arg_tensor(&f->e, OCL_READ, (ocl_tensor_ref){x, skip * 4}, CLT_F32, n);
    ocl_arg_u32(&f->e, n);
    ocl_arg_f32(&f->e, a);
    ocl_kernel_end_1d(&f->e, n, 64, 2.0 * n);
}

static ocl_exec *create(fixture *f)
{
    ocl_exec *exec = NULL;
    assert_ok(ocl_emit_status(&f->e));
    assert_ok(ocl_exec_create(f->device, &f->list, &f->options, &exec));
    return exec;
}

static void read_tensor(fixture *f, int tensor, float *out)
{
    assert_ok(ocl_read(f->tensors.buffer[tensor], f->tensors.offset[tensor], out, COUNT * 4));
}

static uint32_t float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return bits;
}

static void clear_slabs(fixture *f)
{
    assert_ok(ocl_fill_zero(f->slab[0], 0, 16384));
    assert_ok(ocl_fill_zero(f->slab[1], 0, 16384));
    assert_ok(ocl_finish(f->device, OCL_QUEUE_COMPUTE)); /* uploads on the other queue come later */
}

static void check_everything(fixture *f)
{
    float x[COUNT], y[COUNT], z[COUNT];
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)i;
    clear_slabs(f);
    assert_ok(ocl_write(f->slab[1], 512, x, sizeof x)); /* tensor 1 */
    ocl_emit_fill(&f->e, (ocl_tensor_ref){0, 40}, 3960,
                  float_bits(1.0f)); /* tensor 0 from its 10th element on */
    emit_axpy(f, 0, 1, 3, COUNT - 3, 2.0f, 3);
    ocl_host_begin(&f->e, 5);
    ocl_arg_tensor(&f->e, OCL_READ, ocl_ref(0), CLT_F32, COUNT);
    ocl_host_end(&f->e);
    ocl_emit_copy(&f->e, (ocl_tensor_ref){2, 8}, (ocl_tensor_ref){0, 4}, 100);
    CLT_SCOPED(ocl_exec) *exec = create(f);
    assert_ok(ocl_exec_run(exec, NULL));
    assert_int_equal(f->n_host_calls, 1);
    assert_int_equal(f->host_calls[0], 5);
    read_tensor(f, 0, y);
    read_tensor(f, 2, z);
    for (int i = 0; i < COUNT; i++) {
        float want = (i < 10 ? 0.0f : 1.0f) + (i < COUNT - 3 ? 6.0f * (float)(i + 3) : 0.0f);
        if (y[i] != want)
            fail_msg("y[%d] is %g and must be %g", i, (double)y[i], (double)want);
        want = i >= 2 && i < 27 ? y[i - 1] : 0.0f;
        if (z[i] != want)
            fail_msg("z[%d] is %g and must be %g", i, (double)z[i], (double)want);
    }
    float around[2];
    assert_ok(
        ocl_read(f->slab[0], 256 - 4, &around[0], 4)); /* nothing before or after tensor 0 was touched */
    assert_ok(ocl_read(f->slab[0], 256 + COUNT * 4, &around[1], 4));
    assert_true(around[0] == 0.0f && around[1] == 0.0f);
}

TEST_BETWEEN(test_everything, begin, end)
{
    check_everything(*state);
}

TEST_BETWEEN(test_everything_fill_by_kernel, begin, end)
{
    fixture *f = *state;
    f->device->desc.quirks |= OCL_QUIRK_FILL_BY_KERNEL;
    check_everything(f);
}

TEST_BETWEEN(test_range, begin, end)
{
    fixture *f = *state;
    float y[COUNT];
    clear_slabs(f);
    for (int i = 1; i <= 3; i++)
        ocl_emit_fill(&f->e, (ocl_tensor_ref){0, (uint64_t)i * 4}, 4, float_bits((float)i));
    CLT_SCOPED(ocl_exec) *exec = create(f);
    assert_ok(ocl_exec_run_range(exec, 1, 2, NULL));
    read_tensor(f, 0, y);
    assert_true(y[1] == 0.0f && y[2] == 2.0f && y[3] == 0.0f);
    assert_ok(ocl_exec_run_range(exec, 2, 2, NULL));
    assert_int_equal(ocl_exec_run_range(exec, 0, 4, NULL), CLT_EINTERNAL);
}

TEST_BETWEEN(test_run_only_enqueues, begin, end)
{
    fixture *f = *state;
    clear_slabs(f);
    emit_axpy(f, 0, 1, 0, COUNT, 1.0f, 1);
    emit_axpy(f, 2, 1, 0, COUNT, 1.0f, 1);
    ocl_emit_copy(&f->e, ocl_ref(1), ocl_ref(0), 64);
    ocl_emit_fill(&f->e, ocl_ref(1), 64, 0);
    CLT_SCOPED(ocl_exec) *exec = create(f);
    assert_ok(ocl_exec_run(exec, NULL));
    ocl_counters before = ocl_device_counters(f->device);
    for (int i = 0; i < 5; i++)
        assert_ok(ocl_exec_run(exec, NULL));
    ocl_counters after = ocl_device_counters(f->device);
    assert_int_equal(after.programs_built, before.programs_built);
    assert_int_equal(after.kernels_created, before.kernels_created);
    assert_int_equal(after.buffers_created, before.buffers_created);
    assert_int_equal(after.host_waits, before.host_waits);
    assert_int_equal(after.kernels_enqueued, before.kernels_enqueued + 10);
    assert_int_equal(after.copies, before.copies + 5);
    assert_int_equal(after.fills, before.fills + 5);
    assert_ok(ocl_finish(f->device, OCL_QUEUE_COMPUTE));
    assert_int_equal(ocl_device_counters(f->device).host_waits, before.host_waits + 1);
}

TEST_BETWEEN(test_progress, begin, end)
{
    fixture *f = *state;
    emit_axpy(f, 0, 1, 0, COUNT, 1.0f, 21);
    emit_axpy(f, 0, 1, 0, COUNT, 2.0f, 22);
    emit_axpy(f, 0, 1, 0, COUNT, 3.0f, 21); /* the first program again */
    emit_axpy(f, 0, 1, 0, COUNT, 4.0f, 23);
    ocl_exec *exec = create(f);
    assert_int_equal(f->n_progress, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(f->progress_done[i], i);
        assert_int_equal(f->progress_total[i], 3);
    }
    assert_int_equal(ocl_device_counters(f->device).programs_built, 3);
    assert_int_equal(ocl_device_counters(f->device).kernels_created, 4);
    ocl_exec_destroy(exec);
    exec = create(f);
    assert_int_equal(f->n_progress, 3); /* all from the cache */
    ocl_exec_destroy(exec);
}

TEST_BETWEEN(test_wait_for_upload, begin, end)
{
    fixture *f = *state;
    float x[COUNT], y[COUNT];
    clear_slabs(f);
    emit_axpy(f, 0, 1, 0, COUNT, 1.0f, 1);
    CLT_SCOPED(ocl_exec) *exec = create(f);
    double expected = 0.0;
    for (int round = 1; round <= 20; round++) {
        ocl_event *uploaded, *used;
        for (int i = 0; i < COUNT; i++)
            x[i] = (float)(round * i);
        assert_ok(ocl_write_async(OCL_QUEUE_COPY, f->slab[1], 512, x, sizeof x, NULL, &uploaded));
        assert_ok(ocl_exec_run(exec, uploaded));
        ocl_event_release(uploaded);
        assert_ok(ocl_marker(f->device, OCL_QUEUE_COMPUTE, &used));
        assert_ok(ocl_event_wait(used)); /* x is reused */
        ocl_event_release(used);
        expected += round;
    }
    read_tensor(f, 0, y);
    for (int i = 0; i < COUNT; i++)
        assert_true((double)y[i] == expected * i);
}

TEST_BETWEEN(test_host_first_waits, begin, end)
{
    fixture *f = *state;
    float x[COUNT], y[COUNT];
    ocl_event *uploaded;
    clear_slabs(f);
    ocl_host_begin(&f->e, 1);
    ocl_host_end(&f->e);
    emit_axpy(f, 0, 1, 0, COUNT, 1.0f, 1);
    CLT_SCOPED(ocl_exec) *exec = create(f);
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)i + 0.5f;
    assert_ok(ocl_write_async(OCL_QUEUE_COPY, f->slab[1], 512, x, sizeof x, NULL, &uploaded));
    assert_ok(ocl_exec_run(exec, uploaded));
    ocl_event_release(uploaded);
    read_tensor(f, 0, y);
    assert_memory_equal(x, y, sizeof x);
    f->host_status = CLT_ECOMM;
    assert_int_equal(ocl_exec_run(exec, NULL), CLT_ECOMM);
    assert_contains(clt_error_text(), "the peer is gone");
    assert_contains(clt_error_text(), "test");
}

TEST_BETWEEN(test_profile, begin_profiling, end)
{
    fixture *f = *state;
    ocl_command_times *times;
    clear_slabs(f);
    emit_axpy(f, 0, 1, 0, COUNT, 1.0f, 1);
    ocl_emit_copy(&f->e, ocl_ref(2), ocl_ref(0), COUNT * 4);
    CLT_SCOPED(ocl_exec) *exec = create(f);
    assert_ok(ocl_exec_run(exec, NULL)); /* not timed */
    assert_ok(ocl_command_times_start(f->device, &f->list, 3, &times));
    for (int round = 1; round <= 2; round++) {
        for (int i = 0; i < 3; i++)
            assert_ok(ocl_exec_run(exec, NULL));
        assert_ok(ocl_command_times_collect(times));
        for (int i = 0; i < 2; i++) {
            assert_int_equal(times->at[i].calls, 3 * round);
            assert_true(times->at[i].total_ns > 0);
            assert_true(times->at[i].last_end_ns > times->at[i].last_start_ns);
        }
        assert_true(times->at[1].last_start_ns >= times->at[0].last_start_ns);
    }
    for (int i = 0; i < 4; i++) /* one more than there is room for */
        assert_ok(ocl_exec_run(exec, NULL));
    assert_int_equal(ocl_command_times_collect(times), CLT_EDEVICE);
    assert_contains(clt_error_text(), "more commands than expected");
    assert_ok(ocl_exec_run(exec, NULL)); /* stopped with events kept */
    ocl_command_times_stop(times);
    assert_ok(ocl_exec_run(exec, NULL));
}

/* C (2,2) = A (2,3) B (3,2), each somewhere inside its tensor; the first command of the run waits for A's
 * upload. */
TEST_BETWEEN(test_library_gemm, begin_profiling, end)
{
    fixture *f = *state;
    const float a[6] = {1, 2, 3, 4, 5, 6}, b[6] = {1, 2, 3, 4, 5, 6}, want[4] = {22, 28, 49, 64};
    float c[4];
    ocl_command_times *times;
    ocl_event *uploaded;
    ocl_exec *exec;
    clear_slabs(f);
    ocl_gemm gemm = ocl_gemm_make(2, 2, 3, false, false);
    gemm.a = (ocl_tensor_ref){1, 40};
    gemm.b = (ocl_tensor_ref){0, 20};
    gemm.c = (ocl_tensor_ref){2, 12};
    ocl_emit_library_gemm(&f->e, &gemm, ocl_gemm_library());
    assert_ok(ocl_emit_status(&f->e));
    clt_status status = ocl_exec_create(f->device, &f->list, &f->options, &exec);
    if (status == CLT_EUNSUPPORTED) { /* built without the library: an error, the command is not skipped */
        assert_contains(clt_error_text(), "this build has none");
        return;
    }
    assert_ok(status);
    assert_ok(ocl_write(f->slab[0], 256 + 20, b, sizeof b));
    assert_ok(ocl_write_async(OCL_QUEUE_COPY, f->slab[1], 512 + 40, a, sizeof a, NULL, &uploaded));
    assert_ok(ocl_command_times_start(f->device, &f->list, 1, &times));
    assert_ok(ocl_exec_run(exec, uploaded));
    ocl_event_release(uploaded);
    assert_ok(ocl_read(f->slab[0], 8192 + 12, c, sizeof c));
    assert_memory_equal(c, want, sizeof want);
    assert_ok(ocl_command_times_collect(times));
    assert_int_equal(times->at[0].calls, 1);
    assert_true(times->at[0].total_ns > 0);
    ocl_command_times_stop(times);
    assert_int_equal(ocl_device_counters(f->device).library_calls, 1);
    assert_int_equal(ocl_device_counters(f->device).kernels_enqueued, 0);
    ocl_exec_destroy(exec);

    /* A call that is too far out for the library gets its kernel when the executor is made; a run creates
     * nothing. */
#ifdef CLT_HAVE_CLBLAST
    ocl_clblast_set_index_limit(1);
    uint64_t before = ocl_device_counters(f->device).kernels_created;
    assert_ok(ocl_exec_create(f->device, &f->list, &f->options, &exec));
    ocl_clblast_set_index_limit(INT32_MAX);
    assert_int_equal(ocl_device_counters(f->device).kernels_created, before + 1);
    for (int run = 0; run < 2; run++) {
        assert_ok(ocl_fill_zero(f->slab[0], 8192 + 12, sizeof c));
        assert_ok(ocl_exec_run(exec, NULL));
        assert_ok(ocl_read(f->slab[0], 8192 + 12, c, sizeof c));
        assert_memory_equal(c, want, sizeof want);
    }
    assert_int_equal(ocl_device_counters(f->device).kernels_created, before + 1);
    ocl_exec_destroy(exec);
#endif
}

TEST_BETWEEN(test_times_without_profiling, begin, end)
{
    fixture *f = *state;
    ocl_command_times *times;
    assert_int_equal(ocl_command_times_start(f->device, &f->list, 1, &times), CLT_EUNSUPPORTED);
    assert_contains(clt_error_text(), "without time stamps");
}

static void expect_failure(fixture *f, clt_status expected, const char *part, const char *other)
{
    ocl_exec *exec = (ocl_exec *)1;
    assert_ok(ocl_emit_status(&f->e));
    assert_int_equal(ocl_exec_create(f->device, &f->list, &f->options, &exec), expected);
    assert_null(exec);
    assert_contains(clt_error_text(), part);
    assert_contains(clt_error_text(), other);
    f->list.count = 0;
}

TEST_BETWEEN(test_create_errors, begin, end)
{
    fixture *f = *state;
    uint64_t too_many = f->device->desc.max_work_group * 2;
    ocl_kernel_begin(&f->e, "axpy", "noop");
    ocl_arg_inout(&f->e, 0, CLT_F32, COUNT);
    ocl_kernel_end_1d(&f->e, too_many, too_many, 0);
    expect_failure(f, CLT_EUNSUPPORTED, "noop", f->device->desc.name);
    f->device->desc.max_work_item[0] = UINT64_MAX; /* the kernel's own limit is checked too */
    ocl_kernel_begin(&f->e, "axpy", "noop");
    ocl_arg_inout(&f->e, 0, CLT_F32, COUNT);
    ocl_kernel_end_1d(&f->e, too_many, too_many, 0);
    expect_failure(f, CLT_EUNSUPPORTED, "noop", "at most");
    ocl_kernel_begin(&f->e, "axpy", "noop");
    ocl_arg_inout(&f->e, 0, CLT_F32, COUNT);
    ocl_kernel_end_1d(&f->e, 8, 2, 0);
    f->list.commands[0].global[0] = 7; /* the emitter itself rounds sizes up to whole groups */
    expect_failure(f, CLT_EINTERNAL, "noop", "7 work-items, which is not a multiple");
    ocl_kernel_begin(&f->e, "axpy", "axpy");
    ocl_arg_inout(&f->e, 0, CLT_F32, COUNT);
    ocl_kernel_end_1d(&f->e, COUNT, 0, 0);
    expect_failure(f, CLT_EINTERNAL, "axpy", "it has 6 parameters and 2 were emitted");
    ocl_kernel_begin(&f->e, "axpy", "no_such_kernel");
    ocl_kernel_end_1d(&f->e, 1, 0, 0);
    expect_failure(f, CLT_EUNSUPPORTED, "no_such_kernel", "axpy.cl");
    emit_axpy(f, 0, 1, 0, 100000, 1.0f, 1);
    expect_failure(f, CLT_EINTERNAL, "lies outside", "slab 0");
    ocl_emit_copy(&f->e, (ocl_tensor_ref){0, 4}, ocl_ref(0), 8);
    expect_failure(f, CLT_EINTERNAL, "overlap", "slab 0");
    f->options.host = NULL;
    ocl_host_begin(&f->e, 3);
    ocl_host_end(&f->e);
    expect_failure(f, CLT_EINTERNAL, "host command 3", "no host function");
    ocl_kernel_begin(&f->e, "axpy", "noop");
    ocl_define(&f->e, "BREAK", 1);
    ocl_arg_inout(&f->e, 0, CLT_F32, COUNT);
    ocl_kernel_end_1d(&f->e, 1, 0, 0);
    expect_failure(f, CLT_EBUILD, "-DBREAK=1", "preparing 'test'");
}

/* Groups that may have any size become smaller instead of being refused. */
TEST_BETWEEN(test_free_groups, begin, end)
{
    fixture *f = *state;
    float x[COUNT], y[COUNT];
    uint64_t too_many = 64;
    while (too_many <= f->device->desc.max_work_group)
        too_many *= 2;
    clear_slabs(f);
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)i;
    assert_ok(ocl_write(f->tensors.buffer[1], f->tensors.offset[1], x, sizeof x));
    ocl_kernel_begin(&f->e, "axpy", "axpy");
    ocl_define(&f->e, "TIMES", 1);
    ocl_arg_inout(&f->e, 0, CLT_F32, COUNT);
    ocl_arg_in(&f->e, 1, CLT_F32, COUNT);
    ocl_arg_u32(&f->e, COUNT);
    ocl_arg_f32(&f->e, 2.0f);
    ocl_kernel_end_items(&f->e, COUNT, too_many, 0);
    assert_int_equal(f->list.commands[0].local[0], too_many);
    CLT_SCOPED(ocl_exec) *exec = create(f);
    assert_ok(ocl_exec_run(exec, NULL));
    read_tensor(f, 0, y);
    for (int i = 0; i < COUNT; i++)
        assert_true(y[i] == 2.0f * (float)i);
}

TEST_BETWEEN(test_no_tensor_and_local, begin, end)
{
    fixture *f = *state;
    float y[COUNT];
    clear_slabs(f);
    ocl_kernel_begin(&f->e, "axpy", "optional");
    ocl_arg_out(&f->e, 0, CLT_F32, 64);
    ocl_arg_in(&f->e, OCL_NO_TENSOR_ID, CLT_F32, 0);
    ocl_arg_local(&f->e, 64 * 4);
    ocl_arg_i32(&f->e, -2);
    ocl_arg_u64(&f->e, UINT64_C(1) << 33);
    ocl_kernel_end_1d(&f->e, 64, 64, 0);
    CLT_SCOPED(ocl_exec) *exec = create(f);
    assert_ok(ocl_exec_run(exec, NULL));
    read_tensor(f, 0, y);
    for (int i = 0; i < 64; i++)
        assert_true(y[i] == (float)(63 - i) - 2.0f + 8.0f);
}

/* Creates the executor as on a device with `room` bytes of local memory for arrays, `with_arguments` bytes
 * for arguments, and a driver that reports `factor` times what arrays take. */
static clt_status try_arrays(fixture *f, uint64_t room, uint64_t with_arguments, uint64_t factor)
{
    CLT_SCOPED(ocl_exec) *exec = NULL;
    ocl_device_desc *desc = &f->device->desc, kept = *desc;
    desc->local_bytes = desc->local_proven_bytes = room;
    desc->local_argument_bytes = with_arguments;
    desc->local_retargeted_bytes = 1 << 20; /* does not count: these programs are not retargeted */
    desc->local_report_factor = factor;
    clt_status status = ocl_exec_create(f->device, &f->list, &f->options, &exec);
    *desc = kept;
    return status;
}

/* 4096 bytes of an array and 256 of an argument: the factor applies to the array alone.
 */
TEST_BETWEEN(test_local_limit, begin, end)
{
    fixture *f = *state;
    ocl_kernel_begin(&f->e, "axpy", "arrays");
    ocl_arg_out(&f->e, 0, CLT_F32, 64);
    ocl_arg_local(&f->e, 64 * 4);
    ocl_kernel_end_1d(&f->e, 64, 64, 0);
    assert_ok(try_arrays(f, 4352, 0, 0));
    assert_ok(try_arrays(f, 4352, 0, 1));
    assert_int_equal(try_arrays(f, 4351, 0, 1), CLT_EUNSUPPORTED);
    assert_contains(clt_error_text(), "it needs 4352 bytes of local memory");
    assert_ok(try_arrays(f, 2048, 4352, 1));
    assert_int_equal(try_arrays(f, 2048, 4351, 1), CLT_EUNSUPPORTED);
    assert_contains(clt_error_text(), "has 4351");
    assert_ok(try_arrays(f, 2304, 0, 2));
    assert_int_equal(try_arrays(f, 2303, 0, 2), CLT_EUNSUPPORTED);
    assert_contains(clt_error_text(), "it needs 2304 bytes of local memory");
}

static const char axpy_source[] =
    "#include \"common.clh\"\n"
    "#ifndef TIMES\n#define TIMES 1\n#endif\n"
    "#ifdef BREAK\n#error broken on purpose\n#endif\n"
    "__kernel void axpy(__global float *y, ulong yo, __global const float *x, ulong xo, uint n, float a)\n"
    "{ size_t i = get_global_id(0); if (i < n) y[yo + i] = fma(a * TIMES, x[xo + i], y[yo + i]); }\n"
    "__kernel void noop(__global float *y, ulong yo) { if (get_global_id(0) == 0) y[yo] = 1.0f; }\n"
    "__kernel void arrays(__global float *y, ulong yo, __local float *s)\n"
    "{ __local float own[1024]; uint l = get_local_id(0);\n"
    "  for (uint i = l; i < 1024; i += 64) own[i] = (float)i;\n"
    "  s[l] = (float)l; barrier(CLK_LOCAL_MEM_FENCE); y[yo + l] = s[63 - l] + own[16 * l]; }\n"
    "__kernel void optional(__global float *y, ulong yo, __global const float *x, ulong xo, __local float "
    "*s, int a, ulong b)\n"
    "{ uint l = get_local_id(0); s[l] = (float)l; barrier(CLK_LOCAL_MEM_FENCE);\n"
    "  y[yo + l] = s[get_local_size(0) - 1 - l] + (float)a + (float)(b >> 30); }\n";

FIXTURE(setup)
{
    test_kernel_folder(folder);
    setenv("CLTRAIN_CACHE_DIR", folder, 1);
    test_write_source(folder, "axpy.cl", axpy_source);
    return 0;
}

FIXTURE(teardown)
{
    return clt_remove_tree(folder) == CLT_OK ? 0 : 1;
}

TEST_PROGRAM(.device = true, .set_up = setup, .tear_down = teardown);
