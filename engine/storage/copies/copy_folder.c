/* SPDX-License-Identifier: Apache-2.0
 *
 * The folder of copies: names of files, how much it holds, and which files go when it is full. A file
 * "usage", which all processes map, counts its bytes; a process that is alone counts them anew. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
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

#define LOOK_SECONDS 10.0 /* between two looks at all files of the folder */
#define LEAST_ROOM (4 * CLT_COPY_PAGE)
#define NAME_LENGTH 32 /* hexadecimal digits of a name */

static pthread_mutex_t folder_lock = PTHREAD_MUTEX_INITIALIZER; /* may be taken while copies' lock is held */
static char *folder;
static _Atomic int64_t *usage; /* bytes in the folder, shared with other processes */
static int64_t limit;
static double looked = -LOOK_SECONDS; /* when a look at all files found nothing to remove */
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

static clt_status look_at(const char *inner, kept_files *out)
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
        /* as clt_copies_add_bytes counts: each file of sums, which is small, with its one page */
        out->file[out->count++] =
            (kept_file){CLT_TAKE(path), (int64_t)info.st_blocks * 512 + CLT_COPY_PAGE, info.st_mtim};
    }
    return CLT_OK;
}

static clt_status look(kept_files *out)
{
    CLT_SCOPED(clt_file_list) names = {0};
    CLT_TRY(clt_folder_names(folder, &names));
    for (size_t i = 0; i < names.count; i++) {
        CLT_FREED char *inner = NULL;
        if (strlen(names.name[i]) != 2)
            continue;
        CLT_TRY(clt_path_join(folder, names.name[i], &inner));
        CLT_TRY(look_at(inner, out));
    }
    return CLT_OK;
}

/* --- opening --- */

static clt_status count_all(int64_t *bytes)
{
    kept_files files = {0};
    clt_status status = look(&files);
    *bytes = 0;
    for (size_t i = 0; i < files.count; i++)
        *bytes += files.file[i].bytes;
    kept_files_free(&files);
    return status;
}

/* Maps the counter, and counts anew if no other process uses the folder. */
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
    return clt_range_lock(fd, path, F_RDLCK, 0, 1, &shared);
}

static clt_status open_usage(void)
{
    CLT_FREED char *path = NULL;
    CLT_TRY(clt_path_join(folder, "usage", &path));
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return clt_fail_errno(CLT_ESTORAGE, errno, "opening '%s'", path);
    clt_status status = map_usage(fd, path); /* then it stays open for its lock */
    if (status != CLT_OK)
        (void)close(fd);
    else
        usage_fd = fd;
    return status;
}

static clt_status open_folder(void)
{
    struct statvfs disk;
    CLT_FREED char *path = NULL;
    if (usage)
        return CLT_OK;
    if (clt_copies_now.folder[0])
        CLT_TRY(clt_alloc(&path, strlen(clt_copies_now.folder) + 1, 1, "a path"));
    else
        CLT_TRY(clt_cache_folder("objects", &path));
    if (clt_copies_now.folder[0])
        memcpy(path, clt_copies_now.folder, strlen(clt_copies_now.folder));
    CLT_TRY(clt_private_folder_make(path));
    free(folder);
    folder = CLT_TAKE(path);
    CLT_TRY(open_usage());
    limit = (int64_t)(clt_copies_now.gigabytes * 1e9);
    if (statvfs(folder, &disk) == 0) { /* a twentieth of what is free stays free */
        int64_t most = atomic_load(usage) + (int64_t)((double)disk.f_bavail * (double)disk.f_frsize * 0.95);
        limit = most < limit ? most : limit;
    }
    return CLT_OK;
}

clt_status clt_copy_path(const clt_place *place, const clt_s3_object *object, char **out)
{
    char text[CLT_SHA256_TEXT];
    CLT_SCOPED(clt_str) identity = {0};
    CLT_SCOPED(clt_str) path = {0};
    CLT_LOCKED(&folder_lock);
    CLT_TRY(open_folder());
    clt_str_printf(&identity, "%llx\n%s\n%s\n%s\n%llu\n%llu\n", (unsigned long long)place->where,
                   place->at.bucket, object->key, object->etag, (unsigned long long)object->size,
                   (unsigned long long)CLT_COPY_BLOCK);
    CLT_TRY(clt_str_check(&identity));
    clt_sha256_text(identity.text, identity.length, text);
    clt_str_printf(&path, "%s/%.2s", folder, text);
    CLT_TRY(clt_str_check(&path));
    CLT_TRY(clt_mkdir_p(path.text));
    clt_str_printf(&path, "/%.*s", NAME_LENGTH, text);
    return clt_str_take(&path, out);
}

/* --- room --- */

void clt_copies_add_bytes(int64_t bytes)
{
    atomic_fetch_add(usage, bytes);
}

bool clt_copies_have_room(uint64_t bytes)
{
    return atomic_load(usage) + (int64_t)bytes <= limit;
}

/* Removes a copy that no process has open. */
static void remove_unused(const kept_file *file)
{
    CLT_SCOPED(clt_str) sums = {0};
    bool taken = false;
    CLT_CLOSED int fd = open(file->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    clt_str_printf(&sums, "%s.sums", file->path);
    if (fd < 0 || sums.failed ||
        clt_range_lock(fd, file->path, F_WRLCK, CLT_COPY_IN_USE, 1, &taken) != CLT_OK || !taken)
        return;
    /* who opens them now sees that the data file has no name any more, and makes both anew */
    (void)unlink(sums.text);
    if (unlink(file->path) == 0)
        clt_copies_add_bytes(-file->bytes);
}

static int by_time(const void *a, const void *b)
{
    const struct timespec *x = &((const kept_file *)a)->used, *y = &((const kept_file *)b)->used;
    if (x->tv_sec != y->tv_sec)
        return x->tv_sec < y->tv_sec ? -1 : 1;
    return x->tv_nsec < y->tv_nsec ? -1 : x->tv_nsec > y->tv_nsec;
}

/* Removes the copies that were used longest ago, until a tenth of the limit is free. */
static void remove_oldest(uint64_t bytes)
{
    kept_files files = {0};
    CLT_LOCKED(&folder_lock);
    if (clt_now() - looked < LOOK_SECONDS)
        return;
    int64_t before = atomic_load(usage);
    if (look(&files) == CLT_OK) {
        if (files.count > 1)
            qsort(files.file, files.count, sizeof *files.file, by_time);
        for (size_t i = 0; i < files.count && !clt_copies_have_room(bytes + (uint64_t)limit / 10); i++)
            remove_unused(&files.file[i]);
    }
    if (atomic_load(usage) >= before)
        looked = clt_now();
    kept_files_free(&files);
}

void clt_copies_make_room(uint64_t bytes)
{
    static pthread_mutex_t turn =
        PTHREAD_MUTEX_INITIALIZER; /* each thread sees what the one before has done */
    CLT_KEEP_ERROR();
    if (clt_copies_have_room(bytes))
        return;
    CLT_LOCKED(&turn);
    if (!clt_copies_have_room(bytes))
        remove_oldest(bytes);
    int64_t excess = atomic_load(usage) + (int64_t)bytes - limit;
    if (excess > 0)
        clt_blocks_drop((uint64_t)excess);
}

clt_status clt_copies_reserve(int fd, const char *path, uint64_t bytes)
{
    int code = posix_fallocate(fd, 0, (off_t)bytes);
    if (code == ENOSPC) {
        clt_copies_make_room(LEAST_ROOM);
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
