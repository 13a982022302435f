/* SPDX-License-Identifier: Apache-2.0
 *
 * Predictions of a saved run compared with cltrain_predict of the library with the same weights: values of a
 * regression and probabilities of a classifier, for numbers of samples that are not multiples of the
 * micro-batch. */
#include "tests/unit/test.h"

#include <math.h>

#include "engine/cltrain.h"
#include "engine/files/fileio.h"
#include "engine/train/eval/predict.h"
#include "engine/train/loop/trainer.h"

#define SAMPLES 37
#define INPUTS 5

static void check(const char *name, const char *model, const char *data, int outputs, bool classes)
{
    char text[1024], config_path[128], folder[128], weights[1200];
    double x[SAMPLES * INPUTS];
    float x32[SAMPLES * INPUTS], got[SAMPLES * 4], want[SAMPLES * 4];
    clt_config *config;
    clt_run_result result;
    clt_saved_run *saved;
    clt_predictor *p;
    cltrain *net;
    snprintf(config_path, sizeof config_path, "test_predict-%s-%ld.json", name, (long)getpid());
    snprintf(folder, sizeof folder, "test_predict-%s-%ld", name, (long)getpid());
    snprintf(text, sizeof text,
             "{\"model\": %s, \"data\": {\"type\": \"synthetic\", \"samples\": 64, \"shape\": [5], "
             "\"micro_batch\": 8, %s}, \"train\": {\"steps\": 6}}",
             model, data);
    assert_ok(clt_file_write(config_path, text, strlen(text)));
    assert_ok(clt_config_load(config_path, NULL, 0, &config));
    const clt_run_options options = {.config = config, .out_dir = folder, .caps_mask = OCL_CAPS_ALL};
    if (clt_train(&options, &result) != CLT_OK)
        fail_msg("%s", clt_error_text());
    for (int i = 0; i < SAMPLES * INPUTS; i++) {
        x32[i] = (float)sin(i * 1.7);
        x[i] = (double)x32[i];
    }
    const clt_saved_run_options open = {.tensors = true};
    if (clt_saved_run_open(folder, &open, &saved) != CLT_OK || clt_predictor_open(saved, &p) != CLT_OK ||
        clt_predictor_start(p, NULL, OCL_CAPS_ALL, NULL) != CLT_OK ||
        clt_predictor_run(p, x, SAMPLES, 0, got) != CLT_OK)
        fail_msg("%s", clt_error_text());
    assert_int_equal(p->outputs, outputs);
    assert_int_equal(p->kind, classes ? CLT_PREDICT_CLASSES : CLT_PREDICT_VALUES);
    clt_predictor_close(p);
    clt_saved_run_close(saved);

    snprintf(weights, sizeof weights, "%s/model.safetensors", result.checkpoint);
    assert_int_equal(cltrain_create(&net), 0);
    if (cltrain_config(net, config_path) || cltrain_load(net, weights) ||
        cltrain_predict(net, SAMPLES, x32, want, (int64_t)SAMPLES * outputs))
        fail_msg("%s", cltrain_error());
    cltrain_destroy(net);
    for (int i = 0; i < SAMPLES; i++) {
        double sum = 0;
        for (int k = 0; k < outputs && classes; k++)
            sum += exp((double)want[i * outputs + k]);
        for (int k = 0; k < outputs; k++) {
            double value = (double)want[i * outputs + k];
            double expected = classes ? exp(value) / sum : value;
            assert_true(fabs((double)got[i * outputs + k] - expected) <= 1e-6);
        }
    }
    clt_config_destroy(config);
    remove(config_path);
    assert_ok(clt_remove_tree(folder));
}

TEST(test_regression)
{
    check("values", "{\"type\": \"mlp\", \"hidden\": [7], \"loss\": \"mse\"}",
          "\"classes\": 0, \"target_shape\": [3]", 3, false);
}

TEST(test_classifier)
{
    check("classes", "{\"type\": \"mlp\", \"hidden\": [7], \"dropout\": 0.5}", "\"classes\": 4", 4, true);
}

/* A table with words and blank cells: the library takes and gives numbers in the table's unit, as the command does. */
TEST(test_table)
{
    char text[2048] = "a,kind,y\n", table[64], config_path[64], folder[64], weights[1200];
    snprintf(table, sizeof table, "test_predict-table-%ld.csv", (long)getpid());
    snprintf(config_path, sizeof config_path, "test_predict-table-%ld.json", (long)getpid());
    snprintf(folder, sizeof folder, "test_predict-table-%ld", (long)getpid());
    for (int i = 0; i < 40; i++) {
        size_t used = strlen(text);
        if (i % 7 == 3)
            snprintf(text + used, sizeof text - used, ",%s,%d\n", i % 3 ? "red" : "blue", 1000 + 5 * i);
        else
            snprintf(text + used, sizeof text - used, "%d,%s,%d\n", 100 * i, i % 3 ? "red" : "blue",
                     1000 + 5 * i);
    }
    assert_ok(clt_file_write(table, text, strlen(text)));
    snprintf(
        text, sizeof text,
        "{\"model\": {\"type\": \"mlp\", \"hidden\": [8], \"loss\": \"mse\"}, \"data\": {\"type\": \"csv\", "
        "\"path\": \"%s\", \"target\": \"y\", \"micro_batch\": 8, \"split\": 0.25}, \"optimizer\": "
        "{\"learning_rate\": 0.02}, \"train\": {\"steps\": 40}}",
        table);
    assert_ok(clt_file_write(config_path, text, strlen(text)));
    clt_config *config;
    clt_run_result result;
    assert_ok(clt_config_load(config_path, NULL, 0, &config));
    const clt_run_options options = {.config = config, .out_dir = folder, .caps_mask = OCL_CAPS_ALL};
    if (clt_train(&options, &result) != CLT_OK)
        fail_msg("%s", clt_error_text());
    assert_int_equal(result.final_eval.values, 10);

    const double x[9] = {500, 1, 0, 2000, 0, 1, 3900, 0, 0}; /* a, blue, red */
    float x32[9], got[3], want[3];
    for (int i = 0; i < 9; i++)
        x32[i] = (float)x[i];
    const clt_saved_run_options open = {.tensors = true};
    clt_saved_run *saved;
    clt_predictor *p;
    if (clt_saved_run_open(folder, &open, &saved) != CLT_OK || clt_predictor_open(saved, &p) != CLT_OK ||
        clt_predictor_start(p, NULL, OCL_CAPS_ALL, NULL) != CLT_OK ||
        clt_predictor_run(p, x, 3, 0, got) != CLT_OK)
        fail_msg("%s", clt_error_text());
    clt_predictor_close(p);
    clt_saved_run_close(saved);

    cltrain *net;
    double mae, rmse, r2;
    snprintf(weights, sizeof weights, "%s/model.safetensors", result.checkpoint);
    assert_int_equal(cltrain_create(&net), 0);
    if (cltrain_config(net, config_path) || cltrain_load(net, weights) ||
        cltrain_predict(net, 3, x32, want, 3) || cltrain_evaluate_values(net, &mae, &rmse, &r2))
        fail_msg("%s", cltrain_error());
    cltrain_destroy(net);
    assert_true(mae == result.final_eval.mae && rmse == result.final_eval.rmse && r2 == result.final_eval.r2);
    assert_true(r2 > 0.5 && mae < 60 && mae > 0);
    for (int i = 0; i < 3; i++)
        assert_true(got[i] == want[i] && got[i] > 800 && got[i] < 1300);
    clt_config_destroy(config);
    remove(table);
    remove(config_path);
    assert_ok(clt_remove_tree(folder));
}

TEST_PROGRAM(.device = true);
