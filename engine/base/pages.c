/* SPDX-License-Identifier: Apache-2.0
 *
 * Large blocks of memory straight from the system (engine/base/mem.h). It must not know who uses them. */
#include <errno.h>
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

void clt_pages_destroy(void *pages, uint64_t bytes)
{
    if (pages != NULL)
        munmap(pages, (size_t)rounded(bytes));
}

static void take(void *context, uint64_t first, uint64_t last)
{
    volatile char *pages = context;
    long step = sysconf(_SC_PAGESIZE);
    for (uint64_t at = first * LARGE_PAGE; at < last * LARGE_PAGE; at += (uint64_t)(step > 0 ? step : 4096))
        pages[at] = 0;
}

void clt_pages_take(void *pages, uint64_t bytes)
{
    clt_for_ranges(rounded(bytes) / LARGE_PAGE, 8, "pages", take, pages);
}
