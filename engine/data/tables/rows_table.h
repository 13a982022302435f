/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines of a table whose columns are known, one after another, as the inputs of samples: what stands on the
 * standard input, and files whose cells are separated by blanks. It does not know where lines come from. */
#ifndef ENGINE_DATA_TABLES_ROWS_TABLE_H
#define ENGINE_DATA_TABLES_ROWS_TABLE_H

#include "engine/data/tables/table_columns.h"

typedef struct clt_rows_table {
    const clt_table *table; /* borrowed; NULL: lines are no rows of a table */
    const char *header;     /* data.header of the run */
    clt_csv_table cut;      /* one line; its path is for messages */
    clt_arena *arena;
    int *columns; /* see clt_table_locate; NULL: no line was taken yet */
    clt_table_tally *tally;
    int64_t samples;
} clt_rows_table;

/* Whether the cells of a line are separated by blanks: without another separator or quotes there are as
 * many words between blanks as the table has columns or inputs. The only input of a table may have blanks
 * itself. */
bool clt_rows_table_has_blanks(const clt_table *table, const char *line);
/* Takes a line, which it changes: the elements of x go to out. *names: it names the columns instead.
 * CLT_EDATA names the line. */
clt_status clt_rows_table_take(clt_rows_table *t, char *line, int64_t number, double *out, bool *names);
/* Logs what the lines had of blank cells and unknown words. */
void clt_rows_table_tell(const clt_rows_table *t);
void clt_rows_table_free(clt_rows_table *t);

#endif
