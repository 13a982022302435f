/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens a checkpoint: a step folder, or the newest one in a run folder that verifies. Returns nothing before
 * every file is known to have the size and hash that the manifest gives. Opening never changes a folder. */
#include "engine/checkpoint/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/checkpoint/checkpoint_internal.h"
#include "engine/files/remote_files.h"
#include "engine/state/arenas.h"

static clt_status verify_content(const char *path, int version, const clt_manifest_file *file,
                                 const void *data, size_t size)
{
    if (size != file->bytes)
        CLT_FAIL(CLT_ECHECKPOINT,
                 "%s: has %zu bytes, its manifest says %" PRIu64 "; it was truncated or changed", path, size,
                 file->bytes);
    if (clt_manifest_sum(version, data, size) != file->sum)
        CLT_FAIL(CLT_ECHECKPOINT,
                 "%s: its content does not match the hash in its manifest; it was damaged or changed", path);
    return CLT_OK;
}

static clt_status verify_file(const char *folder, int version, const clt_manifest_file *file)
{
    CLT_FREED char *path = NULL;
    CLT_SCOPED(clt_mapping) mapping = {0};
    CLT_TRY(clt_path_join(folder, file->name, &path));
    CLT_TRY(clt_map_open(path, CLT_ECHECKPOINT, &mapping));
    CLT_TRY(verify_content(path, version, file, mapping.data, mapping.size));
    return clt_map_check_one(&mapping);
}

/* small: verifies only the files without tensors, which is quick. */
static clt_status verify_files(const char *folder, const clt_manifest *manifest, bool small)
{
    for (int i = 0; i < manifest->n_files; i++) {
        const clt_manifest_file *file = &manifest->files[i];
        bool tensors = strcmp(file->name, CLT_MODEL_FILE) == 0 || strcmp(file->name, CLT_OPTIMIZER_FILE) == 0;
        if (!small || !tensors)
            CLT_TRY(verify_file(folder, manifest->version, file));
    }
    return CLT_OK;
}

clt_status clt_checkpoint_verify(const char *folder)
{
    clt_manifest manifest;
    CLT_TRY(clt_manifest_read(folder, &manifest, NULL));
    return verify_files(folder, &manifest, false);
}

static clt_status open_tensors(const char *folder, const char *name, clt_safetensors **out)
{
    CLT_FREED char *path = NULL;
    CLT_TRY(clt_path_join(folder, name, &path));
    return clt_safetensors_open(path, out);
}

static clt_status open_state(const char *folder, clt_json_doc **out)
{
    CLT_FREED char *path = NULL;
    CLT_TRY(clt_path_join(folder, CLT_STATE_FILE, &path));
    return clt_json_parse_file(path, CLT_ECHECKPOINT, out);
}

/* tensors: opens and verifies the tensor files, too. Without them a checkpoint is still rejected if one of
 * its other files is damaged. */
static clt_status open_step(const char *folder, bool tensors, clt_checkpoint **out)
{
    CLT_SCOPED(clt_checkpoint) *checkpoint = NULL;
    CLT_TRY(clt_alloc(&checkpoint, 1, sizeof *checkpoint, "a checkpoint"));
    checkpoint->path = strdup(folder);
    if (!checkpoint->path)
        CLT_FAIL(CLT_ENOMEM, "opening checkpoint %s: out of host memory", folder);
    CLT_TRY(clt_alloc(&checkpoint->files, 1, sizeof *checkpoint->files, "a checkpoint"));
    CLT_TRY(clt_manifest_read(folder, checkpoint->files, &checkpoint->manifest));
    CLT_TRY(verify_files(folder, checkpoint->files, !tensors));
    checkpoint->step = checkpoint->files->step;
    if (tensors)
        CLT_TRY(open_tensors(folder, CLT_MODEL_FILE, &checkpoint->model));
    if (tensors && clt_manifest_find(checkpoint->files, CLT_OPTIMIZER_FILE))
        CLT_TRY(open_tensors(folder, CLT_OPTIMIZER_FILE, &checkpoint->optimizer));
    CLT_TRY(open_state(folder, &checkpoint->state));
    *out = CLT_TAKE(checkpoint);
    return CLT_OK;
}

void clt_checkpoint_close(clt_checkpoint *checkpoint)
{
    if (!checkpoint)
        return;
    clt_safetensors_close(checkpoint->model);
    clt_safetensors_close(checkpoint->optimizer);
    clt_json_destroy(checkpoint->state);
    clt_json_destroy(checkpoint->manifest);
    free(checkpoint->files);
    free(checkpoint->path);
    free(checkpoint);
}

/* The average of the tensor `name`, which the optimizer's file holds under a longer name; NULL: none. */
static const clt_named_tensor *find_average(const clt_checkpoint *checkpoint, const char *name)
{
    char average[300];
    snprintf(average, sizeof average, "%s%s", name, clt_arenas[CLT_ARENA_EMA].suffix);
    return checkpoint->optimizer ? clt_safetensors_find(checkpoint->optimizer, average) : NULL;
}

bool clt_checkpoint_values(const clt_checkpoint *checkpoint, const char *name, clt_values values,
                           clt_named_tensor *out)
{
    const clt_named_tensor *raw = clt_safetensors_find(checkpoint->model, name);
    const clt_named_tensor *average =
        raw && values == CLT_VALUES_AVERAGED ? find_average(checkpoint, name) : NULL;
    if (!raw)
        return false;
    *out = average ? *average : *raw;
    out->name = raw->name;
    return true;
}

bool clt_checkpoint_averages(const clt_checkpoint *checkpoint)
{
    bool found = false;
    for (int i = 0; i < clt_safetensors_count(checkpoint->model) && !found; i++)
        found = find_average(checkpoint, clt_safetensors_at(checkpoint->model, i)->name) != NULL;
    return found;
}

clt_status clt_checkpoint_whole(const clt_checkpoint *checkpoint)
{
    CLT_TRY(clt_safetensors_whole(checkpoint->model));
    return clt_safetensors_whole(checkpoint->optimizer);
}

/* Lists the step folders of a checkpoints folder or of a run folder. *folder is the folder that contains
 * them; the caller frees it. */
static clt_status find_steps(const char *path, char **folder, clt_step_list *list)
{
    CLT_TRY(clt_path_join(path, "checkpoints", folder));
    if (!clt_is_directory(*folder)) {
        size_t length = strlen(path);
        while (length > 1 && path[length - 1] == '/')
            length--;
        free(*folder);
        *folder = strndup(path, length);
        if (!*folder)
            CLT_FAIL(CLT_ENOMEM, "listing the checkpoints in '%s': out of host memory", path);
    }
    return clt_steps_list(*folder, CLT_STEP_COMPLETE, list);
}

bool clt_checkpoint_exists(const char *path)
{
    CLT_FREED char *folder = NULL;
    CLT_SCOPED(clt_step_list) list = {0};
    return find_steps(path, &folder, &list) != CLT_OK || list.count > 0;
}

clt_status clt_checkpoint_list(const char *path, clt_file_list *out)
{
    CLT_FREED char *folder = NULL;
    CLT_SCOPED(clt_step_list) list = {0};
    CLT_TRY(find_steps(path, &folder, &list));
    for (size_t i = 0; i < list.count; i++) {
        char *step = NULL;
        CLT_TRY(clt_path_join(folder, list.at[i].name, &step));
        CLT_TRY(clt_file_list_add(out, step));
    }
    return CLT_OK;
}

/* True if a failure means that the checkpoint is bad. If it only could not be read now, for instance because
 * a server refused, an older checkpoint must not be taken silently. */
static bool is_about_checkpoint(clt_status status)
{
    return status != CLT_ENOMEM && status != CLT_ESTORAGE && status != CLT_EINTERRUPTED;
}

/* With `tensors` a warning is logged for each checkpoint that is rejected. */
static clt_status open_newest(const char *folder, const clt_step_list *list, bool tensors,
                              clt_checkpoint **out)
{
    CLT_SCOPED(clt_str) reasons = {0};
    for (size_t i = list->count; i-- > 0;) {
        CLT_FREED char *path = NULL;
        CLT_TRY(clt_path_join(folder, list->at[i].name, &path));
        clt_status status = open_step(path, tensors, out);
        if (status == CLT_OK || !is_about_checkpoint(status))
            return status;
        if (tensors && clt_is_directory(path)) /* if not, a training that is still running has removed it */
            CLT_WARN("checkpoint %s is skipped: %s", list->at[i].name, clt_error_text());
        clt_str_printf(&reasons, "\n  %s", clt_error_text());
    }
    CLT_TRY(clt_str_check(&reasons));
    CLT_FAIL(CLT_ECHECKPOINT, "none of the %zu checkpoints in %s can be used:%s", list->count, folder,
             reasons.text);
}

/* True if the last component of the path, without trailing slashes, is step_N. */
static bool is_named_step(const char *path)
{
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    size_t begin = length;
    while (begin > 0 && path[begin - 1] != '/')
        begin--;
    return length - begin > 5 && strncmp(path + begin, "step_", 5) == 0;
}

/* True for a folder with model weights, as save_pretrained of transformers writes it. */
static bool holds_weights(const char *path)
{
    static const char *const names[] = {"model.safetensors", "model.safetensors.index.json"};
    bool found = false;
    for (int i = 0; i < 2 && !found; i++) {
        CLT_FREED char *file = NULL;
        found = clt_path_join(path, names[i], &file) == CLT_OK && clt_file_exists(file);
    }
    return found;
}

/* newest: receives the last step in the list, -1 if the list is empty. */
static clt_status open_listed(const char *path, bool tensors, int64_t *newest, clt_checkpoint **out)
{
    CLT_FREED char *folder = NULL;
    CLT_SCOPED(clt_step_list) list = {0};
    *newest = -1;
    CLT_TRY(find_steps(path, &folder, &list));
    if (list.count == 0)
        CLT_FAIL(CLT_ECHECKPOINT,
                 "opening a checkpoint: %s holds none (no folder step_N, here or in checkpoints/)%s", path,
                 holds_weights(path)
                     ? "; it holds weights of another program, and no run: 'cltrain generate' takes a folder "
                       "that save_pretrained wrote as it is; other commands take the run that 'cltrain "
                       "import FOLDER --out CONFIG' and then 'cltrain train CONFIG' make of it"
                     : "");
    *newest = list.at[list.count - 1].step;
    return clt_fail_prefix(open_newest(folder, &list, tensors, out), "opening a checkpoint");
}

static bool has_newer(const char *path, int64_t step)
{
    CLT_FREED char *folder = NULL;
    CLT_SCOPED(clt_step_list) list = {0};
    CLT_KEEP_ERROR();
    return find_steps(path, &folder, &list) == CLT_OK && list.count > 0 &&
           list.at[list.count - 1].step > step;
}

/* Opens the newest checkpoint of a run. If the training is still running, it may remove the listed
 * checkpoints before one of them is read, so the list is read again then. */
static clt_status open_in_run(const char *path, bool tensors, clt_checkpoint **out)
{
    int64_t newest;
    clt_status status = open_listed(path, tensors, &newest, out);
    for (int again = 0;
         status == CLT_ECHECKPOINT && newest >= 0 && again < CLT_READ_AGAIN && has_newer(path, newest);
         again++)
        status = open_listed(path, tensors, &newest, out);
    return status;
}

static bool has_file(const char *folder, const char *name)
{
    CLT_FREED char *path = NULL;
    return clt_path_join(folder, name, &path) == CLT_OK && clt_file_exists(path);
}

bool clt_checkpoint_named(const char *path)
{
    CLT_KEEP_ERROR();
    return clt_is_directory(path) &&
           (has_file(path, CLT_MANIFEST_FILE) || (is_named_step(path) && has_file(path, CLT_STATE_FILE)) ||
            clt_checkpoint_exists(path));
}

static clt_status find_checkpoint(const char *path, bool tensors, clt_checkpoint **out)
{
    *out = NULL;
    CLT_TRY(clt_remote_found(path, CLT_ECHECKPOINT));
    if (!clt_is_directory(path))
        CLT_FAIL(CLT_ECHECKPOINT, "opening checkpoint %s: %s", path,
                 clt_file_exists(path) ? "it is a file; name a run folder, or a folder step_N of one"
                                       : "there is no such folder");
    if (has_file(path, CLT_MANIFEST_FILE) || is_named_step(path))
        return clt_fail_prefix(open_step(path, tensors, out), "opening a checkpoint");
    return open_in_run(path, tensors, out);
}

clt_status clt_checkpoint_open(const char *path, clt_checkpoint **out)
{
    return find_checkpoint(path, true, out);
}

clt_status clt_checkpoint_peek(const char *path, clt_checkpoint **out)
{
    return find_checkpoint(path, false, out);
}

clt_status clt_checkpoint_text(const clt_checkpoint *checkpoint, const char *name, char **text,
                               size_t *length)
{
    const clt_manifest_file *file = clt_manifest_find(checkpoint->files, name);
    CLT_FREED char *path = NULL, *read = NULL;
    *text = NULL;
    *length = 0;
    if (!file)
        return CLT_OK;
    CLT_TRY(clt_path_join(checkpoint->path, name, &path));
    CLT_TRY(clt_file_read(path, false, CLT_CHECKPOINT_TEXT_MAX, CLT_ECHECKPOINT, &read, length));
    CLT_TRY(verify_content(path, checkpoint->files->version, file, read, *length));
    *text = CLT_TAKE(read);
    return CLT_OK;
}

int64_t clt_checkpoint_int(const clt_checkpoint *checkpoint, const char *key, int64_t missing)
{
    int64_t value = missing;
    (void)clt_json_int_within(clt_json_get(clt_json_root(checkpoint->state), key), 0, INT64_MAX, &value);
    return value;
}

/* Appends to a message why a run folder may not hold its best checkpoint. */
static clt_status why_not_here(const clt_checkpoint *newest, clt_str *out)
{
    CLT_FREED char *text = NULL;
    CLT_SCOPED(clt_json_doc) *doc = NULL;
    size_t length;
    CLT_TRY(clt_checkpoint_text(newest, "config.json", &text, &length));
    if (text)
        CLT_TRY(clt_json_parse(text, length, "config.json", CLT_ECHECKPOINT, &doc));
    const clt_json *keys = clt_json_get(clt_json_root(doc), "checkpoint"), *best = clt_json_get(keys, "best");
    const char *address = clt_json_string(clt_json_get(keys, "upload"));
    const bool keeps =
        clt_json_bool(best) || (clt_json_string(best)[0] != '\0' && !clt_json_is(best, "none"));
    if (!keeps)
        clt_str_printf(out, "; a training with checkpoint.best, for instance loss, keeps it");
    else if (address[0] && !clt_is_remote(newest->path))
        clt_str_printf(out, "; the run uploads to %s, where it may be: --best takes that address, too",
                       address);
    else
        clt_str_printf(out,
                       "; it may be in the folder where the run was saved before it was resumed or copied");
    return clt_str_check(out);
}

clt_status clt_checkpoint_best(const char *path, char *best, size_t size)
{
    CLT_SCOPED(clt_checkpoint) *newest = NULL;
    CLT_SCOPED(clt_str) why = {0};
    CLT_TRY(clt_checkpoint_peek(path, &newest));
    int64_t step = clt_checkpoint_int(newest, "best_step", -1);
    const char *slash = strrchr(newest->path, '/');
    const int folder = slash ? (int)(slash - newest->path) : 0;
    int n = snprintf(best, size, "%.*s%sstep_%" PRId64, folder, newest->path, slash ? "/" : "", step);
    if (step < 0)
        CLT_FAIL(CLT_ECHECKPOINT,
                 "the best checkpoint of '%s': checkpoint '%s' records no evaluation, or none since the run "
                 "was resumed without its best checkpoint",
                 path, newest->path);
    if (n >= 0 && (size_t)n < size && clt_is_directory(best))
        return CLT_OK;
    CLT_TRY(why_not_here(newest, &why));
    CLT_FAIL(CLT_ECHECKPOINT,
             "the best checkpoint of '%s': its best evaluation was after step %" PRId64
             ", whose checkpoint is not in '%.*s'%s",
             path, step, slash ? folder : 1, slash ? newest->path : ".", why.text);
}
