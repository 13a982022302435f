/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads an annotated text from its JSON record and encodes it. The positions of SQuAD's answers count
 * characters of Unicode, not bytes. */
#include "engine/data/annotated/annotated_record.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/data/records/csv_table.h"

#define LARGEST 3.4028234663852886e38 /* the largest number of f32 */

void clt_annotated_free(clt_annotated *a)
{
    free(a->why);
    free(a->ids.id);
    clt_str_free(&a->text);
    clt_str_free(&a->id);
    clt_str_free(&a->labels);
    clt_str_free(&a->answers);
    free(a->label);
    free(a->word);
    clt_token_ranges_free(&a->ranges);
    *a = (clt_annotated){0};
}

bool clt_annotated_whole(clt_annotated_task task)
{
    return task == CLT_ANNOTATED_CLASS || task == CLT_ANNOTATED_NUMBER;
}

/* --- members --- */

clt_status clt_annotated_members(clt_annotated_rules *rules, const char *line, size_t size)
{
    /* member names of texts in published data sets: pairs, then single texts */
    static const char *const texts[][2] = {
        {"sentence1", "sentence2"}, {"premise", "hypothesis"},  {"question1", "question2"},
        {"question", "sentence"},   {"text1", "text2"},         {"text_a", "text_b"},
        {"text", "text_pair"},      {"#1 String", "#2 String"}, {"text", NULL},
        {"sentence", NULL}};
    static const char *const words[] = {"tokens", "words", NULL};
    static const char *const labels[][6] = {
        [CLT_ANNOTATED_CLASS] = {"label", "labels", "gold_label", "is_duplicate", "Quality", NULL},
        [CLT_ANNOTATED_NUMBER] = {"label", "labels", "score", NULL},
        [CLT_ANNOTATED_WORDS] = {"ner_tags", "tags", "labels", "pos_tags", "chunk_tags", NULL}};
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    const clt_json *record;
    bool whole = clt_annotated_whole(rules->task);
    CLT_TRY(clt_json_record(line, size, &doc, &record));
    for (size_t i = 0; whole && !rules->text && i < sizeof texts / sizeof texts[0]; i++) {
        if (!clt_json_get(record, texts[i][0]) || (texts[i][1] && !clt_json_get(record, texts[i][1])))
            continue;
        rules->text = texts[i][0];
        rules->second = rules->second ? rules->second : texts[i][1];
    }
    for (int i = 0; rules->task == CLT_ANNOTATED_WORDS && words[i] && !rules->text; i++)
        if (clt_json_get(record, words[i]))
            rules->text = words[i];
    for (int i = 0; rules->task != CLT_ANNOTATED_SPAN && labels[rules->task][i] && !rules->label; i++)
        if (clt_json_get(record, labels[rules->task][i]))
            rules->label = labels[rules->task][i];
    if (rules->task != CLT_ANNOTATED_SPAN && !rules->text)
        CLT_FAIL(CLT_EDATA, "it has no member with a usual name for its %s; name it as data.text_member",
                 whole ? "text" : "words (tokens, words)");
    if (rules->task != CLT_ANNOTATED_SPAN && rules->labelled && !rules->label)
        CLT_FAIL(CLT_EDATA, "it has no member with a usual name for its %s; name it as data.label_member",
                 rules->task == CLT_ANNOTATED_CLASS   ? "class (label)"
                 : rules->task == CLT_ANNOTATED_WORDS ? "labels (ner_tags, tags, labels)"
                                                      : "number (label, score)");
    return CLT_OK;
}

/* The text of a table's cell; NULL: the value is not a text, or (`cells` false) is not from a table. */
static const char *cell_of(const clt_json *value, bool cells)
{
    return cells && clt_json_typeof(value) == CLT_JSON_STRING ? clt_json_string(value) : NULL;
}

/* Appends a label to out->labels as a text with its final NUL. A label is a text or a whole number. */
static clt_status add_label(const clt_json *value, bool cells, clt_annotated *out, bool first)
{
    int64_t number = 0;
    double real = 0;
    const char *cell = cell_of(value, cells);
    bool any = cell ? clt_csv_is_number(cell, &real) : clt_json_typeof(value) == CLT_JSON_NUMBER;
    bool is_number = cell ? any && clt_csv_is_whole(cell) : any && clt_json_int(value, &number);
    if (any && !is_number) {
        char text[40];
        (void)snprintf(text, sizeof text, "%.17g", clt_json_number(value));
        CLT_FAIL(
            CLT_EDATA,
            "the label %.60s is not a whole number, or is too large; a class is a name or a whole number, "
            "and data.task number learns other numbers",
            cell ? cell : text);
    }
    if (cell && is_number)
        number = (int64_t)real;
    if (!is_number && clt_json_typeof(value) != CLT_JSON_STRING)
        CLT_FAIL(CLT_EDATA, "a label is %s, and must be a name or a whole number",
                 clt_json_type_name(clt_json_typeof(value)));
    if (!is_number && !*clt_json_string(value))
        CLT_FAIL(CLT_EDATA, "a label is an empty text");
    if (!first && out->numbers != is_number)
        CLT_FAIL(CLT_EDATA, "its labels are names and numbers; use one of the two");
    out->numbers = is_number;
    if (is_number && (number < CLT_ANNOTATED_IGNORED || number > INT32_MAX))
        CLT_FAIL(CLT_EDATA, "the label %lld is not the number of a class", (long long)number);
    if (is_number)
        clt_str_printf(&out->labels, "%lld", (long long)number);
    else
        clt_str_append(&out->labels, clt_json_string(value));
    clt_str_append_n(&out->labels, "", 1);
    return clt_str_check(&out->labels);
}

/* --- a class or a number --- */

static clt_status read_number(const clt_json *value, bool cells, clt_annotated *out)
{
    const char *cell = cell_of(value, cells);
    double number = clt_json_number(value);
    if (cell && !clt_csv_is_number(cell, &number))
        CLT_FAIL(CLT_EDATA, "the label '%.60s' is not a number that f32 holds; data.task class learns names",
                 cell);
    if (!cell && clt_json_typeof(value) != CLT_JSON_NUMBER)
        CLT_FAIL(CLT_EDATA, "the label is %s, and must be a number; data.task class learns names",
                 clt_json_type_name(clt_json_typeof(value)));
    if (!(fabs(number) <= LARGEST))
        CLT_FAIL(CLT_EDATA, "the label %.17g is too large for f32", number);
    out->value = (float)number;
    return CLT_OK;
}

void clt_annotated_cut(int64_t *n1, int64_t *n2, int64_t room)
{
    bool swap = *n1 > *n2;
    int64_t *less = swap ? n2 : n1, *more = swap ? n1 : n2;
    if (*n1 + *n2 <= room)
        return;
    *more = *less > room ? *less : (*less > room - *less ? *less : room - *less);
    if (*less + *more > room) {
        *less = room / 2;
        *more = *less + room % 2;
    }
}

static clt_status too_long(int64_t tokens, int64_t context)
{
    CLT_FAIL(CLT_EDATA,
             "it has %lld tokens, [CLS] and [SEP] among them, and model.context is %lld; take a longer "
             "context, or cut such samples with data.truncate=true",
             (long long)tokens, (long long)context);
}

/* Encodes a text or a pair, cut to the length of the context. */
static clt_status read_whole(const clt_annotated_rules *rules, clt_encoder *encoder, const clt_json *record,
                             clt_annotated *out)
{
    const char *text, *second = "";
    int64_t extra = rules->second ? 3 : 2;
    CLT_TRY(clt_json_text(record, rules->text, &text));
    if (rules->second)
        CLT_TRY(clt_json_text(record, rules->second, &second));
    CLT_TRY(clt_encode(encoder, text, strlen(text), &out->ids));
    int64_t n1 = (int64_t)out->ids.count;
    CLT_TRY(clt_encode(encoder, second, strlen(second), &out->ids));
    int64_t n2 = (int64_t)out->ids.count - n1, all = n1 + n2, begin = n1;
    if (n1 == 0 || (rules->second && n2 == 0))
        CLT_FAIL(CLT_EDATA, "its \"%s\" has no token", n1 == 0 ? rules->text : rules->second);
    if (all + extra > rules->context && !rules->truncate)
        return too_long(all + extra, rules->context);
    clt_annotated_cut(&n1, &n2, rules->context - extra);
    memmove(out->ids.id + n1, out->ids.id + begin, (size_t)n2 * sizeof *out->ids.id);
    out->ids.count = (size_t)(n1 + n2);
    out->first = n1;
    out->cut = all - n1 - n2;
    return CLT_OK;
}

static clt_status read_class(const clt_annotated_rules *rules, clt_encoder *encoder, const clt_json *record,
                             bool cells, clt_annotated *out)
{
    CLT_TRY(read_whole(rules, encoder, record, out));
    if (!rules->labelled)
        return CLT_OK;
    const clt_json *label = clt_json_get(record, rules->label);
    if (rules->task == CLT_ANNOTATED_NUMBER)
        return clt_fail_prefix(read_number(label, cells, out), "\"%s\"", rules->label);
    CLT_TRY(clt_fail_prefix(add_label(label, cells, out, true), "\"%s\"", rules->label));
    if (out->numbers && out->labels.text[0] == '-')
        CLT_FAIL(CLT_EDATA, "its \"%s\" is %s, and classes count from 0", rules->label, out->labels.text);
    return CLT_OK;
}

/* --- words --- */

static clt_status add_word(const clt_annotated_rules *rules, clt_encoder *encoder, const clt_json *word,
                           int32_t number, clt_annotated *out, size_t *capacity)
{
    size_t before = out->ids.count;
    if (clt_json_typeof(word) != CLT_JSON_STRING)
        CLT_FAIL(CLT_EDATA, "an entry of its \"%s\" is %s, and must be a word as a string", rules->text,
                 clt_json_type_name(clt_json_typeof(word)));
    const char *text = clt_json_string(word);
    clt_str_append_n(&out->text, text, strlen(text) + 1);
    CLT_TRY(clt_encode(encoder, text, strlen(text), &out->ids));
    CLT_TRY(clt_grow(&out->word, capacity, out->ids.count, sizeof *out->word, "words"));
    for (size_t i = before; i < out->ids.count; i++)
        out->word[i] = i == before ? number : CLT_ANNOTATED_NONE;
    return clt_str_check(&out->text);
}

static clt_status read_words(const clt_annotated_rules *rules, clt_encoder *encoder, const clt_json *record,
                             clt_annotated *out)
{
    const clt_json *words = clt_json_get(record, rules->text);
    const clt_json *labels = rules->labelled ? clt_json_get(record, rules->label) : NULL;
    size_t capacity = 0;
    if (clt_json_typeof(words) != CLT_JSON_ARRAY)
        CLT_FAIL(CLT_EDATA, "its \"%s\" is missing or not a list of words", rules->text);
    if (rules->labelled &&
        (clt_json_typeof(labels) != CLT_JSON_ARRAY || clt_json_count(labels) != clt_json_count(words)))
        CLT_FAIL(CLT_EDATA, "its \"%s\" must be a list with one label for each of its %zu words",
                 rules->label, clt_json_count(words));
    for (const clt_json *one = clt_json_first(words); one; one = clt_json_next(one))
        CLT_TRY(add_word(rules, encoder, one, (int32_t)out->n_words++, out, &capacity));
    for (const clt_json *one = clt_json_first(labels); one; one = clt_json_next(one))
        CLT_TRY(clt_fail_prefix(add_label(one, false, out, one == clt_json_first(labels)), "\"%s\"",
                                rules->label));
    int64_t count = (int64_t)out->ids.count, room = rules->context - 2;
    if (count == 0)
        CLT_FAIL(CLT_EDATA, "its \"%s\" have no token", rules->text);
    if (count > room && !rules->truncate)
        return too_long(count + 2, rules->context);
    out->cut = count > room ? count - room : 0;
    out->ids.count -= (size_t)out->cut;
    out->first = (int64_t)out->ids.count;
    return CLT_OK;
}

/* --- spans --- */

/* The byte at which character `number` of a text begins; false: the text is shorter. */
static bool byte_of(const char *text, int64_t number, size_t *at)
{
    size_t size = strlen(text);
    for (*at = 0; number > 0 && *at < size; number--)
        *at += clt_utf8_size(text + *at, size - *at);
    return number == 0;
}

/* Finds the tokens of the answer, which is bytes [begin, end) of the context. */
static clt_status find_answer(clt_annotated *out, size_t begin, size_t end)
{
    const clt_text_range *range = out->ranges.range + out->first;
    int64_t n = (int64_t)out->ids.count - out->first, first = 0, last = n - 1;
    while (first < n && range[first].end <= begin)
        first++;
    while (last >= 0 && range[last].begin >= end)
        last--;
    if (last < first)
        CLT_FAIL(CLT_EDATA, "its answer holds no token of the context");
    out->answer_first = first;
    out->answer_last = last;
    return CLT_OK;
}

/* Checks an answer against the context and keeps its text. Training uses the first answer. */
static clt_status take_answer(const clt_json *text, const clt_json *start, const char *context,
                              clt_annotated *out)
{
    int64_t number;
    size_t at;
    if (clt_json_typeof(text) != CLT_JSON_STRING || !*clt_json_string(text))
        CLT_FAIL(CLT_EDATA, "the text of an answer is missing, empty or not text");
    if (!clt_json_int_within(start, 0, INT64_MAX, &number))
        CLT_FAIL(CLT_EDATA, "the \"answer_start\" of an answer is missing or not the number of a character");
    const char *answer = clt_json_string(text);
    if (!byte_of(context, number, &at) || strncmp(context + at, answer, strlen(answer)) != 0)
        CLT_FAIL(CLT_EDATA, "the answer '%.60s' is not in the context at character %lld", answer,
                 (long long)number);
    if (out->answers.length == 0)
        CLT_TRY(find_answer(out, at, at + strlen(answer)));
    clt_str_append_n(&out->answers, answer, strlen(answer) + 1);
    return clt_str_check(&out->answers);
}

/* Answers are {"text": [...], "answer_start": [...]}, or a list of {"text": ..., "answer_start": ...}. */
static clt_status read_answers(const clt_annotated_rules *rules, const clt_json *record, const char *context,
                               clt_annotated *out)
{
    const clt_json *answers = clt_json_get(record, "answers");
    if (!answers)
        CLT_FAIL(CLT_EDATA, "it has no \"answers\"");
    if (clt_json_typeof(answers) == CLT_JSON_ARRAY) {
        for (const clt_json *one = clt_json_first(answers); one; one = clt_json_next(one)) {
            if (clt_json_typeof(one) != CLT_JSON_OBJECT)
                CLT_FAIL(CLT_EDATA, "an entry of its \"answers\" is %s, and must be an object",
                         clt_json_type_name(clt_json_typeof(one)));
            CLT_TRY(take_answer(clt_json_get(one, "text"), clt_json_get(one, "answer_start"), context, out));
        }
    } else {
        const clt_json *texts = clt_json_get(answers, "text"),
                       *starts = clt_json_get(answers, "answer_start");
        if (clt_json_typeof(texts) != CLT_JSON_ARRAY || clt_json_typeof(starts) != CLT_JSON_ARRAY ||
            clt_json_count(texts) != clt_json_count(starts))
            CLT_FAIL(CLT_EDATA,
                     "its \"answers\" must have the lists \"text\" and \"answer_start\" of equal length");
        const clt_json *start = clt_json_first(starts);
        for (const clt_json *one = clt_json_first(texts); one;
             one = clt_json_next(one), start = clt_json_next(start))
            CLT_TRY(take_answer(one, start, context, out));
    }
    if (out->answers.length == 0 && !rules->unanswerable)
        CLT_FAIL(CLT_EDATA,
                 "it has no answer; data.unanswerable=true trains and evaluates such records, too");
    return CLT_OK;
}

int64_t clt_annotated_room(const clt_annotated_rules *rules, const clt_annotated *a)
{
    return rules->context - 3 - a->first;
}

int64_t clt_annotated_windows(const clt_annotated_rules *rules, const clt_annotated *a)
{
    if (rules->task != CLT_ANNOTATED_SPAN)
        return 1;
    int64_t room = clt_annotated_room(rules, a), n = (int64_t)a->ids.count - a->first;
    return n <= room ? 1 : 1 + (n - room + room - rules->stride - 1) / (room - rules->stride);
}

static clt_status read_span(const clt_annotated_rules *rules, const clt_json *record, clt_annotated *out)
{
    const char *question, *context;
    CLT_TRY(clt_json_text(record, "question", &question));
    CLT_TRY(clt_json_text(record, "context", &context));
    CLT_TRY(clt_encode_ranges(rules->tokenizer, question, strlen(question), &out->ids, &out->ranges));
    out->first = (int64_t)out->ids.count;
    CLT_TRY(clt_encode_ranges(rules->tokenizer, context, strlen(context), &out->ids, &out->ranges));
    clt_str_append(&out->text, context);
    int64_t n = (int64_t)out->ids.count - out->first, room = clt_annotated_room(rules, out);
    if (out->first == 0 || n == 0)
        CLT_FAIL(CLT_EDATA, "its \"%s\" has no token", n == 0 ? "context" : "question");
    if (room < 1 || (n > room && room <= rules->stride))
        CLT_FAIL(CLT_EDATA,
                 "its question has %lld tokens, which leaves %lld of model.context %lld for the text, and "
                 "windows share %lld (data.stride)",
                 (long long)out->first, (long long)(room < 0 ? 0 : room), (long long)rules->context,
                 (long long)rules->stride);
    out->answer_first = out->answer_last = CLT_ANNOTATED_NONE;
    CLT_TRY(clt_str_check(&out->text));
    return rules->labelled ? read_answers(rules, record, context, out) : CLT_OK;
}

clt_status clt_annotated_read(const clt_annotated_rules *rules, clt_encoder *encoder, const char *line,
                              size_t size, bool cells, clt_annotated *out)
{
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    const clt_json *record;
    int64_t number;
    CLT_TRY(clt_json_record(line, size, &doc, &record));
    const clt_json *id = clt_json_get(record, "id");
    if (clt_json_int(id, &number))
        clt_str_printf(&out->id, "%lld", (long long)number);
    else
        clt_str_append(&out->id, clt_json_string(id));
    CLT_TRY(clt_str_check(&out->id));
    switch (rules->task) {
    case CLT_ANNOTATED_CLASS:
    case CLT_ANNOTATED_NUMBER:
        return read_class(rules, encoder, record, cells, out);
    case CLT_ANNOTATED_WORDS:
        return read_words(rules, encoder, record, out);
    default:
        return read_span(rules, record, out);
    }
}
