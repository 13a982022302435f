/* SPDX-License-Identifier: Apache-2.0
 *
 * The tuner's search, with fictitious variants, times and clock: what is tried, dropped and trusted, and what
 * wins. Needs no device. ctest-labels: quick */
#include "tests/unit/test.h"

#include "cl/tune/tuner.h"

/* An invented machine: each candidate has a time, and some have a fault. */
typedef struct machine {
    double (*ns)(const ocl_choice *c);        /* the true time */
    bool (*wrong)(const ocl_choice *c);       /* its result is wrong */
    clt_status (*fault)(const ocl_choice *c); /* the error of prepare */
    double seconds_each;                      /* seconds that one timing takes */
    double clock;
    int timings, checks, prepared, released, wrong_told;
    char first[64][OCL_CHOICE_TEXT]; /* candidates in the order of their preparation */
    ocl_choice open[8];
} machine;

static clt_status prepare(void *context, const ocl_device_desc *device, const ocl_choice *c,
                          ocl_choice *asked, void **ready)
{
    (void)device;
    machine *m = context;
    if (m->prepared < 64)
        ocl_choice_text(c, m->first[m->prepared], sizeof m->first[0]);
    clt_status status = m->fault ? m->fault(c) : CLT_OK;
    if (status != CLT_OK)
        return clt_fail(status, __FILE__, __LINE__, "an invented fault");
    m->prepared++;
    ocl_choice *kept = malloc(sizeof *kept);
    assert_non_null(kept);
    *kept = *c;
    *ready = kept;
    if (strcmp(c->variant, "tiled") == 0) { /* its own choice */
        assert_ok(ocl_choice_set(asked, "a", ocl_choice_value(c, "a", 2)));
        assert_ok(ocl_choice_set(asked, "b", ocl_choice_value(c, "b", 20)));
        assert_ok(ocl_choice_set(asked, "c", ocl_choice_value(c, "c", 5)));
    }
    return CLT_OK;
}

static clt_status measure(void *context, void *ready, double *ns)
{
    machine *m = context;
    m->clock += m->seconds_each;
    m->timings++;
    *ns = m->ns(ready);
    return CLT_OK;
}

static clt_status check(void *context, void *ready, bool *right, char *why, size_t size)
{
    machine *m = context;
    m->checks++;
    *right = !(m->wrong && m->wrong(ready));
    if (!*right)
        snprintf(why, size, "an invented error");
    return CLT_OK;
}

static void release(void *context, void *ready)
{
    machine *m = context;
    m->released++;
    free(ready);
}

static double now(void *context)
{
    return ((machine *)context)->clock;
}

static void told(void *context, const ocl_choice *c, const char *why)
{
    (void)c;
    assert_string_equal(why, "an invented error");
    ((machine *)context)->wrong_told++;
}

/* The family: "tiled" with 60 combinations, "small" with 4, "plain" without tunables. */
static bool refuses_data(const void *data, const ocl_device_desc *device, char *reason, size_t size)
{
    (void)device;
    snprintf(reason, size, "it does not like it");
    return strcmp(data, "no tiles") != 0;
}
static const ocl_tunable tiled_tunables[] = {
    {"a", 5, {1, 2, 3, 4, 5}}, {"b", 4, {10, 20, 30, 40}}, {"c", 3, {5, 6, 7}}, {0}};
static const ocl_tunable small_tunables[] = {{"x", 2, {0, 1}}, {"y", 2, {0, 1}}, {0}};
static const ocl_variant tiled = {.name = "tiled", .accepts = refuses_data, .tunables = tiled_tunables};
static const ocl_variant small = {.name = "small", .tunables = small_tunables};
static const ocl_variant plain = {.name = "plain"};
static const ocl_variant gpu = {.name = "gpu", .needs = OCL_CAP_MMA_F16};
static const ocl_variant *const family[] = {&gpu, &tiled, &small, &plain, NULL};

static const ocl_family_bench invented = {
    .ready = prepare, .time = measure, .check = check, .release = release};

static ocl_tune_result run(machine *m, const ocl_tune_limits *limits, const char *data, const char *only,
                           const ocl_choice *seed)
{
    ocl_device_desc desc;
    ocl_tune_result result;
    ocl_tune_limits standard = ocl_tune_limits_default();
    ocl_desc_generic(&desc);
    ocl_tune_target t = {.context = m,
                         .family = "invented",
                         .problem = "n=1",
                         .list = family,
                         .data = data,
                         .device = &desc,
                         .standard = &plain,
                         .only = only,
                         .bench = &invented,
                         .operands = m,
                         .now = now,
                         .wrong = told};
    assert_ok(ocl_tune_search(&t, limits ? limits : &standard, seed, &result));
    assert_int_equal(m->prepared, m->released);
    return result;
}

static int value(const ocl_choice *c, const char *name)
{
    return ocl_choice_value(c, name, -1);
}

/* Best at a=4 b=30 c=6; each step away costs. */
static double bowl(const ocl_choice *c)
{
    if (strcmp(c->variant, "tiled") == 0) {
        int a = ocl_choice_value(c, "a", 2), b = ocl_choice_value(c, "b", 20),
            cc = ocl_choice_value(c, "c", 5);
        return 100.0 + 10.0 * abs(a - 4) + abs(b - 30) + 7.0 * abs(cc - 6);
    }
    if (strcmp(c->variant, "small") == 0)
        return 190.0 - 5.0 * ocl_choice_value(c, "x", 0) - 3.0 * ocl_choice_value(c, "y", 0);
    return 200.0;
}

TEST(test_finds_the_best)
{
    machine m = {.ns = bowl};
    ocl_tune_result r = run(&m, NULL, "", NULL, NULL);
    assert_true(r.found && r.complete);
    assert_string_equal(r.choice.variant, "tiled");
    assert_int_equal(value(&r.choice, "a"), 4);
    assert_int_equal(value(&r.choice, "b"), 30);
    assert_int_equal(value(&r.choice, "c"), 6);
    assert_string_equal(r.standard, "plain");
    assert_string_equal(r.choice.family, "invented");
    assert_string_equal(r.choice.problem, "n=1");
    assert_float_equal(r.choice.ns, 100.0, 1e-9);
    assert_float_equal(r.choice.default_ns, 200.0, 1e-9);
    assert_true(r.tried < 40); /* of 66 candidates: one tunable is varied after the other */
    assert_true(m.checks < r.tried);
    assert_int_equal(r.wrong + r.failed, 0);
    assert_string_equal(m.first[0], "plain"); /* the default first, then each variant as it is */
    assert_string_equal(m.first[1], "tiled");
    assert_string_equal(m.first[2], "small");
}

/* All combinations of a small space: the two tunables are only good together. */
static double together(const ocl_choice *c)
{
    if (strcmp(c->variant, "small") == 0)
        return value(c, "x") == 1 && value(c, "y") == 1 ? 50.0 : value(c, "x") == 1 ? 150.0 : 120.0;
    return strcmp(c->variant, "tiled") == 0 ? 500.0 : 130.0;
}

TEST(test_small_spaces_are_tried_whole)
{
    machine m = {.ns = together};
    ocl_tune_result r = run(&m, NULL, "", NULL, NULL);
    assert_string_equal(r.choice.variant, "small");
    assert_int_equal(value(&r.choice, "x"), 1);
    assert_int_equal(value(&r.choice, "y"), 1);
    assert_int_equal(r.abandoned, 1); /* tiled, after one timing; its other values are not tried */
    for (int i = 0; i < m.prepared && i < 64; i++)
        assert_true(strncmp(m.first[i], "tiled ", 6) != 0);
}

static double nearly(const ocl_choice *c)
{
    return strcmp(c->variant, "plain") == 0 ? 100.0 : strcmp(c->variant, "small") == 0 ? 98.5 : 120.0;
}
static double clearly(const ocl_choice *c)
{
    return strcmp(c->variant, "small") == 0 ? 97.0 : 100.0;
}

static double moody(const ocl_choice *c)
{
    static int turn;
    if (strcmp(c->variant, "small") != 0)
        return 100.0;
    return ++turn % 7 < 5 ? 90.0 : 130.0;
}

TEST(test_ties_keep_the_default)
{
    machine m = {.ns = nearly};
    ocl_tune_result r = run(&m, NULL, "", NULL, NULL);
    assert_string_equal(r.choice.variant, "plain");
    assert_int_equal(r.choice.n_values, 0);
    assert_float_equal(r.choice.ns, 100.0, 1e-9);
    assert_float_equal(r.choice.ns, r.choice.default_ns, 0.0);
    machine clear = {.ns = clearly};
    r = run(&clear, NULL, "", NULL, NULL);
    assert_string_equal(r.choice.variant, "small");
    /* Better in the median, but only in five of seven rounds: not taken. */
    machine moody_machine = {.ns = moody};
    r = run(&moody_machine, NULL, "", NULL, NULL);
    assert_string_equal(r.choice.variant, "plain");
}

static bool small_is_wrong(const ocl_choice *c)
{
    return strcmp(c->variant, "small") == 0;
}
static bool default_is_wrong(const ocl_choice *c)
{
    return strcmp(c->variant, "plain") == 0;
}
static bool all_are_wrong(const ocl_choice *c)
{
    (void)c;
    return true;
}

TEST(test_wrong_results_never_win)
{
    machine m = {.ns = together, .wrong = small_is_wrong};
    ocl_tune_result r = run(&m, NULL, "", NULL, NULL);
    assert_string_equal(r.choice.variant, "plain");
    assert_true(r.wrong > 0);
    assert_int_equal(m.wrong_told, r.wrong);
    machine bad_default = {.ns = clearly, .wrong = default_is_wrong};
    r = run(&bad_default, NULL, "", NULL, NULL);
    assert_true(r.found);
    assert_string_not_equal(r.choice.variant, "plain");
    machine bad = {.ns = bowl, .wrong = all_are_wrong};
    r = run(&bad, NULL, "", NULL, NULL);
    assert_false(r.found);
    assert_true(bad.wrong_told > 0);
}

static clt_status tiled_fails(const ocl_choice *c)
{
    return strcmp(c->variant, "tiled") == 0 ? CLT_EBUILD : CLT_OK;
}
static clt_status device_lost(const ocl_choice *c)
{
    return strcmp(c->variant, "small") == 0 ? CLT_EDEVLOST : CLT_OK;
}

TEST(test_impossible_candidates)
{
    machine m = {.ns = bowl, .fault = tiled_fails};
    ocl_tune_result r = run(&m, NULL, "", NULL, NULL);
    assert_string_equal(r.choice.variant, "small");
    assert_int_equal(r.failed, 1);
    assert_string_equal(clt_error_text(), "");
    machine refuses = {.ns = bowl};
    r = run(&refuses, NULL, "no tiles", NULL, NULL);
    assert_string_equal(r.choice.variant, "small");
    assert_int_equal(r.failed, 0);
    machine lost = {.ns = bowl, .fault = device_lost};
    ocl_device_desc desc;
    ocl_tune_limits limits = ocl_tune_limits_default();
    ocl_desc_generic(&desc);
    ocl_tune_target t = {&lost, "invented", "n=1", family, "",   &desc, &plain,
                         NULL,  &invented,  &lost, now,    NULL, told};
    assert_int_equal(ocl_tune_search(&t, &limits, NULL, &r), CLT_EDEVLOST);
    assert_int_equal(lost.prepared, lost.released);
}

TEST(test_time_budget)
{
    ocl_tune_limits limits = ocl_tune_limits_default();
    /* No time at all: only the default is measured, and nothing is claimed about it. */
    machine m = {.ns = bowl, .seconds_each = 1.0};
    limits.deadline = 0.0;
    ocl_tune_result r = run(&m, &limits, "", NULL, NULL);
    assert_true(r.found);
    assert_false(r.complete);
    assert_int_equal(r.tried, 1);
    assert_string_equal(r.choice.variant, "plain");
    assert_false(r.choice.complete);
    /* Time for some: the best of those, marked as unfinished. */
    machine some = {.ns = bowl, .seconds_each = 1.0};
    limits.deadline = 16.0;
    r = run(&some, &limits, "", NULL, NULL);
    assert_false(r.complete);
    assert_true(r.tried > 3 && r.tried < 12);
    assert_string_equal(r.choice.variant, "tiled");
    assert_true(some.clock < 16.0 + 3.0 + 2.0 * limits.finals + 1e-9);
    /* A stop ends it like a deadline. */
    atomic_int stop = 1;
    limits.deadline = 1e300;
    limits.stop = &stop;
    machine stopped = {.ns = bowl};
    r = run(&stopped, &limits, "", NULL, NULL);
    assert_int_equal(r.tried, 1);
    assert_false(r.complete);
    /* The number of candidates is bounded; reaching the bound counts as complete. */
    limits = ocl_tune_limits_default();
    limits.max_candidates = 5;
    machine bounded = {.ns = bowl};
    r = run(&bounded, &limits, "", NULL, NULL);
    assert_int_equal(r.tried, 5);
    assert_true(r.complete);
}

/* A seed is tried right after the default, one that no longer exists is not. */
TEST(test_seeds)
{
    ocl_choice seed = {.variant = "tiled"};
    assert_ok(ocl_choice_set(&seed, "a", 4));
    assert_ok(ocl_choice_set(&seed, "b", 30));
    assert_ok(ocl_choice_set(&seed, "c", 6));
    machine m = {.ns = bowl};
    ocl_tune_limits limits = ocl_tune_limits_default();
    limits.max_candidates = 2;
    ocl_tune_result r = run(&m, &limits, "", NULL, &seed);
    assert_string_equal(m.first[1], "tiled a=4 b=30 c=6");
    assert_int_equal(value(&r.choice, "a"), 4);
    assert_string_equal(r.choice.problem, "n=1");
    assert_string_equal(r.choice.family, "invented");
    ocl_choice stale = {.variant = "tiled"};
    assert_ok(ocl_choice_set(&stale, "a", 99));
    machine again = {.ns = bowl};
    r = run(&again, &limits, "", NULL, &stale);
    assert_string_equal(again.first[1], "tiled");
}

TEST(test_one_variant_only)
{
    machine m = {.ns = bowl};
    ocl_tune_result r = run(&m, NULL, "", "small", NULL);
    assert_string_equal(r.choice.variant, "small");
    for (int i = 0; i < m.prepared && i < 64; i++)
        assert_true(strncmp(m.first[i], "tiled", 5) != 0);
    assert_string_equal(m.first[0], "plain"); /* the candidate to beat */
    assert_false(r.complete);
}

/* No candidate is measured twice: the defaults of a variant are one of its combinations. */
TEST(test_nothing_twice)
{
    machine m = {.ns = bowl};
    run(&m, NULL, "", NULL, NULL);
    for (int i = 0; i < m.prepared && i < 64; i++)
        for (int k = i + 1; k < m.prepared - 2 && k < 64; k++) /* the last two are the finals */
            assert_string_not_equal(m.first[i], m.first[k]);
    for (int i = 0; i < m.prepared && i < 64; i++)
        assert_string_not_equal(m.first[i], "tiled a=2 b=20 c=5");
}
