/* SPDX-License-Identifier: Apache-2.0
 *
 * The options of `cltrain train`, which `cltrain launch` takes as well and passes on. */
#ifndef CLI_SCREEN_TRAIN_ARGS_H
#define CLI_SCREEN_TRAIN_ARGS_H

#include "cli/screen/args.h"
#include "engine/base/mem.h"
#include "engine/pretrained/start.h"

typedef struct train_args {
    const char *out, *resume, *init, *init_skip, *adapter, *device, *caps;
    int64_t max_steps, trace_from;
    bool dry_run, profile;
    bool config_is_saved; /* the config comes from a run */
} train_args;

/* Rows of a command's table of options. */
#define TRAIN_OPTIONS(a)                                                                                     \
    ARGS_TEXT("--out", "DIR", (a).out, "run folder (default: runs/<config>, numbered when taken)"),          \
        ARGS_TEXT("--resume", "auto|RUN|none", (a).resume,                                                   \
                  "auto: resume from the run folder's newest checkpoint, if it has one; RUN: from that run " \
                  "folder or one step_N of it (none)"),                                                      \
        ARGS_TEXT(                                                                                           \
            "--init", "PATH", (a).init,                                                                      \
            "initial weights: a folder that save_pretrained of transformers wrote, a run, a safetensors "    \
            "file, or one of torch.save (FILE.pth:ENTRY for one of several state dicts); "                   \
            "the CONFIG may leave out the keys of the model and the tokenizer that they tell; --init takes " \
            "the place of model.init, and '' means random values"),                                          \
        ARGS_TEXT("--init-skip", "PATTERNS", (a).init_skip,                                                  \
                  "parameters that keep their random initial values instead of --init's, such as 'fc.*' "    \
                  "for a head with another number of classes; several patterns are separated by commas"),    \
        ARGS_TEXT("--adapter", "DIR", (a).adapter,                                                           \
                  "low-rank adapters for the weights of --init: a folder that PEFT saved, whose settings "   \
                  "fill the CONFIG; they are trained further"),                                              \
        ARGS_DEVICE((a).device), ARGS_CAPS((a).caps),                                                        \
        ARGS_INT("--max-steps", "N", (a).max_steps, 1, 1e12, "end early; the schedule stays as it is"),      \
        ARGS_FLAG("--dry-run", (a).dry_run,                                                                  \
                  "check config, plan and the run to resume, and open the data; train nothing"),             \
        ARGS_FLAG("--profile", (a).profile,                                                                  \
                  "time every command on the device: profile.txt, profile.json "                             \
                  "and trace.json (a few steps) in the run folder"),                                         \
        ARGS_INT("--trace-from", "N", (a).trace_from, 1, 1e12,                                               \
                 "--profile, with the trace beginning at step N (the fourth of "                             \
                 "the run)")

/* The name of the run folder without --out, before a number is added: "configs/mlp.json" -> "runs/mlp". */
clt_status train_default_folder(const char *config, char *folder, size_t size);

/* The weights to start from, according to the options. */
clt_start train_start(const train_args *a);

/* Returns CLT_EUSAGE if an option has an empty value. */
clt_status train_check_args(const train_args *a);

#endif
