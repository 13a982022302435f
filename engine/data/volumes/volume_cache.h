/* SPDX-License-Identifier: Apache-2.0
 *
 * A cache, shared by threads, of things that are slow to make, such as unpacked volumes. Each thing is made
 * by one thread at a time. When all things together exceed a limit of bytes, the least recently used ones
 * are dropped. It does not know what the things are. */
#ifndef ENGINE_DATA_VOLUMES_VOLUME_CACHE_H
#define ENGINE_DATA_VOLUMES_VOLUME_CACHE_H

#include "engine/base/mem.h"

typedef struct clt_volume_cache clt_volume_cache;

/* Makes thing `index`; *bytes: its size, which counts towards the limit. Called without a lock, by several
 * threads at a time, but not for the same thing. */
typedef clt_status (*clt_cache_make)(void *context, int64_t index, void **thing, uint64_t *bytes);
typedef void (*clt_cache_drop)(void *thing);

typedef struct clt_cache_facts {
    int64_t made;   /* number of times that things were made */
    int64_t taken;  /* number of times that things were taken */
    uint64_t bytes; /* size of the things that are kept now */
    uint64_t most;  /* largest value of `bytes` so far */
} clt_cache_facts;

/* `count`: number of different things; their indices are 0 .. count - 1. `limit`: largest size of all kept
 * things together, in bytes. */
clt_status clt_volume_cache_create(int64_t count, uint64_t limit, clt_cache_make make, clt_cache_drop drop,
                                   void *context, clt_volume_cache **out);
/* To be called when no thing is in use. `cache` may be NULL. */
void clt_volume_cache_destroy(clt_volume_cache *cache);

/* Sets *thing to thing `index`, which is valid until it is released. Waits while another thread makes it.
 * Things in use are never dropped, so their size may exceed the limit. */
clt_status clt_volume_cache_take(clt_volume_cache *cache, int64_t index, void **thing);
void clt_volume_cache_release(clt_volume_cache *cache, int64_t index);
clt_cache_facts clt_volume_cache_facts(clt_volume_cache *cache);

#endif
