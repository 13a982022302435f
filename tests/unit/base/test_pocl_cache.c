/* SPDX-License-Identifier: Apache-2.0
 * ctest-labels: quick
 *
 * PoCL's folder of kernels: which one is chosen, and which files there count as cut off. */
#include "tests/unit/test.h"

#include <sys/stat.h>

#include "engine/files/fileio.h"
#include "engine/files/pocl_cache.h"

FIXTURE(prepare)
{
    setenv("HOME", test_folder(), 1);
    unsetenv("XDG_CACHE_HOME");
    unsetenv("POCL_CACHE_DIR");
    setenv("CLTRAIN_CACHE_DIR", in_dir("own"), 1);
    setenv("TMPDIR", in_dir("tmp"), 1);
    assert_ok(clt_mkdir_p(in_dir("tmp")));
    return 0;
}

/* Checks which folder is chosen; refused NULL: PoCL's own folder can be used. */
static void choose(const char *path, const char *refused, const char *why)
{
    clt_pocl_folder folder;
    for (int make = 0; make < 2; make++) {
        assert_ok(clt_pocl_folder_choose(make, &folder));
        assert_string_equal(folder.path, in_dir(path));
        if (refused == NULL)
            assert_null(folder.refused);
        else
            assert_string_equal(folder.refused, refused);
        assert_non_null(strstr(folder.why, why));
        assert_true(clt_is_directory(folder.path) || !make);
        clt_pocl_folder_free(&folder);
    }
}

TEST(test_own_folder)
{
    choose(".cache/pocl/kcache", NULL, "");
    setenv("XDG_CACHE_HOME", in_dir("xdg"), 1);
    choose("xdg/pocl/kcache", NULL, "");
    setenv("POCL_CACHE_DIR", in_dir("named"), 1);
    choose("named", NULL, "");
}

TEST(test_another_folder)
{
    char refused[300], spare[64];
    put_file("file", "", 0);
    setenv("HOME", in_dir("file"), 1);
    snprintf(refused, sizeof refused, "%s/file/.cache/pocl/kcache", test_folder());
    choose("own/pocl", refused, "no"); /* "is not a folder", "Not a directory" */
    /* a cache of our own that others may write to */
    assert_int_equal(chmod(in_dir("own/pocl"), 0777), 0);
    snprintf(spare, sizeof spare, "tmp/cltrain-pocl-%lu", (unsigned long)geteuid());
    choose(spare, refused, "no");
    /* a folder for everybody */
    assert_int_equal(chmod(in_dir("own/pocl"), 0700), 0);
    unsetenv("HOME");
    choose("own/pocl", "/tmp/pocl/kcache", "everybody may write there");
}

/* A link in the place of the temporary folder leads to files of somebody else. */
TEST(test_link)
{
    clt_pocl_folder folder;
    char target[200], link[200];
    put_file("file", "", 0);
    setenv("HOME", in_dir("file"), 1);
    setenv("CLTRAIN_CACHE_DIR", in_dir("file"), 1);
    snprintf(target, sizeof target, "%s/elsewhere", test_folder());
    assert_int_equal(mkdir(target, 0700), 0);
    snprintf(link, sizeof link, "%s/tmp/cltrain-pocl-%lu", test_folder(), (unsigned long)geteuid());
    assert_int_equal(symlink(target, link), 0);
    assert_ok(clt_pocl_folder_choose(false, &folder));
    assert_non_null(folder.path); /* a folder at another place */
    assert_string_not_equal(folder.path, link);
    clt_pocl_folder_free(&folder);
}

/* Blocks of the kinds 13 and 8 with two and one words. */
static const uint8_t bitcode[] = {'B', 'C', 0xC0, 0xDE, 0x35, 0x14, 0, 0, 2, 0, 0, 0, 1, 2, 3, 4,
                                  5,   6,   7,    8,    0x21, 0x0C, 0, 0, 1, 0, 0, 0, 9, 9, 9, 9};

/* A folder of a program, as PoCL names it. */
#define PROGRAM "kcache/AB/CDEFGHIJKLMNOPABCDEFGHIJKLMNOPABCDEFG"

/* Puts the first `size` bytes as the only file, and tells whether it is removed. */
static bool is_cut(const char *path, const void *data, size_t size)
{
    clt_pocl_mended mended;
    char folder[200];
    snprintf(folder, sizeof folder, "%s/kcache", test_folder());
    put_file(path, data, size);
    clt_pocl_folder_mend(folder, &mended);
    assert_int_equal(mended.files, 1);
    assert_null(mended.closed);
    bool there = clt_file_exists(in_dir(path));
    assert_int_equal(mended.removed, !there);
    if (there)
        assert_int_equal(unlink(in_dir(path)), 0);
    return !there;
}

TEST(test_mend)
{
    static const char so[] = PROGRAM "/kernel/64-1-1/kernel.so", bc[] = PROGRAM "/program.bc";
    char *library, *zeros;
    size_t size;
    assert_ok(clt_file_read("/proc/self/exe", false, 0, CLT_EDATA, &library, &size));
    zeros = calloc(size, 1);
    assert_non_null(zeros);
    assert_false(is_cut(so, library, size));
    const size_t cut[] = {0, 1, 40, 64, 1000, size / 2, size - 1};
    for (size_t i = 0; i < sizeof cut / sizeof cut[0]; i++)
        if (!is_cut(so, library, cut[i]))
            fail_msg("%zu of %zu bytes of a library count as whole", cut[i], size);
    assert_true(is_cut(so, zeros, size));
    assert_false(is_cut(bc, bitcode, sizeof bitcode));
    for (size_t n = 0; n < sizeof bitcode; n++)
        if (n != 20 && !is_cut(bc, bitcode, n)) /* 20: exactly the first block */
            fail_msg("%zu of %zu bytes of bitcode count as whole", n, sizeof bitcode);
    assert_true(is_cut(bc, zeros, 64));
    assert_true(is_cut(PROGRAM "/kernel/64-1-1/parallel.bc", zeros, 64));
    free(library);
    free(zeros);
}

/* Files that are not kernels, and the targets of links, stay as they are: the folder may be a home. */
TEST(test_others)
{
    static const char *const foreign[] = {
        "kcache/x/y/calc.bc",
        "kcache/x/y/z/64-1-1/z.so",
        "kcache/ZZ/CDEFGHIJKLMNOPABCDEFGHIJKLMNOPABCDEFG/program.bc",
        "kcache/ABC/CDEFGHIJKLMNOPABCDEFGHIJKLMNOPABCDEFG/program.bc",
        "kcache/AB/short/calc.bc",
        "kcache/AB/CDEF/program.bc",
        "kcache/AB/cdefghijklmnopabcdefghijklmnopabcdefg/program.bc",
        "kcache/AB/program.bc",
        PROGRAM "/calc.bc",
        PROGRAM "/kernel.so",
        PROGRAM "/kernel/kernel.so",
        PROGRAM "/kernel/program.bc",
        PROGRAM "/kernel/64-1-1/other.so",
        PROGRAM "/kernel/64-1-1/kernel.so.o",
        PROGRAM "/kernel/64-1-1/kernel.o",
        PROGRAM "/kernel/64-1-1/deeper/kernel.so",
    };
    clt_pocl_mended mended;
    char folder[200], link[200];
    put_file(PROGRAM "/last_accessed", "", 0);
    put_file("kcache/tempfile_1.so", "", 0); /* which another process is writing */
    put_file("kcache/tempfile_1.so.o", "", 0);
    put_file(PROGRAM "/program.bc_1.temp", "", 0);
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++)
        put_file(foreign[i], "", 0);
    put_file("elsewhere/kernel.so", "", 0);
    snprintf(folder, sizeof folder, "%s/kcache", test_folder());
    snprintf(link, sizeof link, "%s/" PROGRAM "/program.bc", test_folder());
    assert_int_equal(symlink(in_dir("elsewhere/kernel.so"), link), 0);
    snprintf(link, sizeof link, "%s/kcache/AC", test_folder());
    assert_int_equal(symlink(in_dir("elsewhere"), link), 0);
    clt_pocl_folder_mend(folder, &mended);
    assert_int_equal(mended.files, 0);
    assert_int_equal(mended.removed, 0);
    assert_true(clt_file_exists(in_dir("elsewhere/kernel.so")));
    assert_true(clt_file_exists(in_dir("kcache/tempfile_1.so")));
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++)
        if (!clt_file_exists(in_dir(foreign[i])))
            fail_msg("'%s' is not a file of PoCL's, and is removed", foreign[i]);
    clt_pocl_folder_mend(in_dir("nowhere"), &mended);
    assert_int_equal(mended.files, 0);
}

/* Files that another user, such as root, has put there. */
TEST(test_closed)
{
    static const char *const users[] = {"", "tmp", "kcache", "kcache/AB"};
    clt_pocl_mended mended;
    clt_pocl_folder folder = {0}, seen;
    char kcache[200];
    put_file(PROGRAM "/program.bc", bitcode, sizeof bitcode);
    put_file("kcache/notes/page.txt", "", 0); /* not one of PoCL's files */
    assert_int_equal(chmod(in_dir("kcache/notes"), 0500), 0);
    snprintf(kcache, sizeof kcache, "%s/kcache", test_folder());
    bool is_root = geteuid() == 0; /* root may write everywhere, and becomes another user */
    assert_int_equal(chmod(in_dir(PROGRAM), is_root ? 0755 : 0500), 0);
    for (size_t i = 0; is_root && i < sizeof users / sizeof users[0]; i++)
        assert_int_equal(chown(in_dir(users[i]), 65534, (gid_t)-1), 0);
    assert_true(!is_root || seteuid(65534) == 0);
    clt_pocl_folder_mend(kcache, &mended);
    folder.path = strdup(kcache);
    setenv("POCL_CACHE_DIR", kcache, 1);
    assert_ok(clt_pocl_folder_choose(false, &seen)); /* what 'cltrain cache' sees */
    assert_ok(clt_pocl_folder_leave(&folder, mended.closed));
    assert_true(!is_root || seteuid(0) == 0);
    assert_int_equal(chmod(in_dir("kcache/notes"), 0700), 0);
    assert_int_equal(chmod(in_dir(PROGRAM), 0700), 0);
    assert_string_equal(mended.closed, in_dir(PROGRAM));
    free(mended.closed);
    const clt_pocl_folder *both[] = {&folder, &seen};
    for (size_t i = 0; i < 2; i++) {
        assert_string_equal(both[i]->refused, kcache);
        assert_string_equal(both[i]->path, in_dir("own/pocl"));
        assert_non_null(strstr(both[i]->why, in_dir(PROGRAM)));
        assert_true(both[i]->closed);
    }
    clt_pocl_folder_free(&folder);
    clt_pocl_folder_free(&seen);
}

TEST_PROGRAM(.fresh_folder = true, .before = prepare);
