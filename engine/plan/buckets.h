/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradient buckets: the ranges of the gradient arena that are summed over the ranks one after the other, while
 * the backward pass still computes later ones. The arena has the gradients in the order in which they become
 * ready. Pure: knows the store's layout, no commands and no device. */
#ifndef ENGINE_PLAN_BUCKETS_H
#define ENGINE_PLAN_BUCKETS_H

#include "engine/state/arenas.h"

/* A bucket begins, and ends unless it is the last of its slab, at a multiple of so many chunks: the most that one
 * partial sum of the gradients' norm has (update_family.c). So no partial sum needs two buckets, and the norm has
 * the same bits whatever their sizes. */
#define CLT_BUCKET_CHUNKS 16

typedef struct clt_bucket {
    clt_range range;
    clt_range own; /* what this rank updates of it: all, or its share; it may be empty */
    /* How many commands of the backward phase there are up to the last one that uses gradients of this bucket
     * or of an earlier one: when so many have run, it can be summed. Never falls along the table. */
    size_t ready;
    bool
        rows; /* its gradients are complete only when rows of embeddings were added behind the sum (pass_rows.c) */
} clt_bucket;

/* In bytes of f32. The first bucket is smaller, so that communication begins early. */
typedef struct clt_bucket_sizes {
    uint64_t first, rest;
} clt_bucket_sizes;

/* Makes the table of all buckets, in the order in which they are summed; together they cover the gradients of
 * every slab exactly once. A bucket has as many whole parameters of one slab as its size allows; what is left of the
 * last of them behind a multiple of CLT_BUCKET_CHUNKS goes into the next bucket. A parameter that is larger than a
 * bucket is cut into pieces of about equal size: they become ready together, but reading one from the device,
 * summing another and writing back a third then overlap. No bucket has fewer than CLT_BUCKET_CHUNKS chunks, however
 * small the sizes, but for a slab that has no more; the last one of a slab may be larger than its size by less than
 * that. The caller frees *out; `own` is all of it, and `ready` is 0 until clt_buckets_set_ready. */
clt_status clt_buckets_make(const clt_store_layout *layout, clt_bucket_sizes sizes, clt_bucket **out,
                            size_t *count);
/* The share of a bucket that a rank updates where optimizer state is divided, as comm_share in grains of
 * CLT_BUCKET_CHUNKS. */
clt_range clt_bucket_share(const clt_bucket *bucket, int ranks, int rank);
/* ready: for each slot, after how many commands its gradient is ready; unread for slots without a gradient. */
void clt_buckets_set_ready(const clt_store_layout *layout, const size_t *ready, clt_bucket *list,
                           size_t count);

#endif
