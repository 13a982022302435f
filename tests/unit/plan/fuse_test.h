/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of fused and recomputing plans share: configs as text, a few training steps with all their
 * results, and the bitwise comparison of two such runs. */
#ifndef TESTS_UNIT_FUSE_TEST_H
#define TESTS_UNIT_FUSE_TEST_H

#include "tests/unit/train/train_test.h"

/* op, name, then attributes that begin with a comma */
#define LAYER(op, name, rest) "{\"op\":\"" op "\",\"name\":\"" name "\"" rest "}"
#define GRAPH(layers) "{\"type\":\"graph\",\"layers\":[" layers "]}"
#define STEM LAYER("linear", "stem", ",\"inputs\":[\"x\"],\"out\":16")
#define HEAD                                                                                                 \
    LAYER("linear", "head", ",\"out\":7") "," LAYER("cross_entropy", "loss", ",\"inputs\":[\"head\",\"y\"]")
#define BLOCK(n, from)                                                                                       \
    LAYER("layernorm", "norm" n, ",\"inputs\":[\"" from "\"]")                                               \
    "," LAYER("linear", "wide" n, ",\"out\":32") "," LAYER("gelu", "act" n, "") "," LAYER(                   \
        "linear", "narrow" n, ",\"out\":16") "," LAYER("add", "sum" n,                                       \
                                                       ",\"inputs\":[\"" from "\",\"narrow" n "\"]")
#define RESIDUAL GRAPH(STEM "," BLOCK("1", "stem") "," BLOCK("2", "sum1") "," HEAD)

#define OVER_NUMBERS(model, more)                                                                            \
    "{\"model\":" model ",\"data\":{\"type\":\"synthetic\",\"shape\":[24],\"classes\":7,\"samples\":64,"     \
    "\"micro_batch\":8" more "},\"optimizer\":{\"type\":\"adamw\",\"clip\":1},\"train\":{\"steps\":3}}"
#define OVER_TEXT(model, more)                                                                               \
    "{\"model\":{\"type\":\"gpt\",\"layers\":2,\"heads\":2,\"channels\":32,\"context\":24," model            \
    "},\"data\":{\"type\":\"text\",\"path\":\"%D/text.txt\",\"micro_batch\":2" more                          \
    "},\"optimizer\":{\"type\":\"adamw\",\"clip\":1},\"train\":{\"steps\":3}}"
#define TWICE ",\"global_batch\":16"

typedef struct trained {
    int n;
    double loss[8][4];    /* records */
    uint64_t train_bytes; /* bytes of activations in the training plan */
    uint64_t elements;
    float *params, *grads;
} trained;

/* Reads the parameters including buffers; buffers have no gradients, so the result holds zeros for them
 * there. */
static inline void read_arena(const clt_run *run, clt_arena_kind arena, float **out, uint64_t *elements)
{
    const clt_store_layout *layout = run->store->layout;
    uint64_t total = 0, at = 0;
    for (int32_t i = 0; i < layout->n_slots; i++)
        total += layout->slots[i].elements;
    *out = calloc(total, sizeof(float));
    assert_non_null(*out);
    for (int32_t i = 0; i < layout->n_slots; at += layout->slots[i++].elements)
        if (arena == CLT_ARENA_PARAM || !layout->slots[i].buffer)
            must(clt_store_read(run->store, arena, &layout->slots[i], *out + at), "read");
    assert_int_equal(at, total);
    *elements = total;
}

/* "key=value key=value" */
static inline void override(clt_config *config, const char *settings)
{
    char text[256], *rest = text;
    snprintf(text, sizeof text, "%s", settings);
    for (char *word = strtok_r(rest, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(word, '=');
        assert_non_null(value);
        *value = '\0';
        set(config, word, value + 1);
    }
}

static inline trained train(const char *text, const char *settings, int steps)
{
    trained t = {.n = steps};
    CLT_SCOPED(clt_config) *config = train_config(text);
    override(config, settings);
    clt_run_options options = {.config = config, .caps_mask = OCL_CAPS_ALL};
    CLT_SCOPED(clt_run) *run = NULL;
    must(clt_run_create(&options, CLT_JOB_TRAIN, &run), text);
    clt_feed_options feed = {.realized = run->train,
                             .source = run->job->train_source,
                             .global_batch = run->job->global_batch,
                             .accumulation = run->job->accumulation,
                             .ranks = 1,
                             .seed = run->job->seed,
                             .last_step = steps,
                             .workers = 1,
                             .prefetch = 2};
    must(clt_feed_create(&feed, &run->feed), "feed");
    must(clt_reporter_create(run->train, 2, &run->reporter), "reporter");
    for (int step = 0; step < steps; step++) {
        clt_step_result result;
        bool have;
        must(clt_step(run, step), "step");
        must(clt_reporter_take(run->reporter, true, &result, &have), "report");
        for (int i = 0; i < 4; i++)
            t.loss[step][i] = (double)result.loss[0][i];
        assert_true(isfinite(t.loss[step][0]));
    }
    read_arena(run, CLT_ARENA_PARAM, &t.params, &t.elements);
    read_arena(run, CLT_ARENA_GRAD, &t.grads, &t.elements);
    t.train_bytes = run->job->train->activation_bytes;
    return t;
}

static inline void same_bits(const char *what, const trained *a, const trained *b)
{
    assert_int_equal(a->elements, b->elements);
    for (int i = 0; i < a->n; i++)
        if (memcmp(a->loss[i], b->loss[i], sizeof a->loss[i]) != 0)
            fail_msg("%s: loss of step %d is %.9g and %.9g, targets %g and %g, hits %g and %g", what, i,
                     a->loss[i][0], b->loss[i][0], a->loss[i][2], b->loss[i][2], a->loss[i][3],
                     b->loss[i][3]);
    double largest = 0;
    for (uint64_t i = 0; i < a->elements; i++) {
        largest = fmax(largest, fabs((double)a->grads[i]));
        if (memcmp(&a->grads[i], &b->grads[i], sizeof(float)) != 0 ||
            memcmp(&a->params[i], &b->params[i], sizeof(float)) != 0)
            fail_msg("%s: element %llu: gradients %.9g and %.9g, parameters %.9g and %.9g", what,
                     (unsigned long long)i, (double)a->grads[i], (double)b->grads[i], (double)a->params[i],
                     (double)b->params[i]);
    }
    assert_true(largest > 1e-6);
}

/* Each comparison has to build its kernels, so without the argument "all" only one in three is made. */

static inline bool left_out(void)
{
    static int number;
    return !run_everything && number++ % 3 != 0;
}

static inline void trained_free(trained *t)
{
    free(t->params);
    free(t->grads);
}

static inline int fuse_setup(void **state)
{
    (void)state;
    FILE *file = fopen(in_dir("text.txt"), "wb");
    for (int i = 0; file && i < 4000; i++)
        fputc("abcdefgh ijk\n"[clt_rng_u32(3, CLT_RNG_VERIFY, 0, 0, (uint64_t)i) % 13], file);
    /* both plans must use the same GEMM backend, since the last bits depend on it */
    setenv("CLTRAIN_GEMM", "simple", 1);
    return file ? fclose(file) : -1;
}

#endif
