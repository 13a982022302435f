/* SPDX-License-Identifier: Apache-2.0
 *
 * Cutting the gradient arena into buckets: see buckets.h. */
#include "engine/plan/buckets.h"

#include <stdlib.h>

typedef struct table {
    clt_bucket *list;
    size_t count, capacity;
    clt_bucket_sizes sizes;
    bool open; /* the last bucket may still grow */
} table;

/* Most elements of bucket number `index`; at least one chunk. */
static uint64_t most_elements(const table *t, size_t index)
{
    uint64_t chunks = (index == 0 ? t->sizes.first : t->sizes.rest) / (CLT_STORE_CHUNK * sizeof(float));
    return (chunks ? chunks : 1) * CLT_STORE_CHUNK;
}

static clt_status append(table *t, int32_t slab, uint64_t first, uint64_t elements, size_t ready)
{
    CLT_TRY(clt_grow(&t->list, &t->capacity, t->count + 1, sizeof *t->list, "gradient buckets"));
    if (t->count > 0 && t->list[t->count - 1].ready > ready)
        ready = t->list[t->count - 1].ready;
    t->list[t->count++] = (clt_bucket){slab, first, elements, ready};
    return CLT_OK;
}

/* Puts a parameter into the last bucket. False: that is closed, of another slab, or has no room. */
static bool joins(table *t, const clt_store_slot *slot, uint64_t elements, size_t ready)
{
    clt_bucket *last = t->open ? &t->list[t->count - 1] : NULL;
    if (!last || last->slab != slot->slab || last->elements + elements > most_elements(t, t->count - 1))
        return false;
    last->elements += elements;
    last->ready = ready > last->ready ? ready : last->ready;
    return true;
}

/* Begins a new bucket with a parameter; one that is too large for it gets several of its own. */
static clt_status begin(table *t, const clt_store_slot *slot, uint64_t elements, size_t ready)
{
    uint64_t first = slot->offset, chunks = elements / CLT_STORE_CHUNK;
    t->open = elements <= most_elements(t, t->count);
    while (chunks > 0) {
        uint64_t most = most_elements(t, t->count) / CLT_STORE_CHUNK, pieces = clt_div_up(chunks, most);
        uint64_t take = t->count == 0 && pieces > 1 ? most : clt_div_up(chunks, pieces);
        CLT_TRY(append(t, slot->slab, first, take * CLT_STORE_CHUNK, ready));
        first += take * CLT_STORE_CHUNK;
        chunks -= take;
    }
    return CLT_OK;
}

clt_status clt_buckets_make(const clt_store_layout *layout, const size_t *ready, clt_bucket_sizes sizes,
                            clt_bucket **out, size_t *count)
{
    table t = {.sizes = sizes};
    clt_status status = CLT_OK;
    for (int32_t i = 0; i < layout->n_slots && status == CLT_OK; i++) {
        const clt_store_slot *slot = &layout->slots[layout->order[i]];
        uint64_t elements = clt_align_up(slot->elements, CLT_STORE_CHUNK);
        if (slot->trainable && !joins(&t, slot, elements, ready[layout->order[i]]))
            status = begin(&t, slot, elements, ready[layout->order[i]]);
    }
    if (status != CLT_OK) {
        free(t.list);
        t = (table){0};
    }
    *out = t.list;
    *count = t.count;
    return status;
}
