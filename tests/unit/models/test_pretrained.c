/* SPDX-License-Identifier: Apache-2.0
 *
 * Folders of other programs' models as strangers may send them: config.json and the index of the weights with
 * every byte changed and truncated at every length, values of wrong types, and the effect of presets on a
 * config. Nothing crashes; everything is accepted or refused with a message. Needs no device.
 * ctest-labels: quick */
#include "tests/unit/test.h"

#include <math.h>

#include "engine/checkpoint/checkpoint.h"
#include "engine/files/fileio.h"
#include "engine/pretrained/pretrained.h"

#define GOLDEN CLT_TEST_SOURCE_DIR "/tests/golden/data/"

static char *read_golden(const char *name, size_t *size)
{
    char path[512], *text;
    snprintf(path, sizeof path, GOLDEN "%s", name);
    assert_ok(clt_file_read(path, false, 0, CLT_EDATA, &text, size));
    return text;
}

static void copy_golden(const char *folder, const char *name)
{
    char from[256];
    size_t size;
    snprintf(from, sizeof from, "%s/%s", folder, name);
    CLT_FREED char *text = read_golden(from, &size);
    put_file(name, text, size);
}

static const char few[] = "{\"data\": {\"type\": \"text\", \"path\": \"a.txt\"}}";

/* Reads the folder and makes a config with it; if that is refused there must be a message. */
static clt_status try_folder(void)
{
    clt_pretrained *p = NULL;
    clt_config *config = NULL;
    clt_str made = {0};
    clt_status status = clt_pretrained_open(test_folder(), &p);
    if (status == CLT_OK)
        assert_ok(clt_pretrained_config(p, &made));
    if (status == CLT_OK)
        status = clt_config_parse_over(few, "few.json", NULL, 0, clt_pretrained_presets(p, true), &config);
    if (status != CLT_OK)
        assert_true(strlen(clt_error_text()) > 10);
    clt_str_free(&made);
    clt_config_destroy(config);
    clt_pretrained_close(p);
    return status;
}

/* The output layer that is proposed for a classifier of texts, by problem_type and the number of labels. */
TEST(heads_of_classifiers)
{
    static const struct {
        const char *members, *want; /* NULL: no head is proposed */
    } cases[] = {
        {"\"num_labels\":3", "\"head\": \"class\""},
        {"\"num_labels\":1", "\"head\": \"number\""},
        {"\"num_labels\":1,\"problem_type\":\"regression\"", "\"head\": \"number\""},
        {"\"num_labels\":1,\"problem_type\":\"single_label_classification\"", "\"head\": \"class\""},
        {"\"num_labels\":4,\"problem_type\":\"regression\"", NULL},
        {"\"num_labels\":4,\"problem_type\":\"multi_label_classification\"", NULL},
    };
    copy_golden("hf_tied", "model.safetensors");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[600];
        CLT_SCOPED(clt_pretrained) *p = NULL;
        CLT_SCOPED(clt_str) made = {0};
        (void)snprintf(
            text, sizeof text,
            "{\"model_type\":\"bert\",\"architectures\":[\"BertForSequenceClassification\"],"
            "\"hidden_size\":8,\"num_hidden_layers\":1,\"num_attention_heads\":2,\"vocab_size\":16,%s}",
            cases[i].members);
        put_file("config.json", text, strlen(text));
        assert_ok(clt_pretrained_open(test_folder(), &p));
        assert_ok(clt_pretrained_config(p, &made));
        const char *want = cases[i].want ? cases[i].want : "\"head\":";
        if ((strstr(made.text, want) != NULL) != (cases[i].want != NULL))
            fail_msg("%s: %s", cases[i].members, made.text);
    }
}

/* The names of a classifier's classes: accepted ones, and refused ones with the reason. */
TEST(names_of_classes)
{
    static const struct {
        const char *members, *want; /* "!" precedes the text of a refusal */
    } cases[] = {
        {"\"id2label\":{\"1\":\"B-X\",\"0\":\"O\"},\"label2id\":{\"O\":0,\"B-X\":1}", "[\"O\",\"B-X\"]"},
        {"\"id2label\":{\"0\":\"a \\\"b\\\"\",\"1\":\"LABEL_1\"},\"label2id\":{\"LABEL_0\":0}",
         "[\"a \\\"b\\\"\",\"LABEL_1\"]"},
        {"\"id2label\":{\"0\":\"LABEL_0\",\"1\":\"LABEL_1\"}", NULL},
        {"\"id2label\":null,\"label2id\":null", NULL},
        {"\"id2label\":{}", NULL},
        {"\"id2label\":{\"0\":\"score\"},\"problem_type\":\"regression\"", NULL},
        {"\"id2label\":[\"a\"]", "!id2label: is not an object"},
        {"\"id2label\":{\"0\":\"a\",\"2\":\"b\"}", "!id2label: '2' is not the number of a class"},
        {"\"id2label\":{\"0\":\"a\",\"01\":\"b\"}", "!id2label: '01' is not the number of a class"},
        {"\"id2label\":{\"-1\":\"a\"}", "!id2label: '-1' is not the number of a class"},
        {"\"id2label\":{\"0\":\"a\",\"1.0\":\"b\"}", "!id2label: '1.0' is not the number of a class"},
        {"\"id2label\":{\"0\":\"a\",\"99999999999999999999999999\":\"b\"}", "!is not the number of a class"},
        {"\"id2label\":{\"0\":\"a\",\"one\":\"b\"}", "!id2label: 'one' is not the number of a class"},
        {"\"id2label\":{\"0\":\"a\",\"0\":\"b\"}", "!duplicate key \"0\""},
        {"\"id2label\":{\"0\":\"a\",\"1\":\"a\"}", "!id2label: 'a' names two classes"},
        {"\"id2label\":{\"0\":7}", "!id2label: '0' has no name"},
        {"\"id2label\":{\"0\":\"\"}", "!id2label: '0' has no name"},
        {"\"id2label\":{\"0\":\"a\",\"1\":\"b\"},\"label2id\":{\"b\":0}",
         "!label2id: 'b' has another number than in id2label"},
        {"\"id2label\":{\"0\":\"a\"},\"label2id\":{\"a\":\"0\"}", "!label2id: 'a' has no whole number"},
        {"\"id2label\":{\"0\":\"a\"},\"label2id\":[0]", "!label2id: is not an object"},
    };
    copy_golden("hf_tied", "model.safetensors");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[600];
        CLT_SCOPED(clt_pretrained) *p = NULL;
        CLT_SCOPED(clt_str) made = {0};
        CLT_SCOPED(clt_str) want = {0};
        const char *names = cases[i].want;
        (void)snprintf(
            text, sizeof text,
            "{\"model_type\":\"bert\",\"architectures\":[\"BertForTokenClassification\"],"
            "\"hidden_size\":8,\"num_hidden_layers\":1,\"num_attention_heads\":2,\"vocab_size\":16,%s}",
            cases[i].members);
        put_file("config.json", text, strlen(text));
        clt_status status = clt_pretrained_open(test_folder(), &p);
        if (names && names[0] == '!') {
            if (status == CLT_OK || !strstr(clt_error_text(), names + 1))
                fail_msg("%s: %s", cases[i].members, status == CLT_OK ? "is accepted" : clt_error_text());
            continue;
        }
        if (status != CLT_OK)
            fail_msg("%s: %s", cases[i].members, clt_error_text());
        assert_ok(clt_pretrained_config(p, &made));
        clt_str_printf(&want, "\"class_names\": %s", names ? names : "");
        if ((strstr(made.text, want.text) != NULL) != (names != NULL))
            fail_msg("%s: %s", cases[i].members, made.text);
        clt_pretrained_drop_names(p);
        const clt_config_presets *presets = clt_pretrained_presets(p, true);
        for (int k = 0; k < presets->count; k++)
            assert_string_not_equal(presets->items[k].key, "data.class_names");
    }
}

static void empty_dir(void)
{
    static const char *const names[] = {"config.json",
                                        "model.safetensors",
                                        "model.safetensors.index.json",
                                        "model-00001-of-00003.safetensors",
                                        "model-00002-of-00003.safetensors",
                                        "model-00003-of-00003.safetensors"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        (void)unlink(in_dir(names[i]));
}

/* Every byte changed, then every length. */
static void damage(const char *name, const char *text, size_t size, clt_status (*attempt)(void))
{
    CLT_FREED char *copy = malloc(size + 1);
    int accepted = 0, refused = 0;
    static const char other[] = "0\"{[x";
    assert_non_null(copy);
    for (size_t i = 0; i < size; i++) {
        memcpy(copy, text, size);
        copy[i] = other[i % 5];
        put_file(name, copy, size);
        *(attempt() == CLT_OK ? &accepted : &refused) += 1;
    }
    for (size_t n = 0; n + 2 < size; n += 7) {
        put_file(name, text, n);
        assert_int_not_equal(attempt(), CLT_OK);
    }
    put_file(name, text, size);
    assert_ok(attempt());
    assert_true(refused > 0 && accepted > 0);
}

TEST(test_config_damage)
{
    size_t size;
    CLT_FREED char *text = read_golden("hf_tied/config.json", &size);
    empty_dir();
    copy_golden("hf_tied", "model.safetensors");
    damage("config.json", text, size, try_folder);
}

static clt_status try_weights(void)
{
    CLT_SCOPED(clt_safetensors) *file = NULL;
    clt_status status = clt_weights_open(test_folder(), &file);
    if (status != CLT_OK)
        assert_true(strlen(clt_error_text()) > 10);
    return status;
}

TEST(test_index_damage)
{
    size_t size;
    CLT_FREED char *text = read_golden("hf_shards/model.safetensors.index.json", &size);
    empty_dir();
    copy_golden("hf_shards", "model-00001-of-00003.safetensors");
    copy_golden("hf_shards", "model-00002-of-00003.safetensors");
    copy_golden("hf_shards", "model-00003-of-00003.safetensors");
    damage("model.safetensors.index.json", text, size, try_weights);
}

static void expect_refusal(const char *json, clt_status want, const char *words)
{
    put_file("config.json", json, strlen(json));
    assert_int_equal(try_folder(), want);
    if (!strstr(clt_error_text(), words))
        fail_msg("'%s' is not in: %s", words, clt_error_text());
}

TEST(test_types)
{
    empty_dir();
    copy_golden("hf_tied", "model.safetensors");
    expect_refusal("[]", CLT_ECHECKPOINT, "not a JSON object");
    expect_refusal("{}", CLT_EUNSUPPORTED, "model_type is ''");
    expect_refusal("{\"model_type\": 7}", CLT_EUNSUPPORTED, "model_type is ''");
    expect_refusal("{\"model_type\": \"gpt2\", \"n_layer\": -1}", CLT_EUNSUPPORTED,
                   "n_layer: is not a whole number");
    expect_refusal("{\"model_type\": \"gpt2\", \"n_layer\": 100000}", CLT_EUNSUPPORTED,
                   "n_layer: is more than the weights have tensors");
    expect_refusal("{\"model_type\": \"gpt2\", \"n_layer\": 1e9}", CLT_EUNSUPPORTED, "n_layer: is not");
    expect_refusal("{\"model_type\": \"gpt2\", \"n_embd\": 99999999999}", CLT_EUNSUPPORTED, "n_embd: is not");
    expect_refusal("{\"model_type\": \"gpt2\", \"n_embd\": 7}", CLT_EUNSUPPORTED,
                   "n_embd: is not a multiple of n_head");
    expect_refusal("{\"model_type\": \"gpt2\", \"n_head\": {}}", CLT_EUNSUPPORTED, "n_head: is not");
    expect_refusal("{\"model_type\": \"gpt2\", \"resid_pdrop\": \"x\"}", CLT_EUNSUPPORTED,
                   "resid_pdrop: is not a number");
    expect_refusal("{\"model_type\": \"gpt2\", \"attn_pdrop\": 1}", CLT_EUNSUPPORTED, "below 1");
    expect_refusal("{\"model_type\": \"gpt2\", \"tie_word_embeddings\": 1}", CLT_EUNSUPPORTED,
                   "neither true nor false");
    expect_refusal("{\"model_type\": \"gpt2\", \"n_inner\": []}", CLT_EUNSUPPORTED, "n_inner");
    expect_refusal("{\"model_type\": \"gpt2\", \"auto_map\": {}}", CLT_EUNSUPPORTED, "auto_map");
    expect_refusal("{\"model_type\": \"gpt2\", \"quantization_config\": {}}", CLT_EUNSUPPORTED, "quantised");
    expect_refusal("{\"model_type\": \"gpt2\", \"pruned_heads\": {\"1\": [0]}}", CLT_EUNSUPPORTED,
                   "pruned_heads");
    expect_refusal("{\"model_type\": \"gpt2\", \"activation_function\": null}", CLT_EUNSUPPORTED,
                   "activation_function");
    expect_refusal("{\"model_type\": \"gpt2\", \"n_positions\": 30000000}", CLT_ECONFIG, "model.context");
    /* missing keys have the defaults of transformers; alternative names of keys are known */
    static const char sparse[] = "{\"model_type\": \"gpt2\", \"num_hidden_layers\": 2, \"n_head\": null}";
    put_file("config.json", sparse, strlen(sparse));
    assert_ok(try_folder());
}

/* The value of model.rope_attention for a folder whose config.json is `text` with these numbers added. */
static double yarn_factor(const char *text, const char *numbers)
{
    CLT_SCOPED(clt_str) changed = {0};
    CLT_SCOPED(clt_pretrained) *p = NULL;
    CLT_SCOPED(clt_config) *config = NULL;
    const char *rest = strstr(text, "\"beta_fast\"");
    assert_non_null(rest);
    clt_str_append_n(&changed, text, (size_t)(rest - text));
    clt_str_printf(&changed, "%s%s", numbers, rest);
    put_file("config.json", changed.text, changed.length);
    assert_ok(clt_pretrained_open(test_folder(), &p));
    assert_ok(clt_config_parse_over(few, "few.json", NULL, 0, clt_pretrained_presets(p, true), &config));
    return clt_config_float(config, "model.rope_attention");
}

/* The factor by which yarn multiplies queries and keys is given, follows from two other numbers, or is left
 * to cltrain (0). */
TEST(test_yarn_factor)
{
    CLT_FREED char *text = NULL;
    size_t size;
    empty_dir();
    copy_golden("hf_qwen3", "model.safetensors.index.json");
    copy_golden("hf_qwen3", "model-00001-of-00003.safetensors");
    copy_golden("hf_qwen3", "model-00002-of-00003.safetensors");
    copy_golden("hf_qwen3", "model-00003-of-00003.safetensors");
    assert_ok(clt_file_read(GOLDEN "hf_qwen3/config.json", false, 0, CLT_EDATA, &text, &size));
    assert_true(yarn_factor(text, "") == 0);
    assert_true(yarn_factor(text, "\"attention_factor\": 1.5,") == 1.5);
    double both = yarn_factor(text, "\"mscale\": 2.0, \"mscale_all_dim\": 0.5,");
    assert_true(fabs(both - (0.2 * log(4) + 1) / (0.05 * log(4) + 1)) < 1e-6);
    assert_true(yarn_factor(text, "\"mscale\": 2.0, \"mscale_all_dim\": 0.5, \"attention_factor\": 1.25,") ==
                1.25);
    assert_true(yarn_factor(text, "\"mscale\": 2.0,") == 0);
}

static const clt_config_preset items[] = {
    {"model.type", "\"mlp\"", "its type is mlp", CLT_PRESET_EQUAL, NULL},
    {"model.bias", "false", "it has no bias", CLT_PRESET_EQUAL, NULL},
    {"model.activation", "\"tanh\"", "tanh is used", CLT_PRESET_EQUAL, NULL},
    {"model.outputs", "7", "there are 7 classes", CLT_PRESET_AT_MOST, NULL},
    {"model.dropout", "0.25", "it was trained so", CLT_PRESET_DEFAULT, NULL},
    {"data.tokenizer", "\"folder\"", "it lies there", CLT_PRESET_DEFAULT, "text"},
};

static clt_status parse(const char *model, const char *data, clt_config **config)
{
    static const clt_config_presets presets = {"w.json", items, 6};
    char text[512];
    snprintf(text, sizeof text, "{\"model\": {%s}, \"data\": {%s}}", model, data);
    return clt_config_parse_over(text, "t.json", NULL, 0, &presets, config);
}

#define SYNTHETIC "\"type\": \"synthetic\", \"shape\": [3]"

TEST(test_presets)
{
    clt_config *c;
    assert_ok(parse("", SYNTHETIC, &c));
    assert_string_equal(clt_config_string(c, "model.type"), "mlp");
    assert_string_equal(clt_config_origin(c, "model.type"), "init");
    assert_int_equal(clt_config_int(c, "model.outputs"), 7);
    assert_string_equal(clt_config_string(c, "data.tokenizer"), "");
    assert_false(clt_config_bool(c, "model.bias"));
    clt_config_destroy(c);
    /* set again: to the same value, to another where that is allowed, to auto, and a default that is not
     * kept */
    assert_ok(parse(
        "\"type\": \"mlp\", \"bias\": false, \"outputs\": 5, \"activation\": \"auto\", \"dropout\": 0.5",
        SYNTHETIC, &c));
    assert_string_equal(clt_config_origin(c, "model.type"), "file");
    assert_int_equal(clt_config_int(c, "model.outputs"), 5);
    assert_string_equal(clt_config_string(c, "model.activation"), "tanh");
    assert_true(clt_config_float(c, "model.dropout") == 0.5);
    clt_config_destroy(c);
    assert_ok(parse("\"outputs\": 0", "\"type\": \"text\", \"path\": \"x\"", &c));
    assert_int_equal(clt_config_int(c, "model.outputs"), 7);
    assert_string_equal(clt_config_string(c, "data.tokenizer"), "folder");
    clt_config_destroy(c);
    assert_int_equal(parse("\"bias\": true, \"outputs\": 8, \"activation\": \"relu\"", SYNTHETIC, &c),
                     CLT_ECONFIG);
    static const char *const words[] = {"t.json:1:",
                                        "model.bias: true contradicts the weights: it has no bias",
                                        "model.outputs: 8 contradicts",
                                        "model.activation: relu contradicts",
                                        "'w.json'",
                                        "remove the key"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (!strstr(clt_error_text(), words[i]))
            fail_msg("'%s' is not in: %s", words[i], clt_error_text());
}

TEST(test_missing_preset)
{
    static const clt_config_preset ask = {"model.dropout", NULL, "there are three", CLT_PRESET_MISSING, NULL};
    static const clt_config_presets presets = {"w.json", &ask, 1};
    static const char text[] = "{\"model\": {\"type\": \"mlp\"%s}, \"data\": {" SYNTHETIC "}}";
    char full[256];
    CLT_SCOPED(clt_config) *c = NULL;
    snprintf(full, sizeof full, text, "");
    assert_int_equal(clt_config_parse_over(full, "t.json", NULL, 0, &presets, &c), CLT_ECONFIG);
    assert_non_null(strstr(clt_error_text(), "model.dropout: has to be given: there are three"));
    snprintf(full, sizeof full, text, ", \"dropout\": 0");
    assert_ok(clt_config_parse_over(full, "t.json", NULL, 0, &presets, &c));
}
