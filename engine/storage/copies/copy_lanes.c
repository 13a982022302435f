/* SPDX-License-Identifier: Apache-2.0
 *
 * The threads that fetch blocks: first the blocks for which a reader waits, then the blocks that will be
 * needed next, then, as long as there is room, all other blocks of open copies. The threads end with the
 * process. */
#include <stdlib.h>

#include "engine/base/thread.h"
#include "engine/storage/copies/copies_internal.h"

typedef struct item {
    clt_remote_file *copy;
    uint64_t block;
} item;

/* A queue in a ring buffer; it holds a reference to the copy of each item. */
typedef struct queue {
    item *items;
    size_t first, count, capacity;
} queue;

static queue demanded, wanted; /* the lock of copies guards all variables of this file */
static clt_thread *lanes[CLT_COPY_LANES];
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
static bool running;
static atomic_bool closing;

static clt_status push(queue *q, clt_remote_file *c, uint64_t block)
{
    if (q->count == q->capacity) {
        queue larger = {.capacity = q->capacity ? 2 * q->capacity : 64};
        CLT_TRY(clt_alloc(&larger.items, larger.capacity, sizeof *larger.items, "blocks to fetch"));
        for (; larger.count < q->count; larger.count++)
            larger.items[larger.count] = q->items[(q->first + larger.count) % q->capacity];
        free(q->items);
        *q = larger;
    }
    q->items[(q->first + q->count++) % q->capacity] = (item){c, block};
    clt_copy_ref(c);
    return CLT_OK;
}

static bool pop(queue *q, item *out)
{
    while (q->count > 0) {
        *out = q->items[q->first];
        q->first = (q->first + 1) % q->capacity;
        q->count--;
        if (out->copy->state[out->block] == CLT_BLOCK_QUEUED)
            return true;
        clt_copy_unref(out->copy); /* the block was in both queues and has been fetched */
    }
    return false;
}

/* Finds the next block of a copy that is fetched from beginning to end. *full: a copy whose next block does
 * not fit into the folder. */
static bool next_ahead(item *out, clt_remote_file **full)
{
    *full = NULL;
    for (clt_remote_file *c = clt_copies_open; c; c = c->next)
        for (; c->ahead && c->next_ahead < c->blocks; c->next_ahead++) {
            uint64_t b = c->next_ahead;
            if (c->state[b] != CLT_BLOCK_AWAY || atomic_load(&c->sums[b]) != 0)
                continue;
            if (!clt_copies_have_room(clt_block_size(c, b))) {
                *full = c;
                return false;
            }
            c->next_ahead++;
            clt_copy_ref(c);
            *out = (item){c, b};
            return true;
        }
    return false;
}

/* Fetches one block and releases the queue's reference. */
static void serve(const item *i, void *buffer, bool somebody_waits)
{
    clt_remote_file *c = i->copy;
    c->state[i->block] = CLT_BLOCK_MOVING;
    pthread_mutex_unlock(&clt_copies_lock);
    clt_error error;
    clt_error_take(clt_block_fetch(c, i->block, buffer, &closing), &error);
    clt_copies_make_room(0); /* other threads may have exceeded the limit at the same time */
    pthread_mutex_lock(&clt_copies_lock);
    c->state[i->block] = error.status == CLT_OK ? CLT_BLOCK_HERE : CLT_BLOCK_AWAY;
    c->used[i->block] = ++clt_copies_ticks; /* a block counts as read when it arrives */
    if (error.status != CLT_OK && somebody_waits && c->failure.status == CLT_OK)
        c->failure = error;
    else if (error.status != CLT_OK)
        c->ahead = false; /* a reader that needs the block tries again, and reports the failure */
    pthread_cond_broadcast(&clt_copies_arrived);
    clt_copy_unref(c);
}

/* Makes room for a copy that is fetched to its end by removing copies that no process uses. */
static void serve_full(clt_remote_file *c)
{
    clt_copy_ref(c);
    pthread_mutex_unlock(&clt_copies_lock);
    bool room = clt_copies_remove_unused(CLT_COPY_BLOCK);
    pthread_mutex_lock(&clt_copies_lock);
    c->ahead = c->ahead && room; /* false: the data does not fit, so only blocks that are read are fetched */
    clt_copy_unref(c);
}

static void *fetch(void *context)
{
    CLT_FREED void *buffer = context;
    CLT_LOCKED(&clt_copies_lock);
    while (!atomic_load(&closing)) {
        item next;
        clt_remote_file *full = NULL;
        bool waits = pop(&demanded, &next);
        if (waits || pop(&wanted, &next) || next_ahead(&next, &full))
            serve(&next, buffer, waits);
        else if (full)
            serve_full(full);
        else
            pthread_cond_wait(&work, &clt_copies_lock);
    }
    return NULL;
}

/* Ends the threads before the libraries that they use are finalized. */
static void stop(void)
{
    clt_thread *threads[CLT_COPY_LANES];
    atomic_store(&closing, true);
    clt_places_cancel();
    pthread_mutex_lock(&clt_copies_lock);
    for (int i = 0; i < CLT_COPY_LANES; i++) {
        threads[i] = lanes[i];
        lanes[i] = NULL;
    }
    pthread_cond_broadcast(&work);
    pthread_mutex_unlock(&clt_copies_lock);
    for (int i = 0; i < CLT_COPY_LANES; i++)
        clt_thread_join(threads[i]);
}

static clt_status start(clt_thread **lane)
{
    CLT_FREED void *buffer = NULL;
    CLT_TRY(clt_alloc(&buffer, CLT_COPY_BLOCK, 1, "a block of an object"));
    CLT_TRY(clt_thread_start(lane, "clt-fetch", fetch, buffer));
    (void)CLT_TAKE(buffer); /* the thread frees it */
    return CLT_OK;
}

clt_status clt_lanes_wake(void)
{
    static bool registered;
    if (running) {
        pthread_cond_broadcast(&work);
        return CLT_OK;
    }
    if (atomic_load(&closing))
        CLT_FAIL(CLT_EINTERRUPTED, "fetching objects: the program ends");
    CLT_TRY(start(&lanes[0]));
    for (int i = 1; i < CLT_COPY_LANES; i++)
        if (start(&lanes[i]) != CLT_OK)
            clt_error_clear(); /* fewer threads are enough */
    running = true;
    registered = registered || atexit(stop) == 0;
    return CLT_OK;
}

clt_status clt_lanes_add(clt_remote_file *c, uint64_t block, bool somebody_waits)
{
    CLT_TRY(push(somebody_waits ? &demanded : &wanted, c, block));
    if (c->state[block] == CLT_BLOCK_AWAY)
        c->state[block] = CLT_BLOCK_QUEUED;
    clt_status status = clt_lanes_wake();
    if (status != CLT_OK)
        c->state[block] = CLT_BLOCK_AWAY;
    return status;
}
