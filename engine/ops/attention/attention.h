/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside the op attention: what its forms share (attention_emit.c) and the forms that have a file of their
 * own. For no other op. */
#ifndef ENGINE_OPS_ATTENTION_H
#define ENGINE_OPS_ATTENTION_H

#include "engine/ops/emit_util.h"

typedef struct clt_attention {
    int64_t batch, tq, tk, heads, kv_heads, dim;
    bool packed;
    int length; /* input that holds the lengths, -1 */
    /* of q, k, v: input, first element in a row, elements of a row */
    int input[3];
    int64_t start[3], ld[3];
} clt_attention;

clt_attention clt_attention_measure(const clt_graph *graph, const clt_node *node);
uint64_t clt_attention_rows(const clt_attention *s); /* queries of all heads */
/* Pairs of a query and a key it sees, when all lengths are full. */
double clt_attention_pairs(const clt_call *call, const clt_attention *s);
bool clt_attention_drops(const clt_call *call);

/* Kernels of a form, -DKERNEL of its file: a program then holds the one that is asked for, not the others
 * that the file defines, whose compilation would be for nothing. */
typedef enum clt_attention_kernel {
    CLT_ATTENTION_FORWARD = 1,
    CLT_ATTENTION_DQ,
    CLT_ATTENTION_DKV,
    CLT_ATTENTION_DELTA,
    CLT_ATTENTION_BACKWARD, /* lane: dq, dk and dv in one */
    CLT_ATTENTION_SUM,      /* lane: a gradient from its copies */
} clt_attention_kernel;

/* Begins a kernel, of which `name` is the function in the family's file, with the defines of attention.clh
 * but those of gradients. */
void clt_attention_begin(ocl_emitter *e, const clt_call *call, const clt_attention *s, const char *family,
                         clt_attention_kernel kernel, const char *name);
void clt_attention_inputs(ocl_emitter *e, const clt_call *call,
                          const clt_attention *s);                                      /* ATTENTION_INPUTS */
void clt_attention_sizes(ocl_emitter *e, const clt_call *call, const clt_attention *s); /* ATTENTION_SIZES */
void clt_attention_outputs(ocl_emitter *e, const clt_call *call, const clt_attention *s);

/* Gradients of q, k and v: where they go. Unwanted ones go to scratch memory, so that kernels need no form
 * for each combination. */
typedef struct clt_attention_grads {
    int32_t tensor[3];
    int64_t start[3], ld[3];
    bool accumulate[3];
    int32_t delta; /* workspace (N,H,Tq) f32 */
} clt_attention_grads;

/* False when no gradient is wanted. */
bool clt_attention_wants(const clt_call *call, const clt_attention *s, clt_attention_grads *g);
/* Gradient i gets scratch memory of a type if it is unwanted; of dk and dv, one gets it of the other's. */
void clt_attention_scratch(ocl_emitter *e, const clt_attention *s, clt_attention_grads *g, int i,
                           clt_dtype dtype);
void clt_attention_scratch_kv(ocl_emitter *e, const clt_call *call, const clt_attention *s,
                              clt_attention_grads *g);
/* Emits the kernel that computes delta, `grouped` for GPUs: by work-groups whose items share rows, so that
 * neighbours read neighbours; otherwise an item for each row. */
void clt_attention_delta(ocl_emitter *e, const clt_call *call, const clt_attention *s, clt_attention_grads *g,
                         bool grouped);
/* One gradient's buffer, row size and flag; `copies` of it lie one behind the other. */
void clt_attention_grad_arg(ocl_emitter *e, const clt_call *call, const clt_attention *s,
                            const clt_attention_grads *g, int i, int64_t copies);
/* DYT and GT of attention.clh for gradient i. */
void clt_attention_grad_types(ocl_emitter *e, const clt_call *call, const clt_attention_grads *g, int i);
/* What all backward kernels read and end with. */
void clt_attention_backward_args(ocl_emitter *e, const clt_call *call, const clt_attention *s,
                                 const clt_attention_grads *g);

#define CLT_ATTENTION_GROUP_ITEMS 64 /* of a work-group of attention_group.cl */

/* Of the families attention.forward and attention.backward (attention_family.c); problem: a clt_call. */
const char *clt_attention_fwd_problem(const void *problem, char *buffer, size_t size);
const char *clt_attention_bwd_problem(const void *problem, char *buffer, size_t size);
double clt_attention_fwd_flops(const void *problem);
double clt_attention_bwd_flops(const void *problem);
clt_status clt_attention_fwd_describe(const void *problem, void **data, size_t *size);
clt_status clt_attention_bwd_describe(const void *problem, void **data, size_t *size);

extern const ocl_variant clt_attention_fwd_lane, clt_attention_bwd_lane;
extern const ocl_variant clt_attention_fwd_mma, clt_attention_bwd_mma;

#endif
