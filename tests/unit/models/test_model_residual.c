/* SPDX-License-Identifier: Apache-2.0
 *
 * The families resnet, cnn3d and unet3d: sizes and names of the published networks, initial values, blocks
 * for recomputation, channels and sizes of a U-Net's levels, and what config rules and the families
 * refuse. Needs no device. ctest-labels: quick */
#include "tests/unit/test.h"

#include <math.h>

#include "engine/config/config.h"
#include "engine/models/models.h"
#include "engine/ops/node.h"
#include "engine/ops/op.h"
#include "engine/state/store.h"

typedef struct sample {
    clt_dtype x;
    clt_shape shape;
    clt_dtype y;
    clt_shape target;
    int64_t most; /* largest target, -1 unknown */
} sample;

static const sample photo = {CLT_U8, {3, {3, 224, 224}}, CLT_I32, {0, {0}}, 999};
static const sample scan = {CLT_F32, {4, {1, 32, 48, 40}}, CLT_U8, {3, {32, 48, 40}}, 3};

static clt_status build(const char *json, const sample *s, clt_graph **graph)
{
    clt_model_inputs inputs = {
        .n_fields = 2,
        .field = {{"x", s->x, s->shape, -1}, {"y", s->y, s->target, s->most}},
        .scale = 1,
        .std = 1,
    };
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    assert_ok(clt_json_parse(json, strlen(json), "net.json", CLT_ECONFIG, &doc));
    assert_ok(clt_graph_create(2, graph));
    clt_status status = clt_model_build(clt_json_root(doc), doc, &inputs, *graph);
    return status;
}

static clt_graph *good(const char *json, const sample *s)
{
    clt_graph *graph = NULL;
    if (build(json, s, &graph) != CLT_OK)
        fail_msg("%s\n%s", json, clt_error_text());
    return graph;
}

static void refuses(const char *json, const sample *s, const char *says)
{
    CLT_SCOPED(clt_graph) *graph = NULL;
    assert_int_equal(build(json, s, &graph), CLT_ECONFIG);
    if (!strstr(clt_error_text(), says))
        fail_msg("'%s' is missing in: %s", says, clt_error_text());
}

static const clt_param *param(const clt_graph *graph, const char *name)
{
    const clt_param *p = clt_graph_find_param(graph, name);
    if (!p)
        fail_msg("there is no parameter '%s'", name);
    return p;
}

static const clt_shape *output(const clt_graph *graph, const char *name)
{
    const clt_node *node = clt_graph_find(graph, name);
    if (!node)
        fail_msg("there is no layer '%s'", name);
    return &clt_graph_tensor(graph, node->out[0])->shape;
}

static void expect_shape(const clt_shape *shape, const char *expected)
{
    char text[CLT_SHAPE_TEXT];
    assert_string_equal(clt_shape_text(shape, text, sizeof text), expected);
}

/* Numbers of parameters and of tensors as torchvision's documentation has them. */
TEST(test_published_sizes)
{
    static const struct {
        const char *keys;
        int64_t elements;
        size_t trained;
    } nets[] = {
        {"\"depth\": 18", 11689512, 62},
        {"\"depth\": 34", 21797672, 110},
        {"\"depth\": 50", 25557032, 161},
        {"\"depth\": 101", 44549160, 314},
        {"\"depth\": 152", 60192808, 467},
        {"\"depth\": 50, \"groups\": 32, \"width_per_group\": 4", 25028904, 161},  /* resnext50_32x4d */
        {"\"depth\": 101, \"groups\": 32, \"width_per_group\": 8", 88791336, 314}, /* resnext101_32x8d */
        {"\"depth\": 50, \"width_per_group\": 128", 68883240, 161},                /* wide_resnet50_2 */
    };
    for (size_t i = 0; i < sizeof nets / sizeof nets[0]; i++) {
        char json[200];
        snprintf(json, sizeof json, "{\"type\": \"resnet\", %s}", nets[i].keys);
        CLT_SCOPED(clt_graph) *g = good(json, &photo);
        assert_int_equal(clt_graph_param_elements(g), nets[i].elements);
        assert_int_equal(g->n_params - (size_t)clt_graph_buffers(g), nets[i].trained);
    }
}

TEST(test_names_and_shapes)
{
    clt_graph *g = good("{\"type\": \"resnet\", \"depth\": 50}", &photo);
    expect_shape(&param(g, "conv1.weight")->shape, "(64,7,7,3)"); /* memory's order; files have torch's */
    assert_int_equal(param(g, "conv1.weight")->file_transposed, 2);
    expect_shape(&param(g, "layer1.0.downsample.0.weight")->shape, "(256,1,1,64)");
    expect_shape(&param(g, "layer1.0.downsample.1.running_var")->shape, "(256)");
    expect_shape(&param(g, "layer2.0.conv2.weight")->shape, "(128,3,3,128)");
    expect_shape(&param(g, "layer4.2.bn3.bias")->shape, "(2048)");
    expect_shape(&param(g, "fc.weight")->shape, "(1000,2048)");
    assert_null(clt_graph_find_param(g, "layer1.1.downsample.0.weight"));
    assert_null(clt_graph_find_param(g, "conv1.bias"));
    expect_shape(output(g, "conv1"), "(2,64,112,112)");
    expect_shape(output(g, "maxpool"), "(2,64,56,56)");
    expect_shape(output(g, "layer2.0.conv1"), "(2,128,56,56)"); /* the stride is in the 3x3 convolution */
    expect_shape(output(g, "layer2.0.conv2"), "(2,128,28,28)");
    expect_shape(output(g, "layer4.2.relu3"), "(2,2048,7,7)");
    for (size_t i = 0; i < g->n_params; i++)
        assert_string_equal(g->params[i].name, g->params[i].file_name);
    clt_model_info info;
    assert_ok(clt_model_describe(g, &info));
    assert_int_equal(info.classes, 1000);
    assert_int_equal(info.rows_per_sample, 1);
    assert_true(info.is_classifier);
    clt_graph_destroy(g);
    g = good("{\"type\": \"resnet\", \"depth\": 18, \"stem\": \"cifar\", \"width\": 16, \"classes\": 7}",
             &photo);
    expect_shape(&param(g, "conv1.weight")->shape, "(16,3,3,3)");
    expect_shape(output(g, "conv1"), "(2,16,224,224)");
    assert_null(clt_graph_find(g, "maxpool"));
    expect_shape(&param(g, "fc.weight")->shape, "(7,128)");
    clt_graph_destroy(g);
}

/* The layers of a block are consecutive, in the order that lets plans fuse norm, sum and ReLU. */
TEST(test_blocks)
{
    static const char *const order[] = {"downsample.0", "downsample.1", "conv1", "bn1", "relu1", "conv2",
                                        "bn2",          "relu2",        "conv3", "bn3", "add",   "relu3"};
    CLT_SCOPED(clt_graph) *g = good("{\"type\": \"resnet\", \"depth\": 50}", &photo);
    int32_t first = clt_graph_find(g, "layer2.0.downsample.0")->id;
    for (int i = 0; i < 12; i++) {
        char name[64];
        snprintf(name, sizeof name, "layer2.0.%s", order[i]);
        const clt_node *node = clt_graph_find(g, name);
        assert_non_null(node);
        assert_int_equal(node->id, first + i);
        assert_int_equal(node->block, 4); /* after the three blocks of layer1 */
    }
    assert_int_equal(clt_graph_find(g, "maxpool")->block, 0);
    assert_int_equal(clt_graph_find(g, "layer4.2.relu3")->block, 16);
    assert_int_equal(clt_graph_find(g, "fc")->block, 17);
}

static double deviation(const clt_graph *g, const char *name)
{
    const clt_param *p = param(g, name);
    int64_t n = clt_shape_elements(&p->shape);
    CLT_FREED float *values = malloc((size_t)n * sizeof *values);
    double squares = 0;
    assert_non_null(values);
    assert_ok(clt_init_values(p, 7, values));
    for (int64_t i = 0; i < n; i++)
        squares += (double)values[i] * (double)values[i];
    return sqrt(squares / (double)n);
}

/* Convolutions N(0, sqrt(2 / fan_out)), norms 1 and 0, the last layer U(+-1/sqrt(in)). */
TEST(test_initial_values)
{
    clt_graph *g = good("{\"type\": \"resnet\", \"depth\": 50}", &photo);
    assert_true(fabs(deviation(g, "conv1.weight") / sqrt(2.0 / (64 * 49)) - 1) < 0.05);
    assert_true(fabs(deviation(g, "layer3.0.conv2.weight") / sqrt(2.0 / (256 * 9)) - 1) < 0.01);
    assert_true(fabs(deviation(g, "layer3.0.downsample.0.weight") / sqrt(2.0 / 1024) - 1) < 0.01);
    assert_true(fabs(deviation(g, "fc.weight") / (1 / sqrt(3.0 * 2048)) - 1) < 0.01);
    assert_true(fabs(deviation(g, "fc.bias") / (1 / sqrt(3.0 * 2048)) - 1) < 0.1);
    assert_true(deviation(g, "layer1.0.bn3.weight") == 1.0 && deviation(g, "layer1.0.bn3.bias") == 0.0);
    assert_true(deviation(g, "bn1.running_var") == 1.0 && deviation(g, "bn1.running_mean") == 0.0);
    clt_graph_destroy(g);
    g = good("{\"type\": \"resnet\", \"depth\": 50, \"zero_init\": true}", &photo);
    assert_true(deviation(g, "layer1.0.bn3.weight") == 0.0 && deviation(g, "layer4.2.bn3.weight") == 0.0);
    assert_true(deviation(g, "layer1.0.bn2.weight") == 1.0 && deviation(g, "bn1.weight") == 1.0);
    assert_true(deviation(g, "layer1.0.downsample.1.weight") == 1.0);
    clt_graph_destroy(g);
    g = good("{\"type\": \"resnet\", \"depth\": 34, \"zero_init\": true}", &photo);
    assert_true(deviation(g, "layer1.0.bn2.weight") == 0.0 && deviation(g, "layer1.0.bn1.weight") == 1.0);
    clt_graph_destroy(g);
}

/* Grey images without a dimension for channels, and volumes. */
TEST(test_other_inputs)
{
    static const sample digit = {CLT_U8, {2, {28, 28}}, CLT_U8, {0, {0}}, 9},
                        volume = {CLT_F32, {4, {2, 40, 64, 48}}, CLT_I32, {0, {0}}, 1};
    clt_graph *g = good("{\"type\": \"resnet\", \"depth\": 18, \"stem\": \"cifar\"}", &digit);
    expect_shape(output(g, "channel"), "(2,1,28,28)");
    expect_shape(&param(g, "conv1.weight")->shape, "(64,3,3,1)");
    clt_graph_destroy(g);
    g = good("{\"type\": \"cnn3d\", \"depth\": 10, \"width\": 8}", &volume);
    expect_shape(&param(g, "conv1.weight")->shape, "(8,7,7,7,2)");
    assert_int_equal(param(g, "conv1.weight")->file_transposed, 3);
    expect_shape(output(g, "conv1"), "(2,8,20,32,24)");
    expect_shape(output(g, "maxpool"), "(2,8,10,16,12)");
    expect_shape(output(g, "layer4.0.relu2"), "(2,64,2,2,2)");
    expect_shape(&param(g, "fc.weight")->shape, "(2,64)");
    clt_graph_destroy(g);
    g = good("{\"type\": \"cnn3d\", \"depth\": 50, \"stem\": \"small\", \"width\": 4}", &volume);
    expect_shape(output(g, "conv1"), "(2,4,40,64,48)");
    expect_shape(&param(g, "layer1.0.conv2.weight")->shape, "(4,3,3,3,4)");
    clt_graph_destroy(g);
}

TEST(test_unet)
{
    clt_graph *g = good("{\"type\": \"unet3d\", \"width_limit\": 100}", &scan);
    expect_shape(output(g, "enc1.relu2"), "(2,32,32,48,40)");
    expect_shape(output(g, "enc4.relu2"), "(2,100,4,6,5)"); /* limited from 256 */
    expect_shape(output(g, "up3"), "(2,100,8,12,10)");
    expect_shape(output(g, "skip2"), "(2,128,16,24,20)");
    expect_shape(output(g, "dec1.relu2"), "(2,32,32,48,40)");
    expect_shape(&param(g, "head.weight")->shape, "(4,1,1,1,32)");
    expect_shape(&param(g, "dec1.conv1.weight")->shape, "(32,3,3,3,64)");
    assert_int_equal(clt_graph_find(g, "enc1.conv2")->block, 1);
    assert_int_equal(clt_graph_find(g, "enc4.conv1")->block, 4);
    assert_int_equal(clt_graph_find(g, "dec1.conv1")->block, 7);
    assert_null(clt_graph_find(g, "pool2"));
    clt_graph_destroy(g);
    g = good("{\"type\": \"unet3d\", \"levels\": 2, \"width\": 4, \"down\": \"max_pool\", \"classes\": 9}",
             &scan);
    expect_shape(output(g, "pool2"), "(2,4,16,24,20)");
    expect_shape(output(g, "enc2.conv1"), "(2,8,16,24,20)");
    expect_shape(output(g, "head"), "(2,9,32,48,40)");
    clt_graph_destroy(g);
}

static const clt_node *layer(const clt_graph *graph, const char *name)
{
    const clt_node *node = clt_graph_find(graph, name);
    if (!node)
        fail_msg("there is no layer '%s'", name);
    return node;
}

/* Norms over samples, and the losses of segmentation. */
TEST(test_norms_and_losses)
{
    static const sample volume = {CLT_F32, {4, {1, 32, 32, 32}}, CLT_I32, {0, {0}}, 1};
    clt_graph *g = good("{\"type\": \"unet3d\", \"levels\": 2}", &scan);
    assert_string_equal(layer(g, "enc1.norm1")->op->name, "instance_norm");
    expect_shape(&param(g, "enc1.norm1.weight")->shape, "(32)"); /* it learns a factor and a shift */
    assert_int_equal(g->n_losses, 2);
    assert_string_equal(layer(g, "loss")->op->name, "cross_entropy");
    assert_string_equal(layer(g, "dice")->op->name, "dice_loss");
    assert_false(clt_node_attr(layer(g, "dice"), "include_background")->b);
    assert_true(g->losses[0].weight == 1.0f && g->losses[1].weight == 1.0f);
    clt_model_info info;
    assert_ok(clt_model_describe(g, &info));
    assert_int_equal(info.classes, 4);
    assert_int_equal(info.rows_per_sample, 32 * 48 * 40);
    assert_true(info.is_classifier && info.classes_first);
    clt_graph_destroy(g);
    g = good("{\"type\": \"unet3d\", \"levels\": 2, \"norm\": \"batch_norm\", \"dice_weight\": 0.25, "
             "\"cross_entropy_weight\": 0, \"dice_background\": true}",
             &scan);
    assert_string_equal(layer(g, "dec1.norm2")->op->name, "batch_norm");
    assert_true(clt_node_attr(layer(g, "dice"), "include_background")->b);
    assert_true(g->losses[0].weight == 0.0f && g->losses[1].weight == 0.25f);
    clt_graph_destroy(g);
    g = good("{\"type\": \"unet3d\", \"levels\": 2, \"dice_weight\": 0}", &scan);
    assert_int_equal(g->n_losses, 1);
    clt_graph_destroy(g);
    g = good("{\"type\": \"cnn3d\", \"depth\": 10, \"norm\": \"group_norm\", \"norm_groups\": 4, "
             "\"zero_init\": true}",
             &volume);
    assert_string_equal(layer(g, "layer1.0.bn2")->op->name, "group_norm");
    assert_int_equal(clt_node_attr(layer(g, "bn1"), "groups")->i, 4);
    assert_true(deviation(g, "layer1.0.bn2.weight") == 0.0 && deviation(g, "layer1.0.bn1.weight") == 1.0);
    clt_graph_destroy(g);
    g = good("{\"type\": \"cnn3d\", \"depth\": 10}", &volume);
    assert_string_equal(layer(g, "bn1")->op->name, "batch_norm");
    clt_graph_destroy(g);
}

/* model.class_weights goes to all losses, and into the normaliser of cross_entropy. */
TEST(test_class_weights)
{
    static const sample small = {CLT_U8, {3, {3, 32, 32}}, CLT_I32, {0, {0}}, 2};
    clt_graph *g = good("{\"type\": \"unet3d\", \"levels\": 2, \"class_weights\": [0.5, 2, 0, 8]}", &scan);
    for (int i = 0; i < 2; i++) {
        const clt_node *loss = g->nodes[g->losses[i].node];
        const clt_tensor *weights = clt_graph_tensor(g, loss->constant);
        assert_non_null(weights);
        assert_int_equal(weights->cls, CLT_TC_CONSTANT);
        assert_true(clt_shape_elements(&weights->shape) == 4 && weights->values[3] == 8.0f);
    }
    assert_true(g->losses[0].n_classes == 4 && g->losses[0].class_weights[1] == 2.0f);
    assert_null(g->losses[1].class_weights); /* Dice: a mean over samples */
    clt_graph_destroy(g);
    g = good("{\"type\": \"resnet\", \"depth\": 18, \"stem\": \"cifar\", \"class_weights\": [1, 0, 3]}",
             &small);
    assert_true(g->losses[0].n_classes == 3 && g->losses[0].class_weights[2] == 3.0f);
    clt_graph_destroy(g);
    g = good("{\"type\": \"resnet\", \"depth\": 18, \"stem\": \"cifar\", \"class_weights\": []}", &small);
    assert_true(g->nodes[g->losses[0].node]->constant == -1 && !g->losses[0].class_weights);
    clt_graph_destroy(g);
    refuses("{\"type\": \"resnet\", \"depth\": 18, \"class_weights\": [1, 2]}", &small,
            "has 3 classes, but the list has 2 weights");
    refuses("{\"type\": \"resnet\", \"depth\": 18, \"class_weights\": [1, -2, 1]}", &small, "at least 0");
    refuses("{\"type\": \"resnet\", \"depth\": 18, \"class_weights\": 2}", &small, "must be a list");
}

/* Samples mixed by the data: the loss compares with both classes. */
TEST(test_mixed)
{
    clt_model_inputs inputs = {
        .n_fields = 4,
        .field = {{"x", CLT_U8, {3, {3, 32, 32}}, -1},
                  {"y", CLT_I32, {0, {0}}, 9},
                  {"y2", CLT_I32, {0, {0}}, 9},
                  {"share", CLT_F32, {0, {0}}, -1}},
        .scale = 1,
        .std = 1,
    };
    static const char json[] = "{\"type\": \"resnet\", \"depth\": 18, \"stem\": \"cifar\"}";
    clt_json_doc *doc = NULL;
    CLT_SCOPED(clt_graph) *g = NULL;
    assert_ok(clt_json_parse(json, strlen(json), "net.json", CLT_ECONFIG, &doc));
    assert_ok(clt_graph_create(2, &g));
    assert_ok(clt_model_build(clt_json_root(doc), doc, &inputs, g));
    const clt_node *loss = layer(g, "loss");
    assert_int_equal(loss->n_in, 4);
    assert_int_equal(loss->in[2], g->fields[2].tensor);
    assert_int_equal(loss->in[3], g->fields[3].tensor);
    clt_json_destroy(doc);
}

TEST(test_refusals)
{
    static const sample unknown = {CLT_U8, {3, {3, 32, 32}}, CLT_I32, {0, {0}}, -1},
                        numbers = {CLT_U8, {3, {3, 32, 32}}, CLT_F32, {0, {0}}, -1},
                        vector = {CLT_F32, {1, {64}}, CLT_I32, {0, {0}}, 3},
                        odd = {CLT_F32, {4, {1, 20, 32, 32}}, CLT_U8, {3, {20, 32, 32}}, 3};
    refuses("{\"type\": \"resnet\"}", &photo, "model.depth");
    refuses("{\"type\": \"resnet\", \"depth\": 18, \"groups\": 2}", &photo,
            "model.groups: only for bottlenecks");
    refuses("{\"type\": \"resnet\", \"depth\": 34, \"width_per_group\": 8}", &photo,
            "model.width_per_group: only");
    refuses("{\"type\": \"resnet\", \"depth\": 18}", &unknown, "model.classes");
    refuses("{\"type\": \"resnet\", \"depth\": 18}", &numbers, "they must be integers");
    refuses("{\"type\": \"resnet\", \"depth\": 18}", &vector, "needs images (channels, height, width)");
    refuses("{\"type\": \"resnet\", \"depth\": 18}", &scan, "needs images");
    refuses("{\"type\": \"cnn3d\", \"depth\": 18}", &vector, "needs volumes");
    refuses("{\"type\": \"cnn3d\", \"depth\": 18}", &scan, "one class for each sample");
    refuses("{\"type\": \"unet3d\"}", &photo, "needs a mask of the shape (3,224,224)");
    refuses("{\"type\": \"unet3d\", \"levels\": 4}", &odd, "multiples of 8");
    refuses("{\"type\": \"unet3d\", \"levels\": 2, \"classes\": 1}", &scan, "must be at least 2");
    refuses("{\"type\": \"unet3d\", \"dice_weight\": 0, \"cross_entropy_weight\": 0}", &scan,
            "nothing to minimise");
}

static void rule(const char *model, const char *says)
{
    char text[512];
    clt_config *config = NULL;
    snprintf(text, sizeof text,
             "{\"model\": {%s}, \"data\": {\"type\": \"npy\", \"path\": \"x\", \"targets\": \"y\"}}", model);
    clt_status status = clt_config_parse(text, "t.json", NULL, 0, &config);
    if (!says) {
        if (status != CLT_OK)
            fail_msg("%s", clt_error_text());
        clt_config_destroy(config);
        return;
    }
    assert_int_equal(status, CLT_ECONFIG);
    if (!strstr(clt_error_text(), says))
        fail_msg("'%s' is missing in: %s", says, clt_error_text());
}

TEST(test_rules)
{
    rule("\"type\": \"resnet\", \"depth\": 152", NULL);
    rule("\"type\": \"cnn3d\", \"depth\": 10, \"stem\": \"small\"", NULL);
    rule("\"type\": \"unet3d\", \"down\": \"max_pool\"", NULL);
    rule("\"type\": \"resnet\"", "model.depth");
    rule("\"type\": \"resnet\", \"depth\": 51", "must be one of 18|34|50|101|152 for a resnet");
    rule("\"type\": \"resnet\", \"depth\": 10", "must be one of 18|34|50|101|152 for a resnet");
    rule("\"type\": \"resnet\", \"depth\": 18, \"stem\": \"small\"", "model.stem");
    rule("\"type\": \"cnn3d\", \"depth\": 18, \"stem\": \"cifar\"", "model.stem");
    rule("\"type\": \"resnet\", \"depth\": 18, \"groups\": 32", "only for bottlenecks");
    rule("\"type\": \"unet3d\", \"levels\": 9", "model.levels");
    rule("\"type\": \"unet3d\", \"classes\": 1", "must be at least 2");
    rule("\"type\": \"unet3d\", \"dice_weight\": 0, \"cross_entropy_weight\": 0", "nothing to minimise");
    rule("\"type\": \"resnet\", \"depth\": 18, \"norm\": \"group_norm\"", "model.norm");
}
