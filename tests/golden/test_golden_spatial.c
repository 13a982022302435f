/* SPDX-License-Identifier: Apache-2.0
 *
 * Golden parity of ops on images and volumes: outputs and gradients against values that PyTorch computed
 * (make_golden_spatial.py, data/spatial_pool.safetensors), in both execution styles. Fields are row-major here, so
 * that the plan turns them into the layout of the ops and back. Needs a device, but no PyTorch.
 *
 * Tolerance: max|d| <= 1e-6 max|ref| + 1e-7 per tensor; maxima and their gradients are compared like the others,
 * NaN must be NaN. ctest-labels: quick ctest-programs: kept ctest-cost: 18 */
#include "tests/golden/golden_op.h"

/* A case of the script: the op that computes it. */
typedef struct golden_case {
    const char *name, *op, *attrs;
} golden_case;

static const golden_case cases[] = {
    {"max_stem", "max_pool", "{\"kernel\": 3, \"stride\": 2, \"padding\": 1}"},
    {"max_dilated", "max_pool",
     "{\"kernel\": [2, 3], \"stride\": [2, 1], \"padding\": 1, \"dilation\": [3, 2]}"},
    {"max_ceil", "max_pool", "{\"kernel\": 3, \"stride\": 2, \"ceil_mode\": true}"},
    {"max_ceil_padded", "max_pool", "{\"kernel\": 2, \"stride\": 3, \"padding\": 1, \"ceil_mode\": true}"},
    {"max_nan", "max_pool", "{\"kernel\": 3, \"stride\": 2, \"padding\": 1}"},
    {"max_volume", "max_pool", "{\"kernel\": [2, 3, 2], \"stride\": [1, 2, 2], \"padding\": [1, 1, 0]}"},
    {"max_adaptive", "adaptive_max_pool", "{\"output\": [3, 4]}"},
    {"max_adaptive_volume", "adaptive_max_pool", "{\"output\": [2, 3, 5]}"},
    {"avg_padded", "avg_pool", "{\"kernel\": 3, \"stride\": 2, \"padding\": 1}"},
    {"avg_without_pad", "avg_pool",
     "{\"kernel\": 3, \"stride\": 2, \"padding\": 1, \"count_include_pad\": false}"},
    {"avg_ceil", "avg_pool", "{\"kernel\": 3, \"stride\": 2, \"padding\": 1, \"ceil_mode\": true}"},
    {"avg_ceil_without_pad", "avg_pool",
     "{\"kernel\": [2, 3], \"stride\": [3, 2], \"padding\": [1, 0], \"ceil_mode\": true, "
     "\"count_include_pad\": false}"},
    {"avg_volume", "avg_pool", "{\"kernel\": [2, 3, 1], \"stride\": [1, 2, 2], \"padding\": [1, 1, 0]}"},
    {"avg_adaptive", "adaptive_avg_pool", "{\"output\": [3, 5]}"},
    {"avg_adaptive_larger", "adaptive_avg_pool", "{\"output\": [5, 4]}"},
    {"avg_global_volume", "adaptive_avg_pool", NULL},
    {"up_nearest", "upsample", "{\"scale\": [2, 3]}"},
    {"up_bilinear", "upsample", "{\"scale\": [2, 3], \"mode\": \"linear\"}"},
    {"up_bilinear_corners", "upsample", "{\"scale\": [2, 3], \"mode\": \"linear\", \"align_corners\": true}"},
    {"up_nearest_volume", "upsample", "{\"scale\": [3, 1, 2]}"},
    {"up_trilinear", "upsample", "{\"scale\": [3, 1, 2], \"mode\": \"linear\"}"},
    {"up_trilinear_corners", "upsample", "{\"scale\": 2, \"mode\": \"linear\", \"align_corners\": true}"},
};

/* The op as a whole graph: x and dy in, y and dx out. */
typedef struct rig {
    golden_rig op;
    int32_t x, y, dy;
} rig;

static void open_rig(rig *r, const golden_case *c, const clt_shape *shape, bool group)
{
    clt_graph *graph;
    clt_node *node;
    clt_shape sample = clt_shape_make(shape->ndim - 1, shape->dim + 1);
    must(clt_graph_create(shape->dim[0], &graph), "graph");
    must(clt_graph_field(graph, "x", CLT_F32, &sample, &r->x), "x");
    clt_graph_tensor(graph, r->x)->requires_grad = true;
    must(clt_graph_add_text(graph, c->op, c->name, c->attrs, &r->x, 1, &node), c->name);
    r->y = node->out[0];
    clt_graph_tensor(graph, r->y)->is_output = true;
    clt_shape out = clt_graph_tensor(graph, r->y)->shape;
    must(clt_graph_new_tensor(graph, "dy", CLT_F32, &out, CLT_TC_FIELD, &r->dy), "dy");
    open_golden(&r->op, graph, c->name, group, group ? "flat" : "lane", r->y, r->dy);
}

static void run_case(const clt_safetensors *file, const golden_case *c, bool group)
{
    char prefix[64], what[96];
    rig r;
    snprintf(prefix, sizeof prefix, "%s.", c->name);
    const clt_named_tensor *x = tensor_of(file, prefix, "x"), *dy = tensor_of(file, prefix, "dy");
    open_rig(&r, c, &x->shape, group);
    assert_true(clt_shape_equal(&dy->shape, &clt_graph_tensor(r.op.plan->graph, r.y)->shape));
    write_golden(&r.op, r.x, x);
    write_golden(&r.op, r.dy, dy);
    run_golden(&r.op);
    snprintf(what, sizeof what, "%s y (%s)", c->name, group ? "flat" : "lane");
    check_golden(&r.op, r.y, tensor_of(file, prefix, "y"), what, 1e-6, 1e-7);
    snprintf(what, sizeof what, "%s dx (%s)", c->name, group ? "flat" : "lane");
    check_golden(&r.op, r.op.plan->gradient[r.x], tensor_of(file, prefix, "dx"), what, 1e-6, 1e-7);
    close_golden(&r.op);
}

TEST(test_cases)
{
    CLT_SCOPED(clt_safetensors) *file = open_file("spatial", "pool");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        run_case(file, &cases[i], false);
        run_case(file, &cases[i], true);
    }
}

TEST_PROGRAM(.device = true, .set_up = open_device, .tear_down = close_device);
