/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain new: drafts a config for a table. Drops columns from which a model cannot learn, and lists the
 * words that mean a blank cell. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "cli/data/new_config.h"
#include "engine/base/text.h"
#include "engine/config/config.h"
#include "engine/data/tables/table_cells.h"
#include "engine/data/tables/table_columns.h"

#define FEW 10        /* with fewer samples than this, all are used for training */
#define MOST_BLANK 16 /* words that mean a blank cell */

/* Counts of the kinds of cells in a column. */
typedef struct column_look {
    int64_t numbers, blank, missing; /* missing: words such as NA */
    int64_t distinct;
    bool counts; /* the cells count up from 0 or 1 */
} column_look;

typedef struct table_look {
    clt_csv_table table;
    int target;
    column_look *column;
    const char *blank[MOST_BLANK];
    int n_blank;
} table_look;

static void free_look(table_look *l)
{
    clt_csv_unload(&l->table);
    free(l->column);
}
CLT_SCOPED_VALUE(table_look, free_look)

static int by_text(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* cells: room for a cell of each row. */
static void look_at_column(const clt_csv_table *t, int column, const char **cells, column_look *look)
{
    int64_t rows = clt_csv_rows(t);
    double value, before = 0;
    *look = (column_look){.counts = true};
    for (int64_t i = 0; i < rows; i++) {
        const char *cell = cells[i] = clt_csv_cell(t, i, column);
        bool number = clt_csv_is_number(cell, &value);
        look->numbers += number;
        look->blank += !*cell;
        look->missing += !number && clt_table_means_missing(cell);
        double from_first = value - before;
        bool next = i == 0 ? !(value < 0) && !(value > 1) : !(from_first < 1) && !(from_first > 1);
        look->counts = look->counts && number && clt_csv_is_whole(cell) && next;
        before = value;
    }
    qsort(cells, (size_t)rows, sizeof *cells, by_text);
    for (int64_t i = 0; i < rows; i++)
        look->distinct += i == 0 || strcmp(cells[i], cells[i - 1]) != 0;
}

static clt_status look_at_table(const new_config *n, const clt_config *config, table_look *l)
{
    CLT_FREED const char **cells = NULL;
    const char *word = clt_config_string(config, "data.target"), *header;
    header = clt_config_string(config, "data.header");
    CLT_TRY(clt_csv_load(&l->table, n->draft.arena, n->path, header));
    clt_table_empty_blanks(config, &l->table);
    l->target = l->table.columns - 1;
    if (*word)
        CLT_TRY(clt_table_find(&l->table, "data.target", word, &l->target));
    CLT_TRY(clt_alloc(&cells, (size_t)clt_csv_rows(&l->table), sizeof *cells, "the cells of a column"));
    CLT_TRY(clt_alloc(&l->column, (size_t)l->table.columns, sizeof *l->column, "the columns of a table"));
    for (int c = 0; c < l->table.columns; c++)
        look_at_column(&l->table, c, cells, &l->column[c]);
    return CLT_OK;
}

/* --- blank cells --- */

static void add_blank(table_look *l, const char *word)
{
    for (int i = 0; i < l->n_blank; i++)
        if (strcmp(l->blank[i], word) == 0)
            return;
    if (l->n_blank < MOST_BLANK)
        l->blank[l->n_blank++] = word;
}

/* Adds to data.blank the words for missing values in columns whose other cells are numbers. */
static void set_blank(new_config *n, table_look *l)
{
    int64_t rows = clt_csv_rows(&l->table);
    for (int c = 0; c < l->table.columns; c++) {
        const column_look *look = &l->column[c];
        if (look->missing == 0 || look->numbers == 0 || look->numbers + look->missing + look->blank < rows)
            continue;
        for (int64_t i = 0; i < rows; i++)
            if (clt_table_means_missing(clt_csv_cell(&l->table, i, c)))
                add_blank(l, clt_csv_cell(&l->table, i, c));
    }
    if (l->n_blank == 0)
        return;
    draft_texts(&n->draft, "data.blank", l->blank, l->n_blank);
    clt_str_append(&n->found, "taken for blank cells (data.blank):");
    for (int i = 0; i < l->n_blank; i++)
        clt_str_printf(&n->found, "%s '%s'", i ? "," : "", l->blank[i]);
    clt_str_append(&n->found, "\n");
}

/* --- columns that are no inputs --- */

/* True if a name ends like the name of an identifier: id, user_id, PassengerId. */
static bool is_id(const char *name)
{
    size_t n = strlen(name);
    if (n < 2 || tolower((unsigned char)name[n - 2]) != 'i' || tolower((unsigned char)name[n - 1]) != 'd')
        return false;
    return n == 2 || strchr("_- .", name[n - 3]) ||
           (name[n - 2] == 'I' && islower((unsigned char)name[n - 3]));
}

/* Why a column must not be an input; NULL: it may be one. */
static const char *why_not(const table_look *l, int column)
{
    const clt_csv_table *t = &l->table;
    const column_look *look = &l->column[column];
    int64_t rows = clt_csv_rows(t);
    if (look->blank == rows)
        return "all of its cells are blank";
    if (rows < FEW)
        return NULL;
    if (look->distinct == 1)
        return "all of its cells are the same";
    if (look->counts)
        return "it counts the lines";
    if (t->header && is_id(t->cell[column]) && look->distinct == rows)
        return "it identifies the lines";
    if (look->numbers == 0 && look->distinct > 20 && (look->distinct > rows / 2 || look->distinct > 1000))
        return "hardly any of its words is there twice";
    return NULL;
}

/* A column's entry in data.drop_columns: its name, or its number if the name cannot be used there. */
static const char *name_of(const new_config *n, const clt_csv_table *t, int column)
{
    const char *name = t->header ? t->cell[column] : "";
    bool good = *name && clt_text_plain(name) == strlen(name);
    for (int i = 0; i < t->columns && good; i++)
        good = i == column || strcmp(t->cell[i], name) != 0;
    return good ? name : clt_arena_printf(n->draft.arena, "%d", column + 1);
}

/* Drops the columns that must not be inputs, unless no column would be left. */
static clt_status set_drops(new_config *n, const table_look *l)
{
    const clt_csv_table *t = &l->table;
    CLT_FREED const char **names = NULL;
    int count = 0;
    CLT_TRY(clt_alloc(&names, (size_t)t->columns, sizeof *names, "the names of columns"));
    for (int c = 0; c < t->columns; c++)
        if (c != l->target && why_not(l, c) && !(names[count++] = name_of(n, t, c)))
            return CLT_ENOMEM;
    if (count == 0 || count == t->columns - 1)
        return CLT_OK;
    draft_texts(&n->draft, "data.drop_columns", names, count);
    for (int c = 0; c < t->columns; c++) {
        char name[80];
        const char *why = c == l->target ? NULL : why_not(l, c);
        clt_table_column_text(t, c, name, sizeof name);
        if (why)
            clt_str_printf(&n->found, "column %s is dropped (data.drop_columns): %s\n", name, why);
    }
    return CLT_OK;
}

/* Sets data.blank and data.drop_columns unless the command line sets them. */
static clt_status set_columns(new_config *n)
{
    CLT_SCOPED(clt_config) *config = NULL;
    CLT_SCOPED(table_look) look = {.target = 0};
    CLT_TRY(new_config_data(n, &config));
    CLT_TRY(look_at_table(n, config, &look));
    if (!new_config_given(n, "data.blank"))
        set_blank(n, &look);
    if (!new_config_given(n, "data.columns") && !new_config_given(n, "data.drop_columns"))
        CLT_TRY(set_drops(n, &look));
    return CLT_OK;
}

/* --- the config --- */

/* Tells the user if the targets may have another meaning than the one assumed. */
static void tell_targets(new_config *n, const clt_source *source, bool classes)
{
    bool many = clt_source_hardly_repeats(source->distinct, source->samples);
    if (!classes && source->fields[1].is_index)
        clt_str_append(&n->found,
                       "the targets are whole numbers, but do not look like numbers of classes: taken for "
                       "values, not for classes (to train on classes: model.loss cross_entropy)\n");
    if (classes && many)
        clt_str_printf(&n->found,
                       "%lld different targets in %lld lines are many for classes: is it the right column "
                       "(--target)? Not all of them are numbers: %s\n",
                       (long long)source->distinct, (long long)source->samples,
                       source->words ? source->words : "");
}

clt_status new_config_table(new_config *n)
{
    CLT_SCOPED(clt_config) *config = NULL;
    CLT_SCOPED(clt_source) *source = NULL;
    bool classes = false;
    draft_text(&n->draft, "data.type", "csv");
    draft_text(&n->draft, "data.path", n->path);
    if (n->column)
        draft_text(&n->draft, "data.target", n->column);
    CLT_TRY(set_columns(n));
    CLT_TRY(new_config_probe(n, &config, &source));
    classes = source->n_class_names > 0;
    if (!classes)
        CLT_TRY(new_config_are_classes(source, 1, &classes));
    clt_str_printf(&n->found, "%s%s\n", source->description,
                   n->column || new_config_given(n, "data.target")
                       ? ""
                       : " (the last column; another one: --target NAME)");
    tell_targets(n, source, classes);
    CLT_TRY(new_config_tell_prose(n));
    bool small = source->samples < FEW && clt_source_has_eval(config) && !new_config_given(n, "data.split") &&
                 !new_config_given(n, "data.eval_path");
    if (small) {
        draft_number(&n->draft, "data.split", 0);
        clt_str_append(&n->found, "too few lines to keep some for evaluation (data.split 0)\n");
    }
    new_config_mlp(n, source, classes, !small && clt_source_has_eval(config));
    return CLT_OK;
}
