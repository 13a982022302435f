/* SPDX-License-Identifier: Apache-2.0
 *
 * The folder of copies: names the files, counts their bytes, and decides which files are removed when it is
 * full. A file "usage", which all processes map, holds the number of bytes; a process that is the only user
 * of the folder counts them anew. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "engine/base/thread.h"
#include "engine/files/cache_folder.h"
#include "engine/files/fileio_error.h"
#include "engine/files/sha256.h"
#include "engine/storage/copies/copies_internal.h"

#define SCAN_SECONDS 10.0 /* between two scans of all files in the folder */
#define DISK_SECONDS 1.0  /* between two measurements of the disk's free space */
#define LEAST_ROOM (4 * CLT_COPY_PAGE)
#define LEAST_HELD ((int64_t)(2 * CLT_COPY_LANES * CLT_COPY_BLOCK)) /* bytes, allowed on any disk */
#define COUNT_TURNS 500
#define COUNT_TURN 20000 /* microseconds between two checks whether another process has finished counting */
#define NAME_LENGTH 32   /* hexadecimal digits of a name */

static pthread_mutex_t folder_lock = PTHREAD_MUTEX_INITIALIZER; /* may be taken while copies' lock is held */
static char *folder;
static _Atomic int64_t *usage;         /* bytes in the folder, shared with other processes */
static double scanned = -SCAN_SECONDS; /* time of the last scan that found nothing to remove */
static int usage_fd = -1;

/* --- what is there --- */

typedef struct kept_file {
    char *path;
    int64_t bytes;
    struct timespec used;
} kept_file;

typedef struct kept_files {
    kept_file *file;
    size_t count, capacity;
} kept_files;

static void kept_files_free(kept_files *files)
{
    for (size_t i = 0; i < files->count; i++)
        free(files->file[i].path);
    free(files->file);
}

static bool is_name(const char *name)
{
    return strlen(name) == NAME_LENGTH && strspn(name, "0123456789abcdef") == NAME_LENGTH;
}

static clt_status scan_folder(const char *inner, kept_files *out)
{
    CLT_SCOPED(clt_file_list) names = {0};
    CLT_TRY(clt_folder_names(inner, &names));
    for (size_t i = 0; i < names.count; i++) {
        struct stat info;
        CLT_FREED char *path = NULL;
        if (!is_name(names.name[i]))
            continue;
        CLT_TRY(clt_path_join(inner, names.name[i], &path));
        if (stat(path, &info) != 0)
            continue;
        CLT_TRY(clt_grow(&out->file, &out->capacity, out->count + 1, sizeof *out->file, "copies"));
        /* counted as in clt_copies_add_bytes: plus one page for the small file of checksums */
        out->file[out->count++] =
            (kept_file){CLT_TAKE(path), (int64_t)info.st_blocks * 512 + CLT_COPY_PAGE, info.st_mtim};
    }
    return CLT_OK;
}

static clt_status scan(kept_files *out)
{
    CLT_SCOPED(clt_file_list) names = {0};
    CLT_TRY(clt_folder_names(folder, &names));
    for (size_t i = 0; i < names.count; i++) {
        CLT_FREED char *inner = NULL;
        if (strlen(names.name[i]) != 2)
            continue;
        CLT_TRY(clt_path_join(folder, names.name[i], &inner));
        CLT_TRY(scan_folder(inner, out));
    }
    return CLT_OK;
}

/* --- opening --- */

static clt_status count_all(int64_t *bytes)
{
    kept_files files = {0};
    clt_status status = scan(&files);
    *bytes = 0;
    for (size_t i = 0; i < files.count; i++)
        *bytes += files.file[i].bytes;
    kept_files_free(&files);
    return status;
}

/* Maps the counter, and counts the bytes anew if no other process uses the folder. */
static clt_status map_usage(int fd, const char *path)
{
    bool alone = false, shared = false;
    int64_t bytes;
    int code = posix_fallocate(fd, 0, sizeof *usage);
    if (code != 0)
        return clt_fail_errno(CLT_ESTORAGE, code, "keeping '%s' (storage.cache)", path);
    CLT_TRY(clt_range_lock(fd, path, F_WRLCK, 0, 1, &alone));
    if (alone)
        CLT_TRY(count_all(&bytes));
    void *memory = mmap(NULL, sizeof *usage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return clt_fail_errno(CLT_ESTORAGE, errno, "mapping '%s'", path);
    usage = memory;
    if (alone)
        atomic_store(usage, bytes);
    for (int i = 0; !shared && i < COUNT_TURNS; i++) { /* waits while another process counts */
        if (i > 0)
            (void)usleep(COUNT_TURN);
        CLT_TRY(clt_range_lock(fd, path, F_RDLCK, 0, 1, &shared));
    }
    return CLT_OK;
}

static clt_status open_usage(void)
{
    CLT_FREED char *path = NULL;
    CLT_TRY(clt_path_join(folder, "usage", &path));
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return clt_fail_errno(CLT_ESTORAGE, errno, "opening '%s'", path);
    clt_status status = map_usage(fd, path); /* success: the file stays open for its lock */
    if (status != CLT_OK)
        (void)close(fd);
    else
        usage_fd = fd;
    return status;
}

static clt_status open_folder(void)
{
    CLT_FREED char *path = NULL;
    const char *given = clt_copies_now().folder;
    if (usage)
        return CLT_OK;
    if (given[0])
        CLT_TRY(clt_alloc(&path, strlen(given) + 1, 1, "a path"));
    else
        CLT_TRY(clt_cache_folder("objects", &path));
    if (given[0])
        memcpy(path, given, strlen(given));
    CLT_TRY(clt_private_folder_make(path));
    free(folder);
    folder = CLT_TAKE(path);
    return open_usage();
}

clt_status clt_copy_path(const clt_place *place, const clt_s3_object *object, char **out)
{
    char text[CLT_SHA256_TEXT];
    CLT_SCOPED(clt_str) identity = {0};
    CLT_SCOPED(clt_str) path = {0};
    CLT_LOCKED(&folder_lock);
    if (!object->etag[0]) /* a newer object would be read from the copy of the old one */
        CLT_FAIL(
            CLT_ESTORAGE,
            "s3://%s/%s: the server gives no version (ETag, of at most %d characters) of this object, so "
            "it cannot be known whether a copy of it is current; fetch it to a disk with another program",
            place->at.bucket, object->key, CLT_S3_ETAG - 1);
    CLT_TRY(open_folder());
    clt_str_printf(&identity, "%llx\n%s\n%s\n%s\n%llu\n%llu\n", (unsigned long long)place->where,
                   place->at.bucket, object->key, object->etag, (unsigned long long)object->size,
                   (unsigned long long)CLT_COPY_BLOCK);
    CLT_TRY(clt_str_check(&identity));
    clt_sha256_text(identity.text, identity.length, text);
    clt_str_printf(&path, "%s/%.2s", folder, text);
    CLT_TRY(clt_str_check(&path));
    if (mkdir(path.text, 0700) != 0 && errno != EEXIST)
        return clt_fail_errno(CLT_ESTORAGE, errno, "making the folder '%s' (storage.cache)", path.text);
    clt_str_printf(&path, "/%.*s", NAME_LENGTH, text);
    return clt_str_take(&path, out);
}

/* --- room --- */

void clt_copies_add_bytes(int64_t bytes)
{
    atomic_fetch_add(usage, bytes);
}

/* The most bytes that the folder may hold now. A twentieth of the disk, 20 GB at most, stays free for
 * checkpoints and other programs. LEAST_HELD bytes are allowed even if other programs have filled the
 * disk. */
static int64_t limit_now(void)
{
    static _Atomic int64_t known;
    static _Atomic double measured = -DISK_SECONDS;
    int64_t given = (int64_t)(clt_copies_now().gigabytes * 1e9),
            least = given < LEAST_HELD ? given : LEAST_HELD;
    struct statvfs disk;
    double now = clt_now();
    if (now - atomic_load(&measured) >= DISK_SECONDS) {
        int64_t most = INT64_MAX;
        if (statvfs(folder, &disk) == 0) {
            double unit = (double)disk.f_frsize, kept = fmin((double)disk.f_blocks * unit / 20, 20e9);
            most = atomic_load(usage) + (int64_t)((double)disk.f_bavail * unit - kept);
        }
        atomic_store(&known, most);
        atomic_store(&measured, now);
    }
    int64_t most = atomic_load(&known) < given ? atomic_load(&known) : given;
    return most > least ? most : least;
}

bool clt_copies_have_room(uint64_t bytes)
{
    return atomic_load(usage) + (int64_t)bytes <= limit_now();
}

/* Removes a copy, unless a process has it open. Returns how many bytes became free. */
static int64_t remove_unused(const kept_file *file)
{
    struct stat mine, there;
    CLT_SCOPED(clt_str) sums = {0};
    bool taken = false;
    CLT_CLOSED int fd = open(file->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    clt_str_printf(&sums, "%s.sums", file->path);
    if (fd < 0 || sums.failed ||
        clt_range_lock(fd, file->path, F_WRLCK, CLT_COPY_IN_USE, 1, &taken) != CLT_OK || !taken)
        return 0;
    /* before the lock was granted, another process may have removed the file and a third one created it
     * again */
    if (fstat(fd, &mine) != 0 || stat(file->path, &there) != 0 || mine.st_ino != there.st_ino ||
        mine.st_dev != there.st_dev)
        return 0;
    /* a process that opens the two files now sees that the data file has been removed, and creates both
     * again */
    (void)unlink(sums.text);
    if (unlink(file->path) != 0)
        return 0;
    clt_copies_add_bytes(-file->bytes);
    return file->bytes;
}

static int by_time(const void *a, const void *b)
{
    const struct timespec *x = &((const kept_file *)a)->used, *y = &((const kept_file *)b)->used;
    if (x->tv_sec != y->tv_sec)
        return x->tv_sec < y->tv_sec ? -1 : 1;
    return x->tv_nsec < y->tv_nsec ? -1 : x->tv_nsec > y->tv_nsec;
}

/* Removes the least recently used copies until `bytes` bytes are gone. Returns how many bytes are gone.
 * full: scans the folder even if a scan shortly before has found nothing to remove. */
static int64_t remove_oldest(int64_t bytes, bool full)
{
    kept_files files = {0};
    CLT_LOCKED(&folder_lock);
    if (!full && clt_now() - scanned < SCAN_SECONDS)
        return 0;
    int64_t gone = 0;
    if (scan(&files) == CLT_OK) {
        if (files.count > 1)
            qsort(files.file, files.count, sizeof *files.file, by_time);
        for (size_t i = 0; i < files.count && gone < bytes; i++)
            gone += remove_unused(&files.file[i]);
    }
    if (gone == 0)
        scanned = clt_now();
    kept_files_free(&files);
    return gone;
}

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER; /* for making room one thread at a time */

/* Removes unused copies so that `bytes` more bytes fit. Returns by how many bytes the limit would still be
 * exceeded. */
static int64_t remove_unused_for(uint64_t bytes)
{
    int64_t limit = limit_now(), excess = atomic_load(usage) + (int64_t)bytes - limit;
    return excess > 0 ? excess - remove_oldest(excess + limit / 10, false) : excess;
}

void clt_copies_make_room(uint64_t bytes)
{
    CLT_KEEP_ERROR();
    if (clt_copies_have_room(bytes))
        return;
    CLT_LOCKED(&turn);
    int64_t excess = remove_unused_for(bytes);
    if (excess > 0)
        clt_blocks_drop((uint64_t)excess);
}

bool clt_copies_remove_unused(uint64_t bytes)
{
    CLT_KEEP_ERROR();
    CLT_LOCKED(&turn);
    return remove_unused_for(bytes) <= 0;
}

void clt_copies_free(uint64_t bytes)
{
    CLT_KEEP_ERROR();
    CLT_LOCKED(&turn);
    int64_t left = (int64_t)bytes - remove_oldest((int64_t)bytes, true);
    if (left > 0)
        clt_blocks_drop((uint64_t)left);
}

clt_status clt_copies_reserve(int fd, const char *path, uint64_t bytes)
{
    int code = posix_fallocate(fd, 0, (off_t)bytes);
    if (code == ENOSPC) {
        clt_copies_free(LEAST_ROOM);
        code = posix_fallocate(fd, 0, (off_t)bytes);
    }
    if (code != 0)
        return clt_fail_errno(CLT_ESTORAGE, code, "keeping '%s' (storage.cache)", path);
    return CLT_OK;
}

void clt_copies_leave_folder(void)
{
    CLT_LOCKED(&folder_lock);
    if (!usage)
        return;
    (void)munmap((void *)usage, sizeof *usage);
    (void)close(usage_fd);
    usage = NULL;
    usage_fd = -1;
}
