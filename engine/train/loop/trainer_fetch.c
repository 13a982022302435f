/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run that goes on fetches from object storage at its start (checkpoint.upload): the newest complete
 * checkpoint and the texts of the run folder. Only rank 0 of a run with a folder does this. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/mem.h"
#include "engine/checkpoint/remote.h"
#include "engine/files/fileio.h"
#include "engine/files/fileio_error.h"
#include "engine/train/loop/trainer_loop.h"

#define LANES 4

/* The config is the last one: a folder that has it is a run's. */
const char *const clt_upload_texts[CLT_UPLOAD_TEXTS] = {"metrics.jsonl", "log.txt", "config.resolved.json"};

/* Step of the newest checkpoint in a folder; -1: it has none. */
static clt_status newest_here(const char *folder, int64_t *step)
{
    CLT_SCOPED(clt_file_list) steps = {0};
    *step = -1;
    if (!clt_checkpoint_exists(folder))
        return CLT_OK;
    CLT_TRY(clt_checkpoint_list(folder, &steps));
    for (size_t i = 0; i < steps.count; i++) {
        const char *name = strrchr(steps.name[i], '_');
        int64_t found = name ? strtoll(name + 1, NULL, 10) : -1;
        *step = found > *step ? found : *step;
    }
    return CLT_OK;
}

/* Downloads an object to a file that appears with its whole content or not at all. */
static clt_status download(clt_s3 *s3, const clt_s3_object *object, const char *path)
{
    CLT_SCOPED(clt_str) temporary = {0};
    clt_str_printf(&temporary, "%s.tmp-%ld", path, (long)getpid());
    CLT_TRY(clt_str_check(&temporary));
    CLT_TRY(clt_s3_download(s3, object, temporary.text, LANES));
    if (rename(temporary.text, path) != 0) {
        clt_status status =
            clt_fail_errno(CLT_ESTORAGE, errno, "renaming '%s' to '%s'", temporary.text, path);
        (void)unlink(temporary.text);
        return status;
    }
    return clt_fsync_parent(path);
}

/* Fetches a text of the run folder, if there is one. It replaces what is here, which is of an earlier time:
 * lines of metrics.jsonl that another machine has written would be lost otherwise, there as well. */
static clt_status fetch_text(clt_remote *remote, const char *folder, const char *name)
{
    CLT_SCOPED(clt_str) path = {0}, key = {0};
    const char *prefix = remote->address.prefix;
    clt_s3_object object;
    bool there = false;
    clt_str_printf(&path, "%s/%s", folder, name);
    clt_str_printf(&key, "%s%s%s", prefix, prefix[0] ? "/" : "", name);
    CLT_TRY(clt_str_check(&path));
    CLT_TRY(clt_str_check(&key));
    CLT_TRY(clt_s3_head(remote->s3, key.text, &object, &there));
    return there ? download(remote->s3, &object, path.text) : CLT_OK;
}

clt_status clt_upload_fetch(clt_loop *l, clt_remote *remote, int64_t *due)
{
    const char *folder = l->options->out_dir;
    const clt_remote_step *there = clt_remote_find(remote, -1);
    CLT_FREED char *checkpoints = NULL;
    char text[1400];
    int64_t here;
    CLT_TRY(newest_here(folder, &here));
    CLT_TRY(clt_path_join(folder, "checkpoints", &checkpoints));
    if (here >= 0 && (!there || there->step < here))
        *due = here;
    if (!there || there->step <= here)
        return CLT_OK;
    CLT_TRY(clt_mkdir_p(checkpoints));
    for (int i = 0; i < CLT_UPLOAD_TEXTS; i++)
        CLT_TRY(fetch_text(remote, folder, clt_upload_texts[i]));
    CLT_TRY(clt_remote_fetch(remote, there, checkpoints));
    snprintf(text, sizeof text, "fetched step %lld from %s", (long long)there->step,
             clt_config_string(l->options->config, "checkpoint.upload"));
    if (l->options->observer.message)
        l->options->observer.message(l->options->observer.context, text);
    return CLT_OK;
}
