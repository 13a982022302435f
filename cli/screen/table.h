/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables of text for a screen of a given width. If there is not enough room, the least important columns are
 * dropped, and long cells are wrapped within their own column. Text is appended to a string; only
 * table_print prints. */
#ifndef CLI_SCREEN_TABLE_H
#define CLI_SCREEN_TABLE_H

#include <stdbool.h>

#include "engine/base/mem.h"

#define TABLE_COLUMNS 20

typedef struct table_column {
    const char *title; /* NULL in all columns: the table has no line of titles */
    /* usual width of its cells; longer cells wrap, or push the rest of the line to the right if the screen
     * has no limit */
    int width;
    int least;  /* least width when the column is narrowed; 0: it is never narrowed */
    int rank;   /* 0: always shown; columns with the greatest rank are dropped first */
    bool right; /* aligned to the right */
} table_column;

typedef struct table {
    const table_column *columns; /* borrowed */
    int count, screen;
    int width[TABLE_COLUMNS]; /* actual widths; 0: the column is not shown */
} table;

/* screen: width of the terminal; 0: no limit, so that no column is dropped and no cell is wrapped. */
void table_make(table *t, const table_column *columns, int count, int screen);
/* Each function appends complete lines. cells: one for each column, also for dropped columns; NULL is "". */
void table_head(const table *t, clt_str *out);
void table_row(const table *t, const char *const *cells, clt_str *out);
/* Prints the text and empties it. */
void table_print(clt_str *text);

#endif
