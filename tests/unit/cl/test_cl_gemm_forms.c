/* SPDX-License-Identifier: Apache-2.0
 *
 * The choice of tiles (cl/gemm/gemm_forms.c) for the backends `tile` and `mma` on descriptions of GPUs of
 * several generations, without a device: what is chosen fits, follows the problem's shape, respects forced
 * choices and records, uses the instructions that probes have shown, and refusals have reasons.
 * ctest-labels: quick */
#include "cl/backends/gemm_mma.h"
#include "cl/backends/gemm_tile.h"
#include "cl/backends/gemm_wgmma.h"
#include "cl/gemm/gemm_windows.h"
#include "cl/tune/tuning.h"
#include "tests/unit/cl/gemm_form_test.h"

#define BOTH 2
static const ocl_form_family *const families[BOTH] = {&ocl_tile_family, &ocl_mma_family};

static uint64_t local_bytes(const ocl_form_family *family, const ocl_gemm *g, const ocl_gemm_form *f)
{
    return family == &ocl_mma_family ? ocl_mma_local_bytes(g, f, false) : ocl_tile_local_bytes(g, f);
}

static ocl_gemm_form chosen(const ocl_form_family *family, const ocl_gemm *g, const ocl_device_desc *d)
{
    ocl_gemm_form f;
    char reason[240];
    if (!ocl_form_choose(family, g, d, NULL, &f, reason, sizeof reason))
        fail_msg("%s", reason);
    int items = family == &ocl_mma_family ? ocl_mma_items(&f) : ocl_tile_items(&f);
    assert_true(items <= ocl_form_max_items(d));
    assert_true(local_bytes(family, g, &f) <= d->local_bytes);
    assert_true(f.splits >= 1 && (f.splits - 1) * ocl_form_part_steps(g, &f) < (g->k > 0 ? g->k : 1));
    assert_true(ocl_form_workspace(g, &f) <= UINT64_C(1) << 24);
    return f;
}

TEST(test_fits_everywhere)
{
    static const int64_t sizes[][3] = {{8192, 8192, 8192}, {256, 768, 3072}, {768, 50257, 256},
                                       {1, 3072, 768},     {64, 64, 64},     {4096, 8, 512},
                                       {8, 4096, 512},     {3, 5, 0}};
    static const int generations[] = {70, 75, 80, 90, 120};
    static const clt_dtype types[] = {CLT_F16, CLT_BF16, CLT_F32};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (size_t v = 0; v < sizeof generations / sizeof generations[0]; v++)
            for (int t = 0; t < 3; t++)
                for (int layout = 0; layout < 4; layout++) {
                    ocl_gemm g = product(sizes[s][0], sizes[s][1], sizes[s][2], layout, types[t]);
                    ocl_device_desc d = gpu(generations[v]);
                    chosen(&ocl_tile_family, &g, &d);
                    if (ocl_mma_generation(types[t], &d) != 0)
                        chosen(&ocl_mma_family, &g, &d);
                }
}

TEST(test_shape_decides)
{
    ocl_device_desc d = gpu(90);
    for (int i = 0; i < BOTH; i++) {
        ocl_gemm large = product(8192, 8192, 8192, 0, CLT_F16), small = product(128, 128, 128, 0, CLT_F16);
        ocl_gemm tall = product(65536, 32, 512, 1, CLT_F16), wide = product(32, 65536, 512, 1, CLT_F16);
        ocl_gemm deep = product(64, 64, 65536, 2, CLT_F16);
        ocl_gemm_form f = chosen(families[i], &large, &d);
        assert_true(f.bm * f.bn >= 128 * 64 && f.splits == 1);
        f = chosen(families[i], &small, &d);
        assert_true(f.bm * f.bn <= 64 * 64); /* one large tile would leave 107 units idle */
        f = chosen(families[i], &tall, &d);
        assert_true(f.bn <= 64 && f.bm >= f.bn);
        f = chosen(families[i], &wide, &d);
        assert_true(f.bm <= 64 && f.bn >= f.bm);
        f = chosen(families[i], &deep, &d);
        assert_true(f.splits > 1 && ocl_form_workspace(&deep, &f) == (uint64_t)(f.splits * 64 * 64));
        assert_int_equal(ocl_form_part_steps(&deep, &f) % f.bk, 0);
    }
}

TEST(test_instructions)
{
    ocl_gemm f16 = product(4096, 4096, 4096, 1, CLT_F16), bf16 = product(4096, 4096, 4096, 1, CLT_BF16);
    ocl_gemm tf32 = product(4096, 4096, 4096, 1, CLT_F32);
    ocl_device_desc volta = gpu(70), turing = gpu(75), ampere = gpu(80);
    ocl_gemm_form f = chosen(&ocl_mma_family, &f16, &ampere);
    assert_int_equal(f.sm, 80);
    int bk = f.bk;
    f = chosen(&ocl_mma_family, &tf32, &ampere);
    assert_int_equal(f.sm, 80);
    assert_int_equal(f.bk, bk / 2); /* the same bytes */
    assert_int_equal(chosen(&ocl_mma_family, &bf16, &ampere).sm, 80);
    f = chosen(&ocl_mma_family, &f16, &turing);
    assert_int_equal(f.sm, 75);
    assert_int_equal(f.stages, 2); /* no asynchronous copies */
    f = chosen(&ocl_mma_family, &f16, &volta);
    assert_int_equal(f.sm, 70);
    assert_int_equal(f.stages, 2);
    /* rows of local memory are a chunk longer for wmma */
    ocl_gemm_form padded = f, dense = f;
    dense.sm = 75;
    assert_int_equal(ocl_mma_local_bytes(&f16, &padded, false),
                     ocl_mma_local_bytes(&f16, &dense, false) + 16ull * 2 * (uint64_t)(f.bm + f.bn));
    /* a probe that failed there takes the units away, whatever the generation */
    ampere.caps &= ~(uint32_t)OCL_CAP_MMA_F16;
    assert_int_equal(ocl_mma_generation(CLT_F16, &ampere), 0);
    assert_int_equal(ocl_mma_generation(CLT_BF16, &ampere), 80);
}

static void refused(const ocl_gemm *g, const ocl_device_desc *d, const char *why)
{
    char reason[240] = "";
    const ocl_variant *variant;
    if (ocl_variant_accepts(&ocl_gemm_mma, g, d, reason, sizeof reason))
        fail_msg("mma took a product that it must refuse (%s)", why);
    assert_contains(reason, why);
    assert_ok(ocl_family_standard(&ocl_gemm_family, g, d, "test", &variant)); /* another variant takes it */
    assert_string_not_equal(variant->name, "mma");
}

TEST(test_refusals)
{
    ocl_gemm f16 = product(512, 512, 512, 0, CLT_F16), bf16 = product(512, 512, 512, 0, CLT_BF16);
    ocl_gemm f32 = product(512, 512, 512, 0, CLT_F32), mixed = f16;
    ocl_device_desc turing = gpu(75), ampere = gpu(80), none = gpu(60);
    const ocl_variant *variant;
    char reason[240];
    mixed.type_b = CLT_F32;
    refused(&mixed, &ampere, "not f16 by f32");
    refused(&bf16, &turing, "no matrix units for bf16");
    refused(&f32, &turing, "no matrix units for tf32");
    refused(&f16, &none, "no matrix units for f16");
    /* The checker tries every style, but NVIDIA's compiler refuses instructions that its GPU does not
     * have. */
    turing.quirks |= OCL_QUIRK_ANY_STYLE;
    none.quirks |= OCL_QUIRK_ANY_STYLE;
    refused(&bf16, &turing, "no matrix units for bf16");
    refused(&f32, &turing, "no matrix units for tf32");
    refused(&f16, &none, "no matrix units for f16");
    none.compute_capability = 0; /* another vendor's GPU: plain arithmetic replaces the instructions */
    assert_true(ocl_variant_accepts(&ocl_gemm_mma, &f16, &none, reason, sizeof reason));
    assert_true(ocl_variant_accepts(&ocl_gemm_mma, &bf16, &none, reason, sizeof reason));
    turing.quirks = none.quirks = 0;
    f32.tf32 = false;
    refused(&f32, &ampere, "precision.matmul ieee");
    ocl_gemm apart = f16; /* the kernel counts a row's elements with 32 bits */
    apart.lda = INT64_C(1) << 32;
    refused(&apart, &ampere, "rows of A lie more than 2^32 elements apart");
    apart.ldb = apart.lda--;
    refused(&apart, &ampere, "rows of B lie more than 2^32 elements apart");
    assert_ok(ocl_family_standard(&ocl_gemm_family, &bf16, &turing, "test", &variant));
    assert_string_equal(variant->name, "tile");
    ampere.local_bytes = ampere.local_proven_bytes = 2 << 10;
    refused(&f16, &ampere, "2048 bytes of local memory");
    assert_ok(ocl_family_standard(&ocl_gemm_family, &f16, &turing, "test", &variant));
    assert_string_equal(variant->name, "mma");
}

/* More stages where probes have shown more local memory to work, and never more than they have shown. */
TEST(test_proven_local_memory)
{
    static const struct {
        int generation;
        uint32_t units;
        uint64_t kib;
        int stages;
    } devices[] = {
        {90, 132, 227, 4}, {80, 108, 163, 4}, {89, 128, 99, 4}, {80, 108, 72, 3}, {80, 108, 48, 2}};
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++) {
        ocl_gemm g = product(8192, 8192, 8192, 1, CLT_BF16);
        ocl_device_desc d = gpu(devices[i].generation);
        ocl_gemm_form f;
        char reason[240];
        d.compute_units = devices[i].units;
        d.local_proven_bytes = devices[i].kib << 10;
        assert_true(ocl_form_choose(&ocl_mma_family, &g, &d, NULL, &f, reason, sizeof reason));
        assert_int_equal(f.bm * f.bn, 256 * 128);
        assert_int_equal(f.stages, devices[i].stages);
        assert_true(ocl_mma_local_bytes(&g, &f, false) <= d.local_proven_bytes);
    }
}

/* 16-bit lines along k fill a sector of 32 bytes where that costs no work-group on a unit; f32 ones do
 * anyway. */
TEST(test_lines_of_tile)
{
    ocl_device_desc d = gpu(60);
    ocl_gemm_form wish = {.bm = 128, .bn = 128, .pm = 8, .pn = 8}, f;
    char reason[240];
    for (int layout = 0; layout < 4; layout++) {
        ocl_gemm half = product(4096, 4096, 4096, layout, CLT_BF16),
                 f32 = product(4096, 4096, 4096, layout, CLT_F32);
        assert_true(ocl_form_choose(&ocl_tile_family, &half, &d, &wish, &f, reason, sizeof reason));
        assert_int_equal(f.bk, layout == 2 ? 8 : 16); /* TN: k runs along neither */
        assert_true(layout == 2 || layout == 3 || f.va == 8);
        assert_true(ocl_form_choose(&ocl_tile_family, &f32, &d, &wish, &f, reason, sizeof reason));
        assert_int_equal(f.bk, 8);
    }
    ocl_gemm half = product(4096, 4096, 4096, 1, CLT_BF16);
    wish.bk = 8; /* a record's */
    assert_true(ocl_form_choose(&ocl_tile_family, &half, &d, &wish, &f, reason, sizeof reason));
    assert_int_equal(f.bk, 8);
    wish.bk = 0;
    d.local_bytes = d.local_proven_bytes = 24 << 10; /* no room */
    assert_true(ocl_form_choose(&ocl_tile_family, &half, &d, &wish, &f, reason, sizeof reason));
    assert_int_equal(f.bk, 8);
}

/* CLBlast is chosen only by records: without one, `tile` takes large plain f32 products on a GPU, too. */
TEST(test_library_needs_record)
{
    ocl_gemm g = product(8192, 3072, 768, 0, CLT_F32);
    ocl_device_desc d = gpu(80);
    const ocl_variant *variant;
    g.tf32 = false;
    assert_ok(ocl_family_standard(&ocl_gemm_family, &g, &d, "test", &variant));
    assert_string_equal(variant->name, "tile");
    d.local_bytes = d.local_proven_bytes = 1 << 10; /* no room for tiles */
    assert_ok(ocl_family_standard(&ocl_gemm_family, &g, &d, "test", &variant));
    assert_string_equal(variant->name, "simple");
}

TEST(test_wishes)
{
    ocl_gemm g = product(512, 512, 4096, 0, CLT_F16);
    ocl_device_desc d = gpu(80);
    ocl_gemm_form f, wish = {.bm = 64, .bn = 64, .splits = 4};
    char reason[240];
    for (int i = 0; i < BOTH; i++) {
        assert_true(ocl_form_choose(families[i], &g, &d, &wish, &f, reason, sizeof reason));
        assert_int_equal(f.bm, 64);
        assert_int_equal(f.bn, 64);
        assert_int_equal(f.splits, 4);
    }
    wish = (ocl_gemm_form){.bm = 256, .bn = 256};
    assert_false(ocl_form_choose(&ocl_mma_family, &g, &d, &wish, &f, reason, sizeof reason));
    assert_contains(reason, "bm=256 bn=256");
    wish = (ocl_gemm_form){.sm = 75}; /* no probe ran for it */
    assert_false(ocl_form_choose(&ocl_mma_family, &g, &d, &wish, &f, reason, sizeof reason));
    assert_contains(reason, "sm=75");
    wish = (ocl_gemm_form){.splits = 64}; /* some parts would have no step */
    g.k = 128;
    assert_false(ocl_form_choose(&ocl_tile_family, &g, &d, &wish, &f, reason, sizeof reason));
    assert_contains(reason, "split=64");
}

TEST(test_vectors_of_c)
{
    ocl_gemm g = product(64, 64, 64, 0, CLT_F16);
    ocl_gemm_form f = {.splits = 1};
    assert_int_equal(ocl_form_vector(&g, &f), 4); /* C is f32 */
    g.type_c = CLT_F16;
    assert_int_equal(ocl_form_vector(&g, &f), 8);
    g.bias = (ocl_tensor_ref){1, 8};
    assert_int_equal(ocl_form_vector(&g, &f), 1);
    g.bias.offset = 32;
    g.residual = (ocl_tensor_ref){2, 16};
    assert_int_equal(ocl_form_vector(&g, &f), 8);
    g.ldc = 68; /* rows start at multiples of 8 bytes */
    assert_int_equal(ocl_form_vector(&g, &f), 1);
    g.ldc = 64;
    g.stride_c = 4;
    assert_int_equal(ocl_form_vector(&g, &f), 8); /* one item */
    g.batch = 2;
    assert_int_equal(ocl_form_vector(&g, &f), 1);
    f.splits = 2; /* each part's sums lie in memory of their own */
    assert_int_equal(ocl_form_vector(&g, &f), 4);
    g.n = 63;
    assert_int_equal(ocl_form_vector(&g, &f), 1);
}

/* What is emitted for f32 when precision.matmul is tf32. */
TEST(test_emitted_tf32)
{
    ocl_device_desc d = gpu(80);
    for (int tf32 = 0; tf32 < 2; tf32++) {
        ocl_command_list list = {0};
        ocl_emitter e = {.list = &list, .device = &d, .label = "test", .tf32 = tf32 != 0};
        ocl_gemm g = ocl_gemm_make(256, 256, 256, false, true), half = product(256, 256, 256, 1, CLT_F16);
        g.a.tensor = half.a.tensor = 0;
        g.b.tensor = half.b.tensor = 1;
        g.c.tensor = half.c.tensor = 2;
        assert_ok(clt_arena_create(&list.arena));
        assert_ok(ocl_gemm_emit(&e, &g, NULL));
        assert_ok(ocl_gemm_emit(&e, &half, NULL));
        assert_int_equal(list.count, 2);
        assert_string_equal(list.commands[0].variant, tf32 ? "mma" : "tile");
        assert_string_equal(list.commands[1].variant, "mma");
        assert_int_equal(strstr(list.commands[0].options, "MMA_TF32=1") != NULL, tf32);
        assert_non_null(strstr(list.commands[1].options, "MMA_TF32=0"));
        ocl_emitter_free(&e);
        ocl_command_list_free(&list);
        clt_arena_destroy(list.arena);
    }
}

/* Records of products with full f32 precision do not apply to products with tf32. */
TEST(test_problem_text)
{
    char ieee[OCL_TUNE_PROBLEM], tf32[OCL_TUNE_PROBLEM];
    ocl_gemm g = product(8, 8, 8, 0, CLT_F32);
    ocl_gemm_problem(&g, tf32, sizeof tf32);
    g.tf32 = false;
    ocl_gemm_problem(&g, ieee, sizeof ieee);
    assert_contains(tf32, "+tf32");
    assert_string_not_equal(tf32, ieee);
}

/* The gradient of the weight of a layer of `depth` x 14 x 14 places: B is the matrix of windows. */
static ocl_gemm weight_gradient(int64_t depth, clt_dtype type)
{
    int64_t taps = depth > 1 ? 27 : 9, places = 64 * depth * 14 * 14;
    ocl_gemm g = product(256, taps * 128, places, 2, type);
    g.windows = (ocl_windows){.operand = OCL_WINDOWS_B,
                              .in = {depth, 14, 14},
                              .out = {depth, 14, 14},
                              .kernel = {depth > 1 ? 3 : 1, 3, 3},
                              .stride = {1, 1, 1},
                              .dilation = {1, 1, 1},
                              .padding = {depth > 1 ? 1 : 0, 1, 1},
                              .channels = 128,
                              .place = 128,
                              .elements = places * 128};
    return g;
}

TEST(test_windows_of_b)
{
    static const clt_dtype types[] = {CLT_F16, CLT_BF16};
    ocl_device_desc hopper = gpu(90);
    ocl_gemm image = weight_gradient(1, CLT_F16), volume = weight_gradient(4, CLT_F16), one = image;
    const ocl_variant *variant;
    char reason[240] = "";
    hopper.compute_units = 132;
    hopper.local_proven_bytes = hopper.local_retargeted_bytes = 227 << 10;
    hopper.caps |= OCL_CAP_WGMMA | OCL_CAP_WGMMA_LARGE | OCL_CAP_WGMMA_WIDE;
    for (int t = 0; t < 2; t++)
        for (int64_t depth = 1; depth <= 4; depth += 3) {
            ocl_gemm g = weight_gradient(depth, types[t]);
            assert_ok(ocl_family_standard(&ocl_gemm_family, &g, &hopper, "test", &variant));
            assert_string_equal(variant->name, "wgmma");
        }
    ocl_gemm single = weight_gradient(1, CLT_F32); /* transposed operands have 16 bits */
    assert_false(ocl_variant_accepts(&ocl_gemm_wgmma, &single, &hopper, reason, sizeof reason));
    assert_contains(reason, "not f32 by f32");
    for (const ocl_gemm_form *form = ocl_wgmma_forms; form->bm; form++) {
        ocl_gemm_form f = *form;
        ocl_wgmma_family.complete(&image, &hopper, form, &f);
        if (!ocl_wgmma_family.fits(&image, &hopper, &f))
            continue;
        int steps = ocl_wgmma_window_steps(&image, &f);
        /* a tile takes whole rounds, of which at most two have different swizzles */
        assert_true(steps >= 4 && f.bk % steps == 0);
    }
    /* a depth that exists counts even if the windows do not move along it */
    assert_int_equal(ocl_windows_dims(&image.windows), 2);
    assert_int_equal(ocl_windows_dims(&volume.windows), 3);
    one.windows.padding[0] = 1;
    one.windows.kernel[0] = 3;
    assert_int_equal(ocl_windows_dims(&one.windows), 3);
}

/* Kernels of windows have the most arguments, with every operand of an epilogue. */
TEST(test_most_arguments)
{
    int most = 0;
    for (int lanes = 0; lanes < 2; lanes++)
        for (const ocl_variant *const *v = ocl_gemm_variants; *v != NULL; v++) {
            ocl_device_desc d = gpu(90);
            char reason[240];
            d.caps |= OCL_CAP_WGMMA | OCL_CAP_WGMMA_LARGE | (lanes ? (uint32_t)OCL_CAP_WIDE_VECTORS : 0);
            d.is_cpu = lanes != 0;
            d.vector_floats = 16;
            ocl_gemm g = product(64 * 14 * 14, 64, 9 * 128, 1, CLT_F16);
            g.type_c = CLT_F16;
            g.windows = weight_gradient(1, CLT_F16).windows;
            g.windows.operand = OCL_WINDOWS_A;
            g.a.tensor = 0, g.b.tensor = 1, g.c.tensor = 2;
            g.bias = ocl_ref(3), g.residual = ocl_ref(4), g.pre = ocl_ref(5);
            g.activation = OCL_ACT_RELU;
            if (!ocl_variant_accepts(*v, &g, &d, reason, sizeof reason))
                continue;
            ocl_command_list list = {0};
            ocl_emitter e = {.list = &list, .device = &d, .label = "test"};
            assert_ok(clt_arena_create(&list.arena));
            assert_ok(ocl_gemm_emit(&e, &g, (*v)->name));
            for (size_t i = 0; i < list.count; i++)
                most = list.commands[i].n_args > most ? list.commands[i].n_args : most;
            ocl_emitter_free(&e);
            ocl_command_list_free(&list);
            clt_arena_destroy(list.arena);
        }
    /* fewer than three more would be too few for the next operand of an epilogue (cl/command/command.h) */
    assert_true(most >= 40 && most + 3 <= OCL_MAX_ARGS);
}
