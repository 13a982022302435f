/* SPDX-License-Identifier: Apache-2.0
 *
 * Host spans: a list of fixed size under a lock. Adding to a closed list does not take the lock. */
#include "engine/base/span.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "engine/base/mem.h"
#include "engine/base/thread.h"

struct clt_spans {
    clt_span *list;
    size_t capacity, count;
    uint64_t lost;
    atomic_bool open;
    pthread_mutex_t lock;
};

clt_status clt_spans_create(size_t capacity, clt_spans **out)
{
    CLT_FREED clt_spans *s = NULL;
    *out = NULL;
    CLT_TRY(clt_alloc(&s, 1, sizeof *s, "host spans"));
    CLT_TRY(clt_alloc(&s->list, capacity, sizeof *s->list, "host spans"));
    s->capacity = capacity;
    atomic_init(&s->open, false);
    pthread_mutex_init(&s->lock, NULL);
    *out = CLT_TAKE(s);
    return CLT_OK;
}

void clt_spans_destroy(clt_spans *s)
{
    if (!s)
        return;
    pthread_mutex_destroy(&s->lock);
    free(s->list);
    free(s);
}

void clt_spans_open(clt_spans *s, bool open)
{
    if (!s)
        return;
    CLT_LOCKED(&s->lock);
    atomic_store(&s->open, open);
}

void clt_spans_add(clt_spans *s, int track, const char *name, int64_t id, double begin, double end)
{
    if (!s || !atomic_load(&s->open))
        return;
    CLT_LOCKED(&s->lock);
    if (atomic_load(&s->open) && s->count < s->capacity)
        s->list[s->count++] = (clt_span){name, id, track, begin, end};
    else if (s->count == s->capacity)
        s->lost++;
}

const clt_span *clt_spans_list(clt_spans *s, size_t *count, uint64_t *lost)
{
    CLT_LOCKED(&s->lock);
    *count = s->count;
    *lost = s->lost;
    return s->list;
}
