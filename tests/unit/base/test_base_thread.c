/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads, control group limits on made-up /proc and /sys trees of both versions, and the clocks. Knows only
 * engine/base. ctest-labels: quick */
#include "tests/unit/test.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "engine/base/mem.h"
#include "engine/base/thread.h"
#include "engine/files/fileio.h"
#include "engine/host/cgroup.h"

typedef struct seen_by_thread {
    char name[32];
    bool interrupt_blocked, segv_blocked, ran;
} seen_by_thread;

static void *look_around(void *context)
{
    seen_by_thread *seen = context;
    sigset_t set;
    pthread_sigmask(SIG_BLOCK, NULL, &set);
    seen->interrupt_blocked = sigismember(&set, SIGINT) == 1 && sigismember(&set, SIGTERM) == 1;
    seen->segv_blocked = sigismember(&set, SIGSEGV) == 1;
    seen->ran = true;
    return NULL;
}

TEST(test_thread)
{
    seen_by_thread seen = {0};
    clt_thread *thread = NULL;
    sigset_t set;
    pthread_sigmask(SIG_BLOCK, NULL, &set);
    int blocked_before = sigismember(&set, SIGINT);
    assert_ok(clt_thread_start(&thread, "a name that is longer than fifteen", look_around, &seen));
    clt_thread_join(thread);
    clt_thread_join(NULL);
    assert_true(seen.ran);
    /* Signals that stop the program go to the main thread, whose own signal mask does not change. */
    assert_true(seen.interrupt_blocked);
    assert_false(seen.segv_blocked);
    pthread_sigmask(SIG_BLOCK, NULL, &set);
    assert_int_equal(sigismember(&set, SIGINT), blocked_before);
}

TEST(test_cgroup_v2)
{
    uint64_t left = 5;
    assert_true(clt_cgroup_cpus(test_folder()) == 0);
    assert_false(clt_cgroup_memory(test_folder(), &left));
    assert_int_equal(left, 5);
    put_text("proc/self/cgroup", "0::/user.slice/job\n");
    put_text("proc/self/mountinfo",
             "22 1 0:20 / / rw - ext4 /dev/root rw\n"
             "30 22 0:26 / /sys/fs/cg\\040two rw,nosuid shared:4 - cgroup2 cgroup2 rw\n");
    put_text("sys/fs/cg two/user.slice/job/cpu.max", "max 100000\n");
    put_text("sys/fs/cg two/user.slice/job/memory.max", "max\n");
    put_text("sys/fs/cg two/user.slice/job/memory.current", "4000\n");
    assert_true(clt_cgroup_cpus(test_folder()) == 0);
    assert_false(clt_cgroup_memory(test_folder(), &left));
    /* A limit of an outer level binds too. */
    put_text("sys/fs/cg two/user.slice/cpu.max", "250000 100000\n");
    assert_true(clt_cgroup_cpus(test_folder()) == 2.5);
    put_text("sys/fs/cg two/user.slice/job/cpu.max", "50000 100000\n");
    assert_true(clt_cgroup_cpus(test_folder()) == 0.5);
    put_text("sys/fs/cg two/user.slice/memory.max", "1000000\n");
    put_text("sys/fs/cg two/user.slice/memory.current", "400000\n");
    put_text("sys/fs/cg two/user.slice/memory.stat",
             "anon 5\ninactive_file 100000\nactive_file 50000\nfile 9\n");
    assert_true(clt_cgroup_memory(test_folder(), &left));
    assert_int_equal(left, 750000);
    put_text("sys/fs/cg two/user.slice/job/memory.max", "3000\n");
    assert_true(clt_cgroup_memory(test_folder(), &left));
    assert_int_equal(left, 0); /* over its limit */
    put_text("sys/fs/cg two/user.slice/job/memory.max", "900000\n");
    put_text("sys/fs/cg two/user.slice/job/memory.high", "604000\n");
    assert_true(clt_cgroup_memory(test_folder(), &left));
    assert_int_equal(left, 600000);
}

TEST(test_cgroup_v1)
{
    uint64_t left = 0;
    put_text("proc/self/cgroup", "5:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n1:name=systemd:/\n0::/\n");
    /* A container that sees only its own part of each hierarchy. */
    put_text("proc/self/mountinfo",
             "40 1 0:30 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro master:9 - cgroup cgroup rw,cpu,cpuacct\n"
             "41 1 0:31 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
    put_text("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
    put_text("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    put_text("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put_text("sys/fs/cgroup/memory/memory.usage_in_bytes", "500\n");
    assert_true(clt_cgroup_cpus(test_folder()) == 0);
    assert_false(clt_cgroup_memory(test_folder(), &left));
    put_text("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "300000\n");
    assert_true(clt_cgroup_cpus(test_folder()) == 3.0);
    put_text("sys/fs/cgroup/memory/memory.limit_in_bytes", "2000\n");
    put_text("sys/fs/cgroup/memory/memory.stat",
             "inactive_file 400\ntotal_inactive_file 100\ntotal_active_file 20\n");
    assert_true(clt_cgroup_memory(test_folder(), &left));
    assert_int_equal(left, 2000 - (500 - 120));
    /* The whole hierarchy mounted: the group's own folder counts, and its parents. */
    put_text("proc/self/mountinfo", "41 1 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
    put_text("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "1000\n");
    put_text("sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes", "300\n");
    assert_true(clt_cgroup_memory(test_folder(), &left));
    assert_int_equal(left, 700);
    assert_true(clt_cgroup_cpus(test_folder()) == 0);
    put_text("sys/fs/cgroup/memory/docker/memory.limit_in_bytes", "800\n");
    put_text("sys/fs/cgroup/memory/docker/memory.usage_in_bytes", "500\n");
    assert_true(clt_cgroup_memory(test_folder(), &left));
    assert_int_equal(left, 300);
}

TEST(test_cgroup_garbage)
{
    uint64_t left;
    put_text("proc/self/cgroup", "\n:\n::\nnonsense\n0::/../..\n");
    put_text("proc/self/mountinfo", " - \n - cgroup2\nx - cgroup2 a b\n1 2 3 / - cgroup2 c rw\n");
    assert_true(clt_cgroup_cpus(test_folder()) == 0);
    assert_false(clt_cgroup_memory(test_folder(), &left));
    put_text("proc/self/mountinfo", "1 2 3 / /cg rw - cgroup2 c rw\n");
    put_text("cg/cpu.max", "abc def\n");
    put_text("cg/memory.max", "-5\n");
    assert_true(clt_cgroup_cpus(test_folder()) == 0);
    assert_false(clt_cgroup_memory(test_folder(), &left));
    put_text("cg/cpu.max", "100000 0\n");
    assert_true(clt_cgroup_cpus(test_folder()) == 0);
}

TEST(test_cpu_count)
{
    cpu_set_t set, one;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    int count = clt_cpu_count();
    assert_in_range(count, 1, CPU_COUNT(&set));
    /* In a child with a mask of one processor. */
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int cpu = 0;
        while (!CPU_ISSET(cpu, &set))
            cpu++;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        _exit(sched_setaffinity(0, sizeof one, &one) != 0 ? 90 : clt_cpu_count());
    }
    int result = 0;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result));
    assert_int_equal(WEXITSTATUS(result), 1);
}

TEST(test_memory_available)
{
    unsigned long long bytes = clt_memory_available();
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    assert_true(bytes > 1u << 20);
    assert_true(bytes <= (unsigned long long)pages * (unsigned long long)page);
    /* In a child with an address space that is nearly used up. */
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        unsigned long long used = 0;
        FILE *file = fopen("/proc/self/statm", "r");
        if (!file || fscanf(file, "%llu", &used) != 1)
            _exit(90);
        (void)fclose(file);
        rlim_t limit = (rlim_t)(used * (unsigned long long)page + (4u << 20));
        struct rlimit space = {limit, limit};
        if (setrlimit(RLIMIT_AS, &space) != 0)
            _exit(91);
        unsigned long long left = clt_memory_available();
        _exit(left > 0 && left <= (4u << 20) ? 0 : 1);
    }
    int result = 0;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result));
    assert_int_equal(WEXITSTATUS(result), 0);
}

static void *burn(void *context)
{
    double *seconds = context, start = clt_thread_cpu();
    while (clt_thread_cpu() - start < 0.03)
        continue;
    *seconds = clt_thread_cpu();
    return NULL;
}

TEST(test_clocks)
{
    double now = clt_now(), mine = clt_thread_cpu(), theirs = 0;
    clt_thread *thread = NULL;
    assert_ok(clt_thread_start(&thread, "burn", burn, &theirs));
    clt_thread_join(thread);
    assert_true(clt_now() - now > 0.02);
    assert_true(theirs >= 0.03);
    assert_true(clt_thread_cpu() - mine < theirs);
}

/* Every index once, whatever the number of ranges; small work stays with the caller. */
static void count_each(void *context, uint64_t first, uint64_t last)
{
    unsigned char *hits = context;
    for (uint64_t i = first; i < last; i++)
        hits[i]++;
}

static void remember_thread(void *context, uint64_t first, uint64_t last)
{
    if (last > first)
        *(pthread_t *)context = pthread_self();
}

TEST(test_ranges)
{
    enum { MOST = 1000 };
    for (uint64_t count = 0; count <= MOST; count += 37)
        for (uint64_t least = 1; least <= MOST; least *= 10) {
            unsigned char hits[MOST + 1] = {0};
            clt_for_ranges(count, least, "ranges", count_each, hits);
            for (uint64_t i = 0; i <= MOST; i++)
                assert_int_equal(hits[i], i < count);
        }
    pthread_t who = {0};
    clt_for_ranges(10, 11, "ranges", remember_thread, &who);
    assert_true(pthread_equal(who, pthread_self()));
}

TEST_PROGRAM(.fresh_folder = true);
