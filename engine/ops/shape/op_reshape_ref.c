/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference and test cases of reshape. */
#include "engine/ops/case.h"

static void reshape_forward(clt_ref_call *call)
{
    for (int64_t i = 0; i < clt_shape_elements(&call->in[0].shape); i++)
        call->out[0].data[i] = call->in[0].data[i];
}

static void reshape_backward(clt_ref_call *call)
{
    for (int64_t i = 0; call->din[0].data && i < clt_shape_elements(&call->in[0].shape); i++)
        call->din[0].data[i] += call->dout[0].data[i];
}

/* The same bytes: the error is zero; an accumulated gradient is rounded once. */
static const clt_op_case reshape_cases[] = {
    CLT_CASE("one", "{\"shape\":[1,1]}", CLT_SMALL | CLT_EXACT, CLT_CASE_F32(1, 1)),
    CLT_CASE("split", "{\"shape\":[3,-1]}", CLT_SMALL | CLT_EXACT, CLT_CASE_F32(2, 15)),
    CLT_CASE("join", "{\"shape\":[-1]}", CLT_SMALL | CLT_EXACT, CLT_CASE_F32(3, 5, 7)),
    CLT_CASE("explicit", "{\"shape\":[4,3,5]}", CLT_EXACT, CLT_CASE_F32(33, 5, 12)),
};

CLT_OP_REF(reshape, reshape_forward, reshape_backward, reshape_cases, .tolerance = 1);
