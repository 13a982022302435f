/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints a resolved config as JSON that parses again, and the schema as JSON and as Markdown. */
#include <string.h>

#include "engine/base/text.h"
#include "engine/config/config_internal.h"

static size_t section_length(const char *path)
{
    return strcspn(path, ".");
}

static bool same_section(const char *a, const char *b)
{
    size_t n = section_length(a);
    return n == section_length(b) && strncmp(a, b, n) == 0;
}

void clt_config_write_value(clt_json_writer *w, const clt_config_key *key, const clt_config_value *value)
{
    switch (key->type) {
    case CLT_CFG_INT:
        clt_jw_int(w, value->i);
        break;
    case CLT_CFG_AUTO_INT:
        if (value->i < 0)
            clt_jw_string(w, "auto");
        else
            clt_jw_int(w, value->i);
        break;
    case CLT_CFG_FLOAT:
        clt_jw_double(w, value->f);
        break;
    case CLT_CFG_BOOL:
        clt_jw_bool(w, value->b);
        break;
    case CLT_CFG_STRING:
    case CLT_CFG_CHOICE:
        clt_jw_string(w, value->s);
        break;
    case CLT_CFG_INTS:
    case CLT_CFG_STRINGS:
        clt_jw_array(w);
        for (int i = 0; i < value->count; i++) {
            if (key->type == CLT_CFG_INTS)
                clt_jw_int(w, value->ints[i]);
            else
                clt_jw_string(w, value->strings[i]);
        }
        clt_jw_end_array(w);
        break;
    case CLT_CFG_FLOATS: /* one number is written without brackets */
        if (value->count != 1)
            clt_jw_array(w);
        for (int i = 0; i < value->count; i++)
            clt_jw_double(w, value->floats[i]);
        if (value->count != 1)
            clt_jw_end_array(w);
        break;
    case CLT_CFG_LAYERS: /* clt_config_print writes these, from the document of the model section */
        break;
    }
}

clt_status clt_config_print(const clt_config *config, bool with_origin, clt_str *out)
{
    clt_json_writer w = clt_json_writer_make(out, 2);
    clt_jw_object(&w);
    for (int i = 0; clt_config_schema()[i].path; i++) {
        const char *path = clt_config_schema()[i].path;
        char section[32] = {0};
        if (i == 0 || !same_section(path, clt_config_schema()[i - 1].path)) {
            memcpy(section, path, section_length(path));
            clt_jw_kobject(&w, section);
        }
        clt_jw_key(&w, path + section_length(path) + 1);
        if (clt_config_schema()[i].type == CLT_CFG_LAYERS)
            clt_jw_value(&w, clt_json_get(clt_config_model(config, NULL), "layers"));
        else
            clt_config_write_value(&w, &clt_config_schema()[i], &config->values[i]);
        if (!clt_config_schema()[i + 1].path || !same_section(path, clt_config_schema()[i + 1].path))
            clt_jw_end_object(&w);
    }
    if (with_origin) {
        clt_jw_kobject(&w, "_origin");
        for (int i = 0; clt_config_schema()[i].path; i++)
            clt_jw_kstring(&w, clt_config_schema()[i].path,
                           clt_config_origin(config, clt_config_schema()[i].path));
        clt_jw_end_object(&w);
    }
    clt_jw_end_object(&w);
    clt_str_append(out, "\n");
    return clt_str_check(out);
}

static const char *type_name(clt_config_type type)
{
    static const char *const names[] = {"integer",
                                        "number",
                                        "boolean",
                                        "string",
                                        "choice",
                                        "list of integers",
                                        "string or list of strings",
                                        "integer or \"auto\"",
                                        "list of layers",
                                        "number or list of numbers"};
    return names[type];
}

static bool has_range(const clt_config_key *key)
{
    return key->type == CLT_CFG_INT || key->type == CLT_CFG_FLOAT || key->type == CLT_CFG_INTS ||
           key->type == CLT_CFG_AUTO_INT || key->type == CLT_CFG_FLOATS;
}

static void write_choices(clt_json_writer *w, const char *choices)
{
    clt_jw_karray(w, "choices");
    for (const char *c = choices; *c;) {
        char word[64] = {0};
        size_t n = strcspn(c, "|");
        memcpy(word, c, n < sizeof word ? n : sizeof word - 1);
        clt_jw_string(w, word);
        c += n + (c[n] == '|');
    }
    clt_jw_end_array(w);
}

static clt_status write_key(clt_json_writer *w, const clt_config_key *key)
{
    clt_jw_object(w);
    clt_jw_kstring(w, "key", key->path);
    bool layers = key->type == CLT_CFG_LAYERS; /* one row describes the key of all families */
    clt_jw_kstring(w, "type", layers ? "integer or list of layers" : type_name(key->type));
    clt_jw_kbool(w, "required", !key->default_text);
    if (key->default_text) {
        clt_json_doc *doc = NULL;
        CLT_TRY(clt_json_parse(key->default_text, strlen(key->default_text), key->path, CLT_EINTERNAL, &doc));
        clt_jw_key(w, "default");
        clt_jw_value(w, clt_json_root(doc));
        clt_json_destroy(doc);
    }
    if (key->choices)
        write_choices(w, key->choices);
    if (has_range(key) || layers) {
        clt_jw_kdouble(w, key->min_exclusive ? "above" : "minimum", key->min);
        clt_jw_kdouble(w, key->max_exclusive ? "below" : "maximum", key->max);
    }
    if (*key->unit)
        clt_jw_kstring(w, "unit", key->unit);
    clt_jw_kstring(w, "help", key->help);
    clt_jw_end_object(w);
    return CLT_OK;
}

clt_status clt_config_print_schema(clt_str *out)
{
    clt_json_writer w = clt_json_writer_make(out, 2);
    clt_jw_object(&w);
    clt_jw_karray(&w, "keys");
    for (const clt_config_key *key = clt_config_schema(); key->path; key++)
        CLT_TRY(write_key(&w, key));
    clt_jw_end_array(&w);
    clt_jw_end_object(&w);
    clt_str_append(out, "\n");
    return clt_str_check(out);
}

/* Appends a cell of a Markdown table; a '|' in it is escaped. */
static void cell(clt_str *out, const char *text)
{
    for (; *text; text++)
        clt_str_append_n(out, *text == '|' ? "\\|" : text, *text == '|' ? 2 : 1);
}

static void valid_cell(const clt_config_key *key, clt_str *out)
{
    char low[CLT_NUMBER_TEXT], high[CLT_NUMBER_TEXT];
    if (key->choices) {
        for (const char *c = key->choices; *c;) {
            size_t n = strcspn(c, "|");
            clt_str_printf(out, "`%.*s`%s", (int)n, c, c[n] ? ", " : "");
            c += n + (c[n] == '|');
        }
        return;
    }
    bool number = key->type == CLT_CFG_LAYERS && *key->unit;
    clt_str_append(out, number ? "integer" : type_name(key->type));
    if (!has_range(key) && !number)
        return;
    clt_double_text(key->min, low);
    clt_double_text(key->max, high);
    if (key->min == key->max)
        clt_str_printf(out, ", %s", low);
    else
        clt_str_printf(out, ", %s%s to %s%s", key->min_exclusive ? "above " : "", low,
                       key->max_exclusive ? "below " : "", high);
    if (*key->unit)
        clt_str_printf(out, " %s", key->unit);
}

static void table_head(clt_str *out)
{
    clt_str_append(out, "| key | valid | default | meaning |\n|---|---|---|---|\n");
}

static void table_row(const clt_config_key *key, bool required, clt_str *out)
{
    clt_str_printf(out, "| `%s` | ", key->path);
    valid_cell(key, out);
    if (required || !key->default_text)
        clt_str_append(out, " | required | ");
    else
        clt_str_printf(out, " | `%s` | ", key->default_text);
    cell(out, key->help);
    clt_str_append(out, " |\n");
}

static bool is_required(const clt_config_part *part, const clt_config_key *key)
{
    for (const char *const *path = part->required; path && *path; path++)
        if (strcmp(*path, key->path) == 0)
            return true;
    return false;
}

/* Appends a table for each part of a choice with the keys that it brings. */
static void write_parts(const char *choice, clt_str *out)
{
    for (const clt_config_part *const *part = clt_config_parts(choice); part && *part; part++) {
        clt_str_printf(out, "\n### %s `%s`\n\n%s.\n", choice, (*part)->name, (*part)->help);
        if (!(*part)->keys)
            continue;
        clt_str_append(out, "\n");
        table_head(out);
        for (const clt_config_key *key = (*part)->keys; key->path; key++)
            table_row(key, is_required(*part, key), out);
    }
}

static bool in_section(const clt_config_key *key, const char *path)
{
    return key->path && same_section(key->path, path);
}

clt_status clt_config_print_markdown(clt_str *out)
{
    clt_str_append(
        out,
        "# Configuration\n\n"
        "Written by `cltrain config --markdown` from the schema; change `engine/config/schema.c` or the file "
        "of the\nmodel family, data format or optimizer, not this page.\n"
        "A config is one JSON file with the sections below. `section.key=value` on the command line "
        "overrides a\n"
        "key. Unknown, duplicate, ill-typed and out-of-range keys are errors, and all of them are reported "
        "together.\n");
    for (const clt_config_key *key = clt_config_common; key->path;) {
        const char *section = key->path;
        const clt_config_key *first = key;
        clt_str_printf(out, "\n## %.*s\n\n", (int)section_length(section), section);
        table_head(out);
        for (; in_section(key, section); key++)
            table_row(&clt_config_schema()[clt_config_key_index(key->path)], false, out);
        for (const clt_config_key *choice = first; choice != key; choice++)
            write_parts(choice->path, out);
    }
    return clt_str_check(out);
}
