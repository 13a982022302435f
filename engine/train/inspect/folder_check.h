/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks what a folder of transformers contains and whether its parts fit together: the tensors of its
 * weights and the model of its config.json, the tokenizer and the model. Needs no data and no device. */
#ifndef ENGINE_TRAIN_INSPECT_FOLDER_CHECK_H
#define ENGINE_TRAIN_INSPECT_FOLDER_CHECK_H

#include "engine/pretrained/pretrained.h"

typedef struct clt_folder_facts {
    char model[240];       /* the model's keys: "type \"llama\", layers 2, heads 4, ..." */
    int64_t parameters;    /* values that the model learns */
    int files, tensors;    /* number of files and of tensors of the weights */
    char types[200];       /* "F32", or "BF16 (290 tensors), F32 (2)" */
    bool has_tokenizer;    /* a tokenizer lies beside the weights */
    char tokenizer[300];   /* description of the tokenizer, or "none lies beside the weights" */
    int64_t unused_rows;   /* rows of the model that no token of that tokenizer uses */
    char special_ids[600]; /* contradictions to the special ids of config.json, "" if there are none */
    char stops[300];       /* ids at which generated texts end, as JSON; "": only the tokenizer's end token */
    char chat[300];        /* name of the known chat template, or why there is none */
} clt_folder_facts;

/* Reads the facts; path: the folder of `p`. CLT_EDATA: the tokenizer or the chat template cannot be read, or
 * the tokenizer has tokens that the model lacks. Errors of clt_weights_open and of building the model. */
clt_status clt_folder_look(const char *path, clt_pretrained *p, clt_folder_facts *out);
/* Compares every tensor of the weights with the model, as a training with --init does
 * (clt_run_check_init): CLT_ECHECKPOINT names all that are missing, misshaped or not part of the model. */
clt_status clt_folder_check(const char *path, clt_pretrained *p);

#endif
