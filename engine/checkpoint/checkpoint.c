/* SPDX-License-Identifier: Apache-2.0
 *
 * Saving a checkpoint so that at every moment, whatever fails, the folder contains complete checkpoints only:
 * all files are written to a temporary folder and synced to disk, then one rename gives the folder its name.
 * This file must not know what the tensors mean. */
#include "engine/checkpoint/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "engine/base/fileio_error.h"
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/checkpoint/checkpoint_internal.h"

/* --- free space --- */

static clt_status check_free_space(const char *folder, const clt_checkpoint_content *content)
{
    uint64_t texts = strlen(content->state_json) + 65536; /* headers and manifest */
    for (int i = 0; i < content->n_files; i++)
        texts += content->files[i].length;
    const uint64_t bytes = clt_named_tensors_bytes(content->model, content->n_model) +
                           clt_named_tensors_bytes(content->optimizer, content->n_optimizer) + texts;
    const uint64_t needed = bytes + bytes / 10;
    struct statvfs fs;
    if (statvfs(folder, &fs) != 0)
        return clt_fail_errno(CLT_ESTORAGE, errno, "asking for the free space of '%s'", folder);
    const uint64_t available = (uint64_t)fs.f_bavail * (uint64_t)fs.f_frsize;
    if (available < needed)
        CLT_FAIL(CLT_ESTORAGE,
                 "not enough disk space in %s: the checkpoint needs %" PRIu64
                 " MB (with a tenth in reserve), %" PRIu64
                 " MB are free; free some space, lower checkpoint.keep, or choose another run folder",
                 folder, needed / 1000000 + 1, available / 1000000);
    return CLT_OK;
}

/* --- what a killed save left behind --- */

/* step_N.tmp-PID is a checkpoint that was being written or deleted when the process was killed; it is
 * removed. step_N.old-PID is one that was being replaced: it gets its name back if its replacement is
 * missing. */
static clt_status clean_up(const char *folder)
{
    clt_step_list list = {0};
    clt_status status = clt_steps_list(folder, CLT_STEP_REMAINS, &list);
    clt_str path = {0}, name = {0};
    for (size_t i = 0; status == CLT_OK && i < list.count; i++) {
        path.length = name.length = 0;
        clt_str_printf(&path, "%s/%s", folder, list.at[i].name);
        clt_str_printf(&name, "%s/step_%" PRId64, folder, list.at[i].step);
        CLT_TRY_GOTO(clt_str_check(&path), done);
        CLT_TRY_GOTO(clt_str_check(&name), done);
        bool is_old = strstr(list.at[i].name, ".old-") != NULL;
        if (is_old && !clt_file_exists(name.text) && rename(path.text, name.text) == 0)
            CLT_WARN("%s was being replaced when its run ended; it is back in place", name.text);
        else
            status = clt_remove_tree(path.text);
    }
done:
    clt_str_free(&path);
    clt_str_free(&name);
    clt_steps_free(&list);
    return clt_fail_prefix(status, "removing what an interrupted save left in %s", folder);
}

void clt_checkpoint_tidy(const char *folder)
{
    if (clean_up(folder) != CLT_OK)
        CLT_WARN("%s", clt_error_text());
    clt_error_clear();
}

/* --- writing --- */

typedef struct target {
    const char *folder; /* of the checkpoint that is being written */
    clt_manifest manifest;
} target;

static clt_status note_file(target *t, const char *name, const char *path, uint64_t hash)
{
    struct stat info;
    if (stat(path, &info) != 0)
        return clt_fail_errno(CLT_ESTORAGE, errno, "asking for the size of '%s'", path);
    clt_manifest_file *file = &t->manifest.files[t->manifest.n_files++];
    (void)snprintf(file->name, sizeof file->name, "%s", name);
    file->bytes = (uint64_t)info.st_size;
    file->hash = hash;
    return CLT_OK;
}

static clt_status write_tensors(target *t, const char *name, const clt_named_tensor *tensors, int count)
{
    /* other readers of the format look for "pt": tensors are row-major and named as in PyTorch */
    static const char *const metadata[] = {"format", "pt"};
    char *path = NULL;
    uint64_t hash = 0;
    CLT_TRY(clt_path_join(t->folder, name, &path));
    clt_status status = clt_safetensors_write(path, tensors, count, metadata, 1, &hash);
    if (status == CLT_OK)
        status = note_file(t, name, path, hash);
    free(path);
    return status;
}

static clt_status write_text(target *t, const char *name, const char *text, size_t length, bool note)
{
    char *path = NULL;
    CLT_TRY(clt_path_join(t->folder, name, &path));
    clt_status status = clt_file_write(path, text, length);
    if (status == CLT_OK && note)
        status = note_file(t, name, path, clt_hash64(text, length));
    free(path);
    return status;
}

static clt_status write_manifest(target *t)
{
    clt_str text = {0};
    clt_status status = clt_manifest_print(&t->manifest, &text);
    if (status == CLT_OK)
        status = write_text(t, CLT_MANIFEST_FILE, text.text, text.length, false);
    clt_str_free(&text);
    return status;
}

static clt_status write_folder(const char *temporary, const clt_checkpoint_content *content)
{
    target t = {.folder = temporary};
    t.manifest.step = content->step;
    t.manifest.config_digest = clt_hash64(content->config_json, strlen(content->config_json));
    if (mkdir(temporary, 0777) != 0)
        return clt_fail_errno(CLT_ESTORAGE, errno, "creating the folder '%s'", temporary);
    CLT_TRY(write_tensors(&t, CLT_MODEL_FILE, content->model, content->n_model));
    if (content->n_optimizer > 0)
        CLT_TRY(write_tensors(&t, CLT_OPTIMIZER_FILE, content->optimizer, content->n_optimizer));
    CLT_TRY(write_text(&t, CLT_STATE_FILE, content->state_json, strlen(content->state_json), true));
    for (int i = 0; i < content->n_files; i++)
        CLT_TRY(
            write_text(&t, content->files[i].name, content->files[i].text, content->files[i].length, true));
    CLT_TRY(write_manifest(&t));
    return clt_fsync_path(temporary);
}

/* --- putting it in place --- */

/* Removes a folder that is no longer needed. A failure is only logged, since the next save tries again.
 * Returns `status` and keeps its message. */
static clt_status discard(const char *path, clt_status status)
{
    clt_error error;
    clt_error_take(status, &error);
    if (clt_is_directory(path) && clt_remove_tree(path) != CLT_OK)
        CLT_WARN("%s could not be removed: %s", path, clt_error_text());
    return clt_error_put(&error);
}

/* Renames `temporary` to `name`, which may exist. If the file system can exchange two folders, a complete
 * step_N exists at every moment. Otherwise the old folder is renamed first; after a crash clean_up() restores
 * it. */
static clt_status put_in_place(const char *temporary, const char *name)
{
    if (rename(temporary, name) == 0)
        return CLT_OK;
    if (errno != ENOTEMPTY && errno != EEXIST)
        return clt_fail_errno(CLT_ESTORAGE, errno, "renaming '%s' to '%s'", temporary, name);
    if (renameat2(AT_FDCWD, temporary, AT_FDCWD, name, RENAME_EXCHANGE) == 0)
        return discard(temporary, CLT_OK);
    clt_str old = {0};
    clt_str_printf(&old, "%s.old-%ld", name, (long)getpid());
    clt_status status = clt_str_check(&old);
    if (status == CLT_OK && rename(name, old.text) != 0)
        status = clt_fail_errno(CLT_ESTORAGE, errno, "moving '%s' aside", name);
    if (status == CLT_OK && rename(temporary, name) != 0) {
        status = clt_fail_errno(CLT_ESTORAGE, errno, "renaming '%s' to '%s'", temporary, name);
        (void)rename(old.text, name);
    } else if (status == CLT_OK) {
        status = discard(old.text, CLT_OK);
    }
    clt_str_free(&old);
    return status;
}

/* Renames the folder before its files are deleted, so that a half-deleted folder never has the name of a
 * checkpoint. */
static clt_status delete_checkpoint(const char *folder, const char *name)
{
    clt_str from = {0}, to = {0};
    clt_str_printf(&from, "%s/%s", folder, name);
    clt_str_printf(&to, "%s/%s.tmp-%ld", folder, name, (long)getpid());
    clt_status status = clt_str_check(&from);
    if (status == CLT_OK)
        status = clt_str_check(&to);
    if (status == CLT_OK && rename(from.text, to.text) != 0)
        status = clt_fail_errno(CLT_ESTORAGE, errno, "renaming '%s' to delete it", from.text);
    if (status == CLT_OK)
        status = clt_remove_tree(to.text);
    clt_str_free(&from);
    clt_str_free(&to);
    return status;
}

static bool kept_anyway(const clt_retention *r, int64_t step)
{
    return (r->major > 0 && step % r->major == 0) || step == r->best;
}

/* Deletes old checkpoints: kept are the one just written, the keep - 1 newest others, and those that the
 * retention rules keep. Failures are only logged, because the save itself has succeeded. */
static void retain(const char *folder, const char *written, int64_t step, const clt_retention *r)
{
    clt_step_list list = {0};
    clt_status status = clt_steps_list(folder, CLT_STEP_COMPLETE, &list);
    if (status == CLT_OK && list.count > (size_t)r->keep)
        status = clt_fail_prefix(clt_checkpoint_verify(written),
                                 "older checkpoints are kept, because the new one does not verify");
    int kept = 1;
    for (size_t i = list.count; status == CLT_OK && i-- > 0;) {
        if (list.at[i].step == step || kept_anyway(r, list.at[i].step))
            continue;
        if (kept < r->keep)
            kept++;
        else
            status = delete_checkpoint(folder, list.at[i].name);
    }
    if (status != CLT_OK)
        CLT_WARN("deleting old checkpoints of %s: %s", folder, clt_error_text());
    clt_steps_free(&list);
}

static clt_status save_as(const char *folder, const char *temporary, const char *name,
                          const clt_checkpoint_content *content, const clt_retention *retention)
{
    clt_status status = write_folder(temporary, content);
    if (status == CLT_OK)
        status = put_in_place(temporary, name);
    if (status != CLT_OK)
        return discard(temporary, status);
    CLT_TRY(clt_fsync_path(folder));
    if (retention->keep > 0)
        retain(folder, name, content->step, retention);
    return CLT_OK;
}

clt_status clt_checkpoint_save(const char *folder, const clt_checkpoint_content *content, int keep)
{
    clt_retention retention = {.keep = keep, .major = 0, .best = -1};
    return clt_checkpoint_save_retaining(folder, content, &retention);
}

clt_status clt_checkpoint_save_retaining(const char *folder, const clt_checkpoint_content *content,
                                         const clt_retention *retention)
{
    if (content->step < 0)
        CLT_FAIL(CLT_EINTERNAL, "saving a checkpoint into %s: step %" PRId64 " is negative", folder,
                 content->step);
    clt_str temporary = {0}, name = {0};
    clt_str_printf(&name, "%s/step_%" PRId64, folder, content->step);
    clt_str_printf(&temporary, "%s/step_%" PRId64 ".tmp-%ld", folder, content->step, (long)getpid());
    clt_status status;
    CLT_TRY_GOTO(clt_str_check(&name), done);
    CLT_TRY_GOTO(clt_str_check(&temporary), done);
    CLT_TRY_GOTO(clt_named_tensors_check_finite(content->model, content->n_model), done);
    CLT_TRY_GOTO(clt_named_tensors_check_finite(content->optimizer, content->n_optimizer), done);
    CLT_TRY_GOTO(clt_mkdir_p(folder), done);
    CLT_TRY_GOTO(clean_up(folder), done);
    CLT_TRY_GOTO(check_free_space(folder, content), done);
    CLT_TRY_GOTO(save_as(folder, temporary.text, name.text, content, retention), done);
done:
    clt_str_free(&name);
    clt_str_free(&temporary);
    return clt_fail_prefix(status, "saving the checkpoint of step %" PRId64, content->step);
}
