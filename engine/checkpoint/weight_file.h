/* SPDX-License-Identifier: Apache-2.0
 *
 * An open file of weights, whatever its format: a table of named tensors over the mapped file. The reader of
 * a format fills it, weight_file.c answers questions about it. */
#ifndef ENGINE_CHECKPOINT_WEIGHT_FILE_H
#define ENGINE_CHECKPOINT_WEIGHT_FILE_H

#include "engine/base/mem.h"
#include "engine/checkpoint/checkpoint.h"

struct clt_safetensors {
    clt_mapping mapping;
    clt_json_doc *header; /* safetensors: owns every name */
    clt_arena *arena;     /* PyTorch: owns every name */
    clt_scratch copies;   /* PyTorch: values that the file does not hold in row-major order */
    const clt_json *metadata;
    clt_named_tensor *tensors;        /* tensors in file order */
    const char **types;               /* type of each tensor, as the file names it */
    const clt_named_tensor **by_name; /* sorted */
    int count;
    clt_safetensors **parts; /* the files that were opened as one, which then has no mapping of its own */
    int n_parts;
};

/* Makes the file's tables with room for `count` tensors. */
clt_status clt_weight_file_tables(clt_safetensors *file, int64_t count);
/* Adds a tensor; type: the name of its type in safetensors; a string constant, or memory of the file. */
void clt_weight_file_add(clt_safetensors *file, const clt_named_tensor *tensor, const char *type);
/* Sorts the names when all tensors were added. *twice: a name that two of them have, else NULL. */
void clt_weight_file_sort(clt_safetensors *file, const char **twice);

/* weights.c: opens one file of any known format. */
clt_status clt_weights_open_file(const char *path, clt_safetensors **out);

/* pytorch.c: opens a file that torch.save wrote, in its zip form or the older one. entry: the state dict
 * that is meant if there are several, as keys joined by ':'; "" or NULL: the only one. Nothing that the file
 * contains is run. CLT_ECHECKPOINT: it is no such file, it is damaged, its tensors leave their storages, or
 * it has no state dict, or several of them, which are listed. */
clt_status clt_pytorch_open(const char *path, const char *entry, clt_safetensors **out);
/* True if the file begins like one that torch.save wrote, now or in the past. */
bool clt_pytorch_looks(const char *path);

#endif
