/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists, measures and clears the caches of cltrain and of drivers. It knows the names of cached files, not
 * their content.
 */
#include "engine/host/cache_list.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/mem.h"
#include "engine/base/text.h"
#include "engine/files/cache_folder.h"
#include "engine/files/fileio.h"
#include "engine/files/fileio_error.h"
#include "engine/files/pocl_cache.h"

#define MAX_DEPTH 12

typedef struct kind {
    const char *name, *purpose;
    clt_cache_owner owner;
    /* for a driver: the environment variable that names its cache folder; NULL: none */
    const char *variable;
    /* for a driver: its default folder, below the user's cache folder, or below HOME if it begins with '/' */
    const char *folder;
    bool (*is_cached)(const char *entry, bool folder);
} kind;

/* "NAME.tmp-HASH-PID" (clt_temporary_name), or NAME.tmp-PID by older versions: a file that was left because
 * its process was killed while writing it. */
static bool is_temporary(const char *name)
{
    const char *mark = strstr(name, ".tmp-"), *id = mark ? mark + 5 : name;
    if (strspn(id, "0123456789abcdef") == 16 && id[16] == '-')
        id += 17;
    return mark && mark != name && *id && strspn(id, "0123456789") == strlen(id);
}

static bool is_program(const char *name, bool folder)
{
    return !folder && (clt_stem(name, ".program") || clt_stem(name, ".built") || is_temporary(name));
}

static bool is_record(const char *name, bool folder)
{
    return !folder && (clt_stem(name, ".json") || clt_stem(name, ".lock") || is_temporary(name));
}

static bool is_source(const char *name, bool folder)
{
    return !folder && (clt_stem(name, ".cl") || clt_stem(name, ".log") || is_temporary(name));
}

/* A folder whose name is a hash of 16 digits, or "new-XXXXXX" until it is complete. */
static bool is_icd_folder(const char *name, bool folder)
{
    size_t n = strlen(name);
    return folder &&
           ((n == 16 && strspn(name, "0123456789abcdef") == n) || (n == 10 && !strncmp(name, "new-", 4)));
}

/* Names of files that PoCL is writing begin with "tempfile". */
static bool is_pocls(const char *name, bool folder)
{
    return (folder && clt_pocl_folder_name(name)) || strncmp(name, "tempfile", 8) == 0;
}

/* A folder of copies, named by the first two digits of their names, or the file that counts bytes. */
static bool is_copy(const char *name, bool folder)
{
    return folder ? strlen(name) == 2 && strspn(name, "0123456789abcdef") == 2 : strcmp(name, "usage") == 0;
}

static const kind kinds[] = {
    {.name = "programs",
     .purpose = "built kernels, or marks of kernels that the driver keeps; built again",
     .is_cached = is_program},
    {.name = "answers",
     .purpose = "what each device can do; asked again if they are missing (some seconds)",
     .is_cached = is_record},
    {.name = "tuning",
     .purpose = "what 'cltrain tune' measured; without it shipped choices are used",
     .is_cached = is_record},
    {.name = "objects",
     .purpose = "copies of data from object storage; fetched again if they are missing",
     .is_cached = is_copy},
    {.name = "listing",
     .purpose = "which drivers load without a crash; tested again if this is missing",
     .is_cached = is_record},
    {.name = "icd", .purpose = "drivers that have no ICD file of their own", .is_cached = is_icd_folder},
    {.name = "crash",
     .purpose = "sources of kernels that a driver did not build, for reports",
     .is_cached = is_source},
    {.name = "pocl",
     .purpose = "kernels that PoCL, the driver for CPUs, has built",
     .owner = CLT_CACHE_DRIVER,
     .is_cached = is_pocls},
    {.name = "nvidia",
     .purpose = "programs that NVIDIA's driver has built, of all its users",
     .owner = CLT_CACHE_FOREIGN,
     .variable = "CUDA_CACHE_PATH",
     .folder = "/.nv/ComputeCache"},
    {.name = "intel",
     .purpose = "programs that Intel's GPU driver has built, of all its users",
     .owner = CLT_CACHE_FOREIGN,
     .variable = "NEO_CACHE_DIR",
     .folder = "neo_compiler_cache"},
    {.name = "mesa",
     .purpose = "programs that Mesa's drivers have built, graphics included",
     .owner = CLT_CACHE_FOREIGN,
     .variable = "MESA_SHADER_CACHE_DIR",
     .folder = "mesa_shader_cache"},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

int clt_cache_count(void)
{
    return KINDS;
}

const char *clt_cache_name(int index)
{
    return index >= 0 && index < KINDS ? kinds[index].name : NULL;
}

static const kind *find(const char *name)
{
    for (int i = 0; i < KINDS; i++)
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    return NULL;
}

/* The folder that PoCL uses: its own, or the one that pocl_cache.c chose instead. */
static clt_status pocl_folder(char **out)
{
    clt_pocl_folder folder;
    CLT_TRY(clt_pocl_folder_choose(false, &folder));
    *out = folder.path != NULL ? folder.path : folder.refused;
    if (folder.path != NULL)
        free(folder.refused);
    return CLT_OK;
}

static clt_status driver_folder(const kind *k, char **out)
{
    if (k->is_cached == is_pocls)
        return pocl_folder(out);
    const char *own = k->variable ? getenv(k->variable) : NULL;
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    clt_str path = {0};
    if (own && own[0] == '/')
        clt_str_append(&path, own);
    else if (k->folder[0] == '/' && home && home[0] == '/')
        clt_str_printf(&path, "%s%s", home, k->folder);
    else if (k->folder[0] != '/' && cache && cache[0] == '/')
        clt_str_printf(&path, "%s/%s", cache, k->folder);
    else if (k->folder[0] != '/' && home && home[0] == '/')
        clt_str_printf(&path, "%s/.cache/%s", home, k->folder);
    else
        CLT_FAIL(CLT_ESTORAGE, "looking for the cache of '%s': HOME names no folder; set it", k->name);
    return clt_str_take(&path, out);
}

/* Adds up files and bytes of `name` and everything below it. Links are not followed. */
static void measure(int parent, const char *name, int depth, uint64_t *files, uint64_t *bytes)
{
    struct stat info;
    if (fstatat(parent, name, &info, AT_SYMLINK_NOFOLLOW) != 0)
        return;
    if (!S_ISDIR(info.st_mode)) {
        *files += 1;
        *bytes += S_ISREG(info.st_mode) ? (uint64_t)info.st_size : 0;
        return;
    }
    int fd = depth < MAX_DEPTH ? openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    if (!folder && fd >= 0)
        close(fd);
    for (struct dirent *entry = folder ? readdir(folder) : NULL; entry; entry = readdir(folder))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            measure(dirfd(folder), entry->d_name, depth + 1, files, bytes);
    if (folder)
        closedir(folder);
}

static bool is_folder(int parent, const char *name)
{
    struct stat info;
    return fstatat(parent, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(info.st_mode);
}

/* Removes an entry whose size has been added to *files and *bytes; subtracts what could not be removed. */
static clt_status remove_one(int parent, const char *path, const char *name, uint64_t *files, uint64_t *bytes)
{
    uint64_t left_files = 0, left_bytes = 0;
    CLT_FREED char *whole = NULL;
    clt_status status = clt_path_join(path, name, &whole);
    if (status == CLT_OK)
        status = clt_remove_tree(whole);
    if (status != CLT_OK)
        measure(parent, name, 0, &left_files, &left_bytes);
    *files -= left_files < *files ? left_files : *files; /* another process may have added files */
    *bytes -= left_bytes < *bytes ? left_bytes : *bytes;
    return status;
}

/* Visits every entry that is a cached file or folder: adds up its size, and removes it if `remove` is set. An
 * entry that cannot be removed does not count; the walk continues, and the last failure is returned. */
static clt_status walk(const kind *k, const char *path, bool remove, uint64_t *files, uint64_t *bytes)
{
    clt_status status = CLT_OK;
    *files = *bytes = 0;
    DIR *folder = opendir(path);
    if (!folder)
        return remove && errno != ENOENT
                   ? clt_fail_errno(CLT_ESTORAGE, errno, "listing the folder '%s'", path)
                   : CLT_OK;
    for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder)) {
        const char *name = entry->d_name;
        bool dots = strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
        if (dots || (k->is_cached && !k->is_cached(name, is_folder(dirfd(folder), name))))
            continue;
        measure(dirfd(folder), name, 0, files, bytes);
        clt_status now = remove ? remove_one(dirfd(folder), path, name, files, bytes) : CLT_OK;
        status = now == CLT_OK ? status : now;
    }
    closedir(folder);
    return status;
}

clt_status clt_cache_look(int index, clt_cache *out)
{
    const kind *k = &kinds[index];
    *out = (clt_cache){.name = k->name, .purpose = k->purpose, .owner = k->owner};
    CLT_TRY(k->owner == CLT_CACHE_OURS ? clt_cache_folder(k->name, &out->path)
                                       : driver_folder(k, &out->path));
    return walk(k, out->path, false, &out->files, &out->bytes);
}

void clt_cache_free(clt_cache *cache)
{
    free(cache->path);
    *cache = (clt_cache){0};
}

clt_status clt_cache_clear(const clt_cache *cache, uint64_t *files, uint64_t *bytes)
{
    const kind *k = find(cache->name);
    *files = *bytes = 0;
    if (!k || k->owner == CLT_CACHE_FOREIGN)
        CLT_FAIL(
            CLT_EUSAGE,
            "the cache '%s' belongs to a driver whose other users need it; remove the folder '%s' by hand",
            cache->name, cache->path);
    if (k->owner == CLT_CACHE_OURS && clt_file_exists(cache->path))
        CLT_TRY(clt_private_folder_check(cache->path));
    CLT_TRY(walk(k, cache->path, true, files, bytes));
    if (k->owner == CLT_CACHE_OURS)
        (void)rmdir(cache->path); /* fails, as intended, if anything else is in the folder */
    return CLT_OK;
}
