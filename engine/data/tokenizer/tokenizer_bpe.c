/* SPDX-License-Identifier: Apache-2.0
 *
 * Encodes a text: splits it into words, and turns words into ids, either with tokenizer_wordpiece.c or by
 * byte-pair merges. The merge with the lowest rank comes first, among equal ones the leftmost. Since
 * words repeat in a text, a cache maps short words to their ids; a hit reads one cache line. It knows
 * nothing of files. */
#include <stdlib.h>
#include <string.h>

#include "engine/data/texts/characters.h"
#include "engine/data/tokenizer/tokenizer_internal.h"

#define CACHE_BITS 16 /* 65536 lines of 64 bytes */
#define CACHED_BYTES 30
#define CACHED_IDS 8
#define NO_MERGE UINT32_MAX

/* A cached word and its ids; `size` 0: the entry is empty. A later word with the same index replaces it. */
typedef struct cache_line {
    uint8_t size, count;
    char word[CACHED_BYTES];
    uint32_t id[CACHED_IDS];
} cache_line;
_Static_assert(sizeof(cache_line) == 64, "a cached word is one cache line");

/* Scratch memory for a long word: a linked list of its symbols, and a heap of possible merges. */
typedef struct long_word {
    uint32_t *id, *next, *prev, *rank; /* (n) each; `rank`: of the symbol's merge with the next one */
    uint64_t *heap;                    /* rank << 32 | index of the left symbol; smallest first */
    size_t capacity, heap_count, heap_capacity;
} long_word;

struct clt_encoder {
    const clt_tokenizer *tokenizer;
    void *cache_block;
    cache_line *cache; /* part of cache_block, aligned to 64 bytes */
    long_word scratch;
    clt_str normal;   /* a text in normal form */
    clt_str prefixed; /* a text with a space before it */
    /* While encoding: */
    clt_ids *out;
    clt_text_start start; /* place of the text that is encoded next */
    const clt_text_range *marked;
    size_t n_marked;
};

clt_status clt_encoder_create(const clt_tokenizer *tokenizer, clt_encoder **out)
{
    CLT_SCOPED(clt_encoder) *e = NULL;
    *out = NULL;
    CLT_TRY(clt_alloc(&e, 1, sizeof *e, "an encoder"));
    e->tokenizer = tokenizer;
    CLT_TRY(clt_alloc(&e->cache_block, ((size_t)1 << CACHE_BITS) + 1, sizeof *e->cache,
                      "the cache of an encoder"));
    e->cache = (cache_line *)(((uintptr_t)e->cache_block + 63) & ~(uintptr_t)63);
    *out = CLT_TAKE(e);
    return CLT_OK;
}

void clt_encoder_destroy(clt_encoder *e)
{
    if (!e)
        return;
    clt_str_free(&e->normal);
    clt_str_free(&e->prefixed);
    free(e->cache_block);
    free(e->scratch.id);
    free(e->scratch.next);
    free(e->scratch.prev);
    free(e->scratch.rank);
    free(e->scratch.heap);
    free(e);
}

static inline void look_up(const clt_tokenizer *t, uint32_t left, uint32_t right, uint32_t *rank,
                           uint32_t *id)
{
    const clt_pair_slot *slot = clt_tokenizer_pair(t, left, right);
    *rank = slot ? slot->rank : NO_MERGE;
    *id = slot ? slot->id : CLT_NO_TOKEN;
}

size_t clt_merge_symbols(const clt_tokenizer *t, uint32_t *id, size_t n, size_t least)
{
    uint32_t rank[CLT_SHORT_WORD], joined[CLT_SHORT_WORD];
    for (size_t i = 0; i + 1 < n; i++)
        look_up(t, id[i], id[i + 1], &rank[i], &joined[i]);
    while (n > least) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (rank[i] < rank[best])
                best = i;
        if (rank[best] == NO_MERGE)
            break;
        id[best] = joined[best];
        size_t after = n - best - 2; /* number of symbols after the merged pair */
        memmove(id + best + 1, id + best + 2, after * sizeof *id);
        if (after > 1) {
            memmove(rank + best + 1, rank + best + 2, (after - 1) * sizeof *rank);
            memmove(joined + best + 1, joined + best + 2, (after - 1) * sizeof *joined);
        }
        n--;
        if (best > 0)
            look_up(t, id[best - 1], id[best], &rank[best - 1], &joined[best - 1]);
        if (best + 1 < n)
            look_up(t, id[best], id[best + 1], &rank[best], &joined[best]);
    }
    return n;
}

/* --- long words --- */

static void heap_push(long_word *w, uint64_t item)
{
    size_t at = w->heap_count++;
    for (; at > 0 && w->heap[(at - 1) / 2] > item; at = (at - 1) / 2)
        w->heap[at] = w->heap[(at - 1) / 2];
    w->heap[at] = item;
}

static uint64_t heap_pop(long_word *w)
{
    uint64_t top = w->heap[0], item = w->heap[--w->heap_count];
    size_t at = 0;
    for (size_t child = 1; child < w->heap_count; child = 2 * at + 1) {
        if (child + 1 < w->heap_count && w->heap[child + 1] < w->heap[child])
            child++;
        if (w->heap[child] >= item)
            break;
        w->heap[at] = w->heap[child];
        at = child;
    }
    w->heap[at] = item;
    return top;
}

static clt_status grow_scratch(long_word *w, size_t n)
{
    if (n <= w->capacity)
        return CLT_OK;
    uint32_t **const arrays[] = {&w->id, &w->next, &w->prev, &w->rank};
    w->capacity = 0;
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
        size_t had = 0;
        free(*arrays[i]);
        *arrays[i] = NULL;
        CLT_TRY(clt_grow(arrays[i], &had, n, sizeof **arrays[i], "the scratch for a long word"));
    }
    /* Room for n initial entries and two for each of the at most n-1 merges. */
    CLT_TRY(clt_grow(&w->heap, &w->heap_capacity, 3 * n, sizeof *w->heap, "the scratch for a long word"));
    w->capacity = n;
    return CLT_OK;
}

/* Pushes the merge of symbol `at` with the next one, if these two can be merged. */
static void offer(const clt_tokenizer *t, long_word *w, uint32_t at)
{
    const clt_pair_slot *slot =
        w->next[at] == CLT_NO_TOKEN ? NULL : clt_tokenizer_pair(t, w->id[at], w->id[w->next[at]]);
    w->rank[at] = slot ? slot->rank : NO_MERGE;
    if (slot)
        heap_push(w, (uint64_t)slot->rank << 32 | at);
}

/* Writes the tokens from which the merges of a word start, at most `size`; returns how many. */
static size_t symbols(const clt_tokenizer *t, const char *word, size_t size, uint32_t *id)
{
    if (t->rules.sentence.on)
        return clt_sentence_symbols(t, word, size, id);
    for (size_t i = 0; i < size; i++)
        id[i] = t->byte_token[(uint8_t)word[i]];
    return size;
}

static clt_status merge_long(clt_encoder *e, const char *word, size_t size)
{
    const clt_tokenizer *t = e->tokenizer;
    long_word *w = &e->scratch;
    if (size > INT32_MAX)
        CLT_FAIL(CLT_EDATA,
                 "tokenising: a word of %zu bytes without a space is too long; is this really text?", size);
    CLT_TRY(grow_scratch(w, size));
    w->heap_count = 0;
    size_t n = symbols(t, word, size, w->id);
    if (n == 0)
        return CLT_OK;
    for (uint32_t i = 0; i < n; i++) {
        w->prev[i] = i - 1;
        w->next[i] = i + 1 < n ? i + 1 : CLT_NO_TOKEN;
    }
    for (uint32_t i = 0; i + 1 < n; i++)
        offer(t, w, i);
    while (w->heap_count > 0) {
        uint64_t item = heap_pop(w);
        uint32_t at = (uint32_t)item, rank = (uint32_t)(item >> 32);
        if (w->rank[at] != rank)
            continue; /* outdated: one of the two symbols was merged in the meantime */
        uint32_t gone = w->next[at];
        w->id[at] = t->merges[rank].id;
        w->next[at] = w->next[gone];
        w->rank[gone] = NO_MERGE;
        if (w->next[at] != CLT_NO_TOKEN)
            w->prev[w->next[at]] = at;
        offer(t, w, at);
        if (at > 0)
            offer(t, w, w->prev[at]);
    }
    CLT_TRY(clt_grow(&e->out->id, &e->out->capacity, e->out->count + n, sizeof *e->out->id, "ids"));
    for (uint32_t at = 0; at != CLT_NO_TOKEN; at = w->next[at])
        e->out->id[e->out->count++] = w->id[at];
    return CLT_OK;
}

/* --- words --- */

static cache_line *line_of(const clt_encoder *e, const char *word, size_t size)
{
    uint64_t hash = size, part;
    for (; size >= 8; word += 8, size -= 8) {
        memcpy(&part, word, 8);
        hash = (hash ^ part) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 32;
    }
    part = 0;
    memcpy(&part, word, size);
    hash = (hash ^ part) * UINT64_C(0x9e3779b97f4a7c15);
    return &e->cache[hash >> (64 - CACHE_BITS)];
}

static clt_status encode_word(clt_encoder *e, const char *word, size_t size)
{
    const clt_tokenizer *t = e->tokenizer;
    if (t->rules.wordpiece.on)
        return clt_wordpiece_encode(t, word, size, e->out);
    uint32_t whole = t->rules.ignore_merges ? clt_tokenizer_find(t, word, size) : CLT_NO_TOKEN;
    CLT_TRY(
        clt_grow(&e->out->id, &e->out->capacity, e->out->count + CLT_SHORT_WORD, sizeof *e->out->id, "ids"));
    if (whole != CLT_NO_TOKEN) {
        e->out->id[e->out->count++] = whole;
        return CLT_OK;
    }
    if (size > CLT_SHORT_WORD)
        return merge_long(e, word, size);
    uint32_t *id = e->out->id + e->out->count;
    e->out->count += clt_merge_symbols(t, id, symbols(t, word, size, id), 1);
    return CLT_OK;
}

static clt_status on_word(void *context, const char *word, size_t size)
{
    clt_encoder *e = context;
    clt_ids *out = e->out;
    if (size > CACHED_BYTES)
        return encode_word(e, word, size);
    cache_line *line = line_of(e, word, size);
    if (line->size == size && memcmp(line->word, word, size) == 0) {
        if (out->count + CACHED_IDS > out->capacity)
            CLT_TRY(clt_grow(&out->id, &out->capacity, out->count + CACHED_IDS, sizeof *out->id, "ids"));
        for (uint8_t i = 0; i < line->count; i++)
            out->id[out->count + i] = line->id[i];
        out->count += line->count;
        return CLT_OK;
    }
    size_t before = out->count;
    CLT_TRY(encode_word(e, word, size));
    size_t made = out->count - before;
    if (made <= CACHED_IDS) {
        line->size = (uint8_t)size;
        line->count = (uint8_t)made;
        memcpy(line->word, word, size);
        memcpy(line->id, out->id + before, made * sizeof *out->id);
    }
    return CLT_OK;
}

/* --- texts --- */

static clt_status push(clt_ids *out, uint32_t id)
{
    CLT_TRY(clt_grow(&out->id, &out->capacity, out->count + 1, sizeof *out->id, "ids"));
    out->id[out->count++] = id;
    return CLT_OK;
}

/* Encodes the text between added tokens. */
static clt_status encode_plain(clt_encoder *e, const char *text, size_t size)
{
    const clt_tokenizer_rules *r = &e->tokenizer->rules;
    if (r->wordpiece.on)
        return clt_wordpiece_split(text, size, on_word, e);
    if (r->sentence.on) {
        if (!r->sentence.normal) {
            e->prefixed.length = 0;
            clt_sentence_prepare(&r->sentence, text, size, e->start, &e->prefixed);
            CLT_TRY(clt_str_check(&e->prefixed));
            text = e->prefixed.text;
            size = e->prefixed.length;
        }
        return clt_sentence_split(&r->sentence, text, size, on_word, e);
    }
    if (r->prefix_space && e->start != CLT_TEXT_CONTINUES && size > 0 && text[0] != ' ') {
        e->prefixed.length = 0;
        clt_str_append(&e->prefixed, " ");
        clt_str_append_n(&e->prefixed, text, size);
        CLT_TRY(clt_str_check(&e->prefixed));
        text = e->prefixed.text;
        size = e->prefixed.length;
    }
    return clt_split_words(&r->splitting, text, size, on_word, e);
}

typedef clt_status (*encode_rest)(clt_encoder *e, const char *text, size_t size);

/* Encodes those added tokens whose `normalized` has this value, and calls `rest` for the text between
 * them. */
static clt_status encode_added(clt_encoder *e, const char *text, size_t size, bool normalized,
                               encode_rest rest)
{
    clt_added_search search = {
        .tokenizer = e->tokenizer, .text = text, .size = size, .normalized = normalized};
    clt_added_match match;
    size_t done = 0;
    if (!normalized) { /* marked ranges refer to the original text */
        search.marked = e->marked;
        search.n_marked = e->n_marked;
    }
    while (clt_added_next(&search, &match)) {
        if (match.begin > done)
            CLT_TRY(rest(e, text + done, match.begin - done));
        CLT_TRY(push(e->out, match.id));
        e->start = CLT_TEXT_AFTER_TOKEN;
        done = match.end;
    }
    return done < size ? rest(e, text + done, size - done) : CLT_OK;
}

/* Encodes the text between added tokens that are not `normalized`: normalises it, then encodes the added
 * tokens that are `normalized`. */
static clt_status encode_normal(clt_encoder *e, const char *text, size_t size)
{
    if (!clt_tokenizer_is_normal(e->tokenizer, text, size)) {
        e->normal.length = 0;
        CLT_TRY(clt_tokenizer_normal(e->tokenizer, text, size, e->start, &e->normal));
        text = e->normal.text;
        size = e->normal.length;
    }
    return encode_added(e, text, size, true, encode_plain);
}

clt_status clt_encode_marked(clt_encoder *e, const char *text, size_t size, const clt_text_range *marked,
                             size_t n, clt_text_start start, clt_ids *out)
{
    const clt_tokenizer *t = e->tokenizer;
    if (t->bytes) {
        CLT_TRY(clt_grow(&out->id, &out->capacity, out->count + size, sizeof *out->id, "ids"));
        for (size_t i = 0; i < size; i++)
            out->id[out->count + i] = (uint8_t)text[i];
        out->count += size;
        return CLT_OK;
    }
    e->out = out;
    e->marked = marked;
    e->n_marked = n;
    e->start = start;
    bool plain = t->n_added == 0 && !t->rules.nfc && !t->rules.wordpiece.on && !t->rules.sentence.normal;
    return plain ? encode_plain(e, text, size) : encode_added(e, text, size, false, encode_normal);
}

bool clt_tokenizer_is_normal(const clt_tokenizer *t, const char *text, size_t size)
{
    if (t->rules.sentence.normal)
        return size == 0;
    return !t->rules.wordpiece.on && (!t->rules.nfc || clt_nfc_is_plain(text, size));
}

clt_status clt_tokenizer_normal(const clt_tokenizer *t, const char *text, size_t size, clt_text_start start,
                                clt_str *out)
{
    if (t->rules.sentence.normal) {
        clt_sentence_prepare(&t->rules.sentence, text, size, start, out);
        return clt_str_check(out);
    }
    return t->rules.wordpiece.on ? clt_wordpiece_normal(&t->rules.wordpiece, text, size, out)
                                 : clt_nfc(text, size, out);
}

clt_status clt_encode(clt_encoder *e, const char *text, size_t size, clt_ids *out)
{
    return clt_encode_marked(e, text, size, NULL, 0, CLT_TEXT_BEGINS, out);
}

clt_status clt_tokenizer_encode(const clt_tokenizer *tokenizer, const char *text, size_t size, clt_ids *out)
{
    CLT_SCOPED(clt_encoder) *encoder = NULL;
    CLT_TRY(clt_encoder_create(tokenizer, &encoder));
    return clt_encode(encoder, text, size, out);
}
