/* SPDX-License-Identifier: Apache-2.0
 *
 * Double-precision reference and test cases of matmul. */
#include "engine/ops/case.h"

typedef struct matmul_view {
    int64_t batch, m, n, k, a_row, a_col, b_row, b_col;
    double scale;
} matmul_view;

static matmul_view matmul_look(const clt_ref_call *call)
{
    const clt_shape *a = &call->in[0].shape, *y = &call->out[0].shape;
    bool ta = clt_node_attr(call->node, "transpose_a")->b, tb = clt_node_attr(call->node, "transpose_b")->b;
    matmul_view v = {.batch = 1, .m = y->dim[y->ndim - 2], .n = y->dim[y->ndim - 1]};
    for (int i = 0; i < a->ndim - 2; i++)
        v.batch *= a->dim[i];
    v.k = a->dim[ta ? a->ndim - 2 : a->ndim - 1];
    v.a_row = ta ? 1 : v.k;
    v.a_col = ta ? v.m : 1;
    v.b_row = tb ? 1 : v.n;
    v.b_col = tb ? v.k : 1;
    v.scale = clt_node_attr(call->node, "scale")->f;
    return v;
}

static void matmul_forward(clt_ref_call *call)
{
    matmul_view v = matmul_look(call);
    for (int64_t z = 0; z < v.batch; z++) {
        const double *a = call->in[0].data + z * v.m * v.k, *b = call->in[1].data + z * v.k * v.n;
        double *y = call->out[0].data + z * v.m * v.n;
        for (int64_t i = 0; i < v.m; i++) {
            for (int64_t j = 0; j < v.n; j++) {
                double sum = 0.0;
                for (int64_t k = 0; k < v.k; k++)
                    sum += a[i * v.a_row + k * v.a_col] * b[k * v.b_row + j * v.b_col];
                y[i * v.n + j] = v.scale * sum;
            }
        }
    }
}

static void matmul_backward(clt_ref_call *call)
{
    matmul_view v = matmul_look(call);
    for (int64_t z = 0; z < v.batch; z++) {
        int64_t a0 = z * v.m * v.k, b0 = z * v.k * v.n;
        const double *dy = call->dout[0].data + z * v.m * v.n;
        for (int64_t i = 0; i < v.m; i++) {
            for (int64_t j = 0; j < v.n; j++) {
                double g = v.scale * dy[i * v.n + j];
                for (int64_t k = 0; k < v.k; k++) {
                    int64_t ai = a0 + i * v.a_row + k * v.a_col, bi = b0 + k * v.b_row + j * v.b_col;
                    if (call->din[0].data)
                        call->din[0].data[ai] += g * call->in[1].data[bi];
                    if (call->din[1].data)
                        call->din[1].data[bi] += g * call->in[0].data[ai];
                }
            }
        }
    }
}

/* As for linear: sums have at most 130 products, so 32 is more than twice sqrt(130). Scales of exact cases
 * are powers of two. */
static const clt_op_case matmul_cases[] = {
    CLT_CASE("one", NULL, CLT_SMALL | CLT_EXACT, CLT_CASE_F32(1, 1, 1), CLT_CASE_F32(1, 1, 1)),
    CLT_CASE("nn", NULL, CLT_SMALL | CLT_EXACT, CLT_CASE_F32(2, 3, 5), CLT_CASE_F32(2, 5, 7)),
    CLT_CASE("nt", "{\"transpose_b\":true}", CLT_SMALL | CLT_EXACT, CLT_CASE_F32(2, 3, 5),
             CLT_CASE_F32(2, 7, 5)),
    CLT_CASE("tn", "{\"transpose_a\":true}", CLT_SMALL | CLT_EXACT, CLT_CASE_F32(2, 5, 3),
             CLT_CASE_F32(2, 5, 7)),
    CLT_CASE("tt", "{\"transpose_a\":true,\"transpose_b\":true}", CLT_SMALL | CLT_EXACT,
             CLT_CASE_F32(2, 5, 3), CLT_CASE_F32(2, 7, 5)),
    CLT_CASE("scaled_heads", "{\"transpose_b\":true,\"scale\":0.125}", CLT_EXACT, CLT_CASE_F32(2, 3, 17, 64),
             CLT_CASE_F32(2, 3, 19, 64)),
    CLT_CASE("odd_scale", "{\"scale\":-0.3}", 0, CLT_CASE_F32(3, 9, 11), CLT_CASE_F32(3, 11, 2)),
    CLT_CASE("row_times_column", NULL, CLT_EXACT, CLT_CASE_F32(5, 1, 33), CLT_CASE_F32(5, 33, 1)),
    CLT_CASE("column_times_row", NULL, CLT_EXACT, CLT_CASE_F32(5, 33, 1), CLT_CASE_F32(5, 1, 31)),
    CLT_CASE("tails_tt", "{\"transpose_a\":true,\"transpose_b\":true}", CLT_EXACT, CLT_CASE_F32(3, 130, 65),
             CLT_CASE_F32(3, 71, 130)),
    CLT_CASE("tails_tn", "{\"transpose_a\":true}", CLT_EXACT, CLT_CASE_F32(2, 67, 129),
             CLT_CASE_F32(2, 67, 66)),
};

static const clt_op_case matmul_timed[] = {
    CLT_CASE("scores_gpt2", "{\"transpose_b\":true,\"scale\":0.125}", 0, CLT_CASE_F32(4, 12, 256, 64),
             CLT_CASE_F32(4, 12, 256, 64)),
};

CLT_OP_REF(matmul, matmul_forward, matmul_backward, matmul_cases, .tolerance = 32, CLT_TIMED(matmul_timed));
