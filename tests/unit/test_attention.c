/* SPDX-License-Identifier: Apache-2.0
 *
 * What the checker's cases do not reach of attention: what its forms refuse, and the group form with the
 * smaller blocks of devices with little local memory. ctest-labels: quick */
#include "tests/unit/cl_test.h"

#include "engine/graph/graph.h"
#include "engine/verify/verify_internal.h"

static const ocl_variant *form(const ocl_variant *const *list, const char *name)
{
    for (size_t i = 0; list[i]; i++)
        if (strcmp(list[i]->name, name) == 0)
            return list[i];
    fail_msg("attention has no form '%s'", name);
    return NULL;
}

/* One attention node over a packed tensor, and a call of its backward. */
typedef struct problem {
    clt_graph *graph;
    clt_call call;
    int32_t gradient;
} problem;

static void problem_make(problem *p, int64_t width, clt_dtype gradient)
{
    clt_shape features = {2, {5, 3 * width}}, all = {3, {2, 5, 3 * width}};
    int32_t x;
    clt_node *node;
    memset(p, 0, sizeof *p);
    assert_ok(clt_graph_create(2, &p->graph));
    assert_ok(clt_graph_field(p->graph, "x", CLT_F32, &features, &x));
    assert_ok(clt_graph_add_text(p->graph, "attention", "attention", "{\"heads\":1}", &x, 1, &node));
    assert_ok(clt_graph_new_tensor(p->graph, "dx", gradient, &all, CLT_TC_GRADIENT, &p->gradient));
    p->call = (clt_call){.graph = p->graph,
                         .node = node,
                         .in = {x},
                         .out = {node->out[0]},
                         .saved = {node->saved[0]},
                         .din = {p->gradient}};
}

static void refuses(const ocl_variant *v, const problem *p, const ocl_device_desc *desc, const char *why)
{
    char reason[256] = "";
    assert_false(v->accepts(&p->call, desc, reason, sizeof reason));
    assert_contains(reason, why);
}

static void accepts(const ocl_variant *v, const problem *p, const ocl_device_desc *desc)
{
    char reason[256] = "";
    if (!v->accepts(&p->call, desc, reason, sizeof reason))
        fail_msg("%s refuses: %s", v->name, reason);
}

/* The lane form's backward kernels write f32 gradients, and its tiles end somewhere; forward has no gradient,
 * whatever stands in that place of the call. */
static void test_lane_refuses(void **state)
{
    const clt_op *op = clt_op_find("attention");
    const ocl_variant *forward = form(op->forward, "lane"), *backward = form(op->backward, "lane");
    ocl_device_desc cpu = {.is_cpu = true, .compute_units = 2, .vector_floats = 8},
                    gpu = {.compute_units = 2};
    static const clt_dtype types[] = {CLT_F16, CLT_BF16};
    problem p;
    (void)state;
    problem_make(&p, 256, CLT_F32);
    accepts(forward, &p, &cpu);
    accepts(backward, &p, &cpu);
    refuses(forward, &p, &gpu, "CPU");
    refuses(backward, &p, &gpu, "CPU");
    p.call.din[0] = -1;
    accepts(backward, &p, &cpu);
    clt_graph_destroy(p.graph);
    problem_make(&p, 257, CLT_F32);
    refuses(forward, &p, &cpu, "257");
    refuses(backward, &p, &cpu, "257");
    clt_graph_destroy(p.graph);
    for (int i = 0; i < 2; i++) {
        problem_make(&p, 8, types[i]);
        refuses(backward, &p, &cpu, clt_dtype_name(types[i]));
        accepts(forward, &p, &cpu);
        clt_graph_destroy(p.graph);
    }
}

/* --- blocks of the group form --- */

typedef struct tally {
    int passed, failed;
    char text[1024];
} tally;

static void count(void *context, const clt_verify_result *result)
{
    tally *t = context;
    t->passed += result->state == CLT_VERIFY_PASS;
    if (result->state != CLT_VERIFY_PASS) {
        t->failed++;
        snprintf(t->text, sizeof t->text, "%s: %s: %s", result->name, clt_verify_state_name(result->state),
                 result->reason);
    }
}

static void verify_with(ocl_device *device, uint64_t local_bytes, const char *name)
{
    tally t = {0};
    clt_verify_summary summary = {0};
    clt_verify_options options = {.pattern = name, .result = count, .context = &t};
    clt_verify_session session = {.options = &options,
                                  .summary = &summary,
                                  .device = device,
                                  .desc = *ocl_device_describe(device),
                                  .seed = 4711,
                                  .modes = CLT_VERIFY_CORRECT | CLT_VERIFY_BITWISE};
    const clt_op *op = clt_op_find("attention");
    session.desc.local_bytes = local_bytes;
    session.desc.quirks |= OCL_QUIRK_ANY_STYLE;
    assert_ok(clt_verify_ops(&session, &op, 1));
    if (t.failed)
        fail_msg("%llu bytes of local memory: %s", (unsigned long long)local_bytes, t.text);
    assert_int_equal(t.passed, 2);
}

/* Blocks that the plan of a case takes: bit n for a block of n. */
static uint64_t blocks_of(const ocl_device_desc *desc, const char *name)
{
    const clt_op *op = clt_op_find("attention");
    clt_verify_setup setup = {CLT_PLAN_CHECK, 1, UINT32_MAX, true, false};
    clt_verify_bench bench = {0};
    uint64_t blocks = 0;
    clt_verify_subject subject = {.op = op, .variant = "group"};
    for (int c = 0; c < op->ref->n_cases; c++)
        if (strcmp(op->ref->cases[c].name, name) == 0)
            subject.op_case = &op->ref->cases[c];
    assert_non_null(subject.op_case);
    assert_ok(clt_verify_plan(desc, &subject, &setup, &bench));
    for (int phase = 0; phase < CLT_PHASE_COUNT; phase++)
        for (size_t i = 0; i < bench.plan->phase[phase].count; i++) {
            const char *options = bench.plan->phase[phase].commands[i].options;
            const char *block = options ? strstr(options, "-DBLOCK=") : NULL;
            if (block)
                blocks |= UINT64_C(1) << atoi(block + strlen("-DBLOCK="));
        }
    clt_plan_destroy(bench.plan);
    return blocks;
}

#define BIT(n) (UINT64_C(1) << (n))

static void test_group_blocks(void **state)
{
    /* several blocks of each size, with tails; heads of 9 elements, then of 17 */
    static const struct {
        uint64_t local_bytes;
        const char *name;
        uint64_t blocks;
    } cases[] = {
        {65536, "eight", BIT(32) | BIT(16)},
        {4096, "eight", BIT(16) | BIT(8)},
        {2560, "eight", BIT(8)},
        {65536, "one_kv", BIT(32) | BIT(16)},
        {3072, "one_kv", BIT(8)},
        {3072, "more_queries", BIT(8)},
        {3072, "causal_lengths", BIT(8)},
        {2560, "dropout_shared", BIT(8)},
        {4096, "f16_cross", BIT(8)},
        {65536, "f16_cross", BIT(32) | BIT(16)},
    };
    ocl_device *device = test_open(false);
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char name[64];
        ocl_device_desc desc = *ocl_device_describe(device);
        desc.local_bytes = cases[i].local_bytes;
        desc.quirks |= OCL_QUIRK_ANY_STYLE;
        uint64_t blocks = blocks_of(&desc, cases[i].name);
        if (blocks != cases[i].blocks)
            fail_msg("%s with %llu bytes: blocks %llx, expected %llx", cases[i].name,
                     (unsigned long long)cases[i].local_bytes, (unsigned long long)blocks,
                     (unsigned long long)cases[i].blocks);
        snprintf(name, sizeof name, "attention.%s[group]", cases[i].name);
        verify_with(device, cases[i].local_bytes, name);
    }
    ocl_device_close(device);
}

int main(void)
{
    test_need_device();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lane_refuses),
        cmocka_unit_test(test_group_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
