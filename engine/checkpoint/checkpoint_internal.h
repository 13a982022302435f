/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the files of this room: file names of a checkpoint, its manifest, and the list of step folders.
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
#define CLT_MANIFEST_MAX_BYTES 1000000
#define CLT_CHECKPOINT_TEXT_MAX ((uint64_t)256 << 20) /* bytes of the largest text file that is read */

typedef struct clt_manifest_file {
    char name[64];
    uint64_t bytes, sum; /* sum: clt_manifest_sum */
} clt_manifest_file;

#define CLT_MANIFEST_VERSION 2 /* the version that is written */
typedef struct clt_manifest {
    int version;
    int64_t step;
    uint64_t config_digest;
    int n_files;
    clt_manifest_file files[CLT_MANIFEST_MAX_FILES];
} clt_manifest;

/* The checksum that a manifest of this version holds for the bytes of a file. */
uint64_t clt_manifest_sum(int version, const void *data, size_t size);
clt_status clt_manifest_print(const clt_manifest *manifest, clt_str *out);
/* Reads folder/manifest.json; *doc (may be NULL) receives the parsed text. The text ends with a hash of what
 * precedes it, so every changed byte is found. */
clt_status clt_manifest_read(const char *folder, clt_manifest *manifest, clt_json_doc **doc);
/* Reads a manifest from a text, which messages call `path`. */
clt_status clt_manifest_parse(const char *path, const char *text, size_t length, clt_manifest *manifest,
                              clt_json_doc **doc);
const clt_manifest_file *clt_manifest_find(const clt_manifest *manifest,
                                           const char *name); /* NULL if absent */

/* Makes what precedes the tensors' data in a safetensors file: the header's length, and the header. */
clt_status clt_safetensors_head(const char *path, const clt_named_tensor *tensors, int count,
                                const char *const *metadata, int n_metadata, clt_str *out);
/* Number of the first element that is not finite; *what: "a NaN" or "an infinity". -1: all are finite. */
int64_t clt_find_nonfinite(const clt_named_tensor *tensor, const char **what);

/* A tensor file of a checkpoint: index 0 is the model's, 1 the optimizer's. */
typedef struct clt_tensor_file {
    const char *name;
    const clt_named_tensor *tensors;
    int count;    /* 0: there is no optimizer file */
    clt_str head; /* the bytes that clt_safetensors_head makes */
    uint64_t size;
} clt_tensor_file;
clt_status clt_tensor_file_make(const clt_checkpoint_content *content, int index, clt_tensor_file *out);
void clt_tensor_file_free(clt_tensor_file *file);
CLT_SCOPED_VALUE(clt_tensor_file, clt_tensor_file_free)
/* Makes the tensor files in their full size, with their headers, and syncs. Adds the headers to *part. */
clt_status clt_tensor_files_create(const char *folder, const clt_checkpoint_content *content, clt_part *part);
/* The folder in which a checkpoint is written: folder/step_N.tmp-TAG. The caller frees the path; it also
 * frees paths that clt_path_join makes. */
clt_status clt_checkpoint_temporary(const char *folder, int64_t step, const char *tag, char **out);
/* folder/step_N */
clt_status clt_checkpoint_folder(const char *folder, int64_t step, char **out);

/* Renames the folder `temporary` to `name`, a step_N, which it replaces if there is one. */
clt_status clt_checkpoint_put(const char *temporary, const char *name);

/* Checks the manifest, and size and hash of every file it lists. */
clt_status clt_checkpoint_verify(const char *folder);

/* Step folders in ascending order of their steps. COMPLETE: named step_N; REMAINS: named step_N.tmp-* or
 * step_N.old-*. A folder that does not exist has none. */
typedef enum clt_step_kind { CLT_STEP_COMPLETE, CLT_STEP_REMAINS } clt_step_kind;
/* Reads the name of a step folder: "step_12" is COMPLETE 12; "step_12.tmp-99" and "step_12.old-99" are
 * REMAINS 12. Names with leading zeros, signs and the like are not ours. */
bool clt_step_parse(const char *name, clt_step_kind kind, int64_t *step);
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
CLT_SCOPED_VALUE(clt_step_list, clt_steps_free)

#endif
