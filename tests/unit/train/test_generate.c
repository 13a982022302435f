/* SPDX-License-Identifier: Apache-2.0
 *
 * Generation: the decode plan against the evaluation plan of the same parameters, the draw of a token as a
 * pure function, texts longer than the model's context, and the message if a checkpoint cannot continue a
 * text.
 * ctest-labels: quick ctest-cost: 16 */
#include "tests/unit/train/checkpoint_save.h"
#include "tests/unit/train/train_test.h"

#include "engine/train/generate/generate.h"

#define ROWS 2
#define LENGTH 7
#define VOCAB 50
#define DRAWS 4000

/* --- one token at a time compared with all at once --- */

static const char sequences[] =
    "{\"model\":{\"type\":\"gpt\",\"layers\":2,\"heads\":3,\"channels\":24,\"context\":7,\"vocab\":50,"
    "\"vocab_pad\":16},\"data\":{\"type\":\"npy\",\"path\":\"%D/x.npy\",\"targets\":\"%D/y.npy\","
    "\"micro_batch\":2},\"optimizer\":{\"type\":\"adamw\",\"learning_rate\":0.02},\"train\":{\"steps\":6}}";

static const char llama[] =
    "{\"model\":{\"type\":\"llama\",\"layers\":2,\"heads\":4,\"kv_heads\":2,\"channels\":24,\"context\":7,"
    "\"vocab\":50,\"vocab_pad\":16,\"inner\":40},\"data\":{\"type\":\"npy\",\"path\":\"%D/x.npy\","
    "\"targets\":\"%D/y.npy\",\"micro_batch\":2},\"optimizer\":{\"type\":\"adamw\",\"learning_rate\":0.02},"
    "\"train\":{\"steps\":6}}";

static void put_sequences(int32_t x[4 * LENGTH])
{
    int32_t y[4 * LENGTH];
    for (int i = 0; i < 4 * LENGTH; i++)
        x[i] = (i * 17 + i * i % 11) % VOCAB;
    for (int i = 0; i < 4 * LENGTH; i++)
        y[i] = (x[i] * 3 + 1) % VOCAB;
    put_npy("x.npy", "<i4", x, 4, LENGTH);
    put_npy("y.npy", "<i4", y, 4, LENGTH);
}

/* Logits of ROWS sequences by the evaluation plan; (ROWS, LENGTH, outputs), outputs at least VOCAB. */
static float *logits_at_once(const clt_config *config, const char *checkpoint, const int32_t *x, int *outputs)
{
    clt_run_options options = {
        .config = config, .caps_mask = OCL_CAPS_ALL, .on_train = true, .predicts = true};
    clt_run *run;
    must(clt_run_create(&options, CLT_JOB_EVAL, &run), "evaluation");
    must(clt_run_load_parameters(run, checkpoint), "parameters");
    const clt_graph *graph = run->job->eval->graph;
    const clt_shape *shape = &clt_graph_tensor(graph, run->job->prediction)->shape;
    *outputs = (int)clt_shape_last(shape);
    assert_true(*outputs >= VOCAB);
    assert_int_equal(clt_shape_rows(shape), ROWS * LENGTH);
    const char *names[] = {"x", "y"};
    for (int i = 0; i < 2; i++) {
        int32_t field = clt_graph_find_field(graph, names[i]);
        assert_int_equal(graph->fields[field].dtype, CLT_I32);
        must(clt_realized_write(run->eval, graph->fields[field].tensor, x), names[i]);
    }
    float *logits = malloc((size_t)(ROWS * LENGTH * *outputs) * sizeof *logits);
    assert_non_null(logits);
    must(clt_realized_run(run->eval, CLT_PHASE_FORWARD), "forward");
    must(clt_realized_read(run->eval, run->job->prediction, logits), "logits");
    clt_run_destroy(run);
    return logits;
}

static void expect_logits(const char *what, int row, int at, const float *got, const float *want)
{
    double largest = 0;
    for (int i = 0; i < VOCAB; i++)
        largest = fmax(largest, fabs((double)want[i]));
    assert_true(largest > 0.1); /* trained: not all zero */
    for (int i = 0; i < VOCAB; i++)
        if (!(fabs((double)got[i] - (double)want[i]) <= 1e-4 * largest))
            fail_msg("%s: sequence %d, position %d, token %d: decoded %.9g, evaluated %.9g", what, row, at, i,
                     (double)got[i], (double)want[i]);
}

static void compare_logits(const char *what, const clt_config *config, const char *run_name, const int32_t *x)
{
    int outputs;
    record r = {0};
    clt_run_result result;
    must(train_run(config, run_name, NULL, &r, &result), "training");
    float *want = logits_at_once(config, result.checkpoint, x, &outputs);
    clt_run_options options = {.config = config, .caps_mask = OCL_CAPS_ALL};
    CLT_SCOPED(clt_run) *run = NULL;
    must(clt_run_create(&options, CLT_JOB_DECODE, &run), "decoding");
    must(clt_run_load_parameters(run, result.checkpoint), "parameters");
    assert_int_equal(run->job->context, clt_config_int(config, "model.context"));
    float *got = malloc((size_t)outputs * sizeof *got);
    assert_non_null(got);
    /* The second sequence overwrites the first one's keys and values. */
    for (int row = 0; row < ROWS; row++)
        for (int at = 0; at < LENGTH; at++) {
            must(clt_decode_token(run, x[row * LENGTH + at], at, got), "token");
            expect_logits(what, row, at, got, want + (row * LENGTH + at) * outputs);
        }
    free(got);
    free(want);
}

static void decode_equals_evaluation(void **state)
{
    static const struct {
        const char *run, *net, *key[2], *value[2];
    } cases[] = {
        {"bias", sequences, {"model.bias", "model.dropout"}, {"true", "0.2"}}, /* dropout in training only */
        {"plain", sequences, {"model.bias", "model.activation"}, {"false", "\"gelu\""}},
        /* a context longer than the sequences of the data */
        {"longer", sequences, {"model.context", "model.tied"}, {"19", "false"}},
        {"llama", llama, {"model.attention_bias", "model.dropout"}, {"\"all\"", "0.2"}},
        {"qwen", llama, {"model.head_norm", "model.head_dim"}, {"true", "10"}},
        {"scaled", llama, {"model.rope_factor", "model.rope_scaling"}, {"4", "\"linear\""}},
        {"base", llama, {"model.rope_base", "model.tied"}, {"10000000", "false"}},
        {"window", llama, {"model.window", "model.window_from"}, {"3", "1"}}};
    int32_t x[4 * LENGTH];
    (void)state;
    put_sequences(x);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CLT_SCOPED(clt_config) *config = train_config(cases[i].net);
        for (int k = 0; k < 2; k++)
            set(config, cases[i].key[k], cases[i].value[k]);
        compare_logits(cases[i].run, config, cases[i].run, x);
    }
}

/* --- the draw --- */

static void count_draws(const float *logits, int n, const clt_sampling *s, int *counts)
{
    float scratch[16];
    memset(counts, 0, (size_t)n * sizeof *counts);
    for (int i = 0; i < DRAWS; i++) {
        int token = clt_sample(logits, n, s, (uint64_t)i, scratch);
        assert_in_range(token, 0, n - 1);
        counts[token]++;
    }
}

/* A count may differ from its expectation by five standard deviations. */
static void expect_count(const char *what, int token, int count, double p)
{
    double allowed = 5 * sqrt(DRAWS * p * (1 - p)) + 1e-9;
    if (!(fabs(count - DRAWS * p) <= allowed))
        fail_msg("%s: token %d was drawn %d times of %d, expected %.1f +- %.1f", what, token, count, DRAWS,
                 DRAWS * p, allowed);
}

/* Probabilities 0.4, 0.3, 0.2, 0.1 in another order, and the share of each token that a rule gives. */
static void draw_follows_the_rules(void **state)
{
    static const double p[4] = {0.2, 0.4, 0.1, 0.3};
    static const struct {
        const char *what;
        clt_sampling s;
        double share[4];
    } cases[] = {
        {"all", {1, 0, 1, 3, 0}, {0.2, 0.4, 0.1, 0.3}},
        {"top-k 4 of 4", {1, 4, 1, 3, 0}, {0.2, 0.4, 0.1, 0.3}},
        {"top-k 2", {1, 2, 1, 3, 0}, {0, 4.0 / 7, 0, 3.0 / 7}},
        {"top-k 1", {1, 1, 1, 3, 0}, {0, 1, 0, 0}},
        {"top-p 0.65", {1, 0, 0.65, 3, 0}, {0, 4.0 / 7, 0, 3.0 / 7}},
        {"top-p 0.8", {1, 0, 0.8, 3, 0}, {2.0 / 9, 4.0 / 9, 0, 3.0 / 9}},
        {"top-p tiny", {1, 0, 1e-6, 3, 0}, {0, 1, 0, 0}},
        /* top-p counts what top-k leaves: 4/7 alone reaches 0.5 */
        {"top-k 2 and top-p 0.5", {1, 2, 0.5, 3, 0}, {0, 1, 0, 0}},
        /* squares: 4, 16, 1, 9 of 30 */
        {"temperature 0.5", {0.5, 0, 1, 3, 0}, {4.0 / 30, 16.0 / 30, 1.0 / 30, 9.0 / 30}},
    };
    float logits[4];
    int counts[4];
    (void)state;
    for (int i = 0; i < 4; i++)
        logits[i] = (float)(log(p[i]) + 5);
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        count_draws(logits, 4, &cases[c].s, counts);
        for (int i = 0; i < 4; i++)
            expect_count(cases[c].what, i, counts[i], cases[c].share[i]);
    }
}

static void draw_at_the_edges(void **state)
{
    static const float extreme[5] = {-1e30f, 88.0f, -INFINITY, 1e4f, 1e4f - 200};
    static const clt_sampling zero = {0, 0, 1, 1, 0}, warm = {1, 0, 1, 1, 0}, cold = {1e-3, 3, 0.9, 1, 0};
    float scratch[5], one = -3;
    (void)state;
    for (uint64_t i = 0; i < 50; i++) {
        assert_int_equal(clt_sample(extreme, 5, &zero, i, scratch), 3);
        assert_int_equal(clt_sample(extreme, 5, &warm, i, scratch), 3);
        assert_int_equal(clt_sample(extreme, 5, &cold, i, scratch), 3);
        assert_int_equal(clt_sample(&one, 1, &warm, i, scratch), 0);
    }
}

static void draw_is_repeatable(void **state)
{
    static const float logits[8] = {0};
    float scratch[8];
    int same_seed = 0, other_seed = 0, other_text = 0;
    (void)state;
    for (uint64_t i = 0; i < 400; i++) {
        clt_sampling a = {1, 0, 1, 7, 0}, b = {1, 0, 1, 8, 0}, c = {1, 0, 1, 7, 1};
        int token = clt_sample(logits, 8, &a, i, scratch);
        same_seed += token == clt_sample(logits, 8, &a, i, scratch);
        other_seed += token == clt_sample(logits, 8, &b, i, scratch);
        other_text += token == clt_sample(logits, 8, &c, i, scratch);
    }
    assert_int_equal(same_seed, 400);
    assert_in_range(other_seed, 20, 100); /* by chance 50 */
    assert_in_range(other_text, 20, 100);
}

/* --- whole texts --- */

#define CONTEXT 8

static const char letters[] =
    "{\"model\":{\"type\":\"gpt\",\"layers\":1,\"heads\":2,\"channels\":16,\"context\":8},"
    "\"data\":{\"type\":\"text\",\"path\":\"%D/a.txt\",\"micro_batch\":4},\"optimizer\":{\"type\":\"adamw\","
    "\"learning_rate\":0.02},\"train\":{\"steps\":12}}";

static void train_letters(const char *run, clt_run_result *result)
{
    char text[2001];
    record r = {0};
    for (int i = 0; i < 2000; i++)
        text[i] = (char)('a' + i % 7 + i / 7 % 3);
    text[2000] = '\0';
    put_text("a.txt", text);
    CLT_SCOPED(clt_config) *config = train_config(letters);
    must(train_run(config, run, NULL, &r, result), "training");
}

static void keep_text(void *context, const char *bytes, size_t count)
{
    clt_str_append_n(context, bytes, count);
}

static clt_status continue_text(const char *checkpoint, const char *prompt, double temperature, uint64_t seed,
                                clt_str *text, clt_generate_result *made)
{
    clt_generate_options options = {.checkpoint = checkpoint,
                                    .prompt = prompt,
                                    .max_new = 5 * CONTEXT,
                                    .sampling = {temperature, 0, 1, seed},
                                    .caps_mask = OCL_CAPS_ALL,
                                    .text = keep_text,
                                    .context = text};
    clt_error_clear();
    return clt_generate(&options, made);
}

static void expect_equal(const clt_str *a, const clt_str *b, bool equal)
{
    bool found = a->length == b->length && memcmp(a->text, b->text, a->length) == 0;
    assert_int_equal(found, equal);
}

static int different_bytes(const clt_str *text)
{
    bool seen[256] = {false};
    int count = 0;
    for (size_t i = 0; i < text->length; i++) {
        count += !seen[(uint8_t)text->text[i]];
        seen[(uint8_t)text->text[i]] = true;
    }
    return count;
}

/* A text five times as long as the context; a prompt longer than the context gives the same text as its end
 * alone. */
static void text_goes_on_beyond_the_context(void **state)
{
    clt_run_result result;
    clt_generate_result made;
    clt_str whole = {0}, tail = {0}, other = {0}, hot = {0}, empty = {0};
    (void)state;
    train_letters("letters", &result);
    must(continue_text(result.checkpoint, "gabcabcdbcde", 1, 5, &whole, &made), "a long prompt");
    assert_int_equal(made.prompt_tokens, 12);
    assert_int_equal(made.new_tokens, 5 * CONTEXT);
    assert_int_equal(whole.length, 5 * CONTEXT);
    must(continue_text(result.checkpoint, "abcdbcde", 1, 5, &tail, &made), "its end");
    expect_equal(&whole, &tail, true);
    must(continue_text(in_dir("letters"), "abcdbcde", 1, 6, &other, &made), "another seed");
    expect_equal(&other, &tail, false);
    must(continue_text(result.checkpoint, "abcdbcde", 100, 5, &hot, &made), "a high temperature");
    assert_in_range(different_bytes(&hot), 20,
                    5 * CONTEXT); /* of 256 byte values: each draw is independent */
    must(continue_text(result.checkpoint, "", 0, 5, &empty, &made), "no prompt");
    assert_int_equal(made.prompt_tokens, 1);
    assert_int_equal(empty.length, 5 * CONTEXT);
    clt_str_free(&whole);
    clt_str_free(&tail);
    clt_str_free(&other);
    clt_str_free(&hot);
    clt_str_free(&empty);
}

static void expect_refusal(const char *what, const char *checkpoint, clt_status want, const char *message)
{
    CLT_SCOPED(clt_str) text = {0};
    clt_generate_result made;
    clt_status status = continue_text(checkpoint, "abc", 1, 1, &text, &made);
    if (status != want || !strstr(clt_error_text(), message))
        fail_msg("%s: %s, expected %s with '%s'; it says: %s", what, clt_status_name(status),
                 clt_status_name(want), message, clt_error_text());
    assert_int_equal(text.length, 0);
}

/* A checkpoint of an older program: saved again with neither config.json nor data.json; the run's config is
 * the one beside it. */
static void make_old(const char *run, int64_t step, const char *text)
{
    char name[64];
    clt_checkpoint *saved;
    CLT_SCOPED(clt_config) *config = train_config(text);
    clt_str printed = {0}, state = {0};
    must(clt_config_print(config, true, &printed), "config");
    snprintf(name, sizeof name, "%s/config.resolved.json", run);
    put_text(name, printed.text);
    must(clt_checkpoint_open(in_dir(run), &saved), "checkpoint");
    clt_json_writer w = clt_json_writer_make(&state, 0);
    clt_jw_value(&w, clt_json_root(saved->state));
    clt_checkpoint_content content = {.step = step,
                                      .model = clt_safetensors_at(saved->model, 0),
                                      .n_model = clt_safetensors_count(saved->model),
                                      .state_json = state.text,
                                      .config_json = printed.text};
    snprintf(name, sizeof name, "%s/checkpoints", run);
    must(save_checkpoint(in_dir(name), &content, 1), "saving");
    clt_checkpoint_close(saved);
    clt_str_free(&printed);
    clt_str_free(&state);
}

static void refusals_say_why(void **state)
{
    static const char net[] =
        "{\"model\":{\"type\":\"mlp\",\"hidden\":[4],\"outputs\":1,\"loss\":\"mse\"},"
        "\"data\":{\"type\":\"synthetic\",\"samples\":8,\"shape\":[3],\"target_shape\":[1],"
        "\"classes\":0,\"micro_batch\":4},\"train\":{\"steps\":1}}";
    clt_run_result result;
    record r = {0};
    int32_t x[4 * LENGTH];
    (void)state;
    expect_refusal("no folder", in_dir("nothing"), CLT_ECHECKPOINT, "nothing");

    put_sequences(x);
    clt_config *config = train_config(sequences);
    must(train_run(config, "numbers", NULL, &r, &result), "training");
    clt_config_destroy(config);
    expect_refusal("tokens without a tokenizer", in_dir("numbers"), CLT_EDATA,
                   "tokens without a tokenizer; name one with --tokenizer");
    put_text("a.txt", "abcdefghijklmnopqrstuvwxyz");
    make_old("numbers", 7, letters);
    expect_refusal("bytes for a model of 50 tokens", in_dir("numbers"), CLT_EDATA,
                   "has tokens that the model (50) lacks: 2 (50)");

    config = train_config(net);
    must(train_run(config, "net", NULL, &r, &result), "training");
    clt_config_destroy(config);
    expect_refusal("an mlp of numbers", in_dir("net"), CLT_EUNSUPPORTED, "trained an mlp on synthetic data");
    make_old("net", 2, letters);
    expect_refusal("a gpt's config beside an mlp", in_dir("net"), CLT_ECHECKPOINT, "wte.weight");
    must(clt_remove_tree(in_dir("net/config.resolved.json")), "removing the config");
    expect_refusal("no config", in_dir("net"), CLT_ECHECKPOINT, "config.resolved.json");
}

int main(void)
{
    const struct CMUnitTest pure[] = {cmocka_unit_test(draw_follows_the_rules),
                                      cmocka_unit_test(draw_at_the_edges),
                                      cmocka_unit_test(draw_is_repeatable)};
    const struct CMUnitTest device[] = {cmocka_unit_test(decode_equals_evaluation),
                                        cmocka_unit_test(text_goes_on_beyond_the_context),
                                        cmocka_unit_test(refusals_say_why)};
    int failed = cmocka_run_group_tests(pure, NULL, NULL);
    if (failed || !test_has_device())
        return failed ? failed : TEST_SKIPPED;
    return cmocka_run_group_tests(device, NULL, NULL);
}
