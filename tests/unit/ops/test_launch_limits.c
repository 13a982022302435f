/* SPDX-License-Identifier: Apache-2.0
 *
 * Launches on large tensors, planned for a described GPU and for a described CPU, without a device: no
 * dimension has more work-groups than NVIDIA's drivers launch. The emitter checks that and refuses a launch
 * beyond it.
 * ctest-labels: quick */
#include "tests/unit/cl/cl_test.h"

#include "cl/command/command.h"
#include "engine/graph/graph.h"
#include "engine/ops/node.h"
#include "engine/plan/plan.h"

typedef struct large_case {
    const char *op, *attrs;
    int64_t batch;
    clt_shape sample;
} large_case;

static const large_case cases[] = {
    {"group_norm", "{\"groups\":8}", 512, {3, {32, 128, 128}}},
    {"group_norm", "{\"groups\":2}", 70000, {1, {8}}},
    {"group_norm", "{\"groups\":2}", 70000, {2, {8, 3}}},
    {"instance_norm", NULL, 512, {3, {32, 128, 128}}},
    {"instance_norm", NULL, 70000, {2, {8, 3}}},
    {"batch_norm", NULL, 2000, {3, {8, 128, 128}}},
    {"batch_norm", NULL, 70000, {1, {8}}},
    {"layernorm", NULL, 600000, {1, {8}}},
    {"bias", NULL, 600000, {1, {8}}},
    {"max_pool", "{\"kernel\":2}", 2000, {3, {8, 128, 128}}},
    {"upsample", "{\"scale\":[2]}", 500, {3, {8, 128, 128}}},
    {"reduce", "{\"kind\":\"mean\",\"axes\":[2]}", 256, {3, {512, 32, 8}}},
    {"reduce", "{\"kind\":\"max\",\"axes\":[1]}", 70000, {2, {8, 64}}},
    {"reduce", "{\"kind\":\"sum\",\"axes\":[2]}", 256, {2, {512, 32}}},
    {"reduce", "{\"kind\":\"sum\",\"axes\":[1,3]}", 256, {4, {4, 512, 32, 2}}},
    {"reduce", "{\"kind\":\"sum\",\"axes\":[1,3]}", 70000, {3, {4, 2, 3}}},
};

static ocl_device_desc described(bool cpu)
{
    ocl_device_desc d;
    ocl_desc_generic(&d);
    d.is_cpu = cpu;
    d.is_gpu = !cpu;
    if (cpu)
        d.caps |= OCL_CAP_WIDE_VECTORS;
    return d;
}

static void plan_one(const large_case *c, const ocl_device_desc *d)
{
    clt_graph *graph;
    clt_node *node;
    int32_t x;
    assert_ok(clt_graph_create(c->batch, &graph));
    assert_ok(clt_graph_field(graph, "x", CLT_BF16, &c->sample, &x));
    clt_graph_tensor(graph, x)->requires_grad = true;
    must(clt_graph_add_text(graph, c->op, "layer", c->attrs, &x, 1, &node), c->op);
    clt_graph_tensor(graph, node->out[0])->is_output = true;
    clt_plan_options options = {.mode = CLT_PLAN_CHECK, .accumulation = 1, .ranks = 1};
    CLT_SCOPED(clt_plan) *plan = NULL;
    must(clt_plan_compute(graph, d, &options, &plan), c->op);
    for (int p = 0; p < CLT_PHASE_COUNT; p++)
        for (size_t i = 0; i < plan->phase[p].count; i++) {
            const ocl_command *k = &plan->phase[p].commands[i];
            for (uint32_t dim = 1; k->kind == OCL_CMD_KERNEL && dim < k->work_dim; dim++)
                assert_in_range(k->global[dim] / k->local[dim], 1, 65535);
        }
}

TEST(test_large_tensors)
{
    for (int cpu = 0; cpu < 2; cpu++) {
        ocl_device_desc d = described(cpu);
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
            plan_one(&cases[i], &d);
    }
}

/* The largest numbers of groups are accepted, and one more in any dimension is refused with the number. */
TEST(test_refusal)
{
    static const uint64_t most[3] = {2147483647, 65535, 65535};
    ocl_device_desc d = described(false);
    for (uint32_t dim = 0; dim < 3; dim++)
        for (uint64_t more = 0; more < 2; more++) {
            CLT_SCOPED(clt_arena) *arena = NULL;
            assert_ok(clt_arena_create(&arena));
            CLT_SCOPED(ocl_command_list) list = {.arena = arena};
            CLT_SCOPED(ocl_emitter) e = {.list = &list, .device = &d, .label = "layer"};
            uint64_t global[3] = {64, 1, 1}, local[3] = {64, 1, 1};
            global[dim] = (most[dim] + more) * local[dim];
            ocl_kernel_begin(&e, "family", "kernel");
            ocl_kernel_end_3d(&e, global, local, 0.0);
            clt_status status = ocl_emit_status(&e);
            assert_int_equal(status, more ? CLT_EUNSUPPORTED : CLT_OK);
            if (more)
                assert_non_null(
                    strstr(clt_error_text(), dim ? "needs 65536 work-groups" : "needs 2147483648 "));
        }
}

TEST_PROGRAM();
