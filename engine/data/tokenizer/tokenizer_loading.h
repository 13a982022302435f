/* SPDX-License-Identifier: Apache-2.0
 *
 * State and helpers that bpe_files.c, tokenizer_json.c and tokenizer_folder.c share. Not for other files. */
#ifndef ENGINE_DATA_TOKENIZER_TOKENIZER_LOADING_H
#define ENGINE_DATA_TOKENIZER_TOKENIZER_LOADING_H

#include "engine/data/tokenizer/tokenizer_internal.h"
#include "engine/json/json.h"

/* An added token, from any of the files. */
typedef struct clt_added_entry {
    const char *content; /* borrowed from a JSON document */
    int64_t id;
    bool special, normalized, single_word, lstrip, rstrip;
} clt_added_entry;

/* Files beside the vocabulary: tokenizer_config.json, added_tokens.json, special_tokens_map.json. */
enum { CLT_SIDE_CONFIG, CLT_SIDE_ADDED, CLT_SIDE_MAP, CLT_SIDES };

typedef struct clt_tokenizer_loading {
    const char *path;        /* the JSON file, for messages */
    const char *merges_path; /* the file with the merges: merges.txt, or the tokenizer.json itself */
    const clt_json_doc *doc; /* document of the vocabulary */
    const clt_json *vocab;   /* token -> id */
    const clt_json *merges;  /* merges of tokenizer.json, or NULL */
    char *merges_text;       /* text of merges.txt, or NULL */
    size_t merges_size;
    clt_json_doc *side[CLT_SIDES]; /* NULL: no such file */
    clt_added_entry *added;
    size_t n_added, added_capacity;
    const char *role[CLT_TOKEN_ROLES]; /* contents of the tokens with roles; NULL: no file names a token */
    clt_tokenizer_rules rules;
    const char *unknown; /* WordPiece: the token for unknown words */
    char *left, *right;  /* scratch memory for the bytes of a merge's two sides */
    size_t left_capacity, right_capacity;
    clt_tokenizer *t;
} clt_tokenizer_loading;

/* The member of an object if it has this type, else NULL. `value` may be any value or NULL. */
static inline const clt_json *clt_json_member(const clt_json *value, const char *key, clt_json_type type)
{
    const clt_json *member = clt_json_get(value, key);
    return clt_json_typeof(member) == type ? member : NULL;
}

/* A flag of an object. `preset`: the value of a flag that is absent or null. */
static inline bool clt_json_flag(const clt_json *object, const char *key, bool preset)
{
    const clt_json *value = clt_json_given(object, key);
    return value ? clt_json_bool(value) : preset;
}

/* Prefixes a failure with the file, line and column of a value. */
clt_status clt_tokenizer_at(const clt_json_doc *doc, const clt_json *value, clt_status status);
/* Fails because the setting `what` is not supported. */
clt_status clt_tokenizer_refuse(const clt_json_doc *doc, const clt_json *value, const char *what);

/* vocab_txt.c: turns BERT's vocab.txt, with a token on each line, into the equivalent tokenizer.json. Each
 * token keeps its line number, which messages name. */
#define CLT_VOCAB_TXT "vocab.txt"
clt_status clt_vocab_txt_parse(const char *path, clt_json_doc **out);

/* tokenizer_json.c: reads the rules of a tokenizer.json; CLT_EDATA for settings that are not supported. */
clt_status clt_tokenizer_read_rules(clt_tokenizer_loading *l, const clt_json *root, const clt_json *model);

/* tokenizer_folder.c: reads the files beside `path`: added tokens, roles, and changes to the rules. `list`:
 * added_tokens of tokenizer.json, which are read, too; NULL: none. `whole`: `path` is a tokenizer.json. */
clt_status clt_tokenizer_read_sides(clt_tokenizer_loading *l, const clt_json *list, bool whole);

#endif
