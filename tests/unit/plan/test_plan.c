/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of plans, checked by their commands' own reads and writes: the lower bound of activation memory and
 * all lifetimes are computed here without the planner's lifetimes. Also purity, evaluation, slabs, and
 * tensors that are too large. ctest-labels: quick */
#include "tests/unit/plan/plan_test.h"

TEST(test_no_device)
{
    ocl_device_desc *list = NULL;
    int count = 0;
    assert_int_equal(ocl_list_devices(&list, &count), CLT_EDEVICE);
}

TEST(test_memory_bound)
{
    for (size_t i = 0; i < N_NETS; i++)
        for (int form = 0; form < 4; form++) {
            ocl_device_desc desc = small_alignment();
            clt_plan_options options = train_options(form & 1 ? 3 : 1);
            options.no_fuse = (form & 2) != 0;
            CLT_SCOPED(clt_plan) *plan = plan_of(makers[i](), &desc, &options);
            uint64_t bound = check_plan(plan, desc.max_alloc_bytes);
            assert_true(bound > 200000);
            if (plan->activation_bytes * 10 > bound * 11)
                fail_msg("net %zu: %llu bytes for activations, the lower bound is %llu", i,
                         (unsigned long long)plan->activation_bytes, (unsigned long long)bound);
            assert_int_equal(plan->activation_bound, bound);
        }
}

/* Tensors share memory: plans need less than three quarters of the sum of all tensors. */
TEST(test_memory_is_shared)
{
    for (size_t i = 0; i < N_NETS; i++) {
        ocl_device_desc desc = small_alignment();
        clt_plan_options options = train_options(1);
        CLT_SCOPED(clt_plan) *plan = plan_of(makers[i](), &desc, &options);
        step *s = step_make(plan, false);
        uint64_t all = 0;
        for (size_t t = 0; t < plan->graph->n_tensors; t++)
            all += in_slabs(s, t) ? bytes_of(plan, t) : 0;
        assert_true(plan->activation_bytes * 4 < all * 3);
        step_free(s);
    }
}

TEST(test_eval_plan)
{
    for (size_t i = 0; i < N_NETS; i++) {
        ocl_device_desc desc = small_alignment();
        clt_plan_options options = train_options(1);
        CLT_SCOPED(clt_plan) *train = plan_of(makers[i](), &desc, &options);
        options =
            (clt_plan_options){.mode = CLT_PLAN_EVAL, .accumulation = 1, .ranks = 1, .layout = train->layout};
        clt_graph *graph = makers[i]();
        int32_t prediction = graph->nodes[graph->losses[0].node]->in[0];
        clt_graph_tensor(graph, prediction)->is_output = true;
        CLT_SCOPED(clt_plan) *eval = plan_of(graph, &desc, &options);
        uint64_t bound = check_plan(eval, desc.max_alloc_bytes);
        if (eval->activation_bytes * 10 > bound * 11)
            fail_msg("net %zu: %llu bytes to evaluate, the lower bound is %llu", i,
                     (unsigned long long)eval->activation_bytes, (unsigned long long)bound);
        assert_true(eval->activation_bytes < train->activation_bytes);
        assert_true(eval->phase[CLT_PHASE_FORWARD].count > 0);
        for (int p = CLT_PHASE_BACKWARD; p < CLT_PHASE_COUNT; p++)
            assert_int_equal(eval->phase[p].count, 0);
        /* nothing may be placed over the prediction after it is made */
        step *s = step_make(eval, false);
        assert_int_equal(s->last[owner_of(eval, prediction)], s->n);
        step_free(s);
    }
}

static char *json_of(clt_plan *plan)
{
    clt_str out = {0};
    clt_json_writer writer = clt_json_writer_make(&out, 1);
    must(clt_plan_print_json(plan, &writer), "json");
    must(clt_plan_print(plan, &out), "text");
    return out.text;
}

TEST(test_purity)
{
    char *seen[N_NETS];
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < N_NETS; i++) {
            ocl_device_desc desc = small_alignment();
            clt_plan_options options = train_options(2);
            clt_plan *plan = plan_of(makers[i](), &desc, &options);
            char *text = json_of(plan);
            assert_true(strlen(text) > 5000);
            if (round == 0) {
                seen[i] = text;
                for (size_t j = 0; j < i; j++)
                    assert_string_not_equal(seen[j], text);
            } else {
                assert_string_equal(seen[i], text);
                free(seen[i]);
                free(text);
            }
            clt_plan_destroy(plan);
        }
}

TEST(test_slabs)
{
    for (size_t i = 0; i < N_NETS; i++) {
        ocl_device_desc desc = small_alignment();
        clt_plan_options options = train_options(3);
        desc.max_alloc_bytes = 704 << 10;
        CLT_SCOPED(clt_plan) *plan = plan_of(makers[i](), &desc, &options);
        check_plan(plan, desc.max_alloc_bytes);
        assert_true(plan->n_slabs > 1);
        assert_true(plan->store->n_slabs > 1);
        uint64_t elements = 0;
        for (int kind = 0; kind < CLT_ARENA_COUNT; kind++)
            for (int32_t s = 0; s < plan->store->n_slabs; s++)
                assert_true(clt_store_slab_bytes(plan->store, (clt_arena_kind)kind, s) <=
                            desc.max_alloc_bytes);
        for (int32_t s = 0; s < plan->store->n_slots; s++)
            elements += plan->store->slots[s].elements;
        assert_int_equal(elements, clt_graph_param_elements(plan->graph));
    }
}

TEST(test_too_large)
{
    ocl_device_desc desc = small_alignment();
    clt_plan_options options = train_options(1);
    desc.max_alloc_bytes = 64 << 10;
    net n = net_make(64, 10); /* an activation: 64 * 300 * 4 bytes */
    put_linear(&n, "wide", 300);
    put(&n, "tanh", "bend", NULL);
    put_linear(&n, "head", 4);
    put_loss(&n);
    refuse(n.graph, &desc, &options, CLT_EDEVMEM, "'wide");
    n = net_make(4, 150); /* a parameter: 150 * 120 * 4 bytes */
    put_linear(&n, "heavy", 120);
    put_loss(&n);
    refuse(n.graph, &desc, &options, CLT_EDEVMEM, "'heavy.weight'");
    n = net_make(64, 300); /* a batch field */
    put(&n, "reduce", "mean", "{\"kind\": \"mean\", \"keepdims\": true}");
    put_linear(&n, "head", 4);
    put_loss(&n);
    refuse(n.graph, &desc, &options, CLT_EDEVMEM, "'x'");
    n = net_make(8, 10); /* the schedule's table: 16 bytes per update */
    put_linear(&n, "head", 4);
    put_loss(&n);
    options.update.schedule_entries = 5000;
    refuse(n.graph, &desc, &options, CLT_EDEVMEM, "schedule");
}

TEST_PROGRAM(.set_up = hide_drivers);
