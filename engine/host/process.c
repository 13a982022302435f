/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the identity of machines and processes. Uses no heap memory, so that a lack of memory cannot change
 * what a report says of a process. */
#include "engine/host/process.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/files/fileio.h"

void clt_boot_identity(char *out, size_t size)
{
    char text[128];
    clt_file_beginning("/proc/sys/kernel/random/boot_id", text, sizeof text);
    text[strcspn(text, "\n")] = '\0';
    snprintf(out, size, "%s", text[0] ? text : "?");
}

int64_t clt_process_space(void)
{
    struct stat space;
    return stat("/proc/self/ns/pid", &space) == 0 ? (int64_t)space.st_ino : 0;
}

int64_t clt_process_start(int64_t process)
{
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)process);
    clt_file_beginning(path, text, sizeof text);
    /* field 22 of /proc/PID/stat; field 2 is a name in parentheses */
    const char *at = strrchr(text, ')');
    for (int i = 2; at && i < 22; i++)
        at = strchr(at + 1, ' ');
    return at ? (int64_t)strtoll(at, NULL, 10) : -1;
}

bool clt_process_is_gone(const char *id)
{
    char *end;
    const long process = strtol(id, &end, 10);
    return process > 0 && process <= INT32_MAX && !*end && kill((pid_t)process, 0) != 0 && errno == ESRCH;
}
