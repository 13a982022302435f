/* SPDX-License-Identifier: Apache-2.0
 *
 * The loss l1: the shared pointwise emission with its own formula. Knows no model. */
#include "engine/ops/emit_util.h"
#include "engine/ops/loss/pointwise_loss.h"

/* l1: loss = sum |x - y| / normaliser (elements of the global batch)
 * shapes  x (N,...), y the same number of elements -> record (4)
 * dtypes  x f32|f16|bf16; y these or u8|u16|i32|u32; arithmetic f32
 * grads   dx = sign(x - y), 0 at 0, * weight/normaliser * loss_scale: write or accumulate
 * memory  workspace 12 bytes per 1024 elements                  units   unit of y
 * source  torch.nn.functional.l1_loss
 * errors  CLT_ESHAPE: types, element counts                     tested  verify -t 'l1*', tol 8 */

CLT_POINTWISE_VARIANTS(l1, CLT_POINTWISE_L1)

CLT_OP_DOC(l1, .text = "The mean absolute error: less moved by single targets that are far off than mse.",
           .inputs =
               "x: (N,...), f32, f16 or bf16\ny: a field of the data with as many elements, f32, f16, bf16, "
               "u8, u16, i32 or u32",
           .example = "{\"op\": \"l1\"}", .before = "{\"op\": \"linear\", \"out\": 1}, ", .after = "",
           .data = CLT_DOC_NUMBERS);

CLT_OP_DEFINE(l1, "loss = mean |x - y|", 2, 2, CLT_OP_ATTRS(clt_pointwise_loss_attrs),
              .flags = CLT_OP_LOSS | CLT_OP_REGRESSION, .infer = clt_pointwise_loss_infer,
              CLT_OP_VARIANTS(l1), .no_grad_inputs = 2);
