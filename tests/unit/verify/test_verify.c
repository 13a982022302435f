/* SPDX-License-Identifier: Apache-2.0
 *
 * The checker detects the faults that it exists for: wrong values, gradients and references, bytes written
 * outside, results that depend on what memory held, zeros that prove nothing, missing references. Faults
 * are planted in arrays, in references, and in kernels on a device.
 * ctest-labels: quick ctest-cost: 18 ctest-programs: full */
#include <math.h>

#include "engine/ops/case.h"
#include "engine/verify/verify_internal.h"
#include "tests/unit/cl/cl_test.h"

/* --- results of a run --- */

#define MAX_SEEN 4096

typedef struct seen_result {
    char name[128], reason[512], repeat[256];
    clt_verify_state state;
    double error;
    clt_verify_speed speeds[CLT_VERIFY_SPEEDS];
    int n_speeds;
} seen_result;

static seen_result seen[MAX_SEEN];
static int n_seen;

static void on_result(void *context, const clt_verify_result *result)
{
    (void)context;
    assert_true(n_seen < MAX_SEEN);
    seen_result *s = &seen[n_seen++];
    snprintf(s->name, sizeof s->name, "%s", result->name);
    snprintf(s->reason, sizeof s->reason, "%s", result->reason);
    snprintf(s->repeat, sizeof s->repeat, "%s", result->repeat);
    s->state = result->state;
    s->n_speeds = result->n_speeds;
    for (int i = 0; i < result->n_speeds; i++)
        s->speeds[i] = result->speeds[i];
    s->error = result->error;
}

static const seen_result *find(const char *name)
{
    for (int i = 0; i < n_seen; i++)
        if (strcmp(seen[i].name, name) == 0)
            return &seen[i];
    fail_msg("no result named %s", name);
    return &seen[0];
}

static void assert_state(const char *name, clt_verify_state state, const char *reason)
{
    const seen_result *s = find(name);
    if (s->state != state)
        fail_msg("%s is %s (%s) and must be %s", name, clt_verify_state_name(s->state), s->reason,
                 clt_verify_state_name(state));
    assert_contains(s->reason, reason);
}

static clt_verify_options options_of(const char *pattern, unsigned modes)
{
    return (clt_verify_options){
        .pattern = pattern, .modes = modes, .caps_mask = OCL_CAPS_ALL, .seed = 5, .result = on_result};
}

static clt_status run(const clt_verify_options *options, const clt_op *op, clt_verify_summary *summary)
{
    n_seen = 0;
    return op ? clt_verify_run_ops(options, &op, 1, summary) : clt_verify_run(options, summary);
}

/* --- arrays --- */

static clt_verify_outcome compare(const double *got, const double *want, size_t n, clt_verify_rule rule)
{
    clt_verify_outcome o = {.state = CLT_VERIFY_PASS};
    clt_verify_compare(&o, "y", got, want, n, &rule);
    return o;
}

TEST(test_compare_limits)
{
    const clt_verify_rule ten = {.tolerance = 10, .dtype = CLT_F32},
                          exact = {.tolerance = 10, .dtype = CLT_F32, .exact = true},
                          half = {.tolerance = 10, .dtype = CLT_F16};
    double want[2] = {4.0, -1.0}, got[2] = {4.0, -1.0};
    assert_int_equal(compare(got, want, 2, ten).state, CLT_VERIFY_PASS);
    assert_true(compare(got, want, 2, ten).limit == 10.0);
    got[1] += 39 * CLT_VERIFY_EPS; /* the limit is 10 eps of the largest value, 4 */
    assert_int_equal(compare(got, want, 2, ten).state, CLT_VERIFY_PASS);
    assert_true(fabs(compare(got, want, 2, ten).error - 39.0 / 4.0) < 1e-6);
    assert_int_equal(compare(got, want, 2, exact).state, CLT_VERIFY_FAIL);
    got[1] += 2 * CLT_VERIFY_EPS;
    assert_int_equal(compare(got, want, 2, ten).state, CLT_VERIFY_FAIL);
    assert_contains(compare(got, want, 2, ten).reason, "element 1 of 2");
    assert_int_equal(compare(got, want, 2, half).state, CLT_VERIFY_PASS); /* less than half a unit of f16 */
    got[1] += 0x1p-10;
    assert_int_equal(compare(got, want, 2, half).state, CLT_VERIFY_FAIL);
}

/* Sums of integers are exact in f32; results in 16 bits are rounded once, to nearest, ties to even. */
TEST(test_compare_exact)
{
    const clt_verify_rule bf16 = {.dtype = CLT_BF16, .exact = true}, f16 = {.dtype = CLT_F16, .exact = true};
    double whole[3] = {265.0, 267.0, -255.0}, near[3] = {264.0, 268.0, -255.0},
           off[3] = {266.0, 268.0, -255.0};
    double large[1] = {2049.0}, down[1] = {2048.0}, up[1] = {2050.0};
    assert_int_equal(compare(near, whole, 3, bf16).state, CLT_VERIFY_PASS);
    assert_int_equal(compare(off, whole, 3, bf16).state, CLT_VERIFY_FAIL);
    assert_int_equal(compare(whole, near, 3, bf16).state, CLT_VERIFY_FAIL); /* bf16 has no 265 */
    assert_int_equal(compare(near, whole, 3, f16).state, CLT_VERIFY_FAIL);
    assert_int_equal(compare(down, large, 1, f16).state, CLT_VERIFY_PASS);
    assert_int_equal(compare(up, large, 1, f16).state, CLT_VERIFY_FAIL);
}

TEST(test_compare_not_finite)
{
    const clt_verify_rule rule = {.tolerance = 1e30, .dtype = CLT_F32};
    double nan1[1] = {NAN}, inf1[1] = {INFINITY}, neg[1] = {-INFINITY}, one[1] = {1.0};
    assert_int_equal(compare(nan1, one, 1, rule).state, CLT_VERIFY_FAIL);
    assert_int_equal(compare(inf1, one, 1, rule).state, CLT_VERIFY_FAIL);
    assert_int_equal(compare(one, nan1, 1, rule).state, CLT_VERIFY_FAIL);
    assert_int_equal(compare(one, inf1, 1, rule).state, CLT_VERIFY_FAIL);
    assert_int_equal(compare(neg, inf1, 1, rule).state, CLT_VERIFY_FAIL);
    assert_int_equal(compare(nan1, nan1, 1, rule).state, CLT_VERIFY_PASS);
    assert_int_equal(compare(neg, neg, 1, rule).state, CLT_VERIFY_PASS);
}

/* Results within the limit for the largest error, but not within the limit for most elements, or for small
 * results. */
TEST(test_compare_distribution)
{
    enum { N = 200 };
    const clt_verify_rule rule = {.tolerance = 10, .dtype = CLT_F32};
    double want[N], got[N];
    for (int i = 0; i < N; i++)
        got[i] = want[i] = 1.0 - 0.001 * i;
    got[3] += 9 * CLT_VERIFY_EPS;
    got[4] += 9 * CLT_VERIFY_EPS;
    assert_int_equal(compare(got, want, N, rule).state, CLT_VERIFY_PASS);
    got[5] += 9 * CLT_VERIFY_EPS;
    assert_int_equal(compare(got, want, N, rule).state, CLT_VERIFY_FAIL);
    assert_contains(compare(got, want, N, rule).reason, "3 of 200");
    for (int i = 0; i < N; i++) {
        want[i] = 1e-3;
        got[i] = want[i] *
                 (1.0 + 2e-5 * (i % 2 ? 1 : -1)); /* a sixth of the limit, but only five correct digits */
    }
    assert_int_equal(compare(got, want, N, rule).state, CLT_VERIFY_FAIL);
    assert_contains(compare(got, want, N, rule).reason, "mean square");
}

/* A small difference of large terms may have the terms' rounding errors, and no more. */
TEST(test_compare_terms)
{
    enum { N = 20 };
    double want[N], got[N], terms[N];
    clt_verify_rule rule = {.tolerance = 1e6, .dtype = CLT_F32, .terms = terms};
    for (int i = 0; i < N; i++) {
        terms[i] = 2.0;
        want[i] = 1e-3;
        got[i] = want[i] + 6.0 * CLT_VERIFY_EPS * (i % 2 ? 1 : -1);
    }
    assert_int_equal(compare(got, want, N, rule).state, CLT_VERIFY_PASS);
    for (int i = 0; i < N; i++)
        got[i] = want[i] + 10.0 * CLT_VERIFY_EPS;
    assert_int_equal(compare(got, want, N, rule).state, CLT_VERIFY_FAIL);
    rule.terms = NULL;
    for (int i = 0; i < N; i++)
        got[i] = want[i] + 6.0 * CLT_VERIFY_EPS;
    assert_int_equal(compare(got, want, N, rule).state, CLT_VERIFY_FAIL);
}

TEST(test_compare_keeps_first)
{
    const clt_verify_rule rule = {.tolerance = 10, .dtype = CLT_F32};
    double want[1] = {1.0}, got[1] = {1.0 + 4 * CLT_VERIFY_EPS}, bad[1] = {2.0};
    clt_verify_outcome o = {.state = CLT_VERIFY_PASS};
    clt_verify_compare(&o, "first", got, want, 1, &rule);
    clt_verify_compare(&o, "second", want, want, 1, &rule);
    assert_true(fabs(o.error - 4.0) < 1e-6); /* the worst error so far */
    clt_verify_compare(&o, "third", bad, want, 1, &rule);
    clt_verify_compare(&o, "fourth", bad, want, 1, &rule);
    assert_int_equal(o.state, CLT_VERIFY_FAIL);
    assert_contains(o.reason, "third");
}

TEST(test_trust)
{
    double v[100] = {0};
    clt_verify_outcome o = {.state = CLT_VERIFY_PASS};
    clt_verify_trust(&o, "y", v, 15, 0.02); /* too few values to judge */
    assert_int_equal(o.state, CLT_VERIFY_PASS);
    v[7] = 1.0;
    clt_verify_trust(&o, "y", v, 100, 0.0);
    assert_int_equal(o.state, CLT_VERIFY_PASS);
    clt_verify_trust(&o, "y", v, 100, 0.02);
    assert_int_equal(o.state, CLT_VERIFY_MISTRUST);
    o = (clt_verify_outcome){.state = CLT_VERIFY_PASS};
    v[7] = 0.0;
    clt_verify_trust(&o, "y", v, 100, 0.0);
    assert_int_equal(o.state, CLT_VERIFY_MISTRUST);
}

TEST(test_changed)
{
    uint8_t before[300] = {0}, after[300] = {0}, writable[300] = {0};
    size_t where = 0;
    assert_false(clt_verify_changed(before, after, NULL, sizeof before, &where));
    for (size_t i = 0; i < sizeof before; i++) {
        after[i] = 1;
        assert_true(clt_verify_changed(before, after, writable, sizeof before, &where));
        assert_int_equal(where, i);
        writable[i] = 1;
        assert_false(clt_verify_changed(before, after, writable, sizeof before, &where));
        assert_true(clt_verify_changed(before, after, NULL, sizeof before, &where));
        after[i] = writable[i] = 0;
    }
}

TEST(test_match)
{
    const char *name = "softmax.odd[row]/correct";
    const char *const yes[] = {"softmax.odd[row]/correct",
                               "softmax.odd[row]",
                               "softmax.odd",
                               "softmax",
                               "*",
                               "soft*",
                               "*[row]*",
                               "softmax.*/correct",
                               "*max.odd",
                               "softmax.o?d[r*",
                               "relu.one,softmax",
                               "softmax.odd,relu.*"};
    const char *const no[] = {"softmax.odd[group]/correct",
                              "softmax.od",
                              "max",
                              "softmax.odd/correct",
                              "softmax.odd[wor]/correct",
                              "softmax/correct",
                              "",
                              "odd",
                              "relu,gelu",
                              ",",
                              "relu.odd,soft"};
    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++)
        if (!clt_verify_match(yes[i], name))
            fail_msg("'%s' must match", yes[i]);
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++)
        if (clt_verify_match(no[i], name))
            fail_msg("'%s' must not match", no[i]);
    assert_true(clt_verify_match(NULL, name));
    assert_true(clt_verify_match("known.f16", "known.f16/correct"));
}

TEST(test_fill)
{
    enum { N = 500 };
    double a[N], b[N];
    clt_verify_stream one = clt_verify_stream_make(9, "x.y", 3), other = clt_verify_stream_make(9, "x.z", 3);
    clt_verify_filler integers = {.dtype = CLT_F32, .integers = true}, half = {.dtype = CLT_BF16};
    clt_verify_filler index = {.fill = CLT_FILL_INDEX, .max = 7, .dtype = CLT_U8};
    bool found[7] = {false};
    clt_verify_fill(a, N, &integers, &one);
    for (int i = 0; i < N; i++) {
        assert_true(a[i] == rint(a[i]) && fabs(a[i]) <= 3.0);
        found[(int)a[i] + 3] = true;
    }
    for (int i = 0; i < 7; i++)
        assert_true(found[i]);
    clt_verify_fill(b, N, &integers, &one);
    assert_memory_equal(a, b, sizeof a);
    clt_verify_fill(b, N, &integers, &other);
    assert_memory_not_equal(a, b, sizeof a);
    clt_verify_fill(a, N, &half, &one);
    for (int i = 0; i < N; i++)
        assert_true((double)clt_bf16_to_f32(clt_f32_to_bf16((float)a[i])) == a[i]);
    clt_verify_fill(a, N, &index, &one);
    for (int i = 0; i < N; i++)
        assert_true(a[i] >= 0.0 && a[i] < 7.0 && a[i] == floor(a[i]));
}

/* --- faults in references --- */

static const clt_op_ref *true_ref;
static clt_op_ref fake_ref;
static clt_op fake_op;

/* A copy of a registered op whose reference can be spoilt. */
static const clt_op *fake(const char *name)
{
    const clt_op *op = clt_op_find(name);
    assert_non_null(op);
    true_ref = op->ref;
    fake_ref = *op->ref;
    fake_op = *op;
    fake_op.ref = &fake_ref;
    return &fake_op;
}

static void wrong_forward(clt_ref_call *call)
{
    true_ref->forward(call);
    call->out[0].data[0] += 1e-3;
}

static void wrong_backward(clt_ref_call *call)
{
    true_ref->backward(call);
    call->din[0].data[0] += 1e-3;
}

TEST(test_healthy)
{
    clt_verify_summary summary;
    clt_verify_options options = options_of("relu.tail", 0);
    assert_ok(run(&options, fake("relu"), &summary));
    assert_int_equal(summary.count[CLT_VERIFY_PASS], 5);
    assert_int_equal(summary.seed, 5);
    assert_int_equal(find("relu.tail[lane]/correct")->state, CLT_VERIFY_PASS);
    assert_int_equal(find("relu.tail[flat]/bitwise")->state, CLT_VERIFY_PASS);
    assert_int_equal(find("relu.tail/grad")->state, CLT_VERIFY_PASS);
    assert_contains(find("relu.tail[flat]/bitwise")->repeat,
                    "cltrain verify -t 'relu.tail[flat]/bitwise' --seed 5 --device ");
    assert_null(strstr(find("relu.tail/grad")->repeat, "--caps"));
}

TEST(test_wrong_values)
{
    clt_verify_summary summary;
    clt_verify_options options = options_of("relu.tail", 0);
    fake("relu");
    fake_ref.forward = wrong_forward;
    assert_int_equal(run(&options, &fake_op, &summary), CLT_ECHECK);
    assert_state("relu.tail[lane]/correct", CLT_VERIFY_FAIL, "element 0 of 51");
    assert_int_equal(find("relu.tail[lane]/bitwise")->state, CLT_VERIFY_PASS);
    assert_int_equal(summary.count[CLT_VERIFY_FAIL], 2);

    fake("relu");
    fake_ref.backward = wrong_backward;
    assert_int_equal(run(&options, &fake_op, &summary), CLT_ECHECK);
    assert_state("relu.tail/grad", CLT_VERIFY_FAIL, "finite differences");
    assert_state("relu.tail[lane]/correct", CLT_VERIFY_FAIL, "'d x0'");
}

/* A failure that appears only in the second check of a process. */
static int n_forward;
static void wrong_later(clt_ref_call *call)
{
    true_ref->forward(call);
    call->out[0].data[0] += n_forward++ > 0 ? 1e-3 : 0.0;
}

TEST(test_left_behind)
{
    clt_verify_summary summary;
    clt_verify_options options = options_of("relu.*[lane]", CLT_VERIFY_BITWISE | CLT_VERIFY_CORRECT);
    static const clt_op_case two[] = {
        {.name = "first", .n_inputs = 1, .inputs = {CLT_CASE_F32(3, 5)}, .small = true},
        {.name = "second", .n_inputs = 1, .inputs = {CLT_CASE_F32(3, 7)}, .small = true}};
    fake("relu");
    fake_ref.cases = two;
    fake_ref.n_cases = 2;
    fake_ref.forward = wrong_later;
    fake_op.backward = (ocl_family){0}; /* a single forward pass in each check */
    options.modes = CLT_VERIFY_CORRECT;
    n_forward = -2; /* a check runs the reference three times */
    assert_int_equal(run(&options, &fake_op, &summary), CLT_ECHECK);
    const seen_result *second = find("relu.second[lane]/correct");
    assert_int_equal(find("relu.first[lane]/correct")->state, CLT_VERIFY_PASS);
    assert_int_equal(second->state, CLT_VERIFY_FAIL);
    assert_contains(second->repeat, "-t 'relu.second[lane]/correct' --seed 5 --device ");
    assert_contains(second->repeat, " --after 'relu.*[lane]' --mode correct");
    /* the two runs that the line requests: the check alone, which passes in a fresh process, then after the
     * first one */
    options.pattern = "relu.second[lane]/correct";
    options.after = "relu.*[lane]";
    n_forward = -5;
    assert_int_equal(run(&options, &fake_op, &summary), CLT_ECHECK);
    assert_int_equal(n_seen, 3);
    assert_int_equal(seen[0].state, CLT_VERIFY_PASS);
    assert_string_equal(seen[1].name, "relu.first[lane]/correct");
    assert_int_equal(seen[1].state, CLT_VERIFY_PASS);
    assert_int_equal(seen[2].state, CLT_VERIFY_FAIL);
}

TEST(test_zeros)
{
    static const clt_op_case zero[] = {{.name = "zero",
                                        .attrs = "{\"value\":0}",
                                        .n_inputs = 1,
                                        .inputs = {CLT_CASE_F32(4, 9)},
                                        .small = true}};
    clt_verify_summary summary;
    clt_verify_options options = options_of(NULL, CLT_VERIFY_CORRECT);
    fake("scale");
    fake_ref.cases = zero;
    fake_ref.n_cases = 1;
    assert_int_equal(run(&options, &fake_op, &summary), CLT_ECHECK);
    assert_state("scale.zero[lane]/correct", CLT_VERIFY_MISTRUST, "0 of 36");
    assert_int_equal(summary.count[CLT_VERIFY_MISTRUST], 2);
}

TEST(test_unimplemented)
{
    clt_verify_summary summary;
    clt_verify_options options = options_of("relu", 0);
    fake("relu");
    fake_ref.backward = NULL;
    assert_int_equal(run(&options, &fake_op, &summary), CLT_ECHECK);
    assert_int_equal(find("relu.tail[lane]/correct")->state, CLT_VERIFY_UNIMPL);
    assert_int_equal(find("relu.tail/grad")->state, CLT_VERIFY_UNIMPL);
    fake_op.ref = NULL;
    assert_int_equal(run(&options, &fake_op, &summary), CLT_ECHECK);
    assert_int_equal(summary.count[CLT_VERIFY_UNIMPL], 1);
}

TEST(test_skip_has_reason)
{
    clt_verify_summary summary;
    clt_verify_options options = options_of("softmax.odd", CLT_VERIFY_CORRECT);
    options.caps_mask = 0;
    assert_ok(run(&options, fake("softmax"), &summary));
    assert_state("softmax.odd[group]/correct", CLT_VERIFY_SKIP, "variant group: the device lacks local");
    assert_state("softmax.odd[row]/correct", CLT_VERIFY_PASS, "");
    assert_contains(find("softmax.odd[group]/correct")->repeat, "--caps none");
}

/* --- faults in kernels --- */

static char folder[64];

/* A kernel header with one macro replaced; every kernel of the next run is built from it. */
static void plant_in(const char *header, const char *macro, const char *with)
{
    char *text, path[300];
    size_t size;
    snprintf(path, sizeof path, "%s/%s", CLT_TEST_KERNEL_DIR, header);
    assert_ok(clt_file_read(path, false, 0, CLT_EDATA, &text, &size));
    char *line = strstr(text, macro);
    assert_non_null(line);
    clt_str out = {0};
    clt_str_append_n(&out, text, (size_t)(line - text));
    clt_str_append(&out, with);
    clt_str_append(&out, strchr(line, '\n'));
    assert_ok(clt_str_check(&out));
    test_kernel_folder(folder);
    test_write_source(folder, header, out.text);
    clt_str_free(&out);
    free(text);
}

static void plant(const char *macro, const char *with)
{
    plant_in("common.clh", macro, with);
}

static void unplant(void)
{
    assert_int_equal(unsetenv("CLTRAIN_KERNEL_DIR"), 0);
    assert_ok(clt_remove_tree(folder));
}

#define STORE_F32 "#define STORE_f32(p, i, v)"

static void spoilt(const char *macro, const char *with, const char *op, const char *pattern, const char *name,
                   const char *reason)
{
    clt_verify_summary summary;
    clt_verify_options options = options_of(pattern, 0);
    plant(macro, with);
    assert_int_equal(run(&options, fake(op), &summary), CLT_ECHECK);
    unplant();
    assert_state(name, CLT_VERIFY_FAIL, reason);
}

TEST(test_kernel_off)
{
    spoilt(STORE_F32, STORE_F32 " ((p)[i] = (v) + 1e-3f)", "relu", "relu.tail[lane]",
           "relu.tail[lane]/correct", "written 'node'");
}

TEST(test_kernel_outside)
{
    spoilt(STORE_F32, STORE_F32 " ((p)[i] = (v), (p)[(i) + 64] = 0.0f)", "relu", "relu.tail[lane]",
           "relu.tail[lane]/correct", "forward wrote where it must not");
}

/* A result that depends on what memory held differs between two runs of the bitwise check. */
TEST(test_kernel_stale)
{
    spoilt(STORE_F32, STORE_F32 " ((p)[i] = (v) + (isnan((p)[i]) ? 0.0f : 1e-7f))", "relu", "relu.tail[lane]",
           "relu.tail[lane]/bitwise", "the second run differs");
}

/* Non-temporal stores, which only arrays larger than the caches use, are checked on small arrays, too. */
TEST(test_kernel_past_caches)
{
    clt_verify_summary summary;
    clt_verify_options options = options_of("relu.chunk[lane]", CLT_VERIFY_BITWISE);
    ocl_device *device = test_open(false);
    bool has = (ocl_device_describe(device)->caps & OCL_CAP_NONTEMPORAL) != 0;
    ocl_device_close(device);
    if (!has) {
        printf("SKIP: the device has no stores that pass by the caches\n");
        skip();
    }
    plant_in("lanes.clh", "#define STREAM16_f32(p, i, v)",
             "#define STREAM16_f32(p, i, v) __builtin_nontemporal_store((v) * 1.0000002f, (__global float16 "
             "*)((p) + (i)))");
    assert_int_equal(run(&options, fake("relu"), &summary), CLT_ECHECK);
    unplant();
    assert_state("relu.chunk[lane]/bitwise", CLT_VERIFY_FAIL, "nontemporal stores");
}

TEST(test_kernel_zero)
{
    spoilt(STORE_F32, STORE_F32 " ((p)[i] = 0.0f * (v))", "relu", "relu.tail[flat]",
           "relu.tail[flat]/correct", "written");
}

#define STORE_GRAD "#define STORE_GRAD(dt, p, i, v, accumulate)"

/* Accumulation that overwrites: found where a second node adds, and where a second micro-batch adds. */
TEST(test_kernel_overwrites)
{
    spoilt(STORE_GRAD, STORE_GRAD " STORE(dt, p, i, v)", "relu", "relu.tail[lane]", "relu.tail[lane]/correct",
           "accumulated 'd x0'");
    spoilt(STORE_GRAD, STORE_GRAD " STORE(dt, p, i, v)", "bias", "bias.odd[lane]", "bias.odd[lane]/correct",
           "added");
}

/* A gradient that reads its NaN-filled target though it must only write. */
TEST(test_kernel_reads_target)
{
    spoilt(STORE_GRAD, STORE_GRAD " STORE(dt, p, i, LOAD(dt, p, i) * 0.0f + (v))", "relu", "relu.tail[lane]",
           "relu.tail[lane]/correct", "written 'd x0'");
}

TEST(test_kernel_broken)
{
    spoilt(STORE_F32, STORE_F32 " no_such_function(v)", "relu", "relu.tail", "relu.tail[lane]/correct",
           "kernel build failed");
    assert_int_equal(find("relu.tail/grad")->state,
                     CLT_VERIFY_PASS); /* the run continues after a broken kernel */
}

TEST(test_known_answers_notice)
{
    clt_verify_summary summary;
    clt_verify_options options = options_of("known", CLT_VERIFY_CORRECT);
    plant("#define STORE_f16(p, i, v)",
          "#define STORE_f16(p, i, v) vstore_half_rtz((v), (size_t)(i), (__global half *)(p))");
    assert_int_equal(run(&options, NULL, &summary), CLT_ECHECK);
    unplant();
    assert_state("known.f16/correct", CLT_VERIFY_FAIL, "is stored as f16");
    assert_int_equal(find("known.bf16/correct")->state, CLT_VERIFY_PASS);
    assert_int_equal(find("known.philox/correct")->state, CLT_VERIFY_PASS);
}

/* A GEMM stores C with STORE, too. */
TEST(test_gemm_notices)
{
    clt_verify_summary summary;
    clt_verify_options options = options_of("gemm.odd_nn[simple]", 0);
    assert_ok(run(&options, NULL, &summary));
    assert_int_equal(summary.count[CLT_VERIFY_PASS], 2);
    plant(STORE_F32, STORE_F32 " ((p)[i] = (v) * 1.0001f)");
    clt_status status = run(&options, NULL, &summary);
    unplant();
    assert_int_equal(status, CLT_ECHECK);
    assert_int_equal(find("gemm.odd_nn[simple]/correct")->state, CLT_VERIFY_FAIL);
}

/* --- runs --- */

TEST(test_shards)
{
    static seen_result all[MAX_SEEN];
    clt_verify_summary summary;
    clt_verify_options options = options_of(NULL, CLT_VERIFY_LIST);
    options.small = true;
    assert_ok(run(&options, NULL, &summary));
    int total = n_seen, sum = 0;
    memcpy(all, seen, sizeof all);
    assert_true(total > 300);
    options.shards = 3;
    for (options.shard = 0; options.shard < 3; options.shard++) {
        assert_ok(run(&options, NULL, &summary));
        for (int i = 0; i < n_seen; i++)
            assert_string_equal(seen[i].name, all[3 * i + options.shard].name);
        sum += n_seen;
    }
    assert_int_equal(sum, total);
    options.shard = 3;
    assert_int_equal(run(&options, NULL, &summary), CLT_EUSAGE);
}

/* A check that runs alone gets the same data as among others. */
TEST(test_repeats)
{
    clt_verify_summary summary;
    clt_verify_options options = options_of("gelu.t*[lane]", CLT_VERIFY_CORRECT);
    options.seed = 77;
    assert_ok(run(&options, NULL, &summary));
    double error = find("gelu.tail[lane]/correct")->error;
    options.pattern = "gelu.tail[lane]/correct";
    assert_ok(run(&options, NULL, &summary));
    assert_int_equal(n_seen, 1);
    assert_true(seen[0].error == error);
    options.seed = 78;
    assert_ok(run(&options, NULL, &summary));
    assert_true(seen[0].error != error);
    options.seed = 0;
    assert_ok(run(&options, NULL, &summary));
    assert_true(summary.seed != 0);
}

TEST(test_nothing_matches)
{
    clt_verify_summary summary;
    clt_verify_options options = options_of("sotfmax", 0);
    assert_int_equal(run(&options, NULL, &summary), CLT_EUSAGE);
    assert_contains(clt_error_text(), "sotfmax");
}

/* Positions of one comparison are not carried over to the next one. */
TEST(test_places_end)
{
    const clt_verify_rule exact = {.dtype = CLT_F32, .exact = true};
    const double one = 1.0;
    clt_verify_outcome outcome = {0};
    clt_verify_from(&outcome, (clt_verify_source){.dtype = CLT_F32});
    clt_verify_compare(&outcome, "a value", &one, &one, 1, &exact);
    assert_false(outcome.located);
    clt_verify_from(&outcome, (clt_verify_source){.dtype = CLT_F32});
    clt_verify_compare_bounds(&outcome, "a value", &one, &one, &one, 1, CLT_F32, 0.0);
    assert_false(outcome.located);
}

TEST(test_perf)
{
    clt_verify_summary summary;
    clt_verify_options options = options_of("softmax.gpt2", CLT_VERIFY_PERF);
    assert_ok(clt_verify_run(&options, &summary));
    assert_int_equal(n_seen, 1);
    assert_string_equal(seen[0].name, "softmax.gpt2/perf");
    assert_true(seen[0].n_speeds >= 2); /* the phases, and their kernels if there are several */
    assert_string_equal(seen[0].speeds[0].what, "forward");
    for (int i = 0; i < seen[0].n_speeds; i++)
        assert_true(seen[0].speeds[i].ns > 0 && seen[0].speeds[i].bytes > 0 && seen[0].speeds[i].flops > 0);
}

TEST_PROGRAM(.device = true);
