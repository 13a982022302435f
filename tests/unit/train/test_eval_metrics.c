/* SPDX-License-Identifier: Apache-2.0
 *
 * Where an evaluation finds classes: in models with classes last, with classes second, and with one logit
 * for yes or no; and which of two evaluations is better. */
#include "engine/train/eval/eval_metrics.h"

#include <math.h>
#include "tests/unit/test.h"

#include "engine/ops/op.h"

static clt_config *config;

/* A graph with one node, a loss of the fields x and y; shapes include the batch of 4. */
typedef struct made {
    clt_graph *graph;
    clt_node node, *nodes[1];
} made;

static void make(made *m, const char *op, clt_dtype targets, const clt_shape *x, const clt_shape *y)
{
    int32_t ids[2];
    memset(m, 0, sizeof *m);
    assert_ok(clt_graph_create(4, &m->graph));
    assert_ok(clt_graph_field(m->graph, "x", CLT_F32, x, &ids[0]));
    assert_ok(clt_graph_field(m->graph, "y", targets, y, &ids[1]));
    m->node = (clt_node){.op = clt_op_find(op), .name = "loss", .n_in = 2, .in = {ids[0], ids[1]}};
    assert_non_null(m->node.op);
    m->nodes[0] = &m->node;
    m->graph->nodes = m->nodes;
    m->graph->n_nodes = 1;
    m->graph->n_losses = 1;
    m->graph->losses[0] =
        (clt_loss){.name = "loss", .target_field = "y", .has_ignore = true, .ignore_index = 9};
}

static void release(made *m)
{
    m->graph->nodes = NULL;
    m->graph->n_nodes = 0;
    clt_graph_destroy(m->graph);
}

static clt_shape shape(int n, const int64_t *dims)
{
    clt_shape s = {.ndim = n};
    for (int i = 0; i < n; i++)
        s.dim[i] = dims[i];
    return s;
}
#define SHAPE(...) shape((int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})

/* Checks what is found; classes 0: no classes. */
static void sees(const char *op, clt_dtype targets, clt_shape x, clt_shape y, int64_t classes, int64_t places,
                 int64_t sample, int64_t place, int64_t class)
{
    made m;
    clt_class_view v;
    const char *why;
    make(&m, op, targets, &x, &y);
    assert_int_equal(clt_class_view_of(config, m.graph, &v, &why), classes > 0);
    release(&m);
    if (classes == 0)
        return;
    assert_int_equal(v.classes, classes);
    assert_int_equal(v.batch.samples, 4);
    assert_int_equal(v.batch.places, places);
    assert_int_equal(v.batch.sample_stride, sample);
    assert_int_equal(v.batch.place_stride, place);
    assert_int_equal(v.batch.binary, class == 0);
    if (class > 0)
        assert_int_equal(v.batch.class_stride, class);
    assert_int_equal(v.spatial, places > 1);
    assert_true(v.batch.has_ignore && v.batch.ignore == 9);
}

TEST(test_views)
{
    clt_shape none = {0};
    sees("cross_entropy", CLT_I32, SHAPE(10), none, 10, 1, 10, 10, 1);
    sees("cross_entropy", CLT_U8, SHAPE(5, 7, 3), SHAPE(5, 7), 3, 35, 105, 3, 1); /* classes last */
    sees("cross_entropy", CLT_U8, SHAPE(3, 5, 7), SHAPE(5, 7), 3, 35, 105, 1, 35);
    sees("cross_entropy", CLT_I32, SHAPE(2, 4, 5, 6), SHAPE(4, 5, 6), 2, 120, 240, 1, 120);
    sees("cross_entropy", CLT_I32, SHAPE(6, 6), SHAPE(6), 6, 6, 36, 6, 1); /* fits both ways: classes last */
    sees("bce_with_logits", CLT_F32, SHAPE(1), SHAPE(1), 2, 1, 1, 1, 0);
    sees("bce_with_logits", CLT_U8, SHAPE(1, 5, 7), SHAPE(5, 7), 2, 35, 35, 1, 0);
    sees("bce_with_logits", CLT_F32, SHAPE(3), SHAPE(3), 0, 0, 0, 0, 0); /* three yes-or-no questions */
    sees("mse", CLT_F32, SHAPE(3), SHAPE(3), 0, 0, 0, 0, 0);
}

TEST(test_better)
{
    const clt_eval_metrics m = {.loss = 1, .accuracy = 2, .top_k_accuracy = 3, .f1 = 4, .dice = 5};
    static const int figures[] = {CLT_BEST_LOSS, CLT_BEST_ACCURACY, CLT_BEST_TOP_K, CLT_BEST_F1,
                                  CLT_BEST_DICE};
    for (int i = 0; i < 5; i++)
        assert_float_equal(clt_eval_figure(&m, figures[i]), i + 1, 0);
    assert_float_equal(clt_eval_figure(&m, CLT_BEST_NONE), 1, 0);
    assert_true(clt_eval_better(CLT_BEST_LOSS, 0.5, 0.6, 0));
    assert_false(clt_eval_better(CLT_BEST_LOSS, 0.6, 0.6, 0));
    assert_false(clt_eval_better(CLT_BEST_LOSS, 0.5, 0.6, 0.2));
    assert_true(clt_eval_better(CLT_BEST_DICE, 0.6, 0.5, 0));
    assert_false(clt_eval_better(CLT_BEST_DICE, 0.6, 0.5, 0.2));
    assert_true(clt_eval_better(CLT_BEST_DICE, 0.6, NAN, 10));
    assert_false(clt_eval_better(CLT_BEST_DICE, NAN, 0.5, 0));
    assert_false(clt_eval_better(CLT_BEST_LOSS, NAN, NAN, 0));
    assert_false(clt_eval_better(CLT_BEST_LOSS, -INFINITY, 0.5, 0)); /* no loss is that low */
}

FIXTURE(set_up)
{
    static const char text[] = "{\"model\": {\"type\": \"graph\", \"layers\": [{\"op\": \"relu\"}]},"
                               " \"data\": {\"type\": \"synthetic\", \"shape\": [4]}}";
    assert_ok(clt_config_parse(text, "test", NULL, 0, &config));
    return 0;
}

FIXTURE(tear_down)
{
    clt_config_destroy(config);
    return 0;
}

TEST_PROGRAM(.set_up = set_up, .tear_down = tear_down);
