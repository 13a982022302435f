/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the files of tuning records, reads them with all checks, and replaces them by a rename. This file
 * must not know the meaning of a record. */
#include "cl/tune/tuning_store.h"

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
#include "engine/base/text.h"
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
    CLT_FREED char *folder = NULL;
    char name[OCL_DEVICE_FILE_NAME];
    *out = NULL;
    CLT_TRY(ocl_tuning_folder(&folder));
    ocl_device_file_name(device, name, sizeof name);
    return clt_path_join(folder, name, out);
}

/* Reading */

static clt_status read_file(const char *path, ocl_tuning **out, int *outdated)
{
    CLT_FREED char *text = NULL;
    size_t length;
    *out = NULL;
    struct stat info; /* checked first, because opening a pipe would block */
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
        CLT_FAIL(CLT_EDATA, "%s: it is not a regular file", path);
    CLT_TRY(clt_file_read(path, false, OCL_TUNING_MAX_BYTES, CLT_EDATA, &text, &length));
    return ocl_tuning_parse(text, length, path, out, outdated);
}

/* Reads the device's file; NULL if there is none. CLT_EDATA if it belongs to another device. */
static clt_status read_own(const ocl_device_desc *device, const char *folder, const char *path,
                           ocl_tuning **out)
{
    char why[OCL_NAME_SIZE * 3];
    int outdated = 0;
    CLT_SCOPED(ocl_tuning) *read = NULL;
    *out = NULL;
    if (!clt_file_exists(path))
        return CLT_OK;
    CLT_TRY(clt_private_folder_check(folder));
    CLT_TRY(read_file(path, &read, &outdated));
    if (!ocl_tuning_fits(read, device, why, sizeof why) || read->exact)
        CLT_FAIL(CLT_EDATA, "%s: its records are for %s", path, read->exact ? "a checkpoint" : why);
    if (outdated > 0)
        CLT_WARN("%d tuning records in %s were measured with other kernels and are ignored; 'cltrain tune' "
                 "measures again",
                 outdated, path);
    *out = CLT_TAKE(read);
    return CLT_OK;
}

/* Like read_own, but logs errors (unless quiet) and ignores them. */
static clt_status try_own(const ocl_device_desc *device, bool quiet, ocl_tuning **out)
{
    CLT_FREED char *folder = NULL, *path = NULL;
    *out = NULL;
    clt_status status = ocl_tuning_folder(&folder);
    if (status == CLT_OK)
        status = ocl_tuning_path(device, &path);
    if (status == CLT_ESTORAGE) { /* not reported, because without a cache folder there are no records */
        CLT_DEBUG("%s", clt_error_text());
        clt_error_clear();
        status = CLT_OK;
    } else if (status == CLT_OK) {
        status = read_own(device, folder, path, out);
    }
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
        CLT_SCOPED(clt_json_doc) *doc = NULL;
        CLT_SCOPED(ocl_tuning) *shipped = NULL;
        clt_status status = clt_json_parse(s->text, s->length, s->name, CLT_EDATA, &doc);
        if (status == CLT_OK)
            status = ocl_tuning_read(clt_json_root(doc), s->name, &shipped, NULL);
        if (status == CLT_OK && ocl_tuning_fits(shipped, device, why, sizeof why))
            status = ocl_tuning_merge(tuning, shipped, false);
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
    CLT_SCOPED(ocl_tuning) *own = NULL;
    *out = NULL;
    CLT_TRY(try_own(device, false, &own));
    if (own == NULL)
        CLT_TRY(ocl_tuning_create(device, &own));
    CLT_TRY(ocl_tuning_add_shipped(own, device, ocl_embedded_params));
    *out = CLT_TAKE(own);
    return CLT_OK;
}

/* Changing */

#define LOCK_TRIES 3000 /* number of tries, 10 ms apart; a save takes less than 10 ms on an idle machine */

/* Locks the folder, so that processes that save at the same time do not overwrite each other's records.
 * Waits only for a limited time, because the file system may have no locks, or the lock's holder may be
 * stopped. Returns the lock's descriptor; below 0: no lock. */
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

/* Adds the records to the device's file, in a folder that exists and is locked. */
static clt_status save_locked(const ocl_device_desc *device, const ocl_tuning *records, const char *path)
{
    CLT_SCOPED(ocl_tuning) *all = NULL;
    CLT_SCOPED(clt_str) text = {0};
    CLT_TRY(try_own(device, true, &all));
    if (all == NULL)
        CLT_TRY(ocl_tuning_create(device, &all));
    CLT_TRY(ocl_tuning_merge(all, records, true));
    CLT_TRY(ocl_tuning_print(all, &text));
    return clt_file_write(path, text.text, text.length);
}

static clt_status save(const ocl_device_desc *device, const ocl_tuning *records)
{
    CLT_FREED char *folder = NULL, *path = NULL;
    CLT_TRY(ocl_tuning_folder(&folder));
    CLT_TRY(ocl_tuning_path(device, &path));
    CLT_TRY(clt_private_folder_make(folder));
    int lock = lock_folder(folder);
    clt_status status = save_locked(device, records, path);
    if (lock >= 0)
        close(lock);
    return status;
}

clt_status ocl_tuning_save(const ocl_device_desc *device, const ocl_tuning *records)
{
    return clt_fail_prefix(save(device, records), "saving tuning records");
}

clt_status ocl_tuning_clear(const ocl_device_desc *device, bool *removed)
{
    CLT_FREED char *path = NULL;
    *removed = false;
    CLT_TRY(ocl_tuning_path(device, &path));
    if (unlink(path) == 0)
        *removed = true;
    else if (errno != ENOENT && errno != ENOTDIR)
        return clt_fail_errno(CLT_ESTORAGE, errno, "removing '%s'", path);
    return CLT_OK;
}

/* Listing */

/* Reads one file and passes the result to fn. */
static clt_status tell_file(const char *path, ocl_tuning_file_fn fn, void *context)
{
    CLT_SCOPED(ocl_tuning) *tuning = NULL;
    int outdated = 0;
    clt_status status = read_file(path, &tuning, &outdated);
    fn(context, path, tuning, outdated, status == CLT_OK ? NULL : clt_error_text());
    clt_error_clear();
    return status == CLT_ENOMEM ? status : CLT_OK;
}

clt_status ocl_tuning_list(ocl_tuning_file_fn fn, void *context)
{
    CLT_FREED char *folder = NULL;
    CLT_SCOPED(clt_file_list) files = {0};
    CLT_TRY(ocl_tuning_folder(&folder));
    if (!clt_is_directory(folder))
        return CLT_OK;
    CLT_TRY(clt_private_folder_check(folder)); /* as before reading the device's file */
    clt_status status = clt_folder_names(folder, &files);
    CLT_TRY(status == CLT_EDATA ? CLT_ESTORAGE : status); /* the folder is cltrain's own, not data */
    for (size_t i = 0; i < files.count; i++) {
        CLT_FREED char *path = NULL;
        if (!clt_ends_with(files.name[i], ".json"))
            continue;
        CLT_TRY(clt_path_join(folder, files.name[i], &path));
        CLT_TRY(tell_file(path, fn, context));
    }
    return CLT_OK;
}
