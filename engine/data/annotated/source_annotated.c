/* SPDX-License-Identifier: Apache-2.0
 *
 * Annotated texts as samples of T tokens, for a bert with a classifier. A sample has these fields:
 * x (T): [CLS] A [SEP] or [CLS] A [SEP] B [SEP], then padding.
 * segments (T): 1 for the tokens of B and the [SEP] after it, else 0.
 * document (T): 0 for the text, and a different number for each token of padding, so that attention does not
 * go from the text to padding.
 * outside (2,T), only for data.task=span: 0 for the text, and a very low number for padding, which the model
 * adds to the logits of the answer's first and last token.
 * y depends on data.task. class: the class. tokens (T): the label of each word at its first token, else -1.
 * span (2): the first and the last token of the answer; 0 and 0 if the answer is not in the window. number:
 * the number, in f32. */
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/text.h"
#include "engine/data/annotated/source_annotated.h"
#include "engine/data/arrays/source_pair.h"
#include "engine/data/facts/data_facts.h"
#include "engine/data/fingerprint.h"
#include "engine/data/records/table_file.h"

#define OUTSIDE (-10000.0f) /* its exponential is 0, and f16 can hold it */

enum { FIELD_X, FIELD_SEGMENTS, FIELD_DOCUMENT, FIELD_OUTSIDE, FIELDS };

typedef struct annotated_state {
    clt_annotated_samples samples;
    clt_annotated_classes classes;
    int64_t y; /* the field of the target */
    uint32_t begin, separator, padding;
} annotated_state;

const clt_annotated_samples *clt_annotated_of(const clt_source *source)
{
    return &((const annotated_state *)source->state)->samples;
}

bool clt_annotated_spans(const clt_config *config)
{
    return clt_source_type_of(config) == &clt_source_annotated &&
           clt_config_choice(config, "data.task") == CLT_ANNOTATED_SPAN;
}

/* --- opening --- */

/* Sets the fields. `vocab`, `classes`: 0 if unknown. `labelled`: samples have a target. */
static void make_fields(clt_source *source, clt_annotated_task task, int64_t context, int64_t vocab,
                        int64_t classes, bool labelled)
{
    clt_shape row = clt_shape1(context), one = clt_shape_make(0, NULL);
    bool span = task == CLT_ANNOTATED_SPAN;
    int y = span ? FIELDS : FIELD_OUTSIDE;
    source->fields[FIELD_X] = (clt_source_field){"x", CLT_I32, row, true, vocab - 1};
    source->fields[FIELD_SEGMENTS] = (clt_source_field){"segments", CLT_U8, row, true, 1};
    source->fields[FIELD_DOCUMENT] = (clt_source_field){"document", CLT_I32, row, true, context - 1};
    source->fields[FIELD_OUTSIDE] = (clt_source_field){"outside", CLT_F32, clt_shape2(2, context), false, -1};
    bool number = task == CLT_ANNOTATED_NUMBER;
    source->fields[y] = (clt_source_field){"y", number ? CLT_F32 : CLT_I32,
                                           span                          ? clt_shape1(2)
                                           : task == CLT_ANNOTATED_WORDS ? row
                                                                         : one,
                                           !number,
                                           number ? -1
                                           : span ? context - 1
                                                  : classes - 1};
    source->n_fields = labelled ? y + 1 : y;
}

static clt_status names_of_list(const clt_config *config, clt_arena *arena, clt_annotated_classes *out)
{
    out->count = clt_config_list_count(config, "data.class_names");
    out->name = clt_arena_alloc(arena, (size_t)out->count * sizeof *out->name);
    for (int64_t i = 0; out->name && i < out->count; i++)
        if (!(out->name[i] =
                  clt_arena_strdup(arena, clt_config_list_string(config, "data.class_names", (int)i))))
            return CLT_ENOMEM;
    return out->name ? CLT_OK : CLT_ENOMEM;
}

/* The classes that a saved run used, from its facts. */
static clt_status names_of_facts(const clt_data_facts *facts, clt_arena *arena, clt_annotated_classes *out)
{
    for (int i = 0; i < facts->n_fields; i++)
        if (strcmp(facts->fields[i].name, "y") == 0)
            out->count = facts->fields[i].max_value + 1;
    if (facts->n_class_names == 0)
        return CLT_OK;
    out->count = facts->n_class_names;
    out->name = clt_arena_alloc(arena, (size_t)out->count * sizeof *out->name);
    for (int64_t i = 0; out->name && i < out->count; i++)
        if (!(out->name[i] = clt_arena_strdup(arena, clt_data_facts_class(facts, i))))
            return CLT_ENOMEM;
    return out->name ? CLT_OK : CLT_ENOMEM;
}

/* Takes the classes from the config (data.class_names), else from the saved run, else learns them from the
 * training data. */
static clt_status find_classes(clt_source *source, const clt_config *config, clt_split split,
                               annotated_state *state)
{
    const clt_source *training = source->with.training;
    clt_annotated_classes *out = &state->classes;
    if (clt_config_list_count(config, "data.class_names") > 0)
        return names_of_list(config, source->arena, out);
    if (source->with.facts)
        return names_of_facts(source->with.facts, source->arena, out);
    if (training && training->type == source->type) {
        *out = ((const annotated_state *)training->state)->classes;
        return CLT_OK;
    }
    if (split != CLT_SPLIT_EVAL)
        return clt_annotated_learn(&state->samples, source->arena, out);
    CLT_SCOPED(clt_annotated_samples) learned = {0};
    CLT_TRY(clt_fail_prefix(clt_annotated_open(config, CLT_SPLIT_TRAIN, &learned),
                            "learning the classes, which data.class_names could list"));
    return clt_annotated_learn(&learned, source->arena, out);
}

/* Fails if records cannot be used, or warns that they are skipped, as the config says. */
static clt_status judge_bad(const clt_config *config, const clt_annotated_samples *s)
{
    int64_t first = 0;
    while (s->bad > 0 && !s->record[first].why)
        first++;
    return clt_records_judge(config, &s->texts, &s->part, s->bad, s->part.first + first,
                             s->bad > 0 ? s->record[first].why : NULL);
}

static clt_status describe(clt_source *source, const annotated_state *state)
{
    static const char *const words[] = {"classes of texts", "labels of words", "answers in texts",
                                        "numbers of texts"};
    const clt_annotated_samples *s = &state->samples;
    CLT_SCOPED(clt_str) text = {0};
    clt_str_printf(&text, "annotated: %lld record%s of '%s' (%s)", (long long)(s->part.count - s->bad),
                   CLT_PLURAL((long long)(s->part.count - s->bad)), s->texts.files[0].path,
                   words[s->rules.task]);
    if (s->cut > 0)
        clt_str_printf(&text, ", %lld of them cut", (long long)s->cut);
    if (s->rules.task == CLT_ANNOTATED_SPAN)
        clt_str_printf(&text, " in %lld window%s", (long long)s->n_windows, CLT_PLURAL(s->n_windows));
    else if (s->rules.task != CLT_ANNOTATED_NUMBER)
        clt_str_printf(&text, ", %lld class%s", (long long)state->classes.count,
                       CLT_PLURAL_ES(state->classes.count));
    clt_str_printf(&text, "; %lld tokens each; tokenizer: %s", (long long)s->rules.context,
                   clt_tokenizer_description(s->tokenizer));
    CLT_TRY(clt_str_check(&text));
    source->description = clt_arena_strdup(source->arena, text.text);
    if (s->cut > 0)
        CLT_WARN_ONCE("data: %lld of %lld sample%s of %s are cut to %lld tokens (data.truncate)",
                      (long long)s->cut, (long long)s->part.count, CLT_PLURAL(s->part.count), s->part.key,
                      (long long)s->rules.context);
    return source->description ? CLT_OK : CLT_ENOMEM;
}

static clt_status annotated_open(clt_source *source, const clt_config *config, clt_split split)
{
    annotated_state *state = clt_arena_alloc(source->arena, sizeof *state);
    if (!state)
        return CLT_ENOMEM;
    source->state = state;
    clt_annotated_samples *s = &state->samples;
    CLT_TRY(clt_source_config_scale(source, config));
    CLT_TRY(clt_annotated_open(config, split, s));
    if (s->rules.task == CLT_ANNOTATED_NUMBER && clt_config_list_count(config, "data.class_names") > 0)
        CLT_FAIL(CLT_ECONFIG, "opening the samples: data.class_names names classes, but data.task=number "
                              "learns numbers; remove data.class_names or change data.task");
    if (s->rules.labelled && s->rules.task != CLT_ANNOTATED_SPAN && s->rules.task != CLT_ANNOTATED_NUMBER) {
        CLT_TRY(find_classes(source, config, split, state));
        CLT_TRY(clt_annotated_number(s, &state->classes));
    }
    CLT_TRY(judge_bad(config, s));
    CLT_TRY(clt_annotated_list(s));
    if (s->n_windows == 0)
        CLT_FAIL(CLT_EDATA,
                 "reading the samples of %s: the %s part has none; %zu record%s are there (data.split %g)",
                 s->part.key, split == CLT_SPLIT_EVAL ? "evaluation" : "training", s->texts.n_documents,
                 CLT_PLURAL(s->texts.n_documents), clt_config_float(config, "data.split"));
    state->begin = (uint32_t)clt_tokenizer_role(s->tokenizer, CLT_TOKEN_CLASS);
    state->separator = (uint32_t)clt_tokenizer_role(s->tokenizer, CLT_TOKEN_SEPARATOR);
    state->padding = (uint32_t)clt_tokenizer_role(s->tokenizer, CLT_TOKEN_PADDING);
    source->samples = s->n_windows;
    source->bytes = (int64_t)s->texts.total;
    source->tokenizer = s->tokenizer;
    source->class_names = state->classes.name;
    source->n_class_names = state->classes.name ? state->classes.count : 0;
    make_fields(source, s->rules.task, s->rules.context, clt_tokenizer_vocab(s->tokenizer),
                state->classes.count, s->rules.labelled);
    return describe(source, state);
}

static void annotated_close(clt_source *source)
{
    annotated_state *state = source->state;
    if (state)
        clt_annotated_samples_free(&state->samples);
}

/* --- reading --- */

clt_annotated_place clt_annotated_place_of(const clt_annotated_samples *s, int64_t index)
{
    const clt_annotated_window *w = &s->window[index];
    const clt_annotated *a = &s->record[w->record];
    clt_annotated_place p = {.record = a, .number = w->record, .begin = w->begin, .tokens = a->first};
    bool pair = s->rules.task == CLT_ANNOTATED_SPAN || (int64_t)a->ids.count > a->first;
    int64_t rest = (int64_t)a->ids.count - a->first - w->begin, room = clt_annotated_room(&s->rules, a);
    p.context = pair ? a->first + 2 : 1;
    if (pair)
        p.tokens = rest < room ? rest : room;
    p.length = p.context + p.tokens + 1;
    return p;
}

/* The tokens of a sample: their ids, and padding. */
static void put_tokens(const annotated_state *state, const clt_annotated_place *p, int32_t *x)
{
    const clt_annotated *a = p->record;
    int64_t at = 0, context = state->samples.rules.context;
    bool pair = p->context > 1;
    x[at++] = (int32_t)state->begin;
    for (int64_t i = 0; i < a->first; i++)
        x[at++] = (int32_t)a->ids.id[i];
    x[at++] = (int32_t)state->separator;
    for (int64_t i = 0; pair && i < p->tokens; i++)
        x[at++] = (int32_t)a->ids.id[a->first + p->begin + i];
    if (pair)
        x[at++] = (int32_t)state->separator;
    while (at < context)
        x[at++] = (int32_t)state->padding;
}

/* The target of a sample. */
static void put_target(const annotated_state *state, const clt_annotated_place *p, void *to)
{
    const clt_annotated_rules *rules = &state->samples.rules;
    const clt_annotated *a = p->record;
    int32_t *y = to;
    if (rules->task == CLT_ANNOTATED_NUMBER) {
        *(float *)to = a->value;
        return;
    }
    if (rules->task == CLT_ANNOTATED_CLASS) {
        y[0] = a->label[0];
        return;
    }
    if (rules->task == CLT_ANNOTATED_WORDS) {
        for (int64_t i = 0; i < rules->context; i++) {
            bool word = i >= 1 && i <= p->tokens && a->word[i - 1] >= 0;
            y[i] = word ? a->label[a->word[i - 1]] : CLT_ANNOTATED_NONE;
        }
        return;
    }
    bool inside =
        a->answer_first >= p->begin && a->answer_last < p->begin + p->tokens && a->answer_first >= 0;
    y[0] = inside ? (int32_t)(p->context + a->answer_first - p->begin) : 0;
    y[1] = inside ? (int32_t)(p->context + a->answer_last - p->begin) : 0;
}

static clt_status annotated_read(const clt_source *source, int64_t index, clt_draw draw, void *const *to)
{
    const annotated_state *state = source->state;
    (void)draw;
    if (index < 0 || index >= source->samples)
        CLT_FAIL(CLT_EINTERNAL, "reading sample %lld of %lld", (long long)index, (long long)source->samples);
    clt_annotated_place p = clt_annotated_place_of(&state->samples, index);
    bool span = state->samples.rules.task == CLT_ANNOTATED_SPAN;
    int y = source->n_fields > (span ? FIELDS : FIELD_OUTSIDE) ? source->n_fields - 1 : -1;
    if (to[FIELD_X])
        put_tokens(state, &p, to[FIELD_X]);
    for (int64_t i = 0; i < state->samples.rules.context; i++) {
        if (to[FIELD_SEGMENTS])
            ((uint8_t *)to[FIELD_SEGMENTS])[i] = p.context > 1 && i >= p.context && i < p.length;
        if (to[FIELD_DOCUMENT])
            ((int32_t *)to[FIELD_DOCUMENT])[i] = i < p.length ? 0 : (int32_t)i;
        for (int64_t end = 0; span && end < 2 && to[FIELD_OUTSIDE]; end++)
            ((float *)to[FIELD_OUTSIDE])[end * state->samples.rules.context + i] =
                i < p.length ? 0.0f : OUTSIDE;
    }
    if (y >= 0 && to[y])
        put_target(state, &p, to[y]);
    return CLT_OK;
}

static void annotated_locate(const clt_source *source, int64_t index, int field, clt_str *out)
{
    const clt_annotated_samples *s = clt_annotated_of(source);
    (void)field;
    clt_record_place(&s->texts, s->part.first + s->window[index].record, out);
}

/* Reads no samples: opening has checked all values against the tokenizer, the classes and the context. */
static clt_status annotated_check_bound(const clt_source *source, int field, int64_t bound, bool has_ignore,
                                        int64_t ignore, bool *done)
{
    const clt_annotated_samples *s = clt_annotated_of(source);
    bool labels = strcmp(source->fields[field].name, "y") == 0 && s->rules.task == CLT_ANNOTATED_WORDS;
    *done = true;
    if (source->fields[field].max_value >= bound)
        CLT_FAIL(CLT_EDATA, "'%s': values of the field '%s' go up to %lld, the model takes them below %lld",
                 s->texts.files[0].path, source->fields[field].name,
                 (long long)source->fields[field].max_value, (long long)bound);
    if (labels && !(has_ignore && ignore == CLT_ANNOTATED_NONE))
        CLT_FAIL(CLT_ECONFIG,
                 "data.task tokens marks tokens without a label by -1, and the model's loss does not ignore "
                 "them; the loss of model.type bert with model.head tokens does");
    return CLT_OK;
}

static clt_status annotated_fingerprint(const clt_source *source, clt_hash64_state *hash)
{
    const annotated_state *state = source->state;
    const clt_annotated_samples *s = &state->samples;
    for (int64_t i = 0; i < s->part.count; i++) {
        const clt_annotated *a = &s->record[i];
        if (a->why)
            continue;
        int64_t about[] = {(int64_t)a->ids.count, a->first, a->answer_first, a->answer_last};
        clt_hash64_add(hash, about, sizeof about);
        clt_hash64_add(hash, a->ids.id, a->ids.count * sizeof *a->ids.id);
        clt_hash64_add(hash, a->labels.text, a->labels.length);
        /* only for this task, so that fingerprints of the others stay as in earlier versions */
        if (s->rules.task == CLT_ANNOTATED_NUMBER)
            clt_hash64_add(hash, &a->value, sizeof a->value);
        clt_hash64_add(hash, a->answers.text, a->answers.length);
    }
    return CLT_OK;
}

static clt_status annotated_scan(const clt_source *source)
{
    (void)source; /* everything was read and checked when the source was opened */
    return CLT_OK;
}

/* --- before files are opened --- */

/* Reads all records of a config and names each one that cannot be used. */
static clt_status annotated_check_config(const clt_config *config, clt_file_tell tell, void *context)
{
    CLT_SCOPED(clt_source) *classes = NULL;
    CLT_SCOPED(clt_arena) *arena = NULL;
    clt_annotated_classes found = {0};
    bool wanted = true;
    CLT_TRY(clt_arena_create(&arena));
    if (clt_config_list_count(config, "data.class_names") > 0)
        CLT_TRY(names_of_list(config, arena, &found));
    for (int split = 0; wanted && split < (clt_source_has_eval(config) ? 2 : 1); split++) {
        CLT_SCOPED(clt_annotated_samples) s = {0};
        CLT_TRY(clt_annotated_open(config, split ? CLT_SPLIT_EVAL : CLT_SPLIT_TRAIN, &s));
        if (found.count == 0)
            CLT_TRY(clt_annotated_learn(&s, arena, &found));
        CLT_TRY(clt_annotated_number(&s, &found));
        for (int64_t i = 0; wanted && i < s.part.count; i++) {
            CLT_SCOPED(clt_str) where = {0};
            if (!s.record[i].why) {
                wanted = tell(context, NULL, CLT_OK, NULL);
                continue;
            }
            clt_record_place(&s.texts, s.part.first + i, &where);
            CLT_TRY(clt_str_check(&where));
            wanted =
                tell(context, where.text, clt_fail(CLT_EDATA, __FILE__, __LINE__, "%s", s.record[i].why), "");
        }
    }
    return CLT_OK;
}

static clt_status annotated_shapes(const clt_config *config, const clt_tokenizer *tokenizer, int64_t samples,
                                   clt_source *source)
{
    source->samples = samples;
    make_fields(source, (clt_annotated_task)clt_config_choice(config, "data.task"),
                clt_config_int(config, "model.context"),
                tokenizer ? clt_tokenizer_vocab(tokenizer) : clt_config_int(config, "model.vocab"),
                clt_config_list_count(config, "data.class_names"), true);
    return CLT_OK;
}

static const clt_config_key annotated_keys[] = {
    CLT_KEY_STRINGS(
        "data.path", "[]",
        "records to train on: JSON Lines, lists of JSON; for class and number also tables, .csv and .tsv; "
        "for "
        "tokens also CoNLL's columns; for span also SQuAD's JSON. A file, a folder, a pattern such "
        "as train/*.jsonl, or a list"),
    CLT_KEY_STRINGS("data.eval_path", "[]",
                    "the same to evaluate on; []: a part of data.path, see data.split"),
    CLT_KEY_STRING("data.tokenizer", "\"\"", "folder or file of the model's tokenizer"),
    CLT_KEY_CHOICE(
        "data.task", CLT_ANNOTATED_TASKS, "\"class\"",
        "what is annotated. class: a class for each text or pair of texts; tokens: a label for each "
        "word; span: the answer to a question, a part of its context; number: a number for each text or "
        "pair of texts, as in a regression"),
    CLT_KEY_STRING(
        "data.text_member", "\"\"",
        "member or column that holds the text (class, number) or the list of words (tokens), or the number "
        "of the column (tokens); empty: the first of the usual names that the first record has"),
    CLT_KEY_STRING(
        "data.second_member", "\"\"",
        "class, number: member or column that holds the second text of a pair; empty: the one that belongs "
        "to a usual name of the first text"),
    CLT_KEY_STRING(
        "data.label_member", "\"\"",
        "class, tokens, number: member or column that holds the class, the list of labels or the number, or "
        "the number of the column (tokens); empty: the first of the usual names that the first record has"),
    CLT_RECORD_TABLE_KEYS,
    CLT_KEY_STRINGS("data.class_names", "[]",
                    "the classes in their order; []: all labels of the training data, sorted, or the numbers "
                    "from 0 to the largest one"),
    CLT_KEY_BOOL("data.truncate", "false",
                 "samples that are longer than model.context are cut; false: they are bad samples"),
    CLT_KEY_INT("data.stride", 0, 16384, "0", "tokens",
                "span: tokens that two windows over a long context share; 0: a third of model.context"),
    CLT_KEY_INT("data.answer_most", 1, 16384, "30", "tokens", "span: the longest answer that is predicted"),
    CLT_KEY_BOOL("data.unanswerable", "false",
                 "span: records without an answer are trained as such, and no answer may be predicted"),
    CLT_KEY_CHOICE("data.on_bad_sample", "stop|skip", "\"stop\"",
                   "stop: a sample that cannot be used ends the run; skip: such a sample is skipped"),
    CLT_KEY_FLOAT_OPEN("data.split", 0, false, 1, true, "0.1", "",
                       "part of the samples kept for evaluation when data.eval_path is empty; 0: none"),
    CLT_KEY_END,
};
static const char *const annotated_required[] = {"data.path", "data.tokenizer", "model.context", NULL};

const clt_config_part clt_format_annotated = {
    .name = "annotated",
    .help =
        "texts with classes or numbers, words with labels, or questions with answers, for model.type bert",
    .keys = annotated_keys,
    .required = annotated_required,
};

const clt_source_type clt_source_annotated = {
    .format = &clt_format_annotated,
    .open = annotated_open,
    .close = annotated_close,
    .read = annotated_read,
    .locate = annotated_locate,
    .check_bound = annotated_check_bound,
    .fingerprint = annotated_fingerprint,
    .scan = annotated_scan,
    .has_eval = clt_records_has_eval,
    .eval_hint = "data.eval_path, or data.split above 0 for a part of the samples",
    .shapes = annotated_shapes,
    .check_config = annotated_check_config,
};
