/* SPDX-License-Identifier: Apache-2.0
 *
 * Building programs: several at a time, with errors that do not depend on the order of threads, and the cache
 * of binaries: damaged files, other drivers, folders that others may write to, full disks, several processes.
 * The cache is switched on for the machine's default device, whatever its driver does.
 * ctest-labels: quick ctest-cost: 17 */
#include "tests/unit/cl/cl_test.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "cl/device/internal.h"
#include "cl/program/build_turn.h"
#include "cl/program/builders.h"
#include "cl/program/program_internal.h"
#include "engine/base/hash.h"

static char folder[64], cache[80], programs[96];

static void fresh_cache(void)
{
    static int number;
    snprintf(cache, sizeof cache, "%s/cache%d", folder, number++);
    snprintf(programs, sizeof programs, "%s/programs", cache);
    setenv("CLTRAIN_CACHE_DIR", cache, 1);
}

/* Names of the kept binaries; how many there are. */
static int kept(char names[][300], int most)
{
    int count = 0;
    DIR *dir = opendir(programs);
    for (struct dirent *e = dir ? readdir(dir) : NULL; e != NULL; e = readdir(dir)) {
        if (strstr(e->d_name, ".program") == NULL)
            continue;
        if (count < most)
            snprintf(names[count], 300, "%s/%.150s", programs, e->d_name);
        count++;
    }
    if (dir)
        closedir(dir);
    return count;
}

/* Runs kernel `good` of a program: 5 becomes 5 * factor. */
static void check_good(ocl_device *device, ocl_program *program, int factor)
{
    cl_int code, value = 5;
    cl_ulong offset = 0;
    cl_kernel kernel = clCreateKernel(program->program, "good", &code);
    assert_int_equal(code, CL_SUCCESS);
    cl_mem mem = clCreateBuffer(device->context, CL_MEM_COPY_HOST_PTR, sizeof value, &value, &code);
    size_t one = 1;
    assert_int_equal(clSetKernelArg(kernel, 0, sizeof mem, &mem), CL_SUCCESS);
    assert_int_equal(clSetKernelArg(kernel, 1, sizeof offset, &offset), CL_SUCCESS);
    assert_int_equal(clEnqueueNDRangeKernel(device->queue[0], kernel, 1, NULL, &one, &one, 0, NULL, NULL), 0);
    assert_int_equal(
        clEnqueueReadBuffer(device->queue[0], mem, CL_TRUE, 0, sizeof value, &value, 0, NULL, NULL), 0);
    assert_int_equal(value, 5 * factor);
    clReleaseMemObject(mem);
    clReleaseKernel(kernel);
}

/* Opens the device, builds "good" once, checks where it came from, closes. */
static void build_good(int factor, uint64_t loaded, uint64_t refused)
{
    CLT_SCOPED(ocl_device) *device = test_open(false);
    ocl_program *program;
    char options[32];
    ocl_counters before = ocl_device_counters(device);
    snprintf(options, sizeof options, "-DFACTOR=%d", factor);
    assert_ok(ocl_program_get(device, "good", options, &program));
    ocl_counters after = ocl_device_counters(device);
    assert_int_equal(after.programs_built - before.programs_built, 1);
    assert_int_equal(after.programs_loaded - before.programs_loaded, loaded);
    assert_int_equal(after.binaries_refused - before.binaries_refused, refused);
    check_good(device, program, factor);
}

/* The path of the file of `good`, since a test must know which file it damages: probes are kept, too. */
static void good_file(char path[300])
{
    char names[64][300];
    int found = 0, count = kept(names, 64);
    assert_in_range(count, 1, 64);
    for (int i = 0; i < count; i++) {
        CLT_FREED char *data = NULL;
        size_t size;
        assert_ok(clt_file_read(names[i], false, 0, CLT_ESTORAGE, &data, &size));
        for (size_t at = 0; at + 16 < size; at++) {
            if (memcmp(data + at, "options -cl-std=", 16) == 0) {
                if (strstr(data + at, "-DFACTOR=2") != NULL) {
                    memcpy(path, names[i], 300);
                    found++;
                }
                break;
            }
        }
    }
    assert_int_equal(found, 1);
}

TEST(test_kept)
{
    char path[300];
    struct stat info;
    fresh_cache();
    build_good(2, 0, 0);
    build_good(2, 1, 0);
    build_good(3, 0, 0); /* other options */
    build_good(3, 1, 0);
    good_file(path);
    assert_int_equal(stat(programs, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
    test_write_source(folder, "good.cl",
                      "// two\n#ifdef FACTOR\n#endif\n__kernel void good(__global int *x, ulong o) { x[o] = "
                      "FACTOR * 5; }\n");
    build_good(2, 0, 0); /* another source */
    build_good(2, 1, 0);
    test_write_source(
        folder, "good.cl",
        "// one\n#ifdef FACTOR\n#endif\n__kernel void good(__global int *x, ulong o) { x[o] *= FACTOR; }\n");
    build_good(2, 1, 0);
    setenv("CL_CONFIG_OF_A_DRIVER", "1", 1);
    build_good(2, 0, 0);
    unsetenv("CL_CONFIG_OF_A_DRIVER");
    setenv("CLTRAIN_PROGRAM_CACHE", "off", 1);
    build_good(2, 0, 0);
    setenv("CLTRAIN_PROGRAM_CACHE", "on", 1);
    build_good(2, 1, 0);
    snprintf(programs, sizeof programs, "%s/named",
             cache); /* the cache's folder given by name: it is empty */
    setenv("CLTRAIN_PROGRAM_CACHE", programs, 1);
    build_good(2, 0, 0);
    build_good(2, 1, 0);
    good_file(path);
    setenv("CLTRAIN_PROGRAM_CACHE", "on", 1);
}

/* Whatever the user's umask lets others do, a kept file is this user's alone, or it would not be trusted. */
TEST(test_umask)
{
    char path[300];
    struct stat info;
    static const mode_t masks[] = {002, 0, 077};
    for (size_t i = 0; i < sizeof masks / sizeof masks[0]; i++) {
        fresh_cache();
        mode_t before = umask(masks[i]);
        build_good(2, 0, 0);
        build_good(2, 1, 0);
        umask(before);
        good_file(path);
        assert_int_equal(stat(path, &info), 0);
        assert_int_equal(info.st_mode & 0777, 0600);
    }
}

TEST(test_other_driver)
{
    fresh_cache();
    build_good(2, 0, 0);
    ocl_device *device = test_open(false);
    ocl_program *program;
    ocl_binary_cache_close(device);
    snprintf(device->desc.driver, sizeof device->desc.driver, "another one");
    ocl_binary_cache_open(device);
    uint64_t loaded = ocl_device_counters(device).programs_loaded;
    assert_ok(ocl_program_get(device, "good", "-DFACTOR=2", &program));
    assert_int_equal(ocl_device_counters(device).programs_loaded, loaded);
    ocl_device_close(device);
    build_good(2, 1, 0);
}

/* A byte at any place, a cut, a tail: refused, counted, built from source, replaced. */
TEST(test_damage)
{
    char path[300], *data;
    size_t size;
    fresh_cache();
    build_good(2, 0, 0);
    good_file(path);
    assert_ok(clt_file_read(path, false, 0, CLT_ESTORAGE, &data, &size));
    size_t places[] = {0, 9, 17, 25, 40, size / 2, size - 1};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        data[places[i]] = (char)(data[places[i]] ^ 0x10);
        assert_ok(clt_file_write(path, data, size));
        data[places[i]] = (char)(data[places[i]] ^ 0x10);
        build_good(2, 0, 1);
        build_good(2, 1, 0);
    }
    size_t cuts[] = {0, 1, 31, 32, size / 3, size - 1};
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        assert_ok(clt_file_write(path, data, cuts[i]));
        build_good(2, 0, 1);
        build_good(2, 1, 0);
    }
    char *longer = malloc(size + 1);
    assert_non_null(longer);
    memcpy(longer, data, size);
    longer[size] = 0;
    assert_ok(clt_file_write(path, longer, size + 1));
    build_good(2, 0, 1);
    free(longer);
    free(data);
}

/* A file with a correct hash whose binary the driver refuses. */
TEST(test_refused_by_driver)
{
    char path[300], *data;
    size_t size;
    uint64_t words[4];
    fresh_cache();
    build_good(2, 0, 0);
    good_file(path);
    assert_ok(clt_file_read(path, false, 0, CLT_ESTORAGE, &data, &size));
    memcpy(words, data, sizeof words);
    memset(data + size - words[2], 0x5a, words[2]);
    words[3] = clt_hash64(data + sizeof words, size - sizeof words);
    memcpy(data, words, sizeof words);
    assert_ok(clt_file_write(path, data, size));
    free(data);
    build_good(2, 0, 1);
    build_good(2, 1, 0);
}

TEST(test_untrusted)
{
    char path[300], other[300];
    fresh_cache();
    build_good(2, 0, 0);
    assert_int_equal(chmod(programs, 0777), 0);
    build_good(2, 0, 0); /* others may have written there */
    assert_int_equal(chmod(programs, 0700), 0);
    build_good(2, 1, 0);
    good_file(path);
    assert_int_equal(chmod(path, 0666), 0);
    build_good(2, 0, 0);
    build_good(2, 1, 0);
    snprintf(other, sizeof other, "%s/elsewhere", folder);
    assert_int_equal(rename(path, other), 0);
    assert_int_equal(symlink(other, path), 0);
    build_good(2, 0, 0); /* not through a link; the file takes its place */
    build_good(2, 1, 0);
}

TEST(test_no_folder)
{
    setenv("CLTRAIN_CACHE_DIR", "/proc/self/no-folder-can-be-made-here", 1);
    build_good(2, 0, 0);
    fresh_cache();
    assert_ok(clt_mkdir_p(cache));
    assert_ok(clt_file_write(programs, "a file", 6));
    build_good(2, 0, 0);
}

/* No file may grow, as on a full disk. */
TEST(test_full_disk)
{
    struct rlimit before, none;
    char names[4][300];
    fresh_cache();
    CLT_SCOPED(ocl_device) *device = test_open(false);
    ocl_program *program;
    int count = kept(names, 4);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    none = before;
    none.rlim_cur = 100;
    signal(SIGXFSZ, SIG_IGN);
    cl_int code; /* the driver may need files itself: the limit holds for our part of the work alone */
    assert_ok(ocl_program_get(device, "good", "-DFACTOR=7", &program));
    count = kept(names, 4) - count;
    assert_int_equal(count, 1);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    ocl_binary_store(device, "// no such source\n", "", program->program);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    count = kept(names, 4);
    ocl_binary_store(device, "// nor this\n", "", program->program); /* it is not tried again */
    assert_int_equal(kept(names, 4), count);
    cl_kernel kernel = clCreateKernel(program->program, "good", &code);
    assert_int_equal(code, CL_SUCCESS);
    clReleaseKernel(kernel);
}

static void put(const char *name, size_t size, int age)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", cache, name);
    char *data = calloc(1, size);
    assert_non_null(data);
    assert_ok(clt_file_write(path, data, size));
    free(data);
    struct timespec times[2] = {{.tv_sec = time(NULL) - age}, {.tv_sec = time(NULL) - age}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static bool is_there(const char *name)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", cache, name);
    return clt_file_exists(path);
}

TEST(test_trim)
{
    fresh_cache();
    assert_ok(clt_mkdir_p(cache));
    put("0.program", 1000, 50);
    put("1.program", 1000, 400);
    put("2.program", 1000, 300);
    put("3.program", 1000, 10);
    put("somebody-elses-file", 100000, 10000);
    put("4.program.tmp-77", 10, 10000);
    put("5.program.tmp-78", 10, 10);
    put("6.built", 1, 89 * 86400); /* marks are kept for 90 days, whatever room there is */
    put("7.built", 1, 91 * 86400);
    put("8.program", 10, 91 * 86400);
    ocl_binary_cache_trim(cache, 100000);
    assert_true(is_there("6.built"));
    assert_false(is_there("7.built"));
    assert_true(is_there("8.program"));
    assert_true(is_there("1.program"));
    assert_false(is_there("4.program.tmp-77"));
    assert_true(is_there("5.program.tmp-78")); /* its writer may still be working */
    ocl_binary_cache_trim(cache, 2500);
    assert_false(is_there("1.program"));
    assert_false(is_there("2.program"));
    assert_true(is_there("0.program"));
    assert_true(is_there("3.program"));
    ocl_binary_cache_trim(cache, 0);
    assert_false(is_there("3.program"));
    assert_true(is_there("6.built"));
    assert_true(is_there("somebody-elses-file"));
    ocl_binary_cache_trim("/no/such/folder", 0);
}

/* Runs this program again as a process that only builds. Returns how many programs it compiled. */
static int child(void)
{
    CLT_SCOPED(ocl_device) *device = test_open(false);
    ocl_program *program;
    for (int i = 10; i < 14; i++) {
        char options[32];
        snprintf(options, sizeof options, "-DFACTOR=%d", i);
        assert_ok(ocl_program_get(device, "good", options, &program));
        check_good(device, program, i);
    }
    ocl_counters counters = ocl_device_counters(device);
    return (int)(counters.programs_built - counters.programs_loaded);
}

/* Each program is compiled by one process, and the others load its binary. PoCL 3.1 gives broken binaries, or
 * ends the process, when two processes compile the same program. */
TEST(test_processes)
{
    enum { CHILDREN = 4 };
    extern char **environ;
    char *arguments[] = {"test_programs", "child", NULL};
    pid_t pids[CHILDREN];
    int compiled = 0;
    fresh_cache();
    for (int i = 0; i < CHILDREN; i++)
        assert_int_equal(posix_spawn(&pids[i], "/proc/self/exe", NULL, NULL, arguments, environ), 0);
    for (int i = 0; i < CHILDREN; i++) {
        int end = -1;
        assert_int_equal(waitpid(pids[i], &end, 0), pids[i]);
        assert_true(WIFEXITED(end));
        compiled += WEXITSTATUS(end);
    }
    assert_int_equal(compiled, 4);
    for (int i = 10; i < 14; i++)
        build_good(i, 1, 0);
}

/* Several at a time */

typedef struct seen {
    pthread_t thread;
    int calls, last_done, total;
} seen;

static void progress(void *context, int done, int total, const char *what)
{
    seen *s = context;
    assert_true(pthread_equal(s->thread, pthread_self()));
    assert_non_null(what);
    assert_in_range(done, s->last_done, total);
    s->last_done = done;
    s->total = total;
    s->calls++;
}

static ocl_device *open_parallel(bool parallel)
{
    ocl_device *device = test_open(false);
    device->desc.quirks &= ~(uint32_t)OCL_QUIRK_SERIAL_BUILDS;
    if (!parallel)
        device->desc.quirks |= OCL_QUIRK_SERIAL_BUILDS;
    return device;
}

TEST(test_parallel)
{
    enum { COUNT = 12 };
    char options[COUNT][32];
    ocl_program_request requests[COUNT];
    setenv("CLTRAIN_PROGRAM_CACHE", "off", 1);
    ocl_device *device = open_parallel(true);
    ocl_program *program;
    size_t failed;
    for (int i = 0; i < COUNT; i++) {
        snprintf(options[i], sizeof options[i], "-DFACTOR=%d", 100 + i);
        requests[i] = (ocl_program_request){.family = "good", .options = options[i]};
    }
    assert_ok(ocl_program_get(device, "good", options[3], &program)); /* is there before */
    uint64_t before = ocl_device_counters(device).programs_built;
    seen s = {.thread = pthread_self()};
    assert_ok(ocl_programs_build(device, requests, COUNT, progress, &s, &failed));
    assert_int_equal(ocl_device_counters(device).programs_built - before, COUNT - 1);
    assert_int_equal(s.total, COUNT - 1);
    assert_true(s.calls > 0);
    for (int i = 0; i < COUNT; i++) {
        assert_true(ocl_program_cached(device, "good", options[i]));
        assert_ok(ocl_program_get(device, "good", options[i], &program));
        check_good(device, program, 100 + i);
    }
    assert_int_equal(ocl_device_counters(device).programs_built - before, COUNT - 1);
    ocl_program_info *list;
    size_t count;
    assert_ok(ocl_device_programs(device, &list, &count));
    int found = 0;
    for (size_t i = 0; i < count; i++) {
        assert_true(list[i].seconds > 0.0);
        assert_false(list[i].from_cache);
        found += strcmp(list[i].family, "good") == 0;
    }
    assert_int_equal(found, COUNT);
    free(list);
    assert_ok(ocl_programs_build(device, requests, COUNT, progress, &s, &failed));
    assert_ok(ocl_programs_build(device, requests, 0, progress, &s, &failed));
    ocl_device_close(device);
    setenv("CLTRAIN_PROGRAM_CACHE", "on", 1);
}

/* Child processes compile, and this process loads the results; the next process needs no children. */
TEST(test_in_children)
{
    enum { COUNT = 6 };
    char options[COUNT][32];
    ocl_program_request requests[COUNT];
    ocl_program *program;
    size_t failed;
    fresh_cache();
    setenv("CLTRAIN_BUILDERS", "2", 1);
    for (int i = 0; i < COUNT; i++) {
        snprintf(options[i], sizeof options[i], "-DFACTOR=%d", 300 + i);
        requests[i] = (ocl_program_request){.family = "good", .options = options[i]};
    }
    for (int round = 0; round < 2; round++) {
        CLT_SCOPED(ocl_device) *device = open_parallel(false);
        assert_ok(ocl_programs_build(device, requests, COUNT, NULL, NULL, &failed));
        ocl_counters counters = ocl_device_counters(device);
        assert_int_equal(counters.programs_in_children, round == 0 ? COUNT : 0);
        assert_int_equal(counters.programs_new, round == 0 ? COUNT : 0);
        assert_int_equal(counters.programs_loaded, COUNT); /* what the children kept */
        for (int i = 0; i < COUNT; i++) {
            assert_ok(ocl_program_get(device, "good", options[i], &program));
            check_good(device, program, 300 + i);
        }
    }
    unsetenv("CLTRAIN_BUILDERS");
}

typedef struct others_turn {
    ocl_device *device, *other;
    const ocl_program_request *requests;
    uint64_t hash; /* of the first program, which another process is building */
    int turns, calls;
} others_turn;

/* Called when only the first program is left to build: the other process finishes it here. */
static void finish_turn(void *context, int done, int total, const char *family)
{
    others_turn *o = context;
    ocl_program *program;
    (void)family;
    if (done != total - 1)
        return;
    o->calls++;
    assert_false(ocl_program_cached(o->device, "good", o->requests[0].options));
    for (int i = 1; i < total; i++)
        assert_true(ocl_program_cached(o->device, "good", o->requests[i].options));
    assert_ok(ocl_program_get(o->other, "good", o->requests[0].options, &program));
}

/* A program that another process is building comes last, and its binary is then loaded. */
TEST(test_turns)
{
    const ocl_program_request requests[] = {{.family = "good", .options = "-DFACTOR=401"},
                                            {.family = "good", .options = "-DFACTOR=402"},
                                            {.family = "good", .options = "-DFACTOR=403"}};
    size_t failed;
    fresh_cache();
    setenv("CLTRAIN_BUILDERS", "1", 1);
    others_turn o = {.device = open_parallel(true), .other = open_parallel(true), .requests = requests};
    o.turns = ocl_binary_turns(o.other); /* so that o.other builds in the turn taken here */
    assert_true(o.turns >= 0);
    assert_false(ocl_program_known(o.device, "good", requests[0].options, &o.hash));
    assert_false(ocl_turn_is_taken(ocl_binary_turns(o.device), o.hash));
    assert_true(ocl_turn_take(o.turns, o.hash));
    assert_true(ocl_turn_is_taken(ocl_binary_turns(o.device), o.hash));
    assert_false(ocl_turn_is_taken(ocl_binary_turns(o.device), o.hash + 4));
    uint64_t loaded = ocl_device_counters(o.device).programs_loaded;
    assert_ok(ocl_programs_build(o.device, requests, 3, finish_turn, &o, &failed));
    assert_int_equal(o.calls, 1);
    assert_int_equal(ocl_device_counters(o.device).programs_loaded - loaded, 1);
    assert_false(ocl_turn_is_taken(ocl_binary_turns(o.device), o.hash)); /* given back */
    assert_false(ocl_turn_is_taken(ocl_binary_turns(o.other), o.hash));
    assert_true(ocl_program_known(o.device, "good", requests[0].options, &o.hash));
    ocl_device_close(o.device);
    ocl_device_close(o.other);
    assert_int_equal(ocl_turns_open("/nonexistent"), -1);
    assert_false(ocl_turn_is_taken(-1, 0) || ocl_turn_take(-1, 0));
    unsetenv("CLTRAIN_BUILDERS");
}

/* Two programs of a list do not build: the first one is always reported, whatever the order of the
 * threads. */
TEST(test_error_in_the_middle)
{
    ocl_program_request requests[] = {
        {.family = "good", .options = "-DFACTOR=201"}, {.family = "good", .options = "-DFACTOR=202"},
        {.family = "good", .options = "-DFACTOR=203"}, {.family = "broken", .options = "-DREASON=1"},
        {.family = "good", .options = "-DFACTOR=204"}, {.family = "broken", .options = "-DREASON=2"},
        {.family = "good", .options = "-DFACTOR=205"}, {.family = "broken", .options = "-DREASON=3"}};
    for (int round = 0; round < 6; round++) {
        CLT_SCOPED(ocl_device) *device = open_parallel(round < 5);
        size_t failed = 99;
        assert_int_equal(ocl_programs_build(device, requests, 8, NULL, NULL, &failed), CLT_EBUILD);
        assert_int_equal(failed, 3);
        assert_contains(clt_error_text(), "-DREASON=1");
        assert_contains(clt_error_text(), "no_such_variable");
        for (int i = 0; i < 3; i++)
            assert_true(ocl_program_cached(device, "good", requests[i].options));
    }
}

FIXTURE(setup)
{
    test_kernel_folder(folder);
    test_write_source(
        folder, "good.cl",
        "// one\n#ifdef FACTOR\n#endif\n__kernel void good(__global int *x, ulong o) { x[o] *= FACTOR; }\n");
    test_write_source(folder, "broken.cl",
                      "#ifdef REASON\n#endif\n__kernel void broken(__global int *x) { x[0] = "
                      "no_such_variable + REASON; }\n");
    setenv("CLTRAIN_PROGRAM_CACHE", "on", 1);
    return 0;
}

FIXTURE(teardown)
{
    return clt_remove_tree(folder) == CLT_OK ? 0 : 1;
}

static void play_child(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "child") == 0)
        exit(child());
}

TEST_PROGRAM(.begin = play_child, .device = true, .set_up = setup, .tear_down = teardown);
