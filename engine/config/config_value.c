/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads one JSON value with the type of its key, checks the range and says what is wrong in the user's words.
 * Knows the records of the schema; knows nothing of files, overrides or other keys. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/config/config_foreign.h"
#include "engine/config/config_internal.h"

/* Arguments of all functions that read one value. */
typedef struct reader {
    clt_config *config;
    const clt_config_key *key;
    clt_config_value *value;
    clt_config_problems *list;
} reader;

int clt_config_key_count(void)
{
    int count = 0;
    while (clt_config_schema()[count].path)
        count++;
    return count;
}

int clt_config_key_index(const char *path)
{
    for (int i = 0; clt_config_schema()[i].path; i++)
        if (strcmp(clt_config_schema()[i].path, path) == 0)
            return i;
    return -1;
}

bool clt_config_has_word(const char *choices, const char *word)
{
    size_t length = strlen(word);
    for (const char *c = choices; *c;) {
        size_t n = strcspn(c, "|");
        if (n == length && strncmp(c, word, n) == 0)
            return true;
        c += n + (c[n] == '|');
    }
    return false;
}

static void wrong(reader *r, const clt_json *json, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void wrong(reader *r, const clt_json *json, const char *format, ...)
{
    char message[640];
    int line = 0, column = 0;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(message, sizeof message, format, args);
    va_end(args);
    r->value->bad = true;
    if (r->value->line > 0 && json)
        clt_json_position(json, &line, &column);
    clt_config_report(r->list, r->value->source, line, column, "%s: %s", r->key->path, message);
}

/* "a number", "a string (\"3\")", "the number 1.5" */
static const char *found_text(const clt_json *json, char *buffer, size_t size)
{
    char number[CLT_NUMBER_TEXT];
    switch (clt_json_typeof(json)) {
    case CLT_JSON_NULL:
        return "null";
    case CLT_JSON_BOOL:
        return clt_json_bool(json) ? "true" : "false";
    case CLT_JSON_NUMBER:
        (void)snprintf(buffer, size, "the number %s", clt_double_text(clt_json_number(json), number));
        return buffer;
    case CLT_JSON_STRING:
        (void)snprintf(buffer, size, "a string (\"%.40s\")", clt_json_string(json));
        return buffer;
    case CLT_JSON_ARRAY:
        return "a list";
    case CLT_JSON_OBJECT:
        return "an object";
    case CLT_JSON_MISSING:
        break;
    }
    return "something else";
}

static bool quoted_number(const clt_json *json)
{
    if (clt_json_typeof(json) != CLT_JSON_STRING || !strpbrk(clt_json_string(json), "0123456789") ||
        strpbrk(clt_json_string(json), "xX"))
        return false; /* strtod accepts "nan", "inf" and "0x10" too, which are not valid in a config */
    char *end = NULL;
    (void)clt_strtod(clt_json_string(json), &end);
    return *end == '\0';
}

static void wrong_type(reader *r, const clt_json *json, const char *expected)
{
    char buffer[96];
    const char *hint = "";
    bool wants_word =
        r->key->type == CLT_CFG_STRING || r->key->type == CLT_CFG_CHOICE || r->key->type == CLT_CFG_STRINGS;
    bool quoted_bool = clt_json_typeof(json) == CLT_JSON_STRING && r->key->type == CLT_CFG_BOOL;
    if (!wants_word && quoted_number(json))
        hint = "; remove the quotes";
    else if (quoted_bool)
        hint = "; write true or false without quotes";
    wrong(r, json, "expected %s, got %s%s", expected, found_text(json, buffer, sizeof buffer), hint);
}

/* "1 to 64", "above 0", "at least 0 and below 1" */
static const char *range_text(const clt_config_key *key, char *buffer, size_t size)
{
    char low[CLT_NUMBER_TEXT], high[CLT_NUMBER_TEXT];
    clt_double_text(key->min, low);
    clt_double_text(key->max, high);
    if (key->min_exclusive || key->max_exclusive)
        (void)snprintf(buffer, size, "%s %s and %s %s", key->min_exclusive ? "above" : "at least", low,
                       key->max_exclusive ? "below" : "at most", high);
    else if (key->min == key->max)
        (void)snprintf(buffer, size, "%s only", low);
    else
        (void)snprintf(buffer, size, "%s to %s", low, high);
    return buffer;
}

static bool in_range(const clt_config_key *key, double value)
{
    bool low = key->min_exclusive ? value > key->min : value >= key->min;
    bool high = key->max_exclusive ? value < key->max : value <= key->max;
    return low && high;
}

static void check_range(reader *r, const clt_json *json, double number)
{
    char range[96], text[CLT_NUMBER_TEXT];
    if (!in_range(r->key, number))
        wrong(r, json, "%s is out of range; valid: %s%s%s", clt_double_text(number, text),
              range_text(r->key, range, sizeof range), *r->key->unit ? " " : "", r->key->unit);
}

/* False when the value is not an integer; the message says how to write one. */
static bool read_int(reader *r, const clt_json *json, const char *expected, int64_t *out)
{
    if (clt_json_int(json, out))
        return true;
    char text[CLT_NUMBER_TEXT];
    if (clt_json_typeof(json) == CLT_JSON_NUMBER)
        wrong(r, json, "expected %s, got %s; write it without '.' and exponent, within 64 bits", expected,
              clt_double_text(clt_json_number(json), text));
    else
        wrong_type(r, json, expected);
    return false;
}

static clt_status read_ints(reader *r, const clt_json *json)
{
    /* A plain integer is a list of one. */
    bool list = clt_json_typeof(json) == CLT_JSON_ARRAY;
    size_t count = list ? clt_json_count(json) : 1;
    if (!list && clt_json_typeof(json) != CLT_JSON_NUMBER) {
        wrong_type(r, json, "a list of integers such as [64, 32]");
        return CLT_OK;
    }
    if (count > 10000) {
        wrong(r, json, "the list has %zu entries, at most 10000 are possible", count);
        return CLT_OK;
    }
    int64_t *ints = clt_arena_alloc(r->config->arena, (count + 1) * sizeof *ints);
    if (!ints)
        CLT_FAIL(CLT_ENOMEM, "reading %s: out of host memory", r->key->path);
    int i = 0;
    for (const clt_json *item = NULL; (item = clt_json_entry(json, item)); i++)
        if (read_int(r, item, list ? "an integer in the list" : "an integer or a list of them", &ints[i]))
            check_range(r, item, (double)ints[i]);
    r->value->ints = ints;
    r->value->count = i;
    return CLT_OK;
}

static clt_status read_floats(reader *r, const clt_json *json)
{
    bool list = clt_json_typeof(json) == CLT_JSON_ARRAY;
    size_t count = list ? clt_json_count(json) : 1;
    if (count > 10000) {
        wrong(r, json, "the list has %zu entries, at most 10000 are possible", count);
        return CLT_OK;
    }
    double *floats = clt_arena_alloc(r->config->arena, (count + 1) * sizeof *floats);
    if (!floats)
        CLT_FAIL(CLT_ENOMEM, "reading %s: out of host memory", r->key->path);
    int i = 0;
    floats[0] = 0;
    for (const clt_json *item = NULL; (item = clt_json_entry(json, item)); i++) {
        floats[i] = clt_json_number(item);
        if (clt_json_typeof(item) != CLT_JSON_NUMBER)
            wrong_type(r, item, list ? "a number in the list" : "a number or a list of numbers");
        else
            check_range(r, item, floats[i]);
    }
    r->value->floats = floats;
    r->value->count = i;
    r->value->f = floats[0];
    return CLT_OK;
}

static clt_status keep_string(reader *r, const clt_json *json, const char **out)
{
    *out = clt_arena_strdup(r->config->arena, clt_json_string(json));
    if (!*out)
        CLT_FAIL(CLT_ENOMEM, "reading %s: out of host memory", r->key->path);
    return CLT_OK;
}

static clt_status keep_number(reader *r, const clt_json *json, const char **out)
{
    char text[CLT_NUMBER_TEXT];
    *out = clt_arena_strdup(r->config->arena, clt_double_text(clt_json_number(json), text));
    if (!*out)
        CLT_FAIL(CLT_ENOMEM, "reading %s: out of host memory", r->key->path);
    return CLT_OK;
}

static clt_status read_strings(reader *r, const clt_json *json)
{
    bool list = clt_json_typeof(json) == CLT_JSON_ARRAY;
    if (!list && clt_json_typeof(json) != CLT_JSON_STRING) {
        wrong_type(r, json, "a string or a list of strings");
        return CLT_OK;
    }
    size_t count = list ? clt_json_count(json) : 1;
    const char **strings = clt_arena_alloc(r->config->arena, (count + 1) * sizeof *strings);
    if (!strings)
        CLT_FAIL(CLT_ENOMEM, "reading %s: out of host memory", r->key->path);
    int i = 0;
    for (const clt_json *item = NULL; (item = clt_json_entry(json, item));) {
        if (clt_json_typeof(item) != CLT_JSON_STRING)
            wrong_type(r, item, "a string in the list");
        else if (!*clt_json_string(item))
            wrong(r, item, "an empty string names nothing");
        else
            CLT_TRY(keep_string(r, item, &strings[i++]));
    }
    r->value->strings = strings;
    r->value->count = i;
    return CLT_OK;
}

static clt_status read_choice(reader *r, const clt_json *json)
{
    const char *names[16];
    char words[256];
    if (clt_json_typeof(json) == CLT_JSON_BOOL && r->key->for_bool[0]) {
        r->value->s = r->key->for_bool[clt_json_bool(json)];
        return CLT_OK;
    }
    if (clt_json_typeof(json) != CLT_JSON_STRING) {
        wrong_type(r, json, "a string");
        return CLT_OK;
    }
    const char *word = clt_json_string(json);
    if (clt_config_has_word(r->key->choices, word))
        return keep_string(r, json, &r->value->s);
    size_t count = 0;
    (void)snprintf(words, sizeof words, "%s", r->key->choices);
    char *rest = NULL;
    for (char *w = strtok_r(words, "|", &rest); w && count < 16; w = strtok_r(NULL, "|", &rest))
        names[count++] = w;
    char buffer[64];
    const char *note, *near = clt_foreign_value_of(r->key->path, word, buffer, &note);
    if (!near)
        near = clt_nearest_name(word, names, count);
    wrong(r, json, "'%.60s' is not a valid value; valid: %s%s%s%s%s%s%s", word, r->key->choices,
          near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "", note ? " (" : "",
          note ? note : "", note ? ")" : "");
    return CLT_OK;
}

/* True if every entry is an object whose "op", if present, is a string. The rest is left to the model
 * builder, which reports all problems of the layers together. */
static bool are_layers(const clt_json *list)
{
    for (const clt_json *layer = clt_json_first(list); layer; layer = clt_json_next(layer)) {
        bool object = clt_json_typeof(layer) == CLT_JSON_OBJECT;
        const clt_json *op = clt_json_get(layer, "op");
        if (!object || (op && clt_json_typeof(op) != CLT_JSON_STRING))
            return false;
    }
    return true;
}

/* Checks only the form of the list; the model builder knows the ops. */
static void read_layers(reader *r, const clt_json *json)
{
    int64_t number;
    if (clt_json_int(json, &number)) {
        check_range(r, json, (double)number);
        r->value->i = number;
        return;
    }
    if (clt_json_typeof(json) != CLT_JSON_ARRAY) {
        wrong_type(r, json, "a list of layers");
        return;
    }
    int index = 0;
    bool told = !are_layers(json);
    for (const clt_json *layer = clt_json_first(json); layer; layer = clt_json_next(layer), index++) {
        bool object = clt_json_typeof(layer) == CLT_JSON_OBJECT;
        const clt_json *op = object ? clt_json_get(layer, "op") : NULL;
        if (!object)
            wrong_type(r, layer, "a layer: an object such as {\"op\": \"linear\", \"out\": 10}");
        else if (!op && told)
            wrong(r, layer, "layer %d has no \"op\"", index);
        else if (op && clt_json_typeof(op) != CLT_JSON_STRING)
            wrong_type(r, op, "the op's name as a string");
    }
    r->value->count = index;
}

static void read_number(reader *r, const clt_json *json)
{
    bool is_auto = clt_json_is(json, "auto");
    if (r->key->type == CLT_CFG_AUTO_INT && is_auto) {
        r->value->i = -1;
        return;
    }
    if (r->key->type == CLT_CFG_FLOAT) {
        if (clt_json_typeof(json) != CLT_JSON_NUMBER) {
            wrong_type(r, json, "a number");
            return;
        }
        r->value->f = clt_json_number(json);
    } else {
        const char *expected = r->key->type == CLT_CFG_AUTO_INT ? "an integer or \"auto\"" : "an integer";
        if (!read_int(r, json, expected, &r->value->i))
            return;
        r->value->f = (double)r->value->i;
    }
    check_range(r, json, r->value->f);
}

clt_status clt_config_read_value(clt_config *config, const clt_config_key *key, const clt_json *json,
                                 clt_config_value *value, clt_config_problems *list)
{
    reader r = {config, key, value, list};
    value->present = true;
    value->s = "";
    if (strncmp(key->path, "model.", 6) == 0)
        CLT_TRY(clt_json_copy(config->given, json, &value->json));
    switch (key->type) {
    case CLT_CFG_INT:
    case CLT_CFG_AUTO_INT:
    case CLT_CFG_FLOAT:
        read_number(&r, json);
        return CLT_OK;
    case CLT_CFG_BOOL:
        if (clt_json_typeof(json) != CLT_JSON_BOOL)
            wrong_type(&r, json, "true or false");
        value->b = clt_json_bool(json);
        return CLT_OK;
    case CLT_CFG_STRING:
        if (clt_json_typeof(json) == CLT_JSON_STRING)
            return keep_string(&r, json, &value->s);
        if (key->max > key->min &&
            clt_json_typeof(json) == CLT_JSON_NUMBER) /* a number is kept as its text */
            return keep_number(&r, json, &value->s);
        wrong_type(&r, json, "a string");
        return CLT_OK;
    case CLT_CFG_CHOICE:
        return read_choice(&r, json);
    case CLT_CFG_INTS:
        return read_ints(&r, json);
    case CLT_CFG_STRINGS:
        return read_strings(&r, json);
    case CLT_CFG_FLOATS:
        return read_floats(&r, json);
    case CLT_CFG_LAYERS:
        read_layers(&r, json);
        return CLT_OK;
    }
    CLT_FAIL(CLT_EINTERNAL, "the schema's key %s has an unknown type", key->path);
}

clt_status clt_config_read_defaults(clt_config *config)
{
    for (int i = 0; clt_config_schema()[i].path; i++) {
        const clt_config_key *key = &clt_config_schema()[i];
        clt_config_value *value = &config->values[i];
        clt_config_problems list = {0};
        CLT_SCOPED(clt_json_doc) *doc = NULL;
        value->s = "";
        value->source = "default";
        if (!key->default_text)
            continue;
        CLT_TRY(clt_json_parse(key->default_text, strlen(key->default_text), key->path, CLT_EINTERNAL, &doc));
        clt_status status = clt_config_read_value(config, key, clt_json_root(doc), value, &list);
        CLT_TRY(clt_config_problems_finish(status, &list));
    }
    return CLT_OK;
}
