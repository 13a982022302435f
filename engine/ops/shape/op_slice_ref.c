/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference and test cases of slice. */
#include "engine/ops/case.h"

/* Index in the input of element `i` of the output. */
static int64_t slice_source(const clt_ref_call *call, int64_t i)
{
    const clt_shape *x = &call->in[0].shape, *y = &call->out[0].shape;
    int64_t given = clt_node_attr(call->node, "axis")->i, start = clt_node_attr(call->node, "start")->i;
    int axis = (int)(given < 0 ? given + x->ndim : given);
    int64_t source = 0, step = 1;
    for (int d = x->ndim - 1; d >= 0; d--) {
        int64_t at = i % y->dim[d] + (d == axis ? start : 0);
        source += at * step;
        step *= x->dim[d];
        i /= y->dim[d];
    }
    return source;
}

static void slice_forward(clt_ref_call *call)
{
    for (int64_t i = 0; i < clt_shape_elements(&call->out[0].shape); i++)
        call->out[0].data[i] = call->in[0].data[slice_source(call, i)];
}

static void slice_backward(clt_ref_call *call)
{
    for (int64_t i = 0; call->din[0].data && i < clt_shape_elements(&call->out[0].shape); i++)
        call->din[0].data[slice_source(call, i)] += call->dout[0].data[i];
}

/* Copies: the error is zero; an accumulated gradient is rounded once. */
static const clt_op_case slice_cases[] = {
    CLT_CASE("one", "{\"axis\":1}", CLT_SMALL | CLT_EXACT, CLT_CASE_F32(1, 1)),
    CLT_CASE("head", "{\"axis\":1,\"stop\":3}", CLT_SMALL | CLT_EXACT, CLT_CASE_F32(5, 7)),
    CLT_CASE("tail", "{\"axis\":-1,\"start\":4}", CLT_SMALL | CLT_EXACT, CLT_CASE_F32(5, 7)),
    CLT_CASE("middle", "{\"axis\":2,\"start\":1,\"stop\":4}", CLT_SMALL | CLT_EXACT, CLT_CASE_F32(2, 3, 5)),
    CLT_CASE("inner_axis", "{\"axis\":1,\"start\":2,\"stop\":3}", CLT_SMALL | CLT_EXACT,
             CLT_CASE_F32(3, 4, 6, 2)),
    CLT_CASE("whole", "{\"axis\":1}", CLT_EXACT, CLT_CASE_F32(3, 65)),
    CLT_CASE("long_run", "{\"axis\":1,\"start\":1,\"stop\":4}", CLT_EXACT, CLT_CASE_F32(2, 5, 3001)),
    CLT_CASE("vectors", "{\"axis\":2,\"start\":32,\"stop\":80}", CLT_SMALL | CLT_EXACT,
             CLT_CASE_F32(3, 5, 96)),
    CLT_CASE("vectors_bf16", "{\"axis\":1,\"start\":1,\"stop\":3}", CLT_EXACT,
             CLT_CASE_FLOAT(CLT_BF16, 3, 4, 32)),
    CLT_CASE("long_vectors", "{\"axis\":1,\"start\":4080,\"stop\":8304}", CLT_SMALL | CLT_EXACT,
             CLT_CASE_F32(2, 12304)),
    CLT_CASE("many_rows", "{\"axis\":2,\"start\":3,\"stop\":20}", CLT_EXACT, CLT_CASE_F32(13, 101, 33)),
};

static const clt_op_case slice_timed[] = {
    CLT_CASE("large", "{\"axis\":2,\"start\":768,\"stop\":1536}", 0, CLT_CASE_F32(32, 512, 2304)),
};

CLT_OP_REF(slice, slice_forward, slice_backward, slice_cases, .tolerance = 1, CLT_TIMED(slice_timed));
