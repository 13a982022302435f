/* SPDX-License-Identifier: Apache-2.0
 *
 * Safetensors files and checkpoints. A checkpoint folder step_N holds model.safetensors (f32 masters and
 * buffers, unpadded, no time, host or path in it), optimizer.safetensors, state.json and manifest.json (sizes
 * and hashes, written last). It knows tensors by name in host memory; it knows nothing of devices. */
#ifndef ENGINE_CHECKPOINT_CHECKPOINT_H
#define ENGINE_CHECKPOINT_CHECKPOINT_H

#include "engine/base/dtype.h"
#include "engine/base/fileio.h"
#include "engine/base/hash.h"
#include "engine/base/json.h"

typedef struct clt_named_tensor {
    const char *name;
    clt_dtype dtype;
    clt_shape shape;
    const void *
        data; /* dense, row-major; in an open file not always aligned: copy, or use clt_named_tensor_to_f32 */
} clt_named_tensor;

/* --- safetensors --- */
typedef struct clt_safetensors clt_safetensors;
/* Maps the file and checks everything: header length <= 100,000,000 and inside the file, strict JSON, known
 * dtype, shape product without overflow equal to the byte range, ranges tile the buffer without holes or
 * overlap and end at the end of the file, unique names,
 * __metadata__ string to string. CLT_ECHECKPOINT with its own message for each. */
clt_status clt_safetensors_open(const char *path, clt_safetensors **out);
/* Several files as one; no name may be in two of them. */
clt_status clt_safetensors_open_parts(const char *const *paths, int count, clt_safetensors **out);
void clt_safetensors_close(clt_safetensors *file);
int clt_safetensors_count(const clt_safetensors *file);
const clt_named_tensor *clt_safetensors_at(const clt_safetensors *file, int index); /* in file order */
const clt_named_tensor *clt_safetensors_find(const clt_safetensors *file,
                                             const char *name);                     /* NULL if absent */
const char *clt_safetensors_metadata(const clt_safetensors *file, const char *key); /* not of several files */
/* clt_hash64 of the bytes of the file, or of the files one after the other. */
uint64_t clt_safetensors_hash(const clt_safetensors *file);
/* Converts any float tensor of a file (f32, f16, bf16, f64) to f32. CLT_ECHECKPOINT for other types. */
clt_status clt_named_tensor_to_f32(const clt_named_tensor *tensor, float *out);
/* Writes durably (temporary file, fsync, rename), from the tensors' own memory. Data starts at a multiple of
 * 8; tensors in the order given; metadata (may be NULL): n pairs. Equal input gives equal bytes. *hash (may
 * be NULL): 64-bit hash of the file. */
clt_status clt_safetensors_write(const char *path, const clt_named_tensor *tensors, int count,
                                 const char *const *metadata, int n_metadata, uint64_t *hash);
/* Whether the file begins as one does; a file that is not there does not. */
bool clt_safetensors_looks(const char *path);
/* Bytes of the tensors' data. */
uint64_t clt_named_tensors_bytes(const clt_named_tensor *tensors, int count);
/* CLT_ENUMERIC names the first tensor with a NaN or an infinity, and where in it. */
clt_status clt_named_tensors_check_finite(const clt_named_tensor *tensors, int count);

/* weights.c: the weights that `path` means: a safetensors file, an index of several (NAME.index.json), or a
 * folder with model.safetensors or model.safetensors.index.json, or what clt_checkpoint_open takes (the
 * newest checkpoint of a run). CLT_ECHECKPOINT for what is none of these (a path that does not exist, weights
 * in PyTorch's own format) says what to do instead. */
clt_status clt_weights_open(const char *path, clt_safetensors **out);

/* --- checkpoints --- */
/* A text file of a checkpoint, beside those that this room writes by itself. */
typedef struct clt_checkpoint_file {
    const char *name; /* without a folder: "config.json" */
    const char *text;
    size_t length;
} clt_checkpoint_file;

typedef struct clt_checkpoint_content {
    int64_t step;
    const clt_named_tensor *model;
    int n_model;
    const clt_named_tensor *optimizer;
    int n_optimizer;
    const char *state_json;           /* run state as JSON text (step, update, counters, ...) */
    const char *config_json;          /* resolved config: its digest goes into the manifest */
    const clt_checkpoint_file *files; /* written and hashed with the rest */
    int n_files;
} clt_checkpoint_content;

/* Refuses non-finite values in any tensor (CLT_ENUMERIC, tensor named): a checkpoint never holds a NaN.
 * Checks the free space, writes folder/step_N.tmp-PID, syncs every file, renames to folder/step_N, syncs the
 * parent; an existing step_N is replaced only after the new one is complete. keep > 0 deletes the oldest
 * beyond that many, after the new one is in place and verified. What a killed save left behind is removed
 * first, so one process at a time may save into a folder (the run folder is locked). CLT_ESTORAGE: nothing
 * half-written is left and older checkpoints are untouched. The process must ignore SIGXFSZ, or a file size
 * limit kills it instead. */
clt_status clt_checkpoint_save(const char *folder, const clt_checkpoint_content *content, int keep);

/* What stays when a new checkpoint is in place: the `keep` newest (0: all), every step that is a multiple of
 * `major` (0: none besides), and the step `best` (-1: none). */
typedef struct clt_retention {
    int keep;
    int64_t major, best;
} clt_retention;
clt_status clt_checkpoint_save_retaining(const char *folder, const clt_checkpoint_content *content,
                                         const clt_retention *retention);

/* Removes what a killed save left behind, as the next save would, and gives a checkpoint that was being
 * replaced its name back. Only for the process that may save into the folder; a failure is logged. */
void clt_checkpoint_tidy(const char *folder);

typedef struct clt_checkpoint {
    char *path;
    int64_t step;
    clt_safetensors *model, *optimizer; /* optimizer may be NULL */
    clt_json_doc *state, *manifest;
} clt_checkpoint;
/* How often what a running training has removed meanwhile is looked for again, as a newer one. */
#define CLT_READ_AGAIN 20
/* path: a step_N folder, a checkpoints folder, or a run folder (newest that verifies is taken, each rejected
 * one logged with its reason). Verifies sizes and hashes. */
clt_status clt_checkpoint_open(const char *path, clt_checkpoint **out);
void clt_checkpoint_close(clt_checkpoint *checkpoint);
/* The checkpoint that clt_checkpoint_open would most likely take, with its state and its texts but without
 * its tensors, which are neither read nor verified: `model` and `optimizer` are NULL. CLT_ECHECKPOINT when
 * there is none. */
clt_status clt_checkpoint_peek(const char *path, clt_checkpoint **out);
/* One of the text files that were saved with it, verified; *text (to be freed) is NULL when the checkpoint
 * has no file of that name. */
clt_status clt_checkpoint_text(const clt_checkpoint *checkpoint, const char *name, char **text,
                               size_t *length);
/* The run state of the checkpoint that clt_checkpoint_open would most likely take, without reading its
 * tensors: for what must be known before there is memory for them. NULL when there is none that is whole. */
clt_status clt_checkpoint_peek_state(const char *path, clt_json_doc **state);

/* export.c: writes the parameters of a checkpoint (path: as for clt_checkpoint_open) to the safetensors file
 * `out` as f32, f16 or bf16, rounded to nearest even, with the names and layouts of the checkpoint.
 * CLT_ENUMERIC: a value beyond the type's range, by name; nothing is written. CLT_EUSAGE: `out` lies in the
 * folder of a checkpoint. */
typedef struct clt_export_result {
    char from[1024]; /* the checkpoint that was taken */
    int tensors;
    int64_t values, vanished; /* vanished: too small for the type, now 0 */
    uint64_t bytes;           /* of the tensors */
} clt_export_result;
clt_status clt_checkpoint_export(const char *path, clt_dtype dtype, const char *out,
                                 clt_export_result *result);
/* The same for n tensors in memory (those that are f32 are converted); result->from stays empty. */
clt_status clt_export_tensors(const clt_named_tensor *tensors, int n, clt_dtype dtype, const char *out,
                              clt_export_result *result);
/* CLT_EUSAGE when `out` would lie in the folder of a checkpoint, which holds what its manifest lists and
 * nothing else. */
clt_status clt_export_check_outside(const char *out);

/* True if the folder (checkpoints or run folder) holds at least one step_N, good or bad, or cannot be listed:
 * opening it then tells why. */
bool clt_checkpoint_exists(const char *path);

#endif
