/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of the fuse pass share: questions to the work list, and its editing. Work that is fused away
 * is marked dead and swept at the end, so that positions stay valid. */
#ifndef ENGINE_PLAN_FUSE_H
#define ENGINE_PLAN_FUSE_H

#include "engine/plan/plan.h"

#define CLT_NO_WORK SIZE_MAX

/* True when a and b are the same bytes. */
bool clt_fuse_same(const clt_plan *plan, int32_t a, int32_t b);
/* Position of the forward work that makes a tensor; CLT_NO_WORK for fields and parameters. */
size_t clt_fuse_producer(const clt_plan *plan, int32_t tensor);
/* Works that need a tensor or a view of it after the forward work that makes it: forward ones, and heads that
 * do their forward part in backward (each counted once); *only: the last one found. */
int clt_fuse_readers(const clt_plan *plan, int32_t tensor, size_t *only);
/* Position of a node's backward work, CLT_NO_WORK if it has none. */
size_t clt_fuse_backward_of(const clt_plan *plan, const clt_node *node);
/* True when the bytes must stay readable after the step. */
bool clt_fuse_kept(const clt_plan *plan, int32_t tensor);
bool clt_fuse_is(const clt_node *node, const char *op);
/* A node with the same identity and attributes, whose tensors the caller may change. */
clt_status clt_fuse_clone(clt_plan *plan, const clt_node *node, clt_node **out);
/* The work makes `result` instead of its node's output, by a node of its own. */
clt_status clt_fuse_yield(clt_plan *plan, size_t at, int32_t result);
void clt_fuse_kill(clt_work *work);
/* The work does that node's work as well: for the names of layers in reports. */
void clt_fuse_note(clt_work *work, const clt_node *node);
bool clt_fuse_dead(const clt_work *work);
/* Takes the dead work out of the list. */
void clt_fuse_sweep(clt_plan *plan);

/* The sum that is the only reader of *result, which the work at `at` makes, becomes its epilogue's residual:
 * both of one shape and type, the other one made before. *result is then the sum. */
void clt_fuse_residual(clt_plan *plan, size_t at, int32_t *result);
/* The activation that a GEMM's epilogue can stand for; OCL_ACT_NONE for every other node. */
ocl_activation clt_fuse_activation_of(const clt_node *node);

/* fuse_dropout.c: dropout and the residual sum behind it. */
clt_status clt_fuse_dropout(clt_plan *plan);
/* fuse_linear.c: bias, activation and residual in a linear layer's GEMM, derivatives in the one that makes
 * their gradient. */
clt_status clt_fuse_linear(clt_plan *plan);
/* fuse_head.c: a linear layer and the cross_entropy over its outputs. */
clt_status clt_fuse_head(clt_plan *plan);

#endif
