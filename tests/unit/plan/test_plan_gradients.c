/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients of plans: what is pruned, which works write a gradient and which add to it, gradients of views,
 * and the order of parameters in the store, in which gradients become ready. ctest-labels: quick */
#include "tests/unit/plan/plan_test.h"

static bool anybody_writes(const clt_plan *plan, const char *tensor)
{
    for (int p = 0; p < CLT_PHASE_COUNT; p++)
        for (size_t c = 0; c < plan->phase[p].count; c++)
            for (int a = 0; a < plan->phase[p].commands[c].n_args; a++) {
                const ocl_arg *arg = &plan->phase[p].commands[c].args[a];
                if (is_tensor(arg) && (arg->access & OCL_WRITE) &&
                    strcmp(clt_graph_tensor(plan->graph, arg->ref.tensor)->name, tensor) == 0)
                    return true;
            }
    return false;
}

TEST(test_pruning_frozen)
{
    static const char *const apart[] = {"fc1.backward",  "act1.backward", "fc2.backward",
                                        "act2.backward", "fc3.backward",  "loss.backward"},
                             *const fused[] = {"fc1.backward", "fc2.backward", "fc3+loss.backward"};
    ocl_device_desc desc = small_alignment();
    clt_plan_options options = train_options(2);
    for (int form = 0; form < 6; form++) {
        int frozen = form / 2;
        options.no_fuse = form % 2 != 0;
        CLT_SCOPED(clt_plan) *plan = plan_of(net_frozen(frozen).graph, &desc, &options);
        check_plan(plan, desc.max_alloc_bytes);
        for (int l = 0; l < (options.no_fuse ? 6 : 3); l++) {
            const char *label = options.no_fuse ? apart[l] : fused[l];
            bool wanted = l >= (options.no_fuse ? 2 * frozen : frozen);
            assert_int_equal(count_commands(plan, CLT_PHASE_BACKWARD, label) > 0, wanted);
            assert_int_equal(count_commands(plan, CLT_PHASE_BACKWARD_ADD, label) > 0, wanted);
        }
        for (int l = 0; l < 6 && !options.no_fuse; l++) /* part of other work's GEMMs */
            if (l % 2 || l == 4)
                assert_int_equal(count_commands(plan, CLT_PHASE_BACKWARD, apart[l]), 0);
        assert_false(anybody_writes(plan, "d x")); /* no parameter lies before it */
        assert_int_equal(anybody_writes(plan, "d fc1.weight"), frozen == 0);
        assert_true(anybody_writes(plan, "d fc3.weight"));
        const clt_store_layout *store = plan->store;
        assert_true(store->trainable_elements[0] == store->slab_elements[0] - (frozen == 0   ? 0
                                                                               : frozen == 1 ? 2048
                                                                                             : 4096));
    }
}

TEST(test_pruning_unneeded)
{
    ocl_device_desc desc = small_alignment();
    clt_plan_options options = train_options(1);
    net n = net_make(8, 12);
    int32_t stem = put_linear(&n, "stem", 16);
    put(&n, "tanh", "unread", NULL);
    n.at = stem;
    put(&n, "relu", "read", NULL);
    put_loss(&n);
    CLT_SCOPED(clt_plan) *plan = plan_of(n.graph, &desc, &options);
    check_plan(plan, desc.max_alloc_bytes);
    assert_int_equal(count_commands(plan, CLT_PHASE_BACKWARD, "unread.backward"), 0);
    assert_true(count_commands(plan, CLT_PHASE_BACKWARD, "read.backward") > 0);
}

TEST(test_nothing_to_train)
{
    ocl_device_desc desc = small_alignment();
    clt_plan_options options = train_options(1);
    refuse(net_frozen(3).graph, &desc, &options, CLT_ECONFIG, "no trainable parameter");
    net n = net_make(8, 12);
    int32_t stem = put_linear(&n, "stem", 16);
    put_linear(&n, "idle", 4);
    n.at = stem;
    put_loss(&n);
    refuse(n.graph, &desc, &options, CLT_ECONFIG, "'idle.weight'");
}

typedef struct touch_count {
    int writes, adds;
} touch_count;

static touch_count count_gradient(const clt_plan *plan, clt_phase phase, int32_t gradient)
{
    touch_count t = {0, 0};
    for (size_t c = 0; c < plan->phase[phase].count; c++)
        for (int a = 0; a < plan->phase[phase].commands[c].n_args; a++) {
            const ocl_arg *arg = &plan->phase[phase].commands[c].args[a];
            if (is_tensor(arg) && arg->ref.tensor == gradient) {
                t.writes += arg->access == OCL_WRITE;
                t.adds += arg->access == OCL_READ_WRITE;
            }
        }
    return t;
}

/* Three layers read h: the first contribution writes its gradient, the others add to it. The same holds for a
 * parameter shared by two layers; in later micro-batches all contributions are added. */
TEST(test_fan_out)
{
    ocl_device_desc desc = small_alignment();
    clt_plan_options options = train_options(2);
    net n = net_make(8, 12);
    clt_node *shared;
    int32_t h = put_linear(&n, "h", 16);
    int32_t a = put(&n, "tanh", "a", NULL);
    int32_t b = put2(&n, "sigmoid", "b", NULL, h, -1), c = put2(&n, "silu", "c", NULL, h, -1);
    put2(&n, "add", "ab", NULL, a, b);
    put2(&n, "add", "abc", NULL, n.at, c);
    put_linear(&n, "m1", 16);
    clt_json_doc *doc;
    must(clt_json_parse("{\"out\": 16}", 11, "test", CLT_ECONFIG, &doc), "json");
    must(clt_graph_add(n.graph, "linear", "m2", clt_json_root(doc), doc, &n.at, 1, "m1", &shared), "share");
    clt_json_destroy(doc);
    n.at = shared->out[0];
    put_loss(&n);
    CLT_SCOPED(clt_plan) *plan = plan_of(n.graph, &desc, &options);
    check_plan(plan, desc.max_alloc_bytes);
    touch_count t = count_gradient(plan, CLT_PHASE_BACKWARD, plan->gradient[h]);
    assert_int_equal(t.writes, 1);
    assert_int_equal(t.adds, 2);
    int32_t weight = clt_graph_find_param(plan->graph, "m1.weight")->tensor;
    t = count_gradient(plan, CLT_PHASE_BACKWARD, plan->gradient[weight]);
    assert_int_equal(t.writes, 1);
    assert_int_equal(t.adds, 1);
    t = count_gradient(plan, CLT_PHASE_BACKWARD_ADD, plan->gradient[weight]);
    assert_int_equal(t.writes, 0);
    assert_int_equal(t.adds, 2);
    t = count_gradient(plan, CLT_PHASE_BACKWARD_ADD, plan->gradient[h]);
    assert_int_equal(t.writes, 1); /* gradients of activations are written anew in every micro-batch */
    assert_int_equal(t.adds, 2);
}

/* The gradient of a view's input is a view of the output's gradient if there is no other contribution,
 * otherwise a tensor of its own. */
TEST(test_views)
{
    ocl_device_desc desc = small_alignment();
    clt_plan_options options = train_options(1);
    for (int others = 0; others < 2; others++) {
        net n = net_make(8, 12);
        int32_t h = put_linear(&n, "h", 16);
        int32_t view = put(&n, "reshape", "grid", "{\"shape\": [4, 4]}");
        put(&n, "tanh", "bend", NULL);
        put(&n, "flatten", "line", NULL);
        if (others)
            put2(&n, "add", "sum", NULL, n.at, h);
        put_loss(&n);
        CLT_SCOPED(clt_plan) *plan = plan_of(n.graph, &desc, &options);
        check_plan(plan, desc.max_alloc_bytes);
        assert_int_equal(owner_of(plan, view), h);
        assert_int_equal(owner_of(plan, plan->gradient[h]) == owner_of(plan, plan->gradient[view]), !others);
        assert_int_equal(count_commands(plan, CLT_PHASE_FORWARD, "grid.forward"), 0);
        assert_int_equal(count_commands(plan, CLT_PHASE_BACKWARD, "grid.backward") > 0, others != 0);
    }
}

/* Position in the backward phase of the last command that uses a parameter's gradient. */
static size_t ready_at(const clt_plan *plan, int32_t param)
{
    size_t ready = 0;
    int32_t gradient = plan->gradient[plan->graph->params[param].tensor];
    for (size_t c = 0; c < plan->phase[CLT_PHASE_BACKWARD].count; c++)
        for (int a = 0; a < plan->phase[CLT_PHASE_BACKWARD].commands[c].n_args; a++) {
            const ocl_arg *arg = &plan->phase[CLT_PHASE_BACKWARD].commands[c].args[a];
            if (is_tensor(arg) && arg->ref.tensor == gradient && (arg->access & OCL_WRITE))
                ready = c + 1;
        }
    return ready;
}

/* The work (node) to which the last command belongs: the parameters of one node may become ready in any
 * order. */
static int32_t node_ready(const clt_plan *plan, int32_t param)
{
    size_t ready = ready_at(plan, param);
    return ready ? plan->phase[CLT_PHASE_BACKWARD].commands[ready - 1].node : -1;
}

static void check_layout(const clt_plan *plan, int frozen)
{
    const clt_store_layout *store = plan->store;
    uint64_t end = 0;
    int32_t slab = 0, trainable = store->n_slots - frozen;
    for (int32_t i = 0; i < store->n_slots; i++) {
        const clt_store_slot *slot = &store->slots[store->order[i]];
        assert_int_equal(slot->trainable, i < trainable);
        if (i > 0 && i < trainable &&
            node_ready(plan, store->order[i - 1]) != node_ready(plan, store->order[i]))
            assert_true(ready_at(plan, store->order[i - 1]) < ready_at(plan, store->order[i]));
        if (slot->slab != slab) {
            assert_int_equal(slot->slab, slab + 1);
            slab = slot->slab;
            end = 0;
        }
        assert_int_equal(slot->offset % CLT_STORE_CHUNK, 0);
        assert_int_equal(slot->offset, end); /* no overlap, no hole beyond the rest of a chunk */
        end = clt_align_up(slot->offset + slot->elements, CLT_STORE_CHUNK);
        assert_true(end <= store->slab_elements[slab]);
    }
}

TEST(test_layout_order)
{
    for (size_t i = 0; i < N_NETS; i++) {
        ocl_device_desc desc = small_alignment();
        clt_plan_options options = train_options(1);
        clt_plan *plan = plan_of(makers[i](), &desc, &options);
        check_layout(plan, 0);
        /* the head's gradients are ready first, the stem's last */
        const char *first = plan->store->slots[plan->store->order[0]].name;
        assert_int_equal(strncmp(first, "head.", 5), 0);
        clt_plan_destroy(plan);
        desc.max_alloc_bytes = 704 << 10;
        plan = plan_of(makers[i](), &desc, &options);
        check_layout(plan, 0);
        clt_plan_destroy(plan);
    }
    ocl_device_desc desc = small_alignment();
    clt_plan_options options = train_options(1);
    clt_plan *plan = plan_of(net_frozen(1).graph, &desc, &options);
    check_layout(plan, 2);
    clt_plan_destroy(plan);
}

TEST(test_decay_groups)
{
    for (int all = 0; all < 2; all++) {
        ocl_device_desc desc = small_alignment();
        clt_plan_options options = train_options(1);
        options.update.decay_all = all != 0;
        CLT_SCOPED(clt_plan) *plan = plan_of(net_residual(), &desc, &options);
        for (int32_t i = 0; i < plan->store->n_slots; i++) {
            const clt_store_slot *slot = &plan->store->slots[i];
            assert_int_equal(slot->group == CLT_GROUP_DECAY, all || slot->shape.ndim >= 2);
        }
    }
}

TEST_PROGRAM(.set_up = hide_drivers);
