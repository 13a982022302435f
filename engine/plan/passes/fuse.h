/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions that the parts of the fuse pass share: queries and edits of the work list. Work that has
 * been fused into other work is only marked dead and removed at the end, so that positions in the list stay
 * valid. An index from each tensor to the works that name it makes a query take time in proportion to its
 * answer, not to the list. */
#ifndef ENGINE_PLAN_PASSES_FUSE_H
#define ENGINE_PLAN_PASSES_FUSE_H

#include "engine/plan/plan.h"

#define CLT_NO_WORK SIZE_MAX

/* A mention, which is an entry of the index: a work that names a tensor. The entries of a tensor form a
 * linked list. */
typedef struct clt_mention {
    size_t work;
    int32_t next; /* next mention of the same tensor, -1 after the last */
} clt_mention;

typedef struct clt_fuse {
    clt_plan *plan;
    bool *kept;           /* by owning tensor: true if it is kept, see clt_plan_kept */
    int32_t *first;       /* by owning tensor: its first mention, -1 none */
    size_t *backward;     /* by node id: position of its backward work */
    clt_mention *mention; /* a work appears once among the mentions of a tensor */
    size_t n, room;
    bool opened; /* the index covers every work */
} clt_fuse;

clt_status clt_fuse_open(clt_plan *plan, clt_fuse *fuse);
void clt_fuse_close(clt_fuse *fuse);
CLT_SCOPED_VALUE(clt_fuse, clt_fuse_close)
/* Updates the index; to be called when the tensors that the work at `at` names have changed. */
clt_status clt_fuse_changed(clt_fuse *fuse, size_t at);

/* Loops over the works that name a tensor or a view of it, dead ones included, in no particular order. */
#define CLT_FOR_MENTIONS(fuse, tensor, w)                                                                    \
    for (int32_t clt_m = clt_fuse_first(fuse, tensor);                                                       \
         clt_m >= 0 && ((w) = (fuse)->mention[clt_m].work, true); clt_m = (fuse)->mention[clt_m].next)
int32_t clt_fuse_first(const clt_fuse *fuse, int32_t tensor);

/* True when a and b occupy the same bytes. */
bool clt_fuse_same(const clt_plan *plan, int32_t a, int32_t b);
/* Position of the forward work that computes a tensor; CLT_NO_WORK for fields and parameters. */
size_t clt_fuse_producer(const clt_fuse *fuse, int32_t tensor);
/* Number of works that read a tensor or a view of it after the forward work that computes it: forward works,
 * and fused heads, which do their forward part in the backward phase (each counted once). *only: one of the
 * readers, so if the result is 1, the only one. */
int clt_fuse_readers(const clt_fuse *fuse, int32_t tensor, size_t *only);
/* Position of a node's backward work, CLT_NO_WORK if it has none. */
size_t clt_fuse_backward_of(const clt_fuse *fuse, const clt_node *node);
/* True when the bytes must stay readable after the step. */
bool clt_fuse_kept(const clt_fuse *fuse, int32_t tensor);
/* Makes a copy of a node, with the same identity and attributes, whose tensors the caller may change. */
clt_status clt_fuse_clone(clt_fuse *fuse, const clt_node *node, clt_node **out);
/* Makes the work write `result` instead of its node's output; the work gets a changed copy of the node. */
clt_status clt_fuse_yield(clt_fuse *fuse, size_t at, int32_t result);
void clt_fuse_kill(clt_work *work);
/* Records that the work also does the work of that node, so that reports can name both layers. */
void clt_fuse_note(clt_work *work, const clt_node *node);
bool clt_fuse_dead(const clt_work *work);
/* Removes dead work from the list. */
void clt_fuse_sweep(clt_plan *plan);

/* Makes the sum that reads *result the residual of the epilogue of the work at `at`, which computes *result;
 * *result is then the output of the sum. The sum must be the only reader of *result and add two tensors of
 * one shape and type; the other tensor must be computed earlier. Otherwise nothing changes. */
clt_status clt_fuse_residual(clt_fuse *fuse, size_t at, int32_t *result);
/* The option of a GEMM's epilogue that computes the node's activation; OCL_ACT_NONE: there is none. */
ocl_activation clt_fuse_activation_of(const clt_node *node);

/* fuse_residual.c: fuses ops other than GEMMs that can add a residual to their result with the sum that
 * follows them. */
clt_status clt_fuse_sums(clt_fuse *fuse);
/* fuse_gemm.c: fuses activation and residual into the epilogue of a forward GEMM, and the derivative of an
 * activation into the epilogue of the backward GEMM that computes the gradient of the activation's
 * output. */
clt_status clt_fuse_gemms(clt_fuse *fuse);
/* fuse_head.c: fuses a GEMM with the loss that reads its outputs. */
clt_status clt_fuse_head(clt_fuse *fuse);

#endif
