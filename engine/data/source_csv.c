/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables as text: a sample on each line, cells between commas, semicolons or tabs, one column of which is the
 * target. Cells may stand in double quotes (RFC 4180) and then hold line breaks. All other columns,
 * or those of data.columns, are the input (field x, f32). A target column of words gives classes, numbered in
 * the order of data.class_names or else of the words; one of whole numbers stays as it is, one of other
 * numbers is f32 (field y). The targets of an evaluation file are read as the training file defines them. */
#include "engine/data/csv_table.h"
#include "engine/data/source_pair.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/rng.h"
#include "engine/base/text.h"
#include "engine/data/fingerprint.h"

#define SPLIT_SEED 20170 /* the choice of rows for evaluation depends on their number alone */
#define MAX_CLASSES 65536

typedef enum target_kind { TARGET_NUMBERS, TARGET_WHOLE, TARGET_CLASSES } target_kind;

typedef struct csv_state {
    /* training: the training file, when the data comes from an evaluation file; it defines the targets */
    clt_csv_table table, training;
    int target;         /* column */
    int *input, inputs; /* columns */
    target_kind kind;
    const char *words;  /* the first target that is no number, with its place; NULL: all are */
    const char **names; /* of classes */
    int64_t n_names;
    bool sorted;
    int64_t *line; /* of each sample */
    float *x;      /* (samples, inputs) */
    void *y;       /* (samples) f32 for NUMBERS, else i32 */
    clt_hash64_state content;
} csv_state;

static void column_text(const clt_csv_table *t, int column, char *out, size_t size)
{
    if (t->header)
        (void)snprintf(out, size, "'%.60s'", t->cell[column]);
    else
        (void)snprintf(out, size, "%d", column + 1);
}

/* A column by its name, or by its number from 1. */
static clt_status find_column(const clt_csv_table *t, const char *key, const char *word, int *column)
{
    char *end;
    long number = strtol(word, &end, 10);
    int found = -1;
    for (int i = 0; t->header && i < t->columns; i++)
        if (strcmp(t->cell[i], word) == 0) {
            if (found >= 0)
                CLT_FAIL(CLT_EDATA,
                         "reading '%s': %s: columns %d and %d are both named '%.60s'; give the number of one "
                         "of them, "
                         "or rename it",
                         t->path, key, found + 1, i + 1, word);
            found = i;
        }
    if (found >= 0) {
        *column = found;
        return CLT_OK;
    }
    if (*end == '\0' && number >= 1 && number <= t->columns) {
        *column = (int)number - 1;
        return CLT_OK;
    }
    const char *near =
        t->header ? clt_nearest_name(word, (const char *const *)t->cell, (size_t)t->columns) : NULL;
    CLT_FAIL(CLT_EDATA, "reading '%s': %s: there is no column '%.60s'%s%.60s%s; %s %d columns", t->path, key,
             word, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "",
             t->header ? "the first line names" : "it has no names in its first line and", t->columns);
}

static clt_status find_target(const clt_csv_table *t, const clt_config *config, int *column)
{
    const char *word = clt_config_string(config, "data.target");
    *column = t->columns - 1;
    return *word ? find_column(t, "data.target", word, column) : CLT_OK;
}

/* --- which columns, which classes --- */

static clt_status choose_columns(clt_source *source, const clt_config *config, csv_state *s)
{
    int given = clt_config_list_count(config, "data.columns");
    CLT_TRY(find_target(&s->table, config, &s->target));
    s->input = clt_arena_alloc(source->arena, (size_t)(s->table.columns + given + 1) * sizeof *s->input);
    if (!s->input)
        return CLT_ENOMEM;
    for (int i = 0; i < given; i++, s->inputs++)
        CLT_TRY(find_column(&s->table, "data.columns", clt_config_list_string(config, "data.columns", i),
                            &s->input[i]));
    for (int i = 0; !given && i < s->table.columns; i++)
        if (i != s->target)
            s->input[s->inputs++] = i;
    if (s->inputs == 0)
        CLT_FAIL(CLT_EDATA, "reading '%s': beside the target there is no column to learn from",
                 s->table.path);
    return CLT_OK;
}

static int by_text(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* A word that becomes the name of a class is kept with the weights, in JSON, and compared with the words of
 * other tables later. */
static clt_status check_word(const clt_csv_table *t, int64_t row, int column)
{
    char name[80];
    const char *cell = clt_csv_cell(t, row, column);
    size_t plain = clt_text_plain(cell);
    column_text(t, column, name, sizeof name);
    if (cell[plain])
        CLT_FAIL(CLT_EDATA,
                 "reading '%s': line %lld, column %s: the class word '%.60s' has the byte 0x%02x at place "
                 "%zu (byte %zu of "
                 "the file), which is %s",
                 t->path, (long long)clt_csv_line(t, row), name, cell, (unsigned char)cell[plain], plain + 1,
                 (size_t)(cell - t->text) + plain,
                 (unsigned char)cell[plain] < 0x80 ? "a control character; remove it"
                                                   : "not UTF-8; save the table as UTF-8");
    return CLT_OK;
}

/* Collects the distinct words of a column, sorted. */
static clt_status collect_names(clt_source *source, const clt_csv_table *t, int column, csv_state *s)
{
    const char **all = clt_arena_alloc(source->arena, (size_t)clt_csv_rows(t) * sizeof *all);
    if (!all)
        return CLT_ENOMEM;
    for (int64_t i = 0; i < clt_csv_rows(t); i++) {
        CLT_TRY(check_word(t, i, column));
        all[i] = clt_csv_cell(t, i, column);
    }
    qsort(all, (size_t)clt_csv_rows(t), sizeof *all, by_text);
    for (int64_t i = 0; i < clt_csv_rows(t); i++)
        if (s->n_names == 0 || strcmp(all[s->n_names - 1], all[i]) != 0)
            all[s->n_names++] = all[i];
    if (s->n_names > MAX_CLASSES)
        CLT_FAIL(CLT_EDATA, "reading '%s': the target column holds more than %d words; is it the right one?",
                 t->path, MAX_CLASSES);
    s->names = all;
    s->sorted = true;
    return CLT_OK;
}

#define DECIMAL_COMMA " (is that a decimal comma? write a point)"

/* Digits, a comma, digits: a number as many languages write it, or with separated thousands. */
static bool has_decimal_comma(const char *cell)
{
    static const char digits[] = "0123456789";
    const char *at = cell + (*cell == '-' || *cell == '+');
    size_t before = strspn(at, digits), after = at[before] == ',' ? strspn(at + before + 1, digits) : 0;
    return after > 0 && at[before + 1 + after] == '\0';
}

/* Decides from the column what the targets are: classes, integers or real numbers. */
static clt_status learn_targets(clt_source *source, const clt_csv_table *t, int column, csv_state *s)
{
    bool numbers = true, whole = true;
    double value;
    for (int64_t i = 0; i < clt_csv_rows(t); i++) {
        const char *cell = clt_csv_cell(t, i, column);
        if (!*cell)
            CLT_FAIL(CLT_EDATA, "reading '%s': line %lld: the target is missing", t->path,
                     (long long)clt_csv_line(t, i));
        bool number = clt_csv_is_number(cell, &value);
        if (numbers && !number) {
            char name[80];
            column_text(t, column, name, sizeof name);
            s->words = clt_arena_printf(source->arena, "'%s', line %lld, column %s: '%.60s'%s", t->path,
                                        (long long)clt_csv_line(t, i), name, cell,
                                        has_decimal_comma(cell) ? DECIMAL_COMMA : "");
            if (!s->words)
                return CLT_ENOMEM;
        }
        numbers = numbers && number;
        whole = whole && clt_csv_is_whole(cell);
    }
    s->kind = whole ? TARGET_WHOLE : numbers ? TARGET_NUMBERS : TARGET_CLASSES;
    return s->kind == TARGET_CLASSES ? collect_names(source, t, column, s) : CLT_OK;
}

static clt_status given_names(clt_source *source, const clt_config *config, csv_state *s)
{
    int count = clt_config_list_count(config, "data.class_names");
    s->kind = TARGET_CLASSES;
    s->n_names = count;
    s->names = clt_arena_alloc(source->arena, (size_t)count * sizeof *s->names);
    for (int i = 0; s->names && i < count; i++)
        s->names[i] = clt_config_list_string(config, "data.class_names", i);
    return s->names ? CLT_OK : CLT_ENOMEM;
}

/* Checks that the evaluation file has the columns of the training file. */
static clt_status same_columns(const clt_csv_table *t, const clt_csv_table *training)
{
    if (t->columns != training->columns)
        CLT_FAIL(CLT_EDATA, "reading '%s': it has %d columns, '%s' has %d", t->path, t->columns,
                 training->path, training->columns);
    for (int i = 0; t->header && training->header && i < t->columns; i++)
        if (strcmp(t->cell[i], training->cell[i]) != 0)
            CLT_FAIL(CLT_EDATA, "reading '%s': column %d is '%.60s', in '%s' it is '%.60s'", t->path, i + 1,
                     t->cell[i], training->path, training->cell[i]);
    return CLT_OK;
}

static clt_status choose_targets(clt_source *source, const clt_config *config, bool own_file, csv_state *s)
{
    if (clt_config_list_count(config, "data.class_names") > 0)
        return given_names(source, config, s);
    const char *path = clt_config_list_string(config, "data.path", 0);
    int column;
    /* a saved model may be evaluated where its training data is missing */
    if (!own_file || !clt_file_exists(path))
        return learn_targets(source, &s->table, s->target, s);
    CLT_TRY(clt_csv_load(&s->training, source->arena, path, clt_config_string(config, "data.header")));
    CLT_TRY(same_columns(&s->table, &s->training));
    CLT_TRY(find_target(&s->training, config, &column));
    return learn_targets(source, &s->training, column, s);
}

/* --- samples --- */

static clt_status bad_cell(const csv_state *s, int64_t row, int column, const char *what)
{
    char name[80];
    column_text(&s->table, column, name, sizeof name);
    CLT_FAIL(CLT_EDATA, "reading '%s': line %lld, column %s: '%.60s' %s", s->table.path,
             (long long)clt_csv_line(&s->table, row), name, clt_csv_cell(&s->table, row, column), what);
}

static clt_status fill_input(const clt_source *source, const csv_state *s, int64_t row, float *x)
{
    double value;
    for (int i = 0; i < s->inputs; i++) {
        const char *cell = clt_csv_cell(&s->table, row, s->input[i]);
        if (!clt_csv_is_number(cell, &value))
            return bad_cell(
                s, row, s->input[i],
                has_decimal_comma(cell)
                    ? "is no number" DECIMAL_COMMA
                    : "is no number; fill it in, or say with data.columns which columns to learn from");
        x[i] = (float)((value * source->scale - source->mean) / source->std);
        if (!isfinite(x[i]))
            return bad_cell(s, row, s->input[i], "is not finite with data.scale, mean and std");
    }
    return CLT_OK;
}

/* -1: there is none of that name. */
static int64_t find_class(const csv_state *s, const char *name)
{
    if (s->sorted) {
        const char **found = bsearch(&name, s->names, (size_t)s->n_names, sizeof *s->names, by_text);
        return found ? found - s->names : -1;
    }
    for (int64_t i = 0; i < s->n_names; i++)
        if (strcmp(s->names[i], name) == 0)
            return i;
    return -1;
}

static clt_status fill_target(const csv_state *s, int64_t row, int64_t sample)
{
    const char *cell = clt_csv_cell(&s->table, row, s->target);
    double value = 0;
    if (s->kind == TARGET_CLASSES) {
        int64_t found = find_class(s, cell);
        if (found < 0)
            return bad_cell(s, row, s->target, "is none of the classes; see data.class_names");
        ((int32_t *)s->y)[sample] = (int32_t)found;
        return CLT_OK;
    }
    if (s->kind == TARGET_WHOLE ? !clt_csv_is_whole(cell) : !clt_csv_is_number(cell, &value))
        return bad_cell(s, row, s->target, "is no number, or no whole one as other targets are");
    if (s->kind == TARGET_WHOLE)
        ((int32_t *)s->y)[sample] = (int32_t)strtol(cell, NULL, 10);
    else
        ((float *)s->y)[sample] = (float)value;
    return CLT_OK;
}

/* The range [*begin, *end) of this split: of rows or, when one file is divided between training and
 * evaluation, of positions in a fixed permutation of the rows. */
static clt_status choose_rows(const clt_config *config, clt_split split, bool divided, int64_t rows,
                              int64_t *begin, int64_t *end)
{
    int64_t kept = divided ? (int64_t)llround(clt_config_float(config, "data.split") * (double)rows) : 0;
    bool eval = split == CLT_SPLIT_EVAL && divided;
    *begin = eval ? rows - kept : 0;
    *end = eval ? rows : rows - kept;
    if (*begin >= *end)
        CLT_FAIL(CLT_EDATA, "reading the table: data.split %g of %lld samples leaves none for %s",
                 clt_config_float(config, "data.split"), (long long)rows, eval ? "evaluation" : "training");
    return CLT_OK;
}

static clt_status fill_sample(const clt_source *source, const csv_state *s, int64_t row, int64_t sample)
{
    s->line[sample] = clt_csv_line(&s->table, row);
    CLT_TRY(fill_input(source, s, row, s->x + sample * s->inputs));
    return fill_target(s, row, sample);
}

/* Samples are drawn from the rows in another order than the file's; of several bad rows the file's first one
 * is reported. `failure`: what reading the samples has found. */
static clt_status first_bad_row(const clt_source *source, const csv_state *s, clt_status failure)
{
    clt_error error;
    clt_error_take(failure, &error);
    for (int64_t row = 0; row < clt_csv_rows(&s->table); row++)
        CLT_TRY(fill_sample(source, s, row, 0));
    return clt_error_put(&error);
}

static clt_status fill(clt_source *source, const clt_config *config, clt_split split, bool divided,
                       csv_state *s)
{
    int64_t rows = clt_csv_rows(&s->table), begin, end;
    CLT_TRY(choose_rows(config, split, divided, rows, &begin, &end));
    source->samples = end - begin;
    CLT_TRY(clt_alloc(&s->x, (size_t)source->samples * (size_t)s->inputs, sizeof *s->x, "a table"));
    CLT_TRY(clt_alloc(&s->y, (size_t)source->samples, sizeof(int32_t), "a table"));
    CLT_TRY(clt_alloc(&s->line, (size_t)source->samples, sizeof *s->line, "a table"));
    for (int64_t i = 0; i < source->samples; i++) {
        int64_t row =
            divided ? (int64_t)clt_permute((uint64_t)(begin + i), (uint64_t)rows, SPLIT_SEED, 0) : i;
        clt_status status = fill_sample(source, s, row, i);
        if (status != CLT_OK)
            return first_bad_row(source, s, status);
    }
    return CLT_OK;
}

static clt_status describe(clt_source *source, const csv_state *s)
{
    char target[80], what[64] = "numbers";
    column_text(&s->table, s->target, target, sizeof target);
    if (s->kind == TARGET_CLASSES)
        (void)snprintf(what, sizeof what, "%lld classes", (long long)s->n_names);
    else if (s->kind == TARGET_WHOLE)
        (void)snprintf(what, sizeof what, "whole numbers, largest %lld",
                       (long long)source->fields[1].max_value);
    source->description =
        clt_arena_printf(source->arena, "csv: %lld samples of %d columns from '%s', target %s: %s",
                         (long long)source->samples, s->inputs, s->table.path, target, what);
    return source->description ? CLT_OK : CLT_ENOMEM;
}

static clt_status set_fields(clt_source *source, csv_state *s)
{
    bool number = s->kind == TARGET_NUMBERS;
    int64_t most = s->kind == TARGET_CLASSES ? s->n_names - 1 : INT64_MIN;
    for (int64_t i = 0; s->kind == TARGET_WHOLE && i < source->samples; i++)
        most = ((int32_t *)s->y)[i] > most ? ((int32_t *)s->y)[i] : most;
    source->n_fields = 2;
    source->fields[0] = (clt_source_field){"x", CLT_F32, clt_shape1(s->inputs), false, 0};
    source->fields[1] = (clt_source_field){"y", number ? CLT_F32 : CLT_I32, clt_shape_make(0, NULL), !number,
                                           number ? 0 : most};
    source->bytes = (int64_t)s->table.size;
    source->scale = source->std = 1.0; /* already applied above */
    source->mean = 0.0;
    if (s->kind == TARGET_CLASSES) {
        source->words = s->words;
        source->class_names = s->names;
        source->n_class_names = s->n_names;
        for (int64_t i = 0; i < s->n_names; i++) /* copied, since the tables and the config are freed */
            if (!(s->names[i] = clt_arena_strdup(source->arena, s->names[i])))
                return CLT_ENOMEM;
    }
    return describe(source, s);
}

static clt_status csv_open(clt_source *source, const clt_config *config, clt_split split)
{
    csv_state *s = clt_arena_alloc(source->arena, sizeof *s);
    bool own_eval = clt_config_list_count(config, "data.eval_path") > 0,
         eval_file = split == CLT_SPLIT_EVAL && own_eval;
    const char *key = eval_file ? "data.eval_path" : "data.path";
    if (!s)
        return CLT_ENOMEM;
    source->state = s;
    if (clt_config_list_count(config, key) != 1)
        CLT_FAIL(CLT_ECONFIG, "opening the data: data.type csv takes one file in %s", key);
    CLT_TRY(clt_source_config_scale(source, config));
    clt_status status = clt_csv_load(&s->table, source->arena, clt_config_list_string(config, key, 0),
                                     clt_config_string(config, "data.header"));
    CLT_TRY(clt_fail_prefix(status, "opening %s", key));
    s->content = s->table.content;
    CLT_TRY(choose_columns(source, config, s));
    CLT_TRY(choose_targets(source, config, eval_file, s));
    CLT_TRY(fill(source, config, split, !own_eval && clt_config_float(config, "data.split") > 0, s));
    CLT_TRY(set_fields(source, s));
    clt_csv_unload(&s->table);
    clt_csv_unload(&s->training);
    return CLT_OK;
}

static void csv_close(clt_source *source)
{
    csv_state *s = source->state;
    if (!s)
        return;
    clt_csv_unload(&s->table);
    clt_csv_unload(&s->training);
    free(s->x);
    free(s->y);
    free(s->line);
}

static clt_status csv_read(const clt_source *source, int64_t index, clt_draw draw, void *const *to)
{
    const csv_state *s = source->state;
    (void)draw;
    if (to[0])
        memcpy(to[0], s->x + index * s->inputs, (size_t)s->inputs * sizeof *s->x);
    if (to[1])
        memcpy(to[1], (const int32_t *)s->y + index, sizeof(int32_t));
    return CLT_OK;
}

static void csv_locate(const clt_source *source, int64_t index, int field, clt_str *out)
{
    const csv_state *s = source->state;
    (void)field;
    clt_str_printf(out, "sample %lld (line %lld)", (long long)index, (long long)s->line[index]);
}

static void csv_fingerprint(const clt_source *source, clt_hash64_state *state)
{
    const csv_state *s = source->state;
    *state = s->content;
}

static bool csv_has_eval(const clt_config *config)
{
    return clt_config_float(config, "data.split") > 0.0;
}

static clt_status csv_check_file(const char *path, const char *tokenizer, clt_str *out)
{
    clt_csv_table table = {0};
    clt_arena *arena;
    (void)tokenizer;
    CLT_TRY(clt_arena_create(&arena));
    clt_status status = clt_csv_load(&table, arena, path, "auto");
    if (status == CLT_OK)
        clt_str_printf(out, "%lld lines of %d cells%s", (long long)clt_csv_rows(&table), table.columns,
                       table.header ? " below their names" : "");
    clt_csv_unload(&table);
    clt_arena_destroy(arena);
    return status == CLT_OK ? clt_str_check(out) : status;
}

static const clt_config_key csv_keys[] = {
    CLT_KEY_STRINGS("data.path", "[]", "the table to train on, plain or .gz"),
    CLT_KEY_STRINGS("data.eval_path", "[]",
                    "the table to evaluate on; []: a part of data.path, see data.split"),
    CLT_KEY_CHOICE("data.header", "auto|yes|no", "\"auto\"",
                   "whether the first line names the columns; auto: when no cell of it is a number"),
    CLT_KEY_STRING("data.target", "\"\"",
                   "the target's column by its name or its number from 1; empty: the last one"),
    CLT_KEY_STRINGS("data.columns", "[]", "the input's columns, by names or numbers; []: all but the target"),
    CLT_KEY_STRINGS("data.class_names", "[]",
                    "the target column's words in the order of their classes; []: all words of the training "
                    "table, sorted; a column of numbers "
                    "has no classes to name"),
    CLT_KEY_FLOAT_OPEN("data.split", 0, false, 1, true, "0.1", "",
                       "part of the samples kept for evaluation when data.eval_path is empty, drawn once and "
                       "for all; 0: none"),
    CLT_KEY_END,
};
static const char *const csv_required[] = {"data.path", NULL};

const clt_config_part clt_format_csv = {
    .name = "csv",
    .help = "tables as text, a sample on each line: cells between commas, semicolons or tabs, the target in "
            "one column, numbers in the others",
    .keys = csv_keys,
    .required = csv_required,
};

static const char *const csv_ends[] = {".csv", ".tsv", ".txt", NULL};

const clt_source_type clt_source_csv = {
    .format = &clt_format_csv,
    .open = csv_open,
    .close = csv_close,
    .read = csv_read,
    .locate = csv_locate,
    .fingerprint = csv_fingerprint,
    .has_eval = csv_has_eval,
    .holds_targets = true,
    .eval_hint = "data.eval_path, or data.split above 0 for a part of the table",
    .suffix = ".csv",
    .check_file = csv_check_file,
    .input_ends = csv_ends,
    .input_lines = true,
};
