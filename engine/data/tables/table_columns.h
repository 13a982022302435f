/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds a table's columns by name or number, learns their facts from the training part (table_facts.h),
 * and turns cells into the numbers of a sample. It knows no targets. */
#ifndef ENGINE_DATA_TABLES_TABLE_COLUMNS_H
#define ENGINE_DATA_TABLES_TABLE_COLUMNS_H

#include "engine/config/config.h"
#include "engine/data/data.h"
#include "engine/data/facts/table_facts.h"
#include "engine/data/records/csv_table.h"

/* Counts for a column while rows become numbers: blank cells, and words that the training part lacks, with
 * the first such word and its line. */
typedef struct clt_table_tally {
    int64_t blank, unknown, first_line;
    const char *word;
} clt_table_tally;

/* Finds a column by its name, or by its number from 1. `key`: the config key that names it, for messages. */
clt_status clt_table_find(const clt_csv_table *t, const char *key, const char *word, int *column);
/* A column for messages: its name in quotes, or its number. */
void clt_table_column_text(const clt_csv_table *t, int column, char *out, size_t size);
/* Reports a wrong cell: CLT_EDATA with file, line and column. `what`: such as "is not a number". */
clt_status clt_table_bad_cell(const clt_csv_table *t, int64_t row, int column, const char *what);
/* Reports a blank target: CLT_EDATA with file, line and column. */
clt_status clt_table_target_missing(const clt_csv_table *t, int64_t row, int column);
/* Checks that a word can be kept in JSON: CLT_EDATA names its line and byte. `what`: such as "the class
 * word". */
clt_status clt_table_check_word(const clt_csv_table *t, int64_t row, int column, const char *what);
/* The different cells of a column in the rows of the part, in byte order. */
clt_status clt_table_words(const clt_csv_table *t, int column, const clt_split_part *part, const char *what,
                           clt_arena *arena, const char ***words, int64_t *count);

/* The index of a word in the list of clt_table_words; -1: it is not there. */
int64_t clt_table_word(const char *const *words, int64_t count, const char *word);

/* True if inputs and numeric targets are standardised: data.standardize is set, and the config does not give
 * data.scale, mean or std. */
bool clt_table_standardizes(const clt_config *config);
/* Mean and standard deviation of a column's numbers in the rows of the part; blank cells are ignored. If all
 * numbers are equal, the deviation is given as 1. False: there is no number. */
bool clt_table_moments(const clt_csv_table *t, int column, const clt_split_part *part, double *mean,
                       double *std);
/* Learns the input's columns. All rows decide whether a column holds words or numbers; everything else is
 * learned from the rows of the part. */
clt_status clt_table_learn(const clt_csv_table *t, const clt_config *config, const clt_split_part *part,
                           int target, clt_arena *arena, clt_table **out);

/* Finds the input's columns in a table, by name if both tables have names, and writes their numbers to
 * at[n_columns]. */
clt_status clt_table_locate(const clt_table *table, const clt_csv_table *t, clt_arena *arena, int **at);
/* Finds the target's column in a table. */
clt_status clt_table_locate_target(const clt_table *table, const clt_csv_table *t, int *column);
/* Writes the elements of x for a row, before (x - mean) / std. `tally`: the counts for each column. */
clt_status clt_table_numbers(const clt_table *table, const clt_csv_table *t, const int *at, int64_t row,
                             clt_table_tally *tally, double *out);
/* Logs the blank cells and unknown words that were counted. */
void clt_table_tell(const clt_table *table, const clt_csv_table *t, const int *at,
                    const clt_table_tally *tally, const char *path, int64_t rows);

#endif
