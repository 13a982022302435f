/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of differences between a file of weights and a model, reported together. Tensors of equal layers
 * share a line, and keys of the model section that would fit the file are named. */
#ifndef ENGINE_TRAIN_RUN_WEIGHT_MISMATCH_H
#define ENGINE_TRAIN_RUN_WEIGHT_MISMATCH_H

#include "engine/checkpoint/checkpoint.h"
#include "engine/graph/graph.h"

typedef enum clt_mismatch_kind {
    CLT_MISMATCH_SHAPE,   /* the file's tensor has another shape */
    CLT_MISMATCH_TYPE,    /* the file's tensor holds no floating-point numbers */
    CLT_MISMATCH_MISSING, /* the file has no such tensor */
    CLT_MISMATCH_UNUSED   /* the model has no such parameter */
} clt_mismatch_kind;

#define CLT_MISMATCH_LINES 40
#define CLT_MISMATCH_NAME 160

/* A line of the list: tensors whose names differ only in the number of their layer. */
typedef struct clt_mismatch {
    clt_mismatch_kind kind;
    char name[CLT_MISMATCH_NAME]; /* "h.%.attn.c_attn.weight": % stands for the layer */
    clt_shape need, have;
    char type[24];       /* type of the file's tensor */
    int64_t first, last; /* numbers of the layers; -1: the name has none */
    int count;
} clt_mismatch;

typedef struct clt_mismatches {
    const clt_graph *graph;
    const clt_safetensors *file;
    bool may_skip; /* the user can skip tensors by --init-skip */
    clt_mismatch lines[CLT_MISMATCH_LINES];
    int n_lines;
    int64_t count, untold; /* all tensors; the tensors that no line mentions */
} clt_mismatches;

/* need: the shape that the model needs (NULL: none); have: the tensor in the file (NULL: none). */
void clt_mismatches_add(clt_mismatches *list, clt_mismatch_kind kind, const char *name, const clt_shape *need,
                        const clt_named_tensor *have);
/* CLT_OK for an empty list, else CLT_ECHECKPOINT with the whole list as its message. */
clt_status clt_mismatches_finish(const clt_mismatches *list, const char *path);

#endif
