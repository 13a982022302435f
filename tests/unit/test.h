/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests in C share: cmocka, a program's list of tests and its `main`, checks of results, a
 * temporary folder. A file of tests looks like this:
 *
 *     #include "tests/unit/test.h"
 *
 *     TEST(sums_are_rounded_once)
 *     {
 *         assert_ok(clt_sum(...));
 *     }
 *
 *     TEST_PROGRAM(.device = true, .before = open_queue, .after = close_queue);
 *
 * Each TEST puts itself on the list, in the order of the file; the `main` of tests/unit/test.c runs the
 * list. A program that needs nothing around its tests has no TEST_PROGRAM, and one whose list follows from
 * a table has a `main` of its own. */
#ifndef TESTS_UNIT_TEST_H
#define TESTS_UNIT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/status.h"

#define TEST_SKIPPED 77 /* exit code of a program that cannot run here */

/* --- the list of tests --- */

/* What a program needs; every member may be left out. */
typedef struct test_program {
    bool device;                          /* is skipped where no OpenCL device is found */
    void (*begin)(int argc, char **argv); /* called first, with the arguments of the program */
    CMFixtureFunction set_up, tear_down;  /* once, around all tests */
    CMFixtureFunction before, after;      /* around each TEST */
    bool fresh_folder;                    /* the temporary folder is empty before each TEST */
} test_program;

typedef struct test_entry {
    const char *name;
    CMUnitTestFunction function;
    CMFixtureFunction before, after; /* NULL: the program's */
    int line;
    struct test_entry *next;
} test_entry;

extern const test_program test_this_program;
void test_enlist(test_entry *entry);

#define TEST(name) TEST_BETWEEN(name, NULL, NULL)

/* A test with its own fixture. */
#define TEST_BETWEEN(name, before, after)                                                                    \
    static void name(void **state);                                                                          \
    __attribute__((constructor)) static void name##_enlist(void)                                             \
    {                                                                                                        \
        static test_entry entry = {#name, name, before, after, __LINE__, NULL};                              \
        test_enlist(&entry);                                                                                 \
    }                                                                                                        \
    static void name(__attribute__((unused)) void **state)

/* A function for the members of a program and for TEST_BETWEEN. It returns 0, or -1 if it failed. */
#define FIXTURE(name) static int name(__attribute__((unused)) void **state)

#define TEST_PROGRAM(...) const test_program test_this_program = {__VA_ARGS__}

/* True if the program was started with the argument "all": tests that take long then run all of their
 * cases. */
extern bool run_everything;

/* True if there is an OpenCL device; otherwise says that the program is skipped. */
bool test_has_device(void);

/* --- checks --- */

/* The status must be CLT_OK. If it is not, the test fails with `what` and the thread's error. */
#define must(status, what) test_must(status, what, __FILE__, __LINE__)
void test_must(clt_status status, const char *what, const char *file, int line);

#define assert_ok(expression) test_must(expression, #expression, __FILE__, __LINE__)

#define assert_contains(text, part) test_contains(text, part, __FILE__, __LINE__)
void test_contains(const char *text, const char *part, const char *file, int line);

/* --- the temporary folder --- */

/* The folder, which the first call makes and the end of the program removes. */
const char *test_folder(void);

/* Path of a file in the temporary folder. The text is valid for the next seven calls. */
const char *in_dir(const char *name);

/* Writes a file in the temporary folder, whose folders are made as well, and returns its path. */
const char *put_file(const char *name, const void *bytes, size_t size);
const char *put_text(const char *name, const char *text);

/* The whole of a file, which the caller frees, with a zero byte after it. `size` may be NULL. */
char *read_file(const char *path, size_t *size);

/* A copy of `text` in which the folder stands for every %D. The caller frees it. */
char *with_folder(const char *text);

#endif
