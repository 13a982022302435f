/* SPDX-License-Identifier: Apache-2.0
 *
 * BPE training. Each different word is stored once, with its count. Each pair of neighbouring symbols has
 * a count and a list of the words that contain it, so that a merge changes only these words. A heap finds
 * the most frequent pair; an entry with an outdated count is updated when it reaches the top. */
#include "engine/data/tokenizer/bpe_train.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/hash.h"
#include "engine/data/tokenizer/tokenizer_internal.h"

#define MAX_WORD 256 /* longer words are cut into pieces, since merges in very long words cost too much */
#define PROGRESS_EVERY 64

typedef struct train_word {
    size_t begin; /* index of its first symbol in `symbols` */
    uint32_t size;
    int64_t count;
    uint64_t hash;
} train_word;

typedef struct train_pair {
    uint64_t key; /* left << 32 | right; UINT64_MAX: an empty slot */
    int64_t count;
    /* indices of words that contain the pair, or contained it before merges; a word may be listed twice */
    uint32_t *words;
    size_t n_words, words_capacity;
    int64_t before; /* count before the current merge */
    bool touched;   /* whether the current merge changed the count */
} train_pair;

typedef struct heap_item {
    int64_t count;
    uint64_t key;
} heap_item;

struct clt_bpe_trainer {
    train_word *words;
    size_t n_words, words_capacity;
    uint32_t *symbols; /* symbols of all words; before the merges a symbol is a byte */
    size_t n_symbols, symbols_capacity;
    uint32_t *table; /* hash table of words, UINT32_MAX where empty */
    size_t table_slots;

    train_pair *pairs;
    size_t n_pairs, pair_slots; /* a power of two */
    heap_item *heap;
    size_t heap_count, heap_capacity;
    uint64_t *touched;
    size_t n_touched, touched_capacity;

    clt_token *tokens; /* the vocabulary that is being built; bytes are malloc'ed */
    uint32_t n_tokens;
    size_t tokens_capacity;
    uint32_t *names; /* hash table from the bytes of a token to its id */
    size_t name_slots;
    clt_merge *merges;
    size_t n_merges, merges_capacity;
};

clt_status clt_bpe_trainer_create(clt_bpe_trainer **out)
{
    *out = NULL;
    return clt_alloc(out, 1, sizeof **out, "a BPE trainer");
}

void clt_bpe_trainer_destroy(clt_bpe_trainer *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->pair_slots; i++)
        free(t->pairs[i].words);
    for (uint32_t i = 0; i < t->n_tokens; i++)
        free((char *)(uintptr_t)t->tokens[i].bytes);
    free(t->words);
    free(t->symbols);
    free(t->table);
    free(t->pairs);
    free(t->heap);
    free(t->touched);
    free(t->tokens);
    free(t->names);
    free(t->merges);
    free(t);
}

/* --- counting words --- */

static bool same_word(const clt_bpe_trainer *t, const train_word *word, const char *text, size_t size)
{
    const uint32_t *symbols = t->symbols + word->begin;
    if (word->size != size)
        return false;
    for (size_t i = 0; i < size; i++)
        if (symbols[i] != (uint8_t)text[i])
            return false;
    return true;
}

/* Doubles a hash table of indices and empties it (UINT32_MAX), so that the caller fills it again. */
static clt_status double_slots(uint32_t **table, size_t *slots, const char *what)
{
    size_t twice = *slots ? *slots * 2 : 4096;
    free(*table);
    *table = NULL;
    *slots = 0;
    CLT_TRY(clt_alloc(table, twice, sizeof **table, what));
    memset(*table, 0xff, twice * sizeof **table);
    *slots = twice;
    return CLT_OK;
}

static void put_index(uint32_t *table, size_t slots, uint64_t hash, uint32_t index)
{
    size_t at = (size_t)hash & (slots - 1);
    while (table[at] != UINT32_MAX)
        at = (at + 1) & (slots - 1);
    table[at] = index;
}

static clt_status grow_table(clt_bpe_trainer *t)
{
    CLT_TRY(double_slots(&t->table, &t->table_slots, "the table of words"));
    for (uint32_t i = 0; i < t->n_words; i++)
        put_index(t->table, t->table_slots, t->words[i].hash, i);
    return CLT_OK;
}

static clt_status add_word(clt_bpe_trainer *t, const char *text, size_t size, uint64_t hash)
{
    if (t->n_words >= UINT32_MAX - 1)
        CLT_FAIL(CLT_EDATA, "training a tokenizer: more than 2^32 different words; give less text");
    CLT_TRY(clt_grow(&t->words, &t->words_capacity, t->n_words + 1, sizeof *t->words, "the words"));
    CLT_TRY(
        clt_grow(&t->symbols, &t->symbols_capacity, t->n_symbols + size, sizeof *t->symbols, "the words"));
    t->words[t->n_words++] = (train_word){t->n_symbols, (uint32_t)size, 1, hash};
    for (size_t i = 0; i < size; i++)
        t->symbols[t->n_symbols++] = (uint8_t)text[i];
    return CLT_OK;
}

static clt_status count_piece(clt_bpe_trainer *t, const char *text, size_t size)
{
    if (2 * (t->n_words + 1) > t->table_slots)
        CLT_TRY(grow_table(t));
    uint64_t hash = clt_hash64(text, size);
    size_t at = (size_t)hash & (t->table_slots - 1);
    for (; t->table[at] != UINT32_MAX; at = (at + 1) & (t->table_slots - 1)) {
        train_word *word = &t->words[t->table[at]];
        if (word->hash == hash && same_word(t, word, text, size)) {
            word->count++;
            return CLT_OK;
        }
    }
    CLT_TRY(add_word(t, text, size, hash));
    t->table[at] = (uint32_t)(t->n_words - 1);
    return CLT_OK;
}

static clt_status count_word(void *context, const char *text, size_t size)
{
    for (; size > MAX_WORD; text += MAX_WORD, size -= MAX_WORD)
        CLT_TRY(count_piece(context, text, MAX_WORD));
    return count_piece(context, text, size);
}

clt_status clt_bpe_trainer_add(clt_bpe_trainer *t, const char *text, size_t size)
{
    static const clt_splitting how = {CLT_WORDS_GPT2, CLT_DIGITS_NO_RULE};
    return clt_split_words(&how, text, size, count_word, t);
}

/* --- pairs --- */

static size_t pair_slot(const clt_bpe_trainer *t, uint64_t key)
{
    size_t mask = t->pair_slots - 1, at = (size_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 20) & mask;
    while (t->pairs[at].key != UINT64_MAX && t->pairs[at].key != key)
        at = (at + 1) & mask;
    return at;
}

static clt_status grow_pairs(clt_bpe_trainer *t)
{
    size_t old_slots = t->pair_slots, slots = old_slots ? old_slots * 2 : 4096;
    train_pair *old = t->pairs, *pairs;
    CLT_TRY(clt_alloc(&pairs, slots, sizeof *pairs, "the table of pairs"));
    for (size_t i = 0; i < slots; i++)
        pairs[i].key = UINT64_MAX;
    t->pairs = pairs;
    t->pair_slots = slots;
    for (size_t i = 0; i < old_slots; i++)
        if (old[i].key != UINT64_MAX)
            pairs[pair_slot(t, old[i].key)] = old[i];
    free(old);
    return CLT_OK;
}

static clt_status find_pair(clt_bpe_trainer *t, uint64_t key, train_pair **out)
{
    if (2 * (t->n_pairs + 1) > t->pair_slots)
        CLT_TRY(grow_pairs(t));
    train_pair *pair = &t->pairs[pair_slot(t, key)];
    if (pair->key == UINT64_MAX) {
        pair->key = key;
        t->n_pairs++;
    }
    *out = pair;
    return CLT_OK;
}

static clt_status touch(clt_bpe_trainer *t, train_pair *pair)
{
    if (pair->touched)
        return CLT_OK;
    CLT_TRY(clt_grow(&t->touched, &t->touched_capacity, t->n_touched + 1, sizeof *t->touched,
                     "the pairs of a merge"));
    pair->touched = true;
    pair->before = pair->count;
    t->touched[t->n_touched++] = pair->key;
    return CLT_OK;
}

static clt_status list_word(train_pair *pair, uint32_t index)
{
    if (pair->n_words > 0 && pair->words[pair->n_words - 1] == index)
        return CLT_OK;
    CLT_TRY(clt_grow(&pair->words, &pair->words_capacity, pair->n_words + 1, sizeof *pair->words,
                     "the words of a pair"));
    pair->words[pair->n_words++] = index;
    return CLT_OK;
}

/* Adds `count`, which may be negative, to the counts of all pairs in a word. Adds the word to the lists of
 * its new pairs: those with the symbol `fresh`, or all pairs if `fresh` is CLT_NO_TOKEN. */
static clt_status count_pairs(clt_bpe_trainer *t, uint32_t index, int64_t count, uint32_t fresh)
{
    const train_word *word = &t->words[index];
    const uint32_t *symbols = t->symbols + word->begin;
    for (uint32_t i = 0; i + 1 < word->size; i++) {
        train_pair *pair;
        CLT_TRY(find_pair(t, (uint64_t)symbols[i] << 32 | symbols[i + 1], &pair));
        CLT_TRY(touch(t, pair));
        pair->count += count;
        if (count > 0 && (fresh == CLT_NO_TOKEN || symbols[i] == fresh || symbols[i + 1] == fresh))
            CLT_TRY(list_word(pair, index));
    }
    return CLT_OK;
}

/* The order of the heap: higher counts first, then smaller ids. */
static bool before(const heap_item *a, const heap_item *b)
{
    return a->count != b->count ? a->count > b->count : a->key < b->key;
}

static clt_status heap_push(clt_bpe_trainer *t, heap_item item)
{
    CLT_TRY(clt_grow(&t->heap, &t->heap_capacity, t->heap_count + 1, sizeof *t->heap, "the heap of pairs"));
    size_t at = t->heap_count++;
    for (; at > 0 && before(&item, &t->heap[(at - 1) / 2]); at = (at - 1) / 2)
        t->heap[at] = t->heap[(at - 1) / 2];
    t->heap[at] = item;
    return CLT_OK;
}

static heap_item heap_pop(clt_bpe_trainer *t)
{
    heap_item top = t->heap[0], item = t->heap[--t->heap_count];
    size_t at = 0;
    for (size_t child = 1; child < t->heap_count; child = 2 * at + 1) {
        if (child + 1 < t->heap_count && before(&t->heap[child + 1], &t->heap[child]))
            child++;
        if (!before(&t->heap[child], &item))
            break;
        t->heap[at] = t->heap[child];
        at = child;
    }
    t->heap[at] = item;
    return top;
}

/* Pushes a heap entry for every pair whose count grew in this merge. best_pair corrects counts that
 * shrank. */
static clt_status push_touched(clt_bpe_trainer *t)
{
    for (size_t i = 0; i < t->n_touched; i++) {
        train_pair *pair = &t->pairs[pair_slot(t, t->touched[i])];
        pair->touched = false;
        if (pair->count > pair->before)
            CLT_TRY(heap_push(t, (heap_item){pair->count, pair->key}));
    }
    t->n_touched = 0;
    return CLT_OK;
}

/* The most frequent pair; count 0: there is no pair. */
static clt_status best_pair(clt_bpe_trainer *t, heap_item *best)
{
    *best = (heap_item){0};
    while (t->heap_count > 0) {
        heap_item item = heap_pop(t);
        int64_t count = t->pairs[pair_slot(t, item.key)].count;
        if (count == item.count) {
            *best = item;
            return CLT_OK;
        }
        if (count > 0 && count < item.count) /* if the count grew, the heap has a newer entry for the pair */
            CLT_TRY(heap_push(t, (heap_item){count, item.key}));
    }
    return CLT_OK;
}

/* --- vocabulary --- */

static clt_status grow_names(clt_bpe_trainer *t)
{
    CLT_TRY(double_slots(&t->names, &t->name_slots, "the vocabulary"));
    for (uint32_t i = 0; i < t->n_tokens; i++)
        put_index(t->names, t->name_slots, clt_hash64(t->tokens[i].bytes, t->tokens[i].size), i);
    return CLT_OK;
}

/* Finds the token with the bytes `owned`, or adds one, since different merges may result in the same bytes.
 * Takes ownership of `owned`. */
static clt_status token_of(clt_bpe_trainer *t, char *owned, size_t size, uint32_t *id)
{
    CLT_FREED char *bytes = owned;
    if (2 * ((size_t)t->n_tokens + 1) > t->name_slots)
        CLT_TRY(grow_names(t));
    size_t at = (size_t)clt_hash64(bytes, size) & (t->name_slots - 1);
    for (; t->names[at] != UINT32_MAX; at = (at + 1) & (t->name_slots - 1)) {
        const clt_token *token = &t->tokens[t->names[at]];
        if (token->size == size && memcmp(token->bytes, bytes, size) == 0) {
            *id = t->names[at];
            return CLT_OK;
        }
    }
    CLT_TRY(clt_grow(&t->tokens, &t->tokens_capacity, (size_t)t->n_tokens + 1, sizeof *t->tokens,
                     "the vocabulary"));
    t->tokens[t->n_tokens] = (clt_token){.bytes = CLT_TAKE(bytes), .size = (uint32_t)size};
    t->names[at] = t->n_tokens;
    *id = t->n_tokens++;
    return CLT_OK;
}

/* The first 256 tokens are the single bytes; symbols of words become these ids. */
static clt_status start_vocabulary(clt_bpe_trainer *t)
{
    uint32_t id_of[256];
    for (unsigned i = 0; i < 256; i++) {
        char *byte;
        uint32_t id;
        CLT_TRY(clt_alloc(&byte, 1, 1, "a token"));
        *byte = (char)clt_byte_of_order(i);
        uint8_t value = (uint8_t)*byte;
        CLT_TRY(token_of(t, byte, 1, &id));
        id_of[value] = id;
    }
    for (size_t i = 0; i < t->n_symbols; i++)
        t->symbols[i] = id_of[t->symbols[i]];
    for (uint32_t i = 0; i < t->n_words; i++)
        CLT_TRY(count_pairs(t, i, t->words[i].count, CLT_NO_TOKEN));
    return push_touched(t);
}

static void merge_in_word(clt_bpe_trainer *t, train_word *word, uint32_t left, uint32_t right, uint32_t id)
{
    uint32_t *symbols = t->symbols + word->begin, kept = 0;
    for (uint32_t i = 0; i < word->size; i++) {
        bool joins = i + 1 < word->size && symbols[i] == left && symbols[i + 1] == right;
        symbols[kept++] = joins ? id : symbols[i];
        i += joins;
    }
    word->size = kept;
}

static bool holds(const clt_bpe_trainer *t, const train_word *word, uint32_t left, uint32_t right)
{
    const uint32_t *symbols = t->symbols + word->begin;
    for (uint32_t i = 0; i + 1 < word->size; i++)
        if (symbols[i] == left && symbols[i + 1] == right)
            return true;
    return false;
}

static clt_status merge_pair(clt_bpe_trainer *t, uint64_t key)
{
    uint32_t left = (uint32_t)(key >> 32), right = (uint32_t)key, id;
    size_t size;
    char *bytes;
    CLT_TRY(clt_tokens_joined(&t->tokens[left], &t->tokens[right], &bytes, &size));
    CLT_TRY(token_of(t, bytes, size, &id));
    CLT_TRY(clt_grow(&t->merges, &t->merges_capacity, t->n_merges + 1, sizeof *t->merges, "the merges"));
    t->merges[t->n_merges++] = (clt_merge){left, right, id};
    /* Counting the words again may reallocate the table of pairs, but not this pair's list of words, which
     * does not grow. So the list's address stays valid. */
    train_pair *pair = &t->pairs[pair_slot(t, key)];
    CLT_FREED uint32_t *words = CLT_TAKE(pair->words);
    size_t n_words = pair->n_words;
    pair->n_words = pair->words_capacity = 0;
    for (size_t i = 0; i < n_words; i++) {
        train_word *word = &t->words[words[i]];
        if (!holds(t, word, left, right))
            continue;
        CLT_TRY(count_pairs(t, words[i], -word->count, CLT_NO_TOKEN));
        merge_in_word(t, word, left, right, id);
        CLT_TRY(count_pairs(t, words[i], word->count, id));
    }
    return push_touched(t);
}

/* --- the result --- */

static clt_status build(clt_bpe_trainer *t, clt_tokenizer **out)
{
    CLT_SCOPED(clt_tokenizer) *made = NULL;
    CLT_TRY(clt_tokenizer_begin(t->n_tokens + 1, (uint32_t)t->n_merges, &made));
    for (uint32_t id = 0; id < t->n_tokens; id++)
        CLT_TRY(clt_tokenizer_put(made, id, t->tokens[id].bytes, t->tokens[id].size, false));
    /* An ordinary token with the same bytes as the special token stays a separate token. */
    CLT_TRY(clt_tokenizer_put(made, t->n_tokens, CLT_END_OF_TEXT, strlen(CLT_END_OF_TEXT), true));
    CLT_TRY(clt_tokenizer_ready(made));
    for (size_t i = 0; i < t->n_merges; i++)
        CLT_TRY(clt_tokenizer_merge(made, t->merges[i].left, t->merges[i].right));
    made->description = clt_arena_printf(made->arena, "BPE, %u tokens, trained on %zu different words",
                                         made->vocab, t->n_words);
    if (!made->description)
        return CLT_ENOMEM;
    *out = CLT_TAKE(made);
    return CLT_OK;
}

clt_status clt_bpe_trainer_run(clt_bpe_trainer *t, int64_t vocab, clt_bpe_progress progress, void *context,
                               clt_tokenizer **out)
{
    *out = NULL;
    if (vocab < 257 || vocab > CLT_TOKENIZER_MAX_VOCAB)
        CLT_FAIL(CLT_EUSAGE,
                 "training a tokenizer: a vocabulary of %lld tokens is not possible; 257 (the bytes and the "
                 "end of text) to %u are",
                 (long long)vocab, CLT_TOKENIZER_MAX_VOCAB);
    if (t->n_words == 0)
        CLT_FAIL(CLT_EDATA, "training a tokenizer: there is no text; give files that are not empty");
    CLT_TRY(start_vocabulary(t));
    uint32_t wanted = (uint32_t)vocab - 1;
    while (t->n_tokens < wanted) {
        heap_item best;
        CLT_TRY(best_pair(t, &best));
        if (best.count < 2)
            break;
        CLT_TRY(merge_pair(t, best.key));
        if (progress && t->n_merges % PROGRESS_EVERY == 0)
            CLT_TRY(progress(context, t->n_tokens - 256, wanted - 256));
    }
    return build(t, out);
}
