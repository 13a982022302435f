/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the files of tuning records, reads them with all checks, and replaces them by a rename. It must not
 * know what a record is about. */
#include "cl/tune/tuning_store.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/hash.h"
#include "engine/base/log.h"
#include "engine/files/cache_folder.h"
#include "engine/files/fileio.h"
#include "engine/files/fileio_error.h"

/* Places */

clt_status ocl_tuning_folder(char **out)
{
    return clt_cache_folder("tuning", out);
}

clt_status ocl_tuning_path(const ocl_device_desc *device, char **out)
{
    char *folder, name[OCL_DEVICE_FILE_NAME];
    *out = NULL;
    CLT_TRY(ocl_tuning_folder(&folder));
    ocl_device_file_name(device, name, sizeof name);
    clt_status status = clt_path_join(folder, name, out);
    free(folder);
    return status;
}

/* Reading */

static clt_status read_file(const char *path, ocl_tuning **out, int *outdated)
{
    char *text;
    size_t length;
    *out = NULL;
    struct stat info; /* checked first, since opening a pipe would block */
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        CLT_FAIL(CLT_EDATA, "%s: it is not a regular file", path);
    CLT_TRY(clt_file_read(path, false, OCL_TUNING_MAX_BYTES, CLT_EDATA, &text, &length));
    clt_status status = ocl_tuning_parse(text, length, path, out, outdated);
    free(text);
    return status;
}

/* Reads the device's file; NULL when there is none or it belongs to another device. */
static clt_status read_own(const ocl_device_desc *device, const char *folder, const char *path,
                           ocl_tuning **out)
{
    char why[OCL_NAME_SIZE * 3];
    int outdated = 0;
    *out = NULL;
    if (!clt_file_exists(path))
        return CLT_OK;
    CLT_TRY(clt_private_folder_check(folder));
    CLT_TRY(read_file(path, out, &outdated));
    if (!ocl_tuning_fits(*out, device, why, sizeof why) || (*out)->exact) {
        bool pinned = (*out)->exact;
        ocl_tuning_destroy(*out);
        *out = NULL;
        CLT_FAIL(CLT_EDATA, "%s: it is of %s", path, pinned ? "a checkpoint" : why);
    }
    if (outdated > 0)
        CLT_WARN("%d tuning records in %s are of other kernels than this cltrain has and are ignored; "
                 "'cltrain tune' measures again",
                 outdated, path);
    return CLT_OK;
}

/* Like read_own, but errors are logged (unless quiet) and ignored. */
static clt_status try_own(const ocl_device_desc *device, bool quiet, ocl_tuning **out)
{
    char *folder = NULL, *path = NULL;
    *out = NULL;
    clt_status status = ocl_tuning_folder(&folder);
    if (status == CLT_OK)
        status = ocl_tuning_path(device, &path);
    if (status == CLT_ESTORAGE) { /* without a cache folder there is nothing to report */
        CLT_DEBUG("%s", clt_error_text());
        clt_error_clear();
        status = CLT_OK;
    } else if (status == CLT_OK) {
        status = read_own(device, folder, path, out);
    }
    free(folder);
    free(path);
    if (status == CLT_OK || status == CLT_ENOMEM)
        return status;
    if (!quiet)
        CLT_WARN("tuning records are ignored: %s", clt_error_text());
    clt_error_clear();
    return CLT_OK;
}

clt_status ocl_tuning_add_shipped(ocl_tuning *tuning, const ocl_device_desc *device,
                                  const ocl_embedded_source *table)
{
    for (const ocl_embedded_source *s = table; s->name != NULL; s++) {
        char why[OCL_NAME_SIZE * 3];
        clt_json_doc *doc = NULL;
        ocl_tuning *shipped = NULL;
        clt_status status = clt_json_parse(s->text, s->length, s->name, CLT_EDATA, &doc);
        if (status == CLT_OK)
            status = ocl_tuning_read(clt_json_root(doc), s->name, &shipped, NULL);
        clt_json_destroy(doc);
        if (status == CLT_OK && ocl_tuning_fits(shipped, device, why, sizeof why))
            status = ocl_tuning_merge(tuning, shipped, false);
        ocl_tuning_destroy(shipped);
        if (status == CLT_ENOMEM)
            return status;
        if (status != CLT_OK) {
            CLT_WARN("tuning records that ship with cltrain are ignored: %s", clt_error_text());
            clt_error_clear();
        }
    }
    return CLT_OK;
}

clt_status ocl_tuning_load(const ocl_device_desc *device, ocl_tuning **out)
{
    ocl_tuning *own = NULL;
    *out = NULL;
    CLT_TRY(try_own(device, false, &own));
    clt_status status = own == NULL ? ocl_tuning_create(device, &own) : CLT_OK;
    if (status == CLT_OK)
        status = ocl_tuning_add_shipped(own, device, ocl_embedded_params);
    if (status != CLT_OK) {
        ocl_tuning_destroy(own);
        return status;
    }
    *out = own;
    return CLT_OK;
}

/* Changing */

#define LOCK_TRIES 200 /* tries, 10 ms apart; a save takes less than 10 ms */

/* Locks the folder, so that processes that save at the same time do not overwrite each other's records. The
 * wait is limited, in case the file system has no locks or the lock's holder is stopped. Returns the lock's
 * descriptor; below 0: none. */
static int lock_folder(const char *folder)
{
    const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; fd >= 0 && i < LOCK_TRIES && flock(fd, LOCK_EX | LOCK_NB) != 0; i++) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            break;
        (void)nanosleep(&pause, NULL);
    }
    return fd;
}

clt_status ocl_tuning_save(const ocl_device_desc *device, const ocl_tuning *records)
{
    char *folder = NULL, *path = NULL;
    ocl_tuning *all = NULL;
    clt_str text = {0};
    clt_status status = CLT_OK;
    int lock = -1;
    CLT_TRY_GOTO(ocl_tuning_folder(&folder), done);
    CLT_TRY_GOTO(ocl_tuning_path(device, &path), done);
    CLT_TRY_GOTO(clt_private_folder_make(folder), done);
    lock = lock_folder(folder);
    CLT_TRY_GOTO(try_own(device, true, &all), done);
    if (all == NULL)
        CLT_TRY_GOTO(ocl_tuning_create(device, &all), done);
    CLT_TRY_GOTO(ocl_tuning_merge(all, records, true), done);
    CLT_TRY_GOTO(ocl_tuning_print(all, &text), done);
    CLT_TRY_GOTO(clt_file_write(path, text.text, text.length), done);
done:
    if (lock >= 0)
        close(lock);
    clt_str_free(&text);
    ocl_tuning_destroy(all);
    free(folder);
    free(path);
    return clt_fail_prefix(status, "saving tuning records");
}

clt_status ocl_tuning_clear(const ocl_device_desc *device, bool *removed)
{
    char *path = NULL;
    *removed = false;
    CLT_TRY(ocl_tuning_path(device, &path));
    clt_status status = CLT_OK;
    if (unlink(path) == 0)
        *removed = true;
    else if (errno != ENOENT && errno != ENOTDIR)
        status = clt_fail_errno(CLT_ESTORAGE, errno, "removing '%s'", path);
    free(path);
    return status;
}

/* Listing */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Paths of the folder's .json files in order; a folder that does not exist holds none. */
static clt_status list_paths(const char *folder, char ***paths, size_t *count)
{
    size_t capacity = 0;
    clt_status status = CLT_OK;
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return errno == ENOENT || errno == ENOTDIR
                   ? CLT_OK
                   : clt_fail_errno(CLT_ESTORAGE, errno, "listing the folder '%s'", folder);
    const struct dirent *item;
    while (status == CLT_OK && (item = readdir(dir)) != NULL) {
        size_t length = strlen(item->d_name);
        if (length < 6 || strcmp(item->d_name + length - 5, ".json") != 0)
            continue;
        status = clt_grow(paths, &capacity, *count + 1, sizeof **paths, "a list of files");
        if (status == CLT_OK)
            status = clt_path_join(folder, item->d_name, &(*paths)[*count]);
        if (status == CLT_OK)
            (*count)++;
    }
    closedir(dir);
    if (*count > 1)
        qsort(*paths, *count, sizeof **paths, by_text);
    return status;
}

clt_status ocl_tuning_list(ocl_tuning_file_fn fn, void *context)
{
    char *folder = NULL, **paths = NULL;
    size_t count = 0;
    CLT_TRY(ocl_tuning_folder(&folder));
    clt_status status =
        /* the same check as for reading */
        clt_is_directory(folder) ? clt_private_folder_check(folder) : CLT_OK;
    if (status == CLT_OK)
        status = list_paths(folder, &paths, &count);
    for (size_t i = 0; i < count && status == CLT_OK; i++) {
        ocl_tuning *tuning;
        int outdated = 0;
        clt_status read = read_file(paths[i], &tuning, &outdated);
        fn(context, paths[i], tuning, outdated, read == CLT_OK ? NULL : clt_error_text());
        clt_error_clear();
        ocl_tuning_destroy(tuning);
        status = read == CLT_ENOMEM ? read : CLT_OK;
    }
    for (size_t i = 0; i < count; i++)
        free(paths[i]);
    free(paths);
    free(folder);
    return status;
}
