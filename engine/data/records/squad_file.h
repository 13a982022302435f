/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads SQuAD's JSON: finds the paragraphs of a file, and makes the record of one question of a paragraph. */
#ifndef ENGINE_DATA_RECORDS_SQUAD_FILE_H
#define ENGINE_DATA_RECORDS_SQUAD_FILE_H

#include <stdbool.h>

#include "engine/base/mem.h"
#include "engine/base/status.h"

typedef clt_status (*clt_squad_visitor)(void *context, const char *paragraph, size_t size, size_t at);
/* Calls `visit` with the bytes of each paragraph and their offset `at` in the file. *found: whether the text
 * is an object with a list "data"; if not, `visit` is not called. CLT_EDATA names the byte where the text is
 * wrong. */
clt_status clt_squad_walk(const char *text, size_t size, clt_squad_visitor visit, void *context, bool *found);
/* The number of questions of a paragraph. CLT_EDATA: it is not JSON, or has no "context" or "qas". */
clt_status clt_squad_questions(const char *paragraph, size_t size, int64_t *count);
/* Appends question number `part` of a paragraph as an object of JSON, without a line break. */
clt_status clt_squad_record(const char *paragraph, size_t size, int64_t part, clt_str *out);

#endif
