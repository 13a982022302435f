/* SPDX-License-Identifier: Apache-2.0
 *
 * A sheet: columns that say how their numbers are named, formatted and compared, and numbers of each row.
 * Every view (a table on a screen, a page, JSON, CSV) writes its cells by these columns. NAN is an unknown
 * number. */
#ifndef ENGINE_REPORT_READ_SHEET_H
#define ENGINE_REPORT_READ_SHEET_H

#include "engine/json/json.h"

typedef enum clt_form {
    CLT_FORM_STEP,   /* a whole number */
    CLT_FORM_NUMBER, /* 2.302 */
    CLT_FORM_COUNT,  /* 49.7k */
    CLT_FORM_SHARE,  /* a fraction: 0.5 is shown as 50 % */
    CLT_FORM_BYTES,
    CLT_FORM_SECONDS
} clt_form;

/* Says whether the greater or the lesser of two numbers is the better one. */
typedef enum clt_better { CLT_BETTER_NEITHER, CLT_BETTER_LESS, CLT_BETTER_MORE } clt_better;

typedef struct clt_column {
    const char *key, *title; /* name in JSON and CSV; title on a page */
    clt_form form;
    clt_better better;
    bool on_page;     /* pages show the column */
    const char *head; /* short title in a table on a screen; NULL: the table has no such column */
    int decimals;     /* digits after the point, in a table on a screen */
    int rank;         /* in a table on a screen: the columns of the greatest rank are dropped first */
    bool always;      /* shown there even if no row has a number */
} clt_column;

#define CLT_CELL_TEXT 40
/* A cell of a table on a screen; "-": unknown. Returns text. */
const char *clt_cell_text(const clt_column *column, double value, char text[CLT_CELL_TEXT]);
/* A member of the object that is open; null: unknown. */
void clt_cell_json(const clt_column *column, double value, clt_json_writer *w);
/* Cells of CSV, each after a comma unless it is the first of its line; an unknown number is empty. */
void clt_csv_number(clt_str *out, double value);
void clt_csv_text(clt_str *out, const char *text);
/* True if number i of n is the best, and not all known ones are equal. Only numbers k with
 * group[k] == group[i] are compared. */
bool clt_cell_is_best(const clt_column *column, const double *values, const int *group, int n, int i);

#endif
