/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of attention that the checker's cases do not reach: what its forms refuse, which form a device
 * gets, and the group and matrix forms with the blocks of devices with other local memory and compute
 * units.
 * ctest-labels: quick ctest-cost: 9 ctest-optimise: no */
#include "tests/unit/cl/cl_test.h"

#include "engine/graph/graph.h"
#include "engine/ops/node.h"
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

static void problem_make(problem *p, clt_dtype dtype, int64_t width, clt_dtype gradient)
{
    clt_shape features = {2, {5, 3 * width}}, all = {3, {2, 5, 3 * width}};
    int32_t x;
    clt_node *node;
    memset(p, 0, sizeof *p);
    assert_ok(clt_graph_create(2, &p->graph));
    assert_ok(clt_graph_field(p->graph, "x", dtype, &features, &x));
    assert_ok(clt_graph_add_text(p->graph, "attention", "attention", "{\"heads\":1}", &x, 1, &node));
    assert_ok(clt_graph_new_tensor(p->graph, "dx", gradient, &all, CLT_TC_GRADIENT, &p->gradient));
    p->call = (clt_call){.graph = p->graph,
                         .node = node,
                         .in = {x},
                         .out = {node->out[0]},
                         .saved = {node->saved[0]},
                         .dout = {-1},
                         .din = {p->gradient}};
}

static void refuses(const ocl_variant *v, const problem *p, const ocl_device_desc *desc, const char *why)
{
    char reason[256] = "";
    assert_false(ocl_variant_accepts(v, &p->call, desc, reason, sizeof reason));
    assert_contains(reason, why);
}

static void accepts(const ocl_variant *v, const problem *p, const ocl_device_desc *desc)
{
    char reason[256] = "";
    if (!ocl_variant_accepts(v, &p->call, desc, reason, sizeof reason))
        fail_msg("%s refuses: %s", v->name, reason);
}

/* The tiles of the variant `lane` are limited, and it is for devices with wide vectors; it accepts gradients
 * of every storage type, by way of f32 copies. */
TEST(test_lane_refuses)
{
    const clt_op *op = clt_op_find("attention");
    const ocl_variant *forward = form(op->forward.variants, "lane"),
                      *backward = form(op->backward.variants, "lane");
    ocl_device_desc cpu = {.caps = OCL_CAP_WIDE_VECTORS, .compute_units = 2, .vector_floats = 8}, none = cpu;
    static const clt_dtype types[] = {CLT_F16, CLT_BF16};
    problem p;
    none.caps = 0;
    problem_make(&p, CLT_F32, 256, CLT_F32);
    accepts(forward, &p, &cpu);
    accepts(backward, &p, &cpu);
    refuses(forward, &p, &none, "wide_vectors");
    refuses(backward, &p, &none, "wide_vectors");
    p.call.din[0] = -1;
    accepts(backward, &p, &cpu);
    clt_graph_destroy(p.graph);
    problem_make(&p, CLT_F32, 257, CLT_F32);
    refuses(forward, &p, &cpu, "257");
    refuses(backward, &p, &cpu, "257");
    clt_graph_destroy(p.graph);
    for (int i = 0; i < 2; i++) {
        problem_make(&p, CLT_F32, 8, types[i]);
        accepts(backward, &p, &cpu);
        accepts(forward, &p, &cpu);
        clt_graph_destroy(p.graph);
    }
}

/* The variant for matrix units is chosen by what probes have shown for the storage type, not by the kind of
 * device; a device without matrix units uses the variant `group`. */
TEST(test_mma_choice)
{
    static const struct {
        clt_dtype dtype;
        int64_t head;
        uint32_t caps;
        const char *variant, *why;
    } cases[] = {
        {CLT_F16, 64, OCL_CAP_MMA_F16 | OCL_CAP_MMA_BF16, "mma", NULL},
        {CLT_BF16, 128, OCL_CAP_MMA_F16 | OCL_CAP_MMA_BF16, "mma", NULL},
        {CLT_BF16, 1, OCL_CAP_MMA_BF16, "mma", NULL},
        {CLT_BF16, 64, OCL_CAP_MMA_F16, "group", "no matrix units for bf16"},
        {CLT_F16, 64, OCL_CAP_MMA_BF16, "group", "no matrix units for f16"},
        {CLT_F16, 64, 0, "group", "no matrix units for f16"},
        {CLT_F16, 64, OCL_CAP_MMA_F16_K8, "mma", NULL},
        {CLT_F16, 128, OCL_CAP_MMA_F16_K8, "mma", NULL},
        {CLT_BF16, 64, OCL_CAP_MMA_F16_K8, "group", "no matrix units for bf16"},
        {CLT_F16, 64, OCL_CAP_WMMA_F16, "group", "no matrix units for f16"},
        {CLT_F32, 64, OCL_CAP_MMA_F16 | OCL_CAP_MMA_BF16, "group", "not f32"},
        {CLT_F16, 129, OCL_CAP_MMA_F16 | OCL_CAP_MMA_BF16, "group", "129"},
    };
    const clt_op *op = clt_op_find("attention");
    const ocl_variant *chosen;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ocl_device_desc gpu = {.is_gpu = true,
                               .caps = OCL_CAP_LOCAL | OCL_CAP_WG256 | cases[i].caps,
                               .compute_units = 100,
                               .max_work_group = 1024,
                               .local_bytes = 49152};
        problem p;
        problem_make(&p, cases[i].dtype, cases[i].head, cases[i].dtype);
        assert_ok(ocl_variant_select(op->forward.variants, &p.call, &gpu, "attention", NULL, &chosen));
        assert_string_equal(chosen->name, cases[i].variant);
        assert_ok(ocl_variant_select(op->backward.variants, &p.call, &gpu, "attention", NULL, &chosen));
        assert_string_equal(chosen->name, cases[i].variant);
        if (cases[i].why) {
            refuses(form(op->forward.variants, "mma"), &p, &gpu, cases[i].why);
            refuses(form(op->backward.variants, "mma"), &p, &gpu, cases[i].why);
        }
        clt_graph_destroy(p.graph);
    }
}

/* Properties that no real device has: gradients of another 16-bit type, local memory too small for any
 * tile, groups of one warp. */
TEST(test_mma_refuses)
{
    const clt_op *op = clt_op_find("attention");
    const ocl_variant *forward = form(op->forward.variants, "mma"),
                      *backward = form(op->backward.variants, "mma");
    ocl_device_desc gpu = {.is_gpu = true,
                           .caps = OCL_CAP_LOCAL | OCL_CAP_WG256 | OCL_CAP_MMA_F16 | OCL_CAP_MMA_BF16,
                           .compute_units = 4,
                           .max_work_group = 1024,
                           .local_bytes = 49152};
    problem p;
    problem_make(&p, CLT_F16, 128, CLT_F32);
    accepts(backward, &p, &gpu);
    gpu.local_bytes = 16384;
    refuses(forward, &p, &gpu, "16384 bytes");
    refuses(backward, &p, &gpu, "16384 bytes");
    gpu.local_bytes = 49152;
    gpu.max_work_group = 32;
    refuses(forward, &p, &gpu, "32 items");
    clt_graph_destroy(p.graph);
    gpu.max_work_group = 1024;
    problem_make(&p, CLT_F16, 64, CLT_BF16);
    accepts(forward, &p, &gpu);
    refuses(backward, &p, &gpu, "bf16 with values of type f16");
    clt_graph_destroy(p.graph);
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

static void verify_with(ocl_device *device, const ocl_device_desc *desc, const char *name)
{
    tally t = {0};
    clt_verify_summary summary = {0};
    clt_verify_options options = {.pattern = name, .result = count, .context = &t};
    clt_verify_session session = {.options = &options,
                                  .summary = &summary,
                                  .device = device,
                                  .desc = *desc,
                                  .seed = 4711,
                                  .modes = CLT_VERIFY_CORRECT | CLT_VERIFY_BITWISE};
    const clt_op *op = clt_op_find("attention");
    assert_ok(clt_verify_ops(&session, &op, 1));
    if (t.failed)
        fail_msg("%llu bytes of local memory, %u units: %s", (unsigned long long)desc->local_bytes,
                 desc->compute_units, t.text);
    assert_int_equal(t.passed, 2);
}

#define BIT(n) (UINT64_C(1) << ((n) % 64))

/* The values that the plan of a case gives to a define of a variant's kernels: value n sets bit n modulo
 * 64. */
static uint64_t defines_of(const ocl_device_desc *desc, const char *name, const char *variant,
                           const char *define)
{
    const clt_op *op = clt_op_find("attention");
    clt_verify_setup setup = {
        .mode = CLT_PLAN_CHECK, .copies = 1, .want_in = UINT32_MAX, .want_params = true};
    clt_verify_bench bench = {0};
    uint64_t found = 0;
    clt_verify_subject subject = {.op = op, .variant = variant};
    for (int c = 0; c < op->ref->n_cases; c++)
        if (strcmp(op->ref->cases[c].name, name) == 0)
            subject.op_case = &op->ref->cases[c];
    assert_non_null(subject.op_case);
    assert_ok(clt_verify_plan(desc, &subject, &setup, &bench));
    for (int phase = 0; phase < CLT_PHASE_COUNT; phase++)
        for (size_t i = 0; i < bench.plan->phase[phase].count; i++) {
            const char *options = bench.plan->phase[phase].commands[i].options;
            const char *value = options ? strstr(options, define) : NULL;
            if (value)
                found |= BIT(atoi(value + strlen(define)));
        }
    clt_plan_destroy(bench.plan);
    return found;
}

TEST(test_group_blocks)
{
    /* several blocks of each size, with tails; heads of 9 elements, then of 17 */
    static const struct {
        uint64_t local_bytes;
        const char *name;
        uint64_t blocks;
    } cases[] = {
        {65536, "eight", BIT(32) | BIT(16)},
        {6500, "eight", BIT(16) | BIT(8)},
        {3400, "eight", BIT(8)},
        {65536, "one_kv", BIT(32) | BIT(16)},
        {3400, "one_kv", BIT(8)},
        {3400, "more_queries", BIT(8)},
        {3400, "causal_lengths", BIT(8)},
        {3400, "dropout_shared", BIT(8)},
        {5500, "f16_cross", BIT(8)},
        {65536, "f16_cross", BIT(32) | BIT(16)},
    };
    ocl_device *device = test_open(false);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char name[64];
        ocl_device_desc desc = *ocl_device_describe(device);
        desc.local_bytes = cases[i].local_bytes;
        desc.quirks |= OCL_QUIRK_ANY_STYLE;
        uint64_t blocks = defines_of(&desc, cases[i].name, "group", "-DBLOCK=");
        if (blocks != cases[i].blocks)
            fail_msg("%s with %llu bytes: blocks %llx, expected %llx", cases[i].name,
                     (unsigned long long)cases[i].local_bytes, (unsigned long long)blocks,
                     (unsigned long long)cases[i].blocks);
        snprintf(name, sizeof name, "attention.%s[group]", cases[i].name);
        verify_with(device, &desc, name);
    }
    ocl_device_close(device);
}

/* With few compute units small heads get wide blocks, with many narrow ones; little local memory or few rows
 * lead to small blocks. The checker's cases run all of them, which takes long to compile. */
TEST(test_mma_forms)
{
    static const struct {
        uint64_t local_bytes;
        uint32_t units;
        const char *name;
        uint64_t warps, m_tiles, cols; /* cols: columns in forward, in dq, and in dk and dv */
    } cases[] = {
        {65536, 1, "f16_tiles", BIT(4), BIT(2), BIT(64) | BIT(32)},
        {65536, 1000, "f16_tiles", BIT(4), BIT(1), BIT(64) | BIT(32) | BIT(16)},
        {8192, 1, "f16_tiles", BIT(2), BIT(1), BIT(16)},
        {65536, 1, "f16_odd", BIT(2), BIT(1), BIT(16)}, /* 7 rows */
        {65536, 1, "bf16_dropout", BIT(4), BIT(2) | BIT(1), BIT(64) | BIT(32) | BIT(16)},
        {49152, 1, "f16_head_128", BIT(4), BIT(1), BIT(32) | BIT(16)},
    };
    ocl_device *device = test_open(false);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ocl_device_desc desc = *ocl_device_describe(device);
        desc.local_bytes = cases[i].local_bytes;
        desc.compute_units = cases[i].units;
        desc.quirks |= OCL_QUIRK_ANY_STYLE;
        uint64_t warps = defines_of(&desc, cases[i].name, "mma", "-DWARPS="),
                 m_tiles = defines_of(&desc, cases[i].name, "mma", "-DM_TILES="),
                 cols = defines_of(&desc, cases[i].name, "mma", "-DCOLS=");
        if (warps != cases[i].warps || m_tiles != cases[i].m_tiles || cols != cases[i].cols)
            fail_msg("%s with %llu bytes and %u units: warps %llx, m_tiles %llx, columns %llx", cases[i].name,
                     (unsigned long long)cases[i].local_bytes, cases[i].units, (unsigned long long)warps,
                     (unsigned long long)m_tiles, (unsigned long long)cols);
    }
    ocl_device_close(device);
}

/* Kernels are compiled for the instructions that the device has: sm_80's, or sm_75's, which do half as much
 * each. */
TEST(test_mma_generation)
{
    static const struct {
        uint32_t caps;
        const char *name;
        uint64_t sm;
    } cases[] = {
        {OCL_CAP_MMA_F16, "f16_tiles", BIT(80)},
        {OCL_CAP_MMA_F16_K8, "f16_tiles", BIT(75)},
        {OCL_CAP_MMA_F16 | OCL_CAP_MMA_F16_K8, "f16_tiles", BIT(80)},
        {OCL_CAP_MMA_BF16, "bf16_tiles", BIT(80)},
        {0, "f16_tiles", BIT(80)}, /* emulated on request */
    };
    ocl_device *device = test_open(false);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ocl_device_desc desc = *ocl_device_describe(device);
        desc.caps |= cases[i].caps;
        desc.quirks |= OCL_QUIRK_ANY_STYLE;
        uint64_t sm = defines_of(&desc, cases[i].name, "mma", "-DMMA_SM=");
        if (sm != cases[i].sm)
            fail_msg("case %zu: MMA_SM %llx, expected %llx", i, (unsigned long long)sm,
                     (unsigned long long)cases[i].sm);
    }
    ocl_device_close(device);
}

TEST_PROGRAM(.device = true);
