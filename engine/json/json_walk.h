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
    const char *as; /* ends the messages, such as ", as SQuAD's files have it" */
} clt_json_walk;

/* CLT_EDATA: at this byte must be what `wanted` says. */
clt_status clt_json_walk_fault(const clt_json_walk *walk, const char *wanted);
/* Skips spaces and line breaks; the character behind them, '\0' at the end. */
char clt_json_walk_peek(clt_json_walk *walk);
/* Takes one character, behind spaces; CLT_EDATA with `name` if it is another. */
clt_status clt_json_walk_expect(clt_json_walk *walk, char wanted, const char *name);
clt_status clt_json_walk_string(clt_json_walk *walk);
/* Skips a value of any kind. It only counts brackets, so '[' may be closed by '}'. */
clt_status clt_json_walk_value(clt_json_walk *walk);
/* Goes to the next entry of a list or object whose opening bracket was taken; *more false: it has ended. */
clt_status clt_json_walk_entry(clt_json_walk *walk, char closing, bool first, bool *more);

/* True if a text begins as a list of objects, or as an empty list. */
bool clt_json_starts_list(const char *text, size_t size);
/* The first record of a text whose beginning this is: the first entry of such a list, or the first line if
 * that begins as an object does; NULL if there is none, or it does not end here. */
const char *clt_json_first_record(const char *text, size_t size, size_t *record_size);

#endif
