/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices, memory, transfers, events and program builds on the machine's default device. ctest-labels: quick
 */
#include "tests/unit/cl/cl_test.h"

#include <pthread.h>

#include "cl/device/internal.h"
#include "cl/kernels/program_source.h"
#include "cl/program/program_internal.h"

static char folder[64];

TEST(test_list_and_open)
{
    CLT_FREED ocl_device_desc *list = NULL;
    int count;
    assert_ok(ocl_list_devices(&list, &count));
    assert_true(count > 0);
    for (int i = 0; i < count; i++) {
        assert_true(list[i].name[0] != '\0');
        assert_true(list[i].usable_bytes > 0 && list[i].usable_bytes <= list[i].global_bytes);
        assert_true(list[i].align_bytes >= 64);
        assert_int_equal(list[i].caps, 0);
    }
    ocl_open_options options = {.spec = list[0].spec, .caps_mask = OCL_CAPS_ALL};
    ocl_device *device;
    assert_ok(ocl_device_open(&options, &device));
    const ocl_device_desc *desc = ocl_device_describe(device);
    assert_string_equal(desc->spec, list[0].spec);
    assert_string_equal(desc->name, list[0].name);
    assert_true(desc->caps & OCL_CAP_LOCAL);
    if (strstr(desc->platform, "NVIDIA") == NULL)
        assert_false(desc->caps & (OCL_CAP_PTX | OCL_CAP_MMA_F16 | OCL_CAP_MMA_BF16));
    if (strstr(desc->platform, "Portable Computing Language") != NULL && desc->is_cpu)
        assert_true(desc->caps & OCL_CAP_WIDE_VECTORS);
    if (strstr(desc->platform, "NVIDIA") != NULL)
        assert_false(desc->caps & OCL_CAP_WIDE_VECTORS);
    ocl_device_close(device);
    options.caps_mask = OCL_CAP_FP64;
    assert_ok(ocl_device_open(&options, &device));
    assert_int_equal(ocl_device_describe(device)->caps & ~(uint32_t)OCL_CAP_FP64, 0);
    ocl_device_close(device);
}

/* Which queues record times: all if requested, otherwise those of CPU devices. */
TEST(test_time_stamps)
{
    ocl_open_options options = {.caps_mask = OCL_CAPS_ALL};
    ocl_device *device;
    assert_ok(ocl_device_open(&options, &device));
    assert_false(device->profiling);
    ocl_device_close(device);
    options.profiling_on_cpu = true;
    assert_ok(ocl_device_open(&options, &device));
    assert_int_equal(device->profiling, device->desc.is_cpu);
    ocl_device_close(device);
    options = (ocl_open_options){.caps_mask = OCL_CAPS_ALL, .profiling = true};
    assert_ok(ocl_device_open(&options, &device));
    assert_true(device->profiling);
    ocl_device_close(device);
}

TEST(test_open_errors)
{
    ocl_open_options options = {.spec = "no such device", .caps_mask = OCL_CAPS_ALL};
    ocl_device *device = (ocl_device *)1;
    assert_int_equal(ocl_device_open(&options, &device), CLT_EDEVICE);
    assert_null(device);
    assert_contains(clt_error_text(), "no such device");
    assert_contains(clt_error_text(), "0:0");
    ocl_device_close(NULL);
    ocl_buffer_destroy(NULL);
    ocl_pinned_destroy(NULL);
    ocl_event_release(NULL);
}

TEST(test_accounting)
{
    CLT_SCOPED(ocl_device) *device = test_open(false);
    ocl_buffer *a, *b, *empty;
    assert_ok(ocl_buffer_create(device, 1000, "first", &a));
    assert_ok(ocl_buffer_create(device, 3000, "second", &b));
    assert_ok(ocl_buffer_create(device, 0, "empty", &empty));
    assert_int_equal(ocl_device_bytes(device), 4000);
    ocl_buffer_destroy(a);
    assert_int_equal(ocl_device_bytes(device), 3000);
    assert_int_equal(ocl_device_peak_bytes(device), 4000);
    assert_int_equal(ocl_buffer_bytes(b), 3000);
    char byte = 0;
    assert_int_equal(ocl_read(b, 3000, &byte, 1), CLT_EINTERNAL);
    assert_contains(clt_error_text(), "second");
    assert_int_equal(ocl_write(b, UINT64_MAX, &byte, 2), CLT_EINTERNAL);
    assert_ok(ocl_write(empty, 0, &byte, 0));
    assert_int_equal(ocl_device_counters(device).buffers_created, 3);
    ocl_buffer_destroy(b);
    ocl_buffer_destroy(empty);
    assert_int_equal(ocl_device_bytes(device), 0);
}

TEST(test_memory_check)
{
    CLT_SCOPED(ocl_device) *device = test_open(false);
    ocl_buffer *a, *b = (ocl_buffer *)1;
    uint64_t too_much = device->desc.usable_bytes + 1;
    assert_int_equal(ocl_buffer_create(device, too_much, "huge slab", &b), CLT_EDEVMEM);
    assert_null(b);
    assert_contains(clt_error_text(), "huge slab");
    device->desc.usable_bytes = 1 << 20;
    assert_ok(ocl_buffer_create(device, 900 << 10, "activations slab 0", &a));
    assert_int_equal(ocl_buffer_create(device, 200 << 10, "gradients", &b), CLT_EDEVMEM);
    assert_contains(clt_error_text(), "gradients");
    assert_contains(clt_error_text(), "activations slab 0");
    assert_contains(clt_error_text(), "reduce");
    assert_ok(ocl_buffer_create(device, 100 << 10, "gradients", &b));
    assert_int_equal(ocl_device_bytes(device), 1000 << 10);
    device->desc.usable_bytes = UINT64_MAX;
    device->desc.quirks = 0;
    ocl_buffer *c;
    assert_int_equal(ocl_buffer_create(device, device->desc.max_alloc_bytes + 1, "one piece", &c),
                     CLT_EDEVMEM);
    assert_contains(clt_error_text(), "one piece");
    assert_contains(clt_error_text(), "largest single buffer");
    ocl_buffer_destroy(a);
    ocl_buffer_destroy(b);
}

static void check_fills(ocl_device *device)
{
    unsigned char host[64], back[64];
    CLT_SCOPED(ocl_buffer) *buffer = NULL;
    assert_ok(ocl_buffer_create(device, sizeof host, "fill target", &buffer));
    memset(host, 0xab, sizeof host);
    assert_ok(ocl_write(buffer, 0, host, sizeof host));
    assert_ok(ocl_fill_zero(buffer, 8, 12));
    memset(host + 8, 0, 12);
    assert_ok(ocl_fill_zero(buffer, 31, 3)); /* not whole words */
    memset(host + 31, 0, 3);
    assert_ok(ocl_fill_zero(buffer, 64, 0));
    assert_int_equal(ocl_fill_zero(buffer, 64, 1), CLT_EINTERNAL);
    assert_ok(ocl_read(buffer, 0, back, sizeof back));
    assert_memory_equal(host, back, sizeof host);
}

TEST(test_fill)
{
    CLT_SCOPED(ocl_device) *device = test_open(false);
    device->desc.quirks &= ~(uint32_t)OCL_QUIRK_FILL_BY_KERNEL;
    check_fills(device);
    device->desc.quirks |= OCL_QUIRK_FILL_BY_KERNEL;
    check_fills(device);
    assert_int_equal(ocl_device_counters(device).programs_built, 1); /* only the second check ran kernels */
}

typedef struct signal {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int calls;
    bool ok;
} signal_state;

static void on_event(void *context, bool ok)
{
    signal_state *s = context;
    pthread_mutex_lock(&s->lock);
    s->calls++;
    s->ok = ok;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

TEST(test_async_and_events)
{
    enum { COUNT = 1 << 18 };
    CLT_SCOPED(ocl_device) *device = test_open(false);
    ocl_buffer *a, *b;
    ocl_pinned *in, *out;
    ocl_event *written, *copied, *read;
    signal_state s = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    assert_ok(ocl_buffer_create(device, COUNT * 4, "a", &a));
    assert_ok(ocl_buffer_create(device, COUNT * 4, "b", &b));
    assert_ok(ocl_pinned_create(device, COUNT * 4, "staging in", &in));
    assert_ok(ocl_pinned_create(device, COUNT * 4, "staging out", &out));
    uint32_t *src = ocl_pinned_data(in), *dst = ocl_pinned_data(out);
    for (uint32_t i = 0; i < COUNT; i++)
        src[i] = i * 2654435761u;
    memset(dst, 0, COUNT * 4);
    /* upload on one queue, copy on the other, download on the first: only events order them */
    assert_ok(ocl_write_async(OCL_QUEUE_COPY, a, 0, src, COUNT * 4, NULL, &written));
    assert_ok(ocl_copy_async(OCL_QUEUE_COMPUTE, a, 0, b, 0, COUNT * 4, written, &copied));
    assert_ok(ocl_read_async(OCL_QUEUE_COPY, b, 0, dst, COUNT * 4, copied, &read));
    assert_ok(ocl_event_callback(read, on_event, &s));
    pthread_mutex_lock(&s.lock);
    while (s.calls == 0)
        pthread_cond_wait(&s.changed, &s.lock);
    assert_int_equal(s.calls, 1);
    assert_true(s.ok);
    pthread_mutex_unlock(&s.lock);
    assert_memory_equal(src, dst, COUNT * 4);
    bool ended = false;
    assert_ok(ocl_event_poll(copied, &ended));
    assert_true(ended);
    assert_int_equal(ocl_device_counters(device).host_waits, 0); /* nothing blocked so far */
    assert_ok(ocl_event_wait(read));
    assert_int_equal(ocl_device_counters(device).host_waits, 1);
    assert_ok(ocl_event_callback(NULL, on_event, &s));
    assert_int_equal(s.calls, 2);
    ocl_event_release(written);
    ocl_event_release(copied);
    ocl_event_release(read);
    ocl_pinned_destroy(in);
    ocl_pinned_destroy(out);
    ocl_buffer_destroy(a);
    ocl_buffer_destroy(b);
}

/* What a loader does while the main thread works: buffers come and go, uploads on the copy queue. */
typedef struct loader {
    ocl_device *device;
    ocl_buffer *target;
    int failures;
} loader;

static void *load(void *context)
{
    loader *l = context;
    for (uint32_t i = 0; i < 200; i++) {
        CLT_SCOPED(ocl_buffer) *extra = NULL;
        ocl_event *done = NULL;
        l->failures += ocl_buffer_create(l->device, 100 + i, "loader", &extra) != CLT_OK;
        l->failures += ocl_write_async(OCL_QUEUE_COPY, l->target, 4 * i, &i, 4, NULL, &done) != CLT_OK;
        l->failures += ocl_event_wait(done) != CLT_OK;
        ocl_event_release(done);
    }
    return NULL;
}

TEST(test_loader_thread)
{
    CLT_SCOPED(ocl_device) *device = test_open(false);
    ocl_buffer *target, *own;
    uint32_t got[200];
    pthread_t thread;
    assert_ok(ocl_buffer_create(device, sizeof got, "target", &target));
    loader l = {.device = device, .target = target};
    assert_int_equal(pthread_create(&thread, NULL, load, &l), 0);
    for (int i = 0; i < 200; i++) {
        assert_ok(ocl_buffer_create(device, 50, "main", &own));
        assert_ok(ocl_fill_zero(own, 0, 50));
        ocl_buffer_destroy(own);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(l.failures, 0);
    assert_ok(ocl_finish(device, OCL_QUEUE_COMPUTE));
    assert_ok(ocl_read(target, 0, got, sizeof got));
    for (uint32_t i = 0; i < 200; i++)
        assert_int_equal(got[i], i);
    assert_int_equal(ocl_device_bytes(device), sizeof got);
    assert_int_equal(ocl_device_counters(device).buffers_created, 401);
    assert_int_equal(ocl_device_counters(device).host_waits, 202);
    ocl_buffer_destroy(target);
}

TEST(test_marker_and_empty)
{
    CLT_SCOPED(ocl_device) *device = test_open(false);
    CLT_SCOPED(ocl_buffer) *a = NULL;
    ocl_event *marker, *empty;
    char byte;
    assert_ok(ocl_buffer_create(device, 16, "a", &a));
    assert_ok(ocl_fill_zero(a, 0, 16));
    assert_ok(ocl_marker(device, OCL_QUEUE_COMPUTE, &marker));
    assert_ok(ocl_read_async(OCL_QUEUE_COPY, a, 0, &byte, 0, marker, &empty));
    assert_ok(ocl_event_wait(empty));
    bool ended = false;
    assert_ok(ocl_event_poll(marker, &ended));
    assert_true(ended);
    assert_int_equal(ocl_read_async(OCL_QUEUE_COPY, a, 0, &byte, 17, marker, &empty), CLT_EINTERNAL);
    ocl_event_release(marker);
    ocl_event_release(empty);
}

/* Programs */

TEST(test_program_cache)
{
    CLT_SCOPED(ocl_device) *device = test_open(false);
    ocl_program *one, *again, *other;
    assert_ok(ocl_program_get(device, "good", "-DFACTOR=2", &one));
    assert_ok(ocl_program_get(device, "good", "-DFACTOR=2", &again));
    assert_ptr_equal(one, again);
    assert_ok(ocl_program_get(device, "good", "-DFACTOR=3", &other));
    assert_ptr_not_equal(one, other);
    assert_int_equal(ocl_device_counters(device).programs_built, 2);
    assert_true(ocl_device_counters(device).build_seconds > 0.0);
    assert_non_null(ocl_program_log(one));
}

TEST(test_sources)
{
    char *text;
    assert_ok(ocl_source_text("good.cl", &text));
    assert_contains(text, "#line 1 \"good.cl\"");
    assert_contains(text, "#line 1 \"common.clh\""); /* not in the folder: the embedded one */
    assert_contains(text, "clt_philox");
    assert_contains(text, "#line 3 \"good.cl\"");
    assert_null(strstr(text, "#include"));
    free(text);
    assert_int_equal(ocl_source_text("cycle.cl", &text), CLT_EBUILD);
    assert_contains(clt_error_text(), "cycle");
    assert_int_equal(ocl_source_text("missing_include.cl", &text), CLT_EBUILD);
    assert_contains(clt_error_text(), "missing_include.cl:2");
    assert_contains(clt_error_text(), "nowhere.clh");
    CLT_SCOPED(ocl_device) *device = test_open(false);
    ocl_program *program;
    assert_int_equal(ocl_program_get(device, "no_such_family", "", &program), CLT_EBUILD);
    assert_contains(clt_error_text(), "no_such_family.cl");
}

/* A define that the kernels do not know is an error, which names it. */
TEST(test_misspelt_option)
{
    ocl_device *device = test_open(false);
    ocl_program *program = NULL;
    assert_int_equal(ocl_program_get(device, "good", "-DFACTOR=2 -DFACTR=3", &program), CLT_EINTERNAL);
    assert_contains(clt_error_text(), "'good'");
    assert_contains(clt_error_text(), "'FACTR'");
    assert_int_equal(ocl_program_get(device, "softmax", "-DONLY=softmax_fwd_row -DKEPT_EXP=1", &program),
                     CLT_EINTERNAL);
    assert_contains(clt_error_text(), "'KEPT_EXP'");
    assert_null(program);
    ocl_device_close(device);
}

TEST(test_one_kernel)
{
    static const char source[] =
        "#define GROUP __kernel __attribute__((reqd_work_group_size(8, 1, 1))) void\n"
        "#define MAKE(name) __kernel void name(__global int *x) { x[0] = 1; }\n"
        "static inline int twice(int i)\n{\n    return 2 * i;\n}\n"
        "__kernel void first(__global int *x)\n{\n    x[0] = 1;\n"
        "#define STEP(i) \\\n    twice(i)\n"
        "#pragma unroll\n    for (;;) {\n    }\n}\n"
        "GROUP second(\n    __global int *x,\n    int first)\n{\n    x[1] = STEP(1);\n}\n"
        "MAKE(third)\n"
        "static void first_two(void)\n{\n}\n";
    static const struct {
        const char *kernel, *kept, *gone;
    } cases[] = {
        {"first", "x[0] = 1;\n#define STEP", "x[1]"},
        {"second", "x[1] = STEP(1);", "x[0] = 1;\n"},
        {"third", "MAKE(third)\n", "x[1]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[sizeof source];
        memcpy(text, source, sizeof source);
        ocl_source_keep_kernel(text, cases[i].kernel);
        assert_contains(text, cases[i].kept);
        assert_null(strstr(text, cases[i].gone));
        assert_contains(text, "return 2 * i;\n}\n");
        assert_contains(text, "#define STEP(i) \\\n    twice(i)\n");
        assert_int_equal(i == 0, strstr(text, "#pragma") != NULL);
        assert_contains(text, "static void first_two(void)\n{\n}\n");
        for (size_t at = 0; at < sizeof source; at++) /* messages of the compiler name the right lines */
            assert_int_equal(text[at] == '\n', source[at] == '\n');
    }
}

/* The program of a command has this command's kernel alone. */
TEST(test_program_of_one_kernel)
{
    CLT_SCOPED(ocl_device) *device = test_open(false);
    ocl_program *program;
    char names[256];
    assert_ok(ocl_program_get(device, "batch_norm", "-DONLY=batch_norm_fwd -DLS=1", &program));
    assert_int_equal(clGetProgramInfo(program->program, CL_PROGRAM_KERNEL_NAMES, sizeof names, names, NULL),
                     CL_SUCCESS);
    assert_string_equal(names, "batch_norm_fwd");
}

/* The path after "source saved in", copied out of the message. */
static void saved_path(char *path, size_t size)
{
    const char *at = strstr(clt_error_text(), "source saved in ");
    assert_non_null(at);
    at += strlen("source saved in ");
    snprintf(path, size, "%.*s", (int)strcspn(at, " \n"), at);
}

static void check_failed_build(ocl_device *device, const char *expected_folder)
{
    ocl_program *program = NULL;
    char path[512], *text;
    size_t size;
    assert_int_equal(ocl_program_get(device, "broken", "-DREASON=7", &program), CLT_EBUILD);
    assert_null(program);
    assert_contains(clt_error_text(), "broken");
    assert_contains(clt_error_text(), "-DREASON=7");
    assert_contains(clt_error_text(), "no_such_variable"); /* from the compiler's log */
    assert_contains(clt_error_text(), "CL_BUILD_PROGRAM_FAILURE");
    assert_contains(clt_error_text(), device->desc.name);
    saved_path(path, sizeof path);
    assert_contains(path, expected_folder);
    assert_ok(clt_file_read(path, false, 0, CLT_ESTORAGE, &text, &size));
    assert_contains(text, "no_such_variable + REASON");
    assert_contains(text, "clt_philox"); /* the source with its includes */
    free(text);
}

TEST(test_build_failure)
{
    CLT_SCOPED(ocl_device) *device = test_open(false);
    char cache[128], file[160];
    snprintf(cache, sizeof cache, "%s/cache", folder);
    unsetenv("CLTRAIN_CACHE_DIR");
    setenv("XDG_CACHE_HOME", cache, 1);
    check_failed_build(device, cache);
    /* an unusable cache folder (a file is in the way): the next place is taken */
    snprintf(file, sizeof file, "%s/file", folder);
    assert_ok(clt_file_write(file, "x", 1));
    snprintf(cache, sizeof cache, "%s/tmp", folder);
    setenv("XDG_CACHE_HOME", file, 1);
    setenv("HOME", file, 1);
    setenv("TMPDIR", cache, 1);
    check_failed_build(device, cache);
    unsetenv("TMPDIR");
    unsetenv("XDG_CACHE_HOME");
}

FIXTURE(setup)
{
    test_kernel_folder(folder);
    test_write_source(folder, "good.cl",
                      "// one\n#include \"common.clh\"\n#ifndef FACTOR\n#define FACTOR 1\n#endif\n"
                      "__kernel void good(__global int *x, ulong o) { x[o] *= FACTOR; }\n");
    test_write_source(
        folder, "broken.cl",
        "#include \"common.clh\"\n#ifdef REASON\n__kernel void broken(__global int *x) { x[0] = "
        "no_such_variable + REASON; }\n#endif\n");
    test_write_source(folder, "cycle.cl", "#include \"cycle.cl\"\n");
    test_write_source(folder, "missing_include.cl", "\n  #  include \"nowhere.clh\"\n");
    return 0;
}

FIXTURE(teardown)
{
    return clt_remove_tree(folder) == CLT_OK ? 0 : 1;
}

TEST_PROGRAM(.device = true, .set_up = setup, .tear_down = teardown);
