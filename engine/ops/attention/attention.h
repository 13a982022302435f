/* SPDX-License-Identifier: Apache-2.0
 *
 * Declarations for the files of the op attention: the sizes of a call, the parts of emission that all
 * variants share (attention_emit.c), and the variants that have their own file. No other op includes it. */
#ifndef ENGINE_OPS_ATTENTION_ATTENTION_H
#define ENGINE_OPS_ATTENTION_ATTENTION_H

#include "engine/ops/emit_util.h"

typedef struct clt_attention {
    int64_t batch, tq, tk, heads, kv_heads, dim;
    bool packed;
    int length, documents; /* inputs with the lengths and with the documents; -1: none */
    int64_t window;        /* most keys that a query attends to; 0: it masks no key */
    /* for each of q, k, v: index of the input, offset of the first element in a row, length of a row */
    int input[3];
    int64_t start[3], ld[3];
} clt_attention;

clt_attention clt_attention_measure(const clt_graph *graph, const clt_node *node);
uint64_t clt_attention_rows(const clt_attention *s); /* number of rows: queries of all heads */
/* Number of pairs of a query and a key that it attends to, when all samples have full length and rows hold
 * one document each. */
double clt_attention_pairs(const clt_call *call, const clt_attention *s);
bool clt_attention_drops(const clt_call *call);

/* The kernels of a variant, as values of -DKERNEL. A program contains only one of them, so that no time is
 * spent on compiling the others in its file. */
typedef enum clt_attention_kernel {
    CLT_ATTENTION_FORWARD = 1,
    CLT_ATTENTION_DQ,
    CLT_ATTENTION_DKV,
    CLT_ATTENTION_DELTA,
    CLT_ATTENTION_BACKWARD, /* dq, dk and dv in one kernel */
    CLT_ATTENTION_SUM,      /* lane: sums the partial copies of a gradient */
} clt_attention_kernel;

/* Begins a kernel: function `name` of the file `family`.cl, with all defines of attention.clh except the
 * types of gradients. Before a forward kernel of a call with documents it emits the kernel that saves where
 * each token's document begins and ends. */
void clt_attention_begin(ocl_emitter *e, const clt_call *call, const clt_attention *s, const char *family,
                         clt_attention_kernel kernel, const char *name);
void clt_attention_inputs(ocl_emitter *e, const clt_call *call,
                          const clt_attention *s);                                      /* ATTENTION_INPUTS */
void clt_attention_sizes(ocl_emitter *e, const clt_call *call, const clt_attention *s); /* ATTENTION_SIZES */
void clt_attention_outputs(ocl_emitter *e, const clt_call *call, const clt_attention *s);

/* Where the gradients of q, k and v are written. Unwanted gradients go to scratch memory, so that one kernel
 * serves every combination of wanted gradients. */
typedef struct clt_attention_grads {
    int32_t tensor[3];
    int64_t start[3], ld[3];
    bool accumulate[3];
    int32_t delta; /* workspace (N,H,Tq) f32 */
} clt_attention_grads;

/* True if any gradient is wanted. */
bool clt_attention_wants(const clt_call *call, const clt_attention *s, clt_attention_grads *g);
/* Gives gradient i scratch memory of type `dtype` if it is unwanted. The second function does this for dk or
 * dv, whichever is unwanted, with the type of the other one. */
void clt_attention_scratch(ocl_emitter *e, const clt_attention *s, clt_attention_grads *g, int i,
                           clt_dtype dtype);
void clt_attention_scratch_kv(ocl_emitter *e, const clt_call *call, const clt_attention *s,
                              clt_attention_grads *g);
/* Emits the kernel that computes delta. grouped (for GPUs): the items of a work-group share rows, so that
 * their reads are coalesced; otherwise one item for each row. */
void clt_attention_delta(ocl_emitter *e, const clt_call *call, const clt_attention *s, clt_attention_grads *g,
                         bool grouped);
/* Adds the arguments of one gradient: buffer, length of a row, accumulate flag. The buffer has `copies`
 * partial copies, one after the other. */
void clt_attention_grad_arg(ocl_emitter *e, const clt_call *call, const clt_attention *s,
                            const clt_attention_grads *g, int i, int64_t copies);
/* Defines DYT and GT of attention.clh for gradient i. */
void clt_attention_grad_types(ocl_emitter *e, const clt_call *call, const clt_attention_grads *g, int i);
/* Adds the last arguments of a backward kernel: dy, lse, delta, the inputs and the sizes. */
void clt_attention_backward_args(ocl_emitter *e, const clt_call *call, const clt_attention *s,
                                 const clt_attention_grads *g);

#define CLT_ATTENTION_GROUP_ITEMS 64 /* items of a work-group of attention_group.cl */

/* Members of the families attention.forward and attention.backward (attention_family.c); `problem` is a
 * clt_call. */
const char *clt_attention_fwd_problem(const void *problem, char *buffer, size_t size);
const char *clt_attention_bwd_problem(const void *problem, char *buffer, size_t size);
double clt_attention_fwd_flops(const void *problem);
double clt_attention_bwd_flops(const void *problem);
clt_status clt_attention_fwd_describe(const void *problem, void **data, size_t *size);
clt_status clt_attention_bwd_describe(const void *problem, void **data, size_t *size);

extern const ocl_variant clt_attention_fwd_lane, clt_attention_bwd_lane;
extern const ocl_variant clt_attention_fwd_mma, clt_attention_bwd_mma, clt_attention_bwd_mma_one;

#endif
