/* SPDX-License-Identifier: Apache-2.0
 *
 * What the trainer does when something goes wrong: loss or gradients that are not finite (skipped, counted,
 * end of the run with the name of the first bad tensor, never saved), a stop during the run, a run folder
 * that is in use, contains an earlier run, or cannot be written. ctest-labels: quick */
#include "tests/unit/train/train_test.h"

#include <dirent.h>

#define SAMPLES 24
#define IN 3
#define BATCH 4

typedef struct data {
    float x[SAMPLES][IN], y[SAMPLES], weight[IN], bias[1];
} data;

static void make_data(data *d)
{
    fill_normal(&d->x[0][0], SAMPLES * IN, 1);
    fill_normal(d->y, SAMPLES, 2);
    fill_normal(d->weight, IN, 3);
    d->bias[0] = 0.25f;
}

static void put_data(const data *d)
{
    put_npy("x.npy", "<f4", d->x, SAMPLES, IN);
    put_npy("y.npy", "<f4", d->y, SAMPLES, 1);
    put_linear_init("init.safetensors", d->weight, d->bias, 1, IN);
}

static clt_config *config_of(const char *optimizer, int steps)
{
    char text[1024];
    snprintf(
        text, sizeof text,
        "{\"model\":{\"type\":\"mlp\",\"hidden\":[],\"outputs\":1,\"loss\":\"mse\"},"
        "\"data\":{\"type\":\"npy\",\"path\":\"%%D/x.npy\",\"targets\":\"%%D/y.npy\",\"micro_batch\":%d,"
        "\"shuffle\":false,\"workers\":1},\"optimizer\":%s,"
        "\"schedule\":{\"type\":\"linear\",\"horizon\":20},\"train\":{\"steps\":%d,\"max_nonfinite\":3}}",
        BATCH, optimizer, steps);
    return train_config(text);
}

#define ADAM "{\"type\":\"adamw\",\"learning_rate\":0.1}"
#define SGD "{\"type\":\"sgd\",\"learning_rate\":0.1,\"momentum\":0.5}"

static int count_entries(const char *folder)
{
    DIR *open = opendir(in_dir(folder));
    int n = 0;
    if (!open)
        return 0;
    for (struct dirent *e; (e = readdir(open)) != NULL;)
        n += e->d_name[0] != '.';
    closedir(open);
    return n;
}

static bool file_says(const char *file, const char *words)
{
    size_t size;
    CLT_FREED char *text = read_bytes(file, &size);
    bool found = strstr(text, words) != NULL;
    return found;
}

static void expect_words(const char *const *words, int count)
{
    for (int i = 0; i < count; i++)
        if (!strstr(clt_error_text(), words[i]))
            fail_msg("'%s' is not in: %s", words[i], clt_error_text());
}

/* An infinite parameter: after three skipped updates the run ends and names the parameter. */
TEST(test_bad_parameter)
{
    data d;
    record rec = {.n = 0};
    clt_run_result result;
    make_data(&d);
    d.weight[1] = INFINITY;
    put_data(&d);
    CLT_SCOPED(clt_config) *config = config_of(ADAM, 10);
    set(config, "checkpoint.every", "1");
    set(config, "train.max_nonfinite", "3");
    clt_status status = train_run(config, "inf", "init.safetensors", &rec, &result);
    assert_int_equal(status, CLT_ENUMERIC);
    assert_int_equal(clt_status_exit_code(status), 6);
    /* checkpoint.every = 1: the first save already refuses, with the tensor's name */
    expect_words((const char *const[]){"out.weight"}, 1);
    assert_int_equal(count_entries("inf/checkpoints"), 0);
    set(config, "checkpoint.every", "0");
    assert_int_equal(train_run(config, "inf2", "init.safetensors", &rec, &result), CLT_ENUMERIC);
    expect_words(
        (const char *const[]){"3 steps in a row", "parameter 'out.weight' (element 1)", "learning_rate"}, 3);
    assert_int_equal(rec.n, 3);
    for (int i = 0; i < 3; i++) {
        assert_true(rec.step[i].nonfinite);
        assert_int_equal(rec.step[i].update, 0);
        assert_int_equal(rec.step[i].skipped, i + 1);
        assert_close("learning rate", i, rec.step[i].lr, 0.1,
                     1e-8); /* a skipped step does not move the schedule */
    }
    assert_int_equal(count_entries("inf2/checkpoints"), 0);
    assert_true(file_says("inf2/metrics.jsonl", "\"nonfinite\": true") ||
                file_says("inf2/metrics.jsonl", "\"nonfinite\":true"));
    assert_true(file_says("inf2/metrics.jsonl", "\"loss\":null") ||
                file_says("inf2/metrics.jsonl", "\"loss\": null"));
    assert_true(file_says("inf2/log.txt", "first bad tensor"));
    assert_true(file_says("inf2/log.txt", "warning: step 2: loss or gradients are not finite; the update was "
                                          "skipped (2 in a row)"));
    /* too few steps for three skipped ones: the last save refuses instead */
    set(config, "train.steps", "2");
    assert_int_equal(train_run(config, "inf3", "init.safetensors", &rec, &result), CLT_ENUMERIC);
    expect_words((const char *const[]){"out.weight"}, 1);
    assert_int_equal(rec.n, 2);
    assert_int_equal(count_entries("inf3/checkpoints"), 0);
}

/* Finite parameters whose products are not finite: the first activation is named; parameters and moments
 * keep all their bits. */
TEST(test_overflow)
{
    data d;
    float got[IN], moment[IN];
    record rec = {.n = 0};
    clt_run_result result;
    make_data(&d);
    for (int i = 0; i < IN; i++)
        d.weight[i] = 3e38f;
    for (int i = 0; i < SAMPLES; i++)
        d.x[i][0] = 7;
    put_data(&d);
    CLT_SCOPED(clt_config) *config = config_of(ADAM, 2);
    must(train_run(config, "over", "init.safetensors", &rec, &result), "two skipped steps");
    assert_int_equal(result.updates, 0);
    assert_int_equal(result.skipped, 2);
    file_values("over/checkpoints/step_2/model.safetensors", "out.weight", got, IN);
    assert_memory_equal(got, d.weight, sizeof got);
    file_values("over/checkpoints/step_2/model.safetensors", "out.bias", got, 1);
    assert_memory_equal(got, d.bias, sizeof d.bias);
    file_values("over/checkpoints/step_2/optimizer.safetensors", "out.weight.moment2", moment, IN);
    for (int i = 0; i < IN; i++)
        assert_true(fabs((double)moment[i]) < 1e-45);
    assert_true(file_says("over/checkpoints/step_2/state.json", "\"skipped\": 2"));
    set(config, "train.steps", "9");
    assert_int_equal(train_run(config, "over2", "init.safetensors", &rec, &result), CLT_ENUMERIC);
    expect_words((const char *const[]){"first bad tensor: tensor 'out", "out.forward"}, 2);
    assert_int_equal(count_entries("over2/checkpoints"), 0);
}

/* Values that earlier steps have left in memory are not blamed on a command: neither on one that writes
 * only a part of a tensor, nor on one that adds to a loss record. */
TEST(test_innocent_commands)
{
    char text[512];
    bool found;
    clt_run *run;
    CLT_SCOPED(clt_config) *config = train_config(
        "{\"model\":{\"type\":\"graph\",\"layers\":[{\"op\":\"linear\",\"name\":\"a\",\"inputs\":[\"x\"],"
        "\"out\":6},{\"op\":\"tanh\",\"name\":\"b\"},{\"op\":\"concat\",\"name\":\"c\",\"inputs\":[\"b\","
        "\"a\"]},"
        "{\"op\":\"softmax\",\"name\":\"d\"},{\"op\":\"cross_entropy\",\"name\":\"loss\",\"inputs\":[\"d\","
        "\"y\"]}"
        "]},\"data\":{\"type\":\"synthetic\",\"shape\":[5],\"classes\":3,\"samples\":8,\"micro_batch\":4,"
        "\"global_batch\":8},\"train\":{\"steps\":1}}");
    clt_run_options options = {.config = config, .caps_mask = OCL_CAPS_ALL};
    must(clt_run_create(&options, CLT_JOB_TRAIN, &run), "run");
    for (int k = 0; k < 2; k++) {
        ocl_buffer *slab = k ? run->store->slab[CLT_ARENA_GRAD][0] : run->pool->slab[0];
        uint64_t from = k ? 0 : run->job->train->input_bytes, bytes = ocl_buffer_bytes(slab) - from;
        void *nans = malloc(bytes);
        assert_non_null(nans);
        memset(nans, 0xff, bytes);
        must(ocl_write(slab, from, nans, bytes), "NaNs");
        free(nans);
        must(clt_run_diagnose(run, 0, 1, text, sizeof text, &found), "diagnosis");
        if (found)
            fail_msg("of what was left in %s: %s", k ? "gradients and records" : "activations", text);
    }
    clt_run_destroy(run);
}

/* Bad batches are those of steps 2 and 4 (from 0). */
static bool is_bad(int step)
{
    return step == 2 || step == 4;
}

/* The same training in double precision, without the bad batches. */
static void host_run(const data *d, int steps, bool adam, double p[IN + 1])
{
    double m[IN + 1] = {0}, v[IN + 1] = {0};
    int update = 0;
    for (int step = 0; step < steps; step++) {
        double g[IN + 1] = {0}, lr = 0.1 * (1 - update / 20.0);
        if (is_bad(step))
            continue;
        for (int b = 0; b < BATCH; b++) {
            const float *x = d->x[(step * BATCH + b) % SAMPLES];
            double e = p[IN] - (double)d->y[(step * BATCH + b) % SAMPLES];
            for (int i = 0; i < IN; i++)
                e += p[i] * (double)x[i];
            for (int i = 0; i < IN; i++)
                g[i] += 2 * e * (double)x[i] / BATCH;
            g[IN] += 2 * e / BATCH;
        }
        update++;
        for (int i = 0; i <= IN; i++) {
            m[i] = adam ? 0.9 * m[i] + 0.1 * g[i] : 0.5 * m[i] + g[i];
            v[i] = 0.999 * v[i] + 0.001 * g[i] * g[i];
            p[i] -=
                adam ? lr * (m[i] / (1 - pow(0.9, update))) / (sqrt(v[i] / (1 - pow(0.999, update))) + 1e-8)
                     : lr * m[i];
        }
    }
}

/* Bad batches among good ones: exactly their updates are missing, the count of skips in a row starts again,
 * and bias corrections and the schedule continue from where they were. */
TEST(test_bad_batches)
{
    for (int adam = 0; adam < 2; adam++) {
        data d;
        double p[IN + 1];
        float weight[IN], bias;
        record rec = {.n = 0};
        clt_run_result result;
        char out[16], file[64];
        make_data(&d);
        d.x[2 * BATCH + 1][0] = d.x[4 * BATCH + 2][0] = 3e38f;
        put_data(&d);
        CLT_SCOPED(clt_config) *config = config_of(adam ? ADAM : SGD, 6);
        set(config, "train.max_nonfinite", "2");
        snprintf(out, sizeof out, "one%d", adam);
        must(train_run(config, out, "init.safetensors", &rec, &result), "train");
        assert_int_equal(result.updates, 4);
        assert_int_equal(result.skipped, 2);
        for (int i = 0, update = 0; i < 6; i++) {
            assert_int_equal(rec.step[i].nonfinite, is_bad(i));
            assert_close("learning rate", i, rec.step[i].lr, 0.1 * (1 - update / 20.0), 1e-8);
            update += !is_bad(i);
            assert_int_equal(rec.step[i].update, update);
        }
        for (int i = 0; i < IN; i++)
            p[i] = (double)d.weight[i];
        p[IN] = (double)d.bias[0];
        host_run(&d, 6, adam != 0, p);
        snprintf(file, sizeof file, "%s/checkpoints/step_6/model.safetensors", out);
        file_values(file, "out.weight", weight, IN);
        file_values(file, "out.bias", &bias, 1);
        for (int i = 0; i <= IN; i++)
            assert_close("parameter", 6, (double)(i < IN ? weight[i] : bias), p[i], 1e-5);
    }
}

/* A run that diverges: it ends with code 6, and whatever was saved on the way is finite. */
TEST(test_divergence)
{
    data d;
    record rec = {.n = 0};
    clt_run_result result;
    make_data(&d);
    put_data(&d);
    CLT_SCOPED(clt_config) *config = config_of("{\"type\":\"sgd\",\"learning_rate\":100000}", 60);
    set(config, "schedule.horizon", "1000");
    set(config, "checkpoint.every", "1");
    set(config, "checkpoint.keep", "0");
    assert_int_equal(train_run(config, "wild", "init.safetensors", &rec, &result), CLT_ENUMERIC);
    int saved = count_entries("wild/checkpoints");
    assert_true(saved >= 1 && saved < 60);
    for (int step = 1; step <= 60; step++) {
        char file[96];
        float weight[IN];
        snprintf(file, sizeof file, "wild/checkpoints/step_%d/model.safetensors", step);
        if (!clt_file_exists(in_dir(file)))
            continue;
        saved--;
        file_values(file, "out.weight", weight, IN);
        for (int i = 0; i < IN; i++)
            assert_true(isfinite(weight[i]));
    }
    assert_int_equal(saved, 0); /* every entry is a checkpoint, and none is incomplete */
}

TEST(test_stop)
{
    data d;
    atomic_int stop = 0;
    record rec = {.n = 0, .stop = &stop, .stop_at = 4};
    clt_run_result result;
    make_data(&d);
    put_data(&d);
    CLT_SCOPED(clt_config) *config = config_of(SGD, 60);
    set(config, "schedule.horizon", "1000");
    set(config, "checkpoint.every", "50");
    clt_status status = train_run(config, "stopped", "init.safetensors", &rec, &result);
    assert_int_equal(status, CLT_EINTERRUPTED);
    assert_int_equal(clt_status_exit_code(status), 75);
    assert_true(rec.n >= 4 && rec.n < 60); /* later than requested, by the steps in flight */
    assert_int_equal(result.steps, rec.n);
    char file[96], words[96];
    snprintf(file, sizeof file, "stopped/checkpoints/step_%d/state.json", rec.n);
    snprintf(words, sizeof words, "\"update\": %d", rec.n);
    assert_true(file_says(file, words));
    assert_int_equal(count_entries("stopped/checkpoints"), 1);
}

typedef struct ahead {
    atomic_llong at_step;
    int64_t most;
} ahead;

static void note_ahead(void *context, const clt_step_metrics *metrics)
{
    ahead *a = context;
    int64_t steps = atomic_load(&a->at_step) - metrics->step;
    a->most = steps > a->most ? steps : a->most;
}

/* With one rank the host enqueues further steps before the results of a step arrive. at_step is at most one
 * more than the step whose results arrive if the host waits for each step. */
TEST(test_steps_ahead)
{
    data d;
    ahead a = {.most = 0};
    clt_run_result result;
    make_data(&d);
    put_data(&d);
    CLT_SCOPED(clt_config) *config = config_of(SGD, 60);
    set(config, "train.log_every", "1");
    set(config, "schedule.horizon", "1000");
    clt_run_options options = {.config = config,
                               .caps_mask = OCL_CAPS_ALL,
                               .at_step = &a.at_step,
                               .observer = {.context = &a, .step = note_ahead}};
    assert_ok(clt_train(&options, &result));
    assert_true(a.most >= 2);
}

/* --- run folders --- */

typedef struct intruder {
    const clt_config *config;
    clt_status status;
    char text[512];
} intruder;

/* Called within a run: a second run wants the same folder. */
static void intrude(void *context, const clt_step_metrics *metrics)
{
    intruder *in = context;
    record rec = {.n = 0};
    clt_run_result result;
    if (metrics->step != 1)
        return;
    in->status = train_run(in->config, "shared", NULL, &rec, &result);
    snprintf(in->text, sizeof in->text, "%s", clt_error_text());
}

TEST(test_locked_folder)
{
    data d;
    char path[256];
    clt_run_result result;
    record rec = {.n = 0};
    make_data(&d);
    put_data(&d);
    CLT_SCOPED(clt_config) *config = config_of(SGD, 4);
    intruder in = {.config = config};
    snprintf(path, sizeof path, "%s", in_dir("shared"));
    clt_run_options options = {.config = config,
                               .caps_mask = OCL_CAPS_ALL,
                               .out_dir = path,
                               .observer = {.context = &in, .step = intrude}};
    must(clt_train(&options, &result), "train");
    assert_int_equal(in.status, CLT_ESTORAGE);
    assert_non_null(strstr(in.text, "shared"));
    assert_true(clt_file_exists(in_dir("shared/checkpoints/step_4/manifest.json")));
    /* after the run the folder is not locked any more, but it is not empty */
    assert_int_equal(train_run(config, "shared", NULL, &rec, &result), CLT_EUSAGE);
    expect_words((const char *const[]){"shared", "earlier run"}, 2);
    assert_int_equal(rec.n, 0);
}

TEST(test_unwritable_folder)
{
    data d;
    clt_run_result result;
    record rec = {.n = 0};
    make_data(&d);
    put_data(&d);
    put_npy("plain", "<f4", d.y, SAMPLES, 0);
    CLT_SCOPED(clt_config) *config = config_of(SGD, 4);
    int before = count_entries(".");
    assert_int_equal(train_run(config, "plain/run", NULL, &rec, &result), CLT_ESTORAGE);
    expect_words((const char *const[]){"plain"}, 1);
    assert_int_equal(train_run(config, "plain", NULL, &rec, &result), CLT_ESTORAGE);
    assert_int_equal(rec.n, 0);
    assert_int_equal(count_entries("."), before);
}

TEST_PROGRAM(.device = true);
