/* SPDX-License-Identifier: Apache-2.0
 *
 * The speed measurement of ops: the bytes that it counts are those computed by hand, and the verdict
 * "limited by memory and too slow" is correct for given figures. Needs no device. ctest-labels: quick */
#include <math.h>

#include "engine/ops/case.h"
#include "engine/verify/speed/speed_internal.h"
#include "engine/verify/verify_internal.h"
#include "tests/unit/cl/cl_test.h"

/* --- bytes --- */

typedef struct byte_case {
    const char *op;
    clt_op_case size;
    uint64_t forward, backward;
} byte_case;

#define ONE(...) .n_inputs = 1, .inputs = {__VA_ARGS__}
#define TWO(...) .n_inputs = 2, .inputs = {__VA_ARGS__}
#define ATTRS(text) .attrs = text
enum { F = 4, STEP_BLOCK = 32 * 4 };

/* (2,3,8) has 48 elements. Read + written, each once. */
static const byte_case cases[] = {
    {"relu", {ONE(CLT_CASE_F32(2, 3, 8))}, (48 + 48) * F, (48 + 48 + 48) * F}, /* dx from dy and y */
    {"gelu", {ONE(CLT_CASE_F32(2, 3, 8))}, (48 + 48) * F, (48 + 48 + 48) * F}, /* from dy and x */
    {"scale", {ATTRS("{\"value\":0.5}"), ONE(CLT_CASE_F32(2, 3, 8))}, (48 + 48) * F, (48 + 48) * F},
    {"cast",
     {ONE(CLT_CASE_FLOAT(CLT_BF16, 2, 3, 8))},
     48 * 2 + 48 * F,
     (48 + 48) * F}, /* gradients are f32 */
    {"cast", {ONE(CLT_CASE_INDEX(CLT_U8, 256, 2, 3, 8))}, 48 * 1 + 48 * F, 0},
    {"dropout",
     {ATTRS("{\"p\":0.1}"), ONE(CLT_CASE_F32(2, 3, 8))},
     (48 + 48) * F + STEP_BLOCK,
     (48 + 48) * F + STEP_BLOCK},
    {"add", {TWO(CLT_CASE_F32(2, 3, 8), CLT_CASE_F32(2, 3, 8))}, 3 * 48 * F, 2 * (48 + 48) * F},
    {"add", {TWO(CLT_CASE_F32(2, 3, 8), CLT_CASE_F32(3, 8))}, (48 + 24 + 48) * F, UINT64_MAX},
    {"multiply", {TWO(CLT_CASE_F32(2, 3, 8), CLT_CASE_F32(2, 3, 8))}, 3 * 48 * F, 2 * 3 * 48 * F},
    {"softmax", {ONE(CLT_CASE_F32(2, 3, 8))}, (48 + 48) * F, (48 + 48 + 48) * F},
    {"reduce", {ATTRS("{\"axes\":[2]}"), ONE(CLT_CASE_F32(2, 3, 8))}, (48 + 6) * F, (6 + 48) * F},
    {"transpose", {ATTRS("{\"perm\":[0,2,1]}"), ONE(CLT_CASE_F32(2, 3, 8))}, (48 + 48) * F, (48 + 48) * F},
    /* half of every row; backward writes the other half as well, zeros */
    {"slice",
     {ATTRS("{\"axis\":2,\"start\":2,\"stop\":6}"), ONE(CLT_CASE_F32(2, 3, 8))},
     (24 + 24) * F,
     (24 + 48) * F},
    {"concat",
     {ATTRS("{\"axis\":2}"), TWO(CLT_CASE_F32(2, 3, 8), CLT_CASE_F32(2, 3, 2))},
     2 * (48 + 12) * F,
     2 * (48 + 12) * F},
    /* 6 positions, 10 rows of 8. Forward: 6 indices, 6 rows, 6 written. Backward sorts the positions (indices
     * read; 11 starts and 6 places written) and sums (both and 6 rows read, the table of 10 written). */
    {"embedding",
     {ATTRS("{\"vocab\":10,\"dim\":8}"), ONE(CLT_CASE_INDEX(CLT_U16, 10, 2, 3))},
     6 * 2 + (48 + 48) * F,
     6 * 2 + (11 + 6) * 4 + (11 + 6) * 4 + 48 * F + 80 * F},
    /* more positions than rows: the table is read once */
    {"embedding",
     {ATTRS("{\"vocab\":3,\"dim\":8}"), ONE(CLT_CASE_INDEX(CLT_U16, 3, 2, 3))},
     6 * 2 + (24 + 48) * F,
     6 * 2 + (4 + 6) * 4 + (4 + 6) * 4 + 48 * F + 24 * F},
};

enum { EMBEDDING_OF_10 = sizeof cases / sizeof cases[0] - 2 };

static ocl_device_desc lane_device(void)
{
    ocl_device_desc desc;
    ocl_desc_generic(&desc);
    desc.is_cpu = true;
    desc.is_gpu = false;
    desc.caps |= OCL_CAP_WIDE_VECTORS;
    desc.compute_units = 2;
    desc.cache_bytes = 32u << 20;
    return desc;
}

static uint64_t bytes_of(const clt_plan *plan, clt_phase phase)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < plan->phase[phase].count; i++)
        bytes += ocl_command_bytes(&plan->phase[phase].commands[i]);
    return bytes;
}

static clt_plan *plan_case(const byte_case *c, int copies)
{
    ocl_device_desc desc = lane_device();
    clt_op_case size = c->size;
    clt_verify_bench bench = {0};
    clt_verify_setup setup = {
        .mode = CLT_PLAN_CHECK, .copies = copies, .want_in = UINT32_MAX, .want_params = true};
    size.name = "bytes";
    clt_verify_subject subject = {clt_op_find(c->op), &size, NULL};
    assert_non_null(subject.op);
    assert_ok(clt_verify_plan(&desc, &subject, &setup, &bench));
    return bench.plan;
}

TEST(test_bytes)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const byte_case *c = &cases[i];
        CLT_SCOPED(clt_plan) *plan = plan_case(c, 1);
        uint64_t forward = bytes_of(plan, CLT_PHASE_FORWARD), backward = bytes_of(plan, CLT_PHASE_BACKWARD);
        if (forward != c->forward || (c->backward != UINT64_MAX && backward != c->backward))
            fail_msg("case %zu, %s: %llu forward and %llu backward, must be %llu and %llu", i, c->op,
                     (unsigned long long)forward, (unsigned long long)backward,
                     (unsigned long long)c->forward, (unsigned long long)c->backward);
    }
}

/* If gradients are added to a table of 10 rows, only the rows of the 6 positions are touched: at most 6
 * rows are read and written. A table of 3 rows is touched as a whole. */
static int32_t workspace(void *owner, clt_dtype dtype, uint64_t elements, const char *name)
{
    (void)dtype, (void)elements, (void)name;
    return 1000 + (*(int32_t *)owner)++;
}

static uint64_t bytes_added(const byte_case *c)
{
    clt_plan *plan = plan_case(c, 1);
    ocl_device_desc desc = lane_device();
    const clt_node *node = plan->graph->nodes[0];
    int32_t scratch = 0, param = plan->graph->params[node->param[0]].tensor;
    ocl_command_list list = {0};
    uint64_t bytes = 0;
    assert_ok(clt_arena_create(&list.arena));
    ocl_emitter e = {
        .list = &list, .device = &desc, .label = "added", .workspace = workspace, .owner = &scratch};
    clt_call call = {.graph = plan->graph, .node = node, .device = &desc, .training = true};
    call.in[0] = node->in[0];
    call.dout[0] = plan->gradient[node->out[0]];
    call.dparam[0] = plan->gradient[param];
    call.dparam_accumulate[0] = true;
    const ocl_variant *variant;
    assert_ok(ocl_variant_select(node->op->backward.variants, &call, &desc, "added", NULL, &variant));
    assert_ok(variant->emit(&e, &call));
    assert_ok(ocl_emit_status(&e));
    for (size_t i = 0; i < list.count; i++)
        bytes += ocl_command_bytes(&list.commands[i]);
    ocl_emitter_free(&e);
    clt_arena *arena = list.arena;
    ocl_command_list_free(&list);
    clt_arena_destroy(arena);
    clt_plan_destroy(plan);
    return bytes;
}

TEST(test_bytes_of_accumulation)
{
    const byte_case *table_of_10 = &cases[EMBEDDING_OF_10], *table_of_3 = &cases[EMBEDDING_OF_10 + 1];
    assert_int_equal(bytes_added(table_of_10), table_of_10->backward - 80 * F + 2 * 48 * F);
    assert_int_equal(bytes_added(table_of_3), table_of_3->backward + 24 * F);
}

/* --- judgement --- */

TEST(test_share)
{
    /* 300 bytes in 10 ns are 30 GB/s */
    assert_float_equal(clt_speed_share(300, 10, 30, 30), 1.0, 1e-12);
    assert_float_equal(clt_speed_share(300, 10, 40, 20), 1.0, 1e-12);
    assert_float_equal(clt_speed_share(300, 10, 60, 60), 0.5, 1e-12);
    assert_float_equal(clt_speed_share(300, 0, 30, 30), 10.0, 1e-12); /* a clock that stood still */
}

TEST(test_what_memory_limits)
{
    ocl_device_desc desc = lane_device(); /* 32 MiB of cache */
    const ocl_limits limits = {.fma_peak_gflops = 200, .stream_gbs = 50};
    const double large = 129.0 * (1 << 20), small = 127.0 * (1 << 20);
    assert_true(clt_speed_streams(&desc, &limits, large, 0));
    assert_false(clt_speed_streams(&desc, &limits, small, 0));
    assert_true(clt_speed_streams(&desc, &limits, large, 3.9 * large)); /* 4 operations a byte break even */
    assert_false(clt_speed_streams(&desc, &limits, large, 4.1 * large));
    desc.cache_bytes = 0; /* unknown: as if it were large */
    assert_false(clt_speed_streams(&desc, &limits, 255e6, 0));
    assert_true(clt_speed_streams(&desc, &limits, 257e6, 0));
}

TEST(test_too_slow)
{
    clt_speed_result r = {.name = "x.large", .share = 0.79, .streams = true};
    assert_true(clt_speed_too_slow(&r, 80));
    assert_false(clt_speed_too_slow(&r, 78));
    r.share = 0.80;
    assert_false(clt_speed_too_slow(&r, 80));
    r.share = NAN; /* not measured: nothing shows that it is fast enough */
    assert_true(clt_speed_too_slow(&r, 80));
    r.share = 0.1;
    r.streams = false; /* caches or arithmetic limit it */
    assert_false(clt_speed_too_slow(&r, 80));
    r.streams = true;
    r.refusal = "no memory";
    assert_false(clt_speed_too_slow(&r, 80));
}

/* No two timed cases of an op have the same name, since records are compared by name, and each case can be
 * planned. */
TEST(test_timed_cases)
{
    int n_ops, count = 0;
    const clt_op *const *ops = clt_op_list(&n_ops);
    for (int i = 0; i < n_ops; i++) {
        const clt_op_ref *ref = ops[i]->ref;
        for (int c = 0; c < ref->n_timed; c++, count++) {
            byte_case planned = {ops[i]->name, ref->timed[c], 0, 0};
            clt_plan_destroy(plan_case(&planned, 1));
            for (int j = 0; j < c; j++)
                assert_string_not_equal(ref->timed[c].name, ref->timed[j].name);
        }
    }
    assert_true(count > 40);
}
