/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of the fuse pass share: questions to the work list, and its editing. Work that is fused away
 * is marked dead and swept at the end, so that positions stay valid. An index from tensors to the works that
 * name them keeps each question short in long lists. */
#ifndef ENGINE_PLAN_FUSE_H
#define ENGINE_PLAN_FUSE_H

#include "engine/plan/plan.h"

#define CLT_NO_WORK SIZE_MAX

/* One mention of a tensor by a work. */
typedef struct clt_mention {
    size_t work;
    int32_t next; /* of the same tensor, -1: the last one */
} clt_mention;

typedef struct clt_fuse {
    clt_plan *plan;
    bool *kept;           /* by owner: see clt_plan_kept */
    int32_t *first;       /* by owner: its first mention, -1 */
    size_t *backward;     /* by node id: position of its backward work */
    clt_mention *mention; /* a work stands once among those of a tensor */
    size_t n, room;
    bool opened; /* every work has been asked */
} clt_fuse;

clt_status clt_fuse_open(clt_plan *plan, clt_fuse *fuse);
void clt_fuse_close(clt_fuse *fuse);
/* To be called when the work at `at` names other tensors than before. */
clt_status clt_fuse_changed(clt_fuse *fuse, size_t at);

/* The works that name a tensor or a view of it, dead ones too, in no order. */
#define CLT_FOR_MENTIONS(fuse, tensor, w)                                                                    \
    for (int32_t clt_m = clt_fuse_first(fuse, tensor);                                                       \
         clt_m >= 0 && ((w) = (fuse)->mention[clt_m].work, true); clt_m = (fuse)->mention[clt_m].next)
int32_t clt_fuse_first(const clt_fuse *fuse, int32_t tensor);

/* True when a and b are the same bytes. */
bool clt_fuse_same(const clt_plan *plan, int32_t a, int32_t b);
/* Position of the forward work that makes a tensor; CLT_NO_WORK for fields and parameters. */
size_t clt_fuse_producer(const clt_fuse *fuse, int32_t tensor);
/* Works that need a tensor or a view of it after the forward work that makes it: forward ones, and heads that
 * do their forward part in backward (each counted once); *only: the last one found. */
int clt_fuse_readers(const clt_fuse *fuse, int32_t tensor, size_t *only);
/* Position of a node's backward work, CLT_NO_WORK if it has none. */
size_t clt_fuse_backward_of(const clt_fuse *fuse, const clt_node *node);
/* True when the bytes must stay readable after the step. */
bool clt_fuse_kept(const clt_fuse *fuse, int32_t tensor);
/* A node with the same identity and attributes, whose tensors the caller may change. */
clt_status clt_fuse_clone(clt_fuse *fuse, const clt_node *node, clt_node **out);
/* The work makes `result` instead of its node's output, by a node of its own. */
clt_status clt_fuse_yield(clt_fuse *fuse, size_t at, int32_t result);
void clt_fuse_kill(clt_work *work);
/* The work does that node's work as well: for the names of layers in reports. */
void clt_fuse_note(clt_work *work, const clt_node *node);
bool clt_fuse_dead(const clt_work *work);
/* Takes the dead work out of the list. */
void clt_fuse_sweep(clt_plan *plan);

/* The sum that is the only reader of *result, which the work at `at` makes, becomes its epilogue's residual:
 * both of one shape and type, the other one made before. *result is then the sum. */
clt_status clt_fuse_residual(clt_fuse *fuse, size_t at, int32_t *result);
/* The activation that a GEMM's epilogue can stand for; OCL_ACT_NONE for every other node. */
ocl_activation clt_fuse_activation_of(const clt_node *node);

/* fuse_residual.c: ops other than GEMMs that can add a residual on their way, and the sum behind them. */
clt_status clt_fuse_sums(clt_fuse *fuse);
/* fuse_gemm.c: activation and residual in a GEMM's epilogue, derivatives in the one that makes their
 * gradient. */
clt_status clt_fuse_gemms(clt_fuse *fuse);
/* fuse_head.c: a GEMM and the loss over its outputs. */
clt_status clt_fuse_head(clt_fuse *fuse);

#endif
