/* SPDX-License-Identifier: Apache-2.0
 *
 * The processors and the memory that this process may really use, and clocks. The C library's counts ignore
 * the limits of containers. Knows nothing of devices; the functions are declared in thread.h. */
#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/thread.h"
#include "engine/host/cgroup.h"

int clt_process_cores(int64_t process)
{
    for (int size = CPU_SETSIZE; size <= 1 << 20; size *= 2) {
        cpu_set_t *set = CPU_ALLOC(size);
        if (!set)
            break;
        size_t bytes = CPU_ALLOC_SIZE(size);
        int code = sched_getaffinity((pid_t)process, bytes, set);
        int count = code == 0 ? CPU_COUNT_S(bytes, set) : 0;
        bool too_small = code != 0 && errno == EINVAL;
        CPU_FREE(set);
        if (count > 0)
            return count;
        if (!too_small)
            break;
    }
    return 0;
}

/* Uses the affinity mask of the main thread: the calling thread may be pinned to one processor. */
static int affinity_count(void)
{
    int count = clt_process_cores(getpid());
    if (count > 0)
        return count;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int)online : 1;
}

int clt_cpu_count(void)
{
    int count = affinity_count();
    double quota = clt_cgroup_cpus("");
    if (quota > 0 && ceil(quota) < count)
        count = (int)ceil(quota);
    return count > 0 ? count : 1;
}

static uint64_t system_available(void)
{
    FILE *file = fopen("/proc/meminfo", "re");
    unsigned long long kib = 0;
    bool got = false;
    char line[256];
    while (file && !got && fgets(line, sizeof line, file))
        got = sscanf(line, "MemAvailable: %llu kB", &kib) == 1;
    if (file)
        (void)fclose(file);
    if (got)
        return (uint64_t)kib * 1024;
    long pages = sysconf(_SC_AVPHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
}

/* Bytes that RLIMIT_AS still allows; UINT64_MAX without a limit. */
static uint64_t address_space_left(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return UINT64_MAX;
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file) {
        if (fscanf(file, "%llu", &pages) != 1)
            pages = 0;
        (void)fclose(file);
    }
    long page = sysconf(_SC_PAGESIZE);
    uint64_t used = (uint64_t)pages * (uint64_t)(page > 0 ? page : 4096);
    return used < limit.rlim_cur ? (uint64_t)limit.rlim_cur - used : 0;
}

unsigned long long clt_memory_available(void)
{
    uint64_t least = system_available();
    uint64_t other = address_space_left();
    if (other < least)
        least = other;
    if (clt_cgroup_memory("", &other) && other < least)
        least = other;
    return least;
}

static double read_clock(clockid_t clock)
{
    struct timespec time;
    if (clock_gettime(clock, &time) != 0)
        return 0;
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

double clt_now(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

double clt_wall_time(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double clt_thread_cpu(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

double clt_process_cpu(void)
{
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}
