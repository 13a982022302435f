/* SPDX-License-Identifier: Apache-2.0
 *
 * Binaries of built programs, stored on disk for drivers that compile slowly and have no cache (Intel's CPU
 * runtime needs minutes at every start), and for containers that lose the driver's own cache. A file
 * contains everything that its binary depends on: device, driver, host, options and the whole source,
 * compared in full before the binary is used, and a hash over everything. So a file that is damaged, or
 * belongs to another driver or program, is never used; a new build from source replaces it. Only this user
 * can write to the folder. For drivers with their own cache the folder contains marks: an empty file shows
 * that the program was built before and so is probably in the driver's cache. No error in this file makes a
 * build fail. This file must not know what the programs are for. */
#include "cl/device/internal.h"
#include "cl/program/build_turn.h"
#include "cl/program/program_internal.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/hash.h"
#include "engine/base/log.h"
#include "engine/base/text.h"
#include "engine/base/thread.h"
#include "engine/files/cache_folder.h"
#include "engine/files/fileio.h"

#define SUFFIX ".program"
#define MARK ".built"
#define TEMPORARY ".program.tmp-" /* part of the names of temporary files of clt_file_write */
#define LIMIT (UINT64_C(512) << 20)
/* seconds after which marks are removed, because the driver has trimmed its own cache by then, too */
#define MARK_SECONDS (90 * 86400)
#define STALE_SECONDS 3600 /* seconds after which the writer of a temporary file is assumed to be dead */

static const char magic[8] = {'C', 'L', 'T', 'P', 'R', 'G', '1', '\n'};

typedef struct file_head {
    char magic[8];
    uint64_t key_bytes, binary_bytes; /* sizes of the key and the binary, which follow */
    uint64_t hash;                    /* hash of key and binary */
} file_head;

typedef struct ocl_binary_cache {
    char *folder;
    clt_str about; /* the part of the key that all programs of the device share */
    bool readable; /* the folder exists and no other user can write to it */
    bool writable; /* no write has failed so far; under the device's lock */
    bool wrote;
    bool marks; /* the driver has its own cache, so only marks of built programs are stored, no binaries */
    int turns;  /* descriptor of the file of turns (build_turn.h) */
} ocl_binary_cache;

/* The key */

static void add_platform_version(clt_str *key, cl_platform_id platform)
{
    size_t size = 0;
    CLT_FREED char *text = NULL;
    if (clGetPlatformInfo(platform, CL_PLATFORM_VERSION, 0, NULL, &size) == CL_SUCCESS &&
        clt_alloc(&text, size + 1, 1, "a platform string") == CLT_OK &&
        clGetPlatformInfo(platform, CL_PLATFORM_VERSION, size, text, NULL) == CL_SUCCESS)
        clt_str_append(key, text);
    clt_error_clear();
}

/* Adds the processor to the key, because compiled code uses the instructions of this processor, and many
 * hosts may share a home folder. */
static void add_processor(clt_str *key)
{
    CLT_FREED char *text = NULL;
    size_t size;
    static const char *const lines[] = {"model name", "flags", "Features", "CPU part"};
    if (clt_file_read("/proc/cpuinfo", false, UINT64_C(16) << 20, CLT_ESTORAGE, &text, &size) != CLT_OK)
        clt_error_clear();
    for (size_t i = 0; text != NULL && i < sizeof lines / sizeof lines[0]; i++) {
        const char *at = strstr(text, lines[i]); /* the first core's line; all cores have the same */
        if (at != NULL)
            clt_str_append_n(key, at, strcspn(at, "\n") + 1);
    }
}

/* Adds environment variables that change what drivers' compilers do. */
static void add_environment(clt_str *key)
{
    static const char *const prefixes[] = {"CL_CONFIG_", "VOLCANO_", "IGC_",     "POCL_",
                                           "AMD_OCL_",   "GPU_",     "RUSTICL_", "LP_"};
    extern char **environ;
    for (char **v = environ; v != NULL && *v != NULL; v++)
        for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
            if (strncmp(*v, prefixes[i], strlen(prefixes[i])) == 0)
                clt_str_printf(key, "%s\n", *v);
}

static void describe(const ocl_device *device, clt_str *key)
{
    const ocl_device_desc *d = &device->desc;
    clt_str_printf(key, "cltrain " CLT_VERSION "\nplatform %s ", d->platform);
    add_platform_version(key, device->platform);
    clt_str_printf(key, "\ndevice %s | %s | %s | %s | %u units\n", d->name, d->vendor, d->version, d->driver,
                   d->compute_units);
    if (d->is_cpu)
        add_processor(key);
    add_environment(key);
}

static clt_status make_key(const ocl_binary_cache *cache, const char *source, const char *options,
                           clt_str *key)
{
    clt_str_append_n(key, cache->about.text, cache->about.length);
    clt_str_printf(key, "options %s\n", options);
    clt_str_append(key, source);
    return clt_str_check(key);
}

static uint64_t hash_of(const clt_str *key)
{
    return clt_hash64(key->text, key->length);
}

static clt_status path_of(const ocl_binary_cache *cache, const clt_str *key, char **out)
{
    char text[CLT_HASH64_TEXT], name[64];
    snprintf(name, sizeof name, "%s%s", clt_hash64_text(hash_of(key), text), cache->marks ? MARK : SUFFIX);
    return clt_path_join(cache->folder, name, out);
}

/* Opening */

typedef enum cache_use { KEEP_NOTHING, KEEP_MARKS, KEEP_BINARIES } cache_use;

/* CLTRAIN_PROGRAM_CACHE: on, off, auto (binaries if the driver has no cache), or the folder for binaries. */
static cache_use wanted(const ocl_device *device, const char *text)
{
    if (text != NULL && strcmp(text, "off") == 0)
        return KEEP_NOTHING;
    if (text != NULL && (strcmp(text, "on") == 0 || text[0] == '/'))
        return KEEP_BINARIES;
    if (text != NULL && text[0] != '\0' && strcmp(text, "auto") != 0)
        CLT_WARN("environment variable CLTRAIN_PROGRAM_CACHE=%s: expected on, off, auto or an absolute path; "
                 "auto is used",
                 text);
    return device->desc.quirks & OCL_QUIRK_OWN_CACHE ? KEEP_MARKS : KEEP_BINARIES;
}

static clt_status open_cache(ocl_device *device, bool marks, const char *named)
{
    ocl_binary_cache *cache;
    CLT_TRY(clt_alloc(&cache, 1, sizeof *cache, "the cache of binaries"));
    device->binaries = cache;
    cache->marks = marks;
    cache->turns = -1;
    if (named != NULL && named[0] == '/')
        CLT_TRY(clt_path_join(named, "", &cache->folder));
    else
        CLT_TRY(clt_cache_folder("programs", &cache->folder));
    describe(device, &cache->about);
    CLT_TRY(clt_str_check(&cache->about));
    if (clt_private_folder_make(cache->folder) == CLT_OK)
        cache->writable = true;
    else
        CLT_DEBUG("binaries of programs are not kept: %s", clt_error_text());
    CLT_TRY(clt_private_folder_check(cache->folder)); /* the folder may exist on a full or read-only disk */
    cache->readable = true;
    cache->turns = ocl_turns_open(cache->folder);
    return CLT_OK;
}

void ocl_binary_cache_open(ocl_device *device)
{
    const char *text = getenv("CLTRAIN_PROGRAM_CACHE");
    cache_use use = wanted(device, text);
    if (use == KEEP_NOTHING)
        return;
    if (open_cache(device, use == KEEP_MARKS, text) != CLT_OK) {
        CLT_DEBUG("the cache of binaries is not used: %s", clt_error_text());
        ocl_binary_cache_close(device);
    }
    clt_error_clear();
}

void ocl_binary_turns_close(ocl_device *device)
{
    if (device->binaries == NULL || device->binaries->turns < 0)
        return;
    (void)close(device->binaries->turns);
    device->binaries->turns = -1;
}

void ocl_binary_cache_close(ocl_device *device)
{
    ocl_binary_cache *cache = device->binaries;
    if (cache == NULL)
        return;
    if (cache->wrote)
        ocl_binary_cache_trim(cache->folder, LIMIT);
    ocl_binary_turns_close(device);
    free(cache->folder);
    clt_str_free(&cache->about);
    free(cache);
    device->binaries = NULL;
}

bool ocl_binary_cache_keeps(const ocl_device *device)
{
    return device->binaries != NULL && device->binaries->writable && device->binaries->readable;
}

/* Reading */

static void count_refused(ocl_device *device)
{
    CLT_LOCKED(&device->lock);
    device->counters.binaries_refused++;
}

/* The binary inside a file, or NULL if the file is damaged or has another key. */
static const unsigned char *binary_in(const char *data, size_t size, const clt_str *key, size_t *bytes)
{
    file_head head;
    if (size < sizeof head)
        return NULL;
    memcpy(&head, data, sizeof head);
    const char *body = data + sizeof head;
    uint64_t left = size - sizeof head;
    if (memcmp(head.magic, magic, sizeof magic) != 0 || head.key_bytes > left ||
        head.binary_bytes != left - head.key_bytes || head.binary_bytes == 0 ||
        head.hash != clt_hash64(body, (size_t)left))
        return NULL;
    if (head.key_bytes != key->length || memcmp(body, key->text, key->length) != 0)
        return NULL;
    *bytes = (size_t)head.binary_bytes;
    return (const unsigned char *)body + head.key_bytes;
}

cl_int ocl_build_binary(const ocl_device *device, const unsigned char *binary, size_t bytes,
                        const char *options, cl_program *out)
{
    cl_int code, taken = CL_SUCCESS;
    cl_program program =
        clCreateProgramWithBinary(device->context, 1, &device->id, &bytes, &binary, &taken, &code);
    *out = code == CL_SUCCESS ? program : NULL;
    if (code != CL_SUCCESS || taken != CL_SUCCESS)
        return code != CL_SUCCESS ? code : taken;
    return clBuildProgram(program, 1, &device->id, options, NULL, NULL);
}

/* Whether it is a regular file of this user to which no other user may write. store() makes such files with
 * any umask. */
static bool trusted(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid() &&
           (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

static cl_program load(ocl_device *device, const clt_str *key, const char *path, const char *options)
{
    CLT_FREED char *data = NULL;
    size_t size, bytes = 0;
    CLT_SCOPED(cl_program) program = NULL;
    if (!trusted(path) || clt_file_read(path, false, LIMIT, CLT_ESTORAGE, &data, &size) != CLT_OK)
        return NULL; /* the usual case: the program is not in the cache yet */
    const unsigned char *binary = binary_in(data, size, key, &bytes);
    if (binary != NULL && ocl_build_binary(device, binary, bytes, options, &program) == CL_SUCCESS &&
        program != NULL) {
        (void)utimensat(AT_FDCWD, path, NULL, 0); /* recently used, so trimmed last */
        return CLT_TAKE(program);
    }
    CLT_DEBUG("a kept binary was removed (%s): %s",
              binary != NULL ? "the driver does not take it" : "damaged or of another program", path);
    (void)unlink(path);
    count_refused(device);
    return NULL;
}

int ocl_binary_turns(const ocl_device *device)
{
    return device->binaries != NULL ? device->binaries->turns : -1;
}

bool ocl_binary_known(const ocl_device *device, const char *source, const char *full_options, uint64_t *hash)
{
    const ocl_binary_cache *cache = device->binaries;
    CLT_SCOPED(clt_str) key = {0};
    CLT_FREED char *path = NULL;
    bool known = cache != NULL && cache->readable && make_key(cache, source, full_options, &key) == CLT_OK &&
                 path_of(cache, &key, &path) == CLT_OK && trusted(path);
    *hash = hash_of(&key);
    clt_error_clear();
    return known;
}

cl_program ocl_binary_load(ocl_device *device, const char *source, const char *full_options)
{
    const ocl_binary_cache *cache = device->binaries;
    CLT_SCOPED(clt_str) key = {0};
    CLT_FREED char *path = NULL;
    cl_program program = NULL;
    if (cache == NULL || !cache->readable || cache->marks)
        return NULL;
    if (make_key(cache, source, full_options, &key) == CLT_OK && path_of(cache, &key, &path) == CLT_OK)
        program = load(device, &key, path, full_options);
    clt_error_clear();
    return program;
}

/* Writing */

/* The content of a file: header, key and binary; free() it. */
static clt_status file_of(const clt_str *key, cl_program program, char **out, size_t *size)
{
    size_t bytes = 0;
    file_head head = {.key_bytes = key->length};
    OCL_CHECK(clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof bytes, &bytes, NULL),
              "asking for the size of a program's binary");
    if (bytes == 0)
        CLT_FAIL(CLT_EUNSUPPORTED, "the driver returns no binary");
    *size = sizeof head + key->length + bytes;
    CLT_TRY(
        /* one byte more, because some drivers append a NUL to a text */
        clt_alloc(out, *size + 1, 1, "a program's binary"));
    char *body = *out + sizeof head;
    unsigned char *binary = (unsigned char *)body + key->length;
    memcpy(body, key->text, key->length);
    OCL_CHECK(clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL),
              "asking for a program's binary");
    memcpy(head.magic, magic, sizeof magic);
    head.binary_bytes = bytes;
    head.hash = clt_hash64(body, *size - sizeof head);
    memcpy(*out, &head, sizeof head);
    return CLT_OK;
}

static clt_status write_mark(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || close(fd) != 0)
        CLT_FAIL(CLT_ESTORAGE, "'%s' cannot be made", path);
    return CLT_OK;
}

static clt_status store(const ocl_binary_cache *cache, const char *source, const char *options,
                        cl_program program)
{
    CLT_SCOPED(clt_str) key = {0};
    CLT_FREED char *path = NULL;
    CLT_FREED char *data = NULL;
    size_t size = 0;
    CLT_TRY(make_key(cache, source, options, &key));
    CLT_TRY(path_of(cache, &key, &path));
    if (cache->marks) {
        CLT_TRY(write_mark(path));
    } else {
        CLT_TRY(file_of(&key, program, &data, &size));
        CLT_TRY(clt_file_write(path, data, size));
    }
    if (chmod(path, 0600) != 0)
        CLT_FAIL(CLT_ESTORAGE, "'%s' cannot be made private", path);
    return CLT_OK;
}

void ocl_binary_store(ocl_device *device, const char *source, const char *full_options, cl_program program)
{
    ocl_binary_cache *cache = device->binaries;
    if (cache == NULL)
        return;
    pthread_mutex_lock(&device->lock);
    bool writable = cache->writable;
    pthread_mutex_unlock(&device->lock);
    if (!writable)
        return;
    clt_status status = store(cache, source, full_options, program);
    pthread_mutex_lock(&device->lock);
    cache->wrote = cache->wrote || status == CLT_OK;
    cache->writable = cache->writable && status == CLT_OK; /* after a failure nothing more is written */
    pthread_mutex_unlock(&device->lock);
    if (status != CLT_OK)
        CLT_DEBUG("binaries of programs are not kept from here on: %s", clt_error_text());
    clt_error_clear();
}

/* Trimming */

typedef struct kept_file {
    char name[64];
    uint64_t bytes;
    struct timespec used;
} kept_file;

static int by_use(const void *a, const void *b)
{
    const kept_file *x = a, *y = b;
    if (x->used.tv_sec != y->used.tv_sec)
        return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
    if (x->used.tv_nsec != y->used.tv_nsec)
        return x->used.tv_nsec < y->used.tv_nsec ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Lists the cache's files and removes temporary ones whose writer is dead. free() the array. */
static size_t list_files(DIR *folder, kept_file **out)
{
    kept_file *files = NULL;
    size_t count = 0, capacity = 0;
    time_t now = time(NULL);
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        struct stat info;
        const char *name = entry->d_name;
        if (fstatat(dirfd(folder), name, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(info.st_mode))
            continue;
        if ((strstr(name, TEMPORARY) != NULL && now - info.st_mtime > STALE_SECONDS) ||
            (clt_ends_with(name, MARK) && now - info.st_mtime > MARK_SECONDS))
            (void)unlinkat(dirfd(folder), name, 0);
        if (!clt_ends_with(name, SUFFIX) || strlen(name) >= sizeof files->name)
            continue;
        if (clt_grow(&files, &capacity, count + 1, sizeof *files, "the list of binaries") != CLT_OK) {
            clt_error_clear(); /* keep the caller's error, which matters more */
            break;
        }
        kept_file *file = &files[count++];
        snprintf(file->name, sizeof file->name, "%s", name);
        file->bytes = (uint64_t)info.st_size;
        file->used = info.st_mtim;
    }
    *out = files;
    return count;
}

void ocl_binary_cache_trim(const char *path, uint64_t limit)
{
    kept_file *files = NULL;
    uint64_t bytes = 0;
    DIR *folder = opendir(path);
    if (folder == NULL)
        return;
    size_t count = list_files(folder, &files);
    for (size_t i = 0; i < count; i++)
        bytes += files[i].bytes;
    if (count > 0)
        qsort(files, count, sizeof *files, by_use);
    for (size_t i = 0; i < count && bytes > limit; i++)
        if (unlinkat(dirfd(folder), files[i].name, 0) == 0)
            bytes -= files[i].bytes;
    free(files);
    closedir(folder);
}
