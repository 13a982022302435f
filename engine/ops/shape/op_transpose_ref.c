/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference and test cases of transpose. */
#include "engine/ops/case.h"

/* Index in the input of element `i` of the output. */
static int64_t transpose_source(const clt_ref_call *call, int64_t i)
{
    const clt_shape *x = &call->in[0].shape, *y = &call->out[0].shape;
    const clt_attr *perm = clt_node_attr(call->node, "perm");
    int64_t stride[CLT_MAX_DIMS], step = 1, source = 0;
    for (int d = x->ndim - 1; d >= 0; d--) {
        stride[d] = step;
        step *= x->dim[d];
    }
    for (int d = y->ndim - 1; d >= 0; d--) {
        source += i % y->dim[d] * stride[perm->list[d]];
        i /= y->dim[d];
    }
    return source;
}

static void transpose_forward(clt_ref_call *call)
{
    for (int64_t i = 0; i < clt_shape_elements(&call->out[0].shape); i++)
        call->out[0].data[i] = call->in[0].data[transpose_source(call, i)];
}

static void transpose_backward(clt_ref_call *call)
{
    for (int64_t i = 0; call->din[0].data && i < clt_shape_elements(&call->out[0].shape); i++)
        call->din[0].data[transpose_source(call, i)] += call->dout[0].data[i];
}

/* Copies: the error is zero; an accumulated gradient is rounded once. */
static const clt_op_case transpose_cases[] = {
    CLT_CASE("one", "{\"perm\":[0,2,1]}", CLT_SMALL | CLT_EXACT, CLT_CASE_F32(1, 1, 1)),
    CLT_CASE("same", "{\"perm\":[0,1,2]}", CLT_SMALL | CLT_EXACT, CLT_CASE_F32(2, 3, 5)),
    CLT_CASE("ones_move", "{\"perm\":[0,2,1,3]}", CLT_SMALL | CLT_EXACT, CLT_CASE_F32(2, 1, 5, 3)),
    CLT_CASE("swap", "{\"perm\":[0,2,1]}", CLT_SMALL | CLT_EXACT, CLT_CASE_F32(2, 3, 5)),
    CLT_CASE("swap_tiles", "{\"perm\":[0,2,1]}", CLT_SMALL | CLT_EXACT, CLT_CASE_F32(3, 33, 47)),
    CLT_CASE("swap_single", "{\"perm\":[0,2,1]}", CLT_EXACT, CLT_CASE_F32(1, 17, 100)),
    {.name = "swap_long", /* whole tiles of the lane style, and incomplete ones in both dimensions */
     .attrs = "{\"perm\":[0,2,1]}",
     .n_inputs = 1,
     .inputs = {CLT_CASE_F32(4, 150, 75)},
     .exact = true},
    /* two-byte elements have their own transposition and stores; whole vectors and a remainder */
    {.name = "swap_bf16",
     .attrs = "{\"perm\":[0,2,1]}",
     .n_inputs = 1,
     .inputs = {CLT_CASE_FLOAT(CLT_BF16, 3, 144, 56)},
     .exact = true},
    CLT_CASE("swap_bf16_odd", "{\"perm\":[0,2,1]}", CLT_SMALL | CLT_EXACT,
             CLT_CASE_FLOAT(CLT_BF16, 3, 83, 45)),
    CLT_CASE("heads", "{\"perm\":[0,2,1,3]}", CLT_SMALL | CLT_EXACT, CLT_CASE_F32(2, 7, 3, 4)),
    CLT_CASE("channels_last", "{\"perm\":[0,2,3,1]}", CLT_EXACT, CLT_CASE_F32(2, 3, 9, 11)),
    CLT_CASE("reverse", "{\"perm\":[0,5,4,3,2,1]}", CLT_SMALL | CLT_EXACT, CLT_CASE_F32(2, 2, 3, 4, 3, 5)),
    CLT_CASE("cycle", "{\"perm\":[0,3,1,4,2]}", CLT_EXACT, CLT_CASE_F32(3, 4, 5, 2, 7)),
    CLT_CASE("big_heads", "{\"perm\":[0,2,1,3]}", CLT_EXACT, CLT_CASE_F32(4, 65, 6, 64)),
};

static const clt_op_case transpose_timed[] = {
    CLT_CASE("gpt2", "{\"perm\":[0,2,1,3]}", 0, CLT_CASE_F32(4, 64, 12, 64)),
    CLT_CASE("heads_large", "{\"perm\":[0,2,1,3]}", 0, CLT_CASE_F32(64, 512, 12, 64)),
    CLT_CASE("matrix_large", "{\"perm\":[0,2,1]}", 0, CLT_CASE_F32(4, 4096, 2048)),
};

CLT_OP_REF(transpose, transpose_forward, transpose_backward, transpose_cases, .tolerance = 1,
           CLT_TIMED(transpose_timed));
