/* SPDX-License-Identifier: Apache-2.0
 *
 * Composes the schema from the common keys and the keys of all parts (part.h), and checks that a config
 * sets only keys that its chosen parts bring. */
#include "engine/config/part.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/config/config_internal.h"

#define CLT_FORMAT(name) extern const clt_config_part clt_format_##name;
#include "engine/config/formats.def"
#undef CLT_FORMAT

#define CLT_FORMAT(name) &clt_format_##name,
static const clt_config_part *const formats[] = {
#include "engine/config/formats.def"
    NULL};
#undef CLT_FORMAT

#define CLT_OPTIMIZER(name) extern const clt_config_part clt_config_optimizer_##name;
#include "engine/config/optimizers.def"
#undef CLT_OPTIMIZER

#define CLT_OPTIMIZER(name) &clt_config_optimizer_##name,
static const clt_config_part *const optimizers[] = {
#include "engine/config/optimizers.def"
    NULL};
#undef CLT_OPTIMIZER

#define CLT_FAMILY(name) extern const clt_config_part clt_family_##name;
#include "engine/config/families.def"
#undef CLT_FAMILY

#define CLT_FAMILY(name) &clt_family_##name,
static const clt_config_part *const families[] = {
#include "engine/config/families.def"
    NULL};
#undef CLT_FAMILY

static const struct {
    const char *key; /* path of the key whose words are the names of `parts` */
    const clt_config_part *const *parts;
} choices[] = {{"model.type", families}, {"data.type", formats}, {"optimizer.type", optimizers}};

#define N_CHOICES (sizeof choices / sizeof choices[0])

const clt_config_part *const *clt_config_parts(const char *choice)
{
    for (size_t i = 0; i < N_CHOICES; i++)
        if (strcmp(choices[i].key, choice) == 0)
            return choices[i].parts;
    return NULL;
}

const clt_config_part *clt_config_part_find(const char *choice, const char *name)
{
    for (const clt_config_part *const *p = clt_config_parts(choice); p && *p; p++)
        if (strcmp((*p)->name, name) == 0)
            return *p;
    return NULL;
}

const clt_config_part *clt_config_chosen(const clt_config *config, const char *choice)
{
    return clt_config_part_find(choice, clt_config_string(config, choice));
}

static const clt_config_key *key_of(const clt_config_part *part, const char *path)
{
    for (const clt_config_key *key = part ? part->keys : NULL; key && key->path; key++)
        if (strcmp(key->path, path) == 0)
            return key;
    return NULL;
}

bool clt_config_part_has(const clt_config_part *part, const char *key)
{
    return key_of(part, key) != NULL;
}

/* --- composing the schema --- */

#define MAX_KEYS 512
#define MAX_TEXTS (1 << 15)

/* The composed schema: made once, kept until the process ends. */
static struct {
    clt_config_key keys[MAX_KEYS];
    int count;
    char texts[MAX_TEXTS]; /* composed words and help */
    size_t used;
    bool cut; /* keys or texts are missing, because there was no room for them */
} schema;

/* Appends to the text at the end of schema.texts, which is still being composed. */
static void append(const char *text, size_t length)
{
    if (schema.used + length + 1 >= MAX_TEXTS) {
        schema.cut = true;
        return;
    }
    memcpy(schema.texts + schema.used, text, length);
    schema.used += length;
    schema.texts[schema.used] = '\0';
}

static void append_text(const char *text)
{
    append(text, strlen(text));
}

/* Ends the text that is being composed. */
static void end_text(void)
{
    if (schema.used + 1 < MAX_TEXTS)
        schema.used++;
}

static const char *part_names(const clt_config_part *const *parts)
{
    const char *start = schema.texts + schema.used;
    for (size_t i = 0; parts[i]; i++) {
        append_text(i ? "|" : "");
        append_text(parts[i]->name);
    }
    end_text();
    return start;
}

/* The union of two lists of words "a|b|c". */
static const char *join_words(const char *left, const char *right)
{
    const char *start = schema.texts + schema.used;
    append_text(left);
    for (const char *word = right; *word;) {
        char text[64];
        size_t n = strcspn(word, "|");
        (void)snprintf(text, sizeof text, "%.*s", (int)n, word);
        if (!clt_config_has_word(left, text)) {
            append_text("|");
            append_text(text);
        }
        word += n + (word[n] == '|');
    }
    end_text();
    return start;
}

/* The help text of a key that several parts bring: "raw, synthetic: shape of one input sample". */
static const char *join_help(const clt_config_part *const *parts, const char *path)
{
    const char *start = schema.texts + schema.used;
    for (size_t i = 0; parts[i]; i++) {
        const clt_config_key *key = key_of(parts[i], path), *other;
        bool told = false;
        for (size_t k = 0; key && k < i; k++)
            told |= (other = key_of(parts[k], path)) && strcmp(other->help, key->help) == 0;
        if (!key || told)
            continue;
        append_text(schema.texts + schema.used == start ? "" : "; ");
        append_text(parts[i]->name);
        for (size_t k = i + 1; parts[k]; k++) {
            if (!(other = key_of(parts[k], path)) || strcmp(other->help, key->help) != 0)
                continue;
            append_text(", ");
            append_text(parts[k]->name);
        }
        append_text(": ");
        append_text(key->help);
    }
    end_text();
    return start;
}

/* Extends a key of the schema so that it also accepts every value that a part's version of the key
 * accepts. */
static void widen(clt_config_key *key, const clt_config_key *other)
{
    assert(key->type == other->type && strcmp(key->default_text, other->default_text) == 0);
    key->min_exclusive = other->min < key->min ? other->min_exclusive : key->min_exclusive;
    key->max_exclusive = other->max > key->max ? other->max_exclusive : key->max_exclusive;
    key->min = fmin(key->min, other->min);
    key->max = fmax(key->max, other->max);
    if (key->choices && strcmp(key->choices, other->choices) != 0)
        key->choices = join_words(key->choices, other->choices);
}

static clt_config_key *composed(const char *path)
{
    for (int i = 0; i < schema.count; i++)
        if (strcmp(schema.keys[i].path, path) == 0)
            return &schema.keys[i];
    return NULL;
}

static void add_key(const clt_config_key *key)
{
    if (schema.count + 1 >= MAX_KEYS) {
        schema.cut = true;
        return;
    }
    schema.keys[schema.count++] = *key;
}

static void add_parts(const clt_config_part *const *parts)
{
    int first = schema.count;
    for (size_t i = 0; parts[i]; i++)
        for (const clt_config_key *key = parts[i]->keys; key && key->path; key++) {
            clt_config_key *there = composed(key->path);
            if (there)
                widen(there, key);
            else
                add_key(key);
        }
    for (int i = first; i < schema.count; i++)
        schema.keys[i].help = join_help(parts, schema.keys[i].path);
}

static void compose(void)
{
    for (const clt_config_key *key = clt_config_common; key->path; key++) {
        const clt_config_part *const *parts = clt_config_parts(key->path);
        add_key(key);
        if (!parts)
            continue;
        schema.keys[schema.count - 1].choices = part_names(parts);
        add_parts(parts);
    }
}

const clt_config_key *clt_config_schema(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, compose);
    return schema.keys;
}

bool clt_config_schema_whole(void)
{
    (void)clt_config_schema();
    return !schema.cut;
}

/* --- rules --- */

bool clt_rules_usable(const clt_config_rules *rules, const char *key)
{
    const clt_config_value *value = clt_config_at(rules->config, key);
    return value->present && !value->bad;
}

bool clt_rules_is(const clt_config_rules *rules, const char *key, const char *word)
{
    return clt_rules_usable(rules, key) && strcmp(clt_config_at(rules->config, key)->s, word) == 0;
}

bool clt_rules_empty(const clt_config_rules *rules, const char *key)
{
    const clt_config_value *v = clt_config_at(rules->config, key);
    return clt_rules_usable(rules, key) && v->i == 0 && v->count == 0 && !*v->s && !v->b && !(fabs(v->f) > 0);
}

bool clt_rules_takes(const clt_config_rules *rules, const char *choice, const char *key)
{
    return clt_rules_usable(rules, choice) &&
           clt_config_part_has(clt_config_chosen(rules->config, choice), key);
}

void clt_rules_broken(clt_config_rules *rules, const char *key, const char *format, ...)
{
    const clt_config_value *value = clt_config_at(rules->config, key);
    bool placed = value->line > 0;
    char what[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(what, sizeof what, format, args);
    va_end(args);
    clt_config_report(rules->list, value->from == CLT_FROM_DEFAULT ? rules->config->source : value->source,
                      placed ? value->line : 0, value->column, "%s: %s", key, what);
}

/* True if a value differs from the key's default. */
static bool differs(clt_config_rules *rules, const clt_config_key *key, const clt_config_value *value)
{
    CLT_SCOPED(clt_str) text = {0};
    if (key->type == CLT_CFG_LAYERS)
        return value->i != 0 || value->count > 0;
    clt_json_writer w = clt_json_writer_make(&text, 0);
    clt_config_write_value(&w, key, value);
    rules->list->failed = rules->list->failed || text.failed;
    return !text.failed && text.text && strcmp(text.text, key->default_text) != 0;
}

/* "csv, idx or npy": the parts that bring a key. */
static void owners(const clt_config_part *const *parts, const char *path, char *out, size_t size)
{
    size_t count = 0, told = 0, used = 0;
    for (size_t i = 0; parts[i]; i++)
        count += clt_config_part_has(parts[i], path);
    for (size_t i = 0; parts[i] && used < size; i++) {
        if (!clt_config_part_has(parts[i], path))
            continue;
        const char *between = told == 0 ? "" : told + 1 == count ? " or " : ", ";
        used += (size_t)snprintf(out + used, size - used, "%s%s", between, parts[i]->name);
        told++;
    }
}

/* Reports a key that the chosen part does not bring, unless its value is the default or empty (0, "", false),
 * which has no effect with any part. */
static void check_key(clt_config_rules *rules, const char *choice, const clt_config_part *part,
                      const clt_config_key *key)
{
    const clt_config_value *value = clt_config_at(rules->config, key->path);
    const clt_config_key *own = key_of(part, key->path);
    char names[160] = "";
    if (!clt_rules_usable(rules, key->path))
        return;
    if (!own && differs(rules, key, value) && !clt_rules_empty(rules, key->path)) {
        owners(clt_config_parts(choice), key->path, names, sizeof names);
        clt_rules_broken(rules, key->path, "only for %s %s; remove it", choice, names);
    } else if (own && own->choices && !clt_config_has_word(own->choices, value->s)) {
        clt_rules_broken(rules, key->path, "'%s' is not possible with %s %s; valid: %s", value->s, choice,
                         part->name, own->choices);
    }
}

static const char *help_of(const clt_config_part *part, const char *path)
{
    const clt_config_key *own = key_of(part, path);
    return own ? own->help : clt_config_schema()[clt_config_key_index(path)].help;
}

void clt_config_check_parts(clt_config_rules *rules)
{
    for (size_t c = 0; c < N_CHOICES; c++) {
        const char *choice = choices[c].key;
        if (!clt_rules_usable(rules, choice))
            continue;
        const clt_config_part *part = clt_config_chosen(rules->config, choice);
        for (const clt_config_key *key = clt_config_schema(); key->path; key++) {
            bool brought = false;
            for (size_t i = 0; choices[c].parts[i]; i++)
                brought |= clt_config_part_has(choices[c].parts[i], key->path);
            if (brought)
                check_key(rules, choice, part, key);
        }
        for (const char *const *path = part->required; path && *path; path++)
            if (clt_rules_empty(rules, *path))
                clt_rules_broken(rules, *path, "required when %s is %s: %s", choice, part->name,
                                 help_of(part, *path));
        if (part->check)
            part->check(rules);
    }
}
