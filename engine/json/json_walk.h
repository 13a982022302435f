/* SPDX-License-Identifier: Apache-2.0
 *
 * Walks over a JSON text without a tree of it, for files whose entries are read one at a time. It finds where
 * values end and checks no more than that; the strict reader (json.h) reads the entries. */
#ifndef ENGINE_JSON_JSON_WALK_H
#define ENGINE_JSON_JSON_WALK_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/base/status.h"

typedef struct clt_json_walk {
    const char *begin, *at, *end;
    const char *as; /* the end of messages, such as ", as SQuAD's files have it" */
} clt_json_walk;

/* Fails with CLT_EDATA: `wanted` is missing at the current byte. */
clt_status clt_json_walk_fault(const clt_json_walk *walk, const char *wanted);
/* Skips spaces and line breaks; returns the character after them, without taking it, or '\0' at the end. */
char clt_json_walk_peek(clt_json_walk *walk);
/* Takes the next character after spaces; CLT_EDATA with `name` if it is not `wanted`. */
clt_status clt_json_walk_expect(clt_json_walk *walk, char wanted, const char *name);
clt_status clt_json_walk_string(clt_json_walk *walk);
/* Skips a value of any kind. It only counts brackets, so '[' may be closed by '}'. */
clt_status clt_json_walk_value(clt_json_walk *walk);
/* Goes to the next entry of a list or object whose opening bracket has been taken. *more is false if there
 * is no further entry; then the closing bracket is taken. */
clt_status clt_json_walk_entry(clt_json_walk *walk, char closing, bool first, bool *more);

/* True if a text begins as a list of objects, or as an empty list. */
bool clt_json_starts_list(const char *text, size_t size);
/* Gives the first record of a file from `text`, the beginning of the file: the first entry of a list of
 * objects, or the first line if it begins with '{'. NULL if there is none, or if the entry does not end
 * within `text`. */
const char *clt_json_first_record(const char *text, size_t size, size_t *record_size);

#endif
