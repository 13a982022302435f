/* SPDX-License-Identifier: Apache-2.0
 *
 * What `cltrain new` finds in a file or folder, and the config that suits it. One function for each kind of data, each
 * in terms of the sources that training reads; nothing is printed. */
#ifndef CLI_DATA_NEW_CONFIG_H
#define CLI_DATA_NEW_CONFIG_H

#include "cli/data/draft.h"
#include "engine/data/data.h"

typedef struct new_config {
    const char *path;
    const char *targets;  /* a second file, NULL: none was given */
    const char *column;   /* --target, NULL: the last column */
    const char *json_key; /* --json-key, NULL: found */
    const char *tokenizer;
    draft draft;
    clt_str found; /* lines for the user: what the data is, and what the config does with it */
} new_config;

/* Finds out what the data is and fills draft and found. CLT_EDATA and others name the file and what is wrong;
 * CLT_EUSAGE: it is not known what the data is, or an option does not belong to it. */
clt_status new_config_look(new_config *n);

/* --- the kinds --- */

/* Opens the training data as the draft describes it. *config is to be destroyed by the caller, *source to be closed,
 * in the other order. */
clt_status new_config_probe(const new_config *n, clt_config **config, clt_source **source);
/* Appends how the source describes the data of the draft, as it is now, to what was found. */
clt_status new_config_describe(new_config *n);
clt_status new_config_table(new_config *n);
clt_status new_config_arrays(new_config *n, const char *type);
clt_status new_config_text(new_config *n);
clt_status new_config_tokens(new_config *n);
clt_status new_config_images(new_config *n);
clt_status new_config_volumes(new_config *n);

typedef struct new_length {
    int64_t samples, batch;
    int64_t steps; /* about as many as the training has */
    int64_t least_epochs, most_epochs;
    bool has_eval;
} new_length;

/* Batch and length of the training, a warm-up, and with evaluation data ten evaluations. */
void new_config_length(new_config *n, const new_length *length);

#endif
