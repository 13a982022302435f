/* SPDX-License-Identifier: Apache-2.0
 *
 * ctest-labels: quick
 * Configs: defaults, getters, overrides, messages, rules between keys, printing, and several hundred
 * mutations of the shipped configs, all of which must be detected. Needs no device. */
#include "tests/unit/test.h"

#include "engine/config/choices.h"
#include "engine/config/config.h"
#include "engine/config/config_foreign.h"
#include "engine/files/fileio.h"

static const char *const shipped[] = {"mlp-mnist.json", "mlp-regression.json", "graph-residual.json",
                                      "mlp-text.json"};

static const char good[] =
    "{\n"
    "  \"model\": {\"type\": \"mlp\", \"hidden\": [64, 32], \"dropout\": 0.25},\n"
    "  \"data\": {\"type\": \"idx\", \"path\": \"a\", \"targets\": \"b\", \"micro_batch\": 16},\n"
    "  \"optimizer\": {\"type\": \"sgd\", \"momentum\": 0.9}\n"
    "}\n";

static char *read_shipped(const char *name)
{
    char path[1024], *text;
    size_t size;
    snprintf(path, sizeof path, "%s/configs/%s", CLT_TEST_SOURCE_DIR, name);
    assert_ok(clt_file_read(path, false, 0, CLT_ECONFIG, &text, &size));
    return text;
}

static clt_config *parse_ok(const char *text, const char *const *overrides, int count)
{
    clt_config *config = NULL;
    clt_status status = clt_config_parse(text, "t.json", overrides, count, &config);
    if (status != CLT_OK)
        print_message("%s\n", clt_error_text());
    assert_ok(status);
    return config;
}

/* Parses a text that must be refused; the message must contain `says` and must not contain `not`. */
static void refused_without(const char *text, const char *override, const char *says, const char * not )
{
    clt_config *config = NULL;
    assert_int_equal(clt_config_parse(text, "t.json", &override, 1, &config), CLT_ECONFIG);
    if (!strstr(clt_error_text(), says) || strstr(clt_error_text(), not ))
        fail_msg("message: %s", clt_error_text());
}

/* Parses a text that must be refused; the message must contain every text in the NULL-terminated list. */
static void refused(const char *text, const char *override, ...)
{
    clt_config *config = NULL;
    const char *const overrides[] = {override};
    clt_status status = clt_config_parse(text, "t.json", overrides, override ? 1 : 0, &config);
    assert_int_equal(status, CLT_ECONFIG);
    assert_null(config);
    va_list words;
    va_start(words, override);
    for (const char *word = va_arg(words, const char *); word; word = va_arg(words, const char *))
        if (!strstr(clt_error_text(), word)) {
            print_message("message: %s\n", clt_error_text());
            fail_msg("'%s' is missing in the message", word);
        }
    va_end(words);
}

static int problem_count(void)
{
    int count = 1;
    for (const char *c = clt_error_text(); *c; c++)
        count += *c == '\n';
    return count;
}

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
    refused(good, "resume=auto", "resume: unknown key; it is no key: use --resume auto", NULL);
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

/* What a user of another tool writes, and the line that the message suggests instead. */
TEST(test_other_tools)
{
    static const char *const overrides[][2] = {
        {"learning_rate=0.1", "write: optimizer.learning_rate=0.1"},
        {"optimizer.lr=0.1", "did you mean 'optimizer.learning_rate'? write: optimizer.learning_rate=0.1"},
        {"lr=3e-4", "write: optimizer.learning_rate=3e-4"},
        {"data.batch_size=16", "write: data.micro_batch=16"},
        {"train_batch_size=16", "write: data.global_batch=16"},
        {"micro_batch_size=4", "write: data.micro_batch=4"},
        {"train.gradient_accumulation_steps=4", "did you mean 'data.global_batch'?"},
        {"epochs=3", "write: train.epochs=3"},
        {"num_epochs=3", "write: train.epochs=3"},
        {"num_train_epochs=3", "write: train.epochs=3"},
        {"trainer.max_steps=30", "write: train.steps=30"},
        {"model.n_layer=4", "write: model.layers=4"},
        {"num_layers=4", "write: model.layers=4"},
        {"num_hidden_layers=4", "write: model.layers=4"},
        {"n_head=4", "write: model.heads=4"},
        {"num_attention_heads=4", "write: model.heads=4"},
        {"d_model=64", "write: model.channels=64"},
        {"model.n_embd=64", "write: model.channels=64"},
        {"hidden_size=64", "write: model.channels=64"},
        {"block_size=64", "write: model.context=64"},
        {"seq_len=64", "write: model.context=64"},
        {"max-seq-len=64", "write: model.context=64"},
        {"n_positions=64", "write: model.context=64"},
        {"vocab_size=64", "write: model.vocab=64"},
        {"dropout=0.1", "write: model.dropout=0.1"},
        {"train.dropout=0.1", "write: model.dropout=0.1"},
        {"weight_decay=0.1", "write: optimizer.weight_decay=0.1"},
        {"warmup_steps=10", "write: schedule.warmup=10"},
        {"max_grad_norm=1", "write: optimizer.clip=1"},
        {"grad_clip=1", "write: optimizer.clip=1"},
        {"seed=1", "write: train.seed=1"},
        {"fp16=true", "write: precision.mode=f16"},
        {"bf16=True", "write: precision.mode=bf16"},
        {"amp=true", "write: precision.mode=auto"},
        {"device=cuda", "write: device.spec=gpu"},
        {"output_dir=x", "--out DIR"},
        {"save_steps=100", "write: checkpoint.every=100"},
        {"eval_steps=100", "write: train.eval_every=100"},
        {"logging_steps=100", "write: train.log_every=100"},
        {"num_workers=2", "write: data.workers=2"},
        {"LR=0.1", "write: optimizer.learning_rate=0.1"},
        {"type=gpt", "a key needs its section; there are model.type, data.type"},
        {"optimizer.optim=adamw_torch", "write: optimizer.type=adamw"},
        {"optim=FusedAdam", "write: optimizer.type=adamw"},
        {"optim=lion_32bit", "write: optimizer.type=lion"},
        {"opt=larc", "write: optimizer.type=lars"},
        {"optimizer_type=FusedLAMB", "write: optimizer.type=lamb"},
        {"optim=torch.optim.Muon", "write: optimizer.type=muon"},
        {"ema_decay=0.999", "write: optimizer.ema=0.999"},
    };
    for (size_t i = 0; i < sizeof overrides / sizeof overrides[0]; i++)
        refused(good, overrides[i][0], overrides[i][1], NULL);
    /* the message does not repeat a value that our key would refuse, or one that a shell would change */
    refused(good, "lr=-1", "did you mean 'optimizer.learning_rate'?", NULL);
    assert_null(strstr(clt_error_text(), "write:"));
    refused(good, "data_dir=$(rm -rf x)", "did you mean 'data.path'?", NULL);
    assert_null(strstr(clt_error_text(), "write:"));
    refused("{\n\"learning_rate\": 0.1,\n\"device\": \"cuda\",\n\"training\": {\"epochs\": 3, "
            "\"num_train_epochs\": 4},\n"
            "\"model\": {\"type\": \"gpt\", \"n_layer\": 2, \"d_model\": \"wide\"}}",
            NULL, "t.json:2:", "write: \"optimizer\": {\"learning_rate\": 0.1}",
            "t.json:3:", "write: \"device\": {\"spec\": \"gpu\"}",
            "t.json:4:", "write: \"train\": {\"epochs\": 4}", "write: \"model\": {\"layers\": 2}",
            "did you mean 'model.channels'? (", NULL);
}

/* Every entry of the table names a key that exists, and none of our keys is treated as another tool's. */
TEST(test_other_tools_table)
{
    for (const clt_config_key *key = clt_config_schema(); key->path; key++) {
        const clt_foreign_key *other = clt_foreign_find(strchr(key->path, '.') + 1);
        assert_true(!other || !other->path || strcmp(other->path, key->path) == 0 ||
                    strcmp(other->name, "epochs") == 0);
    }
    char line[64], hint[256];
    clt_given_value longest = {line, false};
    memset(line, 'x', sizeof line - 1);
    line[sizeof line - 1] = '\0';
    assert_false(clt_foreign_line("train.steps", NULL, longest, hint, sizeof hint));
    assert_null(clt_foreign_find(""));
    assert_null(
        clt_foreign_find("a_name_that_is_longer_than_anything_in_the_table_and_then_some_more_of_it"));
    assert_true(clt_config_hint("batch-size", "8", hint, sizeof hint));
    assert_non_null(strstr(hint, "write: data.micro_batch=8"));
    assert_false(clt_config_hint("frobnicate", "8", hint, sizeof hint));
}

/* Every word of the table leads to a value that the key takes. */
TEST(test_other_tools_values)
{
    for (const clt_foreign_value *v = clt_foreign_values(); v->path; v++) {
        int index = clt_config_key_index(v->path);
        assert_true(index >= 0);
        assert_true(clt_config_has_word(clt_config_schema()[index].choices, v->ours));
        for (const char *word = v->words; *word; word += strcspn(word, "|"), word += *word == '|') {
            char override[160], wanted[160];
            snprintf(override, sizeof override, "%s=%.*s", v->path, (int)strcspn(word, "|"), word);
            snprintf(wanted, sizeof wanted, "did you mean '%s'?", v->ours);
            refused("{}", override, v->path, wanted, v->note ? v->note : v->path, NULL);
        }
    }
    refused("{}", "optimizer.type=adamW", "did you mean 'adamw'?", NULL);
    refused("{}", "optimizer.type=AdamW_Torch", "did you mean 'adamw'?", NULL);
    refused("{}", "model.type=Transformer", "did you mean 'gpt'?", NULL);
    refused("{}", "precision.mode=fp16", "did you mean 'f16'?", NULL);
    refused("{}", "schedule.type=CosineAnnealingLR", "did you mean 'cosine'?", NULL);
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
        parse_ok(good, found, 2); /* 24 is no multiple of the micro-batch that the file has */
    assert_int_equal(clt_config_int(automatic, "data.micro_batch"), -1);
    clt_config_destroy(automatic);
    const char *const none[] = {"data.split=0"};
    clt_config_destroy(parse_ok(good, none, 1)); /* true of data that is never split */
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
    /* a warm-up of the file gives way to a shorter training of the command line; one of the command line does
     * not */
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
                                 "schedule.decay_steps=200"}; /* warm-up and decay are all of it */
    w = parse_ok(warm, equal, 2);
    assert_int_equal(clt_config_int(w, "schedule.warmup"), 30);
    clt_config_destroy(w);
    /* the config that a run has kept: its warm-up has begun */
    static const char begun[] =
        "{\"model\": {\"type\": \"mlp\", \"hidden\": [4]}, \"train\": {\"steps\": 1000},\n"
        " \"data\": {\"type\": \"idx\", \"path\": \"a\", \"targets\": \"b\"}, \"_origin\": {},\n"
        " \"schedule\": {\"type\": \"cosine\", \"warmup\": 100}}";
    refused(begun, "train.steps=40", "must not be longer than the schedule", NULL);
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

/* For a choice the getter returns the position of its word, which is the value of the enumerator. */
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

/* --- mutations --- */

typedef struct mutation_stats {
    int made, typos, typos_right;
} mutation_stats;

/* One key of a config, as text places. */
typedef struct place {
    char section[64], key[64];
    size_t key_at, value_at, value_end; /* offsets: the key's first letter, the value */
} place;

static size_t offset_of(const char *text, int line, int column)
{
    const char *at = text;
    while (--line > 0)
        at = strchr(at, '\n') + 1;
    return (size_t)(at - text) + (size_t)column - 1;
}

static size_t value_length(const char *text)
{
    int depth = 0;
    const char *c = text;
    do {
        if (*c == '"') {
            for (c++; *c != '"'; c++)
                c += *c == '\\';
        }
        depth += (*c == '[' || *c == '{') - (*c == ']' || *c == '}');
        c++;
    } while (depth > 0 || (*c != ',' && *c != '}' && *c != '\n' && *c != ']'));
    return (size_t)(c - text);
}

static int find_places(const char *text, place *places, int limit)
{
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    int count = 0;
    assert_ok(clt_json_parse(text, strlen(text), "good", CLT_ECONFIG, &doc));
    for (const clt_json *s = clt_json_first(clt_json_root(doc)); s; s = clt_json_next(s))
        for (const clt_json *k = clt_json_first(s); k && count < limit; k = clt_json_next(k)) {
            place *p = &places[count++];
            char quoted[80];
            int line, column;
            snprintf(p->section, sizeof p->section, "%s", clt_json_key(s));
            snprintf(p->key, sizeof p->key, "%s", clt_json_key(k));
            clt_json_position(k, &line, &column);
            p->value_at = offset_of(text, line, column);
            p->value_end = p->value_at + value_length(text + p->value_at);
            snprintf(quoted, sizeof quoted, "\"%s\"", p->key);
            p->key_at = p->value_at;
            while (strncmp(text + p->key_at, quoted, strlen(quoted)) != 0)
                p->key_at--;
            p->key_at++;
        }
    return count;
}

/* text with [from, to) replaced. */
static char *splice(const char *text, size_t from, size_t to, const char *with)
{
    size_t n = strlen(text), w = strlen(with);
    char *out = malloc(n + w + 1);
    assert_non_null(out);
    memcpy(out, text, from);
    memcpy(out + from, with, w);
    memcpy(out + from + w, text + to, n - to + 1);
    return out;
}

/* The mutated text must be refused with a message that names a line of the file, or the key. Frees the text.
 */
static void must_refuse(char *text, const char *what, const char *key, mutation_stats *stats)
{
    clt_config *config = NULL;
    clt_status status = clt_config_parse(text, "m.json", NULL, 0, &config);
    stats->made++;
    if (status != CLT_ECONFIG)
        fail_msg("%s (%s) was not refused (status %d %s):\n%s", what, key, status,
                 status ? clt_error_text() : "", text);
    bool named = strstr(clt_error_text(), "m.json:") &&
                 (strstr(clt_error_text(), key) || atoi(strstr(clt_error_text(), "m.json:") + 7) > 0);
    if (!named)
        fail_msg("%s (%s): the message names neither key nor line: %s", what, key, clt_error_text());
    free(text);
}

static bool is_schema_key(const char *section, const char *key)
{
    char path[160];
    snprintf(path, sizeof path, "%s.%s", section, key);
    for (const clt_config_key *k = clt_config_schema(); k->path; k++)
        if (strcmp(k->path, path) == 0)
            return true;
    return false;
}

/* One-edit typos at every position of a key: lost, doubled, swapped and wrong letter. */
static void mutate_key(const char *text, const place *p, mutation_stats *stats)
{
    size_t n = strlen(p->key);
    for (size_t at = 0; at < n; at++)
        for (int kind = 0; kind < 4; kind++) {
            char typo[80];
            snprintf(typo, sizeof typo, "%s", p->key);
            if (kind == 0)
                memmove(typo + at, typo + at + 1, n - at);
            else if (kind == 1)
                memmove(typo + at + 1, typo + at, n - at + 1);
            else if (kind == 2)
                typo[at] = (char)('a' + (typo[at] + 7) % 26);
            else if (at + 1 < n) {
                char c = typo[at];
                typo[at] = typo[at + 1];
                typo[at + 1] = c;
            }
            if (strcmp(typo, p->key) == 0 || is_schema_key(p->section, typo))
                continue;
            char right[160];
            snprintf(right, sizeof right, "did you mean '%s.%s'?", p->section, p->key);
            must_refuse(splice(text, p->key_at, p->key_at + n, typo), "typo", typo, stats);
            stats->typos++;
            if (strstr(clt_error_text(), right))
                stats->typos_right++;
            else
                print_message("typo %s.%s: %s\n", p->section, typo, clt_error_text());
        }
}

static const clt_config_key *schema_key(const place *p)
{
    char path[160];
    snprintf(path, sizeof path, "%s.%s", p->section, p->key);
    for (const clt_config_key *k = clt_config_schema(); k->path; k++)
        if (strcmp(k->path, path) == 0)
            return k;
    fail_msg("%s is not in the schema", path);
    return NULL;
}

static void mutate_value(const char *text, const place *p, mutation_stats *stats)
{
    static const char *const wrong[] = {"null", "{}", "[[1]]", "[{\"a\": 1}, 2]", "[true]"};
    const clt_config_key *key = schema_key(p);
    for (size_t i = 0; i < 5; i++)
        must_refuse(splice(text, p->value_at, p->value_end, wrong[i]), "wrong type", p->key, stats);
    bool number = key->type == CLT_CFG_INT || key->type == CLT_CFG_FLOAT || key->type == CLT_CFG_AUTO_INT ||
                  key->type == CLT_CFG_FLOATS;
    bool word = key->type == CLT_CFG_STRING || key->type == CLT_CFG_CHOICE || key->type == CLT_CFG_STRINGS;
    must_refuse(splice(text, p->value_at, p->value_end, word ? "3" : "\"3\""), "wrong type", p->key, stats);
    if (number || key->type == CLT_CFG_INTS) {
        const char *list = key->type == CLT_CFG_INTS ? "[-5]" : "-1e300";
        must_refuse(splice(text, p->value_at, p->value_end, list), "out of range", p->key, stats);
        must_refuse(splice(text, p->value_at, p->value_end, "1e400"), "beyond a double", p->key, stats);
        must_refuse(splice(text, p->value_at, p->value_end, "99999999999999999999999999999999999"),
                    "too large", p->key, stats);
        must_refuse(splice(text, p->value_at, p->value_end, "NaN"), "NaN", p->key, stats);
    }
    if (key->type == CLT_CFG_CHOICE)
        must_refuse(splice(text, p->value_at, p->value_end, "\"nonsense\""), "no choice", p->key, stats);
    CLT_FREED char *value = calloc(1, p->value_end - p->value_at + 1);
    assert_non_null(value);
    memcpy(value, text + p->value_at, p->value_end - p->value_at);
    clt_str nested = {0}, twice = {0};
    clt_str_printf(&nested, "{\"%s\": %s}", p->key, value);
    clt_str_printf(&twice, "%s, \"%s\": %s", value, p->key, value);
    must_refuse(splice(text, p->value_at, p->value_end, nested.text), "extra nesting", p->key, stats);
    must_refuse(splice(text, p->value_at, p->value_end, twice.text), "duplicate key", p->key, stats);
    clt_str_free(&nested);
    clt_str_free(&twice);
}

static void mutate_document(const char *text, mutation_stats *stats)
{
    size_t n = strlen(text), last = n - 1;
    while (text[last] != '}')
        last--;
    for (int i = 0; i < 20; i++) { /* cut anywhere before the last brace */
        size_t at = last * (size_t)i / 20;
        must_refuse(splice(text, at, n, ""), "truncated", "", stats);
    }
    must_refuse(splice(text, last, last, ","), "trailing comma", "", stats);
    must_refuse(splice(text, last, last, ", \"modell\": {}"), "unknown section", "modell", stats);
    must_refuse(splice(text, last, last, ", \"\": {}"), "empty section", "", stats);
    must_refuse(splice(text, last, last, ", \"model\": {}"), "duplicate section", "model", stats);
    must_refuse(splice(text, n, n, "{}"), "trailing text", "", stats);
    must_refuse(splice(text, 0, 0, "\xef\xbb\xbf"), "byte order mark", "", stats);
    must_refuse(splice(text, 0, 0, "["), "open bracket", "", stats);
    must_refuse(splice(text, 1, 1, "/* no */"), "comment", "", stats);
    size_t inside = strcspn(text, "\"") + 1;
    must_refuse(splice(text, inside, inside, "\xff"), "bad UTF-8", "", stats);
    must_refuse(splice(text, inside, inside, "\xc0\x80"), "overlong UTF-8", "", stats);
    must_refuse(splice(text, inside, inside, "\xed\xa0\x80"), "surrogate", "", stats);
    must_refuse(splice(text, inside, inside, "\\u0000"), "NUL escape", "", stats);
    must_refuse(splice(text, inside, inside, "\n"), "line break in a key", "", stats);
}

/* A NUL byte can only be in a file: clt_config_parse takes a C string. */
static void mutate_file(const char *text, mutation_stats *stats)
{
    size_t n = strlen(text);
    for (int i = 0; i < 4; i++) {
        char path[] = "/tmp/clt_config_XXXXXX";
        int fd = mkstemp(path);
        assert_true(fd >= 0);
        FILE *file = fdopen(fd, "w");
        size_t at = n * (size_t)(2 * i + 1) / 8;
        fwrite(text, 1, at, file);
        fputc(0, file);
        fwrite(text + at, 1, n - at, file);
        fclose(file);
        clt_config *config = NULL;
        assert_int_equal(clt_config_load(path, NULL, 0, &config), CLT_ECONFIG);
        assert_non_null(strstr(clt_error_text(), path));
        stats->made++;
        remove(path);
    }
}

TEST(test_mutations)
{
    mutation_stats stats = {0};
    for (size_t i = 0; i < 4; i++) {
        place places[64];
        CLT_FREED char *text = read_shipped(shipped[i]);
        int count = find_places(text, places, 64);
        assert_true(count > 10);
        for (int p = 0; p < count; p++) {
            mutate_key(text, &places[p], &stats);
            mutate_value(text, &places[p], &stats);
        }
        mutate_document(text, &stats);
        mutate_file(text, &stats);
    }
    print_message("%d mutations refused; %d of %d typos got the right key\n", stats.made, stats.typos_right,
                  stats.typos);
    assert_true(stats.made >= 200);
    assert_true(stats.typos >= 200);
    assert_true(stats.typos_right * 100 >= stats.typos * 95);
}
