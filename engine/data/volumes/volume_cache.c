/* SPDX-License-Identifier: Apache-2.0
 *
 * A cache with a limit in bytes that drops the least recently used entries; one lock guards all entries. */
#include "engine/data/volumes/volume_cache.h"

#include <pthread.h>
#include <stdlib.h>

enum { EMPTY, MAKING, READY };

typedef struct cached {
    int state;
    int users;
    void *thing;
    uint64_t bytes;
    uint64_t used; /* value of `clock` when the thing was last taken */
} cached;

struct clt_volume_cache {
    int64_t count;
    uint64_t limit;
    clt_cache_make make;
    clt_cache_drop drop;
    void *context;

    pthread_mutex_t lock; /* guards all members below */
    pthread_cond_t made;
    cached *entry;
    uint64_t clock;
    clt_cache_facts facts;
};

clt_status clt_volume_cache_create(int64_t count, uint64_t limit, clt_cache_make make, clt_cache_drop drop,
                                   void *context, clt_volume_cache **out)
{
    CLT_FREED clt_volume_cache *cache = NULL;
    *out = NULL;
    CLT_TRY(clt_alloc(&cache, 1, sizeof *cache, "a cache of volumes"));
    *cache =
        (clt_volume_cache){.count = count, .limit = limit, .make = make, .drop = drop, .context = context};
    CLT_TRY(clt_alloc(&cache->entry, (size_t)count, sizeof *cache->entry, "a cache of volumes"));
    pthread_mutex_init(&cache->lock, NULL);
    pthread_cond_init(&cache->made, NULL);
    *out = CLT_TAKE(cache);
    return CLT_OK;
}

void clt_volume_cache_destroy(clt_volume_cache *cache)
{
    if (!cache)
        return;
    for (int64_t i = 0; i < cache->count; i++)
        if (cache->entry[i].state == READY)
            cache->drop(cache->entry[i].thing);
    pthread_cond_destroy(&cache->made);
    pthread_mutex_destroy(&cache->lock);
    free(cache->entry);
    free(cache);
}

/* The least recently used thing that is not in use and has more than 0 bytes; NULL: there is none. */
static cached *oldest(clt_volume_cache *cache)
{
    cached *found = NULL;
    for (int64_t i = 0; i < cache->count; i++) {
        cached *c = &cache->entry[i];
        if (c->state == READY && c->users == 0 && c->bytes > 0 && (!found || c->used < found->used))
            found = c;
    }
    return found;
}

/* Drops things until their size is within the limit. Called with the lock held. */
static void make_room(clt_volume_cache *cache)
{
    cached *c;
    while (cache->facts.bytes > cache->limit && (c = oldest(cache)) != NULL) {
        cache->drop(c->thing);
        cache->facts.bytes -= c->bytes;
        *c = (cached){.state = EMPTY};
    }
}

/* Called with the lock held; releases it while the thing is made. */
static clt_status make_thing(clt_volume_cache *cache, int64_t index)
{
    cached *c = &cache->entry[index];
    void *thing = NULL;
    uint64_t bytes = 0;
    c->state = MAKING;
    pthread_mutex_unlock(&cache->lock);
    clt_status status = cache->make(cache->context, index, &thing, &bytes);
    pthread_mutex_lock(&cache->lock);
    c->state = status == CLT_OK ? READY : EMPTY;
    pthread_cond_broadcast(&cache->made);
    if (status != CLT_OK)
        return status;
    c->thing = thing;
    c->bytes = bytes;
    cache->facts.made++;
    cache->facts.bytes += bytes;
    return CLT_OK;
}

clt_status clt_volume_cache_take(clt_volume_cache *cache, int64_t index, void **thing)
{
    *thing = NULL;
    if (index < 0 || index >= cache->count)
        CLT_FAIL(CLT_EINTERNAL, "volume %lld of a cache of %lld", (long long)index, (long long)cache->count);
    cached *c = &cache->entry[index];
    clt_status status = CLT_OK;
    pthread_mutex_lock(&cache->lock);
    while (c->state == MAKING)
        pthread_cond_wait(&cache->made, &cache->lock);
    if (c->state == EMPTY)
        status = make_thing(cache, index);
    if (status == CLT_OK) {
        c->users++;
        c->used = ++cache->clock;
        cache->facts.taken++;
        *thing = c->thing;
        make_room(cache);
        if (cache->facts.bytes > cache->facts.most)
            cache->facts.most = cache->facts.bytes;
    }
    pthread_mutex_unlock(&cache->lock);
    return status;
}

void clt_volume_cache_release(clt_volume_cache *cache, int64_t index)
{
    pthread_mutex_lock(&cache->lock);
    cache->entry[index].users--;
    make_room(cache);
    pthread_mutex_unlock(&cache->lock);
}

clt_cache_facts clt_volume_cache_facts(clt_volume_cache *cache)
{
    pthread_mutex_lock(&cache->lock);
    clt_cache_facts facts = cache->facts;
    pthread_mutex_unlock(&cache->lock);
    return facts;
}
