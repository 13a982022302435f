/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds columns by name or number, learns them from the training part, and turns rows into numbers. */
#include "engine/data/tables/table_columns.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/rng.h"
#include "engine/base/text.h"
#include "engine/data/tables/table_cells.h"

#define MAX_WORDS 65536
#define MAX_INPUT_WORDS 1000 /* limit of words in an input column, since each is an element of x */

/* --- finding and naming --- */

void clt_table_column_text(const clt_csv_table *t, int column, char *out, size_t size)
{
    if (t->header)
        (void)snprintf(out, size, "'%.60s'", t->cell[column]);
    else
        (void)snprintf(out, size, "%d", column + 1);
}

clt_status clt_table_bad_cell(const clt_csv_table *t, int64_t row, int column, const char *what)
{
    char name[80];
    clt_table_column_text(t, column, name, sizeof name);
    CLT_FAIL(CLT_EDATA, "reading '%s': line %lld, column %s: '%.60s' %s", t->path,
             (long long)clt_csv_line(t, row), name, clt_csv_cell(t, row, column), what);
}

clt_status clt_table_target_missing(const clt_csv_table *t, int64_t row, int column)
{
    char name[80];
    clt_table_column_text(t, column, name, sizeof name);
    CLT_FAIL(CLT_EDATA, "reading '%s': line %lld, column %s: the target is missing; remove the line", t->path,
             (long long)clt_csv_line(t, row), name);
}

static clt_status find_name(const clt_csv_table *t, const char *key, const char *word, int *found)
{
    *found = -1;
    for (int i = 0; t->header && i < t->columns; i++)
        if (strcmp(t->cell[i], word) == 0) {
            if (*found >= 0)
                CLT_FAIL(CLT_EDATA,
                         "reading '%s': %s: columns %d and %d are both named '%.60s'; give the number of one "
                         "of them, or rename it",
                         t->path, key, *found + 1, i + 1, word);
            *found = i;
        }
    return CLT_OK;
}

clt_status clt_table_find(const clt_csv_table *t, const char *key, const char *word, int *column)
{
    char *end;
    long number = strtol(word, &end, 10);
    CLT_TRY(find_name(t, key, word, column));
    if (*column >= 0)
        return CLT_OK;
    if (*end == '\0' && number >= 1 && number <= t->columns) {
        *column = (int)number - 1;
        return CLT_OK;
    }
    const char *near =
        t->header ? clt_nearest_name(word, (const char *const *)t->cell, (size_t)t->columns) : NULL;
    CLT_FAIL(CLT_EDATA, "reading '%s': %s: there is no column '%.60s'%s%.60s%s; %s %d column%s", t->path, key,
             word, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "",
             t->header ? "the first line names" : "it has no names in its first line and", t->columns,
             CLT_PLURAL(t->columns));
}

/* --- words --- */

clt_status clt_table_check_word(const clt_csv_table *t, int64_t row, int column, const char *what)
{
    char name[80];
    const char *cell = clt_csv_cell(t, row, column);
    size_t plain = clt_text_plain(cell);
    if (!cell[plain])
        return CLT_OK;
    clt_table_column_text(t, column, name, sizeof name);
    CLT_FAIL(CLT_EDATA,
             "reading '%s': line %lld, column %s: %s '%.60s' has the byte 0x%02x at place %zu (byte %zu of "
             "the file), which is %s",
             t->path, (long long)clt_csv_line(t, row), name, what, cell, (unsigned char)cell[plain],
             plain + 1, (size_t)(cell - t->text) + plain,
             (unsigned char)cell[plain] < 0x80 ? "a control character; remove it"
                                               : "not UTF-8; save the table as UTF-8");
}

static int by_text(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

clt_status clt_table_words(const clt_csv_table *t, int column, const clt_split_part *part, const char *what,
                           clt_arena *arena, const char ***words, int64_t *count)
{
    const char **all = clt_arena_alloc(arena, (size_t)(part->count + 1) * sizeof *all);
    *count = 0;
    if (!all)
        return CLT_ENOMEM;
    for (int64_t row = 0; row < clt_csv_rows(t); row++) /* all rows, in the order of the file */
        CLT_TRY(clt_table_check_word(t, row, column, what));
    for (int64_t i = 0; i < part->count; i++)
        all[i] = clt_csv_cell(t, clt_split_row(part, i), column);
    qsort(all, (size_t)part->count, sizeof *all, by_text);
    for (int64_t i = 0; i < part->count; i++)
        if (*count == 0 || strcmp(all[*count - 1], all[i]) != 0)
            all[(*count)++] = all[i];
    if (*count > MAX_WORDS)
        CLT_FAIL(CLT_EDATA, "reading '%s': a column holds more than %d words; is it the right one?", t->path,
                 MAX_WORDS);
    *words = all;
    return CLT_OK;
}

int64_t clt_table_word(const char *const *words, int64_t count, const char *word)
{
    const char *const *found = bsearch(&word, words, (size_t)count, sizeof *words, by_text);
    return found ? found - words : -1;
}

/* --- numbers --- */

bool clt_table_standardizes(const clt_config *config)
{
    return clt_config_bool(config, "data.standardize") && clt_config_float(config, "data.scale") == 0 &&
           clt_config_list_count(config, "data.mean") == 1 && clt_config_float(config, "data.mean") == 0 &&
           clt_config_list_count(config, "data.std") == 1 && clt_config_float(config, "data.std") == 1;
}

bool clt_table_moments(const clt_csv_table *t, int column, const clt_split_part *part, double *mean,
                       double *std)
{
    double squares = 0, least = INFINITY, most = -INFINITY, value;
    int64_t n = 0;
    *mean = 0;
    for (int64_t i = 0; i < part->count; i++) {
        if (!clt_csv_is_number(clt_csv_cell(t, clt_split_row(part, i), column), &value))
            continue;
        double away = value - *mean;
        *mean += away / (double)++n;
        squares += away * (value - *mean); /* differences from the running mean keep all digits (Welford) */
        least = value < least ? value : least;
        most = value > most ? value : most;
    }
    bool spread = n > 0 && most > least && sqrt(squares / (double)n) > 0; /* squares may underflow to 0 */
    *std = spread ? sqrt(squares / (double)n) : 1;
    if (n > 0 && !spread)
        *mean = least;
    return n > 0;
}

static int by_size(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static clt_status median(const clt_csv_table *t, int column, const clt_split_part *part, double *out)
{
    double *values, value;
    int64_t n = 0;
    CLT_TRY(clt_alloc(&values, (size_t)part->count, sizeof *values, "a column of a table"));
    for (int64_t i = 0; i < part->count; i++)
        if (clt_csv_is_number(clt_csv_cell(t, clt_split_row(part, i), column), &value))
            values[n++] = value;
    qsort(values, (size_t)n, sizeof *values, by_size);
    *out = n > 0 ? (values[(n - 1) / 2] + values[n / 2]) / 2 : 0;
    free(values);
    return CLT_OK;
}

/* --- learning --- */

typedef struct learning {
    const clt_csv_table *t;
    const clt_config *config;
    const clt_split_part *part;
    clt_arena *arena;
    bool standardizes;
} learning;

static bool is_listed(const learning *l, const int *listed, int column)
{
    int n = clt_config_list_count(l->config, "data.words");
    for (int i = 0; i < n; i++)
        if (listed[i] == column)
            return true;
    return false;
}

#define NO_BLANK "leave missing cells blank (data.fill), or list the words for them in data.blank"

/* Reports a cell that is not a number in a column of numbers. `as` says which cells make it a column of
 * numbers. */
static clt_status no_number(const clt_csv_table *t, int64_t row, int column, const char *as)
{
    const char *cell = clt_csv_cell(t, row, column), *hint = clt_table_hint(cell);
    char what[240];
    if (*hint)
        (void)snprintf(what, sizeof what, "is not a number%s", hint);
    else if (clt_table_means_missing(cell))
        (void)snprintf(what, sizeof what,
                       "is not a number, as %s; if it means a missing value, list it in data.blank", as);
    else
        (void)snprintf(
            what, sizeof what,
            "is not a number, as %s; " NO_BLANK
            ", name the column in data.words if all of its cells are words, or drop it (data.drop_columns)",
            as);
    return clt_table_bad_cell(t, row, column, what);
}

/* The reason why f32 cannot hold the number in a cell; NULL: f32 can, or the cell holds no number. */
static const char *unfit_number(const char *cell)
{
    char *end;
    double value = clt_strtod(cell, &end);
    if (end == cell || *end || strpbrk(cell, "xX") || clt_csv_is_number(cell, &value))
        return NULL;
    return strpbrk(cell, "0123456789") ? "is too large for f32, which holds numbers up to 3.4e38"
                                       : "is not finite; " NO_BLANK;
}

/* Finds out whether the cells are words or numbers. Refuses a column of both at its first word, and a column
 * of numbers at its first number that is not finite. */
static clt_status judge_column(const learning *l, int column, bool *words)
{
    int64_t numbers = 0, other = -1;
    bool any_word = false;
    char name[80];
    double value;
    for (int64_t row = 0; row < clt_csv_rows(l->t); row++) {
        const char *cell = clt_csv_cell(l->t, row, column);
        if (clt_csv_is_number(cell, &value))
            numbers++;
        else if (*cell && other < 0)
            other = row;
        any_word = any_word || (*cell && !clt_csv_is_number(cell, &value) && !unfit_number(cell));
    }
    *words = numbers == 0 && any_word;
    const char *unfit = other >= 0 ? unfit_number(clt_csv_cell(l->t, other, column)) : NULL;
    if (other >= 0 && (!*words || clt_table_has_commas(clt_csv_cell(l->t, other, column))))
        return unfit ? clt_table_bad_cell(l->t, other, column, unfit)
                     : no_number(l->t, other, column, "other cells of the column are");
    if (other < 0 && numbers == 0) {
        clt_table_column_text(l->t, column, name, sizeof name);
        CLT_FAIL(CLT_EDATA,
                 "reading '%s': column %s: all of its cells are blank; drop it (data.drop_columns)",
                 l->t->path, name);
    }
    return CLT_OK;
}

static clt_status learn_words(const learning *l, int column, clt_table_column *c)
{
    char name[80];
    clt_table_column_text(l->t, column, name, sizeof name);
    c->fills = strcmp(clt_config_string(l->config, "data.fill"), "refuse") != 0;
    CLT_TRY(clt_table_words(l->t, column, l->part, "the word", l->arena, &c->words, &c->n_words));
    if (c->n_words > MAX_INPUT_WORDS)
        CLT_FAIL(CLT_EDATA,
                 "reading '%s': column %s holds %lld different words, and each of them would be a separate "
                 "input; drop the column (data.drop_columns), or replace its words by numbers",
                 l->t->path, name, (long long)c->n_words);
    for (int64_t i = 0; i < c->n_words; i++) /* copied, since the table is freed */
        if (!(c->words[i] = clt_arena_strdup(l->arena, c->words[i])))
            return CLT_ENOMEM;
    if (c->n_words > 20 && c->n_words > l->part->count / 2)
        CLT_WARN_ONCE("'%s': column %s holds %lld different words in %lld rows, so hardly any is seen twice; "
                      "should it be dropped (data.drop_columns)?",
                      l->t->path, name, (long long)c->n_words, (long long)l->part->count);
    return CLT_OK;
}

static clt_status learn_numbers(const learning *l, int column, clt_table_column *c)
{
    const char *fill = clt_config_string(l->config, "data.fill");
    double given = clt_config_float(l->config, "data.scale"), scale = given != 0 ? given : 1, mean = 0;
    char name[80];
    bool any = clt_table_moments(l->t, column, l->part, &mean, &c->std);
    clt_table_column_text(l->t, column, name, sizeof name);
    c->fills = strcmp(fill, "refuse") != 0;
    if (!any && (l->standardizes || strcmp(fill, "mean") == 0 || strcmp(fill, "median") == 0))
        CLT_FAIL(CLT_EDATA,
                 "reading '%s': column %s has no number in the training part; drop it (data.drop_columns)",
                 l->t->path, name);
    if (strcmp(fill, "median") == 0)
        CLT_TRY(median(l->t, column, l->part, &c->fill));
    else
        c->fill = !c->fills ? 0 : strcmp(fill, "mean") == 0 ? mean : clt_strtod(fill, NULL);
    c->mean = mean;
    if (!l->standardizes) {
        c->mean = clt_config_float(l->config, "data.mean") / scale;
        c->std = clt_config_float(l->config, "data.std") / scale;
    }
    return CLT_OK;
}

/* The name by which a column is found in other tables. NULL: it is found by its number, since it has no
 * name, another column has the same name, or the name cannot be kept in JSON. */
static clt_status own_name(const learning *l, int column, const char **out)
{
    const clt_csv_table *t = l->t;
    const char *name = t->header ? t->cell[column] : "";
    *out = NULL;
    if (!*name || clt_text_plain(name) != strlen(name))
        return CLT_OK;
    for (int i = 0; i < t->columns; i++)
        if (i != column && strcmp(t->cell[i], name) == 0) {
            if (column < i)
                CLT_WARN_ONCE("'%s': columns %d and %d are both named '%.60s'; in other tables they are "
                              "found by their positions",
                              t->path, column + 1, i + 1, name);
            return CLT_OK;
        }
    *out = clt_arena_strdup(l->arena, name);
    return *out ? CLT_OK : CLT_ENOMEM;
}

/* Fails because of a column that a config key names. */
static clt_status refuse_named(const learning *l, const char *key, int column, const char *why)
{
    char name[80];
    clt_table_column_text(l->t, column, name, sizeof name);
    CLT_FAIL(CLT_EDATA, "reading '%s': %s: column %s %s", l->t->path, key, name, why);
}

static clt_status learn_column(const learning *l, const int *listed, int column, clt_table_column *c)
{
    bool words = is_listed(l, listed, column);
    c->number = column + 1;
    c->std = 1;
    CLT_TRY(own_name(l, column, &c->name));
    if (!words)
        CLT_TRY(judge_column(l, column, &words));
    return words ? learn_words(l, column, c) : learn_numbers(l, column, c);
}

/* Marks the columns that data.drop_columns names. */
static clt_status mark_dropped(const learning *l, int target, bool *dropped)
{
    int column, given = clt_config_list_count(l->config, "data.drop_columns");
    for (int i = 0; i < given; i++) {
        const char *word = clt_config_list_string(l->config, "data.drop_columns", i);
        CLT_TRY(clt_table_find(l->t, "data.drop_columns", word, &column));
        if (column == target)
            return refuse_named(
                l, "data.drop_columns", target,
                "is the target, which is no input anyway; remove it from the list, or set data.target");
        dropped[column] = true;
    }
    return CLT_OK;
}

/* The columns in data.columns, or all except the target and the columns in data.drop_columns. */
static clt_status choose_columns(const learning *l, int target, int *column, int *count)
{
    int given = clt_config_list_count(l->config, "data.columns");
    bool *dropped = clt_arena_alloc(l->arena, (size_t)l->t->columns * sizeof *dropped);
    if (!dropped)
        return CLT_ENOMEM;
    *count = 0;
    CLT_TRY(mark_dropped(l, target, dropped));
    for (int i = 0; i < given; i++)
        CLT_TRY(clt_table_find(l->t, "data.columns", clt_config_list_string(l->config, "data.columns", i),
                               &column[(*count)++]));
    for (int i = 0; i < given; i++) {
        if (column[i] == target)
            return refuse_named(
                l, "data.columns", target,
                "is the target, so it cannot be an input; remove it from the list, or set data.target");
        if (dropped[column[i]])
            return refuse_named(l, "data.columns", column[i],
                                "is named in data.drop_columns, too; name it in one of them");
    }
    for (int i = 0; given == 0 && i < l->t->columns; i++)
        if (i != target && !dropped[i])
            column[(*count)++] = i;
    if (*count == 0)
        CLT_FAIL(CLT_EDATA, "reading '%s': %s, so there is nothing to learn from; %s", l->t->path,
                 l->t->columns > 1 ? "data.drop_columns leaves no column but the target"
                                   : "the target is its only column",
                 l->t->columns > 1 ? "name fewer" : "give a table with more columns");
    return CLT_OK;
}

/* Checks that data.words names only columns of the input. */
static clt_status check_listed(const learning *l, int target, const int *listed, int n_listed,
                               const int *column, int count)
{
    for (int i = 0; i < n_listed; i++) {
        bool found = false;
        for (int k = 0; k < count; k++)
            found = found || column[k] == listed[i];
        if (listed[i] == target)
            return refuse_named(l, "data.words", target,
                                "is the target; the words or numbers of classes need no key");
        if (!found)
            return refuse_named(
                l, "data.words", listed[i],
                "is not one of the inputs, by data.columns and data.drop_columns; remove it from the list");
    }
    return CLT_OK;
}

clt_status clt_table_learn(const clt_csv_table *t, const clt_config *config, const clt_split_part *part,
                           int target, clt_arena *arena, clt_table **out)
{
    const learning l = {t, config, part, arena, clt_table_standardizes(config)};
    int listed_count = clt_config_list_count(config, "data.words"),
        room = t->columns + clt_config_list_count(config, "data.columns") + 1, count;
    clt_table *table = clt_arena_alloc(arena, sizeof *table);
    int *listed = clt_arena_alloc(arena, (size_t)(listed_count + 1) * sizeof *listed),
        *column = clt_arena_alloc(arena, (size_t)room * sizeof *column);
    if (!table || !listed || !column)
        return CLT_ENOMEM;
    for (int i = 0; i < listed_count; i++)
        CLT_TRY(clt_table_find(t, "data.words", clt_config_list_string(config, "data.words", i), &listed[i]));
    CLT_TRY(choose_columns(&l, target, column, &count));
    CLT_TRY(check_listed(&l, target, listed, listed_count, column, count));
    *table = (clt_table){.width = t->columns, .target_number = target + 1, .target_std = 1};
    CLT_TRY(own_name(&l, target, &table->target));
    table->columns = clt_arena_alloc(arena, (size_t)count * sizeof *table->columns);
    if (!table->columns)
        return CLT_ENOMEM;
    for (; table->n_columns < count; table->n_columns++)
        CLT_TRY(learn_column(&l, listed, column[table->n_columns], &table->columns[table->n_columns]));
    table->elements = clt_table_count(table);
    *out = table;
    return CLT_OK;
}

/* --- other tables --- */

/* Finds a column by its name if both tables have names, else by its position: `number` in a table like the
 * training table, or `place` in a table that has only the input's columns (-1: the column is the target). */
static clt_status locate(const clt_table *table, const clt_csv_table *t, const char *name, int number,
                         int place, int *at)
{
    if (name && t->header) {
        CLT_TRY(find_name(t, "the model's inputs", name, at));
        if (*at >= 0)
            return CLT_OK;
        const char *near = clt_nearest_name(name, (const char *const *)t->cell, (size_t)t->columns);
        CLT_FAIL(CLT_EDATA, "reading '%s': there is no column '%.60s', which the training table has%s%.60s%s",
                 t->path, name, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    }
    bool alone = place >= 0 && t->columns == table->n_columns && t->columns != table->width;
    *at = alone ? place : number - 1;
    if (!alone && t->columns != table->width)
        CLT_FAIL(CLT_EDATA,
                 "reading '%s': it has %d column%s, the training table has %d, and unless both tables have "
                 "column names, they must have the same number of columns",
                 t->path, t->columns, CLT_PLURAL(t->columns), table->width);
    return CLT_OK;
}

clt_status clt_table_locate(const clt_table *table, const clt_csv_table *t, clt_arena *arena, int **at)
{
    *at = clt_arena_alloc(arena, (size_t)(table->n_columns + 1) * sizeof **at);
    if (!*at)
        return CLT_ENOMEM;
    for (int i = 0; i < table->n_columns; i++)
        CLT_TRY(locate(table, t, table->columns[i].name, table->columns[i].number, i, &(*at)[i]));
    return CLT_OK;
}

clt_status clt_table_locate_target(const clt_table *table, const clt_csv_table *t, int *column)
{
    return locate(table, t, table->target, table->target_number, -1, column);
}

/* --- rows --- */

static void count_unknown(const clt_csv_table *t, int64_t row, const char *cell, clt_table_tally *tally)
{
    int64_t line = clt_csv_line(t, row); /* samples are in the order of the split, not of the file */
    if (tally->unknown++ == 0 || line < tally->first_line) {
        tally->word = cell;
        tally->first_line = line;
    }
}

#define BLANK                                                                                                \
    "is blank; fill it in, give data.fill the value of blank cells, or drop the column (data.drop_columns)"

static clt_status column_numbers(const clt_table_column *c, const clt_csv_table *t, int at, int64_t row,
                                 clt_table_tally *tally, double *out)
{
    const char *cell = clt_csv_cell(t, row, at);
    if (c->n_words > 0) {
        int64_t found = clt_table_word(c->words, c->n_words, cell);
        memset(out, 0, (size_t)c->n_words * sizeof *out);
        if (!*cell && !c->fills)
            return clt_table_bad_cell(t, row, at, BLANK);
        if (found >= 0)
            out[found] = 1;
        else
            count_unknown(t, row, cell, tally);
        return CLT_OK;
    }
    if (clt_csv_is_number(cell, out))
        return CLT_OK;
    if (!*cell && c->fills) {
        *out = c->fill;
        int64_t line = clt_csv_line(t, row);
        if (tally->blank++ == 0 || line < tally->first_line)
            tally->first_line = line;
        return CLT_OK;
    }
    const char *unfit = !*cell ? BLANK : unfit_number(cell);
    return unfit ? clt_table_bad_cell(t, row, at, unfit)
                 : no_number(t, row, at, "the column is in the training table");
}

clt_status clt_table_numbers(const clt_table *table, const clt_csv_table *t, const int *at, int64_t row,
                             clt_table_tally *tally, double *out)
{
    for (int i = 0; i < table->n_columns; i++) {
        const clt_table_column *c = &table->columns[i];
        CLT_TRY(column_numbers(c, t, at[i], row, &tally[i], out));
        out += clt_table_elements(c);
    }
    return CLT_OK;
}

void clt_table_tell(const clt_table *table, const clt_csv_table *t, const int *at,
                    const clt_table_tally *tally, const char *path, int64_t rows)
{
    char name[80], number[CLT_NUMBER_TEXT];
    for (int i = 0; i < table->n_columns; i++) {
        const clt_table_column *c = &table->columns[i];
        clt_table_column_text(t, at[i], name, sizeof name);
        if (tally[i].blank > 0)
            CLT_INFO_ONCE(
                "'%s': column %s: %lld of %lld cells are blank, the first in line %lld; they count as %s "
                "(data.fill)",
                path, name, (long long)tally[i].blank, (long long)rows, (long long)tally[i].first_line,
                clt_float_text((float)c->fill, number));
        if (tally[i].unknown > 0)
            CLT_WARN_ONCE(
                "'%s': column %s: %lld of %lld cells hold words that the training part does not have, the "
                "first '%.60s' in line %lld; they count as none of its words",
                path, name, (long long)tally[i].unknown, (long long)rows,
                *tally[i].word ? tally[i].word : "(blank)", (long long)tally[i].first_line);
    }
}
