/* SPDX-License-Identifier: Apache-2.0
 *
 * Emits the parts that all variants of the op attention share: sizes and strides of a call, the defines and
 * arguments of attention.clh, the memory of gradients. Knows no variant and no work-group. */
#include <math.h>
#include <string.h>

#include "engine/ops/attention/attention.h"

#define SPAN_TOKENS 32 /* equal to CHUNK of attention_spans.cl */

/* Sets the layout of the rows of q, k and v. It cannot fail, because the op's inference has checked the
 * shapes. */
static void row_layout(const clt_node *node, clt_attention *s)
{
    int64_t widths[3] = {s->heads * s->dim, s->kv_heads * s->dim, s->kv_heads * s->dim};
    s->packed = node->n_in < 3;
    int last = node->n_in == 2 || node->n_in == 4 ? node->n_in - 1 : -1;
    bool documents = clt_node_attr(node, "documents")->b;
    s->length = documents ? -1 : last;
    s->documents = documents ? last : -1;
    for (int i = 0; i < 3; i++) {
        s->input[i] = s->packed ? 0 : i;
        s->start[i] = s->packed && i > 0 ? s->start[i - 1] + widths[i - 1] : 0;
        s->ld[i] = s->packed ? widths[0] + 2 * widths[1] : widths[i];
    }
}

clt_attention clt_attention_measure(const clt_graph *graph, const clt_node *node)
{
    clt_attention s = {.heads = clt_node_attr(node, "heads")->i,
                       .kv_heads = clt_node_attr(node, "kv_heads")->i};
    const clt_shape *q = &clt_graph_tensor(graph, node->in[0])->shape;
    if (s.kv_heads == 0)
        s.kv_heads = s.heads;
    s.batch = q->dim[0];
    s.tq = s.tk = q->dim[1];
    if (node->n_in >= 3)
        s.tk = clt_graph_tensor(graph, node->in[1])->shape.dim[1];
    s.window = clt_node_attr(node, "window")->i;
    if (s.window >= s.tk)
        s.window = 0;
    s.dim = q->dim[2] / (node->n_in < 3 ? s.heads + 2 * s.kv_heads : s.heads);
    row_layout(node, &s);
    return s;
}
uint64_t clt_attention_rows(const clt_attention *s)
{
    return (uint64_t)(s->batch * s->heads * s->tq);
}

/* The sum 1 + 2 + ... + n; 0 if n < 1. */
static double sum_up_to(int64_t n)
{
    return n > 0 ? 0.5 * (double)n * (double)(n + 1) : 0;
}

double clt_attention_pairs(const clt_call *call, const clt_attention *s)
{
    double hidden = 0;
    if (clt_node_attr(call->node, "causal")->b)
        hidden = sum_up_to(s->tq - 1);
    /* tk - window keys are too early for the last query, one fewer for the query before it, and so on */
    if (s->window > 0)
        hidden += sum_up_to(s->tk - s->window) - sum_up_to(s->tk - s->window - s->tq);
    return (double)(s->batch * s->heads) * ((double)s->tq * (double)s->tk - hidden);
}

bool clt_attention_drops(const clt_call *call)
{
    return call->training && clt_node_attr(call->node, "dropout")->f > 0;
}

/* Defines WIDTH, the length of vectors in the variant for any device (attention.cl). */
static void define_width(ocl_emitter *e)
{
    bool wide = ocl_prefers_lanes(e->device);
    ocl_define(e, "WIDTH", wide ? 16 : 4);
    ocl_kernel_needs(e, wide ? OCL_CAP_WIDE_VECTORS : 0);
}

/* Emits the kernel that saves where the document of each token begins and ends. */
static void emit_spans(ocl_emitter *e, const clt_call *call, const clt_attention *s)
{
    uint64_t tokens = (uint64_t)(s->batch * s->tq);
    uint64_t items = (uint64_t)s->batch * clt_div_up((uint64_t)s->tq, SPAN_TOKENS);
    ocl_kernel_begin(e, "attention_spans", "attention_spans");
    ocl_arg_out(e, call->saved[1], CLT_I32, 2 * tokens);
    ocl_arg_in(e, call->in[s->documents], CLT_I32, tokens);
    clt_arg_size32(e, s->tq, "tokens");
    ocl_arg_u64(e, items);
    ocl_kernel_end_items(e, items, clt_local_rows(e->device, items), 0);
}

void clt_attention_begin(ocl_emitter *e, const clt_call *call, const clt_attention *s, const char *family,
                         clt_attention_kernel kernel, const char *name)
{
    if (kernel == CLT_ATTENTION_FORWARD && s->documents >= 0)
        emit_spans(e, call, s);
    ocl_kernel_begin(e, family, name);
    if (strcmp(family, "attention") == 0)
        define_width(e);
    ocl_define(e, "KERNEL", kernel);
    ocl_define(e, "HEAD_SIZE", s->dim);
    ocl_define(e, "HEADS", s->heads);
    ocl_define(e, "KV_HEADS", s->kv_heads);
    ocl_define(e, "CAUSAL", clt_node_attr(call->node, "causal")->b);
    ocl_define(e, "HAS_LENGTHS", s->length >= 0);
    if (s->window > 0)
        ocl_define(e, "WINDOW", s->window);
    if (s->documents >= 0)
        ocl_define(e, "DOCUMENTS", 1);
    ocl_define(e, "DROPOUT", clt_attention_drops(call));
    clt_define_dtype(e, "DT", clt_call_dtype(call, call->in[0]));
}

static ocl_tensor_ref attention_ref(int32_t tensor, int64_t start, clt_dtype dtype)
{
    ocl_tensor_ref ref = {tensor, (uint64_t)start * clt_dtype_bytes(dtype)};
    return ref;
}

/* Adds the arguments ATTENTION_INPUTS of attention.clh. */
void clt_attention_inputs(ocl_emitter *e, const clt_call *call, const clt_attention *s)
{
    clt_dtype dtype = clt_call_dtype(call, call->in[0]);
    for (int i = 0; i < 3; i++) {
        int64_t rows = s->batch * (i ? s->tk : s->tq), width = (i ? s->kv_heads : s->heads) * s->dim;
        ocl_arg_tensor(e, OCL_READ, attention_ref(call->in[s->input[i]], s->start[i], dtype), dtype,
                       (uint64_t)(rows * width));
    }
}

/* Adds the arguments ATTENTION_SIZES of attention.clh. */
void clt_attention_sizes(ocl_emitter *e, const clt_call *call, const clt_attention *s)
{
    double scale = clt_node_attr(call->node, "scale")->f, p = clt_node_attr(call->node, "dropout")->f;
    if (s->length >= 0)
        ocl_arg_in(e, call->in[s->length], CLT_I32, (uint64_t)s->batch);
    if (s->documents >= 0)
        ocl_arg_in(e, call->saved[1], CLT_I32, 2 * (uint64_t)(s->batch * s->tq));
    clt_arg_step(e, call);
    clt_arg_size32(e, s->batch, "samples");
    clt_arg_size32(e, s->tq, "queries");
    clt_arg_size32(e, s->tk, "keys");
    /* kernels add and subtract positions of queries and keys in 32 bits */
    clt_check_size32(e, s->tq + s->tk, "queries and keys");
    for (int i = 0; i < 3; i++)
        clt_arg_size32(e, s->ld[i], "elements of a row");
    ocl_arg_f32(e, (float)(scale > 0 ? scale : 1.0 / sqrt((double)s->dim)));
    ocl_arg_u32(e, (uint32_t)call->node->stream);
    ocl_arg_f32(e, (float)p);
    ocl_arg_f32(e, (float)(1.0 / (1.0 - p)));
}

void clt_attention_outputs(ocl_emitter *e, const clt_call *call, const clt_attention *s)
{
    ocl_arg_out(e, call->out[0], clt_call_dtype(call, call->out[0]),
                clt_attention_rows(s) * (uint64_t)s->dim);
    ocl_arg_out(e, call->saved[0], CLT_F32, clt_attention_rows(s));
}
bool clt_attention_wants(const clt_call *call, const clt_attention *s, clt_attention_grads *g)
{
    bool any = false;
    for (int i = 0; i < 3; i++) {
        g->tensor[i] = call->din[s->input[i]];
        g->start[i] = s->start[i];
        g->ld[i] = s->ld[i];
        g->accumulate[i] = call->din_accumulate[s->input[i]];
        any = any || g->tensor[i] >= 0;
    }
    return any;
}

void clt_attention_scratch(ocl_emitter *e, const clt_attention *s, clt_attention_grads *g, int i,
                           clt_dtype dtype)
{
    if (g->tensor[i] >= 0)
        return;
    g->start[i] = 0;
    g->ld[i] = (i ? s->kv_heads : s->heads) * s->dim;
    g->accumulate[i] = false;
    g->tensor[i] =
        ocl_workspace(e, dtype, (uint64_t)(s->batch * (i ? s->tk : s->tq) * g->ld[i]), "attention.unused");
}

void clt_attention_scratch_kv(ocl_emitter *e, const clt_call *call, const clt_attention *s,
                              clt_attention_grads *g)
{
    clt_dtype dtype = clt_call_dtype(call, g->tensor[1] >= 0 ? g->tensor[1] : g->tensor[2]);
    clt_attention_scratch(e, s, g, 1, dtype);
    clt_attention_scratch(e, s, g, 2, dtype);
}

/* Rows of a work-group: ITEMS / ROW_ITEMS of attention_group.cl. */
static uint64_t delta_rows(int64_t dim)
{
    uint64_t items = 1;
    while (items < 16 && (int64_t)items * 8 < dim)
        items *= 2;
    return CLT_ATTENTION_GROUP_ITEMS / items;
}

void clt_attention_delta(ocl_emitter *e, const clt_call *call, const clt_attention *s, clt_attention_grads *g,
                         bool grouped)
{
    uint64_t rows = clt_attention_rows(s), elements = rows * (uint64_t)s->dim;
    clt_dtype dy = clt_call_dtype(call, call->dout[0]), y = clt_call_dtype(call, call->out[0]);
    g->delta = ocl_workspace(e, CLT_F32, rows, "attention.delta");
    ocl_kernel_begin(e, grouped ? "attention_group" : "attention",
                     grouped ? "attention_bwd_delta_group" : "attention_bwd_delta");
    if (!grouped)
        define_width(e);
    ocl_define(e, "KERNEL", CLT_ATTENTION_DELTA);
    ocl_define(e, "HEAD_SIZE", s->dim);
    ocl_define(e, "HEADS", s->heads);
    clt_define_dtype(e, "DT", y);
    clt_define_dtype(e, "DYT", dy);
    ocl_arg_out(e, g->delta, CLT_F32, rows);
    ocl_arg_in(e, call->dout[0], dy, elements);
    ocl_arg_in(e, call->out[0], y, elements);
    clt_arg_size32(e, s->batch, "samples");
    clt_arg_size32(e, s->tq, "queries");
    double flops = 2.0 * (double)elements;
    if (grouped)
        ocl_kernel_end_1d(e, clt_div_up(rows, delta_rows(s->dim)) * CLT_ATTENTION_GROUP_ITEMS,
                          CLT_ATTENTION_GROUP_ITEMS, flops);
    else
        ocl_kernel_end_items(e, rows, clt_local_rows(e->device, rows), flops);
}

void clt_attention_grad_arg(ocl_emitter *e, const clt_call *call, const clt_attention *s,
                            const clt_attention_grads *g, int i, int64_t copies)
{
    clt_dtype dtype = clt_call_dtype(call, g->tensor[i]);
    int64_t rows = copies * s->batch * (i ? s->tk : s->tq), width = (i ? s->kv_heads : s->heads) * s->dim;
    ocl_arg_tensor(e, g->accumulate[i] ? OCL_READ_WRITE : OCL_WRITE,
                   attention_ref(g->tensor[i], g->start[i], dtype), dtype, (uint64_t)(rows * width));
    clt_arg_size32(e, g->ld[i], "elements of a gradient's row");
    ocl_arg_i32(e, g->accumulate[i]);
}

/* Defines the types of dy and of the gradients. Gradients that one kernel writes have the same type, as all
 * gradients of activations do. */
void clt_attention_grad_types(ocl_emitter *e, const clt_call *call, const clt_attention_grads *g, int i)
{
    clt_define_dtype(e, "DYT", clt_call_dtype(call, call->dout[0]));
    clt_define_dtype(e, "GT", clt_call_dtype(call, g->tensor[i]));
}

void clt_attention_backward_args(ocl_emitter *e, const clt_call *call, const clt_attention *s,
                                 const clt_attention_grads *g)
{
    ocl_arg_in(e, call->dout[0], clt_call_dtype(call, call->dout[0]),
               clt_attention_rows(s) * (uint64_t)s->dim);
    ocl_arg_in(e, call->saved[0], CLT_F32, clt_attention_rows(s));
    ocl_arg_in(e, g->delta, CLT_F32, clt_attention_rows(s));
    clt_attention_inputs(e, call, s);
    clt_attention_sizes(e, call, s);
}
