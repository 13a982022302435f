/* SPDX-License-Identifier: Apache-2.0
 *
 * A hash table from names to numbers or pointers. Names are not copied: they must live as long as the
 * table. */
#ifndef ENGINE_BASE_NAMES_H
#define ENGINE_BASE_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/status.h"

typedef struct clt_name {
    const char *text; /* NULL: an empty slot */
    size_t length;
    uintptr_t value;
} clt_name;

/* A zero-initialised table is empty. */
typedef struct clt_names {
    clt_name *place;
    size_t n, places; /* `places`: slots, a power of two or 0 */
} clt_names;

/* Adds a name; a name that is there already keeps its value. Fails with CLT_ENOMEM only. */
clt_status clt_names_add(clt_names *names, const char *text, uintptr_t value);
/* The value of a name of `length` bytes; false: there is no such name. */
bool clt_names_find(const clt_names *names, const char *text, size_t length, uintptr_t *value);
void clt_names_free(clt_names *names);

#endif
