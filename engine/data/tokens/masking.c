/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses masks. Source: Devlin et al. 2018, arXiv:1810.04805, section 3.1. Whole words are masked as in
 * the authors' later program: a word that would exceed the count is skipped, not cut. */
#include "engine/data/tokens/masking.h"

#include <math.h>
#include <stdlib.h>

#include "engine/base/rng.h"

/* op ids of CLT_RNG_MASK: the order of words; the kind of replacement; the random token */
enum { STREAM_ORDER = 0, STREAM_FATE = 1, STREAM_TOKEN = 2 };
/* random words of a sample in each stream; no text has more tokens */
#define STRIDE ((uint64_t)1 << 16)

typedef struct sample_stream {
    clt_draw draw;
    int64_t sample;
} sample_stream;

static uint32_t word_of(const sample_stream *s, uint32_t stream, int64_t at)
{
    return clt_rng_u32(s->draw.seed, CLT_RNG_MASK, stream, s->draw.epoch,
                       (uint64_t)s->sample * STRIDE + (uint64_t)at);
}

static int64_t below(uint32_t word, int64_t n)
{
    return (int64_t)((uint64_t)word * (uint64_t)n >> 32);
}

int64_t clt_masking_count(const clt_masking *how, int64_t length)
{
    int64_t n = (int64_t)rint((double)length * how->share);
    n = n < 1 ? 1 : n;
    return n < how->most ? n : how->most;
}

/* Finds the words and the first place of each, in order. Every token except [CLS] and [SEP] is a word; with
 * whole words, tokens that continue the previous token belong to its word. */
static int64_t find_words(const clt_masking *how, const uint32_t *id, int64_t length, int32_t *first)
{
    int64_t words = 0;
    bool after = false; /* the previous token belongs to a word */
    for (int64_t i = 0; i < length; i++) {
        bool special = id[i] == how->begin || id[i] == how->separator;
        bool joins = how->whole_words && after && clt_tokenizer_continues(how->tokenizer, id[i]);
        if (!special && !joins)
            first[words++] = (int32_t)i;
        after = !special;
    }
    return words;
}

/* The number of tokens of the word that begins at `first`. */
static int64_t word_size(const clt_masking *how, const uint32_t *id, int64_t length, int64_t first)
{
    int64_t end = first + 1;
    while (how->whole_words && end < length && id[end] != how->begin && id[end] != how->separator &&
           clt_tokenizer_continues(how->tokenizer, id[end]))
        end++;
    return end - first;
}

static int ascending(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static void replace(const clt_masking *how, const sample_stream *s, uint32_t *id, int64_t at)
{
    float fate = clt_rng_uniform(word_of(s, STREAM_FATE, at));
    if (fate < 0.8f)
        id[at] = how->mask;
    else if (fate >= 0.9f)
        id[at] = (uint32_t)below(word_of(s, STREAM_TOKEN, at), clt_tokenizer_vocab(how->tokenizer));
}

int64_t clt_mask_tokens(const clt_masking *how, clt_draw draw, int64_t sample, uint32_t *id, int64_t length,
                        int32_t *place, int32_t *target, int32_t *scratch)
{
    const sample_stream s = {draw, sample};
    int64_t wanted = clt_masking_count(how, length), n = 0;
    int64_t words = find_words(how, id, length, scratch);
    for (int64_t k = 0; k < words && n < wanted; k++) {
        int64_t other = k + below(word_of(&s, STREAM_ORDER, k), words - k);
        int32_t first = scratch[other];
        scratch[other] = scratch[k];
        int64_t size = word_size(how, id, length, first);
        for (int64_t i = 0; n + size <= wanted && i < size; i++)
            place[n + i] = first + (int32_t)i;
        n += n + size <= wanted ? size : 0;
    }
    qsort(place, (size_t)n, sizeof *place, ascending);
    for (int64_t i = 0; i < n; i++)
        target[i] = (int32_t)id[place[i]];
    for (int64_t i = 0; i < n; i++)
        replace(how, &s, id, place[i]);
    return n;
}
