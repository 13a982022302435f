/* SPDX-License-Identifier: Apache-2.0
 *
 * The op matmul: batched product of two activations. Knows matrices, no model. */
#include "engine/ops/emit_util.h"

/* matmul: y = scale * op(a) op(b), batched over equal leading dimensions
 * shapes  a (N,...,M,K) or (N,...,K,M), b (N,...,K,P) or (N,...,P,K) -> y (N,...,M,P)
 * dtypes  f32|f16|bf16; accumulates f32
 * grads   da, db: write or accumulate                           units   none
 * memory  no workspace of its own
 * errors  CLT_ESHAPE: leading or inner dimensions differ
 * source  -
 * tested  verify -t 'matmul*', tol 32, exact on integers */

static const clt_attr_spec matmul_attrs[] = {
    CLT_SPEC_BOOL("transpose_a", false, "a is stored (N,...,K,M)"),
    CLT_SPEC_BOOL("transpose_b", false, "b is stored (N,...,P,K)"),
    CLT_SPEC_FLOAT("scale", 1, -1e30, 1e30, "factor"),
};

typedef struct matmul_sizes {
    int64_t batch, m, n, k;
    bool ta, tb;
    float scale;
} matmul_sizes;

static matmul_sizes matmul_measure(const clt_node *node, const clt_shape *a, const clt_shape *b)
{
    int d = a->ndim;
    matmul_sizes s = {.batch = 1};
    s.ta = clt_node_attr(node, "transpose_a")->b;
    s.tb = clt_node_attr(node, "transpose_b")->b;
    s.scale = (float)clt_node_attr(node, "scale")->f;
    for (int i = 0; i < d - 2; i++)
        s.batch *= a->dim[i];
    s.m = a->dim[s.ta ? d - 1 : d - 2];
    s.k = a->dim[s.ta ? d - 2 : d - 1];
    s.n = b->dim[s.tb ? d - 2 : d - 1];
    return s;
}

static clt_status matmul_infer(clt_infer *ctx)
{
    CLT_TRY(clt_infer_need_float(ctx, 0));
    CLT_TRY(clt_infer_need_float(ctx, 1));
    clt_shape a = clt_infer_in(ctx, 0)->shape, b = clt_infer_in(ctx, 1)->shape;
    clt_dtype dtype = clt_infer_in(ctx, 0)->dtype;
    char ta[CLT_SHAPE_TEXT], tb[CLT_SHAPE_TEXT];
    clt_shape_text(&a, ta, sizeof ta);
    clt_shape_text(&b, tb, sizeof tb);
    if (a.ndim < 3 || a.ndim != b.ndim)
        return clt_infer_fail(
            ctx, "inputs %s and %s must have the same three or more dimensions (batch, rows, columns)", ta,
            tb);
    for (int i = 0; i < a.ndim - 2; i++)
        if (a.dim[i] != b.dim[i])
            return clt_infer_fail(ctx, "inputs %s and %s differ in leading dimension %d", ta, tb, i);
    matmul_sizes s = matmul_measure(ctx->node, &a, &b);
    int64_t k = b.dim[s.tb ? b.ndim - 1 : b.ndim - 2];
    if (k != s.k)
        return clt_infer_fail(ctx, "inner dimensions of %s%s and %s%s differ: %lld and %lld", ta,
                              s.ta ? " (transposed)" : "", tb, s.tb ? " (transposed)" : "", (long long)s.k,
                              (long long)k);
    clt_shape y = a;
    y.dim[y.ndim - 2] = s.m;
    y.dim[y.ndim - 1] = s.n;
    return clt_infer_out(ctx, dtype, &y);
}

/* Emits one product: c = scale * op(a) op(b) + beta * c over the whole batch. */
static clt_status matmul_emit(ocl_emitter *e, const clt_call *call, const matmul_sizes *s, int64_t m,
                              int64_t n, int64_t k, int32_t a, bool ta, int32_t b, bool tb, int32_t c,
                              bool accumulate)
{
    ocl_gemm g = ocl_gemm_make(m, n, k, ta, tb);
    g.batch = s->batch;
    g.stride_a = m * k;
    g.stride_b = k * n;
    g.stride_c = m * n;
    g.alpha = s->scale;
    g.beta = accumulate ? 1.0f : 0.0f;
    g.type_a = clt_call_dtype(call, a);
    g.type_b = clt_call_dtype(call, b);
    g.type_c = clt_call_dtype(call, c);
    g.a = ocl_ref(a);
    g.b = ocl_ref(b);
    g.c = ocl_ref(c);
    return ocl_gemm_emit(e, &g, NULL);
}

static matmul_sizes matmul_call_sizes(const clt_call *call)
{
    return matmul_measure(call->node, &clt_call_tensor(call, call->in[0])->shape,
                          &clt_call_tensor(call, call->in[1])->shape);
}

static clt_status matmul_forward(ocl_emitter *e, const void *problem)
{
    const clt_call *call = problem;
    matmul_sizes s = matmul_call_sizes(call);
    return matmul_emit(e, call, &s, s.m, s.n, s.k, call->in[0], s.ta, call->in[1], s.tb, call->out[0], false);
}

/* Emits d op(a) = scale * dy op(b)^T (M,K) and d op(b) = scale * op(a)^T dy (K,P), each transposed back if
 * its operand was stored transposed. */
static clt_status matmul_backward(ocl_emitter *e, const void *problem)
{
    const clt_call *call = problem;
    matmul_sizes s = matmul_call_sizes(call);
    int32_t a = call->in[0], b = call->in[1], dy = call->dout[0], da = call->din[0], db = call->din[1];
    bool add_a = call->din_accumulate[0], add_b = call->din_accumulate[1];
    if (da >= 0) {
        if (!s.ta)
            CLT_TRY(matmul_emit(e, call, &s, s.m, s.k, s.n, dy, false, b, !s.tb, da, add_a));
        else
            CLT_TRY(matmul_emit(e, call, &s, s.k, s.m, s.n, b, s.tb, dy, true, da, add_a));
    }
    if (db >= 0) {
        if (!s.tb)
            CLT_TRY(matmul_emit(e, call, &s, s.k, s.n, s.m, a, !s.ta, dy, false, db, add_b));
        else
            CLT_TRY(matmul_emit(e, call, &s, s.n, s.k, s.m, dy, true, a, s.ta, db, add_b));
    }
    return CLT_OK;
}

static const ocl_variant forward_gemm = {.name = "gemm", .emit = matmul_forward};
static const ocl_variant *const forward_variants[] = {&forward_gemm, NULL};
static const ocl_variant backward_gemm = {.name = "gemm", .emit = matmul_backward};
static const ocl_variant *const backward_variants[] = {&backward_gemm, NULL};

CLT_OP_DOC(matmul,
           .text = "The matrix product of two tensors, for each sample and each of the leading dimensions.",
           .inputs = "a: (N,...,M,K), or (N,...,K,M) with transpose_a, f32, f16 or bf16\nb: (N,...,K,P), or "
                     "(N,...,P,K) with transpose_b, the type of a",
           .output = "y: (N,...,M,P)",
           .example = "{\"op\": \"matmul\", \"inputs\": [\"x\", \"x\"], \"transpose_b\": true}", .before = "",
           CLT_DOC_CLASSES_AFTER);

CLT_OP_DEFINE(matmul, "y = scale * op(a) op(b), batched over equal leading dimensions", 2, 2,
              CLT_OP_ATTRS(matmul_attrs), .infer = matmul_infer, .forward = {.variants = forward_variants},
              .backward = {.variants = backward_variants});
