/* SPDX-License-Identifier: Apache-2.0
 *
 * Saves a checkpoint so that at every moment, whatever fails, the folder contains complete checkpoints only:
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

#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/checkpoint/checkpoint_internal.h"
#include "engine/files/crc64.h"
#include "engine/files/fileio_error.h"
#include "engine/files/process.h"

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
    const bool small = needed < 1u << 20, little = available < 1u << 20;
    if (available < needed)
        CLT_FAIL(CLT_ESTORAGE,
                 "not enough disk space in %s: the checkpoint needs %" PRIu64
                 " %s (with a tenth in reserve), %" PRIu64
                 " %s are free; free some space, lower checkpoint.keep, or choose another run folder",
                 folder, (needed >> (small ? 10 : 20)) + 1, small ? "KiB" : "MiB",
                 available >> (little ? 10 : 20), little ? "KiB" : "MiB");
    return CLT_OK;
}

/* --- what a killed save left behind --- */

/* step_N.tmp-PID is a checkpoint that was being written or deleted when the process was killed; it is
 * removed. step_N.old-PID is one that was being replaced: it gets its name back if its replacement is
 * missing. */
static clt_status remove_remains(const char *folder)
{
    CLT_SCOPED(clt_step_list) list = {0};
    CLT_TRY(clt_steps_list(folder, CLT_STEP_REMAINS, &list));
    for (size_t i = 0; i < list.count; i++) {
        CLT_FREED char *path = NULL, *name = NULL;
        CLT_TRY(clt_path_join(folder, list.at[i].name, &path));
        CLT_TRY(clt_checkpoint_folder(folder, list.at[i].step, &name));
        bool is_old = strstr(list.at[i].name, ".old-") != NULL;
        if (is_old && !clt_file_exists(name) && rename(path, name) == 0)
            CLT_WARN("%s was being replaced when its run ended; it is back in place", name);
        else
            CLT_TRY(clt_remove_tree(path));
    }
    return CLT_OK;
}

static clt_status clean_up(const char *folder)
{
    return clt_fail_prefix(remove_remains(folder), "removing what an interrupted save left in %s", folder);
}

void clt_checkpoint_tidy(const char *folder)
{
    if (clean_up(folder) != CLT_OK)
        CLT_WARN("%s", clt_error_text());
    clt_error_clear();
}

/* --- writing --- */

clt_status clt_checkpoint_temporary(const char *folder, int64_t step, const char *tag, char **out)
{
    char name[256];
    (void)snprintf(name, sizeof name, "step_%" PRId64 ".tmp-%s", step, tag);
    return clt_path_join(folder, name, out);
}

clt_status clt_checkpoint_folder(const char *folder, int64_t step, char **out)
{
    char name[32];
    (void)snprintf(name, sizeof name, "step_%" PRId64, step);
    return clt_path_join(folder, name, out);
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

/* Opens the file to get its size, because opening makes a network disk report the true size. */
static clt_status size_of(const char *path, uint64_t *size)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC), error = fd < 0 || fstat(fd, &info) != 0 ? errno : 0;
    if (fd >= 0)
        (void)close(fd);
    if (error)
        return clt_fail_errno(CLT_ESTORAGE, error, "asking for the size of '%s'", path);
    *size = (uint64_t)info.st_size;
    return CLT_OK;
}

/* Checks that all bytes of a tensor file have been written. */
static clt_status note_tensors(target *t, const clt_checkpoint_content *content, int index,
                               const clt_part *all)
{
    CLT_SCOPED(clt_tensor_file) file = {0};
    CLT_FREED char *path = NULL;
    uint64_t size = 0;
    CLT_TRY(clt_tensor_file_make(content, index, &file));
    if (!file.size)
        return CLT_OK;
    CLT_TRY(clt_path_join(t->folder, file.name, &path));
    CLT_TRY(size_of(path, &size));
    if (size != file.size || all->bytes[index] != file.size)
        CLT_FAIL(CLT_ESTORAGE,
                 "%s: has %" PRIu64 " bytes on disk, and %" PRIu64 " bytes were written, but %" PRIu64
                 " are needed",
                 path, size, all->bytes[index], file.size);
    note_file(t, file.name, file.size, clt_crc64_whole(all->share[index], file.size));
    return CLT_OK;
}

static clt_status write_text(target *t, const char *name, const char *text, size_t length, bool note)
{
    CLT_FREED char *path = NULL;
    CLT_TRY(clt_path_join(t->folder, name, &path));
    CLT_TRY(clt_own_file_write(path, text, length));
    if (note)
        note_file(t, name, length, clt_manifest_sum(CLT_MANIFEST_VERSION, text, length));
    return CLT_OK;
}

static clt_status write_manifest(target *t)
{
    CLT_SCOPED(clt_str) text = {0};
    CLT_TRY(clt_manifest_print(&t->manifest, &text));
    return write_text(t, CLT_MANIFEST_FILE, text.text, text.length, false);
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
    CLT_KEEP_ERROR();
    if (clt_is_directory(path) && clt_remove_tree(path) != CLT_OK)
        CLT_WARN("%s could not be removed: %s", path, clt_error_text());
    return status;
}

/* If the file system can exchange two folders, a complete step_N exists at every moment. Otherwise the old
 * folder is renamed first; after a crash clean_up() restores it. */
clt_status clt_checkpoint_put(const char *temporary, const char *name)
{
    if (rename(temporary, name) == 0)
        return CLT_OK;
    if (errno != ENOTEMPTY && errno != EEXIST)
        return clt_fail_errno(CLT_ESTORAGE, errno, "renaming '%s' to '%s'", temporary, name);
    if (renameat2(AT_FDCWD, temporary, AT_FDCWD, name, RENAME_EXCHANGE) == 0)
        return discard(temporary, CLT_OK);
    CLT_SCOPED(clt_str) old = {0};
    CLT_TRY(clt_temporary_name(name, "old", &old));
    if (rename(name, old.text) != 0)
        return clt_fail_errno(CLT_ESTORAGE, errno, "moving '%s' aside", name);
    if (rename(temporary, name) == 0)
        return discard(old.text, CLT_OK);
    clt_status status = clt_fail_errno(CLT_ESTORAGE, errno, "renaming '%s' to '%s'", temporary, name);
    (void)rename(old.text, name);
    return status;
}

static clt_status copy_file(const char *from, const char *to, const char *name)
{
    CLT_FREED char *source = NULL, *copy = NULL;
    CLT_SCOPED(clt_mapping) mapping = {0};
    CLT_TRY(clt_path_join(from, name, &source));
    CLT_TRY(clt_path_join(to, name, &copy));
    CLT_TRY(clt_map_open(source, CLT_ECHECKPOINT, &mapping));
    CLT_TRY(clt_own_file_write(copy, mapping.data, mapping.size));
    return clt_map_check_one(&mapping);
}

static clt_status copy_files(const char *from, int64_t step, const char *to)
{
    clt_manifest manifest;
    CLT_TRY(clt_manifest_read(from, &manifest, NULL));
    if (manifest.step != step)
        CLT_FAIL(CLT_ECHECKPOINT, "%s: it belongs to step %" PRId64 ", not to step %" PRId64, from,
                 manifest.step, step);
    CLT_TRY(clt_mkdir_p(to));
    for (int i = 0; i < manifest.n_files; i++)
        CLT_TRY(copy_file(from, to, manifest.files[i].name));
    CLT_TRY(copy_file(from, to, CLT_MANIFEST_FILE));
    return clt_checkpoint_verify(to);
}

clt_status clt_checkpoint_copy(const char *from, const char *folder, int64_t step)
{
    CLT_FREED char *place = NULL, *temporary = NULL;
    char mark[CLT_PROCESS_MARK], tag[sizeof mark + sizeof "copy-"];
    (void)snprintf(tag, sizeof tag, "copy-%s", clt_process_mark(mark));
    CLT_TRY(clt_checkpoint_folder(folder, step, &place));
    CLT_TRY(clt_checkpoint_temporary(folder, step, tag, &temporary));
    clt_status status = copy_files(from, step, temporary);
    if (status == CLT_OK)
        status = clt_checkpoint_put(temporary, place);
    if (status != CLT_OK)
        return discard(temporary, clt_fail_prefix(status, "copying '%s'", from));
    return clt_fsync_parent(place);
}

/* Renames the folder before its files are deleted, so that a half-deleted folder never has the name of a
 * checkpoint. */
static clt_status delete_checkpoint(const char *folder, const char *name)
{
    CLT_FREED char *from = NULL;
    CLT_SCOPED(clt_str) to = {0};
    CLT_TRY(clt_path_join(folder, name, &from));
    CLT_TRY(clt_temporary_name(from, "tmp", &to));
    if (rename(from, to.text) != 0)
        return clt_fail_errno(CLT_ESTORAGE, errno, "renaming '%s' to delete it", from);
    return clt_remove_tree(to.text);
}

bool clt_retention_keeps(const clt_retention *r, int64_t step)
{
    return (r->major > 0 && step % r->major == 0) || step == r->best ||
           (r->uploading > 0 && step == r->uploading);
}

/* The number of checkpoints that delete_older() deletes. */
static size_t surplus(const clt_step_list *list, int64_t step, const clt_retention *r)
{
    size_t others = 0, room = (size_t)r->keep - 1;
    for (size_t i = 0; i < list->count; i++)
        others += list->at[i].step != step && !clt_retention_keeps(r, list->at[i].step);
    return others > room ? others - room : 0;
}

/* Deletes all but `step`, the keep - 1 newest others, and checkpoints that another retention rule keeps. */
static clt_status delete_older(const char *folder, int64_t step, const clt_step_list *list,
                               const clt_retention *r)
{
    int kept = 1;
    for (size_t i = list->count; i-- > 0;) {
        if (list->at[i].step == step || clt_retention_keeps(r, list->at[i].step))
            continue;
        if (kept < r->keep)
            kept++;
        else
            CLT_TRY(delete_checkpoint(folder, list->at[i].name));
    }
    return CLT_OK;
}

bool clt_checkpoint_exceeds(const char *folder, int64_t step, const clt_retention *r)
{
    CLT_SCOPED(clt_step_list) list = {0};
    bool exceeds = r->keep > 0;
    if (exceeds && clt_steps_list(folder, CLT_STEP_COMPLETE, &list) == CLT_OK)
        exceeds = surplus(&list, step, r) > 0;
    clt_error_clear();
    return exceeds;
}

static clt_status retain(const char *folder, int64_t step, const clt_retention *r, bool verified)
{
    CLT_SCOPED(clt_step_list) list = {0};
    CLT_FREED char *path = NULL;
    CLT_TRY(clt_steps_list(folder, CLT_STEP_COMPLETE, &list));
    CLT_TRY(clt_checkpoint_folder(folder, step, &path));
    if (surplus(&list, step, r) == 0)
        return CLT_OK;
    if (!verified)
        CLT_TRY(clt_fail_prefix(clt_checkpoint_verify(path),
                                "older checkpoints are kept, because the new one does not verify"));
    return delete_older(folder, step, &list, r);
}

void clt_checkpoint_retain(const char *folder, int64_t step, const clt_retention *r, bool verified)
{
    if (r->keep > 0 && retain(folder, step, r, verified) != CLT_OK)
        CLT_WARN("deleting old checkpoints of %s: %s", folder, clt_error_text());
}

static clt_status make_tensor_files(const char *temporary, const clt_checkpoint_content *content,
                                    clt_part *part)
{
    clt_status status = clt_tensor_files_create(temporary, content, part);
    if (status == CLT_OK)
        status = clt_fsync_path(temporary);
    return status == CLT_OK ? CLT_OK : discard(temporary, status);
}

static clt_status begin(const char *folder, const char *tag, const clt_checkpoint_content *content,
                        clt_part *part)
{
    CLT_FREED char *temporary = NULL;
    CLT_TRY(clt_checkpoint_temporary(folder, content->step, tag, &temporary));
    CLT_TRY(clt_mkdir_p(folder));
    CLT_TRY(clean_up(folder));
    CLT_TRY(check_free_space(folder, content));
    if (mkdir(temporary, 0777) != 0)
        return clt_fail_errno(CLT_ESTORAGE, errno, "creating the folder '%s'", temporary);
    return make_tensor_files(temporary, content, part);
}

clt_status clt_checkpoint_begin(const char *folder, const char *tag, const clt_checkpoint_content *content,
                                clt_part *part)
{
    *part = (clt_part){0};
    if (content->step < 0)
        CLT_FAIL(CLT_EINTERNAL, "saving a checkpoint into %s: step %" PRId64 " is negative", folder,
                 content->step);
    return clt_fail_prefix(begin(folder, tag, content, part), "saving the checkpoint of step %" PRId64,
                           content->step);
}

static clt_status place(const char *folder, const char *tag, const clt_checkpoint_content *content,
                        const clt_part *all)
{
    CLT_FREED char *temporary = NULL, *name = NULL;
    CLT_TRY(clt_checkpoint_folder(folder, content->step, &name));
    CLT_TRY(clt_checkpoint_temporary(folder, content->step, tag, &temporary));
    clt_status status = complete_folder(temporary, content, all);
    if (status == CLT_OK)
        status = clt_checkpoint_put(temporary, name);
    if (status != CLT_OK)
        return discard(temporary, status);
    return clt_fsync_path(folder);
}

clt_status clt_checkpoint_place(const char *folder, const char *tag, const clt_checkpoint_content *content,
                                const clt_part *all)
{
    return clt_fail_prefix(place(folder, tag, content, all), "saving the checkpoint of step %" PRId64,
                           content->step);
}

void clt_checkpoint_discard(const char *folder, const char *tag, int64_t step)
{
    CLT_FREED char *temporary = NULL;
    CLT_KEEP_ERROR();
    if (clt_checkpoint_temporary(folder, step, tag, &temporary) == CLT_OK)
        (void)discard(temporary, CLT_OK);
}
