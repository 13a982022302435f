/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokenizers convert text to ids and back. Four kinds: `bytes` (id = byte), byte-level BPE as in GPT-2,
 * read from published files or trained on the user's own text, BPE over characters as in Llama 2
 * (SentencePiece), and BERT's WordPiece. Bytes and byte-level BPE encode any bytes, valid UTF-8 or not,
 * and decoding returns exactly these bytes (in normal form C, if the tokenizer's rules ask for it).
 * SentencePiece's BPE puts a space before a text if its rules say so, which decoding removes; "\u2581" is
 * decoded as a space. WordPiece drops white space, and accents and capitals if its rules say so; words
 * that its pieces cannot form become the unknown token. Names of special tokens in a text are plain text,
 * unless clt_tokenizer_read_special says otherwise; added tokens that are not special are found in every
 * text. An open tokenizer is read-only and may be shared by threads; each thread needs its own encoder.
 * It knows nothing of samples or models. */
#ifndef ENGINE_DATA_TOKENIZER_TOKENIZER_H
#define ENGINE_DATA_TOKENIZER_TOKENIZER_H

#include "engine/base/mem.h"
#include "engine/base/scope.h"
#include "engine/base/status.h"
#include "engine/config/config.h"
#include "engine/data/texts/texts.h"

#define CLT_TOKENIZER_MAX_VOCAB (1u << 20)

typedef struct clt_tokenizer clt_tokenizer;
typedef struct clt_encoder clt_encoder;

/* A growing list of ids; zero-initialise it, and free(ids.id) at the end. */
typedef struct clt_ids {
    uint32_t *id;
    size_t count, capacity;
} clt_ids;

/* clt_tokenizer_open: `path` is "" or "bytes"; a folder with tokenizer.json, or with a vocabulary
 * (vocab.json, encoder.json) and merges (merges.txt, vocab.bpe); or one of these files, if the other one is
 * beside it; or the vocab.txt of a WordPiece, or a folder with it. tokenizer_config.json, added_tokens.json
 * and special_tokens_map.json beside them are read as well. CLT_EDATA, with file and entry: unknown or
 * duplicate tokens, ids with gaps, merges of unknown tokens, settings that could change ids and are not
 * supported. */
clt_status clt_tokenizer_open(const char *path, clt_tokenizer **out);
/* Opens the tokenizer of a config: data.tokenizer; if that is empty, bytes for data.type text, and for
 * tokens the tokenizer.json beside the first shard. *out is NULL if there is no such file. */
clt_status clt_tokenizer_open_config(const clt_config *config, clt_tokenizer **out);
void clt_tokenizer_close(clt_tokenizer *tokenizer); /* NULL is fine */
CLT_SCOPED_POINTER(clt_tokenizer, clt_tokenizer_close)

bool clt_tokenizer_is_bytes(const clt_tokenizer *tokenizer);
uint32_t clt_tokenizer_vocab(const clt_tokenizer *tokenizer); /* ids are 0 .. vocab-1 */
/* One line: "BPE, 50257 tokens, from '...'". */
const char *clt_tokenizer_description(const clt_tokenizer *tokenizer);
/* Roles of special tokens, from tokenizer_config.json or special_tokens_map.json. */
typedef enum clt_token_role {
    CLT_TOKEN_END_OF_TEXT, /* eos_token; without these files "<|endoftext|>", if there is such a token */
    CLT_TOKEN_BEGIN,       /* bos_token */
    CLT_TOKEN_UNKNOWN,     /* unk_token */
    CLT_TOKEN_PADDING,     /* pad_token */
    CLT_TOKEN_CLASS,       /* cls_token: precedes a text, and represents all of it */
    CLT_TOKEN_SEPARATOR,   /* sep_token: follows each text of a pair */
    CLT_TOKEN_MASK,        /* mask_token: in place of tokens to predict */
    CLT_TOKEN_ROLES
} clt_token_role;
/* The id of the token with a role; -1: there is none. */
int64_t clt_tokenizer_role(const clt_tokenizer *tokenizer, clt_token_role role);
/* The id of the token that separates documents; -1: there is none. */
int64_t clt_tokenizer_end_of_text(const clt_tokenizer *tokenizer);
/* The *count ids to put before (after) each separate text, such as a document. */
const uint32_t *clt_tokenizer_before(const clt_tokenizer *tokenizer, size_t *count);
const uint32_t *clt_tokenizer_after(const clt_tokenizer *tokenizer, size_t *count);
/* `on`: names of special tokens in texts become their ids; else they are plain text. To be called before
 * encoding. */
void clt_tokenizer_read_special(clt_tokenizer *tokenizer, bool on);
/* The name of the first special token in the text that would be encoded as plain text; NULL: none. */
const char *clt_tokenizer_special_in(const clt_tokenizer *tokenizer, const char *text, size_t size);
/* True if the text begins with the name of a special token whose match does not include white space before
 * it. If this name is encoded as the token, text before it and after it is encoded separately. */
bool clt_tokenizer_begins_special(const clt_tokenizer *tokenizer, const char *text, size_t size);
/* Appends the tokens with ids from `rows` on, such as "[PAD] (260)", which a model with `rows` embeddings
 * lacks. True if all of them are special, so that no text contains them. */
bool clt_tokenizer_surplus(const clt_tokenizer *tokenizer, int64_t rows, clt_str *names);
/* Number of bytes of text that a token represents; 0 for special tokens, which are not part of any text, and
 * for ids outside the vocabulary. */
uint32_t clt_tokenizer_text_bytes(const clt_tokenizer *tokenizer, int64_t id);
/* True for the id of a piece that continues a word (WordPiece). */
bool clt_tokenizer_continues(const clt_tokenizer *tokenizer, int64_t id);
/* A hash that is equal for tokenizers that encode and decode alike. */
uint64_t clt_tokenizer_hash(const clt_tokenizer *tokenizer);

/* An encoder has scratch memory and a cache of words (4 MiB); one thread at a time may use it. */
clt_status clt_encoder_create(const clt_tokenizer *tokenizer, clt_encoder **out);
void clt_encoder_destroy(clt_encoder *encoder);
CLT_SCOPED_POINTER(clt_encoder, clt_encoder_destroy)
/* Appends the ids of the bytes of `text`; NUL bytes are ordinary bytes. */
clt_status clt_encode(clt_encoder *encoder, const char *text, size_t size, clt_ids *out);
/* A part of a text, in bytes. */
typedef struct clt_text_range {
    size_t begin, end;
} clt_text_range;
/* The place of a text that is encoded separately; some tokenizers put a space before it, depending on its
 * place. */
typedef enum clt_text_start {
    CLT_TEXT_BEGINS,      /* nothing precedes it, or only ids of clt_tokenizer_before */
    CLT_TEXT_AFTER_TOKEN, /* an added token precedes it */
    CLT_TEXT_CONTINUES    /* other text precedes it */
} clt_text_start;
/* The same with `n` ranges `marked`, in ascending order: inside these ranges the names of special tokens
 * always become these tokens. */
clt_status clt_encode_marked(clt_encoder *encoder, const char *text, size_t size,
                             const clt_text_range *marked, size_t n, clt_text_start start, clt_ids *out);
/* The ranges of tokens in a text: range[i] belongs to ids.id[i]. Zero-initialise it. */
typedef struct clt_token_ranges {
    clt_text_range *range;
    size_t capacity;
} clt_token_ranges;
void clt_token_ranges_free(clt_token_ranges *ranges);
CLT_SCOPED_VALUE(clt_token_ranges, clt_token_ranges_free)
/* Appends the same ids of a text as clt_encode, and sets the range of each. CLT_EDATA: the tokenizer is not
 * a WordPiece. */
clt_status clt_encode_ranges(const clt_tokenizer *tokenizer, const char *text, size_t size, clt_ids *ids,
                             clt_token_ranges *ranges);
/* The same as clt_encode with a temporary encoder, for a single short text. */
clt_status clt_tokenizer_encode(const clt_tokenizer *tokenizer, const char *text, size_t size, clt_ids *out);
/* Appends the bytes of ids; CLT_EDATA: an id is not in the vocabulary. A token may end in the middle of a
 * character. */
clt_status clt_tokenizer_decode(const clt_tokenizer *tokenizer, const uint32_t *ids, size_t count,
                                clt_str *out);
/* The same for one token of a text that arrives token by token. `first`: it begins the text. */
clt_status clt_tokenizer_decode_next(const clt_tokenizer *tokenizer, uint32_t id, bool first, clt_str *out);

/* Sets `out` to a token as vocabulary files write it: in byte letters, or as plain text if it is an added
 * token. */
void clt_tokenizer_token(const clt_tokenizer *tokenizer, uint32_t id, clt_str *out);
/* True for tokens that are not part of any text. *added: the token is found before texts are split. */
bool clt_tokenizer_is_special(const clt_tokenizer *tokenizer, uint32_t id, bool *added);
/* The number of merges, and merge number `rank` as merges.txt writes it. */
uint32_t clt_tokenizer_merges(const clt_tokenizer *tokenizer);
void clt_tokenizer_merge_text(const clt_tokenizer *tokenizer, uint32_t rank, clt_str *out);
/* llama.cpp's name for the way in which this tokenizer splits texts into words; NULL: llama.cpp has no
 * name. */
const char *clt_tokenizer_split_name(const clt_tokenizer *tokenizer);
/* True for SentencePiece's BPE, whose tokens are characters. */
bool clt_tokenizer_is_sentence(const clt_tokenizer *tokenizer);
/* Computes `scores` (vocab) for programs that run SentencePiece's BPE by scores instead of by merges
 * (token_scores.c): with these scores they find the same tokens as this tokenizer. If no such scores exist,
 * the reason is appended to `why`. Note that such programs may also join a special token's name in a text to
 * that token. */
#define CLT_SCORE_UNUSED (-1e9F) /* the score of a token that merges never make */
clt_status clt_tokenizer_scores(const clt_tokenizer *tokenizer, float *scores, clt_str *why);
/* The byte of a token that represents a single byte, such as <0x0A>; -1: it is another token. */
int clt_tokenizer_byte_of(const clt_tokenizer *tokenizer, uint32_t id);
/* Where the tokenizer inserts a space. `first`: before a text. `later`: also after each added token.
 * `twice`: even if the text begins with a space. */
typedef struct clt_space_rule {
    bool first, later, twice;
} clt_space_rule;
clt_space_rule clt_tokenizer_space(const clt_tokenizer *tokenizer);
/* Appends the text of a tokenizer.json that clt_tokenizer_open and other programs read. */
clt_status clt_tokenizer_print(const clt_tokenizer *tokenizer, clt_str *text);
/* Writes the text of tokenizer.json to a file, durably (clt_file_write). */
clt_status clt_tokenizer_save(const clt_tokenizer *tokenizer, const char *path);
/* Appends the text of its tokenizer_config.json, with the roles of special tokens. `context`: the model's
 * context, in tokens; 0: unknown. */
clt_status clt_tokenizer_print_config(const clt_tokenizer *tokenizer, int64_t context, clt_str *text);
/* True if tokenizer_config.json is needed, because a token other than "<|endoftext|>" has a role. */
bool clt_tokenizer_has_roles(const clt_tokenizer *tokenizer);
/* Writes tokenizer.json into a folder and, if there is a context or a role, also tokenizer_config.json. */
clt_status clt_tokenizer_save_folder(const clt_tokenizer *tokenizer, int64_t context, const char *folder);

/* Encodes a text of any size in pieces on `threads` threads. `sink` gets the ids in order; they equal the ids
 * of one clt_encode of the whole text. `bytes`: bytes of the text encoded so far. */
typedef clt_status (*clt_ids_sink)(void *context, const uint32_t *ids, size_t count, size_t bytes);
clt_status clt_tokenize(const clt_tokenizer *tokenizer, const char *text, size_t size, int threads,
                        clt_ids_sink sink, void *context);
/* The same for the bytes [from, to) of the joined documents. A document gets the ids of clt_tokenizer_before
 * at its beginning and of clt_tokenizer_after at its end; the end-of-text token, if there is one, separates
 * two documents. */
clt_status clt_tokenize_documents(const clt_tokenizer *tokenizer, const clt_texts *texts, uint64_t from,
                                  uint64_t to, int threads, clt_ids_sink sink, void *context);
/* A length at which the text can be cut without changing any id: the largest such length up to `want` or, if
 * there is none, the smallest one above. `tokenizer` NULL: the text is for counting words in training. */
size_t clt_tokenize_cut(const clt_tokenizer *tokenizer, const char *text, size_t size, size_t want);

/* Appends a code point in lower case as UTF-8; the capital I with a dot becomes two characters (Unicode's
 * mappings of single characters, as in BERT's normaliser). */
void clt_append_small(uint32_t code, clt_str *out);

#endif
