/* SPDX-License-Identifier: Apache-2.0
 *
 * Golden parity of norms over samples and of the losses of classification and segmentation: outputs, losses
 * and gradients against values that PyTorch computed (make_golden_losses.py, data/spatial_norms.safetensors
 * and spatial_losses.safetensors), in both execution styles. The divisor of a loss's mean must equal what
 * the loader counts for it. Needs a device, but no PyTorch.
 *
 * Tolerance: max|d| <= 3e-6 max|ref| + 1e-8 per tensor. ctest-labels: quick ctest-programs: kept ctest-cost: 25 */
#include "tests/golden/golden_op.h"

#include "engine/data/data.h"
#include "engine/graph/step_block.h"

#define RELATIVE 3e-6
#define ABSOLUTE 1e-8

/* A case of the script: the op that computes it. */
typedef struct golden_case {
    const char *name, *op, *attrs;
} golden_case;

static const golden_case norms[] = {
    {"group", "group_norm", "{\"groups\": 3, \"affine\": false}"},
    {"group_affine", "group_norm", "{\"groups\": 4}"},
    {"group_one", "group_norm", "{\"groups\": 1, \"eps\": 0.001}"},
    {"group_volume", "group_norm", "{\"groups\": 2}"},
    {"group_rows", "group_norm", "{\"groups\": 3}"},
    {"group_wide", "group_norm", "{\"groups\": 8}"},
    {"instance", "instance_norm", NULL},
    {"instance_affine", "instance_norm", "{\"affine\": true, \"eps\": 0.001}"},
    {"instance_volume", "instance_norm", "{\"affine\": true}"},
    {"instance_wide", "instance_norm", NULL},
};

#define W5 "\"class_weights\": [0.5, 2, 0, 7, 1.25]"
#define W9 "0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1"
static const golden_case losses[] = {
    {"rows", "cross_entropy", NULL},
    {"rows_weights", "cross_entropy", "{" W5 "}"},
    {"rows_all", "cross_entropy", "{" W5 ", \"label_smoothing\": 0.2, \"ignore_index\": 3}"},
    {"mask", "cross_entropy", NULL},
    {"mask_smooth", "cross_entropy", "{\"label_smoothing\": 0.1}"},
    {"mask_ignore", "cross_entropy", "{\"label_smoothing\": 0.1, \"ignore_index\": 2}"},
    {"mask_weights", "cross_entropy", "{" W5 "}"},
    {"mask_weights_smooth", "cross_entropy", "{" W5 ", \"label_smoothing\": 0.3}"},
    {"mask_all", "cross_entropy", "{" W5 ", \"label_smoothing\": 0.1, \"ignore_index\": 1}"},
    {"volume_weights", "cross_entropy", "{\"class_weights\": [0.25, 4]}"},
    {"wide_all", "cross_entropy",
     "{\"class_weights\": [" W9 "," W9 "," W9 "," W9 ", 0], \"label_smoothing\": 0.1, \"ignore_index\": 5}"},
    {"mixed", "cross_entropy", NULL},
    {"mixed_smooth", "cross_entropy", "{\"label_smoothing\": 0.1}"},
    {"mixed_weights", "cross_entropy", "{" W5 "}"},
    {"mixed_all", "cross_entropy", "{" W5 ", \"label_smoothing\": 0.1}"},
    {"dice", "dice_loss", NULL},
    {"dice_foreground", "dice_loss", "{\"include_background\": false}"},
    {"dice_squared", "dice_loss", "{\"squared_pred\": true, \"smooth\": 1}"},
    {"dice_sigmoid", "dice_loss", "{\"activation\": \"sigmoid\"}"},
    {"dice_binary", "dice_loss", "{\"activation\": \"sigmoid\"}"},
    {"dice_weights", "dice_loss", "{\"class_weights\": [0.5, 2, 0, 3]}"},
    {"dice_all", "dice_loss",
     "{\"class_weights\": [9, 2, 0.25, 3], \"include_background\": false, \"squared_pred\": true, "
     "\"smooth\": 0.5, \"ignore_index\": 2}"},
};

static int32_t add_field(clt_graph *graph, const char *name, clt_dtype dtype, const clt_shape *shape)
{
    int32_t id;
    clt_shape sample = clt_shape_make(shape->ndim - 1, shape->dim + 1);
    must(clt_graph_field(graph, name, dtype, &sample, &id), name);
    return id;
}

/* --- norms --- */

static void run_norm(const clt_safetensors *file, const golden_case *c, bool group)
{
    static const char *const factors[] = {"weight", "bias"}, *const gradients[] = {"dweight", "dbias"};
    const char *style = group ? "group" : "cpu";
    char prefix[64], what[96];
    golden_rig r;
    clt_graph *graph;
    clt_node *node;
    int32_t dy;
    snprintf(prefix, sizeof prefix, "%s.", c->name);
    const clt_named_tensor *x = tensor_of(file, prefix, "x");
    must(clt_graph_create(x->shape.dim[0], &graph), "graph");
    int32_t in = add_field(graph, "x", CLT_F32, &x->shape);
    clt_graph_tensor(graph, in)->requires_grad = true;
    must(clt_graph_add_text(graph, c->op, c->name, c->attrs, &in, 1, &node), c->name);
    int32_t y = node->out[0], param[2], n_param = node->n_param;
    for (int i = 0; i < n_param; i++)
        param[i] = graph->params[node->param[i]].tensor;
    clt_graph_tensor(graph, y)->is_output = true;
    must(clt_graph_new_tensor(graph, "dy", CLT_F32, &x->shape, CLT_TC_FIELD, &dy), "dy");
    open_golden(&r, graph, c->name, group, NULL, y, dy);
    write_golden(&r, in, x);
    write_golden(&r, dy, tensor_of(file, prefix, "dy"));
    for (int i = 0; i < n_param; i++)
        write_golden(&r, param[i], tensor_of(file, prefix, factors[i]));
    run_golden(&r);
    snprintf(what, sizeof what, "%s y (%s)", c->name, style);
    check_golden(&r, y, tensor_of(file, prefix, "y"), what, RELATIVE, ABSOLUTE);
    snprintf(what, sizeof what, "%s dx (%s)", c->name, style);
    check_golden(&r, r.plan->gradient[in], tensor_of(file, prefix, "dx"), what, RELATIVE, ABSOLUTE);
    for (int i = 0; i < n_param; i++) {
        snprintf(what, sizeof what, "%s %s (%s)", c->name, gradients[i], style);
        check_golden(&r, r.plan->gradient[param[i]], tensor_of(file, prefix, gradients[i]), what, RELATIVE,
                     ABSOLUTE);
    }
    close_golden(&r);
}

TEST(test_norms)
{
    CLT_SCOPED(clt_safetensors) *file = open_file("spatial", "norms");
    for (size_t i = 0; i < sizeof norms / sizeof norms[0]; i++) {
        run_norm(file, &norms[i], false);
        run_norm(file, &norms[i], true);
    }
}

/* --- losses --- */

typedef struct loss_rig {
    golden_rig op;
    int32_t in[4], n_in;
} loss_rig;

static const char *const inputs[4] = {"x", "target", "second", "share"};

/* The file has mixed targets if the op needs them. */
static void open_loss(loss_rig *r, const clt_safetensors *file, const char *prefix, const golden_case *c,
                      bool group)
{
    clt_graph *graph;
    clt_node *node;
    r->n_in = strncmp(c->name, "mixed", 5) == 0 ? 4 : 2;
    must(clt_graph_create(tensor_of(file, prefix, "x")->shape.dim[0], &graph), "graph");
    for (int i = 0; i < r->n_in; i++)
        r->in[i] = add_field(graph, inputs[i], i == 1 || i == 2 ? CLT_I32 : CLT_F32,
                             &tensor_of(file, prefix, inputs[i])->shape);
    clt_graph_tensor(graph, r->in[0])->requires_grad = true;
    must(clt_graph_add_text(graph, c->op, c->name, c->attrs, r->in, r->n_in, &node), c->name);
    open_golden(&r->op, graph, c->name, group, NULL, -1, -1);
    const clt_tensor *weights = clt_graph_tensor(r->op.plan->graph, node->constant);
    if (weights)
        must(clt_realized_write(r->op.realized, weights->id, weights->values), "class weights");
}

static int32_t *whole_numbers(const clt_named_tensor *golden)
{
    int64_t n = clt_shape_elements(&golden->shape);
    CLT_FREED float *values = values_of(golden);
    int32_t *whole = malloc((size_t)n * sizeof *whole);
    assert_non_null(whole);
    for (int64_t i = 0; i < n; i++)
        whole[i] = (int32_t)values[i];
    return whole;
}

/* The divisor that the loader would use, from the graph's description of the loss. */
static double counted(const clt_loss *loss, int64_t samples, const int32_t *target, int64_t targets)
{
    const clt_class_sum classes = {loss->class_weights, loss->n_classes, loss->has_ignore,
                                   loss->ignore_index};
    double count = 0;
    if (loss->class_weights)
        return clt_sum_classes(&classes, target, CLT_I32, targets);
    if (!loss->has_ignore)
        return (double)(samples * loss->targets_per_sample);
    for (int64_t i = 0; i < targets; i++)
        count += target[i] != loss->ignore_index;
    return count;
}

static void run_loss(const clt_safetensors *file, const golden_case *c, bool group)
{
    const char *style = group ? "group" : "cpu";
    char prefix[64], what[96];
    double normaliser, want;
    float record[4];
    loss_rig r;
    snprintf(prefix, sizeof prefix, "%s.", c->name);
    open_loss(&r, file, prefix, c, group);
    const clt_named_tensor *x = tensor_of(file, prefix, "x"), *target = tensor_of(file, prefix, "target");
    memcpy(&normaliser, tensor_of(file, prefix, "normaliser")->data, sizeof normaliser);
    memcpy(&want, tensor_of(file, prefix, "loss")->data, sizeof want);
    for (int i = 0; i < r.n_in; i++)
        if (i == 0 || i == 3) {
            write_golden(&r.op, r.in[i], tensor_of(file, prefix, inputs[i]));
        } else {
            CLT_FREED int32_t *whole = whole_numbers(tensor_of(file, prefix, inputs[i]));
            must(clt_realized_write(r.op.realized, r.in[i], whole), inputs[i]);
        }
    int32_t *classes = whole_numbers(target);
    double divisor =
        counted(&r.op.plan->graph->losses[0], x->shape.dim[0], classes, clt_shape_elements(&target->shape));
    free(classes);
    if (fabs(divisor - normaliser) > 1e-9 * normaliser)
        fail_msg("%s: the mean is divided by %g, PyTorch's by %g", c->name, divisor, normaliser);
    clt_step_block step = {.valid = (uint32_t)x->shape.dim[0], .norm = {(float)(1 / divisor)}};
    must(clt_realized_write(r.op.realized, r.op.plan->graph->step, &step), "step");
    run_golden(&r.op);
    must(clt_realized_read(r.op.realized, r.op.plan->losses, record), "record");
    float loss = (float)want;
    snprintf(what, sizeof what, "%s loss (%s)", c->name, style);
    compare(what, record, &loss, 1, RELATIVE, ABSOLUTE);
    snprintf(what, sizeof what, "%s dx (%s)", c->name, style);
    check_golden(&r.op, r.op.plan->gradient[r.in[0]], tensor_of(file, prefix, "dx"), what, RELATIVE,
                 ABSOLUTE);
    close_golden(&r.op);
}

TEST(test_losses)
{
    CLT_SCOPED(clt_safetensors) *file = open_file("spatial", "losses");
    for (size_t i = 0; i < sizeof losses / sizeof losses[0]; i++) {
        run_loss(file, &losses[i], false);
        run_loss(file, &losses[i], true);
    }
}

TEST_PROGRAM(.device = true, .set_up = open_device, .tear_down = close_device);
