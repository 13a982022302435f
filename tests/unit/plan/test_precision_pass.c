/* SPDX-License-Identifier: Apache-2.0
 *
 * The precision pass, checked by the graph that it leaves: which tensors are stored in 16 bits, where casts
 * are and that a tensor with several readers has only one, and that all references to nodes (producers,
 * losses, shared layers) are correct after casts were inserted. Needs no device. ctest-labels: quick */
#include "tests/unit/plan/plan_test.h"

static clt_plan *narrow_plan(net *n)
{
    ocl_device_desc desc = small_alignment();
    clt_plan_options options = train_options(1);
    options.storage = CLT_F16;
    options.no_fuse = true; /* nodes stay what they are */
    return plan_of(n->graph, &desc, &options);
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

TEST_PROGRAM(.set_up = hide_drivers);
