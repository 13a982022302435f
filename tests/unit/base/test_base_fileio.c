/* SPDX-License-Identifier: Apache-2.0
 *
 * Files: whole reads, gzip good and damaged, mappings, atomic writes, folders, removal that does not follow
 * links, locks between processes. Knows only engine/base. ctest-labels: quick */
#include "tests/unit/test.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <zlib.h>

#include "engine/base/mem.h"
#include "engine/base/rng.h"
#include "engine/files/fileio.h"
#include "engine/files/fileio_error.h"
#include "engine/files/process.h"

static char folder[64];

FIXTURE(make_folder)
{
    (void)snprintf(folder, sizeof folder, "/tmp/test_base_fileio_XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

FIXTURE(drop_folder)
{
    return clt_remove_tree(folder) == CLT_OK && !clt_file_exists(folder) ? 0 : -1;
}

/* A path in the folder; four of them are valid at a time. */
static const char *in_folder(const char *name)
{
    static char paths[4][256];
    static int turn;
    char *path = paths[turn++ % 4];
    (void)snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static void put(const char *name, const void *data, size_t size)
{
    FILE *file = fopen(in_folder(name), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static int entries(const char *path)
{
    DIR *dir = opendir(path);
    assert_non_null(dir);
    int count = -2;
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

static void check_read(const char *name, bool gunzip, const void *data, size_t size)
{
    CLT_FREED char *got = NULL;
    size_t got_size = 99;
    clt_status status = clt_file_read(in_folder(name), gunzip, 0, CLT_EDATA, &got, &got_size);
    if (status != CLT_OK)
        print_error("%s\n", clt_error_text());
    assert_ok(status);
    assert_int_equal(got_size, size);
    assert_memory_equal(got, data, size);
    assert_int_equal(got[size], 0);
}

static void check_refused(const char *name, bool gunzip, uint64_t max_bytes, const char *reason)
{
    char *got = (char *)(uintptr_t)1;
    size_t size = 99;
    assert_int_equal(clt_file_read(in_folder(name), gunzip, max_bytes, CLT_ECHECKPOINT, &got, &size),
                     CLT_ECHECKPOINT);
    assert_null(got);
    assert_int_equal(size, 0);
    if (!strstr(clt_error_text(), reason))
        print_error("message '%s' lacks '%s'\n", clt_error_text(), reason);
    assert_non_null(strstr(clt_error_text(), reason));
    assert_non_null(strstr(clt_error_text(), in_folder(name)));
}

TEST_BETWEEN(test_read, make_folder, drop_folder)
{
    static char data[200000];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)clt_rng_u32(1, CLT_RNG_VERIFY, 0, 0, i);
    put("empty", "", 0);
    put("one", "x", 1);
    put("many", data, sizeof data);
    check_read("empty", false, "", 0);
    check_read("empty", true, "", 0);
    check_read("one", true, "x", 1);
    check_read("many", true, data, sizeof data);
    put("f\xc3\xa9 name", data, 4096);
    check_read("f\xc3\xa9 name", false, data, 4096);
    check_refused("absent", false, 0, "No such file or directory");
    check_refused(".", false, 0, "is a folder");
    check_refused("one/two", false, 0, "Not a directory");
    check_refused("many", false, sizeof data - 1, "more than the 199999 bytes");
    char *got;
    size_t size;
    assert_ok(clt_file_read(in_folder("many"), false, sizeof data, CLT_EDATA, &got, &size));
    assert_int_equal(size, sizeof data);
    free(got);
    /* Files of /proc, and pipes, report no size. */
    assert_ok(clt_file_read("/proc/self/maps", false, 0, CLT_EDATA, &got, &size));
    assert_true(size > 1000);
    free(got);
}

/* The message about a path at which nothing is says what is there instead. */
TEST_BETWEEN(test_read_absent, make_folder, drop_folder)
{
    put("train_000.bin", "x", 1);
    put("val_000.bin", "x", 1);
    put("manifest.json", "x", 1);
    check_refused("trian_000.bin", false, 0, "did you mean '");
    assert_non_null(strstr(clt_error_text(), in_folder("train_000.bin")));
    check_refused("train.bin", false, 0, "; its folder holds 'train_000.bin', 'val_000.bin'");
    put("other_000.bin", "x", 1);
    put("some_000.bin", "x", 1);
    check_refused("train.bin", false, 0, "'train_000.bin' and 1 more");
    check_refused("gone/train_000.bin", false, 0, "; there is no folder '");
    check_refused("nothing.txt", false, 0, "No such file or directory; check the path");
}

/* data packed with gzip, appended to out */
static void pack(clt_str *out, const void *data, size_t size, int level)
{
    z_stream stream = {0};
    assert_int_equal(deflateInit2(&stream, level, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    uLong bound = deflateBound(&stream, (uLong)size);
    CLT_FREED char *packed = malloc(bound);
    assert_non_null(packed);
    stream.next_in = (Bytef *)(uintptr_t)data;
    stream.avail_in = (uInt)size;
    stream.next_out = (Bytef *)packed;
    stream.avail_out = (uInt)bound;
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    clt_str_append_n(out, packed, stream.total_out);
    assert_ok(clt_str_check(out));
    deflateEnd(&stream);
}

TEST_BETWEEN(test_gzip, make_folder, drop_folder)
{
    static char data[300000];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)(clt_rng_u32(2, CLT_RNG_VERIFY, 0, 0, i) % 16 + i / 50000);
    CLT_SCOPED(clt_str) packed = {0};
    pack(&packed, data, sizeof data, 6);
    put("a.gz", packed.text, packed.length);
    check_read("a.gz", true, data, sizeof data);
    check_read("a.gz", false, packed.text, packed.length);
    check_refused("a.gz", true, sizeof data - 1, "more than the 299999 bytes");
    char *got;
    size_t size;
    assert_ok(clt_file_read(in_folder("a.gz"), true, sizeof data, CLT_EDATA, &got, &size));
    free(got);
    /* Two members, then the zeros of a tape block. */
    size_t first = packed.length;
    pack(&packed, "tail", 4, 9);
    clt_str_append_n(&packed, "\0\0\0", 3);
    put("b.gz", packed.text, packed.length);
    char *both = malloc(sizeof data + 4);
    assert_non_null(both);
    memcpy(both, data, sizeof data);
    memcpy(both + sizeof data, "tail", 4);
    check_read("b.gz", true, both, sizeof data + 4);
    free(both);
    packed.length = first;
    clt_str_append_n(&packed, "junk", 4);
    put("c.gz", packed.text, packed.length);
    check_refused("c.gz", true, 0, "bytes follow the end");
    packed.length = 0;
    pack(&packed, "", 0, 1);
    put("d.gz", packed.text, packed.length);
    check_read("d.gz", true, "", 0);
    /* Data that cannot be compressed grows: the limit is on the unpacked size. */
    packed.length = 0;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)clt_rng_u32(3, CLT_RNG_VERIFY, 0, 0, i);
    pack(&packed, data, sizeof data, 0);
    assert_true(packed.length > sizeof data);
    put("e.gz", packed.text, packed.length);
    assert_ok(clt_file_read(in_folder("e.gz"), true, sizeof data, CLT_EDATA, &got, &size));
    free(got);
}

TEST_BETWEEN(test_gzip_damaged, make_folder, drop_folder)
{
    char data[2000];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)(clt_rng_u32(4, CLT_RNG_VERIFY, 0, 0, i) % 7);
    CLT_SCOPED(clt_str) packed = {0};
    pack(&packed, data, sizeof data, 6);
    for (size_t cut = 2; cut < packed.length; cut += cut < 40 || cut + 40 > packed.length ? 1 : 23) {
        put("cut.gz", packed.text, cut);
        check_refused("cut.gz", true, 0, "ends early");
    }
    /* One flipped bit in the data or in the checksum. */
    for (size_t at = 10; at < packed.length; at += 17) {
        packed.text[at] ^= 0x10;
        put("flip.gz", packed.text, packed.length);
        check_refused("flip.gz", true, 0, "unpacking");
        packed.text[at] ^= 0x10;
    }
    packed.text[packed.length - 6] ^= 1;
    put("sum.gz", packed.text, packed.length);
    check_refused("sum.gz", true, 0, "incorrect data check");
    packed.text[packed.length - 6] ^= 1;
    packed.text[2] = 7;
    put("method.gz", packed.text, packed.length);
    check_refused("method.gz", true, 0, "damaged");
}

TEST_BETWEEN(test_map, make_folder, drop_folder)
{
    clt_mapping mapping;
    put("m", "mapped", 6);
    assert_ok(clt_map_open(in_folder("m"), CLT_EDATA, &mapping));
    assert_int_equal(mapping.size, 6);
    assert_memory_equal(mapping.data, "mapped", 6);
    clt_map_close(&mapping);
    assert_null(mapping.data);
    clt_map_close(&mapping);
    clt_map_close(NULL);
    put("m0", "", 0);
    assert_ok(clt_map_open(in_folder("m0"), CLT_EDATA, &mapping));
    assert_non_null(mapping.data);
    assert_int_equal(mapping.size, 0);
    clt_map_close(&mapping);
    assert_int_equal(clt_map_open(in_folder("absent"), CLT_EDATA, &mapping), CLT_EDATA);
    assert_non_null(strstr(clt_error_text(), "No such file"));
    assert_int_equal(clt_map_open(folder, CLT_EDATA, &mapping), CLT_EDATA);
    assert_int_equal(clt_map_open("/dev/null", CLT_ECHECKPOINT, &mapping), CLT_ECHECKPOINT);
    assert_null(mapping.data);
}

/* The slot of a closed mapping is used again, in any order, and each mapping keeps the name and size of its
 * file. */
TEST_BETWEEN(test_map_again, make_folder, drop_folder)
{
    enum { FILES = 40, PAGE = 4096 };
    static char bytes[2 * PAGE];
    clt_mapping mapping[FILES];
    memset(bytes, 'a', sizeof bytes);
    put("short", bytes, PAGE);
    put("long", bytes, 2 * PAGE);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < FILES; i++)
            assert_ok(clt_map_open(in_folder((i + round) % 2 ? "long" : "short"), CLT_EDATA, &mapping[i]));
        for (int i = 0; i < FILES; i++)
            clt_map_close(&mapping[(i * 7 + round) % FILES]);
    }
    assert_ok(clt_map_open(in_folder("short"), CLT_EDATA, &mapping[0]));
    assert_ok(clt_map_open(in_folder("long"), CLT_EDATA, &mapping[1]));
    assert_int_equal(truncate(in_folder("long"), PAGE), 0);
    assert_int_equal(((const char *)mapping[1].data)[PAGE - 1], 'a');
    assert_int_equal(((const char *)mapping[1].data)[PAGE], 0); /* the lost page reads as zeros */
    assert_ok(clt_map_check_one(&mapping[0]));
    assert_int_equal(clt_map_check_one(&mapping[1]), CLT_EDATA);
    assert_non_null(strstr(clt_error_text(), "long'"));
    clt_map_close(&mapping[0]);
    clt_map_close(&mapping[1]);
    assert_ok(clt_map_check());
}

/* A mapped file that becomes shorter reads as zeros, and the check names the file and returns the mapping's
 * error code. */
TEST_BETWEEN(test_map_cut, make_folder, drop_folder)
{
    enum { PAGE = 4096, SIZE = 20 * PAGE + 100 };
    static char bytes[SIZE];
    clt_mapping cut, other, kept;
    memset(bytes, 'a', sizeof bytes);
    put("cut", bytes, SIZE);
    put("other", bytes, SIZE);
    put("kept", bytes, SIZE);
    assert_ok(clt_map_open(in_folder("cut"), CLT_EDATA, &cut));
    assert_ok(clt_map_open(in_folder("other"), CLT_ECHECKPOINT, &other));
    assert_ok(clt_map_open(in_folder("kept"), CLT_EDATA, &kept));
    clt_map_used(&cut);
    assert_ok(clt_map_check());

    /* whole pages are missing: without a handler a read of them would end the process */
    assert_int_equal(truncate(in_folder("cut"), 3 * PAGE), 0);
    assert_int_equal(cut.data[2 * PAGE], 'a');
    assert_int_equal(cut.data[9 * PAGE + 5], 0);
    assert_int_equal(cut.data[SIZE - 1], 0);
    assert_int_equal(cut.data[2 * PAGE], 'a');
    assert_int_equal(clt_map_check(), CLT_EDATA);
    assert_non_null(strstr(clt_error_text(), "/cut': it ends after 12288 bytes now, and had 82020"));
    assert_ok(clt_map_check_one(&kept));
    assert_int_equal(clt_map_check_one(&cut), CLT_EDATA);
    /* the loss is still reported after the file is whole again */
    assert_int_equal(truncate(in_folder("cut"), SIZE), 0);
    assert_int_equal(clt_map_check(), CLT_EDATA);
    assert_non_null(strstr(clt_error_text(), "/cut': a part of it could not be read"));
    clt_map_close(&cut);
    assert_ok(clt_map_check());

    /* a cut within the last page gives zeros but no signal; files that were not used are not checked */
    assert_int_equal(truncate(in_folder("other"), SIZE - 50), 0);
    assert_int_equal(other.data[SIZE - 1], 0);
    assert_ok(clt_map_check());
    clt_map_used(&other);
    assert_int_equal(clt_map_check(), CLT_ECHECKPOINT);
    assert_non_null(strstr(clt_error_text(), "/other'"));
    clt_map_close(&other);

    /* a file that is replaced or removed is still there for its mapping */
    put("new", "x", 1);
    assert_int_equal(rename(in_folder("new"), in_folder("kept")), 0);
    clt_map_used(&kept);
    assert_ok(clt_map_check());
    assert_int_equal(unlink(in_folder("kept")), 0);
    assert_ok(clt_map_check_one(&kept));
    assert_int_equal(kept.data[SIZE - 1], 'a');
    clt_map_close(&kept);
}

static void exit_with_7(int number)
{
    _exit(number == SIGBUS ? 7 : 1);
}

/* How a child ends in which SIGBUS comes from a mapping that fileio.h does not know or, if `sent`, from
 * kill(); `handler` was installed before. Returns its exit code, or the negative number of the signal. */
static int end_of_child(void (*handler)(int), bool sent)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)signal(SIGBUS, handler);
        clt_mapping mapping;
        int fd = open(in_folder("b"), O_RDONLY);
        const char *stray = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, fd, 0);
        if (fd < 0 || stray == MAP_FAILED || clt_map_open(in_folder("b"), CLT_EDATA, &mapping) != CLT_OK)
            _exit(1);
        pid_t grandchild = sent ? fork() : -1; /* a signal from another process */
        if (grandchild == 0)
            _exit(kill(getppid(), SIGBUS) == 0 ? 0 : 1);
        if (sent)
            for (;;)
                pause();
        _exit(((const volatile char *)stray)[4096] ? 1 : 0);
    }
    int result = 0;
    assert_int_equal(waitpid(child, &result, 0), child);
    return WIFSIGNALED(result) ? -WTERMSIG(result) : WEXITSTATUS(result);
}

/* Other causes of the signal are left to the handler that was there before, or end the process. */
TEST_BETWEEN(test_map_signal, make_folder, drop_folder)
{
    struct rlimit none = {0, 0}, kept;
    assert_int_equal(getrlimit(RLIMIT_CORE, &kept), 0);
    assert_int_equal(setrlimit(RLIMIT_CORE, &none), 0);
    put("b", "b", 1);
    if (!getenv("ASAN_OPTIONS")) { /* with ASan, its own report ends the process */
        assert_int_equal(end_of_child(SIG_DFL, false), -SIGBUS);
        assert_int_equal(end_of_child(SIG_DFL, true), -SIGBUS);
    }
    assert_int_equal(end_of_child(exit_with_7, false), 7);
    assert_int_equal(end_of_child(exit_with_7, true), 7);
    (void)setrlimit(RLIMIT_CORE, &kept);
}

TEST_BETWEEN(a_new_file_is_made_once, make_folder, drop_folder)
{
    CLT_FREED char *text = NULL;
    size_t length;
    bool created;
    assert_ok(clt_file_create(in_folder("once"), "first", 5, &created));
    assert_true(created);
    assert_ok(clt_file_create(in_folder("once"), "second", 6, &created));
    assert_false(created);
    assert_ok(clt_file_read(in_folder("once"), false, 0, CLT_EDATA, &text, &length));
    assert_string_equal(text, "first");
    assert_int_equal(clt_file_create(in_folder("no/such"), "x", 1, &created), CLT_ESTORAGE);
    assert_int_equal(entries(folder), 1); /* no temporary file is left */
}

TEST_BETWEEN(test_write, make_folder, drop_folder)
{
    assert_ok(clt_file_write(in_folder("w"), "first", 5));
    check_read("w", false, "first", 5);
    assert_ok(clt_file_write(in_folder("w"), "2nd", 3));
    check_read("w", false, "2nd", 3);
    assert_ok(clt_file_write(in_folder("w0"), NULL, 0));
    check_read("w0", false, "", 0);
    assert_int_equal(entries(folder), 2);
    assert_int_equal(clt_file_write(in_folder("no/such"), "x", 1), CLT_ESTORAGE);
    assert_non_null(strstr(clt_error_text(), "No such file"));
    /* The target is a folder: the rename fails, nothing is left behind. */
    assert_int_equal(mkdir(in_folder("dir"), 0777), 0);
    assert_int_equal(clt_file_write(in_folder("dir"), "x", 1), CLT_ESTORAGE);
    assert_int_equal(entries(folder), 3);
    assert_int_equal(clt_fd_write(-1, "x", 1, "closed"), CLT_ESTORAGE);
    assert_non_null(strstr(clt_error_text(), "'closed' at byte 0 of 1"));
    assert_ok(clt_fsync_path(in_folder("w")));
    assert_ok(clt_fsync_path(folder));
    assert_int_equal(clt_fsync_path(in_folder("absent")), CLT_ESTORAGE);
    /* A relative path has a folder too. */
    char here[4096];
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(folder), 0);
    assert_ok(clt_file_write("relative", "r", 1));
    assert_int_equal(chdir(here), 0);
    check_read("relative", false, "r", 1);
}

/* A check before long work begins: it gives the answer that the write itself would give, and leaves no
 * file. */
TEST_BETWEEN(test_can_write, make_folder, drop_folder)
{
    assert_ok(clt_file_can_write(in_folder("new")));
    assert_int_equal(entries(folder), 0);
    assert_ok(clt_file_write(in_folder("old"), "old", 3));
    assert_ok(clt_file_can_write(in_folder("old")));
    check_read("old", false, "old", 3);
    assert_int_equal(entries(folder), 1);
    assert_int_equal(clt_file_can_write(in_folder("no/such")), CLT_ESTORAGE);
    assert_non_null(strstr(clt_error_text(), "No such file"));
    assert_int_equal(clt_file_can_write(folder), CLT_ESTORAGE);
    assert_non_null(strstr(clt_error_text(), "it is a folder"));
}

/* Anything but a regular file stays as it is. */
/* Under names that the program chooses, only regular files are opened or written, and nothing blocks. */
TEST_BETWEEN(test_own_files, make_folder, drop_folder)
{
    int fd;
    put("target", "kept", 4);
    assert_int_equal(symlink("target", in_folder("link")), 0);
    assert_int_equal(symlink("nowhere", in_folder("hanging")), 0);
    assert_int_equal(mkfifo(in_folder("pipe"), 0600), 0);
    static const char *const bad[] = {"link", "hanging", "pipe"};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(clt_own_file_check(in_folder(bad[i])), CLT_ESTORAGE);
        assert_non_null(strstr(clt_error_text(), "not a regular file"));
        assert_int_equal(clt_own_file_write(in_folder(bad[i]), "x", 1), CLT_ESTORAGE);
        assert_int_equal(clt_own_file_append(in_folder(bad[i]), &fd), CLT_ESTORAGE);
        assert_int_equal(fd, -1);
    }
    check_read("target", false, "kept", 4);
    assert_false(clt_file_exists(in_folder("nowhere")));
    assert_ok(clt_own_file_append(in_folder("new"), &fd));
    assert_ok(clt_fd_write(fd, "ab", 2, "new"));
    assert_int_equal(close(fd), 0);
    assert_ok(clt_own_file_append(in_folder("new"), &fd));
    assert_ok(clt_fd_write(fd, "c", 1, "new"));
    assert_int_equal(close(fd), 0);
    check_read("new", false, "abc", 3);
    assert_int_equal(clt_own_file_append(folder, &fd), CLT_ESTORAGE);
    /* a new file replaces a link, a pipe or an earlier file */
    for (int i = 0; i < 3; i++) {
        assert_ok(clt_own_file_create(in_folder(bad[i]), &fd));
        assert_ok(clt_fd_write(fd, "n", 1, "new"));
        assert_int_equal(close(fd), 0);
        check_read(bad[i], false, "n", 1);
    }
    check_read("target", false, "kept", 4);
}

TEST_BETWEEN(test_write_special, make_folder, drop_folder)
{
    struct stat info;
    char link[4096];
    (void)snprintf(link, sizeof link, "%s", in_folder("sink"));
    assert_int_equal(symlink("/dev/null", link), 0);
    assert_ok(clt_file_can_write(link));
    assert_ok(clt_file_write(link, "gone", 4));
    assert_int_equal(lstat(link, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_int_equal(stat(link, &info), 0);
    assert_true(S_ISCHR(info.st_mode));
    assert_ok(clt_file_can_write("/dev/full"));
    assert_int_equal(clt_file_write("/dev/full", "x", 1), CLT_ESTORAGE);
    assert_int_equal(entries(folder), 1);
}

/* A disk that is full half-way (a file size limit, in a child): the old content stays, the rest is cleaned
 * up. */
TEST_BETWEEN(test_write_fails_midway, make_folder, drop_folder)
{
    static char data[100000];
    assert_ok(clt_file_write(in_folder("full"), "old", 3));
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct rlimit limit = {50000, 50000};
        (void)signal(SIGXFSZ, SIG_IGN);
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
            _exit(90);
        clt_status status = clt_file_write(in_folder("full"), data, sizeof data);
        _exit(status == CLT_ESTORAGE && strstr(clt_error_text(), "at byte 50000 of 100000") ? 0 : 1);
    }
    int result = 0;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result));
    assert_int_equal(WEXITSTATUS(result), 0);
    check_read("full", false, "old", 3);
    assert_int_equal(entries(folder), 1);
}

TEST(test_short_writes)
{
    /* Through a pipe, whose buffer is smaller than the data. */
    static char data[500000];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (char)(i * 31 >> 3);
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(ends[0]);
        _exit(clt_fd_write(ends[1], data, sizeof data, "pipe") == CLT_OK ? 0 : 1);
    }
    close(ends[1]);
    char path[64], *got = NULL;
    size_t size = 0;
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", ends[0]);
    assert_ok(clt_file_read(path, true, 0, CLT_EDATA, &got, &size));
    close(ends[0]);
    int result = 0;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
    assert_int_equal(size, sizeof data);
    assert_memory_equal(got, data, size);
    free(got);
}

TEST_BETWEEN(test_folders, make_folder, drop_folder)
{
    assert_ok(clt_mkdir_p(in_folder("a/b//c/")));
    assert_ok(clt_mkdir_p(in_folder("a/b//c/")));
    assert_true(clt_is_directory(in_folder("a/b/c")));
    assert_ok(clt_mkdir_p("/"));
    assert_int_equal(clt_mkdir_p(""), CLT_ESTORAGE);
    put("file", "x", 1);
    assert_int_equal(clt_mkdir_p(in_folder("file")), CLT_ESTORAGE);
    assert_non_null(strstr(clt_error_text(), "is not a folder"));
    assert_int_equal(clt_mkdir_p(in_folder("file/sub")), CLT_ESTORAGE);
    assert_true(clt_file_exists(in_folder("file")));
    assert_false(clt_is_directory(in_folder("file")));
    assert_false(clt_file_exists(in_folder("absent")));
    /* A link to a folder is a folder on the way. */
    assert_int_equal(symlink("a", in_folder("link")), 0);
    assert_ok(clt_mkdir_p(in_folder("link/d")));
    assert_true(clt_is_directory(in_folder("a/d")));
}

TEST_BETWEEN(test_remove_tree, make_folder, drop_folder)
{
    char target[256];
    assert_ok(clt_mkdir_p(in_folder("keep/inner")));
    put("keep/inner/file", "x", 1);
    put("keep/other", "y", 1);
    assert_ok(clt_mkdir_p(in_folder("gone/1/2/3")));
    put("gone/1/2/file", "z", 1);
    put("gone/.hidden", "z", 1);
    (void)snprintf(target, sizeof target, "%s", in_folder("keep"));
    assert_int_equal(symlink(target, in_folder("gone/1/link")), 0);
    assert_int_equal(symlink("../../keep/other", in_folder("gone/1/filelink")), 0);
    assert_int_equal(symlink("nowhere", in_folder("gone/dangling")), 0);
    assert_ok(clt_remove_tree(in_folder("gone/")));
    assert_false(clt_file_exists(in_folder("gone")));
    check_read("keep/inner/file", false, "x", 1);
    check_read("keep/other", false, "y", 1);
    /* A link as the path itself, with a slash too: the link goes, its target stays. */
    assert_int_equal(symlink(target, in_folder("direct")), 0);
    assert_ok(clt_remove_tree(in_folder("direct/")));
    assert_int_equal(faccessat(AT_FDCWD, in_folder("direct"), F_OK, AT_SYMLINK_NOFOLLOW), -1);
    check_read("keep/inner/file", false, "x", 1);
    /* A file, and nothing at all. */
    assert_ok(clt_remove_tree(in_folder("keep/other")));
    assert_false(clt_file_exists(in_folder("keep/other")));
    assert_ok(clt_remove_tree(in_folder("keep/other")));
    static const char *const refused[] = {"", "/", "//", ".", "..", "a/..", "x/./"};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        assert_int_equal(clt_remove_tree(refused[i]), CLT_ESTORAGE);
    check_read("keep/inner/file", false, "x", 1);
}

static clt_status keep_name(void *context, int fd, const char *path)
{
    (void)fd;
    (void)snprintf(context, 300, "%s", path);
    return CLT_OK;
}

/* Hosts that share a folder may have processes of one id; the mark tells them apart. */
TEST_BETWEEN(test_temporary_name, make_folder, drop_folder)
{
    char mark[CLT_PROCESS_MARK], expected[300], name[300] = "", pid[32];
    (void)snprintf(expected, sizeof expected, "%s.tmp-%s", in_folder("file"), clt_process_mark(mark));
    assert_ok(clt_file_write_by(in_folder("file"), keep_name, name));
    assert_string_equal(name, expected);
    (void)snprintf(pid, sizeof pid, "-%ld", (long)getpid());
    assert_int_equal(strlen(mark), 16 + strlen(pid)); /* HASH-PID */
    assert_string_equal(mark + 16, pid);
}

TEST(test_path_join)
{
    static const char *const cases[][3] = {
        {"a", "b", "a/b"},
        {"a/", "b", "a/b"},
        {"a", "/b", "/b"},
        {"", "b", "b"},
        {"a", "", "a"},
        {"/", "b", "/b"},
        {"", "", ""},
        {"a/b", "c/d", "a/b/c/d"},
        {"a", "../b", "a/../b"},
        /* a server knows no "." and ".." */
        {"s3://b/x", "y", "s3://b/x/y"},
        {"s3://b/x/", "y/", "s3://b/x/y/"},
        {"s3://b/x", "", "s3://b/x"},
        {"s3://b", "y", "s3://b/y"},
        {"s3://b/x", "./y", "s3://b/x/y"},
        {"s3://b/x", "y/../z.png", "s3://b/x/z.png"},
        {"s3://b/x", "y/./z", "s3://b/x/y/z"},
        {"s3://b/x/y", "../z", "s3://b/x/z"},
        {"s3://b/x/y/", "../../z", "s3://b/z"},
        {"s3://b/x/y", "..", "s3://b/x"},
        {"s3://b/x/y", ".", "s3://b/x/y"},
        {"s3://b/x", "y/..", "s3://b/x"},
        {"s3://b/x", "../../../y", "s3://b/y"},
        {"s3://b/x", "../..", "s3://b"},
        {"s3://b/x", "y//z", "s3://b/x/y//z"},
        {"s3://b/x", "..y/.z/...", "s3://b/x/..y/.z/..."},
        {"s3://b/x", "s3://c/./y", "s3://c/./y"},
        {"a", "s3://c/y", "s3://c/y"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CLT_FREED char *joined = NULL;
        assert_ok(clt_path_join(cases[i][0], cases[i][1], &joined));
        assert_string_equal(joined, cases[i][2]);
    }
}

TEST_BETWEEN(test_path_real, make_folder, drop_folder)
{
    static const char *const cases[][2] = {{"s3://b/x", "s3://b/x"},
                                           {"s3://b/x/", "s3://b/x"},
                                           {"s3://b/x//", "s3://b/x"},
                                           {"s3://b/", "s3://b"},
                                           {"s3://", "s3://"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CLT_FREED char *real = clt_path_real(cases[i][0]);
        assert_string_equal(real, cases[i][1]);
    }
    assert_null(clt_path_real(in_folder("none")));
}

/* A folder of the name "s3:" is never made. */
TEST_BETWEEN(test_results_are_local, make_folder, drop_folder)
{
    static const char path[] = "s3://bucket/key";
    int fd = 7;
    bool created;
    char here[4096];
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(clt_mkdir_p(path), CLT_EUSAGE);
    assert_non_null(strstr(clt_error_text(), "results are written to a disk of this machine"));
    assert_int_equal(clt_mkdir_possible(path), CLT_EUSAGE);
    assert_int_equal(clt_own_file_check(path), CLT_EUSAGE);
    assert_int_equal(clt_own_file_write(path, "x", 1), CLT_EUSAGE);
    assert_int_equal(clt_own_file_append(path, &fd), CLT_EUSAGE);
    assert_int_equal(fd, -1);
    assert_int_equal(clt_own_file_create(path, &fd), CLT_EUSAGE);
    assert_int_equal(clt_file_write(path, "x", 1), CLT_EUSAGE);
    assert_int_equal(clt_file_can_write(path), CLT_EUSAGE);
    assert_int_equal(clt_file_create(path, "x", 1, &created), CLT_EUSAGE);
    assert_int_equal(entries(folder), 0);
    assert_int_equal(chdir(here), 0);
}

/* A failed open leaves no descriptor number in the result: by the time of the close, that number may belong
 * to another file. */
TEST_BETWEEN(test_open_fails, make_folder, drop_folder)
{
    struct stat info;
    int fd = 7;
    assert_int_equal(clt_open_read(folder, CLT_EDATA, &fd, &info), CLT_EDATA);
    assert_non_null(strstr(clt_error_text(), "it is a folder"));
    assert_int_equal(fd, -1);
    fd = 7;
    assert_int_equal(clt_open_read(in_folder("none"), CLT_EDATA, &fd, &info), CLT_EDATA);
    assert_int_equal(fd, -1);
}

TEST_BETWEEN(test_lock, make_folder, drop_folder)
{
    clt_lock *lock = NULL, *second = NULL;
    int to_parent[2], to_child[2];
    char byte = 0;
    assert_int_equal(pipe(to_parent), 0);
    assert_int_equal(pipe(to_child), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        /* Holds the lock until told to let go. */
        close(to_child[1]);
        bool good = clt_lock_acquire(in_folder("lock"), &lock) == CLT_OK;
        good = write(to_parent[1], "x", 1) == 1 && good;
        good = read(to_child[0], &byte, 1) == 1 && good;
        clt_lock_release(lock);
        _exit(good ? 0 : 1);
    }
    assert_int_equal(read(to_parent[0], &byte, 1), 1);
    assert_int_equal(clt_lock_acquire(in_folder("lock"), &lock), CLT_ESTORAGE);
    assert_null(lock);
    char holder[320], host[256] = {0};
    assert_int_equal(gethostname(host, sizeof host - 1), 0);
    (void)snprintf(holder, sizeof holder, "held by process %ld on host %s", (long)child, host);
    assert_non_null(strstr(clt_error_text(), holder));
    assert_int_equal(write(to_child[1], "x", 1), 1);
    int result = 1;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
    for (int i = 0; i < 2; i++) {
        close(to_parent[i]);
        close(to_child[i]);
    }
    assert_false(clt_file_exists(in_folder("lock")));
    /* Free again; the process that holds the lock cannot take it a second time either. */
    assert_ok(clt_lock_acquire(in_folder("lock"), &lock));
    assert_int_equal(clt_lock_acquire(in_folder("lock"), &second), CLT_ESTORAGE);
    assert_null(second);
    bool taken = false;
    assert_ok(clt_lock_is_taken(in_folder("lock"), &taken));
    assert_true(taken);
    clt_lock_release(lock);
    clt_lock_release(NULL);
    assert_ok(clt_lock_is_taken(in_folder("lock"), &taken));
    assert_false(taken);
    /* A lock file left by a process that died blocks nobody. */
    put("lock", "process 1 on host gone\n", 23);
    assert_ok(clt_lock_is_taken(in_folder("lock"), &taken));
    assert_false(taken);
    assert_int_equal(clt_lock_is_taken(in_folder("lock/inside"), &taken), CLT_ESTORAGE);
    assert_ok(clt_lock_acquire(in_folder("lock"), &lock));
    clt_lock_release(lock);
    assert_int_equal(clt_lock_acquire(in_folder("no/lock"), &lock), CLT_ESTORAGE);
}

/* Many processes take and release: never two at once. */
TEST_BETWEEN(test_lock_contention, make_folder, drop_folder)
{
    enum { CHILDREN = 4, TURNS = 30 };
    put("counter", "\0\0\0\0", 4);
    pid_t children[CHILDREN];
    for (int c = 0; c < CHILDREN; c++) {
        children[c] = fork();
        assert_true(children[c] >= 0);
        if (children[c] != 0)
            continue;
        int fd = open(in_folder("counter"), O_RDWR);
        for (int turn = 0; turn < TURNS;) {
            clt_lock *lock = NULL;
            if (clt_lock_acquire(in_folder("lock"), &lock) != CLT_OK) {
                usleep(50);
                continue;
            }
            int32_t count = 0;
            if (pread(fd, &count, 4, 0) != 4)
                _exit(1);
            usleep(20);
            count++;
            if (pwrite(fd, &count, 4, 0) != 4)
                _exit(1);
            clt_lock_release(lock);
            turn++;
        }
        _exit(0);
    }
    for (int c = 0; c < CHILDREN; c++) {
        int result = 1;
        assert_int_equal(waitpid(children[c], &result, 0), children[c]);
        assert_int_equal(result, 0);
    }
    int32_t expected = CHILDREN * TURNS;
    check_read("counter", false, &expected, 4);
}
