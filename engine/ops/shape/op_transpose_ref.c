/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference and test cases of transpose. */
#include "engine/ops/case.h"

/* Element of the input that element `i` of the output is. */
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
    {.name = "one",
     .attrs = "{\"perm\":[0,2,1]}",
     .n_inputs = 1,
     .inputs = {CLT_CASE_F32(1, 1, 1)},
     .exact = true,
     .small = true},
    {.name = "same",
     .attrs = "{\"perm\":[0,1,2]}",
     .n_inputs = 1,
     .inputs = {CLT_CASE_F32(2, 3, 5)},
     .exact = true,
     .small = true},
    {.name = "ones_move",
     .attrs = "{\"perm\":[0,2,1,3]}",
     .n_inputs = 1,
     .inputs = {CLT_CASE_F32(2, 1, 5, 3)},
     .exact = true,
     .small = true},
    {.name = "swap",
     .attrs = "{\"perm\":[0,2,1]}",
     .n_inputs = 1,
     .inputs = {CLT_CASE_F32(2, 3, 5)},
     .exact = true,
     .small = true},
    {.name = "swap_tiles",
     .attrs = "{\"perm\":[0,2,1]}",
     .n_inputs = 1,
     .inputs = {CLT_CASE_F32(3, 33, 47)},
     .exact = true,
     .small = true},
    {.name = "swap_single",
     .attrs = "{\"perm\":[0,2,1]}",
     .n_inputs = 1,
     .inputs = {CLT_CASE_F32(1, 17, 100)},
     .exact = true},
    {.name = "swap_long", /* whole tiles of the lane form, and what is left of them on both sides */
     .attrs = "{\"perm\":[0,2,1]}",
     .n_inputs = 1,
     .inputs = {CLT_CASE_F32(4, 150, 75)},
     .exact = true},
    {.name = "swap_bf16", /* two bytes are turned and stored in ways of their own; whole vectors only, and a
                             rest */
     .attrs = "{\"perm\":[0,2,1]}",
     .n_inputs = 1,
     .inputs = {CLT_CASE_FLOAT(CLT_BF16, 3, 144, 56)},
     .exact = true},
    {.name = "swap_bf16_odd",
     .attrs = "{\"perm\":[0,2,1]}",
     .n_inputs = 1,
     .inputs = {CLT_CASE_FLOAT(CLT_BF16, 3, 83, 45)},
     .exact = true,
     .small = true},
    {.name = "heads",
     .attrs = "{\"perm\":[0,2,1,3]}",
     .n_inputs = 1,
     .inputs = {CLT_CASE_F32(2, 7, 3, 4)},
     .exact = true,
     .small = true},
    {.name = "channels_last",
     .attrs = "{\"perm\":[0,2,3,1]}",
     .n_inputs = 1,
     .inputs = {CLT_CASE_F32(2, 3, 9, 11)},
     .exact = true},
    {.name = "reverse",
     .attrs = "{\"perm\":[0,5,4,3,2,1]}",
     .n_inputs = 1,
     .inputs = {CLT_CASE_F32(2, 2, 3, 4, 3, 5)},
     .exact = true,
     .small = true},
    {.name = "cycle",
     .attrs = "{\"perm\":[0,3,1,4,2]}",
     .n_inputs = 1,
     .inputs = {CLT_CASE_F32(3, 4, 5, 2, 7)},
     .exact = true},
    {.name = "big_heads",
     .attrs = "{\"perm\":[0,2,1,3]}",
     .n_inputs = 1,
     .inputs = {CLT_CASE_F32(4, 65, 6, 64)},
     .exact = true},
};

static const clt_op_case transpose_timed[] = {
    CLT_TIMED_ONE("gpt2", "{\"perm\":[0,2,1,3]}", CLT_CASE_F32(4, 64, 12, 64)),
    CLT_TIMED_ONE("heads_large", "{\"perm\":[0,2,1,3]}", CLT_CASE_F32(64, 512, 12, 64)),
    CLT_TIMED_ONE("matrix_large", "{\"perm\":[0,2,1]}", CLT_CASE_F32(4, 4096, 2048)),
};

extern const clt_op_ref clt_op_transpose_ref;
const clt_op_ref clt_op_transpose_ref = {
    transpose_forward,         transpose_backward, transpose_cases, CLT_CASE_COUNT(transpose_cases), 1,
    CLT_TIMED(transpose_timed)};
