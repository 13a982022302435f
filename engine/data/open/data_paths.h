/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the data of a saved config again. Relative paths of a config refer to the folder in which the
 * training was started; a command that opens its checkpoint may run in another folder, on another day. */
#ifndef ENGINE_DATA_OPEN_DATA_PATHS_H
#define ENGINE_DATA_OPEN_DATA_PATHS_H

#include "engine/base/hash.h"
#include "engine/config/config.h"
#include "engine/data/facts/data_facts.h"

typedef struct clt_data_places {
    /* the folder where the training was started, derived from where the run folder is now; "" or NULL:
     * unknown */
    const char *near;
    const char *then; /* the absolute folder in which the training was started; "" or NULL: unknown */
} clt_data_places;

/* Rewrites the relative paths of data.path, data.eval_path, data.targets, data.eval_targets and
 * data.tokenizer that do not come from the command line so that they lead to the data from the current
 * folder. The folders are tried in the order `near`, `then`, current folder. A path that is found nowhere
 * stays unchanged. */
clt_status clt_data_paths_find(clt_config *config, const clt_data_places *places);

/* Appends the missing files that the training (`eval`: the evaluation) of a config needs, such as "data.path
 * 'a.txt', data.targets 'b.idx'". Nothing is opened. */
clt_status clt_data_paths_missing(const clt_config *config, bool eval, clt_str *out);

/* CLT_EDATA when any of these files is missing; the message names them all and the keys that set their new
 * paths. `what`: "resuming"; `run`: the run or checkpoint; `folder`: where it was trained, "" or NULL
 * when unknown. */
clt_status clt_data_paths_need(const clt_config *config, bool eval, const char *what, const char *run,
                               const char *folder);

/* Computes a hash that shows, without reading the data, whether data in object storage is unchanged. It
 * covers the addresses, the names, versions and sizes of all listed objects, and data.joined, which decides
 * how files become samples and may change in a resumed run. Returns whether the hash covers all data: no
 * file is on this machine, and every address could be listed. */
bool clt_data_paths_listed(const clt_config *config, char text[CLT_HASH64_TEXT]);
/* The present fingerprint of a source (clt_source_read_fingerprint). `facts`: from an earlier time, or NULL.
 * If data in object storage is listed as in the facts, their fingerprint is returned ("": none), and nothing
 * is read. */
clt_status clt_data_paths_compare(const clt_data_facts *facts, const clt_config *config,
                                  const clt_source *source, bool eval, char text[CLT_HASH64_TEXT]);

#endif
