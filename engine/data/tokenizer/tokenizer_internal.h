/* SPDX-License-Identifier: Apache-2.0
 *
 * Declarations that the files of this room share: the tables of a tokenizer, the functions that fill them,
 * and the splitter of text into words. Not for other rooms. */
#ifndef ENGINE_DATA_TOKENIZER_TOKENIZER_INTERNAL_H
#define ENGINE_DATA_TOKENIZER_TOKENIZER_INTERNAL_H

#include "engine/data/tokenizer/tokenizer.h"

#define CLT_TOKEN_MAX_BYTES 65535u
#define CLT_NO_TOKEN UINT32_MAX
#define CLT_END_OF_TEXT "<|endoftext|>"

typedef struct clt_token {
    const char *bytes; /* in the arena; NULL: not set yet */
    uint32_t size;
    /* files write it as plain text, not in byte letters, and it is no merge's result */
    bool literal;
    bool special; /* not part of any text: a separator, padding and the like */
} clt_token;

/* A token that is found in a text before the text is split into words. */
typedef struct clt_added_token {
    const char *name;    /* the name in the files */
    const char *content; /* the bytes to find: the name, or its normal form */
    size_t size;
    uint32_t id;
    bool special;        /* found only where the tokenizer reads special tokens */
    bool normalized;     /* found in the text after normalisation */
    bool single_word;    /* found only where no word character is next to it */
    bool lstrip, rstrip; /* the match includes white space before it; after it */
} clt_added_token;

/* A merge joins left and right into id. Its index in the list is its rank; lower ranks are applied first. */
typedef struct clt_merge {
    uint32_t left, right, id;
} clt_merge;

/* A slot of an open-addressing hash table; an empty one has the key UINT64_MAX, which no pair of ids has. */
typedef struct clt_pair_slot {
    uint64_t key; /* left << 32 | right */
    uint32_t rank, id;
} clt_pair_slot;

/* The regular expressions that split a text into words (split_words.c). */
typedef enum clt_words { CLT_WORDS_GPT2, CLT_WORDS_LLAMA3, CLT_WORDS_QWEN2 } clt_words;
/* Numbers that become words before the expression is applied: none, runs of digits, or single digits. */
typedef enum clt_digits { CLT_DIGITS_NO_RULE, CLT_DIGITS_RUNS, CLT_DIGITS_SINGLE } clt_digits;
typedef struct clt_splitting {
    clt_words words;
    clt_digits digits;
} clt_splitting;

#define CLT_MAX_AROUND 8
typedef struct clt_around {
    uint32_t id[CLT_MAX_AROUND];
    int count;
} clt_around;

/* WordPiece, the tokenizer of BERT (tokenizer_wordpiece.c). A piece that continues a word begins with
 * "##". */
#define CLT_PIECE_PREFIX "##"
typedef struct clt_wordpiece {
    bool on;             /* the tokenizer is a WordPiece; merges and the rules of BPE are then not used */
    bool clean;          /* control characters are dropped, and white space becomes spaces */
    bool chinese;        /* each Chinese character is a word */
    bool strip;          /* letters lose their accents */
    bool lower;          /* letters become lower case */
    uint32_t most;       /* limit of characters in a word; a longer word is unknown */
    uint32_t unknown_id; /* id of an unknown word */
    uint32_t longest;    /* size of the longest token, in bytes */
} clt_wordpiece;

/* SentencePiece's BPE (tokenizer_sentence.c). CLT_SPACE_LETTER represents a space in the vocabulary. */
#define CLT_SPACE_LETTER "\xe2\x96\x81"
/* Where CLT_SPACE_LETTER is inserted: nowhere; before a text; before a text and after each added token. */
typedef enum clt_prepend { CLT_PREPEND_NEVER, CLT_PREPEND_FIRST, CLT_PREPEND_ALWAYS } clt_prepend;
/* What decoding removes from the first token: nothing; one space at its beginning; all of its spaces. */
typedef enum clt_drop { CLT_DROP_NOTHING, CLT_DROP_SPACE, CLT_DROP_SPACES } clt_drop;
typedef struct clt_sentence {
    bool on; /* the tokenizer is a SentencePiece BPE */
    bool
        /* a normalizer replaces spaces before `normalized` added tokens are found; else a Metaspace replaces
         * them */
        normal;
    bool split;          /* the rules begin a word at each space */
    bool fallback;       /* a character without a token is encoded as its bytes, with tokens like <0x0A> */
    bool fuse;           /* a run of unknown characters becomes one unknown token */
    uint32_t unknown_id; /* id of the unknown token; CLT_NO_TOKEN: unknown characters are dropped */
    clt_prepend prepend;
    clt_drop drop;
    /* no merge joins a space to a preceding character that is not a space; set by clt_tokenizer_ready */
    bool apart;
} clt_sentence;

/* How a text is prepared and framed, apart from vocabulary and merges. */
typedef struct clt_tokenizer_rules {
    clt_splitting splitting;
    bool nfc;                 /* the text is first converted to normal form C */
    bool prefix_space;        /* text at the start or after an added token gets a space if it has none */
    bool ignore_merges;       /* a word that is a token becomes that token, without merges */
    clt_around before, after; /* ids at the beginning and the end of every text */
    clt_wordpiece wordpiece;
    clt_sentence sentence;
} clt_tokenizer_rules;

struct clt_tokenizer {
    clt_arena *arena;
    bool bytes;         /* id = byte */
    bool reads_special; /* names of special tokens in a text become their ids */
    clt_tokenizer_rules rules;
    const char *description;
    uint32_t vocab;
    clt_token *tokens;  /* (vocab) */
    uint32_t *by_bytes; /* hash table of ids, CLT_NO_TOKEN where empty; literal tokens are not in it */
    uint32_t by_bytes_mask;
    uint32_t byte_token[256];
    clt_merge *merges; /* (n_merges), in the order of their ranks */
    uint32_t n_merges, max_merges;
    clt_pair_slot *pairs;
    int pairs_shift;               /* 64 - log2(slots) */
    int64_t role[CLT_TOKEN_ROLES]; /* ids; -1: no token has this role */
    clt_added_token *added;        /* (n_added), the longest first */
    uint32_t n_added;
    uint8_t added_start[256]; /* 1 if an added token begins with this byte */
};

/* Functions that build a tokenizer: call begin, put for every token, ready, then merge for every merge.
 * CLT_EDATA says what is wrong with a token or merge; the caller adds the file's name before it. */
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

/* Up to this many bytes of a word, scanning for the next merge is cheaper than a heap. */
#define CLT_SHORT_WORD 64
/* Merges `n` symbols (at most CLT_SHORT_WORD) in place until `least` (1 or more) are left or no pair can be
 * merged; returns how many are left. */
size_t clt_merge_symbols(const clt_tokenizer *t, uint32_t *id, size_t n, size_t least);

/* The byte letter of a byte: the printable character that represents it in vocabulary files. */
uint32_t clt_byte_letter(uint8_t byte);
/* Converts a text in byte letters to bytes in `dst`, which has room for `size` bytes; false if a character
 * is not a byte letter. */
bool clt_bytes_of_letters(const char *letters, size_t size, char *dst, size_t *count);
/* Appends the byte letters of bytes, as UTF-8. */
void clt_letters_of_bytes(const char *bytes, size_t size, clt_str *out);
/* The byte of id i < 256 in a vocabulary that, like GPT-2's, begins with the single bytes in the order of
 * their letters. */
uint8_t clt_byte_of_order(unsigned i);

/* The bytes of two tokens joined, and their count; free() the result. */
clt_status clt_tokens_joined(const clt_token *a, const clt_token *b, char **out, size_t *size);

/* Reads the files of a tokenizer (bpe_files.c). */
clt_status clt_tokenizer_load(const char *path, clt_tokenizer **out);

/* A search for added tokens in a text (tokenizer_added.c); clt_added_ready must have sorted t->added. */
typedef struct clt_added_match {
    size_t begin, end; /* including the white space of lstrip and rstrip */
    uint32_t id;
} clt_added_match;
typedef struct clt_added_search {
    const clt_tokenizer *tokenizer;
    const char *text;
    size_t size;
    bool normalized; /* finds tokens whose `normalized` has this value */
    /* Inside these ranges, which are in ascending order, special tokens are always found. */
    const clt_text_range *marked;
    size_t n_marked;
    size_t at;  /* where the search continues */
    size_t end; /* end of the previous match */
} clt_added_search;
clt_status clt_added_ready(clt_tokenizer *t);
/* The next match; false when there is none. */
bool clt_added_next(clt_added_search *search, clt_added_match *match);
/* False if cutting the text at `at` could split an added token, or the white space that its match
 * includes. */
bool clt_added_may_cut(const clt_tokenizer *t, const char *text, size_t size, size_t at);

/* Appends the normalised text. clt_tokenizer_is_normal: true if the normaliser certainly changes nothing. */
clt_status clt_tokenizer_normal(const clt_tokenizer *t, const char *text, size_t size, clt_text_start start,
                                clt_str *out);
bool clt_tokenizer_is_normal(const clt_tokenizer *t, const char *text, size_t size);

/* BERT's normaliser: cleans, separates Chinese characters, strips accents, lowers case. Bytes that are not
 * UTF-8 are dropped. */
clt_status clt_wordpiece_normal(const clt_wordpiece *how, const char *text, size_t size, clt_str *out);
/* Appends the ids of a word's pieces: from the left, each the longest possible one. If that fails, appends
 * only the id of the unknown token. */
clt_status clt_wordpiece_encode(const clt_tokenizer *t, const char *word, size_t size, clt_ids *out);

/* --- SentencePiece's BPE --- */

/* Appends the text with CLT_SPACE_LETTER in place of spaces and, if the rules say so, one before the
 * text. */
void clt_sentence_prepare(const clt_sentence *how, const char *text, size_t size, clt_text_start start,
                          clt_str *out);
bool clt_sentence_ends_with_space(const char *text, size_t size);
/* Writes the tokens from which the merges of a word start, at most `size`; returns how many. */
size_t clt_sentence_symbols(const clt_tokenizer *t, const char *word, size_t size, uint32_t *id);
/* The byte that a token with this name represents, such as <0x0A>; -1: it is not such a name. The second
 * function writes the name of a byte. */
#define CLT_BYTE_NAME 7
int clt_sentence_byte(const char *name, size_t size);
void clt_sentence_byte_name(uint8_t byte, char *name);
/* To be called when all merges are known. */
void clt_sentence_ready(clt_tokenizer *t);
/* True if each byte has a token, so that characters without a token can be encoded as bytes. */
bool clt_sentence_all_bytes(const clt_tokenizer *t);
/* Appends the text of a token; `first`: the token begins the text. clt_sentence_bytes: the size of its text
 * if it is not the first, in bytes. */
void clt_sentence_append(const clt_tokenizer *t, uint32_t id, bool first, clt_str *out);
uint32_t clt_sentence_bytes(const clt_token *token);

/* Splits a text into words and calls `word` for each, in order; together the words are the whole text. A run
 * of bytes that are not UTF-8 is a separate word. */
typedef clt_status (*clt_word_visitor)(void *context, const char *word, size_t size);
clt_status clt_split_words(const clt_splitting *how, const char *text, size_t size, clt_word_visitor word,
                           void *context);
/* The same for a prepared text, by the rules of SentencePiece's BPE. */
clt_status clt_sentence_split(const clt_sentence *how, const char *text, size_t size, clt_word_visitor word,
                              void *context);
/* The same by BERT's rules: white space separates words and belongs to none; each punctuation character is a
 * word. */
clt_status clt_wordpiece_split(const char *text, size_t size, clt_word_visitor word, void *context);
/* The regular expression to write into files, and the rule that belongs to an expression (false: it is
 * unknown). */
const char *clt_words_expression(clt_words words);
bool clt_words_find(const char *expression, clt_words *out);

#endif
