/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokenizers: text to ids and back. Two kinds: `bytes` (id = byte) and byte-level BPE as GPT-2 has it, read
 * from published files or trained on the user's own text. Every sequence of bytes can be encoded, valid UTF-8
 * or not, and decoding gives exactly these bytes back (in normal form C, if the tokenizer asks for that).
 * Names of special tokens in a text are plain text, unless clt_tokenizer_read_special says otherwise; added
 * tokens that are not special are found in every text. A tokenizer is read-only once opened and may be used
 * by any number of threads; each thread encodes through an encoder of its own. It knows nothing of samples or
 * models. */
#ifndef ENGINE_DATA_TOKENIZER_TOKENIZER_H
#define ENGINE_DATA_TOKENIZER_TOKENIZER_H

#include "engine/base/mem.h"
#include "engine/base/status.h"
#include "engine/config/config.h"
#include "engine/data/texts/texts.h"

#define CLT_TOKENIZER_MAX_VOCAB (1u << 20)

typedef struct clt_tokenizer clt_tokenizer;
typedef struct clt_encoder clt_encoder;

/* A growing list of ids; zero-initialise to start, free(ids.id) in the end. */
typedef struct clt_ids {
    uint32_t *id;
    size_t count, capacity;
} clt_ids;

/* clt_tokenizer_open: "" or "bytes"; a folder that holds tokenizer.json, or a vocabulary (vocab.json,
 * encoder.json) and merges (merges.txt, vocab.bpe); or one of these files, with the other one beside it.
 * tokenizer_config.json, added_tokens.json and special_tokens_map.json beside them are followed as well.
 * CLT_EDATA names the file, the entry, why, what to do: unknown or duplicate tokens, ids with gaps, merges of
 * unknown tokens, settings that could change ids and are not supported. */
clt_status clt_tokenizer_open(const char *path, clt_tokenizer **out);
/* The tokenizer of a config: data.tokenizer; when that is empty, bytes for text, and for tokens the
 * tokenizer.json beside the first shard. *out is NULL when there is none. */
clt_status clt_tokenizer_open_config(const clt_config *config, clt_tokenizer **out);
void clt_tokenizer_close(clt_tokenizer *tokenizer); /* NULL is fine */

bool clt_tokenizer_is_bytes(const clt_tokenizer *tokenizer);
uint32_t clt_tokenizer_vocab(const clt_tokenizer *tokenizer); /* ids are 0 .. vocab-1 */
/* One line: "BPE, 50257 tokens, from '...'". */
const char *clt_tokenizer_description(const clt_tokenizer *tokenizer);
/* What special tokens are for, as tokenizer_config.json or special_tokens_map.json says. */
typedef enum clt_token_role {
    CLT_TOKEN_END_OF_TEXT, /* eos_token; without these files "<|endoftext|>", if there is such a token */
    CLT_TOKEN_BEGIN,       /* bos_token */
    CLT_TOKEN_UNKNOWN,     /* unk_token */
    CLT_TOKEN_PADDING,     /* pad_token */
    CLT_TOKEN_ROLES
} clt_token_role;
/* The id of the token with a role; -1 when there is none. */
int64_t clt_tokenizer_role(const clt_tokenizer *tokenizer, clt_token_role role);
/* The token that separates documents. */
int64_t clt_tokenizer_end_of_text(const clt_tokenizer *tokenizer);
/* Ids that stand before and after every text of its own, such as a document; *count of them. */
const uint32_t *clt_tokenizer_before(const clt_tokenizer *tokenizer, size_t *count);
const uint32_t *clt_tokenizer_after(const clt_tokenizer *tokenizer, size_t *count);
/* With true, names of special tokens in texts become their ids from now on. To be called before encoding. */
void clt_tokenizer_read_special(clt_tokenizer *tokenizer, bool on);
/* The name of the first special token that the text contains and that is encoded as plain text; NULL: none.
 */
const char *clt_tokenizer_special_in(const clt_tokenizer *tokenizer, const char *text, size_t size);
/* Appends "[PAD] (260)" for every token from `rows` on, which a model of `rows` rows lacks; true when all
 * of them are special, so that no text leads to them. */
bool clt_tokenizer_surplus(const clt_tokenizer *tokenizer, int64_t rows, clt_str *names);
/* Number of bytes of text that a token stands for; 0 for special tokens, which are not part of any text, and
 * for ids outside of the vocabulary. */
uint32_t clt_tokenizer_text_bytes(const clt_tokenizer *tokenizer, int64_t id);
/* Equal for tokenizers that encode and decode alike. */
uint64_t clt_tokenizer_hash(const clt_tokenizer *tokenizer);

/* Scratch memory and a cache of words (4 MiB), for one thread at a time. */
clt_status clt_encoder_create(const clt_tokenizer *tokenizer, clt_encoder **out);
void clt_encoder_destroy(clt_encoder *encoder);
/* Appends the ids of the bytes of `text`; NUL bytes are bytes like others. */
clt_status clt_encode(clt_encoder *encoder, const char *text, size_t size, clt_ids *out);
/* The same for a single short text, without an encoder to keep. */
clt_status clt_tokenizer_encode(const clt_tokenizer *tokenizer, const char *text, size_t size, clt_ids *out);
/* Appends the bytes of ids; CLT_EDATA for an id that is not in the vocabulary. A token may end in the middle
 * of a character. */
clt_status clt_tokenizer_decode(const clt_tokenizer *tokenizer, const uint32_t *ids, size_t count,
                                clt_str *out);

/* Appends the text of a tokenizer.json that this file's loader and other programs read. */
clt_status clt_tokenizer_print(const clt_tokenizer *tokenizer, clt_str *text);
/* Writes a tokenizer.json that this file's loader and other programs read; durable (clt_file_write). */
clt_status clt_tokenizer_save(const clt_tokenizer *tokenizer, const char *path);
/* Appends the text of the tokenizer_config.json that belongs to it: the roles of special tokens. context: of
 * the model, 0 when unknown. */
clt_status clt_tokenizer_print_config(const clt_tokenizer *tokenizer, int64_t context, clt_str *text);
/* Whether that file says more than the tokenizer.json does: a role of another token than "<|endoftext|>". */
bool clt_tokenizer_has_roles(const clt_tokenizer *tokenizer);
/* Writes tokenizer.json into a folder, and with a context, or where there are roles, the other file as well.
 */
clt_status clt_tokenizer_save_folder(const clt_tokenizer *tokenizer, int64_t context, const char *folder);

/* Encodes a text of any size on `threads` threads, piece after piece; the sink gets the ids in order. The
 * result is that of one clt_encode over the whole text. `bytes`: bytes of the text encoded so far. */
typedef clt_status (*clt_ids_sink)(void *context, const uint32_t *ids, size_t count, size_t bytes);
clt_status clt_tokenize(const clt_tokenizer *tokenizer, const char *text, size_t size, int threads,
                        clt_ids_sink sink, void *context);
/* The same for the bytes [from, to) of documents: each whole document begins and ends with the ids that the
 * tokenizer asks for, and the end-of-text token, if there is one, stands between two documents. */
clt_status clt_tokenize_documents(const clt_tokenizer *tokenizer, const clt_texts *texts, uint64_t from,
                                  uint64_t to, int threads, clt_ids_sink sink, void *context);
/* A length at which the text can be cut without changing any id: the largest one <= want or, if there is
 * none, the smallest one above it. tokenizer NULL: a text whose words are counted for training. */
size_t clt_tokenize_cut(const clt_tokenizer *tokenizer, const char *text, size_t size, size_t want);

#endif
