/* SPDX-License-Identifier: Apache-2.0
 *
 * Golden parity of model.type bert with transformers (make_golden_bert.py; data/hf_bert_*), for each of its
 * heads and texts of different lengths: the config follows from config.json; logits within 1e-4 of their
 * largest, each gradient of step 1 within 1e-3, ten losses of AdamW and of LAMB agree, and f16 and bf16 are
 * about as far from f32 as torch.autocast is (LAMB and the halves of most heads in the label full only).
 * Mistakes that an import could make change the logits by more than that. Needs a device, but no Python.
 * ctest-labels: quick ctest-optimise: no ctest-programs: kept ctest-full: all ctest-cost: 60 */
#include "tests/golden/golden_run.h"

#include "engine/pretrained/pretrained.h"

#define STEPS 10
#define TEXTS 4
#define HALF_AT_MOST 3 /* as in test_golden_llama.c */
/* The storage type, precision.residual, and how many times as far from f32 as torch.autocast the heads may
 * be on average. They are farther with 16-bit sums, which every norm of these post-norm blocks reads. */
static const struct {
    const char *mode, *residual;
    double on_average;
} halves[] = {{"f16", "mode", 1.25}, {"bf16", "mode", 1.4}, {"f16", "f32", 1.1}, {"bf16", "f32", 1.1}};
#define ADAMW                                                                                                \
    "\"type\": \"adamw\", \"learning_rate\": 0.003, \"beta1\": 0.9, \"beta2\": 0.99, \"weight_decay\": "     \
    "0.1, \"clip\": 0"
#define LAMB                                                                                                 \
    "\"type\": \"lamb\", \"learning_rate\": 0.01, \"beta1\": 0.9, \"beta2\": 0.999, \"eps\": 1e-6, "         \
    "\"weight_decay\": 0.01, \"clip\": 1"

static const char *const kinds[] = {"pretrain", "masked", "class", "tokens", "span", "number"};
#define KINDS (sizeof kinds / sizeof kinds[0])

/* --- the batch of the golden file as a source --- */

static clt_status read_field(const clt_source *source, int64_t index, int field, void *dst)
{
    const clt_safetensors *file = source->state;
    const clt_named_tensor *t = tensor_of(file, "", source->fields[field].name);
    size_t bytes = clt_source_field_bytes(&source->fields[field]);
    memcpy(dst, (const char *)t->data + (size_t)index * bytes, bytes);
    return CLT_OK;
}

static clt_status read_sample(const clt_source *source, int64_t index, clt_draw draw, void *const *to)
{
    (void)draw;
    return clt_source_read_fields(source, index, to, read_field);
}

static const clt_config_part golden_format = {.name = "golden", .help = "the batch of a golden file"};
static const clt_source_type golden_type = {.format = &golden_format, .read = read_sample};

static clt_source *source_of(clt_safetensors *file)
{
    static const char *const names[] = {"x", "segments", "document", "places", "y", "follows"};
    clt_source *source = NULL;
    must(clt_source_create(&golden_type, &source), "source");
    source->state = file;
    source->samples = TEXTS;
    source->description = "a golden batch";
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const clt_named_tensor *t = clt_safetensors_find(file, names[i]);
        if (!t)
            continue;
        assert_true(t->dtype == CLT_I32 || (t->dtype == CLT_F32 && strcmp(names[i], "y") == 0));
        assert_int_equal(t->shape.dim[0], TEXTS);
        bool token = strcmp(names[i], "x") == 0, whole = t->dtype == CLT_I32;
        source->fields[source->n_fields++] =
            (clt_source_field){names[i], t->dtype, clt_shape_make(t->shape.ndim - 1, t->shape.dim + 1), whole,
                               token   ? 36
                               : whole ? 2
                                       : -1};
    }
    return source;
}

/* --- runs --- */

static clt_config *config_of(const char *kind, const char *optimizer)
{
    char text[1024], path[512];
    CLT_SCOPED(clt_pretrained) *pretrained = NULL;
    clt_config *config;
    snprintf(text, sizeof text,
             "{\"model\": {\"context\": 24}, \"data\": {\"type\": \"synthetic\", \"shape\": [24], "
             "\"micro_batch\": %d, "
             "\"shuffle\": false, \"workers\": 1}, \"optimizer\": {%s}, \"train\": {\"steps\": %d}}",
             TEXTS, optimizer, STEPS);
    snprintf(path, sizeof path, DATA "hf_bert_%s", kind);
    must(clt_pretrained_open(path, &pretrained), kind);
    must(clt_config_parse_over(text, kind, NULL, 0, clt_pretrained_presets(pretrained, true), &config), kind);
    return config;
}

/* Options of a run of the four texts with the weights of the folder, whose path is written to `path`. */
static clt_run_options options_of(const clt_config *config, const char *kind, clt_source *source,
                                  char path[512])
{
    snprintf(path, 512, DATA "hf_bert_%s", kind);
    return (clt_run_options){.config = config, .caps_mask = OCL_CAPS_ALL, .init = path, .source = source};
}

static void open_run(const clt_config *config, const char *kind, clt_source *source, clt_run **run)
{
    char path[512];
    const clt_run_options options = options_of(config, kind, source, path);
    open_training(&options, STEPS, kind, run);
}

/* Evaluates the four texts; the prediction can then be read. */
static void open_evaluation(const clt_config *config, const char *kind, clt_source *source, clt_run **run)
{
    char path[512];
    clt_run_options options = options_of(config, kind, source, path);
    options.predicts = options.on_train = true;
    must(clt_run_create(&options, CLT_JOB_EVAL, run), kind);
    must(clt_run_take_init(*run), kind);
    clt_feed_options feed = {.realized = (*run)->eval,
                             .source = source,
                             .global_batch = TEXTS,
                             .accumulation = 1,
                             .ranks = 1,
                             .evaluation = true,
                             .workers = 1,
                             .prefetch = 4};
    must(clt_feed_create(&feed, &(*run)->feed), "feed");
}

/* The logits of the first loss without padding of the vocabulary; free the result. */
static float *logits_of(const clt_config *config, const char *kind, clt_source *source, int64_t classes)
{
    CLT_SCOPED(clt_run) *run = NULL;
    clt_fed fed;
    open_evaluation(config, kind, source, &run);
    must(clt_feed_next(run->feed, &fed), "feed");
    must(clt_realized_run(run->eval, CLT_PHASE_FORWARD), "forward");
    const clt_tensor *t = clt_graph_tensor(run->eval->plan->graph, run->job->prediction);
    int64_t columns = clt_shape_last(&t->shape), rows = clt_shape_rows(&t->shape);
    float *all = malloc((size_t)(rows * columns) * sizeof *all);
    assert_non_null(all);
    must(clt_realized_read_f32(run->eval, run->job->prediction, all), "logits");
    for (int64_t r = 0; r < rows && columns > classes; r++)
        memmove(all + r * classes, all + r * columns, (size_t)classes * sizeof *all);
    return all;
}

/* The distance of the logits from transformers', relative to the largest. Positions that do not count are
 * left out. */
static double logits_off(const clt_config *config, const char *kind, clt_safetensors *file)
{
    const clt_named_tensor *golden = tensor_of(file, "", "logits"), *y = tensor_of(file, "", "y");
    int64_t n = clt_shape_elements(&golden->shape), classes = clt_shape_last(&golden->shape);
    bool rows = y->dtype == CLT_I32 && clt_shape_elements(&y->shape) * classes == n;
    CLT_SCOPED(clt_source) *source = source_of(file);
    CLT_FREED float *got = logits_of(config, kind, source, classes), *want = values_of(golden);
    double worst = 0, largest = 0;
    for (int64_t i = 0; i < n; i++) {
        if (rows && ((const int32_t *)y->data)[i / classes] < 0)
            continue;
        double difference = fabs((double)got[i] - (double)want[i]);
        worst = difference <= worst ? worst : difference;
        largest = fmax(largest, fabs((double)want[i]));
    }
    if (getenv("CLT_GOLDEN_SHOW"))
        fprintf(stderr, "  %-10s logits off by %.2e of the largest\n", kind, worst / largest);
    return worst / largest;
}

static clt_safetensors *golden_of(const char *kind)
{
    char name[64];
    snprintf(name, sizeof name, "hf_bert_%s", kind);
    return open_file(name, "first");
}

TEST(test_logits)
{
    for (size_t k = 0; k < KINDS; k++) {
        CLT_SCOPED(clt_safetensors) *file = golden_of(kinds[k]);
        CLT_SCOPED(clt_config) *config = config_of(kinds[k], ADAMW);
        assert_string_equal(clt_config_string(config, "model.head"), kinds[k]);
        double off = logits_off(config, kinds[k], file);
        if (!(off <= 1e-4))
            fail_msg("%s: logits are off by %g of the largest", kinds[k], off);
    }
}

static void train(const char *kind, const char *optimizer, const char *losses)
{
    double loss[STEPS];
    CLT_SCOPED(clt_safetensors) *file = golden_of(kind);
    CLT_SCOPED(clt_source) *source = source_of(file);
    CLT_SCOPED(clt_config) *config = config_of(kind, optimizer);
    CLT_SCOPED(clt_run) *run = NULL;
    read_doubles(file, losses, loss, STEPS);
    open_run(config, kind, source, &run);
    for (int step = 0; step < STEPS; step++) {
        char what[64];
        float got = (float)one_step(run, step), want = (float)loss[step];
        snprintf(what, sizeof what, "%s, %s %d", kind, losses, step + 1);
        compare(what, &got, &want, 1, 2e-5, 1e-5);
        if (step == 0)
            compare_gradients(run, file, kind);
    }
}

TEST(test_adamw)
{
    for (size_t k = 0; k < KINDS; k++)
        train(kinds[k], ADAMW, "loss");
}

TEST(test_lamb)
{
    for (size_t k = 0; k < KINDS; k++)
        if (run_everything || k == 0)
            train(kinds[k], LAMB, "lamb");
}

/* --- half precision --- */

/* The distance of all gradients of step 1 from transformers' in f32. */
static double gradients_off(const char *kind, const char *mode, const char *residual)
{
    CLT_SCOPED(clt_safetensors) *file = golden_of(kind);
    CLT_SCOPED(clt_source) *source = source_of(file);
    CLT_SCOPED(clt_config) *config = config_of(kind, ADAMW);
    CLT_SCOPED(clt_run) *run = NULL;
    must(clt_config_set(config, "precision.mode", mode), mode);
    must(clt_config_set(config, "precision.residual", residual), residual);
    must(clt_config_set(config, "precision.loss_scale", "1024"), "scale");
    open_run(config, kind, source, &run);
    one_step(run, 0);
    return gradients_apart(run, file);
}

TEST(test_half)
{
    for (size_t m = 0; m < sizeof halves / sizeof halves[0]; m++) {
        const char *mode = halves[m].mode, *residual = halves[m].residual;
        double sum = 0;
        size_t count = run_everything ? KINDS : 2;
        for (size_t k = 0; k < count; k++) {
            char name[32];
            double allowed[2], off = gradients_off(kinds[k], mode, residual);
            CLT_SCOPED(clt_safetensors) *file = golden_of(kinds[k]);
            snprintf(name, sizeof name, "apart.%s", mode);
            read_doubles(file, name, allowed, 2);
            if (getenv("CLT_GOLDEN_SHOW"))
                fprintf(stderr, "  %-8s %-4s residual %-4s gradients %.2e from f32, autocast's %.2e\n",
                        kinds[k], mode, residual, off, allowed[1]);
            if (!(off <= HALF_AT_MOST * allowed[1] && off > 1e-6))
                fail_msg("%s in %s, residual %s: gradients are %.3g from f32, autocast's %.3g", kinds[k],
                         mode, residual, off, allowed[1]);
            sum += log(off / allowed[1]);
        }
        double mean = exp(sum / (double)count);
        if (getenv("CLT_GOLDEN_SHOW"))
            fprintf(stderr, "  %s, residual %s: %.3f times autocast's distance\n", mode, residual, mean);
        assert_true(mean <= halves[m].on_average);
    }
}

/* --- mistakes --- */

TEST(test_mistakes)
{
    static const struct {
        const char *kind, *key, *value;
    } mistakes[] = {{"masked", "model.layernorm_eps", "1e-12"},
                    {"masked", "model.activation", "gelu"},
                    {"pretrain", "model.activation", "gelu_tanh"},
                    {"span", "model.activation", "gelu"},
                    {"class", "model.heads", "2"}};
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        CLT_SCOPED(clt_safetensors) *file = golden_of(mistakes[i].kind);
        CLT_SCOPED(clt_config) *config = config_of(mistakes[i].kind, ADAMW);
        must(clt_config_set(config, mistakes[i].key, mistakes[i].value), mistakes[i].key);
        double off = logits_off(config, mistakes[i].kind, file);
        if (!(off > 1e-4))
            fail_msg("%s with %s=%s: logits are off by %g only", mistakes[i].kind, mistakes[i].key,
                     mistakes[i].value, off);
    }
}

TEST_PROGRAM(.device = true);
