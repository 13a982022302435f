/* SPDX-License-Identifier: Apache-2.0
 *
 * The loss linear_cross_entropy: a linear layer and cross_entropy over its outputs as one piece of work, so
 * that the logits of all rows never exist at the same time. The fuse pass makes it from the two ops
 * (engine/plan/passes/fuse_head.c). Knows matrices, rows of logits and targets, no model. */
#include "engine/ops/cross_entropy/cross_entropy.h"
#include "engine/ops/cross_entropy/linear_cross_entropy.h"
#include "engine/ops/elementwise/bias.h"
#include "engine/ops/emit_util.h"
#include "engine/ops/linear/linear.h"
#include "engine/ops/loss/loss.h"

/* linear_cross_entropy: loss = cross_entropy(x W^T + b, target), over `chunk` rows at a time
 * shapes  x (N,...,I), target (N,...), W (O,I), b (O) -> record (4); rows and classes as in cross_entropy
 * dtypes  x,W f32|f16|bf16; target u8|u16|i32; logits as x; accumulates f32
 * grads   dx, dW, db: write or accumulate. Logits are recomputed in backward and replaced by their gradients.
 *         Chunks add to dW and db in order, so with several chunks the last bits differ from the two ops
 * memory  workspace: chunk*O logits, 12*R bytes; db: see bias       units   loss in nats
 * errors  as linear and cross_entropy
 * tested  verify -t 'linear_cross_entropy*', tol 32; test_fuse: equal to the two ops */

static const clt_attr_spec head_attrs[] = {
    CLT_LINEAR_ATTRS,
    CLT_CROSS_ENTROPY_ATTRS,
    CLT_SPEC_INT("chunk", 0, 0, INT32_MAX,
                 "rows whose logits exist at the same time; 0: the number that fills 64 MiB, but at least "
                 "128 and at least an eighth of the rows"),
};

/* large compared with a pass over dW, small compared with a model's memory */
#define CHUNK_BYTES (INT64_C(64) << 20)
#define CHUNK_MIN_ROWS 128 /* GEMMs with fewer rows are slow */
#define MAX_CHUNKS 8       /* each chunk reads and writes all of dW */

int64_t clt_head_chunk(int64_t rows, int64_t row_bytes)
{
    int64_t chunk = CHUNK_BYTES / (row_bytes > 0 ? row_bytes : 1);
    chunk = chunk < CHUNK_MIN_ROWS ? CHUNK_MIN_ROWS : chunk;
    int64_t most = (rows + MAX_CHUNKS - 1) / MAX_CHUNKS;
    chunk = chunk < most ? most : chunk;
    int64_t parts = (rows + chunk - 1) / chunk;
    return parts <= 1 ? rows : (rows + parts - 1) / parts; /* chunks of equal size */
}

static clt_status head_infer(clt_infer *ctx)
{
    clt_shape logits;
    CLT_TRY(clt_linear_shape(ctx, &logits));
    CLT_TRY(clt_linear_params(ctx));
    return clt_cross_entropy_infer(ctx, &logits);
}

typedef struct head {
    const clt_call *call;
    bool group;
    int64_t rows, in, out, chunk;
    clt_dtype dtype; /* type of x and of the logits */
    int32_t logits, row_sums;
    clt_cross_entropy part; /* rows of the current chunk */
} head;

static head head_open(ocl_emitter *e, const clt_call *call, bool group)
{
    const clt_tensor *x = clt_call_tensor(call, call->in[0]);
    clt_shape shape = x->shape;
    head h = {.call = call, .group = group, .rows = clt_shape_rows(&shape), .in = clt_shape_last(&shape)};
    h.dtype = x->dtype;
    h.out = clt_call_tensor(call, call->param[0])->shape.dim[0];
    shape.dim[shape.ndim - 1] = h.out;
    h.chunk = clt_node_attr(call->node, "chunk")->i;
    if (h.chunk == 0)
        h.chunk = clt_head_chunk(h.rows, h.out * (int64_t)clt_dtype_bytes(h.dtype));
    h.chunk = h.chunk < h.rows ? h.chunk : h.rows;
    h.logits = ocl_workspace(e, h.dtype, (uint64_t)(h.chunk * h.out), "logits");
    h.row_sums = ocl_workspace(e, CLT_F32, 3 * (uint64_t)h.rows, "cross_entropy.rows");
    h.part = clt_cross_entropy_make(call, &shape, h.dtype);
    h.part.logits = h.logits;
    h.part.out = h.row_sums;
    return h;
}

/* Reference to the rows of the current chunk in a tensor with `columns` columns. */
static ocl_tensor_ref head_rows(const head *h, int32_t tensor, int64_t columns)
{
    if (tensor < 0)
        return OCL_NO_TENSOR;
    return (ocl_tensor_ref){tensor, h->part.first * (uint64_t)columns *
                                        clt_dtype_bytes(clt_call_dtype(h->call, tensor))};
}

static clt_status head_logits(ocl_emitter *e, head *h, int64_t first)
{
    h->part.first = (uint64_t)first;
    h->part.rows = (uint64_t)(h->rows - first < h->chunk ? h->rows - first : h->chunk);
    ocl_gemm g = ocl_gemm_make((int64_t)h->part.rows, h->out, h->in, false, true);
    g.type_a = g.type_c = h->dtype;
    g.type_b = clt_call_dtype(h->call, h->call->param[0]);
    g.a = head_rows(h, h->call->in[0], h->in);
    g.b = ocl_ref(h->call->param[0]);
    g.c = ocl_ref(h->logits);
    if (h->call->node->n_param > 1)
        g.bias = ocl_ref(h->call->param[1]);
    return ocl_gemm_emit(e, &g, NULL);
}

static clt_status head_forward(ocl_emitter *e, const clt_call *call, bool group)
{
    head h = head_open(e, call, group);
    h.part.stats = ocl_workspace(e, CLT_F32, 2 * (uint64_t)h.chunk, "cross_entropy.stats");
    for (int64_t first = 0; first < h.rows; first += h.chunk) {
        CLT_TRY(head_logits(e, &h, first));
        clt_emit_cross_entropy(e, &h.part, group);
    }
    clt_emit_loss_record(e, call, h.row_sums, h.rows);
    return CLT_OK;
}
/* Emits dx of the chunk's rows, from the gradients in `logits`. */
static clt_status head_dx(ocl_emitter *e, const head *h)
{
    const clt_call *call = h->call;
    ocl_gemm g = ocl_gemm_make((int64_t)h->part.rows, h->in, h->out, false, false);
    if (call->din[0] < 0)
        return CLT_OK;
    g.type_a = h->dtype;
    g.type_b = clt_call_dtype(call, call->param[0]);
    g.type_c = clt_call_dtype(call, call->din[0]);
    g.a = ocl_ref(h->logits);
    g.b = ocl_ref(call->param[0]);
    g.c = head_rows(h, call->din[0], h->in);
    g.beta = call->din_accumulate[0] ? 1.0f : 0.0f;
    g.activation = call->epilogue.activation;
    g.dact = head_rows(h, call->epilogue.dact, h->in);
    return ocl_gemm_emit(e, &g, NULL);
}

/* Emits the chunk's contribution to dW and db; contributions after the first are added. */
static clt_status head_dw(ocl_emitter *e, const head *h)
{
    const clt_call *call = h->call;
    bool bias = call->node->n_param > 1 && call->dparam[1] >= 0;
    ocl_line_sums sums = {.out = bias ? call->dparam[1] : -1,
                          .accumulate = h->part.first > 0 || call->dparam_accumulate[1]};
    if (call->dparam[0] >= 0) {
        ocl_gemm g = ocl_gemm_make(h->out, h->in, (int64_t)h->part.rows, true, false);
        g.type_a = h->dtype;
        g.type_b = h->dtype;
        g.type_c = clt_call_dtype(call, call->dparam[0]);
        g.a = ocl_ref(h->logits);
        g.b = head_rows(h, call->in[0], h->in);
        g.c = ocl_ref(call->dparam[0]);
        g.beta = h->part.first > 0 || call->dparam_accumulate[0] ? 1.0f : 0.0f;
        g.line_sums = clt_bias_sums(call, &sums);
        CLT_TRY(ocl_gemm_emit(e, &g, NULL));
    }
    if (bias && !sums.made)
        clt_emit_bias_grad(e, call, sums.out, sums.accumulate, h->logits, (int64_t)h->part.rows, h->out);
    return CLT_OK;
}

static clt_status head_backward(ocl_emitter *e, const clt_call *call, bool group)
{
    head h = head_open(e, call, group);
    for (int64_t first = 0; first < h.rows; first += h.chunk) {
        CLT_TRY(head_logits(e, &h, first));
        clt_emit_cross_entropy_in_place(e, &h.part, group);
        CLT_TRY(head_dx(e, &h));
        CLT_TRY(head_dw(e, &h));
    }
    if (call->record)
        clt_emit_loss_record(e, call, h.row_sums, h.rows);
    return CLT_OK;
}
CLT_GROUP_ROW_VARIANTS(head_forward, NULL, NULL)
CLT_GROUP_ROW_VARIANTS(head_backward, NULL, NULL)

CLT_OP_DOC(
    linear_cross_entropy,
    .text = "A linear layer and the cross entropy of its output in one op, which computes some rows at a "
            "time, so that the logits never exist as a whole. The plan makes it where a linear layer is "
            "followed by cross_entropy.",
    .inputs = "x: (N,...,I), f32, f16 or bf16\ntarget: class numbers, one for each row, u8, u16 or i32",
    .params = "weight: (out,I); bias: (out) unless bias is false");

CLT_OP_DEFINE(linear_cross_entropy,
              "cross_entropy of a linear layer's outputs, some rows at a time; made by the plan", 2, 2,
              CLT_OP_ATTRS(head_attrs), .flags = CLT_OP_LOSS | CLT_OP_CORRECT | CLT_OP_FUSED | CLT_OP_GEMM_DX,
              .infer = head_infer, CLT_OP_VARIANTS(head), .no_grad_inputs = 2);
