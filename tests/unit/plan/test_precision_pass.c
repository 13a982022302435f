/* SPDX-License-Identifier: Apache-2.0
 *
 * The precision pass, checked by the graph that it leaves: which tensors are stored in 16 bits, where casts
 * are and that a tensor with several readers has only one, and that all references to nodes (producers,
 * losses, shared layers) are correct after casts were inserted. Needs no device. ctest-labels: quick */
#include "tests/unit/plan/plan_test.h"

static clt_plan *narrow_plan_of(net *n, bool wide_residual, bool fuse)
{
    ocl_device_desc desc = small_alignment();
    clt_plan_options options = train_options(1);
    options.storage = CLT_F16;
    options.wide_residual = wide_residual;
    options.no_fuse = !fuse;
    return plan_of(n->graph, &desc, &options);
}

/* Plans without fusing, so that every node stays. */
static clt_plan *narrow_plan(net *n)
{
    return narrow_plan_of(n, false, false);
}

static const clt_tensor *named(const clt_graph *graph, const char *name)
{
    for (size_t i = 0; i < graph->n_tensors; i++)
        if (strcmp(clt_graph_tensor(graph, (int32_t)i)->name, name) == 0)
            return clt_graph_tensor(graph, (int32_t)i);
    fail_msg("there is no tensor '%s'", name);
    return NULL;
}

static const clt_node *node_named(const clt_graph *graph, const char *name)
{
    for (size_t k = 0; k < graph->n_nodes; k++)
        if (strcmp(graph->nodes[k]->name, name) == 0)
            return graph->nodes[k];
    fail_msg("there is no layer '%s'", name);
    return NULL;
}

static int casts_of(const clt_graph *graph, const char *tensor)
{
    int casts = 0;
    for (size_t k = 0; k < graph->n_nodes; k++)
        casts += strcmp(graph->nodes[k]->op->name, "cast") == 0 &&
                 strcmp(clt_graph_tensor(graph, graph->nodes[k]->in[0])->name, tensor) == 0;
    return casts;
}

/* The number of a node is its position, all references to nodes are correct, and inputs are computed before
 * it. */
static void check_numbers(const clt_graph *graph)
{
    for (size_t k = 0; k < graph->n_nodes; k++) {
        const clt_node *node = graph->nodes[k];
        assert_int_equal(node->id, k);
        for (int i = 0; i < node->n_out; i++)
            assert_int_equal(clt_graph_tensor(graph, node->out[i])->producer, k);
        for (int i = 0; i < node->n_saved; i++)
            assert_int_equal(clt_graph_tensor(graph, node->saved[i])->producer, k);
        for (int i = 0; i < node->n_in; i++)
            assert_true(clt_graph_tensor(graph, node->in[i])->producer < (int32_t)k);
        if (node->loss >= 0)
            assert_int_equal(graph->losses[node->loss].node, k);
        if (node->share >= 0) {
            assert_true(node->share < (int32_t)k);
            assert_int_equal(graph->nodes[node->share]->n_param, node->n_param);
            assert_int_equal(graph->nodes[node->share]->param[0], node->param[0]);
        }
    }
}

static void put_shared(net *n, const char *op, const char *name, const char *attrs, const char *share)
{
    clt_json_doc *doc;
    clt_node *node;
    must(clt_json_parse(attrs, strlen(attrs), name, CLT_ECONFIG, &doc), attrs);
    must(clt_graph_add(n->graph, op, name, clt_json_root(doc), doc, &n->at, 1, share, &node), name);
    clt_json_destroy(doc);
    n->at = node->out[0];
}

/* Two readers of the f32 input, an op in the middle that stays f32, a view of its output, a shared layer. */
TEST(test_types)
{
    net n = net_make(8, 12);
    n.graph->block = 1;
    int32_t a = put_linear(&n, "a", 20);
    n.at = n.x;
    int32_t b = put_linear(&n, "b", 20);
    n.graph->block = 2;
    put2(&n, "add", "sum", NULL, a, b);
    put(&n, "softmax", "soft", NULL);
    put(&n, "reshape", "view", "{\"shape\": [20]}");
    put_linear(&n, "back", 12);
    put_shared(&n, "linear", "again", "{\"out\": 20}", "a");
    put_linear(&n, "head", 5);
    put_loss(&n);
    CLT_SCOPED(clt_plan) *plan = narrow_plan(&n);
    const clt_graph *graph = plan->graph;
    check_numbers(graph);
    assert_int_equal(casts_of(graph, "x"), 1);
    assert_int_equal(node_named(graph, "a")->in[0], node_named(graph, "b")->in[0]);
    assert_int_equal(casts_of(graph, "sum"), 1); /* softmax takes f32 */
    assert_int_equal(casts_of(graph, "view"), 1);
    assert_int_equal(casts_of(graph, "back"), 0);
    assert_int_equal(named(graph, "x")->dtype, CLT_F32);
    assert_int_equal(named(graph, "sum")->dtype, CLT_F16);
    assert_int_equal(named(graph, "soft")->dtype, CLT_F32);
    assert_int_equal(named(graph, "view")->dtype, CLT_F32); /* the same bytes */
    assert_int_equal(named(graph, "back")->dtype, CLT_F16);
    assert_int_equal(named(graph, "a.weight")->dtype, CLT_F16);
    assert_int_equal(named(graph, "a.bias")->dtype, CLT_F32);
    for (size_t k = 0; k < graph->n_nodes; k++) /* a cast belongs to its first reader's block */
        if (strcmp(graph->nodes[k]->op->name, "cast") == 0)
            assert_int_equal(graph->nodes[k]->block, graph->nodes[k + 1]->block);
}

/* A table that a sum reads as well stays f32, because the sum cannot read its 16-bit copy. */
TEST(test_tables)
{
    for (int shared = 0; shared < 2; shared++) {
        net n = net_make(8, 12);
        clt_shape tokens = clt_shape1(4);
        must(clt_graph_field(n.graph, "tokens", CLT_I32, &tokens, &n.at), "field");
        put(&n, "embedding", "table", "{\"vocab\": 6, \"dim\": 12}");
        put_shared(&n, "positional", "place", "{\"positions\": 6}", shared ? "table" : NULL);
        put(&n, "flatten", "line", NULL);
        put_linear(&n, "head", 5);
        put_loss(&n);
        CLT_SCOPED(clt_plan) *plan = narrow_plan(&n);
        check_numbers(plan->graph);
        assert_int_equal(named(plan->graph, "table.weight")->dtype, shared ? CLT_F32 : CLT_F16);
        assert_int_equal(named(plan->graph, "table")->dtype, CLT_F16);
        assert_int_equal(named(plan->graph, "place")->dtype, CLT_F16);
    }
}

/* A residual network of two blocks over embedded tokens: the first block has its norm before it, the second
 * after its sum; the head may share the embedding table. */
static net residual_net(bool tied)
{
    net n = net_make(8, 12);
    clt_shape tokens = clt_shape1(4);
    must(clt_graph_field(n.graph, "tokens", CLT_I32, &tokens, &n.at), "field");
    put(&n, "embedding", "table", "{\"vocab\": 6, \"dim\": 12}");
    put(&n, "positional", "place", "{\"positions\": 6}");
    put(&n, "dropout", "drop", "{\"p\": 0.5}");
    int32_t stream = n.at;
    put(&n, "rmsnorm", "before", NULL);
    int32_t branch = put_linear(&n, "inner", 12);
    put2(&n, "add", "sum_1", NULL, stream, branch);
    stream = n.at;
    branch = put_linear(&n, "outer", 12);
    put2(&n, "add", "sum_2", NULL, branch, stream);
    put(&n, "layernorm", "after", NULL);
    stream = n.at;
    branch = put_linear(&n, "last", 12);
    put(&n, "dropout", "drop_last", "{\"p\": 0.5}");
    put2(&n, "add", "sum_3", NULL, stream, n.at);
    if (tied)
        put_shared(&n, "linear", "tied", "{\"out\": 6, \"bias\": false}", "table");
    put(&n, "flatten", "line", NULL);
    put_linear(&n, "head", 5);
    put_loss(&n);
    return n;
}

/* precision.residual f32: what sums read and write is f32, products get 16 bits, and the gradient of a tensor
 * has its type. */
TEST(test_residual)
{
    static const char *const wide[] = {"table", "place", "drop", "sum_1", "sum_2", "after", "sum_3"};
    static const char *const narrow[] = {"before", "inner", "outer", "last", "drop_last"};
    for (int tied = 0; tied < 2; tied++) {
        net n = residual_net(tied != 0);
        CLT_SCOPED(clt_plan) *plan = narrow_plan_of(&n, true, false);
        const clt_graph *graph = plan->graph;
        check_numbers(graph);
        for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++)
            assert_int_equal(named(graph, wide[i])->dtype, CLT_F32);
        for (size_t i = 0; i < sizeof narrow / sizeof narrow[0]; i++)
            assert_int_equal(named(graph, narrow[i])->dtype, CLT_F16);
        /* without a product the table needs no copy in 16 bits */
        assert_int_equal(named(graph, "table.weight")->dtype, tied ? CLT_F16 : CLT_F32);
        assert_int_equal(casts_of(graph, "drop"), 0); /* the norm reads f32 */
        assert_int_equal(casts_of(graph, "inner"), 1);
        assert_int_equal(casts_of(graph, "sum_1"), 1); /* for a product that reads it */
        assert_int_equal(casts_of(graph, "sum_2"), 0);
        assert_int_equal(casts_of(graph, "after"), 1);
        assert_int_equal(casts_of(graph, "drop_last"), 1);
        for (size_t i = 0; i < graph->n_tensors; i++) {
            int32_t gradient = (int32_t)i < (int32_t)n.graph->n_tensors ? plan->gradient[i] : -1;
            if (gradient >= 0 && clt_graph_tensor(graph, (int32_t)i)->cls == CLT_TC_ACTIVATION)
                assert_int_equal(clt_graph_tensor(graph, gradient)->dtype,
                                 clt_graph_tensor(graph, (int32_t)i)->dtype);
        }
    }
}

/* A sum after a product or a dropout is fused into it, together with the cast between them. */
TEST(test_residual_fused)
{
    static const char *const gone[] = {"sum_1", "sum_2", "sum_3", "inner.f32", "outer.f32", "drop_last.f32"};
    net n = residual_net(false);
    CLT_SCOPED(clt_plan) *plan = narrow_plan_of(&n, true, true);
    for (size_t w = 0; w < plan->n_forward; w++)
        for (size_t i = 0; i < sizeof gone / sizeof gone[0]; i++)
            if (strcmp(plan->work[w].node->name, gone[i]) == 0)
                fail_msg("'%s' is work of its own", gone[i]);
    int residuals = 0;
    for (size_t w = 0; w < plan->n_forward; w++)
        if (plan->work[w].epilogue.residual >= 0) {
            residuals++;
            assert_int_equal(clt_graph_tensor(plan->graph, plan->work[w].epilogue.residual)->dtype, CLT_F32);
            assert_int_equal(clt_graph_tensor(plan->graph, plan->work[w].node->out[0])->dtype, CLT_F32);
        }
    assert_int_equal(residuals, 3);
}

TEST_PROGRAM(.set_up = hide_drivers);
