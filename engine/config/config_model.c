/* SPDX-License-Identifier: Apache-2.0
 *
 * The model section as a document for the model builder. Values from the file are put at the line and column
 * they have there, so that the builder's messages point into the user's file. Knows nothing of what the
 * values mean. */
#include <stdlib.h>
#include <string.h>

#include "engine/config/config_internal.h"

#define MAX_MODEL_KEYS 64

static bool in_model(int index)
{
    return strncmp(clt_config_schema()[index].path, "model.", 6) == 0;
}

static int by_place(const void *left, const void *right)
{
    const clt_config_value *a = *(const clt_config_value *const *)left,
                           *b = *(const clt_config_value *const *)right;
    if (a->line != b->line)
        return a->line < b->line ? -1 : 1;
    return (a->column > b->column) - (a->column < b->column);
}

/* The file holds at least as many bytes before a value as are written here, so the place is reached unless an
 * override took something out of its way; then the place is a little off. */
static void pad_to(clt_str *out, int line, int column)
{
    int at_line = 1, at_column = 1;
    for (size_t i = 0; i < out->length; i++) {
        at_column = out->text[i] == '\n' ? 1 : at_column + 1;
        at_line += out->text[i] == '\n';
    }
    for (; at_line < line; at_line++, at_column = 1)
        clt_str_append(out, "\n");
    for (; at_line == line && at_column < column; at_column++)
        clt_str_append(out, " ");
}

static void write_member(const clt_config *config, const clt_config_value *value, bool first, clt_str *out)
{
    const char *path = clt_config_schema()[value - config->values].path;
    clt_str_printf(out, "%s\"%s\":", first ? "" : ",", path + strlen("model."));
    if (value->from == CLT_FROM_FILE)
        pad_to(out, value->line, value->column);
    clt_str_append(out, value->raw);
}

static void write_section(const clt_config *config, clt_str *out)
{
    const clt_config_value *placed[MAX_MODEL_KEYS];
    size_t n_placed = 0, written = 0;
    clt_str_append(out, "{\"model\":{");
    for (int i = 0; clt_config_schema()[i].path && n_placed < MAX_MODEL_KEYS; i++)
        if (in_model(i) && config->values[i].from == CLT_FROM_FILE)
            placed[n_placed++] = &config->values[i];
    if (n_placed > 1)
        qsort(placed, n_placed, sizeof *placed, by_place);
    for (; written < n_placed; written++)
        write_member(config, placed[written], written == 0, out);
    for (int i = 0; clt_config_schema()[i].path; i++)
        if (in_model(i) && config->values[i].raw && config->values[i].from != CLT_FROM_FILE)
            write_member(config, &config->values[i], written++ == 0, out);
    clt_str_append(out, "}}");
}

clt_status clt_config_build_model(clt_config *config)
{
    const clt_config_value *layers = clt_config_at(config, "model.layers");
    const char *source = layers->from == CLT_FROM_OVERRIDE ? layers->source : config->source;
    clt_str text = {0};
    clt_json_doc *doc = NULL;
    write_section(config, &text);
    clt_status status = clt_str_check(&text);
    if (status == CLT_OK)
        status = clt_json_parse(text.text, text.length, source, CLT_EINTERNAL, &doc);
    clt_str_free(&text);
    if (status != CLT_OK)
        return status;
    clt_json_destroy(config->model);
    config->model = doc;
    return CLT_OK;
}

const clt_json *clt_config_model(const clt_config *config, const clt_json_doc **doc)
{
    if (doc)
        *doc = config->model;
    return config->model ? clt_json_get(clt_json_root(config->model), "model") : NULL;
}
