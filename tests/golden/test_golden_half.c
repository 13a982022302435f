/* SPDX-License-Identifier: Apache-2.0
 *
 * Half-precision training compared with PyTorch's autocast and GradScaler (make_golden_half.py;
 * data/gpt_half.*): loss curves of 100 steps in f16 and bf16 with SGD and AdamW, compared with our own f32
 * and with PyTorch's; and runs in which a gradient gets Inf or NaN at given steps and micro-batches: scale,
 * good steps since its last change, applied updates and learning rate must be GradScaler's to the bit, and
 * a skipped step must leave every byte of parameters, their 16-bit copies and optimizer state alone. Needs
 * a device, no PyTorch.
 * ctest-labels: quick ctest-optimise: no ctest-programs: kept ctest-full: all ctest-cost: 40 */
#include "tests/unit/train/train_test.h"

#define DATA CLT_TEST_SOURCE_DIR "/tests/golden/data/"
#define STEPS 100
#define BATCH 15

/* The largest distance of two curves at one step, and on average. */
#define AT_MOST 5e-2
#define ON_AVERAGE 2e-2

static clt_config *make_config(const char *mode, bool adamw, int micro_batch)
{
    char text[2048];
    clt_config *config;
    snprintf(text, sizeof text,
             "{\"model\": {\"type\": \"gpt\", \"layers\": 2, \"heads\": 3, \"channels\": 15, \"context\": 7, "
             "\"vocab\": 29, \"vocab_pad\": 16}, \"data\": {\"type\": \"npy\", \"path\": \"" DATA
             "gpt_x.npy\", \"targets\": \"" DATA "gpt_y.npy\", \"micro_batch\": %d, \"global_batch\": %d, "
             "\"shuffle\": false, \"workers\": 1}, \"optimizer\": %s, \"precision\": {\"mode\": \"%s\"}, "
             "\"train\": {\"steps\": %d}}",
             micro_batch, BATCH,
             adamw ? "{\"type\": \"adamw\", \"learning_rate\": 0.001, \"beta1\": 0.9, \"beta2\": 0.99, "
                     "\"weight_decay\": 0.1, \"clip\": 1}"
                   : "{\"type\": \"sgd\", \"learning_rate\": 0.01, \"momentum\": 0.9, \"nesterov\": true, "
                     "\"weight_decay\": 0.01, \"decay\": \"all\"}",
             mode, STEPS);
    must(clt_config_parse(text, "gpt_half", NULL, 0, &config), "config");
    return config;
}

static void golden(const char *run, const char *what, float *out, int64_t rows)
{
    char name[64];
    CLT_SCOPED(clt_safetensors) *file = NULL;
    snprintf(name, sizeof name, "%s.%s", run, what);
    must(clt_safetensors_open(DATA "gpt_half.safetensors", &file), "golden file");
    const clt_named_tensor *tensor = clt_safetensors_find(file, name);
    if (!tensor)
        fail_msg("the golden file has no tensor '%s'", name);
    assert_int_equal(tensor->shape.dim[0], rows);
    must(clt_named_tensor_to_f32(tensor, out), name);
}

/* near: 0, or the lower limit of the average distance. */
static void compare_curves(const char *what, const float *got, const float *want, double nearest)
{
    double mean = 0, worst = 0;
    for (int i = 0; i < STEPS; i++) {
        double apart = fabs((double)got[i] - (double)want[i]);
        if (!(apart <= AT_MOST))
            fail_msg("%s, step %d: loss %.6f, the other curve has %.6f", what, i + 1, (double)got[i],
                     (double)want[i]);
        mean += apart / STEPS;
        worst = fmax(worst, apart);
    }
    if (getenv("CLT_GOLDEN_SHOW"))
        fprintf(stderr, "  %-24s %.1e at most, %.1e on average\n", what, worst, mean);
    if (!(mean <= ON_AVERAGE && mean >= nearest))
        fail_msg("%s: %.3g apart on average, expected %.3g to %.3g", what, mean, nearest, ON_AVERAGE);
}

/* --- curves --- */

static void note_loss(void *context, const clt_step_metrics *m)
{
    assert_in_range(m->step, 1, STEPS);
    ((float *)context)[m->step - 1] = (float)m->loss;
}

static void train_curve(const char *mode, bool adamw, const char *init, float loss[STEPS])
{
    CLT_SCOPED(clt_config) *config = make_config(mode, adamw, BATCH);
    clt_run_result result;
    if (strcmp(mode, "f16") == 0)
        set(config, "precision.loss_scale", "1024");
    clt_run_options options = {.config = config,
                               .caps_mask = OCL_CAPS_ALL,
                               .init = init,
                               .observer = {.context = loss, .step = note_loss}};
    must(clt_train(&options, &result), mode);
    assert_int_equal(result.steps, STEPS);
    assert_int_equal(result.skipped, 0);
}

static void check_curves(bool adamw)
{
    static const char *const modes[] = {"f32", "f16", "bf16"};
    float loss[3][STEPS], torch[STEPS];
    char what[64];
    for (int m = 0; m < 3; m++) {
        train_curve(modes[m], adamw, DATA "gpt_init.safetensors", loss[m]);
        snprintf(what, sizeof what, "%s.%s", adamw ? "adamw" : "sgd", modes[m]);
        golden(what, "loss", torch, STEPS);
        compare_curves(what, loss[m], torch, 0);
        if (m > 0) {
            snprintf(what, sizeof what, "%s %s beside f32", adamw ? "adamw" : "sgd", modes[m]);
            compare_curves(what, loss[m], loss[0], 1e-5); /* and the run was not in f32 */
        }
    }
}

TEST(test_sgd)
{
    if (!run_everything)
        skip();
    check_curves(false);
}

TEST(test_adamw)
{
    check_curves(true);
}

/* --- steps that are not finite --- */

typedef struct half_case {
    const char *name, *mode;
    bool adamw;
    int micro_batch;
    const char *scale, *growth, *backoff, *interval;
    int injections;
} half_case;

static const half_case cases[] = {{"plain", "f16", true, 15, "512", "2", "0.5", "4", 15},
                                  {"parts", "f16", false, 5, "256", "1.5", "0.75", "4", 15},
                                  {"adam_parts", "f16", true, 5, "1024", "2", "0.5", "5", 15},
                                  {"odd", "f16", false, 15, "300", "1.7", "0.37", "3", 15},
                                  {"bf16", "bf16", true, 15, "64", "4", "0.125", "5", 15}};

static const clt_arena_kind kept[] = {CLT_ARENA_PARAM, CLT_ARENA_WORK, CLT_ARENA_OPT1, CLT_ARENA_OPT2};
#define KEPT 4

typedef struct snapshot {
    unsigned char *bytes[KEPT];
    size_t size[KEPT];
} snapshot;

static void take_snapshot(const clt_run *run, snapshot *s)
{
    assert_int_equal(run->store->layout->n_slabs, 1);
    for (int k = 0; k < KEPT; k++) {
        s->size[k] = (size_t)clt_store_slab_bytes(run->store->layout, kept[k], 0);
        s->bytes[k] = realloc(s->bytes[k], s->size[k] + 1);
        assert_non_null(s->bytes[k]);
        if (s->size[k])
            must(ocl_read(run->store->slab[kept[k]][0], 0, s->bytes[k], s->size[k]), "snapshot");
    }
}

static clt_run *create_run(const half_case *c, const clt_run_options *options)
{
    clt_run *run;
    must(clt_run_create(options, CLT_JOB_TRAIN, &run), "run");
    must(clt_run_load_parameters(run, DATA "gpt_init.safetensors"), "initial parameters");
    clt_feed_options feed = {.realized = run->train,
                             .source = run->job->train_source,
                             .global_batch = BATCH,
                             .accumulation = BATCH / c->micro_batch,
                             .ranks = 1,
                             .last_step = STEPS,
                             .workers = 1,
                             .prefetch = 4};
    must(clt_feed_create(&feed, &run->feed), "feed");
    must(clt_reporter_create(run->train, 2, &run->reporter), "reporter");
    return run;
}

static void inject(const clt_run *run, int kind)
{
    const float value = kind == 0 ? INFINITY : kind == 1 ? -INFINITY : NAN;
    const clt_store_slot *slot = clt_store_layout_find(run->store->layout, "h.1.mlp.c_fc.weight");
    assert_non_null(slot);
    must(ocl_write(run->store->slab[CLT_ARENA_GRAD][slot->slab], (slot->offset + 50) * sizeof value, &value,
                   sizeof value),
         "injection");
}

/* Like clt_step, but injects a value after the backward pass of the micro-batch it is for. True: a value
 * was injected. */
static bool step_with(clt_run *run, int step, const float (*injections)[3], int count)
{
    bool any = false;
    clt_fed fed;
    for (int micro = 0; micro < run->job->accumulation; micro++) {
        must(clt_feed_next(run->feed, &fed), "feed");
        must(clt_realized_run(run->train, CLT_PHASE_FORWARD), "forward");
        must(clt_realized_run(run->train, micro == 0 ? CLT_PHASE_BACKWARD : CLT_PHASE_BACKWARD_ADD),
             "backward");
        for (int i = 0; i < count; i++)
            if ((int)injections[i][0] == step && (int)injections[i][1] == micro) {
                inject(run, (int)injections[i][2]);
                any = true;
            }
    }
    must(clt_realized_run(run->train, CLT_PHASE_SYNC), "sync");
    must(clt_realized_run(run->train, CLT_PHASE_UPDATE), "update");
    must(clt_reporter_post(run->reporter, step), "report");
    return any;
}

static void check_kept(const half_case *c, int step, const snapshot *before, const snapshot *after, bool same)
{
    for (int k = 0; k < KEPT; k++)
        if (before->size[k] && (memcmp(before->bytes[k], after->bytes[k], before->size[k]) == 0) != same)
            fail_msg("%s, step %d: arena %d should %sbe as it was", c->name, step, (int)kept[k],
                     same ? "" : "not ");
}

static void equal(const half_case *c, const char *what, int step, double got, float want)
{
    if (memcmp(&(float){(float)got}, &want, sizeof want) != 0)
        fail_msg("%s, step %d: %s is %.9g, GradScaler has %.9g", c->name, step, what, got, (double)want);
}

static void run_case(const half_case *c)
{
    float loss[STEPS], got[STEPS], scale[STEPS], tracker[STEPS], update[STEPS], lr[STEPS], injections[32][3];
    snapshot before = {0}, after = {0};
    clt_step_result r;
    bool have;
    golden(c->name, "loss", loss, STEPS);
    golden(c->name, "scale", scale, STEPS);
    golden(c->name, "tracker", tracker, STEPS);
    golden(c->name, "update", update, STEPS);
    golden(c->name, "lr", lr, STEPS);
    golden(c->name, "inject", &injections[0][0], c->injections);
    CLT_SCOPED(clt_config) *config = make_config(c->mode, c->adamw, c->micro_batch);
    set(config, "precision.loss_scaling", "dynamic");
    set(config, "precision.loss_scale", c->scale);
    set(config, "precision.growth", c->growth);
    set(config, "precision.backoff", c->backoff);
    set(config, "precision.growth_interval", c->interval);
    set(config, "schedule.type", "cosine");
    set(config, "schedule.warmup", "10");
    set(config, "schedule.min_learning_rate", c->adamw ? "0.0001" : "0.001");
    clt_run_options options = {.config = config, .caps_mask = OCL_CAPS_ALL};
    CLT_SCOPED(clt_run) *run = create_run(c, &options);
    take_snapshot(run, &before);
    for (int step = 0; step < STEPS; step++) {
        bool bad = step_with(run, step, (const float(*)[3])injections, c->injections);
        must(clt_reporter_take(run->reporter, true, &r, &have), "report");
        assert_true(have);
        assert_int_equal(r.state.skip, bad);
        equal(c, "scale", step + 1, (double)r.state.loss_scale, scale[step]);
        equal(c, "number of good steps", step + 1, r.state.growth, tracker[step]);
        equal(c, "number of updates", step + 1, r.state.update, update[step]);
        assert_close("learning rate", step + 1, (double)r.state.lr, (double)lr[step], 1e-6 * (double)lr[0]);
        double correction =
            c->adamw ? 1 - pow(0.9, (double)update[step] + bad) : 0; /* of the attempted update */
        assert_close("correction", step + 1, (double)r.state.correction1, correction, 1e-6);
        take_snapshot(run, &after);
        check_kept(c, step + 1, &before, &after, bad);
        snapshot turn = before;
        before = after;
        after = turn;
        got[step] = r.loss[0][0];
    }
    compare_curves(c->name, got, loss, 0);
    for (int k = 0; k < KEPT; k++) {
        free(before.bytes[k]);
        free(after.bytes[k]);
    }
}

TEST(test_injected)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        run_case(&cases[i]);
}

/* Parameters from a file of 16-bit numbers, under the names of published files: the same run. */
TEST(test_published)
{
    static const char *const modes[] = {"f16", "bf16"};
    for (int m = 0; m < (run_everything ? 2 : 1); m++) {
        float loss[2][STEPS];
        train_curve(modes[m], true, DATA "gpt_init.safetensors", loss[0]);
        train_curve(modes[m], true, DATA "gpt_published.safetensors", loss[1]);
        assert_memory_equal(loss[0], loss[1], sizeof loss[0]);
    }
}

TEST_PROGRAM(.device = true);
