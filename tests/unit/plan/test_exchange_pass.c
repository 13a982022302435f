/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans with synchronised batch norms: what is exchanged, in which order, what may run meanwhile, and that
 * recomputed work exchanges nothing. Needs no device. ctest-labels: quick */
#include "tests/unit/plan/plan_test.h"

#define NORMS 3

/* Linear layers with norms and activations; the last norm includes a residual sum. */
static clt_graph *net_norms(void)
{
    net n = net_make(6, 40);
    for (int i = 0; i < NORMS; i++) {
        char linear[16], norm[16], act[16], sum[16];
        int32_t before = n.at;
        snprintf(linear, sizeof linear, "fc%d", i);
        snprintf(norm, sizeof norm, "bn%d", i);
        snprintf(act, sizeof act, "act%d", i);
        snprintf(sum, sizeof sum, "sum%d", i);
        put_linear(&n, linear, 48);
        put(&n, "batch_norm", norm, NULL);
        if (i == NORMS - 1)
            put2(&n, "add", sum, NULL, n.at, before);
        put(&n, "relu", act, NULL);
    }
    put_linear(&n, "out", 5);
    put_loss(&n);
    return n.graph;
}

static clt_plan_options sync_options(int ranks, int accumulation, int present)
{
    clt_plan_options o = train_options(accumulation);
    o.ranks = ranks;
    o.part = 1.0f / (float)ranks;
    o.sync_norms = ranks > 1;
    o.present = present;
    o.buckets = (clt_bucket_sizes){64 << 10, 64 << 10};
    return o;
}

static clt_plan *plan_with(const clt_plan_options *options)
{
    ocl_device_desc desc = small_alignment();
    return plan_of(net_norms(), &desc, options);
}

/* The exchanges of a phase are numbered first, first + 1 ...; each is received after it was posted. */
static void check_numbers(const clt_plan *plan, clt_phase phase, uint32_t first, uint32_t count)
{
    const ocl_command_list *list = &plan->phase[phase];
    uint32_t given = first, got = first;
    for (size_t c = 0; c < list->count; c++) {
        const ocl_command *command = &list->commands[c];
        bool give = command->host_code == CLT_HOST_GIVE, get = command->host_code == CLT_HOST_GET;
        if (command->kind != OCL_CMD_HOST || !(give || get))
            continue;
        uint32_t k = command->args[1].value.u32;
        assert_int_equal(k, give ? given++ : got++);
        assert_true(got <= given && given <= got + 1);
        assert_int_equal(command->args[0].bytes, plan->exchanges[k].elements * sizeof(float));
        assert_int_equal(command->args[2].bytes, command->args[0].bytes * (uint64_t)plan->options.ranks);
        assert_int_equal(command->host_waits, get);
    }
    assert_int_equal(given, first + count);
    assert_int_equal(got, given);
}

/* The number of kernel commands between the two halves of exchange k. */
static size_t meanwhile(const clt_plan *plan, clt_phase phase, uint32_t k, const char *label)
{
    const ocl_command_list *list = &plan->phase[phase];
    size_t c = 0, n = 0;
    while (list->commands[c].host_code != CLT_HOST_GIVE || list->commands[c].kind != OCL_CMD_HOST ||
           list->commands[c].args[1].value.u32 != k)
        c++;
    for (c++; list->commands[c].host_code != CLT_HOST_GET; c++)
        if (list->commands[c].kind != OCL_CMD_HOST) {
            assert_string_equal(list->commands[c].label, label);
            n++;
        }
    return n;
}

static size_t count_kernels(const clt_plan *plan, clt_phase phase, const char *kernel)
{
    size_t n = 0;
    for (size_t c = 0; c < plan->phase[phase].count; c++)
        n += plan->phase[phase].commands[c].kind == OCL_CMD_KERNEL &&
             strcmp(plan->phase[phase].commands[c].kernel, kernel) == 0;
    return n;
}

static void check_plan_of(const clt_plan_options *options)
{
    CLT_SCOPED(clt_plan) *plan = plan_with(options);
    assert_int_equal(plan->exchanges_forward, NORMS);
    assert_int_equal(plan->n_exchanges, 2 * NORMS);
    for (size_t k = 0; k < plan->n_exchanges; k++)
        assert_int_equal(plan->exchanges[k].elements, 2 * 48 + 1);
    check_numbers(plan, CLT_PHASE_FORWARD, 0, NORMS);
    check_numbers(plan, CLT_PHASE_BACKWARD, NORMS, NORMS);
    if (options->accumulation > 1)
        check_numbers(plan, CLT_PHASE_BACKWARD_ADD, NORMS, NORMS);
    bool absent = options->present < options->ranks;
    check_numbers(plan, CLT_PHASE_ABSENT, 0, absent ? 2 * NORMS : 0);
    /* the running statistics are updated once for each micro-batch, also for one that the rank does not
     * have */
    assert_int_equal(count_kernels(plan, CLT_PHASE_FORWARD, "batch_norm_running"), NORMS);
    assert_int_equal(count_kernels(plan, CLT_PHASE_BACKWARD, "batch_norm_running"), 0);
    assert_int_equal(count_kernels(plan, CLT_PHASE_ABSENT, "batch_norm_running"), absent ? NORMS : 0);
    assert_int_equal(count_kernels(plan, CLT_PHASE_BACKWARD, "batch_norm_moments"), 0);
    /* running statistics are equal on all ranks, so they are not averaged */
    for (size_t k = 0; k < plan->n_sums; k++)
        assert_true(plan->sums[k].kind != CLT_SUM_BUFFERS);
    check_plan(plan, plan->device.max_alloc_bytes);
}

TEST(test_exchanges)
{
    for (int recompute = CLT_RECOMPUTE_NONE; recompute <= CLT_RECOMPUTE_BLOCK; recompute++)
        for (int storage = 0; storage < 2; storage++)
            for (int accumulation = 1; accumulation < 3; accumulation++) {
                clt_plan_options o = sync_options(3, accumulation, accumulation > 1 ? 2 : 3);
                o.recompute = (clt_recompute)recompute;
                o.storage = storage ? CLT_BF16 : CLT_F32;
                check_plan_of(&o);
            }
}

/* The weight gradient of the layer after a norm is computed while the norm's sums are exchanged. */
TEST(test_work_beside_exchanges)
{
    clt_plan_options o = sync_options(2, 2, 2);
    CLT_SCOPED(clt_plan) *plan = plan_with(&o);
    for (int add = 0; add < 2; add++) {
        clt_phase phase = add ? CLT_PHASE_BACKWARD_ADD : CLT_PHASE_BACKWARD;
        assert_true(meanwhile(plan, phase, NORMS + 1, "fc2.backward") > 0);
        assert_true(meanwhile(plan, phase, NORMS + 2, "fc1.backward") > 0);
    }
    for (uint32_t k = 0; k < NORMS; k++)
        assert_int_equal(meanwhile(plan, CLT_PHASE_FORWARD, k, ""), 0);
}

/* A single rank exchanges nothing, nor does an evaluation. */
TEST(test_nothing_to_exchange)
{
    clt_plan_options o = sync_options(2, 1, 2), eval = {.mode = CLT_PLAN_EVAL, .accumulation = 1, .ranks = 1};
    clt_plan *plan = plan_with(&o);
    eval.layout = plan->layout;
    clt_plan *other = plan_with(&eval);
    assert_int_equal(other->n_exchanges, 0);
    check_numbers(other, CLT_PHASE_FORWARD, 0, 0);
    clt_plan_destroy(other);
    clt_plan_destroy(plan);
    o = sync_options(1, 2, 1);
    plan = plan_with(&o);
    assert_int_equal(plan->n_exchanges, 0);
    check_numbers(plan, CLT_PHASE_FORWARD, 0, 0);
    assert_int_equal(count_kernels(plan, CLT_PHASE_FORWARD, "batch_norm_record"), 0);
    clt_plan_destroy(plan);
}

/* The host memory through which the records pass is counted. */
TEST(test_memory)
{
    uint64_t copied[2];
    for (int sync = 0; sync < 2; sync++) {
        clt_plan_options o = sync_options(2, 1, 2);
        o.sync_norms = sync;
        CLT_SCOPED(clt_plan) *plan = plan_with(&o);
        clt_memory_report r = clt_plan_memory(plan, NULL);
        copied[sync] = r.host + r.staging;
        for (size_t k = 0; k < plan->n_sums; k++) /* only ranks with their own statistics average them */
            if (plan->sums[k].kind == CLT_SUM_BUFFERS)
                copied[sync] -= (uint64_t)clt_shape_elements(
                                    &clt_graph_tensor(plan->graph, plan->sums[k].tensor)->shape) *
                                sizeof(float);
    }
    assert_int_equal(copied[1] - copied[0], 2 * NORMS * 2 * (2 * 48 + 1) * sizeof(float));
}

TEST_PROGRAM(.set_up = hide_drivers);
