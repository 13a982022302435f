/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradient buckets: the ranges of the gradient arena that are summed over the ranks one after the other,
 * while the backward pass still computes later ones. The arena has the gradients in the order in which
 * they become ready. Pure: knows the store's layout, no commands and no device. */
#ifndef ENGINE_PLAN_BUCKETS_H
#define ENGINE_PLAN_BUCKETS_H

#include "engine/state/arenas.h"

/* A bucket begins at a multiple of this number of chunks and ends at one, unless it is the last of its slab.
 * It is the largest number of chunks of one partial sum of the gradients' norm (update_family.c). So no
 * partial sum needs two buckets, and the norm has the same bits for any bucket size. */
#define CLT_BUCKET_CHUNKS 16

typedef struct clt_bucket {
    clt_range range;
    clt_range own; /* the range that this rank updates: the whole bucket, or its share, which may be empty */
    /* Number of commands of the backward phase up to the last one that uses gradients of this bucket or of
     * an earlier one. When these have run, the bucket can be summed. Later buckets never have a smaller
     * number. */
    size_t ready;
    /* rows: its gradients are complete only when rows of embeddings are added to the sum (pass_rows.c) */
    bool rows;
} clt_bucket;

/* In bytes of f32. The first bucket is smaller, so that communication begins early. */
typedef struct clt_bucket_sizes {
    uint64_t first, rest;
} clt_bucket_sizes;

/* Makes the table of all buckets, in the order in which they are summed; together they cover the gradients
 * of every slab exactly once. A bucket has as many whole parameters of one slab as its size allows; the part
 * of the last parameter that lies after a multiple of CLT_BUCKET_CHUNKS goes into the next bucket. A
 * parameter that is larger than a bucket is cut into pieces of about equal size: they become ready together,
 * but then one can be read from the device while another is summed and a third is written back. A bucket has
 * at least CLT_BUCKET_CHUNKS chunks, however small the sizes, unless its slab has fewer; the last bucket of
 * a slab may exceed its size by fewer than CLT_BUCKET_CHUNKS chunks. The caller frees *out; `own` is the
 * whole range, and `ready` is 0 until clt_buckets_set_ready. */
clt_status clt_buckets_make(const clt_store_layout *layout, clt_bucket_sizes sizes, clt_bucket **out,
                            size_t *count);
/* The share of a bucket that a rank updates where optimizer state is divided (comm_share with a grain of
 * CLT_BUCKET_CHUNKS chunks). */
clt_range clt_bucket_share(const clt_bucket *bucket, int ranks, int rank);
/* Sets clt_bucket.ready. ready: for each slot, the number of commands after which its gradient is ready; not
 * read for a slot without a gradient. */
void clt_buckets_set_ready(const clt_store_layout *layout, const size_t *ready, clt_bucket *list,
                           size_t count);

#endif
