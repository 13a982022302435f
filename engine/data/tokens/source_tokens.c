/* SPDX-License-Identifier: Apache-2.0
 *
 * Token shards: files with llm.c's header (u16 or u32 tokens), or without a header (u16, as nanoGPT
 * writes them). All shards are one stream, whose division into files has no effect. Shards are mapped and
 * may be larger than memory. Each read of a window compares its ids with the vocabulary before they are
 * used. It knows nothing of text. */
#include "engine/data/arrays/source_pair.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/data/fingerprint.h"
#include "engine/data/texts/characters.h"
#include "engine/data/texts/text_paths.h"
#include "engine/data/tokenizer/tokenizer.h"
#include "engine/data/tokens/sequence.h"
#include "engine/data/tokens/token_shard.h"
#include "engine/files/fileio.h"
#include "engine/files/remote_files.h"

typedef struct token_shard {
    const char *path;
    clt_mapping mapping;
    clt_shard_header header;
    int64_t begin; /* index of its first token in the stream */
} token_shard;

typedef struct tokens_state {
    const char *key;  /* config key that names the shards */
    const char *word; /* part of the names of the wanted shards in a folder: "train" or "val" */
    token_shard *shards;
    size_t n_shards, shards_capacity;
    int64_t tokens, bytes;
    bool wide;                /* some shard has u32 tokens */
    int64_t vocab;            /* size of the tokenizer's vocabulary; 0: unknown */
    int64_t bound;            /* ids must be below this */
    clt_tokenizer *tokenizer; /* NULL: unknown */
    clt_sequence sequence;
} tokens_state;

static clt_status add_shard(clt_source *source, tokens_state *state, const char *path)
{
    CLT_TRY(clt_grow(&state->shards, &state->shards_capacity, state->n_shards + 1, sizeof *state->shards,
                     "the list of shards"));
    token_shard *shard = &state->shards[state->n_shards++];
    shard->path = clt_arena_strdup(source->arena, path);
    if (!shard->path)
        return CLT_ENOMEM;
    CLT_TRY(clt_map_open_parts(path, CLT_EDATA, &shard->mapping));
    source->remote = source->remote || clt_is_remote(path); /* also for shards that a list file names */
    clt_map_need(&shard->mapping, 0, CLT_SHARD_HEADER);
    CLT_TRY(clt_map_check_one(&shard->mapping));
    CLT_TRY(clt_shard_parse(path, shard->mapping.data, shard->mapping.size, &shard->header));
    shard->begin = state->tokens;
    state->wide = state->wide || shard->header.width == 4;
    state->bytes += (int64_t)shard->mapping.size;
    if (__builtin_add_overflow(state->tokens, shard->header.tokens, &state->tokens))
        CLT_FAIL(CLT_EDATA, "opening the shard '%s': more than 2^63 tokens all in all", path);
    clt_map_unpin();
    return CLT_OK;
}

/* The files to which the entries of a config key lead. */
typedef struct shard_files {
    const tokens_state *state;
    clt_file_list list;
    size_t *ends; /* for each entry, the number of files up to its last one */
} shard_files;

static void free_files(shard_files *f)
{
    clt_file_list_free(&f->list);
    free(f->ends);
}

CLT_SCOPED_VALUE(shard_files, free_files)

/* Lists the shards of one path, from the config or from a list file that it names. */
static clt_status list_entry(void *context, const char *path)
{
    shard_files *f = context;
    return clt_shard_paths(path, f->state->word, f->state->key, &f->list);
}

/* Lists all files before the first one is opened, so that several headers of remote shards are fetched at a
 * time. */
static clt_status open_files(clt_source *source, tokens_state *state, const clt_config *config, int count)
{
    CLT_SCOPED(shard_files) f = {.state = state};
    CLT_TRY(clt_alloc(&f.ends, (size_t)count, sizeof *f.ends, "the list of shards"));
    for (int i = 0; i < count; i++) {
        CLT_TRY(clt_fail_prefix(
            clt_listed_paths(clt_config_list_string(config, state->key, i), state->key, list_entry, &f),
            "path %d of %s", i + 1, state->key));
        f.ends[i] = f.list.count;
    }
    size_t at = 0;
    for (int i = 0; i < count; i++)
        for (; at < f.ends[i]; at++) {
            clt_files_want_starts(NULL, &f.list, at);
            CLT_TRY(clt_fail_prefix(add_shard(source, state, f.list.name[at]), "path %d of %s", i + 1,
                                    state->key));
        }
    return CLT_OK;
}

static clt_status open_shards(clt_source *source, const clt_config *config, clt_split split)
{
    tokens_state *state = source->state;
    bool eval = split == CLT_SPLIT_EVAL, own_eval = clt_config_list_count(config, "data.eval_path") > 0;
    if (eval && !clt_source_has_eval(config))
        CLT_FAIL(CLT_ECONFIG,
                 "opening the evaluation shards: data.eval_path is empty and data.path is not a folder "
                 "with val shards; set data.eval_path");
    state->key = eval && own_eval ? "data.eval_path" : "data.path";
    state->word = eval ? "val" : "train";
    int count = clt_config_list_count(config, state->key);
    if (count == 0)
        CLT_FAIL(CLT_ECONFIG, "opening the shards: %s names no file; give a file, a folder or a pattern",
                 state->key);
    return open_files(source, state, config, count);
}

static clt_status describe(clt_source *source, const tokens_state *state)
{
    char more[48] = "";
    if (state->n_shards > 1)
        (void)snprintf(more, sizeof more, " and %zu more", state->n_shards - 1);
    source->description = clt_arena_printf(source->arena, "tokens: %lld of '%s'%s, in sequences of %lld",
                                           (long long)state->tokens, state->shards[0].path, more,
                                           (long long)state->sequence.context);
    return source->description ? CLT_OK : CLT_ENOMEM;
}

/* The shard that contains token `at` of the stream; never an empty shard. */
static const token_shard *shard_of(const tokens_state *state, int64_t at)
{
    return &state->shards[CLT_LAST_AT_MOST(state->n_shards, state->shards[i].begin, at)];
}

/* Waits until tokens [first, first + count) of a shard can be read. */
static void need_tokens(const token_shard *shard, int64_t first, int64_t count)
{
    clt_map_need(&shard->mapping, clt_shard_offset(&shard->header, first),
                 (uint64_t)count * (uint64_t)shard->header.width);
}

/* Tells remote files that tokens [at, at + count) of the stream will be read soon. */
static void want_tokens(const tokens_state *state, int64_t at, int64_t count)
{
    for (int64_t end = at + count; at < end && at < state->tokens;) {
        const token_shard *shard = shard_of(state, at);
        int64_t first = at - shard->begin, left = shard->header.tokens - first;
        int64_t n = end - at < left ? end - at : left;
        clt_map_want(&shard->mapping, clt_shard_offset(&shard->header, first),
                     (uint64_t)n * (uint64_t)shard->header.width);
        at += n;
    }
}

static uint32_t token_of(const tokens_state *state, int64_t at)
{
    const token_shard *shard = shard_of(state, at);
    need_tokens(shard, at - shard->begin, 1);
    uint32_t token = clt_shard_token(&shard->header, shard->mapping.data, at - shard->begin);
    clt_map_used(&shard->mapping);
    return token;
}

/* The mean number of bytes per token, over all tokens. In a stream of more than MEASURED_RUNS * MEASURED_RUN
 * tokens it is measured on MEASURED_RUNS evenly spaced runs of MEASURED_RUN tokens each. 0: no tokenizer is
 * known. */
#define MEASURED_RUNS 256
#define MEASURED_RUN 4096
#define RUNS_WANTED 16 /* number of runs that are requested from remote files at a time */
static double measure_tokens(const tokens_state *state)
{
    int64_t runs = MEASURED_RUNS, length = MEASURED_RUN, counted = 0, bytes = 0;
    if (!state->tokenizer)
        return 0;
    if (state->tokens <= runs * length) {
        runs = 1;
        length = state->tokens;
    }
    for (int64_t run = 0; run < runs; run++) {
        int64_t distance = (state->tokens - length) / (runs > 1 ? runs - 1 : 1), begin = run * distance;
        if (run % RUNS_WANTED == 0)
            for (int64_t r = run; r < run + RUNS_WANTED && r < runs; r++)
                want_tokens(state, r * distance, length);
        clt_map_unpin();
        for (int64_t i = 0; i < length; i++)
            bytes += clt_tokenizer_text_bytes(state->tokenizer, token_of(state, begin + i));
        counted += length;
    }
    return counted ? (double)bytes / (double)counted : 0;
}

static clt_status tokens_open(clt_source *source, const clt_config *config, clt_split split)
{
    tokens_state *state = clt_arena_alloc(source->arena, sizeof *state);
    if (!state)
        return CLT_ENOMEM;
    source->state = state;
    int64_t context = clt_config_int(config, "model.context");
    if (context < 1)
        CLT_FAIL(CLT_ECONFIG, "opening the shards: model.context is %lld; a sequence has at least 1 token",
                 (long long)context);
    CLT_TRY(clt_source_config_scale(source, config));
    CLT_TRY(open_shards(source, config, split));
    CLT_TRY(clt_tokenizer_open_config(config, &state->tokenizer));
    state->vocab = state->tokenizer ? clt_tokenizer_vocab(state->tokenizer) : 0;
    state->bound = state->vocab ? state->vocab : (int64_t)INT32_MAX + 1;
    state->sequence =
        clt_sequence_make(state->tokens, context, split, clt_config_bool(config, "data.shuffle"));
    if (state->sequence.samples == 0)
        CLT_FAIL(
            CLT_EDATA,
            "opening the shards: '%s' and the shards after it hold %lld token%s, too few for a sequence of "
            "%lld token%s (model.context) and one token more; give more tokens or a shorter context",
            state->shards[0].path, (long long)state->tokens, CLT_PLURAL(state->tokens), (long long)context,
            CLT_PLURAL(context));
    clt_sequence_fields(source, &state->sequence, state->wide ? CLT_I32 : CLT_U16, state->vocab - 1);
    source->bytes = state->bytes;
    source->tokens = state->tokens;
    source->tokenizer = state->tokenizer;
    source->bytes_per_token = measure_tokens(state);
    return describe(source, state);
}

static void tokens_close(clt_source *source)
{
    tokens_state *state = source->state;
    if (!state)
        return;
    for (size_t i = 0; i < state->n_shards; i++)
        clt_map_close(&state->shards[i].mapping);
    clt_tokenizer_close(state->tokenizer);
    free(state->shards);
}

static clt_status beyond(const tokens_state *state, const token_shard *shard, int64_t at, int64_t token)
{
    clt_map_used(&shard->mapping);
    CLT_FAIL(
        CLT_EDATA,
        "reading '%s': token %lld (byte %llu) is %lld, out of range: the %s has ids 0 to %lld; the shard was "
        "made with another tokenizer or is damaged",
        shard->path, (long long)at, (unsigned long long)clt_shard_offset(&shard->header, at),
        (long long)token, state->bound == state->vocab ? "tokenizer" : "model", (long long)state->bound - 1);
}

/* Copies tokens [at, at+count) of the stream to dst, as u16 or i32. */
static clt_status copy_tokens(const tokens_state *state, int64_t at, int64_t count, bool as_u16, void *dst)
{
    for (int64_t done = 0; done < count;) {
        const token_shard *shard = shard_of(state, at + done);
        int64_t first = at + done - shard->begin, left = shard->header.tokens - first;
        int64_t n = count - done < left ? count - done : left;
        need_tokens(shard, first, n);
        for (int64_t i = 0; i < n; i++) {
            uint32_t token = clt_shard_token(&shard->header, shard->mapping.data, first + i);
            if ((int64_t)token >= state->bound)
                return beyond(state, shard, first + i, token);
            if (as_u16)
                ((uint16_t *)dst)[done + i] = (uint16_t)token;
            else
                ((int32_t *)dst)[done + i] = (int32_t)token;
        }
        clt_map_used(&shard->mapping);
        done += n;
    }
    return CLT_OK;
}

static clt_status read_field(const clt_source *source, int64_t index, int field, void *dst)
{
    const tokens_state *state = source->state;
    const clt_sequence *s = &state->sequence;
    if (index < 0 || index >= source->samples)
        CLT_FAIL(CLT_EINTERNAL, "reading sequence %lld of %lld", (long long)index,
                 (long long)source->samples);
    int64_t begin = clt_sequence_begin(s, index);
    if (field == 0)
        return copy_tokens(state, begin, s->context, !state->wide, dst);
    CLT_TRY(copy_tokens(state, begin + 1, s->context, false, dst));
    for (int64_t i = 0; i < clt_sequence_counted(s, index); i++)
        ((int32_t *)dst)[i] = CLT_COUNTED_TARGET;
    return CLT_OK;
}

static void tokens_want(const clt_source *source, int64_t index)
{
    const tokens_state *state = source->state;
    want_tokens(state, clt_sequence_begin(&state->sequence, index), state->sequence.context + 1);
}

static clt_status tokens_read(const clt_source *source, int64_t index, clt_draw draw, void *const *to)
{
    (void)draw;
    return clt_source_read_fields(source, index, to, read_field);
}

static int64_t tokens_count_valid(const clt_source *source, int64_t index, int field, int64_t ignore)
{
    const tokens_state *state = source->state;
    const clt_sequence *s = &state->sequence;
    int64_t counted = field == 0 ? 0 : clt_sequence_counted(s, index), valid = counted;
    if (ignore < 0)
        return ignore == CLT_COUNTED_TARGET ? s->context - counted : s->context;
    for (int64_t i = counted; i < s->context; i++)
        valid += token_of(state, clt_sequence_begin(s, index) + field + i) != ignore;
    return valid;
}

static void tokens_locate(const clt_source *source, int64_t index, int field, clt_str *out)
{
    const tokens_state *state = source->state;
    int64_t at = clt_sequence_begin(&state->sequence, index) + field;
    const token_shard *shard = shard_of(state, at);
    clt_str_printf(out, "'%s', sequence %lld (from token %lld, byte %llu on)", shard->path, (long long)index,
                   (long long)(at - shard->begin),
                   (unsigned long long)clt_shard_offset(&shard->header, at - shard->begin));
}

/* Only stores the bound: every window is checked when it is read. */
static clt_status tokens_check_bound(const clt_source *source, int field, int64_t bound, bool has_ignore,
                                     int64_t ignore, bool *done)
{
    tokens_state *state = source->state;
    *done = true;
    if (bound < state->bound)
        state->bound = bound;
    return clt_sequence_check_ignore(&state->sequence, field, has_ignore, ignore);
}

static clt_status tokens_fingerprint(const clt_source *source, clt_hash64_state *state)
{
    const tokens_state *tokens = source->state;
    for (size_t i = 0; i < tokens->n_shards; i++) {
        clt_fingerprint_add_mapped(state, &tokens->shards[i].mapping);
    }
    return CLT_OK;
}

static int64_t tokens_target_bytes(const clt_source *source, int64_t index, int64_t ignore)
{
    const tokens_state *state = source->state;
    int64_t begin = clt_sequence_begin(&state->sequence, index) + 1, bytes = 0;
    int64_t end = begin + state->sequence.context;
    want_tokens(state, begin, end - begin);
    for (int64_t at = begin + clt_sequence_counted(&state->sequence, index); at < end; at++) {
        int64_t token = token_of(state, at);
        bytes += token == ignore ? 0 : clt_tokenizer_text_bytes(state->tokenizer, token);
    }
    return bytes;
}

#define SCANNED (1 << 20) /* number of tokens to wait for at a time */

static clt_status tokens_scan(const clt_source *source)
{
    const tokens_state *state = source->state;
    for (size_t i = 0; i < state->n_shards; i++) {
        const token_shard *shard = &state->shards[i];
        for (int64_t at = 0; at < shard->header.tokens; at++) {
            if (at % SCANNED == 0) {
                clt_map_unpin();
                need_tokens(shard, at, SCANNED);
            }
            uint32_t token = clt_shard_token(&shard->header, shard->mapping.data, at);
            if ((int64_t)token >= state->bound)
                return beyond(state, shard, at, token);
        }
        CLT_TRY(clt_map_check_one(&shard->mapping));
    }
    return CLT_OK;
}

/* True if data.path is one folder that contains val shards. */
static bool tokens_has_eval(const clt_config *config)
{
    return clt_config_list_count(config, "data.path") == 1 &&
           clt_folder_has_shards(clt_config_list_string(config, "data.path", 0), "val");
}

static clt_status tokens_tokenizer(const clt_config *config, clt_tokenizer **out)
{
    CLT_FREED char *beside = NULL;
    if (clt_config_list_count(config, "data.path") == 0)
        return CLT_OK;
    CLT_TRY(clt_path_beside(clt_config_list_string(config, "data.path", 0), "tokenizer.json", &beside));
    if (!clt_file_exists(beside))
        return CLT_OK;
    return clt_fail_prefix(clt_tokenizer_open(beside, out), "opening the tokenizer of data.path");
}

static clt_status tokens_shapes(const clt_config *config, const clt_tokenizer *tokenizer, int64_t samples,
                                clt_source *source)
{
    int64_t context = clt_config_int(config, "model.context");
    int64_t most = tokenizer ? (int64_t)clt_tokenizer_vocab(tokenizer) - 1 : -1;
    clt_sequence sequence = clt_sequence_make(samples + context, context, CLT_SPLIT_TRAIN, true);
    /* if the vocabulary is unknown, ids may need 32 bits */
    clt_sequence_fields(source, &sequence, most >= 0 && most < 65536 ? CLT_U16 : CLT_I32, most);
    return CLT_OK;
}

extern const clt_source_type clt_source_tokens;

static clt_status tokens_check_file(const char *path, const char *tokenizer, clt_str *out)
{
    const clt_data_file file = {&clt_source_tokens, path, NULL, 1, tokenizer};
    CLT_SCOPED(clt_config) *config = NULL;
    CLT_SCOPED(clt_source) *source = NULL;
    CLT_TRY(clt_data_file_config(&file, &config));
    CLT_TRY(clt_source_open(config, CLT_SPLIT_TRAIN, &source));
    CLT_TRY(clt_source_scan(source));
    clt_str_printf(out, "%lld token%s, %s", (long long)source->samples + 1, CLT_PLURAL(source->samples + 1),
                   source->fields[0].max_value >= 0 ? "all in the vocabulary" : "vocabulary not known");
    return clt_str_check(out);
}

static const clt_config_key tokens_keys[] = {
    CLT_KEY_STRINGS("data.path", "[]", "shards to train on: a file, a list of files, a folder or a pattern"),
    CLT_KEY_STRINGS("data.eval_path", "[]",
                    "shards to evaluate on; []: the val shards of the folder data.path, if any"),
    CLT_KEY_STRING(
        "data.tokenizer", "\"\"",
        "bytes, or a folder or file of a BPE vocabulary; empty: the tokenizer.json beside the shards"),
    CLT_KEY_END,
};
static const char *const tokens_required[] = {"data.path", "model.context", NULL};

const clt_config_part clt_format_tokens = {
    .name = "tokens",
    .help =
        "shards of tokens: llm.c's .bin files, or u16 without a header (a file, a list, a folder, a pattern)",
    .keys = tokens_keys,
    .required = tokens_required,
    .language = true,
};

const clt_source_type clt_source_tokens = {
    .format = &clt_format_tokens,
    .open = tokens_open,
    .close = tokens_close,
    .read = tokens_read,
    .count_valid = tokens_count_valid,
    .locate = tokens_locate,
    .check_bound = tokens_check_bound,
    .want = tokens_want,
    .fingerprint = tokens_fingerprint,
    .target_bytes = tokens_target_bytes,
    .scan = tokens_scan,
    .has_eval = tokens_has_eval,
    .eval_hint = "data.eval_path, or a data.path whose folder holds val shards",
    .made_by = "cltrain data prepare TEXT --tokenizer data/gpt2 --out FOLDER",
    .default_tokenizer = tokens_tokenizer,
    .shapes = tokens_shapes,
    .suffix = ".bin",
    .check_file = tokens_check_file,
};
