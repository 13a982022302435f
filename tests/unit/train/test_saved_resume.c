/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints of programs that saved neither config.json nor data.json are evaluated, resumed and extended
 * if their run folder has its config, with the same bits as new ones. Also: models with label smoothing,
 * several losses or a regression have no perplexity. ctest-labels: quick */
#include "engine/checkpoint/saved_run.h"
#include "tests/unit/train/checkpoint_save.h"
#include "tests/unit/train/train_test.h"

#define ROWS 24

static const char net[] =
    "{\"model\":{\"type\":\"mlp\",\"hidden\":[8]},\"data\":{\"type\":\"npy\",\"path\":\"%D/x.npy\","
    "\"targets\":\"%D/y.npy\",\"eval_path\":\"%D/x.npy\",\"eval_targets\":\"%D/few.npy\","
    "\"micro_batch\":4},\"train\":{\"steps\":5}}";

static void put_data(void)
{
    float x[ROWS * 3];
    int32_t y[ROWS], few[ROWS];
    fill_normal(x, ROWS * 3, 4);
    for (int i = 0; i < ROWS; i++) {
        y[i] = i % 5;
        few[i] = i % 2; /* the evaluation data lacks three classes */
    }
    put_npy("x.npy", "<f4", x, ROWS, 3);
    put_npy("y.npy", "<i4", y, ROWS, 0);
    put_npy("few.npy", "<i4", few, ROWS, 0);
}

/* Saves a run's newest checkpoint again without the texts that older programs did not write; `other_state`
 * replaces its state unless it is NULL. */
static void save_again(const char *run, const char *other_state)
{
    clt_checkpoint *saved;
    clt_str state = {0};
    char folder[64];
    must(clt_checkpoint_open(in_dir(run), &saved), "checkpoint");
    clt_json_writer w = clt_json_writer_make(&state, 0);
    clt_jw_value(&w, clt_json_root(saved->state));
    int n = clt_safetensors_count(saved->model), m = clt_safetensors_count(saved->optimizer);
    clt_checkpoint_content content = {.step = saved->step,
                                      .model = clt_safetensors_at(saved->model, 0),
                                      .n_model = n,
                                      .optimizer = clt_safetensors_at(saved->optimizer, 0),
                                      .n_optimizer = m,
                                      .state_json = other_state ? other_state : state.text,
                                      .config_json = "{}"};
    snprintf(folder, sizeof folder, "%s/checkpoints", run);
    must(save_checkpoint(in_dir(folder), &content, 0), "saving");
    clt_checkpoint_close(saved);
    clt_str_free(&state);
    snprintf(folder, sizeof folder, "%s/checkpoints/step_5/config.json", run);
    assert_false(clt_file_exists(in_dir(folder)));
}

static double evaluate(const char *run)
{
    CLT_SCOPED(clt_saved_run) *saved = NULL;
    clt_saved_run_options open = {.tensors = true};
    clt_eval_metrics m;
    must(clt_saved_run_open(in_dir(run), &open, &saved), run);
    clt_run_options options = {.config = saved->config, .saved = saved, .caps_mask = OCL_CAPS_ALL};
    must(clt_evaluate(&options, &m), run);
    assert_true(isnan(m.perplexity) && isnan(m.bits_per_byte)); /* a classifier */
    assert_int_equal(m.samples, ROWS);
    assert_int_equal(m.available, ROWS);
    return m.loss;
}

static clt_status go_on(const char *run, const char *steps, record *r, clt_run_result *result)
{
    char path[256];
    CLT_SCOPED(clt_config) *config = train_config(net);
    set(config, "train.steps", steps);
    snprintf(path, sizeof path, "%s", in_dir(run));
    clt_run_options options = {.config = config,
                               .out_dir = path,
                               .resume = "auto",
                               .caps_mask = OCL_CAPS_ALL,
                               .observer = {.context = r, .step = record_step, .message = record_message}};
    r->n = 0;
    r->messages[0] = '\0';
    clt_status status = clt_train(&options, result);
    return status;
}

/* Numbers that a stranger may have written. */
TEST(hostile_states_do_no_harm)
{
    clt_run_result result;
    record r = {0};
    put_data();
    clt_config *config = train_config(net);
    must(train_run(config, "hostile", NULL, &r, &result), "training");
    clt_config_destroy(config);
    save_again("hostile",
               "{\"step\": 5, \"samples\": 20, \"update\": 5, \"skipped\": 0, \"skipped_in_a_row\": 0, "
               "\"growth\": 0, \"best_eval_loss\": 1e300, \"best_step\": 1e300, \"loss_scale\": 1e300}");
    must(go_on("hostile", "7", &r, &result), "a best step that is none");
    save_again("hostile", "{\"step\": 9223372036854775807, \"samples\": 9223372036854775804}");
    assert_int_equal(go_on("hostile", "9", &r, &result), CLT_ECHECKPOINT);
    assert_non_null(strstr(clt_error_text(), "state.json has no valid 'samples'"));
}

TEST(older_checkpoints_are_evaluated_and_gone_on_with)
{
    clt_run_result result;
    record r = {0};
    put_data();
    clt_config *config = train_config(net);
    must(train_run(config, "new", NULL, &r, &result), "training");
    must(train_run(config, "old", NULL, &r, &result), "training");
    clt_config_destroy(config);
    save_again("old", NULL);
    assert_true(evaluate("new") == evaluate("old")); /* the classes come from data.json, or from the data */
    const char *runs[] = {"new", "old"};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(go_on(runs[i], "4", &r, &result), CLT_ECONFIG);
        assert_non_null(strstr(clt_error_text(), "cannot become shorter"));
        must(go_on(runs[i], "9", &r, &result), runs[i]);
        assert_non_null(strstr(r.messages, "the run was 5 steps long and is now 9"));
        assert_int_equal(result.steps, 9);
        assert_int_equal(r.n, 4);
    }
    assert_true(
        files_equal("new/checkpoints/step_9/model.safetensors", "old/checkpoints/step_9/model.safetensors"));
    assert_true(clt_file_exists(in_dir("old/checkpoints/step_9/data.json")));
    /* The training data is no longer needed to know the classes. */
    assert_int_equal(unlink(in_dir("y.npy")), 0);
    evaluate("new");
}

/* Old data that was moved cannot be recognised. */
TEST(older_checkpoints_know_their_data_by_path_alone)
{
    clt_run_result result;
    record r = {0};
    put_data();
    clt_config *config = train_config(net);
    must(train_run(config, "moved", NULL, &r, &result), "training");
    clt_config_destroy(config);
    save_again("moved", NULL);
    assert_int_equal(rename(in_dir("x.npy"), in_dir("z.npy")), 0);
    config = train_config(net);
    char path[256], value[300];
    snprintf(value, sizeof value, "[\"%s\"]", in_dir("z.npy"));
    set(config, "data.path", value);
    set(config, "data.eval_path", value);
    snprintf(path, sizeof path, "%s", in_dir("moved"));
    clt_run_options options = {
        .config = config, .out_dir = path, .resume = "auto", .caps_mask = OCL_CAPS_ALL};
    assert_int_equal(clt_train(&options, &result), CLT_ECONFIG);
    assert_non_null(strstr(clt_error_text(), "no fingerprint"));
    assert_non_null(strstr(clt_error_text(), "data.path: was"));
    clt_config_destroy(config);
}

static clt_eval_metrics last_eval(const char *text)
{
    clt_run_result result;
    record r = {0};
    clt_config *config = train_config(text);
    must(train_run(config, NULL, NULL, &r, &result), "training");
    clt_config_destroy(config);
    assert_true(r.n_evals > 0);
    return r.eval[r.n_evals - 1];
}

#define TEXT                                                                                                 \
    "\"data\":{\"type\":\"text\",\"path\":\"%D/"                                                             \
    "t.txt\",\"window\":4,\"micro_batch\":4},\"train\":{\"steps\":2}}"

TEST(only_plain_losses_over_tokens_have_a_perplexity)
{
    char letters[400];
    for (int i = 0; i < 400; i++)
        letters[i] = (char)('a' + i % 7);
    must(clt_file_write(in_dir("t.txt"), letters, sizeof letters), "text");
    clt_eval_metrics m =
        last_eval("{\"model\":{\"type\":\"mlp\",\"hidden\":[4],\"outputs\":256,\"embedding\":4}," TEXT);
    assert_close("perplexity", 0, m.perplexity, exp(m.loss), 1e-9 * exp(m.loss));
    assert_close("bits", 0, m.bits_per_byte, m.loss / log(2), 1e-9);
    m = last_eval("{\"model\":{\"type\":\"mlp\",\"hidden\":[4],\"outputs\":256,\"embedding\":4,"
                  "\"label_smoothing\":0.1}," TEXT);
    assert_true(isnan(m.perplexity) && isnan(m.bits_per_byte)); /* no sum of -log(probability) */
    m = last_eval(
        "{\"model\":{\"type\":\"mlp\",\"hidden\":[4],\"loss\":\"mse\",\"outputs\":1},\"data\":{\"type\":"
        "\"synthetic\",\"shape\":[3],\"classes\":0,\"samples\":16,\"micro_batch\":4},\"train\":{\"steps\":2}"
        "}");
    assert_true(isnan(m.perplexity) && isnan(m.bits_per_byte));
}

TEST_PROGRAM(.device = true);
