/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns lines of a table whose columns are known into inputs, one line at a time. */
#include "engine/data/tables/rows_table.h"

#include <stdlib.h>
#include <string.h>

#include "engine/data/tables/table_cells.h"

/* --- cells between blanks --- */

bool clt_rows_table_has_blanks(const clt_table *table, const char *line)
{
    int words = 0;
    if (table->n_columns < 2 || strpbrk(line, ",;\t\""))
        return false;
    for (const char *at = line + strspn(line, " "); *at; at += strspn(at, " ")) {
        at += strcspn(at, " ");
        words++;
    }
    return words == table->n_columns || words == table->width;
}

/* Replaces the blanks between two cells by a tab. */
static void join_blanks(char *line)
{
    char *to = line;
    for (const char *from = line + strspn(line, " "); *from;) {
        size_t word = strcspn(from, " ");
        memmove(to, from, word);
        to += word;
        from += word;
        from += strspn(from, " ");
        if (*from)
            *to++ = '\t';
    }
    *to = '\0';
}

/* --- the first line --- */

/* True if a cell of the first line is the name of a known column. */
static bool has_known_name(const clt_rows_table *t)
{
    for (int c = 0; c < t->cut.columns; c++)
        for (int i = 0; i < t->table->n_columns; i++)
            if (t->table->columns[i].name && strcmp(t->cut.cell[c], t->table->columns[i].name) == 0)
                return true;
    return false;
}

/* True if the first line can be a sample whose columns are found by their order: no column of numbers holds
 * text. */
static bool can_be_sample(const clt_rows_table *t, const int *at)
{
    double value;
    for (int i = 0; i < t->table->n_columns; i++) {
        const char *cell = t->cut.cell[at[i]];
        if (t->table->columns[i].n_words == 0 && !clt_table_is_blank(t->run, cell) &&
            !clt_csv_is_number(cell, &value))
            return false;
    }
    return true;
}

/* True if the first line names the columns. With data.header=auto: if none of its cells is a number, and it
 * has a known name or cannot be a sample. */
static bool has_names(clt_rows_table *t)
{
    int *at;
    const char *header = clt_config_string(t->run, "data.header");
    if (strcmp(header, "auto") != 0)
        return strcmp(header, "yes") == 0;
    if (!clt_csv_begins_with_names(&t->cut))
        return false;
    if (has_known_name(t))
        return true;
    bool fits = clt_table_locate(t->table, &t->cut, t->arena, &at) == CLT_OK;
    clt_error_clear();
    return !fits || !can_be_sample(t, at);
}

static clt_status begin(clt_rows_table *t, bool *names)
{
    CLT_TRY(clt_arena_create(&t->arena));
    *names = has_names(t);
    for (int c = 0; *names && c < t->cut.columns; c++)
        if (!(t->cut.cell[c] = clt_arena_strdup(t->arena, t->cut.cell[c])))
            return CLT_ENOMEM;
    t->cut.header = *names;
    t->tally = clt_arena_alloc(t->arena, (size_t)t->table->n_columns * sizeof *t->tally);
    return t->tally ? clt_table_locate(t->table, &t->cut, t->arena, &t->columns) : CLT_ENOMEM;
}

/* --- all lines --- */

/* Copies the words that clt_rows_table_tell logs, since they must outlive their line. */
static clt_status keep_words(clt_rows_table *t, int64_t line)
{
    for (int i = 0; i < t->table->n_columns; i++) {
        clt_table_tally *tally = &t->tally[i];
        if (tally->unknown > 0 && tally->first_line == line &&
            !(tally->word = clt_arena_strdup(t->arena, tally->word)))
            return CLT_ENOMEM;
    }
    return CLT_OK;
}

clt_status clt_rows_table_take(clt_rows_table *t, char *line, int64_t number, double *out, bool *names)
{
    *names = false;
    /* the first line fixes the separator of all lines */
    if ((!t->columns || t->cut.separator == '\t') && clt_rows_table_has_blanks(t->table, line))
        join_blanks(line);
    CLT_TRY(clt_csv_cut(&t->cut, line, number));
    if (!t->columns)
        CLT_TRY(begin(t, names));
    if (*names)
        return CLT_OK;
    clt_table_empty_blanks(t->run, &t->cut);
    t->samples++;
    CLT_TRY(clt_table_numbers(t->table, &t->cut, t->columns, 0, t->tally, out));
    return keep_words(t, number);
}

void clt_rows_table_tell(const clt_rows_table *t)
{
    if (t->columns)
        clt_table_tell(t->table, &t->cut, t->columns, t->tally, t->cut.path, t->samples);
}

void clt_rows_table_free(clt_rows_table *t)
{
    free(t->cut.cell);
    free(t->cut.line);
    clt_arena_destroy(t->arena);
}
