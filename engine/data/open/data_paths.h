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
    /* the folder in which the training was started, found from where the run folder is now; "" or NULL:
     * unknown */
    const char *near;
    const char *then; /* the same folder, by its absolute path at that time; "" or NULL: unknown */
} clt_data_places;

/* Rewrites the relative paths of data.path, data.eval_path, data.targets, data.eval_targets and
 * data.tokenizer so that they lead to the data from the current folder. Paths from the command line are not
 * changed. The folders are tried in the order `near`, `then`, current folder. A path that is found nowhere
 * stays unchanged. */
clt_status clt_data_paths_find(clt_config *config, const clt_data_places *places);

/* Appends the files that the config's training (`eval`: its evaluation) needs and that are missing, such as
 * "data.path 'a.txt', data.targets 'b.idx'". Opens no file. */
clt_status clt_data_paths_missing(const clt_config *config, bool eval, clt_str *out);

/* Fails with CLT_EDATA if any of these files is missing; the message names all of them, and the keys to set
 * to their new paths. `what`: "resuming"; `run`: the run or checkpoint; `folder`: where it was trained, ""
 * or NULL when unknown. */
clt_status clt_data_paths_need(const clt_config *config, bool eval, const char *what, const char *run,
                               const char *folder);

/* Computes a hash that shows, without reading the data, whether data in object storage is unchanged. It
 * covers the addresses, the names, versions and sizes of all listed objects, and data.joined, which decides
 * how files become samples and may change in a resumed run. Returns whether the hash covers all data: no
 * file is on this machine, and every address could be listed. */
bool clt_data_paths_listed(const clt_config *config, char text[CLT_HASH64_TEXT]);
/* The present fingerprint of a source (clt_source_read_fingerprint). `facts`: earlier facts, or NULL. If the
 * listing of data in object storage is still the one of the facts, the result is their fingerprint ("":
 * none), and nothing is read. */
clt_status clt_data_paths_compare(const clt_data_facts *facts, const clt_config *config,
                                  const clt_source *source, bool eval, char text[CLT_HASH64_TEXT]);

#endif
