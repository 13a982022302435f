/* SPDX-License-Identifier: Apache-2.0
 *
 * Sets of cores as text, the cores near a PCI device from sysfs, and the binding of threads to cores. */
#include "engine/host/cores.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/files/fileio_error.h"

/* --- sets --- */

static bool has(const clt_cores *cores, int core)
{
    return core < CLT_MOST_CORES && (cores->bit[core / 64] >> (core % 64) & 1);
}

bool clt_cores_read(const char *text, clt_cores *out)
{
    *out = (clt_cores){0};
    while (*text && *text != '\n') {
        char *end;
        long first = strtol(text, &end, 10), last = first;
        if (end == text || first < 0)
            return false;
        if (*end == '-') {
            text = end + 1;
            last = strtol(text, &end, 10);
        }
        if (end == text || last < first || last >= CLT_MOST_CORES)
            return false;
        for (long core = first; core <= last; core++)
            out->bit[core / 64] |= (uint64_t)1 << (core % 64);
        if (*end == ',')
            end++;
        else if (*end && *end != '\n')
            return false;
        text = end;
    }
    return true;
}

const char *clt_cores_print(const clt_cores *cores, char *text, size_t size)
{
    char range[32];
    size_t length = 0;
    text[0] = '\0';
    for (int core = 0; core < CLT_MOST_CORES; core++) {
        int first = core;
        if (!has(cores, core))
            continue;
        while (has(cores, core + 1))
            core++;
        int n =
            snprintf(range, sizeof range, core > first ? "%s%d-%d" : "%s%d", length ? "," : "", first, core);
        if (length + (size_t)n + sizeof "..." > size) {
            (void)snprintf(text + length, size - length, "...");
            break;
        }
        memcpy(text + length, range, (size_t)n + 1);
        length += (size_t)n;
    }
    return text;
}

int clt_cores_count(const clt_cores *cores)
{
    int count = 0;
    for (size_t i = 0; i < sizeof cores->bit / sizeof cores->bit[0]; i++)
        count += __builtin_popcountll(cores->bit[i]);
    return count;
}

void clt_cores_common(const clt_cores *a, const clt_cores *b, clt_cores *out)
{
    for (size_t i = 0; i < sizeof out->bit / sizeof out->bit[0]; i++)
        out->bit[i] = a->bit[i] & b->bit[i];
}

/* --- what the kernel tells --- */

const char *clt_sysfs(void)
{
    const char *own = getenv("CLTRAIN_SYSFS");
    return own && own[0] ? own : "/sys";
}

/* The first line of a file below clt_sysfs(). */
static bool read_line(const char *folder, const char *name, char *text, size_t size)
{
    char path[512];
    int n = snprintf(path, sizeof path, "%s/%s/%s", clt_sysfs(), folder, name);
    FILE *file = n > 0 && (size_t)n < sizeof path ? fopen(path, "re") : NULL;
    bool got = file && fgets(text, (int)size, file);
    if (file)
        (void)fclose(file);
    return got;
}

int clt_numa_nodes(void)
{
    char text[256];
    clt_cores nodes;
    bool got = read_line("devices/system/node", "has_cpu", text, sizeof text) ||
               read_line("devices/system/node", "online", text, sizeof text);
    int count = got && clt_cores_read(text, &nodes) ? clt_cores_count(&nodes) : 0;
    return count > 0 ? count : 1;
}

bool clt_cores_near(const char *pci, clt_cores *out, int *node)
{
    char folder[64], text[4096];
    *out = (clt_cores){0};
    *node = -1;
    if (!pci[0] || snprintf(folder, sizeof folder, "bus/pci/devices/%s", pci) >= (int)sizeof folder)
        return false;
    if (read_line(folder, "numa_node", text, sizeof text))
        *node = atoi(text);
    return read_line(folder, "local_cpulist", text, sizeof text) && clt_cores_read(text, out) &&
           clt_cores_count(out) > 0;
}

/* --- this process --- */

_Static_assert(sizeof(clt_cores) * 8 == CLT_MOST_CORES, "a bit for each core, as the kernel counts them");

bool clt_cores_of_process(clt_cores *out)
{
    *out = (clt_cores){0};
    return sched_getaffinity(getpid(), sizeof *out, (cpu_set_t *)(void *)out) == 0 &&
           clt_cores_count(out) > 0;
}

/* Binds a thread; true also if it has just ended. */
static bool bind_thread(const char *name, const clt_cores *cores)
{
    pid_t thread = (pid_t)strtol(name, NULL, 10);
    return thread <= 0 ||
           sched_setaffinity(thread, sizeof *cores, (const cpu_set_t *)(const void *)cores) == 0 ||
           errno == ESRCH;
}

/* The second pass binds threads that were started during the first pass by threads not yet bound. */
clt_status clt_cores_bind(const clt_cores *cores)
{
    for (int pass = 0; pass < 2; pass++) {
        DIR *threads = opendir("/proc/self/task");
        if (!threads)
            return clt_fail_errno(CLT_EUNSUPPORTED, errno, "binding threads to cores: /proc/self/task");
        int code = 0;
        for (const struct dirent *item; code == 0 && (item = readdir(threads)) != NULL;)
            if (!bind_thread(item->d_name, cores))
                code = errno;
        (void)closedir(threads);
        if (code != 0)
            return clt_fail_errno(CLT_EUNSUPPORTED, code, "binding threads to cores");
    }
    return CLT_OK;
}
