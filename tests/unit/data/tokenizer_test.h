/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of tokenizers share: small texts, a small vocabulary trained on them, pseudo-random bytes.
 */
#ifndef TESTS_UNIT_TOKENIZER_TEST_H
#define TESTS_UNIT_TOKENIZER_TEST_H

#include "tests/unit/data/data_test.h"

#include "engine/base/rng.h"
#include "engine/data/tokenizer/bpe_train.h"
#include "engine/data/tokenizer/tokenizer.h"

static const char sample_text[] = "The quick brown fox jumps over the lazy dog, and the dog doesn't "
                                  "care.\n\nShe sells sea shells; he'll see "
                                  "1234 of them.\tThere they're, there're others: \xc3\xa9t\xc3\xa9, "
                                  "\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e \xf0\x9f"
                                  "\x98\x80!\n    return the_other(thing);\n";

/* Repeats sample_text; the caller frees the result. */
static inline char *long_text(size_t times, size_t *size)
{
    size_t one = sizeof sample_text - 1;
    char *text = malloc(one * times + 1);
    assert_non_null(text);
    for (size_t i = 0; i < times; i++)
        memcpy(text + i * one, sample_text, one);
    *size = one * times;
    text[*size] = '\0';
    return text;
}

static inline clt_tokenizer *train_on(const char *text, size_t size, int64_t vocab)
{
    clt_bpe_trainer *trainer = NULL;
    clt_tokenizer *t = NULL;
    assert_ok(clt_bpe_trainer_create(&trainer));
    assert_ok(clt_bpe_trainer_add(trainer, text, size));
    if (clt_bpe_trainer_run(trainer, vocab, NULL, NULL, &t) != CLT_OK)
        fail_msg("%s", clt_error_text());
    clt_bpe_trainer_destroy(trainer);
    return t;
}

static inline clt_tokenizer *small_tokenizer(void)
{
    size_t size;
    CLT_FREED char *text = long_text(20, &size);
    clt_tokenizer *t = train_on(text, size, 340);
    return t;
}

static inline clt_tokenizer *open_tokenizer(const char *path)
{
    clt_tokenizer *t = NULL;
    if (clt_tokenizer_open(path, &t) != CLT_OK)
        fail_msg("%s", clt_error_text());
    return t;
}

static inline clt_ids encode_all(const clt_tokenizer *t, const char *text, size_t size)
{
    clt_ids ids = {0};
    if (clt_tokenizer_encode(t, text, size, &ids) != CLT_OK)
        fail_msg("%s", clt_error_text());
    return ids;
}

static inline void expect_ids(const clt_ids *got, const uint32_t *want, size_t count)
{
    assert_int_equal(got->count, count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(got->id[i], want[i]);
}

/* Encodes and decodes a text and compares; returns the number of ids. */
static inline size_t round_trip(const clt_tokenizer *t, const char *text, size_t size)
{
    clt_ids ids = encode_all(t, text, size);
    clt_str back = {0};
    for (size_t i = 0; i < ids.count; i++)
        assert_true(ids.id[i] < clt_tokenizer_vocab(t));
    assert_ok(clt_tokenizer_decode(t, ids.id, ids.count, &back));
    assert_int_equal(back.length, size);
    if (size)
        assert_memory_equal(back.text, text, size);
    clt_str_free(&back);
    free(ids.id);
    return ids.count;
}

static inline uint32_t test_random(uint64_t i)
{
    return clt_rng_u32(11, CLT_RNG_VERIFY, 1, 0, i);
}

#endif
