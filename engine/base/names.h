/* SPDX-License-Identifier: Apache-2.0
 *
 * A table from names to numbers or pointers, for lists that are asked often: a hash table, so that a question
 * takes the same time in a long list as in a short one. Names are not copied: they must live as long as the
 * table. */
#ifndef ENGINE_BASE_NAMES_H
#define ENGINE_BASE_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"

typedef struct clt_name {
    const char *text; /* NULL: an empty place */
    size_t length;
    uintptr_t value;
} clt_name;

/* Zeroed: an empty table. */
typedef struct clt_names {
    clt_name *place;
    size_t n, places; /* a power of two, or 0 */
} clt_names;

/* Adds a name; one that is there already keeps its value. CLT_ENOMEM. */
clt_status clt_names_add(clt_names *names, const char *text, uintptr_t value);
/* The value of a name of `length` bytes; false: there is no such name. */
bool clt_names_find(const clt_names *names, const char *text, size_t length, uintptr_t *value);
void clt_names_free(clt_names *names);

#endif
