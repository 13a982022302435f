/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts of classes: against numbers worked out by hand, and against a plain count of random logits in
 * every layout. */
#include "engine/report/write/class_counts.h"

#include <math.h>
#include "tests/unit/test.h"

static clt_class_counts *make(int64_t classes, int32_t top_k)
{
    clt_class_counts *c;
    assert_ok(clt_class_counts_create(classes, top_k, &c));
    return c;
}

static void near(double value, double want)
{
    if (isnan(want))
        assert_true(isnan(value));
    else
        assert_float_equal(value, want, 1e-12);
}

/* Five samples of three classes, one of them with a tie, one ignored, one that is not a number. */
static const float by_hand[] = {
    2, 1,   0, /* target 0: right */
    1, 1,   0, /* target 1: the first of equals is predicted, 0; among the top two */
    0, 5,   9, /* target 2: right */
    3, 2,   1, /* target 2: predicted 0, not among the top two */
    0, 1,   0, /* ignored */
    1, NAN, 0 /* target 0: nothing is predicted */};
static const int32_t hand_targets[] = {0, 1, 2, 2, -100, 0};

TEST(test_by_hand)
{
    clt_class_counts *c = make(3, 2);
    const clt_class_batch batch = {.logits = by_hand,
                                   .samples = 6,
                                   .places = 1,
                                   .sample_stride = 3,
                                   .place_stride = 3,
                                   .class_stride = 1,
                                   .targets = hand_targets,
                                   .target_dtype = CLT_I32,
                                   .has_ignore = true,
                                   .ignore = -100};
    static const int64_t confusion[] = {1, 0, 0, 1, 0, 0, 1, 0, 1};
    assert_ok(clt_class_counts_add(c, &batch));
    assert_memory_equal(c->confusion, confusion, sizeof confusion);
    assert_int_equal(c->targets[0], 5);
    assert_int_equal(c->support[0], 2);
    near(clt_class_top_k(c), 3.0 / 5);
    near(clt_class_precision(c, 0), 1.0 / 3);
    near(clt_class_recall(c, 0), 1.0 / 2);
    near(clt_class_f1(c, 0), 2.0 / 5);
    near(clt_class_precision(c, 1), NAN);
    near(clt_class_recall(c, 1), 0);
    near(clt_class_f1(c, 1), 0);
    near(clt_class_f1(c, 2), 2.0 / 3);
    near(clt_class_macro_f1(c), (2.0 / 5 + 2.0 / 3) / 3);
    near(clt_class_mean_dice(c), NAN); /* one target a sample: no segmentation */
    clt_class_counts_reset(c);
    near(clt_class_f1(c, 0), NAN);
    clt_class_counts_destroy(c);
}

/* Two sentences of four words, some of which have no label and are left out, so that their neighbours
 * become adjacent. A prediction that is not a number counts as O. */
TEST(test_entities)
{
    static const char *const names[] = {"B-X", "I-X", "O"};
    static const int32_t targets[] = {0, -1, 1, 2, 0, 2, -1, 0};
    static const float logits[] = {9, 0, 0, 0,   0, 9, 0, 9, 0, 0, 0, 9,  /* X from word 0 to word 2 */
                                   9, 0, 0, NAN, 9, 0, 9, 0, 0, 0, 9, 0}; /* word 0; word 3 */
    clt_class_counts *c = make(3, 0);
    const clt_class_batch batch = {.logits = logits,
                                   .samples = 2,
                                   .places = 4,
                                   .sample_stride = 12,
                                   .place_stride = 3,
                                   .class_stride = 1,
                                   .targets = targets,
                                   .target_dtype = CLT_I32,
                                   .has_ignore = true,
                                   .ignore = -1};
    CLT_SCOPED(clt_str) text = {0};
    clt_json_writer w = clt_json_writer_make(&text, 0);
    assert_ok(clt_class_counts_take_names(c, names, 3));
    assert_ok(clt_class_counts_take_entities(c));
    for (int i = 0; i < 2; i++) {
        clt_class_counts_reset(c);
        assert_ok(clt_class_counts_add(c, &batch));
        clt_entity_figures f = clt_entities_figures(c->entities, -1);
        assert_int_equal(f.there, 3);
        assert_int_equal(f.predicted, 3);
        assert_int_equal(f.right, 3);
    }
    clt_jw_object(&w);
    clt_class_counts_write(c, &w);
    clt_jw_end_object(&w);
    assert_ok(clt_str_check(&text));
    assert_non_null(strstr(text.text, "\"entity_f1\":1,\"entities\":[{\"type\":\"X\",\"entities\":3,"));
    clt_class_counts_destroy(c);
}

/* Two images of four pixels; class 1 occurs only in the first image, class 2 is only predicted. */
TEST(test_dice)
{
    static const uint8_t targets[] = {0, 0, 1, 1, 0, 0, 0, 0};
    static const int guess[] = {0, 1, 1, 1, 0, 2, 0, 0};
    float logits[2 * 3 * 4] = {0};
    for (int i = 0; i < 8; i++)
        logits[i / 4 * 12 + guess[i] * 4 + i % 4] = 1;
    clt_class_counts *c = make(3, 5);
    c->spatial = true;
    const clt_class_batch batch = {.logits = logits,
                                   .samples = 2,
                                   .places = 4,
                                   .sample_stride = 12,
                                   .place_stride = 1,
                                   .class_stride = 4,
                                   .targets = targets,
                                   .target_dtype = CLT_U8};
    assert_ok(clt_class_counts_add(c, &batch));
    near(clt_class_f1(c, 0), 2.0 * 4 / (6 + 4));
    near(clt_class_f1(c, 1), 2.0 * 2 / (2 + 3));
    near(clt_class_f1(c, 2), 0);
    near(clt_class_mean_dice(c), (4.0 / 5 + 0) / 2);
    near(clt_class_sample_dice(c, 0), (2.0 / 3 + 6.0 / 7) / 2);
    near(clt_class_sample_dice(c, 1), 4.0 / 5);
    near(clt_class_sample_dice(c, 2), NAN);
    near(clt_class_mean_sample_dice(c), 4.0 / 5);
    near(clt_class_top_k(c), NAN); /* with three classes every class is among the top five */
    c->background = true;
    near(clt_class_mean_dice(c), (4.0 / 5 + 4.0 / 5 + 0) / 3);
    clt_class_counts_destroy(c);
}

TEST(test_binary)
{
    static const float logits[] = {3, -1, 0, NAN, 2}, targets[] = {1, 0, 1, 1, 0};
    static const int64_t confusion[] = {1, 1, 1, 1};
    clt_class_counts *c = make(2, 5);
    const clt_class_batch batch = {.logits = logits,
                                   .samples = 5,
                                   .places = 1,
                                   .sample_stride = 1,
                                   .place_stride = 1,
                                   .binary = true,
                                   .targets = targets,
                                   .target_dtype = CLT_F32};
    assert_ok(clt_class_counts_add(c, &batch));
    assert_memory_equal(c->confusion, confusion, sizeof confusion);
    assert_int_equal(c->support[1], 3);
    clt_class_counts_destroy(c);
}

/* The same numbers with classes last and classes second, in one batch and in several, with several
 * threads. */
TEST(test_layouts)
{
    enum { N = 7, C = 5, S = 1500 };
    float *last = malloc(sizeof *last * N * C * S), *second = malloc(sizeof *second * N * C * S);
    CLT_FREED uint16_t *targets = malloc(sizeof *targets * N * S);
    assert_true(last && second && targets);
    uint32_t random = 7;
    int64_t confusion[C * C] = {0}, top = 0;
    for (int i = 0; i < N * S; i++) {
        int best = 0, before = 0;
        for (int k = 0; k < C; k++) {
            random = random * 1664525u + 1013904223u;
            float v = (float)(random >> 28); /* many ties */
            last[i * C + k] = second[(i / S * C + k) * S + i % S] = v;
            best = v > last[i * C + best] ? k : best;
        }
        random = random * 1664525u + 1013904223u;
        targets[i] = (uint16_t)((random >> 16) % C);
        for (int k = 0; k < C; k++)
            before += last[i * C + k] > last[i * C + targets[i]] ||
                      (k < targets[i] && last[i * C + k] >= last[i * C + targets[i]]);
        top += before < 3;
        confusion[targets[i] * C + best]++;
    }
    clt_class_counts *a = make(C, 3), *b = make(C, 3);
    a->spatial = b->spatial = true;
    clt_class_batch batch = {.logits = last,
                             .samples = N,
                             .places = S,
                             .sample_stride = C * S,
                             .place_stride = C,
                             .class_stride = 1,
                             .targets = targets,
                             .target_dtype = CLT_U16};
    assert_ok(clt_class_counts_add(a, &batch));
    for (int n = 0; n < N; n++) {
        batch = (clt_class_batch){.logits = second + n * C * S,
                                  .samples = 1,
                                  .places = S,
                                  .sample_stride = C * S,
                                  .place_stride = 1,
                                  .class_stride = S,
                                  .targets = targets + n * S,
                                  .target_dtype = CLT_U16};
        assert_ok(clt_class_counts_add(b, &batch));
    }
    assert_memory_equal(a->confusion, confusion, sizeof confusion);
    assert_int_equal(a->top_hits[0], top);
    assert_memory_equal(a->all, b->all, a->n_all * sizeof *a->all);
    assert_memory_equal(a->dice_sum, b->dice_sum, C * sizeof *a->dice_sum);
    clt_class_counts_destroy(a);
    clt_class_counts_destroy(b);
    free(last);
    free(second);
}

TEST(test_text)
{
    static const char *const names[] = {"cat", "a \"big\", dog"};
    clt_class_counts *c = make(3, 2);
    clt_str csv = {0}, json = {0};
    const clt_class_batch batch = {.logits = by_hand,
                                   .samples = 4,
                                   .places = 1,
                                   .sample_stride = 3,
                                   .place_stride = 3,
                                   .class_stride = 1,
                                   .targets = hand_targets,
                                   .target_dtype = CLT_I32};
    assert_ok(clt_class_counts_take_names(c, names, 2));
    assert_ok(clt_class_counts_add(c, &batch));
    assert_ok(clt_class_counts_csv(c, &csv));
    assert_string_equal(csv.text, "target\\prediction,cat,\"a \"\"big\"\", dog\",2\n"
                                  "cat,1,0,0\n\"a \"\"big\"\", dog\",1,0,0\n2,1,0,1\n");
    clt_json_writer w = clt_json_writer_make(&json, 0);
    clt_jw_object(&w);
    clt_class_counts_write(c, &w);
    clt_jw_end_object(&w);
    clt_json_doc *doc;
    assert_ok(clt_json_parse(json.text, json.length, "test", CLT_EDATA, &doc));
    const clt_json *list = clt_json_get(clt_json_root(doc), "classes");
    assert_int_equal(clt_json_count(list), 3);
    assert_string_equal(clt_json_string(clt_json_get(clt_json_first(list), "name")), "cat");
    assert_int_equal(clt_json_count(clt_json_get(clt_json_root(doc), "confusion")), 3);
    assert_true(strstr(json.text, "\"precision\":null") != NULL); /* never predicted */
    clt_json_destroy(doc);
    clt_class_counts_destroy(c);
    /* with very many classes there is no matrix */
    c = make(CLT_CONFUSION_CLASSES + 1, 5);
    assert_null(c->confusion);
    assert_int_equal(clt_class_counts_csv(c, &csv), CLT_EUNSUPPORTED);
    clt_error_clear();
    clt_class_counts_destroy(c);
    clt_str_free(&csv);
    clt_str_free(&json);
}
