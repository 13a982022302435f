/* SPDX-License-Identifier: Apache-2.0
 *
 * Masked tokens in 100,000 texts, masked whole words, damaged files of pairs, pairs of sentences.
 * ctest-labels: quick
 * ctest-optimise: no */
#include "tests/unit/data/tokenizer_test.h"

#include <math.h>

#include "engine/data/tokens/masking.h"
#include "engine/data/tokens/pair_file.h"
#include "engine/data/tokens/sentence_pairs.h"

#define TEXTS 100000
#define LONGEST 128
#define PIECES CLT_TEST_SOURCE_DIR "/tests/golden/tokenizers/bert_cased/vocab.txt"
enum { PAD = 0, UNK = 2, CLS = 3, SEP = 4, MASK = 5 };

static clt_masking masking_of(const clt_tokenizer *t, bool whole_words)
{
    return (clt_masking){.tokenizer = t,
                         .share = 0.15,
                         .most = 20,
                         .whole_words = whole_words,
                         .mask = MASK,
                         .begin = CLS,
                         .separator = SEP};
}

/* Fills a pair of texts of random tokens; returns its length, from 5 to LONGEST. */
static int64_t make_text(const clt_tokenizer *t, uint32_t number, uint32_t *id)
{
    int64_t length = 5 + (int64_t)(clt_rng_u32(3, CLT_RNG_DATA, 0, 0, number) % (LONGEST - 4));
    for (int64_t i = 0; i < length; i++)
        id[i] = 6 + clt_rng_u32(4, CLT_RNG_DATA, 0, number, (uint64_t)i) % (clt_tokenizer_vocab(t) - 6);
    id[0] = CLS;
    id[2] = id[length - 1] = SEP;
    return length;
}

/* Python's round(length * 0.15), between 1 and 20, written without the function under test. */
static int64_t wanted_of(int64_t length)
{
    double exact = (double)length * 0.15, down = floor(exact), rest = exact - down;
    int64_t n = (int64_t)down + (rest > 0.5 || (!(rest < 0.5) && (int64_t)down % 2 == 1));
    return n < 1 ? 1 : n > 20 ? 20 : n;
}

TEST(test_counts_and_shares)
{
    CLT_SCOPED(clt_tokenizer) *t = open_tokenizer(PIECES);
    const clt_masking how = masking_of(t, false);
    int64_t places = 0, masked = 0, kept = 0, random = 0, at_place[LONGEST] = {0};
    for (uint32_t text = 0; text < TEXTS; text++) {
        uint32_t id[LONGEST], was[LONGEST];
        int32_t place[20], target[20], scratch[LONGEST];
        int64_t length = make_text(t, text, id), next = 0;
        memcpy(was, id, sizeof id);
        int64_t n = clt_mask_tokens(&how, (clt_draw){7, text % 3}, text, id, length, place, target, scratch);
        int64_t most = length - 3;
        assert_int_equal(n, wanted_of(length) < most ? wanted_of(length) : most);
        for (int64_t i = 0; i < length; i++) {
            if (next == n || place[next] != i) { /* other places stay, [CLS] and [SEP] among them */
                assert_int_equal(id[i], was[i]);
                continue;
            }
            assert_true(was[i] != CLS && was[i] != SEP);
            assert_int_equal(target[next++], was[i]);
            masked += id[i] == MASK;
            kept += id[i] == was[i];
            random += id[i] != MASK && id[i] != was[i];
            at_place[i]++;
        }
        assert_int_equal(next, n);
        places += n;
    }
    assert_true(fabs((double)masked / (double)places - 0.8) < 0.003);
    assert_true(fabs((double)kept / (double)places - 0.1) < 0.003);
    assert_true(fabs((double)random / (double)places - 0.1) < 0.003);
    for (int i = 4; i < 40; i++) /* no place is preferred: each is masked in nearly as many texts */
        assert_true(at_place[i] > at_place[3] / 2 && at_place[i] < 2 * at_place[3]);
}

TEST(test_pure_function)
{
    CLT_SCOPED(clt_tokenizer) *t = open_tokenizer(PIECES);
    const clt_masking how = masking_of(t, false);
    uint32_t first[LONGEST], id[LONGEST];
    int32_t place[20], target[20], scratch[LONGEST], before[20];
    int64_t length = 0, n = 0;
    const clt_draw draws[] = {{7, 0}, {7, 0}, {7, 1}, {8, 0}};
    for (int i = 0; i < 4; i++) {
        length = make_text(t, 11, id);
        n = clt_mask_tokens(&how, draws[i], 11, id, length, place, target, scratch);
        if (i == 0) {
            memcpy(first, id, sizeof id);
            memcpy(before, place, sizeof place);
        }
        bool same = memcmp(before, place, (size_t)n * sizeof *place) == 0 &&
                    memcmp(first, id, (size_t)length * sizeof *id) == 0;
        assert_int_equal(same, i < 2);
    }
}

/* All pieces of a word are masked, or none; no more tokens than without whole words. */
TEST(test_whole_words)
{
    CLT_SCOPED(clt_tokenizer) *t = open_tokenizer(PIECES);
    const clt_masking how = masking_of(t, true);
    int64_t several = 0;
    for (uint32_t text = 0; text < 5000; text++) {
        uint32_t id[LONGEST], was[LONGEST];
        int32_t place[20], target[20], scratch[LONGEST];
        bool chosen[LONGEST] = {false};
        int64_t length = make_text(t, text, id);
        memcpy(was, id, sizeof id);
        int64_t n = clt_mask_tokens(&how, (clt_draw){1, 0}, text, id, length, place, target, scratch);
        assert_true(n <= wanted_of(length));
        for (int64_t i = 0; i < n; i++)
            chosen[place[i]] = true;
        for (int64_t i = 1; i < length; i++) {
            bool joins =
                was[i - 1] != CLS && was[i - 1] != SEP && was[i] != SEP && clt_tokenizer_continues(t, was[i]);
            if (joins)
                assert_int_equal(chosen[i], chosen[i - 1]);
            several += joins && chosen[i];
        }
    }
    assert_true(several > 1000);
}

typedef struct seen {
    int64_t pairs, random;
} seen;

static clt_status see(void *context, const uint32_t *ids, int64_t first, int64_t length, bool random)
{
    seen *s = context;
    assert_true(ids[0] == CLS && ids[first - 1] == SEP && ids[length - 1] == SEP);
    assert_true(first >= 3 && length >= first + 2 && length <= 24);
    /* each document has a token of its own, so the second text tells where it comes from */
    for (int64_t i = 1; i < length - 1; i++)
        assert_true(i == first - 1 || ids[i] == ids[i < first - 1 ? 1 : first]);
    assert_int_equal(ids[1] != ids[first], random);
    s->pairs++;
    s->random += random;
    return CLT_OK;
}

TEST(test_pairs)
{
    enum { DOCUMENTS = 400, SENTENCES = 6, TOKENS = 5 };
    clt_sentences s = {.n_sentences = DOCUMENTS * SENTENCES, .n_documents = DOCUMENTS};
    s.ids.id = malloc(DOCUMENTS * SENTENCES * TOKENS * sizeof *s.ids.id);
    s.begin = malloc((DOCUMENTS * SENTENCES + 1) * sizeof *s.begin);
    s.first = malloc((DOCUMENTS + 1) * sizeof *s.first);
    assert_true(s.ids.id && s.begin && s.first);
    for (size_t i = 0; i < DOCUMENTS * SENTENCES * TOKENS; i++)
        s.ids.id[i] = (uint32_t)(10 + i / (SENTENCES * TOKENS));
    for (size_t i = 0; i <= DOCUMENTS * SENTENCES; i++)
        s.begin[i] = i * TOKENS;
    for (size_t i = 0; i <= DOCUMENTS; i++)
        s.first[i] = i * SENTENCES;
    const clt_pairing how = {.context = 24, .shorter = 0.1, .copies = 3, .begin = CLS, .separator = SEP};
    seen all = {0};
    assert_ok(clt_pairs_make(&s, &how, 0, DOCUMENTS, see, &all));
    assert_true(all.pairs > 1200);
    double share = (double)all.random / (double)all.pairs;
    assert_true(share > 0.5 && share < 0.8); /* a remainder of one sentence gets a random text, too */
    clt_sentences_free(&s);
}

TEST(test_damaged_files)
{
    const clt_pair_header header = {.width = 2, .context = 8, .vocab = 10, .tokenizer = 1};
    const uint32_t ids[] = {CLS, 6, SEP, 7, 8, SEP};
    char path[512], *text = NULL;
    size_t size;
    clt_pair_header h;
    clt_pair pair;
    CLT_SCOPED(clt_pair_writer) *writer = NULL;
    snprintf(path, sizeof path, "%s/a.pairs", test_folder());
    assert_ok(clt_pair_writer_create(path, &header, &writer));
    assert_ok(clt_pair_writer_put(writer, ids, 3, 6, true));
    assert_ok(clt_pair_writer_finish(writer));
    assert_ok(clt_file_read(path, false, 0, CLT_EDATA, &text, &size));
    uint8_t *bytes = (uint8_t *)text;
    assert_ok(clt_pair_parse(path, bytes, size, &h));
    assert_ok(clt_pair_at(path, &h, bytes, 0, &pair));
    assert_true(h.records == 1 && pair.first == 3 && pair.length == 6 && pair.random);
    assert_int_equal(clt_pair_token(&h, &pair, 4), 8);
    for (size_t cut = 0; cut < size; cut++) /* every cut is detected */
        assert_int_equal(clt_pair_parse(path, bytes, cut, &h), CLT_EDATA);
    for (size_t at = 0; at < size; at++) /* no changed byte leads to a read outside the file */
        for (int bit = 0; bit < 8; bit++) {
            bytes[at] ^= (uint8_t)(1 << bit);
            if (clt_pair_parse(path, bytes, size, &h) == CLT_OK && h.records > 0 &&
                clt_pair_at(path, &h, bytes, 0, &pair) == CLT_OK)
                assert_true(pair.tokens + pair.length * h.width <= bytes + size);
            bytes[at] ^= (uint8_t)(1 << bit);
        }
    free(text);
}

TEST_PROGRAM(.fresh_folder = true);
