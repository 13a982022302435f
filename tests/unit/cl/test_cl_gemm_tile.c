/* SPDX-License-Identifier: Apache-2.0
 *
 * The GEMM backend `tile`: every form that it may choose gives the bits of `simple` for every layout, storage
 * type and epilogue as long as k is not split, sums of integers are exact when it is, what is chosen stays
 * within what a device has. ctest-labels: quick ctest-full: all */
#include <math.h>

#include "cl/gemm/gemm_tile.h"
#include "cl/tune/tuning.h"
#include "tests/unit/cl/cl_test.h"

enum { T_A, T_B, T_C, T_BIAS, T_RESIDUAL, T_PRE, T_DACT, T_PART, T_COUNT };
#define GUARD 16 /* elements kept free on both sides of an operand */

typedef struct operand {
    size_t bytes, element;
    uint8_t *image; /* before */
} operand;

typedef struct bench {
    ocl_device *device;
    ocl_device_desc desc;
    bool integers;
    uint32_t random;
    operand operand[T_COUNT];
    test_tensors tensors;
    uint64_t parts; /* floats of workspace that were asked for */
} bench;

static int begin(void **state)
{
    bench *b = calloc(1, sizeof *b);
    assert_non_null(b);
    b->device = test_open(false);
    b->desc = *ocl_device_describe(b->device);
    b->desc.quirks |= OCL_QUIRK_ANY_STYLE;
    b->random = 7;
    *state = b;
    return 0;
}

static int end(void **state)
{
    bench *b = *state;
    ocl_device_close(b->device);
    free(b);
    return 0;
}

static uint32_t random_below(bench *b, uint32_t below)
{
    b->random = b->random * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)b->random * below) >> 32);
}

/* --- operands --- */

static void store(clt_dtype type, uint8_t *image, size_t i, float value)
{
    if (type == CLT_F32) {
        ((float *)(void *)image)[i] = value;
        return;
    }
    ((uint16_t *)(void *)image)[i] = type == CLT_F16 ? clt_f32_to_f16(value) : clt_f32_to_bf16(value);
}

static void make(bench *b, int which, clt_dtype type, uint64_t offset, int64_t span)
{
    operand *o = &b->operand[which];
    size_t count = 2 * GUARD + (size_t)span + (size_t)offset / clt_dtype_bytes(type);
    o->element = clt_dtype_bytes(type);
    o->bytes = count * o->element;
    o->image = malloc(o->bytes);
    assert_non_null(o->image);
    for (size_t i = 0; i < count; i++)
        store(type, o->image, i,
              b->integers ? (float)random_below(b, 5) - 2.0f : (float)random_below(b, 4001) / 2000.0f - 1.0f);
    assert_ok(ocl_buffer_create(b->device, o->bytes, "operand", &b->tensors.buffer[which]));
    b->tensors.offset[which] = GUARD * o->element;
}

static void make_all(bench *b, ocl_gemm *g)
{
    int64_t a, bb, c;
    assert_true(ocl_gemm_spans(g, &a, &bb, &c));
    g->a.tensor = T_A;
    g->b.tensor = T_B;
    g->c.tensor = T_C;
    make(b, T_A, g->type_a, g->a.offset, a);
    make(b, T_B, g->type_b, g->b.offset, bb);
    make(b, T_C, g->type_c, g->c.offset, c);
    if (g->bias.tensor == T_BIAS)
        make(b, T_BIAS, CLT_F32, g->bias.offset, g->n);
    if (g->residual.tensor == T_RESIDUAL)
        make(b, T_RESIDUAL, g->type_c, g->residual.offset, c);
    if (g->pre.tensor == T_PRE)
        make(b, T_PRE, g->type_c, g->pre.offset, c);
    if (g->dact.tensor == T_DACT)
        make(b, T_DACT, g->type_c, g->dact.offset, c);
}

static void free_all(bench *b)
{
    for (int i = 0; i < T_COUNT; i++) {
        free(b->operand[i].image);
        ocl_buffer_destroy(b->tensors.buffer[i]);
    }
    memset(b->operand, 0, sizeof b->operand);
    memset(&b->tensors, 0, sizeof b->tensors);
}

/* --- running --- */

static int32_t workspace(void *owner, clt_dtype dtype, uint64_t elements, const char *name)
{
    bench *b = owner;
    (void)name;
    assert_int_equal(dtype, CLT_F32);
    ocl_buffer_destroy(b->tensors.buffer[T_PART]);
    assert_ok(ocl_buffer_create(b->device, elements * 4, "parts", &b->tensors.buffer[T_PART]));
    b->parts = elements;
    return T_PART;
}

/* The record that asks for a form. */
static ocl_choice record_of(const ocl_gemm_form *f)
{
    ocl_choice record = {.family = OCL_GEMM_FAMILY, .problem = "test", .variant = "tile"};
    assert_ok(ocl_choice_set(&record, "bm", f->bm));
    assert_ok(ocl_choice_set(&record, "bn", f->bn));
    assert_ok(ocl_choice_set(&record, "bk", f->bk));
    assert_ok(ocl_choice_set(&record, "tm", f->pm));
    assert_ok(ocl_choice_set(&record, "tn", f->pn));
    if (f->va)
        assert_ok(ocl_choice_set(&record, "va", f->va));
    if (f->vb)
        assert_ok(ocl_choice_set(&record, "vb", f->vb));
    if (f->splits)
        assert_ok(ocl_choice_set(&record, "split", f->splits));
    return record;
}

/* Runs on fresh memory; the buffers of C and pre afterwards, one behind the other. form NULL: backend
 * `simple`. */
static clt_status run(bench *b, const ocl_gemm *g, const ocl_gemm_form *form, uint8_t **out)
{
    ocl_command_list list = {0};
    ocl_choice record = {0};
    ocl_emitter e = {.list = &list, .device = &b->desc, .label = "case", .workspace = workspace, .owner = b};
    ocl_exec_options options = {.resolve = test_resolve, .resolve_context = &b->tensors};
    ocl_exec *exec = NULL;
    *out = NULL;
    b->parts = 0;
    if (form != NULL) {
        record = record_of(form);
        e.record = &record;
    }
    assert_ok(clt_arena_create(&list.arena));
    clt_status status = ocl_gemm_emit(&e, g, form != NULL ? NULL : "simple");
    if (status == CLT_OK) {
        for (int i = 0; i < T_PART; i++)
            if (b->operand[i].bytes)
                assert_ok(ocl_write(b->tensors.buffer[i], 0, b->operand[i].image, b->operand[i].bytes));
        assert_string_equal(list.commands[0].variant, form != NULL ? "tile" : "simple");
        assert_int_equal(list.count, b->parts ? 2 : 1);
        assert_ok(ocl_exec_create(b->device, &list, &options, &exec));
        assert_ok(ocl_exec_run(exec, NULL));
        size_t c = b->operand[T_C].bytes, pre = b->operand[T_PRE].bytes;
        *out = malloc(c + pre);
        assert_non_null(*out);
        assert_ok(ocl_read(b->tensors.buffer[T_C], 0, *out, c));
        if (pre)
            assert_ok(ocl_read(b->tensors.buffer[T_PRE], 0, *out + c, pre));
    }
    ocl_exec_destroy(exec);
    ocl_emitter_free(&e);
    ocl_command_list_free(&list);
    clt_arena_destroy(list.arena);
    return status;
}

static void form_text(const ocl_gemm *g, const ocl_gemm_form *f, char *text, size_t size)
{
    char what[OCL_GEMM_TEXT];
    snprintf(text, size, "%s, tile %dx%dx%d of %dx%d in %d", ocl_gemm_text(g, what, sizeof what), f->bm,
             f->bn, f->bk, f->pm, f->pn, f->splits);
}

/* The same C' = op(B)' op(A)' is not needed: NT sums in `simple` run in another order, so its B is turned. */
static ocl_gemm in_order(bench *b, const ocl_gemm *g)
{
    ocl_gemm turned = *g;
    if (g->ta || !g->tb)
        return turned;
    operand *o = &b->operand[T_B];
    uint8_t *image = malloc(o->bytes);
    assert_non_null(image);
    memcpy(image, o->image, o->bytes);
    size_t first = GUARD + g->b.offset / o->element;
    turned.tb = false;
    turned.ldb = g->n;
    for (int64_t z = 0; z < g->batch; z++)
        for (int64_t p = 0; p < g->k; p++)
            for (int64_t j = 0; j < g->n; j++)
                memcpy(image + o->element * (first + (size_t)(z * g->stride_b + p * g->n + j)),
                       o->image + o->element * (first + (size_t)(z * g->stride_b + j * g->ldb + p)),
                       o->element);
    free(o->image);
    o->image = image;
    return turned;
}

static void same_bits(bench *b, ocl_gemm g, const ocl_gemm_form *form)
{
    char text[400];
    uint8_t *want, *got, *again;
    make_all(b, &g);
    form_text(&g, form, text, sizeof text);
    clt_status status = run(b, &g, form, &got);
    if (status != CLT_OK)
        fail_msg("%s: %s", text, clt_error_text());
    assert_int_equal(b->parts, form->splits > 1 ? form->splits * g.m * g.n * g.batch : 0);
    assert_ok(run(b, &g, form, &again));
    ocl_gemm reference = in_order(b, &g);
    assert_ok(run(b, &reference, NULL, &want));
    size_t bytes = b->operand[T_C].bytes + b->operand[T_PRE].bytes;
    if (memcmp(got, again, bytes) != 0)
        fail_msg("%s: the second run differs", text);
    for (size_t i = 0; i < bytes; i++)
        if (got[i] != want[i])
            fail_msg("%s: byte %zu of C and pre differs from that of simple", text, i);
    free(want);
    free(got);
    free(again);
    free_all(b);
}

/* --- cases --- */

static void pad(bench *b, ocl_gemm *g)
{
    int64_t by = random_below(b, 2) ? 4 : 1; /* rows stay aligned, or not */
    g->lda = (g->lda + by) / by * by + by * random_below(b, 2);
    g->ldb = (g->ldb + by) / by * by + by * random_below(b, 2);
    g->ldc += random_below(b, 3);
    g->a.offset = (uint64_t)by * random_below(b, 5) * clt_dtype_bytes(g->type_a);
    g->b.offset = (uint64_t)by * random_below(b, 5) * clt_dtype_bytes(g->type_b);
    g->c.offset = random_below(b, 9) * clt_dtype_bytes(g->type_c);
    g->stride_a = (g->ta ? g->k : g->m) * g->lda + by * random_below(b, 3);
    g->stride_b = (g->tb ? g->n : g->k) * g->ldb + by * random_below(b, 3);
    g->stride_c = g->m * g->ldc + random_below(b, 7);
}

/* Kernels of this size take a second each to build: without the argument "all" one case in `every` is looked
 * at. */
static bool everything;

static bool skipped(int number, int every)
{
    return !everything && number % every != 0;
}

/* One of eight epilogues; integers stay exact in those of f32 up to 4. */
static void decorate(ocl_gemm *g, int which)
{
    g->alpha = which & 1 ? 1.0f : 0.5f;
    g->beta = which % 3 == 1 ? -1.0f : 0.0f;
    if (which == 1 || which == 2 || which == 5)
        g->bias = (ocl_tensor_ref){T_BIAS, 12};
    if (which == 2 || which == 3)
        g->residual = which == 3 ? (ocl_tensor_ref){T_C, g->c.offset} : (ocl_tensor_ref){T_RESIDUAL, 32};
    if (which == 2 || which == 4)
        g->activation = OCL_ACT_RELU;
    if (which == 5)
        g->activation = OCL_ACT_GELU_TANH;
    if (which >= 6)
        g->activation = OCL_ACT_GELU_ERF;
    if (which == 2 || which == 5)
        g->pre = (ocl_tensor_ref){T_PRE, 16};
    if (which == 4 || which == 6)
        g->dact = (ocl_tensor_ref){T_DACT, 48};
    if (which == 7)
        g->dact = (ocl_tensor_ref){T_C, g->c.offset};
}

static const clt_dtype types[][3] = {{CLT_F32, CLT_F32, CLT_F32},   {CLT_F16, CLT_F16, CLT_F16},
                                     {CLT_BF16, CLT_BF16, CLT_F32}, {CLT_F32, CLT_BF16, CLT_F16},
                                     {CLT_F16, CLT_F32, CLT_BF16},  {CLT_BF16, CLT_F16, CLT_F32}};

static ocl_gemm case_of(bench *b, const ocl_gemm_form *f, int layout, int type, int epilogue)
{
    int64_t m = f->bm + random_below(b, (uint32_t)f->bm), n = f->bn + random_below(b, (uint32_t)f->bn);
    ocl_gemm g = ocl_gemm_make(m, n, f->bk + random_below(b, 40), layout >> 1, layout & 1);
    g.type_a = types[type][0];
    g.type_b = types[type][1];
    g.type_c = types[type][2];
    g.batch = 1 + random_below(b, 2);
    if (random_below(b, 4))
        pad(b, &g);
    decorate(&g, epilogue);
    return g;
}

/* Layouts and forms all with each other; storage types and epilogues take turns so that the whole set meets
 * all. */
static void test_same_bits(void **state)
{
    bench *b = *state;
    int number = 0;
    for (const ocl_gemm_form *form = ocl_tile_forms; form->bm != 0; form++) {
        for (int layout = 0; layout < 4; layout++, number++) {
            ocl_gemm_form f = *form;
            f.splits = 1;
            if (skipped(number + number / 15, 15))
                continue;
            same_bits(b, case_of(b, &f, layout, number % 6, (number * 3 + number / 6) % 8), &f);
        }
    }
}

/* Sizes 1, tails, exact tiles, no products; in the smallest form, which is the quickest to build. */
static void test_sizes(void **state)
{
    static const int64_t sizes[][3] = {{1, 1, 1},    {1, 33, 7},   {33, 1, 16},  {32, 32, 16},
                                       {31, 64, 17}, {64, 31, 15}, {65, 65, 33}, {40, 40, 0},
                                       {2, 300, 48}, {300, 2, 31}, {289, 35, 9}, {4, 4, 100}};
    bench *b = *state;
    ocl_gemm_form f = {.bm = 32, .bn = 32, .bk = 16, .pm = 4, .pn = 4, .splits = 1};
    f.va = f.vb = everything ? 8 : 1;
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        for (int layout = 0; layout < 4; layout++) {
            ocl_gemm g = ocl_gemm_make(sizes[s][0], sizes[s][1], sizes[s][2], layout >> 1, layout & 1);
            if (skipped((int)s + layout, 2))
                continue;
            if (s % 3 == 1)
                pad(b, &g);
            if (sizes[s][2] == 0)
                decorate(&g, 1);
            same_bits(b, g, &f);
        }
    }
}

/* Heads side by side in the rows, one B for all items, and C's items between each other. */
static void test_batches(void **state)
{
    bench *b = *state;
    ocl_gemm_form f = {.bm = 32, .bn = 32, .bk = 16, .pm = 4, .pn = 4, .splits = 1};
    f.va = f.vb = everything ? 8 : 1;
    for (int layout = 0; layout < 4; layout++) {
        ocl_gemm g = ocl_gemm_make(19, 24, 21, layout >> 1, layout & 1);
        g.batch = 3;
        if (g.ta || !g.tb) { /* what in_order can turn lies in one piece */
            g.stride_b = g.ldb;
            g.ldb *= 3;
        }
        g.stride_a = g.lda;
        g.stride_c = g.ldc;
        g.lda *= 3;
        g.ldc *= 3;
        same_bits(b, g, &f);
        g = ocl_gemm_make(40, 33, 50, layout >> 1, layout & 1);
        g.batch = 2;
        g.stride_b = 0;
        g.beta = 1.0f;
        same_bits(b, g, &f);
    }
}

/* Row strides so long that an offset inside a tile has more than 32 bits, where one row keeps that harmless.
 */
static void test_wide_offsets(void **state)
{
    bench *b = *state;
    ocl_gemm_form f = {.bm = 32, .bn = 32, .bk = 16, .pm = 4, .pn = 4, .splits = 1};
    ocl_gemm g = ocl_gemm_make(1, 45, 70, false, false);
    g.lda = INT64_C(1) << 33;
    same_bits(b, g, &f);
    g = ocl_gemm_make(45, 1, 70, true, true);
    g.ldb = INT64_C(1) << 33;
    same_bits(b, g, &f);
}

/* Integers add up exactly in any order: parts of k give the bits of one sum. */
static void test_splits(void **state)
{
    bench *b = *state;
    int number = 0;
    b->integers = true;
    for (const ocl_gemm_form *form = ocl_tile_forms; form->bm != 0; form++, number++) {
        ocl_gemm_form f = *form;
        f.splits = 2 + number % 3;
        if (skipped(number + 1, 5))
            continue;
        ocl_gemm g = case_of(b, &f, number & 3, number % 2 ? 2 : 0, number % 5);
        int64_t k = 2 * f.splits * f.bk - random_below(b, (uint32_t)f.bk); /* every part has something */
        g.lda += g.ta ? 0 : k;
        g.ldb += g.tb ? k : 0;
        g.k = k;
        g.stride_a = (g.ta ? g.k : g.m) * g.lda;
        g.stride_b = (g.tb ? g.n : g.k) * g.ldb;
        same_bits(b, g, &f);
    }
}

/* Without integers a split problem repeats bitwise and lies as near to the unsplit one as rounding allows. */
static void test_splits_rounding(void **state)
{
    bench *b = *state;
    ocl_gemm_form f = {.bm = 32, .bn = 32, .bk = 16, .pm = 4, .pn = 4, .splits = 4};
    ocl_gemm g = ocl_gemm_make(20, 30, 1000, false, true);
    uint8_t *one, *parts, *again;
    make_all(b, &g);
    assert_ok(run(b, &g, &f, &parts));
    assert_ok(run(b, &g, &f, &again));
    f.splits = 1;
    assert_ok(run(b, &g, &f, &one));
    assert_memory_equal(parts, again, b->operand[T_C].bytes);
    assert_memory_not_equal(parts, one, b->operand[T_C].bytes);
    const float *x = (const float *)(const void *)parts + GUARD,
                *y = (const float *)(const void *)one + GUARD;
    for (int64_t i = 0; i < g.m * g.n; i++)
        assert_true(x[i] - y[i] < 1e-3f && y[i] - x[i] < 1e-3f);
    free(one);
    free(parts);
    free(again);
    free_all(b);
}

/* NaN in the operands reaches the sums it belongs to, and nothing of what lies behind the edges does. */
static void test_non_finite(void **state)
{
    bench *b = *state;
    ocl_gemm_form f = {.bm = 32, .bn = 32, .bk = 16, .pm = 4, .pn = 4, .splits = 1};
    for (int layout = 0; layout < 4; layout++) {
        ocl_gemm g = ocl_gemm_make(9, 21, 19, layout >> 1, layout & 1);
        uint8_t *out;
        g.lda += 2 + (g.lda & 1); /* odd, as in test_sizes: the same kernels */
        g.ldb += 2 + (g.ldb & 1);
        make_all(b, &g);
        float *a = (float *)(void *)b->operand[T_A].image, *bb = (float *)(void *)b->operand[T_B].image;
        for (int64_t row = 0; row < (g.ta ? g.k : g.m); row++)
            for (int64_t j = g.ta ? g.m : g.k; j < g.lda; j++)
                a[GUARD + row * g.lda + j] = NAN;
        for (int64_t row = 0; row < (g.tb ? g.n : g.k); row++)
            for (int64_t j = g.tb ? g.k : g.n; j < g.ldb; j++)
                bb[GUARD + row * g.ldb + j] = NAN;
        a[GUARD + (g.ta ? 18 * g.lda + 4 : 4 * g.lda + 18)] = NAN;
        assert_ok(run(b, &g, &f, &out));
        for (int64_t i = 0; i < g.m; i++)
            for (int64_t j = 0; j < g.n; j++)
                assert_int_equal(((float *)(void *)out)[GUARD + i * g.ldc + j] !=
                                     ((float *)(void *)out)[GUARD + i * g.ldc + j],
                                 i == 4);
        free(out);
        free_all(b);
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

static void test_choice_fits_device(void **state)
{
    static const int64_t sizes[][3] = {{4096, 4096, 4096}, {256, 768, 3072}, {768, 50257, 256},
                                       {1, 3072, 768},     {64, 64, 64},     {4096, 8, 512},
                                       {8, 4096, 512},     {3, 5, 0}};
    static const uint64_t locals[] = {16 << 10, 32 << 10, 48 << 10, 64 << 10, 128 << 10};
    static const uint64_t groups[] = {64, 128, 256, 1024};
    (void)state;
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

static void test_choice_by_size(void **state)
{
    (void)state;
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

static void test_choice_vectors(void **state)
{
    (void)state;
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

static void test_accepts(void **state)
{
    char reason[200];
    (void)state;
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

static void test_impossible_records(void **state)
{
    static const ocl_gemm_form bad[] = {{.bm = 256, .bn = 256, .bk = 8, .pm = 2, .pn = 2, .splits = 1},
                                        {.bm = 16, .bn = 16, .bk = 8, .pm = 8, .pn = 8, .splits = 1},
                                        {.bm = 64, .bn = 64, .bk = 16, .pm = 4, .pn = 4, .splits = 64}};
    bench *b = *state;
    ocl_gemm g = ocl_gemm_make(64, 64, 64, false, false);
    make_all(b, &g);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint8_t *out;
        assert_int_equal(run(b, &g, &bad[i], &out), CLT_EUNSUPPORTED);
    }
    free_all(b);
}

int main(int count, char **arguments)
{
    test_need_device();
    everything = count > 1 && strcmp(arguments[1], "all") == 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_same_bits, begin, end),
        cmocka_unit_test_setup_teardown(test_sizes, begin, end),
        cmocka_unit_test_setup_teardown(test_batches, begin, end),
        cmocka_unit_test_setup_teardown(test_wide_offsets, begin, end),
        cmocka_unit_test_setup_teardown(test_splits, begin, end),
        cmocka_unit_test_setup_teardown(test_splits_rounding, begin, end),
        cmocka_unit_test_setup_teardown(test_non_finite, begin, end),
        cmocka_unit_test(test_choice_fits_device),
        cmocka_unit_test(test_choice_by_size),
        cmocka_unit_test(test_choice_vectors),
        cmocka_unit_test(test_accepts),
        cmocka_unit_test_setup_teardown(test_impossible_records, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
