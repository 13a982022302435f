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

extern const clt_op_ref clt_op_mse_ref;
/* Each term is rounded three times; sums run in blocks of 16 lanes and 1024 elements. */
const clt_op_ref clt_op_mse_ref = {
    mse_forward, mse_backward, clt_pointwise_cases, CLT_POINTWISE_CASES, 8, CLT_TIMED(clt_pointwise_timed)};
