/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides when PoCL's cache of kernels is checked, and reports what was found. This file calls no OpenCL
 * function, and must not know the layout of the cache. */
#include "cl/device/pocl.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cl/device/capabilities.h"
#include "engine/base/hash.h"
#include "engine/base/log.h"
#include "engine/base/text.h"
#include "engine/base/thread.h"
#include "engine/files/cache_folder.h"
#include "engine/files/fileio.h"
#include "engine/files/process.h"

static ocl_pocl_report the_report;
static bool look_at_all;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void ocl_pocl_look_at_all(void)
{
    look_at_all = true;
}

const ocl_pocl_report *ocl_pocl_done(void)
{
    return &the_report;
}

/* --- when a large cache was last checked --- */

/* The stamp is a file whose time says when all files were last checked. Each process removes it when it
 * begins and restores it, with that time, when it exits normally, so that it is missing after a process that
 * was killed. Parallel processes each write the time of their own check, so a stamp may exist although
 * another process was killed meanwhile. Damage by the killed one is found when the stamp is older than
 * OCL_POCL_SECONDS. */
static struct {
    char *path;
    pid_t owner;
    bool wanted;
    struct timespec when;
} stamp;

static clt_status stamp_path(const char *folder, char **out)
{
    char boot[64], name[64], text[CLT_HASH64_TEXT];
    clt_hash64_state state;
    clt_boot_identity(boot, sizeof boot); /* in the stamp's name, because a loss of power may damage files */
    clt_hash64_begin(&state);
    clt_hash64_add(&state, boot, strlen(boot) + 1);
    clt_hash64_add(&state, folder, strlen(folder));
    snprintf(name, sizeof name, "pocl-%s.json", clt_hash64_text(clt_hash64_end(&state), text));
    return clt_cache_file("listing", name, out);
}

/* Removes the stamp; returns whether all files were checked a short time ago. */
static bool take_stamp(void)
{
    struct stat info;
    if (stamp.path == NULL || stat(stamp.path, &info) != 0)
        return false;
    (void)unlink(stamp.path);
    time_t age = time(NULL) - info.st_mtim.tv_sec;
    stamp.when = info.st_mtim;
    stamp.wanted = age >= 0 && age < OCL_POCL_SECONDS;
    return stamp.wanted;
}

static void put_stamp(void)
{
    const struct timespec times[2] = {stamp.when, stamp.when};
    int fd = -1;
    if (stamp.wanted && stamp.owner == getpid()) /* a forked child does not write it */
        fd = open(stamp.path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return;
    (void)futimens(fd, times);
    (void)close(fd);
}

static void begin_stamp(const char *folder)
{
    if (stamp_path(folder, &stamp.path) != CLT_OK)
        clt_error_clear(); /* without a cache folder each process checks all files */
    stamp.owner = getpid();
    (void)clock_gettime(CLOCK_REALTIME, &stamp.when);
}

/* --- checking the cache --- */

static void tell_removed(uint64_t removed)
{
    if (removed > 0)
        CLT_WARN("%llu truncated file%s of PoCL's cache in '%s' (as a full disk or a killed process leaves "
                 "them): %s removed, and PoCL builds %s again",
                 (unsigned long long)removed, CLT_PLURAL(removed), the_report.folder.path,
                 removed == 1 ? "it is" : "they are", removed == 1 ? "it" : "them");
}

/* Checks the files in the folder in use; *closed gets a folder into which this user may not write, or
 * NULL. */
static uint64_t look(uint64_t *files, char **closed)
{
    clt_pocl_mended mended;
    clt_pocl_folder_mend(the_report.folder.path, &mended);
    the_report.removed += mended.removed;
    tell_removed(mended.removed);
    if (files != NULL)
        *files = mended.files;
    if (closed != NULL)
        *closed = mended.closed;
    else
        free(mended.closed);
    return mended.removed;
}

static clt_status look_once(void)
{
    uint64_t files = 0;
    CLT_FREED char *closed = NULL;
    begin_stamp(the_report.folder.path);
    if (take_stamp() && !look_at_all)
        return CLT_OK;
    (void)look(&files, &closed);
    stamp.wanted = stamp.path != NULL && files > OCL_POCL_MANY && closed == NULL;
    (void)clock_gettime(CLOCK_REALTIME, &stamp.when);
    if (closed == NULL || the_report.folder.refused != NULL)
        return CLT_OK;
    CLT_TRY(clt_pocl_folder_leave(&the_report.folder, closed));
    if (the_report.folder.path != NULL)
        (void)look(NULL, NULL); /* this folder may hold kernels of earlier processes */
    return CLT_OK;
}

static void tell_folder(const clt_pocl_folder *folder)
{
    if (folder->refused != NULL && folder->path != NULL)
        CLT_WARN("PoCL keeps its kernels in '%s', since its folder '%s' cannot be used: %s; "
                 "set " CLT_POCL_FOLDER_VARIABLE " to choose another one",
                 folder->path, folder->refused, folder->why);
    else if (folder->path == NULL)
        CLT_WARN(
            "PoCL has no folder for its kernels: '%s' cannot be used (%s), and no temporary folder can; set "
            "" CLT_POCL_FOLDER_VARIABLE " to a folder in which you may write files and run them",
            folder->refused, folder->why);
}

/* The work of ocl_pocl_prepare, which only its first call in a process does. */
static clt_status prepare(void)
{
    clt_pocl_folder *folder = &the_report.folder;
    CLT_TRY(clt_pocl_folder_choose(true, folder));
    if (folder->path != NULL)
        CLT_TRY(look_once());
    tell_folder(folder);
    if (folder->refused != NULL && folder->path != NULL)
        setenv(CLT_POCL_FOLDER_VARIABLE, folder->path, 1);
    return CLT_OK;
}

clt_status ocl_pocl_prepare(void)
{
    clt_status status = CLT_OK;
    CLT_LOCKED(&lock);
    if (!the_report.looked) {
        the_report.looked = true;
        status = prepare();
        if (stamp.path != NULL)
            (void)atexit(put_stamp);
    }
    return status;
}

bool ocl_pocl_mend(void)
{
    CLT_LOCKED(&lock);
    return the_report.looked && the_report.folder.path != NULL && look(NULL, NULL) > 0;
}
