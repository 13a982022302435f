/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference and test cases of concat. */
#include "engine/ops/case.h"

/* Forward (back = false): copies every input to its part of the output. Backward: adds that part of the
 * output's gradient to the input's gradient, if it is wanted. */
static void concat_move(clt_ref_call *call, bool back)
{
    const clt_shape *y = &call->out[0].shape;
    int64_t given = clt_node_attr(call->node, "axis")->i, inner = 1, outer = 1, start = 0;
    int axis = (int)(given < 0 ? given + y->ndim : given);
    for (int d = 0; d < y->ndim; d++) {
        if (d < axis)
            outer *= y->dim[d];
        if (d > axis)
            inner *= y->dim[d];
    }
    for (int i = 0; i < call->n_in; i++) {
        int64_t run = call->in[i].shape.dim[axis] * inner;
        for (int64_t o = 0; o < outer; o++) {
            for (int64_t k = 0; k < run; k++) {
                int64_t at = o * y->dim[axis] * inner + start + k;
                if (!back)
                    call->out[0].data[at] = call->in[i].data[o * run + k];
                else if (call->din[i].data)
                    call->din[i].data[o * run + k] += call->dout[0].data[at];
            }
        }
        start += run;
    }
}

static void concat_forward(clt_ref_call *call)
{
    concat_move(call, false);
}
static void concat_backward(clt_ref_call *call)
{
    concat_move(call, true);
}

/* Copies: the error is zero; an accumulated gradient is rounded once. */
static const clt_op_case concat_cases[] = {
    CLT_CASE("one_input", NULL, CLT_SMALL | CLT_EXACT, CLT_CASE_F32(3, 5)),
    CLT_CASE("two", NULL, CLT_SMALL | CLT_EXACT, CLT_CASE_F32(3, 5), CLT_CASE_F32(3, 2)),
    CLT_CASE("three_inner", "{\"axis\":1}", CLT_SMALL | CLT_EXACT, CLT_CASE_F32(2, 1, 7),
             CLT_CASE_F32(2, 3, 7), CLT_CASE_F32(2, 2, 7)),
    CLT_CASE("middle", "{\"axis\":-2}", CLT_SMALL | CLT_EXACT, CLT_CASE_F32(2, 3, 4, 5),
             CLT_CASE_F32(2, 3, 1, 5)),
    CLT_CASE("long", "{\"axis\":1}", CLT_EXACT, CLT_CASE_F32(2, 4099), CLT_CASE_F32(2, 8195)),
    CLT_CASE("vectors", "{\"axis\":2}", CLT_SMALL | CLT_EXACT, CLT_CASE_F32(2, 3, 48),
             CLT_CASE_F32(2, 3, 16)),
    CLT_CASE("vectors_bf16", NULL, CLT_EXACT, CLT_CASE_FLOAT(CLT_BF16, 3, 4112),
             CLT_CASE_FLOAT(CLT_BF16, 3, 32)),
    CLT_CASE("sixteen", NULL, CLT_EXACT, CLT_CASE_F32(3, 1), CLT_CASE_F32(3, 2), CLT_CASE_F32(3, 3),
             CLT_CASE_F32(3, 4), CLT_CASE_F32(3, 5), CLT_CASE_F32(3, 6), CLT_CASE_F32(3, 7),
             CLT_CASE_F32(3, 8), CLT_CASE_F32(3, 9), CLT_CASE_F32(3, 10), CLT_CASE_F32(3, 11),
             CLT_CASE_F32(3, 12), CLT_CASE_F32(3, 13), CLT_CASE_F32(3, 14), CLT_CASE_F32(3, 15),
             CLT_CASE_F32(3, 16)),
};

static const clt_op_case concat_timed[] = {
    CLT_CASE("large", "{\"axis\":2}", 0, CLT_CASE_F32(32, 512, 768), CLT_CASE_F32(32, 512, 1536)),
};

CLT_OP_REF(concat, concat_forward, concat_backward, concat_cases, .tolerance = 1, CLT_TIMED(concat_timed));
