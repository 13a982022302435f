/* SPDX-License-Identifier: Apache-2.0
 *
 * The update and ops as families of kernels: their problems are in the log of a plan, the tuner's benches
 * accept the results of every variant with every value of its tunables and reject those of another problem, a
 * record decides, and a run of the tuner saves one. ctest-labels: quick ctest-optimise: no */
#include "tests/unit/cl/tuning_test.h"

#include "cl/tune/family.h"
#include "cl/tune/tuner.h"
#include "engine/ops/case.h"
#include "engine/verify/speed/family_list.h"
#include "engine/verify/speed/update_bench.h"
#include "engine/verify/verify_internal.h"

static ocl_device *device;
static ocl_device_desc desc; /* accepts any style, since kernels for GPUs run on CPUs, too */

static bool judge(const ocl_family *family, void *bench, void *ready, char *why, size_t size)
{
    bool right;
    double ns;
    assert_ok(family->bench->time(bench, ready, &ns));
    assert_true(ns > 0);
    assert_ok(family->bench->check(bench, ready, &right, why, size));
    return right;
}

/* False: the candidate is impossible. */
static bool try_candidate(const ocl_family *family, void *bench, const ocl_choice *candidate)
{
    char why[256] = "", text[OCL_CHOICE_TEXT];
    ocl_choice asked = *candidate;
    void *ready;
    clt_status status = family->bench->ready(bench, &desc, candidate, &asked, &ready);
    if (status == CLT_EUNSUPPORTED) {
        clt_error_clear();
        return false;
    }
    assert_ok(status);
    bool right = judge(family, bench, ready, why, sizeof why);
    family->bench->release(bench, ready);
    for (int i = 0; i < candidate->n_values; i++) /* the variant asked for the tunables that it declares */
        assert_int_equal(ocl_choice_value(&asked, candidate->values[i].name, -1), candidate->values[i].value);
    if (!right)
        fail_msg("%s: %s", ocl_choice_text(candidate, text, sizeof text), why);
    return true;
}

/* Tries every variant that accepts, with each value of each tunable; returns how many values were
 * possible. */
static int all_values(const ocl_tuning_use *use)
{
    const ocl_family *family = ocl_family_find(use->family);
    char reason[256];
    void *bench;
    int count = 0;
    assert_non_null(family);
    assert_ok(family->bench->create(device, &desc, use->data, &bench));
    for (size_t v = 0; family->variants[v]; v++) {
        const ocl_variant *variant = family->variants[v];
        ocl_choice c = choice_of(use->family, use->problem, variant->name);
        if (!ocl_variant_accepts(variant, family->bench->problem(bench, true), &desc, reason, sizeof reason))
            continue;
        assert_true(try_candidate(family, bench, &c));
        for (const ocl_tunable *t = variant->tunables; t && t->name; t++)
            for (int i = 0; i < t->count; i++) {
                c = choice_of(use->family, use->problem, variant->name);
                assert_ok(ocl_choice_set(&c, t->name, t->values[i]));
                count += try_candidate(family, bench, &c);
            }
    }
    family->bench->destroy(bench);
    return count;
}

/* The results of `other` must not pass as those of `use`. */
static void tells_apart(const ocl_tuning_use *use, const ocl_tuning_use *other)
{
    const ocl_family *family = ocl_family_find(use->family);
    void *bench, *wrong, *ready;
    char why[256] = "";
    size_t last = 0;
    while (family->variants[last + 1])
        last++;
    ocl_choice c = choice_of(use->family, use->problem, family->variants[last]->name);
    assert_ok(family->bench->create(device, &desc, use->data, &bench));
    assert_ok(family->bench->create(device, &desc, other->data, &wrong));
    assert_ok(family->bench->ready(wrong, &desc, &c, NULL, &ready));
    assert_false(judge(family, bench, ready, why, sizeof why));
    assert_contains(why, "it should be");
    family->bench->release(wrong, ready);
    family->bench->destroy(bench);
    family->bench->destroy(wrong);
}

static void tuner_keeps(const ocl_tuning_log *log, const char *family)
{
    CLT_SCOPED(ocl_tuning) *records = NULL;
    ocl_tune_options options = {.seconds = 1e9, .log = log};
    assert_true(ocl_tune_missing(log, NULL));
    assert_ok(ocl_tune_run(device, &desc, &options, &records));
    const ocl_choice *record = ocl_tuning_exact(records, family, logged(log, family)->problem);
    assert_non_null(record);
    assert_true(record->tried > 1 && record->ns > 0);
}

/* --- the update --- */

static clt_verify_bench *update_of(double beta1, const ocl_tuning *tuning)
{
    ocl_device_desc own = desc;
    clt_verify_bench *bench;
    clt_update_bench_setup setup = {.spec = {.optimizer = &clt_optimizer_adamw,
                                             .value = {beta1, 0.95, 1e-8},
                                             .weight_decay = 0.1,
                                             .clip = 1.0f},
                                    .rows = 19,
                                    .cols = 1000};
    own.tuning = tuning;
    assert_ok(clt_update_bench_create(device, &own, &setup, &bench));
    return bench;
}

static bool has(const clt_plan *plan, const char *kernel, const char *define)
{
    for (size_t i = 0; i < plan->phase[CLT_PHASE_UPDATE].count; i++) {
        const ocl_command *c = &plan->phase[CLT_PHASE_UPDATE].commands[i];
        if (c->kernel && strcmp(c->kernel, kernel) == 0 && strstr(c->options, define))
            return true;
    }
    return false;
}

/* A record stores the name of its family in OCL_TUNE_NAME bytes. A longer name would be cut, and the record
 * never found. */
TEST(test_names)
{
    int n;
    const clt_op *const *ops = clt_op_list(&n);
    for (int i = 0; i < 2 * n; i++) {
        const ocl_family *family = i % 2 ? &ops[i / 2]->backward : &ops[i / 2]->forward;
        if (family->name == NULL)
            continue;
        if (strlen(family->name) >= OCL_TUNE_NAME)
            fail_msg("'%s' has %zu bytes", family->name, strlen(family->name));
        assert_non_null(ocl_family_find(family->name));
        for (size_t v = 0; family->variants[v]; v++)
            assert_true(strlen(family->variants[v]->name) < OCL_TUNE_NAME);
    }
}

TEST(test_update)
{
    clt_verify_bench *bench = update_of(0.9, NULL), *other = update_of(0.5, NULL);
    const ocl_tuning_use *use = logged(&bench->plan->tuning, "update");
    ocl_tuning *tuning;
    assert_string_equal(use->problem, "chunks=19 states=2 update_adam f32 +clip");
    assert_true(all_values(use) >= 5);
    tells_apart(use, logged(&other->plan->tuning, "update"));
    tuner_keeps(&bench->plan->tuning, "update");
    clt_verify_bench_destroy(other);

    assert_ok(ocl_tuning_create(&desc, &tuning));
    ocl_choice record = choice_of("update", use->problem, "group");
    assert_ok(ocl_choice_set(&record, "items", 32));
    assert_ok(ocl_choice_set(&record, "norm_chunks", 4));
    assert_ok(ocl_tuning_set(tuning, &record));
    other = update_of(0.9, tuning);
    if (logged(&other->plan->tuning, "update")->tuned) {
        assert_true(has(other->plan, "update_adam", "-DWG=32"));
        assert_true(has(other->plan, "update_norm", "-DNORM_CHUNKS=4"));
    } else {
        print_message("skipped: the device runs no groups\n");
    }
    clt_verify_bench_destroy(other);
    ocl_tuning_destroy(tuning);
    clt_verify_bench_destroy(bench);
}

/* Ranks keep to an order of sums that they agreed on: a record cannot choose another one. */
TEST(test_agreed_order)
{
    ocl_device_desc own;
    CLT_SCOPED(ocl_tuning) *tuning = NULL;
    clt_plan *plan;
    ocl_desc_generic(&own);
    own.caps |= OCL_CAP_LOCAL | OCL_CAP_WG256;
    assert_ok(ocl_tuning_create(&own, &tuning));
    own.tuning = tuning;
    for (int i = 0; i < 3; i++) {
        clt_update_bench_setup setup = {.spec = {.optimizer = &clt_optimizer_adamw,
                                                 .value = {0.9, 0.95, 1e-8},
                                                 .order.items = i < 2 ? 64 : 0},
                                        .rows = 3,
                                        .cols = 1024};
        ocl_choice record = choice_of("update", "chunks=3 states=2 update_adam f32", "group");
        assert_ok(ocl_choice_set(&record, "items", i == 1 ? 64 : 32));
        assert_ok(ocl_tuning_set(tuning, &record));
        assert_ok(clt_update_bench_plan(&own, &setup, &plan));
        assert_true(has(plan, "update_adam", i < 2 ? "-DWG=64" : "-DWG=32"));
        assert_int_equal(logged(&plan->tuning, "update")->tuned, i > 0);
        clt_plan_destroy(plan);
    }
}

/* --- ops --- */

typedef struct op_problem {
    const char *op, *attrs, *others; /* attributes; other attributes, with other results */
    const char *forward, *backward;  /* words of the problems */
    int values;                      /* least number of possible values of tunables, over both directions */
    clt_case_input x;
} op_problem;

#define SIZES                                                                                                \
    "n=2 c=4 k=8 d=1 h=11 w=10 groups:1 window:1.3.3 stride:1.1.1 padding:0.0.0 dilation:1.1.1 f32*f32->f32"
static const op_problem op_problems[] = {
    {"layernorm", "{}", "{\"eps\":0.5}", "rows=66 cols=40 f32 params:2:f32",
     "rows=66 cols=40 f32 params:2:f32 dy:f32 +dx +dparams", 8, CLT_CASE_F32(2, 33, 40)},
    {"rmsnorm", "{\"affine\":false}", "{\"affine\":false,\"eps\":0.5}", "rows=66 cols=40 bf16",
     "rows=66 cols=40 bf16 dy:f32 +dx", 6, CLT_CASE_FLOAT(CLT_BF16, 2, 33, 40)},
    {"softmax", "{}", NULL, "rows=66 cols=40 f32", "rows=66 cols=40 f32 dy:f32 +dx", 10,
     CLT_CASE_F32(2, 33, 40)},
    {"log_softmax", "{}", NULL, "rows=66 cols=40 f32", "rows=66 cols=40 f32 dy:f32 +dx", 10,
     CLT_CASE_F32(2, 33, 40)},
    {"reduce", "{\"kind\":\"mean\"}", "{\"kind\":\"sum\"}", "outer=1 kept=5 reduced=1320 f32 mean",
     "outer=1 kept=5 reduced=1320 f32 mean dy:f32", 2, CLT_CASE_F32(5, 33, 40)},
    {"reduce", "{\"kind\":\"max\",\"axes\":[1]}", "{\"kind\":\"sum\",\"axes\":[1]}",
     "outer=5 kept=300 reduced=33 f32 max +columns", "outer=5 kept=300 reduced=33 f32 max +columns dy:f32",
     10, CLT_CASE_F32(5, 33, 300)},
    {"conv_transpose2d", "{\"out\":4,\"kernel\":3}", NULL, "image " SIZES " +bias", "result " SIZES, 4,
     CLT_CASE_F32(2, 8, 9, 8)},
};

static clt_plan *plan_of(const op_problem *p, const char *attrs)
{
    clt_op_case c = {.name = "tuning", .attrs = attrs, .n_inputs = 1, .inputs = {p->x}};
    clt_verify_setup setup = {
        .mode = CLT_PLAN_CHECK, .copies = 1, .want_in = UINT32_MAX, .want_params = true};
    clt_verify_bench bench = {0};
    clt_verify_subject subject = {clt_op_find(p->op), &c, NULL};
    assert_ok(clt_verify_plan(&desc, &subject, &setup, &bench));
    return bench.plan;
}

TEST(test_ops)
{
    for (size_t i = 0; i < sizeof op_problems / sizeof op_problems[0]; i++) {
        const op_problem *p = &op_problems[i];
        clt_plan *plan = plan_of(p, p->attrs), *other = p->others ? plan_of(p, p->others) : NULL;
        int values = 0;
        for (int d = 0; d < 2; d++) {
            char family[64];
            snprintf(family, sizeof family, "%s.%s", p->op, d ? "backward" : "forward");
            const ocl_tuning_use *use = logged(&plan->tuning, family);
            assert_string_equal(use->problem, d ? p->backward : p->forward);
            assert_true(use->flops > 0);
            values += all_values(use);
            if (other)
                tells_apart(use, logged(&other->tuning, family));
        }
        if (values < p->values)
            fail_msg("%s: %d values of tunables were possible", p->op, values);
        clt_plan_destroy(plan);
        clt_plan_destroy(other);
    }
}

TEST(test_op_tuner)
{
    CLT_SCOPED(clt_plan) *plan = plan_of(&op_problems[0], "{}");
    tuner_keeps(&plan->tuning, "layernorm.backward");
}

FIXTURE(begin)
{
    unsetenv("CLTRAIN_UPDATE");
    unsetenv("CLTRAIN_NORM");
    unsetenv("CLTRAIN_SOFTMAX");
    unsetenv("CLTRAIN_REDUCE");
    clt_families_register();
    device = test_open(false);
    desc = *ocl_device_describe(device);
    desc.tuning = NULL;
    desc.quirks |= OCL_QUIRK_ANY_STYLE;
    return 0;
}

FIXTURE(end)
{
    ocl_device_close(device);
    return 0;
}

TEST_PROGRAM(.device = true, .set_up = begin, .tear_down = end);
