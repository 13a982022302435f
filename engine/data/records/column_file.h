/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads files with a word on each line and its labels in columns, the form of CoNLL's shared tasks: finds the
 * sentences of a file, and makes the record of one sentence. */
#ifndef ENGINE_DATA_RECORDS_COLUMN_FILE_H
#define ENGINE_DATA_RECORDS_COLUMN_FILE_H

#include <stdbool.h>

#include "engine/base/mem.h"
#include "engine/base/status.h"

/* Properties that all lines of a file share. */
typedef struct clt_columns {
    int count;     /* columns of each line; 0: the file has no word */
    bool tabs;     /* a single tab separates columns; false: any number of spaces and tabs */
    bool numbered; /* the first column is the number of the word in its sentence, as in CoNLL-U */
} clt_columns;

/* `line`: the line of the file on which the sentence begins, counted from 1. */
typedef clt_status (*clt_sentence_visitor)(void *context, const char *sentence, size_t size, int64_t line);
/* Finds the properties of a text's lines, and calls `visit` for each sentence: a sequence of lines without a
 * blank one. Lines that begin with -DOCSTART- separate sentences and belong to none. Comments belong to none
 * either: these are lines before the first word of a sentence that begin with # and have another number of
 * columns than words have. CLT_EDATA: the first word's line has too many columns. */
clt_status clt_columns_walk(const char *text, size_t size, clt_sentence_visitor visit, void *context,
                            clt_columns *columns);
/* Appends a sentence as a JSON object: {"tokens": [...], "tags": [...], "1": [...], "2": [...], ...}, the
 * words, their labels, and each column by its number. The words are the first column, or the second one in a
 * numbered file; the labels are the last column, or the fourth of CoNLL-U's ten columns; without a further
 * column there are no labels. In a numbered file lines with other numbers, such as 3-4 or 8.1, are not
 * words. CLT_EDATA: a line has a different number of columns, an empty column, bytes that are not UTF-8 or,
 * in a numbered file, no number; the message names the line. */
clt_status clt_columns_record(const clt_columns *columns, const char *sentence, size_t size, int64_t line,
                              clt_str *out);

#endif
