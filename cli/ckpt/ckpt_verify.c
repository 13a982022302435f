/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain ckpt verify: reads checkpoints or files of weights to their end. */
#include <inttypes.h>
#include <unistd.h>

#include "cli/ckpt/ckpt.h"
#include "cli/screen/args.h"
#include "cli/screen/console.h"
#include "cli/screen/terminal.h"
#include "engine/base/text.h"

/* Adds the tensors of one open file to the sums; CLT_ENUMERIC if a value is not finite. */
static clt_status read_file(const clt_safetensors *file, int *tensors, uint64_t *bytes)
{
    for (int i = 0; i < clt_safetensors_count(file); i++) {
        const clt_named_tensor *t = clt_safetensors_at(file, i);
        ++*tensors;
        if ((int)t->dtype >= (int)CLT_DTYPE_COUNT)
            continue;
        *bytes += clt_named_tensors_bytes(t, 1);
        CLT_TRY(clt_named_tensors_check_finite(t, 1));
    }
    return clt_safetensors_whole(file);
}

/* step: the path is a folder step_N, so it must be a checkpoint. */
static clt_status verify_one(const char *path, bool step)
{
    CLT_SCOPED(ckpt_opened) opened = {0};
    int tensors = 0;
    uint64_t bytes = 0;
    char size[32];
    CLT_TRY(step ? clt_checkpoint_open(path, &opened.checkpoint) : ckpt_open(path, &opened));
    for (int k = 0; k < CKPT_FILES; k++)
        if (ckpt_file(&opened, k))
            CLT_TRY(read_file(ckpt_file(&opened, k), &tensors, &bytes));
    terminal_say("%s: intact, %d tensor%s, %s\n", path, tensors, CLT_PLURAL(tensors),
                 console_bytes(bytes, size, sizeof size));
    return CLT_OK;
}

/* Counts the checked and the damaged items. */
typedef struct tally {
    int all, damaged;
} tally;

/* Counts a damaged file, and lets the command continue; only a lack of memory ends it early. */
static clt_status tell_one(const char *path, bool step, tally *n)
{
    clt_status status = verify_one(path, step);
    if (status != CLT_OK && step && !clt_is_directory(path))
        return CLT_OK; /* a training that is still running has removed it */
    n->all++;
    if (status == CLT_OK || status == CLT_ENOMEM)
        return status;
    n->damaged++;
    terminal_say("%s: %s%s\n", path, access(path, F_OK) == 0 && !ckpt_unsaved(path) ? "damaged: " : "",
                 clt_error_text());
    return CLT_OK;
}

static clt_status verify_path(const char *path, const clt_s3_options *storage, tally *n)
{
    CLT_SCOPED(clt_file_list) steps = {0};
    if (clt_s3_is_address(path))
        return ckpt_verify_remote(path, storage, &n->all, &n->damaged);
    if (clt_checkpoint_named(path))
        CLT_TRY(clt_checkpoint_list(path, &steps));
    for (size_t i = 0; i < steps.count; i++)
        CLT_TRY(tell_one(steps.name[i], true, n));
    return steps.count ? CLT_OK : tell_one(path, false, n);
}

clt_status ckpt_verify(cmd_context *context, int argc, char **argv)
{
    clt_s3_options storage = {.attempts = 0};
    const args_option options[] = {CKPT_STORAGE(storage), ARGS_END};
    const args_usage usage = ARGS_USAGE(
        "ckpt verify", "PATH...", 1, ARGS_MAX, options,
        "Reads checkpoints and files of weights to their end: sizes, checksums, the form of each\n"
        "file, values that are not finite. PATH is a run folder (all its checkpoints), one step_N\n"
        "of it, what --init takes, or s3://BUCKET/PREFIX of a run in object storage (sizes and\n"
        "checksums). The exit code is 7 if one of them is damaged.");
    args_result r;
    tally n = {0, 0};
    (void)context;
    ARGS_PARSE(&usage, argc, argv, &r);
    for (int i = 0; i < r.n_operands; i++)
        CLT_TRY(verify_path(r.operands[i], &storage, &n));
    if (n.damaged > 0)
        CLT_FAIL(CLT_ECHECKPOINT, "cltrain ckpt verify: %d of %d %s damaged or missing", n.damaged, n.all,
                 n.damaged == 1 ? "is" : "are");
    return CLT_OK;
}
