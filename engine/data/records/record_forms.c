/* SPDX-License-Identifier: Apache-2.0
 *
 * Chooses the reader of a file of records by the file's name and content, and makes its records. */
#include "engine/data/records/record_forms.h"

#include <string.h>

#include "engine/base/text.h"
#include "engine/data/records/column_file.h"
#include "engine/data/records/squad_file.h"
#include "engine/data/records/table_file.h"
#include "engine/json/json_walk.h"

/* Bits of clt_text_file.detail for columns: their number, and these flags. */
enum { COLUMNS_TABS = 1 << 16, COLUMNS_NUMBERED = 1 << 17 };

static clt_status cut_paragraph(void *context, const char *paragraph, size_t size, size_t at)
{
    clt_texts *texts = context;
    int64_t count = 0;
    CLT_TRY(
        clt_fail_prefix(clt_squad_questions(paragraph, size, &count), "the paragraph at byte %zu", at + 1));
    for (int64_t i = 0; i < count; i++)
        CLT_TRY(clt_texts_document(texts, paragraph, size, i));
    return CLT_OK;
}

clt_status clt_squad_cut(clt_texts *texts, const char *bytes, size_t size)
{
    bool found;
    CLT_TRY(clt_squad_walk(bytes, size, cut_paragraph, texts, &found));
    if (found)
        texts->files[texts->n_files - 1].form = CLT_RECORD_SQUAD;
    return CLT_OK;
}

/* True if the file's name, perhaps with .gz after it, or its first text says that its records are JSON. */
static bool is_json(const char *path, const char *bytes, size_t size)
{
    static const char *const ends[] = {".json", ".jsonl", ".ndjson", ".json.gz", ".jsonl.gz", ".ndjson.gz"};
    size_t at = 0;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (clt_ends_with(path, ends[i]))
            return true;
    if (clt_json_starts_list(bytes, size))
        return true;
    while (at < size && bytes[at] && strchr(" \t\r\n", bytes[at]))
        at++;
    if (at == size || bytes[at++] != '{')
        return false;
    while (at < size && bytes[at] == ' ')
        at++;
    return at < size && (bytes[at] == '"' || bytes[at] == '}');
}

static clt_status cut_sentence(void *context, const char *sentence, size_t size, int64_t line)
{
    return clt_texts_document(context, sentence, size, line);
}

clt_status clt_columns_cut(clt_texts *texts, const char *bytes, size_t size)
{
    clt_text_file *file = &texts->files[texts->n_files - 1];
    clt_columns c;
    if (is_json(file->path, bytes, size))
        return CLT_OK;
    CLT_TRY(clt_columns_walk(bytes, size, cut_sentence, texts, &c));
    file->form = CLT_RECORD_COLUMNS;
    file->detail = c.count | (c.tabs ? COLUMNS_TABS : 0) | (c.numbered ? COLUMNS_NUMBERED : 0);
    return CLT_OK;
}

static clt_status sentence_json(const clt_text_file *file, const clt_document *d, clt_str *made)
{
    const clt_columns c = {.count = file->detail & 0xffff,
                           .tabs = file->detail & COLUMNS_TABS,
                           .numbered = file->detail & COLUMNS_NUMBERED};
    return clt_columns_record(&c, d->bytes, (size_t)d->size, d->part, made);
}

clt_status clt_table_cut(clt_texts *texts, const char *bytes, size_t size)
{
    bool found;
    CLT_TRY(clt_table_rows(texts, texts->cut_with, bytes, size, &found));
    if (found)
        texts->files[texts->n_files - 1].form = CLT_RECORD_TABLE;
    return CLT_OK;
}

clt_status clt_record_json(const clt_texts *texts, const clt_document *d, clt_str *made, const char **line,
                           size_t *size)
{
    *line = d->bytes;
    *size = (size_t)d->size;
    const clt_text_file *file = &texts->files[d->file];
    if (file->form == CLT_RECORD_LINES)
        return CLT_OK;
    made->length = 0;
    if (file->form == CLT_RECORD_COLUMNS)
        CLT_TRY(sentence_json(file, d, made));
    else if (file->form == CLT_RECORD_TABLE)
        CLT_TRY(clt_table_record(file, d->bytes, (size_t)d->size, made));
    else
        CLT_TRY(clt_squad_record(d->bytes, (size_t)d->size, d->part, made));
    CLT_TRY(clt_str_check(made));
    *line = made->text;
    *size = made->length;
    return CLT_OK;
}
