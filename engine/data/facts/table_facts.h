/* SPDX-License-Identifier: Apache-2.0
 *
 * Facts about a table's columns, learned from its training part: which columns are the input, which
 * columns hold words, what stands for blank cells, means and deviations. A checkpoint keeps them with the
 * data's facts (data_facts.h), so that every other table becomes the model's input in the same way,
 * whatever the order of its columns. It knows no files. */
#ifndef ENGINE_DATA_FACTS_TABLE_FACTS_H
#define ENGINE_DATA_FACTS_TABLE_FACTS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/base/mem.h"
#include "engine/json/json.h"

/* A column of numbers is one element of x, (number - mean) / std. A column of words is one element for each
 * word: 1 for the cell's own word and 0 for the others; a word that is not in the list gives zeros. */
typedef struct clt_table_column {
    const char *name;   /* NULL: the table has no names */
    int number;         /* number of the column in the training table, from 1 */
    int64_t n_words;    /* 0: a column of numbers */
    const char **words; /* the words in byte order; "" represents blank cells */
    bool fills;         /* a blank cell counts as `fill`, or as a separate word; false: it is refused */
    double fill, mean, std;
} clt_table_column;

typedef struct clt_table {
    int width;     /* number of columns in the training table */
    int n_columns; /* number of input columns, which are in the order of x */
    clt_table_column *columns;
    int64_t elements; /* of x */
    const char *target;
    int target_number;
    /* True: the model's targets and predictions are (number - target_mean) / target_std; false: they are the
     * numbers themselves. */
    bool target_scaled;
    double target_mean, target_std;
} clt_table;

/* Number of elements of x that a column gives. */
int64_t clt_table_elements(const clt_table_column *column);
/* Number of elements of x that all columns give. */
int64_t clt_table_count(const clt_table *table);
/* Mean and std of each element of x: 0 and 1 for words. */
void clt_table_norm(const clt_table *table, double *mean, double *std);
/* Converts a target or a prediction of the model to the unit of the table. */
double clt_table_number(const clt_table *table, double value);
/* True if both tables turn equal cells into equal x, and targets into the same unit. */
bool clt_table_same(const clt_table *a, const clt_table *b);

clt_status clt_table_copy(const clt_table *table, clt_arena *arena, clt_table **out);
/* Writes the facts as a JSON object. */
void clt_table_write(const clt_table *table, clt_json_writer *w);
/* Reads such an object. `source`: the file's name for messages; the message of CLT_ECHECKPOINT says what is
 * wrong. */
clt_status clt_table_read(const clt_json *object, const char *source, clt_arena *arena, clt_table **out);

#endif
