/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens the result of a training from one path: a run folder, its checkpoints folder, or a step_N folder,
 * which may have been moved. Gives the config that the run was trained with, the checkpoint, facts about its
 * data, and its tokenizer; the training data is not needed. Checkpoints of older versions, without
 * config.json and data.json, are opened with the config.resolved.json of their run folder. */
#ifndef ENGINE_CHECKPOINT_SAVED_RUN_H
#define ENGINE_CHECKPOINT_SAVED_RUN_H

#include "engine/base/scope.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/config/config.h"
#include "engine/data/facts/data_facts.h"

/* Text files of a checkpoint. */
#define CLT_SAVED_CONFIG_FILE "config.json"
#define CLT_SAVED_TOKENIZER_FILE "tokenizer.json"
#define CLT_SAVED_ROLES_FILE "tokenizer_config.json"

typedef struct clt_saved_run {
    clt_checkpoint *checkpoint;
    char path[1024];   /* the checkpoint's folder: .../step_N */
    char folder[1024]; /* the run folder that contains it; "": there is none */
    int64_t step;
    clt_config *config;   /* resolved, with overrides; paths to data are relative to the current folder */
    bool has_facts;       /* false: an older checkpoint without data.json */
    clt_data_facts facts; /* all zero without data.json */
} clt_saved_run;

typedef struct clt_saved_run_options {
    const char *const *overrides; /* "section.key=value", as on the command line */
    int n_overrides;
    /* Folder or file of a vocabulary to use instead of the saved one; NULL: the saved one. */
    const char *tokenizer;
    bool tensors;  /* also open and verify the weights; else checkpoint->model is NULL */
    bool training; /* the run is resumed: use the tokenizer that its config names, if it exists */
    /* If the path is a run folder or its checkpoints folder, take the config of the run's newest session,
     * which may have changed keys and ended before it saved. Otherwise take the checkpoint's own config. */
    bool newest_config;
} clt_saved_run_options;

/* options may be NULL: no overrides, no tensors. CLT_ECHECKPOINT: there is no checkpoint, none verifies, or
 * it has no config; CLT_ECONFIG: an override is wrong. */
clt_status clt_saved_run_open(const char *path, const clt_saved_run_options *options, clt_saved_run **out);
void clt_saved_run_close(clt_saved_run *saved); /* NULL is fine */
CLT_SCOPED_POINTER(clt_saved_run, clt_saved_run_close)

/* Appends a description for people: "a gpt on text data of 256 different tokens". */
void clt_saved_run_words(const clt_saved_run *saved, clt_str *out);

/* CLT_EDATA if files of the training data (eval: of the evaluation data) are missing: the message names them
 * and the keys that give their new place. `what` says what they are needed for: "resuming". */
clt_status clt_saved_run_need_data(const clt_saved_run *saved, bool eval, const char *what);

/* A data source that has the shapes of the training data but no samples, for models that are only built, or
 * run on other data. CLT_ECHECKPOINT for a checkpoint without data.json. */
clt_status clt_saved_run_shapes(const clt_saved_run *saved, clt_source **out);

#endif
