/* SPDX-License-Identifier: Apache-2.0
 *
 * ctest-labels: quick
 *
 * The errors of the public API (engine/cltrain.h): what each function refuses, with which code and message,
 * and that a net can be used, corrected or destroyed after each error. */
#include "tests/unit/test.h"

#include <math.h>

#include "cl/device/device.h"
#include "engine/cltrain.h"
#include "engine/files/fileio.h"

#define SAMPLES 12

enum { USAGE = 2, DATA = 3, NO_DEVICE = 4, SHAPE = 2, NOT_FINITE = 6, CHECKPOINT = 7, STORAGE = 8 };

static float inputs[SAMPLES * 2], targets[SAMPLES];
static int32_t labels[SAMPLES];
static const int64_t two[] = {2}, one[] = {1};

/* The call ends with this code, and its message has both words. */
static void expect(int got, int want, const char *word, const char *other)
{
    if (got != want)
        fail_msg("code %d instead of %d: %s", got, want, cltrain_error());
    if (!strstr(cltrain_error(), word) || !strstr(cltrain_error(), other))
        fail_msg("'%s' or '%s' is not in: %s", word, other, cltrain_error());
}

static void good(int got)
{
    if (got != 0)
        fail_msg("code %d: %s", got, cltrain_error());
}

static cltrain *new_net(void)
{
    cltrain *net = NULL;
    good(cltrain_create(&net));
    good(cltrain_set(net, "data.micro_batch", "4"));
    good(cltrain_set(net, "train.steps", "3"));
    return net;
}

/* A net of two layers that is not built yet; last: the layer of its loss. */
static cltrain *small_net(const char *last)
{
    cltrain *net = new_net();
    good(cltrain_layer(net, "{\"op\": \"linear\", \"name\": \"a\", \"out\": 3}"));
    good(cltrain_layer(net, last));
    return net;
}

static cltrain *classes_net(void)
{
    cltrain *net = small_net("{\"op\": \"cross_entropy\"}");
    good(cltrain_data_classes(net, SAMPLES, inputs, 1, two, labels));
    return net;
}

/* --- before a device is needed --- */

TEST(test_nothing_given)
{
    cltrain_destroy(NULL);
    assert_true(strlen(cltrain_version()) > 0);
    cltrain *net;
    good(cltrain_create(&net));
    expect(cltrain_build(net), USAGE, "add layers and data", "config");
    expect(cltrain_train(net, NULL, NULL), USAGE, "add layers and data", "config");
    expect(cltrain_evaluate(net, NULL, NULL), USAGE, "add layers and data", "config");
    expect(cltrain_predict(net, 1, inputs, targets, 1), USAGE, "add layers and data", "config");
    expect(cltrain_save(net, in_dir("none")), USAGE, "add layers and data", "config");
    expect(cltrain_load(net, in_dir("none")), USAGE, "add layers and data", "config");
    good(cltrain_layer(net, "{\"op\": \"relu\"}")); /* layers without data */
    expect(cltrain_build(net), USAGE, "add layers and data", "config");
    cltrain_destroy(net);
    good(cltrain_create(&net));
    good(cltrain_data_classes(net, SAMPLES, inputs, 1, two, labels)); /* data without layers */
    expect(cltrain_build(net), USAGE, "add layers and data", "config");
    cltrain_destroy(net);
}

TEST(test_layers)
{
    static const struct {
        const char *layer, *word, *other;
    } bad[] = {{"{\"op\": \"linear\", \"out\": 3", "layer:1:", ""}, /* no JSON */
               {"", "layer:1:", ""},
               {"{\"op\": \"relu\"}, {\"op\": \"relu\"}", "layer:1:", ""},
               {"{\"op\": \"relu\", \"op\": \"relu\"}", "layer:1:", "op"}};
    cltrain *net = new_net();
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        expect(cltrain_layer(net, bad[i].layer), USAGE, bad[i].word, bad[i].other);
    cltrain_destroy(net);
    /* The text is parsed as JSON only when the net is built. */
    static const struct {
        const char *layer, *word, *other;
    } wrong[] = {{"5", "layers", ""},
                 {"{\"out\": 3}", "layers", "op"},
                 {"{\"op\": \"lineer\", \"out\": 3}", "lineer", "linear"},
                 {"{\"op\": \"linear\", \"outs\": 3}", "outs", "out"},
                 {"{\"op\": \"linear\", \"out\": 0}", "out", ""},
                 {"{\"op\": \"linear\", \"out\": 3, \"inputs\": [\"z\"]}", "'z'", ""}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        net = new_net();
        good(cltrain_layer(net, wrong[i].layer));
        good(cltrain_layer(net, "{\"op\": \"cross_entropy\"}"));
        good(cltrain_data_classes(net, SAMPLES, inputs, 1, two, labels));
        int code = cltrain_build(net);
        if (code != USAGE && code != SHAPE)
            fail_msg("%s: code %d: %s", wrong[i].layer, code, cltrain_error());
        expect(code, code, wrong[i].word, wrong[i].other);
        cltrain_destroy(net);
    }
}

TEST(test_keys)
{
    static const struct {
        const char *key, *value, *word;
    } bad[] = {{"train.stps", "3", "train.steps"},
               {"train.steps", "three", "train.steps"},
               {"train.steps", "", "train.steps"},
               {"", "3", "="},
               {"optimizer.learning_rate", "-1", "optimizer.learning_rate"},
               {"optimizer.type", "adamv", "adamw"},
               {"data.micro_batch", "0", "data.micro_batch"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cltrain *net = classes_net();
        good(cltrain_set(net, bad[i].key, bad[i].value));
        expect(cltrain_build(net), USAGE, bad[i].word, "");
        cltrain_destroy(net);
    }
}

TEST(test_config_files)
{
    cltrain *net = new_net();
    good(cltrain_config(net, in_dir("missing.json")));
    expect(cltrain_build(net), USAGE, "missing.json", "No such file");
    put_text("broken.json", "{\"model\": {");
    good(cltrain_config(net, in_dir("broken.json"))); /* replaces the first config */
    expect(cltrain_build(net), USAGE, "broken.json:1:", "");
    put_text("wrong.json", "{\"model\": {\"type\": \"mlp\", \"hiden\": [3]},\n"
                           " \"data\": {\"type\": \"synthetic\", \"shape\": [2], \"classes\": 3}}");
    good(cltrain_config(net, in_dir("wrong.json")));
    expect(cltrain_build(net), USAGE, "model.hiden", "model.hidden");
    cltrain_destroy(net);
}

TEST(test_data)
{
    static const int64_t none[] = {0}, negative[] = {2, -1}, deep[] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    cltrain *net = small_net("{\"op\": \"cross_entropy\"}");
    expect(cltrain_data_classes(net, 0, inputs, 1, two, labels), DATA, "at least one sample", "");
    expect(cltrain_data_classes(net, -3, inputs, 1, two, labels), DATA, "at least one sample", "");
    expect(cltrain_data_classes(net, SAMPLES, NULL, 1, two, labels), DATA, "inputs", "");
    expect(cltrain_data_classes(net, SAMPLES, inputs, 1, two, NULL), DATA, "targets", "");
    expect(cltrain_data_values(net, SAMPLES, inputs, 1, two, NULL, 1, one), DATA, "targets", "");
    expect(cltrain_data_classes(net, SAMPLES, inputs, 1, NULL, labels), SHAPE, "x has 1 dimension", "");
    expect(cltrain_data_classes(net, SAMPLES, inputs, -1, two, labels), SHAPE, "x has -1 dimensions", "");
    expect(cltrain_data_classes(net, SAMPLES, inputs, 9, deep, labels), SHAPE, "x has 9 dimensions", "");
    expect(cltrain_data_classes(net, SAMPLES, inputs, 1, none, labels), SHAPE, "x: dimension 0 is 0", "");
    expect(cltrain_data_values(net, SAMPLES, inputs, 1, two, targets, 2, negative), SHAPE,
           "y: dimension 1 is -1", "");
    expect(cltrain_data_values(net, SAMPLES, inputs, 1, two, targets, 1, NULL), SHAPE, "y has 1 dimension",
           "");
    float spoilt[SAMPLES * 2];
    memcpy(spoilt, inputs, sizeof spoilt);
    spoilt[7] = NAN;
    expect(cltrain_data_classes(net, SAMPLES, spoilt, 1, two, labels), DATA, "'x' of sample 3", "not finite");
    spoilt[7] = 1;
    spoilt[SAMPLES - 1] = INFINITY;
    expect(cltrain_data_values(net, SAMPLES, inputs, 1, two, spoilt, 1, one), DATA, "'y' of sample 11",
           "not finite");
    expect(cltrain_build(net), USAGE, "add layers and data", ""); /* none of the calls added data */
    cltrain_destroy(net);
    /* Labels for which the net has no class. */
    int32_t high[SAMPLES] = {0};
    high[4] = 3;
    net = small_net("{\"op\": \"cross_entropy\"}");
    good(cltrain_data_classes(net, SAMPLES, inputs, 1, two, high));
    int code = cltrain_build(net);
    if (code == 0)
        fail_msg("a label of 3 passes for one of 3 classes");
    cltrain_destroy(net);
}

/* --- with a device --- */

TEST(test_too_late)
{
    cltrain *net = classes_net();
    good(cltrain_build(net));
    good(cltrain_build(net)); /* a second call does nothing */
    expect(cltrain_layer(net, "{\"op\": \"relu\"}"), USAGE, "adding a layer", "built already");
    expect(cltrain_set(net, "train.steps", "9"), USAGE, "setting a key", "built already");
    expect(cltrain_config(net, "x.json"), USAGE, "taking a config", "built already");
    expect(cltrain_data_classes(net, SAMPLES, inputs, 1, two, labels), USAGE, "giving data", "built already");
    expect(cltrain_data_values(net, SAMPLES, inputs, 1, two, targets, 1, one), USAGE, "giving data",
           "built already");
    cltrain_destroy(net);
}

TEST(test_no_device)
{
    cltrain *net = classes_net();
    good(cltrain_set(net, "device.spec", "no such device"));
    expect(cltrain_build(net), NO_DEVICE, "no such device", "");
    cltrain_destroy(net);
}

/* A refused layer or value can be corrected, and the same net is then built. */
TEST(test_put_right)
{
    cltrain *net = classes_net();
    good(cltrain_set(net, "device.spec", "no such device"));
    expect(cltrain_build(net), NO_DEVICE, "no such device", "");
    good(cltrain_set(net, "device.spec", ""));
    good(cltrain_build(net));
    cltrain_destroy(net);
    net = classes_net();
    good(cltrain_set(net, "train.steps", "never"));
    expect(cltrain_train(net, NULL, NULL), USAGE, "train.steps", "");
    good(cltrain_set(net, "train.steps", "2"));
    good(cltrain_train(net, NULL, NULL));
    cltrain_destroy(net);
}

static void count(void *context, const cltrain_step_info *info)
{
    assert_int_equal(info->step, ++*(int *)context);
    assert_int_equal(info->steps, 3);
}

TEST(test_training)
{
    int steps = 0;
    cltrain *net = classes_net();
    good(cltrain_train(net, count, &steps));
    assert_int_equal(steps, 3);
    expect(cltrain_train(net, count, &steps), USAGE, "all 3 steps of the schedule are done", "train.steps");
    assert_int_equal(steps, 3);
    good(cltrain_evaluate(net, NULL, NULL)); /* both results are optional, and a finished net still works */
    cltrain_destroy(net);
    /* Targets so large that no step is finite. */
    float huge[SAMPLES];
    for (int i = 0; i < SAMPLES; i++)
        huge[i] = 3e38f;
    net = small_net("{\"op\": \"mse\"}");
    good(cltrain_set(net, "train.max_nonfinite", "2"));
    int64_t three[] = {3};
    float wide[SAMPLES * 3];
    for (int i = 0; i < SAMPLES * 3; i++)
        wide[i] = huge[i / 3];
    good(cltrain_data_values(net, SAMPLES, inputs, 1, two, wide, 1, three));
    expect(cltrain_train(net, NULL, NULL), NOT_FINITE, "2 steps in a row were not finite",
           "first bad tensor: ");
    cltrain_destroy(net);
}

TEST(test_prediction)
{
    float out[SAMPLES * 3];
    cltrain *net = classes_net();
    good(cltrain_predict(net, SAMPLES, inputs, out, SAMPLES * 3));
    expect(cltrain_predict(net, SAMPLES, inputs, out, SAMPLES * 3 - 1), SHAPE, "3 floats per sample",
           "35 in all");
    expect(cltrain_predict(net, 0, inputs, out, 0), SHAPE, "predicting 0 samples", "");
    expect(cltrain_predict(net, -1, inputs, out, -3), SHAPE, "predicting -1 samples", "");
    expect(cltrain_predict(net, INT64_MAX / 3 + 1, inputs, out, 3), SHAPE, "3 floats per sample", "");
    cltrain_destroy(net);
}

/* A config whose data has no part for evaluation. */
TEST(test_no_evaluation_data)
{
    float out[3];
    put_text("x.raw", "0123456701234567012345670123456701234567012345670123456701234567");
    put_text("y.raw", "01234567012345670123456701234567");
    char text[512];
    (void)snprintf(
        text, sizeof text,
        "{\"model\": {\"type\": \"mlp\", \"hidden\": [3], \"outputs\": 1, \"loss\": \"mse\"},\n"
        " \"data\": {\"type\": \"raw\", \"path\": \"%s\", \"targets\": \"%s\", \"shape\": [2],\n"
        "          \"target_shape\": [1], \"split\": 0, \"micro_batch\": 4}, \"train\": {\"steps\": 1}}",
        in_dir("x.raw"), in_dir("y.raw"));
    put_text("plain.json", text);
    cltrain *net;
    good(cltrain_create(&net));
    good(cltrain_config(net, in_dir("plain.json")));
    expect(cltrain_evaluate(net, NULL, NULL), USAGE, "evaluating", "no evaluation data");
    expect(cltrain_predict(net, 1, inputs, out, 1), USAGE, "predicting", "no evaluation data");
    cltrain_destroy(net);
}

TEST(test_files)
{
    cltrain *net = classes_net();
    expect(cltrain_save(net, in_dir("no/such/folder/net.safetensors")), STORAGE, "no/such/folder", "");
    expect(cltrain_load(net, in_dir("missing.safetensors")), CHECKPOINT, "missing.safetensors", "");
    put_text("text.safetensors", "this is not a file of tensors");
    expect(cltrain_load(net, in_dir("text.safetensors")), CHECKPOINT, "text.safetensors", "");
    good(cltrain_save(net, in_dir("net.safetensors")));
    good(cltrain_load(net, in_dir("net.safetensors")));
    cltrain_destroy(net);
    /* The weights to start from; the seed would give others. */
    for (int good_path = 0; good_path < 2; good_path++) {
        CLT_FREED char *first = NULL, *again = NULL;
        size_t length, length_again;
        net = classes_net();
        good(cltrain_set(net, "train.seed", "7"));
        good(cltrain_set(net, "model.init", in_dir(good_path ? "net.safetensors" : "missing.safetensors")));
        if (!good_path)
            expect(cltrain_build(net), CHECKPOINT, "model.init", "missing.safetensors");
        else
            good(cltrain_save(net, in_dir("again.safetensors")));
        cltrain_destroy(net);
        if (!good_path)
            continue;
        assert_ok(clt_file_read(in_dir("net.safetensors"), false, 0, CLT_EDATA, &first, &length));
        assert_ok(clt_file_read(in_dir("again.safetensors"), false, 0, CLT_EDATA, &again, &length_again));
        assert_int_equal(length, length_again);
        assert_memory_equal(first, again, length);
    }
    /* Parameters of a net of another shape. */
    net = new_net();
    good(cltrain_layer(net, "{\"op\": \"linear\", \"name\": \"a\", \"out\": 5}"));
    good(cltrain_layer(net, "{\"op\": \"cross_entropy\"}"));
    good(cltrain_data_classes(net, SAMPLES, inputs, 1, two, labels));
    expect(cltrain_load(net, in_dir("net.safetensors")), CHECKPOINT, "a.weight", "");
    cltrain_destroy(net);
}

/* data.json of a table with the column a and the target y, 20 on average. */
static void put_facts(const char *mean)
{
    char text[1024];
    (void)snprintf(
        text, sizeof text,
        "{\"format\": \"cltrain-data\", \"format_version\": 1, \"type\": \"csv\", \"description\": \"\", "
        "\"samples\": 3, \"bytes\": 19, \"fields\": [{\"name\": \"x\", \"dtype\": \"f32\", \"shape\": [1], "
        "\"index\": false}, {\"name\": \"y\", \"dtype\": \"f32\", \"shape\": [], \"index\": false}], "
        "\"scale\": 1, \"mean\": 0, \"std\": 1, \"table\": {\"width\": 2, \"columns\": [{\"name\": \"a\", "
        "\"number\": 1, \"fill\": 2, \"mean\": %s, \"std\": 0.816496580927726}], \"target\": {\"name\": "
        "\"y\", "
        "\"number\": 2, \"mean\": 20, \"std\": 8.16496580927726}}}",
        mean);
    put_text("data.json", text);
}

/* Weights carry the unit of the table that they were trained on, if its data.json lies beside them. */
TEST(test_weights_of_a_table)
{
    char config[512];
    cltrain *net;
    put_text("t.csv", "a,y\n1,10\n2,20\n3,30\n");
    (void)snprintf(config, sizeof config,
                   "{\"model\": {\"type\": \"mlp\", \"hidden\": [], \"loss\": \"mse\"}, "
                   "\"data\": {\"type\": \"csv\", \"path\": \"%s\", \"split\": 0, \"micro_batch\": 3}, "
                   "\"train\": {\"steps\": 1}}",
                   in_dir("t.csv"));
    put_text("table.json", config);
    good(cltrain_create(&net));
    good(cltrain_config(net, in_dir("table.json")));
    good(cltrain_save(net, in_dir("table.safetensors")));
    good(cltrain_load(net, in_dir("table.safetensors")));
    put_facts("2");
    good(cltrain_load(net, in_dir("table.safetensors")));
    put_facts("2.5");
    expect(cltrain_load(net, in_dir("table.safetensors")), CHECKPOINT, "table.safetensors", "data.json");
    put_text("data.json", "{\"format\": \"of another program\"}");
    good(cltrain_load(net, in_dir("table.safetensors")));
    cltrain_destroy(net);
}

/* --- */

FIXTURE(set_up)
{
    for (int i = 0; i < SAMPLES; i++) {
        inputs[2 * i] = (float)(i % 5) - 2.0f;
        inputs[2 * i + 1] = (float)(i % 3) - 1.0f;
        targets[i] = (float)(i % 4);
        labels[i] = i % 3;
    }
    setenv("CLTRAIN_GEMM", "simple", 1); /* has the shortest start-up */
    return 0;
}

TEST_PROGRAM(.device = true, .set_up = set_up);
