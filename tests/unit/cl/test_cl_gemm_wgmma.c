/* SPDX-License-Identifier: Apache-2.0
 *
 * The choice of tiles of the backend `wgmma`, of its stream-k and line sums, and of local memory as an
 * argument, on descriptions of GPUs without a device. ctest-labels: quick */
#include "cl/backends/gemm_mma.h"
#include "cl/backends/gemm_tile.h"
#include "cl/backends/gemm_wgmma.h"
#include "tests/unit/cl/gemm_form_test.h"

/* An H100 takes wgmma for products that are large enough for its tiles and that its copies can read. No
 * other device takes it. */
TEST(test_wgmma)
{
    static const struct {
        int64_t m, n, k;
        const char *variant;
    } products[] = {{8192, 8192, 8192, "wgmma"}, {8192, 3072, 768, "wgmma"}, {8192, 768, 768, "wgmma"},
                    {8192, 50304, 768, "wgmma"}, {128, 128, 128, "mma"},     {32, 4096, 512, "mma"}};
    static const clt_dtype types[] = {CLT_F16, CLT_BF16};
    ocl_device_desc hopper = gpu(90), none = gpu(90);
    const ocl_variant *variant;
    char reason[240];
    ocl_gemm_form f;
    hopper.compute_units = none.compute_units = 132;
    hopper.local_proven_bytes = none.local_proven_bytes = hopper.local_retargeted_bytes = 227 << 10;
    hopper.caps |= OCL_CAP_WGMMA | OCL_CAP_WGMMA_LARGE;
    for (size_t p = 0; p < sizeof products / sizeof products[0]; p++)
        for (int layout = 0; layout < 4; layout++)
            for (int t = 0; t < 2; t++) {
                ocl_gemm g = product(products[p].m, products[p].n, products[p].k, layout, types[t]);
                assert_ok(ocl_family_standard(&ocl_gemm_family, &g, &hopper, "test", &variant));
                assert_string_equal(variant->name, products[p].variant);
                assert_ok(ocl_family_standard(&ocl_gemm_family, &g, &none, "test", &variant));
                assert_string_equal(variant->name, "mma");
            }
    ocl_gemm g = product(8192, 8192, 8192, 1, CLT_BF16);
    assert_true(ocl_form_choose(&ocl_wgmma_family, &g, &hopper, NULL, &f, reason, sizeof reason));
    assert_int_equal(f.bm * f.bn, 256 * 128);
    assert_int_equal(f.stages, 4);
    assert_true(ocl_wgmma_local_bytes(&f) <= hopper.local_retargeted_bytes && ocl_wgmma_items(&f) <= 256);
    hopper.caps |= OCL_CAP_WGMMA_WIDE;
    assert_true(ocl_form_choose(&ocl_wgmma_family, &g, &hopper, NULL, &f, reason, sizeof reason));
    assert_int_equal(f.bm, 192);
    assert_int_equal(f.bn, 256);
    assert_true(ocl_wgmma_local_bytes(&f) <= hopper.local_retargeted_bytes && ocl_wgmma_items(&f) == 384);
    hopper.max_work_group = 256;
    assert_true(ocl_form_choose(&ocl_wgmma_family, &g, &hopper, NULL, &f, reason, sizeof reason));
    assert_true(ocl_wgmma_items(&f) <= 256);
    hopper.max_work_group = 1024;
    /* local memory for other programs does not count for sm_90a: forms of 48 KiB exist, though nobody would
     * choose them for speed */
    hopper.local_retargeted_bytes = 0;
    assert_true(ocl_form_choose(&ocl_wgmma_family, &g, &hopper, NULL, &f, reason, sizeof reason));
    assert_true(ocl_wgmma_local_bytes(&f) <= 48 << 10);
    hopper.local_retargeted_bytes = 160 << 10;
    assert_true(ocl_form_choose(&ocl_wgmma_family, &g, &hopper, NULL, &f, reason, sizeof reason));
    assert_true(ocl_wgmma_local_bytes(&f) > 96 << 10 && ocl_wgmma_local_bytes(&f) <= 160 << 10);
    hopper.local_proven_bytes = 48 << 10; /* nor is memory for sm_90a used by other programs */
    hopper.local_retargeted_bytes = 227 << 10;
    assert_true(ocl_form_choose(&ocl_mma_family, &g, &hopper, NULL, &f, reason, sizeof reason));
    assert_true(ocl_mma_local_bytes(&g, &f, false) <= 48 << 10);
    assert_true(ocl_form_choose(&ocl_wgmma_family, &g, &hopper, NULL, &f, reason, sizeof reason));
    assert_true(ocl_wgmma_local_bytes(&f) > 160 << 10);
    hopper.local_proven_bytes = 227 << 10; /* the self-test of large tiles for sm_90a fails */
    hopper.caps &= ~(uint32_t)OCL_CAP_WGMMA_LARGE;
    assert_true(ocl_form_choose(&ocl_wgmma_family, &g, &hopper, NULL, &f, reason, sizeof reason));
    assert_true(ocl_wgmma_local_bytes(&f) <= 48 << 10);
    hopper.caps |= OCL_CAP_WGMMA_LARGE;
    g.ldb = 8194;
    assert_false(ocl_variant_accepts(&ocl_gemm_wgmma, &g, &hopper, reason, sizeof reason));
    assert_contains(reason, "rows of B");
    g = product(8192, 8192, 8192, 1, CLT_F32);
    assert_false(ocl_variant_accepts(&ocl_gemm_wgmma, &g, &hopper, reason, sizeof reason));
    assert_contains(reason, "not f32 by f32");
    ocl_gemm_form wish = {.bm = 256, .bn = 256};
    assert_false(ocl_form_choose(&ocl_wgmma_family, &g, &hopper, &wish, &f, reason, sizeof reason));
}

/* Emits the product and checks how its kernel gets local memory: as an argument of `bytes` bytes, 0: as an
 * array. */
static void expect_argument(const ocl_gemm *g, const ocl_device_desc *d, const char *backend, uint64_t bytes)
{
    ocl_command_list list = {0};
    ocl_emitter e = {.list = &list, .device = d, .label = "test"};
    assert_ok(clt_arena_create(&list.arena));
    ocl_gemm own = *g;
    own.a.tensor = 0;
    own.b.tensor = 1;
    own.c.tensor = 2;
    assert_ok(ocl_gemm_emit(&e, &own, backend));
    assert_int_equal(list.count, 1);
    const ocl_command *c = &list.commands[0];
    const ocl_arg *last = &c->args[c->n_args - 1];
    assert_int_equal(strstr(c->options, "LOCAL_ARGUMENT=1") != NULL, bytes > 0);
    assert_int_equal(last->kind == OCL_ARG_LOCAL, bytes > 0);
    if (bytes > 0)
        assert_int_equal(last->value.u64, bytes);
    ocl_emitter_free(&e);
    CLT_SCOPED(clt_arena) *arena = list.arena;
    ocl_command_list_free(&list);
}

/* Local memory as an argument allows the same forms as arrays of that size, and is used only where arrays
 * are too small. */
TEST(test_local_argument)
{
    static const struct {
        int generation;
        uint32_t units;
        uint64_t kib;
    } devices[] = {{90, 132, 227}, {80, 108, 163}, {89, 128, 99}};
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++) {
        ocl_gemm g = product(8192, 8192, 8192, 1, CLT_BF16);
        ocl_device_desc arrays = gpu(devices[i].generation), argument = arrays, both = arrays;
        ocl_gemm_form from_arrays, from_argument;
        char reason[240];
        arrays.compute_units = argument.compute_units = both.compute_units = devices[i].units;
        arrays.local_proven_bytes = argument.local_argument_bytes = devices[i].kib << 10;
        both.local_proven_bytes = both.local_argument_bytes = devices[i].kib << 10;
        assert_true(ocl_form_choose(&ocl_mma_family, &g, &arrays, NULL, &from_arrays, reason, sizeof reason));
        assert_true(
            ocl_form_choose(&ocl_mma_family, &g, &argument, NULL, &from_argument, reason, sizeof reason));
        assert_memory_equal(&from_arrays, &from_argument, sizeof from_arrays);
        uint64_t bytes = ocl_mma_local_bytes(&g, &from_argument, false);
        assert_true(bytes > 48 << 10);
        expect_argument(&g, &argument, "mma", bytes + 128);
        expect_argument(&g, &arrays, "mma", 0);
        expect_argument(&g, &both, "mma", 0);
        ocl_gemm small = product(128, 128, 128, 1, CLT_BF16);
        expect_argument(&small, &argument, "mma", 0);
        /* tiles of plain kernels are always arrays */
        assert_int_equal(ocl_form_room(&ocl_tile_family, &argument), 48 << 10);
    }
}

/* Programs for sm_90a: the tile is aligned to 1024 bytes, and the largest tile needs 225 KiB with its
 * column of ones. */
TEST(test_wgmma_argument)
{
    ocl_gemm g = product(8192, 8192, 8192, 1, CLT_BF16);
    ocl_device_desc d = gpu(90);
    ocl_gemm_form f;
    char reason[240];
    d.compute_units = 132;
    d.caps |= OCL_CAP_WGMMA | OCL_CAP_WGMMA_LARGE | OCL_CAP_WGMMA_WIDE;
    d.local_argument_bytes = 227 << 10;
    assert_true(ocl_form_choose(&ocl_wgmma_family, &g, &d, NULL, &f, reason, sizeof reason));
    assert_int_equal(f.bm * f.bn * f.stages, 192 * 256 * 4);
    assert_true(ocl_wgmma_family.makes_line_sums(&g, &d, &f));
    expect_argument(&g, &d, "wgmma", (224 << 10) + 1024);
    d.local_argument_bytes = (225 << 10) + 512;
    assert_false(ocl_wgmma_family.makes_line_sums(&g, &d, &f));
    d.local_retargeted_bytes = 227 << 10;
    assert_true(ocl_wgmma_family.makes_line_sums(&g, &d, &f));
    expect_argument(&g, &d, "wgmma", 0);
    d.local_retargeted_bytes = 48 << 10;
    d.local_argument_bytes = 224 << 10; /* no room for what alignment may take */
    assert_true(ocl_form_choose(&ocl_wgmma_family, &g, &d, NULL, &f, reason, sizeof reason));
    assert_true(ocl_wgmma_local_bytes(&f) < 224 << 10 && ocl_wgmma_local_bytes(&f) > 96 << 10);
}

static int32_t some_workspace(void *owner, clt_dtype dtype, uint64_t elements, const char *name)
{
    (void)owner, (void)dtype, (void)elements, (void)name;
    return 9;
}

/* Which variants make the sums of A's lines; they cost no command. */
TEST(test_line_sums)
{
    static const struct {
        uint32_t caps;
        uint64_t kib; /* local memory of retargeted programs */
        int64_t m, n, k;
        bool made;
        size_t commands;
    } cases[] = {{OCL_CAP_WGMMA | OCL_CAP_WGMMA_LARGE, 224, 768, 768, 16384, true, 2}, /* parts of k */
                 {OCL_CAP_WGMMA | OCL_CAP_WGMMA_LARGE, 224, 16384, 4096, 512, true, 1},
                 /* tiles of 192 x 256: 224 KiB have no room for the ones beside them, 227 have */
                 {OCL_CAP_WGMMA | OCL_CAP_WGMMA_LARGE | OCL_CAP_WGMMA_WIDE, 224, 768, 3072, 16384, false, 2},
                 {OCL_CAP_WGMMA | OCL_CAP_WGMMA_LARGE | OCL_CAP_WGMMA_WIDE, 227, 768, 3072, 16384, true, 2},
                 {0, 224, 768, 768, 16384, false, 2}, /* mma */
                 {OCL_CAP_WGMMA | OCL_CAP_WGMMA_LARGE, 224, 768, 0, 16384, false, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ocl_device_desc d = gpu(90);
        ocl_command_list list = {0};
        ocl_emitter e = {.list = &list, .device = &d, .label = "test", .workspace = some_workspace};
        ocl_gemm g = product(cases[i].m, cases[i].n, cases[i].k, 2, CLT_BF16);
        ocl_line_sums sums = {.out = 3, .made = true};
        d.compute_units = 132;
        d.local_retargeted_bytes = cases[i].kib << 10;
        d.caps |= cases[i].caps;
        g.a.tensor = 0;
        g.b.tensor = 1;
        g.c.tensor = 2;
        g.line_sums = &sums;
        assert_ok(clt_arena_create(&list.arena));
        assert_ok(ocl_gemm_emit(&e, &g, NULL));
        assert_int_equal(list.count, cases[i].commands);
        assert_int_equal(sums.made, cases[i].made);
        for (size_t k = 0; k < list.count; k++)
            assert_int_equal(strstr(list.commands[k].options, "LINE_SUMS=1") != NULL, cases[i].made);
        g.batch = 2;
        g.stride_c = g.m * g.n + 1;
        assert_int_equal(ocl_gemm_check(&g), CLT_ESHAPE);
        clt_error_clear();
        g.line_sums = NULL;
        assert_ok(ocl_gemm_check(&g));
        ocl_emitter_free(&e);
        ocl_command_list_free(&list);
        clt_arena_destroy(list.arena);
    }
}

static ocl_device_desc h100(void)
{
    ocl_device_desc d = gpu(90);
    d.compute_units = 132;
    d.local_retargeted_bytes = 227 << 10;
    d.caps |= OCL_CAP_WGMMA | OCL_CAP_WGMMA_LARGE | OCL_CAP_WGMMA_WIDE;
    return d;
}

/* The gradients of GPT-2's weights with 16384 tokens: each of them leaves few compute units of an H100
 * idle. Stream-k is taken where no number of parts brings the number of tiles near a multiple of 132. */
TEST(test_weight_gradients_fill)
{
    static const struct {
        int64_t m, n;
        bool streams;
    } weights[] = {{768, 768, false}, {2304, 768, true}, {3072, 768, true}, {768, 3072, true}};
    ocl_device_desc d = h100();
    for (size_t i = 0; i < sizeof weights / sizeof weights[0]; i++) {
        ocl_gemm g = product(weights[i].m, weights[i].n, 16384, 2, CLT_BF16);
        ocl_gemm_form f;
        char reason[240];
        assert_true(ocl_form_choose(&ocl_wgmma_family, &g, &d, NULL, &f, reason, sizeof reason));
        double groups = (double)ocl_form_groups(&g, &f);
        assert_true(groups / (132.0 * (double)ocl_form_up((int64_t)groups, 132)) >= 0.95);
        assert_int_equal(f.stream > 0, weights[i].streams);
        if (f.stream > 0) { /* all groups have about as many steps */
            ocl_form_shares s;
            ocl_form_shares_of(&g, &f, &s);
            double busiest = (double)(s.part_steps > s.other_steps ? s.part_steps : s.other_steps);
            assert_true((double)(s.tiles * s.steps) / (132.0 * busiest) >= 0.95);
        }
    }
}

/* The shares of the groups, counted step by step as the kernel does. */
static void check_shares(const ocl_gemm *g, const ocl_gemm_form *f)
{
    ocl_form_shares s;
    ocl_form_shares_of(g, f, &s);
    int64_t rest = s.steps - s.own_parts * s.part_steps, pairs = s.tiles * s.own_parts, at = 0;
    int64_t other_steps = 0, of_tiles = 0, last_slot = s.tiles * s.own_parts - 1;
    assert_true(s.tiles * s.own_parts + s.others <= f->groups);
    assert_true(s.own_parts == 0 || (s.own_parts - 1) * s.part_steps < s.steps);
    assert_int_equal(rest > 0, s.others > 0);
    for (int64_t x = 0; x < s.others; x++) {
        int64_t all = s.tiles * rest, end = at + all / s.others + (x < all % s.others), tiles = 0;
        other_steps = end - at > other_steps ? end - at : other_steps;
        for (; at < end; at += rest - at % rest < end - at ? rest - at % rest : end - at) {
            int64_t slot = s.tiles * s.own_parts + x + at / rest;
            assert_true(slot > last_slot && slot < s.slots); /* no other group has it */
            last_slot = slot;
            tiles++;
        }
        pairs += tiles;
        of_tiles = tiles > of_tiles ? tiles : of_tiles;
    }
    assert_int_equal(at, s.others > 0 ? s.tiles * rest : 0);
    assert_true(pairs == s.pairs && other_steps == s.other_steps && of_tiles == s.of_tiles);
    /* no group has much more than an equal share, in which each further tile counts as one step */
    int64_t most = (s.part_steps > other_steps ? s.part_steps : other_steps);
    assert_true(most <= ocl_form_up(s.tiles * s.steps, f->groups) + (s.own_parts > 0 ? of_tiles : 0));
}

TEST(test_shares)
{
    static const int groups[] = {1, 2, 3, 5, 7, 13, 20, 29, 60, 108, 132, 264};
    for (int64_t m = 64; m <= 2304; m = 2 * m + 61)
        for (int64_t n = 1; n <= 3072; n = 3 * n + 100)
            for (int64_t k = 1; k <= 20000; k = 3 * k + 60)
                for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
                    ocl_gemm g = product(m, n, k, 2, CLT_BF16);
                    ocl_gemm_form f = {
                        .bm = 192, .bn = 256, .bk = 64, .splits = 1, .stream = 1, .groups = groups[i]};
                    check_shares(&g, &f);
                    assert_true(ocl_form_groups(&g, &f) <= (uint64_t)groups[i]);
                }
}

/* What is emitted, what a record may ask for, and what a refusal costs. */
TEST(test_emitted_stream)
{
    ocl_device_desc d = h100();
    ocl_command_list list = {0};
    ocl_emitter e = {.list = &list, .device = &d, .label = "test", .workspace = some_workspace};
    ocl_gemm g = product(768, 3072, 16384, 2, CLT_BF16);
    ocl_gemm_form wanted = {0}, f;
    char reason[240];
    g.a.tensor = 0;
    g.b.tensor = 1;
    g.c.tensor = 2;
    assert_ok(clt_arena_create(&list.arena));
    assert_ok(ocl_gemm_emit(&e, &g, NULL));
    assert_int_equal(list.count, 2);
    for (size_t i = 0; i < 2; i++)
        assert_non_null(strstr(list.commands[i].options, "-DSTREAM=1"));
    assert_string_equal(list.commands[0].form, "bm=192 bn=256 stages=4 stream");
    ocl_emitter_free(&e);
    ocl_command_list_free(&list);
    clt_arena_destroy(list.arena);
    ocl_form_want_split(&wanted, 3); /* of a record */
    assert_true(ocl_form_choose(&ocl_wgmma_family, &g, &d, &wanted, &f, reason, sizeof reason));
    assert_true(f.splits == 3 && f.stream == 0);
    ocl_form_want_split(&wanted, -2);
    assert_true(ocl_form_choose(&ocl_wgmma_family, &g, &d, &wanted, &f, reason, sizeof reason));
    assert_true(f.splits == 1 && f.stream == 2 && f.groups == 264);
    assert_false(ocl_form_choose(&ocl_mma_family, &g, &d, &wanted, &f, reason, sizeof reason));
    assert_contains(reason, "split=-2");
    ocl_form_want_split(&wanted, -1);
    g.k = 0;
    assert_false(ocl_form_choose(&ocl_wgmma_family, &g, &d, &wanted, &f, reason, sizeof reason));
    /* sums of A's lines: not with stream-k in the widest form, but in the layout of weights' gradients */
    f = (ocl_gemm_form){
        .bm = 192, .bn = 256, .bk = 64, .pm = 64, .pn = 256, .stages = 4, .splits = 1, .stream = 1};
    assert_true(ocl_wgmma_family.makes_line_sums(&g, &d, &f));
    g.ta = false;
    assert_false(ocl_wgmma_family.makes_line_sums(&g, &d, &f));
    f.stream = 0;
    assert_true(ocl_wgmma_family.makes_line_sums(&g, &d, &f));
}
