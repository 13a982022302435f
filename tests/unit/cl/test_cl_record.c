/* SPDX-License-Identifier: Apache-2.0
 *
 * The recorder and the meter: what is recorded at each level, in which order, under which tag; a full ring; a
 * device without time stamps. ctest-labels: quick */
#include "tests/unit/cl/cl_test.h"

#include "cl/command/record.h"
#include "engine/base/thread.h"

#define COUNT 1024
#define MAX_SPANS 64

typedef struct fixture {
    ocl_device *device;
    ocl_buffer *slab;
    ocl_command_list list;
    ocl_emitter e;
    test_tensors tensors;
    ocl_exec *exec;
    float host[COUNT];
    int n;
    ocl_span span[MAX_SPANS];
} fixture;

static clt_status on_host(void *context, const ocl_command *command)
{
    (void)context;
    (void)command;
    return CLT_OK;
}

static void emit_add(fixture *f, const char *label)
{
    f->e.label = label;
    ocl_kernel_begin(&f->e, "add", "add_one");
    ocl_arg_inout(&f->e, 0, CLT_F32, COUNT);
    ocl_kernel_end_1d(&f->e, COUNT, 0, COUNT);
}

/* Three kernels, a host command, two kernels. */
static int begin_with(void **state, bool profiling)
{
    char folder[64];
    fixture *f = calloc(1, sizeof *f);
    test_kernel_folder(folder);
    test_write_source(
        folder, "add.cl",
        "__kernel void add_one(__global float *x, ulong o) { x[o + get_global_id(0)] += 1.0f; }\n");
    f->device = test_open(profiling);
    assert_ok(ocl_buffer_create(f->device, COUNT * 8, "slab", &f->slab));
    assert_ok(ocl_fill_zero(f->slab, 0, COUNT * 8));
    assert_ok(clt_arena_create(&f->list.arena));
    f->tensors.buffer[0] = f->slab;
    f->e = (ocl_emitter){.list = &f->list, .device = ocl_device_describe(f->device), .node = -1};
    emit_add(f, "a");
    emit_add(f, "b");
    emit_add(f, "c");
    ocl_host_begin(&f->e, 1);
    ocl_host_end(&f->e);
    emit_add(f, "d");
    emit_add(f, "e");
    assert_ok(ocl_emit_status(&f->e));
    ocl_exec_options options = {.resolve = test_resolve, .resolve_context = &f->tensors, .host = on_host};
    assert_ok(ocl_exec_create(f->device, &f->list, &options, &f->exec));
    assert_ok(ocl_finish(f->device, OCL_QUEUE_COMPUTE));
    *state = f;
    return 0;
}

static int begin(void **state)
{
    return begin_with(state, true);
}

static int begin_plain(void **state)
{
    return begin_with(state, false);
}

static int end(void **state)
{
    fixture *f = *state;
    clt_arena *arena = f->list.arena;
    ocl_exec_destroy(f->exec);
    ocl_emitter_free(&f->e);
    ocl_command_list_free(&f->list);
    clt_arena_destroy(arena);
    ocl_buffer_destroy(f->slab);
    ocl_device_close(f->device);
    free(f);
    unsetenv("CLTRAIN_KERNEL_DIR");
    return 0;
}

static void keep(void *context, const ocl_span *span)
{
    fixture *f = context;
    assert_true(f->n < MAX_SPANS);
    f->span[f->n++] = *span;
}

static uint64_t take(fixture *f, int64_t tag)
{
    f->n = 0;
    assert_ok(ocl_finish(f->device, OCL_QUEUE_COPY));
    assert_ok(ocl_finish(f->device, OCL_QUEUE_COMPUTE));
    return ocl_record_take(f->device, tag, keep, f);
}

/* A step: upload, copy on the device, the list, a read. */
static void run_step(fixture *f)
{
    ocl_event *up;
    assert_ok(ocl_write_async(OCL_QUEUE_COPY, f->slab, COUNT * 4, f->host, COUNT * 4, NULL, &up));
    assert_ok(ocl_copy_async(OCL_QUEUE_COMPUTE, f->slab, COUNT * 4, f->slab, 0, COUNT * 2, up, NULL));
    ocl_event_release(up);
    assert_ok(ocl_exec_run(f->exec, NULL));
    assert_ok(ocl_read_async(OCL_QUEUE_COMPUTE, f->slab, 0, f->host, COUNT, NULL, NULL));
}

/* The recorded spans in the form "upload copy a( b c) d( e) read". */
static const char *text_of(const fixture *f)
{
    static char text[512];
    text[0] = '\0';
    for (int i = 0; i < f->n; i++) {
        const ocl_span *s = &f->span[i];
        const char *name = s->kind == OCL_SPAN_COMMAND ? s->command->label
                           : s->kind == OCL_SPAN_H2D   ? "upload"
                           : s->kind == OCL_SPAN_COPY  ? "copy"
                                                       : "read";
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%s%s%s", i ? " " : "", name,
                 s->flags & OCL_SPAN_OPENS ? "(" : "", s->flags & OCL_SPAN_CLOSES ? ")" : "");
    }
    return text;
}

static void check_times(const fixture *f, int64_t tag, bool all)
{
    uint64_t last = 0;
    for (int i = 0; i < f->n; i++) {
        const ocl_span *s = &f->span[i];
        assert_int_equal(s->tag, tag);
        assert_true(s->all == all);
        assert_true(s->start_ns > 0 && s->end_ns >= s->start_ns && s->host_at > 0);
        assert_true((s->queued_ns > 0) == all && s->queued_ns <= s->start_ns);
        if (s->queue != OCL_QUEUE_COMPUTE)
            continue;
        assert_true(s->start_ns >= last); /* one after the other */
        last = s->end_ns;
    }
}

TEST_BETWEEN(test_levels, begin, end)
{
    fixture *f = *state;
    assert_ok(ocl_record_start(f->device, MAX_SPANS));
    run_step(f); /* off */
    assert_int_equal(take(f, INT64_MAX), 0);
    assert_int_equal(f->n, 0);
    ocl_record_set(f->device, OCL_RECORD_EDGES, 3);
    run_step(f);
    assert_int_equal(take(f, 3), 0);
    assert_string_equal(text_of(f), "upload copy a( c) d( e) read");
    check_times(f, 3, false);
    assert_int_equal(f->span[0].bytes, COUNT * 4);
    assert_int_equal(f->span[1].bytes, COUNT * 2);
    ocl_record_set(f->device, OCL_RECORD_ALL, 4);
    run_step(f);
    assert_int_equal(take(f, 4), 0);
    assert_string_equal(text_of(f), "upload copy a( b c) d( e) read");
    check_times(f, 4, true);
    /* a range of one command is a stretch of its own */
    ocl_record_set(f->device, OCL_RECORD_EDGES, 5);
    assert_ok(ocl_exec_run_range(f->exec, 1, 2, NULL));
    take(f, 5);
    assert_string_equal(text_of(f), "b()");
}

TEST_BETWEEN(test_tags, begin, end)
{
    fixture *f = *state;
    assert_ok(ocl_record_start(f->device, MAX_SPANS));
    for (int tag = 0; tag < 3; tag++) {
        ocl_record_set(f->device, OCL_RECORD_ALL, tag);
        assert_ok(ocl_exec_run_range(f->exec, 0, (size_t)tag + 1, NULL));
    }
    take(f, 0);
    assert_string_equal(text_of(f), "a()");
    take(f, 0);
    assert_int_equal(f->n, 0);
    take(f, 2);
    assert_string_equal(text_of(f), "a( b) a( b c)");
    assert_int_equal(f->span[2].tag, 2);
}

TEST_BETWEEN(test_full_ring, begin, end)
{
    fixture *f = *state;
    assert_ok(ocl_record_start(f->device, 4));
    ocl_record_set(f->device, OCL_RECORD_ALL, 1);
    for (int i = 0; i < 2; i++) {
        assert_ok(ocl_exec_run_range(f->exec, 0, 3, NULL));
        assert_ok(ocl_exec_run_range(f->exec, 0, 3, NULL));
        assert_int_equal(take(f, 1), 2); /* six commands, four places */
        assert_string_equal(text_of(f), "a( b c) a(");
        assert_int_equal(take(f, 1), 0);
    }
    /* closed with events in the ring */
    assert_ok(ocl_exec_run_range(f->exec, 0, 3, NULL));
}

/* A step that is taken after the next one was enqueued reports the losses of its own tag alone. */
TEST_BETWEEN(test_losses_by_tag, begin, end)
{
    fixture *f = *state;
    assert_ok(ocl_record_start(f->device, 4));
    ocl_record_set(f->device, OCL_RECORD_ALL, 1);
    assert_ok(ocl_exec_run_range(f->exec, 0, 3, NULL));
    ocl_record_set(f->device, OCL_RECORD_ALL, 2);
    assert_ok(ocl_exec_run_range(f->exec, 0, 3, NULL)); /* one place for three commands */
    ocl_record_set(f->device, OCL_RECORD_ALL, 3);
    assert_ok(ocl_exec_run_range(f->exec, 0, 3, NULL)); /* none */
    assert_int_equal(take(f, 1), 0);
    assert_int_equal(f->n, 3);
    assert_int_equal(take(f, 2), 2);
    assert_int_equal(f->n, 1);
    assert_int_equal(take(f, 2), 0);
    ocl_record_set(f->device, OCL_RECORD_ALL, 4);
    assert_ok(ocl_exec_run_range(f->exec, 0, 3, NULL)); /* all three fit again */
    assert_int_equal(take(f, 3), 3);
    assert_int_equal(f->n, 0);
    assert_int_equal(take(f, 4), 0);
    assert_int_equal(f->n, 3);
    /* more tags with losses than the recorder distinguishes: no loss is dropped, and none is charged to an
     * older tag */
    ocl_record_set(f->device, OCL_RECORD_ALL, 5);
    assert_ok(ocl_exec_run_range(f->exec, 0, 3, NULL));
    assert_ok(ocl_exec_run_range(f->exec, 0, 1, NULL));
    for (int tag = 6; tag < 206; tag++) {
        ocl_record_set(f->device, OCL_RECORD_ALL, tag);
        assert_ok(ocl_exec_run_range(f->exec, 0, 1, NULL));
    }
    uint64_t lost = take(f, 100);
    assert_true(lost <= 95);
    assert_int_equal(lost + take(f, 205), 200);
}

TEST_BETWEEN(test_meter, begin, end)
{
    fixture *f = *state;
    run_step(f);
    ocl_meter_reading none = ocl_meter_read(f->device);
    assert_int_equal(none.calls, 0);
    double begin = clt_now();
    ocl_meter(f->device, true);
    run_step(f);
    ocl_meter(f->device, false);
    double took = clt_now() - begin;
    ocl_meter_reading one = ocl_meter_read(f->device);
    run_step(f);
    assert_int_equal(ocl_meter_read(f->device).calls, one.calls);
    assert_true(one.calls >= 8 && one.calls <= 16); /* five kernels, three transfers, flushes */
    assert_true(one.inside > 0 && one.inside <= took);
}

TEST_BETWEEN(test_without_timestamps, begin_plain, end)
{
    fixture *f = *state;
    assert_int_equal(ocl_record_start(f->device, 4), CLT_EUNSUPPORTED);
    assert_contains(clt_error_text(), "without time stamps");
    ocl_record_set(f->device, OCL_RECORD_ALL, 1); /* nothing is recorded */
    run_step(f);
    assert_int_equal(take(f, 1), 0);
    assert_int_equal(f->n, 0);
}

TEST_PROGRAM(.device = true);
