/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes of the arenas of a layout, and its parameters by name. */
#include "engine/state/arenas.h"

#include <stdlib.h>
#include <string.h>

void clt_store_layout_destroy(clt_store_layout *layout)
{
    if (!layout)
        return;
    clt_arena_destroy(layout->arena);
    free(layout);
}

const clt_store_slot *clt_store_layout_find(const clt_store_layout *layout, const char *name)
{
    for (int32_t i = 0; i < layout->n_slots; i++)
        if (strcmp(layout->slots[i].name, name) == 0)
            return &layout->slots[i];
    return NULL;
}

uint64_t clt_store_slab_bytes(const clt_store_layout *layout, clt_arena_kind kind, int32_t slab)
{
    uint64_t elements = layout->slab_elements[slab], trainable = layout->trainable_elements[slab];
    switch (kind) {
    case CLT_ARENA_PARAM:
        return elements * sizeof(float);
    case CLT_ARENA_WORK:
        return layout->working == CLT_F32 ? 0 : elements * clt_dtype_bytes(layout->working);
    case CLT_ARENA_GRAD:
        return (trainable + (slab == layout->n_slabs - 1 ? CLT_STORE_CHUNK : 0)) * sizeof(float);
    case CLT_ARENA_OPT1:
        return layout->opt_states >= 1 ? trainable * sizeof(float) : 0;
    case CLT_ARENA_OPT2:
        return layout->opt_states >= 2 ? trainable * sizeof(float) : 0;
    case CLT_ARENA_TABLE:
        return trainable / CLT_STORE_CHUNK * 2 * sizeof(float);
    case CLT_ARENA_STATE:
        return slab == 0 ? CLT_STATE_TABLE_OFFSET + layout->schedule_entries * 4 * sizeof(float) : 0;
    default:
        return 0;
    }
}

uint64_t clt_store_arena_bytes(const clt_store_layout *layout, clt_arena_kind kind)
{
    uint64_t total = 0;
    for (int32_t s = 0; s < layout->n_slabs; s++)
        total += clt_store_slab_bytes(layout, kind, s);
    return total;
}
