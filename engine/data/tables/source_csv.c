/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables as text: each line is a sample, with commas, semicolons or tabs between cells; one column is the
 * target. Cells may be in double quotes (RFC 4180) and then contain line breaks. All other columns, or
 * those in data.columns, are the input (field x, f32): a column of numbers is one element, and a column
 * of words has one element for each word (table_columns.h). If the target column (field y) has words,
 * these are classes, numbered in the order of data.class_names, else in byte order; whole numbers stay
 * whole, other numbers are f32. Columns and targets are learned from the training part, also for other
 * tables. */
#include "engine/data/arrays/source_pair.h"
#include "engine/data/facts/data_facts.h"
#include "engine/data/records/csv_table.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/text.h"
#include "engine/data/fingerprint.h"
#include "engine/data/tables/table_cells.h"
#include "engine/data/tables/table_columns.h"
#include "engine/data/tables/table_match.h"

typedef enum target_kind { TARGET_NUMBERS, TARGET_WHOLE, TARGET_CLASSES } target_kind;

typedef struct csv_state {
    /* training: columns and targets are learned from it if `table` is an evaluation file */
    clt_csv_table table, training;
    clt_table *columns;     /* facts learned from the training part, in the source's arena */
    int *at;                /* numbers of the input's columns in `table` */
    clt_table_tally *tally; /* one for each input column */
    atomic_bool told;
    int target; /* column of the target in `table`; -1: targets are not read */
    const char *path;
    char target_text[80];
    target_kind kind;
    bool scales_target; /* targets are standardised if the model is a regression */
    const char *words;  /* the first target that is not a number, with its place; NULL: all are numbers */
    const char **names; /* of classes */
    int64_t n_names;
    bool sorted;
    int64_t *line;  /* line of each sample */
    float *x;       /* (samples, elements) */
    double *raw;    /* x before mean and std, set instead of x for clt_source_with.numbers */
    double *number; /* (samples) targets that are numbers */
    void *y;        /* (samples) f32 for NUMBERS, else i32 */
    clt_hash64_state content;
} csv_state;

/* --- targets --- */

static clt_status find_target(const clt_csv_table *t, const clt_config *config, int *column)
{
    const char *word = clt_config_string(config, "data.target");
    *column = t->columns - 1;
    return *word ? clt_table_find(t, "data.target", word, column) : CLT_OK;
}

/* Finds out from the column what the targets are: classes, integers or real numbers. */
static clt_status learn_targets(clt_source *source, const clt_csv_table *t, int column, csv_state *s)
{
    bool numbers = true, whole = true;
    double value;
    for (int64_t i = 0; i < clt_csv_rows(t); i++) {
        const char *cell = clt_csv_cell(t, i, column);
        if (!*cell)
            return clt_table_target_missing(t, i, column);
        bool number = clt_csv_is_number(cell, &value);
        if (numbers && !number) {
            char name[80];
            clt_table_column_text(t, column, name, sizeof name);
            s->words = clt_arena_printf(source->arena, "'%s', line %lld, column %s: '%.60s'%s", t->path,
                                        (long long)clt_csv_line(t, i), name, cell, clt_table_hint(cell));
            if (!s->words)
                return CLT_ENOMEM;
        }
        numbers = numbers && number;
        whole = whole && clt_csv_is_whole(cell);
    }
    s->kind = whole ? TARGET_WHOLE : numbers ? TARGET_NUMBERS : TARGET_CLASSES;
    if (s->kind != TARGET_CLASSES)
        return CLT_OK;
    const clt_split_part all = {.count = clt_csv_rows(t), .rows = clt_csv_rows(t)};
    s->sorted = true;
    return clt_table_words(t, column, &all, "the class word", source->arena, &s->names, &s->n_names);
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

/* The number of the class `name`; -1: there is none. */
static int64_t find_class(const csv_state *s, const char *name)
{
    if (s->sorted)
        return clt_table_word(s->names, s->n_names, name);
    for (int64_t i = 0; i < s->n_names; i++)
        if (strcmp(s->names[i], name) == 0)
            return i;
    return -1;
}

/* --- facts from the training part --- */

/* Chooses the rows of this split. */
static clt_status choose_rows(const clt_config *config, bool eval, bool divided, int64_t rows,
                              clt_split_part *part)
{
    *part = clt_split_choose(config, rows, divided, eval);
    if (part->count <= 0)
        CLT_FAIL(CLT_EDATA, "reading the table: data.split %g of %lld sample%s leaves none for %s",
                 clt_config_float(config, "data.split"), (long long)rows, CLT_PLURAL(rows),
                 eval && divided ? "evaluation" : "training");
    return CLT_OK;
}

static clt_status load_table(clt_csv_table *t, clt_arena *arena, const char *path, const clt_config *config)
{
    CLT_TRY(clt_csv_load(t, arena, path, clt_config_string(config, "data.header")));
    clt_table_empty_blanks(config, t);
    return CLT_OK;
}

/* The table to learn from: this one, or the training file, if there is one. */
static clt_status training_table(clt_source *source, const clt_config *config, bool own_file, csv_state *s,
                                 const clt_csv_table **out)
{
    const char *path = clt_config_list_string(config, "data.path", 0);
    *out = &s->table;
    if (!own_file)
        return CLT_OK;
    if (!clt_file_exists(path)) { /* no failure: a saved model may be evaluated without its training data */
        if (clt_table_standardizes(config))
            CLT_FAIL(
                CLT_EDATA,
                "reading '%s': data.standardize needs the means of the training table, '%s', which is not "
                "there; evaluate a run, which has kept them, or give data.standardize=false",
                s->table.path, path);
        return CLT_OK;
    }
    *out = &s->training;
    return load_table(&s->training, source->arena, path, config);
}

/* Takes the input columns from `known` or, if it is NULL, learns them from the training part. Learns what
 * the targets are. */
static clt_status learn(clt_source *source, const clt_config *config, bool own_file, bool divided,
                        const clt_table *known, csv_state *s)
{
    const clt_csv_table *from;
    clt_split_part part;
    int target;
    CLT_TRY(training_table(source, config, own_file, s, &from));
    CLT_TRY(find_target(from, config, &target));
    CLT_TRY(choose_rows(config, false, divided, clt_csv_rows(from), &part));
    if (known)
        CLT_TRY(clt_table_copy(known, source->arena, &s->columns));
    else
        CLT_TRY(clt_table_learn(from, config, &part, target, source->arena, &s->columns));
    s->columns->target_mean = 0;
    s->columns->target_std = 1;
    if (source->with.numbers)
        return CLT_OK;
    if (clt_config_list_count(config, "data.class_names") > 0)
        CLT_TRY(given_names(source, config, s));
    else
        CLT_TRY(learn_targets(source, from, target, s));
    s->scales_target = s->kind != TARGET_CLASSES && clt_table_standardizes(config);
    if (s->scales_target)
        (void)clt_table_moments(from, target, &part, &s->columns->target_mean, &s->columns->target_std);
    return CLT_OK;
}

/* Takes the class names of a saved run. */
static clt_status kept_names(clt_source *source, const clt_data_facts *facts, csv_state *s)
{
    const char *name = facts->class_names.text;
    s->kind = TARGET_CLASSES;
    s->n_names = facts->n_class_names;
    s->names = clt_arena_alloc(source->arena, (size_t)s->n_names * sizeof *s->names);
    if (!s->names)
        return CLT_ENOMEM;
    s->sorted = true;
    for (int64_t i = 0; i < s->n_names; i++, name += strlen(name) + 1) {
        if (!(s->names[i] = clt_arena_strdup(source->arena, name)))
            return CLT_ENOMEM;
        s->sorted = s->sorted && (i == 0 || strcmp(s->names[i - 1], s->names[i]) < 0);
    }
    return CLT_OK;
}

/* Takes the facts of a saved run, so that targets become the same kind of numbers as in that run. */
static clt_status take_known(clt_source *source, const clt_config *config, csv_state *s)
{
    const clt_data_facts *facts = source->with.facts;
    CLT_TRY(clt_table_copy(source->with.table, source->arena, &s->columns));
    s->scales_target = s->columns->target_scaled;
    s->kind = TARGET_NUMBERS;
    for (int i = 0; facts && i < facts->n_fields; i++)
        if (strcmp(facts->fields[i].name, "y") == 0 && facts->fields[i].dtype != CLT_F32)
            s->kind = TARGET_WHOLE;
    if (source->with.numbers)
        return CLT_OK;
    if (clt_config_list_count(config, "data.class_names") > 0)
        return given_names(source, config, s);
    return facts && facts->n_class_names > 0 ? kept_names(source, facts, s) : CLT_OK;
}

/* Takes the facts that were learned from the training data of the same config. */
static clt_status take_training(clt_source *source, csv_state *s)
{
    const csv_state *t = source->with.training->state;
    CLT_TRY(clt_table_copy(t->columns, source->arena, &s->columns));
    s->kind = t->kind;
    s->scales_target = t->scales_target;
    s->sorted = t->sorted;
    s->n_names = t->n_names;
    s->names = clt_arena_alloc(source->arena, (size_t)(t->n_names + 1) * sizeof *s->names);
    if (!s->names || (t->words && !(s->words = clt_arena_strdup(source->arena, t->words))))
        return CLT_ENOMEM;
    for (int64_t i = 0; i < t->n_names; i++)
        s->names[i] = t->names[i]; /* copied when the fields are set */
    return CLT_OK;
}

static bool fits(clt_source *source, const clt_config *config, clt_split split, const csv_state *s)
{
    bool same = false;
    int target;
    if (find_target(&s->table, config, &target) != CLT_OK ||
        clt_table_matches(source->with.table, &s->table, config, target, source->arena, &same) != CLT_OK)
        same = false;
    clt_error_clear();
    if (!same)
        CLT_WARN_ONCE(
            "'%s' has other columns than the table that the weights were trained on, or data.columns and "
            "data.target name others; means, deviations and words are learned from it",
            s->table.path);
    else if (split == CLT_SPLIT_TRAIN)
        CLT_INFO_ONCE("'%s' is standardised as the table that the weights were trained on", s->table.path);
    if (same && split == CLT_SPLIT_TRAIN)
        clt_table_warn_of_fill(source->with.table, config, s->table.path);
    return same;
}

static clt_status choose_columns(clt_source *source, const clt_config *config, clt_split split, bool own_file,
                                 bool divided, csv_state *s)
{
    const clt_source_with *with = &source->with;
    bool known =
        with->table && !with->training && (!with->table_may_differ || fits(source, config, split, s));
    if (with->training) /* the source of the training data has decided this */
        CLT_TRY(take_training(source, s));
    else if (known && (with->facts || with->numbers))
        CLT_TRY(take_known(source, config, s));
    else
        CLT_TRY(learn(source, config, own_file, divided, known ? with->table : NULL, s));
    s->columns->target_scaled = false; /* set later, if the model is a regression */
    s->target = -1;
    CLT_TRY(clt_table_locate(s->columns, &s->table, source->arena, &s->at));
    if (!with->numbers)
        CLT_TRY(clt_table_locate_target(s->columns, &s->table, &s->target));
    s->tally = clt_arena_alloc(source->arena, (size_t)s->columns->n_columns * sizeof *s->tally);
    return s->tally ? CLT_OK : CLT_ENOMEM;
}

/* --- samples --- */

/* The column of the table from which element i of x comes. */
static int column_of(const clt_table *table, const int *at, int64_t i)
{
    int c = 0;
    for (; i >= clt_table_elements(&table->columns[c]); c++)
        i -= clt_table_elements(&table->columns[c]);
    return at[c];
}

static clt_status fill_target(const csv_state *s, int64_t row, int64_t sample)
{
    const char *cell = clt_csv_cell(&s->table, row, s->target);
    double value = 0;
    int64_t found = s->kind == TARGET_CLASSES ? find_class(s, cell) : -1;
    if (!*cell && found < 0)
        return clt_table_target_missing(&s->table, row, s->target);
    if (s->kind == TARGET_CLASSES) {
        if (found < 0)
            return clt_table_bad_cell(&s->table, row, s->target,
                                      "is not one of the classes; see data.class_names");
        ((int32_t *)s->y)[sample] = (int32_t)found;
        return CLT_OK;
    }
    if (!clt_csv_is_number(cell, &value) || (s->kind == TARGET_WHOLE && !clt_csv_is_whole(cell)))
        return clt_table_bad_cell(&s->table, row, s->target,
                                  s->kind == TARGET_WHOLE ? "is not a whole number, but the other targets are"
                                                          : "is not a number");
    s->number[sample] = value;
    if (s->kind == TARGET_WHOLE)
        ((int32_t *)s->y)[sample] = (int32_t)strtol(cell, NULL, 10);
    else
        ((float *)s->y)[sample] = (float)value;
    return CLT_OK;
}

/* Room for one sample: the numbers of a row, and the mean and std of each. */
typedef struct csv_scratch {
    double *numbers, *mean, *std;
} csv_scratch;

static void free_scratch(csv_scratch *scratch)
{
    free(scratch->numbers);
}

CLT_SCOPED_VALUE(csv_scratch, free_scratch)

static clt_status fill_input(const csv_state *s, const csv_scratch *scratch, int64_t row, int64_t sample)
{
    int64_t elements = s->columns->elements;
    CLT_TRY(clt_table_numbers(s->columns, &s->table, s->at, row, s->tally, scratch->numbers));
    if (s->raw)
        memcpy(s->raw + sample * elements, scratch->numbers, (size_t)elements * sizeof *s->raw);
    for (int64_t i = 0; !s->raw && i < elements; i++) {
        float x = (float)((scratch->numbers[i] - scratch->mean[i]) / scratch->std[i]);
        if (!isfinite(x))
            return clt_table_bad_cell(&s->table, row, column_of(s->columns, s->at, i),
                                      "is not finite with data.scale, mean and std");
        s->x[sample * elements + i] = x;
    }
    return CLT_OK;
}

static clt_status fill_sample(const csv_state *s, const csv_scratch *scratch, int64_t row, int64_t sample)
{
    s->line[sample] = clt_csv_line(&s->table, row);
    CLT_TRY(fill_input(s, scratch, row, sample));
    return s->target < 0 ? CLT_OK : fill_target(s, row, sample);
}

/* Reports the first bad row of the file. A search is needed because samples have another order than rows.
 * `failure`: the error of the first bad sample. */
static clt_status first_bad_row(const csv_state *s, const csv_scratch *scratch, clt_status failure)
{
    clt_error error;
    clt_error_take(failure, &error);
    for (int64_t row = 0; row < clt_csv_rows(&s->table); row++)
        CLT_TRY(fill_sample(s, scratch, row, 0));
    return clt_error_put(&error);
}

static clt_status fill_rows(const clt_source *source, const clt_split_part *part, csv_state *s,
                            csv_scratch *scratch)
{
    size_t elements = (size_t)s->columns->elements, samples = (size_t)source->samples;
    CLT_TRY(clt_alloc(&scratch->numbers, 3 * elements, sizeof(double), "a table"));
    scratch->mean = scratch->numbers + elements;
    scratch->std = scratch->mean + elements;
    clt_table_norm(s->columns, scratch->mean, scratch->std);
    if (source->with.numbers)
        CLT_TRY(clt_alloc(&s->raw, samples * elements, sizeof *s->raw, "a table"));
    else
        CLT_TRY(clt_alloc(&s->x, samples * elements, sizeof *s->x, "a table"));
    CLT_TRY(clt_alloc(&s->y, samples, sizeof(int32_t), "a table"));
    CLT_TRY(clt_alloc(&s->number, samples, sizeof *s->number, "a table"));
    CLT_TRY(clt_alloc(&s->line, samples, sizeof *s->line, "a table"));
    for (int64_t i = 0; i < source->samples; i++) {
        clt_status status = fill_sample(s, scratch, clt_split_row(part, i), i);
        if (status != CLT_OK)
            return first_bad_row(s, scratch, status);
    }
    return CLT_OK;
}

static clt_status fill(clt_source *source, const clt_config *config, clt_split split, bool divided,
                       csv_state *s)
{
    clt_split_part part;
    CLT_SCOPED(csv_scratch) scratch = {0};
    CLT_TRY(choose_rows(config, split == CLT_SPLIT_EVAL, divided, clt_csv_rows(&s->table), &part));
    source->samples = part.count;
    return fill_rows(source, &part, s, &scratch);
}

static clt_status describe(clt_source *source, const csv_state *s)
{
    char what[64] = "numbers", inputs[64] = "";
    if (s->kind == TARGET_CLASSES)
        (void)snprintf(what, sizeof what, "%lld class%s", (long long)s->n_names, CLT_PLURAL_ES(s->n_names));
    else if (s->kind == TARGET_WHOLE && !s->columns->target_scaled)
        (void)snprintf(what, sizeof what, "whole numbers, largest %lld",
                       (long long)source->fields[1].max_value);
    if (s->columns->elements != s->columns->n_columns)
        (void)snprintf(inputs, sizeof inputs, " (%lld inputs with one for each word)",
                       (long long)s->columns->elements);
    source->description =
        clt_arena_printf(source->arena, "csv: %lld sample%s of %d column%s%s from '%s', target %s: %s",
                         (long long)source->samples, CLT_PLURAL(source->samples), s->columns->n_columns,
                         CLT_PLURAL(s->columns->n_columns), inputs, s->path, s->target_text, what);
    return source->description ? CLT_OK : CLT_ENOMEM;
}

static int by_number(const void *left, const void *right)
{
    int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;
    return (a > b) - (a < b);
}

/* *out: number of different targets. */
static clt_status count_distinct(const clt_source *source, const csv_state *s, int64_t *out)
{
    CLT_FREED int32_t *y = NULL;
    size_t samples = (size_t)source->samples;
    CLT_TRY(clt_alloc(&y, samples, sizeof *y, "the targets of a table"));
    memcpy(y, s->y, samples * sizeof *y);
    qsort(y, samples, sizeof *y, by_number);
    *out = 1;
    for (size_t i = 1; i < samples; i++)
        *out += y[i] != y[i - 1];
    return CLT_OK;
}

static clt_status set_fields(clt_source *source, csv_state *s)
{
    bool number = s->kind == TARGET_NUMBERS;
    int64_t most = s->kind == TARGET_CLASSES ? s->n_names - 1 : INT64_MIN;
    for (int64_t i = 0; s->kind == TARGET_WHOLE && i < source->samples; i++)
        most = ((int32_t *)s->y)[i] > most ? ((int32_t *)s->y)[i] : most;
    source->n_fields = s->target < 0 ? 1 : 2;
    source->table = s->columns;
    source->fields[0] = (clt_source_field){"x", CLT_F32, clt_shape1(s->columns->elements), false, 0};
    source->fields[1] = (clt_source_field){"y", number ? CLT_F32 : CLT_I32, clt_shape_make(0, NULL), !number,
                                           number ? 0 : most};
    source->bytes = (int64_t)s->table.size;
    source->scale = source->std = 1.0; /* x is already standardised */
    source->mean = 0.0;
    if (s->kind == TARGET_CLASSES) {
        source->words = s->words;
        source->class_names = s->names;
        source->n_class_names = s->n_names;
        for (int64_t i = 0; i < s->n_names; i++) /* copied, since the tables and the config will be freed */
            if (!(s->names[i] = clt_arena_strdup(source->arena, s->names[i])))
                return CLT_ENOMEM;
    }
    s->path = s->table.path; /* the text is in the arena */
    (void)snprintf(s->target_text, sizeof s->target_text, "none");
    if (s->target >= 0)
        clt_table_column_text(&s->table, s->target, s->target_text, sizeof s->target_text);
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
    clt_status status = load_table(&s->table, source->arena, clt_config_list_string(config, key, 0), config);
    CLT_TRY(clt_fail_prefix(status, "opening %s", key));
    s->content = s->table.content;
    bool divided = !own_eval && clt_config_float(config, "data.split") > 0;
    CLT_TRY(choose_columns(source, config, split, eval_file, divided, s));
    CLT_TRY(fill(source, config, split, divided, s));
    CLT_TRY(set_fields(source, s));
    if (split == CLT_SPLIT_TRAIN && s->target >= 0 && s->kind != TARGET_NUMBERS)
        CLT_TRY(count_distinct(source, s, &source->distinct));
    clt_csv_unload(&s->training);
    if (source->with.numbers) /* then csv_numbers logs blank cells */
        return CLT_OK;
    clt_table_tell(s->columns, &s->table, s->at, s->tally, s->table.path, source->samples);
    clt_csv_unload(&s->table);
    return CLT_OK;
}

/* Standardises a regression's targets if data.standardize says so. Targets that are whole numbers then
 * become f32, since they are not classes. */
static clt_status csv_regress(clt_source *source, bool *changed)
{
    csv_state *s = source->state;
    *changed = s->scales_target && s->target >= 0 && !s->columns->target_scaled;
    if (!*changed)
        return CLT_OK;
    for (int64_t i = 0; i < source->samples; i++)
        ((float *)s->y)[i] = (float)((s->number[i] - s->columns->target_mean) / s->columns->target_std);
    source->fields[1].dtype = CLT_F32;
    source->fields[1].is_index = false;
    source->fields[1].max_value = 0;
    s->columns->target_scaled = true;
    source->distinct = 0;
    return describe(source, s);
}

static clt_status csv_numbers(const clt_source *source, int64_t index, double *out)
{
    csv_state *s = source->state;
    int64_t elements = s->columns->elements;
    memcpy(out, s->raw + index * elements, (size_t)elements * sizeof *out);
    if (!atomic_exchange(&s->told, true)) /* log once: several threads may call this */
        clt_table_tell(s->columns, &s->table, s->at, s->tally, s->table.path, source->samples);
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
    free(s->raw);
    free(s->number);
    free(s->y);
    free(s->line);
}

static clt_status csv_read(const clt_source *source, int64_t index, clt_draw draw, void *const *to)
{
    const csv_state *s = source->state;
    (void)draw;
    if (to[0])
        memcpy(to[0], s->x + index * s->columns->elements, (size_t)s->columns->elements * sizeof *s->x);
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

static int64_t csv_line_of(const clt_source *source, int64_t index)
{
    const csv_state *s = source->state;
    return s->line[index];
}

static clt_status csv_fingerprint(const clt_source *source, clt_hash64_state *state)
{
    const csv_state *s = source->state;
    *state = s->content;
    return CLT_OK;
}

static bool csv_has_eval(const clt_config *config)
{
    return clt_config_float(config, "data.split") > 0.0;
}

static clt_status csv_check_file(const char *path, const char *tokenizer, clt_str *out)
{
    CLT_SCOPED(clt_arena) *arena = NULL;
    CLT_SCOPED(clt_csv_table) table = {0};
    (void)tokenizer;
    CLT_TRY(clt_arena_create(&arena));
    CLT_TRY(clt_csv_load(&table, arena, path, "auto"));
    clt_str_printf(out, "%lld line%s of %d cell%s%s", (long long)clt_csv_rows(&table),
                   CLT_PLURAL((long long)clt_csv_rows(&table)), table.columns, CLT_PLURAL(table.columns),
                   table.header ? " below their names" : "");
    return clt_str_check(out);
}

extern const clt_config_part clt_format_csv; /* in csv_config.c */
static const char *const csv_ends[] = {".csv", ".tsv", ".txt", NULL};

const clt_source_type clt_source_csv = {
    .format = &clt_format_csv,
    .open = csv_open,
    .close = csv_close,
    .read = csv_read,
    .numbers = csv_numbers,
    .regress = csv_regress,
    .locate = csv_locate,
    .line_of = csv_line_of,
    .fingerprint = csv_fingerprint,
    .has_eval = csv_has_eval,
    .holds_targets = true,
    .eval_hint = "data.eval_path, or data.split above 0 for a part of the table",
    .suffix = ".csv",
    .check_file = csv_check_file,
    .input_ends = csv_ends,
    .input_lines = true,
};
