/* SPDX-License-Identifier: Apache-2.0
 *
 * Text as a stream of tokens. The files are joined, and their last part is kept for evaluation, unless
 * evaluation has its own files. The part of this split is tokenised in memory (the byte tokenizer leaves
 * it unchanged). With model.context the samples are sequences (sequence.h). Without it, sample i has the
 * window of data.window tokens that begins at token i (field x) and the token after that window (field
 * y). It knows nothing of how text is tokenised. */
#include "engine/data/arrays/source_pair.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/base/thread.h"
#include "engine/data/fingerprint.h"
#include "engine/data/tokenizer/tokenizer.h"
#include "engine/data/tokens/sequence.h"

typedef struct text_state {
    const char *key; /* config key that names the files */
    clt_texts texts;
    char *bytes; /* the joined content of all files; freed after tokenising */
    size_t size;
    uint64_t begin, length;   /* the bytes of this split */
    clt_hash64_state content; /* fingerprint of all files */
    clt_tokenizer *tokenizer;
    bool joined; /* all files together are one document */
    void *ids;   /* (tokens) u16 or i32; NULL: the bytes are the tokens */
    size_t ids_capacity;
    clt_dtype dtype; /* type of a token: u8, u16 or i32 */
    int64_t tokens;  /* number of tokens in this split */
    int64_t window;  /* number of tokens in x, if samples are windows instead of sequences */
    bool sequences;
    clt_sequence sequence;
} text_state;

/* Copies all documents into one joined text, to which their `bytes` then point. */
static clt_status join_texts(text_state *state)
{
    clt_texts *t = &state->texts;
    state->size = (size_t)t->total;
    CLT_TRY(clt_alloc(&state->bytes, state->size + 1, 1, "the joined text"));
    for (size_t i = 0; i < t->n_documents; i++) {
        memcpy(state->bytes + t->documents[i].begin, t->documents[i].bytes, (size_t)t->documents[i].size);
        t->documents[i].bytes = state->bytes + t->documents[i].begin;
    }
    clt_status status = clt_texts_check(t);
    for (size_t i = 0; i < t->n_files; i++) {
        clt_map_close(&t->files[i].mapping);
        free(t->files[i].content);
        t->files[i].content = NULL;
    }
    return status;
}

static clt_status load_files(const clt_config *config, text_state *state)
{
    state->texts.key = state->key;
    state->texts.json_option = "data.json_key";
    state->texts.json_key = clt_config_string(config, "data.json_key");
    state->texts.read_again = true;
    state->texts.plain_option = "data.joined=true";
    state->texts.any_lines = state->joined;
    int count = clt_config_list_count(config, state->key);
    if (count == 0)
        CLT_FAIL(CLT_ECONFIG, "opening the text: %s names no file; give a path or a list of paths",
                 state->key);
    for (int i = 0; i < count; i++) {
        const char *path = clt_config_list_string(config, state->key, i);
        if (!path[0] || strcmp(path, "@") == 0)
            CLT_FAIL(CLT_ECONFIG, "opening the text: path %d of %s is empty; name a file", i + 1, state->key);
        CLT_TRY(clt_texts_add(&state->texts, path));
    }
    if (!clt_tokenizer_is_bytes(state->tokenizer))
        clt_texts_warn_bytes(&state->texts);
    return join_texts(state);
}

/* "'a.txt', 'b.txt' and 3 more" */
static const char *file_names(clt_source *source, const text_state *state)
{
    CLT_SCOPED(clt_str) names = {0};
    size_t files = state->texts.n_files, shown = files < 4 ? files : 3;
    for (size_t i = 0; i < shown; i++)
        clt_str_printf(&names, "%s'%s'", i ? ", " : "", state->texts.files[i].path);
    if (shown < files)
        clt_str_printf(&names, " and %zu more", files - shown);
    return clt_str_check(&names) == CLT_OK ? clt_arena_strdup(source->arena, names.text) : NULL;
}

/* Chooses the bytes of this split. */
static clt_status choose_part(const clt_config *config, clt_split split, text_state *state, const char *names)
{
    if (state->size == 0)
        CLT_FAIL(
            CLT_EDATA,
            "opening the text: there is not a single byte in %s (%s); give a text of more than %lld bytes",
            names, state->key, (long long)state->window);
    bool own_eval = clt_config_list_count(config, "data.eval_path") > 0;
    double part = own_eval ? 0.0 : clt_config_float(config, "data.split");
    uint64_t train = (uint64_t)((double)state->size * (1.0 - part));
    if (train > state->size)
        train = state->size;
    /* With the byte tokenizer the text may be cut anywhere, but a record stays whole. */
    if (!clt_tokenizer_is_bytes(state->tokenizer) || *state->texts.json_key)
        train = clt_texts_cut(&state->texts, train);
    bool rest = split == CLT_SPLIT_EVAL && !own_eval;
    state->begin = rest ? train : 0;
    state->length = rest ? state->size - train : train;
    return CLT_OK;
}

static clt_status add_ids(void *context, const uint32_t *ids, size_t count, size_t bytes)
{
    text_state *state = context;
    size_t width = clt_dtype_bytes(state->dtype);
    (void)bytes;
    CLT_TRY(clt_grow(&state->ids, &state->ids_capacity, (size_t)state->tokens + count, width,
                     "the tokens of the text"));
    for (size_t i = 0; i < count; i++) {
        if (state->dtype == CLT_U16)
            ((uint16_t *)state->ids)[(size_t)state->tokens + i] = (uint16_t)ids[i];
        else
            ((int32_t *)state->ids)[(size_t)state->tokens + i] = (int32_t)ids[i];
    }
    state->tokens += (int64_t)count;
    return CLT_OK;
}

/* The type of tokens in memory: u8 for the byte tokenizer, else u16 or i32. */
static clt_dtype type_of_tokens(const clt_tokenizer *tokenizer)
{
    clt_dtype ids = clt_tokenizer_vocab(tokenizer) <= 65536 ? CLT_U16 : CLT_I32;
    return clt_tokenizer_is_bytes(tokenizer) ? CLT_U8 : ids;
}

static clt_status tokenise(const clt_config *config, text_state *state)
{
    state->dtype = type_of_tokens(state->tokenizer);
    state->tokens = (int64_t)state->length;
    if (clt_tokenizer_is_bytes(state->tokenizer))
        return CLT_OK;
    state->tokens = 0;
    clt_tokenizer_read_special(state->tokenizer, clt_config_bool(config, "data.special_tokens"));
    int threads = clt_cpu_count();
    clt_status status = state->joined
                            ? clt_tokenize(state->tokenizer, state->bytes + state->begin,
                                           (size_t)state->length, threads, add_ids, state)
                            : clt_tokenize_documents(state->tokenizer, &state->texts, state->begin,
                                                     state->begin + state->length, threads, add_ids, state);
    CLT_TRY(clt_fail_prefix(status, "tokenising the text of %s", state->key));
    CLT_TRY(clt_grow(&state->ids, &state->ids_capacity, 1, clt_dtype_bytes(state->dtype),
                     "the tokens of the text"));
    free(state->bytes);
    state->bytes = NULL;
    return CLT_OK;
}

static int64_t token_at(const text_state *state, int64_t at)
{
    if (state->dtype == CLT_U16)
        return ((const uint16_t *)state->ids)[at];
    if (state->dtype == CLT_I32)
        return ((const int32_t *)state->ids)[at];
    return (uint8_t)state->bytes[state->begin + (uint64_t)at];
}

/* Address of token `at`. */
static const void *tokens_from(const text_state *state, int64_t at)
{
    if (state->ids)
        return (const char *)state->ids + (size_t)at * clt_dtype_bytes(state->dtype);
    return state->bytes + state->begin + (uint64_t)at;
}

static clt_status too_short(const clt_config *config, clt_split split, const text_state *state,
                            const char *names)
{
    bool own_eval = clt_config_list_count(config, "data.eval_path") > 0;
    int64_t span = state->sequences ? state->sequence.context : state->window;
    const char *unit = state->ids ? "tokens" : "bytes";
    CLT_FAIL(CLT_EDATA,
             "opening the text: %llu bytes in %s are too short: the %s part (data.split %g) has %lld %s, "
             "a window of %lld (%s) and the one that follows need %lld; give more text or a smaller window",
             (unsigned long long)state->size, names, split == CLT_SPLIT_EVAL ? "evaluation" : "training",
             own_eval ? 0.0 : clt_config_float(config, "data.split"), (long long)state->tokens, unit,
             (long long)span, state->sequences ? "model.context" : "data.window", (long long)span + 1);
}

static int64_t largest_token(const text_state *state)
{
    int64_t most = 0;
    /* the bound depends on the vocabulary and not on the text */
    if (state->sequences || state->ids)
        return (int64_t)clt_tokenizer_vocab(state->tokenizer) - 1;
    for (size_t i = 0; i < state->size; i++)
        if ((uint8_t)state->bytes[i] > most)
            most = (uint8_t)state->bytes[i];
    return most;
}

/* Sets the fields of windows or sequences. `most`: the largest token. */
static void make_fields(clt_source *source, const text_state *state, int64_t most)
{
    if (state->sequences) {
        clt_sequence_fields(source, &state->sequence, state->dtype, most);
        return;
    }
    source->n_fields = 2;
    source->fields[0] = (clt_source_field){"x", state->dtype, clt_shape1(state->window), true, most};
    source->fields[1] = (clt_source_field){"y", state->dtype, {.ndim = 0}, true, most};
}

static clt_status set_fields(clt_source *source, const text_state *state, const char *names)
{
    const char *unit = state->ids ? "tokens" : "bytes";
    make_fields(source, state, largest_token(state));
    source->bytes = (int64_t)state->length;
    if (state->sequences) {
        source->description = clt_arena_printf(
            source->arena, "text: %lld %s, %.0f%% of %s, in sequences of %lld; tokenizer: %s",
            (long long)state->tokens, unit,
            state->size > 0 ? 100.0 * (double)state->length / (double)state->size : 0.0, names,
            (long long)state->sequence.context, clt_tokenizer_description(state->tokenizer));
        return source->description ? CLT_OK : CLT_ENOMEM;
    }
    source->samples = state->tokens - state->window;
    source->description = clt_arena_printf(
        source->arena,
        "text: %lld window%s of %lld %s, each with the one that follows, in %llu of %llu bytes of %s",
        (long long)source->samples, CLT_PLURAL(source->samples), (long long)state->window, unit,
        (unsigned long long)state->length, (unsigned long long)state->size, names);
    return source->description ? CLT_OK : CLT_ENOMEM;
}

/* Computes the fingerprint. It includes tokens between and around documents, since training uses these,
 * too. */
static void add_content(text_state *state)
{
    const clt_texts *t = &state->texts;
    size_t before, after;
    const uint32_t *first = clt_tokenizer_before(state->tokenizer, &before);
    const uint32_t *last = clt_tokenizer_after(state->tokenizer, &after);
    int64_t end = clt_tokenizer_end_of_text(state->tokenizer);
    clt_hash64_begin(&state->content);
    clt_fingerprint_add(&state->content, state->bytes, state->size);
    if (state->joined)
        return;
    if (before + after > 0) {
        clt_fingerprint_add(&state->content, first, before * sizeof *first);
        clt_fingerprint_add(&state->content, last, after * sizeof *last);
    }
    if (t->n_documents > 1 && (end >= 0 || before + after > 0))
        clt_fingerprint_add(&state->content, &end, sizeof end);
    for (size_t i = 1; (end >= 0 || before + after > 0) && i < t->n_documents; i++)
        clt_fingerprint_add(&state->content, &t->documents[i].begin, sizeof(uint64_t));
}

static clt_status make_samples(clt_source *source, const clt_config *config, clt_split split)
{
    text_state *state = source->state;
    const char *names = file_names(source, state);
    if (!names)
        return CLT_ENOMEM;
    CLT_TRY(choose_part(config, split, state, names));
    add_content(state);
    CLT_TRY(tokenise(config, state));
    source->tokenizer = state->tokenizer;
    source->tokens = state->tokens;
    source->bytes_per_token = state->tokens ? (double)state->length / (double)state->tokens : 0;
    if (state->sequences)
        state->sequence = clt_sequence_make(state->tokens, clt_config_int(config, "model.context"), split,
                                            clt_config_bool(config, "data.shuffle"));
    if (state->sequences ? state->sequence.samples == 0 : state->tokens <= state->window)
        return too_short(config, split, state, names);
    return set_fields(source, state, names);
}

static clt_status text_open(clt_source *source, const clt_config *config, clt_split split)
{
    text_state *state = clt_arena_alloc(source->arena, sizeof *state);
    if (!state)
        return CLT_ENOMEM;
    source->state = state;
    bool own_eval = clt_config_list_count(config, "data.eval_path") > 0;
    if (split == CLT_SPLIT_EVAL && !clt_source_has_eval(config))
        CLT_FAIL(CLT_ECONFIG,
                 "opening the evaluation text: data.eval_path is empty and data.split is 0; set one of them");
    state->key = split == CLT_SPLIT_EVAL && own_eval ? "data.eval_path" : "data.path";
    state->window = clt_config_int(config, "data.window");
    state->sequences = clt_config_int(config, "model.context") > 0;
    state->joined = clt_config_bool(config, "data.joined");
    if (state->window < 1)
        CLT_FAIL(CLT_ECONFIG, "opening the text: data.window is %lld; a window has at least 1 token",
                 (long long)state->window);
    CLT_TRY(clt_source_config_scale(source, config));
    CLT_TRY(clt_tokenizer_open_config(config, &state->tokenizer));
    CLT_TRY(load_files(config, state));
    return make_samples(source, config, split);
}

static void text_close(clt_source *source)
{
    text_state *state = source->state;
    if (!state)
        return;
    clt_tokenizer_close(state->tokenizer);
    free(state->ids);
    free(state->bytes);
    clt_texts_free(&state->texts);
}

static clt_status read_field(const clt_source *source, int64_t index, int field, void *dst)
{
    const text_state *state = source->state;
    size_t width = clt_dtype_bytes(state->dtype);
    if (index < 0 || index >= source->samples)
        CLT_FAIL(CLT_EINTERNAL, "reading window %lld of a text with %lld window%s", (long long)index,
                 (long long)source->samples, CLT_PLURAL(source->samples));
    if (state->sequences && field == 1) {
        int64_t begin = clt_sequence_begin(&state->sequence, index) + 1;
        int64_t counted = clt_sequence_counted(&state->sequence, index);
        for (int64_t i = 0; i < state->sequence.context; i++)
            ((int32_t *)dst)[i] = i < counted ? CLT_COUNTED_TARGET : (int32_t)token_at(state, begin + i);
        return CLT_OK;
    }
    if (state->sequences)
        memcpy(dst, tokens_from(state, clt_sequence_begin(&state->sequence, index)),
               (size_t)state->sequence.context * width);
    else if (field == 0)
        memcpy(dst, tokens_from(state, index), (size_t)state->window * width);
    else
        memcpy(dst, tokens_from(state, index + state->window), width);
    return CLT_OK;
}

static clt_status text_read(const clt_source *source, int64_t index, clt_draw draw, void *const *to)
{
    (void)draw;
    return clt_source_read_fields(source, index, to, read_field);
}

static int64_t text_count_valid(const clt_source *source, int64_t index, int field, int64_t ignore)
{
    const text_state *state = source->state;
    int64_t begin = index + (field == 0 ? 0 : state->window), count = field == 0 ? state->window : 1;
    int64_t counted = 0, valid = 0;
    if (state->sequences) {
        begin = clt_sequence_begin(&state->sequence, index) + field;
        count = state->sequence.context;
        counted = field == 0 ? 0 : clt_sequence_counted(&state->sequence, index);
    }
    if (ignore < 0)
        return ignore == CLT_COUNTED_TARGET ? count - counted : count;
    for (int64_t i = 0; i < count; i++)
        valid += i < counted || token_at(state, begin + i) != ignore;
    return valid;
}

static void text_locate(const clt_source *source, int64_t index, int field, clt_str *out)
{
    const text_state *state = source->state;
    int64_t begin = state->sequences ? clt_sequence_begin(&state->sequence, index) + field
                                     : index + (field == 0 ? 0 : state->window);
    if (state->ids) {
        clt_str_printf(out, "window %lld (from token %lld of the text on)", (long long)index,
                       (long long)begin);
        return;
    }
    uint64_t at = state->begin + (uint64_t)begin;
    for (size_t i = 0; i < state->texts.n_documents; i++) {
        const clt_document *d = &state->texts.documents[i];
        if (at >= d->begin && at - d->begin < d->size) {
            clt_str_printf(out, "'%s', window %lld (from byte %llu on)", state->texts.files[d->file].path,
                           (long long)index, (unsigned long long)(at - d->begin));
            return;
        }
    }
}

/* Checks each token once. Reading all sequences, which overlap, would read each token many times. */
static clt_status text_check_bound(const clt_source *source, int field, int64_t bound, bool has_ignore,
                                   int64_t ignore, bool *done)
{
    const text_state *state = source->state;
    *done = state->sequences;
    if (!state->sequences)
        return CLT_OK;
    CLT_TRY(clt_sequence_check_ignore(&state->sequence, field, has_ignore, ignore));
    if (source->fields[field].max_value < bound)
        return CLT_OK;
    for (int64_t i = 0; i < state->tokens; i++) {
        int64_t token = token_at(state, i);
        if (token >= bound && !(has_ignore && token == ignore))
            CLT_FAIL(
                CLT_EDATA,
                "checking the text of %s: its token %lld is %lld, out of range: the model takes 0 to %lld; "
                "give the model a vocabulary of %lld (model.vocab), or use another data.tokenizer",
                state->key, (long long)i, (long long)token, (long long)bound - 1,
                (long long)source->fields[field].max_value + 1);
    }
    return CLT_OK;
}

static clt_status text_fingerprint(const clt_source *source, clt_hash64_state *state)
{
    const text_state *text = source->state;
    *state = text->content;
    return CLT_OK;
}

static int64_t text_target_bytes(const clt_source *source, int64_t index, int64_t ignore)
{
    const text_state *state = source->state;
    int64_t begin = index + state->window, end = begin + 1, bytes = 0;
    if (state->sequences) {
        begin = clt_sequence_begin(&state->sequence, index) + 1;
        end = begin + state->sequence.context;
        begin += clt_sequence_counted(&state->sequence, index);
    }
    for (int64_t at = begin; at < end; at++) {
        int64_t token = token_at(state, at);
        bytes += token == ignore ? 0 : clt_tokenizer_text_bytes(state->tokenizer, token);
    }
    return bytes;
}

static clt_status text_scan(const clt_source *source)
{
    (void)source; /* everything was read and checked when the source was opened */
    return CLT_OK;
}

static bool text_has_eval(const clt_config *config)
{
    return clt_config_float(config, "data.split") > 0.0;
}

static clt_status text_tokenizer(const clt_config *config, clt_tokenizer **out)
{
    (void)config;
    return clt_tokenizer_open("bytes", out);
}

static clt_status text_shapes(const clt_config *config, const clt_tokenizer *tokenizer, int64_t samples,
                              clt_source *source)
{
    int64_t context = clt_config_int(config, "model.context"), window = clt_config_int(config, "data.window");
    text_state state = {.window = window,
                        .sequences = context > 0,
                        .dtype = type_of_tokens(tokenizer),
                        .sequence = clt_sequence_make(samples + context, context, CLT_SPLIT_TRAIN, true)};
    make_fields(source, &state, (int64_t)clt_tokenizer_vocab(tokenizer) - 1);
    return CLT_OK;
}

static const clt_config_key text_keys[] = {
    CLT_KEY_STRINGS("data.path", "[]",
                    "the text to train on: a file, a folder, a pattern such as "
                    "texts/*.txt, or a list of these"),
    CLT_KEY_STRING(
        "data.json_key", "\"\"",
        "the files are JSON Lines or lists of JSON, and this member of each record is a text; empty: "
        "plain text"),
    CLT_KEY_BOOL("data.special_tokens", "false",
                 "names of special tokens in the text become these tokens; false: they are plain text"),
    {.path = "data.joined",
     .type = CLT_CFG_BOOL,
     .default_text = "false",
     .older_text = "true",
     .unit = "",
     .help = "the files are one text as they stand: no end-of-text token between them, and lines of JSON are "
             "text; false: each file or record is a document"},
    CLT_KEY_STRINGS("data.eval_path", "[]",
                    "the text to evaluate on; []: a part of data.path, see data.split"),
    CLT_KEY_STRING(
        "data.tokenizer", "\"\"",
        "bytes, or a folder or file of a BPE vocabulary (tokenizer.json, vocab.json with merges.txt); "
        "empty: bytes"),
    CLT_KEY_FLOAT_OPEN("data.split", 0, false, 1, true, "0.1", "",
                       "part of the text kept for evaluation when data.eval_path is empty; 0: none"),
    CLT_KEY_INT("data.window", 1, CLT_KEY_WIDE, "16", "bytes", "bytes of context before the byte to predict"),
    CLT_KEY_END,
};
static const char *const text_required[] = {"data.path", NULL};

const clt_config_part clt_format_text = {
    .name = "text",
    .help =
        "text files (a path, a folder, a pattern, a list, or \"@LIST\" for a file of paths) as bytes or BPE "
        "tokens: sequences of model.context, or windows of data.window and the token that follows",
    .keys = text_keys,
    .required = text_required,
    .language = true,
};

const clt_source_type clt_source_text = {
    .format = &clt_format_text,
    .open = text_open,
    .close = text_close,
    .read = text_read,
    .count_valid = text_count_valid,
    .locate = text_locate,
    .check_bound = text_check_bound,
    .fingerprint = text_fingerprint,
    .target_bytes = text_target_bytes,
    .scan = text_scan,
    .has_eval = text_has_eval,
    .eval_hint = "data.eval_path, or data.split above 0 for a part of the text",
    .default_tokenizer = text_tokenizer,
    .shapes = text_shapes,
};
