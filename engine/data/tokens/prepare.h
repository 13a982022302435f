/* SPDX-License-Identifier: Apache-2.0
 *
 * Encodes text files into a folder of token shards (`cltrain data prepare`), and checks such a folder. The
 * folder appears only when it is complete. It knows nothing of terminals. */
#ifndef ENGINE_DATA_TOKENS_PREPARE_H
#define ENGINE_DATA_TOKENS_PREPARE_H

#include "engine/base/mem.h"
#include "engine/base/status.h"

typedef struct clt_prepare_progress {
    const char *stage;    /* "counting words", "choosing merges", "tokenising" */
    uint64_t done, total; /* in bytes; for "choosing merges" in merges */
    uint64_t tokens;
    double seconds; /* since the stage began */
} clt_prepare_progress;

typedef struct clt_prepare_options {
    const char *const *inputs; /* files, folders, patterns, "@LIST", "-": see texts.h */
    int n_inputs;
    const char *out;       /* a folder that does not exist yet or is empty */
    const char *tokenizer; /* "bytes", a folder or a file */
    const char *json_key;  /* member of records of JSON that holds the text; "" or NULL: plain text */
    bool special_tokens;   /* names of special tokens in the text become their ids */
    /* above 0: a BPE vocabulary of this size is trained on the training part; `tokenizer` is "" then */
    int64_t train_bpe;
    /* fraction of the text's bytes, at its end, that is kept for evaluation; 0 <= split < 1 */
    double split;
    int64_t shard_tokens;
    /* To write pairs of texts (data.type mlm) to train.pairs and val.pairs instead of shards: the length of
     * a pair in tokens (0: write shards); the share of documents with shorter pairs; how often the text is
     * paired; the seed. */
    int64_t pair_context;
    double pair_shorter;
    int64_t pair_copies;
    uint64_t pair_seed;
    int threads;
    /* May be NULL. Any status except CLT_OK ends the work with that status. */
    clt_status (*progress)(void *context, const clt_prepare_progress *progress);
    void *context;
} clt_prepare_options;

typedef struct clt_prepare_result {
    uint64_t bytes, train_tokens, val_tokens;
    int train_shards, val_shards, files;
    uint32_t vocab;
    int width;             /* bytes of a token */
    double encode_seconds; /* wall clock, tokenising and writing */
    char tokenizer[128];   /* description */
    /* of pairs */
    int64_t train_pairs, val_pairs, documents, sentences, random_pairs;
} clt_prepare_result;

/* clt_prepare: writes train_000.bin ..., val_000.bin ..., tokenizer.json (with tokenizer_config.json if
 * special tokens have roles) and manifest.json. The end-of-text token, if the tokenizer has one, separates
 * documents (files, or records of JSON Lines) of the same part. */
clt_status clt_prepare(const clt_prepare_options *options, clt_prepare_result *result);

/* Formats of manifest.json: for shards of tokens, for pairs of texts. */
#define CLT_MANIFEST_TOKENS "cltrain-tokens-1"
#define CLT_MANIFEST_PAIRS "cltrain-pairs-1"

/* Compares a prepared folder with its manifest: every file's size and hash, and the ids of shards. `report`
 * is called for each file with CLT_OK, or with the failure whose text is clt_error_text(). CLT_EDATA: the
 * manifest itself is damaged. */
typedef void (*clt_prepare_report)(void *context, const char *path, clt_status status, int64_t tokens);
clt_status clt_prepare_check(const char *folder, clt_prepare_report report, void *context);

#endif
