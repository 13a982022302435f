/* SPDX-License-Identifier: Apache-2.0
 *
 * Cuts the gradient arena into buckets, and finds when each of them is ready. */
#include "engine/plan/buckets.h"

#include <stdlib.h>

#include "comm/comm.h"

#define GRAIN ((uint64_t)CLT_BUCKET_CHUNKS * CLT_STORE_CHUNK)

typedef struct table {
    clt_bucket *list;
    size_t count, capacity;
    clt_bucket_sizes sizes;
    uint64_t first; /* the first element that the next bucket will have in the slab */
} table;

static void table_end_scope(table *t)
{
    free(t->list);
}

/* Largest number of elements of the next bucket. */
static uint64_t most_elements(const table *t)
{
    uint64_t grains = (t->count == 0 ? t->sizes.first : t->sizes.rest) / (GRAIN * sizeof(float));
    return (grains ? grains : 1) * GRAIN;
}

static clt_status append(table *t, int32_t slab, uint64_t end)
{
    CLT_TRY(clt_grow(&t->list, &t->capacity, t->count + 1, sizeof *t->list, "gradient buckets"));
    clt_range range = {slab, t->first, end - t->first};
    t->list[t->count++] = (clt_bucket){.range = range, .own = range};
    t->first = end;
    return CLT_OK;
}

/* Cuts the range from t->first to `end` into buckets of about equal size. The last bucket also takes the
 * elements after the last multiple of GRAIN. */
static clt_status cut(table *t, int32_t slab, uint64_t end)
{
    while (t->first < end) {
        uint64_t grains = (end - t->first) / GRAIN, most = most_elements(t) / GRAIN;
        uint64_t pieces = clt_div_up(grains, most);
        uint64_t take = t->count == 0 ? most : clt_div_up(grains, pieces ? pieces : 1);
        CLT_TRY(append(t, slab, pieces <= 1 ? end : t->first + take * GRAIN));
    }
    return CLT_OK;
}

/* Adds the next parameter of a slab. If the open bucket has no room for it, that bucket ends where the
 * parameter begins, rounded down to GRAIN. */
static clt_status add(table *t, const clt_store_layout *layout, const clt_store_slot *slot)
{
    uint64_t end = slot->offset + clt_align_up(slot->elements, CLT_STORE_CHUNK);
    bool last = end == layout->trainable_elements[slot->slab];
    if (slot->offset == 0)
        t->first = 0;
    if (end - t->first > most_elements(t)) {
        uint64_t before = slot->offset / GRAIN * GRAIN;
        if (before > t->first)
            CLT_TRY(append(t, slot->slab, before));
        if (end - t->first > most_elements(t))
            return cut(t, slot->slab, last ? end : end / GRAIN * GRAIN);
    }
    return last ? append(t, slot->slab, end) : CLT_OK;
}

clt_status clt_buckets_make(const clt_store_layout *layout, clt_bucket_sizes sizes, clt_bucket **out,
                            size_t *count)
{
    CLT_SCOPED(table) t = {.sizes = sizes};
    *out = NULL;
    *count = 0;
    for (int32_t i = 0; i < layout->n_slots; i++) {
        const clt_store_slot *slot = &layout->slots[layout->order[i]];
        if (slot->trainable)
            CLT_TRY(add(&t, layout, slot));
    }
    *out = CLT_TAKE(t.list);
    *count = t.count;
    return CLT_OK;
}

clt_range clt_bucket_share(const clt_bucket *bucket, int ranks, int rank)
{
    clt_range share = bucket->range;
    int64_t first, length;
    comm_share((int64_t)share.elements, GRAIN, ranks, rank, &first, &length);
    share.first += (uint64_t)first;
    share.elements = (uint64_t)length;
    return share;
}

void clt_buckets_set_ready(const clt_store_layout *layout, const size_t *ready, clt_bucket *list,
                           size_t count)
{
    int32_t i = 0;
    size_t latest = 0;
    for (size_t b = 0; b < count; b++) {
        const clt_range *range = &list[b].range;
        for (; i < layout->n_slots; i++) {
            int32_t index = layout->order[i];
            const clt_store_slot *slot = &layout->slots[index];
            if (!slot->trainable)
                continue;
            if (slot->slab > range->slab ||
                (slot->slab == range->slab && slot->offset >= range->first + range->elements))
                break;
            latest = ready[index] > latest ? ready[index] : latest;
        }
        list[b].ready = latest;
    }
}
