/* SPDX-License-Identifier: Apache-2.0
 *
 * A hash table from arbitrary 32-bit numbers to pointers. Its memory grows with the number of entries, not
 * with the numbers. */
#ifndef ENGINE_BASE_INDEX_MAP_H
#define ENGINE_BASE_INDEX_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "engine/base/scope.h"
#include "engine/base/status.h"

typedef struct clt_index_slot {
    void *value; /* NULL: the slot is free */
    uint32_t index;
} clt_index_slot;

/* A zero-initialised map is empty. */
typedef struct clt_index_map {
    clt_index_slot *slots;
    size_t size; /* number of slots: 0 or a power of two */
    size_t used; /* entries */
} clt_index_map;

/* Sets the entry of `index`. `value` is borrowed and not NULL; `what` names the table in messages. Fails
 * with CLT_ENOMEM only. */
clt_status clt_index_map_put(clt_index_map *map, uint32_t index, void *value, const char *what);
/* NULL: there is no entry. */
void *clt_index_map_get(const clt_index_map *map, uint32_t index);
void clt_index_map_free(clt_index_map *map);
CLT_SCOPED_VALUE(clt_index_map, clt_index_map_free)

#endif
