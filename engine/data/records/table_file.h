/* SPDX-License-Identifier: Apache-2.0
 *
 * Records as rows of a table: a file whose name ends in .csv or .tsv, also with .gz after it. Cells become
 * members of a JSON object, named by their columns. */
#ifndef ENGINE_DATA_RECORDS_TABLE_FILE_H
#define ENGINE_DATA_RECORDS_TABLE_FILE_H

#include "engine/config/config.h"
#include "engine/data/texts/texts.h"

/* The config keys of a format whose records may be rows of a table. */
#define CLT_RECORD_TABLE_KEYS                                                                                \
    CLT_KEY_STRINGS("data.column_names", "[]",                                                               \
                    "names of the columns of a .csv or .tsv file without a line of names; [] if the first "  \
                    "line of such a file names them"),                                                       \
        CLT_KEY_CHOICE("data.quotes", "auto|yes|no", "\"auto\"",                                             \
                       "whether cells of a .csv or .tsv file may be in double quotes, in which separators "  \
                       "and line breaks are text; no: quotes are characters like others; auto: yes in .csv " \
                       "and no in .tsv, as GLUE's files have it")

/* Adds each row of the newest file that is not blank as a document; `bytes` is the file's text. The first
 * row names the columns, unless data.column_names does and none of its names is a cell of the first row.
 * *found false: the file's name is not a table's, and nothing was added. CLT_EDATA: two columns have the
 * same name. */
clt_status clt_table_rows(clt_texts *texts, const clt_config *config, const char *bytes, size_t size,
                          bool *found);
/* Appends a row as a JSON object whose members are texts; cells of columns without a name are omitted. The
 * message of CLT_EDATA says why the row cannot be used, for instance a wrong number of cells. */
clt_status clt_table_record(const clt_text_file *file, const char *row, size_t size, clt_str *out);
/* Appends the names of a file's columns, "sentence, label". */
void clt_table_names(const clt_text_file *file, clt_str *out);

#endif
