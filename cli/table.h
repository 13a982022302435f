/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables for people: columns as wide as they need to be on a screen of a given width. Where there is not
 * enough room, the columns that matter least are left out, and long cells go on below within their own
 * column. Text goes to a string: table_print alone prints. */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include <stdbool.h>

#include "engine/base/mem.h"

#define TABLE_COLUMNS 16

typedef struct table_column {
    const char *title; /* NULL in all columns: no line of titles */
    int width;  /* that its cells usually need; longer ones wrap, or push the rest where there is room */
    int least;  /* may be made so narrow, and wraps then; 0: never narrower */
    int rank;   /* 0: always shown; else the column with the greatest rank is left out first */
    bool right; /* aligned to the right */
} table_column;

typedef struct table {
    const table_column *columns; /* borrowed */
    int count, screen;
    int width[TABLE_COLUMNS]; /* as laid out; 0: left out */
} table;

/* screen: columns of the terminal; 0: it has no width, nothing is left out or wrapped. */
void table_make(table *t, const table_column *columns, int count, int screen);
/* Each appends whole lines. cells: one for each column, also for those left out; NULL is "". */
void table_head(const table *t, clt_str *out);
void table_row(const table *t, const char *const *cells, clt_str *out);
/* Text that goes on below itself: lines after the first begin with `indent` spaces. The first begins at
 * column `at`, where the caller has written already. */
void table_wrap(const char *text, int at, int indent, int screen, clt_str *out);
/* To the standard output, and empties the text. */
void table_print(clt_str *text);

#endif
