/* SPDX-License-Identifier: Apache-2.0
 *
 * What the losses that are a sum over elements share: mse, l1, bce_with_logits. */
#ifndef ENGINE_OPS_POINTWISE_LOSS_H
#define ENGINE_OPS_POINTWISE_LOSS_H

#include "engine/ops/elementwise.h"
#include "engine/ops/loss.h"

/* Values of KIND in kernels/pointwise_loss.cl. */
typedef enum clt_pointwise_kind { CLT_POINTWISE_MSE, CLT_POINTWISE_L1, CLT_POINTWISE_BCE } clt_pointwise_kind;

extern const clt_attr_spec clt_pointwise_loss_attrs[1]; /* weight */

clt_status clt_pointwise_loss_infer(clt_infer *ctx);
clt_status clt_pointwise_loss_forward(ocl_emitter *e, const clt_call *call, clt_pointwise_kind kind,
                                      bool group);
clt_status clt_pointwise_loss_backward(ocl_emitter *e, const clt_call *call, clt_pointwise_kind kind,
                                       clt_style style);

/* The double reference of both directions (pointwise_loss_ref.c). */
void clt_pointwise_loss_ref_forward(clt_ref_call *call, clt_pointwise_kind kind);
void clt_pointwise_loss_ref_backward(clt_ref_call *call, clt_pointwise_kind kind);
/* Cases of the losses whose targets are any numbers. */
#define CLT_POINTWISE_CASES 8
extern const clt_op_case clt_pointwise_cases[CLT_POINTWISE_CASES];

#endif
