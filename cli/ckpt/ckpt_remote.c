/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain ckpt get and gc: checkpoints in object storage. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/ckpt/ckpt.h"
#include "cli/screen/args.h"
#include "cli/screen/console.h"
#include "cli/screen/terminal.h"
#include "engine/base/text.h"
#include "engine/checkpoint/remote.h"
#include "engine/files/remote_files.h"

#define DAY_SECONDS 86400

/* --- get --- */

/* Locks a run folder, so that no training saves, removes older checkpoints or starts there during a fetch. */
static clt_status lock_folder(const char *out, clt_lock **lock)
{
    CLT_FREED char *path = NULL;
    CLT_TRY(clt_mkdir_p(out));
    CLT_TRY(clt_path_join(out, "lock", &path));
    return clt_fail_prefix(clt_lock_acquire(path, lock), "'%s' is in use, by a training or by another fetch",
                           out);
}

clt_status ckpt_get(cmd_context *context, int argc, char **argv)
{
    clt_s3_options storage = {.attempts = 0};
    CLT_SCOPED(clt_remote) *remote = NULL;
    CLT_SCOPED(clt_lock) *lock = NULL;
    CLT_FREED char *folder = NULL;
    const char *out = NULL;
    int64_t step = -1;
    char size[32];
    const args_option options[] = {
        ARGS_TEXT("--out", "DIR", out, "run folder that gets it, as DIR/checkpoints/step_N (required)"),
        ARGS_INT("--step", "N", step, 0, 1e18, "the checkpoint of step N (the newest complete one)"),
        CKPT_STORAGE(storage), ARGS_END};
    const args_usage usage = ARGS_USAGE(
        "ckpt get", "s3://BUCKET/PREFIX", 1, 1, options,
        "Copies a checkpoint from object storage into a run folder, and verifies it: each file has\n"
        "the size and the checksum that the manifest gives. A folder in which a run trains is refused.");
    args_result r;
    (void)context;
    ARGS_PARSE(&usage, argc, argv, &r);
    if (!out)
        CLT_FAIL(CLT_EUSAGE, "cltrain ckpt get: --out DIR is missing");
    CLT_TRY(clt_refuse_remote(out));
    CLT_TRY(clt_remote_open(r.operands[0], &storage, &remote));
    const clt_remote_step *found = clt_remote_find(remote, step);
    if (!found && step < 0)
        CLT_FAIL(CLT_ECHECKPOINT, "%s: there is no complete checkpoint", r.operands[0]);
    if (!found)
        CLT_FAIL(CLT_ECHECKPOINT, "%s: there is no checkpoint of step %" PRId64, r.operands[0], step);
    CLT_TRY(lock_folder(out, &lock));
    CLT_TRY(clt_path_join(out, "checkpoints", &folder));
    CLT_TRY(clt_remote_fetch(remote, found, folder, false));
    terminal_say("%s/step_%" PRId64 ": intact, %d file%s, %s\n", folder, found->step, found->files,
                 CLT_PLURAL(found->files), console_bytes(found->bytes, size, sizeof size));
    return CLT_OK;
}

/* --- verify --- */

clt_status ckpt_verify_remote(const char *address, const clt_s3_options *storage, int *all, int *damaged)
{
    CLT_SCOPED(clt_remote) *remote = NULL;
    char size[32];
    CLT_TRY(clt_remote_open(address, storage, &remote));
    if (remote->count == 0)
        CLT_FAIL(CLT_ECHECKPOINT, "%s: there are no checkpoints", address);
    for (size_t i = 0; i < remote->count; i++) {
        const clt_remote_step *s = &remote->steps[i];
        clt_status status = clt_remote_verify(remote, s, true);
        if (status != CLT_OK && status != CLT_ECHECKPOINT)
            return status; /* the error says nothing about the checkpoint */
        ++*all;
        *damaged += status != CLT_OK;
        if (status == CLT_OK)
            terminal_say("s3://%s/%s: intact, %d file%s, %s\n", remote->address.bucket, s->folder, s->files,
                         CLT_PLURAL(s->files), console_bytes(s->bytes, size, sizeof size));
        else
            terminal_say("s3://%s/%s: damaged: %s\n", remote->address.bucket, s->folder, clt_error_text());
    }
    return CLT_OK;
}

/* --- gc --- */

typedef struct collection {
    int64_t keep;
    bool dry;
    int64_t newest; /* step of the newest complete checkpoint; -1: there is none */
    int complete;   /* complete checkpoints seen so far, which are newer than the current one */
} collection;

/* Why a checkpoint must be deleted; NULL: it stays. Must be called for the newest checkpoint first, then for
 * older ones. */
static const char *reason(collection *c, const clt_remote_step *s)
{
    if (!s->complete)
        return s->step < c->newest ? "incomplete" : NULL;
    return c->keep > 0 && c->complete++ >= c->keep ? "older than the newest ones" : NULL;
}

static clt_status collect(clt_remote *remote, collection *c)
{
    const clt_remote_step *newest = clt_remote_find(remote, -1);
    char size[32];
    c->newest = newest ? newest->step : -1;
    for (size_t i = remote->count; i-- > 0;) {
        const clt_remote_step *s = &remote->steps[i];
        const char *why = reason(c, s);
        if (!why)
            continue;
        if (!c->dry)
            CLT_TRY(clt_remote_delete(remote, s));
        terminal_say("s3://%s/%s: %s (%s, %s)\n", remote->address.bucket, s->folder,
                     c->dry ? "would be deleted" : "deleted", why,
                     console_bytes(s->bytes, size, sizeof size));
    }
    return CLT_OK;
}

static clt_status abort_uploads(clt_remote *remote)
{
    int count;
    CLT_TRY(clt_remote_abort_old(remote, DAY_SECONDS, &count));
    if (count > 0)
        terminal_say("uploads that were never finished: %d aborted\n", count);
    return CLT_OK;
}

clt_status ckpt_gc(cmd_context *context, int argc, char **argv)
{
    clt_s3_options storage = {.attempts = 0};
    CLT_SCOPED(clt_remote) *remote = NULL;
    collection c = {.keep = 0};
    const args_option options[] = {
        ARGS_INT("--keep", "N", c.keep, 1, 1000000, "also delete complete checkpoints, all but the N newest"),
        ARGS_FLAG("--dry-run", c.dry, "only say what would be deleted"), CKPT_STORAGE(storage), ARGS_END};
    const args_usage usage = ARGS_USAGE(
        "ckpt gc", "s3://BUCKET/PREFIX", 1, 1, options,
        "Deletes from object storage what no one can use: incomplete checkpoints that are older than\n"
        "the newest complete one, and uploads of a run's files that were begun more than a day ago and "
        "never\n"
        "finished.");
    args_result r;
    (void)context;
    ARGS_PARSE(&usage, argc, argv, &r);
    CLT_TRY(clt_remote_open(r.operands[0], &storage, &remote));
    CLT_TRY(collect(remote, &c));
    return c.dry ? CLT_OK : abort_uploads(remote);
}
