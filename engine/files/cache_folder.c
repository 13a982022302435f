/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the user's cache folder for a kind of file, and makes and checks private folders. It must not know
 * what is cached. */
#include "engine/files/cache_folder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/mem.h"
#include "engine/files/fileio.h"
#include "engine/files/fileio_error.h"

static bool is_set(const char *value)
{
    return value != NULL && value[0] != '\0';
}

clt_status clt_cache_folder(const char *kind, char **out)
{
    const char *own = getenv("CLTRAIN_CACHE_DIR"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    clt_str path = {0};
    *out = NULL;
    if (is_set(own))
        clt_str_printf(&path, "%s/%s", own, kind);
    else if (cache != NULL && cache[0] == '/') /* the XDG specification: a relative path is ignored */
        clt_str_printf(&path, "%s/cltrain/%s", cache, kind);
    else if (home != NULL && home[0] == '/')
        clt_str_printf(&path, "%s/.cache/cltrain/%s", home, kind);
    else
        CLT_FAIL(
            CLT_ESTORAGE,
            "looking for the cache folder '%s': none of CLTRAIN_CACHE_DIR, XDG_CACHE_HOME and HOME names "
            "a folder; set one of them",
            kind);
    return clt_str_take(&path, out);
}

clt_status clt_private_folder_check(const char *folder)
{
    struct stat info;
    if (stat(folder, &info) != 0)
        return clt_fail_errno(CLT_ESTORAGE, errno, "looking at '%s'", folder);
    if (!S_ISDIR(info.st_mode))
        CLT_FAIL(CLT_ESTORAGE, "'%s' is not a folder; remove it", folder);
    if (info.st_uid != geteuid())
        CLT_FAIL(
            CLT_ESTORAGE,
            "'%s' belongs to the user with the number %lu, who may write into it; name another folder with "
            "CLTRAIN_CACHE_DIR",
            folder, (unsigned long)info.st_uid);
    if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        CLT_FAIL(CLT_ESTORAGE,
                 "other users may write into '%s'; take that right away (chmod 700), or name another folder "
                 "with CLTRAIN_CACHE_DIR",
                 folder);
    return CLT_OK;
}

clt_status clt_private_folder_make(const char *folder)
{
    CLT_FREED char *parent = strdup(folder);
    if (parent == NULL)
        CLT_FAIL(CLT_ENOMEM, "creating '%s': out of host memory", folder);
    char *slash = strrchr(parent, '/');
    if (slash != NULL && slash != parent) {
        *slash = '\0';
        CLT_TRY(clt_mkdir_p(parent));
    }
    if (mkdir(folder, 0700) != 0 && errno != EEXIST)
        return clt_fail_errno(CLT_ESTORAGE, errno, "creating the folder '%s'", folder);
    return clt_private_folder_check(folder);
}

clt_status clt_cache_file(const char *kind, const char *name, char **out)
{
    CLT_FREED char *folder = NULL;
    *out = NULL;
    CLT_TRY(clt_cache_folder(kind, &folder));
    CLT_TRY(clt_private_folder_make(folder));
    return clt_path_join(folder, name, out);
}
