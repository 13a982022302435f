/* SPDX-License-Identifier: Apache-2.0
 * ctest-labels: quick
 *
 * The list of caches: sizes, and clearing, which takes nothing but cached files, follows no link, and touches
 * no cache that other programs share. */
#include "tests/unit/test.h"

#include <sys/stat.h>

#include "engine/host/cache_list.h"
#include "engine/files/fileio.h"

static void put(const char *path, const char *text)
{
    char whole[512];
    snprintf(whole, sizeof whole, "%s/%s", test_folder(), path);
    char *slash = strrchr(whole, '/');
    *slash = '\0';
    assert_ok(clt_mkdir_p(whole));
    assert_int_equal(chmod(whole, 0700), 0);
    *slash = '/';
    assert_ok(clt_file_write(whole, text, strlen(text)));
}

static bool there(const char *path)
{
    char whole[512];
    struct stat info;
    snprintf(whole, sizeof whole, "%s/%s", test_folder(), path);
    return lstat(whole, &info) == 0;
}

static int index_of(const char *name)
{
    for (int i = 0; clt_cache_name(i); i++)
        if (strcmp(clt_cache_name(i), name) == 0)
            return i;
    fail_msg("there is no cache %s", name);
    return -1;
}

static clt_cache look(const char *name)
{
    clt_cache cache;
    assert_ok(clt_cache_look(index_of(name), &cache));
    assert_string_equal(cache.name, name);
    return cache;
}

static void clear(const char *name, uint64_t want_files, uint64_t want_bytes)
{
    clt_cache cache = look(name);
    uint64_t files, bytes;
    assert_int_equal(cache.files, want_files);
    assert_int_equal(cache.bytes, want_bytes);
    assert_ok(clt_cache_clear(&cache, &files, &bytes));
    assert_int_equal(files, want_files);
    assert_int_equal(bytes, want_bytes);
    clt_cache_free(&cache);
    cache = look(name);
    assert_int_equal(cache.files, 0);
    clt_cache_free(&cache);
}

FIXTURE(prepare)
{
    setenv("HOME", test_folder(), 1);
    unsetenv("XDG_CACHE_HOME");
    unsetenv("POCL_CACHE_DIR");
    unsetenv("CUDA_CACHE_PATH");
    return setenv("CLTRAIN_CACHE_DIR", in_dir("own"), 1);
}

TEST(test_own)
{
    clear("programs", 0, 0); /* no folder */
    put("own/programs/0123456789abcdef.program", "12345");
    put("own/programs/0123456789abcdef.built", "");
    put("own/programs/x.program.tmp-77", "1");
    put("own/programs/x.program.tmp-0123456789abcdef-77", "1");
    put("own/programs/x.program.tmp-novel-77", "keep me");
    put("own/programs/my novel.txt", "keep me");
    put("own/programs/sub/x.program", "keep me");
    clear("programs", 4, 7);
    assert_true(there("own/programs/x.program.tmp-novel-77"));
    assert_true(there("own/programs/my novel.txt"));
    assert_true(there("own/programs/sub/x.program"));
    put("own/answers/a.json", "12");
    put("own/answers/a.lock", "");
    clear("answers", 2, 2);
    assert_false(there("own/answers"));
    put("own/icd/0123456789abcdef/some.icd", "lib");
    put("own/icd/photos/some.icd", "lib");
    clear("icd", 1, 3);
    assert_false(there("own/icd/0123456789abcdef"));
    assert_true(there("own/icd/photos/some.icd"));
}

TEST(test_links)
{
    char target[512], link[512];
    put("novel/page.txt", "text");
    put("own/icd/keep.txt", "");
    snprintf(target, sizeof target, "%s/novel", test_folder());
    snprintf(link, sizeof link, "%s/own/icd/0123456789abcdef", test_folder());
    assert_int_equal(symlink(target, link), 0);
    snprintf(link, sizeof link, "%s/own/icd/fedcba9876543210", test_folder());
    assert_int_equal(mkdir(link, 0700), 0);
    snprintf(link, sizeof link, "%s/own/icd/fedcba9876543210/x.icd", test_folder());
    assert_int_equal(symlink(target, link), 0);
    clear("icd", 1, 0); /* the link inside is a file; the one in place of a folder is not followed */
    assert_true(there("novel/page.txt"));
    assert_true(there("own/icd/0123456789abcdef"));
}

TEST(test_drivers)
{
    clt_cache cache;
    uint64_t files, bytes;
    char value[512];
    put(".cache/pocl/kcache/AB/CDEF/program.bc", "123");
    put(".cache/pocl/kcache/tempfile_1", "4");
    put(".cache/pocl/kcache/notes.txt", "keep");
    clear("pocl", 2, 4);
    assert_true(there(".cache/pocl/kcache/notes.txt"));
    put("file", ""); /* HOME is not a folder, so PoCL gets a folder of this program */
    snprintf(value, sizeof value, "%s/file", test_folder());
    setenv("HOME", value, 1);
    put("own/pocl/AB/CDEF/program.bc", "12345");
    clear("pocl", 1, 5);
    setenv("HOME", test_folder(), 1);
    put(".nv/ComputeCache/1/2/code", "12345678");
    cache = look("nvidia");
    assert_int_equal(cache.bytes, 8);
    assert_int_equal(clt_cache_clear(&cache, &files, &bytes), CLT_EUSAGE);
    assert_true(there(".nv/ComputeCache/1/2/code"));
    clt_cache_free(&cache);
}

/* A folder that others may write to is not ours alone: nothing is removed in it. */
TEST(test_open_folder)
{
    char folder[512];
    uint64_t files, bytes;
    put("own/tuning/a.json", "{}");
    snprintf(folder, sizeof folder, "%s/own/tuning", test_folder());
    assert_int_equal(chmod(folder, 0777), 0);
    clt_cache cache = look("tuning");
    assert_int_equal(clt_cache_clear(&cache, &files, &bytes), CLT_ESTORAGE);
    assert_true(there("own/tuning/a.json"));
    clt_cache_free(&cache);
}

/* What another user, such as root, has made cannot be removed, but everything else is. */
TEST(test_closed)
{
    static const char *const users[] = {"", "own", "own/icd", "own/icd/0000000000000001",
                                        "own/icd/0000000000000002"};
    static const char closed[] = "own/icd/0000000000000001/closed";
    clt_cache cache;
    uint64_t files, bytes;
    char path[512], why[CLT_ERROR_TEXT_SIZE];
    put("own/icd/0000000000000001/closed/a.icd", "1");
    put("own/icd/0000000000000001/b.icd", "12");
    put("own/icd/0000000000000001/c.icd", "123");
    put("own/icd/0000000000000002/d.icd", "1234");
    bool is_root = geteuid() == 0; /* root may remove everything, and becomes another user */
    snprintf(path, sizeof path, "%s/%s", test_folder(), closed);
    assert_int_equal(chmod(path, is_root ? 0755 : 0500), 0);
    for (size_t i = 0; is_root && i < sizeof users / sizeof users[0]; i++) {
        char whole[512];
        snprintf(whole, sizeof whole, "%s/%s", test_folder(), users[i]);
        assert_int_equal(chown(whole, 65534, (gid_t)-1), 0);
    }
    assert_true(!is_root || seteuid(65534) == 0);
    cache = look("icd");
    clt_status status = clt_cache_clear(&cache, &files, &bytes);
    snprintf(why, sizeof why, "%s", clt_error_text());
    assert_true(!is_root || seteuid(0) == 0);
    assert_int_equal(chmod(path, 0700), 0);
    clt_cache_free(&cache);
    assert_int_equal(status, CLT_ESTORAGE);
    assert_non_null(strstr(why, "closed/a.icd"));
    assert_int_equal(files, 3);
    assert_int_equal(bytes, 9);
    assert_true(there("own/icd/0000000000000001/closed/a.icd"));
    assert_false(there("own/icd/0000000000000001/b.icd"));
    assert_false(there("own/icd/0000000000000001/c.icd"));
    assert_false(there("own/icd/0000000000000002"));
}

TEST(test_nowhere)
{
    clt_cache cache;
    unsetenv("CLTRAIN_CACHE_DIR");
    unsetenv("HOME");
    assert_int_equal(clt_cache_look(index_of("programs"), &cache), CLT_ESTORAGE);
    clt_cache_free(&cache);
    cache = look("pocl"); /* PoCL's own folder would be everybody's */
    assert_non_null(strstr(cache.path, "/cltrain-pocl-"));
    clt_cache_free(&cache);
    assert_null(clt_cache_name(clt_cache_count()));
    assert_null(clt_cache_name(-1));
}

TEST_PROGRAM(.fresh_folder = true, .before = prepare);
