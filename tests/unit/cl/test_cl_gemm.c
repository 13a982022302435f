/* SPDX-License-Identifier: Apache-2.0
 *
 * GEMM backends against a double-precision loop: layouts, strides, offsets, batches, scalars, storage
 * types, epilogues, edges of every tile, the choice of a backend and what the contract refuses.
 * ctest-labels: quick ctest-cost: 11 ctest-optimise: no */
#include "tests/unit/cl/gemm_test.h"

#define NO_LANES (~(uint32_t)OCL_CAP_WIDE_VECTORS)

/* Both forms of `simple`, whatever the device prefers. */
static void set_style(gemm_test *test, bool lane)
{
    test->desc.caps = lane ? test->desc.caps | OCL_CAP_WIDE_VECTORS : test->desc.caps & NO_LANES;
}

static void pad(gemm_test *test, ocl_gemm *g)
{
    g->lda += gemm_random(test, 4);
    g->ldb += gemm_random(test, 4);
    g->ldc += gemm_random(test, 4);
    g->a.offset = gemm_random(test, 70) * clt_dtype_bytes(g->type_a);
    g->b.offset = gemm_random(test, 70) * clt_dtype_bytes(g->type_b);
    g->c.offset = gemm_random(test, 70) * clt_dtype_bytes(g->type_c);
    int64_t rows_a = g->ta ? g->k : g->m, rows_b = g->tb ? g->n : g->k;
    g->stride_a = rows_a * g->lda + gemm_random(test, 9);
    g->stride_b = rows_b * g->ldb + gemm_random(test, 9);
    g->stride_c = g->m * g->ldc + gemm_random(test, 9);
}

static const int64_t sizes[][3] = {{1, 1, 1},     {1, 129, 7},  {129, 1, 65}, {2, 3, 15},   {7, 16, 16},
                                   {8, 32, 3},    {15, 17, 33}, {16, 33, 2},  {17, 15, 1},  {33, 64, 17},
                                   {64, 65, 129}, {65, 31, 64}, {3, 2, 130},  {40, 128, 48}};

static void layouts(gemm_test *test, const char *backend, int64_t batch)
{
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        for (int layout = 0; layout < 4; layout++) {
            ocl_gemm g = ocl_gemm_make(sizes[s][0], sizes[s][1], sizes[s][2], layout >> 1, layout & 1);
            g.batch = batch;
            g.alpha = s % 3 ? 1.0f : -0.75f;
            g.beta = s % 2 ? 0.0f : s % 4 ? 1.0f : 0.5f;
            if (s % 5)
                pad(test, &g);
            if (s % 4 == 1)
                g.stride_b = 0;
            if (s % 4 == 3)
                g.stride_a = 0;
            gemm_case(test, g, backend);
        }
    }
}

TEST_BETWEEN(test_simple_layouts, gemm_test_begin, gemm_test_end)
{
    gemm_test *test = *state;
    for (int lane = 0; lane < 2; lane++) {
        set_style(test, lane);
        layouts(test, "simple", 1);
        layouts(test, "simple", 3);
    }
}

TEST_BETWEEN(test_exact, gemm_test_begin, gemm_test_end)
{
    gemm_test *test = *state;
    test->integers = true;
    for (int lane = 0; lane < 2; lane++) {
        set_style(test, lane);
        layouts(test, "simple", 2);
    }
}

TEST_BETWEEN(test_batches, gemm_test_begin, gemm_test_end)
{
    gemm_test *test = *state;
    for (int lane = 0; lane < 2; lane++) {
        set_style(test, lane);
        for (int layout = 0; layout < 4; layout++) {
            /* attention: heads packed side by side in the rows of every operand */
            ocl_gemm g = ocl_gemm_make(19, 24, 21, layout >> 1, layout & 1);
            g.batch = 3;
            g.stride_a = g.lda;
            g.stride_b = g.ldb;
            g.stride_c = g.ldc;
            g.lda *= 3;
            g.ldb *= 3;
            g.ldc *= 3;
            gemm_case(test, g, NULL);
            g.beta = 1.0f;
            gemm_case(test, g, "simple");
        }
    }
}

TEST_BETWEEN(test_storage_types, gemm_test_begin, gemm_test_end)
{
    static const clt_dtype types[][3] = {{CLT_F16, CLT_F16, CLT_F16},
                                         {CLT_BF16, CLT_BF16, CLT_BF16},
                                         {CLT_F32, CLT_BF16, CLT_F16},
                                         {CLT_F16, CLT_F32, CLT_BF16},
                                         {CLT_BF16, CLT_F16, CLT_F32}};
    gemm_test *test = *state;
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        for (int variant = 0; variant < 16; variant++) {
            int layout = variant & 3;
            /* uniform storage: all layouts, the group form for one of them; mixed storage takes two cases */
            if (t >= 2 && variant != (int)t * 3 && variant != (int)t * 3 - 3)
                continue;
            if (t < 2 && !(variant & 4) != (layout == (int)t))
                continue;
            set_style(test, variant & 4);
            test->integers = variant & 8;
            ocl_gemm g = ocl_gemm_make(33, 45, variant & 8 ? 65 : 50, layout >> 1, layout & 1);
            g.type_a = types[t][0];
            g.type_b = types[t][1];
            g.type_c = types[t][2];
            g.batch = 2;
            g.beta = 1.0f;
            pad(test, &g);
            gemm_case(test, g, "simple");
        }
    }
}

TEST_BETWEEN(test_epilogue, gemm_test_begin, gemm_test_end)
{
    gemm_test *test = *state;
    for (int variant = 0; variant < 12; variant++) {
        int residual = variant / 4; /* no residual, a tensor of its own, C itself */
        ocl_gemm g = ocl_gemm_make(37, 41, 29, false, variant % 3 == 0);
        g.activation = (ocl_activation)(variant & 3);
        g.type_c = variant == 6 ? CLT_BF16 : CLT_F32;
        g.batch = 2;
        pad(test, &g);
        if (variant % 5 != 0)
            g.bias = (ocl_tensor_ref){OCL_GEMM_BIAS, 12};
        if (residual == 1)
            g.residual = (ocl_tensor_ref){OCL_GEMM_RESIDUAL, 20};
        if (residual == 2)
            g.residual = (ocl_tensor_ref){OCL_GEMM_C, g.c.offset};
        set_style(test, variant % 4 != 1);
        gemm_case(test, g, NULL);
        g.beta = 0.5f;
        gemm_case(test, g, "simple");
    }
}

TEST_BETWEEN(test_no_products, gemm_test_begin, gemm_test_end)
{
    gemm_test *test = *state;
    ocl_gemm g = ocl_gemm_make(5, 40, 0, false, false);
    gemm_case(test, g, NULL); /* C full of NaN becomes 0 */
    g.beta = 2.0f;
    g.bias = (ocl_tensor_ref){OCL_GEMM_BIAS, 0};
    gemm_case(test, g, NULL);
    g = ocl_gemm_make(5, 40, 0, false, true);
    gemm_case(test, g, NULL);
}

TEST_BETWEEN(test_empty, gemm_test_begin, gemm_test_end)
{
    gemm_test *test = *state;
    for (int i = 0; i < 2; i++) {
        ocl_gemm g = ocl_gemm_make(i ? 0 : 4, i ? 4 : 0, 3, false, false);
        ocl_gemm_bench *bench = gemm_operands(test, &g);
        ocl_gemm_ready *ready;
        assert_ok(gemm_emit(test, bench, NULL, NULL, &ready));
        assert_int_equal(ready->list.count, 0);
        ocl_gemm_ready_destroy(ready);
        ocl_gemm_bench_destroy(bench);
    }
}

TEST_BETWEEN(test_repeats_bitwise, gemm_test_begin, gemm_test_end)
{
    gemm_test *test = *state;
    for (int layout = 0; layout < 4; layout++) {
        ocl_gemm g = ocl_gemm_make(65, 77, 130, layout >> 1, layout & 1);
        ocl_gemm_bench *bench = gemm_operands(test, &g);
        void *first = gemm_result(test, bench, "simple"), *second = gemm_result(test, bench, "simple");
        assert_memory_equal(first, second, ocl_gemm_array_bytes(&bench->array[OCL_GEMM_C]));
        free(first);
        free(second);
        ocl_gemm_bench_destroy(bench);
    }
}

/* NaN and infinity in the operands reach C: nothing multiplies them away or clamps them. */
TEST_BETWEEN(test_non_finite, gemm_test_begin, gemm_test_end)
{
    gemm_test *test = *state;
    const float nan = NAN;
    for (int layout = 0; layout < 4; layout++) {
        ocl_gemm g = ocl_gemm_make(9, 21, 19, layout >> 1, layout & 1);
        ocl_gemm_ready *ready;
        g.activation = OCL_ACT_RELU;
        ocl_gemm_bench *bench = gemm_operands(test, &g);
        int64_t row = 4, p = 18; /* the last k, which every form handles in its tail */
        uint64_t at = bench->array[OCL_GEMM_A].first + (uint64_t)(g.ta ? p * g.lda + row : row * g.lda + p);
        assert_ok(ocl_write(bench->buffer[0][OCL_GEMM_A], at * sizeof nan, &nan, sizeof nan));
        assert_ok(gemm_emit(test, bench, NULL, NULL, &ready));
        assert_ok(ocl_gemm_ready_build(ready));
        assert_ok(ocl_gemm_ready_run(ready));
        float *c = gemm_read(ready, OCL_GEMM_C);
        for (int64_t i = 0; i < g.m; i++)
            for (int64_t j = 0; j < g.n; j++)
                assert_int_equal(isnan(c[bench->array[OCL_GEMM_C].first + (uint64_t)(i * g.ldc + j)]) != 0,
                                 i == row);
        free(c);
        ocl_gemm_ready_destroy(ready);
        ocl_gemm_bench_destroy(bench);
    }
}

TEST_BETWEEN(test_folds_shared_b, gemm_test_begin, gemm_test_end)
{
    gemm_test *test = *state;
    ocl_gemm g = ocl_gemm_make(5, 33, 12, false, true);
    g.batch = 4;
    g.stride_b = 0;
    gemm_case(test, g, NULL);
    ocl_command_list list = {0};
    ocl_emitter e = {.list = &list, .device = &test->desc};
    assert_ok(clt_arena_create(&list.arena));
    g.a = ocl_ref(OCL_GEMM_A);
    g.b = ocl_ref(OCL_GEMM_B);
    g.c = ocl_ref(OCL_GEMM_C);
    assert_ok(ocl_gemm_emit(&e, &g, "simple"));
    assert_int_equal(list.count, 1);
    assert_int_equal(list.commands[0].args[3].value.u32, 20); /* m */
    assert_string_equal(list.commands[0].variant, "simple");
    assert_true(list.commands[0].flops == 2.0 * 5 * 33 * 12 * 4);
    assert_true(ocl_command_bytes(&list.commands[0]) == 4 * (20 * 12 + 33 * 12 + 20 * 33));
    ocl_emitter_free(&e);
    ocl_command_list_free(&list);
    clt_arena_destroy(list.arena);
}

static void refuse(ocl_gemm g, const char *part)
{
    assert_int_equal(ocl_gemm_check(&g), CLT_ESHAPE);
    assert_contains(clt_error_text(), part);
}

TEST(test_check)
{
    ocl_gemm good = ocl_gemm_make(4, 5, 6, false, true), g;
    good.a = ocl_ref(1);
    good.b = ocl_ref(2);
    good.c = ocl_ref(3);
    assert_ok(ocl_gemm_check(&good));
    g = good, g.m = -1, refuse(g, "sizes");
    g = good, g.k = INT64_C(1) << 31, refuse(g, "sizes");
    g = good, g.batch = 0, refuse(g, "batch");
    g = good, g.lda = 5, refuse(g, "row stride of A");
    g = good, g.ldb = 5, refuse(g, "row stride of B");
    g = good, g.ldc = 4, refuse(g, "row stride of C");
    g = good, g.stride_a = -1, refuse(g, "batch stride of A");
    g = good, g.type_a = CLT_I32, refuse(g, "i32");
    g = good, g.type_c = CLT_F64, refuse(g, "f64");
    g = good, g.b.tensor = OCL_NO_TENSOR_ID, refuse(g, "B has no tensor");
    g = good, g.a.offset = 2, refuse(g, "A starts at byte 2");
    g = good, g.bias = (ocl_tensor_ref){4, 6}, refuse(g, "bias");
    g = good, g.residual = (ocl_tensor_ref){4, 6}, refuse(g, "residual");
    g = good, g.batch = 2, g.stride_c = 0, refuse(g, "overlap");
    g = good, g.batch = 2, g.stride_c = 19, refuse(g, "overlap");
    g = good, g.lda = INT64_MAX / 2, refuse(g, "2^62");
    g = good, g.c = g.a, refuse(g, "same memory");
    g = good, g.activation = (ocl_activation)7, refuse(g, "activation");
}

TEST(test_check_activation_operands)
{
    ocl_gemm good = ocl_gemm_make(4, 5, 6, false, true), g;
    good.a = ocl_ref(1);
    good.b = ocl_ref(2);
    good.c = ocl_ref(3);
    good.activation = OCL_ACT_GELU_TANH;
    g = good, g.pre = ocl_ref(4), g.bias = ocl_ref(5), g.residual = good.c;
    assert_ok(ocl_gemm_check(&g));
    g = good, g.dact = ocl_ref(4);
    assert_ok(ocl_gemm_check(&g));
    g = good, g.dact = g.c;
    assert_ok(ocl_gemm_check(&g));
    good.pre = ocl_ref(4);
    g = good, g.activation = OCL_ACT_NONE, refuse(g, "pre without an activation");
    g = good, g.pre.offset = 6, refuse(g, "pre-activation starts at byte 6");
    g = good, g.pre = g.c, refuse(g, "the pre-activation is the same memory");
    g = good, g.residual = g.pre, refuse(g, "the pre-activation is the same memory");
    g = good, g.dact = ocl_ref(6), refuse(g, "dact excludes");
    good.pre = OCL_NO_TENSOR;
    good.dact = ocl_ref(4);
    g = good, g.activation = OCL_ACT_NONE, refuse(g, "dact without an activation");
    g = good, g.dact.offset = 2, refuse(g, "dact starts at byte 2");
    g = good, g.bias = ocl_ref(6), refuse(g, "dact excludes");
    g = good, g.residual = ocl_ref(6), refuse(g, "dact excludes");
}

/* A product with the windows of 3 x 2 places, in 5 channels, of two images of 7 x 6 places as A, or as B. */
static ocl_gemm windows_product(int operand)
{
    bool of_a = operand == OCL_WINDOWS_A;
    ocl_gemm g = of_a ? ocl_gemm_make(50, 8, 30, false, true) : ocl_gemm_make(8, 30, 50, true, false);
    g.a = ocl_ref(0);
    g.b = ocl_ref(1);
    g.c = ocl_ref(2);
    g.windows = (ocl_windows){.operand = operand,
                              .in = {1, 7, 6},
                              .out = {1, 5, 5},
                              .kernel = {1, 3, 2},
                              .stride = {1, 1, 1},
                              .dilation = {1, 1, 1},
                              .channels = 5,
                              .place = 5,
                              .elements = 2 * 7 * 6 * 5};
    return g;
}

TEST(test_check_windows)
{
    ocl_gemm good = windows_product(OCL_WINDOWS_A), g;
    assert_ok(ocl_gemm_check(&good));
    g = good, g.tb = false, g.ldb = 8;
    assert_ok(ocl_gemm_check(&g));
    g = good, g.ta = true, g.lda = 50,
    refuse(g, "A can be a matrix of windows only in the layouts NN and NT");
    g = good, g.k = 29, refuse(g, "A has 29 columns, which is not the size of windows of 1 x 3 x 2 x 5");
    g = good, g.m = 49, refuse(g, "A has 49 rows, which make no whole images of 1 x 5 x 5 windows");
    g = good, g.windows.elements--, refuse(g, "the image of A has only 419 elements");
    g = good, g.windows.stride[1] = 0, refuse(g, "between 1 and 2^20");
    g = good, g.windows.in[2] = 1 << 20, refuse(g, "between 1 and 2^20");
    g = good, g.windows.padding[0] = 1 << 20, refuse(g, "between 1 and 2^20");
    g = good, g.batch = 2, g.stride_a = 5, refuse(g, "the image of A has only");
    good = windows_product(OCL_WINDOWS_B);
    assert_ok(ocl_gemm_check(&good));
    g = good, g.tb = true, g.ldb = 50, refuse(g, "B can be a matrix of windows only in the layout TN");
    g = good, g.ta = false, g.lda = 50, refuse(g, "B can be a matrix of windows only in the layout TN");
    g = good, g.n = 29, refuse(g, "B has 29 columns");
    g = good, g.k = 51, g.windows.elements *= 2, refuse(g, "B has 51 rows");
}

/* A tuning record serves one problem only, and a refusal has a reason that is of use on the device. */
TEST_BETWEEN(test_windows_choice, gemm_test_begin, gemm_test_end)
{
    gemm_test *test = *state;
    char text[OCL_GEMM_TEXT], dilated[OCL_GEMM_TEXT], reason[160] = "";
    ocl_gemm g = windows_product(OCL_WINDOWS_A), other = g;
    other.windows.dilation[1] = 2;
    assert_contains(ocl_gemm_problem(&g, text, sizeof text), " windows:A:1x3x2:1.1.1 c=5");
    assert_contains(ocl_gemm_problem(&other, dilated, sizeof dilated),
                    " windows:A:1x3x2:1.1.1 dilation:1.2.1 c=5");
    set_style(test, true);
    assert_true(ocl_gemm_is_possible(&g, &test->desc, reason, sizeof reason));
    assert_string_equal(reason, "");
    g.m = 2; /* only two places */
    assert_false(ocl_gemm_is_possible(&g, &test->desc, reason, sizeof reason));
    assert_contains(reason, "2 x 8 is too small for tiles");
    set_style(test, false);
    test->desc.local_bytes = 16;
    assert_false(ocl_gemm_is_possible(&g, &test->desc, reason, sizeof reason));
    assert_null(strstr(reason, "matrices in memory"));
}

TEST(test_text)
{
    char text[OCL_GEMM_TEXT];
    ocl_gemm g = ocl_gemm_make(4, 5, 6, false, true);
    assert_string_equal(ocl_gemm_text(&g, text, sizeof text), "gemm NT m=4 n=5 k=6 batch=1 f32*f32->f32");
    g.bias = g.pre = g.residual = ocl_ref(1);
    g.activation = OCL_ACT_GELU_TANH;
    assert_string_equal(ocl_gemm_text(&g, text, sizeof text),
                        "gemm NT m=4 n=5 k=6 batch=1 f32*f32->f32 +bias +gelu_tanh +pre +residual");
}

/* Emits one f32 GEMM and returns the backend that was chosen. */
static const char *chosen(gemm_test *test, const ocl_gemm *problem, const char *force, clt_status *status)
{
    static char name[32];
    ocl_command_list list = {0};
    ocl_emitter e = {.list = &list, .device = &test->desc, .variant = "outer"};
    ocl_gemm g = *problem;
    g.a = ocl_ref(0);
    g.b = ocl_ref(1);
    g.c = ocl_ref(2);
    assert_ok(clt_arena_create(&list.arena));
    *status = ocl_gemm_emit(&e, &g, force);
    snprintf(name, sizeof name, "%s", list.count ? list.commands[0].variant : "none");
    assert_string_equal(e.variant, "outer");
    ocl_emitter_free(&e);
    ocl_command_list_free(&list);
    clt_arena_destroy(list.arena);
    return name;
}

TEST_BETWEEN(test_choice, gemm_test_begin, gemm_test_end)
{
    gemm_test *test = *state;
    clt_status status;
    ocl_gemm g = ocl_gemm_make(64, 64, 64, false, false);
    bool library = false;
    for (int i = 0; ocl_gemm_variants[i] != NULL; i++)
        library = library || strcmp(ocl_gemm_variants[i]->name, "clblast") == 0;
    unsetenv("CLTRAIN_GEMM");
    set_style(test, true);
    assert_string_equal(chosen(test, &g, NULL, &status), "lane");
    ocl_gemm row = ocl_gemm_make(1, 64, 64, false, false);
    assert_string_equal(chosen(test, &row, NULL, &status), "simple");
    set_style(test, false);
    test->desc.caps |= OCL_CAP_LOCAL;
    assert_string_equal(chosen(test, &g, NULL, &status), "simple"); /* CLBlast is taken only by a record */
    assert_string_equal(chosen(test, &g, "simple", &status), "simple");
    assert_string_equal(chosen(test, &g, "cublas", &status), "none");
    assert_int_equal(status, CLT_EUNSUPPORTED);
    assert_contains(clt_error_text(), "simple");
    setenv("CLTRAIN_GEMM", "simple", 1);
    assert_string_equal(chosen(test, &g, NULL, &status), "simple");
    setenv("CLTRAIN_GEMM", "smple", 1);
    assert_string_equal(chosen(test, &g, NULL, &status), "none");
    assert_contains(clt_error_text(), "CLTRAIN_GEMM=smple");
    setenv("CLTRAIN_GEMM", "clblast", 1);
    g.type_c = CLT_F16; /* a preference gives way where it cannot serve */
    if (library)
        assert_string_equal(chosen(test, &g, NULL, &status), "simple");
    unsetenv("CLTRAIN_GEMM");
}

TEST_PROGRAM(.device = true);
