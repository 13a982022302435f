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
    (void)madvise(start + before, size, MADV_HUGEPAGE); /* only a hint: if it fails, pages are small */
#endif
    *out = start + before;
    return CLT_OK;
}

/* --- faulting in pages --- */

/* Memory whose pages do not all exist yet. */
typedef struct block {
    char *pages;
    uint64_t next;  /* the first huge page that no thread has taken */
    uint64_t count; /* number of huge pages */
    int busy;       /* threads that are working on this block */
} block;

#define MOST_BLOCKS 128
#define AT_ONCE 4 /* huge pages that a thread takes at a time */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    block list[MOST_BLOCKS];
    int count;
    clt_thread *thread; /* the background thread; NULL: not started */
    bool runs;
} prefaulting = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* Makes the pages exist without changing their content, since the memory may already be in use. Reading a
 * byte would not suffice: the kernel maps all pages that are only read to one shared page of zeros. */
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

/* The functions from here to prefault_some are called with the lock held. */
static block *find_block(const void *pages)
{
    for (int i = 0; i < prefaulting.count; i++)
        if (prefaulting.list[i].pages == pages)
            return &prefaulting.list[i];
    return NULL;
}

static void remove_if_done(const void *pages)
{
    block *b = find_block(pages);
    if (b == NULL || b->busy > 0 || b->next < b->count)
        return;
    *b = prefaulting.list[--prefaulting.count];
    pthread_cond_broadcast(&prefaulting.changed);
}

static bool prefault_some(void)
{
    for (int i = 0; i < prefaulting.count; i++) {
        block *b = &prefaulting.list[i];
        uint64_t left = b->count - b->next, n = left < AT_ONCE ? left : AT_ONCE;
        if (n == 0)
            continue;
        char *pages = b->pages, *from = pages + b->next * LARGE_PAGE;
        b->next += n;
        b->busy++;
        pthread_mutex_unlock(&prefaulting.lock);
        touch(from, n * LARGE_PAGE);
        pthread_mutex_lock(&prefaulting.lock);
        find_block(pages)->busy--; /* the block may have another place in the list now */
        remove_if_done(pages);
        return true;
    }
    return false;
}

static void *prefault_thread(void *context)
{
    (void)context;
    CLT_LOCKED(&prefaulting.lock);
    while (prefault_some())
        continue;
    prefaulting.runs = false;
    pthread_cond_broadcast(&prefaulting.changed);
    return NULL;
}

static void prefault_range(void *context, uint64_t first, uint64_t last)
{
    (void)context;
    (void)first;
    (void)last;
    CLT_LOCKED(&prefaulting.lock);
    while (prefault_some())
        continue;
}

/* If the background thread has ended, returns its handle, which the caller joins after releasing the lock.
 * Called with the lock held. */
static clt_thread *take_ended_thread(void)
{
    clt_thread *thread = prefaulting.runs ? NULL : prefaulting.thread;
    if (!prefaulting.runs)
        prefaulting.thread = NULL;
    return thread;
}

void clt_pages_prefault(void *pages, uint64_t bytes)
{
    pthread_mutex_lock(&prefaulting.lock);
    bool room = prefaulting.count < MOST_BLOCKS, start = room && !prefaulting.runs;
    clt_thread *before = start ? take_ended_thread() : NULL;
    if (room)
        prefaulting.list[prefaulting.count++] = (block){.pages = pages, .count = rounded(bytes) / LARGE_PAGE};
    if (start && clt_thread_start(&prefaulting.thread, "pages", prefault_thread, NULL) == CLT_OK)
        prefaulting.runs = true;
    pthread_mutex_unlock(&prefaulting.lock);
    clt_error_clear(); /* without a background thread clt_pages_prefault_finish faults in the pages */
    clt_thread_join(before);
}

void clt_pages_prefault_finish(void)
{
    pthread_mutex_lock(&prefaulting.lock);
    bool some = prefaulting.count > 0;
    pthread_mutex_unlock(&prefaulting.lock);
    if (some)
        clt_for_ranges((uint64_t)clt_cpu_count(), 1, "pages", prefault_range, NULL);
    pthread_mutex_lock(&prefaulting.lock);
    while (prefaulting.count > 0 || prefaulting.runs)
        (void)clt_cond_wait_turn(&prefaulting.changed, &prefaulting.lock);
    clt_thread *thread = take_ended_thread();
    pthread_mutex_unlock(&prefaulting.lock);
    clt_thread_join(thread);
}

void clt_pages_destroy(void *pages, uint64_t bytes)
{
    block *b;
    if (pages == NULL)
        return;
    pthread_mutex_lock(&prefaulting.lock);
    while ((b = find_block(pages)) != NULL) {
        b->next = b->count;
        remove_if_done(pages);
        if (find_block(pages) != NULL)
            pthread_cond_wait(&prefaulting.changed, &prefaulting.lock);
    }
    pthread_mutex_unlock(&prefaulting.lock);
    munmap(pages, (size_t)rounded(bytes));
}
