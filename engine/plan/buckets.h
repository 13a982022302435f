/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradient buckets: the ranges of the gradient arena that are summed over the ranks one after the other, while
 * the backward pass still computes later ones. The arena has the gradients in the order in which they become
 * ready, so a bucket is a range of whole chunks. Pure: knows the store's layout, no commands and no device. */
#ifndef ENGINE_PLAN_BUCKETS_H
#define ENGINE_PLAN_BUCKETS_H

#include "engine/state/arenas.h"

typedef struct clt_bucket {
    int32_t slab;
    uint64_t first, elements; /* from the start of the slab; whole chunks */
    /* How many commands of the backward phase there are up to the last one that uses gradients of this bucket
     * or of an earlier one: when so many have run, it can be summed. Never falls along the table. */
    size_t ready;
} clt_bucket;

/* In bytes of f32. The first bucket is smaller, so that communication begins early. */
typedef struct clt_bucket_sizes {
    uint64_t first, rest;
} clt_bucket_sizes;

/* Makes the table of all buckets, in the order in which they are summed; together they cover the gradients of
 * every slab exactly once. A bucket has whole parameters of one slab, as many as its size allows. A parameter
 * that is larger than a bucket is cut at chunks into pieces of about equal size with buckets of their own: they
 * become ready together, but reading one from the device, summing another and writing back a third then
 * overlap.
 * ready: by slot, see clt_bucket; 0 for slots without a gradient. The caller frees *out. */
clt_status clt_buckets_make(const clt_store_layout *layout, const size_t *ready, clt_bucket_sizes sizes,
                            clt_bucket **out, size_t *count);

#endif
