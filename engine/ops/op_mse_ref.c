/* SPDX-License-Identifier: Apache-2.0
 *
 * Reference and test cases of mse; the formulas are in pointwise_loss_ref.c. */
#include "engine/ops/case.h"
#include "engine/ops/pointwise_loss.h"

static void mse_forward(clt_ref_call *call)
{
    clt_pointwise_loss_ref_forward(call, CLT_POINTWISE_MSE);
}
static void mse_backward(clt_ref_call *call)
{
    clt_pointwise_loss_ref_backward(call, CLT_POINTWISE_MSE);
}

/* Each term is rounded three times; sums run in blocks of 16 lanes and 1024 elements. */
static const clt_op_case mse_cases[] = {
    {.name = "one", .n_inputs = 2, .inputs = {CLT_CASE_F32(1, 1), CLT_CASE_F32(1, 1)}, .small = true},
    {.name = "scalar_per_sample",
     .n_inputs = 2,
     .inputs = {CLT_CASE_F32(7, 1), CLT_CASE_F32(7)},
     .small = true},
    {.name = "odd", .n_inputs = 2, .inputs = {CLT_CASE_F32(5, 7), CLT_CASE_F32(5, 7)}, .small = true},
    {.name = "byte_targets",
     .n_inputs = 2,
     .inputs = {CLT_CASE_F32(3, 11), CLT_CASE_BINARY(CLT_U8, 3, 11)},
     .small = true},
    {.name = "weight",
     .attrs = "{\"weight\":2.5}",
     .n_inputs = 2,
     .inputs = {CLT_CASE_F32(4, 3, 5), CLT_CASE_F32(4, 3, 5)},
     .small = true},
    {.name = "one_block", .n_inputs = 2, .inputs = {CLT_CASE_F32(2, 512), CLT_CASE_F32(2, 512)}},
    {.name = "block_tail", .n_inputs = 2, .inputs = {CLT_CASE_F32(3, 1371), CLT_CASE_F32(3, 1371)}},
    {.name = "two_stage", .n_inputs = 2, .inputs = {CLT_CASE_F32(70, 1001), CLT_CASE_F32(70, 1001)}},
};

extern const clt_op_ref clt_op_mse_ref;
const clt_op_ref clt_op_mse_ref = {mse_forward, mse_backward, mse_cases, CLT_CASE_COUNT(mse_cases), 8};
