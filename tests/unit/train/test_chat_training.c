/* SPDX-License-Identifier: Apache-2.0
 *
 * Training on packed rows: loss and gradients equal those of the same samples in separate rows, for gpt and
 * llama; a change of one sample changes no bit of another one's gradients. Needs a device.
 * ctest-labels: quick ctest-cost: 20 ctest-optimise: no */
#include "tests/unit/train/train_test.h"

#define CONTEXT 64
#define MODEL_GPT "\"type\":\"gpt\",\"layers\":2,\"heads\":2,\"channels\":32,\"bias\":true"
#define MODEL_LLAMA                                                                                          \
    "\"type\":\"llama\",\"layers\":2,\"heads\":4,\"kv_heads\":2,\"channels\":32,\"window\":24,\"window_"     \
    "from\":1"

static const char *const samples[] = {
    "{\"prompt\":\"What is it that they said to him? \",\"completion\":\"That they can.\"}",
    "{\"text\":\"the and to of a in that is it you\"}",
    "{\"prompt\":\"1 2 3\",\"completion\":\" 4 5 6\"}",
    "{\"messages\":[{\"role\":\"user\",\"content\":\"who "
    "will\"},{\"role\":\"assistant\",\"content\":\"we\"}]}",
    "{\"prompt\":\"would they not be there \",\"completion\":\"they would\"}",
    "{\"prompt\":\"x\",\"completion\":\"y\"}"};
#define SAMPLES ((int)(sizeof samples / sizeof samples[0]))

/* Writes the samples whose bit in `chosen` is set; sample `changed` gets other words. */
static void put_samples(unsigned chosen, int changed)
{
    CLT_SCOPED(clt_str) text = {0};
    for (int i = 0; i < SAMPLES; i++)
        if (chosen >> i & 1)
            clt_str_printf(&text, "%s\n",
                           i == changed ? "{\"prompt\":\"1 9 8\",\"completion\":\" 7 1 2\"}" : samples[i]);
    assert_ok(clt_str_check(&text));
    put_file("chats.jsonl", text.text, text.length);
}

/* A config whose batch is all rows of the samples. */
static clt_config *config_of(const char *model, const char *packing)
{
    char text[1400], rows[24];
    CLT_SCOPED(clt_source) *source = NULL;
    (void)snprintf(
        text, sizeof text,
        "{\"model\":{%s,\"context\":%d},\"data\":{\"type\":\"chat\",\"path\":\"%%D/chats.jsonl\",\"split\":0,"
        "\"tokenizer\":\"" CLT_TEST_SOURCE_DIR "/tests/golden/chat/gpt2\",\"template\":\"chatml\","
        "\"packing\":\"%s\",\"shuffle\":false},"
        "\"optimizer\":{\"type\":\"sgd\",\"learning_rate\":1e-30},\"train\":{\"steps\":4,\"seed\":5}}",
        model, CONTEXT, packing);
    clt_config *config = train_config(text);
    must(clt_source_open(config, CLT_SPLIT_TRAIN, &source), "data");
    (void)snprintf(rows, sizeof rows, "%lld", (long long)source->samples);
    set(config, "data.micro_batch", rows);
    set(config, "data.global_batch", rows);
    return config;
}

/* The gradients of the first step (of the parameter `name`, or of all if NULL) and its loss; free the
 * result. */
static float *gradients_of(const clt_config *config, const char *name, double *loss, uint64_t *count)
{
    CLT_SCOPED(clt_run) *run = NULL;
    clt_run_options options = {.config = config, .caps_mask = OCL_CAPS_ALL};
    clt_step_result result;
    bool have;
    must(clt_run_create(&options, CLT_JOB_TRAIN, &run), "run");
    must(clt_run_take_init(run), "init");
    clt_feed_options feed = {.realized = run->train,
                             .source = run->job->train_source,
                             .global_batch = run->job->global_batch,
                             .accumulation = run->job->accumulation,
                             .ranks = 1,
                             .last_step = 4,
                             .workers = 1,
                             .prefetch = 4};
    must(clt_feed_create(&feed, &run->feed), "feed");
    must(clt_reporter_create(run->train, 2, &run->reporter), "reporter");
    must(clt_step(run, 0), "step");
    must(clt_reporter_take(run->reporter, true, &result, &have), "report");
    *loss = (double)result.loss[0][0];
    *count = 0;
    for (int32_t i = 0; i < run->store->layout->n_slots; i++)
        *count += run->store->layout->slots[i].elements;
    float *all = malloc(*count * sizeof *all), *to = all;
    assert_non_null(all);
    for (int32_t i = 0; i < run->store->layout->n_slots; i++) {
        const clt_store_slot *slot = &run->store->layout->slots[i];
        if (name && strcmp(slot->name, name) != 0)
            continue;
        must(clt_store_read(run->store, CLT_ARENA_GRAD, slot, to), slot->name);
        to += slot->elements;
    }
    *count = (uint64_t)(to - all);
    return all;
}

static void expect_packed_as_apart(const char *model)
{
    double packed_loss, apart_loss, worst = 0, largest = 0;
    uint64_t n, m;
    put_samples((1u << SAMPLES) - 1, -1);
    CLT_SCOPED(clt_config) *packed = config_of(model, "next");
    CLT_SCOPED(clt_config) *apart = config_of(model, "none");
    CLT_FREED float *a = gradients_of(packed, NULL, &packed_loss, &n);
    CLT_FREED float *b = gradients_of(apart, NULL, &apart_loss, &m);
    assert_int_equal(n, m);
    for (uint64_t i = 0; i < n; i++) {
        worst = fmax(worst, fabs((double)a[i] - (double)b[i]));
        largest = fmax(largest, fabs((double)b[i]));
    }
    if (!(fabs(packed_loss - apart_loss) <= 1e-6 * apart_loss && worst <= 1e-5 * largest && largest > 1e-3))
        fail_msg("packed: loss %.9g, apart %.9g; gradients are off by %.3g of %.3g", packed_loss, apart_loss,
                 worst, largest);
}

TEST(packed_rows_train_as_rows_apart)
{
    expect_packed_as_apart(MODEL_GPT);
    expect_packed_as_apart(MODEL_LLAMA);
}

/* Two samples in one row, and the words of the first one change. The gradients of the embeddings of tokens
 * that only the second one holds come from it alone, so they keep all their bits. */
static void expect_no_leak(const char *model, const char *table, int width)
{
    float *gradients[2];
    for (int i = 0; i < 2; i++) {
        char text[256];
        double loss;
        uint64_t n;
        (void)snprintf(
            text, sizeof text,
            "{\"input_ids\":[%s],\"labels\":[-100,-100,-100,330]}\n{\"input_ids\":[100,101,102,103]}\n",
            i ? "70,71,72,330" : "80,81,82,330");
        put_file("chats.jsonl", text, strlen(text));
        CLT_SCOPED(clt_config) *config = config_of(model, "next");
        assert_int_equal(clt_config_int(config, "data.micro_batch"), 1);
        gradients[i] = gradients_of(config, table, &loss, &n);
        assert_true(n >= 104 * (uint64_t)width);
    }
    size_t row = (size_t)width * sizeof(float);
    for (int token = 100; token < 103; token++) {
        float zeros[64] = {0};
        assert_memory_equal(gradients[0] + token * width, gradients[1] + token * width, row);
        assert_true(memcmp(gradients[0] + token * width, zeros, row) != 0);
    }
    assert_true(memcmp(gradients[0] + 80 * width, gradients[1] + 80 * width, row) != 0);
    free(gradients[0]);
    free(gradients[1]);
}

TEST(samples_do_not_see_each_other)
{
    expect_no_leak(MODEL_GPT ",\"tied\":false", "wte.weight", 32);
    expect_no_leak(MODEL_LLAMA ",\"tied\":false", "embed_tokens.weight", 32);
}

TEST_PROGRAM(.device = true);
