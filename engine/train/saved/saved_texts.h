/* SPDX-License-Identifier: Apache-2.0
 *
 * The text files that make a checkpoint self-contained: config.json (the resolved config), data.json (facts
 * about the data) and, for a BPE vocabulary, tokenizer.json, with the tokenizer_config.json that says what
 * its special tokens are for. They are made once per run, so that a save does not depend on files that may
 * have changed since. saved_run.h reads them. */
#ifndef ENGINE_TRAIN_SAVED_SAVED_TEXTS_H
#define ENGINE_TRAIN_SAVED_SAVED_TEXTS_H

#include "engine/checkpoint/saved_run.h"
#include "engine/train/run/run.h"

struct clt_saved_prints; /* fingerprints of remote data, which a thread computes */

typedef struct clt_saved_texts {
    clt_str config, data, tokenizer, roles;
    clt_checkpoint_file files[4]; /* point into the texts */
    int n_files;
    struct clt_saved_prints *prints; /* NULL: data.json is complete */
} clt_saved_texts;

/* `folder`: the checkpoints folder of the run. Fails only for lack of memory. */
clt_status clt_saved_texts_make(const clt_run *run, const char *folder, clt_saved_texts *out);
/* To be called before a checkpoint: adds the fingerprints of remote data, if they are known in 10 seconds. */
clt_status clt_saved_texts_update(clt_saved_texts *texts);
void clt_saved_texts_free(clt_saved_texts *texts);

#endif
