/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples for fine-tuning: records of JSON (chat_text.h), several of them in a row of model.context
 * tokens. Fields of a row: x, its tokens; y, the token that follows each of them, or -1 if that token is
 * not trained. With packing there are two more fields, so that attention stays within a sample: document,
 * a number that all tokens of a sample share, and position, the place of each token in its sample. The
 * last token of a sample is only a target and takes no place in the row. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/text.h"
#include "engine/data/arrays/source_pair.h"
#include "engine/data/chat/chat_rows.h"
#include "engine/data/chat/chat_samples.h"
#include "engine/data/fingerprint.h"
#include "engine/data/records/table_file.h"

#define NO_TARGET (-1)

typedef struct chat_state {
    clt_chat_samples samples;
    int64_t *good; /* (n_good) indices of the samples that can be used */
    int64_t n_good;
    clt_chat_rows rows; /* the packed rows; their samples are indices of `good` */
    bool packed;
    uint32_t padding; /* the token that fills up a row */
} chat_state;

enum { X, Y, DOCUMENT, POSITION };

static const clt_chat_sample *sample_of(const chat_state *state, int64_t place)
{
    return &state->samples.sample[state->good[state->rows.sample[place]]];
}

/* --- opening --- */

/* Fails if samples cannot be used, or warns that they are skipped, as the config says. */
static clt_status judge_bad(const clt_config *config, const clt_chat_samples *s)
{
    int64_t first = 0;
    while (s->bad > 0 && !s->sample[first].why)
        first++;
    return clt_records_judge(config, &s->texts, &s->part, s->bad, s->part.first + first,
                             s->bad > 0 ? s->sample[first].why : NULL);
}

/* Packs the samples that can be used. */
static clt_status pack(const clt_config *config, chat_state *state)
{
    clt_chat_samples *s = &state->samples;
    CLT_FREED int64_t *length = NULL;
    clt_chat_packing how = (clt_chat_packing)clt_config_choice(config, "data.packing");
    CLT_TRY(clt_alloc(&state->good, (size_t)s->part.count, sizeof *state->good, "the samples"));
    CLT_TRY(clt_alloc(&length, (size_t)s->part.count, sizeof *length, "the samples"));
    for (int64_t i = 0; i < s->part.count; i++) {
        if (s->sample[i].why)
            continue;
        length[state->n_good] = s->sample[i].count - 1;
        state->good[state->n_good++] = i;
    }
    state->packed = how != CLT_CHAT_NONE;
    return clt_chat_pack(length, state->n_good, s->context, how, &state->rows);
}

/* Sets the fields for rows of `context` tokens. `vocab`: size of the vocabulary (0: unknown). */
static void make_fields(clt_source *source, int64_t context, int64_t vocab, bool packed)
{
    clt_shape row = clt_shape1(context);
    clt_dtype ids = vocab > 0 && vocab <= 65536 ? CLT_U16 : CLT_I32;
    source->n_fields = packed ? 4 : 2;
    source->fields[X] = (clt_source_field){"x", ids, row, true, vocab - 1};
    source->fields[Y] = (clt_source_field){"y", CLT_I32, row, true, vocab - 1};
    source->fields[DOCUMENT] = (clt_source_field){"document", CLT_I32, row, false, -1};
    source->fields[POSITION] = (clt_source_field){"position", CLT_I32, row, true, context - 1};
}

static clt_status describe(clt_source *source, const chat_state *state)
{
    const clt_chat_samples *s = &state->samples;
    int64_t used = 0, targets = 0, bytes = 0;
    CLT_SCOPED(clt_str) text = {0};
    for (int64_t i = 0; i < state->n_good; i++) {
        const clt_chat_sample *one = &s->sample[state->good[i]];
        used += one->count - 1;
        targets += one->targets;
        for (int64_t t = 1; t < one->count; t++)
            bytes += clt_tokenizer_text_bytes(s->tokenizer, s->tokens[one->begin + t] & ~CLT_CHAT_TRAINED);
    }
    source->tokens = used;
    source->bytes = (int64_t)s->texts.total;
    source->bytes_per_token = used ? (double)bytes / (double)used : 0;
    double fill = (double)used / ((double)source->samples * (double)s->context);
    clt_str_printf(&text, "chat: %lld sample%s", (long long)state->n_good, CLT_PLURAL(state->n_good));
    if (s->cut > 0)
        clt_str_printf(&text, " (%lld cut)", (long long)s->cut);
    clt_str_printf(&text,
                   " of '%s' in %lld row%s of %lld token%s, %.0f%% full; %.0f%% of the tokens are trained; "
                   "template: %s; tokenizer: %s",
                   s->texts.files[0].path, (long long)source->samples, CLT_PLURAL(source->samples),
                   (long long)s->context, CLT_PLURAL(s->context), 100 * fill,
                   100.0 * (double)targets / (double)used, s->rules.chat ? s->rules.chat->name : "none",
                   clt_tokenizer_description(s->tokenizer));
    CLT_TRY(clt_str_check(&text));
    source->description = clt_arena_strdup(source->arena, text.text);
    if (s->cut > 0)
        CLT_WARN_ONCE("data: %lld of %lld sample%s of %s are cut to %lld token%s (data.truncate)",
                      (long long)s->cut, (long long)s->part.count, CLT_PLURAL(s->part.count), s->part.key,
                      (long long)s->context + 1, CLT_PLURAL(s->context + 1));
    if (s->special > 0)
        CLT_WARN_ONCE("data: %lld sample%s of %s %s the name of a special token, which is plain text here; "
                      "data.special_tokens=true makes tokens of them",
                      (long long)s->special, CLT_PLURAL(s->special), s->part.key,
                      s->special == 1 ? "holds" : "hold");
    return source->description ? CLT_OK : CLT_ENOMEM;
}

static clt_status chat_open(clt_source *source, const clt_config *config, clt_split split)
{
    chat_state *state = clt_arena_alloc(source->arena, sizeof *state);
    if (!state)
        return CLT_ENOMEM;
    source->state = state;
    clt_chat_samples *s = &state->samples;
    CLT_TRY(clt_source_config_scale(source, config));
    CLT_TRY(clt_chat_samples_open(config, split, s));
    CLT_TRY(judge_bad(config, s));
    CLT_TRY(pack(config, state));
    if (state->n_good == 0)
        CLT_FAIL(CLT_EDATA,
                 "reading the samples of %s: the %s part has none; %zu records are there (data.split %g)",
                 s->part.key, split == CLT_SPLIT_EVAL ? "evaluation" : "training", s->texts.n_documents,
                 clt_config_float(config, "data.split"));
    int64_t padding = clt_tokenizer_role(s->tokenizer, CLT_TOKEN_PADDING);
    if (padding < 0)
        padding = clt_tokenizer_end_of_text(s->tokenizer);
    state->padding = padding < 0 ? 0 : (uint32_t)padding;
    source->samples = state->rows.count;
    source->tokenizer = s->tokenizer;
    source->chat = s->rules.chat ? s->rules.chat->name : NULL;
    make_fields(source, s->context, clt_tokenizer_vocab(s->tokenizer), state->packed);
    return describe(source, state);
}

static void chat_close(clt_source *source)
{
    chat_state *state = source->state;
    if (!state)
        return;
    free(state->good);
    clt_chat_rows_free(&state->rows);
    clt_chat_samples_free(&state->samples);
}

/* --- reading --- */

static void put_id(const clt_source *source, void *dst, int64_t i, uint32_t id)
{
    if (source->fields[X].dtype == CLT_U16)
        ((uint16_t *)dst)[i] = (uint16_t)id;
    else
        ((int32_t *)dst)[i] = (int32_t)id;
}

/* Writes element i of a field for the token at `token`, or for padding (`token` NULL). `begin` is the first
 * element of the sample or of the padding. */
static void put(const clt_source *source, int field, void *dst, int64_t i, int64_t begin,
                const uint32_t *token)
{
    const chat_state *state = source->state;
    int32_t *numbers = dst;
    switch (field) {
    case X:
        put_id(source, dst, i, token ? token[0] & ~CLT_CHAT_TRAINED : state->padding);
        break;
    case Y:
        numbers[i] =
            token && (token[1] & CLT_CHAT_TRAINED) ? (int32_t)(token[1] & ~CLT_CHAT_TRAINED) : NO_TARGET;
        break;
    case DOCUMENT:
        numbers[i] = (int32_t)begin;
        break;
    default:
        numbers[i] = (int32_t)(i - begin);
    }
}

static clt_status read_field(const clt_source *source, int64_t index, int field, void *dst)
{
    const chat_state *state = source->state;
    int64_t i = 0;
    if (index < 0 || index >= source->samples)
        CLT_FAIL(CLT_EINTERNAL, "reading row %lld of %lld", (long long)index, (long long)source->samples);
    for (int64_t place = state->rows.first[index]; place < state->rows.first[index + 1]; place++) {
        const clt_chat_sample *sample = sample_of(state, place);
        const uint32_t *token = state->samples.tokens + sample->begin;
        for (int64_t t = 0, begin = i; t < sample->count - 1; t++, i++)
            put(source, field, dst, i, begin, token + t);
    }
    for (int64_t begin = i; i < state->samples.context; i++)
        put(source, field, dst, i, begin, NULL);
    return CLT_OK;
}

static clt_status chat_read(const clt_source *source, int64_t index, clt_draw draw, void *const *to)
{
    (void)draw;
    return clt_source_read_fields(source, index, to, read_field);
}

static void chat_locate(const clt_source *source, int64_t index, int field, clt_str *out)
{
    const chat_state *state = source->state;
    (void)field;
    clt_record_place(&state->samples.texts,
                     state->samples.part.first + state->good[state->rows.sample[state->rows.first[index]]],
                     out);
}

static int64_t chat_target_bytes(const clt_source *source, int64_t index, int64_t ignore)
{
    const chat_state *state = source->state;
    int64_t bytes = 0;
    for (int64_t place = state->rows.first[index]; place < state->rows.first[index + 1]; place++) {
        const clt_chat_sample *sample = sample_of(state, place);
        for (int64_t t = 1; t < sample->count; t++) {
            uint32_t token = state->samples.tokens[sample->begin + t], id = token & ~CLT_CHAT_TRAINED;
            if ((token & CLT_CHAT_TRAINED) && (int64_t)id != ignore)
                bytes += clt_tokenizer_text_bytes(state->samples.tokenizer, id);
        }
    }
    return bytes;
}

static clt_status chat_fingerprint(const clt_source *source, clt_hash64_state *hash)
{
    const chat_state *state = source->state;
    for (int64_t i = 0; i < state->n_good; i++) {
        const clt_chat_sample *one = &state->samples.sample[state->good[i]];
        clt_hash64_add(hash, &one->count, sizeof one->count);
    }
    clt_fingerprint_add(hash, state->samples.tokens,
                        (uint64_t)state->samples.n_tokens * sizeof *state->samples.tokens);
    return CLT_OK;
}

static clt_status chat_scan(const clt_source *source)
{
    (void)source; /* everything was read and checked when the source was opened */
    return CLT_OK;
}

static void chat_advise(const clt_source *source)
{
    const chat_state *state = source->state;
    if (!state->packed && source->tokens * 2 < source->samples * state->samples.context)
        CLT_WARN_ONCE(
            "data: more than half of each row is padding, since data.packing is none and samples "
            "have %lld token%s in the mean; data.packing=best trains the same samples in fewer rows",
            (long long)(source->tokens / source->samples),
            CLT_PLURAL((long long)(source->tokens / source->samples)));
}

/* --- before files are opened --- */

/* Reads all records of a config and names each one that cannot be used. */
static clt_status chat_check_config(const clt_config *config, clt_file_tell tell, void *context)
{
    bool wanted = true;
    for (int split = 0; wanted && split < (clt_source_has_eval(config) ? 2 : 1); split++) {
        CLT_SCOPED(clt_chat_samples) s = {0};
        CLT_TRY(clt_chat_samples_open(config, split ? CLT_SPLIT_EVAL : CLT_SPLIT_TRAIN, &s));
        for (int64_t i = 0; wanted && i < s.part.count; i++) {
            CLT_SCOPED(clt_str) where = {0};
            if (!s.sample[i].why) {
                wanted = tell(context, NULL, CLT_OK, NULL);
                continue;
            }
            clt_record_place(&s.texts, s.part.first + i, &where);
            CLT_TRY(clt_str_check(&where));
            wanted =
                tell(context, where.text, clt_fail(CLT_EDATA, __FILE__, __LINE__, "%s", s.sample[i].why), "");
        }
    }
    return CLT_OK;
}

static clt_status chat_shapes(const clt_config *config, const clt_tokenizer *tokenizer, int64_t samples,
                              clt_source *source)
{
    (void)samples;
    make_fields(source, clt_config_int(config, "model.context"),
                tokenizer ? clt_tokenizer_vocab(tokenizer) : 0,
                clt_config_choice(config, "data.packing") != CLT_CHAT_NONE);
    return CLT_OK;
}

static const clt_config_key chat_keys[] = {
    CLT_KEY_STRINGS("data.path", "[]",
                    "JSON Lines, lists of JSON, or tables (.csv, .tsv), to train on: a file, a folder, a "
                    "pattern such as chats/*.jsonl, or a list"),
    CLT_KEY_STRINGS("data.eval_path", "[]",
                    "the same to evaluate on; []: a part of data.path, see data.split"),
    CLT_KEY_STRING("data.tokenizer", "\"\"", "folder or file of the model's tokenizer"),
    CLT_KEY_CHOICE("data.template", CLT_CHAT_TEMPLATE_WORDS, "\"auto\"",
                   "how conversations become text; auto: as the chat template beside the tokenizer says"),
    CLT_KEY_STRING("data.system", "\"\"",
                   "system turn of conversations that have none; empty: the template's own, if it has one"),
    CLT_KEY_STRING("data.date", "\"\"",
                   "the day that templates of Llama 3.1 and 3.2 write into the system turn, such as 26 Jul "
                   "2024; empty: the template's own"),
    CLT_KEY_CHOICE("data.train_on", "completions|last|all", "\"completions\"",
                   "the tokens that are trained: of all answers, of the last answer, or all"),
    CLT_KEY_CHOICE("data.packing", "best|next|none", "\"best\"",
                   "which samples share a row of model.context tokens: the ones that fill it best, "
                   "the next ones in their order, or none"),
    CLT_KEY_BOOL("data.truncate", "false",
                 "samples that are longer than model.context are cut; false: they are bad samples"),
    CLT_RECORD_TABLE_KEYS,
    CLT_KEY_CHOICE("data.on_bad_sample", "stop|skip", "\"stop\"",
                   "stop: a sample that cannot be used ends the run; skip: such a sample is skipped"),
    CLT_KEY_BOOL("data.special_tokens", "false",
                 "names of special tokens in the text become these tokens; false: they are plain text"),
    CLT_KEY_FLOAT_OPEN("data.split", 0, false, 1, true, "0.1", "",
                       "part of the samples kept for evaluation when data.eval_path is empty; 0: none"),
    CLT_KEY_END,
};
static const char *const chat_required[] = {"data.path", "data.tokenizer", "model.context", NULL};

const clt_config_part clt_format_chat = {
    .name = "chat",
    .help =
        "records of JSON: conversations, prompts with completions, instructions, or texts, for fine-tuning",
    .keys = chat_keys,
    .required = chat_required,
    .language = true,
};

const clt_source_type clt_source_chat = {
    .format = &clt_format_chat,
    .open = chat_open,
    .close = chat_close,
    .read = chat_read,
    .locate = chat_locate,
    .fingerprint = chat_fingerprint,
    .advise = chat_advise,
    .target_bytes = chat_target_bytes,
    .scan = chat_scan,
    .has_eval = clt_records_has_eval,
    .eval_hint = "data.eval_path, or data.split above 0 for a part of the samples",
    .shapes = chat_shapes,
    .check_config = chat_check_config,
};
