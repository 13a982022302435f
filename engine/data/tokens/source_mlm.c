/* SPDX-License-Identifier: Apache-2.0
 *
 * Data for masked language models: pairs of texts from a file that `cltrain data prepare --mlm` made,
 * masked while they are read. Fields of a sample of T tokens and P places: x (T) tokens; segments (T), 0
 * for [CLS] A [SEP] and for padding, 1 for B [SEP]; document (T), 0 for the text and a different number
 * for each token of padding, so that attention does not go from the text to padding; places (P), the
 * places of masked tokens; y (P), the original tokens there, -1 for unused places; follows, 1 if B does
 * not follow A. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/data/fingerprint.h"
#include "engine/data/texts/text_paths.h"
#include "engine/data/tokens/masking.h"
#include "engine/data/tokens/pair_file.h"
#include "engine/files/fileio.h"

#define UNUSED_TARGET (-1)

enum { FIELD_X, FIELD_SEGMENTS, FIELD_DOCUMENTS, FIELD_PLACES, FIELD_Y, FIELD_FOLLOWS };

typedef struct mlm_state {
    clt_mapping mapping;
    const char *path;
    clt_pair_header header;
    clt_masking masking;
    clt_tokenizer *tokenizer;
    uint32_t padding;
    int64_t context, places; /* of a sample */
} mlm_state;

/* The file of a split: data.path or data.eval_path; if that is a folder, train.pairs or val.pairs in it. */
static clt_status path_of(const clt_config *config, clt_split split, char **out)
{
    bool eval = split == CLT_SPLIT_EVAL, own = clt_config_list_count(config, "data.eval_path") > 0;
    const char *key = eval && own ? "data.eval_path" : "data.path";
    int count = clt_config_list_count(config, key);
    *out = NULL;
    if (count != 1)
        CLT_FAIL(CLT_ECONFIG,
                 "opening the pairs: %s names %d paths; give one file or folder that 'cltrain data "
                 "prepare --mlm' made",
                 key, count);
    const char *path = clt_config_list_string(config, key, 0);
    if (clt_is_directory(path))
        return clt_path_join(path, eval ? "val" CLT_PAIR_ENDING : "train" CLT_PAIR_ENDING, out);
    if (!(*out = strdup(path)))
        CLT_FAIL(CLT_ENOMEM, "opening '%s': out of host memory", path);
    return CLT_OK;
}

/* The number of places in a sample: data.places, or the number of the published recipes: 20 for 128 tokens,
 * 80 for 512. */
static int64_t places_of(const clt_config *config, int64_t context)
{
    int64_t given = clt_config_int(config, "data.places");
    return given > 0 ? given : (context * 5 + 31) / 32;
}

static clt_status set_fields(clt_source *source, int64_t context, int64_t places, int64_t vocab)
{
    const struct {
        const char *name;
        clt_dtype dtype;
        clt_shape shape;
        bool is_index;
        int64_t most;
    } fields[] = {
        [FIELD_X] = {"x", CLT_I32, clt_shape1(context), true, vocab - 1},
        [FIELD_SEGMENTS] = {"segments", CLT_U8, clt_shape1(context), true, 1},
        [FIELD_DOCUMENTS] = {"document", CLT_I32, clt_shape1(context), true, context - 1},
        [FIELD_PLACES] = {"places", CLT_I32, clt_shape1(places), true, context - 1},
        [FIELD_Y] = {"y", CLT_I32, clt_shape1(places), true, vocab - 1},
        [FIELD_FOLLOWS] = {"follows", CLT_I32, clt_shape_make(0, NULL), true, 1},
    };
    source->n_fields = (int)(sizeof fields / sizeof fields[0]);
    for (int i = 0; i < source->n_fields; i++)
        source->fields[i] = (clt_source_field){.name = fields[i].name,
                                               .dtype = fields[i].dtype,
                                               .shape = fields[i].shape,
                                               .is_index = fields[i].is_index,
                                               .max_value = fields[i].most};
    return CLT_OK;
}

static clt_status need_role(const mlm_state *state, clt_token_role role, const char *name, uint32_t *out)
{
    int64_t id = clt_tokenizer_role(state->tokenizer, role);
    if (id < 0)
        CLT_FAIL(CLT_EDATA, "opening '%s': its tokenizer (%s) has no %s token", state->path,
                 clt_tokenizer_description(state->tokenizer), name);
    *out = (uint32_t)id;
    return CLT_OK;
}

static clt_status open_tokenizer(mlm_state *state, const clt_config *config)
{
    CLT_TRY(clt_tokenizer_open_config(config, &state->tokenizer));
    if (!state->tokenizer)
        CLT_FAIL(CLT_EDATA,
                 "opening '%s': there is no tokenizer.json in its folder; name the tokenizer that made it as "
                 "data.tokenizer",
                 state->path);
    if (clt_tokenizer_hash(state->tokenizer) != state->header.tokenizer)
        CLT_FAIL(CLT_EDATA,
                 "opening '%s': it was made with another tokenizer than %s; its ids would mean other words",
                 state->path, clt_tokenizer_description(state->tokenizer));
    clt_masking *m = &state->masking;
    m->tokenizer = state->tokenizer;
    CLT_TRY(need_role(state, CLT_TOKEN_MASK, "[MASK]", &m->mask));
    CLT_TRY(need_role(state, CLT_TOKEN_CLASS, "[CLS]", &m->begin));
    CLT_TRY(need_role(state, CLT_TOKEN_SEPARATOR, "[SEP]", &m->separator));
    return need_role(state, CLT_TOKEN_PADDING, "[PAD]", &state->padding);
}

static clt_status open_file(clt_source *source, mlm_state *state, const clt_config *config, clt_split split)
{
    CLT_FREED char *path = NULL;
    CLT_TRY(path_of(config, split, &path));
    state->path = clt_arena_strdup(source->arena, path);
    if (!state->path)
        return CLT_ENOMEM;
    CLT_TRY(
        clt_fail_prefix(clt_map_open_parts(state->path, CLT_EDATA, &state->mapping), "opening the pairs"));
    clt_map_need(&state->mapping, 0, CLT_PAIR_HEADER);
    CLT_TRY(clt_map_check_one(&state->mapping));
    CLT_TRY(clt_pair_parse(state->path, state->mapping.data, state->mapping.size, &state->header));
    if (state->header.records == 0)
        CLT_FAIL(CLT_EDATA, "opening '%s': it holds no pairs", state->path);
    return CLT_OK;
}

static clt_status mlm_open(clt_source *source, const clt_config *config, clt_split split)
{
    mlm_state *state = clt_arena_alloc(source->arena, sizeof *state);
    if (!state)
        return CLT_ENOMEM;
    source->state = state;
    CLT_TRY(open_file(source, state, config, split));
    CLT_TRY(open_tokenizer(state, config));
    state->context = clt_config_int(config, "model.context");
    if (state->header.context > state->context)
        CLT_FAIL(CLT_EDATA,
                 "opening '%s': its pairs have up to %lld tokens, model.context is %lld; prepare them "
                 "again with --context %lld",
                 state->path, (long long)state->header.context, (long long)state->context,
                 (long long)state->context);
    state->places = places_of(config, state->context);
    state->masking.most = state->places;
    state->masking.share = clt_config_float(config, "data.mask_share");
    state->masking.whole_words = clt_config_bool(config, "data.whole_words");
    int64_t vocab = clt_tokenizer_vocab(state->tokenizer);
    source->samples = state->header.records;
    source->bytes = (int64_t)state->mapping.size;
    source->tokenizer = state->tokenizer;
    CLT_TRY(set_fields(source, state->context, state->places, vocab));
    source->description = clt_arena_printf(
        source->arena, "mlm: %lld pair%s of '%s', %lld tokens each, up to %lld of them masked",
        (long long)source->samples, CLT_PLURAL(source->samples), state->path, (long long)state->context,
        (long long)state->places);
    return source->description ? CLT_OK : CLT_ENOMEM;
}

static void mlm_close(clt_source *source)
{
    mlm_state *state = source->state;
    if (!state)
        return;
    clt_map_close(&state->mapping);
    clt_tokenizer_close(state->tokenizer);
}

/* Room for one sample. */
typedef struct mlm_sample {
    clt_pair pair;
    uint32_t *id;                      /* (context) */
    int32_t *place, *target, *scratch; /* (places), (places), (context) */
    int64_t masked;
} mlm_sample;

static clt_status read_pair(const clt_source *source, int64_t index, clt_pair *out)
{
    const mlm_state *state = source->state;
    if (index < 0 || index >= source->samples)
        CLT_FAIL(CLT_EINTERNAL, "reading pair %lld of %lld", (long long)index, (long long)source->samples);
    uint64_t at = clt_pair_offset(&state->header, index);
    clt_map_need(&state->mapping, at, clt_pair_offset(&state->header, index + 1) - at);
    return clt_pair_at(state->path, &state->header, state->mapping.data, index, out);
}

static void mlm_want(const clt_source *source, int64_t index)
{
    const mlm_state *state = source->state;
    uint64_t at = clt_pair_offset(&state->header, index);
    clt_map_want(&state->mapping, at, clt_pair_offset(&state->header, index + 1) - at);
}

/* Reads and masks a pair. */
static clt_status make_sample(const clt_source *source, int64_t index, clt_draw draw, mlm_sample *s)
{
    const mlm_state *state = source->state;
    uint32_t vocab = clt_tokenizer_vocab(state->tokenizer);
    CLT_TRY(read_pair(source, index, &s->pair));
    for (int64_t i = 0; i < s->pair.length; i++) {
        s->id[i] = clt_pair_token(&state->header, &s->pair, i);
        if (s->id[i] >= vocab)
            CLT_FAIL(CLT_EDATA,
                     "reading '%s': pair %lld holds the token %u, and ids are 0 to %u; the file is damaged",
                     state->path, (long long)index, s->id[i], vocab - 1);
    }
    clt_map_used(&state->mapping);
    for (int64_t i = s->pair.length; i < state->context; i++)
        s->id[i] = state->padding;
    s->masked =
        clt_mask_tokens(&state->masking, draw, index, s->id, s->pair.length, s->place, s->target, s->scratch);
    return CLT_OK;
}

static void write_sample(const mlm_state *state, const mlm_sample *s, void *const *to)
{
    int32_t *x = to[FIELD_X], *documents = to[FIELD_DOCUMENTS], *places = to[FIELD_PLACES], *y = to[FIELD_Y];
    uint8_t *segments = to[FIELD_SEGMENTS];
    for (int64_t i = 0; i < state->context; i++) {
        bool text = i < s->pair.length;
        if (x)
            x[i] = (int32_t)s->id[i];
        if (segments)
            segments[i] = text && i >= s->pair.first;
        if (documents)
            documents[i] = text ? 0 : (int32_t)i;
    }
    for (int64_t i = 0; i < state->places; i++) {
        if (places)
            places[i] = i < s->masked ? s->place[i] : 0;
        if (y)
            y[i] = i < s->masked ? s->target[i] : UNUSED_TARGET;
    }
    if (to[FIELD_FOLLOWS])
        *(int32_t *)to[FIELD_FOLLOWS] = s->pair.random;
}

static clt_status mlm_read(const clt_source *source, int64_t index, clt_draw draw, void *const *to)
{
    const mlm_state *state = source->state;
    CLT_FREED uint32_t *room = NULL;
    mlm_sample s;
    CLT_TRY(
        clt_alloc(&room, (size_t)(2 * state->context + 2 * state->places), sizeof *room, "a masked text"));
    s.id = room;
    s.scratch = (int32_t *)(room + state->context);
    s.place = s.scratch + state->context;
    s.target = s.place + state->places;
    CLT_TRY(make_sample(source, index, draw, &s));
    write_sample(state, &s, to);
    return CLT_OK;
}

static bool mlm_class_of(const clt_source *source, int64_t index, clt_draw draw, int field, int32_t *value)
{
    clt_pair pair;
    (void)draw;
    if (field != FIELD_FOLLOWS || read_pair(source, index, &pair) != CLT_OK)
        return false;
    *value = pair.random;
    return true;
}

static void mlm_locate(const clt_source *source, int64_t index, int field, clt_str *out)
{
    const mlm_state *state = source->state;
    (void)field;
    clt_str_printf(out, "'%s', pair %lld (from byte %llu on)", state->path, (long long)index,
                   (unsigned long long)clt_pair_offset(&state->header, index));
}

/* Reads no samples: each read checks all values against the tokenizer and the context. */
static clt_status mlm_check_bound(const clt_source *source, int field, int64_t bound, bool has_ignore,
                                  int64_t ignore, bool *done)
{
    const mlm_state *state = source->state;
    *done = true;
    if (source->fields[field].max_value >= bound)
        CLT_FAIL(CLT_EDATA, "'%s': values of the field '%s' go up to %lld, the model takes them below %lld",
                 state->path, source->fields[field].name, (long long)source->fields[field].max_value,
                 (long long)bound);
    if (field == FIELD_Y && !(has_ignore && ignore == UNUSED_TARGET))
        CLT_FAIL(CLT_ECONFIG, "data.type mlm marks unused places by the target -1, and the model's loss does "
                              "not ignore it; the loss of model.type bert does");
    return CLT_OK;
}

static clt_status mlm_fingerprint(const clt_source *source, clt_hash64_state *hash)
{
    const mlm_state *state = source->state;
    clt_fingerprint_add_mapped(hash, &state->mapping);
    return CLT_OK;
}

static clt_status mlm_scan(const clt_source *source)
{
    const mlm_state *state = source->state;
    void *const nothing[CLT_MAX_FIELDS] = {NULL};
    for (int64_t i = 0; i < source->samples; i++)
        CLT_TRY(mlm_read(source, i, (clt_draw){0, 0}, nothing));
    return clt_map_check_one(&state->mapping);
}

static bool mlm_has_eval(const clt_config *config)
{
    CLT_FREED char *path = NULL;
    bool found =
        clt_config_list_count(config, "data.path") == 1 &&
        clt_is_directory(clt_config_list_string(config, "data.path", 0)) &&
        clt_path_join(clt_config_list_string(config, "data.path", 0), "val" CLT_PAIR_ENDING, &path) == CLT_OK;
    return found && clt_file_exists(path);
}

static clt_status mlm_tokenizer(const clt_config *config, clt_tokenizer **out)
{
    CLT_FREED char *path = NULL;
    CLT_FREED char *beside = NULL;
    CLT_TRY(path_of(config, CLT_SPLIT_TRAIN, &path));
    CLT_TRY(clt_path_beside(path, "tokenizer.json", &beside));
    if (!clt_file_exists(beside))
        return CLT_OK;
    return clt_fail_prefix(clt_tokenizer_open(beside, out), "opening the tokenizer of data.path");
}

static clt_status mlm_shapes(const clt_config *config, const clt_tokenizer *tokenizer, int64_t samples,
                             clt_source *source)
{
    int64_t context = clt_config_int(config, "model.context");
    source->samples = samples;
    return set_fields(source, context, places_of(config, context),
                      tokenizer ? clt_tokenizer_vocab(tokenizer) : clt_config_int(config, "model.vocab"));
}

extern const clt_source_type clt_source_mlm;

static clt_status mlm_check_file(const char *path, const char *tokenizer, clt_str *out)
{
    CLT_SCOPED(clt_config) *config = NULL;
    CLT_SCOPED(clt_source) *source = NULL;
    const clt_data_file file = {&clt_source_mlm, path, NULL, CLT_PAIR_CONTEXT, tokenizer};
    CLT_TRY(clt_data_file_config(&file, &config));
    CLT_TRY(clt_source_open(config, CLT_SPLIT_TRAIN, &source));
    CLT_TRY(clt_source_scan(source));
    clt_str_printf(out, "%lld pair%s, all in the vocabulary", (long long)source->samples,
                   CLT_PLURAL(source->samples));
    return clt_str_check(out);
}

static const clt_config_key mlm_keys[] = {
    CLT_KEY_STRINGS("data.path", "[]",
                    "the folder that 'cltrain data prepare --mlm' made, or a file of pairs"),
    CLT_KEY_STRINGS("data.eval_path", "[]",
                    "pairs to evaluate on; []: val.pairs of the folder data.path, if it is there"),
    CLT_KEY_STRING("data.tokenizer", "\"\"",
                   "the tokenizer that made the pairs; empty: the tokenizer.json beside them"),
    CLT_KEY_INT("data.places", 0, CLT_PAIR_CONTEXT, "0", "tokens",
                "masked tokens of a sample, at most; 0: 5 of 32 tokens, so 20 of 128 and 80 of 512"),
    CLT_KEY_FLOAT_OPEN("data.mask_share", 0, true, 1, false, "0.15", "", "share of tokens that are masked"),
    CLT_KEY_BOOL("data.whole_words", "false", "all pieces of a word are masked together"),
    CLT_KEY_END,
};
static const char *const mlm_required[] = {"data.path", "model.context", NULL};

const clt_config_part clt_format_mlm = {
    .name = "mlm",
    .help = "pairs of texts with masked tokens, for model.type bert (made by data prepare --mlm)",
    .keys = mlm_keys,
    .required = mlm_required,
    .language = true,
};

const clt_source_type clt_source_mlm = {
    .format = &clt_format_mlm,
    .open = mlm_open,
    .close = mlm_close,
    .read = mlm_read,
    .class_of = mlm_class_of,
    .locate = mlm_locate,
    .check_bound = mlm_check_bound,
    .want = mlm_want,
    .fingerprint = mlm_fingerprint,
    .scan = mlm_scan,
    .has_eval = mlm_has_eval,
    .eval_hint = "data.eval_path, or a data.path that is a folder with val.pairs",
    .made_by = "cltrain data prepare TEXT --mlm --tokenizer FOLDER --out FOLDER",
    .default_tokenizer = mlm_tokenizer,
    .shapes = mlm_shapes,
    .suffix = CLT_PAIR_ENDING,
    .check_file = mlm_check_file,
};
