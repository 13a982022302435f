/* SPDX-License-Identifier: Apache-2.0
 *
 * The ranges of keys that queries of attention see, in every variant: a document's results do not depend on
 * another document of the row, keys that no window reaches may hold NaN, documents may have any numbers;
 * what is refused, and how many pairs count as work. Matrix units are emulated, which takes long: only with
 * the argument "all".
 * ctest-labels: quick ctest-full: all ctest-cost: 9 ctest-optimise: no */
#include "tests/unit/cl/cl_test.h"

#include <math.h>

#include "engine/graph/graph.h"
#include "engine/graph/step_block.h"
#include "engine/ops/attention/attention.h"
#include "engine/ops/case.h"
#include "engine/ops/node.h"
#include "engine/verify/verify_internal.h"

#define TOKENS 70
#define BORDER 37 /* first token of the second document, inside a tile of every variant */
#define HEADS 2
#define DIM 12
#define WIDTH (3 * HEADS * DIM)

static ocl_device *device;

/* A case on the device with values of its own, for one variant. */
typedef struct rig {
    clt_verify_summary summary;
    clt_verify_options options;
    clt_verify_session session;
    clt_verify_subject subject;
    clt_verify_outcome outcome;
    clt_verify_bench *bench;
    double *in[4], *dout;
} rig;

static double *numbers(const rig *r, int32_t tensor)
{
    double *values = calloc(clt_verify_elements(r->bench, tensor), sizeof *values);
    assert_non_null(values);
    return values;
}

static void fill(double *values, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = (double)(int32_t)(seed >> 16) / 32768.0 - 1.0;
    }
}

static rig *rig_open(const clt_op_case *c, const char *variant)
{
    rig *r = calloc(1, sizeof *r);
    clt_verify_setup setup = CLT_VERIFY_SINGLE;
    assert_non_null(r);
    r->subject = (clt_verify_subject){clt_op_find("attention"), c, variant};
    r->session = (clt_verify_session){.options = &r->options,
                                      .summary = &r->summary,
                                      .device = device,
                                      .desc = *ocl_device_describe(device)};
    r->session.desc.quirks |= OCL_QUIRK_ANY_STYLE;
    assert_ok(clt_verify_bench_create(&r->session, &r->subject, &setup, &r->outcome, &r->bench));
    if (!r->bench)
        fail_msg("%s refuses %s: %s", variant, c->name, r->outcome.reason);
    for (int i = 0; i < c->n_inputs; i++) {
        r->in[i] = numbers(r, r->bench->in[i]);
        fill(r->in[i], clt_verify_elements(r->bench, r->bench->in[i]), (uint32_t)i + 1);
    }
    r->dout = numbers(r, r->bench->dout[0][0]);
    fill(r->dout, clt_verify_elements(r->bench, r->bench->dout[0][0]), 99);
    return r;
}

static void rig_close(rig *r)
{
    clt_verify_bench_destroy(r->bench);
    for (int i = 0; i < 4; i++)
        free(r->in[i]);
    free(r->dout);
    free(r);
}

/* Runs both directions. Returns the output (which = -1) or the gradient of input `which`. */
static double *rig_run(rig *r, double *gradient[4])
{
    clt_verify_bench *b = r->bench;
    clt_step_block step = {.valid = (uint32_t)b->plan->graph->micro_batch, .seed_lo = 5, .norm = {1}};
    int n = r->subject.op_case->n_inputs;
    clt_verify_bench_clear(b, CLT_VERIFY_NAN_PATTERN);
    for (int i = 0; i < n; i++)
        clt_verify_bench_put(b, b->in[i], r->in[i]);
    clt_verify_bench_put(b, b->dout[0][0], r->dout);
    clt_verify_bench_put_bytes(b, b->plan->graph->step, &step);
    assert_ok(clt_verify_bench_run(b, CLT_PHASE_FORWARD, &r->outcome));
    clt_verify_bench_keep(b);
    double *y = numbers(r, b->node[0]->out[0]);
    clt_verify_bench_get(b, b->node[0]->out[0], y);
    assert_ok(clt_verify_bench_run(b, CLT_PHASE_BACKWARD, &r->outcome));
    for (int i = 0; i < 4; i++) {
        int32_t tensor = i < n ? b->plan->gradient[b->in[i]] : -1;
        gradient[i] = NULL;
        if (tensor >= 0) {
            gradient[i] = numbers(r, tensor);
            clt_verify_bench_get(b, tensor, gradient[i]);
        }
    }
    if (clt_verify_bad(&r->outcome))
        fail_msg("%s: %s", r->subject.variant, r->outcome.reason);
    return y;
}

static void same_rows(const rig *r, const char *what, const double *a, const double *b, int from, int end,
                      int width)
{
    for (int i = from * width; i < end * width; i++)
        if (memcmp(&a[i], &b[i], sizeof a[i]) != 0 || isnan(a[i]))
            fail_msg("%s of %s: %s of token %d is %.9g, and %.9g after the other document changed",
                     r->subject.op_case->name, r->subject.variant, what, i / width, a[i], b[i]);
}

/* Changes the rows from .. end - 1 of one document; nothing of the other rows may change by a bit. */
static void leak(rig *r, int from, int end)
{
    double *before[4], *after[4], *y = rig_run(r, before);
    for (int i = from * WIDTH; i < end * WIDTH; i++)
        r->in[0][i] = 3 - 40 * r->in[0][i];
    for (int i = from * HEADS * DIM; i < end * HEADS * DIM; i++)
        r->dout[i] = -7 * r->dout[i];
    double *changed = rig_run(r, after);
    for (int side = 0; side < 2; side++) {
        int first = side ? end : 0, last = side ? TOKENS : from;
        same_rows(r, "the output", y, changed, first, last, HEADS * DIM);
        same_rows(r, "the gradient", before[0], after[0], first, last, WIDTH);
    }
    for (int i = 0; i < 4; i++) {
        free(before[i]);
        free(after[i]);
    }
    free(y);
    free(changed);
}

#define LEAK_CASE(case_name, dtype, text)                                                                    \
    CLT_CASE(case_name, text, 0, CLT_CASE_FLOAT(dtype, 1, TOKENS, WIDTH),                                    \
             CLT_CASE_INDEX(CLT_I32, 1, 1, TOKENS))
static const clt_op_case leak_cases[] = {
    LEAK_CASE("causal", CLT_F32, "{\"heads\":2,\"documents\":true}"),
    LEAK_CASE("open", CLT_F32, "{\"heads\":2,\"documents\":true,\"causal\":false}"),
    LEAK_CASE("window", CLT_F32, "{\"heads\":2,\"documents\":true,\"window\":20,\"dropout\":0.2}")};
static const clt_op_case narrow_cases[] = {
    LEAK_CASE("f16", CLT_F16, "{\"heads\":2,\"documents\":true}"),
    LEAK_CASE("f16_open", CLT_F16, "{\"heads\":2,\"documents\":true,\"causal\":false}")};

static void leak_case(const clt_op_case *c, const char *variant)
{
    rig *r = rig_open(c, variant);
    for (int t = 0; t < TOKENS; t++)
        r->in[1][t] = t < BORDER ? 0 : BORDER;
    leak(r, 0, BORDER);
    leak(r, BORDER, TOKENS);
    rig_close(r);
}

TEST(test_documents_do_not_leak)
{
    static const char *const variants[] = {"row", "group", "lane"};
    for (size_t v = 0; v < 3; v++)
        for (size_t c = 0; c < sizeof leak_cases / sizeof leak_cases[0]; c++)
            leak_case(&leak_cases[c], variants[v]);
    for (size_t c = 0; run_everything && c < sizeof narrow_cases / sizeof narrow_cases[0]; c++)
        leak_case(&narrow_cases[c], "mma");
}

/* --- keys that no query sees --- */

#define QUERIES 20
#define KEYS 90
#define WINDOW 30
#define SEEN (KEYS - QUERIES - WINDOW + 1) /* the first key that a query sees */

#define POISON_CASE(case_name, dtype)                                                                        \
    CLT_CASE(case_name, "{\"heads\":2,\"window\":30}", 0, CLT_CASE_FLOAT(dtype, 1, QUERIES, HEADS *DIM),     \
             CLT_CASE_FLOAT(dtype, 1, KEYS, HEADS *DIM), CLT_CASE_FLOAT(dtype, 1, KEYS, HEADS *DIM))
static const clt_op_case poison_cases[] = {POISON_CASE("f32", CLT_F32), POISON_CASE("f16", CLT_F16)};

/* With NaN in the keys and values before every window, results are the same as with zeros there, and the
 * gradients of these keys and values are zero. */
static void poison(const clt_op_case *c, const char *variant)
{
    const int width = HEADS * DIM;
    rig *r = rig_open(c, variant);
    double *clean[4], *poisoned[4], *y, *again;
    for (int i = 1; i < 3; i++)
        memset(r->in[i], 0, SEEN * width * sizeof *r->in[i]);
    y = rig_run(r, clean);
    for (int i = 1; i < 3; i++)
        for (int k = 0; k < SEEN * width; k++)
            r->in[i][k] = NAN;
    again = rig_run(r, poisoned);
    same_rows(r, "the output", y, again, 0, QUERIES, width);
    for (int i = 0; i < 3; i++) {
        same_rows(r, "a gradient", clean[i], poisoned[i], 0, i ? KEYS : QUERIES, width);
        for (int k = 0; i > 0 && k < SEEN * width; k++)
            assert_true(poisoned[i][k] == 0);
        free(clean[i]);
        free(poisoned[i]);
    }
    free(y);
    free(again);
    rig_close(r);
}

TEST(test_unseen_keys_may_be_nan)
{
    static const char *const variants[] = {"row", "group", "lane"};
    for (size_t v = 0; v < 3; v++)
        poison(&poison_cases[0], variants[v]);
    if (run_everything)
        poison(&poison_cases[1], "mma");
}

/* --- documents of any numbers --- */

static const clt_op_case any_case =
    CLT_CASE("any", "{\"heads\":2,\"documents\":true,\"causal\":false}", 0, CLT_CASE_F32(1, TOKENS, WIDTH),
             CLT_CASE_INDEX(CLT_I32, 1, 1, TOKENS));

/* Documents begin where neighbouring numbers differ, whatever the numbers are. */
TEST(test_any_numbers)
{
    static const double both[2][3] = {{0, 20, 41}, {INT32_MAX, INT32_MIN, INT32_MAX}};
    double *y[2], *gradient[2][4];
    rig *r = rig_open(&any_case, "row");
    for (int i = 0; i < 2; i++) {
        for (int t = 0; t < TOKENS; t++)
            r->in[1][t] = both[i][t < 20 ? 0 : t < 41 ? 1 : 2];
        y[i] = rig_run(r, gradient[i]);
    }
    same_rows(r, "the output", y[0], y[1], 0, TOKENS, HEADS * DIM);
    same_rows(r, "the gradient", gradient[0][0], gradient[1][0], 0, TOKENS, WIDTH);
    for (int i = 0; i < 2; i++) {
        free(y[i]);
        free(gradient[i][0]);
    }
    rig_close(r);
}

/* --- what is refused, and what counts as work --- */

/* A node over q, and k and v unless `keys` is 0, and the field `extra` of i32 where it has dimensions. */
static clt_status add(clt_graph *graph, const char *attrs, int64_t queries, int64_t keys, clt_shape extra,
                      clt_node **node)
{
    clt_shape q = {2, {queries, keys ? 16 : 48}}, kv = {2, {keys, 16}};
    int32_t in[4];
    int n = 0;
    assert_ok(clt_graph_field(graph, "q", CLT_F32, &q, &in[n++]));
    if (keys) {
        assert_ok(clt_graph_field(graph, "k", CLT_F32, &kv, &in[n++]));
        assert_ok(clt_graph_field(graph, "v", CLT_F32, &kv, &in[n++]));
    }
    if (extra.ndim >= 0)
        assert_ok(clt_graph_field(graph, "extra", CLT_I32, &extra, &in[n++]));
    return clt_graph_add_text(graph, "attention", "attention", attrs, in, n, node);
}

static const clt_shape none = {.ndim = -1}, one_each = {.ndim = 0};

TEST(test_refused)
{
    static const struct {
        const char *attrs;
        int64_t queries, keys;
        int extra; /* length of a field (N, extra); 0: (N); -1: none */
        const char *why;
    } cases[] = {
        {"{\"heads\":2,\"window\":4,\"causal\":false}", 9, 0, -1, "a window (4) needs causal"},
        {"{\"heads\":2,\"documents\":true}", 9, 0, -1, "with documents the last input must number"},
        {"{\"heads\":2,\"documents\":true}", 9, 11, 9, "9 queries and 11 keys"},
        {"{\"heads\":2,\"documents\":true}", 9, 0, 8, "one i32 number per token, (3, 9), not"},
        {"{\"heads\":2,\"documents\":true}", 9, 0, 0, "one i32 number per token, (3, 9), not"},
        {"{\"heads\":2}", 9, 0, 9, "one i32 number per sample"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        clt_graph *graph;
        clt_node *node;
        clt_shape extra = {1, {cases[i].extra}};
        assert_ok(clt_graph_create(3, &graph));
        clt_status status = add(graph, cases[i].attrs, cases[i].queries, cases[i].keys,
                                cases[i].extra < 0    ? none
                                : cases[i].extra == 0 ? one_each
                                                      : extra,
                                &node);
        assert_int_equal(status, CLT_ESHAPE);
        assert_contains(clt_error_text(), cases[i].why);
        clt_graph_destroy(graph);
    }
}

/* The pairs of a query and a key that it sees, counted one by one. */
TEST(test_pairs)
{
    static const int64_t sizes[][3] = {{9, 9, 0}, {9, 9, 1}, {9, 9, 4}, {9, 9, 9},    {9, 9, 40},
                                       {4, 9, 0}, {4, 9, 2}, {4, 9, 6}, {4, 300, 70}, {1, 50, 7}};
    for (size_t c = 0; c < sizeof sizes / sizeof sizes[0]; c++) {
        int64_t tq = sizes[c][0], tk = sizes[c][1], window = sizes[c][2], count = 0;
        clt_graph *graph;
        clt_node *node;
        char attrs[64];
        assert_ok(clt_graph_create(3, &graph));
        snprintf(attrs, sizeof attrs, "{\"heads\":2,\"window\":%d}", (int)window);
        assert_ok(add(graph, attrs, tq, tk, none, &node));
        clt_call call = {.graph = graph, .node = node};
        clt_attention s = clt_attention_measure(graph, node);
        for (int64_t i = 0; i < tq; i++)
            for (int64_t j = 0; j <= i + tk - tq; j++)
                count += window == 0 || j > i + tk - tq - window;
        assert_true(clt_attention_pairs(&call, &s) == (double)(3 * 2 * count));
        clt_graph_destroy(graph);
    }
}

FIXTURE(open_device)
{
    device = test_open(false);
    return device ? 0 : 1;
}

FIXTURE(close_device)
{
    ocl_device_close(device);
    return 0;
}

TEST_PROGRAM(.device = true, .set_up = open_device, .tear_down = close_device);
