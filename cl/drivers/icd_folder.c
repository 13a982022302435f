/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes folders of ICD entries. The libraries named there are loaded into the process, so no other user may
 * be able to write to the folder or the one above it. This file must not know which drivers exist. */
#include "cl/drivers/icd_folder.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/hash.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/files/cache_folder.h"
#include "engine/files/fileio.h"
#include "engine/files/fileio_error.h"

/* Writes one ICD file into the folder. */
static clt_status write_entry(const char *folder, const ocl_icd_file *file)
{
    CLT_FREED char *path = NULL;
    CLT_SCOPED(clt_str) text = {0};
    CLT_TRY(clt_path_join(folder, file->name, &path));
    clt_str_printf(&text, "%s\n", file->library);
    CLT_TRY(clt_str_check(&text));
    return clt_file_write(path, text.text, text.length);
}

static clt_status write_files(const char *folder, const ocl_icd_file *files, size_t count)
{
    for (size_t i = 0; i < count; i++)
        CLT_TRY(write_entry(folder, &files[i]));
    return CLT_OK;
}

/* Whether the folder belongs to this user and contains these entries. Their texts are compared, because a
 * power failure may have left empty files. */
static bool holds_files(const char *folder, const ocl_icd_file *files, size_t count)
{
    bool same = clt_private_folder_check(folder) == CLT_OK;
    for (size_t i = 0; i < count && same; i++) {
        CLT_FREED char *path = NULL;
        CLT_FREED char *text = NULL;
        size_t size = 0, length = strlen(files[i].library);
        same = clt_path_join(folder, files[i].name, &path) == CLT_OK &&
               clt_file_read(path, false, 1 << 16, CLT_ESTORAGE, &text, &size) == CLT_OK &&
               size == length + 1 && memcmp(text, files[i].library, length) == 0;
    }
    clt_error_clear();
    return same;
}

static void hash_files(const ocl_icd_file *files, size_t count, char text[CLT_HASH64_TEXT])
{
    clt_hash64_state state;
    clt_hash64_begin(&state);
    for (size_t i = 0; i < count; i++) {
        clt_hash64_add(&state, files[i].name, strlen(files[i].name) + 1);
        clt_hash64_add(&state, files[i].library, strlen(files[i].library) + 1);
    }
    clt_hash64_text(clt_hash64_end(&state), text);
}

/* Renames a finished folder to its final name. Another process may meanwhile have made the same folder. */
static clt_status put_in_place(const char *made, const char *folder, const ocl_icd_file *files, size_t count)
{
    for (int i = 0; i < 2; i++) {
        int code = rename(made, folder) == 0 ? 0 : errno;
        if (code == 0 || holds_files(folder, files, count))
            return CLT_OK;
        if (code != ENOTEMPTY && code != EEXIST && code != ENOTDIR)
            return clt_fail_errno(CLT_ESTORAGE, code, "moving '%s' to '%s'", made, folder);
        CLT_TRY(clt_remove_tree(folder)); /* damaged */
    }
    CLT_FAIL(CLT_ESTORAGE, "the folder '%s' holds something else and cannot be replaced", folder);
}

static clt_status make_in_cache(const ocl_icd_file *files, size_t count, char **out)
{
    char hash[CLT_HASH64_TEXT];
    CLT_FREED char *above = NULL;
    CLT_FREED char *folder = NULL;
    CLT_FREED char *made = NULL;
    hash_files(files, count, hash);
    CLT_TRY(clt_cache_folder("icd", &above));
    CLT_TRY(clt_private_folder_make(above));
    CLT_TRY(clt_path_join(above, hash, &folder));
    if (!holds_files(folder, files, count)) {
        CLT_TRY(clt_path_join(above, "new-XXXXXX", &made));
        if (mkdtemp(made) == NULL)
            return clt_fail_errno(CLT_ESTORAGE, errno, "creating a folder in '%s'", above);
        clt_status status = write_files(made, files, count);
        if (status == CLT_OK)
            status = put_in_place(made, folder, files, count);
        CLT_KEEP_ERROR();
        if (clt_file_exists(made))
            (void)clt_remove_tree(made);
        CLT_TRY(status);
    }
    *out = CLT_TAKE(folder);
    return CLT_OK;
}

/* The temporary folder */

static char *to_remove;
static pid_t remover;

static void remove_folder(void)
{
    if (to_remove != NULL && remover == getpid()) /* a forked child does not remove it */
        (void)clt_remove_tree(to_remove);
}

static clt_status make_temporary(const ocl_icd_file *files, size_t count, char **out)
{
    const char *above = getenv("TMPDIR");
    CLT_FREED char *made = NULL;
    static bool registered;
    if (to_remove != NULL) { /* the loader has not read the previous one */
        remove_folder();
        free(to_remove);
        to_remove = NULL;
    }
    CLT_TRY(clt_path_join(above != NULL && above[0] == '/' ? above : "/tmp", "cltrain-icd-XXXXXX", &made));
    if (mkdtemp(made) == NULL)
        return clt_fail_errno(CLT_ESTORAGE, errno, "creating the temporary folder '%s'", made);
    clt_status status = write_files(made, files, count);
    if (status != CLT_OK) {
        CLT_KEEP_ERROR();
        (void)clt_remove_tree(made);
        return status;
    }
    to_remove = strdup(made);
    remover = getpid();
    if (!registered)
        registered = atexit(remove_folder) == 0;
    *out = CLT_TAKE(made);
    return CLT_OK;
}

clt_status ocl_icd_folder_make(const ocl_icd_file *files, size_t count, char **out)
{
    *out = NULL;
    clt_status status = make_in_cache(files, count, out);
    if (status == CLT_OK || status == CLT_ENOMEM)
        return status;
    CLT_DEBUG("ICD entries go into a temporary folder: %s", clt_error_text());
    clt_error_clear();
    return make_temporary(files, count, out);
}
