/* SPDX-License-Identifier: Apache-2.0
 *
 * Double-precision reference of mse; its formulas and test cases are in pointwise_loss_ref.c. */
#include "engine/ops/case.h"
#include "engine/ops/loss/pointwise_loss.h"

static void mse_forward(clt_ref_call *call)
{
    clt_pointwise_loss_ref_forward(call, CLT_POINTWISE_MSE);
}
static void mse_backward(clt_ref_call *call)
{
    clt_pointwise_loss_ref_backward(call, CLT_POINTWISE_MSE);
}

/* Each term is rounded three times; sums run in blocks of 16 lanes and 1024 elements. */
CLT_OP_REF(mse, mse_forward, mse_backward, clt_pointwise_cases, .tolerance = 8,
           CLT_TIMED(clt_pointwise_timed));
