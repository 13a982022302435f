/* SPDX-License-Identifier: Apache-2.0
 *
 * Names in a folder: sorted, without hidden ones, and all of them or none: part of a folder would be
 * another data set. readdir is defined here and fails when a test wants that. ctest-labels: quick */
#include "tests/unit/test.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>

#include "engine/base/mem.h"
#include "engine/checkpoint/checkpoint_internal.h"
#include "engine/files/fileio.h"

static int calls_left = -1; /* calls of readdir that succeed; below 0: all */

struct dirent *readdir(DIR *dir)
{
    struct dirent *(*next)(DIR *) = (__typeof__(&readdir))(uintptr_t)dlsym(RTLD_NEXT, "readdir");
    if (calls_left == 0) {
        errno = EIO;
        return NULL;
    }
    calls_left -= calls_left > 0;
    return next(dir);
}

FIXTURE(make_folder)
{
    static const char *const names[] = {"b", ".hidden", "a", "a.b", "\xff", "10", "9"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        put_text(names[i], "");
    return 0;
}

TEST_BETWEEN(test_sorted, make_folder, NULL)
{
    static const char *const expected[] = {"10", "9", "a", "a.b", "b", "\xff"};
    clt_file_list names;
    assert_ok(clt_folder_names(test_folder(), &names));
    assert_int_equal(names.count, 6);
    for (int i = 0; i < 6; i++)
        assert_string_equal(names.name[i], expected[i]);
    clt_file_list_free(&names);
    assert_int_equal(names.count, 0);
}

TEST(test_missing)
{
    CLT_SCOPED(clt_file_list) names = {0};
    assert_int_equal(clt_folder_names("/no/such/folder", &names), CLT_EDATA);
    assert_non_null(strstr(clt_error_text(), "'/no/such/folder'"));
}

/* The list is refused at whichever call the disk fails. */
TEST_BETWEEN(test_failing_disk, make_folder, NULL)
{
    for (int good = 0; good <= 9; good++) { /* seven files, "." and "..", and the end */
        CLT_SCOPED(clt_file_list) names = {0};
        calls_left = good;
        clt_status status = clt_folder_names(test_folder(), &names);
        calls_left = -1;
        assert_int_equal(status, CLT_EDATA);
        assert_non_null(strstr(clt_error_text(), test_folder()));
        assert_non_null(strstr(clt_error_text(), strerror(EIO)));
    }
}

/* A list of checkpoints is refused as well, since it could lack the newest one; and a folder that cannot be
 * listed does not count as removed. */
TEST_BETWEEN(test_failing_disk_of_a_run, make_folder, NULL)
{
    for (int removes = 0; removes < 2; removes++)
        for (int good = 0; good <= 2; good++) {
            clt_step_list steps = {0};
            calls_left = good;
            clt_status status = removes ? clt_remove_tree(test_folder())
                                        : clt_steps_list(test_folder(), CLT_STEP_COMPLETE, &steps);
            calls_left = -1;
            assert_int_equal(status, CLT_ESTORAGE);
            assert_contains(clt_error_text(), test_folder());
            assert_contains(clt_error_text(), strerror(EIO));
            clt_steps_free(&steps);
        }
}

TEST_PROGRAM(.fresh_folder = true);
