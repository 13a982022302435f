/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds runs by the links of /proc/PID/fd, and reads the ends of their metrics.jsonl. Knows nothing of
 * presentation. */
#include "engine/report/read/live_runs.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/text.h"
#include "engine/base/thread.h"

#define TAIL 65536 /* last bytes of metrics.jsonl, which are searched for the newest step */

/* The newest line of a step among complete lines. */
static void newest_step(char *text, size_t size, clt_metrics_line *out)
{
    *out = (clt_metrics_line){.step = -1};
    while (size > 0 && text[size - 1] != '\n')
        size--;
    while (size > 0) {
        size_t end = size - 1, begin = end;
        while (begin > 0 && text[begin - 1] != '\n')
            begin--;
        clt_metrics_line line;
        if (clt_metrics_line_read(text + begin, end - begin, &line) == CLT_OK && line.kind == CLT_LINE_STEP) {
            *out = line;
            return;
        }
        size = begin;
    }
}

/* False: the folder is not a run folder. */
static bool read_run(clt_live_run *run)
{
    char path[sizeof run->folder + 32], text[TAIL];
    struct stat info;
    (void)snprintf(path, sizeof path, "%s/metrics.jsonl", run->folder);
    CLT_CLOSED int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
        return false;
    off_t from = info.st_size > TAIL ? info.st_size - TAIL : 0;
    ssize_t size = pread(fd, text, sizeof text, from);
    newest_step(text, size > 0 ? (size_t)size : 0, &run->newest);
    run->quiet_s = clt_wall_time() - (double)info.st_mtim.tv_sec - (double)info.st_mtim.tv_nsec * 1e-9;
    return true;
}

/* Looks through the open files of a process for the lock of a run folder. */
static bool find_folder(const char *process, clt_live_run *run)
{
    char path[64], link[400];
    bool found = false;
    (void)snprintf(path, sizeof path, "/proc/%.16s/fd", process);
    DIR *dir = opendir(path);
    if (!dir)
        return false;
    for (const struct dirent *entry; !found && (entry = readdir(dir));) {
        (void)snprintf(link, sizeof link, "%s/%s", path, entry->d_name);
        ssize_t length = readlink(link, run->folder, sizeof run->folder - 1);
        if (length <= 0)
            continue;
        run->folder[length] = '\0';
        size_t stem = clt_stem(run->folder, "/lock");
        run->folder[stem] = '\0';
        found = stem > 0 && read_run(run);
    }
    (void)closedir(dir);
    return found;
}

static int by_process(const void *a, const void *b)
{
    int64_t x = ((const clt_live_run *)a)->process, y = ((const clt_live_run *)b)->process;
    return x < y ? -1 : x > y;
}

int clt_live_runs(clt_live_run runs[CLT_LIVE_RUNS])
{
    int count = 0;
    DIR *dir = opendir("/proc");
    if (!dir)
        return 0;
    for (const struct dirent *entry; count < CLT_LIVE_RUNS && (entry = readdir(dir));) {
        long long process;
        if (isdigit((unsigned char)entry->d_name[0]) && sscanf(entry->d_name, "%lld", &process) == 1 &&
            find_folder(entry->d_name, &runs[count]))
            runs[count++].process = process;
    }
    (void)closedir(dir);
    qsort(runs, (size_t)count, sizeof *runs, by_process);
    return count;
}
