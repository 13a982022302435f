/* SPDX-License-Identifier: Apache-2.0
 *
 * The GEMM backend clblast: right wherever it accepts (both of the library's paths, all layouts, offsets,
 * padding, scalars, batches as loops of calls), refusals with their reasons, tensors too far out for 32-bit
 * offsets.
 * ctest-labels: quick ctest-cost: 7 ctest-optimise: no */
#include "tests/unit/cl/gemm_test.h"

#include "cl/device/internal.h"

#include <clblast_c.h>

/* Where the library switches from its direct to its indirect kernels, as m = n = k. Process-global, and
 * cannot be read back. */
static void set_switch(const gemm_test *test, size_t size)
{
    const char *name = "XGEMM_MIN_INDIRECT_SIZE";
    assert_int_equal(
        CLBlastOverrideParameters(test->device->id, "GemmRoutine", CLBlastPrecisionSingle, 1, &name, &size),
        CLBlastSuccess);
}

static bool usable(const gemm_test *test)
{
    if ((test->desc.caps & OCL_CAP_LOCAL) != 0 && test->desc.max_work_group >= 64)
        return true;
    print_message("skipped: the device has no local memory or work-groups of 64\n");
    return false;
}

static void layouts(gemm_test *test)
{
    static const int64_t sizes[][3] = {{1, 1, 1},     {2, 3, 7},    {7, 16, 15},   {16, 17, 33},
                                       {33, 1, 65},   {64, 64, 64}, {65, 33, 129}, {128, 64, 32},
                                       {129, 70, 16}, {1, 130, 2}};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        for (int layout = 0; layout < 4; layout++) {
            ocl_gemm g = ocl_gemm_make(sizes[s][0], sizes[s][1], sizes[s][2], layout >> 1, layout & 1);
            g.alpha = s % 3 ? 1.0f : -0.75f;
            g.beta = s % 2 ? 0.0f : s % 4 ? 1.0f : 0.5f;
            test->integers = s % 2;
            if (test->integers)
                g.alpha = 2.0f;
            if (s % 3 == 2) {
                g.lda += gemm_random(test, 4);
                g.ldb += gemm_random(test, 4);
                g.ldc += gemm_random(test, 4);
            }
            if (s % 4 != 1) {
                g.a.offset = 4 * gemm_random(test, 70);
                g.b.offset = 4 * gemm_random(test, 70);
                g.c.offset = 4 * gemm_random(test, 70);
            }
            gemm_case(test, g, "clblast");
        }
    }
}

TEST(test_direct_path)
{
    gemm_test *test = *state;
    if (!usable(test))
        skip();
    set_switch(test, 100000);
    layouts(test);
}

TEST(test_indirect_path)
{
    gemm_test *test = *state;
    if (!usable(test))
        skip();
    set_switch(test, 1);
    layouts(test);
}

TEST(test_batch_is_a_loop)
{
    gemm_test *test = *state;
    if (!usable(test))
        skip();
    for (int path = 0; path < 2; path++) {
        set_switch(test, path ? 1 : 100000);
        for (int layout = 0; layout < 4; layout++) {
            ocl_gemm g = ocl_gemm_make(136, 121, 1024, layout >> 1, layout & 1);
            g.batch = 2;
            g.beta = layout == 1 ? 0.5f : 0.0f;
            g.a.offset = 4 * 64;
            g.b.offset = 4 * 3;
            g.stride_a += 64;
            g.stride_b = layout == 2 ? 0 : g.stride_b;
            g.stride_c += 5;
            gemm_case(test, g, "clblast");
        }
    }
}

static void refuse(const gemm_test *test, ocl_gemm g, const char *part)
{
    ocl_command_list list = {0};
    ocl_emitter e = {.list = &list, .device = &test->desc, .label = "refusal"};
    g.a = (ocl_tensor_ref){0, g.a.offset};
    g.b = (ocl_tensor_ref){1, g.b.offset};
    g.c = (ocl_tensor_ref){2, g.c.offset};
    assert_ok(clt_arena_create(&list.arena));
    assert_int_equal(ocl_gemm_emit(&e, &g, "clblast"), CLT_EUNSUPPORTED);
    assert_contains(clt_error_text(), part);
    assert_int_equal(list.count, 0);
    ocl_emitter_free(&e);
    ocl_command_list_free(&list);
    clt_arena_destroy(list.arena);
}

TEST(test_refusals)
{
    gemm_test *test = *state;
    test->desc.caps |= OCL_CAP_LOCAL;
    test->desc.max_work_group = 256;
    ocl_gemm good = ocl_gemm_make(256, 256, 256, false, false), g;
    g = good, g.type_b = CLT_BF16, refuse(test, g, "f32 only");
    g = good, g.residual = ocl_ref(2), refuse(test, g, "lies in C");
    g = good, g.activation = OCL_ACT_RELU, g.dact = ocl_ref(2), refuse(test, g, "lies in C");
    g = good, g.activation = OCL_ACT_RELU, g.dact = ocl_ref(3), g.beta = 1.0f, refuse(test, g, "derivative");
    refuse(test, ocl_gemm_make(4, 4, 0, false, false), "empty");
    g = good, g.a.offset = UINT64_C(1) << 33, refuse(test, g, "2^31");
    g = good, g.c.offset = (UINT64_C(1) << 33) - 4 * 65536, refuse(test, g, "2^31");
    g = good, g.ldb = INT64_C(1) << 24, refuse(test, g, "2^31");
    g = good, g.batch = 3, g.stride_a = INT64_C(1) << 30, refuse(test, g, "2^31");
    refuse(test, ocl_gemm_make(8388608 - 1, 1, 255, false, false), "padded");
    g = ocl_gemm_make(128, 128, 128, false, true), g.batch = 3, refuse(test, g, "too small");
    test->desc.max_work_group = 32;
    refuse(test, good, "work-groups of 64");
    test->desc.caps &= ~(uint32_t)OCL_CAP_LOCAL;
    refuse(test, good, "lacks local");
}

/* Only the executor knows that a tensor lies too far out in its slab: then the call runs without the
 * library. The limit is so low here that the guard zone in front of A, which emission does not see, makes
 * the difference. */
TEST(test_far_tensor)
{
    gemm_test *test = *state;
    ocl_gemm g = ocl_gemm_make(33, 20, 17, true, false);
    uint64_t created[2];
    if (!usable(test))
        skip();
    g.beta = 0.5f;
    for (int far = 0; far < 2; far++) {
        /* spans: A 561, B 340, C 660 elements; padded to 256 x 256 */
        ocl_clblast_set_index_limit(far ? 65536 : INT32_MAX);
        g.lda = far ? 4090 : g.lda; /* A spans 65473: with the guard, more than the limit */
        ocl_gemm_bench *bench = gemm_operands(test, &g);
        uint64_t kernels = ocl_device_counters(test->device).kernels_created;
        free(gemm_result(test, bench, "clblast"));
        created[far] = ocl_device_counters(test->device).kernels_created - kernels;
        ocl_clblast_set_index_limit(INT32_MAX);
        ocl_gemm_bench_destroy(bench);
    }
    assert_int_equal(created[0], 0); /* the library's own kernels are not counted */
    assert_int_equal(created[1], 1); /* gemm_fwd_simple */
}

TEST_PROGRAM(.device = true, .before = gemm_test_begin, .after = gemm_test_end);
