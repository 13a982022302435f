/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds out for `cltrain new` what a file or folder holds, and drafts a config that suits it. There is a
 * function for each kind of data, which reads the data through the same source as training. Nothing is
 * printed. */
#ifndef CLI_DATA_NEW_CONFIG_H
#define CLI_DATA_NEW_CONFIG_H

#include "cli/data/draft.h"
#include "engine/data/data.h"

typedef struct new_config {
    const char *path;
    const char *targets;  /* the file of targets; NULL: not given */
    const char *column;   /* --target, NULL: the last column */
    const char *json_key; /* --json-key; NULL: chosen by new_config_text */
    const char *tokenizer;
    const char *const *overrides; /* section.key=value; they take precedence over drafted values */
    int n_overrides;
    draft draft;
    clt_str found; /* lines for the user about the data and how the config uses it */
} new_config;

static inline void new_config_free(new_config *n)
{
    clt_str_free(&n->found);
    draft_close(&n->draft);
}
CLT_SCOPED_VALUE(new_config, new_config_free)

/* Finds out what the data is and fills `draft` and `found`. CLT_EUSAGE: the kind of data is not known, or an
 * option does not belong to it. Other errors, such as CLT_EDATA, name the file and what is wrong with it. */
clt_status new_config_look(new_config *n);

/* Puts the overrides into the draft and checks the config as `train` would; out: its name for messages. */
clt_status new_config_override(new_config *n, const char *out);

/* --- the kinds --- */

/* The text of the override for this key; NULL: there is none. */
const char *new_config_given(const new_config *n, const char *key);
/* The value of the override if it is a whole number >= 1; else `preset`. */
int64_t new_config_given_int(const new_config *n, const char *key, int64_t preset);
/* Makes a config for probing the data: the section `data` of the draft, with overrides. The caller destroys
 * it. */
clt_status new_config_data(const new_config *n, clt_config **config);
/* Opens the training data that the draft describes. Both are NULL before;
 * the caller closes *source and destroys *config, also after a failure. */
clt_status new_config_probe(const new_config *n, clt_config **config, clt_source **source);
/* Opens the data of the draft, and appends the source's description of it to `found`. */
clt_status new_config_describe(new_config *n);
clt_status new_config_table(new_config *n);
/* Drafts an mlp for the samples of `source`: it classifies, or is a regression. */
void new_config_mlp(new_config *n, const clt_source *source, bool classes, bool has_eval);
/* Finds out if targets look like classes: few different whole numbers, none negative, and each number from 0
 * to the largest occurs. */
clt_status new_config_are_classes(const clt_source *source, int field, bool *out);
clt_status new_config_arrays(new_config *n, const char *type);
clt_status new_config_text(new_config *n);
clt_status new_config_tokens(new_config *n);
/* CLT_EUSAGE if a record of JSON is a conversation or has labels; the message names the right data.type. */
clt_status new_config_check_record(const char *path, const clt_json *record);
/* If most lines of a table have a cell of prose, adds to `found` which data.type reads texts better. */
clt_status new_config_tell_prose(new_config *n);
clt_status new_config_images(new_config *n);
clt_status new_config_volumes(new_config *n);

typedef struct new_length {
    int64_t samples, batch;
    int64_t steps; /* approximate number of steps of the training */
    int64_t least_epochs, most_epochs;
    bool has_eval;
} new_length;

/* Sets batch and length of the training, a warm-up, and, if there is evaluation data, ten evaluations. */
void new_config_length(new_config *n, const new_length *length);

#endif
