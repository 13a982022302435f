/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a folder that appears complete or not at all. */
#include "engine/pretrained/new_folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/checkpoint/checkpoint.h"
#include "engine/files/fileio.h"
#include "engine/files/fileio_error.h"
#include "engine/files/remote_files.h"

/* Copies `folder` without trailing slashes; the caller frees it. */
static clt_status bare(const char *folder, char **out)
{
    size_t size = strlen(folder);
    while (size > 1 && folder[size - 1] == '/')
        size--;
    CLT_TRY(clt_alloc(out, size + 16, 1, "a folder's name"));
    memcpy(*out, folder, size);
    return CLT_OK;
}

static bool is_empty_folder(const char *path)
{
    DIR *dir = opendir(path);
    int entries = 0;
    while (dir && readdir(dir) && entries <= 2)
        entries++;
    if (dir)
        closedir(dir);
    return dir && entries <= 2; /* an empty folder has the entries "." and ".." */
}

/* Fails if the folder exists and is not empty. */
static clt_status check_free(const char *folder)
{
    const char *slash = strrchr(folder, '/'), *last = slash ? slash + 1 : folder;
    struct stat info;
    bool own_name = *last && strcmp(last, ".") != 0 && strcmp(last, "..") != 0;
    if (own_name && (lstat(folder, &info) != 0 || (S_ISDIR(info.st_mode) && is_empty_folder(folder))))
        return CLT_OK;
    CLT_FAIL(CLT_EUSAGE,
             "exporting to '%s': something exists there, and it is not overwritten; name a new folder, or "
             "remove it first",
             folder);
}

clt_status clt_new_folder_place(const char *folder)
{
    CLT_FREED char *path = NULL;
    CLT_TRY(clt_refuse_remote(folder));
    CLT_TRY(bare(folder, &path));
    CLT_TRY(check_free(path));
    return clt_export_check_outside(path);
}

static clt_status write_renamed(const char *folder, const char *temporary,
                                clt_status (*write)(void *, const char *), void *context)
{
    CLT_TRY(clt_mkdir_p(temporary));
    CLT_TRY(write(context, temporary));
    CLT_TRY(clt_fsync_path(temporary));
    CLT_TRY(check_free(folder));
    if (rename(temporary, folder) != 0)
        return clt_fail_errno(CLT_ESTORAGE, errno, "renaming '%s' to '%s'", temporary, folder);
    return clt_fsync_parent(folder);
}

clt_status clt_new_folder(const char *folder, clt_status (*write)(void *context, const char *temporary),
                          void *context)
{
    CLT_FREED char *path = NULL;
    CLT_SCOPED(clt_str) temporary = {0};
    CLT_TRY(clt_new_folder_place(folder));
    CLT_TRY(bare(folder, &path));
    CLT_TRY(clt_temporary_name(path, "tmp", &temporary));
    clt_status status = write_renamed(path, temporary.text, write, context);
    CLT_KEEP_ERROR();
    if (status != CLT_OK && clt_is_directory(temporary.text))
        (void)clt_remove_tree(temporary.text);
    return status;
}

clt_status clt_new_folder_text(const char *folder, const char *name, clt_str *text)
{
    CLT_FREED char *path = NULL;
    clt_str_append(text, "\n");
    CLT_TRY(clt_str_check(text));
    CLT_TRY(clt_path_join(folder, name, &path));
    return clt_file_write(path, text->text, text->length);
}
