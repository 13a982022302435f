/* SPDX-License-Identifier: Apache-2.0
 *
 * cltrain ckpt: shows, verifies and compares checkpoints and files of weights. Needs no device. */
#include "cli/ckpt/ckpt.h"
#include "cli/screen/args.h"
#include "engine/files/fileio.h"

bool ckpt_unsaved(const char *path)
{
    CLT_KEEP_ERROR();
    CLT_FREED char *config = NULL;
    return !clt_checkpoint_named(path) && clt_path_join(path, "config.resolved.json", &config) == CLT_OK &&
           clt_file_exists(config);
}

clt_status ckpt_fail_unsaved(const char *run)
{
    CLT_FAIL(CLT_ECHECKPOINT,
             "'%s' is a run that has no checkpoint yet; checkpoint.every and checkpoint.minutes of its "
             "config say when it saves, and it does when it ends",
             run);
}

clt_status ckpt_open(const char *path, ckpt_opened *out)
{
    if (ckpt_unsaved(path))
        return ckpt_fail_unsaved(path);
    if (!clt_checkpoint_named(path)) {
        out->path = path;
        return clt_weights_open(path, &out->weights);
    }
    CLT_TRY(clt_checkpoint_open(path, &out->checkpoint));
    out->path = out->checkpoint->path;
    return CLT_OK;
}

void ckpt_close(ckpt_opened *opened)
{
    clt_checkpoint_close(opened->checkpoint);
    clt_safetensors_close(opened->weights);
}

const clt_safetensors *ckpt_file(const ckpt_opened *opened, int file)
{
    if (opened->weights)
        return file == 0 ? opened->weights : NULL;
    return file == 0 ? opened->checkpoint->model : opened->checkpoint->optimizer;
}

static const args_part parts[] = {
    {"show", "list the tensors with their values, the files and the state", ckpt_show},
    {"verify", "read everything: sizes, checksums, values that are not finite", ckpt_verify},
    {"diff", "compare two, tensor by tensor: bits, largest difference, ULP, cosine", ckpt_diff},
    {"ls", "list the checkpoints of a run, here or in object storage", ckpt_ls},
    {"get", "copy a checkpoint from object storage into a run folder", ckpt_get},
    {"gc", "delete useless objects in object storage", ckpt_gc},
    {NULL, NULL, NULL},
};

clt_status cmd_ckpt(cmd_context *context, int argc, char **argv)
{
    const args_option options[] = {ARGS_END};
    const args_usage usage = ARGS_USAGE("ckpt", "PART ...", 0, 0, options,
                                        "Looks into checkpoints and files of weights.", .parts = parts);
    return args_dispatch(&usage, context, argc, argv);
}
