/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the readers of PyTorch's files: pytorch.c opens the file and finds the state dict in its pickle,
 * pytorch_module.c makes state dicts of whole modules, pytorch_storage.c finds the bytes of storages,
 * pytorch_tensor.c makes tensors of them. */
#ifndef ENGINE_CHECKPOINT_PYTORCH_INTERNAL_H
#define ENGINE_CHECKPOINT_PYTORCH_INTERNAL_H

#include "engine/checkpoint/weight_file.h"
#include "engine/files/pickle.h"
#include "engine/files/zip.h"

typedef struct clt_pytorch_storage {
    const char *key;
    const uint8_t *data;
    uint64_t bytes;
} clt_pytorch_storage;

typedef struct clt_pytorch {
    const char *path;
    clt_safetensors *file; /* the file that is being filled in */
    clt_pickle pickle;
    clt_zip zip;                   /* the zip form; no entries: the older form */
    const char *stem;              /* folder of all entries in the archive, with its '/' */
    uint8_t *checked;              /* for each entry: true if its CRC-32 was compared */
    clt_pytorch_storage *storages; /* the older form: sorted by key */
    size_t n_storages;
    uint64_t copied; /* bytes of values that were copied into row-major order */
    uint64_t spent;  /* work spent on modules, in units of pytorch_module.c */
} clt_pytorch;

/* A type of elements. */
typedef struct clt_pytorch_type {
    const char *storage; /* the global that names the type's class of storages; NULL: there is none */
    const char *dtype;   /* the global that names the type itself */
    const char *name;    /* the type's name in safetensors files */
    size_t bytes;
} clt_pytorch_type;

/* Finds the bytes of the storage that a persistent value names. *type: of its elements; NULL for an untyped
 * storage. CLT_ECHECKPOINT: it is damaged or not in the file. */
clt_status clt_pytorch_find_storage(clt_pytorch *p, const clt_pickle_value *persistent,
                                    clt_pytorch_storage *out, const clt_pytorch_type **type);
/* The type with this global as its dtype; NULL: none. */
const clt_pytorch_type *clt_pytorch_dtype(const clt_pickle_value *global);
/* The older form: reads the storages that follow the list of their keys, from `at` on. */
clt_status clt_pytorch_read_storages(clt_pytorch *p, const clt_pickle_value *keys, const uint8_t *at);

/* True for an object with the attributes of a torch.nn.Module, whatever its class is. */
bool clt_pytorch_is_module(const clt_pickle_value *value);
/* Replaces a module by its state dict, with dotted names; leaves other values. CLT_ECHECKPOINT: the module
 * contains itself, is too deep or too large, or has members of a wrong type. */
clt_status clt_pytorch_open_module(clt_pytorch *p, clt_pickle_value **value);
/* True for a call that makes a set of its arguments. */
bool clt_pytorch_is_set(const clt_pickle_value *value);
/* True for a value that PyTorch would make a dense tensor of. *dims: its number of dimensions. */
bool clt_pytorch_is_tensor(const clt_pickle_value *value, size_t *dims);
/* Adds such a tensor to the file. */
clt_status clt_pytorch_add_tensor(clt_pytorch *p, const char *name, const clt_pickle_value *value);

#endif
