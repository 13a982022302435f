/* SPDX-License-Identifier: Apache-2.0
 *
 * Model families: graphs from JSON, and the messages for invalid ones. ctest-labels: quick */
#include "tests/unit/test.h"

#include <math.h>

#include "engine/models/models.h"
#include "engine/ops/op.h"

static const clt_model_inputs images = {
    .n_fields = 2,
    .field = {{"x", CLT_U8, {2, {28, 28}}, -1}, {"y", CLT_U8, {0, {0}}, 9}},
    .scale = 1.0f / 255,
    .mean = 0.1307f,
    .std = 0.3081f,
};
static const clt_model_inputs text = {
    .n_fields = 2,
    .field = {{"x", CLT_U8, {1, {8}}, 255}, {"y", CLT_U8, {0, {0}}, 255}},
    .scale = 1,
    .std = 1,
};
static const clt_model_inputs numbers = {
    .n_fields = 2,
    .field = {{"x", CLT_F32, {1, {5}}, -1}, {"y", CLT_F32, {1, {3}}, -1}},
    .scale = 1,
    .std = 1,
};

static clt_status build(const char *json, const clt_model_inputs *inputs, clt_graph **graph)
{
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    assert_ok(clt_json_parse(json, strlen(json), "net.json", CLT_ECONFIG, &doc));
    assert_ok(clt_graph_create(4, graph));
    clt_status status = clt_model_build(clt_json_root(doc), doc, inputs, *graph);
    return status;
}

static clt_graph *good(const char *json, const clt_model_inputs *inputs)
{
    clt_graph *graph = NULL;
    if (build(json, inputs, &graph) != CLT_OK)
        fail_msg("%s\n%s", json, clt_error_text());
    return graph;
}

/* Asserts the graph's layers as "name:op name:op ..." in order of execution. */
static void expect_layers(const clt_graph *graph, const char *expected)
{
    char got[1024] = "";
    for (size_t i = 0; i < graph->n_nodes; i++) {
        size_t n = strlen(got);
        snprintf(got + n, sizeof got - n, "%s%s:%s", i ? " " : "", graph->nodes[i]->name,
                 graph->nodes[i]->op->name);
    }
    assert_string_equal(got, expected);
}

static void expect_shape(const clt_graph *graph, const char *layer, const char *expected)
{
    char buffer[CLT_SHAPE_TEXT];
    const clt_node *node = clt_graph_find(graph, layer);
    assert_non_null(node);
    assert_string_equal(clt_shape_text(&clt_graph_tensor(graph, node->out[0])->shape, buffer, sizeof buffer),
                        expected);
}

TEST(mlp_of_images)
{
    clt_graph *g =
        good("{\"type\":\"mlp\",\"hidden\":[64,32],\"activation\":\"gelu\",\"dropout\":0.1,\"outputs\":10}",
             &images);
    expect_layers(
        g, "x.f32:cast flatten:flatten fc1:linear act1:gelu drop1:dropout fc2:linear act2:gelu drop2:dropout "
           "out:linear loss:cross_entropy");
    expect_shape(g, "flatten", "(4,784)");
    expect_shape(g, "out", "(4,10)");
    assert_true(fabs(clt_node_attr(clt_graph_find(g, "x.f32"), "mean")->f - 0.1307) < 1e-6);
    assert_true(fabs(clt_node_attr(clt_graph_find(g, "x.f32"), "scale")->f - 1.0 / 255) < 1e-8);
    assert_non_null(clt_graph_find_param(g, "fc2.weight"));
    assert_non_null(clt_graph_find_param(g, "out.bias"));
    clt_model_info info;
    assert_ok(clt_model_describe(g, &info));
    assert_int_equal(info.outputs, 10);
    assert_int_equal(info.rows_per_sample, 1);
    assert_true(info.is_classifier);
    assert_string_equal(info.target_field, "y");
    assert_true(clt_graph_tensor(g, info.prediction)->is_output);
    assert_int_equal(info.prediction, clt_graph_find(g, "out")->out[0]);
    clt_graph_destroy(g);
}

TEST(mlp_of_text)
{
    clt_graph *g =
        good("{\"type\":\"mlp\",\"hidden\":[16],\"embedding\":6,\"bias\":false,\"activation\":\"gelu_tanh\","
             "\"label_smoothing\":0.1,\"ignore_index\":0}",
             &text);
    expect_layers(g,
                  "embedding:embedding flatten:flatten fc1:linear act1:gelu out:linear loss:cross_entropy");
    expect_shape(g, "flatten", "(4,48)");
    expect_shape(g, "out", "(4,256)");
    assert_null(clt_graph_find_param(g, "fc1.bias"));
    assert_int_equal(clt_node_attr(clt_graph_find(g, "act1"), "approximate")->choice, 1);
    assert_true(g->losses[0].has_ignore);
    assert_int_equal(g->losses[0].ignore_index, 0);
    assert_int_equal(g->losses[0].targets_per_sample, 1);
    clt_graph_destroy(g);
}

/* model.class_weights reaches the loss and its normaliser. */
TEST(mlp_class_weights)
{
    clt_graph *g =
        good("{\"type\":\"mlp\",\"outputs\":3,\"class_weights\":[0.5,2,0],\"ignore_index\":1}", &images);
    const clt_tensor *weights = clt_graph_tensor(g, g->nodes[g->losses[0].node]->constant);
    assert_int_equal(clt_shape_elements(&weights->shape), 3);
    assert_true(weights->values[0] == 0.5f && weights->values[1] == 2 && weights->values[2] == 0);
    assert_true(g->losses[0].n_classes == 3 && g->losses[0].class_weights[1] == 2);
    assert_true(g->losses[0].has_ignore && g->losses[0].ignore_index == 1);
    clt_graph_destroy(g);
    g = good("{\"type\":\"mlp\",\"outputs\":3,\"class_weights\":[]}", &images);
    assert_true(g->nodes[g->losses[0].node]->constant == -1 && !g->losses[0].class_weights);
    clt_graph_destroy(g);
    g = good("{\"type\":\"mlp\",\"loss\":\"mse\",\"class_weights\":[]}", &numbers);
    clt_graph_destroy(g);
}

TEST(mlp_of_numbers)
{
    clt_graph *g = good(
        "{\"type\":\"mlp\",\"hidden\":[],\"loss\":\"mse\",\"outputs\":0,\"ignore_index\":-100}", &numbers);
    expect_layers(g, "out:linear loss:mse");
    expect_shape(g, "out", "(4,3)");
    assert_int_equal(g->losses[0].targets_per_sample, 3);
    clt_graph_destroy(g);

    clt_model_inputs scalar = {.n_fields = 2,
                               .field = {{"x", CLT_F32, {0, {0}}, -1}, {"y", CLT_F32, {0, {0}}, -1}},
                               .scale = 1,
                               .std = 1};
    g = good("{\"type\":\"mlp\",\"hidden\":[4],\"loss\":\"l1\"}", &scalar);
    expect_layers(g, "features:reshape fc1:linear act1:relu out:linear loss:l1");
    clt_graph_destroy(g);
}

TEST(graph_chain)
{
    CLT_SCOPED(clt_graph) *g =
        good("{\"type\":\"graph\",\"layers\":[{\"op\":\"flatten\"},{\"op\":\"linear\",\"out\":12},"
             "{\"op\":\"relu\"},"
             "{\"op\":\"linear\",\"out\":10},{\"op\":\"cross_entropy\"}]}",
             &images);
    /* integers stay as they are until a layer needs numbers */
    expect_layers(g, "flatten1:flatten flatten1.f32:cast linear1:linear relu1:relu linear2:linear "
                     "cross_entropy1:cross_entropy");
    assert_true(fabs(clt_node_attr(clt_graph_find(g, "flatten1.f32"), "std")->f - 0.3081) < 1e-6);
}

TEST(graph_residual_and_order)
{
    /* layers named before they are listed, two branches, a concat, a field used twice */
    CLT_SCOPED(clt_graph) *g = good("{\"type\":\"graph\",\"layers\":["
                                    "{\"op\":\"add\",\"name\":\"sum\",\"inputs\":[\"in\",\"b2\"]},"
                                    "{\"op\":\"linear\",\"name\":\"in\",\"out\":5,\"inputs\":[\"x\"]},"
                                    "{\"op\":\"linear\",\"name\":\"b1\",\"out\":7,\"inputs\":[\"in\"]},"
                                    "{\"op\":\"tanh\",\"name\":\"t\"},"
                                    "{\"op\":\"linear\",\"name\":\"b2\",\"out\":5},"
                                    "{\"op\":\"concat\",\"name\":\"cat\",\"inputs\":[\"sum\",\"x\"]},"
                                    "{\"op\":\"linear\",\"name\":\"head\",\"out\":3},"
                                    "{\"op\":\"mse\",\"name\":\"err\"}]}",
                                    &numbers);
    expect_layers(g, "in:linear b1:linear t:tanh b2:linear sum:add cat:concat head:linear err:mse");
    expect_shape(g, "cat", "(4,10)");
}

TEST(graph_share_and_two_losses)
{
    clt_graph *g =
        good("{\"type\":\"graph\",\"layers\":["
             "{\"op\":\"linear\",\"name\":\"second\",\"out\":3,\"share\":\"first\",\"inputs\":[\"x\"]},"
             "{\"op\":\"linear\",\"name\":\"first\",\"out\":3,\"inputs\":[\"x\"]},"
             "{\"op\":\"add\",\"inputs\":[\"first\",\"second\"]},"
             "{\"op\":\"mse\",\"weight\":0.5},"
             "{\"op\":\"l1\"}]}",
             &numbers);
    expect_layers(g, "first:linear second:linear add1:add mse1:mse l11:l1");
    assert_int_equal(g->n_params, 2);
    assert_int_equal(clt_graph_find(g, "second")->param[0], clt_graph_find(g, "first")->param[0]);
    assert_int_equal(g->n_losses, 2);
    assert_int_equal(clt_graph_find(g, "l11")->in[0], clt_graph_find(g, "add1")->out[0]);
    clt_graph_destroy(g);
}

TEST(graph_slices_of_indices)
{
    /* slices of an integer field stay integers for the embedding; for other layers they are converted
     * once */
    CLT_SCOPED(clt_graph) *g =
        good("{\"type\":\"graph\",\"layers\":["
             "{\"op\":\"slice\",\"name\":\"words\",\"axis\":1,\"stop\":6},"
             "{\"op\":\"embedding\",\"name\":\"emb\",\"vocab\":256,\"dim\":4},"
             "{\"op\":\"flatten\",\"name\":\"flat\"},"
             "{\"op\":\"concat\",\"name\":\"all\",\"inputs\":[\"flat\",\"x\",\"words\",\"x\"]},"
             "{\"op\":\"linear\",\"name\":\"head\",\"out\":256},"
             "{\"op\":\"cross_entropy\",\"inputs\":[\"head\",\"y\"]}]}",
             &text);
    expect_layers(g,
                  "words:slice emb:embedding flat:flatten x.f32:cast words.f32:cast all:concat head:linear "
                  "cross_entropy1:cross_entropy");
    expect_shape(g, "all", "(4,46)");
}

typedef struct bad_case {
    const char *json;
    const clt_model_inputs *inputs;
    const char *expected; /* part of the message */
} bad_case;

#define LAYERS(text) "{\"type\":\"graph\",\"layers\":[" text "]}"
#define LINEAR "{\"op\":\"linear\",\"out\":3}"
#define MSE "{\"op\":\"mse\"}"

static const bad_case bad_cases[] = {
    {"{\"hidden\":[1]}", &numbers, "model.type must be a string"},
    {"{\"type\":\"mpl\"}", &numbers, "net.json:1:9: model.type 'mpl' is unknown; did you mean 'mlp'"},
    {"{\"type\":\"mlp\",\"hidden\":[4,0],\"loss\":\"mse\"}", &numbers,
     "net.json:1:27: model.hidden: entry 2 must be an integer of at least 1"},
    {"{\"type\":\"mlp\",\"hidden\":4,\"loss\":\"mse\"}", &numbers, "model.hidden: must be a list"},
    {"{\"type\":\"mlp\",\"activation\":\"rely\"}", &numbers, "model.activation: must be one of relu|gelu"},
    {"{\"type\":\"mlp\",\"activation\":\"relu|gelu\"}", &numbers,
     "model.activation: must be one of relu|gelu"},
    {"{\"type\":\"mlp\",\"dropout\":1}", &numbers, "model.dropout: must be at least 0 and below 1"},
    {"{\"type\":\"mlp\",\"loss\":\"mse\",\"label_smoothing\":0.1}", &numbers,
     "only the loss cross_entropy has label smoothing"},
    {"{\"type\":\"mlp\",\"loss\":\"mse\",\"ignore_index\":3}", &numbers,
     "only the loss cross_entropy has an ignored target"},
    {"{\"type\":\"mlp\",\"loss\":\"mse\",\"class_weights\":[1,2,3]}", &numbers,
     "model.class_weights: only the loss cross_entropy has classes"},
    {"{\"type\":\"mlp\",\"outputs\":3,\"class_weights\":[1,2]}", &images,
     "model.class_weights: an mlp has 3 classes, but the list has 2 weights"},
    {"{\"type\":\"mlp\",\"loss\":\"mse\",\"embedding\":3}", &numbers,
     "model.embedding: the inputs are not integers"},
    {"{\"type\":\"mlp\"}", &numbers, "model.loss: targets are f32: model.loss=mse (or l1)?"},
    {"{\"type\":\"mlp\",\"outputs\":4}", &numbers, "cross_entropy needs class numbers (u8, u16 or i32)"},
    {LAYERS(LINEAR ",{\"op\":\"cross_entropy\"}"), &numbers,
     "class numbers must be u8, u16 or i32; for targets that are numbers use the loss mse (or l1)"},
    {"{\"type\":\"mlp\",\"loss\":\"mse\",\"outputs\":4}", &numbers, "the same number of elements per sample"},
    {"{\"type\":\"graph\"}", &numbers, "model.layers: must be a non-empty list"},
    {"{\"type\":\"graph\",\"layers\":[]}", &numbers, "model.layers: must be a non-empty list"},
    {"{\"type\":\"graph\",\"layers\":{}}", &numbers, "model.layers: must be a non-empty list"},
    {LAYERS("7"), &numbers,
     "net.json:1:27: model.layers[0]: must be an object such as {\"op\": \"relu\"}, not a number"},
    {LAYERS("{}"), &numbers, "model.layers[0]: has no 'op'"},
    {LAYERS("{\"op\":5}"), &numbers, "model.layers[0]: 'op' must be a non-empty string, not a number"},
    {LAYERS("{\"op\":\"liner\",\"out\":3}," MSE), &numbers, "there is no op 'liner'; did you mean 'linear'?"},
    {LAYERS("{\"op\":\"linear\",\"out\":3,\"name\":\"a\"},{\"op\":\"relu\",\"name\":\"a\"}," MSE), &numbers,
     "the name 'a' is taken by model.layers[0]"},
    {LAYERS("{\"op\":\"linear\",\"out\":3,\"name\":\"x\"}," MSE), &numbers,
     "the name 'x' is taken by a field of the data"},
    {LAYERS("{\"op\":\"linear\",\"out\":3,\"name\":\"a:1\"}," MSE), &numbers,
     "must not be longer than 100 bytes or contain ':'"},
    {LAYERS("{\"op\":\"linear\",\"name\":\"first\",\"out\":3},{\"op\":\"relu\",\"inputs\":[\"frist\"]}," MSE),
     &numbers, "input 'frist' is neither a layer nor a field of the data; did you mean 'first'?"},
    {LAYERS("{\"op\":\"linear\",\"name\":\"a\",\"out\":3},{\"op\":\"relu\",\"inputs\":[\"a:1\"]}," MSE),
     &numbers, "reads output 1 of 'a', which has 1"},
    {LAYERS("{\"op\":\"linear\",\"name\":\"a\",\"out\":3},{\"op\":\"relu\",\"inputs\":[\"a:b\"]}," MSE),
     &numbers, "after ':' comes the number of an output"},
    {LAYERS(LINEAR ",{\"op\":\"relu\",\"inputs\":\"x\"}," MSE), &numbers,
     "'inputs' must be a list of 1 to 16 names"},
    {LAYERS(LINEAR ",{\"op\":\"relu\",\"inputs\":[]}," MSE), &numbers,
     "'inputs' must be a list of 1 to 16 names"},
    {LAYERS(LINEAR ",{\"op\":\"relu\",\"inputs\":[3]}," MSE), &numbers,
     "an entry of 'inputs' is a number; names are strings"},
    {LAYERS(LINEAR ",{\"op\":\"mse\",\"name\":\"m\"},{\"op\":\"relu\",\"inputs\":[\"m\"]}," MSE), &numbers,
     "input 'm' is a loss, which has no output"},
    {LAYERS("{\"op\":\"add\",\"name\":\"a\",\"inputs\":[\"x\",\"c\"]},{\"op\":\"relu\",\"name\":\"b\","
            "\"inputs\":[\"a\"]},"
            "{\"op\":\"tanh\",\"name\":\"c\",\"inputs\":[\"b\"]}," LINEAR "," MSE),
     &numbers, "the layers form a cycle: "},
    {LAYERS("{\"op\":\"linear\",\"out\":3,\"name\":\"a\",\"inputs\":[\"a\"]}," MSE), &numbers,
     "the layers form a cycle: 'a' reads 'a'"},
    {LAYERS("{\"op\":\"linear\",\"name\":\"unused\",\"out\":9},{\"op\":\"linear\",\"name\":\"b\",\"out\":3,"
            "\"inputs\":[\"x\"]}," MSE),
     &numbers, "layer 'unused' (linear): its output is not used"},
    {LAYERS(LINEAR), &numbers,
     "there is no loss, so there is nothing to minimise; end the list with one of cross_entropy, mse"},
    {LAYERS("{\"op\":\"slice\",\"axis\":1,\"stop\":3}," MSE), &numbers, "the model has no parameters"},
    {LAYERS("{\"op\":\"linear\"}," MSE), &numbers, "attribute 'out': is required"},
    {LAYERS("{\"op\":\"linear\",\"out\":3,\"biass\":true}," MSE), &numbers, "did you mean 'bias'?"},
    {LAYERS("{\"op\":\"linear\",\"out\":\"3\"}," MSE), &numbers,
     "net.json:1:48: layer 'linear1' (linear): attribute 'out': expected an integer"},
    {LAYERS("{\"op\":\"linear\",\"out\":4}," MSE), &numbers,
     "net.json:1:51: layer 'mse1' (mse): prediction (4,4) and target 'y' (4,3)"},
    {LAYERS("{\"op\":\"linear\",\"out\":4},{\"op\":\"add\",\"inputs\":[\"linear1\"]}," MSE), &numbers,
     "inputs, got 1"},
    {LAYERS("{\"op\":\"linear\",\"out\":3,\"share\":\"nobody\"}," MSE), &numbers,
     "'share' names 'nobody', which is not a layer"},
    {LAYERS("{\"op\":\"linear\",\"out\":3,\"name\":\"a\"},{\"op\":\"relu\",\"share\":\"a\"}," MSE), &numbers,
     "cannot share parameters with 'a', which is a linear"},
    {LAYERS(
         "{\"op\":\"linear\",\"out\":4,\"name\":\"a\"},{\"op\":\"linear\",\"out\":3,\"share\":\"a\"}," MSE),
     &numbers, "shares 'a.weight' of shape (4,5) but needs (3,4)"},
    {LAYERS("{\"op\":\"linear\",\"out\":3,\"name\":\"a\",\"share\":\"a\"}," MSE), &numbers,
     "must name a layer that has its own parameters"},
    {LAYERS(LINEAR ",{\"op\":\"mse\",\"inputs\":[\"linear1\",\"linear1\"]}"), &numbers,
     "must be a field of the batch"},
    {LAYERS("{\"op\":\"embedding\",\"vocab\":4,\"dim\":3}," MSE), &numbers,
     "indices must be u8, u16, i32 or u32"},
    {LAYERS("{\"op\":\"transpose\",\"perm\":[1,0]}," LINEAR "," MSE), &numbers,
     "perm moves the batch dimension"},
    {LAYERS("{\"op\":\"transpose\",\"perm\":[0,0]}," LINEAR "," MSE), &numbers, "perm is not a permutation"},
    {LAYERS("{\"op\":\"reshape\",\"shape\":[2,-1]}," LINEAR "," MSE), &numbers, "do not fill the shape"},
    {LAYERS("{\"op\":\"slice\",\"axis\":0}," LINEAR "," MSE), &numbers, "axis 0 is the batch dimension"},
    {LAYERS("{\"op\":\"slice\",\"axis\":1,\"start\":4,\"stop\":3}," LINEAR "," MSE), &numbers,
     "range 4:3 does not lie inside dimension 1"},
    {LAYERS("{\"op\":\"slice\",\"axis\":3}," LINEAR "," MSE), &numbers, "axis 3 does not exist"},
    {LAYERS(LINEAR ",{\"op\":\"concat\",\"axis\":1,\"inputs\":[\"linear1\",\"y\"]},{\"op\":\"reshape\","
                   "\"shape\":[2,3]},"
                   "{\"op\":\"matmul\",\"inputs\":[\"reshape1\",\"reshape1\"]},{\"op\":\"flatten\"}," LINEAR
                   "," MSE),
     &numbers, "inner dimensions of (4,2,3) and (4,2,3) differ: 3 and 2"},
};

/* All mistakes in a list are reported at once, in the order of the file, without errors that only follow from
 * them. */
TEST(all_of_a_list)
{
    CLT_SCOPED(clt_graph) *graph = NULL;
    assert_int_equal(build("{\"type\":\"graph\",\"layers\":[\n"
                           "{\"op\":\"liner\",\"out\":4},\n"
                           "{\"op\":\"relu\"},\n"
                           "{\"op\":\"linear\",\"ot\":4},\n"
                           "{\"op\":\"dropout\",\"p\":2},\n"
                           "{\"op\":\"add\",\"inputs\":[\"liner1\",\"nowhere\"]},\n"
                           "{\"op\":\"reshape\",\"name\":\"bad\",\"inputs\":[\"x\"],\"shape\":[7]},\n"
                           "{\"op\":\"linear\",\"inputs\":[\"bad\"],\"out\":\"3\"},\n"
                           "{\"op\":\"linear\",\"inputs\":[\"linear1\"],\"out\":3},\n"
                           "{\"op\":\"lstm\"},\n"
                           "{\"op\":\"mse\"}]}",
                           &numbers, &graph),
                     CLT_ECONFIG);
    static const char *const lines[] = {
        "net.json:2:7: model.layers[0]: there is no op 'liner'; did you mean 'linear'?",
        "net.json:4:21: layer 'linear1' (linear): attribute 'ot': is unknown; did you mean 'out', which is "
        "required? (this op has: out",
        "net.json:5:21: layer 'dropout1' (dropout): attribute 'p': 2 is out of range",
        "net.json:6:32: layer 'add1' (add): input 'nowhere' is neither a layer nor a field",
        "net.json:7:1: layer 'bad' (reshape): ",
        "net.json:8:39: layer 'linear2' (linear): attribute 'out': expected an integer",
        "net.json:10:7: model.layers[8]: there is no op 'lstm': there are no recurrent layers; 'cltrain ops' "
        "lists all of them",
    };
    const char *at = clt_error_text();
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        if (strncmp(at, lines[i], strlen(lines[i])) != 0)
            fail_msg("expected: %s\ngot:      %s", lines[i], at);
        at = strchr(at, '\n');
        assert_true((at != NULL) == (i + 1 < sizeof lines / sizeof lines[0]));
        at += at != NULL;
    }
}

/* The hint depends on the data: images need a flatten, numbers another loss. */
TEST(hints_of_losses)
{
    static const char *const cases[][2] = {
        {LAYERS("{\"op\":\"linear\",\"out\":10},{\"op\":\"cross_entropy\"}"),
         "put {\"op\": \"flatten\"} before the first linear layer"},
        {LAYERS("{\"op\":\"linear\",\"out\":1},{\"op\":\"mse\"}"),
         "put {\"op\": \"flatten\"} before the first linear layer"},
        {LAYERS("{\"op\":\"linear\",\"units\":10},{\"op\":\"cross_entropy\"}"),
         "attribute 'units': is unknown; did you mean 'out', which is required?"},
        {LAYERS("{\"op\":\"Dense\",\"out\":10},{\"op\":\"CrossEntropyLoss\"}"),
         "there is no op 'CrossEntropyLoss'; did you mean 'cross_entropy'?"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CLT_SCOPED(clt_graph) *graph = NULL;
        assert_true(build(cases[i][0], &images, &graph) != CLT_OK);
        if (!strstr(clt_error_text(), cases[i][1]))
            fail_msg("expected: %s\ngot:      %s", cases[i][1], clt_error_text());
        assert_null(strstr(clt_error_text(), "there is no loss"));
    }
}

/* Colour images with constants for each channel. If samples are mixed, a loss that can compares with both
 * classes. */
TEST(channels_and_mixtures)
{
    static const char net[] = "{\"type\":\"mlp\",\"outputs\":10}";
    static const char list[] = LAYERS("{\"op\":\"flatten\"},{\"op\":\"linear\",\"out\":10},{\"op\":\"%s\"}");
    clt_model_inputs colour = {.n_fields = 2,
                               .field = {{"x", CLT_U8, {3, {3, 4, 5}}, -1}, {"y", CLT_I32, {0, {0}}, 9}},
                               .scale = 0.5f,
                               .channels = 3,
                               .channel_mean = {0.25, 0.5, 1},
                               .channel_std = {1, 2, 4}};
    clt_graph *graph = good(net, &colour);
    const clt_node *cast = graph->nodes[0];
    assert_string_equal(cast->op->name, "cast");
    assert_int_equal(clt_node_attr(cast, "mean")->n_list, 3);
    assert_true(clt_node_attr(cast, "std")->number[2] > 3.9 && clt_node_attr(cast, "scale")->f > 0.49);
    clt_graph_destroy(graph);

    colour.n_fields = 4;
    colour.field[2] = (clt_model_field){"y2", CLT_I32, {0, {0}}, 9};
    colour.field[3] = (clt_model_field){"share", CLT_F32, {0, {0}}, -1};
    for (int i = 0; i < 3; i++) {
        char listed[512];
        const char *loss = i == 2 ? "mse" : "cross_entropy";
        snprintf(listed, sizeof listed, list, loss);
        clt_status status = build(i == 0 ? net : listed, &colour, &graph);
        bool can = clt_op_find(loss)->max_in >= 4;
        if (status != (can ? CLT_OK : CLT_ECONFIG))
            fail_msg("case %d: %s", i, clt_error_text());
        if (can)
            assert_int_equal(graph->nodes[graph->losses[0].node]->n_in, 4);
        else
            assert_non_null(strstr(clt_error_text(), "the data mixes samples"));
        clt_graph_destroy(graph);
    }
}

TEST(bad_models)
{
    for (size_t i = 0; i < sizeof bad_cases / sizeof bad_cases[0]; i++) {
        CLT_SCOPED(clt_graph) *graph = NULL;
        clt_status status = build(bad_cases[i].json, bad_cases[i].inputs, &graph);
        if (status != CLT_ECONFIG && status != CLT_ESHAPE)
            fail_msg("%s\nstatus %s: %s", bad_cases[i].json, clt_status_name(status), clt_error_text());
        if (!strstr(clt_error_text(), bad_cases[i].expected))
            fail_msg("%s\nexpected: %s\ngot:      %s", bad_cases[i].json, bad_cases[i].expected,
                     clt_error_text());
        if (strncmp(clt_error_text(), "net.json:1:", 11) != 0)
            fail_msg("%s\nhas no position: %s", bad_cases[i].json, clt_error_text());
    }
}

TEST(all_mistakes_at_once)
{
    CLT_SCOPED(clt_graph) *graph = NULL;
    assert_int_equal(build(LAYERS("{\"op\":\"liner\"},{\"op\":\"rely\"},{\"op\":\"mse\",\"name\":\"x\"}"),
                           &numbers, &graph),
                     CLT_ECONFIG);
    assert_non_null(strstr(clt_error_text(), "'linear'"));
    assert_non_null(strstr(clt_error_text(), "'relu'"));
    assert_non_null(strstr(clt_error_text(), "the name 'x' is taken"));
}
