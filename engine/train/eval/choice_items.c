/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the items of multiple-choice tasks. */
#include "engine/train/eval/choice_items.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/json/json.h"

/* --- texts of HellaSwag --- */

static bool is_space(char c)
{
    return c && strchr(" \t\n\v\f\r", c) != NULL;
}

/* Appends the text with every `what` replaced by `by`. */
static void put_replaced(const char *text, const char *what, const char *by, clt_str *out)
{
    const char *found;
    for (; (found = strstr(text, what)) != NULL; text = found + strlen(what)) {
        clt_str_append_n(out, text, (size_t)(found - text));
        clt_str_append(out, by);
    }
    clt_str_append(out, text);
}

/* Appends the text without brackets and the words inside them. */
static void put_without_brackets(const char *text, clt_str *out)
{
    while (*text) {
        const char *open = strchr(text, '['), *close = open ? strchr(open, ']') : NULL;
        const char *line = open ? strchr(open, '\n') : NULL;
        if (!close) {
            clt_str_append(out, text);
            return;
        }
        bool inside = !line || line > close; /* brackets on different lines stay in the text */
        clt_str_append_n(out, text, (size_t)(open - text) + !inside);
        text = inside ? close + 1 : open + 1;
    }
}

/* Appends the text as the task expects it: white space around it and brackets are removed, " [title]"
 * becomes the end of a sentence, and two spaces become one. */
static clt_status clean(const char *text, clt_str *out)
{
    CLT_SCOPED(clt_str) stripped = {0};
    CLT_SCOPED(clt_str) titled = {0};
    CLT_SCOPED(clt_str) plain = {0};
    size_t size = strlen(text);
    while (size > 0 && is_space(text[size - 1]))
        size--;
    while (size > 0 && is_space(*text)) {
        text++;
        size--;
    }
    clt_str_append_n(&stripped, text, size);
    CLT_TRY(clt_str_check(&stripped));
    put_replaced(size ? stripped.text : "", " [title]", ". ", &titled);
    CLT_TRY(clt_str_check(&titled));
    put_without_brackets(titled.text, &plain);
    CLT_TRY(clt_str_check(&plain));
    put_replaced(plain.text ? plain.text : "", "  ", " ", out);
    return clt_str_check(out);
}

/* Appends the text with its first letter in upper case and all others in lower case (ASCII letters). */
static void put_capitalised(const char *text, clt_str *out)
{
    for (size_t i = 0; text[i]; i++) {
        char c = (char)(i == 0 ? toupper((unsigned char)text[i]) : tolower((unsigned char)text[i]));
        clt_str_append_n(out, (unsigned char)text[i] < 0x80 ? &c : &text[i], 1);
    }
}

/* --- records --- */

static clt_status member(const clt_json *record, const char *name, clt_json_type type, const clt_json **out)
{
    *out = clt_json_get(record, name);
    if (clt_json_typeof(*out) != type)
        CLT_FAIL(CLT_EDATA, "it has no \"%s\" that is %s", name, clt_json_type_name(type));
    return CLT_OK;
}

static clt_status text_of(const clt_json *record, const char *name, const char **out)
{
    const clt_json *value;
    CLT_TRY(member(record, name, CLT_JSON_STRING, &value));
    *out = clt_json_string(value);
    return CLT_OK;
}

/* Reads the number of the right choice, given as a number or as a string. */
static clt_status gold_of(const clt_json *record, const char *name, size_t choices, int64_t *out)
{
    const clt_json *value = clt_json_get(record, name);
    char *end = NULL;
    bool text = clt_json_typeof(value) == CLT_JSON_STRING;
    if (text)
        *out = strtoll(clt_json_string(value), &end, 10);
    bool good = text ? end != clt_json_string(value) && !*end : clt_json_int(value, out);
    if (!good || *out < 0 || *out >= (int64_t)choices)
        CLT_FAIL(CLT_EDATA, "its \"%s\" is not the number of one of its %zu choices, from 0", name, choices);
    return CLT_OK;
}

static clt_status add_row(clt_encoder *encoder, const char *query, const char *choice, clt_choice_items *out)
{
    CLT_SCOPED(clt_str) whole = {0};
    clt_ids alone = {0};
    size_t begin = out->ids.count, context = strlen(query), characters = 0;
    clt_str_printf(&whole, "%s %s", query, choice);
    CLT_TRY(clt_str_check(&whole));
    while (context > 0 && is_space(query[context - 1])) /* spaces at its end belong to the choice */
        context--;
    clt_status status = clt_encode(encoder, query, context, &alone);
    size_t before = alone.count;
    free(alone.id);
    CLT_TRY(status);
    CLT_TRY(clt_encode(encoder, whole.text, whole.length, &out->ids));
    for (const char *at = choice; *at; characters++)
        at += clt_utf8_size(at, strlen(at)) ? clt_utf8_size(at, strlen(at)) : 1;
    if (before == 0 || out->ids.count - begin <= before || characters == 0)
        CLT_FAIL(CLT_EDATA, "its text or one of its choices is empty");
    CLT_TRY(clt_grow(&out->row, &out->rows_capacity, out->n_rows + 1, sizeof *out->row, "choices"));
    size_t count = out->ids.count - begin;
    out->row[out->n_rows++] = (clt_choice_row){begin, count, count - before, (double)characters};
    return CLT_OK;
}

/* Adds the rows of an item. cleaned: its choices are texts of HellaSwag. */
static clt_status add_rows(clt_encoder *encoder, const char *query, const clt_json *choices, bool cleaned,
                           clt_choice_items *out)
{
    for (const clt_json *one = clt_json_first(choices); one; one = clt_json_next(one)) {
        CLT_SCOPED(clt_str) text = {0};
        if (clt_json_typeof(one) != CLT_JSON_STRING)
            CLT_FAIL(CLT_EDATA, "one of its choices is not text");
        if (cleaned)
            CLT_TRY(clean(clt_json_string(one), &text));
        CLT_TRY(add_row(encoder, query, cleaned ? text.text : clt_json_string(one), out));
    }
    return CLT_OK;
}

static clt_status read_hellaswag(const clt_json *record, clt_encoder *encoder, clt_choice_items *out,
                                 clt_choice_item *item)
{
    const char *activity, *a, *b;
    const clt_json *endings;
    CLT_SCOPED(clt_str) text = {0};
    CLT_SCOPED(clt_str) query = {0};
    CLT_TRY(member(record, "endings", CLT_JSON_ARRAY, &endings));
    CLT_TRY(text_of(record, "activity_label", &activity));
    CLT_TRY(text_of(record, "ctx_a", &a));
    CLT_TRY(text_of(record, "ctx_b", &b));
    CLT_TRY(gold_of(record, "label", clt_json_count(endings), &item->gold));
    clt_str_printf(&text, "%s: %s ", activity, a);
    put_capitalised(b, &text);
    CLT_TRY(clt_str_check(&text));
    CLT_TRY(clean(text.text, &query));
    return add_rows(encoder, query.text, endings, true, out);
}

static clt_status read_choices(const clt_json *record, clt_encoder *encoder, clt_choice_items *out,
                               clt_choice_item *item)
{
    const char *query;
    const clt_json *choices;
    CLT_TRY(text_of(record, "query", &query));
    CLT_TRY(member(record, "choices", CLT_JSON_ARRAY, &choices));
    CLT_TRY(gold_of(record, "gold", clt_json_count(choices), &item->gold));
    return add_rows(encoder, query, choices, false, out);
}

typedef clt_status (*item_reader)(const clt_json *record, clt_encoder *encoder, clt_choice_items *out,
                                  clt_choice_item *item);

static clt_status add_item(item_reader read, const clt_document *line, clt_encoder *encoder,
                           clt_choice_items *out)
{
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    clt_choice_item item = {.first = out->n_rows};
    CLT_TRY(clt_json_parse(line->bytes, (size_t)line->size, "item", CLT_EDATA, &doc));
    CLT_TRY(read(clt_json_root(doc), encoder, out, &item));
    item.count = out->n_rows - item.first;
    CLT_TRY(clt_grow(&out->item, &out->items_capacity, out->n_items + 1, sizeof *out->item, "items"));
    out->item[out->n_items++] = item;
    return CLT_OK;
}

clt_status clt_choices_read(const char *task, const char *path, int64_t most, const clt_tokenizer *tokenizer,
                            clt_choice_items *out)
{
    CLT_SCOPED(clt_texts) texts = {.key = "--task", .json_key = "", .lines = true};
    CLT_SCOPED(clt_encoder) *encoder = NULL;
    item_reader read = strcmp(task, "hellaswag") == 0 ? read_hellaswag
                       : strcmp(task, "choices") == 0 ? read_choices
                                                      : NULL;
    if (!read)
        CLT_FAIL(CLT_EUSAGE, "--task '%s' is unknown; there are %s", task, CLT_CHOICES_TASKS);
    CLT_TRY(clt_texts_add(&texts, path));
    CLT_TRY(clt_encoder_create(tokenizer, &encoder));
    for (size_t i = 0; i < texts.n_documents && (most == 0 || (int64_t)i < most); i++) {
        const clt_document *line = &texts.documents[i];
        CLT_TRY(clt_fail_prefix(add_item(read, line, encoder, out), "item of %s in '%s', line %lld", task,
                                texts.files[line->file].path, (long long)clt_document_line(&texts, line)));
    }
    if (out->n_items == 0)
        CLT_FAIL(CLT_EDATA, "'%s' holds no item of %s", path, task);
    return clt_texts_check(&texts);
}

void clt_choice_items_free(clt_choice_items *items)
{
    free(items->item);
    free(items->row);
    free(items->ids.id);
    *items = (clt_choice_items){0};
}
