/* SPDX-License-Identifier: Apache-2.0
 *
 * Half-precision training from end to end on small models: what is stored in which type, loss curves beside
 * those of f32, loss scaling beside a model of PyTorch's GradScaler on the host, skipped steps that touch
 * nothing, exact unscaling, resuming, settings that cannot work.
 * ctest-labels: quick ctest-full: all ctest-cost: 35 ctest-optimise: no */
#include "tests/unit/train/train_test.h"

#include "engine/train/job/job.h"

/* --- models --- */

#define SAMPLES 48
#define IN 7
#define OUT 2

static void put_data(int bad_sample)
{
    static float x[SAMPLES][IN], y[SAMPLES][OUT];
    fill_normal(&x[0][0], SAMPLES * IN, 1);
    fill_normal(&y[0][0], SAMPLES * OUT, 2);
    if (bad_sample >= 0)
        x[bad_sample][3] = 1e30f; /* the loader takes it, f16 does not */
    put_npy("x.npy", "<f4", x, SAMPLES, IN);
    put_npy("y.npy", "<f4", y, SAMPLES, OUT);
}

/* Regression of SAMPLES samples in their order, four at a time. */
static clt_config *mlp_config(const char *precision, const char *optimizer, int global, int steps)
{
    char text[1500];
    snprintf(text, sizeof text,
             "{\"model\":{\"type\":\"mlp\",\"hidden\":[19],\"activation\":\"gelu\",\"outputs\":%d,\"loss\":"
             "\"mse\"},"
             "\"data\":{\"type\":\"npy\",\"path\":\"%%D/x.npy\",\"targets\":\"%%D/y.npy\",\"micro_batch\":4,"
             "\"global_batch\":%d,\"shuffle\":false,\"workers\":1},\"optimizer\":%s,"
             "\"precision\":%s,\"train\":{\"steps\":%d,\"max_nonfinite\":100}}",
             OUT, global, optimizer, precision, steps);
    return train_config(text);
}

#define ADAMW "{\"type\":\"adamw\",\"learning_rate\":0.01,\"clip\":1}"
#define SGD "{\"type\":\"sgd\",\"learning_rate\":0.05,\"momentum\":0.9}"

/* Learns so slowly that rounding does not change the course of the training. */
#define GPT_ADAMW "{\"type\":\"adamw\",\"learning_rate\":0.002,\"clip\":1}"
#define GPT_SGD "{\"type\":\"sgd\",\"learning_rate\":0.02,\"momentum\":0.9}"

static clt_config *gpt_config(const char *mode, const char *optimizer, int steps)
{
    char text[1500], line[64];
    FILE *file = fopen(in_dir("text"), "wb");
    assert_non_null(file);
    for (int i = 0; i < 300; i++) {
        int n = snprintf(line, sizeof line, "line %d says %d and %d\n", i, i * i % 97, i * 7 % 31);
        assert_int_equal(fwrite(line, 1, (size_t)n, file), n);
    }
    assert_int_equal(fclose(file), 0);
    snprintf(text, sizeof text,
             "{\"model\":{\"type\":\"gpt\",\"layers\":2,\"heads\":3,\"channels\":15,\"context\":19},"
             "\"data\":{\"type\":\"text\",\"path\":\"%%D/text\",\"micro_batch\":6,\"workers\":1},"
             "\"optimizer\":%s,\"precision\":{\"mode\":\"%s\"},\"train\":{\"steps\":%d,\"seed\":3}}",
             optimizer, mode, steps);
    return train_config(text);
}

/* --- types --- */

static const clt_tensor *tensor_named(const clt_graph *graph, const char *name)
{
    for (size_t i = 0; i < graph->n_tensors; i++)
        if (strcmp(clt_graph_tensor(graph, (int32_t)i)->name, name) == 0)
            return clt_graph_tensor(graph, (int32_t)i);
    fail_msg("there is no tensor '%s'", name);
    return NULL;
}

static clt_job *job_of(const clt_config *config)
{
    ocl_device_desc desc;
    clt_job *job;
    ocl_desc_generic(&desc);
    must(clt_job_create(config, &desc, 1, CLT_JOB_TRAIN, &job), "job");
    return job;
}

TEST(test_types)
{
    put_data(-1);
    CLT_SCOPED(clt_config) *config = mlp_config("{\"mode\":\"bf16\"}", SGD, 4, 3);
    CLT_SCOPED(clt_job) *job = job_of(config);
    const clt_plan *plan = job->train;
    int casts = 0;
    for (size_t k = 0; k < plan->graph->n_nodes; k++) {
        casts += strcmp(plan->graph->nodes[k]->op->name, "cast") == 0;
        assert_int_equal(plan->graph->nodes[k]->id, k);
    }
    assert_int_equal(casts, 1); /* the cast of the input, which is loaded as f32 */
    assert_int_equal(tensor_named(plan->graph, "x")->dtype, CLT_F32);
    assert_int_equal(tensor_named(plan->graph, "fc1")->dtype, CLT_BF16);
    assert_int_equal(tensor_named(plan->graph, "d out")->dtype, CLT_BF16);
    assert_int_equal(tensor_named(plan->graph, "fc1.weight")->dtype, CLT_BF16);
    assert_int_equal(tensor_named(plan->graph, "fc1.bias")->dtype, CLT_F32);
    assert_int_equal(tensor_named(plan->graph, "d fc1.weight")->dtype, CLT_F32);
    int32_t weight = tensor_named(plan->graph, "fc1.weight")->id;
    const clt_store_slot *slot = clt_store_layout_find(plan->store, "fc1.weight");
    assert_int_equal(plan->place[weight].arena, CLT_ARENA_WORK);
    assert_int_equal(plan->place[weight].offset, 2 * slot->offset);
    assert_int_equal(clt_store_arena_bytes(plan->store, CLT_ARENA_WORK),
                     clt_store_arena_bytes(plan->store, CLT_ARENA_PARAM) / 2);
    assert_int_equal(plan->loss_scale, -1); /* bf16 has f32's range */
}

/* The residual stream, everything saved and the gradients take half; statistics stay. */
TEST(test_memory)
{
    uint64_t bytes[2];
    for (int half = 0; half < 2; half++) {
        CLT_SCOPED(clt_config) *config = gpt_config(half ? "f16" : "f32", GPT_ADAMW, 2);
        CLT_SCOPED(clt_job) *job = job_of(config);
        bytes[half] = clt_plan_memory(job->train, NULL).activations;
        assert_true(half == (job->train->loss_scale >= 0));
    }
    assert_true((double)bytes[1] < 0.6 * (double)bytes[0]);
}

/* --- curves --- */

TEST(test_curves)
{
    static const char *const modes[] = {"f32", "f16", "bf16"}, *const optimizers[] = {GPT_ADAMW, GPT_SGD};
    for (int o = 0; o < (run_everything ? 2 : 1); o++) {
        record rec[3];
        for (int m = 0; m < 3; m++) {
            clt_run_result result;
            CLT_SCOPED(clt_config) *config = gpt_config(modes[m], optimizers[o], 60);
            memset(&rec[m], 0, sizeof rec[m]);
            must(train_run(config, NULL, NULL, &rec[m], &result), modes[m]);
            assert_int_equal(rec[m].n, 60);
        }
        assert_true(rec[0].step[59].loss < rec[0].step[0].loss - 1); /* it learns */
        for (int m = 1; m < 3; m++) {
            double mean = 0;
            for (int s = 0; s < 60; s++) {
                double apart = fabs(rec[m].step[s].loss - rec[0].step[s].loss);
                assert_close("loss", s, rec[m].step[s].loss, rec[0].step[s].loss, 5e-2);
                mean += apart / 60;
            }
            assert_true(mean > 0 && mean < 2e-2); /* and the runs were not in f32 */
        }
    }
}

/* A recomputed value has the same bits as before, also after a fused product, which keeps its activation's
 * input in 16 bits. */
TEST(test_recompute)
{
    static const char *const modes[] = {"f16", "bf16"}, *const tiers[] = {"none", "gelu", "block"};
    for (int m = 0; m < (run_everything ? 2 : 1); m++)
        for (int t = 0; t < 3; t++) {
            record rec = {.n = 0};
            clt_run_result result;
            char out[32], model[96], first[96];
            CLT_SCOPED(clt_config) *config = gpt_config(modes[m], GPT_ADAMW, 6);
            set(config, "model.dropout", "0.1");
            set(config, "data.global_batch", "12");
            set(config, "train.recompute", tiers[t]);
            snprintf(out, sizeof out, "%s_%s", modes[m], tiers[t]);
            must(train_run(config, out, NULL, &rec, &result), out);
            assert_int_equal(result.updates, 6);
            snprintf(model, sizeof model, "%s/checkpoints/step_6/model.safetensors", out);
            snprintf(first, sizeof first, "%s_none/checkpoints/step_6/model.safetensors", modes[m]);
            if (!files_equal(model, first))
                fail_msg("train.recompute=%s changes a run in %s", tiers[t], modes[m]);
        }
}

/* --- loss scaling --- */

typedef struct scaler {
    double scale;
    int tracker;
} scaler;

/* torch.amp.GradScaler.update */
static void scaler_update(scaler *s, bool found_inf, double growth, double backoff, int interval)
{
    if (found_inf) {
        s->scale *= backoff;
        s->tracker = 0;
    } else if (++s->tracker == interval) {
        s->scale *= growth;
        s->tracker = 0;
    }
}

#define SCALING "{\"mode\":\"f16\",\"loss_scale\":64,\"growth\":2,\"growth_interval\":4,\"backoff\":0.25}"

/* One sample of 48 is infinite in f16; its micro-batch comes back every epoch. */
static void check_injected(const char *optimizer, int global, const char *out)
{
    enum { STEPS = 40, BAD = 22 };
    record rec = {.n = 0};
    clt_run_result result;
    scaler s = {64, 0};
    int skipped = 0, per_epoch = SAMPLES / global;
    char before[128], after[128];
    put_data(BAD);
    CLT_SCOPED(clt_config) *config = mlp_config(SCALING, optimizer, global, STEPS);
    set(config, "checkpoint.every", "1");
    set(config, "checkpoint.keep", "50");
    must(train_run(config, out, NULL, &rec, &result), "train");
    assert_int_equal(rec.n, STEPS);
    for (int i = 0; i < STEPS; i++) {
        bool bad = i % per_epoch == BAD / global;
        scaler_update(&s, bad, 2, 0.25, 4);
        skipped += bad;
        assert_int_equal(rec.step[i].nonfinite, bad);
        assert_int_equal(rec.step[i].skipped, skipped);
        assert_int_equal(rec.step[i].update, i + 1 - skipped);
        assert_close("scale", i + 1, rec.step[i].loss_scale, s.scale, 0);
        if (i == 0)
            continue;
        static const char *const files[] = {"model", "optimizer"};
        for (int f = 0; f < 2; f++) {
            snprintf(before, sizeof before, "%s/checkpoints/step_%d/%s.safetensors", out, i, files[f]);
            snprintf(after, sizeof after, "%s/checkpoints/step_%d/%s.safetensors", out, i + 1, files[f]);
            if (files_equal(before, after) != bad)
                fail_msg("step %d %s: %s", i + 1, bad ? "was to be skipped, but changed" : "left alone",
                         files[f]);
        }
    }
    assert_true(skipped >= 3);
}

TEST(test_injected)
{
    check_injected(ADAMW, 4, "adamw");
    check_injected(SGD, 12, "sgd"); /* one of the three micro-batches is bad */
}

/* Gradients overflow although the loss is finite: the scale falls until they fit, and training goes on. */
TEST(test_overflow)
{
    record rec = {.n = 0};
    clt_run_result result;
    int skipped = 0;
    put_data(-1);
    CLT_SCOPED(clt_config) *config = mlp_config("{\"mode\":\"f16\",\"loss_scale\":1e9}", ADAMW, 4, 30);
    must(train_run(config, NULL, NULL, &rec, &result), "train");
    for (int i = 0; i < 30; i++) {
        assert_true(isfinite(rec.step[i].loss));
        assert_true(!rec.step[i].nonfinite || i == skipped); /* skipped steps come first, without a gap */
        skipped += rec.step[i].nonfinite;
        assert_close("scale", i, rec.step[i].loss_scale, 1e9 * ldexp(1, -skipped), 64);
    }
    assert_true(skipped > 3 && skipped < 25);
    set(config, "precision.min_loss_scale", "1e8"); /* too high to ever fit */
    set(config, "train.max_nonfinite", "9");
    assert_int_equal(train_run(config, NULL, NULL, &rec, &result), CLT_ENUMERIC);
    assert_int_equal(rec.n, 9);
    assert_close("scale", 9, rec.step[8].loss_scale, 1e8, 10);
    assert_non_null(strstr(clt_error_text(), "precision.min_loss_scale, below which the scale (1e+08)"));
}

/* Gradients of zero fit at any scale; the scale stops growing before it exceeds f32. */
TEST(test_scale_stays_finite)
{
    static const float zeros[SAMPLES * IN];
    record rec = {.n = 0};
    clt_run_result result;
    put_npy("x.npy", "<f4", zeros, SAMPLES, IN);
    put_npy("y.npy", "<f4", zeros, SAMPLES, OUT);
    CLT_SCOPED(clt_config) *config =
        mlp_config("{\"mode\":\"bf16\",\"loss_scaling\":\"dynamic\",\"loss_scale\":1e30,"
                   "\"growth\":1e6,\"growth_interval\":1}",
                   SGD, 4, 4);
    set(config, "model.bias", "false");
    must(train_run(config, NULL, NULL, &rec, &result), "train");
    assert_int_equal(rec.n, 4);
    for (int i = 0; i < 4; i++) {
        assert_false(rec.step[i].nonfinite);
        assert_close("scale", i + 1, rec.step[i].loss_scale, 1e36, 1e30);
    }
}

static void expect_words(const char *what, const char *const words[4])
{
    for (int i = 0; i < 4 && words[i]; i++)
        if (!strstr(clt_error_text(), words[i]))
            fail_msg("%s: '%s' is not in: %s", what, words[i], clt_error_text());
}

/* The first tensor that was not finite, found by repeating the step: with the micro-batch and the loss
 * scale that the step had. */
TEST(test_first_bad)
{
    static const struct {
        const char *precision;
        int sample, step;
        const char *words[4];
    } runs[] = {
        {"{\"mode\":\"f32\"}", 14, 2, {"first bad tensor: tensor 'loss", "forward", "micro-batch 1 of 3"}},
        {"{\"mode\":\"bf16\"}", 14, 2, {"first bad tensor: tensor 'loss", "forward", "micro-batch 1 of 3"}},
        {"{\"mode\":\"f16\"}", 14, 2, {"first bad tensor: tensor 'x.f16'", "micro-batch 1 of 3"}},
        {"{\"mode\":\"f16\"}", 33, 3, {"first bad tensor: tensor 'x.f16'", "micro-batch 3 of 3"}},
        /* the loss is finite, gradients are not; with the scale after the backoff they would be */
        {"{\"mode\":\"f16\",\"loss_scale\":1e9,\"backoff\":1e-6}",
         -1,
         1,
         {"tensor 'd ", "backward", "batch 1 of", "set precision.mode to bf16"}},
        {"{\"mode\":\"f16\",\"loss_scale\":1e9,\"loss_scaling\":\"static\"}",
         -1,
         1,
         {"tensor 'd ", "lower precision.loss_scale, which is 1e+09,"}},
        /* every gradient is finite, and so is the square of each */
        {"{\"mode\":\"bf16\",\"loss_scale\":1.8e19,\"loss_scaling\":\"static\"}",
         -1,
         1,
         {"none, but the sum of the squares", "lower precision.loss_scale, which is 1.8e+19,"}},
    };
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        record rec = {.n = 0};
        clt_run_result result;
        put_data(runs[i].sample);
        CLT_SCOPED(clt_config) *config = mlp_config(runs[i].precision, ADAMW, 12, 30);
        set(config, "train.max_nonfinite", "1");
        clt_status status = train_run(config, NULL, NULL, &rec, &result);
        if (status != CLT_ENUMERIC || clt_status_exit_code(status) != 6)
            fail_msg("run %zu: %s", i, clt_status_name(status));
        assert_int_equal(rec.n, runs[i].step);
        expect_words(runs[i].precision, runs[i].words);
    }
}

/* A scale of 1024 changes only the exponent of a bf16 number, so it must not change a bit of the results. */
TEST(test_exact_unscale)
{
    static const char *const settings[] = {
        "{\"mode\":\"bf16\"}", "{\"mode\":\"bf16\",\"loss_scaling\":\"static\",\"loss_scale\":1024}",
        "{\"mode\":\"bf16\",\"loss_scaling\":\"static\",\"loss_scale\":1000}"};
    static const char *const out[] = {"plain", "scaled", "rounded"};
    record rec = {.n = 0};
    clt_run_result result;
    put_data(-1);
    for (int i = 0; i < 3; i++) {
        CLT_SCOPED(clt_config) *config = mlp_config(settings[i], ADAMW, 8, 12);
        must(train_run(config, out[i], NULL, &rec, &result), out[i]);
        assert_close("scale", 12, rec.step[11].loss_scale, i == 0 ? 1 : i == 1 ? 1024 : 1000, 0);
    }
    assert_true(files_equal("plain/checkpoints/step_12/model.safetensors",
                            "scaled/checkpoints/step_12/model.safetensors"));
    assert_false(files_equal("plain/checkpoints/step_12/model.safetensors",
                             "rounded/checkpoints/step_12/model.safetensors"));
}

/* --- resuming --- */

TEST(test_resume)
{
    record whole = {.n = 0}, rec = {.n = 0};
    clt_run_result result;
    char out[256];
    put_data(22); /* the scale is on the move */
    clt_config *config = mlp_config(SCALING, ADAMW, 4, 20);
    must(train_run(config, "straight", NULL, &whole, &result), "straight");
    clt_run_options options = {.config = config,
                               .caps_mask = OCL_CAPS_ALL,
                               .max_steps = 8,
                               .observer = {.context = &rec, .step = record_step}};
    snprintf(out, sizeof out, "%s", in_dir("broken"));
    options.out_dir = out;
    rec.n = 0;
    must(clt_train(&options, &result), "first part");
    assert_int_equal(rec.n, 8);
    options.max_steps = 0;
    options.resume = "auto";
    must(clt_train(&options, &result), "second part");
    assert_int_equal(rec.n, 20);
    for (int i = 0; i < 20; i++) { /* counters of good steps go on, too */
        assert_close("scale", i + 1, rec.step[i].loss_scale, whole.step[i].loss_scale, 0);
        assert_int_equal(rec.step[i].skipped, whole.step[i].skipped);
    }
    static const char *const files[] = {"model.safetensors", "optimizer.safetensors", "state.json"};
    for (int f = 0; f < 3; f++) {
        char a[128], b[128];
        snprintf(a, sizeof a, "straight/checkpoints/step_20/%s", files[f]);
        snprintf(b, sizeof b, "broken/checkpoints/step_20/%s", files[f]);
        assert_true(files_equal(a, b));
    }
    clt_config_destroy(config);
}

/* The count of steps skipped in a row continues from the end of the first part. */
TEST(test_resume_skipping)
{
    record rec = {.n = 0};
    clt_run_result result;
    char out[256];
    put_data(-1);
    clt_config *config =
        mlp_config("{\"mode\":\"f16\",\"loss_scale\":1e9,\"min_loss_scale\":1e8}", ADAMW, 4, 30);
    set(config, "train.max_nonfinite", "9");
    snprintf(out, sizeof out, "%s", in_dir("skipping"));
    clt_run_options options = {.config = config,
                               .caps_mask = OCL_CAPS_ALL,
                               .out_dir = out,
                               .max_steps = 4,
                               .observer = {.context = &rec, .step = record_step}};
    must(clt_train(&options, &result), "first part");
    assert_int_equal(rec.n, 4);
    options.max_steps = 0;
    options.resume = "auto";
    assert_int_equal(clt_train(&options, &result), CLT_ENUMERIC);
    assert_int_equal(rec.n, 9);
    clt_config_destroy(config);
}

/* --- settings --- */

TEST(test_settings)
{
    static const struct {
        const char *precision, *words;
    } wrong[] = {{"{\"mode\":\"f8\"}", "precision.mode"},
                 {"{\"loss_scaling\":\"dynamic\"}", "f32 gradients need no loss scaling"},
                 {"{\"mode\":\"f16\",\"loss_scaling\":\"static\",\"loss_scale\":0}", "precision.loss_scale"},
                 {"{\"mode\":\"f16\",\"loss_scaling\":\"static\",\"loss_scale\":-2}", "precision.loss_scale"},
                 {"{\"mode\":\"f16\",\"loss_scaling\":\"static\",\"growth\":4}", "only for dynamic"},
                 {"{\"mode\":\"f16\",\"growth\":1}", "precision.growth"},
                 {"{\"mode\":\"f16\",\"backoff\":1}", "precision.backoff"},
                 {"{\"mode\":\"f16\",\"growth_interval\":0}", "precision.growth_interval"},
                 {"{\"mode\":\"bf16\",\"loss_scaling\":\"off\",\"loss_scale\":8}", "loss_scaling is off"},
                 {"{\"mode\":\"f16\",\"loss_scale\":4,\"min_loss_scale\":8}", "precision.min_loss_scale"},
                 {"{\"loss_scale\":8}", "only with precision.mode"},
                 {"{\"mode\":\"f16\"},\"parallel\":{\"gradients\":\"f8\"}", "parallel.gradients"},
                 {"{\"mode\":\"bf16\"},\"parallel\":{\"gradients\":\"f16\"}", "loses small gradients"},
                 {"{\"mode\":\"auto\"},\"parallel\":{\"gradients\":\"f16\"}", "loses small gradients"},
                 {"{\"mode\":\"f16\",\"loss_scaling\":\"off\"},\"parallel\":{\"gradients\":\"f16\"}",
                  "loses small gradients"}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char text[512];
        clt_config *config = NULL;
        snprintf(
            text, sizeof text,
            "{\"model\":{\"type\":\"mlp\"},\"data\":{\"type\":\"synthetic\",\"shape\":[3]},\"precision\":%s}",
            wrong[i].precision);
        clt_error_clear();
        clt_status status = clt_config_parse(text, "test", NULL, 0, &config);
        assert_int_equal(status, CLT_ECONFIG);
        if (!strstr(clt_error_text(), wrong[i].words))
            fail_msg("%s: '%s' is not in: %s", wrong[i].precision, wrong[i].words, clt_error_text());
    }
}

/* With auto the mode is the one that the device has shown to work. */
TEST(test_auto)
{
    static const struct {
        uint32_t caps;
        clt_dtype storage;
    } devices[] = {{0, CLT_F32},
                   {OCL_CAP_FP16, CLT_F32},
                   {OCL_CAP_MMA_F16, CLT_F16},
                   {OCL_CAP_MMA_F16 | OCL_CAP_MMA_BF16, CLT_BF16}};
    put_data(-1);
    CLT_SCOPED(clt_config) *config = mlp_config("{\"mode\":\"auto\"}", SGD, 4, 3);
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++) {
        ocl_device_desc desc;
        CLT_SCOPED(clt_job) *job = NULL;
        ocl_desc_generic(&desc);
        desc.caps |= devices[i].caps;
        must(clt_job_create(config, &desc, 1, CLT_JOB_TRAIN, &job), "job");
        assert_int_equal(job->train->options.storage, devices[i].storage);
        assert_int_equal(job->update.scaling.on, devices[i].storage == CLT_F16);
    }
}

TEST_PROGRAM(.device = true);
