/* SPDX-License-Identifier: Apache-2.0
 *
 * Fetches from object storage what a resumed run needs at its start (checkpoint.upload): the newest complete
 * checkpoint and the texts of the run folder. Only rank 0 of a run with a folder does this. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/checkpoint/remote.h"
#include "engine/files/fileio.h"
#include "engine/files/fileio_error.h"
#include "engine/files/process.h"
#include "engine/train/loop/trainer_loop.h"

#define LANES 4

static int64_t step_of(const char *path)
{
    const char *name = strrchr(path, '_');
    return name ? strtoll(name + 1, NULL, 10) : -1;
}

/* Looks at the checkpoints in the local folder. *named: the newest step that has a folder; -1: none. *whole:
 * the newest checkpoint that verifies, opened; NULL: none. */
static clt_status look_here(const clt_run_options *o, int64_t *named, clt_checkpoint **whole)
{
    const char *folder = clt_resumed_name(o);
    CLT_SCOPED(clt_file_list) steps = {0};
    *named = -1;
    *whole = NULL;
    if (!clt_checkpoint_exists(folder))
        return CLT_OK;
    CLT_TRY(clt_checkpoint_list(folder, &steps));
    if (steps.count > 0)
        *named = step_of(steps.name[steps.count - 1]);
    clt_status status = clt_checkpoint_open(folder, whole);
    if (status == CLT_ECHECKPOINT)
        clt_error_clear();
    return status == CLT_ECHECKPOINT ? CLT_OK : status;
}

clt_status clt_upload_only_here(const clt_loop *l, int64_t **steps, size_t *count)
{
    CLT_SCOPED(clt_file_list) here = {0};
    *count = 0;
    CLT_TRY(clt_checkpoint_list(l->options->out_dir, &here));
    CLT_TRY(clt_alloc(steps, here.count + 1, sizeof **steps, "a list of checkpoints"));
    for (size_t i = 0; i < here.count; i++) {
        const int64_t step = step_of(here.name[i]);
        if (step <= l->run->first_step && !clt_upload_has(l, step))
            (*steps)[(*count)++] = step;
    }
    return CLT_OK;
}

/* Downloads an object to a file that appears with its whole content or not at all. */
static clt_status download(clt_s3 *s3, const clt_s3_object *object, const char *path)
{
    CLT_SCOPED(clt_str) temporary = {0};
    CLT_TRY(clt_temporary_name(path, "tmp", &temporary));
    CLT_TRY(clt_s3_download(s3, object, temporary.text, LANES));
    if (rename(temporary.text, path) != 0) {
        clt_status status =
            clt_fail_errno(CLT_ESTORAGE, errno, "renaming '%s' to '%s'", temporary.text, path);
        (void)unlink(temporary.text);
        return status;
    }
    return clt_fsync_parent(path);
}

/* Removes the temporary files of abandoned downloads of a text of the run folder. */
static void remove_abandoned(const char *folder, const char *text)
{
    CLT_SCOPED(clt_file_list) names = {0};
    CLT_SCOPED(clt_str) mark = {0};
    clt_str_printf(&mark, "%s.tmp-", text);
    if (clt_str_check(&mark) == CLT_OK && clt_is_directory(folder) &&
        clt_folder_names(folder, &names) == CLT_OK)
        for (size_t i = 0; i < names.count; i++) {
            CLT_FREED char *path = NULL;
            if (strncmp(names.name[i], mark.text, mark.length) == 0 &&
                clt_path_join(folder, names.name[i], &path) == CLT_OK &&
                clt_fetch_is_abandoned(path, names.name[i] + mark.length))
                (void)unlink(path);
        }
    clt_error_clear(); /* files that remain only use space */
}

/* Fetches a text of the run folder, if there is one. replace: overwrites the local file, which is older.
 * Otherwise the next upload of metrics.jsonl would lose lines that another machine has written. */
static clt_status fetch_text(clt_remote *remote, const char *folder, const char *name, bool replace)
{
    CLT_SCOPED(clt_str) path = {0}, key = {0};
    const char *prefix = remote->address.prefix;
    clt_s3_object object;
    bool there = false;
    clt_str_printf(&path, "%s/%s", folder, name);
    clt_str_printf(&key, "%s%s%s", prefix, prefix[0] ? "/" : "", name);
    CLT_TRY(clt_str_check(&path));
    CLT_TRY(clt_str_check(&key));
    remove_abandoned(folder, name);
    if (!replace && clt_file_exists(path.text))
        return CLT_OK;
    CLT_TRY(clt_s3_head(remote->s3, key.text, &object, &there));
    return there ? download(remote->s3, &object, path.text) : CLT_OK;
}

/* Downloads the newest intact checkpoint of object storage, if it is newer than step `from`. *step: its
 * step; -1: none. If all of them are damaged, that is an error only if `from` is -1, too. */
static clt_status fetch_intact(clt_remote *remote, const char *checkpoints, int64_t from, int64_t *step)
{
    clt_error newest = {.status = CLT_OK}, error;
    *step = -1;
    for (size_t i = remote->count; i-- > 0 && remote->steps[i].step > from;) {
        const clt_remote_step *s = &remote->steps[i];
        if (!s->complete)
            continue;
        clt_status status = clt_remote_fetch(remote, s, checkpoints, true);
        if (status == CLT_OK)
            *step = s->step;
        if (status != CLT_ECHECKPOINT)
            return status; /* a server that does not answer says nothing about the checkpoint */
        CLT_WARN("checkpoint.upload: step %" PRId64 " is skipped: %s", s->step, clt_error_text());
        clt_error_take(status, &error);
        newest = newest.status == CLT_OK ? error : newest;
    }
    return from >= 0 ? CLT_OK : clt_error_put(&newest);
}

clt_status clt_upload_fetch(clt_loop *l, clt_remote *remote, int64_t *due)
{
    const char *folder = l->options->out_dir;
    const clt_remote_step *there = clt_remote_find(remote, -1);
    CLT_FREED char *checkpoints = NULL;
    char text[1400];
    int64_t named, fetched;
    CLT_TRY(look_here(l->options, &named, &l->found));
    const int64_t whole = l->found ? l->found->step : -1;
    CLT_TRY(clt_path_join(folder, "checkpoints", &checkpoints));
    if (whole >= 0 && (!there || there->step < whole))
        *due = whole;
    if (!there || there->step <= whole)
        return CLT_OK;
    CLT_TRY(clt_mkdir_p(checkpoints));
    for (int i = 0; i < CLT_REMOTE_TEXTS; i++)
        CLT_TRY(fetch_text(remote, folder, clt_remote_texts[i], there->step > named));
    CLT_TRY(fetch_intact(remote, checkpoints, whole, &fetched));
    if (fetched < 0)
        return CLT_OK;
    clt_checkpoint_close(CLT_TAKE(l->found));
    snprintf(text, sizeof text, "fetched step %lld from %s", (long long)fetched,
             clt_config_string(l->options->config, "checkpoint.upload"));
    if (l->options->observer.message)
        l->options->observer.message(l->options->observer.context, text);
    return CLT_OK;
}
