/* SPDX-License-Identifier: Apache-2.0
 *
 * ctest-labels: quick
 *
 * What a device gives up when it refuses commands, in which order, and that plans then do without it. Needs
 * no device. */
#include "tests/unit/cl/cl_test.h"

#include "cl/backends/gemm_tile.h"
#include "cl/backends/gemm_wgmma.h"
#include "cl/command/fallback.h"
#include "engine/plan/plan.h"

static clt_status no_emit(ocl_emitter *e, const void *problem)
{
    (void)e;
    (void)problem;
    return CLT_OK;
}
static bool too_slow(const void *problem, const ocl_device_desc *device, char *reason, size_t size)
{
    (void)problem;
    snprintf(reason, size, "too slow");
    return (device->quirks & OCL_QUIRK_ANY_STYLE) != 0;
}
static const ocl_variant fast = {.name = "fast", .needs = OCL_CAP_LOCAL, .emit = no_emit};
static const ocl_variant slow = {.name = "slow", .accepts = too_slow, .emit = no_emit};
static const ocl_variant plain = {.name = "plain", .emit = no_emit};
static const ocl_variant third = {.name = "third", .needs = OCL_CAP_LOCAL, .emit = no_emit};

static ocl_refusal refusal(const ocl_variant *variant, const char *kernel, const char *form, uint32_t needs)
{
    ocl_refusal r = {.refused = true, .variant = variant, .needs = needs | (variant ? variant->needs : 0)};
    snprintf(r.kernel, sizeof r.kernel, "%s", kernel);
    snprintf(r.form, sizeof r.form, "%s", form);
    snprintf(r.label, sizeof r.label, "test");
    return r;
}

/* Gives up one thing for the refusal, and returns its name. */
static const char *once(ocl_device_desc *d, ocl_refusal r)
{
    static char what[240];
    if (!ocl_give_up(d, &r, what, sizeof what))
        return "nothing";
    return what;
}

static ocl_device_desc gpu(uint32_t caps)
{
    ocl_device_desc d;
    ocl_desc_generic(&d);
    d.caps = caps;
    return d;
}

/* An optional capability is given up first. It comes back if the same kernel is refused without it, but not
 * for another kernel. */
TEST(test_decorations)
{
    ocl_device_desc d = gpu(OCL_CAP_NONTEMPORAL | OCL_CAP_WIDE_VECTORS);
    assert_string_equal(once(&d, refusal(&plain, "k", "", OCL_CAP_NONTEMPORAL)), "capability nontemporal");
    assert_int_equal(d.caps, OCL_CAP_WIDE_VECTORS);
    assert_string_equal(once(&d, refusal(&plain, "k", "", 0)), "variant 'plain'");
    assert_int_equal(d.caps, OCL_CAP_NONTEMPORAL | OCL_CAP_WIDE_VECTORS);
    d = gpu(OCL_CAP_NONTEMPORAL);
    assert_string_equal(once(&d, refusal(&plain, "k", "", OCL_CAP_NONTEMPORAL)), "capability nontemporal");
    assert_string_equal(once(&d, refusal(&plain, "other", "", 0)), "variant 'plain'");
    assert_int_equal(d.caps, 0);
}

/* Three tiles are given up first, then the capabilities that the variant uses, then the variant; with the
 * third variant that needs local memory, local memory is given up, too. */
TEST(test_order)
{
    ocl_device_desc d = gpu(OCL_CAP_LOCAL | OCL_CAP_WG256 | OCL_CAP_MMA_F16 | OCL_CAP_MMA_BF16);
    uint32_t needs = OCL_CAP_WG256 | OCL_CAP_MMA_BF16;
    assert_string_equal(once(&d, refusal(&fast, "k", "bm=1", needs)), "tile bm=1 of variant 'fast'");
    assert_true(ocl_is_given_up(&d, &fast, "bm=1"));
    assert_false(ocl_is_given_up(&d, &fast, ""));
    assert_string_equal(once(&d, refusal(&fast, "k", "bm=2", needs)), "tile bm=2 of variant 'fast'");
    assert_string_equal(once(&d, refusal(&fast, "k", "bm=3", needs)), "tile bm=3 of variant 'fast'");
    assert_string_equal(once(&d, refusal(&fast, "k", "bm=4", needs)), "capability mma_bf16");
    assert_string_equal(once(&d, refusal(&fast, "k", "bm=4", needs)), "capability wg256");
    assert_int_equal(d.caps, OCL_CAP_LOCAL | OCL_CAP_MMA_F16);
    /* refused with small groups as well: large ones were not the cause */
    assert_string_equal(once(&d, refusal(&fast, "k", "bm=4", 0)), "variant 'fast'");
    assert_string_equal(once(&d, refusal(&fast, "k", "bm=4", 0)), "nothing");
    assert_int_equal(d.caps, OCL_CAP_LOCAL | OCL_CAP_WG256 | OCL_CAP_MMA_F16);
    assert_string_equal(once(&d, refusal(&ocl_gemm_tile, "k", "", 0)), "variant 'tile'");
    assert_non_null(strstr(once(&d, refusal(&third, "k", "", 0)), "capability local"));
    assert_int_equal(d.caps, OCL_CAP_WG256 | OCL_CAP_MMA_F16);
    assert_string_equal(once(&d, refusal(NULL, "k", "", 0)), "nothing"); /* no variant made the command */
}

/* A driver that runs plain kernels only with fewer items than ours ever request loses larger groups, once;
 * a kernel with a limit of its own loses its variant. */
TEST(test_groups)
{
    ocl_device_desc d = gpu(OCL_CAP_LOCAL | OCL_CAP_WG256);
    ocl_refusal r = refusal(&fast, "k", "", 0);
    d.max_work_group = 1024;
    r.group_limit = 16;
    assert_string_equal(once(&d, r), "work-groups of more than 16 work-items");
    assert_int_equal(ocl_group_limit(&d), 16);
    assert_string_equal(once(&d, r), "variant 'fast'");
    ocl_device_desc other = gpu(OCL_CAP_LOCAL | OCL_CAP_WG256);
    other.max_work_group = 1024;
    r.group_limit = 128;
    assert_string_equal(once(&other, r), "variant 'fast'");
    assert_int_equal(ocl_group_limit(&other), 1024);
}

/* Large tiles are given up first: at most three one by one, then all of them. If a small tile is refused,
 * wgmma is given up, since `mma` does the same products. */
TEST(test_wgmma)
{
    uint32_t large = OCL_CAP_WGMMA | OCL_CAP_WGMMA_LARGE;
    ocl_device_desc d = gpu(OCL_CAP_LOCAL | OCL_CAP_WG256 | OCL_CAP_MMA_F16 | large);
    ocl_gemm g = ocl_gemm_make(8192, 8192, 8192, false, true);
    const ocl_variant *variant;
    ocl_gemm_form first, f;
    char reason[240], form[OCL_FORM_TEXT];
    g.type_a = g.type_b = CLT_F16;
    d.compute_capability = 90;
    d.local_proven_bytes = d.local_retargeted_bytes = 227 << 10;
    assert_ok(ocl_family_standard(&ocl_gemm_family, &g, &d, "test", &variant));
    assert_string_equal(variant->name, "wgmma");
    d.caps |= OCL_CAP_WGMMA_WIDE;
    d.max_work_group = 1024;
    ocl_device_desc stream = d; /* a refused stream-k form costs that form alone */
    ocl_refusal streamed =
        refusal(variant, "gemm_fwd_wgmma", "bm=192 bn=256 stages=4 stream", large | OCL_CAP_WGMMA_WIDE);
    assert_string_equal(once(&stream, streamed), "tile bm=192 bn=256 stages=4 stream of variant 'wgmma'");
    assert_int_equal(stream.caps, d.caps);
    assert_string_equal(once(&d, refusal(variant, "gemm_fwd_wgmma", "bm=192", large | OCL_CAP_WGMMA_WIDE)),
                        "capability wgmma_wide");
    for (int i = 0; i < 3; i++) {
        assert_true(ocl_form_choose(&ocl_wgmma_family, &g, &d, NULL, &f, reason, sizeof reason));
        assert_true(ocl_wgmma_local_bytes(&f) > OCL_WGMMA_SMALL_BYTES);
        if (i > 0)
            assert_memory_not_equal(&f, &first, sizeof f);
        first = f;
        snprintf(form, sizeof form, "bm=%d bn=%d stages=%d", f.bm, f.bn, f.stages);
        const char *what = once(&d, refusal(variant, "gemm_fwd_wgmma", form, large));
        assert_non_null(strstr(what, form));
        assert_int_equal(d.caps & large, large);
    }
    assert_true(ocl_form_choose(&ocl_wgmma_family, &g, &d, NULL, &f, reason, sizeof reason));
    assert_string_equal(once(&d, refusal(variant, "gemm_fwd_wgmma", "bm=128", large)),
                        "capability wgmma_large");
    assert_true(ocl_form_choose(&ocl_wgmma_family, &g, &d, NULL, &f, reason, sizeof reason));
    assert_true(ocl_wgmma_local_bytes(&f) <= OCL_WGMMA_SMALL_BYTES);
    assert_string_equal(once(&d, refusal(variant, "gemm_fwd_wgmma", "bm=64", OCL_CAP_WGMMA)),
                        "capability wgmma");
    assert_ok(ocl_family_standard(&ocl_gemm_family, &g, &d, "test", &variant));
    assert_string_equal(variant->name, "mma");
}

TEST(test_select)
{
    const ocl_variant *const list[] = {&fast, &plain, NULL}, *const last[] = {&slow, &fast, NULL}, *got;
    ocl_device_desc d = gpu(OCL_CAP_LOCAL);
    assert_ok(ocl_variant_select(list, NULL, &d, "it", NULL, &got));
    assert_ptr_equal(got, &fast);
    assert_ok(ocl_variant_select(last, NULL, &d, "it", NULL, &got));
    assert_ptr_equal(got, &fast);
    assert_string_equal(once(&d, refusal(&fast, "k", "", 0)), "variant 'fast'");
    assert_ok(ocl_variant_select(list, NULL, &d, "it", NULL, &got));
    assert_ptr_equal(got, &plain);
    assert_ok(ocl_variant_select(last, NULL, &d, "it", NULL, &got)); /* slow is better than nothing */
    assert_ptr_equal(got, &slow);
    assert_int_equal(ocl_variant_select(list, NULL, &d, "it", "fast", &got), CLT_EUNSUPPORTED);
    assert_contains(clt_error_text(), "the driver refused it");
    assert_string_equal(once(&d, refusal(&slow, "k", "", 0)), "variant 'slow'");
    assert_int_equal(ocl_variant_select(last, NULL, &d, "it", NULL, &got), CLT_EUNSUPPORTED);
    assert_contains(clt_error_text(), "slow: the driver refused it; fast: the driver refused it");
}

typedef struct product {
    clt_arena *arena;
    ocl_command_list list;
} product;

/* The first command that a product of 512^3 becomes; it belongs to *p until end(p). */
static const ocl_command *emit(const ocl_device_desc *d, product *p)
{
    CLT_SCOPED(ocl_emitter) e = {0};
    ocl_gemm g = ocl_gemm_make(512, 512, 512, false, true);
    memset(p, 0, sizeof *p);
    assert_ok(clt_arena_create(&p->arena));
    p->list.arena = p->arena;
    e.list = &p->list;
    e.device = d;
    e.label = "test";
    e.variant = "";
    g.a = ocl_ref(0);
    g.b = ocl_ref(1);
    g.c = ocl_ref(2);
    assert_ok(ocl_gemm_emit(&e, &g, NULL));
    return &p->list.commands[0];
}
static void end(product *p)
{
    ocl_command_list_free(&p->list);
    clt_arena_destroy(p->arena);
}

/* Every refused product is emitted in another way, in the end by `simple` without wide vectors. */
static void check_products(uint32_t caps, bool cpu)
{
    ocl_device_desc d = gpu(caps);
    char seen[40][200];
    int n = 0;
    d.is_cpu = cpu;
    d.is_gpu = !cpu;
    for (bool more = true; more; n++) {
        product p;
        ocl_refusal r;
        const ocl_command *c = emit(&d, &p);
        assert_true(n < 40);
        snprintf(seen[n], sizeof seen[n], "%s %s %s", c->made_by->name, c->form ? c->form : "",
                 c->family && strcmp(c->family, "gemm") == 0 ? c->options : "");
        for (int i = 0; i < n; i++)
            assert_string_not_equal(seen[i], seen[n]);
        ocl_refusal_of(c, &r);
        end(&p);
        more = strcmp(r.variant->name, "simple") != 0 || r.needs != 0;
        if (more)
            assert_string_not_equal(once(&d, r), "nothing");
    }
    assert_non_null(strstr(seen[n - 1], "simple"));
    assert_non_null(strstr(seen[n - 1], "-DVW=4"));
}

/* A refused tile of 16 steps of k is tried with 8 before a smaller one is taken. */
TEST(test_shorter_steps)
{
    ocl_device_desc d = gpu(OCL_CAP_LOCAL | OCL_CAP_WG256);
    ocl_gemm g = ocl_gemm_make(4096, 4096, 4096, false, true);
    ocl_gemm_form wish = {.bm = 128, .bn = 128, .pm = 8, .pn = 8}, f, again;
    char reason[240], form[OCL_FORM_TEXT];
    d.local_bytes = d.local_proven_bytes = 48 << 10;
    g.type_a = g.type_b = g.type_c = CLT_BF16;
    assert_true(ocl_form_choose(&ocl_tile_family, &g, &d, &wish, &f, reason, sizeof reason));
    assert_int_equal(f.bk, 16);
    snprintf(form, sizeof form, "bm=%d bn=%d bk=%d tm=%d tn=%d va=%d vb=%d", f.bm, f.bn, f.bk, f.pm, f.pn,
             f.va, f.vb);
    assert_non_null(strstr(once(&d, refusal(&ocl_gemm_tile, "k", form, 0)), form));
    assert_true(ocl_form_choose(&ocl_tile_family, &g, &d, &wish, &again, reason, sizeof reason));
    assert_int_equal(again.bm, f.bm);
    assert_int_equal(again.bn, f.bn);
    assert_int_equal(again.bk, 8);
}

TEST(test_products)
{
    check_products(OCL_CAP_LOCAL | OCL_CAP_WG256, false);
    check_products(OCL_CAP_LOCAL | OCL_CAP_WG256 | OCL_CAP_WIDE_VECTORS | OCL_CAP_NONTEMPORAL, true);
    check_products(0, false);
}

TEST(test_numbers)
{
    int n = 0;
    for (; clt_variant_at(n); n++)
        assert_ptr_equal(clt_variant_at(clt_variant_number(clt_variant_at(n))), clt_variant_at(n));
    assert_true(n > 50);
    assert_ptr_equal(clt_variant_at(clt_variant_number(&ocl_gemm_tile)), &ocl_gemm_tile);
    assert_int_equal(clt_variant_number(&fast), -1);
    assert_null(clt_variant_at(-1));
    /* names: each variant has its own, unless the variant is in several lists */
    for (int i = 0; i < n; i++) {
        char name[64];
        assert_true(clt_variant_name(clt_variant_at(i), name, sizeof name));
        assert_ptr_equal(clt_variant_named(name), clt_variant_at(i));
    }
    assert_ptr_equal(clt_variant_named("gemm/tile"), &ocl_gemm_tile);
    assert_null(clt_variant_named("gemm/none"));
    char text[64];
    assert_false(clt_variant_name(&fast, text, sizeof text));
}
