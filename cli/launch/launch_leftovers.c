/* SPDX-License-Identifier: Apache-2.0
 *
 * Removes the shared memory and the folders that killed jobs of Open MPI leave on this host. */
#include "cli/launch/launch_leftovers.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine/files/fileio.h"
#include "engine/files/process.h"

#define SEGMENTS "/dev/shm"
#define LEAST_AGE 60 /* seconds; a younger segment may belong to a job that has not mapped it yet */

/* True if this process can see all processes of the machine. Inside a container it cannot, and another
 * container may share the folders. */
static bool sees_all_processes(void)
{
    static const char first[] = "pid:[4026531836]"; /* the name of Linux's initial namespace */
    char space[64] = "";
    ssize_t length = readlink("/proc/self/ns/pid", space, sizeof space - 1);
    return length == (ssize_t)sizeof first - 1 && memcmp(space, first, sizeof first - 1) == 0;
}

/* True if a process maps the file. A user can read the maps of their own ranks and mpirun, so a process
 * whose maps cannot be read is not one of these. */
static bool process_maps(const char *process, const char *path)
{
    char name[300], line[4400];
    bool found = false;
    (void)snprintf(name, sizeof name, "/proc/%s/maps", process);
    FILE *maps = fopen(name, "re");
    while (maps && !found && fgets(line, sizeof line, maps))
        found = strstr(line, path) != NULL;
    if (maps)
        (void)fclose(maps); /* if a read failed, the process has ended meanwhile */
    return found;
}

static bool is_mapped(const char *path)
{
    DIR *processes = opendir("/proc");
    bool found = false;
    for (struct dirent *entry; processes && !found && (entry = readdir(processes)) != NULL;)
        found = entry->d_name[0] >= '0' && entry->d_name[0] <= '9' && process_maps(entry->d_name, path);
    if (processes)
        (void)closedir(processes);
    return found || !processes;
}

/* Removes segments: "vader_segment.HOST.UID.JOB.RANK" of Open MPI 4, "sm_segment..." of Open MPI 5. */
static void remove_segments(const char *host)
{
    static const char *const kinds[] = {"vader_segment", "sm_segment"};
    DIR *folder = opendir(SEGMENTS);
    for (struct dirent *entry; folder && (entry = readdir(folder)) != NULL;)
        for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
            char prefix[128], path[sizeof SEGMENTS + sizeof entry->d_name];
            struct stat info;
            int length = snprintf(prefix, sizeof prefix, "%s.%s.%u.", kinds[i], host, (unsigned)geteuid());
            if (strncmp(entry->d_name, prefix, (size_t)length) != 0)
                continue;
            (void)snprintf(path, sizeof path, "%s/%s", SEGMENTS, entry->d_name);
            if (lstat(path, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid() &&
                time(NULL) - info.st_mtime > LEAST_AGE && !is_mapped(path))
                (void)unlink(path);
        }
    if (folder)
        (void)closedir(folder);
}

/* Removes folders of jobs: "ompi.HOST.UID/pid.N", in which N is the number of mpirun's process. */
static void remove_folders(const char *host)
{
    const char *temporary = getenv("TMPDIR");
    char jobs[512], path[sizeof jobs + 256];
    struct stat info;
    int length = snprintf(jobs, sizeof jobs, "%s/ompi.%s.%u", temporary && *temporary ? temporary : "/tmp",
                          host, (unsigned)geteuid());
    if (length >= (int)sizeof jobs || lstat(jobs, &info) != 0 || !S_ISDIR(info.st_mode) ||
        info.st_uid != geteuid())
        return;
    DIR *folder = opendir(jobs);
    for (struct dirent *entry; folder && (entry = readdir(folder)) != NULL;) {
        if (strncmp(entry->d_name, "pid.", 4) != 0 || !clt_process_is_gone(entry->d_name + 4))
            continue;
        (void)snprintf(path, sizeof path, "%s/%s", jobs, entry->d_name);
        if (clt_remove_tree(path) != CLT_OK)
            clt_error_clear();
    }
    if (folder)
        (void)closedir(folder);
}

void launch_remove_leftovers(void)
{
    char host[65];
    if (!sees_all_processes())
        return;
    if (gethostname(host, sizeof host) != 0)
        return;
    host[sizeof host - 1] = '\0';
    host[strcspn(host, ".")] = '\0'; /* Open MPI names hosts without their domain */
    remove_segments(host);
    remove_folders(host);
}
