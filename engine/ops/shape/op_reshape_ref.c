/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference and test cases of reshape and flatten. */
#include "engine/ops/case.h"

static void view_forward(clt_ref_call *call)
{
    for (int64_t i = 0; i < clt_shape_elements(&call->in[0].shape); i++)
        call->out[0].data[i] = call->in[0].data[i];
}

static void view_backward(clt_ref_call *call)
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
static const clt_op_case flatten_cases[] = {
    CLT_CASE("one", NULL, CLT_SMALL | CLT_EXACT, CLT_CASE_F32(1, 1)),
    CLT_CASE("scalar_per_sample", NULL, CLT_SMALL | CLT_EXACT, CLT_CASE_F32(5)),
    CLT_CASE("image", NULL, CLT_SMALL | CLT_EXACT, CLT_CASE_F32(3, 5, 7)),
    CLT_CASE("deep", NULL, CLT_EXACT, CLT_CASE_F32(2, 3, 4, 5, 6)),
};

CLT_OP_REF(reshape, view_forward, view_backward, reshape_cases, .tolerance = 1);
CLT_OP_REF(flatten, view_forward, view_backward, flatten_cases, .tolerance = 1);
