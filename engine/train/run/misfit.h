/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of differences between a file of weights and a model, reported together. Tensors of equal layers
 * share a line, and keys of the model section that would fit the file are named. */
#ifndef ENGINE_TRAIN_RUN_MISFIT_H
#define ENGINE_TRAIN_RUN_MISFIT_H

#include "engine/checkpoint/checkpoint.h"
#include "engine/graph/graph.h"

typedef enum clt_misfit_kind {
    CLT_MISFIT_SHAPE,   /* the file's tensor has another shape */
    CLT_MISFIT_TYPE,    /* it holds no floating-point numbers */
    CLT_MISFIT_MISSING, /* the file has no such tensor */
    CLT_MISFIT_UNUSED   /* the model has no such parameter */
} clt_misfit_kind;

#define CLT_MISFIT_LINES 40
#define CLT_MISFIT_NAME 160

/* A line of the list: tensors whose names differ only in the number of their layer. */
typedef struct clt_misfit {
    clt_misfit_kind kind;
    char name[CLT_MISFIT_NAME]; /* "h.%.attn.c_attn.weight": % stands for the layer */
    clt_shape need, have;
    char type[24];       /* of the file's tensor */
    int64_t first, last; /* numbers of the layers; -1: the name has none */
    int count;
} clt_misfit;

typedef struct clt_misfits {
    const clt_graph *graph;
    const clt_safetensors *file;
    bool may_skip; /* the user can leave tensors out by --init-skip */
    clt_misfit lines[CLT_MISFIT_LINES];
    int n_lines;
    int64_t count, untold; /* all tensors; the tensors that no line mentions */
} clt_misfits;

/* need: the shape that the model needs (NULL: none); have: the tensor in the file (NULL: none). */
void clt_misfits_add(clt_misfits *list, clt_misfit_kind kind, const char *name, const clt_shape *need,
                     const clt_named_tensor *have);
/* CLT_OK for an empty list, else CLT_ECHECKPOINT with the whole list as its message. */
clt_status clt_misfits_finish(const clt_misfits *list, const char *path);

#endif
