/* SPDX-License-Identifier: Apache-2.0
 *
 * CLBlast's parameter sets: each obeys the library's rules, each is a value that the tuner may try, and the
 * ones of a record reach the library's calls. No device. ctest-labels: quick */
#include "tests/unit/cl/cl_test.h"

#include "cl/gemm/gemm.h"
#include "cl/tune/tuning.h"

static size_t of(const ocl_clblast_set *s, const char *name)
{
    for (int i = 0; i < s->count; i++)
        if (strcmp(s->names[i], name) == 0)
            return s->values[i];
    fail_msg("%s has no %s", s->kernel, name);
    return 0;
}

/* The library's rules for its kernels: it does not check what it is given. */
static void test_clblast_sets(void **state)
{
    (void)state;
    ocl_clblast_set s;
    int counts[3] = {0};
    for (int n = 1; ocl_clblast_get_set(OCL_CLBLAST_XGEMM, n, &s); n++, counts[0]++) {
        size_t threads = of(&s, "MDIMC") * of(&s, "NDIMC");
        assert_string_equal(s.kernel, "Xgemm");
        assert_int_equal(of(&s, "KWG") % of(&s, "KWI"), 0);
        assert_int_equal(of(&s, "MWG") % (of(&s, "MDIMC") * of(&s, "VWM")), 0);
        assert_int_equal(of(&s, "NWG") % (of(&s, "NDIMC") * of(&s, "VWN")), 0);
        assert_int_equal(of(&s, "MWG") % (of(&s, "MDIMA") * of(&s, "VWM")), 0);
        assert_int_equal(of(&s, "NWG") % (of(&s, "NDIMB") * of(&s, "VWN")), 0);
        assert_true(threads <= 256);
        if (of(&s, "GEMMK") == 0) {
            assert_int_equal(of(&s, "KREG"), 1);
            assert_int_equal(of(&s, "KWG") % (threads / of(&s, "MDIMA")), 0);
            assert_int_equal(of(&s, "KWG") % (threads / of(&s, "NDIMB")), 0);
        } else {
            assert_int_equal(of(&s, "KWG") * of(&s, "KWI"), 1);
            assert_int_equal(of(&s, "MDIMA"), of(&s, "MDIMC"));
            assert_int_equal(of(&s, "NDIMB"), of(&s, "NDIMC"));
            assert_int_equal(of(&s, "SA") + of(&s, "SB"), 0);
            assert_int_equal(of(&s, "KREG") % of(&s, "VWN"), 0);
        }
    }
    for (int n = 1; ocl_clblast_get_set(OCL_CLBLAST_DIRECT, n, &s); n++, counts[1]++) {
        size_t threads = of(&s, "MDIMCD") * of(&s, "NDIMCD"), wgd = of(&s, "WGD");
        assert_string_equal(s.kernel, "XgemmDirect");
        assert_int_equal(wgd % of(&s, "KWID"), 0);
        assert_int_equal(wgd % (of(&s, "MDIMCD") * of(&s, "VWMD")), 0);
        assert_int_equal(wgd % (of(&s, "NDIMCD") * of(&s, "VWND")), 0);
        assert_int_equal(wgd % (of(&s, "MDIMAD") * of(&s, "VWMD")), 0);
        assert_int_equal(wgd % (of(&s, "NDIMBD") * of(&s, "VWND")), 0);
        assert_int_equal(wgd % (threads / of(&s, "MDIMAD")), 0);
        assert_int_equal(wgd % (threads / of(&s, "NDIMBD")), 0);
        assert_true(threads <= 256);
    }
    for (int n = 1; ocl_clblast_get_set(OCL_CLBLAST_SWITCH, n, &s); n++, counts[2]++)
        assert_string_equal(s.kernel, "GemmRoutine");
    assert_false(ocl_clblast_get_set(OCL_CLBLAST_XGEMM, 0, &s));
    const ocl_tunable *t = ocl_clblast_parameters[0]->tunables;
    for (int k = 0; k < 3; k++) { /* every set is a value of its tunable, and nothing else is */
        assert_int_equal(t[k].count, counts[k] + 1);
        for (int i = 0; i < t[k].count; i++)
            assert_int_equal(t[k].values[i], i);
    }
}

/* The sets that a product's library call is emitted with, NULL: its own. */
static const char *emitted_sets(const ocl_device_desc *d, const ocl_gemm *g, ocl_tuning_log *log)
{
    static char sets[64];
    const char *found = NULL;
    ocl_command_list list = {0};
    assert_ok(clt_arena_create(&list.arena));
    ocl_emitter e = {.list = &list, .device = d, .label = "t", .variant = "", .node = -1, .log = log};
    assert_ok(ocl_gemm_emit(&e, g, "clblast"));
    assert_int_equal(list.commands[0].kind, OCL_CMD_GEMM);
    if (list.commands[0].options != NULL) {
        snprintf(sets, sizeof sets, "%s", list.commands[0].options);
        found = sets;
    }
    ocl_emitter_free(&e);
    ocl_command_list_free(&list);
    clt_arena_destroy(list.arena);
    return found;
}

/* A record of CLBlast's parameters reaches the call, and is noted beside the product as something used. */
static void test_clblast_record(void **state)
{
    (void)state;
    ocl_device_desc d;
    ocl_gemm g = ocl_gemm_make(1024, 1024, 1024, false, false);
    ocl_tuning *t;
    ocl_tuning_log log = {0};
    char reason[200];
    g.a = ocl_ref(0);
    g.b = ocl_ref(1);
    g.c = ocl_ref(2);
    const ocl_variant *clblast = NULL;
    for (size_t i = 0; ocl_gemm_variants[i] != NULL; i++)
        if (strcmp(ocl_gemm_variants[i]->name, "clblast") == 0)
            clblast = ocl_gemm_variants[i];
    if (clblast == NULL) /* a build without the library */
        skip();
    ocl_desc_generic(&d);
    assert_true(ocl_variant_accepts(clblast, &g, &d, reason, sizeof reason));
    assert_ok(ocl_tuning_create(&d, &t));
    assert_null(emitted_sets(&d, &g, NULL)); /* no records at all, then none for the library */
    d.tuning = t;
    assert_null(emitted_sets(&d, &g, &log));
    assert_int_equal(log.count, 1);
    ocl_tuning_log_free(&log);
    ocl_choice c = {.family = OCL_CLBLAST_FAMILY, .problem = OCL_CLBLAST_PROBLEM, .variant = "parameters"};
    assert_ok(ocl_choice_set(&c, "xgemm", 3));
    assert_ok(ocl_choice_set(&c, "direct", 2));
    assert_ok(ocl_choice_set(&c, "switch", 0));
    assert_ok(ocl_tuning_set(t, &c));
    const char *sets = emitted_sets(&d, &g, &log);
    assert_non_null(sets);
    assert_string_equal(sets, "direct=2 switch=0 xgemm=3");
    assert_int_equal(log.count, 2);
    for (size_t i = 0; i < log.count; i++) {
        bool of_library = strcmp(log.at[i].family, OCL_CLBLAST_FAMILY) == 0;
        assert_true(log.at[i].tuned == of_library && (log.at[i].data == NULL) == of_library);
    }
    ocl_tuning_log_free(&log);
    assert_ok(ocl_choice_set(&c, "xgemm", 99)); /* there is no such set */
    assert_ok(ocl_tuning_set(t, &c));
    assert_null(emitted_sets(&d, &g, NULL));
    ocl_tuning_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_clblast_sets),
                                       cmocka_unit_test(test_clblast_record)};
    return cmocka_run_group_tests_name("CLBlast's parameter sets", tests, NULL, NULL);
}
