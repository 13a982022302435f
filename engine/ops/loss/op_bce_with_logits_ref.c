/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference and test cases of bce_with_logits; the formulas are in pointwise_loss_ref.c. */
#include "engine/ops/case.h"
#include "engine/ops/loss/pointwise_loss.h"

static void bce_with_logits_forward(clt_ref_call *call)
{
    clt_pointwise_loss_ref_forward(call, CLT_POINTWISE_BCE);
}
static void bce_with_logits_backward(clt_ref_call *call)
{
    clt_pointwise_loss_ref_backward(call, CLT_POINTWISE_BCE);
}

/* exp and log1p of the device have errors of up to 3 ulp; sums are made in blocks. */
#define CLT_BIN(...) CLT_CASE_BINARY(CLT_F32, __VA_ARGS__)
static const clt_op_case bce_with_logits_cases[CLT_POINTWISE_CASES] = {
    CLT_POINTWISE_CASE_LIST(CLT_BIN),
    CLT_CASE("far", NULL, CLT_SMALL, CLT_CASE_WIDE(CLT_F32, 3, 37), CLT_BIN(3, 37)),
};

static const clt_op_case bce_with_logits_timed[] = {
    CLT_CASE("large", NULL, 0, CLT_CASE_F32(4096, 8192), CLT_CASE_BINARY(CLT_F32, 4096, 8192)),
};

CLT_OP_REF(bce_with_logits, bce_with_logits_forward, bce_with_logits_backward, bce_with_logits_cases,
           .tolerance = 8, CLT_TIMED(bce_with_logits_timed));
