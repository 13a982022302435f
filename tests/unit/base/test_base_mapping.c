/* SPDX-License-Identifier: Apache-2.0
 *
 * A mapped file becomes shorter while two threads read it and a third one opens and closes other files,
 * whose records are used again all the time: missing pages read as zeros and are reported, and nothing else
 * changes. */
#include "tests/unit/test.h"

#include <pthread.h>
#include <stdatomic.h>

#include "engine/files/fileio.h"

enum { PAGE = 4096, PAGES = 64, ROUNDS = 400, OTHERS = 3 };

static char folder[] = "/tmp/cltrain_mapping_XXXXXX";
static char path_of_cut[64], path_of_other[OTHERS][64];

static void put(const char *path, char letter, int pages)
{
    static char bytes[PAGES * PAGE];
    memset(bytes, letter, sizeof bytes);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, PAGE, (size_t)pages, file), pages);
    assert_int_equal(fclose(file), 0);
}

FIXTURE(make_files)
{
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path_of_cut, sizeof path_of_cut, "%s/cut", folder);
    for (int i = 0; i < OTHERS; i++) {
        (void)snprintf(path_of_other[i], sizeof path_of_other[i], "%s/other%d", folder, i);
        put(path_of_other[i], 'b', 1 + i * (PAGES / OTHERS));
    }
    return 0;
}

FIXTURE(drop_files)
{
    (void)unlink(path_of_cut);
    for (int i = 0; i < OTHERS; i++)
        (void)unlink(path_of_other[i]);
    return rmdir(folder);
}

typedef struct reader {
    const clt_mapping *cut;
    pthread_barrier_t *start;
    int odd;                      /* whether it reads the pages from the last one on */
    int missing, strange, silent; /* pages of zeros; of other content; of zeros that were not reported */
} reader;

/* This thread calls no assertions of cmocka, since these work in the thread of the test alone. */
static void *read_pages(void *argument)
{
    reader *r = argument;
    (void)pthread_barrier_wait(r->start);
    for (int i = 0; i < PAGES; i++) {
        uint8_t byte = r->cut->data[(r->odd ? PAGES - 1 - i : i) * PAGE + 7];
        clt_map_used(r->cut);
        if (byte == 0) {
            r->missing++;
            r->silent += clt_map_check_one(r->cut) != CLT_EDATA;
        } else if (byte != 'a') {
            r->strange++;
        }
    }
    return NULL;
}

typedef struct turnover {
    atomic_bool stop;
    int failed, strange;
} turnover;

static void *open_and_close(void *argument)
{
    turnover *t = argument;
    for (int round = 0; !atomic_load(&t->stop); round++) {
        CLT_SCOPED(clt_mapping) other = {0};
        if (clt_map_open(path_of_other[round % OTHERS], CLT_ECHECKPOINT, &other) != CLT_OK) {
            t->failed++;
            continue;
        }
        for (size_t at = 0; at < other.size; at += PAGE)
            t->strange += other.data[at] != 'b';
    }
    return NULL;
}

TEST(test_map_two_readers)
{
    turnover others = {.stop = false};
    pthread_t turner, thread[2];
    int missing = 0;
    assert_int_equal(pthread_create(&turner, NULL, open_and_close, &others), 0);
    for (int round = 0; round < ROUNDS; round++) {
        clt_mapping cut;
        pthread_barrier_t start;
        reader readers[2] = {{&cut, &start, .odd = 0}, {&cut, &start, .odd = 1}};
        put(path_of_cut, 'a', PAGES);
        assert_int_equal(clt_map_open(path_of_cut, CLT_EDATA, &cut), CLT_OK);
        assert_int_equal(pthread_barrier_init(&start, NULL, 3), 0);
        for (int i = 0; i < 2; i++)
            assert_int_equal(pthread_create(&thread[i], NULL, read_pages, &readers[i]), 0);
        (void)pthread_barrier_wait(&start);
        assert_int_equal(truncate(path_of_cut, round % PAGES * PAGE), 0);
        for (int i = 0; i < 2; i++)
            assert_int_equal(pthread_join(thread[i], NULL), 0);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(readers[i].silent, 0);
            assert_int_equal(readers[i].strange, 0);
            missing += readers[i].missing;
        }
        assert_int_equal(clt_map_check_one(&cut), CLT_EDATA);
        clt_map_close(&cut);
        (void)pthread_barrier_destroy(&start);
    }
    atomic_store(&others.stop, true);
    assert_int_equal(pthread_join(turner, NULL), 0);
    assert_int_equal(others.failed, 0);
    assert_int_equal(others.strange, 0);
    print_message("%d pages were missing\n", missing);
}

TEST_PROGRAM(.before = make_files, .after = drop_files);
