/* SPDX-License-Identifier: Apache-2.0
 *
 * A cache of things that are slow to make, such as unpacked volumes, for several threads: each thing is made by
 * one thread at a time, and those that were not used for the longest time are dropped when all together exceed
 * a limit of bytes. It does not know what the things are. */
#ifndef ENGINE_DATA_VOLUMES_VOLUME_CACHE_H
#define ENGINE_DATA_VOLUMES_VOLUME_CACHE_H

#include "engine/base/mem.h"

typedef struct clt_volume_cache clt_volume_cache;

/* Makes thing `index`; *bytes is what counts for the limit. Called without a lock, from several threads at once,
 * but never for the same thing. */
typedef clt_status (*clt_cache_make)(void *context, int64_t index, void **thing, uint64_t *bytes);
typedef void (*clt_cache_drop)(void *thing);

typedef struct clt_cache_facts {
    int64_t made;   /* how often a thing was made */
    int64_t taken;  /* how often one was asked for */
    uint64_t bytes; /* of the things that are kept now */
    uint64_t most;  /* the most bytes that there were at any time */
} clt_cache_facts;

/* count: how many different things there are, numbered from 0. */
clt_status clt_volume_cache_create(int64_t count, uint64_t limit, clt_cache_make make, clt_cache_drop drop,
                                   void *context, clt_volume_cache **out);
/* Nothing may be in use any more. NULL is fine. */
void clt_volume_cache_destroy(clt_volume_cache *cache);

/* Gives thing `index`, which stays valid until it is released; waits while another thread makes it. Things in
 * use are never dropped, so that the limit is exceeded by them if need be. */
clt_status clt_volume_cache_take(clt_volume_cache *cache, int64_t index, void **thing);
void clt_volume_cache_release(clt_volume_cache *cache, int64_t index);
clt_cache_facts clt_volume_cache_facts(clt_volume_cache *cache);

#endif
