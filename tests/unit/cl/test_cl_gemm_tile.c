/* SPDX-License-Identifier: Apache-2.0
 *
 * The GEMM backend `tile`: every form that it may choose gives the bits of `simple` for every layout,
 * storage type and epilogue as long as k is not split, sums of integers are exact when it is, the choice
 * stays within a device's limits.
 * ctest-labels: quick ctest-full: all ctest-cost: 12 ctest-optimise: no */
#include "cl/backends/gemm_tile.h"
#include "cl/tune/tuning.h"
#include "tests/unit/cl/gemm_test.h"

static int begin(void **state)
{
    gemm_test_begin(state);
    gemm_test *test = *state;
    test->desc.quirks |= OCL_QUIRK_ANY_STYLE;
    test->random = 7;
    return 0;
}

/* --- running --- */

/* The record that asks for a form. */
static ocl_choice record_of(const ocl_gemm_form *f)
{
    ocl_choice record;
    assert_ok(ocl_form_record(&ocl_tile_family, f, f->splits, &record));
    return record;
}

typedef struct results {
    uint8_t *bytes; /* the buffers of C and of pre, one after the other */
    size_t size;
    uint64_t parts; /* floats of workspace that the backend requested */
} results;

/* form NULL: backend `simple`. */
static clt_status run(gemm_test *test, ocl_gemm_bench *bench, const ocl_gemm_form *form, results *out)
{
    ocl_choice record = {0};
    ocl_gemm_ready *ready;
    char why[200];
    bool right;
    *out = (results){0};
    if (form != NULL)
        record = record_of(form);
    clt_status status = gemm_emit(test, bench, form ? NULL : "simple", form ? &record : NULL, &ready);
    if (status != CLT_OK)
        return status;
    out->parts = ready->workspaces ? ready->workspace[0].elements - 2 * OCL_GEMM_GUARD : 0;
    assert_string_equal(ready->list.commands[0].variant, form != NULL ? "tile" : "simple");
    assert_int_equal(ready->list.count, out->parts ? 2 : 1);
    assert_ok(ocl_gemm_ready_build(ready));
    assert_ok(ocl_gemm_ready_run(ready));
    assert_ok(ocl_gemm_ready_guards(ready, &right, why, sizeof why));
    if (!right)
        fail_msg("%s", why);
    size_t c = ocl_gemm_array_bytes(&bench->array[OCL_GEMM_C]);
    out->size = c + ocl_gemm_array_bytes(&bench->array[OCL_GEMM_PRE]);
    out->bytes = malloc(out->size);
    assert_non_null(out->bytes);
    uint8_t *pre = out->bytes + c;
    assert_ok(ocl_gemm_ready_read(ready, OCL_GEMM_C, &out->bytes));
    if (out->size > c)
        assert_ok(ocl_gemm_ready_read(ready, OCL_GEMM_PRE, &pre));
    ocl_gemm_ready_destroy(ready);
    return CLT_OK;
}

static void form_text(const ocl_gemm *g, const ocl_gemm_form *f, char *text, size_t size)
{
    char what[OCL_GEMM_TEXT];
    snprintf(text, size, "%s, tile %dx%dx%d of %dx%d in %d", ocl_gemm_text(g, what, sizeof what), f->bm,
             f->bn, f->bk, f->pm, f->pn, f->splits);
}

/* The same product with B stored the other way round, because `simple` adds up NT products in another
 * order. */
static ocl_gemm_bench *turned(gemm_test *test, const ocl_gemm_bench *bench)
{
    ocl_gemm g = bench->gemm;
    int64_t ldb = g.ldb;
    g.tb = false;
    g.ldb = g.n;
    ocl_gemm_bench *other = gemm_operands(test, &g);
    const ocl_gemm_array *from = &bench->array[OCL_GEMM_B];
    ocl_gemm_array *to = &other->array[OCL_GEMM_B];
    size_t size = clt_dtype_bytes(from->type);
    for (int64_t z = 0; z < g.batch; z++)
        for (int64_t p = 0; p < g.k; p++)
            for (int64_t j = 0; j < g.n; j++)
                memcpy(to->image + size * (to->first + (size_t)(z * g.stride_b + p * g.n + j)),
                       from->image + size * (from->first + (size_t)(z * g.stride_b + j * ldb + p)), size);
    assert_ok(ocl_write(other->buffer[0][OCL_GEMM_B], 0, to->image, ocl_gemm_array_bytes(to)));
    return other;
}

static void same_bits(gemm_test *test, ocl_gemm g, const ocl_gemm_form *form)
{
    char text[400];
    results want, got, again;
    ocl_gemm_bench *bench = gemm_operands(test, &g);
    ocl_gemm_bench *reference = !g.ta && g.tb ? turned(test, bench) : NULL;
    form_text(&g, form, text, sizeof text);
    if (run(test, bench, form, &got) != CLT_OK)
        fail_msg("%s: %s", text, clt_error_text());
    assert_int_equal(got.parts, form->splits > 1 ? form->splits * g.m * g.n * g.batch : 0);
    assert_ok(run(test, bench, form, &again));
    assert_ok(run(test, reference ? reference : bench, NULL, &want));
    assert_int_equal(got.size, want.size);
    if (memcmp(got.bytes, again.bytes, got.size) != 0)
        fail_msg("%s: the second run differs", text);
    for (size_t i = 0; i < got.size; i++)
        if (got.bytes[i] != want.bytes[i])
            fail_msg("%s: byte %zu of C and pre differs from that of simple", text, i);
    free(want.bytes);
    free(got.bytes);
    free(again.bytes);
    ocl_gemm_bench_destroy(bench);
    ocl_gemm_bench_destroy(reference);
}

/* --- cases --- */

static void pad(gemm_test *test, ocl_gemm *g)
{
    int64_t by = gemm_random(test, 2) ? 4 : 1; /* rows stay aligned, or not */
    g->lda = (g->lda + by) / by * by + by * gemm_random(test, 2);
    g->ldb = (g->ldb + by) / by * by + by * gemm_random(test, 2);
    g->ldc += gemm_random(test, 3);
    g->a.offset = (uint64_t)by * gemm_random(test, 5) * clt_dtype_bytes(g->type_a);
    g->b.offset = (uint64_t)by * gemm_random(test, 5) * clt_dtype_bytes(g->type_b);
    g->c.offset = gemm_random(test, 9) * clt_dtype_bytes(g->type_c);
    g->stride_a = (g->ta ? g->k : g->m) * g->lda + by * gemm_random(test, 3);
    g->stride_b = (g->tb ? g->n : g->k) * g->ldb + by * gemm_random(test, 3);
    g->stride_c = g->m * g->ldc + gemm_random(test, 7);
}

/* Kernels of this size take a second each to build: without the argument "all" only one case in `every`
 * runs. */
static bool skipped(int number, int every)
{
    return !run_everything && number % every != 0;
}

/* One of eight epilogues; with f32, those up to number 4 keep integers exact. */
static void decorate(ocl_gemm *g, int which)
{
    g->alpha = which & 1 ? 1.0f : 0.5f;
    g->beta = which % 3 == 1 ? -1.0f : 0.0f;
    if (which == 1 || which == 2 || which == 5)
        g->bias = (ocl_tensor_ref){OCL_GEMM_BIAS, 12};
    if (which == 2 || which == 3)
        g->residual =
            which == 3 ? (ocl_tensor_ref){OCL_GEMM_C, g->c.offset} : (ocl_tensor_ref){OCL_GEMM_RESIDUAL, 32};
    if (which == 2 || which == 4)
        g->activation = OCL_ACT_RELU;
    if (which == 5)
        g->activation = OCL_ACT_GELU_TANH;
    if (which >= 6)
        g->activation = OCL_ACT_GELU_ERF;
    if (which == 2 || which == 5)
        g->pre = (ocl_tensor_ref){OCL_GEMM_PRE, 16};
    if (which == 4 || which == 6)
        g->dact = (ocl_tensor_ref){OCL_GEMM_DACT, 48};
    if (which == 7)
        g->dact = (ocl_tensor_ref){OCL_GEMM_C, g->c.offset};
}

static const clt_dtype types[][3] = {{CLT_F32, CLT_F32, CLT_F32},   {CLT_F16, CLT_F16, CLT_F16},
                                     {CLT_BF16, CLT_BF16, CLT_F32}, {CLT_F32, CLT_BF16, CLT_F16},
                                     {CLT_F16, CLT_F32, CLT_BF16},  {CLT_BF16, CLT_F16, CLT_F32}};

static ocl_gemm case_of(gemm_test *test, const ocl_gemm_form *f, int layout, int type, int epilogue)
{
    int64_t m = f->bm + gemm_random(test, (uint32_t)f->bm), n = f->bn + gemm_random(test, (uint32_t)f->bn);
    ocl_gemm g = ocl_gemm_make(m, n, f->bk + gemm_random(test, 40), layout >> 1, layout & 1);
    g.type_a = types[type][0];
    g.type_b = types[type][1];
    g.type_c = types[type][2];
    g.batch = 1 + gemm_random(test, 2);
    if (gemm_random(test, 4))
        pad(test, &g);
    decorate(&g, epilogue);
    return g;
}

/* Every layout with every form; storage types and epilogues alternate so that the set as a whole covers all
 * of them. */
TEST_BETWEEN(test_same_bits, begin, gemm_test_end)
{
    gemm_test *test = *state;
    int number = 0;
    for (const ocl_gemm_form *form = ocl_tile_forms; form->bm != 0; form++) {
        for (int layout = 0; layout < 4; layout++, number++) {
            ocl_gemm_form f = *form;
            f.splits = 1;
            if (skipped(number + number / 15, 15))
                continue;
            same_bits(test, case_of(test, &f, layout, number % 6, (number * 3 + number / 6) % 8), &f);
        }
    }
}

/* Sizes of 1, tails, exact tiles, sums without terms; in the smallest form, which is the quickest to
 * build. */
TEST_BETWEEN(test_sizes, begin, gemm_test_end)
{
    static const int64_t sizes[][3] = {{1, 1, 1},    {1, 33, 7},   {33, 1, 16},  {32, 32, 16},
                                       {31, 64, 17}, {64, 31, 15}, {65, 65, 33}, {40, 40, 0},
                                       {2, 300, 48}, {300, 2, 31}, {289, 35, 9}, {4, 4, 100}};
    gemm_test *test = *state;
    ocl_gemm_form f = {.bm = 32, .bn = 32, .bk = 16, .pm = 4, .pn = 4, .splits = 1};
    f.va = f.vb = run_everything ? 8 : 1;
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        for (int layout = 0; layout < 4; layout++) {
            ocl_gemm g = ocl_gemm_make(sizes[s][0], sizes[s][1], sizes[s][2], layout >> 1, layout & 1);
            if (skipped((int)s + layout, 2))
                continue;
            if (s % 3 == 1)
                pad(test, &g);
            if (sizes[s][2] == 0)
                decorate(&g, 1);
            same_bits(test, g, &f);
        }
    }
}

/* Heads side by side in the rows, one B for all items, and items of C interleaved. */
TEST_BETWEEN(test_batches, begin, gemm_test_end)
{
    gemm_test *test = *state;
    ocl_gemm_form f = {.bm = 32, .bn = 32, .bk = 16, .pm = 4, .pn = 4, .splits = 1};
    f.va = f.vb = run_everything ? 8 : 1;
    for (int layout = 0; layout < 4; layout++) {
        ocl_gemm g = ocl_gemm_make(19, 24, 21, layout >> 1, layout & 1);
        g.batch = 3;
        if (g.ta || !g.tb) { /* the rows of a transposed B are contiguous */
            g.stride_b = g.ldb;
            g.ldb *= 3;
        }
        g.stride_a = g.lda;
        g.stride_c = g.ldc;
        g.lda *= 3;
        g.ldc *= 3;
        same_bits(test, g, &f);
        g = ocl_gemm_make(40, 33, 50, layout >> 1, layout & 1);
        g.batch = 2;
        g.stride_b = 0;
        g.beta = 1.0f;
        same_bits(test, g, &f);
    }
}

/* Row strides so long that an offset inside a tile has more than 32 bits; with one row that does no
 * harm. */
TEST_BETWEEN(test_wide_offsets, begin, gemm_test_end)
{
    gemm_test *test = *state;
    ocl_gemm_form f = {.bm = 32, .bn = 32, .bk = 16, .pm = 4, .pn = 4, .splits = 1};
    ocl_gemm g = ocl_gemm_make(1, 45, 70, false, false);
    g.lda = INT64_C(1) << 33;
    same_bits(test, g, &f);
    g = ocl_gemm_make(45, 1, 70, true, true);
    g.ldb = INT64_C(1) << 33;
    same_bits(test, g, &f);
}

/* Integers add up exactly in any order: parts of k give the bits of one sum. */
TEST_BETWEEN(test_splits, begin, gemm_test_end)
{
    gemm_test *test = *state;
    int number = 0;
    test->integers = true;
    for (const ocl_gemm_form *form = ocl_tile_forms; form->bm != 0; form++, number++) {
        ocl_gemm_form f = *form;
        f.splits = 2 + number % 3;
        if (skipped(number + 1, 5))
            continue;
        ocl_gemm g = case_of(test, &f, number & 3, number % 2 ? 2 : 0, number % 5);
        int64_t k = 2 * f.splits * f.bk - gemm_random(test, (uint32_t)f.bk); /* every part has a step */
        g.lda += g.ta ? 0 : k;
        g.ldb += g.tb ? k : 0;
        g.k = k;
        g.stride_a = (g.ta ? g.k : g.m) * g.lda;
        g.stride_b = (g.tb ? g.n : g.k) * g.ldb;
        same_bits(test, g, &f);
    }
}

/* Without integers a split problem gives the same bits in every run, and differs from the unsplit one only
 * by rounding. */
TEST_BETWEEN(test_splits_rounding, begin, gemm_test_end)
{
    gemm_test *test = *state;
    ocl_gemm_form f = {.bm = 32, .bn = 32, .bk = 16, .pm = 4, .pn = 4, .splits = 4};
    ocl_gemm g = ocl_gemm_make(20, 30, 1000, false, true);
    results one, parts, again;
    ocl_gemm_bench *bench = gemm_operands(test, &g);
    assert_ok(run(test, bench, &f, &parts));
    assert_ok(run(test, bench, &f, &again));
    f.splits = 1;
    assert_ok(run(test, bench, &f, &one));
    assert_memory_equal(parts.bytes, again.bytes, one.size);
    assert_memory_not_equal(parts.bytes, one.bytes, one.size);
    const float *x = (const float *)(const void *)parts.bytes + OCL_GEMM_GUARD,
                *y = (const float *)(const void *)one.bytes + OCL_GEMM_GUARD;
    for (int64_t i = 0; i < g.m * g.n; i++)
        assert_true(x[i] - y[i] < 1e-3f && y[i] - x[i] < 1e-3f);
    free(one.bytes);
    free(parts.bytes);
    free(again.bytes);
    ocl_gemm_bench_destroy(bench);
}

/* NaN in the operands reaches the sums that it belongs to; nothing beyond the edges reaches any sum. */
TEST_BETWEEN(test_non_finite, begin, gemm_test_end)
{
    gemm_test *test = *state;
    ocl_gemm_form f = {.bm = 32, .bn = 32, .bk = 16, .pm = 4, .pn = 4, .splits = 1};
    const ocl_gemm_fill fill = {.gaps = true};
    const float nan = NAN;
    for (int layout = 0; layout < 4; layout++) {
        ocl_gemm g = ocl_gemm_make(9, 21, 19, layout >> 1, layout & 1);
        ocl_gemm_bench *bench;
        results out;
        g.lda += 2 + (g.lda & 1); /* odd, as in test_sizes: the same kernels */
        g.ldb += 2 + (g.ldb & 1);
        assert_ok(ocl_gemm_bench_create(test->device, &g, &fill, 1, &bench));
        ocl_gemm_array *a = &bench->array[OCL_GEMM_A];
        size_t at = a->first + (size_t)(g.ta ? 18 * g.lda + 4 : 4 * g.lda + 18);
        clt_dtype_store(CLT_F32, a->image, at, NAN);
        assert_ok(ocl_write(bench->buffer[0][OCL_GEMM_A], at * sizeof nan, &nan, sizeof nan));
        assert_ok(run(test, bench, &f, &out));
        const float *c = (const float *)(const void *)out.bytes + OCL_GEMM_GUARD;
        for (int64_t i = 0; i < g.m; i++)
            for (int64_t j = 0; j < g.n; j++)
                assert_int_equal(isnan(c[i * g.ldc + j]) != 0, i == 4);
        free(out.bytes);
        ocl_gemm_bench_destroy(bench);
    }
}

/* --- choice --- */

static ocl_device_desc gpu(uint32_t units, uint64_t local_bytes, uint64_t group)
{
    ocl_device_desc d;
    ocl_desc_generic(&d);
    d.compute_units = units;
    d.local_bytes = d.local_proven_bytes = local_bytes;
    d.max_work_group = group;
    if (group < 256)
        d.caps &= ~(uint32_t)OCL_CAP_WG256;
    return d;
}

static ocl_gemm_form chosen(const ocl_gemm *g, const ocl_device_desc *device)
{
    ocl_gemm_form f;
    char reason[200];
    if (!ocl_form_choose(&ocl_tile_family, g, device, NULL, &f, reason, sizeof reason))
        fail_msg("%s", reason);
    assert_true((uint64_t)ocl_tile_items(&f) <= device->max_work_group);
    assert_true(ocl_tile_items(&f) <= (device->caps & OCL_CAP_WG256 ? 256 : 64));
    assert_true(ocl_tile_local_bytes(g, &f) <= device->local_bytes);
    return f;
}

TEST(test_choice_fits_device)
{
    static const int64_t sizes[][3] = {{4096, 4096, 4096}, {256, 768, 3072}, {768, 50257, 256},
                                       {1, 3072, 768},     {64, 64, 64},     {4096, 8, 512},
                                       {8, 4096, 512},     {3, 5, 0}};
    static const uint64_t locals[] = {16 << 10, 32 << 10, 48 << 10, 64 << 10, 128 << 10};
    static const uint64_t groups[] = {64, 128, 256, 1024};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (size_t l = 0; l < sizeof locals / sizeof locals[0]; l++)
            for (size_t w = 0; w < sizeof groups / sizeof groups[0]; w++)
                for (int layout = 0; layout < 4; layout++) {
                    ocl_gemm g =
                        ocl_gemm_make(sizes[s][0], sizes[s][1], sizes[s][2], layout >> 1, layout & 1);
                    ocl_device_desc d = gpu(32, locals[l], groups[w]);
                    chosen(&g, &d);
                    g.type_a = g.type_b = CLT_BF16;
                    chosen(&g, &d);
                }
}

TEST(test_choice_by_size)
{
    ocl_device_desc large = gpu(132, 48 << 10, 1024);
    ocl_gemm g = ocl_gemm_make(4096, 4096, 4096, false, false);
    ocl_gemm_form f = chosen(&g, &large);
    assert_true(f.bm * f.bn >= 128 * 64 && f.pm * f.pn == 64 && f.splits == 1);
    g = ocl_gemm_make(256, 256, 256, false, false);
    f = chosen(&g, &large);
    assert_true(f.bm * f.bn <= 64 * 64); /* 4 groups of the largest tile would leave 128 units idle */
    g = ocl_gemm_make(64, 64, 65536, true, false);
    assert_true(chosen(&g, &large).splits > 1);
    g = ocl_gemm_make(4096, 10, 512, false, true);
    assert_true(chosen(&g, &large).bn <= 32);
    g = ocl_gemm_make(10, 4096, 512, false, true);
    assert_true(chosen(&g, &large).bm <= 32);
}

TEST(test_choice_vectors)
{
    ocl_device_desc d = gpu(32, 48 << 10, 256);
    ocl_gemm g = ocl_gemm_make(512, 512, 512, false, false);
    assert_int_equal(chosen(&g, &d).va, 4);
    assert_int_equal(chosen(&g, &d).vb, 4);
    g.lda = 514;
    assert_int_equal(chosen(&g, &d).va, 2);
    g.a.offset = 4;
    assert_int_equal(chosen(&g, &d).va, 1);
    g.batch = 2;
    g.stride_b = 512 * 512 + 2;
    assert_int_equal(chosen(&g, &d).vb, 2);
    g.type_b = CLT_F16;
    g.stride_b = 512 * 512;
    assert_true(chosen(&g, &d).vb >= 4);
    g.b.offset = 6;
    assert_int_equal(chosen(&g, &d).vb, 1);
}

TEST(test_accepts)
{
    char reason[200];
    ocl_gemm g = ocl_gemm_make(64, 64, 64, false, false);
    ocl_device_desc d = gpu(32, 48 << 10, 256);
    assert_true(ocl_variant_accepts(&ocl_gemm_tile, &g, &d, reason, sizeof reason));
    d.is_cpu = true;
    d.is_gpu = false;
    assert_false(ocl_variant_accepts(&ocl_gemm_tile, &g, &d, reason, sizeof reason));
    assert_contains(reason, "CPU");
    d.quirks |= OCL_QUIRK_ANY_STYLE;
    assert_true(ocl_variant_accepts(&ocl_gemm_tile, &g, &d, reason, sizeof reason));
    d.caps &= ~(uint32_t)OCL_CAP_LOCAL;
    assert_false(ocl_variant_accepts(&ocl_gemm_tile, &g, &d, reason, sizeof reason));
    d = gpu(32, 1 << 10, 256);
    assert_false(ocl_variant_accepts(&ocl_gemm_tile, &g, &d, reason, sizeof reason));
    assert_contains(reason, "1024 bytes of local memory");
}

TEST_BETWEEN(test_impossible_records, begin, gemm_test_end)
{
    static const ocl_gemm_form bad[] = {{.bm = 256, .bn = 256, .bk = 8, .pm = 2, .pn = 2, .splits = 1},
                                        {.bm = 16, .bn = 16, .bk = 8, .pm = 8, .pn = 8, .splits = 1},
                                        {.bm = 64, .bn = 64, .bk = 16, .pm = 4, .pn = 4, .splits = 64}};
    gemm_test *test = *state;
    ocl_gemm g = ocl_gemm_make(64, 64, 64, false, false);
    ocl_gemm_bench *bench = gemm_operands(test, &g);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        results out;
        assert_int_equal(run(test, bench, &bad[i], &out), CLT_EUNSUPPORTED);
    }
    ocl_gemm_bench_destroy(bench);
}

TEST_PROGRAM(.device = true);
