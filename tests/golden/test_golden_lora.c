/* SPDX-License-Identifier: Apache-2.0
 *
 * Golden parity of low-rank adapters with PEFT (make_golden_lora.py; data/lora_*, over the base models
 * data/hf_*): the config follows from config.json and adapter_config.json; logits within 1e-5 of the largest,
 * each gradient of step 1 within 1e-3, and twenty losses of AdamW agree, while no base weight changes. A model
 * with new adapters computes the bits of its base, and adapters have the same gradients with recomputation.
 * Needs a device, but no Python.
 * ctest-labels: quick ctest-optimise: no ctest-programs: kept ctest-cost: 30 */
#include "tests/golden/golden_run.h"

#include "engine/models/models.h"
#include "engine/pretrained/peft.h"
#include "engine/pretrained/pretrained.h"
#include "tests/golden/first_logits.h"

#define STEPS 20

typedef struct adapter {
    const char *name, *base, *sequences, *rank, *alpha, *targets;
} adapter;

static const adapter adapters[] = {
    {"llama", "llama", "4", "4", "6", "\"q_proj\""},
    {"qwen2", "qwen2", "4", "3", "5", "\"layers.1.mlp.up_proj\""},
    {"gpt2", "tied", "2", "2", "4", "\"c_proj\""},
    {"pattern", "llama", "4", "2", "2", "\"layers.1.self_attn.o_proj\""},
    {"own", "llama", "4", "3", "4", "\"lm_head=2.5\""},
};
#define ADAPTERS (sizeof adapters / sizeof adapters[0])

static void base_path(const adapter *a, char path[512])
{
    snprintf(path, 512, DATA "hf_%s", a->base);
}
static void adapter_path(const adapter *a, char path[512])
{
    snprintf(path, 512, DATA "lora_%s", a->name);
}

/* more: additional keys of the model section. adapted: whether the adapter's keys are set, too. */
static clt_config *config_of(const adapter *a, const char *more, bool adapted)
{
    char text[2048], path[512];
    CLT_SCOPED(clt_pretrained) *pretrained = NULL;
    CLT_SCOPED(clt_peft) *peft = NULL;
    clt_config *config;
    snprintf(
        text, sizeof text,
        "{\"model\": {\"dropout\": 0%s}, \"data\": {\"type\": \"npy\", \"path\": \"" DATA
        "hf_%s_x.npy\", \"targets\": \"" DATA "hf_%s_y.npy\", \"micro_batch\": %s, \"shuffle\": false, "
        "\"workers\": 1}, \"optimizer\": {\"type\": \"adamw\", \"learning_rate\": 0.003, \"beta1\": 0.9, "
        "\"beta2\": 0.99, \"weight_decay\": 0.1, \"clip\": 0}, \"train\": {\"steps\": %d}}",
        more, a->base, a->base, a->sequences, STEPS);
    base_path(a, path);
    must(clt_pretrained_open(path, &pretrained), a->name);
    adapter_path(a, path);
    must(clt_peft_open(path, &peft), a->name);
    if (adapted)
        must(clt_pretrained_add_adapter(pretrained, clt_peft_presets(peft)), a->name);
    must(clt_config_parse_over(text, a->name, NULL, 0, clt_pretrained_presets(pretrained, true), &config),
         a->name);
    return config;
}

TEST(test_config)
{
    for (size_t i = 0; i < ADAPTERS; i++) {
        const adapter *a = &adapters[i];
        CLT_SCOPED(clt_config) *config = config_of(a, "", true);
        assert_int_equal(clt_config_int(config, "model.lora_rank"), atoi(a->rank));
        assert_true(clt_config_float(config, "model.lora_alpha") == atof(a->alpha));
        CLT_SCOPED(clt_str) text = {0};
        must(clt_config_print(config, false, &text), "config");
        if (!strstr(text.text, a->targets))
            fail_msg("%s: the config does not say %s:\n%s", a->name, a->targets, text.text);
    }
}

TEST(test_logits)
{
    for (size_t i = 0; i < ADAPTERS; i++) {
        const adapter *a = &adapters[i];
        char base[512], folder[512], name[64];
        int64_t rows = 0, vocab = 0;
        CLT_SCOPED(clt_config) *config = config_of(a, "", true);
        CLT_FREED float *got = NULL;
        base_path(a, base);
        adapter_path(a, folder);
        snprintf(name, sizeof name, "lora_%s", a->name);
        CLT_SCOPED(clt_safetensors) *file = open_file(name, "first");
        const clt_named_tensor *golden = tensor_of(file, "", "logits");
        clt_run_options options = {.config = config, .init = base, .adapter = folder};
        must(first_logits_of(&options, &got, &rows, &vocab), a->name);
        assert_int_equal(rows * vocab, clt_shape_elements(&golden->shape));
        CLT_FREED float *want = values_of(golden);
        compare(a->name, got, want, rows * vocab, 1e-5, 0);
    }
}

/* A model with new adapters computes the same bits as its base. */
TEST(test_starts_as_base)
{
    for (size_t i = 0; i < ADAPTERS; i++) {
        const adapter *a = &adapters[i];
        char base[512];
        int64_t rows = 0, vocab = 0;
        CLT_SCOPED(clt_config) *adapted = config_of(a, "", true), *plain = config_of(a, "", false);
        CLT_FREED float *got = NULL, *want = NULL;
        base_path(a, base);
        clt_run_options options = {.config = adapted, .init = base, .init_skip = ""};
        must(first_logits_of(&options, &got, &rows, &vocab), a->name);
        must(first_logits(plain, base, &want, &rows, &vocab), a->name);
        assert_memory_equal(got, want, (size_t)(rows * vocab) * sizeof *got);
    }
}

/* A training run before its first step. */
static void open_run(const adapter *a, const clt_config *config, clt_run **run)
{
    char base[512], folder[512];
    base_path(a, base);
    adapter_path(a, folder);
    clt_run_options options = {
        .config = config, .caps_mask = OCL_CAPS_ALL, .init = base, .init_skip = "", .adapter = folder};
    open_training(&options, STEPS, a->name, run);
}

TEST(test_training)
{
    for (size_t i = 0; i < ADAPTERS; i++) {
        const adapter *a = &adapters[i];
        char name[64];
        double loss[STEPS];
        CLT_SCOPED(clt_config) *config = config_of(a, "", true);
        CLT_SCOPED(clt_run) *run = NULL;
        snprintf(name, sizeof name, "lora_%s", a->name);
        CLT_SCOPED(clt_safetensors) *file = open_file(name, "first");
        read_doubles(file, "loss", loss, STEPS);
        open_run(a, config, &run);
        int64_t n;
        const clt_param *base = NULL;
        for (size_t p = 0; p < run->job->train->graph->n_params; p++)
            if (run->job->train->graph->params[p].frozen)
                base = &run->job->train->graph->params[p];
        assert_non_null(base);
        CLT_FREED float *before = stored(run, base, CLT_ARENA_PARAM, &n);
        for (int step = 0; step < STEPS; step++) {
            float got = (float)one_step(run, step), want = (float)loss[step];
            compare(a->name, &got, &want, 1, 1e-5, 1e-5);
            if (step == 0)
                assert_int_equal(compare_gradients(run, file, a->name), clt_safetensors_count(file) - 2);
        }
        CLT_FREED float *after = stored(run, base, CLT_ARENA_PARAM, &n);
        assert_memory_equal(before, after, (size_t)n * sizeof *after);
    }
}

/* Only adapters have gradients, sums of gradients and optimizer states, and no product computes others. */
TEST(test_memory)
{
    for (size_t i = 0; i < ADAPTERS; i++) {
        CLT_SCOPED(clt_config) *config = config_of(&adapters[i], "", true);
        CLT_SCOPED(clt_run) *run = NULL;
        open_run(&adapters[i], config, &run);
        const clt_plan *plan = run->job->train;
        const clt_store_layout *layout = run->store->layout;
        uint64_t adapted = 0;
        for (int32_t s = 0; s < layout->n_slots; s++)
            if (layout->slots[s].trainable)
                adapted += clt_align_up(layout->slots[s].elements, CLT_STORE_CHUNK);
        assert_int_equal(layout->own_elements[0], adapted);
        assert_int_equal(clt_store_arena_bytes(layout, CLT_ARENA_OPT1), adapted * sizeof(float));
        for (size_t w = 0; w < plan->n_work; w++)
            for (int k = 0; k < plan->work[w].node->n_param; k++)
                if (plan->work[w].dparam[k] >= 0)
                    assert_true(plan->graph->params[plan->work[w].node->param[k]].adapter);
    }
}

TEST(test_recompute)
{
    static const char *const modes[] = {"none", "block"};
    for (size_t i = 0; i < ADAPTERS; i++) {
        float *gradients[2][64];
        int64_t n[64];
        int count = 0;
        for (int m = 0; m < 2; m++) {
            CLT_SCOPED(clt_config) *config = config_of(&adapters[i], ", \"lora_dropout\": 0.25", true);
            CLT_SCOPED(clt_run) *run = NULL;
            char quoted[32];
            snprintf(quoted, sizeof quoted, "\"%s\"", modes[m]);
            must(clt_config_set(config, "train.recompute", quoted), "recompute");
            open_run(&adapters[i], config, &run);
            one_step(run, 0);
            const clt_graph *graph = run->job->train->graph;
            count = 0;
            for (size_t p = 0; p < graph->n_params; p++)
                if (graph->params[p].adapter)
                    gradients[m][count] = stored(run, &graph->params[p], CLT_ARENA_GRAD, &n[count]), count++;
        }
        assert_true(count > 0);
        for (int k = 0; k < count; k++) {
            assert_memory_equal(gradients[0][k], gradients[1][k], (size_t)n[k] * sizeof(float));
            free(gradients[0][k]);
            free(gradients[1][k]);
        }
    }
}

TEST_PROGRAM(.device = true);
