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

CLT_POINTWISE_VARIANTS(mse, CLT_POINTWISE_MSE)

CLT_OP_DOC(mse, .text = "The mean squared error, the usual loss for targets that are numbers.",
           .inputs =
               "x: (N,...), f32, f16 or bf16\ny: a field of the data with as many elements, f32, f16, bf16, "
               "u8, u16, i32 or u32",
           .example = "{\"op\": \"mse\"}", .before = "{\"op\": \"linear\", \"out\": 1}, ", .after = "",
           .data = CLT_DOC_NUMBERS);

CLT_OP_DEFINE(mse, "loss = mean (x - y)^2", 2, 2, CLT_OP_ATTRS(clt_pointwise_loss_attrs),
              .flags = CLT_OP_LOSS | CLT_OP_REGRESSION, .infer = clt_pointwise_loss_infer,
              CLT_OP_VARIANTS(mse), .no_grad_inputs = 2);
