/* SPDX-License-Identifier: Apache-2.0
 *
 * Large blocks of memory straight from the system (engine/base/mem.h). It must not know who uses them. */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/base/mem.h"
#include "engine/base/thread.h"

#define LARGE_PAGE (UINT64_C(2) << 20)

static uint64_t rounded(uint64_t bytes)
{
    return (bytes + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
}

clt_status clt_pages_create(uint64_t bytes, const char *what, void **out)
{
    *out = NULL;
    if (bytes == 0 || bytes > SIZE_MAX - 2 * LARGE_PAGE)
        CLT_FAIL(CLT_ENOMEM, "allocating %s: %llu bytes are not possible", what, (unsigned long long)bytes);
    size_t size = (size_t)rounded(bytes), all = size + LARGE_PAGE;
    char *start = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED)
        CLT_FAIL(CLT_ENOMEM, "allocating %s of %llu bytes: %s", what, (unsigned long long)bytes,
                 strerror(errno));
    size_t before = (size_t)(-(uintptr_t)start & (LARGE_PAGE - 1)), after = all - before - size;
    if (before > 0)
        munmap(start, before);
    if (after > 0)
        munmap(start + before + size, after);
#ifdef MADV_HUGEPAGE
    (void)madvise(start + before, size, MADV_HUGEPAGE); /* a wish: without it the pages are small */
#endif
    *out = start + before;
    return CLT_OK;
}

/* --- giving --- */

/* Memory of which the system has not given all pages yet. */
typedef struct block {
    char *pages;
    uint64_t next;  /* the first large page that no thread has taken on */
    uint64_t count; /* large pages in all */
    int busy;       /* threads that are at some of them */
} block;

#define MOST_BLOCKS 128
#define AT_ONCE 4 /* large pages that a thread takes on at a time */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    block list[MOST_BLOCKS];
    int count;
    clt_thread *thread; /* behind the others; NULL: none has been started */
    bool runs;
} giving = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* Whoever uses the memory already is not disturbed: pages that hold something stay as they are. Reading them
 * would not do, since the system gives one page of zeros to all who only read. */
static void touch(char *pages, uint64_t bytes)
{
#ifdef MADV_POPULATE_WRITE
    if (madvise(pages, bytes, MADV_POPULATE_WRITE) == 0) /* Linux 5.14 */
        return;
#endif
    long size = sysconf(_SC_PAGESIZE);
    uint64_t step = size > 0 ? (uint64_t)size : 4096;
    for (uint64_t at = 0; at < bytes; at += step) {
        char zero = 0;
        (void)__atomic_compare_exchange_n(&pages[at], &zero, 0, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    }
}

/* Called with the lock held, as the functions below. */
static block *find_block(const void *pages)
{
    for (int i = 0; i < giving.count; i++)
        if (giving.list[i].pages == pages)
            return &giving.list[i];
    return NULL;
}

static void remove_if_done(const void *pages)
{
    block *b = find_block(pages);
    if (b == NULL || b->busy > 0 || b->next < b->count)
        return;
    *b = giving.list[--giving.count];
    pthread_cond_broadcast(&giving.changed);
}

static bool give_some(void)
{
    for (int i = 0; i < giving.count; i++) {
        block *b = &giving.list[i];
        uint64_t left = b->count - b->next, n = left < AT_ONCE ? left : AT_ONCE;
        if (n == 0)
            continue;
        char *pages = b->pages, *from = pages + b->next * LARGE_PAGE;
        b->next += n;
        b->busy++;
        pthread_mutex_unlock(&giving.lock);
        touch(from, n * LARGE_PAGE);
        pthread_mutex_lock(&giving.lock);
        find_block(pages)->busy--; /* the list may have moved */
        remove_if_done(pages);
        return true;
    }
    return false;
}

static void *give_behind(void *context)
{
    (void)context;
    pthread_mutex_lock(&giving.lock);
    while (give_some())
        continue;
    giving.runs = false;
    pthread_cond_broadcast(&giving.changed);
    pthread_mutex_unlock(&giving.lock);
    return NULL;
}

static void give_now(void *context, uint64_t first, uint64_t last)
{
    (void)context;
    (void)first;
    (void)last;
    pthread_mutex_lock(&giving.lock);
    while (give_some())
        continue;
    pthread_mutex_unlock(&giving.lock);
}

/* Takes over the thread's handle; the caller joins it without the lock. */
static clt_thread *ended_thread(void)
{
    clt_thread *thread = giving.runs ? NULL : giving.thread;
    if (!giving.runs)
        giving.thread = NULL;
    return thread;
}

void clt_pages_take(void *pages, uint64_t bytes)
{
    pthread_mutex_lock(&giving.lock);
    bool room = giving.count < MOST_BLOCKS, start = room && !giving.runs;
    clt_thread *before = start ? ended_thread() : NULL;
    if (room)
        giving.list[giving.count++] = (block){.pages = pages, .count = rounded(bytes) / LARGE_PAGE};
    if (start && clt_thread_start(&giving.thread, "pages", give_behind, NULL) == CLT_OK)
        giving.runs = true;
    pthread_mutex_unlock(&giving.lock);
    clt_error_clear(); /* of a thread that cannot be had: clt_pages_settle does its work */
    clt_thread_join(before);
}

void clt_pages_settle(void)
{
    pthread_mutex_lock(&giving.lock);
    bool some = giving.count > 0;
    pthread_mutex_unlock(&giving.lock);
    if (some)
        clt_for_ranges((uint64_t)clt_cpu_count(), 1, "pages", give_now, NULL);
    pthread_mutex_lock(&giving.lock);
    while (giving.count > 0 || giving.runs)
        (void)clt_cond_wait_turn(&giving.changed, &giving.lock);
    clt_thread *thread = ended_thread();
    pthread_mutex_unlock(&giving.lock);
    clt_thread_join(thread);
}

void clt_pages_destroy(void *pages, uint64_t bytes)
{
    block *b;
    if (pages == NULL)
        return;
    pthread_mutex_lock(&giving.lock);
    while ((b = find_block(pages)) != NULL) {
        b->next = b->count;
        remove_if_done(pages);
        if (find_block(pages) != NULL)
            pthread_cond_wait(&giving.changed, &giving.lock);
    }
    pthread_mutex_unlock(&giving.lock);
    munmap(pages, (size_t)rounded(bytes));
}
