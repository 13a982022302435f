/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns lines of a table whose columns are known into inputs of samples, one after another. The lines
 * come from the standard input, or from files with blanks between cells; this file does not know from
 * which. */
#ifndef ENGINE_DATA_TABLES_ROWS_TABLE_H
#define ENGINE_DATA_TABLES_ROWS_TABLE_H

#include "engine/data/tables/table_columns.h"

typedef struct clt_rows_table {
    const clt_table *table; /* borrowed; NULL: lines are not rows of a table */
    const clt_config *run;  /* the run's config, for data.header and data.blank */
    clt_csv_table cut;      /* the table of one line; its path is for messages */
    clt_arena *arena;
    int *columns; /* see clt_table_locate; NULL: no line was taken yet */
    clt_table_tally *tally;
    int64_t samples;
} clt_rows_table;

/* True if blanks separate the cells of a line: it has no other separator and no quotes, and its number of
 * words equals the table's number of columns or inputs. False for a table with one input, whose cells may
 * contain blanks. */
bool clt_rows_table_has_blanks(const clt_table *table, const char *line);
/* Writes the elements of x from a line to `out`; the line's bytes are changed. *names: true if the line
 * names the columns instead. The message of CLT_EDATA names the line. */
clt_status clt_rows_table_take(clt_rows_table *t, char *line, int64_t number, double *out, bool *names);
/* Logs how many blank cells and unknown words the lines had. */
void clt_rows_table_tell(const clt_rows_table *t);
void clt_rows_table_free(clt_rows_table *t);

#endif
