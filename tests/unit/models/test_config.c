/* SPDX-License-Identifier: Apache-2.0
 *
 * ctest-labels: quick
 * Configs: defaults, getters, overrides, messages, rules between keys and printing. test_config_mutations.c
 * damages shipped configs, test_config_other_tools.c has the words of other tools. Needs no device. */
#include "tests/unit/models/config_texts.h"

#include "engine/config/choices.h"
#include "engine/config/config_internal.h"

TEST(test_values)
{
    clt_config *c = parse_ok(good, NULL, 0);
    assert_string_equal(clt_config_string(c, "model.type"), "mlp");
    assert_int_equal(clt_config_list_count(c, "model.hidden"), 2);
    assert_int_equal(clt_config_list_int(c, "model.hidden", 1), 32);
    assert_true(clt_config_float(c, "model.dropout") == 0.25);
    assert_int_equal(clt_config_int(c, "data.micro_batch"), 16);
    assert_int_equal(clt_config_int(c, "data.workers"), -1);
    assert_int_equal(clt_config_list_count(c, "data.path"), 1);
    assert_string_equal(clt_config_list_string(c, "data.path", 0), "a");
    assert_true(clt_config_float(c, "optimizer.beta2") == 0.999);
    assert_true(clt_config_bool(c, "model.bias"));
    assert_int_equal(clt_config_int(c, "train.seed"), 1337);
    assert_string_equal(clt_config_string(c, "device.spec"), "");
    assert_string_equal(clt_config_origin(c, "data.micro_batch"), "file");
    assert_string_equal(clt_config_origin(c, "train.seed"), "default");
    assert_true(clt_config_is_set(c, "optimizer.momentum"));
    assert_false(clt_config_is_set(c, "optimizer.beta1"));
    clt_config_destroy(c);
    clt_config_destroy(NULL);
}

TEST(test_overrides)
{
    const char *const overrides[] = {
        "train.steps=7",   "data.path=[\"p\",\"q\"]",      "device.spec=0:0",
        "data.workers=3",  "optimizer.learning_rate=1e-4", "data.targets=12",
        "model.hidden=[]", "optimizer.nesterov=true",      "train.seed=9223372036854775807"};
    clt_config *c = parse_ok(good, overrides, 9);
    assert_int_equal(clt_config_int(c, "train.steps"), 7);
    assert_int_equal(clt_config_list_count(c, "data.path"), 2);
    assert_string_equal(clt_config_list_string(c, "data.path", 1), "q");
    assert_string_equal(clt_config_string(c, "device.spec"), "0:0");
    assert_int_equal(clt_config_int(c, "data.workers"), 3);
    assert_true(clt_config_float(c, "optimizer.learning_rate") == 1e-4);
    assert_string_equal(clt_config_string(c, "data.targets"), "12");
    assert_int_equal(clt_config_list_count(c, "model.hidden"), 0);
    assert_true(clt_config_int(c, "train.seed") == INT64_MAX);
    assert_string_equal(clt_config_origin(c, "train.steps"), "override");
    clt_config_destroy(c);
    refused(good, "optimizer.learning_rat=1", "override 'optimizer.learning_rat=1'",
            "did you mean 'optimizer.learning_rate'", NULL);
    refused(good, "optimiser.clip=1", "unknown section", "did you mean 'optimizer.clip'", NULL);
    refused(good, "train.steps=many", "train.steps", "expected an integer, got a string", NULL);
    refused(good, "train.steps=\"5\"", "expected an integer", "remove the quotes", NULL);
    const char *const bare[] = {"optimizer.learning_rate=.001", "optimizer.clip=2.", "train.steps=+5",
                                "data.micro_batch=007", "schedule.min_learning_rate=-.0e+2"};
    c = parse_ok(good, bare, 5);
    assert_true(clt_config_float(c, "optimizer.learning_rate") == 0.001);
    assert_true(clt_config_float(c, "optimizer.clip") == 2);
    assert_int_equal(clt_config_int(c, "train.steps"), 5);
    assert_int_equal(clt_config_int(c, "data.micro_batch"), 7);
    clt_config_destroy(c);
    refused(good, "train.steps=1.5", "1.5", NULL);
    refused(good, "train.steps=.", "expected an integer, got a string", NULL);
    refused(good, "optimizer.learning_rate=1-2", "expected a number, got a string", NULL);
    refused(good, "train=5", "train: it is a section; name a key of it, such as train.steps", NULL);
    refused(good, "weight-decay=0.1",
            "did you mean 'optimizer.weight_decay'? write: optimizer.weight_decay=0.1", NULL);
    refused(good, "resume=auto", "resume: unknown key; it is not a key: use --resume auto", NULL);
    refused_without(good, "train.steps=0x10", "expected an integer, got a string (\"0x10\")", "quotes");
    refused(good, "train.steps=-1", "-1 is out of range", "0 to", "steps", NULL);
    refused(good, "steps=1", "a key needs its section; did you mean 'train.steps'? write: train.steps=1",
            NULL);
    refused(good, "=1", "section.key=value", NULL);
    refused(good, "train.steps", "section.key=value", NULL);
    refused(good, "data.path=[\"a\"", "data.path", "not a JSON value", NULL);
    const char *const twice[] = {"train.steps=7", "train.steps=8"};
    assert_int_equal(clt_config_parse(good, "t.json", twice, 2, &c), CLT_ECONFIG);
    assert_non_null(strstr(clt_error_text(), "twice"));
    /* an override does not correct what is wrong in the file */
    refused("{\"model\": {\"type\": \"mlp\"}, \"data\": {\"type\": \"text\", \"path\": 3}}", "data.path=x",
            "t.json:1:", "data.path", NULL);
    /* ... but it supplies a missing key that is required */
    const char *const type[] = {"model.type=mlp"};
    c = parse_ok("{\"data\": {\"type\": \"synthetic\", \"shape\": [4]}}", type, 1);
    clt_config_destroy(c);
}

TEST(test_all_at_once)
{
    const char *text =
        "{\n"
        "  \"model\": {\"type\": \"mpl\", \"hiden\": [8], \"dropout\": 1},\n"
        "  \"data\": {\"type\": \"synthetic\", \"micro_batch\": \"16\", \"global_batch\": 1.5},\n"
        "  \"optimizer\": {\"learning_rate\": 0, \"nesterov\": \"yes\"},\n"
        "  \"trian\": {},\n"
        "  \"steps\": 100,\n"
        "  \"log\": []\n"
        "}\n";
    refused(text, NULL,
            "t.json:2:21: model.type: 'mpl' is not a valid value; valid: "
            "mlp|graph|gpt|llama|bert|resnet|cnn3d|unet3d; "
            "did you mean 'mlp'?",
            "t.json:2:37: model.hiden: unknown key; did you mean 'model.hidden'?",
            "t.json:2:53: model.dropout: 1 is out of range", "below 1",
            "data.micro_batch: expected an integer or \"auto\", got a string (\"16\"); remove the quotes",
            "data.global_batch: expected an integer, got 1.5",
            "t.json:4:34: optimizer.learning_rate: 0 is out of range; valid: above 0",
            "optimizer.nesterov: expected true or false, got a string",
            "t.json:5:12: trian: unknown section; did you mean 'train'?", "steps: a key needs its section",
            "train.steps", "t.json:7:10: log: expected an object", "t.json: data.shape: required", NULL);
    assert_int_equal(problem_count(), 11);
    /* positions are in ascending order */
    int last = 0;
    for (const char *line = clt_error_text(); line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, "t.json: ", 8) == 0)
            continue; /* something missing has no position */
        int at = atoi(line + strlen("t.json:"));
        assert_true(at >= last);
        last = at;
    }
}

TEST(test_many_problems)
{
    CLT_SCOPED(clt_str) text = {0};
    clt_str_append(&text, "{\"model\": {\"type\": \"mlp\"");
    for (int i = 0; i < 300; i++)
        clt_str_printf(&text, ",\n\"nonsense%d\": 1", i);
    clt_str_append(&text, "}, \"data\": {\"type\": \"synthetic\", \"shape\": [4]}}");
    refused(text.text, NULL, "t.json:2:", "nonsense0", "more problems", NULL);
    assert_true(strlen(clt_error_text()) < CLT_ERROR_TEXT_SIZE);
}

TEST(test_documents)
{
    refused("model:\n  type: mlp\n", NULL, "looks like YAML, which is not read", NULL);
    refused("---\n# of a model\nmodel:\n", NULL, "not JSON", "YAML", NULL);
    refused("[model]\ntype = \"mlp\"\n", NULL, "TOML", NULL);
    refused("learning_rate = 0.1\n", NULL, "TOML, INI or Python", NULL);
    refused("", NULL, "t.json:1:1", NULL);
    refused("[1]", NULL, "t.json:1:1", "object", NULL);
    refused("{}", NULL, "model.type: required", "data.type: required", NULL);
    refused("{\"model\": {\"type\": \"mlp\"}, // comment\n\"data\": {}}", NULL, "t.json:1:28", "comment",
            NULL);
    refused("{\"model\": {\"type\": \"mlp\", \"type\": \"mlp\"}, \"data\": {\"type\": \"synthetic\", "
            "\"shape\": [4]}}",
            NULL, "type", "t.json:1:", NULL);
    refused("{\"model\": {\"type\": \"mlp\"}, \"data\": {\"type\": \"synthetic\", \"shape\": null}}", NULL,
            "data.shape", "got null", NULL);
    refused("{\"model\": {\"type\": \"mlp\"}, \"data\": {\"type\": \"synthetic\", \"data.shape\": [1]}}",
            NULL, "unknown key", NULL);
    refused("{\"model\": {\"type\": \"mlp\", \"learning_rate\": 1}, \"data\": {\"type\": \"synthetic\", "
            "\"shape\": [4]}}",
            NULL, "model.learning_rate: unknown key; did you mean 'optimizer.learning_rate'?", NULL);
    clt_config *c = NULL;
    assert_int_equal(clt_config_load("/nonexistent/x.json", NULL, 0, &c), CLT_ECONFIG);
    assert_non_null(strstr(clt_error_text(), "/nonexistent/x.json"));
    assert_int_equal(clt_config_load("/", NULL, 0, &c), CLT_ECONFIG);
    assert_non_null(strstr(clt_error_text(), "folder"));
}

TEST(test_rules)
{
    refused(good, "data.global_batch=24", "data.global_batch", "multiple of data.micro_batch", NULL);
    refused(good, "schedule.min_learning_rate=1", "schedule.min_learning_rate", "optimizer.learning_rate",
            NULL);
    refused(good, "optimizer.type=adam", "optimizer.momentum", "only for optimizer.type sgd", NULL);
    refused(good, "model.type=graph", "model.layers: required", "model.dropout", NULL);
    refused(good, "model.layers=[{\"op\": \"relu\"}]", "model.layers", "only for model.type graph", NULL);
    refused(good, "model.layers=12", "model.layers", "only for model.type graph", NULL);
    refused(good, "data.type=synthetic", "data.path", "data.targets", NULL);
    refused(good, "data.type=raw", "data.shape: required", NULL);
    refused(good, "data.type=text", "data.targets", NULL);
    refused("{\"model\":{\"type\":\"mlp\"},\"data\":{\"type\":\"synthetic\"}}", NULL, "data.shape: required",
            NULL);
    refused(good, "data.targets=", "data.targets: required", NULL);
    refused(good, "data.path=[]", "data.path: required", NULL);
    refused(good, "data.path=[\"a\", \"\"]", "data.path", "empty string", NULL);
    refused(good, "data.eval_path=e", "data.eval_targets: required together", NULL);
    refused(good, "data.eval_targets=e", "data.eval_path: required together", NULL);
    refused(good, "data.split=0.2", "data.split: only for data.type csv, text, chat, annotated or nifti",
            NULL);
    refused(good, "train.early_stop_evals=2", "train.early_stop_evals", "set train.eval_every", NULL);
    refused(good, "checkpoint.best=[true]", "checkpoint.best", NULL);
    const char *const found[] = {"data.micro_batch=auto", "data.global_batch=24"};
    clt_config *automatic =
        parse_ok(good, found, 2); /* 24 is not a multiple of the micro-batch that the file has */
    assert_int_equal(clt_config_int(automatic, "data.micro_batch"), -1);
    clt_config_destroy(automatic);
    const char *const none[] = {"data.split=0"};
    clt_config_destroy(parse_ok(good, none, 1)); /* data.split 0 divides nothing */
    refused(good, "schedule.type=step", "schedule.step_every: required", NULL);
    refused(good, "precision.mode=bf8", "precision.mode", "bf16", NULL);
    refused(good, "precision.loss_scaling=dynamic", "precision.loss_scaling", "no loss scaling", NULL);
    refused(good, "parallel.tensor=2", "parallel.tensor", "unknown key", NULL);
    /* configs of earlier versions, with the only value that there was */
    static const char kept[] = "{\"model\": {\"type\": \"mlp\", \"hidden\": [64, 32]},\n"
                               " \"data\": {\"type\": \"idx\", \"path\": \"a\", \"targets\": \"b\"},\n"
                               " \"parallel\": {\"tensor\": 1}}";
    clt_config_destroy(parse_ok(kept, NULL, 0));
    refused(good, "model.label_smoothing=1", "below 1", NULL);
    const char *const mse[] = {"model.loss=mse", "model.label_smoothing=0.1"};
    clt_config *c = NULL;
    assert_int_equal(clt_config_parse(good, "t.json", mse, 2, &c), CLT_ECONFIG);
    assert_non_null(strstr(clt_error_text(), "model.label_smoothing: only for model.loss cross_entropy"));
    const char *const nesterov[] = {"optimizer.nesterov=true", "optimizer.momentum=0"};
    assert_int_equal(clt_config_parse(good, "t.json", nesterov, 2, &c), CLT_ECONFIG);
    assert_non_null(strstr(clt_error_text(), "needs optimizer.momentum"));
    /* a warm-up in the file is shortened for a shorter training given on the command line; a warm-up on the
     * command line is not */
    static const char warm[] =
        "{\"model\": {\"type\": \"mlp\", \"hidden\": [4]}, \"train\": {\"steps\": 1000},\n"
        " \"data\": {\"type\": \"idx\", \"path\": \"a\", \"targets\": \"b\"},\n"
        " \"schedule\": {\"type\": \"wsd\", \"warmup\": 100, \"decay_steps\": 200}}";
    const char *const shorter[] = {"train.steps=40"}, *const longer[] = {"train.steps=301"};
    clt_config *w = parse_ok(warm, shorter, 1);
    assert_int_equal(clt_config_int(w, "schedule.warmup"), 4);
    assert_int_equal(clt_config_int(w, "schedule.decay_steps"), 8);
    assert_string_equal(clt_config_origin(w, "schedule.warmup"), "override");
    clt_config_destroy(w);
    w = parse_ok(warm, longer, 1);
    assert_int_equal(clt_config_int(w, "schedule.warmup"), 100);
    clt_config_destroy(w);
    refused(warm, "schedule.warmup=900", "final decay together", NULL);
    const char *const equal[] = {"train.steps=300",
                                 "schedule.decay_steps=200"}; /* together exactly all steps */
    w = parse_ok(warm, equal, 2);
    assert_int_equal(clt_config_int(w, "schedule.warmup"), 30);
    clt_config_destroy(w);
    /* a kept config of a run, whose warm-up has begun */
    static const char begun[] =
        "{\"model\": {\"type\": \"mlp\", \"hidden\": [4]}, \"train\": {\"steps\": 1000},\n"
        " \"data\": {\"type\": \"idx\", \"path\": \"a\", \"targets\": \"b\"}, \"_origin\": {},\n"
        " \"schedule\": {\"type\": \"cosine\", \"warmup\": 100}}";
    refused(begun, "train.steps=40", "must not be longer than the schedule: it is 100, and train.steps is 40",
            NULL);
    const char *const long_warmup[] = {"train.steps=10", "schedule.warmup=11"};
    assert_int_equal(clt_config_parse(good, "t.json", long_warmup, 2, &c), CLT_ECONFIG);
    assert_non_null(strstr(clt_error_text(), "schedule.warmup"));
}

TEST(test_set)
{
    CLT_SCOPED(clt_config) *c = parse_ok(good, NULL, 0);
    assert_ok(clt_config_set(c, "train.steps", "50"));
    assert_int_equal(clt_config_int(c, "train.steps"), 50);
    assert_int_equal(clt_config_set(c, "train.steps", "\"x\""), CLT_ECONFIG);
    assert_int_equal(clt_config_int(c, "train.steps"), 50);
    assert_int_equal(clt_config_set(c, "train.stepz", "1"), CLT_ECONFIG);
    assert_non_null(strstr(clt_error_text(), "train.steps"));
    assert_int_equal(clt_config_set(c, "stepz", "1"), CLT_ECONFIG);
    assert_ok(clt_config_set(c, "model.hidden", "[5]"));
    assert_int_equal(clt_json_count(clt_json_get(clt_config_model(c, NULL), "hidden")), 1);
    assert_ok(clt_config_check(c));
    assert_ok(clt_config_set(c, "data.global_batch", "17"));
    assert_int_equal(clt_config_check(c), CLT_ECONFIG);
}

/* For a choice the getter returns the index of its word, which equals the enumerator. */
TEST(test_choices)
{
    static const struct {
        const char *given, *key;
        int choice;
    } cases[] = {{"schedule.type=constant", "schedule.type", CLT_SCHEDULE_CONSTANT},
                 {"schedule.type=wsd", "schedule.type", CLT_SCHEDULE_WSD},
                 {"precision.mode=f16", "precision.mode", CLT_PRECISION_F16},
                 {"precision.mode=bf16", "precision.mode", CLT_PRECISION_BF16},
                 {"precision.matmul=tf32", "precision.matmul", CLT_MATMUL_TF32},
                 {"train.recompute=block", "train.recompute", CLT_RECOMPUTE_BLOCK},
                 {"train.fuse=off", "train.fuse", CLT_FUSING_OFF},
                 {"optimizer.decay=all", "optimizer.decay", CLT_DECAY_ALL},
                 {"checkpoint.best=dice", "checkpoint.best", CLT_BEST_DICE},
                 {"checkpoint.best=entity_f1", "checkpoint.best", CLT_BEST_ENTITY_F1},
                 {"checkpoint.best=true", "checkpoint.best", CLT_BEST_LOSS}, /* as older configs have it */
                 {"checkpoint.best=false", "checkpoint.best", CLT_BEST_NONE}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CLT_SCOPED(clt_config) *c = parse_ok(good, &cases[i].given, 1);
        assert_int_equal(clt_config_choice(c, cases[i].key), cases[i].choice);
    }
    clt_config *c = parse_ok(good, NULL, 0);
    assert_int_equal(clt_config_choice(c, "precision.loss_scaling"), CLT_SCALING_AUTO);
    clt_config_destroy(c);
}

/* The builder's messages about layers must point into the user's file. */
TEST(test_layer_positions)
{
    static const char *const texts[] = {
        "{\"model\":{\"layers\":[{\"op\":\"relu\"},{\"op\":\"add\"}],\"type\":\"graph\"},\"data\":{\"type\":"
        "\"synthetic\",\"shape\":[4]}}",
        "{\n \"data\": {\"type\": \"synthetic\", \"shape\": [4]},\n \"model\": {\"type\": \"graph\",\n   "
        "\"layers\":\n    [{\"op\": \"relu ]\\\"\"},\n"
        "     {\"op\": \"add\"}]}\n}"};
    static const int line[] = {1, 6}, column[] = {35, 6};
    for (int t = 0; t < 2; t++) {
        CLT_SCOPED(clt_config) *c = parse_ok(texts[t], NULL, 0);
        const clt_json_doc *doc;
        const clt_json *layers = clt_json_get(clt_config_model(c, &doc), "layers");
        assert_int_equal(clt_json_count(layers), 2);
        int l, k;
        clt_json_position(clt_json_get(clt_config_model(c, NULL), "type"), &l, &k);
        assert_int_equal(l, t == 0 ? 1 : 3);
        assert_int_equal(k, t == 0 ? 56 : 20);
        clt_json_position(clt_json_next(clt_json_first(layers)), &l, &k);
        assert_int_equal(l, line[t]);
        assert_int_equal(k, column[t]);
        assert_string_equal(clt_json_source(doc), "t.json");
    }
    refused("{\"model\":{\"type\":\"graph\",\"layers\":[1,{\"name\":\"a\"},{\"op\":3}]},\"data\":{\"type\":"
            "\"synthetic\",\"shape\":[4]}}",
            NULL, "t.json:1:36: model.layers: expected a layer",
            "t.json:1:38: model.layers: layer 1 has no \"op\"", "got the number 3", NULL);
    const char *const layers[] = {"model.layers=[{\"op\":\"relu\"}]"};
    clt_config *c = parse_ok(
        "{\"model\":{\"type\":\"graph\"},\"data\":{\"type\":\"synthetic\",\"shape\":[4]}}", layers, 1);
    const clt_json_doc *doc;
    assert_non_null(clt_config_model(c, &doc));
    assert_non_null(strstr(clt_json_source(doc), "override"));
    clt_config_destroy(c);
}

/* A config that is printed, parsed and printed again gives the same text; the origins of values are
 * printed. */
TEST(test_print_round_trip)
{
    for (size_t i = 0; i < 4; i++) {
        CLT_FREED char *text = read_shipped(shipped[i]);
        clt_config *c = parse_ok(text, NULL, 0);
        clt_str first = {0}, with = {0}, second = {0};
        assert_ok(clt_config_print(c, false, &first));
        assert_ok(clt_config_print(c, true, &with));
        assert_non_null(strstr(with.text, "\"train.seed\": \""));
        clt_config *again = parse_ok(with.text, NULL, 0);
        assert_ok(clt_config_print(again, false, &second));
        assert_string_equal(first.text, second.text);
        clt_config_destroy(c);
        clt_config_destroy(again);
        clt_str_free(&first);
        clt_str_free(&with);
        clt_str_free(&second);
    }
}

TEST(all_keys_have_room_in_the_schema)
{
    assert_true(clt_config_schema_whole());
}

TEST(test_schema_prints)
{
    clt_str schema = {0}, page = {0};
    clt_json_doc *doc = NULL;
    assert_ok(clt_config_print_schema(&schema));
    assert_ok(clt_json_parse(schema.text, schema.length, "schema", CLT_ECONFIG, &doc));
    assert_ok(clt_config_print_markdown(&page));
    size_t count = 0;
    for (const clt_config_key *key = clt_config_schema(); key->path; key++, count++) {
        for (const clt_config_key *other = key + 1; other->path; other++)
            assert_string_not_equal(key->path, other->path);
        assert_non_null(strstr(page.text, key->path));
        assert_non_null(key->help);
        assert_non_null(key->unit);
    }
    assert_int_equal(clt_json_count(clt_json_get(clt_json_root(doc), "keys")), count);
    clt_json_destroy(doc);
    clt_str_free(&schema);
    /* docs/config.md is this page. */
    char *committed = NULL;
    size_t size = 0;
    assert_ok(clt_file_read(CLT_TEST_SOURCE_DIR "/docs/config.md", false, 0, CLT_ECONFIG, &committed, &size));
    assert_string_equal(committed, page.text);
    free(committed);
    clt_str_free(&page);
}
