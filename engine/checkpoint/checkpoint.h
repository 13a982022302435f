/* SPDX-License-Identifier: Apache-2.0
 *
 * Safetensors files and checkpoints. A checkpoint is a folder step_N with model.safetensors (f32 master
 * weights and buffers without padding; no time, host or path), optimizer.safetensors, state.json and
 * manifest.json (sizes and hashes, written last). This room knows tensors by name in host memory and nothing
 * of devices. */
#ifndef ENGINE_CHECKPOINT_CHECKPOINT_H
#define ENGINE_CHECKPOINT_CHECKPOINT_H

#include "engine/base/dtype.h"
#include "engine/base/hash.h"
#include "engine/base/scope.h"
#include "engine/files/fileio.h"
#include "engine/json/json.h"

typedef struct clt_named_tensor {
    const char *name;
    clt_dtype dtype;
    clt_shape shape;
    /* data: dense, row-major; in an open file not always aligned: copy, or use clt_named_tensor_to_f32 */
    const void *data;
} clt_named_tensor;

/* --- safetensors --- */
/* An open file of weights: of safetensors, or of another format that clt_weights_open reads. */
typedef struct clt_safetensors clt_safetensors;
/* Maps the file and checks everything: the header is at most 100,000,000 bytes, inside the file, and strict
 * JSON; the product of each shape does not overflow and, for types that the engine stores, equals its byte
 * range; the ranges cover the buffer without holes or overlap and end at the end of the file; names are
 * unique; __metadata__ maps strings to strings. CLT_ECHECKPOINT: the message says which check failed. */
clt_status clt_safetensors_open(const char *path, clt_safetensors **out);
/* Opens several files of any format as one. A name may occur in one of them only. */
clt_status clt_safetensors_open_parts(const char *const *paths, int count, clt_safetensors **out);
/* Appends the tensors of `more` to *file, and takes ownership of `more`, also on failure. `names`: what the
 * two files are, for the message if a name occurs in both (CLT_ECHECKPOINT). */
clt_status clt_safetensors_join(clt_safetensors **file, clt_safetensors *more, const char *names);
void clt_safetensors_close(clt_safetensors *file);
CLT_SCOPED_POINTER(clt_safetensors, clt_safetensors_close)
int clt_safetensors_count(const clt_safetensors *file);
int clt_safetensors_files(
    const clt_safetensors *file); /* the files that were opened as one; 1 for a single file */
const clt_named_tensor *clt_safetensors_at(const clt_safetensors *file, int index); /* in file order */
const clt_named_tensor *clt_safetensors_find(const clt_safetensors *file,
                                             const char *name); /* NULL if absent */
/* The type of a tensor as the file names it: "BF16". If the engine cannot store it, the tensor's dtype is
 * CLT_DTYPE_COUNT. */
const char *clt_safetensors_type(const clt_safetensors *file, const clt_named_tensor *tensor);
/* Removes a prefix from all names that have it. CLT_ECHECKPOINT: two tensors would have the same name. */
clt_status clt_safetensors_strip_prefix(clt_safetensors *file, const char *prefix);
/* Removes the tensors for whose names `leaves` is true. */
void clt_safetensors_remove_if(clt_safetensors *file, bool (*leaves)(const void *context, const char *name),
                               const void *context);
/* A value of __metadata__; only for a single file. */
const char *clt_safetensors_metadata(const clt_safetensors *file, const char *key);
/* clt_hash64 of the bytes of the file, or of all files in their order. */
uint64_t clt_safetensors_hash(const clt_safetensors *file);
/* Checks that the file, or each of the files, is still as long as when it was opened; otherwise values that
 * were read may not be the file's. CLT_ECHECKPOINT if one was truncated. NULL is fine. */
clt_status clt_safetensors_whole(const clt_safetensors *file);
/* Converts any float tensor of a file (f32, f16, bf16, f64) to f32. CLT_ECHECKPOINT for other types. */
clt_status clt_named_tensor_to_f32(const clt_named_tensor *tensor, float *out);
/* True if all bytes of its values are zero. */
bool clt_named_tensor_is_zero(const clt_named_tensor *tensor);
/* Writes durably (temporary file, fsync, rename), from the tensors' own memory. Data starts at a multiple of
 * 8; tensors in the order given; metadata (may be NULL): n pairs. Equal input gives equal bytes. *hash (may
 * be NULL): 64-bit hash of the file. */
clt_status clt_safetensors_write(const char *path, const clt_named_tensor *tensors, int count,
                                 const char *const *metadata, int n_metadata, uint64_t *hash);
/* True if the file exists and begins like a safetensors file. */
bool clt_safetensors_looks(const char *path);
/* Bytes of the tensors' data. */
uint64_t clt_named_tensors_bytes(const clt_named_tensor *tensors, int count);
/* CLT_ENUMERIC names the first tensor with a NaN or an infinity, and where in it. */
clt_status clt_named_tensors_check_finite(const clt_named_tensor *tensors, int count);

/* weights.c: opens the weights at `path`: a safetensors file, a file that torch.save wrote (FILE:ENTRY for
 * one of several state dicts in it), an index of several files (NAME.index.json), a folder with
 * model.safetensors, pytorch_model.bin or an index of one of them, or what clt_checkpoint_open takes (the
 * newest checkpoint of a run). Whatever the format, the functions above give the tensors. CLT_ECHECKPOINT:
 * it is none of these; the message says what to do. */
clt_status clt_weights_open(const char *path, clt_safetensors **out);

/* --- checkpoints --- */
/* A text file of a checkpoint, in addition to the files that this room writes itself. */
typedef struct clt_checkpoint_file {
    const char *name; /* file name without a folder: "config.json" */
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

/* The checkpoints that stay when a new one is in place: the `keep` newest (0: all), steps that are a
 * multiple of `major` (0: no such rule), the step `best` (-1: none), and for now the step whose files are
 * being uploaded (0: none). */
typedef struct clt_retention {
    int keep;
    int64_t major, best, uploading;
} clt_retention;
/* True if a step stays, however many newer ones there are. */
bool clt_retention_keeps(const clt_retention *retention, int64_t step);

/* --- checkpoints of several processes: one calls begin, each calls write_part, one calls place --- */

/* Elements [first, first + count) of a tensor in the memory of one process, in row-major order. With
 * `transposed` > 0 (f32 only) memory has another order of dimensions than the file: the one that precedes
 * the last `transposed` dimensions in the file is the last one in memory. */
typedef struct clt_tensor_piece {
    int tensor; /* index among the content's model tensors, followed by its optimizer tensors */
    uint64_t first, count;
    int transposed;
    const void *data;
} clt_tensor_piece;
/* What has been written to the model's file [0] and to the optimizer's file [1]: number of bytes, and their
 * share of the file's checksum (crc64.h). clt_part_add adds up the parts of several processes. */
typedef struct clt_part {
    uint64_t bytes[2], share[2];
} clt_part;
void clt_part_add(clt_part *part, const clt_part *other);
/* All processes pass the same content, whose tensors need no data here, and the same tag of letters, digits
 * and '-', which no other save into the folder has used. begin: removes what killed saves left, checks the
 * free space, and makes the folder step_N.tmp-TAG with the tensor files in their full size and with their
 * headers. Only begin creates files or sets their size, because a client of a network disk would overwrite
 * with zeros what others wrote beyond the size that it knows. *part: what begin wrote. After an error
 * nothing of the folder is left. Only one process at a time may save into a folder (the run folder is
 * locked), and it must ignore SIGXFSZ, or a file size limit kills it. */
clt_status clt_checkpoint_begin(const char *folder, const char *tag, const clt_checkpoint_content *content,
                                clt_part *part);
/* Writes the pieces, syncs, adds them to *part. CLT_ENUMERIC: a value is not finite; nothing was
 * written, so a checkpoint never holds a NaN. */
clt_status clt_checkpoint_write_part(const char *folder, const char *tag,
                                     const clt_checkpoint_content *content, const clt_tensor_piece *pieces,
                                     int n, clt_part *part);
/* To be called after all parts are written. `all`: the sum of begin's part and all written parts, which
 * together must be whole files. Writes the other files, syncs them, and puts the checkpoint in place; an
 * existing step_N is replaced only then. CLT_ESTORAGE: the new checkpoint is discarded, and older ones are
 * untouched. */
clt_status clt_checkpoint_place(const char *folder, const char *tag, const clt_checkpoint_content *content,
                                const clt_part *all);
void clt_checkpoint_discard(const char *folder, const char *tag, int64_t step);
/* Reads part `index` of `parts` equal ranges of the bytes of the tensor files of step_N. The sum of all
 * these parts must be the sum of the written ones. */
clt_status clt_checkpoint_read_part(const char *folder, const clt_checkpoint_content *content, int index,
                                    int parts, clt_part *part);
/* True if clt_checkpoint_retain would delete a checkpoint once `step` is written; before it deletes any, all
 * ranks read the new one back. True also if the folder cannot be listed, which clt_checkpoint_retain then
 * logs. */
bool clt_checkpoint_exceeds(const char *folder, int64_t step, const clt_retention *retention);
/* Deletes the older checkpoints that retention does not keep. Verifies checkpoint `step` first, unless
 * `verified`. A failure is logged. */
void clt_checkpoint_retain(const char *folder, int64_t step, const clt_retention *retention, bool verified);

/* Copies the checkpoint `from`, of step `step`, to folder/step_N once it is verified; there must be none of
 * that name. CLT_ECHECKPOINT: it is damaged. Only for the process that may save into the folder. */
clt_status clt_checkpoint_copy(const char *from, const char *folder, int64_t step);

/* Removes what a killed save left behind and restores a checkpoint that was being replaced, as the next save
 * would. Only for the process that may save into the folder. A failure is logged. */
void clt_checkpoint_tidy(const char *folder);

typedef struct clt_checkpoint {
    char *path;
    int64_t step;
    clt_safetensors *model, *optimizer; /* optimizer may be NULL */
    clt_json_doc *state, *manifest;
    struct clt_manifest *files; /* the files that the manifest lists */
} clt_checkpoint;
/* How often the newest checkpoint is looked up again: a running training may remove one before it is
 * read. */
#define CLT_READ_AGAIN 20
/* path: a step_N folder, a checkpoints folder, or a run folder (the newest checkpoint that verifies is
 * opened; each one rejected is logged with the reason). Sizes and hashes are verified. CLT_ESTORAGE and
 * CLT_EINTERRUPTED: a checkpoint could not be read now; no older one is opened instead. */
clt_status clt_checkpoint_open(const char *path, clt_checkpoint **out);
void clt_checkpoint_close(clt_checkpoint *checkpoint);
CLT_SCOPED_POINTER(clt_checkpoint, clt_checkpoint_close)
/* The values of a parameter that are meant. RAW: the optimizer's result; AVERAGED: its moving average
 * (optimizer.ema) if the run kept one. A saved model is evaluated with AVERAGED values. */
typedef enum clt_values { CLT_VALUES_RAW, CLT_VALUES_AVERAGED } clt_values;
/* Sets *out to the RAW or AVERAGED values of a model's tensor, whose name is as in model.safetensors. False:
 * the checkpoint has no such tensor. The checkpoint must have been opened with its tensors. */
bool clt_checkpoint_values(const clt_checkpoint *checkpoint, const char *name, clt_values values,
                           clt_named_tensor *out);
/* True if the checkpoint has moving averages. */
bool clt_checkpoint_averages(const clt_checkpoint *checkpoint);
/* Checks its tensor files with clt_safetensors_whole. */
clt_status clt_checkpoint_whole(const clt_checkpoint *checkpoint);
/* Opens the checkpoint that clt_checkpoint_open would probably open, with its state and text files, which
 * are verified, but without its tensors, which are neither read nor verified: `model` and `optimizer` are
 * NULL. CLT_ECHECKPOINT when there is none. */
clt_status clt_checkpoint_peek(const char *path, clt_checkpoint **out);
/* Reads one of the text files that were saved with the checkpoint, and verifies it. *text is to be freed; it
 * is NULL when the checkpoint has no file of that name. */
clt_status clt_checkpoint_text(const clt_checkpoint *checkpoint, const char *name, char **text,
                               size_t *length);
/* export.c: writes the parameters of a checkpoint (path as for clt_checkpoint_open) to the safetensors file
 * `out` as f32, f16 or bf16, rounded to nearest even, with the names and layouts of the checkpoint.
 * CLT_ENUMERIC names a value beyond the range of the type; nothing is written. CLT_EUSAGE: `out` lies in the
 * folder of a checkpoint. */
typedef struct clt_export_result {
    char from[1024]; /* folder of the checkpoint */
    int tensors;
    int64_t values, vanished; /* vanished: not 0 in the checkpoint, but 0 after rounding */
    uint64_t bytes;           /* size of the tensors */
    bool averaged;            /* some of the values are moving averages */
} clt_export_result;
clt_status clt_checkpoint_export(const char *path, clt_values values, clt_dtype dtype, const char *out,
                                 clt_export_result *result);
/* Exports n tensors in memory in the same way. Only f32 tensors are converted; result->from stays empty. */
clt_status clt_export_tensors(const clt_named_tensor *tensors, int n, clt_dtype dtype, const char *out,
                              clt_export_result *result);
/* CLT_EUSAGE if `out` would lie in the folder of a checkpoint, which must contain only what its manifest
 * lists. */
clt_status clt_export_check_outside(const char *out);
/* CLT_EUSAGE also if `out` is not a regular file (a device, say), or a file that holds no weights, which is
 * not overwritten. */
clt_status clt_export_check_file(const char *out);

/* True if the folder (a checkpoints folder or a run folder) has at least one step_N, valid or not, or cannot
 * be listed; in that case opening it reports why. */
bool clt_checkpoint_exists(const char *path);
/* True if the folder is a checkpoint, damaged or not, or holds some, here or in checkpoints/; false for a
 * folder or a file of weights alone. */
bool clt_checkpoint_named(const char *path);
/* The folders step_N of a run folder or checkpoints folder, in ascending order, valid or not; none if `path`
 * is itself a step_N. *out is to be freed in any case. */
clt_status clt_checkpoint_list(const char *path, clt_file_list *out);

/* The folder of the checkpoint with the best evaluation of the run so far, by checkpoint.best. path: as for
 * clt_checkpoint_open. CLT_ECHECKPOINT: there was no evaluation, or that checkpoint is not there. */
clt_status clt_checkpoint_best(const char *path, char *best, size_t size);
/* An integer of state.json; `missing` if it is absent or negative. */
int64_t clt_checkpoint_int(const clt_checkpoint *checkpoint, const char *key, int64_t missing);

#endif
