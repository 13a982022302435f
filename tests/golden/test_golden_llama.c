/* SPDX-License-Identifier: Apache-2.0
 *
 * Golden parity of model.type llama with transformers (make_golden_llama.py; data/hf_*): the config follows
 * from config.json; logits within 1e-4 of their largest, each gradient of step 1 within 1e-3, and ten
 * losses of AdamW agree; f16 and bf16 are about as far from f32 as torch.autocast is. Each of ten mistakes
 * that an import could make changes the logits by more than that. Needs a device, but no Python.
 * ctest-labels: quick ctest-optimise: no ctest-programs: kept ctest-cost: 40 */
#include "tests/golden/golden_run.h"

#include "engine/files/fileio.h"
#include "engine/pretrained/pretrained.h"
#include "tests/golden/first_logits.h"

#define STEPS 10
#define SEQUENCES "4"
/* How many times as far from f32 as torch.autocast a kind may be, and the geometric mean of all kinds: in
 * such small models a single distance is a matter of chance. */
#define HALF_AT_MOST 3
#define HALF_ON_AVERAGE 1.25

static const char *const kinds[] = {"llama", "llama3", "biases", "dynamic", "mistral", "qwen2", "qwen3"};
#define KINDS (sizeof kinds / sizeof kinds[0])

/* overrides: NULL, or a "key=value" that changes the config after the presets. */
static clt_config *config_of(const char *kind, const char *key, const char *value)
{
    char text[2048], path[512];
    CLT_SCOPED(clt_pretrained) *pretrained = NULL;
    clt_config *config;
    snprintf(text, sizeof text,
             "{\"model\": {\"context\": 24}, \"data\": {\"type\": \"npy\", \"path\": \"" DATA
             "hf_%s_x.npy\", \"targets\": \"" DATA "hf_%s_y.npy\", \"micro_batch\": " SEQUENCES
             ", \"shuffle\": false, \"workers\": 1}, \"optimizer\": {\"type\": \"adamw\", \"learning_rate\": "
             "0.003, \"beta1\": 0.9, \"beta2\": 0.99, \"weight_decay\": 0.1, \"clip\": 0}, \"train\": "
             "{\"steps\": %d}}",
             kind, kind, STEPS);
    snprintf(path, sizeof path, DATA "hf_%s", kind);
    must(clt_pretrained_open(path, &pretrained), kind);
    must(clt_config_parse_over(text, kind, NULL, 0, clt_pretrained_presets(pretrained, true), &config), kind);
    if (key)
        must(clt_config_set(config, key, value), key);
    return config;
}

/* Compares values of the printed config's model section. */
static void expect_values(const clt_config *c, const char *const (*values)[2], int n)
{
    CLT_SCOPED(clt_str) text = {0};
    must(clt_config_print(c, false, &text), "config");
    for (int i = 0; i < n; i++) {
        char want[128];
        int length = snprintf(want, sizeof want, "\"%s\": %s", values[i][0], values[i][1]);
        const char *at = strstr(text.text, want);
        if (!at || !strchr(",\n", at[length]))
            fail_msg("the config does not say %s:\n%s", want, text.text);
    }
}
#define EXPECT(c, ...)                                                                                       \
    do {                                                                                                     \
        static const char *const values_[][2] = {__VA_ARGS__};                                               \
        expect_values(c, values_, (int)(sizeof values_ / sizeof values_[0]));                                \
    } while (0)

TEST(test_config)
{
    CLT_SCOPED(clt_config) *llama3 = config_of("llama3", NULL, NULL), *qwen3 = config_of("qwen3", NULL, NULL);
    CLT_SCOPED(clt_config) *mistral = config_of("mistral", NULL, NULL),
                           *qwen2 = config_of("qwen2", NULL, NULL);
    EXPECT(llama3, {"type", "\"llama\""}, {"kv_heads", "1"}, {"inner", "20"}, {"tied", "true"},
           {"rope_scaling", "\"llama3\""}, {"rope_base", "5000"}, {"rope_factor", "8"},
           {"rope_original", "32"}, {"positions", "64"});
    EXPECT(qwen3, {"head_dim", "10"}, {"head_norm", "true"}, {"rope_scaling", "\"yarn\""}, {"rope_high", "3"},
           {"rope_low", "1"}, {"window", "0"}, {"tied", "false"});
    EXPECT(mistral, {"window", "7"}, {"head_dim", "6"}, {"attention_bias", "\"none\""});
    EXPECT(qwen2, {"window", "5"}, {"window_from", "1"}, {"attention_bias", "\"qkv\""}, {"norm_eps", "1e-06"},
           {"rope_base", "10000"});
}

/* The distance of the logits of the four sequences from transformers' in the file `part`, relative to the
 * largest. */
static double logits_off(const clt_config *config, const char *kind, const char *part, const char *weights)
{
    char name[64];
    CLT_FREED float *got = NULL;
    int64_t rows = 0, vocab = 0;
    snprintf(name, sizeof name, "hf_%s", kind);
    CLT_SCOPED(clt_safetensors) *file = open_file(name, part);
    const clt_named_tensor *golden = tensor_of(file, "", "logits");
    must(first_logits(config, weights, &got, &rows, &vocab), kind);
    assert_int_equal(rows * vocab, clt_shape_elements(&golden->shape));
    CLT_FREED float *want = values_of(golden);
    double worst = 0, largest = 0;
    for (int64_t i = 0; i < rows * vocab; i++) {
        double difference = fabs((double)got[i] - (double)want[i]);
        worst = difference <= worst ? worst : difference;
        largest = fmax(largest, fabs((double)want[i]));
    }
    if (getenv("CLT_GOLDEN_SHOW"))
        fprintf(stderr, "  %-10s logits off by %.2e of the largest\n", kind, worst / largest);
    return worst / largest;
}

TEST(test_logits)
{
    for (size_t k = 0; k < KINDS; k++) {
        char path[512];
        CLT_SCOPED(clt_config) *config = config_of(kinds[k], NULL, NULL);
        snprintf(path, sizeof path, DATA "hf_%s", kinds[k]);
        double off = logits_off(config, kinds[k], "first", path);
        if (!(off <= 1e-4))
            fail_msg("%s: logits are off by %g of the largest", kinds[k], off);
    }
}

/* Yarn's factor for queries and keys is given, or follows from yarn's factor (0): here it is the quotient
 * that transformers computes from mscale 2 and mscale_all_dim 0.5. */
TEST(test_yarn_factor)
{
    static const char *const parts[] = {"first", "attention"};
    char given[32];
    snprintf(given, sizeof given, "%.17g", (0.2 * log(4) + 1) / (0.05 * log(4) + 1));
    for (int i = 0; i < 4; i++) {
        bool same = i % 2 == i / 2;
        CLT_SCOPED(clt_config) *config = config_of("qwen3", "model.rope_attention", i % 2 ? given : "0");
        double off = logits_off(config, "qwen3", parts[i / 2], DATA "hf_qwen3");
        if (same != (off <= 1e-4))
            fail_msg("a factor of %s: logits are off by %g of the largest in %s", i % 2 ? given : "0", off,
                     parts[i / 2]);
    }
}

/* A training run of the four sequences, before its first step. */
static void open_run(const clt_config *config, const char *kind, clt_run **run)
{
    char path[512];
    snprintf(path, sizeof path, DATA "hf_%s", kind);
    clt_run_options options = {.config = config, .caps_mask = OCL_CAPS_ALL, .init = path};
    open_training(&options, STEPS, kind, run);
}

static void train(const char *kind)
{
    char name[64];
    double loss[STEPS];
    CLT_SCOPED(clt_config) *config = config_of(kind, NULL, NULL);
    CLT_SCOPED(clt_run) *run = NULL;
    snprintf(name, sizeof name, "hf_%s", kind);
    CLT_SCOPED(clt_safetensors) *file = open_file(name, "first");
    read_doubles(file, "loss", loss, STEPS);
    open_run(config, kind, &run);
    for (int step = 0; step < STEPS; step++) {
        float got = (float)one_step(run, step), want = (float)loss[step];
        compare(kind, &got, &want, 1, 1e-5, 1e-5);
        if (step == 0)
            compare_gradients(run, file, kind);
    }
}

TEST(test_training)
{
    for (size_t k = 0; k < KINDS; k++)
        train(kinds[k]);
}

/* --- half precision --- */

/* The distance of all gradients of step 1 from transformers' in f32. */
static double gradients_off(const clt_config *config, const char *kind, const clt_safetensors *file)
{
    CLT_SCOPED(clt_run) *run = NULL;
    open_run(config, kind, &run);
    one_step(run, 0);
    return gradients_apart(run, file);
}

/* The distance of the logits from transformers' in f32. */
static double half_logits_off(const clt_config *config, const char *kind, const clt_safetensors *file)
{
    char path[512];
    double difference = 0, size = 0;
    int64_t rows = 0, vocab = 0;
    CLT_FREED float *got = NULL;
    const clt_named_tensor *golden = tensor_of(file, "", "logits");
    snprintf(path, sizeof path, DATA "hf_%s", kind);
    must(first_logits(config, path, &got, &rows, &vocab), kind);
    CLT_FREED float *want = values_of(golden);
    add_squares(got, want, rows * vocab, &difference, &size);
    return sqrt(difference / size);
}

/* Adds the logarithms of the distances of logits and gradients, relative to autocast's. */
static void check_half(const char *kind, const char *mode, const char *residual, double sums[2])
{
    char name[64];
    double allowed[2];
    CLT_SCOPED(clt_config) *config = config_of(kind, "precision.mode", mode);
    must(clt_config_set(config, "precision.loss_scale", "1024"), "scale");
    must(clt_config_set(config, "precision.residual", residual), "residual");
    snprintf(name, sizeof name, "hf_%s", kind);
    CLT_SCOPED(clt_safetensors) *file = open_file(name, "first");
    snprintf(name, sizeof name, "apart.%s", mode);
    read_doubles(file, name, allowed, 2);
    double off[2] = {half_logits_off(config, kind, file), gradients_off(config, kind, file)};
    for (int i = 0; i < 2; i++) {
        const char *what = i ? "gradients" : "logits";
        if (getenv("CLT_GOLDEN_SHOW"))
            fprintf(stderr, "  %-8s %-4s residual %-4s %-9s %.2e from f32, autocast's %.2e\n", kind, mode,
                    residual, what, off[i], allowed[i]);
        if (!(off[i] <= HALF_AT_MOST * allowed[i] && off[i] > 1e-6))
            fail_msg("%s in %s: %s are %.3g from f32, autocast's %.3g", kind, mode, what, off[i], allowed[i]);
        sums[i] += log(off[i] / allowed[i]);
    }
}

TEST(test_half)
{
    static const char *const modes[] = {"f16", "bf16", "f16", "bf16"};
    for (int m = 0; m < 4; m++) {
        const char *residual = m < 2 ? "mode" : "f32";
        double sums[2] = {0, 0};
        for (size_t k = 0; k < KINDS; k++)
            check_half(kinds[k], modes[m], residual, sums);
        for (int i = 0; i < 2; i++) {
            double mean = exp(sums[i] / (double)KINDS);
            if (getenv("CLT_GOLDEN_SHOW"))
                fprintf(stderr, "  %s of all kinds in %s, residual %s: %.2f of autocast's distance\n",
                        i ? "gradients" : "logits", modes[m], residual, mean);
            if (!(mean <= HALF_ON_AVERAGE))
                fail_msg("%s, residual %s: %.2f of autocast's distance from f32", modes[m], residual, mean);
        }
    }
}

/* --- mistakes of an import --- */

/* A copy of a file of weights, in which the functions below change tensors. */
typedef struct weights_copy {
    const clt_safetensors *file;
    char *bytes;
    const char *origin; /* of the mapping */
} weights_copy;

static float *numbers(const weights_copy *w, const char *name, const clt_named_tensor **tensor)
{
    const clt_named_tensor *t = tensor_of(w->file, "model.layers.1.", name);
    *tensor = t;
    return (float *)(void *)(w->bytes + ((const char *)t->data - w->origin));
}

static void swap(const weights_copy *w, const char *a, const char *b)
{
    const clt_named_tensor *first, *second;
    float *x = numbers(w, a, &first), *y = numbers(w, b, &second);
    for (int64_t i = 0; i < clt_shape_elements(&first->shape); i++) {
        float kept = x[i];
        x[i] = y[i];
        y[i] = kept;
    }
}

/* Reorders rows: row r becomes row from(r, rows). */
static void reorder(const weights_copy *w, const char *name, int64_t (*from)(int64_t, int64_t))
{
    const clt_named_tensor *t;
    float *x = numbers(w, name, &t);
    int64_t rows = t->shape.dim[0], columns = t->shape.dim[1];
    CLT_FREED float *old = values_of(t);
    for (int64_t r = 0; r < rows; r++)
        memcpy(x + r * columns, old + from(r, rows) * columns, (size_t)columns * sizeof *x);
}

/* Heads of 4 in the other layout of rotary positions, in which pairs are neighbours. */
static int64_t neighbours(int64_t r, int64_t rows)
{
    (void)rows;
    return r / 4 * 4 + (r % 4) / 2 + r % 2 * 2;
}

/* Four heads of 4, read as if they used the two heads of keys in turn. */
static int64_t tiled(int64_t r, int64_t rows)
{
    static const int64_t head[] = {0, 2, 1, 3};
    (void)rows;
    return head[r / 4] * 4 + r % 4;
}

static void norms_swapped(const weights_copy *w)
{
    swap(w, "input_layernorm.weight", "post_attention_layernorm.weight");
}
static void gate_and_up(const weights_copy *w)
{
    swap(w, "mlp.gate_proj.weight", "mlp.up_proj.weight");
}
static void keys_and_values(const weights_copy *w)
{
    swap(w, "self_attn.k_proj.weight", "self_attn.v_proj.weight");
}
static void rope_layout(const weights_copy *w)
{
    reorder(w, "self_attn.q_proj.weight", neighbours);
    reorder(w, "self_attn.k_proj.weight", neighbours);
}
static void heads_tiled(const weights_copy *w)
{
    reorder(w, "self_attn.q_proj.weight", tiled);
}
static void output_transposed(const weights_copy *w)
{
    const clt_named_tensor *t;
    float *x = numbers(w, "self_attn.o_proj.weight", &t);
    CLT_FREED float *old = values_of(t);
    for (int64_t i = 0; i < 16; i++)
        for (int64_t j = 0; j < 16; j++)
            x[i * 16 + j] = old[j * 16 + i];
}

static const struct {
    const char *what, *key, *value; /* key: of the config, or NULL */
    void (*change)(const weights_copy *);
} mistakes[] = {
    {"eps of the norms", "model.norm_eps", "1e-06", NULL},
    {"base of rotary positions", "model.rope_base", "10000", NULL},
    {"a scaling that the file has not", "model.rope_scaling", "linear", NULL},
    {"a window", "model.window", "20", NULL},
    {"norms swapped", NULL, NULL, norms_swapped},
    {"gate and up swapped", NULL, NULL, gate_and_up},
    {"keys and values swapped", NULL, NULL, keys_and_values},
    {"the other layout of rotary positions", NULL, NULL, rope_layout},
    {"query heads tiled instead of grouped", NULL, NULL, heads_tiled},
    {"a square matrix transposed", NULL, NULL, output_transposed},
};

TEST(test_mistakes)
{
    CLT_SCOPED(clt_safetensors) *file = NULL;
    char changed[] = "/tmp/golden_llama_XXXXXX";
    int fd = mkstemp(changed);
    assert_true(fd >= 0);
    close(fd);
    must(clt_safetensors_open(DATA "hf_llama/model.safetensors", &file), "weights");
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        CLT_SCOPED(clt_config) *config = config_of("llama", mistakes[i].key, mistakes[i].value);
        CLT_FREED char *bytes = NULL;
        size_t size;
        if (mistakes[i].key && strcmp(mistakes[i].value, "linear") == 0)
            must(clt_config_set(config, "model.rope_factor", "1.5"), "factor");
        must(clt_file_read(DATA "hf_llama/model.safetensors", false, 0, CLT_EDATA, &bytes, &size), "weights");
        uint64_t header;
        memcpy(&header, bytes, sizeof header);
        const clt_named_tensor *first = tensor_of(file, "", "lm_head.weight");
        const char *origin = NULL;
        /* the mapping holds the file's bytes in order: the first tensor's values show where it begins */
        for (size_t at = 8 + (size_t)header; at < size && !origin; at += 4)
            if (memcmp(bytes + at, first->data, 37 * 16 * sizeof(float)) == 0)
                origin = (const char *)first->data - at;
        assert_non_null(origin);
        weights_copy copy = {file, bytes, origin};
        if (mistakes[i].change)
            mistakes[i].change(&copy);
        must(clt_file_write(changed, bytes, size), changed);
        double off = logits_off(config, "llama", "first", changed);
        if (!(off > 1e-4))
            fail_msg("%s: not seen, logits are off by %g", mistakes[i].what, off);
    }
    unlink(changed);
}

TEST_PROGRAM(.device = true);
