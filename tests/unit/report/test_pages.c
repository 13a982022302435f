/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory in whole pages: aligned, zeroed, requested as large pages, released completely; sizes that no system
 * has fail with a message. Checked by /proc/self/smaps of Linux. ctest-labels: quick */
#include "tests/unit/test.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include "engine/base/mem.h"

#define MIB (UINT64_C(1) << 20)
#define LARGE (2 * MIB)

typedef struct mapping {
    bool found, wanted_large; /* the kernel was asked for large pages */
    uint64_t start, end, large_kib;
} mapping;

/* The mapping that holds an address. */
static mapping mapping_of(const void *address)
{
    mapping m = {0};
    char line[512];
    bool here = false;
    FILE *file = fopen("/proc/self/smaps", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        unsigned long long start, end, kib;
        if (sscanf(line, "%llx-%llx ", &start, &end) == 2) {
            here = (uintptr_t)address >= start && (uintptr_t)address < end;
            if (here)
                m = (mapping){.found = true, .start = start, .end = end};
        } else if (here && sscanf(line, "AnonHugePages: %llu kB", &kib) == 1) {
            m.large_kib = kib;
        } else if (here && strncmp(line, "VmFlags:", 8) == 0) {
            m.wanted_large = strstr(line, " hg") != NULL;
        }
    }
    (void)fclose(file);
    return m;
}

/* The choice in brackets: "always [madvise] never"; "" without large pages in the kernel. */
static void large_pages_setting(char out[16])
{
    char line[128] = "";
    FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
    out[0] = '\0';
    if (!file)
        return;
    if (fgets(line, sizeof line, file) && strchr(line, '['))
        (void)sscanf(strchr(line, '['), "[%15[a-z]]", out);
    (void)fclose(file);
}

static bool mapped(const void *page)
{
    unsigned char there;
    return mincore((void *)(uintptr_t)page, 1, &there) == 0;
}

TEST(test_memory)
{
    static const uint64_t sizes[] = {1, LARGE - 1, LARGE, LARGE + 1, 8 * MIB, 8 * MIB + 12345};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        void *pages;
        uint64_t rounded = (sizes[i] + LARGE - 1) / LARGE * LARGE;
        assert_ok(clt_pages_create(sizes[i], "a test", &pages));
        assert_int_equal((uintptr_t)pages % LARGE, 0);
        for (uint64_t at = 0; at < rounded; at += 512)
            assert_int_equal(((const char *)pages)[at], 0);
        memset(pages, 0x5a, sizes[i]);
        mapping m = mapping_of(pages);
        assert_true(m.found && m.end >= (uintptr_t)pages + rounded);
        clt_pages_destroy(pages, sizes[i]);
        for (uint64_t at = 0; at < rounded; at += 4096)
            assert_false(mapped((const char *)pages + at));
    }
    clt_pages_destroy(NULL, 8 * MIB);
}

/* Everything is released: the pages, and what was cut off for the alignment. */
TEST(test_all_is_given_back)
{
    enum { COUNT = 64 };
    void *pages[COUNT];
    unsigned long long before, after;
    for (int round = 0; round < 2; round++) { /* the first round fills the C library's own caches */
        FILE *file = fopen("/proc/self/statm", "r");
        assert_non_null(file);
        assert_int_equal(fscanf(file, "%llu", &before), 1);
        (void)fclose(file);
        for (int i = 0; i < COUNT; i++)
            assert_ok(clt_pages_create((uint64_t)i * 100003 + 1, "a test", &pages[i]));
        for (int i = 0; i < COUNT; i++)
            clt_pages_destroy(pages[(i * 37) % COUNT], (uint64_t)((i * 37) % COUNT) * 100003 + 1);
        file = fopen("/proc/self/statm", "r");
        assert_non_null(file);
        assert_int_equal(fscanf(file, "%llu", &after), 1);
        (void)fclose(file);
    }
    assert_int_equal(before, after);
}

TEST(test_large_pages)
{
    char setting[16];
    void *pages;
    large_pages_setting(setting);
    if (!setting[0]) {
        printf("SKIP: this kernel has no transparent large pages\n");
        skip();
    }
    assert_ok(clt_pages_create(16 * MIB, "a test", &pages));
    memset(pages, 1, 16 * MIB);
    mapping m = mapping_of(pages);
    assert_true(m.wanted_large);
    /* only the request is certain: a system without free large pages gives small ones */
    if (strcmp(setting, "never") != 0 && m.large_kib == 0)
        printf("SKIP: the system had no large page to give\n");
    clt_pages_destroy(pages, 16 * MIB);
}

static long minor_faults(void)
{
    struct rusage use;
    assert_int_equal(getrusage(RUSAGE_SELF, &use), 0);
    return use.ru_minflt;
}

/* Writes to every page. Not checked by AddressSanitizer, whose shadow memory has page faults of its own. */
__attribute__((no_sanitize("address"))) static void write_pages(volatile char *pages, uint64_t bytes,
                                                                uint64_t page)
{
    for (uint64_t at = 0; at < bytes; at += page)
        pages[at] = 0;
}

/* Every page is there before anybody writes to it. */
TEST(test_take)
{
    enum { BYTES = 64 * MIB + 12345, PAGE = 4096, PAGES = (BYTES + PAGE - 1) / PAGE };
    static unsigned char there[PAGES];
    void *pages;
    int missing = 0;
    assert_ok(clt_pages_create(BYTES, "a test", &pages));
    assert_int_equal(mincore(pages, BYTES, there), 0);
    for (int i = 0; i < PAGES; i++)
        missing += !(there[i] & 1);
    assert_int_equal(missing, PAGES);
    clt_pages_prefault(pages, BYTES);
    clt_pages_prefault_finish();
    assert_int_equal(mincore(pages, BYTES, there), 0);
    for (int i = 0; i < PAGES; i++)
        assert_true(there[i] & 1);
    /* such a page could be the system's shared page of zeros: then each first write would still be a
     * fault */
    long before = minor_faults();
    write_pages(pages, BYTES, PAGE);
    assert_true(minor_faults() - before < PAGES / 16);
    for (uint64_t at = 0; at < BYTES; at += 512)
        assert_int_equal(((const char *)pages)[at], 0);
    clt_pages_destroy(pages, BYTES);
    clt_pages_prefault_finish(); /* nothing is left to wait for */
}

/* Pages are used and destroyed while the system is still providing them: what was written stays. */
TEST(test_take_behind)
{
    enum { COUNT = 400, BYTES = 2 * MIB }; /* may exceed the list's length */
    static char *pages[COUNT];
    for (int i = 0; i < COUNT; i++) {
        void *block;
        assert_ok(clt_pages_create(BYTES, "a test", &block));
        pages[i] = block;
        clt_pages_prefault(block, BYTES);
        for (uint64_t at = 0; at < BYTES; at += 4096)
            pages[i][at] = (char)(i + 1);
        if (i % 3 == 0) {
            clt_pages_destroy(pages[i], BYTES);
            pages[i] = NULL;
        }
        if (i == 20)
            clt_pages_prefault_finish();
    }
    for (int i = 0; i < COUNT; i++)
        for (uint64_t at = 0; pages[i] != NULL && at < BYTES; at += 4096)
            assert_int_equal(pages[i][at], (char)(i + 1));
    clt_pages_prefault_finish();
    for (int i = 0; i < COUNT; i++)
        clt_pages_destroy(pages[i], BYTES);
}

static void refused(uint64_t bytes)
{
    void *pages = &pages;
    assert_int_equal(clt_pages_create(bytes, "the 'slab'", &pages), CLT_ENOMEM);
    assert_null(pages);
    assert_non_null(strstr(clt_error_text(), "the 'slab'"));
    clt_error_clear();
}

TEST(test_refusals)
{
    refused(0);
    refused(UINT64_MAX);
    refused(UINT64_MAX - 2 * LARGE);
    refused(UINT64_C(1) << 62); /* more than any address space */
#ifndef __SANITIZE_ADDRESS__    /* its shadow memory is beyond any limit */
    struct rlimit own, low;
    assert_int_equal(getrlimit(RLIMIT_AS, &own), 0);
    low = own;
    low.rlim_cur = 4 * MIB;
    assert_int_equal(setrlimit(RLIMIT_AS, &low), 0);
    refused(64 * MIB);
    assert_int_equal(setrlimit(RLIMIT_AS, &own), 0);
    void *pages;
    assert_ok(clt_pages_create(64 * MIB, "a test", &pages));
    clt_pages_destroy(pages, 64 * MIB);
#endif
}
