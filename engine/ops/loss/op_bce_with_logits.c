/* SPDX-License-Identifier: Apache-2.0
 *
 * The loss bce_with_logits: the shared pointwise emission with its own formula. Knows no model. */
#include "engine/ops/emit_util.h"
#include "engine/ops/loss/pointwise_loss.h"

/* bce_with_logits: loss = sum max(x,0) - x y + log(1+exp(-|x|)) / normaliser (elements of the global batch)
 * shapes  x (N,...), y the same number of elements -> record (4)
 * dtypes  x f32|f16|bf16; y these or u8|u16|i32|u32; arithmetic f32
 * grads   dx = (sigmoid(x) - y) * weight/normaliser * loss_scale: write or accumulate
 * memory  workspace 12 bytes per 1024 elements                  units   nats
 * source  torch.nn.functional.binary_cross_entropy_with_logits; correct: x > 0 exactly when y > 0.5
 * errors  CLT_ESHAPE: types, element counts
 * tested  verify -t 'bce_with_logits*', tol 8 */

CLT_POINTWISE_VARIANTS(bce_with_logits, CLT_POINTWISE_BCE)

CLT_OP_DOC(
    bce_with_logits,
    .text = "The loss for answers that are yes or no, one or several for each sample, sigmoid included: give "
            "it logits. Accuracy counts the elements where x is above 0 exactly when y is above 0.5.",
    .inputs = "x: logits (N,...), f32, f16 or bf16\ny: a field of the data with as many elements from 0 to "
              "1, f32, f16, bf16, u8, u16, i32 or u32",
    .example = "{\"op\": \"bce_with_logits\"}", .before = "{\"op\": \"linear\", \"out\": 1}, ", .after = "",
    .data = CLT_DOC_NUMBERS);

CLT_OP_DEFINE(bce_with_logits, "loss = mean of -(y log s(x) + (1-y) log(1-s(x))), s the sigmoid", 2, 2,
              CLT_OP_ATTRS(clt_pointwise_loss_attrs), .flags = CLT_OP_LOSS | CLT_OP_CORRECT,
              .infer = clt_pointwise_loss_infer, CLT_OP_VARIANTS(bce_with_logits), .no_grad_inputs = 2);
