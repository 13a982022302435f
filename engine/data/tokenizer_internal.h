/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tokenizer's files share: the tables of a tokenizer and how they are filled, and the splitter of
 * text into words. Not for other rooms. */
#ifndef ENGINE_DATA_TOKENIZER_INTERNAL_H
#define ENGINE_DATA_TOKENIZER_INTERNAL_H

#include "engine/data/tokenizer.h"

#define CLT_TOKEN_MAX_BYTES 65535u
#define CLT_NO_TOKEN UINT32_MAX
#define CLT_END_OF_TEXT "<|endoftext|>"

typedef struct clt_token {
    const char *bytes; /* in the arena; NULL: not set yet */
    uint32_t size;
    /* an added token, written as plain text: it is decoded, but no text is ever encoded to it */
    bool literal;
} clt_token;

/* Merge number r (its rank) joins left and right into id; lower ranks go first. */
typedef struct clt_merge {
    uint32_t left, right, id;
} clt_merge;

/* Open addressing; the key of an empty slot is UINT64_MAX, which no pair of ids can be. */
typedef struct clt_pair_slot {
    uint64_t key; /* left << 32 | right */
    uint32_t rank, id;
} clt_pair_slot;

typedef struct clt_splitter clt_splitter;

struct clt_tokenizer {
    clt_arena *arena;
    bool bytes;
    /* a word that is in the vocabulary is encoded as that token without applying merges */
    bool ignore_merges;
    const char *description;
    uint32_t vocab;
    clt_token *tokens;  /* (vocab) */
    uint32_t *by_bytes; /* hash table of ids, CLT_NO_TOKEN where empty; literal tokens are not in it */
    uint32_t by_bytes_mask;
    uint32_t byte_token[256];
    clt_merge *merges; /* (n_merges), in the order of their rank */
    uint32_t n_merges, max_merges;
    clt_pair_slot *pairs;
    int pairs_shift; /* 64 - log2(slots) */
    int64_t end_of_text;
    clt_splitter *splitter;
};

/* Building: begin, then put every token, then ready, then add every merge. Failures are CLT_EDATA and say
 * what is wrong with the token or merge; the caller prefixes the file's name. */
clt_status clt_tokenizer_begin(uint32_t vocab, uint32_t max_merges, clt_tokenizer **out);
clt_status clt_tokenizer_put(clt_tokenizer *t, int64_t id, const char *bytes, size_t size, bool literal);
clt_status clt_tokenizer_ready(clt_tokenizer *t);
clt_status clt_tokenizer_merge(clt_tokenizer *t, uint32_t left, uint32_t right);
/* The id of a token by its bytes, CLT_NO_TOKEN if there is none. */
uint32_t clt_tokenizer_find(const clt_tokenizer *t, const char *bytes, size_t size);
/* The merge of a pair of ids; NULL if the pair is not merged. */
static inline const clt_pair_slot *clt_tokenizer_pair(const clt_tokenizer *t, uint32_t left, uint32_t right)
{
    uint64_t key = (uint64_t)left << 32 | right, mask = UINT64_MAX >> t->pairs_shift;
    uint64_t at = (key * UINT64_C(0x9e3779b97f4a7c15)) >> t->pairs_shift;
    for (; t->pairs[at].key != key; at = (at + 1) & mask)
        if (t->pairs[at].key == UINT64_MAX)
            return NULL;
    return &t->pairs[at];
}

/* Byte letters: each byte has a printable character that stands for it in vocabulary files. */
uint32_t clt_byte_letter(uint8_t byte);
/* Bytes of a text written in byte letters, into dst (room for `size` bytes); false when a character is no
 * byte letter. */
bool clt_bytes_of_letters(const char *letters, size_t size, char *dst, size_t *count);
/* Appends the byte letters of bytes, as UTF-8. */
void clt_letters_of_bytes(const char *bytes, size_t size, clt_str *out);
/* The byte of id i < 256 in a vocabulary that, like GPT-2's, begins with the single bytes in the order of
 * their letters. */
uint8_t clt_byte_of_order(unsigned i);

/* Files (bpe_files.c). */
clt_status clt_tokenizer_load(const char *path, clt_tokenizer **out);

/* Splitting text into words with the pattern of GPT-2. A splitter may be shared by threads; each thread needs
 * a split state of its own. */
typedef struct clt_split_state clt_split_state;
clt_status clt_splitter_create(clt_splitter **out);
void clt_splitter_destroy(clt_splitter *splitter);
clt_status clt_split_state_create(const clt_splitter *splitter, clt_split_state **out);
void clt_split_state_destroy(clt_split_state *state);
/* Calls word() for each word in order; the words together are the text. A run of bytes that are not UTF-8 is
 * a word of its own. */
typedef clt_status (*clt_word_visitor)(void *context, const char *word, size_t size);
clt_status clt_split_words(clt_split_state *state, const char *text, size_t size, clt_word_visitor word,
                           void *context);

#endif
