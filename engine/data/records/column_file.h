/* SPDX-License-Identifier: Apache-2.0
 *
 * Files with a word on each line and its labels in columns, the form of CoNLL's shared tasks: finds the
 * sentences of a file, and makes the record of one sentence. */
#ifndef ENGINE_DATA_RECORDS_COLUMN_FILE_H
#define ENGINE_DATA_RECORDS_COLUMN_FILE_H

#include <stdbool.h>

#include "engine/base/mem.h"
#include "engine/base/status.h"

/* What the lines of a file have in common. */
typedef struct clt_columns {
    int count;     /* columns of each line; 0: the file has no word */
    bool tabs;     /* tabs separate them; else spaces, and tabs, as many as there are */
    bool numbered; /* the first column is the number of the word in its sentence, as in CoNLL-U */
} clt_columns;

/* line: the line of the file, from 1, on which the sentence begins. */
typedef clt_status (*clt_sentence_visitor)(void *context, const char *sentence, size_t size, int64_t line);
/* Finds out what the lines of a text have in common, and calls `visit` for each sentence: lines without a
 * blank one among them. Lines that begin with -DOCSTART- part sentences and belong to none, nor do
 * comments: lines before the first word of a sentence that begin with # and have not as many columns as a
 * word. CLT_EDATA: the first word's line has more columns than such files have. */
clt_status clt_columns_walk(const char *text, size_t size, clt_sentence_visitor visit, void *context,
                            clt_columns *columns);
/* Appends a sentence as an object of JSON: {"tokens": [...], "tags": [...], "1": [...], "2": [...], ...}, the
 * words, their labels, and each column by its number. The words are the first column, or the second one of a
 * numbered file; the labels are the last column, or of CoNLL-U's ten the fourth one; without a further
 * column there are no labels. In a numbered file lines of other numbers, such as 3-4 or 8.1, are not words.
 * CLT_EDATA names the line of the fault: a line with another number of columns or an empty one, bytes that
 * are not UTF-8, a line without a number. */
clt_status clt_columns_record(const clt_columns *columns, const char *sentence, size_t size, int64_t line,
                              clt_str *out);

#endif
