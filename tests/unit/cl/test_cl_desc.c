/* SPDX-License-Identifier: Apache-2.0
 *
 * Descriptions, SPEC matching, capability lists, error codes, emitting and variants: everything of cl/ that
 * needs no device. ctest-labels: quick */
#include "tests/unit/cl/cl_test.h"

#include <CL/cl.h>

#include "cl/gemm/gemm.h"
#include "cl/device/internal.h"
#include "cl/command/variant.h"
#include "engine/base/thread.h"

static ocl_device_desc make_desc(const char *spec, const char *name, bool gpu, bool cpu)
{
    ocl_device_desc d;
    ocl_desc_generic(&d);
    snprintf(d.spec, sizeof d.spec, "%s", spec);
    snprintf(d.name, sizeof d.name, "%s", name);
    d.is_gpu = gpu;
    d.is_cpu = cpu;
    return d;
}

static int match(const char *spec, int local_rank, int *matches)
{
    static ocl_device_desc all[5];
    const ocl_device_desc *list[5];
    int index = -1;
    all[0] = make_desc("0:0", "cpu-Xeon Silver", false, true);
    all[1] = make_desc("1:0", "GeForce RTX 5070", true, false);
    all[2] = make_desc("1:1", "GeForce RTX 5070", true, false);
    all[3] = make_desc("2:0", "Radeon Pro", true, false);
    all[4] = make_desc("11:0", "Odd Accelerator", false, false);
    for (int i = 0; i < 5; i++)
        list[i] = &all[i];
    if (ocl_spec_match(list, 5, spec, local_rank, &index, matches) != CLT_OK)
        return -1;
    return index;
}

TEST(test_spec)
{
    int n = 0;
    assert_int_equal(match(NULL, 0, &n), 1); /* first GPU */
    assert_int_equal(n, 2);                  /* GPUs of one platform */
    assert_int_equal(match("", 0, &n), 1);
    assert_int_equal(match("cpu", 0, &n), 0);
    assert_int_equal(match("CPU", 3, &n), 0); /* ranks share the only CPU */
    assert_int_equal(match("GPU", 0, &n), 1);
    assert_int_equal(match("gpu", 1, &n), 2);
    assert_int_equal(match("gpu", 2, &n), 1); /* more ranks than devices: devices are shared in turn */
    assert_int_equal(match("0:0", 0, &n), 0);
    assert_int_equal(match("1:1", 0, &n), 2);
    assert_int_equal(match("1:1", 1, &n), 2);
    assert_int_equal(match("01:1", 0, &n), 2);
    assert_int_equal(match("11:0", 0, &n), 4);
    assert_int_equal(match("radeon", 0, &n), 3);
    assert_int_equal(match("RTX 50", 1, &n), 2);
    assert_int_equal(match("5070", 0, &n), 1); /* digits without a colon are part of a name */
}

/* A device name that is part of the name of a device earlier in the list. */
TEST(test_spec_whole_name)
{
    ocl_device_desc all[] = {
        make_desc("0:0", "pthread-AMD EPYC 9V84", false, true),
        make_desc("1:0", "AMD EPYC 9V84", false, true), make_desc("2:0", "GeForce RTX 4060 Ti", true, false),
        make_desc("2:1", "GeForce RTX 4060", true, false), make_desc("2:2", "GeForce RTX 4060", true, false)};
    const ocl_device_desc *list[] = {&all[0], &all[1], &all[2], &all[3], &all[4]};
    static const struct {
        const char *spec;
        int rank, index, matches;
    } wanted[] = {{"AMD EPYC 9V84", 0, 1, 1},         {"amd epyc 9v84", 0, 1, 1},
                  {"pthread-AMD EPYC 9V84", 0, 0, 1}, {"AMD EPYC", 0, 0, 1},
                  {"GeForce RTX 4060", 0, 3, 2},      {"GeForce RTX 4060", 1, 4, 2},
                  {"GeForce RTX 4060 Ti", 1, 2, 1},   {"RTX 4060", 0, 2, 3}};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        int index = -1, n = 0;
        assert_ok(ocl_spec_match(list, 5, wanted[i].spec, wanted[i].rank, &index, &n));
        if (index != wanted[i].index || n != wanted[i].matches)
            fail_msg("'%s' for rank %d is device %d of %d", wanted[i].spec, wanted[i].rank, index, n);
    }
}

TEST(test_spec_errors)
{
    static const char *const bad[] = {"0:7", "9:0", "1:", ":1", "1:1x", "-1:0", "tesla", "1:1:1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int n;
        clt_error_clear();
        if (match(bad[i], 0, &n) != -1)
            fail_msg("'%s' was accepted", bad[i]);
        assert_contains(clt_error_text(), bad[i]);
        assert_contains(clt_error_text(), "1:1 'GeForce RTX 5070' (gpu)");
        assert_contains(clt_error_text(), "0:0 'cpu-Xeon Silver' (cpu)");
    }
}

TEST(test_default_without_gpu)
{
    ocl_device_desc accelerator = make_desc("0:0", "Accelerator", false, false),
                    cpu = make_desc("1:0", "A CPU", false, true);
    const ocl_device_desc *both[] = {&accelerator, &cpu}, *one[] = {&accelerator};
    int index, n;
    assert_ok(ocl_spec_match(both, 2, NULL, 0, &index, &n));
    assert_int_equal(index, 1);
    assert_ok(ocl_spec_match(one, 1, NULL, 0, &index, &n));
    assert_int_equal(index, 0);
    assert_int_equal(ocl_spec_match(one, 1, "gpu", 0, &index, &n), CLT_EDEVICE);
}

TEST(test_caps)
{
    uint32_t mask = 0;
    char text[256];
    assert_ok(ocl_caps_parse("all", &mask));
    assert_int_equal(mask, OCL_CAPS_ALL);
    assert_ok(ocl_caps_parse("none", &mask));
    assert_int_equal(mask, 0);
    assert_ok(ocl_caps_parse("local,fp64", &mask));
    assert_int_equal(mask, OCL_CAP_LOCAL | OCL_CAP_FP64);
    assert_ok(ocl_caps_parse(" wg256 , local ", &mask));
    assert_int_equal(mask, OCL_CAP_LOCAL | OCL_CAP_WG256);
    assert_ok(ocl_caps_parse("-local", &mask));
    assert_int_equal(mask, OCL_CAPS_ALL & ~(uint32_t)OCL_CAP_LOCAL);
    assert_ok(ocl_caps_parse("all,-fp64,-mma_f16", &mask));
    assert_int_equal(mask, OCL_CAPS_ALL & ~(uint32_t)(OCL_CAP_FP64 | OCL_CAP_MMA_F16));
    assert_ok(ocl_caps_parse("local,fp64,-local", &mask));
    assert_int_equal(mask, OCL_CAP_FP64);
    assert_string_equal(ocl_caps_text(OCL_CAP_LOCAL | OCL_CAP_WG256 | OCL_CAP_FP64, text, sizeof text),
                        "local,wg256,fp64");
    assert_string_equal(ocl_caps_text(0, text, sizeof text), "");
    for (int i = 0; i < OCL_CAP_COUNT; i++) {
        assert_ok(ocl_caps_parse(ocl_cap_name(i), &mask));
        assert_int_equal(mask, 1u << i);
    }
}

TEST(test_caps_errors)
{
    uint32_t mask = 42;
    assert_int_equal(ocl_caps_parse("lokal", &mask), CLT_EUSAGE);
    assert_contains(clt_error_text(), "lokal");
    assert_contains(clt_error_text(), "did you mean 'local'");
    assert_int_equal(ocl_caps_parse("", &mask), CLT_EUSAGE);
    assert_int_equal(ocl_caps_parse("local,", &mask), CLT_EUSAGE);
    assert_int_equal(ocl_caps_parse("local,,fp64", &mask), CLT_EUSAGE);
    assert_int_equal(ocl_caps_parse("-", &mask), CLT_EUSAGE);
    assert_int_equal(mask, 42);
}

TEST(test_size_limits)
{
    uint32_t mask = 0;
    char text[OCL_SIZE_LIMITS_TEXT];
    ocl_size_limits limits = {0};
    ocl_device_desc d = make_desc("0:0", "A GPU", true, false);
    assert_false(ocl_size_limits_any(&limits));
    assert_string_equal(ocl_size_limits_text(&limits, text, sizeof text), "");
    assert_ok(ocl_caps_parse_limits("workgroup=64,local=16K", &mask, &limits)); /* no capability is masked */
    assert_int_equal(mask, OCL_CAPS_ALL);
    assert_ok(ocl_caps_parse_limits("buffer=3M,-fp64,memory=1G,align=4096", &mask, &limits));
    assert_int_equal(mask, OCL_CAPS_ALL & ~(uint32_t)OCL_CAP_FP64);
    assert_ok(ocl_caps_parse_limits("buffer=3M,local", &mask, &limits));
    assert_int_equal(mask, OCL_CAP_LOCAL);
    assert_string_equal(ocl_size_limits_text(&limits, text, sizeof text),
                        "workgroup=64,local=16K,buffer=3M,memory=1G,align=4K");
    assert_int_equal(ocl_caps_parse("workgroup=64", &mask), CLT_EUSAGE); /* where no limit is allowed */

    d.quirks = OCL_QUIRK_MAX_ALLOC_SOFT;
    d.local_proven_bytes = d.local_argument_bytes = 100 << 10;
    d.larger_groups = 256;
    d.limits = limits;
    ocl_size_limits_apply(&d);
    ocl_size_limits_apply(&d);
    assert_int_equal(ocl_group_limit(&d), 64);
    assert_int_equal(d.max_work_item[2], 64);
    assert_int_equal(d.larger_groups, 64);
    assert_int_equal(d.kernel_group_limit, 0); /* unknown stays unknown */
    assert_int_equal(ocl_desc_max_local(&d, false), 16 << 10);
    assert_int_equal(d.local_argument_bytes, 16 << 10);
    assert_int_equal(d.max_alloc_bytes, 3 << 20);
    assert_int_equal(d.quirks, 0); /* a limit holds even on a driver that does not keep its own */
    assert_int_equal(d.usable_bytes, 1 << 30);
    assert_int_equal(d.align_bytes, 4096);
    assert_true(ocl_is_masked(&d));
    d.masked_caps = OCL_CAP_FP64;
    assert_string_equal(ocl_masked_text(&d, text, sizeof text),
                        "fp64,workgroup=64,local=16K,buffer=3M,memory=1G,align=4K");
    ocl_size_limits loose = {.workgroup = 1024, .local = 1 << 20, .align = 64};
    d = make_desc("0:0", "A GPU", true, false);
    d.limits = loose; /* never raises what the device has */
    ocl_size_limits_apply(&d);
    assert_int_equal(d.max_work_group, 256);
    assert_int_equal(d.local_bytes, 32 << 10);
    assert_int_equal(d.align_bytes, 512);
}

TEST(test_error_codes)
{
    static const struct {
        int code;
        clt_status status;
    } cases[] = {{CL_MEM_OBJECT_ALLOCATION_FAILURE, CLT_EDEVMEM}, {CL_OUT_OF_RESOURCES, CLT_EDEVMEM},
                 {CL_INVALID_BUFFER_SIZE, CLT_EDEVMEM},           {CL_DEVICE_NOT_AVAILABLE, CLT_EDEVLOST},
                 {CL_INVALID_COMMAND_QUEUE, CLT_EDEVLOST},        {-1001, CLT_EDEVICE},
                 {CL_BUILD_PROGRAM_FAILURE, CLT_EBUILD},          {CL_OUT_OF_HOST_MEMORY, CLT_ENOMEM},
                 {CL_INVALID_KERNEL_ARGS, CLT_EINTERNAL},         {-9999, CLT_EINTERNAL}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char number[32];
        assert_int_equal(ocl_fail(cases[i].code, "f.c", 1, "doing %s", "this"), cases[i].status);
        snprintf(number, sizeof number, "(%d)", cases[i].code);
        assert_contains(clt_error_text(), "doing this: ");
        assert_contains(clt_error_text(), ocl_error_name(cases[i].code));
        assert_contains(clt_error_text(), number);
    }
    assert_string_equal(ocl_error_name(CL_OUT_OF_RESOURCES), "CL_OUT_OF_RESOURCES");
    assert_string_equal(ocl_error_name(-9999), "NVIDIA's illegal access by a kernel");
    assert_string_equal(ocl_error_name(-9998), "unknown OpenCL code");
}

TEST(test_prepare_process)
{
    static const char name[] = "POCL_MAX_PTHREAD_COUNT";
    char want[16];
    unsetenv(name);
    unsetenv("POCL_CPU_MAX_CU_COUNT");
    ocl_prepare_process(1, 1);
    if (clt_cpu_count() >= sysconf(_SC_NPROCESSORS_ONLN))
        assert_null(getenv(name)); /* a single rank keeps the driver's default */
    unsetenv(name);
    unsetenv("POCL_CPU_MAX_CU_COUNT");
    setenv(name, "3", 1);
    ocl_prepare_process(2, 2);
    assert_string_equal(getenv(name), "3"); /* what the user set stays */
    unsetenv(name);
    ocl_prepare_process(100000, 100000);
    assert_string_equal(getenv(name), "1");
    unsetenv(name);
    unsetenv("POCL_CPU_MAX_CU_COUNT");
    ocl_prepare_process(2, 2);
    snprintf(want, sizeof want, "%d", clt_cpu_count() > 3 ? clt_cpu_count() / 2 : 1);
    assert_string_equal(getenv(name), want);
}

/* PoCL counts the cores of the machine, so a process that may use only some of them must set its number of
 * threads: one rank that is bound to a core, and ranks that have cores of their own. */
TEST(test_prepare_bound_process)
{
    static const char *const names[] = {"POCL_MAX_PTHREAD_COUNT", "POCL_CPU_MAX_CU_COUNT"};
    cpu_set_t all, one;
    char want[16];
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    int cores = CPU_COUNT(&all), first = 0;
    while (!CPU_ISSET(first, &all))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    for (int k = 0; k < 2; k++)
        unsetenv(names[k]);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    ocl_prepare_process(1, 1);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
    for (int k = 0; k < 2; k++) {
        if (sysconf(_SC_NPROCESSORS_ONLN) > 1)
            assert_string_equal(getenv(names[k]), "1");
        unsetenv(names[k]);
    }
    ocl_prepare_process(4, 1); /* four ranks here, none of which shares its cores */
    snprintf(want, sizeof want, "%d", cores);
    for (int k = 0; k < 2; k++) {
        assert_string_equal(getenv(names[k]), want);
        unsetenv(names[k]);
    }
    setenv(names[1], "7", 1); /* what the user set for PoCL 4 stays, and is not contradicted for PoCL 3 */
    ocl_prepare_process(4, 4);
    assert_null(getenv(names[0]));
    assert_string_equal(getenv(names[1]), "7");
    unsetenv(names[1]);
    ocl_prepare_process(1, 1);
}

TEST(test_quirks)
{
    ocl_device_desc d;
    ocl_desc_generic(&d);
    ocl_apply_quirks(&d);
    assert_int_equal(d.quirks, 0);
    snprintf(d.platform, sizeof d.platform, "NVIDIA CUDA");
    ocl_apply_quirks(&d);
    assert_true(d.quirks & OCL_QUIRK_FILL_BY_KERNEL);
    assert_true(d.quirks & OCL_QUIRK_LASTING_FAILURES);
    snprintf(d.platform, sizeof d.platform, "Intel(R) OpenCL"); /* the runtime for CPUs, by its whole name */
    ocl_apply_quirks(&d);
    assert_int_equal(d.quirks, OCL_QUIRK_SERIAL_BUILDS);
    snprintf(d.platform, sizeof d.platform, "Intel(R) OpenCL Graphics");
    ocl_apply_quirks(&d);
    assert_int_equal(d.quirks, 0);
    for (int bit = 0; bit <= 10; bit++)
        assert_string_not_equal(ocl_quirk_name(1u << bit), "?");
}

/* Emitting */

typedef struct emission {
    ocl_device_desc device;
    ocl_command_list list;
    ocl_emitter e;
} emission;

static int32_t give_workspace(void *owner, clt_dtype dtype, uint64_t elements, const char *name)
{
    (void)dtype;
    (void)elements;
    (void)name;
    return (*(int *)owner)++;
}

static int begin_emission(void **state)
{
    emission *m = calloc(1, sizeof *m);
    ocl_desc_generic(&m->device);
    if (m == NULL || clt_arena_create(&m->list.arena) != CLT_OK)
        return 1;
    m->e.list = &m->list;
    m->e.device = &m->device;
    m->e.label = "fc1.forward";
    m->e.variant = "row";
    m->e.node = 3;
    *state = m;
    return 0;
}

static int end_emission(void **state)
{
    CLT_FREED emission *m = *state;
    ocl_emitter_free(&m->e);
    CLT_SCOPED(clt_arena) *arena = m->list.arena;
    ocl_command_list_free(&m->list);
    return 0;
}

TEST_BETWEEN(test_emit_kernel, begin_emission, end_emission)
{
    emission *m = *state;
    ocl_emitter *e = &m->e;
    ocl_kernel_begin(e, "softmax", "softmax_fwd_row");
    ocl_define(e, "WIDTH", 4);
    ocl_define_text(e, "DT", "f32");
    ocl_arg_out(e, 1, CLT_F32, 100);
    ocl_arg_tensor(e, OCL_READ, (ocl_tensor_ref){2, 6}, CLT_F16, 50);
    ocl_arg_grad(e, 5, CLT_F32, 10, true);
    ocl_arg_u32(e, 7);
    ocl_arg_f32(e, 0.5f);
    ocl_arg_u64(e, UINT64_C(1) << 40);
    ocl_arg_local(e, 256);
    ocl_kernel_end_1d(e, 100, 64, 300.0);
    assert_ok(ocl_emit_status(e));
    assert_int_equal(m->list.count, 1);
    const ocl_command *c = &m->list.commands[0];
    assert_int_equal(c->kind, OCL_CMD_KERNEL);
    assert_string_equal(c->label, "fc1.forward");
    assert_string_equal(c->variant, "row");
    assert_int_equal(c->node, 3);
    assert_string_equal(c->family, "softmax");
    assert_string_equal(c->kernel, "softmax_fwd_row");
    assert_string_equal(c->options, "-DONLY=softmax_fwd_row -DWIDTH=4 -DDT=f32");
    assert_int_equal(c->n_args, 8);
    assert_int_equal(c->global[0], 128);
    assert_int_equal(c->local[0], 64);
    assert_int_equal(c->args[1].ref.offset, 6);
    assert_int_equal(c->args[2].access, OCL_READ_WRITE);
    assert_int_equal(c->args[3].value.i32, 1);
    assert_int_equal(ocl_command_bytes(c), 400 + 100 + 2 * 40);
    assert_string_equal(ocl_command_kind_name(c->kind), "kernel");
}

/* Kernels of other kinds of devices, which the checker plans, are compiled without optimisation; the
 * device's own kernels, and all kernels of a training, are optimised. */
TEST_BETWEEN(test_emit_foreign, begin_emission, end_emission)
{
    static const struct {
        ocl_kernel_style style;
        uint32_t caps;
        bool foreign;
    } rows[] = {{OCL_KERNEL_ANY, OCL_CAP_WIDE_VECTORS, false},
                {OCL_KERNEL_LANES, OCL_CAP_WIDE_VECTORS, false},
                {OCL_KERNEL_LANES, 0, false},
                {OCL_KERNEL_GROUPS, OCL_CAP_WIDE_VECTORS, true},
                {OCL_KERNEL_GROUPS, 0, false},
                {OCL_KERNEL_BLOCKS, 0, true},
                {OCL_KERNEL_UNITS, OCL_CAP_WIDE_VECTORS, true},
                {OCL_KERNEL_UNITS, OCL_CAP_MMA_BF16, false}};
    emission *m = *state;
    m->device.is_cpu = true;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int checker = 0; checker < 2; checker++) {
            ocl_variant variant = {.name = "form", .style = rows[i].style};
            m->device.caps = rows[i].caps;
            m->device.quirks = OCL_QUIRK_ANY_STYLE | (checker ? OCL_QUIRK_FOREIGN_UNOPTIMISED : 0);
            m->e.made_by = &variant;
            ocl_kernel_begin(&m->e, "f", "k");
            ocl_define(&m->e, "WIDTH", 4);
            ocl_kernel_end_1d(&m->e, 10, 0, 0);
            assert_ok(ocl_emit_status(&m->e));
            assert_int_equal(ocl_variant_is_foreign(&variant, &m->device), rows[i].foreign);
            assert_string_equal(m->list.commands[m->list.count - 1].options,
                                checker && rows[i].foreign ? "-DONLY=k -cl-opt-disable -DWIDTH=4"
                                                           : "-DONLY=k -DWIDTH=4");
        }
}

TEST_BETWEEN(test_emit_sizes, begin_emission, end_emission)
{
    emission *m = *state;
    ocl_emitter *e = &m->e;
    ocl_kernel_begin(e, "f", "k2");
    ocl_kernel_end_2d(e, 10, 20, 8, 0, 0); /* a local size of 0 beside another one counts as 1 */
    ocl_kernel_begin(e, "f", "k3");
    ocl_kernel_end_3d(e, (uint64_t[3]){3, 5, 7}, (uint64_t[3]){0, 0, 0}, 0);
    ocl_kernel_begin(e, "f", "empty");
    ocl_kernel_end_1d(e, 0, 64, 0);
    assert_ok(ocl_emit_status(e));
    assert_int_equal(m->list.count, 2); /* the empty launch is dropped */
    assert_int_equal(m->list.commands[0].global[0], 16);
    assert_int_equal(m->list.commands[0].global[1], 20);
    assert_int_equal(m->list.commands[0].local[1], 1);
    assert_string_equal(m->list.commands[0].options, "-DONLY=k2");
    assert_int_equal(m->list.commands[1].work_dim, 3);
    assert_int_equal(m->list.commands[1].global[2], 7);
    assert_int_equal(m->list.commands[1].local[0], 1); /* the driver does not choose it */
    assert_false(m->list.commands[0].free_local);
}

/* Independent items: a prime number of them gets work-groups of a sensible size, which are as large as a
 * device allows. */
TEST_BETWEEN(test_emit_items, begin_emission, end_emission)
{
    emission *m = *state;
    ocl_emitter *e = &m->e;
    ocl_device_desc gpu, cpu, small;
    ocl_desc_generic(&gpu);
    cpu = small = gpu;
    cpu.is_cpu = true, cpu.is_gpu = false;
    cpu.compute_units = 2;
    cpu.max_work_group = 4096;
    small.kernel_group_limit = 32;
    const ocl_device_desc *const devices[] = {&gpu, &cpu, &cpu, &small, &gpu};
    static const struct {
        uint64_t items, wanted, local, global;
    } cases[] = {{104729, 0, 64, 104768}, /* the 10000th prime */
                 {104729, 0, 512, 104960},
                 {37, 0, 4, 40}, /* few heavy items: groups for all units */
                 {104729, 0, 32, 104736},
                 {104729, 256, 256, 104960}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        e->device = devices[i];
        ocl_kernel_begin(e, "f", "k");
        if (cases[i].wanted)
            ocl_kernel_end_items(e, cases[i].items, cases[i].wanted, 0);
        else
            ocl_kernel_end_1d(e, cases[i].items, 0, 0);
        assert_ok(ocl_emit_status(e));
        const ocl_command *c = &m->list.commands[m->list.count - 1];
        assert_int_equal(c->local[0], cases[i].local);
        assert_int_equal(c->global[0], cases[i].global);
        assert_true(c->free_local);
    }
}

TEST_BETWEEN(test_emit_others, begin_emission, end_emission)
{
    emission *m = *state;
    ocl_emitter *e = &m->e;
    ocl_gemm gemm = {
        .m = 4, .n = 5, .k = 6, .batch = 2, .stride_a = 24, .stride_c = 20, .alpha = 1.0f, .beta = 1.0f};
    gemm.a.tensor = 1;
    gemm.b.tensor = 2;
    gemm.c.tensor = 3;
    ocl_emit_copy(e, ocl_ref(1), ocl_ref(2), 12);
    ocl_emit_copy(e, ocl_ref(1), ocl_ref(2), 0); /* nothing */
    ocl_emit_fill(e, ocl_ref(4), 8, 0x3f800000u);
    ocl_emit_fill(e, ocl_ref(4), 7, 0);
    ocl_host_begin(e, 9);
    ocl_arg_tensor(e, OCL_READ_WRITE, ocl_ref(6), CLT_F32, 5);
    ocl_host_end(e);
    ocl_emit_library_gemm(e, &gemm, ocl_gemm_library());
    assert_ok(ocl_emit_status(e));
    assert_int_equal(m->list.count, 5);
    const ocl_command *c = m->list.commands;
    assert_int_equal(c[0].kind, OCL_CMD_COPY);
    assert_int_equal(ocl_command_bytes(&c[0]), 24);
    assert_int_equal(c[1].args[0].value.u32, 0x3f800000u);
    assert_int_equal(c[3].host_code, 9);
    assert_int_equal(c[3].args[0].ref.tensor, 6);
    assert_int_equal(c[4].kind, OCL_CMD_GEMM);
    assert_int_equal(c[4].args[0].access, OCL_READ_WRITE);
    assert_true(c[4].flops == 2.0 * 4 * 5 * 6 * 2);
    assert_int_equal(ocl_command_bytes(&c[4]), 2 * 4 * 5 * 2 * 4 + 4 * 6 * 2 * 4 + 6 * 5 * 4);
}

TEST_BETWEEN(test_emit_errors, begin_emission, end_emission)
{
    emission *m = *state;
    ocl_emitter *e = &m->e;
    ocl_kernel_begin(e, "f", "odd");
    ocl_arg_tensor(e, OCL_READ, (ocl_tensor_ref){2, 6}, CLT_F32, 1); /* 6 is not a multiple of 4 */
    ocl_kernel_end_1d(e, 1, 0, 0);
    ocl_emit_copy(e, ocl_ref(1), ocl_ref(2), 12); /* everything after the first error is ignored */
    clt_error_clear();
    assert_int_equal(ocl_emit_status(e), CLT_EINTERNAL);
    assert_contains(clt_error_text(), "odd");
    assert_contains(clt_error_text(), "offset 6");
    assert_int_equal(m->list.count, 0);
    assert_int_equal(ocl_workspace(e, CLT_F32, 1, "w"), OCL_NO_TENSOR_ID);
}

static void check_misuse(emission *m, const char *expected)
{
    assert_int_equal(ocl_emit_status(&m->e), CLT_EINTERNAL);
    assert_contains(clt_error_text(), expected);
    m->e.status = CLT_OK;
    m->e.open = NULL;
}

TEST_BETWEEN(test_emit_misuse, begin_emission, end_emission)
{
    emission *m = *state;
    ocl_emitter *e = &m->e;
    ocl_kernel_begin(e, "f", "never_ended");
    check_misuse(m, "never_ended");
    ocl_arg_u32(e, 1);
    check_misuse(m, "outside of a command");
    ocl_kernel_begin(e, "f", "k");
    ocl_host_begin(e, 1);
    check_misuse(m, "inside another");
    ocl_kernel_begin(e, "f", "many");
    for (int i = 0; i <= OCL_MAX_ARGS; i++)
        ocl_arg_u32(e, 1);
    check_misuse(m, "more than");
    ocl_kernel_begin(e, "f", "k");
    ocl_define_text(e, "NAME", "two words");
    check_misuse(m, "two words");
    ocl_emit_fill(e, ocl_ref(1), 7, 0x3f800000u);
    check_misuse(m, "whole words");
    assert_int_equal(ocl_workspace(e, CLT_F32, 1, "scratch"), OCL_NO_TENSOR_ID);
    check_misuse(m, "scratch");
    int next = 40;
    e->workspace = give_workspace;
    e->owner = &next;
    assert_int_equal(ocl_workspace(e, CLT_F32, 1, "scratch"), 40);
    assert_int_equal(ocl_workspace(e, CLT_F32, 1, "scratch"), 41);
}

/* Variants */

static bool small_only(const void *problem, const ocl_device_desc *device, char *reason, size_t size)
{
    (void)device;
    if (*(const int *)problem <= 10)
        return true;
    snprintf(reason, size, "%d is more than 10", *(const int *)problem);
    return false;
}

TEST(test_variants)
{
    static const ocl_variant tensor = {.name = "mma", .needs = OCL_CAP_MMA_F16},
                             small = {.name = "small", .accepts = small_only}, simple = {.name = "simple"};
    static const ocl_variant *const list[] = {&tensor, &small, &simple, NULL}, *const strict[] = {
                                                                                   &tensor, &small, NULL};
    const ocl_variant *got;
    ocl_device_desc d;
    int problem = 5;
    ocl_desc_generic(&d);
    assert_ok(ocl_variant_select(list, &problem, &d, "gemm", NULL, &got));
    assert_ptr_equal(got, &small);
    problem = 50;
    assert_ok(ocl_variant_select(list, &problem, &d, "gemm", NULL, &got));
    assert_ptr_equal(got, &simple);
    assert_int_equal(ocl_variant_select(strict, &problem, &d, "gemm", NULL, &got), CLT_EUNSUPPORTED);
    assert_contains(clt_error_text(), "small: 50 is more than 10");
    assert_contains(clt_error_text(), "mma: the device lacks mma_f16");
    assert_int_equal(ocl_variant_select(list, &problem, &d, "gemm", "small", &got), CLT_EUNSUPPORTED);
    assert_int_equal(ocl_variant_select(list, &problem, &d, "gemm", "smal", &got), CLT_EUNSUPPORTED);
    assert_contains(clt_error_text(), "mma, small, simple");
    d.caps |= OCL_CAP_MMA_F16;
    assert_ok(ocl_variant_select(list, &problem, &d, "gemm", NULL, &got));
    assert_ptr_equal(got, &tensor);
    assert_ok(ocl_variant_select(list, &problem, &d, "gemm", "simple", &got));
    assert_ptr_equal(got, &simple);
}
