/* SPDX-License-Identifier: Apache-2.0
 *
 * The loss mse: the shared pointwise emission with its own formula. Knows no model. */
#include "engine/ops/emit_util.h"
#include "engine/ops/loss/pointwise_loss.h"

/* mse: loss = sum (x - y)^2 / normaliser (elements of the global batch)
 * shapes  x (N,...), y the same number of elements -> record (4)
 * dtypes  x f32|f16|bf16; y these or u8|u16|i32|u32; arithmetic f32
 * grads   dx = 2 (x - y) * weight/normaliser * loss_scale: write or accumulate
 * memory  workspace 12 bytes per 1024 elements                  units   square of y's unit
 * source  torch.nn.functional.mse_loss
 * errors  CLT_ESHAPE: types, element counts                     tested  verify -t 'mse*', tol 8 */

static clt_status mse_fwd_group(ocl_emitter *e, const void *problem)
{
    return clt_pointwise_loss_forward(e, problem, CLT_POINTWISE_MSE, true);
}
static clt_status mse_fwd_row(ocl_emitter *e, const void *problem)
{
    return clt_pointwise_loss_forward(e, problem, CLT_POINTWISE_MSE, false);
}
static clt_status mse_bwd(ocl_emitter *e, const clt_call *call, clt_style style)
{
    return clt_pointwise_loss_backward(e, call, CLT_POINTWISE_MSE, style);
}
CLT_ELEMENTWISE_VARIANTS(mse_bwd)

static const ocl_variant fwd_group = {
    .name = "group", .needs = OCL_CAP_LOCAL, .emit = mse_fwd_group, .style = OCL_KERNEL_GROUPS};
static const ocl_variant fwd_row = {.name = "row", .emit = mse_fwd_row, .written_for = OCL_CAP_WIDE_VECTORS};
static const ocl_variant *const fwd_variants[] = {&fwd_group, &fwd_row, NULL};

extern const clt_op_ref clt_op_mse_ref;
static const clt_op_doc mse_doc = {
    .text = "The mean squared error, the usual loss for targets that are numbers.",
    .inputs = "x: (N,...), f32, f16 or bf16\ny: a field of the data with as many elements, f32, f16, bf16, "
              "u8, u16, i32 or u32",
    .example = "{\"op\": \"mse\"}",
    .before = "{\"op\": \"linear\", \"out\": 1}, ",
    .after = "",
    .data = CLT_DOC_NUMBERS,
};

extern const clt_op clt_op_mse;
const clt_op clt_op_mse = {
    .name = "mse",
    .summary = "loss = mean (x - y)^2",
    .doc = &mse_doc,
    .attrs = clt_pointwise_loss_attrs,
    .n_attrs = 1,
    .min_in = 2,
    .max_in = 2,
    .flags = CLT_OP_LOSS,
    .infer = clt_pointwise_loss_infer,
    .forward = {.variants = fwd_variants},
    .backward = {.variants = mse_bwd_variants},
    .no_grad_inputs = 2,
    .ref = &clt_op_mse_ref,
};
