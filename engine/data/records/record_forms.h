/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of records in forms other than JSON Lines and lists of JSON, as data sets are published: SQuAD's
 * JSON, in which questions belong to paragraphs of articles; CoNLL's columns, with a word on each line;
 * and tables (table_file.h). Records are not copied from their files when these are opened; each is
 * turned into an object of JSON when it is read. It knows nothing of tokens and classes. */
#ifndef ENGINE_DATA_RECORDS_RECORD_FORMS_H
#define ENGINE_DATA_RECORDS_RECORD_FORMS_H

#include "engine/data/texts/texts.h"

/* values of clt_text_file.form */
typedef enum clt_record_form {
    CLT_RECORD_LINES, /* JSON Lines, or a list of JSON */
    CLT_RECORD_SQUAD,
    CLT_RECORD_COLUMNS,
    CLT_RECORD_TABLE
} clt_record_form;

/* clt_texts.cut for questions: SQuAD's JSON (version 1.1 and 2.0), {"data": [{"paragraphs": [{"context":
 * TEXT, "qas": [...]}]}]}; each question is a document. Paragraphs are checked one at a time, so that a file
 * of any size needs the memory of one paragraph. Other files are taken to be JSON Lines. The message of
 * CLT_EDATA names the byte that is wrong. Source: Rajpurkar et al. 2018, arXiv:1806.03822, and the files of
 * its authors. */
clt_status clt_squad_cut(clt_texts *texts, const char *bytes, size_t size);
/* clt_texts.cut for labels of words: CoNLL's columns (column_file.h); each sentence is a document. A file is
 * read as JSON Lines, or as a list of JSON, instead if its name ends with .json, .jsonl or .ndjson, or if its
 * first bytes begin an object of JSON or a list of objects. */
clt_status clt_columns_cut(clt_texts *texts, const char *bytes, size_t size);

/* clt_texts.cut for tables, whose rows are documents: files named .csv or .tsv, also with .gz after it. Other
 * files are taken to be JSON Lines. CLT_EDATA: the line of names names no columns. */
clt_status clt_table_cut(clt_texts *texts, const char *bytes, size_t size);

/* Sets *line, borrowed, and *size to a record as a JSON object: the bytes of the file, or an object
 * written to `made`. A question of SQuAD becomes {"id", "question", "context", "answers"}, where answers
 * is [] if is_impossible is true, even if the file lists answers. A sentence in columns becomes the
 * object of clt_columns_record. The values of a table's row are texts. CLT_EDATA says why the record
 * cannot be used. */
clt_status clt_record_json(const clt_texts *texts, const clt_document *document, clt_str *made,
                           const char **line, size_t *size);

#endif
