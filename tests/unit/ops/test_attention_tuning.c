/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention as a family of kernels: its problems reach the log of a plan, the tuner's bench takes results of
 * every tile as right and those of another problem as wrong, records and the environment decide as they do
 * for products, and a run of the tuner keeps a record.
 * ctest-labels: quick ctest-full: all ctest-cost: 8 ctest-optimise: no */
#include "tests/unit/cl/tuning_test.h"

#include "cl/tune/family.h"
#include "cl/tune/tuner.h"
#include "engine/ops/case.h"
#include "engine/verify/speed/family_list.h"
#include "engine/verify/verify_internal.h"

static const clt_op_case packed = {.name = "packed",
                                   .attrs = "{\"heads\":2,\"kv_heads\":1}",
                                   .n_inputs = 1,
                                   .inputs = {CLT_CASE_F32(2, 133, 80)}};
static const clt_op_case other = {.name = "other",
                                  .attrs = "{\"heads\":2,\"kv_heads\":1,\"scale\":0.9}",
                                  .n_inputs = 1,
                                  .inputs = {CLT_CASE_F32(2, 133, 80)}};
static const clt_op_case lengths = {.name = "lengths",
                                    .attrs = "{\"heads\":1,\"causal\":false}",
                                    .n_inputs = 2,
                                    .inputs = {CLT_CASE_F32(3, 20, 24), CLT_CASE_INDEX(CLT_I32, 21, 3)}};

static clt_plan *plan_of(const ocl_device_desc *desc, const clt_op_case *c, const ocl_choice *candidate,
                         clt_status *status)
{
    clt_verify_setup setup = {.mode = CLT_PLAN_CHECK,
                              .copies = 1,
                              .want_in = UINT32_MAX,
                              .want_params = true,
                              .candidate = candidate};
    clt_verify_bench bench = {0};
    clt_verify_subject subject = {clt_op_find("attention"), c, NULL};
    *status = clt_verify_plan(desc, &subject, &setup, &bench);
    return bench.plan;
}

/* Does a command of the plan have this define? */
static bool has(const clt_plan *plan, const char *kernel, const char *define)
{
    for (int phase = 0; phase < CLT_PHASE_COUNT; phase++)
        for (size_t i = 0; i < plan->phase[phase].count; i++) {
            const ocl_command *c = &plan->phase[phase].commands[i];
            if (c->kernel && strcmp(c->kernel, kernel) == 0 && strstr(c->options, define))
                return true;
        }
    return false;
}

static ocl_device_desc lanes(void)
{
    ocl_device_desc desc;
    ocl_desc_generic(&desc);
    desc.is_cpu = true;
    desc.is_gpu = false;
    desc.caps |= OCL_CAP_WIDE_VECTORS;
    desc.compute_units = 2;
    desc.tuning = NULL;
    return desc;
}

TEST(test_problems)
{
    ocl_device_desc desc = lanes();
    clt_status status;
    clt_plan *plan = plan_of(&desc, &packed, NULL, &status);
    assert_ok(status);
    assert_string_equal(logged(&plan->tuning, "attention.forward")->problem,
                        "n=2 heads=2 kv_heads=1 queries=133 keys=133 dim=20 f32 +packed +causal");
    assert_string_equal(
        logged(&plan->tuning, "attention.backward")->problem,
        "n=2 heads=2 kv_heads=1 queries=133 keys=133 dim=20 f32 +packed +causal dy:f32 +dq +dk +dv");
    assert_true(logged(&plan->tuning, "attention.backward")->flops >
                logged(&plan->tuning, "attention.forward")->flops);
    clt_plan_destroy(plan);
    plan = plan_of(&desc, &lengths, NULL, &status);
    assert_ok(status);
    assert_string_equal(logged(&plan->tuning, "attention.forward")->problem,
                        "n=3 heads=1 kv_heads=1 queries=20 keys=20 dim=8 f32 +packed +lengths");
    clt_plan_destroy(plan);
}

/* A record decides on variant and tile; records that cannot be used are ignored; the environment overrides
 * records. */
TEST(test_records)
{
    ocl_device_desc desc = lanes();
    CLT_SCOPED(ocl_tuning) *tuning = NULL;
    clt_status status;
    clt_plan *plan = plan_of(&desc, &packed, NULL, &status);
    assert_ok(status);
    assert_true(has(plan, "attention_fwd_lane", "-DBQ=80"));
    ocl_choice forward =
        choice_of("attention.forward", logged(&plan->tuning, "attention.forward")->problem, "lane");
    ocl_choice backward =
        choice_of("attention.backward", logged(&plan->tuning, "attention.backward")->problem, "row");
    clt_plan_destroy(plan);
    assert_ok(ocl_tuning_create(&desc, &tuning));
    assert_ok(ocl_choice_set(&forward, "queries", 32));
    assert_ok(ocl_choice_set(&forward, "keys", 96));
    assert_ok(ocl_tuning_set(tuning, &forward));
    assert_ok(ocl_tuning_set(tuning, &backward));
    desc.tuning = tuning;
    plan = plan_of(&desc, &packed, NULL, &status);
    assert_ok(status);
    assert_true(has(plan, "attention_fwd_lane", "-DBQ=32") && has(plan, "attention_fwd_lane", "-DBK=96"));
    assert_true(has(plan, "attention_bwd_q_row", ""));
    assert_true(logged(&plan->tuning, "attention.forward")->tuned &&
                logged(&plan->tuning, "attention.backward")->tuned);
    clt_plan_destroy(plan);

    setenv("CLTRAIN_ATTENTION", "lane", 1);
    plan = plan_of(&desc, &packed, NULL, &status);
    assert_ok(status);
    assert_true(has(plan, "attention_bwd_lane", "") && has(plan, "attention_fwd_lane", "-DBQ=32"));
    clt_plan_destroy(plan);
    setenv("CLTRAIN_ATTENTION", "lain", 1);
    plan = plan_of(&desc, &packed, NULL, &status);
    assert_int_equal(status, CLT_EUNSUPPORTED);
    assert_contains(clt_error_text(), "CLTRAIN_ATTENTION=lain");
    clt_plan_destroy(plan);
    unsetenv("CLTRAIN_ATTENTION");

    /* 133 keys are two tiles of 96 at most: not eight shares */
    backward = choice_of("attention.backward", backward.problem, "lane");
    assert_ok(ocl_choice_set(&backward, "keys", 96));
    assert_ok(ocl_choice_set(&backward, "shares", 8));
    assert_ok(ocl_tuning_set(tuning, &backward));
    plan = plan_of(&desc, &packed, NULL, &status);
    assert_ok(status);
    assert_true(has(plan, "attention_bwd_lane", "") && !logged(&plan->tuning, "attention.backward")->tuned);
    clt_plan_destroy(plan);
    plan = plan_of(&desc, &packed, &backward, &status); /* the tuner wants exactly this choice */
    assert_int_equal(status, CLT_EUNSUPPORTED);
    clt_plan_destroy(plan);
}

typedef struct measured {
    ocl_device *device;
    ocl_device_desc desc;
    clt_plan *plan;
    ocl_choice asked;
} measured;

/* Does the bench accept the candidate's results? */
static bool judged(measured *m, const ocl_family *family, void *bench, const ocl_choice *candidate)
{
    void *ready;
    char why[256] = "";
    bool right;
    double ns;
    m->asked = *candidate;
    assert_ok(family->bench->ready(bench, &m->desc, candidate, &m->asked, &ready));
    assert_ok(family->bench->time(bench, ready, &ns));
    assert_true(ns > 0);
    assert_ok(family->bench->check(bench, ready, &right, why, sizeof why));
    if (!right)
        print_message("%s\n", why);
    family->bench->release(bench, ready);
    return right;
}

/* All values of a variant's tunables, one tunable at a time (in the full test all combinations). */
static void all_tiles(measured *m, const char *name)
{
    const ocl_family *family = ocl_family_find(name);
    const ocl_tuning_use *use = logged(&m->plan->tuning, name);
    const ocl_variant *lane = ocl_variant_named(family->variants, "lane");
    char reason[256];
    void *bench;
    int count = 0;
    assert_ok(family->bench->create(m->device, &m->desc, use->data, &bench));
    const void *problem = family->bench->problem(bench, true);
    ocl_choice c = choice_of(name, use->problem, "lane");
    if (!ocl_variant_accepts(lane, problem, &m->desc, reason, sizeof reason)) {
        print_message("skipped: %s\n", reason);
        family->bench->destroy(bench);
        return;
    }
    assert_true(judged(m, family, bench, &c));
    assert_true(m->asked.n_values >= 2); /* the choice that it ran with */
    for (const ocl_tunable *t = lane->tunables; t->name; t++)
        for (int v = 0; v < t->count; v++) {
            void *ready;
            c = choice_of(name, use->problem, "lane");
            assert_ok(ocl_choice_set(&c, t->name, t->values[v]));
            if (!run_everything && count++ % 3)
                continue;
            if (family->bench->ready(bench, &m->desc, &c, NULL, &ready) == CLT_EUNSUPPORTED) {
                clt_error_clear(); /* too many shares */
                continue;
            }
            family->bench->release(bench, ready);
            assert_true(judged(m, family, bench, &c));
        }
    family->bench->destroy(bench);
}

static int begin(void **state)
{
    measured *m = calloc(1, sizeof *m);
    clt_status status;
    assert_non_null(m);
    m->device = test_open(false);
    m->desc = *ocl_device_describe(m->device);
    m->desc.tuning = NULL;
    m->plan = plan_of(&m->desc, &packed, NULL, &status);
    assert_ok(status);
    *state = m;
    return 0;
}

static int end(void **state)
{
    CLT_FREED measured *m = *state;
    clt_plan_destroy(m->plan);
    ocl_device_close(m->device);
    return 0;
}

TEST_BETWEEN(test_tiles, begin, end)
{
    measured *m = *state;
    all_tiles(m, "attention.forward");
    all_tiles(m, "attention.backward");
}

/* The results of another problem, whose scores have another scale. */
TEST_BETWEEN(test_wrong_results, begin, end)
{
    measured *m = *state;
    static const char *const names[] = {"attention.forward", "attention.backward"};
    clt_status status;
    CLT_SCOPED(clt_plan) *second = plan_of(&m->desc, &other, NULL, &status);
    assert_ok(status);
    for (int i = 0; i < 2; i++) {
        const ocl_family *family = ocl_family_find(names[i]);
        void *bench, *wrong, *ready;
        char why[256] = "";
        bool right;
        ocl_choice row = choice_of(names[i], "", "row");
        assert_ok(
            family->bench->create(m->device, &m->desc, logged(&m->plan->tuning, names[i])->data, &bench));
        assert_ok(
            family->bench->create(m->device, &m->desc, logged(&second->tuning, names[i])->data, &wrong));
        assert_true(judged(m, family, bench, &row));
        assert_ok(family->bench->ready(wrong, &m->desc, &row, NULL, &ready));
        assert_ok(family->bench->check(bench, ready, &right, why, sizeof why));
        assert_false(right);
        assert_contains(why, "it should be");
        family->bench->release(wrong, ready);
        family->bench->destroy(bench);
        family->bench->destroy(wrong);
    }
}

TEST_BETWEEN(test_tuner, begin, end)
{
    measured *m = *state;
    CLT_SCOPED(ocl_tuning) *records = NULL;
    ocl_tune_options options = {.seconds = 1e9, .log = &m->plan->tuning};
    assert_true(ocl_tune_missing(&m->plan->tuning, NULL));
    assert_ok(ocl_tune_run(m->device, &m->desc, &options, &records));
    assert_int_equal(records->count, 2);
    for (size_t i = 0; i < records->count; i++) {
        assert_true(records->records[i].tried > 1 && records->records[i].ns > 0);
        assert_non_null(ocl_tuning_exact(records, i ? "attention.forward" : "attention.backward",
                                         logged(&m->plan->tuning, records->records[i].family)->problem));
    }
}

FIXTURE(register_families)
{
    unsetenv("CLTRAIN_ATTENTION");
    clt_families_register();
    return 0;
}

TEST_PROGRAM(.device = true, .set_up = register_families);
