/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors that must be readable after a step (outputs) survive fusing, recomputing and sharing of memory:
 * forward writes them, and nothing overwrites them. Plans only, no device. ctest-labels: quick */
#include "tests/unit/plan/plan_test.h"

static clt_tensor *tensor_named(clt_graph *graph, const char *name)
{
    for (size_t i = 0; i < graph->n_tensors; i++)
        if (strcmp(clt_graph_tensor(graph, (int32_t)i)->name, name) == 0)
            return clt_graph_tensor(graph, (int32_t)i);
    fail_msg("no tensor '%s'", name);
    return NULL;
}

/* Outputs that fusing would otherwise remove: before an activation, before a residual sum, the logits. */
static net net_neighbours(const char *activation)
{
    net n = net_make(8, 12);
    put_linear(&n, "fc1", 20);
    int32_t act = put(&n, activation, "act1", NULL);
    put_linear(&n, "fc2", 20);
    put2(&n, "add", "sum", NULL, act, n.at);
    put(&n, "layernorm", "norm", NULL);
    put(&n, "silu", "act2", NULL);
    put_linear(&n, "head", 5);
    put_loss(&n);
    return n;
}

/* Backward does not need the input of relu, so it is kept only because it is an output. */
static net net_chain(const char *activation)
{
    net n = net_make(8, 12);
    put_linear(&n, "fc1", 20);
    put(&n, activation, "act1", NULL);
    put_linear(&n, "fc2", 20);
    put(&n, activation, "act2", NULL);
    put_linear(&n, "head", 5);
    put_loss(&n);
    return n;
}

typedef net (*maker)(const char *activation);

static size_t writes(const clt_plan *plan, clt_phase phase, int32_t tensor)
{
    size_t count = 0;
    int32_t owner = owner_of(plan, tensor);
    for (size_t c = 0; c < plan->phase[phase].count; c++)
        for (int a = 0; a < plan->phase[phase].commands[c].n_args; a++) {
            const ocl_arg *arg = &plan->phase[phase].commands[c].args[a];
            count += is_tensor(arg) && (arg->access & OCL_WRITE) && owner_of(plan, arg->ref.tensor) == owner;
        }
    return count;
}

static void check_output(maker make, const char *activation, const char *name,
                         const clt_plan_options *options)
{
    ocl_device_desc desc = small_alignment();
    net n = make(activation);
    clt_tensor *output = tensor_named(n.graph, name);
    int32_t id = output->id;
    output->is_output = true;
    CLT_SCOPED(clt_plan) *plan = plan_of(n.graph, &desc, options);
    check_plan(plan, desc.max_alloc_bytes);
    if (writes(plan, CLT_PHASE_FORWARD, id) == 0)
        fail_msg("%s, recompute %d: forward does not write '%s'", activation, options->recompute, name);
    for (int p = CLT_PHASE_BACKWARD; p <= CLT_PHASE_UPDATE; p++)
        if (writes(plan, (clt_phase)p, id) != 0)
            fail_msg("%s, recompute %d: '%s' is written over", activation, options->recompute, name);
}

TEST(test_outputs_stay)
{
    static const char *const names[] = {"fc1", "act1", "fc2", "sum", "norm", "act2", "head"};
    static const char *const activations[] = {"gelu", "relu", "tanh"};
    static const clt_recompute tiers[] = {CLT_RECOMPUTE_NONE, CLT_RECOMPUTE_GELU, CLT_RECOMPUTE_BLOCK};
    for (size_t a = 0; a < sizeof activations / sizeof activations[0]; a++)
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
            for (int form = 0; form < 6; form++) {
                clt_plan_options options = train_options(2);
                options.recompute = tiers[form % 3];
                options.no_fuse = form >= 3;
                check_output(net_neighbours, activations[a], names[i], &options);
                if (i != 3 && i != 4) /* it has no sum and no norm */
                    check_output(net_chain, activations[a], names[i], &options);
            }
}

/* In the same nets without outputs these tensors are fused away; otherwise the test above would prove
 * nothing. */
TEST(test_others_go)
{
    static const char *const names[] = {"fc1", "fc2", "head"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        ocl_device_desc desc = small_alignment();
        clt_plan_options options = train_options(2);
        CLT_SCOPED(clt_plan) *plan = plan_of(net_neighbours("relu").graph, &desc, &options);
        assert_int_equal(writes(plan, CLT_PHASE_FORWARD, tensor_named(plan->graph, names[i])->id), 0);
    }
}

/* If the loss reads the logits reshaped to more rows of fewer classes, they cannot be computed by one fused
 * head. */
TEST(test_other_rows)
{
    for (int reshaped = 0; reshaped < 2; reshaped++) {
        ocl_device_desc desc = small_alignment();
        clt_plan_options options = train_options(1);
        net n = net_make(8, 12);
        clt_shape pairs = clt_shape1(2);
        int32_t targets = n.y;
        put_linear(&n, "head", 10);
        if (reshaped) {
            must(clt_graph_field(n.graph, "pairs", clt_graph_tensor(n.graph, n.y)->dtype, &pairs, &targets),
                 "field");
            put(&n, "reshape", "view", "{\"shape\": [2, 5]}");
        }
        put2(&n, "cross_entropy", "loss", NULL, n.at, targets);
        CLT_SCOPED(clt_plan) *plan = plan_of(n.graph, &desc, &options);
        check_plan(plan, desc.max_alloc_bytes);
        assert_int_equal(count_commands(plan, CLT_PHASE_FORWARD, "head.forward") > 0, reshaped);
    }
}

/* Evaluation: the output of dropout is its input, and a head of one chunk is not fused. */
TEST(test_evaluation)
{
    ocl_device_desc desc = small_alignment();
    for (int no_fuse = 0; no_fuse < 2; no_fuse++) {
        net n = net_make(8, 12);
        put_linear(&n, "fc1", 20);
        put(&n, "dropout", "drop", "{\"p\": 0.5}");
        put_linear(&n, "head", 5);
        put_loss(&n);
        clt_graph *copy = n.graph;
        clt_plan_options options = train_options(1);
        CLT_SCOPED(clt_plan) *train = plan_of(copy, &desc, &options);
        n = net_make(8, 12);
        put_linear(&n, "fc1", 20);
        put(&n, "dropout", "drop", "{\"p\": 0.5}");
        put_linear(&n, "head", 5);
        put_loss(&n);
        clt_plan_options eval = {.mode = CLT_PLAN_EVAL,
                                 .accumulation = 1,
                                 .ranks = 1,
                                 .layout = train->layout,
                                 .no_fuse = no_fuse != 0};
        CLT_SCOPED(clt_plan) *plan = plan_of(n.graph, &desc, &eval);
        assert_true(count_commands(train, CLT_PHASE_FORWARD, "drop.forward") > 0);
        assert_int_equal(count_commands(plan, CLT_PHASE_FORWARD, "drop.forward") > 0, no_fuse);
        assert_true(count_commands(plan, CLT_PHASE_FORWARD, "head.forward") > 0);
        assert_true(count_commands(plan, CLT_PHASE_FORWARD, "loss.forward") > 0);
    }
}

static net net_dropped(const char *p, bool read_twice)
{
    net n = net_make(8, 12);
    put_linear(&n, "fc1", 20);
    int32_t x = n.at;
    put_linear(&n, "fc2", 20);
    int32_t drop = put(&n, "dropout", "drop", p);
    put2(&n, "add", "sum", NULL, x, drop);
    if (read_twice)
        put2(&n, "multiply", "again", NULL, n.at, drop);
    put_linear(&n, "head", 5);
    put_loss(&n);
    return n;
}

/* Dropout adds the residual that follows it, unless another layer reads dropout's own output, or the rate is
 * 0. */
TEST(test_dropout)
{
    static const char *const p[] = {"{\"p\": 0.5}", "{\"p\": 0.5}", "{\"p\": 0}"};
    for (int i = 0; i < 6; i++) {
        ocl_device_desc desc = small_alignment();
        clt_plan_options options = train_options(1);
        options.recompute = i < 3 ? CLT_RECOMPUTE_NONE : CLT_RECOMPUTE_BLOCK;
        CLT_SCOPED(clt_plan) *plan = plan_of(net_dropped(p[i % 3], i % 3 == 1).graph, &desc, &options);
        check_plan(plan, desc.max_alloc_bytes);
        bool apart = i % 3 > 0;
        assert_int_equal(writes(plan, CLT_PHASE_FORWARD, tensor_named(plan->graph, "drop")->id) > 0, apart);
        assert_int_equal(count_commands(plan, CLT_PHASE_FORWARD, "sum.forward") > 0, apart);
        assert_true(writes(plan, CLT_PHASE_FORWARD, tensor_named(plan->graph, "sum")->id) > 0);
    }
}

TEST_PROGRAM(.set_up = hide_drivers);
