/* SPDX-License-Identifier: Apache-2.0
 *
 * Open addressing: an entry is in the first slot, from the hash of its number on, that was free when it
 * was added. At most half of the slots are used, so that every search ends. */
#include "engine/base/index_map.h"

#include <stdlib.h>

#include "engine/base/mem.h"

#define FIRST_SIZE 256

/* The slot of the entry, or the free slot where it belongs. */
static clt_index_slot *find(const clt_index_map *map, uint32_t index)
{
    size_t at = (index * 2654435761u) & (map->size - 1);
    while (map->slots[at].value && map->slots[at].index != index)
        at = (at + 1) & (map->size - 1);
    return &map->slots[at];
}

static clt_status grow(clt_index_map *map, const char *what)
{
    clt_index_map larger = {.size = map->size ? map->size * 2 : FIRST_SIZE, .used = map->used};
    CLT_TRY(clt_alloc(&larger.slots, larger.size, sizeof *larger.slots, what));
    for (size_t i = 0; i < map->size; i++)
        if (map->slots[i].value)
            *find(&larger, map->slots[i].index) = map->slots[i];
    free(map->slots);
    *map = larger;
    return CLT_OK;
}

clt_status clt_index_map_put(clt_index_map *map, uint32_t index, void *value, const char *what)
{
    if (map->used * 2 >= map->size)
        CLT_TRY(grow(map, what));
    clt_index_slot *slot = find(map, index);
    map->used += !slot->value;
    *slot = (clt_index_slot){value, index};
    return CLT_OK;
}

void *clt_index_map_get(const clt_index_map *map, uint32_t index)
{
    return map->size ? find(map, index)->value : NULL;
}

void clt_index_map_free(clt_index_map *map)
{
    free(map->slots);
    *map = (clt_index_map){0};
}
