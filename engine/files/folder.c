/* SPDX-License-Identifier: Apache-2.0
 *
 * Paths, folders and lock files of fileio.h, and the wording of errno failures. Knows nothing of run
 * directories or checkpoints. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/mem.h"
#include "engine/base/text.h"
#include "engine/files/fileio.h"
#include "engine/files/fileio_error.h"
#include "engine/files/remote_files.h"

static const char *advice(int code)
{
    switch (code) {
    case ENOENT:
        return "; check the path";
    case ENOTDIR:
        return "; a part of the path is a file, check the path";
    case EACCES:
    case EPERM:
        return "; check the permissions";
    case EROFS:
        return "; choose a place that can be written";
    case ENOSPC:
    case EDQUOT:
        return "; free some space or choose another place";
    case EFBIG:
        return "; files may not grow any more: raise the limit on their size (ulimit -f)";
    case EMFILE:
    case ENFILE:
        return "; raise the limit on open files (ulimit -n)";
    case ENOMEM:
        return "; free some memory";
    case EIO:
        return "; the disk or its connection fails, check the system log";
    default:
        return "";
    }
}

clt_status clt_fail_errno_at(clt_status status, const char *file, int line, int code, const char *format, ...)
{
    char doing[CLT_ERROR_TEXT_SIZE - 512], text[CLT_ERRNO_TEXT];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(doing, sizeof doing, format, args);
    va_end(args);
    /* that the process lacks memory is not the file's fault, so it is not `status` */
    status = code == ENOMEM ? CLT_ENOMEM : status;
    return clt_fail(status, file, line, "%s: %s%s", doing, clt_errno_text(code, text), advice(code));
}

/* --- remote files --- */

static const clt_remote_files *_Atomic remote;
static __thread const atomic_int *given_up;

void clt_remote_files_use(const clt_remote_files *functions)
{
    remote = functions;
}

const clt_remote_files *clt_remote_files_used(void)
{
    return remote;
}

bool clt_is_remote(const char *path)
{
    return strncmp(path, "s3://", 5) == 0;
}

clt_status clt_remote_files_check(const char *path)
{
    if (!remote)
        CLT_FAIL(CLT_EUNSUPPORTED, "opening '%s': this program does not read from object storage", path);
    return CLT_OK;
}

clt_status clt_refuse_remote(const char *path)
{
    if (clt_is_remote(path))
        CLT_FAIL(CLT_EUSAGE,
                 "writing '%s': results are written to a disk of this machine, so name a path there; "
                 "checkpoint.upload sends a run's checkpoints to object storage",
                 path);
    return CLT_OK;
}

void clt_remote_wait_until(const atomic_int *flag)
{
    given_up = flag;
}

bool clt_remote_wait_is_over(void)
{
    return given_up && atomic_load(given_up) != 0;
}

bool clt_file_stat(const char *path, struct stat *out)
{
    return clt_is_remote(path) ? remote && remote->stat(path, out) : stat(path, out) == 0;
}

/* --- announcing remote files --- */

#define FILES_AHEAD                                                                                          \
    16 /* beginnings announced before the first one is read: enough for all threads that fetch */

static void want_start(const char *folder, const char *name)
{
    CLT_FREED char *path = NULL;
    if (!remote || !clt_is_remote(folder ? folder : name))
        return;
    if (clt_path_join(folder ? folder : "", name, &path) == CLT_OK)
        remote->want_path(path, 1);
    clt_error_clear(); /* no failure: the file is fetched when it is read, and the reader reports errors */
}

void clt_files_want_starts(const char *folder, const clt_file_list *list, size_t at)
{
    CLT_KEEP_ERROR();
    for (size_t i = at ? at + FILES_AHEAD : 0; i < list->count && i <= at + FILES_AHEAD; i++)
        want_start(folder, list->name[i]);
}

/* --- paths and folders --- */

bool clt_file_exists(const char *path)
{
    struct stat info;
    return clt_file_stat(path, &info);
}

bool clt_is_directory(const char *path)
{
    struct stat info;
    return clt_file_stat(path, &info) && S_ISDIR(info.st_mode);
}

bool clt_is_regular(const char *path)
{
    struct stat info;
    return clt_file_stat(path, &info) && S_ISREG(info.st_mode);
}

bool clt_is_folder_in(const char *folder, const char *name)
{
    CLT_FREED char *path = NULL;
    bool joined = clt_path_join(folder, name, &path) == CLT_OK;
    if (!joined)
        clt_error_clear();
    return joined && clt_is_directory(path);
}

bool clt_same_folder(const char *a, const char *b)
{
    struct stat first, second;
    if (clt_is_remote(a) || clt_is_remote(b))
        return strcmp(a, b) == 0;
    return stat(a, &first) == 0 && stat(b, &second) == 0 && S_ISDIR(first.st_mode) &&
           first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

/* Makes one folder; another process may make it at the same moment. */
static clt_status make_level(const char *path, const char *whole)
{
    if (mkdir(path, 0777) == 0)
        return CLT_OK;
    int code = errno;
    if (clt_is_directory(path))
        return CLT_OK;
    if (code == EEXIST)
        CLT_FAIL(CLT_ESTORAGE,
                 "creating the folder '%s': '%s' is there and is not a folder; remove it or choose "
                 "another place",
                 whole, path);
    return clt_fail_errno(CLT_ESTORAGE, code, "creating the folder '%s'", path);
}

clt_status clt_mkdir_p(const char *path)
{
    CLT_FREED char *copy = NULL;
    size_t length = strlen(path);
    if (length == 0)
        CLT_FAIL(CLT_ESTORAGE, "creating a folder: its path is empty; give one");
    CLT_TRY(clt_refuse_remote(path));
    CLT_TRY(clt_alloc(&copy, length + 1, 1, "a path"));
    memcpy(copy, path, length);
    for (size_t i = 1; i <= length; i++) {
        bool level_ends = (copy[i] == '/' || copy[i] == '\0') && copy[i - 1] != '/';
        if (!level_ends)
            continue;
        char kept = copy[i];
        copy[i] = '\0';
        CLT_TRY(make_level(copy, path));
        copy[i] = kept;
    }
    return CLT_OK;
}

/* Cuts `path`, in place, to its nearest ancestor that exists; "." or "/" if there is no other. */
static void cut_to_existing(char *path)
{
    struct stat info;
    while (stat(path, &info) != 0 && (errno == ENOENT || errno == ENOTDIR)) {
        char *slash = strrchr(path, '/');
        while (slash > path && slash[-1] == '/')
            slash--;
        if (!slash) {
            memcpy(path, ".", 2);
            return;
        }
        slash[slash == path] = '\0';
    }
}

clt_status clt_mkdir_possible(const char *path)
{
    struct stat info;
    CLT_FREED char *above = NULL;
    size_t length = strlen(path);
    if (length == 0)
        CLT_FAIL(CLT_ESTORAGE, "creating a folder: its path is empty; give one");
    CLT_TRY(clt_refuse_remote(path));
    CLT_TRY(clt_alloc(&above, length + 2, 1, "a path"));
    memcpy(above, path, length);
    cut_to_existing(above);
    if (stat(above, &info) == 0 && !S_ISDIR(info.st_mode))
        CLT_FAIL(CLT_ESTORAGE,
                 "creating the folder '%s': '%s' is there and is not a folder; remove it or choose another "
                 "place",
                 path, above);
    if (access(above, W_OK | X_OK) != 0)
        return clt_fail_errno(CLT_ESTORAGE, errno, "creating the folder '%s': writing into '%s'", path,
                              above);
    return CLT_OK;
}

static clt_status remove_entry(int parent, const char *name, const char *shown);

void clt_file_list_free(clt_file_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->name[i]);
    free(list->name);
    *list = (clt_file_list){0};
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void clt_file_list_sort(clt_file_list *list, size_t from)
{
    if (list->count > from)
        qsort(list->name + from, list->count - from, sizeof *list->name, by_name);
}

clt_status clt_file_list_add(clt_file_list *list, char *name)
{
    CLT_FREED char *own = name;
    if (!own)
        CLT_FAIL(CLT_ENOMEM, "listing files: out of host memory");
    CLT_TRY(clt_grow(&list->name, &list->capacity, list->count + 1, sizeof *list->name, "a list of files"));
    list->name[list->count++] = CLT_TAKE(own);
    return CLT_OK;
}

clt_status clt_folder_names(const char *path, clt_file_list *out)
{
    char why[CLT_ERRNO_TEXT];
    clt_status status = CLT_OK;
    *out = (clt_file_list){0};
    if (clt_is_remote(path)) {
        CLT_TRY(clt_remote_files_check(path));
        return remote->names(path, out);
    }
    DIR *folder = opendir(path);
    if (!folder)
        CLT_FAIL(CLT_EDATA, "opening the folder '%s': %s; check the path", path, clt_errno_text(errno, why));
    while (status == CLT_OK) {
        errno = 0;
        const struct dirent *entry = readdir(folder);
        if (!entry) {
            if (errno != 0) /* a failure, because an incomplete list would be another data set */
                status = clt_fail_errno(CLT_EDATA, errno, "reading the folder '%s'", path);
            break;
        }
        if (entry->d_name[0] != '.')
            status = clt_file_list_add(out, strdup(entry->d_name));
    }
    (void)closedir(folder);
    clt_file_list_sort(out, 0);
    return status;
}

clt_status clt_file_match(const char *pattern, clt_file_list *out)
{
    glob_t found = {0};
    clt_status status = CLT_OK;
    if (clt_is_remote(pattern)) {
        CLT_TRY(clt_remote_files_check(pattern));
        return remote->match(pattern, out);
    }
    if (glob(pattern, GLOB_NOSORT, NULL, &found) == GLOB_NOSPACE)
        status = CLT_ENOMEM;
    for (size_t i = 0; status == CLT_OK && i < found.gl_pathc; i++)
        status = clt_file_list_add(out, strdup(found.gl_pathv[i]));
    globfree(&found);
    return status;
}

/* Removes everything inside the folder `fd`, and closes it. Continues after a failure and returns the last
 * one. */
static clt_status remove_inside(int fd, const char *shown)
{
    clt_status status = CLT_OK;
    DIR *folder = fdopendir(fd);
    if (!folder) {
        status = clt_fail_errno(CLT_ESTORAGE, errno, "listing the folder '%s'", shown);
        close(fd);
        return status;
    }
    for (;;) {
        errno = 0;
        struct dirent *entry = readdir(folder);
        if (!entry) {
            if (errno != 0)
                status = clt_fail_errno(CLT_ESTORAGE, errno, "listing the folder '%s'", shown);
            break;
        }
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        char *inner = NULL;
        clt_status now = clt_path_join(shown, entry->d_name, &inner);
        if (now == CLT_OK)
            now = remove_entry(fd, entry->d_name, inner);
        free(inner);
        status = now == CLT_OK ? status : now;
    }
    closedir(folder);
    return status;
}

/* A symbolic link itself is removed: O_NOFOLLOW makes sure that a folder that was replaced by a link is not
 * entered. */
static clt_status remove_entry(int parent, const char *name, const char *shown)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int flag = 0;
    if (fd >= 0) {
        CLT_TRY(remove_inside(fd, shown));
        flag = AT_REMOVEDIR;
    } else if (errno == EACCES || errno == EMFILE || errno == ENFILE) {
        int code = errno;
        struct stat info;
        bool folder = fstatat(parent, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(info.st_mode);
        /* An empty folder can be removed even if this user may not read it. */
        if (folder && unlinkat(parent, name, AT_REMOVEDIR) != 0)
            return clt_fail_errno(CLT_ESTORAGE, code, "opening the folder '%s' to remove it", shown);
        if (folder)
            return CLT_OK;
    }
    if (unlinkat(parent, name, flag) != 0 && errno != ENOENT)
        return clt_fail_errno(CLT_ESTORAGE, errno, "removing '%s'", shown);
    return CLT_OK;
}

clt_status clt_remove_tree(const char *path)
{
    CLT_FREED char *copy = NULL;
    size_t length = strlen(path);
    /* A trailing slash would make "link/" mean the folder that the link points to. */
    while (length > 0 && path[length - 1] == '/')
        length--;
    CLT_TRY(clt_alloc(&copy, length + 1, 1, "a path"));
    memcpy(copy, path, length);
    const char *slash = strrchr(copy, '/');
    const char *name = slash ? slash + 1 : copy;
    if (strcmp(name, "") == 0 || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        CLT_FAIL(CLT_ESTORAGE,
                 "removing the folder '%s': refused, because the path does not end with the name of a folder",
                 path);
    return remove_entry(AT_FDCWD, copy, copy);
}

/* Length of a remote folder's path without its last name; the bucket is always kept. */
static size_t parent_length(const char *path, size_t length)
{
    size_t bucket = 5 + strcspn(path + 5, "/");
    while (length > bucket && path[length - 1] == '/')
        length--;
    while (length > bucket && path[length - 1] != '/')
        length--;
    return length;
}

/* Appends a relative path to a remote folder. A server knows no "." and "..", so they are resolved here; ".."
 * never leads out of the bucket. `text` has room for a '/' and the path. */
static void append_remote(char *text, const char *path)
{
    size_t n = strlen(text);
    const char *end;
    for (const char *name = path; *path && name; name = *end ? end + 1 : NULL) {
        size_t length = strcspn(name, "/");
        bool here = length == 1 && name[0] == '.', up = length == 2 && strncmp(name, "..", 2) == 0;
        end = name + length;
        if (up)
            n = parent_length(text, n);
        if ((here || up) && !*end && n > 5 && text[n - 1] == '/')
            n--;
        if (here || up)
            continue;
        if (text[n - 1] != '/')
            text[n++] = '/';
        length += *end == '/'; /* the '/' is a part of the key, even if repeated */
        memcpy(text + n, name, length);
        n += length;
    }
    text[n] = '\0';
}

clt_status clt_path_join(const char *a, const char *b, char **out)
{
    size_t a_length = strlen(a), b_length = strlen(b);
    bool only_b = b[0] == '/' || a_length == 0 || clt_is_remote(b);
    *out = NULL;
    if (only_b)
        a_length = 0;
    char *text = NULL;
    CLT_TRY(clt_alloc(&text, a_length + 1 + b_length + 1, 1, "a path"));
    memcpy(text, a, a_length);
    *out = text;
    if (!only_b && clt_is_remote(a)) {
        append_remote(text, b);
        return CLT_OK;
    }
    bool slash = !only_b && a[a_length - 1] != '/' && b_length > 0;
    if (slash)
        text[a_length] = '/';
    memcpy(text + a_length + slash, b, b_length);
    return CLT_OK;
}

clt_status clt_remote_listed(const char *path)
{
    CLT_SCOPED(clt_file_list) names = {0};
    if (!clt_is_remote(path) || clt_file_exists(path))
        return CLT_OK;
    clt_status status = clt_folder_names(path, &names); /* says why */
    if (status != CLT_EDATA)
        return status;
    clt_error_clear();
    return CLT_OK;
}

clt_status clt_remote_found(const char *path, clt_status code)
{
    CLT_TRY(clt_remote_listed(path));
    if (clt_is_remote(path) && !clt_file_exists(path))
        CLT_FAIL(code, "'%s': nothing is there; check the address", path);
    return CLT_OK;
}

char *clt_path_real(const char *path)
{
    size_t length = strlen(path);
    if (!clt_is_remote(path))
        return realpath(path, NULL);
    while (length > 5 && path[length - 1] == '/')
        length--;
    return strndup(path, length);
}

struct clt_lock {
    int fd;
    char *path;
};

/* True if the locked file is still the one at the path: the previous holder of the lock may have removed it
 * meanwhile. */
static bool is_current(int fd, const char *path)
{
    struct stat mine, there;
    return fstat(fd, &mine) == 0 && stat(path, &there) == 0 && mine.st_dev == there.st_dev &&
           mine.st_ino == there.st_ino;
}

static clt_status lock_taken(int fd, const char *path)
{
    char holder[320] = {0};
    ssize_t n = pread(fd, holder, sizeof holder - 1, 0);
    holder[n > 0 ? n : 0] = '\0';
    holder[strcspn(holder, "\n")] = '\0';
    CLT_FAIL(CLT_ESTORAGE, "locking '%s': it is held by %s; wait for it to end or use another directory",
             path, holder[0] ? holder : "another process");
}

/* Returns 0 or the error number. */
static int lock_now(int fd)
{
    while (flock(fd, LOCK_EX | LOCK_NB) != 0)
        if (errno != EINTR)
            return errno;
    return 0;
}

static clt_status lock_try(const char *path, int *out)
{
    CLT_TRY(clt_own_file_check(path));
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0)
        return clt_fail_errno(CLT_ESTORAGE, errno, "creating the lock file '%s'", path);
    int code = lock_now(fd);
    if (code != 0) {
        clt_status status = code == EWOULDBLOCK
                                ? lock_taken(fd, path)
                                : clt_fail_errno(CLT_ESTORAGE, code, "locking '%s' (flock)", path);
        close(fd);
        return status;
    }
    if (!is_current(fd, path)) {
        close(fd);
        fd = -1;
    }
    *out = fd;
    return CLT_OK;
}

static clt_status lock_sign(int fd, const char *path)
{
    char host[256] = {0}, text[320];
    if (gethostname(host, sizeof host - 1) != 0 || host[0] == '\0')
        memcpy(host, "unknown", 8);
    int n = snprintf(text, sizeof text, "process %ld on host %s\n", (long)getpid(), host);
    if (ftruncate(fd, 0) != 0)
        return clt_fail_errno(CLT_ESTORAGE, errno, "writing the lock file '%s'", path);
    return clt_fd_write(fd, text, (size_t)n, path);
}

clt_status clt_lock_acquire(const char *path, clt_lock **out)
{
    int fd = -1;
    *out = NULL;
    while (fd < 0)
        CLT_TRY(lock_try(path, &fd));
    clt_lock *lock = NULL;
    clt_status status = lock_sign(fd, path);
    if (status == CLT_OK)
        status = clt_alloc(&lock, 1, sizeof *lock, "a lock");
    if (status == CLT_OK)
        status = clt_alloc(&lock->path, strlen(path) + 1, 1, "a lock's path");
    if (status != CLT_OK) {
        (void)unlink(path);
        close(fd);
        free(lock);
        return status;
    }
    memcpy(lock->path, path, strlen(path));
    lock->fd = fd;
    *out = lock;
    return CLT_OK;
}

clt_status clt_lock_is_taken(const char *path, bool *taken)
{
    CLT_CLOSED int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    *taken = false;
    if (fd < 0 && errno == ENOENT)
        return CLT_OK;
    int code = fd < 0 ? errno : lock_now(fd);
    *taken = code == EWOULDBLOCK;
    return code == 0 || *taken ? CLT_OK : clt_fail_errno(CLT_ESTORAGE, code, "locking '%s' (flock)", path);
}

void clt_lock_release(clt_lock *lock)
{
    if (!lock)
        return;
    /* Remove the file while it is still locked, and only if the path still names this file. */
    if (is_current(lock->fd, lock->path))
        (void)unlink(lock->path);
    close(lock->fd);
    free(lock->path);
    free(lock);
}
