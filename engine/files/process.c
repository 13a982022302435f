/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the identity of machines and processes. Uses no heap memory, so that reports on processes are
 * correct even if memory has run out. */
#include "engine/files/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/hash.h"

void clt_file_beginning(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd >= 0 ? read(fd, text, size - 1) : -1;
    text[n > 0 ? n : 0] = '\0';
    if (fd >= 0)
        close(fd);
}

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

/* Writes the first part of a mark, which is the same for all processes whose ids are valid here. False: the
 * system does not give the necessary numbers. */
static bool here_text(char out[CLT_HASH64_TEXT])
{
    char boot[128], place[160];
    const int64_t space = clt_process_space();
    clt_boot_identity(boot, sizeof boot);
    int length = snprintf(place, sizeof place, "%s %lld", boot, (long long)space);
    clt_hash64_text(clt_hash64(place, (size_t)length), out);
    return strcmp(boot, "?") != 0 && space != 0;
}

const char *clt_process_mark(char buffer[CLT_PROCESS_MARK])
{
    char here[CLT_HASH64_TEXT];
    (void)here_text(here);
    snprintf(buffer, CLT_PROCESS_MARK, "%s-%ld", here, (long)getpid());
    return buffer;
}

bool clt_process_mark_is_gone(const char *mark)
{
    char here[CLT_HASH64_TEXT];
    const size_t length = sizeof here - 1;
    return here_text(here) && strncmp(mark, here, length) == 0 && mark[length] == '-' &&
           clt_process_is_gone(mark + length + 1);
}
