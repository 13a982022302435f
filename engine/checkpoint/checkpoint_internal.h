/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of this room share: file names of a checkpoint, its manifest, and the list of step folders.
 * Other rooms use checkpoint.h only. */
#ifndef ENGINE_CHECKPOINT_CHECKPOINT_INTERNAL_H
#define ENGINE_CHECKPOINT_CHECKPOINT_INTERNAL_H

#include "engine/base/mem.h"
#include "engine/checkpoint/checkpoint.h"

#define CLT_MODEL_FILE "model.safetensors"
#define CLT_OPTIMIZER_FILE "optimizer.safetensors"
#define CLT_STATE_FILE "state.json"
#define CLT_MANIFEST_FILE "manifest.json"

#define CLT_MANIFEST_MAX_FILES 64
#define CLT_CHECKPOINT_TEXT_MAX ((uint64_t)256 << 20) /* bytes of the largest text file that is read */

typedef struct clt_manifest_file {
    char name[64];
    uint64_t bytes, hash;
} clt_manifest_file;

typedef struct clt_manifest {
    int64_t step;
    uint64_t config_digest;
    int n_files;
    clt_manifest_file files[CLT_MANIFEST_MAX_FILES];
} clt_manifest;

clt_status clt_manifest_print(const clt_manifest *manifest, clt_str *out);
/* Reads folder/manifest.json; *doc (may be NULL) receives the parsed text. The text ends with a hash of what
 * precedes it, so every changed byte is found. */
clt_status clt_manifest_read(const char *folder, clt_manifest *manifest, clt_json_doc **doc);
const clt_manifest_file *clt_manifest_find(const clt_manifest *manifest,
                                           const char *name); /* NULL if absent */

/* Checks the manifest, and size and hash of every file it lists. */
clt_status clt_checkpoint_verify(const char *folder);

/* Step folders in ascending order of their steps. COMPLETE: named step_N; REMAINS: named step_N.tmp-* or
 * step_N.old-*. A folder that does not exist has none. */
typedef enum clt_step_kind { CLT_STEP_COMPLETE, CLT_STEP_REMAINS } clt_step_kind;
typedef struct clt_step_entry {
    int64_t step;
    char name[256];
} clt_step_entry;
typedef struct clt_step_list {
    clt_step_entry *at;
    size_t count, capacity;
} clt_step_list;
clt_status clt_steps_list(const char *folder, clt_step_kind kind, clt_step_list *out);
void clt_steps_free(clt_step_list *list);

#endif
