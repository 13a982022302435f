/* SPDX-License-Identifier: Apache-2.0
 *
 * Saving a checkpoint so that at every moment, whatever fails, the folder contains complete checkpoints
 * only: all files are written to a temporary folder and synced to disk, then one rename gives the folder its
 * name. This file must not know what the tensors mean. */
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

#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/checkpoint/checkpoint_internal.h"
#include "engine/files/crc64.h"
#include "engine/files/fileio_error.h"

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
    const bool small = needed < 1u << 20;
    const unsigned shift = small ? 10 : 20;
    if (available < needed)
        CLT_FAIL(CLT_ESTORAGE,
                 "not enough disk space in %s: the checkpoint needs %" PRIu64
                 " %s (with a tenth in reserve), %" PRIu64
                 " %s are free; free some space, lower checkpoint.keep, or choose another run folder",
                 folder, (needed >> shift) + 1, small ? "KiB" : "MiB", available >> shift,
                 small ? "KiB" : "MiB");
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

clt_status clt_checkpoint_temporary(const char *folder, int64_t step, const char *tag, clt_str *out)
{
    clt_str_printf(out, "%s/step_%" PRId64 ".tmp-%s", folder, step, tag);
    return clt_str_check(out);
}

typedef struct target {
    const char *folder; /* the temporary folder of the checkpoint that is being written */
    clt_manifest manifest;
} target;

static void note_file(target *t, const char *name, uint64_t bytes, uint64_t sum)
{
    clt_manifest_file *file = &t->manifest.files[t->manifest.n_files++];
    (void)snprintf(file->name, sizeof file->name, "%s", name);
    file->bytes = bytes;
    file->sum = sum;
}

/* Checks that all bytes of a tensor file have been written. */
static clt_status note_tensors(target *t, const clt_checkpoint_content *content, int index,
                               const clt_part *all)
{
    clt_tensor_file file;
    char *path = NULL;
    struct stat info;
    CLT_TRY(clt_tensor_file_make(content, index, &file));
    clt_status status = file.size ? clt_path_join(t->folder, file.name, &path) : CLT_OK;
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1; /* makes a network disk report the true size */
    if (path && (fd < 0 || fstat(fd, &info) != 0))
        status = clt_fail_errno(CLT_ESTORAGE, errno, "asking for the size of '%s'", path);
    else if (path && ((uint64_t)info.st_size != file.size || all->bytes[index] != file.size))
        status = clt_fail(CLT_ESTORAGE, __FILE__, __LINE__,
                          "%s: has %lld bytes, and %" PRIu64 " were written, instead of %" PRIu64, path,
                          (long long)info.st_size, all->bytes[index], file.size);
    else if (path)
        note_file(t, file.name, file.size, clt_crc64_whole(all->share[index], file.size));
    if (fd >= 0)
        (void)close(fd);
    clt_tensor_file_free(&file);
    free(path);
    return status;
}

static clt_status write_text(target *t, const char *name, const char *text, size_t length, bool note)
{
    char *path = NULL;
    CLT_TRY(clt_path_join(t->folder, name, &path));
    clt_status status = clt_own_file_write(path, text, length);
    if (status == CLT_OK && note)
        note_file(t, name, length, clt_manifest_sum(CLT_MANIFEST_VERSION, text, length));
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

/* Writes all files but the tensor files, which exist already. */
static clt_status complete_folder(const char *temporary, const clt_checkpoint_content *content,
                                  const clt_part *all)
{
    target t = {.folder = temporary};
    t.manifest.version = CLT_MANIFEST_VERSION;
    t.manifest.step = content->step;
    t.manifest.config_digest = clt_hash64(content->config_json, strlen(content->config_json));
    CLT_TRY(note_tensors(&t, content, 0, all));
    CLT_TRY(note_tensors(&t, content, 1, all));
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
 * step_N exists at every moment. Otherwise the old folder is renamed first; after a crash clean_up()
 * restores it. */
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

/* The number of checkpoints that delete_older() deletes. */
static size_t surplus(const clt_step_list *list, int64_t step, const clt_retention *r)
{
    size_t others = 0, room = (size_t)r->keep - 1;
    for (size_t i = 0; i < list->count; i++)
        others += list->at[i].step != step && !kept_anyway(r, list->at[i].step);
    return others > room ? others - room : 0;
}

/* Deletes all but `step`, the keep - 1 newest others, and checkpoints that another retention rule keeps. */
static clt_status delete_older(const char *folder, int64_t step, const clt_step_list *list,
                               const clt_retention *r)
{
    int kept = 1;
    clt_status status = CLT_OK;
    for (size_t i = list->count; status == CLT_OK && i-- > 0;) {
        if (list->at[i].step == step || kept_anyway(r, list->at[i].step))
            continue;
        if (kept < r->keep)
            kept++;
        else
            status = delete_checkpoint(folder, list->at[i].name);
    }
    return status;
}

bool clt_checkpoint_exceeds(const char *folder, int64_t step, const clt_retention *r)
{
    clt_step_list list = {0};
    bool exceeds = r->keep > 0;
    if (exceeds && clt_steps_list(folder, CLT_STEP_COMPLETE, &list) == CLT_OK)
        exceeds = surplus(&list, step, r) > 0;
    clt_error_clear();
    clt_steps_free(&list);
    return exceeds;
}

void clt_checkpoint_retain(const char *folder, int64_t step, const clt_retention *r, bool verified)
{
    clt_step_list list = {0};
    clt_str path = {0};
    if (r->keep <= 0)
        return;
    clt_status status = clt_steps_list(folder, CLT_STEP_COMPLETE, &list);
    clt_str_printf(&path, "%s/step_%" PRId64, folder, step);
    if (status == CLT_OK)
        status = clt_str_check(&path);
    bool deletes = status == CLT_OK && surplus(&list, step, r) > 0;
    if (deletes && !verified)
        status = clt_fail_prefix(clt_checkpoint_verify(path.text),
                                 "older checkpoints are kept, because the new one does not verify");
    if (status == CLT_OK && deletes)
        status = delete_older(folder, step, &list, r);
    if (status != CLT_OK)
        CLT_WARN("deleting old checkpoints of %s: %s", folder, clt_error_text());
    clt_str_free(&path);
    clt_steps_free(&list);
}

static clt_status make_tensor_files(const char *temporary, const clt_checkpoint_content *content,
                                    clt_part *part)
{
    clt_status status = clt_tensor_files_create(temporary, content, part);
    if (status == CLT_OK)
        status = clt_fsync_path(temporary);
    return status == CLT_OK ? CLT_OK : discard(temporary, status);
}

clt_status clt_checkpoint_begin(const char *folder, const char *tag, const clt_checkpoint_content *content,
                                clt_part *part)
{
    clt_str temporary = {0};
    clt_status status;
    *part = (clt_part){0};
    if (content->step < 0)
        CLT_FAIL(CLT_EINTERNAL, "saving a checkpoint into %s: step %" PRId64 " is negative", folder,
                 content->step);
    CLT_TRY_GOTO(clt_checkpoint_temporary(folder, content->step, tag, &temporary), done);
    CLT_TRY_GOTO(clt_mkdir_p(folder), done);
    CLT_TRY_GOTO(clean_up(folder), done);
    CLT_TRY_GOTO(check_free_space(folder, content), done);
    if (mkdir(temporary.text, 0777) != 0)
        status = clt_fail_errno(CLT_ESTORAGE, errno, "creating the folder '%s'", temporary.text);
    else
        status = make_tensor_files(temporary.text, content, part);
done:
    clt_str_free(&temporary);
    return clt_fail_prefix(status, "saving the checkpoint of step %" PRId64, content->step);
}

static clt_status place_as(const char *folder, const char *temporary, const char *name,
                           const clt_checkpoint_content *content, const clt_part *all)
{
    clt_status status = complete_folder(temporary, content, all);
    if (status == CLT_OK)
        status = put_in_place(temporary, name);
    if (status != CLT_OK)
        return discard(temporary, status);
    return clt_fsync_path(folder);
}

clt_status clt_checkpoint_place(const char *folder, const char *tag, const clt_checkpoint_content *content,
                                const clt_part *all)
{
    clt_str temporary = {0}, name = {0};
    clt_str_printf(&name, "%s/step_%" PRId64, folder, content->step);
    clt_status status = clt_str_check(&name);
    if (status == CLT_OK)
        status = clt_checkpoint_temporary(folder, content->step, tag, &temporary);
    if (status == CLT_OK)
        status = place_as(folder, temporary.text, name.text, content, all);
    clt_str_free(&name);
    clt_str_free(&temporary);
    return clt_fail_prefix(status, "saving the checkpoint of step %" PRId64, content->step);
}

void clt_checkpoint_discard(const char *folder, const char *tag, int64_t step)
{
    clt_str temporary = {0};
    clt_error kept;
    clt_error_take(CLT_EINTERNAL, &kept);
    if (clt_checkpoint_temporary(folder, step, tag, &temporary) == CLT_OK)
        (void)discard(temporary.text, CLT_OK);
    clt_str_free(&temporary);
    (void)clt_error_put(&kept);
}

/* --- saving by one process --- */

/* Writes every tensor as one piece. */
static clt_status write_whole(const char *folder, const char *tag, const clt_checkpoint_content *content,
                              clt_part *part)
{
    clt_tensor_piece *pieces;
    int n = content->n_model + content->n_optimizer;
    CLT_TRY(clt_alloc(&pieces, (size_t)n + 1, sizeof *pieces, "checkpoint"));
    for (int i = 0; i < n; i++) {
        const clt_named_tensor *tensor =
            i < content->n_model ? &content->model[i] : &content->optimizer[i - content->n_model];
        pieces[i] = (clt_tensor_piece){
            .tensor = i, .count = (uint64_t)clt_shape_elements(&tensor->shape), .data = tensor->data};
    }
    clt_status status = clt_checkpoint_write_part(folder, tag, content, pieces, n, part);
    free(pieces);
    return status;
}

clt_status clt_checkpoint_save(const char *folder, const clt_checkpoint_content *content, int keep)
{
    clt_retention retention = {.keep = keep, .major = 0, .best = -1};
    return clt_checkpoint_save_retaining(folder, content, &retention);
}

clt_status clt_checkpoint_save_retaining(const char *folder, const clt_checkpoint_content *content,
                                         const clt_retention *retention)
{
    char tag[32];
    clt_part part;
    (void)snprintf(tag, sizeof tag, "%ld", (long)getpid());
    CLT_TRY(clt_checkpoint_begin(folder, tag, content, &part));
    clt_status status = write_whole(folder, tag, content, &part);
    if (status != CLT_OK)
        clt_checkpoint_discard(folder, tag, content->step);
    CLT_TRY(status);
    CLT_TRY(clt_checkpoint_place(folder, tag, content, &part));
    clt_checkpoint_retain(folder, content->step, retention, false);
    return CLT_OK;
}
