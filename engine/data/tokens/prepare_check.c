/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares a prepared folder with its manifest: the tokenizer, and the size, ids and hash of every shard
 * or file of pairs. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/hash.h"
#include "engine/data/tokenizer/tokenizer.h"
#include "engine/data/tokens/pair_file.h"
#include "engine/data/tokens/prepare.h"
#include "engine/data/tokens/token_shard.h"
#include "engine/files/fileio.h"
#include "engine/json/json.h"

typedef struct listed_shard {
    const char *name, *hash;
    int64_t tokens; /* or pairs */
} listed_shard;

static clt_status read_entry(const clt_json *entry, listed_shard *out)
{
    const clt_json *name = clt_json_get(entry, "name"), *hash = clt_json_get(entry, "xxh64");
    const clt_json *tokens = clt_json_get(entry, clt_json_get(entry, "tokens") ? "tokens" : "pairs");
    if (!*clt_json_string(name) || strchr(clt_json_string(name), '/') || !hash ||
        !clt_json_int(tokens, &out->tokens))
        CLT_FAIL(CLT_EDATA, "an entry of its files has no \"name\", \"tokens\" or \"pairs\", and \"xxh64\"");
    out->name = clt_json_string(name);
    out->hash = clt_json_string(hash);
    return CLT_OK;
}

static clt_status check_content(const char *path, const listed_shard *listed, const clt_mapping *mapping,
                                uint32_t vocab)
{
    clt_shard_header header;
    char hash[CLT_HASH64_TEXT];
    CLT_TRY(clt_shard_parse(path, mapping->data, mapping->size, &header));
    if (header.tokens != listed->tokens)
        CLT_FAIL(CLT_EDATA, "reading '%s': it has %lld tokens, and %lld according to manifest.json", path,
                 (long long)header.tokens, (long long)listed->tokens);
    for (int64_t at = 0; at < header.tokens; at++)
        if (clt_shard_token(&header, mapping->data, at) >= vocab)
            CLT_FAIL(
                CLT_EDATA,
                "reading '%s': token %lld (byte %llu) is %u, out of range: the tokenizer has ids 0 to %u",
                path, (long long)at, (unsigned long long)clt_shard_offset(&header, at),
                clt_shard_token(&header, mapping->data, at), vocab - 1);
    const uint8_t *tokens = mapping->data + header.header;
    (void)clt_hash64_text(clt_hash64(tokens, mapping->size - (size_t)header.header), hash);
    if (strcmp(hash, listed->hash) != 0)
        CLT_FAIL(CLT_EDATA,
                 "reading '%s': its tokens have the hash %s, and %s according to manifest.json: the file was "
                 "changed; make it again",
                 path, hash, listed->hash);
    return CLT_OK;
}

static clt_status check_shard(const char *path, const listed_shard *listed, uint32_t vocab)
{
    CLT_SCOPED(clt_mapping) mapping = {0};
    CLT_TRY(clt_map_open(path, CLT_EDATA, &mapping));
    CLT_TRY(check_content(path, listed, &mapping, vocab));
    return clt_map_check_one(&mapping);
}

static clt_status check_pairs(const char *path, const listed_shard *listed, int64_t *tokens)
{
    CLT_SCOPED(clt_mapping) mapping = {0};
    clt_pair_header header;
    char hash[CLT_HASH64_TEXT];
    CLT_TRY(clt_map_open(path, CLT_EDATA, &mapping));
    CLT_TRY(clt_pair_parse(path, mapping.data, mapping.size, &header));
    (void)clt_hash64_text(clt_hash64(mapping.data, mapping.size), hash);
    if (header.records != listed->tokens || strcmp(hash, listed->hash) != 0)
        CLT_FAIL(CLT_EDATA,
                 "reading '%s': it has %lld pairs and the hash %s, and %lld and %s according to "
                 "manifest.json: the "
                 "file was changed; make it again",
                 path, (long long)header.records, hash, (long long)listed->tokens, listed->hash);
    *tokens = header.records * header.context;
    return clt_map_check_one(&mapping);
}

static clt_status check_part(const char *folder, const clt_json *part, bool pairs, uint32_t vocab,
                             clt_prepare_report report, void *context)
{
    const clt_json *files = clt_json_get(part, "files");
    if (clt_json_typeof(files) != CLT_JSON_ARRAY)
        CLT_FAIL(CLT_EDATA, "its parts \"train\" and \"val\" must have a list \"files\"");
    for (const clt_json *entry = clt_json_first(files); entry; entry = clt_json_next(entry)) {
        listed_shard listed;
        CLT_FREED char *path = NULL;
        CLT_TRY(read_entry(entry, &listed));
        CLT_TRY(clt_path_join(folder, listed.name, &path));
        int64_t tokens = listed.tokens;
        clt_status status = pairs ? check_pairs(path, &listed, &tokens) : check_shard(path, &listed, vocab);
        report(context, path, status, tokens);
    }
    return CLT_OK;
}

static clt_status open_tokenizer(const char *path, const clt_json *root, uint32_t *vocab)
{
    const clt_json *hash = clt_json_get(clt_json_get(root, "tokenizer"), "hash");
    CLT_SCOPED(clt_tokenizer) *tokenizer = NULL;
    char text[CLT_HASH64_TEXT];
    CLT_TRY(clt_tokenizer_open(path, &tokenizer));
    *vocab = clt_tokenizer_vocab(tokenizer);
    (void)clt_hash64_text(clt_tokenizer_hash(tokenizer), text);
    if (!clt_json_is(hash, text))
        CLT_FAIL(CLT_EDATA, "reading '%s': it is not the tokenizer that manifest.json names", path);
    return CLT_OK;
}

static clt_status check_files(const char *folder, const clt_json *root, clt_prepare_report report,
                              void *context)
{
    const clt_json *format = clt_json_get(root, "format");
    CLT_FREED char *path = NULL;
    uint32_t vocab = UINT32_MAX;
    bool pairs = clt_json_is(format, CLT_MANIFEST_PAIRS);
    if (!pairs && !clt_json_is(format, CLT_MANIFEST_TOKENS))
        CLT_FAIL(CLT_EDATA,
                 "its format is neither \"" CLT_MANIFEST_TOKENS "\" nor \"" CLT_MANIFEST_PAIRS "\"");
    CLT_TRY(clt_path_join(folder, "tokenizer.json", &path));
    report(context, path, open_tokenizer(path, root, &vocab), 0);
    CLT_TRY(check_part(folder, clt_json_get(root, "train"), pairs, vocab, report, context));
    return check_part(folder, clt_json_get(root, "val"), pairs, vocab, report, context);
}

clt_status clt_prepare_check(const char *folder, clt_prepare_report report, void *context)
{
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    CLT_FREED char *path = NULL;
    CLT_TRY(clt_path_join(folder, "manifest.json", &path));
    CLT_TRY(clt_json_parse_file(path, CLT_EDATA, &doc));
    return clt_fail_prefix(check_files(folder, clt_json_root(doc), report, context), "reading '%s'", path);
}
