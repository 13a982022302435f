/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads configs together with the weights that their runs start from. The config names the weights by
 * model.init, or the command line by --init; what is known of their model and tokenizer fills the config. */
#ifndef ENGINE_PRETRAINED_START_H
#define ENGINE_PRETRAINED_START_H

#include "engine/config/config.h"
#include "engine/pretrained/pretrained.h"

/* The command line's settings about the weights to start from; all zero: none. */
typedef struct clt_start {
    const char *init; /* --init, which takes the place of model.init; "": random values; NULL: not given */
    const char *init_skip; /* --init-skip, or NULL */
    const char *adapter;   /* --adapter, or NULL */
    bool training;         /* the run trains: fill the keys that only training uses, too */
    bool may_be_gone;      /* other weights may be used, so the ones named need not be there */
} clt_start;

/* Loads the config with all that the weights say. Errors of clt_config_load and clt_pretrained_open.
 * CLT_EUSAGE: init_skip or adapter are given, and no weights. */
clt_status clt_start_load(const char *path, const char *const *overrides, int n_overrides,
                          const clt_start *start, clt_config **out);
/* Loads a config from a text in the same way. */
clt_status clt_start_parse(const char *text, const char *source, const char *const *overrides,
                           int n_overrides, const clt_start *start, clt_config **out);
/* The path of the weights that a new run of the config starts from; NULL: random values. */
const char *clt_start_weights(const clt_config *config);

/* Makes a config of the model in a folder that save_pretrained wrote (`p`, at the path `folder`), as
 * `cltrain import` writes it; its data are not there. tokenizer: path of a vocabulary to use instead of
 * the folder's, or NULL; adapter: as in clt_start. */
clt_status clt_start_published(const clt_pretrained *p, const char *folder, const char *const *overrides,
                               int n_overrides, const char *tokenizer, const char *adapter, clt_config **out);

#endif
