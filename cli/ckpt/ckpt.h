/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of the command `cltrain ckpt`, and functions that open the checkpoint or weights that a user
 * names. */
#ifndef CLI_CKPT_CKPT_H
#define CLI_CKPT_CKPT_H

#include "cli/screen/cmd.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/storage/s3.h"

clt_status ckpt_show(cmd_context *context, int argc, char **argv);   /* argv[0] is "show" */
clt_status ckpt_verify(cmd_context *context, int argc, char **argv); /* argv[0] is "verify" */
clt_status ckpt_diff(cmd_context *context, int argc, char **argv);   /* argv[0] is "diff" */
clt_status ckpt_ls(cmd_context *context, int argc, char **argv);     /* argv[0] is "ls" */
clt_status ckpt_get(cmd_context *context, int argc, char **argv);    /* argv[0] is "get" */
clt_status ckpt_gc(cmd_context *context, int argc, char **argv);     /* argv[0] is "gc" */

/* Options of commands that may use object storage; target_ is a clt_s3_options. */
#define CKPT_STORAGE(target_)                                                                                \
    ARGS_TEXT("--endpoint", "URL", (target_).endpoint,                                                       \
              "server of object storage (AWS_ENDPOINT_URL_S3, else AWS)"),                                   \
        ARGS_TEXT("--region", "NAME", (target_).region,                                                      \
                  "region of the bucket (AWS_REGION, else the server is asked)")
/* Verifies the checkpoints at an address, prints the results, and adds to the counts. */
clt_status ckpt_verify_remote(const char *address, const clt_s3_options *storage, int *all, int *damaged);

/* The tensors of a checkpoint, or weights outside of a checkpoint. */
typedef struct ckpt_opened {
    const char *path;           /* a checkpoint's folder step_N, or the path that the user named */
    clt_checkpoint *checkpoint; /* NULL: the weights are not part of a checkpoint */
    clt_safetensors *weights;   /* NULL: the tensors are in `checkpoint` */
} ckpt_opened;
/* True if the folder is a run that has no checkpoint yet. */
bool ckpt_unsaved(const char *path);
/* Returns the error for a run that has no checkpoint yet. */
clt_status ckpt_fail_unsaved(const char *run);
/* path: as for clt_weights_open. Verifies everything that can be verified. */
clt_status ckpt_open(const char *path, ckpt_opened *out);
void ckpt_close(ckpt_opened *opened);
CLT_SCOPED_VALUE(ckpt_opened, ckpt_close)
/* file 0: the model's tensors; 1: the optimizer's, NULL if there are none. */
enum { CKPT_FILES = 2 };
const clt_safetensors *ckpt_file(const ckpt_opened *opened, int file);

#endif
