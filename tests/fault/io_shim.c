/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes storage fail in a program that knows nothing of it. Loaded with LD_PRELOAD, it counts the calls that
 * concern a checkpoints folder, for each save separately, and lets chosen ones fail or kills the process
 * there. A save begins with the mkdir of the folder itself, which every save calls; calls before the first
 * save (those of a resume) are not counted. It must not use anything of the engine.
 *
 *   CLT_SHIM_FOLDER    absolute path of the checkpoints folder
 *   CLT_SHIM_PART      set: the process is a rank that makes no folders, and each of its saves begins with its first call in
 *                      another folder step_N.tmp-*
 *   CLT_SHIM_PLAN      "0,7,3+": nothing in the first save, its call 7 in the second, calls 3 and later in
 *                      the third, nothing afterwards
 *   CLT_SHIM_ACTION    kill, or the error with which the call fails: EIO, ENOSPC, EDQUOT, EROFS; short: a
 *                      write stores half of its bytes and reports that, and the next call fails with
 *                      ENOSPC; half: like short, but the next call does not fail (calls other than write
 *                      are not affected)
 *   CLT_SHIM_SNAPSHOT  a folder: what a save that was hit leaves behind is copied to SNAPSHOT/<number of
 *                      the save> when the next save begins or the program ends
 *   CLT_SHIM_LOG       a file with one line per counted call: save, call, name, path, "hit" */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Looked up by name: in 64-bit builds open may have several names. */
#define REAL(name) ((__typeof__(&name))(uintptr_t)dlsym(RTLD_NEXT, #name))

static struct {
    pthread_mutex_t lock;
    bool ready;
    const char *folder, *plan, *action, *snapshot;
    bool part;
    char newest[256]; /* of the folders step_N.tmp-* */
    int log;
    int save, call;     /* numbers from 1 */
    int snapshot_of;    /* save that was hit and is not copied yet, or 0 */
    bool fail_the_next; /* after a short write */
} shim = {.lock = PTHREAD_MUTEX_INITIALIZER, .log = -1};

static void set_up(void)
{
    if (shim.ready)
        return;
    shim.ready = true;
    shim.folder = getenv("CLT_SHIM_FOLDER");
    shim.plan = getenv("CLT_SHIM_PLAN");
    shim.action = getenv("CLT_SHIM_ACTION");
    shim.snapshot = getenv("CLT_SHIM_SNAPSHOT");
    shim.part = getenv("CLT_SHIM_PART") != NULL;
    const char *log = getenv("CLT_SHIM_LOG");
    if (log)
        shim.log = REAL(open)(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
}

static bool inside(const char *path)
{
    size_t length = shim.folder ? strlen(shim.folder) : 0;
    return length > 0 && strncmp(path, shim.folder, length) == 0 &&
           (path[length] == '/' || path[length] == '\0');
}

/* Whether the path is in another folder step_N.tmp-* than the last one. */
static bool is_next_part(const char *path)
{
    const char *name = path + strlen(shim.folder) + 1;
    int length = (int)strcspn(name, "/");
    bool next = shim.part && path[strlen(shim.folder)] == '/' && strstr(name, ".tmp-") &&
                (length != (int)strlen(shim.newest) || strncmp(name, shim.newest, (size_t)length) != 0);
    if (next)
        snprintf(shim.newest, sizeof shim.newest, "%.*s", length, name);
    return next;
}

static void copy_folder(void)
{
    char to[PATH_MAX], link[] = "-a", cp[] = "cp";
    pid_t child;
    int result;
    snprintf(to, sizeof to, "%s/%d", shim.snapshot, shim.snapshot_of);
    char *const arguments[] = {cp, link, (char *)(uintptr_t)shim.folder, to, NULL};
    char path[] = "PATH=/usr/bin:/bin";
    char *const environment[] = {path, NULL}; /* the program that copies runs without the shim */
    shim.snapshot_of = 0;
    if (posix_spawnp(&child, "cp", NULL, NULL, arguments, environment) != 0 ||
        waitpid(child, &result, 0) != child || result != 0)
        abort();
}

/* Runs at the end of the program, too, for the last save. */
__attribute__((destructor)) static void at_end(void)
{
    pthread_mutex_lock(&shim.lock);
    if (shim.snapshot_of)
        copy_folder();
    pthread_mutex_unlock(&shim.lock);
}

/* Whether the plan's entry for this save hits this call. */
static bool planned(void)
{
    const char *at = shim.plan;
    for (int i = 1; at && i < shim.save; i++) {
        at = strchr(at, ',');
        at = at ? at + 1 : NULL;
    }
    if (!at)
        return false;
    char *end;
    long number = strtol(at, &end, 10);
    return number > 0 && (shim.call == number || (*end == '+' && shim.call > number));
}

static int error_of(const char *action)
{
    static const struct {
        const char *name;
        int code;
    } errors[] = {{"EIO", EIO}, {"ENOSPC", ENOSPC}, {"EDQUOT", EDQUOT}, {"EROFS", EROFS}};
    for (size_t i = 0; action && i < sizeof errors / sizeof errors[0]; i++)
        if (strcmp(action, errors[i].name) == 0)
            return errors[i].code;
    return 0;
}

typedef enum verdict { GO_ON, FAIL, HALF } verdict;

/* Counts the call and returns its fate; FAIL: errno is set. */
static verdict judge(const char *name, const char *path, bool begins)
{
    char line[PATH_MAX + 64];
    if (begins) {
        if (shim.snapshot_of && shim.snapshot)
            copy_folder();
        shim.save++;
        shim.call = 0;
        shim.fail_the_next = false;
    }
    if (shim.save == 0)
        return GO_ON;
    shim.call++;
    bool hit = planned(), is_write = strcmp(name, "write") == 0;
    if (shim.log >= 0) {
        int length = snprintf(line, sizeof line, "%d %d %s %s%s\n", shim.save, shim.call, name,
                              path + strlen(shim.folder), hit ? " hit" : "");
        if (REAL(write)(shim.log, line, (size_t)length) != length)
            abort();
    }
    if (shim.fail_the_next) {
        shim.fail_the_next = false;
        errno = ENOSPC;
        return FAIL;
    }
    if (!hit || !shim.action)
        return GO_ON;
    if (shim.snapshot)
        shim.snapshot_of = shim.save;
    if (strcmp(shim.action, "kill") == 0)
        kill(getpid(), SIGKILL);
    if (strcmp(shim.action, "short") == 0 || strcmp(shim.action, "half") == 0) {
        shim.fail_the_next = is_write && shim.action[0] == 's';
        return is_write ? HALF : GO_ON;
    }
    errno = error_of(shim.action);
    return FAIL;
}

static verdict check_path(const char *name, int folder, const char *path)
{
    char whole[PATH_MAX], link[64];
    verdict result = GO_ON;
    int saved = errno;
    pthread_mutex_lock(&shim.lock);
    set_up();
    if (path[0] != '/' && folder != AT_FDCWD) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        ssize_t length = readlink(link, whole, sizeof whole - 1);
        if (length > 0) {
            snprintf(whole + length, sizeof whole - (size_t)length, "/%s", path);
            path = whole;
        }
    }
    if (inside(path)) {
        bool begins = (strcmp(name, "mkdir") == 0 && strcmp(path, shim.folder) == 0) || is_next_part(path);
        result = judge(name, path, begins);
    }
    pthread_mutex_unlock(&shim.lock);
    if (result != FAIL)
        errno = saved;
    return result;
}

static verdict check_file(const char *name, int fd)
{
    char path[PATH_MAX], link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0 || fd == shim.log)
        return GO_ON;
    path[length] = '\0';
    return check_path(name, AT_FDCWD, path);
}

/* --- the calls --- */

int open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
    va_end(args);
    return check_path("open", AT_FDCWD, path) == FAIL ? -1 : REAL(open)(path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
    va_end(args);
    return check_path("openat", folder, path) == FAIL ? -1 : REAL(openat)(folder, path, flags, mode);
}

DIR *opendir(const char *path)
{
    return check_path("opendir", AT_FDCWD, path) == FAIL ? NULL : REAL(opendir)(path);
}

ssize_t write(int fd, const void *data, size_t size)
{
    verdict v = check_file("write", fd);
    return v == FAIL ? -1 : REAL(write)(fd, data, v == HALF ? (size + 1) / 2 : size);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at)
{
    verdict v = check_file("write", fd);
    return v == FAIL ? -1 : REAL(pwrite)(fd, data, v == HALF ? (size + 1) / 2 : size, at);
}

int fsync(int fd)
{
    return check_file("fsync", fd) == FAIL ? -1 : REAL(fsync)(fd);
}

int fdatasync(int fd)
{
    return check_file("fdatasync", fd) == FAIL ? -1 : REAL(fdatasync)(fd);
}

/* The descriptor is closed even when close reports an error. */
int close(int fd)
{
    bool fails = check_file("close", fd) == FAIL;
    int code = errno, result = REAL(close)(fd);
    errno = fails ? code : errno;
    return fails ? -1 : result;
}

int mkdir(const char *path, mode_t mode)
{
    return check_path("mkdir", AT_FDCWD, path) == FAIL ? -1 : REAL(mkdir)(path, mode);
}

int rename(const char *from, const char *to)
{
    return check_path("rename", AT_FDCWD, from) == FAIL ? -1 : REAL(rename)(from, to);
}

int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags)
{
    return check_path("renameat2", from_folder, from) == FAIL
               ? -1
               : REAL(renameat2)(from_folder, from, to_folder, to, flags);
}

int unlink(const char *path)
{
    return check_path("unlink", AT_FDCWD, path) == FAIL ? -1 : REAL(unlink)(path);
}

int unlinkat(int folder, const char *path, int flags)
{
    return check_path("unlinkat", folder, path) == FAIL ? -1 : REAL(unlinkat)(folder, path, flags);
}
