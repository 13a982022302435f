/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the rows of a table in a text and turns them into JSON objects. csv_table.h cuts the cells. */
#include "engine/data/records/table_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/text.h"
#include "engine/data/records/csv_table.h"
#include "engine/data/texts/characters.h"
#include "engine/json/json.h"

#define NAMES_SHOWN 300 /* limit of the names in a message, in bytes */

/* Facts about a table, to which clt_text_file.about points. */
typedef struct table_about {
    char separator;
    bool plain, given; /* quotes are plain characters; data.column_names gave the names */
    int columns;
    char names[]; /* names of the columns, each with its final NUL */
} table_about;

static clt_csv_table table_of(const table_about *about)
{
    return (clt_csv_table){.separator = about->separator,
                           .plain = about->plain,
                           .columns = about->columns,
                           .expected_from = about->given ? "data.column_names" : NULL};
}

/* --- the rows of a file --- */

static bool is_named(const char *path, const char *end)
{
    char packed[16];
    (void)snprintf(packed, sizeof packed, "%s.gz", end);
    return clt_ends_with(path, end) || clt_ends_with(path, packed);
}

/* The next row that is not blank, without its line break; false at the end. */
static bool next_row(const clt_csv_table *t, const char **at, const char *end, const char **row, size_t *size)
{
    int64_t breaks = 0;
    while (*at < end) {
        const char *stop = clt_csv_row_end(t, *at, end, &breaks);
        *row = *at;
        *size = (size_t)((stop ? stop : end) - *at);
        *at = stop ? stop + 1 : end;
        *size -= *size > 0 && (*row)[*size - 1] == '\r';
        for (size_t i = 0; i < *size; i++)
            if ((*row)[i] != ' ' && (*row)[i] != '\t')
                return true;
    }
    return false;
}

/* Cuts a row without changing its bytes; *copy, which the caller frees, holds its cells. */
static clt_status cut_row(clt_csv_table *t, const char *row, size_t size, char **copy)
{
    CLT_TRY(clt_alloc(copy, size + 1, 1, "a row"));
    memcpy(*copy, row, size);
    size_t valid = clt_utf8_valid(row, size);
    if (strlen(*copy) != size)
        CLT_FAIL(CLT_EDATA, "its byte %zu is zero, which no text has", strlen(*copy) + 1);
    if (valid != size)
        CLT_FAIL(CLT_EDATA, "its byte %zu is not UTF-8; convert the file (iconv -t UTF-8)", valid + 1);
    clt_status status = clt_csv_cut(t, *copy, 1);
    if (status == CLT_EDATA && !t->plain && memchr(row, '\n', size))
        return clt_fail_prefix(status, "a cell begins with a quote and spans several lines "
                                       "(data.quotes=no takes quotes as characters)");
    return status;
}

/* True if the config names the columns and none of these names is a cell of the first row. */
static bool names_are_given(const clt_config *config, const clt_csv_table *first)
{
    int count = clt_config_list_count(config, "data.column_names");
    for (int i = 0; i < count; i++)
        for (int k = 0; k < first->columns; k++)
            if (*first->cell[k] &&
                strcmp(clt_config_list_string(config, "data.column_names", i), first->cell[k]) == 0)
                return false;
    return count > 0;
}

static clt_status keep_about(clt_text_file *file, const clt_csv_table *first, const clt_config *config,
                             bool given)
{
    CLT_SCOPED(clt_str) names = {0};
    int columns = given ? clt_config_list_count(config, "data.column_names") : first->columns;
    for (int i = 0; i < columns; i++) {
        const char *name = given ? clt_config_list_string(config, "data.column_names", i) : first->cell[i];
        for (size_t at = 0; *name && at < names.length; at += strlen(names.text + at) + 1)
            if (strcmp(names.text + at, name) == 0)
                CLT_FAIL(CLT_EDATA, "two columns have the name '%.60s'%s", name,
                         given ? " (data.column_names)"
                               : "; if the first line names no columns, name them with data.column_names");
        clt_str_append_n(&names, name, strlen(name) + 1);
    }
    CLT_TRY(clt_str_check(&names));
    table_about *about = malloc(sizeof *about + names.length);
    if (!about)
        CLT_FAIL(CLT_ENOMEM, "reading samples: out of host memory");
    *about = (table_about){first->separator, first->plain, given, columns};
    memcpy(about->names, names.text, names.length);
    file->about = about;
    return CLT_OK;
}

clt_status clt_table_rows(clt_texts *texts, const clt_config *config, const char *bytes, size_t size,
                          bool *found)
{
    clt_text_file *file = &texts->files[texts->n_files - 1];
    const char *quotes = clt_config_string(config, "data.quotes"), *at = bytes, *end = bytes + size, *row;
    bool tabs = is_named(file->path, ".tsv");
    size_t length;
    *found = tabs || is_named(file->path, ".csv");
    if (!*found)
        return CLT_OK;
    CLT_SCOPED(clt_csv_table) first = {.separator = tabs ? '\t' : clt_csv_separator(bytes, end),
                                       .plain = strcmp(quotes, "no") == 0 ||
                                                (tabs && strcmp(quotes, "auto") == 0)};
    CLT_FREED char *copy = NULL;
    if (!next_row(&first, &at, end, &row, &length))
        return CLT_OK;
    CLT_TRY(clt_fail_prefix(cut_row(&first, row, length, &copy), "the first line"));
    bool given = names_are_given(config, &first);
    CLT_TRY(keep_about(file, &first, config, given));
    if (given)
        at = bytes;
    while (next_row(&first, &at, end, &row, &length))
        CLT_TRY(clt_texts_document(texts, row, length, 0));
    return CLT_OK;
}

/* --- one row --- */

clt_status clt_table_record(const clt_text_file *file, const char *row, size_t size, clt_str *out)
{
    const table_about *about = file->about;
    CLT_SCOPED(clt_csv_table) t = table_of(about);
    CLT_FREED char *copy = NULL;
    CLT_TRY(cut_row(&t, row, size, &copy));
    clt_json_writer w = clt_json_writer_make(out, 0);
    const char *name = about->names;
    clt_jw_object(&w);
    for (int i = 0; i < about->columns; i++, name += strlen(name) + 1)
        if (*name)
            clt_jw_kstring(&w, name, t.cell[i]);
    clt_jw_end_object(&w);
    return clt_str_check(out);
}

void clt_table_names(const clt_text_file *file, clt_str *out)
{
    const table_about *about = file->about;
    const char *name = about ? about->names : "";
    size_t before = out->length;
    for (int i = 0; about && i < about->columns && out->length < before + NAMES_SHOWN; i++) {
        clt_str_printf(out, "%s'%.60s'", i ? ", " : "", name);
        name += strlen(name) + 1;
    }
}
