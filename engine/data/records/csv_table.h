/* SPDX-License-Identifier: Apache-2.0
 *
 * A text file cut into cells. Commas, semicolons or tabs separate the cells of a line; a cell in double
 * quotes (RFC 4180) may hold separators and line breaks, unless quotes are plain characters. It must not know
 * what the columns mean. */
#ifndef ENGINE_DATA_RECORDS_CSV_TABLE_H
#define ENGINE_DATA_RECORDS_CSV_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/hash.h"
#include "engine/base/mem.h"

/* A whole file, cut into cells. */
typedef struct clt_csv_table {
    const char *path; /* name of the file for messages; NULL: messages name no place */
    const char
        *expected_from; /* for messages: what gives the expected number of cells; NULL: the first line */
    bool plain;         /* quotes are ordinary characters */
    char *text;         /* the cells point into it */
    size_t size;
    clt_hash64_state content;
    char separator;
    int columns;
    char **cell; /* (rows, columns); the first row holds the names when there is a header */
    size_t cells, capacity;
    int64_t *line; /* for each row, the number of the line in which it begins (empty lines are skipped) */
    size_t lines, line_capacity;
    bool header;
} clt_csv_table;

/* Reads and cuts a file. `header` says whether the first line names the columns: "yes", "no", or "auto" (yes
 * if none of its cells is a number). The message of CLT_EDATA names the line that is wrong. Unload the table
 * even after a failure. */
clt_status clt_csv_load(clt_csv_table *t, clt_arena *arena, const char *path, const char *header);
void clt_csv_unload(clt_csv_table *t);
CLT_SCOPED_VALUE(clt_csv_table, clt_csv_unload)
/* Cuts a single line in place instead of a file. It becomes row 0; if the table has a header, it follows the
 * row of names. The caller keeps the line's text and sets the table's path. If `columns` is 0, the line
 * fixes the separator and the number of cells. */
clt_status clt_csv_cut(clt_csv_table *t, char *line, int64_t number);
/* The separator of a table, found from the line that begins at `line`: a tab, else a semicolon if there is
 * one outside quotes, else a comma. */
char clt_csv_separator(const char *line, const char *end);
/* The line break that ends a row; line breaks within quoted cells do not. NULL: the text ends first. Adds to
 * *breaks the line breaks up to the next row. */
const char *clt_csv_row_end(const clt_csv_table *t, const char *row, const char *end, int64_t *breaks);
/* True if no cell of the first line is a number, so that the line may name the columns. */
bool clt_csv_begins_with_names(const clt_csv_table *t);
/* clt_csv_rows: number of lines with a sample. clt_csv_cell: a cell of such a line. clt_csv_line: the line's
 * number in the file. */
int64_t clt_csv_rows(const clt_csv_table *t);
const char *clt_csv_cell(const clt_csv_table *t, int64_t row, int column);
int64_t clt_csv_line(const clt_csv_table *t, int64_t row);
/* True if a cell is a finite number that f32 can hold; clt_csv_is_whole: true if it is a whole number of 32
 * bits. */
bool clt_csv_is_number(const char *cell, double *value);
bool clt_csv_is_whole(const char *cell);

#endif
