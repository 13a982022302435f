/* SPDX-License-Identifier: Apache-2.0
 *
 * Training compared with double-precision arithmetic in this file: trajectories of every optimizer on a
 * linear regression, schedules, accumulation, ignored targets, evaluation with a padded last batch; and
 * bitwise repeatability, including the bytes of checkpoints. ctest-labels: quick */
#include <math.h>

#include "engine/train/saved/saver.h"
#include "tests/unit/train/train_test.h"

/* --- linear regression: 24 samples of 3 numbers, 2 targets, batches of 8, so that the stream begins again
 * after three batches --- */

#define SAMPLES 24
#define IN 3
#define OUT 2
#define BATCH 8
#define PARAMS (OUT * IN + OUT) /* weight, then bias */
#define STEPS 14

typedef struct regression {
    float x[SAMPLES][IN], y[SAMPLES][OUT], init[PARAMS];
} regression;

static void make_regression(regression *r)
{
    fill_normal(&r->x[0][0], SAMPLES * IN, 1);
    fill_normal(r->init, PARAMS, 2);
    for (int i = 0; i < SAMPLES; i++)
        for (int o = 0; o < OUT; o++)
            r->y[i][o] = r->x[i][o] - 2.0f * r->x[i][2] + 0.5f * (float)o;
    put_npy("rx.npy", "<f4", r->x, SAMPLES, IN);
    put_npy("ry.npy", "<f4", r->y, SAMPLES, OUT);
    put_linear_init("rinit.safetensors", r->init, r->init + OUT * IN, OUT, IN);
}

typedef struct recipe {
    const char *optimizer; /* JSON */
    const clt_optimizer *type;
    double value[CLT_OPTIMIZER_VALUES]; /* values of the optimizer's keys */
    double decay, clip;
    bool decay_all;
} recipe;

static const recipe recipes[] = {
    {"{\"type\":\"sgd\",\"learning_rate\":0.05}", &clt_optimizer_sgd, {0}, 0, 0, false},
    {"{\"type\":\"sgd\",\"learning_rate\":0.05,\"momentum\":0.8,\"weight_decay\":0.1}",
     &clt_optimizer_sgd,
     {0.8},
     0.1,
     0,
     false},
    {"{\"type\":\"sgd\",\"learning_rate\":0.05,\"momentum\":0.8,\"nesterov\":true,\"weight_decay\":0.1,"
     "\"decay\":\"all\","
     "\"clip\":0.5}",
     &clt_optimizer_sgd,
     {0.8, 1},
     0.1,
     0.5,
     true},
    {"{\"type\":\"adam\",\"learning_rate\":0.05,\"beta1\":0.85,\"beta2\":0.95,\"weight_decay\":0.2}",
     &clt_optimizer_adam,
     {0.85, 0.95, 1e-8},
     0.2,
     0,
     false},
    {"{\"type\":\"adamw\",\"learning_rate\":0.05,\"beta1\":0.85,\"beta2\":0.95,\"weight_decay\":0.2,\"clip\":"
     "0.5}",
     &clt_optimizer_adamw,
     {0.85, 0.95, 1e-8},
     0.2,
     0.5,
     false},
};
#define N_RECIPES (sizeof recipes / sizeof recipes[0])

typedef struct host_state {
    double p[PARAMS], state[PARAMS][CLT_OPTIMIZER_STATES];
    int update;
} host_state;

/* Mean squared error over the batch; g gets its gradient. */
static double host_gradient(const regression *r, const double *p, int first, double *g)
{
    double loss = 0;
    memset(g, 0, PARAMS * sizeof *g);
    for (int b = 0; b < BATCH; b++)
        for (int o = 0; o < OUT; o++) {
            const float *x = r->x[(first + b) % SAMPLES];
            double d = p[OUT * IN + o] - (double)r->y[(first + b) % SAMPLES][o];
            for (int i = 0; i < IN; i++)
                d += p[o * IN + i] * (double)x[i];
            loss += d * d / (BATCH * OUT);
            for (int i = 0; i < IN; i++)
                g[o * IN + i] += 2 * d * (double)x[i] / (BATCH * OUT);
            g[OUT * IN + o] += 2 * d / (BATCH * OUT);
        }
    return loss;
}

static double norm_of(const double *g)
{
    double sum = 0;
    for (int i = 0; i < PARAMS; i++)
        sum += g[i] * g[i];
    return sqrt(sum);
}

/* Updates every parameter once with the checker's reference. */
static void host_update(const recipe *c, host_state *s, const double *gradient, double lr)
{
    clt_update_factors f = {.gradient = clt_clip_reference(c->clip, norm_of(gradient)), .lr = lr, .trust = 1};
    s->update++;
    if (c->type->corrections)
        c->type->corrections(c->value, s->update, f.correction);
    for (int i = 0; i < PARAMS; i++) {
        f.decay = c->decay_all || i < OUT * IN ? c->decay : 0;
        c->type->reference(c->value, &f, gradient[i], &s->p[i], s->state[i]);
    }
}

/* Warm-up over 3 updates to 0.05, then half a cosine to 0.01 at update 14. */
static double host_rate(int update)
{
    if (update < 3)
        return 0.05 * (update + 1) / 3;
    return 0.01 + 0.5 * 0.04 * (1 + cos(acos(-1.0) * (update - 3) / (STEPS - 3)));
}

static clt_config *regression_config(const recipe *c)
{
    char text[2048];
    snprintf(
        text, sizeof text,
        "{\"model\":{\"type\":\"mlp\",\"hidden\":[],\"outputs\":%d,\"loss\":\"mse\"},"
        "\"data\":{\"type\":\"npy\",\"path\":\"%%D/rx.npy\",\"targets\":\"%%D/ry.npy\",\"micro_batch\":%d,"
        "\"shuffle\":false,\"workers\":2},\"optimizer\":%s,"
        "\"schedule\":{\"type\":\"cosine\",\"warmup\":3,\"min_learning_rate\":0.01},\"train\":{\"steps\":%d}"
        "}",
        OUT, BATCH, c->optimizer, STEPS);
    return train_config(text);
}

static void check_trajectory(const regression *r, const recipe *c, int index)
{
    host_state s = {.update = 0};
    record rec = {.n = 0};
    clt_run_result result;
    char out[32], file[96];
    float weight[OUT * IN], bias[OUT];
    CLT_SCOPED(clt_config) *config = regression_config(c);
    snprintf(out, sizeof out, "regression%d", index);
    must(train_run(config, out, "rinit.safetensors", &rec, &result), out);
    assert_int_equal(rec.n, STEPS);
    for (int i = 0; i < PARAMS; i++)
        s.p[i] = (double)r->init[i];
    bool clipped = false;
    for (int step = 0; step < STEPS; step++) {
        double g[PARAMS], loss = host_gradient(r, s.p, step * BATCH, g), norm = norm_of(g);
        clipped |= norm > c->clip;
        assert_int_equal(rec.step[step].step, step + 1);
        assert_int_equal(rec.step[step].update, step + 1);
        assert_close("loss", step, rec.step[step].loss, loss, 1e-5 * fmax(1, loss));
        assert_close("norm", step, rec.step[step].grad_norm, norm, 1e-5 * norm);
        assert_close("learning rate", step, rec.step[step].lr, host_rate(step), 1e-8);
        host_update(c, &s, g, host_rate(step));
    }
    assert_true(clipped);
    assert_int_equal(result.updates, STEPS);
    snprintf(file, sizeof file, "%s/checkpoints/step_%d/model.safetensors", out, STEPS);
    file_values(file, "out.weight", weight, OUT * IN);
    file_values(file, "out.bias", bias, OUT);
    for (int i = 0; i < PARAMS; i++)
        assert_close("parameter", STEPS, (double)(i < OUT * IN ? weight[i] : bias[i - OUT * IN]), s.p[i],
                     1e-5);
}

TEST(test_trajectories)
{
    regression r;
    make_regression(&r);
    for (size_t i = 0; i < N_RECIPES; i++)
        check_trajectory(&r, &recipes[i], (int)i);
}

/* Other ways from a config to a learning rate, including --max-steps, which ends a run but does not change
 * the schedule. */
TEST(test_max_steps)
{
    regression r;
    record rec = {.n = 0};
    clt_run_result result;
    make_regression(&r);
    CLT_SCOPED(clt_config) *config = regression_config(&recipes[0]);
    clt_run_options options = {.config = config,
                               .caps_mask = OCL_CAPS_ALL,
                               .max_steps = 5,
                               .observer = {.context = &rec, .step = record_step}};
    must(clt_train(&options, &result), "train");
    assert_int_equal(rec.n, 5);
    assert_int_equal(result.steps, 5);
    for (int step = 0; step < 5; step++)
        assert_close("learning rate", step, rec.step[step].lr, host_rate(step), 1e-8);
}

/* --- schedules --- */

static void check_rates(const clt_schedule *s, const char *name, const int64_t *updates, const double *rates,
                        int count)
{
    for (int i = 0; i < count; i++)
        if (!(fabs(clt_schedule_rate(s, updates[i]) - rates[i]) <= 1e-12))
            fail_msg("%s at update %d: %.15g, expected %.15g", name, (int)updates[i],
                     clt_schedule_rate(s, updates[i]), rates[i]);
}

TEST(test_schedules)
{
    clt_schedule s = {.peak = 0.8, .min = 0.2, .warmup = 4, .horizon = 104, .every = 30, .factor = 0.5};
    /* updates:                  0    1    2    3    4    29             54   79             104  500 */
    static const int64_t at[] = {0, 1, 2, 3, 4, 29, 54, 79, 104, 500};
    const double root = sqrt(0.5);
    const double constant[] = {0.2, 0.4, 0.6, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8, 0.8};
    const double linear[] = {0.2, 0.4, 0.6, 0.8, 0.8, 0.65, 0.5, 0.35, 0.2, 0.2};
    const double cosine[] = {0.2, 0.4, 0.6, 0.8, 0.8, 0.5 + 0.3 * root, 0.5, 0.5 - 0.3 * root, 0.2, 0.2};
    s.type = CLT_SCHEDULE_CONSTANT;
    check_rates(&s, "constant", at, constant, 10);
    s.type = CLT_SCHEDULE_LINEAR;
    check_rates(&s, "linear", at, linear, 10);
    s.type = CLT_SCHEDULE_COSINE;
    check_rates(&s, "cosine", at, cosine, 10);
    s.type = CLT_SCHEDULE_STEP; /* halved every 30 updates after warm-up, not below 0.2 */
    static const int64_t step_at[] = {0, 4, 33, 34, 63, 64, 94, 1000};
    const double step[] = {0.2, 0.8, 0.8, 0.4, 0.4, 0.2, 0.2, 0.2};
    check_rates(&s, "step", step_at, step, 8);
    s.type = CLT_SCHEDULE_POLY; /* (1 - (u + 1) / 104)^0.5, not below 0.2 */
    s.power = 0.5;
    static const int64_t poly_at[] = {0, 3, 4, 25, 51, 77, 98, 103, 500};
    const double poly[] = {0.2, 0.8, 0.8 * sqrt(99.0 / 104), 0.8 * sqrt(0.75), 0.8 * root, 0.4, 0.2,
                           0.2, 0.2};
    check_rates(&s, "poly", poly_at, poly, 9);
    s.type = CLT_SCHEDULE_WSD; /* the last fifth (rounded up: 21 updates), 1 - sqrt */
    static const int64_t wsd_at[] = {0, 3, 4, 82, 83, 84, 104, 300};
    const double wsd[] = {0.2, 0.8, 0.8, 0.8, 0.8, 0.2 + 0.6 * (1 - sqrt(1.0 / 21)), 0.2, 0.2};
    check_rates(&s, "wsd", wsd_at, wsd, 8);
    s.decay_steps = 4;
    static const int64_t short_at[] = {99, 100, 101, 103, 104};
    const double tail[] = {0.8, 0.8, 0.2 + 0.6 * 0.5, 0.2 + 0.6 * (1 - sqrt(0.75)), 0.2};
    check_rates(&s, "wsd with decay_steps", short_at, tail, 5);
}

TEST(test_schedule_edges)
{
    for (int type = CLT_SCHEDULE_CONSTANT; type <= CLT_SCHEDULE_WSD; type++) {
        clt_schedule s = {
            .type = (clt_schedule_type)type, .peak = 1, .horizon = 1, .every = 1, .factor = 0.5};
        for (int64_t warmup = 0; warmup < 3; warmup++) { /* a warm-up as long as the run, or longer */
            s.warmup = warmup;
            for (int64_t u = 0; u < 4; u++) {
                double rate = clt_schedule_rate(&s, u);
                assert_true(rate >= 0 && rate <= 1);
            }
        }
        s = (clt_schedule){.type = (clt_schedule_type)type,
                           .peak = 1,
                           .min = 0.1,
                           .warmup = 10,
                           .horizon = 100,
                           .every = 20,
                           .factor = 0.5};
        for (int64_t u = 10; u < 120; u++) /* after warm-up the rate never rises, and stays in its range */
            assert_true(clt_schedule_rate(&s, u) >= clt_schedule_rate(&s, u + 1) &&
                        clt_schedule_rate(&s, u) >= 0.1 - 1e-12);
    }
    clt_schedule s = {.type = CLT_SCHEDULE_LINEAR, .peak = 1, .horizon = 8};
    enum { UPDATES = 5000 }; /* from 3,725 on, 1 - 0.99^u is 1 */
    clt_job job = {.steps = UPDATES,
                   .schedule = s,
                   .update = {.optimizer = &clt_optimizer_adam, .value = {0.9, 0.99, 1e-8}}};
    static float table[UPDATES * 4];
    clt_job_table(&job, table);
    for (int u = 0; u < UPDATES; u++) {
        assert_close("rate", u, (double)table[4 * u], fmax(1 - u / 8.0, 0), 1e-7);
        assert_float_equal(table[4 * u + 1], (float)(1 - pow(0.9, u + 1)), 0);
        assert_float_equal(table[4 * u + 2], (float)(1 - pow(0.99, u + 1)), 0);
    }
}

TEST(a_schedule_fits_into_the_run)
{
    static const int64_t cases[][6] = {
        /* given: steps, warm-up, decay; results: warm-up and decay of a wsd schedule; warm-up of others */
        {100, 12, 0, 12, 0, 12},   {12, 12, 0, 12, 0, 12}, {4, 12, 0, 1, 0, 1},     {200, 300, 0, 20, 0, 20},
        {100, 60, 50, 10, 10, 60}, {3, 0, 9, 0, 1, 0},     {100, 5, 200, 5, 10, 5}, {1, 7, 7, 1, 1, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t *c = cases[i];
        clt_schedule s = {.type = CLT_SCHEDULE_WSD, .peak = 1, .warmup = c[1], .decay_steps = c[2]};
        clt_schedule_span(&s, c[0]);
        assert_int_equal(s.horizon, c[0]);
        assert_int_equal(s.warmup, c[3]);
        assert_int_equal(s.decay_steps, c[4]);
        s = (clt_schedule){.type = CLT_SCHEDULE_LINEAR, .peak = 1, .warmup = c[1], .decay_steps = c[2]};
        clt_schedule_span(&s, c[0]);
        assert_int_equal(s.warmup, c[5]);
    }
}

/* --- classification with targets that do not count --- */

#define CSAMPLES 60
#define CIN 5
#define CLASSES 4
#define IGNORE (-1)

typedef struct classes {
    float x[CSAMPLES][CIN], weight[CLASSES][CIN], bias[CLASSES];
    int32_t y[CSAMPLES];
} classes;

/* Saves step 0 into the folder and waits for it. */
static clt_status save_run(clt_run *run, const char *folder)
{
    CLT_SCOPED(clt_saver) *saver = NULL;
    clt_save_result result = {0};
    clt_saved_state state = CLT_SAVED_STATE_NEW;
    const clt_retention retention = {.best = -1};
    bool have = false;
    CLT_TRY(clt_saver_create(run, folder, &saver));
    CLT_TRY(clt_saver_begin(saver, 0, &state, &retention));
    CLT_TRY(clt_saver_poll(saver, CLT_SAVER_WAIT, &result, &have));
    return clt_error_put(&result.error);
}

/* Of samples 0 to 3 all targets count, of 4 to 7 none, of the others some. */
static void make_classes(classes *c)
{
    fill_normal(&c->x[0][0], CSAMPLES * CIN, 3);
    fill_normal(&c->weight[0][0], CLASSES * CIN, 4);
    fill_normal(c->bias, CLASSES, 5);
    for (int i = 0; i < CSAMPLES; i++) {
        uint32_t word = clt_rng_u32(6, CLT_RNG_VERIFY, 0, 0, (uint64_t)i);
        c->y[i] = (int32_t)(word >> 8) % CLASSES;
        if ((i >= 4 && i < 8) || (i >= 8 && word % 3 == 0))
            c->y[i] = IGNORE;
    }
    put_npy("cx.npy", "<f4", c->x, CSAMPLES, CIN);
    put_npy("cy.npy", "<i4", c->y, CSAMPLES, 0);
    put_linear_init("cinit.safetensors", &c->weight[0][0], c->bias, CLASSES, CIN);
}

static clt_config *classes_config(int micro, int global, const char *hidden)
{
    char text[2048];
    snprintf(
        text, sizeof text,
        "{\"model\":{\"type\":\"mlp\",\"hidden\":%s,\"outputs\":%d,\"ignore_index\":%d},"
        "\"data\":{\"type\":\"npy\",\"path\":\"%%D/cx.npy\",\"targets\":\"%%D/cy.npy\",\"micro_batch\":%d,"
        "\"global_batch\":%d,\"shuffle\":false,\"workers\":2},"
        "\"optimizer\":{\"type\":\"sgd\",\"learning_rate\":0.1,\"momentum\":0.9},\"train\":{\"steps\":10}}",
        hidden, CLASSES, IGNORE, micro, global);
    return train_config(text);
}

/* Sum of the loss of samples [first, last) with the initial parameters; counts targets and hits. */
static double host_cross_entropy(const classes *c, int first, int last, int *counted, int *hits)
{
    double sum = 0;
    *counted = *hits = 0;
    for (int i = first; i < last; i++) {
        double logit[CLASSES], total = 0;
        int best = 0;
        if (c->y[i] == IGNORE)
            continue;
        for (int k = 0; k < CLASSES; k++) {
            logit[k] = (double)c->bias[k];
            for (int j = 0; j < CIN; j++)
                logit[k] += (double)c->weight[k][j] * (double)c->x[i][j];
            best = logit[k] > logit[best] ? k : best;
            total += exp(logit[k]);
        }
        sum += log(total) - logit[c->y[i]];
        ++*counted;
        *hits += best == c->y[i];
    }
    return sum;
}

/* The mean is over all targets of the global batch (its three micro-batches have 4, 0 and some), not over
 * three means. */
TEST(test_ignored_targets)
{
    classes c;
    int counted, hits, part[3], none;
    make_classes(&c);
    double sum = host_cross_entropy(&c, 0, 12, &counted, &hits), of_means = 0;
    for (int i = 0; i < 3; i++) {
        double mean = host_cross_entropy(&c, 4 * i, 4 * i + 4, &part[i], &none);
        of_means += part[i] ? mean / part[i] / 3 : 0;
    }
    assert_true(part[0] == 4 && part[1] == 0 && part[2] > 0 && part[2] < 4);
    assert_true(fabs(of_means - sum / counted) > 0.05); /* the test would detect the wrong mean */
    for (int micro = 4; micro <= 12; micro += 8) {
        record rec = {.n = 0};
        clt_run_result result;
        CLT_SCOPED(clt_config) *config = classes_config(micro, 12, "[]");
        set(config, "train.steps", "1");
        must(train_run(config, NULL, "cinit.safetensors", &rec, &result), "train");
        assert_close("loss", 1, rec.step[0].loss, sum / counted, 1e-5);
        assert_close("accuracy", 1, rec.step[0].accuracy, (double)hits / counted, 1e-6);
    }
}

/* A global batch without any target: loss 0, no gradient, no NaN, and the run continues. */
TEST(test_nothing_counts)
{
    classes c;
    record rec = {.n = 0};
    clt_run_result result;
    make_classes(&c);
    for (int i = 0; i < 8; i++)
        c.y[i] = IGNORE;
    put_npy("cy.npy", "<i4", c.y, CSAMPLES, 0);
    CLT_SCOPED(clt_config) *config = classes_config(4, 8, "[]");
    set(config, "train.steps", "2");
    must(train_run(config, NULL, "cinit.safetensors", &rec, &result), "train");
    assert_true(fabs(rec.step[0].loss) < 1e-30 && fabs(rec.step[0].grad_norm) < 1e-30);
    assert_false(rec.step[0].nonfinite);
    assert_true(rec.step[1].loss > 0.1 && rec.step[1].grad_norm > 0.01);
}

TEST(test_accumulation)
{
    classes c;
    static const char *const tensors[] = {"fc1.weight", "fc1.bias", "out.weight", "out.bias"};
    static const int sizes[] = {9 * CIN, 9, CLASSES * 9, CLASSES};
    make_classes(&c);
    record rec[2];
    for (int i = 0; i < 2; i++) {
        clt_run_result result;
        CLT_SCOPED(clt_config) *config = classes_config(i ? 4 : 12, 12, "[9]");
        memset(&rec[i], 0, sizeof rec[i]);
        must(train_run(config, i ? "three" : "one", NULL, &rec[i], &result), "train");
    }
    for (int step = 0; step < 10; step++) {
        assert_close("loss", step, rec[1].step[step].loss, rec[0].step[step].loss, 1e-6);
        assert_close("norm", step, rec[1].step[step].grad_norm, rec[0].step[step].grad_norm, 1e-6);
    }
    for (int t = 0; t < 4; t++) {
        float a[64], b[64];
        file_values("one/checkpoints/step_10/model.safetensors", tensors[t], a, sizes[t]);
        file_values("three/checkpoints/step_10/model.safetensors", tensors[t], b, sizes[t]);
        for (int i = 0; i < sizes[t]; i++)
            assert_close(tensors[t], 10, (double)b[i], (double)a[i], 1e-6);
    }
}

/* 26 samples in micro-batches of 8: the last one is padded with six that must not count. */
TEST(test_evaluation)
{
    classes c;
    int counted, hits;
    clt_eval_metrics m;
    make_classes(&c);
    put_npy("ex.npy", "<f4", c.x, 26, CIN);
    put_npy("ey.npy", "<i4", c.y, 26, 0);
    double sum = host_cross_entropy(&c, 0, 26, &counted, &hits);
    CLT_SCOPED(clt_config) *config = classes_config(8, 8, "[]");
    char path[256], value[300];
    snprintf(value, sizeof value, "[\"%s\"]", in_dir("ex.npy"));
    set(config, "data.eval_path", value);
    snprintf(value, sizeof value, "\"%s\"", in_dir("ey.npy"));
    set(config, "data.eval_targets", value);
    snprintf(path, sizeof path, "%s", in_dir("cinit.safetensors"));
    clt_run_options options = {.config = config, .caps_mask = OCL_CAPS_ALL, .init = path};
    must(clt_evaluate(&options, &m), "evaluate");
    assert_int_equal(m.samples, 26);
    assert_int_equal(m.targets, counted);
    assert_close("loss", 0, m.loss, sum / counted, 1e-5);
    assert_close("accuracy", 0, m.accuracy, (double)hits / counted, 1e-6);
    /* the same within a training whose learning rate is too small to change anything */
    record rec = {.n = 0};
    clt_run_result result;
    set(config, "optimizer.learning_rate", "1e-20");
    set(config, "train.steps", "4");
    set(config, "train.eval_every", "2");
    must(train_run(config, NULL, "cinit.safetensors", &rec, &result), "train");
    assert_int_equal(rec.n_evals, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(rec.eval[i].step, 2 * i + 2);
        assert_int_equal(rec.eval[i].samples, 26);
        assert_close("loss", i, rec.eval[i].loss, m.loss, 1e-12);
    }
}

/* --- repeatability --- */

static clt_config *repeat_config(void)
{
    return train_config(
        "{\"model\":{\"type\":\"mlp\",\"hidden\":[33,21],\"activation\":\"gelu\",\"dropout\":0.3},"
        "\"data\":{\"type\":\"synthetic\",\"shape\":[19],\"classes\":5,\"samples\":100,\"micro_batch\":8,"
        "\"global_batch\":16,\"workers\":1},"
        "\"optimizer\":{\"type\":\"adamw\",\"weight_decay\":0.1,\"clip\":0.5},"
        "\"train\":{\"steps\":20,\"seed\":11}}");
}

TEST(test_determinism)
{
    record rec = {.n = 0};
    clt_run_result result;
    CLT_SCOPED(clt_config) *config = repeat_config();
    must(train_run(config, "first", NULL, &rec, &result), "train");
    set(config, "data.workers", "3"); /* neither threads nor prefetching may change a bit */
    set(config, "data.prefetch", "7");
    must(train_run(config, "second", NULL, &rec, &result), "train");
    set(config, "train.seed", "12");
    must(train_run(config, "third", NULL, &rec, &result), "train");
    assert_true(files_equal("first/checkpoints/step_20/model.safetensors",
                            "second/checkpoints/step_20/model.safetensors"));
    assert_true(files_equal("first/checkpoints/step_20/optimizer.safetensors",
                            "second/checkpoints/step_20/optimizer.safetensors"));
    assert_false(files_equal("first/checkpoints/step_20/model.safetensors",
                             "third/checkpoints/step_20/model.safetensors"));
}

/* A million parameters, so that the norm takes all of its stages. With plain SGD, what a step subtracts
 * from the parameters is the gradient. */
TEST(test_norm_of_many)
{
    enum { WIDE_IN = 1100, WIDE_OUT = 900, WEIGHTS = WIDE_IN * WIDE_OUT };
    static float before[WEIGHTS], after[WEIGHTS];
    record rec = {.n = 0};
    clt_run_result result;
    CLT_SCOPED(clt_config) *config = train_config(
        "{\"model\":{\"type\":\"mlp\",\"hidden\":[],\"outputs\":900},"
        "\"data\":{\"type\":\"synthetic\",\"shape\":[1100],\"classes\":900,\"samples\":16,\"micro_batch\":8,"
        "\"workers\":1},\"optimizer\":{\"type\":\"sgd\",\"learning_rate\":8,\"momentum\":0},"
        "\"schedule\":{\"type\":\"constant\"},\"checkpoint\":{\"every\":1},\"train\":{\"steps\":3}}");
    must(train_run(config, "many", NULL, &rec, &result), "train");
    static const char *const tensors[] = {"out.weight", "out.bias"};
    static const int sizes[] = {WEIGHTS, WIDE_OUT};
    double sum = 0;
    for (int t = 0; t < 2; t++) {
        file_values("many/checkpoints/step_1/model.safetensors", tensors[t], before, sizes[t]);
        file_values("many/checkpoints/step_2/model.safetensors", tensors[t], after, sizes[t]);
        for (int i = 0; i < sizes[t]; i++)
            sum += pow(((double)before[i] - (double)after[i]) / 8, 2);
    }
    assert_true(sum > 0);
    assert_close("norm", 2, rec.step[1].grad_norm, sqrt(sum), 1e-5 * sqrt(sum));
}

/* From a file into the store and back into a file: equal bytes. */
TEST(test_init_round_trip)
{
    char folder[256];
    clt_run *run;
    record rec = {.n = 0};
    clt_run_result result;
    CLT_SCOPED(clt_config) *config = repeat_config();
    must(train_run(config, "source", NULL, &rec, &result), "train");
    clt_run_options options = {.config = config, .caps_mask = OCL_CAPS_ALL};
    must(clt_run_create(&options, CLT_JOB_TRAIN, &run), "run");
    must(clt_run_load_parameters(run, in_dir("source/checkpoints/step_20/model.safetensors")), "load");
    snprintf(folder, sizeof folder, "%s", in_dir("copy"));
    must(save_run(run, folder), "save");
    assert_true(files_equal("source/checkpoints/step_20/model.safetensors", "copy/step_0/model.safetensors"));
    /* the same through pinned memory, as on GPUs */
    ocl_device_desc *desc = (ocl_device_desc *)(uintptr_t)ocl_device_describe(run->device);
    desc->is_cpu = false;
    snprintf(folder, sizeof folder, "%s", in_dir("pinned"));
    must(save_run(run, folder), "save through pinned memory");
    assert_true(
        files_equal("source/checkpoints/step_20/model.safetensors", "pinned/step_0/model.safetensors"));
    assert_true(files_equal("copy/step_0/optimizer.safetensors", "pinned/step_0/optimizer.safetensors"));
    must(clt_run_load_parameters(run, in_dir("source")), "load a run folder");
    clt_run_destroy(run);
}

TEST(test_init_refusals)
{
    regression r;
    record rec = {.n = 0};
    clt_run_result result;
    make_regression(&r);
    CLT_SCOPED(clt_config) *config = regression_config(&recipes[0]);
    put_linear_init("wide.safetensors", &r.x[0][0], r.init, OUT, IN + 1);
    assert_int_equal(train_run(config, "refused", "wide.safetensors", &rec, &result), CLT_ECHECKPOINT);
    assert_non_null(strstr(clt_error_text(), "out.weight is ["));
    clt_named_tensor one = {"out.weight", CLT_F32, clt_shape2(OUT, IN), r.init};
    must(clt_safetensors_write(in_dir("half.safetensors"), &one, 1, NULL, 0, NULL), "half");
    assert_int_equal(train_run(config, "refused", "half.safetensors", &rec, &result), CLT_ECHECKPOINT);
    assert_non_null(strstr(clt_error_text(), "out.bias is missing"));
    assert_int_equal(train_run(config, "refused", "absent.safetensors", &rec, &result), CLT_ECHECKPOINT);
    assert_false(clt_file_exists(in_dir("refused"))); /* refused before the run folder is made */
}

TEST_PROGRAM(.device = true);
