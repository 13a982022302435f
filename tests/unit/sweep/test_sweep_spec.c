/* SPDX-License-Identifier: Apache-2.0
 *
 * ctest-labels: quick
 *
 * sweep.json: what is refused, with which words; the lists of trials, which must be the same for every worker
 * and every version; the rungs of halving and who goes on. */
#include "tests/unit/test.h"

#include <math.h>
#include <stdlib.h>

#include "engine/files/fileio.h"
#include "engine/report/read/run_cost.h"
#include "engine/sweep/sweep_internal.h"

TEST_PROGRAM(.fresh_folder = true);

#define CONFIG                                                                                               \
    "{\"model\":{\"type\":\"mlp\",\"hidden\":[16]},\"data\":{\"type\":\"synthetic\",\"samples\":500,"        \
    "\"shape\":[8],\"classes\":5,\"micro_batch\":8},\"train\":{\"steps\":100}}"

static char *with_text(const char *format, const char *word)
{
    char *text;
    assert_true(asprintf(&text, format, word) > 0);
    return text;
}

/* Reads a sweep of the members `text` over the config above. */
static clt_status load(const char *text, clt_sweep **out)
{
    CLT_SCOPED(clt_str) whole = {0};
    put_text("c.json", CONFIG);
    clt_str_printf(&whole, "{\"config\": \"%s\", %s}", in_dir("c.json"), text);
    assert_ok(clt_str_check(&whole));
    return clt_sweep_load(put_text("s.json", whole.text), NULL, out);
}

static void refused(const char *text, const char *words)
{
    clt_sweep *sweep;
    assert_int_equal(load(text, &sweep), CLT_ECONFIG);
    assert_null(sweep);
    assert_contains(clt_error_text(), words);
    assert_contains(clt_error_text(), "s.json");
}

#define RATES "\"keys\": {\"optimizer.learning_rate\": {\"values\": [0.001, 0.01]}}"

static double end_seconds(const char *set, const char *keys, int trial)
{
    CLT_SCOPED(clt_sweep) *sweep = NULL;
    CLT_SCOPED(clt_str) text = {0};
    clt_str_printf(&text, "\"set\": {%s}, \"keys\": {%s}", set, keys);
    assert_ok(load(text.text, &sweep));
    return clt_sweep_end_seconds(sweep, trial);
}

TEST(the_end_of_a_training_takes_what_its_trial_says)
{
    const char *rates = "\"optimizer.learning_rate\": {\"values\": [0.001, 0.01]}";
    const char *limits = "\"checkpoint.upload_seconds\": {\"values\": [7, 0, 90]}";
    const char *place = "\"checkpoint.upload\": \"s3://b/x\"";
    assert_true(end_seconds("", rates, 0) == 0);
    assert_true(end_seconds(place, rates, 1) == 600);
    assert_true(end_seconds(place, limits, 0) == 7);
    assert_true(isinf(end_seconds(place, limits, 1)));
    assert_true(end_seconds(place, limits, 2) == 90);
    assert_true(end_seconds("", limits, 2) == 0); /* nothing is uploaded */
    const char *seconds = "\"hooks.seconds\": {\"values\": [10, 20]}";
    assert_true(end_seconds("\"hooks.on_exit\": [\"true\"]", seconds, 1) == 25);
    assert_true(end_seconds("\"hooks.on_save\": [\"true\"], \"hooks.on_exit\": [\"true\"]", seconds, 0) ==
                45);
    assert_true(end_seconds("", seconds, 1) == 0);
}

TEST(what_is_wrong_is_named)
{
    refused(RATES ", \"metod\": \"grid\"", "metod: unknown member; did you mean 'method'?");
    refused(RATES ", \"method\": \"gird\"", "method: there is no 'gird'; did you mean 'grid'?");
    refused(RATES ", \"trials\": 4", "a grid has one trial for each combination of its keys");
    refused(RATES ", \"method\": \"random\"", "\"trials\" is missing");
    refused(RATES ", \"method\": \"random\", \"trials\": 3", "gave 2 different combinations, not 3");
    refused(RATES ", \"method\": \"halving\", \"trials\": 2", "needs \"halving\": {\"first_steps\": N}");
    refused(RATES ", \"halving\": {\"first_steps\": 2}", "only \"method\": \"halving\" uses it");
    refused(RATES ", \"metric\": \"eval_los\"", "there is no 'eval_los'; did you mean 'eval_loss'?");
    refused(RATES ", \"goal\": \"best\"", "goal: there is no 'best'");
    refused(RATES ", \"set\": {\"optimizer.learning_rate\": 1}", "this key is also in \"keys\"");
    refused(RATES ", \"set\": {\"train.stebs\": 1}", "did you mean 'train.steps'?");
    refused(RATES ", \"set\": {\"monitor.prometheus\": \"one.prom\"}", "names one file");
    refused(RATES ", \"method\": \"halving\", \"trials\": 2, \"halving\": {\"first_steps\": 10}, "
                  "\"set\": {\"checkpoint.final\": false}",
            "halving resumes from the checkpoint");
    refused("\"method\": \"grid\"", "keys: an object is expected");
    refused("\"keys\": {\"optimizer.learning_rat\": {\"values\": [1]}}",
            "did you mean 'optimizer.learning_rate'?");
    refused("\"keys\": {\"optimizer.learning_rate\": {\"values\": [0.1, -1]}}", "trial 2");
    refused("\"keys\": {\"optimizer.learning_rate\": {\"vals\": [0.1]}}", "did you mean 'values'?");
    refused("\"keys\": {\"optimizer.learning_rate\": {\"values\": []}}", "1 to 1000 values");
    refused("\"keys\": {\"optimizer.learning_rate\": {\"from\": 0.1}}",
            "needs \"values\", or \"from\" and \"to\"");
    refused("\"keys\": {\"optimizer.learning_rate\": {\"from\": 0.1, \"to\": 0.01}}", "must be less than");
    refused("\"keys\": {\"optimizer.learning_rate\": {\"from\": 0.1, \"to\": 1}}", "a grid needs the values");
    refused(
        "\"keys\": {\"optimizer.learning_rate\": {\"from\": 0, \"to\": 1, \"scale\": \"log\", \"count\": 3}}",
        "needs a \"from\" above 0");
    refused("\"keys\": {\"optimizer.learning_rate\": {\"values\": [0.1, 0.01, 0.10]}}",
            "0.1 is listed twice");
    refused("\"set\": {\"train.steps\": 9}, \"keys\": {\"train.epochs\": {\"values\": [1, 2]}}",
            "train.epochs has no effect beside");
    refused(RATES ", \"method\": \"halving\", \"trials\": 2, \"halving\": {\"first_steps\": 100}",
            "\"first_steps\" must be less than train.steps, which is 100");
    refused("\"keys\": {\"data.micro_batch\": {\"from\": 1.5, \"to\": 4, \"count\": 3}}", "must be integers");
    refused("\"keys\": {\"train.seed\": {\"from\": 1, \"to\": 2000, \"step\": 1}}", "more than 1000 values");
    refused("\"keys\": {\"train.seed\": {\"from\": 1, \"to\": 99, \"step\": 1}, \"data.micro_batch\": "
            "{\"from\": 1, "
            "\"to\": 99, \"step\": 1}}",
            "more than 1000 trials");
}

/* Without evaluation data trials are compared by their mean loss, and a figure of an evaluation is
 * refused. */
TEST(the_metric_follows_the_data)
{
    CLT_SCOPED(clt_sweep) *s = NULL;
    put_text("csv.json", "{\"model\":{\"type\":\"mlp\",\"loss\":\"mse\"},\"data\":{\"type\":\"csv\",\"path\":"
                         "\"t.csv\",\"split\":0}}");
    CLT_FREED char *text = with_folder("{\"config\": \"%D/csv.json\", " RATES "}");
    assert_ok(clt_sweep_load(put_text("m.json", text), NULL, &s));
    assert_int_equal(s->metric, CLT_FACT_MEAN_LOSS);
    clt_sweep_free(s);
    CLT_FREED char *best = with_folder("{\"config\": \"%D/csv.json\", " RATES ", \"metric\": \"best_r2\"}");
    assert_int_equal(clt_sweep_load(put_text("m.json", best), NULL, &s), CLT_ECONFIG);
    assert_contains(clt_error_text(), "metric: best_r2 comes from evaluations");
}

/* A figure that the model's runs cannot have is refused before anything is trained. */
TEST(a_metric_that_the_model_lacks_is_refused)
{
    static const char *const lacking[] = {"best_r2", "best_mae", "best_rmse", "best_perplexity"};
    for (size_t i = 0; i < sizeof lacking / sizeof *lacking; i++) {
        CLT_FREED char *text = with_text(RATES ", \"metric\": \"%s\"", lacking[i]);
        CLT_FREED char *words = with_text("metric: this training has no %s", lacking[i]);
        refused(text, words);
    }
    refused(RATES ", \"metric\": \"energy_kwh\", \"set\": {\"monitor.seconds\": 0}", "has no energy_kwh");
    /* the loss is a key: the second trial has no accuracy */
    refused("\"metric\": \"accuracy\", \"keys\": {\"model.loss\": {\"values\": [\"cross_entropy\", "
            "\"mse\"]}}",
            "trial 2: metric: this training has no accuracy");
    CLT_SCOPED(clt_sweep) *s = NULL;
    assert_ok(load(RATES ", \"metric\": \"accuracy\"", &s));
}

/* A budget, or a metric in money, needs a price above 0 for every trial. */
TEST(money_needs_a_price)
{
    const clt_sweep_options budget = {.budget = 5}, none = {.budget = 0};
    CLT_SCOPED(clt_sweep) *s = NULL;
    unsetenv(CLT_PRICE_VARIABLE);
    assert_ok(load(RATES, &s));
    assert_ok(clt_sweep_check_price(s, &none));
    assert_int_equal(clt_sweep_check_price(s, &budget), CLT_ECONFIG);
    assert_contains(clt_error_text(), "--budget needs a price above 0");
    setenv(CLT_PRICE_VARIABLE, "0", 1);
    assert_int_equal(clt_sweep_check_price(s, &budget), CLT_ECONFIG);
    setenv(CLT_PRICE_VARIABLE, "abc", 1);
    assert_int_equal(clt_sweep_check_price(s, &budget), CLT_ECONFIG);
    assert_contains(clt_error_text(), CLT_PRICE_VARIABLE " is 'abc'");
    setenv(CLT_PRICE_VARIABLE, "2.5", 1);
    assert_ok(clt_sweep_check_price(s, &budget));
    unsetenv(CLT_PRICE_VARIABLE);
    clt_sweep_free(s);
    assert_ok(load("\"keys\": {\"cost.per_hour\": {\"values\": [0, 1]}}", &s));
    assert_int_equal(clt_sweep_check_price(s, &budget), CLT_ECONFIG);
    clt_sweep_free(s);
    assert_ok(load("\"keys\": {\"cost.per_hour\": {\"values\": [2, 1]}}", &s));
    assert_ok(clt_sweep_check_price(s, &budget));
    clt_sweep_free(s);
    assert_ok(load(RATES ", \"metric\": \"cost\"", &s));
    assert_int_equal(clt_sweep_check_price(s, &none), CLT_ECONFIG);
    assert_contains(clt_error_text(), "the metric cost needs a price above 0");
}

/* Positions are given as line and column. */
TEST(places_are_told)
{
    clt_sweep *sweep;
    put_text("c.json", CONFIG);
    CLT_FREED char *text = with_folder("{\"config\": \"%D/c.json\",\n  \"seed\": -1,\n \"keys\": {}}");
    assert_int_equal(clt_sweep_load(put_text("p.json", text), NULL, &sweep), CLT_ECONFIG);
    assert_contains(clt_error_text(), "p.json:2:11: seed: an integer from 0");
    assert_int_equal(clt_sweep_load(test_folder(), NULL, &sweep), CLT_EUSAGE);
    assert_contains(clt_error_text(), "is not the folder of a sweep");
}

static void values_are(const clt_sweep *s, const char *want)
{
    CLT_SCOPED(clt_str) all = {0};
    for (int t = 0; t < s->trials; t++)
        for (int k = 0; k < s->key_count; k++)
            clt_str_printf(&all, "%s%s", s->values[t * s->key_count + k],
                           k + 1 < s->key_count ? " "
                           : t + 1 < s->trials  ? "; "
                                                : "");
    assert_ok(clt_str_check(&all));
    assert_string_equal(all.text, want);
}

TEST(a_grid_has_every_combination)
{
    CLT_SCOPED(clt_sweep) *s = NULL;
    assert_ok(load("\"keys\": {\"optimizer.type\": {\"values\": [\"sgd\", \"adamw\"]}, \"model.dropout\": "
                   "{\"from\": 0, \"to\": 0.3, \"step\": 0.1}}",
                   &s));
    values_are(s,
               "\"sgd\" 0; \"sgd\" 0.1; \"sgd\" 0.2; \"sgd\" 0.3; \"adamw\" 0; \"adamw\" 0.1; \"adamw\" 0.2; "
               "\"adamw\" 0.3");
    assert_int_equal(s->metric, CLT_FACT_EVAL_LOSS);
    assert_false(s->more);
    assert_int_equal(s->rungs, 1);
    assert_int_equal(s->rung_steps[0], 0);
}

TEST(points_of_a_scale)
{
    CLT_SCOPED(clt_sweep) *s = NULL;
    assert_ok(
        load("\"keys\": {\"optimizer.learning_rate\": {\"from\": 0.0001, \"to\": 0.1, \"scale\": \"log\", "
             "\"count\": 7}}",
             &s));
    values_are(s, "0.0001; 0.000316228; 0.001; 0.00316228; 0.01; 0.0316228; 0.1");
    clt_sweep_free(s);
    assert_ok(load(
        "\"keys\": {\"data.micro_batch\": {\"from\": 1, \"to\": 8, \"scale\": \"log\", \"count\": 9}}", &s));
    values_are(s, "1; 2; 3; 4; 5; 6; 8"); /* 1.3 rounds to 1 again, 2.2 to 2 again */
}

/* Computed by this program on 2026-11-30; a change would give running sweeps other trials. */
TEST(drawn_trials_stay_the_same)
{
    CLT_SCOPED(clt_sweep) *s = NULL;
    assert_ok(
        load("\"method\": \"random\", \"trials\": 5, \"seed\": 3, \"metric\": \"accuracy\", \"keys\": "
             "{\"optimizer.learning_rate\": {\"from\": 0.0001, \"to\": 0.1, \"scale\": \"log\"}, "
             "\"model.dropout\": {\"from\": 0, \"to\": 0.3, \"step\": 0.1}, \"data.micro_batch\": {\"from\": "
             "1, \"to\": 8}, \"optimizer.weight_decay\": {\"from\": 0, \"to\": 0.1}}",
             &s));
    assert_true(s->more);
    values_are(s, "0.000482417 0.3 1 0.0684496; 0.00102396 0 4 0.0295588; 0.0406235 0.1 3 0.0922495; "
                  "0.0200131 0.1 3 0.0362959; 0.0745968 0.3 4 0.0863743");
}

TEST(halving_has_rungs)
{
    static const int64_t steps[] = {10, 30, 0};
    static const int trials[] = {10, 4, 2};
    CLT_SCOPED(clt_sweep) *s = NULL;
    assert_ok(load("\"method\": \"halving\", \"trials\": 10, \"halving\": {\"first_steps\": 10}, \"set\": "
                   "{\"train.steps\": 90}, \"keys\": {\"train.seed\": {\"from\": 1, \"to\": 100}}",
                   &s));
    assert_int_equal(s->rungs, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(s->rung_steps[i], steps[i]);
        assert_int_equal(s->rung_trials[i], trials[i]);
    }
}

/* The best trials of a rung continue, in the order of their numbers; failed trials and trials without a
 * figure come after all trials with one. */
TEST(the_best_go_on)
{
    clt_sweep s = {.trials = 6, .keep = 3, .rungs = 2, .rung_trials = {6, 3}};
    clt_trial trials[6] = {{.result = {.done = true, .value = 0.5}},
                           {.result = {.done = true, .value = NAN}},
                           {.result = {.done = false}},
                           {.result = {.done = true, .value = 0.1}},
                           {.result = {.done = true, .value = 0.5}},
                           {.result = {.done = true, .value = 0.2}}};
    int members[6] = {0, 1, 2, 3, 4, 5}, order[6] = {0, 1, 2, 3, 4, 5};
    assert_int_equal(clt_sweep_survivors(&s, 1, trials, members, 6), 3);
    assert_int_equal(members[0], 0); /* as good as trial 4, which comes later */
    assert_int_equal(members[1], 3);
    assert_int_equal(members[2], 5);
    s.more = true;
    clt_sweep_rank(&s, trials, order, 6);
    assert_int_equal(order[0], 0);
    assert_int_equal(order[1], 4);
    assert_int_equal(order[3], 3);
    assert_int_equal(order[4], 1);
    assert_int_equal(order[5], 2);
    trials[0].state = CLT_TRIAL_FAILED; /* failed after it had a result */
    clt_sweep_rank(&s, trials, order, 6);
    assert_int_equal(order[0], 4);
    assert_int_equal(order[4], 2);
    assert_int_equal(order[5], 0);
}

/* A run folder of a trial whose one session has cost `cost` and lasted from second 100 to second `until`. */
static void put_run(const char *trial, double cost, int until)
{
    char name[64];
    CLT_SCOPED(clt_str) text = {0};
    clt_str_printf(&text,
                   "{\"event\":\"start\",\"step\":0,\"time\":100,\"steps_total\":9,\"cost\":{\"total\":0.5,"
                   "\"seconds\":1,\"per_hour\":3600,\"machines\":1}}\n"
                   "{\"step\":1,\"time\":%d,\"loss\":1,\"step_ms\":1000,\"cost\":%.9g}\n",
                   until, cost);
    assert_ok(clt_str_check(&text));
    assert_ok(clt_mkdir_p(in_dir(trial)));
    snprintf(name, sizeof name, "%s/metrics.jsonl", trial);
    put_text(name, text.text);
}

TEST(what_trials_cost_adds_up)
{
    CLT_SCOPED(clt_sweep) *s = NULL;
    CLT_SCOPED(clt_sweep_spending) spent = {0};
    assert_ok(load("\"keys\": {\"train.seed\": {\"values\": [1, 2, 3]}}", &s));
    assert_ok(clt_sweep_spending_make(s, &spent));
    assert_ok(clt_sweep_spending_read(s, test_folder(), &spent));
    assert_true(spent.cost == 0 && spent.hours == 0);
    put_run("trial-01", 7.25, 100 + 1800);
    put_run("trial-03", 2.5, 100 + 900);
    assert_ok(clt_sweep_spending_read(s, test_folder(), &spent));
    assert_true(fabs(spent.cost - 9.75) < 1e-12);
    assert_true(fabs(spent.hours - 0.75) < 1e-12);
    put_run("trial-03", 2.875, 100 + 3600); /* it goes on */
    assert_ok(clt_sweep_spending_read(s, test_folder(), &spent));
    assert_true(fabs(spent.cost - 10.125) < 1e-12);
    assert_true(fabs(spent.hours - 1.5) < 1e-12);
    clt_sweep_options o = {.budget = 10.125};
    assert_int_equal(clt_sweep_check_budget(&o, &spent, CLT_EINTERRUPTED), CLT_EINTERRUPTED);
    assert_contains(clt_error_text(), "have cost 10.12");
    clt_error_clear();
    o = (clt_sweep_options){.budget = 10.126, .hours = 1.5};
    assert_int_equal(clt_sweep_check_budget(&o, &spent, CLT_ECONFIG), CLT_ECONFIG);
    assert_contains(clt_error_text(), "trained for 1.5 hours");
    clt_error_clear();
    o = (clt_sweep_options){.budget = 10.126, .hours = 1.51};
    assert_ok(clt_sweep_check_budget(&o, &spent, CLT_EINTERRUPTED));
    assert_ok(clt_sweep_check_budget(&(clt_sweep_options){.budget = 0}, &spent, CLT_EINTERRUPTED));
}
